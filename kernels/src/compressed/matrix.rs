//! A compressed matrix: its codes, and the scales and zero points of its groups.

use std::ops::Range;

use tract_core::internal::*;

use super::constant::{DequantizedConst, combine};
use super::format::Format;
use crate::isa::{Instructions, Lanes, OnLanes, padded};
use crate::memory::StreamPrefetch;

/// A compressed matrix of `rows` rows of `depth` codes.
///
/// A row has groups of so many neighbours, which have one scale and one zero point.
#[derive(Debug, Clone)]
pub(crate) struct CompressedMatrix {
    constant: DequantizedConst,
    pub format: Format,
    pub rows: usize,
    pub depth: usize,
    pub group: usize,
    /// For each group of each row.
    scales: Option<Arc<Tensor>>,
    zero_points: Option<Arc<Tensor>>,
}

impl PartialEq for CompressedMatrix {
    fn eq(&self, other: &CompressedMatrix) -> bool {
        self.constant == other.constant && (self.rows, self.depth) == (other.rows, other.depth)
    }
}

/// Groups have a multiple of so many codes, or are rows. So on any machine the codes that have one sum, those of a lane or of a vector,
/// are of one group.
pub(super) const LEAST_GROUP: usize = 32;

/// The most rows that are unpacked as a panel.
pub(super) const PANEL_ROWS: usize = 48;

impl CompressedMatrix {
    /// The matrix of so many rows that a constant is, or why it is none.
    pub fn new(
        constant: &DequantizedConst,
        rows: usize,
    ) -> TractResult<Result<CompressedMatrix, String>> {
        let (codes, format, shape) = constant.stored();
        let volume: usize = shape.iter().product();
        if rows == 0 || volume == 0 {
            return Ok(Err("it has no elements".into()));
        }
        let dt = codes.datum_type();
        let format = match (format, dt) {
            (Some(format), _) => format,
            // Kernels read the bytes of a file, which begin with the lowest one.
            (None, DatumType::F16) if cfg!(target_endian = "little") => Format::F16,
            (None, DatumType::I8) => Format::I8,
            (None, DatumType::U8) => Format::U8,
            _ => return Ok(Err(format!("its codes are of type {dt:?}"))),
        };
        let depth = volume / rows;
        let operands = [constant.zero_point(), constant.scale()];
        let width = shape.last().copied().unwrap_or(1);
        let of_last = |operand: &&Arc<Tensor>| operand.shape().last().copied().unwrap_or(1);
        let one_of_group = operands.iter().flatten().all(|operand| of_last(operand) == 1);
        let group = match operands {
            [None, None] => depth,
            _ if one_of_group => width,
            _ => return Ok(Err(format!("codes of shape {shape:?} have a scale each"))),
        };
        let is_whole = depth.is_multiple_of(group)
            && (group == depth || group.is_multiple_of(LEAST_GROUP))
            && (depth % 8 * format.bits()).is_multiple_of(8);
        if !is_whole {
            return Ok(Err(format!(
                "rows of {depth} codes of {} bits have groups of {group}, but must have whole bytes, and groups of \
                 {LEAST_GROUP}, or of a multiple",
                format.bits()
            )));
        }
        let mut groups = shape.to_vec();
        if let Some(width) = groups.last_mut() {
            *width = 1;
        }
        let of_groups = |operand: Option<&Arc<Tensor>>| -> TractResult<Option<Arc<Tensor>>> {
            let Some(operand) = operand else { return Ok(None) };
            if operand.len() == volume / group && ParameterType::of(operand.datum_type()).is_ok() {
                return Ok(Some(operand.clone()));
            }
            let mut numbers = vec![0.; volume / group];
            combine(&mut numbers, &groups, operand, |_, number| number)?;
            Ok(Some(tensor1(&numbers).into_arc_tensor()))
        };
        Ok(Ok(CompressedMatrix {
            format,
            rows,
            depth,
            group,
            zero_points: of_groups(operands[0])?,
            scales: of_groups(operands[1])?,
            constant: constant.clone(),
        }))
    }

    /// The bytes of a row.
    pub fn row_bytes(&self) -> usize {
        // Not all bits of a row, which may be more than addresses.
        let bits = self.format.bits();
        self.depth / 8 * bits + self.depth % 8 * bits / 8
    }

    /// The bytes of all rows. They may have to be read first, which threads share: to be called before they share other work.
    pub fn bytes(&self) -> TractResult<&[u8]> {
        let (codes, ..) = self.constant.stored();
        Ok(codes.get()?.try_as_plain_ram()?.as_bytes())
    }

