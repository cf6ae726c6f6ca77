//! Rotary position embedding, which turns pairs of elements of queries and keys by angles that depend on their positions
//! ("RoFormer: Enhanced Transformer with Rotary Position Embedding", equation 34).

use tract_core::internal::*;

use crate::checks::expect_inputs;
use crate::cost;
use crate::memory::{filled_output, floats};
use crate::product::Vectors;
use crate::strided::{StridedAxis, broadcast_strides, row_begins};
use crate::threads::fill_rows;

/// `data * cos + rotated * sin`, where `rotated` has the second half of each row of `data`, negated, and then the first half.
///
/// The inputs are `data` of shape `[.., n]`, where `n` is even, and `cos` and `sin` of that shape, or with 1 in place of some of
/// its sizes but the last one, all of type F32. So is the output, which has the shape of `data`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RotaryEmbedding;

/// As ONNX names it.
const OPERATOR: &str = "RotaryEmbedding";

/// Writes some rows. `cos` and `sin` have theirs in a distance, which may be 0.
#[inline(always)]
fn rotate_rows(data: &[f32], factors: [(&[f32], usize); 2], size: usize, output: &mut [f32]) {
    let half = size / 2;
    let rows = data.chunks_exact(size).zip(output.chunks_exact_mut(size)).enumerate();
    for (number, (data, output)) in rows {
        let [cos, sin] = factors.map(|(factor, stride)| &factor[number * stride..][..size]);
        let (data, cos, sin) = (data.split_at(half), cos.split_at(half), sin.split_at(half));
        let output = output.split_at_mut(half);
        let first = output.0.iter_mut().zip(data.0).zip(data.1).zip(cos.0).zip(sin.0);
        for ((((output, own), other), cos), sin) in first {
            *output = own * cos - other * sin;
        }
        let second = output.1.iter_mut().zip(data.1).zip(data.0).zip(cos.1).zip(sin.1);
        for ((((output, own), other), cos), sin) in second {
            *output = own * cos + other * sin;
        }
    }
}

impl_plain_op!(RotaryEmbedding, OPERATOR);

/// The strides of a factor along each axis of the data.
fn factor_strides(factor: &[usize], data: &[usize]) -> TractResult<TVec<usize>> {
    let fits = factor.len() == data.len()
        && factor.last() == data.last()
        && factor.iter().zip(data).all(|(factor, size)| factor == size || *factor == 1);
    ensure!(fits, "{OPERATOR}: a factor of shape {factor:?} does not fit to data of {data:?}");
    Ok(broadcast_strides(factor))
}

impl RotaryEmbedding {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let [data, cos, sin] = expect_inputs(OPERATOR, ["data", "cos", "sin"], &inputs)?;
        let shape = data.shape();
        let (&[.., size], true) = (shape, shape.len() > 1) else {
            bail!("{OPERATOR}: the data has shape {shape:?}, but must have two axes or more")
        };
        ensure!(
            size % 2 == 0,
            "{OPERATOR}: rows have {size} elements, but must have an even number"
        );
        let [cos_strides, sin_strides] =
            [&cos, &sin].map(|factor| factor_strides(factor.shape(), shape));
        let strides = cos_strides?.into_iter().zip(sin_strides?);
        let axes: TVec<StridedAxis<_>> =
            shape.iter().zip(strides).map(|(size, (cos, sin))| (*size, [cos, sin])).collect();
        let (outer, (rows, strides)) = (&axes[..shape.len() - 2], axes[shape.len() - 2]);
        let (data, cos, sin) = (floats(&data)?, floats(&cos)?, floats(&sin)?);
        let (unit, vectors) = (rows * size, Vectors::detect());
        let fill = |output: &mut [f32]| {
            fill_rows(output, unit, cost::ELEMENT.of(data.len()), |first, output| {
                let units = data[first * unit..].chunks_exact(unit);
                let units = units.zip(output.chunks_exact_mut(unit));
                let begins = row_begins(outer, 0, first).zip(row_begins(outer, 1, first));
                for ((data, output), (in_cos, in_sin)) in units.zip(begins) {
                    let factors = [(&cos[in_cos..], strides[0]), (&sin[in_sin..], strides[1])];
                    vectors.run(
                        #[inline(always)]
                        || rotate_rows(data, factors, size, output),
                    );
                }
                Ok(())
            })
        };
        filled_output(OPERATOR, shape, fill)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let [data, _, _] = expect_inputs(OPERATOR, ["data", "cos", "sin"], inputs)?;
        Ok(data.without_value())
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::array::{Slice, TypedConcat};
    use tract_core::ops::math::{add, mul};

