//! Shapes: reading them, and tensors in other shapes.

use tract_core::internal::*;
use tract_core::ops::change_axes::{AxisOp, perm_to_ops, to_axis_ops_with_onnx_rules};
use tract_openvino_kernels::checks::{known_size, listed};

use super::blocks::multiply;
use crate::context::{LayerContext, NotKnown};
use crate::operators::range::Range;
use crate::operators::reshape::Reshape;
use crate::registry::Registry;
use crate::workarounds::equal_shape::EqualShape;
use crate::workarounds::expressions::is_size;

pub(super) fn register(registry: &mut Registry) {
    registry.add("ShapeOf", 1, shape_of);
    registry.add("ShapeOf", 3, shape_of);
    registry.add("Reshape", 1, reshape);
    registry.add("Squeeze", 1, squeeze);
    registry.add("Squeeze", 15, squeeze);
    registry.add("Unsqueeze", 1, unsqueeze);
    registry.add("Transpose", 1, transpose);
    registry.add("Broadcast", 1, broadcast);
    registry.add("Broadcast", 3, broadcast);
    registry.add("Tile", 1, tile);
    registry.add("Range", 1, range);
    registry.add("Range", 4, range);
}

/// **ShapeOf-1**, **ShapeOf-3**: the sizes of the input's axes. A constant: symbols stand for the open ones.
fn shape_of(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let shape = ctx.shape(0)?;
    Ok(tvec!(ctx.add_const("shape", tensor1(&shape))?))
}

/// The product of sizes, whose numbers must not be too large to be counted.
fn volume(dims: &[TDim]) -> TractResult<TDim> {
    let numbers = dims.iter().filter_map(|dim| dim.as_i64());
    let number = numbers.into_iter().try_fold(1i64, |product, dim| product.checked_mul(dim));
    let number = number
        .with_context(|| format!("shape {} has more elements than can be counted", listed(dims)))?;
    let symbols = dims.iter().filter(|dim| dim.as_i64().is_none());
    Ok(symbols.fold(number.to_dim(), |product, dim| product * dim))
}

/// **Reshape-1**: the same elements in another shape. One dimension may be -1, and is what the others leave.
/// A 0 copies the input's dimension at the same place if `special_zero` is true, and otherwise is an axis
/// without elements, for which the -1 is 1.
fn reshape(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let special_zero = ctx.attribute_or("special_zero", false)?;
    let from = ctx.shape(0)?;
    let target = ctx.dims(1, "shape")?;
    let mut to = if special_zero { with_copies(&from, &target)? } else { target.clone() };
    let is_open = |dim: &TDim| dim.as_i64() == Some(-1);
    let wrong = to.iter().find(|dim| dim.as_i64().is_some_and(|dim| dim < -1));
    ensure!(
        wrong.is_none() && to.iter().filter(|dim| is_open(dim)).count() <= 1,
        "shape is {}, but each dimension must be -1 or a size, and only one -1",
        listed(&target)
    );
    let open = to.iter().position(is_open);
    let stated = to.iter().filter(|dim| !is_open(dim));
    let (left, wanted) = without_common(&from, stated, special_zero);
    let doing = format!("reshapes {} to {}", listed(&from), listed(&target));
    require_alike_equal(ctx, &left, &wanted, open.is_some(), &doing)?;
    let (left, wanted) = (volume(&left)?, volume(&wanted)?);
    if let Some(open) = open {
        match open_dim(&left, &wanted) {
            OpenDim::Known(dim) => to[open] = dim,
            OpenDim::AtRunTime => {
                to[open] = ctx.size_at_run_time("reshaped")?.to_dim();
                let input = ctx.input(0)?;
                return ctx.finish(Reshape { shape: to, open: Some(open) }, &[input]);
            }
            OpenDim::None => bail!(
                "{} cannot be reshaped to {}: the -1 would be ({left})/({wanted}), which is not a size",
                listed(&from),
                listed(&target)
            ),
        }
    } else if left != wanted {
        ctx.require_equal(&left, &wanted, &doing)?;
        if !are_equal(&left, &wanted) {
            let input = ctx.input(0)?;
            return ctx.finish(Reshape { shape: to, open: None }, &[input]);
        }
    }
    wire_reshape(ctx, from, to)
}

