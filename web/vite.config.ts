import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** Where `npm run dev` finds a running `arl serve`. */
const SERVER = process.env["ARL_SERVER"] ?? "http://127.0.0.1:8420";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../controller/api/static",
    emptyOutDir: true,
    target: "es2022",
    // Under `default-src 'self'` nothing may be a data: URL, and no script may be inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: "manifest.json",
    chunkSizeWarningLimit: 900,
  },
  server: {
    port: 5173,
    // The server takes changes from its own origin only: the proxy speaks as that.
    proxy: { "/api": { target: SERVER, changeOrigin: true, headers: { origin: SERVER } } },
  },
  test: {
    environment: "happy-dom",
    setupFiles: ["./src/test/setup.ts"],
    include: ["src/**/*.test.{ts,tsx}"],
    css: { modules: { classNameStrategy: "non-scoped" } },
    restoreMocks: true,
  },
});
