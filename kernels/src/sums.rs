//! Sums along the last axes: of all pixels, for example, which is most of a global average.

use pulp::{Simd, WithSimd};
use tract_core::internal::*;

use crate::checks::{expect_input_count, extent};
use crate::memory::unwritten_output;
use crate::product::Vectors;
use crate::threads::fill_rows;

/// The sums of the elements along the last axes, from one on, which stay with size 1. The data is of type F32.
///
/// They are rounded as vectors are added: not one element after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SumOfAxes {
    /// The first of the axes.
    pub axis: usize,
}

/// The sum of each row.
struct Sums<'a> {
    rows: &'a [f32],
    size: usize,
    output: &'a mut [f32],
}

impl WithSimd for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (sum, row) in self.output.iter_mut().zip(self.rows.chunks_exact(self.size)) {
            *sum = total::<S, false>(simd, row, 0.);
        }
    }
}

/// The sum of a row less a number, or of its `SQUARES`.
#[inline(always)]
pub(crate) fn total<S: Simd, const SQUARES: bool>(simd: S, row: &[f32], less: f32) -> f32 {
    let (less, zero) = (simd.splat_f32s(less), simd.splat_f32s(0.));
    let (vectors, rest) = S::as_simd_f32s(row);
    let (fours, others) = vectors.as_chunks::<4>();
    // Four at a time do not wait for each other.
    let mut sums = [zero; 4];
    for four in fours {
        for number in 0..4 {
            let x = simd.sub_f32s(four[number], less);
            sums[number] = with::<S, SQUARES>(simd, sums[number], x);
        }
    }
    let [a, b, c, d] = sums;
    let mut sum = simd.add_f32s(simd.add_f32s(a, b), simd.add_f32s(c, d));
    for vector in others {
        sum = with::<S, SQUARES>(simd, sum, simd.sub_f32s(*vector, less));
    }
    if !rest.is_empty() {
        let x = simd.sub_f32s(simd.partial_load_f32s(rest), less);
        // The other lanes are no elements.
        let is_element = simd.mask_between_m32s(0, rest.len() as u32).mask();
        sum = with::<S, SQUARES>(simd, sum, simd.select_f32s(is_element, x, zero));
    }
    simd.reduce_sum_f32s(sum)
}

/// A sum with one number more, or its square.
#[inline(always)]
fn with<S: Simd, const SQUARES: bool>(simd: S, sum: S::f32s, x: S::f32s) -> S::f32s {
    if SQUARES { simd.mul_add_e_f32s(x, x, sum) } else { simd.add_f32s(sum, x) }
}

impl Op for SumOfAxes {
    fn name(&self) -> StaticName {
        "SumOfAxes".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("first axis: {}", self.axis)])
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    op_as_typed_op!();
}

impl EvalOp for SumOfAxes {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = args_1!(inputs);
        let fact = self.output_facts(&[&TypedFact::shape_and_dt_of(&data)])?.remove(0);
        let shape = fact.shape.as_concrete().context("tensors have known sizes")?;
        let size = extent(&data.shape()[self.axis..]);
        // SAFETY: each element is written.
        #[allow(unsafe_code)]
        let mut output = unsafe { unwritten_output::<f32>("SumOfAxes", shape)? };
        let data = data.try_as_plain_ram()?;
        let data = data.as_slice::<f32>()?;
        let mut view = output.try_as_plain_ram_mut()?;
        let sums = view.as_slice_mut::<f32>()?;
        if size == 0 {
            sums.fill(0.);
        } else {
            fill_rows(sums, 1, data.len(), |first, output| {
                Vectors::detect().run(Sums { rows: &data[first * size..], size, output });
                TractResult::Ok(())
            })?;
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for SumOfAxes {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("SumOfAxes", inputs.len(), 1..=1)?;
        let (data, axis) = (inputs[0], self.axis);
        ensure!(
            data.datum_type == DatumType::F32 && axis < data.rank(),
            "SumOfAxes: the data is {data:?}, but must be of type F32 and have axis {axis}"
        );
        let mut fact = data.without_value();
        (axis..data.rank()).for_each(|axis| fact.shape.set(axis, 1.to_dim()));
        Ok(tvec!(fact))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::tests::{integers, with_all_vectors};

    #[test]
    fn sums_of_rows() -> TractResult<()> {
        for (shape, axis) in [
            (&[2, 3, 7, 7][..], 2),
            (&[1, 5, 13, 20], 2),
            (&[4, 65], 1),
            (&[3, 1, 2], 0),
            (&[2, 0], 1),
            (&[0, 2], 1),
            (&[17, 1], 1),
        ] {
            let numbers = integers(shape.iter().product());
            let data = Tensor::from_shape(shape, &numbers)?;
            let count: usize = shape[..axis].iter().product();
            let size: usize = shape[axis..].iter().product();
            let sum = |row: usize| numbers[row * size..][..size].iter().sum::<f32>();
            let sums: Vec<f32> = (0..count).map(sum).collect();
            let ones = vec![1; shape.len() - axis];
            let expected = Tensor::from_shape(&[&shape[..axis], &ones].concat(), &sums)?;
            with_all_vectors(|| {
                let context = EvalContext::out_of_plan();
                let found = SumOfAxes { axis }.eval(&context, tvec!(data.clone().into())).unwrap();
                assert_eq!(*found[0], expected);
            });
        }
        let error =
            SumOfAxes { axis: 2 }.eval(&EvalContext::out_of_plan(), tvec!(tensor1(&[1f32]).into()));
        assert!(error.unwrap_err().to_string().contains("must be of type F32 and have axis 2"));
        Ok(())
    }

    #[test]
    fn sums_of_long_and_empty_rows() -> TractResult<()> {
        let many = 1 << 40;
        let sum = |axis: usize, shape: &[usize]| -> TractResult<TVec<TValue>> {
            let data = Tensor::zero::<f32>(shape)?.into_tvalue();
            SumOfAxes { axis }.eval(&EvalContext::out_of_plan(), tvec!(data))
        };
        assert_eq!(*sum(0, &[many, 1, 0])?[0], Tensor::zero::<f32>(&[1, 1, 1])?);
        assert_eq!(*sum(1, &[2, 0, many])?[0], Tensor::zero::<f32>(&[2, 1, 1])?);
        assert_eq!(sum(1, &[0, 1, many])?[0].shape(), [0, 1, 1]);
        let error = sum(1, &[many, 0, 1]).unwrap_err().to_string();
        assert!(error.contains("has more than"), "{error}");
        Ok(())
    }
}
