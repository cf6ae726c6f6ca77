//! What is said of an input or an output: of its tensor, of the model, and of the steps between them.

use tract_core::internal::*;

use super::color::ColorFormat;
use super::layout::Layout;
use super::steps::{PostprocessSteps, PreprocessSteps};
use crate::reader::InputShape;

/// An input of the model: OpenVINO's `InputInfo`.
#[derive(Debug, Clone, Default)]
pub struct InputInfo {
    pub(super) name: String,
    pub(super) tensor: InputTensorInfo,
    pub(super) steps: PreprocessSteps,
    pub(super) model: ModelInfo,
}

impl InputInfo {
    /// The tensor that the program gives.
    pub fn tensor(&mut self) -> &mut InputTensorInfo {
        &mut self.tensor
    }

    /// The steps from the tensor to what the model takes.
    pub fn steps(&mut self) -> &mut PreprocessSteps {
        &mut self.steps
    }

    /// What the model takes.
    pub fn model(&mut self) -> &mut ModelInfo {
        &mut self.model
    }

    /// Whether nothing was said.
    pub(super) fn is_empty(&self) -> bool {
        let InputTensorInfo { element_type, layout, shape, format, .. } = &self.tensor;
        element_type.is_none()
            && layout.is_none()
            && matches!(shape, TensorShape::OfModel)
            && *format == ColorFormat::Undefined
            && self.steps.steps.is_empty()
            && self.model.layout.is_none()
    }
}

/// The tensor that a program gives to an input: OpenVINO's `InputTensorInfo`. What is not said is as the model has it.
#[derive(Debug, Clone, Default)]
pub struct InputTensorInfo {
    pub(super) element_type: Option<DatumType>,
    pub(super) layout: Option<Layout>,
    pub(super) shape: TensorShape,
    pub(super) format: ColorFormat,
    pub(super) plane_names: Vec<String>,
}

/// What is said of the shape of a tensor.
#[derive(Debug, Clone, Default)]
pub(super) enum TensorShape {
    /// As the model has it.
    #[default]
    OfModel,
    Given(InputShape),
    /// As the model has it, but for height and width.
    Image(Option<(usize, usize)>),
}

impl InputTensorInfo {
    /// Sets the type of the elements. They are converted after all steps, if none of these does.
    pub fn set_element_type(&mut self, element_type: DatumType) -> &mut InputTensorInfo {
        self.element_type = Some(element_type);
        self
    }

    /// Sets the layout. If it is not that of the model, the dimensions are put into order after all steps, if none of these does.
    ///
    /// A layout of fewer dimensions than that of the model, such as HWC for NCHW, is that of a tensor without the others, which get
    /// size 1.
    pub fn set_layout(&mut self, layout: Layout) -> &mut InputTensorInfo {
        self.layout = Some(layout);
        self
    }

    /// Sets the shape: sizes, or text as for [`Ir::with_input_shape`](crate::Ir::with_input_shape), in which `?` is an open
    /// dimension. That of an image in planes is the shape of the whole image, of any number of channels.
    ///
    /// # Errors
    ///
    /// The height and width are set already.
    pub fn set_shape(&mut self, shape: impl Into<InputShape>) -> TractResult<&mut InputTensorInfo> {
        ensure!(
            !matches!(self.shape, TensorShape::Image(_)),
            "the height and width of the tensor are set already, so that its shape cannot be"
        );
        self.shape = TensorShape::Given(shape.into());
        Ok(self)
    }

    /// Sets the height and width. The layout must have H and W.
    ///
    /// # Errors
    ///
    /// The shape is set already.
    pub fn set_spatial_shape(
        &mut self,
        height: usize,
        width: usize,
    ) -> TractResult<&mut InputTensorInfo> {
        self.set_image(Some((height, width)))
    }

    /// Lets the height and width be open. The layout must have H and W.
    ///
    /// # Errors
    ///
    /// The shape is set already.
    pub fn set_spatial_dynamic_shape(&mut self) -> TractResult<&mut InputTensorInfo> {
        self.set_image(None)
    }

