import { render, screen, within } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Conversion } from "../../api/types";
import { ConversionsCard } from "./ConversionsCard";

const CONVERSION: Conversion = {
  conversion: "s-v1",
  study: "s",
  number: 1,
  candidate: "s-c1",
  model: "toy",
  method: "int8",
  settings: { method: "int8", margin: 0.02 },
  state: "refused",
  servable: false,
  reason: "inferior",
  detail: "that it is no worse by 0.02 is not shown",
  unconverted: "a".repeat(64),
  converted: "b".repeat(64),
  figures: [
    { name: "size_bytes", unconverted: 2048, converted: 1024, ratio: 0.5 },
    { name: "tokens_per_s", unconverted: 100, converted: null, ratio: null },
  ],
  evidence: {},
  actor: "gate",
  created_at: "2026-05-04T09:30:00.000+00:00",
  ended_at: null,
};

it("a refused conversion shows why, and keeps its figures", () => {
  render(<ConversionsCard conversion={CONVERSION} />);
  expect(screen.getByText("Conversion: 8 bits")).toBeTruthy();
  expect(screen.getByText(/refused/)).toBeTruthy();
  expect(screen.getByText(/that it is no worse by 0.02 is not shown/)).toBeTruthy();
  const size = screen.getByRole("row", { name: /Size on disk/ });
  expect(within(size).getByText("2 KiB")).toBeTruthy();
  expect(within(size).getByText("1 KiB")).toBeTruthy();
  expect(within(size).getByText("0.5")).toBeTruthy();
});

it("a figure without a number is shown as none, and a new method by its own name", () => {
  render(<ConversionsCard conversion={{ ...CONVERSION, method: "fp3", state: "failed" }} />);
  expect(screen.getByText("Conversion: fp3")).toBeTruthy();
  const speed = screen.getByRole("row", { name: /Tokens a second/ });
  expect(within(speed).getAllByText("–")).toHaveLength(2);
});

it("nothing measured shows no table", () => {
  render(<ConversionsCard conversion={{ ...CONVERSION, figures: [], state: "open" }} />);
  expect(screen.queryByRole("table")).toBeNull();
});
