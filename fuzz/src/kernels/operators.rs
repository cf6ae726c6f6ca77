//! The operators that a model may have, each with random attributes.

use arbitrary::Result;
use tract_core::internal::*;
use tract_core::ops::array::{MultiBroadcastTo, Slice, TypedConcat};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::{Conv, Deconv, KernelFormat, MaxPool, PaddingSpec, PoolSpec, SumPool};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::math::{self, add, div, max, min, mul, sub};
use tract_core::ops::nn::gelu_approximate::gelu_approximate;
use tract_core::ops::nn::gelu_exact::gelu_exact;
use tract_core::ops::nn::resize::{CoordTransformer, Interpolator, Nearest, Resize};
use tract_core::ops::nn::silu::silu;
use tract_core::ops::nn::{
    DataFormat, Reduce, Reducer, RmsNorm, Softmax, SoftmaxKind, hard_swish, sigmoid,
};
use tract_openvino_kernels::{DequantizedConst, FakeQuantize};

use super::Builder;

/// Wires an operator of a tensor. `None` if it does not take this one.
type Operator = fn(&mut Builder, OutletId) -> Result<Option<OutletId>>;

pub const OPERATORS: [(&str, Operator); 21] = [
    ("convolution", convolution),
    ("transposed convolution", transposed_convolution),
    ("pool", pool),
    ("product with a constant", product_with_constant),
    ("product", product),
    ("attention", attention),
    ("softmax", softmax),
    ("reduction", reduction),
    ("normalization", normalization),
    ("binary", binary),
    ("unary", unary),
    ("clamp", clamp),
    ("hard swish", hard_swish_of_parts),
    ("slice", slice),
    ("concatenation", concatenation),
    ("transposition", transposition),
    ("reshape", reshape),
    ("resize", resize),
    ("rotary embedding", rotary_embedding),
    ("fake quantize", fake_quantize),
    ("quantized convolution", quantized_convolution),
];

