//! Sums of rows of a table, and other reductions of rows.

use tract_core::internal::*;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::math::mul;
use tract_openvino::GatherRevision;

use super::indexing::gather;
use super::reduce;
use crate::context::LayerContext;
use crate::limits::MAX_STATED_ELEMENTS;
use crate::operators::segments::{EmptySegment, RowReduction, SegmentBounds, Segments};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("EmbeddingBagOffsetsSum", 3, embedding_bag_offsets);
    registry.add("EmbeddingBagOffsets", 15, embedding_bag_offsets);
    registry.add("EmbeddingBagPackedSum", 3, embedding_bag_packed);
    registry.add("EmbeddingBagPacked", 15, embedding_bag_packed);
    registry.add("EmbeddingSegmentsSum", 3, embedding_segments_sum);
    registry.add("SegmentMax", 16, segment_max);
}

/// How the rows of a bag become one: the sum, or since revision 15 what `reduction` says.
fn reduction(ctx: &LayerContext, weighted: bool) -> TractResult<RowReduction> {
    if ctx.since() < 15 {
        return Ok(RowReduction::Sum);
    }
    let words = [("sum", RowReduction::Sum), ("mean", RowReduction::Mean)];
    let reduction = ctx.attribute_among("reduction", &words, Some(RowReduction::Sum))?;
    ensure!(
        reduction == RowReduction::Sum || !weighted,
        "there are per_sample_weights, but attribute reduction is mean: it must be sum"
    );
    Ok(reduction)
}

/// The rows of the table in input 0 that the indices in input 1 name, multiplied by the weights in an input that
/// may be absent. Half precision becomes single.
fn rows(ctx: &mut LayerContext, weights: usize) -> TractResult<OutletId> {
    ctx.expect_numbers(0, "emb_table")?;
    ctx.expect_integers(1, "indices")?;
    let inputs = [ctx.input(0)?, ctx.number_input(1)?];
    let gather = gather(ctx, GatherRevision::V1, 0);
    let rows = ctx.wire("rows", gather, &inputs)?;
    let rows = ctx.single("rows", rows)?;
    if ctx.input_count() <= weights {
        return Ok(rows);
    }
    let (indices, shape) = (ctx.shape(1)?, ctx.shape(weights)?);
    ctx.equal_shapes(&indices, &shape, None, "has a weight for each index")?;
    let weights = ctx.input(weights)?;
    let weights = ctx.single("weights", weights)?;
    ctx.same_type(&[rows, weights])?;
    let added = (shape.len()..ctx.shape_of(rows)?.len()).map(AxisOp::Add);
    let weights = ctx.change_axes("weights", weights, added)?;
    let operands = ctx.broadcast(&[rows, weights])?;
    ctx.wire("weighted", mul(), &operands)
}

/// Reduces segments of the rows that [`rows`] gives. The input for the default index may be absent.
fn bags(
    ctx: &mut LayerContext,
    rows: OutletId,
    default_index: usize,
    mut op: Segments,
) -> TractResult<TVec<OutletId>> {
    let mut inputs = tvec![rows, ctx.number_input(2)?];
    if ctx.input_count() > default_index && ctx.integer(default_index, "default_index")? != -1 {
        let index = ctx.input(default_index)?;
        let index = ctx.one_element("default", index, 0)?;
        let of_table = [ctx.input(0)?, index];
        let gather = gather(ctx, GatherRevision::V1, 0);
        let row = ctx.wire("default", gather, &of_table)?;
        inputs.push(ctx.single("default", row)?);
        op.empty = EmptySegment::Row;
    }
    let output = ctx.wire("bags", op, &inputs)?;
    Ok(tvec!(ctx.cast("", output, ctx.datum_type(0)?)?))
}

