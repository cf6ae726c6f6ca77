//! OpenVINO's operations in ONNX models: nodes of the domain `org.openvinotoolkit`.
//!
//! A node becomes a layer, as a document has it, and is translated by the functions of the registry. The gathers are those of
//! [`tract_openvino`], which adds the builder of the other op types to tract's register.

mod attributes;
mod forms;
mod node;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use tract_core::internal::*;
use tract_openvino::internal::{OperatorSet, add_operator, operator_set};
use tract_openvino::tract_onnx::Onnx;
use tract_openvino::tract_onnx::model::ParsingContext;
use tract_openvino::tract_onnx::pb::tensor_shape_proto::dimension::Value as Size;
use tract_openvino::tract_onnx::pb::type_proto::Value as ValueType;
use tract_openvino::tract_onnx::pb::{NodeProto, TypeProto, ValueInfoProto};
use tract_openvino::tract_onnx::tract_hir::internal::InferenceOp;
use tract_openvino::{DOMAIN, OpenVinoOptions, WithOpenVinoOptions};

use self::node::{OpenVinoNode, Output};
use crate::context::Options;
use crate::document::{ElementType, Layer, Port};
use crate::registry::{NEWEST, Registry};
use crate::translate::Alone;
use crate::translators::all_operations;
use crate::weights::{Weights, datum_type};
use crate::with_openvino_ir::WithOpenVinoIr;

/// The operations, and the forms of nodes that OpenVINO's reader of ONNX has, which are of the operation set [`DOMAIN`].
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut registry = all_operations();
    forms::register(&mut registry);
    registry
});

/// What IR has, and nodes cannot be.
const REFUSED: [(&str, &str); 10] = [
    ("Assign", VARIABLE),
    ("BinaryConvolution", "its filters are of type u1, which ONNX does not have"),
    ("Const", "constants are initializers, or nodes of the standard domain"),
    ("Constant", "constants are initializers, or nodes of the standard domain"),
    ("If", BODY),
    ("Loop", BODY),
    ("Parameter", "inputs are those of the graph"),
    ("ReadValue", VARIABLE),
    ("Result", "outputs are those of the graph"),
    ("TensorIterator", BODY),
];

const BODY: &str =
    "it has a body, and only nodes of the standard domain can have graphs: use its If or Scan";
const VARIABLE: &str = "tract's ONNX models have no variables from run to run";

impl WithOpenVinoIr for Onnx {
    fn enable_openvino_ir(&mut self) {
        self.enable_openvino_with(OpenVinoOptions::of(self));
        for (op_type, _) in REGISTRY.operations() {
            add_operator(self, op_type, build);
        }
        for op_type in forms::names() {
            add_operator(self, op_type, build);
        }
        for (op_type, _) in REFUSED {
            add_operator(self, op_type, build);
        }
    }
}

/// Builds a node of [`DOMAIN`].
fn build(
    ctx: &ParsingContext,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    if let Some((name, reason)) = REFUSED.iter().find(|(name, _)| *name == node.op_type) {
        bail!("{name} of domain {DOMAIN} is not supported: {reason}")
    }
    let layer = layer(ctx, node)?;
    let options = Options {
        negative_indices: OpenVinoOptions::of(ctx.framework).negative_indices,
        ..Options::default()
    };
    let named = (0..node.output.len()).filter(|number| !node.output[*number].is_empty());
    let outputs: Vec<Output> = named
        .map(|number| Output { number, integer: integer_type(ctx, node, &layer, number) })
        .collect();
    let absent = Weights::absent("an ONNX model has no weights of IR");
    let mut alone = Alone::new(layer, REGISTRY.clone(), options, absent);
    // Types of outputs need not be stated.
    alone.folds = false;
    let scope = ctx.template.symbols.clone();
    Ok((OpenVinoNode::new(alone, scope, outputs).into(), vec![]))
}

