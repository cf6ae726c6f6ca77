//! Masks that say what attention keeps, as numbers that are added to scores.

use tract_core::internal::*;

use crate::checks::expect_data;
use crate::cost;
use crate::memory::{LINE, filled_output};
use crate::threads::fill_rows;

/// What is added to scores that are kept where a mask is true, and hidden elsewhere: 0, and negative infinity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AddendOfKept;

impl_plain_op!(AddendOfKept, "AddendOfKept");

impl AddendOfKept {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let keep = args_1!(inputs);
        let kept = keep.try_as_plain_ram()?.as_slice::<bool>()?;
        filled_output("AddendOfKept", keep.shape(), |output: &mut [f32]| {
            fill_rows(output, LINE, cost::ELEMENT.of(kept.len()), |first, output| {
                for (place, keep) in output.iter_mut().zip(&kept[first * LINE..]) {
                    *place = if *keep { 0. } else { f32::NEG_INFINITY };
                }
                Ok(())
            })
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let keep = expect_data("AddendOfKept", DatumType::Bool, inputs)?;
        Ok(f32::fact(&*keep.shape))
    }
}
