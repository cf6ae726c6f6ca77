//! One test for each folder of `models/`, whoever put it there; and for the layers of the specifications whose
//! tensors are too large for that.
//!
//! Each model runs in every form that a program can bring it into: at every stage of tract, with
//! inputs fed or constant, with the shapes of the file and with symbols in their place. In each form
//! the outputs are those of the folder, and what tract knew of them beforehand holds. With the feature `nnef`,
//! every form but those of `NOT_SAVED` is saved to NNEF and loaded again, too.

#[cfg(feature = "nnef")]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use gather_cases::layers::LAYERS;
use libtest_mimic::{Arguments, Failed, Trial};
use model_cases::{Case, DataSet, Failure, Stage, StagedModel, Tolerance, tensor_proto};
#[cfg(feature = "nnef")]
use tract_openvino::WithOpenVino;
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto, tensor_shape_proto, type_proto};
use tract_openvino::tract_onnx::prelude::*;
#[cfg(feature = "nnef")]
use tract_openvino::tract_onnx::tract_hir::internal::ensure;
use tract_openvino::{DOMAIN, OpenVinoOptions, WithOpenVinoOptions};

fn main() {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let folders = model_cases::find(&root).expect("the models are there");
    assert!(!folders.is_empty(), "no model in {root:?}");
    let of_folder = |folder: std::path::PathBuf| {
        let name = folder.file_name().expect("find gives folders").to_string_lossy().into_owned();
        Trial::test(name, move || {
            check_case(&Case::load(&folder).map_err(|error| format!("{error:?}"))?)
        })
    };
    let mut trials: Vec<Trial> = folders.into_iter().map(of_folder).collect();
    trials.extend(LAYERS.map(|layer| Trial::test(layer.name, move || check_case(&layer.case()))));
    for (name, _) in NOT_SAVED {
        assert!(trials.iter().any(|trial| trial.name() == name), "no model {name} in {root:?}");
    }
    libtest_mimic::run(&arguments, trials).exit()
}

