//! GatherElements: its decisions, each with its test. What it gathers is compared with the oracle in
//! `properties.rs`.

use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{
    AxisOp, Cost, InOut, Op, TDim, ToDim, TypedOp,
};
use tract_openvino::{GatherElements, IndexError, NegativeIndices};

use crate::eval;

fn error(op: &GatherElements, data: Tensor, indices: Tensor) -> String {
    eval(op, data, indices).unwrap_err().to_string()
}

fn facts(op: &GatherElements, data: &[TDim], indices: &[TDim]) -> TractResult<TVec<TypedFact>> {
    op.output_facts(&[&f32::fact(data), &i64::fact(indices)])
}

#[test]
fn negative_indices_are_an_error_unless_they_wrap() {
    let op = GatherElements::new(1);
    let data = || tensor2(&[[1, 2, 3], [4, 5, 6]]);
    let indices = || tensor2(&[[0i64, 2], [-1, -3]]);
    assert_eq!(
        error(&op, data(), indices()),
        "GatherElements-6: indices[1, 0] is -1, but must be in [0, 2], as axis 1 of data has size 3 \
         (GatherElements-6 has no negative indices; with NegativeIndices::Wrap they count from the end)"
    );
    let op = op.with_negative_indices(NegativeIndices::Wrap);
    assert_eq!(eval(&op, data(), indices()).unwrap(), tensor2(&[[1, 3], [6, 4]]));
    let bad = eval(&op, data(), tensor2(&[[2i64], [-4]])).unwrap_err();
    let bad = bad.downcast_ref::<IndexError>().unwrap();
    assert_eq!((&*bad.position, bad.value, bad.axis, bad.size), (&[1, 0][..], -4, 1, 3));
}

#[test]
fn shapes_that_do_not_fit() {
    let op = GatherElements::new(0);
    let data = || tensor2(&[[1, 2], [3, 4]]);
    for (indices, expected) in [
        (tensor1(&[0i64]), "indices has rank 1, but must have rank 2, as data has"),
        (
            tensor2(&[[0i64]]),
            "dimension 1 is 2 in data and 1 in indices, but must be the same in both",
        ),
    ] {
        assert_eq!(error(&op, data(), indices), format!("GatherElements-6: {expected}"));
    }
    let no_axis = error(&GatherElements::new(2), data(), tensor2(&[[0i64]]));
    assert!(no_axis.contains("axis is 2, but must be in [-2, 1], as data has rank 2"), "{no_axis}");
    let float = error(&op, data(), tensor2(&[[0f32, 0.]]));
    assert!(float.contains("indices has element type F32"), "{float}");
}

#[test]
fn what_is_empty() {
    let op = GatherElements::new(1);
    let empty = |shape: &[usize]| Tensor::zero::<i64>(shape).unwrap();
    assert_eq!(eval(&op, empty(&[2, 3]), empty(&[2, 0])).unwrap(), empty(&[2, 0]));
    assert_eq!(eval(&op, empty(&[0, 3]), empty(&[0, 5])).unwrap(), empty(&[0, 5]));
    assert_eq!(
        error(&op, empty(&[2, 0]), empty(&[2, 1])),
        "GatherElements-6: indices[0, 0] is 0, but axis 1 of data has size 0, so no index is in range"
    );
}

#[test]
fn facts_know_what_one_of_the_inputs_knows() {
    let scope = SymbolScope::default();
    let [n, m, c] = ["N", "M", "C"].map(|name| scope.sym(name).to_dim());
    let op = GatherElements::new(1);
    let output = facts(&op, &[n.clone(), 4.to_dim(), c], &[m, 2.to_dim(), 3.to_dim()]).unwrap();
    assert_eq!(*output[0].shape, [n, 2.to_dim(), 3.to_dim()]);
    assert_eq!(op.info().unwrap()[0], "axis: 1");
    let inputs = [&f32::fact([5, 4]), &i64::fact([5, 2])];
    let moved = (Cost::Custom(false, "Bytes moved".into()), 40.to_dim());
    assert_eq!(&*op.cost(&inputs).unwrap(), [moved]);
}

#[test]
fn bad_constant_indices_make_no_model() {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([2, 3])).unwrap();
    let indices = model.add_const("indices", tensor2(&[[0i32], [3]])).unwrap();
    let error = model.wire_node("gather", GatherElements::new(1), &[data, indices]).unwrap_err();
    assert!(format!("{error:?}").contains("indices[1, 0] is 3"), "{error:?}");
}

/// An axis of two names may turn out to be one of two sizes: it stays where the error would be found.
#[test]
fn an_axis_of_two_names_is_not_removed() {
    let changed = |data: &str, indices: &str, change: AxisOp| {
        let mut model = TypedModel::default();
        let dims = |model: &TypedModel, name: &str| [model.symbols.sym(name).to_dim(), 3.to_dim()];
        let data = f32::fact(dims(&model, data));
        let data = model.add_source("data", data).unwrap();
        let indices = i64::fact(dims(&model, indices));
        let indices = model.add_source("indices", indices).unwrap();
        let output = model.wire_node("gather", GatherElements::new(1), &[data, indices]).unwrap();
        let node = model.node(output[0].node);
        let change = node.op.change_axes(&model, node, InOut::In(0), &change).unwrap();
        change.map(|change| {
            let op = change.substitute_op;
            op.map_or(1, |op| op.downcast_ref::<GatherElements>().unwrap().axis())
        })
    };
    assert_eq!(changed("N", "N", AxisOp::Rm(0)), Some(0));
    assert_eq!(changed("N", "M", AxisOp::Rm(0)), None);
    assert_eq!(changed("N", "M", AxisOp::Move(0, 1)), Some(0));
    assert_eq!(changed("N", "M", AxisOp::Add(2)), Some(1));
    assert_eq!(changed("N", "N", AxisOp::Rm(1)), None);
}
