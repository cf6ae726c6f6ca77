use tract_core::internal::*;
use tract_core::ops::cnn::MaxPool;

/// Leaves out the indices that no node uses: a layer has them always, and NNEF has no text for both outputs.
pub(crate) fn drop_unused_indices(model: &mut TypedModel) -> TractResult<()> {
    // Without the nodes that make what they are to be of what nobody uses.
    model.compact()?;
    for id in 0..model.nodes().len() {
        let node = model.node(id);
        let is_output = model.output_outlets()?.contains(&OutletId::new(id, 1));
        if let Some(pool) = node.op_as::<MaxPool>()
            && pool.with_index_outputs.is_some()
            && node.outputs[1].successors.is_empty()
            && !is_output
        {
            let pool = MaxPool { with_index_outputs: None, ..pool.clone() };
            let node = model.node_mut(id);
            node.op = Box::new(pool);
            node.outputs.truncate(1);
        }
    }
    Ok(())
}
