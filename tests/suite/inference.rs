//! Types and shapes that are partly known: facts in, facts out, from the inputs to the output and
//! back.
//!
//! A fact is written like `2,?,N,F32`: dimensions, then the element type. `?` is what is not known;
//! `..` stands for any number of further dimensions.

use gather_cases::onnx_model::{self, initializer, int, model, node, output, with_attribute};
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{
    DimFact, GenericFactoid, ShapeFactoid, SymbolScope, parse_tdim,
};
use tract_openvino::{DOMAIN, WithOpenVino, tract_onnx};

fn fact(symbols: &SymbolScope, text: &str) -> InferenceFact {
    let mut parts: Vec<&str> = text.split(',').collect();
    let dt = parts.pop().unwrap();
    let open = parts.last() == Some(&"..");
    if open {
        parts.pop();
    }
    let dims: TVec<DimFact> = parts
        .into_iter()
        .map(|dim| match dim {
            "?" => GenericFactoid::Any,
            dim => GenericFactoid::Only(parse_tdim(symbols, dim).unwrap()),
        })
        .collect();
    let shape = if open { ShapeFactoid::open(dims) } else { ShapeFactoid::closed(dims) };
    let fact = InferenceFact::shape(shape);
    if dt == "?" { fact } else { fact.with_datum_type(dt.parse().unwrap()) }
}

/// A node, without anything known of it but its attributes.
#[derive(Clone, Copy)]
enum Node {
    /// Operator set, axis (if it is constant), batch_dims.
    Gather(i64, Option<i64>, i64),
    /// Operator set, batch_dims.
    GatherNd(i64, i64),
}

impl Node {
    fn proto(self) -> ModelProto {
        let (opset, node, initializers) = match self {
            Node::Gather(opset, axis, batch_dims) => {
                let mut node = node(DOMAIN, "Gather", &["data", "indices", "axis"], "output");
                if opset > 6 {
                    node = with_attribute(node, int("batch_dims", batch_dims));
                }
                (opset, node, axis.map(|axis| initializer("axis", &tensor0(axis))))
            }
            Node::GatherNd(opset, batch_dims) => {
                let node = node(DOMAIN, "GatherND", &["data", "indices"], "output");
                (opset, with_attribute(node, int("batch_dims", batch_dims)), None)
            }
        };
        let mut graph = GraphProto {
            node: vec![node],
            initializer: initializers.into_iter().collect(),
            output: vec![output("output")],
            ..GraphProto::default()
        };
        let given = graph.initializer.len();
        for name in graph.node[0].input.clone().into_iter().rev().skip(given).rev() {
            graph.input.push(onnx_model::input(&name, DatumType::F32, [0usize; 0]));
        }
        model(Some(opset), graph)
    }

    /// What is known of data, indices and output after the rules of the node were applied to what
    /// is known before.
    fn infer(self, facts: [&str; 3]) -> TractResult<[String; 3]> {
        let mut model = tract_onnx::onnx().with_openvino().model_for_proto_model(&self.proto())?;
        let symbols = model.symbols.clone();
        let [data, indices, output] = facts.map(|text| fact(&symbols, text));
        let gather = model.output_outlets()?[0].node;
        let axis = model.node(gather).inputs.get(2).copied();
        let axis = axis.map(|outlet| match self {
            Node::Gather(_, Some(_), _) => model.outlet_fact(outlet).cloned(),
            _ => Ok(InferenceFact::default()),
        });
        let axis = axis.transpose()?;
        let inputs = [Some(&data), Some(&indices), axis.as_ref()].into_iter().flatten().collect();
        let op = &mut model.node_mut(gather).op;
        let (inputs, outputs, _) = op.infer_facts(inputs, tvec!(&output), tvec!())?;
        Ok([&inputs[0], &inputs[1], &outputs[0]].map(|fact| format!("{fact:?}")))
    }
}

