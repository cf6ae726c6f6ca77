//! Each rule: what it replaces, what it gives, and why it refuses.

use tract_core::floats::FloatPrecisionTranslator;
use tract_core::model::translator::Translate;
use tract_core::ops::Downsample;
use tract_core::ops::array::TypedConcat;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::{Conv, Deconv, KernelFormat, MaxPool, PaddingSpec, PoolSpec, SumPool};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::logic::{IfThenElse, Iff, comp_gt, comp_lt};
use tract_core::ops::math::{add, div, max, min, mul};
use tract_core::ops::nn::{self, DataFormat, Reduce, Reducer, Softmax, SoftmaxKind, resize};
use tract_core::ops::scan::{InputMapping, OutputMapping, Scan, ScanInfo};
use tract_core::tract_data::half::f16;
use tract_core::transform::{get_transform, get_transform_with_params};

use super::found::dims;
use super::*;
use crate::bf16::BF16;
use crate::isa::tests::with_all_instructions;
use crate::{DequantizedConst, WithKernels};

/// Small integers, so that sums of products are exact.
fn integers(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..count).map(|it| (it * 37 % 11) as f32 - 5.).collect();
    Tensor::from_shape(shape, &numbers).unwrap()
}

fn inputs_of(model: &TypedModel) -> TractResult<TVec<TValue>> {
    let facts = (0..model.input_outlets()?.len()).map(|number| model.input_fact(number));
    facts.map(|fact| Ok(integers(fact?.shape.as_concrete().unwrap()).into_tvalue())).collect()
}

/// The operators of a model that are no sources and constants, by their names.
pub(super) fn names(model: &TypedModel) -> Vec<String> {
    let order = model.eval_order().unwrap().into_iter().map(|id| model.node(id).op.name());
    let names = order.map(|name| name.to_string());
    names.filter(|name| !["Source", "Const"].contains(&&**name)).collect()
}

/// Operators that are no moves of axes.
fn without_moves(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| !name.starts_with("Move") && name != "Transposition");
    names
}

const OURS: [&str; 8] = [
    "PackedConvolution",
    "ChannelsLastPool",
    "ResizeAxes",
    "SoftmaxOfAxis",
    "ReductionOfAxes",
    "FullyConnected",
    "Contraction",
    "Attention",
];

/// Transforms a model as it is, and as tract declutters it. What it computes stays, also if it is decluttered and
/// optimised afterwards, and so do the operators. Those of the first one.
fn transformed(model: &TypedModel) -> TractResult<Vec<String>> {
    transformed_within(model, Approximation::Close)
}

fn transformed_within(
    model: &TypedModel,
    approximation: Approximation,
) -> TractResult<Vec<String>> {
    let inputs = inputs_of(model)?;
    let expected = model.clone().into_runnable()?.run(inputs.clone())?;
    let mut found = None;
    for model in [model.clone(), model.clone().into_decluttered()?] {
        let model = model.with_kernels()?;
        let operators = names(&model);
        let ours = |names: &[String]| {
            names.iter().filter(|name| OURS.contains(&&***name)).cloned().collect::<Vec<_>>()
        };
        for model in [
            model.clone(),
            model.clone().into_decluttered()?,
            model.clone().into_optimized()?,
            model.clone().with_kernels()?,
        ] {
            assert_eq!(ours(&names(&model)), ours(&operators));
            let outputs = model.into_runnable()?.run(inputs.clone())?;
            for (output, expected) in outputs.iter().zip(&expected) {
                output.close_enough(expected, approximation)?;
            }
        }
        found.get_or_insert(operators);
    }
    Ok(found.unwrap())
}

fn refusals(model: &TypedModel) -> TractResult<Vec<String>> {
    let decisions = KernelsTransform::default().transform_with_decisions(&mut model.clone())?;
    let reasons = decisions.into_iter().filter_map(|decision| match decision.outcome {
        Outcome::Refused(reason) => Some(format!("{}: {reason}", decision.rule)),
        Outcome::Replaced(_) => None,
    });
    Ok(reasons.collect())
}

/// A convolution of two spatial axes, in all that matters to the rule.
#[derive(Debug, Clone)]
struct Convolution {
    format: DataFormat,
    kernel_format: KernelFormat,
    group: usize,
    inputs: usize,
    outputs: usize,
    size: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
}

impl Default for Convolution {
    fn default() -> Convolution {
        Convolution {
            format: DataFormat::NCHW,
            kernel_format: KernelFormat::OIHW,
            group: 1,
            inputs: 4,
            outputs: 6,
            size: 8,
            kernel: 3,
            stride: 1,
            padding: 1,
        }
    }
}

impl Convolution {
    fn wire(&self, model: &mut TypedModel) -> TractResult<OutletId> {
        let &Convolution { group, inputs, outputs, kernel, padding, stride, size, .. } = self;
        let spec = PoolSpec::new(
            self.format,
            tvec![kernel; 2],
            PaddingSpec::Explicit(tvec![padding; 2], tvec![padding; 2]),
            None,
            Some(tvec![stride; 2]),
            inputs,
            outputs,
        );
        let data = self.format.from_n_c_hw(1, inputs, [size; 2])?.shape;
        let data = model.add_source("data", f32::fact(&data))?;
        let weights = match self.kernel_format {
            KernelFormat::OIHW => [outputs, inputs / group, kernel, kernel],
            KernelFormat::HWIO => [kernel, kernel, inputs, outputs / group],
            KernelFormat::OHWI => [outputs / group, kernel, kernel, inputs],
        };
        let weights = model.add_const("weights", integers(&weights))?;
        let bias = model.add_const("bias", integers(&[outputs]))?;
        let conv = Conv::new(spec, self.kernel_format, group, None);
        Ok(model.wire_node("conv", conv, &[data, weights, bias])?[0])
    }

    /// With what follows: numbers for the channels, by these functions, and a Relu.
    fn model(&self, functions: &[TypedBinOp]) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut output = self.wire(&mut model)?;
        let shape = self.format.from_n_c_hw(1, self.outputs, [1; 2])?.shape;
        for (number, function) in functions.iter().enumerate() {
            let numbers = model.add_const(format!("numbers_{number}"), integers(&shape))?;
            let name = format!("function_{number}");
            output = model.wire_node(name, function.clone(), &[output, numbers])?[0];
        }
        let zero = Tensor::zero::<f32>(&vec![1; shape.len()])?;
        let zero = model.add_const("zero", zero)?;
        let relu = model.wire_node("relu", max(), &[output, zero])?;
        model.select_output_outlets(&relu)?;
        Ok(model)
    }
}

const FORMATS: [DataFormat; 4] =
    [DataFormat::NCHW, DataFormat::NHWC, DataFormat::CHW, DataFormat::HWC];

#[test]
fn convolutions_of_all_formats() -> TractResult<()> {
    for format in FORMATS {
        for kernel_format in [KernelFormat::OIHW, KernelFormat::HWIO, KernelFormat::OHWI] {
            for (group, inputs, outputs) in [(1, 4, 6), (2, 4, 6), (32, 32, 32)] {
                let of = Convolution {
                    format,
                    kernel_format,
                    group,
                    inputs,
                    outputs,
                    ..Convolution::default()
                };
                let found = transformed(&of.model(&[])?).with_context(|| format!("{of:?}"))?;
                // The channels move behind the other axes, and back.
                let count = if format.c_is_last() { 1 } else { 3 };
                assert_eq!(found.len(), count, "{of:?}: {found:?}");
                assert!(found.contains(&"PackedConvolution".to_string()), "{of:?}: {found:?}");
            }
        }
    }
    Ok(())
}

