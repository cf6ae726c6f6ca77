//! Control flow: one of two models, and a model again and again.
//!
//! tract's `IfThenElse` needs results of the same shape from both models, and makes a plan in each run. Its
//! `Scan` needs to know the number of iterations before the first. The operators here need neither. They
//! cannot be saved to NNEF.

use tract_core::internal::*;

use super::{set_symbols, substituted};

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

    fn with_symbols(&self, values: &HashMap<Symbol, TDim>) -> TractResult<Body> {
        Ok(Body { model: Arc::new(self.model.set_symbols(values)?), ..*self })
    }

    fn spawn(&self) -> TractResult<TypedSimpleState> {
        SimplePlan::new(self.model.clone())?.spawn()
    }

    /// The symbols that shapes and sizes in the model are made of.
    fn symbols(&self) -> TVec<Symbol> {
        let mut symbols = tvec![];
        for fact in self.model.nodes.iter().flat_map(|node| &node.outputs).map(|it| &it.fact) {
            let mut found: Vec<Symbol> = fact.shape.iter().flat_map(|dim| dim.symbols()).collect();
            if let Some(sizes) = fact.konst.as_ref().filter(|it| it.datum_type().is_tdim())
                && let Ok(sizes) = sizes.try_as_plain_ram().and_then(|it| it.as_slice::<TDim>())
            {
                found.extend(sizes.iter().flat_map(|size| size.symbols()));
            }
            for symbol in found {
                if !symbols.contains(&symbol) {
                    symbols.push(symbol);
                }
            }
        }
        symbols
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

fn facts_with_symbols(
    facts: &[TypedFact],
    values: &HashMap<Symbol, TDim>,
) -> TractResult<TVec<TypedFact>> {
    let fact = |fact: &TypedFact| Ok(fact.datum_type.fact(substituted(fact.shape.iter(), values)?));
    facts.iter().map(fact).collect()
}

/// What both operators have in common. `$body` are the fields that are bodies.
macro_rules! op_with_bodies {
    ($op:ident, $name:literal, $($body:ident),*) => {
        impl Op for $op {
            fn name(&self) -> StaticName {
                $name.into()
            }

            // Sizes of results may only be known when the model runs.
            fn mints_runtime_symbols(&self) -> bool {
                true
            }

            fn required_bound_symbols(&self, _inputs: &[&TypedFact]) -> TVec<Symbol> {
                let mut symbols = tvec![];
                $(symbols.extend(self.$body.symbols());)*
                symbols
            }

            op_as_typed_op!();
        }

        impl $op {
            fn at(&self, stage: Stage) -> TractResult<$op> {
                Ok($op { $($body: self.$body.at(stage)?,)* ..self.clone() })
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

            set_symbols!(|op, values| $op {
                $($body: op.$body.with_symbols(values)?,)*
                facts: facts_with_symbols(&op.facts, values)?,
                ..op.clone()
            });

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

/// Runs one of two models. The first input says which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct If {
    pub then_body: Body,
    /// For each input of the model, the input of the node.
    pub then_inputs: Vec<usize>,
    pub else_body: Body,
    pub else_inputs: Vec<usize>,
    pub facts: TVec<TypedFact>,
}

op_with_bodies!(If, "If", then_body, else_body);

impl EvalOp for If {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext) -> TractResult<Option<Box<dyn OpState>>> {
        let state = IfState { on_true: self.then_body.spawn()?, on_false: self.else_body.spawn()? };
        Ok(Some(Box::new(state)))
    }
}

#[derive(Debug, Clone)]
struct IfState {
    on_true: TypedSimpleState,
    on_false: TypedSimpleState,
}

impl OpState for IfState {
    fn eval(
        &mut self,
        ctx: &EvalContext,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<If>().context("this is the state of an If")?;
        let (state, mapping, name) = match boolean(&inputs[0])? {
            true => (&mut self.on_true, &op.then_inputs, "then"),
            false => (&mut self.on_false, &op.else_inputs, "else"),
        };
        let inputs = mapping.iter().map(|input| inputs[*input].clone()).collect();
        run(state, ctx, inputs).with_context(|| format!("in the branch {name:?}"))
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        bail!("If cannot run for several streams in one state")
    }
}

fn boolean(tensor: &Tensor) -> TractResult<bool> {
    ensure!(tensor.len() == 1, "a condition has shape {:?}, but must be one value", tensor.shape());
    tensor.cast_to_scalar::<bool>()
}

/// The most iterations of a loop. A condition may stay true for ever.
const MOST_ITERATIONS: usize = 1 << 24;

/// Runs a model again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loop {
    pub body: Body,
    /// What each input of the body is.
    pub inputs: Vec<LoopInput>,
    /// What each output is.
    pub outputs: Vec<LoopOutput>,
    /// The input that has the most iterations. A negative number is no limit; then there may be 2^24.
    pub trip_count: Option<usize>,
    /// The input that says whether there is an iteration at all.
    pub condition: Option<usize>,
    /// The body's output that says whether there is another iteration.
    pub goes_on: Option<usize>,
    pub facts: TVec<TypedFact>,
}

/// What an input of a body is in each iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoopInput {
    /// The number of the iteration, with axes of size 1.
    Iteration { datum_type: DatumType, rank: usize },
    /// All of an input.
    Whole(usize),
    /// A part of an input along an axis, from the front or from the back.
    Part { input: usize, axis: usize, size: usize, backwards: bool },
    /// An input in the first iteration, and an output of the one before in the others.
    State { input: usize, output: usize },
}

/// What an output of a loop is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoopOutput {
    /// An output of the last iteration.
    Last(usize),
    /// The outputs of all iterations, one behind the other along an axis, or one before the other.
    All { output: usize, axis: usize, backwards: bool },
}

