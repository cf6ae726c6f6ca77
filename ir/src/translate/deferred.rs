//! Layers that must know values that are only known when the model runs: they are translated then.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use tract_core::internal::*;

use super::dimensions::Dimensions;
use super::{LayerContext, Translation, Value};
use crate::document::{Graph, Layer};
use crate::operators::{set_symbols, substituted};
use crate::ops::state::Variables;
use crate::reader::Ir;
use crate::weights::{Weights, datum_type};

/// The error of a layer that must know the value of an input when it is translated.
#[derive(Debug)]
pub(crate) struct NotKnown {
    pub input: usize,
    pub message: String,
}

impl fmt::Display for NotKnown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NotKnown {}

/// A layer that is translated each time that it runs, with the values and the shapes that its inputs have then.
///
/// What is known of its outputs before is what the file says. The text of NNEF has nothing like it.
#[derive(Debug, Clone)]
pub(crate) struct Deferred {
    what: Arc<Untranslated>,
    /// The inputs whose values the translation asks for, as far as that is known.
    known: BTreeSet<usize>,
    outputs: TVec<TypedFact>,
}

/// A layer, and what else a translation needs.
#[derive(Debug)]
struct Untranslated {
    layer: Layer,
    ir: Ir,
    weights: Weights,
}

impl PartialEq for Deferred {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.what, &other.what) && self.outputs == other.outputs
    }
}

impl Eq for Deferred {}

impl LayerContext<'_, '_> {
    /// Wires the layer as one node that translates it when the model runs. `None` if too little is known of its
    /// outputs: the file must say their types and ranks. A tensor of unknown rank looks like a scalar there.
    pub(super) fn defer(&mut self, missing: &NotKnown) -> TractResult<Option<Vec<Value>>> {
        let mut outputs = tvec!();
        for port in &self.layer().outputs {
            let Some(dt) = port.element_type.and_then(datum_type) else { return Ok(None) };
            if port.dims.is_empty() {
                return Ok(None);
            }
            let dims = port.dims.iter().map(|size| match size {
                Some(size) => size.to_dim(),
                None => self.model.symbols.new_with_prefix("deferred").to_dim(),
            });
            outputs.push(dt.fact(dims.collect::<TVec<TDim>>()));
        }
        let mut known = BTreeSet::from([missing.input]);
        known.extend((0..self.input_count()).filter(|input| self.is_constant(*input)));
        let inputs = self.all_inputs()?;
        let Translation { ir, weights, .. } = self.translation();
        let (ir, weights) = (Ir::clone(ir), Weights::clone(weights));
        let what = Arc::new(Untranslated { layer: self.layer().clone(), ir, weights });
        let outlets = self.finish(Deferred { what, known, outputs }, &inputs)?;
        Ok(Some(outlets.into_iter().map(Value::Outlet).collect()))
    }
}

impl Untranslated {
    /// A model that computes the layer from its inputs. Those in `known` are constants of it.
    fn translate(&self, inputs: &[TValue], known: &BTreeSet<usize>) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut dimensions = Dimensions::new(model.symbols.clone(), &Graph::default(), &[], &[])?;
        let mut translation = Translation {
            ir: &self.ir,
            weights: &self.weights,
            dimensions: &mut dimensions,
            folded: &mut HashMap::new(),
            variables: &mut Variables::default(),
        };
        let names: Vec<String> = (0..inputs.len()).map(|input| format!("input {input}")).collect();
        let mut values = vec![];
        for (number, input) in inputs.iter().enumerate() {
            values.push(if known.contains(&number) {
                Value::Constant(input.clone().into_arc_tensor())
            } else {
                let fact = input.datum_type().fact(input.shape());
                Value::Outlet(model.add_source(names[number].clone(), fact)?)
            });
        }
        let mut context =
            LayerContext::new(&mut translation, &mut model, &self.layer, "", values, names);
        let values = context.translate_once()?;
        let outlets: TVec<OutletId> =
            values.iter().map(|value| context.wired(value)).collect::<TractResult<_>>()?;
        model.select_output_outlets(&outlets)?;
        Ok(model)
    }

    fn eval(&self, inputs: &[TValue], known: &BTreeSet<usize>) -> TractResult<TVec<TValue>> {
        let mut known = known.clone();
        let model = loop {
            match self.translate(inputs, &known) {
                Ok(model) => break model,
                Err(error) => match error.downcast_ref::<NotKnown>() {
                    Some(missing) if known.insert(missing.input) => (),
                    _ => return Err(error),
                },
            }
        };
        let inputs = inputs.iter().enumerate().filter(|(number, _)| !known.contains(number));
        model.into_runnable()?.run(inputs.map(|(_, input)| input.clone()).collect())
    }
}

impl Op for Deferred {
    fn name(&self) -> StaticName {
        "OpenVinoDeferred".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![self.what.layer.to_string()])
    }

    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    op_as_typed_op!();
}

impl EvalOp for Deferred {
    // The symbols of the outputs get their values in a plan.
    not_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let layer = &self.what.layer;
        let outputs =
            self.what.eval(&inputs, &self.known).with_context(|| format!("in {layer}"))?;
        ensure!(outputs.len() >= self.outputs.len(), "{layer} has {} outputs", outputs.len());
        for (number, (output, fact)) in outputs.iter().zip(&self.outputs).enumerate() {
            let sizes = fact.shape.iter().map(|dim| dim.eval(ctx.symbols));
            let fits = fact.datum_type == output.datum_type()
                && fact.rank() == output.rank()
                && sizes.zip(output.shape()).all(|(said, size)| {
                    said.as_i64().is_none_or(|said| usize::try_from(said) == Ok(*size))
                });
            ensure!(
                fits,
                "{layer}: output {number} is of type {:?} and shape {:?}, but the file says {fact:?}",
                output.datum_type(),
                output.shape()
            );
        }
        Ok(outputs)
    }
}

impl TypedOp for Deferred {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(self.outputs.clone())
    }

    set_symbols!(|op, values| {
        let mut outputs = tvec!();
        for fact in &op.outputs {
            outputs.push(fact.datum_type.fact(substituted(fact.shape.iter(), values)?));
        }
        Deferred { outputs, ..op.clone() }
    });

    as_op!();
}
