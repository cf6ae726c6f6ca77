//! What tract's optimiser does with the operators: each rewrite where it applies, and one step beyond.

use gather_cases::onnx_model::{self, input, read};
use gather_cases::transformer;
use model_cases::{Stage, StagedModel};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_core::batchify::{Batchify, BatchifyConfig};
use tract_openvino::tract_onnx::tract_core::floats::FloatPrecisionTranslator;
use tract_openvino::tract_onnx::tract_core::ops::array::{Slice, TypedConcat};
use tract_openvino::tract_onnx::tract_core::ops::cast::cast;
use tract_openvino::tract_onnx::tract_core::ops::konst::Const;
use tract_openvino::tract_onnx::tract_core::ops::math::{mul, square};
use tract_openvino::tract_onnx::tract_core::ops::nn::{Reduce, Reducer};
use tract_openvino::tract_onnx::tract_core::transform::ModelTransform;
use tract_openvino::tract_onnx::tract_hir::internal::{
    AxisOp, Cost, EvalContext, SpecialOps, TDim, ToDim, TypedOp,
};
use tract_openvino::{
    Gather, GatherNd, GatherNdRevision, GatherRevision, NegativeIndices, Operation, WithOpenVino,
    tract_onnx,
};

const V7: GatherRevision = GatherRevision::V7;
const V8: GatherRevision = GatherRevision::V8;

fn gather(revision: GatherRevision, axis: usize, batch_dims: usize) -> Gather {
    Gather::new(revision, axis).with_batch_dims(batch_dims).unwrap()
}

fn gather_nd(batch_dims: usize) -> GatherNd {
    GatherNd::new(GatherNdRevision::V8).with_batch_dims(batch_dims).unwrap()
}

/// `data` that counts from 0.
fn counting(shape: &[usize]) -> Tensor {
    let length = shape.iter().product::<usize>();
    let numbers: Vec<f32> = (0..length).map(|number| number as f32).collect();
    tensor1(&numbers).into_shape(shape).unwrap()
}

/// One node with fed data and constant indices.
fn with_constant(op: impl TypedOp, data: &[TDim], indices: Tensor) -> TypedModel {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact(data)).unwrap();
    let indices = model.add_const("indices", indices).unwrap();
    let output = model.wire_node("gather", op, &[data, indices]).unwrap();
    model.select_output_outlets(&output).unwrap();
    model
}

/// The operators that are left when the model is decluttered, in the order of evaluation, but for
/// sources and constants.
fn decluttered_ops(model: &TypedModel) -> Vec<String> {
    let model = model.clone().into_decluttered().unwrap();
    let order = model.eval_order().unwrap();
    let names = order.iter().map(|id| model.node(*id).op.name().to_string());
    names.filter(|name| name != "Source" && name != "Const").collect()
}

/// Declutters the model into these operators, which give what the model as it was gave.
#[track_caller]
fn check(model: &TypedModel, data: Tensor, expected: &[&str]) {
    assert_eq!(decluttered_ops(model), expected);
    let run = |stage| {
        let mut model = StagedModel::from_typed(model.clone(), stage).unwrap();
        model.run(std::slice::from_ref(&data)).unwrap()
    };
    let typed = run(Stage::Typed);
    assert_eq!(run(Stage::Decluttered), typed);
    assert_eq!(run(Stage::Optimized), typed);
}

#[track_caller]
fn check_constant(op: impl TypedOp, data: &[usize], indices: Tensor, expected: &[&str]) {
    let dims: Vec<TDim> = data.iter().map(|dim| dim.to_dim()).collect();
    check(&with_constant(op, &dims, indices), counting(data), expected);
}

#[test]
fn every_index_in_order_is_nothing() {
    check_constant(gather(V7, 1, 0), &[2, 3], tensor1(&[0i64, 1, 2]), &[]);
    check_constant(gather(V8, 1, 0), &[2, 3], tensor1(&[0i32, -2, -1]), &[]);
    check_constant(gather(V7, 1, 1), &[2, 3], tensor2(&[[0i64, 1, 2], [0, 1, 2]]), &[]);
    // One is missing, out of order, twice, zero-filled, in another batch; or the axes differ.
    check_constant(gather(V7, 1, 0), &[2, 4], tensor1(&[0i64, 1, 2]), &["Slice"]);
    check_constant(gather(V7, 1, 0), &[2, 3], tensor1(&[0i64, 2, 1]), &["Gather-7"]);
    check_constant(gather(V7, 1, 0), &[2, 3], tensor1(&[0i64, 1, 2, 0]), &["Gather-7"]);
    check_constant(gather(V8, 1, 0), &[2, 2], tensor1(&[0i64, 1, 2]), &["Gather-8"]);
    let two = tensor2(&[[0i64, 1, 2], [0, 2, 1]]);
    check_constant(gather(V7, 1, 1), &[2, 3], two, &["Gather-7"]);
    check_constant(gather(V7, 1, 0), &[2, 4], tensor2(&[[0i64, 1], [2, 3]]), &["Gather-7"]);
}

