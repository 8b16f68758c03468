// What a person would find wrong with the page that is open, as sentences. Run by tests/e2e_pages.py.
() => {
  const found = new Set();
  // Characters that reorder, hide or control text, in what is read and in what is shown on hover.
  const HIDDEN = new RegExp(
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u202a-\\u202e\\u2066-\\u2069]",
  );
  const SLIPS = /\bundefined\b|\[object |Invalid Date|\bnull\b/;
  const called = (element) =>
    `${element.tagName.toLowerCase()}.${[...element.classList].join(".")} ` +
    JSON.stringify((element.textContent ?? "").trim().slice(0, 60));
  const isSeen = (element) => {
    const { width, height } = element.getBoundingClientRect();
    if (!element.checkVisibility() || width < 2 || height < 2 || element.closest("[aria-hidden=true], .visually-hidden")) return false;
    return getComputedStyle(element).visibility !== "hidden";
  };

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const holders = new Set();
  while (texts.nextNode() !== null) {
    const text = texts.currentNode.textContent;
    const holder = texts.currentNode.parentElement;
    if (text.trim() === "" || holder.closest("script, style") !== null) continue;
    if (HIDDEN.test(text)) found.add(`it holds a character that is not seen: ${called(holder)}`);
    if (!isSeen(holder)) continue;
    holders.add(holder);
    if (holder.closest("pre, [data-foreign]") !== null) continue;
    if (SLIPS.test(text)) found.add(`it shows a program's slip: ${called(holder)}`);
    if (/\bNaN\b/.test(text) && text.length < 20 && holder.closest("[data-non-finite]") === null)
      found.add(`it shows NaN and marks it as nothing: ${called(holder)}`);
  }
  for (const element of document.querySelectorAll("[title], [aria-label], [placeholder]"))
    for (const name of ["title", "aria-label", "placeholder"])
      if (HIDDEN.test(element.getAttribute(name) ?? ""))
        found.add(`its ${name} holds a character that is not seen: ${called(element)}`);
  if (HIDDEN.test(document.title)) found.add("the page's title holds a character that is not seen");

  // Text that leaves its box, or ends in it without saying so.
  for (const holder of holders) {
    const look = getComputedStyle(holder);
    if (look.display === "inline" || holder.clientWidth === 0) continue;
    const is_wide = holder.scrollWidth > holder.clientWidth + 1;
    const is_high = holder.scrollHeight > holder.clientHeight + 3;
    if (is_wide && look.overflowX === "visible") found.add(`it spills out of its box: ${called(holder)}`);
    if (is_wide && ["hidden", "clip"].includes(look.overflowX)) {
      if (look.textOverflow !== "ellipsis") found.add(`it is cut off: ${called(holder)}`);
      else if (holder.closest("[title]") === null && holder.querySelector("[title]") === null)
        found.add(`it is cut and the whole is nowhere: ${called(holder)}`);
    }
    if (is_high && look.overflowY === "hidden" && look.webkitLineClamp === "none")
      found.add(`its lower part is cut off: ${called(holder)}`);
  }

  // What can be pressed has to be what lies on top where it is.
  for (const element of document.querySelectorAll("a[href], button, input, select, summary")) {
    if (!isSeen(element) || element.disabled) continue;
    const box = element.getClientRects()[0];
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    if (x < 0 || y < 0 || x > innerWidth || y > innerHeight) continue;
    let is_scrolled_away = false;
    for (let above = element.parentElement; above !== null; above = above.parentElement) {
      const frame = above.getBoundingClientRect();
      const clips = getComputedStyle(above).overflow !== "visible";
      if (clips && (x < frame.left || x > frame.right || y < frame.top || y > frame.bottom))
        is_scrolled_away = true;
    }
    const top = document.elementFromPoint(x, y);
    if (is_scrolled_away || top === null || element.contains(top) || top.contains(element)) continue;
    if (top.closest("th, thead, header, dialog, details") !== null) continue; // what sticks or opened
    found.add(`${called(element)} cannot be pressed: ${called(top)} lies over it`);
  }
  return [...found].slice(0, 20);
}
