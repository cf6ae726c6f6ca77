//! The order of axes that the operators of this crate work in: channels before the spatial axes.

use tract_core::internal::*;
use tract_core::ops::nn::DataFormat;

use super::chain::Chain;

/// The same format with the channels before the spatial axes.
pub(super) fn channels_first(format: DataFormat) -> DataFormat {
    match format {
        DataFormat::NHWC => DataFormat::NCHW,
        DataFormat::HWC => DataFormat::CHW,
        format => format,
    }
}

/// An operator that works with channels first, and operators of one input that follow it, in place of a chain whose data has a
/// format. Axes are moved in front of them and behind them if they must; tract then lets neighbours cancel each other.
pub(super) fn wire_channels_first(
    chain: &Chain,
    data: OutletId,
    format: DataFormat,
    op: impl Into<Box<dyn TypedOp>>,
    mut after: Vec<Box<dyn TypedOp>>,
) -> TractResult<TypedModelPatch> {
    let mut before = None;
    if format.c_is_last() {
        let last = chain.model.outlet_fact(data)?.rank() - 1;
        let first = usize::from(format.has_n());
        before = Some(AxisOp::Move(last, first));
        after.push(Box::new(AxisOp::Move(first, last)));
    }
    chain.replaced_between(data, before, op, after)
}
