//! The reader, its options, and the two files that it reads.

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

use tract_core::internal::*;
use tract_openvino::NegativeIndices;

use crate::context::{Options, ShapeOption};
use crate::document::Document;
use crate::limits::Limits;
use crate::registry::Registry;
use crate::translate;
use crate::translators::all_operations;
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
    /// The outputs of the model, if they are not its own.
    outputs: Vec<String>,
}

/// The shape of an input for [`Ir::with_input_shape`]: text, or sizes.
#[derive(Debug, Clone)]
pub struct InputShape(String);

impl InputShape {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

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
        let registry = all_operations();
        Ir { registry, options: Options::default(), weights: None, outputs: vec![] }
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

    /// Makes these the outputs of the model in place of its own, in this order: outputs by a name of theirs, tensors by one of their
    /// names, or layers (`name`, or `name:1` for the second output of a layer with several). What none of them needs is not read.
    ///
    /// ```
    /// use tract_openvino_ir::prelude::*;
    ///
    /// # fn main() -> TractResult<()> {
    /// // The logits that the softmax at the end of the model takes.
    /// let reader = ir().with_outputs(["linear_1.tmp_1"]);
    /// let model = reader.model_for_path("models/networks/ocr_cls/model.xml")?;
    /// assert_eq!(model.outlet_label(model.output_outlets()?[0]), Some("linear_1.tmp_1"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Loading fails if there is none of a name, or if several layers have it.
    pub fn with_outputs(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Ir {
        self.outputs = names.into_iter().map(Into::into).collect();
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
        self.model_for_proto_model(&self.proto_model_for_bytes(xml, Weights::from_bytes(weights))?)
    }

    /// Reads the text of an XML, to which these weights belong. It is the first half of [`model_for_bytes`](Self::model_for_bytes).
    ///
    /// # Errors
    ///
    /// The XML is not IR, or does not hold together.
    pub fn proto_model_for_bytes(&self, xml: &[u8], weights: Weights) -> TractResult<IrProtoModel> {
        Ok(IrProtoModel { document: document(xml)?, weights })
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
        let mut document = Cow::Borrowed(document);
        if !self.outputs.is_empty() {
            document.to_mut().select_outputs(&self.outputs)?;
        }
        translate::translate(&self.registry, &self.options, document.graph(), weights, template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A layer with two outputs, `Relu` of each, and an operation behind one of them that nobody knows.
    const MODEL: &str = r#"<net name="outputs" version="11"><layers>
        <layer id="0" name="x" type="Parameter" version="opset1"><data shape="2,4" element_type="f32"/>
            <output><port id="0" precision="FP32" names="x"/></output></layer>
        <layer id="1" name="axis" type="Const" version="opset1"><data element_type="i64" shape="" offset="0" size="8"/>
            <output><port id="0" precision="I64"/></output></layer>
        <layer id="2" name="split" type="Split" version="opset1"><data num_splits="2"/>
            <input><port id="0"/><port id="1"/></input>
            <output><port id="2" precision="FP32" names="left"/><port id="3" precision="FP32"/></output></layer>
        <layer id="3" name="relu" type="ReLU" version="opset1"><input><port id="0"/></input>
            <output><port id="1" precision="FP32" names="first"/></output></layer>
        <layer id="4" name="relu" type="ReLU" version="opset1"><input><port id="0"/></input>
            <output><port id="1" precision="FP32"/></output></layer>
        <layer id="5" name="unknown" type="Unknown" version="opset1"><input><port id="0"/><port id="2"/></input>
            <output><port id="1" precision="FP32"/></output></layer>
        <layer id="6" name="result" type="Result" version="opset1" output_names="last"><input><port id="0"/></input></layer>
        </layers><edges>
        <edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
        <edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
        <edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
        <edge from-layer="2" from-port="3" to-layer="4" to-port="0"/>
        <edge from-layer="3" from-port="1" to-layer="5" to-port="0"/>
        <edge from-layer="4" from-port="1" to-layer="5" to-port="2"/>
        <edge from-layer="5" from-port="1" to-layer="6" to-port="0"/>
        </edges></net>"#;

    fn read(outputs: &[&str]) -> TractResult<TypedModel> {
        let ir = ir().with_outputs(outputs.iter().copied());
        ir.model_for_bytes(MODEL.as_bytes(), 1i64.to_le_bytes().to_vec())
    }

    /// By names of tensors and of layers, in the order that is asked for. What is behind them is not read.
    #[test]
    fn outputs_by_name() -> TractResult<()> {
        let model = read(&["split:1", "first", "left", "split"])?;
        let data = tensor2(&[[1f32, -2., 3., 4.], [-5., 6., 7., 8.]]);
        let found = model.into_runnable()?.run(tvec!(data.into()))?;
        let left = tensor2(&[[1f32, -2.], [-5., 6.]]);
        let right = tensor2(&[[3f32, 4.], [7., 8.]]);
        let first = tensor2(&[[1f32, 0.], [0., 6.]]);
        for (found, expected) in found.iter().zip([&right, &first, &left, &left]) {
            assert_eq!(&**found, expected);
        }
        Ok(())
    }

    #[test]
    fn names_that_are_no_output() {
        for (name, expected) in [
            ("last", "Unknown"),
            ("second", "the model has no output, tensor or layer \"second\""),
            ("split:2", "the model has no output, tensor or layer \"split:2\""),
            (
                "relu",
                "several layers of the model have the name \"relu\": give the name of a tensor",
            ),
        ] {
            let error = format!("{:#}", read(&[name]).unwrap_err());
            assert!(error.contains(expected), "{name}: {error}");
        }
    }
}
