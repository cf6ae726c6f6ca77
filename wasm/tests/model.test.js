// What a program does with models, and what goes wrong.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";

import { Model, Tensor } from "tract-openvino";

import { dataSets, difference } from "./data.js";
import * as onnx from "./onnx.js";
import { REPOSITORY } from "./repository.js";

const folder = (name) => join(REPOSITORY, "ir/models", name);
const files = (name) => ({
    xml: readFileSync(join(folder(name), "model.xml")),
    bin: readFileSync(join(folder(name), "model.bin")),
});
const zeros = (...shape) => new Tensor("f32", new Float32Array(shape.reduce((a, b) => a * b)), shape);

/** `y = Relu(x)` of `[N, 3]`. */
const relu = () => onnx.model([["Relu", ["x"], ["y"]]], [["x", ["N", 3]]], [["y", ["N", 3]]]);

/** A model whose output no node makes, at which tract's reader of ONNX panics. */
const panics = () => onnx.model([["Relu", ["x"], ["y"]]], [["x", [2]]], [["z", [2]]]);

test("inputs, outputs and a run", async () => {
    const model = await Model.load({ onnx: relu() });
    assert.deepEqual(model.inputs, [{ name: "x", type: "f32", shape: ["N", 3] }]);
    assert.deepEqual(model.outputs, [{ name: "y", type: "f32", shape: ["N", 3] }]);
    const x = new Tensor("f32", [-1, 0, 1, 2, -3, NaN], [2, 3]);
    const { y } = await model.run({ x });
    assert.ok(y instanceof Tensor && y.data instanceof Float32Array);
    assert.deepEqual([...y.data].slice(0, 5), [0, 0, 1, 2, 0]);
    assert.deepEqual([y.type, y.shape], ["f32", [2, 3]]);
    // What it was fed is as it was.
    assert.deepEqual([...x.data].slice(0, 5), [-1, 0, 1, 2, -3]);
    assert.deepEqual((await model.run({ x: zeros(0, 3) })).y.shape, [0, 3]);
});

test("shapes", async () => {
    const fixed = await Model.load({ onnx: relu() }, { shapes: { x: [4, null] } });
    assert.deepEqual(fixed.inputs[0].shape, [4, 3]);
    await assert.rejects(fixed.run({ x: zeros(2, 3) }), /input "x" is of shape 4,3, but the tensor is of shape \[2, 3\]/);
    const unet = await Model.load(files("networks/unet"), { shapes: { x: ["N", 3, "4*h", "4*w"] } });
    assert.deepEqual(unet.inputs[0].shape, ["N", 3, "4*h", "4*w"]);
    await assert.rejects(Model.load({ onnx: relu() }, { shapes: { other: [1] } }), /no input "other"/);
    await assert.rejects(Model.load({ onnx: relu() }, { shapes: { x: [1] } }), /has rank 2, but the shape "1" has rank 1/);
    await assert.rejects(Model.load(files("networks/unet"), { shapes: { x: [1, 2, 3, 4] } }), /Error: .*x/s);
});

test("wrong inputs", async () => {
    const model = await Model.load({ onnx: relu() });
    const rejects = (inputs, text) => assert.rejects(model.run(inputs), text);
    await rejects({}, /^Error: there is no tensor for input "x"$/);
    await rejects({ x: zeros(1, 3), z: zeros(1) }, /the model has no input "z": its inputs are "x"/);
    await rejects({ x: new Tensor("i32", [1, 2, 3], [1, 3]) }, /input "x" is of type f32, but the tensor is of type i32/);
    await rejects({ x: zeros(3) }, /input "x" is of shape N,3, but the tensor is of shape \[3\]/);
    await rejects({ x: zeros(3, 4) }, /but the tensor is of shape \[3, 4\]/);
    await rejects({ x: new Float32Array(3) }, /TypeError: input "x" is Float32Array, but must be a Tensor/);
    await rejects({ x: { type: "f32", data: new Float64Array(3), shape: [1, 3] } }, /type f32 is not in an object of Float32Array/);
    await rejects({ x: { type: "f32", data: new Float32Array(3), shape: [1, 4] } }, /shape \[1, 4\] does not have 3 elements/);
    await rejects({ x: { type: "f32", data: new Float32Array(3), shape: [-1, NaN] } }, /Error/);
    assert.equal((await model.run({ x: zeros(1, 3) })).y.data.length, 3);
});

test("tensors that do not hold together", () => {
    assert.throws(() => new Tensor("f31", []), /TypeError: there is no element type f31/);
    assert.throws(() => new Tensor("f32", new Float64Array(1)), /must be of Float32Array, but is Float64Array/);
    assert.throws(() => new Tensor("f32", new Float32Array(6), [2, 4]), /shape \[2,4\] has 8 elements, but there are 6/);
    assert.throws(() => new Tensor("f32", new Float32Array(6), [-2, -3]), /whole numbers/);
    assert.throws(() => new Tensor("string", [1]), /must be strings/);
    assert.throws(() => new Tensor("f16", [1]), /bits/);
    assert.deepEqual(new Tensor("i64", [1, 2n]).data, new BigInt64Array([1n, 2n]));
    assert.deepEqual(new Tensor("bool", [true, false]).data, new Uint8Array([1, 0]));
    assert.deepEqual(new Tensor("u8", [1, 2, 3]).shape, [3]);
});

