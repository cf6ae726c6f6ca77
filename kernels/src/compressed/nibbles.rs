//! Few rows of data, and codes of four bits, where the processor multiplies bytes: the data has [digits](super::digits).
//!
//! A vector has 16 words of eight codes. Four vectors of a row are a tile of 512 codes, and each 32 neighbours are four words, a quarter of
//! a vector. The words of the tile change places, as in a matrix that is transposed: each lane meets four neighbours, one in each vector.
//! So 32 codes have one sum for each digit. They are of one group, and what is done for sums, above all with the scales of groups, is
//! done for a quarter of the vectors. One row of data takes 0.7 to 0.8 of the time of sums of eight codes (AMD EPYC, family 25 model 17).
//! What is left of a row is tiles of one vector, each lane of which has the sums of a word.

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::digits::{
    LANES, Split, SplitRow, Vectors, Vnni, digits_of, scale_of, signed_digit, split_blocks,
};
use super::lanes::{Lanes, OnVnni, transpose_quarters};
use super::matrix::{LEAST_GROUP, Matrix, Number, OfGroups, Part};
use crate::memory::{Ahead, LINE, Scratch};

/// The codes of a word, two of which are a byte.
const CODES: usize = 8;

/// The codes of a vector, and its bytes.
const WIDTH: usize = CODES * LANES;
const BYTES: usize = WIDTH / 2;

/// The vectors of a tile that is transposed, and of one that is not.
const FOUR: usize = 4;
const ONE: usize = 1;

/// The vectors of digits for a vector of words.
const DIGITS: usize = 6;

/// The data of a tile: for each vector of words, the digits of codes of even places, the highest one first, and those of odd places; the
/// scales of the lanes; and the sums of their whole numbers.
type OfFour = Vectors<{ DIGITS * FOUR + 2 }>;
type OfOne = Vectors<{ DIGITS * ONE + 2 }>;

const _: () = assert!(LEAST_GROUP.is_multiple_of(FOUR * CODES), "a lane has codes of one group");

/// Where a tile of so many vectors has its first numbers of each lane.
const fn places_of_lanes(vectors: usize) -> [usize; LANES] {
    let mut places = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        // A quarter of a vector comes to the same quarter of all, where a lane is for each vector.
        places[lane] = match vectors {
            FOUR => lane % 4 * WIDTH + lane / 4 * 4 * CODES,
            ONE => lane * CODES,
            _ => panic!("a tile has one vector or four"),
        };
        lane += 1;
    }
    places
}

/// How many tiles of four vectors a row has, and how many of one.
#[derive(Debug, Clone, Copy)]
struct Layout {
    fours: usize,
    ones: usize,
}

impl Layout {
    fn new(depth: usize) -> Layout {
        let (fours, rest) = (depth / (FOUR * WIDTH), depth % (FOUR * WIDTH));
        Layout { fours, ones: rest.div_ceil(WIDTH) }
    }

    /// The floats of the data of all tiles of four vectors, and of all tiles of one.
    fn floats(self) -> [usize; 2] {
        [self.fours * size_of::<OfFour>(), self.ones * size_of::<OfOne>()]
            .map(|bytes| bytes / size_of::<f32>())
    }

    /// The first codes of the tiles, each with how many vectors the tile has.
    fn begins(self) -> impl Iterator<Item = (usize, usize)> {
        let ones = (0..self.ones).map(move |tile| ((self.fours * FOUR + tile) * WIDTH, ONE));
        (0..self.fours).map(|tile| (tile * FOUR * WIDTH, FOUR)).chain(ones)
    }
}

/// Rows of data, and where the lanes of a tile have their scales.
pub(super) struct Data {
    lanes: Vnni,
    rows: Scratch,
    layout: Layout,
    tiles: Vec<OfTile>,
    /// For each lane of a tile, how many groups its group is behind the first one of the tile. Most tiles have the same.
    groups_of_lanes: Vec<[u32; LANES]>,
}

