//! Attention: two products with a softmax in between.

use pulp::{Simd, WithSimd};
use tract_core::internal::*;

use crate::checks::expect_input_count;
use crate::contraction::{BatchAxis, Contraction, Strides, offset, strides};
use crate::memory::{Scratch, unwritten_output, zero_output};
use crate::product::activation::{Activation, exp};
use crate::product::{Columns, Output, Rows, Tile, Vectors, Whole, load, store};

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

// The scale is a normal number.
impl Eq for Attention {}

/// As OpenVINO and PyTorch name it.
const OPERATOR: &str = "ScaledDotProductAttention";

/// How many scores are computed before their product with the values.
const SCORES: usize = 1 << 15;

impl Attention {
    /// The two products as one operator, if the second one has the first one's rows, columns and batches in their
    /// places. An axis of the batch of which the scores, whose shape this is, have one may be missing.
    pub fn new(
        scores: Contraction,
        scale: f32,
        values: Contraction,
        shape: &[TDim],
    ) -> Option<Attention> {
        let has = |output: usize| values.batch.iter().any(|axis| axis.left == Some(output));
        let is_known = |axis: &BatchAxis| {
            axis.left.is_none_or(|left| scores.batch.iter().any(|it| it.output == left))
        };
        let is_same = values.rows[0] == scores.rows[1]
            && scores.batch.iter().all(|axis| has(axis.output) || shape[axis.output].is_one())
            && values.batch.iter().all(is_known);
        is_same.then_some(Attention { scores, scale, values })
    }
}

/// The softmax of rows of scores, of which each is multiplied by the scale and has masks added first.
struct SoftmaxOfRows<'a> {
    scores: &'a mut [f32],
    stride: usize,
    columns: usize,
    scale: f32,
    /// A row of each mask for each row of scores, in its distance.
    masks: &'a [(&'a [f32], usize)],
}

impl WithSimd for SoftmaxOfRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (number, row) in self.scores.chunks_mut(self.stride).enumerate() {
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
            let factor = simd.splat_f32s(1. / simd.reduce_sum_f32s(sums));
            for part in row.chunks_mut(S::F32_LANES) {
                let power = load(simd, part);
                store(simd, part, simd.mul_f32s(power, factor));
            }
        }
    }
}

