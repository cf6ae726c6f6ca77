//! The reader, its options, and the two files that it reads.

use std::io::Read;
use std::path::{Path, PathBuf};

use tract_core::internal::*;
use tract_openvino::NegativeIndices;

use crate::document::Document;
use crate::layer::{Options, ShapeOption};
use crate::limits::Limits;
use crate::registry::Registry;
use crate::translate;
use crate::weights::Weights;

/// A reader of OpenVINO IR with the operations that this crate knows: where everything starts.
pub fn ir() -> Ir {
    Ir::default()
}

/// A reader of OpenVINO IR, one of tract's frameworks.
///
/// ```
/// use tract_openvino_ir::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// // 1000 embeddings, and pairs of numbers that choose among them.
/// let reader = ir().with_input_shape("input_0", "1000,width").with_input_shape("input_1", "N,2");
/// let model = reader.model_for_path("models/gather/open_dimensions/model.xml")?;
/// # let _ = model;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Ir {
    registry: Registry,
    options: Options,
    weights: Option<PathBuf>,
}

/// The shape of an input for [`Ir::with_input_shape`]: text, or sizes.
#[derive(Debug, Clone)]
pub struct InputShape(String);

impl From<&str> for InputShape {
    fn from(text: &str) -> InputShape {
        InputShape(text.into())
    }
}

impl From<String> for InputShape {
    fn from(text: String) -> InputShape {
        InputShape(text)
    }
}

impl From<&String> for InputShape {
    fn from(text: &String) -> InputShape {
        InputShape(text.clone())
    }
}

impl From<&[usize]> for InputShape {
    fn from(sizes: &[usize]) -> InputShape {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        InputShape(sizes.join(","))
    }
}

impl<const RANK: usize> From<[usize; RANK]> for InputShape {
    fn from(sizes: [usize; RANK]) -> InputShape {
        sizes[..].into()
    }
}

/// What is in the two files of a model.
#[derive(Debug, Clone)]
pub struct IrProtoModel {
    /// The XML.
    pub document: Document,
    /// The bytes of the constants.
    pub weights: Weights,
}

impl Default for Ir {
    fn default() -> Ir {
        let mut registry = Registry::default();
        crate::ops::register_all(&mut registry);
        Ir { registry, options: Options::default(), weights: None }
    }
}

impl Ir {
    /// Gives an input sizes or symbols, like OpenVINO's `reshape`: `[1, 3, 224, 224]`, `"1,3,224,224"` or
    /// `"N,3,32*h,32*w"`. A `?` leaves a dimension as the file has it. The input goes by any of its names.
    ///
    /// # Errors
    ///
    /// Loading fails if there is no such input, or if the file does not allow the shape.
    pub fn with_input_shape(
        mut self,
        input: impl Into<String>,
        shape: impl Into<InputShape>,
    ) -> Ir {
        self.options.shapes.push(ShapeOption { input: input.into(), shape: shape.into().0 });
        self
    }

    /// Says what negative indices mean in the revisions of Gather, GatherND and GatherElements that do not
    /// define them. They count from the end unless this says otherwise, as they do in OpenVINO.
    pub fn with_negative_indices(mut self, negative_indices: NegativeIndices) -> Ir {
        self.options.negative_indices = negative_indices;
        self
    }

    /// Sets what a model may take: memory of constants while it is loaded, and iterations of loops when it runs.
    /// Raise a limit for a file that you trust and that meets it; the error names the limit.
    pub fn with_limits(mut self, limits: Limits) -> Ir {
        self.options.limits = limits;
        self
    }

    /// Reads the weights from this file instead of the one beside the XML.
    ///
    /// # Errors
    ///
    /// Loading fails if the file cannot be opened.
    pub fn with_weights(self, path: impl Into<PathBuf>) -> Ir {
        Ir { weights: Some(path.into()), ..self }
    }

    /// The operations that can be read. You can add your own.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// The operations that can be read.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Reads a model from the text of its XML and the bytes of its weights, as [`Weights::from_bytes`] takes them.
    ///
    /// # Errors
    ///
    /// As for a model from a file: the XML is not IR or does not hold together, an operation is not
    /// supported, a shape does not fit, or the weights are too short.
    pub fn model_for_bytes(
        &self,
        xml: &[u8],
        weights: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> TractResult<TypedModel> {
        let proto =
            IrProtoModel { document: document(xml)?, weights: Weights::from_bytes(weights) };
        self.model_for_proto_model(&proto)
    }
}

fn document(xml: &[u8]) -> TractResult<Document> {
    let text = std::str::from_utf8(xml)
        .context("this is not XML in UTF-8, as OpenVINO writes it: save the file as UTF-8")?;
    Document::parse(text)
}

impl Framework<IrProtoModel, TypedModel> for Ir {
    /// Reads the XML alone. Constants are an error when they are needed.
    fn proto_model_for_read(&self, reader: &mut dyn Read) -> TractResult<IrProtoModel> {
        let mut xml = vec![];
        reader.read_to_end(&mut xml)?;
        let weights = match &self.weights {
            Some(path) => Weights::open(path)?,
            None => Weights::absent(
                "the XML was read from a stream, so that its .bin is not known: use model_for_path, \
                 model_for_bytes or with_weights",
            ),
        };
        Ok(IrProtoModel { document: document(&xml)?, weights })
    }

    /// Reads the XML, and opens the file of the same name and extension `.bin` for the weights.
    fn proto_model_for_path(&self, path: impl AsRef<Path>) -> TractResult<IrProtoModel> {
        let path = path.as_ref();
        let xml = std::fs::read(path).with_context(|| format!("opening {}", path.display()))?;
        let document = document(&xml).with_context(|| format!("reading {}", path.display()))?;
        let weights = match &self.weights {
            Some(weights) => Weights::open(weights)?,
            // A model without constants needs none.
            None => Weights::open(path.with_extension("bin")).unwrap_or_else(|error| {
                Weights::absent(format!(
                    "{error:#}: the .bin must be beside the .xml, or its path must be given"
                ))
            }),
        };
        Ok(IrProtoModel { document, weights })
    }

    fn model_for_path(&self, path: impl AsRef<Path>) -> TractResult<TypedModel> {
        let path = path.as_ref();
        let proto = self.proto_model_for_path(path)?;
        self.model_for_proto_model(&proto).with_context(|| format!("in {}", path.display()))
    }

    fn model_for_proto_model_with_model_template(
        &self,
        proto: &IrProtoModel,
        template: TypedModel,
    ) -> TractResult<TypedModel> {
        let IrProtoModel { document, weights } = proto;
        translate::translate(&self.registry, &self.options, document.graph(), weights, template)
    }
}
