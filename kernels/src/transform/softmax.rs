//! Softmax.

use tract_core::internal::*;
use tract_core::ops::nn::{Softmax, SoftmaxKind};

use super::found::Found;
use super::rule::{Rewrite, Session, refuse, refuse_if, refuse_unless_f32};
use crate::softmax::SoftmaxOfAxis;

/// tract's Softmax, along one axis.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if_some!(op = node.op_as::<Softmax>());
    refuse_unless_f32!("its type is", model.outlet_fact(node.inputs[0])?.datum_type);
    if let Some(dt) = op.quant_output_dt {
        refuse!("its output is of type {dt:?}, but must be of F32");
    }
    refuse_if!(op.kind != SoftmaxKind::Softmax, "it is a {:?}", op.kind);
    let &[axis] = &*op.axes else { refuse!("it has {} axes, but must have 1", op.axes.len()) };
    let op = SoftmaxOfAxis { axis };
    Ok(Some(TypedModelPatch::replace_single_op(model, node, &node.inputs, op)?.into()))
}
