//! Many rows of data in bytes ("dynamic quantization", as OpenVINO has it by default): a loss that a program asks for.
//!
//! In a row of data, each group of neighbours has the scale of its largest number, and becomes signed bytes `q`. Codes are unsigned bytes
//! `c`; signed ones get 128 more, or 8, and so do their zero points. With the scales `s` and `t` of both,
//!
//! ```text
//! sum((c - zero_point) * s * q * t) = s * t * sum(c * q) - s * zero_point * t * sum(q)
//! ```
//!
//! and the sums of products are exact: the processor adds four of them to a sum at once (`vpdpbusd`, of AVX-512 VNNI).

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use tract_core::internal::*;

use super::digits::{LANES, larger};
use super::matrix::{GroupParameters, LEAST_GROUP, PANEL_ROWS};
use super::{CompressedMatrix, finish};
use crate::cost;
use crate::isa::{Avx512Vnni, Isa, Lanes, On, first_words, padded};
use crate::memory::{Scratch, prefetch};
use crate::product::Output;
use crate::product::activation::Activation;
use crate::threads::fill_rows;

/// The vectors of columns of a panel.
const VECTORS: usize = PANEL_ROWS / LANES;

/// The most rows of data that meet a panel at once: each has a sum of bytes and one of numbers for each vector of columns.
const ROWS: usize = 4;

/// The codes that are multiplied at once, for each column.
const CODES_OF_STEP: usize = 4;

/// The steps of the numbers that have one scale.
const STEPS_OF_GROUP: usize = GROUP / CODES_OF_STEP;

/// The numbers of a row that have one scale, as in OpenVINO.
const GROUP: usize = 32;

const _: () =
    assert!(LEAST_GROUP.is_multiple_of(GROUP), "a group of data meets one group of the matrix");

/// If all numbers of a group are smaller, they become 0.
const LEAST_ROUNDED: f32 = 1e-30;

/// What a step of all columns of a panel has: bytes, which are the bits of floats.
type PanelStep = [[f32; LANES]; VECTORS];

/// Rows of data, rounded to bytes. These are the bits of floats, four in one.
pub(super) struct DynamicData {
    rows: Scratch,
    layout: DynamicLayout,
}

/// Where a row of data has what.
#[derive(Debug, Clone, Copy)]
struct DynamicLayout {
    depth: usize,
    groups: usize,
    /// Whether a word has eight codes of the matrix: those of even places are in its first step.
    is_of_words: bool,
}

impl DynamicLayout {
    /// How many steps a row has.
    fn steps(self) -> usize {
        self.groups * STEPS_OF_GROUP
    }

    /// How far rows are apart: behind the bytes are the scale of each group, and the sum of what its bytes stand for.
    fn stride(self) -> usize {
        self.steps() + 2 * self.groups
    }
}

impl DynamicData {
    /// None if a number is not finite.
    pub fn new(lanes: Avx512Vnni, matrix: &CompressedMatrix, data: &[f32]) -> Option<DynamicData> {
        let depth = matrix.depth;
        let is_of_words = matrix.format.bits() == 4;
        let layout = DynamicLayout { depth, groups: depth.div_ceil(GROUP), is_of_words };
        let stride = layout.stride();
        let mut rows = Scratch::new(data.len() / layout.depth * stride);
        let work = cost::WRITTEN_CODE.of(data.len());
        struct NotFinite;
        let filled = fill_rows(&mut rows, stride, work, |first, rows| {
            let data = &data[first * layout.depth..];
            let mut is_finite = true;
            for (data, row) in data.chunks_exact(layout.depth).zip(rows.chunks_exact_mut(stride)) {
                lanes.enter(QuantizeRow { data, row, layout, is_finite: &mut is_finite });
            }
            if is_finite { Ok(()) } else { Err(NotFinite) }
        });
        filled.is_ok().then_some(DynamicData { rows, layout })
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &[f32] {
        &self.rows[row * self.layout.stride()..][..self.layout.stride()]
    }
}

/// Makes bytes of a row, and says if not all numbers are finite.
struct QuantizeRow<'a> {
    data: &'a [f32],
    row: &'a mut [f32],
    layout: DynamicLayout,
    is_finite: &'a mut bool,
}

