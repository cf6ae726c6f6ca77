//! ONNX models made in tests.

use tract_openvino::DOMAIN;
use tract_openvino::tract_onnx::pb::tensor_proto::DataType;
use tract_openvino::tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_openvino::tract_onnx::pb::type_proto::{self, Value};
use tract_openvino::tract_onnx::pb::*;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::{WithOpenVino, tract_onnx};

/// A dimension of an input: a number, or a symbol, or unknown (`"?"`).
pub enum Dim {
    Size(usize),
    Symbol(&'static str),
}

impl From<usize> for Dim {
    fn from(size: usize) -> Dim {
        Dim::Size(size)
    }
}

impl From<&'static str> for Dim {
    fn from(symbol: &'static str) -> Dim {
        Dim::Symbol(symbol)
    }
}

pub fn onnx_type(dt: DatumType) -> DataType {
    match dt {
        DatumType::Bool => DataType::Bool,
        DatumType::U8 => DataType::Uint8,
        DatumType::U16 => DataType::Uint16,
        DatumType::U32 => DataType::Uint32,
        DatumType::U64 => DataType::Uint64,
        DatumType::I8 => DataType::Int8,
        DatumType::I16 => DataType::Int16,
        DatumType::I32 => DataType::Int32,
        DatumType::I64 => DataType::Int64,
        DatumType::F16 => DataType::Float16,
        DatumType::F32 => DataType::Float,
        DatumType::F64 => DataType::Double,
        DatumType::String => DataType::String,
        _ => unreachable!("{dt:?} is not an ONNX type"),
    }
}

pub fn input(
    name: &str,
    dt: DatumType,
    shape: impl IntoIterator<Item = impl Into<Dim>>,
) -> ValueInfoProto {
    let dim = |dim: Dim| {
        let value = match dim {
            Dim::Size(size) => dimension::Value::DimValue(size as i64),
            Dim::Symbol(symbol) => dimension::Value::DimParam(symbol.into()),
        };
        Dimension { value: Some(value), ..Dimension::default() }
    };
    let dim = shape.into_iter().map(|it| dim(it.into())).collect();
    let tensor = type_proto::Tensor {
        elem_type: onnx_type(dt) as i32,
        shape: Some(TensorShapeProto { dim }),
    };
    let r#type = TypeProto { value: Some(Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: name.into(), r#type: Some(r#type), ..ValueInfoProto::default() }
}

/// A value of unknown type and shape, as outputs are here.
pub fn output(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.into(), ..ValueInfoProto::default() }
}

pub fn initializer(name: &str, tensor: &Tensor) -> TensorProto {
    let mut proto = TensorProto {
        name: name.into(),
        dims: tensor.shape().iter().map(|dim| *dim as i64).collect(),
        data_type: onnx_type(tensor.datum_type()) as i32,
        ..TensorProto::default()
    };
    if tensor.datum_type() == DatumType::String {
        let strings = tensor.to_plain_array_view::<String>().unwrap();
        proto.string_data = strings.iter().map(|string| string.as_bytes().to_vec()).collect();
    } else {
        proto.raw_data = tensor.as_bytes().to_vec();
    }
    proto
}

pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_proto::AttributeType::Int as i32,
        i: value,
        ..AttributeProto::default()
    }
}

pub fn string(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_proto::AttributeType::String as i32,
        s: value.as_bytes().to_vec(),
        ..AttributeProto::default()
    }
}

pub fn graph(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_proto::AttributeType::Graph as i32,
        g: Some(value),
        ..AttributeProto::default()
    }
}

pub fn node(domain: &str, op_type: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        domain: domain.into(),
        op_type: op_type.into(),
        name: format!("node_{output}"),
        input: inputs.iter().map(|input| input.to_string()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    }
}

pub fn with_attribute(mut node: NodeProto, attribute: AttributeProto) -> NodeProto {
    node.attribute.push(attribute);
    node
}

/// A model that imports the standard domain, and ours in the given version.
pub fn model(opset: Option<i64>, graph: GraphProto) -> ModelProto {
    let mut imports = vec![import("", 18)];
    imports.extend(opset.map(|version| import(DOMAIN, version)));
    ModelProto { ir_version: 9, opset_import: imports, graph: Some(graph), ..ModelProto::default() }
}

pub fn import(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: domain.into(), version }
}

/// One node of ours, `data` and `indices` fed, `axis` an initializer.
pub struct Single {
    pub op_type: &'static str,
    pub opset: i64,
    pub batch_dims: Option<i64>,
    pub data: ValueInfoProto,
    pub indices: ValueInfoProto,
    pub axis: Option<Tensor>,
}

impl Single {
    pub fn proto(&self) -> ModelProto {
        let mut node = node(DOMAIN, self.op_type, &["data", "indices"], "output");
        let mut initializers = vec![];
        if let Some(axis) = &self.axis {
            node.input.push("axis".into());
            initializers.push(initializer("axis", axis));
        }
        node.attribute.extend(self.batch_dims.map(|value| int("batch_dims", value)));
        let graph = GraphProto {
            node: vec![node],
            input: vec![self.data.clone(), self.indices.clone()],
            output: vec![output("output")],
            initializer: initializers,
            ..GraphProto::default()
        };
        model(Some(self.opset), graph)
    }
}

pub fn gather(
    opset: i64,
    batch_dims: impl Into<Option<i64>>,
    axis: Tensor,
    data: ValueInfoProto,
    indices: ValueInfoProto,
) -> ModelProto {
    let batch_dims = batch_dims.into();
    Single { op_type: "Gather", opset, batch_dims, data, indices, axis: Some(axis) }.proto()
}

pub fn gather_nd(
    opset: i64,
    batch_dims: impl Into<Option<i64>>,
    data: ValueInfoProto,
    indices: ValueInfoProto,
) -> ModelProto {
    let batch_dims = batch_dims.into();
    Single { op_type: "GatherND", opset, batch_dims, data, indices, axis: None }.proto()
}

/// Turns an input into an initializer.
pub fn make_constant(model: &mut ModelProto, input: &str, tensor: &Tensor) {
    let graph = model.graph.as_mut().unwrap();
    graph.input.retain(|it| it.name != input);
    graph.initializer.push(initializer(input, tensor));
}

/// Reads a model with the crate's operators.
pub fn read(model: &ModelProto) -> TractResult<InferenceModel> {
    tract_onnx::onnx().with_openvino().model_for_proto_model(model)
}

/// Reads and optimises a model and runs it.
pub fn run(model: &ModelProto, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
    let inputs = inputs.iter().cloned().map(TValue::from).collect();
    let outputs = read(model)?.into_optimized()?.into_runnable()?.run(inputs)?;
    Ok(outputs.into_iter().map(|output| output.into_tensor()).collect())
}

/// The error that loading, optimising or running a model gives, with all that stands around it.
pub fn error(model: &ModelProto, inputs: &[Tensor]) -> TractError {
    match run(model, inputs) {
        Ok(outputs) => panic!("no error, but {outputs:?}"),
        Err(error) => error,
    }
}