#[test]
fn of_an_axis_of_unknown_size_nothing_is_known() {
    for indices in [tensor1(&[0i64]), tensor1(&[0i64, 1]), tensor1(&[0i64, 1, 2])] {
        let mut model = TypedModel::default();
        let n = model.symbols.sym("N");
        let data = model.add_source("data", f32::fact(&[2.to_dim(), n.into()])).unwrap();
        let indices = model.add_const("indices", indices).unwrap();
        let output = model.wire_node("gather", gather(V7, 1, 0), &[data, indices]).unwrap();
        model.select_output_outlets(&output).unwrap();
        check(&model, counting(&[2, 3]), &["Gather-7"]);
    }
}

#[test]
fn one_index_is_a_slice() {
    check_constant(gather(V7, 1, 0), &[2, 3], tensor0(2i64), &["Slice", "RmAxis"]);
    check_constant(gather(V8, 1, 0), &[2, 3], tensor1(&[-1i8]), &["Slice"]);
    check_constant(gather(V7, 0, 0), &[2, 3], tensor2(&[[1u8]]), &["Slice", "AddAxis"]);
    // Zero-filled; or with a batch.
    check_constant(gather(V8, 1, 0), &[2, 3], tensor0(3i64), &["Gather-8"]);
    check_constant(gather(V7, 1, 1), &[2, 3], tensor1(&[1i64, 2]), &["Gather-7"]);
}

#[test]
fn index_0_of_an_axis_of_size_1_is_no_slice() {
    check_constant(gather(V7, 1, 0), &[2, 1], tensor0(0i64), &["RmAxis"]);
    check_constant(gather(V8, 1, 0), &[2, 1], tensor1(&[-1i64]), &[]);
    check_constant(gather(V8, 1, 0), &[2, 1], tensor1(&[1i64]), &["Gather-8"]);
}

#[test]
fn ascending_indices_are_a_slice() {
    check_constant(gather(V7, 0, 0), &[5, 2], tensor1(&[1i32, 2, 3]), &["Slice"]);
    check_constant(gather(V8, 0, 0), &[5, 2], tensor1(&[-3i64, 3, -1]), &["Slice"]);
    // With a gap, a step back, a zero-filled end, in two rows.
    check_constant(gather(V7, 0, 0), &[5, 2], tensor1(&[1i32, 3]), &["Gather-7"]);
    check_constant(gather(V7, 0, 0), &[5, 2], tensor1(&[2i32, 1]), &["Gather-7"]);
    check_constant(gather(V8, 0, 0), &[5, 2], tensor1(&[3i32, 4, 5]), &["Gather-8"]);
    check_constant(gather(V7, 0, 0), &[5, 2], tensor2(&[[1i32, 2], [2, 3]]), &["Gather-7"]);
}

/// Two nodes, one after the other, with constant indices.
fn chain(
    first: Gather,
    data: &[usize],
    first_indices: Tensor,
    op: Gather,
    indices: Tensor,
) -> TypedModel {
    let dims: Vec<TDim> = data.iter().map(|dim| dim.to_dim()).collect();
    let mut model = with_constant(first, &dims, first_indices);
    let first = model.output_outlets().unwrap()[0];
    let indices = model.add_const("second_indices", indices).unwrap();
    let output = model.wire_node("second", op, &[first, indices]).unwrap();
    model.select_output_outlets(&output).unwrap();
    model
}

