use tract_core::internal::*;

use super::addressing::Places;
use super::scatter::overwrite;
use super::take::Positions;
use super::{impl_op, set_symbols};

/// OpenVINO's SliceScatter: `data` with `updates` in a slice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SliceScatter {
    /// The axes of the slice, and its positions on each.
    pub slices: TVec<(usize, Positions)>,
}

impl SliceScatter {
    /// The shape of the slice.
    pub fn updates_shape(&self, data: &[TDim]) -> TVec<TDim> {
        let mut shape: TVec<TDim> = data.into();
        for (axis, positions) in &self.slices {
            shape[*axis] = positions.len(&data[*axis]);
        }
        shape
    }

    /// The shape of the slice of data of this shape.
    fn shape_of_slice(&self, shape: &[usize], symbols: &SymbolValues) -> TractResult<TVec<usize>> {
        let mut slice: TVec<usize> = shape.into();
        for (axis, positions) in &self.slices {
            slice[*axis] = positions.on_axis(shape[*axis], symbols)?.len();
        }
        Ok(slice)
    }

    /// Where the runs of elements of the slice are in data of this shape. A slice has elements.
    fn places(&self, shape: &[usize], symbols: &SymbolValues) -> TractResult<Places> {
        let axes = self.slices.iter().map(|(axis, _)| axis + 1).max().unwrap_or(0);
        let mut starts = vec![0];
        for axis in 0..axes {
            let slice = self.slices.iter().find(|(it, _)| *it == axis);
            let positions: Vec<usize> = match slice {
                Some((_, positions)) => {
                    positions.on_axis(shape[axis], symbols)?.collect::<TractResult<_>>()?
                }
                None => (0..shape[axis]).collect(),
            };
            let stride: usize = shape[axis + 1..].iter().product();
            starts = starts
                .iter()
                .flat_map(|start| positions.iter().map(move |position| start + position * stride))
                .collect();
        }
        Ok(Places { starts, block: shape[axes..].iter().product() })
    }
}

impl_op!(
    SliceScatter,
    "OpenVinoSliceScatter",
    info = |op| op.slices.iter().map(|(axis, it)| format!("axis {axis}: {it:?}")).collect(),
    required_bound_symbols =
        |op, _| op.slices.iter().flat_map(|(_, positions)| positions.symbols()).collect()
);

impl EvalOp for SliceScatter {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, updates) = args_2!(inputs);
        // The updates are there: what is made for each of them is not more than there is memory for.
        ensure!(
            data.datum_type() == updates.datum_type()
                && *self.shape_of_slice(data.shape(), ctx.symbols)? == *updates.shape(),
            "SliceScatter: updates of type {:?} and shape {:?} do not fit a slice of data of type {:?} and \
             shape {:?}",
            updates.datum_type(),
            updates.shape(),
            data.datum_type(),
            data.shape()
        );
        if updates.len() == 0 {
            return Ok(tvec!(data));
        }
        let places = self.places(data.shape(), ctx.symbols)?;
        let mut data = data.into_tensor();
        overwrite(&mut data, &updates, &places)?;
        Ok(tvec!(data.into_tvalue()))
    }
}

impl TypedOp for SliceScatter {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let rank = inputs[0].rank();
        ensure!(
            self.slices.iter().all(|(axis, _)| *axis < rank),
            "SliceScatter: an axis is not in [0, {rank}), the axes of data"
        );
        Ok(tvec!(inputs[0].without_value()))
    }

    set_symbols!(slices);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;
    use model_cases::MANY;

    fn scatter(data: &[usize], updates: &[usize], len: usize) -> TractResult<Tensor> {
        let positions = Positions::Stride { first: 0.to_dim(), step: 1, len: len.to_dim() };
        let op = SliceScatter { slices: tvec!((1, positions)) };
        let ones = Tensor::zero::<f32>(updates)?.into_plain_array::<f32>()?.mapv(|_| 1f32);
        let inputs = tvec!(Tensor::zero::<f32>(data)?.into(), ones.into_tensor().into());
        Ok(op.eval(&EvalContext::out_of_plan(), inputs)?.remove(0).into_tensor())
    }

    #[test]
    fn updates_are_put_into_the_slice() {
        let expected = tensor2(&[[1f32, 1., 0.], [1., 1., 0.]]);
        assert_eq!(scatter(&[2, 3], &[2, 2], 2).unwrap(), expected);
        fails(scatter(&[2, 3], &[4, 1], 2), "do not fit a slice");
    }

    /// Nothing is made for each of many rows that have no elements.
    #[test]
    fn rows_without_elements() {
        let long = MANY;
        assert_eq!(scatter(&[long, 0], &[long, 0], 0).unwrap().shape(), [long, 0]);
        assert_eq!(scatter(&[long, 5, 0], &[long, 2, 0], 2).unwrap().shape(), [long, 5, 0]);
        fails(scatter(&[long, 0], &[1, 1], 0), "do not fit a slice");
        fails(scatter(&[long, 2, 0], &[1, 1, 1], 1), "do not fit a slice");
    }
}
