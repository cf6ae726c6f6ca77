//! Rewrites to simpler operators, when tract declutters a model.
//!
//! All of them need constant indices, axes of known size, and all indices in range: then a rewrite can lose no
//! error, and no zeros.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};

use super::{Gather, GatherNd};
use crate::eval::IntegerTensor;
use crate::geometry;
use crate::index::IndexPolicy;
use crate::revision::{GatherRevision, Spec};

/// Constant indices, all in range.
struct Positions {
    /// The shape of `indices`.
    shape: TVec<usize>,
    /// For each entry of `indices` the position on its axis.
    entries: Vec<usize>,
}

impl Positions {
    /// `None` unless `indices` is a constant, the sizes of the axes that it indexes are known, and all entries are
    /// in range.
    fn of(
        spec: &Spec,
        policy: IndexPolicy,
        dims: &[TDim],
        indices: &TypedFact,
    ) -> TractResult<Option<Positions>> {
        rule_if_some!(tensor = &indices.konst);
        let dims: Option<TVec<usize>> = dims.iter().map(|dim| dim.to_usize().ok()).collect();
        rule_if_some!(dims = dims);
        rule_if_some!(integers = IntegerTensor::if_known(spec, "indices", tensor)?);
        let entries: Option<Vec<usize>> = geometry::positions(integers.entries()?, &dims, policy);
        rule_if_some!(entries = entries);
        Ok(Some(Positions { shape: tensor.shape().into(), entries }))
    }

    fn into_tensor(self) -> TractResult<Arc<Tensor>> {
        let entries: Vec<i64> = self.entries.iter().map(|&entry| entry as i64).collect();
        Ok(tensor1(&entries).into_shape(&self.shape)?.into_arc_tensor())
    }
}

/// A rewrite of an operator.
type Rewrite<O> =
    fn(&O, &TypedModel, &TypedNode, &Positions) -> TractResult<Option<TypedModelPatch>>;

/// Applies the first rewrite that it can; if there is none, normalizes the indices.
fn rewrite<O: TypedOp + Clone>(
    rewrites: &[Rewrite<O>],
    op: &O,
    model: &TypedModel,
    node: &TypedNode,
    positions: Positions,
) -> TractResult<Option<TypedModelPatch>> {
    for rewrite in rewrites {
        let patch = rewrite(op, model, node, &positions)?;
        if patch.is_some() {
            return Ok(patch);
        }
    }
    normalize_indices(op.clone(), model, node, positions)
}

/// Completes a patch: `op` with these constant indices replaces the node. `data` is an outlet of the patch.
fn replace(
    mut patch: TypedModelPatch,
    model: &TypedModel,
    node: &TypedNode,
    op: impl Into<Box<dyn TypedOp>>,
    data: OutletId,
    indices: Arc<Tensor>,
) -> TractResult<Option<TypedModelPatch>> {
    let indices = patch.add_const(format!("{}.indices", node.name), indices)?;
    let wire = patch.wire_node(&node.name, op, &[data, indices])?[0];
    patch.shunt_outside(model, node.id.into(), wire)?;
    Ok(Some(patch))
}

pub(super) fn gather(
    op: &Gather,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    let [data, indices] = *model.node_input_facts(node.id)? else { return Ok(None) };
    rule_if!(data.is_plain());
    let dims = &data.shape[op.axis()..=op.axis()];
    rule_if_some!(positions = Positions::of(op.spec(), op.index_policy(), dims, indices)?);
    let rewrites: [Rewrite<Gather>; 5] =
        [one_part_of_a_concat, every_index_in_order, one_index, range_of_indices, gather_of_gather];
    rewrite(&rewrites, op, model, node, positions)
}

/// If `data` is a concatenation along the gathered axis, and all indices pick from one of its parts: gathers from
/// that part.
fn one_part_of_a_concat(
    op: &Gather,
    model: &TypedModel,
    node: &TypedNode,
    positions: &Positions,
) -> TractResult<Option<TypedModelPatch>> {
    let concat = model.node(node.inputs[0].node);
    rule_if!(concat.op_as::<TypedConcat>().is_some_and(|concat| concat.axis == op.axis()));
    let mut start = 0;
    for &part in &concat.inputs {
        // Without the sizes of all parts before, the start is unknown.
        rule_if_some!(size = model.outlet_fact(part)?.shape[op.axis()].to_usize().ok());
        let in_part = |entry: &usize| (start..start + size).contains(entry);
        if !positions.entries.is_empty() && positions.entries.iter().all(in_part) {
            let entries = positions.entries.iter().map(|entry| entry - start).collect();
            let in_part = Positions { shape: positions.shape.clone(), entries };
            let mut patch = TypedModelPatch::new("constant indices into one part of a concat");
            let part = patch.tap_model(model, part)?;
            return replace(patch, model, node, op.clone(), part, in_part.into_tensor()?);
        }
        start += size;
    }
    Ok(None)
}

