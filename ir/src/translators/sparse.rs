//! Sparse matrices, and inverses of dense ones.

use tract_core::internal::*;

use crate::context::LayerContext;
use crate::operators::inverse::Inverse;
use crate::operators::sparse_fill_empty_rows::SparseFillEmptyRows;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("SparseFillEmptyRows", 16, sparse_fill_empty_rows);
    registry.add("Inverse", 14, inverse);
}

/// **SparseFillEmptyRows-16**: gives each row of a sparse matrix that has no value a default in its first column.
/// The outputs are the coordinates of the values in ascending order, the values, and which rows were empty.
fn sparse_fill_empty_rows(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=4)?;
    ctx.expect_numbers(0, "values")?;
    let index_type = ctx.expect_integers(2, "indices")?;
    ctx.expect_one_element(3, "default_value")?;
    let sizes = ctx.sizes(1, "dense_shape")?;
    ensure!(sizes.len() == 2, "dense_shape has length {}, but must have length 2", sizes.len());
    let (values, indices) = (ctx.shape_of_rank(0, "values", 1)?, ctx.shape(2)?);
    let pairs = [values[0].clone(), 2.to_dim()];
    ctx.equal_shapes(&pairs, &indices, None, "has a row and a column for each value")?;
    let inputs = [ctx.number_input(0)?, ctx.number_input(2)?, ctx.number_input(3)?];
    ctx.same_type(&[inputs[0], inputs[2]])?;
    let coordinates = ctx.cast("coordinates", inputs[1], DatumType::I64)?;
    let count = ctx.size_at_run_time("filled")?.to_dim();
    let op = SparseFillEmptyRows { rows: sizes[0].clone(), count };
    let mut outputs = ctx.finish(op, &[inputs[0], coordinates, inputs[2]])?;
    let index_type = if index_type.is_tdim() { DatumType::I64 } else { index_type };
    outputs[0] = ctx.cast("indices", outputs[0], index_type)?;
    Ok(outputs)
}

/// **Inverse-14**: the inverses of square matrices. With `adjoint` those of their adjoints, which are the
/// transposes of real ones.
fn inverse(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    ctx.expect_floats(0, "data")?;
    let shape = ctx.shape(0)?;
    let [.., rows, columns] = &*shape else {
        bail!("the data has rank {}, but must have rank 2 or more", shape.len())
    };
    ctx.require_equal(rows, columns, "inverts square matrices")?;
    let transpose = ctx.attribute_or("adjoint", false)?;
    let data = ctx.input(0)?;
    let output = ctx.in_single("", data, |ctx, suffix, data| {
        ctx.wire(suffix, Inverse { transpose }, &[data])
    })?;
    Ok(tvec!(output))
}
