//! IR as ONNX: each layer is a node of OpenVINO's domain.

use tract_openvino_ir::document::{ElementType, Layer, PartialShape, Port, Source};
use tract_openvino_ir::tract_openvino::DOMAIN;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::attribute_proto::AttributeType;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::tensor_proto::DataType;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::tensor_shape_proto::dimension::Value as Size;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::type_proto::{Tensor as TensorType, Value};
use tract_openvino_ir::tract_openvino::tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto,
};
use tract_openvino_ir::{IrProtoModel, ir};

/// The ONNX model of a document, or why there is none.
pub fn to_onnx(proto: &IrProtoModel, weights: &[u8]) -> Result<ModelProto, String> {
    let document = proto.document.graph();
    let mut graph = GraphProto { name: "graph".into(), ..GraphProto::default() };
    let name = |source: Source| format!("{}:{}", source.layer, source.output);
    for (number, layer) in document.layers.iter().enumerate() {
        let output = |output: usize| format!("{number}:{output}");
        let inputs = || layer.inputs.iter().map(|source| name(*source));
        match &*layer.operation {
            "Parameter" => {
                let shape = PartialShape::parse(&layer.attributes["shape"]);
                let shape = shape.map_err(|_| "a rank that is open")?;
                let sizes = shape.dims().iter().enumerate().map(|(axis, dim)| match dim.size() {
                    Some(size) => Size::DimValue(size as i64),
                    None => Size::DimParam(format!("{}_{axis}", input_name(layer))),
                });
                let element_type = attribute_type(layer)?;
                graph.input.push(info(output(0), element_type, Some(sizes.map(Some).collect())));
            }
            "Constant" => graph.initializer.push(constant(layer, output(0), weights)?),
            "Result" => {
                let source = layer.inputs[0];
                let (element_type, sizes) = declared(document.output(source))?;
                // Where other layers need sizes, tract has them as expressions. Where an output alone does, they are integers.
                let uses = document.layers.iter().flat_map(|layer| &layer.inputs);
                let operation = &document.layers[source.layer].operation;
                // (And those of the gathers, which are of the other crate.)
                let others = ["Parameter", "Constant", "Gather", "GatherND"];
                let is_layer = !others.contains(&&**operation);
                if is_layer && uses.filter(|other| **other == source).count() == 1 {
                    graph.output.push(info(name(source), element_type, Some(sizes)));
                    continue;
                }
                graph.node.push(NodeProto {
                    domain: DOMAIN.into(),
                    op_type: "Identity".into(),
                    input: inputs().collect(),
                    output: vec![output(0)],
                    attribute: vec![string("version", "opset16")],
                    ..NodeProto::default()
                });
                graph.output.push(info(output(0), element_type, Some(sizes)));
            }
            "Assign" | "ReadValue" => return Err("variables".into()),
            _ if !layer.bodies.is_empty() => return Err("bodies".into()),
            _ => {
                layer.outputs.iter().try_for_each(|port| declared(port).map(|_| ()))?;
                // Files may spell types in lower case, and have another name for a set.
                let operations = ir().registry().operations();
                let is_it = |name: &&str| name.eq_ignore_ascii_case(&layer.operation);
                let operation = operations.iter().map(|(name, _)| *name).find(is_it);
                let operation = operation.ok_or("operations of the user")?;
                let opset = if layer.opset.starts_with("opset") { &layer.opset } else { "opset6" };
                let attributes = layer.attributes.iter().map(|(name, text)| attribute(name, text));
                let version = string("version", opset);
                graph.node.push(NodeProto {
                    name: layer.name.clone(),
                    domain: DOMAIN.into(),
                    op_type: operation.into(),
                    input: inputs().collect(),
                    output: (0..layer.outputs.len()).map(output).collect(),
                    attribute: attributes.chain([version]).collect(),
                    ..NodeProto::default()
                });
            }
        }
    }
    let import = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    Ok(ModelProto {
        ir_version: 8,
        opset_import: vec![import("", 17), import(DOMAIN, 1)],
        graph: Some(graph),
        ..ModelProto::default()
    })
}

/// Has the model state the types and shapes of all outputs of nodes, as the document does.
pub fn state_outputs(model: &mut ModelProto, proto: &IrProtoModel) {
    let layers = proto.document.graph().layers.iter().enumerate();
    let infos =
        layers.filter(|(_, layer)| layer.operation != "Parameter").flat_map(|(number, layer)| {
            layer.outputs.iter().enumerate().filter_map(move |(output, port)| {
                let (element_type, sizes) = declared(port).ok()?;
                Some(info(format!("{number}:{output}"), element_type, Some(sizes)))
            })
        });
    model.graph.as_mut().expect("there is one").value_info = infos.collect();
}

/// Gives each dimension of each input a name of its own.
pub fn name_dimensions(model: &mut ModelProto) {
    for input in &mut model.graph.as_mut().expect("there is one").input {
        let Some(Value::TensorType(tensor)) =
            input.r#type.as_mut().and_then(|it| it.value.as_mut())
        else {
            continue;
        };
        let dims = tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim).enumerate();
        for (axis, dim) in dims {
            let name: String = input.name.chars().filter(char::is_ascii_alphanumeric).collect();
            dim.value = Some(Size::DimParam(format!("x{name}_{axis}")));
        }
    }
}

