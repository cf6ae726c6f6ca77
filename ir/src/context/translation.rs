//! What the translation of all layers shares.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::cast::cast;

use super::budget::Budget;
use super::derived::Derived;
use super::dimensions::Dimensions;
use super::folded::Computations;
use super::names::{Names, Taken};
use super::options::Options;
use super::place::Place;
use super::variables::Variables;
use super::{LayerContext, Value};
use crate::document::{Body, ElementType, Graph, Layer};
use crate::limits::MAX_BODY_TRANSLATIONS;
use crate::shortened::shortened_name;
use crate::weights::{Weights, datum_type, widened};

/// The driver, as layers with bodies see it.
pub(crate) trait TranslateGraph {
    /// Translates a graph whose parameters have these values, into nodes whose names start with that of its
    /// place, and gives the values of its results.
    fn translate_graph(
        &self,
        translation: &mut Translation,
        model: &mut TypedModel,
        graph: &Graph,
        place: &Place,
        inputs: Vec<Value>,
    ) -> TractResult<Vec<Value>>;

    /// Whether what a layer computes, or one in its bodies, does not depend on its inputs alone.
    fn has_state(&self, layer: &Layer) -> bool;

    /// Translates a layer with what is known now.
    fn translate_layer(&self, layer: &mut LayerContext) -> TractResult<Vec<Value>>;
}

/// One attempt to translate a model.
pub(crate) struct Translation<'a> {
    pub driver: &'a dyn TranslateGraph,
    pub options: &'a Options,
    pub weights: &'a Weights,
    pub dimensions: &'a mut Dimensions,
    /// The results of layers with constant inputs. They are kept when the translation starts again.
    pub computations: &'a mut Computations,
    /// The variables of `ReadValue` and `Assign`. What was learnt of them is kept, too.
    pub variables: &'a mut Variables,
    /// The graph that each variable is in.
    variable_owners: HashMap<String, Place>,
    /// The bodies of control flow that were translated, and what that took.
    pub bodies: Bodies,
    names: RefCell<Names>,
    /// Whether the model runs, and a layer of it is translated with the values that its inputs have.
    pub at_run_time: bool,
    /// Whether layers whose inputs are all constants are computed now. Floats of half precision are single in between, so that
    /// the file must state the types of the outputs.
    pub folds: bool,
    /// The symbols of sizes that only a run knows.
    pub sizes: RefCell<SizesOfARun>,
    /// The attributes that were asked for.
    #[cfg(feature = "onnx")]
    pub asked: RefCell<HashSet<String>>,
}

/// The symbols of sizes that only a run knows. If a layer is translated once more, it gets those that it had.
#[derive(Debug, Default)]
pub(crate) struct SizesOfARun {
    /// The symbols by the beginnings of their names.
    symbols: HashMap<String, Vec<Symbol>>,
    /// How many of them this translation has.
    taken: HashMap<String, usize>,
}

impl SizesOfARun {
    /// Starts the translation once more.
    #[cfg(feature = "onnx")]
    pub fn start(&mut self) {
        self.taken.clear();
    }

    /// The next symbol with such a name, and whether it is new.
    pub fn next(&mut self, scope: &SymbolScope, prefix: &str) -> (Symbol, bool) {
        let symbols = self.symbols.entry(prefix.into()).or_default();
        let taken = self.taken.entry(prefix.into()).or_default();
        *taken += 1;
        if let Some(symbol) = symbols.get(*taken - 1) {
            return (symbol.clone(), false);
        }
        let symbol = scope.new_with_prefix(prefix);
        symbols.push(symbol.clone());
        (symbol, true)
    }

    /// Whether a dimension depends on one of these sizes.
    #[cfg(feature = "onnx")]
    pub fn has(&self, dim: &TDim) -> bool {
        !self.symbols.is_empty()
            && dim.symbols().iter().any(|it| self.symbols.values().flatten().any(|own| own == it))
    }
}

/// The bodies of control flow that were translated. Those within the body of a loop are translated again and again.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    known: HashSet<Place>,
    /// How many layers were translated, those of each translation of a body.
    layers: usize,
    /// How many may be.
    most: usize,
}

