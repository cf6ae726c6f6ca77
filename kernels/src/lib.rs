//! Kernels.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod attention;
pub mod checks;
mod contraction;
mod convolution;
mod fully_connected;
mod product;
pub mod threads;

pub use product::Vectors;
