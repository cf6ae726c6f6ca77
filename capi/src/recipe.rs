//! What programs say to a preprocessor, and what becomes of a model by it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tract_openvino_ir::internal::*;
use tract_openvino_ir::preprocess::{
    ColorFormat, InputInfo, Layout, PaddingMode, Preprocess, ResizeAlgorithm,
};

use crate::element_type::{self, of_datum_type};
use crate::error::{Error, Result};
use crate::port::Port;
use crate::shape::{Dim, PartialShape};
use crate::types::*;

/// Shapes of inputs, by their numbers.
pub(crate) type Shapes = BTreeMap<usize, PartialShape>;

/// One thing that a program says of an input, with the numbers of the interface: an export has it, too.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Call {
    ElementType(ov_element_type_e),
    /// With the names of its planes, if any are given.
    ColorFormat(ov_color_format_e, Vec<String>),
    #[serde(with = "text")]
    Layout(Layout),
    /// The height and the width.
    SpatialShape(usize, usize),
    /// The element type and the shape of a tensor.
    From(ov_element_type_e, Vec<usize>),
    #[serde(with = "text")]
    ModelLayout(Layout),
    /// To a height and a width, or to those that the model takes.
    Resize(ov_preprocess_resize_algorithm_e, Option<(usize, usize)>),
    Mean(Vec<f32>),
    Scale(Vec<f32>),
    Crop(Vec<i64>, Vec<i64>),
    #[serde(with = "text")]
    ConvertLayout(Layout),
    ReverseChannels,
    /// The type that is not known is that which the model takes.
    ConvertElementType(ov_element_type_e),
    ConvertColor(ov_color_format_e),
    Pad {
        begin: Vec<i64>,
        end: Vec<i64>,
        value: f32,
        mode: ov_padding_mode_e,
    },
}

/// A layout as its text.
mod text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use tract_openvino_ir::preprocess::Layout;

    pub fn serialize<S: Serializer>(layout: &Layout, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(layout)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Layout, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The answer to a number that stands for nothing.
fn no_such(what: &str, number: u32) -> Error {
    Error::new(ov_status_e::UNKNOW_EXCEPTION, format_args!("there is no {what} {number}"))
}

/// The type of tract's elements, or none for the number of the type that is not known.
fn tract_type(number: ov_element_type_e) -> Result<Option<DatumType>> {
    let known = element_type::from_c(number).map_err(|_| no_such("element type", number))?;
    let of_tract = |known| {
        let none = || Error::not_implemented(format_args!("tensors of {known}"));
        datum_type(known).ok_or_else(none)
    };
    known.map(of_tract).transpose()
}

/// As with OpenVINO, a number that stands for nothing is no format.
fn color_format(number: ov_color_format_e) -> ColorFormat {
    match number {
        1 => ColorFormat::Nv12SinglePlane,
        2 => ColorFormat::Nv12TwoPlanes,
        3 => ColorFormat::I420SinglePlane,
        4 => ColorFormat::I420ThreePlanes,
        5 => ColorFormat::Rgb,
        6 => ColorFormat::Bgr,
        7 => ColorFormat::Gray,
        8 => ColorFormat::Rgbx,
        9 => ColorFormat::Bgrx,
        _ => ColorFormat::Undefined,
    }
}

fn resize_algorithm(number: ov_preprocess_resize_algorithm_e) -> Result<ResizeAlgorithm> {
    match number {
        0 => Ok(ResizeAlgorithm::Linear),
        1 => Ok(ResizeAlgorithm::Cubic),
        2 => Ok(ResizeAlgorithm::Nearest),
        _ => Err(no_such("algorithm of resizing", number)),
    }
}

fn padding_mode(number: ov_padding_mode_e) -> Result<PaddingMode> {
    match number {
        0 => Ok(PaddingMode::Constant),
        1 => Ok(PaddingMode::Edge),
        2 => Ok(PaddingMode::Reflect),
        3 => Ok(PaddingMode::Symmetric),
        _ => Err(no_such("mode of padding", number)),
    }
}

impl Call {
    /// Says it, but for the shape of the tensor if that is given otherwise.
    ///
    /// # Errors
    ///
    /// A number stands for nothing, or it does not fit what was said before.
    fn say(&self, input: &mut InputInfo, has_shape: bool) -> Result<()> {
        match self {
            Call::ElementType(number) => {
                // `Recipe::apply` looks for the type that is not known.
                if let Some(to) = tract_type(*number)? {
                    input.tensor().set_element_type(to);
                }
            }
            Call::ColorFormat(format, planes) => {
                let planes: Vec<&str> = planes.iter().map(|name| &**name).collect();
                input.tensor().set_color_format(color_format(*format), &planes)?;
            }
            Call::Layout(layout) => {
                input.tensor().set_layout(layout.clone());
            }
            Call::SpatialShape(height, width) if !has_shape => {
                input.tensor().set_spatial_shape(*height, *width)?;
            }
            Call::SpatialShape(..) => (),
            Call::From(number, shape) => {
                let to = tract_type(*number)?;
                if !has_shape {
                    input.tensor().set_shape(&shape[..])?;
                }
                if let Some(to) = to {
                    input.tensor().set_element_type(to);
                }
            }
            Call::ModelLayout(layout) => {
                input.model().set_layout(layout.clone());
            }
            Call::Resize(algorithm, None) => {
                input.steps().resize(resize_algorithm(*algorithm)?);
            }
            Call::Resize(algorithm, Some((height, width))) => {
                let algorithm = resize_algorithm(*algorithm)?;
                input.steps().resize_to(algorithm, *height, *width);
            }
            Call::Mean(values) => {
                input.steps().mean(values);
            }
            Call::Scale(values) => {
                input.steps().scale(values);
            }
            Call::Crop(begin, end) => {
                input.steps().crop(begin, end)?;
            }
            Call::ConvertLayout(layout) => {
                input.steps().convert_layout(layout.clone());
            }
            Call::ReverseChannels => {
                input.steps().reverse_channels();
            }
            Call::ConvertElementType(to) => {
                input.steps().convert_element_type(tract_type(*to)?);
            }
            Call::ConvertColor(format) => {
                input.steps().convert_color(color_format(*format));
            }
            Call::Pad { begin, end, value, mode } => {
                input.steps().pad(begin, end, *value, padding_mode(*mode)?);
            }
        }
        Ok(())
    }
}

/// All that was said of the inputs and the outputs of a model.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Recipe {
    inputs: BTreeMap<usize, Said>,
    /// The element types of tensors.
    outputs: BTreeMap<usize, ov_element_type_e>,
}

