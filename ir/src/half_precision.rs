//! Models in half precision: each operation gives what it gives in single precision, rounded once. OpenVINO computes
//! them so on a CPU. Small numbers vanish and large ones overflow if something on the way is in half precision.

use std::collections::BTreeSet;

use tract_core::tract_data::half::f16;

use crate::bad_input::operations::{Input, net};
use crate::ir;
use crate::prelude::*;

/// Layers with their inputs. `x` is fed and `c` a constant, both of floats and of a shape; `f` is a constant with these
/// floats, and `i` one with these integers, both of rank 1, or of rank 0 after `f0` and `i0`.
const LAYERS: &str = r#"
Abs opset1 | x 2,6
Acos opset1 | x 2,6
Acosh opset4 | x 2,6
AdaptiveAvgPool opset8 | x 1,2,4,6 ; i 2,2
AdaptiveMaxPool opset8 | x 1,2,4,6 ; i 2,2
Add opset1 | x 2,6 ; x 6
Asin opset1 | x 2,6
Asinh opset4 | x 2,6
Atan opset1 | x 2,6
Atanh opset4 | x 2,6
AvgPool opset1 kernel="3" strides="1" pads_begin="1" pads_end="1" exclude-pad="false" rounding_type="floor" | x 1,2,9
AvgPool opset1 kernel="3" strides="2" pads_begin="1" pads_end="1" exclude-pad="true" rounding_type="ceil" | x 1,2,9
BatchNormInference opset5 epsilon="0.001" | x 2,3,4 ; c 3 ; c 3 ; c 3 ; f 0.1,300,60000
Bucketize opset3 | x 2,6 ; c 3
Ceiling opset1 | x 2,6
Clamp opset1 min="-0.1" max="301" | x 2,6
Col2Im opset15 | x 4,4 ; i 3,3 ; i 2,2
Convolution opset1 strides="1" dilations="1" pads_begin="1" pads_end="1" | x 1,3,8 ; c 2,3,3
Convolution opset1 strides="1,1" dilations="1,1" pads_begin="0,0" pads_end="0,0" | x 1,3,4,4 ; c 2,3,1,1
ConvolutionBackpropData opset1 strides="2" | x 1,3,8 ; c 3,2,3
Cos opset1 | x 2,6
Cosh opset1 | x 2,6
CumSum opset3 | x 2,6 ; i0 1
CumSum opset3 reverse="true" exclusive="true" | x 6,2 ; i0 0
DFT opset7 | x 8,2 ; i 0
DeformablePSROIPooling opset1 output_dim="1" group_size="2" spatial_scale="1" mode="bilinear_deformable" spatial_bins_x="2" spatial_bins_y="2" trans_std="0.1" part_size="2" | x 1,4,4,4 ; ff 1,5:0,0,0,3,3
DeformableConvolution opset8 strides="1,1" dilations="1,1" pads_begin="0,0" pads_end="0,0" | x 1,2,3,3 ; ff 1,8,2,2:0.5,0.25,-0.5,0,0.5,0.25,-0.5,0,0.5,0.25,-0.5,0,0.5,0.25,-0.5,0,0.5,0.25,-0.5,0,0.5,0.25,-0.5,0,0.5,0.25,-0.5,0,0.5,0.25,-0.5,0 ; c 2,2,2,2
Divide opset1 | x 2,6 ; x 6
Einsum opset7 equation="ab,bc->ac" | x 2,6 ; x 6,3
Elu opset1 alpha="0.3" | x 2,6
EmbeddingBagPackedSum opset3 | x 4,3 ; ii 2,2:0,1,2,3
EmbeddingBagPacked opset15 reduction="mean" | x 4,3 ; ii 2,2:0,1,2,3
EmbeddingBagOffsetsSum opset3 | x 4,3 ; i 0,1,2,3 ; i 0,3
EmbeddingBagOffsets opset15 reduction="mean" | x 4,3 ; i 0,1,2,3 ; i 0,3
EmbeddingSegmentsSum opset3 | x 4,3 ; i 0,1,2,3 ; i 0,0,1,1 ; i0 2
Equal opset1 | x 2,6 ; x 6
Erf opset1 | x 2,6
ErfInv opset17 | x 2,6
Exp opset1 | x 2,6
FakeConvert opset13 destination_type="f8e5m2" | x 2,6 ; f0 1
FakeConvert opset13 destination_type="f8e4m3" | x 2,6 ; f0 0.5
FakeQuantize opset1 levels="16" | x 2,6 ; f0 -60000 ; f0 60000 ; f0 -60000 ; f0 60000
FakeQuantize opset1 levels="256" | x 2,6 ; f0 -0.00002 ; f0 0.00002 ; f0 -300 ; f0 300
Floor opset1 | x 2,6
FloorMod opset1 | x 2,6 ; f0 7
GRN opset1 bias="1e-8" | x 2,6
GRUCell opset3 hidden_size="2" linear_before_reset="true" | x 1,2 ; x 1,2 ; c 6,2 ; c 6,2 ; c 8
GRUSequence opset5 hidden_size="2" direction="forward" | x 1,3,2 ; x 1,1,2 ; i 3 ; c 1,6,2 ; c 1,6,2 ; c 1,6
GroupedMatMul opset17 | x 2,3,4 ; x 2,5,4
GroupedMatMul opset17 | x 5,4 ; x 2,3,4 ; i 2,5
Gelu opset2 | x 2,6
Gelu opset7 approximation_mode="tanh" | x 2,6
Greater opset1 | x 2,6 ; x 6
GreaterEqual opset1 | x 2,6 ; x 6
GridSample opset9 mode="bilinear" padding_mode="border" align_corners="true" | x 1,2,3,3 ; ff 1,2,2,2:0.1,-0.2,0.3,0.4,-0.5,0.6,0.7,0.8
GridSample opset9 mode="bicubic" padding_mode="zeros" align_corners="false" | x 1,2,3,3 ; ff 1,2,2,2:0.1,-0.2,0.3,0.4,-0.5,0.6,0.7,0.8
GroupConvolution opset1 strides="1" dilations="1" pads_begin="1" pads_end="1" | x 1,4,8 ; c 2,2,2,3
GroupConvolution opset1 strides="1" dilations="1" pads_begin="1" pads_end="1" | x 1,4,8 ; c 4,1,1,3
GroupConvolutionBackpropData opset1 strides="2" | x 1,4,8 ; c 2,2,2,3
GroupNormalization opset12 num_groups="2" epsilon="1e-6" | x 2,4,3 ; c 4 ; c 4
HSigmoid opset5 | x 2,6
HSwish opset4 | x 2,6
HardSigmoid opset1 | x 2,6 ; f0 0.2 ; f0 0.5
IDFT opset7 | x 8,2 ; i 0
IRDFT opset9 | x 5,2 ; i 0
Interpolate opset4 mode="linear" shape_calculation_mode="sizes" coordinate_transformation_mode="half_pixel" | x 1,1,4,4 ; i 6,6 ; f 1.5,1.5 ; i 2,3
Interpolate opset4 mode="linear_onnx" shape_calculation_mode="sizes" coordinate_transformation_mode="half_pixel" | x 1,1,4,4 ; i 6,6 ; f 1.5,1.5 ; i 2,3
Interpolate opset4 mode="cubic" shape_calculation_mode="sizes" coordinate_transformation_mode="half_pixel" | x 1,1,4,4 ; i 6,6 ; f 1.5,1.5 ; i 2,3
Interpolate opset11 mode="bilinear_pillow" shape_calculation_mode="sizes" coordinate_transformation_mode="half_pixel" | x 1,1,4,4 ; i 2,2 ; i 2,3
Inverse opset14 | ff 2,2:300,0.001,2,300
IsFinite opset10 | x 2,6
IsInf opset10 | x 2,6
IsNaN opset10 | x 2,6
LRN opset1 alpha="0.0001" beta="0.75" bias="1" size="3" | x 1,4,3 ; i 1
LSTMCell opset4 hidden_size="2" | x 1,2 ; x 1,2 ; x 1,2 ; c 8,2 ; c 8,2 ; c 8
LSTMSequence opset5 hidden_size="2" direction="forward" | x 1,3,2 ; x 1,1,2 ; x 1,1,2 ; i 3 ; c 1,8,2 ; c 1,8,2 ; c 1,8
Less opset1 | x 2,6 ; x 6
LessEqual opset1 | x 2,6 ; x 6
Log opset1 | x 2,6
LogSoftmax opset5 axis="1" | x 2,6
MVN opset6 normalize_variance="true" eps="1e-9" eps_mode="INSIDE_SQRT" | x 2,6 ; i 1
MVN opset6 normalize_variance="true" eps="1e-9" eps_mode="OUTSIDE_SQRT" | x 2,6 ; i 1
MVN opset6 normalize_variance="false" eps="1e-9" eps_mode="INSIDE_SQRT" | x 2,6 ; i 0
MVN opset2 normalize_variance="true" eps="1e-9" across_channels="false" | x 2,3,4
MatMul opset1 | x 2,6 ; x 6,3
MatMul opset1 | x 2,6 ; c 6,3
MatMul opset1 transpose_b="true" | x 3,2,6 ; c 4,6
MaxPool opset1 kernel="3" strides="1" pads_begin="1" pads_end="1" rounding_type="floor" | x 1,2,9
Maximum opset1 | x 2,6 ; x 6
Minimum opset1 | x 2,6 ; x 6
Mish opset4 | x 2,6
Mod opset1 | x 2,6 ; f0 7
Multiply opset1 | x 2,6 ; x 6
Negative opset1 | x 2,6
NormalizeL2 opset1 eps="1e-9" eps_mode="add" | x 2,6 ; i 1
NormalizeL2 opset1 eps="1e-9" eps_mode="max" | x 2,6 ; i 0
NotEqual opset1 | x 2,6 ; x 6
PRelu opset1 | x 2,6 ; f 0.3
PRelu opset1 | x 2,6 ; c 6
PSROIPooling opset1 output_dim="1" group_size="2" spatial_scale="1" mode="average" spatial_bins_x="1" spatial_bins_y="1" | x 1,4,4,4 ; ff 1,5:0,0,0,3,3
Power opset1 | x 2,6 ; f0 2
Power opset1 | x 2,6 ; f0 0.5
RDFT opset9 | x 8 ; i 0
RNNCell opset1 hidden_size="2" | x 1,2 ; x 1,2 ; c 2,2 ; c 2,2 ; c 2
RNNSequence opset5 hidden_size="2" direction="forward" | x 1,3,2 ; x 1,1,2 ; i 3 ; c 1,2,2 ; c 1,2,2 ; c 1,2
ROIAlign opset9 pooled_h="2" pooled_w="2" sampling_ratio="2" spatial_scale="1" mode="avg" aligned_mode="asymmetric" | x 1,2,4,4 ; ff 1,4:0,0,3,3 ; i 0
ROIAlignRotated opset15 pooled_h="2" pooled_w="2" sampling_ratio="2" spatial_scale="1" clockwise_mode="false" | x 1,2,4,4 ; ff 1,5:1.5,1.5,2,2,0.5 ; i 0
ROIPooling opset2 pooled_h="2" pooled_w="2" spatial_scale="1" method="bilinear" | x 1,2,4,4 ; ff 1,5:0,0,0,3,3
ReduceL1 opset4 | x 2,6 ; i 1
ReduceL1 opset4 | x 6,2 ; i 0
ReduceL2 opset4 | x 2,6 ; i 1
ReduceL2 opset4 | x 6,2 ; i 0
ReduceMax opset1 | x 2,6 ; i 1
ReduceMean opset1 | x 2,6 ; i 1
ReduceMean opset1 | x 6,2 ; i 0
ReduceMean opset1 keep_dims="true" | x 2,6 ; i 0,1
ReduceMin opset1 | x 2,6 ; i 1
ReduceProd opset1 | ff 2,4:300,300,0.001,0.01,60000,2,0.1,0.5 ; i 1
ReduceProd opset1 | x 2,6 ; i 0
ReduceSum opset1 | x 2,6 ; i 1
ReduceSum opset1 | x 6,2 ; i 0
RegionYolo opset1 axis="1" coords="4" classes="2" num="1" end_axis="3" do_softmax="true" | x 1,7,2,2
RegionYolo opset1 axis="1" coords="4" classes="2" num="1" end_axis="3" do_softmax="false" mask="0" | x 1,7,2,2
Relu opset1 | x 2,6
Round opset5 mode="half_to_even" | x 2,6
Round opset5 mode="half_away_from_zero" | x 2,6
STFT opset15 transpose_frames="false" | x 12 ; x 4 ; i0 4 ; i0 2
ISTFT opset16 center="false" normalized="false" | x 3,4,2 ; f 1,0.5,1,0.5 ; i0 4 ; i0 2
ScaledDotProductAttention opset13 causal="false" | x 1,2,3,4 ; x 1,2,5,4 ; x 1,2,5,4
ScatterElementsUpdate opset12 reduction="sum" use_init_val="true" | x 4,3 ; ii 2,3:0,0,0,0,0,0 ; x 2,3 ; i0 0
ScatterElementsUpdate opset12 reduction="prod" use_init_val="true" | x 4,3 ; ii 2,3:0,0,0,0,0,0 ; x 2,3 ; i0 0
ScatterElementsUpdate opset12 reduction="mean" use_init_val="true" | x 4,3 ; ii 3,3:0,0,0,0,0,0,0,0,0 ; x 3,3 ; i0 0
ScatterNDUpdate opset15 reduction="sum" | x 4,3 ; ii 3,1:0,0,0 ; x 3,3
ScatterNDUpdate opset15 reduction="prod" | x 4,3 ; ii 3,1:0,0,0 ; x 3,3
SearchSorted opset15 | f 1,2,300 ; x 6
Select opset1 | b 1,0,1,0,1,0 ; x 2,6 ; x 6
Selu opset1 | x 2,6 ; f 1.6 ; f 1.05
Sigmoid opset1 | x 2,6
Sign opset1 | x 2,6
Sin opset1 | x 2,6
Sinh opset1 | x 2,6
SoftPlus opset4 | x 2,6
SoftSign opset9 | x 2,6
Softmax opset8 axis="1" | x 2,6
Softmax opset8 axis="0" | x 6,2
Sqrt opset1 | x 2,6
SquaredDifference opset1 | x 2,6 ; x 6
Subtract opset1 | x 2,6 ; x 6
Swish opset4 | x 2,6
Swish opset4 | x 2,6 ; f0 1.5
Tan opset1 | x 2,6
Tanh opset1 | x 2,6
"#;

