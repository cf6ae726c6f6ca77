//! Biases of convolutions. In OpenVINO they are additions that follow.

use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::Conv;
use tract_core::ops::math::Add;

/// Moves what is added to the channels of a convolution into its bias.
///
/// tract does this too, for convolutions without groups. But when it then moves the axes of a model with a
/// batch of one, it mistakes a change of the bias's axes for one of the data's, and fails.
pub(crate) fn move_biases(model: &mut TypedModel) -> TractResult<()> {
    for node in 0..model.nodes().len() {
        if let Some(patch) = with_bias(model, model.node(node))? {
            patch.apply(model)?;
        }
    }
    Ok(())
}

fn with_bias(model: &TypedModel, node: &TypedNode) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(convolution = node.op_as::<Conv>());
    rule_if_let!([successor] = &*node.outputs[0].successors);
    rule_if!(convolution.q_params.is_none());
    rule_if!(!model.output_outlets()?.contains(&node.id.into()));
    let addition = model.node(successor.node);
    rule_if!(addition.op_as::<TypedBinOp>().is_some_and(|op| op.0.is::<Add>() && op.1.is_none()));
    rule_if_let!([a, b] = &*addition.inputs);
    let added = if successor.slot == 0 { b } else { a };
    let fact = &node.outputs[0].fact;
    rule_if_some!(bias = &model.outlet_fact(node.inputs[2])?.konst);
    rule_if_some!(added = &model.outlet_fact(*added)?.konst);
    let channels = convolution.output_channels();
    let mut shape = tvec![1; fact.rank()];
    shape[1] = channels;
    rule_if!(bias.is_zero()? && added.shape() == &*shape);
    rule_if!(added.datum_type() == fact.datum_type && addition.outputs[0].fact.shape == fact.shape);

    let mut patch = TypedModelPatch::new("the bias of a convolution");
    let inputs = patch.taps(model, &node.inputs)?;
    let bias = added.clone().into_tensor().into_shape(&[channels])?;
    let bias = patch.add_const(format!("{}.bias", addition.name), bias)?;
    let result = patch.wire_node(&addition.name, node.op.clone(), &[inputs[0], inputs[1], bias])?;
    patch.shunt_outside(model, addition.id.into(), result[0])?;
    Ok(Some(patch))
}
