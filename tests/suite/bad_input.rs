//! What is wrong with a model or its inputs, and what the error says.
//!
//! Each case is a model that loads, or runs, but for one thing.

use gather_cases::elements::{self, INDEX_TYPES};
use gather_cases::onnx_model::{self, *};
use gather_cases::oracle::Integers;
use model_cases::MANY;
use tract_openvino::tract_onnx::pb::{ModelProto, NodeProto};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::{DOMAIN, IndexError, IndexPolicy};

const F32: DatumType = DatumType::F32;
const I32: DatumType = DatumType::I32;
const I64: DatumType = DatumType::I64;

fn data(shape: &[usize]) -> tract_openvino::tract_onnx::pb::ValueInfoProto {
    input("data", F32, shape.iter().copied())
}

fn indices(shape: &[usize]) -> tract_openvino::tract_onnx::pb::ValueInfoProto {
    input("indices", I64, shape.iter().copied())
}

/// The only node of a model, to be spoilt.
fn spoil(mut model: ModelProto, change: impl FnOnce(&mut NodeProto)) -> ModelProto {
    change(&mut model.graph.as_mut().unwrap().node[0]);
    model
}

#[track_caller]
fn refused_at_load(model: &ModelProto, message: &str) {
    let error = read(model).and_then(|model| model.into_typed());
    let error = format!("{:#}", error.expect_err("the model loads"));
    assert!(error.contains(message), "\n  expected: {message}\n  got: {error}");
}

fn plain_gather() -> ModelProto {
    gather(8, 1, tensor0(1i64), data(&[2, 5, 4]), indices(&[2, 3]))
}

fn plain_gather_nd() -> ModelProto {
    gather_nd(8, 1, data(&[2, 5, 4]), indices(&[2, 3, 1]))
}

#[test]
fn the_models_that_are_spoilt_here_are_sound() {
    read(&plain_gather()).unwrap().into_optimized().unwrap();
    read(&plain_gather_nd()).unwrap().into_optimized().unwrap();
}

#[test]
fn wrong_number_of_inputs() {
    for inputs in [&["data", "indices"][..], &["data"], &["data", "indices", "axis", "axis"]] {
        let inputs: Vec<String> = inputs.iter().map(|it| it.to_string()).collect();
        let message = format!(
            "Gather-8: the number of inputs is {}, but must be 3: data, indices, axis",
            inputs.len()
        );
        refused_at_load(&spoil(plain_gather(), |node| node.input = inputs), &message);
    }
    refused_at_load(
        &spoil(plain_gather_nd(), |node| node.input.push("data".into())),
        "GatherND-8: the number of inputs is 3, but must be 2: data, indices",
    );
    // tract would close the gap, and take axis for indices.
    refused_at_load(
        &spoil(plain_gather(), |node| node.input[1] = String::new()),
        "Gather-8: input indices is left out, but is required",
    );
}

#[test]
fn wrong_number_of_outputs() {
    refused_at_load(
        &spoil(plain_gather(), |node| node.output.push("more".into())),
        "Gather-8: the number of outputs is 2, but must be 1",
    );
}

#[test]
fn axis() {
    let gather = |axis| gather(8, 1, axis, data(&[2, 5, 4]), indices(&[2, 3]));
    for (axis, message) in [
        (tensor0(3i64), "axis is 3, but must be in [-3, 2], as data has rank 3"),
        (tensor0(-4i32), "axis is -4, but must be in [-3, 2], as data has rank 3"),
        (
            tensor0(u64::MAX),
            "axis is 18446744073709551615, but must be in [-3, 2], as data has rank 3",
        ),
        (tensor0(i64::MIN), "axis is -9223372036854775808, but must be in [-3, 2]"),
        (
            tensor1(&[1i64, 2]),
            "axis has shape [2], but must be a scalar or a 1-D tensor of one element",
        ),
        (tensor1::<i64>(&[]), "axis has shape [0], but must be"),
        (tensor2(&[[1i64]]), "axis has shape [1, 1], but must be"),
        (tensor0(1f32), "axis has element type F32, but must have an integer type"),
        (tensor0(true), "axis has element type Bool, but must have an integer type"),
        (tensor0("1".to_string()), "axis has element type String, but must have an integer type"),
        (
            tensor0(0i64),
            "batch_dims is 1, but must be at most axis, which is 0 (both counted from the first axis)",
        ),
    ] {
        refused_at_load(&gather(axis), &format!("Gather-8: {message}"));
    }
}