/// tract writes the fact of a scalar without dimensions as its type, and `?` for unknown types.
#[track_caller]
fn check(node: Node, before: [&str; 3], after: [&str; 3]) {
    match node.infer(before) {
        Ok(got) => assert_eq!(got, after, "from {before:?}"),
        Err(error) => panic!("from {before:?}: {error:?}"),
    }
}

#[track_caller]
fn contradiction(node: Node, facts: [&str; 3], message: &str) {
    let error = node.infer(facts).map(|facts| panic!("{facts:?}")).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains(message), "{message:?} is not in: {error}");
}

const G8: fn(i64, i64) -> Node = |axis, batch_dims| Node::Gather(8, Some(axis), batch_dims);

#[test]
fn gather_forward() {
    // Everything known.
    check(G8(1, 0), ["2,5,4,F32", "3,6,I64", "..,?"], ["2,5,4,F32", "3,6,I64", "2,3,6,4,F32"]);
    check(G8(-1, 1), ["2,5,4,F32", "2,6,I64", "..,?"], ["2,5,4,F32", "2,6,I64", "2,5,6,F32"]);
    check(G8(0, 0), ["5,F32", "I64", "..,?"], ["5,F32", "I64", "F32"]);
    // Symbols and unknown dimensions.
    check(G8(1, 0), ["N,5,?,F32", "S,?,I64", "..,?"], ["N,5,?,F32", "S,?,I64", "N,S,?,?,F32"]);
    check(G8(1, 1), ["N,?,4,F32", "?,S,I64", "..,?"], ["N,?,4,F32", "N,S,I64", "N,S,4,F32"]);
    // The type alone.
    check(G8(1, 0), ["..,F16", "..,?", "..,?"], ["..,F16", "..,?", "..,F16"]);
    // Rank 1 data: only the axis goes.
    check(G8(0, 0), ["?,F32", "?,?,I64", "..,?"], ["?,F32", "?,?,I64", "?,?,F32"]);
}

#[test]
fn gather_rank_as_soon_as_the_ranks_are_known() {
    // Without the axis: the rank, and the batch dimensions.
    let node = Node::Gather(8, None, 1);
    check(node, ["N,5,4,F32", "?,6,I64", "..,?"], ["N,5,4,F32", "N,6,I64", "N,?,?,F32"]);
    // A negative batch_dims says how many axes of indices are left, even where nothing else does.
    let node = Node::Gather(7, Some(-1), -2);
    check(node, ["2,3,4,F32", "..,I64", "..,?"], ["2,3,4,F32", "..,I64", "?,?,?,?,F32"]);
    let node = Node::Gather(7, Some(1), -2);
    check(node, ["2,3,4,F32", "..,I64", "..,?"], ["2,3,4,F32", "..,I64", "?,?,?,4,F32"]);
    let node = Node::Gather(7, None, -1);
    check(node, ["2,3,F32", "..,I64", "..,?"], ["2,3,F32", "..,I64", "?,?,F32"]);
}

#[test]
fn gather_prefix_without_the_rank_of_indices() {
    check(G8(2, 1), ["2,3,4,F32", "..,I64", "..,?"], ["2,3,4,F32", "2,..,I64", "2,3,..,F32"]);
}

#[test]
fn gather_backward() {
    // Dimensions of the output that come from data and from indices.
    check(G8(1, 0), ["?,?,?,F32", "?,?,I64", "2,3,6,4,?"], ["2,?,4,F32", "3,6,I64", "2,3,6,4,F32"]);
    // The type of data.
    check(G8(0, 0), ["..,?", "..,?", "..,F32"], ["..,F32", "..,?", "..,F32"]);
    // The rank of data, and of indices.
    check(G8(1, 0), ["..,F32", "?,?,I64", "2,3,6,4,?"], ["2,?,4,F32", "3,6,I64", "2,3,6,4,F32"]);
    check(G8(1, 0), ["?,?,?,F32", "..,I64", "2,3,6,4,?"], ["2,?,4,F32", "3,6,I64", "2,3,6,4,F32"]);
    let from_the_end = Node::Gather(7, Some(1), -1);
    check(from_the_end, ["..,F32", "..,I64", "2,6,4,?"], ["?,?,4,F32", "..,I64", "2,6,4,F32"]);
    // A batch dimension that one of the three knows.
    for known in 0..3 {
        let mut facts = ["?,?,F32", "?,?,I64", "?,?,?"];
        facts[known] = ["7,?,F32", "7,?,I64", "7,?,?"][known];
        check(G8(1, 1), facts, ["7,?,F32", "7,?,I64", "7,?,F32"]);
        facts[known] = ["N,?,F32", "N,?,I64", "N,?,?"][known];
        check(G8(1, 1), facts, ["N,?,F32", "N,?,I64", "N,?,F32"]);
    }
}

