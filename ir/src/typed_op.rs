//! What the typed operators of this crate have in common: macros for methods of theirs, and readers of their inputs.

use tract_core::internal::*;
use tract_openvino_kernels::checks::known_size;
pub(crate) use tract_openvino_kernels::{impl_op, impl_pass_through, impl_plain_op};

/// The integers of a tensor. A `u64` that is too large becomes the largest `i64`, which is out of every
/// range, too.
pub(crate) fn integers(tensor: &Tensor, symbols: &SymbolValues) -> TractResult<Vec<i64>> {
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
pub(crate) fn floats(tensor: &Tensor) -> TractResult<Vec<f32>> {
    Ok(tensor.cast_to::<f32>()?.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
}

/// The size that a dimension has in a run, or 0 if nobody knows it.
pub(crate) fn size_or_0(dim: &TDim, symbols: &SymbolValues) -> TractResult<usize> {
    let dim = dim.eval(symbols);
    if dim.as_i64().is_none() { Ok(0) } else { known_size(&dim) }
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
pub(crate) use dispatch_number;

/// [`TypedOp::set_symbols`] for an operator whose dimensions are in these fields.
macro_rules! set_symbols {
    ($($field:ident),*) => {
        fn set_symbols(
            &self,
            _source: &TypedModel,
            node: &TypedNode,
            target: &mut TypedModel,
            mapping: &HashMap<OutletId, OutletId>,
            values: &HashMap<Symbol, TDim>,
        ) -> TractResult<TVec<OutletId>> {
            use $crate::typed_op::SetSymbols as _;
            let mut op = self.clone();
            $(op.$field.set_symbols(values)?;)*
            let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
            target.wire_node(&node.name, op, &inputs)
        }
    };
}
pub(crate) use set_symbols;

/// [`TypedOp::change_axes`] for an operator that becomes another one when the axes of its data change so, or `None` if there is none.
macro_rules! change_axes {
    (|$op:ident, $change:ident| $changed:expr) => {
        fn change_axes(
            &self,
            model: &TypedModel,
            node: &TypedNode,
            _io: InOut,
            $change: &AxisOp,
        ) -> TractResult<Option<AxisChangeConsequence>> {
            let $op = self;
            let changed = || -> TractResult<Option<Self>> { $changed };
            let op = changed()?.map(|op| Some(Box::new(op) as Box<dyn TypedOp>));
            Ok(op.map(|op| AxisChangeConsequence::new(model, node, op, $change)))
        }
    };
}
pub(crate) use change_axes;

/// The parts of operators that have dimensions: symbols in them get their values.
pub(crate) trait SetSymbols {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()>;
}

impl SetSymbols for TDim {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        *self = self.substitute_all(values)?;
        Ok(())
    }
}

impl<T: SetSymbols> SetSymbols for [T] {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        self.iter_mut().try_for_each(|it| it.set_symbols(values))
    }
}

impl<T: SetSymbols> SetSymbols for (usize, T) {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        self.1.set_symbols(values)
    }
}

impl SetSymbols for ShapeFact {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        let mut dims = self.to_tvec();
        dims.set_symbols(values)?;
        *self = dims.into();
        Ok(())
    }
}

impl SetSymbols for TypedFact {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        let mut shape = self.shape.clone();
        shape.set_symbols(values)?;
        *self = self.datum_type.fact(shape);
        Ok(())
    }
}

/// Checks that a result is an error, with this in its text.
#[cfg(test)]
#[track_caller]
pub(crate) fn fails<T>(result: TractResult<T>, expected: &str) {
    let error = result.err().map_or_else(String::new, |error| format!("{error:#}"));
    assert!(error.contains(expected), "{expected:?} is not in {error:?}");
}

/// The operators that a model has on the kernels, if this one stands between levels and a pool. The data is `NCHW`, with `H` open.
#[cfg(test)]
pub(crate) fn between_codes(op: impl Fn(&Symbol) -> Box<dyn TypedOp>) -> TractResult<Vec<String>> {
    use tract_core::ops::cnn::{MaxPool, PaddingSpec, PoolSpec};
    use tract_core::ops::nn::DataFormat;
    use tract_openvino_kernels::{FakeQuantize, KernelsTransform};

    let mut model = TypedModel::default();
    let h = model.symbols.sym("H");
    let shape = [1.to_dim(), 4.to_dim(), h.to_dim(), 6.to_dim()];
    let data = model.add_source("data", f32::fact(shape))?;
    let low = model.add_const("low", Tensor::from_shape(&[1; 4], &[-1f32])?)?;
    let high = model.add_const("high", Tensor::from_shape(&[1; 4], &[1f32])?)?;
    let levels = FakeQuantize { levels: 256 };
    let coded = model.wire_node("coded", levels, &[data, low, high, low, high])?;
    let between = model.wire_node("between", op(&h), &coded)?;
    let (format, padding) = (DataFormat::NCHW, PaddingSpec::Valid);
    let spec = PoolSpec::new(format, tvec![2, 2], padding, None, None, 4, 4);
    let pool = model.wire_node("pool", MaxPool::new(spec, None), &between)?;
    model.select_output_outlets(&pool)?;
    let numbers: Vec<f32> = (0..4 * 5 * 6).map(|it| (it * 37 % 101) as f32 / 50. - 1.).collect();
    let input = Tensor::from_shape(&[1, 4, 5, 6], &numbers)?.into_tvalue();
    let expected = model.clone().into_runnable()?.run(tvec!(input.clone()))?;
    KernelsTransform::default().transform_with_decisions(&mut model)?;
    let model = model.into_optimized()?;
    let operators = model.eval_order()?.into_iter().map(|id| model.node(id).op.name().to_string());
    let operators = operators.collect();
    let found = model.into_runnable()?.run(tvec!(input))?;
    found[0].close_enough(&expected[0], Approximation::Close)?;
    Ok(operators)
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
