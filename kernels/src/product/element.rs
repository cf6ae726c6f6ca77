//! What operands have: numbers in single precision, or pairs of numbers that are rounded to bf16.
//!
//! bf16 has the upper half of the bits of single precision. Operands in bf16 are those of half as many steps, each of a pair: so their
//! panels, the tiles and the parts of sums are the same, in half the memory. It is the layout that oneDNN calls VNNI, and the one that
//! tiles of AMX-BF16 read, which take 16 elements at once: where there are such, sums have as many as these.

use std::fmt::Debug;

use pulp::Simd;
use pulp::bytemuck::Pod;

#[cfg(target_arch = "x86_64")]
use super::avx512;
use crate::isa::{Bf16Pairs, Portable, padded};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Instructions, Isa, On, TILE_STEPS};

/// What a row of operand `A`, or a column of operand `B`, consists of: one step of the sum, or more. It has the size of a number.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) trait Element: Factor {}

/// What a row of operand `A`, or a column of operand `B`, consists of: one step of the sum, or more. It has the size of a number.
#[cfg(target_arch = "x86_64")]
pub(crate) trait Element: Factor + avx512::Factor512 {}

impl Element for f32 {}

impl Element for Bf16Pair {}

/// What all processors do with elements of operands.
pub(crate) trait Factor: Pod + PartialEq + Default + Debug + Send + Sync {
    /// How many steps it has.
    const STEPS: usize;

    /// How many of them so many steps make. Of the last ones, steps may be missing: these are 0.
    #[inline(always)]
    fn count(steps: usize) -> usize {
        steps.div_ceil(Self::STEPS)
    }

    /// Whether the processor's tiles multiply them (AMX).
    fn are_for_tiles() -> bool {
        false
    }

    /// Numbers that are such elements already.
    fn as_they_are(numbers: &[f32]) -> Option<&[Self]>;

    /// Elements that are numbers.
    fn as_numbers(elements: &mut [Self]) -> Option<&mut [f32]>;

    /// The elements of steps that follow each other. There is room for them if they are others.
    fn of_row<'a>(steps: &'a [f32], room: &'a mut [Self]) -> &'a [Self];

    /// Writes the elements of neighbours that have the same step, and the next one, if there is one.
    fn of_lines(step: &[f32], next: Option<&[f32]>, places: &mut [Self]);

    /// The bits of magnitudes of steps, raised to the greatest ones of these elements. Those of NaN are greater than all others.
    fn greatest_bits(elements: &[Self], greatest: &mut [u32]);

    /// A vector of products with an element, which are added to sums.
    fn multiply_add<S: Simd>(simd: S, vector: S::f32s, factor: Self, sums: S::f32s) -> S::f32s;
}

impl Factor for f32 {
    const STEPS: usize = 1;

    fn as_they_are(numbers: &[f32]) -> Option<&[f32]> {
        Some(numbers)
    }

    fn as_numbers(elements: &mut [f32]) -> Option<&mut [f32]> {
        Some(elements)
    }

    fn of_row<'a>(steps: &'a [f32], _: &'a mut [f32]) -> &'a [f32] {
        steps
    }

    fn of_lines(step: &[f32], _: Option<&[f32]>, places: &mut [f32]) {
        places.copy_from_slice(step);
    }

    fn greatest_bits(elements: &[f32], greatest: &mut [u32]) {
        let bits = elements.iter().map(|it| it.to_bits() & MAGNITUDE);
        greatest[0] = bits.fold(greatest[0], u32::max);
    }

    #[inline(always)]
    fn multiply_add<S: Simd>(simd: S, vector: S::f32s, factor: f32, sums: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(vector, simd.splat_f32s(factor), sums)
    }
}

/// Makes a panel of so many columns of other elements, and zeros if there is room for more steps.
pub(crate) fn convert_panel<T: Element>(panel: &[f32], columns: usize, places: &mut [T]) {
    let lines = panel.chunks(T::STEPS * columns);
    let mut places = places.chunks_exact_mut(columns);
    for (lines, places) in lines.zip(&mut places) {
        let (step, next) = lines.split_at(columns);
        T::of_lines(step, (!next.is_empty()).then_some(next), places);
    }
    places.for_each(|places| places.fill(T::default()));
}

/// Two steps in bf16, the first one in the lower half.
pub(crate) type Bf16Pair = u32;

