//! Regions of a model whose values are codes.
//!
//! A model with [`FakeQuantize`], or with ONNX's QuantizeLinear and DequantizeLinear behind each other, computes numbers that are
//! few: they are codes in all but the type. This part translates such a model: what lies between two of these operators works
//! on codes, if it can. It looks at the model as its reader gave it, where weights are codes still.
//!
//! Each value of the model may exist in up to four forms, of which one is made from another where it is needed: as numbers or as codes,
//! each with the axes that the model has, or with the channels last, which the model has second.

mod nodes;
#[cfg(test)]
mod tests;
mod weights;

use std::collections::HashSet;
use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cast::Cast;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::math::{Add, Mul};
use tract_core::ops::quant::{DequantizeLinearF32, QuantizeLinearI8, QuantizeLinearU8};
use tract_core::optim::Optimizer;

use super::chain::Chain;
use super::found::{Found, is_binary};
use super::rule::{Movement, Outcome, Refusable, Session};
use super::translation::Translation;
use crate::quantized::CodeLayout::{self, ChannelsLast, SameAxes};
use crate::quantized::{Dequantize, FakeQuantize, Levels, Operation};

/// The name of this part, as if it were a rule.
pub(super) const NAME: &str = "quantized";

/// Makes a model one on codes, as far as it has any.
///
/// # Errors
///
/// The model contradicts itself.
pub(super) fn translate(session: &Session, model: &mut TypedModel) -> TractResult<()> {
    if model.nodes.iter().any(makes_levels) {
        // So that what is added to channels is a constant.
        Optimizer::prop_consts().optimize(model)?;
        *model = translated(session, model)?;
    }
    Ok(())
}

fn translated(session: &Session, source: &TypedModel) -> TractResult<TypedModel> {
    let (done, constants) = Default::default();
    let model = Translation::new(source);
    let mut translation = QuantizedTranslation { session, source, model, done, constants };
    for input in source.input_outlets()? {
        let outlet = translation.model.input(*input, source.outlet_fact(*input)?.clone())?;
        translation.set(*input, QuantizedForms::of(outlet, None, SameAxes));
    }
    for id in source.eval_order()? {
        if !translation.done.contains(&id) {
            let node = source.node(id);
            translation.node(node).with_context(|| format!("{NAME}, {node}"))?;
        }
    }
    let outputs = source.output_outlets()?;
    let outputs = outputs.iter().map(|outlet| translation.output(*outlet));
    let outputs = outputs.collect::<TractResult<Vec<_>>>()?;
    translation.model.into_target(&outputs)
}

/// A model on its way to operators on codes.
struct QuantizedTranslation<'a> {
    session: &'a Session<'a>,
    source: &'a TypedModel,
    model: Translation<'a, QuantizedForms>,
    /// The nodes that are translated.
    done: HashSet<usize>,
    /// The nodes that are computed from constants alone.
    constants: HashSet<usize>,
}

/// The axis of a value of the model, of so many, that is the last one of its codes in a layout: levels may differ along it.
fn channel_axis(layout: CodeLayout, rank: usize) -> usize {
    match layout {
        ChannelsLast => 1,
        SameAxes => rank - 1,
    }
}

/// The forms of a value: its numbers and its codes, for each [`CodeLayout`] in which they are there. With `SameAxes` they have
/// the axes of the model, and otherwise the channels last, which the model has second.
#[derive(Debug, Clone, Default)]
struct QuantizedForms {
    numbers: [Option<OutletId>; 2],
    codes: [Option<OutletId>; 2],
    /// What the codes stand for. Channels that differ are the last axis of the codes.
    levels: Option<Arc<Levels>>,
}

impl QuantizedForms {
    /// The forms of an operator's output: codes of levels, or numbers, in one layout.
    fn of(outlet: OutletId, levels: Option<Arc<Levels>>, layout: CodeLayout) -> QuantizedForms {
        let mut forms = QuantizedForms { levels, ..QuantizedForms::default() };
        let layouts = if forms.levels.is_some() { &mut forms.codes } else { &mut forms.numbers };
        layouts[layout as usize] = Some(outlet);
        forms
    }

