// The examples of the README run as they stand there, and the module is as small as it says.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { REPOSITORY } from "./repository.js";

/** Where the examples find their models. */
const MODELS = { "models/silero/": "ir/models/networks/silero_stateful/", "models/smollm2/": "generation/models/tiny/" };

const readme = readFileSync(join(REPOSITORY, "wasm/README.md"), "utf8");
const examples = [...readme.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);

async function run(code) {
    // Beside the tests, so that it finds the package.
    const folder = mkdtempSync(join(REPOSITORY, "wasm/tests/example-"));
    try {
        writeFileSync(join(folder, "example.mjs"), code);
        await import(join(folder, "example.mjs"));
    } finally {
        rmSync(folder, { recursive: true });
    }
}

function fetchFile(url) {
    const [prefix, folder] = Object.entries(MODELS).find(([prefix]) => String(url).includes(prefix));
    try {
        return new Response(readFileSync(join(REPOSITORY, folder, String(url).split(prefix)[1])));
    } catch {
        return new Response("", { status: 404 });
    }
}

test("voice", async (t) => {
    const printed = [];
    t.mock.method(globalThis, "fetch", async (url) => fetchFile(url));
    t.mock.method(console, "log", (...values) => printed.push(values));
    await run(examples[0]);
    const voices = printed.flat().filter((it) => typeof it === "string" && it.startsWith("voice: "));
    assert.equal(voices.length, 2);
    assert.ok(voices.every((it) => Number(it.slice(7)) < 0.5));
});

test("a chat", async (t) => {
    assert.equal(examples.length, 2);
    const pieces = [];
    globalThis.document = { body: { append: (piece) => pieces.push(piece) } };
    t.after(() => delete globalThis.document);
    t.mock.method(globalThis, "fetch", async (url) => fetchFile(url));
    // A worker of Node has a `fetch` of its own: the classes are the same without one.
    await run(examples[1].replace("startWorker } from \"tract-openvino/worker\"", "LanguageModel } from \"tract-openvino\"").replace(/^const \{ LanguageModel \} = await startWorker.*\n/m, ""));
    assert.ok(pieces.length > 0);
});

test("the module has less than 4 MB", () => {
    const module = readFileSync(join(REPOSITORY, "wasm/pkg/module_bg.wasm"));
    const { length } = gzipSync(module, { level: 9 });
    assert.ok(length < 4e6, `${length} bytes`);
});