    /// The bytes of some rows, where they are in memory. Otherwise only these are read, into `place`.
    pub fn bytes_of_rows<'a>(
        &'a self,
        rows: Range<usize>,
        place: &'a mut Vec<u8>,
    ) -> TractResult<&'a [u8]> {
        let (codes, ..) = self.constant.stored();
        let row = self.row_bytes();
        codes.bytes(rows.start * row..rows.end * row, place)
    }

    /// What it was made of, which other matrices may be made of, too.
    pub fn constant(&self) -> &DequantizedConst {
        &self.constant
    }

    /// Whether there are neither scales nor zero points.
    pub fn is_plain(&self) -> bool {
        self.scales.is_none() && self.zero_points.is_none()
    }

    pub fn groups(&self) -> usize {
        self.depth / self.group
    }

    /// The group of a code of a row. Codes behind the last one meet zeros, and may have any: they have its group.
    #[cfg(target_arch = "x86_64")]
    pub fn group_of(&self, code: usize) -> usize {
        code.min(self.depth - 1) / self.group
    }

    /// The scales of the groups of all rows from `first_row` on, if there are any, and their zero points.
    fn scales_and_zero_points(
        &self,
        first_row: usize,
    ) -> TractResult<[Option<TypedParameters<'_>>; 2]> {
        let first = first_row * self.groups();
        let of_groups = |tensor| {
            TypedParameters::of(tensor).map(|it| it.part(first..self.rows * self.groups()))
        };
        let [scales, zero_points] =
            [&self.scales, &self.zero_points].map(|tensor| tensor.as_deref().map(of_groups));
        Ok([scales.transpose()?, zero_points.transpose()?])
    }

    /// The scales of the groups of some rows, and their zero points, if there are any. As many more may be read behind
    /// the last ones, with any values: what is at the end of a tensor is copied for that.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn parameters_with_tail<'a>(
        &'a self,
        rows: Range<usize>,
        numbers_behind: usize,
        copies: &'a mut [Vec<u8>; 2],
    ) -> TractResult<(TypedParameters<'a>, Option<TypedParameters<'a>>)> {
        let count = rows.len() * self.groups();
        let [scales, zero_points] = self.scales_and_zero_points(rows.start)?;
        let [of_scales, of_zero_points] = copies;
        let scales = match scales {
            Some(scales) => scales.followed(count, numbers_behind, of_scales),
            None => {
                *of_scales = 1f32.to_ne_bytes().repeat(count + numbers_behind);
                TypedParameters { dt: ParameterType::F32, bytes: of_scales }
            }
        };
        let zero_points =
            zero_points.map(|all| all.followed(count, numbers_behind, of_zero_points));
        Ok((scales, zero_points))
    }

    /// Puts the scales of the groups of some rows into a place, and their zero points, if there are any.
    pub fn parameters(
        &self,
        rows: Range<usize>,
        parameters: &mut GroupParameters,
    ) -> TractResult<()> {
        let count = rows.len() * self.groups();
        let GroupParameters { scales, zero_points, .. } = parameters;
        for (numbers, all) in
            [scales, zero_points].into_iter().zip(self.scales_and_zero_points(rows.start)?)
        {
            numbers.clear();
            if let Some(all) = all {
                all.part(0..count).read(numbers);
            }
        }
        parameters.scales.resize(count, 1.);
        Ok(())
    }
}

/// The type of scales or zero points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterType {
    F32,
    F16,
    U8,
    I8,
}

impl ParameterType {
    fn of(dt: DatumType) -> TractResult<ParameterType> {
        Ok(match dt {
            DatumType::F32 => ParameterType::F32,
            DatumType::F16 => ParameterType::F16,
            DatumType::U8 => ParameterType::U8,
            DatumType::I8 => ParameterType::I8,
            _ => bail!("scales and zero points are of type {dt:?}"),
        })
    }

    /// The bytes of a number.
    #[inline(always)]
    pub fn size(self) -> usize {
        match self {
            ParameterType::F32 => 4,
            ParameterType::F16 => 2,
            ParameterType::U8 | ParameterType::I8 => 1,
        }
    }

    /// A vector of numbers, of as many bytes as they have.
    #[inline(always)]
    pub fn load<L: Lanes<N>, const N: usize>(self, lanes: L, bytes: &[u8]) -> L::Floats {
        let numbers = match self {
            ParameterType::F32 => {
                bytes.as_chunks().0.first_chunk().map(|it| lanes.f32_of_words(lanes.load_words(it)))
            }
            ParameterType::F16 => bytes.as_chunks().0.first_chunk().map(|it| lanes.of_f16(it)),
            ParameterType::U8 => bytes.first_chunk().map(|it| lanes.of_u8(it)),
            ParameterType::I8 => bytes.first_chunk().map(|it| lanes.of_i8(it)),
        };
        match numbers {
            Some(numbers) => numbers,
            None => unreachable!("as many bytes as a vector has numbers"),
        }
    }
}