#[test]
fn axis_at_run_time() {
    let mut model = plain_gather();
    let graph = model.graph.as_mut().unwrap();
    graph.initializer.clear();
    graph.input.push(input("axis", I64, [0usize; 0]));
    for (axis, message) in [
        (3, "Gather-8: axis is 3, but must be in [-3, 2], as data has rank 3"),
        (-4, "Gather-8: axis is -4, but must be in [-3, 2], as data has rank 3"),
        (i64::MIN, "Gather-8: axis is -9223372036854775808, but must be in [-3, 2]"),
        (0, "Gather-8: batch_dims is 1, but must be at most axis, which is 0 (both counted from"),
        (-3, "Gather-8: batch_dims is 1, but must be at most axis, which is 0 (both counted from"),
    ] {
        let inputs = [Tensor::zero::<f32>(&[2, 5, 4]), Tensor::zero::<i64>(&[2, 3])];
        let [data, indices] = inputs.map(Result::unwrap);
        let error = format!("{:#}", onnx_model::error(&model, &[data, indices, tensor0(axis)]));
        assert!(error.contains(message), "{error}");
    }
    let inputs = &mut model.graph.as_mut().unwrap().input;
    *inputs.last_mut().unwrap() = input("axis", I64, [2usize]);
    refused_at_load(
        &model,
        "Gather-8: axis has shape [2], but must be a scalar or a 1-D tensor of one element",
    );
}

#[test]
fn batch_dims_of_gather() {
    let gather = |batch_dims: i64| {
        gather(7, batch_dims, tensor0(2i64), data(&[2, 5, 4, 3]), indices(&[2, 5]))
    };
    for (batch_dims, message) in [
        (3, "batch_dims is 3, but must be in [-2, 2], as indices has rank 2"),
        (-3, "batch_dims is -3, but must be in [-2, 2], as indices has rank 2"),
        (i64::MAX, "batch_dims is 9223372036854775807, but no tensor has that many axes"),
        (i64::MIN, "batch_dims is -9223372036854775808, but no tensor has that many axes"),
    ] {
        refused_at_load(&gather(batch_dims), &format!("Gather-7: {message}"));
    }
}

#[test]
fn batch_dims_of_gather_against_data() {
    let model = gather(7, 2, tensor0(1i64), data(&[2, 5]), indices(&[2, 5, 1]));
    refused_at_load(&model, "Gather-7: batch_dims is 2, but must be at most 1, as data has rank 2");
}

#[test]
fn batch_dims_of_gather_1() {
    for batch_dims in [0, 1] {
        refused_at_load(
            &gather(1, batch_dims, tensor0(1i64), data(&[2, 5]), indices(&[3])),
            "Gather-1: has attribute \"batch_dims\", but must have no attributes but version",
        );
    }
}

#[test]
fn batch_dims_of_gather_nd() {
    for (batch_dims, data_shape, indices_shape, message) in [
        (-1, &[2, 5][..], &[2, 1][..], "batch_dims is -1, but must be 0 or more"),
        (2, &[2, 5], &[2, 5, 1], "batch_dims is 2, but must be in [0, 1], as data has rank 2"),
        (2, &[2, 5, 4], &[2, 1], "batch_dims is 2, but must be in [0, 1], as indices has rank 2"),
        (
            i64::MAX,
            &[2, 5],
            &[2, 1],
            "batch_dims is 9223372036854775807, but no tensor has that many axes",
        ),
    ] {
        for revision in [5, 8] {
            refused_at_load(
                &gather_nd(revision, batch_dims, data(data_shape), indices(indices_shape)),
                &format!("GatherND-{revision}: {message}"),
            );
        }
    }
}

