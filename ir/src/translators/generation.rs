//! Operations that make tensors from sizes.

use tract_core::internal::*;
use tract_core::ops::array::{CumSum, MultiBroadcastTo, Slice};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::logic::comp_eq;
use tract_core::ops::math::{add, exp, ln, mul, neg, sub};
use tract_openvino_kernels::checks::{known_sizes, listed, volume};

use crate::context::LayerContext;
use crate::limits::MAX_STATED_ELEMENTS;
use crate::operators::random_uniform::RandomUniform;
use crate::operators::search_sorted::SearchSorted;
use crate::operators::top_k::TopK;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Eye", 9, eye);
    registry
        .add("RandomUniform", 8, random_uniform)
        .with_state()
        .without("`alignment` pytorch with a seed");
    registry
        .add("Multinomial", 13, multinomial)
        .with_state()
        .without("the numbers of OpenVINO's library for a seed: it gives others");
}

/// Checks the number of elements of what is generated.
fn check_elements(shape: &[TDim]) -> TractResult<()> {
    let known = known_sizes(shape)?;
    ensure!(
        known.contains(&0) || volume(&known).is_some_and(|volume| volume <= MAX_STATED_ELEMENTS),
        "the output would have shape {}, but must have {MAX_STATED_ELEMENTS} elements or fewer",
        listed(shape)
    );
    Ok(())
}

/// **Eye-9**: matrices with ones on a diagonal, and zeros elsewhere. A `diagonal_index` above 0 means one above
/// the main diagonal. With `batch_shape` there are as many as it says.
fn eye(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=4)?;
    let mut sizes = vec![];
    for (input, name) in [(0, "num_rows"), (1, "num_columns"), (2, "diagonal_index")] {
        ctx.expect_integers(input, name)?;
        ctx.expect_one_element(input, name)?;
        if name != "diagonal_index" {
            sizes.push(ctx.sizes(input, name)?[0].clone());
        }
    }
    let mut shape = match ctx.input_count() {
        4 => ctx.sizes(3, "batch_shape")?,
        _ => tvec![],
    };
    shape.extend(sizes.iter().cloned());
    check_elements(&shape)?;
    let dt: DatumType = ctx.attribute("output_type")?;
    let diagonal = ctx.number_input(2)?;
    let diagonal = ctx.cast("diagonal", diagonal, DatumType::I64)?;
    let diagonal = ctx.one_element("diagonal", diagonal, 2)?;
    let rows = ctx.positions("rows", &sizes[0])?;
    let rows = ctx.change_axes("rows", rows, [AxisOp::Add(1)])?;
    let ones = ctx.wire("ones", add(), &[rows, diagonal])?;
    let columns = ctx.positions("columns", &sizes[1])?;
    let columns = ctx.change_axes("columns", columns, [AxisOp::Add(0)])?;
    let is_one = ctx.wire("is_one", TypedBinOp(comp_eq(), None), &[ones, columns])?;
    if ctx.input_count() == 3 {
        return Ok(tvec!(ctx.cast("", is_one, dt)?));
    }
    let mut eye = ctx.cast("eye", is_one, dt)?;
    let added = vec![AxisOp::Add(0); shape.len() - 2];
    eye = ctx.change_axes("eye", eye, added)?;
    ctx.finish(MultiBroadcastTo { shape: shape.into() }, &[eye])
}

