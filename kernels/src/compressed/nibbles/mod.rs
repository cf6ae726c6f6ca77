//! Few rows of data, and codes of four bits, where the processor multiplies bytes: the data has digits.
//!
//! A vector has words of eight codes. Four vectors of a row are a tile, in which each 32 neighbours are four words, a lane of 128 bits. The
//! words of the tile change places, as in a matrix that is transposed: each word of a vector then meets four neighbours, one in each
//! vector. So 32 codes have one sum for each digit. They are of one group, and what is done for sums, above all with the scales of groups,
//! is done for a quarter of the vectors. One row of data took 0.7 to 0.8 of the time of sums of eight codes (AMD EPYC, family 25 model
//! 17). What is left of a row is tiles of one vector, each lane of which has the sums of a word.
//!
//! * `vnni.rs` multiplies vectors of 512 bits;
//! * `avx2.rs` multiplies those of 256 bits, which have other digits.

mod avx2;
mod vnni;

use super::digits::{SplitRow, copy_first, digits_of};
use super::matrix::{CompressedMatrix, FewRowsTask, LEAST_GROUP, ParameterType, TypedParameters};
use crate::isa::{Avx2, Instructions, Isa, Lanes, On, Vnni};
use crate::memory::{LINE, Scratch, StreamPrefetch};

/// The codes of a word, two of which are a byte.
const CODES: usize = 8;

/// The words of a vector.
type WordVector<const N: usize> = [[u8; 4]; N];

/// The data of as many words.
type WordNumbers<const N: usize> = [[f32; CODES]; N];

/// The vectors of a tile that is transposed, and of one that is not.
const FOUR: usize = 4;
const ONE: usize = 1;

/// The vectors of digits for a vector of words: three for the codes of even places, the highest digits first, and three for the others.
const DIGITS: usize = 6;

/// Where a tile of so many vectors has a digit of a vector, those of even places before the others.
const fn of_digit(vectors: usize, vector: usize, digit: usize) -> usize {
    digit / 3 * 3 * vectors + 3 * vector + digit % 3
}

// Behind the digits of all vectors of a tile, its data has, for each lane:

/// What its sums of products are multiplied with.
const UNIT: usize = 0;

/// The sum of its numbers, in that unit.
const SUM: usize = 1;

/// Where codes are signed, one or two vectors of whole numbers: what codes of 8 add. Unsigned codes do without: with that, rows of 8,192
/// would take 1.03 times as long, as their data fills the first-level cache (AMD EPYC, family 25 model 17).
const EIGHTS: usize = 2;

/// How many vectors the data of a tile of so many vectors has, `eights` of them for signed codes.
const fn vectors_of_data(vectors: usize, eights: usize) -> usize {
    DIGITS * vectors + EIGHTS + eights
}

const _: () = assert!(LEAST_GROUP.is_multiple_of(FOUR * CODES), "a lane has codes of one group");

/// Where a tile of so many vectors has its first numbers of each lane.
const fn places_of_lanes<const N: usize>(vectors: usize) -> [usize; N] {
    let mut places = [0; N];
    let mut lane = 0;
    while lane < N {
        // Four words of a vector come to the same places of all, where a lane is for each vector.
        places[lane] = match vectors {
            FOUR => lane % 4 * CODES * N + lane / 4 * 4 * CODES,
            ONE => lane * CODES,
            _ => panic!("a tile has one vector or four"),
        };
        lane += 1;
    }
    places
}

/// So far ahead, in a row, codes are asked for once more, for the first-level cache. With that, rows of 2,048 and 8,192 codes take 0.97
/// of the time; to find the next row at the end of one costs short rows more than it gives long ones.
const NEXT: usize = 512;

/// What may be prefetched with a tile: codes that are far ahead, and those of each row that come next, for the first-level cache.
pub(super) struct TilePrefetch<'a, const C: usize> {
    ahead: &'a mut StreamPrefetch,
    next: [*const u8; C],
}

/// Vectors of `N` words whose codes the processor multiplies with digits.
pub(super) trait Multiply<const N: usize>: Lanes<N> + Isa {
    /// How many vectors of whole numbers signed codes need.
    const FOR_SIGNED: usize;

    /// Whether two rows of the matrix are multiplied at once.
    const IN_PAIRS: bool;

