//! The decisions that a user can meet, each with its test: what the specifications leave open, or
//! say in passing.

use gather_cases::elements::{self, INDEX_TYPES, data_types};
use gather_cases::onnx_model::*;
use gather_cases::oracle::Integers;
use model_cases::compare;
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{EvalContext, EvalOp, TDim, ToDim, TypedOp};
use tract_openvino::{
    DOMAIN, DynGather, Gather, GatherNd, GatherNdRevision, GatherRevision, IndexError,
    NegativeIndices, OpenVinoOptions, Operation, WithOpenVinoOptions, tract_onnx,
};

use crate::eval;

const F32: DatumType = DatumType::F32;
const I32: DatumType = DatumType::I32;
const I64: DatumType = DatumType::I64;

fn gather_op(revision: GatherRevision) -> Gather {
    Gather::new(revision, 0)
}

fn gather_nd_op(revision: GatherNdRevision) -> GatherNd {
    GatherNd::new(revision)
}

#[track_caller]
fn out_of_range(result: TractResult<Tensor>) -> IndexError {
    let error = result.expect_err("an index is out of range");
    error.downcast_ref::<IndexError>().unwrap_or_else(|| panic!("{error:?}")).clone()
}

// --- the five revisions ---

#[test]
fn negative_indices_count_from_the_end_in_gather_8_only() {
    let data = || tensor1(&[1i32, 2, 3, 4, 5]);
    let indices = || tensor1(&[0i32, -2, -5]);
    let gathered = eval(&gather_op(GatherRevision::V8), data(), indices()).unwrap();
    assert_eq!(gathered, tensor1(&[1i32, 4, 1]));
    for revision in [GatherRevision::V1, GatherRevision::V7] {
        let error = out_of_range(eval(&gather_op(revision), data(), indices()));
        assert_eq!((error.position, error.value), (vec![1], -2));
    }
    for revision in [GatherNdRevision::V5, GatherNdRevision::V8] {
        let indices = tensor2(&[[0i32], [-2]]);
        let error = out_of_range(eval(&gather_nd_op(revision), data(), indices));
        assert_eq!((error.position, error.value), (vec![1, 0], -2));
    }
}

/// Beams that stay where they are cost nothing.
#[test]
fn each_index_in_turn_gives_the_data_itself() {
    let data = tensor2(&[[1f32, 2.], [3., 4.]]).into_tvalue();
    let gather = |op: &Gather, indices: Tensor| {
        let inputs = tvec!(data.clone(), indices.into_tvalue());
        op.eval(&EvalContext::out_of_plan(), inputs).unwrap().remove(0)
    };
    let place = |tensor: &Tensor| tensor.try_as_plain_ram().unwrap().as_bytes().as_ptr();
    for axis in 0..2 {
        let op = Gather::new(GatherRevision::V8, axis);
        for indices in [tensor1(&[0i32, 1]), tensor1(&[0i64, 1])] {
            assert_eq!(place(&gather(&op, indices)), place(&data));
        }
        for indices in [tensor1(&[1i32, 0]), tensor1(&[0i32, 0]), tensor1(&[0i32, -1])] {
            assert_ne!(place(&gather(&op, indices)), place(&data));
        }
        assert_eq!(gather(&op, tensor1(&[0i32])).len(), 2);
    }
}

#[test]
fn the_error_names_the_option_that_would_help() {
    let error =
        out_of_range(eval(&gather_op(GatherRevision::V7), tensor1(&[1i32, 2]), tensor1(&[-1i32])));
    assert!(error.to_string().contains("NegativeIndices::Wrap"), "{error}");
    // It would not help here.
    let error =
        out_of_range(eval(&gather_op(GatherRevision::V7), tensor1(&[1i32, 2]), tensor1(&[-3i32])));
    assert!(!error.to_string().contains("NegativeIndices::Wrap"), "{error}");
}