/// PRelu and LeakyRelu after a convolution are part of it: one slope, or one for each channel. Slopes of other axes are not.
#[test]
fn slopes_of_channels() -> TractResult<()> {
    for format in FORMATS {
        for (group, kernel) in [(1, 3), (1, 1), (6, 3)] {
            for slopes in ["channels", "one", "leaky", "columns"] {
                let inputs = if group > 1 { 6 } else { 4 };
                let of = Convolution { format, group, inputs, kernel, ..Convolution::default() };
                let mut model = TypedModel::default();
                let x = of.wire(&mut model)?;
                let shape = match slopes {
                    "channels" => format.from_n_c_hw(1, 6, [1; 2])?.shape,
                    "columns" => {
                        let size = model.outlet_fact(x)?.shape[format.h_axis() + 1].to_usize()?;
                        format.from_n_c_hw(1, 1, [1, size])?.shape
                    }
                    _ => format.from_n_c_hw(1, 1, [1; 2])?.shape,
                };
                let output = if slopes == "leaky" {
                    model.wire_node("leaky", nn::leaky_relu(0.125), &[x])?
                } else {
                    let zero = Tensor::zero::<f32>(&vec![1; shape.len()])?;
                    let zero = model.add_const("zero", zero)?;
                    let slope = model.add_const("slope", integers(&shape))?;
                    let is_below = TypedBinOp(comp_lt(), None);
                    let is_below = model.wire_node("is_below", is_below, &[x, zero])?[0];
                    let scaled = model.wire_node("scaled", mul(), &[x, slope])?[0];
                    model.wire_node("prelu", Iff, &[is_below, scaled, x])?
                };
                model.select_output_outlets(&output)?;
                let found = transformed(&model).with_context(|| format!("{of:?} {slopes}"))?;
                let others = without_moves(found);
                match slopes {
                    "columns" => assert_eq!(others, ["PackedConvolution", "Elementwise"]),
                    _ => assert_eq!(others, ["PackedConvolution"], "{of:?} {slopes}"),
                }
            }
        }
    }
    Ok(())
}

/// tract makes a product and an addition of them, and operators of their strides.
#[test]
fn convolutions_of_one_pixel() -> TractResult<()> {
    for format in [DataFormat::NCHW, DataFormat::CHW] {
        for stride in [1, 2, 3] {
            let of =
                Convolution { format, stride, kernel: 1, padding: 0, ..Convolution::default() };
            let found = transformed(&of.model(&[add()])?)?;
            assert_eq!(without_moves(found), ["PackedConvolution"], "{of:?}");
        }
    }
    // These are products of rows.
    for format in [DataFormat::NHWC, DataFormat::HWC] {
        let of = Convolution { format, kernel: 1, padding: 0, ..Convolution::default() };
        assert_eq!(transformed(&of.model(&[add()])?)?, ["FullyConnected"], "{of:?}");
    }
    Ok(())
}

/// The sum of the two takes the numbers that follow in, as after a normalisation of batches. tract does that for
/// convolutions without groups alone, and then cannot move the axes of a model with a batch of one.
#[test]
fn numbers_for_channels() -> TractResult<()> {
    for (group, inputs, outputs) in [(1, 4, 6), (2, 4, 6), (6, 6, 6)] {
        for kernel in [1, 3] {
            let padding = kernel / 2;
            let of =
                Convolution { group, inputs, outputs, kernel, padding, ..Convolution::default() };
            for functions in [vec![add()], vec![mul(), add()], vec![add(), mul(), add()]] {
                let found = transformed(&of.model(&functions)?)?;
                assert_eq!(without_moves(found), ["PackedConvolution"], "{of:?}");
            }
        }
    }
    Ok(())
}

/// Convolutions, with a residual, which the convolution before it adds, a sum that none adds, a concatenation, a shuffle of the channels,
/// and a product with a number for each channel that is computed.
fn network() -> TractResult<TypedModel> {
    let mut model = TypedModel::default();
    let shape = tvec![1, 8, 6, 7];
    let data = model.add_source("data", f32::fact(&shape))?;
    let pad = PaddingSpec::Explicit(tvec![1; 2], tvec![1; 2]);
    let convolution = |model: &mut TypedModel, name: &str, data: OutletId| {
        let inputs = model.outlet_fact(data)?.shape[1].to_usize()?;
        let spec = PoolSpec::new(DataFormat::NCHW, tvec![3; 2], pad.clone(), None, None, inputs, 8);
        let weights = model.add_const(format!("{name}.weights"), integers(&[8, inputs, 3, 3]))?;
        let bias = model.add_const(format!("{name}.bias"), integers(&[8]))?;
        let op = Conv::new(spec, KernelFormat::OIHW, 1, None);
        TractResult::Ok(model.wire_node(name, op, &[data, weights, bias])?[0])
    };
    let first = convolution(&mut model, "first", data)?;
    let zero = model.add_const("zero", Tensor::zero::<f32>(&[1; 4])?)?;
    let first = model.wire_node("relu", max(), &[first, zero])?[0];
    let second = convolution(&mut model, "second", first)?;
    let sum = model.wire_node("residual", add(), &[first, second])?[0];
    let sum = model.wire_node("after", max(), &[sum, zero])?[0];
    let both = model.wire_node("sum", add(), &[sum, first])?[0];
    let both = model.wire_node("concat", TypedConcat::new(1), &[both, sum])?[0];
    let [two, eight, all] = [2, 8, 16].map(|size: usize| size.to_dim());
    let split = AxisOp::Reshape(1, tvec![all.clone()], tvec![two.clone(), eight.clone()]);
    let shuffled = model.wire_node("split", split, &[both])?;
    let shuffled = model.wire_node("swap", AxisOp::Move(1, 2), &shuffled)?;
    let joined = AxisOp::Reshape(1, tvec![eight, two], tvec![all]);
    let shuffled = model.wire_node("join", joined, &shuffled)?[0];
    let sums = Reduce::new(tvec![2, 3], Reducer::Sum);
    let sums = model.wire_node("sums", sums, &[shuffled])?[0];
    let scaled = model.wire_node("scaled", mul(), &[shuffled, sums])?[0];
    let last = convolution(&mut model, "last", scaled)?;
    model.select_output_outlets(&[last])?;
    Ok(model)
}

/// Between convolutions the channels stay last.
#[test]
fn regions_have_the_channels_last() -> TractResult<()> {
    // Large numbers are rounded.
    let found = transformed_within(&network()?, Approximation::VeryApproximate)?;
    let is_move = |name: &&String| name.starts_with("Move") || **name == "Transposition";
    // The shuffle has one of its own.
    assert_eq!(found.iter().filter(is_move).count(), 3, "{found:?}");
    let sums = found.iter().filter(|name| **name == "Elementwise").count();
    assert_eq!(sums, 2, "the residual is added by its convolution: {found:?}");
    Ok(())
}

/// What convolutions read that round it is written in bf16, by other convolutions and by functions of elements, with tiles alone.
#[test]
fn tensors_between_convolutions_are_in_bf16() -> TractResult<()> {
    let model = network()?;
    let inputs = inputs_of(&model)?;
    let expected = model.clone().into_runnable()?.run(inputs.clone())?;
    with_all_instructions(|instructions| {
        let config = r#"{"inference_precision": "bf16"}"#;
        let transform = KernelsTransform::new(serde_json::from_str(config).unwrap()).unwrap();
        let mut model = model.clone();
        transform.transform(&mut model).unwrap();
        for model in [model.clone(), model.into_optimized().unwrap()] {
            let are_in_bf16 = model
                .nodes()
                .iter()
                .filter(|node| node.outputs.iter().any(|output| output.fact.datum_type == BF16));
            let names: Vec<String> = are_in_bf16.map(|it| it.op.name().to_string()).collect();
            let count = |name: &str| names.iter().filter(|it| *it == name).count();
            let found = ["PackedConvolution", "Elementwise", "Concatenation"].map(count);
            let expected_count = if instructions.has_amx() { [2, 2, 1] } else { [0; 3] };
            assert_eq!(found, expected_count, "{names:?}, {instructions:?}");
            assert_eq!(model.output_fact(0).unwrap().datum_type, DatumType::F32);
            let found = model.into_runnable().unwrap().run(inputs.clone()).unwrap();
            let tensors = [&found[0], &expected[0]].map(|it| it.try_as_plain_ram().unwrap());
            let [found, expected] = [0, 1].map(|it| tensors[it].as_slice::<f32>().unwrap());
            let most = expected.iter().fold(0f32, |most, it| most.max(it.abs()));
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() <= 0.02 * most, "{found} for {expected}");
            }
        }
    });
    Ok(())
}