#[test]
fn a_gather_of_a_gather_is_one() {
    let first = tensor1(&[4i64, 0, 2, 1]);
    let one =
        chain(gather(V7, 1, 0), &[2, 5], first.clone(), gather(V8, 1, 0), tensor2(&[[3i64, -4]]));
    check(&one, counting(&[2, 5]), &["Gather-8"]);
    // Along another axis; one with a zero fill; one with a batch; indices of two axes.
    let other =
        chain(gather(V7, 1, 0), &[3, 5], first.clone(), gather(V7, 0, 0), tensor1(&[2i64, 0]));
    check(&other, counting(&[3, 5]), &["Gather-7", "Gather-7"]);
    let zeros =
        chain(gather(V8, 1, 0), &[2, 4], first.clone(), gather(V7, 1, 0), tensor1(&[3i64, 0]));
    check(&zeros, counting(&[2, 4]), &["Gather-8", "Gather-7"]);
    let zeros = chain(gather(V7, 1, 0), &[2, 5], first, gather(V8, 1, 0), tensor1(&[4i64, 0]));
    check(&zeros, counting(&[2, 5]), &["Gather-7", "Gather-8"]);
    let two = tensor2(&[[4i64, 0], [2, 1]]);
    let axes = chain(gather(V7, 1, 0), &[2, 5], two.clone(), gather(V7, 1, 0), tensor1(&[1i64, 0]));
    check(&axes, counting(&[2, 5]), &["Gather-7", "Gather-7"]);
}

#[test]
fn constant_indices_become_positions() {
    let indices_of = |op: Gather, indices: Tensor| {
        let model = with_constant(op, &[5.to_dim()], indices).into_decluttered().unwrap();
        let gather = model.nodes().iter().find(|node| node.op_is::<Gather>()).unwrap();
        model.outlet_fact(gather.inputs[1]).unwrap().konst.clone().unwrap()
    };
    let positions = tensor1(&[4i64, 0, 3]);
    assert_eq!(*indices_of(gather(V8, 0, 0), tensor1(&[-1i8, 0, -2])), positions);
    assert_eq!(*indices_of(gather(V7, 0, 0), tensor1(&[4u64, 0, 3])), positions);
    let wrap = gather(V7, 0, 0).with_negative_indices(NegativeIndices::Wrap);
    assert_eq!(*indices_of(wrap, tensor1(&[-1i64, 0, 3])), positions);
    let zero_filled = tensor1(&[-1i8, 0, 5]);
    assert_eq!(*indices_of(gather(V8, 0, 0), zero_filled.clone()), zero_filled);
}

#[test]
fn tuples_of_one_entry_are_gather() {
    check_constant(gather_nd(0), &[5, 2], tensor2(&[[3i64], [1]]), &["Gather-7"]);
    check_constant(gather_nd(1), &[2, 5], tensor2(&[[3i64], [1]]), &["Gather-7"]);
    // Of two entries; or where batch dimensions are fused.
    check_constant(gather_nd(0), &[5, 2], tensor2(&[[3i64, 1], [1, 0]]), &["GatherND-8"]);
    let fused = GatherNd::new(GatherNdRevision::V5).with_batch_dims(2).unwrap();
    let indices = tensor1(&[3i64, 1]).into_shape(&[1, 2, 1]).unwrap();
    check_constant(fused, &[1, 2, 5], indices, &["GatherND-5"]);
}

#[test]
fn tuples_do_not_reach_over_axes_of_size_1() {
    let indices = tensor2(&[[0i64, 0, 3, 1], [0, 0, 1, 0]]);
    let model = [1, 1, 5, 2];
    check_constant(gather_nd(0), &model, indices, &["RmAxis", "RmAxis", "GatherND-8"]);
    let indices = tensor2(&[[0i64, 3], [0, 1]]);
    check_constant(gather_nd(0), &[1, 5, 2], indices, &["RmAxis", "Gather-7"]);
    // Behind another axis.
    let indices = tensor2(&[[3i64, 0], [1, 0]]);
    check_constant(gather_nd(0), &[5, 1, 2], indices, &["GatherND-8"]);
}

#[test]
fn indices_that_are_fed_stay() {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([1, 5])).unwrap();
    let indices = model.add_source("indices", i64::fact([3, 1])).unwrap();
    let output = model.wire_node("gather", gather_nd(0), &[data, indices]).unwrap();
    model.select_output_outlets(&output).unwrap();
    assert_eq!(decluttered_ops(&model), ["GatherND-8"]);
}

#[test]
fn equal_nodes_merge() {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([5])).unwrap();
    let indices = model.add_source("indices", i64::fact([3])).unwrap();
    for (name, op) in [("a", gather(V7, 0, 0)), ("b", gather(V7, 0, 0)), ("c", gather(V8, 0, 0))] {
        model.wire_node(name, op, &[data, indices]).unwrap();
    }
    let nodes: Vec<_> = model.nodes().iter().filter(|node| node.op_is::<Gather>()).collect();
    let outputs: Vec<OutletId> = nodes.iter().map(|node| node.id.into()).collect();
    let concat = model.wire_node("concat", TypedConcat::new(0), &outputs).unwrap();
    model.select_output_outlets(&concat).unwrap();
    assert_eq!(decluttered_ops(&model), ["Gather-7", "Gather-8", "Concat"]);
}

