//! Networks of FakeQuantize, on codes and in single precision.

use tract_core::internal::*;
use tract_core::ops::array::{Pad, PadMode};
use tract_core::ops::cnn::{Conv, Deconv, KernelFormat, MaxPool, PaddingSpec, PoolSpec};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::{add, max, mul};
use tract_core::ops::nn::{DataFormat, Reduce, Reducer};
use tract_core::ops::quant::{DequantizeLinearF32, quantize_linear_i8, quantize_linear_u8};

use crate::barrier::guard_downsamples;
use crate::compressed::DequantizedConst;
use crate::quantized::FakeQuantize;
use crate::quantized::tests::{random, with_all_instructions};
use crate::transform::tests::TRANSPOSED;
use crate::transform::{Decision, KernelsConfig, KernelsTransform, Outcome};

/// A network that is made node by node.
struct Network {
    model: TypedModel,
    random: Box<dyn FnMut() -> u64>,
}

impl Network {
    fn new() -> Network {
        Network { model: TypedModel::default(), random: Box::new(random(7)) }
    }

    fn wire(&mut self, op: impl Into<Box<dyn TypedOp>>, inputs: &[OutletId]) -> OutletId {
        let op = op.into();
        let name = format!("{}.{}", op.name(), self.model.nodes.len());
        self.model.wire_node(name, op, inputs).unwrap()[0]
    }

    fn constant(&mut self, shape: &[usize], numbers: &[f32]) -> OutletId {
        let name = format!("constant.{}", self.model.nodes.len());
        self.model.add_const(name, Tensor::from_shape(shape, numbers).unwrap()).unwrap()
    }

    fn shape(&self, outlet: OutletId) -> TVec<usize> {
        self.model.outlet_fact(outlet).unwrap().shape.as_concrete().unwrap().into()
    }

    /// Levels for numbers from `low` on in steps, which are larger for each channel if there is an axis of them.
    fn quantized(&mut self, data: OutletId, low: f32, step: f32, axis: Option<usize>) -> OutletId {
        let mut shape = vec![1; self.shape(data).len()];
        let mut steps = vec![step];
        if let Some(axis) = axis {
            shape[axis] = self.shape(data)[axis];
            steps = (0..shape[axis]).map(|channel| step * (1. + channel as f32 / 4.)).collect();
        }
        // Zero is a level.
        let lows: Vec<f32> = steps.iter().map(|step| (low / step).round() * step).collect();
        let highs: Vec<f32> =
            lows.iter().zip(&steps).map(|(low, step)| low + 255. * step).collect();
        let (low, high) = (self.constant(&shape, &lows), self.constant(&shape, &highs));
        self.wire(FakeQuantize { levels: 256 }, &[data, low, high, low, high])
    }

    /// Weights whose scales differ for each output channel.
    fn weights(&mut self, shape: &[usize]) -> OutletId {
        let codes: Vec<i8> = (0..shape.iter().product()).map(|_| (self.random)() as i8).collect();
        let codes = Tensor::from_shape(shape, &codes).unwrap();
        let scales: Vec<f32> = (0..shape[0]).map(|it| 0.002 * (1 + it % 3) as f32).collect();
        let mut scale_shape = vec![1; shape.len()];
        scale_shape[0] = shape[0];
        let scale = Tensor::from_shape(&scale_shape, &scales).unwrap();
        self.wire(DequantizedConst::new(codes, None, Some(scale)).unwrap(), &[])
    }

    fn convolution(
        &mut self,
        data: OutletId,
        outputs: usize,
        group: usize,
        kernel: usize,
    ) -> OutletId {
        let inputs = self.shape(data)[1];
        let pads = tvec![kernel / 2; 2];
        let padding = PaddingSpec::Explicit(pads.clone(), pads);
        let kernel = tvec![kernel; 2];
        let shape = [&[outputs, inputs / group], &*kernel].concat();
        let weights = self.weights(&shape);
        let bias = self.constant(&[outputs], &vec![0.25; outputs]);
        let pool_spec =
            PoolSpec::new(DataFormat::NCHW, kernel, padding, None, None, inputs, outputs);
        let op = Conv { pool_spec, kernel_fmt: KernelFormat::OIHW, group, q_params: None };
        self.wire(op, &[data, weights, bias])
    }

