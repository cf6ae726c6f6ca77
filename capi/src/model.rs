//! A model, read from a file or from memory, and its shapes.

use std::borrow::Cow;
use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tract_openvino_ir::document::{self, ElementType, Graph};
use tract_openvino_ir::internal::*;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::tensor_proto::DataType;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::tensor_shape_proto::dimension::Value as Size;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::type_proto::Value as ValueType;
use tract_openvino_ir::tract_openvino::tract_onnx::pb::{
    ModelProto, TensorShapeProto, ValueInfoProto,
};
use tract_openvino_ir::tract_openvino::tract_onnx::{Onnx, onnx};
use tract_openvino_ir::tract_openvino::{
    OpenVinoOptions, WithOpenVinoOptions, name_dimensions, set_input_shape, typed_model,
};
use tract_openvino_ir::{IrProtoModel, Weights, WithOpenVinoIr};

use crate::border::{Handle, List, Out, OutHandle, RawPartialShape, Text, give_text};
use crate::element_type::of_datum_type;
use crate::error::{Error, Result};
use crate::handles::Object;
use crate::port::{self, HasPorts, Port, PortHandle, Side};
use crate::recipe::{Recipe, Shapes, Stage};
use crate::shape::{Dim, PartialShape};
use crate::types::ov_status_e;

/// A model that a program has read. Its shapes can be changed.
#[derive(Debug)]
pub(crate) struct Model(Mutex<Contents>);

impl Object for Model {
    const NAME: &'static str = "a model";
}

/// What a model is now. Others see what it was while it changes.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    pub source: Arc<Source>,
    /// The shapes that inputs of what was read were given.
    pub shapes: Shapes,
    /// What preprocessors have built, from the first.
    pub stages: Vec<Arc<Stage>>,
    pub read: Arc<ReadModel>,
}

impl Contents {
    /// # Errors
    ///
    /// The model is not supported, or does not allow the shapes.
    pub fn of(source: Arc<Source>, shapes: Shapes, stages: Vec<Arc<Stage>>) -> Result<Contents> {
        let mut read = source.read(&shapes)?;
        for stage in &stages {
            read = read.after(stage)?;
        }
        Ok(Contents { source, shapes, stages, read: Arc::new(read) })
    }

    /// The model with other shapes of inputs. What preprocessors have built stays: images are resized to what the model took then.
    fn reshaped(&self, asked: Shapes) -> Result<Contents> {
        let (mut shapes, mut stages) = (self.shapes.clone(), self.stages.clone());
        let mut preprocessed = vec![];
        for (number, shape) in asked {
            let (mut input, mut was_said) = (number, false);
            for stage in stages.iter().rev() {
                let (before, said) = stage.recipe.input_of(input);
                (input, was_said) = (before, was_said || said);
            }
            match stages.last_mut().filter(|_| was_said) {
                None => drop(shapes.insert(input, shape)),
                Some(last) => {
                    Arc::make_mut(last).shapes.insert(number, shape);
                    preprocessed.push(input);
                }
            }
        }
        Contents::of(self.source.clone(), shapes.clone(), stages.clone()).or_else(|error| {
            if preprocessed.is_empty() {
                return Err(error);
            }
            // Tensors may need the model to be of other sizes than it was.
            let ports = self.source.read(&self.shapes)?.inputs;
            for input in preprocessed {
                let dims = ports.get(input).and_then(|port| port.shape.0.as_ref());
                let dims = dims.map(|dims| vec![Dim::OPEN; dims.len()]);
                shapes.insert(input, PartialShape(dims));
            }
            Contents::of(self.source.clone(), shapes, stages).map_err(|_| error)
        })
    }
}

/// What open sizes may be in a model that can be typed with some: images are of multiples of 32, and sequences have an element.
const SOME_SIZES: [usize; 2] = [64, 1];

impl Contents {
    /// The model for inputs of these shapes.
    ///
    /// # Errors
    ///
    /// It does not allow them.
    pub fn with_shapes(&self, shapes: &[Vec<usize>]) -> Result<TypedModel> {
        let ports = self.read.inputs.iter().zip(shapes).enumerate();
        let open = ports.filter(|(_, (port, _))| port.shape.is_open());
        let fixed = open.map(|(number, (_, shape))| {
            let dims = shape.iter().map(|size| Ok(Dim::fixed(i64::try_from(*size)?)));
            let dims = dims.collect::<TractResult<_>>()?;
            Ok((number, PartialShape(Some(dims))))
        });
        let reshaped = self.reshaped(fixed.collect::<Result<_>>()?)?;
        reshaped.read.typed.clone()
    }

