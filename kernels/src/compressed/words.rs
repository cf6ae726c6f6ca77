//! Few rows of data, and codes of four bits: each lane of a vector has the eight codes of a word of four bytes.

use super::CompressedMatrix;
use super::matrix::{FewRowsTask, GroupParameters, Tiles};
use crate::isa::{Instructions, Lanes, OnLanes};
use crate::memory::{Scratch, StreamPrefetch};

/// The codes of a word.
const CODES: usize = 8;

/// The words of a block of a row of the matrix.
type WordBlock<const N: usize> = [[u8; 4]; N];

/// A block of a row of data: the numbers that the codes of each place in words are multiplied with, and the sums of those of a word.
type FloatBlock<const N: usize> = [[f32; N]; CODES + 1];

/// Rows of data in blocks.
fn numbers_of(lanes: usize, data: &[f32], depth: usize) -> Scratch {
    let vectors = CODES + 1;
    let blocks = depth.div_ceil(CODES * lanes);
    let mut numbers = Scratch::new(data.len() / depth * blocks * vectors * lanes);
    let places = numbers.chunks_exact_mut(blocks * vectors * lanes);
    for (row, place) in data.chunks_exact(depth).zip(places) {
        let row_blocks = row.chunks(CODES * lanes).zip(place.chunks_exact_mut(vectors * lanes));
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
    numbers
}

/// Rows of data in blocks, and where the words of a block have their scales.
pub(super) struct WordData {
    rows: Scratch,
    /// How far rows are apart.
    stride: usize,
    /// The group of the first word of each block.
    first_groups: Vec<usize>,
    /// For each word of a block, how many groups later its group is.
    groups_of_words: Vec<u32>,
}

impl WordData {
    pub fn new(kind: Instructions, matrix: &CompressedMatrix, data: &[f32]) -> WordData {
        let (lanes, depth) = (kind.lanes(), matrix.depth);
        let blocks = depth.div_ceil(CODES * lanes);
        let mut first_groups = Vec::with_capacity(blocks);
        let mut groups_of_words = Vec::with_capacity(blocks * lanes);
        for word in 0..blocks * lanes {
            let group = matrix.group_of(word * CODES);
            if word % lanes == 0 {
                first_groups.push(group);
            }
            groups_of_words.push((group - first_groups[word / lanes]) as u32);
        }
        let rows = numbers_of(lanes, data, depth);
        let stride = rows.len() / (data.len() / depth);
        WordData { rows, stride, first_groups, groups_of_words }
    }

    #[inline(always)]
    fn row<const N: usize>(&self, row: usize) -> &[FloatBlock<N>] {
        self.rows[row * self.stride..][..self.stride].as_chunks().0.as_chunks().0
    }
}

impl OnLanes for FewRowsTask<'_, '_, WordData> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(mut self, lanes: L) {
        match (self.matrix.format.is_signed(), self.parameters.zero_points.is_empty()) {
            (true, true) => self.multiply::<L, true, false, N>(lanes),
            (true, false) => self.multiply::<L, true, true, N>(lanes),
            (false, true) => self.multiply::<L, false, false, N>(lanes),
            (false, false) => self.multiply::<L, false, true, N>(lanes),
        }
    }
}