    fn relu(&mut self, data: OutletId) -> OutletId {
        let zero = self.constant(&vec![1; self.shape(data).len()], &[0.]);
        self.wire(max(), &[data, zero])
    }

    /// The same without some rules, and what was decided.
    fn transformed(&self, without: &[&str]) -> (TypedModel, Vec<Decision>) {
        let without = without.iter().map(|name| name.to_string()).collect();
        let config = KernelsConfig { without, ..KernelsConfig::default() };
        let mut model = self.model.clone();
        let decisions =
            KernelsTransform::new(config).unwrap().transform_with_decisions(&mut model).unwrap();
        (model, decisions)
    }

    /// The operators that are left if only this is needed.
    fn operators(&mut self, output: OutletId) -> Vec<String> {
        self.model.select_output_outlets(&[output]).unwrap();
        let model = self.transformed(&[]).0.into_optimized().unwrap();
        model.nodes.iter().map(|node| node.op.name().to_string()).collect()
    }

    /// Runs it on codes and in single precision. Numbers may differ where sums are in the middle of two levels, by one of them:
    /// few do.
    fn check(&mut self, outputs: &[OutletId], input: &[usize]) {
        self.model.select_output_outlets(outputs).unwrap();
        let numbers: Vec<f32> =
            (0..input.iter().product()).map(|_| (self.random)() as u8 as f32 / 64. - 2.).collect();
        let data = Tensor::from_shape(input, &numbers).unwrap();
        let run = |model: TypedModel| {
            let runnable = model.into_optimized().unwrap().into_runnable().unwrap();
            runnable.run(tvec!(data.clone().into_tvalue())).unwrap()
        };
        // As the model is: tract's declutter computes some sequences of these operators otherwise.
        let expected = self.model.clone().into_runnable().unwrap();
        let expected = expected.run(tvec!(data.clone().into_tvalue())).unwrap();
        let found = run(self.transformed(&[]).0);
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.shape(), expected.shape());
            let of = |tensor: &TValue| {
                tensor.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec()
            };
            let (found, expected) = (of(found), of(expected));
            let most = expected.iter().fold(0f32, |most, it| most.max(it.abs()));
            let apart: Vec<f32> =
                found.iter().zip(&expected).map(|(a, b)| (a - b).abs() / most).collect();
            let differ = apart.iter().filter(|apart| **apart > 1e-4).count();
            assert!(differ <= apart.len() / 50, "output {number}: {differ} of {}", apart.len());
            assert!(apart.iter().all(|apart| *apart < 0.03), "output {number}: {apart:?}");
        }
    }
}

fn count(operators: &[String], name: &str) -> usize {
    operators.iter().filter(|operator| *operator == name).count()
}

