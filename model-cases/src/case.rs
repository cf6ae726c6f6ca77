//! Model folders: what is in them, and whether a model computes what they expect.

use std::path::{Path, PathBuf};

use tract_onnx::Onnx;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::{TractErrorContext, ensure};

use crate::compare::{Tolerance, compare, compare_within};
use crate::data_set::DataSet;
use crate::stage::{Stage, StagedModel};

/// A model folder.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where it is.
    pub folder: PathBuf,
    /// The name of the folder.
    pub name: String,
    /// The model, not yet read by tract.
    pub model: Model,
    /// The data sets, by number.
    pub data_sets: Vec<DataSet>,
}

/// The model of a folder.
#[derive(Debug, Clone)]
pub enum Model {
    /// `model.onnx`.
    Onnx(Box<ModelProto>),
    /// `model.xml` or `openvino_model.xml`: OpenVINO IR, which its own reader opens.
    Ir,
}

impl Model {
    /// The names of the files that a model folder has one of. Where it has several, the first one counts. The last one is
    /// what `optimum-cli export openvino` writes.
    pub const FILES: [&str; 3] = ["model.onnx", "model.xml", "openvino_model.xml"];

    /// The model file of a folder, if it has one.
    pub fn file_in(folder: impl AsRef<Path>) -> Option<PathBuf> {
        let files = Model::FILES.map(|file| folder.as_ref().join(file));
        files.into_iter().find(|file| file.is_file())
    }

    /// The model of an ONNX file.
    pub fn onnx(&self) -> Option<&ModelProto> {
        match self {
            Model::Onnx(model) => Some(model),
            Model::Ir => None,
        }
    }
}

/// Something that a case does not do as expected.
#[derive(Debug)]
pub struct Failure {
    /// The stage of the model.
    pub stage: Stage,
    /// The data set, if the model got as far as to be run.
    pub data_set: Option<usize>,
    /// What is wrong.
    pub error: TractError,
}

impl Failure {
    /// The failure of a case in a larger one, whose data set `first` is the first of the case.
    pub fn from_data_set(self, first: usize) -> Failure {
        Failure { data_set: self.data_set.map(|number| first + number), ..self }
    }
}

impl Case {
    /// Reads a folder.
    pub fn load(folder: impl AsRef<Path>) -> TractResult<Case> {
        let folder = folder.as_ref();
        // Of `.`, too.
        let name = std::path::absolute(folder)?;
        let name = name.file_name().unwrap_or(folder.as_os_str());
        let file = Model::file_in(folder).unwrap_or_else(|| folder.join(Model::FILES[0]));
        let model = match file.extension().is_some_and(|extension| extension == "xml") {
            true => Model::Ir,
            false => Model::Onnx(Onnx::default().proto_model_for_path(file)?.into()),
        };
        let mut data_sets = vec![];
        while let Some(data_set) = DataSet::load(folder, data_sets.len())? {
            data_sets.push(data_set);
        }
        ensure!(!data_sets.is_empty(), "{} has no test_data_set_0", folder.display());
        let mut entries = list(folder)?;
        let named = entries.try_fold(0, |named, entry| -> TractResult<usize> {
            let is_data_set = entry?.file_name().to_string_lossy().starts_with("test_data_set_");
            Ok(named + usize::from(is_data_set))
        })?;
        ensure!(
            named == data_sets.len(),
            "{} has {named} data sets, but only {} without a gap in their numbers from 0",
            folder.display(),
            data_sets.len()
        );
        let name = name.to_string_lossy().into_owned();
        let case = Case { folder: folder.into(), name, model, data_sets };
        if let Some(model) = case.model.onnx() {
            let graph = model.graph.as_ref().context("the model has no graph")?;
            let is_fed =
                |name| graph.initializer.iter().all(|initializer| initializer.name != name);
            let fed = graph.input.iter().filter(|input| is_fed(&*input.name)).count();
            case.expect_counts(fed, graph.output.len())?;
        }
        Ok(case)
    }

