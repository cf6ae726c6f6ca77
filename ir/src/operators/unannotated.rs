use tract_core::internal::*;

/// Gives its input, and none of what tract notes of the values of elements.
///
/// tract follows integers that come from ranges and sizes in a fact's `uniform_tdim`, an expression with
/// whole numbers. It goes on with that when they have become floats, and then rounds what it computes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Unannotated;

impl Op for Unannotated {
    fn name(&self) -> StaticName {
        "Unannotated".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Unannotated {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Unannotated {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(TypedFact { uniform_tdim: None, ..inputs[0].clone() }))
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