#[test]
fn gather_nd_forward() {
    let node = Node::GatherNd(8, 0);
    check(node, ["2,5,4,F32", "3,6,2,I64", "..,?"], ["2,5,4,F32", "3,6,2,I64", "3,6,4,F32"]);
    check(node, ["2,5,4,F32", "3,6,3,I64", "..,?"], ["2,5,4,F32", "3,6,3,I64", "3,6,F32"]);
    check(node, ["2,5,F32", "2,I64", "..,?"], ["2,5,F32", "2,I64", "F32"]);
    check(node, ["2,5,4,F32", "N,0,I64", "..,?"], ["2,5,4,F32", "N,0,I64", "N,2,5,4,F32"]);
    check(node, ["?,?,S,F32", "N,?,2,I64", "..,?"], ["?,?,S,F32", "N,?,2,I64", "N,?,S,F32"]);
    // Unknown length of the tuples: unknown rank, but the leading dimensions.
    check(node, ["2,5,4,F32", "N,6,?,I64", "..,?"], ["2,5,4,F32", "N,6,?,I64", "N,6,..,F32"]);
    check(node, ["..,F32", "N,6,2,I64", "..,?"], ["..,F32", "N,6,2,I64", "N,6,..,F32"]);
    let node = Node::GatherNd(8, 1);
    check(node, ["N,5,4,F32", "?,6,1,I64", "..,?"], ["N,5,4,F32", "N,6,1,I64", "N,6,4,F32"]);
    // Batch dimensions, with no rank of indices.
    check(node, ["N,5,4,F32", "..,I64", "..,?"], ["N,5,4,F32", "N,..,I64", "N,..,F32"]);
}

#[test]
fn gather_nd_5_forward() {
    let node = Node::GatherNd(5, 2);
    check(
        node,
        ["2,3,5,4,F32", "2,3,6,1,I64", "..,?"],
        ["2,3,5,4,F32", "2,3,6,1,I64", "6,6,4,F32"],
    );
    check(
        node,
        ["A,3,5,4,F32", "?,?,S,1,I64", "..,?"],
        ["A,3,5,4,F32", "A,3,S,1,I64", "3*A,S,4,F32"],
    );
    check(
        node,
        ["?,3,5,4,F32", "?,?,S,1,I64", "..,?"],
        ["?,3,5,4,F32", "?,3,S,1,I64", "?,S,4,F32"],
    );
    let one = Node::GatherNd(5, 1);
    check(one, ["2,5,4,F32", "2,6,1,I64", "..,?"], ["2,5,4,F32", "2,6,1,I64", "2,6,4,F32"]);
}

#[test]
fn gather_nd_backward() {
    let node = Node::GatherNd(8, 0);
    check(node, ["?,?,?,F32", "?,?,2,I64", "3,6,4,?"], ["?,?,4,F32", "3,6,2,I64", "3,6,4,F32"]);
    // The rank of data, and the length of the tuples.
    check(node, ["..,F32", "?,?,2,I64", "3,6,4,?"], ["?,?,4,F32", "3,6,2,I64", "3,6,4,F32"]);
    check(node, ["?,?,?,F32", "?,?,?,I64", "3,6,4,?"], ["?,?,4,F32", "3,6,2,I64", "3,6,4,F32"]);
    check(node, ["..,?", "..,?", "..,F32"], ["..,F32", "..,?", "..,F32"]);
    let node = Node::GatherNd(8, 1);
    for known in 0..3 {
        let mut facts = ["?,?,F32", "?,?,1,I64", "?,?,?"];
        facts[known] = ["N,?,F32", "N,?,1,I64", "N,?,?"][known];
        check(node, facts, ["N,?,F32", "N,?,1,I64", "N,?,F32"]);
    }
    let fused = Node::GatherNd(5, 2);
    check(
        fused,
        ["2,?,?,?,F32", "?,3,?,1,I64", "?,6,4,?"],
        ["2,3,?,4,F32", "2,3,6,1,I64", "6,6,4,F32"],
    );
}