    /// Codes that are there, and their layout.
    fn any_codes(&self) -> TractResult<(OutletId, CodeLayout)> {
        let codes = [ChannelsLast, SameAxes].map(|it| Some((self.codes[it as usize]?, it)));
        codes.into_iter().flatten().next().context("a value has levels, but no codes")
    }

    /// The layout of the codes of a tensor of so many axes that needs no move, if one is there.
    fn layout_of_codes(&self, rank: usize) -> CodeLayout {
        match self.codes[ChannelsLast as usize].is_some() && rank > 2 {
            true => ChannelsLast,
            false => SameAxes,
        }
    }
}

impl<'a> QuantizedTranslation<'a> {
    fn rank(&self, outlet: OutletId) -> TractResult<usize> {
        Ok(self.source.outlet_fact(outlet)?.rank())
    }

    /// Adds a node of one output.
    fn wire(
        &mut self,
        name: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        Ok(self.model.wire(name, op, inputs)?[0])
    }

    /// An output of the model, with its label.
    fn output(&mut self, outlet: OutletId) -> TractResult<OutletId> {
        let output = self.numbers(outlet)?;
        self.model.labelled(outlet, output)
    }

    fn set(&mut self, outlet: OutletId, value: QuantizedForms) {
        self.done.insert(outlet.node);
        self.model.values.insert(outlet, value);
    }

    /// A value as numbers, as the model has them.
    fn numbers(&mut self, outlet: OutletId) -> TractResult<OutletId> {
        let mut value = self.model.value(outlet)?;
        if let Some(numbers) = value.numbers[SameAxes as usize] {
            return Ok(numbers);
        }
        let name = self.source.node(outlet.node).name.clone();
        let numbers = if let Some(last) = value.numbers[ChannelsLast as usize] {
            let axis = self.rank(outlet)? - 1;
            self.wire(&format!("{name}.channels"), AxisOp::Move(axis, 1), &[last])?
        } else {
            let levels = value.levels.clone().context("codes have levels")?;
            let (codes, layout) = value.any_codes()?;
            self.wire(&format!("{name}.numbers"), Dequantize { levels, layout }, &[codes])?
        };
        value.numbers[SameAxes as usize] = Some(numbers);
        self.model.values.insert(outlet, value);
        Ok(numbers)
    }

    /// A value as codes in a layout, if it has codes whose levels allow it.
    fn codes(&mut self, outlet: OutletId, layout: CodeLayout) -> Found<(OutletId, Arc<Levels>)> {
        let mut value = self.model.value(outlet)?;
        rule_if_some!(levels = value.levels.clone());
        if let Some(codes) = value.codes[layout as usize] {
            return Ok(Some((codes, levels)));
        }
        let (other, other_layout) = value.any_codes()?;
        let rank = self.rank(outlet)?;
        let codes = if rank <= 2 {
            other
        } else {
            rule_if!(levels.are_the_same());
            let name = format!("{}.codes", self.source.node(outlet.node).name);
            let (from, to) = (channel_axis(layout, rank), channel_axis(other_layout, rank));
            self.wire(&name, AxisOp::Move(from, to), &[other])?
        };
        value.codes[layout as usize] = Some(codes);
        self.model.values.insert(outlet, value);
        Ok(Some((codes, levels)))
    }

    /// A node as it is.
    fn copy(&mut self, node: &TypedNode) -> TractResult<()> {
        let inputs = node.inputs.iter().map(|input| self.numbers(*input));
        let inputs = inputs.collect::<TractResult<TVec<_>>>()?;
        let outlets = self.model.wire(&node.name, node.op.clone(), &inputs)?;
        let is_simple = makes_levels(node)
            || is_one_of!(node.op, AxisOp, Cast, TypedBinOp, DequantizeLinearF32);
        let is_constant = |input: &OutletId| self.constants.contains(&input.node);
        if node.outputs[0].fact.konst.is_some()
            || (is_simple && node.inputs.iter().all(is_constant))
        {
            self.constants.insert(node.id);
        }
        for (slot, outlet) in outlets.into_iter().enumerate() {
            let outlet_of_source = OutletId::new(node.id, slot);
            self.set(outlet_of_source, QuantizedForms::of(outlet, None, SameAxes));
        }
        Ok(())
    }

