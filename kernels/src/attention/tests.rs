use model_cases::{MANY, TOO_MANY};
use proptest::prelude::*;
use tract_core::ops::array::{MultiBroadcastTo, Slice, TypedConcat};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::{add, div, mul};
use tract_core::ops::nn::{Softmax, SoftmaxKind};
use tract_core::transform::ModelTransform;

use super::*;
use crate::isa::Bf16Isa;
use crate::isa::tests::with_all_instructions;
use crate::product::tests::{fractions, rounded_to_bf16, with_all_vectors};
use crate::{InferencePrecision, KernelsConfig, KernelsTransform, WithKernels};

/// Two products with a scale, masks, a sink and a softmax in between, and the shapes of what is fed.
struct AttentionCase {
    scores: &'static str,
    values: &'static str,
    queries: Vec<usize>,
    keys: Vec<usize>,
    /// The size of a value.
    width: usize,
    masks: Vec<Vec<usize>>,
    sink: Option<Vec<usize>>,
}

impl AttentionCase {
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

/// The softmax over the last axis, and over one more column that is cut off, if there is a sink.
fn softmax(
    model: &mut TypedModel,
    scores: OutletId,
    sink: Option<OutletId>,
) -> TractResult<OutletId> {
    let mut shape = model.outlet_fact(scores)?.shape.to_tvec();
    let last = shape.len() - 1;
    let op = Softmax::new(tvec![last], None, SoftmaxKind::Softmax);
    let Some(sink) = sink else { return Ok(model.wire_node("softmax", op, &[scores])?[0]) };
    let keys = std::mem::replace(&mut shape[last], 1.to_dim());
    let sink = model.wire_node("sinks", MultiBroadcastTo::new(shape.into()), &[sink])?[0];
    let all = model.wire_node("all", TypedConcat::new(last), &[scores, sink])?[0];
    let weights = model.wire_node("softmax", op, &[all])?[0];
    Ok(model.wire_node("kept", Slice::new(last, 0, keys), &[weights])?[0])
}

fn model(case: &AttentionCase, is_divided: bool) -> TractResult<TypedModel> {
    model_with(case, is_divided, &case.values_shape(), None)
}

/// With values of a shape, and factors along an axis of the scores, if there is one.
fn model_with(
    case: &AttentionCase,
    is_divided: bool,
    values: &[usize],
    factors: Option<usize>,
) -> TractResult<TypedModel> {
    let mut model = TypedModel::default();
    let queries = model.add_source("queries", f32::fact(&case.queries))?;
    let keys = model.add_source("keys", f32::fact(&case.keys))?;
    let values = model.add_source("values", f32::fact(values))?;
    let scores = product(&mut model, "scores", case.scores, [queries, keys])?;
    let rank = model.outlet_fact(scores)?.rank();
    let scale = Tensor::from_shape(&vec![1; rank], &[0.5f32])?;
    let scale = model.add_const("scale", scale)?;
    let op = if is_divided { div() } else { mul() };
    let mut scores = model.wire_node("scaled", op, &[scores, scale])?[0];
    if let Some(axis) = factors {
        let mut shape = vec![1.to_dim(); rank];
        shape[axis] = model.outlet_fact(scores)?.shape[axis].clone();
        let factors = model.add_source("factors", f32::fact(shape))?;
        scores = model.wire_node("multiplied", mul(), &[factors, scores])?[0];
    }
    for (number, mask) in case.masks.iter().enumerate() {
        let mask = model.add_source(format!("mask_{number}"), f32::fact(mask))?;
        scores = model.wire_node(format!("masked_{number}"), add(), &[scores, mask])?[0];
    }
    let sink = case.sink.as_ref().map(|sink| model.add_source("sink", f32::fact(sink)));
    let weights = softmax(&mut model, scores, sink.transpose()?)?;
    let output = product(&mut model, "output", case.values, [weights, values])?;
    model.select_output_outlets(&[output])?;
    Ok(model)
}

fn cases() -> Vec<AttentionCase> {
    vec![
        AttentionCase {
            scores: "ambk,anbk->abmn",
            values: "abmk,akbn->ambn",
            queries: vec![2, 90, 3, 5],
            keys: vec![2, 70, 3, 5],
            width: 50,
            masks: vec![],
            sink: None,
        },
        AttentionCase {
            scores: "abmk,abnk->abmn",
            values: "abmk,abkn->abmn",
            queries: vec![2, 3, 7, 16],
            keys: vec![2, 3, 33, 16],
            width: 16,
            masks: vec![vec![2, 1, 1, 33], vec![1, 3, 7, 33]],
            sink: None,
        },
        // One sink for each head, and all keys hidden from a query.
        AttentionCase {
            scores: "abmk,abnk->abmn",
            values: "abmk,abkn->abmn",
            queries: vec![2, 3, 7, 16],
            keys: vec![2, 3, 33, 16],
            width: 16,
            masks: vec![vec![2, 1, 1, 33], vec![1, 3, 7, 33]],
            sink: Some(vec![1, 3, 1, 1]),
        },
        // One for each query, of which there are more than a block has.
        AttentionCase {
            scores: "ambk,anbk->abmn",
            values: "abmk,akbn->ambn",
            queries: vec![2, 90, 3, 5],
            keys: vec![2, 70, 3, 5],
            width: 50,
            masks: vec![],
            sink: Some(vec![2, 3, 90, 1]),
        },
        // The queries of all heads follow each other.
        AttentionCase {
            scores: "mbk,nbk->bmn",
            values: "bmk,kbn->mbn",
            queries: vec![90, 3, 5],
            keys: vec![70, 3, 5],
            width: 50,
            masks: vec![vec![3, 1, 70]],
            sink: None,
        },
        // Many queries of one token each, whose heads have their own keys, and their own sinks.
        AttentionCase {
            scores: "bamk,ank->bamn",
            values: "bamk,akn->bamn",
            queries: vec![40, 3, 1, 5],
            keys: vec![3, 70, 5],
            width: 50,
            masks: vec![],
            sink: Some(vec![40, 3, 1, 1]),
        },
        AttentionCase {
            scores: "bamk,ank->bamn",
            values: "bamk,akn->bamn",
            queries: vec![40, 3, 1, 5],
            keys: vec![3, 70, 5],
            width: 50,
            masks: vec![],
            sink: None,
        },
        // Queries of nothing: all keys are alike.
        AttentionCase {
            scores: "mk,nk->mn",
            values: "mk,ki->mi",
            queries: vec![130, 0],
            keys: vec![1000, 0],
            width: 3,
            masks: vec![],
            sink: None,
        },
        // A batch of one that the result does not have, and one that the scores do not have, as axes move in models.
        AttentionCase {
            scores: "ambk,anbk->abmn",
            values: "abmk,akbn->mbn",
            queries: vec![1, 9, 2, 4],
            keys: vec![1, 6, 2, 4],
            width: 4,
            masks: vec![vec![1, 1, 1, 6]],
            sink: Some(vec![1, 2, 1, 1]),
        },
        AttentionCase {
            scores: "ambk,anbk->bmn",
            values: "bmk,akbn->ambn",
            queries: vec![1, 9, 2, 4],
            keys: vec![1, 6, 2, 4],
            width: 4,
            masks: vec![vec![1, 9, 6]],
            sink: None,
        },
    ]
}

#[test]
fn it_is_the_softmax_between_two_products() -> TractResult<()> {
    cases().iter().try_for_each(|case| check(case, &KernelsTransform::default(), 1e-5))
}

/// Masks, sinks and factors are those of each query, also where weights are rounded some rows at a time.
#[test]
fn all_of_it_in_bf16() -> TractResult<()> {
    let config =
        KernelsConfig { inference_precision: InferencePrecision::Bf16, ..Default::default() };
    let transform = KernelsTransform::new(config)?;
    cases().iter().try_for_each(|case| check(case, &transform, 0.03))
}

/// Compares a case with what tract computes, also with factors along each axis of the scores.
fn check(case: &AttentionCase, transform: &KernelsTransform, most: f32) -> TractResult<()> {
    let axes_of_scores = case.scores.split("->").nth(1).context("it has scores")?.len();
    let mut ways = vec![(false, None), (true, None)];
    // Along the axes of the batch, and for each query.
    ways.extend((0..axes_of_scores - 1).map(|axis| (false, Some(axis))));
    for (is_divided, factors) in ways {
        let model = model_with(case, is_divided, &case.values_shape(), factors)?;
        let mut inputs: TVec<TValue> = tvec!(
            tensor(&case.queries, 0).into(),
            tensor(&case.keys, 5).into(),
            tensor(&case.values_shape(), 9).into(),
        );
        if factors.is_some() {
            let fact = model.input_fact(3)?;
            inputs.push(tensor(fact.shape.as_concrete().context("it is known")?, 4).into());
        }
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
        inputs.extend(case.sink.as_ref().map(|sink| tensor(sink, 2).into()));
        let expected = model.clone().into_runnable()?.run(inputs.clone())?;
        with_all_vectors(|| {
            let mut model = model.clone();
            transform.transform(&mut model).unwrap();
            let model = model.into_optimized().unwrap();
            let names: Vec<_> = model.nodes().iter().map(|node| node.op.name()).collect();
            let count = |it: &[&str]| names.iter().filter(|name| it.contains(&&***name)).count();
            let ours = count(&["Attention", "Source", "MultiBroadcastTo"]);
            assert_eq!((count(&["Attention"]), ours), (1, names.len()), "{names:?}");
            let runnable = model.into_runnable().unwrap();
            let check = || {
                let found = runnable.run(inputs.clone()).unwrap();
                close_within(&found[0], &expected[0], most);
            };
            check();
            on_threads(check);
        });
    }
    Ok(())
}

/// Keys without elements have no place where those of the second sequence begin.
#[test]
fn keys_of_nothing() -> TractResult<()> {
    let case = AttentionCase {
        scores: "bmk,kbn->bmn",
        values: "bmn,bni->bmi",
        queries: vec![2, 3, 0],
        keys: vec![0, 2, 5],
        width: 4,
        masks: vec![],
        sink: Some(vec![2, 3, 1]),
    };
    let values = [2, 5, 4];
    let model = model_with(&case, false, &values, None)?;
    let inputs: TVec<TValue> = tvec!(
        tensor(&case.queries, 0).into(),
        tensor(&case.keys, 0).into(),
        tensor(&values, 9).into(),
        tensor(&[2, 3, 1], 2).into(),
    );
    let expected = model.clone().into_runnable()?.run(inputs.clone())?;
    let model = model.with_kernels()?.into_optimized()?;
    assert!(model.nodes().iter().any(|node| node.op_is::<Attention>()));
    close(&model.into_runnable()?.run(inputs)?[0], &expected[0]);
    Ok(())
}

/// Does something with executors of some threads, however little work there is for them.
#[cfg(feature = "multithread-mm")]
fn on_threads(check: impl Fn()) {
    use tract_core::prelude::multithread::{
        Executor, multithread_tract_scope, set_threading_element_threshold,
    };
    set_threading_element_threshold(0);
    for threads in [2, 3] {
        multithread_tract_scope(Executor::multithread(threads), &check);
    }
}

#[cfg(not(feature = "multithread-mm"))]
fn on_threads(_check: impl Fn()) {}

fn close(found: &Tensor, expected: &Tensor) {
    close_within(found, expected, 1e-5);
}

fn close_within(found: &Tensor, expected: &Tensor, most: f32) {
    assert_eq!(found.shape(), expected.shape());
    let elements =
        |tensor: &Tensor| tensor.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec();
    let (found, expected) = (elements(found), elements(expected));
    for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let is_close = (found - expected).abs() < most || (found.is_nan() && expected.is_nan());
        assert!(is_close, "{found} at {place}, expected {expected}");
    }
}