/// **RandomUniform-8**: numbers in `[minval, maxval)`, aligned to TensorFlow: of each pair of seeds there is one
/// sequence. It goes on from run to run of a state. If both seeds are 0, it is another one for each state.
fn random_uniform(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let seeds = seeds(ctx)?;
    let words = [("tensorflow", true), ("pytorch", false)];
    ensure!(
        ctx.attribute_among("alignment", &words, Some(true))? || seeds == [0; 2],
        "attribute alignment is pytorch, which is not supported with a seed: it must be tensorflow"
    );
    let dt: DatumType = ctx.attribute("output_type")?;
    let types = [DatumType::F16, DatumType::F32, DatumType::F64, DatumType::I32, DatumType::I64];
    ensure!(
        types.contains(&dt),
        "attribute output_type is {}, but must be one of f16, f32, f64, i32, i64",
        format!("{dt:?}").to_lowercase()
    );
    let shape = ctx.sizes(0, "shape")?;
    check_elements(&shape)?;
    let mut bounds = tvec![];
    for (input, name) in [(1, "minval"), (2, "maxval")] {
        ctx.expect_one_element(input, name)?;
        ctx.expect_numbers(input, name)?;
        let bound = ctx.number_input(input)?;
        bounds.push(ctx.cast(name, bound, dt)?);
    }
    ctx.finish(RandomUniform { seeds, shape }, &bounds)
}

/// The seeds that the attributes say: `global_seed` and `op_seed`.
fn seeds(ctx: &LayerContext) -> TractResult<[u64; 2]> {
    let seed = |name| TractResult::Ok(ctx.attribute_or(name, 0usize)? as u64);
    Ok([seed("global_seed")?, seed("op_seed")?])
}

/// **Multinomial-13**: classes, each with its probability, or with `log_probs` with the exponential of its logit.
/// Without replacement each comes once. OpenVINO has other numbers for the same seeds, those of its C++ library.
fn multinomial(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    ctx.expect_floats(0, "probs")?;
    ctx.expect_one_element(1, "num_samples")?;
    let dt = ctx.index_type("convert_type", DatumType::I32)?;
    let (with_replacement, logarithms): (bool, bool) =
        (ctx.attribute("with_replacement")?, ctx.attribute("log_probs")?);
    let seeds = seeds(ctx)?;
    let samples = ctx.sizes(1, "num_samples")?[0].clone();
    let shape = ctx.shape_of_rank(0, "probs", 2)?;
    check_elements(&[shape[0].clone(), samples.clone()])?;
    let input = ctx.input(0)?;
    let input = ctx.cast("single", input, DatumType::F32)?;
    let random = |ctx: &mut LayerContext, count: &TDim| {
        let bounds = [ctx.add_const("low", tensor0(0f32))?, ctx.add_const("high", tensor0(1f32))?];
        let shape = tvec![shape[0].clone(), count.clone()];
        ctx.wire("random", RandomUniform { seeds, shape }, &bounds)
    };
    let classes = if with_replacement {
        let probabilities = if logarithms { ctx.wire("exp", exp(), &[input])? } else { input };
        let cumulated = CumSum { axis: 1, exclusive: false, reverse: false };
        let cumulated = ctx.wire("cumulated", cumulated, &[probabilities])?;
        let (start, end) = (shape[1].clone() - 1, shape[1].clone());
        let total = ctx.wire("total", Slice { axis: 1, start, end }, &[cumulated])?;
        let numbers = random(ctx, &samples)?;
        let numbers = ctx.wire("numbers", mul(), &[numbers, total])?;
        ctx.wire("classes", SearchSorted { right: true }, &[cumulated, numbers])?
    } else {
        // The greatest of the logits with Gumbel noise are classes without replacement.
        let logits = if logarithms { input } else { ctx.wire("logits", ln(), &[input])? };
        let numbers = random(ctx, &shape[1])?;
        let logarithms = ctx.wire("ln", ln(), &[numbers])?;
        let exponential = ctx.wire("exponential", neg(), &[logarithms])?;
        let noise = ctx.wire("noise", ln(), &[exponential])?;
        let keys = ctx.wire("keys", sub(), &[logits, noise])?;
        let op =
            TopK { axis: 1, greatest: true, by_position: false, k: samples, k_is_input: false };
        ctx.wire_all("classes", op, &[keys])?[1]
    };
    Ok(tvec!(ctx.cast("", classes, dt)?))
}
