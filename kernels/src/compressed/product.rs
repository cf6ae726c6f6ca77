//! The product of rows of data and a compressed matrix.

use std::ops::Range;

use tract_core::internal::*;

use super::dots::FloatData;
use super::finish;
use super::matrix::{CompressedMatrix, FewTokensTask, GroupParameters};
use super::unpack::UnpackPanel;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use super::wasm::CodeDigits;
#[cfg(target_arch = "x86_64")]
use super::{bytes::ByteDigits, dynamic, nibbles::NibbleDigits};
use crate::cost;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512Vnni, Isa};
use crate::isa::{Bf16Isa, Instructions};
use crate::memory::{Aligned, Scratch};
use crate::product::activation::Activation;
use crate::product::{
    Addend, Bf16Pair, Element, GemmBlock, OperandA, OperandB, Output, PARTS, PackedB, SAME_PLACE,
    STEPS, Share, Shares, Tile, Vectors,
};
use crate::threads::{Division, fill_rows};

/// With more rows of data, each panel of the matrix is unpacked once for all of them.
pub(super) const FEW_ROWS: usize = 6;

/// The most rows of the matrix that a task has.
const ROWS_AT_ONCE: usize = 64;

/// What many rows of data may be rounded to. Results of a few rows are always as good as in single precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Precision {
    /// They are not rounded: products are as good as in single precision.
    Exact,
    /// Bytes with a scale for each group of 32 neighbours, where the codes are integers, and the processor has AVX-512 with VNNI.
    Dynamic,
    /// bf16, and so are panels of the matrix.
    Bf16(Bf16Isa),
}

/// Multiplies rows of data, of `depth` numbers each, with the transpose of a matrix. The output has a number for each row of the
/// matrix in a row.
pub(crate) fn multiply(
    matrix: &CompressedMatrix,
    data: &[f32],
    precision: Precision,
    bias: &[f32],
    activation: Activation,
    output: &mut [f32],
) -> TractResult<()> {
    // If they have to be read, then now: threads share that, too.
    matrix.bytes()?;
    let columns = matrix.rows;
    let rows = output.len() / columns;
    if rows <= FEW_ROWS {
        return multiply_few(matrix, data, bias, activation, output);
    }
    let division = Division::of(cost::PRODUCT.of(output.len().saturating_mul(matrix.depth)));
    let shares = Shares::of_product(&division, [rows, columns]);
    #[cfg(target_arch = "x86_64")]
    if precision == Precision::Dynamic
        && matrix.format.bits() <= 8
        && let Some(lanes) = Instructions::detect().avx512_vnni()
        && let Some(data) = dynamic::DynamicData::new(lanes, matrix, data)
    {
        return shares.for_each(output, |share, output| {
            let Share { rows, columns } = share;
            let product =
                dynamic::DynamicGemm { matrix, data: &data, rows, columns, bias, activation };
            product.run(lanes, output)
        });
    }
    let tile = Tile::of(Vectors::detect());
    if let Precision::Bf16(_) = precision {
        let data = OperandA::<Scratch<Bf16Pair>>::pack_on_threads(data, rows, matrix.depth, tile);
        return shares.for_each(output, |share, output| {
            let data = data.part(share.rows);
            multiply_panels(matrix, data, share.columns, bias, activation, output)
        });
    }
    let mut packed = None;
    let pack = || OperandA::<Scratch>::pack_on_threads(data, rows, matrix.depth, tile);
    let data = OperandA::in_place(data, rows, matrix.depth, tile)
        .filter(|_| !matrix.depth.is_multiple_of(SAME_PLACE))
        .unwrap_or_else(|| packed.insert(pack()).view());
    shares.for_each(output, |share, output| {
        multiply_panels(matrix, data.part(share.rows), share.columns, bias, activation, output)
    })
}

