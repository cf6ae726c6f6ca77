//! From a document to a model: layer by layer, in the order of the graph.

mod alone;
mod deferred;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::identity::Identity;
use tract_openvino_kernels::guard_downsamples;

use crate::context::{
    Budget, Computations, Dimensions, LayerContext, NotKnown, Options, Place, Restart,
    TranslateGraph, Translation, Value, Values, Variables, constant, parameter_shape,
    parameter_type,
};
use crate::document::{Graph, Layer};
use crate::registry::Registry;
use crate::shortened::{shortened, shortened_name};
use crate::stated_layouts::{End, state_layout};
use crate::translators::sizes::{self, Computed};
use crate::translators::state::wire_assignments;
use crate::unsupported::UnsupportedOperations;
use crate::weights::{Weights, datum_type};
use crate::workarounds::bias::move_biases;
use crate::workarounds::bound::bind_symbols;
use crate::workarounds::pool_indices::drop_unused_indices;
use crate::workarounds::size_bounds::SizeBounds;

#[cfg(feature = "onnx")]
pub(crate) use self::alone::Alone;
pub(crate) use self::alone::with_layers;

/// The model of a graph and its weights.
pub(crate) fn translate(
    registry: &Registry,
    options: &Options,
    graph: &Graph,
    weights: &Weights,
    template: TypedModel,
) -> TractResult<TypedModel> {
    translate_until_known(registry, options, graph, weights, template).map_err(shortened)
}

/// Translates the graph, once more whenever something is learnt that changes what was translated before.
fn translate_until_known(
    registry: &Registry,
    options: &Options,
    graph: &Graph,
    weights: &Weights,
    template: TypedModel,
) -> TractResult<TypedModel> {
    UnsupportedOperations::refuse(registry, graph)?;
    let parameter = |layer: &usize| parameter_shape(&graph.layers[*layer]);
    let declared = graph.parameters.iter().map(parameter).collect::<TractResult<Vec<_>>>()?;
    let mut dimensions =
        Dimensions::new(template.symbols.clone(), graph, &options.shapes, &declared)?;
    let limit = options.limits.constant_bytes(weights.len().unwrap_or(0));
    let mut computations = Computations::new(Budget::new(limit));
    let mut variables = Variables::default();
    let mut starts = 0;
    // The limit grows: variables add open dimensions on the way.
    while starts <= dimensions.most_starts() {
        starts += 1;
        variables.start();
        computations.start();
        let known = dimensions.count_learnt();
        let mut translation = Translation::new(
            registry,
            options,
            weights,
            &mut dimensions,
            &mut computations,
            &mut variables,
        );
        let mut model = template.clone();
        let result = translate_network(&mut translation, &mut model, graph);
        // Whatever came of it: some shapes are not what they will be.
        if dimensions.count_learnt() > known {
            continue;
        }
        let Err(error) = result else { return Ok(model) };
        match error.downcast_ref() {
            Some(Restart::Learnt) => (),
            Some(Restart::Dropped) => computations = computations.restarted(),
            None => return Err(error),
        }
    }
    bail!(
        "the open dimensions did not converge: set them with Ir::with_input_shape, or --shape of the command-line tool"
    )
}