    /// Whether there is a model of tract for some sizes of what is open.
    pub fn has_model_of_some_sizes(&self) -> bool {
        SOME_SIZES.iter().any(|size| {
            let shape = |port: &Port| -> Option<Vec<usize>> {
                let dims = port.shape.0.as_ref()?.iter();
                Some(dims.map(|dim| dim.size().unwrap_or_else(|| dim.nearest(*size))).collect())
            };
            let shapes: Option<Vec<_>> = self.read.inputs.iter().map(shape).collect();
            shapes.is_some_and(|shapes| self.with_shapes(&shapes).is_ok())
        })
    }
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Source {
    format: Format,
    /// Where the bytes are, for an export.
    pub origin: Origin,
}

#[derive(Debug)]
enum Format {
    Ir(IrProtoModel),
    Onnx(Box<ModelProto>),
}

/// Where a model is from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Files { model: PathBuf, weights: Option<PathBuf> },
    Memory { model: Arc<[u8]>, weights: Option<Arc<[u8]>> },
}

/// A model with these shapes.
#[derive(Debug)]
pub(crate) struct ReadModel {
    pub name: String,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    /// The model of tract, or why there is none: open dimensions may have to be given sizes.
    pub typed: Result<TypedModel>,
}

impl ReadModel {
    /// The model with what a preprocessor has built.
    fn after(&self, stage: &Stage) -> Result<ReadModel> {
        let typed = self.typed.as_ref().map_err(Clone::clone)?;
        let Stage { recipe, shapes } = stage;
        let (typed, inputs, outputs) = recipe.apply(typed, &self.inputs, &self.outputs, shapes)?;
        Ok(ReadModel { name: self.name.clone(), inputs, outputs, typed: Ok(typed) })
    }
}

impl Source {
    /// A number that no other source has while this one is there.
    pub fn origin_number(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Reads a file. Its name says what it is.
    ///
    /// # Errors
    ///
    /// It is not there, or no model.
    pub fn of_file(model: &Path, weights: Option<&Path>) -> Result<Source> {
        if !model.exists() {
            return Err(Error::general(format_args!("there is no file {}", model.display())));
        }
        let extension = model.extension().and_then(|it| it.to_str()).unwrap_or_default();
        let (format, weights) = match extension.to_ascii_lowercase().as_str() {
            "xml" => {
                let reader = match weights {
                    Some(weights) => ir().with_weights(weights),
                    None => ir(),
                };
                let weights =
                    weights.map_or_else(|| model.with_extension("bin"), Path::to_path_buf);
                let proto = reader.proto_model_for_path(model)?;
                (Format::Ir(proto), Some(weights).filter(|it| it.exists()))
            }
            "onnx" => {
                let doing = || format!("in {}", model.display());
                let mut proto = onnx_reader().proto_model_for_path(model).with_context(doing)?;
                name_dimensions(&mut proto);
                (Format::Onnx(proto.into()), None)
            }
            _ => {
                return Err(Error::general(format_args!(
                    "{} is no model that can be read: a model is a .xml file of OpenVINO IR or a .onnx file",
                    model.display()
                )));
            }
        };
        Ok(Source { format, origin: Origin::Files { model: model.into(), weights } })
    }

    /// Reads the bytes of a file: those of IR begin with the first letter of XML, which white space may precede. A program in C may count
    /// the 0 that ends a text, too.
    ///
    /// # Errors
    ///
    /// They are no model.
    pub fn of_bytes(model: Arc<[u8]>, weights: Option<Arc<[u8]>>) -> Result<Source> {
        let text = model.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&model).trim_ascii_start();
        let format = if text.starts_with(b"<") {
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            let weights = weights.clone().map_or_else(
                || Weights::absent("the model was read from memory without weights"),
                Weights::from_bytes,
            );
            Format::Ir(ir().proto_model_for_bytes(text, weights)?)
        } else {
            let proto = onnx_reader().proto_model_for_read(&mut &*model);
            let mut proto = proto.context("this is neither OpenVINO IR nor a model of ONNX")?;
            if proto.graph.as_ref().is_none_or(|graph| graph.output.is_empty()) {
                return Err(Error::general(
                    "this is neither OpenVINO IR nor a model of ONNX: it has no outputs",
                ));
            }
            name_dimensions(&mut proto);
            Format::Onnx(proto.into())
        };
        Ok(Source { format, origin: Origin::Memory { model, weights } })
    }

    /// Whether the model has variables, which it keeps from run to run.
    pub fn has_variables(&self) -> bool {
        match &self.format {
            Format::Ir(proto) => has_variables(proto.document.graph()),
            Format::Onnx(_) => false,
        }
    }