    /// Puts the digits of the data of a tile into their place, and what is behind them. Whether all numbers have such.
    fn split<const V: usize>(self, numbers: &[WordNumbers<N>; V], tile: &mut [[f32; N]]) -> bool;

    /// The vectors of a tile, transposed.
    fn transposed(self, tile: &[WordVector<N>; FOUR]) -> [Self::Words; FOUR];

    /// The first bytes, with zeros where there are no more.
    fn first_words(self, bytes: &[u8]) -> Self::Words;

    /// Adds the products of a tile of `V` vectors of words of some rows, and of its data. `groups` has the scales of the lanes, and
    /// their zero points, if there are such.
    fn add_tile<
        T: ParameterTypes,
        const SIGNED: bool,
        const C: usize,
        const R: usize,
        const V: usize,
        const COUNT: usize,
    >(
        self,
        words: [[Self::Words; V]; C],
        data: [&[[f32; N]; COUNT]; R],
        groups: [[Self::Floats; C]; 2],
        asks: TilePrefetch<C>,
        totals: &mut [[Self::Floats; R]; C],
    );
}

/// How many tiles of four vectors a row has, and how many of one.
#[derive(Debug, Clone, Copy)]
struct NibbleLayout<const N: usize> {
    fours: usize,
    ones: usize,
    /// The vectors of whole numbers that signed codes need.
    eights: usize,
}

impl<const N: usize> NibbleLayout<N> {
    /// The codes of a vector.
    const WIDTH: usize = CODES * N;

    fn new(depth: usize, eights: usize) -> Self {
        let (fours, rest) = (depth / (FOUR * Self::WIDTH), depth % (FOUR * Self::WIDTH));
        NibbleLayout { fours, ones: rest.div_ceil(Self::WIDTH), eights }
    }

    /// The vectors of the data of all tiles of four vectors, and of all tiles of one.
    fn vectors(self) -> [usize; 2] {
        [(self.fours, FOUR), (self.ones, ONE)]
            .map(|(tiles, vectors)| tiles * vectors_of_data(vectors, self.eights))
    }

    /// The first codes of the tiles, each with how many vectors the tile has.
    fn begins(self) -> impl Iterator<Item = (usize, usize)> {
        let ones = (0..self.ones).map(move |tile| ((self.fours * FOUR + tile) * Self::WIDTH, ONE));
        (0..self.fours).map(|tile| (tile * FOUR * Self::WIDTH, FOUR)).chain(ones)
    }
}

/// Rows of data, for the vectors of this machine.
pub(super) enum NibbleData {
    Vnni(LaneData<Vnni, 16>),
    Avx2(LaneData<Avx2, 8>),
}

impl NibbleData {
    /// None if some numbers have no digits, or vectors of this kind multiply no bytes: portable ones, and 512 bits without VNNI.
    pub fn new(kind: Instructions, matrix: &CompressedMatrix, data: &[f32]) -> Option<NibbleData> {
        match (kind.vnni(), kind.avx2()) {
            (Some(lanes), _) => LaneData::new(lanes, matrix, data).map(NibbleData::Vnni),
            (None, Some(lanes)) => LaneData::new(lanes, matrix, data).map(NibbleData::Avx2),
            (None, None) => None,
        }
    }
}

/// Rows of data, and where the lanes of a tile have their scales.
pub(super) struct LaneData<L, const N: usize> {
    lanes: L,
    rows: Scratch,
    layout: NibbleLayout<N>,
    tiles: Vec<OfTile>,
    /// For each lane of a tile, how many groups its group is behind the first one of the tile. Most tiles have the same.
    groups_of_lanes: Vec<[u32; N]>,
}

/// The first group of a tile, and which of [`LaneData::groups_of_lanes`] it has.
#[derive(Clone, Copy)]
struct OfTile {
    /// Of 32 bits: places that are counted from it cannot be too large, and one comparison checks them.
    first: u32,
    groups_of_lanes: usize,
}