#[test]
fn batch_dimensions_that_differ() {
    let message = "batch dimension 0 is 2 in data and 3 in indices, but must be the same in both";
    refused_at_load(
        &gather(7, 1, tensor0(1i64), data(&[2, 5]), indices(&[3, 1])),
        &format!("Gather-7: {message}"),
    );
    refused_at_load(
        &gather_nd(8, 1, data(&[2, 5]), indices(&[3, 1])),
        &format!("GatherND-8: {message}"),
    );
}

#[test]
fn symbolic_batch_dimensions_that_can_not_be_equal() {
    let data = input("data", F32, [Dim::from("N"), Dim::from(5)]);
    let indices = input("indices", I64, [Dim::from("N+1"), Dim::from(1)]);
    refused_at_load(
        &gather(7, 1, tensor0(1i64), data.clone(), indices.clone()),
        "Gather-7: batch dimension 0 is N in data and N+1 in indices",
    );
    refused_at_load(
        &gather_nd(8, 1, data, indices),
        "GatherND-8: batch dimension 0 is N in data and N+1 in indices",
    );
}

#[test]
fn rank_0() {
    refused_at_load(
        &gather(8, None, tensor0(0i64), data(&[]), indices(&[3])),
        "Gather-8: data has rank 0, but must have an axis to gather from",
    );
    refused_at_load(
        &gather_nd(8, None, data(&[]), indices(&[3, 1])),
        "GatherND-8: data has rank 0, but must have rank 1 or more",
    );
    refused_at_load(
        &gather_nd(8, None, data(&[5]), indices(&[])),
        "GatherND-8: indices has rank 0, but must have rank 1 or more",
    );
}

#[test]
fn tuples_longer_than_data_has_axes() {
    for (batch_dims, tuple, most) in [(0, 3, 2), (1, 2, 1), (1, MANY, 1)] {
        let message = if tuple < MANY {
            format!(
                "GatherND-8: the last dimension of indices is {tuple}, but must be at most {most}, as data has \
                 rank 2 and batch_dims is {batch_dims}"
            )
        } else {
            format!("the last dimension of indices is {MANY}, but no tensor has that many axes")
        };
        refused_at_load(&gather_nd(8, batch_dims, data(&[2, 5]), indices(&[2, tuple])), &message);
    }
}

/// tract reads the name of a dimension as an expression.
#[test]
fn tuples_of_negative_length() {
    let indices = input("indices", I64, [Dim::from(2), Dim::from("-4")]);
    let message = "the last dimension of indices is -4, but must be 0 or more";
    refused_at_load(&gather_nd(8, 0, data(&[2, 5]), indices), message);
}

#[test]
fn tuples_of_unknown_length() {
    let indices = input("indices", I64, [Dim::from(2), Dim::from("T")]);
    refused_at_load(
        &gather_nd(8, 0, data(&[2, 5]), indices),
        // Without it not even the rank of the output is known.
        "GatherND-8: the last dimension of indices is T, but must be a number when the model is loaded",
    );
}

#[test]
fn types_of_indices() {
    for dt in [F32, DatumType::F16, DatumType::F64, DatumType::Bool, DatumType::String] {
        let message = format!("indices has element type {dt:?}, but must have an integer type");
        refused_at_load(
            &gather(8, None, tensor0(0i64), data(&[5]), input("indices", dt, [3usize])),
            &format!("Gather-8: {message}"),
        );
        refused_at_load(
            &gather_nd(8, None, data(&[5]), input("indices", dt, [3usize, 1])),
            &format!("GatherND-8: {message}"),
        );
    }
}

