/// Adds OpenVINO's operators to a reader of models.
///
/// A node of domain `org.openvinotoolkit` and op type `Gather` (inputs `data`, `indices`, `axis`;
/// attribute `batch_dims`) or `GatherND` (inputs `data`, `indices`; attribute `batch_dims`) becomes
/// OpenVINO's operator of that name. The version of that domain which the model imports decides the revision; a
/// string attribute `version` of the node, like `"opset7"`, takes precedence. Without either it is the newest
/// revision, and a warning is logged.
///
/// Operators of other domains keep their implementation, in subgraphs too, unless
/// [`standard_gather`](crate::OpenVinoOptions::standard_gather) is set. Any other operator of `org.openvinotoolkit` is an
/// error when the model is loaded, even if ONNX has an operator of that name. (If neither tract nor OpenVINO's
/// reader knows any op type in the model, the error is tract's.)
///
/// ```
/// use tract_openvino::WithOpenVino;
/// use tract_openvino::tract_onnx::{onnx, prelude::*};
///
/// # fn main() -> TractResult<()> {
/// let model = onnx().with_openvino().model_for_path("models/gather_7_example_2/model.onnx")?;
/// # let _ = model;
/// # Ok(())
/// # }
/// ```
pub trait WithOpenVino: Sized {
    /// Adds the operators; with the default options, if the reader has options. Calling it twice is harmless.
    fn enable_openvino(&mut self);

    /// The reader, with the operators.
    fn with_openvino(mut self) -> Self {
        self.enable_openvino();
        self
    }
}
