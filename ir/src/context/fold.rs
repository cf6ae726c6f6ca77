//! Layers whose inputs are all constants: they are computed when the model is loaded.

use tract_core::internal::*;
use tract_openvino_kernels::checks::check_volume;

use super::folded::Folded;
use super::names::Taken;
use super::{LayerContext, Value, concrete};
use crate::document::ElementType;
use crate::weights::datum_type;

/// A function that translates a layer: it wires nodes into the model, and returns the layer's outputs.
pub(crate) type Translate = dyn Fn(&mut LayerContext) -> TractResult<TVec<OutletId>> + Send + Sync;

impl LayerContext<'_, '_> {
    /// Translates the layer with the function of this revision of an operation, and what is known now: computes its outputs
    /// if all its inputs are constants, and wires its nodes otherwise.
    pub(crate) fn translate_with(&mut self, translate: &Translate) -> TractResult<Vec<Value>> {
        if let Some(weights) = self.decompressing(self.operation)? {
            return Ok(vec![weights]);
        }
        if let Some(results) = self.fold(translate)? {
            return Ok(results.into_iter().map(Value::Folded).collect());
        }
        let outlets = translate(self)?;
        let mut values = vec![];
        for (number, outlet) in outlets.into_iter().enumerate() {
            let outlet = self.rounded_output(number, outlet)?;
            values.push(self.in_declared_type(number, outlet)?);
        }
        Ok(values)
    }

    /// Sizes are `TDim` while they are symbolic and constant; everything else has the type of the file.
    fn in_declared_type(&mut self, number: usize, outlet: OutletId) -> TractResult<Value> {
        let fact = self.model.outlet_fact(outlet)?.clone();
        if !fact.datum_type.is_tdim() {
            return Ok(Value::Outlet(outlet));
        }
        match fact.konst {
            Some(tensor) => Ok(match concrete(&tensor, self.integer_type(number))? {
                Some(tensor) => Value::Constant(tensor),
                None => Value::Outlet(outlet),
            }),
            None => {
                let dt = self.integer_type(number);
                self.cast("sizes", outlet, dt).map(Value::Outlet)
            }
        }
    }

    /// The type of an output that has sizes: what is stated of it, or what the layer itself says.
    fn integer_type(&self, number: usize) -> DatumType {
        let of_layer = || {
            let attribute = match self.operation {
                "Convert" => "destination_type",
                "ShapeOf" => "output_type",
                _ => return None,
            };
            let dt = self.attribute_opt(attribute).ok().flatten();
            dt.filter(|dt: &DatumType| dt.is_integer())
        };
        self.output_type(number).or_else(of_layer).unwrap_or(DatumType::I64)
    }

    /// The results of a layer whose inputs are all constants.
    ///
    /// They are computed in a model of its own, so that what is used once, like compressed weights, does not
    /// stay. Half-precision constants are single there: weights that are decompressed in several steps are
    /// not to be rounded at each.
    fn fold(&mut self, translate: &Translate) -> TractResult<Option<Vec<Folded>>> {
        if self.folding
            || !self.translation.folds
            || self.inputs.is_empty()
            || !self.layer.bodies.is_empty()
            || self.has_state
            || !(0..self.inputs.len()).all(|input| self.is_constant(input))
        {
            return Ok(None);
        }
        if let Some(known) = self.translation.computations.find(&self.place, &self.inputs) {
            for tensor in known.iter().flat_map(|folded| folded.tensor().ok()) {
                self.translation.budget().take_tensor(&tensor)?;
            }
            return Ok(Some(known));
        }
        let widened = self.inputs.iter().any(|input| match input {
            Value::Weights(blob) => datum_type(blob.element_type).is_none(),
            _ => false,
        });
        let mut inputs = vec![];
        for (input, value) in self.inputs.iter().enumerate() {
            inputs.push(match value {
                // Bits have another order in a layer than as numbers.
                Value::Weights(blob) if blob.element_type == ElementType::U1 => value.clone(),
                _ => Value::Constant(self.tensor_in_single(input)?),
            });
        }
        let mut scratch =
            TypedModel { symbols: self.model.symbols.clone(), ..TypedModel::default() };
        let outer = self.translation.enter_model(Taken::default());
        let mut context = LayerContext {
            translation: &mut *self.translation,
            model: &mut scratch,
            layer: self.layer,
            place: self.place.clone(),
            inputs,
            names: self.names.clone(),
            operation: self.operation,
            since: self.since,
            has_state: self.has_state,
            folding: true,
            widened,
        };
        let outlets = translate(&mut context);
        self.translation.enter_model(outer);
        let outlets = outlets?;
        let mut known = vec![];
        for outlet in &outlets {
            let fact = scratch.outlet_fact(*outlet)?;
            if !fact.shape.is_concrete() {
                return Ok(None);
            }
            known.extend(fact.konst.clone());
        }
        self.translation.budget().take_computed(&scratch)?;
        if known.len() < outlets.len() {
            scratch.select_output_outlets(&outlets)?;
            // This fails if a value depends on symbols.
            let run = TypedSimplePlan::new(scratch).and_then(|plan| plan.run(tvec!()));
            let Ok(tensors) = run else { return Ok(None) };
            known = tensors.into_iter().map(|tensor| tensor.into_arc_tensor()).collect();
        }
        for (number, tensor) in known.iter_mut().enumerate() {
            if tensor.datum_type().is_tdim()
                && let Some(concrete) = concrete(tensor, self.integer_type(number))?
            {
                *tensor = concrete;
            }
        }
        let results = known.into_iter().enumerate().map(|(number, tensor)| {
            let half = self.output_type(number) == Some(DatumType::F16);
            let half = half && tensor.datum_type() == DatumType::F32;
            (tensor, half)
        });
        let results: Vec<_> = results.collect();
        let computations = &mut self.translation.computations;
        Ok(Some(computations.add(&self.place, &self.inputs, results.into_iter())))
    }

    /// Takes what a node makes of its inputs from the budget of constants, if all of these are: tract computes it at
    /// once, or when it optimises the model.
    pub(super) fn take_computed(&self, op: &dyn TypedOp, inputs: &[OutletId]) -> TractResult<()> {
        let facts = inputs
            .iter()
            .map(|input| self.model.outlet_fact(*input))
            .collect::<TractResult<TVec<_>>>()?;
        if facts.iter().any(|fact| fact.konst.is_none()) {
            return Ok(());
        }
        for fact in op.output_facts(&facts)? {
            let Some(shape) = fact.shape.as_concrete() else { continue };
            if self.translation.at_run_time {
                check_volume(&self.layer.operation, fact.datum_type, shape)?;
            } else {
                self.translation.budget().take(fact.datum_type, shape)?;
            }
        }
        Ok(())
    }
}
