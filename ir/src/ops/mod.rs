//! The operations, one module for each family.

mod activation;
pub(crate) mod bias;
mod blocks;
mod chain;
mod color;
mod common;
mod concat;
mod control;
mod convolution;
mod decoding;
mod deformable;
mod detection;
mod elementwise;
mod embedding;
mod fourier;
mod generation;
mod indexing;
mod interpolate;
mod matmul;
mod normalization;
mod pad;
pub(crate) mod pooling;
mod quantize;
mod recurrent;
mod reduce;
mod reverse;
mod searching;
mod shape;
mod sizes;
mod slice;
mod softmax;
mod sources;
mod sparse;
pub(crate) mod state;
mod stft;
mod windows;

use crate::registry::Registry;

/// Adds all operations to a registry.
pub(crate) fn register_all(registry: &mut Registry) {
    sources::register(registry);
    shape::register(registry);
    concat::register(registry);
    slice::register(registry);
    pad::register(registry);
    reverse::register(registry);
    blocks::register(registry);
    indexing::register(registry);
    elementwise::register(registry);
    activation::register(registry);
    matmul::register(registry);
    reduce::register(registry);
    softmax::register(registry);
    normalization::register(registry);
    convolution::register(registry);
    deformable::register(registry);
    interpolate::register(registry);
    recurrent::register(registry);
    control::register(registry);
    state::register(registry);
    generation::register(registry);
    searching::register(registry);
    embedding::register(registry);
    decoding::register(registry);
    color::register(registry);
    sparse::register(registry);
    fourier::register(registry);
    windows::register(registry);
    stft::register(registry);
    quantize::register(registry);
    detection::register(registry);
}