/// Where the axes behind the channels are merged, moved and split again, as around a layer of rows, the channels stay last, too.
#[test]
fn axes_behind_the_channels_change() -> TractResult<()> {
    let [sizes, pixels] = [dims(&[8, 8]), dims(&[64])];
    let to_rows = AxisOp::Reshape(2, sizes.clone(), pixels.clone());
    let to_image = AxisOp::Reshape(2, pixels, sizes);
    for (changes, axes, others) in [
        (vec![to_rows.clone()], "bkm,nk->bmn", 0),
        (vec![to_rows.clone(), AxisOp::Move(1, 2)], "bmk,nk->bmn", 0),
        (vec![AxisOp::Add(2), AxisOp::Move(3, 4), AxisOp::Rm(2), to_rows], "bkm,nk->bmn", 1),
    ] {
        let mut model = TypedModel::default();
        let mut output = Convolution::default().wire(&mut model)?;
        for (number, change) in changes.into_iter().enumerate() {
            output = model.wire_node(format!("change_{number}"), change, &[output])?[0];
        }
        let weights = model.add_const("of rows", integers(&[4, 6]))?;
        output = product(&mut model, "rows", axes, [output, weights])?;
        output = model.wire_node("channels", AxisOp::Move(2, 1), &[output])?[0];
        output = model.wire_node("image", to_image.clone(), &[output])?[0];
        let weights = model.add_const("last weights", integers(&[6, 4, 2, 2]))?;
        let bias = model.add_const("last bias", integers(&[6]))?;
        let (format, kernel) = (DataFormat::NCHW, tvec![2; 2]);
        let spec = PoolSpec::new(format, kernel, PaddingSpec::Valid, None, None, 4, 6);
        let conv = Conv::new(spec, KernelFormat::OIHW, 1, None);
        output = model.wire_node("last", conv, &[output, weights, bias])?[0];
        model.select_output_outlets(&[output])?;
        let found = transformed_within(&model, Approximation::VeryApproximate)?;
        let all = found.len();
        let mut layers = without_moves(found);
        let moves = all - layers.len();
        layers.retain(|name| name != "Reshape");
        assert_eq!(layers, ["PackedConvolution", "FullyConnected", "PackedConvolution"], "{axes}");
        assert_eq!(moves, 2 + others, "at the ends of the model: {axes}");
    }
    Ok(())
}

/// What removes a batch of one moves up through a model. Where a bias is still being computed, `Conv::change_axes` takes a
/// change of its axes for one of the data's.
#[test]
fn a_batch_of_one_that_is_removed() -> TractResult<()> {
    for (group, inputs, outputs) in [(1, 4, 6), (2, 4, 6)] {
        let of = Convolution { group, inputs, outputs, ..Convolution::default() };
        let mut model = of.model(&[add()])?;
        let output = model.output_outlets()?[0];
        let output = model.wire_node("without_batch", AxisOp::Rm(0), &[output])?;
        model.select_output_outlets(&output)?;
        let inputs = inputs_of(&model)?;
        let expected = model.clone().into_runnable()?.run(inputs.clone())?;
        let model = model.with_kernels()?;
        assert!(names(&model).contains(&"PackedConvolution".to_string()));
        let found = model.into_optimized()?.into_runnable()?.run(inputs)?;
        found[0].close_enough(&expected[0], Approximation::Close)?;
    }
    Ok(())
}

#[test]
fn numbers_that_are_too_large_stay() -> TractResult<()> {
    let mut model = TypedModel::default();
    let output = Convolution::default().wire(&mut model)?;
    let large = model.add_const("large", Tensor::from_shape(&[1, 1, 1, 1], &[f32::MAX])?)?;
    let output = model.wire_node("product", mul(), &[output, large])?;
    model.select_output_outlets(&output)?;
    let found = without_moves(names(&model.with_kernels()?));
    assert_eq!(found.len(), 2, "{found:?}");
    Ok(())
}

#[test]
fn few_pixels() -> TractResult<()> {
    for size in [1, 2] {
        let model = Convolution { size, ..Convolution::default() }.model(&[])?;
        let found = transformed(&model)?;
        assert!(found.contains(&"PackedConvolution".to_string()), "{size} {found:?}");
    }
    Ok(())
}

/// Transposed convolutions: kernels smaller and larger than the stride, pads, and pixels that no tap reaches; with one spatial axis
/// to three. Each of axes: size, kernel, stride, pads, adjustment.
pub(super) const TRANSPOSED: [&[[usize; 6]]; 7] = [
    &[[5, 2, 2, 0, 0, 0], [6, 2, 2, 0, 0, 0]],
    &[[4, 3, 2, 1, 1, 1], [5, 3, 2, 1, 0, 0]],
    &[[4, 4, 2, 1, 1, 0], [3, 5, 3, 2, 1, 1]],
    &[[4, 3, 1, 1, 1, 0], [3, 1, 2, 0, 0, 1]],
    &[[4, 2, 3, 0, 0, 0], [3, 2, 3, 0, 1, 2]],
    &[[9, 4, 2, 3, 0, 0]],
    &[[2, 2, 2, 0, 0, 0], [3, 3, 2, 1, 1, 1], [2, 3, 1, 0, 2, 0]],
];

/// A transposed convolution of 5 channels to 7, with numbers for the channels and a Relu.
fn transposed(format: DataFormat, axes: &[[usize; 6]], group: usize) -> TractResult<TypedModel> {
    let of = |number: usize| axes.iter().map(|axis| axis[number]).collect::<TVec<_>>();
    let (inputs, outputs) = (5 * group, 7 * group);
    let mut model = TypedModel::default();
    let shape = format.from_n_c_hw(2, inputs, of(0))?.shape;
    let data = model.add_source("data", f32::fact(&shape))?;
    let weights = integers(&[&[outputs, 5], &*of(1)].concat());
    let weights = model.add_const("weights", weights)?;
    // As readers give them.
    let bias = if axes.len() == 1 { tensor0(0.5f32) } else { integers(&[outputs]) };
    let bias = model.add_const("bias", bias)?;
    let is_padded = axes.iter().any(|axis| axis[3..5] != [0, 0]);
    let padding = if is_padded { PaddingSpec::Explicit(of(3), of(4)) } else { PaddingSpec::Valid };
    let spec = PoolSpec::new(format, of(1), padding, None, Some(of(2)), inputs, outputs);
    let op = Deconv::new(spec, KernelFormat::OIHW, of(5), group);
    let mut output = model.wire_node("deconv", op, &[data, weights, bias])?[0];
    let shape = format.from_n_c_hw(1, outputs, vec![1; axes.len()])?.shape;
    for (number, function) in [mul(), add()].into_iter().enumerate() {
        let numbers = model.add_const(format!("numbers_{number}"), integers(&shape))?;
        output = model.wire_node(format!("function_{number}"), function, &[output, numbers])?[0];
    }
    let zero = model.add_const("zero", Tensor::zero::<f32>(&vec![1; shape.len()])?)?;
    output = model.wire_node("relu", max(), &[output, zero])?[0];
    model.select_output_outlets(&[output])?;
    Ok(model)
}