#[test]
fn attributes() {
    for (attribute, message) in [
        (
            string("version", "7"),
            "Gather: attribute version is \"7\", but must be \"opset\" and a number",
        ),
        (string("version", "opset"), "attribute version is \"opset\""),
        (string("version", "opset+8"), "attribute version is \"opset+8\""),
        (string("version", "opset99999999999999999999"), "attribute version is \"opset9999"),
        (
            string("version", "opset0"),
            "operator set 0 of OpenVINO has no Gather: the first set that has it is 1",
        ),
        (int("version", 8), "attribute 'version': expected string"),
        (
            int("axis", 1),
            "Gather-8: has attribute \"axis\", but must have no attributes but batch_dims and version: axis is \
             the third input",
        ),
        (
            int("batch_dim", 1),
            "Gather-8: has attribute \"batch_dim\", but must have no attributes but batch_dims and version",
        ),
        (string("batch_dims", "1"), "attribute 'batch_dims': expected int"),
    ] {
        let model = gather(8, None, tensor0(0i64), data(&[5]), indices(&[3]));
        refused_at_load(&spoil(model, |node| node.attribute.push(attribute)), message);
    }
}

#[test]
fn imports() {
    refused_at_load(
        &gather_nd(4, 0, data(&[5]), indices(&[3, 1])),
        "operator set 4 of OpenVINO has no GatherND: the first set that has it is 5",
    );
    refused_at_load(
        &gather(0, None, tensor0(0i64), data(&[5]), indices(&[3])),
        "the model imports domain org.openvinotoolkit in version 0",
    );
    let mut twice = plain_gather();
    twice.opset_import.push(import(DOMAIN, 1));
    refused_at_load(
        &twice,
        "the model imports domain org.openvinotoolkit in versions 8 and 1, but must import it in one",
    );
}

/// Entries that are out of range, for every type at its extremes and about the sizes of numbers
/// that get cut.
fn out_of_range(dt: DatumType, size: i128) -> Vec<i128> {
    let (min, max) = elements::range(dt);
    [-size - 1, -1, size, min, max, 1 << 31, 1i128 << 32, (1i128 << 32) + 1, (1i128 << 63) + 1]
        .into_iter()
        .filter(|entry| (min..=max).contains(entry) && !(0..size).contains(entry))
        .collect()
}

/// Constant and at run time, an index out of range is an error that says where, what, and which
/// would not have been.
#[test]
fn indices_out_of_range() {
    let onnx_types = INDEX_TYPES.into_iter().filter(|dt| *dt != DatumType::TDim);
    for dt in onnx_types {
        for entry in out_of_range(dt, 5) {
            let shape = [2, 3, 1];
            let entries = vec![0, 1, 4, entry, 0, 2];
            let tensor = elements::integers(dt, &Integers { shape: shape.to_vec(), entries });
            let values = elements::own_offsets(F32, &[2, 5]);
            let indices = || input("indices", dt, shape);
            for (operator, mut model, axis) in [
                ("Gather-1", gather(1, None, tensor0(1i64), data(&[2, 5]), indices()), 1),
                ("Gather-7", gather(7, 1, tensor0(1i64), data(&[2, 5]), indices()), 1),
                ("GatherND-5", gather_nd(5, 1, data(&[2, 5]), indices()), 1),
                ("GatherND-8", gather_nd(8, 1, data(&[2, 5]), indices()), 1),
            ] {
                let policy = IndexPolicy::NonNegative;
                let expected = IndexError::new(operator, vec![1, 0, 0], entry, axis, 5, policy);
                let at_run_time = error(&model, &[values.clone(), tensor.clone()]);
                assert_eq!(at_run_time.downcast_ref(), Some(&expected), "{at_run_time:?}");
                make_constant(&mut model, "indices", &tensor);
                let at_load = read(&model).and_then(|model| model.into_typed()).unwrap_err();
                assert_eq!(at_load.downcast_ref(), Some(&expected), "{at_load:?}");
            }
        }
    }
}