/// Operations that compute nothing with the floats that they are given: they move, copy or compare them, take integers
/// or booleans only, or have bodies that are computed layer by layer.
const COMPUTES_NOTHING: &str = "\
    Assign BatchToSpace BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr BitwiseRightShift BitwiseXor Broadcast \
    CTCGreedyDecoder CTCGreedyDecoderSeqLen Concat Convert ConvertLike ConvertPromoteTypes DepthToSpace \
    ExtractImagePatches Eye Gather GatherElements GatherND GatherTree Identity If LogicalAnd LogicalNot LogicalOr \
    LogicalXor Loop NonZero OneHot Pad ReadValue ReduceLogicalAnd ReduceLogicalOr ReorgYolo Reshape Reverse \
    ReverseSequence Roll ScatterUpdate SegmentMax ShapeOf ShuffleChannels Slice SliceScatter SpaceToBatch \
    SpaceToDepth SparseFillEmptyRows Split Squeeze StridedSlice StringTensorPack StringTensorUnpack TensorIterator \
    Tile TopK Transpose Unique Unsqueeze VariadicSplit Xor";

/// Operations that are one operator, which turns its inputs into single precision: of boxes, pixels, random numbers and
/// losses.
const ONE_OPERATOR: &str = "\
    BGRtoNV12 BinaryConvolution CTCLoss DetectionOutput ExperimentalDetectronDetectionOutput \
    ExperimentalDetectronGenerateProposalsSingleImage ExperimentalDetectronPriorGridGenerator \
    ExperimentalDetectronROIFeatureExtractor ExperimentalDetectronTopKROIs GenerateProposals I420toBGR I420toRGB \
    MatrixNms MulticlassNms Multinomial NMSRotated NV12toBGR NV12toRGB NonMaxSuppression PriorBox \
    PriorBoxClustered Proposal RGBtoNV12 RandomUniform Range";

