//! Max pools.

use tract_core::internal::*;
use tract_core::ops::cnn::MaxPool;

use super::chain::Chain;
use super::layout::{channels_first, wire_channels_first};
use super::rule::{Phase, Rewrite, Rule, Session, refuse_if};
use crate::convolution::{MaxPoolOfPlanes, PackedConvolution};

/// A max pool over one or two spatial axes.
#[derive(Debug)]
pub(super) struct MaxPools;

impl Rule for MaxPools {
    fn name(&self) -> &'static str {
        "max_pool"
    }

    fn phase(&self) -> Phase {
        Phase::BeforeAxisMoves
    }

    fn rewrite(
        &self,
        _session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite> {
        let Some(op) = node.op_as::<MaxPool>() else { return Ok(Rewrite::NotMine) };
        let mut spec = op.pool_spec.clone();
        let (dt, rank) = (node.outputs[0].fact.datum_type, spec.rank());
        refuse_if!(dt != DatumType::F32, "its type is {dt:?}, but must be F32");
        refuse_if!(op.with_index_outputs.is_some(), "it has an output of indices");
        refuse_if!(rank > 2, "it has {rank} spatial axes, but must have 1 or 2");
        refuse_if!(
            !PackedConvolution::takes(&spec),
            "its padding is {:?}, but must be at most what the kernel reaches",
            spec.padding
        );
        let format = spec.data_format;
        spec.data_format = channels_first(format);
        let chain = Chain::new(model, node);
        let op = MaxPoolOfPlanes::new(spec);
        Ok(wire_channels_first(&chain, node.inputs[0], format, op)?.into())
    }
}
