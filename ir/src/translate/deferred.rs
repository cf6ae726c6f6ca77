//! Layers that must know values or sizes that only a run knows: they are translated then.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use super::translate_once;
use crate::document::{Graph, Layer};
use crate::layer::{
    Computations, Dimensions, LayerContext, NotKnown, Options, Place, Translation, Value,
    Variables, check_port,
};
use crate::opl::bound::bind_symbols;
use crate::opl::{check_volume, impl_op, set_symbols};
use crate::registry::Registry;
use crate::weights::{Weights, held_type};

/// A layer that is translated when it runs, with the values and the shapes that its inputs have then.
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
    registry: Registry,
    options: Options,
    weights: Weights,
    /// The inputs that are constants of the model.
    constants: BTreeSet<usize>,
    /// Whether some inputs are sizes, which are i64 here whatever the file says.
    has_sizes: bool,
    /// What the last translations made, the newest last.
    plans: Mutex<Vec<Translated>>,
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

/// Operations whose outputs have a row for each box that is selected, where the file may have the most there can be.
const SELECTS: [&str; 4] = ["MatrixNms", "MulticlassNms", "NMSRotated", "NonMaxSuppression"];

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

impl PartialEq for Deferred {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.what, &other.what) && self.outputs == other.outputs
    }
}

impl Eq for Deferred {}

impl LayerContext<'_, '_> {
    /// Wires the layer as one node that translates it when the model runs. `missing` is an input whose value it asked
    /// for. `None` if too little is known of its outputs: the file must say their types and ranks. A tensor of unknown
    /// rank looks like a scalar there.
    pub(super) fn defer(
        &mut self,
        registry: &Registry,
        missing: Option<usize>,
    ) -> TractResult<Option<Vec<Value>>> {
        let mut outputs = tvec!();
        for port in &self.layer().outputs {
            let Some(dt) = port.element_type.and_then(held_type) else { return Ok(None) };
            if port.dims.is_empty() {
                return Ok(None);
            }
            check_port(port)?;
            let selects = SELECTS.contains(&self.operation());
            let dims = port.dims.iter().enumerate().map(|(axis, size)| match size {
                Some(size) if axis > 0 || !selects => Ok(size.to_dim()),
                _ => self.size_at_run_time("deferred").map(|size| size.to_dim()),
            });
            outputs.push(dt.fact(dims.collect::<TractResult<TVec<TDim>>>()?));
        }
        let (mut inputs, mut constants, mut has_sizes) = (tvec!(), BTreeSet::new(), false);
        let mut known: BTreeSet<usize> = missing.into_iter().collect();
        for input in 0..self.input_count() {
            let mut outlet = self.input(input)?;
            if self.is_constant(input) {
                known.insert(input);
                constants.insert(input);
            }
            // A size gets its value in the plan of the model, and not in that of the layer.
            if self.type_of(outlet)?.is_tdim() {
                outlet = self.cast(&format!("input_{input}"), outlet, DatumType::I64)?;
                constants.remove(&input);
                has_sizes = true;
            }
            inputs.push(outlet);
        }
        let Translation { options, weights, .. } = self.translation();
        let (options, weights) = (Options::clone(options), Weights::clone(weights));
        let what = Arc::new(Untranslated {
            layer: self.layer().clone(),
            registry: registry.clone(),
            options,
            weights,
            constants,
            has_sizes,
            plans: Mutex::default(),
        });
        let outlets = self.finish(Deferred { what, known, outputs }, &inputs)?;
        Ok(Some(outlets.into_iter().map(Value::Outlet).collect()))
    }
}

