//! What an IR file says, checked, and without tract's types: layers, ports, edges and bodies.
//!
//! [`Document::parse`] reads the XML. These hold for what it gives:
//! - ids are unique;
//! - each edge leads from an output to an input, and both exist;
//! - no input is connected twice;
//! - each layer comes after those that it takes from, so that none depends on itself.

mod element_type;
mod ids;
mod markup;
mod order;
mod partial_shape;
mod xml;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, bail, ensure};

pub use element_type::ElementType;
pub use partial_shape::{Dimension, PartialShape};

/// A model file: `<net>`.
#[derive(Debug, Clone)]
pub struct Document {
    name: String,
    version: u32,
    graph: Graph,
}

impl Document {
    /// The network's name, as the file has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of the format: 10 or 11.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The layers.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Makes an output of a layer one more output of the model, like OpenVINO's `add_output`: after those that it has, with
    /// this name. `layer` is a position in [`Graph::layers`], `output` one in [`Layer::outputs`].
    ///
    /// ```
    /// use tract_openvino_ir::prelude::*;
    ///
    /// # fn main() -> TractResult<()> {
    /// let reader = ir();
    /// let mut proto = reader.proto_model_for_path("models/networks/ocr_cls/model.xml")?;
    /// let layers = &proto.document.graph().layers;
    /// let layer = layers.iter().position(|layer| layer.operation == "Convolution").unwrap();
    /// proto.document.add_output(layer, 0, "first convolution");
    /// let model = reader.model_for_proto_model(&proto)?;
    /// assert_eq!(model.output_outlets()?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such output.
    pub fn add_output(&mut self, layer: usize, output: usize, name: impl Into<String>) {
        let Graph { layers, results, .. } = &mut self.graph;
        assert!(output < layers[layer].outputs.len(), "{} has no output {output}", layers[layer]);
        let id = layers.iter().filter_map(|layer| layer.id).max();
        let id = Some(id.map_or(0, |id| id.wrapping_add(1)));
        let name = name.into();
        results.push(layers.len());
        layers.push(Layer {
            id,
            name: name.clone(),
            operation: "Result".into(),
            opset: "opset1".into(),
            inputs: vec![Source { layer, output }],
            output_names: vec![name],
            ..Layer::default()
        });
    }

    /// Gives an input another shape than the file has, like OpenVINO's `reshape`: any, where
    /// [`with_input_shape`](crate::Ir::with_input_shape) takes one that the file allows.
    ///
    /// ```
    /// use tract_openvino_ir::document::PartialShape;
    /// use tract_openvino_ir::prelude::*;
    ///
    /// # fn main() -> TractResult<()> {
    /// let reader = ir();
    /// let mut proto = reader.proto_model_for_path("models/networks/unet/model.xml")?;
    /// proto.document.set_input_shape(0, &PartialShape::parse("2,3,16..64,32")?);
    /// let model = reader.model_for_proto_model(&proto)?;
    /// assert_eq!(model.input_fact(0)?.shape[3], 32.to_dim());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If there are not so many inputs.
    pub fn set_input_shape(&mut self, input: usize, shape: &PartialShape) {
        let layer = &mut self.graph.layers[self.graph.parameters[input]];
        layer.attributes.insert("shape".into(), shape.to_string());
    }

    /// Makes these the outputs of the model in place of its own, in this order: outputs by a name of theirs, tensors by one of their
    /// names, or layers (`name`, or `name:1` for the second output of a layer with several). What none of them needs is left out, but
    /// for what gives variables their values.
    ///
    /// # Errors
    ///
    /// There is none of a name, or several layers have it.
    pub fn select_outputs<T: AsRef<str>>(&mut self, names: &[T]) -> Result<()> {
        let graph = &self.graph;
        let sources = names.iter().map(|name| graph.source_by_name(name.as_ref()));
        let sources = sources.collect::<Result<Vec<Source>>>()?;
        for result in std::mem::take(&mut self.graph.results) {
            // No result any more: nothing needs it, and it is left out.
            self.graph.layers[result].operation.clear();
        }
        for (name, source) in names.iter().zip(sources) {
            self.add_output(source.layer, source.output, name.as_ref());
        }
        self.graph = order::graph(std::mem::take(&mut self.graph.layers))?;
        Ok(())
    }
}

