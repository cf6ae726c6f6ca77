//! Few rows of data, in floats: each code is read once for two rows.

use std::ops::Range;

use super::CompressedMatrix;
use super::format::{Decode, with_format};
use super::matrix::FewTokensTask;
use crate::isa::{Instructions, Lanes, OnLanes, padded};
use crate::memory::{Scratch, StreamPrefetch};

/// How many numbers of a row of data meet codes of 16 bits at once: they have room in half of a first-level cache of 32 KiB.
const DATA_AT_ONCE: usize = if cfg!(test) { 64 } else { 1 << 12 };

/// Rows of data, in whole blocks of two vectors, as [`Decode::decode`] has codes.
pub(super) struct FloatData {
    /// With zeros at the end.
    rows: Scratch,
    /// How far rows are apart.
    stride: usize,
    /// For each row and each group, the sums of the lanes of its vectors.
    sums: Scratch,
}

impl FloatData {
    pub fn new(instructions: Instructions, matrix: &CompressedMatrix, data: &[f32]) -> FloatData {
        let (rows, lanes) = (data.chunks_exact(matrix.depth), instructions.lanes());
        let stride = matrix.depth.next_multiple_of(2 * lanes);
        let of_row = matrix.groups() * lanes;
        let mut prepared = Scratch::new(rows.len() * stride);
        let mut sums = Scratch::new(rows.len() * of_row);
        let places = prepared.chunks_exact_mut(stride).zip(sums.chunks_exact_mut(of_row));
        for (row, (prepared, sums)) in rows.zip(places) {
            prepared[..row.len()].copy_from_slice(row);
            prepared[row.len()..].fill(0.);
            if matrix.format.bits() == 4 {
                let blocks = prepared.chunks_exact_mut(2 * lanes).zip(row.chunks(2 * lanes));
                for (block, numbers) in blocks {
                    block.fill(0.);
                    for (place, pair) in numbers.as_chunks().0.iter().enumerate() {
                        [block[place], block[lanes + place]] = *pair;
                    }
                }
            }
            instructions.run(SumGroups { prepared, group: matrix.group, sums });
        }
        FloatData { rows: prepared, stride, sums }
    }

    /// The blocks of a row.
    #[inline(always)]
    fn row<const N: usize>(&self, row: usize) -> &[[[f32; N]; 2]] {
        self.rows[row * self.stride..][..self.stride].as_chunks().0.as_chunks().0
    }

    /// The sums of the groups of a row.
    #[inline(always)]
    fn sums<const N: usize>(&self, groups: usize, row: usize) -> &[[f32; N]] {
        &self.sums.as_chunks::<N>().0[row * groups..]
    }
}

/// Adds up the lanes of each group.
struct SumGroups<'a> {
    prepared: &'a [f32],
    group: usize,
    sums: &'a mut [f32],
}

impl OnLanes for SumGroups<'_> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        let blocks = self.prepared.as_chunks::<N>().0;
        let vectors = self.group.div_ceil(2 * N) * 2;
        for (group, place) in blocks.chunks(vectors).zip(self.sums.as_chunks_mut::<N>().0) {
            let mut sum = lanes.splat(0.);
            for vector in group {
                sum = lanes.add(sum, lanes.load(vector));
            }
            lanes.store(place, sum);
        }
    }
}

impl OnLanes for FewTokensTask<'_, '_, FloatData> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(mut self, lanes: L) {
        with_format!(self.matrix.format, D => self.of_all_tokens::<L, D, N>(lanes));
    }
}

impl FewTokensTask<'_, '_, FloatData> {
    #[inline(always)]
    fn of_all_tokens<L: Lanes<N>, D: Decode, const N: usize>(&mut self, lanes: L) {
        for first in (0..self.output.len()).step_by(2) {
            match self.output.len() - first {
                1 => self.of_tokens::<L, D, N, 1>(lanes, first),
                _ => self.of_tokens::<L, D, N, 2>(lanes, first),
            }
        }
    }