/// The first group of a tile, and which of [`Data::groups_of_lanes`] it has.
#[derive(Clone, Copy)]
struct OfTile {
    first: usize,
    groups_of_lanes: usize,
}

impl Data {
    /// None if some numbers cannot be [split](Split::split).
    pub fn new(lanes: Vnni, matrix: &Matrix, data: &[f32]) -> Option<Data> {
        let rows = digits_of(lanes, ForNibbles, data, matrix.depth)?;
        let layout = Layout::new(matrix.depth);
        let mut groups_of_lanes: Vec<[u32; LANES]> = vec![];
        let tiles = layout.begins().map(|(begin, vectors)| {
            let first = matrix.group_of(begin);
            let groups = places_of_lanes(vectors)
                .map(|place| (matrix.group_of(begin + place) - first) as u32);
            let number = groups_of_lanes.iter().position(|it| *it == groups).unwrap_or_else(|| {
                groups_of_lanes.push(groups);
                groups_of_lanes.len() - 1
            });
            OfTile { first, groups_of_lanes: number }
        });
        let tiles = tiles.collect();
        Some(Data { lanes, rows, layout, tiles, groups_of_lanes })
    }

    /// The tiles of a row.
    #[inline(always)]
    fn row(&self, row: usize) -> (&[OfFour], &[OfOne]) {
        let [fours, ones] = self.layout.floats();
        let (of_fours, of_ones) = self.rows[row * (fours + ones)..][..fours + ones].split_at(fours);
        (of_fours.as_chunks().0.as_chunks().0, of_ones.as_chunks().0.as_chunks().0)
    }
}

/// Splits data for codes of four bits.
#[derive(Debug, Clone, Copy)]
struct ForNibbles;

impl SplitRow for ForNibbles {
    fn stride(self, depth: usize) -> usize {
        Layout::new(depth).floats().iter().sum()
    }

    #[inline(always)]
    fn split_row(self, lanes: Vnni, row: &[f32], place: &mut [f32]) -> bool {
        let layout = Layout::new(row.len());
        let (fours, ones) = row.split_at(layout.fours * FOUR * WIDTH);
        let (of_fours, of_ones) = place.split_at_mut(layout.floats()[0]);
        split_blocks::<_, _, { FOUR * WIDTH }>(self, lanes, fours, of_fours)
            & split_blocks::<_, _, WIDTH>(self, lanes, ones, of_ones)
    }
}

impl Split<{ DIGITS * FOUR + 2 }, { FOUR * WIDTH }> for ForNibbles {
    #[inline(always)]
    fn split(self, lanes: Vnni, numbers: &[f32; FOUR * WIDTH], tile: &mut OfFour) -> bool {
        split::<FOUR>(lanes, numbers, tile)
    }
}

impl Split<{ DIGITS * ONE + 2 }, WIDTH> for ForNibbles {
    #[inline(always)]
    fn split(self, lanes: Vnni, numbers: &[f32; WIDTH], tile: &mut OfOne) -> bool {
        split::<ONE>(lanes, numbers, tile)
    }
}

