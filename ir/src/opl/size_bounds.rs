use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_input_count;

use super::{impl_op, set_symbols};

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

impl super::SetSymbols for Bounds {
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
    required_bound_symbols = |op| op.bounds.iter().flat_map(|it| it.size.symbols()).collect()
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
