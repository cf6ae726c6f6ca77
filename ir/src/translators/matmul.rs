//! Products of matrices, and attention.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;
use tract_openvino_kernels::GroupedProduct;
use tract_openvino_kernels::checks::listed;

use crate::context::LayerContext;
use crate::operators::range::Range;
use crate::registry::Registry;
use crate::workarounds::broadcast::loses_broadcast;
use crate::workarounds::opaque::Opaque;

pub(super) fn register(registry: &mut Registry) {
    registry.add("MatMul", 1, mat_mul);
    registry.add("GroupedMatMul", 17, grouped_mat_mul);
}

/// **MatMul-1**: NumPy's product of matrices. `transpose_a` and `transpose_b` swap the last two axes, unless
/// the input is a vector.
fn mat_mul(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let transpose_a = ctx.attribute_or("transpose_a", false)?;
    let transpose_b = ctx.attribute_or("transpose_b", false)?;
    let types = [ctx.datum_type(0)?, ctx.datum_type(1)?];
    let mut factors = [ctx.matrix_input(0)?, ctx.matrix_input(1)?];
    let transposed = [transpose_a, transpose_b];
    if types != [DatumType::F16; 2] {
        return Ok(tvec!(product(ctx, "", factors, transposed)?));
    }
    // A matrix of the file is in single precision by now, as its codes are.
    for (factor, name) in factors.iter_mut().zip(["a", "b"]) {
        *factor = ctx.single(name, *factor)?;
    }
    let product = product(ctx, "single", factors, transposed)?;
    Ok(tvec!(ctx.cast("", product, DatumType::F16)?))
}

/// **GroupedMatMul-17**: products of groups of rows, each with a matrix of its own, `[groups, columns, depth]`, whose rows
/// are the columns of the product. Data of rank 3 has the same number of rows for each group. Of data of rank 2, the third
/// input has the number of the row that each group ends before; rows after the last group become 0.
fn grouped_mat_mul(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=3)?;
    let (data, matrices) = (ctx.shape(0)?, ctx.shape_of_rank(1, "mat_b", 3)?);
    let doing = "multiplies the rows of each group by a matrix of its own";
    ctx.require_equal(
        data.last().context("input 0 (mat_a) is a scalar, but must have rank 2 or 3")?,
        &matrices[2],
        doing,
    )?;
    if ctx.input_count() == 3 {
        ctx.expect_integers(2, "offsets")?;
        let ends = ctx.shape_of_rank(2, "offsets", 1)?;
        ctx.require_equal(&ends[0], &matrices[0], doing)?;
    }
    match data.len() {
        // The ends are those of all rows.
        3 => {
            ctx.require_equal(&data[0], &matrices[0], doing)?;
            let factors = [ctx.matrix_input(0)?, ctx.matrix_input(1)?];
            Ok(tvec!(product(ctx, "", factors, [false, true])?))
        }
        2 if ctx.input_count() == 3 => {
            let dt = ctx.datum_type(0)?;
            let operating = type_of_products(dt)?;
            let factors = [ctx.input(0)?, ctx.input(1)?];
            ctx.same_type(&factors)?;
            let data = ctx.cast("a", factors[0], operating)?;
            let matrices = ctx.cast("b", factors[1], operating)?;
            let ends = ctx.input(2)?;
            let ends = ctx.cast("ends", ends, DatumType::I64)?;
            let suffix = if operating == dt { "" } else { "product" };
            let product = ctx.wire(suffix, GroupedProduct, &[data, matrices, ends])?;
            Ok(tvec!(ctx.cast("", product, dt)?))
        }
        2 => bail!("input 2 (offsets) is missing: mat_a has rank 2, and so groups of rows"),
        rank => bail!("input 0 (mat_a) has rank {rank}, but must have rank 2 or 3"),
    }
}

