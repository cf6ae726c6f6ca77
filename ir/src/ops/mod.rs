//! The operations, one module for each family.

mod activation;
pub(crate) mod bias;
mod control;
mod convolution;
mod elementwise;
mod indexing;
mod interpolate;
mod matmul;
mod movement;
pub(crate) mod pooling;
mod quantize;
mod recurrent;
mod reduce;
mod shape;
mod sources;
pub(crate) mod state;

use crate::registry::Registry;

/// Adds all operations to a registry.
pub(crate) fn register_all(registry: &mut Registry) {
    sources::register(registry);
    shape::register(registry);
    movement::register(registry);
    indexing::register(registry);
    elementwise::register(registry);
    activation::register(registry);
    matmul::register(registry);
    reduce::register(registry);
    convolution::register(registry);
    interpolate::register(registry);
    recurrent::register(registry);
    control::register(registry);
    state::register(registry);
    quantize::register(registry);
}
