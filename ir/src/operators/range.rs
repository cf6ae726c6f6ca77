use tract_core::internal::*;

use super::set_symbols;

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

/// The most elements of a range. Its ends come from tensors, which may have any numbers.
const MOST: usize = 1 << 28;

impl Range {
    /// `len` is the length, or a symbol that stands for it.
    pub fn new(dt: DatumType, len: TDim) -> Range {
        Range { dt, len }
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

fn len(distance: f64, step: f64) -> TractResult<usize> {
    ensure!(step != 0. && !step.is_nan(), "Range: step is {step}, but must not be 0");
    let len = (distance / step).ceil();
    ensure!(!len.is_nan() && len <= MOST as f64, "Range: {len} elements are more than {MOST}");
    Ok(len.max(0.) as usize)
}

impl Op for Range {
    fn name(&self) -> StaticName {
        "OpenVinoRange".into()
    }

    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    op_as_typed_op!();
}

impl EvalOp for Range {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let number = |tensor: &TValue| -> TractResult<Tensor> {
            if tensor.datum_type().is_tdim() {
                let dim = tensor.try_as_plain_ram()?.as_slice::<TDim>()?[0].eval(ctx.symbols);
                return Ok(tensor0(dim.to_i64()?));
            }
            Ok(tensor.clone().into_tensor())
        };
        let inputs = inputs.iter().map(number).collect::<TractResult<TVec<Tensor>>>()?;
        let output = if self.dt.is_float() {
            let mut floats = tvec!();
            for input in &inputs {
                floats.push(input.cast_to::<f64>()?.try_as_plain_ram()?.as_slice::<f64>()?[0]);
            }
            let (start, stop, step) = (floats[0], floats[1], floats[2]);
            let numbers = (0..len(stop - start, step)?).map(|i| start + i as f64 * step);
            tensor1(&numbers.collect::<Vec<f64>>())
        } else {
            let mut integers = tvec!();
            for input in &inputs {
                integers.push(input.cast_to::<i64>()?.try_as_plain_ram()?.as_slice::<i64>()?[0]);
            }
            let (start, stop, step) = (integers[0], integers[1], integers[2]);
            let len = len((i128::from(stop) - i128::from(start)) as f64, step as f64)?;
            // The last is before stop, so that nothing overflows.
            let numbers = (0..len as i64).map(|i| start.wrapping_add(i.wrapping_mul(step)));
            tensor1(&numbers.collect::<Vec<i64>>())
        };
        Ok(tvec!(output.cast_to_dt(self.dt)?.into_owned().into_tvalue()))
    }
}

impl TypedOp for Range {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(
            inputs.len() == 3,
            "Range: got {} inputs, expected start, stop and step",
            inputs.len()
        );
        Ok(tvec!(self.dt.fact([self.len.clone()])))
    }

    set_symbols!(|op, values| Range { len: op.len.substitute_all(values)?, ..op.clone() });

    as_op!();
}
