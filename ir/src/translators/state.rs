//! Variables that a network keeps from run to run.

use std::collections::BTreeMap;

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use crate::context::{Dimensions, LayerContext, Restart, Variables};
use crate::document::{Dimension, PartialShape};
use crate::operators::variable::{Assign, ReadValue};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("ReadValue", 3, read_value).with_state();
    registry.add("ReadValue", 6, read_value).with_state()
        .without(
        "a variable in a body of control flow and elsewhere; a variable of a body that changes its size",
    );
    registry.add("Assign", 3, assign).with_state();
    registry
        .add("Assign", 6, assign)
        .with_state()
        .without("as ReadValue; a variable that is assigned twice");
}

/// What the attributes of a ReadValue say of the variable, where they say it. Those of revision 3 do not.
#[derive(Default)]
struct Declared {
    dims: Option<Vec<Dimension>>,
    datum_type: Option<DatumType>,
}

fn declared(ctx: &LayerContext) -> TractResult<Declared> {
    let mut declared = Declared::default();
    if ctx.since() < 6 {
        return Ok(declared);
    }
    let text: String = ctx.attribute("variable_shape")?;
    if !text.contains("...") {
        let shape = PartialShape::parse(&text).context("in attribute variable_shape")?;
        declared.dims = Some(shape.dims().to_vec());
    }
    let text: String = ctx.attribute("variable_type")?;
    if !["dynamic", "undefined"].contains(&text.trim()) {
        declared.datum_type = Some(ctx.attribute("variable_type")?);
    }
    Ok(declared)
}

/// **ReadValue-3**, **ReadValue-6**: the value of the variable `variable_id`. Before it is assigned one, that
/// is the input. In revision 6 the input is optional: without it, the variable starts with zeros of
/// `variable_shape` and `variable_type`.
///
/// An open dimension of the shape is that of the initial value if the assigned value has the same, like a
/// batch. Otherwise it is a symbol, which gets its value when the model runs.
fn read_value(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let id: String = ctx.attribute("variable_id")?;
    ctx.expect_inputs(if ctx.since() < 6 { 1..=1 } else { 0..=1 })?;
    let Declared { dims: declared, datum_type: declared_type } = declared(ctx)?;
    let mut initial = None;
    if ctx.input_count() > 0 {
        let outlet = ctx.input(0)?;
        let found = ctx.type_of(outlet)?;
        let dt = if found.is_tdim() { DatumType::I64 } else { found };
        let dt = declared_type.filter(|_| found.is_tdim()).unwrap_or(dt);
        ensure!(
            declared_type.is_none_or(|declared| declared == dt),
            "input 0 (init_value) is of type {dt:?}, but must be of type {:?}, as variable_type says",
            declared_type.unwrap_or(dt)
        );
        initial = Some(ctx.cast("initial", outlet, dt)?);
    }
    let initial_shape = initial.map(|outlet| ctx.shape_of(outlet)).transpose()?;
    let declared = match (declared, &initial_shape) {
        (Some(declared), _) => declared,
        (None, Some(shape)) => vec![Dimension { min: 0, max: None }; shape.len()],
        (None, None) => {
            bail!(
                "attribute variable_shape is ..., but must have a number of dimensions if there is no input"
            )
        }
    };
    if let Some(shape) = &initial_shape {
        ensure!(
            shape.len() == declared.len(),
            "input 0 (init_value) has shape {shape}, but must have rank {}, as variable_shape says",
            declared.len(),
            shape = listed(shape)
        );
    }
    let mut shape = tvec!();
    let mut taken = BTreeMap::new();
    for (axis, declared) in declared.iter().enumerate() {
        let initial = initial_shape.as_ref().map_or(0.to_dim(), |shape| shape[axis].clone());
        let translation = ctx.translation();
        let changing = translation.variables.entry(&id).changing.get(&axis).cloned();
        shape.push(match (declared.size(), changing) {
            (Some(size), _) => match &initial_shape {
                Some(_) => ctx.require_equal(&initial, &size.to_dim(), "starts with its input")?,
                None => size.to_dim(),
            },
            (None, Some(symbol)) => translation.dimensions.known(&symbol.to_dim())?,
            // What is empty at first does not stay so.
            (None, None) if initial == 0.to_dim() => {
                let symbol = changing_dimension(ctx, &id, axis, declared)?;
                ctx.translation().dimensions.known(&symbol.to_dim())?
            }
            (None, None) => {
                taken.insert(axis, *declared);
                initial
            }
        });
    }
    let datum_type = match (initial, declared_type) {
        (Some(outlet), _) => ctx.type_of(outlet)?,
        (None, Some(dt)) => dt,
        (None, None) => {
            bail!("attribute variable_type is dynamic, but must be a type if there is no input")
        }
    };
    let variable = ctx.translation().variables.entry(&id).variable.clone();
    let op = ReadValue { variable, datum_type, shape: shape.into(), pages: None };
    let outlet = ctx.wire("", op, initial.as_slice())?;
    ctx.translation().variables.entry(&id).reads.push((outlet, taken));
    Ok(tvec!(outlet))
}

