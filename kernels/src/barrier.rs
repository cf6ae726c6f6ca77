//! What tract's `Downsample` must not pass.
//!
//! tract makes a `Downsample` of a stride of a convolution where no two taps of the kernel see neighbours, and moves it in front of
//! every operator whose axes say that it can. But it fails at an `AxisOp` that makes its axis of several ones, of a part of one or of
//! none, at a broadcast, and at a loop. And it takes the axes of a softmax and of a normalization for others, so that they see only some
//! of the elements. So it goes no further than through operators of which it is known to be right.

use std::collections::{BTreeSet, HashSet};

use tract_core::internal::*;
use tract_core::ops::Downsample;
use tract_core::ops::array::Slice;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cast::Cast;
use tract_core::ops::cnn::Conv;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::identity::Identity;
use tract_core::ops::logic::Iff;
use tract_core::ops::nn::Reduce;
use tract_core::ops::scan::Scan;

use crate::fully_connected::FullyConnected;
use crate::quantized::FakeQuantize;

/// Gives its input as it is. Nothing that tract moves through a model passes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Barrier;

impl_op!(Barrier, "Barrier");
impl_pass_through!(Barrier, op_out_of_plan);

/// Puts a [`Barrier`] where a `Downsample` would come to an operator that it must not pass: one that is there, or one that tract makes
/// of the stride of a convolution. The nodes before the `first` one have their barriers already.
///
/// The readers of this project do so, and so does [`KernelsTransform`](crate::KernelsTransform). A model that comes from
/// elsewhere needs it before it is decluttered without kernels.
///
/// # Errors
///
/// The facts of a node do not fit its operator.
pub fn guard_downsamples(model: &mut TypedModel, first: usize) -> TractResult<()> {
    let mut reached: Vec<(InletId, usize)> = vec![];
    for node in model.nodes().iter().skip(first) {
        let inlet = InletId::new(node.id, 0);
        reached.extend(downsampled(node).into_iter().map(|axis| (inlet, axis)));
    }
    let (mut seen, mut held) = (HashSet::new(), BTreeSet::new());
    while let Some((inlet, axis)) = reached.pop() {
        if !seen.insert((inlet, axis)) {
            continue;
        }
        let node = model.node(model.node(inlet.node).inputs[inlet.slot].node);
        match passes(model, node, axis)? {
            Some(inputs) => reached.extend(inputs),
            None => drop(held.insert(inlet)),
        }
    }
    for inlet in held {
        let node = model.node(inlet.node);
        let (outlet, name) = (node.inputs[inlet.slot], node.name.clone());
        let name = format!("{name}.barrier_{}", inlet.slot);
        let barrier = model.wire_node(name, Barrier, &[outlet])?[0];
        model.add_edge(barrier, inlet)?;
    }
    Ok(())
}

/// The axes of its first input of which tract takes only some elements, as a step of its own.
fn downsampled(node: &TypedNode) -> TVec<usize> {
    if let Some(op) = node.op_as::<Downsample>() {
        return tvec![op.axis];
    }
    let Some(op) = node.op_as::<Conv>() else { return tvec![] };
    let spec = &op.pool_spec;
    let is_apart = |axis: &usize| {
        let (stride, dilation) = (spec.stride(*axis), spec.dilation(*axis));
        stride > 1 && (spec.kernel_shape[*axis] == 1 || dilation.is_multiple_of(stride))
    };
    let spatial = (0..spec.rank()).filter(is_apart);
    spatial.map(|axis| spec.data_format.h_axis() + axis).collect()
}

