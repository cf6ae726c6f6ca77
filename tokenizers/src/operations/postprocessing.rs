//! Rows of tokens that become the inputs of a model.

use tract_openvino_ir::internal::*;
use tract_openvino_kernels::checks::check_volume;

use super::OPSET;
use crate::layer::{constant_text, expect_one_of, expect_type, new_dim, wire};
use crate::options::Options;
use crate::strings::{Ranges, Rows, integer};

pub(super) fn register(registry: &mut Registry, options: Options) {
    registry.add_extension("CombineSegments", OPSET, move |layer| combine_segments(layer, options));
    registry.add_extension("Truncate", OPSET, truncate);
    registry.add_extension("RaggedToDense", OPSET, ragged_to_dense);
}

/// The length of the first axis: of a scalar 1.
fn elements(tensor: &Tensor) -> usize {
    tensor.shape().first().copied().unwrap_or(1)
}

/// **CombineSegments**: rows one after the other, and the number of the segment for each element.
///
/// Inputs are rows of several segments, of which those with one row are for all, and the segments' numbers.
fn combine_segments(layer: &mut LayerContext, options: Options) -> TractResult<TVec<OutletId>> {
    let count = layer.input_count();
    ensure!(
        count % 3 == 1 && count > 3,
        "the number of inputs is {count}, but must be three for each segment and one more"
    );
    let segments = count / 3;
    let dt = layer.datum_type(2)?;
    ensure!(dt.is_copy(), "the elements are of type {dt:?}, but must be numbers");
    let mut shape: TVec<TDim> = tvec!();
    // Segments of constants alone are special tokens.
    let mut left_out = vec![false; segments];
    for (segment, left_out) in left_out.iter_mut().enumerate() {
        let first = 3 * segment;
        expect_type(layer, first, DatumType::I32, "begins of rows")?;
        expect_type(layer, first + 1, DatumType::I32, "ends of rows")?;
        expect_type(layer, first + 2, dt, "elements")?;
        let rows = layer.shape(first)?;
        if shape.iter().all(|dim| dim.is_one()) && rows.len() >= shape.len() {
            shape = rows;
        }
        let constants = (first..first + 3).map(|input| Ok(layer.constant_opt(input)?.is_some()));
        let is_constant = constants.collect::<TractResult<Vec<bool>>>()?.into_iter().all(|it| it);
        *left_out = is_constant && !options.add_special_tokens;
    }
    let id_type = layer.datum_type(count - 1)?;
    let elements = tvec!(new_dim(layer, "tokens")?);
    let mut facts = tvec!();
    for dt in [dt, id_type] {
        facts.push((DatumType::I32, shape.clone()));
        facts.push((DatumType::I32, shape.clone()));
        facts.push((dt, elements.clone()));
    }
    wire(layer, "CombineSegments", 0..count, facts, move |inputs| combine(inputs, &left_out))
}

fn combine(inputs: &[TValue], left_out: &[bool]) -> TractResult<TVec<Tensor>> {
    let (ids, inputs) = inputs.split_last().context("there are no inputs")?;
    let segments: Vec<&[TValue]> = inputs.chunks_exact(3).collect();
    ensure!(
        ids.len() == segments.len(),
        "the number of segments is {}, but there are {} numbers of segments",
        segments.len(),
        ids.len()
    );
    let rows = segments.iter().map(|segment| {
        let rows = Rows::new(&segment[0], &segment[1], elements(&segment[2]));
        rows.and_then(|rows| {
            ensure!(
                segment[2].rank() == 1,
                "the elements have rank {}, but must have rank 1",
                segment[2].rank()
            );
            Ok(rows)
        })
    });
    let rows = rows.collect::<TractResult<Vec<Rows>>>()?;
    // One row is for all.
    let count = rows.iter().map(Rows::len).find(|count| *count != 1).unwrap_or(1);
    for (segment, rows) in rows.iter().enumerate() {
        ensure!(
            rows.len() == 1 || rows.len() == count,
            "segment {segment} has {} rows, but must have 1 or {count}",
            rows.len()
        );
    }
    let shape = segments.iter().map(|segment| segment[0].shape());
    let shape = shape.filter(|shape| shape.iter().product::<usize>() == count);
    let shape: TVec<usize> =
        shape.max_by_key(|shape| shape.len()).context("there are no rows")?.into();
    let dt = segments[0][2].datum_type();
    let (size, id_size) = (dt.size_of(), ids.datum_type().size_of());
    let bytes: Vec<&[u8]> = segments
        .iter()
        .map(|segment| {
            let of_type = segment[2].datum_type();
            ensure!(
                of_type == dt,
                "elements are of types {dt:?} and {of_type:?}, but must be of one"
            );
            Ok(segment[2].try_as_plain_ram()?.as_bytes())
        })
        .collect::<TractResult<_>>()?;
    let id_bytes = ids.try_as_plain_ram()?.as_bytes();
    let (mut out, mut out_ids) = (vec![], vec![]);
    let mut ranges = Ranges::with_capacity(count);
    for row in 0..count {
        let begin = out.len() / size;
        for (segment, of_segment) in rows.iter().enumerate() {
            if left_out[segment] {
                continue;
            }
            let range = of_segment.get(if of_segment.len() == 1 { 0 } else { row });
            out.extend_from_slice(&bytes[segment][range.start * size..range.end * size]);
            let id = &id_bytes[segment * id_size..(segment + 1) * id_size];
            for _ in range {
                out_ids.extend_from_slice(id);
            }
        }
        ranges.push(begin, out.len() / size)?;
    }
    let len = out.len() / size;
    let [begins, ends] = ranges.into_tensors(&shape)?;
    let tensor = |dt: DatumType, bytes: &[u8]| -> TractResult<Tensor> {
        let mut tensor = Tensor::zero_dt(dt, &[len])?;
        tensor.try_as_plain_ram_mut()?.as_bytes_mut().copy_from_slice(bytes);
        Ok(tensor)
    };
    let (elements, ids) = (tensor(dt, &out)?, tensor(ids.datum_type(), &out_ids)?);
    Ok(tvec!(begins.clone(), ends.clone(), elements, begins, ends, ids))
}

