//! `run`: runs a model once, on tensors from files, random tensors or the data sets of its folder.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use model_cases::{Case, Difference, Stage, StagedModel, compare_within};
use tract_openvino::tract_onnx::prelude::*;

use crate::check::{IS_CLOSE, ToleranceOptions};
use crate::inputs::{InputOptions, expect_fit};
use crate::model::{
    InputShape, Model, Names, OperatorOptions, ReadingOptions, ThreadOptions, has_data_sets,
    input_names, load_case, model_file, shapes_of,
};
use crate::panics::during;
use crate::report::{BAD, GOOD, NAME, error_with_help, note, output, printable, shorten};
use crate::tensors::{Format, elements, save_to_folder, save_to_npz};

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// A .onnx file, a .xml file of OpenVINO IR, a model folder, or an NNEF archive
    model: PathBuf,
    /// Save the outputs to a folder, or to one FILE.npz
    #[arg(short = 'o', long, value_name = "FOLDER|FILE.npz")]
    save: Option<PathBuf>,
    /// The format of the files when outputs are saved to a folder
    #[arg(long, value_name = "FORMAT", default_value = "npy")]
    format: Format,
    #[command(flatten)]
    inputs: InputOptions,
    #[command(flatten)]
    tolerance: ToleranceOptions,
    #[command(flatten)]
    reading: ReadingOptions,
    #[command(flatten)]
    operators: OperatorOptions,
    #[command(flatten)]
    threads: ThreadOptions,
}

/// A model that can be run, and its names.
pub struct Runnable {
    pub names: Names,
    pub typed: TypedModel,
    optimized: StagedModel,
}

impl Runnable {
    /// Types a model, and takes it to a stage.
    pub fn new(model: Model, stage: Stage) -> TractResult<Runnable> {
        Runnable::made_by(model, |typed| Model::Typed(typed).at(stage))
    }

    /// Types a model, and makes it ready to be run.
    fn made_by(
        model: Model,
        make: impl Fn(TypedModel) -> TractResult<StagedModel>,
    ) -> TractResult<Runnable> {
        let names = model.names()?;
        let typed = model.into_typed()?;
        let optimized = make(typed.clone())?;
        Ok(Runnable { names, typed, optimized })
    }

    /// Runs it, and returns the outputs with their names.
    pub fn run(&mut self, inputs: &[Tensor]) -> TractResult<Vec<(String, Tensor)>> {
        let outputs = during("running the model", || self.optimized.run_as_onnx(inputs))?;
        Ok(self.names.outputs.iter().cloned().zip(outputs).collect())
    }
}

/// A model that is read again for other sizes if it does not work with symbols.
struct Models<'a> {
    reading: &'a ReadingOptions,
    file: &'a Path,
    operators: &'a OperatorOptions,
    /// The names of the inputs.
    names: Vec<String>,
    /// The latest, and the sizes that it is for, unless it is for all.
    latest: Option<(Option<Vec<InputShape>>, Runnable)>,
}

impl Models<'_> {
    fn new<'a>(
        reading: &'a ReadingOptions,
        file: &'a Path,
        operators: &'a OperatorOptions,
    ) -> TractResult<Models<'a>> {
        Ok(Models { reading, file, operators, names: input_names(file)?, latest: None })
    }

    /// The model for these inputs. Its variables keep their values as long as it is the same model.
    fn for_inputs(&mut self, inputs: &[Tensor]) -> TractResult<&mut Runnable> {
        let shapes = shapes_of(self.names.iter().cloned(), inputs);
        let fits = |sizes: &Option<_>| sizes.as_ref().is_none_or(|sizes| *sizes == shapes);
        if !self.latest.as_ref().is_some_and(|(sizes, _)| fits(sizes)) {
            let load = |shapes: &_| self.reading.load_with(self.file, shapes);
            let new = |model| Runnable::made_by(model, |typed| self.operators.staged(typed));
            let (model, sized) = self.reading.read_for(&shapes, load, new)?;
            self.latest = Some((sized.then_some(shapes), model));
        }
        let (_, model) = self.latest.as_mut().expect("it was just set");
        Ok(model)
    }
}

