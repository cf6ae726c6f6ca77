//! Models and inputs of sizes that nobody meant: what they ask for is computed, or refused with an error.

use gather_cases::elements;
use gather_cases::onnx_model::*;
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::TDim;
use tract_openvino::{DOMAIN, Gather, GatherNd, GatherNdRevision, GatherRevision};

use crate::eval;

const F32: DatumType = DatumType::F32;
const I64: DatumType = DatumType::I64;

/// `length` gathers, each from the output of the one before, in both operators by turns.
fn chain(length: usize, constant_indices: bool) -> ModelProto {
    let mut graph = GraphProto {
        input: vec![input("value_0", F32, [3usize, 2])],
        output: vec![output(&format!("value_{length}"))],
        initializer: vec![initializer("axis", &tensor0(0i64))],
        ..GraphProto::default()
    };
    // Each turns the rows by one.
    let [rows, tuples] = [tensor1(&[1i64, 2, 0]), tensor2(&[[1i64], [2], [0]])];
    for (name, tensor, shape) in [("rows", rows, &[3][..]), ("tuples", tuples, &[3, 1])] {
        if constant_indices {
            graph.initializer.push(initializer(name, &tensor));
        } else {
            graph.input.push(input(name, I64, shape.iter().copied()));
        }
    }
    for k in 0..length {
        let (from, to) = (format!("value_{k}"), format!("value_{}", k + 1));
        graph.node.push(match k % 2 {
            0 => node(DOMAIN, "Gather", &[&from, "rows", "axis"], &to),
            _ => node(DOMAIN, "GatherND", &[&from, "tuples"], &to),
        });
    }
    model(Some(8), graph)
}

/// Neither reading nor rewriting nor running a long chain recurses, or takes more than the nodes ask for.
#[test]
fn chains() {
    let data = elements::own_offsets(F32, &[3, 2]);
    // 10 000 turns are one, and so are 1000.
    let expected = tensor2(&[[3.5f32, 4.5], [5.5, 6.5], [1.5, 2.5]]);
    let fed = [data.clone(), tensor1(&[1i64, 2, 0]), tensor2(&[[1i64], [2], [0]])];
    assert_eq!(run(&chain(10_000, false), &fed).unwrap()[0], expected);
    // Fewer: for each rewrite tract compares constants with all that there are.
    let optimized = read(&chain(1000, true)).unwrap().into_optimized().unwrap();
    assert_eq!(optimized.nodes().len(), 3, "{optimized}");
    let output = optimized.into_runnable().unwrap().run(tvec!(data.into())).unwrap();
    assert_eq!(*output[0], expected);
}

/// Ranks far beyond what a model has.
#[test]
fn ranks() {
    for rank in [4, 16, 17, 64, 300] {
        let mut shape = vec![1usize; rank];
        shape[rank - 1] = 3;
        let data = elements::own_offsets(F32, &shape);
        let op = Gather::new(GatherRevision::V8, rank - 1).with_batch_dims(rank - 1).unwrap();
        let mut indices_shape = vec![1usize; rank - 1];
        indices_shape.push(2);
        let indices = tensor1(&[2i64, -3]).into_shape(&indices_shape).unwrap();
        let output = eval(&op, data.clone(), indices).unwrap();
        assert_eq!(output.shape(), indices_shape);
        assert_eq!(output.to_plain_array_view::<f32>().unwrap().as_slice().unwrap(), [3.5, 1.5]);

        // A tuple for each axis.
        let op = GatherNd::new(GatherNdRevision::V8);
        let mut tuple = vec![0i64; rank];
        tuple[rank - 1] = 1;
        assert_eq!(eval(&op, data, tensor1(&tuple)).unwrap(), tensor0(2.5f32));
    }
}

/// From a file, with symbols for all sizes, and with values for them that no memory holds: the model is made, of
/// these sizes, and runs on no tensors of others.
#[test]
fn symbols_with_huge_values() {
    let data = input("data", F32, [Dim::from("A"), Dim::from("B")]);
    let model = gather(8, 0, tensor0(0i64), data, input("indices", I64, ["I"]));
    let typed = read(&model).unwrap().into_typed().unwrap();
    for ([a, b, i], [huge, fed]) in [
        ([3, 1i64 << 40, 1i64 << 40], [1i64 << 40, 2]),
        ([3, i64::MAX, 2], [i64::MAX, 2]),
        ([1i64 << 62, 2, 1i64 << 62], [1i64 << 62, 3]),
        ([3, 2, i64::MAX], [i64::MAX, 2]),
    ] {
        let values = [("A", a), ("B", b), ("I", i)]
            .map(|(name, value)| (typed.symbols.sym(name), TDim::from(value)));
        let model = typed.set_symbols(&values.into_iter().collect()).unwrap();
        let optimized = model.into_optimized().unwrap();
        assert_eq!(*optimized.output_fact(0).unwrap().shape, [TDim::from(i), TDim::from(b)]);
        let inputs = [Tensor::zero::<f32>(&[3, 2]), Tensor::zero::<i64>(&[2])];
        let inputs = inputs.into_iter().map(|it| it.unwrap().into()).collect();
        let error = optimized.into_runnable().unwrap().run(inputs).unwrap_err();
        let clash = format!("Clashing resolution for expression. {huge}={huge} != {fed}.");
        assert!(format!("{error:#}").starts_with(&clash), "{error:#}");
    }
}

/// Nodes and values of one name, and of names that tract or this crate could give to nodes of its own.
#[test]
fn names_that_collide() {
    let mut proto = gather(
        8,
        0,
        tensor0(0i64),
        input("data", F32, [3usize, 2]),
        input("indices", I64, [2usize]),
    );
    let graph = proto.graph.as_mut().unwrap();
    let second = node(DOMAIN, "Gather", &["output", "indices", "axis"], "second");
    graph.node.push(second);
    graph.output = vec![output("second")];
    let data = elements::own_offsets(F32, &[3, 2]);
    let fed = [data, tensor1(&[1i64, 0])];
    let expected = tensor2(&[[1.5f32, 2.5], [3.5, 4.5]]);
    for names in [["", ""], ["output", "second"], ["second", "second.axis"], ["first", "first.0"]] {
        let mut proto = proto.clone();
        for (node, name) in proto.graph.as_mut().unwrap().node.iter_mut().zip(names) {
            node.name = name.into();
        }
        assert_eq!(run(&proto, &fed).unwrap()[0], expected, "{names:?}");
        // With constant indices, the rewrites have names to find.
        make_constant(&mut proto, "indices", &fed[1]);
        assert_eq!(run(&proto, &fed[..1]).unwrap()[0], expected, "{names:?}");
    }
    // tract has one name for one node, inputs among them, and says so.
    for names in [["same", "same"], ["data", "second"]] {
        let mut proto = proto.clone();
        for (node, name) in proto.graph.as_mut().unwrap().node.iter_mut().zip(names) {
            node.name = name.into();
        }
        let error = format!("{:#}", error(&proto, &fed));
        assert!(error.contains(&format!("Duplicate node name: {}", names[0])), "{error}");
    }
    // An output that two nodes claim: the last of them has it.
    let graph = proto.graph.as_mut().unwrap();
    graph.node[1].output = vec!["output".into()];
    graph.node[1].input[0] = "data".into();
    graph.output = vec![output("output")];
    assert_eq!(run(&proto, &fed).unwrap(), [tensor2(&[[3.5f32, 4.5], [1.5, 2.5]])]);
}
