//! Models through NNEF: decluttered, saved, loaded again.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use model_cases::{Case, Failure, Stage, StagedModel, Tolerance};
use tract_core::internal::*;
use tract_onnx::WithOnnx;
use tract_openvino_ir::WithOpenVinoIr;
use tract_openvino_ir::tract_openvino::WithOpenVino;
use tract_openvino_ir::tract_openvino::tract_nnef::internal::Nnef;
use tract_openvino_ir::tract_openvino::tract_nnef::nnef;

/// Operators that have no text in NNEF: of tract, and of this crate.
const OPERATORS: &[&str] = &[
    "OpenVinoAdaptiveAvgPool",
    "OpenVinoBound",
    "OpenVinoCtcGreedyDecoder",
    "OpenVinoCtcLoss",
    "OpenVinoDeferred",
    "OpenVinoDeformablePsroiPooling",
    "OpenVinoDeformableWindows",
    "OpenVinoDetectionOutput",
    "OpenVinoDetectronOutput",
    "OpenVinoDynSlice",
    "OpenVinoEmpty",
    "OpenVinoEqualShape",
    "FakeQuantize",
    "OpenVinoGenerateProposals",
    "GroupedProduct",
    "OpenVinoIf",
    "OpenVinoInterpolate",
    "OpenVinoInverse",
    "OpenVinoLoop",
    "OpenVinoMatrixNms",
    "OpenVinoMulticlassNms",
    "OpenVinoNamedSizes",
    "OpenVinoNonMaxSuppression",
    "OpenVinoOverlapAdd",
    "OpenVinoPriorBox",
    "OpenVinoPriorBoxClustered",
    "OpenVinoPriorGrid",
    "OpenVinoProposal",
    "OpenVinoPsroiPooling",
    "OpenVinoRandomUniform",
    "OpenVinoReadValue",
    "OpenVinoReduction",
    "OpenVinoReshape",
    "OpenVinoReverseSequence",
    "OpenVinoRoiAlign",
    "OpenVinoRoiAlignRotated",
    "OpenVinoRoiFeatureExtractor",
    "OpenVinoRoiPooling",
    "OpenVinoScatterElementsUpdate",
    "OpenVinoScatterNDUpdate",
    "OpenVinoScatterUpdate",
    "OpenVinoSearchSorted",
    "OpenVinoSegments",
    "OpenVinoSliceScatter",
    "OpenVinoSparseFillEmptyRows",
    "OpenVinoTake",
    "OpenVinoTopK",
    "OpenVinoTopKRois",
    "OpenVinoUnique",
    "Reduce<All>",
    MAX,
];

/// A size like `max(1, N)` has none either.
const MAX: &str = "the larger or smaller of sizes";

/// What tract does not save, or does not read again, for other reasons: the end of a folder's path, and what an
/// error says.
const FOLDERS: &[(&str, &str)] = &[
    ("avg_pool/exclude_pad", SAME_LOWER),
    ("avg_pool/include_pad", SAME_LOWER),
    ("const/f8", NAN),
    ("const/special_floats", NAN),
    ("gru_sequence/short_lengths", PARAMETER_AND_RESULT),
    ("lstm_sequence/lengths_are_input", PARAMETER_AND_RESULT),
    ("lstm_sequence/short_lengths", PARAMETER_AND_RESULT),
    ("max_pool/ceil", INDICES),
    ("max_pool/ceil_torch_drops_a_window", INDICES),
    ("max_pool/of_zeros", INDICES),
    ("max_pool/open_dimensions", INDICES),
    ("max_pool/open_dimensions_ceil", INDICES),
    ("max_pool/rank_3_and_5", INDICES),
    ("max_pool/revision_1", SAME_LOWER),
    ("max_pool/revision_8", INDICES),
    ("max_pool/values_and_indices", INDICES),
    ("max_pool/without_optional_attributes", INDICES),
];

/// The second output of a pool.
const INDICES: &str = "received 1 value(s)";
const NAN: &str = "Can not resolve Identifier(\"NaN\")";
/// Something that a body gives as it got it.
const PARAMETER_AND_RESULT: &str = "Same name used as parameter and result";
/// `auto_pad` is `same_lower`.
const SAME_LOWER: &str = "Unsupported padding scheme";

/// What of these lists there is in the models.
static MET: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

/// Fails if something is on a list and not in the models.
pub fn check_lists() {
    let met = MET.lock().expect("nothing panics with it");
    let gone: Vec<&str> = listed().filter(|listed| !met.contains(listed)).collect();
    assert!(gone.is_empty(), "no model is kept from NNEF by what is on the lists: {gone:?}");
}

pub fn check(
    folder: &Path,
    case: &Case,
    tolerance: Tolerance,
    load: impl Fn() -> TractResult<TypedModel>,
) -> Vec<Failure> {
    let failure = |error| Failure { stage: Stage::Decluttered, data_set: None, error };
    let mut failures = match load().and_then(TypedModel::into_decluttered).and_then(through_nnef) {
        Ok(model) => {
            let at = |stage| StagedModel::from_typed(model.clone(), stage);
            case.check(&[Stage::Typed, Stage::Optimized], tolerance, at)
        }
        Err(error) => vec![failure(error)],
    };
    let says = |error: &TractError, reason| format!("{error:#}").contains(reason);
    failures.retain(|failure| !operator_without_text(&failure.error).is_some_and(|it| met(&it)));
    if let Some((end, reason)) = FOLDERS.iter().find(|(end, _)| folder.ends_with(end)) {
        if failures.is_empty() {
            failures.push(failure(format_err!("it is listed, but it is saved and runs")));
        } else if failures.iter().all(|failure| says(&failure.error, reason)) && met(end) {
            failures.clear();
        }
    }
    let in_context =
        |failure: Failure| Failure { error: failure.error.context("through NNEF"), ..failure };
    failures.into_iter().map(in_context).collect()
}

/// A model that is saved to NNEF and loaded again.
fn through_nnef(model: TypedModel) -> TractResult<TypedModel> {
    let save_and_load = || {
        let mut nnef: Nnef = nnef().with_onnx().with_openvino().with_openvino_ir();
        nnef.allow_extended_identifier_syntax(true);
        let mut archive = vec![];
        nnef.write(&model, &mut archive)?;
        nnef.model_for_read(&mut &*archive)
    };
    catch_unwind(AssertUnwindSafe(save_and_load)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        // tract has a `todo!` where it would write the larger or smaller of sizes.
        ensure!(text.contains("not yet implemented"), "it panics: {text}");
        Err(format_err!(MAX))
    })
}

/// Notes that something that is listed is there. False if it is not listed.
fn met(what: &str) -> bool {
    let listed = listed().find(|listed| *listed == what);
    MET.lock().expect("nothing panics with it").extend(listed);
    listed.is_some()
}

fn listed() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().chain(FOLDERS.iter().map(|(folder, _)| folder)).copied()
}

/// The operator in an error like `No serializer found for node #4 "name" Operator`.
fn operator_without_text(error: &TractError) -> Option<String> {
    let text = error.root_cause().to_string();
    if text == MAX {
        return Some(text);
    }
    let node = text.strip_prefix("No serializer found for node ")?;
    node.rsplit_once("\" ").map(|(_, operator)| operator.to_string())
}