/// Where a `Downsample` along an axis of a node's output goes on: to none of its inputs if tract leaves it where it is. Nothing if it
/// must be held up.
fn passes(
    model: &TypedModel,
    node: &TypedNode,
    axis: usize,
) -> TractResult<Option<TVec<(InletId, usize)>>> {
    let data = InletId::new(node.id, 0);
    if let Some(op) = node.op_as::<AxisOp>() {
        let steps = op.simplify();
        let before = steps.iter().rev().try_fold(axis, |axis, op| op.recip().transform_axis(axis));
        return Ok(before.map(|axis| tvec![(data, axis)]));
    }
    if let Some(op) = node.op_as::<Slice>().filter(|op| op.axis == axis) {
        // With an offset, which a convolution does not take.
        return Ok((op.start == 0.to_dim()).then(|| tvec![(data, axis)]));
    }
    // It takes the stride of a spatial axis, and gives it on where its taps allow that.
    if let Some(op) = node.op_as::<Conv>() {
        let spec = &op.pool_spec;
        let spatial =
            axis.checked_sub(spec.data_format.h_axis()).filter(|axis| *axis < spec.rank());
        let goes_on =
            spatial.is_some_and(|axis| spec.kernel_shape[axis] == 1 || spec.dilation(axis) > 1);
        return Ok(Some(if goes_on { tvec![(data, axis)] } else { tvec![] }));
    }
    // tract takes it into a loop, whatever its axes say.
    rule_if!(!node.op_is::<Scan>());
    let [output] = &*node.outputs else { return Ok(Some(tvec![])) };
    let inputs = model.node_input_facts(node.id)?;
    let mapping = node.op.axes_mapping(&inputs, &[&output.fact])?;
    let of_inputs = &mapping.axis((InOut::Out(0), axis))?.inputs;
    let places = of_inputs.iter().enumerate().filter_map(|(slot, axes)| match &**axes {
        [axis] => Some((InletId::new(node.id, slot), *axis)),
        _ => None,
    });
    let reached: TVec<(InletId, usize)> = places.collect();
    if node.inputs.is_empty() || reached.len() < node.inputs.len() {
        return Ok(Some(tvec![]));
    }
    let is_right = is_one_of!(node.op, ElementWiseOp, TypedBinOp, Iff, Cast, Identity)
        || is_one_of!(node.op, Reduce, Slice, EinSum, FakeQuantize, FullyConnected);
    Ok(is_right.then_some(reached))
}

#[cfg(test)]
mod tests {
    use tract_core::ops::array::MultiBroadcastTo;
    use tract_core::ops::cnn::{KernelFormat, PaddingSpec, PoolSpec};
    use tract_core::ops::nn::{DataFormat, Reducer, RmsNorm, Softmax, sigmoid};

    use super::*;
    use crate::WithKernels;
    use crate::product::activation::Activation;

