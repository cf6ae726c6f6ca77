// Models and their states.

import { asBytes, download } from "./files.js";
import { Bound, Held } from "./instance.js";
import { fromModule, toModule } from "./tensor.js";

/** Where a model comes from: what it is given, or what that function gives. */
async function filesOf(source) {
    const { xml, bin, onnx } = (typeof source === "function" ? await source() : source) ?? {};
    if ((xml === undefined) === (onnx === undefined)) {
        throw new TypeError("a model is { xml, bin } of OpenVINO IR, or { onnx }");
    }
    return asBytes({ xml, bin, onnx });
}

/** Pairs of inputs and shapes, flat. A dimension is a size, an expression of symbols, or null, which leaves it as it is. */
function shapesOf(shapes = {}) {
    return Object.entries(shapes).flatMap(([name, shape]) => [name, shape.map((dim) => dim ?? "?").join(",")]);
}

const port = ([name, type, shape]) => Object.freeze({ name, type, shape: Object.freeze(shape) });

export class Model {
    #held;

    constructor(held) {
        this.#held = held;
    }

    static async load(source, { shapes } = {}) {
        // Whoever gives bytes may change the object that has them.
        const kept = typeof source === "function" ? source : { ...source };
        const held = new Held(async () => {
            const { xml, bin, onnx } = await filesOf(kept);
            const pairs = shapesOf(shapes);
            return ({ Model }) =>
                onnx === undefined
                    ? Model.fromIr(xml, bin ?? new Uint8Array(), pairs)
                    : Model.fromOnnx(onnx, pairs);
        });
        const model = new Model(held);
        await held.use((handle) => {
            model.inputs = Object.freeze(handle.inputs().map(port));
            model.outputs = Object.freeze(handle.outputs().map(port));
        });
        return model;
    }

    static fetch(url, { onProgress, signal, ...options } = {}) {
        const base = String(url);
        const path = base.split(/[?#]/, 1)[0];
        const urls = path.endsWith(".xml")
            ? { xml: base, bin: path.replace(/xml$/, "bin") + base.slice(path.length) }
            : { onnx: base };
        // When it is downloaded again, after a panic, nobody waits for progress.
        let first = { onProgress, signal };
        const source = () => {
            const files = download(urls, { optional: ["bin"], ...first });
            first = {};
            return files;
        };
        return Model.load(source, options);
    }

    async run(inputs) {
        return this.#held.use((handle) => run(this, handle, inputs));
    }

    async state() {
        return this.#held.use((handle) => new State(this, new Bound(handle.state())));
    }

    release() {
        this.#held.release();
    }
}

export class State {
    #model;
    #bound;

    constructor(model, bound) {
        this.#model = model;
        this.#bound = bound;
    }

    async run(inputs) {
        return this.#bound.use((handle) => run(this.#model, handle, inputs));
    }

    release() {
        this.#bound.release();
    }
}

/** Outputs by their names. */
function run(model, handle, inputs) {
    const given = Object.entries(inputs ?? {});
    const names = given.map(([name]) => name);
    const tensors = given.map(([name, tensor]) => toModule(name, tensor));
    const outputs = handle.run(names, tensors).map(fromModule);
    return Object.fromEntries(model.outputs.map(({ name }, number) => [name, outputs[number]]));
}
