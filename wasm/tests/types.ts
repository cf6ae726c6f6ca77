// What the types of the package allow, and what they do not. Only the compiler of TypeScript reads this.

import { LanguageModel, Model, Tensor } from "tract-openvino";
import { startWorker, type WorkerClasses } from "tract-openvino/worker";

const bytes = new Uint8Array();
const model: Model = await Model.load({ xml: "<net/>", bin: bytes }, { shapes: { x: [1, null, "32*h"] } });
const { y } = await model.run({ x: new Tensor("f32", new Float32Array(3), [1, 3]), z: new Tensor("i64", [1n, 2]) });
const type: string = y!.type;
const elements: Float32Array = new Tensor("f32", [1, 2]).data;
const size: number | string = model.inputs[0]!.shape[0]!;
// @ts-expect-error: this is not the data of i64.
new Tensor("i64", new Float32Array(3));
// @ts-expect-error: there is no such type.
new Tensor("f31", [1]);
// @ts-expect-error: bits are not plain numbers.
new Tensor("f16", [1]);
// @ts-expect-error: inputs are tensors.
await model.run({ x: new Float32Array(3) });
// @ts-expect-error: a model is loaded.
new Model();
await (await model.state()).run({});

const language = await LanguageModel.fetch("models/smollm2", { onProgress: ({ loaded, total }) => [loaded, total] });
const generation = language.generate([{ role: "user", content: "Hello" }], { maxNewTokens: 3, stopStrings: ["."] });
for await (const piece of generation) {
    const text: string = piece;
}
const tokens: Uint32Array | undefined = generation.tokens;
// @ts-expect-error: there is no such option.
language.generate("Hello", { maxTokens: 3 });

const worker: WorkerClasses = await startWorker();
const remote: Model = await worker.Model.load(() => ({ onnx: bytes }));
const other: LanguageModel = await worker.LanguageModel.fetch(new URL("http://localhost/"), { exact: true });
await worker.terminate();
