//! Which node becomes which operator.

use gather_cases::onnx_model::*;
use std::sync::{Mutex, OnceLock};

use tract_openvino::tract_onnx::model::ParsingContext;
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto, NodeProto};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{InferenceOp, tract_core};
use tract_openvino::{
    DOMAIN, IndexError, NegativeIndices, OpenVinoOptions, WithOpenVino, WithOpenVinoOptions,
    tract_onnx,
};

const F32: DatumType = DatumType::F32;
const I64: DatumType = DatumType::I64;

/// A model with these nodes, inputs `data` [5] and `indices` [3], initializers `axis` and `tuples`.
fn model_of(opset: Option<i64>, nodes: Vec<NodeProto>) -> ModelProto {
    let outputs = nodes.iter().map(|node| output(&node.output[0])).collect();
    let graph = GraphProto {
        node: nodes,
        input: vec![input("data", F32, [5usize]), input("indices", I64, [3usize])],
        output: outputs,
        initializer: vec![
            initializer("axis", &tensor0(0i64)),
            initializer("tuples", &tensor2(&[[1i64], [3]])),
        ],
        ..GraphProto::default()
    };
    model(opset, graph)
}

fn gather_node(output: &str) -> NodeProto {
    node(DOMAIN, "Gather", &["data", "indices", "axis"], output)
}

fn gather_nd_node(output: &str) -> NodeProto {
    node(DOMAIN, "GatherND", &["data", "tuples"], output)
}

fn stock_gather_node(domain: &str, output: &str) -> NodeProto {
    node(domain, "Gather", &["data", "indices"], output)
}

/// The name of the operator that gives an output of the model.
fn operator(model: &InferenceModel, output: &str) -> String {
    model.node_by_name(format!("node_{output}")).unwrap().op.name().into_owned()
}

/// Which operators give these outputs of the model.
#[track_caller]
fn check_operators(model: &InferenceModel, expected: &[(&str, &str)]) {
    for (output, expected) in expected {
        assert_eq!(operator(model, output), *expected, "{output}");
    }
}

#[test]
fn the_import_of_the_domain_decides() {
    for (opset, expected) in
        [(1, "Gather-1"), (6, "Gather-1"), (7, "Gather-7"), (8, "Gather-8"), (16, "Gather-8")]
    {
        let model = read(&model_of(Some(opset), vec![gather_node("out")])).unwrap();
        assert_eq!(operator(&model, "out"), expected, "opset {opset}");
    }
    for (opset, expected) in [(5, "GatherND-5"), (7, "GatherND-5"), (8, "GatherND-8")] {
        let model = read(&model_of(Some(opset), vec![gather_nd_node("out")])).unwrap();
        assert_eq!(operator(&model, "out"), expected, "opset {opset}");
    }
}

#[test]
fn the_attribute_version_wins_node_by_node() {
    let with_version = |node, version| with_attribute(node, string("version", version));
    let nodes = vec![
        gather_node("imported"),
        with_version(gather_node("one"), "opset1"),
        with_version(gather_node("seven"), "opset7"),
        with_version(gather_node("nine"), "opset9"),
        with_version(gather_nd_node("nd_five"), "opset6"),
        with_version(gather_nd_node("nd_eight"), "opset8"),
    ];
    // An import that GatherND could not be resolved by.
    let model = read(&model_of(Some(4), nodes)).unwrap();
    let expected = [
        ("imported", "Gather-1"),
        ("one", "Gather-1"),
        ("seven", "Gather-7"),
        ("nine", "Gather-8"),
        ("nd_five", "GatherND-5"),
        ("nd_eight", "GatherND-8"),
    ];
    check_operators(&model, &expected);
}

/// The warnings that were logged, by any test of this program.
fn warnings() -> &'static Mutex<Vec<String>> {
    static WARNINGS: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
    struct Logger;
    impl log::Log for Logger {
        fn enabled(&self, _: &log::Metadata) -> bool {
            true
        }
        fn log(&self, record: &log::Record) {
            if record.level() == log::Level::Warn {
                warnings().lock().unwrap().push(record.args().to_string());
            }
        }
        fn flush(&self) {}
    }
    WARNINGS.get_or_init(|| {
        log::set_logger(&Logger).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
        Mutex::default()
    })
}

