//! The operations as nodes of ONNX models: one test for each model folder of `models/` whose layers can be nodes, and for
//! each model of `onnx/models/`, whose nodes OpenVINO's own reader of ONNX takes. Each layer of a folder's IR becomes a node of
//! OpenVINO's domain; the tensors are those of the folder.
//!
//! Each model runs at every stage of tract: as it is loaded, typed, decluttered, optimised, and on the kernels. With the feature
//! `nnef`, what is decluttered is saved to NNEF and loaded again, too, as for IR.
//!
//! `onnx/operations.txt` has the operations and how many folders have each. With the variable `BLESS` it is written.

#[cfg(feature = "nnef")]
#[path = "models/nnef.rs"]
#[expect(dead_code, reason = "the lists of what has no text are those of IR")]
mod nnef;

#[path = "onnx/convert.rs"]
mod convert;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Failed, Trial};
use model_cases::{Case, Failure, Stage, StagedModel, Tolerance};
use tract_core::internal::*;
use tract_openvino_ir::tract_openvino::tract_onnx::Onnx;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::ModelProto;
use tract_openvino_ir::tract_openvino::tract_onnx::prelude::InferenceModelExt;
use tract_openvino_ir::tract_openvino::{
    NegativeIndices, OpenVinoOptions, WithOpenVinoOptions, tract_onnx,
};
use tract_openvino_ir::{WithOpenVinoIr, ir};

const OPERATIONS: Tolerance = Tolerance { atol: 1e-5, rtol: 1e-5 };

/// What is computed in half precision. Of constants, too: the reader of IR computes these in single precision.
const HALF: Tolerance = Tolerance { atol: 3e-3, rtol: 3e-3 };

/// Models that need what the model states of the outputs of nodes: their types and ranks.
const NEED_STATED_OUTPUTS: [&str; 7] = [
    // Sizes that are computed in floats: what is known of these is not known of a tensor of ONNX.
    "computed_sizes/pad_to_a_multiple_of_floats",
    "computed_sizes/repeated_heads",
    "computed_sizes/rows_of_a_computed_length",
    // Values that only a run knows.
    "values_at_run_time/axes",
    "values_at_run_time/range_of_size",
    "values_at_run_time/size",
    "values_at_run_time/size_of_zeros",
];

/// Why the layers of a folder cannot be nodes: with bodies, with variables, or of a type that ONNX models of tract do not have.
const NO_NODES: [&str; 3] = ["bodies", "type ", "variables"];

/// The operations of the models.
static COVERED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn main() {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut trials = vec![];
    for (root, prefix) in [(root.join("models"), ""), (root.join("tests/onnx/models"), "onnx/")] {
        for folder in model_cases::find(&root).expect("the models are there") {
            let name = folder.strip_prefix(&root).expect("it is below").display();
            let name = format!("{prefix}{name}");
            if !name.starts_with("networks/") {
                trials.push(Trial::test(name.clone(), move || check_folder(&name, &folder)));
            }
        }
    }
    let names: BTreeSet<&str> = trials.iter().map(|trial| trial.name()).collect();
    assert!(NEED_STATED_OUTPUTS.iter().all(|name| names.contains(name)), "a folder is gone");
    let count = trials.len();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list && conclusion.num_filtered_out == 0 && !conclusion.has_failed() {
        check_table();
        let refused = REFUSED.load(Ordering::Relaxed);
        assert!(refused * MOST_REFUSED <= count, "{refused} of {count} do not load with symbols");
    }
    conclusion.exit()
}

fn check_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx/operations.txt");
    let covered = COVERED.lock().expect("nothing panics with it");
    let operations = ir().registry().operations().into_iter().map(|(name, _)| name);
    let (with, without): (Vec<_>, Vec<_>) = operations.partition(|name| covered.contains(*name));
    let text = format!(
        "# {} operations are nodes of a model that is tested.\n{}\n\n# {} are not: they have bodies or a state, or their models have \
         what ONNX does not have.\n{}\n",
        with.len(),
        with.join("\n"),
        without.len(),
        without.join("\n")
    );
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder is there");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(known, text, "write it again: BLESS=1 cargo test --test onnx");
    assert!(with.len() >= 150);
}

