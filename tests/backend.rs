//! ONNX's own backend tests, which `models/backend_tests.py` writes: how many tract computes alone, and how many with this
//! crate's options and kernels.
//!
//! Each test runs as it is, and with all inputs but the first as constants, as they are in models. What is right with tract
//! alone must be right with the options and on the kernels, and there must be no panic in code of this project. Without
//! `ONNX_BACKEND_TESTS`, the folder that the script wrote, there is nothing to do.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use model_cases::{Case, DataSet, Stage, StagedModel, Tolerance, compare_within, tensor_proto};
use tract_openvino::tract_onnx::Onnx;
use tract_openvino::tract_onnx::pb::ModelProto;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{TractErrorContext, bail, ensure};
use tract_openvino::{OpenVinoOptions, WithOpenVinoOptions, name_dimensions, restart_loops};

/// ONNX's own relative tolerance, and an absolute one for what is near 0.
const TOLERANCE: Tolerance = Tolerance { atol: 1e-5, rtol: 1e-3 };

/// Where the last panic was.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

fn main() -> ExitCode {
    let Some(folder) = std::env::var_os("ONNX_BACKEND_TESTS") else { return ExitCode::SUCCESS };
    set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, |place| place.file().to_string());
        *PANIC.lock().expect("nobody panics with it") = Some(place);
    }));
    let folders = model_cases::find(Path::new(&folder)).expect("the folder is there");
    let mut counts = BTreeMap::<_, [usize; 3]>::new();
    let mut faults = vec![];
    for folder in &folders {
        let case = Case::load(folder).unwrap_or_else(|error| panic!("{folder:?}: {error:?}"));
        let model = case.model.onnx().expect("it is an ONNX model");
        for (form, (model, data_sets)) in forms(model, &case.data_sets) {
            let stock = attempt(|| check(&stock(), &model, &data_sets, Stage::Optimized));
            let ours = attempt(|| check(&ours(), &model, &data_sets, Stage::Kernels));
            let [tests, with_stock, with_ours] = counts.entry(form).or_default();
            *tests += 1;
            *with_stock += usize::from(stock.is_ok());
            *with_ours += usize::from(ours.is_ok());
            if let Err(error) = &ours {
                let place = PANIC.lock().expect("nobody panics with it").take();
                // The files of dependencies have absolute paths.
                let is_ours = place.as_ref().is_some_and(|place| !place.starts_with('/'));
                if stock.is_ok() || is_ours {
                    faults.push(format!(
                        "{} ({form}): {error:#} {}",
                        case.name,
                        place.unwrap_or_default()
                    ));
                }
            }
        }
    }
    for (form, [tests, with_stock, with_ours]) in counts {
        println!(
            "{form}: of {tests} tests tract passes {with_stock} alone, and {with_ours} with the options and kernels"
        );
    }
    for fault in &faults {
        println!("FAILED {fault}");
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A model, and what it is fed.
type Form = (ModelProto, Vec<DataSet>);

/// As it is, and with all inputs but the first as constants. Inputs without elements stay.
fn forms(model: &ModelProto, data_sets: &[DataSet]) -> Vec<(&'static str, Form)> {
    let mut forms = vec![("as they are", (model.clone(), data_sets.to_vec()))];
    if let [data_set] = data_sets
        && data_set.inputs.len() > 1
    {
        let (mut model, mut data_set) = (model.clone(), data_set.clone());
        let graph = model.graph.as_mut().expect("the model has a graph");
        let given: Vec<String> = graph.initializer.iter().map(|it| it.name.clone()).collect();
        let fed = graph.input.iter().filter(|input| !given.contains(&input.name)).skip(1);
        let fed: Vec<String> = fed.map(|input| input.name.clone()).collect();
        for (name, tensor) in fed.iter().zip(data_set.inputs.drain(1..)) {
            graph.input.retain(|input| input.name != *name);
            graph.initializer.push(tensor_proto(name, &tensor).expect("ONNX has the type"));
        }
        forms.push(("with constants", (model, vec![data_set])));
    }
    forms
}

fn stock() -> Onnx {
    tract_openvino::tract_onnx::onnx()
}

fn ours() -> Onnx {
    stock().with_openvino_options(OpenVinoOptions::default().with_standard_gather(true))
}

/// What a function gives. A panic is an error.
fn attempt(function: impl FnOnce() -> TractResult<()>) -> TractResult<()> {
    PANIC.lock().expect("nobody panics with it").take();
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(result) => result,
        Err(_) => bail!("it panics"),
    }
}

fn check(
    reader: &Onnx,
    model: &ModelProto,
    data_sets: &[DataSet],
    stage: Stage,
) -> TractResult<()> {
    let mut model = model.clone();
    if stage == Stage::Kernels {
        name_dimensions(&mut model);
    }
    let mut typed = reader.model_for_proto_model(&model)?.into_typed()?;
    if stage == Stage::Kernels {
        restart_loops(&mut typed);
    }
    let mut model = StagedModel::from_typed(typed, stage)?;
    for data_set in data_sets {
        let outputs = model.run_as_onnx(&data_set.inputs)?;
        ensure!(outputs.len() == data_set.outputs.len(), "it has {} outputs", outputs.len());
        for (number, (expected, found)) in data_set.outputs.iter().zip(&outputs).enumerate() {
            compare_within(expected, found, TOLERANCE)
                .with_context(|| format!("output {number}"))?;
        }
    }
    Ok(())
}
