use tract_core::internal::*;
use tract_openvino_kernels::checks::checked_volume;

use crate::typed_op::{impl_op, set_symbols};

/// Tensors without elements, in place of an operator whose outputs have none, whatever the open sizes are.
///
/// tract's operators, and its optimiser, fail for many a tensor without elements, or read its first one. The inputs are
/// those of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Empty {
    outputs: TVec<TypedFact>,
}

impl Empty {
    /// If all outputs are without elements, and some of their sizes are open.
    pub fn instead_of(outputs: &[TypedFact]) -> Option<Empty> {
        let is_empty = |fact: &TypedFact| {
            fact.shape.iter().any(|dim| *dim == 0.to_dim()) && fact.shape.as_concrete().is_none()
        };
        let outputs = Some(outputs).filter(|it| !it.is_empty() && it.iter().all(is_empty))?;
        Some(Empty { outputs: outputs.iter().map(TypedFact::without_value).collect() })
    }
}

impl_op!(Empty, "OpenVinoEmpty");

impl EvalOp for Empty {
    // Its sizes are known in a plan only.
    not_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, _inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let zeros = |fact: &TypedFact| -> TractResult<TValue> {
            let shape = fact.shape.eval_to_usize(ctx.symbols)?;
            checked_volume("Empty", &shape)?;
            Ok(Tensor::zero_dt(fact.datum_type, &shape)?.into_tvalue())
        };
        self.outputs.iter().map(zeros).collect()
    }
}

impl TypedOp for Empty {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(self.outputs.clone())
    }

    set_symbols!(outputs);

    as_op!();
}
