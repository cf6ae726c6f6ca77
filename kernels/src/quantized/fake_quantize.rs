//! The operator that models have around what shall run on codes.

use tract_core::broadcast::multi_broadcast;
use tract_core::internal::*;
use tract_core::ndarray::Zip;

use crate::checks::{check_volume, expect_inputs, extent};
use crate::cost;
use crate::isa::nearest;
use crate::memory::filled_output;
use crate::product::Vectors;
use crate::threads::fill_rows;

/// Rounds numbers between two limits to a number of levels, and maps these to other limits: what becomes of numbers that are
/// stored as codes of few bits.
///
/// Inputs of type f32 and one rank, which are broadcast: data, input_low, input_high, output_low, output_high. Numbers up to
/// input_low become output_low, numbers above input_high become output_high. So the input limits may be equal. Between
/// them it is
///
/// `round((x - input_low) / (input_high - input_low) * (levels - 1)) / (levels - 1) * (output_high - output_low) + output_low`,
///
/// where halves are rounded to even numbers (FakeQuantize-1 of OpenVINO).
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct FakeQuantize {
    /// At least two.
    pub levels: u32,
}

/// The limits: `input_low`, `input_high`, `output_low`, `output_high`.
type FakeQuantizeLimits = [f32; 4];

impl FakeQuantize {
    fn check(&self) -> TractResult<()> {
        let levels = self.levels;
        ensure!(levels > 1, "FakeQuantize: there are {levels} levels, but must be 2 or more");
        Ok(())
    }

    #[inline(always)]
    fn number(&self, x: f32, limits: FakeQuantizeLimits) -> f32 {
        let [input_low, input_high, output_low, output_high] = limits;
        let steps = (self.levels - 1) as f32;
        let level = round((x - input_low) / (input_high - input_low) * steps);
        let inner = level / steps * (output_high - output_low) + output_low;
        let inner = if x > input_low.max(input_high) { output_high } else { inner };
        if x <= input_low.min(input_high) { output_low } else { inner }
    }
}

/// The nearest integer to a number, halves to even ones; above 2^22, where there are no levels, perhaps a neighbour.
#[inline(always)]
fn round(number: f32) -> f32 {
    if number.abs() < 4194304. { nearest(number) } else { number.round_ties_even() }
}

impl_plain_op!(
    FakeQuantize with {
        pass_axes!(mapping);
    },
    "FakeQuantize",
    info = |op| vec![format!("{} levels", op.levels)]
);

