// Each model folder of this repository, with its data sets.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { after, test } from "node:test";

import { Model } from "tract-openvino";

import { dataSets, difference } from "./data.js";
import { REPOSITORY } from "./repository.js";

// As `ir/tests/models.rs` and `tests/models.rs` have them.
const NETWORKS = { atol: 1e-4, rtol: 1e-3 };
const OPERATIONS = { atol: 1e-5, rtol: 1e-5 };
const HALF = { atol: 1e-3, rtol: 2e-3 };
const EXACT = { atol: 0, rtol: 0 };


function* folders(root) {
    for (const entry of readdirSync(root, { withFileTypes: true })) {
        const folder = join(root, entry.name);
        if (!entry.isDirectory()) {
            continue;
        }
        if (existsSync(join(folder, "model.xml")) || existsSync(join(folder, "model.onnx"))) {
            yield folder;
        } else {
            yield* folders(folder);
        }
    }
}

async function load(folder) {
    const bytes = (name) => readFileSync(join(folder, name));
    if (existsSync(join(folder, "model.onnx"))) {
        return Model.load({ onnx: bytes("model.onnx") });
    }
    const bin = existsSync(join(folder, "model.bin")) ? bytes("model.bin") : undefined;
    const shapes = {};
    if (existsSync(join(folder, "shapes"))) {
        for (const line of readFileSync(join(folder, "shapes"), "utf8").split("\n").filter((line) => line.includes("="))) {
            const [name, shape] = line.split("=");
            shapes[name] = shape.split(",");
        }
    }
    return Model.load({ xml: bytes("model.xml"), bin }, { shapes });
}

let count = 0;

for (const root of ["models", "ir/models"]) {
    for (const folder of folders(join(REPOSITORY, root))) {
        const name = relative(REPOSITORY, folder);
        test(name, async () => {
            const model = await load(folder);
            // Variables go on from one data set to the next.
            const state = await model.state();
            const sets = dataSets(folder);
            assert.notEqual(sets.length, 0);
            for (const [number, { inputs, outputs }] of sets.entries()) {
                assert.equal(inputs.length, model.inputs.length);
                assert.equal(outputs.length, model.outputs.length);
                const found = await state.run(Object.fromEntries(model.inputs.map((it, at) => [it.name, inputs[at]])));
                for (const [at, expected] of outputs.entries()) {
                    const tolerance = root === "models" ? EXACT
                        : outputs.some(({ type }) => type === "f16") ? HALF
                        : name.startsWith("ir/models/networks") ? NETWORKS : OPERATIONS;
                    const text = difference(expected, found[model.outputs[at].name], tolerance);
                    assert.equal(text, undefined, `data set ${number}, output ${at}`);
                }
            }
            state.release();
            model.release();
            count += 1;
        });
    }
}

after(() => console.log(`${count} models`));
