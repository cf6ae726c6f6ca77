//! Pools. The data is `[N, C, spatial axes]`.

use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::{MaxPool, PaddingSpec, SumPool};
use tract_core::ops::logic::{Iff, comp_eq};
use tract_core::ops::math;
use tract_core::ops::nn::{self, Reduce};

use super::convolution::{AutoPad, Window, check_elements, positive, spatial_axes};
use crate::context::LayerContext;
use crate::operators::adaptive_pool::{AdaptivePool, Reducer};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    let same = "`rounding_type` ceil with `auto_pad` same_upper or same_lower for open sizes, if a stride is longer than \
                the kernel";
    registry.add("MaxPool", 1, max_pool).without(same);
    registry.add("MaxPool", 8, max_pool);
    registry.add("MaxPool", 14, max_pool);
    registry.add("AvgPool", 1, avg_pool).without(same);
    registry.add("AvgPool", 14, avg_pool);
    registry.add("AvgPool", 16, avg_pool);
    registry.add("AdaptiveAvgPool", 8, adaptive_avg_pool_8);
    registry.add("AdaptiveMaxPool", 8, adaptive_max_pool_8);
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rounding {
    Floor,
    Ceil,
    CeilTorch,
}

/// A pool's window, and its data.
struct Pool {
    window: Window,
    rounding: Rounding,
    /// The data. The number of channels is known, as tract wants it.
    data: OutletId,
    channels: usize,
    /// The batch and the channels, if they are one axis of `data`. It has one channel then.
    merged: Option<TVec<TDim>>,
}

impl Pool {
    fn new(ctx: &mut LayerContext) -> TractResult<Pool> {
        ctx.expect_inputs(1..=1)?;
        let shape = ctx.shape(0)?;
        let spatial = spatial_axes(ctx)?;
        ctx.expect_numbers(0, "data")?;
        check_elements(&shape[2..])?;
        let kernel: Vec<usize> = ctx.attribute("kernel")?;
        ensure!(
            kernel.len() == spatial,
            "attribute kernel has length {}, but must have length {spatial}, a number for each spatial axis",
            kernel.len()
        );
        let mut window = Window::new(ctx, &kernel)?;
        let negative = window.pads_begin.iter().chain(&window.pads_end).find(|pad| **pad < 0);
        if let Some(pad) = negative {
            bail!("a pad is {pad}, but must be 0 or more")
        }
        let mut words = vec![("floor", Rounding::Floor), ("ceil", Rounding::Ceil)];
        if ctx.since() >= 14 {
            words.push(("ceil_torch", Rounding::CeilTorch));
        }
        let rounding = ctx.attribute_among("rounding_type", &words, Some(Rounding::Floor))?;
        if rounding == Rounding::Ceil {
            same_pads(&mut window, &shape[2..])?;
        }
        let data = ctx.input(0)?;
        let data = window.checked(ctx, data)?;
        if let Ok(channels) = shape[1].to_usize() {
            return Ok(Pool { window, rounding, data, channels, merged: None });
        }
        let both: TVec<TDim> = shape[..2].into();
        let product = both[0].clone() * &both[1];
        let merge = AxisOp::Reshape(0, both.clone(), tvec![product, 1.to_dim()]);
        let data = ctx.wire("merged", merge, &[data])?;
        Ok(Pool { window, rounding, data, channels: 1, merged: Some(both) })
    }

    /// How many elements the windows may reach beyond the end of the data, so that rounding down gives the
    /// number of windows that `rounding_type` says.
    ///
    /// Rounding up is rounding down with `stride - 1` more elements. With `ceil_torch` each window begins
    /// within the padded data.
    fn pads_end(&self) -> TractResult<TVec<usize>> {
        let window = &self.window;
        (0..window.kernel.len())
            .map(|axis| {
                let (pad, stride) = (window.pads_end[axis], window.strides[axis] as i64);
                let ceil = pad + stride - 1;
                let last = window.extent(axis)? - 1;
                let end = match self.rounding {
                    Rounding::Floor => pad,
                    Rounding::Ceil => ceil,
                    Rounding::CeilTorch => {
                        ensure!(
                            pad <= last,
                            "a pad at the end is {pad}, but must be less than the size of the kernel, {}",
                            last + 1
                        );
                        ceil.min(last)
                    }
                };
                Ok(usize::try_from(end)?)
            })
            .collect()
    }

