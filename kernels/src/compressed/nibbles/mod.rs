//! Few rows of data, and codes of four bits, on AVX2 or AVX-512 with VNNI: the data has [digits](super::digits).
//!
//! A vector has words of eight codes. Four vectors of a row are a block, in which each 32 neighbours are four words, 128 bits of a vector.
//! The words of the block change places, as in a matrix that is transposed: a lane of the four vectors then has four words that were
//! neighbours. So 32 codes have one sum for each digit. They are of one group, and what is done for sums, above all with the scales of groups,
//! is done for a quarter of the vectors. What is left of a row is blocks of one vector, each lane of which has the sums of a word.
//!
//! * `vnni.rs` multiplies vectors of 512 bits;
//! * `avx2.rs` multiplies those of 256 bits, which have other digits. Processors with AVX-VNNI or AVX-512 without VNNI use it, too.

// The data of blocks is floats, and words are any bytes.
#![allow(unsafe_code)]

mod avx2;
mod vnni;

use std::ops::Range;

use pulp::bytemuck::cast_slice;
use tract_core::prelude::TractResult;

use super::digits::{DigitLayout, DigitRows};
use super::matrix::{CompressedMatrix, FewTokensTask, LEAST_GROUP, ParameterType, TypedParameters};
use crate::isa::{Lanes, On};
use crate::memory::{LINE, StreamPrefetch};

/// The codes of a word, two of which are a byte.
const CODES: usize = 8;

/// The words of a vector.
type WordVector<const N: usize> = [[u8; 4]; N];

/// The vectors of a block that is transposed, and of one that is not.
const FOUR: usize = 4;
const ONE: usize = 1;

/// The data of a block of `V` vectors, for each lane. Digits and integers are the bits of floats.
#[repr(C)]
pub(super) struct NibbleBlock<const N: usize, const V: usize, const CORRECTIONS: usize> {
    /// For each vector of words three digits, the highest one first: of what codes of even places meet, and of what the others meet (on
    /// AVX2) or whole bytes (on AVX-512, see `vnni.rs`).
    digits: [[[[f32; N]; 3]; V]; 2],
    /// What the sums of products are multiplied with.
    scale: [f32; N],
    /// The sum of the numbers, divided by the scale.
    sum: [f32; N],
    /// Signed codes are multiplied as unsigned ones, which are greater by 8. This is what these 8 add to the sums of products, in
    /// integers. Unsigned codes do without (`CORRECTIONS` is 0): the data of long rows fills the first-level cache.
    corrections: [[f32; N]; CORRECTIONS],
}

impl<const N: usize, const V: usize, const CORRECTIONS: usize> NibbleBlock<N, V, CORRECTIONS> {
    /// How many floats it is.
    const LEN: usize = size_of::<Self>() / size_of::<f32>();

    /// The blocks of a part of a row.
    #[inline(always)]
    fn of_floats(floats: &[f32]) -> &[Self] {
        // SAFETY: a block is nothing but floats.
        unsafe { floats.align_to().1 }
    }

    /// The blocks of a part of a row, to be written.
    #[inline(always)]
    fn of_floats_mut(floats: &mut [f32]) -> &mut [Self] {
        // SAFETY: as above.
        unsafe { floats.align_to_mut().1 }
    }
}

const _: () = assert!(LEAST_GROUP.is_multiple_of(FOUR * CODES), "a lane has codes of one group");

/// The blocks of four vectors of a row, and those of one.
type NibbleBlocks<'a, const N: usize, const CORRECTIONS: usize> =
    (&'a [NibbleBlock<N, FOUR, CORRECTIONS>], &'a [NibbleBlock<N, ONE, CORRECTIONS>]);

/// Where a block of so many vectors has its first numbers of each lane.
const fn places_of_lanes<const N: usize>(vectors: usize) -> [usize; N] {
    let mut places = [0; N];
    let mut lane = 0;
    while lane < N {
        // Where it is transposed, lane `4 * i + j` has the words `4 * i` to `4 * i + 3` of vector `j`.
        places[lane] = match vectors {
            FOUR => lane % 4 * CODES * N + lane / 4 * 4 * CODES,
            ONE => lane * CODES,
            _ => panic!("a block has one vector or four"),
        };
        lane += 1;
    }
    places
}

