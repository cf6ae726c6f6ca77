//! `compare`: each layer of OpenVINO IR, beside what OpenVINO computes in it.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use model_cases::{Difference, Npz, Stage, compare_within};
use tract_openvino::tract_onnx::prelude::tract_ndarray::Dimension;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::TractErrorContext;
use tract_openvino_ir::document::Graph;

use crate::check::{IS_CLOSE, ToleranceOptions};
use crate::inputs::expect_fit;
use crate::model::{Kind, ReadingOptions, document, input_names, model_file, shapes_of};
use crate::report::{BAD, GOOD, error_with_help, list, note, output, printable};
use crate::run::Runnable;

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// A .xml file of OpenVINO IR, or a folder with one
    model: PathBuf,
    /// The values of its layers, as cli/layer_values.py writes them
    values: PathBuf,
    /// How far tract takes the model
    #[arg(long, value_name = "STAGE", default_value = "optimized", value_parser = crate::stage_parser(&Stage::OF_TYPED))]
    stage: Stage,
    #[command(flatten)]
    tolerance: ToleranceOptions,
    #[command(flatten)]
    reading: ReadingOptions,
}

/// An output of a layer: the position of the layer, and its own.
type LayerOutput = (usize, usize);

/// The outputs of the layers of a graph, by the names that arrays have: that of the layer, and the number of the output
/// where it has several. Layers may have one name.
fn outputs_by_name(graph: &Graph) -> HashMap<String, Vec<LayerOutput>> {
    let mut outputs: HashMap<String, Vec<LayerOutput>> = HashMap::new();
    for (number, layer) in graph.layers.iter().enumerate() {
        for output in 0..layer.outputs.len() {
            let name = match layer.outputs.len() {
                1 => layer.name.clone(),
                _ => format!("{}:{output}", layer.name),
            };
            outputs.entry(name).or_default().push((number, output));
        }
    }
    outputs
}

impl Compare {
    /// Compares all layers. False if one differs.
    pub fn run(&self) -> TractResult<bool> {
        self.reading.expect_all_outputs()?;
        let file = model_file(&self.model)?;
        if Kind::of(&file)? != Kind::Ir {
            return Err(error_with_help(
                format!("{} has no layers of OpenVINO IR to compare", file.display()),
                ["give a .xml file, as OpenVINO's save_model and optimum-cli write it".into()],
            ));
        }
        let reading = || format!("reading {}", self.values.display());
        let mut values = Npz::open(&self.values).with_context(reading)?;
        let document = document(&file)?;
        let graph = document.graph();
        let by_name = outputs_by_name(graph);
        let (mut found, mut unknown, mut ambiguous) = (vec![], vec![], vec![]);
        for name in values.names() {
            match by_name.get(name).map(|outputs| &**outputs) {
                None | Some([]) => unknown.push(printable(name)),
                Some([output]) => found.push((*output, name.clone())),
                Some(_) => ambiguous.push(printable(name)),
            }
        }
        // Each layer comes after those that it takes from.
        found.sort();
        let mut inputs = vec![];
        for layer in &graph.parameters {
            let name = &graph.layers[*layer].name;
            if !found.iter().any(|((found, _), _)| found == layer) {
                return Err(error_with_help(
                    format!("{} has no array {name:?}", self.values.display()),
                    ["layer_values.py writes one for each input, by the name of its layer".into()],
                ));
            }
            inputs.push(values.read(name).with_context(reading)?);
        }
        found.retain(|((layer, _), _)| !graph.parameters.contains(layer));
        if found.is_empty() {
            return Err(error_with_help(
                format!("{} has no values of layers", self.values.display()),
                ["layer_values.py writes them, by the names of the layers".into()],
            ));
        }

        let layer_outputs: Vec<LayerOutput> = found.iter().map(|(output, _)| *output).collect();
        let shapes = shapes_of(input_names(&file)?, &inputs);
        let load = |shapes: &_| self.reading.load_ir(&file, shapes, &layer_outputs);
        let new = |model| Runnable::new(model, self.stage);
        let (mut model, _) = self.reading.read_for(&shapes, load, new)?;
        expect_fit(&model.typed, &model.names, &file, &inputs)?;
        let outputs = model.run(&inputs)?;
        let computed = outputs.into_iter().skip(graph.results.len()).map(|(_, tensor)| tensor);

        let mut out = output();
        writeln!(out, "{}, {}", self.model.display(), self.stage)?;
        let (mut differences, mut others) = (vec![], vec![]);
        for (((layer, number), name), got) in found.iter().zip(computed) {
            let expected = values.read(name).with_context(reading)?;
            let Err(difference) = compare_within(&expected, &got, self.tolerance.tolerance())
            else {
                continue;
            };
            if differences.is_empty() {
                let layer = &graph.layers[*layer];
                let several = layer.outputs.len() > 1;
                let number = if several { format!(", output {number}") } else { String::new() };
                let text = printable(&format!("{layer}{number}"));
                writeln!(out, "{BAD}FIRST DIFFERENCE{BAD:#} in {text}")?;
                writeln!(out, "  {difference}")?;
                if let Some(greatest) = greatest(&expected, &got)? {
                    writeln!(out, "  greatest error {greatest}")?;
                }
            } else {
                others.push(&**name);
            }
            differences.push(difference);
        }
        if !others.is_empty() {
            writeln!(out, "then in {}", list(&others))?;
        }
        let (same, differ) = (found.len() - differences.len(), differences.len());
        let style = if differ == 0 { GOOD } else { BAD };
        writeln!(
            out,
            "outputs of layers: {} compared, {style}{same} as expected, {differ} not{style:#}",
            found.len()
        )?;
        for (names, why) in [
            (unknown, "no layer that the model's outputs depend on has the name"),
            (ambiguous, "several layers have the name"),
        ] {
            if !names.is_empty() {
                let shown: Vec<&str> = names.iter().map(|name| &**name).collect();
                writeln!(out, "not compared: {}, as {why}: {}", names.len(), list(&shown))?;
            }
        }
        if differ > 0 && differences.iter().all(Difference::is_close) {
            note(IS_CLOSE);
        }
        Ok(differ == 0)
    }
}

/// The greatest difference of two elements and where it is, if the tensors have one type, of numbers, and one shape.
fn greatest(expected: &Tensor, got: &Tensor) -> TractResult<Option<String>> {
    let dt = expected.datum_type();
    if !dt.is_number() || dt != got.datum_type() || expected.shape() != got.shape() {
        return Ok(None);
    }
    let (expected, got) = (expected.cast_to::<f64>()?, got.cast_to::<f64>()?);
    let expected = expected.to_plain_array_view::<f64>()?;
    let got = got.to_plain_array_view::<f64>()?;
    let errors = expected.indexed_iter().zip(got).map(|((position, expected), got)| {
        let is_same = expected == got || expected.is_nan() && got.is_nan();
        let error = if is_same { 0. } else { (expected - got).abs() };
        (error, position, *expected, *got)
    });
    // NaN is the greatest.
    let greatest = errors.max_by(|a, b| a.0.total_cmp(&b.0));
    Ok(greatest.map(|(error, position, expected, got)| {
        format!("{error} at {:?}: {expected} expected, got {got}", position.slice())
    }))
}