/// Layers and the edges between them: a network, or a body of a layer of control flow.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Graph {
    /// The layers, each after those that it takes from. A layer is left out if no result and no variable
    /// depends on it, unless it is a parameter.
    pub layers: Vec<Layer>,
    /// The positions of the parameters in `layers`, in the file's order: the inputs.
    pub parameters: Vec<usize>,
    /// The positions of the results in `layers`, in the file's order: the outputs.
    pub results: Vec<usize>,
    /// The positions of the layers that give a variable its new value (`Assign`).
    pub sinks: Vec<usize>,
}

/// One layer.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Layer {
    /// Its id, which edges name. `None` if it is of no document, but a node of an ONNX model.
    pub id: Option<u64>,
    /// Its name. Names need not be unique.
    pub name: String,
    /// The type of its operation, like `Convolution`.
    pub operation: String,
    /// The operation set that its type is to be looked up in, like `opset8`.
    pub opset: String,
    /// The attributes of its `<data>`, as text.
    pub attributes: BTreeMap<String, String>,
    /// Where its inputs come from, by position. Inputs after the last one that is connected are left out.
    pub inputs: Vec<Source>,
    /// Its outputs, by position.
    pub outputs: Vec<Port>,
    /// The names that a `Result` gives to the output of the model.
    pub output_names: Vec<String>,
    /// The bodies of a layer of control flow.
    pub bodies: Vec<Body>,
}

/// An output of a layer, as where an input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Source {
    /// The position of the layer in [`Graph::layers`].
    pub layer: usize,
    /// The position among its outputs.
    pub output: usize,
}

/// An output port.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Port {
    /// Its id, unique in the layer.
    pub id: u64,
    /// The type of its elements, where the file says one.
    pub element_type: Option<ElementType>,
    /// The names of the tensor.
    pub names: Vec<String>,
    /// The sizes that the file states, `None` for one that is open. They are a hint only: a tensor of unknown
    /// rank looks like a scalar here.
    pub dims: Vec<Option<usize>>,
    /// The layout of the tensor, as OpenVINO writes it (`[N,C,H,W]`). Only inputs and outputs of a model have one.
    pub layout: Option<String>,
}

/// A body of `If`, `Loop` or `TensorIterator`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Body {
    /// Which of the layer's bodies it is.
    pub role: BodyRole,
    /// Its layers.
    pub graph: Graph,
    /// How the layer's inputs become the body's.
    pub inputs: Vec<PortMap>,
    /// How the body's outputs become the layer's.
    pub outputs: Vec<PortMap>,
    /// Which results are parameters of the next iteration.
    pub back_edges: Vec<BackEdge>,
}

/// Which body of a layer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyRole {
    /// What `Loop` and `TensorIterator` repeat.
    Iteration,
    /// What `If` runs for true.
    Then,
    /// What `If` runs for false.
    Else,
}

/// An entry of a `port_map`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PortMap {
    /// The position among the inputs or outputs of the layer; `None` where the body's parameter or result is
    /// for the iteration itself (`external_port_id="-1"`).
    pub external: Option<usize>,
    /// The position among the parameters or results of the body.
    pub internal: usize,
    /// `axis`, `start`, `end`, `stride`, `part_size` and `purpose`, as text.
    pub attributes: BTreeMap<String, String>,
}

/// An edge from an iteration to the next.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct BackEdge {
    /// The position among the results of the body.
    pub result: usize,
    /// The position among its parameters.
    pub parameter: usize,
}

impl Graph {
    /// The output that a source is.
    ///
    /// # Panics
    ///
    /// If the source is of another graph.
    pub fn output(&self, source: Source) -> &Port {
        &self.layers[source.layer].outputs[source.output]
    }

