//! Slices.

use tract_core::internal::*;
use tract_core::ops::array::Slice;
use tract_core::ops::change_axes::AxisOp;
use tract_openvino::GatherRevision;

use super::chain::Chain;
use super::common::FAR;
use super::indexing;
use crate::operators::slice_scatter::SliceScatter;
use crate::operators::take::{DynSlice, Positions, numpy_slice};
use crate::registry::Registry;
use crate::translate::{LayerContext, is_size};

pub(super) fn register(registry: &mut Registry) {
    registry.add("Slice", 8, slice);
    registry.add("StridedSlice", 1, strided_slice).without("an open number of bounds");
    registry.add("SliceScatter", 15, slice_scatter);
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
    check_counts([start.count, stop.count, steps.len(), axes.len()])?;
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

/// **SliceScatter-15**: the data, with the updates in the slice that Slice-8 would give.
fn slice_scatter(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(5..=6)?;
    let shape = ctx.shape(0)?;
    let (start, stop) = (ctx.dims(2, "start")?, ctx.dims(3, "stop")?);
    let steps = ctx.integers(4, "step")?;
    let axes: TVec<i64> = match ctx.input_count() {
        6 => ctx.integers(5, "axes")?,
        _ => (0..start.len() as i64).collect(),
    };
    check_counts([start.len(), stop.len(), steps.len(), axes.len()])?;
    ctx.axes("axes", &axes, shape.len())?;
    let mut slices = tvec![];
    for (number, (axis, step)) in axes.iter().zip(steps).enumerate() {
        let axis = ctx.axis("axes", *axis, shape.len())?;
        ensure!(step != 0, "step[{number}] is 0, but must not be");
        let (first, len) = window(&shape[axis], Some(&start[number]), Some(&stop[number]), step);
        slices.push((axis, Positions::Stride { first, step, len }));
    }
    let op = SliceScatter { slices };
    let (expected, updates) = (op.updates_shape(&shape), ctx.shape(1)?);
    ctx.equal_shapes(&expected, &updates, None, "writes updates of the shape of the slice")?;
    let inputs = [ctx.input(0)?, ctx.input(1)?];
    let inputs = ctx.unify(&inputs)?;
    ctx.finish(op, &inputs)
}

/// Checks that the lists that say what a slice is have an element for each axis of it.
fn check_counts(counts: [usize; 4]) -> TractResult<()> {
    let [start, stop, step, axes] = counts;
    ensure!(
        [start, stop, step].iter().all(|count| *count == axes),
        "start, stop, step and axes have {start}, {stop}, {step} and {axes} elements, but must have the same number"
    );
    Ok(())
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
                        ensure!(
                            index.as_i64().is_none_or(|index| (-FAR..FAR).contains(&index)),
                            "begin[{number}] is {index}, which is out of range for axis {axis}"
                        );
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
/// Bounds that are numbers are clamped to the axis, so that a size which is a symbol may have any value. Only
/// an axis that a slice like `1:`, `:-1`, `:1` or `-1:` is taken of is supposed to have an element: the size is
/// simple then, and the slice fails without one when the model runs. So does a slice between sizes, like `:M`,
/// if it is not on the axis.
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
        (Edge::new(dim, &start, 0), Edge::new(dim, &stop, 0))
    } else {
        (Edge::new(dim, &stop, 1), Edge::new(dim, &start, 1))
    };
    let distance = match (&lower, &upper) {
        (Edge::Front(lower), Edge::Front(upper)) | (Edge::Back(upper), Edge::Back(lower))
            if lower >= upper =>
        {
            return (0.to_dim(), 0.to_dim());
        }
        _ => (upper.position(dim) - lower.position(dim)).simplify(),
    };
    let distance = match (&lower, &upper) {
        (Edge::Front(1..), Edge::Back(1..)) | (Edge::Back(_), Edge::Front(_)) => {
            TDim::Max(vec![distance, 0.to_dim()]).simplify()
        }
        _ => distance,
    };
    if distance.as_i64().is_some_and(|distance| distance <= 0) {
        return (0.to_dim(), 0.to_dim());
    }
    // No axis is longer than such a step.
    let len = match step.unsigned_abs().min(FAR as u64) {
        1 => distance,
        step => distance.div_ceil(step).simplify(),
    };
    let first = if step > 0 { lower.position(dim) } else { upper.position(dim) - 1 };
    (first + lower.beyond() + upper.beyond(), len)
}

/// A position on an axis.
enum Edge {
    /// Counted from the front.
    Front(i64),
    /// Counted from the back.
    Back(i64),
    /// A size, which is not clamped.
    Size(TDim),
    /// A size that is counted from the back, and `offset` more.
    SizeBack { size: TDim, offset: i64 },
}

