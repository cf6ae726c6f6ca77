//! AVX2 and AVX-512, prefetching, and stores past the caches.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::{GATHERED, Loop};

/// Vector units to compile for. `Portable` is what every processor of the target has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Vectors {
    Portable,
    Avx2,
    Avx512,
}

impl Vectors {
    #[cfg(test)]
    pub const ALL: [Vectors; 3] = [Vectors::Portable, Vectors::Avx2, Vectors::Avx512];

    /// The widest of this machine.
    pub fn detect() -> Vectors {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            Vectors::Avx512
        } else if is_x86_feature_detected!("avx2") {
            Vectors::Avx2
        } else {
            Vectors::Portable
        }
    }

    /// Those to use: the widest of this machine, or fewer in a test that says so.
    fn selected() -> Vectors {
        #[cfg(test)]
        return Vectors::detect().min(super::super::tests::WIDEST.get());
        #[cfg(not(test))]
        Vectors::detect()
    }
}

/// Runs a loop with the widest vector units of this machine. Compared with AVX-512, resolving indices of 32 bits took
/// 1.8 times as long with AVX2 and 3 times with `Portable`; of 64 bits 2 and 5 times.
#[inline]
pub(in super::super) fn vectorized<L: Loop>(body: L) -> L::Output {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn avx512<L: Loop>(body: L) -> L::Output {
        body.run()
    }
    #[target_feature(enable = "avx2")]
    fn avx2<L: Loop>(body: L) -> L::Output {
        body.run()
    }
    match Vectors::selected() {
        // SAFETY: the machine has these instructions.
        Vectors::Avx512 => unsafe { avx512(body) },
        Vectors::Avx2 => unsafe { avx2(body) },
        Vectors::Portable => body.run(),
    }
}

/// Whether elements of this size can be [gathered](gather_or_zero).
#[inline]
pub(in super::super) fn has_gathers<const SIZE: usize>() -> bool {
    SIZE == 4 && Vectors::selected() >= Vectors::Avx2
}

/// Copies the elements that have these numbers; `zero` for a number that none has.
///
/// # Panics
///
/// If `SIZE` is not 4, `data` has more than `i32::MAX` elements, or there are not as many numbers as elements of the output.
#[target_feature(enable = "avx2")]
pub(in super::super) fn gather_or_zero<const SIZE: usize>(
    data: &[[u8; SIZE]],
    numbers: &[[u32; GATHERED]],
    zero: &[u8; SIZE],
    output: &mut [[[MaybeUninit<u8>; SIZE]; GATHERED]],
) {
    assert_eq!(output.len(), numbers.len());
    for (output, numbers) in output.iter_mut().zip(numbers) {
        gather_eight_or_zero(data, numbers, zero, output);
    }
}

/// The same for eight, in the loop that calls it: a million elements took 1.05 times as long where it was a call for
/// each 64.
///
/// # Panics
///
/// If `SIZE` is not 4, or `data` has more than `i32::MAX` elements.
#[inline]
#[target_feature(enable = "avx2")]
pub(in super::super) fn gather_eight_or_zero<const SIZE: usize>(
    data: &[[u8; SIZE]],
    numbers: &[u32; GATHERED],
    zero: &[u8; SIZE],
    output: &mut [[MaybeUninit<u8>; SIZE]; GATHERED],
) {
    // The instruction takes numbers as signed ones.
    assert!(SIZE == 4 && data.len() <= i32::MAX as usize);
    let size = _mm256_set1_epi32(data.len() as i32);
    let zeros = _mm256_set1_epi32(i32::from_ne_bytes(std::array::from_fn(|i| zero[i])));
    // SAFETY: `numbers` has eight numbers of 4 bytes, and `output` eight elements of 4 bytes. An element of `data` is
    // read only if its number, unsigned, is below the size.
    unsafe {
        let numbers = _mm256_loadu_si256(numbers.as_ptr().cast());
        let beyond = _mm256_cmpeq_epi32(_mm256_max_epu32(numbers, size), numbers);
        let valid = _mm256_xor_si256(beyond, _mm256_set1_epi32(-1));
        let elements =
            _mm256_mask_i32gather_epi32::<4>(zeros, data.as_ptr().cast(), numbers, valid);
        _mm256_storeu_si256(output.as_mut_ptr().cast(), elements);
    }
}

/// Asks the processor to fetch `data` while it copies other blocks.
///
/// It comes into the second-level cache. The first one waits for too few lines at once: asked for into that one, blocks of 3 KiB took 1.3
/// times as long (AMD EPYC, family 25 model 17).
#[inline]
pub(in super::super) fn prefetch<T>(data: &[T]) {
    /// The bytes of a cache line.
    const LINE: usize = 64;
    for line in data.chunks(LINE / size_of::<T>()) {
        // SAFETY: a prefetch is a hint: it has no effect that a program could see, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
}

/// Whether blocks of this size can be [streamed](stream) to this memory.
pub(in super::super) fn can_stream(bytes: &[MaybeUninit<u8>], block: usize) -> bool {
    block.is_multiple_of(16) && bytes.as_ptr().addr().is_multiple_of(16)
}

/// Copies a block past the caches. Call [`end_of_stream`] before anybody reads it.
///
/// # Panics
///
/// If the lengths differ, or the block [cannot be streamed](can_stream).
#[inline]
pub(in super::super) fn stream(from: &[MaybeUninit<u8>], to: &mut [MaybeUninit<u8>]) {
    assert!(from.len() == to.len() && can_stream(to, to.len()));
    for (from, to) in from.as_chunks::<16>().0.iter().zip(to.as_chunks_mut::<16>().0) {
        // SAFETY: both are 16 bytes, and `to` is aligned to 16. Every x86_64 processor has these instructions.
        unsafe { _mm_stream_si128(to.as_mut_ptr().cast(), _mm_loadu_si128(from.as_ptr().cast())) };
    }
}

/// Makes all streamed writes visible before later ones.
pub(in super::super) fn end_of_stream() {
    // SAFETY: every x86_64 processor has this instruction.
    unsafe { _mm_sfence() };
}
