//! The command-line tool for OpenVINO IR, and for ONNX models with OpenVINO's operations.
//!
//! | file | contents |
//! |---|---|
//! | `main.rs` | arguments, exit status and log |
//! | `model.rs` | reading models, and giving values to their symbols |
//! | `inputs.rs` | the tensors that models are fed |
//! | `tensors.rs` | tensors in files |
//! | `run.rs`, `inspect.rs`, `check.rs`, `compare.rs`, `bench.rs`, `convert.rs` | one command each |
//! | `language.rs` | what `bench` measures of language models, with the feature `generation` |
//! | `measurement.rs` | what `bench` measures, as text, as JSON and beside an earlier measurement |
//! | `generate.rs` | two commands for language models, with the feature `generation` |
//! | `report.rs` | errors, advice, colours and columns |
//! | `panics.rs` | tract's panics as errors |

#![forbid(unsafe_code)]

mod bench;
mod check;
mod compare;
mod convert;
#[cfg(feature = "generation")]
mod generate;
mod inputs;
mod inspect;
#[cfg(feature = "generation")]
mod language;
mod measurement;
mod model;
mod panics;
mod report;
mod run;
mod tensors;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, CommandFactory, Parser, Subcommand};
use model_cases::Stage;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::TractErrorContext;

/// What is often used lies in large pages, and what is freed is used again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run, inspect, check, time and convert models of OpenVINO with tract: OpenVINO IR, and ONNX with OpenVINO's
/// operators.
#[derive(Debug, Parser)]
#[command(name = NAME, version, subcommand_required = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Show tract's log on standard error: -v, -vv or -vvv
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

const NAME: &str = "tract-openvino";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a model once and show its outputs
    ///
    /// Without inputs, a model folder (model.onnx, model.xml or openvino_model.xml, and test_data_set_N) is run on its data
    /// sets, and its outputs are compared with the expected ones.
    #[command(after_help = "Examples:
  tract-openvino run models/token_picker
  tract-openvino run model.onnx -i data=data.npy -i indices=in.npz:indices -o outputs
  tract-openvino run model.onnx --random --set N=8
  tract-openvino run model.xml --random --output conv1
  tract-openvino run openvino_tokenizer.xml --text \"A river\" --text \"The sea\"
  tract-openvino run model.xml --random --random-range input_ids=0..30522 --random-range attention_mask=1..=1")]
    Run(run::Run),
    /// Show the inputs, outputs and nodes of a model, with their types and shapes
    // Its name before 0.2.
    #[command(
        alias = "facts",
        after_help = "Examples:
  tract-openvino inspect model.onnx --stage decluttered
  tract-openvino inspect model.onnx --set N=8 --json
  tract-openvino inspect model.onnx --dot | dot -Tsvg > model.svg"
    )]
    Inspect(inspect::Inspect),
    /// Check that models compute what their folders expect, at every stage of tract
    ///
    /// A model folder has a model.onnx, a model.xml or an openvino_model.xml, and data sets: test_data_set_N/input_K.pb and
    /// output_K.pb, as the ONNX backend tests have them, or test_data_set_N.npz with the arrays input_K and output_K. The
    /// exit status is 1 if a check fails.
    #[command(after_help = "Examples:
  tract-openvino check models
  tract-openvino check models --atol 1e-5 --rtol 1e-3 --junit report.xml")]
    Check(check::Check),
    /// Find the first layer of OpenVINO IR that does not compute what OpenVINO does
    ///
    /// The script layer_values.py, which is in cli/ of the repository, writes the values of the layers with OpenVINO:
    /// `layer_values.py model.xml inputs.npz values.npz`. So that each value is there to be compared, layers are not fused: they
    /// run on operators of their own. The exit status is 1 if one differs.
    #[command(after_help = "Examples:
  tract-openvino compare model.xml values.npz --atol 1e-4 --rtol 1e-3
  tract-openvino compare model.xml values.npz --atol 1e-4 --stage kernels")]
    Compare(compare::Compare),
    /// Measure the time and memory of a model, and show where the time goes
    ///
    /// Of a folder with a language model, prefill and decode are measured, in tokens per second.
    #[command(after_help = "Examples:
  tract-openvino bench models/gather_7_layer --threads 2
  tract-openvino bench smollm2 --prefill 512 --decode 128
  tract-openvino bench model.onnx --random --set N=8 --time 5
  tract-openvino bench model.onnx --random --set N=8 --parallel 4
  tract-openvino bench model.onnx --random --set N=8 --json > before.json
  tract-openvino bench model.onnx --random --set N=8 --baseline before.json")]
    Bench(bench::Bench),
    /// Convert a model to one of tract's NNEF archives
    #[command(after_help = "Example:
  tract-openvino convert model.onnx model.nnef.tgz")]
    Convert(convert::Convert),
    /// Continue a text, or answer a question, with a language model
    ///
    /// The model is a folder that `optimum-cli export openvino` writes. If it has a chat template, the prompt is a message of the
    /// user. Options that are not given are as its generation_config.json says.
    #[cfg(feature = "generation")]
    #[command(after_help = "Examples:
  tract-openvino generate smollm2 --prompt 'What is the capital of France?'
  tract-openvino generate smollm2 --prompt 'Once upon a time' --no-template --temperature 0.7 --seed 1")]
    Generate(generate::Generate),
    /// Chat with a language model
    ///
    /// Each line of standard input is a message, but for empty ones.
    #[cfg(feature = "generation")]
    #[command(after_help = "Example:
  tract-openvino chat smollm2 --system 'Answer in one sentence.'")]
    Chat(generate::Chat),
    /// Print the completions for a shell
    #[command(after_help = "Example:
  tract-openvino completions bash > ~/.local/share/bash-completion/completions/tract-openvino")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all of them to a folder
    #[command(after_help = "Examples:
  tract-openvino man | man -l -
  tract-openvino man ~/.local/share/man/man1")]
    Man {
        /// The folder for the pages, one for each command
        folder: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    panics::be_quiet();
    let arguments = Arguments::parse();
    start_log(arguments.verbose);
    match panics::catch("running a command", || run(&arguments.command)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            report::show_error(&error);
            ExitCode::from(2)
        }
    }
}

