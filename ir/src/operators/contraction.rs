//! Products of two factors that are both computed when the model runs.

use std::ops::Range;

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;

use super::check_volume;
use super::product::activation::Activation;
use super::product::{Columns, Rows, Tile, Vectors, Whole};

/// A product of matrices, or of many: which axes of the two factors and of the result belong together. The last axis
/// of the result has its columns. The factor that has this axis is the right one, and may be the first input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contraction {
    pub left: usize,
    pub right: usize,
    /// The axis of the rows, in the left factor and in the result.
    pub rows: [usize; 2],
    /// Of the right factor, which has either this axis or the sum's last. The left one has that last.
    columns: usize,
    summed: usize,
    pub batch: TVec<BatchAxis>,
}

/// An axis of the result that is neither rows nor columns, and where the factors have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchAxis {
    pub left: Option<usize>,
    pub right: Option<usize>,
    pub output: usize,
}

impl Contraction {
    /// The contraction of two factors, if it is one of these.
    pub fn of(op: &EinSum) -> Option<Contraction> {
        let axes = &op.axes;
        if axes.input_count() != 2 || axes.output_count() != 1 || op.q_params.is_some() {
            return None;
        }
        let last = axes.rank(InOut::Out(0)).checked_sub(1)?;
        let mut right = None;
        let (mut summed, mut others) = (None, tvec!());
        for axis in axes.iter_all_axes() {
            let once = |places: &[usize]| (places.len() < 2).then(|| places.first().copied());
            let inputs = [once(&axis.inputs[0])?, once(&axis.inputs[1])?];
            match (inputs, once(&axis.outputs[0])?) {
                ([Some(a), Some(b)], None) if summed.is_none() => summed = Some([a, b]),
                ([None, Some(columns)], Some(output)) if output == last => {
                    right = Some((1, columns));
                }
                ([Some(columns), None], Some(output)) if output == last => {
                    right = Some((0, columns));
                }
                (inputs, Some(output)) if output != last => others.push((inputs, output)),
                _ => return None,
            }
        }
        let ((right, columns), summed) = (right?, summed?);
        let left = 1 - right;
        let ranks = [axes.rank(InOut::In(0)), axes.rank(InOut::In(1))];
        let is_read_in_rows = summed[left] + 1 == ranks[left]
            && (columns + 1 == ranks[right] || summed[right] + 1 == ranks[right]);
        if !is_read_in_rows {
            return None;
        }
        others.sort_by_key(|(_, output)| *output);
        let is_row = |(inputs, _): &([Option<usize>; 2], usize)| {
            inputs[left].is_some() && inputs[right].is_none()
        };
        let (inputs, output) = others.remove(others.iter().rposition(is_row)?);
        let rows = [inputs[left]?, output];
        let batch = others.into_iter().map(|(inputs, output)| BatchAxis {
            left: inputs[left],
            right: inputs[right],
            output,
        });
        Some(Contraction {
            left,
            right,
            rows,
            columns,
            summed: summed[right],
            batch: batch.collect(),
        })
    }

    /// Whether the sums of factors of these shapes are over one size. tract's own operator also takes one element for
    /// many.
    pub fn takes(&self, left: &[TDim], right: &[TDim]) -> bool {
        left.last() == Some(&right[self.summed])
    }

    /// The shape of the result.
    pub fn shape<D: DimLike>(&self, left: &[D], right: &[D]) -> TractResult<TVec<D>> {
        let mut shape = tvec![D::one(); self.batch.len() + 2];
        shape[self.rows[1]] = left[self.rows[0]].clone();
        shape[self.batch.len() + 1] = right[self.columns].clone();
        for axis in &self.batch {
            let sizes = [axis.left.map(|it| &left[it]), axis.right.map(|it| &right[it])];
            let mut sizes = sizes.into_iter().flatten().filter(|size| !size.is_one());
            let Some(size) = sizes.next() else { continue };
            ensure!(
                sizes.all(|it| it == size),
                "the factors have different sizes in axis {} of the product, one of which is {size}",
                axis.output
            );
            shape[axis.output] = size.clone();
        }
        Ok(shape)
    }

    /// How the factors are read and the result is written.
    pub fn sizes(&self, left: &[usize], right: &[usize]) -> TractResult<Sizes> {
        let depth = left[left.len() - 1];
        ensure!(
            right[self.summed] == depth,
            "the product sums over {depth} elements of one factor and {} of the other",
            right[self.summed]
        );
        let shape = self.shape(left, right)?;
        check_volume("MatMul", &shape)?;
        let (in_left, in_right, in_output) = (strides(left), strides(right), strides(&shape));
        let stride = |sizes: &[usize], strides: &[usize], axis: Option<usize>| match axis {
            Some(axis) if sizes[axis] > 1 => strides[axis],
            _ => 0,
        };
        let batch = self.batch.iter().map(|axis| Strides {
            size: shape[axis.output],
            left: stride(left, &in_left, axis.left),
            right: stride(right, &in_right, axis.right),
            output: in_output[axis.output],
        });
        Ok(Sizes {
            rows: Strides {
                size: shape[self.rows[1]],
                left: in_left[self.rows[0]],
                right: 0,
                output: in_output[self.rows[1]],
            },
            columns: right[self.columns],
            depth,
            is_transposed: self.columns + 1 < right.len(),
            right: in_right[self.columns].max(in_right[self.summed]),
            batch: batch.collect(),
            shape,
        })
    }
}

