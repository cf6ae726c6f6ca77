// A network or a language model on one runtime, in a process of its own, for bench.mjs.
//
//     node peer.mjs ir|onnx|onnxruntime FOLDER

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Tokens of the prompt, and those that are generated. */
const PROMPT = 128;
const TOKENS = 24;

const [runtime, folder] = process.argv.slice(2);
const read = (name) => readFileSync(join(folder, name));
const isLanguage = existsSync(join(folder, "tokenizer.json"));
const started = performance.now();
const kind = runtime === "onnxruntime" ? onnxRuntime : ours;
const { run, check } = await kind();
process.send({ ready: performance.now() - started });
process.on("message", async ({ seconds, isCheck }) => {
    try {
        process.send(isCheck ? { largest: await check?.() } : { times: await repeat(seconds) });
    } catch (error) {
        process.send({ error: String(error.message ?? error) });
    }
});

/** Times of runs in milliseconds: at least one, until the time is over. Each is a number, or times by what they are of. */
async function repeat(seconds) {
    const end = performance.now() + 1000 * seconds;
    const times = [];
    do {
        const begin = performance.now();
        const parts = await run();
        times.push(parts ?? { run: performance.now() - begin });
    } while (performance.now() < end);
    return times;
}

/** The largest difference from outputs, relative to their largest number. */
function error(found, expected) {
    let [difference, largest] = [0, 0];
    for (const [number, { data }] of expected.entries()) {
        for (let at = 0; at < data.length; at += 1) {
            difference = Math.max(difference, Math.abs(Number(found[number].data[at]) - Number(data[at])));
            largest = Math.max(largest, Math.abs(Number(data[at])));
        }
    }
    return difference / largest;
}

async function ours() {
    const { LanguageModel, Model } = await import("tract-openvino");
    if (isLanguage) {
        const names = ["openvino_model.xml", "openvino_model.bin", "tokenizer.json", "generation_config.json", "config.json"];
        const files = Object.fromEntries(names.map((name) => [name, read(name)]));
        const model = await LanguageModel.load(files);
        // A word of this text is a token.
        const prompt = " the house".repeat(PROMPT / 2);
        const run = async () => {
            const options = { maxNewTokens: TOKENS, minNewTokens: TOKENS, doSample: false };
            const generation = model.generate(prompt, options);
            const begin = performance.now();
            await generation.next();
            const first = performance.now();
            while (!(await generation.next()).done) {}
            const end = performance.now();
            if (generation.promptTokens !== PROMPT) {
                throw new Error(`the prompt has ${generation.promptTokens} tokens`);
            }
            return { prompt: first - begin, token: (end - first) / (generation.tokens.length - 1) };
        };
        return { run };
    }
    const { dataSets } = await import("../tests/data.js");
    const model = await Model.load(
        runtime === "onnx" ? { onnx: read("model.onnx") } : { xml: read("model.xml"), bin: read("model.bin") },
    );
    const [{ inputs, outputs }] = dataSets(folder);
    const given = Object.fromEntries(model.inputs.map(({ name }, number) => [name, inputs[number]]));
    const run = async () => void (await model.run(given));
    return { run, check: async () => error(Object.values(await model.run(given)), outputs) };
}

async function onnxRuntime() {
    const ort = await import("onnxruntime-web/wasm");
    ort.env.wasm.numThreads = 1;
    ort.env.logLevel = "error";
    const session = (name) => {
        const data = `${name}.data`;
        const externalData = existsSync(join(folder, data)) ? [{ path: data, data: read(data) }] : [];
        return ort.InferenceSession.create(read(name), { graphOptimizationLevel: "all", externalData });
    };
    if (isLanguage) {
        return language(ort, await session("model.onnx"));
    }
    const { dataSets } = await import("../tests/data.js");
    const model = await session("model.onnx");
    const [{ inputs, outputs }] = dataSets(folder);
    const types = { f32: "float32", i64: "int64", i32: "int32", u8: "uint8", bool: "bool" };
    const tensor = ({ type, data, shape }) => new ort.Tensor(types[type], data, shape);
    const given = Object.fromEntries(model.inputNames.map((name, number) => [name, tensor(inputs[number])]));
    const run = async () => void (await model.run(given));
    const found = async () => {
        const all = await model.run(given);
        return model.outputNames.map((name) => all[name]);
    };
    return { run, check: async () => error(await found(), outputs) };
}

/** A model with a key and a value of each layer as inputs and outputs, as exporters write it. */
function language(ort, session) {
    const { head_size: size, num_key_value_heads: heads } = JSON.parse(read("genai_config.json")).model.decoder;
    const tokens = JSON.parse(read("prompt.json"));
    const ids = (list) => new ort.Tensor("int64", BigInt64Array.from(list, BigInt), [1, list.length]);
    const greatest = ({ data, dims }) => {
        const last = data.subarray(data.length - dims[2]);
        return last.reduce((best, value, at) => (value > last[best] ? at : best), 0);
    };
    const run = async () => {
        const past = session.inputNames.filter((name) => name.startsWith("past_key_values."));
        let state = past.map((name) => [name, new ort.Tensor("float32", new Float32Array(), [1, heads, 0, size])]);
        const step = async (next, length) => {
            const mask = ids(Array(length).fill(1));
            const given = { input_ids: ids(next), attention_mask: mask, ...Object.fromEntries(state) };
            const outputs = await session.run(given);
            state = past.map((name) => [name, outputs[name.replace("past_key_values", "present")]]);
            return greatest(outputs.logits);
        };
        const begin = performance.now();
        const generated = [await step(tokens, tokens.length)];
        const first = performance.now();
        while (generated.length < TOKENS) {
            generated.push(await step(generated.slice(-1), tokens.length + generated.length));
        }
        return { prompt: first - begin, token: (performance.now() - first) / (TOKENS - 1) };
    };
    return { run };
}
