//! Layers that are translated without the document around them: while the model runs, or of a model that is no document.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tract_core::internal::*;
use tract_openvino_kernels::checks::check_volume;

use super::{translate_once, translate_or_defer};
#[cfg(feature = "onnx")]
use crate::context::{Budget, SizesOfARun, check_shape};
use crate::context::{
    Computations, Dimensions, LayerContext, NotKnown, Options, Place, Translation, Value, Variables,
};
use crate::document::Layer;
use crate::registry::Registry;
#[cfg(feature = "onnx")]
use crate::shortened::shortened_name;
use crate::translators::all_operations;
use crate::weights::Weights;
use crate::workarounds::bound::bind_symbols;
#[cfg(feature = "onnx")]
use crate::workarounds::equal_shape::EqualShape;

/// A layer, and what else its translation needs.
#[derive(Debug)]
pub(crate) struct Alone {
    pub layer: Layer,
    pub registry: Registry,
    pub options: Options,
    pub weights: Weights,
    /// Whether it may be computed while it is translated: see [`Translation::folds`].
    pub folds: bool,
    /// The inputs that are constants of the model.
    pub constants: BTreeSet<usize>,
    /// What the last translations for a run made, the newest last.
    plans: Mutex<Vec<Translated>>,
    #[cfg(feature = "onnx")]
    warned: std::sync::Once,
}

/// A layer that was translated for the types and shapes of its inputs, and for the values of some of them.
#[derive(Debug, Clone)]
struct Translated {
    inputs: TVec<Given>,
    plan: Arc<TypedSimplePlan>,
}

/// An input of a layer that is translated.
#[derive(Debug, Clone)]
enum Given {
    Fed(DatumType, TVec<usize>),
    Known(Arc<Tensor>),
}

/// How many translations of a layer are kept. A network has a few sizes that come again and again.
const MOST_PLANS: usize = 4;

/// A translation is kept if the values that it is for take this many bytes or less, besides the model's constants.
const MOST_KNOWN: usize = 1 << 16;

impl Translated {
    fn is_for(&self, inputs: &[TValue]) -> bool {
        self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).all(|(given, input)| match given {
                Given::Fed(dt, shape) => *dt == input.datum_type() && **shape == *input.shape(),
                Given::Known(known) => std::ptr::eq(&**known, &**input) || **known == **input,
            })
    }

    /// What is fed of the inputs.
    fn run(&self, inputs: &[TValue]) -> TractResult<TVec<TValue>> {
        let inputs = self.inputs.iter().zip(inputs);
        let fed = inputs.filter(|(given, _)| matches!(given, Given::Fed(..)));
        self.plan.run(fed.map(|(_, input)| input.clone()).collect())
    }
}

impl Alone {
    pub fn new(layer: Layer, registry: Registry, options: Options, weights: Weights) -> Alone {
        Alone {
            layer,
            registry,
            options,
            weights,
            folds: true,
            constants: BTreeSet::new(),
            plans: Mutex::default(),
            #[cfg(feature = "onnx")]
            warned: std::sync::Once::new(),
        }
    }

