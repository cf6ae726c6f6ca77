//! Products of single rows with a matrix whose rows are the columns of the output (GEMV).

use pulp::{Simd, WithSimd, as_arrays};
use tract_core::prelude::TractResult;

use super::Vectors;
use super::activation::{Activate, Activation};
use crate::cost;
use crate::threads::Division;

/// The products of rows, one after the other, and the transpose of a matrix: for each row of that one a sum, which begins with the bias.
pub(crate) fn multiply_row_by_row(
    data: &[f32],
    matrix: &[f32],
    depth: usize,
    bias: &[f32],
    activation: Activation,
    output: &mut [f32],
) -> TractResult<()> {
    let (vectors, division) = (Vectors::detect(), Division::of(cost::PRODUCT.of(matrix.len())));
    for (row, output) in data.chunks_exact(depth).zip(output.chunks_exact_mut(bias.len())) {
        division.fill_rows(output, 1, |first, output| {
            let weights = &matrix[first * depth..][..output.len() * depth];
            vectors.run(Gemv { row, weights, bias: &bias[first..], activation, output });
            TractResult::Ok(())
        })?;
    }
    Ok(())
}

/// The product of a row and the transpose of a matrix (GEMV): a sum for each row of that one.
///
/// A large matrix comes from memory, which takes longer than the sums. So its rows are read one after the other.
struct Gemv<'a> {
    row: &'a [f32],
    /// A row for each element of the output.
    weights: &'a [f32],
    bias: &'a [f32],
    activation: Activation,
    output: &'a mut [f32],
}

/// How many sums are begun for one: each step waits for the one before.
const SUMS: usize = 8;

impl WithSimd for Gemv<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (row, row_rest) = S::as_simd_f32s(self.row);
        let (blocks, vectors) = as_arrays::<SUMS, S::f32s>(row);
        for (number, (output, bias)) in self.output.iter_mut().zip(self.bias).enumerate() {
            let weights = &self.weights[number * self.row.len()..][..self.row.len()];
            let (weights, weights_rest) = S::as_simd_f32s(weights);
            let (weight_blocks, weight_vectors) = as_arrays::<SUMS, S::f32s>(weights);
            let mut sums = [simd.splat_f32s(0.); SUMS];
            for (block, weights) in blocks.iter().zip(weight_blocks) {
                for sum in 0..SUMS {
                    sums[sum] = simd.mul_add_e_f32s(block[sum], weights[sum], sums[sum]);
                }
            }
            let mut sum =
                sums.into_iter().reduce(|a, b| simd.add_f32s(a, b)).expect("there are sums");
            for (vector, weights) in vectors.iter().zip(weight_vectors) {
                sum = simd.mul_add_e_f32s(*vector, *weights, sum);
            }
            let (rest, weights) =
                (simd.partial_load_f32s(row_rest), simd.partial_load_f32s(weights_rest));
            sum = simd.mul_add_e_f32s(rest, weights, sum);
            *output = simd.reduce_sum_f32s(sum) + bias;
        }
        Activate { numbers: self.output, activation: self.activation }.with_simd(simd);
    }
}
