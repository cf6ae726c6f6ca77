//! Elements along one axis, at positions that follow from its size or from bounds that are inputs.

use tract_core::internal::*;

use tract_openvino_kernels::{Run, register_movement, take_runs};

use super::{SetSymbols, change_axes, impl_op, integers, set_symbols};

/// Which elements of an axis, in which order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Positions {
    /// `first`, `first + step` and so on: `len` of them.
    Stride { first: TDim, step: i64, len: TDim },
    /// All, with `before` more elements at the start and `after` at the end. Negative numbers take some away.
    Pad { mode: PadMode, before: TDim, after: TDim },
}

/// Which elements a pad has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PadMode {
    /// The element at the border.
    Edge,
    /// The elements mirrored at the last one, which does not come twice.
    Reflect,
    /// The elements mirrored at the border, so that the last one comes twice.
    Symmetric,
    /// The elements of the other end.
    Wrap,
}

impl PadMode {
    /// What pads of an axis of this size may be, for errors.
    fn limit(self, size: usize) -> String {
        let (mode, most) = match self {
            PadMode::Edge => return ", whose border would be repeated".into(),
            PadMode::Wrap => return String::new(),
            PadMode::Reflect => ("reflect", size.saturating_sub(1)),
            PadMode::Symmetric => ("symmetric", size),
        };
        format!(": its pads must be {most} or less with pad_mode {mode}")
    }
}

impl SetSymbols for Positions {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        let (first, second) = match self {
            Positions::Stride { first, len, .. } => (first, len),
            Positions::Pad { before, after, .. } => (before, after),
        };
        first.set_symbols(values)?;
        second.set_symbols(values)
    }
}

impl Positions {
    /// The number of positions on an axis of this size.
    pub fn len(&self, dim: &TDim) -> TDim {
        match self {
            Positions::Stride { len, .. } => len.clone(),
            Positions::Pad { before, after, .. } => (dim.clone() + before + after).simplify(),
        }
    }

    /// The symbols whose values the positions depend on.
    pub(super) fn symbols(&self) -> TVec<Symbol> {
        let dims = match self {
            Positions::Stride { first, len, .. } => [first, len],
            Positions::Pad { before, after, .. } => [before, after],
        };
        dims.into_iter().flat_map(|dim| dim.symbols()).collect()
    }

    /// The positions on an axis of this size, one after another.
    ///
    /// # Errors
    ///
    /// One of them is not on the axis.
    pub fn on_axis(
        &self,
        dim: usize,
        symbols: &SymbolValues,
    ) -> TractResult<impl ExactSizeIterator<Item = TractResult<usize>> + use<>> {
        let len = self.len(&dim.to_dim()).eval_to_i64(symbols)?;
        let len = usize::try_from(len).with_context(|| {
            format!("Take: of an axis of size {dim} the output has {len}, but must have 0 or more")
        })?;
        let (first, step, mode) = match self {
            Positions::Stride { first, step, .. } => (first.eval_to_i64(symbols)?, *step, None),
            Positions::Pad { mode, before, .. } => (-before.eval_to_i64(symbols)?, 1, Some(*mode)),
        };
        let (first, step, size) = (first as i128, step as i128, dim as i128);
        let position = move |number: usize| {
            let position = first + number as i128 * step;
            let found = match mode {
                None => position,
                Some(PadMode::Edge) => position.min(size - 1).max(0),
                Some(PadMode::Wrap) if size > 0 => position.rem_euclid(size),
                Some(PadMode::Reflect) if position < 0 => -position,
                Some(PadMode::Reflect) if position >= size => 2 * (size - 1) - position,
                Some(PadMode::Symmetric) if position < 0 => -1 - position,
                Some(PadMode::Symmetric) if position >= size => 2 * size - 1 - position,
                Some(_) => position,
            };
            ensure!(
                (0..size).contains(&found),
                "there is no element {position} of an axis of size {dim}{}",
                mode.map_or_else(String::new, |mode| mode.limit(dim))
            );
            Ok(found as usize)
        };
        Ok((0..len).map(position))
    }

