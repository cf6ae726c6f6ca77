//! Regions of a model whose tensors are in bf16: what convolutions read that round their factors.
//!
//! A tensor is in bf16 if what makes it can write that, and all that reads it can read that. So nothing is converted on its own.

use tract_core::internal::*;
use tract_core::ops::array::TypedConcat;

use super::rule::{Movement, Session};
use crate::bf16::BF16;
use crate::concat::Concatenation;
use crate::convolution::{ChannelsLastPool, PackedConvolution};
use crate::elementwise::Elementwise;
use crate::isa::Instructions;
use crate::reduction::ReductionOfAxes;
use crate::slice::SliceOfAxis;
use crate::transposition::Transposition;

/// The name of this part, for those who leave it out.
pub(super) const NAME: &str = "bf16_tensors";

/// What an operator does with tensors in bf16.
enum Role {
    /// It can read some of its inputs in bf16, and the same operator can write its output in that, if there is one.
    Converts(Vec<bool>, Option<Box<dyn TypedOp>>),
    /// Its output is of the type of its inputs, whatever that is.
    Moves,
}

impl Role {
    fn of(model: &TypedModel, node: &TypedNode) -> TractResult<Option<Role>> {
        if let Some(op) = node.op_as::<PackedConvolution>() {
            let converts = || {
                let rounded: Box<dyn TypedOp> = Box::new(op.with_output_in_bf16());
                Role::Converts(vec![true; node.inputs.len()], Some(rounded))
            };
            return Ok(op.takes_bf16().then(converts));
        }
        if let Some(op) = node.op_as::<ChannelsLastPool>() {
            let rounded = op.with_output_in_bf16().map(|op| Box::new(op) as _);
            return Ok(Some(Role::Converts(vec![true], rounded)));
        }
        if let Some(op) = node.op_as::<Elementwise>() {
            let of_output = &node.outputs[0].fact.shape;
            let inputs = model.node_input_facts(node.id)?;
            let reads = inputs.iter().map(|input| input.shape == *of_output).collect();
            let rounded = Elementwise { output: BF16, ..op.clone() };
            return Ok(Some(Role::Converts(reads, Some(Box::new(rounded)))));
        }
        if node.op_is::<ReductionOfAxes>() {
            return Ok(Some(Role::Converts(vec![true], None)));
        }
        let moves =
            is_one_of!(node.op, AxisOp, Concatenation, SliceOfAxis, Transposition, TypedConcat)
                || Movement::Moves.has(&*node.op);
        Ok(moves.then_some(Role::Moves))
    }

    fn writes(&self) -> bool {
        matches!(self, Role::Moves | Role::Converts(_, Some(_)))
    }
}

/// Has tensors in bf16 where that is possible, if factors are rounded to that, and tiles of the processor multiply them.
///
/// # Errors
///
/// The model contradicts itself.
pub(super) fn translate(session: &Session, model: &mut TypedModel) -> TractResult<()> {
    let has_tiles = session.bf16().is_some() && Instructions::detect().has_amx();
    let rounds = |node: &TypedNode| node.op_as().is_some_and(PackedConvolution::rounds);
    if !has_tiles || !model.nodes.iter().any(rounds) {
        return Ok(());
    }
    let roles = model.nodes.iter().map(|node| Role::of(model, node));
    let mut roles: Vec<Option<Role>> = roles.collect::<TractResult<_>>()?;
    let (outputs, order) = (model.output_outlets()?, model.eval_order()?);
    // Whether convolutions that round read all that becomes of a node's output, but for sums of axes. What a model makes of the last
    // convolutions, as positions, is none of it.
    let mut are_for_products = vec![false; model.nodes.len()];
    for node in order.iter().rev().map(|id| model.node(*id)) {
        let readers = node.outputs.iter().flat_map(|output| &output.successors);
        let readers = readers.map(|inlet| model.node(inlet.node));
        let mut others = readers.filter(|reader| !reader.op_is::<ReductionOfAxes>()).peekable();
        are_for_products[node.id] = (others.peek().is_some() || rounds(node))
            && others.all(|reader| {
                rounds(reader) || roles[reader.id].is_some() && are_for_products[reader.id]
            });
    }
    let may_be = |node: &TypedNode| match &*node.outputs {
        [output] => {
            roles[node.id].as_ref().is_some_and(Role::writes)
                && output.fact.datum_type == DatumType::F32
                && !outputs.contains(&node.id.into())
                && are_for_products[node.id]
        }
        _ => false,
    };
    let mut are_rounded: Vec<bool> = model.nodes.iter().map(may_be).collect();
    let mut changes = true;
    while changes {
        changes = false;
        for id in &order {
            let node = model.node(*id);
            let is_read = |inlet: &InletId| match &roles[inlet.node] {
                Some(Role::Converts(reads, _)) => reads[inlet.slot],
                Some(Role::Moves) => are_rounded[inlet.node],
                None => false,
            };
            let is_made = !matches!(roles[*id], Some(Role::Moves))
                || node.inputs.iter().all(|input| are_rounded[input.node]);
            let may_be = is_made && node.outputs[0].successors.iter().all(is_read);
            if are_rounded[*id] && !may_be {
                are_rounded[*id] = false;
                changes = true;
            }
        }
    }
    for id in order.into_iter().filter(|id| are_rounded[*id]) {
        let node = model.node_mut(id);
        if let Some(Role::Converts(_, Some(rounded))) = roles[id].take() {
            node.op = rounded;
        }
        node.outputs[0].fact.datum_type = BF16;
    }
    Ok(())
}
