//! Slices.

use tract_core::internal::*;
use tract_core::ops::array::Slice;
use tract_core::ops::change_axes::AxisOp;
use tract_openvino::GatherRevision;

use super::chain::Chain;
use super::common::FAR;
use super::indexing;
use crate::operators::take::{DynSlice, Positions, numpy_slice};
use crate::registry::Registry;
use crate::translate::{LayerContext, is_size};

pub(super) fn register(registry: &mut Registry) {
    registry.add("Slice", 8, slice);
    registry.add("StridedSlice", 1, strided_slice);
}

/// **Slice-8**: NumPy's `start:stop:step` on `axes`, or on the first axes. The order of the inputs is data,
/// start, stop, step, axes.
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
        "start, stop, step and axes have {}, {}, {} and {} elements, but must have the same number",
        start.count,
        stop.count,
        steps.len(),
        axes.len()
    );
    ctx.axes("axes", &axes, shape.len())?;
    let mut chain = Chain::default();
    for (number, (axis, step)) in axes.iter().zip(steps).enumerate() {
        let axis = ctx.axis("axes", *axis, shape.len())?;
        ensure!(step != 0, "step[{number}] is 0, but must not be");
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
    /// As many axes as the other entries leave.
    Ellipsis(usize),
}

/// **StridedSlice-1**: NumPy's indexing. `begin`, `end` and `strides` have entries, and masks say what each
/// is for. A 1 in `begin_mask` or `end_mask` means that the bound is ignored. If several masks have a 1 for
/// an entry, an ellipsis wins over a new axis, and that over an axis that is shrunk to one element. Masks
/// that are too short go on with zeros.
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
        "begin, end and strides have {}, {} and {} elements, but must have the same number",
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
                ensure!(strides[number] != 0, "strides[{number}] is 0, but must not be");
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

/// What each entry is for, as the masks say.
fn entries(
    rank: usize,
    ellipsis: &[bool],
    new_axis: &[bool],
    shrink: &[bool],
) -> TractResult<Vec<Entry>> {
    let ellipses = ellipsis.iter().filter(|bit| **bit).count();
    ensure!(ellipses <= 1, "ellipsis_mask has {ellipses} ones, but may have one only");
    let named =
        ellipsis.iter().zip(new_axis).filter(|(ellipsis, new)| !**ellipsis && !**new).count();
    ensure!(
        named <= rank,
        "begin and end have {named} entries for axes of the data, but it has rank {rank}"
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

/// An input that has the bounds of slices.
struct Bounds {
    input: usize,
    count: usize,
    /// The bounds, if they are known.
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
                    "input {input} ({name}) has {count} elements, but their number must be known"
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
    /// Takes NumPy's `start:stop:step` along an axis. `None` is an end of the axis.
    pub(super) fn slice(
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

    /// Takes a slice along an axis, between two elements of the bounds. `None` is an end of the axis.
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

/// Where a slice begins, and how many elements it has, on an axis of this size.
///
/// If the size is known, bounds are clamped to it. If it is a symbol, an end like 512 is clamped, which cuts
/// what is too long, and a start like -2, which takes the last ones if there are so many. Other bounds are
/// not clamped: `1:-1` of `N` has the size `N-2`, and a slice that begins after the end of the axis fails
/// when the model runs.
fn window(dim: &TDim, start: Option<&TDim>, stop: Option<&TDim>, step: i64) -> (TDim, TDim) {
    let open = if step > 0 { [0, i64::MAX] } else { [i64::MAX, i64::MIN] };
    let [start, stop] = [start, stop].map(|bound| bound.map(|bound| bound.clone().simplify()));
    let start = start.unwrap_or_else(|| open[0].to_dim());
    let stop = stop.unwrap_or_else(|| open[1].to_dim());
    if let (Ok(dim), Some(start), Some(stop)) = (dim.to_usize(), start.as_i64(), stop.as_i64()) {
        let (first, len) = numpy_slice(dim, start, stop, step);
        return (first.to_dim(), len.to_dim());
    }
    // In either direction the elements are between a lower and an upper position.
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
        // The negative of a size counts from the end. (If the size is 0, it could mean both.)
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
