//! TensorIterator and Loop.

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use super::{BodyModel, body, symbols, whole_constant};
use crate::context::{LayerContext, Value, body_parameter_type, parameter_shape};
use crate::document::{Body, BodyRole, PortMap};
use crate::limits::MAX_LESSONS_OF_LOOP;
use crate::operators::control::{self, LoopInput, LoopOutput};
use crate::translators::blocks::multiply;
use crate::typed_op::one_element;

/// **TensorIterator-1**, **Loop-5**: runs a body again and again. An input of the layer is cut into a part
/// for each iteration, or is the same in all, or is the first value of a state that each iteration hands to
/// the next. An output is that of the last iteration, or those of all, one after another along an axis.
///
/// The first two inputs of Loop are the most iterations (no limit if negative, but that of
/// [`Limits::iterations`](crate::Limits::iterations)), and whether there is an iteration at all. A result of its body says whether there is another.
pub(super) fn iterate(ctx: &mut LayerContext, is_loop: bool) -> TractResult<TVec<OutletId>> {
    let body = body(ctx, BodyRole::Iteration, "body")?;
    let roles = roles(ctx, body)?;
    let goes_on = execution_condition(body)?;
    let before = symbols(ctx);
    let mut node_inputs = if is_loop { trip_count_and_condition(ctx)? } else { tvec![] };
    let (parameters, parts) = parameters(ctx, body, &roles, &mut node_inputs)?;
    ensure!(
        is_loop || parts.is_some(),
        "the number of iterations is unknown, because no input is cut into parts"
    );
    let (mut model, results) = loop_body(ctx, body, &parameters, &before)?;
    let count = match is_loop {
        true => loop_count(ctx, goes_on.map(|result| model.outlet_fact(results[result])))?,
        false => parts,
    };
    let mut outputs = vec![];
    let mut facts = tvec![];
    // The last entry for an output counts.
    let entries: HashMap<usize, &PortMap> =
        body.outputs.iter().filter_map(|entry| Some((entry.external?, entry))).collect();
    let initial_states = initial_states(&parameters);
    for output in 0..ctx.layer().outputs.len() {
        let entry = entries
            .get(&output)
            .with_context(|| format!("output {output} has no entry in the port_map"))?;
        let last = model.outlet_fact(results[entry.internal])?;
        let initial = initial_states.get(&entry.internal).copied();
        let (output, fact) = loop_output(ctx, entry, last, initial, count.as_ref(), &before)?;
        outputs.push(output);
        facts.push(fact);
    }
    model.select_output_outlets(&results)?;
    let inputs = parameters.into_iter().filter_map(|parameter| match parameter {
        Parameter::Fed(input, _) => Some(input),
        Parameter::Constant(_) => None,
    });
    let op = control::Loop {
        body: control::Body::new(model),
        inputs: inputs.collect(),
        outputs,
        most_iterations: ctx.options().limits.iterations,
        trip_count: is_loop.then_some(0),
        condition: is_loop.then_some(1),
        goes_on,
        facts,
    };
    ctx.finish(op, &node_inputs)
}

/// The result of a body that says whether there is another iteration.
fn execution_condition(body: &Body) -> TractResult<Option<usize>> {
    let mut goes_on = None;
    for entry in body.outputs.iter().filter(|entry| entry.external.is_none()) {
        let purpose = entry.attributes.get("purpose").map_or("", |purpose| purpose);
        ensure!(
            purpose == "execution_condition",
            "a result of the body has the purpose {purpose:?}, but only execution_condition is known"
        );
        goes_on = Some(entry.internal);
    }
    Ok(goes_on)
}

/// The first two inputs of Loop.
fn trip_count_and_condition(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=usize::MAX)?;
    for (input, name) in [(0, "trip_count"), (1, "execution_condition")] {
        ctx.expect_one_element(input, name)?;
    }
    let count = ctx.input(0)?;
    let count = ctx.cast("trip_count", count, DatumType::I64)?;
    Ok(tvec![count, ctx.input(1)?])
}

/// What a parameter of a loop's body is given.
enum Parameter {
    /// An input of the body, and what is known of it in the first iteration.
    Fed(LoopInput, Box<TypedFact>),
    /// A constant, which the body has in it.
    Constant(Value),
}

