//! Layers that must know values or sizes that only a run knows: they are translated then.

use std::collections::BTreeSet;
use std::sync::Arc;

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use super::alone::Alone;
use crate::context::{LayerContext, Options, Translation, Value, check_port};
use crate::registry::Registry;
use crate::typed_op::{impl_op, set_symbols};
use crate::weights::{Weights, held_type};

/// A layer that is translated when it runs, with the values and the shapes that its inputs have then.
///
/// What is known of its outputs before is what the file says. The text of NNEF has nothing like it.
#[derive(Debug, Clone)]
pub(crate) struct Deferred {
    what: Arc<Alone>,
    /// The inputs whose values the translation asks for, as far as that is known.
    known: BTreeSet<usize>,
    /// Whether some inputs are sizes, which are i64 here whatever the file says.
    has_sizes: bool,
    outputs: TVec<TypedFact>,
}

/// Operations whose outputs have a row for each box that is selected, where the file may have the most there can be.
const SELECTS: [&str; 4] = ["MatrixNms", "MulticlassNms", "NMSRotated", "NonMaxSuppression"];

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
        let Translation { options, weights, folds, .. } = self.translation();
        let (options, weights, folds) = (Options::clone(options), Weights::clone(weights), *folds);
        let mut alone = Alone::new(self.layer().clone(), registry.clone(), options, weights);
        (alone.folds, alone.constants) = (folds, constants);
        let what = Arc::new(alone);
        let outlets = self.finish(Deferred { what, known, has_sizes, outputs }, &inputs)?;
        Ok(Some(outlets.into_iter().map(Value::Outlet).collect()))
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
            if self.has_sizes && output.datum_type().is_integer() && fact.datum_type.is_integer() {
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
    use tract_openvino_kernels::checks::power_of_two;

    use super::*;
    use crate::limits::MAX_DECLARED_ELEMENTS;
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
        let error = format!("{:#}", tile([1i64 << 40, 1]).unwrap_err());
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
        let far = power_of_two(62);
        let far = NET.replace("<dim>-1</dim>", &format!("<dim>{far}</dim>"));
        fails(&ir(), &far, &format!("whose product is more than {MAX_DECLARED_ELEMENTS}"));
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
