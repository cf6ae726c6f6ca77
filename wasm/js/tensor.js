// Tensors, as programs have them.

const ARRAYS = {
    f64: Float64Array,
    f32: Float32Array,
    f16: Uint16Array,
    i64: BigInt64Array,
    i32: Int32Array,
    i16: Int16Array,
    i8: Int8Array,
    u64: BigUint64Array,
    u32: Uint32Array,
    u16: Uint16Array,
    u8: Uint8Array,
    bool: Uint8Array,
    string: Array,
};

export class Tensor {
    constructor(type, data, shape = [data?.length]) {
        const array = ARRAYS[type];
        if (array === undefined) {
            throw new TypeError(`there is no element type ${type}: types are ${Object.keys(ARRAYS).join(", ")}`);
        }
        this.type = type;
        this.data = elements(type, array, data);
        this.shape = Array.from(shape);
        const isSize = (size) => Number.isSafeInteger(size) && size >= 0;
        if (!this.shape.every(isSize)) {
            throw new TypeError(`the sizes of a shape are whole numbers from 0, but here they are ${this.shape}`);
        }
        const count = this.shape.reduce((product, size) => product * size, 1);
        if (count !== this.data.length) {
            throw new RangeError(`shape [${this.shape}] has ${count} elements, but there are ${this.data.length}`);
        }
    }
}

/** The elements as an array of the type. */
function elements(type, array, data) {
    if (data instanceof array) {
        if (type === "string" && !data.every((text) => typeof text === "string")) {
            throw new TypeError("the elements of a tensor of type string must be strings");
        }
        return data;
    }
    if (Array.isArray(data)) {
        if (type === "f16") {
            throw new TypeError("the elements of a tensor of type f16 are bits, in an Uint16Array");
        }
        const isBig = type === "i64" || type === "u64";
        return isBig ? array.from(data, BigInt) : array.from(data);
    }
    if (type === "f16" && data?.constructor?.name === "Float16Array") {
        return new Uint16Array(data.buffer, data.byteOffset, data.length);
    }
    throw new TypeError(`the data of a tensor of type ${type} must be of ${array.name}, but is ${nameOf(data)}`);
}

function nameOf(data) {
    return data?.constructor?.name ?? String(data);
}

/** A tensor as the module takes it. */
export function toModule(name, tensor) {
    const { type, data, shape } = tensor ?? {};
    if (data === undefined || !Array.isArray(shape)) {
        throw new TypeError(`input ${JSON.stringify(name)} is ${nameOf(tensor)}, but must be a Tensor`);
    }
    return [type, data, shape];
}

/** A tensor as the module gives it. */
export function fromModule([type, data, shape]) {
    return new Tensor(type, data, shape);
}
