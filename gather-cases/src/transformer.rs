//! What gathers do in a transformer that decodes text, as an ONNX model: in OpenVINO's operators, and in
//! those of the standard domain.

use tract_openvino::DOMAIN;
use tract_openvino::tract_onnx::pb::*;
use tract_openvino::tract_onnx::prelude::*;

use crate::onnx_model::*;

/// The rows of the embedding table.
pub const VOCABULARY: usize = 1000;
/// The heads of the attention.
pub const HEADS: usize = 4;
/// The width of a head.
pub const WIDTH: usize = 16;
const HIDDEN: usize = HEADS * WIDTH;

/// Numbers without a pattern that a mistake could keep.
fn numbers(shape: &[usize]) -> Tensor {
    let length = shape.iter().product::<usize>();
    let numbers: Vec<f32> = (0..length).map(|k| (k * 7919 % 1009) as f32 / 1009. - 0.5).collect();
    tensor1(&numbers).into_shape(shape).expect("the shape has that many elements")
}

/// `token_ids` become rows of an embedding table, which heads take apart by a shape that is computed from
/// theirs; one position of each sequence is selected and projected; the beams of a key-value cache change
/// places.
pub fn model(ours: bool) -> ModelProto {
    let standard = |op_type: &str, inputs: &[&str], output: &str| node("", op_type, inputs, output);
    let pick = |data: &str, indices: &str, axis: i64, output: &str| match ours {
        true => {
            node(DOMAIN, "Gather", &[data, indices, ["axis_0", "axis_1"][axis as usize]], output)
        }
        false => with_attribute(standard("Gather", &[data, indices], output), int("axis", axis)),
    };
    let mut nodes = vec![
        standard("Shape", &["token_ids"], "shape"),
        pick("shape", "zero", 0, "batch"),
        pick("shape", "one", 0, "length"),
        standard("Concat", &["batch", "length", "heads"], "by_head_shape"),
        pick("table", "token_ids", 0, "embedded"),
        standard("Reshape", &["embedded", "by_head_shape"], "by_position"),
        standard("Transpose", &["by_position"], "by_head"),
    ];
    nodes[3].attribute.push(int("axis", 0));
    nodes[6].attribute.push(ints("perm", &[0, 2, 1, 3]));
    // One position of each sequence.
    if ours {
        let select = node(DOMAIN, "Gather", &["embedded", "positions", "axis_1"], "selected");
        nodes.push(with_attribute(select, int("batch_dims", 1)));
    } else {
        nodes.push(standard("Unsqueeze", &["positions", "last"], "tuples"));
        let select = standard("GatherND", &["embedded", "tuples"], "selected");
        nodes.push(with_attribute(select, int("batch_dims", 1)));
    }
    nodes.push(standard("MatMul", &["selected", "weights"], "scores"));
    nodes.push(pick("cache", "beams", 0, "reordered"));
    let constants = [
        ("zero", tensor1(&[0i64])),
        ("one", tensor1(&[1i64])),
        ("last", tensor1(&[-1i64])),
        ("axis_0", tensor0(0i64)),
        ("axis_1", tensor0(1i64)),
        ("heads", tensor1(&[HEADS as i64, WIDTH as i64])),
        ("table", numbers(&[VOCABULARY, HIDDEN])),
        ("weights", numbers(&[HIDDEN, 8])),
    ];
    let i64 = DatumType::I64;
    let cache: [Dim; 4] = ["beams".into(), HEADS.into(), "past".into(), WIDTH.into()];
    let graph = GraphProto {
        node: nodes,
        input: vec![
            input("token_ids", i64, ["batch", "length"]),
            input("positions", i64, ["batch"]),
            input("cache", DatumType::F32, cache),
            input("beams", i64, ["beams"]),
        ],
        output: ["by_head", "scores", "reordered"].map(output).to_vec(),
        initializer: constants.iter().map(|(name, tensor)| initializer(name, tensor)).collect(),
        ..GraphProto::default()
    };
    crate::onnx_model::model(ours.then_some(8), graph)
}

/// A batch of sequences, and a cache of as many beams.
pub fn inputs(batch: usize, length: usize, past: usize) -> TVec<TValue> {
    let integers = |count: usize, size: usize| -> Vec<i64> {
        (0..count).map(|k| (k * 7919 % size) as i64).collect()
    };
    let token_ids = tensor1(&integers(batch * length, VOCABULARY)).into_shape(&[batch, length]);
    tvec!(
        token_ids.expect("as many ids").into(),
        tensor1(&integers(batch, length)).into(),
        numbers(&[batch, HEADS, past, WIDTH]).into(),
        tensor1(&integers(batch, batch)).into(),
    )
}