fn multiply_few(
    matrix: &CompressedMatrix,
    data: &[f32],
    bias: &[f32],
    activation: Activation,
    output: &mut [f32],
) -> TractResult<()> {
    let columns = matrix.rows;
    let rows = output.len() / columns;
    let prepared = PreparedTokens::new(matrix, data);
    let division = Division::of(cost::STREAMED_BYTE.of(matrix.bytes()?.len()));
    let panel = Tile::of(Vectors::detect()).columns;
    let shares = Shares::of_columns(&division, [rows, columns], panel, PARTS);
    shares.for_each(output, |Share { columns, .. }, mut share| {
        let mut parameters = GroupParameters::default();
        let mut sums = [[0.; ROWS_AT_ONCE]; FEW_ROWS];
        let at_once = prepared.matrix_rows_at_once(rows);
        for first in columns.clone().step_by(at_once) {
            let part = first..(first + at_once).min(columns.end);
            let mut output = share.skip_columns(first - columns.start);
            let mut places: TVec<&mut [f32]> =
                sums[..rows].iter_mut().map(|sums| &mut sums[..part.len()]).collect();
            prepared.multiply_rows(part.clone(), &mut parameters, &mut places)?;
            for (row, sums) in places.iter().enumerate() {
                let numbers = &mut output.row(row)[..part.len()];
                finish(numbers, sums, &bias[part.clone()], activation);
            }
        }
        Ok(())
    })
}

/// Few rows of data, as their products with a matrix need them.
struct PreparedTokens<'a> {
    matrix: &'a CompressedMatrix,
    instructions: Instructions,
    data: PreparedData,
}

/// The data, for codes of bytes or nibbles on vectors of so many bits, or for any codes.
enum PreparedData {
    #[cfg(target_arch = "x86_64")]
    Bytes512(ByteDigits),
    #[cfg(target_arch = "x86_64")]
    Nibbles512(NibbleDigits<Avx512Vnni, 16, 2>),
    #[cfg(target_arch = "x86_64")]
    Nibbles256(NibbleDigits<Avx2, 8, 1>),
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Codes128(CodeDigits),
    Floats(FloatData),
}

impl PreparedTokens<'_> {
    /// Digits, if the codes of the matrix meet such, and the numbers have some; else floats.
    fn new<'a>(matrix: &'a CompressedMatrix, data: &[f32]) -> PreparedTokens<'a> {
        let instructions = Instructions::detect();
        #[cfg(target_arch = "x86_64")]
        let digits = match (matrix.format.bits(), instructions.avx512_vnni(), instructions.avx2()) {
            (4, Some(lanes), _) => {
                NibbleDigits::new(lanes, matrix, data).map(PreparedData::Nibbles512)
            }
            (4, None, Some(lanes)) => {
                NibbleDigits::new(lanes, matrix, data).map(PreparedData::Nibbles256)
            }
            (8, Some(lanes), _) if matrix.groups() == 1 => {
                ByteDigits::of(lanes, matrix, data).map(PreparedData::Bytes512)
            }
            _ => None,
        };
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        let digits = match instructions {
            Instructions::Simd128(lanes) if matrix.format.bits() <= 8 => {
                CodeDigits::new(lanes, matrix, data).map(PreparedData::Codes128)
            }
            _ => None,
        };
        #[cfg(not(any(
            target_arch = "x86_64",
            all(target_arch = "wasm32", target_feature = "simd128")
        )))]
        let digits = None;
        let floats = || PreparedData::Floats(FloatData::new(instructions, matrix, data));
        PreparedTokens { matrix, instructions, data: digits.unwrap_or_else(floats) }
    }

    /// How many rows of the matrix a task has. Where the parameters of groups are copied, those of more leave the first-level cache; and
    /// more than two rows of data read the codes again.
    fn matrix_rows_at_once(&self, data_rows: usize) -> usize {
        let are_copied = matches!(self.data, PreparedData::Floats(_)) && self.matrix.groups() > 1;
        if are_copied || data_rows > 2 { ROWS_AT_ONCE / 4 } else { ROWS_AT_ONCE }
    }

    /// The products with some rows of the matrix. `parameters` is room for the scales and zero points of these.
    fn multiply_rows(
        &self,
        rows: Range<usize>,
        parameters: &mut GroupParameters,
        output: &mut [&mut [f32]],
    ) -> TractResult<()> {
        let PreparedTokens { matrix, instructions, data } = self;
        let bytes = &matrix.bytes()?[rows.start * matrix.row_bytes()..];
        match data {
            #[cfg(target_arch = "x86_64")]
            PreparedData::Nibbles512(data) => {
                data.run_task(matrix, rows, bytes, &mut parameters.copies, output)?;
            }
            #[cfg(target_arch = "x86_64")]
            PreparedData::Nibbles256(data) => {
                data.run_task(matrix, rows, bytes, &mut parameters.copies, output)?;
            }
            #[cfg(target_arch = "x86_64")]
            PreparedData::Bytes512(data) => {
                matrix.parameters(rows, parameters)?;
                let parameters = &*parameters;
                data.lanes.enter(FewTokensTask { matrix, bytes, parameters, data, output });
            }
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            PreparedData::Codes128(data) => {
                matrix.parameters(rows, parameters)?;
                let parameters = &*parameters;
                data.lanes.enter(FewTokensTask { matrix, bytes, parameters, data, output });
            }
            PreparedData::Floats(data) => {
                matrix.parameters(rows, parameters)?;
                let parameters = &*parameters;
                instructions.run(FewTokensTask { matrix, bytes, parameters, data, output });
            }
        }
        Ok(())
    }
}