/// The factors of both products are rounded if the processor multiplies such numbers, and there are more than a few queries: against the
/// formula, with sums in double precision.
#[test]
fn factors_in_bf16() -> TractResult<()> {
    for (queries, keys, depth, width) in [(9, 3, 2, 1), (20, 77, 17, 33), (130, 130, 64, 100)] {
        let shapes = [[queries, depth], [keys, depth], [keys, width]];
        let [q, k, v] = shapes.map(|shape| fractions(shape[0] * shape[1]));
        let op = |axes: &str, shapes: [[usize; 2]; 2]| -> TractResult<Contraction> {
            let einsum = EinSum::new(axes.parse()?, DatumType::F32);
            let shapes = shapes.map(|shape| shape.map(|size| size.to_dim()));
            let product = Contraction::of(&einsum, [&shapes[0], &shapes[1]]);
            product.context("a product of matrices")
        };
        let of_weights = [queries, keys];
        let products =
            [op("mk,nk->mn", [shapes[0], shapes[1]])?, op("mk,kn->mn", [of_weights, shapes[2]])?];
        let dims = of_weights.map(|size| size.to_dim());
        let inputs = shapes.iter().zip([&q, &k, &v]);
        let inputs = inputs.map(|(shape, it)| Ok(Tensor::from_shape(shape, it)?.into_tvalue()));
        let inputs: TVec<TValue> = inputs.collect::<TractResult<_>>()?;
        let attend = |bf16: Option<Bf16Isa>| -> TractResult<Tensor> {
            let [scores, values] = products.clone().map(|product| product.rounded_to(bf16));
            let op = Attention::new(scores, 0.5, values, [false; 2], &dims)
                .context("it is attention")?;
            op.eval(inputs.clone())
        };
        let [q, k, v] = [q, k, v].map(|it| it.into_iter().map(rounded_to_bf16).collect::<Vec<_>>());
        let mut expected = vec![];
        for query in q.chunks(depth) {
            let score = |key: &[f32]| {
                let terms = query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b));
                0.5 * terms.sum::<f64>()
            };
            let scores: Vec<f64> = k.chunks(depth).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights = scores.iter().map(|score| (score - most).exp());
            let sum: f64 = weights.clone().sum();
            let weights: Vec<f32> =
                weights.map(|weight| rounded_to_bf16((weight / sum) as f32)).collect();
            expected.extend((0..width).map(|column| {
                let terms = weights.iter().zip(v[column..].iter().step_by(width));
                terms.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
            }));
        }
        let expected = Tensor::from_shape(&[queries, width], &expected)?;
        with_all_instructions(|instructions| {
            let bf16 = instructions.bf16();
            let found = attend(bf16).unwrap();
            match bf16 {
                // A weight may come to lie on the other side of a half: few do.
                Some(_) => {
                    close_within(&found, &expected, 0.04);
                    let pairs = floats(&found).unwrap().iter().zip(floats(&expected).unwrap());
                    let errors: f32 = pairs.map(|(a, b)| (a - b).abs()).sum();
                    assert!(errors <= 1e-3 * expected.len() as f32, "{errors}");
                }
                None => assert_eq!(found, attend(None).unwrap()),
            }
            if bf16.is_some() {
                assert_ne!(found, attend(None).unwrap());
            }
        });
    }
    Ok(())
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