/// All that lies between codes works on codes: convolutions, pools, sums, products, and what moves elements.
#[test]
fn a_network_on_codes() {
    with_all_instructions(|_| {
        let input = [2, 3, 9, 7];
        let mut net = Network::new();
        let data = net.model.add_source("data", f32::fact(input)).unwrap();
        let coded = net.quantized(data, -2., 0.016, None);
        let conv = net.convolution(coded, 12, 1, 3);
        let relu = net.relu(conv);
        let scales: Vec<f32> = (0..12).map(|it| 0.8 + it as f32 / 32.).collect();
        let scales = net.constant(&[1, 12, 1, 1], &scales);
        let scaled = net.wire(mul(), &[relu, scales]);
        let bias = net.constant(&[1, 1, 1, 1], &[0.125]);
        let moved = net.wire(add(), &[scaled, bias]);
        let of_channels = net.quantized(moved, 0., 0.01, Some(1));
        let depthwise = net.convolution(of_channels, 12, 12, 3);
        let deep = net.quantized(depthwise, -4., 0.04, None);
        let padding = PaddingSpec::Explicit(tvec![1, 1], tvec![1, 1]);
        let strides = Some(tvec![2, 2]);
        let spec = PoolSpec::new(DataFormat::NCHW, tvec![3, 3], padding, None, strides, 12, 12);
        let pool = net.wire(MaxPool::new(spec, None), &[deep]);
        let grouped = net.convolution(pool, 12, 3, 1);
        let bias = net.constant(&[1, 12, 1, 1], &[0.5; 12]);
        let grouped = net.wire(add(), &[grouped, bias]);
        // Steps have no simple ratios: there would be many ties.
        let added = net.quantized(grouped, -3., 0.0317, None);
        let sum = net.wire(add(), &[added, pool]);
        let sum = net.relu(sum);
        let sum = net.quantized(sum, 0., 0.0413, None);
        // Of what no layer gives.
        let again = net.wire(add(), &[sum, pool]);
        let again = net.quantized(again, -4., 0.0571, None);
        let mean = net.wire(Reduce { axes: tvec![2, 3], reducer: Reducer::Sum }, &[again]);
        let pixels = net.constant(&[1, 1, 1, 1], &[1. / 20.]);
        let mean = net.wire(mul(), &[mean, pixels]);
        let mean = net.quantized(mean, -1., 0.0211, None);
        let gate = net.convolution(mean, 12, 1, 1);
        let gate = net.quantized(gate, -2., 0.0197, None);
        let scaled = net.wire(mul(), &[gate, sum]);
        let scaled = net.quantized(scaled, -4., 0.0532, None);
        let both = net.wire(tract_core::ops::array::TypedConcat { axis: 1 }, &[scaled, scaled]);
        let sizes = [24, 5, 4].map(|size: usize| size.to_dim());
        let flat = AxisOp::Reshape(1, sizes.as_slice().into(), tvec![480.to_dim()]);
        let flat = net.wire(flat, &[both]);
        let weights = net.weights(&[10, 480]);
        let axes = "mk,nk->mn".parse().unwrap();
        let rows = net
            .wire(EinSum { axes, operating_dt: DatumType::F32, q_params: None }, &[flat, weights]);
        let bias = net.constant(&[1, 10], &[1.; 10]);
        let rows = net.wire(add(), &[rows, bias]);
        let operators = net.operators(rows);
        assert_eq!(count(&operators, "QuantizedConvolution"), 5, "{operators:?}");
        for name in
            ["Quantize", "QuantizedMaxPool", "QuantizedAdd", "QuantizedSum", "QuantizedMultiply"]
        {
            assert_eq!(count(&operators, name), 1, "{name} {operators:?}");
        }
        // A row has the pixels of one channel after the other.
        assert_eq!(count(&operators, "Transposition"), 1, "{operators:?}");
        for name in ["Dequantize", "FakeQuantize"] {
            assert_eq!(count(&operators, name), 0, "{name} {operators:?}");
        }
        net.check(&[of_channels, deep, pool, added, sum, again, mean, gate, scaled], &input);
        net.check(&[rows], &input);
    });
}

/// Whether a crate above says that an operator moves elements, or this one knows it, and whether it can move its axes.
#[test]
fn movements() {
    use tract_core::ops::array::{Slice, Tile, TypedConcat};
    crate::register_movement!(Moves, |op| op.is::<Tile>());
    let input = [2, 6, 9, 7];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let coded = net.quantized(data, -2., 0.016, None);
    let channels = net.wire(Slice::new(1, 1, 5), &[coded]);
    let rows = net.wire(Slice::new(2, 2, 8), &[channels]);
    let columns = net.wire(Slice::new(3, 1, 4), &[rows]);
    let both = net.wire(TypedConcat { axis: 3 }, &[columns, columns]);
    let same = net.quantized(both, -2., 0.016, None);
    let other = net.quantized(same, -1., 0.0153, None);
    let conv = net.convolution(other, 5, 1, 3);
    let operators = net.operators(conv);
    for (name, expected) in
        [("Quantize", 1), ("SliceOfAxis", 3), ("Requantize", 1), ("Dequantize", 0)]
    {
        assert_eq!(count(&operators, name), expected, "{name} {operators:?}");
    }
    // Of the last output alone.
    assert_eq!(count(&operators, "Transposition"), 1, "{operators:?}");
    let tiled =
        net.wire(Tile::new(tvec![1, 1, 2, 3].iter().map(|it| it.to_dim()).collect()), &[other]);
    let conv_of_tiled = net.convolution(tiled, 5, 1, 3);
    let operators = net.operators(conv_of_tiled);
    for (name, expected) in [("Quantize", 1), ("Tile", 1), ("Dequantize", 0)] {
        assert_eq!(count(&operators, name), expected, "{name} {operators:?}");
    }
    net.check(&[columns, both, other, conv, tiled, conv_of_tiled], &input);
}

/// What checks its data and gives it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NotEmpty {
    axis: usize,
}