#[test]
fn indices_into_one_part_of_a_concat_pick_from_that_part() {
    let ops = |sizes: [TDim; 2], axis, indices| {
        let mut model = TypedModel::default();
        let mut part = |name: &str, size: &TDim| {
            model.add_source(name, f32::fact(&[size.clone(), 2.to_dim()])).unwrap()
        };
        let parts = [part("a", &sizes[0]), part("b", &sizes[1])];
        let concat = model.wire_node("concat", TypedConcat::new(0), &parts).unwrap()[0];
        let indices = model.add_const("indices", indices).unwrap();
        let output = model.wire_node("gather", gather(V7, axis, 0), &[concat, indices]).unwrap();
        model.select_output_outlets(&output).unwrap();
        decluttered_ops(&model)
    };
    let sizes = || [3.to_dim(), 4.to_dim()];
    assert_eq!(ops(sizes(), 0, tensor0(5i64)), ["Slice", "RmAxis"]);
    assert_eq!(ops(sizes(), 0, tensor1(&[6i64, 3])), ["Gather-7"]);
    assert_eq!(ops([1.to_dim(), 1.to_dim()], 0, tensor0(1i64)), ["RmAxis"]);
    // From both; along another axis.
    assert_eq!(ops(sizes(), 0, tensor1(&[6i64, 2])), ["Concat", "Gather-7"]);
    assert_eq!(ops(sizes(), 1, tensor1(&[1i64, 0])), ["Concat", "Gather-7"]);
}

/// A transposition that is undone after the node vanishes, and so do axes that come and go.
#[test]
fn changes_of_axes_pass_through() {
    let around = |before: &[AxisOp], op: Gather, indices: &[usize], after: &[AxisOp]| {
        let mut model = TypedModel::default();
        let mut wire = model.add_source("data", f32::fact([2, 3, 4])).unwrap();
        let indices = model.add_source("indices", i64::fact(indices)).unwrap();
        for (number, change) in before.iter().enumerate() {
            wire = model.wire_node(format!("before_{number}"), change.clone(), &[wire]).unwrap()[0];
        }
        wire = model.wire_node("gather", op, &[wire, indices]).unwrap()[0];
        for (number, change) in after.iter().enumerate() {
            wire = model.wire_node(format!("after_{number}"), change.clone(), &[wire]).unwrap()[0];
        }
        model.select_output_outlets(&[wire]).unwrap();
        decluttered_ops(&model)
    };
    use AxisOp::{Add, Move, Rm};
    // Outer axes, inner axes, an outer one that becomes an inner one, and the gathered one.
    assert_eq!(around(&[Move(0, 1)], gather(V7, 2, 0), &[5], &[Move(1, 0)]), ["Gather-7"]);
    assert_eq!(around(&[Move(2, 1)], gather(V7, 0, 0), &[5], &[Move(1, 2)]), ["Gather-7"]);
    assert_eq!(around(&[Move(0, 2)], gather(V7, 0, 0), &[5, 6], &[Move(3, 0)]), ["Gather-7"]);
    assert_eq!(around(&[Move(1, 0)], gather(V7, 0, 0), &[5], &[Move(0, 1)]), ["Gather-7"]);
    assert_eq!(around(&[Add(3)], gather(V7, 1, 0), &[5], &[Rm(3)]), ["Gather-7"]);
    // Two index axes do not go where the gathered one went.
    let stays = around(&[Move(1, 0)], gather(V7, 0, 0), &[5, 6], &[Move(0, 1)]);
    assert_eq!(stays.len(), 3, "{stays:?}");
}

#[test]
fn f16_translation_goes_through() {
    let dims = [2.to_dim(), 5.to_dim()];
    let mut model = with_constant(gather(V8, 1, 0), &dims, tensor1(&[4i64, 1, 7]));
    let run = |model: TypedModel, data: Tensor| {
        let outputs = model.into_optimized()?.into_runnable()?.run(tvec!(data.into()))?;
        TractResult::Ok(outputs[0].clone().into_tensor())
    };
    let expected = run(model.clone(), counting(&[2, 5])).unwrap();
    let translator = FloatPrecisionTranslator::new(DatumType::F32, DatumType::F16);
    translator.transform(&mut model).unwrap();
    let narrow = counting(&[2, 5]).cast_to::<f16>().unwrap().into_owned();
    let output = run(model, narrow).unwrap();
    assert_eq!(output.datum_type(), DatumType::F16);
    assert_eq!(*output.cast_to::<f32>().unwrap(), expected);
}

