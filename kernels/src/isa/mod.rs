//! Instructions of the processor: a value of a type in here is the proof that the processor has them, so that what takes one
//! can use them without a check.
//!
//! * [`Instructions`] is what was found, once; it is also the place where tests select others;
//! * [`Isa`] is a type of proof: [`Avx2`], [`Avx512`], [`Neon`], [`Portable`], … Its [`enter`](Isa::enter) runs what is compiled for them;
//! * [`Lanes`] has what all of them do with vectors of so many numbers; `portable.rs` says what that is, in arrays, and `x86.rs`,
//!   `neon.rs` and `wasm.rs` do it with intrinsics.
//! * [`Vectors`] dispatches to pulp instead, where single precision and pulp's operations do; but for minima and maxima,
//!   which `extremes.rs` has.

#[cfg(target_arch = "x86_64")]
mod amx;
mod extremes;
mod macros;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

use pulp::{Simd, WithSimd};

#[cfg(target_arch = "x86_64")]
pub(crate) use amx::{BLOCK_ROWS, TILE_ROWS, TILE_STEPS, TileFactors, TileRows, TileShape, Tiles};
pub(crate) use extremes::{max_or_second, min_or_second};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use macros::intrinsics;
pub(crate) use macros::methods;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::{Neon, NeonDot, NeonPairs};
pub(crate) use portable::{Portable, ROUNDER, limited, nearest, rounded};
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) use wasm::{Simd128, both, widened};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{
    Amx, Avx2, Avx256, Avx512, Avx512Bf16, Avx512Vnni, AvxVnni, packed_bytes_512, store_bytes_512,
    transpose_halves, transpose_quarters,
};

/// The instructions of the machine. Each is better than those before it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Instructions {
    Portable(Portable),
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// 256 bits, with VNNI.
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni),
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512<false>),
    /// 512 bits, with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni),
    /// 512 bits, with VNNI, and products of bf16.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16(Avx512Bf16),
    /// 512 bits, with VNNI and bf16, and tiles for products.
    #[cfg(target_arch = "x86_64")]
    Amx(Amx),
    /// Pairs of 128 bits.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    /// Pairs of 128 bits, with dot products of bytes.
    #[cfg(target_arch = "aarch64")]
    NeonDot(NeonDot),
    /// Pairs of 128 bits.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128(Simd128),
}

/// Runs an expression with the proof that there is. That of tiles, and of bf16, is the one of their vectors.
macro_rules! with_isa {
    ($instructions:expr, $isa:ident => $run:expr) => {
        match $instructions {
            $crate::isa::Instructions::Portable($isa) => $run,
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Instructions::Avx2($isa) => $run,
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Instructions::AvxVnni($isa) => $run,
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Instructions::Avx512($isa) => $run,
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Instructions::Avx512Vnni($isa) => $run,
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Instructions::Avx512Bf16(isa) => {
                let $isa = isa.avx512_vnni();
                $run
            }
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Instructions::Amx(isa) => {
                let $isa = isa.avx512_vnni();
                $run
            }
            #[cfg(target_arch = "aarch64")]
            $crate::isa::Instructions::Neon($isa) => $run,
            #[cfg(target_arch = "aarch64")]
            $crate::isa::Instructions::NeonDot($isa) => $run,
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            $crate::isa::Instructions::Simd128($isa) => $run,
        }
    };
}

pub(crate) use with_isa;

/// The proof that the processor multiplies numbers in bf16.
#[cfg(target_arch = "x86_64")]
pub(crate) type Bf16Isa = Avx512Bf16;

/// The proof that the processor multiplies numbers in bf16: there is none, so that there is no code for it.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bf16Isa {}