impl_op!(NotEmpty, "NotEmpty");

impl EvalOp for NotEmpty {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        ensure!(inputs[0].shape()[self.axis] > 0, "axis {} is empty", self.axis);
        Ok(inputs)
    }
}

impl TypedOp for NotEmpty {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(inputs[0].without_value()))
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        _io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        rule_if_some!(axis = change.transform_axis(self.axis));
        let op = Box::new(NotEmpty { axis });
        Ok(Some(AxisChangeConsequence::new(model, node, Some(op), change)))
    }

    as_op!();
}

/// Checks stay between codes: of channels that have the same levels or not, and of numbers whose channels are last.
#[test]
fn checks() {
    crate::register_movement!(Checks, |op| op.is::<NotEmpty>());
    let input = [2, 6, 9, 7];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let coded = net.quantized(data, -2., 0.016, None);
    let checked = net.wire(NotEmpty { axis: 2 }, &[coded]);
    let conv = net.convolution(checked, 12, 1, 3);
    let of_channels = net.quantized(conv, -2., 0.03, Some(1));
    let checked = net.wire(NotEmpty { axis: 3 }, &[of_channels]);
    let depthwise = net.convolution(checked, 12, 12, 3);
    let numbers = net.wire(NotEmpty { axis: 1 }, &[depthwise]);
    let coded = net.quantized(numbers, -4., 0.04, None);
    let checked = net.wire(NotEmpty { axis: 3 }, &[coded]);
    let last = net.convolution(checked, 5, 1, 1);
    let operators = net.operators(last);
    for (name, expected) in [
        ("NotEmpty", 4),
        ("QuantizedConvolution", 3),
        ("Quantize", 2),
        ("Dequantize", 0),
        // Of the output alone.
        ("Transposition", 1),
    ] {
        assert_eq!(count(&operators, name), expected, "{name} {operators:?}");
    }
    net.check(&[of_channels, coded, last], &input);
}

/// Functions of one number between codes: of one operator and of several. Those that others need, or that differ along axes, stay.
#[test]
fn functions_between_codes() {
    use tract_core::ops::math::{div, sub};
    use tract_core::ops::nn::{hard_swish, sigmoid};
    let input = [2, 6, 5, 7];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let coded = net.quantized(data, -2., 0.016, None);
    let conv = net.convolution(coded, 12, 1, 3);
    let coded = net.quantized(conv, -4., 0.0317, None);
    let one = net.wire(hard_swish(), &[coded]);
    let one = net.quantized(one, -0.4, 0.0173, None);
    let three = net.constant(&[1; 4], &[3.]);
    let several = net.wire(sub(), &[three, one]);
    let several = net.wire(sigmoid(), &[several]);
    let several = net.wire(div(), &[several, three]);
    let several = net.quantized(several, 0., 0.0013, None);
    let conv = net.convolution(several, 5, 1, 3);
    let operators = net.operators(conv);
    for (name, expected) in
        [("Requantize", 2), ("QuantizedConvolution", 2), ("Dequantize", 0), ("Quantize", 1)]
    {
        assert_eq!(count(&operators, name), expected, "{name} {operators:?}");
    }
    net.check(&[one, several, conv], &input);
    // Somebody needs the numbers.
    let needed = net.wire(sigmoid(), &[coded]);
    let also = net.quantized(needed, 0., 0.0041, None);
    net.check(&[needed, also], &input);
    // Channels have other numbers.
    let numbers: Vec<f32> = (0..12).map(|it| it as f32 / 7.).collect();
    let numbers = net.constant(&[1, 12, 1, 1], &numbers);
    let differ = net.wire(add(), &[coded, numbers]);
    let differ = net.quantized(differ, -4., 0.0417, None);
    let operators = net.operators(differ);
    assert_eq!(count(&operators, "Requantize"), 0, "{operators:?}");
    net.check(&[differ], &input);
}