impl On<Avx512Vnni> for QuantizeRow<'_> {
    #[inline(always)]
    fn run(self, lanes: Avx512Vnni) {
        let DynamicLayout { groups, is_of_words, .. } = self.layout;
        let (bytes, parameters) = self.row.split_at_mut(self.layout.steps());
        let (scales, sums) = parameters.split_at_mut(groups);
        let places = bytes.chunks_exact_mut(STEPS_OF_GROUP);
        let parameters = scales.iter_mut().zip(sums);
        for ((data, place), (scale, sum)) in self.data.chunks(GROUP).zip(places).zip(parameters) {
            let group: [f32; GROUP] = padded(data);
            let group: &[[f32; LANES]] = group.as_chunks().0;
            let words: &mut [[f32; LANES / CODES_OF_STEP]] = place.as_chunks_mut().0;
            // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`; a vector of bytes is as long as four floats.
            unsafe {
                let mut largest = lanes.splat(0.);
                for numbers in group {
                    largest = larger(lanes, largest, lanes.load(numbers));
                }
                let largest = f32::from_bits(_mm512_reduce_max_epu32(_mm512_castps_si512(largest)));
                let of_one = if largest < LEAST_ROUNDED { 0. } else { 127. / largest };
                let even_first =
                    _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
                let mut sums = _mm512_setzero_si512();
                for (numbers, place) in group.iter().zip(words) {
                    let integers =
                        _mm512_cvtps_epi32(lanes.mul(lanes.load(numbers), lanes.splat(of_one)));
                    sums = _mm512_add_epi32(sums, integers);
                    let mut bytes = _mm512_cvtepi32_epi8(integers);
                    if is_of_words {
                        bytes = _mm_shuffle_epi8(bytes, even_first);
                    }
                    _mm_storeu_si128(place.as_mut_ptr().cast(), bytes);
                }
                *scale = largest / 127.;
                *sum = *scale * _mm512_reduce_add_epi32(sums) as f32;
                *self.is_finite &= largest.is_finite();
            }
        }
    }
}

/// Some rows of data, and some columns of their product with a matrix.
pub(super) struct DynamicGemm<'a> {
    pub matrix: &'a CompressedMatrix,
    pub data: &'a DynamicData,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    pub bias: &'a [f32],
    pub activation: Activation,
}

impl DynamicGemm<'_> {
    pub fn run(&self, lanes: Avx512Vnni, mut output: Output) -> TractResult<()> {
        let DynamicGemm { matrix, columns, .. } = self;
        let bytes = matrix.bytes()?;
        let steps = self.data.layout.steps();
        // Words become steps by the vector.
        let mut panel = Scratch::new(steps.next_multiple_of(2 * LANES) * PANEL_ROWS);
        let mut parameters = GroupParameters::default();
        for first in columns.clone().step_by(PANEL_ROWS) {
            let width = (columns.end - first).min(PANEL_ROWS);
            matrix.parameters(first..first + width, &mut parameters)?;
            parameters.by_groups(width);
            let above = f32::from(matrix.format.above());
            parameters.zero_points.resize(parameters.scales.len(), 0.);
            for (zero_point, scale) in parameters.zero_points.iter_mut().zip(&parameters.scales) {
                *zero_point = (*zero_point + above) * scale;
            }
            lanes.enter(DynamicGemmPanel {
                product: self,
                bytes: &bytes[first * matrix.row_bytes()..],
                first,
                width,
                parameters: &parameters,
                panel: &mut panel,
                output: output.skip_columns(first - columns.start),
            });
        }
        Ok(())
    }
}

/// All rows of data, and the columns of a panel.
struct DynamicGemmPanel<'a, 'b> {
    product: &'a DynamicGemm<'a>,
    /// From the first column on.
    bytes: &'a [u8],
    first: usize,
    width: usize,
    /// In the order of groups. Zero points are multiplied with the scales.
    parameters: &'a GroupParameters,
    panel: &'a mut [f32],
    output: Output<'b>,
}

impl On<Avx512Vnni> for DynamicGemmPanel<'_, '_> {
    #[inline(always)]
    fn run(mut self, lanes: Avx512Vnni) {
        self.unpack(lanes);
        let rows = self.product.rows.clone();
        for first in rows.clone().step_by(ROWS) {
            match rows.end - first {
                1 => self.tile::<1>(lanes, first),
                2 => self.tile::<2>(lanes, first),
                3 => self.tile::<3>(lanes, first),
                _ => self.tile::<ROWS>(lanes, first),
            }
        }
    }
}