/// The distances of neighbours along each axis of a tensor.
fn strides(shape: &[usize]) -> TVec<usize> {
    let mut strides = tvec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// A contraction of known shapes.
#[derive(Debug)]
pub(crate) struct Sizes {
    pub rows: Strides,
    pub columns: usize,
    pub depth: usize,
    /// The distance of the rows of the right factor, which is the transpose of a matrix if its last axis is the sum's.
    pub right: usize,
    pub is_transposed: bool,
    pub batch: TVec<Strides>,
    pub shape: TVec<usize>,
}

/// The distances of neighbours along an axis. 0 where there is no such axis, or one element for all.
#[derive(Debug)]
pub(crate) struct Strides {
    pub size: usize,
    pub left: usize,
    pub right: usize,
    pub output: usize,
}

impl Sizes {
    /// Calls a function with each product of two matrices: the index along the axes of the batch, the rows, and a part
    /// of the output that begins with the first of these. Threads share the outermost axis of the output.
    pub fn for_each(
        &self,
        output: &mut [f32],
        product: impl Fn(&[usize], Range<usize>, &mut [f32]) -> TractResult<()> + Send + Sync,
    ) -> TractResult<()> {
        if output.is_empty() {
            return Ok(());
        }
        let outermost = self.shape.iter().position(|size| *size > 1).unwrap_or(0);
        let unit = match outermost + 1 < self.shape.len() {
            true => self.shape[outermost + 1..].iter().product(),
            false => output.len(),
        };
        let work = output.len().saturating_mul(self.depth) / 8;
        multithread::par_chunks_mut(output, unit, work, |first, output| {
            let part = first..first + output.len() / unit;
            let range = |axis: &Strides| match axis.output == unit && axis.size > 1 {
                true => part.clone(),
                false => 0..axis.size,
            };
            let rows = range(&self.rows);
            let batch: TVec<Range<usize>> = self.batch.iter().map(range).collect();
            let mut index: TVec<usize> = batch.iter().map(|range| range.start).collect();
            loop {
                let place = offset(&index, &self.batch, |axis| axis.output);
                let place = place + rows.start * self.rows.output - first * unit;
                product(&index, rows.clone(), &mut output[place..])?;
                // The next one: the last axis moves first.
                let next = (0..index.len()).rev().find(|axis| {
                    index[*axis] += 1;
                    let moves = index[*axis] < batch[*axis].end;
                    if !moves {
                        index[*axis] = batch[*axis].start;
                    }
                    moves
                });
                if next.is_none() {
                    return Ok(());
                }
            }
        })
    }
}

/// Where an index along the axes of a batch is.
pub(crate) fn offset(
    index: &[usize],
    batch: &[Strides],
    stride: impl Fn(&Strides) -> usize,
) -> usize {
    index.iter().zip(batch).map(|(index, axis)| index * stride(axis)).sum()
}

impl Op for Contraction {
    fn name(&self) -> StaticName {
        "OpenVinoMatMul".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("{self:?}")])
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    op_as_typed_op!();
}

impl EvalOp for Contraction {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (left, right) = (&inputs[self.left], &inputs[self.right]);
        let sizes = self.sizes(left.shape(), right.shape())?;
        let mut output = Tensor::zero::<f32>(&sizes.shape)?;
        let (left, right) = (left.try_as_plain_ram()?, right.try_as_plain_ram()?);
        let (left, right) = (left.as_slice::<f32>()?, right.as_slice::<f32>()?);
        let mut view = output.try_as_plain_ram_mut()?;
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let Sizes { depth, columns, .. } = sizes;
        sizes.for_each(view.as_slice_mut()?, |index, rows, output| {
            if depth == 0 {
                return Ok(());
            }
            let first =
                offset(index, &sizes.batch, |axis| axis.left) + rows.start * sizes.rows.left;
            let mut packed =
                Rows { rows: rows.len(), depth, elements: vec![0.; rows.len() * depth] };
            packed.fill(&left[first..], sizes.rows.left, tile);
            let first = offset(index, &sizes.batch, |axis| axis.right);
            let mut right_packed = Columns::new(depth, columns, tile);
            right_packed.fill(&right[first..], sizes.right, sizes.is_transposed, tile);
            let product = Whole {
                left: &packed,
                right: &right_packed,
                columns: 0..columns,
                output,
                stride: sizes.rows.output,
                bias: None,
                activation: Activation::Identity,
            };
            product.run(vectors);
            Ok(())
        })?;
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for Contraction {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(inputs.len() == 2, "MatMul: got {} inputs, expected two", inputs.len());
        let shape = self.shape(&inputs[self.left].shape, &inputs[self.right].shape)?;
        Ok(tvec!(f32::fact(shape)))
    }

    as_op!();
}
