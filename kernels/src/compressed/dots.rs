//! Few rows of data, and codes of 8 or 16 bits: each is read once for two rows.

use std::ops::Range;

use super::CompressedMatrix;
use super::format::{BF16, Decode, F16, Format, I8, U8};
use super::matrix::FewRowsTask;
use crate::isa::{Instructions, Lanes, OnLanes};
use crate::memory::{Scratch, StreamPrefetch};

/// How many numbers of a row of data meet codes of 16 bits at once: they have room in half of a first-level cache of 32 KiB.
const DATA_AT_ONCE: usize = if cfg!(test) { 64 } else { 1 << 12 };

/// Rows of data, in whole blocks of two vectors.
pub(super) struct FloatData {
    /// With zeros at the end.
    rows: Scratch,
    /// How far rows are apart.
    stride: usize,
    /// For each row and each group, the sums of the lanes of its vectors.
    sums: Scratch,
}

impl FloatData {
    pub fn new(kind: Instructions, matrix: &CompressedMatrix, data: &[f32]) -> FloatData {
        let rows = data.chunks_exact(matrix.depth);
        let stride = matrix.depth.next_multiple_of(2 * kind.lanes());
        let of_row = matrix.groups() * kind.lanes();
        let mut prepared = Scratch::new(rows.len() * stride);
        let mut sums = Scratch::new(rows.len() * of_row);
        let places = prepared.chunks_exact_mut(stride).zip(sums.chunks_exact_mut(of_row));
        for (row, (prepared, sums)) in rows.zip(places) {
            prepared[..row.len()].copy_from_slice(row);
            prepared[row.len()..].fill(0.);
            kind.run(SumGroups { prepared, group: matrix.group, sums });
        }
        FloatData { rows: prepared, stride, sums }
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &[f32] {
        &self.rows[row * self.stride..][..self.stride]
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
    type Output = ();

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

impl OnLanes for FewRowsTask<'_, '_, FloatData> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(mut self, lanes: L) {
        match self.matrix.format {
            Format::F16 => self.of_format::<L, F16, N>(lanes),
            Format::BF16 => self.of_format::<L, BF16, N>(lanes),
            Format::I8 => self.of_format::<L, I8, N>(lanes),
            Format::U8 => self.of_format::<L, U8, N>(lanes),
            Format::I4 | Format::U4 => unreachable!("codes of four bits are multiplied by words"),
        }
    }
}

impl FewRowsTask<'_, '_, FloatData> {
    #[inline(always)]
    fn of_format<L: Lanes<N>, D: Decode, const N: usize>(&mut self, lanes: L) {
        let count = self.output.first().map_or(0, |row| row.len());
        let in_groups = self.matrix.groups() > 1;
        for first in (0..self.output.len()).step_by(2) {
            let rows = (self.output.len() - first).min(2);
            // Long data meets the rows in parts: with 8,192 numbers that takes 0.72 of the time (AMD EPYC, family 25 model 17).
            if D::BITS == 16 && !in_groups && self.matrix.depth > DATA_AT_ONCE {
                for begin in (0..self.matrix.depth).step_by(DATA_AT_ONCE) {
                    let steps = begin..(begin + DATA_AT_ONCE).min(self.matrix.depth);
                    for row in 0..count {
                        match rows {
                            1 => self.part_of_row::<L, D, N, 1>(lanes, row, first, &steps),
                            _ => self.part_of_row::<L, D, N, 2>(lanes, row, first, &steps),
                        }
                    }
                }
                continue;
            }
            // Rows of codes of 16 bits are read one after the other: four at once took 1.09 times as long, and those of 8 bits as long
            // or longer (AMD EPYC, family 26 model 2).
            let at_once = if in_groups || (rows == 1 && D::BITS == 16) { 1 } else { 2 };
            let whole = count / at_once * at_once;
            for row in (0..whole).step_by(at_once) {
                match (in_groups, rows) {
                    (true, 1) => self.row_of_groups::<L, D, N, 1>(lanes, row, first),
                    (true, _) => self.row_of_groups::<L, D, N, 2>(lanes, row, first),
                    (false, 1) if at_once == 1 => {
                        self.rows_of_one_group::<L, D, N, 1, 1>(lanes, row, first)
                    }
                    (false, 1) => self.rows_of_one_group::<L, D, N, 2, 1>(lanes, row, first),
                    (false, _) => self.rows_of_one_group::<L, D, N, 2, 2>(lanes, row, first),
                }
            }
            for row in whole..count {
                match rows {
                    1 => self.rows_of_one_group::<L, D, N, 1, 1>(lanes, row, first),
                    _ => self.rows_of_one_group::<L, D, N, 1, 2>(lanes, row, first),
                }
            }
        }
    }

    /// A row of the matrix, whose groups are whole blocks, and `R` rows of data. Sums of groups do not wait for each other.
    #[inline(always)]
    fn row_of_groups<L: Lanes<N>, D: Decode, const N: usize, const R: usize>(
        &mut self,
        lanes: L,
        row: usize,
        first_data: usize,
    ) {
        // Loops of a constant take 0.6 of the time.
        match self.matrix.group / (2 * N) {
            2 => self.row_of_blocks::<L, D, N, R, 2>(lanes, row, first_data),
            4 => self.row_of_blocks::<L, D, N, R, 4>(lanes, row, first_data),
            8 => self.row_of_blocks::<L, D, N, R, 8>(lanes, row, first_data),
            _ => self.row_of_blocks::<L, D, N, R, 0>(lanes, row, first_data),
        }
    }

    /// The same for groups of `B` blocks, or of any number if that is 0.
    #[inline(always)]
    fn row_of_blocks<L: Lanes<N>, D: Decode, const N: usize, const R: usize, const B: usize>(
        &mut self,
        lanes: L,
        row: usize,
        first_data: usize,
    ) {
        let block_bytes = 2 * N * D::BITS / 8;
        let blocks = if B > 0 { B } else { self.matrix.group / (2 * N) };
        let groups = self.matrix.groups();
        let codes = self.row(row).chunks_exact(blocks * block_bytes);
        let parameters = row * groups..(row + 1) * groups;
        let scales = &self.parameters.scales[parameters.clone()];
        let zero_points = &self.parameters.zero_points[parameters];
        let mut data: [_; R] =
            std::array::from_fn(|row| self.data.row(first_data + row).chunks_exact(blocks * 2 * N));
        let mut sums_of_data: [_; R] =
            std::array::from_fn(|row| self.data.sums::<N>(groups, first_data + row).iter());
        let mut totals = [lanes.splat(0.); R];
        let mut next = StreamPrefetch::behind(self.row(row).as_ptr(), 0);
        for ((codes, scale), zero_point) in codes.zip(scales).zip(zero_points) {
            next.ask(blocks * block_bytes);
            let zero_point = lanes.splat(-zero_point);
            let mut sums = [[lanes.splat(0.); 2]; R];
            let mut factors = [&[][..]; R];
            for of in 0..R {
                let (Some(sum), Some(data)) = (sums_of_data[of].next(), data[of].next()) else {
                    return;
                };
                sums[of][0] = lanes.mul(zero_point, lanes.load(sum));
                factors[of] = &data[..blocks * 2 * N];
            }
            let codes = &codes[..blocks * block_bytes];
            for block in 0..blocks {
                let bytes = &codes[block * block_bytes..][..block_bytes];
                let numbers = D::decode(lanes, bytes);
                for of in 0..R {
                    let factors = factors[of][block * 2 * N..][..2 * N].as_chunks::<N>().0;
                    for half in 0..2 {
                        let factor = lanes.load(&factors[half]);
                        sums[of][half] = lanes.mul_add(numbers[half], factor, sums[of][half]);
                    }
                }
            }
            let scale = lanes.splat(*scale);
            for of in 0..R {
                totals[of] = lanes.mul_add(scale, lanes.add(sums[of][0], sums[of][1]), totals[of]);
            }
        }
        for (output, total) in self.output[first_data..].iter_mut().zip(totals) {
            output[row] = lanes.sum(total);
        }
    }

    /// `C` rows of the matrix, which are a group each, and `R` rows of data.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn rows_of_one_group<L: Lanes<N>, D: Decode, const N: usize, const C: usize, const R: usize>(
        &mut self,
        lanes: L,
        first: usize,
        first_data: usize,
    ) {
        let codes: [&[u8]; C] = std::array::from_fn(|row| self.row(first + row));
        let data: [&[[f32; N]]; R] =
            std::array::from_fn(|row| self.data.row(first_data + row).as_chunks::<N>().0);
        let mut sums = [[[lanes.splat(0.); 2]; R]; C];
        for row in 0..C {
            self.begin_sums::<L, N, R>(lanes, first + row, first_data, &mut sums[row]);
        }
        // Rows that are read at once are asked for one after the other.
        let rows = if C > 1 { C * self.matrix.row_bytes() } else { 0 };
        let ahead = StreamPrefetch::behind(codes[0].as_ptr(), rows);
        add_products::<L, D, N, C, R>(lanes, codes, data, ahead, &mut sums);
        for row in 0..C {
            for of in 0..R {
                let sum = lanes.sum(lanes.add(sums[row][of][0], sums[row][of][1]));
                self.output[first_data + of][first + row] =
                    sum * self.parameters.scales[first + row];
            }
        }
    }

    /// What the zero point of a row of the matrix, which is a group, takes from its sums, if there are zero points.
    #[inline(always)]
    fn begin_sums<L: Lanes<N>, const N: usize, const R: usize>(
        &self,
        lanes: L,
        row: usize,
        first_data: usize,
        sums: &mut [[L::Floats; 2]; R],
    ) {
        if !self.parameters.zero_points.is_empty() {
            let zero_point = lanes.splat(-self.parameters.zero_points[row]);
            for (of, sums) in sums.iter_mut().enumerate() {
                let sum = lanes.load(&self.data.sums::<N>(1, first_data + of)[0]);
                sums[0] = lanes.mul(zero_point, sum);
            }
        }
    }

    /// Some steps of a row of the matrix, which is a group, and of `R` rows of data.
    #[inline(always)]
    fn part_of_row<L: Lanes<N>, D: Decode, const N: usize, const R: usize>(
        &mut self,
        lanes: L,
        row: usize,
        first_data: usize,
        steps: &Range<usize>,
    ) {
        let bytes = steps.start * D::BITS / 8..steps.end * D::BITS / 8;
        let codes = [&self.row(row)[bytes]];
        let data: [&[[f32; N]]; R] = std::array::from_fn(|row| {
            self.data.row(first_data + row)[steps.start..].as_chunks::<N>().0
        });
        let mut sums = [[[lanes.splat(0.); 2]; R]];
        if steps.start == 0 {
            self.begin_sums::<L, N, R>(lanes, row, first_data, &mut sums[0]);
        }
        // The same steps of the next two rows.
        let row_bytes = self.matrix.row_bytes();
        let ahead = StreamPrefetch::new(codes[0].as_ptr(), 2 * row_bytes, row_bytes);
        add_products::<L, D, N, 1, R>(lanes, codes, data, ahead, &mut sums);
        for (output, [a, b]) in self.output[first_data..].iter_mut().zip(sums[0]) {
            let product = lanes.sum(lanes.add(a, b)) * self.parameters.scales[row];
            output[row] = if steps.start == 0 { product } else { output[row] + product };
        }
    }
}

/// Adds the products of rows of codes and of data, and asks for the codes that come later.
#[inline(always)]
fn add_products<L: Lanes<N>, D: Decode, const N: usize, const C: usize, const R: usize>(
    lanes: L,
    codes: [&[u8]; C],
    data: [&[[f32; N]]; R],
    mut ahead: StreamPrefetch,
    sums: &mut [[[L::Floats; 2]; R]; C],
) {
    let block_bytes = 2 * N * D::BITS / 8;
    let row_bytes = codes[0].len();
    // The last block of a row may not be whole.
    let whole = row_bytes / block_bytes;
    let of_blocks = codes.map(|codes| &codes[..whole * block_bytes]);
    let of_data = data.map(|data| &data.as_chunks::<2>().0[..whole]);
    for block in 0..whole {
        ahead.ask(C * block_bytes);
        for row in 0..C {
            let bytes = &of_blocks[row][block * block_bytes..][..block_bytes];
            let numbers = D::decode(lanes, bytes);
            for of in 0..R {
                for half in 0..2 {
                    let factor = lanes.load(&of_data[of][block][half]);
                    sums[row][of][half] = lanes.mul_add(numbers[half], factor, sums[row][of][half]);
                }
            }
        }
    }
    if whole * block_bytes < row_bytes {
        for row in 0..C {
            let mut bytes = [0; 64];
            let rest = &codes[row][whole * block_bytes..];
            ahead.ask(rest.len());
            bytes[..rest.len()].copy_from_slice(rest);
            let numbers = D::decode(lanes, &bytes[..block_bytes]);
            for of in 0..R {
                for half in 0..2 {
                    let factor = lanes.load(&data[of][2 * whole + half]);
                    sums[row][of][half] = lanes.mul_add(numbers[half], factor, sums[row][of][half]);
                }
            }
        }
    }
}