#[test]
fn transposed_convolutions() -> TractResult<()> {
    for format in FORMATS {
        for axes in TRANSPOSED {
            let found = transformed(&transposed(format, axes, 1)?)
                .with_context(|| format!("{format:?} {axes:?}"))?;
            let ours: Vec<_> = found.iter().filter(|name| OURS.contains(&&***name)).collect();
            // Phases in a row whose kernels are of different sizes are convolutions of their own.
            let parts = axes.iter().rev().fold(1, |parts, axis| match axis[1] % axis[2] {
                _ if parts > 1 => parts * axis[2],
                0 => 1,
                _ => 2,
            });
            let count = if axes.iter().all(|axis| axis[1] >= axis[2]) { parts } else { 0 };
            assert_eq!(ours, vec!["PackedConvolution"; count], "{format:?} {axes:?}: {found:?}");
        }
    }
    // A kernel smaller than its strides, one much smaller, many phases, one pixel that becomes many, and strides that no
    // memory is enough for.
    let large = (1 << 28) - 1;
    for (axes, group, expected) in [
        (
            TRANSPOSED[0],
            2,
            "it has 2 groups and dilations [1, 1], but must have 1 group and no dilation",
        ),
        (
            &[[3, 2, 2, 0, 0, 0], [3, 1, 2, 0, 0, 0]],
            1,
            "its kernel is [2, 1] and its strides are [2, 2]: some pixels meet no element of the kernel",
        ),
        (
            &[[3, 7, 5, 0, 0, 0], [3, 7, 5, 0, 0, 0]],
            1,
            "its kernel is [7, 7] and its strides are [5, 5]: it would become more than 8 convolutions",
        ),
        (
            &[[3, 1, 2, 0, 0, 0], [3, 1, 4, 0, 0, 0]],
            1,
            "its kernel is [1, 1] and its strides are [2, 4]: 8 weights for each two channels, but it must have 4 times those of \
             the kernel or fewer",
        ),
        (
            &[[1, 4, 1, 0, 0, 0], [1, 4, 1, 0, 0, 0]],
            1,
            "as a convolution it would have 256 products for each two channels, but must have 3 times its own 16 or fewer",
        ),
        (
            &[[1, 8, 1, 0, 0, 0], [1, 1, large, 0, 0, 0]],
            1,
            "its kernel is [8, 1] and its strides are [1, 268435455]: 2147483640 weights for each two channels, but it must \
             have 4 times those of the kernel or fewer",
        ),
    ] {
        let model = transposed(DataFormat::NCHW, axes, group)?;
        assert!(!transformed(&model)?.contains(&"PackedConvolution".to_string()));
        assert_eq!(refusals(&model)?, [format!("convolution: {expected}")]);
    }
    Ok(())
}

/// What takes every second element of one axis may follow anything, and tract moves it to the front as far as it can.
#[test]
fn every_second_element_of_an_output() -> TractResult<()> {
    let mut models = vec![];
    for format in FORMATS {
        for axes in TRANSPOSED {
            models.push(transposed(format, axes, 1)?);
        }
    }
    for formula in ["abc,cde->abde", "abc,dec->abde", "abcd,cde->abe", "ab,bcde->acde"] {
        let axes: AxesMapping = formula.parse()?;
        let shape =
            |inputs: &str| inputs.bytes().map(|label| 4 + usize::from(label - b'a')).collect();
        let (data, weights) = formula.split_once(',').unwrap();
        let weights = weights.split('-').next().unwrap();
        let (data, weights): (TVec<usize>, TVec<usize>) = (shape(data), shape(weights));
        let mut model = TypedModel::default();
        let inputs = [
            model.add_source("data", f32::fact(&data))?,
            model.add_const("weights", integers(&weights))?,
        ];
        let output = model.wire_node("product", EinSum::new(axes, DatumType::F32), &inputs)?;
        model.select_output_outlets(&output)?;
        models.push(model);
    }
    for model in models {
        let output = model.output_outlets()?[0];
        for axis in 0..model.outlet_fact(output)?.rank() {
            let mut model = model.clone();
            let output = model.wire_node("second", Downsample::new(axis, 2, 0), &[output])?;
            model.select_output_outlets(&output)?;
            transformed(&model).with_context(|| format!("axis {axis}: {model}"))?;
        }
    }
    Ok(())
}

/// Not a number, and infinite, is only what sees such data.
#[test]
fn transposed_convolutions_of_nan() -> TractResult<()> {
    for axes in TRANSPOSED {
        let mut model = transposed(DataFormat::NCHW, axes, 1)?;
        let before_relu = model.node_by_name("function_1")?.id;
        model.select_output_outlets(&[before_relu.into()])?;
        for number in [f32::NAN, f32::INFINITY] {
            let mut data = inputs_of(&model)?[0].clone().into_tensor();
            data.try_as_plain_ram_mut()?.as_slice_mut::<f32>()?[0] = number;
            let run = |model: &TypedModel| -> TractResult<Vec<String>> {
                let output = model.clone().into_runnable()?.run(tvec!(data.clone().into()))?;
                let plain = output[0].try_as_plain_ram()?;
                let numbers = plain.as_slice::<f32>()?.iter();
                Ok(numbers
                    .map(
                        |number| {
                            if number.is_finite() { "finite".into() } else { number.to_string() }
                        },
                    )
                    .collect())
            };
            let expected = run(&model)?;
            assert!(expected.contains(&"finite".to_string()), "{axes:?}");
            assert_eq!(run(&model.clone().with_kernels()?)?, expected, "{axes:?} {number}");
        }
    }
    Ok(())
}

/// Of data of open sizes, and behind a stride that is an operator of its own, which the convolution takes.
#[test]
fn transposed_convolutions_of_open_sizes() -> TractResult<()> {
    for axes in [TRANSPOSED[0], TRANSPOSED[1], TRANSPOSED[2]] {
        let symbols = SymbolScope::default();
        let open = symbols.sym("S").to_dim();
        let known = transposed(DataFormat::NCHW, axes, 1)?;
        let mut model = TypedModel { symbols, ..TypedModel::default() };
        let mut outlet = model
            .add_source("data", f32::fact([2.to_dim(), 5.to_dim(), open, axes[1][0].to_dim()]))?;
        outlet = model.wire_node("every_second", Downsample::new(2, 2, 0), &[outlet])?[0];
        for node in known.nodes().iter().skip(1) {
            let constant = |outlet: &OutletId| known.outlet_fact(*outlet).unwrap().konst.clone();
            if node.inputs.is_empty() {
                continue;
            }
            let mut inputs = tvec![outlet];
            for (number, konst) in node.inputs.iter().filter_map(constant).enumerate() {
                inputs.push(model.add_const(format!("{}.{number}", node.name), konst)?);
            }
            outlet = model.wire_node(&node.name, node.op.clone(), &inputs)?[0];
        }
        model.select_output_outlets(&[outlet])?;
        let transformed = model.clone().with_kernels()?;
        let found = names(&transformed);
        assert!(found.contains(&"PackedConvolution".to_string()), "{found:?}");
        // A kernel of one tap has no pads, and takes the stride.
        let is_taken = axes.iter().all(|axis| axis[1] <= axis[2]);
        assert_eq!(!found.contains(&"Downsample".to_string()), is_taken, "{axes:?} {found:?}");
        for size in [3, 8] {
            let data: TVec<TValue> = tvec!(integers(&[2, 5, size, axes[1][0]]).into());
            let expected = model.clone().into_runnable()?.run(data.clone())?;
            for model in [transformed.clone(), transformed.clone().into_optimized()?] {
                let found = model.into_runnable()?.run(data.clone())?;
                found[0].close_enough(&expected[0], Approximation::Close)?;
            }
        }
    }
    Ok(())
}

