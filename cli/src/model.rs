//! Reading models, their symbols and the sizes of their inputs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{Debug, Display};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use model_cases::{Case, Stage, StagedModel};
use tract_openvino::kernels::threads::{default_threads, executor};
use tract_openvino::kernels::{
    InferencePrecision, KernelsConfig, KernelsTransform, guard_downsamples,
};
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{
    Fact, Op, TractErrorContext, bail, ensure, format_err,
};
use tract_openvino::tract_onnx::{Onnx, WithOnnx, onnx};
use tract_openvino::{
    DOMAIN, OpenVinoOptions, WithOpenVino, WithOpenVinoOptions, dimension_name, name_dimensions,
    restart_loops, tract_nnef,
};
use tract_openvino_ir::document::Document;
use tract_openvino_ir::{Ir, Limits, WithOpenVinoIr};
use tract_openvino_tokenizers::register;

use crate::panics::{catch, during};
use crate::report::{error_with_help, list, note, printable, unknown_name};

/// How models are read.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Reading the model")]
pub struct ReadingOptions {
    /// Give a symbol in the model's shapes a value
    #[arg(long = "set", value_name = "SYMBOL=VALUE", value_parser = symbol_value)]
    pub symbols: Vec<(String, usize)>,
    /// Give an input sizes or symbols, like x=N,3,32*h,32*w; ? leaves a dimension as it is
    #[arg(long = "shape", value_name = "INPUT=SHAPE", value_parser = input_shape)]
    shapes: Vec<InputShape>,
    /// Make this an output of the model in place of its own: the name of an output, a tensor or a layer (node), or LAYER:1 for the
    /// second output of a layer with several
    #[arg(long = "output", value_name = "NAME")]
    pub outputs: Vec<String>,
    /// What negative indices mean where the operator's revision does not define them [default: as-specified for ONNX,
    /// wrap for OpenVINO IR, like OpenVINO]
    #[arg(long, value_name = "MEANING")]
    negative_indices: Option<NegativeIndices>,
    /// The weights of an OpenVINO IR model [default: the .bin beside the .xml]
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The most memory, in MiB, that the constants of an OpenVINO IR model may take while it is loaded [default: 256
    /// plus 32 times the size of the weights]
    #[arg(long, value_name = "MIB")]
    constants_limit: Option<u64>,
    /// The most iterations of a loop of an OpenVINO IR model, including those of nested loops [default: 2^24]
    #[arg(long, value_name = "NUMBER")]
    iterations_limit: Option<usize>,
    /// Run Gather, GatherND, GatherElements, the Scatters and OneHot of the standard ONNX domain on tract's own operators, which do
    /// not check indices
    #[arg(long)]
    tract_gather: bool,
    /// Ignore the types and shapes that an ONNX file declares for the outputs of its nodes [default: only if the model does not
    /// load with them]
    #[arg(long)]
    ignore_value_info: bool,
}

/// A shape for an input, as text.
pub type InputShape = (String, String);

fn input_shape(text: &str) -> Result<InputShape, String> {
    // A name may have = in it, a shape has not.
    let (input, shape) =
        text.rsplit_once('=').ok_or("it must be an input's name, = and a shape")?;
    Ok((input.into(), shape.into()))
}

/// The shapes of the tensors that inputs are fed.
pub fn shapes_of<'a>(
    names: impl IntoIterator<Item = String>,
    tensors: impl IntoIterator<Item = &'a Tensor>,
) -> Vec<InputShape> {
    let shape = |tensor: &Tensor| {
        let sizes: Vec<String> = tensor.shape().iter().map(|size| size.to_string()).collect();
        sizes.join(",")
    };
    names.into_iter().zip(tensors).map(|(name, tensor)| (name, shape(tensor))).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum NegativeIndices {
    /// As the revision specifies: an error, except in Gather-8
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

/// A model as it is read from its file.
#[derive(Debug, Clone)]
pub enum Model {
    /// From ONNX: types and shapes are not inferred yet.
    Loaded(Loaded),
    /// From NNEF or OpenVINO IR.
    Typed(TypedModel),
}

/// A model from ONNX.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub model: InferenceModel,
    /// The same without the shapes that the file declares, if it does.
    undeclared: Option<Arc<Undeclared>>,
    /// Symbols that have a value by now.
    symbols: Vec<(String, usize)>,
}

/// How a model is read without the shapes that its file declares.
#[derive(Debug)]
struct Undeclared {
    file: PathBuf,
    options: ReadingOptions,
    shapes: Vec<InputShape>,
    /// Whether it has been said that these shapes are ignored.
    is_said: AtomicBool,
}

impl Loaded {
    /// Makes something of the model, without the declared shapes if it cannot be made with them.
    pub fn make<T>(self, make: impl Fn(InferenceModel) -> TractResult<T>) -> TractResult<T> {
        let Loaded { model, undeclared, symbols } = self;
        let Some(undeclared) = undeclared else { return make(model) };
        const DOING: &str = "finding types and shapes";
        let error = match catch(DOING, || make(model)) {
            Ok(made) => return Ok(made),
            Err(error) => error,
        };
        let Undeclared { file, options, shapes, is_said } = &*undeclared;
        let without = || match options.load_onnx(file, shapes)?.with_symbols(&symbols)? {
            Model::Loaded(loaded) => make(loaded.model),
            Model::Typed(_) => bail!("it is not an ONNX model"),
        };
        // The first error is the one that is about the model as it stands.
        let Ok(made) = catch(DOING, without) else { return Err(error) };
        if !is_said.swap(true, Ordering::Relaxed) {
            note(&format!(
                "{}: the shapes that it declares are ignored, as with --ignore-value-info (or with_ignore_value_info(true) of the \
                 reader), because {error:#}",
                file.display()
            ));
        }
        Ok(made)
    }

    /// The model with types and shapes. Its loops begin anew in each run, and a stride may follow what changes axes.
    fn into_typed(self) -> TractResult<TypedModel> {
        let mut typed = self.make(|model| model.into_typed())?;
        restart_loops(&mut typed);
        guard_downsamples(&mut typed, 0)?;
        Ok(typed)
    }
}

/// Whether a graph declares shapes between its nodes, in the bodies of these, too.
fn declares_shapes(graph: &GraphProto) -> bool {
    let attributes = graph.node.iter().flat_map(|node| &node.attribute);
    let mut bodies = attributes.flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs));
    !graph.value_info.is_empty() || bodies.any(declares_shapes)
}