    /// The same positions as runs of them. Where nothing is copied they are few: a tensor without elements may have an axis of any
    /// size.
    ///
    /// # Errors
    ///
    /// As those of [`on_axis`](Self::on_axis), and of the positions that it gives.
    fn runs(&self, dim: usize, symbols: &SymbolValues, is_empty: bool) -> TractResult<Vec<Run>> {
        let mut positions = self.on_axis(dim, symbols)?;
        let (size, len) = (dim as i128, positions.len() as i128);
        // The first position of each run, the step, and how many there are.
        let mut runs: Vec<(i128, i64, i128)> = vec![];
        match self {
            Positions::Stride { first, step, .. } => {
                runs.push((first.eval_to_i64(symbols)?.into(), *step, len));
            }
            Positions::Pad { mode: PadMode::Wrap, .. } if is_empty && size > 0 => {
                runs.push((0, 0, len));
            }
            Positions::Pad { mode: PadMode::Wrap, before, .. } if size > 0 => {
                let mut at = -i128::from(before.eval_to_i64(symbols)?);
                let end = at + len;
                while at < end {
                    let found = at.rem_euclid(size);
                    // One element comes again and again.
                    let (step, count) = if size == 1 { (0, len) } else { (1, size - found) };
                    runs.push((found, step, count.min(end - at)));
                    at += count;
                }
            }
            Positions::Pad { mode, before, .. } => {
                let start = -i128::from(before.eval_to_i64(symbols)?);
                let end = start + len;
                // What stands for a position before the elements, or after them, and the step from there.
                let outside = |position: i128| match mode {
                    PadMode::Edge => (position.min(size - 1).max(0), 0),
                    PadMode::Wrap => (position, 1),
                    PadMode::Reflect if position < 0 => (-position, -1),
                    PadMode::Reflect => (2 * (size - 1) - position, -1),
                    PadMode::Symmetric if position < 0 => (-1 - position, -1),
                    PadMode::Symmetric => (2 * size - 1 - position, -1),
                };
                let (low, high) = (start.max(0), end.min(size));
                let (after, last_before) = (start.max(size), end.min(0));
                let (first, step) = outside(start);
                runs.push((first, step, last_before - start));
                runs.push((low, 1, high - low));
                let (first, step) = outside(after);
                runs.push((first, step, end - after));
            }
        }
        let run = |(first, step, count): (i128, i64, i128)| {
            let last = first + (count - 1) * i128::from(step);
            let is_there = (0..size).contains(&first) && (0..size).contains(&last);
            let run = || {
                let (first, count) = (first.try_into().ok()?, count.try_into().ok()?);
                Some(Run { first, stride: step.try_into().ok()?, count })
            };
            is_there.then(run).flatten()
        };
        let runs = runs.into_iter().filter(|(.., count)| *count > 0).map(run);
        if let Some(runs) = runs.collect::<Option<Vec<Run>>>() {
            return Ok(runs);
        }
        // The first that is wrong says what it is.
        positions.try_for_each(|position| position.map(drop))?;
        bail!("positions of an axis of size {dim} are beyond what can be addressed")
    }

    /// The elements of a tensor at these positions of an axis.
    fn take(&self, data: &Tensor, axis: usize, symbols: &SymbolValues) -> TractResult<Tensor> {
        let shape = data.shape();
        let dim = *shape.get(axis).with_context(|| {
            format!("Take: axis is {axis}, but must be in [0, {})", shape.len())
        })?;
        let is_empty = (0..shape.len()).any(|other| other != axis && shape[other] == 0);
        take_runs("Take", data, axis, &self.runs(dim, symbols, is_empty)?)
    }
}

/// The elements of a tensor at some positions of an axis. Consecutive ones are copied at once.
pub(super) fn take(data: &Tensor, axis: usize, positions: &[usize]) -> TractResult<Tensor> {
    let mut runs: Vec<Run> = vec![];
    for position in positions {
        match runs.last_mut() {
            Some(run) if run.first + run.count == *position => run.count += 1,
            _ => runs.push(Run { first: *position, stride: 1, count: 1 }),
        }
    }
    take_runs("Take", data, axis, &runs)
}

/// What elements are taken of along an axis, which then has another size.
fn taken_fact(
    data: &TypedFact,
    axis: usize,
    len: impl FnOnce(&TDim) -> TDim,
) -> TractResult<TVec<TypedFact>> {
    let mut shape = data.shape.to_tvec();
    ensure!(axis < shape.len(), "Take: axis is {axis}, but must be in [0, {})", shape.len());
    shape[axis] = len(&shape[axis]);
    Ok(tvec!(data.datum_type.fact(shape)))
}

/// Takes elements along an axis whose size is a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Take {
    pub axis: usize,
    pub positions: Positions,
}

register_movement!(Moves, |op| op.is::<Take>());

impl_op!(
    Take,
    "OpenVinoTake",
    info = |op| vec![format!("axis: {}, {:?}", op.axis, op.positions)],
    required_bound_symbols = |op, _| op.positions.symbols()
);

impl EvalOp for Take {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = args_1!(inputs);
        Ok(tvec!(self.positions.take(&data, self.axis, ctx.symbols)?.into_tvalue()))
    }
}