impl Run {
    /// Runs the model. False if an output is not what its folder expects.
    pub fn run(&self) -> TractResult<bool> {
        self.threads.start()?;
        let mut out = output();
        let file = model_file(&self.model)?;
        if self.inputs.are_given() || !has_data_sets(&self.model)? {
            let shapes = self.inputs.shapes()?;
            let load = |shapes: &_| self.reading.load_with(&file, shapes);
            let new = |model| Runnable::made_by(model, |typed| self.operators.staged(typed));
            let (mut model, _) = self.reading.read_for(&shapes, load, new)?;
            let inputs = self.inputs.tensors(&model.typed, &model.names, &file)?;
            let outputs = model.run(&inputs)?;
            writeln!(out, "{}", self.model.display())?;
            show(&mut out, &outputs, self.inputs.are_texts())?;
            self.save(&mut out, &outputs, None)?;
            return Ok(true);
        }
        let case = load_case(&self.model, &file)?;
        self.check_output(&case)?;
        writeln!(out, "{}", self.model.display())?;
        let mut differences = vec![];
        let mut models = Models::new(&self.reading, &file, &self.operators)?;
        for (number, data_set) in case.data_sets.iter().enumerate() {
            writeln!(out, "test_data_set_{number}")?;
            let model = models.for_inputs(&data_set.inputs)?;
            expect_fit(&model.typed, &model.names, &file, &data_set.inputs)?;
            let outputs = model.run(&data_set.inputs)?;
            show(&mut out, &outputs, false)?;
            // Those that are chosen are not the ones of the data set.
            let is_whole = self.reading.outputs.is_empty();
            let expected = if is_whole { &*data_set.outputs } else { &[] };
            for (k, (expected, (_, got))) in expected.iter().zip(&outputs).enumerate() {
                match compare_within(expected, got, self.tolerance.tolerance()) {
                    Ok(()) => writeln!(out, "  {GOOD}matches{GOOD:#} output_{k}")?,
                    Err(difference) => {
                        let what = format!("{BAD}DOES NOT MATCH{BAD:#} output_{k}");
                        writeln!(out, "  {what}: {difference}")?;
                        differences.push(difference);
                    }
                }
            }
            if is_whole && expected.is_empty() {
                writeln!(out, "  not compared: the data set has no outputs")?;
            }
            let several = case.data_sets.len() > 1;
            self.save(&mut out, &outputs, several.then_some(number))?;
        }
        if !differences.is_empty() && differences.iter().all(Difference::is_close) {
            note(IS_CLOSE);
        }
        Ok(differences.is_empty())
    }

    /// Fails, before anything runs, if the outputs of several data sets would go to one file.
    fn check_output(&self, case: &Case) -> TractResult<()> {
        match &self.save {
            Some(output) if is_npz(output) && case.data_sets.len() > 1 => Err(error_with_help(
                format!("one file cannot hold the outputs of {} data sets", case.data_sets.len()),
                ["give a folder to -o".into()],
            )),
            _ => Ok(()),
        }
    }

    fn save(
        &self,
        out: &mut impl Write,
        outputs: &[(String, Tensor)],
        data_set: Option<usize>,
    ) -> TractResult<()> {
        let Some(path) = &self.save else { return Ok(()) };
        let paths = if is_npz(path) {
            save_to_npz(path, outputs)?;
            vec![path.clone()]
        } else {
            let data_set = data_set.map(|number| format!("test_data_set_{number}"));
            let folder = path.join(data_set.unwrap_or_default());
            save_to_folder(&folder, outputs, self.format)?
        };
        for path in paths {
            writeln!(out, "  saved {NAME}{}{NAME:#}", path.display())?;
        }
        Ok(())
    }
}

fn is_npz(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npz")
}

/// Shows outputs: texts one below the other, the first elements of others, or all rows of them.
fn show(out: &mut impl Write, outputs: &[(String, Tensor)], all_rows: bool) -> TractResult<()> {
    for (name, tensor) in outputs {
        let fact = TypedFact::dt_shape(tensor.datum_type(), tensor.shape());
        let line = format!("  {NAME}{name}{NAME:#} {fact:?}");
        if tensor.datum_type() == DatumType::String {
            writeln!(out, "{}", shorten(&line))?;
            for text in tensor.try_as_plain_ram()?.as_slice::<String>()? {
                writeln!(out, "    {}", printable(text))?;
            }
        } else if all_rows && tensor.datum_type().is_integer() {
            writeln!(out, "{}", shorten(&line))?;
            let numbers = tensor.cast_to::<i64>()?;
            let row = tensor.shape().last().copied().unwrap_or(1).max(1);
            for row in numbers.try_as_plain_ram()?.as_slice::<i64>()?.chunks(row) {
                let row: Vec<String> = row.iter().map(|number| number.to_string()).collect();
                writeln!(out, "    {}", row.join(" "))?;
            }
        } else {
            writeln!(out, "{}", shorten(&format!("{line} {}", elements(tensor)?)))?;
        }
    }
    Ok(())
}
