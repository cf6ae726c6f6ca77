//! Constants whose axes are moved.

use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::dummy::Dummy;
use tract_core::ops::konst::Const;
use tract_core::optim::{OptimizerSession, TypedPass};

use super::found::{Found, only_use};

/// A pass of the declutter that moves axes of constants where they are, if nobody else has them.
///
/// tract's own pass copies the constant for each move: four times if it is the weights of a convolution of one pixel, which tract makes a
/// product. Without that ResNet-50 was ready in 0.8 of the time (Intel Xeon, family 6 model 167).
#[derive(Debug, Clone)]
pub(super) struct MoveConstants;

impl TypedPass for MoveConstants {
    fn reset(&mut self) -> TractResult<()> {
        Ok(())
    }

    fn next(
        &mut self,
        _session: &mut OptimizerSession,
        _model: &TypedModel,
    ) -> TractResult<Option<TypedModelPatch>> {
        Ok(None)
    }

    fn run_direct(&mut self, model: &mut TypedModel) -> TractResult<bool> {
        let mut changes = false;
        for id in 0..model.nodes.len() {
            changes |= moved(model, id)?.is_some();
        }
        Ok(changes)
    }
}

/// Makes the last of the moves of a constant, if this node is one that has any, the constant.
fn moved(model: &mut TypedModel, id: usize) -> Found<()> {
    rule_if_some!(constant = model.node(id).op_as::<Const>());
    let tensor = constant.val().clone();
    rule_if!(tensor.is_plain());
    let mut moves = vec![];
    let mut last = id;
    while let Some((next, op)) = next_move(model, last)? {
        moves.push(op);
        last = next;
    }
    let Some(before) = model.node(last).inputs.first().copied() else { return Ok(None) };
    let node = &mut model.nodes[id];
    node.outputs[0].fact.konst = None;
    node.op = Box::new(Dummy::new());
    let mut tensor = Arc::unwrap_or_clone(tensor);
    for op in moves {
        op.change_tensor(&mut tensor, false)?;
    }
    let constant = Const::new(tensor.into_arc_tensor())?;
    let fact = constant.output_facts(&[])?.remove(0);
    model.nodes[before.node].outputs[before.slot].successors.clear();
    let node = &mut model.nodes[last];
    node.inputs.clear();
    node.outputs[0].fact = fact;
    node.op = Box::new(constant);
    Ok(Some(()))
}

/// The move of axes, of sizes that are known, that alone needs a node.
fn next_move(model: &TypedModel, id: usize) -> Found<(usize, AxisOp)> {
    rule_if_some!((next, _) = only_use(model, model.node(id))?);
    rule_if_some!(op = next.op_as::<AxisOp>());
    if let AxisOp::Reshape(_, from, to) = op {
        rule_if!(from.iter().chain(to).all(|size| size.as_i64().is_some()));
    }
    Ok(Some((next.id, op.clone())))
}

#[cfg(test)]
mod tests {
    use tract_core::ops::math::add;

    use super::super::declutter_without;
    use super::*;