#[test]
fn weights_that_are_computed_stay() -> TractResult<()> {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([1, 4, 8, 8]))?;
    let weights = model.add_source("weights", f32::fact([6, 4, 3, 3]))?;
    let bias = model.add_const("bias", integers(&[6]))?;
    let spec = PoolSpec::new(DataFormat::NCHW, tvec![3, 3], PaddingSpec::Valid, None, None, 4, 6);
    let conv = Conv::new(spec, KernelFormat::OIHW, 1, None);
    let output = model.wire_node("conv", conv, &[data, weights, bias])?;
    model.select_output_outlets(&output)?;
    transformed(&model)?;
    let expected = "convolution: its weights and its bias must be constants of type F32";
    assert_eq!(refusals(&model)?, [expected]);
    Ok(())
}

#[test]
fn pools_of_all_formats() -> TractResult<()> {
    for format in FORMATS {
        let mut model = TypedModel::default();
        let data = format.from_n_c_hw(1, 3, [7; 2])?.shape;
        let data = model.add_source("data", f32::fact(&data))?;
        for padding in [
            PaddingSpec::Explicit(tvec![1; 2], tvec![1; 2]),
            PaddingSpec::Valid,
            PaddingSpec::SameUpper,
            PaddingSpec::ExplicitOnnxPool(tvec![0, 1], tvec![1, 0], false),
            PaddingSpec::ExplicitOnnxPool(tvec![0; 2], tvec![0; 2], true),
            PaddingSpec::ExplicitOnnxPool(tvec![1; 2], tvec![0; 2], true),
        ] {
            let strides = Some(tvec![2; 2]);
            let spec = PoolSpec::new(format, tvec![3; 2], padding.clone(), None, strides, 3, 3);
            let ops: [Box<dyn TypedOp>; 4] = [
                Box::new(MaxPool::new(spec.clone(), None)),
                Box::new(SumPool::new(spec.clone(), false, false)),
                Box::new(SumPool::new(spec.clone(), false, true)),
                Box::new(SumPool::new(spec, true, true)),
            ];
            for op in ops {
                let doing = format!("{format:?} {op:?}");
                let mut model = model.clone();
                let output = model.wire_node("pool", op, &[data])?;
                model.select_output_outlets(&output)?;
                let found = transformed(&model).context(doing.clone())?;
                let refusals = refusals(&model)?;
                assert_eq!(
                    found.contains(&"ChannelsLastPool".to_string()),
                    refusals.is_empty(),
                    "{doing}"
                );
                // With this padding the last windows reach beyond it, and what is there does not count.
                let reaches_beyond = matches!(
                    &padding,
                    PaddingSpec::ExplicitOnnxPool(begin, _, true) if begin[0] > 0
                );
                let counts = doing.contains("count_include_pad: true");
                assert_eq!(
                    refusals.is_empty(),
                    !(reaches_beyond && counts),
                    "{doing}: {refusals:?}"
                );
            }
        }
    }
    Ok(())
}

/// A model of one Resize, with scales or with sizes.
fn resize(op: resize::Resize, shape: ShapeFact, numbers: Tensor) -> TractResult<TypedModel> {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact(shape))?;
    let numbers = model.add_const("numbers", numbers)?;
    let output = model.wire_node("resize", op, &[data, numbers])?;
    model.select_output_outlets(&output)?;
    Ok(model)
}

#[test]
fn resizes_of_all_modes() -> TractResult<()> {
    use resize::{CoordTransformer::*, Interpolator::*, Nearest::*, Resize};
    for coord_transformer in [
        HalfPixel,
        AlignCorners,
        Asymmetric,
        PytorchHalfPixel,
        HalfPixelSymmetric,
        TfHalfPixelForNn,
    ] {
        for (interpolator, nearest) in
            [(Linear, Floor), (Cubic, Floor), (Nearest, Floor), (Nearest, RoundPreferCeil)]
        {
            let of_scales = Resize {
                coord_transformer: coord_transformer.clone(),
                interpolator,
                nearest,
                optional_scales_input: Some(1),
                optional_sizes_input: None,
            };
            let of_sizes = Resize {
                optional_scales_input: None,
                optional_sizes_input: Some(1),
                ..of_scales.clone()
            };
            for scales in [[1f32, 1., 2., 2.], [1., 1., 3., 1.5], [1., 2., 0.5, 0.75]] {
                let shape = [1, 2, 4, 6];
                let sizes: Vec<i64> = shape
                    .iter()
                    .zip(scales)
                    .map(|(size, scale)| (*size as f32 * scale) as i64)
                    .collect();
                for (op, numbers) in [(&of_scales, tensor1(&scales)), (&of_sizes, tensor1(&sizes))]
                {
                    let model = resize(op.clone(), shape.into(), numbers)?;
                    let doing = format!("{op:?} {scales:?}");
                    // Axes are resized in another order.
                    let within = Approximation::Custom(1e-6, 1e-6, 0.);
                    let found = transformed_within(&model, within).context(doing.clone())?;
                    assert_eq!(found, ["ResizeAxes"], "{doing}");
                }
            }
        }
    }
    Ok(())
}

/// tract makes them of Resize in its nearest modes.
#[test]
fn nearest_upsampling() -> TractResult<()> {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([1, 2, 3, 5]))?;
    let op = resize::NearestUpsample { scales: tvec![1, 1, 2, 3] };
    let output = model.wire_node("upsampled", op, &[data])?;
    model.select_output_outlets(&output)?;
    assert_eq!(transformed(&model)?, ["ResizeAxes"]);
    Ok(())
}

#[test]
fn softmax_along_each_axis() -> TractResult<()> {
    for axes in [tvec![0], tvec![1], tvec![2], tvec![1, 2]] {
        for kind in [SoftmaxKind::Softmax, SoftmaxKind::LogSoftmax] {
            let mut model = TypedModel::default();
            let data = model.add_source("data", f32::fact([2, 3, 5]))?;
            let op = Softmax { axes: axes.clone(), quant_output_dt: None, kind };
            let output = model.wire_node("softmax", op, &[data])?;
            model.select_output_outlets(&output)?;
            let is_taken = axes.len() == 1 && kind == SoftmaxKind::Softmax;
            let within = Approximation::Custom(1e-6, 1e-6, 0.);
            let found = transformed_within(&model, within)?;
            assert_eq!(found == ["SoftmaxOfAxis"], is_taken, "{axes:?} {kind:?}: {found:?}");
            assert_eq!(refusals(&model)?.is_empty(), is_taken);
        }
    }
    Ok(())
}

#[test]
fn reductions() -> TractResult<()> {
    for (axes, reducer, refused) in [
        (tvec![2, 3], Reducer::Sum, None),
        (tvec![3], Reducer::Sum, None),
        (tvec![0, 1, 2, 3], Reducer::Sum, None),
        (tvec![1], Reducer::Sum, None),
        (tvec![0, 1], Reducer::Prod, None),
        (tvec![0, 2, 3], Reducer::Min, None),
        (tvec![1, 3], Reducer::Max, None),
        (tvec![], Reducer::Max, Some("reduction: it has no axes, but must have 1 or more")),
        (tvec![2, 3], Reducer::MeanOfSquares, Some("")),
    ] {
        let mut model = TypedModel::default();
        let data = model.add_source("data", f32::fact([2, 3, 5, 7]))?;
        let output = model.wire_node("sum", Reduce::new(axes.clone(), reducer), &[data])?;
        model.select_output_outlets(&output)?;
        let found = transformed(&model)?;
        let is_ours = found.iter().all(|name| name == "ReductionOfAxes");
        assert_eq!(is_ours, refused.is_none(), "{axes:?} {reducer:?} {found:?}");
        let said = refusals(&model)?.join("");
        assert_eq!(said, refused.unwrap_or_default());
    }
    Ok(())
}

