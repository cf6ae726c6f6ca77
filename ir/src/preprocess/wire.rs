//! The nodes of steps: each is an operation of OpenVINO, which the translators of the reader wire.

use std::collections::BTreeMap;

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use super::color::ColorFormat;
use super::layout::Layout;
use super::steps::{PaddingMode, ResizeAlgorithm, Step};
use crate::context::{LayerContext, Value};
use crate::document::ElementType;
use crate::translate::translate_as;
use crate::weights::datum_type;

/// What the steps lead to: what the model takes, or the tensor of an output.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub layout: Layout,
    /// `None` is the one that there is.
    pub element_type: Option<DatumType>,
    pub shape: TVec<TDim>,
}

/// A tensor between two steps.
pub(super) struct Image<'a, 'c, 't> {
    pub ctx: &'a mut LayerContext<'c, 't>,
    /// The tensor, or one for each plane.
    pub planes: TVec<OutletId>,
    pub layout: Layout,
    pub format: ColorFormat,
    pub target: &'a Target,
    /// The name of the step that is wired.
    pub step: String,
}

impl Image<'_, '_, '_> {
    /// Wires the steps, and what must follow to give the target its element type and its layout.
    pub fn wire(&mut self, steps: &[Step]) -> TractResult<OutletId> {
        for (number, step) in steps.iter().enumerate() {
            self.step = step.to_string();
            self.wire_step(step).with_context(|| format!("in step {} ({step})", number + 1))?;
        }
        let format = self.format;
        ensure!(
            matches!(
                format,
                ColorFormat::Undefined | ColorFormat::Rgb | ColorFormat::Bgr | ColorFormat::Gray
            ),
            "the image is in {format}, which no model takes: a step must convert it (convert_color)"
        );
        self.step = "convert_element_type".into();
        if let Some(to) = self.target.element_type {
            self.convert_element_type(to)?;
        }
        self.step = "convert_layout".into();
        self.convert_layout(&self.target.layout)?;
        self.plane()
    }

    fn wire_step(&mut self, step: &Step) -> TractResult<()> {
        match step {
            Step::Resize { algorithm, size } => self.resize(*algorithm, *size),
            Step::Mean(values) => self.with_numbers("Subtract", values),
            Step::Scale(values) => self.with_numbers("Divide", values),
            Step::ConvertElementType(to) => {
                to.or(self.target.element_type).map_or(Ok(()), |to| self.convert_element_type(to))
            }
            Step::ConvertLayout(to) => {
                self.convert_layout(to.as_ref().unwrap_or(&self.target.layout))
            }
            Step::ConvertLayoutDims(order) => {
                let layout = self.layout.permuted(order)?;
                self.transpose(order)?;
                self.layout = layout;
                Ok(())
            }
            Step::ConvertColor(to) => self.convert_color(*to),
            Step::ReverseChannels => self.reverse_channels(),
            Step::Crop { begin, end } => self.slice(begin.clone(), tensor1(end), None),
            Step::Pad { begin, end, value, mode } => self.pad(begin, end, *value, *mode),
        }
    }

    /// The one tensor of the image.
    fn plane(&self) -> TractResult<OutletId> {
        let [plane] = *self.planes else {
            bail!("the image is in {}: a step before must convert it (convert_color)", self.format)
        };
        Ok(plane)
    }

    fn shape(&self) -> TractResult<TVec<TDim>> {
        self.ctx.shape_of(self.plane()?)
    }

    fn element_type(&self) -> TractResult<DatumType> {
        self.ctx.type_of(self.planes[0])
    }

    /// The axis of a dimension of the tensor.
    fn axis(&self, name: &str) -> TractResult<usize> {
        self.layout.axis(name, self.shape()?.len()).with_context(|| {
            format!("layout {} has no {name}: set one that has (set_layout)", self.layout)
        })
    }

    /// The elements are floats, which the step needs.
    fn expect_floats(&self) -> TractResult<DatumType> {
        let dt = self.element_type()?;
        ensure!(
            dt.is_float(),
            "the elements are of type {dt:?}, but must be floats: a step before must convert them (convert_element_type)"
        );
        Ok(dt)
    }

    /// Wires an operation on tensors and constants.
    fn operation(
        &mut self,
        operation: (&str, u32),
        attributes: &[(&str, &str)],
        inputs: &[OutletId],
        constants: impl IntoIterator<Item = Tensor>,
    ) -> TractResult<OutletId> {
        let attributes: BTreeMap<String, String> =
            attributes.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let inputs = inputs.iter().map(|input| Value::Outlet(*input));
        let constants = constants.into_iter().map(|it| Value::Constant(it.into_arc_tensor()));
        let inputs = inputs.chain(constants).collect();
        let suffix = format!(".{}", self.step);
        let outlets = translate_as(self.ctx, &suffix, operation, attributes, inputs)?;
        outlets.first().copied().context("the operation has no output")
    }

    /// Wires an operation whose first input is the tensor, which its output replaces.
    fn apply(
        &mut self,
        operation: (&str, u32),
        attributes: &[(&str, &str)],
        constants: impl IntoIterator<Item = Tensor>,
    ) -> TractResult<()> {
        let plane = self.plane()?;
        self.planes = tvec!(self.operation(operation, attributes, &[plane], constants)?);
        Ok(())
    }

    fn resize(
        &mut self,
        algorithm: ResizeAlgorithm,
        size: Option<(usize, usize)>,
    ) -> TractResult<()> {
        let axes = [self.axis("H")?, self.axis("W")?];
        let sizes = match size {
            Some((height, width)) => [i64::try_from(height)?, i64::try_from(width)?],
            None => [self.size_of_target("H")?, self.size_of_target("W")?],
        };
        ensure!(
            sizes.iter().all(|size| *size > 0),
            "the image would have height {} and width {}, but both must be 1 or more",
            sizes[0],
            sizes[1]
        );
        let mode = match algorithm {
            ResizeAlgorithm::Linear => "linear",
            ResizeAlgorithm::Cubic => "cubic",
            ResizeAlgorithm::Nearest => "nearest",
            ResizeAlgorithm::BilinearPillow => "bilinear_pillow",
            ResizeAlgorithm::BicubicPillow => "bicubic_pillow",
        };
        let mut attributes = vec![("mode", mode), ("shape_calculation_mode", "sizes")];
        if algorithm == ResizeAlgorithm::BicubicPillow {
            attributes.push(("cube_coeff", "-0.5"));
        }
        let axes = tensor1(&axes.map(|axis| axis as i64));
        self.apply(("Interpolate", 11), &attributes, [tensor1(&sizes), axes])
    }

    /// A size that the model takes.
    fn size_of_target(&self, name: &str) -> TractResult<i64> {
        let Target { layout, shape, .. } = self.target;
        let axis = layout.axis(name, shape.len()).with_context(|| {
            format!("layout {layout} of the model has no {name}: set one that has (set_layout)")
        })?;
        let size = &shape[axis];
        size.as_i64().with_context(|| {
            format!("dimension {axis} of what the model takes is open ({size}): say the size (resize_to)")
        })
    }

    /// Subtracts or divides by one number, or by one for each channel.
    fn with_numbers(&mut self, operation: &str, values: &[f32]) -> TractResult<()> {
        // Before its type is looked at.
        let shape = self.shape()?;
        let dt = self.expect_floats()?;
        let numbers = tensor1(values).cast_to_dt(dt)?.into_owned();
        let numbers = match values.len() {
            0 => bail!("there are no numbers, but there must be one, or one for each channel"),
            1 => numbers.into_shape(&[])?,
            count => {
                let axis = self.axis("C")?;
                ensure!(
                    shape[axis].as_i64().is_none_or(|channels| channels == count as i64),
                    "there are {count} numbers, but {} channels: the shape is {}",
                    shape[axis],
                    listed(&shape)
                );
                let mut of_channels = vec![1; shape.len()];
                of_channels[axis] = count;
                numbers.into_shape(&of_channels)?
            }
        };
        self.apply((operation, 1), &[], [numbers])
    }

    /// Converts each plane.
    fn convert_element_type(&mut self, to: DatumType) -> TractResult<()> {
        let name = format!("{to:?}");
        ensure!(
            ElementType::from_text(&name).and_then(datum_type) == Some(to),
            "the elements would be of type {to:?}, which no operation has"
        );
        for number in 0..self.planes.len() {
            if self.ctx.type_of(self.planes[number])? != to {
                let plane = self.planes[number];
                let attributes = [("destination_type", &*name)];
                self.planes[number] = self.operation(("Convert", 1), &attributes, &[plane], [])?;
            }
        }
        Ok(())
    }

    fn convert_layout(&mut self, to: &Layout) -> TractResult<()> {
        if to.is_empty() {
            return Ok(());
        }
        // Before there is a look at the layouts.
        self.plane()?;
        if let Some((count, layout)) = self.layout.unsqueezed_to(to)? {
            let axes: Vec<i64> = (0..count as i64).collect();
            self.apply(("Unsqueeze", 1), &[], [tensor1(&axes)])?;
            self.layout = layout;
        }
        if let Some(order) = self.layout.order_to(to, self.shape()?.len())? {
            self.transpose(&order)?;
        }
        self.layout = to.clone();
        Ok(())
    }

    fn transpose(&mut self, order: &[usize]) -> TractResult<()> {
        let order: Vec<i64> = order.iter().map(|axis| *axis as i64).collect();
        self.apply(("Transpose", 1), &[], [tensor1(&order)])
    }

    fn reverse_channels(&mut self) -> TractResult<()> {
        let axis = self.axis("C")? as i64;
        self.apply(("Reverse", 1), &[("mode", "index")], [tensor1(&[axis])])
    }

    /// Takes the elements from `begin` to `end` of the first axes, or of one of them.
    fn slice(&mut self, begin: Vec<i64>, end: Tensor, axis: Option<usize>) -> TractResult<()> {
        let steps = vec![1i64; begin.len()];
        let axes = axis.map(|axis| tensor1(&[axis as i64]));
        let constants = [tensor1(&begin), end, tensor1(&steps)].into_iter().chain(axes);
        self.apply(("Slice", 8), &[], constants)
    }

    fn pad(
        &mut self,
        begin: &[i64],
        end: &[i64],
        value: f32,
        mode: PaddingMode,
    ) -> TractResult<()> {
        self.plane()?;
        let dt = self.expect_floats()?;
        let mode = match mode {
            PaddingMode::Constant => "constant",
            PaddingMode::Edge => "edge",
            PaddingMode::Reflect => "reflect",
            PaddingMode::Symmetric => "symmetric",
        };
        let value = tensor0(value).cast_to_dt(dt)?.into_owned();
        self.apply(("Pad", 12), &[("pad_mode", mode)], [tensor1(begin), tensor1(end), value])
    }

    fn convert_color(&mut self, to: ColorFormat) -> TractResult<()> {
        use ColorFormat::*;
        let from = self.format;
        match (from, to) {
            _ if from == to => (),
            (Nv12SinglePlane | Nv12TwoPlanes, Rgb) => self.merge_planes("NV12toRGB")?,
            (Nv12SinglePlane | Nv12TwoPlanes, Bgr) => self.merge_planes("NV12toBGR")?,
            (I420SinglePlane | I420ThreePlanes, Rgb) => self.merge_planes("I420toRGB")?,
            (I420SinglePlane | I420ThreePlanes, Bgr) => self.merge_planes("I420toBGR")?,
            (Nv12TwoPlanes | I420ThreePlanes, Gray) => self.planes.truncate(1),
            (Nv12SinglePlane | I420SinglePlane, Gray) => {
                let shape = self.shape()?;
                let rows = (shape[1].clone() * 2 / 3).simplify();
                self.slice(vec![0], tensor1(&[rows]), Some(1))?;
            }
            (Rgb, Bgr) | (Bgr, Rgb) => self.reverse_channels()?,
            (Rgb, Gray) => self.brightness([0.299, 0.587, 0.114])?,
            (Bgr, Gray) => self.brightness([0.114, 0.587, 0.299])?,
            (Rgbx, Rgb) | (Bgrx, Bgr) => self.without_last_channel()?,
            (Rgbx, Bgr) | (Bgrx, Rgb) => {
                self.without_last_channel()?;
                self.reverse_channels()?;
            }
            _ => bail!("an image with {from} cannot become one with {to}"),
        }
        self.format = to;
        Ok(())
    }

    fn merge_planes(&mut self, operation: &str) -> TractResult<()> {
        let planes = self.planes.clone();
        self.planes = tvec!(self.operation((operation, 8), &[], &planes, [])?);
        Ok(())
    }

    fn without_last_channel(&mut self) -> TractResult<()> {
        let axis = self.axis("C")?;
        self.slice(vec![0], tensor1(&[-1i64]), Some(axis))
    }

    /// Sums the channels with these factors. Integers are rounded, halves to even ones.
    fn brightness(&mut self, factors: [f32; 3]) -> TractResult<()> {
        let (axis, dt) = (self.axis("C")?, self.element_type()?);
        if !dt.is_float() {
            self.convert_element_type(DatumType::F32)?;
        }
        let mut of_channels = vec![1; self.shape()?.len()];
        of_channels[axis] = factors.len();
        let factors = tensor1(&factors).into_shape(&of_channels)?;
        let factors = factors.cast_to_dt(self.element_type()?)?.into_owned();
        self.apply(("Multiply", 1), &[], [factors])?;
        let axes = tensor1(&[axis as i64]);
        self.apply(("ReduceSum", 1), &[("keep_dims", "true")], [axes])?;
        if !dt.is_float() {
            self.apply(("Round", 5), &[("mode", "half_to_even")], [])?;
            self.convert_element_type(dt)?;
        }
        Ok(())
    }
}