    /// The model with these shapes of inputs.
    ///
    /// # Errors
    ///
    /// It is not supported, or does not allow the shapes.
    fn read(&self, shapes: &Shapes) -> Result<ReadModel> {
        match &self.format {
            Format::Ir(proto) => read_ir(proto, shapes),
            Format::Onnx(proto) => read_onnx(proto, &self.origin, shapes),
        }
    }
}

fn has_variables(graph: &Graph) -> bool {
    graph.layers.iter().any(|layer| {
        layer.operation == "ReadValue" || layer.bodies.iter().any(|body| has_variables(&body.graph))
    })
}

fn read_ir(proto: &IrProtoModel, shapes: &Shapes) -> Result<ReadModel> {
    let mut proto = Cow::Borrowed(proto);
    for (input, shape) in shapes {
        let shape = document::PartialShape::parse(&shape.to_ir())?;
        proto.to_mut().document.set_input_shape(*input, &shape);
    }
    let graph = proto.document.graph();
    let inputs = graph.parameters.iter().map(|layer| input_of_ir(graph, *layer));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let typed = ir().model_for_proto_model(&proto);
    if let Err(error) = typed {
        // Sizes may make it one that can be read.
        if inputs.iter().all(|port| !port.shape.is_open()) {
            return Err(error.into());
        }
        let outputs = (0..graph.results.len()).map(|output| output_of_ir(graph, output, None));
        return Ok(ReadModel {
            name: proto.document.name().into(),
            inputs,
            outputs: outputs.collect(),
            typed: Err(error.into()),
        });
    }
    let typed = typed?;
    let outputs = (0..graph.results.len())
        .map(|output| Ok(output_of_ir(graph, output, Some(typed.output_fact(output)?))));
    let outputs = outputs.collect::<Result<_>>()?;
    Ok(ReadModel { name: proto.document.name().into(), inputs, outputs, typed: Ok(typed) })
}

fn input_of_ir(graph: &Graph, layer: usize) -> Result<Port> {
    let layer = &graph.layers[layer];
    let attribute = |name| layer.attributes.get(name).map(String::as_str).unwrap_or_default();
    let shape = attribute("shape");
    let shape = match document::PartialShape::leaves_rank_open(shape) {
        true => None,
        false => {
            let shape = document::PartialShape::parse(shape);
            let shape = shape.with_context(|| format!("in {layer}"))?;
            let dim = |dim: &document::Dimension| Dim {
                min: dim.min as i64,
                max: dim.max.map(|max| max as i64),
            };
            Some(shape.dims().iter().map(dim).collect())
        }
    };
    let names = layer.outputs.first().map(|port| port.names.clone()).unwrap_or_default();
    Ok(Port {
        names: sorted(names),
        aliases: vec![],
        element_type: ElementType::from_text(attribute("element_type")),
        shape: PartialShape(shape),
    })
}

