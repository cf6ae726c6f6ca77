mod coordinates;
mod table;

use tract_core::internal::*;
use tract_openvino_kernels::checks::{ensure_allocatable, expect_input_count};
use tract_openvino_kernels::{Taps, map_unchanged_axes, register_movement};

use super::{SetSymbols, change_axes, check_volume, impl_op, set_symbols};
pub(crate) use coordinates::{Coordinates, Nearest};
pub(super) use table::cubic;
use table::{clamped, normalized, pillow, triangle};

/// Interpolate-1, -4 and -11, without their padding: some axes get other sizes.
///
/// All modes work axis by axis. An element of the output is a sum of a few elements of the input, each with a
/// weight. The weights are computed once for each axis, and then applied to all of the data. An axis whose size stays
/// the same is copied, whatever its scale, as in OpenVINO.
///
/// tract's own `Resize` does not have all modes, and needs known sizes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interpolate {
    pub axes: TVec<Axis>,
    pub mode: Mode,
    pub coordinates: Coordinates,
    /// Mode linear widens its kernel, if an axis becomes smaller.
    pub antialias: bool,
}

// Its floats are finite.
impl Eq for Interpolate {}

register_movement!(Moves, |op| {
    op.downcast_ref::<Interpolate>().is_some_and(|op| matches!(op.mode, Mode::Nearest(_)))
});

/// An axis that gets another size.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub axis: usize,
    /// The size of the output.
    pub size: TDim,
    /// The scale of coordinates, if it is not the size of the output divided by that of the input.
    pub scale: Option<f32>,
}

impl SetSymbols for Axis {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        self.size.set_symbols(values)
    }
}

/// `mode`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    Nearest(Nearest),
    Linear,
    LinearOnnx,
    Cubic { coefficient: f32 },
    BilinearPillow,
    BicubicPillow { coefficient: f32 },
}

impl Interpolate {
    /// What the elements of an axis of `size` elements, at least one, are made of.
    fn taps(&self, axis: &Axis, size: usize, output: usize, antialias: bool) -> Taps {
        let scale = axis.scale.unwrap_or(output as f32 / size as f32);
        let mut taps = Taps::default();
        for at in 0..output {
            let x = self.coordinates.of(at, scale, size, output);
            match self.mode {
                Mode::Nearest(nearest) => {
                    taps.push([(clamped(nearest.of(x, scale < 1.), size), 1.)])
                }
                Mode::LinearOnnx => {
                    let x = x.clamp(0., (size - 1) as f32);
                    let (low, high) = (clamped(x, size), clamped(x + 1., size));
                    match x - low as f32 {
                        0. => taps.push([(low, 1.)]),
                        part => taps.push([(low, 1. - part), (high, part)]),
                    }
                }
                Mode::Linear => {
                    let a = if antialias { scale } else { 1. };
                    taps.push(normalized(x, 1. / a, size, |distance| triangle(a * distance)));
                }
                Mode::Cubic { coefficient } => {
                    let base = x.floor();
                    taps.push([-1., 0., 1., 2.].into_iter().filter_map(|step| {
                        let weight = cubic(x - base - step, coefficient);
                        (weight != 0.).then(|| (clamped(base + step, size), weight))
                    }))
                }
                Mode::BilinearPillow => taps.push(pillow(at, size, output, 1., triangle)),
                Mode::BicubicPillow { coefficient } => {
                    taps.push(pillow(at, size, output, 2., |x| cubic(x, coefficient)))
                }
            }
        }
        taps
    }
}

impl_op!(
    Interpolate,
    "OpenVinoInterpolate",
    info = |op| {
        let axes = op.axes.iter().map(|Axis { axis, size, .. }| format!("{axis}: {size}"));
        vec![
            format!("sizes by axis: {}", axes.collect::<Vec<_>>().join(", ")),
            format!("{:?}, {:?}, antialias: {}", op.mode, op.coordinates, op.antialias),
        ]
    }
);

