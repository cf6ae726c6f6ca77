// Language models: texts piece by piece.

import { asBytes, download } from "./files.js";
import { Bound, Held } from "./instance.js";

/** The files of a model, as optimum-intel writes them, and those that need not be there. */
const FILES = ["openvino_model.xml", "openvino_model.bin", "tokenizer.json"];
const OPTIONAL = [
    "config.json",
    "generation_config.json",
    "chat_template.jinja",
    "tokenizer_config.json",
    "special_tokens_map.json",
];

export class LanguageModel {
    #held;
    /** The chat that was last, so that its next answer need not read all of it. */
    #chat;

    constructor(held) {
        this.#held = held;
    }

    static async load(source, { exact = false } = {}) {
        const kept = typeof source === "function" ? source : { ...source };
        const held = new Held(async () => {
            const files = asBytes(typeof kept === "function" ? await kept() : kept);
            return ({ LanguageModel, LanguageFiles }) => {
                const inside = new LanguageFiles();
                for (const [name, bytes] of Object.entries(files)) {
                    inside.add(name, bytes);
                }
                return new LanguageModel(inside, exact);
            };
        });
        await held.use(() => undefined);
        return new LanguageModel(held);
    }

    static fetch(url, { onProgress, signal, ...options } = {}) {
        const folder = String(url).replace(/\/?$/, "/");
        const urls = Object.fromEntries([...FILES, ...OPTIONAL].map((name) => [name, folder + name]));
        let first = { onProgress, signal };
        const source = () => {
            const files = download(urls, { optional: OPTIONAL, ...first });
            first = {};
            return files;
        };
        return LanguageModel.load(source, options);
    }

    generate(prompt, { signal, variables = {}, ...options } = {}) {
        const set = Object.entries(options).filter(([, value]) => value !== undefined);
        if (options.doSample !== false && options.seed === undefined) {
            // The settings of the model may say that tokens are drawn.
            set.push(["seed", crypto.getRandomValues(new Uint32Array(1))[0]]);
        }
        if (typeof prompt === "string") {
            const start = (model) => ({ generation: new Bound(model.generate(prompt, set)) });
            return new Generation(() => this.#held.use(start), signal);
        }
        const messages = Array.from(prompt).flatMap(({ role, content }) => [role, content]);
        const pairs = Object.entries(variables).flatMap(([name, value]) => [name, JSON.stringify(value)]);
        const start = (model) => {
            const chat = this.#chatOf(model, pairs);
            return { chat, generation: new Bound(chat.use((chat) => chat.answer(messages, set))) };
        };
        return new Generation(() => this.#held.use(start), signal);
    }

    /** A chat with these variables: the last one, if it has them. */
    #chatOf(model, variables) {
        const key = JSON.stringify(variables);
        if (this.#chat?.model !== model || this.#chat.key !== key) {
            const now = new Date();
            const seconds = Math.floor(now.getTime() / 1000);
            const chat = model.conversation(seconds, -60 * now.getTimezoneOffset(), variables);
            this.#chat?.chat.release();
            this.#chat = { model, key, chat: new Bound(chat) };
        }
        return this.#chat.chat;
    }

    release() {
        this.#chat?.chat.release();
        this.#chat = undefined;
        this.#held.release();
    }
}

/** A text on its way: an asynchronous iterator over its pieces. */
export class Generation {
    #start;
    #signal;
    #parts;
    #isOver = false;

    constructor(start, signal) {
        this.#start = start;
        this.#signal = signal;
    }

    [Symbol.asyncIterator]() {
        return this;
    }

    async next() {
        while (!this.#isOver) {
            try {
                this.#signal?.throwIfAborted();
                this.#parts ??= await this.#start();
                const piece = this.#parts.generation.use((generation) => generation.next());
                if (piece === undefined) {
                    await this.return();
                    break;
                }
                // Timers, messages and whoever aborts have their turn.
                await pause();
                if (piece !== "") {
                    this.#signal?.throwIfAborted();
                    return { value: piece, done: false };
                }
            } catch (error) {
                this.#isOver = true;
                if (this.#signal?.aborted) {
                    this.#finish();
                }
                throw error;
            }
        }
        return { value: undefined, done: true };
    }

    /** Ends it. */
    async return() {
        this.#isOver = true;
        this.#finish();
        return { value: undefined, done: true };
    }

    #finish() {
        const { chat, generation } = this.#parts ?? {};
        this.#parts = undefined;
        if (generation !== undefined) {
            const inside = generation.take();
            const [end, tokens, promptTokens] =
                chat === undefined ? inside.end() : chat.use((chat) => chat.keep(inside));
            Object.assign(this, { end, tokens, promptTokens });
        }
    }
}

/** Resolves when everything that waits has had its turn. */
function pause() {
    return new Promise((resolve) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => {
            port1.close();
            resolve();
        };
        port2.postMessage(undefined);
    });
}
