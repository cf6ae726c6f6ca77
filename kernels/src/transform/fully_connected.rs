//! Products with a constant matrix.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::Add;

use super::chain::Chain;
use super::rule::{Phase, Rewrite, Rule, Session, refuse, refuse_if};
use crate::compressed::{CompressedMatrix, DequantizedConst, Format};
use crate::fully_connected::FullyConnected;
use crate::product::activation::Activation;

/// The product of rows with a constant matrix, a bias that is added, and an activation.
///
/// The elements of a row may have several axes, which are the last ones, and so may those of a row of the result: tract takes
/// a reshape in front of a product or behind it into the product.
#[derive(Debug)]
pub(super) struct FullyConnectedLayers;

/// The same with weights that stay compressed. They are still there when the model is as it was read.
#[derive(Debug)]
pub(super) struct CompressedLayers;

/// Which axes of a product are what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GemmAxes {
    /// The input that is the matrix.
    matrix: usize,
    /// The axes of the rows: the first ones of the data and of the result.
    rows: usize,
    /// The axes of the columns: the last ones of the result.
    columns: usize,
    /// Whether the matrix has the axes of the columns first.
    transposed: bool,
}

impl GemmAxes {
    /// Those of a product with a matrix, if this input is one.
    fn of(op: &EinSum, matrix: usize) -> Option<GemmAxes> {
        if op.axes.input_count() != 2 || op.axes.output_count() != 1 || op.q_params.is_some() {
            return None;
        }
        let labels = |slot| op.axes.axes(slot).map(|axis| axis.repr).collect::<Vec<char>>();
        let weights = labels(InOut::In(matrix));
        let (data, output) = (labels(InOut::In(1 - matrix)), labels(InOut::Out(0)));
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
        has_each_once.then_some(GemmAxes { matrix, rows, columns, transposed })
    }
}

/// Whether a product is one of these.
pub(super) fn has_constant_matrix(model: &TypedModel, node: &TypedNode) -> TractResult<bool> {
    Ok(constant_matrix(model, node)?.is_some())
}

/// Which axes of a product with a constant matrix are what, and the matrix.
fn constant_matrix<'a>(
    model: &'a TypedModel,
    node: &TypedNode,
) -> TractResult<Option<(GemmAxes, &'a Arc<Tensor>)>> {
    rule_if_some!(op = node.op_as::<EinSum>());
    for matrix in [1, 0] {
        if let Some(axes) = GemmAxes::of(op, matrix)
            && let Some(weights) = &model.outlet_fact(node.inputs[matrix])?.konst
        {
            return Ok(Some((axes, weights)));
        }
    }
    Ok(None)
}

/// What a layer has beside its weights.
struct LayerDescription {
    depth: usize,
    width: usize,
    bias: Vec<f32>,
    activation: Activation,
    /// How many rows the data has, if that is known.
    rows: Option<usize>,
}

/// A product with a matrix of this shape as one operator, with what follows it.
fn rewrite(
    model: &TypedModel,
    node: &TypedNode,
    axes: GemmAxes,
    shape: &[usize],
    op: impl FnOnce(LayerDescription) -> TractResult<Result<FullyConnected, String>>,
) -> TractResult<Rewrite> {
    let data = node.inputs[1 - axes.matrix];
    let fact = model.outlet_fact(data)?;
    let dt = fact.datum_type;
    refuse_if!(dt != DatumType::F32, "its data is of type {dt:?}, but must be F32");
    let (columns, steps) = match axes.transposed {
        true => shape.split_at(axes.columns),
        false => {
            let (steps, columns) = shape.split_at(shape.len() - axes.columns);
            (columns, steps)
        }
    };
    // tract's operator broadcasts sums over one element.
    let row = &fact.shape[axes.rows..];
    refuse_if!(
        row.iter().zip(steps).any(|(found, expected)| *found != expected.to_dim()),
        "its data has rows of shape {row:?}, but must have {steps:?}, the rows of the weights"
    );
    let (depth, width) = (steps.iter().product(), columns.iter().product());
    let mut chain = Chain::new(model, node);
    let last = axes.rows..axes.rows + axes.columns;
    let mut bias = vec![0.; width];
    while let Some(added) = chain.arithmetic::<Add>(last.clone())? {
        bias.iter_mut().zip(added).for_each(|(bias, added)| *bias += added);
    }
    let activation = chain.activation()?;
    let rows = fact.shape[..axes.rows].iter().product::<TDim>().to_usize().ok();
    let op = match op(LayerDescription { depth, width, bias, activation, rows })? {
        Ok(op) => op,
        Err(reason) => return Ok(Rewrite::Refused(reason)),
    };
    let dims = |sizes: &[usize]| sizes.iter().map(|size| size.to_dim()).collect::<TVec<TDim>>();
    let merge = (steps.len() > 1).then(|| AxisOp::Reshape(axes.rows, dims(steps), dims(&[depth])));
    let mut split: Vec<Box<dyn TypedOp>> = vec![];
    if columns.len() > 1 {
        split.push(Box::new(AxisOp::Reshape(axes.rows, dims(&[width]), dims(columns))));
    }
    Ok(chain.replaced_between(data, merge, op, split)?.into())
}

