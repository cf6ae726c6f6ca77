//! A workload as a model of each runtime's own format.

use prost::Message;
use tract_openvino::tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_openvino::tract_onnx::pb::type_proto::{self, Value};
use tract_openvino::tract_onnx::pb::*;
use tract_openvino::tract_onnx::prelude::DatumType;

use gather_cases::workloads::{Operator, Workload};

/// Names of an element type in OpenVINO IR, and its number in ONNX.
fn names(dt: DatumType) -> (&'static str, &'static str, tensor_proto::DataType) {
    use tensor_proto::DataType;
    match dt {
        DatumType::F32 => ("f32", "FP32", DataType::Float),
        DatumType::F16 => ("f16", "FP16", DataType::Float16),
        DatumType::I32 => ("i32", "I32", DataType::Int32),
        DatumType::I64 => ("i64", "I64", DataType::Int64),
        DatumType::U8 => ("u8", "U8", DataType::Uint8),
        other => unreachable!("no workload has {other:?}"),
    }
}

/// OpenVINO IR with Gather-8 or GatherND-8. The only weight is the axis, an `i64`.
pub fn openvino_ir(workload: &Workload, output: &[usize]) -> String {
    let port = |id: usize, dt: DatumType, shape: &[usize]| {
        let dims: String = shape.iter().map(|dim| format!("<dim>{dim}</dim>")).collect();
        format!("<port id=\"{id}\" precision=\"{}\">{dims}</port>", names(dt).1)
    };
    let parameter = |id: usize, name: &str, dt: DatumType, shape: &[usize]| {
        let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
        format!(
            "<layer id=\"{id}\" name=\"{name}\" type=\"Parameter\" version=\"opset1\">\
             <data shape=\"{}\" element_type=\"{}\"/><output>{}</output></layer>",
            dims.join(","),
            names(dt).0,
            port(0, dt, shape)
        )
    };
    let Workload { data_type, data, index_type, indices, .. } = *workload;
    let (indices, output) = (with_an_axis(indices), with_an_axis(output));
    let mut layers = parameter(0, "data", data_type, data);
    layers += &parameter(1, "indices", index_type, indices);
    let mut inputs = port(0, data_type, data) + &port(1, index_type, indices);
    let mut edges = String::from(
        "<edge from-layer=\"0\" from-port=\"0\" to-layer=\"3\" to-port=\"0\"/>\
         <edge from-layer=\"1\" from-port=\"0\" to-layer=\"3\" to-port=\"1\"/>\
         <edge from-layer=\"3\" from-port=\"9\" to-layer=\"4\" to-port=\"0\"/>",
    );
    let (op_type, batch_dims) = match workload.operator {
        Operator::Gather { batch_dims, .. } => {
            layers += &format!(
                "<layer id=\"2\" name=\"axis\" type=\"Const\" version=\"opset1\">\
                 <data element_type=\"i64\" shape=\"\" offset=\"0\" size=\"8\"/>\
                 <output>{}</output></layer>",
                port(0, DatumType::I64, &[])
            );
            inputs += &port(2, DatumType::I64, &[]);
            edges += "<edge from-layer=\"2\" from-port=\"0\" to-layer=\"3\" to-port=\"2\"/>";
            ("Gather", batch_dims)
        }
        Operator::GatherNd { batch_dims } => ("GatherND", batch_dims),
    };
    layers += &format!(
        "<layer id=\"3\" name=\"gather\" type=\"{op_type}\" version=\"opset8\">\
         <data batch_dims=\"{batch_dims}\"/><input>{inputs}</input><output>{}</output></layer>",
        port(9, data_type, output)
    );
    layers += &format!(
        "<layer id=\"4\" name=\"output\" type=\"Result\" version=\"opset1\">\
         <input>{}</input></layer>",
        port(0, data_type, output)
    );
    format!(
        "<?xml version=\"1.0\"?><net name=\"{}\" version=\"11\"><layers>{layers}</layers>\
         <edges>{edges}</edges></net>",
        workload.name
    )
}

/// The shape with an axis at least: OpenVINO's C interface makes no shapes of rank 0.
pub fn with_an_axis(shape: &[usize]) -> &[usize] {
    if shape.is_empty() { &[1] } else { shape }
}

/// ONNX's GatherND takes no other indices than `i64`.
pub fn onnx_index_type(workload: &Workload) -> DatumType {
    match workload.operator {
        Operator::Gather { .. } => workload.index_type,
        Operator::GatherNd { .. } => DatumType::I64,
    }
}

/// An ONNX model with the standard operator; `None` where ONNX has none that does the same.
pub fn onnx(workload: &Workload) -> Option<Vec<u8>> {
    if workload.half_out_of_range {
        return None;
    }
    let (op_type, attribute, value) = match workload.operator {
        Operator::Gather { axis, batch_dims: 0 } => ("Gather", "axis", axis),
        Operator::Gather { .. } => return None,
        Operator::GatherNd { batch_dims } => ("GatherND", "batch_dims", batch_dims),
    };
    let info = |name: &str, dt: DatumType, shape: Option<&[usize]>| {
        let dim = |size: &usize| Dimension {
            value: Some(dimension::Value::DimValue(*size as i64)),
            ..Dimension::default()
        };
        let shape = shape.map(|shape| TensorShapeProto { dim: shape.iter().map(dim).collect() });
        let tensor = type_proto::Tensor { elem_type: names(dt).2 as i32, shape };
        let r#type = TypeProto { value: Some(Value::TensorType(tensor)), ..TypeProto::default() };
        ValueInfoProto { name: name.into(), r#type: Some(r#type), ..ValueInfoProto::default() }
    };
    let node = NodeProto {
        op_type: op_type.into(),
        input: vec!["data".into(), "indices".into()],
        output: vec!["output".into()],
        attribute: vec![AttributeProto {
            name: attribute.into(),
            r#type: attribute_proto::AttributeType::Int as i32,
            i: value as i64,
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: workload.name.into(),
        node: vec![node],
        input: vec![
            info("data", workload.data_type, Some(workload.data)),
            info("indices", onnx_index_type(workload), Some(workload.indices)),
        ],
        output: vec![info("output", workload.data_type, None)],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: String::new(), version: 13 };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![opset],
        graph: Some(graph),
        ..ModelProto::default()
    };
    Some(model.encode_to_vec())
}
