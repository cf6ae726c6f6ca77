//! Logits of the last position alone.

use tract_core::internal::*;
use tract_core::ops::array::Slice;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cast::Cast;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::identity::Identity;

/// The axis of positions in logits `[batch, tokens, vocabulary]`.
const POSITIONS: usize = 1;

/// Cuts all but the last position off in front of the product with the vocabulary, so that the output with this index has shape
/// `[batch, 1, vocabulary]`. A prompt then does not multiply each of its positions with the whole vocabulary.
///
/// It follows the output back to a product of data, which has positions, with something else, which has none. In between may be
/// casts, functions of single elements, operations with what has one position, and variables that are assigned. If anything else
/// is there, or if something else uses the logits, the model stays as it is, and the result is false.
///
/// # Errors
///
/// tract cannot infer the shapes of the smaller model.
pub(crate) fn keep_last_position(model: &mut TypedModel, output: usize) -> TractResult<bool> {
    let Some((path, axis)) = path_to_product(model, output)? else { return Ok(false) };
    let product = *path.last().expect("the product is on the path");
    let data = model.node(product.node).inputs[product.slot];
    let tokens = model.outlet_fact(data)?.shape[axis].clone();
    let name = format!("{}.last_position", model.node(product.node).name);
    let name = model.unique_name(name).into_owned();
    let last = model.wire_node(name, Slice::new(axis, tokens.clone() - 1, tokens), &[data])?[0];
    model.add_edge(last, product)?;
    for inlet in path.into_iter().rev() {
        let (inputs, _) = model.node_facts(inlet.node)?;
        let facts = model.node(inlet.node).op.output_facts(&inputs)?;
        drop(inputs);
        for (slot, fact) in facts.into_iter().enumerate() {
            model.set_outlet_fact(OutletId::new(inlet.node, slot), fact)?;
        }
    }
    Ok(true)
}

/// The inputs that the logits come from, from the last node back to the product, and the axis of positions in its data.
fn path_to_product(
    model: &TypedModel,
    output: usize,
) -> TractResult<Option<(Vec<InletId>, usize)>> {
    let mut path = vec![];
    let mut outlet = model.outputs[output];
    loop {
        let node = model.node(outlet.node);
        if !is_used_once(model, outlet) || model.outlet_fact(outlet)?.rank() != 3 {
            return Ok(None);
        }
        if let Some(op) = node.op_as::<EinSum>() {
            let inputs = &op.axes.axis((InOut::Out(0), POSITIONS))?.inputs;
            let (slot, axis) = match inputs.iter().map(|axes| &**axes).collect::<Vec<_>>()[..] {
                [[axis], []] => (0, *axis),
                [[], [axis]] => (1, *axis),
                _ => return Ok(None),
            };
            path.push(InletId::new(node.id, slot));
            return Ok(Some((path, axis)));
        }
        let slot =
            if node.op_is::<ElementWiseOp>() || node.op_is::<Cast>() || node.op_is::<Identity>() {
                0
            } else if node.op_is::<TypedBinOp>() {
                let has_one = |input: &OutletId| -> TractResult<bool> {
                    let shape = &model.outlet_fact(*input)?.shape;
                    Ok(shape.rank() == 3 && shape[POSITIONS].is_one())
                };
                match (has_one(&node.inputs[0])?, has_one(&node.inputs[1])?) {
                    (false, true) => 0,
                    (true, false) => 1,
                    _ => return Ok(None),
                }
            } else if node.op.name() == "OpenVinoAssign" {
                // The reader of IR assigns variables so: the last inputs pass through.
                node.inputs.len() - node.outputs.len() + outlet.slot
            } else {
                return Ok(None);
            };
        path.push(InletId::new(node.id, slot));
        outlet = node.inputs[slot];
    }
}

/// Whether an outlet is either an output or the input of one node.
fn is_used_once(model: &TypedModel, outlet: OutletId) -> bool {
    let outputs = model.outputs.iter().filter(|it| **it == outlet).count();
    model.outlet_successors(outlet).len() + outputs == 1
}
