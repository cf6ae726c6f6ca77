//! Operators of the standard domain that tract has, but not as ONNX says.

use gather_cases::onnx_model::*;
use model_cases::{Stage, StagedModel, Tolerance, compare_within};
use tract_openvino::tract_onnx::pb::attribute_proto::AttributeType;
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto, NodeProto};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::{IndexError, OpenVinoOptions, WithOpenVinoOptions, restart_loops, tract_onnx};

const F16: DatumType = DatumType::F16;
const F32: DatumType = DatumType::F32;
const I64: DatumType = DatumType::I64;

/// The node is fed these tensors, but for those that are constants, by their position.
fn model_of_node(node: NodeProto, inputs: &[Tensor], constants: &[usize]) -> ModelProto {
    let named = || node.input.iter().zip(inputs).enumerate();
    let fed = named().filter(|(number, _)| !constants.contains(number));
    let fed = fed.map(|(_, (name, it))| input(name, it.datum_type(), it.shape().to_vec()));
    let given = named().filter(|(number, _)| constants.contains(number));
    let graph = GraphProto {
        input: fed.collect(),
        initializer: given.map(|(_, (name, it))| initializer(name, it)).collect(),
        output: node.output.iter().map(|name| output(name)).collect(),
        node: vec![node],
        ..GraphProto::default()
    };
    model(None, graph)
}

fn checked(model: &ModelProto) -> TractResult<InferenceModel> {
    let options = OpenVinoOptions::default().with_standard_gather(true);
    tract_onnx::onnx().with_openvino_options(options).model_for_proto_model(model)
}

/// Runs a node at a stage.
fn run_node(
    node: &NodeProto,
    inputs: &[Tensor],
    constants: &[usize],
    stage: Stage,
) -> TractResult<Tensor> {
    let model = checked(&model_of_node(node.clone(), inputs, constants))?;
    let fed = inputs.iter().enumerate().filter(|(number, _)| !constants.contains(number));
    let fed: Vec<Tensor> = fed.map(|(_, tensor)| tensor.clone()).collect();
    Ok(StagedModel::new(model, stage)?.run_as_onnx(&fed)?.remove(0))
}

fn with_axis(node: NodeProto, axis: i64) -> NodeProto {
    with_attribute(node, int("axis", axis))
}

/// A node, its inputs with a place for the indices, two indices in the shape that it wants, and what is expected of -1 and 0.
type Indexed = (NodeProto, Vec<Tensor>, fn([i64; 2]) -> Tensor, Tensor);

/// Nodes that are addressed by indices.
fn indexed() -> Vec<Indexed> {
    let data = || tensor2(&[[1f32, 2., 3.], [4., 5., 6.]]);
    let flat = |indices: [i64; 2]| tensor1(&indices);
    let row = |indices: [i64; 2]| tensor2(&[indices]);
    let column = |[a, b]: [i64; 2]| tensor2(&[[a], [b]]);
    let two = ["data", "indices"];
    let three = ["data", "indices", "updates"];
    let place = Tensor::from(0i64);
    let updates = || tensor2(&[[7f32, 8., 9.], [10., 20., 30.]]);
    let scatter = |reduction| {
        with_attribute(node("", "ScatterND", &three, "y"), string("reduction", reduction))
    };
    let elements = |op_type, axis| with_axis(node("", op_type, &three, "y"), axis);
    vec![
        (
            with_axis(node("", "Gather", &two, "y"), 1),
            vec![data(), place.clone()],
            flat,
            tensor2(&[[3f32, 1.], [6., 4.]]),
        ),
        (
            node("", "GatherND", &two, "y"),
            vec![data(), place.clone()],
            column,
            tensor2(&[[4f32, 5., 6.], [1., 2., 3.]]),
        ),
        (
            with_axis(node("", "GatherElements", &two, "y"), -1),
            vec![data(), place.clone()],
            // Fewer rows than data.
            row,
            tensor2(&[[3f32, 1.]]),
        ),
        (
            scatter("none"),
            vec![data(), place.clone(), updates()],
            column,
            tensor2(&[[10f32, 20., 30.], [7., 8., 9.]]),
        ),
        (
            scatter("add"),
            vec![data(), place.clone(), updates()],
            column,
            tensor2(&[[11f32, 22., 33.], [11., 13., 15.]]),
        ),
        (
            elements("ScatterElements", 1),
            vec![data(), place.clone(), tensor2(&[[7f32, 8.]])],
            row,
            tensor2(&[[8f32, 2., 7.], [4., 5., 6.]]),
        ),
        (
            elements("Scatter", -1),
            vec![data(), place, tensor2(&[[7f32, 8.]])],
            row,
            tensor2(&[[8f32, 2., 7.], [4., 5., 6.]]),
        ),
    ]
}