    fn set_image(&mut self, size: Option<(usize, usize)>) -> TractResult<&mut InputTensorInfo> {
        ensure!(
            !matches!(self.shape, TensorShape::Given(_)),
            "the shape of the tensor is set already, so that its height and width cannot be"
        );
        self.shape = TensorShape::Image(size);
        Ok(self)
    }

    /// Sets the type of the elements and the shape to those of a tensor.
    ///
    /// # Errors
    ///
    /// The height and width are set already.
    pub fn set_from(&mut self, tensor: &Tensor) -> TractResult<&mut InputTensorInfo> {
        Ok(self.set_shape(tensor.shape())?.set_element_type(tensor.datum_type()))
    }

    /// Sets the color format. The layout is NHWC then, if none is set. An image in several planes has an input for each, one after
    /// another; their names are that of the input with `/` and these names after it, or their numbers if there are none.
    ///
    /// # Errors
    ///
    /// There are not as many different names as planes, or there are names although there is one plane.
    pub fn set_color_format(
        &mut self,
        format: ColorFormat,
        plane_names: &[&str],
    ) -> TractResult<&mut InputTensorInfo> {
        let planes = format.planes();
        ensure!(
            plane_names.is_empty() || planes > 1,
            "an image with {format} is in one plane, but the planes have the names {plane_names:?}"
        );
        ensure!(
            plane_names.is_empty() || plane_names.len() == planes,
            "the planes of an image in {format} have the names {plane_names:?}, but there must be {planes}"
        );
        let is_twice = |(number, name)| plane_names[..number].contains(name);
        ensure!(
            !plane_names.iter().enumerate().any(is_twice),
            "the planes of an image have the names {plane_names:?}, but they must be different"
        );
        self.format = format;
        self.plane_names = plane_names.iter().map(|name| name.to_string()).collect();
        Ok(self)
    }
}

/// What the model has for an input or an output: OpenVINO's `InputModelInfo` and `OutputModelInfo`.
#[derive(Debug, Clone, Default)]
pub struct ModelInfo {
    pub(super) layout: Option<Layout>,
}

impl ModelInfo {
    /// Sets the layout.
    pub fn set_layout(&mut self, layout: Layout) -> &mut ModelInfo {
        self.layout = Some(layout);
        self
    }
}

/// An output of the model: OpenVINO's `OutputInfo`.
#[derive(Debug, Clone, Default)]
pub struct OutputInfo {
    pub(super) name: String,
    pub(super) tensor: OutputTensorInfo,
    pub(super) steps: PostprocessSteps,
    pub(super) model: ModelInfo,
}

impl OutputInfo {
    /// What the model has.
    pub fn model(&mut self) -> &mut ModelInfo {
        &mut self.model
    }

    /// The steps from what the model has to the tensor.
    pub fn steps(&mut self) -> &mut PostprocessSteps {
        &mut self.steps
    }

    /// The tensor that the program gets.
    pub fn tensor(&mut self) -> &mut OutputTensorInfo {
        &mut self.tensor
    }
}

/// The tensor that a program gets from an output: OpenVINO's `OutputTensorInfo`. What is not said is as the model has it.
#[derive(Debug, Clone, Default)]
pub struct OutputTensorInfo {
    pub(super) element_type: Option<DatumType>,
    pub(super) layout: Option<Layout>,
}

impl OutputTensorInfo {
    /// Sets the type of the elements. They are converted after all steps, if none of these does.
    pub fn set_element_type(&mut self, element_type: DatumType) -> &mut OutputTensorInfo {
        self.element_type = Some(element_type);
        self
    }

    /// Sets the layout. If it is not that of the model, the dimensions are put into order after all steps, if none of these does.
    pub fn set_layout(&mut self, layout: Layout) -> &mut OutputTensorInfo {
        self.layout = Some(layout);
        self
    }
}
