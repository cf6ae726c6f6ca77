//! What the fuzz targets do with the bytes that they are given. A target panics where something is wrong.

pub mod ir;
pub mod model;
pub mod nnef;
pub mod operator;
pub mod panics;
mod stages;

/// Says what came of the bytes: whether they were a case, and it had an output.
pub type Target = fn(&[u8]) -> Option<bool>;

/// Every target, by name.
pub const TARGETS: [(&str, Target); 4] =
    [("operator", operator::run), ("model", model::run), ("nnef", nnef::run), ("ir", ir::run)];
