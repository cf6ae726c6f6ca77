//! The kernels in the bodies of these operators.

use tract_core::internal::*;
use tract_openvino_kernels::{Phase, Rewrite, Rule, Session, register_rule};

use super::{If, Loop};

/// `If` and `Loop`, whose bodies are transformed as the model around them.
#[derive(Debug)]
struct Bodies;

register_rule!(Bodies);

impl Rule for Bodies {
    fn name(&self) -> &'static str {
        "openvino_bodies"
    }

    fn phase(&self) -> Phase {
        Phase::Decluttered
    }

    fn rewrite(
        &self,
        session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite> {
        let op: Box<dyn TypedOp> = if let Some(op) = node.op_as::<Loop>() {
            Box::new(op.transformed(session, node)?)
        } else if let Some(op) = node.op_as::<If>() {
            Box::new(op.transformed(session, node)?)
        } else {
            return Ok(Rewrite::NotMine);
        };
        let patch = TypedModelPatch::replace_single_op(model, node, &node.inputs, op)?;
        Ok(patch.into())
    }
}
