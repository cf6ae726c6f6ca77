//! Reductions of axes.

use std::ops::Range;

use tract_core::internal::*;
use tract_core::ops::nn::{self, Reduce};

use super::found::Found;
use super::rule::{Rewrite, Session, refuse_if, refuse_unless_f32};
use crate::reduction::{Reducer, ReductionOfAxes};

/// tract's Reduce, of sums, products, minima and maxima.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if_some!(op = node.op_as::<Reduce>());
    let reducer = match op.reducer {
        nn::Reducer::Sum => Reducer::Sum,
        nn::Reducer::Prod => Reducer::Product,
        nn::Reducer::Min => Reducer::Min,
        nn::Reducer::Max => Reducer::Max,
        _ => return Ok(None),
    };
    let data = model.outlet_fact(node.inputs[0])?;
    refuse_unless_f32!("its type is", data.datum_type);
    refuse_if!(op.axes.is_empty(), "it has no axes, but must have 1 or more");
    // Neighbours are reduced together. The last ones come first: they are next to each other in memory.
    let mut groups: Vec<Range<usize>> = vec![];
    for axis in (0..data.rank()).rev().filter(|axis| op.axes.contains(axis)) {
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
    Ok(Some(patch.into()))
}