impl Bodies {
    /// Notes that a body is translated. To be called before.
    pub fn translate(&mut self, place: &Place, body: &Body) -> TractResult<()> {
        let layers = 1 + body.graph.layers.len();
        if !self.known.contains(place) {
            self.known.insert(place.clone());
            self.most = self.most.saturating_add(layers.saturating_mul(MAX_BODY_TRANSLATIONS));
        }
        self.layers = self.layers.saturating_add(layers);
        ensure!(
            self.layers <= self.most,
            "nested bodies would have to be translated more than {MAX_BODY_TRANSLATIONS} times each"
        );
        Ok(())
    }
}

impl<'a> Translation<'a> {
    pub fn new(
        driver: &'a dyn TranslateGraph,
        options: &'a Options,
        weights: &'a Weights,
        dimensions: &'a mut Dimensions,
        computations: &'a mut Computations,
        variables: &'a mut Variables,
    ) -> Translation<'a> {
        Translation {
            driver,
            options,
            weights,
            dimensions,
            computations,
            variables,
            variable_owners: HashMap::new(),
            bodies: Bodies::default(),
            names: RefCell::default(),
            at_run_time: false,
            folds: true,
            sizes: RefCell::default(),
            #[cfg(feature = "onnx")]
            asked: RefCell::default(),
        }
    }
}

impl Translation<'_> {
    /// A name for a node that a model does not have yet.
    pub fn unique_name<'n>(&self, model: &TypedModel, name: impl Into<Cow<'n, str>>) -> String {
        self.names.borrow_mut().unique(model, name)
    }

    /// Adds a constant to the model that nodes are wired into. A large one that is there already is not added.
    pub fn add_const<'n>(
        &self,
        model: &mut TypedModel,
        name: impl Into<Cow<'n, str>>,
        tensor: Arc<Tensor>,
    ) -> TractResult<OutletId> {
        self.names.borrow_mut().constant(model, name, tensor)
    }

    /// Adds a node to the model that nodes are wired into. tract compares its name with those of all others.
    pub fn add_node<'n>(
        &self,
        model: &mut TypedModel,
        name: impl Into<Cow<'n, str>>,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        let op = op.into();
        let facts = inputs.iter().map(|input| model.outlet_fact(*input));
        let outputs = op.output_facts(&facts.collect::<TractResult<TVec<_>>>()?)?;
        let node = model.add_node(self.unique_name(model, name), op, outputs)?;
        for (slot, input) in inputs.iter().enumerate() {
            model.add_edge(*input, InletId::new(node, slot))?;
        }
        Ok(node.into())
    }

    /// Goes on to wire nodes into another model, and gives the names of the one before, to come back to it.
    pub fn enter_model(&mut self, model: Taken) -> Taken {
        self.names.get_mut().go_on_with(model)
    }

    /// What is known of an outlet that is computed from sizes alone.
    pub fn derived(&self, outlet: OutletId) -> Option<Derived> {
        self.names.borrow().model.derived.get(&outlet).cloned()
    }

    /// Notes what is known of an outlet.
    pub fn derive(&mut self, outlet: OutletId, derived: Derived) {
        self.names.get_mut().model.derived.insert(outlet, derived);
    }

    /// Notes that variables are in a graph, and checks that they are in no other: each has its own state.
    pub fn own(&mut self, ids: impl IntoIterator<Item = String>, graph: &Place) -> TractResult<()> {
        for id in ids {
            let owner = self.variable_owners.entry(id.clone()).or_insert_with(|| graph.clone());
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
                let tensor = folded.tensor()?;
                self.budget().take(DatumType::F16, tensor.shape())?;
                tensor.cast_to::<f16>()?.into_owned().into_arc_tensor()
            }
            Value::Compressed(weights) => {
                self.budget().take(DatumType::F32, &weights.shape)?;
                if let Some(codes) = weights.wired_codes(self.weights, false)? {
                    return self.add_node(model, name, codes, &[]);
                }
                weights.wired(self.weights)?
            }
            value => self.tensor(value).with_context(|| format!("in constant {name:?}"))?,
        };
        self.add_const(model, name, tensor)
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
        let name = format!("{}.cast", shortened_name(name));
        self.add_node(model, name, cast(dt), &[outlet])
    }
}
