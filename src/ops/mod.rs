//! The typed operators: what a tract plan runs.

mod block_quant;
mod declutter;
mod dyn_gather;
mod gather;
mod gather_nd;
mod held_symbols;
mod layout;

pub use dyn_gather::DynGather;
pub use gather::Gather;
pub use gather_nd::GatherNd;
