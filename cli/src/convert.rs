//! `convert`: a model as an NNEF archive.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::TractErrorContext;

use crate::model::{ReadingOptions, is_nnef, nnef, outlet_name};
use crate::panics::during;
use crate::report::{NAME, error_with_help, list, output};

/// Arguments of `convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// A .onnx file, a .xml file of OpenVINO IR, a model folder, or an NNEF archive
    model: PathBuf,
    /// The archive: .nnef.tgz (or .tgz) or .nnef.tar
    output: PathBuf,
    #[command(flatten)]
    reading: ReadingOptions,
}

impl Convert {
    pub fn run(&self) -> TractResult<bool> {
        let path = self.output.display();
        if !is_nnef(&self.output) {
            let help = "its name must end in .nnef.tgz, .tgz or .nnef.tar".to_string();
            return Err(error_with_help(format!("{path} is no NNEF archive by its name"), [help]));
        }
        let typed = self.reading.read(&self.model)?.into_typed()?;
        let model = during("decluttering the model", || typed.into_decluttered())?;
        refuse_equal_names(&model)?;
        let mut archive = vec![];
        during("writing the model as NNEF", || nnef().write(&model, &mut archive))
            .map_err(|error| explain(error, &model))?;
        if self.output.extension().is_some_and(|extension| extension == "tgz") {
            let mut encoder = GzEncoder::new(vec![], Compression::default());
            encoder.write_all(&archive)?;
            archive = encoder.finish()?;
        }
        fs::write(&self.output, &archive).with_context(|| format!("writing {path}"))?;
        let size = archive.len();
        writeln!(output(), "saved {NAME}{path}{NAME:#}, {size} bytes")?;
        Ok(true)
    }
}

/// tract's writer makes identifiers of names, and does not look whether two outputs become one.
fn refuse_equal_names(model: &TypedModel) -> TractResult<()> {
    let identifier = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let outlets = model.output_outlets()?;
    let names: Vec<String> = outlets.iter().map(|outlet| outlet_name(model, *outlet)).collect();
    for (number, name) in names.iter().enumerate() {
        let equal = names[..number].iter().find(|other| identifier(other) == identifier(name));
        if let Some(other) = equal {
            let message = format!("outputs {other:?} and {name:?} would have one name in NNEF");
            return Err(error_with_help(message, ["rename one of them in the model".into()]));
        }
    }
    Ok(())
}

/// Adds what in the model it is that tract's writer has no text for, where that is the case.
fn explain(error: TractError, model: &TypedModel) -> TractError {
    let outputs = |node: &TypedNode| {
        let dims = node.outputs.iter().flat_map(|output| output.fact.shape.iter());
        dims.filter(|dim| has_no_text(dim)).cloned().collect::<Vec<_>>()
    };
    let nodes: Vec<(&str, Vec<TDim>)> =
        model.nodes().iter().map(|node| (&*node.name, outputs(node))).collect();
    let nodes: Vec<_> = nodes.into_iter().filter(|(_, dims)| !dims.is_empty()).collect();
    let Some((_, dims)) = nodes.first() else { return error };
    let names: Vec<&str> = nodes.iter().map(|(name, _)| *name).collect();
    let mut symbols: Vec<String> = nodes
        .iter()
        .flat_map(|(_, dims)| dims)
        .flat_map(|dim| dim.symbols())
        .map(|it| it.to_string())
        .collect();
    symbols.sort();
    symbols.dedup();
    let set =
        symbols.iter().map(|symbol| format!("--set {symbol}=8")).collect::<Vec<_>>().join(" ");
    error_with_help(
        format!("{error:#}"),
        [
            format!(
                "tract has no text for dimensions like {}, which these nodes have: {}",
                dims[0],
                list(&names)
            ),
            format!("give the symbols in them a value: {set}"),
        ],
    )
}

/// Whether tract's NNEF writer panics at a dimension.
fn has_no_text(dim: &TDim) -> bool {
    match dim {
        TDim::Val(_) | TDim::Sym(_) => false,
        TDim::Add(terms) | TDim::Mul(terms) => terms.iter().any(has_no_text),
        TDim::MulInt(_, dim) | TDim::Div(dim, _) => has_no_text(dim),
        _ => true,
    }
}