/// Scores of rows of 70 keys and more. A query sees the keys up to its own position, and those before the first query.
fn causal(queries: usize, keys: usize) -> Tensor {
    let mask = tract_ndarray::Array4::from_shape_fn((1, 1, queries, keys), |(.., query, key)| {
        if key <= query + keys - queries { 0. } else { f32::NEG_INFINITY }
    });
    mask.into_tensor()
}

/// Where a mask hides the last keys of all queries, as that of a batch with padding does, the others count.
#[test]
fn last_keys_are_hidden() -> TractResult<()> {
    for (keys, seen) in [(65, 64), (66, 60), (130, 64), (130, 128), (200, 50), (200, 129)] {
        for queries in [1, 5, 70] {
            let case = AttentionCase {
                scores: "abmk,abnk->abmn",
                values: "abmk,abkn->abmn",
                queries: vec![2, 3, queries, 16],
                keys: vec![2, 3, keys, 16],
                width: 20,
                masks: vec![vec![1, 1, 1, keys]],
                sink: None,
            };
            let model = model(&case, false)?;
            let mask: Vec<f32> =
                (0..keys).map(|key| if key < seen { 0.5 } else { f32::NEG_INFINITY }).collect();
            let inputs: TVec<TValue> = tvec!(
                tensor(&case.queries, 0).into(),
                tensor(&case.keys, 5).into(),
                tensor(&case.values_shape(), 9).into(),
                Tensor::from_shape(&[1, 1, 1, keys], &mask)?.into(),
            );
            let expected = model.clone().into_runnable()?.run(inputs.clone())?;
            with_all_vectors(|| {
                let model = model.clone().with_kernels().unwrap().into_optimized().unwrap();
                assert!(model.nodes().iter().any(|node| node.op_is::<Attention>()));
                let runnable = model.into_runnable().unwrap();
                let check = || close(&runnable.run(inputs.clone()).unwrap()[0], &expected[0]);
                check();
                on_threads(check);
            });
        }
    }
    Ok(())
}

