use tract_core::internal::*;
use tract_core::ops::nn::Reduce;
use tract_ndarray::Axis;
use tract_openvino_kernels::checks::expect_input_count;

use super::number::Number;
use super::{change_axes, check_volume, impl_op};

/// Reductions that differ from tract's: of integers, of sizes, and of rows that may be empty.
///
/// tract adds integers as `i32` whatever their type, knows no mean of them, and divides by the size of the
/// last axis. Here integers wrap around at the ends of their own type, and a mean of them is rounded towards
/// zero. Reduced axes stay, of size 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Reduction {
    /// Ascending.
    pub axes: TVec<usize>,
    pub reducer: Reducer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reducer {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
}

/// What can be reduced.
trait Element: Datum {
    /// The reduction of an empty row.
    fn of_nothing(reducer: Reducer) -> Self;
    /// Reduces two elements to one. Those of a mean are added.
    fn combine(reducer: Reducer, a: Self, b: &Self) -> Self;
    /// The mean of elements, from their sum.
    fn divided(self, count: usize) -> Self;
}

impl<T: Number> Element for T {
    fn of_nothing(reducer: Reducer) -> T {
        match reducer {
            Reducer::Sum | Reducer::Mean => T::default(),
            Reducer::Prod => T::ONE,
            // As in OpenVINO: the largest of no floats is not infinite, but the least is.
            Reducer::Max => T::LEAST,
            Reducer::Min => T::GREATEST,
        }
    }

    fn combine(reducer: Reducer, a: T, b: &T) -> T {
        match reducer {
            Reducer::Sum | Reducer::Mean => a.add(*b),
            Reducer::Prod => a.mul(*b),
            Reducer::Max => a.max(*b),
            Reducer::Min => a.min(*b),
        }
    }

    fn divided(self, count: usize) -> T {
        self.truncated_mean_of(count)
    }
}

impl Element for TDim {
    fn of_nothing(reducer: Reducer) -> TDim {
        i64::of_nothing(reducer).to_dim()
    }

    fn combine(reducer: Reducer, a: TDim, b: &TDim) -> TDim {
        match reducer {
            Reducer::Sum | Reducer::Mean => a + b,
            Reducer::Prod => a * b,
            Reducer::Max => TDim::Max(vec![a, b.clone()]).simplify(),
            Reducer::Min => TDim::Min(vec![a, b.clone()]).simplify(),
        }
    }

    fn divided(self, count: usize) -> TDim {
        self / count
    }
}

impl Reduction {
    fn reduce<T: Element>(&self, input: &Tensor) -> TractResult<Tensor> {
        let reducer = self.reducer;
        let mut array = input.to_plain_array_view::<T>()?.to_owned();
        let mut count = 1;
        for axis in self.axes.iter().copied() {
            count *= array.shape()[axis];
            // Rows without elements take no memory, but their reductions do.
            let mut shape: TVec<usize> = array.shape().into();
            shape[axis] = 1;
            check_volume("Reduction", T::datum_type(), &shape)?;
            let reduced = array.map_axis(Axis(axis), |row| {
                let combined =
                    row.iter().skip(1).fold(row.first().cloned(), |combined, element| {
                        combined.map(|combined| T::combine(reducer, combined, element))
                    });
                combined.unwrap_or_else(|| T::of_nothing(reducer))
            });
            array = reduced.insert_axis(Axis(axis));
        }
        if reducer == Reducer::Mean {
            array.map_inplace(|sum| *sum = sum.clone().divided(count.max(1)));
        }
        Ok(array.into_tensor())
    }
}

impl_op!(
    Reduction,
    "OpenVinoReduction",
    info = |op| vec![format!("{:?} over axes {:?}", op.reducer, op.axes)]
);

impl EvalOp for Reduction {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let output = match input.datum_type() {
            DatumType::U8 => self.reduce::<u8>(&input),
            DatumType::U16 => self.reduce::<u16>(&input),
            DatumType::U32 => self.reduce::<u32>(&input),
            DatumType::U64 => self.reduce::<u64>(&input),
            DatumType::I8 => self.reduce::<i8>(&input),
            DatumType::I16 => self.reduce::<i16>(&input),
            DatumType::I32 => self.reduce::<i32>(&input),
            DatumType::I64 => self.reduce::<i64>(&input),
            DatumType::F32 => self.reduce::<f32>(&input),
            DatumType::F64 => self.reduce::<f64>(&input),
            DatumType::TDim => self.reduce::<TDim>(&input),
            dt => bail!("Reduction: the elements are of type {dt:?}, but must be numbers"),
        };
        Ok(tvec!(output?.into_tvalue()))
    }
}