/// The kind of a model, which the name of its file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Onnx,
    Ir,
    Nnef,
}

impl Kind {
    pub fn of(file: &Path) -> TractResult<Kind> {
        if is_nnef(file) {
            return Ok(Kind::Nnef);
        }
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("onnx") => Ok(Kind::Onnx),
            Some("xml") => Ok(Kind::Ir),
            _ => Err(error_with_help(
                format!("the name of {} does not say what kind of model it is", file.display()),
                ["a model is a .onnx file, a .xml file of OpenVINO IR, a folder with one of them, or an \
                  NNEF archive: .nnef.tgz, .nnef.tar or .tgz"
                    .into()],
            )),
        }
    }
}

/// What errors say a model folder is.
pub const MODEL_FOLDER: &str = "a model folder has a model.onnx, or a model.xml or openvino_model.xml and its .bin, and data \
     sets: test_data_set_N folders or test_data_set_N.npz files";

/// The file of a model: this one, or the one in this model folder.
pub fn model_file(path: &Path) -> TractResult<PathBuf> {
    if path.is_dir() {
        return model_cases::Model::file_in(path).map_or_else(|| Err(no_model_in(path)?), Ok);
    }
    ensure!(path.exists(), "there is no file {}", path.display());
    Ok(path.into())
}