    /// The names of an input: those of its tensor, or that of its layer.
    ///
    /// # Panics
    ///
    /// If there are not so many inputs.
    pub fn input_names(&self, input: usize) -> Vec<String> {
        let layer = &self.layers[self.parameters[input]];
        match layer.outputs.first() {
            Some(port) if !port.names.is_empty() => port.names.clone(),
            _ => vec![layer.name.clone()],
        }
    }

    /// The names of an output: those that its `Result` states, or those of its tensor, or that of the layer
    /// that computes it. If that layer has several outputs, the number of the output follows its name.
    ///
    /// # Panics
    ///
    /// If there are not so many outputs.
    pub fn output_names(&self, output: usize) -> Vec<String> {
        let result = &self.layers[self.results[output]];
        if !result.output_names.is_empty() {
            return result.output_names.clone();
        }
        let port = result.inputs.first().map(|source| self.output(*source));
        match port {
            Some(port) if !port.names.is_empty() => port.names.clone(),
            _ => vec![self.output_name(output).into_owned()],
        }
    }

    /// The first of the names of an output. Many outputs may have one tensor, and that many names.
    pub(crate) fn output_name(&self, output: usize) -> Cow<'_, str> {
        let result = &self.layers[self.results[output]];
        if let Some(name) = result.output_names.first() {
            return name.into();
        }
        let Some(&source) = result.inputs.first() else { return (&result.name).into() };
        let producer = &self.layers[source.layer];
        match (self.output(source).names.first(), producer.outputs.len()) {
            (Some(name), _) => name.into(),
            (None, 1) => (&producer.name).into(),
            (None, _) => format!("{}.{}", producer.name, source.output).into(),
        }
    }

    /// What goes by a name: an output of the model, a tensor or a layer.
    fn source_by_name(&self, name: &str) -> Result<Source> {
        if let Some(output) = self.output_by_name(name)
            && let Some(source) = self.layers[self.results[output]].inputs.first()
        {
            return Ok(*source);
        }
        let layers = || self.layers.iter().enumerate();
        let outputs = layers().flat_map(|(layer, it)| {
            (0..it.outputs.len()).map(move |output| Source { layer, output })
        });
        let mut with_name = outputs
            .clone()
            .filter(|source| self.output(*source).names.iter().any(|known| known == name));
        if let Some(source) = with_name.next() {
            return Ok(source);
        }
        let mut of_layers = outputs.filter(|source| {
            let layer = &self.layers[source.layer];
            match name.strip_prefix(&*layer.name) {
                Some("") => source.output == 0,
                Some(rest) => rest.strip_prefix(':') == Some(&source.output.to_string()),
                None => false,
            }
        });
        let Some(source) = of_layers.next() else {
            bail!("the model has no output, tensor or layer {name:?}");
        };
        ensure!(
            of_layers.next().is_none(),
            "several layers of the model have the name {name:?}: give the name of a tensor"
        );
        Ok(source)
    }

    /// The element type that the file states for an output.
    pub(crate) fn result_type(&self, output: usize) -> Option<ElementType> {
        let source = self.layers[self.results[output]].inputs.first()?;
        self.output(*source).element_type
    }

    /// The input that goes by a name.
    pub fn input_by_name(&self, name: &str) -> Option<usize> {
        (0..self.parameters.len()).find(|&input| {
            self.input_names(input).iter().any(|known| known == name)
                || self.layers[self.parameters[input]].name == name
        })
    }

    /// The output that goes by a name.
    pub fn output_by_name(&self, name: &str) -> Option<usize> {
        (0..self.results.len())
            .find(|&output| self.output_names(output).iter().any(|known| known == name))
    }
}

/// How errors speak of a layer: ``layer 12 "conv1" (Convolution, opset1)``, or ``node "conv1" (Convolution, opset1)``.
impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "layer {id} ")?,
            None => f.write_str("node ")?,
        }
        write!(f, "{:?} ({}, {})", self.name, self.operation, self.opset)
    }
}