fn input_name(layer: &Layer) -> String {
    layer.name.chars().filter(|letter| letter.is_ascii_alphanumeric()).collect()
}

fn declared(port: &Port) -> Result<(DataType, Vec<Option<Size>>), String> {
    let element_type = port.element_type.ok_or("outputs without types")?;
    let sizes = port.dims.iter().map(|size| size.map(|size| Size::DimValue(size as i64)));
    Ok((data_type(element_type)?, sizes.collect()))
}

fn attribute_type(layer: &Layer) -> Result<DataType, String> {
    let text = &layer.attributes["element_type"];
    data_type(ElementType::from_text(text).ok_or("an unknown type")?)
}

fn data_type(element_type: ElementType) -> Result<DataType, String> {
    Ok(match element_type {
        ElementType::F16 => DataType::Float16,
        ElementType::F32 => DataType::Float,
        ElementType::F64 => DataType::Double,
        ElementType::I8 => DataType::Int8,
        ElementType::I16 => DataType::Int16,
        ElementType::I32 => DataType::Int32,
        ElementType::I64 => DataType::Int64,
        ElementType::U8 => DataType::Uint8,
        ElementType::U16 => DataType::Uint16,
        ElementType::U32 => DataType::Uint32,
        ElementType::U64 => DataType::Uint64,
        ElementType::Boolean => DataType::Bool,
        ElementType::String => DataType::String,
        other => return Err(format!("type {other}")),
    })
}

fn info(name: String, data_type: DataType, sizes: Option<Vec<Option<Size>>>) -> ValueInfoProto {
    let dim = |value| Dimension { value, ..Dimension::default() };
    let shape = sizes.map(|sizes| TensorShapeProto { dim: sizes.into_iter().map(dim).collect() });
    let tensor = TensorType { elem_type: data_type as i32, shape };
    let r#type = TypeProto { value: Some(Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name, r#type: Some(r#type), ..ValueInfoProto::default() }
}

fn constant(layer: &Layer, name: String, weights: &[u8]) -> Result<TensorProto, String> {
    let text = |name: &str| &layer.attributes[name];
    let number = |name: &str| text(name).parse::<usize>().expect("the reader has read it");
    let shape = PartialShape::parse(text("shape")).expect("the reader has read it");
    let dims = shape.dims().iter().map(|dim| dim.size().expect("a constant's") as i64).collect();
    let data_type = attribute_type(layer)?;
    let mut bytes = weights[number("offset")..][..number("size")].to_vec();
    let mut proto =
        TensorProto { name, dims, data_type: data_type as i32, ..TensorProto::default() };
    match data_type {
        DataType::String => {
            let number = |index: usize| {
                u32::from_le_bytes(bytes[4 * index..][..4].try_into().expect("4 bytes")) as usize
            };
            let content = &bytes[4 * (number(0) + 2)..];
            proto.string_data = (1..=number(0))
                .map(|index| content[number(index)..number(index + 1)].to_vec())
                .collect();
        }
        _ => {
            let size = match data_type {
                DataType::Bool | DataType::Int8 | DataType::Uint8 => 1,
                DataType::Float16 | DataType::Int16 | DataType::Uint16 => 2,
                DataType::Double | DataType::Int64 | DataType::Uint64 => 8,
                _ => 4,
            };
            // A file has a byte of a constant without elements. And one element may stand for all.
            let elements = proto.dims.iter().product::<i64>() as usize;
            if bytes.len() == size && elements > 1 {
                bytes = bytes.repeat(elements);
            }
            bytes.truncate(elements * size);
            proto.raw_data = bytes;
        }
    }
    Ok(proto)
}

fn string(name: &str, text: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::String as i32,
        s: text.as_bytes().to_vec(),
        ..AttributeProto::default()
    }
}

/// An attribute with the type that ONNX has for such a text.
fn attribute(name: &str, text: &str) -> AttributeProto {
    let of_type = |kind: AttributeType| AttributeProto {
        name: name.into(),
        r#type: kind as i32,
        ..AttributeProto::default()
    };
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    let ints: Option<Vec<i64>> = items.iter().map(|item| item.parse().ok()).collect();
    let floats: Option<Vec<f32>> = items.iter().map(|item| item.parse().ok()).collect();
    match (text, ints, floats) {
        ("true" | "false", ..) => {
            AttributeProto { i: (text == "true").into(), ..of_type(AttributeType::Int) }
        }
        (_, Some(ints), _) if ints.len() == 1 => {
            AttributeProto { i: ints[0], ..of_type(AttributeType::Int) }
        }
        (_, Some(ints), _) => AttributeProto { ints, ..of_type(AttributeType::Ints) },
        (_, _, Some(floats)) if floats.len() == 1 => {
            AttributeProto { f: floats[0], ..of_type(AttributeType::Float) }
        }
        (_, _, Some(floats)) => AttributeProto { floats, ..of_type(AttributeType::Floats) },
        _ if items.len() > 1 => AttributeProto {
            strings: items.iter().map(|item| item.as_bytes().to_vec()).collect(),
            ..of_type(AttributeType::Strings)
        },
        _ => string(name, text),
    }
}
