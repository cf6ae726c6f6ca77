//! What the translation of all layers shares.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::cast::cast;
use tract_core::ops::konst::Const;

use super::Value;
use super::budget::Budget;
use super::derived::Derived;
use super::dimensions::Dimensions;
use super::folded::Computations;
use super::names::{Names, Taken};
use super::options::Options;
use super::place::Place;
use super::variables::Variables;
use crate::document::{ElementType, Graph};
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
    /// How many bodies of control flow were translated.
    pub bodies: usize,
    names: RefCell<Names>,
    /// Whether the model runs, and a layer of it is translated with the values that its inputs have.
    pub at_run_time: bool,
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
            bodies: 0,
            names: RefCell::default(),
            at_run_time: false,
        }
    }
}

impl Translation<'_> {
    /// A name for a node that a model does not have yet.
    pub fn unique_name(&self, model: &TypedModel, name: String) -> String {
        self.names.borrow_mut().unique(model, name)
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
                folded.tensor()?.cast_to::<f16>()?.into_owned().into_arc_tensor()
            }
            Value::Compressed(weights) => {
                self.budget().take(DatumType::F32, &weights.shape)?;
                if let Some(codes) = weights.wired_codes(self.weights, false)? {
                    let name = self.unique_name(model, name.into());
                    return Ok(model.wire_node(name, codes, &[])?[0]);
                }
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
