//! Operations that move elements: concatenations, slices, pads, and the rearrangements of blocks.

use tract_core::internal::*;
use tract_core::num_traits::Zero;
use tract_core::ops::array::{MultiBroadcastTo, Pad, PadMode as CorePadMode, Slice, TypedConcat};
use tract_core::ops::change_axes::{AxisOp, perm_to_ops};
use tract_openvino::GatherRevision;

use super::indexing;
use crate::operators::{DynSlice, PadMode, Positions, ReverseSequence, Take, numpy_slice};
use crate::registry::Registry;
use crate::translate::{LayerContext, is_size};

pub(super) fn register(registry: &mut Registry) {
    registry.add("Concat", 1, concat);
    registry.add("Split", 1, split);
    registry.add("VariadicSplit", 1, variadic_split);
    registry.add("Slice", 8, slice);
    registry.add("StridedSlice", 1, strided_slice);
    registry.add("Pad", 1, pad);
    registry.add("Pad", 12, pad);
    registry.add("Roll", 7, roll);
    registry.add("Reverse", 1, reverse);
    registry.add("ReverseSequence", 1, reverse_sequence);
    registry.add("ShuffleChannels", 1, shuffle_channels);
    registry.add("DepthToSpace", 1, depth_to_space);
    registry.add("SpaceToDepth", 1, space_to_depth);
    registry.add("BatchToSpace", 2, batch_to_space);
    registry.add("SpaceToBatch", 2, space_to_batch);
}

/// From this on, a bound of a slice means the end of an axis whose size is not known, and no pad is so wide.
/// Writers have used 1e9 as well as the largest numbers of 32 and 64 bits.
const FAR: i64 = 1_000_000_000;

/// The number of positions along an axis that are kept as a constant.
const MOST_POSITIONS: usize = 1 << 20;

/// Operators that follow one another, of which the last one gets the layer's name.
#[derive(Default)]
pub(super) struct Chain {
    steps: Vec<(&'static str, Box<dyn TypedOp>, TVec<OutletId>)>,
}

impl Chain {
    /// An operator on what the one before gives, and on other outlets after it.
    fn then(&mut self, suffix: &'static str, op: impl Into<Box<dyn TypedOp>>, more: &[OutletId]) {
        self.steps.push((suffix, op.into(), more.into()));
    }

    pub(super) fn axis_op(&mut self, op: AxisOp) {
        if !op.is_noop() {
            self.then("axes", op, &[]);
        }
    }

    fn reshape(&mut self, at: usize, from: &[TDim], to: &[TDim]) {
        self.axis_op(AxisOp::Reshape(at, from.into(), to.into()));
    }

    fn permute(&mut self, order: &[usize]) {
        perm_to_ops(order).into_iter().for_each(|op| self.axis_op(op));
    }

    /// Some positions along an axis: as a constant, if they are known.
    fn take(
        &mut self,
        ctx: &mut LayerContext,
        axis: usize,
        dim: &TDim,
        positions: Positions,
    ) -> TractResult<()> {
        let known = match dim.to_usize() {
            Ok(size) => positions.on_axis(size, &SymbolValues::default()),
            Err(error) => Err(error.into()),
        };
        match known {
            Ok(known) if known.len() <= MOST_POSITIONS => {
                let known: Vec<i64> = known
                    .map(|position| Ok(i64::try_from(position?)?))
                    .collect::<TractResult<_>>()?;
                let known = ctx.add_const("positions", tensor1(&known))?;
                let gather = indexing::gather(ctx, GatherRevision::V1, axis);
                self.then("take", gather, &[known]);
            }
            _ => self.then("take", Take { axis, positions }, &[]),
        }
        Ok(())
    }

    /// NumPy's `start:stop:step` along an axis. `None` is an end of the axis.
    fn slice(
        &mut self,
        ctx: &mut LayerContext,
        axis: usize,
        dim: &TDim,
        [start, stop]: [Option<&TDim>; 2],
        step: i64,
    ) -> TractResult<()> {
        let (first, len) = window(dim, start, stop, step);
        if step == 1 || len.is_one() {
            self.contiguous(axis, dim, first.clone(), first + len);
            return Ok(());
        }
        self.take(ctx, axis, dim, Positions::Stride { first, step, len })
    }

    fn contiguous(&mut self, axis: usize, dim: &TDim, start: TDim, end: TDim) {
        let (start, end) = (start.simplify(), end.simplify());
        if !start.is_zero() || end != *dim {
            self.then("slice", Slice { axis, start, end }, &[]);
        }
    }

