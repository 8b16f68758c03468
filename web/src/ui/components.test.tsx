import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { Problem } from "../api/problems";
import { StateBadge } from "./Badge";
import { CodeView, DiffView } from "./Code";
import { Confirm } from "./Dialog";
import { OutcomeBar } from "./OutcomeBar";
import { BudgetBar } from "./Progress";
import { Failure } from "./States";
import { Toasts, useToast } from "./Toasts";
import { NumberValue } from "./Values";

it("a state is a word, not a colour alone, and a reason that repeats it is not shown", () => {
  const { rerender } = render(<StateBadge state="failed" reason="out_of_memory" />);
  expect(screen.getByText("failed")).toBeDefined();
  expect(screen.getByText("out of memory")).toBeDefined();
  rerender(<StateBadge state="measured" reason="measured" />);
  expect(screen.getAllByText("measured")).toHaveLength(1);
});

it("a state that is not known is shown by its own name", () => {
  render(<StateBadge state="made_up_later" />);
  expect(screen.getByText("made up later")).toBeDefined();
});

it("NaN is said, and no number at all is a dash", () => {
  const { rerender } = render(<NumberValue value={Number.NaN} />);
  expect(screen.getByText("NaN")).toBeDefined();
  rerender(<NumberValue value={null} />);
  expect(screen.getByLabelText("none")).toBeDefined();
});

it("what a candidate wrote stays text", () => {
  const text = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
  const { container } = render(<CodeView text={text} what="log" />);
  expect(container.querySelector("img, script")).toBeNull();
  expect(container.textContent).toContain(text);
});

it("a patch of hostile text is a table of text", () => {
  const patch = "--- a/<b>x</b>\n+++ b/<b>x</b>\n@@ -1 +1 @@\n-<i>old</i>\n+<i>new</i>\n";
  const { container } = render(<DiffView patch={patch} />);
  expect(container.querySelector("b, i")).toBeNull();
  expect(container.textContent).toContain("<b>x</b>");
});

it("a failure is in the server's words and can be tried again", async () => {
  const retry = vi.fn();
  const error = new Problem({
    title: "Not now",
    status: 503,
    code: "ledger_unavailable",
    detail: "the database does not answer",
  });
  render(<Failure what="The trials" error={error} onRetry={retry} />);
  expect(screen.getByRole("alert").textContent).toContain("the database does not answer");
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(retry).toHaveBeenCalledOnce();
});

it("a budget says what is spent, of what, and what is set aside", () => {
  render(<BudgetBar resource="trials" line={{ limit: 40, spent: 12, reserved: 2, overrun: 0 }} />);
  const bar = screen.getByRole("progressbar", { name: "Trials" });
  expect(bar.getAttribute("aria-valuetext")).toBe("12 of 40");
  expect(screen.getByText(/2 set aside/)).toBeDefined();
});

it("a budget of nothing is no division by zero", () => {
  render(<BudgetBar resource="trials" line={{ limit: 0, spent: 3, reserved: 0, overrun: 3 }} />);
  expect(screen.getByRole("progressbar").getAttribute("aria-valuenow")).toBe("0");
});

it("outcomes are counted in words", () => {
  render(<OutcomeBar counts={{ kept: 2, failed: 10, new_one: 1 }} />);
  expect(screen.getByRole("img").getAttribute("aria-label")).toBe(
    "13 trials: 2 kept, 10 failed, 1 new one",
  );
});

it("nothing happens before it is confirmed", async () => {
  const onConfirm = vi.fn();
  const onClose = vi.fn();
  render(
    <Confirm title="Cancel it?" verb="Cancel the study" onConfirm={onConfirm} onClose={onClose}>
      Everything ends.
    </Confirm>,
  );
  expect(onConfirm).not.toHaveBeenCalled();
  await userEvent.click(screen.getByRole("button", { name: "Cancel the study" }));
  expect(onConfirm).toHaveBeenCalledOnce();
  await userEvent.click(screen.getByRole("button", { name: "Not now" }));
  expect(onClose).toHaveBeenCalledOnce();
});

function Sayer() {
  const say = useToast();
  return (
    <button type="button" onClick={() => say("bad", "It was refused")}>
      go
    </button>
  );
}

it("what went wrong stays until it is closed", async () => {
  render(
    <Toasts>
      <Sayer />
    </Toasts>,
  );
  await userEvent.click(screen.getByRole("button", { name: "go" }));
  expect(screen.getByText("It was refused")).toBeDefined();
  await userEvent.click(screen.getByRole("button", { name: "Close" }));
  expect(screen.queryByText("It was refused")).toBeNull();
});
