use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_input_count;

use super::{check_volume, impl_op, set_symbols};

/// AdaptiveAvgPool-8 and AdaptiveMaxPool-8: pools whose windows follow from the sizes of the output.
///
/// Input: [N, C, spatial axes], one to three of them, floats. Outputs: the mean of each window; or its
/// greatest element, and the index of that within its channel. The window of element `i` of an axis is
/// `[floor(i * size / output size), ceil((i + 1) * size / output size))`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AdaptivePool {
    /// The sizes of the output's spatial axes.
    pub sizes: TVec<TDim>,
    pub reducer: Reducer,
}

/// What becomes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reducer {
    Mean,
    Max { indices: DatumType },
}

impl_op!(
    AdaptivePool,
    name = |op| match op.reducer {
        Reducer::Mean => "OpenVinoAdaptiveAvgPool",
        Reducer::Max { .. } => "OpenVinoAdaptiveMaxPool",
    },
    info = |op| vec![format!("sizes: {:?}", op.sizes)]
);

/// The windows of all positions of an axis.
fn windows(size: usize, output: usize) -> Vec<Span> {
    // In u128 nothing overflows.
    let (size, output) = (size as u128, output as u128);
    (0..output)
        .map(|i| (i * size / output) as usize..((i + 1) * size).div_ceil(output) as usize)
        .collect()
}

impl EvalOp for AdaptivePool {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let (name, spatial) = (self.name(), self.sizes.len());
        ensure!(
            input.rank() == spatial + 2 && (1..=3).contains(&spatial),
            "{name}: the data has shape {:?}, but must have rank {}, of 3 to 5",
            input.shape(),
            spatial + 2
        );
        // Three spatial axes, of which the first ones have size 1.
        let mut dims = vec![1; 3 - spatial];
        let mut sizes = vec![1; 3 - spatial];
        let mut shape: TVec<usize> = input.shape()[..2].into();
        for (size, dim) in self.sizes.iter().zip(&input.shape()[2..]) {
            let size = usize::try_from(size.eval(ctx.symbols).to_i64()?).with_context(|| {
                format!("{name}: a size of the output is {size}, but must be 0 or more")
            })?;
            ensure!(*dim > 0 || size == 0, "{name}: the data has no elements in a spatial axis");
            shape.push(size);
            sizes.push(size);
            dims.push(*dim);
        }
        let volume = check_volume(&name, DatumType::I64, &shape)?;
        // Windows may be many although there are no elements: no batches, or no channels.
        let windows_of = |(dim, size): (&usize, &usize)| match volume {
            0 => vec![],
            _ => windows(*dim, *size),
        };
        let axes: Vec<Vec<Span>> = dims.iter().zip(&sizes).map(windows_of).collect();
        let data = input.cast_to::<f32>()?;
        let data = data.try_as_plain_ram()?.as_slice::<f32>()?;
        let mut values = Vec::with_capacity(volume);
        let mut indices = vec![];
        let channel = dims.iter().product::<usize>().max(1);
        let (height, width) = (dims[1], dims[2]);
        for channel in data.chunks_exact(channel) {
            for [z, y, x] in each(&axes[0], &axes[1], &axes[2]) {
                let rows = z.flat_map(|z| y.clone().map(move |y| z * height + y));
                let at = rows.flat_map(|row| x.clone().map(move |x| row * width + x));
                match self.reducer {
                    Reducer::Mean => {
                        let (sum, count) =
                            at.fold((0., 0), |(sum, count), at| (sum + channel[at], count + 1));
                        values.push(sum / count as f32);
                    }
                    Reducer::Max { .. } => {
                        let best = at.reduce(|best, at| match channel[at] > channel[best] {
                            true => at,
                            false => best,
                        });
                        let best = best.context("a window is empty")?;
                        values.push(channel[best]);
                        indices.push(best as i64);
                    }
                }
            }
        }
        let values =
            tensor1(&values).into_shape(&shape)?.cast_to_dt(input.datum_type())?.into_owned();
        let mut outputs = tvec!(values.into_tvalue());
        if let Reducer::Max { indices: dt } = self.reducer {
            let indices = tensor1(&indices).into_shape(&shape)?.cast_to_dt(dt)?.into_owned();
            outputs.push(indices.into_tvalue());
        }
        Ok(outputs)
    }
}

type Span = std::ops::Range<usize>;

/// The windows of all positions of three axes.
fn each<'a>(z: &'a [Span], y: &'a [Span], x: &'a [Span]) -> impl Iterator<Item = [Span; 3]> + 'a {
    z.iter().flat_map(move |z| {
        y.iter().flat_map(move |y| x.iter().map(move |x| [z.clone(), y.clone(), x.clone()]))
    })
}

impl TypedOp for AdaptivePool {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let rank = self.sizes.len() + 2;
        expect_input_count(&self.name(), inputs.len(), 1..=1)?;
        ensure!(
            inputs[0].rank() == rank,
            "{}: the input has rank {}, but must have rank {rank}",
            self.name(),
            inputs[0].rank()
        );
        let mut shape = inputs[0].shape.to_tvec();
        shape[2..].clone_from_slice(&self.sizes);
        let mut facts = tvec!(inputs[0].datum_type.fact(&shape));
        if let Reducer::Max { indices } = self.reducer {
            facts.push(indices.fact(&shape));
        }
        Ok(facts)
    }

    set_symbols!(sizes);

    as_op!();
}

#[cfg(test)]
mod tests {
    use model_cases::TOO_MANY;

    use super::*;
    use crate::typed_op::fails;

    fn run(reducer: Reducer, sizes: &[usize], data: Tensor) -> TVec<TValue> {
        let sizes = sizes.iter().map(|size| size.to_dim()).collect();
        let op = AdaptivePool { sizes, reducer };
        op.eval(&EvalContext::out_of_plan(), tvec!(data.into_tvalue())).unwrap()
    }

    #[test]
    fn windows_overlap() {
        assert_eq!(windows(5, 3), [0..2, 1..4, 3..5]);
        assert_eq!(windows(2, 4), [0..1, 0..1, 1..2, 1..2]);
        assert!(windows(7, 0).is_empty());
    }

    #[test]
    fn too_large() {
        let op = AdaptivePool { sizes: tvec![TOO_MANY.to_dim()], reducer: Reducer::Mean };
        let data = tensor3(&[[[1f32]]]).into_tvalue();
        fails(
            op.eval(&EvalContext::out_of_plan(), tvec!(data)),
            &format!("shape [1, 1, {TOO_MANY}]"),
        );
    }

    #[test]
    fn means() {
        let data = tensor3(&[[[1f32, 2., 3., 4., 5.]]]);
        assert_eq!(*run(Reducer::Mean, &[3], data)[0], tensor3(&[[[1.5f32, 3., 4.5]]]));
    }

    #[test]
    fn greatest_elements_and_where_they_are() {
        let data = tensor4(&[[[[1f32, 9., 3.], [4., 5., 9.]]]]);
        let outputs = run(Reducer::Max { indices: DatumType::I64 }, &[1, 2], data);
        assert_eq!(*outputs[0], tensor4(&[[[[9f32, 9.]]]]));
        assert_eq!(*outputs[1], tensor4(&[[[[1i64, 1]]]]));
    }
}
