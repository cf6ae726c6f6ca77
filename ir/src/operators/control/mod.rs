//! Control flow: one of two models, and a model again and again.
//!
//! tract's `IfThenElse` needs results of the same shape from both models, and makes a plan in each run. Its
//! `Scan` needs to know the number of iterations before the first. The operators here need neither.

mod collected;
mod conditional;
mod count;
mod iteration;
mod kernels;

use std::collections::HashSet;

use tract_core::internal::*;
use tract_openvino_kernels::Session;

use super::SetSymbols;
use crate::workarounds::bound::mentioned_symbols;
pub(crate) use conditional::If;
pub(crate) use iteration::{Loop, LoopInput, LoopOutput};

/// A model within an operator, whose symbols are those of the model around it.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    model: Arc<TypedModel>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Typed,
    Decluttered,
    Optimized,
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.model, &other.model)
    }
}

impl Eq for Body {}

impl SetSymbols for Body {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        self.model = Arc::new(self.model.set_symbols(values)?);
        Ok(())
    }
}

impl Body {
    pub fn new(model: TypedModel) -> Body {
        Body { model: Arc::new(model), stage: Stage::Typed }
    }

    fn at(&self, stage: Stage) -> TractResult<Body> {
        let model = TypedModel::clone(&self.model);
        let model = match stage {
            Stage::Typed => model,
            Stage::Decluttered => model.into_decluttered()?,
            Stage::Optimized => model.into_optimized()?,
        };
        Ok(Body { model: Arc::new(model), stage })
    }

    /// On the kernels, as the model around it. It is decluttered then.
    fn transformed(&self, session: &Session, node: &TypedNode) -> TractResult<Body> {
        Ok(Body { model: Arc::new(session.body(node, &self.model)?), stage: Stage::Decluttered })
    }

    fn spawn(&self) -> TractResult<TypedSimpleState> {
        SimplePlan::new(self.model.clone())?.spawn()
    }

    /// The symbols whose values the nodes of the model may need.
    fn symbols(&self) -> HashSet<Symbol> {
        let of_node = |node: &TypedNode| mentioned_symbols(&self.model, node).unwrap_or_default();
        self.model.nodes.iter().flat_map(of_node).collect()
    }
}

/// Runs a body with the symbols of the model around it.
fn run(
    state: &mut TypedSimpleState,
    ctx: &EvalContext,
    inputs: TVec<TValue>,
) -> TractResult<TVec<TValue>> {
    state.turn_state.resolved_symbols = ctx.symbols.clone();
    state.turn_state.scenario = ctx.scenario;
    state.run(inputs)
}

/// What both operators have in common. `$body` are the fields that are bodies.
macro_rules! op_with_bodies {
    ($op:ident, $name:literal, $($body:ident),*) => {
        $crate::typed_op::impl_op!(
            $op,
            $name,
            // Sizes of results may only be known when the model runs.
            mints_runtime_symbols = |_| true,
            required_bound_symbols =
                |op, _| [$(&op.$body),*].into_iter().flat_map(Body::symbols).collect(),
        );

        impl $op {
            fn at(&self, stage: Stage) -> TractResult<$op> {
                Ok($op { $($body: self.$body.at(stage)?,)* ..self.clone() })
            }

            pub(super) fn transformed(&self, session: &super::Session, node: &TypedNode) -> TractResult<$op> {
                Ok($op { $($body: self.$body.transformed(session, node)?,)* ..self.clone() })
            }

            fn stage(&self) -> [Stage; [$(stringify!($body)),*].len()] {
                [$(self.$body.stage),*]
            }
        }

        impl TypedOp for $op {
            as_op!();

            fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
                Ok(self.facts.clone())
            }

            $crate::typed_op::set_symbols!($($body,)* facts);

            fn declutter(
                &self,
                model: &TypedModel,
                node: &TypedNode,
            ) -> TractResult<Option<TypedModelPatch>> {
                if !self.stage().contains(&Stage::Typed) {
                    return Ok(None);
                }
                let op = self.at(Stage::Decluttered)?;
                TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some)
            }

            fn codegen(
                &self,
                model: &TypedModel,
                node: &TypedNode,
            ) -> TractResult<Option<TypedModelPatch>> {
                if self.stage().iter().all(|stage| *stage == Stage::Optimized) {
                    return Ok(None);
                }
                let op = self.at(Stage::Optimized)?;
                TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some)
            }
        }
    };
}
use op_with_bodies;

