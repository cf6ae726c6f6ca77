//! Runs a model with OpenVINO's operators and shows what tract knows of it.
//!
//! ```text
//! cargo run --release --example run -- models/token_picker
//! cargo run --release --example run -- models/token_picker/model.onnx input_0.pb input_1.pb ...
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use model_cases::{Case, compare, load_tensor_file};
use tract_openvino::WithOpenVino;
use tract_openvino::tract_onnx::prelude::*;

/// Runs an ONNX model with OpenVINO's gather operators on tract.
#[derive(Parser)]
struct Arguments {
    /// A folder with a model.onnx and data sets, or a .onnx file
    model: PathBuf,
    /// For a .onnx file: the inputs, as serialised TensorProtos, in the order of the graph
    inputs: Vec<PathBuf>,
}

fn main() -> ExitCode {
    env_logger::init_from_env(env_logger::Env::default().default_filter_or("warn"));
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the model on all its data sets. False when an output is not what the folder expects.
fn run(arguments: &Arguments) -> TractResult<bool> {
    if !arguments.model.is_dir() {
        let model = load(&arguments.model)?;
        let inputs = arguments.inputs.iter().map(load_tensor_file);
        show_outputs(&model, inputs.collect::<TractResult<Vec<Tensor>>>()?)?;
        return Ok(true);
    }
    let case = Case::load(&arguments.model)?;
    let model = load(&arguments.model.join("model.onnx"))?;
    let mut all_match = true;
    for (number, data_set) in case.data_sets.iter().enumerate() {
        println!("\ntest_data_set_{number}");
        let outputs = show_outputs(&model, data_set.inputs.clone())?;
        for (k, (expected, got)) in data_set.outputs.iter().zip(&outputs).enumerate() {
            match compare(expected, got) {
                Ok(()) => println!("  matches output_{k}"),
                Err(difference) => {
                    println!("  DOES NOT MATCH output_{k}: {difference}");
                    all_match = false;
                }
            }
        }
    }
    Ok(all_match)
}

/// Loads and optimises a model, and prints the facts of its inputs and outputs.
fn load(path: &Path) -> TractResult<Arc<TypedRunnableModel>> {
    let reader = tract_openvino::tract_onnx::onnx().with_openvino();
    let model = reader.model_for_path(path)?.into_optimized()?;
    println!("{}", path.display());
    for (kind, outlets) in [("input", model.input_outlets()?), ("output", model.output_outlets()?)]
    {
        for outlet in outlets {
            let name = match model.outlet_label(*outlet) {
                Some(label) => label,
                None => &model.node(outlet.node).name,
            };
            println!("  {kind:6} {name}: {:?}", model.outlet_fact(*outlet)?.without_value());
        }
    }
    model.into_runnable()
}

/// Runs a model once and prints inputs and outputs in short form.
fn show_outputs(model: &Arc<TypedRunnableModel>, inputs: Vec<Tensor>) -> TractResult<Vec<Tensor>> {
    for (number, input) in inputs.iter().enumerate() {
        println!("  input {number}: {}", input.dump(false)?);
    }
    let outputs = model.run(inputs.into_iter().map(TValue::from).collect())?;
    for (number, output) in outputs.iter().enumerate() {
        println!("  output {number}: {}", output.dump(false)?);
    }
    Ok(outputs.into_iter().map(|output| output.into_tensor()).collect())
}
