//! `bench`: the time that a model takes, and each of its nodes.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::{Cell, CellAlignment, Color};
use indicatif::ProgressBar;
use model_cases::Case;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_core::ops::source::TypedSource;
use tract_openvino::tract_onnx::tract_core::plan::eval;
use tract_openvino::tract_onnx::tract_hir::internal::TractErrorContext;

use crate::inputs::{InputOptions, expect_fit};
use crate::model::{
    Model, OperatorOptions, ReadingOptions, has_data_sets, input_names, model_file, shapes_of,
    use_threads,
};
use crate::panics::during;
use crate::report::{GOOD, output, print_table, printable, table};

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// A .onnx file, a .xml file of OpenVINO IR, a model folder (its first data set is fed), or an NNEF
    /// archive
    model: PathBuf,
    /// The number of threads that tract may use
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// How long to run before the measurement
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    warm_up: Duration,
    /// How long to measure the whole model, and then again its nodes
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    time: Duration,
    #[command(flatten)]
    inputs: InputOptions,
    #[command(flatten)]
    reading: ReadingOptions,
    #[command(flatten)]
    operators: OperatorOptions,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// The time of each run, shortest first.
struct Times(Vec<Duration>);

impl Times {
    /// The time that this share of the runs does not exceed.
    fn quantile(&self, share: f64) -> Duration {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }

    fn total(&self) -> Duration {
        self.0.iter().sum()
    }
}

/// Where the time goes, in all runs together.
struct Profile {
    runs: u32,
    total: Duration,
    /// Indexed by the number of the node.
    nodes: Vec<Duration>,
}

impl Bench {
    pub fn run(&self) -> TractResult<bool> {
        use_threads(self.threads);
        let file = model_file(&self.model)?;
        let load = |shapes: &_| self.reading.load_with(&file, shapes);
        let with_names = |model: Model| Ok((model.names()?, model.into_typed()?));
        let (typed, inputs) = if !self.inputs.are_given() && has_data_sets(&self.model)? {
            let inputs = Case::load(&self.model)?.data_sets.swap_remove(0).inputs;
            let shapes = shapes_of(input_names(&file)?, &inputs);
            let ((names, typed), _) = self.reading.read_for(&shapes, load, with_names)?;
            expect_fit(&typed, &names, &file, &inputs)?;
            (typed, inputs)
        } else {
            let shapes = self.inputs.shapes()?;
            let ((names, typed), _) = self.reading.read_for(&shapes, load, with_names)?;
            let inputs = self.inputs.tensors(&typed, &names, &file)?;
            (typed, inputs)
        };
        let inputs: TVec<TValue> = inputs.into_iter().map(TValue::from).collect();
        let plan = during("optimizing the model", || self.operators.prepare(typed))?;
        // The same plan, of which each operator can be measured.
        let nodes = plan.typed_plan().context("a model that runs on this machine has a plan")?;
        // Drawn once: a thread that keeps it moving would be measured, too.
        let waiting = ProgressBar::new_spinner().with_message("measuring");
        waiting.tick();
        let measured = during("running the model", || {
            Ok((self.measure(&*plan, &inputs)?, self.profile(nodes, &inputs)?))
        });
        waiting.finish_and_clear();
        let (times, profile) = measured?;
        let mut out = output();
        self.print_times(&mut out, &times)?;
        profile.print(&mut out, nodes.model())?;
        Ok(true)
    }

    fn measure(&self, plan: &dyn Runnable, inputs: &TVec<TValue>) -> TractResult<Times> {
        let mut state = plan.spawn()?;
        repeat(self.warm_up, || state.run(inputs.clone()).map(drop))?;
        let mut times = vec![];
        repeat(self.time, || {
            let inputs = inputs.clone();
            let started = Instant::now();
            // Outputs are let go as part of a run: their memory is asked for in each.
            drop(state.run(inputs)?);
            times.push(started.elapsed());
            Ok(())
        })?;
        times.sort();
        Ok(Times(times))
    }

