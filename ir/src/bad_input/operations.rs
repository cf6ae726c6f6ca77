//! Attributes, constants and tensors for which tract's operators or its optimiser would panic, or read what is
//! not theirs.

use model_cases::TOO_MANY;
use tract_openvino_kernels::checks::MAX_OUTPUT_ELEMENTS;

use crate::ir;
use crate::prelude::*;

/// An input of a layer.
pub(crate) enum Input {
    /// It is fed: its element type and its shape.
    Fed(&'static str, &'static str),
    /// A constant.
    Constant(Tensor),
}
use Input::{Constant, Fed};

/// A layer of an operation, version and attributes like `Roll opset7 axis="1"`, with one output.
fn load(layer: &str, inputs: Vec<Input>) -> TractResult<TypedModel> {
    let (xml, weights) = net(layer, inputs);
    ir().model_for_bytes(xml.as_bytes(), weights)
}

/// The XML and the weights of such a layer.
pub(crate) fn net(layer: &str, inputs: Vec<Input>) -> (String, Vec<u8>) {
    let (mut layers, mut edges, mut ports) = (String::new(), String::new(), String::new());
    let mut weights = vec![];
    for (id, input) in inputs.into_iter().enumerate() {
        let (operation, data) = match input {
            Fed(dt, shape) => ("Parameter", format!(r#"shape="{shape}" element_type="{dt}""#)),
            Constant(tensor) => {
                let plain = tensor.try_as_plain_ram().unwrap();
                let bytes = plain.as_bytes();
                let shape = tensor.shape().iter().map(|size| size.to_string());
                let (shape, dt) = (shape.collect::<Vec<_>>().join(","), tensor.datum_type());
                let (dt, offset, size) =
                    (format!("{dt:?}").to_lowercase(), weights.len(), bytes.len());
                weights.extend_from_slice(bytes);
                let place = format!(r#"offset="{offset}" size="{size}""#);
                ("Const", format!(r#"element_type="{dt}" shape="{shape}" {place}"#))
            }
        };
        layers += &format!(
            r#"<layer id="{id}" name="input{id}" type="{operation}" version="opset1"><data {data}/><output><port id="0"/></output></layer>"#
        );
        edges +=
            &format!(r#"<edge from-layer="{id}" from-port="0" to-layer="90" to-port="{id}"/>"#);
        ports += &format!(r#"<port id="{id}"/>"#);
    }
    let mut words = layer.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (operation, version, attributes) = (word(), word(), word());
    let xml = format!(
        r#"<net name="net" version="11"><layers>{layers}
        <layer id="90" name="tested" type="{operation}" version="{version}"><data {attributes}/>
        <input>{ports}</input><output><port id="80"/></output></layer>
        <layer id="91" name="result" type="Result" version="opset1"><input><port id="0"/></input></layer>
        </layers><edges>{edges}<edge from-layer="90" from-port="80" to-layer="91" to-port="0"/></edges></net>"#
    );
    (xml, weights)
}

#[track_caller]
fn fails_to_load(layer: &str, inputs: Vec<Input>, expected: &str) {
    let error = format!("{:#}", load(layer, inputs).unwrap_err());
    assert!(error.contains(expected), "{expected:?} is not in: {error}");
}

/// What a model gives as it is loaded, and optimised, which must be the same.
pub(super) fn run(model: TypedModel, inputs: &[Tensor]) -> Result<Tensor, String> {
    let run = |model: TypedModel| -> TractResult<Tensor> {
        let inputs = inputs.iter().cloned().map(TValue::from).collect();
        Ok(model.into_runnable()?.run(inputs)?.remove(0).into_tensor())
    };
    let text = |error| format!("{error:#}");
    let optimized = model.clone().into_optimized().map_err(text)?;
    let (typed, optimized) = (run(model).map_err(text), run(optimized).map_err(text));
    match (&typed, &optimized) {
        (Ok(typed), Ok(optimized)) => typed.close_enough(optimized, true).map_err(text)?,
        (Err(_), Err(_)) => (),
        _ => panic!("{typed:?} as loaded, but {optimized:?} optimised"),
    }
    optimized
}

#[track_caller]
fn fails_to_run(layer: &str, inputs: Vec<Input>, fed: &[Tensor], expected: &str) {
    let error = run(load(layer, inputs).unwrap(), fed).unwrap_err();
    assert!(error.contains(expected), "{expected:?} is not in: {error}");
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zero::<f32>(shape).unwrap()
}

fn nothing<T: Datum + Copy>() -> Tensor {
    tensor1::<T>(&[])
}

#[test]
fn constants_without_elements() {
    fails_to_load(
        "Gather opset8",
        vec![Fed("f32", "2,3"), Constant(tensor1(&[0i64])), Constant(nothing::<i64>())],
        "axis has shape [0]",
    );
    for (shape, size) in [("1", 1), ("?", 0)] {
        let inputs = vec![Fed("f32", shape), Constant(nothing::<f32>())];
        let powers = run(load("Power opset1", inputs).unwrap(), &[zeros(&[size])]).unwrap();
        assert_eq!(powers.shape(), [0]);
    }
}

#[test]
fn sinks_of_attention() {
    let attention = r#"ScaledDotProductAttention opset13 causal="false""#;
    let number = || Constant(tensor0(0f32));
    let inputs = |sink: Input| {
        let one = || Fed("f32", "2,?,5,8");
        vec![one(), one(), one(), number(), number(), sink]
    };
    for (sink, expected) in [
        (Fed("f16", "1,1,1,1"), "input 5 (sink) is of type F16, but must be F32"),
        (
            Fed("f32", "1,1,1"),
            "input 5 (sink) has shape [1, 1, 1], but must be of the rank of the query",
        ),
        (Fed("f32", ""), "input 5 (sink) has shape []"),
        (Fed("f32", "1,1,1,5"), "input 5 (sink) has shape [1, 1, 1, 5]"),
        (Fed("f32", "1,1,4,1"), "input 5 (sink) has shape [1, 1, 4, 1]"),
        (Fed("f32", "3,1,1,1"), "broadcast to [2,"),
    ] {
        fails_to_load(attention, inputs(sink), expected);
    }
    // Open numbers of heads.
    let heads = |number: usize| zeros(&[2, number, 5, 8]);
    let inputs = || {
        let one = || Fed("f32", "2,?,5,8");
        vec![one(), one(), one(), number(), number(), Constant(zeros(&[1, 3, 1, 1]))]
    };
    let model = load(attention, inputs()).unwrap();
    run(model.clone(), &[heads(3), heads(3), heads(3)]).unwrap();
    let error = run(model, &[heads(4), heads(4), heads(4)]).unwrap_err();
    assert!(error.contains('3'), "{error}");
}

#[test]
fn windows_that_do_not_fit_into_open_sizes() {
    let filters = || Constant(zeros(&[1, 1, 3]));
    let image = || Fed("f32", "?,1,?");
    let convolution = r#"Convolution opset1 strides="1" dilations="2" pads_begin="1" pads_end="0""#;
    fails_to_run(
        convolution,
        vec![image(), filters()],
        &[zeros(&[1, 1, 3])],
        "has size 3, but must have size 4 or more",
    );
    let model = load(convolution, vec![image(), filters()]).unwrap();
    assert_eq!(run(model, &[zeros(&[1, 1, 4])]).unwrap().shape(), [1, 1, 1]);
    let same = r#"Convolution opset1 strides="1" auto_pad="same_upper""#;
    let crops = r#"Convolution opset1 strides="1" pads_begin="-4" pads_end="4""#;
    let pool =
        |name| format!(r#"{name} opset1 kernel="3" strides="2" pads_begin="0" pads_end="1""#);
    let pools = ["MaxPool", "AvgPool"].map(pool).map(|pool| pool + r#" exclude-pad="false""#);
    for (layer, size, least) in
        [(same, 0, 1), (crops, 4, 5), (&*pools[0], 0, 2), (&*pools[1], 1, 2)]
    {
        let inputs = match layer.starts_with('C') {
            true => vec![image(), filters()],
            false => vec![image()],
        };
        let expected = format!("has size {size}, but must have size {least} or more");
        fails_to_run(layer, inputs, &[zeros(&[1, 1, size])], &expected);
    }
}

#[test]
fn kernels_that_are_too_large() {
    fails_to_load(
        r#"MaxPool opset1 kernel="2,1275134207" strides="2,2" auto_pad="same_upper""#,
        vec![Fed("f32", "?,2,?,?")],
        "the kernel has shape [2, 1275134207], but must have 16777216 elements or fewer",
    );
}

#[test]
fn sizes_are_checked_before_a_stride_leaves_elements_out() {
    let filters = Constant(zeros(&[1, 1, 3]));
    let convolution = r#"Convolution opset1 strides="2" dilations="2""#;
    let model = load(convolution, vec![Fed("f32", "?,1,?"), filters]).unwrap();
    assert_eq!(run(model, &[zeros(&[1, 1, 5])]).unwrap().shape(), [1, 1, 1]);
}

#[test]
fn transposed_convolutions_that_leave_nothing() {
    let filters = || Constant(zeros(&[1, 1, 3]));
    let image = || Fed("f32", "1,1,?");
    fails_to_run(
        r#"ConvolutionBackpropData opset1 strides="2" pads_begin="3" pads_end="3""#,
        vec![image(), filters()],
        &[zeros(&[1, 1, 2])],
        "has size 2, but must have size 3 or more",
    );
    fails_to_load(
        r#"ConvolutionBackpropData opset1 strides="2""#,
        vec![image(), filters(), Constant(tensor1(&[i64::MIN]))],
        "but sizes must be 0 or more",
    );
}

#[test]
fn axes_without_elements() {
    let doubles = Tensor::zero::<f64>(&[2, 0]).unwrap();
    let model = load(r#"Softmax opset8 axis="1""#, vec![Fed("f64", "2,?")]).unwrap();
    assert_eq!(run(model, &[doubles]).unwrap().shape(), [2, 0]);
    fails_to_run(
        "DFT opset7",
        vec![Fed("f32", "1,?,2"), Constant(tensor1(&[1i64]))],
        &[zeros(&[1, 0, 2])],
        "has size 0, but must have size 1 or more",
    );
    // The axis that is transformed has elements, and another has none.
    let signal = || Constant(tensor1(&[1i64]));
    fails_to_run(
        "RDFT opset9",
        vec![Fed("f32", "?,4"), signal()],
        &[zeros(&[0, 4])],
        "has size 0, but must have size 1 or more",
    );
    let model = load("RDFT opset9", vec![Fed("f32", "0,4"), signal()]).unwrap();
    assert_eq!(run(model, &[zeros(&[0, 4])]).unwrap().shape(), [0, 3, 2]);
    // Nothing is made for each of many elements if there are none.
    let sizes = || Constant(tensor1(&[isize::MAX as i64]));
    let data = || Fed("f32", "?,1,4");
    let modes =
        r#"mode="nearest" coordinate_transformation_mode="asymmetric" nearest_mode="floor""#;
    let (scales, axes) = (Constant(tensor1(&[1f32])), Constant(tensor1(&[2i64])));
    for (layer, inputs) in [
        ("AdaptiveAvgPool opset8".to_string(), vec![data(), sizes()]),
        (
            format!(r#"Interpolate opset4 shape_calculation_mode="sizes" {modes}"#),
            vec![data(), sizes(), scales, axes],
        ),
    ] {
        let model = load(&layer, inputs).unwrap();
        assert_eq!(run(model, &[zeros(&[0, 1, 4])]).unwrap().len(), 0);
    }
}

#[test]
fn pads_that_follow_from_open_sizes() {
    let pool =
        r#"MaxPool opset1 kernel="1" strides="2" rounding_type="ceil" auto_pad="same_upper""#;
    fails_to_load(
        pool,
        vec![Fed("f32", "1,1,?")],
        "spatial axis 0 is open, but must be known if auto_pad is same_upper",
    );
    load(pool, vec![Fed("f32", "?,?,3")]).unwrap();
}

#[test]
fn slices_backwards_from_before_the_start() {
    for shape in ["4", "?"] {
        let bound = |bound: i64| Constant(tensor1(&[bound]));
        let inputs = vec![Fed("f32", shape), bound(-9), bound(-20), bound(-1)];
        let model = load("Slice opset8", inputs).unwrap();
        assert_eq!(run(model, &[zeros(&[4])]).unwrap().shape(), [0]);
    }
}

#[test]
fn numbers_that_are_too_large() {
    fails_to_load(
        "Roll opset7",
        vec![Fed("f32", "?"), Constant(tensor1(&[i64::MIN])), Constant(tensor1(&[0i64]))],
        "the sum for each axis must be in [-1000000000, 1000000000]",
    );
    let pads = || Constant(tensor1(&[1_000_000_000i64]));
    fails_to_load(
        r#"Pad opset1 pad_mode="edge""#,
        vec![Fed("f32", "3"), pads(), pads()],
        "pads_begin has 1000000000, but must be in [0, 16777216]",
    );
    let ends = [0f32, -2e8, -1.].map(|end| Constant(tensor0(end)));
    fails_to_load(
        r#"Range opset4 output_type="f32""#,
        ends.into(),
        "with a constant of type F32 and shape [200000000], all constants would take more than",
    );
    fails_to_load(
        "Tile opset1",
        vec![Fed("f32", "3"), Constant(tensor1(&[1i64 << 31]))],
        &format!("an output of shape [2147483648, 3] has more than {MAX_OUTPUT_ELEMENTS} elements"),
    );
}

/// tract's Tile makes a list of all repetitions, and its optimiser drops what it concatenates of nothing.
#[test]
fn repetitions_of_nothing() {
    let tile = || {
        let repeats = Constant(tensor1(&[TOO_MANY as i64, 1]));
        load("Tile opset1", vec![Fed("f32", "?,?"), repeats]).unwrap()
    };
    assert_eq!(run(tile(), &[zeros(&[0, 0])]).unwrap().shape(), [0, 0]);
    let error = run(tile(), &[zeros(&[3, 1])]).unwrap_err();
    assert!(error.contains(&format!("has more than {MAX_OUTPUT_ELEMENTS} elements")), "{error}");

    let concat = r#"Concat opset1 axis="0""#;
    let model = load(concat, vec![Fed("f32", "?,0"), Fed("f32", "?,0")]).unwrap();
    assert_eq!(run(model, &[zeros(&[2, 0]), zeros(&[3, 0])]).unwrap().shape(), [5, 0]);
}

/// tract's Range takes the number of windows, which is negative here, for a positive one: of 16 GiB.
#[test]
fn windows_that_are_longer_than_an_open_signal() {
    let frame = [90_000i64, 4].map(|number| Constant(tensor0(number)));
    let mut inputs = vec![Fed("f32", "?"), Fed("f32", "5")];
    inputs.extend(frame);
    let stft = r#"STFT opset15 transpose_frames="true""#;
    fails_to_run(stft, inputs, &[zeros(&[2]), zeros(&[5])], "but must have size 90000 or more");
}

/// Every operation, with too few inputs and too many, of ranks and types that it may not have.
#[test]
fn inputs_of_any_number_rank_and_type() {
    let mut errors = 0;
    for (operation, revisions) in ir().registry().operations() {
        for since in revisions {
            let layer = format!("{operation} opset{since}");
            for shape in ["", "2,3", "1,2,3,4"] {
                for (count, dt) in (0..7).flat_map(|count| [(count, "f32"), (count, "i64")]) {
                    let inputs = (0..count).map(|_| Fed(dt, shape)).collect();
                    errors += load(&layer, inputs).is_err() as usize;
                }
            }
        }
    }
    assert!(errors > 5000, "only {errors} errors");
}