#[test]
fn without_an_import_it_is_the_newest_with_a_warning() {
    warnings();
    let nodes = vec![gather_node("not_imported"), gather_nd_node("not_imported_nd")];
    let model = read(&model_of(None, nodes)).unwrap();
    let expected = [("not_imported", "Gather-8"), ("not_imported_nd", "GatherND-8")];
    check_operators(&model, &expected);
    let warnings = warnings().lock().unwrap();
    let expected = "node \"node_not_imported\" is of domain org.openvinotoolkit, which the model \
                    does not import: it is read as Gather-8";
    assert!(warnings.iter().any(|warning| warning == expected), "{warnings:?}");
}

/// What stock tract makes of a model, and what it makes of it with the crate, is the same.
#[test]
fn the_standard_domain_stays_what_it_was() {
    for domain in ["", "ai.onnx"] {
        let model = model_of(Some(1), vec![stock_gather_node(domain, "out")]);
        let stock = tract_onnx::onnx().model_for_proto_model(&model).unwrap();
        let ours = read(&model).unwrap();
        assert_eq!(format!("{:?}", ours.nodes()), format!("{:?}", stock.nodes()));
        // Gather of ONNX wraps negative indices, Gather-1 does not.
        let data = tensor1(&[1f32, 2., 3., 4., 5.]);
        let output = run(&model, &[data, tensor1(&[0i64, -1, 2])]).unwrap().remove(0);
        assert_eq!(output, tensor1(&[1f32, 5., 3.]));
    }
}

#[test]
fn both_domains_in_one_model() {
    let nodes = vec![
        stock_gather_node("", "stock"),
        gather_node("ours"),
        node("", "GatherND", &["data", "tuples"], "stock_nd"),
        gather_nd_node("ours_nd"),
    ];
    let proto = model_of(Some(8), nodes);
    let model = read(&proto).unwrap();
    let expected = [
        ("stock", "Gather"),
        ("ours", "Gather-8"),
        ("stock_nd", "GatherNd"),
        ("ours_nd", "GatherND-8"),
    ];
    check_operators(&model, &expected);
    let data = tensor1(&[1f32, 2., 3., 4., 5.]);
    let outputs = run(&proto, &[data, tensor1(&[0i64, -1, 2])]).unwrap();
    assert_eq!(outputs[0], outputs[1]);
    assert_eq!(outputs[2], outputs[3]);
}

/// A node `If` with a node in each branch.
fn if_node(then_node: NodeProto, else_node: NodeProto) -> NodeProto {
    let branch = |node: NodeProto| GraphProto {
        output: vec![output(&node.output[0])],
        node: vec![node],
        ..GraphProto::default()
    };
    let node = node("", "If", &["condition"], "chosen");
    let node = with_attribute(node, graph("then_branch", branch(then_node)));
    with_attribute(node, graph("else_branch", branch(else_node)))
}

/// `If` with one of ours and one of the standard domain in its branches.
#[test]
fn in_the_branches_of_if() {
    let choice = if_node(gather_node("then_out"), stock_gather_node("", "else_out"));
    let mut model = model_of(Some(8), vec![choice]);
    let inputs = &mut model.graph.as_mut().unwrap().input;
    inputs.insert(0, input("condition", DatumType::Bool, [0usize; 0]));
    let data = tensor1(&[1f32, 2., 3., 4., 5.]);
    for (condition, expected) in [(true, [1f32, 5., 0.]), (false, [1., 5., 3.])] {
        // 7 is zero for Gather-8; ONNX's Gather would panic.
        let indices = tensor1(&[0i64, -1, if condition { 7 } else { 2 }]);
        let outputs = run(&model, &[tensor0(condition), data.clone(), indices]).unwrap();
        assert_eq!(outputs[0], tensor1(&expected));
    }
}