#[test]
fn resizes_of_open_sizes_stay() -> TractResult<()> {
    let op = resize::Resize {
        coord_transformer: resize::CoordTransformer::HalfPixel,
        interpolator: resize::Interpolator::Linear,
        nearest: resize::Nearest::Floor,
        optional_scales_input: Some(1),
        optional_sizes_input: None,
    };
    let symbols = SymbolScope::default();
    let open = symbols.sym("N").to_dim();
    // An axis that stays may be open.
    for (shape, scales, expected) in [
        ([open.clone(), 4.to_dim()], [1f32, 2.], None),
        ([4.to_dim(), open], [1., 2.], Some("resize: axis 1 has sizes N and 2*N")),
    ] {
        let model = resize(op.clone(), shape.into_iter().into(), tensor1(&scales))?;
        let found = refusals(&model)?;
        assert_eq!(found.first().map(String::as_str), expected, "{found:?}");
        let found = names(&model.with_kernels()?);
        assert_eq!(found, [if expected.is_none() { "ResizeAxes" } else { "Resize" }]);
    }
    let model = resize(op, [1].into(), tensor1(&[(1 << 30) as f32]))?;
    let expected = "resize: axis 0 would have size 1073741824, but must have 1048576 or less";
    assert_eq!(refusals(&model)?, [expected]);
    Ok(())
}

fn product(
    model: &mut TypedModel,
    name: &str,
    axes: &str,
    factors: [OutletId; 2],
) -> TractResult<OutletId> {
    let op = EinSum::new(axes.parse()?, DatumType::F32);
    Ok(model.wire_node(name, op, &factors)?[0])
}

/// The product of what is fed, of this shape, and weights of that one.
fn product_model(axes: &str, data: &[usize], weights: &[usize]) -> TractResult<TypedModel> {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact(data))?;
    let weights = model.add_const("weights", integers(weights))?;
    let output = product(&mut model, "product", axes, [data, weights])?;
    model.select_output_outlets(&[output])?;
    Ok(model)
}

#[test]
fn a_product_takes_its_bias_and_its_activation() -> TractResult<()> {
    for (axes, weights) in [("bmk,kn->bmn", [4, 3]), ("bmk,nk->bmn", [3, 4])] {
        let mut model = product_model(axes, &[2, 5, 4], &weights)?;
        let bias = model.add_const("bias", tensor3(&[[[1f32, -2., 3.]]]))?;
        let product = model.output_outlets()?[0];
        let sum = model.wire_node("sum", add(), &[product, bias])?[0];
        let zero = model.add_const("zero", tensor3(&[[[0f32]]]))?;
        let relu = model.wire_node("relu", max(), &[zero, sum])?;
        model.select_output_outlets(&relu)?;
        assert_eq!(transformed(&model)?, ["FullyConnected"], "{axes}");
    }
    Ok(())
}

/// A product may sum over a split of the channels itself.
#[test]
fn a_product_of_split_channels_is_a_convolution() -> TractResult<()> {
    let split_in = |axes: &str, weights: &[usize]| {
        let mut model = TypedModel::default();
        let data = model.add_source("data", f32::fact([8, 6, 7]))?;
        let weights = model.add_const("weights", integers(weights))?;
        let split = AxisOp::Reshape(0, tvec![8.to_dim()], tvec![4.to_dim(), 2.to_dim()]);
        let split = model.wire_node("split", split, &[data])?[0];
        let output = product(&mut model, "product", axes, [split, weights])?;
        model.select_output_outlets(&[output])?;
        TractResult::Ok(without_moves(transformed(&model)?).join(" "))
    };
    assert_eq!(split_in("aIHW,OaI->OHW", &[5, 4, 2])?, "PackedConvolution");
    assert_eq!(split_in("aIHW,IOa->OHW", &[2, 5, 4])?, "PackedConvolution");
    // One of the parts stays.
    assert_eq!(split_in("aIHW,OaI->aOHW", &[5, 4, 2])?, "Reshape EinSum");
    Ok(())
}

/// A reshape that tract takes into a product gives its matrix more axes.
#[test]
fn rows_and_columns_of_several_axes() -> TractResult<()> {
    let of = |axes: &str, data: &[usize], weights: &[usize], bias: &[usize]| {
        let mut model = product_model(axes, data, weights)?;
        let bias = model.add_const("bias", integers(bias))?;
        let product = model.output_outlets()?[0];
        let sum = model.wire_node("sum", add(), &[product, bias])?;
        model.select_output_outlets(&sum)?;
        TractResult::Ok(transformed(&model)?.join(" "))
    };
    let merged = of("bqhd,hdo->bqo", &[2, 5, 3, 4], &[3, 4, 6], &[1, 1, 6])?;
    assert!(merged.ends_with("FullyConnected"), "{merged}");
    let split = of("bqk,hdk->bqhd", &[2, 5, 7], &[3, 4, 7], &[1, 1, 3, 4])?;
    assert!(split.starts_with("FullyConnected"), "{split}");
    // The matrix may be the first factor.
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([5, 4]))?;
    let weights = model.add_const("weights", integers(&[4, 3]))?;
    let output = product(&mut model, "product", "kn,mk->mn", [weights, data])?;
    model.select_output_outlets(&[output])?;
    assert_eq!(transformed(&model)?, ["FullyConnected"]);
    // Heads that are not next to each other are no matrix.
    let other = product_model("bhqd,hdo->bqo", &[2, 3, 5, 4], &[3, 4, 6])?;
    assert!(!names(&other.with_kernels()?).contains(&"FullyConnected".to_string()));
    Ok(())
}

/// As some programs export it: a sum, two limits, a product with the number itself, and a sixth of that.
#[test]
fn hard_swish_of_several_operators() -> TractResult<()> {
    for (is_divided, is_scaled_first) in [(false, false), (true, false), (false, true)] {
        let mut model = TypedModel::default();
        let x = Convolution::default().wire(&mut model)?;
        let mut number = |name: &str, number: f32| {
            model.add_const(name, Tensor::from_shape(&[1; 4], &[number])?)
        };
        let (three, six, zero) = (number("3", 3.)?, number("6", 6.)?, number("0", 0.)?);
        let sixth = number("sixth", if is_divided { 6. } else { 1. / 6. })?;
        let scale = if is_divided { div() } else { mul() };
        let moved = model.wire_node("moved", add(), &[x, three])?[0];
        let least = model.wire_node("least", max(), &[moved, zero])?[0];
        let mut part = model.wire_node("most", min(), &[least, six])?[0];
        if is_scaled_first {
            part = model.wire_node("scaled", scale.clone(), &[part, sixth])?[0];
        }
        let mut output = model.wire_node("output", mul(), &[x, part])?;
        if !is_scaled_first {
            output = model.wire_node("scaled", scale, &[output[0], sixth])?;
        }
        model.select_output_outlets(&output)?;
        assert_eq!(without_moves(transformed(&model)?), ["PackedConvolution"]);
    }
    Ok(())
}