/// A node as a document would have it.
fn layer(ctx: &ParsingContext, node: &NodeProto) -> TractResult<Layer> {
    let name = Some(&node.name).filter(|name| !name.is_empty());
    let name = name.or(node.output.iter().find(|name| !name.is_empty()));
    let (opset, of_model) = match operator_set(ctx, node)? {
        Some(OperatorSet::OfNode(opset)) => (format!("opset{opset}"), None),
        _ if forms::names().any(|form| form == node.op_type) => (DOMAIN.into(), None),
        Some(OperatorSet::OfModel(opset)) => (format!("opset{opset}"), Some(opset)),
        None => {
            let opset = format!("opset{NEWEST}");
            log::warn!(
                "node {:?} is of domain {DOMAIN}, which the model does not import: it is read as {} of {opset}",
                node.name,
                node.op_type
            );
            (opset, None)
        }
    };
    let layer = Layer {
        name: name.cloned().unwrap_or_default(),
        operation: node.op_type.clone(),
        opset,
        attributes: attributes::attributes(node).with_context(|| format!("in {}", node.op_type))?,
        outputs: node.output.iter().enumerate().map(|(id, name)| port(ctx, id, name)).collect(),
        ..Layer::default()
    };
    if let Err(reason) = REGISTRY.find(&layer) {
        let error = format_err!("{reason}");
        return Err(match of_model {
            Some(opset) => {
                error.context(format!("the model imports domain {DOMAIN} in version {opset}"))
            }
            None => error,
        });
    }
    if let Some(input) = node.input.iter().position(String::is_empty)
        && let Some(given) = node.input[input..].iter().position(|name| !name.is_empty())
    {
        bail!(
            "{}: input {input} is left out, but input {} after it is not",
            node.op_type,
            input + given
        )
    }
    Ok(layer)
}

/// The type that an output has if it is sizes, unless these may be expressions. tract has no other types for such integers than
/// i64, and computes some expressions where they are outputs of a model only if they are cast.
fn integer_type(
    ctx: &ParsingContext,
    node: &NodeProto,
    layer: &Layer,
    number: usize,
) -> Option<DatumType> {
    let dt = datum_type(layer.outputs[number].element_type?).filter(|dt| dt.is_integer())?;
    let name = &node.output[number];
    let graph = ctx.parent_graphs.last()?;
    let is_used = || graph.node.iter().any(|node| node.input.contains(name));
    let is_output = graph.output.iter().any(|output| output.name == *name);
    (dt != DatumType::I64 || is_output && !is_used()).then_some(dt)
}

/// An output, with what the model says of it. That is seldom anything, and need not be.
fn port(ctx: &ParsingContext, id: usize, name: &str) -> Port {
    let declared = ctx.parent_graphs.last().and_then(|graph| {
        let infos = graph.value_info.iter().filter(|_| !ctx.framework.ignore_value_info);
        let is_it = |info: &&ValueInfoProto| !name.is_empty() && info.name == name;
        graph.output.iter().chain(infos).find(is_it)
    });
    let declared = declared.and_then(|info| info.r#type.as_ref()).and_then(tensor_type);
    let (element_type, dims) = declared.unwrap_or_default();
    Port { id: id as u64, element_type, names: vec![], dims, layout: None }
}

fn tensor_type(declared: &TypeProto) -> Option<(Option<ElementType>, Vec<Option<usize>>)> {
    let ValueType::TensorType(tensor) = declared.value.as_ref()?;
    let dims = tensor.shape.iter().flat_map(|shape| &shape.dim);
    let size = |value: &Size| match value {
        Size::DimValue(size) => usize::try_from(*size).ok(),
        Size::DimParam(_) => None,
    };
    let dims = dims.map(|dim| dim.value.as_ref().and_then(size));
    Some((element_type(tensor.elem_type), dims.collect()))
}

/// The element type of a number of ONNX.
fn element_type(number: i32) -> Option<ElementType> {
    use tract_openvino::tract_onnx::pb::tensor_proto::DataType;
    Some(match DataType::try_from(number).ok()? {
        DataType::Float => ElementType::F32,
        DataType::Uint8 => ElementType::U8,
        DataType::Int8 => ElementType::I8,
        DataType::Uint16 => ElementType::U16,
        DataType::Int16 => ElementType::I16,
        DataType::Int32 => ElementType::I32,
        DataType::Int64 => ElementType::I64,
        DataType::String => ElementType::String,
        DataType::Bool => ElementType::Boolean,
        DataType::Float16 => ElementType::F16,
        DataType::Double => ElementType::F64,
        DataType::Uint32 => ElementType::U32,
        DataType::Uint64 => ElementType::U64,
        _ => return None,
    })
}
