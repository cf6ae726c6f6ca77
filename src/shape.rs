//! Axes, batch dimensions and output shapes. Inference, facts and evaluation share these rules, so each is
//! stated once.
//!
//! An error names the operator, says what the value is, and what it must be.

use std::fmt::Display;

use tract_openvino_kernels::checks::{self, ensure_allocatable, listed};

use crate::revision::{BatchAxes, BatchDims, Spec};
use tract_core::internal::*;

/// The most axes of a gather. While a rank is unknown, nothing else keeps a model from asking for work on any number of
/// them.
const MAX_AXES: usize = 1023;

/// The position that `axis` stands for: a negative one counts from `data.rank`.
///
/// Gather-1, -7 and -8, "Inputs", 3: "allowed values are from `[-len(data.shape), len(data.shape) - 1]`".
pub(crate) fn normalize_axis(spec: &Spec, axis: i128, data_rank: usize) -> TractResult<usize> {
    ensure!(data_rank > 0, "{}: data has rank 0, but must have an axis to gather from", spec.name);
    let rank = data_rank as i128;
    ensure!(
        (-rank..rank).contains(&axis),
        "{}: axis is {axis}, but must be in [-{rank}, {}], as data has rank {rank}",
        spec.name,
        rank - 1
    );
    Ok(axis.rem_euclid(rank) as usize)
}

/// Refuses a number of axes that no tensor has: while the rank is unknown, nothing else keeps a model from
/// asking for work on that many.
pub(crate) fn check_axis_count(spec: &Spec, what: &str, axes: i64) -> TractResult<()> {
    ensure!(
        axes.unsigned_abs() <= MAX_AXES as u64,
        "{}: {what} is {axes}, but no tensor has that many axes",
        spec.name
    );
    Ok(())
}

/// Checks the attribute `batch_dims` as far as possible without the ranks.
pub(crate) fn check_batch_dims(spec: &Spec, batch_dims: i64) -> TractResult<()> {
    match spec.batch_dims {
        BatchDims::Absent => ensure!(
            batch_dims == 0,
            "{}: batch_dims is {batch_dims}, but must be 0, as the operator has no batch dimensions",
            spec.name
        ),
        BatchDims::NonNegative => ensure!(
            batch_dims >= 0,
            "{}: batch_dims is {batch_dims}, but must be 0 or more",
            spec.name
        ),
        BatchDims::Signed => (),
    }
    check_axis_count(spec, "batch_dims", batch_dims)
}

/// The number of axes that `batch_dims` stands for: a negative one counts from `indices.rank`.
///
/// Gather-7 and -8, "Attributes". [`check_data_rank`] has the bound by `data.rank`.
pub(crate) fn normalize_batch_dims(
    spec: &Spec,
    batch_dims: i64,
    indices_rank: usize,
) -> TractResult<usize> {
    let rank = indices_rank as i128;
    let normalized = batch_dims as i128 + if batch_dims < 0 { rank } else { 0 };
    ensure!(
        (0..=rank).contains(&normalized),
        "{}: batch_dims is {batch_dims}, but must be in [-{rank}, {rank}], as indices has rank {rank}",
        spec.name
    );
    Ok(normalized as usize)
}

/// Gather-7 and -8, "Attributes": `batch_dims' <= min(data.rank, indices.rank)`, the part about `data`.
/// `batch_dims' == data.rank` is an error too, because `batch_dims' <= axis' < data.rank`.
pub(crate) fn check_data_rank(spec: &Spec, batch_dims: i64, data_rank: usize) -> TractResult<()> {
    normalize_axis(spec, 0, data_rank)?;
    ensure!(
        batch_dims < data_rank as i64,
        "{}: batch_dims is {batch_dims}, but must be at most {}, as data has rank {data_rank}",
        spec.name,
        data_rank - 1
    );
    Ok(())
}