/// A symbol for a dimension that changes from run to run.
fn changing_dimension(
    ctx: &mut LayerContext,
    id: &str,
    axis: usize,
    declared: &Dimension,
) -> TractResult<Symbol> {
    let translation = ctx.translation();
    refuse_change(id, translation.variables.is_body)?;
    let symbol = translation.dimensions.add_state(id, axis, *declared)?;
    translation.variables.entry(id).changing.insert(axis, symbol.clone());
    Ok(symbol)
}

fn refuse_change(id: &str, is_body: bool) -> TractResult<()> {
    ensure!(!is_body, "variable {id:?} changes its size: a variable in a body must keep it");
    Ok(())
}

/// **Assign-3**, **Assign-6**: gives the variable `variable_id` its value for the next run. The output is the
/// input.
fn assign(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let id: String = ctx.attribute("variable_id")?;
    let value = ctx.input(0)?;
    let dt = match ctx.type_of(value)? {
        // Sizes are `TDim` while they are symbolic.
        dt if dt.is_tdim() => ctx.output_type(0).unwrap_or(DatumType::I64),
        dt => dt,
    };
    let value = ctx.cast("value", value, dt)?;
    let layer = ctx.layer().to_string();
    let entry = ctx.translation().variables.entry(&id);
    if let Some((other, _)) = entry.assigned.replace((layer, value)) {
        bail!("variable {id:?} is assigned twice: {other} assigns it, too")
    }
    Ok(tvec!(value))
}

/// Wires the assignments. The network's outputs pass through them, so that the variables get their values
/// whichever output is asked for. A variable that nothing reads is left out.
///
/// # Errors
///
/// A value does not have the type or the shape of its variable. Or a dimension that was assumed to stay the
/// same changes: then the translation starts again.
pub(crate) fn wire_assignments(
    model: &mut TypedModel,
    outlets: &mut [OutletId],
    dimensions: &mut Dimensions,
    variables: &mut Variables,
) -> TractResult<()> {
    let (mut assigned, mut values, mut reads) = (vec![], vec![], vec![]);
    let (mut learnt, is_body) = (false, variables.is_body);
    for (id, entry) in &mut variables.entries {
        let Some((layer, value)) = &entry.assigned else { continue };
        let value = model.outlet_fact(*value).map(|fact| (*value, fact.clone()))?;
        for (outlet, taken) in &entry.reads {
            let fact = model.outlet_fact(*outlet)?;
            let (found, read) = (&value.1.shape, &fact.shape);
            ensure!(
                value.1.datum_type == fact.datum_type && found.rank() == read.rank(),
                "{layer} gives variable {id:?} a value of type {:?} and shape {found}, but it has type \
                 {:?} and shape {read}",
                value.1.datum_type,
                fact.datum_type,
                found = listed(found),
                read = listed(read)
            );
            for (axis, (found, read)) in found.iter().zip(read.iter()).enumerate() {
                if entry.changing.contains_key(&axis) {
                    continue;
                }
                match taken.get(&axis) {
                    None => {
                        let because = || format!("{layer} gives variable {id:?} its value");
                        dimensions.require_equal(found, read, &because)?;
                    }
                    Some(declared) if (found.clone() - read).simplify() != 0.to_dim() => {
                        refuse_change(id, is_body)?;
                        entry.changing.insert(axis, dimensions.add_state(id, axis, *declared)?);
                        learnt = true;
                    }
                    Some(_) => (),
                }
            }
            reads.push(*outlet);
        }
        if !entry.reads.is_empty() {
            assigned.push(entry.variable.clone());
            values.push(value.0);
        }
    }
    if learnt {
        return Err(Restart::Learnt.into());
    }
    if assigned.is_empty() {
        return Ok(());
    }
    ensure!(!outlets.is_empty(), "the model has variables, but no outputs");
    let inputs = [&values, &reads, &*outlets].concat();
    let op = Assign { variables: assigned, outputs: outlets.len() };
    let name = model.unique_name("assign").into_owned();
    let through = model.wire_node(name, op, &inputs)?;
    for (old, new) in outlets.iter().zip(&through) {
        if let Some(label) = model.outlet_label(*old).map(str::to_string) {
            model.set_outlet_label(*new, label)?;
        }
    }
    // Names lead to one outlet.
    for old in outlets.iter().filter(|old| !model.inputs.contains(old)) {
        model.outlet_labels.remove(old);
    }
    outlets.copy_from_slice(&through);
    Ok(())
}