impl Op for Attention {
    fn name(&self) -> StaticName {
        "Attention".into()
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
        if scores.shape.contains(&0) || sizes.shape.contains(&0) {
            return Ok(tvec!(zero_output(OPERATOR, &sizes.shape)?.into_tvalue()));
        }
        // SAFETY: all columns of all rows of each matrix are written: there are keys.
        #[allow(unsafe_code)]
        let mut output = unsafe { unwritten_output::<f32>(OPERATOR, &sizes.shape)? };
        let plain =
            inputs.iter().map(|it| it.try_as_plain_ram()).collect::<TractResult<TVec<_>>>()?;
        let elements =
            plain.iter().map(|it| it.as_slice::<f32>()).collect::<TractResult<TVec<_>>>()?;
        let (queries, keys) = (elements[self.scores.left], elements[self.scores.right]);
        let masks = inputs[3..].iter().zip(&elements[3..]);
        let masks: TVec<(&[f32], TVec<usize>)> = masks
            .map(|(mask, elements)| Ok((*elements, mask_strides(mask.shape(), &scores.shape)?)))
            .collect::<TractResult<_>>()?;
        // For each axis of the output's batch, that of the scores.
        let batch: TVec<Option<(usize, &Strides)>> = self
            .values
            .batch
            .iter()
            .map(|axis| {
                let is_it = |it: &BatchAxis| Some(it.output) == axis.left;
                let position = self.scores.batch.iter().position(is_it)?;
                Some((self.scores.batch[position].output, &scores.batch[position]))
            })
            .collect();
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let (depth, count) = (scores.depth, scores.columns);
        // An odd number of vectors: rows in a distance of a power of two would have the same places in the cache.
        let stride = (count.div_ceil(tile.lanes) | 1) * tile.lanes;
        let block = (SCORES / stride).clamp(tile.rows, 64) / tile.rows * tile.rows;
        let mut view = output.try_as_plain_ram_mut()?;
        sizes.for_each(view.as_slice_mut()?, |index, rows, output| {
            let place = |stride: &dyn Fn(usize, &Strides) -> usize| -> usize {
                let axes = index.iter().zip(&batch);
                axes.map(|(index, axis)| axis.map_or(0, |(axis, it)| index * stride(axis, it)))
                    .sum()
            };
            let queries = &queries[place(&|_, axis| axis.left)..];
            let keys = &keys[place(&|_, axis| axis.right)..];
            let packed_keys = Columns::pack_scratch(
                keys,
                scores.right_stride,
                scores.is_transposed,
                depth,
                count,
                tile,
            );
            let values = &elements[2][offset(index, &sizes.batch, |axis| axis.right)..];
            let packed_values = Columns::pack_scratch(
                values,
                sizes.right_stride,
                sizes.is_transposed,
                count,
                sizes.columns,
                tile,
            );
            let of_batch: TVec<(&[f32], usize)> = masks
                .iter()
                .map(|(mask, strides)| {
                    (&mask[place(&|axis, _| strides[axis])..], strides[self.values.rows[0]])
                })
                .collect();
            let mut part = Scratch::new(block.min(rows.len()) * stride);
            for first in rows.clone().step_by(block) {
                let count_rows = block.min(rows.end - first);
                if depth == 0 {
                    // A sum of nothing writes nothing.
                    part.fill(0.);
                }
                let stride_of_queries = scores.rows.left;
                let queries = &queries[first * stride_of_queries..];
                let left = Rows::pack_scratch(queries, stride_of_queries, count_rows, depth, tile);
                let product = Whole {
                    left: left.view(),
                    right: packed_keys.view(),
                    columns: 0..count,
                    output: Output::matrix(&mut part, stride),
                    bias: None,
                    activation: Activation::Identity,
                };
                product.run(vectors);
                let of_rows: TVec<(&[f32], usize)> = of_batch
                    .iter()
                    .map(|(mask, stride)| (&mask[first * stride..], *stride))
                    .collect();
                vectors.run(SoftmaxOfRows {
                    scores: &mut part[..count_rows * stride],
                    stride,
                    columns: count,
                    scale: self.scale,
                    masks: &of_rows,
                });
                let weights = Rows::pack_scratch(&part, stride, count_rows, count, tile);
                let output = &mut output[(first - rows.start) * sizes.rows.output..];
                let product = Whole {
                    left: weights.view(),
                    right: packed_values.view(),
                    columns: 0..sizes.columns,
                    output: Output::matrix(output, sizes.rows.output),
                    bias: None,
                    activation: Activation::Identity,
                };
                product.run(vectors);
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
    let strides = strides(mask).into_iter().zip(mask);
    Ok(strides.map(|(stride, size)| if *size > 1 { stride } else { 0 }).collect())
}

impl TypedOp for Attention {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Attention", inputs.len(), 3..=usize::MAX)?;
        let (queries, keys) = (inputs[self.scores.left], inputs[self.scores.right]);
        let scores = self.scores.shape(&queries.shape, &keys.shape)?;
        Ok(tvec!(f32::fact(self.values.shape(&scores, &inputs[2].shape)?)))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use tract_core::ops::einsum::EinSum;
    use tract_core::ops::math::{add, div, mul};
    use tract_core::ops::nn::{Softmax, SoftmaxKind};

    use super::*;
    use crate::WithKernels;
    use crate::product::tests::with_all_vectors;

    /// Two products with a scale, masks and a softmax in between, and the shapes of what is fed.
    struct Case {
        scores: &'static str,
        values: &'static str,
        queries: Vec<usize>,
        keys: Vec<usize>,
        /// The size of a value.
        width: usize,
        masks: Vec<Vec<usize>>,
    }

    impl Case {
        fn values_shape(&self) -> Vec<usize> {
            let mut shape = self.keys.clone();
            *shape.last_mut().expect("it has axes") = self.width;
            shape
        }
    }

    fn tensor(shape: &[usize], from: usize) -> Tensor {
        let count: usize = shape.iter().product();
        let numbers: Vec<f32> =
            (from..from + count).map(|it| (it * 37 % 101) as f32 / 50. - 1.).collect();
        Tensor::from_shape(shape, &numbers).unwrap()
    }

    fn product(
        model: &mut TypedModel,
        name: &str,
        axes: &str,
        inputs: [OutletId; 2],
    ) -> TractResult<OutletId> {
        let op = EinSum::new(axes.parse()?, DatumType::F32);
        Ok(model.wire_node(name, op, &inputs)?[0])
    }

    fn model(case: &Case, is_divided: bool) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let queries = model.add_source("queries", f32::fact(&case.queries))?;
        let keys = model.add_source("keys", f32::fact(&case.keys))?;
        let values = model.add_source("values", f32::fact(case.values_shape()))?;
        let scores = product(&mut model, "scores", case.scores, [queries, keys])?;
        let rank = model.outlet_fact(scores)?.rank();
        let scale = Tensor::from_shape(&vec![1; rank], &[0.5f32])?;
        let scale = model.add_const("scale", scale)?;
        let op = if is_divided { div() } else { mul() };
        let mut scores = model.wire_node("scaled", op, &[scores, scale])?[0];
        for (number, mask) in case.masks.iter().enumerate() {
            let mask = model.add_source(format!("mask_{number}"), f32::fact(mask))?;
            scores = model.wire_node(format!("masked_{number}"), add(), &[scores, mask])?[0];
        }
        let softmax = Softmax::new(tvec![rank - 1], None, SoftmaxKind::Softmax);
        let weights = model.wire_node("softmax", softmax, &[scores])?[0];
        let output = product(&mut model, "output", case.values, [weights, values])?;
        model.select_output_outlets(&[output])?;
        Ok(model)
    }

    fn cases() -> Vec<Case> {
        vec![
            Case {
                scores: "ambk,anbk->abmn",
                values: "abmk,akbn->ambn",
                queries: vec![2, 90, 3, 5],
                keys: vec![2, 70, 3, 5],
                width: 50,
                masks: vec![],
            },
            Case {
                scores: "abmk,abnk->abmn",
                values: "abmk,abkn->abmn",
                queries: vec![2, 3, 7, 16],
                keys: vec![2, 3, 33, 16],
                width: 16,
                masks: vec![vec![2, 1, 1, 33], vec![1, 3, 7, 33]],
            },
            // Queries of nothing: all keys are alike.
            Case {
                scores: "mk,nk->mn",
                values: "mk,ki->mi",
                queries: vec![130, 0],
                keys: vec![1000, 0],
                width: 3,
                masks: vec![],
            },
            // A batch of one that the result does not have, and one that the scores do not have, as axes move in models.
            Case {
                scores: "ambk,anbk->abmn",
                values: "abmk,akbn->mbn",
                queries: vec![1, 9, 2, 4],
                keys: vec![1, 6, 2, 4],
                width: 4,
                masks: vec![vec![1, 1, 1, 6]],
            },
            Case {
                scores: "ambk,anbk->bmn",
                values: "bmk,akbn->ambn",
                queries: vec![1, 9, 2, 4],
                keys: vec![1, 6, 2, 4],
                width: 4,
                masks: vec![vec![1, 9, 6]],
            },
        ]
    }

    #[test]
    fn it_is_the_softmax_between_two_products() -> TractResult<()> {
        for case in cases() {
            for is_divided in [false, true] {
                let model = model(&case, is_divided)?;
                let mut inputs: TVec<TValue> = tvec!(
                    tensor(&case.queries, 0).into(),
                    tensor(&case.keys, 5).into(),
                    tensor(&case.values_shape(), 9).into(),
                );
                for shape in &case.masks {
                    let mut mask = tensor(shape, 3);
                    let mut view = mask.try_as_plain_ram_mut()?;
                    // Some keys are hidden; from the last query all of them, if each has its own mask.
                    let elements = view.as_slice_mut::<f32>()?;
                    let keys = shape[shape.len() - 1];
                    elements.iter_mut().step_by(7).for_each(|it| *it = f32::NEG_INFINITY);
                    if elements.len() > keys * 2 {
                        let last = elements.len() - keys;
                        elements[last..].fill(f32::NEG_INFINITY);
                    }
                    inputs.push(mask.into());
                }
                let expected = model.clone().into_runnable()?.run(inputs.clone())?;
                with_all_vectors(|| {
                    let model = model.clone().with_kernels().unwrap().into_optimized().unwrap();
                    let names: Vec<_> = model.nodes().iter().map(|node| node.op.name()).collect();
                    let ours = names.iter().filter(|name| *name == "Attention").count();
                    assert_eq!((ours, names.len()), (1, 4 + case.masks.len()), "{names:?}");
                    let found = model.into_runnable().unwrap().run(inputs.clone()).unwrap();
                    close(&found[0], &expected[0]);
                });
            }
        }
        Ok(())
    }

    fn close(found: &Tensor, expected: &Tensor) {
        assert_eq!(found.shape(), expected.shape());
        let elements = |tensor: &Tensor| {
            tensor.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec()
        };
        let (found, expected) = (elements(found), elements(expected));
        for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let is_close = (found - expected).abs() < 1e-5 || (found.is_nan() && expected.is_nan());
            assert!(is_close, "{found} at {place}, expected {expected}");
        }
    }

    /// One plan for all numbers of queries and keys.
    #[test]
    fn numbers_of_queries_and_keys_may_be_symbols() -> TractResult<()> {
        let mut model = TypedModel::default();
        let (queries, keys) = (model.symbols.sym("Q").to_dim(), model.symbols.sym("K").to_dim());
        let mut outlets = tvec!();
        for (name, count) in [("queries", &queries), ("keys", &keys), ("values", &keys)] {
            let fact = f32::fact([2.to_dim(), count.clone(), 3.to_dim()]);
            outlets.push(model.add_source(name, fact)?);
        }
        let scores = product(&mut model, "scores", "bmk,bnk->bmn", [outlets[0], outlets[1]])?;
        let softmax = Softmax::new(tvec![2], None, SoftmaxKind::Softmax);
        let weights = model.wire_node("softmax", softmax, &[scores])?[0];
        let output = product(&mut model, "output", "bmk,bkn->bmn", [weights, outlets[2]])?;
        model.select_output_outlets(&[output])?;
        let as_it_is = model.clone().into_runnable()?;
        let model = model.with_kernels()?.into_optimized()?;
        assert!(model.nodes().iter().any(|node| node.op.is::<Attention>()));
        let plan = model.into_runnable()?;
        for (queries, keys) in [(1, 1), (70, 3), (3, 2000), (0, 4), (4, 0)] {
            let inputs: TVec<TValue> = [queries, keys, keys]
                .into_iter()
                .enumerate()
                .map(|(number, count)| tensor(&[2, count, 3], number * 7).into())
                .collect();
            close(&plan.run(inputs.clone())?[0], &as_it_is.run(inputs)?[0]);
        }
        Ok(())
    }

    /// Weights are at most 1, so no result is larger than all values.
    #[test]
    fn large_values_stay_finite() -> TractResult<()> {
        let case = &cases()[0];
        let plan = model(case, false)?.into_runnable_with_kernels()?;
        let values = Tensor::from_shape(
            &case.values_shape(),
            &vec![1e38f32; case.values_shape().iter().product()],
        )?;
        let zeros = |shape: &[usize]| TractResult::Ok(Tensor::zero::<f32>(shape)?.into());
        let found = plan.run(tvec!(zeros(&case.queries)?, zeros(&case.keys)?, values.into()))?;
        let view = found[0].try_as_plain_ram()?;
        assert!(view.as_slice::<f32>()?.iter().all(|it| (it / 1e38 - 1.).abs() < 1e-5));
        Ok(())
    }

    /// What is between the products must be a softmax alone, and nobody else may need the scores.
    #[test]
    fn other_chains_stay() -> TractResult<()> {
        let names = |model: TypedModel| -> TractResult<Vec<String>> {
            let model = model.with_kernels()?.into_optimized()?;
            Ok(model.nodes().iter().map(|node| node.op.name().to_string()).collect())
        };
        let case = &cases()[0];
        let mut needed = model(case, false)?;
        let scores = needed.node_by_name("scaled")?.id.into();
        let output = needed.output_outlets()?[0];
        needed.select_output_outlets(&[output, scores])?;
        assert!(!names(needed)?.contains(&"Attention".to_string()));
        let mut logarithm = model(case, false)?;
        let softmax = logarithm.node_by_name("softmax")?.id;
        let kind = SoftmaxKind::LogSoftmax;
        logarithm.node_mut(softmax).op = Box::new(Softmax::new(tvec![3], None, kind));
        assert!(!names(logarithm)?.contains(&"Attention".to_string()));
        Ok(())
    }
}