#[test]
fn negative_indices_wrap_in_all_revisions_on_request() {
    let data = || input("data", I32, [5usize]);
    let options = OpenVinoOptions::default().with_negative_indices(NegativeIndices::Wrap);
    let run = |model: &ModelProto, indices: Tensor| -> TractResult<Tensor> {
        let reader = tract_onnx::onnx().with_openvino_options(options);
        let plan = reader.model_for_proto_model(model)?.into_optimized()?.into_runnable()?;
        let data = tensor1(&[1i32, 2, 3, 4, 5]);
        Ok(plan.run(tvec!(data.into(), indices.into()))?.remove(0).into_tensor())
    };
    for opset in [1, 7] {
        let model = gather(opset, None, tensor0(0i32), data(), input("indices", I64, [2usize]));
        assert_eq!(run(&model, tensor1(&[-1i64, -5])).unwrap(), tensor1(&[5i32, 1]));
        let error = out_of_range(run(&model, tensor1(&[-1i64, -6])));
        assert!(error.to_string().contains("in [-5, 4]"), "{error}");
    }
    for opset in [5, 8] {
        let model = gather_nd(opset, None, data(), input("indices", I64, [2usize, 1]));
        assert_eq!(run(&model, tensor2(&[[-1i64], [-5]])).unwrap(), tensor1(&[5i32, 1]));
        let error = out_of_range(run(&model, tensor2(&[[-1i64], [-6]])));
        assert!(error.to_string().contains("in [-5, 4]"), "{error}");
    }
}

#[test]
fn out_of_range_is_zeros_in_gather_8_only() {
    let data = || tensor2(&[[1i32, 2], [3, 4]]);
    let indices = || tensor1(&[1i64, 2, -3]);
    let gathered = eval(&gather_op(GatherRevision::V8), data(), indices()).unwrap();
    assert_eq!(gathered, tensor2(&[[3i32, 4], [0, 0], [0, 0]]));
    for revision in [GatherRevision::V1, GatherRevision::V7] {
        let error = out_of_range(eval(&gather_op(revision), data(), indices()));
        assert_eq!((error.position, error.value, error.size), (vec![1], 2, 2));
    }
}

#[test]
fn batch_dims_of_all_of_indices() {
    // Nothing of indices is left for the output: one element is picked for each batch.
    for batch_dims in [1, 2] {
        let model = gather(
            7,
            batch_dims,
            tensor0(2i64),
            input("data", F32, [2usize, 3, 4]),
            input("indices", I64, [2usize, 3].into_iter().take(batch_dims as usize)),
        );
        let data = elements::own_offsets(F32, &[2, 3, 4]);
        let indices =
            if batch_dims == 1 { tensor1(&[1i64, 3]) } else { tensor2(&[[0i64, 1, 2], [3, 2, 1]]) };
        let output = run(&model, &[data, indices]).unwrap().remove(0);
        let offsets = if batch_dims == 1 { [1, 5, 9, 15, 19, 23] } else { [0, 5, 10, 15, 18, 21] };
        let expected = elements::elements(F32, &[2, 3], offsets.map(Some));
        compare(&expected, &output).unwrap();
    }
}

#[test]
fn gather_nd_5_fuses_more_than_one_batch_dimension() {
    let dims = ["A", "B", "C"].map(Dim::from);
    let [a, b, _] = ["A", "B", "C"].map(Dim::from);
    let indices = input("indices", I64, [a, b, Dim::from("I"), Dim::from(1)]);
    let data = input("data", F32, dims);
    let shape = |opset| {
        let model = gather_nd(opset, 2, data.clone(), indices.clone());
        let typed = read(&model).unwrap().into_typed().unwrap();
        format!("{:?}", typed.output_fact(0).unwrap().shape)
    };
    assert_eq!(shape(5), "(A)*(B),I");
    assert_eq!(shape(8), "A,B,I");
}

