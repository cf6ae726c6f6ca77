//! `check`: compares the outputs of models with the expected ones in their folders.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use model_cases::{Case, Difference, Failure, Stage, Tolerance, find};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{TractErrorContext, bail, format_err};

use crate::inputs::expect_fit;
use crate::model::{
    InputShape, MODEL_FOLDER, Model, ReadingOptions, ThreadOptions, input_names, load_case,
    model_file, shapes_of,
};
use crate::panics::catch;
use crate::report::{
    BAD, GOOD, NAME, error_with_help, note, output, output_width, with_advice, wrap,
};

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Folders: all model folders at and below them are checked
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Check at this stage only; may be given several times
    #[arg(long = "stage", value_name = "STAGE", value_parser = crate::stage_parser(&Stage::ALL))]
    stages: Vec<Stage>,
    /// Save the computed outputs as the expected ones, if they are the same at all stages
    #[arg(long, conflicts_with_all = ["stages", "atol", "rtol"])]
    bless: bool,
    /// Write a JUnit report
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    tolerance: ToleranceOptions,
    #[command(flatten)]
    reading: ReadingOptions,
    #[command(flatten)]
    threads: ThreadOptions,
}

/// How close outputs must be to the expected ones.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparing outputs")]
pub struct ToleranceOptions {
    /// The absolute tolerance for floats
    #[arg(long, value_name = "X", default_value_t = 0., value_parser = tolerance)]
    atol: f64,
    /// The tolerance relative to the expected float; it is added to the absolute one
    #[arg(long, value_name = "X", default_value_t = 0., value_parser = tolerance)]
    rtol: f64,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let tolerance: f64 = text.parse().map_err(|_| "it is not a number")?;
    if tolerance >= 0. { Ok(tolerance) } else { Err("it must be 0 or more".into()) }
}

impl ToleranceOptions {
    pub fn tolerance(&self) -> Tolerance {
        Tolerance { atol: self.atol, rtol: self.rtol }
    }
}

/// The result of a model at a stage, or of a model that could not be read.
struct Outcome {
    folder: PathBuf,
    stage: Option<Stage>,
    /// A line for each failure.
    failures: Vec<Line>,
    /// Whether the model had the sizes of the data sets, because it does not work with its symbols.
    has_sizes: bool,
    time: Duration,
}

/// A model with the sizes of data sets that follow each other, the number of the first one, and these.
type Sized = (usize, Case, Model);

/// The advice if all failures are [`Difference::Element`]s that are close.
pub const IS_CLOSE: &str = "all failures are floats within 0.001 of what was expected, which is how far rounding may take a network: \
     --atol and --rtol say how far is near enough, like --atol 1e-4 --rtol 1e-3";

/// The text of a failure.
struct Line {
    text: String,
    /// Whether it is a float close to the expected one.
    is_close: bool,
}

impl Line {
    fn new(text: String, error: &TractError) -> Line {
        let is_close = error.downcast_ref::<Difference>().is_some_and(Difference::is_close);
        Line { text, is_close }
    }
}

