//! Operators that give their input as it is, so that tract does not see what it is.

use tract_core::internal::*;

use crate::typed_op::{impl_op, impl_pass_through};

/// Gives its input, without what tract knows of it.
///
/// There are two reasons for it:
/// - In front of a product, tract leaves out an operator that broadcasts an input. If no other input has the size
///   of that axis, the output does not get it.
/// - tract describes integers that come from ranges and sizes by an expression, a fact's `uniform_tdim`. It keeps
///   the expression when they are cast to floats, and then rounds what is computed of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Opaque;

impl_op!(Opaque, "OpenVinoOpaque");
impl_pass_through!(Opaque, op_out_of_plan, pass_axes);

impl Opaque {
    /// Whether an operator on elements must not see this: floats that come from a range or from sizes, which tract would
    /// round; and a constant without elements, of which it would read the first one.
    pub fn is_needed_for(fact: &TypedFact) -> bool {
        let is_rounded = fact.datum_type.is_float() && fact.uniform_tdim.is_some();
        is_rounded || fact.konst.as_ref().is_some_and(|konst| konst.len() == 0)
    }
}

/// Gives its input, as a value that stays a node of its own.
///
/// tract's `Scan` may have one value as two of its inputs. When tract moves the axes of that value, it changes
/// only one of the two inputs in the body. So each gets a node of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Separate;

impl_op!(Separate, "OpenVinoSeparate");
// Computed early, two constants would become one again.
impl_pass_through!(Separate, not_out_of_plan, pass_axes);
