//! One bad model of each kind, and all of its error.

use super::operations::Input::{self, Constant, Fed};
use super::operations::{net, run};
use super::{NET, WEIGHTS, changed, limits};
use crate::ir;
use crate::prelude::*;

/// Layers with their inputs, and after each its error without the layer's place. An input has a type and a shape, and
/// values if they are not zeros. After `->` are the shapes that the file declares for outputs. `run:` stands before
/// the error of a model that loads, and `gives` before the output of one that only looks bad. A line that begins with `of 32 bits:`
/// is the error where sizes have no more.
const LAYERS: &str = r#"
MatMul opset1 | f32[2,3]
    the number of inputs is 1, but must be 2
LogicalAnd opset1 | f32[2] | f32[2]
    the inputs are of type F32, but must be booleans
Concat opset1 | f32[2,3] | f32[2,3]
    attribute axis is missing: it must be a whole number of 64 bits
Concat opset1 axis="two" | f32[2,3] | f32[2,3]
    attribute axis is "two", but must be a whole number of 64 bits
Softmax opset8 axis="99" | f32[2,3]
    axis is 99, but must be in [-2, 1] for rank 2
Softmax opset8 axis="-9223372036854775808" | f32[2,3]
    axis is -9223372036854775808, but must be in [-2, 1] for rank 2
Softmax opset8 axis="18446744073709551616" | f32[2,3]
    attribute axis is "18446744073709551616", but must be a whole number of 64 bits
Pad opset1 pad_mode="diagonal" | f32[3] | const i64[1] 1 | const i64[1] 1
    attribute pad_mode is "diagonal", but must be one of constant, edge, reflect, symmetric
Pad opset1 pad_mode="constant" | const f32[1] 1 | const i64[1] 9223372036854775807 | const i64[1] 9223372036854775807
    pads_begin has 9223372036854775807, but must be in [0, 16777216]
Pad opset1 pad_mode="reflect" | f32[3] | const i64[1] 3 | const i64[1] 0
    there is no element -3 of an axis of size 3: its pads must be 2 or less with pad_mode reflect

Convolution opset1 strides="0,0" | f32[1,2,5,5] | const f32[3,2,3,3]
    attribute strides is [0, 0], but each must be in [1, 2147483647]
Convolution opset1 strides="1,1,1" | f32[1,2,5,5] | const f32[3,2,3,3]
    attribute strides has length 3, but must have length 2, a number for each spatial axis
Convolution opset1 strides="1,1" dilations="-1,-1" | f32[1,2,5,5] | const f32[3,2,3,3]
    attribute dilations is [-1, -1], but each must be in [1, 2147483647]
Convolution opset1 strides="1,1" pads_begin="9223372036854775807,0" pads_end="0,0" | f32[1,2,5,5] | const f32[3,2,3,3]
    attribute pads_begin is [9223372036854775807, 0], but each must be in [-2147483647, 2147483647]
Convolution opset1 strides="1,1" pads_begin="-9,-9" pads_end="0,0" | f32[1,2,5,5] | const f32[3,2,3,3]
    negative pads leave nothing of spatial axis 0, whose size is 5
Convolution opset1 strides="1,1" | f32[1,2,2,2] | const f32[3,2,3,3]
    the kernel has size 3 in spatial axis 0, dilations included, but the data has size 2, pads included
Convolution opset1 strides="1,1" | f32[1,2,5,5] | const f32[3,3,3,3]
    dimensions 2 and 3 must be equal: layer 90 "tested" (Convolution, opset1) has weights for these channels of its data
GroupConvolution opset1 strides="1,1" | f32[1,3,5,5] | const f32[2,1,2,3,3]
    dimensions 3 and 4 must be equal: layer 90 "tested" (GroupConvolution, opset1) has weights for these channels of its data
MaxPool opset1 kernel="0,0" strides="1,1" | f32[1,1,4,4]
    the kernel has shape [0, 0], but must have from 1 to 2147483647 elements in each axis, dilations included
MaxPool opset1 kernel="9,9" strides="1,1" pads_begin="0,0" pads_end="0,0" | f32[1,1,4,4]
    the kernel has size 9 in spatial axis 0, dilations included, but the data has size 4, pads included