#[test]
fn symbols_get_values() {
    let mut model = TypedModel::default();
    let [n, k] = ["N", "K"].map(|name| model.symbols.sym(name));
    let data = model.add_source("data", f32::fact(&[n.to_dim(), 5.to_dim()])).unwrap();
    let indices = model.add_source("indices", i64::fact(&[n.to_dim(), k.to_dim()])).unwrap();
    let output = model.wire_node("gather", gather(V7, 1, 1), &[data, indices]).unwrap();
    model.select_output_outlets(&output).unwrap();
    let decluttered = model.clone().into_decluttered().unwrap();
    assert_eq!(*decluttered.output_fact(0).unwrap().shape, [n.to_dim(), k.to_dim()]);
    let values = [(n, 2.to_dim()), (k, 3.to_dim())].into_iter().collect();
    let concrete = model.set_symbols(&values).unwrap();
    assert_eq!(concrete.output_fact(0).unwrap().shape.as_concrete(), Some(&[2usize, 3][..]));
}

#[test]
fn the_cost_is_the_bytes_of_the_output() {
    let facts = [f32::fact([2, 5]), i64::fact([3])];
    let cost = gather(V7, 1, 0).cost(&[&facts[0], &facts[1]]).unwrap();
    assert_eq!(*cost, [(Cost::Custom(false, "Bytes moved".into()), 24.to_dim())]);
    let facts = [f16::fact([2, 5]), i64::fact([3, 1])];
    let cost = gather_nd(0).cost(&[&facts[0], &facts[1]]).unwrap();
    assert_eq!(*cost, [(Cost::Custom(false, "Bytes moved".into()), 30.to_dim())]);
}

/// Inputs `data`, `indices` and `axis`, all of them fed.
fn sources(data: &[&str], indices: &[&str]) -> (TypedModel, [OutletId; 3]) {
    let mut model = TypedModel::default();
    let scope = model.symbols.clone();
    let shape = |dims: &[&str]| -> TVec<TDim> {
        dims.iter().map(|dim| scope.parse_tdim(dim).unwrap()).collect()
    };
    let data = model.add_source("data", f32::fact(shape(data))).unwrap();
    let indices = model.add_source("indices", i64::fact(shape(indices))).unwrap();
    let axis = model.add_source("axis", i64::scalar_fact()).unwrap();
    (model, [data, indices, axis])
}

/// A node whose axis is known at run time.
fn wire(model: &mut TypedModel, name: &str, batch_dims: i64, inputs: &[OutletId]) -> OutletId {
    let operation = Operation::new(V7).with_batch_dims(batch_dims).unwrap();
    operation.wire(name, model, inputs).unwrap()[0]
}

/// One such node.
fn with_axis(data: &[&str], indices: &[&str], batch_dims: i64) -> TypedModel {
    let (mut model, inputs) = sources(data, indices);
    let output = wire(&mut model, "gather", batch_dims, &inputs);
    model.select_output_outlets(&[output]).unwrap();
    model
}

/// The model where the axis that was fed turns out to be a constant.
fn with_constant_axis(mut model: TypedModel, axis: i64) -> TypedModel {
    let node = model.node_id_by_name("axis").unwrap();
    let value = tensor0(axis).into_arc_tensor();
    model.nodes[node].op = Box::new(Const::new(value.clone()).unwrap());
    model.nodes[node].outputs[0].fact = TypedFact::try_from(value).unwrap();
    model.inputs.retain(|input| input.node != node);
    model
}

/// Dimension 0 is a batch dimension, and the others are 3 whatever the axis is.
#[test]
fn dimensions_on_which_all_axes_agree_are_known() {
    let model = with_axis(&["2", "3", "3"], &["2", "3"], 1);
    let shape = model.output_fact(0).unwrap().shape.clone();
    assert_eq!(shape.as_concrete(), Some(&[2usize, 3, 3][..]));
    assert_eq!(decluttered_ops(&model), ["DynGather-7"]);
}

#[test]
fn dimensions_that_depend_on_the_axis_are_symbols_of_the_node() {
    let (mut model, inputs) = sources(&["2", "3", "4"], &["2", "3"]);
    let outlets = ["a", "b"].map(|name| wire(&mut model, name, 1, &inputs));
    let [a, b] = outlets.map(|outlet| model.outlet_fact(outlet).unwrap().shape.to_tvec());
    // Axis 1 gives [2, 3, 4] and axis 2 [2, 3, 3].
    assert_eq!(a[..2], [2.to_dim(), 3.to_dim()]);
    assert!(matches!((&a[2], &b[2]), (TDim::Sym(a), TDim::Sym(b)) if a != b), "{a:?} {b:?}");
}