/// Numbers whose sums and means are exact in single precision, once multiplied by a power of 2 or a scale.
const PATTERN: [f32; 10] = [1., 0.75, -0.25, 1., 0.5, -1., 1., 1., -0.5, 0.25];

/// Scales of the numbers: near the ends of half precision, and such that squares leave it.
const SCALES: [f32; 4] = [1e-5, 1., 300., 6e4];

fn halves(shape: &[usize], scale: f32, start: usize) -> Tensor {
    let len = shape.iter().product();
    let numbers = PATTERN.iter().cycle().skip(start).take(len);
    let halves: Vec<f16> = numbers.map(|number| f16::from_f32(number * scale)).collect();
    Tensor::from_shape(shape, &halves).unwrap()
}

fn list<T: std::str::FromStr>(text: &str) -> Vec<T>
where
    T::Err: std::fmt::Debug,
{
    text.split(',').map(|item| item.trim().parse().unwrap()).collect()
}

/// The inputs of a layer in half precision: whether each is fed, and its value.
fn inputs(text: &str, scale: f32) -> Vec<(bool, Tensor)> {
    let floats =
        |text: &str| -> Vec<f16> { list::<f32>(text).into_iter().map(f16::from_f32).collect() };
    let input = |(number, text): (usize, &str)| {
        let (kind, text) = text.trim().split_once(' ').unwrap();
        let (shape, items) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "x" => (true, halves(&list(shape), scale, 3 * number)),
            "c" => (false, halves(&list(shape), scale, 3 * number + 1)),
            "f" => (false, tensor1(&floats(text))),
            "f0" => (false, tensor0(floats(text)[0])),
            "ff" => (true, Tensor::from_shape(&list::<usize>(shape), &floats(items)).unwrap()),
            "i" => (false, tensor1(&list::<i64>(text))),
            "i0" => (false, tensor0(list::<i64>(text)[0])),
            "ii" => {
                (false, Tensor::from_shape(&list::<usize>(shape), &list::<i64>(items)).unwrap())
            }
            "b" => (true, tensor1(&list::<u8>(text).iter().map(|it| *it == 1).collect::<Vec<_>>())),
            kind => panic!("{kind}"),
        }
    };
    text.split(" ; ").enumerate().map(input).collect()
}

