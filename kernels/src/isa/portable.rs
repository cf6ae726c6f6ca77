//! Vectors as arrays, for any processor.

use tract_core::prelude::f16;

use super::macros::methods;
use super::{Bf16Pairs, Isa, Lanes, On, put_first};

/// Arrays, for any processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

impl Portable {
    #[cfg(any(test, not(all(target_arch = "wasm32", target_feature = "simd128"))))]
    pub fn pulp(self) -> pulp::Scalar {
        pulp::Scalar::new()
    }

    /// `wasm.rs` says why.
    #[cfg(not(any(test, not(all(target_arch = "wasm32", target_feature = "simd128")))))]
    pub fn pulp(self) -> super::wasm::OfPulp {
        unreachable!("there are vectors of 128 bits")
    }

    pub fn plain(self) -> Portable {
        self
    }
}

impl Isa for Portable {
    #[cfg(any(test, not(all(target_arch = "wasm32", target_feature = "simd128"))))]
    fn enter<B: On<Portable>>(self, body: B) {
        body.run(self)
    }

    /// `wasm.rs` says why.
    #[cfg(not(any(test, not(all(target_arch = "wasm32", target_feature = "simd128")))))]
    fn enter<B: On<Portable>>(self, _: B) {
        unreachable!("there are vectors of 128 bits")
    }
}

impl Lanes<8> for Portable {
    type Floats = [f32; 8];
    type Words = [u32; 8];

    const LIMITS_BYTES: bool = false;

    methods! {
        splat(number: f32) -> [f32; 8] = [number; 8];
        load(numbers: &[f32; 8]) -> [f32; 8] = *numbers;
        store(place: &mut [f32; 8], numbers: [f32; 8]) -> () = { *place = numbers; };
        add(a: [f32; 8], b: [f32; 8]) -> [f32; 8] = std::array::from_fn(|lane| a[lane] + b[lane]);
        sub(a: [f32; 8], b: [f32; 8]) -> [f32; 8] = std::array::from_fn(|lane| a[lane] - b[lane]);
        mul(a: [f32; 8], b: [f32; 8]) -> [f32; 8] = std::array::from_fn(|lane| a[lane] * b[lane]);
        mul_add(a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] = {
            std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
        };
        sum(numbers: [f32; 8]) -> f32 = numbers.iter().sum();
        clamp(x: [f32; 8], least: [f32; 8], most: [f32; 8]) -> [f32; 8] = {
            std::array::from_fn(|lane| limited(x[lane], least[lane], most[lane]))
        };
        nearest(numbers: [f32; 8]) -> [f32; 8] = numbers.map(nearest);
        put_bytes<const V: usize>(vectors: [[f32; 8]; V], places: &mut [u8]) -> () = {
            put_first(&vectors.map(|numbers| numbers.map(rounded)), places);
        };
        load_words(words: &[[u8; 4]; 8]) -> [u32; 8] = words.map(u32::from_le_bytes);
        store_words(place: &mut [[u8; 4]; 8], words: [u32; 8]) -> () = *place = words.map(u32::to_le_bytes);
        load_i32(numbers: &[i32; 8]) -> [u32; 8] = numbers.map(i32::cast_unsigned);
        transpose(vectors: [[u32; 8]; 8]) -> [[u32; 8]; 8] = {
            std::array::from_fn(|lane| std::array::from_fn(|vector| vectors[vector][lane]))
        };
        of_i8(codes: &[u8; 8]) -> [f32; 8] = codes.map(|code| f32::from(code.cast_signed()));
        of_u8(codes: &[u8; 8]) -> [f32; 8] = codes.map(f32::from);
        of_f16(bytes: &[[u8; 2]; 8]) -> [f32; 8] = {
            bytes.map(|bytes| f16::from_le_bytes(bytes).to_f32())
        };
        of_bf16(bytes: &[[u8; 2]; 8]) -> [f32; 8] = {
            bytes.map(|[low, high]| f32::from_le_bytes([0, 0, low, high]))
        };
        i32_of_words(words: [u32; 8]) -> [f32; 8] = words.map(|word| word.cast_signed() as f32);
        f32_of_words(words: [u32; 8]) -> [f32; 8] = words.map(f32::from_bits);
        f16_of_words(words: [u32; 8]) -> [[f32; 8]; 2] = {
            [0, 16].map(|below| words.map(|word| f16::from_bits((word >> below) as u16).to_f32()))
        };
        bf16_of_words(words: [u32; 8]) -> [[f32; 8]; 2] = {
            [16, 0].map(|above| words.map(|word| f32::from_bits(word << above & 0xffff_0000)))
        };
        bytes_of_words<const SIGNED: bool>(words: [u32; 8]) -> [[f32; 8]; 4] = {
            std::array::from_fn(|code| words.map(|word| of_word::<SIGNED, 8>(word, code)))
        };
        nibbles_of_words<const SIGNED: bool>(words: [u32; 8]) -> [[f32; 8]; 8] = {
            std::array::from_fn(|code| words.map(|word| of_word::<SIGNED, 4>(word, code)))
        };
    }
}

impl Bf16Pairs for Portable {
    methods! {
        bf16_of_neighbours(numbers: &[[f32; 16]; 2]) -> [u32; 16] = {
            let pairs = numbers.as_flattened().as_chunks().0;
            std::array::from_fn(|place| bf16_pair(pairs[place]))
        };
        bf16_of_lines(first: &[f32; 16], second: &[f32; 16]) -> [u32; 16] = {
            std::array::from_fn(|place| bf16_pair([first[place], second[place]]))
        };
    }
}

/// Two numbers in a word.
fn bf16_pair(numbers: [f32; 2]) -> u32 {
    let [first, second] = numbers.map(|number| u32::from(to_bf16(number)));
    first | second << 16
}

/// The nearest number in bf16, halves to even ones.
pub(super) fn to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    let rounded = match number {
        _ if number.is_nan() => bits >> 16 | 0x40,
        _ if number.is_subnormal() => bits >> 16 & 0x8000,
        _ => (bits + 0x7fff + (bits >> 16 & 1)) >> 16,
    };
    rounded as u16
}

/// A code of so many bits of a word.
#[inline(always)]
fn of_word<const SIGNED: bool, const BITS: usize>(word: u32, code: usize) -> f32 {
    // It comes to the highest bits, and back.
    let word = word << (32 - BITS * (code + 1));
    let back = 32 - BITS;
    if SIGNED { (word.cast_signed() >> back) as f32 } else { (word >> back) as f32 }
}

/// A number of this size has no bits after the point: sums with it are rounded.
pub(crate) const ROUNDER: f32 = 12582912.;

/// A number between two others. NaN becomes the least.
#[inline(always)]
pub(crate) fn limited(number: f32, least: f32, most: f32) -> f32 {
    let number = if number > least { number } else { least };
    if number < most { number } else { most }
}

/// The nearest integer to a number of less than 2^22. Halves are rounded to even ones.
#[inline(always)]
pub(crate) fn nearest(number: f32) -> f32 {
    number + ROUNDER - ROUNDER
}

/// The nearest byte to a number from 0 to 255. Halves are rounded to even ones.
#[inline(always)]
pub(crate) fn rounded(number: f32) -> u8 {
    (number + ROUNDER).to_bits() as u8
}
