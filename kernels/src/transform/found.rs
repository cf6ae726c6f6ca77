//! What rules look for: constants, functions of two numbers, and what is before a node and is done by the operator that replaces
//! both.

use tract_core::internal::*;
use tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::Mul;

/// What is looked for in a model, if it is there: tract's `rule_if!` ends such a function.
pub(super) type Found<T> = TractResult<Option<T>>;

/// The constant that an outlet is.
pub(super) fn constant(model: &TypedModel, outlet: OutletId) -> Found<&Arc<Tensor>> {
    Ok(model.outlet_fact(outlet)?.konst.as_ref())
}

/// The number that an outlet is, if it is a constant of one.
pub(super) fn number(model: &TypedModel, outlet: OutletId) -> Found<f32> {
    let one = constant(model, outlet)?.filter(|constant| constant.len() == 1);
    one.map(|constant| constant.cast_to_scalar()).transpose()
}

/// The number that all elements of an outlet are, if tract knows that of one that it has broadcast.
pub(super) fn uniform(model: &TypedModel, outlet: OutletId) -> Found<f32> {
    let fact = model.outlet_fact(outlet)?;
    let one = fact.konst.as_ref().or(fact.uniform.as_ref()).filter(|tensor| tensor.len() == 1);
    one.map(|tensor| tensor.cast_to_scalar()).transpose()
}

/// One number for each of so many channels, of a bias that may have one for all.
pub(super) fn of_channels(bias: &Tensor, channels: usize) -> TractResult<Vec<f32>> {
    Ok(match bias.try_as_plain_ram()?.as_slice::<f32>()? {
        [one] => vec![*one; channels],
        many => many.to_vec(),
    })
}

/// Whether tensors are of single precision, and in memory as they are.
pub(super) fn is_single(fact: &TypedFact) -> bool {
    fact.datum_type == DatumType::F32 && fact.is_plain()
}

/// Whether a node is a function of two numbers.
pub(super) fn is_binary<O: BinMiniOp>(node: &TypedNode) -> bool {
    binary(node).is_some_and(|op| op.is::<O>())
}

/// The function of two numbers that a node is.
pub(super) fn binary(node: &TypedNode) -> Option<&dyn BinMiniOp> {
    let op = node.op_as::<TypedBinOp>().filter(|op| op.1.is_none())?;
    Some(&*op.0)
}

/// The labels of the axes of a product's input or output.
pub(super) fn labels(op: &EinSum, slot: InOut) -> Vec<char> {
    op.axes.axes(slot).map(|axis| axis.repr).collect()
}

/// Whether a product of data and a matrix, by the labels of axes, sums over this axis of the data, and has another one in its place.
pub(super) fn replaces_axis(data: &[char], output: &[char], axis: usize, by: char) -> bool {
    let mut expected = data.to_vec();
    let summed = std::mem::replace(&mut expected[axis], by);
    output == expected && !data.contains(&by) && !expected.contains(&summed)
}

/// What needs the one output of a node, if that is no output of the model.
pub(super) fn uses<'a>(model: &TypedModel, node: &'a TypedNode) -> Found<&'a [InletId]> {
    rule_if_let!([output] = &*node.outputs);
    Ok((!model.output_outlets()?.contains(&node.id.into())).then_some(&*output.successors))
}

/// The node that alone needs the one output of a node, and the input that this is.
pub(super) fn only_use<'a>(
    model: &'a TypedModel,
    node: &TypedNode,
) -> Found<(&'a TypedNode, usize)> {
    rule_if_let!(Some([one]) = uses(model, node)?);
    Ok(Some((model.node(one.node), one.slot)))
}

/// Sizes as dimensions.
pub(super) fn dims(sizes: &[usize]) -> TVec<TDim> {
    sizes.iter().map(|size| size.to_dim()).collect()
}

/// Dimensions as sizes, if all are known.
pub(super) fn sizes(dims: &[TDim]) -> Option<TVec<usize>> {
    dims.iter().map(|dim| dim.to_usize().ok()).collect()
}

/// An operator in place of some nodes, of which one gives the result.
pub(super) fn replace_all(
    model: &TypedModel,
    nodes: impl IntoIterator<Item = usize>,
    last: &TypedNode,
    op: impl Into<Box<dyn TypedOp>>,
    inputs: &[OutletId],
) -> TractResult<TypedModelPatch> {
    let mut patch = TypedModelPatch::replace_single_op(model, last, inputs, op)?;
    nodes.into_iter().try_for_each(|node| patch.obliterate(node))?;
    Ok(patch)
}

/// Nodes of a model that one operator replaces, the last one first. Nobody else needs what the others give.
pub(super) struct FusedNodes<'a> {
    pub model: &'a TypedModel,
    pub nodes: TVec<usize>,
}

impl<'a> FusedNodes<'a> {
    pub fn new(model: &'a TypedModel, last: &TypedNode) -> FusedNodes<'a> {
        FusedNodes { model, nodes: tvec!(last.id) }
    }

    /// What a function finds. If that is nothing, the nodes that it came across stay in the model.
    pub fn attempt<T>(&mut self, find: impl FnOnce(&mut Self) -> Found<T>) -> Found<T> {
        let count = self.nodes.len();
        let result = find(self)?;
        if result.is_none() {
            self.nodes.truncate(count);
        }
        Ok(result)
    }

    /// The node that gives an outlet, if nobody else needs it.
    pub fn inner(&mut self, outlet: OutletId) -> Found<&'a TypedNode> {
        let node = self.model.node(outlet.node);
        rule_if_some!(uses = uses(self.model, node)?);
        rule_if!(uses.iter().all(|inlet| self.nodes.contains(&inlet.node)));
        self.nodes.push(node.id);
        Ok(Some(node))
    }

    /// The operands of a function of two numbers.
    pub fn operands<O: BinMiniOp>(&mut self, outlet: OutletId) -> Found<[OutletId; 2]> {
        rule_if_some!(node = self.inner(outlet)?);
        rule_if!(is_binary::<O>(node));
        Ok(node.inputs[..].try_into().ok())
    }

    /// The factors of a product.
    pub fn factors(&mut self, outlet: OutletId) -> Found<[OutletId; 2]> {
        self.operands::<Mul>(outlet)
    }
}