/// Scales or zero points of groups, in one of the types that need not be copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct TypedParameters<'a> {
    pub dt: ParameterType,
    pub bytes: &'a [u8],
}

impl<'a> TypedParameters<'a> {
    fn of(tensor: &'a Tensor) -> TractResult<TypedParameters<'a>> {
        let dt = ParameterType::of(tensor.datum_type())?;
        Ok(TypedParameters { dt, bytes: tensor.try_as_plain_ram()?.as_bytes() })
    }

    /// The scales or zero points of some groups.
    fn part(self, groups: Range<usize>) -> TypedParameters<'a> {
        let size = self.dt.size();
        TypedParameters { bytes: &self.bytes[groups.start * size..groups.end * size], ..self }
    }

    /// The first ones, with so many others behind them, or a copy that has those.
    #[cfg(target_arch = "x86_64")]
    fn followed(self, count: usize, behind: usize, copy: &'a mut Vec<u8>) -> TypedParameters<'a> {
        let len = (count + behind) * self.dt.size();
        if self.bytes.len() >= len {
            return TypedParameters { bytes: &self.bytes[..len], ..self };
        }
        copy.clear();
        copy.extend_from_slice(self.part(0..count).bytes);
        copy.resize(len, 0);
        TypedParameters { bytes: copy, ..self }
    }

    fn read(self, numbers: &mut Vec<f32>) {
        let bytes = self.bytes;
        // Twice as many will be needed next.
        StreamPrefetch::new(bytes.as_ptr(), 2 * bytes.len(), bytes.len()).ask(bytes.len());
        numbers.resize(bytes.len() / self.dt.size(), 0.);
        Instructions::detect().run(ReadParameters { parameters: self, numbers });
    }
}

struct ReadParameters<'a> {
    parameters: TypedParameters<'a>,
    numbers: &'a mut [f32],
}

impl OnLanes for ReadParameters<'_> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        let TypedParameters { dt, bytes } = self.parameters;
        let size = N * dt.size();
        let (whole, rest) = bytes.split_at(bytes.len() / size * size);
        let rest: [u8; 64] = padded(rest);
        let vectors = whole.chunks_exact(size).chain([&rest[..size]]);
        for (place, bytes) in self.numbers.chunks_mut(N).zip(vectors) {
            lanes.store_part(place, dt.load(lanes, bytes));
        }
    }
}

/// A task of a product with few rows of data (tokens): these, some rows of a matrix, and the scales and zero points `P` of the latter.
pub(super) struct FewTokensTask<'a, 'b, D, P = &'a GroupParameters> {
    pub matrix: &'a CompressedMatrix,
    /// The codes of the matrix, from the first row of the task on.
    pub bytes: &'a [u8],
    pub parameters: P,
    pub data: &'a D,
    /// For each row of data, a number for each row of the matrix.
    pub output: &'a mut [&'b mut [f32]],
}

impl<'a, D, P> FewTokensTask<'a, '_, D, P> {
    /// The bytes of a row of the matrix.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &'a [u8] {
        &self.bytes[row * self.matrix.row_bytes()..][..self.matrix.row_bytes()]
    }
}

/// A scale for each group of some rows, and a zero point, if there are any.
#[derive(Debug, Default)]
pub(crate) struct GroupParameters {
    pub scales: Vec<f32>,
    pub zero_points: Vec<f32>,
    /// Room for what [`CompressedMatrix::parameters_with_tail`] copies.
    #[cfg(target_arch = "x86_64")]
    pub copies: [Vec<u8>; 2],
}

impl GroupParameters {
    /// Puts the numbers of all rows for a group next to each other; groups are [`PANEL_ROWS`] apart. Rows that are missing have zeros.
    pub fn by_groups(&mut self, rows: usize) {
        for numbers in [&mut self.scales, &mut self.zero_points] {
            let groups = numbers.len() / rows;
            let mut moved = vec![0.; groups * PANEL_ROWS];
            for (row, numbers) in numbers.chunks_exact(groups.max(1)).enumerate() {
                let places = moved[row..].iter_mut().step_by(PANEL_ROWS);
                places.zip(numbers).for_each(|(place, number)| *place = *number);
            }
            *numbers = moved;
        }
    }
}