MaxPool opset1 kernel="9223372036854775808,1" strides="1,1" | f32[1,1,4,4]
    attribute kernel is "9223372036854775808,1", but must be a list separated by commas, each item a whole number from 0 to 2^63 - 1
    of 32 bits: attribute kernel is "9223372036854775808,1", but must be a list separated by commas, each item a whole number from 0 to 2^31 - 1
Interpolate opset4 mode="nearest" shape_calculation_mode="sizes" | f32[1,1,4,4] | const i64[2] -1,-1 | const f32[2] 1,1 | const i64[2] 2,3
    input 1 (sizes) has the size -1, but sizes must be 0 or more
Interpolate opset4 mode="nearest" shape_calculation_mode="sizes" | f32[1,1,4,4] | const i64[2] 1073741824,1073741824 | const f32[2] 1,1 | const i64[2] 2,3
    Interpolate: an output of shape [1, 1, 1073741824, 1073741824] has more than 4294967296 elements
    of 32 bits: Interpolate: the sizes of an output of shape [1, 1, 1073741824, 1073741824] cannot be multiplied

Broadcast opset3 mode="numpy" | const f32[1] | const i64[1] 1099511627776
    with a constant of type F32 and shape [1099511627776], all constants would take more than 268435840 bytes while the model is loaded. If you trust the file, raise this limit: Limits::constant_bytes, or --constants-limit of the command-line tool
    of 32 bits: Broadcast: an output of shape [1099511627776] has more than 1073741824 elements
Broadcast opset3 mode="numpy" | f32[1] | const i64[1] 1099511627776
    Broadcast: an output of shape [1099511627776] has more than 4294967296 elements
    of 32 bits: Broadcast: an output of shape [1099511627776] has more than 1073741824 elements
Broadcast opset3 mode="numpy" | f32[1] | i64[1] 1099511627776 -> ?
    run: Broadcast: an output of shape [1099511627776] has more than 4294967296 elements
    of 32 bits: run: Broadcast: an output of shape [1099511627776] has more than 1073741824 elements
Tile opset1 | f32[2,2] | const i64[2] 4294967296,4294967296
    Tile: the sizes of an output of shape [4294967296, 2, 4294967296, 2] cannot be multiplied
    of 32 bits: Tile: an output of shape [4294967296, 2, 4294967296, 2] has more than 1073741824 elements
Range opset4 output_type="i64" | const i64[] 0 | const i64[] 1099511627776 | const i64[] 1
    Range: the output has 1099511627776 elements, but must have 268435456 or fewer
Range opset4 output_type="i64" | const i64[] 0 | const i64[] 5 | const i64[] 0
    Range: step is 0, but must not be 0
OneHot opset1 axis="1" | const i64[1] 0 | const i64[] 1099511627776 | const f32[] 1 | const f32[] 0
    input 1 (depth) is 1099511627776, but must be in [0, 268435456]
OneHot opset1 axis="1" | i64[1] 0 | const i64[] -1 | const f32[] 1 | const f32[] 0
    input 1 (depth) is -1, but must be in [0, 268435456]
Eye opset9 output_type="f32" | i64[] 1048576 | i64[] 1048576 | const i64[] 0 -> ?,?
    run: the output would have shape [1048576, 1048576], but must have 268435456 elements or fewer

GroupedMatMul opset17 | f32[4] | f32[2,3,4]
    input 0 (mat_a) has rank 1, but must have rank 2 or 3
GroupedMatMul opset17 | f32[5,4] | f32[2,3,4]
    input 2 (offsets) is missing: mat_a has rank 2, and so groups of rows
GroupedMatMul opset17 | f32[5,4] | f32[2,3,5] | i32[2]
    dimensions 4 and 5 must be equal: layer 90 "tested" (GroupedMatMul, opset17) multiplies the rows of each group by a matrix of its own
GroupedMatMul opset17 | f32[5,4] | f32[2,3,4] | i32[3]
    dimensions 3 and 2 must be equal: layer 90 "tested" (GroupedMatMul, opset17) multiplies the rows of each group by a matrix of its own
GroupedMatMul opset17 | f32[3,5,4] | f32[2,3,4]
    dimensions 3 and 2 must be equal: layer 90 "tested" (GroupedMatMul, opset17) multiplies the rows of each group by a matrix of its own
GroupedMatMul opset17 | f32[5,4] | f32[2,3,4] | const i64[2] 3,2 -> ?,?
    run: GroupedProduct: group 1 ends at 2, but must end in [3, 5]
