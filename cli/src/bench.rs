//! `bench`: the time and memory that a model takes, and the time of each of its nodes.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use model_cases::Case;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_core::ops::source::TypedSource;
use tract_openvino::tract_onnx::tract_core::plan::eval;
use tract_openvino::tract_onnx::tract_hir::internal::TractErrorContext;
#[cfg(feature = "generation")]
use tract_openvino::tract_onnx::tract_hir::internal::ensure;

use crate::inputs::{InputOptions, expect_fit};
#[cfg(feature = "generation")]
use crate::language::{LanguageOptions, is_language_model};
use crate::measurement::{
    Measurement, NodeTime, Profile, Quantiles, Start, crc32, memory_bytes, nanoseconds, processor,
};
use crate::model::{
    InputShape, Model, OperatorOptions, ReadingOptions, ThreadOptions, has_data_sets, input_names,
    model_file, shapes_of,
};
use crate::panics::{catch, during};
use crate::report::{output, printable};

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// A .onnx file, a .xml file of OpenVINO IR, a model folder (its first data set is fed), or an NNEF
    /// archive
    model: PathBuf,
    #[command(flatten)]
    threads: ThreadOptions,
    /// Run the model on N threads at once, as a server does; then there is no profile
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: u16,
    /// How long to run before the measurement
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    warm_up: Duration,
    /// How long to measure the whole model, and then again its nodes
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    time: Duration,
    /// Print JSON, for programs and for --baseline
    #[arg(long)]
    json: bool,
    /// Show an earlier measurement of the model beside this one: a file with what --json printed
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputOptions,
    #[command(flatten)]
    reading: ReadingOptions,
    #[command(flatten)]
    operators: OperatorOptions,
    #[cfg(feature = "generation")]
    #[command(flatten)]
    language: LanguageOptions,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// The time of each run, shortest first, and that of all of them, of which some may be at once.
struct Times {
    runs: Vec<Duration>,
    elapsed: Duration,
}

