//! Attention over keys and values of earlier runs, in pages and as tensors.

use arbitrary::{Result, Unstructured};
use tract_core::internal::*;
use tract_core::ops::array::{MultiBroadcastTo, Slice, TypedConcat};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::add;
use tract_core::ops::nn::{Softmax, SoftmaxKind};
use tract_openvino_kernels::{
    AppendToPages, Attention, CachePrecision, PageFormat, PagedFactor, WithKernels,
};

use super::{LONG, Numbers};
use crate::rarely;

/// The numbers of heads, and of those that have the same keys.
const HEADS: [usize; 2] = [2, 3];

/// The operator that the kernels have for a model of attention.
fn attention(depth: usize, width: usize, has_mask: bool, has_sink: bool) -> TractResult<Attention> {
    let mut model = TypedModel::default();
    let [batch, queries, keys] = ["B", "Q", "K"].map(|name| model.symbols.sym(name).to_dim());
    let [groups, shared] = HEADS.map(|it| it.to_dim());
    let of_keys = |size: usize| [batch.clone(), groups.clone(), keys.clone(), size.to_dim()];
    let of_queries =
        [batch.clone(), groups.clone(), shared.clone(), queries.clone(), depth.to_dim()];
    let q = model.add_source("queries", f32::fact(&of_queries))?;
    let k = model.add_source("keys", f32::fact(of_keys(depth)))?;
    let v = model.add_source("values", f32::fact(of_keys(width)))?;
    let einsum = |axes: &str| TractResult::Ok(EinSum::new(axes.parse()?, DatumType::F32));
    let mut scores = model.wire_node("scores", einsum("bgrqd,bgkd->bgrqk")?, &[q, k])?[0];
    if has_mask {
        let one = || 1.to_dim();
        let mask = f32::fact([one(), one(), one(), queries.clone(), keys.clone()]);
        let mask = model.add_source("mask", mask)?;
        scores = model.wire_node("masked", add(), &[scores, mask])?[0];
    }
    let softmax = Softmax::new(tvec![4], None, SoftmaxKind::Softmax);
    let weights = if has_sink {
        let sink = model.add_source("sink", f32::fact([1, HEADS[0], HEADS[1], 1, 1]))?;
        let rows = tvec![batch, groups, shared, queries, 1.to_dim()];
        let sinks = model.wire_node("sinks", MultiBroadcastTo::new(rows.into()), &[sink])?[0];
        let all = model.wire_node("all", TypedConcat::new(4), &[scores, sinks])?;
        let weights = model.wire_node("softmax", softmax, &all)?;
        model.wire_node("weights", Slice::new(4, 0, keys), &weights)?[0]
    } else {
        model.wire_node("softmax", softmax, &[scores])?[0]
    };
    let output = model.wire_node("output", einsum("bgrqk,bgkd->bgrqd")?, &[weights, v])?;
    model.select_output_outlets(&output)?;
    let model = model.with_kernels()?;
    let op = model.nodes().iter().find_map(|node| node.op_as::<Attention>());
    op.cloned().context("it is attention")
}

/// What a tensor `[batch, heads, positions, elements]` is where each row continues one of the earlier ones.
fn gathered(tensor: &Tensor, beams: &[i64]) -> TractResult<Tensor> {
    let shape = tensor.shape().to_vec();
    let mut gathered_shape = shape.clone();
    gathered_shape[0] = beams.len();
    let mut gathered = Tensor::zero::<f32>(&gathered_shape)?;
    for (row, beam) in beams.iter().enumerate() {
        let batches = shape[0] as i64;
        let source = if *beam < 0 { beam.saturating_add(batches) } else { *beam };
        if (0..batches).contains(&source) {
            gathered.assign_slice(row..row + 1, tensor, source as usize..source as usize + 1, 0)?;
        }
    }
    Ok(gathered)
}