/// What each parameter of a loop's body is given, and how many parts inputs are cut into. The inputs of the node are
/// added to `node_inputs`.
fn parameters(
    ctx: &mut LayerContext,
    body: &Body,
    roles: &[Role],
    node_inputs: &mut TVec<OutletId>,
) -> TractResult<(Vec<Parameter>, Option<TDim>)> {
    let mut parameters = vec![];
    let mut count: Option<TDim> = None;
    for (parameter, role) in roles.iter().enumerate() {
        let layer = &body.graph.layers[body.graph.parameters[parameter]];
        let input = node_inputs.len();
        parameters.push(match *role {
            Role::Iteration => {
                let shape = parameter_shape(layer)?.with_context(|| {
                    format!("{layer}, the number of the iteration, leaves its rank open")
                })?;
                let rank = shape.dims().len();
                ensure!(rank <= 1, "{layer}, the number of the iteration, has rank {rank}");
                let datum_type = body_parameter_type(layer)?;
                let fact = datum_type.fact(&[1usize][..rank]);
                Parameter::Fed(LoopInput::Iteration { datum_type, rank }, fact.into())
            }
            Role::Whole(whole) => match whole_constant(ctx, whole)? {
                Some(constant) => Parameter::Constant(constant),
                None => {
                    node_inputs.push(ctx.input(whole)?);
                    let fact = ctx.fact(whole)?.without_value();
                    Parameter::Fed(LoopInput::Whole(input), fact.into())
                }
            },
            Role::Part { input: whole, parts: Parts { axis, size, backwards } } => {
                let outlet = in_type(ctx, whole, body_parameter_type(layer)?)?;
                let mut shape = ctx.shape_of(outlet)?;
                let axis = ctx.axis("axis of the port_map", axis, shape.len())?;
                let here = part_count(&shape[axis], size, axis)?;
                count = Some(match count {
                    Some(count) => {
                        ctx.require_equal(&count, &here, "cuts inputs into as many parts")?
                    }
                    None => here,
                });
                shape[axis] = size.to_dim();
                node_inputs.push(outlet);
                let fact = ctx.type_of(outlet)?.fact(shape);
                Parameter::Fed(LoopInput::Part { input, axis, size, backwards }, fact.into())
            }
            Role::State { input: first, result } => {
                let outlet = in_type(ctx, first, body_parameter_type(layer)?)?;
                node_inputs.push(outlet);
                let fact = ctx.model.outlet_fact(outlet)?.without_value();
                Parameter::Fed(LoopInput::State { input, output: result }, fact.into())
            }
        });
    }
    Ok((parameters, count))
}

/// What an output of a loop is, and its fact. `last` is that of the result after an iteration, and `initial` that of the
/// state before the first, if the result is one. Sizes may have the symbols of `outer`, and not those of the body.
fn loop_output(
    ctx: &LayerContext,
    entry: &PortMap,
    last: &TypedFact,
    initial: Option<&TypedFact>,
    count: Option<&TDim>,
    outer: &HashSet<Symbol>,
) -> TractResult<(LoopOutput, TypedFact)> {
    let mut shape = last.shape.to_tvec();
    let output = entry.internal;
    let (kind, whole_axis) = match parts(entry)? {
        Some(Parts { axis, backwards, .. }) => {
            let axis = ctx.axis("axis of the port_map", axis, shape.len())?;
            (LoopOutput::All { output, axis, backwards }, Some(axis))
        }
        None => (LoopOutput::Last(output), None),
    };
    // Without iterations a state is what it was at first.
    let initial = initial.filter(|_| whole_axis.is_none() && !is_positive(count));
    for (axis, dim) in shape.iter_mut().enumerate() {
        let total = match count {
            _ if initial.is_some_and(|it| it.shape.get(axis) != Some(dim)) => None,
            // The size of all iterations together.
            Some(count) if Some(axis) == whole_axis => Some(multiply(dim, count)?),
            None if Some(axis) == whole_axis => None,
            _ => Some(dim.clone()),
        };
        *dim = match total.filter(|total| total.symbols().is_subset(outer)) {
            Some(total) => total,
            None => ctx.size_at_run_time("size")?.to_dim(),
        };
    }
    Ok((kind, last.datum_type.fact(shape)))
}

/// What states are at first, by the results of the body that are their next values.
fn initial_states(parameters: &[Parameter]) -> HashMap<usize, &TypedFact> {
    let states = parameters.iter().rev().filter_map(|parameter| match parameter {
        Parameter::Fed(LoopInput::State { output, .. }, fact) => Some((*output, &**fact)),
        _ => None,
    });
    states.collect()
}

/// Whether a loop has an iteration, whatever it is fed.
fn is_positive(count: Option<&TDim>) -> bool {
    count.and_then(TDim::as_i64).is_some_and(|count| count > 0)
}

/// What a parameter of a loop's body is.
#[derive(Clone, Copy)]
enum Role {
    Iteration,
    Whole(usize),
    Part { input: usize, parts: Parts },
    State { input: usize, result: usize },
}