/// What a pair of rows loses, if both are too long.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    OnlyFirst,
    OnlySecond,
    LongestFirst,
}

/// **Truncate**: the first or last elements of rows, at most as many as are allowed: of the rows of one segment, or of those of two together.
fn truncate(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let count = expect_one_of(layer, &[6, 9])?;
    let segments = count / 3 - 1;
    let side = constant_text(layer, count - 2, "trunc_side")?;
    let from_left = match &*side {
        "left" => true,
        "right" => false,
        _ => bail!("trunc_side is {side:?}, but must be left or right"),
    };
    let mode = constant_text(layer, count - 1, "trunc_mode")?;
    let mode = match &*mode {
        "only_first" => Mode::OnlyFirst,
        "only_second" => Mode::OnlySecond,
        "longest_first" => Mode::LongestFirst,
        _ => bail!("trunc_mode is {mode:?}, but must be only_first, only_second or longest_first"),
    };
    let mut facts = tvec!();
    for first in (0..3 * segments).step_by(3) {
        expect_type(layer, first, DatumType::I32, "begins of rows")?;
        expect_type(layer, first + 1, DatumType::I32, "ends of rows")?;
        facts.push((DatumType::I32, layer.shape(first)?));
        facts.push((DatumType::I32, layer.shape(first)?));
    }
    // The elements stay as they are.
    let ranges = (0..3 * segments).filter(|input| input % 3 < 2).chain([3 * segments]);
    let ranges =
        wire(layer, "Truncate", ranges, facts, move |inputs| truncated(inputs, from_left, mode))?;
    let mut outputs = tvec!();
    for (segment, ranges) in ranges.chunks_exact(2).enumerate() {
        outputs.extend_from_slice(ranges);
        outputs.push(layer.input(3 * segment + 2)?);
    }
    Ok(outputs)
}

fn truncated(inputs: &[TValue], from_left: bool, mode: Mode) -> TractResult<TVec<Tensor>> {
    let (most, ranges) = inputs.split_last().context("there are no inputs")?;
    let most = integer(most, "max_length")?;
    let most = usize::try_from(most).ok();
    let most = most.context("max_length is less than 0, but must be 0 or more")?;
    let rows: Vec<Rows> = ranges
        .chunks_exact(2)
        .map(|pair| Rows::new(&pair[0], &pair[1], i32::MAX as usize))
        .collect::<TractResult<_>>()?;
    let count = rows[0].len();
    ensure!(
        rows.iter().all(|rows| rows.len() == count),
        "the two segments have other numbers of rows: {:?}",
        rows.iter().map(Rows::len).collect::<Vec<_>>()
    );
    let mut new: Vec<Ranges> = rows.iter().map(|_| Ranges::with_capacity(count)).collect();
    for row in 0..count {
        let lengths = match &*rows {
            [one] => [one.get(row).len().min(most), 0],
            [first, second, ..] => pair(first.get(row).len(), second.get(row).len(), most, mode),
            [] => bail!("there are no rows"),
        };
        for ((rows, new), length) in rows.iter().zip(&mut new).zip(lengths) {
            let range = rows.get(row);
            match from_left {
                true => new.push(range.end - length, range.end)?,
                false => new.push(range.start, range.start + length)?,
            }
        }
    }
    let mut outputs = tvec!();
    for (new, pair) in new.into_iter().zip(ranges.chunks_exact(2)) {
        outputs.extend(new.into_tensors(pair[0].shape())?);
    }
    Ok(outputs)
}

