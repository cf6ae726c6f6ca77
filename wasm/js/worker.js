// The same classes in a worker: what they do is done there, by messages, so that a page stays alive.

import { Tensor } from "./tensor.js";

export { Tensor };

/** Starts a worker, and gives its classes. */
export async function startWorker() {
    const { port1: port, port2 } = new MessageChannel();
    const worker = await spawn();
    worker.postMessage(port2, [port2]);
    const remote = new Remote(port);
    // A worker that cannot start answers nothing.
    worker.onerror = ({ message }) => remote.fail(new Error(`the worker failed: ${message}`));
    const Model = {
        load: (source, options) => model(remote, "load", [source, options], {}),
        fetch: (url, options = {}) => fetched(model, remote, url, options),
    };
    const LanguageModel = {
        load: (source, options) => languageModel(remote, "load", [source, options], {}),
        fetch: (url, options = {}) => fetched(languageModel, remote, url, options),
    };
    const terminate = () => {
        remote.fail(new Error("the worker has been ended"));
        port.close();
        return worker.terminate();
    };
    return { Model, LanguageModel, terminate };
}

async function spawn() {
    if (typeof Worker === "function") {
        return new Worker(new URL("./worker-main.js", import.meta.url), { type: "module" });
    }
    const { Worker: NodeWorker } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads");
    const worker = new NodeWorker(new URL("./worker-main.js", import.meta.url));
    worker.on("error", (error) => worker.onerror?.(error));
    worker.unref();
    return worker;
}

/** Calls that wait for their answers. */
class Remote {
    #port;
    #waiting = new Map();
    #last = 0;
    #failure;

    constructor(port) {
        this.#port = port;
        port.onmessage = ({ data }) => this.#receive(data);
        // Node ends when no answer is missing.
        port.unref?.();
    }

    /** Calls a method of an object in the worker; `hooks` are `onProgress` and `signal`. */
    call(object, method, args, { onProgress, signal } = {}) {
        return new Promise((resolve, reject) => {
            if (this.#failure !== undefined) {
                throw this.#failure;
            }
            signal?.throwIfAborted();
            const number = ++this.#last;
            const abort = () => {
                this.#port.postMessage({ abort: number });
                done(() => reject(signal.reason));
            };
            const done = (settle) => {
                signal?.removeEventListener("abort", abort);
                if (this.#waiting.delete(number)) {
                    settle();
                }
            };
            this.#waiting.set(number, { resolve, reject, onProgress, done });
            signal?.addEventListener("abort", abort);
            try {
                this.#port.postMessage({ number, object, method, args });
                this.#port.ref?.();
            } catch (error) {
                // An argument that cannot be sent, such as a function.
                done(() => reject(error));
            }
        });
    }

    #receive({ number, value, error, progress }) {
        const { resolve, reject, onProgress, done } = this.#waiting.get(number) ?? {};
        if (progress !== undefined) {
            onProgress?.(progress);
        } else {
            done?.(() => (error === undefined ? resolve(value) : reject(asError(error))));
        }
        if (this.#waiting.size === 0) {
            this.#port.unref?.();
        }
    }

    /** Nothing is answered any more. */
    fail(error) {
        this.#failure = error;
        for (const { reject, done } of [...this.#waiting.values()]) {
            done(() => reject(error));
        }
    }
}

const ERRORS = { Error, RangeError, TypeError, RuntimeError: WebAssembly.RuntimeError };

function asError({ name, message }) {
    if (name in ERRORS) {
        return new ERRORS[name](message);
    }
    return new DOMException(message, name);
}

function fetched(make, remote, url, { onProgress, signal, ...options }) {
    const base = globalThis.location?.href;
    return make(remote, "fetch", [new URL(url, base).href, options], { onProgress, signal });
}

async function model(remote, method, args, hooks) {
    const { object, inputs, outputs } = await remote.call("Model", method, args, hooks);
    return {
        inputs,
        outputs,
        run: (tensors) => run(remote, object, tensors),
        state: async () => {
            const state = await remote.call(object, "state", []);
            return {
                run: (tensors) => run(remote, state.object, tensors),
                release: () => release(remote, state.object),
            };
        },
        release: () => release(remote, object),
    };
}

async function run(remote, object, tensors) {
    const outputs = await remote.call(object, "run", [tensors]);
    const entries = Object.entries(outputs);
    return Object.fromEntries(entries.map(([name, { type, data, shape }]) => [name, new Tensor(type, data, shape)]));
}

/** What cannot be told to a worker that has ended need not be told. */
function release(remote, object) {
    remote.call(object, "release", []).catch(() => undefined);
}

async function languageModel(remote, method, args, hooks) {
    const { object } = await remote.call("LanguageModel", method, args, hooks);
    return {
        generate: (prompt, { signal, ...options } = {}) => new Generation(remote, object, prompt, options, signal),
        release: () => release(remote, object),
    };
}

/** A text on its way in the worker. */
class Generation {
    #remote;
    #signal;
    #object;

    constructor(remote, model, prompt, options, signal) {
        this.#remote = remote;
        this.#signal = signal;
        this.#object = remote.call(model, "generate", [prompt, options]).then(({ object }) => object);
        // Whoever asks for the first piece is told.
        this.#object.catch(() => undefined);
    }

    [Symbol.asyncIterator]() {
        return this;
    }

    async next() {
        try {
            this.#signal?.throwIfAborted();
            const result = await this.#call("next");
            if (!result.done) {
                this.#signal?.throwIfAborted();
            }
            return result;
        } catch (error) {
            if (this.#signal?.aborted) {
                await this.return();
            }
            throw error;
        }
    }

    return() {
        return this.#call("return");
    }

    async #call(method) {
        const { end, tokens, promptTokens, ...result } = await this.#remote.call(await this.#object, method, []);
        if (end !== undefined) {
            Object.assign(this, { end, tokens, promptTokens });
        }
        return result;
    }
}
