//! The order of axes that convolutions and pools work in: channels behind the spatial axes.

use tract_core::internal::*;
use tract_core::ops::array::TypedConcat;
use tract_core::ops::nn::DataFormat;

use super::chain::Chain;
use super::found::Found;

/// A format with the channels behind the spatial axes.
pub(super) fn channels_last(format: DataFormat) -> DataFormat {
    match format {
        DataFormat::NCHW => DataFormat::NHWC,
        DataFormat::CHW => DataFormat::HWC,
        format => format,
    }
}

/// An operator that works with the channels last, in place of a chain whose data has a format; or several, whose outputs are put together
/// along the channels. `residual` is a second input of it. Operators of one input follow, if there are some. Axes are moved in front of all
/// and behind them if they must; where neighbours need no move is decided for all of the model.
pub(super) fn wire_channels_last(
    chain: &Chain,
    data: OutletId,
    residual: Option<OutletId>,
    format: DataFormat,
    mut parts: Vec<Box<dyn TypedOp>>,
    after: Vec<Box<dyn TypedOp>>,
) -> TractResult<TypedModelPatch> {
    let first = usize::from(format.has_n());
    let last = chain.model.outlet_fact(data)?.rank() - 1;
    let mut ops: Vec<Box<dyn TypedOp>> = match parts.len() {
        1 => std::mem::take(&mut parts),
        _ => vec![Box::new(TypedConcat::new(last))],
    };
    ops.extend(after);
    let mut before = None;
    if !format.c_is_last() {
        before = Some(AxisOp::Move(first, last));
        ops.push(Box::new(AxisOp::Move(last, first)));
    }
    let inputs: TVec<OutletId> = [Some(data), residual].into_iter().flatten().collect();
    chain.replaced_by_parts(&inputs, before, parts, ops)
}

/// What does the same as a node with the channels last in all inputs and in the output, if something does.
pub(super) fn with_channels_last(model: &TypedModel, node: &TypedNode) -> Found<Box<dyn TypedOp>> {
    let rank = node.outputs[0].fact.rank();
    // An operator on axes would be one on other axes, with other ones around it.
    rule_if!(rank > 2 && !node.op_is::<AxisOp>());
    let inputs = model.node_input_facts(node.id)?;
    rule_if!(inputs.iter().all(|input| input.rank() == rank));
    let change = AxisOp::Move(1, rank - 1);
    rule_if_some!(changed = node.op.change_axes(model, node, InOut::In(0), &change)?);
    let is_changed = |at| changed.wire_changes.contains(&(at, change.clone()));
    let inputs = (0..node.inputs.len()).map(InOut::In);
    rule_if!(inputs.chain([InOut::Out(0)]).all(is_changed));
    Ok(Some(changed.substitute_op.unwrap_or_else(|| node.op.clone())))
}

/// Operators on axes from a node on that split the channels, move the parts and merge them again, as ShuffleNet does: the channels are
/// another order of themselves. The second result does that where they are last.
pub(super) fn shuffled_channels_last<'a>(
    model: &'a TypedModel,
    node: &'a TypedNode,
) -> Found<(Chain<'a>, Vec<AxisOp>)> {
    let rank = model.outlet_fact(node.inputs[0])?.rank();
    rule_if_some!(others = rank.checked_sub(2).filter(|others| *others > 0));
    let mut chain = Chain::new(model, node);
    // How many axes the channels are, after the first one.
    let mut axes = 1;
    let mut ops = vec![];
    loop {
        rule_if_some!(op = chain.last().op_as::<AxisOp>());
        ops.push(match op {
            AxisOp::Reshape(1, from, to) if from.len() == axes => {
                axes = to.len();
                AxisOp::Reshape(1 + others, from.clone(), to.clone())
            }
            AxisOp::Move(from, to) if [*from, *to].iter().all(|axis| (1..=axes).contains(axis)) => {
                AxisOp::Move(from + others, to + others)
            }
            _ => return Ok(None),
        });
        if axes == 1 {
            return Ok(Some((chain, ops)));
        }
        rule_if_some!((next, _) = chain.user()?);
        chain.push(next);
    }
}