/// With AVX-512, codes so many bytes ahead in the same row are asked for once more, for the first-level cache. At the end of a row, what
/// lies there is not the next row: finding that would cost short rows more than it gives long ones.
const NEXT: usize = 512;

/// What may be prefetched with a block: codes that are far ahead, and those of each row that come next, for the first-level cache.
pub(super) struct BlockPrefetch<'a, const ROWS: usize> {
    ahead: &'a mut StreamPrefetch,
    next: [*const u8; ROWS],
}

/// Vectors of `N` words whose codes the processor multiplies with digits.
pub(super) trait NibbleLanes<const N: usize>: Lanes<N> {
    /// Whether two rows of the matrix are multiplied at once.
    const IN_PAIRS: bool;

    /// Writes the data of a block. `numbers` has, for each code of a lane, what the code of each lane meets. Whether all have digits.
    fn write_block<const V: usize, const CORRECTIONS: usize>(
        self,
        numbers: &mut [Self::Floats],
        block: &mut NibbleBlock<N, V, CORRECTIONS>,
    ) -> bool;

    /// The vectors of a block, transposed.
    fn transpose_block(self, words: [Self::Words; FOUR]) -> [Self::Words; FOUR];

    /// The first bytes, with zeros where there are no more.
    fn first_words(self, bytes: &[u8]) -> Self::Words;

    /// Adds the products of a block of `V` vectors of words of some rows, and of its data. `parameters` has the scales of the lanes, and
    /// their zero points, if codes are `SHIFTED` by such.
    fn add_block<
        const SHIFTED: bool,
        const ROWS: usize,
        const TOKENS: usize,
        const V: usize,
        const CORRECTIONS: usize,
    >(
        self,
        words: [[Self::Words; V]; ROWS],
        data: [&NibbleBlock<N, V, CORRECTIONS>; TOKENS],
        parameters: [[Self::Floats; ROWS]; 2],
        asks: BlockPrefetch<ROWS>,
        totals: &mut [[Self::Floats; TOKENS]; ROWS],
    );
}

/// How many blocks of four vectors a row has, and how many of one. For signed codes, blocks have `MOST_CORRECTIONS` vectors of
/// [`NibbleBlock::corrections`], else none.
#[derive(Debug, Clone, Copy)]
pub(super) struct NibbleLayout<const N: usize, const MOST_CORRECTIONS: usize> {
    fours: usize,
    ones: usize,
    is_signed: bool,
}

impl<const N: usize, const MOST_CORRECTIONS: usize> NibbleLayout<N, MOST_CORRECTIONS> {
    /// The codes of a vector.
    const WIDTH: usize = CODES * N;

    fn new(depth: usize, is_signed: bool) -> Self {
        let (fours, rest) = (depth / (FOUR * Self::WIDTH), depth % (FOUR * Self::WIDTH));
        NibbleLayout { fours, ones: rest.div_ceil(Self::WIDTH), is_signed }
    }

    /// The first codes of the blocks, each with how many vectors the block has.
    fn begins(self) -> impl Iterator<Item = (usize, usize)> {
        let ones = (0..self.ones).map(move |it| ((self.fours * FOUR + it) * Self::WIDTH, ONE));
        (0..self.fours).map(|it| (it * FOUR * Self::WIDTH, FOUR)).chain(ones)
    }

    /// The floats of the data of all blocks of four vectors, and of all blocks of one.
    fn lens<const CORRECTIONS: usize>(self) -> [usize; 2] {
        [
            self.fours * NibbleBlock::<N, FOUR, CORRECTIONS>::LEN,
            self.ones * NibbleBlock::<N, ONE, CORRECTIONS>::LEN,
        ]
    }