impl Rule for FullyConnectedLayers {
    fn name(&self) -> &'static str {
        "fully_connected"
    }

    fn phase(&self) -> Phase {
        // tract would move axes into the product, which are few in front of a matrix.
        Phase::BeforeAxisMoves
    }

    fn rewrite(
        &self,
        _session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite> {
        let Some((axes, weights)) = constant_matrix(model, node)? else {
            return Ok(Rewrite::NotMine);
        };
        let dt = weights.datum_type();
        refuse_if!(dt != DatumType::F32, "its weights are of type {dt:?}, but must be F32");
        refuse_if!(
            !weights.is_plain() || weights.len() == 0,
            "its weights must be plain, and have elements"
        );
        let shape = weights.shape();
        rewrite(
            model,
            node,
            axes,
            shape,
            |LayerDescription { depth, width, bias, activation, rows }| {
                let matrix = if axes.transposed { [width, depth] } else { [depth, width] };
                // Layers that share their weights share them packed, too.
                let weights = match shape.len() {
                    2 => weights.clone(),
                    _ => weights.clone().into_tensor().into_shape(&matrix)?.into_arc_tensor(),
                };
                let others = model.nodes().iter().filter_map(|node| node.op_as());
                FullyConnected::new(&weights, axes.transposed, bias, activation, rows, others)
                    .map(Ok)
            },
        )
    }
}

impl Rule for CompressedLayers {
    fn name(&self) -> &'static str {
        "compressed"
    }

    fn phase(&self) -> Phase {
        Phase::AsRead
    }

    fn rewrite(
        &self,
        session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite> {
        let Some(op) = node.op_as::<EinSum>() else { return Ok(Rewrite::NotMine) };
        let constant = |slot: usize| {
            node.inputs
                .get(slot)
                .and_then(|input| model.node(input.node).op_as::<DequantizedConst>())
        };
        let found = [1, 0].into_iter().find_map(|slot| Some((slot, constant(slot)?)));
        let Some((slot, constant)) = found else { return Ok(Rewrite::NotMine) };
        let Some(axes) = GemmAxes::of(op, slot) else {
            refuse!("it must be a product of rows of data and a matrix");
        };
        refuse_if!(!axes.transposed, "the rows of its weights must be what is summed");
        rewrite(model, node, axes, constant.shape(), |layer| {
            let matrix = match CompressedMatrix::new(constant, layer.width)? {
                Ok(matrix) => matrix,
                Err(reason) => return Ok(Err(reason)),
            };
            let is_half = [Format::F16, Format::BF16].contains(&matrix.format);
            if is_half && layer.rows.is_some_and(|rows| rows > 1) {
                // They would be widened in each run.
                return Ok(Err(
                    "there are several rows of data: its weights of 16 bits are packed as floats"
                        .into(),
                ));
            }
            FullyConnected::compressed(matrix, session.precision(), layer.bias, layer.activation)
                .map(Ok)
        })
    }
}
