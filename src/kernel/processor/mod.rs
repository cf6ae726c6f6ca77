//! Instructions of certain processors. `x86_64.rs` and `portable.rs` have the same functions. With `--cfg portable`,
//! the latter is used on every processor, so that any machine can test it.

#[cfg(all(target_arch = "x86_64", not(portable)))]
mod x86_64;
#[cfg(all(target_arch = "x86_64", not(portable)))]
pub(super) use x86_64::*;

#[cfg(not(all(target_arch = "x86_64", not(portable))))]
mod portable;
#[cfg(not(all(target_arch = "x86_64", not(portable))))]
pub(super) use portable::*;

/// A loop in plain Rust, to be compiled for several vector units.
pub(super) trait Loop {
    type Output;

    /// Must be inlined: otherwise it is compiled for the oldest processor, whatever calls it.
    fn run(self) -> Self::Output;
}

/// How many elements one instruction gathers.
pub(super) const GATHERED: usize = 8;