/// Whether tract can tell that two numbers of elements are equal.
fn are_equal(a: &TDim, b: &TDim) -> bool {
    a == b || (a.clone() - b).simplify().as_i64() == Some(0)
}

/// A shape that copies the dimensions of another one where it is 0.
fn with_copies(from: &[TDim], target: &[TDim]) -> TractResult<TVec<TDim>> {
    let copied = |(axis, dim): (usize, &TDim)| {
        if dim.as_i64() != Some(0) {
            return Ok(dim.clone());
        }
        from.get(axis).cloned().with_context(|| {
            format!(
                "shape is {}, which copies dimension {axis}, but the input has rank {}",
                listed(target),
                from.len()
            )
        })
    };
    target.iter().enumerate().map(copied).collect()
}

/// The factors of a dimension: exporters flatten a batch of rows by writing the product of both sizes.
fn factors(dim: &TDim) -> Vec<TDim> {
    match dim {
        TDim::Mul(terms) => terms.iter().flat_map(factors).collect(),
        TDim::MulInt(number, dim) => [vec![number.to_dim()], factors(dim)].concat(),
        other => vec![other.clone()],
    }
}

/// The factors of the dimensions of two shapes without those that both have: they need not be compared. A size of 0 is only one
/// of these if it was copied.
fn without_common<'a>(
    from: &[TDim],
    to: impl Iterator<Item = &'a TDim>,
    copies: bool,
) -> (Vec<TDim>, Vec<TDim>) {
    let mut left: Vec<TDim> = from.iter().flat_map(factors).collect();
    let mut wanted: Vec<TDim> = to.flat_map(factors).collect();
    left.retain(|dim| !dim.is_one());
    wanted.retain(|dim| !dim.is_one());
    wanted.retain(|dim| {
        let may_be_common = copies || dim.as_i64() != Some(0);
        match left.iter().position(|other| may_be_common && other == dim) {
            Some(common) => {
                left.remove(common);
                false
            }
            None => true,
        }
    });
    (left, wanted)
}

/// Notes which symbols are equal: exporters write the sizes of one input for a tensor that is made of another.
fn require_alike_equal(
    ctx: &mut LayerContext,
    left: &[TDim],
    wanted: &[TDim],
    has_open: bool,
    doing: &str,
) -> TractResult<()> {
    let numbers = |dims: &[TDim]| {
        volume(&dims.iter().filter(|dim| dim.as_i64().is_some()).cloned().collect::<Vec<_>>())
    };
    let symbols = |dims: &[TDim]| -> Vec<TDim> {
        dims.iter().filter(|dim| matches!(dim, TDim::Sym(_))).cloned().collect()
    };
    let same_numbers = numbers(left)? == numbers(wanted)?;
    let (left, wanted) = (symbols(left), symbols(wanted));
    let are_pairs = match has_open {
        true => left.len() >= wanted.len(),
        false => same_numbers && left.len() == wanted.len(),
    };
    for (from, to) in left.iter().zip(&wanted).filter(|_| are_pairs) {
        if ctx.are_alike(from, to) {
            ctx.require_equal(from, to, doing)?;
        }
    }
    Ok(())
}

/// What the -1 of a shape is.
enum OpenDim {
    Known(TDim),
    /// It is a size for some sizes of the inputs only.
    AtRunTime,
    /// No size.
    None,
}

/// What the other dimensions of a shape leave of the elements.
fn open_dim(left: &TDim, wanted: &TDim) -> OpenDim {
    match (left.as_i64(), wanted.as_i64()) {
        // Any size would do.
        (Some(0), Some(0)) => return OpenDim::Known(1.to_dim()),
        (_, Some(0)) => return OpenDim::None,
        _ => (),
    }
    match (left.maybe_div(wanted), left.as_i64(), wanted.as_i64()) {
        (Ok((dim, 1)), ..) => OpenDim::Known(dim.simplify()),
        (_, Some(_), Some(_)) => OpenDim::None,
        _ => OpenDim::AtRunTime,
    }
}