/// The error for a folder without a model that says so by its name.
fn no_model_in(folder: &Path) -> TractResult<TractError> {
    let mut names = names_in(folder)?;
    names.sort();
    let models = names.iter().filter(|name| Kind::of(Path::new(name)).is_ok());
    let models: Vec<&str> = models.map(|name| &**name).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let there = match (&*models, &*names) {
        ([], []) => "the folder is empty".into(),
        ([], names) => format!("in the folder is {}", list(names)),
        (models, _) => format!("give one of the files of the folder: {}", list(models)),
    };
    let [others @ .., last] = model_cases::Model::FILES;
    let message = format!("{} has no {} or {last}", folder.display(), others.join(", "));
    Ok(error_with_help(message, [there]))
}

/// Whether this is a folder with data sets.
pub fn has_data_sets(path: &Path) -> TractResult<bool> {
    Ok(path.is_dir() && names_in(path)?.iter().any(|name| name.starts_with("test_data_set_")))
}

/// The names of what is in a folder.
fn names_in(folder: &Path) -> TractResult<Vec<String>> {
    let names = || -> std::io::Result<Vec<String>> {
        let entries = std::fs::read_dir(folder)?;
        entries.map(|entry| Ok(printable(&entry?.file_name().to_string_lossy()))).collect()
    };
    names().with_context(|| format!("listing {}", folder.display()))
}

/// Whether this is the name of an NNEF archive.
pub fn is_nnef(path: &Path) -> bool {
    let name = path.to_string_lossy();
    [".nnef.tar", ".tgz"].iter().any(|extension| name.ends_with(extension))
}

/// The reader and writer of NNEF archives.
pub fn nnef() -> tract_nnef::internal::Nnef {
    let nnef = tract_nnef::nnef().with_tract_resource().with_onnx();
    let mut nnef = nnef.with_openvino().with_openvino_ir();
    // Names stay as they are. Two of them could become one else.
    nnef.allow_extended_identifier_syntax(true);
    nnef
}

/// The reader of OpenVINO IR, with the operations of tokenizers.
pub fn ir() -> Ir {
    let mut ir = tract_openvino_ir::ir();
    register(ir.registry_mut());
    ir
}

impl ReadingOptions {
    fn wraps(&self) -> bool {
        self.negative_indices == Some(NegativeIndices::Wrap)
    }

    fn onnx(&self) -> Onnx {
        let mut options = OpenVinoOptions::default().with_standard_gather(!self.tract_gather);
        if self.wraps() {
            options = options.with_negative_indices(tract_openvino::NegativeIndices::Wrap);
        }
        let onnx = onnx().with_openvino_options(options).with_openvino_ir();
        onnx.with_ignore_value_info(self.ignore_value_info)
    }

    fn ir(&self, shapes: &[InputShape]) -> Ir {
        let mut ir = ir();
        if let Some(meaning) = self.negative_indices {
            ir = ir.with_negative_indices(match meaning {
                NegativeIndices::AsSpecified => tract_openvino::NegativeIndices::AsSpecified,
                NegativeIndices::Wrap => tract_openvino::NegativeIndices::Wrap,
            });
        }
        if let Some(weights) = &self.weights {
            ir = ir.with_weights(weights);
        }
        let mut limits = Limits::default();
        limits.constant_bytes = self.constants_limit.map(|limit| limit.saturating_mul(1 << 20));
        limits.iterations = self.iterations_limit.unwrap_or(limits.iterations);
        ir = ir.with_limits(limits).with_outputs(&self.outputs);
        let shapes = self.shapes.iter().chain(shapes).cloned();
        shapes.fold(ir, |ir, (input, shape)| ir.with_input_shape(input, shape))
    }

    /// Reads a model, and leaves its symbols as they are. `shapes` are shapes of inputs that the arguments do not give.
    pub fn load_with(&self, path: &Path, shapes: &[InputShape]) -> TractResult<Model> {
        let file = model_file(path)?;
        let kind = Kind::of(&file)?;
        self.refuse_options(kind)?;
        match kind {
            Kind::Nnef => {
                let doing = format!("reading {}", file.display());
                let mut model = during(&doing, || nnef().model_for_path(&file))?;
                self.select_outputs(&mut model)?;
                ensure!(
                    self.shapes.is_empty() && shapes.is_empty(),
                    "the shapes of an NNEF archive are fixed when it is made: give --shape to convert"
                );
                Ok(Model::Typed(model))
            }
            Kind::Onnx => self.load_onnx(&file, shapes),
            Kind::Ir => self.load_ir(&file, shapes, &[]),
        }
    }

