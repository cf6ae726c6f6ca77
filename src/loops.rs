use tract_core::internal::*;
use tract_core::ops::gru_seq::GruSeq;
use tract_core::ops::scan::Scan;

/// Lets all loops of a model begin with their initial states in each run, as ONNX has it.
///
/// tract's LSTM, GRU, RNN and Scan go on, in the next run of a `State`, with the states that the last one ended with. That is
/// meant for streams of which each run has a part. A program that keeps a `State` for requests that have nothing to do with
/// each other calls this before the model is optimised. (`SimplePlan::run` makes a new `State` in each call. Models of OpenVINO IR
/// need it neither: their states are in variables.)
///
/// ```
/// use tract_openvino::WithOpenVino;
/// use tract_openvino::tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// # let path = "models/token_picker/model.onnx";
/// let mut model = tract_openvino::tract_onnx::onnx().with_openvino().model_for_path(path)?.into_typed()?;
/// tract_openvino::restart_loops(&mut model);
/// let mut state = model.into_optimized()?.into_runnable()?.spawn()?;
/// # Ok(())
/// # }
/// ```
pub fn restart_loops(model: &mut TypedModel) {
    // Branches of conditions keep nothing.
    for node in model.nodes_mut() {
        if let Some(scan) = node.op_as_mut::<Scan>() {
            scan.reset_every_turn = true;
            restart_loops(&mut scan.body);
        } else if let Some(gru) = node.op_as_mut::<GruSeq>() {
            gru.reset_every_turn = true;
        }
    }
}