RGBtoNV12 opset17 | u8[1,3,4,3]
    the height is 3, but must be a multiple of 2
BGRtoNV12 opset17 | i8[1,2,4,3]
    the data is of type I8, but must be U8 or floats
ErfInv opset17 | i32[2]
    input 0 (arg) is of type I32, but must be floats
FakeConvert opset13 destination_type="f8e8m0" | f32[2] | const f32[] 1
    attribute destination_type is "f8e8m0", but must be one of f8e4m3, f8e5m2
FakeConvert opset13 | f32[1] | const f32[2] 1,1
    dimensions 1 and 2 must be equal: layer 90 "tested" (FakeConvert, opset13) has a scale that is broadcast to its data
BinaryConvolution opset1 mode="xnor-popcount" pad_value="0.5" | f32[1,8,3,3] | u8[8,8,1,1]
    attribute pad_value is 0.5, but must be -1, 0 or 1
BinaryConvolution opset1 mode="xnor-popcount" pad_value="0" | f32[1,8,3,3] | u8[8,8,1,1]
    input 1 (weights) is computed, but must be a constant of type u1
BinaryConvolution opset1 mode="xnor-popcount" pad_value="0" | f32[1,8,3,3] | const i32[1,8,1,1] 0,1,0,1,0,1,0,1
    input 1 (weights) is of type i32, but must be u1
DeformablePSROIPooling opset1 mode="average" | f32[1,8,3,3] | f32[1,5]
    attribute mode is "average", but must be one of bilinear_deformable
LSTMSequence opset5 hidden_size="2" direction="bidirectional" activations="tanh,tanh" | f32[1,1,1]
    attribute activations has length 2, but must have length 3 or 6
LSTMSequence opset5 hidden_size="2" direction="forward" activations="tanh,tanh,tanh,tanh,tanh,tanh" | f32[1,1,1]
    attribute activations has length 6, but must have length 3
Convert opset1 destination_type="u4" | f32[2]
    attribute destination_type is u4, but tract has that type for constants only

Reshape opset1 special_zero="false" | f32[2,3] | const i64[2] 4,2
    dimensions 3 and 4 must be equal: layer 90 "tested" (Reshape, opset1) reshapes [2, 3] to [4, 2]
Reshape opset1 special_zero="false" | f32[2,3] | i64[2] 4,2 -> ?,?
    run: dimensions 3 and 4 must be equal: layer 90 "tested" (Reshape, opset1) reshapes [2, 3] to [4, 2]
Reshape opset1 special_zero="false" | f32[2,3] | const i64[3] 4294967296,4294967296,4294967296
    shape [4294967296, 4294967296, 4294967296] has more elements than can be counted
Reshape opset1 special_zero="false" | f32[2,3] | const i64[2] -1,-1
    shape is [-1, -1], but each dimension must be -1 or a size, and only one -1
VariadicSplit opset1 | f32[6] | const i64[] 0 | const i64[2] 2,3
    dimensions 6 and 5 must be equal: layer 90 "tested" (VariadicSplit, opset1) splits it in parts of [2, 3]
Split opset1 num_splits="2" | f32[5] | const i64[] 0 -> 2; 3
    the dimension is 5, but must be a multiple of num_splits, which is 2
StridedSlice opset1 begin_mask="0" end_mask="0" | f32[6] | const i64[1] 0 | const i64[1] 6 | const i64[1] 0
    strides[0] is 0, but must not be
Slice opset8 | f32[6] | const i64[1] 0 | const i64[1] 6 | i64[1] 0 | const i64[1] 0 -> ?
    run: step[0] is 0, but must not be
Add opset1 auto_broadcast="numpy" | f32[2] | f32[3]
    dimensions 2 and 3 must be equal: layer 90 "tested" (Add, opset1) broadcasts shapes [2] and [3]
MatMul opset1 | f32[2,3] | f32[2,3]
    dimensions 3 and 2 must be equal: layer 90 "tested" (MatMul, opset1) multiplies [2, 3] by [2, 3]
TopK opset3 axis="0" mode="max" sort="value" | f32[3] | const i64[] 5
    in node "tested": TopK: k is 5, but must be in [0, 3], as axis 0 has that size

Gather opset7 | f32[3,2] | const i64[1] 3 | const i64[] 0
    in node "tested": Gather-7: indices[0] is 3, but must be in [-3, 2], as axis 0 of data has size 3