/// Gather-7 and -8, "Attributes": `batch_dims' <= axis'`.
pub(crate) fn check_axis(spec: &Spec, axis: usize, batch_dims: usize) -> TractResult<()> {
    ensure!(
        batch_dims <= axis,
        "{}: batch_dims is {batch_dims}, but must be at most axis, which is {axis} (both counted from the \
         first axis)",
        spec.name
    );
    Ok(())
}

/// The shape of `indices`, which is that of `data` "except for the axis dimension" (GatherElements-6, "Detailed
/// description").
pub(crate) fn gather_elements_shape<D: DimLike>(
    spec: &Spec,
    axis: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<D>> {
    normalize_axis(spec, axis as i128, data.len())?;
    ensure!(
        indices.len() == data.len(),
        "{}: indices has rank {}, but must have rank {}, as data has",
        spec.name,
        indices.len(),
        data.len()
    );
    let dim = |(number, (data, indices)): (usize, (&D, &D))| {
        let what = format_args!("dimension {number}");
        match number == axis {
            true => Ok(indices.clone()),
            false => common_dim(spec, what, ("data", data), ("indices", indices)),
        }
    };
    data.iter().zip(indices).enumerate().map(dim).collect()
}

/// GatherND, "Attributes": `batch_dims` belongs to `[0; min(data.rank, indices.rank))`. `input` is `data` or
/// `indices`, and `rank` its rank.
pub(crate) fn check_nd_rank(
    spec: &Spec,
    input: &str,
    rank: usize,
    batch_dims: usize,
) -> TractResult<()> {
    ensure!(rank > 0, "{}: {input} has rank 0, but must have rank 1 or more", spec.name);
    ensure!(
        batch_dims < rank,
        "{}: batch_dims is {batch_dims}, but must be in [0, {}], as {input} has rank {rank}",
        spec.name,
        rank - 1
    );
    Ok(())
}

/// The last dimension of `indices`. A model may state any number there.
pub(crate) fn tuple_length(spec: &Spec, dim: i64) -> TractResult<usize> {
    const NAME: &str = "the last dimension of indices";
    ensure!(dim >= 0, "{}: {NAME} is {dim}, but must be 0 or more", spec.name);
    check_axis_count(spec, NAME, dim)?;
    Ok(dim as usize)
}

/// GatherND, "Detailed description": a tuple has at most one entry for each axis of `data` after the batch.
pub(crate) fn check_tuple(
    spec: &Spec,
    tuple: usize,
    batch_dims: usize,
    data_rank: usize,
) -> TractResult<()> {
    ensure!(
        tuple <= data_rank - batch_dims,
        "{}: the last dimension of indices is {tuple}, but must be at most {}, as data has rank \
         {data_rank} and batch_dims is {batch_dims}",
        spec.name,
        data_rank - batch_dims
    );
    Ok(())
}

/// The dimension of the output on a batch axis, from those of `data` and `indices`.
///
/// Gather-7, Gather-8 and GatherND, "Attributes": the first `batch_dims` dimensions of both are equal. Different
/// symbols may have the same value, which is checked when they have one. Until then the output has the symbol of
/// `data`; or the number, if one of the dimensions is a number.
pub(crate) fn batch_dim<D: DimLike>(
    spec: &Spec,
    axis: usize,
    data: &D,
    indices: &D,
) -> TractResult<D> {
    let what = format_args!("batch dimension {axis}");
    common_dim(spec, what, ("data", data), ("indices", indices))
}

/// [`batch_dim`] for any dimension that two inputs share: `what` and the names are for the error.
pub(crate) fn common_dim<D: DimLike>(
    spec: &Spec,
    what: impl Display,
    (first_name, first): (&str, &D),
    (second_name, second): (&str, &D),
) -> TractResult<D> {
    ensure!(
        first.compatible_with(second),
        "{}: {what} is {first} in {first_name} and {second} in {second_name}, but must be the same in \
         both",
        spec.name
    );
    let number_only_in_second = first.as_i64().is_none() && second.as_i64().is_some();
    Ok(if number_only_in_second { second.clone() } else { first.clone() })
}

/// `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis + 1:]` (Gather-7 and -8,
/// "Outputs"; Gather-1 is the case of no batch dimensions).
pub(crate) fn gather_shape<D: DimLike>(
    spec: &Spec,
    axis: usize,
    batch_dims: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<D>> {
    normalize_axis(spec, axis as i128, data.len())?;
    normalize_batch_dims(spec, batch_dims as i64, indices.len())?;
    check_axis(spec, axis, batch_dims)?;
    let mut shape = batch_shape(spec, batch_dims, data, indices)?;
    shape.extend(data[batch_dims..axis].iter().cloned());
    shape.extend(indices[batch_dims..].iter().cloned());
    shape.extend(data[axis + 1..].iter().cloned());
    Ok(shape)
}

/// The shape of Gather while its axis is unknown: a dimension is known if it is the same for every axis from
/// `batch_dims` on.
pub(crate) fn gather_shape_of_any_axis<D: DimLike>(
    spec: &Spec,
    batch_dims: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<Option<D>>> {
    check_data_rank(spec, batch_dims as i64, data.len())?;
    let mut shapes = (batch_dims..data.len())
        .map(|axis| gather_shape(spec, axis, batch_dims, data, indices))
        .collect::<TractResult<Vec<_>>>()?;
    let last = shapes.pop().expect("there is an axis to gather from");
    let dim =
        |(number, dim): (usize, D)| shapes.iter().all(|shape| shape[number] == dim).then_some(dim);
    Ok(last.into_iter().enumerate().map(dim).collect())
}

/// `indices.shape[:-1] + data.shape[batch_dims + indices.shape[-1]:]` (GatherND-8, "Detailed description"). For
/// GatherND-5 the batch dimensions are fused into one.
///
/// Fails with `TooEarly` if the length of a tuple is a symbol without a value.
pub(crate) fn gather_nd_shape<D: DimLike>(
    spec: &Spec,
    batch_dims: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<D>> {
    check_nd_rank(spec, "data", data.len(), batch_dims)?;
    check_nd_rank(spec, "indices", indices.len(), batch_dims)?;
    let (tuple, leading) = indices.split_last().expect("indices has an axis");
    let tuple = tuple.to_i64().with_context(|| {
        format!(
            "{}: the last dimension of indices is {tuple}, but must be a number when the model is loaded, as the \
             rank of the output depends on it",
            spec.name
        )
    })?;
    let tuple = tuple_length(spec, tuple)?;
    check_tuple(spec, tuple, batch_dims, data.len())?;
    let mut shape = batch_shape(spec, batch_dims, data, indices)?;
    if fuses_batch(spec, batch_dims) {
        shape = tvec!(product(spec, &shape)?);
    }
    shape.extend(leading[batch_dims..].iter().cloned());
    shape.extend(data[batch_dims + tuple..].iter().cloned());
    Ok(shape)
}

/// Whether the output has one axis for more than one batch dimension.
pub(crate) fn fuses_batch(spec: &Spec, batch_dims: usize) -> bool {
    spec.batch_axes == BatchAxes::Fused && batch_dims > 1
}

fn batch_shape<D: DimLike>(
    spec: &Spec,
    batch_dims: usize,
    data: &[D],
    indices: &[D],
) -> TractResult<TVec<D>> {
    (0..batch_dims).map(|i| batch_dim(spec, i, &data[i], &indices[i])).collect()
}

/// The product of batch dimensions.
pub(crate) fn product<D: DimLike>(spec: &Spec, dims: &[D]) -> TractResult<D> {
    let numbers = dims.iter().filter_map(|dim| dim.as_i64());
    let number = numbers.clone().try_fold(1i64, |product, dim| product.checked_mul(dim));
    let number = number.and_then(|number| usize::try_from(number).ok()).with_context(|| {
        format!("{}: the product of the batch dimensions {} is too large", spec.name, listed(dims))
    })?;
    let symbols = dims.iter().filter(|dim| dim.as_i64().is_none()).cloned();
    Ok(symbols.fold(D::from(number), |product, dim| product * dim))
}

/// The number of elements of an output of this shape and type: the one guard before it is allocated. Fails if there is
/// no memory for it, or if its sizes above 0 overflow when they are multiplied: ndarray cannot look at such a tensor,
/// although it may have no elements.
pub(crate) fn volume(spec: &Spec, dt: DatumType, shape: &[usize]) -> TractResult<usize> {
    let bytes = checks::volume(shape.iter().filter(|size| **size > 0))
        .and_then(|volume| volume.checked_mul(dt.size_of()))
        .filter(|bytes| *bytes <= isize::MAX as usize)
        .with_context(|| {
            format!("{}: the output of shape {shape:?} and type {dt:?} is too large", spec.name)
        })?;
    if shape.contains(&0) {
        return Ok(0);
    }
    ensure_allocatable(spec.name, bytes)?;
    Ok(shape.iter().product())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::{GatherNdRevision, GatherRevision, Revision};
    use model_cases::MANY;

    fn gather(axis: usize, batch_dims: usize, data: &[usize], indices: &[usize]) -> Vec<usize> {
        gather_shape(GatherRevision::V8.spec(), axis, batch_dims, data, indices).unwrap().to_vec()
    }

    fn gather_nd(
        revision: GatherNdRevision,
        batch_dims: usize,
        data: &[usize],
        indices: &[usize],
    ) -> Vec<usize> {
        gather_nd_shape(revision.spec(), batch_dims, data, indices).unwrap().to_vec()
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
        let spec = GatherRevision::V1.spec();
        for (axis, rank, expected) in [(0, 1, 0), (-1, 1, 0), (2, 3, 2), (-3, 3, 0), (-1, 3, 2)] {
            assert_eq!(normalize_axis(spec, axis, rank).unwrap(), expected);
        }
        for (axis, rank) in [(1, 1), (-2, 1), (3, 3), (-4, 3), (i128::MAX, 3), (i128::MIN, 3)] {
            normalize_axis(spec, axis, rank).unwrap_err();
        }
    }

    #[test]
    fn batch_dims_count_from_indices_rank() {
        let spec = GatherRevision::V7.spec();
        for (batch_dims, rank, expected) in [(0, 0, 0), (2, 2, 2), (-1, 2, 1), (-2, 2, 0)] {
            assert_eq!(normalize_batch_dims(spec, batch_dims, rank).unwrap(), expected);
        }
        for (batch_dims, rank) in [(1, 0), (-1, 0), (3, 2), (-3, 2), (i64::MAX, 2), (i64::MIN, 2)] {
            normalize_batch_dims(spec, batch_dims, rank).unwrap_err();
        }
    }

    #[test]
    fn product_is_checked() {
        let spec = GatherNdRevision::V5.spec();
        assert_eq!(product(spec, &[2usize, 3, 4]).unwrap(), 24);
        let n = TDim::from(SymbolScope::default().sym("N"));
        let half = TDim::Val(1i64 << 62);
        assert_eq!(
            product(spec, &[2.to_dim(), n.clone(), 3.to_dim()]).unwrap(),
            6.to_dim() * n.clone()
        );
        let error = product(spec, &[half, n, 4.to_dim()]).unwrap_err().to_string();
        assert!(error.contains("is too large"), "{error}");
    }

    #[test]
    fn volume_is_checked() {
        let spec = GatherRevision::V8.spec();
        let f32 = f32::datum_type();
        assert_eq!(volume(spec, f32, &[]).unwrap(), 1);
        assert_eq!(volume(spec, f32, &[2, 3]).unwrap(), 6);
        assert_eq!(volume(spec, f32, &[0, MANY]).unwrap(), 0);
        let max = usize::MAX;
        for shape in [&[max, 2][..], &[1 << (usize::BITS - 3)], &[max, max, 0], &[0, max, max]] {
            let error = volume(spec, f32, shape).unwrap_err().to_string();
            assert!(error.contains("is too large"), "{error}");
        }
    }
}
