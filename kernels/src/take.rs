//! Elements of an axis in another order.

use tract_core::internal::*;

use crate::checks::check_volume;
use crate::strided::{Run, concatenated};

/// The elements of a tensor at the positions of an axis that these runs have, one run after the other, on the threads that share this
/// work.
///
/// # Errors
///
/// The tensor has no such axis, a position is not on it, or the output has more elements than a tensor may have; they begin
/// with the name of the operator.
pub fn take_runs(operator: &str, data: &Tensor, axis: usize, runs: &[Run]) -> TractResult<Tensor> {
    let mut shape: TVec<usize> = data.shape().into();
    ensure!(axis < shape.len(), "{operator}: axis is {axis}, but must be in [0, {})", shape.len());
    let size = shape[axis];
    if let Some(wrong) = runs.iter().find(|run| !run.is_on_axis(size)) {
        bail!("{operator}: positions are {wrong:?}, but must be on an axis of size {size}");
    }
    let count = runs.iter().try_fold(0usize, |count, run| count.checked_add(run.count));
    shape[axis] = count.with_context(|| format!("{operator}: there are too many positions"))?;
    check_volume(operator, data.datum_type(), &shape)?;
    let dt = data.datum_type();
    if dt.is_copy() && data.is_plain() {
        return concatenated(operator, dt, &shape, axis, runs.iter().map(|run| (data, *run)));
    }
    let mut output = Tensor::zero_dt(dt, &shape)?;
    let mut done = 0;
    for run in runs {
        let positions = run.positions().map(|position| position as usize);
        for position in positions {
            output.assign_slice(done..done + 1, data, position..position + 1, axis)?;
            done += 1;
        }
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: usize, stride: isize, count: usize) -> Run {
        Run { first, stride, count }
    }

    #[test]
    fn runs_one_after_the_other() -> TractResult<()> {
        let all = [
            vec![run(1, 1, 2), run(3, -1, 4), run(2, 0, 3)],
            vec![run(0, 2, 2), run(3, -3, 2), run(9, 1, 0), run(1, 0, 1)],
            vec![],
        ];
        for shape in [&[4][..], &[4, 3], &[2, 4], &[2, 4, 3], &[3, 4, 1, 2], &[0, 4, 2], &[2, 4, 0]]
        {
            let axis = shape.iter().position(|size| *size == 4).unwrap();
            let count = shape.iter().product::<usize>();
            let numbers: Vec<i64> = (0..count as i64).collect();
            let data = Tensor::from_shape(shape, &numbers)?;
            for runs in all.iter() {
                // A run without positions may begin anywhere.
                let positions: Vec<usize> =
                    runs.iter().flat_map(|run| run.positions()).map(|it| it as usize).collect();
                let parts: Vec<Tensor> = positions
                    .iter()
                    .map(|position| data.slice(axis, *position, position + 1))
                    .collect::<TractResult<_>>()?;
                let mut empty = shape.to_vec();
                empty[axis] = 0;
                let expected = match parts.is_empty() {
                    true => Tensor::zero::<i64>(&empty)?,
                    false => Tensor::stack_tensors(axis, &parts)?,
                };
                for dt in [DatumType::I64, DatumType::F16, DatumType::U8, DatumType::TDim] {
                    let data = data.cast_to_dt(dt)?;
                    let found = take_runs("test", &data, axis, runs)?;
                    assert_eq!(found, *expected.cast_to_dt(dt)?, "{shape:?} {runs:?}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn what_is_not_there() {
        let data = tensor1(&[1f32, 2., 3.]);
        for (axis, runs, expected) in [
            (1, vec![], "test: axis is 1, but must be in [0, 1)"),
            (0, vec![run(2, 1, 2)], "must be on an axis of size 3"),
            (0, vec![run(0, 1, 1), run(1, -1, 3)], "must be on an axis of size 3"),
            (0, vec![run(1, isize::MAX, 2)], "must be on an axis of size 3"),
            (0, vec![run(0, 0, usize::MAX), run(0, 0, 1)], "there are too many positions"),
            (0, vec![run(0, 0, usize::MAX / 2)], "test"),
        ] {
            let error = take_runs("test", &data, axis, &runs).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn of_threads() -> TractResult<()> {
        use tract_core::prelude::multithread::{Executor, multithread_tract_scope};
        let numbers: Vec<u32> = (0..600 * 300).collect();
        let data = Tensor::from_shape(&[600, 300], &numbers)?;
        let of = |threads| {
            multithread_tract_scope(Executor::multithread(threads), || {
                take_runs("test", &data, 1, &[run(50, -1, 50), run(0, 1, 300), run(299, 0, 9)])
            })
        };
        assert_eq!(of(1)?, of(3)?);
        Ok(())
    }
}
