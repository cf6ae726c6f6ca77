//! Writes an ONNX model with OpenVINO's GatherND, and runs it: GatherND-5 makes one dimension of the batch dimensions, and
//! GatherND-8 keeps them.

use anyhow::{Context, Result};
use tract_openvino::tract_onnx::pb::tensor_shape_proto::{Dimension, dimension::Value};
use tract_openvino::tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto::AttributeType, tensor_proto::DataType, type_proto,
};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::{WithKernels, WithOpenVino};

fn main() -> Result<()> {
    let prices = tensor3(&[[[1f32, 2., 3.], [4., 5., 6.]], [[7., 8., 9.], [10., 11., 12.]]]);
    let choices = tensor3(&[[[0i32], [2]], [[1], [1]]]);
    for version in [5, 8] {
        let model = tract_openvino::tract_onnx::onnx()
            .with_openvino()
            .model_for_proto_model(&model(version))
            .with_context(|| format!("a model with operation set {version}"))?
            .into_typed()?
            .into_runnable_with_kernels()?;
        let outputs = model.run(tvec!(prices.clone().into(), choices.clone().into()))?;
        let chosen = outputs[0].to_plain_array_view::<f32>()?;
        println!("GatherND-{version}, shape {:?}:\n{chosen}", chosen.shape());
    }
    Ok(())
}

/// A graph of a single node. Any program that writes ONNX can write it so: the domain is what counts.
fn model(version: i64) -> ModelProto {
    let node = NodeProto {
        op_type: "GatherND".into(),
        domain: tract_openvino::DOMAIN.into(),
        input: vec!["prices".into(), "choices".into()],
        output: vec!["chosen".into()],
        attribute: vec![AttributeProto {
            name: "batch_dims".into(),
            r#type: AttributeType::Int.into(),
            i: 2,
            ..Default::default()
        }],
        ..Default::default()
    };
    let graph = GraphProto {
        name: "choose".into(),
        node: vec![node],
        input: vec![
            value("prices", DataType::Float, &[2, 2, 3]),
            value("choices", DataType::Int32, &[2, 2, 1]),
        ],
        output: vec![ValueInfoProto { name: "chosen".into(), ..Default::default() }],
        ..Default::default()
    };
    let operations = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    ModelProto {
        ir_version: 8,
        opset_import: vec![operations("", 17), operations(tract_openvino::DOMAIN, version)],
        graph: Some(graph),
        ..Default::default()
    }
}

fn value(name: &str, element: DataType, shape: &[i64]) -> ValueInfoProto {
    let dim = shape
        .iter()
        .map(|size| Dimension { value: Some(Value::DimValue(*size)), ..Default::default() });
    let tensor = type_proto::Tensor {
        elem_type: element.into(),
        shape: Some(TensorShapeProto { dim: dim.collect() }),
    };
    let r#type =
        TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
    ValueInfoProto { name: name.into(), r#type: Some(r#type), ..Default::default() }
}
