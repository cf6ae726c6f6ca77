//! Convolutions of single precision, whose weights are constants, and pools.
//!
//! * `packed.rs` has the operator: a convolution is products, or a sum for each channel on its own;
//! * `products.rs` computes the products, of weights and patches (im2col), on threads;
//! * `planes.rs` computes channels on their own, and pools;
//! * `patches.rs` lays channels out with their padding, and says what pixels meet; `layouts.rs` remembers that;
//! * `trimmed.rs` cuts off what meets padding alone.

mod layouts;
mod packed;
mod patches;
mod planes;
mod products;
#[cfg(test)]
pub(crate) mod tests;
mod trimmed;

pub(crate) use packed::PackedConvolution;
pub(crate) use planes::{PoolOf, PoolOfPlanes};
pub(crate) use trimmed::trimmed;
