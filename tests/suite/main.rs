//! Everything that is not a model folder. One binary, because each links all of tract.

mod bad_input;
mod contract;
mod dimensions;
mod gather_elements;
mod gather_tree;
mod inference;
mod optimizer;
mod properties;
mod registration;
mod sizes;
mod standard;
#[cfg(feature = "multithread-mm")]
mod threads;

use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{EvalContext, TypedOp};

/// Runs an operator on its own.
fn eval(op: &dyn TypedOp, data: Tensor, indices: Tensor) -> TractResult<Tensor> {
    let mut outputs = op.eval(&EvalContext::out_of_plan(), tvec!(data.into(), indices.into()))?;
    Ok(outputs.remove(0).into_tensor())
}

/// A model that was saved to NNEF and loaded again.
#[cfg(feature = "nnef")]
fn through_nnef(model: &TypedModel) -> TractResult<TypedModel> {
    use tract_openvino::WithOpenVino;
    let nnef = tract_openvino::tract_nnef::nnef().with_openvino();
    let mut archive = vec![];
    nnef.write(model, &mut archive)?;
    nnef.model_for_read(&mut &*archive)
}