    /// The products with `TOKENS` rows of data.
    #[inline(always)]
    fn of_tokens<L: Lanes<N>, D: Decode, const N: usize, const TOKENS: usize>(
        &mut self,
        lanes: L,
        first_token: usize,
    ) {
        let (count, depth) = (self.output[first_token].len(), self.matrix.depth);
        if self.matrix.groups() > 1 {
            for row in 0..count {
                // Loops of a constant take much less time.
                match self.matrix.group / (2 * N) {
                    2 => self.row_of_groups::<L, D, N, TOKENS, 2>(lanes, row, first_token),
                    4 => self.row_of_groups::<L, D, N, TOKENS, 4>(lanes, row, first_token),
                    8 => self.row_of_groups::<L, D, N, TOKENS, 8>(lanes, row, first_token),
                    _ => self.row_of_groups::<L, D, N, TOKENS, 0>(lanes, row, first_token),
                }
            }
            return;
        }
        // Long data meets codes of 16 bits in parts: all of it would leave the first-level cache.
        let is_long = D::BITS == 16 && depth > DATA_AT_ONCE;
        let at_once = if is_long { DATA_AT_ONCE } else { depth };
        // One row of data meets rows of codes of 16 bits one after the other: two at once are slower.
        let in_pairs = !is_long && (D::BITS < 16 || TOKENS > 1);
        let pairs = if in_pairs { count / 2 * 2 } else { 0 };
        for begin in (0..depth).step_by(at_once) {
            let steps = begin..(begin + at_once).min(depth);
            for row in (0..pairs).step_by(2) {
                self.rows_of_one_group::<L, D, N, 2, TOKENS>(lanes, row, first_token, &steps);
            }
            for row in pairs..count {
                self.rows_of_one_group::<L, D, N, 1, TOKENS>(lanes, row, first_token, &steps);
            }
        }
    }

    /// A row of the matrix, whose groups are `B` whole blocks, or any number of them if that is 0, and `TOKENS` rows of data. Sums of
    /// groups do not wait for each other.
    #[inline(always)]
    fn row_of_groups<
        L: Lanes<N>,
        D: Decode,
        const N: usize,
        const TOKENS: usize,
        const B: usize,
    >(
        &mut self,
        lanes: L,
        row: usize,
        first_token: usize,
    ) {
        let block_bytes = 2 * N * D::BITS / 8;
        let blocks = if B > 0 { B } else { self.matrix.group / (2 * N) };
        let groups = self.matrix.groups();
        let codes = self.row(row).chunks_exact(blocks * block_bytes);
        let parameters = row * groups..(row + 1) * groups;
        let scales = &self.parameters.scales[parameters.clone()];
        let zero_points = self.parameters.zero_points.get(parameters).unwrap_or_default();
        let mut data: [_; TOKENS] =
            std::array::from_fn(|row| self.data.row::<N>(first_token + row).chunks_exact(blocks));
        let mut sums_of_data: [_; TOKENS] =
            std::array::from_fn(|row| self.data.sums::<N>(groups, first_token + row).iter());
        let mut totals = [lanes.splat(0.); TOKENS];
        let mut next = StreamPrefetch::behind(self.row(row).as_ptr(), 0);
        for (group, (codes, scale)) in codes.zip(scales).enumerate() {
            next.ask(blocks * block_bytes);
            let zero_point = zero_points.get(group).map(|zero_point| lanes.splat(-zero_point));
            let mut sums = [[lanes.splat(0.); 2]; TOKENS];
            let mut factors = [&[][..]; TOKENS];
            for token in 0..TOKENS {
                let (Some(sum), Some(data)) = (sums_of_data[token].next(), data[token].next())
                else {
                    unreachable!("the data has all groups of the matrix")
                };
                if let Some(zero_point) = zero_point {
                    sums[token][0] = lanes.mul(zero_point, lanes.load(sum));
                }
                factors[token] = &data[..blocks];
            }
            let codes = &codes[..blocks * block_bytes];
            for block in 0..blocks {
                let bytes = &codes[block * block_bytes..][..block_bytes];
                let factors = factors.map(|factors| &factors[block]);
                add_block::<L, D, N, TOKENS>(lanes, bytes, factors, &mut sums);
            }
            let scale = lanes.splat(*scale);
            for token in 0..TOKENS {
                totals[token] =
                    lanes.mul_add(scale, lanes.add(sums[token][0], sums[token][1]), totals[token]);
            }
        }
        for (output, total) in self.output[first_token..].iter_mut().zip(totals) {
            output[row] = lanes.sum(total);
        }
    }

