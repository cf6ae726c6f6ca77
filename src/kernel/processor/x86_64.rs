//! AVX2 and AVX-512, prefetching, and stores past the caches.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::Loop;
use crate::index::Position;

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

/// Copies the first blocks if there are vectors for that, and returns how many. Without, blocks of 4 bytes took 1.6
/// times as long when half of the indices were out of range, and 1.15 when none was (AMD Zen 4).
pub(in super::super) fn copy_or_zero_vectorized<N: Position, const SIZE: usize>(
    data: &[[u8; SIZE]],
    numbers: &[N],
    zero: &[u8; SIZE],
    output: &mut [[MaybeUninit<u8>; SIZE]],
) -> usize {
    #[target_feature(enable = "avx2")]
    fn copy<N, const SIZE: usize>(
        data: &[[u8; SIZE]],
        numbers: &[[N; 8]],
        zero: &[u8; 4],
        output: &mut [[[MaybeUninit<u8>; SIZE]; 8]],
    ) {
        assert!(SIZE == 4 && size_of::<N>() == 4 && !data.is_empty());
        let zeros = _mm256_set1_epi32(i32::from_ne_bytes(*zero));
        let last = _mm256_set1_epi32(i32::try_from(data.len() - 1).expect("N numbers them"));
        for (output, numbers) in output.iter_mut().zip(numbers) {
            // SAFETY: `numbers` has eight numbers of 4 bytes, `output` eight elements of 4 bytes. An element of
            // `data` is read only if its number, unsigned, is at most the last one's.
            unsafe {
                let numbers = _mm256_loadu_si256(numbers.as_ptr().cast());
                let valid = _mm256_cmpeq_epi32(_mm256_min_epu32(numbers, last), numbers);
                let data = data.as_ptr().cast();
                let elements = _mm256_mask_i32gather_epi32::<4>(zeros, data, numbers, valid);
                _mm256_storeu_si256(output.as_mut_ptr().cast(), elements);
            }
        }
    }
    let has_vectors = Vectors::selected() >= Vectors::Avx2;
    let fits = SIZE == 4 && size_of::<N>() == 4 && !data.is_empty();
    let (true, Some(zero)) = (has_vectors && fits, zero.first_chunk()) else { return 0 };
    let (numbers, _) = numbers.as_chunks();
    // SAFETY: the machine has these instructions.
    unsafe { copy(data, numbers, zero, output.as_chunks_mut().0) };
    numbers.len() * 8
}

/// Asks the processor to fetch `data` while it copies other blocks.
#[inline]
pub(in super::super) fn prefetch<T>(data: &[T]) {
    /// The bytes of a cache line.
    const LINE: usize = 64;
    for line in data.chunks(LINE / size_of::<T>()) {
        // SAFETY: a prefetch is a hint: it has no effect that a program could see, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
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