/// Whether there was an output.
pub fn run(u: &mut Unstructured) -> Result<bool> {
    let (depth, width) = (u.int_in_range(2..=20)?, u.int_in_range(1..=70)?);
    let [has_mask, has_sink] = [u.arbitrary()?, u.arbitrary()?];
    let precision = match rarely(u, 3)? {
        true => CachePrecision::U8,
        false => CachePrecision::F32,
    };
    let attention = attention(depth, width, has_mask, has_sink).expect("the model is right");
    let paged = attention.on_pages(4).expect("keys and values are in rows");
    let slots = attention.keys_and_values();
    let formats = [(PagedFactor::Keys, depth), (PagedFactor::Values, width)]
        .map(|(factor, size)| (PageFormat { factor, precision }, size));
    let mut numbers = Numbers { state: u.arbitrary()?, are_wild: false };
    // A state is without positions, or without sequences, at first; or it has some.
    let (batches, positions) = *u.choose(&[(1, 0), (0, 0), (0, 3), (2, 4), (LONG, 0)])?;
    let mut plain = formats.map(|(_, size)| {
        let shape = [batches.min(3), HEADS[0], positions, size];
        numbers.tame(&shape)
    });
    let mut pages = [0, 1].map(|factor| {
        let (format, size) = formats[factor];
        let tensor = match batches {
            LONG => Tensor::zero::<f32>(&[batches, HEADS[0], positions, size]).expect("empty"),
            _ => plain[factor].clone(),
        };
        format.pack(&tensor).expect("it can be packed")
    });
    let context = EvalContext::out_of_plan();
    let mut has_output = false;
    for _ in 0..u.int_in_range(1..=5)? {
        let before = pages[0].shape()[0];
        let beams = match before != LONG && u.ratio(1, 3)? {
            true => None,
            false => {
                let count = u.int_in_range(0..=3)?;
                let beams = (0..count)
                    .map(|_| u.choose(&[0, 1, -1, 2, -2, 7, i64::MIN, i64::MAX]).copied());
                Some(beams.collect::<Result<Vec<i64>>>()?)
            }
        };
        let rows = beams.as_ref().map_or(before, Vec::len);
        let count = *u.choose(&[1, 0, 2, 27, 28, 31, 32, 33, 64, 70])?;
        for (factor, (format, size)) in formats.into_iter().enumerate() {
            let new = numbers.tame(&[rows, HEADS[0], count, size]);
            let mut inputs = tvec!(pages[factor].clone().into_tvalue(), new.clone().into_tvalue());
            if let Some(beams) = &beams {
                inputs.push(tensor1(beams).into_tvalue());
                plain[factor] = gathered(&plain[factor], beams).expect("it has four axes");
            }
            let appended = AppendToPages { format }.eval(&context, inputs).expect("they fit");
            pages[factor] = appended[0].clone().into_tensor();
            plain[factor] = Tensor::stack_tensors(2, &[&plain[factor], &new]).expect("they fit");
            assert_eq!(pages[factor].shape(), plain[factor].shape());
        }
        let queries = *u.choose(&[1, 3, 9, 17])?;
        let keys = pages[0].shape()[2];
        let mut others = tvec!();
        if has_sink {
            others.push(numbers.tame(&[1, HEADS[0], HEADS[1], 1, 1]));
        }
        if has_mask {
            let mut mask = numbers.tame(&[1, 1, 1, queries, keys]);
            let mut view = mask.try_as_plain_ram_mut().expect("it is in memory");
            for number in view.as_slice_mut::<f32>().expect("it has floats") {
                if numbers.next() % 4 == 0 {
                    *number = f32::NEG_INFINITY;
                }
            }
            others.push(mask);
        }
        let queries = numbers.tame(&[rows, HEADS[0], HEADS[1], queries, depth]);
        let run = |op: &Attention, factors: &[Tensor; 2]| {
            let mut inputs = tvec![queries.clone().into_tvalue(); 3];
            for (slot, factor) in slots.into_iter().zip(factors) {
                inputs[slot] = factor.clone().into_tvalue();
            }
            inputs.extend(others.iter().map(|it| it.clone().into_tvalue()));
            op.eval(&context, inputs).expect("they fit")
        };
        let (expected, found) = (run(&attention, &plain), run(&paged, &pages));
        let close = Approximation::Custom(1e-4, 1e-4, 0.);
        let is_close = found[0].close_enough(&expected[0], close);
        if precision == CachePrecision::F32
            && let Err(error) = is_close
        {
            panic!("{error:?}\n{beams:?} {count}\n{expected:?}\n{found:?}");
        }
        has_output = true;
    }
    Ok(has_output)
}
