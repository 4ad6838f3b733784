import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type Plugin } from "vite";

const here = import.meta.dirname;
const out = join(here, "../src/perturank/pages/static");
const MANIFEST = "manifest.json";
const NOT_BUILT = new Set(["node_modules", "README.md"]);

/** Every file below a folder with the digest of its content, in the order of their names. */
function digests(folder: string, passed: Set<string>): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .filter((path) => !passed.has(path.split("/")[0] ?? ""))
    .sort();
  const sum = (path: string) => createHash("sha256").update(readFileSync(join(folder, path))).digest("hex");
  return Object.fromEntries(files.map((path) => [path, sum(path)]));
}

/** Says what was built from what: a test without Node tells a stale build by it, and only files named here are served. */
const manifest: Plugin = {
  name: "manifest",
  closeBundle() {
    const content = { sources: digests(here, NOT_BUILT), files: digests(out, new Set([MANIFEST])) };
    writeFileSync(join(out, MANIFEST), JSON.stringify(content, null, 1) + "\n");
  },
};

export default defineConfig({
  root: here,
  base: "/static/",
  build: {
    outDir: out,
    emptyOutDir: true,
    assetsInlineLimit: 0, // nothing is inline: the Content-Security-Policy would refuse it
    modulePreload: { polyfill: false },
    rollupOptions: {
      // every page at the top is an entry
      input: readdirSync(here).filter((name) => name.endsWith(".html")).map((name) => join(here, name)),
    },
  },
  plugins: [manifest],
});
