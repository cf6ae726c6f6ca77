//! Few rows of data, and codes of four bits, where the processor multiplies bytes: the data has [digits](super::digits).
//!
//! A vector has 16 words of eight codes. Four vectors of a row are a tile of 512 codes, and each 32 neighbours are four words, a quarter of
//! a vector. The words of the tile change places, as in a matrix that is transposed: each lane meets four neighbours, one in each vector.
//! So 32 codes have one sum for each digit. They are of one group, and what is done for sums, above all with the scales of groups, is
//! done for a quarter of the vectors. One row of data took 0.7 to 0.8 of the time of sums of eight codes (AMD EPYC, family 25 model 17).
//! What is left of a row is tiles of one vector, each lane of which has the sums of a word.
//!
//! Two codes, `e` at an even place and `o` at an odd one, are a byte `e + 16 o`. For data `x` and `y`,
//!
//! ```text
//! e * x + o * y = e * (x - y / 16) + (e + 16 * o) * y / 16
//! ```
//!
//! so bytes are multiplied as they are, and only the codes of even places are taken out of them.

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::sync::atomic::{Ordering, compiler_fence};

use super::digits::{
    LANES, SplitRow, Vector, Vectors, Vnni, digits_of, padded, scale_of, signed_digit,
};
use super::lanes::{Lanes, OnVnni, transpose_quarters};
use super::matrix::{LEAST_GROUP, Matrix, Number, OfGroups, Part};
use crate::memory::{Ahead, LINE, Scratch, prefetch_first};

/// The codes of a word, two of which are a byte.
const CODES: usize = 8;

/// The codes of a vector, and its bytes.
const WIDTH: usize = CODES * LANES;
const BYTES: usize = WIDTH / 2;

/// The vectors of a tile that is transposed, and of one that is not.
const FOUR: usize = 4;
const ONE: usize = 1;

/// The vectors of digits for a vector of words: three for the codes of even places, the highest digits first, and three for bytes.
const DIGITS: usize = 6;

// The data of a tile has first the digits for codes of even places, of all its vectors; then those for bytes; and behind them, for each
// lane:

/// What its sums of products are multiplied with: a sixteenth of the scale of its numbers.
const UNIT: usize = 0;

/// The sum of its numbers, in that unit.
const SUM: usize = 1;

/// Where codes are signed: the whole numbers that codes of 8 have in place of the sums of products, those of two digits and of the lowest
/// one. Unsigned codes do without: with that, rows of 8,192 would take 1.03 times as long, as their data fills the first-level cache.
const EIGHTS: [usize; 2] = [2, 3];

/// How many vectors the data of a tile of so many vectors has.
const fn vectors_of_data(vectors: usize, is_signed: bool) -> usize {
    DIGITS * vectors + if is_signed { 4 } else { 2 }
}

/// So far ahead, in a row, codes are asked for once more, for the first-level cache. With that, rows of 2,048 and 8,192 codes take 0.97
/// of the time; to find the next row at the end of one costs short rows more than it gives long ones.
const NEXT: usize = 512;

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
    is_signed: bool,
}

impl Layout {
    fn new(depth: usize, is_signed: bool) -> Layout {
        let (fours, rest) = (depth / (FOUR * WIDTH), depth % (FOUR * WIDTH));
        Layout { fours, ones: rest.div_ceil(WIDTH), is_signed }
    }

    /// The vectors of the data of all tiles of four vectors, and of all tiles of one.
    fn vectors(self) -> [usize; 2] {
        [(self.fours, FOUR), (self.ones, ONE)]
            .map(|(tiles, vectors)| tiles * vectors_of_data(vectors, self.is_signed))
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
    /// Of 32 bits: places that are counted from it cannot be too large, and one comparison checks them.
    first: u32,
    groups_of_lanes: usize,
}

impl Data {
    /// None if some numbers cannot be [split](SplitRow::split_row), or groups counted in 32 bits.
    pub fn new(lanes: Vnni, matrix: &Matrix, data: &[f32]) -> Option<Data> {
        let is_signed = matrix.format.is_signed();
        let rows = digits_of(lanes, ForNibbles { is_signed }, data, matrix.depth)?;
        let layout = Layout::new(matrix.depth, is_signed);
        let mut groups_of_lanes: Vec<[u32; LANES]> = vec![];
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
        Some(Data { lanes, rows, layout, tiles, groups_of_lanes })
    }

