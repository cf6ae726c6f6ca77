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

    /// Where the runs of elements of the slice are in data of this shape.
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
        |op| op.slices.iter().flat_map(|(_, positions)| positions.symbols()).collect()
);

impl EvalOp for SliceScatter {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, updates) = args_2!(inputs);
        if data.len() == 0 && updates.len() == 0 {
            return Ok(tvec!(data));
        }
        let places = self.places(data.shape(), ctx.symbols)?;
        ensure!(
            data.datum_type() == updates.datum_type()
                && updates.len() == places.starts.len() * places.block,
            "SliceScatter: updates of type {:?} and shape {:?} do not fit a slice of data of type {:?} and \
             shape {:?}",
            updates.datum_type(),
            updates.shape(),
            data.datum_type(),
            data.shape()
        );
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
