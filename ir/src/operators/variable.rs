//! Variables: what a network keeps from run to run.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tract_core::internal::*;
use tract_openvino_kernels::PageFormat;
use tract_openvino_kernels::checks::{expect_input_count, known_size};

use super::{check_volume, impl_op, set_symbols};
use crate::typed_op::size_or_0;

/// A variable, with its value in each of the states that run.
pub(crate) struct Variable {
    id: String,
    values: Mutex<HashMap<SessionId, TValue>>,
}

impl Variable {
    pub fn new(id: &str) -> Arc<Variable> {
        Arc::new(Variable { id: id.into(), values: Mutex::default() })
    }

    fn values(&self) -> MutexGuard<'_, HashMap<SessionId, TValue>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, session: SessionId) -> Option<TValue> {
        self.values().get(&session).cloned()
    }

    fn set(&self, session: SessionId, value: TValue) {
        self.values().insert(session, value);
    }

    fn forget(&self, session: SessionId) {
        self.values().remove(&session);
    }

    /// What the file calls it.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.id)
    }
}

/// Reads a variable: the last value that was assigned to it in this state. Before that it is the input, or
/// zeros if there is no input.
#[derive(Debug, Clone)]
pub(crate) struct ReadValue {
    pub variable: Arc<Variable>,
    pub datum_type: DatumType,
    /// The shape of the value, with symbols for what changes from run to run.
    pub shape: ShapeFact,
    /// Whether the value is in pages.
    pub pages: Option<PageFormat>,
}

impl PartialEq for ReadValue {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.variable, &other.variable)
            && self.datum_type == other.datum_type
            && self.shape == other.shape
            && self.pages == other.pages
    }
}

impl Eq for ReadValue {}

impl_op!(
    ReadValue,
    "OpenVinoReadValue",
    info = |op| vec![format!("variable {:?}", op.variable)],
    mints_runtime_symbols = |_| true
);

impl EvalOp for ReadValue {
    not_out_of_plan!();

    fn state(&self, ctx: &EvalContext) -> TractResult<Option<Box<dyn OpState>>> {
        let variable = self.variable.clone();
        Ok(Some(Box::new(ReadState { variable, session: ctx.session, taken: None })))
    }

    fn drop_session(&self, session: SessionId, _node_id: usize) {
        self.variable.forget(session);
    }
}

impl TypedOp for ReadValue {
    as_op!();

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("ReadValue", inputs.len(), 0..=1)?;
        let datum_type = inputs.first().map_or(self.datum_type, |initial| initial.datum_type);
        Ok(tvec!(match self.pages {
            Some(format) => format.fact(self.shape.clone()),
            None => datum_type.fact(self.shape.clone()),
        }))
    }

    set_symbols!(shape);
}

/// What a node that reads a variable keeps from run to run.
#[derive(Debug)]
pub(crate) struct ReadState {
    pub variable: Arc<Variable>,
    /// The session that the value is kept for. It changes when tract's state was cloned.
    session: SessionId,
    /// What the original had when it was cloned, which is a value or none yet, until this state runs.
    taken: Option<Option<TValue>>,
}

/// A clone starts with the value of the original. From then on they do not share values.
impl Clone for ReadState {
    fn clone(&self) -> ReadState {
        let taken = Some(self.value());
        ReadState { variable: self.variable.clone(), session: self.session, taken }
    }
}

impl ReadState {
    /// The value for the next run, if a run or a program has given it one.
    pub fn value(&self) -> Option<TValue> {
        self.taken.clone().unwrap_or_else(|| self.variable.get(self.session))
    }

    /// Gives it a value for the next run, or none: then it begins with its initial value.
    pub fn set(&mut self, value: Option<TValue>) {
        match (&mut self.taken, value) {
            (Some(taken), value) => *taken = value,
            (None, Some(value)) => self.variable.set(self.session, value),
            (None, None) => self.variable.forget(self.session),
        }
    }
}

