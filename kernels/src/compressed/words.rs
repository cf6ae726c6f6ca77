//! Few rows of data, and codes of four bits: each lane of a vector has the eight codes of a word of four bytes.

use super::Matrix;
use super::format::Format;
use super::lanes::{AHEAD, Kind, Lanes, OnLanes};
use super::matrix::{Parameters, Part};
use crate::memory::{LINE, Scratch};

/// The codes of a word.
const CODES: usize = 8;

/// The vectors of a block of data: those of the codes of each place in words, and the sums of the words.
const VECTORS: usize = CODES + 1;

/// A block of a row of data.
type DataBlock<const N: usize> = [[f32; N]; VECTORS];

/// The words of a block of a row of the matrix.
type Words<const N: usize> = [[u8; 4]; N];

/// Rows of data in blocks of a vector of words, and where the words have their scales.
pub(super) struct Data {
    rows: Scratch,
    /// How far rows are apart.
    stride: usize,
    /// The group of the first word of each block.
    first_groups: Vec<usize>,
    /// For each word of a block, how many groups later its group is.
    groups_of_words: Vec<u32>,
}

impl Data {
    pub fn new(kind: Kind, matrix: &Matrix, data: &[f32]) -> Data {
        let lanes = kind.lanes();
        let blocks = matrix.depth.div_ceil(CODES * lanes);
        let stride = blocks * VECTORS * lanes;
        let rows = data.chunks_exact(matrix.depth);
        let mut prepared = Scratch::new(rows.len() * stride);
        for (row, place) in rows.zip(prepared.chunks_exact_mut(stride)) {
            let row_blocks = row.chunks(CODES * lanes).zip(place.chunks_exact_mut(VECTORS * lanes));
            for (block, vectors) in row_blocks {
                vectors.fill(0.);
                for (lane, word) in block.chunks(CODES).enumerate() {
                    for (place, number) in vectors[lane..].iter_mut().step_by(lanes).zip(word) {
                        *place = *number;
                    }
                    vectors[CODES * lanes + lane] = word.iter().sum();
                }
            }
        }
        let mut first_groups = Vec::with_capacity(blocks);
        let mut groups_of_words = Vec::with_capacity(blocks * lanes);
        let (mut group, mut end) = (0, matrix.group);
        for word in 0..blocks * lanes {
            // Words behind the last one have data of zeros, and any scale.
            if word * CODES == end && end < matrix.depth {
                (group, end) = (group + 1, end + matrix.group);
            }
            if word % lanes == 0 {
                first_groups.push(group);
            }
            groups_of_words.push((group - first_groups[word / lanes]) as u32);
        }
        Data { rows: prepared, stride, first_groups, groups_of_words }
    }

    #[inline(always)]
    fn row<const N: usize>(&self, row: usize) -> &[DataBlock<N>] {
        self.rows[row * self.stride..][..self.stride].as_chunks().0.as_chunks().0
    }
}

impl OnLanes for Part<'_, '_, Data> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(mut self, lanes: L) {
        let is_signed = self.matrix.format == Format::I4;
        match (is_signed, self.parameters.zero_points.is_empty()) {
            (true, true) => self.multiply::<L, true, false, N>(lanes),
            (true, false) => self.multiply::<L, true, true, N>(lanes),
            (false, true) => self.multiply::<L, false, false, N>(lanes),
            (false, false) => self.multiply::<L, false, true, N>(lanes),
        }
    }
}

impl Part<'_, '_, Data> {
    #[inline(always)]
    fn multiply<L: Lanes<N>, const SIGNED: bool, const SHIFTED: bool, const N: usize>(
        &mut self,
        lanes: L,
    ) {
        let count = self.output.first().map_or(0, |row| row.len());
        let of_data = self.output.len();
        for first in (0..of_data).step_by(2) {
            let is_pair = of_data - first >= 2;
            let whole = count / 4 * 4;
            for row in (0..whole).step_by(4) {
                match is_pair {
                    true => self.rows::<L, SIGNED, SHIFTED, N, 4, 2>(lanes, row, first),
                    false => self.rows::<L, SIGNED, SHIFTED, N, 4, 1>(lanes, row, first),
                }
            }
            for row in whole..count {
                match is_pair {
                    true => self.rows::<L, SIGNED, SHIFTED, N, 1, 2>(lanes, row, first),
                    false => self.rows::<L, SIGNED, SHIFTED, N, 1, 1>(lanes, row, first),
                }
            }
        }
    }

