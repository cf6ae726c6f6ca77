// What runs in the worker that worker.js starts: calls come as messages, and so do their answers.

import { LanguageModel, Model } from "./index.js";
import { Generation } from "./language.js";
import { State } from "./model.js";
import { Tensor } from "./tensor.js";

const objects = new Map(Object.entries({ LanguageModel, Model }));
/** Those who can abort calls that download, by the numbers of the calls. */
const aborts = new Map();
let last = 0;

/** What a program may call. */
const METHODS = ["load", "fetch", "run", "state", "release", "generate", "next", "return"];

function serve(port) {
    port.onmessage = async ({ data: { number, object, method, args, abort } }) => {
        if (abort !== undefined) {
            aborts.get(abort)?.abort();
            return;
        }
        try {
            const value = await call(port, number, object, method, args);
            port.postMessage({ number, value }, transferred(value));
        } catch (error) {
            port.postMessage({ number, error: { name: nameOf(error), message: error?.message ?? String(error) } });
        }
    };
}

async function call(port, number, object, method, args) {
    const target = objects.get(object);
    if (target === undefined || !METHODS.includes(method)) {
        throw new Error("this has been released");
    }
    if (method === "release") {
        objects.delete(object);
        target.release();
        return undefined;
    }
    if (method === "fetch") {
        const [url, options] = args;
        const controller = new AbortController();
        aborts.set(number, controller);
        const onProgress = (progress) => port.postMessage({ number, progress });
        try {
            return kept(await target.fetch(url, { ...options, onProgress, signal: controller.signal }));
        } finally {
            aborts.delete(number);
        }
    }
    const value = await target[method](...args);
    if (target instanceof Generation) {
        const { end, tokens, promptTokens } = target;
        if (end !== undefined) {
            objects.delete(object);
        }
        return { ...value, end, tokens, promptTokens };
    }
    return kept(value);
}

/** An object stays here, and its number is told. */
function kept(value) {
    if (![Model, LanguageModel, State, Generation].some((type) => value instanceof type)) {
        return value;
    }
    last += 1;
    objects.set(last, value);
    const { inputs, outputs } = value;
    return { object: last, inputs, outputs };
}

/** The memory of outputs is given away, and not copied. */
function transferred(value) {
    const tensors = Object.values(value ?? {}).filter((it) => it instanceof Tensor && ArrayBuffer.isView(it.data));
    return tensors.map((tensor) => tensor.data.buffer);
}

function nameOf(error) {
    return error instanceof WebAssembly.RuntimeError ? "RuntimeError" : (error?.name ?? "Error");
}

if (typeof self === "object" && typeof self.postMessage === "function") {
    self.onmessage = ({ data }) => serve(data);
} else {
    const { parentPort } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads");
    parentPort.once("message", serve);
}