impl Factor for Bf16Pair {
    const STEPS: usize = 2;

    fn count(steps: usize) -> usize {
        let count = steps.div_ceil(2);
        #[cfg(target_arch = "x86_64")]
        if Bf16Pair::are_for_tiles() {
            return count.next_multiple_of(TILE_STEPS);
        }
        count
    }

    #[cfg(target_arch = "x86_64")]
    fn are_for_tiles() -> bool {
        Instructions::detect().has_amx()
    }

    fn as_they_are(_: &[f32]) -> Option<&[Bf16Pair]> {
        None
    }

    fn as_numbers(_: &mut [Bf16Pair]) -> Option<&mut [f32]> {
        None
    }

    fn of_row<'a>(steps: &'a [f32], room: &'a mut [Bf16Pair]) -> &'a [Bf16Pair] {
        let places = &mut room[..Bf16Pair::count(steps.len())];
        round_to_bf16(steps, places);
        places
    }

    fn of_lines(step: &[f32], next: Option<&[f32]>, places: &mut [Bf16Pair]) {
        round(PairsOfLines { step, next, places });
    }

    fn greatest_bits(elements: &[Bf16Pair], greatest: &mut [u32]) {
        for (step, shift) in [16, 0].into_iter().enumerate() {
            let bits = elements.iter().map(|it| it << shift & UPPER_HALF & MAGNITUDE);
            greatest[step] = bits.fold(greatest[step], u32::max);
        }
    }

    /// As the instruction does it, but that it may round otherwise, and takes numbers below the normal ones as zeros.
    #[inline(always)]
    fn multiply_add<S: Simd>(simd: S, vector: S::f32s, factor: u32, sums: S::f32s) -> S::f32s {
        let words = simd.transmute_u32s_f32s(vector);
        let upper = simd.and_u32s(words, simd.splat_u32s(UPPER_HALF));
        let lower = simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(16));
        let [upper, lower] = [upper, lower].map(|words| simd.transmute_f32s_u32s(words));
        let first = simd.splat_f32s(f32::from_bits(factor << 16));
        let second = simd.splat_f32s(f32::from_bits(factor & UPPER_HALF));
        simd.mul_add_e_f32s(upper, second, simd.mul_add_e_f32s(lower, first, sums))
    }
}

/// The bits of single precision without that of the sign.
const MAGNITUDE: u32 = u32::MAX >> 1;

/// The bits of single precision that bf16 has.
const UPPER_HALF: u32 = 0xffff_0000;

/// Rounds numbers that follow each other, two for each place. Where there are more places, these are 0.
pub(crate) fn round_to_bf16(numbers: &[f32], places: &mut [Bf16Pair]) {
    round(PairsOfRow { steps: numbers, places });
}

/// Rounds with what the processor has for that.
fn round(body: impl OnPairs) {
    #[cfg(target_arch = "x86_64")]
    if let Some(isa) = Instructions::detect().bf16() {
        return isa.enter(OfIsa(body));
    }
    body.run(Portable);
}

trait OnPairs {
    fn run(self, isa: impl Bf16Pairs);
}

#[cfg(target_arch = "x86_64")]
struct OfIsa<B>(B);

#[cfg(target_arch = "x86_64")]
impl<I: Bf16Pairs, B: OnPairs> On<I> for OfIsa<B> {
    #[inline(always)]
    fn run(self, isa: I) {
        self.0.run(isa);
    }
}

struct PairsOfRow<'a> {
    steps: &'a [f32],
    places: &'a mut [Bf16Pair],
}

impl OnPairs for PairsOfRow<'_> {
    #[inline(always)]
    fn run(self, isa: impl Bf16Pairs) {
        // As many as vectors of pairs.
        let (vectors, rest) = self.steps.as_chunks::<32>();
        let (places, places_of_rest) = self.places.split_at_mut(16 * vectors.len());
        let vectors = vectors.as_flattened().as_chunks().0.as_chunks().0;
        for (numbers, places) in vectors.iter().zip(places.as_chunks_mut().0) {
            *places = isa.bf16_of_neighbours(numbers);
        }
        if !rest.is_empty() {
            let mut numbers = [[0.; 16]; 2];
            numbers.as_flattened_mut()[..rest.len()].copy_from_slice(rest);
            let pairs = isa.bf16_of_neighbours(&numbers);
            let (last, padding) = places_of_rest.split_at_mut(rest.len().div_ceil(2));
            last.copy_from_slice(&pairs[..last.len()]);
            padding.fill(0);
        } else {
            places_of_rest.fill(0);
        }
    }
}

