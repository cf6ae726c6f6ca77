//! What only some processors have. `x86_64.rs` and `portable.rs` offer the same.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(not(target_arch = "x86_64"))]
pub(super) use portable::*;

/// A loop in plain Rust that is compiled for several vector units.
pub(super) trait Loop {
    type Output;

    /// To be inlined, or it is compiled for the oldest processor whatever calls it.
    fn run(self) -> Self::Output;
}
