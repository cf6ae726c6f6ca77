//! The typed operators: what a tract plan runs.

mod declutter;
mod gather;
mod gather_nd;
mod layout;

pub use gather::Gather;
pub use gather_nd::GatherNd;
