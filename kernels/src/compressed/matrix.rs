//! What is compressed how.

use std::ops::Range;

use tract_core::internal::*;

use super::constant::{DequantizedConst, combine};
use super::format::Format;
use super::unpack::{PANEL_ROWS, widen};
use crate::memory::Ahead;

/// A compressed matrix of `rows` rows of `depth` codes.
///
/// A row has groups of so many neighbours, which have one scale and one zero point.
#[derive(Debug, Clone)]
pub(crate) struct Matrix {
    constant: DequantizedConst,
    pub format: Format,
    pub rows: usize,
    pub depth: usize,
    pub group: usize,
    /// For each group of each row.
    scales: Option<Arc<Tensor>>,
    zero_points: Option<Arc<Tensor>>,
}

impl PartialEq for Matrix {
    fn eq(&self, other: &Matrix) -> bool {
        self.constant == other.constant && (self.rows, self.depth) == (other.rows, other.depth)
    }
}

/// Groups begin where a vector of codes does, on any machine.
const LEAST_GROUP: usize = 32;

impl Matrix {
    /// The matrix of so many rows that a constant is, or why it is none.
    pub fn new(constant: &DequantizedConst, rows: usize) -> TractResult<Result<Matrix, String>> {
        let (codes, format, shape) = constant.stored();
        let volume: usize = shape.iter().product();
        if rows == 0 || volume == 0 {
            return Ok(Err("it has no elements".into()));
        }
        let dt = codes.datum_type();
        let format = match (format, dt) {
            (Some(format), _) => format,
            (None, DatumType::F16) => Format::F16,
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
            && (depth * format.bits()).is_multiple_of(8);
        if !is_whole {
            return Ok(Err(format!(
                "rows of {depth} codes of {} bits have groups of {group}, but must have whole bytes, and groups of \
                 {LEAST_GROUP}, or of a multiple",
                format.bits()
            )));
        }
        let mut groups = shape.to_vec();
        groups.pop();
        let of_groups = |operand: Option<&Arc<Tensor>>| -> TractResult<Option<Arc<Tensor>>> {
            let Some(operand) = operand else { return Ok(None) };
            let types = [DatumType::F32, DatumType::F16, DatumType::U8, DatumType::I8];
            if operand.len() == volume / group && types.contains(&operand.datum_type()) {
                return Ok(Some(operand.clone()));
            }
            let mut numbers = vec![0.; volume / group];
            let without_last = match operand.rank() {
                0 => operand.clone().into_tensor(),
                rank => {
                    let mut tensor = operand.clone().into_tensor();
                    tensor.remove_axis(rank - 1)?;
                    tensor
                }
            };
            combine(&mut numbers, &groups, &without_last, |_, number| number)?;
            Ok(Some(tensor1(&numbers).into_arc_tensor()))
        };
        Ok(Ok(Matrix {
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
        self.depth * self.format.bits() / 8
    }

    /// The bytes of all rows.
    pub fn bytes(&self) -> TractResult<&[u8]> {
        let (codes, ..) = self.constant.stored();
        Ok(codes.try_as_plain_ram()?.as_bytes())
    }

    pub fn groups(&self) -> usize {
        self.depth / self.group
    }

    /// The scales of the groups of some rows, and their zero points.
    pub fn parameters(&self, rows: Range<usize>, parameters: &mut Parameters) -> TractResult<()> {
        let places = rows.start * self.groups()..rows.end * self.groups();
        let Parameters { scales, zero_points } = parameters;
        scales.clear();
        match &self.scales {
            Some(tensor) => extend(scales, tensor, places.clone())?,
            None => scales.resize(places.len(), 1.),
        }
        zero_points.clear();
        match &self.zero_points {
            Some(tensor) => extend(zero_points, tensor, places)?,
            None if self.groups() > 1 && self.format.bits() > 4 => {
                zero_points.resize(places.len(), 0.)
            }
            None => (),
        }
        Ok(())
    }
}

/// Some rows of a matrix, what they have, and the few rows of data that they are multiplied with.
pub(super) struct Part<'a, 'b, D> {
    pub matrix: &'a Matrix,
    /// From the first row on.
    pub bytes: &'a [u8],
    /// Those of the rows. Words need a vector of any numbers behind them: see [`Parameters::pad`].
    pub parameters: &'a Parameters,
    pub data: &'a D,
    /// For each row of data, a number for each row of the matrix.
    pub output: &'a mut [&'b mut [f32]],
}

impl<'a, D> Part<'a, '_, D> {
    /// The bytes of a row of the matrix.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &'a [u8] {
        &self.bytes[row * self.matrix.row_bytes()..][..self.matrix.row_bytes()]
    }
}

/// The tiles of an output: their first row of the matrix, and their first row of data; whether they have four rows of the matrix, or one,
/// and whether they have two rows of data, or one.
pub(super) fn tiles(
    output: &[&mut [f32]],
) -> impl Iterator<Item = (usize, usize, bool, bool)> + use<> {
    let rows = output.first().map_or(0, |row| row.len());
    let of_data = output.len();
    let whole = rows / 4 * 4;
    (0..of_data).step_by(2).flat_map(move |first_data| {
        let is_pair = of_data - first_data >= 2;
        let fours = (0..whole).step_by(4).map(|row| (row, true));
        let tiles = fours.chain((whole..rows).map(|row| (row, false)));
        tiles.map(move |(row, are_four)| (row, first_data, are_four, is_pair))
    })
}

/// A scale and a zero point for each group of some rows. Where rows are one group, or codes of four bits, there may be no zero points.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    pub scales: Vec<f32>,
    pub zero_points: Vec<f32>,
}

impl Parameters {
    /// Numbers behind the last ones, so that a vector of them can be read from any place.
    pub fn pad(&mut self, lanes: usize) {
        for numbers in [&mut self.scales, &mut self.zero_points] {
            if !numbers.is_empty() {
                numbers.resize(numbers.len() + lanes, 0.);
            }
        }
    }

    /// Puts those of a group next to each other, so many rows in a distance of [`PANEL_ROWS`]. Rows that are missing have zeros.
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

/// Appends some numbers of a tensor.
fn extend(numbers: &mut Vec<f32>, tensor: &Tensor, places: Range<usize>) -> TractResult<()> {
    let plain = tensor.try_as_plain_ram()?;
    let dt = tensor.datum_type();
    let size = dt.size_of();
    let bytes = &plain.as_bytes()[places.start * size..places.end * size];
    // Twice as many will be needed next.
    Ahead::new(bytes.as_ptr(), 2 * bytes.len(), bytes.len()).ask(bytes.len());
    let format = match dt {
        DatumType::F32 => {
            numbers.extend(&plain.as_slice::<f32>()?[places]);
            return Ok(());
        }
        DatumType::F16 => Format::F16,
        DatumType::U8 => Format::U8,
        DatumType::I8 => Format::I8,
        _ => bail!("scales and zero points are of type {dt:?}"),
    };
    let begin = numbers.len();
    numbers.resize(begin + places.len(), 0.);
    widen(format, bytes, &mut numbers[begin..]);
    Ok(())
}
