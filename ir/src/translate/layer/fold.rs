//! Layers whose inputs are all constants: they are computed when the model is loaded.

use std::sync::Arc;

use tract_core::internal::*;

use super::{LayerContext, concrete};
use crate::registry::Translate;
use crate::translate::Value;
use crate::volume::volume;
use crate::weights::datum_type;

/// The most elements of a constant that is computed from small inputs when the model is loaded.
const MOST_FOLDED: usize = 1 << 24;

/// Operations whose results do not depend on their inputs alone.
const NEVER_FOLDED: [&str; 4] = ["ReadValue", "Assign", "RandomUniform", "Multinomial"];

/// The most elements of a constant that is computed from this number of elements.
fn most_elements(elements: usize) -> usize {
    MOST_FOLDED.max(elements.saturating_mul(4))
}

fn has_at_most(shape: &[usize], most: usize) -> bool {
    volume(shape).is_some_and(|volume| volume <= most)
}

impl LayerContext<'_, '_> {
    /// Translates the layer: computes it, if all its inputs are constants, or wires its nodes.
    pub(crate) fn translate(&mut self) -> TractResult<Vec<Value>> {
        let (translate, since) = self
            .translation
            .ir
            .registry
            .find(self.layer)
            .map_err(|reason| format_err!("{reason}"))?;
        self.since = since;
        if let Some(tensors) = self.fold(&*translate)? {
            let value = |(number, tensor): (usize, Arc<Tensor>)| {
                let half = self.output_type(number) == Some(DatumType::F16);
                match half && tensor.datum_type() == DatumType::F32 {
                    true => Value::Half(tensor),
                    false => Value::Constant(tensor),
                }
            };
            return Ok(tensors.into_iter().enumerate().map(value).collect());
        }
        let outlets = translate(self)?;
        let mut values = vec![];
        for (number, outlet) in outlets.into_iter().enumerate() {
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

    /// The type of an output that has sizes.
    fn integer_type(&self, number: usize) -> DatumType {
        let declared = self.output_type(number);
        declared.unwrap_or(DatumType::I64)
    }

    /// The results of a layer whose inputs are all constants.
    ///
    /// They are computed in a model of its own, so that what is used once, like compressed weights, does not
    /// stay. Half-precision constants are single there: weights that are decompressed in several steps are
    /// not to be rounded at each.
    fn fold(&mut self, translate: &Translate) -> TractResult<Option<Vec<Arc<Tensor>>>> {
        let is_constant = |value: &Value| match value {
            Value::Outlet(outlet) => {
                self.model.outlet_fact(*outlet).is_ok_and(|fact| fact.konst.is_some())
            }
            _ => true,
        };
        if self.folding
            || self.inputs.is_empty()
            || !self.layer.bodies.is_empty()
            || NEVER_FOLDED.contains(&&*self.layer.operation)
            || !self.inputs.iter().all(is_constant)
        {
            return Ok(None);
        }
        let key = std::ptr::from_ref(self.layer).addr();
        if let Some((known, tensors)) = self.translation.folded.get(&key)
            && known.len() == self.inputs.len()
            && known.iter().zip(&self.inputs).all(|(known, input)| known.is_same(input))
        {
            return Ok(Some(tensors.clone()));
        }
        let before = self.inputs.clone();
        let widened = self.inputs.iter().any(|input| match input {
            Value::Weights(blob) => datum_type(blob.element_type).is_none(),
            _ => false,
        });
        let mut inputs = vec![];
        let mut elements = 0usize;
        for input in 0..self.inputs.len() {
            let tensor = self.tensor(input)?;
            elements = elements.saturating_add(tensor.len());
            let tensor = match tensor.datum_type() {
                DatumType::F16 => tensor.cast_to::<f32>()?.into_owned().into_arc_tensor(),
                _ => tensor,
            };
            inputs.push(Value::Constant(tensor));
        }
        let mut scratch =
            TypedModel { symbols: self.model.symbols.clone(), ..TypedModel::default() };
        let mut context = LayerContext {
            translation: &mut *self.translation,
            model: &mut scratch,
            layer: self.layer,
            prefix: self.prefix.clone(),
            inputs,
            names: self.names.clone(),
            since: self.since,
            folding: true,
            widened,
        };
        let outlets = translate(&mut context)?;
        let most = most_elements(elements);
        let mut known = vec![];
        for outlet in &outlets {
            let fact = scratch.outlet_fact(*outlet)?;
            let Some(shape) = fact.shape.as_concrete() else { return Ok(None) };
            if !has_at_most(shape, most) {
                return Ok(None);
            }
            known.extend(fact.konst.clone());
        }
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
        self.translation.folded.insert(key, (before, known.clone()));
        Ok(Some(known))
    }

    /// Checks that no constant that tract would compute at once is too large for what it is computed from.
    pub(super) fn check_folding(&self, op: &dyn TypedOp, inputs: &[OutletId]) -> TractResult<()> {
        let facts = inputs
            .iter()
            .map(|input| self.model.outlet_fact(*input))
            .collect::<TractResult<TVec<_>>>()?;
        let elements =
            facts.iter().map(|fact| Some(fact.konst.as_ref()?.len())).sum::<Option<usize>>();
        let Some(elements) = elements else { return Ok(()) };
        let most = most_elements(elements);
        for fact in op.output_facts(&facts)? {
            let Some(shape) = fact.shape.as_concrete() else { continue };
            ensure!(
                has_at_most(shape, most),
                "a constant of shape {shape:?} would be computed from {elements} elements when the model \
                 is loaded, but it may have {most} elements at most"
            );
        }
        Ok(())
    }
}
