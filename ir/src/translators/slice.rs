//! Slices.

mod strided;
mod window;

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use super::chain::Chain;
use crate::context::LayerContext;
use crate::operators::slice_scatter::SliceScatter;
use crate::operators::take::{DynSlice, Positions};
use crate::registry::Registry;
use strided::strided_slice;
use window::window;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Slice", 8, slice);
    registry.add("StridedSlice", 1, strided_slice).without("an open number of bounds");
    registry.add("SliceScatter", 15, slice_scatter);
}

/// **Slice-8**: NumPy's `start:stop:step` on `axes`, or on the first axes. The order of the inputs is data,
/// start, stop, step, axes. A slice backwards from before the first element is empty, as the specification says with
/// Python; OpenVINO gives the first element.
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
            "input {input} ({name}) has shape {shape}, but must have rank 0 or 1",
            shape = listed(&shape)
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
            return self.contiguous(axis, dim, first.clone(), first + len);
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
