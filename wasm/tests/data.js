// Reads what the model folders of this repository have: tensors in .npz and .pb files.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { inflateRawSync } from "node:zlib";

import { Tensor } from "tract-openvino";

/** The data sets of a folder: `{ inputs, outputs }`, each in the order of the model. */
export function dataSets(folder) {
    const sets = [];
    for (let number = 0; ; number += 1) {
        const name = join(folder, `test_data_set_${number}`);
        if (existsSync(`${name}.npz`)) {
            sets.push(ordered(npz(readFileSync(`${name}.npz`))));
        } else if (existsSync(name)) {
            const files = readdirSync(name).filter((file) => file.endsWith(".pb"));
            const tensors = files.map((file) => [file.slice(0, -3), tensorProto(readFileSync(join(name, file)))]);
            sets.push(ordered(new Map(tensors)));
        } else {
            return sets;
        }
    }
}

function ordered(tensors) {
    const all = (kind) => {
        const found = [];
        while (tensors.has(`${kind}_${found.length}`)) {
            found.push(tensors.get(`${kind}_${found.length}`));
        }
        return found;
    };
    return { inputs: all("input"), outputs: all("output") };
}

/** The arrays of a zip archive, by their names. */
function npz(file) {
    const end = file.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
    const count = file.readUInt16LE(end + 10);
    let at = file.readUInt32LE(end + 16);
    const arrays = new Map();
    for (let number = 0; number < count; number += 1) {
        const [method, size] = [file.readUInt16LE(at + 10), file.readUInt32LE(at + 20)];
        const [name, extra, comment] = [28, 30, 32].map((field) => file.readUInt16LE(at + field));
        const header = file.readUInt32LE(at + 42);
        const start = header + 30 + file.readUInt16LE(header + 26) + file.readUInt16LE(header + 28);
        const packed = file.subarray(start, start + size);
        const array = npy(method === 0 ? packed : inflateRawSync(packed));
        arrays.set(file.toString("utf8", at + 46, at + 46 + name).replace(/\.npy$/, ""), array);
        at += 46 + name + extra + comment;
    }
    return arrays;
}

const OF_NUMPY = {
    f8: "f64", f4: "f32", f2: "f16", i8: "i64", i4: "i32", i2: "i16", i1: "i8", u8: "u64", u4: "u32", u2: "u16", u1: "u8", b1: "bool",
};

function npy(file) {
    const start = file[6] === 1 ? 10 + file.readUInt16LE(8) : 12 + file.readUInt32LE(8);
    const header = file.toString("latin1", 10, start);
    const [, type] = /'descr': '[<|=](\w+)'/.exec(header);
    const [, sizes] = /'shape': \(([^)]*)\)/.exec(header);
    if (header.includes("'fortran_order': True")) {
        throw new Error("the array is in Fortran's order");
    }
    const shape = sizes.split(",").filter((size) => size.trim() !== "").map(Number);
    if (type.startsWith("U")) {
        return new Tensor("string", unicode(file.subarray(start), 4 * Number(type.slice(1))), shape);
    }
    return tensorOfBytes(OF_NUMPY[type], file.subarray(start), shape);
}

/** NumPy's texts of a fixed length, in 32 bits a character. */
function unicode(bytes, size) {
    const texts = [];
    for (let at = 0; at + size <= bytes.length && size > 0; at += size) {
        let text = "";
        for (let character = at; character < at + size; character += 4) {
            text += String.fromCodePoint(bytes.readUInt32LE(character));
        }
        texts.push(text.replace(/\0+$/, ""));
    }
    return texts;
}

function tensorOfBytes(type, bytes, shape) {
    // A tensor of its own knows the array of its type.
    const { constructor } = new Tensor(type, type === "f16" ? new Uint16Array() : []).data;
    return new Tensor(type, new constructor(new Uint8Array(bytes).buffer), shape);
}

const OF_ONNX = { 1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 8: "string", 9: "bool", 10: "f16", 11: "f64", 12: "u32", 13: "u64" };

/** A TensorProto with its elements as bytes or texts. */
function tensorProto(file) {
    let at = 0;
    const varint = () => {
        let value = 0n;
        for (let shift = 0n; ; shift += 7n) {
            const byte = file[at++];
            value |= BigInt(byte & 127) << shift;
            if (byte < 128) {
                return Number(BigInt.asIntN(64, value));
            }
        }
    };
    const [shape, texts] = [[], []];
    let type;
    let raw = new Uint8Array();
    while (at < file.length) {
        const key = varint();
        const [field, wire] = [key >> 3, key & 7];
        if (wire === 0) {
            const value = varint();
            if (field === 1) {
                shape.push(value);
            } else if (field === 2) {
                type = OF_ONNX[value];
            }
            continue;
        }
        if (wire !== 2) {
            throw new Error(`field ${field} of a tensor has wire type ${wire}`);
        }
        const length = varint();
        const content = file.subarray(at, at + length);
        at += length;
        if (field === 1) {
            const end = at;
            for (at -= length; at < end; ) {
                shape.push(varint());
            }
        } else if (field === 6) {
            texts.push(content.toString("utf8"));
        } else if (field === 9) {
            raw = content;
        } else if (field !== 8) {
            throw new Error(`field ${field} of a tensor is not read here`);
        }
    }
    return type === "string" ? new Tensor(type, texts, shape) : tensorOfBytes(type, raw, shape);
}

/** Where two tensors differ by more than `atol + rtol * |expected|`, or nothing. */
export function difference(expected, found, { atol, rtol }) {
    if (expected.type !== found.type || String(expected.shape) !== String(found.shape)) {
        return `${expected.type} [${expected.shape}] expected, found ${found.type} [${found.shape}]`;
    }
    const [a, b] = [floats(expected), floats(found)];
    for (let element = 0; element < a.length; element += 1) {
        const isEqual = Object.is(a[element], b[element]) || a[element] === b[element];
        const isFloat = typeof a[element] === "number" && expected.type.startsWith("f");
        const near = atol + rtol * Math.abs(isFloat ? a[element] : 0);
        if (!isEqual && !(isFloat && Number.isFinite(a[element]) && Math.abs(a[element] - b[element]) <= near)) {
            return `${a[element]} expected at ${element}, found ${b[element]}`;
        }
    }
    return undefined;
}

function floats({ type, data }) {
    return type === "f16" ? Array.from(data, half) : data;
}

/** The number of 16 bits. */
function half(bits) {
    const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
    const size = exponent === 31 ? (fraction === 0 ? Infinity : NaN)
        : exponent === 0 ? fraction * 2 ** -24
        : (1024 + fraction) * 2 ** (exponent - 25);
    return bits & 0x8000 ? -size : size;
}
