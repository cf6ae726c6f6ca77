//! Makes panels of numbers of codes.

use std::ops::Range;

use pulp::bytemuck::cast_slice_mut;

use super::format::{Decode, MOST_CODES, with_format};
use super::matrix::{CompressedMatrix, GroupParameters, PANEL_ROWS};
use crate::isa::{Lanes, OnLanes, first_words};
use crate::memory::prefetch;
use crate::product::{Element, STEPS};

/// Makes a panel of operand `B` of some rows of a matrix: for each of some steps, or pairs of them, an element for each row.
pub(super) struct UnpackPanel<'a, T> {
    pub matrix: &'a CompressedMatrix,
    /// The codes, from the first row on.
    pub bytes: &'a [u8],
    /// In the order of [`GroupParameters::by_groups`].
    pub parameters: &'a GroupParameters,
    pub rows: usize,
    /// They begin with a word of codes.
    pub steps: Range<usize>,
    /// How far the steps of the panel are apart.
    pub stride: usize,
    /// It may have room for more steps, which are 0.
    pub panel: &'a mut [T],
}

impl<T: Element> OnLanes for UnpackPanel<'_, T> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        let missing = self.stride * self.steps.len().div_ceil(T::STEPS);
        self.panel[missing..].fill(T::default());
        with_format!(self.matrix.format, D => self.of_format::<L, D, N>(lanes));
    }
}

impl<T: Element> UnpackPanel<'_, T> {
    /// A vector of words of each of `N` rows becomes vectors of a word of all rows, whose codes are those of some steps.
    #[inline(always)]
    fn of_format<L: Lanes<N>, D: Decode, const N: usize>(self, lanes: L) {
        // How many a word has.
        let codes = const { 32 / D::BITS };
        let (row_bytes, of_group) = (self.matrix.row_bytes(), self.matrix.group);
        // Codes are what they stand for: without scales and zero points panels take less time.
        let is_plain = self.matrix.is_plain();
        for first in (0..self.rows).step_by(N) {
            // The last row stands for those that are missing: nobody reads their columns.
            let rows: [&[u8]; N] = std::array::from_fn(|row| {
                let row = (first + row).min(self.rows - 1);
                &self.bytes[row * row_bytes..][..row_bytes]
            });
            let width = (self.stride - first).min(N);
            let mut group = self.steps.start / of_group;
            let mut end_of_group = (group + 1) * of_group;
            let mut scales = of_rows(lanes, &self.parameters.scales, first, group);
            let mut zero_points = of_rows(lanes, &self.parameters.zero_points, first, group);
            for begin in self.steps.clone().step_by(N * codes) {
                let mut words = [lanes.load_words(&[[0; 4]; N]); N];
                let at = begin * 4 / codes;
                // What comes next is not next to it: the same steps of the next part of the row, or of the next panel.
                let mut next = at + STEPS * 4 / codes;
                if next >= row_bytes {
                    next += (self.rows - 1) * row_bytes;
                }
                for row in 0..N {
                    prefetch(rows[row].as_ptr().wrapping_add(next));
                    words[row] = first_words(lanes, &rows[row][at..]);
                }
                let words = lanes.transpose(words);
                for (word, words) in words.iter().enumerate() {
                    let step = begin + word * codes;
                    if step >= self.steps.end {
                        break;
                    }
                    if step == end_of_group {
                        group += 1;
                        end_of_group += of_group;
                        scales = of_rows(lanes, &self.parameters.scales, first, group);
                        zero_points = of_rows(lanes, &self.parameters.zero_points, first, group);
                    }
                    let mut numbers = D::of_words(lanes, *words);
                    if !is_plain {
                        for numbers in &mut numbers[..codes] {
                            *numbers = lanes.mul(lanes.sub(*numbers, zero_points), scales);
                        }
                    }
                    let count = codes.min(self.steps.end - step);
                    let before = (step - self.steps.start) / T::STEPS;
                    let panel = &mut self.panel[before * self.stride + first..];
                    put::<L, T, N>(lanes, numbers, codes, count, self.stride, width, panel);
                }
            }
        }
    }
}

/// Writes vectors of the first numbers of a word, or pairs of them.
#[inline(always)]
fn put<L: Lanes<N>, T: Element, const N: usize>(
    lanes: L,
    mut numbers: [L::Floats; MOST_CODES],
    codes: usize,
    count: usize,
    stride: usize,
    width: usize,
    panel: &mut [T],
) {
    if const { T::STEPS == 2 } {
        let panel: &mut [[u8; 4]] = cast_slice_mut(panel);
        // What comes after the last step is 0.
        if count < codes {
            for (code, numbers) in numbers.iter_mut().enumerate() {
                if code >= count {
                    *numbers = lanes.splat(0.);
                }
            }
        }
        for pair in 0..codes / 2 {
            if 2 * pair < count {
                let pairs = lanes.bf16_pairs(numbers[2 * pair], numbers[2 * pair + 1]);
                let place = &mut panel[pair * stride..][..width];
                match place.first_chunk_mut() {
                    Some(place) => *place = pairs,
                    None => place.copy_from_slice(&pairs[..width]),
                }
            }
        }
        return;
    }
    let panel: &mut [f32] = cast_slice_mut(panel);
    if width == N && count == codes {
        for code in 0..codes {
            if let Some(place) = panel[code * stride..].first_chunk_mut() {
                lanes.store(place, numbers[code]);
            }
        }
    } else {
        // A loop of a constant keeps the numbers in registers.
        for code in 0..codes {
            if code < count {
                lanes.store_part(&mut panel[code * stride..][..width], numbers[code]);
            }
        }
    }
}

/// What some rows have, of the numbers of [`GroupParameters::by_groups`].
#[inline(always)]
fn of_rows<L: Lanes<N>, const N: usize>(
    lanes: L,
    numbers: &[f32],
    first: usize,
    group: usize,
) -> L::Floats {
    match numbers.get(group * PANEL_ROWS + first..).and_then(|numbers| numbers.first_chunk()) {
        Some(numbers) => lanes.load(numbers),
        None => lanes.splat(0.),
    }
}