/// What each parameter of a loop's body is.
fn roles(ctx: &LayerContext, body: &Body) -> TractResult<Vec<Role>> {
    let mut roles: Vec<Option<Role>> = vec![None; body.graph.parameters.len()];
    let back_edges: HashMap<usize, usize> =
        body.back_edges.iter().rev().map(|edge| (edge.parameter, edge.result)).collect();
    for entry in &body.inputs {
        let parameter = entry.internal;
        let role = match (entry.external, parts(entry)?, back_edges.get(&parameter)) {
            (None, _, _) => {
                let purpose = entry.attributes.get("purpose").map_or("", |purpose| purpose);
                ensure!(
                    purpose == "current_iteration",
                    "a parameter of the body has the purpose {purpose:?}, but only current_iteration is \
                     known"
                );
                Role::Iteration
            }
            (Some(input), Some(parts), None) => Role::Part { input, parts },
            (Some(_), Some(_), Some(_)) => {
                bail!("a parameter of the body has parts of an input, and a back edge")
            }
            (Some(input), None, Some(result)) => Role::State { input, result: *result },
            (Some(input), None, None) => Role::Whole(input),
        };
        ensure!(
            roles[parameter].replace(role).is_none(),
            "parameter {parameter} of the body has two entries in the port_map"
        );
    }
    let layer = ctx.layer();
    let role = |(parameter, role): (usize, Option<Role>)| {
        let layer_of = &body.graph.layers[body.graph.parameters[parameter]];
        role.with_context(|| format!("no input of {layer} is {layer_of} of the body"))
    };
    roles.into_iter().enumerate().map(role).collect()
}

/// How an input is cut into parts, or an output is put together from parts.
#[derive(Clone, Copy)]
struct Parts {
    axis: i64,
    size: usize,
    backwards: bool,
}

/// `axis`, `start`, `end`, `stride`, `part_size` of an entry of the port map. Only whole axes are cut: from 0
/// to -1 in steps of part_size, or from -1 to 0 in steps of -part_size.
fn parts(entry: &PortMap) -> TractResult<Option<Parts>> {
    let number = |name: &str, default: i64| -> TractResult<i64> {
        let Some(text) = entry.attributes.get(name) else { return Ok(default) };
        text.trim().parse().map_err(|_| {
            format_err!(
                "{name} of an entry of the port_map is {text:?}, but must be a whole number"
            )
        })
    };
    if !entry.attributes.contains_key("axis") {
        return Ok(None);
    }
    let axis = number("axis", 0)?;
    let (start, end) = (number("start", 0)?, number("end", -1)?);
    let (stride, part_size) = (number("stride", 1)?, number("part_size", 1)?);
    let backwards = stride < 0;
    let whole = if backwards { (-1, 0) } else { (0, -1) };
    let size = usize::try_from(part_size).ok().filter(|size| *size > 0);
    let (Some(size), true) = (size, (start, end) == whole) else {
        bail!(
            "an entry of the port_map has start {start}, end {end}, stride {stride}, part_size {part_size}: only \
             whole axes are supported, 0 to -1 forwards and -1 to 0 backwards, and parts of 1 or more"
        )
    };
    ensure!(
        usize::try_from(stride.unsigned_abs()) == Ok(size),
        "an entry of the port_map has stride {stride} and part_size {size}, but these must be the same"
    );
    Ok(Some(Parts { axis, size, backwards }))
}

fn part_count(whole: &TDim, size: usize, axis: usize) -> TractResult<TDim> {
    if let Some(whole) = whole.as_i64() {
        let size = i64::try_from(size)?;
        ensure!(
            whole % size == 0,
            "axis {axis} of an input has size {whole}, but must be a multiple of the size of its parts, {size}"
        );
    }
    Ok(whole.clone() / size)
}

/// An input. Symbolic sizes become numbers, because each iteration may have another value.
fn in_type(ctx: &mut LayerContext, input: usize, dt: DatumType) -> TractResult<OutletId> {
    let outlet = ctx.input(input)?;
    match ctx.type_of(outlet)?.is_tdim() {
        true => ctx.cast("initial", outlet, dt),
        false => Ok(outlet),
    }
}