    /// Reads OpenVINO IR. These outputs of layers, by the positions of both, are outputs of the model, too.
    pub fn load_ir(
        &self,
        file: &Path,
        shapes: &[InputShape],
        layer_outputs: &[(usize, usize)],
    ) -> TractResult<Model> {
        self.refuse_options(Kind::Ir)?;
        let doing = format!("reading {}", file.display());
        let ir = self.ir(shapes);
        let model = catch(&doing, || {
            // Its errors say which file it is.
            let mut proto = ir.proto_model_for_path(file)?;
            if !self.outputs.is_empty() {
                check_outputs(proto.document.graph(), &self.outputs)?;
            }
            for (layer, output) in layer_outputs {
                proto.document.add_output(*layer, *output, format!("output {output} of {layer}"));
            }
            ir.model_for_proto_model(&proto).with_context(|| format!("in {}", file.display()))
        });
        model.map(Model::Typed)
    }

    /// Fails if options are given that have no effect on this kind of model.
    fn refuse_options(&self, kind: Kind) -> TractResult<()> {
        let onnx = self.tract_gather || self.ignore_value_info;
        let ir = self.weights.is_some()
            || self.constants_limit.is_some()
            || self.iterations_limit.is_some();
        let (given, message, help) = match kind {
            Kind::Nnef => (
                onnx || ir || self.negative_indices.is_some(),
                "options for reading ONNX and OpenVINO IR do not change an NNEF archive",
                "give them to convert, when the archive is made",
            ),
            Kind::Ir => (
                onnx,
                "options for reading ONNX do not change OpenVINO IR",
                "leave out --tract-gather and --ignore-value-info",
            ),
            Kind::Onnx if self.weights.is_some() => {
                (true, "the weights of an ONNX model are in its own file", "leave out --weights")
            }
            Kind::Onnx => (
                ir,
                "options for reading OpenVINO IR do not change an ONNX model",
                "leave out --constants-limit and --iterations-limit",
            ),
        };
        if given { Err(error_with_help(message, [help.into()])) } else { Ok(()) }
    }

    fn load_onnx(&self, file: &Path, shapes: &[InputShape]) -> TractResult<Model> {
        let doing = format!("reading {}", file.display());
        let reader = self.onnx();
        let mut proto = catch(&doing, || reader.proto_model_for_path(file))
            .with_context(|| format!("{} is not an ONNX file", file.display()))?;
        name_dimensions(&mut proto);
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
        let mut model = parsed.model;
        for (input, shape) in self.shapes.iter().chain(shapes) {
            catch("giving inputs a shape", || set_input_shape(&mut model, input, shape))?;
        }
        self.select_outputs(&mut model)?;
        let declares = proto.graph.as_ref().is_some_and(declares_shapes);
        let undeclared = (declares && !self.ignore_value_info).then(|| {
            Arc::new(Undeclared {
                file: file.into(),
                options: ReadingOptions { ignore_value_info: true, ..self.clone() },
                shapes: shapes.to_vec(),
                is_said: AtomicBool::new(false),
            })
        });
        Ok(Model::Loaded(Loaded { model, undeclared, symbols: vec![] }))
    }

    /// Makes the chosen outlets the outputs of a model of ONNX or NNEF.
    fn select_outputs<F, O>(&self, model: &mut Graph<F, O>) -> TractResult<()>
    where
        F: Fact + Clone + 'static,
        O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
    {
        if self.outputs.is_empty() {
            return Ok(());
        }
        let nodes = model.nodes().iter().map(|node| &*node.name);
        let names: BTreeSet<&str> =
            model.outlet_labels.values().map(|it| &**it).chain(nodes).collect();
        let exists = |name: &str| {
            let of_node = name.rsplit_once(':').and_then(|(node, output)| {
                let node = model.node_by_name(node).ok()?;
                (output.parse::<usize>().ok()? < node.outputs.len()).then_some(())
            });
            names.contains(name) || of_node.is_some()
        };
        if let Some(missing) = self.outputs.iter().find(|name| !exists(name)) {
            let names: Vec<&str> = names.into_iter().collect();
            let message = format!("the model has no output, tensor or node {missing:?}");
            return Err(unknown_name(message, missing, &names));
        }
        model.select_outputs_by_name(&self.outputs)
    }