/// Translates the graph of a document, with its inputs and outputs.
fn translate_network(
    translation: &mut Translation,
    model: &mut TypedModel,
    graph: &Graph,
) -> TractResult<()> {
    let mut inputs = vec![];
    for (number, layer) in graph.parameters.iter().enumerate() {
        let layer = &graph.layers[*layer];
        let fact = parameter_type(layer)?.fact(translation.dimensions.of_input(number)?);
        let name = translation.unique_name(model, &layer.name);
        let outlet = model.add_source(name, fact)?;
        if let Some(name) = graph.input_names(number).first() {
            let name = shortened_name(name).into_owned();
            let layout = layer.outputs.first().and_then(|port| port.layout.clone());
            state_layout(model, End::Input, &name, layout);
            model.set_outlet_label(outlet, name)?;
        }
        inputs.push(Value::Outlet(outlet));
    }
    let outputs =
        translation.driver.translate_graph(translation, model, graph, &Place::default(), inputs)?;
    let mut outlets = vec![];
    for (number, value) in outputs.iter().enumerate() {
        let name = shortened_name(graph.output_name(number)).into_owned();
        if let Some(element_type) = graph.result_type(number).filter(|it| datum_type(*it).is_none())
        {
            bail!(
                "output {number} {name:?} is of type {element_type}, and outputs of this type are not supported: tract has no \
                 such type. Convert it to f32 in the model"
            );
        }
        let mut outlet = translation.result(model, &name, value, graph.result_type(number))?;
        // An outlet has one name: that of an input, or of another output, stays.
        if model.outlet_label(outlet).is_some() {
            let fact = model.outlet_fact(outlet)?.without_value();
            let node = translation.unique_name(model, &name);
            let node = model.add_node(node, Identity, tvec!(fact))?;
            model.add_edge(outlet, InletId::new(node, 0))?;
            outlet = node.into();
        }
        let source = graph.layers[graph.results[number]].inputs.first();
        let layout = source.and_then(|source| graph.output(*source).layout.clone());
        state_layout(model, End::Output, &name, layout);
        model.set_outlet_label(outlet, name)?;
        outlets.push(outlet);
    }
    wire_bounds(translation, model, &mut outlets)?;
    wire_assignments(model, &mut outlets, translation.dimensions, translation.variables)?;
    let ids = translation.variables.ids().cloned().collect::<Vec<_>>();
    translation.own(ids, &Place::default())?;
    model.select_output_outlets(&outlets)?;
    // The first of them, while nodes are in the order in which they were wired.
    bind_symbols(model, &HashSet::new())?;
    drop_unused_indices(model)?;
    move_biases(model)?;
    guard_downsamples(model, 0)?;
    translation.budget().take_computed(model)
}

/// Has the first output pass through a check of the sizes of the inputs, if the file does not allow them all.
fn wire_bounds(
    translation: &Translation,
    model: &mut TypedModel,
    outlets: &mut [OutletId],
) -> TractResult<()> {
    let bounds = translation.dimensions.bounds()?;
    if let Some(outlet) = outlets.first_mut()
        && !bounds.is_empty()
    {
        let name = translation.unique_name(model, "size_bounds");
        let checked = model.wire_node(name, SizeBounds { bounds }, &[*outlet])?[0];
        if let Some(label) = model.outlet_label(*outlet).map(str::to_string) {
            model.set_outlet_label(checked, label)?;
        }
        // Names lead to one outlet.
        if !model.inputs.contains(outlet) {
            model.outlet_labels.remove(outlet);
        }
        *outlet = checked;
    }
    Ok(())
}

impl TranslateGraph for Registry {
    fn translate_graph(
        &self,
        translation: &mut Translation,
        model: &mut TypedModel,
        graph: &Graph,
        place: &Place,
        inputs: Vec<Value>,
    ) -> TractResult<Vec<Value>> {
        let mut values = Values::new(graph);
        for (layer, value) in graph.parameters.iter().zip(inputs) {
            values.of[*layer] = vec![value; graph.layers[*layer].outputs.len().max(1)];
        }
        let mut results = HashMap::new();
        for (number, layer) in graph.layers.iter().enumerate() {
            let inputs: Vec<Value> = layer
                .inputs
                .iter()
                .map(|source| values.of[source.layer][source.output].clone())
                .collect();
            match &*layer.operation {
                "Parameter" => (),
                "Result" => {
                    results.insert(number, inputs.into_iter().next());
                }
                "Constant" => {
                    let blob = constant(layer).with_context(|| format!("in {layer}"))?;
                    values.of[number] =
                        vec![Value::Weights(Arc::new(blob)); layer.outputs.len().max(1)];
                }
                _ => {
                    let names = layer.inputs.iter().map(|it| &*graph.layers[it.layer].name);
                    let mut context = LayerContext::new(
                        translation,
                        model,
                        layer,
                        place.layer(number, layer),
                        inputs,
                        names.collect(),
                    );
                    let outputs = translate_layer(self, &mut context)
                        .with_context(|| format!("in {layer}"))?;
                    // Constants that were put into the model need not be put there again.
                    let used = context.into_inputs();
                    for (source, value) in layer.inputs.iter().zip(used) {
                        values.of[source.layer][source.output] = value;
                    }
                    ensure!(
                        outputs.len() >= layer.outputs.len(),
                        "{layer}: the number of outputs is {}, but its operation has {}",
                        layer.outputs.len(),
                        outputs.len()
                    );
                    values.of[number] = outputs;
                }
            }
            values.translated(graph, place, number, translation.computations);
        }
        graph
            .results
            .iter()
            .map(|number| {
                let value = results.remove(number).flatten();
                value.with_context(|| format!("{} has no edge to it", graph.layers[*number]))
            })
            .collect()
    }