/// Finite masks hide keys where scores are small beside them, and only there: each query sees the keys up to its own, or one that the
/// mask lowers if its score is greater by more than that.
#[test]
fn finite_masks_hide_keys() -> TractResult<()> {
    let (queries, keys, depth) = (70, 130, 16);
    for precision in [InferencePrecision::F32, InferencePrecision::Bf16] {
        let transform = KernelsTransform::new(KernelsConfig {
            inference_precision: precision,
            ..Default::default()
        })?;
        for (low, factor) in [(-65504f32, 1f32), (-65504., 1e5), (-1e4, 64.), (f32::MIN, 1e5)] {
            let case = AttentionCase {
                scores: "amk,ank->amn",
                values: "amk,akn->amn",
                queries: vec![3, queries, depth],
                keys: vec![3, keys, depth],
                width: 20,
                masks: vec![vec![1, queries, keys]],
                sink: None,
            };
            let model = model(&case, false)?;
            let mask =
                tract_ndarray::Array3::from_shape_fn((1, queries, keys), |(_, query, key)| {
                    if key <= query { 0. } else { low }
                });
            // Products are positive, those of every other number 0. The score of the last key is the greatest one by much.
            let sign = |number: usize| if number % 4 == 1 { -1. } else { 1. };
            let of_queries =
                tract_ndarray::Array3::from_shape_fn((3, queries, depth), |(.., it)| {
                    sign(it) * factor / 8.
                });
            let of_keys = tract_ndarray::Array3::from_shape_fn((3, keys, depth), |(_, key, it)| {
                let size = if key == keys - 1 { 2. } else { (key % 3) as f32 / 4. };
                if it % 2 == 1 { sign(it) * size } else { 0. }
            });
            let inputs: TVec<TValue> = tvec!(
                of_queries.into_tensor().into(),
                of_keys.into_tensor().into(),
                tensor(&case.values_shape(), 9).into(),
                mask.into_tensor().into(),
            );
            let expected = model.clone().into_runnable()?.run(inputs.clone())?;
            with_all_vectors(|| {
                let mut model = model.clone();
                transform.transform(&mut model).unwrap();
                let model = model.into_optimized().unwrap();
                assert!(model.nodes().iter().any(|node| node.op_is::<Attention>()));
                let runnable = model.into_runnable().unwrap();
                let most = if precision == InferencePrecision::F32 { 1e-5 } else { 0.02 };
                let check =
                    || close_within(&runnable.run(inputs.clone()).unwrap()[0], &expected[0], most);
                check();
                on_threads(check);
            });
        }
    }
    Ok(())
}

/// Weights of some scores beside a sink, as its definition has them.
#[test]
fn sinks_that_are_no_numbers() -> TractResult<()> {
    let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
    let rows = [[0.25, -0.5, 1.], [low, 2., low], [low; 3], [-200., -100., -90.], [high, 0., 0.]];
    for row in rows {
        for sink in [0., -3., 100., 1e30, -1e30, low, high, f32::NAN] {
            let all = [row[0], row[1], row[2], sink].map(f64::from);
            let most = all.into_iter().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = all.iter().map(|score| (score - most).exp()).sum();
            let expected = row.map(|score| ((f64::from(score) - most).exp() / sum) as f32);
            let mut model = TypedModel::default();
            let mut source = |name: &str, shape: &[usize]| model.add_source(name, f32::fact(shape));
            let [queries, keys, mask] = [("queries", [1, 2]), ("keys", [3, 2]), ("mask", [1, 3])]
                .map(|(name, shape)| source(name, &shape));
            let (values, sinks) = (source("values", &[3, 3]), source("sink", &[1, 1])?);
            let scores = product(&mut model, "scores", "mk,nk->mn", [queries?, keys?])?;
            let scores = model.wire_node("masked", add(), &[scores, mask?])?[0];
            let weights = softmax(&mut model, scores, Some(sinks))?;
            let output = product(&mut model, "output", "mk,kn->mn", [weights, values?])?;
            model.select_output_outlets(&[output])?;
            // Each weight alone.
            let unit = Tensor::from_shape(&[3, 3], &[1f32, 0., 0., 0., 1., 0., 0., 0., 1.])?;
            let inputs: TVec<TValue> = tvec!(
                Tensor::zero::<f32>(&[1, 2])?.into(),
                Tensor::zero::<f32>(&[3, 2])?.into(),
                Tensor::from_shape(&[1, 3], &row)?.into(),
                unit.into(),
                Tensor::from_shape(&[1, 1], &[sink])?.into(),
            );
            with_all_vectors(|| {
                let model = model.clone().with_kernels().unwrap().into_optimized().unwrap();
                assert!(model.nodes().iter().any(|node| node.op_is::<Attention>()));
                let found = model.into_runnable().unwrap().run(inputs.clone()).unwrap();
                close(&found[0], &Tensor::from_shape(&[1, 3], &expected).unwrap());
            });
        }
    }
    Ok(())
}

/// A sink of another shape than its fact, and what is concatenated or cut off in another way.
#[test]
fn what_is_no_sink() -> TractResult<()> {
    let names = |model: TypedModel| -> TractResult<Vec<String>> {
        let model = model.with_kernels()?.into_optimized()?;
        Ok(model.nodes().iter().map(|node| node.op.name().to_string()).collect())
    };
    let case = &cases()[2];
    let original = model(case, false)?;
    assert!(names(original.clone())?.contains(&"Attention".to_string()));
    // The first key has no weight, instead of the sink.
    let mut shifted = original.clone();
    let kept = shifted.node_by_name("kept")?.id;
    shifted.node_mut(kept).op = Box::new(Slice::new(3, 1, 34));
    assert!(!names(shifted)?.contains(&"Attention".to_string()));
    // The sink comes first.
    let mut first = original.clone();
    let all = first.node_by_name("all")?.id;
    let inputs: Vec<OutletId> = first.node(all).inputs.iter().rev().copied().collect();
    for (slot, input) in inputs.into_iter().enumerate() {
        first.add_edge(input, InletId::new(all, slot))?;
    }
    assert!(!names(first)?.contains(&"Attention".to_string()));
    Ok(())
}

