import type { LanguageModel, Model } from "./index.js";

export type * from "./index.js";
export { Tensor } from "./index.js";

/** The classes of a worker. What they do is done there, so that the page stays alive. */
export interface WorkerClasses {
    Model: Pick<typeof Model, "load" | "fetch">;
    LanguageModel: Pick<typeof LanguageModel, "load" | "fetch">;
    /** Ends the worker, with its models. What is still asked of them is an error. */
    terminate(): void | Promise<number>;
}

/** Starts a worker. */
export function startWorker(): Promise<WorkerClasses>;
