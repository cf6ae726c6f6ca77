//! `bench` of a language model: tokens per second in prefill and in decode, as llama-bench measures them.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::ensure;
use tract_openvino_generation::tract_openvino_kernels::KernelsTransform;
use tract_openvino_generation::{Context, LanguageModel, rounding_kernels};
use tract_openvino_ir::document::Graph;

use crate::measurement::{Start, memory_bytes, nanoseconds, processor};
use crate::model::{Kind, document};
use crate::report::{output, print_table, printable, table};

/// Options of `bench` for language models.
#[derive(Debug, Args)]
#[command(next_help_heading = "Language models")]
pub struct LanguageOptions {
    /// The tokens of a prompt that prefill is measured with; 0 for none
    #[arg(long, value_name = "N", default_value_t = 512)]
    prefill: usize,
    /// The tokens that decode is measured with, one by one; 0 for none
    #[arg(long, value_name = "N", default_value_t = 128)]
    decode: usize,
    /// Leave activations, weights and KV cache as they are, instead of rounding them to 8 bits or bf16
    #[arg(long)]
    exact: bool,
}

/// A measurement, as JSON.
#[derive(Debug, Serialize)]
struct Report {
    model: String,
    processor: String,
    threads: u16,
    exact: bool,
    start: Start,
    tests: Vec<Test>,
}

/// Tokens per second of one kind of work.
#[derive(Debug, Serialize)]
struct Test {
    /// `pp512` is a prompt of 512 tokens at once, and `tg128` are 128 tokens one by one, as llama-bench names them.
    name: String,
    runs: usize,
    tokens_per_second: f64,
    standard_deviation: f64,
}

impl Test {
    /// Of runs of so many tokens.
    fn new(name: String, tokens: usize, times: &[Duration]) -> Test {
        let rates: Vec<f64> = times.iter().map(|it| tokens as f64 / it.as_secs_f64()).collect();
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let rate = mean(&rates);
        let squares: Vec<f64> = rates.iter().map(|it| (it - rate).powi(2)).collect();
        let standard_deviation = mean(&squares).sqrt();
        Test { name, runs: rates.len(), tokens_per_second: rate, standard_deviation }
    }
}

/// Whether a file is a language model that keeps its keys and values.
pub fn is_language_model(file: &Path) -> TractResult<bool> {
    if Kind::of(file)? != Kind::Ir {
        return Ok(false);
    }
    let document = document(file)?;
    let graph: &Graph = document.graph();
    Ok(!graph.sinks.is_empty() && graph.input_by_name("input_ids").is_some())
}

impl LanguageOptions {
    /// Measures the model of a folder for so long each.
    pub fn run(
        &self,
        folder: &Path,
        threads: u16,
        time: Duration,
        json: bool,
    ) -> TractResult<bool> {
        let began = Instant::now();
        let kernels = if self.exact { KernelsTransform::default() } else { rounding_kernels() };
        let model = LanguageModel::from_folder_with(folder, &kernels)?;
        let load_nanoseconds = nanoseconds(began.elapsed());
        let room = model.max_positions().unwrap_or(usize::MAX);
        for (option, tokens) in [("--prefill", self.prefill), ("--decode", self.decode)] {
            ensure!(
                tokens <= room,
                "{option} is {tokens}, but the model takes {room} tokens at most"
            );
        }
        let began = Instant::now();
        let mut context = model.start()?;
        let vocabulary = context.extend(&[0])?.len();
        let start = Start {
            load_nanoseconds,
            first_run_nanoseconds: nanoseconds(began.elapsed()),
            memory_bytes: memory_bytes(),
        };
        // Which tokens they are makes no difference, but for a model that sends them to different experts.
        let tokens: Vec<u32> = (0..self.prefill.max(self.decode) as u64)
            .map(|place| (place.wrapping_mul(2_654_435_761) % vocabulary.max(1) as u64) as u32)
            .collect();
        let mut tests = vec![];
        let mut measure =
            |name: &str, count: usize, run: &dyn Fn(&mut Context) -> TractResult<()>| {
                if count == 0 {
                    return Ok(());
                }
                let mut times = vec![];
                let began = Instant::now();
                // The first one warms up.
                while times.len() < 2 || began.elapsed() < time {
                    let mut context = model.start()?;
                    let started = Instant::now();
                    run(&mut context)?;
                    times.push(started.elapsed());
                }
                tests.push(Test::new(format!("{name}{count}"), count, &times[1..]));
                TractResult::Ok(())
            };
        measure("pp", self.prefill, &|context| context.extend(&tokens[..self.prefill]).map(drop))?;
        measure("tg", self.decode, &|context| {
            tokens[..self.decode].iter().try_for_each(|token| context.extend(&[*token]).map(drop))
        })?;
        let report = Report {
            model: printable(&folder.display().to_string()),
            processor: processor(),
            threads,
            exact: self.exact,
            start,
            tests,
        };
        let mut out = output();
        if json {
            writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
            return Ok(true);
        }
        let exact = if self.exact { ", exact" } else { "" };
        writeln!(out, "{}: {threads} threads{exact}", report.model)?;
        report.start.print(&mut out)?;
        let mut table = table(&["test", "tokens per second"]);
        for test in &report.tests {
            let rate = format!("{:.2} ± {:.2}", test.tokens_per_second, test.standard_deviation);
            table.add_row([test.name.clone(), rate]);
        }
        print_table(&mut out, &table)?;
        Ok(true)
    }
}