impl PartialEq for Instructions {
    fn eq(&self, other: &Instructions) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for Instructions {}

impl Instructions {
    /// All that this machine has, the best ones last.
    pub fn all() -> Vec<Instructions> {
        #[cfg(target_arch = "x86_64")]
        let more = x86::detected();
        #[cfg(target_arch = "aarch64")]
        let more = neon::detected();
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        let more = wasm::detected();
        #[cfg(not(any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            all(target_arch = "wasm32", target_feature = "simd128")
        )))]
        let more = [];
        [Instructions::Portable(Portable)].into_iter().chain(more).collect()
    }

    /// The best that this machine has, but in tests that ask for others.
    pub fn detect() -> Instructions {
        #[cfg(test)]
        if let Some(selected) = tests::SELECTED.get() {
            return selected;
        }
        static BEST: OnceLock<Instructions> = OnceLock::new();
        *BEST.get_or_init(|| Instructions::all().pop().unwrap_or(Instructions::Portable(Portable)))
    }

    /// The vectors of 256 bits, if there are some.
    #[cfg(target_arch = "x86_64")]
    pub fn avx2(self) -> Option<Avx2> {
        match self {
            Instructions::Avx2(isa) => Some(isa),
            Instructions::AvxVnni(isa) => Some(isa.plain()),
            Instructions::Avx512(isa) => Some(isa.avx2()),
            _ => self.avx512_vnni().map(|isa| isa.avx2()),
        }
    }

    /// The vectors of 512 bits with VNNI, if there are some.
    #[cfg(target_arch = "x86_64")]
    pub fn avx512_vnni(self) -> Option<Avx512Vnni> {
        match self {
            Instructions::Avx512Vnni(isa) => Some(isa),
            _ => self.bf16().map(|isa| isa.avx512_vnni()),
        }
    }

    /// What multiplies numbers in bf16, if there is something.
    pub fn bf16(self) -> Option<Bf16Isa> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512Bf16(isa) => Some(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Amx(isa) => Some(isa.avx512_bf16()),
            _ => None,
        }
    }

    /// What multiplies numbers in bf16, if that takes less time than in single precision. Tests have it wherever there is something.
    pub fn fast_bf16(self) -> Option<Bf16Isa> {
        #[cfg(target_arch = "x86_64")]
        let is_fast = || {
            // A virtual machine takes long to answer.
            static IS_FAST: OnceLock<bool> = OnceLock::new();
            *IS_FAST.get_or_init(x86::has_fast_bf16)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let is_fast = || false;
        self.bf16().filter(|_| cfg!(test) || self.has_amx() || is_fast())
    }

    /// What a sum of products of codes and these weights begins with: an offset, and what the instructions take off the codes.
    pub fn first_sum(self, offset: i32, weights: impl Iterator<Item = i8>) -> i32 {
        // What is taken off codes of data before they are multiplied, where bytes are multiplied as signed ones.
        let taken_off = match self {
            #[cfg(target_arch = "aarch64")]
            Instructions::NeonDot(_) => 128,
            _ => 0,
        };
        offset.wrapping_add(taken_off * weights.map(i32::from).sum::<i32>())
    }

    /// The tiles (AMX), if there are some.
    #[cfg(target_arch = "x86_64")]
    pub fn amx(self) -> Option<Amx> {
        match self {
            Instructions::Amx(isa) => Some(isa),
            _ => None,
        }
    }

    /// Whether there are tiles (AMX). Products of them are fast where rows have equal distances.
    pub fn has_amx(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        let has_amx = self.amx().is_some();
        #[cfg(not(target_arch = "x86_64"))]
        let has_amx = false;
        has_amx
    }

    /// How many numbers of 32 bits a vector has.
    pub fn lanes(self) -> usize {
        fn count<L: Lanes<N>, const N: usize>(_: L) -> usize {
            N
        }
        with_isa!(self, isa => count(isa))
    }

    /// Whether [`Lanes::repeat`] and [`Lanes::permute`] are an instruction each.
    pub fn has_repeats(self) -> bool {
        fn repeats<L: Lanes<N>, const N: usize>(_: L) -> bool {
            L::REPEATS
        }
        with_isa!(self, isa => repeats(isa))
    }

    /// Runs what needs no more than [`Lanes`].
    pub fn run<B: OnLanes>(self, body: B) {
        with_isa!(self, isa => isa.plain().enter(OnAny(body)))
    }

    /// The same with vectors that are rounded to bf16 by an instruction, if there is one.
    pub fn run_rounding<B: OnLanes>(self, body: B) {
        #[cfg(target_arch = "x86_64")]
        if let Some(isa) = self.bf16() {
            return isa.enter(OnAny(body));
        }
        self.run(body)
    }
}

/// The vectors of single precision of the machine, found once.
#[derive(Debug, Clone, Copy)]
pub struct Vectors(Instructions);

impl Vectors {
    /// The widest that this machine has.
    pub fn detect() -> Vectors {
        Vectors(Instructions::detect())
    }

    /// Runs what is compiled for each kind of vectors.
    pub fn run<L: WithSimd>(self, body: L) -> L::Output {
        // Not by pulp's own choice: it would put instructions into a module of WebAssembly that an engine may not have.
        with_isa!(self.0, isa => Simd::vectorize(isa.pulp(), body))
    }
}

/// A proof that the processor has some instructions.
pub(crate) trait Isa: Copy {
    /// Runs what is compiled for them. The body must be `#[inline(always)]`, and so must all that it calls with vectors. What is not, as
    /// closures, is compiled for any processor.
    fn enter<B: On<Self>>(self, body: B);
}

