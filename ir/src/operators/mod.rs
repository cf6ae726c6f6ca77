//! Operators of tract's that tract does not have.

pub(crate) mod adaptive_pool;
pub(crate) mod grid_sample;
pub(crate) mod interpolate;
pub(crate) mod range;
pub(crate) mod reduction;
pub(crate) mod variable;
