use tract_core::broadcast::multi_broadcast;
use tract_core::internal::*;
use tract_ndarray::Zip;
use tract_openvino_kernels::checks::expect_inputs;

use super::{check_volume, impl_op};

/// FakeQuantize-1: rounds numbers between two limits to a number of levels, and maps these to other limits.
///
/// Inputs of type f32 and one rank, which are broadcast: data, input_low, input_high, output_low,
/// output_high. Numbers up to input_low become output_low, numbers above input_high become output_high. So
/// the input limits may be equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FakeQuantize {
    /// At least two.
    pub levels: u32,
}

impl FakeQuantize {
    fn number(&self, x: f32, limits: [f32; 4]) -> f32 {
        let [input_low, input_high, output_low, output_high] = limits;
        if x <= input_low.min(input_high) {
            return output_low;
        }
        if x > input_low.max(input_high) {
            return output_high;
        }
        let steps = (self.levels - 1) as f32;
        let level = ((x - input_low) / (input_high - input_low) * steps).round_ties_even();
        level / steps * (output_high - output_low) + output_low
    }
}

impl_op!(FakeQuantize, "OpenVinoFakeQuantize", info = |op| vec![format!("{} levels", op.levels)]);

impl EvalOp for FakeQuantize {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (x, input_low, input_high, output_low, output_high) = args_5!(inputs);
        let limits = [input_low, input_high, output_low, output_high];
        let mut shapes: TVec<&[usize]> = limits.iter().map(|limit| limit.shape()).collect();
        shapes.push(x.shape());
        let shape = multi_broadcast(&shapes)?;
        check_volume("FakeQuantize", DatumType::F32, &shape)?;
        let mut output = Tensor::zero::<f32>(&shape)?;
        let mut plain = output.try_as_plain_ram_mut()?;
        let view = plain.to_array_view_mut::<f32>()?;
        let zip = Zip::from(view).and_broadcast(x.to_plain_array_view::<f32>()?);
        // One scale for all numbers is the usual case, and ndarray is slow with five tensors.
        if limits.iter().all(|limit| limit.len() == 1) {
            let mut scalars = [0f32; 4];
            for (scalar, limit) in scalars.iter_mut().zip(&limits) {
                *scalar = limit.try_as_plain_ram()?.as_slice::<f32>()?[0];
            }
            zip.for_each(|y, x| *y = self.number(*x, scalars));
        } else {
            zip.and_broadcast(limits[0].to_plain_array_view::<f32>()?)
                .and_broadcast(limits[1].to_plain_array_view::<f32>()?)
                .and_broadcast(limits[2].to_plain_array_view::<f32>()?)
                .and_broadcast(limits[3].to_plain_array_view::<f32>()?)
                .for_each(|y, x, il, ih, ol, oh| *y = self.number(*x, [*il, *ih, *ol, *oh]));
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for FakeQuantize {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
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
        Ok(tvec!(f32::fact(multi_broadcast(&shapes)?)))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        AxesMapping::natural(inputs, outputs)
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opl::fails;

    #[test]
    fn outputs_of_open_shapes_have_a_limit() {
        let zeros = |shape: [usize; 2]| Tensor::zero::<f32>(&shape).unwrap().into_tvalue();
        let limit = zeros([1, 1 << 20]);
        let mut inputs = tvec![limit; 5];
        inputs[0] = zeros([1 << 20, 1]);
        let output = FakeQuantize { levels: 2 }.eval(&EvalContext::out_of_plan(), inputs);
        fails(output, "[1048576, 1048576] has more than");
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
    }
}