fn single(tensor: Tensor) -> Tensor {
    match tensor.datum_type() {
        DatumType::F16 => tensor.cast_to::<f32>().unwrap().into_owned(),
        _ => tensor,
    }
}

/// What a layer gives for these inputs: as it is loaded, optimised, and with the kernels.
fn outputs(layer: &str, inputs: &[(bool, Tensor)]) -> TractResult<Vec<Tensor>> {
    let of_layer = inputs.iter().map(|(is_fed, tensor)| {
        let dt = format!("{:?}", tensor.datum_type()).to_lowercase().replace("bool", "boolean");
        let shape = tensor.shape().iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        match is_fed {
            true => Input::Fed(dt.leak(), shape.leak()),
            false => Input::Constant(tensor.clone()),
        }
    });
    let (xml, weights) = net(layer, of_layer.collect());
    let model = ir().model_for_bytes(xml.as_bytes(), weights)?;
    let fed = inputs.iter().filter(|(is_fed, _)| *is_fed);
    let fed: TVec<TValue> = fed.map(|(_, tensor)| tensor.clone().into()).collect();
    let loaded = model.clone().into_runnable()?.run(fed.clone())?;
    let optimized = model.clone().into_optimized()?.into_runnable()?.run(fed.clone())?;
    let with_kernels = model.into_runnable_with_kernels()?.run(fed)?;
    Ok([loaded, optimized, with_kernels].map(|mut it| it.remove(0).into_tensor()).into())
}