/// False if an output is not as expected; an error if that could not be checked.
fn run(command: &Command) -> TractResult<bool> {
    match command {
        Command::Run(run) => run.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Check(check) => check.run(),
        Command::Compare(compare) => compare.run(),
        Command::Bench(bench) => bench.run(),
        Command::Convert(convert) => convert.run(),
        #[cfg(feature = "generation")]
        Command::Generate(generate) => generate.run(),
        #[cfg(feature = "generation")]
        Command::Chat(chat) => chat.run(),
        Command::Completions { shell } => {
            let mut text = vec![];
            clap_complete::generate(*shell, &mut Arguments::command(), NAME, &mut text);
            report::output().write_all(&text)?;
            Ok(true)
        }
        Command::Man { folder: None } => {
            let mut text = vec![];
            clap_mangen::Man::new(Arguments::command()).render(&mut text)?;
            report::output().write_all(&text)?;
            Ok(true)
        }
        Command::Man { folder: Some(folder) } => {
            let write = || {
                std::fs::create_dir_all(folder)?;
                clap_mangen::generate_to(Arguments::command(), folder)
            };
            write().with_context(|| format!("writing manual pages to {}", folder.display()))?;
            Ok(true)
        }
    }
}

/// Shows tract's log: warnings, and more with `-v`.
fn start_log(verbose: u8) {
    let level = match verbose {
        0 => log::LevelFilter::Warn,
        1 => log::LevelFilter::Info,
        2 => log::LevelFilter::Debug,
        _ => log::LevelFilter::Trace,
    };
    env_logger::Builder::new()
        .filter_level(level)
        .parse_default_env()
        .format(|out, record| {
            // tract warns so about archives of models whose open dimensions turned out to be equal.
            let text = record.args().to_string();
            if record.target() == "tract_nnef::deser" && text.starts_with("Assertion `") {
                return Ok(());
            }
            let level = match record.level() {
                log::Level::Warn => "warning".into(),
                level => level.as_str().to_lowercase(),
            };
            writeln!(out, "{level}: {text}")
        })
        .init();
}

/// Some stages by their names.
fn stage_parser(stages: &[Stage]) -> impl TypedValueParser<Value = Stage> + use<> {
    PossibleValuesParser::new(stages.iter().map(|stage| stage.name())).map(|name| {
        let stage = Stage::ALL.into_iter().find(|stage| stage.name() == name);
        stage.expect("it is one of the possible values")
    })
}
