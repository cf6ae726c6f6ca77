use tract_core::internal::*;

use super::{Body, Stage, op_with_bodies, run};
use crate::typed_op::one_element;

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

op_with_bodies!(If, "OpenVinoIf", then_body, else_body);

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
        let (state, mapping, name) = match one_element(&inputs[0]).context("in the condition")? {
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
