/** The type of the elements of a tensor. `f16` are the bits of floats, in an `Uint16Array`. */
export type ElementType =
    | "f64"
    | "f32"
    | "f16"
    | "i64"
    | "i32"
    | "i16"
    | "i8"
    | "u64"
    | "u32"
    | "u16"
    | "u8"
    | "bool"
    | "string";

/** The array of each type of elements. Those of `bool` are 0 and 1. */
export interface DataOf {
    f64: Float64Array;
    f32: Float32Array;
    f16: Uint16Array;
    i64: BigInt64Array;
    i32: Int32Array;
    i16: Int16Array;
    i8: Int8Array;
    u64: BigUint64Array;
    u32: Uint32Array;
    u16: Uint16Array;
    u8: Uint8Array;
    bool: Uint8Array;
    string: string[];
}

/** An array of numbers of some type, with a shape. */
export class Tensor<T extends ElementType = ElementType> {
    /**
     * A tensor with this data, which is not copied, unless it is a plain array. Without a shape it has one axis.
     *
     * @throws TypeError or RangeError if type, data and shape do not fit together.
     */
    constructor(
        type: T,
        data: DataOf[T] | (T extends "f16" ? never : readonly (number | bigint | boolean)[]),
        shape?: readonly number[],
    );
    readonly type: T;
    readonly data: DataOf[T];
    readonly shape: number[];
}

/** Tensors by the names of inputs or outputs. */
export type Tensors = Record<string, Tensor>;

/** An input or an output of a model. */
export interface Port {
    readonly name: string;
    readonly type: ElementType;
    /** Sizes, and names or expressions of those that are open, such as `"N"` or `"32*h"`. */
    readonly shape: readonly (number | string)[];
}

export type Bytes = Uint8Array | ArrayBuffer | string;

/** OpenVINO IR: `model.xml` and `model.bin`, which a model without constants does not need. */
export interface IrFiles {
    xml: Bytes;
    bin?: Bytes;
}

/** ONNX, also with OpenVINO's operators. */
export interface OnnxFile {
    onnx: Bytes;
}

/** Files, or a function that gives them. */
export type Source<Files> = Files | (() => Files | Promise<Files>);

export interface LoadOptions {
    /**
     * Shapes of inputs, by their names: sizes, or expressions of symbols, as in `[1, 3, "32*h", "32*w"]`. `null` leaves a dimension
     * as the file has it.
     */
    shapes?: Record<string, readonly (number | string | null)[]>;
}

/** How much of a download has come. */
export interface Progress {
    /** Bytes of all files that have come. */
    loaded: number;
    /** All bytes, if the server says how many there are. */
    total?: number;
}

export interface FetchOptions {
    onProgress?: (progress: Progress) => void;
    signal?: AbortSignal;
}

/**
 * A model that is ready to run.
 *
 * What is wrong is an `Error` that says so. If the module panics, that is a `WebAssembly.RuntimeError`. Models then load themselves
 * again when they are next used: for that a model keeps the files that it was given, or the function or URL.
 */
export class Model {
    private constructor();

    /** Loads a model. Files of 2 GiB or more are an error. */
    static load(source: Source<IrFiles | OnnxFile>, options?: LoadOptions): Promise<Model>;

    /** Downloads and loads a model: an `.xml`, with the `.bin` beside it, or an ONNX file. */
    static fetch(url: string | URL, options?: LoadOptions & FetchOptions): Promise<Model>;

    readonly inputs: readonly Port[];
    readonly outputs: readonly Port[];

    /** Runs the model: a tensor for each input by its name, and one for each output. Variables are new in each run. */
    run(inputs: Tensors): Promise<Tensors>;

    /** A new state: runs in a row, which keep the variables of the model. */
    state(): Promise<State>;

    /** Frees its memory. Without that, it is freed some time after nobody has the model any more. */
    release(): void;
}

/** Runs of a model in a row. */
export class State {
    private constructor();

    /** Runs the model, and keeps its variables for the next run. After an error they are what they were. */
    run(inputs: Tensors): Promise<Tensors>;

    /** Frees its memory. */
    release(): void;
}

/** The files of a language model, by the names that optimum-intel gives them. */
export interface LanguageFiles {
    "openvino_model.xml": Bytes;
    "openvino_model.bin": Bytes;
    "tokenizer.json": Bytes;
    "config.json"?: Bytes;
    "generation_config.json"?: Bytes;
    "chat_template.jinja"?: Bytes;
    "tokenizer_config.json"?: Bytes;
    "special_tokens_map.json"?: Bytes;
}

export interface LanguageOptions {
    /** Whether nothing is rounded: by default, activations in prefill and the KV cache are rounded to 8 bits, as in OpenVINO. */
    exact?: boolean;
}

/** A message of a chat. */
export interface Message {
    /** `system`, `user` or `assistant`, or what else the template of the model knows. */
    role: string;
    content: string;
}

/** How a text is generated. What is not here is as `generation_config.json` says, or as in transformers. */
export interface GenerationOptions {
    /** The most tokens that are generated. */
    maxNewTokens?: number;
    /** So many tokens come before an end token may come. */
    minNewTokens?: number;
    /** Whether tokens are drawn at random. If not, the most probable one is taken, and the next four have no effect. */
    doSample?: boolean;
    temperature?: number;
    /** Only so many of the most probable tokens are drawn. 0 is all of them. */
    topK?: number;
    /** Only the most probable tokens that have this probability together are drawn. */
    topP?: number;
    /** Only tokens that have at least this part of the probability of the most probable one are drawn. */
    minP?: number;
    repetitionPenalty?: number;
    /** The seed of what is drawn, below 2^32. Without one, each text is another one. */
    seed?: number;
    /** Beams of a beam search. 1 is none. */
    numBeams?: number;
    /** Strings that end the text, which does not have them. */
    stopStrings?: readonly string[];
    /** Whether the text is without special tokens. */
    skipSpecialTokens?: boolean;
    /** Whether settings in `generation_config.json` that are not supported are left out. They are an error else. */
    ignoreUnsupported?: boolean;
    /** Variables of the chat template, such as `enable_thinking` of some models. */
    variables?: Record<string, unknown>;
    /** Ends the generation: the iterator throws the signal's reason. */
    signal?: AbortSignal;
}

/** A text on its way: an iterator over its pieces, which lets everything else have its turn between two tokens. */
export interface Generation extends AsyncIterableIterator<string> {
    /** Why it ended, once it has: `"end token"`, `"stop string"`, `"max new tokens"`, `"context full"` or `"stopped"`. */
    readonly end?: string;
    /** The tokens, once it has ended. */
    readonly tokens?: Uint32Array;
    /** How many tokens of the prompt were read: those that the model had not read for the answer before. */
    readonly promptTokens?: number;
}

/** A model that continues texts, and answers in chats, with its tokenizer and its chat template. */
export class LanguageModel {
    private constructor();

    /** Loads a model. */
    static load(source: Source<LanguageFiles>, options?: LanguageOptions): Promise<LanguageModel>;

    /** Downloads and loads the model of a folder. */
    static fetch(url: string | URL, options?: LanguageOptions & FetchOptions): Promise<LanguageModel>;

    /**
     * Generates what follows a text, or the answer to the messages of a chat. Messages that the model has read for the answer
     * before are not read again.
     */
    generate(prompt: string | readonly Message[], options?: GenerationOptions): Generation;

    /** Frees its memory. */
    release(): void;
}
