//! From a document to a model: layer by layer, in the order of the graph.

mod attribute;
mod budget;
mod deferred;
pub(crate) mod dimensions;
mod folded;
mod layer;
mod names;
mod sources;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::cast::cast;
use tract_core::ops::identity::Identity;
use tract_core::ops::konst::Const;

pub use attribute::FromAttribute;
pub(crate) use dimensions::is_size;
pub use layer::LayerContext;
use layer::compressed::Compressed;
pub(crate) use layer::table::Table;
pub(crate) use layer::tdims;
pub(crate) use sources::{parameter_shape, parameter_type};

use crate::document::{ElementType, Graph};
use crate::opl::bound::bind_symbols;
use crate::ops::bias::move_biases;
use crate::ops::pooling::drop_unused_indices;
use crate::ops::state::{Variables, wire_assignments};
use crate::reader::{Ir, IrProtoModel};
use crate::shortened::shortened;
use crate::unsupported::UnsupportedOperations;
use crate::weights::{Blob, Weights, datum_type, widened};
use budget::Budget;
use dimensions::{Dimensions, Learnt};
use folded::{Computations, Dropped, Folded, Values};
use names::Names;
use sources::constant;

/// The model that the two files describe.
pub(crate) fn translate(
    ir: &Ir,
    proto: &IrProtoModel,
    template: TypedModel,
) -> TractResult<TypedModel> {
    translate_graph(ir, proto, template).map_err(shortened)
}

fn translate_graph(ir: &Ir, proto: &IrProtoModel, template: TypedModel) -> TractResult<TypedModel> {
    let graph = proto.document.graph();
    UnsupportedOperations::refuse(&ir.registry, graph)?;
    let parameter = |layer: &usize| parameter_shape(&graph.layers[*layer]);
    let declared = graph.parameters.iter().map(parameter).collect::<TractResult<Vec<_>>>()?;
    let mut dimensions = Dimensions::new(template.symbols.clone(), graph, &ir.shapes, &declared)?;
    let limit = ir.limits.constant_bytes(proto.weights.len().unwrap_or(0));
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
            ir,
            &proto.weights,
            &mut dimensions,
            &mut computations,
            &mut variables,
        );
        let mut model = template.clone();
        let result = translation.network(&mut model, graph);
        match result {
            // Whatever came of it: some shapes are not what they will be.
            _ if dimensions.count_learnt() > known => (),
            Ok(()) => return Ok(model),
            Err(error) if error.is::<Learnt>() => (),
            Err(error) if error.is::<Dropped>() => computations = computations.restarted(),
            Err(error) => return Err(error),
        }
    }
    bail!(
        "the open dimensions did not converge: set them with Ir::with_input_shape, or --shape of the command-line tool"
    )
}

/// Translates a layer, once more whenever it learns something of open dimensions. The whole translation starts again
/// then, but only after the layers that follow, which may say more of them.
fn translate_layer(layer: &mut LayerContext) -> TractResult<Vec<Value>> {
    loop {
        let known = layer.translation().dimensions.count_learnt();
        match layer.translate() {
            Err(error)
                if error.is::<Learnt>()
                    && layer.translation().dimensions.count_learnt() > known => {}
            result => return result,
        }
    }
}

/// What an output of a layer is, once the layer is translated.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// A node of the model computes it.
    Outlet(OutletId),
    /// A constant that is not in the model yet: it may not be needed there.
    Constant(Arc<Tensor>),
    /// A constant that a layer computed.
    Folded(Folded),
    /// A constant that was not read yet.
    Weights(Arc<Blob>),
    /// Weights that were not decompressed yet.
    Compressed(Arc<Compressed>),
}

/// One attempt to translate a model.
pub(crate) struct Translation<'a> {
    pub ir: &'a Ir,
    weights: &'a Weights,
    pub dimensions: &'a mut Dimensions,
    /// The results of layers with constant inputs. They are kept when the translation starts again.
    computations: &'a mut Computations,
    /// The variables of `ReadValue` and `Assign`. What was learnt of them is kept, too.
    pub variables: &'a mut Variables,
    /// The graph that each variable is in, by its address.
    pub variable_owners: HashMap<String, usize>,
    /// How many bodies of control flow were translated.
    pub bodies: usize,
    names: RefCell<Names>,
    /// Whether the model runs, and a layer of it is translated with the values that its inputs have.
    pub at_run_time: bool,
}

