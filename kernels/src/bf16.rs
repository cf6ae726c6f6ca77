//! Tensors in bf16: numbers that have the upper half of the bits of single precision.

use pulp::bytemuck::Pod;
use tract_core::internal::*;

#[cfg(target_arch = "x86_64")]
use crate::isa::{Bf16Isa, Isa, On};
use crate::isa::{Instructions, Lanes, Portable, padded};

/// The type of tensors that have the bits of numbers in bf16: tract has none for these.
pub(crate) const BF16: DatumType = DatumType::U16;

/// Whether operators read and write such tensors: where rounding is an instruction.
pub(crate) fn converts_bf16() -> bool {
    Instructions::detect().bf16().is_some()
}

/// A number in memory: in single precision, or the bytes of one in bf16.
pub(crate) trait Number: Pod {
    fn load<L: Lanes<N>, const N: usize>(lanes: L, numbers: &[Self; N]) -> L::Floats;
    /// The first numbers, with zeros where there are no more.
    fn load_first<L: Lanes<N>, const N: usize>(lanes: L, numbers: &[Self]) -> L::Floats;
    fn store<L: Lanes<N>, const N: usize>(lanes: L, place: &mut [Self; N], numbers: L::Floats);
    fn store_all<L: Lanes<N>, const N: usize, const V: usize>(
        lanes: L,
        places: &mut [[Self; N]; V],
        numbers: [L::Floats; V],
    );
    /// Writes as many numbers as there is room for, or all.
    fn store_first<L: Lanes<N>, const N: usize>(lanes: L, places: &mut [Self], numbers: L::Floats);
    /// The number, or the nearest one that there is towards 0.
    fn of(number: f32) -> Self;
}

impl Number for f32 {
    #[inline(always)]
    fn load<L: Lanes<N>, const N: usize>(lanes: L, numbers: &[f32; N]) -> L::Floats {
        lanes.load(numbers)
    }

    #[inline(always)]
    fn load_first<L: Lanes<N>, const N: usize>(lanes: L, numbers: &[f32]) -> L::Floats {
        match numbers.first_chunk() {
            Some(vector) => lanes.load(vector),
            None => lanes.load_part(numbers),
        }
    }

    #[inline(always)]
    fn store<L: Lanes<N>, const N: usize>(lanes: L, place: &mut [f32; N], numbers: L::Floats) {
        lanes.store(place, numbers);
    }

    #[inline(always)]
    fn store_all<L: Lanes<N>, const N: usize, const V: usize>(
        lanes: L,
        places: &mut [[f32; N]; V],
        numbers: [L::Floats; V],
    ) {
        for vector in 0..V {
            lanes.store(&mut places[vector], numbers[vector]);
        }
    }

    #[inline(always)]
    fn store_first<L: Lanes<N>, const N: usize>(lanes: L, places: &mut [f32], numbers: L::Floats) {
        lanes.store_part(places, numbers);
    }

    fn of(number: f32) -> f32 {
        number
    }
}

impl Number for [u8; 2] {
    #[inline(always)]
    fn load<L: Lanes<N>, const N: usize>(lanes: L, numbers: &[[u8; 2]; N]) -> L::Floats {
        lanes.of_bf16(numbers)
    }

    #[inline(always)]
    fn load_first<L: Lanes<N>, const N: usize>(lanes: L, numbers: &[[u8; 2]]) -> L::Floats {
        lanes.of_bf16(&padded(numbers))
    }

    #[inline(always)]
    fn store<L: Lanes<N>, const N: usize>(lanes: L, place: &mut [[u8; 2]; N], numbers: L::Floats) {
        *place = lanes.to_bf16(numbers);
    }

    #[inline(always)]
    fn store_all<L: Lanes<N>, const N: usize, const V: usize>(
        lanes: L,
        places: &mut [[[u8; 2]; N]; V],
        numbers: [L::Floats; V],
    ) {
        for vector in (0..V).step_by(2) {
            if vector + 1 < V {
                let both = lanes.bf16_of_both(numbers[vector], numbers[vector + 1]);
                [places[vector], places[vector + 1]] = both;
            } else {
                places[vector] = lanes.to_bf16(numbers[vector]);
            }
        }
    }

    #[inline(always)]
    fn store_first<L: Lanes<N>, const N: usize>(
        lanes: L,
        places: &mut [[u8; 2]],
        numbers: L::Floats,
    ) {
        let rounded = lanes.to_bf16(numbers);
        match places.first_chunk_mut() {
            Some(place) => *place = rounded,
            None => places.copy_from_slice(&rounded[..places.len()]),
        }
    }

    fn of(number: f32) -> [u8; 2] {
        let [_, _, low, high] = number.to_le_bytes();
        [low, high]
    }
}

/// A vector of the numbers from one on, with zeros where there are no more.
#[inline(always)]
pub(crate) fn vector_at<T: Number, L: Lanes<N>, const N: usize>(
    lanes: L,
    numbers: &[T],
    first: usize,
) -> L::Floats {
    T::load_first(lanes, numbers.get(first..).unwrap_or(&[]))
}

/// Converts numbers to as many others.
pub(crate) fn convert<A: Number, B: Number>(from: &[A], to: &mut [B]) {
    assert_eq!(from.len(), to.len());
    let convert = Convert { from, to };
    #[cfg(target_arch = "x86_64")]
    if let Some(isa) = Instructions::detect().bf16() {
        return isa.enter(convert);
    }
    convert.on(Portable);
}

struct Convert<'a, A, B> {
    from: &'a [A],
    to: &'a mut [B],
}

#[cfg(target_arch = "x86_64")]
impl<A: Number, B: Number> On<Bf16Isa> for Convert<'_, A, B> {
    #[inline(always)]
    fn run(self, isa: Bf16Isa) {
        self.on(isa);
    }
}

impl<A: Number, B: Number> Convert<'_, A, B> {
    #[inline(always)]
    fn on<L: Lanes<N>, const N: usize>(self, lanes: L) {
        let ((from, last), (to, last_places)) = (self.from.as_chunks(), self.to.as_chunks_mut());
        for (numbers, place) in from.iter().zip(to) {
            B::store(lanes, place, A::load(lanes, numbers));
        }
        B::store_first(lanes, last_places, A::load_first(lanes, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::tests::{fractions, rounded_to_bf16, with_all_vectors};

    #[test]
    fn any_count_is_converted() {
        for count in [0, 1, 7, 8, 15, 16, 17, 40] {
            let numbers = fractions(count);
            let expected: Vec<f32> = numbers.iter().map(|it| rounded_to_bf16(*it)).collect();
            with_all_vectors(|| {
                let (mut bytes, mut found) = (vec![[7; 2]; count], vec![7.; count]);
                convert(&numbers, &mut bytes);
                convert(&bytes, &mut found);
                assert_eq!(found, expected);
            });
        }
    }
}
