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
use pulp::bytemuck::{Pod, cast};
use pulp::x86::V4;

use super::element::Bf16Pair;
use crate::isa::{Amx, Avx512Bf16, Instructions};
use crate::memory::{LINE, prefetch};

/// The numbers of a vector.
pub(super) const LANES: usize = 16;

/// The vectors of a row of a whole tile.
pub(super) const VECTORS: usize = 3;

/// With fewer steps, writing the sums to memory and reading them again costs more than the loop gains.
pub(super) const LEAST_STEPS: usize = 96;

/// What an element of operands meets with AVX-512.
pub(crate) trait Factor512: Pod {
    /// The proof that there are instructions for it, besides the vectors themselves.
    type Proof: Copy;
    /// Whether nothing else multiplies such elements as fast, however few steps there are.
    const ALWAYS: bool;

    /// The proof, if there is one.
    fn proof() -> Option<Self::Proof>;

    /// What multiplies them on tiles, if there is something.
    fn tiles() -> Option<Amx>;

    /// The function that computes tiles.
    fn sums_of_tile<const N: usize, const V: usize, const ALL: bool>(
        proof: Self::Proof,
    ) -> SumsOfTile<Self, N, V>;

    /// Products with a factor, which are added to sums.
    ///
    /// # Safety
    ///
    /// There are the instructions.
    unsafe fn multiply_add_512(vector: __m512, factor: __m512, sums: __m512) -> __m512;
}

impl Factor512 for f32 {
    type Proof = ();
    const ALWAYS: bool = false;

    fn proof() -> Option<()> {
        Some(())
    }

    fn tiles() -> Option<Amx> {
        None
    }

    fn sums_of_tile<const N: usize, const V: usize, const ALL: bool>(
        (): (),
    ) -> SumsOfTile<f32, N, V> {
        #[inline(never)]
        #[target_feature(enable = "avx512f")]
        unsafe fn sums<const N: usize, const V: usize, const ALL: bool>(
            left: RowsOfA<f32>,
            right: &[[[f32; LANES]; V]],
            next: *const u8,
            distance: usize,
        ) -> [[__m512; V]; N] {
            // SAFETY: as the caller says.
            unsafe { sums_of_tile::<f32, N, V, ALL>(left, right, next, distance) }
        }
        sums::<N, V, ALL>
    }

    #[inline(always)]
    unsafe fn multiply_add_512(vector: __m512, factor: __m512, sums: __m512) -> __m512 {
        // SAFETY: as the caller says.
        unsafe { _mm512_fmadd_ps(vector, factor, sums) }
    }
}

impl Factor512 for Bf16Pair {
    type Proof = Avx512Bf16;
    const ALWAYS: bool = true;

    fn proof() -> Option<Avx512Bf16> {
        Instructions::detect().bf16()
    }

    fn tiles() -> Option<Amx> {
        Instructions::detect().amx()
    }

    fn sums_of_tile<const N: usize, const V: usize, const ALL: bool>(
        _: Avx512Bf16,
    ) -> SumsOfTile<Bf16Pair, N, V> {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bf16")]
        unsafe fn sums<const N: usize, const V: usize, const ALL: bool>(
            left: RowsOfA<Bf16Pair>,
            right: &[[[Bf16Pair; LANES]; V]],
            next: *const u8,
            distance: usize,
        ) -> [[__m512; V]; N] {
            // SAFETY: as the caller says.
            unsafe { sums_of_tile::<Bf16Pair, N, V, ALL>(left, right, next, distance) }
        }
        sums::<N, V, ALL>
    }

    #[inline(always)]
    unsafe fn multiply_add_512(vector: __m512, factor: __m512, sums: __m512) -> __m512 {
        // SAFETY: as the caller says, and all bits are pairs.
        unsafe {
            let vector = std::mem::transmute::<__m512, __m512bh>(vector);
            _mm512_dpbf16_ps(sums, vector, std::mem::transmute::<__m512, __m512bh>(factor))
        }
    }
}

/// The rows of operand `A` that a tile meets, from a step on.
#[derive(Clone, Copy)]
pub(crate) struct RowsOfA<'a, T> {
    pub elements: &'a [T],
    /// How far rows are apart.
    pub row_stride: usize,
    /// How far steps are apart.
    pub step_stride: usize,
}