/// Indices `0, 1, ..., s - 1`, in each batch: the output is `data`.
fn every_index_in_order(
    op: &Gather,
    model: &TypedModel,
    node: &TypedNode,
    positions: &Positions,
) -> TractResult<Option<TypedModelPatch>> {
    let data = model.outlet_fact(node.inputs[0])?;
    rule_if!(positions.shape.len() == op.batch_dims() + 1);
    let size = positions.shape[op.batch_dims()];
    rule_if!(positions.entries.iter().enumerate().all(|(n, &entry)| entry == n % size));
    // They pick all of the axis. And no batch dimension is a symbol in data but a number in the output, as it may be
    // if indices have the number.
    rule_if!(data.shape == node.outputs[0].fact.shape);
    rule_if!(!are_both_outputs(model, node)?);
    let mut patch = TypedModelPatch::new("indices that are all positions in order");
    let data = patch.tap_model(model, node.inputs[0])?;
    patch.shunt_outside(model, node.id.into(), data)?;
    Ok(Some(patch))
}

/// Whether the node and its data are both outputs of the model, which must remain two nodes.
fn are_both_outputs(model: &TypedModel, node: &TypedNode) -> TractResult<bool> {
    let outputs = model.output_outlets()?;
    Ok(outputs.contains(&node.id.into()) && outputs.contains(&node.inputs[0]))
}

/// One index picks a slice of length 1. In place of its axis the output has the axes of `indices`: none, or some
/// of size 1.
fn one_index(
    op: &Gather,
    model: &TypedModel,
    node: &TypedNode,
    positions: &Positions,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if!(op.batch_dims() == 0);
    let [position] = *positions.entries else { return Ok(None) };
    rule_if!(!are_both_outputs(model, node)?);
    let axis = op.axis();
    let mut patch = TypedModelPatch::new("one constant index");
    let mut wire = patch.tap_model(model, node.inputs[0])?;
    // On an axis of size 1 there is nothing to slice.
    if !patch.outlet_fact(wire)?.shape[axis].is_one() {
        let slice = Slice::new(axis, position, position + 1);
        wire = patch.wire_node(format!("{}.slice", node.name), slice, &[wire])?[0];
    }
    if positions.shape.is_empty() {
        let name = format!("{}.remove_axis", node.name);
        wire = patch.wire_node(name, AxisOp::Rm(axis), &[wire])?[0];
    }
    for added in 1..positions.shape.len() {
        let name = format!("{}.add_axis_{added}", node.name);
        wire = patch.wire_node(name, AxisOp::Add(axis), &[wire])?[0];
    }
    patch.shunt_outside(model, node.id.into(), wire)?;
    Ok(Some(patch))
}

/// Indices `k, k + 1, ..., k + n` pick a slice.
fn range_of_indices(
    op: &Gather,
    model: &TypedModel,
    node: &TypedNode,
    positions: &Positions,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if!(op.batch_dims() == 0 && positions.shape.len() == 1);
    rule_if_some!(start = positions.entries.first().copied());
    rule_if!(positions.entries.iter().enumerate().all(|(n, &entry)| entry == start + n));
    let mut patch = TypedModelPatch::new("a range of constant indices");
    let data = patch.tap_model(model, node.inputs[0])?;
    let slice = Slice::new(op.axis(), start, start + positions.entries.len());
    let wire = patch.wire_node(&node.name, slice, &[data])?[0];
    patch.shunt_outside(model, node.id.into(), wire)?;
    Ok(Some(patch))
}

