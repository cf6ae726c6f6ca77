//! The error for operations that the reader does not have.

use std::collections::BTreeMap;
use std::fmt;

use tract_core::internal::*;

use crate::document::{Graph, Layer};
use crate::registry::Registry;
use crate::shortened::shortened_text;

/// The error for a model with operations that the reader does not have: all of them.
///
/// `error.downcast_ref::<UnsupportedOperations>()` finds it in a `TractError`, whatever context it has:
///
/// ```
/// use tract_openvino_ir::{UnsupportedOperations, ir};
///
/// let xml = r#"<net name="net" version="11">
///     <layers>
///         <layer id="0" name="x" type="Parameter" version="opset1">
///             <data shape="2" element_type="f32"/>
///             <output><port id="0"/></output>
///         </layer>
///         <layer id="1" name="y" type="Transmogrify" version="opset1">
///             <input><port id="0"/></input>
///             <output><port id="1"/></output>
///         </layer>
///         <layer id="2" name="z" type="Result" version="opset1"><input><port id="0"/></input></layer>
///     </layers>
///     <edges>
///         <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
///         <edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
///     </edges>
/// </net>"#;
/// let error = ir().model_for_bytes(xml.as_bytes(), []).unwrap_err();
/// let missing = error.downcast_ref::<UnsupportedOperations>().unwrap();
/// assert_eq!(missing.operations[0].operation, "Transmogrify");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsupportedOperations {
    /// The operations.
    pub operations: Vec<UnsupportedOperation>,
}

/// An operation of a model that the reader does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsupportedOperation {
    /// The type of the operation, like `Convolution`.
    pub operation: String,
    /// The operation set that the first layer names, like `opset8`.
    pub opset: String,
    /// The first layer, as errors name it.
    pub first: String,
    /// The number of layers.
    pub layers: usize,
    /// Why the reader does not have it.
    pub reason: String,
}

impl UnsupportedOperations {
    /// Fails if the registry lacks operations of a graph or of the bodies in it.
    pub(crate) fn refuse(registry: &Registry, graph: &Graph) -> TractResult<()> {
        let mut unknown: BTreeMap<String, (usize, &Layer)> = BTreeMap::new();
        let mut graphs = vec![graph];
        while let Some(graph) = graphs.pop() {
            for layer in &graph.layers {
                if !["Parameter", "Result", "Constant"].contains(&&*layer.operation)
                    && let Err(reason) = registry.find(layer)
                {
                    unknown.entry(reason).or_insert((0, layer)).0 += 1;
                }
                graphs.extend(layer.bodies.iter().map(|body| &body.graph));
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let operations =
            unknown.into_iter().map(|(reason, (layers, first))| UnsupportedOperation {
                operation: first.operation.clone(),
                opset: first.opset.clone(),
                first: first.to_string(),
                layers,
                reason,
            });
        Err(UnsupportedOperations { operations: operations.collect() }.into())
    }
}

impl fmt::Display for UnsupportedOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: Vec<String> = self.operations.iter().map(|it| it.to_string()).collect();
        let text =
            format!("the model has operations that cannot be read: {}", operations.join("; "));
        // A text that is to be shortened later would no longer be of this type.
        f.write_str(&shortened_text(&text))
    }
}

impl fmt::Display for UnsupportedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, first, layers, .. } = self;
        match layers {
            1 => write!(f, "{reason} ({first})"),
            _ => write!(f, "{reason} ({layers} layers, the first is {first})"),
        }
    }
}

impl std::error::Error for UnsupportedOperations {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shortened::shortened;

    #[test]
    fn a_long_list_is_shortened_and_still_of_this_type() {
        let layer = |number: usize| Layer {
            operation: format!("Unknown{}", number / 2),
            opset: "opset1".into(),
            ..Layer::default()
        };
        let graph = Graph { layers: (0..400).map(layer).collect(), ..Graph::default() };
        let error = UnsupportedOperations::refuse(crate::ir().registry(), &graph).unwrap_err();
        let error = shortened(error.context("in a file"));
        assert!(format!("{error:#}").contains("bytes left out"), "{error:#}");
        let missing = error.downcast_ref::<UnsupportedOperations>().unwrap();
        assert_eq!(missing.operations.len(), 200);
        assert!(missing.operations.iter().all(|operation| operation.layers == 2));
    }
}
