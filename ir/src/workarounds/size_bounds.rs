use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_input_count;

use crate::typed_op::{SetSymbols, impl_op, set_symbols};

/// Gives its input, and checks sizes of the model's inputs against what the file allows.
///
/// tract would compute with bounds of a symbol, and never compare them with the sizes that it is fed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SizeBounds {
    pub bounds: TVec<Bounds>,
}

/// A dimension, and the sizes that it may have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    pub size: TDim,
    pub least: i64,
    pub most: Option<i64>,
    /// Like `dimension 1 of input "x"`.
    pub of: String,
}

impl SetSymbols for Bounds {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        self.size.set_symbols(values)
    }
}

impl_op!(
    SizeBounds,
    "OpenVinoSizeBounds",
    info = |op| op
        .bounds
        .iter()
        .map(|it| format!("{} ({}): {}", it.of, it.size, it.allowed()))
        .collect(),
    required_bound_symbols = |op, _| op.bounds.iter().flat_map(|it| it.size.symbols()).collect()
);

impl Bounds {
    fn allowed(&self) -> String {
        match self.most {
            Some(most) => format!("{}..{most}", self.least),
            None => format!("{}..", self.least),
        }
    }
}

impl EvalOp for SizeBounds {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        for bounds in &self.bounds {
            let size = bounds.size.eval_to_i64(ctx.symbols)?;
            ensure!(
                size >= bounds.least && bounds.most.is_none_or(|most| size <= most),
                "{} is {size}, but the file declares {}",
                bounds.of,
                bounds.allowed()
            );
        }
        Ok(inputs)
    }
}

impl TypedOp for SizeBounds {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("SizeBounds", inputs.len(), 1..=1)?;
        Ok(tvec!(inputs[0].without_value()))
    }

    set_symbols!(bounds);

    as_op!();
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;

    /// A model that adds 1 to an input of such a shape.
    fn run(declared: &str, given: Option<&str>, size: usize) -> Result<(), String> {
        let layer = |id: usize, name: &str, operation: &str, rest: &str| {
            format!(
                r#"<layer id="{id}" name="{name}" type="{operation}" version="opset1">{rest}</layer>"#
            )
        };
        let layers = [
            layer(
                0,
                "x",
                "Parameter",
                &format!(
                    r#"<data shape="{declared}" element_type="f32"/><output><port id="0" names="x"/></output>"#
                ),
            ),
            layer(1, "y", "Abs", r#"<input><port id="0"/></input><output><port id="1"/></output>"#),
            layer(2, "r", "Result", r#"<input><port id="0"/></input>"#),
        ];
        let xml = format!(
            r#"<net name="net" version="11"><layers>{}</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/><edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>"#,
            layers.concat()
        );
        let reader = given.iter().fold(crate::ir(), |ir, shape| ir.with_input_shape("x", *shape));
        let model =
            reader.model_for_bytes(xml.as_bytes(), vec![]).map_err(|error| format!("{error:#}"))?;
        for model in [
            model.clone(),
            model.clone().into_decluttered().unwrap(),
            model.into_optimized().unwrap(),
        ] {
            let input = Tensor::zero::<f32>(&[size]).unwrap();
            let outputs = model.into_runnable().unwrap().run(tvec!(input.into()));
            outputs.map_err(|error| format!("{error:#}"))?;
        }
        Ok(())
    }

    #[test]
    fn sizes_that_the_file_does_not_allow_are_errors() {
        for (declared, given, size, allowed) in [
            ("2..7", None, 2, true),
            ("2..7", None, 7, true),
            ("2..7", None, 1, false),
            ("2..7", None, 9, false),
            ("2..", None, 1, false),
            ("..7", None, 8, false),
            ("2..7", Some("n"), 9, false),
            ("2..7", Some("2*n"), 8, false),
            ("2..7", Some("2*n"), 6, true),
            ("?", None, 9, true),
        ] {
            let result = run(declared, given, size);
            assert_eq!(result.is_ok(), allowed, "{declared} {given:?} {size}: {result:?}");
            if let Err(error) = result {
                let said = format!("dimension 0 of input \"x\" is {size}, but the file declares ");
                assert!(error.contains(&said), "{error}");
            }
        }
    }

    #[test]
    fn an_input_of_any_rank_takes_the_shape_that_is_given() {
        let error = run("...", None, 2).unwrap_err();
        assert!(error.contains("leaves the number of dimensions open"), "{error}");
        run("...", Some("n"), 3).unwrap();
        run("[...]", Some("3"), 3).unwrap();
    }
}
