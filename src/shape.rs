//! Axes, batch dimensions and output shapes: one statement of each rule, for shape inference, typed
//! facts and evaluation alike.
//!
//! Every error starts with the operator's name and says which value was found and which would have
//! been valid.

use std::fmt::Display;

use crate::revision::{BatchAxes, BatchDims, Row};
use tract_core::internal::*;

/// `axis` of Gather as a position, counted from `data.rank` when negative.
///
/// Gather-1, -7 and -8, "Inputs", 3: "allowed values are from `[-len(data.shape), len(data.shape) -
/// 1]`".
pub(crate) fn normalize_axis(row: &Row, axis: i128, data_rank: usize) -> TractResult<usize> {
    ensure!(
        data_rank > 0,
        "{}: data has rank 0, so that there is no axis to gather from",
        row.name
    );
    let rank = data_rank as i128;
    ensure!(
        (-rank..rank).contains(&axis),
        "{}: axis is {axis}, but data has rank {rank}, so that axis is in [-{rank}, {}]",
        row.name,
        rank - 1
    );
    Ok(axis.rem_euclid(rank) as usize)
}

/// Bounds what a number of axes in a model can cost while the rank that it ought to fit is not
/// known.
pub(crate) fn check_axes_exist(row: &Row, what: &str, axes: i64) -> TractResult<()> {
    const MORE_THAN_A_TENSOR_HAS: u64 = 1024;
    ensure!(
        axes.unsigned_abs() < MORE_THAN_A_TENSOR_HAS,
        "{}: {what} is {axes}, but no tensor has that many axes",
        row.name
    );
    Ok(())
}

/// What can be said of the attribute `batch_dims` before any rank is known.
pub(crate) fn check_batch_dims(row: &Row, batch_dims: i64) -> TractResult<()> {
    match row.batch_dims {
        BatchDims::Absent => ensure!(
            batch_dims == 0,
            "{}: batch_dims is {batch_dims}, but this revision has no batch dimensions",
            row.name
        ),
        BatchDims::NonNegative => ensure!(
            batch_dims >= 0,
            "{}: batch_dims is {batch_dims}, but must not be negative",
            row.name
        ),
        BatchDims::Signed => (),
    }
    check_axes_exist(row, "batch_dims", batch_dims)
}

/// `batch_dims` of Gather as a number of axes, counted from `indices.rank` when negative.
///
/// Gather-7 and -8, "Attributes". The bound by `data.rank` is [`check_data_rank`].
pub(crate) fn normalize_batch_dims(
    row: &Row,
    batch_dims: i64,
    indices_rank: usize,
) -> TractResult<usize> {
    let rank = indices_rank as i128;
    let normalized = batch_dims as i128 + if batch_dims < 0 { rank } else { 0 };
    ensure!(
        (0..=rank).contains(&normalized),
        "{}: batch_dims is {batch_dims}, but indices has rank {rank}, so that batch_dims is in \
         [-{rank}, {rank}]",
        row.name
    );
    Ok(normalized as usize)
}

/// Gather-7 and -8, "Attributes": `batch_dims' <= min(data.rank, indices.rank)`, the half about
/// `data`. It is one less in fact, as `axis'` is below `data.rank` and `batch_dims' <= axis'`.
pub(crate) fn check_data_rank(row: &Row, batch_dims: i64, data_rank: usize) -> TractResult<()> {
    normalize_axis(row, 0, data_rank)?;
    ensure!(
        batch_dims < data_rank as i64,
        "{}: batch_dims is {batch_dims}, but data has rank {data_rank}, which leaves no axis to \
         gather from",
        row.name
    );
    Ok(())
}

/// Gather-7 and -8, "Attributes": `batch_dims' <= axis'`.
pub(crate) fn check_axis(row: &Row, axis: usize, batch_dims: usize) -> TractResult<()> {
    ensure!(
        batch_dims <= axis,
        "{}: batch_dims is {batch_dims} and axis is {axis} (both counted from the first axis), but \
         batch_dims must not be greater than axis",
        row.name
    );
    Ok(())
}