    /// Fails if outputs are chosen that the expected ones are not of.
    pub fn expect_all_outputs(&self) -> TractResult<()> {
        match &*self.outputs {
            [] => Ok(()),
            _ => Err(error_with_help(
                "expected outputs are those of the whole model",
                ["leave out --output, or give it to run".into()],
            )),
        }
    }

    /// Reads a model, and gives its symbols the values of the options.
    pub fn read(&self, path: &Path) -> TractResult<Model> {
        let model = self.load_with(path, &[])?;
        self.check_symbols("the model has no", &model.symbols())?;
        model.with_symbols(&self.symbols)
    }

    /// Loads a model and makes something of it, with its symbols or, if that fails, with the sizes of the tensors that it is
    /// fed. Returns whether it has these sizes.
    pub fn read_for<T>(
        &self,
        shapes: &[InputShape],
        load: impl Fn(&[InputShape]) -> TractResult<Model>,
        make: impl Fn(Model) -> TractResult<T>,
    ) -> TractResult<(T, bool)> {
        let make = |model: Model| model.with_symbols(&self.symbols).and_then(&make);
        let made = match load(&[]) {
            Ok(model) => {
                self.check_symbols("the model has no", &model.symbols())?;
                make(model)
            }
            Err(error) => Err(error),
        };
        let error = match made {
            Ok(made) => return Ok((made, false)),
            Err(error) if shapes.is_empty() => return Err(error),
            Err(error) => error,
        };
        match load(shapes).and_then(make) {
            Ok(made) => {
                note(&format!("the sizes are those of the tensors, because {error:#}"));
                Ok((made, true))
            }
            // The first error is the one that is about the model as it stands.
            Err(_) => Err(error),
        }
    }

    /// Fails if a symbol of the options is not one of the model's. `problem` is the beginning of the error.
    pub fn check_symbols<'a>(
        &self,
        problem: &str,
        known: impl IntoIterator<Item = &'a String>,
    ) -> TractResult<()> {
        let known: Vec<&str> = known.into_iter().map(|symbol| &**symbol).collect();
        for (symbol, _) in &self.symbols {
            if !known.contains(&&**symbol) && !known.contains(&&*dimension_name(symbol)) {
                return Err(unknown_name(format!("{problem} symbol {symbol:?}"), symbol, &known));
            }
        }
        Ok(())
    }
}

/// Fails, and says which name was perhaps meant, if OpenVINO IR has no output, tensor or layer of a name.
fn check_outputs(graph: &tract_openvino_ir::document::Graph, names: &[String]) -> TractResult<()> {
    let tensors = graph.layers.iter().flat_map(|layer| &layer.outputs).flat_map(|it| &it.names);
    let layers = graph.layers.iter().map(|layer| &layer.name);
    let results = (0..graph.results.len()).flat_map(|output| graph.output_names(output));
    let mut known: BTreeSet<String> = tensors.chain(layers).cloned().collect();
    known.extend(results);
    let of_layer =
        |name: &str| name.rsplit_once(':').is_some_and(|(layer, _)| known.contains(layer));
    match names.iter().find(|name| !known.contains(*name) && !of_layer(name)) {
        None => Ok(()),
        Some(missing) => {
            let known: Vec<&str> = known.iter().map(|name| &**name).collect();
            let message = format!("the model has no output, tensor or layer {missing:?}");
            Err(unknown_name(message, missing, &known))
        }
    }
}

