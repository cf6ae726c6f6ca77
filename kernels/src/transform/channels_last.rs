//! Regions of a model with the channels last.
//!
//! Convolutions and pools have the channels last, and moves of axes around them where the model has them second. What lies between two of
//! them has the channels last, too, if it can: this part copies the model, and has each value in the order of axes in which it is
//! there, or in both, where operators need both.

use std::collections::HashSet;

use tract_core::internal::*;
use tract_core::ops::konst::Const;

use super::layout::{shuffled_channels_last, with_channels_last};
use super::translation::Translation;
use crate::convolution::{ChannelsLastPool, PackedConvolution};

/// A value of the model.
#[derive(Debug, Clone, Copy, Default)]
struct Layouts {
    /// With the axes of the model.
    of_model: Option<OutletId>,
    /// With the channels last, which the model has second.
    channels_last: Option<OutletId>,
}

/// Puts the channels last in regions of convolutions and pools.
///
/// # Errors
///
/// The model contradicts itself.
pub(super) fn translate(model: &mut TypedModel) -> TractResult<()> {
    let is_one = |node: &TypedNode| is_one_of!(node.op, PackedConvolution, ChannelsLastPool);
    if model.nodes.iter().any(is_one) {
        *model = translated(model)?;
    }
    Ok(())
}

fn translated(source: &TypedModel) -> TractResult<TypedModel> {
    let mut copy = RegionTranslation { model: Translation::new(source), done: HashSet::new() };
    for input in source.input_outlets()? {
        let outlet = copy.model.input(*input, source.outlet_fact(*input)?.clone())?;
        copy.set(*input, Layouts { of_model: Some(outlet), channels_last: None });
    }
    for id in source.eval_order()? {
        if !copy.done.contains(&id) {
            let node = source.node(id);
            copy.node(node).with_context(|| format!("putting channels last, {node}"))?;
        }
    }
    let outputs = source.output_outlets()?.iter().map(|outlet| {
        let output = copy.of_model(*outlet)?;
        copy.model.labelled(*outlet, output)
    });
    let outputs = outputs.collect::<TractResult<Vec<_>>>()?;
    copy.model.into_target(&outputs)
}

/// A model on its way to channels last.
struct RegionTranslation<'a> {
    model: Translation<'a, Layouts>,
    /// The nodes that are copied.
    done: HashSet<usize>,
}

impl<'a> RegionTranslation<'a> {
    fn set(&mut self, outlet: OutletId, layouts: Layouts) {
        self.done.insert(outlet.node);
        self.model.values.insert(outlet, layouts);
    }

    /// The fact and the name of a value.
    fn source_of(&self, outlet: OutletId) -> TractResult<(&'a TypedFact, &'a str)> {
        Ok((self.model.source.outlet_fact(outlet)?, &self.model.source.node(outlet.node).name))
    }

    /// A value with the axes of the model.
    fn of_model(&mut self, outlet: OutletId) -> TractResult<OutletId> {
        let mut layouts = self.model.value(outlet)?;
        if let Some(there) = layouts.of_model {
            return Ok(there);
        }
        let last = layouts.channels_last.context("a value is in no order of axes")?;
        let (fact, name) = self.source_of(outlet)?;
        let name = format!("{name}.channels");
        let moved = self.model.wire(&name, AxisOp::Move(fact.rank() - 1, 1), &[last])?[0];
        layouts.of_model = Some(moved);
        self.model.values.insert(outlet, layouts);
        Ok(moved)
    }

    /// A value with the channels last.
    fn channels_last(&mut self, outlet: OutletId) -> TractResult<OutletId> {
        let mut layouts = self.model.value(outlet)?;
        if let Some(there) = layouts.channels_last {
            return Ok(there);
        }
        let (fact, name) = self.source_of(outlet)?;
        let (name, to_last) = (format!("{name}.last"), AxisOp::Move(1, fact.rank() - 1));
        let moved = match &fact.konst {
            Some(konst) => {
                let mut konst = konst.clone().into_tensor();
                to_last.change_tensor(&mut konst, false)?;
                self.model.wire(&name, Const::new(konst.into_arc_tensor())?, &[])?[0]
            }
            None => {
                let of_model = self.of_model(outlet)?;
                self.model.wire(&name, to_last, &[of_model])?[0]
            }
        };
        layouts.channels_last = Some(moved);
        self.model.values.insert(outlet, layouts);
        Ok(moved)
    }