    /// The tiles of a row.
    #[inline(always)]
    fn row(&self, row: usize) -> (&[Vector], &[Vector]) {
        let [fours, ones] = self.layout.vectors();
        let vectors = self.rows.as_chunks().0;
        vectors[row * (fours + ones)..][..fours + ones].split_at(fours)
    }
}

/// Splits data for codes of four bits.
#[derive(Debug, Clone, Copy)]
struct ForNibbles {
    is_signed: bool,
}

impl SplitRow for ForNibbles {
    fn stride(self, depth: usize) -> usize {
        LANES * Layout::new(depth, self.is_signed).vectors().iter().sum::<usize>()
    }

    #[inline(always)]
    fn split_row(self, lanes: Vnni, row: &[f32], place: &mut [f32]) -> bool {
        let mut places: &mut [Vector] = place.as_chunks_mut().0;
        let mut is_exact = true;
        for (begin, vectors) in Layout::new(row.len(), self.is_signed).begins() {
            let (tile, rest) = places.split_at_mut(vectors_of_data(vectors, self.is_signed));
            places = rest;
            let numbers = &row[begin..];
            is_exact &= match numbers.first_chunk() {
                Some(numbers) if vectors == FOUR => {
                    split::<FOUR, { FOUR * WIDTH }>(lanes, numbers, tile)
                }
                _ => split::<ONE, WIDTH>(lanes, &padded(numbers), tile),
            };
        }
        is_exact
    }
}

/// Where a tile of so many vectors has a digit of a vector: those for codes of even places are the first three.
const fn of_digit(vectors: usize, vector: usize, digit: usize) -> usize {
    digit / 3 * 3 * vectors + 3 * vector + digit % 3
}

/// Splits the data of a tile of so many vectors.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "closures would not be compiled for the vectors")]
fn split<const V: usize, const COUNT: usize>(
    lanes: Vnni,
    numbers: &[f32; COUNT],
    tile: &mut [Vector],
) -> bool {
    // Each lane has so many numbers.
    let count = V * CODES;
    const { assert!(COUNT == V * WIDTH && V * CODES <= 2 * LANES) }
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
        // What meets codes of even places, and what meets bytes.
        for pair in of_lanes[..count].as_chunks_mut::<2>().0 {
            pair[0] = _mm512_fnmadd_ps(pair[1], lanes.splat(1. / 16.), pair[0]);
        }
        let mut largest = lanes.splat(0.);
        let mut finite = 0xffff;
        for number in &of_lanes[..count] {
            let size = _mm512_abs_ps(*number);
            finite &= _mm512_cmp_ps_mask::<_CMP_LE_OQ>(size, lanes.splat(f32::MAX));
            largest = _mm512_max_ps(largest, size);
        }
        let (scale, has_all_bits) = scale_of(lanes, largest);
        let mut wholes = [_mm512_setzero_si512(); 2];
        let mut without_lowest = [_mm512_setzero_si512(); 2];
        for vector in 0..V {
            let mut digits = [_mm512_setzero_si512(); DIGITS];
            for code in 0..CODES {
                let parity = code % 2;
                let number = of_lanes[CODES * vector + code];
                let mut whole = _mm512_cvtps_epi32(_mm512_div_ps(number, scale));
                wholes[parity] = _mm512_add_epi32(wholes[parity], whole);
                for digit in (0..3).rev() {
                    let byte = signed_digit(lanes, &mut whole);
                    if digit == 2 {
                        without_lowest[parity] = _mm512_add_epi32(without_lowest[parity], whole);
                    }
                    let above = _mm512_set1_epi32(8 * (code / 2) as i32);
                    let place = &mut digits[3 * parity + digit];
                    *place = _mm512_or_si512(*place, _mm512_sllv_epi32(byte, above));
                }
            }
            for digit in 0..DIGITS {
                let place = &mut tile[of_digit(V, vector, digit)];
                lanes.store(place, _mm512_castsi512_ps(digits[digit]));
            }
        }
        // In the unit, what meets codes of even places counts 16 times, and what meets bytes 17 times: a byte has both codes, one of them
        // 16 times.
        let mut high = _mm512_setzero_si512();
        let mut lowest = _mm512_setzero_si512();
        for parity in 0..2 {
            let eights = _mm512_set1_epi32(8 * (16 + parity as i32));
            let rest = without_lowest[parity];
            let digits = _mm512_sub_epi32(wholes[parity], _mm512_slli_epi32::<8>(rest));
            high = _mm512_add_epi32(high, _mm512_mullo_epi32(rest, eights));
            lowest = _mm512_add_epi32(lowest, _mm512_mullo_epi32(digits, eights));
        }
        let [unit, sum, of_eights @ ..] = &mut tile[DIGITS * V..] else {
            unreachable!("there are two vectors behind the digits")
        };
        let product = product_of(lanes, high, lowest);
        lanes.store(unit, lanes.mul(scale, lanes.splat(1. / 16.)));
        lanes.store(sum, lanes.mul(product, lanes.splat(1. / 8.)));
        if let [place_of_high, place_of_lowest] = of_eights {
            lanes.store(place_of_high, _mm512_castsi512_ps(high));
            lanes.store(place_of_lowest, _mm512_castsi512_ps(lowest));
        }
        finite & has_all_bits == 0xffff
    }
}

