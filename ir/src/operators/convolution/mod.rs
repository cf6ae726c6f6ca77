//! Convolutions of single precision, whose weights are constants, and pools.

mod layouts;
mod packed;
mod patches;
mod planes;
mod products;
#[cfg(test)]
mod tests;
mod trimmed;

pub(crate) use packed::PackedConvolution;
pub(crate) use planes::MaxPoolOfPlanes;
pub(crate) use trimmed::trimmed;
