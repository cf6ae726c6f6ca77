// The same classes in a worker.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";

import * as direct from "tract-openvino";
import { startWorker, Tensor } from "tract-openvino/worker";

import * as onnx from "./onnx.js";
import { REPOSITORY } from "./repository.js";

const folder = (name) => join(REPOSITORY, name);
const relu = onnx.model([["Relu", ["x"], ["y"]]], [["x", ["N"]]], [["y", ["N"]]]);
const panics = onnx.model([["Relu", ["x"], ["y"]]], [["x", [2]]], [["z", [2]]]);

let worker;
before(async () => (worker = await startWorker()));
after(() => worker.terminate());

test("models", async () => {
    const model = await worker.Model.load({ onnx: relu });
    assert.deepEqual(model.inputs, [{ name: "x", type: "f32", shape: ["N"] }]);
    const { y } = await model.run({ x: new Tensor("f32", [-1, 2]) });
    assert.ok(y instanceof Tensor);
    assert.deepEqual(y, new Tensor("f32", [0, 2]));
    await assert.rejects(model.run({ y }), /^Error: the model has no input "y"/);
    await assert.rejects(model.run({ x: 1 }), /^TypeError/);
    await assert.rejects(worker.Model.load({ onnx: panics }), WebAssembly.RuntimeError);
    assert.deepEqual((await model.run({ x: new Tensor("f32", [-1, 2]) })).y, y);
    model.release();
    await assert.rejects(model.run({ x: y }), /released/);
});

test("states", async () => {
    const name = folder("ir/models/networks/silero_stateful/model");
    const source = { xml: readFileSync(`${name}.xml`), bin: readFileSync(`${name}.bin`) };
    const [here, there] = [await direct.Model.load(source), await worker.Model.load(source)];
    const [a, b] = [await here.state(), await there.state()];
    const input = new Tensor("f32", new Float32Array(576).fill(0.1), [1, 576]);
    const found = [];
    for (let time = 0; time < 3; time += 1) {
        found.push(await b.run({ input }));
        assert.deepEqual(found.at(-1), await a.run({ input }));
    }
    assert.notDeepEqual(found[0], found[1]);
    b.release();
    await assert.rejects(b.run({ input }), /released/);
});

test("texts", async () => {
    const tiny = folder("generation/models/tiny");
    const files = Object.fromEntries(readdirSync(tiny).map((name) => [name, readFileSync(join(tiny, name))]));
    const [here, there] = [await direct.LanguageModel.load(files), await worker.LanguageModel.load(files)];
    const pieces = async (model, options) => {
        const generation = model.generate("Hello", { maxNewTokens: 20, ...options });
        const pieces = [];
        for await (const piece of generation) {
            pieces.push(piece);
        }
        return [pieces, generation.end, generation.tokens, generation.promptTokens];
    };
    assert.deepEqual(await pieces(there), await pieces(here));
    await assert.rejects(pieces(there, { maxTokens: 1 }), /there is no option "maxTokens"/);
    const controller = new AbortController();
    const aborted = there.generate("Hello", { maxNewTokens: 200, signal: controller.signal });
    await aborted.next();
    controller.abort(new Error("enough"));
    await assert.rejects(aborted.next(), /enough/);
    assert.equal(aborted.end, "stopped");
    assert.ok(aborted.tokens.length < 200);
    const left = there.generate("Hello", { maxNewTokens: 200 });
    for await (const _ of left) {
        break;
    }
    assert.equal(left.end, "stopped");
});

test("the program goes on while a model runs", async () => {
    const name = folder("ir/models/networks/yolo_v3/model");
    const source = { xml: readFileSync(`${name}.xml`), bin: readFileSync(`${name}.bin`) };
    let isDone = false;
    const loading = worker.Model.load(source).finally(() => (isDone = true));
    let turns = 0;
    while (!isDone) {
        await new Promise((resolve) => setImmediate(resolve));
        turns += 1;
    }
    await loading;
    assert.ok(turns > 3, `${turns}`);
});

test("downloads", async (t) => {
    const server = createServer(({ url }, answer) => {
        if (url === "/endless.onnx") {
            answer.write("a");
        } else {
            answer.writeHead(200, { "content-length": relu.length }).end(relu);
        }
    });
    await new Promise((resolve) => server.listen(0, "localhost", resolve));
    t.after(() => server.closeAllConnections() ?? server.close());
    const at = (path) => `http://localhost:${server.address().port}/${path}`;
    const told = [];
    const model = await worker.Model.fetch(at("relu.onnx"), { onProgress: (progress) => told.push(progress) });
    assert.equal(model.inputs[0].name, "x");
    assert.deepEqual(told.at(-1), { loaded: relu.length, total: relu.length });
    const controller = new AbortController();
    const endless = worker.Model.fetch(at("endless.onnx"), { signal: controller.signal, onProgress: () => controller.abort() });
    await assert.rejects(endless, { name: "AbortError" });
});

test("a worker that has ended", async () => {
    const { Model, terminate } = await startWorker();
    const loading = assert.rejects(Model.load({ onnx: relu }), /the worker has been ended/);
    await terminate();
    await loading;
    await assert.rejects(Model.load({ onnx: relu }), /the worker has been ended/);
});