#[test]
fn a_constant_axis_makes_it_gather() {
    // All dimensions known, then some that depend on the axis, then a symbol of the inputs beside these.
    for (data, indices, batch_dims, axis, expected) in [
        (&["2", "3", "3"][..], &["2", "3"][..], 1, -1, "2,3,3,F32"),
        (&["2", "3", "4"], &["2", "5"], 1, -1, "2,3,5,F32"),
        (&["N", "3", "4"], &["N", "5"], 1, 1, "N,5,4,F32"),
        (&["N", "3"], &["S", "N"], 0, 1, "N,S,N,F32"),
    ] {
        let model = with_constant_axis(with_axis(data, indices, batch_dims), axis);
        assert_eq!(decluttered_ops(&model), ["Gather-7"], "{data:?} {indices:?}");
        let model = model.into_decluttered().unwrap();
        assert_eq!(format!("{:?}", model.output_fact(0).unwrap()), expected);
    }
}

/// Two nodes have symbols of one family, `gather` and `gather_0`; and each has its own to tell.
#[test]
fn a_constant_axis_makes_both_of_two_gather() {
    let two = |after: bool| {
        let (mut model, inputs) = sources(&["N", "3", "4"], &["N", "5"]);
        let more = model.add_source("more", i64::fact([2])).unwrap();
        let first = wire(&mut model, "first", 1, &inputs);
        let [data, indices, axis] = inputs;
        let second = match after {
            true => wire(&mut model, "second", 1, &[first, indices, axis]),
            false => wire(&mut model, "second", 0, &[data, more, axis]),
        };
        model.select_output_outlets(&[first, second]).unwrap();
        with_constant_axis(model, -1)
    };
    for after in [false, true] {
        assert_eq!(decluttered_ops(&two(after)), ["Gather-7", "Gather-7"], "{after}");
    }
}

/// Where an operator or a constant has a symbol of its own to be told, the node does that.
#[test]
fn a_constant_axis_does_not_take_a_symbol_that_is_held() {
    let model = |after: &dyn Fn(&mut TypedModel, OutletId, TVec<TDim>) -> OutletId| {
        let mut model = with_axis(&["2", "4"], &["3"], 0);
        let output = model.output_outlets().unwrap()[0];
        let dims = model.outlet_fact(output).unwrap().shape.to_tvec();
        let output = after(&mut model, output, dims);
        model.select_output_outlets(&[output]).unwrap();
        with_constant_axis(model, -1).into_decluttered().unwrap()
    };
    let check = |model: TypedModel, expected: Tensor| {
        assert!(model.nodes().iter().any(|node| node.op.name() == "DynGather-7"), "{model}");
        let inputs = tvec!(counting(&[2, 4]).into(), tensor1(&[3i64, 0, 0]).into());
        let output = model.into_runnable().unwrap().run(inputs).unwrap();
        assert_eq!(*output[0], expected);
    };
    let flattened = model(&|model, output, dims| {
        let product = dims[0].clone() * dims[1].clone();
        let flatten = AxisOp::Reshape(0, dims, tvec!(product));
        model.wire_node("flatten", flatten, &[output]).unwrap()[0]
    });
    check(flattened, tensor1(&[3f32, 0., 0., 7., 4., 4.]));

    // The text of a constant would end before the thirteenth entry.
    let shaped = model(&|model, output, dims| {
        let mut many = vec![0.to_dim(); 12];
        many.push(dims[1].clone());
        let constant = model.add_const("many", tensor1(&many)).unwrap();
        let many = model.wire_node("as_f32", cast(DatumType::F32), &[constant]).unwrap();
        let sum = Reduce::new(tvec!(0), Reducer::Sum);
        let sum = model.wire_node("sum", sum, &many).unwrap();
        let sum = model.wire_node("rank_2", AxisOp::Add(0), &sum).unwrap()[0];
        model.wire_node("product", mul(), &[output, sum]).unwrap()[0]
    });
    check(shaped, tensor2(&[[9f32, 0., 0.], [21., 12., 12.]]));
}

/// What the inputs say of the output is more than what was known of it when the node was wired.
#[test]
fn known_dimensions_come_from_the_inputs() {
    let model = with_axis(&["A", "B", "C"], &["D"], 1);
    let op = &model.node(model.output_outlets().unwrap()[0].node).op;
    let mut facts = [f32::fact([2, 3, 3]), i64::fact([2]), i64::scalar_fact()];
    let output = op.output_facts(&[&facts[0], &facts[1], &facts[2]]).unwrap();
    assert_eq!(output[0].shape.as_concrete(), Some(&[2usize, 3][..]));
    facts[0] = f32::fact([2, 3, 3, 3]);
    let error = op.output_facts(&[&facts[0], &facts[1], &facts[2]]).unwrap_err();
    let message = "Gather-7: the output has rank 3, but the model states rank 2";
    assert!(format!("{error:#}").contains(message), "{error:#}");
}