/// `Scan` over rows, each of which is gathered.
#[test]
fn in_the_body_of_scan() {
    let body = GraphProto {
        node: vec![
            node("", "Identity", &["state"], "state_out"),
            node(DOMAIN, "Gather", &["row", "picks", "zero"], "picked"),
        ],
        input: vec![input("state", F32, [0usize; 0]), input("row", F32, [4usize])],
        output: vec![output("state_out"), output("picked")],
        initializer: vec![
            initializer("picks", &tensor1(&[-1i64, 9])),
            initializer("zero", &tensor0(0i64)),
        ],
        ..GraphProto::default()
    };
    let mut scan = node("", "Scan", &["start", "rows"], "end");
    scan.output.push("all_picked".into());
    let scan = with_attribute(with_attribute(scan, graph("body", body)), int("num_scan_inputs", 1));
    let graph = GraphProto {
        node: vec![scan],
        input: vec![input("start", F32, [0usize; 0]), input("rows", F32, [3usize, 4])],
        output: vec![output("all_picked")],
        ..GraphProto::default()
    };
    let rows = tensor2(&[[1f32, 2., 3., 4.], [5., 6., 7., 8.], [9., 10., 11., 12.]]);
    let outputs = run(&model(Some(8), graph), &[tensor0(0f32), rows]).unwrap();
    assert_eq!(outputs[0], tensor2(&[[4f32, 0.], [8., 0.], [12., 0.]]));
}

#[test]
fn registering_twice_is_harmless_and_the_last_options_hold() {
    let wrap = OpenVinoOptions::default().with_negative_indices(NegativeIndices::Wrap);
    let nodes = vec![gather_node("ours"), stock_gather_node("", "stock")];
    let proto = model_of(Some(7), nodes);
    let data = tensor1(&[1f32, 2., 3., 4., 5.]);
    let inputs = || tvec!(data.clone().into(), tensor1(&[-1i64, 0, 1]).into());
    for (reader, wraps) in [
        (tract_onnx::onnx().with_openvino().with_openvino(), false),
        (tract_onnx::onnx().with_openvino().with_openvino_options(wrap), true),
        (tract_onnx::onnx().with_openvino_options(wrap).with_openvino(), false),
    ] {
        let model = reader.model_for_proto_model(&proto).unwrap();
        assert_eq!(operator(&model, "stock"), "Gather");
        let result = model.into_optimized().unwrap().into_runnable().unwrap().run(inputs());
        match result {
            Ok(outputs) if wraps => assert_eq!(*outputs[0], tensor1(&[5f32, 1., 2.])),
            Err(error) if !wraps => {
                assert_eq!(error.downcast_ref::<IndexError>().unwrap().value, -1);
            }
            result => panic!("{result:?}"),
        }
    }
}

// --- other plug-ins ---

/// Another plug-in's builder: whatever the node, an operator that hands on its input.
fn identity(_: &ParsingContext, _: &NodeProto) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    Ok((Box::new(tract_core::ops::identity::Identity), vec![]))
}

#[test]
fn an_earlier_override_is_kept_for_its_domains() {
    let mut reader = tract_onnx::onnx();
    reader.op_register.insert("Gather", identity);
    let reader = reader.with_openvino();
    let nodes = vec![
        node("com.example", "Gather", &["data"], "theirs"),
        node("", "Gather", &["data"], "standard"),
        gather_node("ours"),
    ];
    let model = reader.model_for_proto_model(&model_of(Some(8), nodes)).unwrap();
    let expected = [("theirs", "Identity"), ("standard", "Identity"), ("ours", "Gather-8")];
    check_operators(&model, &expected);
}

#[test]
fn an_earlier_operator_of_our_domain_is_kept() {
    let mut reader = tract_onnx::onnx();
    reader.op_register.insert("Relu", identity);
    reader.op_register.insert("Swish", identity);
    let reader = reader.with_openvino();
    let nodes = vec![
        node(DOMAIN, "Relu", &["data"], "relu"),
        node(DOMAIN, "Swish", &["data"], "swish"),
        gather_node("ours"),
    ];
    let model = reader.model_for_proto_model(&model_of(Some(8), nodes)).unwrap();
    let expected = [("relu", "Identity"), ("swish", "Identity"), ("ours", "Gather-8")];
    check_operators(&model, &expected);
}

