//! Products of two factors that are computed when the model runs, or of many matrices that are constants.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;

use super::found::{Found, is_single};
use super::rule::{Rewrite, Session, or_refuse, refuse_if};
use crate::contraction::{BatchAxis, Contraction};

/// The product of a node, if it is one that this crate's operator computes.
pub(super) fn contraction(
    session: &Session,
    model: &TypedModel,
    node: &TypedNode,
) -> Found<Contraction> {
    rule_if_some!(op = node.op_as::<EinSum>());
    let facts = model.node_input_facts(node.id)?;
    rule_if!(facts.len() == 2 && facts.iter().all(|fact| is_single(fact)));
    rule_if!(op.operating_dt == DatumType::F32);
    let shapes = [&*facts[0].shape, &*facts[1].shape];
    rule_if_some!(product = Contraction::of(op, shapes));
    let (left, right) = (shapes[product.left], shapes[product.right]);
    rule_if!(product.takes(left, right, &node.outputs[0].fact.shape));
    Ok(Some(product.rounded_to(session.bf16())))
}

/// A product of two matrices, or of many.
pub(super) fn rewrite(session: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    /// With fewer rows or columns of the other factor, packing constants in each run costs more than the product gains: tract
    /// packs them once.
    const LEAST: usize = 64;
    rule_if!(node.op_is::<EinSum>());
    let product = contraction(session, model, node)?;
    let reason = "it must be a product of two matrices of type F32, or of many, whose rows are read in vectors";
    let product = or_refuse!(product.ok_or(reason));
    let left = model.outlet_fact(node.inputs[product.left])?;
    let right = model.outlet_fact(node.inputs[product.right])?;
    let has_many = |factor: &TypedFact, axis: fn(&BatchAxis) -> Option<usize>| {
        product.batch.iter().filter_map(axis).any(|axis| !factor.shape[axis].is_one())
    };
    let [columns, _] = product.axes_of_right();
    for (factor, has_many, met) in [
        (left, has_many(left, |it| it.left), &right.shape[columns]),
        (right, has_many(right, |it| it.right), &left.shape[product.rows[0]]),
    ] {
        if factor.konst.is_none() {
            continue;
        }
        refuse_if!(!has_many, "a factor is a constant, but is no matrix");
        refuse_if!(
            !met.to_usize().is_ok_and(|met| met >= LEAST),
            "a factor has constant matrices, and each meets {met} rows or columns, but must meet {LEAST}"
        );
    }
    Ok(Some(TypedModelPatch::replace_single_op(model, node, &node.inputs, product)?.into()))
}
