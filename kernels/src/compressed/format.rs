//! The formats of codes.

use tract_core::prelude::f16;

use super::lanes::Lanes;

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

    /// What is added to the codes of a panel: see [`Nibbles`].
    pub(super) fn offset(self) -> f32 {
        if self == Format::I4 { 8. } else { 0. }
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
            Format::I4 => Box::new(halves.map(|half| f32::from(half ^ 8) - self.offset())),
            Format::U4 => Box::new(halves.map(f32::from)),
        };
        numbers.take(count).collect()
    }
}

/// Reads codes of a format.
pub(super) trait Decode {
    const BITS: usize;
    /// Whether two vectors have neighbours in turn: those at even places come first.
    const INTERLEAVES: bool = false;

    /// Two vectors of codes.
    fn decode<L: Lanes<N>, const N: usize>(lanes: L, bytes: &[u8]) -> [L::Numbers; 2];
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
        pub(super) struct $name;

        impl Decode for $name {
            const BITS: usize = $bits;

            #[inline(always)]
            fn decode<L: Lanes<N>, const N: usize>(lanes: L, $bytes: &[u8]) -> [L::Numbers; 2] {
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

/// Two in a byte. `FLIPPED` makes signed ones unsigned: they are 8 more then.
pub(super) struct Nibbles<const FLIPPED: u8>;

impl<const FLIPPED: u8> Decode for Nibbles<FLIPPED> {
    const BITS: usize = 4;
    const INTERLEAVES: bool = true;

    #[inline(always)]
    fn decode<L: Lanes<N>, const N: usize>(lanes: L, bytes: &[u8]) -> [L::Numbers; 2] {
        match bytes.as_chunks::<N>().0 {
            [bytes] => lanes.of_nibbles(bytes, FLIPPED),
            _ => unreachable!("there are two vectors of codes"),
        }
    }
}
