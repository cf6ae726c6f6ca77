//! Attention: two products with a softmax in between.

use pulp::{Simd, WithSimd};
use tract_core::internal::*;

use super::contraction::{Contraction, Strides, offset};
use super::product::activation::{Activation, exp};
use super::product::{Columns, Rows, Tile, Vectors, Whole, load, store};

/// `Softmax(scale * (queries * keys) + masks) * values`, some rows of queries at a time: the scores of these stay in the
/// caches, where those of all would be the largest tensor of many a model.
///
/// The inputs are those of the scores in their order, the values, and masks of the scores' rank.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attention {
    scores: Contraction,
    scale: f32,
    /// The product of the scores, which are its left factor, and the values.
    values: Contraction,
}

// The scale of a model may be NaN: then nothing equals it, which costs nothing.
impl Eq for Attention {}

/// How many scores are computed before their product with the values.
const SCORES: usize = 1 << 15;

impl Attention {
    /// The two products as one operator, if the second one has the first one's rows, columns and batches in their
    /// places.
    pub fn new(scores: Contraction, scale: f32, values: Contraction) -> Option<Attention> {
        let mut batch: TVec<usize> = tvec!();
        for axis in &values.batch {
            batch.push(axis.left?);
        }
        let is_same = values.rows[0] == scores.rows[1]
            && batch.len() == scores.batch.len()
            && scores.batch.iter().all(|axis| batch.contains(&axis.output));
        is_same.then_some(Attention { scores, scale, values })
    }
}

/// Makes rows of scores the numerators of their softmax, and computes the denominators.
struct Exponentials<'a> {
    scores: &'a mut [f32],
    stride: usize,
    columns: usize,
    scale: f32,
    /// A row of each mask for each row of scores, in its distance.
    masks: &'a [(&'a [f32], usize)],
    sums: &'a mut [f32],
}

impl WithSimd for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self.scores.chunks_mut(self.stride).zip(self.sums);
        for (number, (row, sum)) in rows.enumerate() {
            let row = &mut row[..self.columns];
            let scale = simd.splat_f32s(self.scale);
            for part in row.chunks_mut(S::F32_LANES) {
                let scores = load(simd, part);
                store(simd, part, simd.mul_f32s(scores, scale));
            }
            for (mask, stride) in self.masks {
                let mask = &mask[number * stride..][..self.columns];
                let parts = row.chunks_mut(S::F32_LANES).zip(mask.chunks(S::F32_LANES));
                for (part, mask) in parts {
                    let scores = load(simd, part);
                    store(simd, part, simd.add_f32s(scores, load(simd, mask)));
                }
            }
            let mut greatest = simd.splat_f32s(f32::NEG_INFINITY);
            let mut vectors = row.chunks_exact(S::F32_LANES);
            for part in &mut vectors {
                greatest = simd.max_f32s(load(simd, part), greatest);
            }
            let rest = vectors.remainder().iter().copied();
            let greatest = rest.fold(simd.reduce_max_f32s(greatest), f32::max);
            // Nothing is the greatest: a query that sees no key.
            let greatest = if greatest == f32::NEG_INFINITY { f32::NAN } else { greatest };
            let greatest = simd.splat_f32s(greatest);
            let (zero, least) = (simd.splat_f32s(0.), simd.splat_f32s(-87.3));
            let mut sums = zero;
            for part in row.chunks_mut(S::F32_LANES) {
                let lanes = part.len();
                let x = simd.sub_f32s(load(simd, part), greatest);
                let power = exp(simd, x);
                let power = simd.select_f32s(simd.less_than_f32s(x, least), zero, power);
                let power = simd.select_f32s(simd.equal_f32s(x, x), power, x);
                store(simd, part, power);
                sums = match lanes == S::F32_LANES {
                    true => simd.add_f32s(sums, power),
                    false => simd.add_f32s(sums, simd.partial_load_f32s(part)),
                };
            }
            *sum = simd.reduce_sum_f32s(sums);
        }
    }
}

/// Divides rows by their numbers.
struct Quotients<'a> {
    rows: &'a mut [f32],
    stride: usize,
    columns: usize,
    divisors: &'a [f32],
}

impl WithSimd for Quotients<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (row, divisor) in self.rows.chunks_mut(self.stride).zip(self.divisors) {
            let factor = simd.splat_f32s(1. / divisor);
            for part in row[..self.columns].chunks_mut(S::F32_LANES) {
                let numbers = load(simd, part);
                store(simd, part, simd.mul_f32s(numbers, factor));
            }
        }
    }
}

impl Op for Attention {
    fn name(&self) -> StaticName {
        "OpenVinoAttention".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("scores: {:?}", self.scores), format!("values: {:?}", self.values)])
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    op_as_typed_op!();
}

