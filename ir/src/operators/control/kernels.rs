//! The kernels in the bodies of these operators.

use tract_core::internal::*;
use tract_openvino_kernels::{Phase, Rewrite, Rule, Session, register_rule};

use super::{If, Loop};

register_rule!(Rule::new("openvino_bodies", Phase::Decluttered, rewrite));

/// `If` and `Loop`, whose bodies are transformed as the model around them.
fn rewrite(
    session: &Session,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<Rewrite>> {
    let op: Box<dyn TypedOp> = if let Some(op) = node.op_as::<Loop>() {
        Box::new(op.transformed(session, node)?)
    } else if let Some(op) = node.op_as::<If>() {
        Box::new(op.transformed(session, node)?)
    } else {
        return Ok(None);
    };
    let patch = TypedModelPatch::replace_single_op(model, node, &node.inputs, op)?;
    Ok(Some(patch.into()))
}
