// Our module and onnxruntime-web, side by side in Node, on one thread.
//
//     node bench.mjs FOLDER [NAME…]
//
// Each runtime has a process of its own with the model, which waits while another one runs; they take turns, so that all meet
// the same machine. Times are medians, in milliseconds.

import { fork } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { cpus } from "node:os";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";

const RUNTIMES = ["ir", "onnx", "onnxruntime"];
const TURNS = Number(process.env.TURNS ?? 7);
const SECONDS = Number(process.env.SECONDS_OF_A_TURN ?? 0.5);

/** A process with a model on a runtime. */
class Peer {
    times = [];

    constructor(runtime, folder) {
        this.runtime = runtime;
        this.process = fork(new URL("peer.mjs", import.meta.url), [runtime, folder], { stdio: ["ignore", "inherit", "pipe", "ipc"] });
        this.errors = "";
        this.process.stderr.on("data", (text) => (this.errors += text));
    }

    answer() {
        return new Promise((resolve) => {
            const end = () => resolve({ error: this.errors.trim().split("\n").at(-1) ?? "it ended" });
            this.process.once("exit", end);
            this.process.once("message", (answer) => {
                this.process.off("exit", end);
                resolve(answer);
            });
        });
    }

    ask(command) {
        this.process.send(command);
        return this.answer();
    }

    end() {
        this.process.kill();
    }
}

const [root, ...names] = process.argv.slice(2);
const isModel = (folder) => existsSync(join(folder, "model.onnx"));
const below = (folder) => readdirSync(folder, { withFileTypes: true }).filter((it) => it.isDirectory()).map((it) => join(folder, it.name));
const folders = below(root).flatMap((folder) => (isModel(folder) ? [folder] : below(folder).filter(isModel)));

console.log(`${cpus()[0].model}, Node ${process.version}`);
for (const [name, file] of [
    ["tract-openvino", "node_modules/tract-openvino/module_bg.wasm"],
    ["onnxruntime-web", "node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"],
]) {
    const bytes = gzipSync(readFileSync(new URL(file, import.meta.url)), { level: 9 }).length;
    console.log(`${name}: ${(bytes / 2 ** 20).toFixed(2)} MiB gzipped`);
}
console.log("| model | what | IR | ONNX | onnxruntime-web | IR / it | ONNX / it | first result: IR | it |\n|---|---|---|---|---|---|---|---|---|");
const ratios = [];
for (const folder of folders.sort()) {
    if (names.length === 0 || names.some((name) => folder.includes(name))) {
        await measure(folder);
    }
}
const mean = Math.exp(ratios.reduce((sum, it) => sum + Math.log(it), 0) / ratios.length);
console.log(`geometric mean of ${ratios.length}: ${mean.toFixed(3)}, largest ${Math.max(...ratios).toFixed(2)}`);

async function measure(folder) {
    const isLanguage = existsSync(join(folder, "tokenizer.json"));
    const runtimes = RUNTIMES.filter((it) => it !== "onnx" || !isLanguage);
    const peers = [];
    for (const runtime of runtimes) {
        const peer = new Peer(runtime, folder);
        const { ready, error } = await peer.answer();
        if (error !== undefined) {
            console.error(`${folder}: ${runtime}: ${error}`);
            continue;
        }
        const first = await peer.ask({ seconds: 0 });
        if (first.error !== undefined) {
            console.error(`${folder}: ${runtime}: ${first.error}`);
            peer.end();
            continue;
        }
        const { run, prompt } = first.times[0];
        peer.first = ready + (run ?? prompt);
        peers.push(peer);
    }
    for (let turn = 0; turn < TURNS; turn += 1) {
        for (const peer of peers) {
            const { times } = await peer.ask({ seconds: SECONDS });
            peer.times.push(...times);
        }
    }
    const results = {};
    for (const peer of peers) {
        const answer = await peer.ask({ isCheck: true });
        if (answer.largest > 0.05) {
            console.error(`${folder}: ${peer.runtime}: outputs differ by ${answer.largest}`);
        }
        results[peer.runtime] = peer;
        peer.end();
    }
    for (const what of isLanguage ? ["prompt", "token"] : ["run"]) {
        const time = (runtime) => results[runtime] && median(results[runtime].times.map((it) => it[what]));
        const [ir, onnx, it] = RUNTIMES.map(time);
        if (ir !== undefined && it !== undefined) {
            ratios.push(ir / it);
        }
        const cells = [ir, onnx, it, ir / it, onnx / it, results.ir?.first, results.onnxruntime?.first];
        const shown = cells.map((cell) => (cell === undefined || Number.isNaN(cell) ? "" : cell.toFixed(cell < 10 ? 2 : 1)));
        console.log(`| ${basename(join(folder, ".."))}/${basename(folder)} | ${what} | ${shown.join(" | ")} |`);
    }
}

function median(numbers) {
    const sorted = [...numbers].sort((one, other) => one - other);
    return (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.ceil((sorted.length - 1) / 2)]) / 2;
}
