//! The typed operators: what a tract plan runs.

mod block_quant;
mod declutter;
mod dyn_gather;
mod gather;
mod gather_elements;
mod gather_nd;
mod gather_tree;
mod held_symbols;
mod layout;
#[cfg(any(feature = "nnef", feature = "onnx"))]
mod opaque;
#[cfg(any(feature = "nnef", feature = "onnx"))]
mod scatter;
mod wire;

pub use dyn_gather::DynGather;
pub use gather::Gather;
pub use gather_elements::GatherElements;
pub use gather_nd::GatherNd;
pub use gather_tree::GatherTree;
#[cfg(any(feature = "nnef", feature = "onnx"))]
pub(crate) use opaque::{Apart, Opaque};
#[cfg(any(feature = "nnef", feature = "onnx"))]
pub(crate) use scatter::{Places, Scatter};