impl EvalOp for Attention {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (queries, keys) = (&inputs[self.scores.left], &inputs[self.scores.right]);
        let scores = self.scores.sizes(queries.shape(), keys.shape())?;
        let sizes = self.values.sizes(&scores.shape, inputs[2].shape())?;
        let mut output = Tensor::zero::<f32>(&sizes.shape)?;
        if scores.shape.contains(&0) {
            return Ok(tvec!(output.into_tvalue()));
        }
        let plain =
            inputs.iter().map(|it| it.try_as_plain_ram()).collect::<TractResult<TVec<_>>>()?;
        let elements =
            plain.iter().map(|it| it.as_slice::<f32>()).collect::<TractResult<TVec<_>>>()?;
        let (queries, keys) = (elements[self.scores.left], elements[self.scores.right]);
        let masks = inputs[3..].iter().zip(&elements[3..]);
        let masks: TVec<(&[f32], TVec<usize>)> = masks
            .map(|(mask, elements)| Ok((*elements, mask_strides(mask.shape(), &scores.shape)?)))
            .collect::<TractResult<_>>()?;
        // The scores' batch in the order of the output's.
        let batch: TVec<&Strides> = self
            .values
            .batch
            .iter()
            .filter_map(|axis| self.scores.batch.iter().position(|it| Some(it.output) == axis.left))
            .map(|position| &scores.batch[position])
            .collect();
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let (depth, count) = (scores.depth, scores.columns);
        // Not a power of two.
        let stride = count.next_multiple_of(tile.lanes) + tile.lanes;
        let block = (SCORES / stride).clamp(tile.rows, 64) / tile.rows * tile.rows;
        let mut view = output.try_as_plain_ram_mut()?;
        sizes.for_each(view.as_slice_mut()?, |index, rows, output| {
            let place = |stride: fn(&Strides) -> usize| -> usize {
                index.iter().zip(&batch).map(|(index, axis)| index * stride(axis)).sum()
            };
            let queries = &queries[place(|axis| axis.left)..];
            let mut packed_keys = Columns::new(depth, count, tile);
            let keys = &keys[place(|axis| axis.right)..];
            packed_keys.fill(keys, scores.right, scores.is_transposed, tile);
            let mut packed_values = Columns::new(count, sizes.columns, tile);
            let values = &elements[2][offset(index, &sizes.batch, |axis| axis.right)..];
            packed_values.fill(values, sizes.right, sizes.is_transposed, tile);
            let of_batch: TVec<(&[f32], usize)> = masks
                .iter()
                .map(|(mask, strides)| {
                    let axes = index.iter().zip(&self.values.batch);
                    let place = axes.map(|(index, axis)| index * strides[axis.left.unwrap_or(0)]);
                    (&mask[place.sum::<usize>()..], strides[self.values.rows[0]])
                })
                .collect();
            let mut part = vec![0.; block.min(rows.len()) * stride];
            let mut sums = vec![0.; block];
            for first in rows.clone().step_by(block) {
                let count_rows = block.min(rows.end - first);
                let mut left =
                    Rows { rows: count_rows, depth, elements: vec![0.; count_rows * depth] };
                left.fill(&queries[first * scores.rows.left..], scores.rows.left, tile);
                let product = Whole {
                    left: &left,
                    right: &packed_keys,
                    columns: 0..count,
                    output: &mut part,
                    stride,
                    bias: None,
                    activation: Activation::Identity,
                };
                product.run(vectors);
                let of_rows: TVec<(&[f32], usize)> = of_batch
                    .iter()
                    .map(|(mask, stride)| (&mask[first * stride..], *stride))
                    .collect();
                vectors.run(Exponentials {
                    scores: &mut part[..count_rows * stride],
                    stride,
                    columns: count,
                    scale: self.scale,
                    masks: &of_rows,
                    sums: &mut sums,
                });
                let mut weights =
                    Rows { rows: count_rows, depth: count, elements: vec![0.; count_rows * count] };
                weights.fill(&part, stride, tile);
                let output = &mut output[(first - rows.start) * sizes.rows.output..];
                let product = Whole {
                    left: &weights,
                    right: &packed_values,
                    columns: 0..sizes.columns,
                    output,
                    stride: sizes.rows.output,
                    bias: None,
                    activation: Activation::Identity,
                };
                product.run(vectors);
                vectors.run(Quotients {
                    rows: output,
                    stride: sizes.rows.output,
                    columns: sizes.columns,
                    divisors: &sums[..count_rows],
                });
            }
            Ok(())
        })?;
        Ok(tvec!(output.into_tvalue()))
    }
}

/// The distances of neighbours in a mask, along each axis of the scores.
fn mask_strides(mask: &[usize], scores: &[usize]) -> TractResult<TVec<usize>> {
    let last = scores.len() - 1;
    let fits = mask.len() == scores.len()
        && mask[last] == scores[last]
        && mask.iter().zip(scores).all(|(mask, size)| mask == size || *mask == 1);
    ensure!(fits, "attention: the mask has shape {mask:?}, but the scores have {scores:?}");
    let mut strides = tvec![0; mask.len()];
    let mut stride = 1;
    for axis in (0..mask.len()).rev() {
        strides[axis] = if mask[axis] > 1 { stride } else { 0 };
        stride *= mask[axis];
    }
    Ok(strides)
}

impl TypedOp for Attention {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(inputs.len() >= 3, "Attention: got {} inputs, expected three", inputs.len());
        let (queries, keys) = (inputs[self.scores.left], inputs[self.scores.right]);
        let scores = self.scores.shape(&queries.shape, &keys.shape)?;
        Ok(tvec!(f32::fact(self.values.shape(&scores, &inputs[2].shape)?)))
    }

    as_op!();
}