    /// Some steps of `ROWS` rows of the matrix, which are a group each, and of `TOKENS` rows of data.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn rows_of_one_group<
        L: Lanes<N>,
        D: Decode,
        const N: usize,
        const ROWS: usize,
        const TOKENS: usize,
    >(
        &mut self,
        lanes: L,
        first: usize,
        first_token: usize,
        steps: &Range<usize>,
    ) {
        let (block_bytes, row_bytes) = (2 * N * D::BITS / 8, self.matrix.row_bytes());
        let part = steps.start * D::BITS / 8..steps.end * D::BITS / 8;
        let codes: [&[u8]; ROWS] = std::array::from_fn(|row| &self.row(first + row)[part.clone()]);
        let data: [&[[[f32; N]; 2]]; TOKENS] = std::array::from_fn(|row| {
            &self.data.row::<N>(first_token + row)[steps.start / (2 * N)..]
        });
        let mut sums = [[[lanes.splat(0.); 2]; TOKENS]; ROWS];
        if steps.start == 0 && !self.parameters.zero_points.is_empty() {
            for row in 0..ROWS {
                let zero_point = lanes.splat(-self.parameters.zero_points[first + row]);
                for token in 0..TOKENS {
                    let sum = lanes.load(&self.data.sums::<N>(1, first_token + token)[0]);
                    sums[row][token][0] = lanes.mul(zero_point, sum);
                }
            }
        }
        let begin = codes[0].as_ptr();
        let mut ahead = match steps.len() < self.matrix.depth {
            // The same steps of the next two rows.
            true => StreamPrefetch::new(begin, 2 * row_bytes, row_bytes),
            // Rows that are read at once are asked for one after the other.
            false => StreamPrefetch::behind(begin, if ROWS > 1 { ROWS * row_bytes } else { 0 }),
        };
        // The last block of a row may not be whole.
        let whole = part.len() / block_bytes;
        let of_blocks = codes.map(|codes| &codes[..whole * block_bytes]);
        let of_data = data.map(|data| &data[..whole]);
        for block in 0..whole {
            ahead.ask(ROWS * block_bytes);
            let factors = of_data.map(|data| &data[block]);
            for row in 0..ROWS {
                let bytes = &of_blocks[row][block * block_bytes..][..block_bytes];
                add_block::<L, D, N, TOKENS>(lanes, bytes, factors, &mut sums[row]);
            }
        }
        if whole * block_bytes < part.len() {
            for row in 0..ROWS {
                let rest = &codes[row][whole * block_bytes..];
                ahead.ask(rest.len());
                let bytes: [u8; 64] = padded(rest);
                let factors = data.map(|data| &data[whole]);
                add_block::<L, D, N, TOKENS>(lanes, &bytes[..block_bytes], factors, &mut sums[row]);
            }
        }
        for row in 0..ROWS {
            let scale = self.parameters.scales[first + row];
            for token in 0..TOKENS {
                let product =
                    lanes.sum(lanes.add(sums[row][token][0], sums[row][token][1])) * scale;
                let place = &mut self.output[first_token + token][first + row];
                *place = if steps.start == 0 { product } else { *place + product };
            }
        }
    }
}

/// Adds the products of a block of codes and `TOKENS` blocks of data.
#[inline(always)]
fn add_block<L: Lanes<N>, D: Decode, const N: usize, const TOKENS: usize>(
    lanes: L,
    bytes: &[u8],
    data: [&[[f32; N]; 2]; TOKENS],
    sums: &mut [[L::Floats; 2]; TOKENS],
) {
    let numbers = D::decode(lanes, bytes);
    for token in 0..TOKENS {
        for half in 0..2 {
            let factor = lanes.load(&data[token][half]);
            sums[token][half] = lanes.mul_add(numbers[half], factor, sums[token][half]);
        }
    }
}