impl TypedOp for Take {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        taken_fact(inputs[0], self.axis, |size| self.positions.len(size))
    }

    change_axes!(|op, change| {
        let axis = change.transform_axis(op.axis);
        Ok(axis.map(|axis| Take { axis, positions: op.positions.clone() }))
    });

    set_symbols!(positions);

    as_op!();
}

/// Where NumPy's `start:stop:step` begins on an axis of size `dim`, and how many elements it has.
pub(crate) fn numpy_slice(dim: usize, start: i64, stop: i64, step: i64) -> (usize, usize) {
    let size = dim as i128;
    let position = |bound: i64| bound as i128 + if bound < 0 { size } else { 0 };
    let (least, most) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let (start, stop) = (position(start).clamp(least, most), position(stop).clamp(least, most));
    let distance = if step > 0 { stop - start } else { start - stop };
    if distance <= 0 || step == 0 {
        return (0, 0);
    }
    // There is an element, so that `start` is a position.
    (start as usize, (distance as u128).div_ceil(step.unsigned_abs() as u128) as usize)
}

/// A slice whose bounds are only known when it runs: NumPy's `start:stop:step`.
///
/// Inputs are `data`, `start` and `stop`. tract's operator of this name only takes bounds that are positions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DynSlice {
    pub axis: usize,
    /// Which element of `start` and `stop` is meant; `None` is an end of the axis.
    pub elements: [Option<usize>; 2],
    pub step: i64,
    /// The size of the output: a symbol that only this node has.
    pub len: TDim,
}

impl_op!(
    DynSlice,
    "OpenVinoDynSlice",
    info = |op| vec![format!("axis: {}, step: {}", op.axis, op.step)],
    mints_runtime_symbols = |_| true
);

impl EvalOp for DynSlice {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, start, stop) = args_3!(inputs);
        let bound = |tensor: &Tensor, element: Option<usize>, open: i64| match element {
            None => Ok(open),
            Some(element) => integers(tensor, ctx.symbols)?
                .get(element)
                .copied()
                .with_context(|| format!("there is no bound {element}")),
        };
        let (low, high) = (0, i64::MAX);
        let (first, last) = if self.step > 0 { (low, high) } else { (high, i64::MIN) };
        let start = bound(&start, self.elements[0], first)?;
        let stop = bound(&stop, self.elements[1], last)?;
        let dim = data.shape()[self.axis];
        let (first, len) = numpy_slice(dim, start, stop, self.step);
        let positions =
            Positions::Stride { first: first.to_dim(), step: self.step, len: len.to_dim() };
        Ok(tvec!(positions.take(&data, self.axis, ctx.symbols)?.into_tvalue()))
    }
}