#[test]
fn tuples_of_length_0_pick_the_whole_slice() {
    for batch_dims in [0, 1] {
        let op = GatherNd::new(GatherNdRevision::V8).with_batch_dims(batch_dims).unwrap();
        let data = elements::own_offsets(I32, &[2, 3]);
        let indices = Tensor::zero::<i64>(&[2, 2, 0]).unwrap();
        let output = eval(&op, data, indices).unwrap();
        let (shape, offsets): (&[usize], Vec<usize>) = if batch_dims == 0 {
            (&[2, 2, 2, 3], [0, 1, 2, 3, 4, 5].repeat(4))
        } else {
            (&[2, 2, 3], vec![0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5])
        };
        let expected = elements::elements(I32, shape, offsets.into_iter().map(Some));
        compare(&expected, &output).unwrap();
    }
}

// --- dimensions that must be equal ---

#[test]
fn different_symbols_for_a_batch_dimension_are_accepted() {
    let data = || input("data", F32, [Dim::from("N"), Dim::from(5)]);
    let indices = || input("indices", I64, [Dim::from("batch"), Dim::from("picks"), Dim::from(1)]);
    for (model, expected) in [
        (gather(7, 1, tensor0(1i64), data(), indices()), "N,picks,1"),
        (gather_nd(8, 1, data(), indices()), "N,picks"),
    ] {
        let mut inferred = read(&model).unwrap();
        inferred.analyse(false).unwrap();
        assert_eq!(format!("{:?}", inferred.output_fact(0).unwrap().shape), expected);
        let model = read(&model).unwrap().into_optimized().unwrap();
        assert_eq!(format!("{:?}", model.output_fact(0).unwrap().shape), expected);
        let plan = model.into_runnable().unwrap();
        for n in [1, 3] {
            let data = elements::own_offsets(F32, &[n, 5]);
            let indices = Tensor::zero::<i64>(&[n, 2, 1]).unwrap();
            let output = plan.run(tvec!(data.into(), indices.into())).unwrap().remove(0);
            assert_eq!(output.shape()[..2], [n, 2]);
        }
    }
}

#[test]
fn a_number_wins_over_a_symbol() {
    let data = input("data", F32, [Dim::from("N"), Dim::from(5)]);
    let indices = input("indices", I64, [3usize, 2]);
    let model = read(&gather(7, 1, tensor0(1i64), data, indices)).unwrap();
    let typed = model.into_typed().unwrap();
    assert_eq!(format!("{:?}", typed.output_fact(0).unwrap().shape), "3,2");
}

// --- zeros ---

#[test]
fn zeros_of_every_type() {
    for dt in data_types() {
        for block in [1, 3] {
            let data = elements::own_offsets(dt, &[2, block]);
            let output =
                eval(&gather_op(GatherRevision::V8), data, tensor1(&[7i32, 1, -3])).unwrap();
            let mut offsets = vec![None; block];
            offsets.extend((block..2 * block).map(Some));
            offsets.extend(vec![None; block]);
            let expected = elements::elements(dt, &[3, block], offsets);
            compare(&expected, &output).unwrap_or_else(|error| panic!("{dt:?}: {error}"));
        }
    }
    let quantized = DatumType::QI8(QParams::ZpScale { zero_point: -7, scale: 2. });
    let data = elements::own_offsets(quantized, &[2]);
    let output = eval(&gather_op(GatherRevision::V8), data, tensor0(2i32)).unwrap();
    assert_eq!(output.datum_type(), quantized);
    assert_eq!(output.as_bytes(), [-7i8 as u8]);
}

// --- empty tensors ---

#[test]
fn no_indices_give_an_empty_output() {
    for size in [0, 3] {
        for revision in [GatherRevision::V1, GatherRevision::V7, GatherRevision::V8] {
            let data = elements::own_offsets(F32, &[size, 2]);
            let output = eval(&gather_op(revision), data, tensor1::<i64>(&[])).unwrap();
            assert_eq!(output.shape(), [0, 2]);
        }
        for revision in [GatherNdRevision::V5, GatherNdRevision::V8] {
            let data = elements::own_offsets(F32, &[size, 2]);
            let indices = Tensor::zero::<i64>(&[0, 1]).unwrap();
            assert_eq!(eval(&gather_nd_op(revision), data, indices).unwrap().shape(), [0, 2]);
        }
    }
}