GatherND opset8 | f32[3,2] | const i64[1,3] 0,0,0
    in node "tested": GatherND-8: the last dimension of indices is 3, but must be at most 2, as data has rank 2 and batch_dims is 0
GatherElements opset6 axis="0" | f32[3] | i32[3] 0,9,1
    run: GatherElements-6: indices[1] is 9, but must be in [-3, 2], as axis 0 of data has size 3
GatherTree opset1 | f32[2,1,2] | f32[2,1,2] 99,99,99,99 | f32[1] 2 | f32[] 0
    run: GatherTree-1: parent_idx[1, 0, 0] is 99, but must be in [0, 1], as the number of beams is 2
ScatterUpdate opset3 | f32[3] | i64[1] 9 | f32[1] 7 | const i64[] 0
    run: ScatterUpdate: indices[0] is 9, but must be in [-3, 2], as axis 0 of data has size 3
ScatterNDUpdate opset4 | f32[3] | i64[1,1] -9 | f32[1] 7
    run: ScatterNDUpdate: indices[0, 0] is -9, but must be in [-3, 2], as axis 0 of data has size 3
ScatterElementsUpdate opset3 | f32[3] | i64[1] 4611686018427387904 | f32[1] 7 | const i64[] 0
    run: ScatterElementsUpdate: indices[0] is 4611686018427387904, but must be in [-3, 2], as axis 0 of data has size 3
EmbeddingBagOffsetsSum opset3 | f32[3,2] | i32[3] 0,1,2 | i32[2] 0,99
    run: Segments: offsets[1] is 99, but must be in [0, 3], in ascending order
EmbeddingBagOffsetsSum opset3 | f32[3,2] | i32[3] 0,99,2 | i32[2] 0,1
    run: Gather-1: indices[1] is 99, but must be in [-3, 2], as axis 0 of data has size 3
EmbeddingSegmentsSum opset3 | f32[3,2] | i32[2] 0,1 | i32[2] 1,0 | const i32[] 2
    run: Segments: segment_ids[1] is 0, but must be 1 or more, in ascending order
ReverseSequence opset1 batch_axis="0" seq_axis="1" | f32[2,3] | i32[2] 9,1
    run: ReverseSequence: seq_lengths[0] is 9, but must be in [0, 3]
ROIAlign opset9 pooled_h="2" pooled_w="2" sampling_ratio="2" spatial_scale="1" mode="avg" | f32[1,1,4,4] | f32[1,4] 0,0,2,2 | i32[1] 7
    run: ROIAlign: the image of a region is 7, but must be in [0, 1)
Divide opset1 auto_broadcast="numpy" m_pythondiv="true" | const i32[1] 7 | const i32[1] 0
    run: running pass PropConst(0): Eager eval #2 "tested" OpenVinoFloorDivide during optimisation: OpenVinoFloorDivide: a divisor is 0: integers cannot be divided by 0
Divide opset1 auto_broadcast="numpy" m_pythondiv="true" | i32[1] 7 | i32[1] 0
    run: OpenVinoFloorDivide: a divisor is 0: integers cannot be divided by 0
FloorMod opset1 auto_broadcast="numpy" | i64[1] 7 | i64[1] 0
    run: OpenVinoFloorMod: a divisor is 0: integers cannot be divided by 0

Interpolate opset4 mode="nearest" shape_calculation_mode="sizes" | f32[1,1,4,4] | const i64[2] 0,0 | const f32[2] 1,1 | const i64[2] 2,3
    gives [1, 1, 0, 0] []
NonMaxSuppression opset9 box_encoding="corner" | f32[1,2,4] nan | f32[1,1,2] nan | const i64[] 4611686018427387904 | const f32[] 0 | const f32[] 0 -> ?,3; ?,3; 1
    gives [0, 3] []
LSTMSequence opset5 direction="forward" hidden_size="1" activations="sigmoid,relu,relu" | f32[1,3,1] | f32[1,1,1] | f32[1,1,1] 8 | i32[1] 9 | const f32[1,4,1] | const f32[1,4,1] | const f32[1,4] -> 1,1,3,1; 1,1,1; 1,1,1
    gives [1, 1, 3, 1] [2.0, 1.0, 0.5]
"#;

