//! Preprocessing: what is said of inputs and outputs is kept until the model is built.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::border::{Handle, List, OutHandle, Text};
use crate::element_type;
use crate::error::{Error, Result};
use crate::handles::Object;
use crate::layout::Layout;
use crate::model::Model;
use crate::port::{self, HasPorts, Port, Side};
use crate::recipe::{Call, Recipe};
use crate::tensor::Tensor;
use crate::types::*;

/// A model, and what is to come before and after it.
pub(crate) struct PrePostProcessor {
    model: Arc<Model>,
    /// How often the model had been built.
    stages: usize,
    recipe: Mutex<Recipe>,
}

impl Object for PrePostProcessor {
    const NAME: &'static str = "a preprocessor";
}

impl PrePostProcessor {
    fn recipe(&self) -> MutexGuard<'_, Recipe> {
        self.recipe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An input or an output of a preprocessor, which may have been freed.
#[derive(Clone)]
pub(crate) struct Part {
    preprocessor: Weak<PrePostProcessor>,
    number: usize,
}

impl Part {
    fn preprocessor(&self) -> Result<Arc<PrePostProcessor>> {
        self.preprocessor
            .upgrade()
            .ok_or_else(|| Error::general("the preprocessor that this belongs to was freed"))
    }

    fn say(&self, call: Call) -> Result<()> {
        self.preprocessor()?.recipe().say(self.number, call)
    }
}

macro_rules! parts {
    ($($type:ident: $name:literal),* $(,)?) => {
        $(
            pub(crate) struct $type(Part);

            impl Object for $type {
                const NAME: &'static str = $name;
            }

            impl From<Part> for $type {
                fn from(part: Part) -> $type {
                    $type(part)
                }
            }

            impl AsRef<Part> for $type {
                fn as_ref(&self) -> &Part {
                    &self.0
                }
            }
        )*
    };
}

parts!(
    InputInfo: "the preprocessing of an input",
    InputTensorInfo: "the tensor of a preprocessed input",
    InputModelInfo: "the model of a preprocessed input",
    Steps: "steps of preprocessing",
    OutputInfo: "the postprocessing of an output",
    OutputTensorInfo: "the tensor of a postprocessed output",
);

/// Numbers for each channel.
fn channels(values: &List<f32>) -> Result<Vec<f32>> {
    match values.get("numbers for channels")? {
        [] => Err(Error::invalid("there are no numbers for channels")),
        values => Ok(values.into()),
    }
}

fn coordinates(values: &List<i32>) -> Result<Vec<i64>> {
    Ok(values.get("coordinates")?.iter().map(|it| i64::from(*it)).collect())
}

// What the functions of the interface do.

pub(crate) fn create(model: Handle<Model>, out: OutHandle<PrePostProcessor>) -> Result<()> {
    out.check()?;
    let model = model.get()?;
    let stages = model.contents().stages.len();
    out.write(PrePostProcessor { model, stages, recipe: Mutex::default() })
}

pub(crate) fn build(preprocessor: Handle<PrePostProcessor>, out: OutHandle<Model>) -> Result<()> {
    out.check()?;
    let preprocessor = preprocessor.get()?;
    let recipe = preprocessor.recipe().clone();
    preprocessor.model.build(&recipe, preprocessor.stages)?;
    // The model itself has changed.
    out.write(preprocessor.model.clone())
}

fn port<T: Object + From<Part>>(
    preprocessor: Handle<PrePostProcessor>,
    side: Side,
    find: impl Fn(&[Port]) -> Result<usize>,
    out: OutHandle<T>,
) -> Result<()> {
    out.check()?;
    let preprocessor = preprocessor.get()?;
    let number = find(&preprocessor.model.ports(side))?;
    out.write(T::from(Part { preprocessor: Arc::downgrade(&preprocessor), number }))
}

pub(crate) fn only_port<T: Object + From<Part>>(
    preprocessor: Handle<PrePostProcessor>,
    side: Side,
    out: OutHandle<T>,
) -> Result<()> {
    port(preprocessor, side, |ports| port::only(ports.len(), side).map(|()| 0), out)
}

pub(crate) fn port_by_index<T: Object + From<Part>>(
    preprocessor: Handle<PrePostProcessor>,
    side: Side,
    index: usize,
    out: OutHandle<T>,
) -> Result<()> {
    port(preprocessor, side, |ports| port::checked(ports.len(), side, index, Error::general), out)
}

pub(crate) fn port_by_name<T: Object + From<Part>>(
    preprocessor: Handle<PrePostProcessor>,
    side: Side,
    name: Text,
    out: OutHandle<T>,
) -> Result<()> {
    let name = name.get("name of a tensor")?;
    port(preprocessor, side, |ports| port::index_of(ports, side, name), out)
}

/// What is said of a part of an input or an output.
pub(crate) fn part<Of, T>(info: Handle<Of>, out: OutHandle<T>) -> Result<()>
where
    Of: Object + AsRef<Part>,
    T: Object + From<Part>,
{
    out.check()?;
    let info = info.get()?;
    let part: &Part = (*info).as_ref();
    part.preprocessor()?;
    out.write(T::from(part.clone()))
}

pub(crate) fn set_element_type(
    tensor: Handle<InputTensorInfo>,
    number: ov_element_type_e,
) -> Result<()> {
    tensor.get()?.0.say(Call::ElementType(number))
}

pub(crate) fn set_color_format(
    tensor: Handle<InputTensorInfo>,
    format: ov_color_format_e,
) -> Result<()> {
    tensor.get()?.0.say(Call::ColorFormat(format, vec![]))
}

pub(crate) fn set_color_format_of_planes(
    tensor: Handle<InputTensorInfo>,
    format: ov_color_format_e,
    count: usize,
    names: List<Text>,
) -> Result<()> {
    let tensor = tensor.get()?;
    let names = if count == 0 { &[] } else { names.get("names of planes")? };
    let names = names.iter().map(|name| name.get("name of a plane").map(String::from));
    tensor.0.say(Call::ColorFormat(format, names.collect::<Result<_>>()?))
}

pub(crate) fn set_spatial_shape(
    tensor: Handle<InputTensorInfo>,
    height: usize,
    width: usize,
) -> Result<()> {
    tensor.get()?.0.say(Call::SpatialShape(height, width))
}

/// Memory is that of the host, whatever it is called.
pub(crate) fn set_memory_type(tensor: Handle<InputTensorInfo>, name: Text) -> Result<()> {
    name.get("type of memory")?;
    tensor.get()?.0.preprocessor().map(drop)
}

pub(crate) fn set_from(tensor: Handle<InputTensorInfo>, from: Handle<Tensor>) -> Result<()> {
    let (tensor, from) = (tensor.get()?, from.get()?);
    tensor.0.say(Call::From(element_type::to_c(Some(from.element_type())), from.shape()))
}

pub(crate) fn set_layout(tensor: Handle<InputTensorInfo>, layout: Handle<Layout>) -> Result<()> {
    tensor.get()?.0.say(Call::Layout(layout.get()?.0.clone()))
}

pub(crate) fn set_model_layout(
    model: Handle<InputModelInfo>,
    layout: Handle<Layout>,
) -> Result<()> {
    model.get()?.0.say(Call::ModelLayout(layout.get()?.0.clone()))
}

pub(crate) fn resize(
    steps: Handle<Steps>,
    algorithm: ov_preprocess_resize_algorithm_e,
) -> Result<()> {
    steps.get()?.0.say(Call::Resize(algorithm, None))
}

pub(crate) fn scale(steps: Handle<Steps>, value: f32) -> Result<()> {
    steps.get()?.0.say(Call::Scale(vec![value]))
}

pub(crate) fn scale_channels(steps: Handle<Steps>, values: List<f32>) -> Result<()> {
    steps.get()?.0.say(Call::Scale(channels(&values)?))
}

pub(crate) fn mean(steps: Handle<Steps>, value: f32) -> Result<()> {
    steps.get()?.0.say(Call::Mean(vec![value]))
}

pub(crate) fn mean_channels(steps: Handle<Steps>, values: List<f32>) -> Result<()> {
    steps.get()?.0.say(Call::Mean(channels(&values)?))
}

pub(crate) fn crop(steps: Handle<Steps>, begin: List<i32>, end: List<i32>) -> Result<()> {
    steps.get()?.0.say(Call::Crop(coordinates(&begin)?, coordinates(&end)?))
}

pub(crate) fn convert_layout(steps: Handle<Steps>, layout: Handle<Layout>) -> Result<()> {
    steps.get()?.0.say(Call::ConvertLayout(layout.get()?.0.clone()))
}

pub(crate) fn reverse_channels(steps: Handle<Steps>) -> Result<()> {
    steps.get()?.0.say(Call::ReverseChannels)
}

pub(crate) fn convert_element_type(steps: Handle<Steps>, number: ov_element_type_e) -> Result<()> {
    steps.get()?.0.say(Call::ConvertElementType(number))
}

pub(crate) fn convert_color(steps: Handle<Steps>, format: ov_color_format_e) -> Result<()> {
    steps.get()?.0.say(Call::ConvertColor(format))
}

pub(crate) fn pad(
    steps: Handle<Steps>,
    begin: List<i32>,
    end: List<i32>,
    value: f32,
    mode: ov_padding_mode_e,
) -> Result<()> {
    let steps = steps.get()?;
    let (begin, end) = (coordinates(&begin)?, coordinates(&end)?);
    steps.0.say(Call::Pad { begin, end, value, mode })
}

pub(crate) fn set_output_element_type(
    tensor: Handle<OutputTensorInfo>,
    number: ov_element_type_e,
) -> Result<()> {
    let tensor = tensor.get()?;
    let preprocessor = tensor.0.preprocessor()?;
    let mut recipe = preprocessor.recipe();
    recipe.set_output_type(tensor.0.number, number)
}