    /// An attempt to translate the layer.
    fn translation<'a>(
        &'a self,
        dimensions: &'a mut Dimensions,
        computations: &'a mut Computations,
        variables: &'a mut Variables,
    ) -> Translation<'a> {
        let (registry, options, weights) = (&self.registry, &self.options, &self.weights);
        let mut translation =
            Translation::new(registry, options, weights, dimensions, computations, variables);
        translation.folds = self.folds;
        translation
    }

    /// A model that computes the layer from inputs of which so much is known. Its sources are those that are no constants. What
    /// the layer can only be translated with when the model runs is an error, unless the layer states the types and ranks of
    /// its outputs. `sizes` are the symbols of an earlier translation.
    ///
    /// If it fails for symbols that may be different sizes, it is translated for equal ones. The model checks when it runs that
    /// they are.
    #[cfg(feature = "onnx")]
    pub fn translated(
        &self,
        scope: &SymbolScope,
        inputs: &[TypedFact],
        sizes: &mut SizesOfARun,
    ) -> TractResult<TypedModel> {
        let shapes: Vec<TVec<TDim>> = inputs.iter().map(|fact| fact.shape.to_tvec()).collect();
        let mut dimensions = Dimensions::of_shapes(scope.clone(), shapes);
        let error = match self.translated_with(&mut dimensions, scope, inputs, sizes) {
            Err(error) if !error.is::<NotKnown>() => error,
            result => return result,
        };
        dimensions = dimensions.with_open_symbols();
        for _ in 0..dimensions.most_starts() {
            let known = dimensions.count_learnt();
            match self.translated_with(&mut dimensions, scope, inputs, sizes) {
                Err(_) if dimensions.count_learnt() > known => (),
                Err(_) => break,
                result => return result,
            }
        }
        Err(error)
    }

    /// The same, with the shapes that the inputs have then.
    #[cfg(feature = "onnx")]
    fn translated_with(
        &self,
        dimensions: &mut Dimensions,
        scope: &SymbolScope,
        inputs: &[TypedFact],
        sizes: &mut SizesOfARun,
    ) -> TractResult<TypedModel> {
        let mut model = TypedModel { symbols: scope.clone(), ..TypedModel::default() };
        let mut bytes = 0u64;
        let mut values = vec![];
        for (number, fact) in inputs.iter().enumerate() {
            let name = name_of_input(number);
            check_shape(&fact.shape).with_context(|| format!("in {name}"))?;
            values.push(match &fact.konst {
                Some(konst) => {
                    let size = konst.len().saturating_mul(konst.datum_type().size_of());
                    bytes = bytes.saturating_add(size as u64);
                    Value::Constant(konst.clone())
                }
                None => {
                    let mut outlet = model.add_source(&name, fact.clone())?;
                    let shape = dimensions.of_input(number)?;
                    if *shape != *fact.shape {
                        let name = format!("{}.{name}", shortened_name(&*self.layer.name));
                        outlet = model.wire_node(name, EqualShape::new(shape), &[outlet])?[0];
                    }
                    Value::Outlet(outlet)
                }
            });
        }
        let limit = self.options.limits.constant_bytes(bytes);
        let mut computations = Computations::new(Budget::new(limit));
        let mut variables = Variables::default();
        let mut translation = self.translation(dimensions, &mut computations, &mut variables);
        sizes.start();
        std::mem::swap(translation.sizes.get_mut(), sizes);
        let wired = self.wire(&mut translation, &mut model, values);
        std::mem::swap(translation.sizes.get_mut(), sizes);
        wired?;
        translation.budget().take_computed(&model)?;
        let asked = translation.asked.take();
        self.warned.call_once(|| self.warn_of_unread(&asked));
        Ok(model)
    }

    /// Says which attributes nothing has asked for, once: they may be misspelled. Those of an operation that is none of the
    /// operation sets may have other names in what it is made of.
    #[cfg(feature = "onnx")]
    fn warn_of_unread(&self, asked: &HashSet<String>) {
        let names = self.layer.attributes.keys();
        let unread: Vec<&str> =
            names.filter(|name| !asked.contains(*name)).map(|name| &**name).collect();
        if !unread.is_empty() && self.registry.since(&self.layer) != Some(0) {
            log::warn!("{}: attributes that are not read: {}", self.layer, unread.join(", "));
        }
    }

    /// A model that computes the layer from its inputs. Those in `known` are constants of it.
    fn translated_at_run_time(
        &self,
        inputs: &[TValue],
        known: &BTreeSet<usize>,
    ) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut dimensions = Dimensions::of_shapes(model.symbols.clone(), vec![]);
        let (mut computations, mut variables) = (Computations::default(), Variables::default());
        let mut translation = self.translation(&mut dimensions, &mut computations, &mut variables);
        translation.at_run_time = true;
        let mut values = vec![];
        for (number, input) in inputs.iter().enumerate() {
            values.push(if known.contains(&number) {
                Value::Constant(input.clone().into_arc_tensor())
            } else {
                let fact = input.datum_type().fact(input.shape());
                Value::Outlet(model.add_source(name_of_input(number), fact)?)
            });
        }
        self.wire(&mut translation, &mut model, values)?;
        for output in model.nodes().iter().flat_map(|node| &node.outputs) {
            if let Some(shape) = output.fact.shape.as_concrete() {
                check_volume(&self.layer.operation, output.fact.datum_type, shape)?;
            }
        }
        Ok(model)
    }

    /// Wires the nodes of the layer into a model that has nothing but its inputs.
    fn wire(
        &self,
        translation: &mut Translation,
        model: &mut TypedModel,
        values: Vec<Value>,
    ) -> TractResult<()> {
        let at_run_time = translation.at_run_time;
        let names: Vec<String> = (0..values.len()).map(name_of_input).collect();
        let names = names.iter().map(|name| &**name).collect();
        let place = Place::default().layer(0, &self.layer);
        let mut context = LayerContext::new(translation, model, &self.layer, place, values, names);
        let values = match at_run_time {
            true => translate_once(&self.registry, &mut context)?,
            false => translate_or_defer(&self.registry, &mut context)?,
        };
        let outlets: TVec<OutletId> =
            values.iter().map(|value| context.wired(value)).collect::<TractResult<_>>()?;
        model.select_output_outlets(&outlets)?;
        bind_symbols(model, &HashSet::new())
    }

    /// The plan of a model that computes the layer from such inputs.
    fn plan(&self, inputs: &[TValue], known: &BTreeSet<usize>) -> TractResult<Translated> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(position) = plans.iter().position(|it| it.is_for(inputs)) {
            // The last one to be used is the last one to be dropped.
            let translated = plans.remove(position);
            plans.push(translated.clone());
            return Ok(translated);
        }
        drop(plans);
        let mut known = known.clone();
        let model = loop {
            match self.translated_at_run_time(inputs, &known) {
                Ok(model) => break model,
                Err(error) => match error.downcast_ref::<NotKnown>() {
                    Some(missing) if missing.input.is_some_and(|input| known.insert(input)) => (),
                    _ => return Err(error),
                },
            }
        };
        let given =
            inputs.iter().enumerate().map(|(number, input)| match known.contains(&number) {
                true => Given::Known(input.clone().into_arc_tensor()),
                false => Given::Fed(input.datum_type(), input.shape().into()),
            });
        let translated = Translated { inputs: given.collect(), plan: model.into_runnable()? };
        let bytes = |input: &usize| inputs[*input].len() * inputs[*input].datum_type().size_of();
        if known.difference(&self.constants).map(bytes).sum::<usize>() <= MOST_KNOWN {
            let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
            plans.push(translated.clone());
            let surplus = plans.len().saturating_sub(MOST_PLANS);
            plans.drain(..surplus);
        }
        Ok(translated)
    }

    /// Computes the layer. Those of the inputs in `known` are constants of what is computed, and so are others whose values the
    /// translation asks for.
    pub fn eval(&self, inputs: &[TValue], known: &BTreeSet<usize>) -> TractResult<TVec<TValue>> {
        self.plan(inputs, known)?.run(inputs)
    }
}