#[test]
fn an_empty_axis_has_no_valid_index() {
    let data = || elements::own_offsets(F32, &[0, 2]);
    let indices = || tensor1(&[0i64, -1]);
    let output = eval(&gather_op(GatherRevision::V8), data(), indices()).unwrap();
    compare(&Tensor::zero::<f32>(&[2, 2]).unwrap(), &output).unwrap();
    for revision in [GatherRevision::V1, GatherRevision::V7] {
        let error = out_of_range(eval(&gather_op(revision), data(), indices()));
        assert!(error.to_string().ends_with("no index is in range"), "{error}");
    }
    for revision in [GatherNdRevision::V5, GatherNdRevision::V8] {
        let indices = tensor2(&[[0i64]]);
        out_of_range(eval(&gather_nd_op(revision), data(), indices));
    }
}

#[test]
fn an_empty_slice_does_not_excuse_a_bad_index() {
    let data = || elements::own_offsets(F32, &[3, 0]);
    let error = out_of_range(eval(&gather_op(GatherRevision::V7), data(), tensor1(&[0i64, 3])));
    assert_eq!((error.position, error.value), (vec![1], 3));
    let indices = tensor2(&[[2i64], [7]]);
    let error = out_of_range(eval(&gather_nd_op(GatherNdRevision::V8), data(), indices));
    assert_eq!((error.position, error.value), (vec![1, 0], 7));
    let output = eval(&gather_op(GatherRevision::V8), data(), tensor1(&[0i64, 3])).unwrap();
    assert_eq!(output.shape(), [2, 0]);
}

// --- types ---

#[test]
fn quantization_parameters_are_kept() {
    for dt in data_types().into_iter().filter(|dt| dt.is_quantized()) {
        let mut model = TypedModel::default();
        let data = model.add_source("data", dt.fact([4usize])).unwrap();
        let indices = model.add_source("indices", I32.fact([2usize])).unwrap();
        let wires = model.wire_node("gather", gather_op(GatherRevision::V8), &[data, indices]);
        assert_eq!(model.outlet_fact(wires.unwrap()[0]).unwrap().datum_type, dt);
    }
}

/// Every bit of an index counts: nothing that is out of range becomes a small number on the way.
#[test]
fn indices_of_every_type_at_their_extremes() {
    const SIZE: usize = 300;
    for dt in INDEX_TYPES {
        let (min, max) = elements::range(dt);
        let edges = [0, 1, 127, 255, 299, 300, -1, -300, -301, 1 << 16, 1 << 31, 1i128 << 32]
            .into_iter()
            .chain([
                (1i128 << 32) + 1,
                (1i128 << 63) - 1,
                1i128 << 63,
                (1i128 << 64) - 1,
                min,
                max,
            ]);
        let entries: Vec<i128> = edges.filter(|entry| (min..=max).contains(entry)).collect();
        let indices = Integers { shape: vec![entries.len()], entries };
        let offsets = indices.entries.iter().map(|entry| match *entry {
            entry @ 0..300 => Some(entry as usize),
            entry @ -300..0 => Some((entry + 300) as usize),
            _ => None,
        });
        let expected = elements::elements(I32, &indices.shape, offsets);
        let data = elements::own_offsets(I32, &[SIZE]);
        let indices = elements::integers(dt, &indices);
        let output = eval(&gather_op(GatherRevision::V8), data, indices).unwrap();
        compare(&expected, &output).unwrap_or_else(|error| panic!("{dt:?}: {error}"));
    }
}

