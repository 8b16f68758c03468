// Pictures of pages of a running server: node scripts/screenshots.mjs http://127.0.0.1:8420 OUT NAME=PATH …
// Each in light and dark, on a desktop and a phone; says what the console complained about.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [server = "http://127.0.0.1:8420", out = "screenshots", ...pages] = process.argv.slice(2);
const SIZES = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

mkdirSync(out, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
for (const [size, viewport] of Object.entries(SIZES)) {
  for (const theme of /** @type {const} */ (["light", "dark"])) {
    const context = await browser.newContext({ viewport, colorScheme: theme });
    for (const page of pages) {
      const [name = "page", path = "/"] = page.split(/=(.*)/s);
      const tab = await context.newPage();
      tab.on("console", (message) => {
        if (["error", "warning"].includes(message.type()))
          console.log(`${name} ${size} ${theme}: ${message.text()}`);
      });
      tab.on("pageerror", (error) => console.log(`${name} ${size} ${theme}: ${error.message}`));
      await tab.goto(`${server}${path}`);
      await tab.waitForTimeout(1800);
      const wide = await tab.evaluate(
        () => document.documentElement.scrollWidth - window.innerWidth,
      );
      if (wide > 0) console.log(`${name} ${size}: ${String(wide)} px wider than the window`);
      await tab.screenshot({
        path: join(out, `${name}-${size}-${theme}.png`),
        fullPage: size === "phone",
      });
      await tab.close();
    }
    await context.close();
  }
}
await browser.close();