/// Some columns of the product, panel by panel.
fn multiply_panels<T: Element>(
    matrix: &CompressedMatrix,
    data: OperandA<&[T]>,
    columns: Range<usize>,
    bias: &[f32],
    activation: Activation,
    mut output: Output,
) -> TractResult<()> {
    let vectors = Vectors::detect();
    let codes = &matrix.bytes()?[columns.start * matrix.row_bytes()..];
    for_each_panel(matrix, codes, columns.clone(), |of_panel, steps, panels| {
        vectors.run(GemmBlock {
            left: data,
            right: OperandB { panels, begin: 0, depth: steps.len(), next: None, asks: false },
            rows: 0..data.rows,
            columns: of_panel.len(),
            depth: T::count(matrix.depth),
            output: output.skip_columns(of_panel.start - columns.start),
            addend: Addend::OfColumns(&bias[of_panel]),
            activation,
            steps,
        });
    })
}

/// Calls a function with panels of the matrix, as operand `B`: the columns of the product, some steps of elements, and these. For the
/// processor's tiles, there are several panels of all steps. `codes` are those from the first column on.
fn for_each_panel<T: Element>(
    matrix: &CompressedMatrix,
    codes: &[u8],
    columns: Range<usize>,
    mut each: impl FnMut(Range<usize>, Range<usize>, &[T]),
) -> TractResult<()> {
    let instructions = Instructions::detect();
    let tile = Tile::of(Vectors::detect());
    let mut parameters = GroupParameters::default();
    let of_part = if T::are_for_tiles() { matrix.depth.max(1) } else { STEPS };
    let of_panel = tile.columns * T::count(of_part);
    let most = match T::are_for_tiles() {
        true => (ELEMENTS_OF_PANELS / of_panel).min(columns.len().div_ceil(tile.columns)).max(1),
        false => 1,
    };
    let mut panels = Scratch::of(most * of_panel);
    let (mut first_of_panels, mut filled) = (columns.start, 0);
    for first in columns.clone().step_by(tile.columns) {
        let width = (columns.end - first).min(tile.columns);
        let end = first + width;
        let stride = width.next_multiple_of(tile.lanes);
        matrix.parameters(first..end, &mut parameters)?;
        parameters.by_groups(width);
        for begin in (0..matrix.depth).step_by(of_part) {
            let steps = begin..(begin + of_part).min(matrix.depth);
            // Parts of several begin with a whole one.
            let of_elements = steps.start / T::STEPS..T::count(steps.end);
            let begin_of_panel = filled;
            filled += stride * of_elements.len();
            let unpack = UnpackPanel {
                matrix,
                bytes: &codes[(first - columns.start) * matrix.row_bytes()..],
                parameters: &parameters,
                rows: width,
                steps,
                stride,
                panel: &mut panels[begin_of_panel..filled],
            };
            match T::STEPS {
                1 => instructions.run(unpack),
                _ => instructions.run_rounding(unpack),
            }
            if end == columns.end || end - first_of_panels == most * tile.columns {
                each(first_of_panels..end, of_elements, &panels[..filled]);
                filled = 0;
            }
        }
        if filled == 0 {
            first_of_panels = end;
        }
    }
    Ok(())
}