/// A model in these operators ends with no more nodes than in those of the standard domain on tract's own.
#[test]
fn a_transformer_is_no_larger_than_in_standard_operators() {
    let typed = |ours: bool| {
        let reader = tract_onnx::onnx().with_openvino();
        reader.model_for_proto_model(&transformer::model(ours)).unwrap().into_typed().unwrap()
    };
    let count = |model: &TypedModel| model.eval_order().unwrap().len();
    let [ours, stock] = [true, false].map(|ours| typed(ours).into_decluttered().unwrap());
    assert!(count(&ours) <= count(&stock), "{ours}\n{stock}");
    let [ours, stock] = [ours, stock].map(|model| model.into_optimized().unwrap());
    assert!(count(&ours) <= count(&stock), "{ours}\n{stock}");
    let run = |model: TypedModel| model.into_runnable().unwrap().run(transformer::inputs(3, 5, 7));
    let (ours, stock) = (run(ours).unwrap(), run(stock).unwrap());
    assert_eq!(ours, stock);
}

/// Streaming, where the axis that streams is not the gathered one.
#[test]
fn streams_go_through() {
    use tract_pulse::internal::{PulsedModel, PulsedModelExt};
    let pulse = |op: &dyn Fn() -> Gather, data: &[&str], indices: &[&str]| {
        let mut model = TypedModel::default();
        let stream = model.symbols.sym("S");
        let scope = model.symbols.clone();
        let shape = |dims: &[&str]| -> TVec<TDim> {
            dims.iter().map(|dim| scope.parse_tdim(dim).unwrap()).collect()
        };
        let data = model.add_source("data", f32::fact(shape(data))).unwrap();
        let indices = model.add_source("indices", i64::fact(shape(indices))).unwrap();
        let output = model.wire_node("gather", op(), &[data, indices]).unwrap();
        model.select_output_outlets(&output).unwrap();
        let pulsed = PulsedModel::new(&model, stream, &4.to_dim())?;
        let typed = pulsed.into_typed()?;
        let shape = typed.output_fact(0)?.shape.as_concrete().map(<[usize]>::to_vec);
        TractResult::Ok(shape.expect("the pulse is a number"))
    };
    let plain = || gather(V7, 1, 0);
    let batched = || gather(V7, 2, 1);
    // Outer, inner and index axes, and one of the batch.
    assert_eq!(pulse(&plain, &["S", "5", "3"], &["2"]).unwrap(), [4, 2, 3]);
    assert_eq!(pulse(&plain, &["2", "5", "S"], &["3"]).unwrap(), [2, 3, 4]);
    assert_eq!(pulse(&plain, &["2", "5"], &["S"]).unwrap(), [2, 4]);
    assert_eq!(pulse(&batched, &["S", "2", "5"], &["S", "3"]).unwrap(), [4, 2, 3]);
    let error = format!("{:#}", pulse(&plain, &["2", "S"], &["3"]).unwrap_err());
    assert!(error.contains("could not track pulsing axis"), "{error}");
}

#[test]
fn two_outputs_remain_two() {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([2, 1])).unwrap();
    let data = model.wire_node("square", square(), &[data]).unwrap()[0];
    let indices = model.add_const("indices", tensor1(&[0i64])).unwrap();
    let output = model.wire_node("gather", gather(V7, 1, 0), &[data, indices]).unwrap()[0];
    model.select_output_outlets(&[data, output]).unwrap();
    let model = model.into_decluttered().unwrap();
    let outputs = model.output_outlets().unwrap();
    assert_ne!(outputs[0], outputs[1]);
}

