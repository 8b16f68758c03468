import { expect, test } from "vitest";
import { answeredBy, toldBy } from "./conversation";

test("messages are taken apart, alone or inside a request", () => {
  const messages = [
    { role: "system", content: "be brief" },
    { role: "user", content: [{ type: "text", text: "propose" }] },
  ];
  const said = [
    { who: "system", text: "be brief" },
    { who: "user", text: "propose" },
  ];
  expect(toldBy(JSON.stringify(messages))).toEqual(said);
  expect(toldBy(JSON.stringify({ messages }))).toEqual(said);
});

test("what is no conversation is left to be shown as it is", () => {
  expect(toldBy("{broken")).toEqual([]);
  expect(toldBy("[1, null]")).toEqual([]);
  expect(answeredBy("plain words")).toEqual([]);
  expect(answeredBy('{"choices": "x"}')).toEqual([]);
});
