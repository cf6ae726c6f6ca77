//! [`LayerContext`]: what a function that translates an operation works with.

mod attribute;
mod budget;
mod compressed;
mod derived;
mod dimensions;
mod fold;
mod folded;
mod names;
mod nodes;
mod options;
mod place;
mod restart;
mod rounded;
mod shapes;
mod sources;
mod translation;
mod values;
mod variables;

use std::sync::Arc;

use tract_core::internal::*;
use tract_openvino_kernels::checks::check_input_count;

pub use attribute::FromAttribute;
pub(crate) use budget::Budget;
use compressed::Compressed;
pub(crate) use derived::{Derived, Fraction, MOST_ELEMENTS};
pub(crate) use dimensions::{Dimensions, given_shape, new_size, solved};
pub(crate) use fold::Translate;
use folded::Folded;
pub(crate) use folded::{Computations, Values};
pub(crate) use names::Taken;
pub(crate) use options::{Options, ShapeOption};
pub(crate) use place::Place;
pub(crate) use restart::Restart;
pub(crate) use sources::{
    body_parameter_type, check_port, check_shape, constant, parameter_shape, parameter_type,
};
#[cfg(feature = "onnx")]
pub(crate) use translation::SizesOfARun;
pub(crate) use translation::{TranslateGraph, Translation};
pub(crate) use values::NotKnown;
pub(crate) use variables::Variables;

use crate::document::{Body, Layer};
use crate::weights::{Blob, held_type, widened};

/// A layer that is being translated: its attributes and inputs, and the model that its nodes go into.
///
/// Errors of these methods name the attribute or the input. The name of the layer is put in front later.
pub struct LayerContext<'a, 't> {
    translation: &'a mut Translation<'t>,
    /// The model that nodes are wired into.
    pub model: &'a mut TypedModel,
    layer: &'a Layer,
    place: Place,
    inputs: Vec<Value>,
    /// The names of the layers that the inputs come from, for those that are constants.
    names: Vec<&'a str>,
    operation: &'static str,
    since: u32,
    has_state: bool,
    folding: bool,
    widened: bool,
}

impl<'a, 't> LayerContext<'a, 't> {
    pub(crate) fn new(
        translation: &'a mut Translation<'t>,
        model: &'a mut TypedModel,
        layer: &'a Layer,
        place: Place,
        inputs: Vec<Value>,
        names: Vec<&'a str>,
    ) -> LayerContext<'a, 't> {
        let has_state = translation.driver.has_state(layer);
        LayerContext {
            translation,
            model,
            layer,
            place,
            inputs,
            names,
            operation: "",
            since: 0,
            has_state,
            folding: false,
            widened: false,
        }
    }

    /// Another layer in the place of this one, of these inputs.
    pub(crate) fn with_part<T>(
        &mut self,
        part: &Layer,
        inputs: Vec<Value>,
        then: impl FnOnce(&mut LayerContext) -> T,
    ) -> T {
        let place = self.place.layer(0, part);
        let names = vec!["constant"; inputs.len()];
        let (translation, model) = (&mut *self.translation, &mut *self.model);
        then(&mut LayerContext::new(translation, model, part, place, inputs, names))
    }

    pub(crate) fn into_inputs(self) -> Vec<Value> {
        self.inputs
    }

    /// Whether what the layer computes, or one in its bodies, does not depend on its inputs alone.
    pub(crate) fn has_state(&self) -> bool {
        self.has_state
    }

    /// Whether the layer is computed now, in a model that is thrown away.
    pub(crate) fn folding(&self) -> bool {
        self.folding
    }

    /// Whether constants are computed from weights of a type that tract does not have.
    pub(crate) fn widened(&self) -> bool {
        self.widened
    }