#[test]
fn a_negative_index_counts_from_the_end() {
    for (node, mut inputs, indices, expected) in indexed() {
        for dt in [I64, DatumType::I32] {
            inputs[1] = indices([-1, 0]).cast_to_dt(dt).unwrap().into_owned();
            for constants in [&[][..], &[1], &[0], &[0, 1]] {
                for stage in Stage::ALL {
                    let found = run_node(&node, &inputs, constants, stage);
                    let found = found.unwrap_or_else(|error| {
                        panic!("{} {constants:?} {stage}: {error:?}", node.op_type)
                    });
                    assert_eq!(found, expected, "{} {constants:?} {stage}", node.op_type);
                }
            }
        }
    }
}

#[test]
fn an_index_out_of_range_is_an_error_that_names_the_operator() {
    for (node, mut inputs, indices, _) in indexed() {
        let op_type = match &*node.op_type {
            "Scatter" => "ScatterElements",
            op_type => op_type,
        };
        for bad in [3, -4, (1i64 << 32) + 1] {
            inputs[1] = indices([0, bad]);
            for constants in [&[][..], &[1], &[0], &[0, 1]] {
                for stage in Stage::ALL {
                    let error = run_node(&node, &inputs, constants, stage).unwrap_err();
                    let found = error
                        .downcast_ref::<IndexError>()
                        .unwrap_or_else(|| panic!("{op_type} {constants:?} {stage}: {error:?}"));
                    let expected = (format!("ONNX {op_type}"), bad as i128);
                    assert_eq!((found.operator.to_string(), found.value), expected);
                }
            }
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let data = tensor2(&[[1f32, 2., 3.], [4., 5., 6.]]);
    let three = ["data", "indices", "updates"];
    let scatter_nd = node("", "ScatterND", &three, "y");
    let elements = node("", "ScatterElements", &three, "y");
    let gather = node("", "GatherElements", &three[..2], "y");
    let zeros = |shape: &[usize]| Tensor::zero::<i64>(shape).unwrap();
    let updates = |shape: &[usize]| Tensor::zero::<f32>(shape).unwrap();
    for (node, inputs, expected) in [
        (
            &scatter_nd,
            vec![data.clone(), zeros(&[2, 1]), updates(&[2, 2])],
            "must have shape [2, 3]",
        ),
        (&scatter_nd, vec![data.clone(), zeros(&[2, 3]), updates(&[2])], "must be at most 2"),
        (&scatter_nd, vec![data.clone(), zeros(&[]), updates(&[2])], "has rank 0"),
        (
            &elements,
            vec![data.clone(), zeros(&[1, 4]), updates(&[1, 4])],
            "no dimension that is larger",
        ),
        (&elements, vec![data.clone(), zeros(&[1, 2]), updates(&[1, 3])], ""),
        (
            &with_axis(elements.clone(), 2),
            vec![data.clone(), zeros(&[1, 2]), updates(&[1, 2])],
            "axis",
        ),
        (&gather, vec![data.clone(), zeros(&[1, 4])], "must be at most 3"),
        (&gather, vec![data, zeros(&[4])], ""),
    ] {
        for stage in Stage::ALL {
            let error = format!("{:#}", run_node(node, &inputs, &[], stage).unwrap_err());
            assert!(error.contains(expected), "{} {stage}: {error}", node.op_type);
        }
    }
}

/// tract's own ScatterND makes a slice and a concatenation of this.
#[test]
fn constant_indices_in_range_are_left_to_tract() {
    let node = node("", "ScatterND", &["data", "indices", "updates"], "y");
    let data = tensor2(&[[1f32, 2.], [3., 4.], [5., 6.]]);
    let indices = tensor3(&[[[-1i64, 0], [-1, 1]]]);
    let updates = tensor2(&[[7f32, 8.]]);
    let model = checked(&model_of_node(node, &[data.clone(), indices, updates.clone()], &[1]));
    let model = model.unwrap().into_typed().unwrap().into_decluttered().unwrap();
    let names: Vec<_> = model.nodes().iter().map(|node| node.op.name().into_owned()).collect();
    assert!(!names.iter().any(|name| name.contains("Scatter")), "{names:?}");
    let found = model.into_runnable().unwrap().run(tvec!(data.into(), updates.into())).unwrap();
    assert_eq!(*found[0], tensor2(&[[1f32, 2.], [3., 4.], [7., 8.]]));
}

/// tract has sizes as `TDim`.
#[test]
fn scattered_sizes() {
    let graph = GraphProto {
        node: vec![
            node("", "Shape", &["x"], "shape"),
            node("", "ScatterND", &["shape", "last", "one"], "sizes"),
            node("", "Expand", &["row", "sizes"], "y"),
        ],
        input: vec![input("x", F32, ["A", "B"])],
        initializer: vec![
            initializer("last", &tensor2(&[[-1i64]])),
            initializer("one", &tensor1(&[2i64])),
            initializer("row", &tensor2(&[[1f32, 2.]])),
        ],
        output: vec![output("y")],
        ..GraphProto::default()
    };
    for stage in &Stage::ALL[1..] {
        let model = checked(&model(None, graph.clone())).unwrap();
        let x = Tensor::zero::<f32>(&[3, 5]).unwrap();
        let found = StagedModel::new(model, *stage).unwrap().run_as_onnx(&[x]).unwrap();
        assert_eq!(found[0], tensor2(&[[1f32, 2.], [1., 2.], [1., 2.]]), "{stage}");
    }
}

#[cfg(feature = "nnef")]
#[test]
fn they_are_saved_to_nnef() {
    for (node, mut inputs, indices, expected) in indexed() {
        inputs[1] = indices([-1, 0]);
        let model = checked(&model_of_node(node.clone(), &inputs, &[])).unwrap();
        let model = crate::through_nnef(&model.into_typed().unwrap()).unwrap();
        let model = model.into_optimized().unwrap().into_runnable().unwrap();
        let found = model.run(inputs.into_iter().map(TValue::from).collect()).unwrap();
        assert_eq!(*found[0], expected, "{}", node.op_type);
    }
}

#[test]
fn one_hot() {
    let one_hot = |axis| with_axis(node("", "OneHot", &["indices", "depth", "values"], "y"), axis);
    let values = tensor1(&[5f32, 7.]);
    // The last one is out of range, and so is the first.
    let indices = tensor1(&[-4i64, -3, 0, 2, 3]);
    let rows = tensor2(&[[5f32, 5., 5.], [7., 5., 5.], [7., 5., 5.], [5., 5., 7.], [5., 5., 5.]]);
    let columns = rows.clone().permute_axes(&[1, 0]).unwrap();
    for (axis, expected) in [(-1, &rows), (1, &rows), (0, &columns), (-2, &columns)] {
        for dt in [I64, DatumType::I32, F32] {
            for depth in [tensor0(3i64), tensor1(&[3i32]), tensor0(3f32)] {
                let inputs = [indices.cast_to_dt(dt).unwrap().into_owned(), depth, values.clone()];
                for constants in [&[1, 2][..], &[1], &[0, 1, 2]] {
                    for stage in Stage::ALL {
                        let found = run_node(&one_hot(axis), &inputs, constants, stage).unwrap();
                        assert_eq!(&found, expected, "{axis} {dt:?} {constants:?} {stage}");
                    }
                }
            }
        }
    }
    // Such indices are out of any range.
    let inputs = [tensor1(&[i64::MIN, i64::MAX]), tensor0(2i64), values.clone()];
    let found = run_node(&one_hot(-1), &inputs, &[1, 2], Stage::Typed).unwrap();
    assert_eq!(found, tensor2(&[[5f32, 5.], [5., 5.]]));
    let error = |axis, depth: Tensor, constants: &[usize]| {
        let inputs = [indices.clone(), depth, values.clone()];
        format!("{:#}", run_node(&one_hot(axis), &inputs, constants, Stage::Typed).unwrap_err())
    };
    assert!(error(2, tensor0(3i64), &[1]).contains("axis is 2, but must be in [-2, 1]"));
    assert!(error(0, tensor0(-1i64), &[1]).contains("depth is -1, but must be in [0, "));
    assert!(error(0, tensor1(&[1i64, 2]), &[1]).contains("a tensor of one element"));
    assert!(error(0, tensor0(3i64), &[]).contains("depth is computed, but must be a constant"));
}

/// Products of what is broadcast to an open size.
#[test]
fn products_of_broadcasts() {
    let constant_of_shape = |output: &str| {
        let value = tensor("value", &tensor1(&[2f32]));
        with_attribute(node("", "ConstantOfShape", &["sizes"], output), value)
    };
    let sizes = || {
        vec![
            node("", "Shape", &["x"], "shape"),
            node("", "Slice", &["shape", "zero", "one", "zero"], "batch"),
            with_axis(node("", "Concat", &["batch", "three"], "sizes"), 0),
        ]
    };
    let matmul = |a, b| node("", "MatMul", &[a, b], "y");
    let einsum =
        with_attribute(node("", "Einsum", &["h", "w"], "y"), string("equation", "bk,km->bm"));
    let gemm = |transposed| {
        let gemm = node("", "Gemm", &["h", "w", "bias"], "y");
        if transposed {
            with_attribute(node("", "Gemm", &["t", "w", "bias"], "y"), int("transA", 1))
        } else {
            gemm
        }
    };
    let transpose = || with_attribute(node("", "Transpose", &["h"], "t"), ints("perm", &[1, 0]));
    let w = tensor2(&[[1f32, 2.], [3., 4.], [5., 6.]]);
    let row = [18f32, 24.];
    let expected = |bias: f32| tensor2(&[row.map(|it| it + bias), row.map(|it| it + bias)]);
    for (name, nodes, bias) in [
        ("MatMul", vec![constant_of_shape("h"), matmul("h", "w")], 0.),
        ("Einsum", vec![constant_of_shape("h"), einsum], 0.),
        ("Gemm", vec![constant_of_shape("h"), gemm(false)], 1.),
        ("Gemm, transposed", vec![constant_of_shape("h"), transpose(), gemm(true)], 1.),
        ("Expand", vec![node("", "Expand", &["two", "sizes"], "h"), matmul("h", "w")], 0.),
        (
            "Expand of a row, and Relu",
            vec![
                node("", "Expand", &["twos", "sizes"], "e"),
                node("", "Relu", &["e"], "h"),
                matmul("h", "w"),
            ],
            0.,
        ),
    ] {
        let graph = GraphProto {
            node: sizes().into_iter().chain(nodes).collect(),
            input: vec![input("x", F32, ["B", "C"])],
            initializer: vec![
                initializer("zero", &tensor1(&[0i64])),
                initializer("one", &tensor1(&[1i64])),
                initializer("three", &tensor1(&[3i64])),
                initializer("two", &tensor0(2f32)),
                initializer("twos", &tensor2(&[[2f32, 2., 2.]])),
                initializer("bias", &tensor1(&[1f32, 1.])),
                initializer("w", &w),
            ],
            output: vec![output("y")],
            ..GraphProto::default()
        };
        for stage in &Stage::ALL[1..] {
            let model = read(&model(None, graph.clone())).unwrap();
            let x = Tensor::zero::<f32>(&[2, 1]).unwrap();
            let found = StagedModel::new(model, *stage).and_then(|mut it| it.run_checked(&[x]));
            let found = found.unwrap_or_else(|error| panic!("{name}, {stage}: {error:?}"));
            assert_eq!(found[0], expected(bias), "{name}, {stage}");
        }
    }
}

/// What tract ignores would give another result.
#[test]
fn what_tract_ignores_is_an_error() {
    let attention = |past: bool| {
        let inputs = ["q", "k", "v", "", "k", "v"];
        node("", "Attention", if past { &inputs } else { &inputs[..3] }, "y")
    };
    let one_of = |op_type, attribute| with_attribute(node("", op_type, &["x"], "y"), attribute);
    let mut swish = one_of("Swish", int("alpha", 0));
    swish.attribute[0].f = 0.5;
    swish.attribute[0].r#type = AttributeType::Float as i32;
    for (node, expected) in [
        (
            with_attribute(attention(false), int("left_window_size", 2)),
            "attribute left_window_size is 2, but only -1 is supported",
        ),
        (
            with_attribute(attention(false), int("right_window_size", 0)),
            "attribute right_window_size is 0, but only -1 is supported",
        ),
        (with_attribute(attention(true), int("is_causal", 1)), "not supported with past_key"),
        (one_of("SpaceToDepth", string("mode", "CRD")), "only \"DCR\" is supported"),
        (swish, "attribute alpha is 0.5, but only 1 is supported"),
    ] {
        let graph =
            GraphProto { output: vec![output("y")], node: vec![node], ..GraphProto::default() };
        let error = format!("{:#}", read(&model(None, graph)).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn celu_has_its_factor() {
    let mut celu = with_attribute(node("", "Celu", &["x"], "y"), int("alpha", 0));
    celu.attribute[0].f = 2.;
    celu.attribute[0].r#type = AttributeType::Float as i32;
    let x = tensor1(&[-3f32, -0.5, 0., 2.]);
    // `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`
    let expected = tensor1(&[-1.553_74f32, -0.442_4, 0., 2.]);
    for dt in [F16, F32] {
        let x = x.cast_to_dt(dt).unwrap().into_owned();
        for stage in Stage::ALL {
            let y = run_node(&celu, std::slice::from_ref(&x), &[], stage).unwrap();
            assert_eq!(y.datum_type(), dt);
            let close = Tolerance { atol: 1e-3, rtol: 0. };
            let y = y.cast_to::<f32>().unwrap().into_owned();
            compare_within(&expected, &y, close)
                .unwrap_or_else(|it| panic!("{dt:?} {stage}: {it}"));
        }
    }
    let y = run_node(&celu, &[tensor1(&[f32::NAN])], &[], Stage::Optimized).unwrap();
    assert!(y.cast_to_scalar::<f32>().unwrap().is_nan());
}

/// A tensor of numbers that are not alike.
fn numbers(dt: DatumType, shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..count).map(|it| ((it * 7 + seed) % 11) as f32 / 8. - 0.6).collect();
    Tensor::from_shape(shape, &numbers).unwrap().cast_to_dt(dt).unwrap().into_owned()
}

/// Recurrent nodes: how many rows of weights there are for each hidden number, and whether the attribute
/// `linear_before_reset` is set, with which tract has one operator for a GRU.
const RECURRENT: [(&str, usize, bool); 4] =
    [("LSTM", 4, false), ("GRU", 3, false), ("GRU", 3, true), ("RNN", 1, false)];

/// A recurrent node with two hidden numbers, on sequences of three numbers, of one direction.
fn recurrent(
    (op_type, rows, is_linear): (&str, usize, bool),
    attributes: Vec<tract_onnx::pb::AttributeProto>,
    x: tract_onnx::pb::ValueInfoProto,
    dt: DatumType,
    state: Option<&Tensor>,
) -> ModelProto {
    let mut names = vec!["x", "w", "r"];
    let mut initializer = vec![
        initializer("w", &numbers(dt, &[1, rows * 2, 3], 1)),
        initializer("r", &numbers(dt, &[1, rows * 2, 2], 2)),
    ];
    if let Some(state) = state {
        names.extend(["", "", "h"]);
        initializer.push(gather_cases::onnx_model::initializer("h", state));
        if op_type == "LSTM" {
            names.push("h");
        }
    }
    let mut node = node("", op_type, &names, "y");
    node.output.push("y_h".into());
    node.attribute = attributes;
    node.attribute.push(int("hidden_size", 2));
    if is_linear {
        node.attribute.push(int("linear_before_reset", 1));
    }
    let mut output = vec![output("y"), output("y_h")];
    if op_type == "LSTM" {
        node.output.push("y_c".into());
        output.push(gather_cases::onnx_model::output("y_c"));
    }
    let graph = GraphProto {
        node: vec![node],
        input: vec![x],
        initializer,
        output,
        ..GraphProto::default()
    };
    model(None, graph)
}

fn run_at(model: &ModelProto, x: &Tensor, stage: Stage) -> TractResult<Vec<Tensor>> {
    StagedModel::new(read(model)?, stage)?.run_as_onnx(std::slice::from_ref(x))
}

/// The steps of a sequence in the other order.
fn reversed(sequence: &Tensor) -> Tensor {
    let steps =
        (0..sequence.shape()[0]).rev().map(|step| sequence.slice(0, step, step + 1).unwrap());
    Tensor::stack_tensors(0, &steps.collect::<Vec<_>>()).unwrap()
}

#[test]
fn the_direction_reverse() {
    let x = numbers(F32, &[4, 2, 3], 5);
    for kind in RECURRENT {
        let of =
            |attributes| recurrent(kind, attributes, input("x", F32, [4usize, 2, 3]), F32, None);
        let forward = of(vec![]);
        let backward = of(vec![string("direction", "reverse")]);
        for stage in Stage::ALL {
            let expected = run_at(&forward, &reversed(&x), stage).unwrap();
            let found = run_at(&backward, &x, stage).unwrap();
            let close = Tolerance { atol: 1e-6, rtol: 0. };
            compare_within(&reversed(&expected[0]), &found[0], close)
                .unwrap_or_else(|it| panic!("{kind:?} {stage}: {it}"));
            compare_within(&expected[1], &found[1], close)
                .unwrap_or_else(|it| panic!("{kind:?} {stage}: {it}"));
            assert!(
                compare_within(&run_at(&forward, &x, stage).unwrap()[0], &found[0], close).is_err()
            );
        }
    }
}

/// The initial states are zeros where they are left out, of whatever size and type.
#[test]
fn initial_states_of_an_open_batch() {
    for kind in RECURRENT {
        for (dt, tolerance) in [(F32, 1e-6), (F16, 2e-3)] {
            let zeros = Tensor::zero_dt(dt, &[1, 2, 2]).unwrap();
            let x = numbers(dt, &[4, 2, 3], 5);
            let sizes = || input("x", dt, [4usize, 2, 3]);
            let stated = recurrent(kind, vec![], sizes(), dt, Some(&zeros));
            let expected = run_at(&stated, &x, Stage::Typed).unwrap();
            let open = || input("x", dt, ["S", "B", "I"]);
            for x_of_file in [sizes(), open()] {
                let model = recurrent(kind, vec![], x_of_file, dt, None);
                for stage in &Stage::ALL[1..] {
                    let found = run_at(&model, &x, *stage);
                    let found =
                        found.unwrap_or_else(|it| panic!("{kind:?} {dt:?} {stage}: {it:?}"));
                    for (expected, found) in expected.iter().zip(&found) {
                        let close = Tolerance { atol: tolerance, rtol: 0. };
                        compare_within(expected, found, close)
                            .unwrap_or_else(|it| panic!("{kind:?} {dt:?} {stage}: {it}"));
                    }
                }
            }
        }
    }
}

/// What a `State` keeps of a run: see [`restart_loops`].
#[test]
fn loops_go_on_unless_they_restart() {
    let x = numbers(F32, &[4, 2, 3], 5);
    for kind in RECURRENT {
        let model = recurrent(kind, vec![], input("x", F32, [4usize, 2, 3]), F32, None);
        type Prepare = fn(TypedModel) -> TractResult<TypedModel>;
        let run_twice = |restarts: bool, prepare: Prepare| {
            let mut model = read(&model)?.into_typed()?;
            if restarts {
                restart_loops(&mut model);
            }
            let mut state = prepare(model)?.into_runnable()?.spawn()?;
            let mut run = || {
                let outputs = state.run(tvec!(x.clone().into()))?;
                TractResult::Ok(outputs[0].clone().into_tensor())
            };
            TractResult::Ok([run()?, run()?])
        };
        let prepared: [Prepare; 3] = [
            Ok,
            |model| model.into_optimized(),
            |model| {
                use tract_openvino::WithKernels;
                model.with_kernels()?.into_optimized()
            },
        ];
        for prepare in prepared {
            let [first, second] = run_twice(true, prepare).unwrap();
            assert_eq!(first, second, "{kind:?}");
        }
        let [first, second] = run_twice(false, Ok).unwrap();
        assert_ne!(first, second, "{kind:?}: tract keeps the states no longer");
    }
}

/// What a loop within a loop ends with is nothing to its next iteration.
#[test]
fn loops_within_loops_restart() {
    let x = numbers(F32, &[1, 4, 2, 3], 5);
    let twice = Tensor::stack_tensors(0, &[x.clone(), x]).unwrap();
    let inner = recurrent(RECURRENT[0], vec![], input("x", F32, [4usize, 2, 3]), F32, None);
    let mut body = inner.graph.unwrap();
    body.output.truncate(1);
    body.output[0] = input("y", F32, [4usize, 1, 2, 2]);
    let mut scan = node("", "Scan", &["xs"], "ys");
    scan.attribute = vec![graph("body", body), int("num_scan_inputs", 1)];
    let graph = GraphProto {
        node: vec![scan],
        input: vec![input("xs", F32, [2usize, 4, 2, 3])],
        output: vec![output("ys")],
        ..GraphProto::default()
    };
    let mut typed = read(&model(None, graph)).unwrap().into_typed().unwrap();
    restart_loops(&mut typed);
    for model in [typed.clone(), typed.into_optimized().unwrap()] {
        let mut state = model.into_runnable().unwrap().spawn().unwrap();
        for _ in 0..2 {
            let ys = state.run(tvec!(twice.clone().into())).unwrap().remove(0);
            assert_eq!(ys.slice(0, 0, 1).unwrap(), ys.slice(0, 1, 2).unwrap());
        }
    }
}
