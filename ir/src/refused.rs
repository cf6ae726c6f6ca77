//! What the reader does not have, and why.

/// Operation sets of what OpenVINO's plug-ins and transformations make of a model.
const INTERNAL_SETS: [&str; 6] =
    ["_ov_internal", "cpu_plugin_opset", "gpu_opset", "ie_internal_opset", "snippetsopset", "util"];

/// Operations that they make, and that may be in the operation set `extension`.
const INTERNAL: [&str; 30] = [
    "AUGRUCell",
    "AUGRUSequence",
    "CausalConv1D",
    "DynamicQuantize",
    "FullyConnected",
    "FullyConnectedCompressed",
    "FullyConnectedQuantized",
    "FullyConnectedQuantizedLegacy",
    "GatedDeltaNet",
    "GatedMLP",
    "GatherCompressed",
    "GatherMatmul",
    "GatherMatmulCompressed",
    "GroupedMatMulCompressed",
    "GroupQueryAttention",
    "IndirectSDPA",
    "KVCache",
    "LoraSubgraph",
    "MOE",
    "MOE3GemmFusedCompressed",
    "MOECompressed",
    "PagedAttentionExtension",
    "PagedCausalConv1D",
    "PagedGatedDeltaNet",
    "PowerStatic",
    "RMS",
    "RoPE",
    "ScaledDotProductAttentionWithKVCache",
    "Subgraph",
    "SwiGLU",
];

/// Whether a type of operation, in an operation set that is none of OpenVINO's, is one that its transformations make.
pub(crate) fn is_internal(operation: &str, opset: &str) -> bool {
    let is = |known: &str, found: &str| known.eq_ignore_ascii_case(found.trim());
    INTERNAL_SETS.iter().any(|known| is(known, opset))
        || INTERNAL.iter().any(|known| is(known, operation))
}
