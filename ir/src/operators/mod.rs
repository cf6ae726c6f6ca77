//! Operators of tract's that tract does not have.

pub(crate) mod range;
pub(crate) mod variable;