/// The number of iterations of a Loop, if it is known. `goes_on` is the fact of the result that says whether
/// there is another.
fn loop_count(
    ctx: &LayerContext,
    goes_on: Option<TractResult<&TypedFact>>,
) -> TractResult<Option<TDim>> {
    let is_true = |tensor: Option<Arc<Tensor>>| -> TractResult<Option<bool>> {
        tensor.map(|tensor| one_element(&tensor)).transpose()
    };
    let first = is_true(ctx.constant_opt(1)?)?;
    if first == Some(false) {
        return Ok(Some(0.to_dim()));
    }
    let later = match goes_on {
        Some(fact) => {
            let fact = fact?;
            ensure!(
                fact.shape.volume() == 1.to_dim(),
                "the body's execution_condition has shape {}, but must be one value",
                listed(&fact.shape)
            );
            is_true(fact.konst.clone())?
        }
        None => Some(true),
    };
    let limit = match ctx.constant_opt(0)? {
        Some(_) => ctx.dims(0, "trip_count")?.first().cloned(),
        None => None,
    };
    let most = ctx.options().limits.iterations;
    if let Some(trips) = limit.as_ref().and_then(TDim::as_i64)
        && later == Some(true)
    {
        ensure!(
            usize::try_from(trips).is_ok_and(|trips| trips <= most) || trips < 0,
            "the loop has {trips} iterations, but must have {most} or fewer: Limits::iterations, or \
         --iterations-limit of the command-line tool, sets this limit"
        );
    }
    let endless = limit.as_ref().and_then(TDim::as_i64).is_some_and(|limit| limit < 0);
    ensure!(
        !endless || later != Some(true) || first.is_none(),
        "the loop has no end: its trip_count is negative, and its condition is always true"
    );
    Ok(match (first, later, endless) {
        (Some(true), Some(true), false) => limit,
        _ => None,
    })
}

/// The model of a loop's body, and its results. If an iteration changes a size of a state, that size is a
/// symbol in the body. It is translated again whenever that is learnt of a size. Each could follow from the one before,
/// so that after some of these lessons all sizes of the states are symbols.
fn loop_body(
    ctx: &mut LayerContext,
    body: &Body,
    parameters: &[Parameter],
    outer: &HashSet<Symbol>,
) -> TractResult<(TypedModel, Vec<OutletId>)> {
    let mut changing: BTreeMap<(usize, usize), TDim> = BTreeMap::new();
    for lesson in 1.. {
        let mut built = BodyModel::new(ctx);
        let mut values = vec![];
        for (number, parameter) in parameters.iter().enumerate() {
            values.push(match parameter {
                Parameter::Fed(_, fact) => {
                    let mut shape = fact.shape.to_tvec();
                    for (axis, dim) in shape.iter_mut().enumerate() {
                        if let Some(symbol) = changing.get(&(number, axis)) {
                            *dim = symbol.clone();
                        }
                    }
                    built.source(ctx, body, number, fact.datum_type.fact(shape))?
                }
                Parameter::Constant(constant) => constant.clone(),
            });
        }
        let results = built.translate(ctx, body, values)?;
        let known = changing.len();
        for (number, parameter) in parameters.iter().enumerate() {
            let Parameter::Fed(LoopInput::State { output, .. }, before) = parameter else {
                continue;
            };
            let after = built.model.outlet_fact(results[*output])?;
            ensure!(
                before.datum_type == after.datum_type && before.rank() == after.rank(),
                "parameter {number} of the body is of type {:?} and shape {} at first, but of type \
                 {:?} and shape {} after an iteration: type and rank must be the same",
                before.datum_type,
                listed(&before.shape),
                after.datum_type,
                listed(&after.shape)
            );
            for (axis, (old, new)) in before.shape.iter().zip(after.shape.iter()).enumerate() {
                if old == new || changing.contains_key(&(number, axis)) {
                    continue;
                }
                // The two sizes are of inputs that go together, like a state and a tensor that is cut into
                // parts.
                if let (TDim::Sym(_), TDim::Sym(new_symbol)) = (old, new)
                    && outer.contains(new_symbol)
                {
                    ctx.require_equal(old, new, "hands it from iteration to iteration")?;
                    continue;
                }
                changing.insert((number, axis), ctx.size_at_run_time("size")?.to_dim());
            }
        }
        if changing.len() == known {
            return Ok((built.model, results));
        }
        if lesson == MAX_LESSONS_OF_LOOP {
            for (number, axis) in sizes_of_states(parameters) {
                if let Entry::Vacant(entry) = changing.entry((number, axis)) {
                    entry.insert(ctx.size_at_run_time("size")?.to_dim());
                }
            }
        }
    }
    bail!("the sizes of the states change without end")
}

/// The sizes of all states: the numbers of their parameters and their axes.
fn sizes_of_states(parameters: &[Parameter]) -> impl Iterator<Item = (usize, usize)> {
    parameters.iter().enumerate().flat_map(|(number, parameter)| match parameter {
        Parameter::Fed(LoopInput::State { .. }, fact) => {
            (0..fact.rank()).map(|axis| (number, axis)).collect()
        }
        _ => vec![],
    })
}