    fn has_state(&self, layer: &Layer) -> bool {
        Registry::has_state(self, layer)
    }

    fn translate_layer(&self, layer: &mut LayerContext) -> TractResult<Vec<Value>> {
        translate_once(self, layer)
    }
}

/// Translates a layer, once more whenever it learns something of open dimensions. The whole translation starts again
/// then, but only after the layers that follow, which may say more of them.
fn translate_layer(registry: &Registry, layer: &mut LayerContext) -> TractResult<Vec<Value>> {
    loop {
        let known = layer.translation().dimensions.count_learnt();
        match translate_or_defer(registry, layer) {
            Err(error)
                if error.downcast_ref() == Some(&Restart::Learnt)
                    && layer.translation().dimensions.count_learnt() > known => {}
            result => return result,
        }
    }
}

/// Translates the layer: computes its outputs if all its inputs are constants, and wires its nodes otherwise.
///
/// If the layer needs a value or a size that only a run knows, it is translated when the model runs. A layer with a state is
/// not: that would be lost after each run.
fn translate_or_defer(registry: &Registry, layer: &mut LayerContext) -> TractResult<Vec<Value>> {
    let error = match translate_once(registry, layer) {
        Err(error) if !error.is::<Restart>() => error,
        result => return result,
    };
    let missing = error.downcast_ref::<NotKnown>();
    // Any operator may fail for sizes that only a run knows.
    if (missing.is_some() || has_sizes_of_a_run(layer))
        && !layer.has_state()
        && let Some(values) = layer.defer(registry, missing.and_then(|missing| missing.input))?
    {
        return Ok(values);
    }
    if missing.is_none() && has_open_inputs(layer) && layer.translation().dimensions.are_open() {
        bail!(error.context("dimensions of its inputs are open, and may have to be given sizes"));
    }
    Err(error)
}

/// Whether sizes of some inputs of the layer are not known yet.
fn has_open_inputs(layer: &LayerContext) -> bool {
    let is_open = |shape: TVec<TDim>| shape.iter().any(|dim| dim.as_i64().is_none());
    (0..layer.input_count()).any(|input| layer.shape(input).is_ok_and(is_open))
}

/// Whether sizes of some inputs of the layer do not follow from those of the model's inputs.
fn has_sizes_of_a_run(layer: &mut LayerContext) -> bool {
    let shapes = (0..layer.input_count()).filter_map(|input| layer.shape(input).ok());
    let dims: Vec<TDim> = shapes.flatten().collect();
    let dimensions = &layer.translation().dimensions;
    dims.iter().any(|dim| !dimensions.follows_from_inputs(dim))
}

/// Translates another operation in the place of a layer, of the operation set with this number. `suffix` is what the names of its
/// nodes have after that of the layer.
pub(crate) fn translate_as(
    layer: &mut LayerContext,
    suffix: &str,
    (operation, opset): (&str, u32),
    attributes: BTreeMap<String, String>,
    inputs: Vec<Value>,
) -> TractResult<TVec<OutletId>> {
    let part = Layer {
        name: suffix.into(),
        operation: operation.into(),
        opset: format!("opset{opset}"),
        attributes,
        ..Layer::default()
    };
    let driver = layer.translation().driver;
    let values = layer.with_part(&part, inputs, |context| driver.translate_layer(context))?;
    values.iter().map(|value| layer.wired(value)).collect()
}

/// Translates a layer with what is known now.
fn translate_once(registry: &Registry, layer: &mut LayerContext) -> TractResult<Vec<Value>> {
    let found = registry.find(layer.layer()).map_err(|reason| format_err!("{reason}"))?;
    layer.identify(found.operation, found.since);
    if found.since == 0 || layer.translation().at_run_time {
        return layer.translate_with(&*found.translate);
    }
    let known = match sizes::computed(layer)? {
        Some(Computed::Constant(outlet)) => return Ok(vec![Value::Outlet(outlet)]),
        Some(Computed::Known(known)) => Some(known),
        None => None,
    };
    let mut values = layer.translate_with(&*found.translate)?;
    if let [Value::Outlet(outlet)] = &mut *values {
        *outlet = sizes::derived(layer, *outlet, known)?;
    }
    Ok(values)
}
