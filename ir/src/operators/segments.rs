use std::ops::Range;

use tract_core::internal::*;

use super::number::Number;
use super::{check_volume, dispatch_number, impl_op, integers, set_symbols};
use crate::limits::MAX_STATED_ELEMENTS;

/// How the rows of a segment become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RowReduction {
    Sum,
    Mean,
    Max,
}

/// What the second input has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SegmentBounds {
    /// Where each segment begins. The last one ends with the rows.
    Offsets,
    /// Of each row its segment, in ascending order. Those that are too large mean none.
    Ids,
}

/// What a segment without rows becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EmptySegment {
    Zero,
    /// The least number of the type.
    Lowest,
    /// The third input.
    Row,
}

/// Reduces rows that are one after another: OpenVINO's EmbeddingBagOffsets, EmbeddingSegments and SegmentMax.
///
/// Inputs are the rows, the bounds of segments, and the row for empty ones if `empty` says so.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Segments {
    pub reduction: RowReduction,
    pub bounds: SegmentBounds,
    pub empty: EmptySegment,
    /// The number of segments, or a symbol that only this node has if the last of the ids says how many.
    pub count: TDim,
    pub count_is_last: bool,
}

impl Segments {
    /// Checks offsets, or the ids of rows.
    fn check(&self, numbers: &[i64], rows: usize, count: usize) -> TractResult<()> {
        let (name, expected, most) = match self.bounds {
            SegmentBounds::Offsets => ("offsets", count, rows as i64),
            SegmentBounds::Ids => ("segment_ids", rows, i64::MAX),
        };
        ensure!(
            numbers.len() == expected,
            "Segments: the number of {name} is {}, but must be {expected}",
            numbers.len()
        );
        let mut least = 0;
        for (position, number) in numbers.iter().enumerate() {
            let range = || match self.bounds {
                SegmentBounds::Offsets => format!("in [{least}, {most}]"),
                SegmentBounds::Ids => format!("{least} or more"),
            };
            ensure!(
                (least..=most).contains(number),
                "Segments: {name}[{position}] is {number}, but must be {}, in ascending order",
                range()
            );
            least = *number;
        }
        Ok(())
    }

    /// The rows of a segment.
    fn range(&self, numbers: &[i64], rows: usize, segment: usize) -> Range<usize> {
        match self.bounds {
            SegmentBounds::Offsets => {
                let end = numbers.get(segment + 1).map_or(rows, |end| *end as usize);
                numbers[segment] as usize..end
            }
            SegmentBounds::Ids => {
                let start = |id: usize| numbers.partition_point(|it| *it < id as i64);
                start(segment)..start(segment + 1)
            }
        }
    }
}

impl_op!(
    Segments,
    "OpenVinoSegments",
    info = |op| vec![format!("{:?} of {:?}, empty: {:?}", op.reduction, op.bounds, op.empty)],
    mints_runtime_symbols = |op| op.count_is_last
);

impl EvalOp for Segments {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let rows = &inputs[0];
        let numbers = integers(&inputs[1], ctx.symbols)?;
        let count = match self.count_is_last {
            true => numbers.last().map_or(0, |last| last.saturating_add(1)),
            false => self.count.eval_to_i64(ctx.symbols)?,
        };
        ensure!(
            (0..=MAX_STATED_ELEMENTS as i64).contains(&count),
            "Segments: the number of segments is {count}, but must be in [0, {MAX_STATED_ELEMENTS}]"
        );
        let count = usize::try_from(count)?;
        let mut shape: TVec<usize> = rows.shape().into();
        ensure!(!shape.is_empty(), "Segments: the rows have rank 0, but must have rank 1 or more");
        shape[0] = count;
        check_volume("Segments", rows.datum_type(), &shape)?;
        self.check(&numbers, rows.shape()[0], count)?;
        let mut output = Tensor::zero_dt(rows.datum_type(), &shape)?;
        let empty = inputs.get(2).map(|row| &**row);
        dispatch_number!(reduce(rows.datum_type())(self, rows, &numbers, empty, &mut output))?;
        Ok(tvec!(output.into_tvalue()))
    }
}

