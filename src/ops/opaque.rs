use tract_core::internal::*;
use tract_openvino_kernels::{impl_op, impl_pass_through};

/// Gives its input as it is, so that tract does not see what it is.
///
/// In front of a product, tract leaves out an operator that broadcasts an input. If no other input has the size of that
/// axis, the output does not get it, and tract's declutter fails.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Opaque;

impl_op!(Opaque, "Opaque");
impl_pass_through!(Opaque, op_out_of_plan, pass_axes);

/// Gives its input as it is, but not as one outlet with that of another number: tract merges equal operators, and equal constants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Apart(pub usize);

impl_op!(Apart, "Apart", info = |op| vec![format!("number: {}", op.0)]);
impl_pass_through!(Apart, not_out_of_plan);