impl DynamicGemmPanel<'_, '_> {
    /// Words of the rows of the matrix become steps of all columns.
    #[inline(always)]
    fn unpack(&mut self, lanes: Avx512Vnni) {
        let matrix = self.product.matrix;
        let (row_bytes, is_of_words) = (matrix.row_bytes(), self.product.data.layout.is_of_words);
        let above = matrix.format.above() * if is_of_words { 0x11 } else { 1 };
        let steps: &mut [PanelStep] = self.panel.as_chunks_mut().0.as_chunks_mut().0;
        for vector in 0..VECTORS {
            let begin = vector * LANES;
            if begin >= self.width {
                break;
            }
            // The last row stands for those that are missing: their scale is 0.
            let rows: [&[u8]; LANES] = std::array::from_fn(|row| {
                &self.bytes[(begin + row).min(self.width - 1) * row_bytes..][..row_bytes]
            });
            let mut places = steps.iter_mut();
            for at in (0..row_bytes).step_by(CODES_OF_STEP * LANES) {
                let mut words = [lanes.load_words(&[[0; 4]; LANES]); LANES];
                for row in 0..LANES {
                    // The same words of the next panel.
                    prefetch(rows[row].as_ptr().wrapping_add(at + self.width * row_bytes));
                    words[row] = first_words(lanes, &rows[row][at..]);
                }
                let words = lanes.transpose(words);
                for word in words {
                    // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`.
                    unsafe {
                        let word = _mm512_xor_si512(word, _mm512_set1_epi8(above.cast_signed()));
                        let low = _mm512_set1_epi8(0x0f);
                        let codes = match is_of_words {
                            true => _mm512_and_si512(word, low),
                            false => word,
                        };
                        let Some(step) = places.next() else { break };
                        lanes.store(&mut step[vector], _mm512_castsi512_ps(codes));
                        if is_of_words {
                            let codes = _mm512_and_si512(_mm512_srli_epi32::<4>(word), low);
                            let Some(step) = places.next() else { break };
                            lanes.store(&mut step[vector], _mm512_castsi512_ps(codes));
                        }
                    }
                }
            }
        }
    }

    /// `R` rows of data.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn tile<const R: usize>(&mut self, lanes: Avx512Vnni, first: usize) {
        let DynamicGemm { matrix, data, bias, activation, .. } = self.product;
        let layout = data.layout;
        let steps = STEPS_OF_GROUP;
        let panel: &[PanelStep] = self.panel.as_chunks().0.as_chunks().0;
        let rows: [&[f32]; R] = std::array::from_fn(|row| data.row(first + row));
        let scales: &[PanelStep] = self.parameters.scales.as_chunks().0.as_chunks().0;
        let offsets: &[PanelStep] = self.parameters.zero_points.as_chunks().0.as_chunks().0;
        let mut totals = [[lanes.splat(0.); VECTORS]; R];
        for group in 0..layout.groups {
            let bytes: [&[f32]; R] =
                std::array::from_fn(|row| &rows[row][group * steps..][..steps]);
            let right = &panel[group * steps..][..steps];
            // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`.
            unsafe {
                let mut sums = [[_mm512_setzero_si512(); VECTORS]; R];
                for step in 0..steps {
                    let mut codes = [_mm512_setzero_si512(); VECTORS];
                    for vector in 0..VECTORS {
                        codes[vector] = _mm512_castps_si512(lanes.load(&right[step][vector]));
                    }
                    for row in 0..R {
                        let bytes = _mm512_set1_epi32(bytes[row][step].to_bits().cast_signed());
                        for vector in 0..VECTORS {
                            sums[row][vector] =
                                _mm512_dpbusd_epi32(sums[row][vector], codes[vector], bytes);
                        }
                    }
                }
                let of_matrix = group * GROUP / matrix.group;
                for vector in 0..VECTORS {
                    let scale = lanes.load(&scales[of_matrix][vector]);
                    let offset = lanes.load(&offsets[of_matrix][vector]);
                    for row in 0..R {
                        let parameters = &rows[row][layout.steps()..];
                        let of_data = lanes.splat(parameters[group]);
                        let sum = lanes.splat(parameters[layout.groups + group]);
                        let product = lanes.mul(_mm512_cvtepi32_ps(sums[row][vector]), scale);
                        let total = lanes.mul_add(product, of_data, totals[row][vector]);
                        totals[row][vector] = _mm512_fnmadd_ps(offset, sum, total);
                    }
                }
            }
        }
        for row in 0..R {
            let mut sums = [[0.; LANES]; VECTORS];
            for vector in 0..VECTORS {
                lanes.store(&mut sums[vector], totals[row][vector]);
            }
            let numbers = &mut self.output.row(first - self.product.rows.start + row)[..self.width];
            finish(numbers, sums.as_flattened(), &bias[self.first..], *activation);
        }
    }
}
