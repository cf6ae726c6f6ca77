/// Adds this crate's operations to a reader of models.
///
/// tract's reader of ONNX (feature `onnx`) then takes nodes of the domain `org.openvinotoolkit` of any operation that the
/// [`Registry`](crate::Registry) has and that has no body and no variable: their op type is the type of a layer of IR, and
/// their attributes are those of the layer. It gets those of [`WithOpenVino`](tract_openvino::WithOpenVino), too, with the options that it had.
///
#[cfg_attr(feature = "onnx", doc = "```")]
#[cfg_attr(not(feature = "onnx"), doc = "```ignore")]
/// use tract_openvino_ir::WithOpenVinoIr;
/// use tract_openvino_ir::tract_openvino::{NegativeIndices, OpenVinoOptions, WithOpenVinoOptions, tract_onnx};
///
/// let reader = tract_onnx::onnx().with_openvino_ir();
/// // With options.
/// let options = OpenVinoOptions::default().with_negative_indices(NegativeIndices::Wrap);
/// let reader = tract_onnx::onnx().with_openvino_options(options).with_openvino_ir();
/// ```
///
/// tract's reader and writer of NNEF archives (feature `nnef`) then take the operators of models that were read from IR, as
/// far as they have text. Gather operators need [`WithOpenVino`](tract_openvino::WithOpenVino) too.
///
#[cfg_attr(feature = "nnef", doc = "```")]
#[cfg_attr(not(feature = "nnef"), doc = "```ignore")]
/// use tract_openvino_ir::WithOpenVinoIr;
/// use tract_openvino_ir::prelude::*;
/// use tract_openvino_ir::tract_openvino::{WithOpenVino, tract_nnef};
///
/// # fn main() -> TractResult<()> {
/// let model = ir().model_for_path("models/range/inputs/model.xml")?.into_decluttered()?;
///
/// let nnef = tract_nnef::nnef().with_openvino().with_openvino_ir();
/// let mut archive = vec![];
/// nnef.write(&model, &mut archive)?;
/// let loaded = nnef.model_for_read(&mut &*archive)?;
/// assert_eq!(loaded.input_outlets()?.len(), model.input_outlets()?.len());
/// # Ok(())
/// # }
/// ```
pub trait WithOpenVinoIr: Sized {
    /// Adds the operations. Calling it twice is harmless.
    fn enable_openvino_ir(&mut self);

    /// The reader, with the operations.
    fn with_openvino_ir(mut self) -> Self {
        self.enable_openvino_ir();
        self
    }
}
