use tract_core::internal::*;

use crate::checks::expect_input_count;
use crate::memory::{LINE, unwritten_output};
use crate::threads::fill_rows;

/// What is added to scores that are kept where a mask is true, and hidden elsewhere: 0, and negative infinity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddendOfKept;

impl Op for AddendOfKept {
    fn name(&self) -> StaticName {
        "AddendOfKept".into()
    }

    op_as_typed_op!();
}

impl EvalOp for AddendOfKept {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let keep = args_1!(inputs);
        let kept = keep.try_as_plain_ram()?.as_slice::<bool>()?;
        // SAFETY: each element is written.
        #[allow(unsafe_code)]
        let mut output = unsafe { unwritten_output::<f32>("AddendOfKept", keep.shape())? };
        let mut view = output.try_as_plain_ram_mut()?;
        fill_rows(view.as_slice_mut::<f32>()?, LINE, kept.len(), |first, output| {
            for (place, keep) in output.iter_mut().zip(&kept[first * LINE..]) {
                *place = if *keep { 0. } else { f32::NEG_INFINITY };
            }
            TractResult::Ok(())
        })?;
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for AddendOfKept {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("AddendOfKept", inputs.len(), 1..=1)?;
        ensure!(
            inputs[0].datum_type == DatumType::Bool,
            "AddendOfKept: the mask is {:?}, but must be of type Bool",
            inputs[0]
        );
        Ok(tvec!(f32::fact(&*inputs[0].shape)))
    }

    as_op!();
}
