//! What can be done to a tensor, one after another.

use std::fmt;

use tract_core::internal::*;

use super::color::ColorFormat;
use super::layout::Layout;

/// How an image is resized: OpenVINO's `ResizeAlgorithm`. Each but Pillow's has the coordinates of the centres of pixels
/// (`half_pixel` of Interpolate), and none of these makes its kernel wider for a smaller image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResizeAlgorithm {
    /// Between the nearest pixels.
    Linear,
    /// A cubic curve through four pixels, with coefficient -0.75.
    Cubic,
    /// The nearest pixel.
    Nearest,
    /// Pillow's `BILINEAR`: means of all pixels, if the image becomes smaller.
    BilinearPillow,
    /// Pillow's `BICUBIC`, with coefficient -0.5.
    BicubicPillow,
}

/// What a pad is made of: OpenVINO's `PaddingMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PaddingMode {
    /// A number.
    Constant,
    /// The elements at the edge.
    Edge,
    /// The elements as in a mirror, without those at the edge.
    Reflect,
    /// The elements as in a mirror.
    Symmetric,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Resize {
        algorithm: ResizeAlgorithm,
        size: Option<(usize, usize)>,
    },
    Mean(Vec<f32>),
    Scale(Vec<f32>),
    /// `None` is the type of the other end.
    ConvertElementType(Option<DatumType>),
    /// `None` is the layout of the other end.
    ConvertLayout(Option<Layout>),
    ConvertLayoutDims(Vec<usize>),
    ConvertColor(ColorFormat),
    ReverseChannels,
    Crop {
        begin: Vec<i64>,
        end: Vec<i64>,
    },
    Pad {
        begin: Vec<i64>,
        end: Vec<i64>,
        value: f32,
        mode: PaddingMode,
    },
}

/// How errors speak of a step: by the method that adds it.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Resize { .. } => "resize",
            Step::Mean(_) => "mean",
            Step::Scale(_) => "scale",
            Step::ConvertElementType(_) => "convert_element_type",
            Step::ConvertLayout(_) => "convert_layout",
            Step::ConvertLayoutDims(_) => "convert_layout_dims",
            Step::ConvertColor(_) => "convert_color",
            Step::ReverseChannels => "reverse_channels",
            Step::Crop { .. } => "crop",
            Step::Pad { .. } => "pad",
        })
    }
}

/// The steps between the tensor of an input and the model, in the order in which they were added: OpenVINO's `PreProcessSteps`.
///
/// Whether they fit the tensor is checked when the model is built.
#[derive(Debug, Clone, Default)]
pub struct PreprocessSteps {
    pub(super) steps: Vec<Step>,
}

impl PreprocessSteps {
    fn add(&mut self, step: Step) -> &mut PreprocessSteps {
        self.steps.push(step);
        self
    }

    /// Resizes the image to the height and width that the model takes. The layout must have H and W.
    pub fn resize(&mut self, algorithm: ResizeAlgorithm) -> &mut PreprocessSteps {
        self.add(Step::Resize { algorithm, size: None })
    }

    /// Resizes the image to a height and a width. The layout must have H and W.
    pub fn resize_to(
        &mut self,
        algorithm: ResizeAlgorithm,
        height: usize,
        width: usize,
    ) -> &mut PreprocessSteps {
        self.add(Step::Resize { algorithm, size: Some((height, width)) })
    }

    /// Subtracts a number, or one for each channel if there are several. The elements must be floats, and the layout must have
    /// C for several.
    pub fn mean(&mut self, values: &[f32]) -> &mut PreprocessSteps {
        self.add(Step::Mean(values.into()))
    }

    /// Divides by a number, or by one for each channel if there are several. The elements must be floats, and the layout must
    /// have C for several.
    pub fn scale(&mut self, values: &[f32]) -> &mut PreprocessSteps {
        self.add(Step::Scale(values.into()))
    }

    /// Converts the elements, to the type that the model takes if none is given.
    pub fn convert_element_type(
        &mut self,
        element_type: impl Into<Option<DatumType>>,
    ) -> &mut PreprocessSteps {
        self.add(Step::ConvertElementType(element_type.into()))
    }

