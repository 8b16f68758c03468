import { useId, useLayoutEffect, useRef, type ReactNode } from "react";
import { Button } from "./Button";
import css from "./Dialog.module.css";

interface DialogProps {
  readonly title: string;
  readonly children: ReactNode;
  readonly actions?: ReactNode;
  readonly onClose: () => void;
}

/** A question above the page: keeps the focus inside, Esc closes, the focus goes back. */
export function Dialog({ title, children, actions, onClose }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before it leaves the document: what is no longer there cannot give the focus back.
  useLayoutEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className={css.dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header className={css.head}>
        <h2 id={id}>{title}</h2>
        <Button look="quiet" icon="cross" aria-label="Close" onClick={onClose} />
      </header>
      <div className={css.body}>{children}</div>
      {actions !== undefined && <footer className={css.actions}>{actions}</footer>}
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  readonly children: ReactNode;
  readonly verb: string;
  readonly isDangerous?: boolean;
  readonly isBusy?: boolean;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

/** Says what will happen before it does. */
export function Confirm({
  verb,
  isDangerous = false,
  isBusy = false,
  onConfirm,
  ...rest
}: ConfirmProps) {
  return (
    <Dialog
      {...rest}
      actions={
        <>
          <Button onClick={rest.onClose}>Not now</Button>
          <Button look={isDangerous ? "danger" : "strong"} isBusy={isBusy} onClick={onConfirm}>
            {verb}
          </Button>
        </>
      }
    />
  );
}