    #[inline(always)]
    fn blocks<const CORRECTIONS: usize>(self, row: &[f32]) -> NibbleBlocks<'_, N, CORRECTIONS> {
        let (of_fours, of_ones) = row.split_at(self.lens::<CORRECTIONS>()[0]);
        (NibbleBlock::of_floats(of_fours), NibbleBlock::of_floats(of_ones))
    }

    #[inline(always)]
    fn write_blocks<L: NibbleLanes<N>, const CORRECTIONS: usize>(
        self,
        lanes: L,
        row: &[f32],
        place: &mut [f32],
    ) -> bool {
        let (of_fours, of_ones) = place.split_at_mut(self.lens::<CORRECTIONS>()[0]);
        let (fours, rest) = row.split_at(self.fours * FOUR * Self::WIDTH);
        let fours: &[[[[f32; CODES]; N]; FOUR]] = fours.as_chunks().0.as_chunks().0.as_chunks().0;
        let mut can_split = true;
        for (numbers, block) in fours.iter().zip(NibbleBlock::of_floats_mut(of_fours)) {
            let numbers = numbers.as_flattened().as_flattened();
            let mut of_lanes = numbers_of_lanes::<L, N, FOUR>(lanes, numbers);
            can_split &= lanes.write_block::<FOUR, CORRECTIONS>(&mut of_lanes, block);
        }
        let ones = rest.chunks(Self::WIDTH);
        for (numbers, block) in ones.zip(NibbleBlock::of_floats_mut(of_ones)) {
            let mut of_lanes = numbers_of_lanes::<L, N, ONE>(lanes, numbers);
            can_split &= lanes.write_block::<ONE, CORRECTIONS>(&mut of_lanes[..ONE * CODES], block);
        }
        can_split
    }
}

impl<L: NibbleLanes<N>, const N: usize, const MOST_CORRECTIONS: usize> DigitLayout<L>
    for NibbleLayout<N, MOST_CORRECTIONS>
{
    fn stride(self) -> usize {
        let lens = if self.is_signed { self.lens::<MOST_CORRECTIONS>() } else { self.lens::<0>() };
        lens.iter().sum()
    }

    #[inline(always)]
    fn split_row(self, lanes: L, row: &[f32], place: &mut [f32]) -> bool {
        match self.is_signed {
            true => self.write_blocks::<L, MOST_CORRECTIONS>(lanes, row, place),
            false => self.write_blocks::<L, 0>(lanes, row, place),
        }
    }
}

/// For each code of a lane of a block of `V` vectors, the numbers that it meets in all lanes, with zeros where there are no more.
#[inline(always)]
fn numbers_of_lanes<L: NibbleLanes<N>, const N: usize, const V: usize>(
    lanes: L,
    numbers: &[f32],
) -> [L::Floats; FOUR * CODES] {
    let mut of_lanes = [lanes.splat(0.); FOUR * CODES];
    for first in (0..V * CODES).step_by(N) {
        let count = (V * CODES - first).min(N);
        let mut words = [lanes.first_words(&[]); N];
        for (words, place) in words.iter_mut().zip(const { places_of_lanes::<N>(V) }) {
            let begin = place + first;
            let part = &numbers[begin.min(numbers.len())..(begin + count).min(numbers.len())];
            *words = lanes.first_words(cast_slice(part));
        }
        let words = lanes.transpose(words);
        for number in 0..count {
            of_lanes[first + number] = lanes.f32_of_words(words[number]);
        }
    }
    of_lanes
}

/// Rows of data as digits, for codes of four bits, and of which groups the lanes of the blocks are.
pub(super) struct NibbleDigits<L, const N: usize, const MOST_CORRECTIONS: usize> {
    pub digits: DigitRows<L, NibbleLayout<N, MOST_CORRECTIONS>>,
    groups_of_blocks: Vec<BlockGroups>,
    /// For each lane of a block, how many groups its group is behind the first one of the block. Most blocks have the same.
    groups_of_lanes: Vec<[u32; N]>,
}

/// The first group of a block, and which of [`NibbleDigits::groups_of_lanes`] it has.
#[derive(Clone, Copy)]
struct BlockGroups {
    /// Of 32 bits: places that are counted from it cannot be too large, and one comparison checks them.
    first: u32,
    groups_of_lanes: usize,
}

