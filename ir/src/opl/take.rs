//! Elements along one axis, at positions that follow from its size or from bounds that are inputs.

use tract_core::internal::*;

use super::{SetSymbols, check_volume, impl_op, integers, set_symbols};

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
}

/// The elements of a tensor at some positions of an axis. Consecutive ones are copied at once.
pub(super) fn take(
    data: &Tensor,
    axis: usize,
    mut positions: impl ExactSizeIterator<Item = TractResult<usize>>,
) -> TractResult<Tensor> {
    let mut shape: TVec<usize> = data.shape().into();
    shape[axis] = positions.len();
    check_volume("Take", data.datum_type(), &shape)?;
    let mut output = Tensor::zero_dt(data.datum_type(), &shape)?;
    let mut done = 0;
    let mut next = positions.next().transpose()?;
    while let Some(start) = next {
        let mut end = start + 1;
        next = positions.next().transpose()?;
        while next == Some(end) {
            end += 1;
            next = positions.next().transpose()?;
        }
        output.assign_slice(done..done + end - start, data, start..end, axis)?;
        done += end - start;
    }
    Ok(output)
}

/// Takes elements along an axis whose size is a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Take {
    pub axis: usize,
    pub positions: Positions,
}

impl_op!(
    Take,
    "OpenVinoTake",
    info = |op| vec![format!("axis: {}, {:?}", op.axis, op.positions)],
    required_bound_symbols = |op| op.positions.symbols()
);

impl EvalOp for Take {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = args_1!(inputs);
        let positions = self.positions.on_axis(data.shape()[self.axis], ctx.symbols)?;
        Ok(tvec!(take(&data, self.axis, positions)?.into_tvalue()))
    }
}

impl TypedOp for Take {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.to_tvec();
        ensure!(
            self.axis < shape.len(),
            "Take: axis is {}, but must be in [0, {})",
            self.axis,
            shape.len()
        );
        shape[self.axis] = self.positions.len(&shape[self.axis]);
        Ok(tvec!(inputs[0].datum_type.fact(shape)))
    }

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
        let output = take(&data, self.axis, positions.on_axis(dim, ctx.symbols)?)?;
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for DynSlice {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.to_tvec();
        ensure!(
            self.axis < shape.len(),
            "Take: axis is {}, but must be in [0, {})",
            self.axis,
            shape.len()
        );
        shape[self.axis] = self.len.clone();
        Ok(tvec!(inputs[0].datum_type.fact(shape)))
    }

    set_symbols!(len);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opl::fails;

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
        let positions = [1usize, 2, 0, 3].map(Ok);
        let taken = take(&data, 1, positions.into_iter()).unwrap();
        assert_eq!(taken, tensor2(&[[2, 3, 1, 4], [6, 7, 5, 8]]));
        let sizes = tensor1(&[1.to_dim(), 2.to_dim()]);
        let taken = take(&sizes, 0, [1usize, 0].map(Ok).into_iter()).unwrap();
        assert_eq!(taken, tensor1(&[2.to_dim(), 1.to_dim()]));
    }
}