/// What runs with some instructions.
pub(crate) trait On<I> {
    fn run(self, isa: I);
}

/// What runs on vectors of any size.
pub(crate) trait OnLanes {
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L);
}

/// What runs on vectors of any size, on those of one.
struct OnAny<B, const N: usize>(B);

impl<L: Lanes<N>, B: OnLanes, const N: usize> On<L> for OnAny<B, N> {
    #[inline(always)]
    fn run(self, lanes: L) {
        self.0.run(lanes)
    }
}

/// Vectors of `N` numbers of 32 bits.
pub(crate) trait Lanes<const N: usize>: Isa {
    type Floats: Copy;
    /// As many words of four bytes, the lowest one first.
    type Words: Copy;
    /// Whether [`Lanes::put_bytes`] limits numbers to those of bytes. Elsewhere they must be between these already.
    const LIMITS_BYTES: bool;
    /// Whether [`Lanes::repeat`] and [`Lanes::permute`] are an instruction each.
    const REPEATS: bool = false;
    /// Whether [`Lanes::to_bf16`] is an instruction. So there is code for tensors in bf16 where it is worth it.
    const ROUNDS_TO_BF16: bool = false;
    fn splat(self, number: f32) -> Self::Floats;
    fn load(self, numbers: &[f32; N]) -> Self::Floats;
    /// The numbers again and again. `K` divides `N`.
    #[inline(always)]
    fn repeat<const K: usize>(self, numbers: &[f32; K]) -> Self::Floats {
        const { assert!(N.is_multiple_of(K)) };
        let mut all = [0.; N];
        for (lane, number) in all.iter_mut().enumerate() {
            *number = numbers[lane % K];
        }
        self.load(&all)
    }
    fn store(self, place: &mut [f32; N], numbers: Self::Floats);
    /// The first numbers of a slice, and zeros where there are no more.
    #[inline(always)]
    fn load_part(self, part: &[f32]) -> Self::Floats {
        self.load(&padded(part))
    }
    /// Writes the first numbers, or all: as many as there is room for.
    #[inline(always)]
    fn store_part(self, part: &mut [f32], numbers: Self::Floats) {
        match part.first_chunk_mut() {
            Some(place) => self.store(place, numbers),
            None => {
                let mut all = [0.; N];
                self.store(&mut all, numbers);
                part.copy_from_slice(&all[..part.len()]);
            }
        }
    }
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once where the machine can.
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    fn sum(self, numbers: Self::Floats) -> f32;
    /// Numbers between two others. NaN becomes the least.
    fn clamp(self, x: Self::Floats, least: Self::Floats, most: Self::Floats) -> Self::Floats;
    /// The nearest integers to numbers of less than 2^22. Halves are rounded to even ones.
    fn nearest(self, numbers: Self::Floats) -> Self::Floats;
    /// Writes the nearest integers as bytes, halves rounded to even ones, of as many of the numbers as there are places.
    fn put_bytes<const V: usize>(self, vectors: [Self::Floats; V], places: &mut [u8]);
    fn load_words(self, words: &[[u8; 4]; N]) -> Self::Words;
    fn store_words(self, place: &mut [[u8; 4]; N], words: Self::Words);
    fn load_i32(self, numbers: &[i32; N]) -> Self::Words;
    /// Lane by lane, what the vectors have there.
    fn transpose(self, vectors: [Self::Words; N]) -> [Self::Words; N];
    fn of_i8(self, codes: &[u8; N]) -> Self::Floats;
    fn of_u8(self, codes: &[u8; N]) -> Self::Floats;
    /// The codes of four bits of the lower halves of bytes, and those of the higher ones.
    #[inline(always)]
    fn of_nibbles<const SIGNED: bool>(self, bytes: &[u8; N]) -> [Self::Floats; 2] {
        let [even, odd] = [bytes.map(|byte| byte & 15), bytes.map(|byte| byte >> 4)];
        if SIGNED {
            let [even, odd] = [even, odd].map(|codes| codes.map(|code| (code ^ 8).wrapping_sub(8)));
            [self.of_i8(&even), self.of_i8(&odd)]
        } else {
            [self.of_u8(&even), self.of_u8(&odd)]
        }
    }
    fn of_f16(self, bytes: &[[u8; 2]; N]) -> Self::Floats;
    fn of_bf16(self, bytes: &[[u8; 2]; N]) -> Self::Floats;
    /// The numbers in bf16, as [`Bf16Pairs`] rounds them.
    #[inline(always)]
    fn to_bf16(self, numbers: Self::Floats) -> [[u8; 2]; N] {
        let mut all = [0.; N];
        self.store(&mut all, numbers);
        all.map(|number| portable::to_bf16(number).to_le_bytes())
    }
    /// The numbers of two vectors in bf16, one vector after the other.
    #[inline(always)]
    fn bf16_of_both(self, first: Self::Floats, second: Self::Floats) -> [[[u8; 2]; N]; 2] {
        [self.to_bf16(first), self.to_bf16(second)]
    }
    /// The numbers in bf16, two in a word, the first one in its lower half.
    #[inline(always)]
    fn bf16_pairs(self, first: Self::Floats, second: Self::Floats) -> [[u8; 4]; N] {
        let (firsts, seconds) = (self.to_bf16(first), self.to_bf16(second));
        let mut pairs = [[0; 4]; N];
        for (pair, ([a, b], [c, d])) in pairs.iter_mut().zip(firsts.into_iter().zip(seconds)) {
            *pair = [a, b, c, d];
        }
        pairs
    }
    /// The words as signed integers.
    fn i32_of_words(self, words: Self::Words) -> Self::Floats;
    fn f32_of_words(self, words: Self::Words) -> Self::Floats;
    /// The floats of 16 bits of words: all first ones, and all second ones.
    fn f16_of_words(self, words: Self::Words) -> [Self::Floats; 2];
    fn bf16_of_words(self, words: Self::Words) -> [Self::Floats; 2];
    /// The bytes of words: all first ones, all second ones, and so on.
    fn bytes_of_words<const SIGNED: bool>(self, words: Self::Words) -> [Self::Floats; 4];
    /// The codes of four bits of words: all first ones, all second ones, and so on.
    fn nibbles_of_words<const SIGNED: bool>(self, words: Self::Words) -> [Self::Floats; 8];
    /// For each lane, one of the numbers.
    #[inline(always)]
    fn permute(self, numbers: Self::Floats, places: &[u32; N]) -> Self::Floats {
        let (mut all, mut permuted) = ([0.; N], [0.; N]);
        self.store(&mut all, numbers);
        for (number, place) in permuted.iter_mut().zip(places) {
            *number = all[*place as usize % N];
        }
        self.load(&permuted)
    }
}

