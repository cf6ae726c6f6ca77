//! Operators that give their input as it is, so that tract does not see what it is.

use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_input_count;

use crate::typed_op::impl_op;

/// What both operators have in common: data and changes of axes pass through them.
macro_rules! passes_data {
    ($op:ident, $name:literal) => {
        impl_op!($op, $name);

        impl TypedOp for $op {
            fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
                expect_input_count($name, inputs.len(), 1..=1)?;
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
/// - In front of a product, tract leaves out an operator that broadcasts an input. If no other input has the size
///   of that axis, the output does not get it.
/// - tract describes integers that come from ranges and sizes by an expression, a fact's `uniform_tdim`. It keeps
///   the expression when they are cast to floats, and then rounds what is computed of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Opaque;

passes_data!(Opaque, "OpenVinoOpaque");

impl Opaque {
    /// Whether an operator on elements must not see this: floats that come from a range or from sizes, which tract would
    /// round; and a constant without elements, of which it would read the first one.
    pub fn is_needed_for(fact: &TypedFact) -> bool {
        let is_rounded = fact.datum_type.is_float() && fact.uniform_tdim.is_some();
        is_rounded || fact.konst.as_ref().is_some_and(|konst| konst.len() == 0)
    }
}

impl EvalOp for Opaque {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

/// Gives its input, as a value that stays a node of its own.
///
/// tract's `Scan` may have one value as two of its inputs. When tract moves the axes of that value, it changes
/// only one of the two inputs in the body. So each gets a node of its own.
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