#[test]
fn axis_of_every_integer_type() {
    for dt in INDEX_TYPES {
        for shape in [vec![], vec![1]] {
            let axis = elements::integers(dt, &Integers { shape, entries: vec![1] });
            let data = elements::own_offsets(F32, &[2, 3]);
            // As a node that is computed from constants: TDim does not exist in a file.
            let (axis, cast) = if dt == DatumType::TDim {
                (axis.cast_to::<i64>().unwrap().into_owned(), true)
            } else {
                (axis, false)
            };
            let mut model = gather(
                8,
                None,
                axis,
                input("data", F32, [2usize, 3]),
                input("indices", I64, [1usize]),
            );
            if cast {
                let graph = model.graph.as_mut().unwrap();
                let cast = node("", "Cast", &["axis"], "cast_axis");
                graph.node.insert(0, with_attribute(cast, int("to", 7)));
                graph.node[1].input[2] = "cast_axis".into();
            }
            let output = run(&model, &[data, tensor1(&[2i64])]).unwrap().remove(0);
            let expected = elements::elements(F32, &[2, 1], [Some(2), Some(5)]);
            compare(&expected, &output).unwrap_or_else(|error| panic!("{dt:?}: {error}"));
        }
    }
}

/// A node of the standard domain that gives a constant.
fn constant_node(name: &str, value: &Tensor) -> tract_onnx::pb::NodeProto {
    with_attribute(node("", "Constant", &[], name), tensor("value", value))
}

#[test]
fn axis_from_a_constant_node_or_computed_from_constants() {
    let data = elements::own_offsets(F32, &[2, 3]);
    let expected = elements::elements(F32, &[2, 1], [Some(2), Some(5)]);
    let graph = |nodes: Vec<tract_onnx::pb::NodeProto>| {
        let mut nodes = nodes;
        nodes.push(node(DOMAIN, "Gather", &["data", "indices", "axis"], "output"));
        GraphProto {
            node: nodes,
            input: vec![input("data", F32, [2usize, 3]), input("indices", I64, [1usize])],
            output: vec![output("output")],
            ..GraphProto::default()
        }
    };
    let constant = graph(vec![constant_node("axis", &tensor0(1i64))]);
    let sum = graph(vec![
        constant_node("three", &tensor0(3i64)),
        constant_node("two", &tensor0(2i64)),
        node("", "Sub", &["three", "two"], "axis"),
    ]);
    for graph in [constant, sum] {
        let model = model(Some(8), graph);
        let output = run(&model, &[data.clone(), tensor1(&[2i64])]).unwrap().remove(0);
        compare(&expected, &output).unwrap();
    }
}

/// `Shape` gives dimensions, symbols among them: they are data like any other, and fold into the
/// shape of what is made from them.
#[test]
fn shapes_with_symbols_are_data() {
    let graph = GraphProto {
        node: vec![
            node("", "Shape", &["x"], "shape"),
            node(DOMAIN, "Gather", &["shape", "picks", "axis"], "dims"),
            node("", "ConstantOfShape", &["dims"], "output"),
        ],
        input: vec![input("x", F32, [Dim::from("N"), Dim::from(3), Dim::from("S")])],
        output: vec![output("output")],
        initializer: vec![
            initializer("picks", &tensor1(&[-1i64, 0])),
            initializer("axis", &tensor0(0i64)),
        ],
        ..GraphProto::default()
    };
    let model = read(&model(Some(8), graph)).unwrap().into_optimized().unwrap();
    assert_eq!(format!("{:?}", model.output_fact(0).unwrap().shape), "S,N");
    assert!(model.nodes().iter().all(|node| node.op.name() != "Gather-8"), "it folds");
    let plan = model.into_runnable().unwrap();
    for (n, s) in [(2, 5), (1, 4)] {
        let x = Tensor::zero::<f32>(&[n, 3, s]).unwrap();
        assert_eq!(plan.run(tvec!(x.into())).unwrap()[0].shape(), [s, n]);
    }
}

