// Texts of the tiny model, token by token.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { LanguageModel, Model } from "tract-openvino";

import * as onnx from "./onnx.js";
import { REPOSITORY } from "./repository.js";

const folder = join(REPOSITORY, "generation/models/tiny");
const files = () => Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));

async function text(generation) {
    let text = "";
    for await (const piece of generation) {
        assert.notEqual(piece, "");
        text += piece;
    }
    return text;
}

const messages = [{ role: "user", content: "What is the capital of France?" }];

test("a prompt and a chat", async () => {
    const model = await LanguageModel.load(files());
    const generation = model.generate("Hello", { maxNewTokens: 20 });
    assert.equal(generation.end, undefined);
    const first = await text(generation);
    assert.equal(generation.end, "max new tokens");
    assert.equal(generation.tokens.length, 20);
    assert.equal(await text(model.generate("Hello", { maxNewTokens: 20 })), first);

    const answer = model.generate(messages, { maxNewTokens: 8 });
    const content = await text(answer);
    assert.ok(answer.promptTokens > 20);
    // What has been read is not read again.
    const more = [...messages, { role: "assistant", content }, { role: "user", content: "And?" }];
    const next = model.generate(more, { maxNewTokens: 8 });
    const continued = await text(next);
    const fresh = (await LanguageModel.load(files())).generate(more, { maxNewTokens: 8 });
    assert.equal(await text(fresh), continued);
    assert.ok(next.promptTokens < fresh.promptTokens);
});

test("options", async () => {
    const model = await LanguageModel.load(files(), { exact: true });
    const drawn = (seed) => text(model.generate("Hello", { maxNewTokens: 30, doSample: true, temperature: 2, seed }));
    assert.equal(await drawn(1), await drawn(1));
    assert.notEqual(await drawn(1), await drawn(2));
    assert.notEqual(await drawn(), await drawn());
    assert.equal(
        await text(model.generate("Hello", { maxNewTokens: 30, doSample: true, topK: 1 })),
        await text(model.generate("Hello", { maxNewTokens: 30, doSample: false })),
    );
    const all = await text(model.generate("Hello", { maxNewTokens: 30 }));
    const stop = [...all].slice(3, 5).join("");
    const stopped = model.generate("Hello", { maxNewTokens: 30, stopStrings: [stop] });
    assert.equal(await text(stopped), all.slice(0, all.indexOf(stop)));
    assert.equal(stopped.end, "stop string");
    const beams = model.generate("Hello", { maxNewTokens: 10, numBeams: 3 });
    assert.notEqual(await text(beams), "");
    const rejects = (options, error) => assert.rejects(text(model.generate("Hello", options)), error);
    await rejects({ maxTokens: 1 }, /there is no option "maxTokens"/);
    await rejects({ maxNewTokens: -1 }, /maxNewTokens is -1, but must be a whole number/);
    await rejects({ temperature: "hot" }, /temperature is "hot", but must be a number/);
    await rejects({ doSample: true, temperature: 0 }, /temperature/);
    await rejects({ topP: 2, doSample: true }, /top_p/);
});

test("it can be ended", async () => {
    const model = await LanguageModel.load(files());
    const left = model.generate("Hello", { maxNewTokens: 40 });
    for await (const piece of left) {
        assert.ok(piece.length > 0);
        break;
    }
    assert.equal(left.end, "stopped");
    assert.deepEqual(await left.next(), { value: undefined, done: true });

    const controller = new AbortController();
    const aborted = model.generate(messages, { maxNewTokens: 40, signal: controller.signal });
    let pieces = 0;
    const read = async () => {
        for await (const piece of aborted) {
            pieces += piece.length > 0;
            // Between two tokens, timers have their turn.
            setTimeout(() => controller.abort());
        }
    };
    await assert.rejects(read(), { name: "AbortError" });
    assert.ok(pieces >= 1 && aborted.tokens.length < 40);
    assert.equal(aborted.end, "stopped");
    const never = model.generate("Hello", { signal: AbortSignal.abort() });
    await assert.rejects(never.next(), { name: "AbortError" });
});

test("several texts at once", async () => {
    const model = await LanguageModel.load(files());
    const alone = await text(model.generate("Hello", { maxNewTokens: 15 }));
    const texts = [1, 2, 3].map(() => text(model.generate("Hello", { maxNewTokens: 15 })));
    assert.deepEqual(await Promise.all(texts), [alone, alone, alone]);
    const chats = [1, 2].map(() => text(model.generate(messages, { maxNewTokens: 15 })));
    const [a, b] = await Promise.all(chats);
    assert.equal(a, b);
});

test("what is missing", async () => {
    const without = (name) => LanguageModel.load({ ...files(), [name]: undefined });
    await assert.rejects(without("openvino_model.xml"), /openvino_model\.xml is missing/);
    await assert.rejects(without("tokenizer.json"), /tokenizer\.json is missing/);
    const silent = await without("chat_template.jinja");
    await assert.rejects(silent.generate(messages).next(), /no chat template/);
    assert.ok((await text(silent.generate("Hello", { maxNewTokens: 3 }))).length > 0);
});

test("after a panic", async () => {
    const model = await LanguageModel.load(files());
    const before = await text(model.generate("Hello", { maxNewTokens: 10 }));
    const running = model.generate("Hello", { maxNewTokens: 10 });
    await running.next();
    const panics = onnx.model([["Relu", ["x"], ["y"]]], [["x", [2]]], [["z", [2]]]);
    await assert.rejects(Model.load({ onnx: panics }), WebAssembly.RuntimeError);
    await assert.rejects(running.next(), /lost when the module panicked/);
    assert.equal(await text(model.generate("Hello", { maxNewTokens: 10 })), before);
});