/// An output, with the fact of it in the model of tract if there is one. The sizes in the file are hints only.
fn output_of_ir(graph: &Graph, output: usize, fact: Option<&TypedFact>) -> Port {
    let result = &graph.layers[graph.results[output]];
    let source = result.inputs.first().map(|source| graph.output(*source));
    let names = source.map(|port| port.names.clone()).unwrap_or_default();
    let dims = source.map(|port| port.dims.clone()).unwrap_or_default();
    let shape = match fact {
        Some(fact) => fact.shape.iter().map(Dim::of_tdim).collect(),
        None => {
            let dim = |dim: &Option<usize>| dim.map_or(Dim::OPEN, |size| Dim::fixed(size as i64));
            dims.iter().map(dim).collect()
        }
    };
    let element_type = source.and_then(|port| port.element_type);
    let element_type = element_type.or_else(|| of_datum_type(fact?.datum_type));
    let (names, aliases) = match result.output_names.is_empty() {
        true => (names, vec![]),
        false => (result.output_names.clone(), names),
    };
    Port { names: sorted(names), aliases, element_type, shape: PartialShape(Some(shape)) }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn onnx_reader() -> Onnx {
    let options = OpenVinoOptions::default().with_standard_gather(true);
    onnx().with_openvino_options(options).with_openvino_ir()
}

/// Reads a model of ONNX, whose dimensions have names.
fn read_onnx(proto: &ModelProto, origin: &Origin, shapes: &Shapes) -> Result<ReadModel> {
    let folder = match origin {
        Origin::Files { model, .. } => model.parent().and_then(Path::to_str),
        Origin::Memory { .. } => None,
    };
    let typed = typed_model(&onnx_reader(), proto, folder, |model| {
        for (number, shape) in shapes {
            let dims = shape.0.as_ref().context("the rank of an input of ONNX must be known")?;
            let dims = dims.iter().enumerate().map(|(axis, dim)| match dim.size() {
                Some(size) => size.to_string(),
                None => format!("input_{number}_{axis}"),
            });
            let text = dims.collect::<Vec<_>>().join(",");
            set_input_shape(model, *number, &format!("{number}"), &text)?;
        }
        Ok(())
    });
    let typed = typed.map_err(Error::from);
    let graph = proto.graph.as_ref().context("the model of ONNX has no graph")?;
    let is_constant = |name: &str| graph.initializer.iter().any(|it| it.name == name);
    let inputs = graph.input.iter().filter(|input| !is_constant(&input.name));
    // As it was asked for: tract knows no ranges.
    let inputs = inputs.enumerate().map(|(number, input)| {
        let fact = typed.as_ref().ok().map(|typed| typed.input_fact(number)).transpose()?;
        let port = port_of_onnx(input, fact);
        Ok(Port { shape: shapes.get(&number).cloned().unwrap_or(port.shape), ..port })
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    if let Err(error) = &typed
        // Sizes may make it one that can be read.
        && inputs.iter().all(|port| !port.shape.is_open())
    {
        return Err(error.clone());
    }
    let outputs = graph.output.iter().enumerate().map(|(number, output)| {
        let fact = typed.as_ref().ok().map(|typed| typed.output_fact(number)).transpose()?;
        Ok(port_of_onnx(output, fact))
    });
    let outputs = outputs.collect::<Result<_>>()?;
    Ok(ReadModel { name: graph.name.clone(), inputs, outputs, typed })
}

/// An input or output, with the fact of it in the model of tract if there is one, or else as it is declared.
fn port_of_onnx(declared: &ValueInfoProto, fact: Option<&TypedFact>) -> Port {
    let (element_type, shape) = match fact {
        Some(fact) => {
            (of_datum_type(fact.datum_type), Some(fact.shape.iter().map(Dim::of_tdim).collect()))
        }
        None => declared_fact(declared).unwrap_or_default(),
    };
    let names = vec![declared.name.clone()];
    Port { names, aliases: vec![], element_type, shape: PartialShape(shape) }
}

fn declared_fact(declared: &ValueInfoProto) -> Option<(Option<ElementType>, Option<Vec<Dim>>)> {
    let Some(ValueType::TensorType(tensor)) = &declared.r#type.as_ref()?.value else { return None };
    let elements: TractResult<DatumType> = DataType::try_from(tensor.elem_type).ok()?.try_into();
    let dim = |size: &Option<Size>| match size {
        Some(Size::DimValue(size)) if *size >= 0 => Dim::fixed(*size),
        _ => Dim::OPEN,
    };
    let dims = |shape: &TensorShapeProto| shape.dim.iter().map(|it| dim(&it.value)).collect();
    Some((elements.ok().and_then(of_datum_type), tensor.shape.as_ref().map(dims)))
}

impl Model {
    /// # Errors
    ///
    /// The model is not supported.
    pub fn new(source: Source) -> Result<Model> {
        Contents::of(Arc::new(source), Shapes::new(), vec![]).map(Model::of)
    }

    /// A model that is what another one is now.
    pub fn of(contents: Contents) -> Model {
        Model(Mutex::new(contents))
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is now.
    pub fn contents(&self) -> Contents {
        self.lock().clone()
    }

    /// Gives inputs other shapes. After an error it has those that it had.
    ///
    /// # Errors
    ///
    /// The model does not allow them.
    fn reshape(&self, shapes: impl IntoIterator<Item = (usize, PartialShape)>) -> Result<()> {
        // Nothing else changes it meanwhile.
        let mut contents = self.lock();
        let mut asked = Shapes::new();
        for (input, shape) in shapes {
            if shape.0.is_none() {
                return Err(Error::not_implemented(
                    "the number of dimensions of an input must be known",
                ));
            }
            asked.insert(input, shape);
        }
        let reshaped = contents.reshaped(asked)?;
        if let (Err(error), Ok(_)) = (&reshaped.read.typed, &contents.read.typed) {
            return Err(error.clone());
        }
        *contents = reshaped;
        Ok(())
    }

    /// Puts what was said to a preprocessor before and after it. After an error it is as it was.
    ///
    /// # Errors
    ///
    /// The steps do not fit the model, or another number of preprocessors than `stages` has built it before.
    pub fn build(&self, recipe: &Recipe, stages: usize) -> Result<()> {
        let mut contents = self.lock();
        if recipe.is_empty() {
            return Ok(());
        }
        if contents.stages.len() != stages {
            return Err(Error::general(
                "the model has been built since the preprocessor was created: create another one",
            ));
        }
        let recipe = recipe.with_sizes(&contents.read.inputs);
        let stage = Stage { recipe, shapes: Shapes::new() };
        contents.read = Arc::new(contents.read.after(&stage)?);
        contents.stages.push(Arc::new(stage));
        Ok(())
    }
}

impl HasPorts for Model {
    fn ports(&self, side: Side) -> Vec<Port> {
        let read = self.lock().read.clone();
        match side {
            Side::Input => read.inputs.clone(),
            Side::Output => read.outputs.clone(),
        }
    }

    fn origin(&self) -> usize {
        self.lock().source.origin_number()
    }
}

/// The answer to an index that is too large.
fn beyond(text: String) -> Error {
    Error::new(ov_status_e::UNKNOW_EXCEPTION, text)
}

// What the functions of the interface do.

pub(crate) fn port_by_index(
    model: Handle<Model>,
    side: Side,
    index: usize,
    out: OutHandle<PortHandle>,
) -> Result<()> {
    port::by_index(model.get()?, side, index, beyond, out)
}

pub(crate) fn is_dynamic(model: Handle<Model>) -> Result<bool> {
    let model = model.get()?;
    let sides = [Side::Input, Side::Output];
    Ok(sides.iter().any(|side| model.ports(*side).iter().any(|port| port.shape.is_open())))
}

pub(crate) fn get_friendly_name(model: Handle<Model>, out: Out<*mut c_char>) -> Result<()> {
    out.check()?;
    out.write(give_text(&model.get()?.contents().read.name)?)
}

/// What is given a shape: an input by its name, its number, or a port.
trait ReshapeKey {
    fn input(&self, model: &Arc<Model>) -> Result<usize>;
}

impl ReshapeKey for Text {
    fn input(&self, model: &Arc<Model>) -> Result<usize> {
        port::index_of(&model.ports(Side::Input), Side::Input, self.get("name of a tensor")?)
    }
}

impl ReshapeKey for usize {
    fn input(&self, model: &Arc<Model>) -> Result<usize> {
        port::checked(model.ports(Side::Input).len(), Side::Input, *self, beyond)
    }
}

impl ReshapeKey for Handle<PortHandle> {
    fn input(&self, model: &Arc<Model>) -> Result<usize> {
        let port = self.get()?;
        let is_of_model = Arc::as_ptr(&port.owner).addr() == Arc::as_ptr(model).addr();
        if !is_of_model || port.side != Side::Input {
            return Err(Error::general("the port is no input of this model"));
        }
        Ok(port.index)
    }
}

fn reshape<K: ReshapeKey>(
    model: Handle<Model>,
    keys: List<K>,
    shapes: List<RawPartialShape>,
) -> Result<()> {
    let model = model.get()?;
    let (keys, shapes) = (keys.get("inputs")?, shapes.get("shapes")?);
    if keys.is_empty() {
        return Err(Error::invalid("there are no shapes"));
    }
    let mut all = vec![];
    for (key, shape) in keys.iter().zip(shapes) {
        all.push((key.input(&model)?, shape.get()?));
    }
    model.reshape(all)
}

pub(crate) fn reshape_by_names(
    model: Handle<Model>,
    names: List<Text>,
    shapes: List<RawPartialShape>,
) -> Result<()> {
    reshape(model, names, shapes)
}

pub(crate) fn reshape_by_numbers(
    model: Handle<Model>,
    numbers: List<usize>,
    shapes: List<RawPartialShape>,
) -> Result<()> {
    reshape(model, numbers, shapes)
}

pub(crate) fn reshape_by_ports(
    model: Handle<Model>,
    ports: List<Handle<PortHandle>>,
    shapes: List<RawPartialShape>,
) -> Result<()> {
    reshape(model, ports, shapes)
}

pub(crate) fn reshape_input(
    model: Handle<Model>,
    name: Text,
    shape: RawPartialShape,
) -> Result<()> {
    let model = model.get()?;
    let input = name.input(&model)?;
    model.reshape([(input, shape.get()?)])
}

/// The first input, also of a model with several.
pub(crate) fn reshape_first(model: Handle<Model>, shape: RawPartialShape) -> Result<()> {
    let model = model.get()?;
    let input = 0usize.input(&model)?;
    model.reshape([(input, shape.get()?)])
}
