//! Steps before and after a model, as nodes of it: OpenVINO's `PrePostProcessor`.
//!
//! A model takes, say, floats in layout NCHW, normalised and of one size. With [`Preprocess`] it takes what the program has, such
//! as the bytes of an image of any size:
//!
//! ```
//! use tract_openvino_ir::preprocess::{Preprocess, ResizeAlgorithm};
//! use tract_openvino_ir::prelude::*;
//!
//! # fn main() -> TractResult<()> {
//! let model = ir().with_input_shape("x", "N,3,48,192").model_for_path("models/networks/ocr_cls/model.xml")?;
//! let mut preprocess = Preprocess::new(model);
//! let x = preprocess.input("x")?;
//! x.tensor().set_element_type(DatumType::U8).set_layout("NHWC".parse()?).set_spatial_dynamic_shape()?;
//! x.model().set_layout("NCHW".parse()?);
//! x.steps()
//!     .convert_element_type(DatumType::F32)
//!     .resize(ResizeAlgorithm::Linear)
//!     .mean(&[127.5])
//!     .scale(&[127.5]);
//! let model = preprocess.build()?;
//! assert_eq!(model.input_fact(0)?.datum_type, DatumType::U8);
//!
//! let image = Tensor::zero::<u8>(&[1, 30, 100, 3])?;
//! let outputs = model.into_runnable_with_kernels()?.run(tvec!(image.into()))?;
//! assert_eq!(outputs[0].shape(), [1, 2]);
//! # Ok(())
//! # }
//! ```
//!
//! A file may state the layout of what the model takes; then it need not be set.
//!
//! What is stated of a tensor alone is done after the steps, elements before dimensions: they are converted to the type of the
//! model, and put into its layout. Nothing resizes an image but [`PreprocessSteps::resize`].
//!
//! Open dimensions stay open: those of the tensor are what the steps need them to be so that the model gets what it takes. A shape that
//! is given to the tensor is given to the model.
//!
//! | OpenVINO | here |
//! |---|---|
//! | `PrePostProcessor(model)`, `input`, `output`, `build` | [`Preprocess::new`], [`input`](Preprocess::input), [`output`](Preprocess::output), [`build`](Preprocess::build) |
//! | `input.tensor()`, `input.preprocess()`, `input.model()` | [`InputInfo::tensor`], [`InputInfo::steps`], [`InputInfo::model`] |
//! | `output.model()`, `output.postprocess()`, `output.tensor()` | [`OutputInfo::model`], [`OutputInfo::steps`], [`OutputInfo::tensor`] |
//! | `set_spatial_static_shape`, `set_memory_type` | [`InputTensorInfo::set_spatial_shape`]; memory is always the host's |
//! | `resize(algorithm, height, width)`, `convert_layout(dims)` | [`PreprocessSteps::resize_to`], [`PreprocessSteps::convert_layout_dims`] |
//! | `mean(0.5)`, `mean({0.1, 0.2, 0.3})` | [`mean(&[0.5])`](PreprocessSteps::mean), `mean(&[0.1, 0.2, 0.3])` |
//!
//! # Differences from OpenVINO
//!
//! * A model of fixed sizes keeps them. If its tensor may be open, and no step resizes it, the tensor has these sizes, too.
//! * A tensor may lack dimensions of the model that come first (CHW for NCHW).
//! * RGBX and BGRX may be in any layout with C, and images of any rank and type of floats become GRAY.
//! * The planes of an image have different names: numbers, if none are given. Outputs keep their names.

mod color;
mod info;
mod input;
mod layout;
mod output;
mod steps;
#[cfg(test)]
mod tests;
mod wire;

use tract_core::internal::*;

use crate::stated_layouts::{End, stated_layout};

pub use color::ColorFormat;
pub use info::{InputInfo, InputTensorInfo, ModelInfo, OutputInfo, OutputTensorInfo};
pub use layout::Layout;
pub use steps::{PaddingMode, PostprocessSteps, PreprocessSteps, ResizeAlgorithm};

/// A model, and what is to come before and after it: OpenVINO's `PrePostProcessor`. It may be any model of tract.
///
/// The [documentation of the module](self) has an example.
#[derive(Debug, Clone)]
pub struct Preprocess {
    model: TypedModel,
    inputs: Vec<InputInfo>,
    outputs: Vec<OutputInfo>,
}

/// An input or an output of a model, by its position or its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Port<'a> {
    /// The position, from 0.
    Index(usize),
    /// The name: the label of its outlet, or the name of its node.
    Name(&'a str),
}