/// Checks a case in all forms, and says which of them fail.
fn check_case(case: &Case) -> Result<(), Failed> {
    let onnx = case.model.onnx().ok_or("it is not an ONNX model")?;
    let mut forms = 0;
    let mut failures = vec![];
    for (number, data_set) in case.data_sets.iter().enumerate() {
        for (shapes, model) in
            [("shapes of the file", Some(onnx.clone())), ("symbols", with_symbols(onnx))]
        {
            let Some(model) = model else { continue };
            for constants in subsets(data_set.inputs.len()) {
                let (case, model) = with_constants(case, &model, data_set, &constants);
                for standard_gather in [false, true] {
                    // tract's own GatherND fails at constant indices of shape [1, n].
                    let stock = !standard_gather && !imports_ours(&model);
                    let nothing_changes = standard_gather && imports_ours(&model);
                    if nothing_changes || stock && !constants.is_empty() {
                        continue;
                    }
                    let options = OpenVinoOptions::default().with_standard_gather(standard_gather);
                    let is_saved = !NOT_SAVED.contains(&(&*case.name, &*constants));
                    for (form, stages, at) in FORMS {
                        forms += stages.len();
                        let found = case.check(stages, Tolerance::EXACT, |stage| {
                            let reader = tract_openvino::tract_onnx::onnx();
                            let reader = reader.with_openvino_options(options);
                            at(reader.model_for_proto_model(&model)?, stage, is_saved)
                        });
                        failures.extend(found.iter().map(|Failure { stage, error, .. }| {
                            format!(
                                "data set {number}, {shapes}, constant inputs {constants:?}, \
                                 {options:?}, {form} {stage}: {error:?}"
                            )
                        }));
                    }
                }
            }
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    let shown = failures.iter().take(8).map(|failure| format!("\n- {failure}"));
    Err(format!("{} of {forms} forms fail:{}", failures.len(), shown.collect::<String>()).into())
}

/// Which models are not saved to NNEF, and which of their inputs are constants then. tract's writer panics at
/// the dimension that an addition has there: the broadcast of a number and a symbol.
const NOT_SAVED: [(&str, &[usize]); 2] = [("token_picker", &[0]), ("token_picker", &[1])];

/// What becomes of a model before it runs, at which stages, and how: with whether it can be saved.
type Form =
    (&'static str, &'static [Stage], fn(InferenceModel, Stage, bool) -> TractResult<StagedModel>);

const FORMS: &[Form] = &[
    ("at stage", &Stage::ALL, |model, stage, _| StagedModel::new(model, stage)),
    // Loaded again, it is optimised.
    #[cfg(feature = "nnef")]
    ("through NNEF, saved", &[Stage::Typed, Stage::Decluttered], through_nnef),
];

#[cfg(feature = "nnef")]
fn through_nnef(model: InferenceModel, stage: Stage, is_saved: bool) -> TractResult<StagedModel> {
    let typed = model.into_typed()?;
    let saved = if stage == Stage::Typed { typed } else { typed.into_decluttered()? };
    let nnef = tract_openvino::tract_nnef::nnef().with_openvino();
    let mut archive = vec![];
    let write = AssertUnwindSafe(|| nnef.write(&saved, &mut archive));
    let loaded = match catch_unwind(write) {
        Ok(written) => {
            written?;
            ensure!(is_saved, "it is saved, but NOT_SAVED has it");
            nnef.model_for_read(&mut &*archive)?
        }
        Err(_) => {
            ensure!(!is_saved, "tract's writer panics, but NOT_SAVED does not have it");
            saved
        }
    };
    StagedModel::from_typed(loaded, Stage::Optimized)
}

/// Whether a model has operators of ours, and not those of the standard domain alone.
fn imports_ours(model: &ModelProto) -> bool {
    model.opset_import.iter().any(|import| import.domain == DOMAIN)
}

/// The choices of inputs that become constants: none, each, all.
fn subsets(inputs: usize) -> Vec<Vec<usize>> {
    let mut subsets = vec![vec![]];
    subsets.extend((0..inputs).map(|input| vec![input]));
    subsets.push((0..inputs).collect());
    subsets.dedup();
    subsets
}

/// The case of one data set, with some inputs turned into initializers.
fn with_constants(
    case: &Case,
    model: &ModelProto,
    data_set: &DataSet,
    constants: &[usize],
) -> (Case, ModelProto) {
    let mut model = model.clone();
    let graph = model.graph.as_mut().expect("the model has a graph");
    let is_constant = |number: &usize| constants.contains(number);
    for &number in constants {
        let tensor = tensor_proto(&graph.input[number].name, &data_set.inputs[number]);
        graph.initializer.push(tensor.expect("ONNX has the type"));
    }
    let inputs = std::mem::take(&mut graph.input).into_iter().enumerate();
    graph.input =
        inputs.filter(|(number, _)| !is_constant(number)).map(|(_, input)| input).collect();
    let fed = data_set.inputs.iter().enumerate();
    let fed = fed.filter(|(number, _)| !is_constant(number)).map(|(_, tensor)| tensor.clone());
    let data_sets = vec![DataSet { inputs: fed.collect(), ..data_set.clone() }];
    (Case { data_sets, ..case.clone() }, model)
}

/// The model with a symbol of its own for each dimension of each input, or `None` where the file
/// has symbols already.
///
/// Two names for one batch size are what exporters write, and tract has to accept. The length of
/// GatherND's tuples stays: the rank of the output depends on it.
fn with_symbols(model: &ModelProto) -> Option<ModelProto> {
    use tensor_shape_proto::dimension::Value;
    let mut model = model.clone();
    let graph = model.graph.as_mut()?;
    let tuples: Vec<String> = gather_nd_indices(graph);
    for input in &mut graph.input {
        let Some(type_proto::Value::TensorType(tensor)) = input.r#type.as_mut()?.value.as_mut()
        else {
            return None;
        };
        let dims = &mut tensor.shape.as_mut()?.dim;
        let kept = if tuples.contains(&input.name) { dims.len() - 1 } else { dims.len() };
        for (number, dim) in dims.iter_mut().enumerate() {
            match dim.value {
                Some(Value::DimValue(_)) if number < kept => {
                    dim.value = Some(Value::DimParam(format!("{}_{number}", input.name)));
                }
                Some(Value::DimValue(_)) => (),
                _ => return None,
            }
        }
    }
    // The output's declared shape has numbers, which are not what the model computes any more.
    for output in &mut graph.output {
        output.r#type = None;
    }
    Some(model)
}

fn gather_nd_indices(graph: &GraphProto) -> Vec<String> {
    let nodes = graph.node.iter();
    nodes.filter(|node| node.op_type == "GatherND").map(|node| node.input[1].clone()).collect()
}
