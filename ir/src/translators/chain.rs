//! A chain of operators, each on the output of the one before.

use tract_core::internal::*;
use tract_core::num_traits::Zero;
use tract_core::ops::array::Slice;
use tract_core::ops::change_axes::{AxisOp, perm_to_ops};
use tract_openvino::GatherRevision;

use super::indexing;
use crate::context::LayerContext;
use crate::operators::take::{Positions, Take};

/// The most positions along an axis that are kept as a constant.
const MOST_POSITIONS: usize = 1 << 20;

/// Operators, each on the output of the one before. The last one gets the layer's name.
#[derive(Default)]
pub(super) struct Chain {
    steps: Vec<(&'static str, Box<dyn TypedOp>, TVec<OutletId>)>,
}

impl Chain {
    /// Adds an operator. Its inputs are the output of the one before, and then `more`.
    pub(super) fn then(
        &mut self,
        suffix: &'static str,
        op: impl Into<Box<dyn TypedOp>>,
        more: &[OutletId],
    ) {
        self.steps.push((suffix, op.into(), more.into()));
    }

    pub(super) fn axis_op(&mut self, op: AxisOp) {
        if !op.is_noop() {
            self.then("axes", op, &[]);
        }
    }

    pub(super) fn reshape(&mut self, at: usize, from: &[TDim], to: &[TDim]) {
        self.axis_op(AxisOp::Reshape(at, from.into(), to.into()));
    }

    pub(super) fn permute(&mut self, order: &[usize]) {
        perm_to_ops(order).into_iter().for_each(|op| self.axis_op(op));
    }

    /// Takes the elements at some positions of an axis. The positions are a constant if they are known.
    pub(super) fn take(
        &mut self,
        ctx: &mut LayerContext,
        axis: usize,
        dim: &TDim,
        positions: Positions,
    ) -> TractResult<()> {
        let known = match dim.to_usize() {
            Ok(size) => positions.on_axis(size, &SymbolValues::default()),
            Err(error) => Err(error.into()),
        };
        match known {
            Ok(known) if known.len() <= MOST_POSITIONS => {
                let known: Vec<i64> = known
                    .map(|position| Ok(i64::try_from(position?)?))
                    .collect::<TractResult<_>>()?;
                let known = ctx.add_const("positions", tensor1(&known))?;
                let gather = indexing::gather(ctx, GatherRevision::V1, axis);
                self.then("take", gather, &[known]);
            }
            _ => self.then("take", Take { axis, positions }, &[]),
        }
        Ok(())
    }

    /// Takes the elements from `start` to before `end` along an axis.
    ///
    /// # Errors
    ///
    /// These are fewer than none, whatever the sizes are.
    pub(super) fn contiguous(
        &mut self,
        axis: usize,
        dim: &TDim,
        start: TDim,
        end: TDim,
    ) -> TractResult<()> {
        let (start, end) = (start.simplify(), end.simplify());
        ensure!(
            (end.clone() - &start).simplify().as_i64().is_none_or(|len| len >= 0),
            "of axis {axis}, whose size is {dim}, the elements from {start} to {end} would be left, which are fewer than none"
        );
        if !start.is_zero() || end != *dim {
            self.then("slice", Slice { axis, start, end }, &[]);
        }
        Ok(())
    }

    /// Wires the operators. Without any, the output is the outlet itself.
    pub(super) fn wire(self, ctx: &mut LayerContext, outlet: OutletId) -> TractResult<OutletId> {
        self.wire_as(ctx, "", outlet)
    }

    /// Wires the operators. The name of the last node has a suffix.
    pub(super) fn wire_as(
        self,
        ctx: &mut LayerContext,
        name: &str,
        outlet: OutletId,
    ) -> TractResult<OutletId> {
        let last = self.steps.len().saturating_sub(1);
        let mut outlet = outlet;
        for (number, (suffix, op, more)) in self.steps.into_iter().enumerate() {
            let inputs: TVec<OutletId> = std::iter::once(outlet).chain(more).collect();
            outlet = ctx.wire(if number == last { name } else { suffix }, op, &inputs)?;
        }
        Ok(outlet)
    }
}
