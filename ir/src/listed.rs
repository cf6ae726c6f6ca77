//! Dimensions as text, for errors.

use std::fmt::Display;

/// Dimensions as a user writes them, like `[2, N, 3]`. (The `Debug` text of a `TDim` is `Sym(N)`.)
pub(crate) fn listed<D: Display>(dims: &[D]) -> String {
    format!("[{}]", dims.iter().map(D::to_string).collect::<Vec<_>>().join(", "))
}