impl<L: Multiply<N>, const N: usize> LaneData<L, N> {
    /// None if some numbers cannot be [split](SplitRow::split_row), or groups counted in 32 bits.
    fn new(lanes: L, matrix: &CompressedMatrix, data: &[f32]) -> Option<Self> {
        let split = ForNibbles::<N> { is_signed: matrix.format.is_signed() };
        let rows = digits_of(lanes, split, data, matrix.depth)?;
        let layout = split.layout::<L>(matrix.depth);
        let mut groups_of_lanes: Vec<[u32; N]> = vec![];
        let tiles = layout.begins().map(|(begin, vectors)| {
            let first = matrix.group_of(begin);
            let groups = places_of_lanes(vectors)
                .map(|place| (matrix.group_of(begin + place) - first) as u32);
            let number = groups_of_lanes.iter().position(|it| *it == groups).unwrap_or_else(|| {
                groups_of_lanes.push(groups);
                groups_of_lanes.len() - 1
            });
            Some(OfTile { first: u32::try_from(first).ok()?, groups_of_lanes: number })
        });
        let tiles = tiles.collect::<Option<_>>()?;
        Some(LaneData { lanes, rows, layout, tiles, groups_of_lanes })
    }

    /// The tiles of a row.
    #[inline(always)]
    fn row(&self, row: usize) -> (&[[f32; N]], &[[f32; N]]) {
        let [fours, ones] = self.layout.vectors();
        let vectors = self.rows.as_chunks().0;
        vectors[row * (fours + ones)..][..fours + ones].split_at(fours)
    }
}

/// Splits data for codes of four bits.
#[derive(Debug, Clone, Copy)]
struct ForNibbles<const N: usize> {
    is_signed: bool,
}

impl<const N: usize> ForNibbles<N> {
    fn layout<L: Multiply<N>>(self, depth: usize) -> NibbleLayout<N> {
        NibbleLayout::new(depth, if self.is_signed { L::FOR_SIGNED } else { 0 })
    }
}

impl<L: Multiply<N>, const N: usize> SplitRow<L> for ForNibbles<N> {
    fn stride(self, depth: usize) -> usize {
        N * self.layout::<L>(depth).vectors().iter().sum::<usize>()
    }

    #[inline(always)]
    fn split_row(self, lanes: L, row: &[f32], place: &mut [f32]) -> bool {
        let layout = self.layout::<L>(row.len());
        let mut places: &mut [[f32; N]] = place.as_chunks_mut().0;
        let mut is_exact = true;
        for (begin, vectors) in layout.begins() {
            let (tile, rest) = places.split_at_mut(vectors_of_data(vectors, layout.eights));
            places = rest;
            let numbers = &row[begin..];
            let whole = numbers.as_chunks().0.as_chunks().0.first_chunk::<FOUR>();
            is_exact &= match whole {
                Some(numbers) if vectors == FOUR => lanes.split(numbers, tile),
                _ => {
                    let mut padded = [[[0.; CODES]; N]; ONE];
                    copy_first(padded.as_flattened_mut().as_flattened_mut(), numbers);
                    lanes.split(&padded, tile)
                }
            };
        }
        is_exact
    }
}

/// Rows of a matrix with their scales, and with their zero points, if they have such.
pub(super) type NibbleTask<'a, 'b, D> =
    FewRowsTask<'a, 'b, D, (TypedParameters<'a>, Option<TypedParameters<'a>>)>;

/// Multiplies a part of a matrix. Behind its parameters is a vector of any numbers.
pub(super) fn multiply(part: NibbleTask<NibbleData>) {
    let FewRowsTask { matrix, bytes, parameters, data, output } = part;
    match data {
        NibbleData::Vnni(data) => {
            data.lanes.enter(FewRowsTask { matrix, bytes, parameters, data, output });
        }
        NibbleData::Avx2(data) => {
            data.lanes.enter(FewRowsTask { matrix, bytes, parameters, data, output });
        }
    }
}

macro_rules! of_codes {
    ($($lanes:ty, $count:literal;)*) => {$(
        impl On<$lanes> for NibbleTask<'_, '_, LaneData<$lanes, $count>> {
            type Output = ();

            #[inline(always)]
            fn run(mut self, lanes: $lanes) {
                const SIGNED: usize = <$lanes as Multiply<$count>>::FOR_SIGNED;
                const FOURS: [usize; 2] = [vectors_of_data(FOUR, 0), vectors_of_data(FOUR, SIGNED)];
                const ONES: [usize; 2] = [vectors_of_data(ONE, 0), vectors_of_data(ONE, SIGNED)];
                match self.matrix.format.is_signed() {
                    true => self.of_codes::<true, { FOURS[1] }, { ONES[1] }>(lanes),
                    false => self.of_codes::<false, { FOURS[0] }, { ONES[0] }>(lanes),
                }
            }
        }
    )*};
}