/// **EmbeddingBagOffsetsSum-3**, **EmbeddingBagOffsets-15**: of each bag the sum of the rows of a table, or their
/// mean. A bag begins at an offset in the indices. One without rows gives that of `default_index`, or zeros.
fn embedding_bag_offsets(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=5)?;
    ctx.expect_integers(2, "offsets")?;
    let reduction = reduction(ctx, ctx.input_count() == 5)?;
    let count = ctx.shape_of_rank(2, "offsets", 1)?[0].clone();
    ctx.shape_of_rank(1, "indices", 1)?;
    let (bounds, empty) = (SegmentBounds::Offsets, EmptySegment::Zero);
    let rows = rows(ctx, 4)?;
    bags(ctx, rows, 3, Segments { reduction, bounds, empty, count, count_is_last: false })
}

/// **EmbeddingBagPackedSum-3**, **EmbeddingBagPacked-15**: of each row of the indices the sum of the rows of a
/// table, or their mean.
fn embedding_bag_packed(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=3)?;
    let reduction = reduction(ctx, ctx.input_count() == 3)?;
    ctx.shape_of_rank(1, "indices", 2)?;
    let rows = rows(ctx, 2)?;
    let bags = match reduction {
        RowReduction::Mean => reduce::mean(ctx, "bags", rows, &[1])?,
        _ => reduce::sum(ctx, "bags", rows, &[1])?,
    };
    let output = ctx.change_axes("sum", bags, [AxisOp::Rm(1)])?;
    Ok(tvec!(ctx.cast("", output, ctx.datum_type(0)?)?))
}

/// **EmbeddingSegmentsSum-3**: as EmbeddingBagOffsetsSum-3, but each index has the number of its bag.
fn embedding_segments_sum(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=6)?;
    ctx.shape_of_rank(1, "indices", 1)?;
    let op = segments(ctx, 1, 2, Some(3))?;
    let rows = rows(ctx, 5)?;
    bags(ctx, rows, 4, op)
}

/// **SegmentMax-16**: of each segment of rows the maximum. Each row has the number of its segment. One without
/// rows gives zeros, or the lowest number of the type, as `fill_mode` says.
fn segment_max(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=3)?;
    ctx.expect_numbers(0, "data")?;
    let words = [("ZERO", EmptySegment::Zero), ("LOWEST", EmptySegment::Lowest)];
    let empty = ctx.attribute_among("fill_mode", &words, None)?;
    let rank = ctx.rank(0)?;
    ensure!(rank > 0, "the data has rank 0, but must have rank 1 or more");
    let op = segments(ctx, 0, 1, (ctx.input_count() == 3).then_some(2))?;
    let inputs = [ctx.number_input(0)?, ctx.number_input(1)?];
    ctx.finish(Segments { reduction: RowReduction::Max, empty, ..op }, &inputs)
}

/// The operator for rows that have the numbers of their segments in an input. How many segments there are is in
/// another one, or follows from the last number.
fn segments(
    ctx: &mut LayerContext,
    rows: usize,
    ids: usize,
    count: Option<usize>,
) -> TractResult<Segments> {
    ctx.expect_integers(ids, "segment_ids")?;
    let (all, shape) = (ctx.shape(rows)?, ctx.shape_of_rank(ids, "segment_ids", 1)?);
    ctx.equal_shapes(&all[..1], &shape, None, "has a segment for each row")?;
    let (reduction, bounds, empty) = (RowReduction::Sum, SegmentBounds::Ids, EmptySegment::Zero);
    let count_is_last = count.is_none();
    let count = match count {
        Some(input) => {
            ctx.expect_one_element(input, "num_segments")?;
            let count = ctx.sizes(input, "num_segments")?[0].clone();
            ensure!(
                count.as_i64().is_none_or(|count| count <= MAX_STATED_ELEMENTS as i64),
                "input {input} (num_segments) is {count}, but must be in [0, {MAX_STATED_ELEMENTS}]"
            );
            count
        }
        None => ctx.size_at_run_time("segments")?.to_dim(),
    };
    Ok(Segments { reduction, bounds, empty, count, count_is_last })
}