    /// A constant, with some moves of its axes, that is added to something.
    fn model(tensor: &Arc<Tensor>, moves: &[AxisOp]) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut wire = model.add_const("constant", tensor.clone())?;
        for (number, op) in moves.iter().enumerate() {
            wire = model.wire_node(format!("move_{number}"), op.clone(), &[wire])?[0];
        }
        let fact = f32::fact(model.outlet_fact(wire)?.shape.clone());
        let data = model.add_source("data", fact)?;
        let sum = model.wire_node("sum", add(), &[wire, data])?;
        model.select_output_outlets(&sum)?;
        Ok(model)
    }

    fn numbers() -> TractResult<Tensor> {
        Tensor::from_shape(&[2, 3, 4], &(0..24).map(|it| it as f32).collect::<Vec<_>>())
    }

    fn moves() -> [AxisOp; 5] {
        let dims = |sizes: &[i64]| sizes.iter().map(|size| size.to_dim()).collect();
        [
            AxisOp::Add(0),
            AxisOp::Reshape(2, dims(&[3, 4]), dims(&[12])),
            AxisOp::Rm(0),
            AxisOp::Move(0, 1),
            AxisOp::Reshape(0, dims(&[12]), dims(&[6, 2])),
        ]
    }

    fn place_of(tensor: &Tensor) -> TractResult<*const u8> {
        Ok(tensor.try_as_plain_ram()?.as_bytes().as_ptr())
    }

    /// The constants of a model after the pass, with their names.
    fn constants(model: &TypedModel) -> Vec<(String, Arc<Tensor>)> {
        let constants = model.nodes.iter().filter_map(|node| {
            let constant = node.op_as::<Const>()?;
            assert_eq!(node.outputs[0].fact.konst.as_ref(), Some(constant.val()));
            Some((node.name.clone(), constant.val().clone()))
        });
        constants.collect()
    }

    fn after_pass(mut model: TypedModel) -> TractResult<TypedModel> {
        assert!(MoveConstants.run_direct(&mut model)?);
        model.check_consistency()?;
        model.compact()?;
        Ok(model)
    }

    #[test]
    fn moves_are_those_of_the_operators() -> TractResult<()> {
        let tensor = numbers()?.into_arc_tensor();
        for count in 1..=moves().len() {
            let mut expected = numbers()?;
            for op in &moves()[..count] {
                op.change_tensor(&mut expected, false)?;
            }
            let found = constants(&after_pass(model(&tensor, &moves()[..count])?)?);
            assert_eq!(found, [(format!("move_{}", count - 1), expected.into_arc_tensor())]);
        }
        // Who else has it sees no change.
        assert_eq!(*tensor, numbers()?);
        Ok(())
    }

    #[test]
    fn a_constant_of_one_owner_is_not_copied() -> TractResult<()> {
        let tensor = numbers()?.into_arc_tensor();
        let place = place_of(&tensor)?;
        let mut model = model(&tensor, &moves()[..3])?;
        drop(tensor);
        declutter_without(&[]).optimize(&mut model)?;
        let found = constants(&model);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1.shape(), [2, 12]);
        assert_eq!(place_of(&found[0].1)?, place);
        Ok(())
    }

    #[test]
    fn what_others_need_stays() -> TractResult<()> {
        let tensor = numbers()?.into_arc_tensor();
        // An output of the model, and an operator.
        let mut of_output = model(&tensor, &[])?;
        let constant = of_output.node_by_name("constant")?.id;
        let moved = of_output.wire_node("moved", AxisOp::Add(0), &[constant.into()])?[0];
        let mut of_inner = model(&tensor, &moves()[..2])?;
        let inner = of_inner.node_by_name("move_0")?.id;
        of_output.select_output_outlets(&[moved, constant.into()])?;
        of_inner.outputs.push(inner.into());
        for (model, changes, names) in
            [(&mut of_output, false, ["constant"]), (&mut of_inner, true, ["move_0"])]
        {
            assert_eq!(MoveConstants.run_direct(model)?, changes);
            model.check_consistency()?;
            model.compact()?;
            let found: Vec<String> = constants(model).into_iter().map(|it| it.0).collect();
            assert_eq!(found, names);
        }
        // Sizes that are not known.
        let symbol = of_output.symbols.sym("N");
        let unknown = AxisOp::Reshape(0, tvec![2.to_dim()], tvec![symbol.to_dim()]);
        let mut of_symbol = TypedModel::default();
        let constant = of_symbol.add_const("constant", tensor1(&[1f32, 2.]))?;
        let fact = f32::fact([2]);
        let id = of_symbol.add_node("reshape", unknown, tvec![fact])?;
        of_symbol.add_edge(constant, InletId::new(id, 0))?;
        of_symbol.select_output_outlets(&[id.into()])?;
        assert!(!MoveConstants.run_direct(&mut of_symbol)?);
        Ok(())
    }
}