impl FewRowsTask<'_, '_, WordData> {
    #[inline(always)]
    fn multiply<L: Lanes<N>, const SIGNED: bool, const SHIFTED: bool, const N: usize>(
        &mut self,
        lanes: L,
    ) {
        for (row, first, are_four, is_pair) in Tiles::new(self.output) {
            match (are_four, is_pair) {
                (true, true) => self.rows::<L, SIGNED, SHIFTED, N, 4, 2>(lanes, row, first),
                (true, false) => self.rows::<L, SIGNED, SHIFTED, N, 4, 1>(lanes, row, first),
                (false, true) => self.rows::<L, SIGNED, SHIFTED, N, 1, 2>(lanes, row, first),
                (false, false) => self.rows::<L, SIGNED, SHIFTED, N, 1, 1>(lanes, row, first),
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
        // Behind those of a row come those of the next one.
        let codes: [&[u8]; C] = std::array::from_fn(|row| &self.bytes[(first + row) * row_bytes..]);
        // Equal lengths need one check for all rows.
        let of_groups: [Groups; C] = std::array::from_fn(|row| {
            let begin = (first + row) * groups;
            let GroupParameters { scales, zero_points, .. } = self.parameters;
            let scales = &scales[begin..][..groups + N];
            let zero_points = if SHIFTED { &zero_points[begin..][..groups + N] } else { &[] };
            Groups { scales, zero_points }
        });
        let data: [&[FloatBlock<N>]; R] =
            std::array::from_fn(|row| self.data.row(first_data + row));
        let blocks = data[0].len();
        let data = data.map(|data| &data[..blocks]);
        let first_groups = &self.data.first_groups[..blocks];
        let groups_of_words = &self.data.groups_of_words.as_chunks::<N>().0[..blocks];
        // The last block of a row may not be whole. Words of the next row do no harm there, as the data has zeros; but the last rows of
        // the matrix have too few behind them.
        let is_followed = codes[C - 1].len() >= blocks * 4 * N;
        let whole = if is_followed { blocks } else { row_bytes / (4 * N) };
        let words: [&[WordBlock<N>]; C] =
            std::array::from_fn(|row| &codes[row].as_chunks().0.as_chunks().0[..whole]);
        let mut next = StreamPrefetch::behind(codes[0].as_ptr(), C * row_bytes);
        let mut totals = [[lanes.splat(0.); R]; C];
        for block in 0..whole {
            next.ask(C * 4 * N);
            let codes = std::array::from_fn(|row| &words[row][block]);
            let factors = data.map(|data| &data[block]);
            let place = (first_groups[block], &groups_of_words[block]);
            add::<L, SIGNED, SHIFTED, N, C, R>(
                lanes,
                codes,
                of_groups,
                place,
                factors,
                &mut totals,
            );
        }
        if whole < blocks {
            let mut words = [[[0; 4]; N]; C];
            for row in 0..C {
                let rest = &codes[row][whole * 4 * N..row_bytes];
                words[row].as_flattened_mut()[..rest.len()].copy_from_slice(rest);
            }
            let factors = data.map(|data| &data[whole]);
            let place = (first_groups[whole], &groups_of_words[whole]);
            add::<L, SIGNED, SHIFTED, N, C, R>(
                lanes,
                words.each_ref(),
                of_groups,
                place,
                factors,
                &mut totals,
            );
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

/// Adds the products of some vectors of words and of blocks of data. `place` is the group of the first word, and how many groups later
/// those of all words are.
#[inline(always)]
fn add<
    L: Lanes<N>,
    const SIGNED: bool,
    const SHIFTED: bool,
    const N: usize,
    const C: usize,
    const R: usize,
>(
    lanes: L,
    words: [&WordBlock<N>; C],
    groups: [Groups; C],
    (first_group, groups_of_words): (usize, &[u32; N]),
    blocks: [&FloatBlock<N>; R],
    totals: &mut [[L::Floats; R]; C],
) {
    // Vectors that the caller loads cost 1.05 times the time.
    let mut vectors = [lanes.load_words(words[0]); C];
    for row in 1..C {
        vectors[row] = lanes.load_words(words[row]);
    }
    let mut products = products::<L, SIGNED, N, C, R>(lanes, vectors, blocks);
    for row in 0..C {
        if SHIFTED {
            let zero_points = groups[row].zero_points;
            let zero_point = of_words(lanes, zero_points, first_group, groups_of_words);
            for of in 0..R {
                let of_zero_point = lanes.mul(zero_point, lanes.load(&blocks[of][CODES]));
                products[row][of] = lanes.sub(products[row][of], of_zero_point);
            }
        }
        let scale = of_words(lanes, groups[row].scales, first_group, groups_of_words);
        for of in 0..R {
            totals[row][of] = lanes.mul_add(scale, products[row][of], totals[row][of]);
        }
    }
}

/// For each word of some vectors, the sum of the products of its codes with some blocks.
#[inline(always)]
fn products<L: Lanes<N>, const SIGNED: bool, const N: usize, const C: usize, const R: usize>(
    lanes: L,
    words: [L::Words; C],
    blocks: [&FloatBlock<N>; R],
) -> [[L::Floats; R]; C] {
    let mut products = [[lanes.splat(0.); R]; C];
    for row in 0..C {
        let numbers = lanes.nibbles_of_words::<SIGNED>(words[row]);
        for of in 0..R {
            let mut sums = [lanes.splat(0.); 2];
            for code in 0..CODES {
                let factor = lanes.load(&blocks[of][code]);
                sums[code % 2] = lanes.mul_add(numbers[code], factor, sums[code % 2]);
            }
            products[row][of] = lanes.add(sums[0], sums[1]);
        }
    }
    products
}

/// What the words of a block have.
#[inline(always)]
fn of_words<L: Lanes<N>, const N: usize>(
    lanes: L,
    numbers: &[f32],
    first_group: usize,
    groups_of_words: &[u32; N],
) -> L::Floats {
    match numbers[first_group..].first_chunk() {
        Some(numbers) => lanes.permute(lanes.load(numbers), groups_of_words),
        None => unreachable!("a vector of numbers is behind those of the last group"),
    }
}
