//! Operators that give their input as it is, so that tract does not see what it is.

use tract_core::internal::*;

/// What both operators have in common: data and changes of axes pass through them.
macro_rules! passes_data {
    ($op:ident, $name:literal) => {
        impl Op for $op {
            fn name(&self) -> StaticName {
                $name.into()
            }

            op_as_typed_op!();
        }

        impl TypedOp for $op {
            fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
                ensure!(
                    inputs.len() == 1,
                    "{}: the number of inputs is {}, but must be 1",
                    $name,
                    inputs.len()
                );
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
    };
}

/// Gives its input, without what tract knows of it.
///
/// There are two reasons for it:
/// - In front of a product, tract leaves out what broadcasts an input, even if the product has the size of
///   that axis from nowhere else.
/// - tract follows integers that come from ranges and sizes in a fact's `uniform_tdim`, an expression with
///   whole numbers. It goes on with that when they have become floats, and then rounds what it computes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Opaque;

passes_data!(Opaque, "OpenVinoOpaque");

impl EvalOp for Opaque {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

/// Gives its input, as a value that stays a node of its own.
///
/// If two inputs of tract's `Scan` are one value and tract moves its axes, it changes one of the two in the
/// body, and not the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Separate;

passes_data!(Separate, "OpenVinoSeparate");

impl EvalOp for Separate {
    // Computed early, two constants would become one again.
    not_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}
