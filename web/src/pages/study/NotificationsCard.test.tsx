import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import type { Notification } from "../../api/types";
import { countsNote, NotificationList } from "./NotificationsCard";

function notification(changes: Partial<Notification> = {}): Notification {
  return {
    notification: "s1-72-890c61fa",
    message: "s1-72",
    study: "s1",
    seq: 72,
    event: "study_completed",
    webhook: "https://example.org/hooks/t0p-secret",
    signed_with: null,
    state: "delivered",
    tries: 1,
    status: 204,
    detail: "",
    created_at: "2026-05-04T09:30:00.000+00:00",
    tried_at: "2026-05-04T09:30:00.000+00:00",
    next_at: null,
    done_at: "2026-05-04T09:30:00.000+00:00",
    ...changes,
  };
}

const nobody = () => undefined;

it("one says what it was, to whom and how it stands, and no more of the address", () => {
  const { container } = render(
    <NotificationList items={[notification()]} mayResend busy={null} onResend={nobody} />,
  );
  expect(screen.getByText("Study completed: delivered")).toBeDefined();
  expect(screen.getByText("example.org")).toBeDefined();
  expect(container.textContent).not.toContain("t0p-secret");
  expect(screen.queryByRole("button")).toBeNull();
});

it("one that failed says why and when it is tried next", () => {
  const waiting = notification({
    state: "waiting",
    tries: 3,
    detail: "the receiver answered 500",
    next_at: "2999-01-01T00:00:00.000+00:00",
    done_at: null,
  });
  render(<NotificationList items={[waiting]} mayResend busy={null} onResend={nobody} />);
  expect(screen.getByText("the receiver answered 500")).toBeDefined();
  expect(screen.getByText(/tried 3×, next/)).toBeDefined();
});

it("one that was given up is sent again by who may submit, and by nobody else", async () => {
  const dead = notification({ state: "dead", tries: 12, detail: "<b>no</b>" });
  const resend = vi.fn();
  const { container, rerender } = render(
    <NotificationList items={[dead]} mayResend={false} busy={null} onResend={resend} />,
  );
  expect(screen.queryByRole("button")).toBeNull();
  expect(container.querySelector("b")).toBeNull();
  rerender(<NotificationList items={[dead]} mayResend busy={null} onResend={resend} />);
  await userEvent.click(screen.getByRole("button", { name: /Send study completed to example/ }));
  expect(resend).toHaveBeenCalledWith("s1-72-890c61fa");
  rerender(<NotificationList items={[dead]} mayResend busy="s1-72-890c61fa" onResend={resend} />);
  expect(screen.getByRole("button")).toHaveProperty("disabled", true);
});

it("what did not arrive is counted in words", () => {
  expect(countsNote({ waiting: 0, dead: 0 })).toBe("all delivered");
  expect(countsNote({ waiting: 2, dead: 0 })).toBe("2 waiting");
  expect(countsNote({ waiting: 1, dead: 1234 })).toMatch(/^1 waiting, 1.?234 given up$/);
});
