//! A runtime of tract whose models run on this crate's operators, and the threads that they run on.

use std::sync::atomic::{AtomicBool, Ordering};

use tract_core::internal::*;
use tract_core::plan::eval;
use tract_core::prelude::multithread::Executor;
use tract_core::transform::ModelTransform;

use crate::KernelsTransform;
use crate::memory::keep_freed_memory;
use crate::threads::{notes_sharing, within_pool};

/// Runs models on this crate's operators. tract has it by the name `kernels`:
///
/// ```
/// use tract_core::prelude::*;
/// // A program that names nothing of the crate links it by this.
/// use tract_openvino_kernels as _;
///
/// # fn main() -> TractResult<()> {
/// # let mut model = TypedModel::default();
/// # let data = model.add_source("data", f32::fact([2, 3]))?;
/// # model.select_output_outlets(&[data])?;
/// let runtime = runtime_for_name("kernels")?.expect("the crate is linked");
/// let runnable = runtime.prepare(model)?;
/// # runnable.run(tvec!(Tensor::zero::<f32>(&[2, 3])?.into()))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct KernelsRuntime;

impl Runtime for KernelsRuntime {
    fn name(&self) -> StaticName {
        "kernels".into()
    }

    fn prepare_with_options(
        &self,
        model: TypedModel,
        options: &RunOptions,
    ) -> TractResult<Box<dyn Runnable>> {
        let model = optimized(&KernelsTransform::default(), model)?;
        let plan = TypedSimplePlan::new_with_options(model, options)?;
        let executor = options.executor.clone();
        Ok(Box::new(KernelsRunnable { plan, executor, shares_work: Arc::default() }))
    }

    fn check(&self) -> TractResult<()> {
        Ok(())
    }
}

tract_core::register_runtime!(KernelsRuntime = KernelsRuntime);

/// A model on this crate's operators, and on tract's fastest for the rest.
fn optimized(transform: &KernelsTransform, model: TypedModel) -> TractResult<TypedModel> {
    keep_freed_memory();
    let mut model = transform.transform_into(model)?;
    model.optimize()?;
    Ok(model)
}

impl KernelsTransform {
    /// The model, transformed, optimised and ready to run: [`WithKernels::into_runnable_with_kernels`] with options.
    ///
    /// # Errors
    ///
    /// tract cannot declutter or optimise the model.
    pub fn runnable(&self, model: TypedModel) -> TractResult<KernelsRunnable> {
        let plan = optimized(self, model)?.into_runnable()?;
        Ok(KernelsRunnable { plan, executor: None, shares_work: Arc::default() })
    }
}

/// A plan of a model on this crate's operators.
///
/// Once a run has shared work among threads, the next ones are on a thread of the executor's pool, one run at a time, and wait
/// for a thread that is free, as tract's operators do. So who runs the model must hold no lock that other jobs of the pool need.
/// [`plan`](Self::plan) runs on the thread that calls it.
#[derive(Debug, Clone)]
pub struct KernelsRunnable {
    plan: Arc<TypedRunnableModel>,
    /// The executor of the plan.
    executor: Option<Executor>,
    /// Whether a run has shared work. Runs of small models do not, and handing them to another thread would take longer
    /// than they do.
    shares_work: Arc<AtomicBool>,
}

impl KernelsRunnable {
    /// Runs the model once.
    ///
    /// # Errors
    ///
    /// An operator refuses its inputs, or weights cannot be read.
    pub fn run(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.spawn()?.run(inputs)
    }

    /// What runs the model again and again, and keeps the values of its variables.
    ///
    /// # Errors
    ///
    /// An operator cannot make its state.
    pub fn spawn(&self) -> TractResult<KernelsState> {
        Ok(KernelsState { runnable: self.clone(), state: self.plan.spawn()? })
    }

    /// The plan alone, which runs on the thread that calls it.
    pub fn plan(&self) -> &Arc<TypedRunnableModel> {
        &self.plan
    }

    /// The model that runs.
    pub fn model(&self) -> &TypedModel {
        self.plan.model()
    }
}

impl Runnable for KernelsRunnable {
    fn spawn(&self) -> TractResult<Box<dyn State>> {
        Ok(Box::new(self.spawn()?))
    }

    fn typed_plan(&self) -> Option<&Arc<TypedSimplePlan>> {
        Some(&self.plan)
    }

    fn typed_model(&self) -> Option<&Arc<TypedModel>> {
        self.plan.typed_model()
    }
}

/// Runs of a [`KernelsRunnable`], one after the other.
#[derive(Debug, Clone)]
pub struct KernelsState {
    runnable: KernelsRunnable,
    state: TypedSimpleState,
}