of_codes! {
    Vnni, 16;
    Avx2, 8;
}

/// The types of scales and zero points, where they are known before the program runs. Tiles whose types are looked up take 1.04 times as
/// long, and more where there are zero points.
pub(super) trait ParameterTypes {
    const SCALES: Option<ParameterType> = None;
    const ZERO_POINTS: Option<ParameterType> = None;
    const HAS_ZERO_POINTS: bool;
}

/// As NNCF has them in symmetric models.
struct Halves;

impl ParameterTypes for Halves {
    const SCALES: Option<ParameterType> = Some(ParameterType::F16);
    const HAS_ZERO_POINTS: bool = false;
}

/// As NNCF has them in asymmetric models.
struct HalvesAndBytes;

impl ParameterTypes for HalvesAndBytes {
    const SCALES: Option<ParameterType> = Some(ParameterType::F16);
    const ZERO_POINTS: Option<ParameterType> = Some(ParameterType::U8);
    const HAS_ZERO_POINTS: bool = true;
}

struct Any<const HAS_ZERO_POINTS: bool>;

impl<const HAS_ZERO_POINTS: bool> ParameterTypes for Any<HAS_ZERO_POINTS> {
    const HAS_ZERO_POINTS: bool = HAS_ZERO_POINTS;
}

impl<L: Multiply<N>, const N: usize> NibbleTask<'_, '_, LaneData<L, N>> {
    /// The data of a tile of four vectors is `F` vectors, and that of a tile of one is `O`. Lengths that the compiler knows keep its loads
    /// between the fences of `vnni.rs`: without them, rows of 8,192 codes take 1.1 times as long.
    #[inline(always)]
    fn of_codes<const SIGNED: bool, const F: usize, const O: usize>(&mut self, lanes: L) {
        let (scales, zero_points) = self.parameters;
        match (scales.number, zero_points.map(|all| all.number)) {
            (ParameterType::F16, None) => self.multiply::<Halves, SIGNED, F, O>(lanes),
            (ParameterType::F16, Some(ParameterType::U8)) => {
                self.multiply::<HalvesAndBytes, SIGNED, F, O>(lanes)
            }
            (_, None) => self.multiply::<Any<false>, SIGNED, F, O>(lanes),
            (_, Some(_)) => self.multiply::<Any<true>, SIGNED, F, O>(lanes),
        }
    }

    #[inline(always)]
    fn multiply<T: ParameterTypes, const SIGNED: bool, const F: usize, const O: usize>(
        &mut self,
        lanes: L,
    ) {
        for first in (0..self.output.len()).step_by(2) {
            match self.output.len() - first {
                1 => self.of_data::<T, SIGNED, F, O, 1>(lanes, first),
                _ => self.of_data::<T, SIGNED, F, O, 2>(lanes, first),
            }
        }
    }

    /// The products with `R` rows of data.
    #[inline(always)]
    fn of_data<
        T: ParameterTypes,
        const SIGNED: bool,
        const F: usize,
        const O: usize,
        const R: usize,
    >(
        &mut self,
        lanes: L,
        first: usize,
    ) {
        let data = self.data;
        let (scales, zero_points) = self.parameters;
        let mut rows: NibbleRows<N, F, O, R> = NibbleRows {
            codes: self.bytes,
            row_bytes: self.matrix.row_bytes(),
            scales,
            zero_points,
            groups: self.matrix.groups(),
            tiles: data.tiles.split_at(data.layout.fours),
            groups_of_lanes: &data.groups_of_lanes,
            data_of_fours: [&[]; R],
            data_of_ones: [&[]; R],
        };
        for of in 0..R {
            let (of_fours, of_ones) = data.row(first + of);
            (rows.data_of_fours[of], rows.data_of_ones[of]) =
                (of_fours.as_chunks().0, of_ones.as_chunks().0);
        }
        let count = self.output[first].len();
        let in_pairs = if L::IN_PAIRS { count / 2 * 2 } else { 0 };
        for row in (0..in_pairs).step_by(2) {
            let sums = rows.sums::<L, T, SIGNED, 2>(lanes, row);
            for (output, sums) in self.output[first..].iter_mut().zip(&sums) {
                output[row..row + 2].copy_from_slice(sums);
            }
        }
        for row in in_pairs..count {
            let sums = rows.sums::<L, T, SIGNED, 1>(lanes, row);
            for (output, [sum]) in self.output[first..].iter_mut().zip(&sums) {
                output[row] = *sum;
            }
        }
    }
}