op_with_bodies!(Loop, "Loop", body);

impl Loop {
    /// The most iterations, if there is a limit.
    fn limit(&self, inputs: &[TValue]) -> TractResult<Option<usize>> {
        let mut limit = None;
        if let Some(input) = self.trip_count {
            let trip_count = inputs[input].cast_to_scalar::<i64>()?;
            limit = usize::try_from(trip_count).ok();
        }
        for part in &self.inputs {
            let LoopInput::Part { input, axis, size, .. } = *part else { continue };
            let whole = inputs[input].shape()[axis];
            ensure!(
                whole.is_multiple_of(size),
                "axis {axis} of a loop's input has size {whole}, which has no parts of size {size}"
            );
            let parts = whole / size;
            match limit {
                // A condition may end the loop earlier.
                Some(limit) => ensure!(
                    limit == parts || (limit < parts && self.trip_count.is_some()),
                    "a loop has {limit} iterations, but an input with {parts} parts"
                ),
                None => limit = Some(parts),
            }
        }
        Ok(limit)
    }

    /// The output of a loop without iterations.
    fn without_iterations(
        &self,
        ctx: &EvalContext,
        number: usize,
        inputs: &[TValue],
    ) -> TractResult<TValue> {
        match &self.outputs[number] {
            LoopOutput::Last(wanted) => {
                let initial = self.inputs.iter().find_map(|it| match it {
                    LoopInput::State { input, output } if output == wanted => Some(*input),
                    _ => None,
                });
                let initial = initial.with_context(|| {
                    format!("a loop has no iterations: its output {number} has no value")
                })?;
                Ok(inputs[initial].clone())
            }
            LoopOutput::All { axis, .. } => {
                let fact = &self.facts[number];
                let mut shape: TVec<usize> = tvec![];
                for (number, dim) in fact.shape.iter().enumerate() {
                    shape.push(match number == *axis {
                        true => 0,
                        // Only an iteration could tell this size.
                        false => dim.eval(ctx.symbols).to_usize().unwrap_or(0),
                    });
                }
                Ok(Tensor::zero_dt(fact.datum_type, &shape)?.into_tvalue())
            }
        }
    }
}

impl EvalOp for Loop {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext) -> TractResult<Option<Box<dyn OpState>>> {
        Ok(Some(Box::new(LoopState(self.body.spawn()?))))
    }
}

#[derive(Debug, Clone)]
struct LoopState(TypedSimpleState);

impl OpState for LoopState {
    fn eval(
        &mut self,
        ctx: &EvalContext,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<Loop>().context("this is the state of a Loop")?;
        let limit = op.limit(&inputs)?;
        let mut goes_on = op.condition.map_or(Ok(true), |input| boolean(&inputs[input]))?;
        let mut iteration = 0;
        let mut last: TVec<TValue> = tvec![];
        let mut all: Vec<Vec<TValue>> = vec![vec![]; op.outputs.len()];
        while goes_on && limit.is_none_or(|limit| iteration < limit) {
            ensure!(
                iteration < MOST_ITERATIONS,
                "a loop does not end: it has had {MOST_ITERATIONS} iterations"
            );
            let mut now = tvec![];
            for input in &op.inputs {
                now.push(match *input {
                    LoopInput::Iteration { datum_type, rank } => {
                        let number = tensor0(i64::try_from(iteration)?);
                        let number = number.cast_to_dt(datum_type)?.into_owned();
                        number.broadcast_into_rank(rank)?.into_tvalue()
                    }
                    LoopInput::Whole(input) => inputs[input].clone(),
                    LoopInput::Part { input, axis, size, backwards } => {
                        let whole = &inputs[input];
                        let start = match backwards {
                            true => whole.shape()[axis] - (iteration + 1) * size,
                            false => iteration * size,
                        };
                        whole.slice(axis, start, start + size)?.into_tvalue()
                    }
                    LoopInput::State { input, .. } if iteration == 0 => inputs[input].clone(),
                    LoopInput::State { output, .. } => last[output].clone(),
                });
            }
            last = run(&mut self.0, ctx, now)
                .with_context(|| format!("in iteration {iteration} of a loop"))?;
            goes_on = op.goes_on.map_or(Ok(true), |output| boolean(&last[output]))?;
            for (values, output) in all.iter_mut().zip(&op.outputs) {
                if let LoopOutput::All { output, .. } = output {
                    values.push(last[*output].clone());
                }
            }
            iteration += 1;
        }
        let mut outputs = tvec![];
        for (number, mut values) in all.into_iter().enumerate() {
            outputs.push(match op.outputs[number] {
                _ if iteration == 0 => op.without_iterations(ctx, number, &inputs)?,
                LoopOutput::Last(output) => last[output].clone(),
                LoopOutput::All { axis, backwards, .. } => {
                    if backwards {
                        values.reverse();
                    }
                    Tensor::stack_tensors(axis, &values)?.into_tvalue()
                }
            });
        }
        Ok(outputs)
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        bail!("Loop cannot run for several streams in one state")
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::array::TypedConcat;
    use tract_core::ops::binary::TypedBinOp;
    use tract_core::ops::logic::comp_lt;
    use tract_core::ops::math::add;

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
}