/// The first element that is not the expected one, but for two units in the last place.
fn difference(found: &Tensor, expected: &Tensor) -> Option<String> {
    if found.datum_type() != DatumType::F16 || found.shape() != expected.shape() {
        let same = found == expected;
        return (!same).then(|| format!("{found:?}, not {expected:?}"));
    }
    let (found, expected) = (single(found.clone()), expected.cast_to::<f16>().unwrap());
    let expected = single(expected.into_owned());
    let (found, expected) = (found.to_plain_array_view::<f32>(), expected.to_plain_array_view());
    let (found, expected) = (found.unwrap(), expected.unwrap());
    let differs = |(found, expected): &(&f32, &f32)| {
        let limit = 2f32.powi(-9) * expected.abs() + 2f32.powi(-23);
        let close = (*found - *expected).abs() <= limit;
        !(close || found == expected || found.is_nan() && expected.is_nan())
    };
    let mut pairs = found.iter().zip(expected.iter());
    pairs.find(differs).map(|(found, expected)| format!("{found}, not {expected}"))
}

#[test]
fn each_operation_in_half_precision_is_that_in_single_precision_rounded_once() {
    let mut wrong = vec![];
    for line in LAYERS.lines().filter(|line| !line.is_empty()) {
        let (layer, text) = line.split_once(" | ").unwrap();
        for scale in SCALES {
            let halves = inputs(text, scale);
            let singles: Vec<_> =
                halves.iter().map(|(fed, tensor)| (*fed, single(tensor.clone()))).collect();
            let expected =
                outputs(layer, &singles).unwrap_or_else(|error| panic!("{layer}: {error:#}"));
            match outputs(layer, &halves) {
                Ok(found) => {
                    for (number, found) in found.iter().enumerate() {
                        if let Some(difference) = difference(found, &expected[0]) {
                            wrong.push(format!("{line} at {scale}, stage {number}: {difference}"));
                        }
                    }
                }
                Err(error) => wrong.push(format!("{line} at {scale}: {error:#}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_operation_is_left_out() {
    let operations = ir().registry().operations();
    let known: BTreeSet<&str> = operations.iter().map(|(operation, _)| *operation).collect();
    let of_layer = |line: &'static str| line.split(' ').next().filter(|word| !word.is_empty());
    let mut listed: BTreeSet<&str> = LAYERS.lines().filter_map(of_layer).collect();
    listed.extend(COMPUTES_NOTHING.split_whitespace().chain(ONE_OPERATOR.split_whitespace()));
    assert_eq!(listed, known);
}
