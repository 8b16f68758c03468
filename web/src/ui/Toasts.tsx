/** Short answers to what the reader did, at the corner of the page. */
import { createContext, use, useCallback, useMemo, useState, type ReactNode } from "react";
import { Button } from "./Button";
import { Icon } from "./Icon";
import css from "./Toasts.module.css";
import { cx } from "./cx";

interface Toast {
  readonly id: number;
  readonly tone: "good" | "bad";
  readonly text: string;
}

type Say = (tone: Toast["tone"], text: string) => void;

const ToastContext = createContext<Say>(() => undefined);

const STAYS_MS = 6000;

/** `say("good", "Paused")`; a bad one stays until it is closed. */
export const useToast = (): Say => use(ToastContext);

let last_id = 0;

export function Toasts({ children }: { readonly children: ReactNode }) {
  const [toasts, setToasts] = useState<readonly Toast[]>([]);
  const close = useCallback((id: number) => {
    setToasts((shown) => shown.filter((toast) => toast.id !== id));
  }, []);
  const say = useCallback<Say>(
    (tone, text) => {
      last_id += 1;
      const id = last_id;
      setToasts((shown) => [...shown.slice(-3), { id, tone, text }]);
      if (tone === "good") setTimeout(() => close(id), STAYS_MS);
    },
    [close],
  );
  const list = useMemo(
    () =>
      toasts.map((toast) => (
        <li key={toast.id} className={cx(css.toast, css[toast.tone])}>
          <Icon name={toast.tone === "good" ? "check" : "alert"} />
          <span className={css.text}>{toast.text}</span>
          <Button look="quiet" icon="cross" aria-label="Close" onClick={() => close(toast.id)} />
        </li>
      )),
    [toasts, close],
  );
  return (
    <ToastContext value={say}>
      {children}
      <ol className={css.toasts} role="status" aria-live="polite">
        {list}
      </ol>
    </ToastContext>
  );
}
