use tract_core::internal::*;

use tract_openvino_kernels::checks::known_size;

use super::number::Number;
use super::windows::extent;
use super::{SetSymbols, check_volume, dispatch_number, impl_op, set_symbols};

/// How windows slide along an axis of an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Axis<D> {
    /// The number of elements of a window.
    pub size: usize,
    /// How far the windows are apart.
    pub step: usize,
    /// How far the elements of a window are apart.
    pub rate: usize,
    /// How far in front of the image the first window begins.
    pub before: usize,
    /// How far beyond the image a window may end.
    pub after: usize,
    /// The number of elements of the image.
    pub dim: D,
}

impl SetSymbols for Axis<TDim> {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        self.dim.set_symbols(values)
    }
}

impl Axis<TDim> {
    fn with_values(&self, symbols: &SymbolValues) -> TractResult<Axis<usize>> {
        let Axis { size, step, rate, before, after, .. } = *self;
        let dim = known_size(&self.dim.eval(symbols))?;
        Ok(Axis { size, step, rate, before, after, dim })
    }
}

impl Axis<usize> {
    /// The number of windows.
    fn count(&self) -> Option<usize> {
        let whole = self.dim.checked_add(self.before)?.checked_add(self.after)?;
        Some(whole.checked_sub(extent(self.size, self.rate)?)? / self.step + 1)
    }
}

/// Adds the elements of windows where they are in an image.
///
/// The input is `[batch, channels * elements of a window, windows]`, and the output `[batch, channels, height,
/// width]`. What is outside of the image is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct OverlapAdd {
    pub axes: [Axis<TDim>; 2],
}

impl_op!(
    OverlapAdd,
    "OpenVinoOverlapAdd",
    info = |op| op.axes.iter().map(|axis| format!("{axis:?}")).collect()
);

impl EvalOp for OverlapAdd {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let [height, width] = &self.axes;
        let axes = [height.with_values(ctx.symbols)?, width.with_values(ctx.symbols)?];
        let &[batch, channels, count] = input.shape() else {
            bail!("OverlapAdd: the input has shape {:?}, but must have rank 3", input.shape())
        };
        let elements = axes[0].size.checked_mul(axes[1].size).filter(|elements| *elements > 0);
        let elements = elements.filter(|elements| channels % elements == 0).with_context(|| {
            format!(
                "OverlapAdd: the number of channels is {channels}, but must be a multiple of {} x {}, the \
                 size of a window",
                axes[0].size,
                axes[1].size
            )
        })?;
        let windows = axes.each_ref().map(|axis| axis.count());
        let fit = windows[0].zip(windows[1]);
        let fit = fit.filter(|(down, right)| down.checked_mul(*right) == Some(count));
        let (down, right) = fit.with_context(|| {
            let [down, right] = windows.map(|count| count.unwrap_or(0));
            format!("OverlapAdd: the number of windows is {count}, but must be {down} x {right}, those of the image")
        })?;
        let shape = [batch, channels / elements, axes[0].dim, axes[1].dim];
        check_volume("OverlapAdd", input.datum_type(), &shape)?;
        let dt = input.datum_type();
        let mut output = Tensor::zero_dt(dt, &shape)?;
        dispatch_number!(overlap_add(dt)(&axes, &input, &mut output, [down, right]))?;
        Ok(tvec!(output.into_tvalue()))
    }
}

/// The positions of one element of the windows: the number of each window that has it in the image, and where.
fn positions(
    axis: &Axis<usize>,
    element: usize,
    windows: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let (step, offset) = (axis.step, element * axis.rate);
    let (before, dim) = (axis.before, axis.dim);
    (0..windows).filter_map(move |window| {
        let at = (window * step + offset).checked_sub(before)?;
        (at < dim).then_some((window, at))
    })
}

fn overlap_add<T: Number>(
    [height, width]: &[Axis<usize>; 2],
    input: &Tensor,
    output: &mut Tensor,
    windows: [usize; 2],
) -> TractResult<()> {
    let (plane, count) = (height.dim * width.dim, windows[0] * windows[1]);
    if plane == 0 || count == 0 {
        return Ok(());
    }
    let input = input.try_as_plain_ram()?;
    let mut output = output.try_as_plain_ram_mut()?;
    let mut rows = input.as_slice::<T>()?.chunks_exact(count);
    for plane in output.as_slice_mut::<T>()?.chunks_exact_mut(plane) {
        for (i, j) in (0..height.size).flat_map(|i| (0..width.size).map(move |j| (i, j))) {
            let Some(row) = rows.next() else { return Ok(()) };
            for (down, y) in positions(height, i, windows[0]) {
                let (from, to) = (&row[down * windows[1]..], &mut plane[y * width.dim..]);
                for (right, x) in positions(width, j, windows[1]) {
                    to[x] = to[x].add(from[right]);
                }
            }
        }
    }
    Ok(())
}

impl TypedOp for OverlapAdd {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = inputs[0].shape.to_tvec();
        let [batch, channels, _] = &*shape else {
            bail!("OverlapAdd: the input has shape {shape:?}, but must have rank 3")
        };
        let elements = self.axes[0].size * self.axes[1].size;
        let [height, width] = self.axes.each_ref().map(|axis| axis.dim.clone());
        let shape = [batch.clone(), channels.clone() / elements, height, width];
        Ok(tvec!(inputs[0].datum_type.fact(shape)))
    }

    set_symbols!(axes);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;

    fn axis(size: usize, step: usize, pad: usize, dim: usize) -> Axis<TDim> {
        Axis { size, step, rate: 1, before: pad, after: pad, dim: dim.to_dim() }
    }

    fn run(axes: [Axis<TDim>; 2], input: &Tensor) -> TractResult<Tensor> {
        let op = OverlapAdd { axes };
        let inputs = tvec!(input.clone().into_tvalue());
        Ok(op.eval(&EvalContext::out_of_plan(), inputs)?[0].clone().into_tensor())
    }

    #[test]
    fn what_overlaps_is_added() {
        let frames = tensor3(&[[[1, 10], [2, 20], [3, 30]]]);
        let sum = |pad, dim| run([axis(1, 1, 0, 1), axis(3, 2, pad, dim)], &frames).unwrap();
        assert_eq!(sum(0, 5), tensor4(&[[[[1, 2, 13, 20, 30]]]]));
        assert_eq!(sum(1, 3), tensor4(&[[[[2, 13, 20]]]]));
    }

    #[test]
    fn windows_that_do_not_fit() {
        let axes = [axis(2, 1, 0, 2), axis(1, 1, 0, 1)];
        for (shape, expected) in [
            ([1, 3, 1], "the number of channels is 3, but must be a multiple of 2 x 1"),
            ([1, 2, 2], "the number of windows is 2, but must be 1 x 1"),
        ] {
            fails(run(axes.clone(), &Tensor::zero::<f32>(&shape).unwrap()), expected);
        }
        let empty = Tensor::zero::<f32>(&[0, 2, 1]).unwrap();
        assert_eq!(run(axes, &empty).unwrap().shape(), [0, 1, 2, 1]);
        let expected = "the number of channels is 2, but must be a multiple of 3 x 1";
        fails(run([axis(3, 1, 0, 2), axis(1, 1, 0, 1)], &empty), expected);
    }
}
