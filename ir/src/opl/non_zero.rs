use tract_core::internal::*;
use tract_core::tract_data::half::f16;
use tract_openvino_kernels::checks::expect_inputs;

use super::{check_volume, dispatch_number, impl_op};

/// NonZero-3: the coordinates of the elements that are not zero, as `i64` of shape `[rank, count]`. A column has those of
/// one element; columns are in the order of the elements.
///
/// How many there are is only known when the model runs: `count` is their number, a symbol that no other operator has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NonZero {
    pub count: Symbol,
}

/// The places of the elements that are not zero.
fn places<T: Datum + PartialEq>(input: &Tensor, zero: T) -> TractResult<Vec<usize>> {
    let plain = input.try_as_plain_ram()?;
    let elements = plain.as_slice::<T>()?.iter().enumerate();
    Ok(elements.filter(|(_, element)| **element != zero).map(|(place, _)| place).collect())
}

fn places_of_numbers<T: Datum + PartialEq + Default>(input: &Tensor) -> TractResult<Vec<usize>> {
    places(input, T::default())
}

impl_op!(NonZero, "NonZero", mints_runtime_symbols = |_| true);

impl EvalOp for NonZero {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let places = match input.datum_type() {
            DatumType::Bool => places(&input, false)?,
            dt => dispatch_number!(places_of_numbers(dt)(&input))?,
        };
        let shape = [input.rank(), places.len()];
        check_volume("NonZero", DatumType::I64, &shape)?;
        let mut output = Tensor::zero::<i64>(&shape)?;
        if !places.is_empty() {
            let mut view = output.try_as_plain_ram_mut()?;
            let rows = view.as_slice_mut::<i64>()?.chunks_exact_mut(places.len());
            let mut stride = 1;
            // From the last axis on: the row of an axis has the index of each place along it.
            for (row, size) in rows.zip(input.shape()).rev() {
                for (index, place) in row.iter_mut().zip(&places) {
                    *index = (place / stride % size) as i64;
                }
                stride *= size;
            }
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for NonZero {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data] = expect_inputs("NonZero", ["data"], inputs)?;
        Ok(tvec!(i64::fact([data.rank().to_dim(), self.count.to_dim()])))
    }

    as_op!();
}