/// An input, and what it is fed if it is no constant.
fn input(text: &'static str) -> (Input, Option<Tensor>) {
    let (is_constant, text) = match text.strip_prefix("const ") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (dt, rest) = text.split_once('[').unwrap();
    let (shape, values) = rest.split_once(']').unwrap();
    let sizes: Vec<usize> = shape.split_terminator(',').map(|size| size.parse().unwrap()).collect();
    let element_type = dt.to_uppercase().parse().unwrap();
    let tensor = match values.trim() {
        "" => Tensor::zero_dt(element_type, &sizes).unwrap(),
        "nan" => tensor0(f32::NAN).broadcast_to_shape(&sizes).unwrap(),
        values => {
            let values: Vec<i64> = values.split(',').map(|value| value.parse().unwrap()).collect();
            let tensor = tensor1(&values).into_shape(&sizes).unwrap();
            tensor.cast_to_dt(element_type).unwrap().into_owned()
        }
    };
    if is_constant { (Constant(tensor), None) } else { (Fed(dt, shape), Some(tensor)) }
}

/// How the names of the layers begin whose errors are tested here, and those of their nodes.
const TESTED: [&str; 5] = ["\"tested", "\"iterator", "\"loop", "\"if", "\"write_1"];

/// The error of a model and whether it loads, or what it gives. Without the place of the layer, which each error has.
fn outcome(xml: &str, weights: &[u8], fed: &[Tensor]) -> String {
    let rest = |text: String| {
        assert!(TESTED.iter().any(|name| text.contains(name)), "no layer: {text}");
        assert!(text.len() <= 2000, "{text}");
        ["Evaluating #", "in layer "].iter().fold(text, |text, place| {
            match text.strip_prefix(place) {
                Some(rest) => rest.split_once(": ").unwrap().1.to_string(),
                None => text,
            }
        })
    };
    let model = match ir().model_for_bytes(xml.as_bytes(), weights.to_vec()) {
        Ok(model) => model,
        Err(error) => return rest(format!("{error:#}")),
    };
    match run(model, fed) {
        Ok(output) => {
            let values = output.cast_to::<f32>().unwrap();
            format!(
                "gives {:?} {:?}",
                output.shape(),
                values.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap()
            )
        }
        Err(error) => format!("run: {}", rest(error)),
    }
}