    /// `C` rows of the matrix, and `R` rows of data.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn rows<
        L: Lanes<N>,
        const SIGNED: bool,
        const SHIFTED: bool,
        const N: usize,
        const C: usize,
        const R: usize,
    >(
        &mut self,
        lanes: L,
        first: usize,
        first_data: usize,
    ) {
        let (row_bytes, groups) = (self.matrix.row_bytes(), self.matrix.groups());
        let codes: [&[u8]; C] = std::array::from_fn(|row| self.row(first + row));
        let of_groups: [Groups; C] = std::array::from_fn(|row| {
            let begin = (first + row) * groups;
            let Parameters { scales, zero_points } = self.parameters;
            let zero_points = if SHIFTED { &zero_points[begin..] } else { &[] };
            Groups { scales: &scales[begin..], zero_points }
        });
        let data: [&[DataBlock<N>]; R] = std::array::from_fn(|row| self.data.row(first_data + row));
        let blocks = data[0].len();
        let data = data.map(|data| &data[..blocks]);
        let first_groups = &self.data.first_groups[..blocks];
        let groups_of_words = &self.data.groups_of_words.as_chunks::<N>().0[..blocks];
        // The last block of a row may not be whole.
        let whole = row_bytes / (4 * N);
        let words: [&[Words<N>]; C] =
            std::array::from_fn(|row| &codes[row].as_chunks().0.as_chunks().0[..whole]);
        let mut next = codes[0].as_ptr().wrapping_add((C * row_bytes).max(AHEAD));
        let mut totals = [[lanes.splat(0.); R]; C];
        for block in 0..whole {
            for line in (0..C * 4 * N).step_by(LINE) {
                lanes.prefetch(next.wrapping_add(line));
            }
            next = next.wrapping_add(C * 4 * N);
            let factors = data.map(|data| &data[block]);
            let place = (first_groups[block], &groups_of_words[block]);
            for row in 0..C {
                let (words, groups) = (&words[row][block], of_groups[row]);
                add::<L, SIGNED, SHIFTED, N, R>(
                    lanes,
                    words,
                    groups,
                    place,
                    factors,
                    &mut totals[row],
                );
            }
        }
        if whole < blocks {
            let factors = data.map(|data| &data[whole]);
            let place = (first_groups[whole], &groups_of_words[whole]);
            for row in 0..C {
                let mut words = [[0; 4]; N];
                let rest = &codes[row][whole * 4 * N..];
                words.as_flattened_mut()[..rest.len()].copy_from_slice(rest);
                let groups = of_groups[row];
                add::<L, SIGNED, SHIFTED, N, R>(
                    lanes,
                    &words,
                    groups,
                    place,
                    factors,
                    &mut totals[row],
                );
            }
        }
        for row in 0..C {
            for of in 0..R {
                self.output[first_data + of][first + row] = lanes.sum(totals[row][of]);
            }
        }
    }
}

/// What the groups of a row have, from the first one on, and a vector of any numbers.
#[derive(Clone, Copy)]
struct Groups<'a> {
    scales: &'a [f32],
    zero_points: &'a [f32],
}

/// Adds the products of a block of words and of rows of data. `place` is the group of the first word, and how many groups later those
/// of all words are.
#[inline(always)]
fn add<L: Lanes<N>, const SIGNED: bool, const SHIFTED: bool, const N: usize, const R: usize>(
    lanes: L,
    words: &Words<N>,
    groups: Groups,
    (first_group, groups_of_words): (usize, &[u32; N]),
    factors: [&DataBlock<N>; R],
    totals: &mut [L::Numbers; R],
) {
    let numbers = lanes.nibbles_of_words::<SIGNED>(lanes.load_words(words));
    let scale = of_words(lanes, groups.scales, first_group, groups_of_words);
    let zero_point = match SHIFTED {
        true => of_words(lanes, groups.zero_points, first_group, groups_of_words),
        false => lanes.splat(0.),
    };
    for of in 0..R {
        let mut sums = [lanes.splat(0.); 2];
        if SHIFTED {
            let sum = lanes.load(&factors[of][CODES]);
            sums[1] = lanes.sub(sums[1], lanes.mul(zero_point, sum));
        }
        for code in 0..CODES {
            let factor = lanes.load(&factors[of][code]);
            sums[code % 2] = lanes.mul_add(numbers[code], factor, sums[code % 2]);
        }
        totals[of] = lanes.mul_add(scale, lanes.add(sums[0], sums[1]), totals[of]);
    }
}

/// What the words of a block have.
#[inline(always)]
fn of_words<L: Lanes<N>, const N: usize>(
    lanes: L,
    numbers: &[f32],
    first_group: usize,
    groups_of_words: &[u32; N],
) -> L::Numbers {
    match numbers[first_group..].first_chunk() {
        Some(numbers) => lanes.permute(numbers, groups_of_words),
        None => unreachable!("a vector of numbers is behind those of the last group"),
    }
}