struct PairsOfLines<'a> {
    step: &'a [f32],
    next: Option<&'a [f32]>,
    places: &'a mut [Bf16Pair],
}

impl OnPairs for PairsOfLines<'_> {
    #[inline(always)]
    fn run(self, isa: impl Bf16Pairs) {
        let PairsOfLines { step, next, places } = self;
        let zeros = [0.; 16];
        let next = next.unwrap_or(&[]);
        let (steps, last) = step.as_chunks();
        let (nexts, last_of_next) = next.as_chunks();
        let (places, last_places) = places.as_chunks_mut();
        for (number, (step, places)) in steps.iter().zip(places).enumerate() {
            *places = isa.bf16_of_lines(step, nexts.get(number).unwrap_or(&zeros));
        }
        if !last.is_empty() {
            let pairs = isa.bf16_of_lines(&padded(last), &padded(last_of_next));
            last_places.copy_from_slice(&pairs[..last_places.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::tests::with_all_instructions;
    use crate::product::tests::integers;

    /// All exponents, and what is between two numbers in bf16: in the middle of them, and beside it.
    fn numbers() -> Vec<f32> {
        let numbers = (0..=u16::MAX).flat_map(|high| {
            [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| u32::from(high) << 16 | low)
        });
        numbers.map(f32::from_bits).collect()
    }

    /// The nearest of all numbers in bf16, by a search.
    fn nearest(number: f32) -> f32 {
        let upper = f32::from_bits(number.to_bits() & UPPER_HALF);
        let next = f32::from_bits((number.to_bits() & UPPER_HALF).wrapping_add(0x1_0000));
        // As if there were exponents beyond the largest one.
        let next = if next.is_infinite() { f64::exp2(128.) } else { f64::from(next.abs()) };
        let below = f64::from(number.abs()) - f64::from(upper.abs());
        let above = next - f64::from(number.abs());
        let is_even = upper.to_bits() & 0x1_0000 == 0;
        match () {
            () if !number.is_finite() => number,
            () if number.is_subnormal() => 0f32.copysign(number),
            () if below < above || below == above && is_even => upper,
            () => f32::from_bits(upper.to_bits().wrapping_add(0x1_0000)),
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest_ones() {
        let numbers = numbers();
        let expected: Vec<f32> = numbers.iter().map(|number| nearest(*number)).collect();
        let is_it = |found: u32, expected: f32| {
            let found = f32::from_bits(found);
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
        };
        with_all_instructions(|instructions| {
            let mut room = vec![0; numbers.len() / 2];
            let found = Bf16Pair::of_row(&numbers, &mut room);
            for (found, (numbers, expected)) in
                found.iter().zip(numbers.chunks(2).zip(expected.chunks(2)))
            {
                let is_it =
                    is_it(found << 16, expected[0]) && is_it(found & UPPER_HALF, expected[1]);
                assert!(is_it, "{numbers:?} became {found:x} with {instructions:?}");
            }
        });
    }

    #[test]
    fn all_sizes_of_rows_and_lines() {
        with_all_instructions(|_| {
            for count in 0..100 {
                let numbers = integers(2 * count);
                let of =
                    |first: f32, second: f32| first.to_bits() >> 16 | second.to_bits() & UPPER_HALF;
                for steps in [&numbers[..], &numbers[..(2 * count).saturating_sub(1)]] {
                    let mut expected: Vec<u32> = steps
                        .chunks(2)
                        .map(|it| of(it[0], it.get(1).copied().unwrap_or(0.)))
                        .collect();
                    expected.resize(Bf16Pair::count(steps.len()), 0);
                    assert_eq!(Bf16Pair::of_row(steps, &mut [u32::MAX; 128]), expected);
                }
                let (first, second) = numbers.split_at(count);
                for next in [Some(second), None] {
                    let next_of = |number: usize| next.map_or(0., |next| next[number]);
                    let expected: Vec<u32> =
                        (0..count).map(|number| of(first[number], next_of(number))).collect();
                    let mut found = vec![u32::MAX; count];
                    Bf16Pair::of_lines(first, next, &mut found);
                    assert_eq!(found, expected);
                }
            }
        });
    }
}