test("files that are no models", async () => {
    const { xml, bin } = files("networks/silero_stateful");
    const rejects = (source, text) => assert.rejects(Model.load(source), text);
    await rejects({ xml: "<net", bin }, /Error: .+/);
    await rejects({ xml, bin: bin.subarray(0, 100) }, /reach beyond the weights, which have 100 bytes/);
    await rejects({ onnx: new Uint8Array([255, 255]) }, /this is not a model of ONNX/);
    await rejects({ onnx: onnx.model([["NoSuchOperator", ["x"], ["y"]]], [["x", [2]]], [["y", [2]]]) }, /NoSuchOperator/);
    await rejects({}, /TypeError: a model is \{ xml, bin \} of OpenVINO IR, or \{ onnx \}/);
    await rejects({ xml, onnx: bin }, /TypeError/);
    await rejects({ xml: 1 }, /TypeError: xml must be/);
    // All causes of an error are in its text: where it is, and what is wrong there.
    const wrong = xml.toString().replace(/strides="[^"]*"/, 'strides="0"');
    await rejects({ xml: wrong, bin }, /^Error: .*: .*strides/s);
});

test("a model that is too large", async () => {
    // Nothing of it is touched.
    const large = new Uint8Array(2 ** 31);
    const before = process.memoryUsage().rss;
    await assert.rejects(Model.load({ onnx: large }), /has 2147483648 bytes, but must have less than 2 GiB/);
    assert.ok(process.memoryUsage().rss - before < 2 ** 28);
});

test("downloads", async (t) => {
    const { xml, bin } = files("networks/silero_stateful");
    const server = createServer(({ url }, answer) => {
        if (url === "/large.onnx") {
            answer.writeHead(200, { "content-length": 3e9 });
            answer.write("a");
        } else if (url === "/endless.onnx") {
            answer.write("a");
        } else if (url === "/model.xml?v=1" || url === "/model.bin?v=1") {
            const content = url.startsWith("/model.xml") ? xml : bin;
            answer.writeHead(200, { "content-length": content.length }).end(content);
        } else if (url === "/relu.onnx") {
            // Its size is not said.
            answer.write(relu());
            answer.end();
        } else {
            answer.writeHead(404).end();
        }
    });
    await new Promise((resolve) => server.listen(0, "localhost", resolve));
    t.after(() => server.closeAllConnections() ?? server.close());
    const at = (path) => `http://localhost:${server.address().port}/${path}`;

    const told = [];
    const model = await Model.fetch(at("model.xml?v=1"), { onProgress: (progress) => told.push(progress) });
    assert.equal(model.inputs[0].name, "input");
    const total = xml.length + bin.length;
    assert.deepEqual(told.at(-1), { loaded: total, total });
    assert.deepEqual(told[0], { loaded: 0, total });
    assert.ok(told.every(({ loaded }, number) => number === 0 || loaded > told[number - 1].loaded));

    const small = await Model.fetch(new URL(at("relu.onnx")), { onProgress: (progress) => told.push(progress) });
    assert.deepEqual(told.at(-1), { loaded: relu().length });
    assert.equal(small.inputs[0].name, "x");

    await assert.rejects(Model.fetch(at("none.onnx")), /downloading .*none\.onnx: 404 Not Found/);
    await assert.rejects(Model.fetch(at("large.onnx")), /has 3000000000 bytes, but must have less than 2 GiB/);
    const controller = new AbortController();
    const endless = Model.fetch(at("endless.onnx"), { signal: controller.signal, onProgress: () => controller.abort() });
    await assert.rejects(endless, { name: "AbortError" });

    // After a panic it is downloaded again.
    await assert.rejects(Model.load({ onnx: panics() }), WebAssembly.RuntimeError);
    assert.deepEqual((await small.run({ x: zeros(2, 3) })).y.shape, [2, 3]);
});

test("a state keeps variables", async () => {
    const name = "networks/silero_stateful";
    const model = await Model.load(files(name));
    const [first, second] = dataSets(folder(name));
    const tolerance = { atol: 1e-4, rtol: 1e-3 };
    const matches = async (run, { inputs: [input], outputs: [expected] }) => {
        const { output } = await run({ input });
        return difference(expected, output, tolerance) === undefined;
    };
    const state = await model.state();
    const other = await model.state();
    assert.ok(await matches((inputs) => state.run(inputs), first));
    // An error changes nothing.
    await assert.rejects(state.run({}), /no tensor for input/);
    assert.ok(await matches((inputs) => state.run(inputs), second));
    // Others begin anew.
    assert.ok(!(await matches((inputs) => other.run(inputs), second)));
    assert.ok(await matches((inputs) => model.run(inputs), first));
    assert.ok(await matches((inputs) => model.run(inputs), first));
    state.release();
    await assert.rejects(state.run({ input: first.inputs[0] }), /released/);
});

test("a panic is an exception, and the next call works", async () => {
    const source = files("networks/silero_stateful");
    const model = await Model.load(source);
    const state = await model.state();
    const input = zeros(1, 576);
    const before = await state.run({ input });
    // Other objects than those that it was given do not matter.
    source.xml = source.bin = undefined;
    for (let time = 0; time < 3; time += 1) {
        await assert.rejects(Model.load({ onnx: panics() }), (error) => {
            assert.ok(error instanceof WebAssembly.RuntimeError);
            assert.match(error.message, /^panicked: .+ at .*tract-.*:\d+$/s);
            return true;
        });
        assert.deepEqual(await model.run({ input }), before);
    }
    await assert.rejects(state.run({ input }), /this was lost when the module panicked: make another one/);
    assert.deepEqual(await (await model.state()).run({ input }), before);
});

test("released models", async () => {
    const model = await Model.load({ onnx: relu() });
    model.release();
    model.release();
    await assert.rejects(model.run({ x: zeros(1, 3) }), /released/);
    await assert.rejects(model.state(), /released/);
});

test("memory is given back", async () => {
    const source = files("networks/silero_stateful");
    // Each of these takes more than the first few MiB of the module.
    for (let time = 0; time < 300; time += 1) {
        const model = await Model.load(source);
        model.release();
    }
});