/// Splits the data of a tile of so many vectors.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "closures would not be compiled for the vectors")]
fn split<const V: usize>(lanes: Vnni, numbers: &[f32], tile: &mut [[f32; LANES]]) -> bool {
    // Each lane has so many numbers.
    let count = V * CODES;
    assert!(numbers.len() == V * WIDTH && count <= 2 * LANES);
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`. Each lane has `count` numbers from its place on, the last
    // one up to the end; only so many of a vector are read.
    unsafe {
        let mut of_lanes = [lanes.splat(0.); 2 * LANES];
        for first in (0..count).step_by(LANES) {
            let mask = (u32::MAX >> (32 - (count - first).min(LANES))) as __mmask16;
            let mut words = [_mm512_setzero_si512(); LANES];
            for lane in 0..LANES {
                let place = const { places_of_lanes(V) }[lane] + first;
                words[lane] = _mm512_maskz_loadu_epi32(mask, numbers.as_ptr().add(place).cast());
            }
            let words = lanes.transpose(words);
            for number in 0..LANES {
                of_lanes[first + number] = _mm512_castsi512_ps(words[number]);
            }
        }
        let mut largest = lanes.splat(0.);
        let mut finite = 0xffff;
        for number in &of_lanes[..count] {
            let size = _mm512_abs_ps(*number);
            finite &= _mm512_cmp_ps_mask::<_CMP_LE_OQ>(size, lanes.splat(f32::MAX));
            largest = _mm512_max_ps(largest, size);
        }
        let (scale, has_all_bits) = scale_of(lanes, largest);
        let mut sum = _mm512_setzero_si512();
        for vector in 0..V {
            let mut digits = [_mm512_setzero_si512(); DIGITS];
            for code in 0..CODES {
                let number = of_lanes[CODES * vector + code];
                let mut whole = _mm512_cvtps_epi32(_mm512_div_ps(number, scale));
                sum = _mm512_add_epi32(sum, whole);
                for digit in (0..3).rev() {
                    let byte = signed_digit(lanes, &mut whole);
                    let above = _mm512_set1_epi32(8 * (code / 2) as i32);
                    let place = &mut digits[code % 2 * 3 + digit];
                    *place = _mm512_or_si512(*place, _mm512_sllv_epi32(byte, above));
                }
            }
            for digit in 0..DIGITS {
                let place = &mut tile[DIGITS * vector + digit];
                lanes.store(place, _mm512_castsi512_ps(digits[digit]));
            }
        }
        lanes.store(&mut tile[DIGITS * V], scale);
        lanes.store(&mut tile[DIGITS * V + 1], _mm512_castsi512_ps(sum));
        finite & has_all_bits == 0xffff
    }
}

/// Rows of a matrix with their scales and zero points, if they have such.
pub(super) type Nibbles<'a, 'b> = Part<'a, 'b, Data, [Option<OfGroups<'a>>; 2]>;

/// Multiplies a part of a matrix.
pub(super) fn multiply(part: Nibbles) {
    part.data.lanes.enter(part);
}

impl OnVnni for Nibbles<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(mut self, lanes: Vnni) {
        match self.matrix.format.is_signed() {
            true => self.of_codes::<true>(lanes),
            false => self.of_codes::<false>(lanes),
        }
    }
}

/// The types of scales and zero points, where they are known before the program runs. Tiles whose types are looked up take 1.04 times as
/// long, and more where there are zero points.
trait Types {
    const SCALES: Option<Number> = None;
    const ZERO_POINTS: Option<Number> = None;
    const HAS_ZERO_POINTS: bool;
}

/// As NNCF has them in symmetric models.
struct Halves;

impl Types for Halves {
    const SCALES: Option<Number> = Some(Number::F16);
    const HAS_ZERO_POINTS: bool = false;
}

/// As NNCF has them in asymmetric models.
struct HalvesAndBytes;

impl Types for HalvesAndBytes {
    const SCALES: Option<Number> = Some(Number::F16);
    const ZERO_POINTS: Option<Number> = Some(Number::U8);
    const HAS_ZERO_POINTS: bool = true;
}

struct Any<const HAS_ZERO_POINTS: bool>;

impl<const HAS_ZERO_POINTS: bool> Types for Any<HAS_ZERO_POINTS> {
    const HAS_ZERO_POINTS: bool = HAS_ZERO_POINTS;
}

impl Nibbles<'_, '_> {
    #[inline(always)]
    fn of_codes<const SIGNED: bool>(&mut self, lanes: Vnni) {
        match self.parameters.map(|all| all.map(|all| all.number)) {
            [Some(Number::F16), None] => self.multiply::<Halves, SIGNED>(lanes),
            [Some(Number::F16), Some(Number::U8)] => self.multiply::<HalvesAndBytes, SIGNED>(lanes),
            [_, None] => self.multiply::<Any<false>, SIGNED>(lanes),
            [_, Some(_)] => self.multiply::<Any<true>, SIGNED>(lanes),
        }
    }

    #[inline(always)]
    fn multiply<T: Types, const SIGNED: bool>(&mut self, lanes: Vnni) {
        for first in (0..self.output.len()).step_by(2) {
            match self.output.len() - first {
                1 => self.of_data::<T, SIGNED, 1>(lanes, first),
                _ => self.of_data::<T, SIGNED, 2>(lanes, first),
            }
        }
    }

    /// The products with `R` rows of data.
    #[inline(always)]
    fn of_data<T: Types, const SIGNED: bool, const R: usize>(&mut self, lanes: Vnni, first: usize) {
        let data = self.data;
        let mut rows = Rows {
            codes: self.bytes,
            row_bytes: self.matrix.row_bytes(),
            of_groups: self.parameters,
            groups: self.matrix.groups(),
            tiles: data.tiles.split_at(data.layout.fours),
            groups_of_lanes: &data.groups_of_lanes,
            data_of_fours: [&[]; R],
            data_of_ones: [&[]; R],
        };
        for of in 0..R {
            (rows.data_of_fours[of], rows.data_of_ones[of]) = data.row(first + of);
        }
        let count = self.output[first].len();
        for row in (0..count / 2 * 2).step_by(2) {
            let sums = rows.sums::<T, SIGNED, 2>(lanes, row);
            for (output, sums) in self.output[first..].iter_mut().zip(&sums) {
                output[row..row + 2].copy_from_slice(sums);
            }
        }
        if count % 2 == 1 {
            let sums = rows.sums::<T, SIGNED, 1>(lanes, count - 1);
            for (output, [sum]) in self.output[first..].iter_mut().zip(&sums) {
                output[count - 1] = *sum;
            }
        }
    }
}

/// Rows of a matrix and `R` rows of data. What all rows need is a value of its own: the compiler reads nothing of it again after it has
/// written sums.
#[derive(Clone, Copy)]
struct Rows<'a, const R: usize> {
    codes: &'a [u8],
    row_bytes: usize,
    /// The scales of all rows, and their zero points.
    of_groups: [Option<OfGroups<'a>>; 2],
    /// Those of a row.
    groups: usize,
    /// The tiles of four vectors, and those of one.
    tiles: (&'a [OfTile], &'a [OfTile]),
    groups_of_lanes: &'a [[u32; LANES]],
    data_of_fours: [&'a [OfFour]; R],
    data_of_ones: [&'a [OfOne]; R],
}

impl<const R: usize> Rows<'_, R> {
    /// The products of `C` rows, from the first one on: a row for each row of data.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn sums<T: Types, const SIGNED: bool, const C: usize>(
        self,
        lanes: Vnni,
        first: usize,
    ) -> [[f32; C]; R] {
        let Rows { row_bytes, tiles: (fours, ones), .. } = self;
        let mut wholes = [&[][..]; C];
        let mut rests = [&[][..]; C];
        for row in 0..C {
            let codes = &self.codes[(first + row) * row_bytes..][..row_bytes];
            (wholes[row], rests[row]) = codes.as_chunks();
            wholes[row] = &wholes[row][..fours.len()];
        }
        for all in self.of_groups.iter().flatten() {
            let bytes = all.part(first * self.groups..(first + C) * self.groups).bytes;
            // Those of the eighth rows to come, or the next line.
            let far = (8 * bytes.len()).max(LINE);
            Ahead::new(bytes.as_ptr(), far, far / 2).ask(bytes.len());
        }
        let mut data_of_fours = self.data_of_fours;
        for of in 0..R {
            data_of_fours[of] = &data_of_fours[of][..fours.len()];
        }
        let zeros = first_bytes(lanes, &[]);
        let mut totals = [[lanes.splat(0.); R]; C];
        let mut ahead = Ahead::behind(self.codes[first * row_bytes..].as_ptr(), C * row_bytes);
        for tile in 0..fours.len() {
            // A closure would not be compiled for the vectors.
            let mut words = [[zeros; FOUR]; C];
            for row in 0..C {
                words[row] = transposed(lanes, &wholes[row][tile]);
            }
            let data = data_of_fours.map(|data| &data[tile]);
            let groups = self.groups::<T, C>(lanes, fours[tile], first);
            add::<T, SIGNED, C, R, FOUR, _>(lanes, words, data, groups, &mut ahead, &mut totals);
        }
        for tile in 0..ones.len() {
            let mut words = [[zeros; ONE]; C];
            for row in 0..C {
                words[row] = [first_bytes(lanes, &rests[row][tile * BYTES..])];
            }
            let data = self.data_of_ones.map(|data| &data[tile]);
            let groups = self.groups::<T, C>(lanes, ones[tile], first);
            add::<T, SIGNED, C, R, ONE, _>(lanes, words, data, groups, &mut ahead, &mut totals);
        }
        let mut sums = [[0.; C]; R];
        for row in 0..C {
            for of in 0..R {
                sums[of][row] = lanes.sum(totals[row][of]);
            }
        }
        sums
    }

    /// What the lanes of a tile have of some rows. All branches are here: with some between products, the compiler has each row wait for
    /// the one before it.
    #[inline(always)]
    fn groups<T: Types, const C: usize>(
        self,
        lanes: Vnni,
        tile: OfTile,
        first: usize,
    ) -> OfLanes<C> {
        let mut scales = [lanes.splat(1.); C];
        let mut zero_points = [lanes.splat(0.); C];
        let [all_scales, all_zero_points] = self.of_groups;
        let places = &self.groups_of_lanes[tile.groups_of_lanes];
        for row in 0..C {
            let group = (first + row) * self.groups + tile.first;
            if let Some(OfGroups { bytes, number }) = all_scales {
                let number = T::SCALES.unwrap_or(number);
                scales[row] = permuted(lanes, OfGroups { bytes, number }, group, places);
            }
            if T::HAS_ZERO_POINTS
                && let Some(OfGroups { bytes, number }) = all_zero_points
            {
                let number = T::ZERO_POINTS.unwrap_or(number);
                zero_points[row] = permuted(lanes, OfGroups { bytes, number }, group, places);
            }
        }
        [scales, zero_points]
    }
}

/// The scales of the lanes of a tile, for some rows, and their zero points.
type OfLanes<const C: usize> = [[__m512; C]; 2];

/// For each lane, one of the numbers of some groups.
#[inline(always)]
fn permuted(lanes: Vnni, all: OfGroups, first: usize, places: &[u32; LANES]) -> __m512 {
    let bytes = &all.bytes[first * all.number.size()..];
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`. What is read has the size of a vector; or only bytes of the
    // slice are.
    unsafe {
        // To mask all reads takes 1.05 times as long.
        let numbers = match all.number {
            Number::F16 => _mm512_cvtph_ps(match bytes.first_chunk::<{ 2 * LANES }>() {
                Some(bytes) => _mm256_loadu_si256(bytes.as_ptr().cast()),
                None => _mm512_castsi512_si256(first_bytes(lanes, bytes)),
            }),
            Number::F32 => match bytes.first_chunk::<{ 4 * LANES }>() {
                Some(bytes) => _mm512_loadu_ps(bytes.as_ptr().cast()),
                None => _mm512_castsi512_ps(first_bytes(lanes, bytes)),
            },
            Number::U8 | Number::I8 => {
                let bytes = match bytes.first_chunk::<LANES>() {
                    Some(bytes) => _mm_loadu_si128(bytes.as_ptr().cast()),
                    None => _mm512_castsi512_si128(first_bytes(lanes, bytes)),
                };
                _mm512_cvtepi32_ps(match all.number {
                    Number::I8 => _mm512_cvtepi8_epi32(bytes),
                    _ => _mm512_cvtepu8_epi32(bytes),
                })
            }
        };
        _mm512_permutexvar_ps(_mm512_loadu_si512(places.as_ptr().cast()), numbers)
    }
}