fn reduce<T: Number>(
    op: &Segments,
    rows: &Tensor,
    numbers: &[i64],
    empty: Option<&Tensor>,
    output: &mut Tensor,
) -> TractResult<()> {
    let len: usize = output.shape()[1..].iter().product();
    // Without segments a row may be of any size.
    if output.len() == 0 {
        return Ok(());
    }
    let count = rows.shape()[0];
    let rows = rows.try_as_plain_ram()?;
    let rows = rows.as_slice::<T>()?;
    let filled = match op.empty {
        EmptySegment::Zero => vec![T::default(); len],
        EmptySegment::Lowest => vec![T::LEAST; len],
        EmptySegment::Row => {
            let row = empty.context("Segments: there is no row for empty segments")?;
            row.try_as_plain_ram()?.as_slice::<T>()?.to_vec()
        }
    };
    ensure!(
        filled.len() == len,
        "Segments: the row for empty segments has size {}, but must have size {len}",
        filled.len()
    );
    let mut output = output.try_as_plain_ram_mut()?;
    let segments = output.as_slice_mut::<T>()?.chunks_exact_mut(len);
    for (segment, output) in segments.enumerate() {
        let range = op.range(numbers, count, segment);
        let mut rows = rows[range.start * len..range.end * len].chunks_exact(len);
        let Some(first) = rows.next() else {
            output.copy_from_slice(&filled);
            continue;
        };
        output.copy_from_slice(first);
        for row in rows {
            for (total, element) in output.iter_mut().zip(row) {
                *total = match op.reduction {
                    RowReduction::Max if *element > *total => *element,
                    RowReduction::Max => *total,
                    RowReduction::Sum | RowReduction::Mean => total.add(*element),
                };
            }
        }
        if op.reduction == RowReduction::Mean {
            output.iter_mut().for_each(|total| *total = total.mean_of(range.len()));
        }
    }
    Ok(())
}

impl TypedOp for Segments {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.to_tvec();
        ensure!(!shape.is_empty(), "Segments: the rows have rank 0, but must have rank 1 or more");
        shape[0] = self.count.clone();
        Ok(tvec!(inputs[0].datum_type.fact(shape)))
    }

    set_symbols!(count);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;
    use model_cases::MANY;

    fn run(bounds: SegmentBounds, numbers: &[i64], count: usize) -> TractResult<Tensor> {
        let op = Segments {
            reduction: RowReduction::Sum,
            bounds,
            empty: EmptySegment::Zero,
            count: count.to_dim(),
            count_is_last: false,
        };
        let inputs = tvec!(tensor2(&[[1], [2], [4]]).into_tvalue(), tensor1(numbers).into_tvalue());
        Ok(op.eval(&EvalContext::out_of_plan(), inputs)?[0].clone().into_tensor())
    }

    #[test]
    fn segments_of_rows() {
        let sum = |bounds, numbers: &[i64], count| run(bounds, numbers, count).unwrap();
        assert_eq!(sum(SegmentBounds::Offsets, &[0, 1, 1], 3), tensor2(&[[1], [0], [6]]));
        assert_eq!(sum(SegmentBounds::Offsets, &[2, 3], 2), tensor2(&[[4], [0]]));
        assert_eq!(sum(SegmentBounds::Ids, &[0, 2, 2], 4), tensor2(&[[1], [0], [6], [0]]));
        assert_eq!(sum(SegmentBounds::Ids, &[0, 2, 9], 3), tensor2(&[[1], [0], [2]]));
    }

    #[test]
    fn the_number_of_the_last_segment_has_a_limit() {
        let op = Segments {
            reduction: RowReduction::Max,
            bounds: SegmentBounds::Ids,
            empty: EmptySegment::Zero,
            count: 0.to_dim(),
            count_is_last: true,
        };
        for last in [MAX_STATED_ELEMENTS as i64, i64::MAX] {
            let inputs = tvec!(tensor1(&[1u8]).into_tvalue(), tensor1(&[last]).into_tvalue());
            let expected = "but must be in [0, 268435456]";
            fails(op.eval(&EvalContext::out_of_plan(), inputs), expected);
        }
    }

    /// There is no memory for one of the rows, but there are none.
    #[test]
    fn rows_that_are_not_there_may_be_large() {
        let op = Segments {
            reduction: RowReduction::Sum,
            bounds: SegmentBounds::Ids,
            empty: EmptySegment::Zero,
            count: 0.to_dim(),
            count_is_last: false,
        };
        let rows = Tensor::zero::<i64>(&[0, MANY]).unwrap().into_tvalue();
        let inputs = tvec!(rows, tensor1::<i64>(&[]).into_tvalue());
        let output = op.eval(&EvalContext::out_of_plan(), inputs).unwrap();
        assert_eq!(output[0].shape(), [0, MANY]);
    }

    #[test]
    fn bounds_that_are_wrong() {
        for (bounds, numbers, expected) in [
            (SegmentBounds::Offsets, &[0, 2, 1][..], "offsets[2] is 1, but must be in [2, 3]"),
            (SegmentBounds::Offsets, &[-1, 2], "offsets[0] is -1, but must be in [0, 3]"),
            (SegmentBounds::Offsets, &[0, 4], "offsets[1] is 4, but must be in [0, 3]"),
            (SegmentBounds::Ids, &[0, 2], "the number of segment_ids is 2, but must be 3"),
            (SegmentBounds::Ids, &[1, 0, 2], "segment_ids[1] is 0, but must be 1 or more"),
            (SegmentBounds::Ids, &[-1, 0, 2], "segment_ids[0] is -1"),
        ] {
            let error = run(bounds, numbers, numbers.len()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