/// What was said of an input.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Said {
    calls: Vec<Call>,
    /// What they make together, for the next one to be checked. Nothing more is said of what was exported.
    #[serde(skip)]
    info: InputInfo,
}

/// The inputs that an input of the model becomes.
struct Planes<'a> {
    /// The number of the input of the model.
    input: usize,
    calls: &'a [Call],
    /// The number of the first that it becomes.
    first: usize,
    format: ColorFormat,
    names: &'a [String],
}

impl Planes<'_> {
    fn end(&self) -> usize {
        self.first + self.format.planes()
    }

    /// The shape of the image, for which the first plane has this one.
    fn image_shape(&self, plane: &PartialShape) -> Result<String> {
        let single =
            matches!(self.format, ColorFormat::Nv12SinglePlane | ColorFormat::I420SinglePlane);
        let dims = plane.0.as_deref().unwrap_or_default().iter().enumerate();
        let dims = dims.map(|(axis, dim)| match dim.size() {
            // The colors are below the brightness.
            Some(rows) if single && axis == 1 => match rows % 3 {
                0 => Ok((rows / 3 * 2).to_string()),
                _ => Err(Error::general(format_args!(
                    "an image in {} has {rows} rows, but must have a multiple of 3",
                    self.format
                ))),
            },
            Some(size) => Ok(size.to_string()),
            None => Ok("?".into()),
        });
        Ok(dims.collect::<Result<Vec<_>>>()?.join(","))
    }

    /// What an input that it becomes is like. `asked` is the shape that it was given.
    fn port(
        &self,
        number: usize,
        of_model: &Port,
        fact: &TypedFact,
        asked: Option<&PartialShape>,
    ) -> Result<Port> {
        let mut port = of_model.clone();
        if self.format.planes() > 1 {
            let name = |names: &[String]| -> Vec<String> {
                let plane = self.names.get(number - self.first);
                let of_plane = |plane| names.iter().map(move |name| format!("{name}/{plane}"));
                plane.map(of_plane).into_iter().flatten().collect()
            };
            (port.names, port.aliases) = (name(&of_model.names), name(&of_model.aliases));
        }
        if self.calls.iter().any(|it| matches!(it, Call::ElementType(_) | Call::From(..))) {
            port.element_type = of_datum_type(fact.datum_type);
        }
        // tract knows no ranges: those that were asked for stay, and those of an input of which nothing was said.
        let known = asked.or(self.calls.is_empty().then_some(&of_model.shape));
        let known = known.and_then(|shape| shape.0.as_deref()).unwrap_or_default();
        let dims = fact.shape.iter().enumerate().map(|(axis, dim)| {
            let dim = Dim::of_tdim(dim);
            let known = known.get(axis).copied().filter(|_| dim.size().is_none());
            known.filter(|known| known.size().is_none()).unwrap_or(dim)
        });
        port.shape = PartialShape(Some(dims.collect()));
        Ok(port)
    }
}

impl Recipe {
    /// Says something of an input.
    ///
    /// # Errors
    ///
    /// It does not fit what was said before, which stays.
    pub fn say(&mut self, input: usize, call: Call) -> Result<()> {
        let said = self.inputs.entry(input).or_default();
        call.say(&mut said.info, false)?;
        said.calls.push(call);
        Ok(())
    }

    /// Sets the element type of the tensor of an output. The type that is not known is that of the model.
    ///
    /// # Errors
    ///
    /// There is no such type.
    pub fn set_output_type(&mut self, output: usize, to: ov_element_type_e) -> Result<()> {
        tract_type(to)?;
        self.outputs.insert(output, to);
        Ok(())
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.inputs.values().all(|said| said.calls.is_empty()) && self.outputs.is_empty()
    }

