// Runs a program for WASI in Node: node wasi.mjs PROGRAM [ARGUMENTS]. It sees this repository, and its working directory.
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { WASI } from "node:wasi";

const [program, ...args] = process.argv.slice(2);
const repository = dirname(dirname(fileURLToPath(import.meta.url)));
const wasi = new WASI({
  version: "preview1",
  args: [program, ...args],
  env: process.env,
  preopens: { [repository]: repository, ".": process.cwd() },
});
const module = await WebAssembly.compile(await readFile(program));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