    /// Checks that all data sets have as many inputs and outputs as the model. One may have no outputs yet: these are
    /// what [`expect_outputs_of`](Self::expect_outputs_of) gives it.
    pub fn expect_counts(&self, fed: usize, computed: usize) -> TractResult<()> {
        for (number, data_set) in self.data_sets.iter().enumerate() {
            let [inputs, outputs] = [data_set.inputs.len(), data_set.outputs.len()];
            ensure!(
                inputs == fed && (outputs == computed || outputs == 0),
                "{} has {fed} inputs and {computed} outputs, but test_data_set_{number} has \
                 {inputs} and {outputs}",
                self.folder.display()
            );
        }
        Ok(())
    }

    /// The data sets that follow each other with inputs of the same shapes, with the number of the first.
    pub fn by_shapes(&self) -> Vec<(usize, Case)> {
        let mut number = 0;
        let same = |a: &DataSet, b: &DataSet| {
            a.inputs.iter().map(Tensor::shape).eq(b.inputs.iter().map(Tensor::shape))
        };
        let group = |data_sets: &[DataSet]| {
            let first = number;
            number += data_sets.len();
            (first, Case { data_sets: data_sets.to_vec(), ..self.clone() })
        };
        self.data_sets.chunk_by(same).map(group).collect()
    }

    /// Takes the model to each of the stages, runs all data sets there in their order, and says what goes wrong: an
    /// error, an output that is not the expected one, or a fact of an output that does not hold.
    pub fn check(
        &self,
        stages: &[Stage],
        tolerance: Tolerance,
        at: impl Fn(Stage) -> TractResult<StagedModel>,
    ) -> Vec<Failure> {
        let mut failures = vec![];
        for &stage in stages {
            let mut model = match at(stage) {
                Ok(model) => model,
                Err(error) => {
                    failures.push(Failure { stage, data_set: None, error });
                    continue;
                }
            };
            for (number, data_set) in self.data_sets.iter().enumerate() {
                if let Err(error) = data_set.check(&mut model, tolerance) {
                    failures.push(Failure { stage, data_set: Some(number), error });
                }
            }
        }
        failures
    }

    /// Expects from now on what the model computes. Gives the numbers of the data sets and outputs
    /// that this changes; the files stay.
    pub fn expect_outputs_of(
        &mut self,
        model: &mut StagedModel,
    ) -> TractResult<Vec<(usize, usize)>> {
        let mut changed = vec![];
        for (number, data_set) in self.data_sets.iter_mut().enumerate() {
            let outputs = model.run_as_onnx(&data_set.inputs)?;
            for (output, got) in outputs.iter().enumerate() {
                let expected = data_set.outputs.get(output);
                if expected.is_none_or(|expected| compare(expected, got).is_err()) {
                    changed.push((number, output));
                }
            }
            data_set.outputs = outputs;
        }
        Ok(changed)
    }

    /// Writes an expected output to the files of the folder, and says where it is. `name` is what the graph calls it.
    pub fn save_output(&self, data_set: usize, output: usize, name: &str) -> TractResult<String> {
        self.data_sets[data_set].save_output(&self.folder, data_set, output, name)
    }
}

impl DataSet {
    fn check(&self, model: &mut StagedModel, tolerance: Tolerance) -> TractResult<()> {
        let outputs = model.run_as_onnx(&self.inputs)?;
        let (expected, got) = (self.outputs.len(), outputs.len());
        let help = match expected {
            0 => ": check --bless of the command-line tool writes them",
            _ => "",
        };
        ensure!(
            expected == got,
            "the data set has {expected} outputs, but the model has {got}{help}"
        );
        for (number, (expected, got)) in self.outputs.iter().zip(&outputs).enumerate() {
            compare_within(expected, got, tolerance).with_context(|| format!("output {number}"))?;
        }
        model.check_facts(&self.inputs, &outputs)
    }
}

fn list(folder: &Path) -> TractResult<std::fs::ReadDir> {
    std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))
}

/// The model folders at and below `root`, by path.
pub fn find(root: impl AsRef<Path>) -> TractResult<Vec<PathBuf>> {
    let mut found = vec![];
    let mut folders = vec![root.as_ref().to_path_buf()];
    while let Some(folder) = folders.pop() {
        if Model::file_in(&folder).is_some() {
            found.push(folder);
            continue;
        }
        for entry in list(&folder)? {
            let entry = entry?;
            // Not through links, which may lead in circles.
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