    /// The layer, as the file has it.
    pub fn layer(&self) -> &'a Layer {
        self.layer
    }

    /// Notes which revision of an operation is translated.
    pub(crate) fn identify(&mut self, operation: &'static str, since: u32) {
        (self.operation, self.since) = (operation, since);
    }

    /// The name of the operation, as the registry has it. Nothing for an operation of the user.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation
    }

    /// The first operation set that has the revision that is being translated.
    pub fn since(&self) -> u32 {
        self.since
    }

    /// Where the layer is in the document.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The reader's options.
    pub(crate) fn options(&self) -> &Options {
        self.translation.options
    }

    /// What the translation of all layers shares.
    pub(crate) fn translation(&mut self) -> &mut Translation<'t> {
        self.translation
    }

    /// A symbol for a size that only a run knows, and whether it is new.
    pub(crate) fn symbol_of_a_run(&self, prefix: &str) -> (Symbol, bool) {
        self.translation.sizes.borrow_mut().next(&self.model.symbols, prefix)
    }

    /// Translates a body of this layer into the same model, with these values of its parameters.
    pub(crate) fn body(&mut self, body: &Body, inputs: Vec<Value>) -> TractResult<Vec<Value>> {
        let place = self.place.body(body);
        let driver = self.translation.driver;
        driver.translate_graph(self.translation, self.model, &body.graph, &place, inputs)
    }

    /// Translates a body of this layer into a model of its own.
    pub(crate) fn body_into(
        &mut self,
        model: &mut TypedModel,
        body: &Body,
        inputs: Vec<Value>,
    ) -> TractResult<Vec<Value>> {
        let place = self.place.body(body);
        let driver = self.translation.driver;
        let values =
            driver.translate_graph(self.translation, model, &body.graph, &place, inputs)?;
        self.translation.budget().take_computed(model)?;
        Ok(values)
    }

    // Inputs.

    /// The number of inputs that are connected.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Checks the number of inputs. An end of `usize::MAX` allows any number from the start on.
    ///
    /// # Errors
    ///
    /// There are fewer or more.
    pub fn expect_inputs(&self, range: std::ops::RangeInclusive<usize>) -> TractResult<()> {
        check_input_count(self.inputs.len(), range)
    }

    /// Whether the value of an input is known.
    pub(crate) fn is_constant(&self, input: usize) -> bool {
        self.inputs.get(input).is_some_and(|value| match value {
            Value::Outlet(outlet) => {
                self.model.outlet_fact(*outlet).is_ok_and(|fact| fact.konst.is_some())
            }
            _ => true,
        })
    }

    fn value(&self, input: usize) -> TractResult<&Value> {
        self.inputs.get(input).with_context(|| {
            format!("input {input} is missing: the number of inputs is {}", self.inputs.len())
        })
    }

    /// The value of an input, wherever it is.
    pub(crate) fn input_value(&self, input: usize) -> TractResult<Value> {
        self.value(input).cloned()
    }

    /// An input in the model. A constant is put there now.
    ///
    /// # Errors
    ///
    /// There is no such input, or it is a constant that cannot be read.
    pub fn input(&mut self, input: usize) -> TractResult<OutletId> {
        if let Value::Outlet(outlet) = self.value(input)? {
            return Ok(*outlet);
        }
        let value = &self.inputs[input];
        let outlet = self.translation.wired(self.model, self.names[input], value)?;
        self.inputs[input] = Value::Outlet(outlet);
        Ok(outlet)
    }

    /// A value in the model. A constant is put there now.
    pub(crate) fn wired(&mut self, value: &Value) -> TractResult<OutletId> {
        let name = format!("{}.value", self.place.name);
        self.translation.wired(self.model, &name, value)
    }

    /// All inputs in the model.
    ///
    /// # Errors
    ///
    /// One of them is a constant that cannot be read.
    pub fn all_inputs(&mut self) -> TractResult<TVec<OutletId>> {
        (0..self.inputs.len()).map(|input| self.input(input)).collect()
    }

    /// What is known of an input: its type, its shape, its value.
    ///
    /// # Errors
    ///
    /// There is no such input, or it is a constant that cannot be read.
    pub fn fact(&self, input: usize) -> TractResult<TypedFact> {
        match self.value(input)? {
            Value::Outlet(outlet) => self.model.outlet_fact(*outlet).cloned(),
            Value::Folded(folded) if folded.half => {
                Ok(DatumType::F16.fact(folded.tensor()?.shape()))
            }
            // What is compressed is only decompressed where its values are needed.
            Value::Compressed(weights) => Ok(weights.datum_type.fact(&*weights.shape)),
            _ => TypedFact::try_from(self.tensor(input)?),
        }
    }

    /// The shape of an input.
    ///
    /// # Errors
    ///
    /// As for [`fact`](Self::fact).
    pub fn shape(&self, input: usize) -> TractResult<TVec<TDim>> {
        Ok(match self.value(input)? {
            Value::Weights(blob) => blob.shape.iter().map(|dim| dim.to_dim()).collect(),
            _ => self.fact(input)?.shape.to_tvec(),
        })
    }

    /// The rank of an input.
    ///
    /// # Errors
    ///
    /// As for [`fact`](Self::fact).
    pub fn rank(&self, input: usize) -> TractResult<usize> {
        self.shape(input).map(|shape| shape.len())
    }

    /// The element type of an input.
    ///
    /// # Errors
    ///
    /// As for [`fact`](Self::fact).
    pub fn datum_type(&self, input: usize) -> TractResult<DatumType> {
        match self.value(input)? {
            // Weights may be large: they are read where they are needed, once.
            Value::Weights(blob) => Ok(widened(blob.element_type)),
            _ => Ok(self.fact(input)?.datum_type),
        }
    }

    /// The shape of an outlet of the model.
    ///
    /// # Errors
    ///
    /// The model has no such outlet.
    pub fn shape_of(&self, outlet: OutletId) -> TractResult<TVec<TDim>> {
        Ok(self.model.outlet_fact(outlet)?.shape.to_tvec())
    }

    /// The element type of an outlet of the model.
    ///
    /// # Errors
    ///
    /// The model has no such outlet.
    pub fn type_of(&self, outlet: OutletId) -> TractResult<DatumType> {
        Ok(self.model.outlet_fact(outlet)?.datum_type)
    }

    /// The element type that the file states for an output, as tract has it: [`DatumType::F32`] for `bf16` and floats of 8 bits, which
    /// are rounded after the layer. `None` if tract has none.
    pub fn output_type(&self, output: usize) -> Option<DatumType> {
        self.layer.outputs.get(output)?.element_type.and_then(held_type)
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

/// A tensor of sizes in another type, if none has symbols.
fn concrete(tensor: &Tensor, dt: DatumType) -> TractResult<Option<Arc<Tensor>>> {
    let dims = tdims(tensor)?;
    let numbers: Option<Vec<i64>> = dims.iter().map(|dim| dim.as_i64()).collect();
    let Some(numbers) = numbers else { return Ok(None) };
    let tensor = tensor1(&numbers).into_shape(tensor.shape())?;
    Ok(Some(tensor.cast_to_dt(dt)?.into_owned().into_arc_tensor()))
}

/// The elements of a tensor as sizes.
pub(crate) fn tdims(tensor: &Tensor) -> TractResult<TVec<TDim>> {
    let dt = tensor.datum_type();
    if dt.is_tdim() {
        return Ok(tensor.try_as_plain_ram()?.as_slice::<TDim>()?.into());
    }
    ensure!(dt.is_integer(), "sizes are of type {dt:?}, but must be integers");
    let numbers = tensor.cast_to::<i64>()?;
    Ok(numbers
        .try_as_plain_ram()?
        .as_slice::<i64>()?
        .iter()
        .map(|number| number.to_dim())
        .collect())
}