impl Edge {
    /// The position of a bound, and `offset` more, which is 0 or 1.
    fn new(dim: &TDim, bound: &TDim, offset: i64) -> Edge {
        match bound.as_i64() {
            Some(FAR..) => Edge::Back(0),
            Some(number) if number <= -FAR => Edge::Front(0),
            Some(number @ 0..) => Edge::Front(number + offset),
            Some(number) => Edge::Back(-number - offset),
            None if bound == dim && offset == 0 => Edge::Back(0),
            None => {
                let size = (bound.clone() * -1).simplify();
                match is_size(&size) {
                    true => Edge::SizeBack { size, offset },
                    false => Edge::Size((bound.clone() + offset).simplify()),
                }
            }
        }
    }

    fn position(&self, dim: &TDim) -> TDim {
        // The same term from both ends, so that sizes of parts add up to that of the whole.
        let clamped = |number: i64| match number {
            0 | 1 => number.to_dim(),
            _ => TDim::Min(vec![number.to_dim(), dim.clone()]).simplify(),
        };
        match self {
            Edge::Front(number) => clamped(*number),
            Edge::Back(number) => (dim.clone() - clamped(*number)).simplify(),
            Edge::Size(size) => size.clone(),
            Edge::SizeBack { size, offset } => (dim.clone() - size + *offset).simplify(),
        }
    }

    /// What moves a slice behind the end of its axis, so that it fails, where the size that is counted from the
    /// back is 0: then the bound is 0 and means the front.
    fn beyond(&self) -> TDim {
        match self {
            Edge::SizeBack { size, .. } if !size.prove_strict_positive() => {
                TDim::Max(vec![1.to_dim() - size, 0.to_dim()]).simplify() * FAR
            }
            _ => 0.to_dim(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> (SymbolScope, TDim, TDim) {
        let scope = SymbolScope::default();
        for assertion in ["N>=0", "M>=0"] {
            scope.add_assertion(assertion).unwrap();
        }
        let (n, m) = (scope.sym("N").to_dim(), scope.sym("M").to_dim());
        (scope, n, m)
    }

    #[test]
    fn slices_of_any_size() {
        let (scope, n, _) = sizes();
        let bounds = [
            None,
            Some(0),
            Some(1),
            Some(2),
            Some(5),
            Some(-1),
            Some(-2),
            Some(-5),
            Some(i64::MAX),
            Some(i64::MIN),
        ];
        for (start, stop) in bounds.iter().flat_map(|start| bounds.map(|stop| (*start, stop))) {
            for step in [1, 2, -1, -3, i64::MIN] {
                let dims = [start, stop].map(|bound| bound.map(|bound: i64| bound.to_dim()));
                let (first, len) = window(&n, dims[0].as_ref(), dims[1].as_ref(), step);
                for size in 1..8 {
                    let open = if step > 0 { [0, i64::MAX] } else { [i64::MAX, i64::MIN] };
                    let expected = numpy_slice(
                        size as usize,
                        start.unwrap_or(open[0]),
                        stop.unwrap_or(open[1]),
                        step,
                    );
                    let symbols = SymbolValues::default().with(&scope.sym("N"), size);
                    let value = |dim: &TDim| dim.eval_to_i64(&symbols).unwrap();
                    let found = (value(&first), value(&len));
                    let message = format!("{start:?}:{stop:?}:{step} of {size}: {first}, {len}");
                    assert_eq!(found.1, expected.1 as i64, "{message}");
                    assert!(
                        found.1 == 0 || found.0 == expected.0 as i64,
                        "{message}: {found:?} {expected:?}"
                    );
                    assert!(step != 1 || (0..=size).contains(&found.0), "{message}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn sizes_of_common_slices() {
        let (_scope, n, m) = sizes();
        let len = |start: Option<TDim>, stop: Option<TDim>| {
            window(&n, start.as_ref(), stop.as_ref(), 1).1
        };
        let number = |number: i64| Some(number.to_dim());
        assert_eq!(len(number(0), number(i64::MAX)), n);
        assert_eq!(len(None, Some(m.clone())), m);
        assert_eq!(len(Some((m.clone() * -1).simplify()), None), m);
        assert_eq!(len(number(-1), None), 1.to_dim());
        assert_eq!(len(number(1), None), n.clone() - 1);
        assert_eq!((len(None, number(3)) + len(number(3), None)).simplify(), n);
    }

    #[test]
    fn no_elements_from_the_back() {
        let (scope, n, m) = sizes();
        let (first, _) = window(&n, Some(&(m * -1)), None, 1);
        let first = |m| {
            let symbols = SymbolValues::default().with(&scope.sym("N"), 7).with(&scope.sym("M"), m);
            first.eval_to_i64(&symbols).unwrap()
        };
        assert_eq!(first(2), 5);
        assert!(first(0) > 7);
    }
}