    /// Puts the dimensions into another order, that of the model if no layout is given. A layout of more dimensions gets
    /// dimensions of size 1.
    pub fn convert_layout(&mut self, layout: impl Into<Option<Layout>>) -> &mut PreprocessSteps {
        self.add(Step::ConvertLayout(layout.into().filter(|layout| !layout.is_empty())))
    }

    /// Puts the dimensions into another order: for each new one, which it is now. Nothing is done if there are none.
    pub fn convert_layout_dims(&mut self, dims: &[usize]) -> &mut PreprocessSteps {
        if dims.is_empty() { self } else { self.add(Step::ConvertLayoutDims(dims.into())) }
    }

    /// Puts the channels into the opposite order. The layout must have C.
    pub fn reverse_channels(&mut self) -> &mut PreprocessSteps {
        self.add(Step::ReverseChannels)
    }

    /// Converts the colors. NV12 and I420 become RGB, BGR or GRAY; RGB and BGR each other or GRAY; RGBX and BGRX become RGB or BGR.
    pub fn convert_color(&mut self, format: ColorFormat) -> &mut PreprocessSteps {
        self.add(Step::ConvertColor(format))
    }

    /// Takes a part: for each of the first dimensions, from where, and up to where. Negative numbers count from the end.
    ///
    /// # Errors
    ///
    /// There are not as many of both.
    pub fn crop(&mut self, begin: &[i64], end: &[i64]) -> TractResult<&mut PreprocessSteps> {
        ensure!(
            begin.len() == end.len(),
            "crop: begin is {begin:?} and end is {end:?}, but both must have one length"
        );
        Ok(self.add(Step::Crop { begin: begin.into(), end: end.into() }))
    }

    /// Adds elements at the beginning and at the end of each dimension, or takes them away where numbers are negative. The elements
    /// must be floats. `value` is what they are in [`PaddingMode::Constant`].
    pub fn pad(
        &mut self,
        begin: &[i64],
        end: &[i64],
        value: f32,
        mode: PaddingMode,
    ) -> &mut PreprocessSteps {
        self.add(Step::Pad { begin: begin.into(), end: end.into(), value, mode })
    }

    /// The order of each `convert_layout_dims`, from the first.
    pub(super) fn orders(&self) -> impl DoubleEndedIterator<Item = &Vec<usize>> {
        self.steps.iter().filter_map(|step| match step {
            Step::ConvertLayoutDims(order) => Some(order),
            _ => None,
        })
    }

    /// The layout after all steps of a tensor with this layout.
    pub(super) fn layout_after(&self, tensor: &Layout) -> TractResult<Layout> {
        let mut layout = tensor.clone();
        for step in &self.steps {
            match step {
                Step::ConvertLayout(to) => layout = to.clone().unwrap_or_default(),
                Step::ConvertLayoutDims(order) => layout = layout.permuted(order)?,
                _ => (),
            }
        }
        Ok(layout)
    }
}

/// The steps between the model and the tensor of an output, in the order in which they were added: OpenVINO's `PostProcessSteps`.
#[derive(Debug, Clone, Default)]
pub struct PostprocessSteps {
    pub(super) steps: Vec<Step>,
}

impl PostprocessSteps {
    /// Converts the elements, to the type of the tensor if none is given.
    pub fn convert_element_type(
        &mut self,
        element_type: impl Into<Option<DatumType>>,
    ) -> &mut PostprocessSteps {
        self.steps.push(Step::ConvertElementType(element_type.into()));
        self
    }

    /// Puts the dimensions into another order, that of the tensor if no layout is given.
    pub fn convert_layout(&mut self, layout: impl Into<Option<Layout>>) -> &mut PostprocessSteps {
        self.steps.push(Step::ConvertLayout(layout.into().filter(|layout| !layout.is_empty())));
        self
    }

    /// Puts the dimensions into another order: for each new one, which it is now. Nothing is done if there are none.
    pub fn convert_layout_dims(&mut self, dims: &[usize]) -> &mut PostprocessSteps {
        if !dims.is_empty() {
            self.steps.push(Step::ConvertLayoutDims(dims.into()));
        }
        self
    }
}