impl OpState for ReadState {
    fn eval(
        &mut self,
        ctx: &EvalContext,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<ReadValue>().context("this is the state of a ReadValue")?;
        if ctx.session != self.session {
            self.session = ctx.session;
            if let Some(value) = self.taken.take().flatten() {
                self.variable.set(self.session, value);
            }
        }
        let kept = self.variable.get(self.session);
        let origin = if kept.is_some() { "from the last run" } else { "at first" };
        let value = match kept.or_else(|| inputs.into_iter().next()) {
            Some(value) => value,
            None => {
                // Dimensions that are not known are 0 at first.
                let sizes = op.shape.iter().map(|dim| size_or_0(dim, ctx.symbols));
                let shape: TVec<usize> = sizes.collect::<TractResult<_>>()?;
                check_volume("ReadValue", op.datum_type, &shape)?;
                Tensor::zero_dt(op.datum_type, &shape)?.into_tvalue()
            }
        };
        let needed: Vec<TDim> = op.shape.iter().map(|dim| dim.eval(ctx.symbols)).collect();
        let fits = |(dim, size): (&TDim, &usize)| {
            known_size(dim).map_or(!dim.symbols().is_empty(), |dim| dim == *size)
        };
        ensure!(
            value.rank() == needed.len() && needed.iter().zip(value.shape()).all(fits),
            "variable {:?} has shape {:?} {origin}, but this run needs shape [{}]. A new state starts with \
             the initial value",
            self.variable,
            value.shape(),
            needed.iter().map(|dim| dim.to_string()).collect::<Vec<_>>().join(", ")
        );
        let value = match op.pages {
            Some(format) if value.is_plain() => format.pack(&value)?.into_tvalue(),
            _ => value,
        };
        Ok(tvec!(value))
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        bail!("variables of a network cannot be kept for several streams in one state")
    }
}

/// Assigns values to variables, after all nodes that read them. The inputs are a value for each variable; the
/// outputs of the nodes that read variables; and the outputs of the network. These pass through, so that no
/// output can be computed without assigning the values.
#[derive(Debug, Clone)]
pub(crate) struct Assign {
    pub variables: Vec<Arc<Variable>>,
    /// How many of the last inputs pass through.
    pub outputs: usize,
}

impl PartialEq for Assign {
    fn eq(&self, other: &Self) -> bool {
        self.outputs == other.outputs
            && self.variables.len() == other.variables.len()
            && self.variables.iter().zip(&other.variables).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl Eq for Assign {}

impl Assign {
    /// The position of the first input that passes through.
    fn first_output(&self, inputs: usize) -> TractResult<usize> {
        let first = inputs.checked_sub(self.outputs).filter(|it| *it >= self.variables.len());
        first.with_context(|| {
            let least = self.variables.len() + self.outputs;
            format!("Assign: the number of inputs is {inputs}, but must be {least} or more")
        })
    }
}

impl_op!(Assign, "OpenVinoAssign", info = |op| vec![format!("variables {:?}", op.variables)]);

impl EvalOp for Assign {
    not_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, mut inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let outputs = inputs.drain(self.first_output(inputs.len())?..).collect();
        for (variable, value) in self.variables.iter().zip(inputs) {
            variable.set(ctx.session, value);
        }
        Ok(outputs)
    }

    fn drop_session(&self, session: SessionId, _node_id: usize) {
        self.variables.iter().for_each(|variable| variable.forget(session));
    }
}

impl TypedOp for Assign {
    as_op!();

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let outputs = &inputs[self.first_output(inputs.len())?..];
        Ok(outputs.iter().map(|fact| fact.without_value()).collect())
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::math::add;

    use super::*;

    /// `total = total + x`, with the total of this run and the one before as outputs.
    fn accumulator(initial: Option<f32>) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let x = model.add_source("x", f32::fact([1]))?;
        let initial = initial.map(|initial| model.add_const("initial", tensor1(&[initial])));
        let initial: TVec<OutletId> = initial.transpose()?.into_iter().collect();
        let variable = Variable::new("total");
        let read = ReadValue {
            variable: variable.clone(),
            datum_type: f32::datum_type(),
            shape: [1].as_ref().into(),
            pages: None,
        };
        let read = model.wire_node("read", read, &initial)?[0];
        let total = model.wire_node("sum", add(), &[read, x])?[0];
        let assign = Assign { variables: vec![variable], outputs: 2 };
        let outputs = model.wire_node("assign", assign, &[total, read, total, read])?;
        model.select_output_outlets(&outputs)?;
        Ok(model)
    }

