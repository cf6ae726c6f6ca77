//! The operations as nodes of ONNX models: one test for each model folder of `models/` that can be one. Each layer of the IR
//! becomes a node of OpenVINO's domain; tensors are those of the folder.

#[path = "onnx/convert.rs"]
mod convert;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use libtest_mimic::{Arguments, Failed, Trial};
use model_cases::{Case, Failure, Stage, StagedModel, Tolerance};
use tract_core::internal::*;
use tract_openvino_ir::tract_openvino::tract_onnx::Onnx;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::ModelProto;
use tract_openvino_ir::tract_openvino::{
    NegativeIndices, OpenVinoOptions, WithOpenVinoOptions, tract_onnx,
};
use tract_openvino_ir::{WithOpenVinoIr, ir};

const OPERATIONS: Tolerance = Tolerance { atol: 1e-5, rtol: 1e-5 };
const HALF: Tolerance = Tolerance { atol: 1e-3, rtol: 2e-3 };

fn main() {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let mut trials = vec![];
    for folder in model_cases::find(&root).expect("the models are there") {
        let name = folder.strip_prefix(&root).expect("it is below").display().to_string();
        if name.starts_with("networks/") {
            continue;
        }
        trials.push(Trial::test(name, move || check_folder(&folder)));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let covered = COVERED.lock().unwrap();
    println!("{} operations", covered.len());
    for (reason, folders) in &*SKIPPED.lock().unwrap() {
        println!("skipped, {reason}: {}", folders.len());
    }
    for (op, count) in &*covered {
        print!("{op}:{count} ");
    }
    println!();
    conclusion.exit()
}

static COVERED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
static SKIPPED: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

fn reader() -> Onnx {
    let options = OpenVinoOptions::default().with_negative_indices(NegativeIndices::Wrap);
    tract_onnx::onnx().with_openvino_options(options).with_openvino_ir()
}

fn check_folder(folder: &Path) -> Result<(), Failed> {
    let error = |error: TractError| Failed::from(format!("{error:#}"));
    let case = Case::load(folder).map_err(error)?;
    let proto = ir().proto_model_for_path(folder.join("model.xml")).map_err(error)?;
    let weights = std::fs::read(folder.join("model.bin")).unwrap_or_default();
    let model = match convert::to_onnx(&proto, &weights) {
        Ok(model) => model,
        Err(reason) => {
            SKIPPED.lock().unwrap().entry(reason).or_default().insert(case.name.clone());
            return Ok(());
        }
    };
    let failures = check(&case, &model);
    if failures.is_empty() {
        let mut covered = COVERED.lock().unwrap();
        for layer in &proto.document.graph().layers {
            *covered.entry(layer.operation.clone()).or_default() += 1;
        }
        return Ok(());
    }
    let mut stated = model.clone();
    convert::state_outputs(&mut stated, &proto);
    let with = check(&case, &stated);
    let failures = if std::env::var_os("STATED").is_some() { &with } else { &failures };
    let with = with.len();
    let lines = failures.iter().map(|Failure { stage, data_set, error }| {
        let data_set = data_set.map_or_else(String::new, |number| format!(", data set {number}"));
        format!("\n- {stage}{data_set}: {error:#}")
    });
    Err(format!(
        "{} failures ({with} with stated outputs):{}",
        failures.len(),
        lines.take(3).collect::<String>()
    )
    .into())
}

fn check(case: &Case, model: &ModelProto) -> Vec<Failure> {
    let outputs = case.data_sets.iter().flat_map(|data_set| &data_set.outputs);
    let is_half = outputs.into_iter().any(|output| output.datum_type() == DatumType::F16)
        || model.graph.iter().flat_map(|graph| &graph.initializer).any(|it| it.data_type == 10);
    let tolerance = if is_half { HALF } else { OPERATIONS };
    let at = |stage| StagedModel::new(reader().model_for_proto_model(model)?, stage);
    let of_stage = |stage: &Stage| {
        let found = case.check(&[*stage], tolerance, at);
        // Where tract has sizes, the type is lost.
        let is_size = |failure: &Failure| {
            format!("{:#}", failure.error).contains("element type I32 expected, got I64")
        };
        if !found.iter().any(is_size) {
            return found;
        }
        let mut case = case.clone();
        for output in case.data_sets.iter_mut().flat_map(|data_set| &mut data_set.outputs) {
            if output.datum_type() == DatumType::I32 {
                *output = output.cast_to::<i64>().expect("they are integers").into_owned();
            }
        }
        case.check(&[*stage], tolerance, at)
    };
    Stage::ALL.iter().flat_map(of_stage).collect()
}
