//! Floats of fewer bits than tract has: they are rounded, and stay in single precision.

use tract_core::internal::*;
use tract_core::ops::array::{MultiBroadcastTo, Slice, TypedConcat};
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::element_wise::ElementWiseOp;

use super::LayerContext;
use crate::document::ElementType;
use crate::operators::rounding::{ToBf16, ToF8E4M3, ToF8E5M2, to_bf16, to_f8e4m3, to_f8e5m2};

impl LayerContext<'_, '_> {
    /// Rounds single-precision floats to another element type, if tract does not have that: to `bf16`, or to a float of 8 bits. The
    /// nearest number is taken, of halves the even one.
    ///
    /// OpenVINO's CPU plug-in rounds so where it converts, with its precision set to `f32`. Some of its operators, such as products of
    /// matrices, leave out digits instead when their outputs are of these types.
    pub(crate) fn rounded(
        &mut self,
        suffix: &str,
        outlet: OutletId,
        element_type: ElementType,
    ) -> TractResult<OutletId> {
        let rounding = match element_type {
            ElementType::BF16 => to_bf16(),
            ElementType::F8E4M3 => to_f8e4m3(),
            ElementType::F8E5M2 => to_f8e5m2(),
            _ => return Ok(outlet),
        };
        match self.type_of(outlet)? {
            DatumType::F32 => self.wire(suffix, rounding, &[outlet]),
            _ => Ok(outlet),
        }
    }

    /// An output of the layer. It is rounded if the file says that it is of such a type, and if it may be another number than those of
    /// the inputs, which are of the same type. Layers that convert round themselves.
    pub(super) fn rounded_output(
        &mut self,
        number: usize,
        outlet: OutletId,
    ) -> TractResult<OutletId> {
        let declared = self.layer.outputs.get(number).and_then(|port| port.element_type);
        match declared {
            Some(element_type) if !self.keeps_numbers(outlet) => {
                self.rounded("rounded", outlet, element_type)
            }
            _ => Ok(outlet),
        }
    }

    /// Whether the operator of an output moves numbers, or has rounded them.
    fn keeps_numbers(&self, outlet: OutletId) -> bool {
        let op = &self.model.node(outlet.node).op;
        let is_rounding = |op: &ElementWiseOp| {
            op.0.is::<ToBf16>() || op.0.is::<ToF8E4M3>() || op.0.is::<ToF8E5M2>()
        };
        op.is::<AxisOp>()
            || op.is::<Slice>()
            || op.is::<TypedConcat>()
            || op.is::<MultiBroadcastTo>()
            || op.downcast_ref().is_some_and(is_rounding)
    }
}