/// The vectors of a tile, transposed.
#[inline(always)]
fn transposed(_: Vnni, tile: &[u8; FOUR * BYTES]) -> [__m512i; FOUR] {
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`; what is read has the size of a vector.
    unsafe {
        let mut v = [_mm512_setzero_si512(); FOUR];
        for (vector, bytes) in v.iter_mut().zip(tile.as_chunks::<BYTES>().0) {
            *vector = _mm512_loadu_si512(bytes.as_ptr().cast());
        }
        transpose_quarters(v)
    }
}

/// A vector of the first bytes, with zeros where there are no more.
#[inline(always)]
fn first_bytes(_: Vnni, bytes: &[u8]) -> __m512i {
    let mask = u64::MAX.unbounded_shr((BYTES - bytes.len().min(BYTES)) as u32);
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`; only bytes of the slice are read.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
}

/// Adds the products of a tile of `V` vectors of words of some rows, and of its data.
#[inline(always)]
fn add<
    T: Types,
    const SIGNED: bool,
    const C: usize,
    const R: usize,
    const V: usize,
    const COUNT: usize,
>(
    lanes: Vnni,
    words: [[__m512i; V]; C],
    data: [&Vectors<COUNT>; R],
    [scales, zero_points]: OfLanes<C>,
    ahead: &mut Ahead,
    totals: &mut [[__m512; R]; C],
) {
    const { assert!(COUNT == DIGITS * V + 2) };
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
    unsafe {
        let low = _mm512_set1_epi8(15);
        // As unsigned codes, signed ones are greater by 8.
        let above = _mm512_set1_epi8(if SIGNED { 8 } else { 0 });
        let mut sums = [[[_mm512_setzero_si512(); 3]; R]; C];
        for vector in 0..V {
            // All lines at once would wait for each other: 0.95 of the speed.
            ahead.ask(C * BYTES);
            let mut codes = [[low; 2]; C];
            for row in 0..C {
                let words = words[row][vector];
                let halves = [words, _mm512_srli_epi32::<4>(words)];
                for half in 0..2 {
                    codes[row][half] = _mm512_xor_si512(_mm512_and_si512(halves[half], low), above);
                }
            }
            for digit in 0..DIGITS {
                for of in 0..R {
                    let digits = &data[of][DIGITS * vector + digit];
                    let digits = _mm512_castps_si512(lanes.load(digits));
                    for row in 0..C {
                        let sum = &mut sums[row][of][digit % 3];
                        *sum = _mm512_dpbusd_epi32(*sum, codes[row][digit / 3], digits);
                    }
                }
            }
        }
        for row in 0..C {
            for of in 0..R {
                let [a, b, c] = sums[row][of];
                let sum = _mm512_castps_si512(lanes.load(&data[of][DIGITS * V + 1]));
                let high = _mm512_add_epi32(_mm512_slli_epi32::<8>(a), b);
                // Each is rounded once. 32 products of signed codes are less than 2^31; what comes before may wrap. Of unsigned codes,
                // those with two digits are less than 2^24.
                let mut product = if SIGNED {
                    let whole = _mm512_add_epi32(_mm512_slli_epi32::<8>(high), c);
                    _mm512_cvtepi32_ps(_mm512_sub_epi32(whole, _mm512_slli_epi32::<3>(sum)))
                } else {
                    let high = _mm512_cvtepi32_ps(high);
                    lanes.mul_add(high, lanes.splat(256.), _mm512_cvtepi32_ps(c))
                };
                if T::HAS_ZERO_POINTS {
                    let sum = _mm512_cvtepi32_ps(sum);
                    product = _mm512_fnmadd_ps(zero_points[row], sum, product);
                }
                let product = lanes.mul(product, lanes.load(&data[of][DIGITS * V]));
                totals[row][of] = lanes.mul_add(scales[row], product, totals[row][of]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::digits::tests::numbers;
    use super::*;
    use crate::compressed::lanes::Kind;

    /// A tile of four vectors, one of one, and a part of one.
    const DEPTH: usize = 712;

    fn digits(lanes: Vnni, data: &[f32], depth: usize) -> Option<Scratch> {
        digits_of(lanes, ForNibbles, data, depth)
    }

    /// Checks a tile against its data.
    fn check<const V: usize>(tile: &[[f32; LANES]], data: &[f32]) {
        let whole_of = |digits: [f64; 3]| 65536. * digits[0] + 256. * digits[1] + digits[2];
        for (lane, place) in places_of_lanes(V).into_iter().enumerate() {
            let expected: Vec<f64> = (place..place + V * CODES)
                .map(|place| f64::from(data.get(place).copied().unwrap_or_default()))
                .collect();
            let scale = f64::from(tile[DIGITS * V][lane]);
            let largest = expected.iter().fold(0f64, |most, it| most.max(it.abs()));
            let most = largest * 2f64.powi(-23);
            for (number, expected) in expected.iter().enumerate() {
                let (vector, code) = (number / CODES, number % CODES);
                let whole = whole_of([0, 1, 2].map(|digit| {
                    let word = tile[DIGITS * vector + code % 2 * 3 + digit][lane].to_bits();
                    f64::from(word.to_le_bytes()[code / 2].cast_signed())
                }));
                let error = (whole * scale - expected).abs();
                assert!(error <= most, "number {number} of lane {lane} is wrong by {error}");
            }
            let sum = f64::from(tile[DIGITS * V + 1][lane].to_bits().cast_signed()) * scale;
            let error = (sum - expected.iter().sum::<f64>()).abs();
            let bound = (V * CODES + 1) as f64 * most;
            assert!(error <= bound, "the sum of lane {lane} is wrong by {error}");
        }
    }

    #[test]
    fn digits_stand_for_the_numbers() {
        let Some(lanes) = Vnni::detect(Kind::detect()) else { return };
        for (word, depth) in [(CODES, 2), (CODES, DEPTH), (FOUR * CODES, DEPTH), (CODES, 900)] {
            let data = numbers(word, 2 * depth);
            let rows = digits(lanes, &data, depth).expect("all numbers are finite");
            for (row, data) in rows.chunks(ForNibbles.stride(depth)).zip(data.chunks(depth)) {
                let mut vectors = row.as_chunks().0;
                for (begin, count) in Layout::new(depth).begins() {
                    let tile;
                    (tile, vectors) = vectors.split_at(DIGITS * count + 2);
                    match count {
                        FOUR => check::<FOUR>(tile, &data[begin..]),
                        _ => check::<ONE>(tile, &data[begin..]),
                    }
                }
                assert!(vectors.is_empty());
            }
        }
    }

    #[test]
    fn some_numbers_have_no_digits() {
        let Some(lanes) = Vnni::detect(Kind::detect()) else { return };
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-31, -1e-40] {
            // In a lane of each tile, which has zeros otherwise.
            for (zeros, place) in [(32..64, 33), (512..520, 519), (704..712, 704)] {
                let mut data = numbers(CODES, DEPTH);
                data[zeros].fill(0.);
                assert!(digits(lanes, &data, DEPTH).is_some());
                data[place] = number;
                assert!(digits(lanes, &data, DEPTH).is_none(), "{number} at {place}");
            }
        }
    }
}