/// GatherElements-6, "Detailed description": `indices` has the shape of `data` "except for the axis
/// dimension". The output has the shape of `indices`.
pub(crate) fn gather_elements_shape<D: DimLike>(
    row: &Row,
    axis: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<D>> {
    normalize_axis(row, axis as i128, data.len())?;
    ensure!(
        indices.len() == data.len(),
        "{}: indices has rank {}, but must have the rank of data, which is {}",
        row.name,
        indices.len(),
        data.len()
    );
    let dim = |(number, (data, indices)): (usize, (&D, &D))| {
        let what = format_args!("dimension {number}");
        match number == axis {
            true => Ok(indices.clone()),
            false => same_dim(row, what, ("data", data), ("indices", indices)),
        }
    };
    data.iter().zip(indices).enumerate().map(dim).collect()
}

/// GatherND, "Attributes": `batch_dims` belongs to `[0; min(data.rank, indices.rank))`. `input` is
/// the input whose rank this is, `data` or `indices`.
pub(crate) fn check_nd_rank(
    row: &Row,
    input: &str,
    rank: usize,
    batch_dims: usize,
) -> TractResult<()> {
    ensure!(rank > 0, "{}: {input} has rank 0, but must have rank 1 at least", row.name);
    ensure!(
        batch_dims < rank,
        "{}: batch_dims is {batch_dims}, but {input} has rank {rank}, so that batch_dims is in \
         [0, {}]",
        row.name,
        rank - 1
    );
    Ok(())
}

/// The last dimension of `indices`, which a model may state as any number.
pub(crate) fn tuple_length(row: &Row, dim: i64) -> TractResult<usize> {
    const NAME: &str = "the last dimension of indices";
    ensure!(dim >= 0, "{}: {NAME} is {dim}, but must not be negative", row.name);
    check_axes_exist(row, NAME, dim)?;
    Ok(dim as usize)
}

/// GatherND, "Detailed description": a tuple is not longer than what `batch_dims` leaves of
/// `data.rank`.
pub(crate) fn check_tuple(
    row: &Row,
    tuple: usize,
    batch_dims: usize,
    data_rank: usize,
) -> TractResult<()> {
    ensure!(
        tuple <= data_rank - batch_dims,
        "{}: the last dimension of indices is {tuple}, but data has rank {data_rank} and \
         batch_dims is {batch_dims}, so that a tuple of indices has at most {} entries",
        row.name,
        data_rank - batch_dims
    );
    Ok(())
}

/// A batch dimension, where `data` says `data` and `indices` says `indices`.
///
/// Gather-7, Gather-8 and GatherND, "Attributes": the first `batch_dims` dimensions of both are
/// equal. Symbols that differ may stand for the same number, and that is checked when they have
/// one; until then `data`'s holds, or the number if only one of them is a number.
pub(crate) fn batch_dim<D: DimLike>(
    row: &Row,
    axis: usize,
    data: &D,
    indices: &D,
) -> TractResult<D> {
    let what = format_args!("batch dimension {axis}");
    same_dim(row, what, ("data", data), ("indices", indices))
}

/// A dimension that two inputs have. They are given with their names.
pub(crate) fn same_dim<D: DimLike>(
    row: &Row,
    what: impl Display,
    (first_name, first): (&str, &D),
    (second_name, second): (&str, &D),
) -> TractResult<D> {
    ensure!(
        first.compatible_with(second),
        "{}: {what} is {first} in {first_name} and {second} in {second_name}, but must be the same in \
         both",
        row.name
    );
    let number_only_in_second = first.as_i64().is_none() && second.as_i64().is_some();
    Ok(if number_only_in_second { second.clone() } else { first.clone() })
}

/// `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis + 1:]` (Gather-7 and -8,
/// "Outputs"; Gather-1 is the case of no batch dimensions).
pub(crate) fn gather_shape<D: DimLike>(
    row: &Row,
    axis: usize,
    batch_dims: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<D>> {
    normalize_axis(row, axis as i128, data.len())?;
    normalize_batch_dims(row, batch_dims as i64, indices.len())?;
    check_axis(row, axis, batch_dims)?;
    let mut shape = batch_shape(row, batch_dims, data, indices)?;
    shape.extend(data[batch_dims..axis].iter().cloned());
    shape.extend(indices[batch_dims..].iter().cloned());
    shape.extend(data[axis + 1..].iter().cloned());
    Ok(shape)
}

/// The shape of Gather while its axis is not known: a dimension is known where all the axes from
/// `batch_dims` on agree.
pub(crate) fn gather_shape_of_any_axis<D: DimLike>(
    row: &Row,
    batch_dims: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<Option<D>>> {
    check_data_rank(row, batch_dims as i64, data.len())?;
    let mut shapes = (batch_dims..data.len())
        .map(|axis| gather_shape(row, axis, batch_dims, data, indices))
        .collect::<TractResult<Vec<_>>>()?;
    let first = shapes.pop().expect("there is an axis to gather from");
    let dim =
        |(number, dim): (usize, D)| shapes.iter().all(|shape| shape[number] == dim).then_some(dim);
    Ok(first.into_iter().enumerate().map(dim).collect())
}

/// `indices.shape[:-1] + data.shape[batch_dims + indices.shape[-1]:]`, with the batch dimensions
/// fused into one for GatherND-5 (GatherND-8, "Detailed description").
///
/// Fails with `TooEarly` where the length of the tuples is not known yet.
pub(crate) fn gather_nd_shape<D: DimLike>(
    row: &Row,
    batch_dims: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<D>> {
    check_nd_rank(row, "data", data.len(), batch_dims)?;
    check_nd_rank(row, "indices", indices.len(), batch_dims)?;
    let (tuple, leading) = indices.split_last().expect("indices has an axis");
    let tuple = tuple.to_i64().with_context(|| {
        format!(
            "{}: the last dimension of indices, the length of a tuple, must be known: it \
             determines the rank of the output",
            row.name
        )
    })?;
    let tuple = tuple_length(row, tuple)?;
    check_tuple(row, tuple, batch_dims, data.len())?;
    let mut shape = batch_shape(row, batch_dims, data, indices)?;
    if fuses_batch(row, batch_dims) {
        shape = tvec!(product(row, &shape)?);
    }
    shape.extend(leading[batch_dims..].iter().cloned());
    shape.extend(data[batch_dims + tuple..].iter().cloned());
    Ok(shape)
}

/// Whether the output has one axis for several batch dimensions.
pub(crate) fn fuses_batch(row: &Row, batch_dims: usize) -> bool {
    row.batch_axes == BatchAxes::Fused && batch_dims > 1
}

fn batch_shape<D: DimLike>(
    row: &Row,
    batch_dims: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<D>> {
    (0..batch_dims).map(|i| batch_dim(row, i, &data[i], &indices[i])).collect()
}

/// The product of batch dimensions.
pub(crate) fn product<D: DimLike>(row: &Row, dims: &[D]) -> TractResult<D> {
    let numbers = dims.iter().filter_map(|dim| dim.as_i64());
    let number = numbers.clone().try_fold(1i64, |product, dim| product.checked_mul(dim));
    let number = number.and_then(|number| usize::try_from(number).ok()).with_context(|| {
        format!("{}: the product of the batch dimensions {dims:?} is too large", row.name)
    })?;
    let symbols = dims.iter().filter(|dim| dim.as_i64().is_none()).cloned();
    Ok(symbols.fold(D::from(number), |product, dim| product * dim))
}

/// The number of elements of a tensor of this shape and type, which must have a place in memory.
///
/// Multiplied as tract multiplies, from the first dimension on, so that it will not overflow there.
pub(crate) fn volume(row: &Row, dt: DatumType, shape: &[usize]) -> TractResult<usize> {
    let volume = shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
    volume
        .filter(|volume| {
            volume.checked_mul(dt.size_of()).is_some_and(|bytes| bytes <= isize::MAX as usize)
        })
        .with_context(|| {
            format!("{}: an output of shape {shape:?} and type {dt:?} is too large", row.name)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::{GatherNdRevision, GatherRevision, Revision};

    fn gather(axis: usize, batch_dims: usize, data: &[usize], indices: &[usize]) -> Vec<usize> {
        gather_shape(GatherRevision::V8.row(), axis, batch_dims, data, indices).unwrap().to_vec()
    }

    fn gather_nd(
        revision: GatherNdRevision,
        batch_dims: usize,
        data: &[usize],
        indices: &[usize],
    ) -> Vec<usize> {
        gather_nd_shape(revision.row(), batch_dims, data, indices).unwrap().to_vec()
    }

    #[test]
    fn gather_shapes() {
        assert_eq!(gather(0, 0, &[5], &[]), [0usize; 0]);
        assert_eq!(gather(0, 0, &[5], &[3]), [3]);
        assert_eq!(gather(1, 0, &[2, 5, 4], &[3, 6]), [2, 3, 6, 4]);
        assert_eq!(gather(1, 1, &[2, 5, 4], &[2, 6]), [2, 6, 4]);
        assert_eq!(gather(2, 1, &[2, 1, 5, 4], &[2, 3]), [2, 1, 3, 4]);
        assert_eq!(gather(1, 1, &[2, 5, 4], &[2]), [2, 4]);
    }

    #[test]
    fn gather_nd_shapes() {
        use GatherNdRevision::*;
        for revision in [V5, V8] {
            assert_eq!(gather_nd(revision, 0, &[2, 3], &[2]), [0usize; 0]);
            assert_eq!(gather_nd(revision, 0, &[2, 3], &[7, 1]), [7, 3]);
            assert_eq!(gather_nd(revision, 0, &[2, 3], &[7, 0]), [7, 2, 3]);
            assert_eq!(gather_nd(revision, 1, &[2, 3, 4], &[2, 1]), [2, 4]);
        }
        assert_eq!(gather_nd(V8, 2, &[2, 3, 4], &[2, 3, 6, 1]), [2, 3, 6]);
        assert_eq!(gather_nd(V5, 2, &[2, 3, 4], &[2, 3, 6, 1]), [6, 6]);
    }

    #[test]
    fn axis_counts_from_either_end() {
        let row = GatherRevision::V1.row();
        for (axis, rank, expected) in [(0, 1, 0), (-1, 1, 0), (2, 3, 2), (-3, 3, 0), (-1, 3, 2)] {
            assert_eq!(normalize_axis(row, axis, rank).unwrap(), expected);
        }
        for (axis, rank) in [(1, 1), (-2, 1), (3, 3), (-4, 3), (i128::MAX, 3), (i128::MIN, 3)] {
            normalize_axis(row, axis, rank).unwrap_err();
        }
    }

    #[test]
    fn batch_dims_count_from_indices_rank() {
        let row = GatherRevision::V7.row();
        for (batch_dims, rank, expected) in [(0, 0, 0), (2, 2, 2), (-1, 2, 1), (-2, 2, 0)] {
            assert_eq!(normalize_batch_dims(row, batch_dims, rank).unwrap(), expected);
        }
        for (batch_dims, rank) in [(1, 0), (-1, 0), (3, 2), (-3, 2), (i64::MAX, 2), (i64::MIN, 2)] {
            normalize_batch_dims(row, batch_dims, rank).unwrap_err();
        }
    }

    #[test]
    fn product_is_checked() {
        let row = GatherNdRevision::V5.row();
        assert_eq!(product(row, &[2usize, 3, 4]).unwrap(), 24);
        let n = TDim::from(SymbolScope::default().sym("N"));
        let half = TDim::Val(1 << 62);
        assert_eq!(
            product(row, &[2.to_dim(), n.clone(), 3.to_dim()]).unwrap(),
            6.to_dim() * n.clone()
        );
        let error = product(row, &[half, n, 4.to_dim()]).unwrap_err().to_string();
        assert!(error.contains("is too large"), "{error}");
    }

    #[test]
    fn volume_is_checked() {
        let row = GatherRevision::V8.row();
        let f32 = f32::datum_type();
        assert_eq!(volume(row, f32, &[]).unwrap(), 1);
        assert_eq!(volume(row, f32, &[2, 3]).unwrap(), 6);
        assert_eq!(volume(row, f32, &[0, usize::MAX, usize::MAX]).unwrap(), 0);
        for shape in [&[usize::MAX, 2][..], &[1 << (usize::BITS - 3)], &[usize::MAX, usize::MAX, 0]]
        {
            let error = volume(row, f32, shape).unwrap_err().to_string();
            assert!(error.contains("is too large"), "{error}");
        }
    }
}