impl<'a> Translation<'a> {
    pub fn new(
        ir: &'a Ir,
        weights: &'a Weights,
        dimensions: &'a mut Dimensions,
        computations: &'a mut Computations,
        variables: &'a mut Variables,
    ) -> Translation<'a> {
        Translation {
            ir,
            weights,
            dimensions,
            computations,
            variables,
            variable_owners: HashMap::new(),
            bodies: 0,
            names: RefCell::default(),
            at_run_time: false,
        }
    }
}

impl Translation<'_> {
    fn network(&mut self, model: &mut TypedModel, graph: &Graph) -> TractResult<()> {
        let mut inputs = vec![];
        for (number, layer) in graph.parameters.iter().enumerate() {
            let layer = &graph.layers[*layer];
            let fact = parameter_type(layer)?.fact(self.dimensions.of_input(number)?);
            let name = self.unique_name(model, layer.name.clone());
            let outlet = model.add_source(name, fact)?;
            if let Some(name) = graph.input_names(number).first() {
                model.set_outlet_label(outlet, name.clone())?;
            }
            inputs.push(Value::Outlet(outlet));
        }
        let outputs = self.graph(model, graph, "", inputs)?;
        let mut outlets = vec![];
        for (number, value) in outputs.iter().enumerate() {
            let names = graph.output_names(number);
            let name = names.first().map_or("output", |name| name).to_string();
            let mut outlet = self.result(model, &name, value, graph.result_type(number))?;
            // An outlet has one name: that of an input, or of another output, stays.
            if model.outlet_label(outlet).is_some() {
                let fact = model.outlet_fact(outlet)?.without_value();
                let node = self.unique_name(model, name.clone());
                let node = model.add_node(node, Identity, tvec!(fact))?;
                model.add_edge(outlet, InletId::new(node, 0))?;
                outlet = node.into();
            }
            model.set_outlet_label(outlet, name)?;
            outlets.push(outlet);
        }
        wire_assignments(model, &mut outlets, self.dimensions, self.variables)?;
        let ids = self.variables.ids().cloned().collect::<Vec<_>>();
        self.own(ids, std::ptr::from_ref(graph).addr())?;
        model.select_output_outlets(&outlets)?;
        // The first of them, while nodes are in the order in which they were wired.
        bind_symbols(model, &HashSet::new())?;
        drop_unused_indices(model)?;
        move_biases(model)?;
        self.budget().take_computed(model)
    }

    /// Translates a graph whose parameters have these values, into nodes whose names start with `prefix`,
    /// and gives the values of its results.
    pub fn graph(
        &mut self,
        model: &mut TypedModel,
        graph: &Graph,
        prefix: &str,
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
                    let names = layer.inputs.iter().map(|it| graph.layers[it.layer].name.clone());
                    let mut context =
                        LayerContext::new(self, model, layer, prefix, inputs, names.collect());
                    let outputs =
                        translate_layer(&mut context).with_context(|| format!("in {layer}"))?;
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
            values.translated(graph, number, self.computations);
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

    /// A name for a node that a model does not have yet.
    pub fn unique_name(&self, model: &TypedModel, name: String) -> String {
        self.names.borrow_mut().unique(model, name)
    }

    /// Notes that variables are in a graph, and checks that they are in no other: each has its own state.
    pub fn own(&mut self, ids: impl IntoIterator<Item = String>, graph: usize) -> TractResult<()> {
        for id in ids {
            let owner = *self.variable_owners.entry(id.clone()).or_insert(graph);
            ensure!(
                owner == graph,
                "variable {id:?} is in a body of control flow and elsewhere, which is not supported"
            );
        }
        Ok(())
    }

    /// What constants take, and may take.
    pub fn budget(&self) -> &Budget {
        &self.computations.budget
    }

    /// The tensor of a constant that is not in the model.
    pub fn tensor(&self, value: &Value) -> TractResult<Arc<Tensor>> {
        match value {
            Value::Weights(blob) => {
                self.budget().take(widened(blob.element_type), &blob.shape)?;
                if blob.element_type == ElementType::String {
                    self.budget().take(DatumType::U8, &[usize::try_from(blob.size)?])?;
                }
            }
            Value::Compressed(weights) => self.budget().take(DatumType::F32, &weights.shape)?,
            _ => (),
        }
        match value {
            Value::Outlet(_) => {
                bail!("a value that is computed when the model runs is not a constant")
            }
            Value::Constant(tensor) => Ok(tensor.clone()),
            Value::Folded(folded) => folded.tensor(),
            Value::Weights(blob) => Ok(blob.load(self.weights)?.into_arc_tensor()),
            Value::Compressed(weights) => Ok(weights.decompress(self.weights)?.into_arc_tensor()),
        }
    }

    /// The same, floats of half precision in single precision.
    pub fn tensor_in_single(&self, value: &Value) -> TractResult<Arc<Tensor>> {
        if let Value::Weights(blob) = value
            && blob.element_type == ElementType::F16
        {
            self.budget().take(DatumType::F32, &blob.shape)?;
            return Ok(blob.load_in_single(self.weights)?.into_arc_tensor());
        }
        let tensor = self.tensor(value)?;
        Ok(match tensor.datum_type() {
            DatumType::F16 => {
                self.budget().take(DatumType::F32, tensor.shape())?;
                tensor.cast_to::<f32>()?.into_owned().into_arc_tensor()
            }
            _ => tensor,
        })
    }

    /// A value in the model. A constant is put there now, with this name.
    pub fn wired(
        &self,
        model: &mut TypedModel,
        name: &str,
        value: &Value,
    ) -> TractResult<OutletId> {
        let tensor = match value {
            Value::Outlet(outlet) => return Ok(*outlet),
            Value::Folded(folded) if folded.half => {
                folded.tensor()?.cast_to::<f16>()?.into_owned().into_arc_tensor()
            }
            Value::Compressed(weights) => {
                self.budget().take(DatumType::F32, &weights.shape)?;
                weights.wired(self.weights)?
            }
            value => self.tensor(value).with_context(|| format!("in constant {name:?}"))?,
        };
        add_const(model, self.unique_name(model, name.into()), tensor)
    }

    /// The value of a result in the model. Sizes, which are `TDim` inside, have the type of the file.
    pub fn result(
        &self,
        model: &mut TypedModel,
        name: &str,
        value: &Value,
        element_type: Option<ElementType>,
    ) -> TractResult<OutletId> {
        let outlet = self.wired(model, name, value)?;
        if !model.outlet_fact(outlet)?.datum_type.is_tdim() {
            return Ok(outlet);
        }
        let dt = element_type.and_then(datum_type).unwrap_or(DatumType::I64);
        let name = self.unique_name(model, format!("{name}.cast"));
        Ok(model.wire_node(name, cast(dt), &[outlet])?[0])
    }
}

/// A constant of fewer bytes is put into a model once more if it is there already.
const SMALL_CONSTANT: usize = 1 << 12;

/// Adds a constant to a model that has no node of this name. tract looks for an equal one among all that are there, which
/// takes longer with each layer of a large file: a small constant is added without that.
pub(crate) fn add_const(
    model: &mut TypedModel,
    name: String,
    tensor: Arc<Tensor>,
) -> TractResult<OutletId> {
    let fact = TypedFact::try_from(tensor.clone())?;
    let bytes = tensor.len().saturating_mul(tensor.datum_type().size_of());
    if bytes >= SMALL_CONSTANT || fact.exotic_fact.is_some() {
        return model.add_const(name, tensor);
    }
    Ok(model.add_node(name, Const::new(tensor)?, tvec!(fact))?.into())
}