/// The product of matrices. Each of the two may be transposed. Batches are broadcast.
pub(super) fn product(
    ctx: &mut LayerContext,
    suffix: &str,
    inputs: [OutletId; 2],
    transposed: [bool; 2],
) -> TractResult<OutletId> {
    let shapes = [ctx.shape_of(inputs[0])?, ctx.shape_of(inputs[1])?];
    for (number, shape) in shapes.iter().enumerate() {
        ensure!(!shape.is_empty(), "factor {number} is a scalar, but must have rank 1 or more");
    }
    let batches = shapes.clone().map(|shape| shape[..shape.len().saturating_sub(2)].into());
    let batch_rank = ctx.broadcast_shapes(&batches)?.len();
    let batches = ellipsis(batch_rank, "kmn")?;
    let batch = |rank: usize| batches[batch_rank - rank..].iter().collect::<String>();
    // A vector is a row on the left and a column on the right. The result does not have that axis.
    let (mut labels, mut output) = ([String::new(), String::new()], batch(batch_rank));
    for (number, matrix) in [['m', 'k'], ['k', 'n']].into_iter().enumerate() {
        let rank = shapes[number].len();
        labels[number] = match rank {
            1 => "k".into(),
            _ if transposed[number] => format!("{}{}{}", batch(rank - 2), matrix[1], matrix[0]),
            _ => format!("{}{}{}", batch(rank - 2), matrix[0], matrix[1]),
        };
        output.extend(matrix.into_iter().filter(|label| rank > 1 && *label != 'k'));
    }
    let axis = |number: usize| {
        let axis = labels[number].chars().position(|label| label == 'k');
        axis.context("each factor has an axis that is summed")
    };
    let axes = [axis(0)?, axis(1)?];
    let doing = format!("multiplies {} by {}", listed(&shapes[0]), listed(&shapes[1]));
    let summed = ctx.require_equal(&shapes[0][axes[0]], &shapes[1][axes[1]], &doing)?;
    // tract would take a 1 for an axis that is broadcast, where it cannot tell that the other one is 1, too: its optimiser
    // does not end then.
    let mut factors = inputs;
    for (number, axis) in axes.into_iter().enumerate() {
        let mut shape = shapes[number].clone();
        shape[axis] = summed.clone();
        factors[number] = ctx.with_shape(factors[number], shape)?;
    }
    contract(ctx, suffix, factors, [&labels[0], &labels[1]], &output)
}

/// Labels for axes without a letter: letters that are not used. tract takes each label for one byte.
pub(super) fn ellipsis(rank: usize, used: &str) -> TractResult<Vec<char>> {
    let letters = ('A'..='Z').chain('a'..='z').filter(|letter| !used.contains(*letter));
    let labels: Vec<char> = letters.take(rank).collect();
    ensure!(
        labels.len() == rank,
        "there are {rank} axes without a letter, for which there are not enough letters"
    );
    Ok(labels)
}

/// Contracts two tensors by the labels of their axes. The output has their type.
///
/// tract only has products of floats and of `i32`. Those of half precision it adds in half precision.
pub(super) fn contract(
    ctx: &mut LayerContext,
    suffix: &str,
    inputs: [OutletId; 2],
    labels: [&str; 2],
    output: &str,
) -> TractResult<OutletId> {
    let [dt, other] = [ctx.type_of(inputs[0])?, ctx.type_of(inputs[1])?];
    ensure!(dt == other, "the factors are of types {dt:?} and {other:?}, but must be of one type");
    let operating = type_of_products(dt)?;
    let mut factors = tvec!();
    for (number, suffix) in ["a", "b"].into_iter().enumerate() {
        let factor = ctx.cast(suffix, inputs[number], operating)?;
        factors.push(
            match loses_broadcast(ctx.model, factor, labels[number], labels[1 - number]) {
                true => ctx.wire("opaque", Opaque, &[factor])?,
                false => factor,
            },
        );
    }
    // tract does not compare them when it runs.
    let (a, mut b) = (ctx.shape_of(factors[0])?, ctx.shape_of(factors[1])?);
    for (label, dim) in labels[1].chars().zip(b.iter_mut()) {
        if let Some(axis) = labels[0].chars().position(|other| other == label)
            && !a[axis].is_one()
            && !dim.is_one()
        {
            *dim = a[axis].clone();
        }
    }
    factors[1] = ctx.with_shape(factors[1], b)?;
    let op = EinSum::new(AxesMapping::from_strs(&labels, &[output])?, operating);
    let product = ctx.wire(if operating == dt { suffix } else { "product" }, op, &factors)?;
    ctx.cast(suffix, product, dt)
}

/// The type in which products of a type are computed.
fn type_of_products(dt: DatumType) -> TractResult<DatumType> {
    ensure!(dt.is_number() || dt.is_tdim(), "the factors are of type {dt:?}, but must be numbers");
    Ok(match dt {
        DatumType::F16 => DatumType::F32,
        dt if dt.is_float() => dt,
        DatumType::I8 | DatumType::U8 | DatumType::I16 | DatumType::U16 => DatumType::I32,
        DatumType::I32 => dt,
        // These are exact up to 2^53.
        _ => DatumType::F64,
    })
}

/// The numbers from 0 up to a size.
///
/// Not by tract's own operator, for the reason that [`Range`] gives.
pub(super) fn unseen_positions(
    ctx: &mut LayerContext,
    suffix: &str,
    size: &TDim,
) -> TractResult<OutletId> {
    let ends = ctx.range_ends(suffix, size)?;
    ctx.wire(suffix, Range::new(DatumType::I64, size.clone()), &ends)
}