#[test]
fn what_does_not_fit_the_scores() -> TractResult<()> {
    let case = &cases()[2];
    let model = model(case, false)?.with_kernels()?;
    let (attention, _) = model
        .nodes()
        .iter()
        .find_map(|node| Some((node.op_as::<Attention>()?, node)))
        .context("it is attention")?;
    for (slot, shape, expected) in [
        (3, vec![1, 3, 1, 2], "input 3 is the sink"),
        (3, vec![1, 3, 2, 1], "must have 1 elements in the last axis"),
        (3, vec![3, 1, 1], "or one in each other axis"),
        (4, vec![2, 1, 1, 1], "input 4 is the mask"),
        (5, vec![1, 3, 6, 33], "must have 33 elements in the last axis"),
    ] {
        let mut shapes = vec![case.queries.clone(), case.keys.clone(), case.values_shape()];
        shapes.extend([vec![1, 3, 1, 1], vec![2, 1, 1, 33], vec![1, 3, 7, 33]]);
        shapes[slot] = shape;
        let inputs = shapes.iter().map(|shape| tensor(shape, 0).into_tvalue()).collect();
        let error = attention.eval(inputs).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(expected), "{error}");
    }
    Ok(())
}

/// Heads of which some have the same keys, as tract leaves them when a model repeats the keys.
#[test]
fn heads_share_keys() -> TractResult<()> {
    let (groups, heads, depth) = (2, 6, 16);
    for (queries, keys) in [(1, 1), (1, 200), (5, 40), (130, 300)] {
        for (mask_heads, has_sink) in [(1, false), (heads, false), (1, true), (heads, true)] {
            let mut model = TypedModel::default();
            let symbols = ["Q", "K"].map(|name| model.symbols.sym(name).to_dim());
            let mut source = |name: &str, batch: usize, heads: usize, rest: [TDim; 2]| {
                let [rows, columns] = rest;
                let fact = f32::fact([batch.to_dim(), heads.to_dim(), rows, columns]);
                model.add_source(name, fact)
            };
            let [of_rows, of_columns] = symbols;
            let of_queries = source("queries", 2, heads, [of_rows.clone(), depth.to_dim()])?;
            let of_keys = source("keys", 2, groups, [of_columns.clone(), depth.to_dim()]);
            let of_values = source("values", 2, groups, [of_columns.clone(), depth.to_dim()]);
            let mask = source("mask", 1, mask_heads, [of_rows, of_columns])?;
            let sink = has_sink.then(|| source("sink", 1, heads, [1.to_dim(), 1.to_dim()]));
            let merged = tvec!(heads.to_dim());
            let parted = tvec!(groups.to_dim(), (heads / groups).to_dim());
            let part = AxisOp::Reshape(1, merged.clone(), parted.clone());
            let merge = AxisOp::Reshape(1, parted, merged);
            let parts = model.wire_node("parts", part.clone(), &[of_queries])?[0];
            let scores = product(&mut model, "scores", "bgrqd,bgkd->bgrqk", [parts, of_keys?])?;
            let scale = model.add_const("scale", Tensor::from_shape(&[1; 5], &[0.25f32])?)?;
            let scores = model.wire_node("scaled", mul(), &[scores, scale])?[0];
            let scores = model.wire_node("merged", merge.clone(), &[scores])?[0];
            let scores = model.wire_node("masked", add(), &[scores, mask])?[0];
            let weights = softmax(&mut model, scores, sink.transpose()?)?;
            let weights = model.wire_node("weights", part, &[weights])?[0];
            let output =
                product(&mut model, "product", "bgrqk,bgkd->bgrqd", [weights, of_values?])?;
            let output = model.wire_node("output", merge, &[output])?;
            model.select_output_outlets(&output)?;
            let mask = causal(queries, keys).broadcast_to_shape(&[1, mask_heads, queries, keys])?;
            let mut inputs: TVec<TValue> = tvec!(
                tensor(&[2, heads, queries, depth], 0).into(),
                tensor(&[2, groups, keys, depth], 7).into(),
                tensor(&[2, groups, keys, depth], 9).into(),
                mask.into(),
            );
            if has_sink {
                inputs.push(tensor(&[1, heads, 1, 1], 2).into());
            }
            let expected = model.clone().into_runnable()?.run(inputs.clone())?;
            with_all_vectors(|| {
                let model = model.clone().with_kernels().unwrap().into_optimized().unwrap();
                let names: Vec<_> = model.nodes().iter().map(|node| node.op.name()).collect();
                assert!(names.contains(&"Attention".into()), "{names:?}");
                assert!(!names.contains(&"Softmax".into()), "{names:?}");
                let found = model.into_runnable().unwrap().run(inputs.clone()).unwrap();
                close(&found[0], &expected[0]);
            });
        }
    }
    Ok(())
}

/// Where axes are regrouped in another way, queries or keys move among the heads.
#[test]
fn other_groups_stay() -> TractResult<()> {
    let mut model = TypedModel::default();
    let inputs =
        ["queries", "keys", "values"].map(|name| model.add_source(name, f32::fact([4, 6, 8])));
    let [queries, keys, values] = inputs;
    let scores = product(&mut model, "scores", "hqd,hkd->hqk", [queries?, keys?])?;
    let (parted, merged) = (tvec!(4.to_dim(), 6.to_dim()), tvec!(24.to_dim()));
    let merge = AxisOp::Reshape(0, parted.clone(), merged.clone());
    let merged = {
        let part = AxisOp::Reshape(0, merged, parted);
        let scores = model.wire_node("merged", merge, &[scores])?[0];
        let softmax = Softmax::new(tvec![1], None, SoftmaxKind::Softmax);
        let weights = model.wire_node("softmax", softmax, &[scores])?[0];
        model.wire_node("parted", part, &[weights])?[0]
    };
    let output = product(&mut model, "output", "hqk,hkd->hqd", [merged, values?])?;
    model.select_output_outlets(&[output])?;
    let inputs: TVec<TValue> = (0..3).map(|from| tensor(&[4, 6, 8], from).into()).collect();
    let expected = model.clone().into_runnable()?.run(inputs.clone())?;
    close(&model.into_runnable_with_kernels()?.run(inputs)?[0], &expected[0]);
    Ok(())
}