    use super::*;
    use crate::WithKernels;
    use crate::product::tests::with_all_vectors;

    fn tensor(shape: &[usize], from: usize) -> Tensor {
        let count: usize = shape.iter().product();
        let numbers: Vec<f32> =
            (from..from + count).map(|it| (it * 37 % 101) as f32 / 50. - 1.).collect();
        Tensor::from_shape(shape, &numbers).unwrap()
    }

    /// As models have it, with the factor that the second half is multiplied by.
    fn model(shapes: [&[usize]; 3], half: usize, negation: f32) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let names = ["data", "cos", "sin"].into_iter().zip(shapes);
        let sources: TVec<OutletId> = names
            .map(|(name, shape)| model.add_source(name, f32::fact(shape)))
            .collect::<TractResult<_>>()?;
        let axis = shapes[0].len() - 1;
        let size = shapes[0][axis];
        let slice = |from: usize, to: usize| Slice { axis, start: from.to_dim(), end: to.to_dim() };
        let first = model.wire_node("first", slice(0, half), &sources[..1])?[0];
        let second = model.wire_node("second", slice(half, size), &sources[..1])?[0];
        let minus = Tensor::from_shape(&vec![1; axis + 1], &[negation])?;
        let minus = model.add_const("minus", minus)?;
        let negated = model.wire_node("negated", mul(), &[second, minus])?[0];
        let rotated = model.wire_node("rotated", TypedConcat::new(axis), &[negated, first])?[0];
        let of_cos = model.wire_node("of_cos", mul(), &[sources[0], sources[1]])?[0];
        let of_sin = model.wire_node("of_sin", mul(), &[sources[2], rotated])?[0];
        let output = model.wire_node("output", add(), &[of_cos, of_sin])?;
        model.select_output_outlets(&output)?;
        Ok(model)
    }

    fn names(model: &TypedModel) -> Vec<String> {
        model.nodes().iter().map(|node| node.op.name().to_string()).collect()
    }

    #[test]
    fn it_is_what_models_compute() -> TractResult<()> {
        let cases: [[&[usize]; 3]; 5] = [
            [&[2, 3, 5, 8], &[2, 3, 5, 8], &[2, 3, 5, 8]],
            [&[2, 3, 5, 64], &[2, 1, 5, 64], &[1, 1, 5, 64]],
            [&[1, 14, 1, 64], &[1, 1, 1, 64], &[1, 1, 1, 64]],
            [&[3, 7, 6], &[3, 1, 6], &[1, 7, 6]],
            [&[9, 2], &[9, 2], &[1, 2]],
        ];
        for shapes in cases {
            let model = model(shapes, shapes[0].last().unwrap() / 2, -1.)?;
            let inputs: TVec<TValue> =
                shapes.iter().enumerate().map(|(from, shape)| tensor(shape, from).into()).collect();
            let expected = model.clone().into_runnable()?.run(inputs.clone())?;
            with_all_vectors(|| {
                let model = model.clone().with_kernels().unwrap().into_optimized().unwrap();
                assert_eq!(names(&model).len(), 4, "{:?}", names(&model));
                let found = model.into_runnable().unwrap().run(inputs.clone()).unwrap();
                assert_eq!(found, expected, "{shapes:?}");
            });
        }
        Ok(())
    }

    /// Parts of other sizes, another number, or a factor that the data is repeated for.
    #[test]
    fn others_stay() -> TractResult<()> {
        let shapes: [&[usize]; 3] = [&[2, 3, 8], &[2, 3, 8], &[2, 3, 8]];
        let wide: [&[usize]; 3] = [&[1, 3, 8], &[2, 3, 8], &[2, 3, 8]];
        for (shapes, half, negation) in [(shapes, 3, -1.), (shapes, 4, -2.), (wide, 4, -1.)] {
            let model = model(shapes, half, negation)?;
            let inputs: TVec<TValue> =
                shapes.iter().enumerate().map(|(from, shape)| tensor(shape, from).into()).collect();
            let expected = model.clone().into_runnable()?.run(inputs.clone())?;
            let model = model.with_kernels()?;
            assert!(!names(&model).contains(&OPERATOR.to_string()), "{shapes:?} {half} {negation}");
            assert_eq!(model.into_runnable()?.run(inputs)?, expected);
        }
        Ok(())
    }
}
