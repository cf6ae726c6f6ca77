//! Softmax.

use tract_core::internal::*;
use tract_core::ops::nn::{Softmax, SoftmaxKind};

use super::rule::{Phase, Rewrite, Rule, Session, refuse, refuse_if};
use crate::softmax::SoftmaxOfAxis;

/// tract's Softmax, along one axis.
#[derive(Debug)]
pub(super) struct Softmaxes;

impl Rule for Softmaxes {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn phase(&self) -> Phase {
        Phase::Decluttered
    }

    fn rewrite(
        &self,
        _session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite> {
        let Some(op) = node.op_as::<Softmax>() else { return Ok(Rewrite::NotMine) };
        let data = model.outlet_fact(node.inputs[0])?;
        refuse_if!(
            data.datum_type != DatumType::F32,
            "its type is {:?}, but must be F32",
            data.datum_type
        );
        if let Some(dt) = op.quant_output_dt {
            refuse!("its output is of type {dt:?}, but must be of F32");
        }
        refuse_if!(op.kind != SoftmaxKind::Softmax, "it is a {:?}", op.kind);
        let &[axis] = &*op.axes else { refuse!("it has {} axes, but must have 1", op.axes.len()) };
        let op = SoftmaxOfAxis { axis };
        Ok(TypedModelPatch::replace_single_op(model, node, &node.inputs, op)?.into())
    }
}