impl<L: NibbleLanes<N>, const N: usize, const MOST_CORRECTIONS: usize>
    NibbleDigits<L, N, MOST_CORRECTIONS>
{
    /// None if some numbers cannot be [split](DigitLayout::split_row), or groups counted in 32 bits.
    pub fn new(lanes: L, matrix: &CompressedMatrix, data: &[f32]) -> Option<Self> {
        let layout = NibbleLayout::new(matrix.depth, matrix.format.is_signed());
        let digits = DigitRows::new(lanes, layout, data, matrix.depth)?;
        let mut groups_of_lanes: Vec<[u32; N]> = vec![];
        let groups_of_blocks = layout.begins().map(|(begin, vectors)| {
            let first = matrix.group_of(begin);
            let groups = places_of_lanes(vectors)
                .map(|place| (matrix.group_of(begin + place) - first) as u32);
            let number = groups_of_lanes.iter().position(|it| *it == groups).unwrap_or_else(|| {
                groups_of_lanes.push(groups);
                groups_of_lanes.len() - 1
            });
            Some(BlockGroups { first: u32::try_from(first).ok()?, groups_of_lanes: number })
        });
        let groups_of_blocks = groups_of_blocks.collect::<Option<_>>()?;
        Some(NibbleDigits { digits, groups_of_blocks, groups_of_lanes })
    }

    /// The products with some rows of the matrix, whose codes these bytes are: for each row of data, a number for each of them. `copies` is
    /// room for their scales and zero points.
    pub fn run_task<'a>(
        &'a self,
        matrix: &'a CompressedMatrix,
        rows: Range<usize>,
        bytes: &'a [u8],
        copies: &'a mut [Vec<u8>; 2],
        output: &'a mut [&mut [f32]],
    ) -> TractResult<()> {
        let parameters = matrix.parameters_with_tail(rows, N, copies)?;
        self.digits.lanes.enter(FewTokensTask { matrix, bytes, parameters, data: self, output });
        Ok(())
    }
}

/// A task whose rows have their scales, and their zero points, if they have such, as in the file. Behind these is a vector of any numbers.
pub(super) type NibbleTask<'a, 'b, D> =
    FewTokensTask<'a, 'b, D, (TypedParameters<'a>, Option<TypedParameters<'a>>)>;

impl<L: NibbleLanes<N>, const N: usize, const MOST_CORRECTIONS: usize> On<L>
    for NibbleTask<'_, '_, NibbleDigits<L, N, MOST_CORRECTIONS>>
{
    #[inline(always)]
    fn run(mut self, lanes: L) {
        let (scales, zero_points) = self.parameters;
        let are_of_nncf = scales.dt == ParameterType::F16
            && zero_points.is_none_or(|all| all.dt == ParameterType::U8);
        match (self.matrix.format.is_signed(), are_of_nncf, zero_points.is_some()) {
            (true, true, true) => self.of_all_tokens::<MOST_CORRECTIONS, true, true>(lanes),
            (true, true, false) => self.of_all_tokens::<MOST_CORRECTIONS, true, false>(lanes),
            (true, false, true) => self.of_all_tokens::<MOST_CORRECTIONS, false, true>(lanes),
            (true, false, false) => self.of_all_tokens::<MOST_CORRECTIONS, false, false>(lanes),
            (false, true, true) => self.of_all_tokens::<0, true, true>(lanes),
            (false, true, false) => self.of_all_tokens::<0, true, false>(lanes),
            (false, false, true) => self.of_all_tokens::<0, false, true>(lanes),
            (false, false, false) => self.of_all_tokens::<0, false, false>(lanes),
        }
    }
}

