//! The typed operators: what a tract plan runs.

mod gather;
mod gather_nd;

pub use gather::Gather;
pub use gather_nd::GatherNd;
