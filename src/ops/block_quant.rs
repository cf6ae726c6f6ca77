//! Gather from block-quantized data, a table of rows of which each is unpacked when it is picked: tract's
//! own Gather does that, for indices that it takes on trust. Here they are checked.

use crate::eval::{self, IntegerTensor};
use crate::geometry::{self, BadIndex};
use crate::index::IndexPolicy;
use crate::revision::Row;
use crate::shape;
use tract_core::internal::*;
use tract_core::ops::array::Gather as StockGather;
use tract_linalg::block_quant::{BlockQuantFact, BlockQuantStorage};

/// The operator to hand over to, if it can: rows of a table without batch dimensions.
fn stock(
    row: &Row,
    axis: usize,
    batch_dims: usize,
    data_type: DatumType,
) -> TractResult<StockGather> {
    ensure!(
        axis == 0 && batch_dims == 0,
        "{}: data is block-quantized, of which axis 0 can be gathered, without batch dimensions; \
         axis is {axis} and batch_dims is {batch_dims}",
        row.name
    );
    ensure!(
        [f16::datum_type(), f32::datum_type()].contains(&data_type),
        "{}: data is block-quantized {data_type:?}, but can be F16 or F32",
        row.name
    );
    Ok(StockGather { axis: 0, output_type: Some(data_type) })
}

/// The fact of the output. Fails for data that is neither plain nor a block-quantized table.
pub(super) fn output_fact(
    row: &Row,
    axis: usize,
    batch_dims: usize,
    data: &TypedFact,
    indices: &TypedFact,
) -> TractResult<TypedFact> {
    let is_table = data.exotic_fact().is_some_and(|fact| fact.is::<BlockQuantFact>());
    ensure!(
        is_table && data.rank() == 2,
        "{}: data is neither a plain tensor nor a block-quantized table of rank 2: {data:?}",
        row.name
    );
    let stock = stock(row, axis, batch_dims, data.datum_type)?;
    let shape = stock.compute_output_shape(&data.shape, &indices.shape)?;
    Ok(data.datum_type.fact(shape))
}

/// Whether evaluation is for [`eval`].
pub(super) fn is_block_quantized(data: &Tensor) -> bool {
    data.storage_as::<BlockQuantStorage>().is_some()
}

/// The rows that `indices` pick.
pub(super) fn eval(
    row: &Row,
    axis: usize,
    batch_dims: usize,
    policy: IndexPolicy,
    ctx: &EvalContext,
    [data, indices]: [TValue; 2],
) -> TractResult<Tensor> {
    let stock = stock(row, axis, batch_dims, data.datum_type())?;
    let &[size, width] = data.shape() else { bail!("{}: data has rank {}", row.name, data.rank()) };
    let storage = data.storage_as::<BlockQuantStorage>().context("data is block-quantized")?;
    // tract's own would panic.
    let block = storage.format().block_len();
    ensure!(
        width.is_multiple_of(block),
        "{}: data is quantized in blocks of {block}, but has rows of {width}",
        row.name
    );
    let shape = stock.compute_output_shape(data.shape(), indices.shape())?;
    let volume = shape::volume(row, data.datum_type(), &shape)?;
    eval::ensure_allocatable(row, volume * data.datum_type().size_of())?;
    let integers = IntegerTensor::new(row, "indices", &indices, ctx.symbols)?;
    let entries = integers.entries()?;
    geometry::check(entries, &[size], policy).map_err(|BadIndex(number)| {
        let (negative, value) = (policy.negative, entries.get(number));
        eval::index_error(row, negative, number, value, indices.shape(), axis, size)
    })?;
    let positions: Vec<Option<usize>> = geometry::positions(entries, &[size], policy);
    // Rows that nothing picks are row 0 first, and then zeros.
    let rows: Vec<i64> = positions.iter().map(|position| position.unwrap_or(0) as i64).collect();
    let rows = tensor1(&rows).into_shape(indices.shape())?;
    let mut output = if size == 0 {
        Tensor::zero_dt(data.datum_type(), &shape)?
    } else {
        stock.eval(ctx, tvec!(data, rows.into()))?.remove(0).into_tensor()
    };
    let bytes = width * output.datum_type().size_of();
    let mut view = output.try_as_plain_ram_mut()?;
    for (number, _) in positions.iter().enumerate().filter(|(_, position)| position.is_none()) {
        view.as_bytes_mut()[number * bytes..][..bytes].fill(0);
    }
    Ok(output)
}
