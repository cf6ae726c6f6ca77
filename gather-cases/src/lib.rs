//! What the tests, the benchmarks and the fuzz targets of the gather operators share.

pub mod elements;
pub mod layers;
pub mod onnx_model;
pub mod oracle;
pub mod transformer;
pub mod workloads;