    fn calls(&self, input: usize) -> &[Call] {
        self.inputs.get(&input).map_or(&[], |said| &said.calls)
    }

    /// What becomes of the inputs of a model, from the first.
    fn planes(&self) -> impl Iterator<Item = Planes<'_>> {
        let mut first = 0;
        (0..).map(move |input| {
            let calls = self.calls(input);
            let last = calls.iter().rev().find_map(|call| match call {
                Call::ColorFormat(format, names) => Some((color_format(*format), &names[..])),
                _ => None,
            });
            let (format, names) = last.unwrap_or_default();
            let planes = Planes { input, calls, first, format, names };
            first = planes.end();
            planes
        })
    }

    /// The number of the input of the model that became this one, and whether something was said of it.
    pub fn input_of(&self, number: usize) -> (usize, bool) {
        let found = self.planes().find(|planes| number < planes.end());
        found.map_or((number, false), |planes| (planes.input, !planes.calls.is_empty()))
    }

    /// The recipe with the sizes that the model takes now, where images are resized to these.
    pub fn with_sizes(&self, inputs: &[Port]) -> Recipe {
        let mut recipe = self.clone();
        for (input, Said { calls, .. }) in &mut recipe.inputs {
            let layout = calls.iter().rev().find_map(|call| match call {
                Call::ModelLayout(layout) => Some(layout.clone()),
                _ => None,
            });
            let dims = inputs.get(*input).and_then(|port| port.shape.0.as_deref());
            let (Some(layout), Some(dims)) = (layout, dims) else { continue };
            let size = |name| dims[layout.axis(name, dims.len())?].size();
            let (Some(height), Some(width)) = (size("H"), size("W")) else { continue };
            for call in calls {
                if let Call::Resize(_, size @ None) = call {
                    *size = Some((height, width));
                }
            }
        }
        recipe
    }

    /// The model with what was said, and its inputs and outputs then. `shapes` are those that inputs have then, if they were given any.
    ///
    /// # Errors
    ///
    /// A step does not fit the tensor, its type or its layout, or what comes of all steps is not what the model takes.
    pub fn apply(
        &self,
        typed: &TypedModel,
        inputs: &[Port],
        outputs: &[Port],
        shapes: &Shapes,
    ) -> Result<(TypedModel, Vec<Port>, Vec<Port>)> {
        let mut preprocess = Preprocess::new(typed.clone());
        for planes in self.planes().take(inputs.len()) {
            let types = planes.calls.iter().rev();
            let mut types = types.filter(|it| matches!(it, Call::ElementType(_) | Call::From(..)));
            if let Some(Call::ElementType(element_type::UNKNOWN)) = types.next() {
                return Err(Error::general(format_args!(
                    "the element type of the tensor of input {} is not known",
                    planes.input
                )));
            }
            let shape = shapes.get(&planes.first);
            let info = preprocess.input(planes.input)?;
            for call in planes.calls {
                call.say(info, shape.is_some())?;
            }
            if let Some(shape) = shape {
                info.tensor().set_shape(planes.image_shape(shape)?)?;
            }
        }
        for (output, to) in &self.outputs {
            if let Some(to) = tract_type(*to)? {
                preprocess.output(*output)?.tensor().set_element_type(to);
            }
        }
        let typed = preprocess.build()?;
        let mut new_inputs = vec![];
        for (planes, of_model) in self.planes().zip(inputs) {
            for number in planes.first..planes.end() {
                let asked = shapes.get(&number);
                let port = planes.port(number, of_model, typed.input_fact(number)?, asked)?;
                if let Some(asked) = asked.filter(|asked| !fits(&port.shape, asked)) {
                    return Err(Error::general(format_args!(
                        "input {number} is given shape {asked}, but must have {}",
                        port.shape
                    )));
                }
                new_inputs.push(port);
            }
        }
        let mut new_outputs = vec![];
        for (output, of_model) in outputs.iter().enumerate() {
            let fact = typed.output_fact(output)?;
            let shape = PartialShape(Some(fact.shape.iter().map(Dim::of_tdim).collect()));
            let mut port = Port { shape, ..of_model.clone() };
            if self.outputs.get(&output).is_some_and(|to| *to != element_type::UNKNOWN) {
                port.element_type = of_datum_type(fact.datum_type);
            }
            new_outputs.push(port);
        }
        Ok((typed, new_inputs, new_outputs))
    }
}

/// Whether sizes of a shape that are known are as they were asked for.
fn fits(shape: &PartialShape, asked: &PartialShape) -> bool {
    let (Some(dims), Some(asked)) = (&shape.0, &asked.0) else { return true };
    let fits = |(dim, asked): (&Dim, &Dim)| dim.size().is_none_or(|size| asked.allows(size));
    dims.len() == asked.len() && dims.iter().zip(asked).all(fits)
}

/// What was built of a model: its steps, and the shapes that its inputs were given afterwards.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stage {
    pub recipe: Recipe,
    pub shapes: Shapes,
}
