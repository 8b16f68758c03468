// Fails when src/api/schema.d.ts is not what openapi.json says.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import openapiTS, { astToString, COMMENT_HEADER } from "openapi-typescript";

const ROOT = join(import.meta.dirname, "..");
const wanted =
  COMMENT_HEADER + astToString(await openapiTS(new URL("../openapi.json", import.meta.url)));
const found = readFileSync(join(ROOT, "src/api/schema.d.ts"), "utf8");
if (wanted.trim() !== found.trim()) {
  console.error(
    "web/src/api/schema.d.ts is not what web/openapi.json says: run `npm run types` in web/",
  );
  process.exit(1);
}
