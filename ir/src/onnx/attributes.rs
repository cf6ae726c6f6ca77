//! The attributes of a node, as texts: what those of a layer are in a document.

use std::collections::BTreeMap;

use tract_core::internal::*;
use tract_openvino::tract_onnx::pb::attribute_proto::AttributeType;
use tract_openvino::tract_onnx::pb::{AttributeProto, NodeProto};

/// The attribute that says which operation set a node is of.
const VERSION: &str = "version";

/// The attributes of a node but for its operation set.
///
/// # Errors
///
/// One is there twice, or is none that has a text: a tensor, a graph, a reference.
pub(super) fn attributes(node: &NodeProto) -> TractResult<BTreeMap<String, String>> {
    let mut attributes = BTreeMap::new();
    for attribute in node.attribute.iter().filter(|it| it.name != VERSION) {
        let text = text(attribute)?;
        let twice = attributes.insert(attribute.name.clone(), text).is_some();
        ensure!(!twice, "attribute {} is there twice", attribute.name);
    }
    Ok(attributes)
}

fn text(attribute: &AttributeProto) -> TractResult<String> {
    let name = &attribute.name;
    let utf8 = |bytes: &[u8]| -> TractResult<String> {
        let text = std::str::from_utf8(bytes);
        Ok(text.with_context(|| format!("attribute {name} is not text in UTF-8"))?.into())
    };
    ensure!(
        attribute.ref_attr_name.is_empty(),
        "attribute {name} is that of a function ({:?}), but must have a value of its own",
        attribute.ref_attr_name
    );
    let kind = AttributeType::try_from(attribute.r#type);
    Ok(match kind {
        Ok(AttributeType::Int) => attribute.i.to_string(),
        Ok(AttributeType::Float) => float(attribute.f),
        Ok(AttributeType::String) => utf8(&attribute.s)?,
        Ok(AttributeType::Ints) => list(attribute.ints.iter().map(i64::to_string)),
        Ok(AttributeType::Floats) => list(attribute.floats.iter().copied().map(float)),
        Ok(AttributeType::Strings) => {
            let texts = attribute.strings.iter().map(|text| utf8(text));
            let texts: Vec<String> = texts.collect::<TractResult<_>>()?;
            if let Some(text) = texts.iter().find(|text| text.contains(',')) {
                bail!("attribute {name} has {text:?}, but texts of a list must have no comma")
            }
            list(texts.into_iter())
        }
        kind => {
            let what = match kind {
                Ok(AttributeType::Graph | AttributeType::Graphs) => "a graph",
                Ok(AttributeType::Tensor | AttributeType::Tensors) => "a tensor",
                Ok(AttributeType::SparseTensor | AttributeType::SparseTensors) => "a sparse tensor",
                Ok(AttributeType::TypeProto | AttributeType::TypeProtos) => "a type",
                _ => "of no type",
            };
            bail!(
                "attribute {name} is {what}, but must be an integer, a float, a string, or a list of these"
            )
        }
    })
}

/// The very number, as OpenVINO has it where it computes in double precision. It has a point, so that it is no integer.
fn float(number: f32) -> String {
    format!("{:?}", f64::from(number))
}

fn list(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_the_very_numbers() {
        for number in [0.1f32, 1e-5, 1e30, -2., f32::INFINITY] {
            let text = float(number);
            assert_eq!(text.parse(), Ok(number));
            assert_eq!(text.parse(), Ok(f64::from(number)));
            assert_eq!(text.parse::<i64>().ok(), None, "{text}");
        }
    }
}
