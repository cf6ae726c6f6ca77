use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_input_count;

/// Gives its input as it is, so that tract does not see what it is.
///
/// In front of a product, tract leaves out an operator that broadcasts an input. If no other input has the size of that
/// axis, the output does not get it, and tract's declutter fails.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Opaque;

impl Op for Opaque {
    fn name(&self) -> StaticName {
        "Opaque".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Opaque {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Opaque {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Opaque", inputs.len(), 1..=1)?;
        Ok(tvec!(inputs[0].without_value()))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        AxesMapping::natural(inputs, outputs)
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        _io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        Ok(Some(AxisChangeConsequence::new(model, node, None, change)))
    }

    as_op!();
}

/// Gives its input as it is, but not as one outlet with that of another number: tract merges equal operators, and equal constants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Apart(pub usize);

impl Op for Apart {
    fn name(&self) -> StaticName {
        "Apart".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("number: {}", self.0)])
    }

    op_as_typed_op!();
}

impl EvalOp for Apart {
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Apart {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Apart", inputs.len(), 1..=1)?;
        Ok(tvec!(inputs[0].without_value()))
    }

    as_op!();
}