    /// Whether a value is there with the channels last.
    fn is_last(&self, outlet: OutletId) -> bool {
        self.model.values.get(&outlet).is_some_and(|layouts| layouts.channels_last.is_some())
    }

    fn node(&mut self, node: &'a TypedNode) -> TractResult<()> {
        if let (Some(op), [input]) = (node.op_as::<AxisOp>(), &*node.inputs)
            && self.axis_op(node, op, *input)?
        {
            return Ok(());
        }
        if node.outputs.len() == 1
            && node.inputs.iter().any(|input| self.is_last(*input))
            && let Some(op) = with_channels_last(self.model.source, node)?
        {
            let inputs = node.inputs.iter().map(|input| self.channels_last(*input));
            let inputs = inputs.collect::<TractResult<TVec<_>>>()?;
            let last = self.model.wire(&node.name, op, &inputs)?[0];
            self.set(node.id.into(), Layouts { of_model: None, channels_last: Some(last) });
            return Ok(());
        }
        let inputs = node.inputs.iter().map(|input| self.of_model(*input));
        let inputs = inputs.collect::<TractResult<TVec<_>>>()?;
        let outlets = self.model.wire(&node.name, node.op.clone(), &inputs)?;
        for (slot, outlet) in outlets.into_iter().enumerate() {
            let layouts = Layouts { of_model: Some(outlet), channels_last: None };
            self.set(OutletId::new(node.id, slot), layouts);
        }
        Ok(())
    }

    /// A move of the channels behind the other axes or back, a change of the axes behind them, or a shuffle of them: whether it is one of
    /// these.
    fn axis_op(&mut self, node: &'a TypedNode, op: &AxisOp, input: OutletId) -> TractResult<bool> {
        let last = node.outputs[0].fact.rank().saturating_sub(1);
        if last < 2 {
            return Ok(false);
        }
        let is = |other: AxisOp| *op.canonical() == *other.canonical();
        if is(AxisOp::Move(1, last)) && self.is_last(input) {
            let of_model = Some(self.channels_last(input)?);
            self.set(node.id.into(), Layouts { of_model, channels_last: None });
            return Ok(true);
        }
        if is(AxisOp::Move(last, 1)) {
            let channels_last = Some(self.of_model(input)?);
            self.set(node.id.into(), Layouts { of_model: None, channels_last });
            return Ok(true);
        }
        if self.is_last(input)
            && let Some(op) = behind_channels(op)
        {
            let inputs = [self.channels_last(input)?];
            let channels_last = Some(self.model.wire(&node.name, op, &inputs)?[0]);
            self.set(node.id.into(), Layouts { of_model: None, channels_last });
            return Ok(true);
        }
        if self.is_last(input)
            && let Some((chain, ops)) = shuffled_channels_last(self.model.source, node)?
        {
            let (mut outlet, name) = (self.channels_last(input)?, &chain.last().name);
            for op in ops {
                outlet = self.model.wire(name, op, &[outlet])?[0];
            }
            self.done.extend(chain.ids());
            let layouts = Layouts { of_model: None, channels_last: Some(outlet) };
            self.set(chain.last().id.into(), layouts);
            return Ok(true);
        }
        Ok(false)
    }
}

/// The same change, for data with the channels last, if it is one of axes behind the channels.
fn behind_channels(op: &AxisOp) -> Option<AxisOp> {
    match *op {
        AxisOp::Add(at) if at > 1 => Some(AxisOp::Add(at - 1)),
        AxisOp::Rm(at) if at > 1 => Some(AxisOp::Rm(at - 1)),
        AxisOp::Move(from, to) if from > 1 && to > 1 => Some(AxisOp::Move(from - 1, to - 1)),
        AxisOp::Reshape(at, ref from, ref to) if at > 1 => {
            Some(AxisOp::Reshape(at - 1, from.clone(), to.clone()))
        }
        _ => None,
    }
}
