//! The names of open dimensions.

use gather_cases::onnx_model::*;
use tract_openvino::tract_onnx::pb::tensor_shape_proto::dimension::Value;
use tract_openvino::tract_onnx::pb::type_proto::Value::TensorType;
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::{dimension_name, name_dimensions};

const F32: DatumType = DatumType::F32;

/// A model with inputs of these dimensions, and for each of them zeros of its shape.
fn model_of(inputs: &[&[&'static str]]) -> ModelProto {
    let names: Vec<[String; 2]> =
        (0..inputs.len()).map(|number| [format!("x{number}"), format!("y{number}")]).collect();
    let graph = GraphProto {
        node: names.iter().flat_map(|[x, y]| zeros(x, y)).collect(),
        input: names
            .iter()
            .zip(inputs)
            .map(|([x, _], dims)| input(x, F32, dims.to_vec()))
            .collect(),
        output: names.iter().map(|[_, y]| output(y)).collect(),
        ..GraphProto::default()
    };
    model(None, graph)
}

fn zeros(x: &str, y: &str) -> [NodeProto; 2] {
    let shape = format!("{x}_shape");
    [node("", "Shape", &[x], &shape), node("", "ConstantOfShape", &[&shape], y)]
}

fn dims(value: &ValueInfoProto) -> Vec<String> {
    let Some(TensorType(tensor)) = value.r#type.as_ref().unwrap().value.as_ref() else { panic!() };
    let text = |value: &Option<Value>| match value {
        Some(Value::DimParam(text)) => text.clone(),
        Some(Value::DimValue(size)) => size.to_string(),
        None => String::new(),
    };
    tensor.shape.as_ref().unwrap().dim.iter().map(|dim| text(&dim.value)).collect()
}

fn named(inputs: &[&[&'static str]]) -> Vec<Vec<String>> {
    let mut model = model_of(inputs);
    name_dimensions(&mut model);
    model.graph.unwrap().input.iter().map(dims).collect()
}

#[test]
fn each_text_becomes_a_name_or_stays() {
    for (text, expected) in [
        ("N", "N"),
        ("batch.size", "batch.size"),
        ("DynamicDimension.0", "DynamicDimension.0"),
        ("batch size", "batch_size"),
        ("batch-size", "batch_size"),
        ("batch/size", "batch_size"),
        ("2N", "_2N"),
        ("?", "x0_0"),
        ("", "x0_0"),
        ("past + 1", "past + 1"),
        ("2*N", "2*N"),
        // tract does not solve these for what they are made of.
        ("floor(H/2)", "floor_H_2"),
        ("past + sequence", "past_sequence"),
        ("floor", "floor"),
        ("min", "min"),
        ("größe", "gr_e"),
        ("[unk]", "unk"),
        ("ceil(H/2)", "ceil_H_2"),
    ] {
        assert_eq!(named(&[&[text]]), [[expected]], "{text:?}");
    }
}

#[test]
fn what_other_inputs_tell_stays() {
    assert_eq!(
        named(&[&["past", "batch"], &["past + sequence", "batch*2"], &["sequence"]]),
        [vec!["past", "batch"], vec!["past + sequence", "batch*2"], vec!["sequence"]]
    );
    // One text is one name, and two texts are two.
    assert_eq!(
        named(&[&["batch size", "batch-size"], &["batch size", "batch_size"]]),
        [["batch_size_2", "batch_size_3"], ["batch_size_2", "batch_size"]]
    );
}

#[test]
fn sizes_and_constants_stay() {
    let mut model = model_of(&[&["N"]]);
    let graph = model.graph.as_mut().unwrap();
    graph.input.push(input("c", F32, ["a b"]));
    graph.initializer.push(initializer("c", &tensor1(&[1f32])));
    graph.value_info.push(input("y0", F32, ["N"]));
    let before = model.clone();
    name_dimensions(&mut model);
    assert_eq!(model, before);
    name_dimensions(&mut ModelProto::default());
}

/// What the model declares of other values has the same names.
#[test]
fn declared_shapes_follow() {
    let mut model = model_of(&[&["a b", "N"]]);
    let graph = model.graph.as_mut().unwrap();
    graph.value_info.push(input("y0", F32, ["a b", "c d"]));
    graph.output[0] = input("y0", F32, ["a b", "N"]);
    name_dimensions(&mut model);
    let graph = model.graph.unwrap();
    assert_eq!(dims(&graph.value_info[0]), ["a_b", "c d"]);
    assert_eq!(dims(&graph.output[0]), ["a_b", "N"]);
}

/// What tract would need much stack or time for, or overflow, is no expression.
#[test]
fn texts_that_are_no_expressions() {
    let nested = format!("{}N{}", "(".repeat(100_000), ")".repeat(100_000));
    let sum: Vec<String> = (0..2000).map(|number| format!("n{number}")).collect();
    for text in [nested, sum.join("+"), "N+9223372036854775807".into(), "-1".into()] {
        let text: &'static str = text.leak();
        let found = named(&[&[text, "M"]]);
        assert_eq!(found, [[dimension_name(text), "M".to_string()]]);
    }
}

/// Each of them can be typed, and run with several sizes.
#[test]
fn tract_knows_their_values() {
    for texts in [
        &["batch size", "past + 1"][..],
        &["floor(H/2)", "H"],
        &["2N", "2*N"],
        &["batch-size", "?"],
        &["past.key + past.value", "batch.size"],
        &["floor", "max"],
    ] {
        let mut model = model_of(&[texts]);
        name_dimensions(&mut model);
        let plan = read(&model).unwrap().into_optimized().unwrap().into_runnable().unwrap();
        for sizes in [[2, 4], [1, 2], [3, 6]] {
            let x = Tensor::zero::<f32>(&sizes).unwrap();
            let y =
                plan.run(tvec!(x.into())).unwrap_or_else(|error| panic!("{texts:?}: {error:?}"));
            assert_eq!(y[0].shape(), sizes, "{texts:?}");
        }
    }
}

#[test]
fn a_name_has_letters_digits_and_underscores() {
    for (text, expected) in
        [("a  b", "a_b"), ("(a)", "a"), ("", "_"), ("1", "_1"), ("a.b", "a_b"), ("...", "_")]
    {
        assert_eq!(dimension_name(text), expected);
    }
}