/// Numbers that a hard swish is multiplied with, or that are added, are taken; what divides it is, and what it divides is not.
#[test]
fn what_follows_hard_swish() -> TractResult<()> {
    let one = "PackedConvolution";
    let model = |ops: &[(TypedBinOp, f32, bool)]| -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut output = Convolution::default().wire(&mut model)?;
        let hard_swish = tract_core::ops::nn::hard_swish();
        output = model.wire_node("hard_swish", hard_swish, &[output])?[0];
        for (number, (op, operand, is_left)) in ops.iter().enumerate() {
            let operand = Tensor::from_shape(&[1; 4], &[*operand])?;
            let operand = model.add_const(format!("operand.{number}"), operand)?;
            let inputs = if *is_left { [operand, output] } else { [output, operand] };
            output = model.wire_node(format!("op.{number}"), op.clone(), &inputs)?[0];
        }
        model.select_output_outlets(&[output])?;
        Ok(model)
    };
    for ops in [
        vec![(mul(), -1.5, false)],
        vec![(mul(), 1.5, true), (add(), -0.25, false), (mul(), 3., false)],
        vec![(add(), -0.25, true), (div(), 3., false)],
    ] {
        // The product of two factors is rounded.
        let found = transformed_within(&model(&ops)?, Approximation::Approximate)?;
        assert_eq!(without_moves(found), [one], "{ops:?}");
    }
    // Where it is 0, the quotient is infinite.
    for ops in [
        vec![(div(), 2., true)],
        vec![(mul(), f32::INFINITY, false), (add(), 1., false)],
        vec![(max(), -0.1, false)],
    ] {
        let found = without_moves(names(&model(&ops)?.with_kernels()?));
        assert_eq!(found, [one, "Elementwise"], "{ops:?}");
    }
    // Limits of a number that was multiplied before are other ones.
    for (name, factor, expected) in
        [("hard swish", None, vec![one]), ("no hard swish", Some(2f32), vec![one, "Elementwise"])]
    {
        let mut model = TypedModel::default();
        let x = Convolution::default().wire(&mut model)?;
        let mut part = x;
        let before = factor.map(|factor| (mul(), factor));
        let steps =
            [Some((add(), 3.)), before, Some((max(), 0.)), Some((min(), 6.)), Some((mul(), 0.5))];
        for (number, (op, operand)) in steps.into_iter().flatten().enumerate() {
            let operand = Tensor::from_shape(&[1; 4], &[operand])?;
            let operand = model.add_const(format!("operand.{number}"), operand)?;
            part = model.wire_node(format!("op.{number}"), op, &[part, operand])?[0];
        }
        let output = model.wire_node("output", mul(), &[x, part])?;
        model.select_output_outlets(&output)?;
        assert_eq!(without_moves(transformed(&model)?), expected, "{name}");
    }
    Ok(())
}

/// A constant on the left is that of a convolution of one pixel, unless it is one.
#[test]
fn constants_on_both_sides() -> TractResult<()> {
    let of = |axes, data: &[usize], weights: &[usize]| {
        TractResult::Ok(without_moves(transformed(&product_model(axes, data, weights)?)?).join(" "))
    };
    assert_eq!(of("bkn,mk->bmn", &[2, 4, 9], &[3, 4])?, "PackedConvolution");
    assert_eq!(of("bkn,km->bmn", &[2, 4, 9], &[4, 3])?, "PackedConvolution");
    assert_eq!(of("kn,mk->mn", &[4, 9], &[3, 4])?, "PackedConvolution");
    // Few columns are rows.
    assert!(of("kn,mk->mn", &[4, 2], &[3, 4])?.contains("FullyConnected"));
    // Weights for each of a batch, which few rows meet, or many rows or columns.
    assert_eq!(of("bmk,bkn->bmn", &[2, 4, 9], &[2, 9, 5])?, "EinSum");
    assert_eq!(of("bmk,bkn->bmn", &[2, 70, 9], &[2, 9, 5])?, "Contraction");
    assert_eq!(of("bkn,bmk->bmn", &[2, 9, 70], &[2, 5, 9])?, "Contraction");
    Ok(())
}

/// Products in half precision are such in single precision; without that part they stay.
#[test]
fn half_precision_stays_without_its_part() -> TractResult<()> {
    let model = product_model("mk,kn->mn", &[1, 2], &[2, 3])?;
    let translator = FloatPrecisionTranslator::new(DatumType::F32, DatumType::F16);
    let model = translator.translate_model(&model)?;
    let data = tensor2(&[[-1f32, 1.]]).cast_to::<f16>()?.into_owned();
    let output = model.clone().into_runnable_with_kernels()?.run(tvec!(data.into_tvalue()))?;
    assert_eq!(output[0].datum_type(), DatumType::F16);
    assert!(names(&model.clone().with_kernels()?).contains(&"FullyConnected".to_string()));
    let config = KernelsConfig { without: vec!["half_precision".into()], ..Default::default() };
    let transform = KernelsTransform::new(config)?;
    let decisions = transform.transform_with_decisions(&mut model.clone())?;
    let expected = "its weights are of type F16, but must be F32";
    let is_it =
        |decision: &Decision| matches!(&decision.outcome, Outcome::Refused(it) if it == expected);
    assert!(decisions.iter().any(is_it), "{decisions:?}");
    Ok(())
}

/// A product, as a body.
fn body(model: &TypedModel, factor: f32) -> TractResult<TypedModel> {
    let mut body = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
    let data = body.add_source("x", f32::fact([1, 4]))?;
    let mut weights = integers(&[4, 4]);
    let mut view = weights.try_as_plain_ram_mut()?;
    view.as_slice_mut::<f32>()?.iter_mut().for_each(|it| *it *= factor);
    let weights = body.add_const("w", weights)?;
    let output = product(&mut body, "product", "mk,kn->mn", [data, weights])?;
    body.select_output_outlets(&[output])?;
    Ok(body)
}

#[test]
fn products_in_a_scan() -> TractResult<()> {
    let mut model = TypedModel::default();
    let mut inner = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
    let data = inner.add_source("x", f32::fact([1, 4]))?;
    let state = inner.add_source("state", f32::fact([1, 4]))?;
    // It needs the state, so that tract does not compute it once for all iterations.
    let sum = inner.wire_node("sum", add(), &[data, state])?[0];
    let weights = inner.add_const("w", integers(&[4, 4]))?;
    let next = product(&mut inner, "product", "mk,kn->mn", [sum, weights])?;
    inner.select_output_outlets(&[next])?;
    let data = model.add_source("data", f32::fact([5, 4]))?;
    let state = model.add_source("state", f32::fact([1, 4]))?;
    let info = ScanInfo { axis: 0, chunk: 1 };
    let output = OutputMapping {
        scan: Some((0, info)),
        full_dim_hint: None,
        last_value_slot: None,
        state: true,
    };
    let scan =
        Scan::new(inner, vec![InputMapping::Scan(info), InputMapping::State], vec![output], 0)?;
    let output = model.wire_node("scan", scan, &[data, state])?;
    model.select_output_outlets(&output)?;
    transformed(&model)?;
    let mut model = model;
    let decisions = KernelsTransform::default().transform_with_decisions(&mut model)?;
    let of_product = decisions.iter().find(|it| it.node == "scan/product").unwrap();
    assert_eq!(of_product.outcome, Outcome::Replaced("FullyConnected".into()));
    let scan = model.nodes().iter().find_map(|node| node.op_as::<Scan>()).unwrap();
    assert!(names(&scan.body).contains(&"FullyConnected".to_string()));
    Ok(())
}

#[test]
fn products_in_both_branches() -> TractResult<()> {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([1, 4]))?;
    let zero = model.add_const("zero", tensor1(&[0f32]))?;
    let first = model.add_source("first", f32::fact([1]))?;
    let condition = model.wire_node("positive", TypedBinOp(comp_gt(), None), &[first, zero])?[0];
    let op = IfThenElse {
        then_body: body(&model, 1.)?,
        then_input_mapping: vec![1],
        else_body: body(&model, 2.)?,
        else_input_mapping: vec![1],
    };
    let output = model.wire_node("if", op, &[condition, data])?;
    model.select_output_outlets(&output)?;
    transformed(&model)?;
    let model = model.with_kernels()?;
    let op = model.nodes().iter().find_map(|node| node.op_as::<IfThenElse>()).unwrap();
    for body in [&op.then_body, &op.else_body] {
        assert_eq!(names(body), ["FullyConnected"]);
    }
    Ok(())
}