    /// Adds the nodes. Without any, it is the outlet itself.
    pub(super) fn wire(self, ctx: &mut LayerContext, outlet: OutletId) -> TractResult<OutletId> {
        self.wire_as(ctx, "", outlet)
    }

    /// Adds the nodes, the last one with a suffix.
    fn wire_as(
        self,
        ctx: &mut LayerContext,
        name: &str,
        outlet: OutletId,
    ) -> TractResult<OutletId> {
        let last = self.steps.len().saturating_sub(1);
        let mut outlet = outlet;
        for (number, (suffix, op, more)) in self.steps.into_iter().enumerate() {
            let inputs: TVec<OutletId> = std::iter::once(outlet).chain(more).collect();
            outlet = ctx.wire(if number == last { name } else { suffix }, op, &inputs)?;
        }
        Ok(outlet)
    }
}

/// A size that must be a multiple of a number, divided by it.
fn divide(dim: &TDim, by: usize, what: &str) -> TractResult<TDim> {
    ensure!(by > 0, "{what} {dim} would be divided by 0");
    let quotient = dim.clone() / by;
    let product = (quotient.clone() * by).simplify();
    match dim.as_i64() {
        Some(_) => ensure!(product == *dim, "{what} {dim} is no multiple of {by}"),
        None => ensure!(
            product == *dim,
            "{what} {dim} must be a multiple of {by}: give the input a size, or a multiple like {by}*h"
        ),
    }
    Ok(quotient.simplify())
}

/// **Concat-1**: "axis" may be negative. The other dimensions are equal.
fn concat(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let inputs = ctx.all_inputs()?;
    let inputs = ctx.unify(&inputs)?;
    let shapes =
        inputs.iter().map(|input| ctx.shape_of(*input)).collect::<TractResult<Vec<_>>>()?;
    let first = shapes.first().context("there are no inputs, but must be one at least")?;
    let axis = ctx.axis("axis", ctx.attribute("axis")?, first.len())?;
    for shape in &shapes[1..] {
        let doing = format!("concatenates on axis {axis}");
        ctx.equal_shapes(first, shape, Some(axis), &doing)?;
    }
    ctx.finish(TypedConcat::new(axis), &inputs)
}

/// The parts of an input along an axis, between positions that follow one another.
fn parts(ctx: &mut LayerContext, axis: usize, bounds: &[[TDim; 2]]) -> TractResult<TVec<OutletId>> {
    let data = ctx.input(0)?;
    let part = |(number, [start, end]): (usize, &[TDim; 2])| {
        let op = Slice { axis, start: start.clone(), end: end.clone() };
        ctx.wire(&number.to_string(), op, &[data])
    };
    bounds.iter().enumerate().map(part).collect()
}

/// **Split-1**: "num_splits" equal parts. Where it is not known that the dimension can be divided, it is checked
/// when the model runs.
fn split(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let shape = ctx.shape(0)?;
    let axis = ctx.axis("axis", ctx.integer(1, "axis")?, shape.len())?;
    let count: i64 = ctx.attribute("num_splits")?;
    let outputs = i64::try_from(ctx.layer().outputs.len())?;
    ensure!(
        count > 0 && count <= outputs.max(1),
        "num_splits is {count}, but must be 1 at least, and there are {outputs} outputs"
    );
    let dim = &shape[axis];
    let part = (dim.clone() / count).simplify();
    let rest = (dim.clone() - part.clone() * count).simplify();
    if let Some(size) = dim.as_i64() {
        ensure!(rest.is_zero(), "dimension {size} is no multiple of num_splits, which is {count}");
    }
    let bounds = |number: i64| {
        // A part that begins and ends too late is no part: a rest is an error when the model runs.
        let late = if number == count - 1 { rest.clone() * 2 } else { 0.to_dim() };
        [
            (part.clone() * number + &late).simplify(),
            (part.clone() * (number + 1) + &late).simplify(),
        ]
    };
    let bounds: Vec<[TDim; 2]> = (0..count).map(bounds).collect();
    parts(ctx, axis, &bounds)
}

/// **VariadicSplit-1**: "split_lengths" add up to the dimension; one of them may be -1, which is the rest.
fn variadic_split(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let shape = ctx.shape(0)?;
    let axis = ctx.axis("axis", ctx.integer(1, "axis")?, shape.len())?;
    let mut lengths = ctx.dims(2, "split_lengths")?;
    let mut sum = 0.to_dim();
    let mut rest = None;
    for (number, length) in lengths.iter().enumerate() {
        match length.as_i64() {
            Some(-1) => ensure!(
                rest.replace(number).is_none(),
                "split_lengths has more than one -1: {lengths:?}"
            ),
            Some(length) if !(0..=FAR).contains(&length) => {
                bail!("split_lengths[{number}] is {length}, but must be -1, or 0 or more")
            }
            _ => sum = (sum + length).simplify(),
        }
    }
    let dim = &shape[axis];
    match rest {
        Some(rest) => {
            let length = (dim.clone() - &sum).simplify();
            ensure!(
                length.as_i64().is_none_or(|length| length >= 0),
                "split_lengths are {lengths:?}, which is more than the dimension has, {dim}"
            );
            lengths[rest] = length;
        }
        None => {
            ctx.equal(dim, &sum, &format!("splits it in parts of {lengths:?}"))?;
        }
    }
    let mut start = 0.to_dim();
    let mut bounds = vec![];
    for length in lengths {
        let end = (start.clone() + length).simplify();
        bounds.push([start, end.clone()]);
        start = end;
    }
    parts(ctx, axis, &bounds)
}

/// Where a slice begins, and how many elements it has, on an axis of this size.
///
/// Bounds are clamped to an axis whose size is known. To one whose size is a symbol they are clamped where that is
/// what they are for: an end like 512, which cuts what is too long, and a start like -2, which takes the last
/// ones if there are so many. Beyond that a slice that begins after the end of the axis fails when the model
/// runs, and its size does not have all cases in it: `1:-1` of `N` is `N-2`.
fn window(dim: &TDim, start: Option<&TDim>, stop: Option<&TDim>, step: i64) -> (TDim, TDim) {
    let open = if step > 0 { [0, i64::MAX] } else { [i64::MAX, i64::MIN] };
    let [start, stop] = [start, stop].map(|bound| bound.map(|bound| bound.clone().simplify()));
    let start = start.unwrap_or_else(|| open[0].to_dim());
    let stop = stop.unwrap_or_else(|| open[1].to_dim());
    if let (Ok(dim), Some(start), Some(stop)) = (dim.to_usize(), start.as_i64(), stop.as_i64()) {
        let (first, len) = numpy_slice(dim, start, stop, step);
        return (first.to_dim(), len.to_dim());
    }
    // The elements are between two positions, whatever the direction.
    let (lower, upper) = if step > 0 {
        (edge(dim, &start, 0, false), edge(dim, &stop, 0, true))
    } else {
        (edge(dim, &stop, 1, false), edge(dim, &start, 1, true))
    };
    let distance = (upper.clone() - &lower).simplify();
    if distance.as_i64().is_some_and(|distance| distance <= 0) {
        return (0.to_dim(), 0.to_dim());
    }
    let len = distance.div_ceil(step.unsigned_abs()).simplify();
    (if step > 0 { lower } else { (upper - 1).simplify() }, len)
}

/// The position of a bound, and `offset` more.
fn edge(dim: &TDim, bound: &TDim, offset: i64, upper: bool) -> TDim {
    let Some(number) = bound.as_i64() else {
        // A size with a minus counts from the end. (Where that size is 0 there is nothing to choose.)
        let from_end = is_size(&(bound.clone() * -1));
        let position = bound.clone() + offset;
        return if from_end { position + dim } else { position }.simplify();
    };
    if number >= FAR {
        return dim.clone();
    }
    if number <= -FAR {
        return 0.to_dim();
    }
    let position = number + offset;
    let edge = match (number < 0, upper) {
        (false, true) if position > 1 => TDim::Min(vec![position.to_dim(), dim.clone()]),
        (false, _) => position.to_dim(),
        (true, false) if position < -1 => TDim::Max(vec![dim.clone() + position, 0.to_dim()]),
        (true, _) => dim.clone() + position,
    };
    edge.simplify()
}

/// The bounds of a slice on some axes: an input.
struct Bounds {
    input: usize,
    count: usize,
    /// Where they are known.
    known: Option<TVec<TDim>>,
}

impl Bounds {
    fn new(ctx: &LayerContext, input: usize, name: &str) -> TractResult<Bounds> {
        let known = match ctx.constant_opt(input)? {
            Some(_) => Some(ctx.dims(input, name)?),
            None => None,
        };
        let shape = ctx.shape(input)?;
        ctx.expect_integers(input, name)?;
        ensure!(
            shape.len() <= 1,
            "input {input} ({name}) has shape {shape:?}, but must have rank 0 or 1"
        );
        let count = match shape.first() {
            None => 1,
            Some(count) => count.to_usize().with_context(|| {
                format!(
                    "input {input} ({name}) has {count} elements, but it must be known how many"
                )
            })?,
        };
        Ok(Bounds { input, count, known })
    }