/// `Shape` and `Cast` make dimensions of indices too.
#[test]
fn dimensions_are_indices() {
    let graph = GraphProto {
        node: vec![
            node("", "Shape", &["x"], "shape"),
            node("", "Sub", &["shape", "one"], "last"),
            node(DOMAIN, "Gather", &["data", "last", "axis"], "output"),
        ],
        input: vec![input("x", F32, [Dim::from("N"), Dim::from(3)]), input("data", F32, [10usize])],
        output: vec![output("output")],
        initializer: vec![initializer("one", &tensor0(1i64)), initializer("axis", &tensor0(0i64))],
        ..GraphProto::default()
    };
    for opset in [7, 8] {
        let plan = read(&model(Some(opset), graph.clone())).unwrap();
        let plan = plan.into_optimized().unwrap().into_runnable().unwrap();
        for n in [1, 8] {
            let x = Tensor::zero::<f32>(&[n, 3]).unwrap();
            let data = elements::own_offsets(F32, &[10]);
            let output = plan.run(tvec!(x.into(), data.into())).unwrap().remove(0);
            let expected = elements::elements(F32, &[2], [Some(n - 1), Some(2)]);
            compare(&expected, &output.into_tensor()).unwrap();
        }
    }
}

/// What is not known yet is asked for later, and not taken for an error.
#[test]
fn an_index_with_an_open_symbol_is_too_early() {
    let n = SymbolScope::default().sym("N");
    let indices = tensor1(&[TDim::from(n)]);
    let error =
        eval(&gather_op(GatherRevision::V7), tensor1(&[1f32]), indices).expect_err("N is open");
    assert!(
        error.root_cause().is::<tract_openvino::tract_onnx::tract_core::tract_data::TooEarly>()
    );
    let indices = tensor1(&[0.to_dim()]);
    eval(&gather_op(GatherRevision::V7), tensor1(&[1f32]), indices).unwrap();
}

/// A block-quantized table of [4, 64], and what its elements are when they are unpacked.
fn block_quantized() -> (Tensor, Tensor) {
    use tract_linalg::block_quant::{BlockQuant, BlockQuantStorage, Q4_0};
    let values: Vec<f32> = (0..4 * 64).map(|k| (k * 37 % 101) as f32 - 50.).collect();
    let packed = Q4_0.quant_f32(&values).unwrap();
    let unpacked = Q4_0.dequant_f32(&packed).unwrap().into_shape(&[4, 64]).unwrap();
    let storage = BlockQuantStorage::new(Box::new(Q4_0), 4, 64, packed.into()).unwrap();
    (storage.into_tensor_with_shape(F32, &[4, 64]), unpacked)
}

#[test]
fn rows_of_block_quantized_data() {
    let (table, unpacked) = block_quantized();
    for (revision, indices) in [
        (GatherRevision::V7, tensor2(&[[3i64, 0], [1, 3]])),
        (GatherRevision::V8, tensor1(&[-1i32, 2, 4, -5])),
        (GatherRevision::V8, tensor0(1u8)),
        (GatherRevision::V7, Tensor::zero::<i64>(&[0, 2]).unwrap()),
    ] {
        let op = gather_op(revision);
        let expected = eval(&op, unpacked.clone(), indices.clone()).unwrap();
        assert_eq!(eval(&op, table.clone(), indices.clone()).unwrap(), expected);
        // In a model, with the table a constant.
        let mut model = TypedModel::default();
        let data = model.add_const("table", table.clone()).unwrap();
        let fact = indices.datum_type().fact(indices.shape());
        let fed = model.add_source("indices", fact).unwrap();
        let output = model.wire_node("gather", op, &[data, fed]).unwrap();
        model.select_output_outlets(&output).unwrap();
        let output = model.into_optimized().unwrap().into_runnable().unwrap();
        let output = output.run(tvec!(indices.into())).unwrap();
        assert_eq!(*output[0], expected);
    }
    let error = eval(&gather_op(GatherRevision::V7), table, tensor2(&[[0i64], [4]])).unwrap_err();
    let error = error.downcast_ref::<IndexError>().unwrap();
    assert_eq!((&*error.position, error.value, error.size), (&[1, 0][..], 4, 4));
}