#[cfg(test)]
mod tests {
    use tract_core::ops::array::TypedConcat;
    use tract_core::ops::binary::TypedBinOp;
    use tract_core::ops::einsum::EinSum;
    use tract_core::ops::logic::comp_lt;
    use tract_core::ops::math::add;
    use tract_openvino_kernels::WithKernels;

    use super::*;

    fn run_at_all_stages(
        model: TypedModel,
        inputs: &[Tensor],
        expected: &[Tensor],
    ) -> TractResult<()> {
        let stages = [model.clone(), model.clone().into_decluttered()?, model.into_optimized()?];
        for model in stages {
            let inputs = inputs.iter().map(|input| input.clone().into_tvalue()).collect();
            let outputs = SimplePlan::new(model)?.run(inputs)?;
            assert_eq!(outputs.len(), expected.len());
            for (output, expected) in outputs.iter().zip(expected) {
                output.close_enough(expected, false)?;
            }
        }
        Ok(())
    }

    /// `x` or `x, x`, of a size that is known when the model runs.
    #[test]
    fn branches_of_other_sizes() -> TractResult<()> {
        let mut model = TypedModel::default();
        let branch = |copies: usize| -> TractResult<Body> {
            let mut body = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
            let x = body.add_source("x", f32::fact([2]))?;
            let result = body.wire_node("result", TypedConcat::new(0), &vec![x; copies])?;
            body.select_output_outlets(&result)?;
            Ok(Body::new(body))
        };
        let size = model.symbols.sym("size").to_dim();
        let op = If {
            then_body: branch(1)?,
            then_inputs: vec![1],
            else_body: branch(2)?,
            else_inputs: vec![1],
            facts: tvec![f32::fact([size])],
        };
        let condition = model.add_source("condition", bool::fact([0; 0]))?;
        let x = model.add_source("x", f32::fact([2]))?;
        let chosen = model.wire_node("if", op, &[condition, x])?[0];
        let sum = model.wire_node("sum", add(), &[chosen, chosen])?;
        model.select_output_outlets(&sum)?;
        let x = tensor1(&[1f32, 2.]);
        let once = tensor1(&[2f32, 4.]);
        let twice = tensor1(&[2f32, 4., 2., 4.]);
        run_at_all_stages(model.clone(), &[tensor0(true), x.clone()], &[once])?;
        run_at_all_stages(model, &[tensor0(false), x], &[twice])
    }

