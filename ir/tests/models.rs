//! One test for each model folder of `models/`, whoever put it there; and of the folders that the variable
//! `IR_MODELS` names, separated by colons. Or those of the folder that the variable `IR_CONFORMANCE` names, which
//! `conformance/generate.py` has written: these pass unless `conformance/failures.txt` lists them.
//!
//! Each model runs at every stage of tract: as it is loaded, decluttered, optimised. If the file leaves
//! dimensions open, one load does for all data sets; and the same once more with the sizes of each. With the
//! feature `nnef`, what is decluttered is saved to NNEF and loaded again, unless `nnef.rs` says that it cannot be.

#[cfg(feature = "nnef")]
#[path = "models/nnef.rs"]
mod nnef;

#[path = "models/conformance.rs"]
mod conformance;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use libtest_mimic::{Arguments, Failed, Trial};
use model_cases::{Case, Failure, Stage, StagedModel, Tolerance};
use tract_openvino_ir::document::Graph;
use tract_openvino_ir::prelude::*;
use tract_openvino_ir::{Ir, ir};

/// Whole networks, in which errors of rounding add up. OpenVINO's own tests allow for as much.
const NETWORKS: Tolerance = Tolerance { atol: 1e-4, rtol: 1e-3 };

/// Single operations.
const OPERATIONS: Tolerance = Tolerance { atol: 1e-5, rtol: 1e-5 };

/// What is computed in half precision.
const HALF: Tolerance = Tolerance { atol: 1e-3, rtol: 2e-3 };

fn main() {
    let arguments = Arguments::from_args();
    if let Some(root) = std::env::var_os("IR_CONFORMANCE") {
        conformance::run(&arguments, root.as_ref());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let mut roots = vec![(root.clone(), root.join("networks"))];
    if let Ok(more) = std::env::var("IR_MODELS") {
        roots.extend(more.split(':').map(|root| (root.into(), root.into())));
    }
    let mut trials = vec![];
    for (root, networks) in roots {
        for folder in model_cases::find(&root).expect("the models are there") {
            let name = folder.strip_prefix(&root).expect("it is below").display().to_string();
            let is_network = folder.starts_with(&networks);
            let tolerance = if is_network { NETWORKS } else { OPERATIONS };
            trials.push(Trial::test(name, move || {
                check_folder(&folder, tolerance, Nnef::Too, Open::Loads)
            }));
        }
    }
    assert!(!trials.is_empty(), "no model in {root:?}");
    let conclusion = libtest_mimic::run(&arguments, trials);
    #[cfg(feature = "nnef")]
    if !arguments.list && conclusion.num_filtered_out == 0 && !conclusion.has_failed() {
        nnef::check_lists();
    }
    conclusion.exit()
}

/// The reader refuses such a layer if the file does not state the rank of its output, which may be 0.
const ONLY_KNOWN_THEN: &str =
    "is only known when the model runs, but must be known when it is loaded";

fn has_open_dimensions(graph: &Graph) -> bool {
    let parameters = graph.parameters.iter().map(|layer| &graph.layers[*layer]);
    parameters
        .flat_map(|layer| layer.attributes.get("shape"))
        .any(|shape| shape.contains(['?', '.']))
}

/// Whether a model loads with open dimensions.
#[derive(PartialEq)]
enum Open {
    Loads,
    /// If not, it does with the sizes of a data set, or is refused as the documents say. Dimensions that are taken as
    /// equal may differ.
    MayRefuse,
}

/// Whether a model is saved to NNEF.
#[derive(PartialEq)]
enum Nnef {
    Not,
    Too,
}

#[cfg_attr(not(feature = "nnef"), expect(unused_variables))]
fn check_folder(
    folder: &Path,
    tolerance: Tolerance,
    nnef: Nnef,
    with_open: Open,
) -> Result<(), Failed> {
    let error = |error: TractError| Failed::from(format!("{error:#}"));
    let case = Case::load(folder).map_err(error)?;
    let outputs = case.data_sets.iter().flat_map(|data_set| &data_set.outputs);
    let is_half = outputs.into_iter().any(|output| output.datum_type() == DatumType::F16);
    let tolerance = if is_half { HALF } else { tolerance };
    let file: PathBuf = folder.join("model.xml");
    let proto = ir().proto_model_for_path(&file).map_err(error)?;
    let graph = proto.document.graph();
    case.expect_counts(graph.parameters.len(), graph.results.len()).map_err(error)?;
    let load = |ir: Ir, stage| StagedModel::from_typed(ir.model_for_proto_model(&proto)?, stage);
    let mut failures = vec![];
    // What is open in some files must be a multiple of something.
    let shapes = std::fs::read_to_string(folder.join("shapes")).unwrap_or_default();
    let open = shapes.lines().filter_map(|line| line.split_once('='));
    let open = open.fold(ir(), |ir, (input, shape)| ir.with_input_shape(input, shape));
    let may_refuse = with_open == Open::MayRefuse;
    let refused = if may_refuse { open.model_for_proto_model(&proto).err() } else { None };
    if let Some(error) = refused {
        let text = format!("{error:#}");
        let says_what_to_give = has_open_dimensions(graph) && text.to_lowercase().contains("give");
        if !says_what_to_give && !text.contains(ONLY_KNOWN_THEN) {
            return Err(format!("the error does not say what to give: {text}").into());
        }
        conformance::REFUSED.fetch_add(1, Ordering::Relaxed);
    } else {
        failures.extend(case.check(&Stage::OF_TYPED, tolerance, |stage| load(open.clone(), stage)));
    }
    if may_refuse {
        // An open dimension that is taken as equal to another one may be 1, and broadcast.
        let differ = ["Clashing resolution", "as in another tensor", "Source: output"];
        failures.retain(|failure| {
            let text = format!("{:#}", failure.error);
            !differ.iter().any(|reason| text.contains(reason))
        });
    }
    #[cfg(feature = "nnef")]
    if nnef == Nnef::Too {
        failures
            .extend(nnef::check(folder, &case, tolerance, || open.model_for_proto_model(&proto)));
    }
    let groups = case.by_shapes();
    // Variables go on from one data set to the next, and not from model to model.
    let sized = if graph.sinks.is_empty() || groups.len() == 1 { groups } else { vec![] };
    for (first, case) in sized {
        let inputs = case.data_sets[0].inputs.iter().enumerate();
        let reader = inputs.fold(ir(), |ir, (input, tensor)| {
            let sizes: Vec<String> = tensor.shape().iter().map(|size| size.to_string()).collect();
            ir.with_input_shape(graph.input_names(input).remove(0), sizes.join(","))
        });
        if with_open == Open::MayRefuse
            && let Err(error) = reader.model_for_proto_model(&proto)
            && format!("{error:#}").contains(ONLY_KNOWN_THEN)
        {
            conformance::REFUSED.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let found = case.check(&Stage::OF_TYPED, tolerance, |stage| load(reader.clone(), stage));
        let found = found.into_iter().map(|failure| failure.from_data_set(first));
        failures.extend(found.map(|failure| Failure {
            error: failure.error.context("with the sizes of the data set"),
            ..failure
        }));
    }
    if failures.is_empty() {
        return Ok(());
    }
    let lines = failures.iter().map(|Failure { stage, data_set, error }| {
        let data_set = data_set.map_or_else(String::new, |number| format!(", data set {number}"));
        format!("\n- {stage}{data_set}: {error:#}")
    });
    Err(format!("{} failures:{}", failures.len(), lines.take(6).collect::<String>()).into())
}