    /// An operator, a function, and every second element along an axis: as a convolution with a kernel of one pixel, or alone.
    fn model(
        shape: &[TDim],
        op: Box<dyn TypedOp>,
        by_convolution: bool,
        axis: usize,
    ) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let data = model.add_source("data", f32::fact(shape))?;
        let mut outlet = model.wire_node("change", op, &[data])?[0];
        outlet = model.wire_node("sigmoid", sigmoid(), &[outlet])?[0];
        let sizes = model.outlet_fact(outlet)?.shape.to_tvec();
        if by_convolution {
            let channels = sizes[1].to_usize()?;
            let spatial = sizes.len() - 2;
            let mut strides = tvec![1; spatial];
            strides[axis - 2] = 2;
            let kernel = tvec![1; spatial];
            let weights: Vec<f32> = (0..channels * 2).map(|it| it as f32 - 1.).collect();
            let weights = Tensor::from_shape(&[&[2, channels], &*kernel].concat(), &weights)?;
            let inputs = [
                outlet,
                model.add_const("weights", weights)?,
                model.add_const("bias", tensor1(&[0.5f32, -0.5]))?,
            ];
            let spec = PoolSpec::new(
                DataFormat::NCHW,
                kernel,
                PaddingSpec::Valid,
                None,
                Some(strides),
                channels,
                2,
            );
            let op = Conv::new(spec.clone(), KernelFormat::OIHW, 1, None);
            outlet = model.wire_node("convolution", op, &inputs)?[0];
            // The stride of a second one joins that of the first one.
            let weights =
                Tensor::from_shape(&[&[2, 2], &*spec.kernel_shape].concat(), &[1f32, -1., 2., 3.])?;
            let inputs = [outlet, model.add_const("more_weights", weights)?, inputs[2]];
            let spec = PoolSpec { input_channels: 2, ..spec };
            let op = Conv::new(spec, KernelFormat::OIHW, 1, None);
            outlet = model.wire_node("another", op, &inputs)?[0];
        } else {
            outlet = model.wire_node("second", Downsample::new(axis, 2, 0), &[outlet])?[0];
        }
        model.select_output_outlets(&[outlet])?;
        Ok(model)
    }

    /// A layer of rows of 20 numbers.
    fn layer() -> TractResult<FullyConnected> {
        let weights: Vec<f32> = (0..120).map(|it| (it * 7 % 13) as f32 - 6.).collect();
        let weights = Tensor::from_shape(&[20, 6], &weights)?.into_arc_tensor();
        let (bias, activation) = (vec![0.5; 6], Activation::Identity);
        FullyConnected::new(&weights, false, bias, activation, None, None, std::iter::empty())
    }

    /// The shape of the data, an operator, and the axes of its output along which nothing may pass it.
    type BarrierCase = (&'static [usize], Box<dyn TypedOp>, &'static [usize]);

    #[test]
    fn strides_stay_behind_barriers() -> TractResult<()> {
        let dims = |sizes: &[usize]| sizes.iter().map(|size| size.to_dim()).collect::<TVec<_>>();
        let reshape = |at: usize, from: &[usize], to: &[usize]| -> Box<dyn TypedOp> {
            Box::new(AxisOp::Reshape(at, dims(from), dims(to)))
        };
        let softmax = |axes: &[usize]| Softmax { axes: axes.into(), ..Softmax::default() };
        let norm = RmsNorm { axis: 2, eps: tensor0(1e-5f32).into_arc_tensor() };
        let cases: [BarrierCase; 15] = [
            (&[2, 3, 20], reshape(2, &[20], &[4, 5]), &[2, 3]),
            (&[2, 3, 20], reshape(0, &[2, 3, 20], &[2, 3, 4, 5]), &[2, 3]),
            (&[2, 3, 4, 5], reshape(2, &[4, 5], &[20]), &[2]),
            (&[2, 3, 4, 5], reshape(1, &[3, 4, 5], &[4, 3, 5]), &[1, 2]),
            (&[2, 3, 20], Box::new(AxisOp::Add(2)), &[2]),
            (&[2, 1, 3, 20], Box::new(AxisOp::Rm(1)), &[]),
            (&[2, 20, 3], Box::new(AxisOp::Move(1, 2)), &[]),
            (&[2, 3, 4, 5], Box::new(softmax(&[2])), &[0, 1, 2, 3]),
            (&[2, 3, 4, 5], Box::new(softmax(&[1, 3])), &[0, 1, 2, 3]),
            (&[2, 3, 4, 5], Box::new(norm), &[0, 1, 2, 3]),
            (&[2, 3, 20], Box::new(Slice::new(2, 0, 18)), &[]),
            (&[2, 3, 20], Box::new(Slice::new(2, 3, 18)), &[2]),
            (&[2, 3, 20], Box::new(Reduce::new(tvec![2], Reducer::Max)), &[]),
            (&[2, 3, 20], Box::new(layer()?), &[]),
            // The others have 1 in the input.
            (
                &[2, 1, 20],
                Box::new(MultiBroadcastTo { shape: dims(&[2, 4, 20]).into() }),
                &[0, 1, 2],
            ),
        ];
        for (shape, op, held) in cases {
            let count = shape.iter().product::<usize>();
            let numbers: Vec<f32> = (0..count).map(|it| (it * 37 % 11) as f32 - 5.).collect();
            let data: TVec<TValue> = tvec![Tensor::from_shape(shape, &numbers)?.into()];
            let facts = op.output_facts(&[&f32::fact(shape)])?;
            let rank = facts[0].rank();
            let alone = (0..rank).map(|axis| (false, axis));
            for (by_convolution, axis) in alone.chain((2..rank).map(|axis| (true, axis))) {
                let doing = || format!("{shape:?} {op:?} {by_convolution} {axis}");
                let plain = model(&dims(shape), op.clone(), by_convolution, axis)?;
                let expected = plain.clone().into_runnable()?.run(data.clone())?;
                let mut guarded = plain.clone();
                guard_downsamples(&mut guarded, 0)?;
                // What tract can do is left to it.
                let is_held = guarded.nodes().iter().any(|node| node.op_is::<Barrier>());
                assert_eq!(is_held, held.contains(&axis), "{}", doing());
                let models = [
                    guarded.clone().into_decluttered().with_context(doing)?,
                    guarded.into_optimized().with_context(doing)?,
                    plain.clone().with_kernels().with_context(doing)?,
                    plain.with_kernels()?.into_optimized().with_context(doing)?,
                ];
                for model in models {
                    let found = model.into_runnable()?.run(data.clone())?;
                    // With relaxed SIMD, tract rounds some sums of products once and others twice.
                    found[0]
                        .close_enough(&expected[0], Approximation::Approximate)
                        .with_context(doing)?;
                }
            }
        }
        Ok(())
    }
}
