//! The sums of a tile on AVX-512, whole and with nothing around them.
//!
//! Within the function of a product the compiler moves the sums between registers at each step, or keeps one of them in memory,
//! whatever changes around the loop. Here it does not, and asking for the next panel pays: with panels that come from memory, tiles
//! took 0.79 of the time for 48 rows, and 0.9 for 128 (AMD EPYC, family 26 model 2).

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use pulp::Simd;

use crate::memory::LINE;

/// The rows of a tile.
pub(super) const ROWS: usize = 8;

/// The numbers of a vector.
pub(super) const LANES: usize = 16;

/// The vectors of a row of a tile.
const VECTORS: usize = 3;

/// The columns of a tile.
const COLUMNS: usize = VECTORS * LANES;

/// With fewer steps, writing the sums to memory and reading them again costs more than the loop gains.
pub(super) const LEAST_STEPS: usize = 96;

/// The products of so many rows and columns: `left` has a number for each row and step, `right` one for each column.
///
/// `rows` is the number of the panel of rows: the first ones ask for a part each of what follows `right`, which is what they will
/// meet next, or soon.
#[inline(always)]
pub(super) fn sums<S: Simd, const N: usize>(
    _: S,
    left: &[f32],
    right: &[f32],
    rows: usize,
) -> [[S::f32s; VECTORS]; N] {
    assert!(N == ROWS && S::F32_LANES == LANES && S::REGISTER_COUNT >= 32);
    let (left, right) = (left.as_chunks().0, right.as_chunks().0);
    let lines = right.len() * COLUMNS * size_of::<f32>() / LINE;
    // Each step asks for a line.
    let first = rows * right.len();
    let (begin, distance) = if first < lines { (first * LINE, LINE) } else { (0, 0) };
    let next = right.as_ptr_range().end.cast::<u8>().wrapping_add(begin);
    // SAFETY: 32 registers of such vectors are those of AVX-512: the machine has it, as there is a value of the type. Both types of sums
    // are so many vectors of the same numbers.
    unsafe { std::mem::transmute_copy(&sums_of_tile(left, right, next, distance)) }
}

#[inline(never)]
#[target_feature(enable = "avx512f")]
fn sums_of_tile(
    left: &[[f32; ROWS]],
    right: &[[f32; COLUMNS]],
    mut next: *const u8,
    distance: usize,
) -> [[__m512; VECTORS]; ROWS] {
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
    for (left, right) in left.iter().zip(right) {
        // SAFETY: nothing is read, whatever the place is; the vectors are within the columns.
        let right = unsafe {
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            let right = right.as_ptr();
            [
                _mm512_loadu_ps(right),
                _mm512_loadu_ps(right.add(LANES)),
                _mm512_loadu_ps(right.add(2 * LANES)),
            ]
        };
        next = next.wrapping_add(distance);
        for row in 0..ROWS {
            let factor = _mm512_set1_ps(left[row]);
            for vector in 0..VECTORS {
                sums[row][vector] = _mm512_fmadd_ps(right[vector], factor, sums[row][vector]);
            }
        }
    }
    sums
}
