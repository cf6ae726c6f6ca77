use std::cmp::Ordering;

use tract_core::internal::*;

use super::{check_volume, dispatch_number, impl_op, integers, set_symbols};

/// The `k` greatest or least elements along an axis, and their positions of type `i64`.
///
/// Of equal elements the first ones are taken, and come first. NaN counts as greater than all numbers, as in
/// NumPy: tract's operator may panic there. Inputs are `data` and, if it is not a constant, `k`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TopK {
    pub axis: usize,
    pub greatest: bool,
    /// Whether the output has the order of the input, and not that of the values.
    pub by_position: bool,
    /// A constant, or a symbol that only this node has.
    pub k: TDim,
    pub k_is_input: bool,
}

impl_op!(
    TopK,
    "OpenVinoTopK",
    info = |op| {
        let which = if op.greatest { "greatest" } else { "least" };
        vec![format!("axis: {}, the {} {which}", op.axis, op.k)]
    },
    mints_runtime_symbols = |op| op.k_is_input
);

impl EvalOp for TopK {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let k = match inputs.get(1) {
            None => self.k.eval_to_i64(ctx.symbols)?,
            Some(k) => *integers(k, ctx.symbols)?.first().context("k has no element")?,
        };
        let data = &inputs[0];
        let size = data.shape()[self.axis];
        let k = usize::try_from(k).ok().filter(|k| *k <= size).with_context(|| {
            format!(
                "TopK: k is {k}, but must be in [0, {size}], as axis {} has that size",
                self.axis
            )
        })?;
        let (values, positions) = dispatch_number!(top_k(data.datum_type())(self, data, k))?;
        Ok(tvec!(values.into_tvalue(), positions.into_tvalue()))
    }
}

fn top_k<T: Datum + Copy + PartialOrd + Default>(
    op: &TopK,
    data: &Tensor,
    k: usize,
) -> TractResult<(Tensor, Tensor)> {
    let size = data.shape()[op.axis];
    let inner: usize = data.shape()[op.axis + 1..].iter().product();
    let mut shape: TVec<usize> = data.shape().into();
    shape[op.axis] = k;
    let volume = check_volume("TopK", DatumType::I64, &shape)?;
    let (mut values, mut positions) = (vec![T::default(); volume], vec![0i64; volume]);
    let data = data.try_as_plain_ram()?;
    let data = data.as_slice::<T>()?;
    // Without anything to take there are no blocks.
    let blocks = if volume == 0 { 0 } else { data.len() / (size * inner) };
    let mut line: Vec<(T, usize)> = vec![];
    let by_value = |a: &(T, usize), b: &(T, usize)| {
        let order = compare(&a.0, &b.0);
        let order = if op.greatest { order.reverse() } else { order };
        order.then(a.1.cmp(&b.1))
    };
    for block in 0..blocks {
        for column in 0..inner {
            line.clear();
            let start = block * size * inner + column;
            line.extend((0..size).map(|position| (data[start + position * inner], position)));
            if k < size {
                line.select_nth_unstable_by(k, by_value);
            }
            let taken = &mut line[..k];
            match op.by_position {
                true => taken.sort_unstable_by_key(|(_, position)| *position),
                false => taken.sort_unstable_by(by_value),
            }
            for (number, (value, position)) in taken.iter().enumerate() {
                let target = (block * k + number) * inner + column;
                values[target] = *value;
                positions[target] = *position as i64;
            }
        }
    }
    Ok((Tensor::from_shape(&shape, &values)?, Tensor::from_shape(&shape, &positions)?))
}

/// A total order: NaN is the greatest.
pub(super) fn compare<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    let is_nan = |value: &T| value.partial_cmp(value).is_none();
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

impl TypedOp for TopK {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.to_tvec();
        ensure!(
            self.axis < shape.len(),
            "TopK: axis is {}, but must be in [0, {})",
            self.axis,
            shape.len()
        );
        if let (Some(k), Some(size)) = (self.k.as_i64(), shape[self.axis].as_i64()) {
            ensure!(
                (0..=size).contains(&k),
                "TopK: k is {k}, but must be in [0, {size}], as axis {} has that size",
                self.axis
            );
        }
        shape[self.axis] = self.k.clone();
        Ok(tvec!(inputs[0].datum_type.fact(&shape), i64::fact(&shape)))
    }

    set_symbols!(k);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;
    use model_cases::MANY;

    fn run(op: &TopK, data: Tensor) -> TractResult<TVec<TValue>> {
        op.eval(&EvalContext::out_of_plan(), tvec!(data.into_tvalue()))
    }

    fn op(k: i64, greatest: bool, by_position: bool) -> TopK {
        TopK { axis: 1, greatest, by_position, k: k.to_dim(), k_is_input: false }
    }

    #[test]
    fn nan_is_the_greatest_and_nothing_panics() {
        let numbers: Vec<f32> =
            (0..100).map(|number| if number % 3 == 0 { f32::NAN } else { number as f32 }).collect();
        let data = tensor1(&numbers).into_shape(&[1, 100]).unwrap();
        let found = run(&op(35, true, false), data.clone()).unwrap();
        let positions = found[1].try_as_plain_ram().unwrap();
        let positions = positions.as_slice::<i64>().unwrap().to_vec();
        let nans: Vec<i64> = (0..34).map(|number| number * 3).collect();
        assert_eq!(positions[..34], nans);
        assert_eq!(positions[34], 98);
        let found = run(&op(2, false, false), data).unwrap();
        assert_eq!(*found[0], tensor2(&[[1f32, 2.]]));
    }

    #[test]
    fn first_of_equal_elements_in_either_order() {
        let data = tensor2(&[[1, 3, 3, 1, 3]]);
        let found = run(&op(4, true, false), data.clone()).unwrap();
        assert_eq!(*found[1], tensor2(&[[1i64, 2, 4, 0]]));
        let found = run(&op(4, true, true), data).unwrap();
        assert_eq!(*found[1], tensor2(&[[0i64, 1, 2, 4]]));
        assert_eq!(*found[0], tensor2(&[[1, 3, 3, 3]]));
    }

    #[test]
    fn no_elements_and_too_many() {
        let empty = Tensor::zero::<f32>(&[0, 3]).unwrap();
        assert_eq!(run(&op(2, true, false), empty).unwrap()[0].shape(), [0, 2]);
        let long_and_empty = Tensor::zero::<f32>(&[0, MANY]).unwrap();
        assert_eq!(run(&op(2, true, false), long_and_empty).unwrap()[0].shape(), [0, 2]);
        let data = tensor2(&[[1, 2]]);
        assert_eq!(run(&op(0, true, false), data.clone()).unwrap()[0].shape(), [1, 0]);
        fails(run(&op(3, true, false), data.clone()), "k is 3, but must be in [0, 2]");
        fails(run(&op(-1, true, false), data), "k is -1, but must be in [0, 2]");
    }
}
