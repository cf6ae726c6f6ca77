//! Rows in other forms.

use tract_openvino_ir::internal::*;
use tract_openvino_kernels::checks::check_volume;

use super::OPSET;
use crate::layer::{expect_one_of, expect_type, new_dim, wire};
use crate::strings::{Ranges, Rows, integer, offset, slice, vector};

pub(super) fn register(registry: &mut Registry) {
    registry.add_extension("RaggedToSparse", OPSET, ragged_to_sparse);
    registry.add_extension("RaggedToRagged", OPSET, ragged_to_ragged);
    registry.add_extension("RaggedTensorPack", OPSET, ragged_tensor_pack);
}

/// The most rows that are made of a number.
const MOST_ROWS: usize = 1 << 28;

/// **RaggedToSparse**: the row and the place in it for each element.
fn ragged_to_sparse(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[2])?;
    expect_type(layer, 0, DatumType::I32, "begins of rows")?;
    expect_type(layer, 1, DatumType::I32, "ends of rows")?;
    let facts = tvec!((DatumType::I32, tvec!(new_dim(layer, "elements")?, 2.to_dim())));
    wire(layer, "RaggedToSparse", 0..2, facts, |inputs| {
        let rows = Rows::new(&inputs[0], &inputs[1], i32::MAX as usize)?;
        let count = rows.iter().try_fold(0usize, |count, row| count.checked_add(row.len()));
        let count = count.context("the rows have more elements than can be counted")?;
        check_volume("RaggedToSparse", DatumType::I32, &[count, 2])?;
        let mut places = Vec::with_capacity(2 * count);
        for (number, row) in rows.iter().enumerate() {
            for place in 0..row.len() {
                places.extend([offset(number)?, offset(place)?]);
            }
        }
        Ok(tvec!(vector(places).into_shape(&[count, 2])?))
    })
}

/// **RaggedToRagged**: where the elements of each row begin and end, of the number of the row for each element, in ascending order, and the
/// number of rows. Elements of rows that are not there, at the end, are left out.
fn ragged_to_ragged(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[2])?;
    expect_type(layer, 0, DatumType::I32, "rowids")?;
    expect_type(layer, 1, DatumType::I32, "first_dim_size")?;
    let rows = match layer.constant_opt(1)? {
        Some(rows) => integer(&rows, "first_dim_size")?.max(0).to_dim(),
        None => new_dim(layer, "rows")?,
    };
    let facts = tvec!((DatumType::I32, tvec!(rows.clone())), (DatumType::I32, tvec!(rows)));
    wire(layer, "RaggedToRagged", 0..2, facts, |inputs| {
        let ids = slice::<i32>(&inputs[0], "rowids")?;
        let count = integer(&inputs[1], "first_dim_size")?;
        let count = usize::try_from(count).ok().filter(|count| *count <= MOST_ROWS);
        let count = count.with_context(|| format!("first_dim_size must be in [0, {MOST_ROWS}]"))?;
        let mut ranges = Ranges::with_capacity(count);
        let mut at = 0;
        for row in 0..count {
            let begin = at;
            while let Some(id) = ids.get(at).filter(|id| **id <= row as i32) {
                ensure!(
                    *id == row as i32,
                    "rowids[{at}] is {id}, but must be {row} or more, as they ascend from 0"
                );
                at += 1;
            }
            ranges.push(begin, at)?;
        }
        Ok(ranges.into_tensors(&[count])?.into_iter().collect())
    })
}

/// **RaggedTensorPack**: the elements of rows.
fn ragged_tensor_pack(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[3])?;
    Ok(tvec!(layer.input(2)?))
}
