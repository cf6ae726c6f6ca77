//! Nodes that are read, and what their errors say.

use std::sync::Mutex;

use tract_core::internal::*;
use tract_openvino::tract_onnx::pb::attribute_proto::AttributeType;
use tract_openvino::tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_openvino::tract_onnx::pb::tensor_shape_proto::dimension::Value as Size;
use tract_openvino::tract_onnx::pb::type_proto::{Tensor as TensorType, Value};
use tract_openvino::tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto,
};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::infer::Factoid;
use tract_openvino::{
    DOMAIN, NegativeIndices, OpenVinoOptions, WithOpenVino, WithOpenVinoOptions, tract_onnx,
};

use crate::WithOpenVinoIr;
use crate::limits::MAX_DECLARED_ELEMENTS;

const FLOAT: i32 = 1;
const INT64: i32 = 7;

/// `name: 2,N` for each input.
fn info(text: &str, elem_type: i32) -> ValueInfoProto {
    let (name, shape) = text.split_once(':').unwrap_or((text, "-"));
    let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let dims = dims.map(|dim| Dimension {
        value: Some(dim.parse().map_or_else(|_| Size::DimParam(dim.into()), Size::DimValue)),
        ..Dimension::default()
    });
    let shape = (shape != "-").then(|| TensorShapeProto { dim: dims.collect() });
    let value = Value::TensorType(TensorType { elem_type, shape });
    let r#type = TypeProto { value: Some(value), ..TypeProto::default() };
    ValueInfoProto { name: name.into(), r#type: Some(r#type), ..ValueInfoProto::default() }
}

fn int(name: &str, i: i64) -> AttributeProto {
    let r#type = AttributeType::Int as i32;
    AttributeProto { name: name.into(), r#type, i, ..AttributeProto::default() }
}

fn float(name: &str, f: f32) -> AttributeProto {
    let r#type = AttributeType::Float as i32;
    AttributeProto { name: name.into(), r#type, f, ..AttributeProto::default() }
}

fn string(name: &str, text: &str) -> AttributeProto {
    let r#type = AttributeType::String as i32;
    AttributeProto { name: name.into(), r#type, s: text.into(), ..AttributeProto::default() }
}

fn strings(name: &str, texts: &[&str]) -> AttributeProto {
    let strings = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let r#type = AttributeType::Strings as i32;
    AttributeProto { name: name.into(), r#type, strings, ..AttributeProto::default() }
}

fn node(op_type: &str, inputs: &str, outputs: &str, attributes: &[AttributeProto]) -> NodeProto {
    let names = |text: &str| text.split(' ').map(String::from).collect();
    NodeProto {
        name: "the node".into(),
        domain: DOMAIN.into(),
        op_type: op_type.into(),
        input: names(inputs),
        output: names(outputs),
        attribute: attributes.to_vec(),
        ..NodeProto::default()
    }
}

fn import(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: domain.into(), version }
}

/// A model with an input of floats for each text, such as `x:2,N`, and the node's outputs.
fn model(inputs: &[&str], node: NodeProto) -> ModelProto {
    let outputs = node.output.iter().filter(|name| !name.is_empty());
    let graph = GraphProto {
        name: "graph".into(),
        input: inputs.iter().map(|input| info(input, FLOAT)).collect(),
        output: outputs.map(|name| info(name, FLOAT)).collect(),
        node: vec![node],
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: 8,
        opset_import: vec![import("", 17), import(DOMAIN, 17)],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

fn with_constant(mut model: ModelProto, name: &str, integers: &[i64]) -> ModelProto {
    let tensor = TensorProto {
        name: name.into(),
        dims: vec![integers.len() as i64],
        data_type: INT64,
        int64_data: integers.into(),
        ..TensorProto::default()
    };
    model.graph.as_mut().unwrap().initializer.push(tensor);
    model
}

fn typed(model: &ModelProto) -> TractResult<TypedModel> {
    tract_onnx::onnx().with_openvino_ir().model_for_proto_model(model)?.into_typed()
}

fn error(model: &ModelProto) -> String {
    format!("{:#}", typed(model).unwrap_err())
}

#[track_caller]
fn fails(node: NodeProto, expected: &str) {
    let error = error(&model(&["x:2,3", "y:2,3"], node));
    assert!(error.contains(expected), "{error}");
}

fn run(model: TypedModel, inputs: &[Tensor]) -> TractResult<TVec<TValue>> {
    let inputs = inputs.iter().map(|input| input.clone().into_tvalue()).collect();
    model.into_optimized()?.into_runnable()?.run(inputs)
}

#[test]
fn operations_that_there_are_not() {
    let mut two = model(&["x:2"], node("Mish", "x", "z", &[]));
    two.graph.as_mut().unwrap().node.push(node("Foo", "z", "w", &[]));
    let text = error(&two);
    assert!(
        text.contains(
            "domain org.openvinotoolkit that tract-openvino does not have: Foo. It has Gather"
        ),
        "{text}"
    );
    // Nor is there one of the standard domain with that name.
    fails(node("Conv", "x y", "z", &[]), "does not have: Conv");
    for (name, reason) in [
        ("TensorIterator", "it has a body"),
        ("Loop", "it has a body"),
        ("If", "it has a body"),
        ("ReadValue", "no variables"),
        ("Assign", "no variables"),
        ("Parameter", "inputs are those of the graph"),
        ("Constant", "constants are initializers"),
        ("Result", "outputs are those of the graph"),
        ("BinaryConvolution", "u1"),
    ] {
        let error = error(&model(&["x:2"], node(name, "x", "z", &[])));
        assert!(error.contains(&format!("{name} ")) && error.contains(reason), "{error}");
    }
}

#[test]
fn revisions() {
    let of = |version: &str| node("Mish", "x", "z", &[string("version", version)]);
    fails(of("opset3"), "Mish is not supported in opset3: the oldest that is supported is opset4");
    fails(of("opset18"), "operation set \"opset18\" is not known");
    fails(of("4"), "attribute version is \"4\", but must be \"opset\" and a number");
    typed(&model(&["x:2"], of("opset4"))).unwrap();
    let mut imported = model(&["x:2"], node("Mish", "x", "z", &[]));
    typed(&imported).unwrap();
    imported.opset_import[1].version = 3;
    let text = error(&imported);
    assert!(
        text.contains(
            "the model imports domain org.openvinotoolkit in version 3: Mish is not supported"
        ),
        "{text}"
    );
    // Without either it is the newest.
    imported.opset_import.pop();
    typed(&imported).unwrap();
}

#[test]
fn attributes() {
    let topk = |attributes: &[AttributeProto]| {
        let all = [string("mode", "max"), string("sort", "value"), int("axis", 1)];
        let mut all: Vec<_> = all
            .into_iter()
            .filter(|it| attributes.iter().all(|other| other.name != it.name))
            .collect();
        all.extend(attributes.iter().filter(|it| it.name != "axis" || it.i != 99).cloned());
        with_constant(model(&["x:2,3"], node("TopK", "x k", "values", &all)), "k", &[1])
    };
    // TopK takes a scalar.
    let scalar = |mut model: ModelProto| {
        model.graph.as_mut().unwrap().initializer[0].dims.clear();
        model
    };
    typed(&scalar(topk(&[]))).unwrap();
    let fails = |attribute: AttributeProto, expected: &str| {
        let text = error(&scalar(topk(&[attribute])));
        assert!(text.contains(expected) && text.contains("the node"), "{text}");
    };
    fails(int("axis", 99), "attribute axis is missing: it must be a whole number");
    fails(float("axis", 0.5), "attribute axis is \"0.5\", but must be a whole number of 64 bits");
    fails(string("mode", "most"), "attribute mode is \"most\", but must be one of ");
    fails(
        strings("mode", &["a,b"]),
        "attribute mode has \"a,b\", but texts of a list must have no comma",
    );
    fails(int("axis", 2), "axis is 2, but must be in [-2, 1] for rank 2");
    for (kind, what) in [
        (AttributeType::Tensor, "a tensor"),
        (AttributeType::Graph, "a graph"),
        (AttributeType::Undefined, "of no type"),
    ] {
        let attribute = AttributeProto { r#type: kind as i32, ..int("axis", 1) };
        fails(attribute, &format!("attribute axis is {what}, but must be an integer"));
    }
    let latin1 = AttributeProto { s: vec![0xe9], ..string("mode", "") };
    fails(latin1, "attribute mode is not text in UTF-8");
    let mut twice = scalar(topk(&[]));
    twice.graph.as_mut().unwrap().node[0].attribute.push(int("axis", 0));
    assert!(error(&twice).contains("attribute axis is there twice"));
}

#[test]
fn numbers_of_inputs_and_outputs() {
    fails(
        node("Mish", "x y", "z", &[]),
        "in node \"the node\" (Mish, opset17): the number of inputs is 2, but must be 1",
    );
    fails(node("Add", "x", "z", &[]), "the number of inputs is 1, but must be 2");
    fails(node("Mish", "x", "z w", &[]), "the number of outputs is 2, but its operation has 1");
    fails(
        node("FakeQuantize", "x  y y y", "z", &[int("levels", 2)]),
        "input 1 is left out, but input 2 after it is not",
    );
    // Those at the end may be.
    typed(&model(&["x:2"], node("Mish", "x  ", "z", &[]))).unwrap();
    // An output without a name is not there.
    let attributes = [string("mode", "max"), string("sort", "value"), int("axis", 0)];
    let mut model =
        with_constant(model(&["x:3"], node("TopK", "x k", " indices", &attributes)), "k", &[1]);
    model.graph.as_mut().unwrap().initializer[0].dims.clear();
    let outputs = run(typed(&model).unwrap(), &[tensor1(&[1f32, 3., 2.])]).unwrap();
    assert_eq!(outputs.len(), 1);
    assert_eq!(*outputs[0], tensor1(&[1i32]));
}

#[test]
fn types_that_do_not_fit() {
    let mut model = model(&["x:2", "y:2"], node("Add", "x y", "z", &[]));
    model.graph.as_mut().unwrap().input[1] = info("y:2", INT64);
    let text = error(&model);
    assert!(text.contains("in node \"the node\" (Add, opset17): "), "{text}");
    assert!(text.contains("F32") && text.contains("I64"), "{text}");
}

#[test]
fn symbols() {
    let model = model(&["x:N,3", "y:3"], node("Multiply", "x y", "z", &[]));
    let typed = typed(&model).unwrap();
    let shape = typed.output_fact(0).unwrap().shape.to_tvec();
    assert_eq!(tract_openvino_kernels::checks::listed(&shape), "[N, 3]");
    for rows in [0, 1, 4] {
        let x = Tensor::zero::<f32>(&[rows, 3]).unwrap();
        let outputs = run(typed.clone(), &[x, tensor1(&[1f32, 2., 3.])]).unwrap();
        assert_eq!(outputs[0].shape(), [rows, 3]);
    }
}

#[test]
fn shapes_that_no_tensor_has() {
    let huge = isize::MAX;
    let axes = ["1"; 70].join(",");
    let too_large = &format!("whose product is more than {MAX_DECLARED_ELEMENTS}");
    for (shape, expected) in [
        (format!("x:{huge},4"), &**too_large),
        (format!("x:0,{huge},8"), too_large),
        (format!("x:N,{huge}"), too_large),
        (format!("x:{axes}"), "would have 70 axes, but may have 64 at most"),
    ] {
        let text = error(&model(&[&shape], node("Mish", "x", "z", &[])));
        assert!(text.contains(expected) && text.contains("the node"), "{text}");
    }
    let mut negative = model(&["x:-5"], node("Mish", "x", "z", &[]));
    typed(&negative).unwrap_err();
    negative.graph.as_mut().unwrap().node[0].op_type = "Negative".into();
    typed(&negative).unwrap_err();
}

/// A name may be as long as a file.
#[test]
fn long_names() {
    let long = "é".repeat(100_000);
    let attributes = [string("output_type", "i32")];
    let named = NodeProto { name: long.clone(), ..node("ShapeOf", "x", "z", &attributes) };
    let mut shape = model(&["x:N"], named);
    shape.graph.as_mut().unwrap().output = vec![info("z:1", INT64)];
    let typed = typed(&shape).unwrap();
    assert!(typed.nodes().iter().all(|node| node.name.len() < 1000));
    let named = NodeProto { name: long, ..node("Mish", "x y", "z", &[]) };
    assert!(error(&model(&["x:2", "y:2"], named)).contains("bytes left out"));
}

/// Two symbols that must be equal: that they are is checked when the model runs.
#[test]
fn symbols_that_must_be_equal() {
    let inverse = model(&["x:N,M"], node("Inverse", "x", "z", &[int("adjoint", 0)]));
    let typed = typed(&inverse).unwrap();
    let square = tensor2(&[[2f32, 0.], [0., 4.]]);
    let outputs = run(typed.clone(), &[square]).unwrap();
    assert_eq!(*outputs[0], tensor2(&[[0.5f32, 0.], [0., 0.25]]));
    let error = run(typed, &[Tensor::zero::<f32>(&[2, 3]).unwrap()]).unwrap_err();
    assert!(format!("{error:#}").contains("is 3, but must be 2"), "{error:#}");
    // Where sizes may be equal or 1, they need not be equal.
    let add = super::tests::typed(&model(&["x:N", "y:M"], node("Add", "x y", "z", &[]))).unwrap();
    let outputs = run(add, &[tensor1(&[1f32, 2.]), tensor1(&[3f32])]).unwrap();
    assert_eq!(*outputs[0], tensor1(&[4f32, 5.]));
}

/// What only a run knows: the model must say of which type and rank the output is.
#[test]
fn values_of_a_run() {
    let mut tile = model(&["x:2"], node("Tile", "x y", "z", &[]));
    let graph = tile.graph.as_mut().unwrap();
    graph.input.push(info("y:1", INT64));
    let text = error(&tile);
    assert!(text.contains("input 1 (repeats) is only known when the model runs"), "{text}");
    tile.graph.as_mut().unwrap().output = vec![info("z:length", FLOAT)];
    let typed = typed(&tile).unwrap();
    for repeats in [0, 3] {
        let inputs = [tensor1(&[1f32, 2.]), tensor1(&[repeats as i64])];
        assert_eq!(run(typed.clone(), &inputs).unwrap()[0].shape(), [2 * repeats]);
    }
}

/// The same between nodes, where a declared size may have a name, as those that the package onnx infers have.
#[test]
fn values_of_a_run_within() {
    for declared in ["z:length", "z:?"] {
        let mut model = model(&["x:2"], node("Tile", "x y", "z", &[]));
        let graph = model.graph.as_mut().unwrap();
        graph.input.push(info("y:1", INT64));
        graph.value_info.push(info(declared, FLOAT));
        graph.node.push(NodeProto {
            name: "neg".into(),
            op_type: "Neg".into(),
            input: vec!["z".into()],
            output: vec!["negative".into()],
            ..NodeProto::default()
        });
        graph.output = vec![info("negative", FLOAT)];
        tract_openvino::name_dimensions(&mut model);
        let typed = typed(&model).unwrap_or_else(|error| panic!("{declared}: {error:?}"));
        let output = run(typed, &[tensor1(&[1f32, 2.]), tensor1(&[3i64])]).unwrap();
        assert_eq!(*output[0], tensor1(&[-1f32, -2., -1., -2., -1., -2.]), "{declared}");
    }
}

/// Many nodes may have one name.
#[test]
fn names_that_nodes_share() {
    let mut chain = model(&["x:2"], node("Relu", "x", "y0", &[]));
    let graph = chain.graph.as_mut().unwrap();
    for number in 1..40 {
        let link = node("Abs", &format!("y{}", number - 1), &format!("y{number}"), &[]);
        graph.node.push(NodeProto { name: "same".into(), ..link });
    }
    graph.output = vec![info("y39", FLOAT)];
    let typed = typed(&chain).unwrap();
    let names: std::collections::HashSet<&str> =
        typed.nodes().iter().map(|node| &*node.name).collect();
    assert_eq!(names.len(), typed.nodes().len());
}

/// A size that only a run knows is one symbol, however often the node is looked at.
#[test]
fn sizes_of_a_run() {
    let mut model =
        model(&["x:N"], node("NonZero", "x", "places", &[string("output_type", "i64")]));
    let graph = model.graph.as_mut().unwrap();
    graph.node.push(NodeProto {
        op_type: "Shape".into(),
        input: vec!["places".into()],
        output: vec!["shape".into()],
        ..NodeProto::default()
    });
    let convert = node("Convert", "places", "floats", &[string("destination_type", "f32")]);
    graph.node.push(NodeProto { name: "convert".into(), ..convert });
    graph.output = vec![info("floats", FLOAT)];
    let mut inference =
        tract_onnx::onnx().with_openvino_ir().model_for_proto_model(&model).unwrap();
    inference.analyse(false).unwrap();
    let fact = inference.output_fact(0).unwrap().clone();
    // Of other sizes meanwhile.
    let mut other = inference.clone();
    other.set_input_fact(0, f32::fact([5]).into()).unwrap();
    other.analyse(false).unwrap();
    inference.analyse(false).unwrap();
    assert_eq!(*inference.output_fact(0).unwrap(), fact);
    let typed = inference.into_typed().unwrap();
    assert_eq!(typed.output_fact(0).unwrap().shape.to_tvec(), fact.shape.concretize().unwrap());
    let outputs = run(typed, &[tensor1(&[0f32, 3., 2.])]).unwrap();
    assert_eq!(*outputs[0], tensor2(&[[1f32, 2.]]));
}

/// Of random numbers no two are the same, whatever is constant.
#[test]
fn what_has_a_state_is_not_computed_while_the_model_is_loaded() {
    let attributes = [string("output_type", "f32"), int("global_seed", 0), int("op_seed", 0)];
    let mut random = model(&[], node("RandomUniform", "shape low high", "z", &attributes));
    let graph = random.graph.as_mut().unwrap();
    for (name, value) in [("low", 0f32), ("high", 1.)] {
        graph.initializer.push(TensorProto {
            name: name.into(),
            data_type: FLOAT,
            float_data: vec![value],
            ..TensorProto::default()
        });
    }
    let random = typed(&with_constant(random, "shape", &[4])).unwrap();
    let mut state = random.into_optimized().unwrap().into_runnable().unwrap().spawn().unwrap();
    let mut run = || state.run(tvec!()).unwrap()[0].clone();
    assert_ne!(run(), run());
}

#[test]
fn options_of_the_gathers() {
    let mut model = model(&["x:3"], node("GatherElements", "x i", "z", &[int("axis", 0)]));
    model.graph.as_mut().unwrap().input.push(info("i:1", INT64));
    let inputs = [tensor1(&[1f32, 2., 3.]), tensor1(&[-1i64])];
    let wrap = OpenVinoOptions::default().with_negative_indices(NegativeIndices::Wrap);
    let read = |reader: tract_onnx::Onnx| reader.model_for_proto_model(&model)?.into_typed();
    run(read(tract_onnx::onnx().with_openvino_ir()).unwrap(), &inputs).unwrap_err();
    // In any order, and more than once.
    for reader in [
        tract_onnx::onnx().with_openvino_options(wrap).with_openvino_ir().with_openvino_ir(),
        tract_onnx::onnx().with_openvino_ir().with_openvino_options(wrap),
    ] {
        assert_eq!(*run(read(reader).unwrap(), &inputs).unwrap()[0], tensor1(&[3f32]));
    }
    // The reader with the gathers alone does not have it.
    let gathers = tract_onnx::onnx().with_openvino().model_for_proto_model(&model);
    let error = format!("{:#}", gathers.unwrap_err());
    assert!(error.contains("does not have: GatherElements"), "{error}");
}

/// A name of OpenVINO's own reader of ONNX is its node, unless the node says which operation it is.
#[test]
fn forms_and_operations_of_one_name() {
    let sizes = |attributes: &[AttributeProto]| {
        let attributes = [&[int("min_size", 4)], attributes].concat();
        let mut model = model(&[], node("PriorBox", "map image", "z", &attributes));
        let graph = model.graph.as_mut().unwrap();
        graph.input = vec![info("map:2", INT64), info("image:2", INT64)];
        graph.output = vec![info("z:2,n", FLOAT)];
        model
    };
    typed(&sizes(&[string("version", "opset8")])).unwrap();
    let text = error(&sizes(&[]));
    assert!(text.contains("input 0 (feature map) has shape [2], but must have rank 4"), "{text}");
}

/// A node in a body of the standard domain.
#[test]
fn nodes_in_bodies() {
    let branch = |op_type: &str| GraphProto {
        name: op_type.into(),
        node: vec![node(op_type, "x", "branch", &[])],
        output: vec![info("branch", FLOAT)],
        ..GraphProto::default()
    };
    let body = |name: &str, op_type: &str| AttributeProto {
        name: name.into(),
        r#type: AttributeType::Graph as i32,
        g: Some(branch(op_type)),
        ..AttributeProto::default()
    };
    let both = |op_type: &str| {
        let attributes = [body("then_branch", op_type), body("else_branch", "Negative")];
        let mut model = model(
            &["x:2"],
            NodeProto { domain: String::new(), ..node("If", "is", "z", &attributes) },
        );
        model.graph.as_mut().unwrap().input.push(info("is:", 9));
        model
    };
    let typed = typed(&both("SoftSign")).unwrap();
    for (is, expected) in [(true, 0.5f32), (false, -1.)] {
        let outputs = run(typed.clone(), &[tensor1(&[1f32, 1.]), tensor0(is)]).unwrap();
        assert_eq!(*outputs[0], tensor1(&[expected; 2]));
    }
    assert!(error(&both("Foo")).contains("does not have: Foo"));
}

/// What is said in the log.
struct Log(Mutex<Vec<String>>);

static LOG: Log = Log(Mutex::new(vec![]));

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            self.0.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

#[test]
fn attributes_that_are_not_read() {
    log::set_logger(&LOG).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let elu = |names: &[&str]| {
        let attributes: Vec<_> = names.iter().map(|name| float(name, 1.)).collect();
        typed(&model(
            &["x:2"],
            NodeProto { name: "an elu".into(), ..node("Elu", "x", "z", &attributes) },
        ))
    };
    let said = || {
        let log = LOG.0.lock().unwrap();
        log.iter().filter(|text| text.contains("an elu")).cloned().collect::<Vec<_>>()
    };
    elu(&["alpha"]).unwrap();
    assert!(said().is_empty());
    elu(&["alpha", "alhpa"]).unwrap();
    assert_eq!(said(), ["node \"an elu\" (Elu, opset17): attributes that are not read: alhpa"]);
}
