use tract_core::internal::*;

/// Gives its input, as a value that stays a node of its own.
///
/// Two inputs of tract's `Scan` that are one value come apart when tract moves axes: it changes what the one
/// is in the body, and not the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Separate;

impl Op for Separate {
    fn name(&self) -> StaticName {
        "Separate".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Separate {
    // Two constants could become one.
    not_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Separate {
    as_op!();

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(inputs.iter().map(|fact| fact.without_value()).collect())
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
}
