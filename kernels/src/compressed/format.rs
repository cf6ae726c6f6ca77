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

/// Reads codes of a format.
pub(super) trait Decode {
    const BITS: usize;

    /// Two vectors of codes.
    fn decode<L: Lanes<N>, const N: usize>(lanes: L, bytes: &[u8]) -> [L::Floats; 2];
}

/// Reads the codes of words: all first ones, all second ones, and so on.
pub(super) trait OfWords<const CODES: usize> {
    fn of_words<L: Lanes<N>, const N: usize>(lanes: L, words: L::Words) -> [L::Floats; CODES];
}

/// Two neighbours of a type. The bytes are as many as they take: there is nothing to check in a loop.
#[inline(always)]
fn pair<T>(parts: &[T]) -> [&T; 2] {
    match parts {
        [first, second] => [first, second],
        _ => unreachable!("there are two vectors of codes"),
    }
}

macro_rules! formats {
    ($($name:ident: $bits:literal, $of:ident, |$bytes:ident| $parts:expr;)*) => {$(
        impl Decode for $name {
            const BITS: usize = $bits;

            #[inline(always)]
            fn decode<L: Lanes<N>, const N: usize>(lanes: L, $bytes: &[u8]) -> [L::Floats; 2] {
                let [first, second] = pair($parts);
                [lanes.$of(first), lanes.$of(second)]
            }
        }
    )*};
}

formats! {
    F16: 16, of_f16, |bytes| bytes.as_chunks::<2>().0.as_chunks::<N>().0;
    BF16: 16, of_bf16, |bytes| bytes.as_chunks::<2>().0.as_chunks::<N>().0;
    I8: 8, of_i8, |bytes| bytes.as_chunks::<N>().0;
    U8: 8, of_u8, |bytes| bytes.as_chunks::<N>().0;
}

macro_rules! formats_of_words {
    ($($name:ident: $codes:literal, |$lanes:ident, $words:ident| $numbers:expr;)*) => {$(
        pub(super) struct $name;

        impl OfWords<$codes> for $name {
            #[inline(always)]
            fn of_words<L: Lanes<N>, const N: usize>(
                $lanes: L,
                $words: L::Words,
            ) -> [L::Floats; $codes] {
                $numbers
            }
        }
    )*};
}

formats_of_words! {
    F16: 2, |lanes, words| lanes.f16_of_words(words);
    BF16: 2, |lanes, words| lanes.bf16_of_words(words);
    I8: 4, |lanes, words| lanes.bytes_of_words::<true>(words);
    U8: 4, |lanes, words| lanes.bytes_of_words::<false>(words);
    I4: 8, |lanes, words| lanes.nibbles_of_words::<true>(words);
    U4: 8, |lanes, words| lanes.nibbles_of_words::<false>(words);
}