/// The lengths that a pair of rows keeps.
fn pair(first: usize, second: usize, most: usize, mode: Mode) -> [usize; 2] {
    if first.saturating_add(second) <= most {
        return [first, second];
    }
    match mode {
        Mode::OnlyFirst => [first.min(most), second],
        Mode::OnlySecond => [first, second.min(most)],
        Mode::LongestFirst => {
            let half = most / 2;
            let larger_half = most - half;
            if first >= larger_half && second <= half {
                [most - second, second]
            } else if first < larger_half && second > half {
                [first, most - first]
            } else if first >= second {
                [larger_half, half]
            } else {
                [half, larger_half]
            }
        }
    }
}

/// **RaggedToDense**: rows of one length. Longer ones lose their last elements, shorter ones are padded with a value. The second output
/// says which elements are no padding.
///
/// Inputs are rows, their length, the value, and whether it is put to the right, which else is an attribute.
fn ragged_to_dense(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let count = expect_one_of(layer, &[5, 6])?;
    expect_type(layer, 0, DatumType::I32, "begins of rows")?;
    expect_type(layer, 1, DatumType::I32, "ends of rows")?;
    let dt = layer.datum_type(2)?;
    ensure!(dt.is_copy(), "the elements are of type {dt:?}, but must be numbers");
    expect_type(layer, 4, dt, "default value")?;
    let pad_right: bool = layer.attribute_or("pad_right", true)?;
    let pad_max_length: bool = layer.attribute_or("m_pad_max_length", false)?;
    let length = match layer.constant_opt(3)? {
        Some(length) => integer(&length, "the length of rows")?.max(0).to_dim(),
        None => new_dim(layer, "length")?,
    };
    let mut shape = layer.shape(0)?;
    shape.push(length);
    let elements = layer.shape(2)?;
    ensure!(!elements.is_empty(), "the elements have rank 0, but must have rank 1 or more");
    shape.extend(elements.iter().skip(1).cloned());
    let facts = tvec!((dt, shape.clone()), (DatumType::Bool, shape));
    wire(layer, "RaggedToDense", 0..count, facts, move |inputs| {
        let pad_right = match inputs.get(5) {
            Some(pad_right) => integer(pad_right, "pad_right")? != 0,
            None => pad_right,
        };
        dense(inputs, pad_right, pad_max_length)
    })
}

fn dense(inputs: &[TValue], pad_right: bool, pad_max_length: bool) -> TractResult<TVec<Tensor>> {
    let elements = &inputs[2];
    let rows = Rows::new(&inputs[0], &inputs[1], elements.shape().first().copied().unwrap_or(0))?;
    let length = integer(&inputs[3], "the length of rows")?;
    // The longest of no rows is the smallest number.
    let length = if rows.len() == 0 { length.max(0) } else { length };
    let length = usize::try_from(length).ok();
    let length = length.context("the length of rows is less than 0, but must be 0 or more")?;
    ensure!(
        inputs[4].len() == 1 && inputs[4].datum_type() == elements.datum_type(),
        "the default value is of type {:?} and shape {:?}, but must be one {:?}",
        inputs[4].datum_type(),
        inputs[4].shape(),
        elements.datum_type()
    );
    let mut shape: TVec<usize> = inputs[0].shape().into();
    shape.push(length);
    shape.extend(elements.shape().iter().skip(1).copied());
    check_volume("RaggedToDense", elements.datum_type(), &shape)?;
    let inner: usize = elements.shape().iter().skip(1).product();
    let width = inner * elements.datum_type().size_of();
    let value = inputs[4].try_as_plain_ram()?.as_bytes().repeat(inner);
    let bytes = elements.try_as_plain_ram()?.as_bytes();
    let mut out = Tensor::zero_dt(elements.datum_type(), &shape)?;
    let mut mask = Tensor::zero_dt(DatumType::Bool, &shape)?;
    if width > 0 && length > 0 {
        let mut out = out.try_as_plain_ram_mut()?;
        let mut mask = mask.try_as_plain_ram_mut()?;
        let lines = out.as_bytes_mut().chunks_exact_mut(length * width);
        let marks = mask.as_slice_mut::<bool>()?.chunks_exact_mut(length * inner);
        for (row, (line, marks)) in lines.zip(marks).enumerate() {
            let range = rows.get(row);
            let kept = if pad_max_length { length } else { range.len().min(length) };
            let from = bytes.get(range.start * width..(range.start + kept) * width);
            let from = from.with_context(|| {
                format!(
                    "row {row} begins at {}, so that there are no {length} elements",
                    range.start
                )
            })?;
            let padding = length - kept;
            let (first, last) = if pad_right { (0, kept) } else { (padding, length) };
            line[first * width..last * width].copy_from_slice(from);
            marks[first * inner..last * inner].fill(true);
            let (pad_from, pad_to) = if pad_right { (kept, length) } else { (0, padding) };
            for element in line[pad_from * width..pad_to * width].chunks_exact_mut(width) {
                element.copy_from_slice(&value);
            }
        }
    }
    Ok(tvec!(out, mask))
}
