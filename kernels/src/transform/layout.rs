//! The order of axes that the operators of this crate work in: channels before the spatial axes.

use tract_core::internal::*;
use tract_core::ops::array::TypedConcat;
use tract_core::ops::nn::DataFormat;

use super::chain::Chain;

/// A format with the channels before the spatial axes.
pub(super) fn channels_first(format: DataFormat) -> DataFormat {
    match format {
        DataFormat::NHWC => DataFormat::NCHW,
        DataFormat::HWC => DataFormat::CHW,
        format => format,
    }
}

/// An operator that works with channels first, in place of a chain whose data has a format; or several, whose outputs are put together
/// along the channels. Operators of one input follow, if there are some. Axes are moved in front of all and behind them if they must;
/// tract then lets neighbours cancel each other.
pub(super) fn wire_channels_first(
    chain: &Chain,
    data: OutletId,
    format: DataFormat,
    parts: Vec<impl Into<Box<dyn TypedOp>>>,
    after: Vec<Box<dyn TypedOp>>,
) -> TractResult<TypedModelPatch> {
    let first = usize::from(format.has_n());
    let mut parts: Vec<Box<dyn TypedOp>> = parts.into_iter().map(Into::into).collect();
    let mut ops: Vec<Box<dyn TypedOp>> = match parts.len() {
        1 => std::mem::take(&mut parts),
        _ => vec![Box::new(TypedConcat::new(first))],
    };
    ops.extend(after);
    let mut before = None;
    if format.c_is_last() {
        let last = chain.model.outlet_fact(data)?.rank() - 1;
        before = Some(AxisOp::Move(last, first));
        ops.push(Box::new(AxisOp::Move(first, last)));
    }
    chain.replaced_by_parts(data, before, parts, ops)
}
