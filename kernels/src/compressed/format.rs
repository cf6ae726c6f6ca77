//! The formats of codes.

use tract_core::prelude::f16;

use crate::isa::Lanes;

/// How the codes of a [`DequantizedConst`](crate::DequantizedConst) are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Half precision, the lower byte first.
    F16,
    /// The higher half of single precision, the lower byte first.
    BF16,
    /// Signed bytes.
    I8,
    /// Unsigned bytes.
    U8,
    /// Signed, two in a byte, the first one in its lower half.
    I4,
    /// Unsigned, two in a byte, the first one in its lower half.
    U4,
}

impl Format {
    /// The bits of a code.
    pub fn bits(self) -> usize {
        match self {
            Format::F16 | Format::BF16 => 16,
            Format::I8 | Format::U8 => 8,
            Format::I4 | Format::U4 => 4,
        }
    }

    /// Whether codes are signed integers.
    #[cfg(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128")))]
    pub(super) fn is_signed(self) -> bool {
        [Format::I8, Format::I4].contains(&self)
    }

    /// How much greater integers are as unsigned codes, with their highest bit the other way round.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn above(self) -> u8 {
        if self.is_signed() { 1 << (self.bits() - 1) } else { 0 }
    }

    /// The first codes of these bytes.
    pub(super) fn numbers(self, bytes: &[u8], count: usize) -> Vec<f32> {
        let pairs = bytes.as_chunks::<2>().0.iter().copied();
        let halves = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
        let numbers: Box<dyn Iterator<Item = f32>> = match self {
            Format::F16 => Box::new(pairs.map(|pair| f16::from_le_bytes(pair).to_f32())),
            Format::BF16 => Box::new(pairs.map(|[a, b]| f32::from_le_bytes([0, 0, a, b]))),
            Format::I8 => Box::new(bytes.iter().map(|byte| f32::from(byte.cast_signed()))),
            Format::U8 => Box::new(bytes.iter().map(|byte| f32::from(*byte))),
            Format::I4 => Box::new(halves.map(|half| f32::from(half ^ 8) - 8.)),
            Format::U4 => Box::new(halves.map(f32::from)),
        };
        numbers.take(count).collect()
    }
}

/// Runs an expression with the type of a format.
macro_rules! with_format {
    ($format:expr, $name:ident => $run:expr) => {
        with_format!($format, $name => $run; F16 BF16 I8 U8 I4 U4)
    };
    ($format:expr, $name:ident => $run:expr; $($of:ident)*) => {
        match $format {
            $($crate::compressed::format::Format::$of => {
                type $name = $crate::compressed::format::$of;
                $run
            })*
        }
    };
}

pub(super) use with_format;

/// The most codes that a word of four bytes has.
pub(super) const MOST_CODES: usize = 8;

/// Reads codes of a format.
pub(super) trait Decode {
    const BITS: usize;

    /// Two vectors of codes, as many bytes as these have: in their order, but for codes of four bits those of even places and those of odd
    /// ones.
    fn decode<L: Lanes<N>, const N: usize>(lanes: L, bytes: &[u8]) -> [L::Floats; 2];

    /// The codes of words: all first ones, all second ones, and so on; and zeros in place of those that words do not have.
    fn of_words<L: Lanes<N>, const N: usize>(lanes: L, words: L::Words) -> [L::Floats; MOST_CODES];
}

/// The parts of bytes that have as many: there is nothing to check in a loop.
#[inline(always)]
pub(super) fn all<T, const COUNT: usize>(parts: &[T]) -> &[T; COUNT] {
    match parts.first_chunk() {
        Some(all) => all,
        None => unreachable!("there are as many"),
    }
}

macro_rules! formats {
    ($($name:ident: $bits:literal, $of_words:expr, |$lanes:ident, $bytes:ident| $decode:expr;)*) => {$(
        pub(super) struct $name;

        impl Decode for $name {
            const BITS: usize = $bits;

            #[inline(always)]
            fn decode<L: Lanes<N>, const N: usize>($lanes: L, $bytes: &[u8]) -> [L::Floats; 2] {
                $decode
            }

            #[inline(always)]
            fn of_words<L: Lanes<N>, const N: usize>(
                lanes: L,
                words: L::Words,
            ) -> [L::Floats; MOST_CODES] {
                let mut codes = [lanes.splat(0.); MOST_CODES];
                codes[..32 / $bits].copy_from_slice(&$of_words(lanes, words));
                codes
            }
        }
    )*};
}

formats! {
    F16: 16, L::f16_of_words, |lanes, bytes| {
        let [first, second] = all(bytes.as_chunks().0.as_chunks().0);
        [lanes.of_f16(first), lanes.of_f16(second)]
    };
    BF16: 16, L::bf16_of_words, |lanes, bytes| {
        let [first, second] = all(bytes.as_chunks().0.as_chunks().0);
        [lanes.of_bf16(first), lanes.of_bf16(second)]
    };
    I8: 8, L::bytes_of_words::<true>, |lanes, bytes| {
        let [first, second] = all(bytes.as_chunks().0);
        [lanes.of_i8(first), lanes.of_i8(second)]
    };
    U8: 8, L::bytes_of_words::<false>, |lanes, bytes| {
        let [first, second] = all(bytes.as_chunks().0);
        [lanes.of_u8(first), lanes.of_u8(second)]
    };
    I4: 4, L::nibbles_of_words::<true>, |lanes, bytes| {
        lanes.of_nibbles::<true>(all(bytes))
    };
    U4: 4, L::nibbles_of_words::<false>, |lanes, bytes| {
        lanes.of_nibbles::<false>(all(bytes))
    };
}
