import { Dialog } from "../ui/Dialog";
import css from "./HelpDialog.module.css";

const SHORTCUTS: readonly (readonly [string, string])[] = [
  ["/", "Search on this page"],
  ["j  k", "Next and previous row of a table (also ↓ ↑, Home, End)"],
  ["Enter", "Open the row"],
  ["g s", "Go to the studies"],
  ["g p", "Go to the promotions"],
  ["g l", "Go to the ledger"],
  ["?", "This help"],
  ["Esc", "Close, or leave a field"],
];

export function HelpDialog({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl className={css.keys}>
        {SHORTCUTS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(/\s+/).map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