impl EvalOp for Interpolate {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let shape: TVec<usize> = input.shape().into();
        let mut sizes = vec![];
        let mut downsample = false;
        for axis in &self.axes {
            let size = *shape.get(axis.axis).with_context(|| {
                format!(
                    "Interpolate: the data has no axis {}: its rank is {}",
                    axis.axis,
                    shape.len()
                )
            })?;
            let output =
                usize::try_from(axis.size.eval(ctx.symbols).to_i64()?).with_context(|| {
                    format!(
                        "Interpolate: a size of the output is {}, but must be 0 or more",
                        axis.size
                    )
                })?;
            ensure!(
                size > 0 || output == 0,
                "Interpolate: axis {} has size 0, but the output would have size {output}",
                axis.axis
            );
            downsample |= axis.scale.unwrap_or(output as f32 / size as f32) < 1.;
            sizes.push((size, output));
        }
        let dt = input.datum_type();
        // The innermost first: its elements are picked one by one, those of others row by row, and mostly
        // there are fewer before they are resized.
        let mut axes: TVec<_> = self.axes.iter().zip(sizes).collect();
        axes.sort_by_key(|(axis, _)| std::cmp::Reverse(axis.axis));
        let mut output_shape = shape.clone();
        for (axis, (_, output)) in &axes {
            output_shape[axis.axis] = *output;
            check_volume(
                "Interpolate",
                if dt.size_of() < 4 { DatumType::F32 } else { dt },
                &output_shape,
            )?;
        }
        // Without elements the sizes may be whatever they are: the tables would be as long.
        if output_shape.contains(&0) {
            return Ok(tvec!(Tensor::zero_dt(dt, &output_shape)?.into_tvalue()));
        }
        let mut resized = vec![];
        for (axis, (size, output)) in axes {
            if size != output {
                let elements = size.saturating_add(output);
                ensure_allocatable(
                    "Interpolate",
                    elements.saturating_mul(table::BYTES_OF_ELEMENT),
                )?;
                let taps = self.taps(axis, size, output, self.antialias && downsample);
                resized.push((axis.axis, taps));
            }
        }
        if resized.is_empty() {
            return Ok(tvec!(input));
        }
        if let Mode::Nearest(_) = self.mode {
            ensure!(dt.is_number(), "{dt:?} is not a number");
            let mut output = input;
            for (axis, taps) in resized {
                output = taps.pick("Interpolate", &output, axis)?.into_tvalue();
            }
            return Ok(tvec!(output));
        }
        let is_pillow = matches!(self.mode, Mode::BilinearPillow | Mode::BicubicPillow { .. });
        let mut output = input.cast_to::<f32>()?;
        let last = resized.len() - 1;
        for (number, (axis, taps)) in resized.into_iter().enumerate() {
            output = Cow::Owned(taps.sum("Interpolate", &output, axis)?);
            // Pillow has an image of bytes between the axes, too.
            if is_pillow && dt.is_integer() && number < last {
                output = Cow::Owned(rounded(output, dt)?.cast_to::<f32>()?.into_owned());
            }
        }
        Ok(tvec!(rounded(output, dt)?.into_tvalue()))
    }
}

/// Numbers in a type. Integers are the nearest ones, as on OpenVINO's CPU. The specification does not say how they are rounded.
fn rounded(mut numbers: Cow<Tensor>, dt: DatumType) -> TractResult<Tensor> {
    if dt.is_integer() {
        let mut view = numbers.to_mut().try_as_plain_ram_mut()?;
        view.as_slice_mut::<f32>()?.iter_mut().for_each(|it| *it = it.round_ties_even());
    }
    match dt {
        DatumType::F32 => Ok(numbers.into_owned()),
        _ => Ok(numbers.cast_to_dt(dt)?.into_owned()),
    }
}

