//! Loops that run at the same time.

use tract_core::internal::*;
use tract_core::ops::gru_seq::GruSeq;
use tract_core::ops::scan::OptScan;

use crate::cost;
use crate::lstm::LstmSequence;
use crate::threads::Division;

/// Loops of which none needs what another one gives, on a thread each: the two directions of a recurrent layer. A loop alone
/// has one step after the other, and steps that are too short to be shared.
///
/// The inputs are those of the first loop, then those of the second one, and so are the outputs.
#[derive(Debug, Clone)]
pub(crate) struct Parallel {
    loops: Vec<Loop>,
}

#[derive(Debug, Clone)]
struct Loop {
    op: Box<dyn TypedOp>,
    inputs: usize,
    /// An input, and its axis of steps.
    steps: (usize, usize),
}

impl Parallel {
    /// These operators as one, with so many inputs each, if they are optimised loops.
    pub fn new(ops: [(Box<dyn TypedOp>, usize); 2]) -> Option<Parallel> {
        let loops = ops.into_iter().map(|(op, inputs)| {
            let steps = steps(&*op)?;
            Some(Loop { op, inputs, steps })
        });
        Some(Parallel { loops: loops.collect::<Option<_>>()? })
    }

    /// The loops, each with what is its own of the inputs.
    fn with_inputs<'a, T>(&'a self, inputs: &'a [T]) -> impl Iterator<Item = (&'a Loop, &'a [T])> {
        let mut rest = inputs;
        self.loops.iter().map(move |it| {
            let (own, others) = rest.split_at(it.inputs);
            rest = others;
            (it, own)
        })
    }
}

/// What an optimised loop has a step for: an input and its axis.
fn steps(op: &dyn TypedOp) -> Option<(usize, usize)> {
    if op.is::<GruSeq>() {
        return Some((0, 1));
    }
    if let Some(lstm) = op.downcast_ref::<LstmSequence>() {
        return Some((0, lstm.axis));
    }
    let mut inputs = op.downcast_ref::<OptScan>()?.input_mapping.iter().enumerate();
    inputs.find_map(|(slot, it)| Some((slot, it.as_scan()?.axis)))
}

// As tract's loops.
impl PartialEq for Parallel {
    fn eq(&self, _other: &Parallel) -> bool {
        false
    }
}

impl Eq for Parallel {}

impl_op!(
    Parallel,
    "Parallel",
    info = |op| {
        let mut info = vec![];
        for it in &op.loops {
            info.push(format!("{}:", it.op.name()));
            info.extend(it.op.info()?);
        }
        info
    },
    validation = |_| Validation::Rounding,
    mints_runtime_symbols = |op| op.loops.iter().any(|it| it.op.mints_runtime_symbols()),
    required_bound_symbols = |op, inputs| {
        let required =
            op.with_inputs(inputs).flat_map(|(it, own)| it.op.required_bound_symbols(own));
        required.collect()
    }
);

impl EvalOp for Parallel {
    not_out_of_plan!();

    fn state(&self, ctx: &EvalContext) -> TractResult<Option<Box<dyn OpState>>> {
        let states = self.loops.iter().map(|it| it.op.state(ctx));
        Ok(Some(Box::new(States(states.collect::<TractResult<_>>()?))))
    }

    fn drop_session(&self, session: SessionId, node_id: usize) {
        self.loops.iter().for_each(|it| it.op.drop_session(session, node_id));
    }
}

/// The state of each loop, if it has one.
#[derive(Debug, Clone)]
struct States(Vec<Option<Box<dyn OpState>>>);

impl OpState for States {
    fn eval(
        &mut self,
        ctx: &EvalContext,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        struct LoopRun<'a> {
            of: &'a Loop,
            state: Option<&'a mut Box<dyn OpState>>,
            inputs: TVec<TValue>,
            outputs: TVec<TValue>,
        }
        let op = op.downcast_ref::<Parallel>().context("this is the state of a Parallel")?;
        let mut runs = vec![];
        let mut work = 0usize;
        for ((of, inputs), state) in op.with_inputs(&inputs).zip(&mut self.0) {
            let (slot, axis) = of.steps;
            work = work.saturating_add(cost::STEP.of(inputs[slot].shape()[axis]));
            runs.push(LoopRun {
                of,
                state: state.as_mut(),
                inputs: inputs.into(),
                outputs: tvec!(),
            });
        }
        // Loops need nothing that belongs to the thread of the turn.
        let EvalContext { session, node_id, symbols, scenario, seating, shared: _ } = *ctx;
        Division::of(work).for_each(&mut runs, |run| {
            let ctx = EvalContext { session, node_id, symbols, scenario, seating, shared: None };
            let inputs = std::mem::take(&mut run.inputs);
            run.outputs = match &mut run.state {
                Some(state) => state.eval(&ctx, run.of.op.as_op(), inputs)?,
                None => run.of.op.eval(&ctx, inputs)?,
            };
            Ok(())
        })?;
        Ok(runs.into_iter().flat_map(|run| run.outputs).collect())
    }

    fn reset_lanes(&mut self, lanes: &[LaneId]) -> TractResult<()> {
        self.0.iter_mut().flatten().try_for_each(|state| state.reset_lanes(lanes))
    }
}