    fn known(&self, element: usize) -> Option<&TDim> {
        self.known.as_ref()?.get(element)
    }
}

impl Chain {
    /// A slice along an axis, between two elements of the bounds, or an end of the axis where there is none.
    fn slice_between(
        &mut self,
        ctx: &mut LayerContext,
        axis: usize,
        dim: &TDim,
        [start, stop]: [(&Bounds, Option<usize>); 2],
        step: i64,
    ) -> TractResult<()> {
        let is_known = |(bounds, element): (&Bounds, Option<usize>)| {
            element.is_none() || bounds.known.is_some()
        };
        if is_known(start) && is_known(stop) {
            let bound = |(bounds, element): (&'_ Bounds, Option<usize>)| {
                element.and_then(|element| bounds.known(element).cloned())
            };
            let (start, stop) = (bound(start), bound(stop));
            return self.slice(ctx, axis, dim, [start.as_ref(), stop.as_ref()], step);
        }
        let len = ctx.size_at_run_time("slice")?.to_dim();
        let elements = [start.1, stop.1];
        let bounds = [ctx.input(start.0.input)?, ctx.input(stop.0.input)?];
        self.then("slice", DynSlice { axis, elements, step, len }, &bounds);
        Ok(())
    }
}

/// **Slice-8**: NumPy's `start:stop:step` on "axes", or on the first ones. Mind the order of the inputs: "step"
/// comes before "axes".
fn slice(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=5)?;
    let shape = ctx.shape(0)?;
    let start = Bounds::new(ctx, 1, "start")?;
    let stop = Bounds::new(ctx, 2, "stop")?;
    let steps = ctx.integers(3, "step")?;
    let axes: TVec<i64> = match ctx.input_count() {
        5 => ctx.integers(4, "axes")?,
        _ => (0..start.count as i64).collect(),
    };
    ensure!(
        [start.count, stop.count, steps.len()].iter().all(|count| *count == axes.len()),
        "start, stop, step and axes have {}, {}, {} and {} elements, but must have as many as each other",
        start.count,
        stop.count,
        steps.len(),
        axes.len()
    );
    ctx.axes("axes", &axes, shape.len())?;
    let mut chain = Chain::default();
    for (number, (axis, step)) in axes.iter().zip(steps).enumerate() {
        let axis = ctx.axis("axes", *axis, shape.len())?;
        ensure!(step != 0, "step[{number}] is 0");
        let bounds = [(&start, Some(number)), (&stop, Some(number))];
        chain.slice_between(ctx, axis, &shape[axis], bounds, step)?;
    }
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// What an entry of the bounds of a StridedSlice is for.
#[derive(Clone, Copy, PartialEq)]
enum Entry {
    /// A slice of an axis of the data.
    Slice(usize),
    /// One element of an axis of the data, which goes away.
    Shrink(usize),
    /// A new axis.
    New,
    /// All axes from here, up to another.
    Ellipsis(usize),
}

/// **StridedSlice-1**: a 1 in "begin_mask" or "end_mask" is a bound that is ignored. Masks that are too short go on
/// with zeros. Of an entry, an ellipsis comes first, then a new axis, then one that is shrunk, of which an index
/// out of range is an error.
fn strided_slice(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=4)?;
    let shape = ctx.shape(0)?;
    let begin = Bounds::new(ctx, 1, "begin")?;
    let end = Bounds::new(ctx, 2, "end")?;
    let strides = match ctx.input_count() {
        4 => ctx.integers(3, "strides")?,
        _ => tvec![1; begin.count],
    };
    ensure!(
        begin.count == end.count && begin.count == strides.len(),
        "begin, end and strides have {}, {} and {} elements, but must have as many as each other",
        begin.count,
        end.count,
        strides.len()
    );
    let mask = |name: &str| -> TractResult<Vec<bool>> {
        let mask: Vec<i64> = ctx.attribute_or(name, vec![])?;
        Ok((0..begin.count).map(|entry| mask.get(entry).is_some_and(|bit| *bit != 0)).collect())
    };
    let (ignore_begin, ignore_end) = (mask("begin_mask")?, mask("end_mask")?);
    let entries = entries(
        shape.len(),
        &mask("ellipsis_mask")?,
        &mask("new_axis_mask")?,
        &mask("shrink_axis_mask")?,
    )?;
    let mut chain = Chain::default();
    let mut shrunk = vec![];
    for (number, entry) in entries.iter().enumerate() {
        let bound = |bounds, ignore: bool| (bounds, (!ignore).then_some(number));
        match *entry {
            Entry::Slice(axis) => {
                ensure!(strides[number] != 0, "strides[{number}] is 0");
                let bounds = [bound(&begin, ignore_begin[number]), bound(&end, ignore_end[number])];
                chain.slice_between(ctx, axis, &shape[axis], bounds, strides[number])?;
            }
            Entry::Shrink(axis) => {
                shrunk.push(axis);
                let (dim, first) = (&shape[axis], 0.to_dim());
                let index = if ignore_begin[number] { Some(&first) } else { begin.known(number) };
                match index {
                    Some(index) => {
                        if let (Some(index), Some(dim)) = (index.as_i64(), dim.as_i64()) {
                            ensure!(
                                (-dim..dim).contains(&index),
                                "begin[{number}] is {index}, which is out of range for axis {axis}: its size is \
                                 {dim}"
                            );
                        }
                        let from_end = index.prove_strict_negative();
                        let index = if from_end { index.clone() + dim } else { index.clone() };
                        chain.contiguous(axis, dim, index.clone(), index + 1);
                    }
                    None => {
                        let indices = ctx.input(begin.input)?;
                        let one = Slice::new(0, number, number + 1);
                        let index = ctx.wire("index", one, &[indices])?;
                        let gather = indexing::gather(ctx, GatherRevision::V1, axis);
                        chain.then("take", gather, &[index]);
                    }
                }
            }
            Entry::New | Entry::Ellipsis(_) => (),
        }
    }
    shrunk.sort_unstable();
    shrunk.iter().rev().for_each(|axis| chain.axis_op(AxisOp::Rm(*axis)));
    let mut position = 0;
    for entry in entries {
        match entry {
            Entry::Slice(_) => position += 1,
            Entry::Shrink(_) => (),
            Entry::New => {
                chain.axis_op(AxisOp::Add(position));
                position += 1;
            }
            Entry::Ellipsis(axes) => position += axes,
        }
    }
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// What each entry is for, by the masks.
fn entries(
    rank: usize,
    ellipsis: &[bool],
    new_axis: &[bool],
    shrink: &[bool],
) -> TractResult<Vec<Entry>> {
    let ellipses = ellipsis.iter().filter(|bit| **bit).count();
    ensure!(ellipses <= 1, "ellipsis_mask has {ellipses} ones, but may have one");
    let named =
        ellipsis.iter().zip(new_axis).filter(|(ellipsis, new)| !**ellipsis && !**new).count();
    ensure!(
        named <= rank,
        "begin and end have {named} entries for axes of data, but data have rank {rank}"
    );
    let mut axis = 0;
    let mut entries = vec![];
    for ((ellipsis, new), shrink) in ellipsis.iter().zip(new_axis).zip(shrink) {
        entries.push(match (*ellipsis, *new, *shrink) {
            (true, _, _) => {
                axis += rank - named;
                Entry::Ellipsis(rank - named)
            }
            (_, true, _) => Entry::New,
            (_, _, shrink) => {
                axis += 1;
                if shrink { Entry::Shrink(axis - 1) } else { Entry::Slice(axis - 1) }
            }
        });
    }
    Ok(entries)
}

/// **Pad-1**, **Pad-12**: Pad-12 allows negative pads, which take elements away. The modes look at the elements
/// that are there before any are taken away.
fn pad(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=4)?;
    let shape = ctx.shape(0)?;
    let (begin, end) = (ctx.dims(1, "pads_begin")?, ctx.dims(2, "pads_end")?);
    for (name, pads) in [("pads_begin", &begin), ("pads_end", &end)] {
        ensure!(
            pads.len() == shape.len(),
            "{name} has {} elements, but data have rank {}",
            pads.len(),
            shape.len()
        );
        let least = if ctx.since() >= 12 { -FAR } else { 0 };
        for pad in pads.iter().filter_map(|pad| pad.as_i64()) {
            ensure!((least..=FAR).contains(&pad), "{name} has {pad}, but must be {least} or more");
        }
    }
    let modes = [
        ("constant", None),
        ("edge", Some(PadMode::Edge)),
        ("reflect", Some(PadMode::Reflect)),
        ("symmetric", Some(PadMode::Symmetric)),
    ];
    let mode = ctx.attribute_among("pad_mode", &modes, None)?;
    let data = ctx.input(0)?;
    let Some(mode) = mode else {
        let pads: Vec<[TDim; 2]> = begin.into_iter().zip(end).map(|(a, b)| [a, b]).collect();
        let value = if ctx.input_count() == 4 { Some(ctx.input(3)?) } else { None };
        return Ok(tvec!(pad_with_value(ctx, "", data, &pads, value)?));
    };
    let mut chain = Chain::default();
    for (axis, (before, after)) in begin.into_iter().zip(end).enumerate() {
        if !before.is_zero() || !after.is_zero() {
            chain.take(ctx, axis, &shape[axis], Positions::Pad { mode, before, after })?;
        }
    }
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// Pads with a value, or with zeros.
fn pad_with_value(
    ctx: &mut LayerContext,
    name: &str,
    data: OutletId,
    pads: &[[TDim; 2]],
    value: Option<OutletId>,
) -> TractResult<OutletId> {
    let mut crop = Chain::default();
    let mut shape = ctx.shape_of(data)?;
    let is_crop = |pad: &TDim| pad.as_i64().is_some_and(|pad| pad < 0);
    for (axis, pads) in pads.iter().enumerate().filter(|(_, pads)| pads.iter().any(is_crop)) {
        let [before, after] =
            pads.each_ref().map(|pad| if is_crop(pad) { -pad.clone() } else { 0.to_dim() });
        let end = (shape[axis].clone() - after).simplify();
        let len = (end.clone() - &before).simplify();
        ensure!(
            len.as_i64().is_none_or(|len| len >= 0),
            "pads {pads:?} take more away than axis {axis} has, which is {}",
            shape[axis]
        );
        crop.contiguous(axis, &shape[axis], before, end);
        shape[axis] = len;
    }
    let pads: Vec<[TDim; 2]> = pads
        .iter()
        .map(|pads| pads.each_ref().map(|pad| if is_crop(pad) { 0.to_dim() } else { pad.clone() }))
        .collect();
    if pads.iter().flatten().all(|pad| pad.is_zero()) {
        return crop.wire_as(ctx, name, data);
    }
    let dt = ctx.type_of(data)?;
    let value = match value {
        Some(value) => value,
        None => ctx.add_const("value", Tensor::zero_scalar_dt(dt)?)?,
    };
    let fact = ctx.model.outlet_fact(value)?;
    ensure!(
        fact.shape.volume().is_one(),
        "pad_value has shape {:?}, but must have one element",
        fact.shape
    );
    let known: Option<Vec<(usize, usize)>> =
        pads.iter().map(|[a, b]| Some((a.to_usize().ok()?, b.to_usize().ok()?))).collect();
    if let (Some(known), Some(value)) = (known, &fact.konst)
        && dt.is_number()
        && !dt.is_tdim()
    {
        let value = value.cast_to_dt(dt)?.into_owned().into_shape(&[])?.into_arc_tensor();
        let op = Pad::new(known, CorePadMode::Constant(value));
        crop.then("pad", op, &[]);
        return crop.wire_as(ctx, name, data);
    }
    let cropped = crop.wire_as(ctx, "cropped", data)?;
    let value = ctx.one_element("value", value, shape.len())?;
    let unified = ctx.unify(&[cropped, value])?;
    let (mut whole, value) = (unified[0], unified[1]);
    let padded: Vec<usize> =
        (0..pads.len()).filter(|axis| pads[*axis].iter().any(|pad| !pad.is_zero())).collect();
    for (number, axis) in padded.iter().enumerate() {
        let filled = |ctx: &mut LayerContext, pad: &TDim| -> TractResult<Option<OutletId>> {
            if pad.is_zero() {
                return Ok(None);
            }
            let mut shape = shape.clone();
            shape[*axis] = pad.clone();
            ctx.wire("filled", MultiBroadcastTo { shape: shape.into() }, &[value]).map(Some)
        };
        let [before, after] = &pads[*axis];
        let (first, last) = (filled(ctx, before)?, filled(ctx, after)?);
        let all: TVec<OutletId> = first.into_iter().chain([whole]).chain(last).collect();
        let suffix = if number + 1 == padded.len() { name } else { "padded" };
        whole = ctx.wire(suffix, TypedConcat::new(*axis), &all)?;
        shape[*axis] = ctx.shape_of(whole)?[*axis].clone();
    }
    Ok(whole)
}

/// **Roll-7**: what is shifted out at one end comes in at the other. An axis may come more than once, and its shifts
/// add up; one shift is for all axes.
fn roll(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let shape = ctx.shape(0)?;
    let (shifts, axes) = (ctx.integers(1, "shift")?, ctx.integers(2, "axes")?);
    ensure!(
        shifts.len() == axes.len() || shifts.len() == 1,
        "shift has {} elements, but must have one, or as many as axes, which has {}",
        shifts.len(),
        axes.len()
    );
    let mut by_axis = vec![0i64; shape.len()];
    for (number, axis) in axes.iter().enumerate() {
        let axis = ctx.axis("axes", *axis, shape.len())?;
        let shift = shifts[if shifts.len() == 1 { 0 } else { number }];
        // A shift by the size is none.
        let shift = match shape[axis].as_i64() {
            Some(size) => shift.checked_rem(size).unwrap_or(0),
            None => shift,
        };
        let sum = by_axis[axis].checked_add(shift).filter(|shift| shift.abs() <= FAR);
        by_axis[axis] = sum.with_context(|| format!("shifts are too large: {shifts:?}"))?;
    }
    let mut outlet = ctx.input(0)?;
    let rolled: Vec<usize> = (0..shape.len()).filter(|axis| by_axis[*axis] != 0).collect();
    for (number, axis) in rolled.iter().enumerate() {
        let (axis, dim, shift) = (*axis, &shape[*axis], by_axis[*axis]);
        let split = match dim.as_i64() {
            Some(0) => continue,
            Some(size) => (-shift).rem_euclid(size).to_dim(),
            None if shift > 0 => (dim.clone() - shift).simplify(),
            None => (-shift).to_dim(),
        };
        let tail = Slice { axis, start: split.clone(), end: dim.clone() };
        let head = Slice { axis, start: 0.to_dim(), end: split };
        let parts = [ctx.wire("tail", tail, &[outlet])?, ctx.wire("head", head, &[outlet])?];
        let suffix = if number + 1 == rolled.len() { "" } else { "rolled" };
        outlet = ctx.wire(suffix, TypedConcat::new(axis), &parts)?;
    }
    Ok(tvec!(outlet))
}

/// **Reverse-1**: "mode" says whether the second input has axes, or a boolean for each axis.
fn reverse(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let shape = ctx.shape(0)?;
    let axes = match ctx.attribute_among("mode", &[("index", false), ("mask", true)], None)? {
        false => ctx.axes("reversed_axes", &ctx.integers(1, "reversed_axes")?, shape.len())?,
        true => {
            let mask = ctx.constant(1, "reversed_axes")?;
            ensure!(
                mask.datum_type() == DatumType::Bool && mask.shape() == [shape.len()],
                "input 1 (reversed_axes) is {mask:?}, but must have a boolean for each of {} axes",
                shape.len()
            );
            let mask = mask.try_as_plain_ram()?;
            let mask = mask.as_slice::<bool>()?;
            (0..shape.len()).filter(|axis| mask[*axis]).collect()
        }
    };
    let mut chain = Chain::default();
    for axis in axes {
        chain.slice(ctx, axis, &shape[axis], [None, None], -1)?;
    }
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// **ReverseSequence-1**: along "seq_axis", as many elements as "seq_lengths" has for the position on "batch_axis".
fn reverse_sequence(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let shape = ctx.shape(0)?;
    let batch_axis = ctx.axis("batch_axis", ctx.attribute_or("batch_axis", 0)?, shape.len())?;
    let seq_axis = ctx.axis("seq_axis", ctx.attribute_or("seq_axis", 1)?, shape.len())?;
    ensure!(batch_axis != seq_axis, "batch_axis and seq_axis are both {seq_axis}");
    let lengths = ctx.shape(1)?;
    ensure!(
        lengths.len() == 1,
        "input 1 (seq_lengths) has shape {lengths:?}, but must have rank 1"
    );
    ctx.equal(&shape[batch_axis], &lengths[0], "has a length for each batch")?;
    let (data, mut lengths) = (ctx.number_input(0)?, ctx.input(1)?);
    if ctx.type_of(lengths)?.is_float() {
        lengths = ctx.cast("lengths", lengths, DatumType::I64)?;
    }
    let op = ReverseSequence { batch_axis, seq_axis };
    ctx.finish(op, &[data, lengths])
}

/// **ShuffleChannels-1**: the axis is `group` rows, which become columns.
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

/// What **DepthToSpace-1** and **SpaceToDepth-1** share: the shape, "block_size", and whether the blocks come before
/// the channels.
fn depth_and_space(ctx: &LayerContext) -> TractResult<(TVec<TDim>, usize, bool)> {
    ctx.expect_inputs(1..=1)?;
    let shape = ctx.shape(0)?;
    ensure!(shape.len() >= 3, "data have rank {}, but must have 3 at least", shape.len());
    let block: usize = ctx.attribute_or("block_size", 1)?;
    let channels = block.checked_pow((shape.len() - 2) as u32).filter(|it| *it <= FAR as usize);
    ensure!(
        block > 0 && channels.is_some(),
        "block_size is {block}, but must be 1 at least, and less than the number of channels"
    );
    let modes = [("blocks_first", true), ("depth_first", false)];
    Ok((shape, block, ctx.attribute_among("mode", &modes, None)?))
}

/// **DepthToSpace-1**: "blocks_first" has the channels as blocks of channels, "depth_first" as channels of blocks.
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
        let whole = (size.clone() * &block).simplify();
        chain.reshape(axis, &[size.clone(), block.clone()], &[whole]);
    }
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// **SpaceToDepth-1**: the opposite of DepthToSpace.
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
    let channels = (shape[1].clone() * block.pow(axes as u32)).simplify();
    chain.reshape(1, &depth, &[channels]);
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// What **BatchToSpace-2** and **SpaceToBatch-2** share: the shape, "block_shape" with the product of its elements,
/// and what is cut or put before and after each axis.
type BatchAndSpace = (TVec<TDim>, Vec<usize>, usize, Vec<[TDim; 2]>);

fn batch_and_space(ctx: &LayerContext, names: [&str; 2]) -> TractResult<BatchAndSpace> {
    ctx.expect_inputs(4..=4)?;
    let shape = ctx.shape(0)?;
    let block = ctx.integers(1, "block_shape")?;
    let borders = [ctx.integers(2, names[0])?, ctx.integers(3, names[1])?];
    ensure!(shape.len() >= 2, "data have rank {}, but must have 2 at least", shape.len());
    for (name, list) in [("block_shape", &block), (names[0], &borders[0]), (names[1], &borders[1])]
    {
        let least = if name == "block_shape" { 1 } else { 0 };
        ensure!(
            list.len() == shape.len() && list.iter().all(|it| (least..=FAR).contains(it)),
            "{name} is {list:?}, but must have an element for each of {} axes, {least} or more",
            shape.len()
        );
        ensure!(list[0] == least, "{name}[0] is {}, but must be {least}", list[0]);
    }
    let block: Vec<usize> =
        block.iter().map(|block| usize::try_from(*block)).collect::<Result<_, _>>()?;
    let product = block.iter().try_fold(1usize, |product, block| product.checked_mul(*block));
    let product = product.filter(|product| *product <= FAR as usize);
    let product = product.with_context(|| format!("block_shape is too large: {block:?}"))?;
    let border = |axis: usize| [borders[0][axis].to_dim(), borders[1][axis].to_dim()];
    let borders = (0..shape.len()).map(border).collect();
    Ok((shape, block, product, borders))
}

/// **BatchToSpace-2**: the batches are blocks of batches, whose elements go between those of the other axes, of which
/// the ends are cut then.
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
        let whole = (dim.clone() * block[axis]).simplify();
        let parts = [dim.clone(), block[axis].to_dim()];
        chain.reshape(axis, &parts, std::slice::from_ref(&whole));
        *dim = whole;
    }
    for (axis, [begin, end]) in crops.into_iter().enumerate() {
        let (dim, end) = (&shape[axis], shape[axis].clone() - end);
        ensure!(
            (end.clone() - &begin).as_i64().is_none_or(|len| len >= 0),
            "the crops of axis {axis} are more than it has, which is {dim}"
        );
        chain.contiguous(axis, dim, begin, end);
    }
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// **SpaceToBatch-2**: the opposite of BatchToSpace, with zeros for what was cut.
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
    chain.reshape(0, &parts, &[(shape[0].clone() * product).simplify()]);
    Ok(tvec!(chain.wire(ctx, data)?))
}