#[test]
fn layers() {
    let mut lines = LAYERS.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let mut differ = vec![];
    while let (Some(case), Some(mut expected)) = (lines.next(), lines.next()) {
        let of_32_bits = lines.peek().and_then(|line| line.strip_prefix("of 32 bits: "));
        if let Some(other) = of_32_bits {
            lines.next();
            expected = if usize::BITS == 32 { other } else { expected };
        }
        let (layer, ports) = case.split_once(" -> ").unwrap_or((case, ""));
        let mut columns = layer.split(" | ");
        let layer = columns.next().unwrap();
        let (inputs, fed): (Vec<Input>, Vec<Option<Tensor>>) = columns.map(input).unzip();
        let (xml, weights) = net(layer, inputs);
        let port = |(number, shape): (usize, &str)| {
            let sizes = shape.trim().replace('?', "-1");
            let dims = sizes.split_terminator(',').map(|size| format!("<dim>{size}</dim>"));
            format!(
                r#"<port id="{}" precision="FP32">{}</port>"#,
                80 + number,
                dims.collect::<String>()
            )
        };
        let ports: String = ports.split(';').enumerate().map(port).collect();
        let xml = xml.replace(r#"<port id="80"/>"#, &ports);
        let fed: Vec<Tensor> = fed.into_iter().flatten().collect();
        let outcome = outcome(&xml, &weights, &fed);
        if outcome != expected {
            differ.push(format!("{case}\n    {outcome}\n  expected\n    {expected}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// What doubles its input, and is true.
const BODY: &str = r#"<layers>
    <layer id="0" name="inner" type="Parameter" version="opset1"><data shape="1,3" element_type="f32"/><output><port id="0"/></output></layer>
    <layer id="1" name="double" type="Add" version="opset1"><input><port id="0"/><port id="1"/></input><output><port id="2"/></output></layer>
    <layer id="2" name="doubled" type="Result" version="opset1"><input><port id="0"/></input></layer>
    <layer id="3" name="true" type="Const" version="opset1"><data element_type="boolean" shape="" offset="8" size="1"/><output><port id="0"/></output></layer>
    <layer id="4" name="on" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>
    <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/><edge from-layer="0" from-port="0" to-layer="1" to-port="1"/>
    <edge from-layer="1" from-port="2" to-layer="2" to-port="0"/><edge from-layer="3" from-port="0" to-layer="4" to-port="0"/>
</edges>"#;

/// A network of a layer with bodies. Its inputs are the constants `count` and `on`, which are the weights, and `x`.
fn around(layer: &str) -> String {
    let layer = layer.replace("BODY", BODY);
    format!(
        r#"<net name="net" version="11"><layers>
            <layer id="0" name="count" type="Const" version="opset1"><data element_type="i64" shape="" offset="0" size="8"/><output><port id="0"/></output></layer>
            <layer id="1" name="on" type="Const" version="opset1"><data element_type="boolean" shape="" offset="8" size="1"/><output><port id="0"/></output></layer>
            <layer id="2" name="x" type="Parameter" version="opset1"><data shape="1,3" element_type="f32"/><output><port id="0"/></output></layer>
            {layer}
            <layer id="4" name="result" type="Result" version="opset1"><input><port id="0"/></input></layer>
        </layers><edges>
            <edge from-layer="0" from-port="0" to-layer="3" to-port="0"/><edge from-layer="1" from-port="0" to-layer="3" to-port="1"/>
            <edge from-layer="2" from-port="0" to-layer="3" to-port="2"/><edge from-layer="3" from-port="3" to-layer="4" to-port="0"/>
        </edges></net>"#
    )
}

/// It leaves the constants alone.
const ITERATOR: &str = r#"<layer id="3" name="iterator" type="TensorIterator" version="opset1">
    <input><port id="0"/><port id="1"/><port id="2"/></input><output><port id="3"/></output>
    <port_map>
        <input external_port_id="2" internal_layer_id="0" axis="0" start="0" end="-1" stride="1" part_size="1"/>
        <output external_port_id="3" internal_layer_id="2" axis="0" start="0" end="-1" stride="1" part_size="1"/>
    </port_map>
    <body>BODY</body>
</layer>"#;

const LOOP: &str = r#"<layer id="3" name="loop" type="Loop" version="opset5">
    <input><port id="0"/><port id="1"/><port id="2"/></input><output><port id="3"/></output>
    <port_map>
        <input external_port_id="2" internal_layer_id="0"/>
        <output external_port_id="3" internal_layer_id="2"/>
        <output external_port_id="-1" internal_layer_id="4" purpose="execution_condition"/>
    </port_map>
    <back_edges><edge from-layer="2" to-layer="0"/></back_edges>
    <body>BODY</body>
</layer>"#;

const IF: &str = r#"<layer id="3" name="if" type="If" version="opset8">
    <input><port id="1"/><port id="0"/><port id="2"/></input><output><port id="3"/></output>
    <then_port_map><input external_port_id="2" internal_layer_id="0"/><output external_port_id="3" internal_layer_id="2"/></then_port_map>
    <else_port_map><input external_port_id="2" internal_layer_id="0"/><output external_port_id="3" internal_layer_id="2"/></else_port_map>
    <then_body>BODY</then_body>
    <else_body>BODY</else_body>
</layer>"#;

#[test]
fn bodies() {
    let x = tensor2(&[[1f32, 2., 3.]]);
    let run = |layer: &str, weights| outcome(&around(layer), weights, std::slice::from_ref(&x));
    for (layer, doubled) in
        [(ITERATOR, "2.0, 4.0, 6.0"), (LOOP, "8.0, 16.0, 24.0"), (IF, "2.0, 4.0, 6.0")]
    {
        assert_eq!(run(layer, &[3, 0, 0, 0, 0, 0, 0, 0, 1]), format!("gives [1, 3] [{doubled}]"));
    }
    let input = r#"<input external_port_id="2" internal_layer_id="0" axis="0" start="0" end="-1" stride="1" part_size="1"/>"#;
    for (layer, from, to, expected) in [
        (
            ITERATOR,
            r#"external_port_id="2""#,
            r#"external_port_id="7""#,
            "in <body>: <input external_port_id=\"7\"> must be a port of the layer, of [0, 1, 2] (line 8)",
        ),
        (
            ITERATOR,
            r#"internal_layer_id="2""#,
            r#"internal_layer_id="9""#,
            "in <body>: <output internal_layer_id=\"9\"> must be a Result of the body, of [2, 4] (line 9)",
        ),
        (
            ITERATOR,
            input,
            "",
            "no input of layer 3 \"iterator\" (TensorIterator, opset1) is layer 0 \"inner\" (Parameter, opset1) of the body",
        ),
        (
            ITERATOR,
            r#"axis="0""#,
            r#"axis="5""#,
            "axis of the port_map is 5, but must be in [-2, 1] for rank 2",
        ),
        (
            ITERATOR,
            r#"stride="1""#,
            r#"stride="0""#,
            "an entry of the port_map has stride 0 and part_size 1, but these must be the same",
        ),
        (
            LOOP,
            r#"internal_layer_id="4""#,
            r#"internal_layer_id="9""#,
            "in <body>: <output internal_layer_id=\"9\"> must be a Result of the body, of [2, 4] (line 10)",
        ),
        (
            LOOP,
            "",
            "",
            "the loop has 1099511627776 iterations, but must have 16777216 or fewer: Limits::iterations, or \
             --iterations-limit of the command-line tool, sets this limit",
        ),
        (
            IF,
            r#"internal_layer_id="2""#,
            r#"internal_layer_id="9""#,
            "in <then_body>: <output internal_layer_id=\"9\"> must be a Result of the body, of [2, 4] (line 7)",
        ),
        (
            IF,
            r#"<output external_port_id="3" internal_layer_id="2"/>"#,
            "",
            "output 0 is in one port_map only, but each branch must have it",
        ),
    ] {
        assert!(layer.contains(from), "{from}");
        // A loop of 2^40 iterations.
        let outcome = run(&layer.replacen(from, to, 1), &[0, 0, 0, 0, 0, 1, 0, 0, 1]);
        assert_eq!(outcome, expected);
    }
}

/// What a file declares for a port or a Parameter of a body gives way to what is computed, and nobody needs a result.
#[test]
fn declarations_that_contradict() {
    let x = Tensor::from_shape(&[2, 3], &[1f32, 2., 3., 4., 5., 6.]).unwrap();
    let port = changed("<dim>3</dim><dim>2</dim>", "<dim>2</dim><dim>3</dim>");
    assert_eq!(outcome(&port, &WEIGHTS, &[x]), "gives [3, 2] [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]");

    let on = r#"type="Const" version="opset1"><data element_type="boolean" shape="" offset="8" size="1"/>"#;
    let fed = r#"type="Parameter" version="opset1"><data element_type="boolean" shape=""/>"#;
    let xml =
        around(&IF.replace("<else_body>BODY", &format!("<else_body>{}", BODY.replace("1,3", "3"))));
    let x = tensor2(&[[1f32, 2., 3.]]);
    for on_value in [true, false] {
        let outcome = outcome(
            &xml.replacen(on, fed, 1),
            &[0, 0, 0, 0, 0, 0, 0, 0, 1],
            &[tensor0(on_value), x.clone()],
        );
        assert_eq!(outcome, "gives [1, 3] [2.0, 4.0, 6.0]");
    }

    let (start, rest) = NET.split_once(r#"<layer id="3""#).unwrap();
    let (_, end) = rest.split_once("</layer>").unwrap();
    let edge = r#"<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>"#;
    let xml = format!("{start}{end}").replace(edge, "");
    let model = ir().model_for_bytes(xml.as_bytes(), WEIGHTS).unwrap();
    assert_eq!(model.into_optimized().unwrap().output_outlets().unwrap(), []);
}

#[test]
fn a_variable_that_is_assigned_twice() {
    let state = r#"variable_id="state" variable_type="f32" variable_shape="2""#;
    let layers = [
        limits::parameter(0, "2"),
        limits::layer(1, "read", "ReadValue", state, 1),
        limits::layer(2, "write_0", "Assign", state, 1),
        limits::layer(3, "write_1", "Assign", state, 1),
        limits::layer(4, "result", "Result", "", 1),
    ];
    let edges = [(0, 1, 0), (1, 2, 0), (1, 3, 0), (1, 4, 0)];
    let xml = limits::net(&layers.map(|layer| layer.replace("opset1", "opset6")), &edges);
    let expected = "variable \"state\" is assigned twice: layer 2 \"write_0\" (Assign, opset6) assigns it, too";
    assert_eq!(outcome(&xml, &[], &[]), expected);
}