impl<L: NibbleLanes<N>, const N: usize, const MOST_CORRECTIONS: usize>
    NibbleTask<'_, '_, NibbleDigits<L, N, MOST_CORRECTIONS>>
{
    /// Scales and zero points `OF_NNCF` have the types of that tool, `F16` and `U8`: to look up their types for each block takes more time.
    #[inline(always)]
    fn of_all_tokens<const CORRECTIONS: usize, const OF_NNCF: bool, const SHIFTED: bool>(
        &mut self,
        lanes: L,
    ) {
        for first in (0..self.output.len()).step_by(2) {
            match self.output.len() - first {
                1 => self.of_tokens::<CORRECTIONS, OF_NNCF, SHIFTED, 1>(lanes, first),
                _ => self.of_tokens::<CORRECTIONS, OF_NNCF, SHIFTED, 2>(lanes, first),
            }
        }
    }

    /// The products with `TOKENS` rows of data.
    #[inline(always)]
    fn of_tokens<
        const CORRECTIONS: usize,
        const OF_NNCF: bool,
        const SHIFTED: bool,
        const TOKENS: usize,
    >(
        &mut self,
        lanes: L,
        first: usize,
    ) {
        let NibbleDigits { digits, groups_of_blocks, groups_of_lanes } = self.data;
        let (scales, zero_points) = self.parameters;
        let rows: NibbleRows<N, CORRECTIONS, TOKENS> = NibbleRows {
            codes: self.bytes,
            row_bytes: self.matrix.row_bytes(),
            // If there are no zero points, nobody reads them.
            parameters: [scales, zero_points.unwrap_or(scales)],
            groups: self.matrix.groups(),
            groups_of_blocks: groups_of_blocks.split_at(digits.layout.fours),
            groups_of_lanes,
            data: std::array::from_fn(|token| digits.layout.blocks(digits.row(first + token))),
        };
        let count = self.output[first].len();
        let in_pairs = if L::IN_PAIRS { count / 2 * 2 } else { 0 };
        for row in (0..in_pairs).step_by(2) {
            let sums = rows.sums::<L, OF_NNCF, SHIFTED, 2>(lanes, row);
            for (output, sums) in self.output[first..].iter_mut().zip(&sums) {
                output[row..row + 2].copy_from_slice(sums);
            }
        }
        for row in in_pairs..count {
            let sums = rows.sums::<L, OF_NNCF, SHIFTED, 1>(lanes, row);
            for (output, [sum]) in self.output[first..].iter_mut().zip(&sums) {
                output[row] = *sum;
            }
        }
    }
}