    fn profile(
        &self,
        plan: &Arc<TypedRunnableModel>,
        inputs: &TVec<TValue>,
    ) -> TractResult<Profile> {
        let mut state = plan.spawn()?;
        let nodes = vec![Duration::ZERO; plan.model().nodes().len()];
        let mut profile = Profile { runs: 0, total: Duration::ZERO, nodes };
        repeat(self.time, || {
            let inputs = inputs.clone();
            let started = Instant::now();
            let outputs = state.run_plan_with_eval(inputs, |context, op_state, node, inputs| {
                let started = Instant::now();
                let outputs = eval(context, op_state, node, inputs);
                profile.nodes[node.id] += started.elapsed();
                outputs
            });
            drop(outputs?);
            profile.total += started.elapsed();
            profile.runs += 1;
            Ok(())
        })?;
        let nodes: Duration = profile.nodes.iter().sum();
        debug_assert!(nodes <= profile.total, "nodes take {nodes:?} of {:?}", profile.total);
        Ok(profile)
    }

    fn print_times(&self, out: &mut impl Write, times: &Times) -> TractResult<()> {
        let plural = if self.threads == 1 { "" } else { "s" };
        writeln!(
            out,
            "{}: {} runs on {} thread{plural}",
            self.model.display(),
            times.0.len(),
            self.threads
        )?;
        for (name, time) in [
            ("minimum", times.0[0]),
            ("median", times.quantile(0.5)),
            ("95th percentile", times.quantile(0.95)),
        ] {
            writeln!(out, "  {name:16} {GOOD}{:>12}{GOOD:#} µs", microseconds(time))?;
        }
        let rate = times.0.len() as f64 / times.total().as_secs_f64();
        writeln!(out, "  {:16} {GOOD}{rate:>12.1}{GOOD:#}", "runs per second")?;
        Ok(())
    }
}

/// Calls a function repeatedly until the time is over, at least once.
fn repeat(time: Duration, mut function: impl FnMut() -> TractResult<()>) -> TractResult<()> {
    let started = Instant::now();
    loop {
        function()?;
        if started.elapsed() >= time {
            return Ok(());
        }
    }
}

/// To the nanosecond, so that the numbers add up.
fn microseconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_micros(), time.as_nanos() % 1000)
}

impl Profile {
    fn print(&self, out: &mut impl Write, model: &TypedModel) -> TractResult<()> {
        const SHOWN: usize = 20;
        let total = self.total / self.runs;
        let mut nodes: Vec<(usize, Duration)> =
            self.nodes.iter().map(|time| *time / self.runs).enumerate().collect();
        nodes.retain(|(id, time)| !time.is_zero() && !model.nodes()[*id].op_is::<TypedSource>());
        nodes.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let (shown, others) = nodes.split_at(nodes.len().min(SHOWN));
        let others_time: Duration = others.iter().map(|(_, time)| *time).sum();
        let rest = total - nodes.iter().map(|(_, time)| *time).sum::<Duration>();

        writeln!(out, "profile of {} other runs, the mean of them:", self.runs)?;
        let mut table = table(&["node", "operator", "µs", "share"]);
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let share = |time: Duration| {
            format!(
                "{:.1} %",
                100. * time.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE)
            )
        };
        for (id, time) in shown {
            let node = &model.nodes()[*id];
            table.add_row([
                Cell::new(printable(&node.name)).fg(Color::Cyan),
                Cell::new(node.op.name()),
                Cell::new(microseconds(*time)),
                Cell::new(share(*time)),
            ]);
        }
        let mut add = |name: String, time: Duration| {
            table.add_row([name, String::new(), microseconds(time), share(time)]);
        };
        if !others.is_empty() {
            add(format!("{} other nodes", others.len()), others_time);
        }
        add("rest: inputs, and tract between the nodes".into(), rest);
        add("total".into(), total);
        print_table(out, &table)
    }
}
