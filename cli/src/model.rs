//! Reading models, and their symbols.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Display};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use model_cases::{Stage, StagedModel};
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{
    Fact, Op, TractErrorContext, ensure, format_err,
};
use tract_openvino::tract_onnx::{Onnx, WithOnnx, onnx};
use tract_openvino::{DOMAIN, OpenVinoOptions, WithOpenVino, WithOpenVinoOptions, tract_nnef};

use crate::panics::{catch, during};
use crate::report::{error_with_help, list, printable, unknown_name};

/// How models are read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading the model")]
pub struct ReadingOptions {
    /// Give a symbol in the model's shapes a value
    #[arg(long = "set", value_name = "SYMBOL=VALUE", value_parser = symbol_value)]
    pub symbols: Vec<(String, usize)>,
    /// What negative indices mean where the operator's revision does not define them
    #[arg(long, value_name = "MEANING", default_value = "as-specified")]
    negative_indices: NegativeIndices,
    /// Run Gather and GatherND of the standard ONNX domain on these operators, too
    #[arg(long)]
    standard_gather: bool,
    /// Ignore the types and shapes that an ONNX file declares for what its nodes compute
    #[arg(long)]
    ignore_value_info: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum NegativeIndices {
    /// What the revision says: an error, but in Gather-8
    AsSpecified,
    /// They count from the end
    Wrap,
}

fn symbol_value(text: &str) -> Result<(String, usize), String> {
    let (symbol, value) = text.split_once('=').ok_or("it must be a symbol, = and a value")?;
    let size = value.parse().ok().filter(|size| i64::try_from(*size).is_ok());
    let size = size.ok_or_else(|| format!("{value:?} is not a size: a whole number below 2^63"))?;
    match symbol.trim() {
        "" => Err("there is no symbol in front of the =".into()),
        symbol => Ok((symbol.into(), size)),
    }
}

/// A model as far as its file says.
#[derive(Debug, Clone)]
pub enum Model {
    /// From ONNX: types and shapes are yet to be found.
    Loaded(InferenceModel),
    /// From NNEF.
    Typed(TypedModel),
}

/// Where a model is: a file, or the file in a model folder.
pub fn model_file(path: &Path) -> TractResult<PathBuf> {
    if path.is_dir() {
        let file = path.join("model.onnx");
        let help = "a model folder has a model.onnx and test_data_set_N folders".into();
        let error = || error_with_help(format!("{} has no model.onnx", path.display()), [help]);
        return if file.is_file() { Ok(file) } else { Err(error()) };
    }
    ensure!(path.exists(), "there is no file {}", path.display());
    Ok(path.into())
}

/// Whether a file is an NNEF archive by its name.
pub fn is_nnef(path: &Path) -> bool {
    let name = path.to_string_lossy();
    [".nnef.tar", ".tgz"].iter().any(|extension| name.ends_with(extension))
}

/// The reader and writer of NNEF archives.
pub fn nnef() -> tract_nnef::internal::Nnef {
    tract_nnef::nnef().with_tract_resource().with_onnx().with_openvino()
}

impl ReadingOptions {
    fn reader(&self) -> Onnx {
        let mut options = OpenVinoOptions::default().with_standard_gather(self.standard_gather);
        if self.negative_indices == NegativeIndices::Wrap {
            options = options.with_negative_indices(tract_openvino::NegativeIndices::Wrap);
        }
        onnx().with_openvino_options(options).with_ignore_value_info(self.ignore_value_info)
    }

    /// Reads a model, by the name of its file, and leaves its symbols as they are.
    pub fn load(&self, path: &Path) -> TractResult<Model> {
        let file = model_file(path)?;
        let doing = format!("reading {}", file.display());
        if is_nnef(&file) {
            let given = self.negative_indices != NegativeIndices::AsSpecified
                || self.standard_gather
                || self.ignore_value_info;
            if given {
                let message = "options for reading ONNX do not change an NNEF archive";
                let help = "give them to convert, when the archive is made";
                return Err(error_with_help(message, [help.into()]));
            }
            return Ok(Model::Typed(during(&doing, || nnef().model_for_path(&file))?));
        }
        if file.extension().is_none_or(|extension| extension != "onnx") {
            let help = "a model is a .onnx file, a folder with a model.onnx, or an NNEF archive: \
                        .nnef.tgz, .nnef.tar or .tgz";
            let message = format!("{} is of no known kind by its name", file.display());
            return Err(error_with_help(message, [help.into()]));
        }
        let reader = self.reader();
        let proto = catch(&doing, || reader.proto_model_for_path(&file))
            .with_context(|| format!("{} is not an ONNX file", file.display()))?;
        let folder = file.parent().and_then(Path::to_str);
        let parsed = during(&doing, || reader.parse(&proto, folder));
        refuse_unimplemented(&proto, &reader, parsed.as_ref().err())?;
        let parsed = parsed?;
        ensure!(
            parsed.unresolved_inputs.is_empty(),
            "{}: nodes have inputs that nothing computes: {}",
            file.display(),
            parsed.unresolved_inputs.join(", ")
        );
        Ok(Model::Loaded(parsed.model))
    }