impl Reduction {
    /// tract's reduction of the same axes.
    fn like_tract(&self) -> Reduce {
        Reduce { axes: self.axes.clone(), reducer: tract_core::ops::nn::Reducer::Sum }
    }
}

impl TypedOp for Reduction {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Reduction", inputs.len(), 1..=1)?;
        let mut shape = inputs[0].shape.to_tvec();
        for axis in &self.axes {
            let rank = inputs[0].rank();
            let dim = shape.get_mut(*axis);
            *dim.with_context(|| {
                format!("Reduction: axis is {axis}, but must be in [0, {rank})")
            })? = 1.to_dim();
        }
        Ok(tvec!(inputs[0].datum_type.fact(shape)))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        self.like_tract().axes_mapping(inputs, outputs)
    }

    change_axes!(|op, change| {
        let axes = op.axes.iter().map(|axis| change.transform_axis(*axis));
        let Some(mut axes) = axes.collect::<Option<TVec<usize>>>() else { return Ok(None) };
        axes.sort_unstable();
        Ok(Some(Reduction { axes, ..op.clone() }))
    });

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;
    use model_cases::TOO_MANY;

    fn reduced(input: Tensor, axes: &[usize], reducer: Reducer) -> Tensor {
        let op = Reduction { axes: axes.into(), reducer };
        let outputs = op.eval_out_of_plan(tvec!(input.into_tvalue())).unwrap().unwrap();
        outputs.into_iter().next().unwrap().into_tensor()
    }

    #[test]
    fn integers_keep_their_width() {
        let large = tensor2(&[[1i64 << 40, 1], [-3, -4]]);
        assert_eq!(
            reduced(large.clone(), &[1], Reducer::Sum),
            tensor2(&[[(1i64 << 40) + 1], [-7]])
        );
        assert_eq!(reduced(large, &[1], Reducer::Mean), tensor2(&[[1i64 << 39], [-3]]));
        assert_eq!(reduced(tensor1(&[i32::MAX, 1]), &[0], Reducer::Sum), tensor1(&[i32::MIN]));
        assert_eq!(reduced(tensor1(&[200u8, 100]), &[0], Reducer::Max), tensor1(&[200u8]));
    }

    #[test]
    fn axes_in_any_place() {
        let input = tensor3(&[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]);
        assert_eq!(reduced(input.clone(), &[0, 2], Reducer::Sum), tensor3(&[[[14], [22]]]));
        assert_eq!(reduced(input.clone(), &[1], Reducer::Prod), tensor3(&[[[3, 8]], [[35, 48]]]));
        assert_eq!(reduced(input.clone(), &[0, 1, 2], Reducer::Min), tensor3(&[[[1]]]));
        assert_eq!(reduced(input.clone(), &[], Reducer::Sum), input);
    }

    #[test]
    fn empty_rows() {
        let empty = Tensor::zero::<f32>(&[2, 0]).unwrap();
        assert_eq!(reduced(empty.clone(), &[1], Reducer::Sum), tensor2(&[[0f32], [0.]]));
        assert_eq!(reduced(empty, &[0], Reducer::Sum), Tensor::zero::<f32>(&[1, 0]).unwrap());
    }

    #[test]
    fn rows_without_elements() {
        for (shape, axes, expected) in [
            ([TOO_MANY, 0], &[1][..], format!("shape [{TOO_MANY}, 1]")),
            ([0, TOO_MANY], &[0, 1], format!("shape [1, {TOO_MANY}]")),
        ] {
            let op = Reduction { axes: axes.into(), reducer: Reducer::Sum };
            let empty = Tensor::zero::<f32>(&shape).unwrap().into_tvalue();
            fails(op.eval(&EvalContext::out_of_plan(), tvec!(empty)), &expected);
        }
    }

    #[test]
    fn sizes_stay_symbols() {
        let scope = SymbolScope::default();
        let n = scope.sym("N").to_dim();
        let sizes = tensor1(&[2.to_dim(), n.clone(), 3.to_dim()]);
        assert_eq!(reduced(sizes.clone(), &[0], Reducer::Prod), tensor1(&[n.clone() * 6]));
        assert_eq!(reduced(sizes, &[0], Reducer::Sum), tensor1(&[n + 5]));
    }
}