/// What is multiplied before it becomes codes, as NNCF does it for the data of products.
#[test]
fn factors_before_codes() {
    let input = [2, 5, 9];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let factors: Vec<f32> = (0..9).map(|it| 0.8 + it as f32 / 7.).collect();
    let factors = net.constant(&[1, 1, 9], &factors);
    let scaled = net.wire(mul(), &[factors, data]);
    let coded = net.quantized(scaled, -2., 0.016, None);
    let weights = net.weights(&[4, 9]);
    let axes = "abk,nk->abn".parse().unwrap();
    let op = EinSum { axes, operating_dt: DatumType::F32, q_params: None };
    let rows = net.wire(op, &[coded, weights]);
    assert_eq!(net.operators(rows), ["Source", "Quantize", "QuantizedConvolution"]);
    net.check(&[coded, rows], &input);
    // Somebody else needs it.
    net.check(&[scaled, rows], &input);
    assert!(net.transformed(&[]).0.nodes.iter().any(|node| node.op.name() == "Elementwise"));
}

/// A shuffle of channels moves those of each pixel, wherever they are.
#[test]
fn shuffles() {
    let input = [2, 6, 5, 7];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let coded = net.quantized(data, -2., 0.016, None);
    let conv = net.convolution(coded, 12, 1, 3);
    let coded = net.quantized(conv, -4., 0.04, None);
    let dims = |sizes: &[usize]| sizes.iter().map(|size| size.to_dim()).collect::<TVec<_>>();
    let split = net.wire(AxisOp::Reshape(1, dims(&[12]), dims(&[2, 3, 2])), &[coded]);
    let moved = net.wire(AxisOp::Move(1, 3), &[split]);
    let merged = net.wire(AxisOp::Reshape(1, dims(&[3, 2, 2]), dims(&[12])), &[moved]);
    let shuffled = net.convolution(merged, 12, 12, 3);
    let operators = net.operators(shuffled);
    // One of the channels, and one of the output.
    assert_eq!(count(&operators, "Transposition"), 2, "{operators:?}");
    assert_eq!(count(&operators, "QuantizedConvolution"), 2, "{operators:?}");
    net.check(&[merged, shuffled], &input);
    // Rows are moved, too.
    let split = net.wire(AxisOp::Reshape(1, dims(&[12]), dims(&[3, 4])), &[coded]);
    let moved = net.wire(AxisOp::Move(3, 2), &[split]);
    let moved = net.wire(AxisOp::Move(3, 2), &[moved]);
    let merged = net.wire(AxisOp::Reshape(1, dims(&[3, 4]), dims(&[12])), &[moved]);
    // Somebody needs the parts.
    let again = net.wire(AxisOp::Move(1, 2), &[split]);
    let conv = net.convolution(merged, 5, 1, 3);
    net.check(&[merged, conv, again], &input);
}

/// Padding is a code, if there is one that stands for it.
#[test]
fn padding() {
    let input = [2, 6, 9, 7];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let coded = net.quantized(data, -2., 0.016, None);
    let pads = vec![(0, 0), (2, 0), (0, 1), (3, 1)];
    let mut pad = |data: OutletId, number: f32| {
        let mode = PadMode::Constant(tensor0(number).into_arc_tensor());
        net.wire(Pad { pads: pads.clone(), mode }, &[data])
    };
    let (zeros, others, between) = (pad(coded, 0.), pad(coded, 0.016), pad(coded, 0.1239));
    let edge = net.wire(Pad { pads, mode: PadMode::Edge }, &[coded]);
    for (padded, is_code) in [(zeros, true), (others, true), (edge, true), (between, false)] {
        let conv = net.convolution(padded, 5, 1, 3);
        let operators = net.operators(conv);
        let found = count(&operators, "QuantizedConvolution");
        assert_eq!(found, usize::from(is_code), "{operators:?}");
        assert_eq!(count(&operators, "Pad"), 1, "{operators:?}");
        net.check(&[padded, conv], &input);
    }
}

/// A stride that tract would move in front of the codes, as in ResNet.
#[test]
fn strides_of_one_pixel() {
    let input = [2, 3, 9, 7];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let coded = net.quantized(data, -2., 0.016, None);
    let (weights, bias) = (net.weights(&[12, 3, 1, 1]), net.constant(&[12], &[0.25; 12]));
    let strides = Some(tvec![2, 2]);
    let padding = PaddingSpec::Valid;
    let spec = PoolSpec::new(DataFormat::NCHW, tvec![1, 1], padding, None, strides, 3, 12);
    let conv = net.wire(Conv::new(spec, KernelFormat::OIHW, 1, None), &[coded, weights, bias]);
    guard_downsamples(&mut net.model, 0).unwrap();
    let operators = net.operators(conv);
    assert_eq!(count(&operators, "QuantizedConvolution"), 1, "{operators:?}");
    net.check(&[conv], &input);
}

