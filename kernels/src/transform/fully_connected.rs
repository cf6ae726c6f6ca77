//! Products with a constant matrix.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;

use super::chain::Chain;
use super::found::{Found, constant, dims, labels};
use super::rule::{Rewrite, Session, or_refuse, refuse_if, refuse_unless_f32};
use crate::compressed::{CompressedMatrix, DequantizedConst, Format};
use crate::fully_connected::FullyConnected;
use crate::product::activation::Activation;

/// Which axes of a product are what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GemmAxes {
    /// The input that is the matrix.
    matrix: usize,
    /// The axes of the rows: the first ones of the data and of the result.
    rows: usize,
    /// The axes of the columns: the last ones of the result.
    columns: usize,
    /// Whether the matrix has the axes of the columns first.
    transposed: bool,
    /// Where the data has the one axis that is summed, if it is not the last one.
    moved: Option<usize>,
}

impl GemmAxes {
    /// The axes of a product with a matrix, if this input is one.
    fn of(op: &EinSum, matrix: usize) -> Option<GemmAxes> {
        if op.axes.input_count() != 2 || op.axes.output_count() != 1 || op.q_params.is_some() {
            return None;
        }
        let weights = labels(op, InOut::In(matrix));
        let output = labels(op, InOut::Out(0));
        let mut data = labels(op, InOut::In(1 - matrix));
        let summed = data.iter().position(|axis| weights.contains(axis))?;
        let moved = data[summed + 1..].iter().all(|axis| !weights.contains(axis));
        let moved = (moved && summed + 1 < data.len()).then_some(summed);
        if let Some(from) = moved {
            data[from..].rotate_left(1);
        }
        let is_row = |(a, b): &(&char, &char)| a == b && !weights.contains(a);
        let rows = data.iter().zip(&output).take_while(is_row).count();
        let (summed, columns) = (&data[rows..], &output[rows..]);
        if summed.is_empty() || columns.is_empty() {
            return None;
        }
        let transposed = match () {
            () if weights == [summed, columns].concat() => false,
            () if weights == [columns, summed].concat() => true,
            () => return None,
        };
        let mut once = [&data[..rows], &weights].concat();
        once.sort_unstable();
        let has_each_once = once.windows(2).all(|pair| pair[0] != pair[1]);
        let columns = columns.len();
        has_each_once.then_some(GemmAxes { matrix, rows, columns, transposed, moved })
    }
}

/// Which axes of a product with a constant matrix are what, and the matrix.
pub(super) fn constant_matrix<'a>(
    model: &'a TypedModel,
    node: &TypedNode,
) -> Found<(GemmAxes, &'a Arc<Tensor>)> {
    rule_if_some!(op = node.op_as::<EinSum>());
    for matrix in [1, 0] {
        if let Some(axes) = GemmAxes::of(op, matrix)
            && let Some(weights) = constant(model, node.inputs[matrix])?
        {
            return Ok(Some((axes, weights)));
        }
    }
    Ok(None)
}

/// A product with a matrix, and what follows it.
struct Layer<'a> {
    chain: Chain<'a>,
    data: OutletId,
    axes: GemmAxes,
    /// The sizes of the axes that are summed, and of the columns.
    steps: &'a [usize],
    columns: &'a [usize],
    bias: Vec<f32>,
    activation: Activation,
    /// How many rows the data has, if that is known.
    rows: Option<usize>,
}