impl TypedOp for Parallel {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let count = self.loops.iter().map(|it| it.inputs).sum();
        crate::checks::expect_input_count("Parallel", inputs.len(), count..=count)?;
        let mut facts = tvec!();
        for (it, own) in self.with_inputs(inputs) {
            facts.extend(it.op.output_facts(own)?);
        }
        Ok(facts)
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use tract_core::ops::array::TypedConcat;
    use tract_core::ops::math::{add, tanh};
    use tract_core::ops::scan::{InputMapping, OutputMapping, Scan, ScanInfo};

    use super::*;
    use crate::{KernelsTransform, Outcome, WithKernels};

    const HIDDEN: usize = 4;

    fn numbers(shape: &[usize]) -> TractResult<Tensor> {
        let count = shape.iter().product();
        let numbers: Vec<f32> = (0..count).map(|it| (it * 37 % 23) as f32 / 20. - 0.5).collect();
        Tensor::from_shape(shape, &numbers)
    }

    /// `state = tanh(state + x)`, step by step.
    fn scan(x: &TypedFact, chunk: isize) -> TractResult<Scan> {
        let mut body = TypedModel::default();
        let step = f32::fact([1, 1, x.shape[2].to_usize()?]);
        let state = body.add_source("state", step.clone())?;
        let x = body.add_source("x", step)?;
        let sum = body.wire_node("sum", add(), &[state, x])?;
        let new = body.wire_node("new", tanh(), &sum)?;
        body.select_output_outlets(&new)?;
        let info = ScanInfo { axis: 1, chunk };
        let inputs = vec![InputMapping::State, InputMapping::Scan(info)];
        let output = OutputMapping {
            scan: Some((0, info)),
            full_dim_hint: None,
            last_value_slot: Some(1),
            state: true,
        };
        let mut scan = Scan::new(body, inputs, vec![output], 0)?;
        scan.reset_every_turn = true;
        Ok(scan)
    }

    fn gru(chunk: isize) -> GruSeq {
        GruSeq {
            hidden: HIDDEN,
            has_bias: true,
            chunk,
            emit_y: true,
            reset_every_turn: true,
            projected: true,
            packed_r: None,
        }
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum LoopKind {
        Scan,
        /// The second one sees what the first one gives.
        Chain,
        /// They go on where the last run ended.
        Carried,
        Gru,
    }

    /// Two loops over the steps of `x`, one of them backwards.
    fn model(kind: LoopKind) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let time = model.symbols.sym("T").to_dim();
        let mut x = model.add_source("x", f32::fact([1.to_dim(), time, (3 * HIDDEN).to_dim()]))?;
        let mut all = vec![];
        for (name, chunk) in [("forward", 1), ("back", -1)] {
            let initial = if kind == LoopKind::Gru { HIDDEN } else { 3 * HIDDEN };
            let initial = model.add_const(format!("{name}.initial"), numbers(&[1, 1, initial])?)?;
            let outputs = if kind == LoopKind::Gru {
                let r = model.add_const(format!("{name}.r"), numbers(&[3 * HIDDEN, HIDDEN])?)?;
                let bias = model.add_const(format!("{name}.bias"), numbers(&[6 * HIDDEN])?)?;
                model.wire_node(name, gru(chunk), &[x, r, bias, initial])?
            } else {
                let mut scan = scan(model.outlet_fact(x)?, chunk)?;
                scan.reset_every_turn = kind != LoopKind::Carried;
                model.wire_node(name, scan, &[initial, x])?
            };
            if kind == LoopKind::Chain {
                x = outputs[0];
            }
            all.extend(outputs);
        }
        let y = model.wire_node("y", TypedConcat::new(2), &[all[0], all[2]])?[0];
        model.select_output_outlets(&[y, all[1], all[3]])?;
        Ok(model)
    }

    /// How many pairs of loops run at once, and whether the outputs are as before, in run after run.
    fn pairs(kind: LoopKind) -> TractResult<usize> {
        let model = model(kind)?;
        let mut transformed = model.clone();
        let decisions = KernelsTransform::default().transform_with_decisions(&mut transformed)?;
        let is_pair = |outcome: &Outcome| *outcome == Outcome::Replaced("Parallel".into());
        let pairs = decisions.iter().filter(|it| it.rule == "loops" && is_pair(&it.outcome));
        let mut plain = model.clone().into_optimized()?.into_runnable()?.spawn()?;
        let mut found = model.into_runnable_with_kernels()?.spawn()?;
        for time in [5, 1, 40] {
            let x = numbers(&[1, time, 3 * HIDDEN])?.into_tvalue();
            let expected = plain.run(tvec!(x.clone()))?;
            let found = found.run(tvec!(x))?;
            for (found, expected) in found.iter().zip(&expected) {
                found.close_enough(expected, Approximation::Close)?;
            }
        }
        Ok(pairs.count())
    }

    fn check() -> TractResult<()> {
        for (kind, expected) in
            [(LoopKind::Scan, 1), (LoopKind::Gru, 1), (LoopKind::Chain, 0), (LoopKind::Carried, 0)]
        {
            assert_eq!(pairs(kind)?, expected, "{kind:?}");
        }
        Ok(())
    }

    #[test]
    fn two_directions_run_at_once() -> TractResult<()> {
        check()
    }

    #[test]
    #[cfg(feature = "multithread-mm")]
    fn two_directions_run_on_two_threads() -> TractResult<()> {
        use tract_core::prelude::multithread::{
            Executor, multithread_tract_scope, set_threading_element_threshold,
        };
        set_threading_element_threshold(0);
        multithread_tract_scope(Executor::multithread(2), check)
    }
}