/// What is prefetched meanwhile.
#[derive(Clone, Copy)]
pub(super) enum PanelPrefetch<'a, T> {
    Nothing,
    /// What follows operand B, which many rows will meet next, or soon: each of so many panels of rows, which have numbers, asks for a part.
    Part {
        number: usize,
        count: usize,
    },
    /// As much as operand B has, at once: few rows wait for the memory.
    All(&'a [T]),
}

/// The products of `N` rows and `V` vectors of columns, of which `right` has so many numbers for each step.
#[inline(always)]
pub(super) fn sums<S: Simd, T: Factor512, const N: usize, const V: usize>(
    _: S,
    proof: T::Proof,
    left: RowsOfA<T>,
    right: &[T],
    ask: PanelPrefetch<T>,
) -> [[S::f32s; V]; N] {
    assert!(TypeId::of::<S>() == TypeId::of::<V4>(), "these are no vectors of AVX-512");
    let right = right.as_chunks::<LANES>().0.as_chunks::<V>().0;
    let last = (N - 1) * left.row_stride + right.len().saturating_sub(1) * left.step_stride;
    assert!(last < left.elements.len());
    // Each step asks for a line, or again for the one that the step before it has asked for: so many at once as memory can give would
    // keep others waiting.
    let bytes = size_of_val(right);
    let (begin, distance) = match ask {
        PanelPrefetch::Part { number, count } => {
            let steps = right.len().max(1);
            let distance = bytes.div_ceil(count.max(1) * steps).min(LINE);
            match number * distance * steps {
                begin if begin < bytes => (begin, distance),
                _ => (0, 0),
            }
        }
        _ => (0, 0),
    };
    // SAFETY: the machine has AVX-512, as there is a value of the type, and what the elements need, as there is a proof. The last element
    // of the rows is there, so all are. Both types of sums are so many vectors of the same numbers.
    unsafe {
        let sums = match ask {
            PanelPrefetch::All(next) => {
                let sums_of_tile = black_box(T::sums_of_tile::<N, V, true>(proof));
                sums_of_tile(left, right, next.as_ptr().cast(), V * LINE)
            }
            PanelPrefetch::Part { .. } | PanelPrefetch::Nothing => {
                let next = right.as_ptr_range().end.cast::<u8>().wrapping_add(begin);
                let sums_of_tile = black_box(T::sums_of_tile::<N, V, false>(proof));
                sums_of_tile(left, right, next, distance)
            }
        };
        std::mem::transmute_copy(&sums)
    }
}

/// [`sums_of_tile`], called so that it stays a function of its own: with one codegen unit the compiler puts it into the function of
/// the product, whatever its attribute says, and products take much longer.
pub(crate) type SumsOfTile<T, const N: usize, const V: usize> =
    unsafe fn(RowsOfA<T>, &[[[T; LANES]; V]], *const u8, usize) -> [[__m512; V]; N];

/// With `ALL`, each step asks for what the same step of the next operand B needs, and for the same again half an operand before that, as
/// [`StreamPrefetch`](crate::memory::StreamPrefetch) does: asking once is slower. Otherwise it asks for a line. What a step asks for is
/// `distance` bytes behind what the one before does.
///
/// # Safety
///
/// Operand A has `N` rows of as many steps as operand B, and there are the instructions for both.
#[inline(always)]
unsafe fn sums_of_tile<T: Factor512, const N: usize, const V: usize, const ALL: bool>(
    left: RowsOfA<T>,
    right: &[[[T; LANES]; V]],
    mut next: *const u8,
    distance: usize,
) -> [[__m512; V]; N] {
    // SAFETY: the caller says that there are the instructions.
    let zero = unsafe { _mm512_setzero_ps() };
    let mut sums = [[zero; V]; N];
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
        let mut vectors = [zero; V];
        for vector in 0..V {
            // SAFETY: the elements are a vector.
            vectors[vector] = unsafe { _mm512_loadu_ps(right[vector].as_ptr().cast()) };
        }
        for row in 0..N {
            // SAFETY: the caller says that the element is there.
            let factor = unsafe { *rows[row / 3].wrapping_add(row % 3 * left.row_stride) };
            // SAFETY: there are the instructions.
            let factor = unsafe { _mm512_set1_ps(cast(factor)) };
            for vector in 0..V {
                // SAFETY: there are the instructions.
                sums[row][vector] =
                    unsafe { T::multiply_add_512(vectors[vector], factor, sums[row][vector]) };
            }
        }
        for row in &mut rows {
            *row = row.wrapping_add(left.step_stride);
        }
    }
    sums
}
