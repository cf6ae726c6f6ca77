//! Numbers of codes.

use std::ops::Range;

use super::format::{BF16, Decode, F16, Format, I4, I8, OfWords, U4, U8};
use super::matrix::GroupParameters;
use crate::isa::{Instructions, Lanes, OnLanes, first_words};
use crate::memory::prefetch;
use crate::product::STEPS;

/// The numbers that codes of 8 or 16 bits stand for. The codes behind them are asked for: they come next.
pub(super) fn widen(format: Format, bytes: &[u8], numbers: &mut [f32]) {
    Instructions::detect().run(Widen { format, bytes, numbers });
}

struct Widen<'a> {
    format: Format,
    bytes: &'a [u8],
    numbers: &'a mut [f32],
}

impl OnLanes for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        match self.format {
            Format::F16 => self.of_format::<L, F16, N>(lanes),
            Format::BF16 => self.of_format::<L, BF16, N>(lanes),
            Format::I8 => self.of_format::<L, I8, N>(lanes),
            Format::U8 => self.of_format::<L, U8, N>(lanes),
            Format::I4 | Format::U4 => unreachable!("there are no numbers of four bits"),
        }
    }
}

/// A block of codes, with zeros behind the last ones.
#[inline(always)]
fn block<L: Lanes<N>, D: Decode, const N: usize>(lanes: L, bytes: &[u8]) -> [L::Floats; 2] {
    let block_bytes = 2 * N * D::BITS / 8;
    if bytes.len() == block_bytes {
        return D::decode(lanes, &bytes[..block_bytes]);
    }
    let mut padded = [0; 64];
    padded[..bytes.len()].copy_from_slice(bytes);
    D::decode(lanes, &padded[..block_bytes])
}

impl Widen<'_> {
    #[inline(always)]
    fn of_format<L: Lanes<N>, D: Decode, const N: usize>(self, lanes: L) {
        let blocks = self.bytes.chunks(2 * N * D::BITS / 8).zip(self.numbers.chunks_mut(2 * N));
        for (bytes, place) in blocks {
            let vectors = block::<L, D, N>(lanes, bytes);
            match place.as_chunks_mut::<N>().0 {
                [low, high] => {
                    lanes.store(low, vectors[0]);
                    lanes.store(high, vectors[1]);
                }
                _ => {
                    let mut numbers = [[0.; N]; 2];
                    lanes.store(&mut numbers[0], vectors[0]);
                    lanes.store(&mut numbers[1], vectors[1]);
                    place.copy_from_slice(&numbers.as_flattened()[..place.len()]);
                }
            }
        }
    }
}

/// The most rows that a panel has.
pub(super) const PANEL_ROWS: usize = 48;

/// Makes a panel of operand `B` of some rows of a matrix: for each of some steps, a number for each row.
pub(super) struct UnpackPanel<'a> {
    pub format: Format,
    /// From the first row on.
    pub bytes: &'a [u8],
    pub row_bytes: usize,
    pub group: usize,
    /// Whether codes are what they stand for. Prompts of Qwen2 0.5B in half precision take 0.98 of the time
    /// without scales and zero points (AMD EPYC, family 25 model 17).
    pub is_plain: bool,
    /// Those of [`GroupParameters::by_groups`].
    pub parameters: &'a GroupParameters,
    pub rows: usize,
    /// They begin with a word of codes.
    pub steps: Range<usize>,
    /// How far the steps of the panel are apart.
    pub stride: usize,
    pub panel: &'a mut [f32],
}

impl OnLanes for UnpackPanel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        match self.format {
            Format::F16 => self.of_format::<L, F16, 2, N>(lanes),
            Format::BF16 => self.of_format::<L, BF16, 2, N>(lanes),
            Format::I8 => self.of_format::<L, I8, 4, N>(lanes),
            Format::U8 => self.of_format::<L, U8, 4, N>(lanes),
            Format::I4 => self.of_format::<L, I4, 8, N>(lanes),
            Format::U4 => self.of_format::<L, U4, 8, N>(lanes),
        }
    }
}

impl UnpackPanel<'_> {
    /// A vector of words of each of `N` rows becomes vectors of a word of all rows, whose codes are those of some steps.
    #[inline(always)]
    fn of_format<L: Lanes<N>, D: OfWords<CODES>, const CODES: usize, const N: usize>(
        self,
        lanes: L,
    ) {
        for first in (0..self.rows).step_by(N) {
            // The last row stands for those that are missing: nobody reads their columns.
            let rows: [&[u8]; N] = std::array::from_fn(|row| {
                let row = (first + row).min(self.rows - 1);
                &self.bytes[row * self.row_bytes..][..self.row_bytes]
            });
            let width = (self.stride - first).min(N);
            let mut group = self.steps.start / self.group;
            let mut end_of_group = (group + 1) * self.group;
            let mut scales = of_rows(lanes, &self.parameters.scales, first, group);
            let mut zero_points = of_rows(lanes, &self.parameters.zero_points, first, group);
            for begin in self.steps.clone().step_by(N * CODES) {
                let mut words = [lanes.load_words(&[[0; 4]; N]); N];
                for row in 0..N {
                    let at = begin * 4 / CODES;
                    // What comes next is not next to it: the same steps of the next part of the row, or of the next panel.
                    let mut next = at + STEPS * 4 / CODES;
                    if next >= self.row_bytes {
                        next += (self.rows - 1) * self.row_bytes;
                    }
                    prefetch(rows[row].as_ptr().wrapping_add(next));
                    words[row] = first_words(lanes, &rows[row][at..]);
                }
                let words = lanes.transpose(words);
                for (word, words) in words.iter().enumerate() {
                    let step = begin + word * CODES;
                    if step >= self.steps.end {
                        break;
                    }
                    if step == end_of_group {
                        group += 1;
                        end_of_group += self.group;
                        scales = of_rows(lanes, &self.parameters.scales, first, group);
                        zero_points = of_rows(lanes, &self.parameters.zero_points, first, group);
                    }
                    let mut numbers = D::of_words(lanes, *words);
                    if !self.is_plain {
                        for numbers in &mut numbers {
                            *numbers = lanes.mul(lanes.sub(*numbers, zero_points), scales);
                        }
                    }
                    let panel = &mut self.panel[(step - self.steps.start) * self.stride + first..];
                    let count = CODES.min(self.steps.end - step);
                    if width == N && count == CODES {
                        for code in 0..CODES {
                            if let Some(place) = panel[code * self.stride..].first_chunk_mut() {
                                lanes.store(place, numbers[code]);
                            }
                        }
                    } else {
                        for code in 0..count {
                            let mut all = [0.; N];
                            lanes.store(&mut all, numbers[code]);
                            panel[code * self.stride..][..width].copy_from_slice(&all[..width]);
                        }
                    }
                }
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