/// tract finds the transform and the runtime by their names, and reads the options.
#[test]
fn by_name() -> TractResult<()> {
    let model = product_model("mk,kn->mn", &[2, 4], &[4, 3])?;
    let transform = get_transform("kernels_transform")?.unwrap();
    assert_eq!(names(&transform.transform_into(model.clone())?), ["FullyConnected"]);
    let with = |options: &str| {
        let mut options = serde_json::Deserializer::from_str(options);
        let mut options = <dyn erased_serde::Deserializer>::erase(&mut options);
        get_transform_with_params("kernels_transform", &mut options)
    };
    let without = with(r#"{"without": ["fully_connected"]}"#)?.unwrap();
    assert_eq!(names(&without.transform_into(model.clone())?), ["EinSum"]);
    let error = with(r#"{"without": ["convolutions"]}"#).err().unwrap().to_string();
    assert!(
        error.contains(
            r#"no rule "convolutions", but half_precision, quantized, bf16_tensors, compressed, prelu, gelu, convolution, pool"#
        ),
        "{error}"
    );
    with(r#"{"with": []}"#).err().unwrap();
    let data = inputs_of(&model)?;
    let expected = model.clone().into_runnable()?.run(data.clone())?;
    let runtime = runtime_for_name("kernels")?.unwrap();
    let runnable = runtime.prepare(model)?;
    assert_eq!(names(runnable.typed_model().unwrap()), ["FullyConnected"]);
    assert_eq!(runnable.run(data)?, expected);
    Ok(())
}

/// tract has passes of these names, and there is one more.
#[test]
fn passes_wait() {
    let all = Optimizer::declutter().passes.len() + 1;
    for name in [LATER_PASS, LEFT_OUT] {
        assert_eq!(declutter_without(&[name]).passes.len(), all - 1, "{name}");
    }
    assert_eq!(declutter_without(&[LATER_PASS, LEFT_OUT]).passes.len(), all - 2);
}

/// Threads share the groups of a convolution, its pixels, or its channels if there are few pixels.
#[test]
#[cfg(feature = "multithread-mm")]
fn convolutions_give_what_they_give_on_one_thread() -> TractResult<()> {
    use tract_core::prelude::multithread::{
        Executor, multithread_tract_scope, set_threading_element_threshold,
    };
    set_threading_element_threshold(0);
    for (group, inputs, outputs, size, kernel, stride) in [
        (1, 3, 20, 40, 3, 1),
        (1, 3, 400, 40, 3, 1),
        (1, 8, 20, 40, 1, 1),
        (1, 3, 20, 41, 3, 2),
        (1, 40, 330, 7, 3, 1),
        (9, 18, 27, 20, 3, 1),
    ] {
        let padding = kernel / 2;
        let of = Convolution {
            group,
            inputs,
            outputs,
            size,
            kernel,
            stride,
            padding,
            ..Convolution::default()
        };
        let model = of.model(&[])?;
        let data = inputs_of(&model)?;
        let plan = model.into_runnable_with_kernels()?;
        assert_eq!(without_moves(names(plan.model())), ["PackedConvolution"]);
        let expected = plan.run(data.clone())?;
        for threads in [2, 3, 7] {
            let executor = Executor::multithread(threads);
            let found = multithread_tract_scope(executor, || plan.run(data.clone()))?;
            assert_eq!(found, expected, "{of:?} on {threads} threads");
        }
    }
    Ok(())
}

/// Data that meets compressed weights is rounded only if the program asks for it.
#[test]
fn dynamic_quantization_is_an_option() -> TractResult<()> {
    let (rows, depth, columns) = (8, 64, 5);
    let codes: Vec<u8> = (0..columns * depth).map(|place| (place * 7 % 256) as u8).collect();
    let scale = Tensor::from_shape(&[columns, 1], &[0.1f32; 5])?;
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([rows, depth]))?;
    let codes = Tensor::from_shape(&[columns, depth], &codes)?;
    let weights = DequantizedConst::new(codes, None, Some(scale))?;
    let weights = model.wire_node("weights", weights, &[])?[0];
    let product = EinSum::new("mk,nk->mn".parse()?, f32::datum_type());
    let product = model.wire_node("product", product, &[data, weights])?;
    model.select_output_outlets(&product)?;
    let numbers: Vec<f32> = (0..rows * depth).map(|place| (place as f32).sin()).collect();
    let data = Tensor::from_shape(&[rows, depth], &numbers)?;
    let run = |dynamic_quantization: bool| -> TractResult<(bool, Tensor)> {
        let config = KernelsConfig { dynamic_quantization, ..KernelsConfig::default() };
        let runnable = KernelsTransform::new(config)?.runnable(model.clone())?;
        let mut infos = runnable.model().nodes().iter().flat_map(|node| node.op.info());
        let is_said = infos.any(|info| info.concat().contains("U8 with dynamic quantization"));
        let output = runnable.run(tvec!(data.clone().into()))?.remove(0).into_tensor();
        Ok((is_said, output))
    };
    let (exact, rounded) = (run(false)?, run(true)?);
    assert_eq!([exact.0, rounded.0], [false, true]);
    exact.1.close_enough(&rounded.1, Approximation::Custom(0.5, 0.02, 0.))?;
    Ok(())
}

/// Products, layers and attention round their factors only if the program asks for it, and the processor multiplies such numbers.
#[test]
fn inference_precision_is_an_option() -> TractResult<()> {
    let size = 32;
    let numbers = |count: usize| (0..count).map(|it| (it as f32).sin()).collect::<Vec<f32>>();
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([16, size]))?;
    let einsum = |axes: &str| TractResult::Ok(EinSum::new(axes.parse()?, f32::datum_type()));
    let mut of_layers = tvec!();
    for name in ["queries", "keys", "values"] {
        let weights = Tensor::from_shape(&[size, size], &numbers(size * size))?;
        let weights = model.add_const(format!("{name}.weights"), weights)?;
        of_layers.extend(model.wire_node(name, einsum("mk,nk->mn")?, &[data, weights])?);
    }
    let scores = model.wire_node("scores", einsum("mk,nk->mn")?, &of_layers[..2])?[0];
    let softmax = Softmax::new(tvec![1], None, SoftmaxKind::Softmax);
    let weights = model.wire_node("softmax", softmax, &[scores])?[0];
    let attended = model.wire_node("attended", einsum("mk,kn->mn")?, &[weights, of_layers[2]])?;
    let product = model.wire_node("product", einsum("mk,nk->mn")?, &[attended[0], data])?;
    model.select_output_outlets(&product)?;
    let data = Tensor::from_shape(&[16, size], &numbers(16 * size))?;
    let run = |precision: Option<&str>| -> TractResult<Tensor> {
        let options = match precision {
            Some(precision) => format!("{{\"inference_precision\": \"{precision}\"}}"),
            None => "{}".to_string(),
        };
        let config: KernelsConfig = serde_json::from_str(&options)?;
        let runnable = KernelsTransform::new(config)?.runnable(model.clone())?;
        let names = names(runnable.model());
        for name in ["FullyConnected", "Contraction", "Attention"] {
            assert!(names.iter().any(|it| it == name), "{names:?}");
        }
        Ok(runnable.run(tvec!(data.clone().into()))?.remove(0).into_tensor())
    };
    with_all_instructions(|instructions| {
        let exact = run(None).unwrap();
        assert_eq!(exact, run(Some("f32")).unwrap());
        let rounded = run(Some("bf16")).unwrap();
        assert_eq!(exact != rounded, instructions.bf16().is_some(), "{instructions:?}");
        exact.close_enough(&rounded, Approximation::Custom(0.5, 0.02, 0.)).unwrap();
    });
    assert!(serde_json::from_str::<KernelsConfig>("{\"inference_precision\": \"f64\"}").is_err());
    Ok(())
}
