//! For processors without special code.

use std::mem::MaybeUninit;

use super::{GATHERED, Loop};

/// Vector units to compile for: there is nothing to choose.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Vectors {
    Portable,
}

#[cfg(test)]
impl Vectors {
    pub const ALL: [Vectors; 1] = [Vectors::Portable];

    /// The widest of this machine.
    pub fn detect() -> Vectors {
        Vectors::Portable
    }
}

pub(in super::super) fn vectorized<L: Loop>(body: L) -> L::Output {
    body.run()
}

pub(in super::super) fn has_gathers<const SIZE: usize>() -> bool {
    false
}

/// # Safety
///
/// Never called: there are no such instructions.
#[allow(unsafe_code)]
pub(in super::super) unsafe fn gather_or_zero<const SIZE: usize>(
    _data: &[[u8; SIZE]],
    _numbers: &[[u32; GATHERED]],
    _zero: &[u8; SIZE],
    _output: &mut [[[MaybeUninit<u8>; SIZE]; GATHERED]],
) {
    unreachable!("this processor has no gathers");
}

/// # Safety
///
/// Never called, either.
#[allow(unsafe_code)]
pub(in super::super) unsafe fn gather_eight_or_zero<const SIZE: usize>(
    _data: &[[u8; SIZE]],
    _numbers: &[u32; GATHERED],
    _zero: &[u8; SIZE],
    _output: &mut [[MaybeUninit<u8>; SIZE]; GATHERED],
) {
    unreachable!("this processor has no gathers");
}

pub(in super::super) fn prefetch<T>(_data: &[T]) {}

pub(in super::super) fn can_stream(_bytes: &[MaybeUninit<u8>], _block: usize) -> bool {
    false
}

pub(in super::super) fn stream(from: &[MaybeUninit<u8>], to: &mut [MaybeUninit<u8>]) {
    to.copy_from_slice(from);
}

pub(in super::super) fn end_of_stream() {}