impl KernelsState {
    /// Runs the model.
    ///
    /// # Errors
    ///
    /// An operator refuses its inputs, or weights cannot be read. The state then keeps the variables that it has, and takes inputs of
    /// other sizes.
    pub fn run(&mut self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.run_with_eval(inputs, eval)
    }

    /// Runs the model as [`run`](Self::run) does, each of its nodes by this function: one that calls tract's
    /// [`eval`], and takes its time, or ends the run by an error.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run), and of the function.
    pub fn run_with_eval(
        &mut self,
        inputs: TVec<TValue>,
        eval: impl for<'a, 'b, 'c> FnMut(
            &'a EvalContext<'a>,
            Option<&'b mut (dyn OpState + 'static)>,
            &'c TypedNode,
            TVec<TValue>,
        ) -> TractResult<TVec<TValue>>
        + Send,
    ) -> TractResult<TVec<TValue>> {
        let KernelsRunnable { executor, shares_work, .. } = &self.runnable;
        let outputs = if shares_work.load(Ordering::Relaxed) {
            within_pool(executor.as_ref(), || self.state.run_plan_with_eval(inputs, eval))
        } else {
            let (outputs, shared) = notes_sharing(|| self.state.run_plan_with_eval(inputs, eval));
            shares_work.fetch_or(shared, Ordering::Relaxed);
            outputs
        };
        if outputs.is_err() {
            // tract's state still expects the sizes of the run that failed. What outlives a turn stays.
            let turn = &mut self.state.turn_state;
            let TurnState { resolved_symbols, scenario, values, shared: _, seating: _ } = turn;
            (*resolved_symbols, *scenario) = Default::default();
            values.clear();
        }
        outputs
    }

    /// The state of the plan.
    pub fn plan_state(&self) -> &TypedSimpleState {
        &self.state
    }

    /// The state of the plan, to change what its operators keep.
    pub fn plan_state_mut(&mut self) -> &mut TypedSimpleState {
        &mut self.state
    }
}

impl State for KernelsState {
    fn run(&mut self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.run(inputs)
    }

    fn resolve_symbol(&mut self, symbol: &Symbol, value: i64) -> TractResult<()> {
        State::resolve_symbol(&mut self.state, symbol, value)
    }

    fn seat(&mut self, seating: Seating) -> TractResult<()> {
        State::seat(&mut self.state, seating)
    }

    fn reset_lanes(&mut self, lanes: &[LaneId]) -> TractResult<()> {
        State::reset_lanes(&mut self.state, lanes)
    }

    fn runnable(&self) -> &dyn Runnable {
        &self.runnable
    }
}

/// Models on this crate's operators.
pub trait WithKernels: Sized {
    /// The model with the operators of this crate, as [`KernelsTransform`] puts them there. tract's own operators are
    /// not optimised yet: `into_optimized` does that.
    ///
    /// # Errors
    ///
    /// tract cannot declutter the model.
    fn with_kernels(self) -> TractResult<TypedModel>;

    /// The model, optimised and ready to run, on the operators of this crate.
    ///
    /// # Errors
    ///
    /// tract cannot declutter or optimise the model.
    fn into_runnable_with_kernels(self) -> TractResult<KernelsRunnable>;
}

impl WithKernels for TypedModel {
    fn with_kernels(self) -> TractResult<TypedModel> {
        KernelsTransform::default().transform_into(self)
    }

    fn into_runnable_with_kernels(self) -> TractResult<KernelsRunnable> {
        KernelsTransform::default().runnable(self)
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::math::add;

    use super::*;

    #[test]
    fn after_an_error_what_outlives_a_turn_is_there() -> TractResult<()> {
        let mut model = TypedModel::default();
        let size = model.symbols.sym("A");
        let data = model.add_source("data", f32::fact([size.clone()]))?;
        let other = model.add_source("other", f32::fact([size]))?;
        let sum = model.wire_node("sum", add(), &[data, other])?;
        model.select_output_outlets(&sum)?;
        let mut state = model.into_runnable_with_kernels()?.spawn()?;
        let seating = Seating::new(2, [LaneId(1)])?;
        State::seat(&mut state, seating.clone())?;
        state.state.turn_state.shared.insert(7usize);
        let inputs = |sizes: [usize; 2]| {
            sizes.map(|size| Tensor::zero::<f32>(&[size]).map(Tensor::into_tvalue)).into_iter()
        };
        for sizes in [[2, 3], [4, 4], [3, 2], [1, 1]] {
            let found = state.run(inputs(sizes).collect::<TractResult<_>>()?);
            assert_eq!(found.is_ok(), sizes[0] == sizes[1], "{sizes:?}");
            let turn = &state.state.turn_state;
            assert_eq!((&turn.seating, turn.shared.get()), (&seating, Some(&7usize)));
        }
        Ok(())
    }
}