impl FakeQuantize {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        self.check()?;
        let (x, input_low, input_high, output_low, output_high) = args_5!(inputs);
        let limits = [input_low, input_high, output_low, output_high];
        let mut shapes: TVec<&[usize]> = limits.iter().map(|limit| limit.shape()).collect();
        shapes.push(x.shape());
        let shape = multi_broadcast(&shapes)?;
        let differs = |axis: &usize| {
            limits.iter().any(|limit| limit.shape().get(*axis).is_some_and(|size| *size != 1))
        };
        let mut axes = (0..shape.len()).filter(differs);
        let (axis, other) = (axes.next(), axes.next());
        // Limits of one axis, or of none: how many neighbours have the same ones.
        if other.is_none() && *x.shape() == *shape {
            let same = extent(&shape[axis.map_or(0, |axis| axis + 1)..]);
            let channels = axis.map_or(1, |axis| shape[axis]);
            return self.with_limits_of_an_axis(&x, &limits, channels, same);
        }
        check_volume("FakeQuantize", DatumType::F32, &shape)?;
        let mut output = Tensor::zero::<f32>(&shape)?;
        let mut plain = output.try_as_plain_ram_mut()?;
        Zip::from(plain.to_array_view_mut::<f32>()?)
            .and_broadcast(x.to_plain_array_view::<f32>()?)
            .and_broadcast(limits[0].to_plain_array_view::<f32>()?)
            .and_broadcast(limits[1].to_plain_array_view::<f32>()?)
            .and_broadcast(limits[2].to_plain_array_view::<f32>()?)
            .and_broadcast(limits[3].to_plain_array_view::<f32>()?)
            .for_each(|y, x, il, ih, ol, oh| *y = self.number(*x, [*il, *ih, *ol, *oh]));
        Ok(output)
    }

    /// Of so many neighbours each, which have the limits of one channel after the other.
    fn with_limits_of_an_axis(
        &self,
        x: &Tensor,
        limits: &[TValue; 4],
        channels: usize,
        same: usize,
    ) -> TractResult<Tensor> {
        let numbers = x.try_as_plain_ram()?.as_slice::<f32>()?;
        let mut of_channels = vec![[0.; 4]; channels];
        for (number, limit) in limits.iter().enumerate() {
            let limit = limit.try_as_plain_ram()?.as_slice::<f32>()?;
            for (channel, limits) in of_channels.iter_mut().enumerate() {
                limits[number] = if let [one] = limit { *one } else { limit[channel] };
            }
        }
        let vectors = Vectors::detect();
        filled_output("FakeQuantize", x.shape(), |elements| {
            let row = if channels == 1 { 64.min(same) } else { same };
            fill_rows(elements, row, cost::FUNCTION.of(numbers.len()), |first, elements| {
                let numbers = &numbers[first * row..][..elements.len()];
                let width = if channels == 1 { elements.len() } else { row };
                let parts = elements.chunks_mut(width).zip(numbers.chunks(width));
                for (number, (output, numbers)) in parts.enumerate() {
                    let limits = of_channels[(first + number) % channels];
                    vectors.run(
                        #[inline(always)]
                        move || {
                            for (output, number) in output.iter_mut().zip(numbers) {
                                *output = self.number(*number, limits);
                            }
                        },
                    );
                }
                Ok(())
            })
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        self.check()?;
        let [data, ..] = expect_inputs(
            "FakeQuantize",
            ["data", "input_low", "input_high", "output_low", "output_high"],
            inputs,
        )?;
        for input in inputs {
            ensure!(
                input.datum_type == f32::datum_type() && input.rank() == data.rank(),
                "FakeQuantize: an input is {input:?}, but all must be of type F32 and of one rank"
            );
        }
        let shapes: TVec<&ShapeFact> = inputs.iter().map(|input| &input.shape).collect();
        Ok(f32::fact(multi_broadcast(&shapes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::MAX_OUTPUT_ELEMENTS;

    #[test]
    fn outputs_of_open_shapes_have_a_limit() {
        let zeros = |shape: [usize; 2]| Tensor::zero::<f32>(&shape).unwrap().into_tvalue();
        let side = MAX_OUTPUT_ELEMENTS.isqrt() + 1;
        let mut inputs = tvec![zeros([1, side]); 5];
        inputs[0] = zeros([side, 1]);
        let output = FakeQuantize { levels: 2 }.eval(inputs);
        let error = output.unwrap_err().to_string();
        assert!(error.contains(&format!("[{side}, {side}] has more than")), "{error}");
    }

    #[test]
    fn few_levels_are_an_error() {
        for levels in [0, 1] {
            let op = FakeQuantize { levels };
            let inputs = tvec![tensor1(&[0f32]).into_tvalue(); 5];
            let facts: Vec<TypedFact> =
                inputs.iter().map(|input| TypedFact::shape_and_dt_of(input)).collect();
            let inferred = op.output_facts(&facts.iter().collect::<Vec<_>>()).map(|_| ());
            let computed = op.eval(inputs).map(|_| ());
            for result in [inferred, computed] {
                let error = result.unwrap_err().to_string();
                assert!(
                    error.contains(&format!("{levels} levels, but must be 2 or more")),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn halves_limits_and_equal_limits() {
        let eight = FakeQuantize { levels: 8 };
        for (x, expected) in [(-1., 0.), (0.5, 0.), (1.5, 2.), (2.5, 2.), (6.6, 7.), (9., 7.)] {
            assert_eq!(eight.number(x, [0., 7., 0., 7.]), expected, "{x}");
        }
        let two = FakeQuantize { levels: 2 };
        assert_eq!(two.number(0., [0., 0., -1., 1.]), -1.);
        assert_eq!(two.number(0.1, [0., 0., -1., 1.]), 1.);
        assert_eq!(two.number(f32::NEG_INFINITY, [-1., 1., 5., 3.]), 5.);
        assert!(two.number(f32::NAN, [-1., 1., 5., 3.]).is_nan());
    }

    /// Limits of the whole, of an axis and of each element are three pieces of code.
    #[test]
    fn limits_of_any_axes() {
        let op = FakeQuantize { levels: 256 };
        let shape = [2, 3, 5];
        let x: Vec<f32> = (0..30).map(|it| it as f32 * 0.7 - 9.).collect();
        let x = Tensor::from_shape(&shape, &x).unwrap();
        for limit_shape in [[1, 1, 1], [1, 3, 1], [2, 1, 1], [1, 1, 5], [1, 3, 5], [2, 3, 5]] {
            let count: usize = limit_shape.iter().product();
            let limits = [-8., 5., -1., 1.].map(|base: f32| {
                let limit: Vec<f32> = (0..count).map(|it| base + it as f32 * 0.1).collect();
                Tensor::from_shape(&limit_shape, &limit).unwrap()
            });
            let mut inputs = tvec!(x.clone().into_tvalue());
            inputs.extend(limits.iter().map(|limit| limit.clone().into_tvalue()));
            let output = op.eval(inputs).unwrap();
            let output = output.to_plain_array_view::<f32>().unwrap().to_owned();
            let wide = limits.map(|limit| limit.broadcast_to_shape(&shape).unwrap());
            for (at, y) in output.iter().enumerate() {
                let of = |tensor: &Tensor| {
                    tensor.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap()[at]
                };
                let limits = [of(&wide[0]), of(&wide[1]), of(&wide[2]), of(&wide[3])];
                assert_eq!(*y, op.number(of(&x), limits), "{limit_shape:?} {at}");
            }
        }
    }
}
