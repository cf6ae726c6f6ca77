//! Recurrent cells, and sequences of them.

mod cell;
mod sequence;

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use crate::context::LayerContext;
use crate::registry::Registry;
use cell::Kind;

pub(super) fn register(registry: &mut Registry) {
    registry
        .add("LSTMCell", 1, |ctx| cell::cell(ctx, Kind::Lstm))
        .without("tensors of f64; peepholes (`P` that is not zeros) and `input_forget`");
    registry.add("LSTMCell", 4, |ctx| cell::cell(ctx, Kind::Lstm));
    registry.add("GRUCell", 3, |ctx| cell::cell(ctx, Kind::Gru)).without("tensors of f64");
    registry.add("RNNCell", 1, |ctx| cell::cell(ctx, Kind::Rnn)).without("tensors of f64");
    registry
        .add("LSTMSequence", 1, |ctx| sequence::sequence(ctx, Kind::Lstm))
        .without("tensors of f64; peepholes (`P` that is not zeros) and `input_forget`");
    registry.add("LSTMSequence", 5, |ctx| sequence::sequence(ctx, Kind::Lstm));
    registry
        .add("GRUSequence", 5, |ctx| sequence::sequence(ctx, Kind::Gru))
        .without("tensors of f64");
    registry
        .add("RNNSequence", 5, |ctx| sequence::sequence(ctx, Kind::Rnn))
        .without("tensors of f64");
}

/// Checks the shape of an input, and notes which dimensions are equal.
fn expect_shape(
    ctx: &mut LayerContext,
    input: usize,
    name: &str,
    expected: &[TDim],
) -> TractResult<()> {
    let shape = ctx.shape(input)?;
    let doing = format!("has input {input} ({name}) of shape {shape}", shape = listed(&shape));
    ctx.equal_shapes(&shape, expected, None, &doing)
}

/// Checks the type and the shape of an input that is multiplied or added, and notes which dimensions are equal.
fn expect_operand(
    ctx: &mut LayerContext,
    input: usize,
    name: &str,
    dt: DatumType,
    shape: &[TDim],
) -> TractResult<()> {
    let found = ctx.datum_type(input)?;
    ensure!(
        found == dt,
        "input {input} ({name}) is of type {found:?}, but must be of the type of X, {dt:?}"
    );
    expect_shape(ctx, input, name, shape)
}

/// An input that is multiplied or added, in single precision.
fn operand(ctx: &mut LayerContext, input: usize) -> TractResult<OutletId> {
    let outlet = ctx.input(input)?;
    ctx.single("single", outlet)
}

/// The first revisions have an input for peepholes, which OpenVINO never used.
fn refuse_peepholes(ctx: &LayerContext, input: usize) -> TractResult<()> {
    let zeros = ctx.floats(input, "P")?.iter().all(|weight| *weight == 0.);
    ensure!(zeros, "input {input} (P) has weights, but peepholes are not supported");
    Ok(())
}