/// Transposed convolutions: kernels smaller and larger than the stride, pads, and pixels that no tap reaches; with one spatial axis
/// to three.
#[test]
fn transposed_convolutions() {
    with_all_instructions(|_| {
        for axes in TRANSPOSED {
            let of = |number: usize| axes.iter().map(|axis| axis[number]).collect::<TVec<_>>();
            let (sizes, kernel, strides) = (of(0), of(1), of(2));
            let (inputs, outputs) = (5, 7);
            let input = [&[2, inputs], &*sizes].concat();
            let mut net = Network::new();
            let data = net.model.add_source("data", f32::fact(&input)).unwrap();
            let coded = net.quantized(data, -2., 0.016, None);
            let weights = net.weights(&[&[outputs, inputs], &*kernel].concat());
            let bias: Vec<f32> = (0..outputs).map(|it| it as f32 / 8.).collect();
            let bias = net.constant(&[outputs], &bias);
            let padding = PaddingSpec::Explicit(of(3), of(4));
            let (format, strides) = (DataFormat::NCHW, Some(strides));
            let spec = PoolSpec::new(format, kernel, padding, None, strides, inputs, outputs);
            let op = Deconv::new(spec, KernelFormat::OIHW, of(5), 1);
            let numbers = net.wire(op, &[coded, weights, bias]);
            let relu = net.relu(numbers);
            let result = net.quantized(relu, 0., 0.0317, None);
            let operators = net.operators(result);
            assert_eq!(count(&operators, "QuantizedConvolution"), 1, "{axes:?} {operators:?}");
            net.check(&[result, numbers], &input);
            net.check(&[result], &input);
        }
    });
}

/// QuantizeLinear and DequantizeLinear, as tract reads them from ONNX: weights are numbers then.
#[test]
fn a_network_of_quantize_linear() {
    let input = [1, 5, 6, 7];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let unsigned = net.wire(quantize_linear_u8(1. / 0.0163, 125), &[data]);
    let back = DequantizeLinearF32::new(0.0163, 125);
    let (one, other) = (net.wire(back.clone(), &[unsigned]), net.wire(back, &[unsigned]));
    let mut convolution = |data: OutletId| {
        let conv = net.convolution(data, 6, 1, 3);
        // The same weights as numbers.
        let weights = net.model.node(conv.node).inputs[1];
        let numbers = net.model.node(weights.node).op_as::<DequantizedConst>().unwrap();
        let numbers = numbers.value().unwrap();
        let name = format!("numbers.{}", net.model.nodes.len());
        let numbers = net.model.add_const(name, numbers).unwrap();
        net.model.add_edge(numbers, InletId::new(conv.node, 1)).unwrap();
        let relu = net.relu(conv);
        let signed = net.wire(quantize_linear_i8(1. / 0.0217, -128), &[relu]);
        net.wire(DequantizeLinearF32::new(0.0217, -128), &[signed])
    };
    let (one, other) = (convolution(one), convolution(other));
    let third = convolution(one);
    let sum = net.wire(add(), &[one, third]);
    let sum = net.wire(quantize_linear_u8(1. / 0.0319, 0), &[sum]);
    let sum = net.wire(DequantizeLinearF32::new(0.0319, 0), &[sum]);
    // The sum is the second layer's.
    assert_eq!(
        net.operators(sum),
        ["Source", "Quantize", "QuantizedConvolution", "QuantizedConvolution", "Dequantize"]
    );
    let spec = PoolSpec::new(DataFormat::NCHW, tvec![2, 2], PaddingSpec::Valid, None, None, 6, 6);
    let pool = net.wire(MaxPool::new(spec, None), &[one]);
    let same = net.wire(quantize_linear_i8(1. / 0.0217, -128), &[pool]);
    let same = net.wire(DequantizeLinearF32::new(0.0217, -128), &[same]);
    let operators = net.operators(same);
    assert_eq!(
        operators,
        ["Source", "Quantize", "QuantizedConvolution", "QuantizedMaxPool", "Dequantize"]
    );
    net.check(&[same, other, sum], &input);
    // Somebody needs the codes: they stay.
    let outputs = [unsigned, same];
    net.model.select_output_outlets(&outputs).unwrap();
    let decisions = net.transformed(&[]).1;
    let reason = "its codes are needed, or become numbers by other scales".to_string();
    let refused = |decision: &Decision| decision.outcome == Outcome::Refused(reason.clone());
    assert!(decisions.iter().any(refused), "{decisions:?}");
}

