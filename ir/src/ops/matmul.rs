//! Products of matrices, and attention.

use std::collections::HashSet;

use tract_core::internal::*;
use tract_core::ops::array::{MultiBroadcastTo, Tile, TypedConcat};
use tract_core::ops::cast::Cast;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_openvino_kernels::checks::listed;

use crate::layer::LayerContext;
use crate::opl::opaque::Opaque;
use crate::opl::range::Range;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("MatMul", 1, mat_mul);
}

/// **MatMul-1**: NumPy's product of matrices. `transpose_a` and `transpose_b` swap the last two axes, unless
/// the input is a vector.
fn mat_mul(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let transpose_a = ctx.attribute_or("transpose_a", false)?;
    let transpose_b = ctx.attribute_or("transpose_b", false)?;
    let types = [ctx.datum_type(0)?, ctx.datum_type(1)?];
    let mut factors = [ctx.matrix_input(0)?, ctx.matrix_input(1)?];
    let transposed = [transpose_a, transpose_b];
    if types != [DatumType::F16; 2] {
        return Ok(tvec!(product(ctx, "", factors, transposed)?));
    }
    // A matrix of the file is in single precision by now, as its codes are.
    for (factor, name) in factors.iter_mut().zip(["a", "b"]) {
        *factor = ctx.single(name, *factor)?;
    }
    let product = product(ctx, "single", factors, transposed)?;
    Ok(tvec!(ctx.cast("", product, DatumType::F16)?))
}

/// The product of matrices. Each of the two may be transposed. Batches are broadcast.
pub(super) fn product(
    ctx: &mut LayerContext,
    suffix: &str,
    inputs: [OutletId; 2],
    transposed: [bool; 2],
) -> TractResult<OutletId> {
    let shapes = [ctx.shape_of(inputs[0])?, ctx.shape_of(inputs[1])?];
    for (number, shape) in shapes.iter().enumerate() {
        ensure!(!shape.is_empty(), "factor {number} is a scalar, but must have rank 1 or more");
    }
    let batches = shapes.clone().map(|shape| shape[..shape.len().saturating_sub(2)].into());
    let batch_rank = ctx.broadcast_shapes(&batches)?.len();
    let batches = ellipsis(batch_rank, "kmn")?;
    let batch = |rank: usize| batches[batch_rank - rank..].iter().collect::<String>();
    // A vector is a row on the left and a column on the right. The result does not have that axis.
    let (mut labels, mut output) = ([String::new(), String::new()], batch(batch_rank));
    for (number, matrix) in [['m', 'k'], ['k', 'n']].into_iter().enumerate() {
        let rank = shapes[number].len();
        labels[number] = match rank {
            1 => "k".into(),
            _ if transposed[number] => format!("{}{}{}", batch(rank - 2), matrix[1], matrix[0]),
            _ => format!("{}{}{}", batch(rank - 2), matrix[0], matrix[1]),
        };
        output.extend(matrix.into_iter().filter(|label| rank > 1 && *label != 'k'));
    }
    let axis = |number: usize| {
        let axis = labels[number].chars().position(|label| label == 'k');
        axis.context("each factor has an axis that is summed")
    };
    let axes = [axis(0)?, axis(1)?];
    let doing = format!("multiplies {} by {}", listed(&shapes[0]), listed(&shapes[1]));
    let summed = ctx.require_equal(&shapes[0][axes[0]], &shapes[1][axes[1]], &doing)?;
    // tract would take a 1 for an axis that is broadcast, where it cannot tell that the other one is 1, too: its optimiser
    // does not end then.
    let mut factors = inputs;
    for (number, axis) in axes.into_iter().enumerate() {
        let mut shape = shapes[number].clone();
        shape[axis] = summed.clone();
        factors[number] = ctx.with_shape(factors[number], shape)?;
    }
    contract(ctx, suffix, factors, [&labels[0], &labels[1]], &output)
}