#[test]
fn block_quantized_data_that_is_refused() {
    let (table, _) = block_quantized();
    let error = |op: Box<dyn TypedOp>, indices: &[usize]| {
        let mut model = TypedModel::default();
        let data = model.add_const("table", table.clone()).unwrap();
        let indices = model.add_source("indices", I32.fact(indices)).unwrap();
        format!("{:#}", model.wire_node("gather", op, &[data, indices]).unwrap_err())
    };
    for (axis, batch_dims) in [(1, 0), (1, 1)] {
        let op = Gather::new(GatherRevision::V8, axis).with_batch_dims(batch_dims).unwrap();
        let error = error(Box::new(op), &[4]);
        let message = format!(
            "Gather-8: axis is {axis} and batch_dims is {batch_dims}, but both must be 0, as data is \
             block-quantized"
        );
        assert!(error.contains(&message), "{error}");
    }
    let nd = GatherNd::new(GatherNdRevision::V8);
    let error = error(Box::new(nd), &[1]);
    assert!(error.contains("GatherND-8: data is block-quantized or packed"), "{error}");
}

// --- nodes that are wired by hand ---

#[test]
fn what_no_ranks_can_make_right_is_refused_at_once() {
    let gather = |revision| Gather::new(revision, 1).with_batch_dims(2).map(drop);
    let nd = |batch_dims| GatherNd::new(GatherNdRevision::V8).with_batch_dims(batch_dims);
    let node = |batch_dims| Operation::new(GatherRevision::V1).with_batch_dims(batch_dims);
    let nd_node = |batch_dims| Operation::new(GatherNdRevision::V5).with_batch_dims(batch_dims);
    for (result, message) in [
        (
            gather(GatherRevision::V8),
            "Gather-8: batch_dims is 2, but must be at most axis, which is 1",
        ),
        (gather(GatherRevision::V1), "Gather-1: batch_dims is 2, but must be 0, as the operator"),
        (nd(usize::MAX).map(drop), "no tensor has that many axes"),
        (node(-1).map(drop), "Gather-1: batch_dims is -1, but must be 0, as the operator"),
        (nd_node(-1).map(drop), "GatherND-5: batch_dims is -1, but must be 0 or more"),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn wiring_counts_the_inputs() {
    let mut model = TypedModel::default();
    let data = model.add_source("data", F32.fact([5, 5])).unwrap();
    let indices = model.add_source("indices", I64.fact([1])).unwrap();
    let gather = Operation::new(GatherRevision::V8).wire("gather", &mut model, &[data, indices]);
    let nd = Operation::new(GatherNdRevision::V8);
    let nd = nd.wire("nd", &mut model, &[data, indices, indices]);
    for (result, message) in [
        (gather, "Gather-8: the number of inputs is 2, but must be 3: data, indices, axis"),
        (nd, "GatherND-8: the number of inputs is 3, but must be 2: data, indices"),
    ] {
        let error = format!("{:#}", result.unwrap_err());
        assert!(error.contains(message), "{error}");
    }
}

/// As a model states it: with a constant axis both numbers are resolved.
#[test]
fn wiring_resolves_negative_numbers_and_keeps_the_options() {
    let mut model = TypedModel::default();
    let data = model.add_source("data", F32.fact([2, 3, 5])).unwrap();
    let indices = model.add_source("indices", I64.fact([2, 4])).unwrap();
    let operation = Operation::new(GatherRevision::V7).with_batch_dims(-1).unwrap();
    let operation = operation.with_negative_indices(NegativeIndices::Wrap);
    let constant = model.add_const("constant", tensor0(-1i64)).unwrap();
    let fed = model.add_source("fed", i64::scalar_fact()).unwrap();
    let mut wire = |name, axis| {
        let output = operation.wire(name, &mut model, &[data, indices, axis]).unwrap();
        model.node(output[0].node).op.clone()
    };
    let resolved = Gather::new(GatherRevision::V7, 2).with_batch_dims(1).unwrap();
    let resolved = resolved.with_negative_indices(NegativeIndices::Wrap);
    assert_eq!(wire("gather", constant).downcast_ref(), Some(&resolved));
    let at_run_time = wire("dyn_gather", fed);
    let at_run_time = at_run_time.downcast_ref::<DynGather>().unwrap();
    assert_eq!((at_run_time.revision(), at_run_time.batch_dims()), (GatherRevision::V7, 1));
    assert_eq!(at_run_time.negative_indices(), NegativeIndices::Wrap);
}

// --- the kernel's edges ---

/// Every width that is copied in its own way, and counts about the size of a piece.
#[test]
fn every_width_and_piece() {
    use DatumType::*;
    for dt in [U8, U16, I32, F64, String] {
        for block in [1, 2, 3, 4, 5, 6, 8, 12, 16, 17] {
            let data = elements::own_offsets(dt, &[5, block]);
            let pick = |k: usize| k * 7 % 6;
            let indices: Vec<i32> = (0..11).map(|k| pick(k) as i32).collect();
            let output = eval(&gather_op(GatherRevision::V8), data, tensor1(&indices)).unwrap();
            let offsets = (0..11).flat_map(|k| {
                (0..block).map(move |i| (pick(k) < 5).then_some(pick(k) * block + i))
            });
            let expected = elements::elements(dt, &[11, block], offsets);
            compare(&expected, &output).unwrap_or_else(|e| panic!("{dt:?} by {block}: {e}"));
        }
    }
    for count in [1, 1023, 1024, 1025, 2047, 2048, 2049, 5000] {
        // Two batches of two outer blocks each.
        let op = Gather::new(GatherRevision::V7, 2).with_batch_dims(1).unwrap();
        let data = elements::own_offsets(I32, &[2, 2, 9]);
        let pick = |batch: usize, k: usize| (batch * 5 + k * 7) % 9;
        let indices: Vec<i64> = (0..2 * count).map(|n| pick(n / count, n % count) as i64).collect();
        let tensor = |indices: &[i64]| {
            tract_ndarray::Array2::from_shape_vec((2, count), indices.to_vec()).unwrap().into()
        };
        let offsets = (0..4 * count).map(|n| {
            let (chunk, k) = (n / count, n % count);
            Some(chunk * 9 + pick(chunk / 2, k))
        });
        let expected = elements::elements(I32, &[2, 2, count], offsets);
        compare(&expected, &eval(&op, data.clone(), tensor(&indices)).unwrap()).unwrap();
        for bad in [0, count - 1, count, 2 * count - 1] {
            let mut indices = indices.clone();
            indices[bad] = 9;
            indices[2 * count - 1] = 10 - (bad == 2 * count - 1) as i64;
            let error = out_of_range(eval(&op, data.clone(), tensor(&indices)));
            assert_eq!(error.position, [bad / count, bad % count]);
        }
    }
}

#[test]
fn a_wide_tuple_is_resolved_across_pieces() {
    let op = gather_nd_op(GatherNdRevision::V8);
    let data = elements::own_offsets(DatumType::U32, &[3, 4, 5]);
    let count = 2500;
    let tuple = |k: usize| [k % 3, k * 3 % 4, k * 2 % 5];
    let mut entries: Vec<i32> = (0..count).flat_map(|k| tuple(k).map(|i| i as i32)).collect();
    let tensor = |entries: &[i32]| {
        tract_ndarray::Array2::from_shape_vec((count, 3), entries.to_vec()).unwrap().into()
    };
    let offsets = (0..count).map(|k| {
        let [a, b, c] = tuple(k);
        Some((a * 4 + b) * 5 + c)
    });
    let expected = elements::elements(DatumType::U32, &[count], offsets);
    compare(&expected, &eval(&op, data.clone(), tensor(&entries)).unwrap()).unwrap();
    entries[3 * 1024 + 1] = 4;
    entries[3 * 2000] = -1;
    let error = out_of_range(eval(&op, data, tensor(&entries)));
    assert_eq!((error.position, error.value, error.axis), (vec![1024, 1], 4, 1));
}
