//! Attention.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::logic::{Iff, comp_lte};
use tract_core::ops::math::{add, mul, rsqrt};
use tract_core::ops::nn::SoftmaxKind;
use tract_openvino_kernels::checks::listed;

use super::matmul::{product, unseen_positions};
use super::softmax::softmax;
use crate::context::LayerContext;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("ScaledDotProductAttention", 13, scaled_dot_product_attention);
}

/// **ScaledDotProductAttention-13**: `Softmax(q * k^T * scale + mask) * v`. A boolean mask keeps the scores
/// where it is true; another is added to them. With `causal` a query sees the keys up to its own position,
/// and the mask is not used. `scale` is `1 / sqrt(width)` by default. A sink is one more score of each query in the
/// softmax, neither scaled nor masked, whose weight meets no value. A query that sees no key gives NaN, or zeros if
/// there is a sink.
fn scaled_dot_product_attention(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=6)?;
    let causal = ctx.attribute("causal")?;
    let dt = ctx.datum_type(0)?;
    // In half precision each step would be rounded.
    let single = if dt == DatumType::F16 { DatumType::F32 } else { dt };
    let mut factors = tvec!();
    for (input, name) in ["query", "key", "value"].into_iter().enumerate() {
        let (rank, found) = (ctx.rank(input)?, ctx.datum_type(input)?);
        ensure!(rank >= 2, "input {input} ({name}) has rank {rank}, but must have rank 2 or more");
        ensure!(
            found == dt && dt.is_float(),
            "input {input} ({name}) is of type {found:?}, but must be floats of one type"
        );
        let factor = ctx.input(input)?;
        factors.push(ctx.cast(name, factor, single)?);
    }
    let scores = product(ctx, "scores", [factors[0], factors[1]], [false, true])?;
    let scale = scale(ctx, single)?;
    let operands = ctx.broadcast(&[scores, scale])?;
    let mut scores = ctx.wire("scaled", mul(), &operands)?;
    if causal {
        let shape = ctx.shape_of(scores)?;
        let [.., queries, keys] = &*shape else {
            bail!(
                "the scores have shape {shape}, but must have rank 2 or more",
                shape = listed(&shape)
            )
        };
        let queries = unseen_positions(ctx, "queries", queries)?;
        let queries = ctx.wire("query_position", AxisOp::Add(1), &[queries])?;
        let keys = unseen_positions(ctx, "keys", keys)?;
        let keys = ctx.wire("key_position", AxisOp::Add(0), &[keys])?;
        let keep = ctx.wire("causal", TypedBinOp(comp_lte(), None), &[keys, queries])?;
        scores = masked(ctx, scores, keep)?;
    } else if ctx.input_count() > 3 {
        let (mask, fact) = (ctx.input(3)?, ctx.fact(3)?);
        let nothing = fact.konst.as_ref().is_some_and(|mask| mask.is_all_zero().unwrap_or(false));
        if fact.datum_type == DatumType::Bool {
            scores = masked(ctx, scores, mask)?;
        } else if !(fact.rank() == 0 && nothing) {
            ensure!(
                fact.datum_type == dt,
                "input 3 (attention_mask) is of type {:?}, but must be boolean or {dt:?}",
                fact.datum_type
            );
            let mask = ctx.cast("mask", mask, single)?;
            let operands = ctx.broadcast(&[scores, mask])?;
            scores = ctx.wire("masked", add(), &operands)?;
        }
    }
    let weights = match ctx.input_count() > 5 {
        true => weights_beside_sink(ctx, scores, dt)?,
        false => {
            let last = ctx.shape_of(scores)?.len() - 1;
            softmax(ctx, "weights", scores, last, SoftmaxKind::Softmax)?
        }
    };
    let suffix = if dt == single { "" } else { "single" };
    let output = product(ctx, suffix, [weights, factors[2]], [false, false])?;
    Ok(tvec!(ctx.cast("", output, dt)?))
}

/// The factor of an attention's scores.
fn scale(ctx: &mut LayerContext, dt: DatumType) -> TractResult<OutletId> {
    if ctx.input_count() > 4 {
        ctx.expect_one_element(4, "scale")?;
        let scale = ctx.input(4)?;
        return ctx.cast("scale", scale, dt);
    }
    let shape = ctx.shape(0)?;
    let width = shape[shape.len() - 1].clone();
    if let Some(width) = width.as_i64() {
        return ctx.scalar("scale", 1. / (width as f64).sqrt(), dt, 0);
    }
    let width = ctx.add_const("size", tensor0(width))?;
    let width = ctx.cast("width", width, dt)?;
    ctx.wire("scale", rsqrt(), &[width])
}

/// The softmax of scores and the sink, which is input 5 and of the type of the queries, without the sink's weight.
fn weights_beside_sink(
    ctx: &mut LayerContext,
    scores: OutletId,
    dt: DatumType,
) -> TractResult<OutletId> {
    let (sink, found) = (ctx.shape(5)?, ctx.datum_type(5)?);
    let (shape, rank) = (ctx.shape_of(scores)?, ctx.rank(0)?);
    let last = shape.len() - 1;
    let mut rows = shape.clone();
    rows[last] = 1.to_dim();
    ensure!(found == dt, "input 5 (sink) is of type {found:?}, but must be {dt:?}");
    let has_place = |(size, row): (&TDim, &TDim)| {
        let sizes = (size.as_i64(), row.as_i64());
        size.is_one() || size == row || !matches!(sizes, (Some(_), Some(_)))
    };
    ensure!(
        sink.len() == rank && sink.iter().rev().zip(rows.iter().rev()).all(has_place),
        "input 5 (sink) has shape {sink}, but must be of the rank of the query and broadcast to {rows}",
        sink = listed(&sink),
        rows = listed(&rows)
    );
    let doing = format!("broadcasts the sink to {}", listed(&rows));
    for (size, row) in sink.iter().rev().zip(rows.iter().rev()) {
        if !size.is_one() {
            ctx.require_equal(size, row, &doing)?;
        }
    }
    let sink = ctx.input(5)?;
    let sink = ctx.cast("sink", sink, ctx.type_of(scores)?)?;
    let added = std::iter::repeat_n(AxisOp::Add(0), shape.len() - rank);
    let sink = ctx.change_axes("sink", sink, added)?;
    let sink = ctx.repeated("sink", sink, rows)?;
    let all = ctx.wire("scores_and_sink", TypedConcat::new(last), &[scores, sink])?;
    let weights = softmax(ctx, "weights_and_sink", all, last, SoftmaxKind::Softmax)?;
    let end = shape[last].clone();
    ctx.wire("weights", Slice { axis: last, start: 0.to_dim(), end }, &[weights])
}

/// Keeps scores where `keep` is true, and has negative infinity elsewhere.
fn masked(ctx: &mut LayerContext, scores: OutletId, keep: OutletId) -> TractResult<OutletId> {
    let dt = ctx.type_of(scores)?;
    let infinity = ctx.scalar("minus_infinity", f64::NEG_INFINITY, dt, 0)?;
    let operands = ctx.broadcast(&[keep, scores, infinity])?;
    ctx.wire("masked", Iff, &operands)
}
