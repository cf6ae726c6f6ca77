//! Keys and values as bytes.
//!
//! As OpenVINO's cache of type u8, each position has a range of its own, from its least to its greatest element.

use super::pages::{PageLayout, PagedFactor};
use crate::isa::{Lanes, OnLanes, padded};
use crate::memory::{LINE, prefetch};

/// The numbers that codes stand for: `least + scale * code`.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeRange {
    pub least: f32,
    pub scale: f32,
}

impl CodeRange {
    /// The narrowest one that has all of these elements. They are NaN in it if they or their difference are not finite.
    pub fn of(elements: &[f32]) -> CodeRange {
        let least = elements.iter().copied().fold(f32::INFINITY, f32::min);
        let greatest = elements.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let scale = (greatest - least) / f32::from(u8::MAX);
        let is_finite = scale.is_finite() && elements.iter().all(|element| element.is_finite());
        if is_finite {
            CodeRange { least, scale }
        } else {
            CodeRange { least: f32::NAN, scale: 0. }
        }
    }

    /// The code whose number is next to this element.
    pub fn code(self, element: f32) -> u8 {
        // Where there are no steps it is 0, or does not matter.
        ((element - self.least) / self.scale).round() as u8
    }
}

/// The codes of a page, in their places, and the ranges of its positions.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageCodes<'a> {
    pub layout: PageLayout,
    pub codes: &'a [u8],
    pub least: &'a [f32],
    pub scale: &'a [f32],
}

impl PageCodes<'_> {
    /// Asks for them, so that they come from memory meanwhile.
    pub fn ask(&self) {
        for line in self.codes.chunks(LINE) {
            prefetch(line.as_ptr());
        }
        for line in [self.least, self.scale] {
            prefetch(line.as_ptr().cast());
        }
    }
}

/// Writes the numbers of a page.
pub(super) struct UnpackPage<'a> {
    pub codes: PageCodes<'a>,
    pub numbers: &'a mut [f32],
}

impl OnLanes for UnpackPage<'_> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        let UnpackPage { codes: PageCodes { layout, codes, least, scale }, numbers } = self;
        let PageLayout { format, width, tile } = layout;
        match format.factor {
            PagedFactor::Keys => {
                // A row of a panel has an element of its positions.
                for first in (0..layout.room()).step_by(tile.columns) {
                    let panel = first * width..(first + tile.columns) * width;
                    let (codes, numbers) = (&codes[panel.clone()], &mut numbers[panel]);
                    for column in (0..tile.columns).step_by(N) {
                        let columns = column..(column + N).min(tile.columns);
                        let least = lanes.load(&padded(&least[first..][columns.clone()]));
                        let scale = lanes.load(&padded(&scale[first..][columns.clone()]));
                        let rows = codes.chunks_exact(tile.columns);
                        for (codes, numbers) in rows.zip(numbers.chunks_exact_mut(tile.columns)) {
                            let numbers = &mut numbers[columns.clone()];
                            unpack(lanes, &codes[columns.clone()], least, scale, numbers);
                        }
                    }
                }
            }
            PagedFactor::Values => {
                // A row of a panel is a part of a position.
                for first in (0..width).step_by(tile.columns) {
                    let columns = layout.columns_of_values(first);
                    let panel = first * layout.room()..(first + columns) * layout.room();
                    let rows = codes[panel.clone()].chunks_exact(columns);
                    let rows = rows.zip(numbers[panel].chunks_exact_mut(columns));
                    for ((codes, numbers), (least, scale)) in rows.zip(least.iter().zip(scale)) {
                        let (least, scale) = (lanes.splat(*least), lanes.splat(*scale));
                        for (codes, numbers) in codes.chunks(N).zip(numbers.chunks_mut(N)) {
                            unpack(lanes, codes, least, scale, numbers);
                        }
                    }
                }
            }
        }
    }
}

/// Writes the numbers of a vector of codes, or of fewer.
#[inline(always)]
fn unpack<L: Lanes<N>, const N: usize>(
    lanes: L,
    codes: &[u8],
    least: L::Floats,
    scale: L::Floats,
    numbers: &mut [f32],
) {
    let codes = match codes.first_chunk() {
        Some(codes) => lanes.of_u8(codes),
        None => lanes.of_u8(&padded(codes)),
    };
    lanes.store_part(numbers, lanes.mul_add(codes, scale, least));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(elements: &[f32]) -> Vec<f32> {
        let range = CodeRange::of(elements);
        let numbers =
            elements.iter().map(|it| range.least + range.scale * f32::from(range.code(*it)));
        numbers.collect()
    }

    proptest! {
        /// Elements are next to the numbers of their codes.
        #[test]
        fn codes_are_next_to_elements(elements in prop::collection::vec(-9f32..9., 1..80), at in -1e4f32..1e4) {
            let elements: Vec<f32> = elements.into_iter().map(|it| it + at).collect();
            let range = CodeRange::of(&elements);
            for (number, element) in numbers(&elements).into_iter().zip(elements) {
                let rounding = 4. * f32::EPSILON * (element.abs() + 255. * range.scale);
                prop_assert!((number - element).abs() <= 0.5 * range.scale + rounding);
            }
        }
    }

    #[test]
    fn ranges_of_all_sizes() {
        let [least, zero, greatest] = numbers(&[-1e38, 0., 2e38])[..] else { panic!() };
        assert!(least == -1e38 && zero.abs() < 1e32 && (greatest - 2e38).abs() < 1e32);
        assert_eq!(numbers(&[2.5, 2.5]), [2.5, 2.5]);
        // The step is too small for a number.
        assert_eq!(numbers(&[0., f32::from_bits(1)]), [0., 0.]);
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN] {
            assert!(numbers(&[f32::MAX, wrong]).iter().all(|number| number.is_nan()));
        }
    }
}
