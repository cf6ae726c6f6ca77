// The instance of the module that everything runs in, and another one after a panic.

import start, * as module from "./module.js";

let started;
let number = 0;

/** Compiles the module, once. */
export function ready() {
    started ??= (async () => {
        const url = new URL("./module_bg.wasm", import.meta.url);
        await start({ module_or_path: await source(url) });
    })();
    // After a failed download, the next call tries again.
    started.catch(() => (started = undefined));
    return started;
}

async function source(url) {
    if (url.protocol !== "file:") {
        return fetch(url);
    }
    // Node, whose fetch does not read files. Bundlers for browsers leave it alone.
    const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:fs/promises");
    return readFile(url);
}

/**
 * Calls a function with the module, which is ready.
 *
 * After a panic nobody knows what is half done in the memory of the instance. Another one takes its place, and what was in it is
 * lost.
 */
export function call(f) {
    try {
        return f(module);
    } catch (error) {
        if (!(error instanceof WebAssembly.RuntimeError || error instanceof RangeError)) {
            throw error;
        }
        number += 1;
        module.__wbg_reset_state();
        if (error.message === "unreachable") {
            // What Rust does where an allocation fails.
            throw new WebAssembly.RuntimeError(
                "the module was aborted: most likely there is no memory (WebAssembly has up to 4 GiB)",
                { cause: error },
            );
        }
        throw error;
    }
}

/** Something that ends with its instance, such as a state. */
export class Bound {
    #value;
    #number = number;

    constructor(value) {
        this.#value = value;
    }

    /** Calls a function with it. */
    use(f) {
        if (this.#value === undefined) {
            throw new Error("this has been released");
        }
        if (this.#number !== number) {
            throw new Error("this was lost when the module panicked: make another one");
        }
        return call(() => f(this.#value));
    }

    /** Frees its memory. */
    release() {
        if (this.#number === number) {
            this.#value?.free();
        }
        this.#value = undefined;
    }

    /** Gives it away. */
    take() {
        return this.use((value) => {
            this.#value = undefined;
            return value;
        });
    }
}

/** Something in the instance that is made again when another one has taken the place of that instance. */
export class Held {
    #make;
    #value;
    #number;

    /** `make` gives a promise of a function that makes it of the module. */
    constructor(make) {
        this.#make = make;
    }

    /** Calls a function with it and with the module. */
    async use(f) {
        while (this.#number !== number || this.#value === undefined) {
            await ready();
            const make = await this.#made();
            this.#value = call(make);
            this.#number = number;
        }
        return call((module) => f(this.#value, module));
    }

    #made() {
        if (this.#make === undefined) {
            throw new Error("this has been released");
        }
        return this.#make();
    }

    /** Frees its memory. */
    release() {
        if (this.#value !== undefined && this.#number === number) {
            this.#value.free();
        }
        this.#value = this.#make = undefined;
    }
}