impl TypedOp for DynSlice {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        taken_fact(inputs[0], self.axis, |_| self.len.clone())
    }

    set_symbols!(len);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::{between_codes, fails};
    use model_cases::MANY;

    #[test]
    fn slices_as_numpy_has_them() {
        for (dim, start, stop, step, expected) in [
            (5, 0, 5, 1, (0, 5)),
            (5, -2, i64::MAX, 1, (3, 2)),
            (5, -9, 9, 2, (0, 3)),
            (5, 4, 0, -2, (4, 2)),
            (5, i64::MAX, i64::MIN, -1, (4, 5)),
            (5, i64::MAX, i64::MIN, i64::MIN, (4, 1)),
            (5, 3, 3, 1, (0, 0)),
            (5, 7, 9, 1, (0, 0)),
            (0, 0, 9, 1, (0, 0)),
            (0, -1, -9, -1, (0, 0)),
        ] {
            assert_eq!(
                numpy_slice(dim, start, stop, step),
                expected,
                "{start}:{stop}:{step} of {dim}"
            );
        }
    }

    #[test]
    fn it_stays_between_codes() -> TractResult<()> {
        for axis in [2, 3] {
            let found = between_codes(|_| {
                let (before, after) = (1.to_dim(), 2.to_dim());
                let positions = Positions::Pad { mode: PadMode::Reflect, before, after };
                Box::new(Take { axis, positions })
            })?;
            assert_eq!(
                found,
                ["Source", "Quantize", "OpenVinoTake", "QuantizedMaxPool", "Dequantize"]
            );
        }
        Ok(())
    }

    #[test]
    fn positions_of_each_mode() {
        let padded = |mode, before: i64, after: i64, dim| {
            let positions = Positions::Pad { mode, before: before.to_dim(), after: after.to_dim() };
            positions.on_axis(dim, &SymbolValues::default()).and_then(|it| it.collect())
        };
        let ok = |positions: TractResult<Vec<usize>>| positions.unwrap();
        assert_eq!(ok(padded(PadMode::Edge, 2, 1, 3)), [0, 0, 0, 1, 2, 2]);
        assert_eq!(ok(padded(PadMode::Reflect, 2, 1, 3)), [2, 1, 0, 1, 2, 1]);
        assert_eq!(ok(padded(PadMode::Symmetric, 3, 1, 3)), [2, 1, 0, 0, 1, 2, 2]);
        assert_eq!(ok(padded(PadMode::Reflect, -1, 2, 3)), [1, 2, 1, 0]);
        assert!(ok(padded(PadMode::Edge, -2, -2, 4)).is_empty());
        assert_eq!(ok(padded(PadMode::Wrap, 4, -4, 3)), [2, 0, 1]);
        assert_eq!(ok(padded(PadMode::Wrap, -4, 4, 3)), [1, 2, 0]);
        assert!(ok(padded(PadMode::Wrap, 4, -4, 0)).is_empty());
        fails(padded(PadMode::Reflect, 3, 0, 3), "must be 2 or less with pad_mode reflect");
        fails(padded(PadMode::Symmetric, 0, 4, 3), "must be 3 or less with pad_mode symmetric");
        fails(padded(PadMode::Edge, 1, 0, 0), "whose border would be repeated");
        fails(padded(PadMode::Wrap, 1, 0, 0), "no element -1 of an axis of size 0");
        fails(
            padded(PadMode::Edge, -3, -3, 4),
            "of an axis of size 4 the output has -2, but must have 0 or more",
        );
        let negative = Positions::Stride { first: 0.to_dim(), step: 0, len: (-3).to_dim() };
        fails(
            negative.on_axis(1, &SymbolValues::default()),
            "of an axis of size 1 the output has -3, but must have 0 or more",
        );
    }

    #[test]
    fn consecutive_and_other_positions() {
        let data = tensor2(&[[1, 2, 3, 4], [5, 6, 7, 8]]);
        let taken = take(&data, 1, &[1, 2, 0, 3]).unwrap();
        assert_eq!(taken, tensor2(&[[2, 3, 1, 4], [6, 7, 5, 8]]));
        let sizes = tensor1(&[1.to_dim(), 2.to_dim()]);
        let taken = take(&sizes, 0, &[1, 0]).unwrap();
        assert_eq!(taken, tensor1(&[2.to_dim(), 1.to_dim()]));
        fails(take(&sizes, 0, &[0, 2]), "must be on an axis of size 2");
    }

    /// The runs are the positions one by one, or fail as these do.
    #[test]
    fn runs_of_positions() {
        let symbols = SymbolValues::default();
        let check = |positions: Positions, dim: usize| {
            let one_by_one = positions.on_axis(dim, &symbols);
            let one_by_one: TractResult<Vec<usize>> = one_by_one.and_then(|it| it.collect());
            let runs = positions.runs(dim, &symbols, false);
            match (one_by_one, &runs) {
                (Ok(expected), Ok(runs)) => {
                    let found = runs.iter().flat_map(|run| run.positions());
                    let found: Vec<usize> = found.map(|position| position as usize).collect();
                    assert_eq!(found, expected, "{positions:?} {dim}");
                    let of_empty = positions.runs(dim, &symbols, true).unwrap();
                    let count = of_empty.iter().map(|run| run.count).sum::<usize>();
                    assert_eq!(count, expected.len(), "{positions:?} {dim}");
                }
                (Err(expected), Err(found)) => {
                    assert_eq!(format!("{found:#}"), format!("{expected:#}"))
                }
                (expected, found) => panic!("{positions:?} {dim}: {found:?}, not {expected:?}"),
            }
        };
        for dim in 0..5 {
            for before in -6i64..9 {
                for after in -6i64..9 {
                    for mode in [PadMode::Edge, PadMode::Reflect, PadMode::Symmetric, PadMode::Wrap]
                    {
                        let (before, after) = (before.to_dim(), after.to_dim());
                        check(Positions::Pad { mode, before, after }, dim);
                    }
                    for len in -1i64..5 {
                        let (first, len) = (before.to_dim(), len.to_dim());
                        check(Positions::Stride { first, step: after, len }, dim);
                    }
                }
            }
        }
    }

    /// An axis of any size takes no time where there is nothing to copy.
    #[test]
    fn many_positions_of_nothing() -> TractResult<()> {
        let data = Tensor::zero::<f32>(&[0, 3])?;
        for mode in [PadMode::Edge, PadMode::Wrap] {
            let (before, after) = (MANY.to_dim(), 0.to_dim());
            let positions = Positions::Pad { mode, before, after };
            let taken = positions.take(&data, 1, &SymbolValues::default())?;
            assert_eq!(taken.shape(), [0, MANY + 3]);
        }
        Ok(())
    }
}
