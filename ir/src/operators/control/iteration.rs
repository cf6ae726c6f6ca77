use tract_core::internal::*;
use tract_openvino_kernels::checks::check_volume;

use super::collected::Collected;
use super::count::Count;
use super::{Body, Stage, op_with_bodies, run};
use crate::typed_op::{one_element, size_or_0};

/// Runs a model again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loop {
    pub body: Body,
    /// What each input of the body is.
    pub inputs: Vec<LoopInput>,
    /// What each output is.
    pub outputs: Vec<LoopOutput>,
    /// The most iterations, together with those of the loops within it.
    pub most_iterations: usize,
    /// The input that has the number of iterations. A negative number is no limit.
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
    /// The outputs of all iterations, one after another along an axis, or one before the other.
    All { output: usize, axis: usize, backwards: bool },
}

impl LoopOutput {
    fn collected(&self) -> Option<Collected> {
        match *self {
            LoopOutput::Last(_) => None,
            LoopOutput::All { axis, backwards, .. } => Some(Collected::new(axis, backwards)),
        }
    }
}

op_with_bodies!(Loop, "OpenVinoLoop", body);

impl Loop {
    /// The most iterations, if there is a limit.
    fn limit(&self, inputs: &[TValue]) -> TractResult<Option<usize>> {
        let mut limit = None;
        if let Some(input) = self.trip_count {
            let trip_count = one_element::<i64>(&inputs[input])?;
            limit = usize::try_from(trip_count).ok();
        }
        for part in &self.inputs {
            let LoopInput::Part { input, axis, size, .. } = *part else { continue };
            let whole = inputs[input].shape()[axis];
            ensure!(
                whole.is_multiple_of(size),
                "axis {axis} of a loop's input has size {whole}, but must be a multiple of the size of its parts, {size}"
            );
            let parts = whole / size;
            match limit {
                // A condition may end the loop earlier.
                Some(limit) => ensure!(
                    limit == parts || (limit < parts && self.trip_count.is_some()),
                    "a loop has {limit} iterations, but an input is cut into {parts} parts"
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
                        false => size_or_0(dim, ctx.symbols)?,
                    });
                }
                check_volume("Loop", fact.datum_type, &shape)?;
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
        let is_true = |tensor: &Tensor| one_element(tensor).context("in the condition of a loop");
        let mut goes_on = op.condition.map_or(Ok(true), |input| is_true(&inputs[input]))?;
        let count = Count::new();
        let mut iteration = 0;
        let mut last: TVec<TValue> = tvec![];
        let mut all: Vec<Option<Collected>> =
            op.outputs.iter().map(LoopOutput::collected).collect();
        while goes_on && limit.is_none_or(|limit| iteration < limit) {
            count.next(op.most_iterations)?;
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
            goes_on = op.goes_on.map_or(Ok(true), |output| is_true(&last[output]))?;
            for (collected, output) in all.iter_mut().zip(&op.outputs) {
                if let (Some(collected), LoopOutput::All { output, .. }) = (collected, output) {
                    collected.push(last[*output].clone())?;
                }
            }
            iteration += 1;
        }
        let mut outputs = tvec![];
        for (number, collected) in all.into_iter().enumerate() {
            outputs.push(match (collected, &op.outputs[number]) {
                _ if iteration == 0 => op.without_iterations(ctx, number, &inputs)?,
                (Some(collected), _) => collected.finish()?,
                (None, LoopOutput::Last(output) | LoopOutput::All { output, .. }) => {
                    last[*output].clone()
                }
            });
        }
        Ok(outputs)
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        bail!("Loop cannot run for several streams in one state")
    }
}
