//! The operations, one module for each family.

mod activation;
mod attention;
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
mod einsum;
mod elementwise;
mod embedding;
mod fourier;
mod generation;
mod indexing;
mod interpolate;
mod matmul;
mod normalization;
mod pad;
mod pooling;
mod quantize;
mod recurrent;
mod reduce;
mod reverse;
mod scatter;
mod searching;
mod shape;
pub(crate) mod sizes;
mod slice;
mod softmax;
mod sources;
mod sparse;
pub(crate) mod state;
mod stft;
mod strings;
mod windows;

use std::sync::LazyLock;

use crate::registry::Registry;

/// A registry with all operations.
pub(crate) fn all_operations() -> Registry {
    static ALL: LazyLock<Registry> = LazyLock::new(|| {
        let mut registry = Registry::default();
        register_all(&mut registry);
        registry
    });
    ALL.clone()
}

fn register_all(registry: &mut Registry) {
    sources::register(registry);
    strings::register(registry);
    shape::register(registry);
    concat::register(registry);
    slice::register(registry);
    pad::register(registry);
    reverse::register(registry);
    blocks::register(registry);
    indexing::register(registry);
    scatter::register(registry);
    elementwise::register(registry);
    activation::register(registry);
    matmul::register(registry);
    einsum::register(registry);
    attention::register(registry);
    reduce::register(registry);
    softmax::register(registry);
    normalization::register(registry);
    convolution::register(registry);
    pooling::register(registry);
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