/// Labels for axes without a letter: letters that are not used. tract takes each label for one byte.
pub(super) fn ellipsis(rank: usize, used: &str) -> TractResult<Vec<char>> {
    let letters = ('A'..='Z').chain('a'..='z').filter(|letter| !used.contains(*letter));
    let labels: Vec<char> = letters.take(rank).collect();
    ensure!(
        labels.len() == rank,
        "there are {rank} axes without a letter, for which there are not enough letters"
    );
    Ok(labels)
}

/// Contracts two tensors by the labels of their axes. The output has their type.
///
/// tract only has products of floats and of `i32`. Those of half precision it adds in half precision.
pub(super) fn contract(
    ctx: &mut LayerContext,
    suffix: &str,
    inputs: [OutletId; 2],
    labels: [&str; 2],
    output: &str,
) -> TractResult<OutletId> {
    let [dt, other] = [ctx.type_of(inputs[0])?, ctx.type_of(inputs[1])?];
    ensure!(dt == other, "the factors are of types {dt:?} and {other:?}, but must be of one type");
    ensure!(dt.is_number() || dt.is_tdim(), "the factors are of type {dt:?}, but must be numbers");
    let operating = match dt {
        DatumType::F16 => DatumType::F32,
        dt if dt.is_float() => dt,
        DatumType::I8 | DatumType::U8 | DatumType::I16 | DatumType::U16 => DatumType::I32,
        DatumType::I32 => dt,
        // These are exact up to 2^53.
        _ => DatumType::F64,
    };
    let mut factors = tvec!();
    for (input, suffix) in inputs.into_iter().zip(["a", "b"]) {
        let factor = ctx.cast(suffix, input, operating)?;
        factors.push(match is_broadcast(ctx.model, factor) {
            true => ctx.wire("opaque", Opaque, &[factor])?,
            false => factor,
        });
    }
    // tract does not compare them when it runs.
    let (a, mut b) = (ctx.shape_of(factors[0])?, ctx.shape_of(factors[1])?);
    for (label, dim) in labels[1].chars().zip(b.iter_mut()) {
        if let Some(axis) = labels[0].chars().position(|other| other == label)
            && !a[axis].is_one()
            && !dim.is_one()
        {
            *dim = a[axis].clone();
        }
    }
    factors[1] = ctx.with_shape(factors[1], b)?;
    let op = EinSum::new(AxesMapping::from_strs(&labels, &[output])?, operating);
    let product = ctx.wire(if operating == dt { suffix } else { "product" }, op, &factors)?;
    ctx.cast(suffix, product, dt)
}

/// Whether tract would find that an outlet is broadcast, now or after it has rewritten the nodes in between.
fn is_broadcast(model: &TypedModel, outlet: OutletId) -> bool {
    let mut next = vec![outlet];
    let mut seen = HashSet::new();
    while let Some(outlet) = next.pop().filter(|_| seen.len() < MOST_SEEN) {
        let node = model.node(outlet.node);
        let op = &node.op;
        if !seen.insert(outlet.node) || node.outputs[outlet.slot].fact.konst.is_some() {
            continue;
        }
        if op.is::<MultiBroadcastTo>() || op.is::<Tile>() {
            return true;
        }
        // What is concatenated tract multiplies part by part, with or without a reshape after it.
        let is_concat = |input: &OutletId| model.node(input.node).op.is::<TypedConcat>();
        let moves =
            |op: &AxisOp| !matches!(op, AxisOp::Reshape(..)) || node.inputs.iter().any(is_concat);
        if op.is::<TypedConcat>()
            || op.is::<Cast>()
            || op.is::<ElementWiseOp>()
            || op.downcast_ref().is_some_and(moves)
        {
            next.extend(&node.inputs);
        }
    }
    false
}

/// The most nodes in front of a product that are looked at.
const MOST_SEEN: usize = 64;

/// The numbers from 0 up to a size.
///
/// Not by tract's own operator, for the reason that [`Range`] gives.
pub(super) fn unseen_positions(
    ctx: &mut LayerContext,
    suffix: &str,
    size: &TDim,
) -> TractResult<OutletId> {
    let ends = ctx.range_ends(suffix, size)?;
    ctx.wire(suffix, Range::new(DatumType::I64, size.clone()), &ends)
}