/// What a third input of `AppendToPages` says, as a tensor has it: `[batch, heads, positions, elements]`.
fn gathered(tensor: &Tensor, batch: &[i64]) -> Tensor {
    let view =
        tensor.to_plain_array_view::<f32>().unwrap().into_dimensionality::<tract_ndarray::Ix4>();
    let view = view.unwrap();
    let [batches, heads, positions, elements] = *view.shape() else { panic!("four axes") };
    let batches = batches as i64;
    let shape = (batch.len(), heads, positions, elements);
    let gathered = tract_ndarray::Array4::from_shape_fn(shape, |(row, head, position, element)| {
        let source = if batch[row] < 0 { batch[row] + batches } else { batch[row] };
        match (0..batches).contains(&source) {
            true => view[[source as usize, head, position, element]],
            false => 0.,
        }
    });
    gathered.into_tensor()
}

/// How many positions a run brings, and what continues what.
fn runs() -> impl Strategy<Value = Vec<(usize, Option<Vec<i64>>)>> {
    let beams = prop::option::of(prop::collection::vec(-4i64..4, 1..4));
    // There are 4 before the first run: some of these fill a page, or all but one of its places.
    let counts = prop_oneof![0usize..70, Just(27), Just(28), Just(32)];
    prop::collection::vec((counts, beams), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Runs with all their positions in pages are those with tensors.
    #[test]
    fn pages_are_tensors(
        runs in runs(),
        depth in 2usize..20,
        width in 1usize..70,
        has_sink in any::<bool>(),
    ) {
        for precision in [CachePrecision::F32, CachePrecision::U8] {
            with_all_vectors(|| {
                for bf16 in [None, Instructions::detect().bf16()] {
                    pages_and_tensors(&runs, [depth, width], has_sink, precision, bf16).unwrap();
                }
            });
        }
    }
}

/// What pages of this precision have of a tensor: in U8, the next of 256 numbers between the least and the greatest one of a row.
fn kept(tensor: &Tensor, precision: CachePrecision) -> Tensor {
    let mut kept = tensor.clone();
    let width = *tensor.shape().last().unwrap();
    let mut view = kept.try_as_plain_ram_mut().unwrap();
    if precision == CachePrecision::U8 {
        for row in view.as_slice_mut::<f32>().unwrap().chunks_mut(width) {
            let least = row.iter().copied().fold(f32::MAX, f32::min);
            let greatest = row.iter().copied().fold(f32::MIN, f32::max);
            let step = (greatest - least) / 255.;
            for number in row.iter_mut().filter(|_| step > 0.) {
                *number = least + step * ((*number - least) / step).round();
            }
        }
    }
    kept
}

fn pages_and_tensors(
    runs: &[(usize, Option<Vec<i64>>)],
    [depth, width]: [usize; 2],
    has_sink: bool,
    precision: CachePrecision,
    bf16: Option<Bf16Isa>,
) -> TractResult<()> {
    let op = |axes: &str, shapes: [&[TDim]; 2]| -> TractResult<Contraction> {
        let einsum = EinSum::new(axes.parse()?, DatumType::F32);
        let product = Contraction::of(&einsum, shapes).context("a product of matrices")?;
        Ok(product.rounded_to(bf16))
    };
    // Numbers of codes are rounded before they are in bf16, and may come to lie on the other side of its halves.
    let most = if bf16.is_some() && precision == CachePrecision::U8 { 0.01 } else { 1e-5 };
    let dims = |sizes: &[usize]| sizes.iter().map(|size| size.to_dim()).collect::<TVec<TDim>>();
    let of_scores = dims(&[2, 3, 5, 7, 9]);
    let of_queries = dims(&[2, 3, 5, 7, depth]);
    let scores = op("bgrqd,bgkd->bgrqk", [&of_queries, &dims(&[2, 3, 9, depth])])?;
    let values = op("bgrqk,bgkd->bgrqd", [&of_scores, &dims(&[2, 3, 9, width])])?;
    let attention = Attention::new(scores, 0.5, values, [has_sink, false], &of_scores);
    let attention = attention.context("it is attention")?;
    let on_pages = attention.on_pages(4).context("keys and values are in rows")?;
    let sizes = [(PagedFactor::Keys, depth), (PagedFactor::Values, width)]
        .map(|(factor, size)| (PageFormat { factor, precision }, size));
    let mut batches = 2;
    let mut plain: Vec<Tensor> = vec![];
    let mut paged: Vec<Tensor> = vec![];
    for (format, size) in sizes {
        let before = tensor(&[batches, 3, 4, size], 1);
        plain.push(kept(&before, precision));
        paged.push(format.pack(&before)?);
    }
    for (number, (count, beams)) in runs.iter().enumerate() {
        let before = paged.clone();
        let as_before = [&plain[0], &plain[1]].map(Tensor::clone);
        for (place, (format, size)) in sizes.into_iter().enumerate() {
            let rows = beams.as_ref().map_or(batches, Vec::len);
            let new = tensor(&[rows, 3, *count, size], number + place);
            let mut inputs = tvec!(paged[place].clone().into_tvalue(), new.clone().into_tvalue());
            if let Some(beams) = beams {
                inputs.push(tensor1(beams).cast_to::<i32>()?.into_owned().into_tvalue());
                plain[place] = gathered(&plain[place], beams);
            }
            let appended =
                AppendToPages { format }.eval(&EvalContext::out_of_plan(), inputs)?.remove(0);
            paged[place] = appended.into_tensor();
            plain[place] =
                Tensor::stack_tensors(2, &[plain[place].clone(), kept(&new, precision)])?;
            assert_eq!(paged[place].shape(), plain[place].shape());
        }
        // What was before is as it was, for whoever still has it.
        for (paged, plain) in [(&before, &as_before[..]), (&paged, &plain[..])] {
            for queries in [1, 7, 9] {
                let queries = tensor(&[plain[0].shape()[0], 3, 5, queries, depth], 3);
                let run = |op: &Attention, [keys, values]: [&Tensor; 2]| {
                    let sink = tensor(&[1, 3, 5, 1, 1], 2);
                    let [rows, columns] = [queries.shape()[3], keys.shape()[2]];
                    let mask = tract_ndarray::Array5::from_shape_fn(
                        (1, 1, 1, rows, columns),
                        |(.., key)| if key <= columns / 2 { 0. } else { -65504f32 },
                    );
                    let mask = mask.into_tensor();
                    let inputs = [&queries, keys, values].into_iter();
                    let inputs = inputs.chain(has_sink.then_some(&sink)).chain([&mask]);
                    let inputs = inputs.map(|it| it.clone().into_tvalue()).collect();
                    op.eval(inputs)
                };
                let expected = run(&attention, [&plain[0], &plain[1]])?;
                close_within(&run(&on_pages, [&paged[0], &paged[1]])?, &expected, most);
            }
        }
        batches = plain[0].shape()[0];
    }
    Ok(())
}

/// Whole pages are there once, however many have them.
#[test]
fn pages_are_shared() -> TractResult<()> {
    let tile = Tile::of(Vectors::detect());
    let format = PageFormat { factor: PagedFactor::Keys, precision: CachePrecision::F32 };
    let room = PageLayout { format, width: 4, tile }.room();
    let first = format.pack(&tensor(&[1, 1, room + 3, 4], 0))?.into_tvalue();
    let append = |before: &TValue, beams: &[i64]| {
        let new = tensor(&[beams.len(), 1, 1, 4], 5).into_tvalue();
        let inputs = tvec!(before.clone(), new, tensor1(beams).into_tvalue());
        AppendToPages { format }.eval(&EvalContext::out_of_plan(), inputs)
    };
    let second = append(&first, &[0, 0])?.remove(0);
    let pages = |tensor: &TValue, sequence: usize, page: usize| {
        let pages = Pages::of(tensor, tile).unwrap();
        let page = &pages.sequence(sequence * tensor.shape()[2] * 4)[page];
        let PageContents::Numbers(panels) = page.contents(pages.layout) else {
            panic!("it has numbers")
        };
        panels.as_ptr()
    };
    for sequence in [0, 1] {
        assert_eq!(pages(&first, 0, 0), pages(&second, sequence, 0));
        assert_ne!(pages(&first, 0, 1), pages(&second, sequence, 1));
    }
    Ok(())
}

/// A run without sequences moves the positions on, for those of the next run.
#[test]
fn after_no_sequences() -> TractResult<()> {
    for precision in [CachePrecision::F32, CachePrecision::U8] {
        let format = PageFormat { factor: PagedFactor::Keys, precision };
        let mut paged = format.pack(&tensor(&[0, 2, 1, 4], 0))?.into_tvalue();
        let mut plain = tensor(&[0, 2, 1, 4], 0);
        for (beams, count) in
            [(vec![], 40), (vec![0i64, -1], 3), (vec![1], 30), (vec![], 1), (vec![0], 2)]
        {
            let new = tensor(&[beams.len(), 2, count, 4], count);
            let inputs = tvec!(paged, new.clone().into_tvalue(), tensor1(&beams).into_tvalue());
            paged = AppendToPages { format }.eval(&EvalContext::out_of_plan(), inputs)?.remove(0);
            plain = Tensor::stack_tensors(2, &[gathered(&plain, &beams), kept(&new, precision)])?;
            assert_eq!(paged.shape(), plain.shape());
            let op = |axes: &str, shapes: [&[TDim]; 2]| -> TractResult<Contraction> {
                let einsum = EinSum::new(axes.parse()?, DatumType::F32);
                Contraction::of(&einsum, shapes).context("a product of matrices")
            };
            let dims = |sizes: [usize; 4]| sizes.map(|size| size.to_dim());
            let some = dims([2, 2, 3, 4]);
            let (scores, of_scores) = (op("bhqd,bhkd->bhqk", [&some, &some])?, dims([2, 2, 3, 3]));
            let values = op("bhqk,bhkd->bhqd", [&of_scores, &some])?;
            let attention = Attention::new(scores, 0.5, values, [false; 2], &of_scores);
            let attention = attention.context("it is attention")?;
            let on_pages = attention.on_pages(4).context("keys and values are in rows")?;
            let queries = tensor(&[beams.len(), 2, 3, 4], 1).into_tvalue();
            let values = PageFormat { factor: PagedFactor::Values, precision: CachePrecision::F32 };
            let run = |op: &Attention, [keys, values]: [TValue; 2]| {
                op.eval(tvec!(queries.clone(), keys, values))
            };
            let found = run(&on_pages, [paged.clone(), values.pack(&plain)?.into_tvalue()])?;
            let plain = plain.clone().into_tvalue();
            close(&found, &run(&attention, [plain.clone(), plain])?);
        }
    }
    Ok(())
}

/// Sizes of what has no elements take neither memory nor time.
#[test]
fn long_and_empty_pages() -> TractResult<()> {
    let many = MANY;
    for precision in [CachePrecision::F32, CachePrecision::U8] {
        let format = PageFormat { factor: PagedFactor::Values, precision };
        let empty = |shape: &[usize]| TractResult::Ok(Tensor::zero::<f32>(shape)?.into_tvalue());
        let append = |before: &[usize], new: &[usize], beams: Option<&[i64]>| {
            let mut inputs = tvec!(format.pack(&*empty(before)?)?.into_tvalue(), empty(new)?);
            inputs.extend(beams.map(|beams| tensor1(beams).into_tvalue()));
            AppendToPages { format }.eval(&EvalContext::out_of_plan(), inputs)
        };
        for shape in [
            [many, 1, 0, 64],
            [1, many, 0, 64],
            [0, 1, many, 64],
            [0, many, 0, 64],
            [0, 0, many, 64],
        ] {
            let found = append(&shape, &shape, None)?;
            let expected = shape[2] * 2;
            assert_eq!(found[0].shape(), [shape[0], shape[1], expected, shape[3]]);
        }
        // One of many.
        let found = append(&[many, 1, 0, 64], &[2, 1, 3, 64], Some(&[5, i64::MIN]))?;
        assert_eq!(found[0].shape(), [2, 1, 3, 64]);
        let text = |result: TractResult<TVec<TValue>>| result.unwrap_err().to_string();
        let error = text(append(&[0, 1, TOO_MANY / 32, 64], &[1, 1, 1, 64], Some(&[0])));
        assert!(error.contains("an output of shape"), "{error}");
    }
    Ok(())
}

/// Pages say what they have.
#[test]
fn pages_of_another_format() -> TractResult<()> {
    let keys = PageFormat { factor: PagedFactor::Keys, precision: CachePrecision::F32 };
    let values = PageFormat { factor: PagedFactor::Values, precision: CachePrecision::U8 };
    let before = tensor(&[1, 1, 3, 4], 0);
    let new = tensor(&[1, 1, 1, 4], 0);
    let inputs = tvec!(keys.pack(&before)?.into_tvalue(), new.into_tvalue());
    let append = AppendToPages { format: values };
    let error = append.eval(&EvalContext::out_of_plan(), inputs).unwrap_err().to_string();
    assert!(error.contains("the pages have Keys as F32, but must have Values as U8"), "{error}");
    let new = f32::fact([1, 1, 1, 4]);
    let of_fact = |fact: TypedFact| append.output_facts(&[&fact, &new]);
    of_fact(values.fact([1, 1, 3, 4]))?;
    let error = of_fact(keys.fact([1, 1, 3, 4])).unwrap_err().to_string();
    assert!(error.contains("but must have Values as U8"), "{error}");
    let error = of_fact(f32::fact([1, 1, 3, 4])).unwrap_err().to_string();
    assert!(error.contains("but must be in pages"), "{error}");
    Ok(())
}

#[test]
fn what_cannot_follow() -> TractResult<()> {
    let format = PageFormat { factor: PagedFactor::Values, precision: CachePrecision::F32 };
    let before = format.pack(&tensor(&[2, 3, 4, 5], 0))?.into_tvalue();
    for (new, beams, expected) in [
        (vec![2, 3, 1, 6], None, "only the batch and the positions may differ"),
        (vec![2, 1, 1, 5], None, "only the batch and the positions may differ"),
        (vec![1, 3, 1, 5], None, "2 sequences are continued by 1"),
        (vec![1, 3, 1, 5], Some([0i64, 1]), "2 sequences are continued by 1"),
    ] {
        let mut inputs = tvec!(before.clone(), tensor(&new, 0).into_tvalue());
        inputs.extend(beams.map(|beams| tensor1(&beams).into_tvalue()));
        let result = AppendToPages { format }.eval(&EvalContext::out_of_plan(), inputs);
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = format.pack(&tensor(&[2, 0], 0)).unwrap_err().to_string();
    assert!(error.contains("must have elements"), "{error}");
    Ok(())
}

/// Scores that a mask keeps, and that are negative infinity elsewhere: the mask is that of a batch, of a head, or of all. A query that
/// sees nothing gives NaN.
#[test]
fn masks_that_keep_scores() -> TractResult<()> {
    use tract_core::ops::logic::Iff;
    let (queries, keys) = ([2, 3, 70, 16], [2, 3, 130, 16]);
    for (mask, slot, number, is_ours) in [
        ([1, 1, 70, 130], 1, f32::NEG_INFINITY, true),
        ([2, 1, 1, 130], 1, f32::NEG_INFINITY, true),
        ([2, 3, 70, 130], 1, f32::NEG_INFINITY, true),
        // One for all keys, other numbers, and scores where it is false.
        ([2, 3, 70, 1], 1, f32::NEG_INFINITY, false),
        ([1, 1, 70, 130], 1, -10., false),
        ([1, 1, 70, 130], 2, f32::NEG_INFINITY, false),
    ] {
        let mut model = TypedModel::default();
        let sources = [("queries", &queries), ("keys", &keys), ("values", &keys)];
        let [q, k, v] = sources.map(|(name, shape)| model.add_source(name, f32::fact(shape)));
        let (q, k, v) = (q?, k?, v?);
        let keep = model.add_source("keep", bool::fact(mask))?;
        let scores = product(&mut model, "scores", "abmk,abnk->abmn", [q, k])?;
        let other = model.add_const("other", Tensor::from_shape(&[1; 4], &[number])?)?;
        let operands = if slot == 1 { [keep, scores, other] } else { [keep, other, scores] };
        let masked = model.wire_node("masked", Iff, &operands)?;
        let softmax = Softmax::new(tvec![3], None, SoftmaxKind::Softmax);
        let weights = model.wire_node("softmax", softmax, &masked)?[0];
        let output = product(&mut model, "output", "abmk,abkn->abmn", [weights, v])?;
        model.select_output_outlets(&[output])?;
        let count: usize = mask.iter().product();
        let width = mask[3];
        let keep: Vec<bool> = (0..count)
            .map(|place| {
                let (row, column) = (place / width, place % width);
                row % 9 != 4 && (column * 7 + row) % 3 != 0 && column < 90
            })
            .collect();
        let keep = Tensor::from_shape(&mask, &keep)?;
        let tensors = [tensor(&queries, 0), tensor(&keys, 5), tensor(&keys, 11), keep];
        let inputs: TVec<TValue> = tensors.into_iter().map(|it| it.into_tvalue()).collect();
        let expected = model.clone().into_runnable()?.run(inputs.clone())?;
        let expected = expected[0].try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
        let model = model.with_kernels()?;
        let found = model.nodes().iter().any(|node| node.op_is::<Attention>());
        assert_eq!(found, is_ours, "{mask:?} {slot} {number}");
        let model = model.into_optimized()?.into_runnable()?;
        with_all_vectors(|| {
            let found = model.run(inputs.clone()).unwrap();
            let found = found[0].try_as_plain_ram().unwrap();
            for (found, expected) in found.as_slice::<f32>().unwrap().iter().zip(&expected) {
                let is_near = (found - expected).abs() < 1e-5;
                assert!(is_near || found.is_nan() && expected.is_nan(), "{found} {expected}");
            }
        });
    }
    Ok(())
}