impl Untranslated {
    /// A model that computes the layer from its inputs. Those in `known` are constants of it.
    fn translate(&self, inputs: &[TValue], known: &BTreeSet<usize>) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut dimensions = Dimensions::new(model.symbols.clone(), &Graph::default(), &[], &[])?;
        let (mut computations, mut variables) = (Computations::default(), Variables::default());
        let mut translation = Translation::new(
            &self.registry,
            &self.options,
            &self.weights,
            &mut dimensions,
            &mut computations,
            &mut variables,
        );
        translation.at_run_time = true;
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
        let place = Place::default().layer(0, &self.layer);
        let names = names.iter().map(|name| &**name).collect();
        let mut context =
            LayerContext::new(&mut translation, &mut model, &self.layer, place, values, names);
        let values = translate_once(&self.registry, &mut context)?;
        let outlets: TVec<OutletId> =
            values.iter().map(|value| context.wired(value)).collect::<TractResult<_>>()?;
        model.select_output_outlets(&outlets)?;
        bind_symbols(&mut model, &HashSet::new())?;
        for output in model.nodes().iter().flat_map(|node| &node.outputs) {
            if let Some(shape) = output.fact.shape.as_concrete() {
                check_volume(&self.layer.operation, output.fact.datum_type, shape)?;
            }
        }
        Ok(model)
    }

    /// The plan of a model that computes the layer from such inputs.
    fn translated(&self, inputs: &[TValue], known: &BTreeSet<usize>) -> TractResult<Translated> {
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
            match self.translate(inputs, &known) {
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

    fn eval(&self, inputs: &[TValue], known: &BTreeSet<usize>) -> TractResult<TVec<TValue>> {
        self.translated(inputs, known)?.run(inputs)
    }
}

impl_op!(
    Deferred,
    "OpenVinoDeferred",
    info = |op| vec![op.what.layer.to_string()],
    mints_runtime_symbols = |_| true
);

impl EvalOp for Deferred {
    // The symbols of the outputs get their values in a plan.
    not_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let layer = &self.what.layer;
        let mut outputs =
            self.what.eval(&inputs, &self.known).with_context(|| format!("in {layer}"))?;
        ensure!(
            outputs.len() >= self.outputs.len(),
            "{layer}: the number of outputs is {}, but must be {}, as the file says",
            outputs.len(),
            self.outputs.len()
        );
        // The operation may have more of them than the file.
        outputs.truncate(self.outputs.len());
        for (output, fact) in outputs.iter_mut().zip(&self.outputs) {
            if self.what.has_sizes
                && output.datum_type().is_integer()
                && fact.datum_type.is_integer()
            {
                *output = output.cast_to_dt(fact.datum_type)?.into_owned().into_tvalue();
            }
        }
        for (number, (output, fact)) in outputs.iter().zip(&self.outputs).enumerate() {
            let sizes = fact.shape.iter().map(|dim| dim.eval(ctx.symbols));
            let fits = fact.datum_type == output.datum_type()
                && fact.rank() == output.rank()
                && sizes.zip(output.shape()).all(|(said, size)| {
                    said.as_i64().is_none_or(|said| usize::try_from(said) == Ok(*size))
                });
            ensure!(
                fits,
                "{layer}: output {number} is of type {:?} and shape {:?}, but must be of type {:?} and shape {}, as \
                 the file says",
                output.datum_type(),
                output.shape(),
                fact.datum_type,
                listed(&fact.shape.to_tvec())
            );
        }
        Ok(outputs)
    }
}

