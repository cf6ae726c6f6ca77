use tract_core::internal::*;

/// Its input, as it is: something that tract does not look behind when it rewrites a model.
///
/// In front of a product, because tract leaves out what broadcasts one of its inputs, even if the product has
/// the size of that axis from nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Opaque;

impl Op for Opaque {
    fn name(&self) -> StaticName {
        "OpenVinoOpaque".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Opaque {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Opaque {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(inputs.len() == 1, "Opaque: got {} inputs, expected 1", inputs.len());
        Ok(tvec!(inputs[0].without_value()))
    }

    as_op!();
}