/// Gives an input of an ONNX model sizes or symbols.
fn set_input_shape(model: &mut InferenceModel, input: &str, shape: &str) -> TractResult<()> {
    let outlets = model.input_outlets()?.to_vec();
    let names: Vec<String> = outlets.iter().map(|outlet| outlet_name(model, *outlet)).collect();
    let Some(number) = names.iter().position(|name| name == input) else {
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        return Err(unknown_name(format!("the model has no input {input:?}"), input, &names));
    };
    tract_openvino::set_input_shape(model, number, input, shape)
}

/// The names of the inputs and the outputs of a model, in their order.
#[derive(Debug, Clone)]
pub struct Names {
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
}

impl Names {
    pub fn of<F, O>(model: &Graph<F, O>) -> TractResult<Names>
    where
        F: Fact + Clone + 'static,
        O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
    {
        let names = |outlets: &[OutletId]| {
            outlets.iter().map(|outlet| outlet_name(model, *outlet)).collect::<Vec<_>>()
        };
        let (inputs, outputs) = (names(model.input_outlets()?), names(model.output_outlets()?));
        Ok(Names { inputs, outputs })
    }
}

/// All names of each input of a model, in their order. The first one is the name that the tool uses.
pub fn names_of_inputs(file: &Path, names: &Names) -> TractResult<Vec<Vec<String>>> {
    if Kind::of(file)? == Kind::Ir {
        let document = document(file)?;
        let graph = document.graph();
        let names = graph.parameters.iter().enumerate().map(|(input, layer)| {
            let mut names = graph.input_names(input);
            names.push(graph.layers[*layer].name.clone());
            names
        });
        return Ok(names.collect());
    }
    Ok(names.inputs.iter().map(|name| vec![name.clone()]).collect())
}

/// The names of the inputs that a model file is fed, in their order.
pub fn input_names(path: &Path) -> TractResult<Vec<String>> {
    let file = model_file(path)?;
    match Kind::of(&file)? {
        Kind::Ir => {
            let document = document(&file)?;
            let graph = document.graph();
            Ok((0..graph.parameters.len())
                .map(|input| graph.input_names(input).swap_remove(0))
                .collect())
        }
        Kind::Onnx => {
            let proto = onnx().proto_model_for_path(&file)?;
            let graph = proto.graph.context("the model has no graph")?;
            let is_fed = |name: &str| graph.initializer.iter().all(|it| it.name != name);
            let inputs = graph.input.iter().map(|input| input.name.clone());
            Ok(inputs.filter(|name| is_fed(name)).collect())
        }
        Kind::Nnef => {
            let model: TypedModel = nnef().model_for_path(&file)?;
            Ok(model.input_outlets()?.iter().map(|outlet| outlet_name(&model, *outlet)).collect())
        }
    }
}

/// The case of a model folder whose model is in this file. Its data sets have a tensor for each input, and
/// for each output or for none.
pub fn load_case(folder: &Path, file: &Path) -> TractResult<Case> {
    // This checks the numbers of an ONNX model.
    let case = Case::load(folder)?;
    if Kind::of(file)? == Kind::Ir {
        let document = document(file)?;
        let graph = document.graph();
        case.expect_counts(graph.parameters.len(), graph.results.len())?;
    }
    Ok(case)
}

/// The parsed XML of an OpenVINO IR model.
pub fn document(file: &Path) -> TractResult<Document> {
    Ok(ir().proto_model_for_path(file)?.document)
}

