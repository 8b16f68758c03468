import { fireEvent, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { DataTable, type Column } from "./DataTable";

interface Row {
  readonly id: string;
  readonly value: number;
}

const COLUMNS: readonly Column<Row>[] = [
  { id: "id", title: "Name", width: 100, sort: "name", cell: (row) => row.id },
  { id: "value", title: "Value", width: 100, isNumber: true, cell: (row) => row.value },
];
const ROWS: readonly Row[] = [
  { id: "a", value: 1 },
  { id: "b", value: 2 },
  { id: "c", value: 3 },
];
const key = (row: Row): string => row.id;

it("rows are walked with j and k and opened with Enter", async () => {
  const onOpen = vi.fn();
  render(<DataTable label="Things" columns={COLUMNS} rows={ROWS} rowKey={key} onOpen={onOpen} />);
  const first = screen.getByRole("row", { name: /^a/ });
  first.focus();
  const user = userEvent.setup();
  await user.keyboard("jjk");
  await vi.waitFor(() => expect(document.activeElement?.textContent).toBe("b2"));
  await user.keyboard("{Enter}");
  expect(onOpen).toHaveBeenCalledWith(ROWS[1]);
});

it("a key pressed before the next frame means the row that was moved to", () => {
  const onOpen = vi.fn();
  render(<DataTable label="Things" columns={COLUMNS} rows={ROWS} rowKey={key} onOpen={onOpen} />);
  const first = screen.getByRole("row", { name: /^a/ });
  first.focus();
  fireEvent.keyDown(first, { key: "ArrowDown" });
  fireEvent.keyDown(first, { key: "Enter" });
  expect(onOpen).toHaveBeenCalledWith(ROWS[1]);
});

it("the server sorts: a click asks for it, and the header says how it is sorted", async () => {
  const onSort = vi.fn();
  render(
    <DataTable
      label="Things"
      columns={COLUMNS}
      rows={ROWS}
      rowKey={key}
      sort={{ by: "name", descending: true }}
      onSort={onSort}
    />,
  );
  const header = screen.getByRole("columnheader", { name: "Name" });
  expect(header.getAttribute("aria-sort")).toBe("descending");
  await userEvent.click(within(header).getByRole("button"));
  expect(onSort).toHaveBeenCalledWith({ by: "name", descending: false });
  expect(screen.queryByRole("button", { name: "Value" })).toBeNull();
});

it("a hidden column is not there", () => {
  render(
    <DataTable
      label="Things"
      columns={COLUMNS}
      rows={ROWS}
      rowKey={key}
      hidden={new Set(["value"])}
    />,
  );
  expect(screen.queryByText("Value")).toBeNull();
  expect(screen.queryByText("3")).toBeNull();
});

it("what is empty says so, but not while it loads", () => {
  const table = (waits: number) => (
    <DataTable
      label="Things"
      columns={COLUMNS}
      rows={[]}
      rowKey={key}
      skeletonRows={waits}
      empty="Nothing"
    />
  );
  const { rerender } = render(table(3));
  expect(screen.queryByText("Nothing")).toBeNull();
  rerender(table(0));
  expect(screen.getByText("Nothing")).toBeDefined();
});

it("the next page is asked for when the end is in sight, and once", () => {
  const onMore = vi.fn();
  const table = (is_loading: boolean) => (
    <DataTable
      label="Things"
      columns={COLUMNS}
      rows={ROWS}
      rowKey={key}
      hasMore
      isLoadingMore={is_loading}
      onMore={onMore}
    />
  );
  const { rerender } = render(table(false));
  rerender(table(true));
  expect(onMore).toHaveBeenCalledTimes(1);
});

it("rows that come on top do not move what is read, nor what Enter opens", async () => {
  const onOpen = vi.fn();
  const table = (rows: readonly Row[]) => (
    <DataTable label="Things" columns={COLUMNS} rows={rows} rowKey={key} onOpen={onOpen} />
  );
  const { rerender, container } = render(table(ROWS));
  const frame = container.firstElementChild as HTMLElement;
  frame.scrollTop = 100;
  screen.getByRole("row", { name: /^b/ }).focus();
  rerender(table([{ id: "new", value: 9 }, ...ROWS]));
  expect(frame.scrollTop).toBe(136);
  await userEvent.keyboard("{Enter}");
  expect(onOpen).toHaveBeenCalledWith(ROWS[1]);
});
