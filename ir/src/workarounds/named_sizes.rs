use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_input_count;

use crate::typed_op::{impl_op, integers, set_symbols};

/// Gives symbols the values of integers that the model computes.
///
/// tract gives symbols their values by the shapes of tensors. So the output has these integers as its shape, and one axis
/// more without elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NamedSizes {
    /// A symbol for each integer.
    pub sizes: TVec<TDim>,
    /// A symbol for each integer, with its absolute value if it is negative. The one in `sizes` is 0 then. None if no integer may
    /// be negative.
    pub negative: TVec<TDim>,
}

impl_op!(NamedSizes, "OpenVinoNamedSizes", mints_runtime_symbols = |_| true);

impl EvalOp for NamedSizes {
    // The symbols get their values in a plan.
    not_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        expect_input_count("NamedSizes", inputs.len(), 1..=1)?;
        let integers = integers(&inputs[0], ctx.symbols)?;
        ensure!(
            integers.len() == self.sizes.len(),
            "NamedSizes: the input has {} elements, but must have {}",
            integers.len(),
            self.sizes.len()
        );
        let mut shape: TVec<usize> = tvec!();
        for integer in &integers {
            let least = if self.negative.is_empty() { 0 } else { -MOST };
            ensure!(
                (least..=MOST).contains(integer),
                "a size that the model computes is {integer}, but must be in [{least}, {MOST}]"
            );
            shape.push(usize::try_from(*integer).unwrap_or(0));
        }
        if !self.negative.is_empty() {
            shape.extend(integers.iter().map(|integer| usize::try_from(-integer).unwrap_or(0)));
        }
        shape.push(0);
        Ok(tvec!(Tensor::zero::<u8>(&shape)?.into_tvalue()))
    }
}

/// The largest size: no axis of a tensor in memory has more elements.
const MOST: i64 = i32::MAX as i64;

impl TypedOp for NamedSizes {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("NamedSizes", inputs.len(), 1..=1)?;
        let shape = self.sizes.iter().chain(&self.negative).cloned().chain([0.to_dim()]);
        Ok(tvec!(u8::fact(shape.collect::<TVec<TDim>>())))
    }

    set_symbols!(sizes, negative);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(negative: bool) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let symbol = |name| model.symbols.sym(name).to_dim();
        let (size, below) = (symbol("size"), symbol("below"));
        let input = model.add_source("input", i64::fact([1]))?;
        let data = model.add_source("data", f32::fact([1]))?;
        let below = if negative { tvec!(below) } else { tvec!() };
        let op = NamedSizes { sizes: tvec!(size.clone()), negative: below.clone() };
        let named = model.wire_node("named", op, &[input])?;
        let shape = tvec![below.iter().fold(size, |size, below| size - below) + 3];
        let op = tract_core::ops::array::MultiBroadcastTo { shape: shape.into() };
        let output = model.wire_node("output", op, &[data])?;
        model.select_output_outlets(&[output[0], named[0]])?;
        Ok(model)
    }

    #[test]
    fn integers_become_sizes() -> TractResult<()> {
        let run = |negative, integer: i64| -> TractResult<usize> {
            let model = named(negative)?.into_optimized()?.into_runnable()?;
            let inputs = tvec!(tensor1(&[integer]).into(), tensor1(&[1f32]).into());
            Ok(model.run(inputs)?[0].len())
        };
        assert_eq!(run(false, 0)?, 3);
        assert_eq!(run(false, 2)?, 5);
        assert_eq!(run(true, 2)?, 5);
        assert_eq!(run(true, -2)?, 1);
        for (negative, integer) in [(false, -1), (true, i64::MIN), (false, i64::MAX)] {
            let error = format!("{:#}", run(negative, integer).unwrap_err());
            assert!(error.contains(&format!("computes is {integer}, but must be in [")), "{error}");
        }
        Ok(())
    }
}
