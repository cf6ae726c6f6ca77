//! Products with a constant matrix.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::Add;

use super::chain::Chain;
use super::rule::{Phase, Rewrite, Rule, Session, refuse_if};
use crate::fully_connected::FullyConnected;

/// The product of rows with a constant matrix, a bias that is added, and an activation.
#[derive(Debug)]
pub(super) struct FullyConnectedLayers;

impl Rule for FullyConnectedLayers {
    fn name(&self) -> &'static str {
        "fully_connected"
    }

    fn phase(&self) -> Phase {
        // tract would move axes into the product, which are few in front of a matrix.
        Phase::BeforeAxisMoves
    }

    fn rewrite(
        &self,
        _session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite> {
        let Some(op) = node.op_as::<EinSum>() else { return Ok(Rewrite::NotMine) };
        let Some(transposed) = FullyConnected::takes(op) else { return Ok(Rewrite::NotMine) };
        let facts = model.node_input_facts(node.id)?;
        let Some(weights) = &facts[1].konst else { return Ok(Rewrite::NotMine) };
        let dts = [facts[0].datum_type, weights.datum_type()];
        refuse_if!(
            dts != [DatumType::F32; 2],
            "its factors are of types {:?} and {:?}, but must be F32",
            dts[0],
            dts[1]
        );
        refuse_if!(
            !weights.is_plain() || weights.len() == 0,
            "its weights must be plain, and have elements"
        );
        let [steps, columns] =
            [usize::from(transposed), usize::from(!transposed)].map(|axis| weights.shape()[axis]);
        // tract's operator broadcasts sums over one element.
        let depth = facts[0].shape.last();
        refuse_if!(
            depth != Some(&steps.to_dim()),
            "its data has rows of {} elements, but must have {steps}, the rows of the weights",
            depth.map_or_else(String::new, TDim::to_string)
        );
        let mut chain = Chain::new(model, node);
        let last = node.outputs[0].fact.rank() - 1;
        let mut bias = vec![0.; columns];
        while let Some(added) = chain.arithmetic::<Add>(last, columns)? {
            bias.iter_mut().zip(added).for_each(|(bias, added)| *bias += added);
        }
        let activation = chain.activation()?;
        let rows = facts[0].shape[..last].iter().product::<TDim>().to_usize().ok();
        let others = model.nodes().iter().filter_map(|node| node.op_as());
        let op = FullyConnected::new(weights, transposed, bias, activation, rows, others)?;
        Ok(chain.replaced_by(op, &node.inputs[..1])?.into())
    }
}
