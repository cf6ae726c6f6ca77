//! Sums along axes.

use tract_core::internal::*;
use tract_core::ops::nn::{Reduce, Reducer};

use super::rule::{Phase, Rewrite, Rule, Session, refuse_if};
use crate::sums::SumOfAxes;

/// tract's Reduce, of sums along the last axes.
#[derive(Debug)]
pub(super) struct Sums;

impl Rule for Sums {
    fn name(&self) -> &'static str {
        "sum"
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
        let Some(op) = node.op_as::<Reduce>() else { return Ok(Rewrite::NotMine) };
        if op.reducer != Reducer::Sum {
            return Ok(Rewrite::NotMine);
        }
        let data = model.outlet_fact(node.inputs[0])?;
        let (dt, rank) = (data.datum_type, data.rank());
        refuse_if!(dt != DatumType::F32, "its type is {dt:?}, but must be F32");
        let axis = rank - op.axes.len();
        refuse_if!(
            op.axes.is_empty() || !(axis..rank).all(|axis| op.axes.contains(&axis)),
            "its axes are {:?}, but must be the last ones of rank {rank}",
            op.axes
        );
        let op = SumOfAxes { axis };
        Ok(TypedModelPatch::replace_single_op(model, node, &node.inputs, op)?.into())
    }
}