    fn node(&mut self, node: &'a TypedNode) -> TractResult<()> {
        let mut outcome = None;
        for translate in Self::KINDS {
            outcome = translate(self, node)?;
            if outcome.is_some() {
                break;
            }
        }
        let has_codes = |input: &OutletId| {
            self.model.values.get(input).is_some_and(|value| value.levels.is_some())
        };
        let outcome = match outcome {
            Some(Translated::Done(by)) => Outcome::Replaced(by.to_string()),
            Some(Translated::Forwarded) => return Ok(()),
            Some(Translated::Refused(reason)) => Outcome::Refused(reason),
            None if node.inputs.iter().any(has_codes) => {
                Outcome::Refused("there is no operator on codes for it".into())
            }
            None => return self.copy(node),
        };
        let is_refused = matches!(outcome, Outcome::Refused(_));
        self.session.decide(NAME, node, outcome);
        if is_refused { self.copy(node) } else { Ok(()) }
    }

    /// A constant, or what is computed from some: tract does not fold large ones.
    fn constant(&self, outlet: OutletId) -> Found<Arc<Tensor>> {
        if let Some(konst) = &self.source.outlet_fact(outlet)?.konst {
            return Ok(Some(konst.clone()));
        }
        rule_if!(self.constants.contains(&outlet.node));
        let node = self.source.node(outlet.node);
        let inputs = node.inputs.iter().map(|input| self.constant(*input));
        rule_if_some!(inputs = inputs.collect::<Found<TVec<_>>>()?);
        let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
        let output = node.op.eval_out_of_plan(inputs)?;
        Ok(output.map(|mut output| output.remove(0).into_arc_tensor()))
    }

    /// The values that a node gives: what is made of codes again, if it makes codes.
    fn ends(&self, node: &TypedNode) -> Vec<OutletId> {
        match quantize_parameters(node) {
            Some(_) => {
                let successors = node.outputs[0].successors.iter();
                successors.map(|successor| successor.node.into()).collect()
            }
            None => vec![node.id.into()],
        }
    }

    /// Wires an operator in place of a chain.
    fn replace(
        &mut self,
        chain: &Chain,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
        levels: Option<Arc<Levels>>,
        layout: CodeLayout,
    ) -> Found<Translated> {
        let op = op.into();
        let by = op.name();
        let last = chain.last();
        let outlet = self.wire(&last.name, op, inputs)?;
        let value = QuantizedForms::of(outlet, levels, layout);
        self.done.extend(chain.ids());
        for end in self.ends(last) {
            self.set(end, value.clone());
        }
        Ok(Some(Translated::Done(by)))
    }
}

/// What became of a node, if it is one of those that this part is for.
enum Translated {
    /// It, and perhaps what follows, is this operator.
    Done(StaticName),
    /// It computes nothing: what it gives are codes or numbers that were there, perhaps in other places.
    Forwarded,
    Refused(String),
}

impl Refusable for Found<Translated> {
    fn refused(reason: String) -> Self {
        Ok(Some(Translated::Refused(reason)))
    }
}

/// Whether an operator puts elements in other places, and does nothing else.
fn moves_elements(op: &dyn TypedOp) -> bool {
    is_one_of!(op, AxisOp, Slice, TypedConcat)
        || Movement::Checks.has(op)
        || Movement::Moves.has(op)
}

/// Whether a node rounds numbers to levels: FakeQuantize, or QuantizeLinear as tract reads it from ONNX.
fn makes_levels(node: &TypedNode) -> bool {
    node.op_is::<FakeQuantize>() || quantize_parameters(node).is_some()
}

/// The reciprocal of the scale, and the zero point of unsigned codes, of a QuantizeLinear of tract.
fn quantize_parameters(node: &TypedNode) -> Option<(f32, i32)> {
    let op = node.op_as::<ElementWiseOp>()?;
    if let Some(op) = op.0.downcast_ref::<QuantizeLinearU8>() {
        return Some((op.scale, op.zero_point.into()));
    }
    let op = op.0.downcast_ref::<QuantizeLinearI8>()?;
    Some((op.scale, i32::from(op.zero_point) + 128))
}

/// What a node makes of two numbers, if it is one of ours.
fn operation_of(node: &TypedNode) -> Option<Operation> {
    match () {
        () if is_binary::<Add>(node) => Some(Operation::Add),
        () if is_binary::<Mul>(node) => Some(Operation::Multiply),
        () => None,
    }
}
