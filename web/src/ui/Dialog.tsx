import { useId, useLayoutEffect, useRef, type ReactNode, type SubmitEvent } from "react";
import { Button } from "./Button";
import css from "./Dialog.module.css";
import { Notice } from "./States";

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

interface FormDialogProps extends ConfirmProps {
  /** Whether what was entered so far is enough. */
  readonly isReady?: boolean;
  /** Why it was refused. */
  readonly problem?: string | undefined;
  /** It cannot be tried again as it stands: what it was about has changed. */
  readonly isOver?: boolean;
}

/** A question with something to fill in; what was refused is said where it was asked. */
export function FormDialog(props: FormDialogProps) {
  const { title, children, verb, isDangerous = false, isBusy = false, isReady = true } = props;
  const { problem, isOver = false, onConfirm, onClose } = props;
  const form = useId();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (isReady && !isBusy && !isOver) onConfirm();
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      actions={
        isOver ? (
          <Button look="strong" onClick={onClose}>
            Look again
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>Not now</Button>
            <Button
              type="submit"
              form={form}
              look={isDangerous ? "danger" : "strong"}
              isBusy={isBusy}
              disabled={!isReady}
            >
              {verb}
            </Button>
          </>
        )
      }
    >
      <form id={form} className={css.form} onSubmit={submit}>
        {children}
        {problem !== undefined && (
          <div role="alert">
            <Notice tone="bad">{problem}</Notice>
          </div>
        )}
      </form>
    </Dialog>
  );
}
