export { LanguageModel } from "./language.js";
export { Model } from "./model.js";
export { Tensor } from "./tensor.js";
