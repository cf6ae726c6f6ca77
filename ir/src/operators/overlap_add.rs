use tract_core::internal::*;

use super::scatter::Number;
use super::{check_volume, dispatch_number, set_symbols};

/// How windows slide along an axis of an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Axis {
    /// The number of elements of a window.
    pub size: usize,
    /// How far the windows are apart.
    pub step: usize,
    /// How far the elements of a window are apart.
    pub rate: usize,
    /// How far in front of the image the first window begins.
    pub before: usize,
    /// The number of windows.
    pub count: TDim,
    /// The number of elements of the image.
    pub dim: TDim,
}

/// Adds the elements of windows where they are in an image.
///
/// The input is `[batch, channels * elements of a window, windows]`, and the output `[batch, channels, height,
/// width]`. What is outside of the image is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct OverlapAdd {
    pub axes: [Axis; 2],
}

impl OverlapAdd {
    /// The number of windows.
    pub fn windows(&self) -> TDim {
        self.axes.iter().map(|axis| &axis.count).product()
    }

    fn output_shape<D: DimLike>(&self, input: &[D], image: [D; 2]) -> TractResult<TVec<D>> {
        let [batch, channels, _] = input else {
            bail!("OverlapAdd: the input has shape {input:?}, but must have rank 3")
        };
        let elements = self.axes[0].size * self.axes[1].size;
        let rest = channels.clone() % elements;
        ensure!(
            rest.is_zero(),
            "OverlapAdd: the input has {channels} channels, which are not windows of {elements} elements"
        );
        let [height, width] = image;
        Ok(tvec![batch.clone(), channels.clone() / elements, height, width])
    }
}

impl Op for OverlapAdd {
    fn name(&self) -> StaticName {
        "OverlapAdd".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.axes.iter().map(|axis| format!("{axis:?}")).collect())
    }

    op_as_typed_op!();
}

impl EvalOp for OverlapAdd {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let value = |dim: &TDim| dim.eval(ctx.symbols).to_usize();
        let [height, width] = &self.axes;
        let image = [value(&height.dim)?, value(&width.dim)?];
        let windows = [value(&height.count)?, value(&width.count)?];
        let shape = self.output_shape(input.shape(), image)?;
        ensure!(
            windows[0].checked_mul(windows[1]) == Some(input.shape()[2]),
            "OverlapAdd: there are {} windows, but the image has {windows:?}",
            input.shape()[2]
        );
        check_volume("OverlapAdd", &shape)?;
        let mut output = Tensor::zero_dt(input.datum_type(), &shape)?;
        dispatch_number!(overlap_add(input.datum_type())(self, &input, &mut output, windows))?;
        Ok(tvec!(output.into_tvalue()))
    }
}

/// The positions of one element of the windows: the number of each window that has it in the image, and where.
fn positions(
    axis: &Axis,
    element: usize,
    windows: usize,
    dim: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let (step, offset) = (axis.step, element * axis.rate);
    let before = axis.before;
    (0..windows).filter_map(move |window| {
        let at = (window * step + offset).checked_sub(before)?;
        (at < dim).then_some((window, at))
    })
}

fn overlap_add<T: Number>(
    op: &OverlapAdd,
    input: &Tensor,
    output: &mut Tensor,
    windows: [usize; 2],
) -> TractResult<()> {
    let image = [output.shape()[2], output.shape()[3]];
    let (plane, count) = (image[0] * image[1], windows[0] * windows[1]);
    let [height, width] = &op.axes;
    if plane == 0 || count == 0 {
        return Ok(());
    }
    let input = input.try_as_plain_ram()?;
    let mut output = output.try_as_plain_ram_mut()?;
    let mut rows = input.as_slice::<T>()?.chunks_exact(count);
    for plane in output.as_slice_mut::<T>()?.chunks_exact_mut(plane) {
        for (i, j) in (0..height.size).flat_map(|i| (0..width.size).map(move |j| (i, j))) {
            let Some(row) = rows.next() else { return Ok(()) };
            for (down, y) in positions(height, i, windows[0], image[0]) {
                let (from, to) = (&row[down * windows[1]..], &mut plane[y * image[1]..]);
                for (right, x) in positions(width, j, windows[1], image[1]) {
                    to[x] = to[x].add(from[right]);
                }
            }
        }
    }
    Ok(())
}

impl TypedOp for OverlapAdd {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let image = self.axes.each_ref().map(|axis| axis.dim.clone());
        let shape = self.output_shape(&inputs[0].shape.to_tvec(), image)?;
        Ok(tvec!(inputs[0].datum_type.fact(shape)))
    }

    set_symbols!(|op, values| {
        let mut op = op.clone();
        for axis in &mut op.axes {
            axis.count = axis.count.substitute_all(values)?;
            axis.dim = axis.dim.substitute_all(values)?;
        }
        op
    });

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(size: usize, step: usize, rate: usize, before: usize, count: usize, dim: usize) -> Axis {
        Axis { size, step, rate, before, count: count.to_dim(), dim: dim.to_dim() }
    }

    fn run(op: &OverlapAdd, input: Tensor) -> TractResult<Tensor> {
        let outputs = op.eval(&EvalContext::out_of_plan(), tvec!(input.into_tvalue()))?;
        Ok(outputs[0].clone().into_tensor())
    }

    #[test]
    fn what_overlaps_is_added() {
        let op = OverlapAdd { axes: [axis(1, 1, 1, 0, 1, 1), axis(3, 2, 1, 0, 2, 5)] };
        let frames = tensor3(&[[[1, 10], [2, 20], [3, 30]]]);
        assert_eq!(run(&op, frames.clone()).unwrap(), tensor4(&[[[[1, 2, 13, 20, 30]]]]));
        let padded = OverlapAdd { axes: [axis(1, 1, 1, 0, 1, 1), axis(3, 2, 1, 1, 2, 3)] };
        assert_eq!(run(&padded, frames).unwrap(), tensor4(&[[[[2, 13, 20]]]]));
    }

    #[test]
    fn windows_that_do_not_fit() {
        let op = OverlapAdd { axes: [axis(2, 1, 1, 0, 1, 2), axis(1, 1, 1, 0, 1, 1)] };
        for shape in [[1, 3, 1], [1, 2, 2]] {
            run(&op, Tensor::zero::<f32>(&shape).unwrap()).unwrap_err();
        }
        assert_eq!(run(&op, Tensor::zero::<f32>(&[0, 2, 1]).unwrap()).unwrap().shape(), [0, 1, 2, 1]);
    }
}
