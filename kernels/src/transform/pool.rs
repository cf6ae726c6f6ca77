//! Pools.

use tract_core::internal::*;
use tract_core::ops::cnn::{MaxPool, PaddingSpec, SumPool};

use super::chain::Chain;
use super::found::Found;
use super::layout::{channels_last, wire_channels_last};
use super::rule::{Rewrite, Session, refuse_if, refuse_unless_f32};
use crate::convolution::{ChannelsLastPool, PackedConvolution, PoolKind};

/// A pool over one to three spatial axes.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    let (mut spec, kind) = if let Some(op) = node.op_as::<MaxPool>() {
        refuse_if!(op.with_index_outputs.is_some(), "it has an output of indices");
        (op.pool_spec.clone(), PoolKind::Max)
    } else if let Some(op) = node.op_as::<SumPool>() {
        let kind = match (op.normalize, op.count_include_pad) {
            (false, _) => PoolKind::Sum,
            (true, true) => PoolKind::MeanWithPadding,
            (true, false) => PoolKind::Mean,
        };
        let padding = &op.pool_spec.padding;
        // The last windows may reach beyond the padding, and what is there does not count.
        refuse_if!(
            kind == PoolKind::MeanWithPadding
                && matches!(padding, PaddingSpec::ExplicitOnnxPool(.., true)),
            "it counts padding, and its output is rounded up"
        );
        (op.pool_spec.clone(), kind)
    } else {
        return Ok(None);
    };
    refuse_unless_f32!("its type is", node.outputs[0].fact.datum_type);
    refuse_if!(
        !PackedConvolution::takes(&spec),
        "it has {} spatial axes and padding {:?}, but must have 1 to 3 axes, and padding of at most what the kernel reaches",
        spec.rank(),
        spec.padding
    );
    let format = spec.data_format;
    spec.data_format = channels_last(format);
    let chain = Chain::new(model, node);
    let op = ChannelsLastPool::new(spec, kind);
    Ok(Some(
        wire_channels_last(&chain, node.inputs[0], None, format, vec![Box::new(op)], vec![])?
            .into(),
    ))
}