#[test]
fn a_later_override_is_not_overridden_by_registering_again() {
    let mut reader = tract_onnx::onnx().with_openvino();
    reader.op_register.insert("Gather", identity);
    reader.enable_openvino();
    let nodes = vec![
        node("", "Gather", &["data"], "standard"),
        node(DOMAIN, "Gather", &["data"], "theirs"),
        gather_nd_node("ours"),
    ];
    let model = reader.model_for_proto_model(&model_of(Some(8), nodes)).unwrap();
    let expected = [("standard", "Identity"), ("theirs", "Identity"), ("ours", "GatherND-8")];
    check_operators(&model, &expected);
}

/// Another plug-in that keeps what was there before, as this one does.
#[test]
fn registering_again_behind_a_plug_in_that_hands_over_to_us() {
    fn hand_over(
        ctx: &ParsingContext,
        node: &NodeProto,
    ) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
        ctx.framework.op_register.0["theirs: Gather"](ctx, node)
    }
    for stock in [tract_onnx::onnx(), tract_onnx::Onnx::default()] {
        let is_empty = stock.op_register.0.is_empty();
        let mut reader = stock.with_openvino();
        let before = reader.op_register.0.insert("Gather".into(), hand_over).unwrap();
        reader.op_register.0.insert("theirs: Gather".into(), before);
        let wrap = OpenVinoOptions::default().with_negative_indices(NegativeIndices::Wrap);
        reader.enable_openvino_with(wrap);
        let nodes = vec![gather_node("ours"), stock_gather_node("", "stock")];
        let model = reader.model_for_proto_model(&model_of(Some(7), nodes)).unwrap();
        let ours = model.node_by_name("node_ours").unwrap();
        assert_eq!(ours.op.name(), "Gather-7");
        assert!(format!("{:?}", ours.op).contains("Wrap"), "{ours:?}");
        let stock = operator(&model, "stock");
        assert_eq!(stock, if is_empty { "Unimplemented(Gather)" } else { "Gather" });
    }
}

#[test]
fn a_reader_without_operators() {
    let reader = tract_onnx::Onnx::default().with_openvino();
    let model = reader.model_for_proto_model(&model_of(Some(8), vec![gather_node("ours")]));
    assert_eq!(operator(&model.unwrap(), "ours"), "Gather-8");
    // As tract does where nobody knows the type.
    let nodes = vec![stock_gather_node("", "stock")];
    let model = reader.model_for_proto_model(&model_of(Some(8), nodes)).unwrap();
    assert!(
        format!("{:?}", model.node_by_name("node_stock").unwrap().op).contains("Unimplemented")
    );
}

// --- operators that nobody implements ---

#[track_caller]
fn refused(nodes: Vec<NodeProto>, unknown: &str) {
    let error = read(&model_of(Some(8), nodes)).expect_err("it is not implemented");
    let expected = format!(
        "the model has operators of domain org.openvinotoolkit that tract-openvino does not have: {unknown}. \
         It has Gather and GatherND"
    );
    assert!(format!("{error:#}").contains(&expected), "{error:#}");
}

#[test]
fn an_operator_with_a_name_of_onnx_is_not_taken_for_it() {
    refused(vec![node(DOMAIN, "Relu", &["data"], "out")], "Relu");
    refused(vec![node(DOMAIN, "Swish", &["data"], "out")], "Swish");
    refused(vec![gather_node("ours"), node(DOMAIN, "Softmax", &["data"], "out")], "Softmax");
}

#[test]
fn all_of_them_are_listed_at_once() {
    refused(
        vec![
            node(DOMAIN, "Swish", &["data"], "first"),
            gather_node("ours"),
            node(DOMAIN, "Softmax", &["data"], "second"),
            node(DOMAIN, "Swish", &["data"], "third"),
            node(DOMAIN, "GatherTree", &["data"], "fourth"),
        ],
        "GatherTree, Softmax, Swish",
    );
}

