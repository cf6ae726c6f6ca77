//! The memory of outputs.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::blocks::WIDEST_NARROW;
use super::{Store, processor};

/// Bytes of which nobody knows yet whether they have been written.
pub(super) fn as_uninit_mut(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: MaybeUninit<u8> has the layout of u8, and in this folder nothing but bytes is written there.
    unsafe { &mut *(bytes as *mut [u8] as *mut [MaybeUninit<u8>]) }
}

/// Looks at new memory, of blocks to be written. Up to 32 MiB there is nothing to it.
///
/// More than that the C library by default gives back to the system at once when it is freed, so that
/// each run finds it unmapped. Then Linux is asked for pages of 2 MiB: with those of 4 KiB, mapping
/// 190 MiB took five times as long as copying them. Where an allocator has kept the memory, stores past
/// the caches, which could not hold it, took 0.7 times as long; but 1.2 times in pages that the system had
/// just zeroed.
///
/// An allocator that keeps the memory keeps the advice with it: these addresses have then what many
/// systems give to all memory, and pages that were written in whole.
pub(super) fn store_for(bytes: &mut [MaybeUninit<u8>], block: usize) -> Store {
    const LARGE: usize = 32 << 20;
    if bytes.len() <= LARGE || was_unmapped(bytes) {
        return Store::Cached;
    }
    let can_stream = block > WIDEST_NARROW && processor::can_stream(bytes, block);
    if can_stream { Store::Streamed } else { Store::Cached }
}

/// Whether the system has still to map the memory. If so, asks for large pages.
#[cfg(target_os = "linux")]
fn was_unmapped(bytes: &mut [MaybeUninit<u8>]) -> bool {
    const HUGE_PAGE: usize = 2 << 20;
    let before = bytes.as_ptr().align_offset(HUGE_PAGE);
    let Some(bytes) = bytes.get_mut(before..) else { return false };
    let length = bytes.len() / HUGE_PAGE * HUGE_PAGE;
    let start = bytes.as_mut_ptr().cast();
    let mut is_mapped = 0;
    // SAFETY: the start of a page of memory that is ours, and a byte for the answer for that page.
    let error = unsafe { libc::mincore(start, 1, &mut is_mapped) };
    if error != 0 || is_mapped & 1 == 1 {
        return false;
    }
    // SAFETY: whole pages of memory that is ours alone; the advice leaves their contents.
    // An error means that there are no such pages, which is fine.
    unsafe { libc::madvise(start, length, libc::MADV_HUGEPAGE) };
    true
}

#[cfg(not(target_os = "linux"))]
fn was_unmapped(_: &mut [MaybeUninit<u8>]) -> bool {
    false
}
