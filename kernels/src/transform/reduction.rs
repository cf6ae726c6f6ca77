//! Reductions of axes.

use std::ops::Range;

use tract_core::internal::*;
use tract_core::ops::nn::{self, Reduce};

use super::rule::{Phase, Rewrite, Rule, Session, refuse_if};
use crate::reduction::{Reducer, ReductionOfAxes};

/// tract's Reduce, of sums, products, minima and maxima.
#[derive(Debug)]
pub(super) struct Reductions;

impl Rule for Reductions {
    fn name(&self) -> &'static str {
        "reduction"
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
        let reducer = match op.reducer {
            nn::Reducer::Sum => Reducer::Sum,
            nn::Reducer::Prod => Reducer::Product,
            nn::Reducer::Min => Reducer::Min,
            nn::Reducer::Max => Reducer::Max,
            _ => return Ok(Rewrite::NotMine),
        };
        let data = model.outlet_fact(node.inputs[0])?;
        let (dt, rank) = (data.datum_type, data.rank());
        refuse_if!(dt != DatumType::F32, "its type is {dt:?}, but must be F32");
        refuse_if!(op.axes.is_empty(), "it has no axes, but must have 1 or more");
        // Neighbours are reduced together. The last ones come first: they are next to each other in memory.
        let mut groups: Vec<Range<usize>> = vec![];
        for axis in (0..rank).rev().filter(|axis| op.axes.contains(axis)) {
            match groups.last_mut() {
                Some(group) if group.start == axis + 1 => group.start = axis,
                _ => groups.push(axis..axis + 1),
            }
        }
        let mut patch = TypedModelPatch::default();
        let mut outlet = patch.tap_model(model, node.inputs[0])?;
        let last = groups.len() - 1;
        for (number, axes) in groups.into_iter().enumerate() {
            let name = match number == last {
                true => node.name.clone(),
                false => format!("{}.axes_{number}", node.name),
            };
            outlet = patch.wire_node(name, ReductionOfAxes { axes, reducer }, &[outlet])?[0];
        }
        patch.shunt_outside(model, node.id.into(), outlet)?;
        Ok(patch.into())
    }
}