#[test]
fn batch_dimensions_that_differ_at_run_time() {
    let data = || input("data", F32, [Dim::from("N"), Dim::from(5)]);
    let indices = || input("indices", I32, [Dim::from("batch"), Dim::from(1)]);
    for (operator, model) in [
        ("Gather-7", gather(7, 1, tensor0(1i64), data(), indices())),
        ("GatherND-8", gather_nd(8, 1, data(), indices())),
    ] {
        let values = |batches: usize| elements::own_offsets(F32, &[batches, 5]);
        let indices = |batches: usize| Tensor::zero::<i32>(&[batches, 1]).unwrap();
        run(&model, &[values(2), indices(2)]).unwrap();
        // A batch is not repeated, and none is an error, too.
        for (of_data, of_indices) in [(2, 3), (3, 2), (1, 3), (2, 0), (0, 2)] {
            let error = error(&model, &[values(of_data), indices(of_indices)]);
            let message = format!(
                "{operator}: batch dimension 0 is {of_data} in data and {of_indices} in indices, but must be the \
                 same in both"
            );
            assert!(format!("{error:#}").contains(&message), "{error:#}");
        }
    }
}

/// An axis that is computed from the shape of an input is a dimension, and may have no value yet.
#[test]
fn axis_that_depends_on_a_symbol() {
    let mut model = plain_gather();
    let graph = model.graph.as_mut().unwrap();
    graph.initializer.clear();
    graph.input.push(input("x", F32, ["N"]));
    graph.node.insert(0, node("", "Shape", &["x"], "axis"));
    let [data, indices] = [&[2, 5, 4][..], &[2, 3]].map(|shape| elements::own_offsets(F32, shape));
    let indices = indices.cast_to::<i64>().unwrap().into_owned();
    let x = |size: usize| Tensor::zero::<f32>(&[size]).unwrap();
    for (axis, shape) in [(1, [2, 3, 4]), (2, [2, 5, 3])] {
        let outputs = run(&model, &[data.clone(), indices.clone(), x(axis)]).unwrap();
        assert_eq!(outputs[0].shape(), shape);
    }
    let error = error(&model, &[data, indices, x(3)]);
    let message = "Gather-8: axis is 3, but must be in [-3, 2], as data has rank 3";
    assert!(format!("{error:#}").contains(message), "{error:#}");
    // With a value at load it is an axis like any other.
    model.graph.as_mut().unwrap().input[2] = input("x", F32, [1usize]);
    let typed = read(&model).unwrap().into_typed().unwrap();
    assert!(typed.nodes().iter().any(|node| node.op_is::<tract_openvino::Gather>()));
}

/// Sizes that multiply beyond memory are refused before anything is allocated.
#[test]
fn outputs_too_large() {
    // Three times nothing at all, whose parts are a quarter of the addresses.
    let side = 1 << (usize::BITS / 2 - 1);
    let model = gather(
        8,
        None,
        tensor0(0i64),
        input("data", DatumType::U8, [Dim::from(0), Dim::from("A"), Dim::from("B")]),
        input("indices", DatumType::U8, ["I"]),
    );
    let data = Tensor::zero::<u8>(&[0, side, side]).unwrap();
    let indices = Tensor::zero::<u8>(&[3]).unwrap();
    let overflow = error(&model, &[data, indices.clone()]);
    assert!(format!("{overflow:#}").contains("is too large"), "{overflow:#}");

    // Half the addresses of 32 bits may be there.
    if usize::BITS == 32 {
        return;
    }
    let data = Tensor::zero::<u8>(&[0, 1 << 30, 1 << 30]).unwrap();
    let refused = error(&model, &[data, indices]);
    let message = "Gather-8: no memory for 3458764513820540928 bytes";
    assert!(format!("{refused:#}").contains(message), "{refused:#}");
}

/// No elements, but dimensions that overflow before one gets to the zero.
#[test]
fn empty_outputs_too_large() {
    let model = gather(
        8,
        None,
        tensor0(1i64),
        input("data", DatumType::U8, ["A", "B"]),
        input("indices", DatumType::U8, ["I", "J"]),
    );
    let data = Tensor::zero::<u8>(&[MANY, 0]).unwrap();
    let indices = Tensor::zero::<u8>(&[MANY, 0]).unwrap();
    let overflow = error(&model, &[data, indices]);
    let message = format!("Gather-8: the output of shape [{MANY}, {MANY}, 0] and type U8 is too");
    assert!(format!("{overflow:#}").contains(&message), "{overflow:#}");
}
