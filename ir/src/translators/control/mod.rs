//! Control flow: layers that have bodies.

mod conditional;
mod iteration;

use std::collections::HashSet;

use tract_core::internal::*;
use tract_openvino_kernels::guard_downsamples;

use super::state::wire_assignments;
use crate::context::{LayerContext, Taken, Value, Variables};
use crate::document::{Body, BodyRole};
use crate::registry::Registry;
use crate::workarounds::bound::bind_symbols;

pub(super) fn register(registry: &mut Registry) {
    registry.add("If", 8, conditional::if_8).without(
        "branches of different types or ranks, if the condition is only known when the model runs",
    );
    registry.add("TensorIterator", 1, |ctx| iteration::iterate(ctx, false))
        .without(
            "parts of an axis that are not the whole (`start` and `end`); a `stride` other than `part_size`; values \
             whose type or rank changes from iteration to iteration",
        );
    registry.add("Loop", 5, |ctx| iteration::iterate(ctx, true)).without("as TensorIterator");
}

/// A body of the layer, which must be there.
fn body<'a>(ctx: &LayerContext<'a, '_>, role: BodyRole, name: &str) -> TractResult<&'a Body> {
    let found = ctx.layer().bodies.iter().find(|body| body.role == role);
    found.with_context(|| format!("there is no <{name}>"))
}

/// An input, if it is a constant: each run of the body sees all of it.
fn whole_constant(ctx: &LayerContext, input: usize) -> TractResult<Option<Value>> {
    match ctx.input_value(input)? {
        Value::Outlet(_) => Ok(ctx.constant_opt(input)?.map(Value::Constant)),
        value => Ok(Some(value)),
    }
}

fn symbols(ctx: &LayerContext) -> HashSet<Symbol> {
    ctx.model.symbols.all_symbols().into_iter().collect()
}

/// The model of a body, and which inputs of the node go into it.
struct BodyModel {
    model: TypedModel,
    /// The names of its nodes so far.
    taken: Taken,
    inputs: Vec<usize>,
    /// The symbols of the models around it.
    outer: HashSet<Symbol>,
}

impl BodyModel {
    fn new(ctx: &LayerContext) -> BodyModel {
        let model = TypedModel { symbols: ctx.model.symbols.clone(), ..TypedModel::default() };
        BodyModel { model, taken: Taken::default(), inputs: vec![], outer: symbols(ctx) }
    }

    /// An input of the model that is a parameter of the body.
    fn source(
        &mut self,
        ctx: &mut LayerContext,
        body: &Body,
        parameter: usize,
        fact: TypedFact,
    ) -> TractResult<Value> {
        let layer = &body.graph.layers[body.graph.parameters[parameter]];
        let translation = ctx.translation();
        let outer = translation.enter_model(std::mem::take(&mut self.taken));
        let name = translation.unique_name(&self.model, &layer.name);
        self.taken = translation.enter_model(outer);
        self.model.add_source(name, fact).map(Value::Outlet)
    }

    /// Translates the body, and gives all its results.
    fn translate(
        &mut self,
        ctx: &mut LayerContext,
        body: &Body,
        values: Vec<Value>,
    ) -> TractResult<Vec<OutletId>> {
        let place = ctx.place().body(body);
        ctx.translation().bodies.translate(&place, body)?;
        // They are kept in the state of the layer, each body's for itself.
        let mut variables = Variables::of_body();
        std::mem::swap(ctx.translation().variables, &mut variables);
        let outer = ctx.translation().enter_model(std::mem::take(&mut self.taken));
        let outlets = self.results(ctx, body, values);
        ctx.translation().enter_model(outer);
        std::mem::swap(ctx.translation().variables, &mut variables);
        let mut outlets = outlets?;
        let translation = ctx.translation();
        wire_assignments(&mut self.model, &mut outlets, translation.dimensions, &mut variables)?;
        translation.own(variables.ids().cloned(), &place)?;
        bind_symbols(&mut self.model, &self.outer)?;
        guard_downsamples(&mut self.model, 0)?;
        Ok(outlets)
    }

    fn results(
        &mut self,
        ctx: &mut LayerContext,
        body: &Body,
        values: Vec<Value>,
    ) -> TractResult<Vec<OutletId>> {
        let results = ctx.body_into(&mut self.model, body, values)?;
        let mut outlets = vec![];
        for (result, value) in results.iter().enumerate() {
            let layer = &body.graph.layers[body.graph.results[result]];
            let dt = body.graph.result_type(result);
            outlets.push(ctx.translation().result(&mut self.model, &layer.name, value, dt)?);
        }
        Ok(outlets)
    }
}
