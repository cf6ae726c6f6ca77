//! Gather from a block-quantized table, whose rows are unpacked as they are picked. tract's own Gather does that,
//! without a check of the indices. Here they are checked.

use crate::eval::{self, IntegerTensor};
use crate::geometry::{self, BadIndex};
use crate::index::IndexPolicy;
use crate::revision::Spec;
use crate::shape;
use tract_core::internal::*;
use tract_core::ops::array::Gather as TractGather;
use tract_linalg::block_quant::{BlockQuantFact, BlockQuantStorage};

/// tract's operator, for the cases that it has.
fn tract_gather(
    spec: &Spec,
    axis: usize,
    batch_dims: usize,
    data_type: DatumType,
) -> TractResult<TractGather> {
    ensure!(
        axis == 0 && batch_dims == 0,
        "{}: axis is {axis} and batch_dims is {batch_dims}, but both must be 0, as data is block-quantized",
        spec.name
    );
    ensure!(
        [f16::datum_type(), f32::datum_type()].contains(&data_type),
        "{}: data is block-quantized {data_type:?}, but must be F16 or F32",
        spec.name
    );
    Ok(TractGather { axis: 0, output_type: Some(data_type) })
}

/// The fact of the output, for data that is not plain. Fails unless it is a block-quantized table.
pub(super) fn output_fact(
    spec: &Spec,
    axis: usize,
    batch_dims: usize,
    data: &TypedFact,
    indices: &TypedFact,
) -> TractResult<TypedFact> {
    let is_table = data.exotic_fact().is_some_and(|fact| fact.is::<BlockQuantFact>());
    ensure!(
        is_table && data.rank() == 2,
        "{}: data is {data:?}, but must be a plain tensor or a block-quantized table of rank 2",
        spec.name
    );
    let gather = tract_gather(spec, axis, batch_dims, data.datum_type)?;
    let shape = gather.compute_output_shape(&data.shape, &indices.shape)?;
    Ok(data.datum_type.fact(shape))
}

/// Whether [`eval`] is for this data.
pub(super) fn is_block_quantized(data: &Tensor) -> bool {
    data.storage_as::<BlockQuantStorage>().is_some()
}

/// The rows that `indices` pick.
pub(super) fn eval(
    spec: &Spec,
    axis: usize,
    batch_dims: usize,
    policy: IndexPolicy,
    ctx: &EvalContext,
    [data, indices]: [TValue; 2],
) -> TractResult<Tensor> {
    let gather = tract_gather(spec, axis, batch_dims, data.datum_type())?;
    let &[size, width] = data.shape() else {
        bail!("{}: data has rank {}, but must have rank 2", spec.name, data.rank())
    };
    let storage = data.storage_as::<BlockQuantStorage>().context("data is block-quantized")?;
    // tract would panic.
    let block = storage.format().block_len();
    ensure!(
        width.is_multiple_of(block),
        "{}: data has rows of {width} elements, but must have a multiple of {block}, the size of a quantized block",
        spec.name
    );
    let shape = gather.compute_output_shape(data.shape(), indices.shape())?;
    shape::volume(spec, data.datum_type(), &shape)?;
    let integers = IntegerTensor::new(spec, "indices", &indices, ctx.symbols)?;
    let entries = integers.entries()?;
    geometry::check(entries, &[size], policy).map_err(|BadIndex(number)| {
        let value = entries.get(number);
        eval::index_error(spec, policy, number, value, indices.shape(), axis, size)
    })?;
    let positions: Vec<Option<usize>> = geometry::positions(entries, &[size], policy);
    // Where an index is out of range: row 0 first, then zeros.
    let rows: Vec<i64> = positions.iter().map(|position| position.unwrap_or(0) as i64).collect();
    let rows = tensor1(&rows).into_shape(indices.shape())?;
    let mut output = if size == 0 {
        Tensor::zero_dt(data.datum_type(), &shape)?
    } else {
        gather.eval(ctx, tvec!(data, rows.into()))?.remove(0).into_tensor()
    };
    let bytes = width * output.datum_type().size_of();
    let mut view = output.try_as_plain_ram_mut()?;
    for (number, _) in positions.iter().enumerate().filter(|(_, position)| position.is_none()) {
        view.as_bytes_mut()[number * bytes..][..bytes].fill(0);
    }
    Ok(output)
}