/// Rows of a matrix and `R` rows of data. What all rows need is a value of its own: the compiler reads nothing of it again after it has
/// written sums.
#[derive(Clone, Copy)]
struct NibbleRows<'a, const N: usize, const F: usize, const O: usize, const R: usize> {
    codes: &'a [u8],
    row_bytes: usize,
    /// Those of all rows.
    scales: TypedParameters<'a>,
    zero_points: Option<TypedParameters<'a>>,
    /// Those of a row.
    groups: usize,
    /// The tiles of four vectors, and those of one.
    tiles: (&'a [OfTile], &'a [OfTile]),
    groups_of_lanes: &'a [[u32; N]],
    data_of_fours: [&'a [[[f32; N]; F]]; R],
    data_of_ones: [&'a [[[f32; N]; O]]; R],
}

impl<const N: usize, const F: usize, const O: usize, const R: usize> NibbleRows<'_, N, F, O, R> {
    /// The products of `C` rows, from the first one on: a row for each row of data.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn sums<L: Multiply<N>, T: ParameterTypes, const SIGNED: bool, const C: usize>(
        self,
        lanes: L,
        first: usize,
    ) -> [[f32; C]; R] {
        let NibbleRows { row_bytes, tiles: (fours, ones), .. } = self;
        let mut wholes = [&[][..]; C];
        let mut rests = [&[][..]; C];
        for row in 0..C {
            let codes = &self.codes[(first + row) * row_bytes..][..row_bytes];
            let (whole, rest) = codes.split_at(fours.len() * FOUR * 4 * N);
            let whole: &[[WordVector<N>; FOUR]] = whole.as_chunks().0.as_chunks().0.as_chunks().0;
            (wholes[row], rests[row]) = (&whole[..fours.len()], rest);
        }
        let mut data_of_fours = self.data_of_fours;
        for of in 0..R {
            data_of_fours[of] = &data_of_fours[of][..fours.len()];
        }
        let scales = of_rows::<N, C>(self.scales, self.groups, first);
        // If there are none, nobody reads them.
        let zero_points =
            of_rows::<N, C>(self.zero_points.unwrap_or(self.scales), self.groups, first);
        let zeros = lanes.first_words(&[]);
        let mut totals = [[lanes.splat(0.); R]; C];
        let mut ahead =
            StreamPrefetch::behind(self.codes[first * row_bytes..].as_ptr(), C * row_bytes);
        for tile in 0..fours.len() {
            // A closure would not be compiled for the vectors.
            let mut words = [[zeros; FOUR]; C];
            let mut next = [std::ptr::null(); C];
            for row in 0..C {
                words[row] = lanes.transposed(&wholes[row][tile]);
                next[row] = wholes[row][tile].as_ptr().cast::<u8>().wrapping_add(NEXT);
            }
            let asks = TilePrefetch { ahead: &mut ahead, next };
            let data = data_of_fours.map(|data| &data[tile]);
            let groups = self.groups::<L, T, C>(lanes, fours[tile], scales, zero_points);
            lanes.add_tile::<T, SIGNED, C, R, FOUR, F>(words, data, groups, asks, &mut totals);
        }
        for tile in 0..ones.len() {
            let mut words = [[zeros; ONE]; C];
            let mut next = [std::ptr::null(); C];
            for row in 0..C {
                let codes = &rests[row][tile * 4 * N..];
                words[row] = [lanes.first_words(codes)];
                next[row] = codes.as_ptr().wrapping_add(NEXT);
            }
            let asks = TilePrefetch { ahead: &mut ahead, next };
            let data = self.data_of_ones.map(|data| &data[tile]);
            let groups = self.groups::<L, T, C>(lanes, ones[tile], scales, zero_points);
            lanes.add_tile::<T, SIGNED, C, R, ONE, O>(words, data, groups, asks, &mut totals);
        }
        let mut sums = [[0.; C]; R];
        for row in 0..C {
            for of in 0..R {
                sums[of][row] = lanes.sum(totals[row][of]);
            }
        }
        sums
    }

    /// What the lanes of a tile have of some rows, and asks for that of rows to come.
    #[inline(always)]
    fn groups<L: Multiply<N>, T: ParameterTypes, const C: usize>(
        self,
        lanes: L,
        tile: OfTile,
        scales_of_rows: [TypedParameters; C],
        zero_points_of_rows: [TypedParameters; C],
    ) -> [[L::Floats; C]; 2] {
        let mut scales = [lanes.splat(0.); C];
        let mut zero_points = [lanes.splat(0.); C];
        let places = &self.groups_of_lanes[tile.groups_of_lanes];
        ask_for_groups::<N, C>(scales_of_rows, T::SCALES, self.groups, tile.first);
        if T::HAS_ZERO_POINTS {
            ask_for_groups::<N, C>(zero_points_of_rows, T::ZERO_POINTS, self.groups, tile.first);
        }
        for row in 0..C {
            scales[row] = permuted(lanes, scales_of_rows[row], T::SCALES, tile.first, places);
            if T::HAS_ZERO_POINTS {
                let all = zero_points_of_rows[row];
                zero_points[row] = permuted(lanes, all, T::ZERO_POINTS, tile.first, places);
            }
        }
        [scales, zero_points]
    }
}