/// Batch dimensions that may differ are compared when the model runs, whatever is sliced off them.
#[test]
fn a_slice_does_not_hide_batch_dimensions_that_differ() {
    let mut model = TypedModel::default();
    let [n, m] = ["N", "M"].map(|name| model.symbols.sym(name).to_dim());
    let data = model.add_source("data", f32::fact(&[n, 5.to_dim()])).unwrap();
    let indices = model.add_source("indices", i64::fact(&[m, 3.to_dim()])).unwrap();
    let output = model.wire_node("gather", gather(V7, 1, 1), &[data, indices]).unwrap();
    let slice = model.wire_node("slice", Slice::new(0, 0, 2), &output).unwrap();
    model.select_output_outlets(&slice).unwrap();
    for stage in [Stage::Typed, Stage::Decluttered, Stage::Optimized] {
        let mut model = StagedModel::from_typed(model.clone(), stage).unwrap();
        let indices = |batch: usize| Tensor::zero::<i64>(&[batch, 3]).unwrap();
        model.run(&[counting(&[4, 5]), indices(4)]).unwrap();
        let error = model.run(&[counting(&[4, 5]), indices(3)]).unwrap_err();
        let message = "batch dimension 0 is 4 in data and 3 in indices";
        assert!(format!("{error:#}").contains(message), "{stage:?}: {error:#}");
    }
}

/// With a batch, Gather-1 becomes the revision that has batch dimensions.
#[test]
fn gather_1_with_a_batch_is_gather_7() {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([5])).unwrap();
    let indices = model.add_source("indices", i64::fact([3])).unwrap();
    let op = gather(GatherRevision::V1, 0, 0);
    let output = model.wire_node("gather", op, &[data, indices]).unwrap();
    model.select_output_outlets(&output).unwrap();
    Batchify(BatchifyConfig::default()).transform(&mut model).unwrap();
    assert_eq!(decluttered_ops(&model), ["Gather-7"]);
}

/// A node that is read from ONNX with a fed axis and this shape said of its output, beside an input of shape `K`.
fn with_declared_output(dims: &[&str]) -> TypedModel {
    let data = input("data", DatumType::F32, [2usize, 3]);
    let indices = input("indices", DatumType::I64, [4usize]);
    let mut proto = onnx_model::gather(7, 0, tensor0(0i64), data, indices);
    let graph = proto.graph.as_mut().unwrap();
    graph.initializer.clear();
    graph.input.push(input("axis", DatumType::I64, [0usize; 0]));
    graph.input.push(input("more", DatumType::I64, ["K"]));
    let mut model = read(&proto).unwrap();
    let scope = model.symbols.clone();
    let dims: TVec<TDim> = dims.iter().map(|dim| scope.parse_tdim(dim).unwrap()).collect();
    model.set_output_fact(0, f32::fact(dims).into()).unwrap();
    model.into_typed().unwrap()
}

/// A symbol that an input of the model has too needs no other node to get a value; else it does.
#[test]
fn a_declared_symbol_of_an_input_is_not_of_the_node() {
    for (symbol, expected) in [("K", "Gather-7"), ("L", "DynGather-7")] {
        let mut model = with_declared_output(&[symbol, "3"]);
        assert_eq!(format!("{:?}", model.output_fact(0).unwrap()), format!("{symbol},3,F32"));
        let held = tensor1(&[model.symbols.sym(symbol).to_dim()]);
        let held = model.add_const("held", held).unwrap();
        let output = model.output_outlets().unwrap()[0];
        model.select_output_outlets(&[output, held]).unwrap();
        assert_eq!(decluttered_ops(&with_constant_axis(model, 0)), [expected], "{symbol}");
    }
}

/// What a model says of the output of a run-time axis has to hold.
#[test]
fn declared_dimensions_are_checked_when_the_axis_is_known() {
    let model = with_declared_output(&["4", "3"]);
    assert_eq!(format!("{:?}", model.output_fact(0).unwrap()), "4,3,F32");
    let op = &model.node(model.output_outlets().unwrap()[0].node).op;
    let run = |axis: i64| {
        let indices = Tensor::zero::<i64>(&[4]).unwrap();
        let inputs = tvec!(counting(&[2, 3]).into(), indices.into(), tensor0(axis).into());
        op.eval(&EvalContext::out_of_plan(), inputs)
    };
    assert_eq!(run(0).unwrap()[0].shape(), [4, 3]);
    let error = format!("{:#}", run(1).unwrap_err());
    let message = "Gather-7: with axis 1 the output has shape [2, 4], but the model states [";
    assert!(error.contains(message), "{error}");
}

/// The text of an archive holds 32 bits of an integer; indices have more.
#[cfg(feature = "nnef")]
#[test]
fn constant_indices_are_saved_whole() {
    let indices = tensor1(&[(1i64 << 32) + 1, 1, i64::MIN]);
    let model = with_constant(gather(V8, 0, 0), &[5.to_dim()], indices);
    let loaded = crate::through_nnef(&model).unwrap();
    let output = loaded.into_runnable().unwrap().run(tvec!(counting(&[5]).into())).unwrap();
    assert_eq!(*output[0], tensor1(&[0f32, 1., 0.]));
}