/// Wires the change of the input's shape.
fn wire_reshape(
    ctx: &mut LayerContext,
    from: TVec<TDim>,
    to: TVec<TDim>,
) -> TractResult<TVec<OutletId>> {
    // tract reshapes no tensor without elements.
    if let Ok(sizes) = to.iter().map(known_size).collect::<TractResult<TVec<_>>>()
        && sizes.contains(&0)
    {
        let dt = ctx.datum_type(0)?;
        let empty = ctx.add_computed("empty", dt, &sizes, || Tensor::zero_dt(dt, &sizes))?;
        return Ok(tvec!(empty));
    }
    let input = ctx.input(0)?;
    // If groups of axes cannot be told apart, all axes are one group.
    let changes = to_axis_ops_with_onnx_rules(&from, &to, true)
        .unwrap_or_else(|_| tvec!(AxisOp::Reshape(0, from.clone(), to.clone())));
    Ok(tvec!(ctx.change_axes("", input, changes)?))
}

/// **Squeeze-1**, **Squeeze-15**: removes axes of size 1: those that are named, or all if none is named. A
/// named axis of another size stays, as in OpenVINO since 2024.3.
fn squeeze(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=2)?;
    let shape = ctx.shape(0)?;
    let axes = if ctx.input_count() == 2 { ctx.integers(1, "axes")? } else { tvec!() };
    let removed: TVec<usize> = if axes.is_empty() {
        if shape.iter().any(|dim| dim.as_i64().is_none()) {
            bail!(NotKnown::sizes(format!(
                "all axes of size 1 are removed from {shape}, which depends on the sizes of the inputs: give \
                 these",
                shape = listed(&shape)
            )));
        }
        (0..shape.len()).filter(|axis| shape[*axis].is_one()).collect()
    } else {
        let mut removed = tvec!();
        for axis in ctx.axes("axes", &axes, shape.len())? {
            match shape[axis].as_i64() {
                Some(1) => removed.push(axis),
                Some(_) => (),
                None => {
                    ctx.require_equal(&shape[axis], &1.to_dim(), "removes it")?;
                    removed.push(axis);
                }
            }
        }
        removed
    };
    let input = ctx.input(0)?;
    let changes = removed.into_iter().rev().map(AxisOp::Rm);
    Ok(tvec!(ctx.change_axes("", input, changes)?))
}

/// **Unsqueeze-1**: adds axes of size 1. They are positions in the output.
fn unsqueeze(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let axes = ctx.integers(1, "axes")?;
    let rank = ctx.rank(0)? + axes.len();
    let axes = ctx.axes("axes", &axes, rank)?;
    let input = ctx.input(0)?;
    Ok(tvec!(ctx.change_axes("", input, axes.into_iter().map(AxisOp::Add))?))
}

/// **Transpose-1**: `order` says which axis of the input each axis of the output is. If it is empty or
/// absent, the order is reversed.
fn transpose(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=2)?;
    let rank = ctx.rank(0)?;
    let order = if ctx.input_count() == 2 { ctx.integers(1, "order")? } else { tvec!() };
    let order: TVec<usize> = if order.is_empty() {
        (0..rank).rev().collect()
    } else {
        let in_order = ctx.axes("order", &order, rank)?;
        ensure!(
            in_order.len() == rank,
            "order is {order:?}, but must name each of the {rank} axes once"
        );
        order.iter().map(|axis| ctx.axis("order", *axis, rank)).collect::<TractResult<_>>()?
    };
    let input = ctx.input(0)?;
    Ok(tvec!(ctx.change_axes("", input, perm_to_ops(&order))?))
}