/// The product of codes and whole numbers, in single precision, of its sums with two digits and with the lowest one.
#[inline(always)]
fn product_of(lanes: Vnni, high: __m512i, lowest: __m512i) -> __m512 {
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
    unsafe {
        let (high, lowest) = (_mm512_cvtepi32_ps(high), _mm512_cvtepi32_ps(lowest));
        lanes.mul_add(high, lanes.splat(256.), lowest)
    }
}

/// Rows of a matrix with their scales, and with their zero points, if they have such.
pub(super) type Nibbles<'a, 'b> = Part<'a, 'b, Data, (OfGroups<'a>, Option<OfGroups<'a>>)>;

/// Multiplies a part of a matrix. Behind its parameters is a vector of any numbers.
pub(super) fn multiply(part: Nibbles) {
    part.data.lanes.enter(part);
}

impl OnVnni for Nibbles<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(mut self, lanes: Vnni) {
        match self.matrix.format.is_signed() {
            true => self.of_codes::<true, { vectors_of_data(FOUR, true) }, { vectors_of_data(ONE, true) }>(lanes),
            false => {
                self.of_codes::<false, { vectors_of_data(FOUR, false) }, { vectors_of_data(ONE, false) }>(lanes)
            }
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
    /// The data of a tile of four vectors is `F` vectors, and that of a tile of one is `O`. Lengths that the compiler knows keep its loads
    /// between the fences of [`add`]: without them, rows of 8,192 codes take 1.1 times as long.
    #[inline(always)]
    fn of_codes<const SIGNED: bool, const F: usize, const O: usize>(&mut self, lanes: Vnni) {
        let (scales, zero_points) = self.parameters;
        match (scales.number, zero_points.map(|all| all.number)) {
            (Number::F16, None) => self.multiply::<Halves, SIGNED, F, O>(lanes),
            (Number::F16, Some(Number::U8)) => self.multiply::<HalvesAndBytes, SIGNED, F, O>(lanes),
            (_, None) => self.multiply::<Any<false>, SIGNED, F, O>(lanes),
            (_, Some(_)) => self.multiply::<Any<true>, SIGNED, F, O>(lanes),
        }
    }

    #[inline(always)]
    fn multiply<T: Types, const SIGNED: bool, const F: usize, const O: usize>(
        &mut self,
        lanes: Vnni,
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
    fn of_data<T: Types, const SIGNED: bool, const F: usize, const O: usize, const R: usize>(
        &mut self,
        lanes: Vnni,
        first: usize,
    ) {
        let data = self.data;
        let (scales, zero_points) = self.parameters;
        let mut rows: Rows<F, O, R> = Rows {
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
struct Rows<'a, const F: usize, const O: usize, const R: usize> {
    codes: &'a [u8],
    row_bytes: usize,
    /// Those of all rows.
    scales: OfGroups<'a>,
    zero_points: Option<OfGroups<'a>>,
    /// Those of a row.
    groups: usize,
    /// The tiles of four vectors, and those of one.
    tiles: (&'a [OfTile], &'a [OfTile]),
    groups_of_lanes: &'a [[u32; LANES]],
    data_of_fours: [&'a [Vectors<F>]; R],
    data_of_ones: [&'a [Vectors<O>]; R],
}

impl<const F: usize, const O: usize, const R: usize> Rows<'_, F, O, R> {
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
        let mut data_of_fours = self.data_of_fours;
        for of in 0..R {
            data_of_fours[of] = &data_of_fours[of][..fours.len()];
        }
        let scales = of_rows(self.scales, self.groups, first);
        // If there are none, nobody reads them.
        let zero_points = of_rows(self.zero_points.unwrap_or(self.scales), self.groups, first);
        let zeros = first_bytes(lanes, &[]);
        let mut totals = [[lanes.splat(0.); R]; C];
        let mut ahead = Ahead::behind(self.codes[first * row_bytes..].as_ptr(), C * row_bytes);
        for tile in 0..fours.len() {
            // A closure would not be compiled for the vectors.
            let mut words = [[zeros; FOUR]; C];
            let mut next = [std::ptr::null(); C];
            for row in 0..C {
                words[row] = transposed(lanes, &wholes[row][tile]);
                next[row] = wholes[row][tile].as_ptr().wrapping_add(NEXT);
            }
            let asks = Asks { ahead: &mut ahead, next };
            let data = data_of_fours.map(|data| &data[tile]);
            let groups = self.groups::<T, C>(lanes, fours[tile], scales, zero_points);
            add::<T, SIGNED, C, R, FOUR, F>(lanes, words, data, groups, asks, &mut totals);
        }
        for tile in 0..ones.len() {
            let mut words = [[zeros; ONE]; C];
            let mut next = [std::ptr::null(); C];
            for row in 0..C {
                let codes = &rests[row][tile * BYTES..];
                words[row] = [first_bytes(lanes, codes)];
                next[row] = codes.as_ptr().wrapping_add(NEXT);
            }
            let asks = Asks { ahead: &mut ahead, next };
            let data = self.data_of_ones.map(|data| &data[tile]);
            let groups = self.groups::<T, C>(lanes, ones[tile], scales, zero_points);
            add::<T, SIGNED, C, R, ONE, O>(lanes, words, data, groups, asks, &mut totals);
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
    fn groups<T: Types, const C: usize>(
        self,
        lanes: Vnni,
        tile: OfTile,
        scales_of_rows: [OfGroups; C],
        zero_points_of_rows: [OfGroups; C],
    ) -> OfLanes<C> {
        let mut scales = [lanes.splat(0.); C];
        let mut zero_points = [lanes.splat(0.); C];
        let places = &self.groups_of_lanes[tile.groups_of_lanes];
        ask_for_groups(scales_of_rows, T::SCALES, self.groups, tile.first);
        if T::HAS_ZERO_POINTS {
            ask_for_groups(zero_points_of_rows, T::ZERO_POINTS, self.groups, tile.first);
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
fn ask_for_groups<const C: usize>(
    rows: [OfGroups; C],
    number: Option<Number>,
    groups: usize,
    first: u32,
) {
    let size = number.unwrap_or(rows[0].number).size();
    // For those that are multiplied the time after the next, or some lines ahead.
    let far = (2 * C * groups * size).max(4 * LINE);
    let place = rows[0].bytes.as_ptr().wrapping_add(C * first as usize * size);
    Ahead::new(place, far, far / 2).ask(C * LANES * size);
}

/// What the groups of some rows have, and a vector behind each. They are equally long, which is one comparison for all.
#[inline(always)]
fn of_rows<const C: usize>(all: OfGroups, groups: usize, first: usize) -> [OfGroups; C] {
    let size = all.number.size();
    let (stride, len) = (groups * size, (groups + LANES) * size);
    std::array::from_fn(|row| OfGroups {
        bytes: &all.bytes[(first + row) * stride..][..len],
        ..all
    })
}

/// The scales of the lanes of a tile, for some rows, and their zero points.
type OfLanes<const C: usize> = [[__m512; C]; 2];

/// For each lane, one of the numbers of groups, from the first one on.
#[inline(always)]
fn permuted(
    _: Vnni,
    of_row: OfGroups,
    number: Option<Number>,
    first: u32,
    places: &[u32; LANES],
) -> __m512 {
    let number = number.unwrap_or(of_row.number);
    let begin = first as usize * number.size();
    let bytes = of_row.bytes[begin..begin + LANES * number.size()].as_ptr();
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`. So many bytes are read as there are in the slice.
    unsafe {
        let numbers = match number {
            Number::F16 => _mm512_cvtph_ps(_mm256_loadu_si256(bytes.cast())),
            Number::F32 => _mm512_loadu_ps(bytes.cast()),
            Number::U8 => _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.cast()))),
            Number::I8 => _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes.cast()))),
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

/// What is asked for with a tile: codes that are far ahead, and those of each row that come next.
struct Asks<'a, const C: usize> {
    ahead: &'a mut Ahead,
    next: [*const u8; C],
}

/// Adds the products of a tile of `V` vectors of words of some rows, and of its data.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
fn add<
    T: Types,
    const SIGNED: bool,
    const C: usize,
    const R: usize,
    const V: usize,
    const COUNT: usize,
>(
    lanes: Vnni,
    mut words: [[__m512i; V]; C],
    data: [&Vectors<COUNT>; R],
    [scales, zero_points]: OfLanes<C>,
    asks: Asks<C>,
    totals: &mut [[__m512; R]; C],
) {
    const { assert!(COUNT == vectors_of_data(V, SIGNED)) };
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
    unsafe {
        if SIGNED {
            // As unsigned codes, signed ones are greater by 8.
            for word in words.as_flattened_mut() {
                *word = _mm512_xor_si512(*word, _mm512_set1_epi32(0x8888_8888_u32.cast_signed()));
            }
        }
        let mut sums = [[[_mm512_setzero_si512(); 3]; R]; C];
        for of_bytes in [false, true] {
            if of_bytes {
                for sum in sums.as_flattened_mut().as_flattened_mut() {
                    *sum = _mm512_slli_epi32::<4>(*sum);
                }
            }
            for vector in 0..V {
                // All lines at once would wait for each other: 0.95 of the speed. Without the fence the compiler asks for them so, and
                // rows of 8,192 codes take 1.2 times as long.
                compiler_fence(Ordering::SeqCst);
                match of_bytes {
                    false => asks.ahead.ask(C * BYTES),
                    true => {
                        for next in asks.next {
                            prefetch_first(next.wrapping_add(vector * BYTES));
                        }
                    }
                }
                let low = _mm512_set1_epi8(15);
                let mut codes = [low; C];
                for row in 0..C {
                    let words = words[row][vector];
                    codes[row] = if of_bytes { words } else { _mm512_and_si512(words, low) };
                }
                for digit in 0..3 {
                    for of in 0..R {
                        let place = of_digit(V, vector, digit + if of_bytes { 3 } else { 0 });
                        let digits = _mm512_castps_si512(lanes.load(&data[of][place]));
                        for row in 0..C {
                            let sum = &mut sums[row][of][digit];
                            *sum = _mm512_dpbusd_epi32(*sum, codes[row], digits);
                        }
                    }
                }
            }
        }
        for row in 0..C {
            for of in 0..R {
                let behind = &data[of][DIGITS * V..];
                let [a, b, mut lowest] = sums[row][of];
                // 32 codes have products with two digits of less than 2^28, in the unit.
                let mut high = _mm512_add_epi32(_mm512_slli_epi32::<8>(a), b);
                if SIGNED {
                    let [of_high, of_lowest] = EIGHTS.map(|place| lanes.load(&behind[place]));
                    high = _mm512_sub_epi32(high, _mm512_castps_si512(of_high));
                    lowest = _mm512_sub_epi32(lowest, _mm512_castps_si512(of_lowest));
                }
                let mut product = product_of(lanes, high, lowest);
                if T::HAS_ZERO_POINTS {
                    product = _mm512_fnmadd_ps(zero_points[row], lanes.load(&behind[SUM]), product);
                }
                let product = lanes.mul(product, lanes.load(&behind[UNIT]));
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

    const SIGNED: ForNibbles = ForNibbles { is_signed: true };

    fn digits(lanes: Vnni, data: &[f32], depth: usize) -> Option<Scratch> {
        digits_of(lanes, SIGNED, data, depth)
    }

    /// Checks a tile against its data.
    fn check<const V: usize>(tile: &[Vector], data: &[f32]) {
        let whole_of = |digits: [f64; 3]| 65536. * digits[0] + 256. * digits[1] + digits[2];
        for (lane, place) in places_of_lanes(V).into_iter().enumerate() {
            let expected: Vec<f64> = (place..place + V * CODES)
                .map(|place| f64::from(data.get(place).copied().unwrap_or_default()))
                .collect();
            let [scale, sum] = [UNIT, SUM].map(|place| f64::from(tile[DIGITS * V + place][lane]));
            let largest = expected.iter().fold(0f64, |most, it| most.max(it.abs()));
            let most = largest * 2f64.powi(-22);
            for (number, expected) in expected.iter().enumerate() {
                let (vector, code) = (number / CODES, number % CODES);
                // A code of an even place is in its byte, too; 16 times one of an odd place is.
                let [even, odd] = [0, 3].map(|first| {
                    whole_of([0, 1, 2].map(|digit| {
                        let word = tile[of_digit(V, vector, first + digit)][lane].to_bits();
                        f64::from(word.to_le_bytes()[code / 2].cast_signed())
                    }))
                });
                let whole = if code % 2 == 0 { 16. * even + odd } else { 16. * odd };
                let error = (whole * scale - expected).abs();
                assert!(error <= most, "number {number} of lane {lane} is wrong by {error}");
            }
            let [high, lowest] = EIGHTS
                .map(|place| f64::from(tile[DIGITS * V + place][lane].to_bits().cast_signed()));
            for sum in [sum, (256. * high + lowest) / 8.] {
                let error = (sum * scale - expected.iter().sum::<f64>()).abs();
                let bound = (V * CODES + 1) as f64 * most;
                assert!(error <= bound, "the sum of lane {lane} is wrong by {error}");
            }
        }
    }

    #[test]
    fn digits_stand_for_the_numbers() {
        let Some(lanes) = Vnni::detect(Kind::detect()) else { return };
        for (word, depth) in [(CODES, 2), (CODES, DEPTH), (FOUR * CODES, DEPTH), (CODES, 900)] {
            let data = numbers(word, 2 * depth);
            let rows = digits(lanes, &data, depth).expect("all numbers are finite");
            for (row, data) in rows.chunks(SIGNED.stride(depth)).zip(data.chunks(depth)) {
                let mut vectors = row.as_chunks().0;
                for (begin, count) in Layout::new(depth, true).begins() {
                    let tile;
                    (tile, vectors) = vectors.split_at(vectors_of_data(count, true));
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
        // What meets the first code is greater than it.
        let mut data = numbers(CODES, DEPTH);
        data[32..34].copy_from_slice(&[f32::MAX, -f32::MAX]);
        assert!(digits(lanes, &data, DEPTH).is_none());
    }
}