impl TypedOp for Deferred {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(self.outputs.clone())
    }

    set_symbols!(outputs);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ir, ir};

    /// A transposition whose order is an input.
    const NET: &str = r#"<net name="net" version="11">
        <layers>
            <layer id="0" name="x" type="Parameter" version="opset1">
                <data shape="2,3" element_type="f32"/>
                <output><port id="0" precision="FP32"/></output>
            </layer>
            <layer id="1" name="order" type="Parameter" version="opset1">
                <data shape="2" element_type="i64"/>
                <output><port id="0" precision="I64"/></output>
            </layer>
            <layer id="2" name="transpose" type="Transpose" version="opset1">
                <input><port id="0"/><port id="1"/></input>
                <output><port id="2" precision="FP32"><dim>-1</dim><dim>2</dim></port></output>
            </layer>
            <layer id="3" name="result" type="Result" version="opset1">
                <input><port id="0"/></input>
            </layer>
        </layers>
        <edges>
            <edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
            <edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
            <edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
        </edges>
    </net>"#;

    fn load(reader: &Ir, xml: &str) -> TractResult<TypedModel> {
        reader.model_for_bytes(xml.as_bytes(), Vec::new())
    }

    fn run(order: [i64; 2]) -> Result<Tensor, String> {
        let x = tensor2(&[[1f32, 2., 3.], [4., 5., 6.]]);
        let model = load(&ir(), NET).and_then(|model| model.into_optimized()?.into_runnable());
        let inputs = tvec!(x.into_tvalue(), tensor1(&order).into_tvalue());
        let outputs = model.and_then(|model| model.run(inputs));
        outputs
            .map(|outputs| outputs[0].clone().into_tensor())
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_layer_is_translated_when_the_model_runs() {
        assert_eq!(run([1, 0]).unwrap(), tensor2(&[[1f32, 4.], [2., 5.], [3., 6.]]));
    }

    /// For the same values there is one translation, and of other values only the last ones are kept.
    #[test]
    fn translations_are_kept() {
        let net = NET
            .replace("shape=\"2,3\"", "shape=\"6\"")
            .replace("Transpose", "Reshape")
            .replace("<dim>2</dim>", "<dim>-1</dim>");
        let model = load(&ir(), &net).unwrap();
        let what = model.nodes().iter().find_map(|node| node.op_as::<Deferred>());
        let what = what.expect("the shape is fed").what.clone();
        let plan = |number: usize| what.plans.lock().unwrap()[number].plan.clone();
        let model = model.into_runnable().unwrap();
        let run = |shape: [i64; 2]| {
            let x = tensor1(&[1f32, 2., 3., 4., 5., 6.]).into_tvalue();
            let output = model.run(tvec!(x, tensor1(&shape).into_tvalue())).unwrap();
            assert_eq!(output[0].shape(), shape.map(|size| size as usize));
        };
        run([2, 3]);
        let first = plan(0);
        run([3, 2]);
        run([2, 3]);
        assert!(Arc::ptr_eq(&first, &plan(1)));
        // More shapes than are kept.
        for rows in 1..=2 * MOST_PLANS as i64 {
            let zeros = Tensor::zero::<f32>(&[6 * rows as usize]).unwrap().into_tvalue();
            what.eval(&[zeros, tensor1(&[rows, 6]).into_tvalue()], &BTreeSet::from([1])).unwrap();
        }
        assert_eq!(what.plans.lock().unwrap().len(), MOST_PLANS);
    }

    #[test]
    fn values_that_do_not_fit_are_errors() {
        let error = run([1, 1]).unwrap_err();
        assert!(error.contains("in layer 2 \"transpose\" (Transpose, opset1): "), "{error}");
        let error = run([0, 1]).unwrap_err();
        assert!(error.contains("of type F32 and shape [2, 3], but must be"), "{error}");
    }

    /// Of constants, a loaded model may not have such an output.
    #[test]
    fn outputs_are_as_large_as_those_of_other_layers() {
        let net = NET
            .replacen(r#"type="Parameter""#, r#"type="Const""#, 1)
            .replace(r#"element_type="f32""#, r#"element_type="u8" offset="0" size="6""#)
            .replace("FP32", "U8")
            .replace(r#"type="Transpose""#, r#"type="Tile""#)
            .replace("<dim>2</dim>", "<dim>-1</dim>");
        let model = ir().model_for_bytes(net.as_bytes(), [7; 6]).unwrap().into_runnable().unwrap();
        let tile = |repeats: [i64; 2]| model.run(tvec!(tensor1(&repeats).into_tvalue()));
        assert_eq!(tile([1 << 22, 1]).unwrap()[0].shape(), [1 << 23, 3]);
        let error = format!("{:#}", tile([1 << 40, 1]).unwrap_err());
        assert!(error.contains("Tile") && !error.contains("loaded"), "{error}");
    }

    #[test]
    fn layers_with_a_state_are_not_deferred() {
        let data = r#"<data with_replacement="true" log_probs="false"/><input><port id="0"/>"#;
        let random = NET
            .replace(
                r#"type="Transpose" version="opset1""#,
                r#"type="Multinomial" version="opset13""#,
            )
            .replace(r#"shape="2" "#, r#"shape="1" "#)
            .replacen(r#"<input><port id="0"/>"#, data, 1);
        let error = format!("{:#}", load(&ir(), &random).unwrap_err());
        assert!(error.contains("(num_samples) is only known when the model runs"), "{error}");
    }

    #[test]
    fn what_the_file_must_say() {
        let fails = |reader: &Ir, xml: &str, expected: &str| {
            let error = format!("{:#}", load(reader, xml).unwrap_err());
            assert!(error.contains(expected), "{error}");
        };
        let unknown = "is only known when the model runs, but must be known when it is loaded";
        fails(&ir(), &NET.replace("<dim>-1</dim><dim>2</dim>", ""), unknown);
        // Sizes that would overflow when they are added or multiplied.
        let far = NET.replace("<dim>-1</dim>", "<dim>4611686018427387904</dim>");
        fails(&ir(), &far, "whose product is more than 1099511627776");
    }

    #[test]
    fn inputs_may_have_open_dimensions() {
        let open = NET.replace("shape=\"2,3\"", "shape=\"?,3\"");
        let model = load(&ir(), &open).unwrap().into_optimized().unwrap().into_runnable().unwrap();
        for rows in [2, 5] {
            let x = Tensor::zero::<f32>(&[rows, 3]).unwrap().into_tvalue();
            let outputs = model.run(tvec!(x, tensor1(&[1i64, 0]).into_tvalue()));
            match rows {
                2 => assert_eq!(outputs.unwrap()[0].shape(), [3, 2]),
                // The file says 2.
                _ => assert!(format!("{:#}", outputs.unwrap_err()).contains("as the file says")),
            }
        }
        // With a dimension that is refused as it stands, too.
        let unknown = open.replace("<dim>-1</dim><dim>2</dim>", "");
        let error = format!("{:#}", load(&ir(), &unknown).unwrap_err());
        assert!(
            error.contains(": if it is computed from the sizes of the inputs, give these"),
            "{error}"
        );
    }
}
