//! Axes that are moved there and back.

use tract_core::internal::*;

use super::found::{Found, dims, only_use};
use super::rule::{Rewrite, Session};

/// Moves of axes and reshapes, one after the other, after which all elements are in the order in which they were before: together they
/// are one Reshape. tract lets neighbours cancel each other, but not around a Reshape. In detectors the channels of a
/// convolution on codes, which are last, move to the front, are split, and move back.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    // The last node of a chain is looked at.
    rule_if!(node.op_is::<AxisOp>());
    rule_if!(!only_use(model, node)?.is_some_and(|(next, _)| next.op_is::<AxisOp>()));
    let (mut chain, mut first) = (vec![], node);
    while let Some(op) = first.op_as::<AxisOp>() {
        chain.insert(0, op.clone());
        let before = model.node(first.inputs[0].node);
        if !before.op_is::<AxisOp>() || only_use(model, before)?.is_none() {
            break;
        }
        first = before;
    }
    rule_if!(chain.iter().any(|op| matches!(op, AxisOp::Move(..))));
    let shapes = [model.outlet_fact(first.inputs[0])?, &node.outputs[0].fact];
    rule_if_let!([Some(from), Some(to)] = shapes.map(|fact| fact.shape.as_concrete()));
    rule_if!(FactoredAxes::of(from).keep_order(&chain));
    let mut patch = TypedModelPatch::default();
    let mut outlet = patch.tap_model(model, first.inputs[0])?;
    if from != to {
        let reshape = AxisOp::Reshape(0, dims(from), dims(to));
        outlet = patch.wire_node(&node.name, reshape, &[outlet])?[0];
    }
    patch.shunt_outside(model, node.id.into(), outlet)?;
    Ok(Some(patch.into()))
}

/// Axes as products of factors, each of which is a part of an axis before: by number, and without those of size 1.
struct FactoredAxes {
    axes: Vec<Vec<usize>>,
    sizes: Vec<usize>,
    /// The factors as they were in the beginning.
    order: Vec<usize>,
}

impl FactoredAxes {
    fn of(shape: &[usize]) -> FactoredAxes {
        let mut all = FactoredAxes { axes: vec![], sizes: vec![], order: vec![] };
        for size in shape {
            let factors = if *size == 1 { vec![] } else { vec![all.sizes.len()] };
            if *size != 1 {
                all.order.push(all.sizes.len());
                all.sizes.push(*size);
            }
            all.axes.push(factors);
        }
        all
    }

    /// Whether the elements keep their order through all of these.
    fn keep_order(mut self, chain: &[AxisOp]) -> bool {
        let is_known = chain.iter().all(|op| self.apply(op).is_some());
        is_known && self.axes.concat() == self.order
    }

    /// Nothing if factors cannot be told apart any more.
    fn apply(&mut self, op: &AxisOp) -> Option<()> {
        match op {
            AxisOp::Add(axis) => self.axes.insert(*axis, vec![]),
            AxisOp::Rm(axis) => drop(self.axes.remove(*axis)),
            AxisOp::Move(from, to) => {
                let axis = self.axes.remove(*from);
                self.axes.insert(*to, axis);
            }
            AxisOp::Reshape(at, from, to) => {
                let mut factors = self.axes.drain(*at..at + from.len()).flatten().collect();
                let mut axes = vec![];
                for size in to {
                    axes.push(self.take(&mut factors, size.to_usize().ok()?)?);
                }
                factors.is_empty().then_some(())?;
                self.axes.splice(*at..*at, axes);
            }
        }
        Some(())
    }

    /// The first factors whose product is a size. One of them may be split.
    fn take(&mut self, factors: &mut Vec<usize>, mut size: usize) -> Option<Vec<usize>> {
        let mut taken = vec![];
        while size != 1 {
            let factor = *factors.first()?;
            let of_factor = self.sizes[factor];
            if size > 0 && of_factor > size && of_factor.is_multiple_of(size) {
                // Its second part is a new one.
                let rest = self.sizes.len();
                self.sizes[factor] = size;
                self.sizes.push(of_factor / size);
                let place = self.order.iter().position(|it| *it == factor)?;
                self.order.insert(place + 1, rest);
                factors.insert(1, rest);
            } else if of_factor == 0 || !size.is_multiple_of(of_factor) {
                return None;
            }
            size /= self.sizes[factor];
            taken.push(factors.remove(0));
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WithKernels;

    fn reshape(at: usize, from: &[usize], to: &[usize]) -> AxisOp {
        AxisOp::Reshape(at, dims(from), dims(to))
    }

    #[test]
    fn chains_are_one_reshape_if_they_keep_the_order() -> TractResult<()> {
        // The channels of a detector: to the front, split in boxes and classes, and back.
        let to_front = AxisOp::Move(3, 1);
        let boxes = reshape(1, &[6], &[2, 3]);
        let back = [AxisOp::Move(3, 1), AxisOp::Move(4, 2)];
        let joined = reshape(1, &[4, 5, 2, 3], &[40, 3]);
        let detector = [&[to_front.clone(), boxes.clone()], &back[..], &[joined]].concat();
        for (chain, expected) in [
            (&detector[..], vec!["Reshape"]),
            (&detector[..4], vec!["Reshape"]),
            (&detector[..3], vec!["Transposition", "Reshape", "Transposition"]),
            // Sizes that have no common factors.
            (
                &[
                    reshape(1, &[4, 5, 6], &[8, 15]),
                    AxisOp::Move(2, 1),
                    reshape(1, &[15, 8], &[120]),
                ],
                vec!["Reshape", "Transposition", "Reshape"],
            ),
        ] {
            let mut model = TypedModel::default();
            let shape = [1, 4, 5, 6];
            let mut outlet = model.add_source("data", f32::fact(shape))?;
            for (number, op) in chain.iter().enumerate() {
                outlet = model.wire_node(format!("op_{number}"), op.clone(), &[outlet])?[0];
            }
            model.select_output_outlets(&[outlet])?;
            let numbers: Vec<f32> = (0..120).map(|it| it as f32).collect();
            let data: TValue = Tensor::from_shape(&shape, &numbers)?.into();
            let before = model.clone().into_runnable()?.run(tvec!(data.clone()))?;
            let model = model.with_kernels()?;
            let names: Vec<String> =
                model.nodes()[1..].iter().map(|it| it.op.name().into()).collect();
            let kinds: Vec<&str> = names
                .iter()
                .map(|name| if name == "Transposition" { name } else { "Reshape" })
                .collect();
            assert_eq!(kinds, expected, "{names:?}");
            for model in [model.clone(), model.into_optimized()?] {
                assert_eq!(*model.into_runnable()?.run(tvec!(data.clone()))?[0], *before[0]);
            }
        }
        Ok(())
    }
}