/// What all rows of a task need, with `TOKENS` rows of data. It is a value of its own, so that the compiler reads nothing of it again
/// after it has written sums.
#[derive(Clone, Copy)]
struct NibbleRows<'a, const N: usize, const CORRECTIONS: usize, const TOKENS: usize> {
    codes: &'a [u8],
    row_bytes: usize,
    /// The scales of all rows, and their zero points.
    parameters: [TypedParameters<'a>; 2],
    /// How many a row has.
    groups: usize,
    /// The blocks of four vectors, and those of one.
    groups_of_blocks: (&'a [BlockGroups], &'a [BlockGroups]),
    groups_of_lanes: &'a [[u32; N]],
    data: [NibbleBlocks<'a, N, CORRECTIONS>; TOKENS],
}

impl<const N: usize, const CORRECTIONS: usize, const TOKENS: usize>
    NibbleRows<'_, N, CORRECTIONS, TOKENS>
{
    /// The products of `ROWS` rows, from the first one on: a row for each row of data.
    #[inline(always)]
    fn sums<L: NibbleLanes<N>, const OF_NNCF: bool, const SHIFTED: bool, const ROWS: usize>(
        self,
        lanes: L,
        first: usize,
    ) -> [[f32; ROWS]; TOKENS] {
        let NibbleRows { row_bytes, groups_of_blocks: (fours, ones), .. } = self;
        let mut wholes = [&[][..]; ROWS];
        let mut rests = [&[][..]; ROWS];
        for row in 0..ROWS {
            let codes = &self.codes[(first + row) * row_bytes..][..row_bytes];
            let (whole, rest) = codes.split_at(fours.len() * FOUR * 4 * N);
            let whole: &[[WordVector<N>; FOUR]] = whole.as_chunks().0.as_chunks().0.as_chunks().0;
            (wholes[row], rests[row]) = (&whole[..fours.len()], rest);
        }
        let data_of_fours = self.data.map(|(of_fours, _)| &of_fours[..fours.len()]);
        let data_of_ones = self.data.map(|(_, of_ones)| of_ones);
        // A closure would be called for each row.
        let [scales, zero_points] = self.parameters;
        let parameters = [
            of_rows::<N, ROWS>(scales, self.groups, first),
            of_rows::<N, ROWS>(zero_points, self.groups, first),
        ];
        let zeros = lanes.first_words(&[]);
        let mut totals = [[lanes.splat(0.); TOKENS]; ROWS];
        let mut ahead =
            StreamPrefetch::behind(self.codes[first * row_bytes..].as_ptr(), ROWS * row_bytes);
        for block in 0..fours.len() {
            // A closure would not be compiled for the vectors.
            let mut words = [[zeros; FOUR]; ROWS];
            let mut next = [std::ptr::null(); ROWS];
            for row in 0..ROWS {
                for (words, vector) in words[row].iter_mut().zip(&wholes[row][block]) {
                    *words = lanes.load_words(vector);
                }
                words[row] = lanes.transpose_block(words[row]);
                next[row] = wholes[row][block].as_ptr().cast::<u8>().wrapping_add(NEXT);
            }
            let asks = BlockPrefetch { ahead: &mut ahead, next };
            let data = data_of_fours.map(|data| &data[block]);
            let of_lanes =
                self.parameters_of_lanes::<_, OF_NNCF, SHIFTED, _>(lanes, fours[block], parameters);
            lanes.add_block::<SHIFTED, _, _, _, _>(words, data, of_lanes, asks, &mut totals);
        }
        for block in 0..ones.len() {
            let mut words = [[zeros; ONE]; ROWS];
            let mut next = [std::ptr::null(); ROWS];
            for row in 0..ROWS {
                let codes = &rests[row][block * 4 * N..];
                words[row] = [lanes.first_words(codes)];
                next[row] = codes.as_ptr().wrapping_add(NEXT);
            }
            let asks = BlockPrefetch { ahead: &mut ahead, next };
            let data = data_of_ones.map(|data| &data[block]);
            let of_lanes =
                self.parameters_of_lanes::<_, OF_NNCF, SHIFTED, _>(lanes, ones[block], parameters);
            lanes.add_block::<SHIFTED, _, _, _, _>(words, data, of_lanes, asks, &mut totals);
        }
        let mut sums = [[0.; ROWS]; TOKENS];
        for row in 0..ROWS {
            for token in 0..TOKENS {
                sums[token][row] = lanes.sum(totals[row][token]);
            }
        }
        sums
    }

    /// The scales of the lanes of a block of some rows, and their zero points. Their types may be those of NNCF.
    #[inline(always)]
    fn parameters_of_lanes<
        L: NibbleLanes<N>,
        const OF_NNCF: bool,
        const SHIFTED: bool,
        const ROWS: usize,
    >(
        self,
        lanes: L,
        block: BlockGroups,
        [scales, zero_points]: [[TypedParameters; ROWS]; 2],
    ) -> [[L::Floats; ROWS]; 2] {
        let [of_scales, of_zero_points] = match OF_NNCF {
            true => [ParameterType::F16, ParameterType::U8],
            false => [scales[0].dt, zero_points[0].dt],
        };
        [
            self.of_lanes(lanes, block, scales, of_scales),
            match SHIFTED {
                true => self.of_lanes(lanes, block, zero_points, of_zero_points),
                false => [lanes.splat(0.); ROWS],
            },
        ]
    }

    /// The scales or zero points of the lanes of a block, for each of some rows. Asks for those of rows to come.
    #[inline(always)]
    fn of_lanes<L: Lanes<N>, const ROWS: usize>(
        self,
        lanes: L,
        block: BlockGroups,
        rows: [TypedParameters; ROWS],
        dt: ParameterType,
    ) -> [L::Floats; ROWS] {
        let size = dt.size();
        let begin = block.first as usize * size;
        // Those of the rows after the next ones, or some lines ahead. The parameters of `ROWS` rows follow each other.
        let far = (2 * ROWS * self.groups * size).max(4 * LINE);
        let place = rows[0].bytes.as_ptr().wrapping_add(ROWS * begin);
        StreamPrefetch::new(place, far, far / 2).ask(ROWS * N * size);
        let places = &self.groups_of_lanes[block.groups_of_lanes];
        let mut of_lanes = [lanes.splat(0.); ROWS];
        for row in 0..ROWS {
            let bytes = &rows[row].bytes[begin..begin + N * size];
            of_lanes[row] = lanes.permute(dt.load(lanes, bytes), places);
        }
        of_lanes
    }
}

/// The scales or zero points of each of some rows, and a vector behind them. They are equally long, which is one comparison for all.
#[inline(always)]
fn of_rows<const N: usize, const ROWS: usize>(
    all: TypedParameters,
    groups: usize,
    first: usize,
) -> [TypedParameters; ROWS] {
    let size = all.dt.size();
    let (stride, len) = (groups * size, (groups + N) * size);
    std::array::from_fn(|row| TypedParameters {
        bytes: &all.bytes[(first + row) * stride..][..len],
        ..all
    })
}

#[cfg(test)]
mod tests {
    use super::super::digits::tests::numbers;
    use super::*;
    use crate::isa::{Avx2, Avx512Vnni, Instructions};

    /// What the data of a block stands for.
    trait Stands<const N: usize, const MOST_CORRECTIONS: usize>: NibbleLanes<N> {
        /// The number, divided by the scale, that a code meets: both kinds of digits, and whether the code has an even place.
        fn number(even: [f64; 3], odd: [f64; 3], is_even: bool) -> f64;

        /// What the 8 of signed codes add, divided by the scale.
        fn correction(numbers: [f64; MOST_CORRECTIONS]) -> f64;
    }

    impl Stands<16, 2> for Avx512Vnni {
        fn number(even: [f64; 3], odd: [f64; 3], is_even: bool) -> f64 {
            let [even, odd] = [even, odd].map(|[a, b, c]| 65536. * a + 256. * b + c);
            // A code of an even place is in its byte, too; 16 times one of an odd place is.
            if is_even { 16. * even + odd } else { 16. * odd }
        }

        fn correction([high, lowest]: [f64; 2]) -> f64 {
            256. * high + lowest
        }
    }

    impl Stands<8, 1> for Avx2 {
        fn number(even: [f64; 3], odd: [f64; 3], is_even: bool) -> f64 {
            let [a, b, c] = if is_even { even } else { odd };
            -32768. * a + 128. * b + c
        }

        fn correction([correction]: [f64; 1]) -> f64 {
            correction
        }
    }

    /// Blocks of four vectors, some of one, and a part of one.
    const DEPTH: usize = 712;

    fn digits<L: Stands<N, MOST_CORRECTIONS>, const N: usize, const MOST_CORRECTIONS: usize>(
        lanes: L,
        data: &[f32],
        depth: usize,
    ) -> Option<DigitRows<L, NibbleLayout<N, MOST_CORRECTIONS>>> {
        DigitRows::new(lanes, NibbleLayout::new(depth, true), data, depth)
    }

    /// Checks a block against its data.
    fn check<
        L: Stands<N, MOST_CORRECTIONS>,
        const N: usize,
        const MOST_CORRECTIONS: usize,
        const V: usize,
    >(
        block: &NibbleBlock<N, V, MOST_CORRECTIONS>,
        data: &[f32],
    ) {
        for (lane, place) in places_of_lanes::<N>(V).into_iter().enumerate() {
            let expected: Vec<f64> = (place..place + V * CODES)
                .map(|place| f64::from(data.get(place).copied().unwrap_or_default()))
                .collect();
            let [scale, sum] = [block.scale, block.sum].map(|vector| f64::from(vector[lane]));
            let largest = expected.iter().fold(0f64, |most, it| most.max(it.abs()));
            let most = largest * 2f64.powi(-22);
            for (number, expected) in expected.iter().enumerate() {
                let (vector, code) = (number / CODES, number % CODES);
                let [even, odd] = [0, 1].map(|parity| {
                    block.digits[parity][vector].map(|digits| {
                        let word = digits[lane].to_bits();
                        f64::from(word.to_le_bytes()[code / 2].cast_signed())
                    })
                });
                let error = (L::number(even, odd, code % 2 == 0) * scale - expected).abs();
                assert!(error <= most, "number {number} of lane {lane} is wrong by {error}");
            }
            let corrections =
                block.corrections.map(|vector| f64::from(vector[lane].to_bits().cast_signed()));
            for sum in [sum, L::correction(corrections) / 8.] {
                let error = (sum * scale - expected.iter().sum::<f64>()).abs();
                let bound = (V * CODES + 1) as f64 * most;
                assert!(error <= bound, "the sum of lane {lane} is wrong by {error}");
            }
        }
    }

    /// Calls a function with all vectors of this machine that have digits.
    macro_rules! with_lanes {
        ($function:ident) => {
            let instructions = Instructions::detect();
            instructions.avx512_vnni().map($function);
            instructions.avx2().map($function);
        };
    }

    #[test]
    fn digits_stand_for_the_numbers() {
        fn stand<L: Stands<N, MOST_CORRECTIONS>, const N: usize, const MOST_CORRECTIONS: usize>(
            lanes: L,
        ) {
            for (word, depth) in [(CODES, 2), (CODES, DEPTH), (FOUR * CODES, DEPTH), (CODES, 900)] {
                let data = numbers(word, 2 * depth);
                let rows = digits(lanes, &data, depth).expect("all numbers are finite");
                for (row, data) in data.chunks(depth).enumerate() {
                    let (fours, ones) = rows.layout.blocks(rows.row(row));
                    let (begin_of_ones, width) = (fours.len() * FOUR * CODES * N, CODES * N);
                    assert_eq!(ones.len(), (depth - begin_of_ones).div_ceil(width));
                    for (block, data) in fours.iter().zip(data.chunks(FOUR * width)) {
                        check::<L, N, MOST_CORRECTIONS, FOUR>(block, data);
                    }
                    for (block, data) in ones.iter().zip(data[begin_of_ones..].chunks(width)) {
                        check::<L, N, MOST_CORRECTIONS, ONE>(block, data);
                    }
                }
            }
        }
        with_lanes!(stand);
    }

    #[test]
    fn some_numbers_have_no_digits() {
        fn have_none<
            L: Stands<N, MOST_CORRECTIONS>,
            const N: usize,
            const MOST_CORRECTIONS: usize,
        >(
            lanes: L,
        ) {
            for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-29, 1e-31, -1e-40] {
                // In a lane of each block, which has zeros otherwise.
                for (zeros, place) in [(32..64, 33), (512..520, 519), (704..712, 704)] {
                    let mut data = numbers(CODES, DEPTH);
                    data[zeros].fill(0.);
                    assert!(digits(lanes, &data, DEPTH).is_some());
                    data[place] = number;
                    assert!(digits(lanes, &data, DEPTH).is_none(), "{number} at {place}");
                }
            }
            for number in [2e-29, f32::MAX] {
                let mut data = numbers(CODES, DEPTH);
                data[32..64].fill(0.);
                data[33] = number;
                assert!(digits(lanes, &data, DEPTH).is_some(), "{number}");
            }
        }
        with_lanes!(have_none);
    }

    /// Vectors of 512 bits have a sum of two numbers.
    #[test]
    fn numbers_of_two_neighbours_may_be_too_large() {
        let Some(lanes) = Instructions::detect().avx512_vnni() else { return };
        let mut data = numbers(CODES, DEPTH);
        // What meets the first code is greater than it.
        data[32..34].copy_from_slice(&[f32::MAX, -f32::MAX]);
        assert!(digits(lanes, &data, DEPTH).is_none());
    }
}