impl Check {
    /// Checks all models. False if one fails.
    pub fn run(&self) -> TractResult<bool> {
        self.reading.expect_all_outputs()?;
        self.threads.start()?;
        let started = Instant::now();
        let folders = self.folders()?;
        let progress = progress(folders.len());
        let mut symbols = BTreeSet::new();
        let mut outcomes = vec![];
        for folder in &folders {
            progress.set_message(folder.display().to_string());
            for outcome in self.check_folder(folder, &mut symbols, &progress)? {
                for failure in &outcome.failures {
                    say(&progress, &format!("{BAD}FAIL{BAD:#} {}", failure.text))?;
                }
                outcomes.push(outcome);
            }
            progress.inc(1);
        }
        progress.finish_and_clear();
        self.reading.check_symbols("none of the models has a", &symbols)?;
        if let Some(path) = &self.junit {
            let report = junit(&outcomes, started.elapsed()).to_string()?;
            std::fs::write(path, report).with_context(|| format!("writing {}", path.display()))?;
        }
        let failed = outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).count();
        let style = if failed == 0 { GOOD } else { BAD };
        let count = |number: usize, what: &str| {
            format!("{number} {what}{}", if number == 1 { "" } else { "s" })
        };
        let passed = outcomes.iter().filter(|outcome| outcome.failures.is_empty());
        let sizes_only = passed.filter(|outcome| outcome.has_sizes).count();
        let sizes_only = match sizes_only {
            0 => String::new(),
            sizes_only => format!(" ({sizes_only} with the sizes of the data sets only)"),
        };
        let summary = format!(
            "{}, {}: {style}{} passed{sizes_only}, {failed} failed{style:#} in {:.1} s",
            count(folders.len(), "model"),
            count(outcomes.len(), "check"),
            outcomes.len() - failed,
            started.elapsed().as_secs_f64()
        );
        writeln!(output(), "{summary}")?;
        let mut failures = outcomes.iter().flat_map(|outcome| &outcome.failures);
        if failed > 0 && failures.all(|failure| failure.is_close) {
            note(IS_CLOSE);
        }
        Ok(failed == 0)
    }

    fn folders(&self) -> TractResult<Vec<PathBuf>> {
        let mut folders = vec![];
        for path in &self.paths {
            let help = MODEL_FOLDER.to_string();
            if !path.is_dir() {
                let what = if path.exists() { "is not a folder" } else { "does not exist" };
                let message = format!("{} {what}", path.display());
                return Err(error_with_help(message, [help]));
            }
            let found = find(path)?;
            if found.is_empty() {
                let message = format!("there is no model folder at or below {}", path.display());
                return Err(error_with_help(message, [help]));
            }
            folders.extend(found);
        }
        let mut seen = BTreeSet::new();
        folders.retain(|folder| seen.insert(folder.clone()));
        Ok(folders)
    }

    fn stages(&self) -> &[Stage] {
        if self.stages.is_empty() { &Stage::ALL } else { &self.stages }
    }

    fn check_folder(
        &self,
        folder: &Path,
        symbols: &mut BTreeSet<String>,
        progress: &ProgressBar,
    ) -> TractResult<Vec<Outcome>> {
        let started = Instant::now();
        let file = model_file(folder)?;
        let failed = |error: TractError| Outcome {
            folder: folder.into(),
            stage: None,
            failures: vec![Line::new(format!("{}: {error:#}", folder.display()), &error)],
            has_sizes: false,
            time: started.elapsed(),
        };
        let mut case = match catch("reading", || load_case(folder, &file)) {
            Ok(read) => read,
            Err(error) => return Ok(vec![failed(error)]),
        };
        let read = |shapes: &[InputShape]| {
            let model = self.reading.load_with(&file, shapes)?;
            let known = model.symbols();
            Ok((known, model.with_symbols(&self.reading.symbols)?))
        };
        let model = catch("reading", || read(&[])).map(|(known, model)| {
            symbols.extend(known);
            model
        });
        // With the sizes of the data sets, where the model does not work with its symbols. Made when it is first needed.
        let mut sized: Option<Vec<Sized>> = None;
        let with_sizes = |case: &Case| -> TractResult<Vec<Sized>> {
            let names = catch("reading", || input_names(&file))?;
            let cases = case.by_shapes().into_iter().map(|(first, case)| {
                let shapes = shapes_of(names.clone(), &case.data_sets[0].inputs);
                catch("reading", || read(&shapes)).map(|(_, model)| (first, case, model))
            });
            cases.collect()
        };
        let because = |error: &TractError| {
            note(&format!(
                "{}: the sizes are those of the data sets, because {error:#}",
                folder.display()
            ));
        };
        if let Err(error) = &model {
            // The first error is the one that is about the model as it stands.
            match with_sizes(&case) {
                Ok(models) => sized = Some(models),
                Err(_) => return Ok(vec![failed(format_err!("{error:#}"))]),
            }
            because(error);
        }
        let mut blessed = vec![];
        if self.bless {
            let last = *self.stages().last().expect("there are stages");
            let bless = || match &model {
                Ok(model) => case.expect_outputs_of(&mut model.clone().at(last)?),
                Err(_) => bail!("--bless needs a model that loads with its symbols: give --shape"),
            };
            match catch("running the model", bless) {
                Ok(changed) => blessed = changed,
                Err(error) => return Ok(vec![failed(error)]),
            }
        }
        let mut outcomes = vec![];
        for &stage in self.stages() {
            let started = Instant::now();
            let tolerance = self.tolerance.tolerance();
            let check = |model: &Model| {
                if let Model::Typed(typed) = model {
                    let names = model.names()?;
                    let mut inputs = case.data_sets.iter().map(|data_set| &data_set.inputs);
                    inputs.try_for_each(|inputs| expect_fit(typed, &names, &file, inputs))?;
                }
                Ok(case.check(&[stage], tolerance, |stage| model.clone().at(stage)))
            };
            let check_sized = |sized: &[Sized]| {
                let mut failures = vec![];
                for (first, case, model) in sized {
                    let found = case.check(&[stage], tolerance, |stage| model.clone().at(stage));
                    failures.extend(found.into_iter().map(|it| it.from_data_set(*first)));
                }
                Ok(failures)
            };
            let run = |check: &dyn Fn() -> TractResult<Vec<Failure>>| {
                catch("running the model", check)
                    .unwrap_or_else(|error| vec![Failure { stage, data_set: None, error }])
            };
            let mut failures = match &model {
                Ok(model) => run(&|| check(model)),
                Err(_) => run(&|| check_sized(sized.as_deref().unwrap_or_default())),
            };
            let mut has_sizes = model.is_err();
            // It loads with its symbols, but does not get to this stage.
            if let [Failure { data_set: None, error, .. }] = &*failures
                && !has_sizes
            {
                if sized.is_none() {
                    sized = with_sizes(&case).ok();
                }
                let found = sized.as_deref().map(|sized| run(&|| check_sized(sized)));
                if let Some(found) = found.filter(Vec::is_empty) {
                    because(error);
                    (failures, has_sizes) = (found, true);
                }
            }
            let line = |Failure { data_set, error, .. }: &Failure| {
                let data_set =
                    data_set.map_or_else(String::new, |k| format!(", test_data_set_{k}"));
                let what = with_advice(error);
                Line::new(format!("{}, {stage}{data_set}: {what}", folder.display()), error)
            };
            outcomes.push(Outcome {
                folder: folder.into(),
                stage: Some(stage),
                failures: failures.iter().map(line).collect(),
                has_sizes,
                time: started.elapsed(),
            });
        }
        // What only one stage computes is not what is to be expected.
        if outcomes.iter().all(|outcome| outcome.failures.is_empty()) {
            for (data_set, output) in blessed {
                let graph = case.model.onnx().and_then(|model| model.graph.as_ref());
                let name = graph.and_then(|graph| graph.output.get(output));
                let name = name.map_or("", |output| &output.name);
                let place = case.save_output(data_set, output, name)?;
                say(progress, &format!("{GOOD}BLESSED{GOOD:#} {NAME}{place}{NAME:#}"))?;
            }
        }
        Ok(outcomes)
    }
}

/// A bar on standard error, if that is a terminal.
fn progress(length: usize) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {wide_msg}");
    bar.set_style(style.expect("the template is right"));
    bar
}

/// Prints a line while the bar is hidden.
fn say(progress: &ProgressBar, line: &str) -> TractResult<()> {
    let line = wrap(line, "    ", output_width());
    Ok(progress.suspend(|| writeln!(output(), "{line}"))?)
}

fn junit(outcomes: &[Outcome], time: Duration) -> Report {
    let mut suite = TestSuite::new("tract-openvino check");
    for outcome in outcomes {
        let mut status = TestCaseStatus::success();
        if !outcome.failures.is_empty() {
            status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let lines: Vec<&str> = outcome.failures.iter().map(|line| &*line.text).collect();
            status.set_message(lines.join("\n"));
        }
        let name = outcome.stage.map_or("read", Stage::name);
        let mut case = TestCase::new(name, status);
        case.set_classname(outcome.folder.display().to_string()).set_time(outcome.time);
        suite.add_test_case(case);
    }
    suite.set_time(time);
    let mut report = Report::new("tract-openvino check");
    report.set_time(time).add_test_suite(suite);
    report
}
