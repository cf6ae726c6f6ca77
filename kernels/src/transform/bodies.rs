//! Models within operators.

use tract_core::internal::*;
use tract_core::ops::logic::IfThenElse;
use tract_core::ops::scan::Scan;

use super::found::Found;
use super::rule::{Rewrite, Session};

/// tract's operators with bodies: `Scan` and `IfThenElse`.
pub(super) fn rewrite(session: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    let op: Box<dyn TypedOp> = if let Some(op) = node.op_as::<Scan>() {
        Box::new(Scan { body: session.body(node, &op.body)?, ..op.clone() })
    } else if let Some(op) = node.op_as::<IfThenElse>() {
        Box::new(IfThenElse {
            then_body: session.body(node, &op.then_body)?,
            else_body: session.body(node, &op.else_body)?,
            ..op.clone()
        })
    } else {
        return Ok(None);
    };
    Ok(Some(TypedModelPatch::replace_single_op(model, node, &node.inputs, op)?.into()))
}