/// Numbers that are rounded to bf16, which has the upper half of the bits of single precision: to the nearest one, halves to even ones.
/// Numbers below the normal ones become zeros. Of two in a word, the first one is in the lower half.
pub(crate) trait Bf16Pairs: Isa {
    /// Those that follow each other.
    fn bf16_of_neighbours(self, numbers: &[[f32; 16]; 2]) -> [u32; 16];
    /// Those in the same places.
    fn bf16_of_lines(self, first: &[f32; 16], second: &[f32; 16]) -> [u32; 16];
}

/// The first words of some bytes, with zeros where there are no more.
#[inline(always)]
pub(crate) fn first_words<L: Lanes<N>, const N: usize>(lanes: L, bytes: &[u8]) -> L::Words {
    match bytes.as_chunks().0.first_chunk() {
        Some(words) => lanes.load_words(words),
        None => {
            let mut words = [[0; 4]; N];
            words.as_flattened_mut()[..bytes.len()].copy_from_slice(bytes);
            lanes.load_words(&words)
        }
    }
}

/// Writes as many of the numbers of vectors as there are places.
#[inline(always)]
pub(crate) fn put_floats<L: Lanes<N>, const N: usize, const V: usize>(
    lanes: L,
    vectors: [L::Floats; V],
    places: &mut [f32],
) {
    let mut elements = [[0.; N]; V];
    for vector in 0..V {
        lanes.store(&mut elements[vector], vectors[vector]);
    }
    put_first(&elements, places);
}

/// Copies as many elements of arrays as there are places.
#[inline(always)]
pub(crate) fn put_first<T: Copy, const N: usize, const V: usize>(
    arrays: &[[T; N]; V],
    places: &mut [T],
) {
    match places.as_chunks_mut::<N>().0.as_chunks_mut::<V>().0 {
        [whole] => *whole = *arrays,
        _ => places.copy_from_slice(&arrays.as_flattened()[..places.len()]),
    }
}

/// So many elements: these, and zeros where there are no more.
#[inline(always)]
pub(crate) fn padded<T: Copy + Default, const COUNT: usize>(elements: &[T]) -> [T; COUNT] {
    match elements.first_chunk() {
        Some(all) => *all,
        None => {
            let mut padded = [T::default(); COUNT];
            padded[..elements.len()].copy_from_slice(elements);
            padded
        }
    }
}
