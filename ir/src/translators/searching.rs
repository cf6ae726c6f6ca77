//! Operations that look for elements.

use tract_core::internal::*;

use crate::context::LayerContext;
use crate::operators::search_sorted::SearchSorted;
use crate::operators::unique::Unique;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Unique", 10, unique);
    registry.add("Bucketize", 3, bucketize);
    registry.add("SearchSorted", 15, search_sorted);
}

/// **Unique-10**: the elements, or with `axis` the slices along it, each once: in ascending order if they are
/// `sorted`, and otherwise in the order of the input. Further outputs are where each is first, which one each
/// element of the input is, and how often each is there.
fn unique(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=2)?;
    let axis = match ctx.input_count() {
        2 => Some(ctx.axis("axis", ctx.integer(1, "axis")?, ctx.rank(0)?)?),
        _ => None,
    };
    let sorted = ctx.attribute_or("sorted", true)?;
    let index_type = ctx.index_type("index_element_type", DatumType::I64)?;
    let count_type = ctx.index_type("count_element_type", DatumType::I64)?;
    let data = ctx.number_input(0)?;
    let count = ctx.size_at_run_time("unique")?.to_dim();
    let mut outputs = ctx.finish(Unique { axis, sorted, count }, &[data])?;
    for (output, dt) in [(1, index_type), (2, index_type), (3, count_type)] {
        outputs[output] = ctx.cast("numbers", outputs[output], dt)?;
    }
    Ok(outputs)
}

/// **Bucketize-3**: the number of the bucket of each element. The second input has the bounds between them. With
/// `with_right_bound` a bound belongs to the bucket before it, and otherwise to the one after it.
fn bucketize(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    ctx.shape_of_rank(1, "buckets", 1)?;
    let right = !ctx.attribute_or("with_right_bound", true)?;
    search(ctx, [("buckets", 1), ("data", 0)], right)
}

/// **SearchSorted-15**: where each element of the second input would have to be put into a sorted sequence: in
/// front of equal elements, or with `right_mode` after them. The sequences are the lines of the last axis of
/// the first input. If it has rank 1, there is one for all.
fn search_sorted(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let (sorted, values) = (ctx.shape(0)?, ctx.shape(1)?);
    if sorted.len() != 1 {
        let last = sorted.len().checked_sub(1);
        ctx.equal_shapes(&sorted, &values, last, "has a sorted sequence for each line of values")?;
    }
    let right = ctx.attribute_or("right_mode", false)?;
    search(ctx, [("sorted_sequence", 0), ("values", 1)], right)
}

/// Searches values in sorted sequences. They are inputs of the layer, with names.
fn search(
    ctx: &mut LayerContext,
    inputs: [(&str, usize); 2],
    right: bool,
) -> TractResult<TVec<OutletId>> {
    let output_type = ctx.index_type("output_type", DatumType::I64)?;
    let mut operands = vec![];
    for (name, input) in inputs {
        ctx.expect_numbers(input, name)?;
        operands.push(ctx.number_input(input)?);
    }
    let dt = common_type(ctx.type_of(operands[0])?, ctx.type_of(operands[1])?)?;
    for operand in &mut operands {
        *operand = ctx.cast("common", *operand, dt)?;
    }
    let suffix = if output_type == DatumType::I64 { "" } else { "positions" };
    let positions = ctx.wire(suffix, SearchSorted { right }, &operands)?;
    Ok(tvec!(ctx.cast("", positions, output_type)?))
}

/// The type in which numbers of two types are compared.
fn common_type(a: DatumType, b: DatumType) -> TractResult<DatumType> {
    match (a.is_float(), b.is_float()) {
        (true, false) => Ok(a),
        (false, true) => Ok(b),
        _ => a
            .common_super_type(b)
            // tract has none of i8 and u8, for example.
            .or(Some(DatumType::I64)
                .filter(|_| [a, b].iter().all(|dt| dt.is_integer() && *dt != DatumType::U64)))
            .with_context(|| format!("types {a:?} and {b:?} cannot be compared")),
    }
}