#[test]
fn unknown_stays_unknown() {
    for node in [G8(0, 0), G8(-1, -1), Node::Gather(8, None, 0), Node::Gather(1, Some(0), 0)] {
        check(node, ["..,?", "..,?", "..,?"], ["..,?", "..,?", "..,?"]);
    }
    for node in [Node::GatherNd(8, 0), Node::GatherNd(8, 2), Node::GatherNd(5, 2)] {
        check(node, ["..,?", "..,?", "..,?"], ["..,?", "..,?", "..,?"]);
    }
}

#[test]
fn contradictions_name_both_values() {
    contradiction(G8(1, 0), ["2,5,4,F32", "3,I64", "7,3,4,F32"], "Val(7) with Val(2).");
    contradiction(G8(1, 0), ["2,5,4,F32", "3,I64", "2,9,4,F32"], "Val(9) with Val(3).");
    contradiction(G8(1, 0), ["2,5,4,F32", "3,I64", "2,3,8,F32"], "Val(8) with Val(4).");
    contradiction(G8(1, 0), ["2,5,4,F32", "3,I64", "2,3,4,F64"], "F64 with F32.");
    contradiction(
        G8(1, 1),
        ["2,5,F32", "3,1,I64", "..,?"],
        "batch dimension 0 is 2 in data and 3 in indices",
    );
    contradiction(G8(1, 1), ["2,5,F32", "2,1,I64", "6,1,?"], "Val(6) with Val(2).");
    contradiction(
        G8(1, 0),
        ["2,5,4,F32", "..,I64", "6,F32"],
        "the output has rank 1, but must have rank 2 or more, as data has rank 3",
    );
    contradiction(
        Node::Gather(7, Some(0), -2),
        ["..,F32", "..,I64", "6,F32"],
        "the output has rank 1, but must have rank 2 or more with these indices",
    );
    // An axis below batch_dims, though nobody knows the rank of data.
    let both = "batch_dims is 2, but must be at most axis, which is 1";
    contradiction(G8(1, 2), ["..,F32", "..,I64", "..,?"], both);
    contradiction(G8(1, -1), ["..,F32", "2,3,6,I64", "..,?"], both);
    // A batch_dims that leaves no axis, whatever the axis is.
    let both = "batch_dims is 2, but must be at most 1, as data has rank 2";
    contradiction(Node::Gather(7, None, 2), ["2,3,F32", "..,I64", "..,?"], both);
    contradiction(Node::Gather(7, None, -1), ["2,3,F32", "2,3,6,I64", "..,?"], both);
    contradiction(Node::GatherNd(8, 0), ["2,5,F32", "3,1,I64", "3,6,F32"], "Val(6) with Val(5).");
    contradiction(
        Node::GatherNd(8, 0),
        ["2,5,F32", "3,?,I64", "3,6,7,8,F32"],
        "the output has rank 4, but must have a rank in [1, 3], as data has rank 2, indices has rank 2 and batch_dims is 0",
    );
    contradiction(
        Node::GatherNd(8, 1),
        ["2,5,F32", "3,1,I64", "..,F32"],
        "batch dimension 0 is 2 in data and 3 in indices",
    );
    contradiction(Node::GatherNd(5, 2), ["2,3,5,F32", "2,3,1,I64", "7,F32"], "Val(7) with Val(6).");
}