    /// Reads a model, and gives its symbols the values that they are to have.
    pub fn read(&self, path: &Path) -> TractResult<Model> {
        let model = self.load(path)?;
        self.check_symbols("the model has no", &model.symbols())?;
        model.with_symbols(&self.symbols)
    }

    /// Fails if a symbol that is to have a value is none of those that there are. `problem` is how
    /// the error begins.
    pub fn check_symbols<'a>(
        &self,
        problem: &str,
        known: impl IntoIterator<Item = &'a String>,
    ) -> TractResult<()> {
        let known: Vec<&str> = known.into_iter().map(|symbol| &**symbol).collect();
        for (symbol, _) in &self.symbols {
            if !known.contains(&&**symbol) {
                return Err(unknown_name(format!("{problem} symbol {symbol:?}"), symbol, &known));
            }
        }
        Ok(())
    }
}

/// Fails if the model has operators that nobody implements, and names them all.
///
/// `failure` is what reading it failed with: operators of OpenVINO's domain are in there already.
fn refuse_unimplemented(
    proto: &ModelProto,
    reader: &Onnx,
    failure: Option<&TractError>,
) -> TractResult<()> {
    let stock = onnx().op_register.0;
    let mut nodes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut graphs: Vec<&GraphProto> = proto.graph.iter().collect();
    while let Some(graph) = graphs.pop() {
        for node in &graph.node {
            let implemented = match &*node.domain {
                DOMAIN => failure.is_some() || reader.op_register.0.contains_key(&node.op_type),
                _ => stock.contains_key(&node.op_type),
            };
            if !implemented {
                let mut operator = node.op_type.clone();
                if !node.domain.is_empty() {
                    operator += &format!(" of domain {}", node.domain);
                }
                // A node without a name goes by that of its output.
                let name = Some(&node.name).filter(|name| !name.is_empty());
                let name = name.or(node.output.first()).map_or("", |name| name);
                nodes.entry(operator).or_default().push(name);
            }
            for attribute in &node.attribute {
                graphs.extend(attribute.g.iter().chain(&attribute.graphs));
            }
        }
    }
    if nodes.is_empty() {
        return Ok(());
    }
    let lines = nodes.iter().map(|(operator, nodes)| {
        let plural = if nodes.len() == 1 { "" } else { "s" };
        format!("{operator} (node{plural} {})", list(nodes))
    });
    let lines = lines.collect::<Vec<_>>().join("; ");
    let message = format!("the model has operators that tract does not implement: {lines}");
    Err(match failure {
        Some(failure) => format_err!("{message}").context(failure.root_cause().to_string()),
        None => format_err!("{message}"),
    })
}

impl Model {
    /// The names of the symbols in its shapes.
    pub fn symbols(&self) -> Vec<String> {
        let scope = match self {
            Model::Loaded(model) => &model.symbols,
            Model::Typed(model) => &model.symbols,
        };
        let mut names: Vec<String> = scope.all_symbols().iter().map(Symbol::to_string).collect();
        names.sort();
        names
    }

    /// Gives those of these symbols that it has a value.
    pub fn with_symbols(self, values: &[(String, usize)]) -> TractResult<Model> {
        if values.is_empty() {
            return Ok(self);
        }
        let in_scope = |scope: &SymbolScope| -> HashMap<Symbol, TDim> {
            let known = values.iter().filter_map(|(name, value)| Some((scope.get(name)?, value)));
            known.map(|(symbol, value)| (symbol, value.to_dim())).collect()
        };
        during("giving symbols a value", || match self {
            Model::Loaded(mut model) => {
                let values = in_scope(&model.symbols);
                model.set_symbols(&values)?;
                Ok(Model::Loaded(model))
            }
            Model::Typed(model) => Ok(Model::Typed(model.set_symbols(&in_scope(&model.symbols))?)),
        })
    }

    /// The model with types and shapes.
    pub fn into_typed(self) -> TractResult<TypedModel> {
        match self {
            Model::Loaded(model) => during("finding types and shapes", || model.into_typed()),
            Model::Typed(model) => Ok(model),
        }
    }

    /// The model, ready to be run, at a stage.
    pub fn at(self, stage: Stage) -> TractResult<StagedModel> {
        during(&format!("making the {stage} model"), || match self {
            Model::Loaded(model) => StagedModel::new(model, stage),
            Model::Typed(model) => StagedModel::from_typed(model, stage),
        })
    }
}

/// The name of an outlet: its label, which is that of the ONNX graph, or that of its node.
pub fn outlet_name<F, O>(model: &Graph<F, O>, outlet: OutletId) -> String
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    let node = model.node(outlet.node);
    match model.outlet_label(outlet) {
        Some(label) => printable(label),
        None if outlet.slot == 0 => printable(&node.name),
        None => format!("{}:{}", printable(&node.name), outlet.slot),
    }
}
