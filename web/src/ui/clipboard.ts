/** Puts text on the clipboard, also on a page that came over plain HTTP from another machine: such
 * a page has no `navigator.clipboard`, only the older way. Throws where the browser refuses. */
export async function putOnClipboard(text: string): Promise<void> {
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard !== undefined) {
    await clipboard.writeText(text);
    return;
  }
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  area.style.opacity = "0";
  // Inside an open dialog: what is outside of one cannot be focused.
  const dialogs = [...document.querySelectorAll("dialog[open]")];
  (dialogs.at(-1) ?? document.body).append(area);
  area.select();
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way there is on such a page
  const is_done = document.execCommand("copy");
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!is_done) throw new Error("the browser refused");
}