impl Bench {
    pub fn run(&self) -> TractResult<bool> {
        let threads = self.threads.start()?;
        let file = model_file(&self.model)?;
        #[cfg(feature = "generation")]
        if self.model.is_dir()
            && !self.inputs.are_given()
            && !has_data_sets(&self.model)?
            && is_language_model(&file)?
        {
            ensure!(
                self.baseline.is_none() && self.parallel == 1,
                "--baseline and --parallel are not for language models"
            );
            return self.language.run(&self.model, threads, self.time, self.json);
        }
        let baseline = self.baseline.as_deref().map(Measurement::read).transpose()?;
        let crc32 = crc32(&file)?;
        baseline.iter().try_for_each(|baseline| baseline.expect_model(crc32, &file))?;
        let mut loading = Duration::ZERO;
        let mut read = |shapes: &[InputShape]| -> TractResult<_> {
            let began = Instant::now();
            let load = |shapes: &_| self.reading.load_with(&file, shapes);
            let with_names = |model: Model| Ok((model.names()?, model.into_typed()?));
            let (read, _) = self.reading.read_for(shapes, load, with_names)?;
            loading += began.elapsed();
            Ok(read)
        };
        let (typed, inputs) = if !self.inputs.are_given() && has_data_sets(&self.model)? {
            let inputs = Case::load(&self.model)?.data_sets.swap_remove(0).inputs;
            let shapes = shapes_of(input_names(&file)?, &inputs);
            let (names, typed) = read(&shapes)?;
            expect_fit(&typed, &names, &file, &inputs)?;
            (typed, inputs)
        } else {
            let (names, typed) = read(&self.inputs.shapes()?)?;
            let inputs = self.inputs.tensors(&typed, &names, &file)?;
            (typed, inputs)
        };
        let facts = inputs.iter().map(|it| TypedFact::dt_shape(it.datum_type(), it.shape()));
        let facts = facts.map(|fact| format!("{fact:?}")).collect();
        let inputs: Vec<Arc<Tensor>> = inputs.into_iter().map(Arc::new).collect();
        let grows = has_open_variables(&typed);
        let began = Instant::now();
        let plan = during("optimizing the model", || self.operators.prepare(typed))?;
        loading += began.elapsed();
        // The same plan, of which each operator can be measured.
        let nodes = plan.typed_plan().context("a model that runs on this machine has a plan")?;
        // Drawn once: a thread that keeps it moving would be measured, too.
        let waiting = ProgressBar::new_spinner().with_message("measuring");
        waiting.tick();
        let measured = during("running the model", || {
            let began = Instant::now();
            drop(plan.spawn()?.run(values(&inputs))?);
            let start = Start {
                load_nanoseconds: nanoseconds(loading),
                first_run_nanoseconds: nanoseconds(began.elapsed()),
                memory_bytes: memory_bytes(),
            };
            let times = self.measure(&*plan, &inputs, grows)?;
            let profile = (self.parallel == 1).then(|| self.profile(nodes, &inputs, grows));
            Ok((start, times, profile.transpose()?))
        });
        waiting.finish_and_clear();
        let (start, Times { runs, elapsed }, profile) = measured?;
        let measurement = Measurement {
            model: printable(&self.model.display().to_string()),
            crc32,
            processor: processor(),
            stage: self.operators.stage().name().into(),
            inputs: facts,
            threads,
            parallel: self.parallel,
            start: Some(start),
            runs: runs.len(),
            runs_per_second: runs.len() as f64 / elapsed.as_secs_f64(),
            nanoseconds: Quantiles::of(&runs),
            profile,
        };
        let mut out = output();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&measurement)?)?;
        } else if let Some(baseline) = baseline {
            measurement.print_beside(&baseline, &mut out)?;
        } else {
            measurement.print(&mut out)?;
        }
        Ok(true)
    }

    fn measure(
        &self,
        plan: &dyn Runnable,
        inputs: &[Arc<Tensor>],
        grows: bool,
    ) -> TractResult<Times> {
        let warm = Barrier::new(self.parallel.into());
        let measure = || {
            let inputs = values(inputs);
            let state = catch("running the model", || {
                let mut state = plan.spawn()?;
                repeat(self.warm_up, || {
                    if grows {
                        state = plan.spawn()?;
                    }
                    state.run(inputs.clone()).map(drop)
                })?;
                Ok(state)
            });
            // All threads come here, with an error, too.
            warm.wait();
            let mut state = state?;
            let mut times = vec![];
            let began = Instant::now();
            catch("running the model", || {
                repeat(self.time, || {
                    let inputs = inputs.clone();
                    if grows {
                        state = plan.spawn()?;
                    }
                    let started = Instant::now();
                    // Outputs are let go as part of a run: their memory is asked for in each.
                    drop(state.run(inputs)?);
                    times.push(started.elapsed());
                    Ok(())
                })
            })?;
            Ok(Times { runs: times, elapsed: began.elapsed() })
        };
        let measured: Vec<TractResult<Times>> = match self.parallel {
            1 => vec![measure()],
            threads => thread::scope(|scope| {
                let threads: Vec<_> = (0..threads).map(|_| scope.spawn(measure)).collect();
                let times = threads.into_iter().map(|thread| thread.join());
                times.map(|times| times.expect("panics are errors")).collect()
            }),
        };
        let mut all = Times { runs: vec![], elapsed: Duration::ZERO };
        for times in measured {
            let times = times?;
            all.runs.extend(times.runs);
            // They begin together.
            all.elapsed = all.elapsed.max(times.elapsed);
        }
        all.runs.sort();
        Ok(all)
    }

    fn profile(
        &self,
        plan: &Arc<TypedRunnableModel>,
        inputs: &[Arc<Tensor>],
        grows: bool,
    ) -> TractResult<Profile> {
        let inputs = values(inputs);
        let mut state = plan.spawn()?;
        let (mut runs, mut total) = (0, Duration::ZERO);
        let mut times = vec![Duration::ZERO; plan.model().nodes().len()];
        repeat(self.time, || {
            let inputs = inputs.clone();
            if grows {
                state = plan.spawn()?;
            }
            let started = Instant::now();
            let outputs = state.run_plan_with_eval(inputs, |context, op_state, node, inputs| {
                let started = Instant::now();
                let outputs = eval(context, op_state, node, inputs);
                times[node.id] += started.elapsed();
                outputs
            });
            drop(outputs?);
            total += started.elapsed();
            runs += 1;
            Ok(())
        })?;
        let sum: Duration = times.iter().sum();
        debug_assert!(sum <= total, "nodes take {sum:?} of {total:?}");
        let measured = plan.model().nodes().iter().zip(&times);
        let measured =
            measured.filter(|(node, time)| !time.is_zero() && !node.op_is::<TypedSource>());
        let mut nodes: Vec<NodeTime> = measured
            .map(|(node, time)| NodeTime {
                name: printable(&node.name),
                operator: node.op.name().into(),
                nanoseconds: nanoseconds(*time / runs),
            })
            .collect();
        nodes.sort_by_key(|node| std::cmp::Reverse(node.nanoseconds));
        Ok(Profile { runs, nodes, total_nanoseconds: nanoseconds(total / runs) })
    }
}

/// Whether variables grow from run to run, as a KV cache does: each run is the first one of a state then, so that all take as long.
fn has_open_variables(model: &TypedModel) -> bool {
    let is_open = |node: &TypedNode| node.outputs[0].fact.shape.as_concrete().is_none();
    model.nodes().iter().any(|node| node.op.name() == "OpenVinoReadValue" && is_open(node))
}

/// As tract takes tensors. Threads cannot share these.
fn values(inputs: &[Arc<Tensor>]) -> TVec<TValue> {
    inputs.iter().map(|input| input.clone().into_tvalue()).collect()
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
