import { expect, test } from "vitest";
import { heldText, wantedText } from "./shares";

test("what is held names the GPUs", () => {
  expect(heldText({ cpus: 2, memory_bytes: 0, gpu_ids: ["0", "3"] })).toBe("2 CPUs, GPU 0, 3");
  expect(heldText({ cpus: 0, memory_bytes: 0, gpu_ids: [] })).toBe("nothing");
});

test("what is wanted counts them", () => {
  expect(wantedText({ cpus: 1, memory_bytes: 0, gpus: 2 })).toBe("1 CPU, 2 GPUs");
});
