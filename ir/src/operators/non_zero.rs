use tract_core::internal::*;
use tract_core::tract_data::half::f16;
use tract_openvino_kernels::checks::expect_inputs;

use super::{check_volume, dispatch_number, impl_plain_op};

/// NonZero-3: the coordinates of the elements that are not zero, as `i64` of shape `[rank, count]`. A column has those of
/// one element; columns are in the order of the elements.
///
/// How many there are is only known when the model runs: `count` is their number, a symbol that no other operator has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NonZero {
    pub count: Symbol,
}

/// Calls a function with the place of each element that is not zero.
fn each_place<T: Datum + PartialEq + Default>(
    input: &Tensor,
    see: &mut dyn FnMut(usize),
) -> TractResult<()> {
    let plain = input.try_as_plain_ram()?;
    let elements = plain.as_slice::<T>()?.iter().enumerate();
    elements.filter(|(_, element)| **element != T::default()).for_each(|(place, _)| see(place));
    Ok(())
}

fn places(input: &Tensor, see: &mut dyn FnMut(usize)) -> TractResult<()> {
    match input.datum_type() {
        DatumType::Bool => each_place::<bool>(input, see),
        dt => dispatch_number!(each_place(dt)(input, see)),
    }
}

/// The shape of the coordinates, which takes no memory to know.
pub(crate) fn shape_of_coordinates(input: &Tensor) -> TractResult<[usize; 2]> {
    let mut count = 0;
    places(input, &mut |_| count += 1)?;
    Ok([input.rank(), count])
}

/// The coordinates of the elements that are not zero.
pub(crate) fn coordinates(input: &Tensor) -> TractResult<Tensor> {
    let shape = shape_of_coordinates(input)?;
    check_volume("NonZero", DatumType::I64, &shape)?;
    let mut output = Tensor::zero::<i64>(&shape)?;
    let [_, count] = shape;
    if count == 0 {
        return Ok(output);
    }
    let mut view = output.try_as_plain_ram_mut()?;
    let output_slice = view.as_slice_mut::<i64>()?;
    let mut column = 0;
    places(input, &mut |mut place| {
        // From the last axis on: the row of an axis has the index of the place along it.
        for (row, size) in input.shape().iter().enumerate().rev() {
            output_slice[row * count + column] = (place % size) as i64;
            place /= size;
        }
        column += 1;
    })?;
    Ok(output)
}

impl_plain_op!(NonZero, "NonZero", mints_runtime_symbols = |_| true);

impl NonZero {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        Ok(tvec!(coordinates(&input)?.into_tvalue()))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data] = expect_inputs("NonZero", ["data"], inputs)?;
        Ok(tvec!(i64::fact([data.rank().to_dim(), self.count.to_dim()])))
    }
}
