use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_input_count, expect_inputs};

use super::{check_volume, impl_op, integers, set_symbols};
use crate::limits::MAX_STATED_ELEMENTS;

/// Range-1 and Range-4: numbers in steps, whose ends may only be known when the model runs.
///
/// Inputs: start, stop and step, one element each, of any types that are numbers. Output: rank 1, the
/// elements `start + i * step` that come before `stop`.
///
/// tract's own operator ignores the sign of the distance from start to stop, and adds up rounding errors of
/// floats. Besides, tract knows what its elements are. If they make a mask, it leaves out parts of products,
/// and fails to run them for sizes that are symbols.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    dt: DatumType,
    len: TDim,
}

impl Range {
    /// `len` is the length, or a symbol that stands for it.
    pub fn new(dt: DatumType, len: TDim) -> Range {
        Range { dt, len }
    }

    /// The number of elements of a range of this type. `ends` are start, stop and step.
    pub fn count<T: std::ops::Deref<Target = Tensor>>(
        dt: DatumType,
        ends: &[T],
    ) -> TractResult<usize> {
        if dt.is_float() {
            let [start, stop, step] = numbers::<f64, T>(ends)?;
            return len(stop - start, step);
        }
        let [start, stop, step] = numbers::<i64, T>(ends)?;
        len((i128::from(stop) - i128::from(start)) as f64, step as f64)
    }

    /// The type of its elements.
    #[cfg(feature = "nnef")]
    pub fn dt(&self) -> DatumType {
        self.dt
    }

    /// The length, or what it is called until it is known.
    #[cfg(feature = "nnef")]
    pub fn len(&self) -> &TDim {
        &self.len
    }
}

/// Start, stop and step.
fn numbers<N: Datum + Copy, T: std::ops::Deref<Target = Tensor>>(
    ends: &[T],
) -> TractResult<[N; 3]> {
    expect_input_count("Range", ends.len(), 3..=3)?;
    let number = |end: &T| -> TractResult<N> {
        ensure!(
            end.len() == 1,
            "Range: an input has shape {:?}, but must be one number",
            end.shape()
        );
        end.cast_to_scalar()
    };
    Ok([number(&ends[0])?, number(&ends[1])?, number(&ends[2])?])
}

fn len(distance: f64, step: f64) -> TractResult<usize> {
    ensure!(step != 0. && !step.is_nan(), "Range: step is {step}, but must not be 0");
    let len = (distance / step).ceil();
    ensure!(
        !len.is_nan() && len <= MAX_STATED_ELEMENTS as f64,
        "Range: the output has {len} elements, but must have {MAX_STATED_ELEMENTS} or fewer"
    );
    Ok(len.max(0.) as usize)
}

impl_op!(Range, "OpenVinoRange", mints_runtime_symbols = |_| true);

impl EvalOp for Range {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let number = |tensor: &TValue| -> TractResult<TValue> {
            if tensor.datum_type().is_tdim() {
                return Ok(tensor1(&integers(tensor, ctx.symbols)?).into_tvalue());
            }
            Ok(tensor.clone())
        };
        let inputs = inputs.iter().map(number).collect::<TractResult<TVec<TValue>>>()?;
        let len = Range::count(self.dt, &inputs)?;
        check_volume("Range", DatumType::I64, &[len])?;
        let output = if self.dt.is_float() {
            let [start, _, step] = numbers::<f64, TValue>(&inputs)?;
            let numbers = (0..len).map(|i| start + i as f64 * step);
            tensor1(&numbers.collect::<Vec<f64>>())
        } else {
            let [start, _, step] = numbers::<i64, TValue>(&inputs)?;
            // The last is before stop, so that nothing overflows.
            let numbers = (0..len as i64).map(|i| start.wrapping_add(i.wrapping_mul(step)));
            tensor1(&numbers.collect::<Vec<i64>>())
        };
        Ok(tvec!(output.cast_to_dt(self.dt)?.into_owned().into_tvalue()))
    }
}

impl TypedOp for Range {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [_, _, _] = expect_inputs("Range", ["start", "stop", "step"], inputs)?;
        Ok(tvec!(self.dt.fact([self.len.clone()])))
    }

    set_symbols!(len);

    as_op!();
}
