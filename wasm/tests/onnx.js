// Writes small files of ONNX.

function varint(value) {
    const bytes = [];
    for (; value > 127; value >>= 7) {
        bytes.push((value & 127) | 128);
    }
    return [...bytes, value];
}

/** A message of protobuf: pairs of a field and its value, a number, a text or another message. */
function message(...fields) {
    return fields.flatMap(([field, value]) => {
        if (typeof value === "number") {
            return [...varint(field << 3), ...varint(value)];
        }
        const bytes = typeof value === "string" ? [...Buffer.from(value)] : value;
        return [...varint((field << 3) | 2), ...varint(bytes.length), ...bytes];
    });
}

/** An input or output of floats. */
function value(name, dims) {
    const dim = (dim) => message([typeof dim === "number" ? 1 : 2, dim]);
    const shape = message(...dims.map((it) => [1, dim(it)]));
    return message([1, name], [2, message([1, message([1, 1], [2, shape])])]);
}

/** A model with nodes `[op type, inputs, outputs]`, and inputs and outputs as pairs of a name and dimensions. */
export function model(nodes, inputs, outputs) {
    const node = ([type, inputs, outputs]) =>
        message(...inputs.map((it) => [1, it]), ...outputs.map((it) => [2, it]), [4, type]);
    const graph = message(
        ...nodes.map((it) => [1, node(it)]),
        [2, "graph"],
        ...inputs.map((it) => [11, value(...it)]),
        ...outputs.map((it) => [12, value(...it)]),
    );
    return new Uint8Array(message([1, 8], [7, graph], [8, message([2, 17])]));
}