/// Adds layers to a model that was translated before. `name` is what the names of their nodes begin with.
pub(crate) fn with_layers<T>(
    model: &mut TypedModel,
    name: &str,
    wire: impl FnOnce(&mut LayerContext) -> TractResult<T>,
) -> TractResult<T> {
    let layer = Layer { name: name.into(), ..Layer::default() };
    let weights = Weights::absent("all constants are there");
    let alone = Alone::new(layer, all_operations(), Options::default(), weights);
    let mut dimensions = Dimensions::of_shapes(model.symbols.clone(), vec![]);
    let (mut computations, mut variables) = (Computations::default(), Variables::default());
    let mut translation = alone.translation(&mut dimensions, &mut computations, &mut variables);
    let place = Place::default().layer(0, &alone.layer);
    wire(&mut LayerContext::new(&mut translation, model, &alone.layer, place, vec![], vec![]))
}

fn name_of_input(number: usize) -> String {
    format!("input {number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For the same values there is one translation, and of other values only the last ones are kept.
    #[test]
    fn translations_are_kept() {
        let layer = Layer {
            operation: "Reshape".into(),
            opset: "opset1".into(),
            attributes: [("special_zero".into(), "false".into())].into(),
            ..Layer::default()
        };
        let registry = crate::ir().registry().clone();
        let absent = Weights::absent("there are none");
        let alone = Alone::new(layer, registry, Options::default(), absent);
        let plan = |number: usize| alone.plans.lock().unwrap()[number].plan.clone();
        let run = |elements: usize, shape: [i64; 2]| {
            let data = Tensor::zero::<f32>(&[elements]).unwrap().into_tvalue();
            let inputs = [data, tensor1(&shape).into_tvalue()];
            let output = alone.eval(&inputs, &BTreeSet::new()).unwrap();
            assert_eq!(output[0].shape(), shape.map(|size| size as usize));
        };
        run(6, [2, 3]);
        let first = plan(0);
        run(6, [3, 2]);
        run(6, [2, 3]);
        assert!(Arc::ptr_eq(&first, &plan(1)));
        // More shapes than are kept.
        for rows in 1..=2 * MOST_PLANS as i64 {
            run(6 * rows as usize, [rows, 6]);
        }
        assert_eq!(alone.plans.lock().unwrap().len(), MOST_PLANS);
    }
}
