// Gzipped JavaScript of the first page, from Vite's manifest; fails above the budget.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const FOLDER = join(import.meta.dirname, "../../controller/api/static");
const BUDGET_KB = 400;

/** @typedef {{ file: string, isEntry?: boolean, imports?: string[], css?: string[] }} Chunk */
/** @type {Record<string, Chunk>} */
const manifest = JSON.parse(readFileSync(join(FOLDER, "manifest.json"), "utf8"));

/** @param {string} file */
const gzipped_kb = (file) => gzipSync(readFileSync(join(FOLDER, file))).length / 1000;

/** @param {string} key @param {Set<string>} seen */
function withImports(key, seen) {
  if (seen.has(key)) return;
  seen.add(key);
  for (const other of manifest[key]?.imports ?? []) withImports(other, seen);
}

const entry = Object.keys(manifest).find((key) => manifest[key]?.isEntry);
if (entry === undefined) throw new Error("the manifest has no entry");
/** @type {Set<string>} */
const first = new Set();
withImports(entry, first);
withImports("src/pages/studies/StudiesPage.tsx", first);

let total_kb = 0;
for (const key of first) {
  const file = manifest[key]?.file;
  if (file?.endsWith(".js")) total_kb += gzipped_kb(file);
}
let all_kb = 0;
for (const file of readdirSync(join(FOLDER, "assets"))) {
  if (file.endsWith(".js")) all_kb += gzipped_kb(join("assets", file));
}
console.log(
  `JavaScript, gzipped: first page ${total_kb.toFixed(0)} kB of ${BUDGET_KB}, all pages ${all_kb.toFixed(0)} kB`,
);
if (total_kb > BUDGET_KB) process.exit(1);