    fn step(state: &mut TypedSimpleState, x: f32) -> TractResult<[f32; 2]> {
        let outputs = state.run(tvec!(tensor1(&[x]).into_tvalue()))?;
        let number = |output: usize| outputs[output].cast_to_scalar::<f32>();
        Ok([number(0)?, number(1)?])
    }

    fn stages(model: TypedModel) -> TractResult<[TypedModel; 3]> {
        Ok([model.clone(), model.clone().into_decluttered()?, model.into_optimized()?])
    }

    #[test]
    fn states_do_not_see_each_other() -> TractResult<()> {
        for model in stages(accumulator(Some(10.))?)? {
            let plan = SimplePlan::new(model)?;
            let (mut a, mut b) = (plan.spawn()?, plan.spawn()?);
            assert_eq!(step(&mut a, 1.)?, [11., 10.]);
            assert_eq!(step(&mut b, 5.)?, [15., 10.]);
            assert_eq!(step(&mut a, 2.)?, [13., 11.]);
            assert_eq!(step(&mut b, 5.)?, [20., 15.]);
            // A run without a state of its own is the first of a new one.
            let outputs = plan.run(tvec!(tensor1(&[3f32]).into_tvalue()))?;
            assert_eq!(outputs[0].cast_to_scalar::<f32>()?, 13.);
        }
        Ok(())
    }

    #[test]
    fn zeros_without_an_initial_value() -> TractResult<()> {
        for model in stages(accumulator(None)?)? {
            let mut state = SimplePlan::new(model)?.spawn()?;
            assert_eq!(step(&mut state, 1.)?, [1., 0.]);
            assert_eq!(step(&mut state, 1.)?, [2., 1.]);
        }
        Ok(())
    }

    #[test]
    fn a_clone_goes_on_by_itself() -> TractResult<()> {
        for model in stages(accumulator(Some(0.))?)? {
            let mut original = SimplePlan::new(model)?.spawn()?;
            step(&mut original, 1.)?;
            let clone = original.clone();
            let mut clone_of_clone = clone.clone();
            step(&mut original, 1.)?;
            // The original has another value by now.
            let mut late = clone.clone();
            drop(clone);
            assert_eq!(step(&mut clone_of_clone, 5.)?, [6., 1.]);
            assert_eq!(step(&mut late, 7.)?, [8., 1.]);
            assert_eq!(step(&mut original, 1.)?, [3., 2.]);
        }
        Ok(())
    }

    #[test]
    fn dropped_states_leave_nothing() -> TractResult<()> {
        let model = accumulator(Some(0.))?;
        let variable = model.nodes.iter().find_map(|node| node.op_as::<ReadValue>());
        let variable = variable.context("it reads")?.variable.clone();
        let plan = SimplePlan::new(model)?;
        let mut state = plan.spawn()?;
        step(&mut state, 1.)?;
        assert_eq!(variable.values().len(), 1);
        drop(state);
        assert_eq!(variable.values().len(), 0);
        Ok(())
    }

    /// Whichever output is asked for, the variable gets its value.
    #[test]
    fn one_output_is_enough() -> TractResult<()> {
        for output in 0..2 {
            let mut model = accumulator(Some(0.))?;
            let outlet = model.outputs[output];
            model.select_output_outlets(&[outlet])?;
            for model in stages(model)? {
                let mut state = SimplePlan::new(model)?.spawn()?;
                let one = || tvec!(tensor1(&[1f32]).into_tvalue());
                state.run(one())?;
                let second = state.run(one())?;
                assert_eq!(second[0].cast_to_scalar::<f32>()?, 2. - output as f32);
            }
        }
        Ok(())
    }
}