fn reader() -> Onnx {
    // As in IR.
    let options = OpenVinoOptions::default().with_negative_indices(NegativeIndices::Wrap);
    tract_onnx::onnx().with_openvino_options(options).with_openvino_ir()
}

fn check_folder(name: &str, folder: &Path) -> Result<(), Failed> {
    let error = |error: TractError| Failed::from(format!("{error:#}"));
    let case = Case::load(folder).map_err(error)?;
    let failures = match case.model.onnx() {
        Some(model) => check(folder, &case, model),
        None => {
            let file: PathBuf = folder.join("model.xml");
            let proto = ir().proto_model_for_path(&file).map_err(error)?;
            let weights = std::fs::read(file.with_extension("bin")).unwrap_or_default();
            let mut model = match convert::to_onnx(&proto, &weights) {
                Ok(model) => model,
                Err(reason) if NO_NODES.iter().any(|known| reason.starts_with(known)) => {
                    return Ok(());
                }
                Err(reason) => return Err(reason.into()),
            };
            let mut failures = check(folder, &case, &model);
            if NEED_STATED_OUTPUTS.contains(&name) {
                if failures.is_empty() {
                    return Err("it is listed, but runs without stated outputs".into());
                }
                convert::state_outputs(&mut model, &proto);
                failures = check(folder, &case, &model);
            }
            failures.extend(check_named(&case, &model));
            let operations = model.graph.iter().flat_map(|it| &it.node).map(|node| &node.op_type);
            COVERED.lock().expect("nothing panics with it").extend(operations.cloned());
            failures
        }
    };
    if failures.is_empty() {
        return Ok(());
    }
    let lines = failures.iter().map(|Failure { stage, data_set, error }| {
        let data_set = data_set.map_or_else(String::new, |number| format!(", data set {number}"));
        format!("\n- {stage}{data_set}: {error:#}")
    });
    Err(format!("{} failures:{}", failures.len(), lines.take(6).collect::<String>()).into())
}

/// The model with a name for each dimension of the inputs. It may need to know some of them, or assume that two are equal: then
/// it does not load, or the run is an error.
fn check_named(case: &Case, model: &ModelProto) -> Vec<Failure> {
    const ASSUMED: [&str; 2] = ["as in another tensor", "or more"];
    let mut model = model.clone();
    convert::name_dimensions(&mut model);
    let load = || reader().model_for_proto_model(&model)?.into_typed()?.into_optimized();
    let Ok(loaded) = load() else {
        REFUSED.fetch_add(1, Ordering::Relaxed);
        return vec![];
    };
    let at = |stage| StagedModel::from_typed(loaded.clone(), stage);
    let mut failures = case.check(&[Stage::Typed], HALF, at);
    failures.retain(|failure| {
        let text = format!("{:#}", failure.error);
        !(text.contains("Evaluating #") && ASSUMED.iter().any(|reason| text.contains(reason)))
    });
    failures
}

/// How many models do not load with names for all dimensions: one in so many may.
static REFUSED: AtomicUsize = AtomicUsize::new(0);
const MOST_REFUSED: usize = 10;

#[cfg_attr(not(feature = "nnef"), expect(unused_variables))]
fn check(folder: &Path, case: &Case, model: &ModelProto) -> Vec<Failure> {
    const FLOAT16: i32 = 10;
    let outputs = case.data_sets.iter().flat_map(|data_set| &data_set.outputs);
    let mut constants = model.graph.iter().flat_map(|graph| &graph.initializer);
    let is_half = constants.any(|constant| constant.data_type == FLOAT16)
        || outputs.into_iter().any(|output| output.datum_type() == DatumType::F16);
    let tolerance = if is_half { HALF } else { OPERATIONS };
    let load = || reader().model_for_proto_model(model);
    #[cfg_attr(not(feature = "nnef"), expect(unused_mut))]
    let mut failures = case.check(&Stage::ALL, tolerance, |stage| StagedModel::new(load()?, stage));
    #[cfg(feature = "nnef")]
    if failures.is_empty() {
        failures.extend(nnef::check(folder, case, tolerance, || load()?.into_typed()));
    }
    failures
}
