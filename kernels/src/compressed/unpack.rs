//! Numbers of codes.

use std::ops::Range;

use super::format::{BF16, Decode, F16, Format, I8, Nibbles, U8};
use super::lanes::{Kind, Lanes, OnLanes};
use super::matrix::Parameters;

/// The numbers that codes of 8 or 16 bits stand for. The codes behind them are asked for: they come next.
pub(super) fn widen(format: Format, bytes: &[u8], numbers: &mut [f32]) {
    Kind::detect().run(Widen { format, bytes, numbers });
}

struct Widen<'a> {
    format: Format,
    bytes: &'a [u8],
    numbers: &'a mut [f32],
}

impl OnLanes for Widen<'_> {
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
fn block<L: Lanes<N>, D: Decode, const N: usize>(lanes: L, bytes: &[u8]) -> [L::Numbers; 2] {
    let block_bytes = 2 * N * D::BITS / 8;
    if bytes.len() == block_bytes {
        return D::decode(lanes, &bytes[..block_bytes]);
    }
    let mut padded = [0; 64];
    padded[..bytes.len()].copy_from_slice(bytes);
    D::decode(lanes, &padded[..block_bytes])
}

/// The step of a block that a lane of one of its two vectors has.
#[inline(always)]
fn step<D: Decode, const N: usize>(half: usize, lane: usize) -> usize {
    if D::INTERLEAVES { 2 * lane + half } else { half * N + lane }
}

impl Widen<'_> {
    #[inline(always)]
    fn of_format<L: Lanes<N>, D: Decode, const N: usize>(self, lanes: L) {
        let blocks = self.bytes.chunks(2 * N * D::BITS / 8).zip(self.numbers.chunks_mut(2 * N));
        for (bytes, place) in blocks {
            lanes.prefetch(bytes.as_ptr().wrapping_add(self.bytes.len()));
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

/// Makes a panel of some rows of a matrix: for each of some steps, a number for each row.
pub(super) struct Panel<'a> {
    pub format: Format,
    /// From the first row on.
    pub bytes: &'a [u8],
    pub row_bytes: usize,
    pub group: usize,
    /// Those of [`Parameters::by_groups`].
    pub parameters: &'a Parameters,
    pub rows: usize,
    /// They begin with a block of codes, and with a group if there are several.
    pub steps: Range<usize>,
    /// How far the steps of the panel are apart.
    pub stride: usize,
    pub panel: &'a mut [f32],
}

impl OnLanes for Panel<'_> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        match self.format {
            Format::F16 => self.of_format::<L, F16, N>(lanes),
            Format::BF16 => self.of_format::<L, BF16, N>(lanes),
            Format::I8 => self.of_format::<L, I8, N>(lanes),
            Format::U8 => self.of_format::<L, U8, N>(lanes),
            Format::I4 => self.of_format::<L, Nibbles<0x88>, N>(lanes),
            Format::U4 => self.of_format::<L, Nibbles<0>, N>(lanes),
        }
    }
}

impl Panel<'_> {
    #[inline(always)]
    fn of_format<L: Lanes<N>, D: Decode, const N: usize>(self, lanes: L) {
        let of_rows = |numbers: &[f32], first: usize, group: usize| {
            let numbers = numbers.get(group * PANEL_ROWS + first..).unwrap_or(&[]);
            numbers.first_chunk().map_or(lanes.splat(0.), |numbers| lanes.load(numbers))
        };
        let bytes_of = |codes: usize| codes * D::BITS / 8;
        for first in (0..self.rows).step_by(N) {
            // The last row stands for those that are missing: their scale is 0.
            let rows: [&[u8]; N] = std::array::from_fn(|row| {
                let row = (first + row).min(self.rows - 1);
                &self.bytes[row * self.row_bytes..][..self.row_bytes]
            });
            let width = (self.stride - first).min(N);
            let mut at = self.steps.start;
            while at < self.steps.end {
                let group = at / self.group;
                let end = ((group + 1) * self.group).min(self.steps.end);
                let scales = of_rows(&self.parameters.scales, first, group);
                let zero_points = of_rows(&self.parameters.zero_points, first, group);
                for begin in (at..end).step_by(2 * N) {
                    let count = (end - begin).min(2 * N);
                    let places = bytes_of(begin)..bytes_of(begin + count);
                    // Closures would not be compiled for the vectors.
                    let mut codes = [[lanes.splat(0.); N]; 2];
                    for row in 0..N {
                        let [low, high] = block::<L, D, N>(lanes, &rows[row][places.clone()]);
                        codes[0][row] = low;
                        codes[1][row] = high;
                    }
                    let panel = &mut self.panel[(begin - self.steps.start) * self.stride..]
                        [..count * self.stride];
                    for (half, codes) in codes.into_iter().enumerate() {
                        let steps = lanes.transpose(codes);
                        for (lane, numbers) in steps.into_iter().enumerate() {
                            let step = step::<D, N>(half, lane);
                            let numbers = lanes.mul(lanes.sub(numbers, zero_points), scales);
                            if step < count {
                                let place = &mut panel[step * self.stride + first..][..width];
                                match place.as_chunks_mut::<N>().0 {
                                    [place] => lanes.store(place, numbers),
                                    _ => {
                                        let mut all = [0.; N];
                                        lanes.store(&mut all, numbers);
                                        place.copy_from_slice(&all[..width]);
                                    }
                                }
                            }
                        }
                    }
                }
                at = end;
            }
        }
    }
}