    /// Whether a window may have no elements of the data, with these pads.
    fn may_miss(&self, padding: &PaddingSpec) -> TractResult<bool> {
        let window = &self.window;
        for axis in 0..window.kernel.len() {
            let misses = match padding {
                PaddingSpec::Explicit(begin, end) => {
                    let pad = begin[axis].max(end[axis]) as i64;
                    pad >= window.extent(axis)? || pad > 0 && window.dilations[axis] > 1
                }
                _ => window.dilations[axis] > 1,
            };
            if misses {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn padding(&self, ctx: &LayerContext) -> TractResult<PaddingSpec> {
        Ok(match self.window.auto_pad {
            AutoPad::SameUpper => PaddingSpec::SameUpper,
            AutoPad::SameLower => PaddingSpec::SameLower,
            AutoPad::Explicit | AutoPad::Valid => {
                let window = &self.window;
                let shape = ctx.shape_of(self.data)?;
                window.check_fits(&shape[2..], &window.pads_begin, &window.pads_end)?;
                PaddingSpec::Explicit(positive(&window.pads_begin), self.pads_end()?)
            }
        })
    }

    /// Splits batch and channels of an output, if they are one axis.
    fn split(&self, ctx: &mut LayerContext, outlet: OutletId) -> TractResult<OutletId> {
        let Some(both) = &self.merged else { return Ok(outlet) };
        let product = both[0].clone() * &both[1];
        ctx.wire("", AxisOp::Reshape(0, tvec![product, 1.to_dim()], both.clone()), &[outlet])
    }

    fn suffix(&self) -> &'static str {
        if self.merged.is_some() { "pool" } else { "" }
    }
}

/// Makes the pads of `same_upper` and `same_lower` explicit, where rounding up gives a window more than tract does: if
/// there are no pads, and the last stride leads over the end of the data.
fn same_pads(window: &mut Window, sizes: &[TDim]) -> TractResult<()> {
    let rank = window.kernel.len();
    let extents = (0..rank).map(|axis| window.extent(axis)).collect::<TractResult<TVec<i64>>>()?;
    let is_same = matches!(window.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
    if !is_same || (0..rank).all(|axis| window.strides[axis] as i64 <= extents[axis]) {
        return Ok(());
    }
    for axis in 0..rank {
        let (size, stride) = (&sizes[axis], window.strides[axis] as i64);
        let size = size.to_i64().with_context(|| {
            format!(
                "spatial axis {axis} is open, but must be known if auto_pad is same_upper or same_lower, rounding_type \
                 is ceil and a stride is longer than the kernel"
            )
        })?;
        let windows = (size - 1) / stride + 1;
        let pads = ((windows - 1) * stride + extents[axis] - size).max(0);
        let less = pads / 2;
        (window.pads_begin[axis], window.pads_end[axis]) = match window.auto_pad {
            AutoPad::SameLower => (pads - less, less),
            _ => (less, pads - less),
        };
    }
    window.auto_pad = AutoPad::Explicit;
    Ok(())
}

/// **MaxPool-1**, **MaxPool-8**, **MaxPool-14**: the greatest element of each window. Padding is less than
/// all elements. Revision 8 adds `dilations` and a second output: the index of each element, counted in the
/// axes from `axis` on.
fn max_pool(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let pool = Pool::new(ctx)?;
    let spec = pool.window.spec(pool.padding(ctx)?, pool.channels, pool.channels);
    if ctx.since() < 8 {
        let op = MaxPool::new(spec, None);
        let values = ctx.wire(pool.suffix(), op, &[pool.data])?;
        return Ok(tvec!(pool.split(ctx, values)?));
    }
    let shape = ctx.shape(0)?;
    let dt = ctx.index_type("index_element_type", DatumType::I64)?;
    let axis = ctx.axis("attribute axis", ctx.attribute_or("axis", 0)?, shape.len())?;
    let max_pool = MaxPool::new(spec, Some(DatumType::I64));
    // tract gives the least number of a type, like 0 of u8, no index.
    let of_data = ctx.type_of(pool.data)?;
    let wide = if of_data.is_integer() && of_data.size_of() < 8 { DatumType::I64 } else { of_data };
    let data = ctx.cast("wide", pool.data, wide)?;
    let outlets = ctx.wire_all(pool.suffix(), max_pool, &[data])?;
    let values = ctx.cast("values", outlets[0], of_data)?;
    let values = pool.split(ctx, values)?;
    let indices = pool.split(ctx, outlets[1])?;
    let indices = counted_from(ctx, indices, &shape, axis)?;
    Ok(tvec!(values, ctx.cast("index_type", indices, dt)?))
}

/// Turns indices that count within a channel into indices that count in the axes from `axis` on.
fn counted_from(
    ctx: &mut LayerContext,
    indices: OutletId,
    shape: &[TDim],
    axis: usize,
) -> TractResult<OutletId> {
    let rank = shape.len();
    if axis == 2 {
        return Ok(indices);
    }
    let number = |ctx: &mut LayerContext, suffix: &str, dim: TDim| -> TractResult<OutletId> {
        let dim = ctx.add_const(suffix, tensor0(dim).broadcast_into_rank(rank)?)?;
        ctx.cast(suffix, dim, DatumType::I64)
    };
    if axis > 2 {
        let volume: TDim = shape[axis..].iter().product();
        // Without elements there are no indices, but tract would divide by zero.
        let volume = number(ctx, "volume", TDim::Max(vec![volume, 1.to_dim()]).simplify())?;
        return ctx.wire("indices", math::rem(), &[indices, volume]);
    }
    let volume: TDim = shape[2..].iter().product();
    let volume = number(ctx, "volume", volume)?;
    let channels: TDim = shape[axis..2].iter().product();
    let channel = ctx.positions("channel", &channels)?;
    let mut changes = vec![];
    if axis == 0 {
        changes.push(AxisOp::Reshape(0, tvec![channels], shape[..2].into()));
    } else {
        changes.push(AxisOp::Add(0));
    }
    changes.extend((2..rank).map(AxisOp::Add));
    let channel = ctx.change_axes("channel", channel, changes)?;
    let offset = ctx.wire("offset", math::mul(), &[channel, volume])?;
    ctx.wire("indices", math::add(), &[indices, offset])
}

/// **AvgPool-1**, **AvgPool-14**, **AvgPool-16**: the mean of each window, or 0 if nothing counts in it. The mean of
/// integers is rounded to the nearest one, or to the even one. Revision 16 adds `dilations`.
///
/// Padding counts as zeros, unless `exclude-pad` is true. The specification leaves open whether elements count that a
/// window has beyond the padding, because the number of windows is rounded up. As in OpenVINO, they are more padding,
/// or do not count if there is no padding at all. In PyTorch, for which `ceil_torch` was made, they never count.
fn avg_pool(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let exclude: bool = ctx.attribute("exclude-pad")?;
    let pool = Pool::new(ctx)?;
    let padding = pool.padding(ctx)?;
    let window = &pool.window;
    let has_pads = matches!(window.auto_pad, AutoPad::SameUpper | AutoPad::SameLower)
        || window.pads_begin.iter().chain(&window.pads_end).any(|pad| *pad > 0);
    let counts_pads = !exclude && has_pads;
    let may_miss = !counts_pads && pool.may_miss(&padding)?;
    let spec = window.spec(padding, pool.channels, pool.channels);
    let data = ctx.single_float("single", pool.data)?;
    let suffix = if may_miss { "average" } else { pool.suffix() };
    let mut average = ctx.wire(suffix, SumPool::new(spec.clone(), counts_pads, true), &[data])?;
    if may_miss {
        // The sum of nothing, divided by nothing, is not a number, but the sum alone is 0.
        let sum = ctx.wire("sum", SumPool::new(spec, false, false), &[data])?;
        // tract's own test of NaN does not know f64.
        let same = TypedBinOp(comp_eq(), None);
        let is_number = ctx.wire("is_number", same, &[average, average])?;
        average = ctx.wire(pool.suffix(), Iff, &[is_number, average, sum])?;
    }
    let mut average = pool.split(ctx, average)?;
    let dt = ctx.datum_type(0)?;
    if !dt.is_float() {
        average = ctx.wire("rounded", math::round_half_to_even(), &[average])?;
    }
    Ok(tvec!(ctx.cast("type", average, dt)?))
}

/// **AdaptiveAvgPool-8**: the mean of each window. The second input has the sizes of the output's spatial
/// axes. The window of element `i` of an axis is `[floor(i * size / output size), ceil((i + 1) * size /
/// output size))`.
fn adaptive_avg_pool_8(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    adaptive_pool(ctx, Reducer::Mean)
}

/// **AdaptiveMaxPool-8**: the greatest element of each window. The windows are those of AdaptiveAvgPool-8.
/// The second output has the indices of the elements within their channels.
fn adaptive_max_pool_8(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let dt = ctx.index_type("index_element_type", DatumType::I64)?;
    adaptive_pool(ctx, Reducer::Max { indices: dt })
}

fn adaptive_pool(ctx: &mut LayerContext, reducer: Reducer) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let shape = ctx.shape(0)?;
    let sizes = ctx.dims(1, "output_shape")?;
    let spatial = spatial_axes(ctx)?;
    ensure!(
        sizes.len() == spatial,
        "output_shape has length {}, but must have length {spatial}, a size for each spatial axis",
        sizes.len()
    );
    let dt = ctx.expect_floats(0, "data")?;
    if let Some(wrong) = sizes.iter().find(|size| size.to_i64().is_ok_and(|size| size < 1)) {
        bail!("output_shape has {wrong}, but each size must be 1 or more")
    }
    let data = ctx.input(0)?;
    if reducer == Reducer::Mean && sizes.iter().all(|size| size.is_one()) {
        let axes: TVec<usize> = (2..shape.len()).collect();
        let volume: TDim = shape[2..].iter().product();
        let data = ctx.single("single", data)?;
        let sum = ctx.wire("sum", Reduce::new(axes, nn::Reducer::Sum), &[data])?;
        let volume = tensor0(volume).broadcast_into_rank(shape.len())?;
        let volume = ctx.add_const("volume", volume)?;
        let volume = ctx.cast("volume", volume, ctx.type_of(sum)?)?;
        let mean = ctx.wire("", math::div(), &[sum, volume])?;
        return Ok(tvec!(ctx.cast("type", mean, dt)?));
    }
    ctx.finish(AdaptivePool { sizes, reducer }, &[data])
}
