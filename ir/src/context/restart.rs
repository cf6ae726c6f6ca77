//! Why the translation starts again.

use std::fmt;

/// The error that starts the translation again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// Something was learnt about an open dimension.
    Learnt,
    /// Something that was computed was dropped, but is needed after all.
    Dropped,
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Restart::Learnt => "something was learnt about an open dimension",
            Restart::Dropped => "a constant was dropped before its last use",
        })
    }
}

impl std::error::Error for Restart {}