#[test]
fn in_subgraphs_too() {
    let choice = if_node(
        node(DOMAIN, "Relu", &["data"], "then_out"),
        node(DOMAIN, "GatherTree", &["data"], "else_out"),
    );
    refused(vec![choice], "GatherTree, Relu");
}

/// The standard operators on ours, where a program wants that.
#[test]
fn standard_gather_is_an_option() {
    let nodes = || {
        let tuples = node("", "GatherND", &["data", "tuples"], "points");
        vec![stock_gather_node("", "picked"), stock_gather_node("ai.onnx", "again"), tuples]
    };
    let names = |standard_gather| {
        let options = OpenVinoOptions::default().with_standard_gather(standard_gather);
        let mut reader = tract_onnx::onnx().with_openvino();
        reader.enable_openvino_with(options);
        let model = reader.model_for_proto_model(&model_of(None, nodes())).unwrap();
        ["picked", "again", "points"].map(|output| operator(&model, output))
    };
    assert_eq!(names(true), ["ONNX Gather", "ONNX Gather", "ONNX GatherND"]);
    assert_eq!(names(false), ["Gather", "Gather", "GatherNd"]);
}

/// What tract's own get wrong: a negative index and one that needs 64 bits, of GatherND; a bad index.
#[test]
fn standard_gather_means_what_onnx_says() {
    let nodes =
        vec![stock_gather_node("", "picked"), node("", "GatherND", &["data", "tuples"], "points")];
    let mut model = model_of(None, nodes);
    let graph = model.graph.as_mut().unwrap();
    graph.initializer.clear();
    graph.input.push(input("tuples", I64, [2usize, 1]));
    let options = OpenVinoOptions::default().with_standard_gather(true);
    let plan = tract_onnx::onnx().with_openvino_options(options).model_for_proto_model(&model);
    let plan = plan.unwrap().into_optimized().unwrap().into_runnable().unwrap();
    let run = |indices: [i64; 3], tuples: [[i64; 1]; 2]| {
        let data = tensor1(&[0f32, 1., 2., 3., 4.]);
        plan.run(tvec!(data.into(), tensor1(&indices).into(), tensor2(&tuples).into()))
    };
    let outputs = run([-1, 0, -5], [[-1], [1]]).unwrap();
    assert_eq!(*outputs[0], tensor1(&[4f32, 0., 0.]));
    assert_eq!(*outputs[1], tensor1(&[4f32, 1.]));
    for (indices, tuples) in
        [([0, 5, 0], [[0], [0]]), ([0, 0, 0], [[-6], [0]]), ([0, 0, 0], [[(1i64 << 32) + 1], [0]])]
    {
        let error = run(indices, tuples).unwrap_err();
        let operator = error.downcast_ref::<IndexError>().expect("an index error").operator;
        assert_eq!(operator, if indices[1] == 0 { "ONNX GatherND" } else { "ONNX Gather" });
    }
}

/// Rewrites and archives keep the name that errors use.
#[cfg(feature = "nnef")]
#[test]
fn standard_gather_keeps_its_name() {
    // Constant tuples of one entry, which a rewrite makes a Gather.
    let points = node("", "GatherND", &["data", "tuples"], "points");
    let nodes = vec![stock_gather_node("", "picked"), points];
    let options = OpenVinoOptions::default().with_standard_gather(true);
    let reader = tract_onnx::onnx().with_openvino_options(options);
    let model = reader.model_for_proto_model(&model_of(None, nodes)).unwrap();
    let model = model.into_typed().unwrap().into_decluttered().unwrap();
    let names = |model: &TypedModel| {
        let names = model.nodes().iter().map(|node| node.op.name().into_owned());
        names.filter(|name| name.contains("Gather")).collect::<Vec<_>>()
    };
    assert_eq!(names(&model), ["ONNX Gather", "ONNX Gather"]);
    let nnef = tract_openvino::tract_nnef::nnef().with_openvino();
    let mut archive = vec![];
    nnef.write(&model, &mut archive).unwrap();
    let loaded = nnef.model_for_read(&mut &*archive).unwrap();
    assert_eq!(names(&loaded), names(&model));
}