/// Asks for what the groups of a tile have in rows to come.
#[inline(always)]
fn ask_for_groups<const N: usize, const C: usize>(
    rows: [TypedParameters; C],
    number: Option<ParameterType>,
    groups: usize,
    first: u32,
) {
    let size = number.unwrap_or(rows[0].number).size();
    // For those that are multiplied the time after the next, or some lines ahead.
    let far = (2 * C * groups * size).max(4 * LINE);
    let place = rows[0].bytes.as_ptr().wrapping_add(C * first as usize * size);
    StreamPrefetch::new(place, far, far / 2).ask(C * N * size);
}

/// What the groups of some rows have, and a vector behind each. They are equally long, which is one comparison for all.
#[inline(always)]
fn of_rows<const N: usize, const C: usize>(
    all: TypedParameters,
    groups: usize,
    first: usize,
) -> [TypedParameters; C] {
    let size = all.number.size();
    let (stride, len) = (groups * size, (groups + N) * size);
    std::array::from_fn(|row| TypedParameters {
        bytes: &all.bytes[(first + row) * stride..][..len],
        ..all
    })
}

/// For each lane, one of the numbers of groups, from the first one on.
#[inline(always)]
fn permuted<L: Lanes<N>, const N: usize>(
    lanes: L,
    of_row: TypedParameters,
    number: Option<ParameterType>,
    first: u32,
    places: &[u32; N],
) -> L::Floats {
    let number = number.unwrap_or(of_row.number);
    let begin = first as usize * number.size();
    let bytes = &of_row.bytes[begin..begin + N * number.size()];
    let numbers = match number {
        ParameterType::F16 => bytes.as_chunks().0.first_chunk().map(|it| lanes.of_f16(it)),
        ParameterType::F32 => {
            bytes.as_chunks().0.first_chunk().map(|it| lanes.f32_of_words(lanes.load_words(it)))
        }
        ParameterType::U8 => bytes.first_chunk().map(|it| lanes.of_u8(it)),
        ParameterType::I8 => bytes.first_chunk().map(|it| lanes.of_i8(it)),
    };
    match numbers {
        Some(numbers) => lanes.permute(numbers, places),
        None => unreachable!("as many bytes as a vector has numbers"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::digits::tests::numbers;
    use super::*;

    /// What the data of a tile stands for.
    trait Stands<const N: usize>: Multiply<N> {
        /// The number, in the unit, that a code meets: digits for even places, those for odd ones, and whether it has an even place.
        fn number(even: [f64; 3], odd: [f64; 3], is_even: bool) -> f64;

        /// What codes of 8 add, in the unit.
        fn eights(numbers: [f64; 2]) -> f64;
    }

    impl Stands<16> for Vnni {
        fn number(even: [f64; 3], odd: [f64; 3], is_even: bool) -> f64 {
            let [even, odd] = [even, odd].map(|[a, b, c]| 65536. * a + 256. * b + c);
            // A code of an even place is in its byte, too; 16 times one of an odd place is.
            if is_even { 16. * even + odd } else { 16. * odd }
        }

        fn eights([high, lowest]: [f64; 2]) -> f64 {
            256. * high + lowest
        }
    }

    impl Stands<8> for Avx2 {
        fn number(even: [f64; 3], odd: [f64; 3], is_even: bool) -> f64 {
            let [a, b, c] = if is_even { even } else { odd };
            -32768. * a + 128. * b + c
        }

        fn eights([eights, _]: [f64; 2]) -> f64 {
            eights
        }
    }

    /// Tiles of four vectors, some of one, and a part of one.
    const DEPTH: usize = 712;

    fn digits<L: Multiply<N>, const N: usize>(
        lanes: L,
        data: &[f32],
        depth: usize,
    ) -> Option<Scratch> {
        digits_of(lanes, ForNibbles { is_signed: true }, data, depth)
    }

    /// Checks a tile against its data.
    fn check<L: Stands<N>, const N: usize>(vectors: usize, tile: &[[f32; N]], data: &[f32]) {
        let behind = &tile[DIGITS * vectors..];
        for (lane, place) in places_of_lanes::<N>(vectors).into_iter().enumerate() {
            let expected: Vec<f64> = (place..place + vectors * CODES)
                .map(|place| f64::from(data.get(place).copied().unwrap_or_default()))
                .collect();
            let [scale, sum] = [UNIT, SUM].map(|place| f64::from(behind[place][lane]));
            let largest = expected.iter().fold(0f64, |most, it| most.max(it.abs()));
            let most = largest * 2f64.powi(-22);
            for (number, expected) in expected.iter().enumerate() {
                let (vector, code) = (number / CODES, number % CODES);
                let [even, odd] = [0, 3].map(|first| {
                    [0, 1, 2].map(|digit| {
                        let word = tile[of_digit(vectors, vector, first + digit)][lane].to_bits();
                        f64::from(word.to_le_bytes()[code / 2].cast_signed())
                    })
                });
                let error = (L::number(even, odd, code % 2 == 0) * scale - expected).abs();
                assert!(error <= most, "number {number} of lane {lane} is wrong by {error}");
            }
            let eights = [EIGHTS, EIGHTS + 1].map(|place| match behind.get(place) {
                Some(vector) => f64::from(vector[lane].to_bits().cast_signed()),
                None => f64::NAN,
            });
            for sum in [sum, L::eights(eights) / 8.] {
                let error = (sum * scale - expected.iter().sum::<f64>()).abs();
                let bound = (vectors * CODES + 1) as f64 * most;
                assert!(error <= bound, "the sum of lane {lane} is wrong by {error}");
            }
        }
    }

    /// Calls a function with the vectors of this machine.
    macro_rules! with_lanes {
        ($function:ident) => {
            crate::product::tests::with_all_vectors(|| {
                let kind = Instructions::detect();
                match (kind.vnni(), kind.avx2()) {
                    (Some(lanes), _) => $function(lanes),
                    (None, Some(lanes)) => $function(lanes),
                    (None, None) => (),
                }
            })
        };
    }

    #[test]
    fn digits_stand_for_the_numbers() {
        fn stand<L: Stands<N>, const N: usize>(lanes: L) {
            for (word, depth) in [(CODES, 2), (CODES, DEPTH), (FOUR * CODES, DEPTH), (CODES, 900)] {
                let data = numbers(word, 2 * depth);
                let rows = digits(lanes, &data, depth).expect("all numbers are finite");
                let stride = rows.len() / 2;
                for (row, data) in rows.chunks(stride).zip(data.chunks(depth)) {
                    let mut vectors = row.as_chunks().0;
                    for (begin, count) in NibbleLayout::<N>::new(depth, L::FOR_SIGNED).begins() {
                        let tile;
                        (tile, vectors) = vectors.split_at(vectors_of_data(count, L::FOR_SIGNED));
                        check::<L, N>(count, tile, &data[begin..]);
                    }
                    assert!(vectors.is_empty());
                }
            }
        }
        with_lanes!(stand);
    }

    #[test]
    fn some_numbers_have_no_digits() {
        fn have_none<L: Multiply<N>, const N: usize>(lanes: L) {
            for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-29, 1e-31, -1e-40] {
                // In a lane of each tile, which has zeros otherwise.
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
        let Some(lanes) = Instructions::detect().vnni() else { return };
        let mut data = numbers(CODES, DEPTH);
        // What meets the first code is greater than it.
        data[32..34].copy_from_slice(&[f32::MAX, -f32::MAX]);
        assert!(digits(lanes, &data, DEPTH).is_none());
    }
}