impl TypedOp for Interpolate {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Interpolate", inputs.len(), 1..=1)?;
        let mut fact = inputs[0].without_value();
        for Axis { axis, size, .. } in &self.axes {
            ensure!(*axis < fact.rank(), "Interpolate: the data has no axis {axis}");
            fact.shape.set(*axis, size.clone());
        }
        Ok(tvec!(fact))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        map_unchanged_axes(inputs, outputs, |axis| {
            self.axes.iter().any(|resized| resized.axis == axis)
        })
    }

    change_axes!(|op, change| {
        let mut op = op.clone();
        for Axis { axis, .. } in &mut op.axes {
            rule_if_some!(changed = change.transform_axis(*axis));
            *axis = changed;
        }
        Ok(Some(op))
    });

    set_symbols!(axes);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;
    use tract_openvino_kernels::checks::MAX_OUTPUT_ELEMENTS;

    fn run(mode: Mode, coordinates: Coordinates, size: usize, data: &[f32]) -> Vec<f32> {
        let axes = tvec![Axis { axis: 0, size: size.to_dim(), scale: None }];
        let op = Interpolate { axes, mode, coordinates, antialias: false };
        let data = tvec!(tensor1(data).into_tvalue());
        let output = op.eval(&EvalContext::out_of_plan(), data).unwrap();
        output[0].try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec()
    }

    /// Nearest elements of codes are codes, with the channels last where the pool after them has them.
    #[test]
    fn nearest_elements_of_codes() {
        use tract_core::ops::cnn::{MaxPool, PaddingSpec, PoolSpec};
        use tract_core::ops::nn::DataFormat;
        use tract_openvino_kernels::{FakeQuantize, KernelsTransform};

        let shape = [1, 3, 4, 5];
        let mut model = TypedModel::default();
        let data = model.add_source("data", f32::fact(shape)).unwrap();
        let limits = [-2f32, 0.55].map(|limit| {
            let name = format!("limit {limit}");
            model.add_const(name, tensor1(&[limit]).into_shape(&[1; 4]).unwrap()).unwrap()
        });
        let axis = |axis, size: usize| Axis { axis, size: size.to_dim(), scale: None };
        let op = Interpolate {
            axes: tvec![axis(2, 8), axis(3, 7)],
            mode: Mode::Nearest(Nearest::Floor),
            coordinates: Coordinates::Asymmetric,
            antialias: false,
        };
        let inputs = [data, limits[0], limits[1], limits[0], limits[1]];
        let levels = model.wire_node("levels", FakeQuantize { levels: 256 }, &inputs).unwrap();
        let resized = model.wire_node("resized", op, &levels).unwrap();
        let spec =
            PoolSpec::new(DataFormat::NCHW, tvec![2, 2], PaddingSpec::Valid, None, None, 3, 3);
        let pool = model.wire_node("pool", MaxPool::new(spec, None), &resized).unwrap();
        model.select_output_outlets(&pool).unwrap();
        let data: Vec<f32> = (0..60).map(|number| (number * 37 % 61) as f32 / 20. - 2.2).collect();
        let data = Tensor::from_shape(&shape, &data).unwrap();
        let run = |model: TypedModel| {
            model.into_runnable().unwrap().run(tvec!(data.clone().into_tvalue())).unwrap()
        };
        let expected = run(model.clone());
        KernelsTransform::default().transform_with_decisions(&mut model).unwrap();
        let resized = model.nodes.iter().find(|node| node.op_is::<Interpolate>()).unwrap();
        assert_eq!(resized.outputs[0].fact, u8::fact([1, 8, 7, 3]));
        run(model)[0].close_enough(&expected[0], Approximation::Approximate).unwrap();
    }

    #[test]
    fn nearest_modes_at_halves() {
        use Nearest::*;
        for (nearest, expected) in [
            (RoundPreferFloor, [0., 1., 3.]),
            (RoundPreferCeil, [1., 2., 3.]),
            (Floor, [0., 1., 3.]),
            (Ceil, [1., 2., 3.]),
        ] {
            assert_eq!([0.5, 1.5, 3.].map(|x| nearest.of(x, false)), expected, "{nearest:?}");
        }
        assert_eq!((Simple.of(1.2, true), Simple.of(1.2, false)), (2., 1.));
    }

    #[test]
    fn linear_stops_at_the_ends() {
        let data = [0., 4.];
        let linear = run(Mode::LinearOnnx, Coordinates::HalfPixel, 4, &data);
        assert_eq!(linear, [0., 1., 3., 4.]);
        assert_eq!(run(Mode::Linear, Coordinates::HalfPixel, 4, &data), linear);
        assert_eq!(run(Mode::BilinearPillow, Coordinates::HalfPixel, 4, &data), linear);
    }

    #[test]
    fn an_element_of_two_in_pillow() {
        let mode = Mode::BilinearPillow;
        assert_eq!(run(mode, Coordinates::HalfPixel, 1, &[1., 3.]), [2.]);
    }

    #[test]
    fn what_stays_as_it_is() {
        let data = tvec!(tensor1(&[1f32, f32::INFINITY, 3.]).into_tvalue());
        for mode in [Mode::Linear, Mode::Cubic { coefficient: -0.75 }] {
            let axes = tvec![Axis { axis: 0, size: 3.to_dim(), scale: Some(1.25) }];
            let coordinates = Coordinates::TfHalfPixelForNn;
            let op = Interpolate { axes, mode, coordinates, antialias: false };
            let output = op.eval(&EvalContext::out_of_plan(), data.clone()).unwrap();
            assert_eq!(*output[0], *data[0]);
        }
    }

    #[test]
    fn large_outputs_on_the_way() {
        let side = MAX_OUTPUT_ELEMENTS.isqrt() + 1;
        let axis = |axis, size: usize| Axis { axis, size: size.to_dim(), scale: None };
        let op = Interpolate {
            axes: tvec![axis(0, 1), axis(1, side)],
            mode: Mode::Linear,
            coordinates: Coordinates::HalfPixel,
            antialias: false,
        };
        let data = tvec!(Tensor::zero::<f32>(&[side, 1]).unwrap().into_tvalue());
        let expected = format!("[{side}, {side}] has more than");
        fails(op.eval(&EvalContext::out_of_plan(), data), &expected);
    }

    #[test]
    fn nothing_to_resize() {
        let axes = tvec![Axis { axis: 0, size: 2.to_dim(), scale: None }];
        let (mode, coordinates) = (Mode::LinearOnnx, Coordinates::HalfPixel);
        let op = Interpolate { axes, mode, coordinates, antialias: false };
        let empty = tvec!(tensor1::<f32>(&[]).into_tvalue());
        let error = op.eval(&EvalContext::out_of_plan(), empty).unwrap_err();
        assert!(
            error.to_string().contains("axis 0 has size 0, but the output would have size 2"),
            "{error}"
        );
    }
}