/// `data[first][second]`, along the same axis, is `data[first[second]]`.
fn gather_of_gather(
    op: &Gather,
    model: &TypedModel,
    node: &TypedNode,
    positions: &Positions,
) -> TractResult<Option<TypedModelPatch>> {
    let first_node = model.node(node.inputs[0].node);
    rule_if_some!(first = first_node.op_as::<Gather>());
    rule_if!(op.batch_dims() == 0 && first.batch_dims() == 0 && op.axis() == first.axis());
    let [data, indices] = *model.node_input_facts(first_node.id)? else { return Ok(None) };
    let dims = &data.shape[first.axis()..=first.axis()];
    rule_if_some!(
        first_positions = Positions::of(first.spec(), first.index_policy(), dims, indices)?
    );
    rule_if!(first_positions.shape.len() == 1);
    let entries = positions.entries.iter().map(|&entry| first_positions.entries[entry]).collect();
    let picked = Positions { shape: positions.shape.clone(), entries };
    let mut patch = TypedModelPatch::new("a gather of a gather");
    let data = patch.tap_model(model, first_node.inputs[0])?;
    replace(patch, model, node, op.clone(), data, picked.into_tensor()?)
}

/// Turns the indices into positions, in `i64`.
fn normalize_indices(
    op: impl TypedOp,
    model: &TypedModel,
    node: &TypedNode,
    positions: Positions,
) -> TractResult<Option<TypedModelPatch>> {
    let normalized = positions.into_tensor()?;
    rule_if!(model.outlet_fact(node.inputs[1])?.konst.as_ref() != Some(&normalized));
    let mut patch = TypedModelPatch::new("constant indices as positions");
    let data = patch.tap_model(model, node.inputs[0])?;
    replace(patch, model, node, op, data, normalized)
}

pub(super) fn gather_nd(
    op: &GatherNd,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    let [data, indices] = *model.node_input_facts(node.id)? else { return Ok(None) };
    let batch_dims = op.batch_dims();
    rule_if_some!(tuple = indices.shape.last().and_then(|dim| dim.to_usize().ok()));
    let dims = &data.shape[batch_dims..][..tuple];
    rule_if_some!(positions = Positions::of(op.spec(), op.index_policy(), dims, indices)?);
    rule_if!(!positions.entries.is_empty());
    let rewrites: [Rewrite<GatherNd>; 2] = [single_entries_to_gather, leading_axes_of_size_1];
    rewrite(&rewrites, op, model, node, positions)
}

/// Tuples of one entry: that is Gather on the first axis after the batch.
fn single_entries_to_gather(
    op: &GatherNd,
    model: &TypedModel,
    node: &TypedNode,
    positions: &Positions,
) -> TractResult<Option<TypedModelPatch>> {
    let Some((1, shape)) = positions.shape.split_last().map(|(&tuple, shape)| (tuple, shape))
    else {
        return Ok(None);
    };
    rule_if!(!op.fuses_batch());
    // As all indices are in range and not negative, any revision with batch dimensions would do.
    let batch_dims = op.batch_dims();
    let gather = Gather::new(GatherRevision::V7, batch_dims).with_origin(op.origin());
    let gather = gather.with_batch_dims(batch_dims)?;
    let indices = Positions { shape: shape.into(), entries: positions.entries.clone() };
    let mut patch = TypedModelPatch::new("tuples of one entry");
    let data = patch.tap_model(model, node.inputs[0])?;
    replace(patch, model, node, gather, data, indices.into_tensor()?)
}

/// On an axis of size 1 the only index is 0. Without these axes of `data`, and without their entries of the tuples,
/// the output is the same.
fn leading_axes_of_size_1(
    op: &GatherNd,
    model: &TypedModel,
    node: &TypedNode,
    positions: &Positions,
) -> TractResult<Option<TypedModelPatch>> {
    let data = model.outlet_fact(node.inputs[0])?;
    let batch_dims = op.batch_dims();
    rule_if_some!((&tuple, shape) = positions.shape.split_last());
    let ones = data.shape[batch_dims..][..tuple].iter().take_while(|dim| dim.is_one()).count();
    // One entry remains: tuples of length 0 would leave no index for another rewrite.
    let ones = ones.min(tuple.saturating_sub(1));
    rule_if!(ones > 0);
    let entries = positions.entries.chunks(tuple).flat_map(|tuple| &tuple[ones..]).copied();
    let entries = entries.collect();
    let shape = shape.iter().copied().chain([tuple - ones]).collect();
    let mut patch = TypedModelPatch::new("tuples that index axes of size 1");
    let mut data = patch.tap_model(model, node.inputs[0])?;
    for removed in 0..ones {
        let name = format!("{}.remove_axis_{removed}", node.name);
        data = patch.wire_node(name, AxisOp::Rm(batch_dims), &[data])?[0];
    }
    replace(patch, model, node, op.clone(), data, Positions { shape, entries }.into_tensor()?)
}
