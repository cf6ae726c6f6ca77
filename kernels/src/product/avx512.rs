//! The sums of a tile on AVX-512, whole and with nothing around them.
//!
//! Within the function of a product the compiler moves the sums between registers at each step, or keeps one of them in memory,
//! whatever changes around the loop. Here it does not, and asking for the next panel pays: few rows wait less for panels that come
//! from memory. It takes operand A packed, or as rows of a matrix.

#![allow(unsafe_code)]

use std::any::TypeId;
use std::arch::x86_64::*;
use std::hint::black_box;

use pulp::Simd;
use pulp::x86::V4;

use crate::memory::{LINE, prefetch};

/// The numbers of a vector.
pub(super) const LANES: usize = 16;

/// The vectors of a row of a whole tile.
pub(super) const VECTORS: usize = 3;

/// With fewer steps, writing the sums to memory and reading them again costs more than the loop gains.
pub(super) const LEAST_STEPS: usize = 96;

/// The rows of operand `A` that a tile meets, from a step on.
#[derive(Clone, Copy)]
pub(super) struct RowsOfA<'a> {
    pub elements: &'a [f32],
    /// How far rows are apart.
    pub row_stride: usize,
    /// How far steps are apart.
    pub step_stride: usize,
}

/// What is prefetched meanwhile.
#[derive(Clone, Copy)]
pub(super) enum PanelPrefetch<'a> {
    Nothing,
    /// What follows operand B, which many rows will meet next, or soon: the first panels of rows, which have these numbers, ask
    /// for a part each.
    Part(usize),
    /// As much as operand B has, at once: few rows wait for the memory.
    All(&'a [f32]),
}

/// The products of `N` rows and `V` vectors of columns, of which `right` has so many numbers for each step.
#[inline(always)]
pub(super) fn sums<S: Simd, const N: usize, const V: usize>(
    _: S,
    left: RowsOfA,
    right: &[f32],
    ask: PanelPrefetch,
) -> [[S::f32s; V]; N] {
    assert!(TypeId::of::<S>() == TypeId::of::<V4>(), "these are no vectors of AVX-512");
    let right = right.as_chunks::<LANES>().0.as_chunks::<V>().0;
    let last = (N - 1) * left.row_stride + right.len().saturating_sub(1) * left.step_stride;
    assert!(last < left.elements.len());
    // Each step asks for a line.
    let lines = size_of_val(right) / LINE;
    let (begin, distance) = match ask {
        PanelPrefetch::Part(number) if number * right.len() < lines => {
            (number * right.len() * LINE, LINE)
        }
        _ => (0, 0),
    };
    // SAFETY: the machine has AVX-512, as there is a value of the type. The last element of the rows is there, so all are. Both types
    // of sums are so many vectors of the same numbers.
    unsafe {
        let sums = match ask {
            PanelPrefetch::All(next) => {
                let sums_of_tile = black_box(sums_of_tile::<N, V, true> as SumsOfTile<N, V>);
                sums_of_tile(left, right, next.as_ptr().cast(), V * LINE)
            }
            PanelPrefetch::Part(_) | PanelPrefetch::Nothing => {
                let next = right.as_ptr_range().end.cast::<u8>().wrapping_add(begin);
                let sums_of_tile = black_box(sums_of_tile::<N, V, false> as SumsOfTile<N, V>);
                sums_of_tile(left, right, next, distance)
            }
        };
        std::mem::transmute_copy(&sums)
    }
}

/// [`sums_of_tile`], called so that it stays a function of its own: with one codegen unit the compiler puts it into the function of
/// the product, whatever its attribute says, and products take much longer.
type SumsOfTile<const N: usize, const V: usize> =
    unsafe fn(RowsOfA, &[[[f32; LANES]; V]], *const u8, usize) -> [[__m512; V]; N];

/// With `ALL`, each step asks for what the same step of the next operand B needs, and for the same again half an operand before that, as
/// [`StreamPrefetch`](crate::memory::StreamPrefetch) does: asking once is slower. Otherwise it asks for a line. What a step asks for is
/// `distance` behind what the one before does.
///
/// # Safety
///
/// Operand A has `N` rows of as many steps as operand B.
#[inline(never)]
#[target_feature(enable = "avx512f")]
unsafe fn sums_of_tile<const N: usize, const V: usize, const ALL: bool>(
    left: RowsOfA,
    right: &[[[f32; LANES]; V]],
    mut next: *const u8,
    distance: usize,
) -> [[__m512; V]; N] {
    let mut sums = [[_mm512_setzero_ps(); V]; N];
    // An address is one of these and up to two distances: there is a register for each.
    let mut rows = [0, 3, 6].map(|row| left.elements.as_ptr().wrapping_add(row * left.row_stride));
    // What is nearer: the rest of this operand, and then what begins the next one.
    let half = right.len() / 2;
    let [begin_of_next, mut nearer] = [next, right[half..].as_ptr().cast()];
    for (step, right) in right.iter().enumerate() {
        for line in 0..if ALL { V } else { 1 } {
            prefetch(next.wrapping_add(line * LINE));
        }
        if ALL {
            if step == half {
                nearer = begin_of_next;
            }
            for line in 0..V {
                prefetch(nearer.wrapping_add(line * LINE));
            }
            nearer = nearer.wrapping_add(distance);
        }
        next = next.wrapping_add(distance);
        let mut vectors = [_mm512_setzero_ps(); V];
        for vector in 0..V {
            // SAFETY: the numbers are a vector.
            vectors[vector] = unsafe { _mm512_loadu_ps(right[vector].as_ptr()) };
        }
        for row in 0..N {
            // SAFETY: the caller says that the element is there.
            let factor = unsafe { *rows[row / 3].wrapping_add(row % 3 * left.row_stride) };
            let factor = _mm512_set1_ps(factor);
            for vector in 0..V {
                sums[row][vector] = _mm512_fmadd_ps(vectors[vector], factor, sums[row][vector]);
            }
        }
        for row in &mut rows {
            *row = row.wrapping_add(left.step_stride);
        }
    }
    sums
}
