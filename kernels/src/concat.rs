//! Concatenation.

use tract_core::internal::*;

use crate::checks::extent;
use crate::strided::{LEAST_BYTES_OF_COPY, Run, concatenated};

/// The elements of its inputs, one input after the other along an axis, which is what tract's Concat computes.
///
/// The inputs are of one type, and have the same sizes but for those of the axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Concatenation {
    pub axis: usize,
}

impl_plain_op!(Concatenation, "Concatenation", info = |op| vec![format!("axis: {}", op.axis)]);

impl Concatenation {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let facts: TVec<TypedFact> =
            inputs.iter().map(|input| TypedFact::shape_and_dt_of(input)).collect();
        let fact = self.facts(&facts.iter().collect::<TVec<_>>())?;
        let shape = fact.shape.as_concrete().context("tensors have known sizes")?;
        // tract has a loop for a few elements of each input in turn, which goes round for no elements, too.
        let of_one = extent(&shape[self.axis..]).saturating_mul(fact.datum_type.size_of());
        let few = !shape.contains(&0) && of_one < inputs.len() * LEAST_BYTES_OF_COPY;
        let run = |input: &TValue| Run { first: 0, stride: 1, count: input.shape()[self.axis] };
        let parts = inputs.iter().map(|input| (&**input, run(input)));
        match few {
            true => Tensor::stack_tensors(self.axis, &inputs),
            false => concatenated("Concatenation", fact.datum_type, shape, self.axis, parts),
        }
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let axis = self.axis;
        let first = inputs.first().context("Concatenation: it has no inputs")?;
        ensure!(
            axis < first.rank(),
            "Concatenation: input 0 is {first:?}, but must have axis {axis}"
        );
        let mut fact = first.without_value();
        for (number, input) in inputs.iter().enumerate().skip(1) {
            let is_alike = input.datum_type == fact.datum_type
                && input.rank() == fact.rank()
                && (0..fact.rank()).all(|it| it == axis || input.shape[it] == fact.shape[it]);
            ensure!(
                is_alike,
                "Concatenation: input {number} is {input:?}, but must be of the type of {first:?}, and \
                 have its sizes but for axis {axis}"
            );
            let size = fact.shape[axis].clone() + &input.shape[axis];
            fact.shape.set(axis, size);
        }
        Ok(fact)
    }
}

#[cfg(test)]
mod tests {
    use model_cases::MANY;
    use tract_core::ops::array::TypedConcat;

    use super::*;

    #[test]
    fn it_is_what_tract_computes() -> TractResult<()> {
        for sizes in [vec![3], vec![0, 2], vec![1, 0, 5, 2], vec![0], vec![400, 1, 90]] {
            for (axis, before, after) in
                [(0, vec![], vec![7]), (1, vec![5], vec![]), (2, vec![2, 3], vec![1, 9])]
            {
                let inputs = sizes.iter().enumerate().map(|(number, size)| {
                    let shape = [&before[..], &[*size], &after].concat();
                    let count: usize = shape.iter().product();
                    let numbers: Vec<i32> =
                        (0..count).map(|it| (it + 1000 * number) as i32).collect();
                    Tensor::from_shape(&shape, &numbers)
                });
                let inputs: Vec<Tensor> = inputs.collect::<TractResult<_>>()?;
                for dt in
                    [i32::datum_type(), u8::datum_type(), f16::datum_type(), i64::datum_type()]
                {
                    let cast =
                        |input: &Tensor| Ok(input.cast_to_dt(dt)?.into_owned().into_tvalue());
                    let inputs: TVec<TValue> =
                        inputs.iter().map(cast).collect::<TractResult<_>>()?;
                    let expected =
                        TypedConcat { axis }.eval(&EvalContext::out_of_plan(), inputs.clone())?;
                    assert_eq!(Concatenation { axis }.eval(inputs)?, *expected[0]);
                }
            }
        }
        Ok(())
    }

    #[test]
    fn other_sizes_are_an_error() {
        let inputs =
            [[2, 3], [3, 3]].map(|shape| Tensor::zero::<f32>(&shape).unwrap().into_tvalue());
        let error = Concatenation { axis: 1 }.eval(inputs.into_iter().collect());
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("input 1 is 3,3,F32") && error.contains("but for axis 1"),
            "{error}"
        );
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn of_threads() -> TractResult<()> {
        use tract_core::prelude::multithread::{Executor, multithread_tract_scope};
        let inputs: TVec<TValue> = [300, 1, 77]
            .iter()
            .map(|size| {
                let numbers: Vec<f32> = (0..size * 3 * 1001).map(|it| it as f32).collect();
                Ok(Tensor::from_shape(&[3, *size, 1001], &numbers)?.into_tvalue())
            })
            .collect::<TractResult<_>>()?;
        let run = |threads| {
            multithread_tract_scope(Executor::multithread(threads), || {
                Concatenation { axis: 1 }.eval(inputs.clone())
            })
        };
        assert_eq!(run(1)?, run(3)?);
        Ok(())
    }

    /// Their sizes take neither memory nor time.
    #[test]
    fn long_and_empty_parts() -> TractResult<()> {
        let many = MANY;
        let concatenated = |axis: usize, shape: [usize; 3]| {
            let data = Tensor::zero::<f32>(&shape)?.into_tvalue();
            Concatenation { axis }.eval(tvec!(data.clone(), data))
        };
        assert_eq!(concatenated(2, [many, 1, 0])?.shape(), [many, 1, 0]);
        assert_eq!(concatenated(0, [many, 1, 0])?.shape(), [2 * many, 1, 0]);
        assert_eq!(concatenated(1, [many, 0, 3])?.shape(), [many, 0, 3]);
        Ok(())
    }
}