impl<'a> Layer<'a> {
    /// The layer of a product with a matrix of this shape, or why it stays.
    fn of(
        model: &'a TypedModel,
        node: &'a TypedNode,
        axes: GemmAxes,
        shape: &'a [usize],
    ) -> TractResult<Result<Layer<'a>, String>> {
        let data = node.inputs[1 - axes.matrix];
        let fact = model.outlet_fact(data)?;
        refuse_unless_f32!("its data is of type", fact.datum_type);
        let (columns, steps) = match axes.transposed {
            true => shape.split_at(axes.columns),
            false => {
                let (steps, columns) = shape.split_at(shape.len() - axes.columns);
                (columns, steps)
            }
        };
        let mut shape: TVec<TDim> = fact.shape.iter().cloned().collect();
        if let Some(from) = axes.moved {
            shape[from..].rotate_left(1);
        }
        // tract's operator broadcasts sums over one element.
        let (rows, row) = shape.split_at(axes.rows);
        refuse_if!(
            row.iter().zip(steps).any(|(found, expected)| *found != expected.to_dim()),
            "its data has rows of shape {row:?}, but must have {steps:?}, the rows of the weights"
        );
        let mut chain = Chain::new(model, node);
        let last = axes.rows..axes.rows + axes.columns;
        let mut bias = vec![0.; columns.iter().product()];
        chain.take_added(last.clone(), &mut bias)?;
        let activation = chain.activation()?;
        let rows = rows.iter().product::<TDim>().to_usize().ok();
        Ok(Ok(Layer { chain, data, axes, steps, columns, bias, activation, rows }))
    }

    fn depth(&self) -> usize {
        self.steps.iter().product()
    }

    fn width(&self) -> usize {
        self.columns.iter().product()
    }

    /// An operator on rows of one axis in place of it.
    fn replaced_by(&self, op: FullyConnected) -> Found<Rewrite> {
        let reshape = |from: &[usize], to: &[usize]| {
            (from != to).then(|| AxisOp::Reshape(self.axes.rows, dims(from), dims(to)))
        };
        let before = match self.axes.moved {
            Some(from) => Some(AxisOp::Move(from, self.axes.rows)),
            None => reshape(self.steps, &[self.depth()]),
        };
        let mut ops: Vec<Box<dyn TypedOp>> = vec![Box::new(op)];
        if let Some(split) = reshape(&[self.width()], self.columns) {
            ops.push(Box::new(split));
        }
        Ok(Some(self.chain.replaced_by_parts(&[self.data], before, vec![], ops)?.into()))
    }
}

/// The product of rows with a constant matrix, a bias that is added, and an activation.
///
/// The elements of a row may have several axes, which are the last ones, and so may those of a row of the result: tract takes
/// a reshape in front of a product or behind it into the product.
pub(super) fn rewrite(session: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if_some!((axes, weights) = constant_matrix(model, node)?);
    refuse_unless_f32!("its weights are of type", weights.datum_type());
    refuse_if!(
        !weights.is_plain() || weights.len() == 0,
        "its weights must be plain, and have elements"
    );
    let layer = or_refuse!(Layer::of(model, node, axes, weights.shape())?);
    let (depth, width) = (layer.depth(), layer.width());
    let matrix = if axes.transposed { [width, depth] } else { [depth, width] };
    // Layers that share their weights share them packed, too.
    let weights = match weights.rank() {
        2 => weights.clone(),
        _ => weights.clone().into_tensor().into_shape(&matrix)?.into_arc_tensor(),
    };
    let others = model.nodes().iter().filter_map(|node| node.op_as());
    let (bias, activation, rows) = (layer.bias.clone(), layer.activation, layer.rows);
    let bf16 = session.bf16();
    let op = FullyConnected::new(&weights, axes.transposed, bias, activation, rows, bf16, others)?;
    layer.replaced_by(op)
}

/// Rewrites products with weights that stay compressed. These are still there when the model is as it was read.
pub(super) fn rewrite_compressed(
    session: &Session,
    model: &TypedModel,
    node: &TypedNode,
) -> Found<Rewrite> {
    rule_if_some!(op = node.op_as::<EinSum>());
    let constant = |slot: usize| {
        let input = node.inputs.get(slot)?;
        Some((slot, model.node(input.node).op_as::<DequantizedConst>()?))
    };
    rule_if_some!((slot, constant) = [1, 0].into_iter().find_map(constant));
    let axes = GemmAxes::of(op, slot);
    let axes = or_refuse!(axes.ok_or("it must be a product of rows of data and a matrix"));
    refuse_if!(!axes.transposed, "the rows of its weights must be what is summed");
    let layer = or_refuse!(Layer::of(model, node, axes, constant.shape())?);
    let matrix = or_refuse!(CompressedMatrix::new(constant, layer.width())?);
    let (bias, activation) = (layer.bias.clone(), layer.activation);
    // They would be widened in each run.
    let are_packed = [Format::F16, Format::BF16].contains(&matrix.format)
        && layer.rows.is_some_and(|rows| rows > 1);
    layer.replaced_by(if are_packed {
        let others = model.nodes().iter().filter_map(|node| node.op_as());
        FullyConnected::decompressed(&matrix, bias, activation, session.bf16(), others)?
    } else {
        let precision = session.precision(matrix.format);
        FullyConnected::compressed(matrix, precision, bias, activation)?
    })
}