/// Gives the value of an option, or ends an operator.
macro_rules! some {
    ($option:expr) => {
        match $option {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

fn format(builder: &mut Builder) -> Result<DataFormat> {
    builder.choose(&[DataFormat::NCHW, DataFormat::NHWC])
}

/// A window over data of one to three spatial axes. Some reach beyond the data.
fn window(
    builder: &mut Builder,
    data: OutletId,
    outputs: impl FnOnce(&mut Builder, usize) -> Result<usize>,
) -> Result<Option<PoolSpec>> {
    let rank = builder.shape(data).len();
    if !(3..=5).contains(&rank) {
        return Ok(None);
    }
    let format = format(builder)?;
    let axis = if format == DataFormat::NCHW { 1 } else { rank - 1 };
    let inputs = some!(builder.size(data, axis));
    let outputs = outputs(builder, inputs)?;
    let spatial = rank - 2;
    let mut each = |sizes: &[usize]| -> Result<TVec<usize>> {
        (0..spatial).map(|_| builder.choose(sizes)).collect()
    };
    let kernel = each(&[1, 3, 2, 5, 7])?;
    let strides = each(&[1, 1, 2, 3])?;
    let dilations = each(&[1, 1, 1, 2, 3])?;
    let (before, after) = (each(&[0, 1, 2, 3])?, each(&[0, 1, 2, 3])?);
    let padding = builder.choose(&[
        PaddingSpec::Valid,
        PaddingSpec::Explicit(before.clone(), after.clone()),
        PaddingSpec::SameUpper,
        PaddingSpec::SameLower,
        PaddingSpec::ExplicitOnnxPool(before.clone(), after.clone(), false),
        PaddingSpec::ExplicitOnnxPool(before, after, true),
    ])?;
    // tract reads what was not written where a window does not fit, and has other sizes than the rules of the kernels where the last
    // one begins in padding.
    for axis in 0..spatial {
        let axis_of_data = if format == DataFormat::NCHW { axis + 2 } else { axis + 1 };
        let size = some!(builder.size(data, axis_of_data));
        let reach = (kernel[axis] - 1) * dilations[axis];
        let fits = match &padding {
            PaddingSpec::Explicit(before, after)
            | PaddingSpec::ExplicitOnnxPool(before, after, false) => {
                size > 0 && size + before[axis] + after[axis] > reach
            }
            PaddingSpec::ExplicitOnnxPool(before, after, true) => {
                size > after[axis] && size + before[axis] + after[axis] > reach
            }
            PaddingSpec::Valid => size == 0 || size > reach,
            PaddingSpec::SameUpper | PaddingSpec::SameLower => size > 0,
        };
        if !fits {
            return Ok(None);
        }
    }
    let (dilations, strides) = (Some(dilations), Some(strides));
    Ok(Some(PoolSpec::new(format, kernel, padding, dilations, strides, inputs, outputs)))
}

fn group(builder: &mut Builder, channels: usize) -> Result<usize> {
    let divisors: Vec<usize> =
        (1..=channels.max(1)).filter(|it| channels.is_multiple_of(*it)).collect();
    let all = divisors[divisors.len() - 1];
    let any = builder.choose(&divisors)?;
    builder.choose(&[1, 1, all, any])
}

fn bias(builder: &mut Builder, outputs: usize) -> Result<OutletId> {
    let shape = if builder.u.ratio(1, 4)? { vec![] } else { vec![outputs] };
    let bias = builder.numbers.tame(&shape);
    Ok(builder.constant(bias))
}

fn convolution(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let mut groups = 1;
    let spec = some!(window(builder, data, |builder, inputs| {
        groups = group(builder, inputs)?;
        Ok(groups * builder.choose(&[2, 1, 3, 7, 8, 16, 17])?)
    })?);
    if matches!(spec.padding, PaddingSpec::ExplicitOnnxPool(.., true)) {
        return Ok(None);
    }
    let kernel_fmt =
        builder.choose(&[KernelFormat::OIHW, KernelFormat::HWIO, KernelFormat::OHWI])?;
    let (inputs, outputs) = (spec.input_channels, spec.output_channels);
    let kernel = &*spec.kernel_shape;
    let shape = match kernel_fmt {
        KernelFormat::OIHW => [&[outputs, inputs / groups], kernel].concat(),
        KernelFormat::HWIO => [kernel, &[inputs, outputs / groups]].concat(),
        KernelFormat::OHWI => [&[outputs / groups], kernel, &[inputs]].concat(),
    };
    let depth = inputs / groups * kernel.iter().product::<usize>();
    let weights = builder.weights(&shape, depth);
    let weights = builder.constant(weights);
    let bias = bias(builder, outputs)?;
    Ok(builder.wire(Conv::new(spec, kernel_fmt, groups, None), &[data, weights, bias]))
}

fn transposed_convolution(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let mut groups = 1;
    let spec = some!(window(builder, data, |builder, inputs| {
        groups = group(builder, inputs)?;
        Ok(groups * builder.choose(&[2, 1, 3, 5])?)
    })?);
    let (inputs, outputs) = (spec.input_channels, spec.output_channels);
    let adjustments = (0..spec.rank()).map(|_| builder.choose(&[0, 0, 1]));
    let adjustments = adjustments.collect::<Result<TVec<usize>>>()?;
    let shape = [&[outputs, inputs / groups], &*spec.kernel_shape].concat();
    let weights =
        builder.weights(&shape, inputs / groups * spec.kernel_shape.iter().product::<usize>());
    let weights = builder.constant(weights);
    let bias = bias(builder, outputs)?;
    let op = Deconv::new(spec, KernelFormat::OIHW, adjustments, groups);
    Ok(builder.wire(op, &[data, weights, bias]))
}

fn pool(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let spec = some!(window(builder, data, |_, inputs| Ok(inputs))?);
    if builder.u.ratio(1, 2)? {
        let [counts, normalizes] = [builder.u.arbitrary()?, builder.u.arbitrary()?];
        return Ok(builder.wire(SumPool::new(spec, counts, normalizes), &[data]));
    }
    // NaN is ignored, which tract does or not.
    builder.traits.is_tame = true;
    Ok(builder.wire(MaxPool::new(spec, None), &[data]))
}

/// Letters for the axes of a tensor.
fn letters(rank: usize) -> String {
    ('a'..='z').take(rank).collect()
}

/// Whether an axis may be summed over: tract's optimised product of nothing ends the process.
fn has_elements(dim: &TDim) -> bool {
    *dim != 0.to_dim()
}

fn einsum(axes: &str) -> Option<EinSum> {
    Some(EinSum::new(axes.parse().ok()?, DatumType::F32))
}

fn product_with_constant(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let rank = builder.shape(data).len();
    if rank == 0 {
        return Ok(None);
    }
    let axis = if builder.u.ratio(3, 4)? { rank - 1 } else { builder.axis(data)? };
    let depth = some!(builder.size(data, axis));
    if depth == 0 {
        return Ok(None);
    }
    let width = builder.choose(&[5, 1, 2, 16, 17, 48, 64, 70])?;
    let all = letters(rank);
    let summed = &all[axis..=axis];
    // Where the new axis is, and what the constant is: numbers, or codes that stay compressed.
    let others = all.replace(summed, "");
    let is_moved = builder.u.ratio(1, 4)?;
    let output = if is_moved { format!("z{others}") } else { all.replace(summed, "z") };
    let is_transposed = builder.u.ratio(1, 2)?;
    let (labels, shape) = match is_transposed {
        true => (format!("z{summed}"), [width, depth]),
        false => (format!("{summed}z"), [depth, width]),
    };
    let weights = if builder.u.ratio(1, 3)? {
        let codes: Vec<i8> = (0..width * depth).map(|_| builder.numbers.next() as i8).collect();
        let codes = Tensor::from_shape(&shape, &codes).expect("there are as many");
        let size = if is_transposed { [width, 1] } else { [1, width] };
        let mut scales = builder.weights(&size, depth);
        let mut view = scales.try_as_plain_ram_mut().expect("it is in memory");
        view.as_slice_mut::<f32>().expect("it has floats").iter_mut().for_each(|it| *it /= 64.);
        drop(view);
        let constant = DequantizedConst::new(codes, None, Some(scales)).expect("they fit");
        some!(builder.wire(constant, &[]))
    } else {
        let weights = builder.weights(&shape, depth);
        builder.constant(weights)
    };
    let is_first = builder.u.ratio(1, 4)?;
    let (axes, inputs) = match is_first {
        true => (format!("{labels},{all}->{output}"), [weights, data]),
        false => (format!("{all},{labels}->{output}"), [data, weights]),
    };
    Ok(builder.wire(some!(einsum(&axes)), &inputs))
}

fn product(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let shape = builder.shape(data);
    let rank = shape.len();
    if rank < 2 || !has_elements(&shape[rank - 1]) {
        return Ok(None);
    }
    // `[.., rows, depth]`, and a factor with some of the batches.
    let width = builder.choose(&[5, 1, 2, 16, 33, 70, 0])?.to_dim();
    let all = letters(rank);
    let (batch, last) = all.split_at(rank - 2);
    let depth = &last[1..];
    let (mut labels, mut dims) = (String::new(), tvec![]);
    for (label, dim) in batch.chars().zip(&shape) {
        match builder.choose(&[0, 0, 1, 2])? {
            0 => dims.push(dim.clone()),
            1 => dims.push(1.to_dim()),
            _ => continue,
        }
        labels.push(label);
    }
    if builder.u.ratio(1, 2)? {
        labels += &format!("{depth}z");
        dims.extend([shape[rank - 1].clone(), width]);
    } else {
        labels += &format!("z{depth}");
        dims.extend([width, shape[rank - 1].clone()]);
    }
    let output = match builder.u.ratio(1, 4)? {
        true => format!("{}{batch}z", &last[..1]),
        false => format!("{batch}{}z", &last[..1]),
    };
    let other = some!(builder.source(&dims));
    let is_first = builder.u.ratio(1, 4)?;
    let (axes, inputs) = match is_first {
        true => (format!("{labels},{all}->{output}"), [other, data]),
        false => (format!("{all},{labels}->{output}"), [data, other]),
    };
    Ok(builder.wire(some!(einsum(&axes)), &inputs))
}

/// Some of the sizes become 1.
fn broadcast_some(builder: &mut Builder, sizes: &mut [TDim]) -> Result<()> {
    for size in sizes {
        if builder.u.ratio(1, 2)? {
            *size = 1.to_dim();
        }
    }
    Ok(())
}

/// The data are queries.
fn attention(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    builder.traits.is_tame = true;
    let shape = builder.shape(data);
    let rank = shape.len();
    if rank < 2 || !has_elements(&shape[rank - 1]) {
        return Ok(None);
    }
    let all = letters(rank);
    let batch = &all[..rank - 2];
    let keys = builder.any_size()?.max(1).to_dim();
    let width = builder.any_size()?.to_dim();
    let mut of_keys: TVec<TDim> = shape.clone();
    of_keys[rank - 2] = keys.clone();
    if builder.u.ratio(1, 4)? && rank > 2 {
        of_keys[rank - 3] = 1.to_dim();
    }
    let mut of_values = of_keys.clone();
    of_values[rank - 1] = width;
    let (keys_input, values) = (some!(builder.source(&of_keys)), some!(builder.source(&of_values)));
    let scores = some!(einsum(&format!("{batch}qx,{batch}kx->{batch}qk")));
    let mut scores = some!(builder.wire(scores, &[data, keys_input]));
    let scale = builder.number(0.5, rank);
    scores = some!(builder.wire(mul(), &[scores, scale]));
    let mut scores_shape = builder.shape(scores);
    if builder.u.ratio(1, 3)? {
        let mut factors = scores_shape.clone();
        factors[rank - 1] = 1.to_dim();
        broadcast_some(builder, &mut factors)?;
        let factors = some!(builder.operand(&factors)?);
        scores = some!(builder.wire(mul(), &[scores, factors]));
    }
    for _ in 0..builder.u.int_in_range(0..=2)? {
        let mut mask = scores_shape.clone();
        broadcast_some(builder, &mut mask[..rank - 1])?;
        let mask = some!(builder.mask(&mask));
        scores = some!(builder.wire(add(), &[scores, mask]));
    }
    let softmax = Softmax::new(tvec![rank - 1], None, SoftmaxKind::Softmax);
    let weights = if builder.u.ratio(1, 3)? {
        let keys = std::mem::replace(&mut scores_shape[rank - 1], 1.to_dim());
        let mut sink = scores_shape.clone();
        broadcast_some(builder, &mut sink)?;
        let sink = some!(builder.operand(&sink)?);
        let sinks = MultiBroadcastTo::new(scores_shape.into());
        let sinks = some!(builder.wire(sinks, &[sink]));
        let all = some!(builder.wire(TypedConcat::new(rank - 1), &[scores, sinks]));
        let weights = some!(builder.wire(softmax, &[all]));
        some!(builder.wire(Slice::new(rank - 1, 0, keys), &[weights]))
    } else {
        some!(builder.wire(softmax, &[scores]))
    };
    let output = some!(einsum(&format!("{batch}qk,{batch}kx->{batch}qx")));
    Ok(builder.wire(output, &[weights, values]))
}

fn softmax(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    builder.traits.is_tame = true;
    if builder.shape(data).is_empty() {
        return Ok(None);
    }
    let axis = builder.axis(data)?;
    Ok(builder.wire(Softmax::new(tvec![axis], None, SoftmaxKind::Softmax), &[data]))
}

fn reduction(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let rank = builder.shape(data).len();
    if rank == 0 {
        return Ok(None);
    }
    let reducer =
        builder.choose(&[Reducer::Sum, Reducer::Max, Reducer::Min, Reducer::MeanOfSquares])?;
    if reducer != Reducer::Sum {
        builder.traits.is_tame = true;
    }
    let first = builder.axis(data)?;
    let axes = if builder.u.ratio(3, 4)? { (first..rank).collect() } else { tvec![first] };
    Ok(builder.wire(Reduce::new(axes, reducer), &[data]))
}

fn normalization(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    builder.traits.is_tame = true;
    let mut data = data;
    let rank = builder.shape(data).len();
    if rank == 0 {
        return Ok(None);
    }
    if builder.u.ratio(1, 4)? {
        let addend = some!(builder.source(&builder.shape(data).clone()));
        data = some!(builder.wire(add(), &[data, addend]));
    }
    let axis = if builder.u.ratio(3, 4)? { rank - 1 } else { builder.axis(data)? };
    let size = some!(builder.size(data, axis));
    if builder.u.ratio(1, 2)? {
        let sum = some!(builder.wire(Reduce::new(tvec![axis], Reducer::Sum), &[data]));
        let part = builder.number(1. / size as f32, rank);
        let mean = some!(builder.wire(mul(), &[sum, part]));
        data = some!(builder.wire(sub(), &[data, mean]));
    }
    let op = RmsNorm { axis, eps: tensor0(1e-2f32).into_arc_tensor() };
    data = some!(builder.wire(op, &[data]));
    let mut shape = vec![1; rank];
    shape[axis] = size;
    for function in [mul(), add()] {
        if builder.u.ratio(1, 2)? {
            let numbers = builder.numbers.tame(&shape);
            let numbers = builder.constant(numbers);
            data = some!(builder.wire(function, &[data, numbers]));
        }
    }
    Ok(Some(data))
}

fn binary(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let mut shape = builder.shape(data);
    let functions: [fn() -> TypedBinOp; 5] = [add, sub, mul, max, min];
    let function = builder.choose(&functions)?();
    let other = match builder.choose(&[0, 1, 2, 3])? {
        0 => {
            let same = builder.outlets.iter().copied().filter(|it| builder.shape(*it) == shape);
            let same: Vec<OutletId> = same.collect();
            builder.choose(&same)?
        }
        1 => {
            let number = builder.choose(&[0.5, 0., 1., -1., 6., -0.25])?;
            builder.number(number, shape.len())
        }
        _ => {
            broadcast_some(builder, &mut shape)?;
            some!(builder.operand(&shape)?)
        }
    };
    if other == data {
        return Ok(None);
    }
    let inputs = if builder.u.ratio(1, 4)? { [other, data] } else { [data, other] };
    Ok(builder.wire(function, &inputs))
}

fn unary(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    builder.traits.is_tame = true;
    let functions: [fn() -> ElementWiseOp; 11] = [
        silu,
        math::tanh,
        sigmoid,
        hard_swish,
        gelu_exact,
        || gelu_approximate(false),
        math::abs,
        math::neg,
        math::square,
        math::exp,
        math::erf,
    ];
    let function = builder.choose(&functions)?();
    // So that nothing grows without end.
    let rank = builder.shape(data).len();
    let limits = [4., -8.].map(|limit| builder.number(limit, rank));
    let data = some!(builder.wire(min(), &[data, limits[0]]));
    let data = some!(builder.wire(max(), &[data, limits[1]]));
    Ok(builder.wire(function, &[data]))
}

fn clamp(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let rank = builder.shape(data).len();
    let least = builder.choose(&[0., -1., 0.5])?;
    let least = builder.number(least, rank);
    let data = some!(builder.wire(max(), &[data, least]));
    if builder.u.ratio(1, 2)? {
        return Ok(Some(data));
    }
    let most = builder.choose(&[6., 1., 0.])?;
    let most = builder.number(most, rank);
    Ok(builder.wire(min(), &[data, most]))
}

fn hard_swish_of_parts(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let rank = builder.shape(data).len();
    let numbers = [3., 0., 6., 6.].map(|number| builder.number(number, rank));
    let mut part = data;
    for (function, number) in [add(), max(), min(), div()].into_iter().zip(numbers) {
        part = some!(builder.wire(function, &[part, number]));
    }
    Ok(builder.wire(mul(), &[data, part]))
}

fn slice(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    if builder.shape(data).is_empty() {
        return Ok(None);
    }
    let axis = builder.axis(data)?;
    let size = some!(builder.size(data, axis));
    let start = builder.u.int_in_range(0..=size)?;
    let end = builder.u.int_in_range(start..=size)?;
    // tract moves a slice up, but not along an axis of size 1.
    if size == 1 && start == end {
        return Ok(None);
    }
    Ok(builder.wire(Slice::new(axis, start, end), &[data]))
}

fn concatenation(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let shape = builder.shape(data);
    if shape.is_empty() {
        return Ok(None);
    }
    let axis = builder.axis(data)?;
    let mut inputs = vec![data];
    for _ in 0..builder.u.int_in_range(1..=3)? {
        let mut shape = shape.clone();
        if builder.u.ratio(1, 2)? {
            shape[axis] = builder.any_size()?.to_dim();
        }
        let other = some!(builder.operand(&shape)?);
        let place = builder.u.int_in_range(0..=inputs.len())?;
        inputs.insert(place, other);
    }
    Ok(builder.wire(TypedConcat::new(axis), &inputs))
}

fn transposition(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let mut data = data;
    let rank = builder.shape(data).len();
    if rank < 2 {
        return Ok(None);
    }
    for _ in 0..builder.u.int_in_range(1..=2)? {
        let (from, to) = (builder.axis(data)?, builder.axis(data)?);
        data = some!(builder.wire(AxisOp::Move(from, to), &[data]));
    }
    Ok(Some(data))
}

fn reshape(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let shape = builder.shape(data);
    let rank = shape.len();
    let op = match builder.choose(&[0, 1, 2, 3])? {
        0 if rank > 1 => {
            let axis = builder.u.int_in_range(0..=rank - 2)?;
            let merged = tvec![shape[axis].clone() * &shape[axis + 1]];
            AxisOp::Reshape(axis, shape[axis..axis + 2].into(), merged)
        }
        1 if rank > 0 && rank < 6 => {
            let axis = builder.axis(data)?;
            let size = some!(builder.size(data, axis));
            let group = group(builder, size)?;
            let parts = tvec![group.to_dim(), (size / group).to_dim()];
            AxisOp::Reshape(axis, tvec![size.to_dim()], parts)
        }
        2 => {
            let axes: Vec<usize> = (0..rank).filter(|axis| shape[*axis].is_one()).collect();
            if axes.is_empty() {
                return Ok(None);
            }
            AxisOp::Rm(builder.choose(&axes)?)
        }
        _ if rank < 6 => AxisOp::Add(builder.u.int_in_range(0..=rank)?),
        _ => return Ok(None),
    };
    Ok(builder.wire(op, &[data]))
}

fn resize(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    // A tap of weight 0 makes NaN of an infinity, or none.
    builder.traits.is_tame = true;
    let rank = builder.shape(data).len();
    if rank < 2 {
        return Ok(None);
    }
    use CoordTransformer::*;
    let op = Resize {
        coord_transformer: builder.choose(&[
            HalfPixel,
            AlignCorners,
            Asymmetric,
            PytorchHalfPixel,
        ])?,
        interpolator: builder.choose(&[
            Interpolator::Linear,
            Interpolator::Nearest,
            Interpolator::Cubic,
        ])?,
        nearest: builder.choose(&[Nearest::Floor, Nearest::RoundPreferCeil])?,
        optional_scales_input: Some(1),
        optional_sizes_input: None,
    };
    let mut scales = vec![1f32; rank];
    for scale in &mut scales[1..] {
        *scale = builder.choose(&[1., 2., 0.5, 1.5, 4.])?;
    }
    let scales = builder.constant(tensor1(&scales));
    Ok(builder.wire(op, &[data, scales]))
}

fn rotary_embedding(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let mut shape = builder.shape(data);
    let rank = shape.len();
    if rank < 2 {
        return Ok(None);
    }
    let (last, size) = (rank - 1, some!(builder.size(data, rank - 1)));
    if size % 2 != 0 {
        return Ok(None);
    }
    let first = some!(builder.wire(Slice::new(last, 0, size / 2), &[data]));
    let second = some!(builder.wire(Slice::new(last, size / 2, size), &[data]));
    let negated = some!(builder.wire(math::neg(), &[second]));
    let rotated = some!(builder.wire(TypedConcat::new(last), &[negated, first]));
    broadcast_some(builder, &mut shape[..last])?;
    let (cos, sin) = (some!(builder.source(&shape)), some!(builder.source(&shape)));
    let of_cos = some!(builder.wire(mul(), &[data, cos]));
    let of_sin = some!(builder.wire(mul(), &[rotated, sin]));
    Ok(builder.wire(add(), &[of_cos, of_sin]))
}

fn fake_quantize(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    builder.traits.is_tame = true;
    builder.traits.is_rounded = true;
    let rank = builder.shape(data).len();
    let mut shape = vec![1; rank];
    if rank > 1 && builder.u.ratio(1, 4)? {
        shape[1] = some!(builder.size(data, 1));
    }
    // Of few levels rounding errors would make a number another one.
    let levels = builder.choose(&[256, 255, 1000])?;
    let low = builder.choose(&[-2., 0., -1.])?;
    let count = shape.iter().product();
    let limit = |builder: &mut Builder, base: f32| {
        let numbers: Vec<f32> = (0..count).map(|channel| base * (1 + channel % 4) as f32).collect();
        let limit = Tensor::from_shape(&shape, &numbers).expect("there are as many");
        builder.constant(limit)
    };
    let step = 4. / (levels - 1) as f32;
    let low = (low / step).round() * step;
    let limits = [limit(builder, low), limit(builder, low + 4.)];
    let inputs = [data, limits[0], limits[1], limits[0], limits[1]];
    Ok(builder.wire(FakeQuantize { levels }, &inputs))
}

/// FakeQuantize, a convolution with weights of codes, and maybe FakeQuantize again.
fn quantized_convolution(builder: &mut Builder, data: OutletId) -> Result<Option<OutletId>> {
    let data = some!(fake_quantize(builder, data)?);
    let mut groups = 1;
    let spec = some!(window(builder, data, |builder, inputs| {
        groups = group(builder, inputs)?;
        Ok(groups * builder.choose(&[2, 1, 3, 8, 17])?)
    })?);
    if matches!(spec.padding, PaddingSpec::ExplicitOnnxPool(.., true)) {
        return Ok(None);
    }
    let (inputs, outputs) = (spec.input_channels, spec.output_channels);
    let shape = [&[outputs, inputs / groups], &*spec.kernel_shape].concat();
    let count: usize = shape.iter().product();
    let codes: Vec<i8> = (0..count).map(|_| builder.numbers.next() as i8).collect();
    let codes = Tensor::from_shape(&shape, &codes).expect("there are as many");
    let depth = (count / outputs.max(1)).max(1) as f32;
    let scales: Vec<f32> =
        (0..outputs).map(|it| (1 + it % 3) as f32 / 64. / depth.sqrt()).collect();
    let mut of_scales = vec![1; shape.len()];
    of_scales[0] = outputs;
    let scales = Tensor::from_shape(&of_scales, &scales).expect("there are as many");
    let weights = DequantizedConst::new(codes, None, Some(scales)).expect("they fit");
    let weights = some!(builder.wire(weights, &[]));
    let bias = bias(builder, outputs)?;
    let op = Conv::new(spec, KernelFormat::OIHW, groups, None);
    let output = some!(builder.wire(op, &[data, weights, bias]));
    if builder.u.ratio(1, 2)? {
        return fake_quantize(builder, output);
    }
    Ok(Some(output))
}
