//! The memory of outputs.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

#[cfg(target_os = "linux")]
use tract_openvino_kernels::{ask_for_large_pages, large_pages};

use super::blocks::is_narrow;
use super::{Store, processor};

/// The bytes, as memory that may be uninitialised.
///
/// # Safety
///
/// Only initialised bytes may be written there: `bytes` is a slice of them again afterwards.
pub(super) unsafe fn as_uninit_mut(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: MaybeUninit<u8> has the layout of u8, and the caller promises what is written.
    unsafe { &mut *(bytes as *mut [u8] as *mut [MaybeUninit<u8>]) }
}

/// How to store blocks in new memory. Asks for large pages where that pays. Up to 32 MiB nothing pays.
///
/// More than 32 MiB the C library by default returns to the system when it is freed, so each run gets unmapped
/// memory. Then Linux is asked for pages of 2 MiB: with pages of 4 KiB, mapping 190 MiB took five times as long as
/// copying them. If an allocator has kept the memory, stores past the caches, which could not hold it anyway, took
/// 0.7 times as long; but 1.2 times in pages that the system had just zeroed.
///
/// An allocator that keeps the memory keeps the advice for it too. That is harmless: many systems give such pages
/// to all memory, and these were written in whole.
pub(super) fn store_for(bytes: &mut [MaybeUninit<u8>], block: usize) -> Store {
    const LARGE: usize = 32 << 20;
    if bytes.len() <= LARGE || was_unmapped(bytes) {
        return Store::Cached;
    }
    let can_stream = !is_narrow(block) && processor::can_stream(bytes, block);
    if can_stream { Store::Streamed } else { Store::Cached }
}

/// Whether the system has not mapped the memory yet. If so, asks for large pages.
#[cfg(target_os = "linux")]
fn was_unmapped(bytes: &mut [MaybeUninit<u8>]) -> bool {
    let pages = large_pages(bytes);
    if pages.is_empty() {
        return false;
    }
    let mut is_mapped = 0;
    // SAFETY: this is the start of a page of memory that is ours, and the answer for one page is one byte.
    let error = unsafe { libc::mincore(pages.as_mut_ptr().cast(), 1, &mut is_mapped) };
    if error != 0 || is_mapped & 1 == 1 {
        return false;
    }
    ask_for_large_pages(pages);
    true
}

#[cfg(not(target_os = "linux"))]
fn was_unmapped(_: &mut [MaybeUninit<u8>]) -> bool {
    false
}