    /// `total = total + x` while the total is below 10, with the last and all totals.
    fn totals() -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut body = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
        let x = body.add_source("x", f32::fact([1]))?;
        let total = body.add_source("total", f32::fact([1]))?;
        let sum = body.wire_node("sum", add(), &[total, x])?[0];
        let ten = body.add_const("ten", tensor1(&[10f32]))?;
        let below = body.wire_node("below", TypedBinOp(comp_lt(), None), &[sum, ten])?[0];
        body.select_output_outlets(&[sum, below])?;
        let iterations = model.symbols.sym("iterations").to_dim();
        let op = Loop {
            body: Body::new(body),
            inputs: vec![LoopInput::Whole(2), LoopInput::State { input: 3, output: 0 }],
            outputs: vec![
                LoopOutput::Last(0),
                LoopOutput::All { output: 0, axis: 0, backwards: false },
            ],
            most_iterations: 1 << 24,
            trip_count: Some(0),
            condition: Some(1),
            goes_on: Some(1),
            facts: tvec![f32::fact([1]), f32::fact([iterations])],
        };
        let facts = [i64::fact([0; 0]), bool::fact([0; 0]), f32::fact([1]), f32::fact([1])];
        let mut inputs = tvec![];
        for (number, fact) in facts.into_iter().enumerate() {
            inputs.push(model.add_source(format!("input_{number}"), fact)?);
        }
        let outputs = model.wire_node("loop", op, &inputs)?;
        model.select_output_outlets(&outputs)?;
        Ok(model)
    }

    #[test]
    fn ends_by_count_or_condition() -> TractResult<()> {
        let one = |number: f32| tensor1(&[number]);
        for (trip_count, condition, expected) in [
            (-1, true, vec![5f32, 9., 13.]),
            (2, true, vec![5., 9.]),
            (0, true, vec![]),
            (-1, false, vec![]),
        ] {
            let inputs = [tensor0(trip_count as i64), tensor0(condition), one(4.), one(1.)];
            // Without an iteration the state stays what it was.
            let last = one(expected.last().copied().unwrap_or(1.));
            run_at_all_stages(totals()?, &inputs, &[last, tensor1(&expected)])?;
        }
        Ok(())
    }

    /// A product with a constant matrix, in each body.
    #[test]
    fn bodies_get_the_kernels() -> TractResult<()> {
        let mut model = TypedModel::default();
        let body = |goes_on: bool| -> TractResult<Body> {
            let mut body = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
            let x = body.add_source("x", f32::fact([1, 2]))?;
            let matrix = body.add_const("matrix", tensor2(&[[1f32, 2.], [3., 4.]]))?;
            let product = EinSum::new("mk,kn->mn".parse()?, DatumType::F32);
            let mut results = body.wire_node("product", product, &[x, matrix])?;
            if goes_on {
                results.push(body.add_const("goes_on", tensor0(true))?);
            }
            body.select_output_outlets(&results)?;
            Ok(Body::new(body))
        };
        let choice = If {
            then_body: body(false)?,
            then_inputs: vec![1],
            else_body: body(false)?,
            else_inputs: vec![1],
            facts: tvec![f32::fact([1, 2])],
        };
        let repeated = Loop {
            body: body(true)?,
            inputs: vec![LoopInput::State { input: 2, output: 0 }],
            outputs: vec![LoopOutput::Last(0)],
            most_iterations: 1 << 24,
            trip_count: Some(0),
            condition: Some(1),
            goes_on: Some(1),
            facts: tvec![f32::fact([1, 2])],
        };
        let count = model.add_source("count", i64::fact([0; 0]))?;
        let condition = model.add_source("condition", bool::fact([0; 0]))?;
        let x = model.add_source("x", f32::fact([1, 2]))?;
        let chosen = model.wire_node("if", choice, &[condition, x])?[0];
        let output = model.wire_node("loop", repeated, &[count, condition, chosen])?;
        model.select_output_outlets(&output)?;
        let inputs =
            || tvec!(tensor0(2i64).into(), tensor0(true).into(), tensor2(&[[1f32, 2.]]).into());
        let expected = model.clone().into_runnable()?.run(inputs())?;
        let model = model.with_kernels()?;
        let bodies = model.nodes().iter().flat_map(|node| -> Vec<&Body> {
            match (node.op_as::<If>(), node.op_as::<Loop>()) {
                (Some(op), _) => vec![&op.then_body, &op.else_body],
                (_, Some(op)) => vec![&op.body],
                _ => vec![],
            }
        });
        let bodies: Vec<_> = bodies.collect();
        assert_eq!(bodies.len(), 3);
        for body in bodies {
            let nodes = body.model.nodes().iter();
            assert!(nodes.into_iter().any(|node| node.op.name() == "FullyConnected"));
        }
        assert_eq!(model.into_optimized()?.into_runnable()?.run(inputs())?, expected);
        Ok(())
    }
}
