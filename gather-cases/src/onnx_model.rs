//! ONNX models made in tests. What a test cannot make is its mistake: there are panics.

use model_cases::tensor_proto;
use tract_openvino::DOMAIN;
use tract_openvino::tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_openvino::tract_onnx::pb::type_proto::{self, Value};
use tract_openvino::tract_onnx::pb::*;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::{WithOpenVino, tract_onnx};

/// A dimension of an input.
pub enum Dim {
    /// A number.
    Size(usize),
    /// An expression, of symbols mostly.
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

/// A value of a type and a shape, as inputs are here.
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
    let tensor =
        type_proto::Tensor { elem_type: element_type(dt), shape: Some(TensorShapeProto { dim }) };
    let r#type = TypeProto { value: Some(Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: name.into(), r#type: Some(r#type), ..ValueInfoProto::default() }
}

/// A value of unknown type and shape, as outputs are here.
pub fn output(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.into(), ..ValueInfoProto::default() }
}

/// The number that ONNX has for an element type.
fn element_type(dt: DatumType) -> i32 {
    let empty = Tensor::zero_dt(dt, &[0]).expect("nothing is allocated");
    tensor_proto("", &empty).expect("ONNX has the type").data_type
}

/// A constant of a graph.
pub fn initializer(name: &str, tensor: &Tensor) -> TensorProto {
    tensor_proto(name, tensor).expect("ONNX has the type")
}

fn attribute(name: &str, kind: attribute_proto::AttributeType) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: kind as i32, ..AttributeProto::default() }
}

/// An attribute that is an integer.
pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: value, ..attribute(name, attribute_proto::AttributeType::Int) }
}

/// An attribute that is a list of integers.
pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        ints: values.to_vec(),
        ..attribute(name, attribute_proto::AttributeType::Ints)
    }
}

/// An attribute that is a text.
pub fn string(name: &str, value: &str) -> AttributeProto {
    let s = value.as_bytes().to_vec();
    AttributeProto { s, ..attribute(name, attribute_proto::AttributeType::String) }
}

/// An attribute that is a tensor.
pub fn tensor(name: &str, value: &Tensor) -> AttributeProto {
    let t = Some(initializer("", value));
    AttributeProto { t, ..attribute(name, attribute_proto::AttributeType::Tensor) }
}

/// An attribute that is a graph.
pub fn graph(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(value), ..attribute(name, attribute_proto::AttributeType::Graph) }
}

/// A node of one output, without attributes; it is named after the output.
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

/// A node with an attribute more.
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

/// An import of an operator set.
pub fn import(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: domain.into(), version }
}

/// One node of ours, `data` and `indices` fed, `axis` an initializer.
pub struct Single {
    /// The operator.
    pub op_type: &'static str,
    /// The version of our domain that the model imports.
    pub opset: i64,
    /// The attribute, if there is one.
    pub batch_dims: Option<i64>,
    /// The first input.
    pub data: ValueInfoProto,
    /// The second input.
    pub indices: ValueInfoProto,
    /// The third input, if there is one.
    pub axis: Option<Tensor>,
}

impl Single {
    /// The model.
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

/// A Gather, by the operator set.
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

/// A GatherND, by the operator set.
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