/// What cannot run on codes stays, and its neighbours are not disturbed.
#[test]
fn what_stays() {
    let input = [1, 4, 5, 5];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let without_codes = net.convolution(data, 4, 1, 1);
    let of_channels = net.quantized(without_codes, -1., 0.01, Some(1));
    let added_channels = net.convolution(of_channels, 4, 1, 1);
    // Zero is no level.
    let limits = [0.5, 3.05].map(|limit| net.constant(&[1; 4], &[limit]));
    let inputs = [added_channels, limits[0], limits[1], limits[0], limits[1]];
    let without_zero = net.wire(FakeQuantize { levels: 256 }, &inputs);
    let padded = net.convolution(without_zero, 4, 1, 3);
    let many = [limits[0], limits[1], limits[0], limits[1]];
    let inputs = [&[padded], &many[..]].concat();
    let many = net.wire(FakeQuantize { levels: 1000 }, &inputs);
    net.model.select_output_outlets(&[many]).unwrap();
    let decisions = net.transformed(&[]).1;
    let reasons: Vec<String> = decisions
        .iter()
        .filter(|decision| decision.rule == "quantized")
        .filter_map(|decision| match &decision.outcome {
            Outcome::Refused(reason) => Some(format!("{}: {reason}", decision.op)),
            Outcome::Replaced(_) => None,
        })
        .collect();
    assert_eq!(
        reasons,
        [
            "Conv: its data has no codes",
            "Conv: channels of the data have different levels, and are added",
            "Conv: it has padding, but the data has no code for 0",
            "FakeQuantize: it has 1000 levels between Some([0.5, 3.05, 0.5, 3.05]), but must have 256 or fewer, and \
             finite limits in ascending order",
        ]
    );
    net.check(&[many], &input);
}

/// Inputs and outputs keep their names and labels, also where two outputs become one value, and where a model is cut at a node
/// that is no source.
#[test]
fn names_and_labels_stay() {
    let input = [1, 4, 5, 5];
    let mut net = Network::new();
    let data = net.model.add_source("data", f32::fact(input)).unwrap();
    let moved = net.wire(AxisOp::Move(2, 3), &[data]);
    let coded = net.quantized(moved, -2., 0.016, None);
    let same = net.quantized(coded, -2., 0.016, None);
    let conv = net.convolution(same, 4, 1, 1);
    net.model.select_output_outlets(&[coded, same, conv]).unwrap();
    for (outlet, label) in [(data, "x"), (moved, "y"), (coded, "a"), (same, "b"), (conv, "c")] {
        net.model.set_outlet_label(outlet, label.to_string()).unwrap();
    }
    let label = |model: &TypedModel, outlet: &OutletId| {
        model.outlet_label(*outlet).map(|label| label.to_string())
    };
    for (start, name) in [(data, "x"), (moved, "y")] {
        net.model.set_input_outlets(&[start]).unwrap();
        let model = net.transformed(&[]).0;
        let inputs = model.input_outlets().unwrap();
        assert_eq!(model.node(inputs[0].node).name, net.model.node(start.node).name);
        assert_eq!(label(&model, &inputs[0]).unwrap(), name);
        let outputs = model.output_outlets().unwrap();
        let labels: Vec<_> = outputs.iter().filter_map(|outlet| label(&model, outlet)).collect();
        assert_eq!(labels, ["a", "b", "c"]);
    }
}

/// Codes of integers are not ours.
#[test]
fn integers_that_are_quantised() {
    let mut net = Network::new();
    let data = net.model.add_source("data", i32::fact([2, 3])).unwrap();
    let codes = net.wire(quantize_linear_u8(0.5, 3), &[data]);
    let numbers = net.wire(DequantizeLinearF32::new(2., 3), &[codes]);
    net.model.select_output_outlets(&[numbers]).unwrap();
    let decisions = net.transformed(&[]).1;
    let reason = "its data is of type I32, but must be F32".to_string();
    assert_eq!(decisions[0].outcome, Outcome::Refused(reason));
}
