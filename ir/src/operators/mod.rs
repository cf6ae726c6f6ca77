//! Operators of tract's that tract does not have.

pub(crate) mod adaptive_pool;
pub(crate) mod interpolate;
pub(crate) mod range;
pub(crate) mod reduction;
pub(crate) mod variable;
pub(crate) mod activation;
pub(crate) mod arithmetic;
pub(crate) mod fake_quantize;
pub(crate) mod range;
pub(crate) mod unannotated;
