/** Server-sent events over fetch: unlike EventSource it tells a refusal from a cut, and says
 * where to resume itself. */

export interface ServerEvent {
  readonly id: string | null;
  readonly event: string;
  readonly data: string;
}

/** Takes pieces of a stream as they come and gives the events that are complete. */
export class EventParser {
  #rest = "";
  #id: string | null = null;

  push(piece: string): readonly ServerEvent[] {
    const text = this.#rest + piece;
    const blocks = text.split(/\r\n\r\n|\n\n|\r\r/);
    this.#rest = blocks.pop() ?? "";
    return blocks.flatMap((block) => this.#read(block));
  }

  #read(block: string): ServerEvent[] {
    let event = "message";
    const data: string[] = [];
    for (const line of block.split(/\r\n|\n|\r/)) {
      const colon = line.indexOf(":");
      if (colon === 0) continue; // a comment: the server shows that it is there
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") event = value;
      else if (field === "data") data.push(value);
      else if (field === "id" && !value.includes("\0")) this.#id = value;
    }
    return data.length === 0 ? [] : [{ id: this.#id, event, data: data.join("\n") }];
  }
}
