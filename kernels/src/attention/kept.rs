use tract_core::internal::*;

use crate::checks::expect_input_count;
use crate::cost;
use crate::memory::{LINE, new_output};
use crate::threads::fill_rows;

/// What is added to scores that are kept where a mask is true, and hidden elsewhere: 0, and negative infinity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddendOfKept;

impl_plain_op!(AddendOfKept, "AddendOfKept");

impl AddendOfKept {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let keep = args_1!(inputs);
        let kept = keep.try_as_plain_ram()?.as_slice::<bool>()?;
        let mut output = new_output::<f32>("AddendOfKept", keep.shape())?;
        let mut view = output.try_as_plain_ram_mut()?;
        let work = cost::ELEMENT.of(kept.len());
        fill_rows(view.as_slice_mut::<f32>()?, LINE, work, |first, output| {
            for (place, keep) in output.iter_mut().zip(&kept[first * LINE..]) {
                *place = if *keep { 0. } else { f32::NEG_INFINITY };
            }
            TractResult::Ok(())
        })?;
        Ok(tvec!(output.into_tvalue()))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("AddendOfKept", inputs.len(), 1..=1)?;
        ensure!(
            inputs[0].datum_type == DatumType::Bool,
            "AddendOfKept: the mask is {:?}, but must be of type Bool",
            inputs[0]
        );
        Ok(tvec!(f32::fact(&*inputs[0].shape)))
    }
}