/// Replaces the larger of a size and 1, which exporters write, by the size. They differ for tensors without
/// elements only, and the size can be compared with other sizes.
fn without_one(dim: TDim) -> TDim {
    match dim {
        TDim::Max(terms) if terms.len() == 2 && terms.iter().any(TDim::is_one) => {
            let size = terms.iter().find(|term| !term.is_one()).cloned();
            size.filter(is_size).unwrap_or(TDim::Max(terms))
        }
        dim => dim,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum BroadcastMode {
    Numpy,
    Bidirectional,
    Explicit,
}

/// **Broadcast-1**, **Broadcast-3**: broadcasts data to `target_shape`. `mode` is `numpy`: the last axes
/// meet, and each dimension of data is 1 or that of the target; or `bidirectional`: where the target is 1,
/// the dimension of data stays; or `explicit`: `axes_mapping` says which axis of the output each axis of data
/// is.
fn broadcast(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=3)?;
    let mode = ctx.attribute_among(
        "mode",
        &[
            ("numpy", BroadcastMode::Numpy),
            ("bidirectional", BroadcastMode::Bidirectional),
            ("explicit", BroadcastMode::Explicit),
            ("none", BroadcastMode::Explicit),
        ],
        Some(BroadcastMode::Numpy),
    )?;
    let data = ctx.shape(0)?;
    let target: TVec<TDim> = ctx.sizes(1, "target_shape")?.into_iter().map(without_one).collect();
    // Where the axes of data are in the output.
    let positions: TVec<usize> = if mode == BroadcastMode::Explicit {
        let mapping = ctx.integers(2, "axes_mapping")?;
        let sorted = ctx.axes("axes_mapping", &mapping, target.len())?;
        ensure!(
            mapping.len() == data.len()
                && sorted.iter().map(|axis| *axis as i64).eq(mapping.iter().copied()),
            "axes_mapping is {mapping:?}, but must name an axis of the output for each of the {} of data, \
             in ascending order",
            data.len()
        );
        sorted
    } else {
        let rank = target.len().max(data.len());
        ensure!(
            mode == BroadcastMode::Bidirectional || data.len() <= target.len(),
            "the data has rank {}, but must have rank {} or less, the number of elements of target_shape",
            data.len(),
            target.len()
        );
        (rank - data.len()..rank).collect()
    };
    let rank = target.len().max(data.len());
    let added = (0..rank).filter(|axis| !positions.contains(axis)).map(AxisOp::Add);
    let input = ctx.input(0)?;
    let mut input = ctx.change_axes("fix_rank", input, added)?;
    let mut fitting = ctx.shape_of(input)?;
    let mut output: TVec<TDim> = tvec![1.to_dim(); rank - target.len()];
    output.extend(target.iter().cloned());
    for (axis, dim) in positions.into_iter().zip(data) {
        let keeps = mode == BroadcastMode::Bidirectional && output[axis].is_one();
        if keeps {
            output[axis] = dim;
        } else if !dim.is_one() {
            let wanted = output[axis].clone();
            ctx.require_equal(&dim, &wanted, "broadcasts one to the other")?;
            fitting[axis] = wanted;
        }
    }
    // Where only a run knows whether they are equal, the data may have size 1, too.
    if fitting != ctx.shape_of(input)? {
        let suffix = if fitting == output { "" } else { "equal_shape" };
        input = ctx.wire(suffix, EqualShape::or_broadcast(fitting), &[input])?;
    }
    if output == ctx.shape_of(input)? {
        return Ok(tvec!(input));
    }
    ctx.repeated("", input, output).map(|output| tvec!(output))
}

/// **Tile-1**: repeats the data along each axis. If the shape and `repeats` are not of one length, ones are
/// put in front of the shorter.
fn tile(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let mut repeats = ctx.sizes(1, "repeats")?;
    let input = ctx.input(0)?;
    let missing = repeats.len().saturating_sub(ctx.rank(0)?);
    let input = ctx.change_axes("fix_rank", input, std::iter::repeat_n(AxisOp::Add(0), missing))?;
    let rank = ctx.shape_of(input)?.len();
    while repeats.len() < rank {
        repeats.insert(0, 1.to_dim());
    }
    // Each axis that is repeated gets one in front, which is broadcast. tract's Tile makes a list of as many views
    // as there are repetitions, also of a tensor without elements.
    let shape = ctx.shape_of(input)?;
    let (mut wide, mut changes, mut joined) = (tvec!(), vec![], vec![]);
    for (axis, (size, count)) in shape.iter().zip(&repeats).enumerate() {
        if count.is_one() || *size == 0.to_dim() {
            wide.push(size.clone());
        } else if size.is_one() {
            wide.push(count.clone());
        } else {
            changes.push(AxisOp::Add(wide.len()));
            wide.extend([count.clone(), size.clone()]);
            let product = multiply(size, count)?;
            joined.push(AxisOp::Reshape(axis, tvec!(count.clone(), size.clone()), tvec!(product)));
        }
    }
    if wide == shape {
        return Ok(tvec!(input));
    }
    let input = ctx.change_axes("repeated", input, changes)?;
    let suffix = if joined.is_empty() { "" } else { "repeated" };
    let output = ctx.repeated(suffix, input, wide)?;
    ctx.change_axes("", output, joined).map(|output| tvec!(output))
}

/// **Range-1**, **Range-4**: the numbers from `start` to before `stop`, in steps of `step`. They are of
/// `output_type` in revision 4, and of the type of the inputs in revision 1.
fn range(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let dt: DatumType = match ctx.since() {
        1 => ctx.output_type(0).unwrap_or(ctx.datum_type(0)?),
        _ => ctx.attribute("output_type")?,
    };
    ensure!(dt.is_number() && !dt.is_quantized(), "a range of type {dt:?} is not supported");
    for (input, name) in ["start", "stop", "step"].into_iter().enumerate() {
        ctx.expect_one_element(input, name)?;
    }
    let ends = (0..3).map(|input| ctx.constant_opt(input));
    let ends = ends.collect::<TractResult<Option<Vec<_>>>>()?;
    let ends = ends.filter(|ends| ends.iter().all(|end| !end.datum_type().is_tdim()));
    if let Some(ends) = ends {
        let len = Range::count(dt, &ends)?.to_dim();
        let inputs = ctx.all_inputs()?;
        return ctx.finish(Range::new(dt, len), &inputs);
    }
    let numbers = [whole_number(ctx, 0)?, whole_number(ctx, 1)?, whole_number(ctx, 2)?];
    let inputs = ctx.all_inputs()?;
    if let [Some(start), Some(stop), Some(step)] = &numbers
        && let Some(step @ 1..) = step.as_i64()
    {
        let distance = (stop.clone() - start).simplify();
        if is_size(&distance) {
            let len = distance.divceil(usize::try_from(step)?);
            return ctx.finish(Range::new(dt, len), &inputs);
        }
    }
    let (len, _) = ctx.symbol_of_a_run("range");
    ctx.finish(Range::new(dt, len.to_dim()), &inputs)
}

/// The one element of an input, if it is a whole number that is known when the model is loaded: a constant,
/// or a size that was converted to a float.
fn whole_number(ctx: &LayerContext, input: usize) -> TractResult<Option<TDim>> {
    let Some(tensor) = ctx.constant_opt(input)? else {
        let derived = ctx.derived(input)?;
        let element = derived.and_then(|derived| derived.elements?.into_iter().next());
        return Ok(element.filter(|it| it.divisor == 1).map(|it| it.numerator));
    };
    if tensor.datum_type().is_float() {
        let number = tensor.cast_to_scalar::<f64>()?;
        // Larger floats are not exact.
        let whole = number.fract() == 0. && number.abs() < 9e15;
        return Ok(whole.then(|| (number as i64).to_dim()));
    }
    Ok(crate::context::tdims(&tensor)?.first().cloned())
}