/// About how many elements panels for the processor's tiles have: as many as stay in the second-level cache.
const ELEMENTS_OF_PANELS: usize = if cfg!(test) { 1 << 12 } else { 1 << 17 };

/// About how many bytes of codes are read at once when they are packed: as many as stay in the second-level cache.
const BYTES_TO_PACK: usize = if cfg!(test) { 1 << 12 } else { 1 << 18 };

/// All of a matrix as operand `B`. Codes that are not in memory yet are read part by part, and are not kept.
pub(crate) fn packed<T: Element>(matrix: &CompressedMatrix) -> TractResult<PackedB<Aligned<T>>> {
    let (depth, columns) = (T::count(matrix.depth), matrix.rows);
    let Tile { columns: of_panel, lanes, .. } = Tile::of(Vectors::detect());
    let mut elements = Aligned::unwritten(depth * columns.next_multiple_of(lanes));
    let at_once = (BYTES_TO_PACK / (of_panel * matrix.row_bytes())).max(1) * of_panel;
    let work = cost::PACKED.of(elements.len());
    fill_rows(&mut elements, at_once * depth, work, |first, elements| {
        let mut place = vec![];
        for (number, elements) in elements.chunks_mut(at_once * depth).enumerate() {
            let begin = (first + number) * at_once;
            let part = begin..(begin + at_once).min(columns);
            let codes = matrix.bytes_of_rows(part.clone(), &mut place)?;
            for_each_panel(matrix, codes, part, |of_panel, steps, panel| {
                let stride = of_panel.len().next_multiple_of(lanes);
                let place = (of_panel.start - begin) * depth + steps.start * stride;
                elements[place..][..panel.len()].copy_from_slice(panel);
            })?;
        }
        TractResult::Ok(())
    })?;
    let last = columns / of_panel * of_panel;
    let width = columns - last;
    let padded = width.next_multiple_of(lanes);
    if width < padded {
        // Their place has the last column so far.
        let steps = elements[last * depth..].chunks_exact_mut(padded);
        steps.for_each(|step| step[width..].fill(T::default()));
    }
    Ok(PackedB { depth, columns, elements })
}

#[cfg(all(
    test,
    any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))
))]
mod tests {
    use super::super::{DequantizedConst, Format};
    use super::*;
    use crate::isa::tests::with_all_instructions;

    /// Codes of 4 bits meet digits with AVX2 or AVX-512 VNNI, and those of 8 bits in one group with AVX-512 VNNI; and all with vectors of
    /// WebAssembly.
    #[test]
    fn codes_meet_digits() -> TractResult<()> {
        let (rows, depth) = (3, 64);
        let formats = [Format::I4, Format::U4, Format::I8, Format::U8];
        for (format, groups) in formats.into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
            let codes = tensor1(&vec![1u8; rows * depth * format.bits() / 8]);
            let scales = Tensor::zero::<f32>(&[rows, groups, 1])?;
            let shape = [rows, groups, depth / groups];
            let constant = DequantizedConst::of_bytes(codes, format, &shape, None, Some(scales))?;
            let matrix =
                CompressedMatrix::new(&constant.into_shape(&[rows, depth])?, rows)?.unwrap();
            with_all_instructions(|instructions| {
                #[cfg(target_arch = "wasm32")]
                let can_have = matches!(instructions, Instructions::Simd128(_));
                #[cfg(target_arch = "x86_64")]
                let has_vnni = instructions.avx512_vnni().is_some();
                #[cfg(target_arch = "x86_64")]
                let can_have = match format.bits() {
                    4 => has_vnni || instructions.avx2().is_some(),
                    _ => has_vnni && groups == 1,
                };
                let prepared = PreparedTokens::new(&matrix, &[1.; 64]);
                let has_digits = !matches!(prepared.data, PreparedData::Floats(_));
                assert_eq!(has_digits, can_have, "{format:?}, {groups}");
            });
        }
        Ok(())
    }
}