/// Fails if the model has operators that are not implemented, and names them all.
///
/// `failure` is the error of reading it, which already has the operators of OpenVINO's domain.
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
        let symbols: BTreeSet<String> = match self {
            Model::Loaded(Loaded { model, .. }) => {
                model.symbols.all_symbols().iter().map(Symbol::to_string).collect()
            }
            // Its scope has names of dimensions too that turned out to be others.
            Model::Typed(model) => {
                let facts = model.nodes().iter().flat_map(|node| &node.outputs);
                let dims = facts.flat_map(|output| output.fact.shape.iter());
                dims.flat_map(TDim::symbols).map(|symbol| symbol.to_string()).collect()
            }
        };
        symbols.into_iter().collect()
    }

    /// Gives values to those of these symbols that the model has.
    pub fn with_symbols(self, values: &[(String, usize)]) -> TractResult<Model> {
        if values.is_empty() {
            return Ok(self);
        }
        let in_scope = |scope: &SymbolScope| -> HashMap<Symbol, TDim> {
            let symbol = |name: &str| scope.get(name).or_else(|| scope.get(&dimension_name(name)));
            let known = values.iter().filter_map(|(name, value)| Some((symbol(name)?, value)));
            known.map(|(symbol, value)| (symbol, value.to_dim())).collect()
        };
        during("giving symbols a value", || match self {
            Model::Loaded(mut loaded) => {
                loaded.model.set_symbols(&in_scope(&loaded.model.symbols))?;
                loaded.symbols.extend_from_slice(values);
                Ok(Model::Loaded(loaded))
            }
            Model::Typed(model) => Ok(Model::Typed(model.set_symbols(&in_scope(&model.symbols))?)),
        })
    }

    /// The names of its inputs and outputs. After tract has changed the model, they may differ, because an outlet has
    /// only one name even if it is an input and an output.
    pub fn names(&self) -> TractResult<Names> {
        match self {
            Model::Loaded(loaded) => Names::of(&loaded.model),
            Model::Typed(model) => Names::of(model),
        }
    }

    /// The model with types and shapes.
    pub fn into_typed(self) -> TractResult<TypedModel> {
        match self {
            Model::Loaded(loaded) => during("finding types and shapes", || loaded.into_typed()),
            Model::Typed(model) => Ok(model),
        }
    }

    /// The model, ready to be run, at a stage.
    pub fn at(self, stage: Stage) -> TractResult<StagedModel> {
        during(&format!("making the {stage} model"), || match self {
            Model::Loaded(loaded) if stage == Stage::Loaded => {
                loaded.make(|model| StagedModel::new(model, stage))
            }
            Model::Loaded(loaded) => StagedModel::from_typed(loaded.into_typed()?, stage),
            Model::Typed(model) => StagedModel::from_typed(model, stage),
        })
    }
}

/// Which operators a model runs on.
#[derive(Debug, Args)]
pub struct OperatorOptions {
    /// Run on tract's own operators alone, without this project's kernels
    #[arg(long)]
    plain: bool,
    /// Round the factors of products to bf16 where the processor multiplies such numbers, as OpenVINO does by default
    #[arg(long, conflicts_with = "plain")]
    fast: bool,
}

impl OperatorOptions {
    /// The stage that the model is taken to.
    pub fn stage(&self) -> Stage {
        if self.plain { Stage::Optimized } else { Stage::Kernels }
    }

    /// A model on these operators, ready to run.
    pub fn prepare(&self, model: TypedModel) -> TractResult<Box<dyn Runnable>> {
        Ok(match self.plain {
            true => Box::new(model.into_optimized()?.into_runnable()?),
            false => Box::new(self.kernels()?.runnable(model)?),
        })
    }

    /// The same as one of the stages of a model.
    pub fn staged(&self, mut model: TypedModel) -> TractResult<StagedModel> {
        if self.plain {
            return Model::Typed(model).at(Stage::Optimized);
        }
        during("making the kernels model", || {
            model.transform(&self.kernels()?)?;
            StagedModel::from_typed(model, Stage::Optimized)
        })
    }

    fn kernels(&self) -> TractResult<KernelsTransform> {
        let mut config = KernelsConfig::default();
        if self.fast {
            config.inference_precision = InferencePrecision::Bf16;
        }
        KernelsTransform::new(config)
    }
}

/// The name of an outlet: its label, which is its name in the ONNX graph, or else the name of its node.
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

/// How many threads a model runs on.
#[derive(Debug, Args)]
pub struct ThreadOptions {
    /// The number of threads [default: TRACT_OPENVINO_THREADS, or one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl ThreadOptions {
    /// Gives tract the threads, and says how many.
    pub fn start(&self) -> TractResult<u16> {
        let threads = match self.threads {
            Some(threads) => threads,
            None => default_threads()?.min(1024) as u16,
        };
        multithread::set_default_executor(executor(threads.into()));
        Ok(threads)
    }
}