impl From<usize> for Port<'_> {
    fn from(index: usize) -> Self {
        Port::Index(index)
    }
}

impl<'a> From<&'a str> for Port<'a> {
    fn from(name: &'a str) -> Self {
        Port::Name(name)
    }
}

impl Preprocess {
    /// Steps before and after this model, none so far.
    pub fn new(model: TypedModel) -> Preprocess {
        let names = |outlets: &[OutletId]| -> Vec<String> {
            let name = |outlet: &OutletId| match model.outlet_label(*outlet) {
                Some(label) => label.into(),
                None => model.node(outlet.node).name.clone(),
            };
            outlets.iter().map(name).collect()
        };
        // A layout that nobody can read is none.
        let stated = |end, name: &str| ModelInfo {
            layout: stated_layout(&model, end, name).and_then(|text| text.parse().ok()),
        };
        let inputs = names(&model.inputs).into_iter();
        let inputs = inputs.map(|name| InputInfo {
            model: stated(End::Input, &name),
            name,
            ..InputInfo::default()
        });
        let inputs = inputs.collect();
        let outputs = names(&model.outputs).into_iter();
        let outputs = outputs.map(|name| OutputInfo {
            model: stated(End::Output, &name),
            name,
            ..OutputInfo::default()
        });
        let outputs = outputs.collect();
        Preprocess { model, inputs, outputs }
    }

    /// The model as it is without the steps.
    pub fn model(&self) -> &TypedModel {
        &self.model
    }

    /// An input, by its position or its name.
    ///
    /// # Errors
    ///
    /// There is no such input.
    pub fn input<'a>(&mut self, input: impl Into<Port<'a>>) -> TractResult<&mut InputInfo> {
        let names: Vec<&str> = self.inputs.iter().map(|input| &*input.name).collect();
        let position = self.position("input", &names, &self.model.inputs, input.into())?;
        Ok(&mut self.inputs[position])
    }

    /// An output, by its position or its name.
    ///
    /// # Errors
    ///
    /// There is no such output.
    pub fn output<'a>(&mut self, output: impl Into<Port<'a>>) -> TractResult<&mut OutputInfo> {
        let names: Vec<&str> = self.outputs.iter().map(|output| &*output.name).collect();
        let position = self.position("output", &names, &self.model.outputs, output.into())?;
        Ok(&mut self.outputs[position])
    }

    fn position(
        &self,
        kind: &str,
        names: &[&str],
        outlets: &[OutletId],
        port: Port,
    ) -> TractResult<usize> {
        let found = match port {
            Port::Index(index) => Some(index).filter(|index| *index < names.len()),
            Port::Name(name) => names.iter().position(|it| *it == name).or_else(|| {
                outlets.iter().position(|outlet| self.model.node(outlet.node).name == name)
            }),
        };
        found.with_context(|| {
            let asked = match port {
                Port::Index(index) => index.to_string(),
                Port::Name(name) => format!("{name:?}"),
            };
            format!("the model has no {kind} {asked}: its {kind}s are {names:?}")
        })
    }

    /// The only input.
    ///
    /// # Errors
    ///
    /// There is not exactly one.
    pub fn single_input(&mut self) -> TractResult<&mut InputInfo> {
        let count = self.inputs.len();
        ensure!(count == 1, "the model has {count} inputs, but must have 1 here: say which");
        Ok(&mut self.inputs[0])
    }

    /// The only output.
    ///
    /// # Errors
    ///
    /// There is not exactly one.
    pub fn single_output(&mut self) -> TractResult<&mut OutputInfo> {
        let count = self.outputs.len();
        ensure!(count == 1, "the model has {count} outputs, but must have 1 here: say which");
        Ok(&mut self.outputs[0])
    }

    /// The model with the steps. Its inputs and outputs are tensors as they were described.
    ///
    /// # Errors
    ///
    /// A step does not fit the tensor, its type or its layout, or what comes of all steps is not what the model takes.
    pub fn build(self) -> TractResult<TypedModel> {
        let Preprocess { mut model, inputs, outputs } = self;
        let mut position = 0;
        for input in &inputs {
            position += input::build(&mut model, position, input)
                .with_context(|| format!("in the steps before input {:?}", input.name))?;
        }
        for (position, output) in outputs.iter().enumerate() {
            output::build(&mut model, position, output)
                .with_context(|| format!("in the steps after output {:?}", output.name))?;
        }
        // What was added runs first, and comes first.
        model.compact()?;
        Ok(model)
    }
}
