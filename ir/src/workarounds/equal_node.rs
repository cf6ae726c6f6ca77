use tract_core::internal::*;

/// How many nodes a new one is compared with.
const MOST_COMPARED: usize = 64;

/// The node that a model already has for an operator and its inputs.
///
/// tract's optimiser would make them one, too. But of three such nodes of which the first and the last are outputs
/// of the model, the last one gets its value from the second one, which is no longer there.
pub(crate) fn equal_node(
    model: &TypedModel,
    op: &dyn TypedOp,
    inputs: &[OutletId],
) -> Option<usize> {
    let successors = |outlet: &OutletId| &model.node(outlet.node).outputs[outlet.slot].successors;
    let input = inputs.iter().min_by_key(|input| successors(input).len())?;
    // Each layer could look at all that came before it.
    let last = successors(input).iter().rev().take(MOST_COMPARED);
    let is_equal = |node: &usize| {
        let node = model.node(*node);
        node.inputs == inputs && node.op().dyn_eq(op)
    };
    last.map(|inlet| inlet.node).find(is_equal)
}
