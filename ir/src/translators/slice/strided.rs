//! NumPy's indexing.

use tract_core::internal::*;
use tract_core::ops::array::Slice;
use tract_core::ops::change_axes::AxisOp;
use tract_openvino::GatherRevision;

use super::Bounds;
use crate::context::LayerContext;
use crate::translators::chain::Chain;
use crate::translators::common::FAR;
use crate::translators::indexing;

/// What an entry of the bounds of a StridedSlice is for.
#[derive(Clone, Copy, PartialEq)]
enum Entry {
    /// A slice of an axis of the data.
    Slice(usize),
    /// One element of an axis of the data, which goes away.
    Shrink(usize),
    /// A new axis.
    New,
    /// As many axes as the other entries leave.
    Ellipsis(usize),
}

/// **StridedSlice-1**: NumPy's indexing. `begin`, `end` and `strides` have entries, and masks say what each
/// is for. A 1 in `begin_mask` or `end_mask` means that the bound is ignored. If several masks have a 1 for
/// an entry, an ellipsis wins over a new axis, and that over an axis that is shrunk to one element. Masks
/// that are too short go on with zeros.
pub(super) fn strided_slice(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=4)?;
    let shape = ctx.shape(0)?;
    let begin = Bounds::new(ctx, 1, "begin")?;
    let end = Bounds::new(ctx, 2, "end")?;
    let strides = match ctx.input_count() {
        4 => ctx.integers(3, "strides")?,
        _ => tvec![1; begin.count],
    };
    ensure!(
        begin.count == end.count && begin.count == strides.len(),
        "begin, end and strides have {}, {} and {} elements, but must have the same number",
        begin.count,
        end.count,
        strides.len()
    );
    let mask = |name: &str| -> TractResult<Vec<bool>> {
        let mask: Vec<i64> = ctx.attribute_or(name, vec![])?;
        Ok((0..begin.count).map(|entry| mask.get(entry).is_some_and(|bit| *bit != 0)).collect())
    };
    let (ignore_begin, ignore_end) = (mask("begin_mask")?, mask("end_mask")?);
    let entries = entries(
        shape.len(),
        &mask("ellipsis_mask")?,
        &mask("new_axis_mask")?,
        &mask("shrink_axis_mask")?,
    )?;
    let mut chain = Chain::default();
    let mut shrunk = vec![];
    for (number, entry) in entries.iter().enumerate() {
        let bound = |bounds, ignore: bool| (bounds, (!ignore).then_some(number));
        match *entry {
            Entry::Slice(axis) => {
                ensure!(strides[number] != 0, "strides[{number}] is 0, but must not be");
                let bounds = [bound(&begin, ignore_begin[number]), bound(&end, ignore_end[number])];
                chain.slice_between(ctx, axis, &shape[axis], bounds, strides[number])?;
            }
            Entry::Shrink(axis) => {
                shrunk.push(axis);
                let (dim, first) = (&shape[axis], 0.to_dim());
                let index = if ignore_begin[number] { Some(&first) } else { begin.known(number) };
                match index {
                    Some(index) => {
                        if let (Some(index), Some(dim)) = (index.as_i64(), dim.as_i64()) {
                            ensure!(
                                (-dim..dim).contains(&index),
                                "begin[{number}] is {index}, which is out of range for axis {axis}: its size is \
                                 {dim}"
                            );
                        }
                        ensure!(
                            index.as_i64().is_none_or(|index| (-FAR..FAR).contains(&index)),
                            "begin[{number}] is {index}, which is out of range for axis {axis}"
                        );
                        let from_end = index.prove_strict_negative();
                        let index = if from_end { index.clone() + dim } else { index.clone() };
                        chain.contiguous(axis, dim, index.clone(), index + 1)?;
                    }
                    None => {
                        let indices = ctx.input(begin.input)?;
                        let one = Slice::new(0, number, number + 1);
                        let index = ctx.wire("index", one, &[indices])?;
                        let gather = indexing::gather(ctx, GatherRevision::V1, axis);
                        chain.then("take", gather, &[index]);
                    }
                }
            }
            Entry::New | Entry::Ellipsis(_) => (),
        }
    }
    shrunk.sort_unstable();
    shrunk.iter().rev().for_each(|axis| chain.axis_op(AxisOp::Rm(*axis)));
    let mut position = 0;
    for entry in entries {
        match entry {
            Entry::Slice(_) => position += 1,
            Entry::Shrink(_) => (),
            Entry::New => {
                chain.axis_op(AxisOp::Add(position));
                position += 1;
            }
            Entry::Ellipsis(axes) => position += axes,
        }
    }
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// What each entry is for, as the masks say.
fn entries(
    rank: usize,
    ellipsis: &[bool],
    new_axis: &[bool],
    shrink: &[bool],
) -> TractResult<Vec<Entry>> {
    let ellipses = ellipsis.iter().filter(|bit| **bit).count();
    ensure!(ellipses <= 1, "ellipsis_mask has {ellipses} ones, but may have only one");
    let named =
        ellipsis.iter().zip(new_axis).filter(|(ellipsis, new)| !**ellipsis && !**new).count();
    ensure!(
        named <= rank,
        "begin and end have {named} entries for axes of the data, but it has rank {rank}"
    );
    let mut axis = 0;
    let mut entries = vec![];
    for ((ellipsis, new), shrink) in ellipsis.iter().zip(new_axis).zip(shrink) {
        entries.push(match (*ellipsis, *new, *shrink) {
            (true, _, _) => {
                axis += rank - named;
                Entry::Ellipsis(rank - named)
            }
            (_, true, _) => Entry::New,
            (_, _, shrink) => {
                axis += 1;
                if shrink { Entry::Shrink(axis - 1) } else { Entry::Slice(axis - 1) }
            }
        });
    }
    Ok(entries)
}
