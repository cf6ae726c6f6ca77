//! Operators that tract does not have, or that fail there for values that a model may have. Those in `nnef.rs`
//! can be saved to NNEF; the others cannot.

pub(crate) mod activation;
pub(crate) mod adaptive_pool;
pub(crate) mod addressing;
pub(crate) mod arithmetic;
pub(crate) mod bound;
pub(crate) mod control;
pub(crate) mod ctc;
pub(crate) mod ctc_loss;
pub(crate) mod deformable;
pub(crate) mod detection;
pub(crate) mod empty;
pub(crate) mod equal_shape;
pub(crate) mod fake_quantize;
pub(crate) mod grid_sample;
pub(crate) mod interpolate;
pub(crate) mod inverse;
pub(crate) mod least_sizes;
pub(crate) mod non_zero;
pub(crate) mod opaque;
pub(crate) mod overlap_add;
pub(crate) mod random_uniform;
pub(crate) mod range;
pub(crate) mod reduction;
pub(crate) mod reverse_sequence;
pub(crate) mod scatter;
pub(crate) mod search_sorted;
pub(crate) mod segments;
pub(crate) mod slice_scatter;
pub(crate) mod sparse_fill_empty_rows;
pub(crate) mod take;
pub(crate) mod top_k;
pub(crate) mod unique;
pub(crate) mod variable;

mod number;

use tract_core::internal::*;
pub(crate) use tract_openvino_kernels::checks::{check_volume, checked_volume};

/// The integers of a tensor. A `u64` that is too large becomes the largest `i64`, which is out of every
/// range, too.
fn integers(tensor: &Tensor, symbols: &SymbolValues) -> TractResult<Vec<i64>> {
    let dt = tensor.datum_type();
    match dt {
        DatumType::TDim => {
            let dims = tensor.try_as_plain_ram()?;
            dims.as_slice::<TDim>()?.iter().map(|dim| dim.eval_to_i64(symbols)).collect()
        }
        DatumType::U64 => {
            let numbers = tensor.try_as_plain_ram()?;
            let number = |number: &u64| i64::try_from(*number).unwrap_or(i64::MAX);
            Ok(numbers.as_slice::<u64>()?.iter().map(number).collect())
        }
        _ if dt.is_integer() => {
            Ok(tensor.cast_to::<i64>()?.try_as_plain_ram()?.as_slice::<i64>()?.to_vec())
        }
        _ => bail!("the type is {dt:?}, but must be an integer type"),
    }
}

/// The elements of a tensor of numbers, in single precision.
fn floats(tensor: &Tensor) -> TractResult<Vec<f32>> {
    Ok(tensor.cast_to::<f32>()?.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
}

/// The one element of a tensor, in another type. tract's own method reads beyond a tensor without elements.
pub(crate) fn one_element<T: Datum + Copy>(tensor: &Tensor) -> TractResult<T> {
    ensure!(
        tensor.len() == 1,
        "the shape is {:?}, but must be that of one element",
        tensor.shape()
    );
    tensor.cast_to_scalar()
}

/// Whether tensors of a type have zeros: numbers and booleans.
pub(crate) fn has_zero(dt: DatumType) -> bool {
    dt.is_number() || dt == DatumType::Bool
}

/// Calls a function with the type of numbers that a [`DatumType`] stands for.
macro_rules! dispatch_number {
    ($function:ident($dt:expr)($($argument:expr),*)) => {
        match $dt {
            DatumType::F16 => $function::<f16>($($argument),*),
            DatumType::F32 => $function::<f32>($($argument),*),
            DatumType::F64 => $function::<f64>($($argument),*),
            DatumType::I8 => $function::<i8>($($argument),*),
            DatumType::I16 => $function::<i16>($($argument),*),
            DatumType::I32 => $function::<i32>($($argument),*),
            DatumType::I64 => $function::<i64>($($argument),*),
            DatumType::U8 => $function::<u8>($($argument),*),
            DatumType::U16 => $function::<u16>($($argument),*),
            DatumType::U32 => $function::<u32>($($argument),*),
            DatumType::U64 => $function::<u64>($($argument),*),
            dt => bail!("the type is {dt:?}, but must be numeric"),
        }
    };
}
use dispatch_number;

/// The method of [`TypedOp`] in which symbols get their values: `$substituted` is the operator with them.
macro_rules! set_symbols {
    (|$op:ident, $values:ident| $substituted:expr) => {
        fn set_symbols(
            &self,
            _source: &TypedModel,
            node: &TypedNode,
            target: &mut TypedModel,
            mapping: &HashMap<OutletId, OutletId>,
            $values: &HashMap<Symbol, TDim>,
        ) -> TractResult<TVec<OutletId>> {
            let $op = self;
            let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
            target.wire_node(&node.name, $substituted, &inputs)
        }
    };
}
pub(crate) use set_symbols;

/// Dimensions in which symbols have got their values.
pub(crate) fn substituted<'a>(
    dims: impl IntoIterator<Item = &'a TDim>,
    values: &HashMap<Symbol, TDim>,
) -> TractResult<TVec<TDim>> {
    dims.into_iter().map(|dim| dim.substitute_all(values)).collect()
}

/// What is known of outputs in which symbols have got their values.
pub(crate) fn substituted_facts(
    facts: &[TypedFact],
    values: &HashMap<Symbol, TDim>,
) -> TractResult<TVec<TypedFact>> {
    let fact = |fact: &TypedFact| Ok(fact.datum_type.fact(substituted(fact.shape.iter(), values)?));
    facts.iter().map(fact).collect()
}

/// Checks that a result is an error, with this in its text.
#[cfg(test)]
#[track_caller]
pub(crate) fn fails<T>(result: TractResult<T>, expected: &str) {
    let error = result.err().map_or_else(String::new, |error| format!("{error:#}"));
    assert!(error.contains(expected), "{expected:?} is not in {error:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_element_and_none() {
        assert_eq!(one_element::<i64>(&tensor2(&[[7u8]])).unwrap(), 7);
        one_element::<i64>(&Tensor::zero::<i64>(&[0]).unwrap()).unwrap_err();
        one_element::<i64>(&tensor1(&[1, 2])).unwrap_err();
    }
}
