//! Blocks of elements that move between axes.

use tract_core::internal::*;
use tract_openvino_kernels::checks::volume;

use super::chain::Chain;
use super::common::FAR;
use super::pad::pad_with_value;
use crate::context::{LayerContext, NotKnown};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("ShuffleChannels", 1, shuffle_channels);
    registry.add("DepthToSpace", 1, depth_to_space);
    registry.add("SpaceToDepth", 1, space_to_depth);
    registry.add("BatchToSpace", 2, batch_to_space);
    registry.add("SpaceToBatch", 2, space_to_batch);
}

/// **ShuffleChannels-1**: `axis` is seen as a matrix with `group` rows, which is transposed.
fn shuffle_channels(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let shape = ctx.shape(0)?;
    let axis = ctx.axis("axis", ctx.attribute_or("axis", 1)?, shape.len())?;
    let group: usize = ctx.attribute_or("group", 1)?;
    let channels = &shape[axis];
    let in_group = divide(channels, group, "the number of channels")?;
    let mut chain = Chain::default();
    chain.reshape(axis, std::slice::from_ref(channels), &[group.to_dim(), in_group.clone()]);
    chain.axis_op(AxisOp::Move(axis, axis + 1));
    chain.reshape(axis, &[in_group, group.to_dim()], std::slice::from_ref(channels));
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// What DepthToSpace and SpaceToDepth share: the shape of the data, `block_size`, and whether the position in
/// the block comes first in the channels.
fn depth_and_space(ctx: &LayerContext) -> TractResult<(TVec<TDim>, usize, bool)> {
    ctx.expect_inputs(1..=1)?;
    let shape = ctx.shape(0)?;
    ensure!(shape.len() >= 3, "the data has rank {}, but must have rank 3 or more", shape.len());
    let block: usize = ctx.attribute_or("block_size", 1)?;
    let channels = block.checked_pow((shape.len() - 2) as u32).filter(|it| *it <= FAR as usize);
    ensure!(
        block > 0 && channels.is_some(),
        "block_size is {block}, but must be 1 or more, and not larger than the number of channels"
    );
    let modes = [("blocks_first", true), ("depth_first", false)];
    Ok((shape, block, ctx.attribute_among("mode", &modes, None)?))
}

/// **DepthToSpace-1**: blocks of elements move from the channels to the spatial axes. `mode` says which comes
/// first in the channels, the position in the block (`blocks_first`) or the output's channel (`depth_first`).
fn depth_to_space(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let (shape, block, blocks_first) = depth_and_space(ctx)?;
    let axes = shape.len() - 2;
    let channels = divide(&shape[1], block.pow(axes as u32), "the number of channels")?;
    let block = block.to_dim();
    let mut split = vec![block.clone(); axes];
    split.insert(if blocks_first { axes } else { 0 }, channels);
    let (first_block, channel) = if blocks_first { (1, axes + 1) } else { (2, 1) };
    let mut order = vec![0, channel];
    order.extend((0..axes).flat_map(|axis| [axes + 2 + axis, first_block + axis]));
    let mut chain = Chain::default();
    chain.reshape(1, &shape[1..2], &split);
    chain.permute(&order);
    for (axis, size) in shape.iter().enumerate().skip(2) {
        let whole = multiply(size, &block)?;
        chain.reshape(axis, &[size.clone(), block.clone()], &[whole]);
    }
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// **SpaceToDepth-1**: blocks of elements move from the spatial axes to the channels. The opposite of
/// DepthToSpace.
fn space_to_depth(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let (shape, block, blocks_first) = depth_and_space(ctx)?;
    let axes = shape.len() - 2;
    let mut chain = Chain::default();
    for (axis, size) in shape.iter().skip(2).enumerate() {
        let blocks = divide(size, block, "the dimension")?;
        chain.reshape(2 + 2 * axis, std::slice::from_ref(size), &[blocks, block.to_dim()]);
    }
    let (blocks, space) = ((0..axes).map(|axis| 3 + 2 * axis), (0..axes).map(|axis| 2 + 2 * axis));
    let order: Vec<usize> = match blocks_first {
        true => [0].into_iter().chain(blocks).chain([1]).chain(space).collect(),
        false => [0, 1].into_iter().chain(blocks).chain(space).collect(),
    };
    chain.permute(&order);
    let mut depth = vec![block.to_dim(); axes];
    depth.insert(if blocks_first { axes } else { 0 }, shape[1].clone());
    let channels = multiply(&shape[1], &block.pow(axes as u32).to_dim())?;
    chain.reshape(1, &depth, &[channels]);
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// What BatchToSpace and SpaceToBatch share: the shape of the data, `block_shape`, the product of its
/// elements, and what is cropped or padded before and after each axis.
type BatchAndSpace = (TVec<TDim>, Vec<usize>, usize, Vec<[TDim; 2]>);

fn batch_and_space(ctx: &LayerContext, names: [&str; 2]) -> TractResult<BatchAndSpace> {
    ctx.expect_inputs(4..=4)?;
    let shape = ctx.shape(0)?;
    let block = ctx.integers(1, "block_shape")?;
    let borders = [ctx.integers(2, names[0])?, ctx.integers(3, names[1])?];
    ensure!(shape.len() >= 2, "the data has rank {}, but must have rank 2 or more", shape.len());
    for (name, list) in [("block_shape", &block), (names[0], &borders[0]), (names[1], &borders[1])]
    {
        let least = if name == "block_shape" { 1 } else { 0 };
        ensure!(
            list.len() == shape.len() && list.iter().all(|it| (least..=FAR).contains(it)),
            "{name} is {list:?}, but must have {} elements, one for each axis, of {least} or more",
            shape.len()
        );
        ensure!(list[0] == least, "{name}[0] is {}, but must be {least}", list[0]);
    }
    let block: Vec<usize> =
        block.iter().map(|block| usize::try_from(*block)).collect::<Result<_, _>>()?;
    let product = volume(&block).filter(|product| *product <= FAR as usize);
    let product = product.with_context(|| {
        format!("block_shape is {block:?}, but its product must be {FAR} or less")
    })?;
    let border = |axis: usize| [borders[0][axis].to_dim(), borders[1][axis].to_dim()];
    let borders = (0..shape.len()).map(border).collect();
    Ok((shape, block, product, borders))
}

/// **BatchToSpace-2**: blocks of elements move from the batch to the other axes, which are then cropped.
fn batch_to_space(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let (mut shape, block, product, crops) = batch_and_space(ctx, ["crops_begin", "crops_end"])?;
    let batches = divide(&shape[0], product, "the number of batches")?;
    let axes = shape.len() - 1;
    let mut split: Vec<TDim> = block[1..].iter().map(|block| block.to_dim()).collect();
    split.push(batches.clone());
    let mut order = vec![axes];
    order.extend((0..axes).flat_map(|axis| [axes + 1 + axis, axis]));
    let mut chain = Chain::default();
    chain.reshape(0, &shape[..1], &split);
    chain.permute(&order);
    shape[0] = batches;
    for (axis, dim) in shape.iter_mut().enumerate().skip(1) {
        let whole = multiply(dim, &block[axis].to_dim())?;
        let parts = [dim.clone(), block[axis].to_dim()];
        chain.reshape(axis, &parts, std::slice::from_ref(&whole));
        *dim = whole;
    }
    for (axis, [begin, end]) in crops.into_iter().enumerate() {
        let (dim, end) = (&shape[axis], shape[axis].clone() - end);
        ensure!(
            (end.clone() - &begin).as_i64().is_none_or(|len| len >= 0),
            "the crops of axis {axis} are larger than its size, which is {dim}"
        );
        chain.contiguous(axis, dim, begin, end)?;
    }
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// **SpaceToBatch-2**: the axes are padded with zeros, and blocks of elements move from them to the batch.
/// The opposite of BatchToSpace.
fn space_to_batch(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let (shape, block, product, pads) = batch_and_space(ctx, ["pads_begin", "pads_end"])?;
    let axes = shape.len() - 1;
    let mut chain = Chain::default();
    let data = ctx.input(0)?;
    let data = pad_with_value(ctx, "padded", data, &pads, None)?;
    for axis in 0..axes {
        let [before, after] = &pads[axis + 1];
        let whole = (shape[axis + 1].clone() + before + after).simplify();
        let block = block[axis + 1];
        let parts = [divide(&whole, block, "the padded dimension")?, block.to_dim()];
        chain.reshape(1 + 2 * axis, &[whole], &parts);
    }
    let mut order: Vec<usize> = (0..axes).map(|axis| 2 + 2 * axis).collect();
    order.push(0);
    order.extend((0..axes).map(|axis| 1 + 2 * axis));
    chain.permute(&order);
    let mut parts: Vec<TDim> = block[1..].iter().map(|block| block.to_dim()).collect();
    parts.push(shape[0].clone());
    chain.reshape(0, &parts, &[multiply(&shape[0], &product.to_dim())?]);
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// Multiplies a size by a number.
pub(super) fn multiply(dim: &TDim, by: &TDim) -> TractResult<TDim> {
    if let (Some(size), Some(by)) = (dim.as_i64(), by.as_i64()) {
        let product = size.checked_mul(by);
        return Ok(product.with_context(|| format!("{size} times {by} is too large"))?.to_dim());
    }
    Ok((dim.clone() * by).simplify())
}

/// Divides a size that must be a multiple of a number.
pub(super) fn divide(dim: &TDim, by: usize, what: &str) -> TractResult<TDim> {
    ensure!(by > 0, "{what} is {dim}, but cannot be divided by 0");
    let quotient = dim.clone() / by;
    let product = (quotient.clone() * by).simplify();
    match dim.as_i64() {
        Some(_) => ensure!(product == *dim, "{what} is {dim}, but must be a multiple of {by}"),
        None if product == *dim => (),
        None => bail!(NotKnown::sizes(format!(
            "{what} is {dim}, but must be a multiple of {by}: give the input a size, or a multiple like {by}*h"
        ))),
    }
    Ok(quotient.simplify())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_do_not_overflow() {
        assert_eq!(multiply(&6.to_dim(), &7.to_dim()).unwrap(), 42.to_dim());
        multiply(&(1i64 << 62).to_dim(), &2.to_dim()).unwrap_err();
    }
}
