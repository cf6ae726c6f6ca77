//! Products with a matrix that is a constant.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;

use super::check_volume;
use super::product::activation::Activation;
use super::product::{Addend, Columns, PANELS, Product, Rows, Tile, Vectors, parts};

/// The product of the rows of its input, which are its last axis, and a constant matrix.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FullyConnected {
    weights: Arc<Columns>,
    /// A number for each column.
    bias: Arc<Vec<f32>>,
    activation: Activation,
}

// Nothing that reads a model compares weights that are NaN.
impl Eq for FullyConnected {}

impl FullyConnected {
    /// Whether a contraction is one of these, and if it is, whether the matrix is transposed: it has an axis for
    /// the columns of the result first then.
    pub fn takes(contraction: &EinSum) -> Option<bool> {
        let rank = contraction.axes.rank(InOut::In(0));
        if contraction.axes.input_count() != 2
            || contraction.axes.output_count() != 1
            || contraction.q_params.is_some()
            || contraction.axes.rank(InOut::In(1)) != 2
            || contraction.axes.rank(InOut::Out(0)) != rank
            || rank == 0
        {
            return None;
        }
        let labels =
            |slot| contraction.axes.axes(slot).map(|axis| axis.repr).collect::<Vec<char>>();
        let (data, weights, output) =
            (labels(InOut::In(0)), labels(InOut::In(1)), labels(InOut::Out(0)));
        let (summed, column) = (*data.last()?, *output.last()?);
        let is_plain = data[..rank - 1] == output[..rank - 1]
            && !data[..rank - 1].contains(&summed)
            && !data.contains(&column);
        match weights[..] {
            [first, second] if is_plain && first == summed && second == column => Some(false),
            [first, second] if is_plain && first == column && second == summed => Some(true),
            _ => None,
        }
    }

    /// `weights` is `[steps, columns]`, or transposed.
    pub fn new(
        weights: &Tensor,
        transposed: bool,
        bias: Option<&Tensor>,
        activation: Activation,
    ) -> TractResult<FullyConnected> {
        let &[first, second] = weights.shape() else { bail!("the weights are no matrix") };
        let (depth, columns) = if transposed { (second, first) } else { (first, second) };
        let weights = weights.try_as_plain_ram()?;
        let tile = Tile::of(Vectors::detect());
        let weights = Columns::pack(weights.as_slice()?, transposed, depth, columns, tile);
        let bias = match bias {
            Some(bias) => bias.try_as_plain_ram()?.as_slice::<f32>()?.to_vec(),
            None => vec![0.; columns],
        };
        ensure!(bias.len() == columns, "the bias has another size");
        Ok(FullyConnected { weights: weights.into(), bias: bias.into(), activation })
    }

    /// Some rows of the result, or some of its columns if there is one row, from whole panels on.
    fn part(
        &self,
        vectors: Vectors,
        tile: Tile,
        rows: &Rows,
        first: (usize, usize),
        output: &mut [f32],
    ) {
        let depth = self.weights.depth;
        let (first_row, first_column) = first;
        let end = if rows.rows == 1 { first_column + output.len() } else { self.weights.columns };
        let stride = end - first_column;
        let count = output.len() / stride;
        for column in (first_column..end).step_by(PANELS * tile.columns) {
            let columns = (end - column).min(PANELS * tile.columns);
            for steps in parts(depth) {
                vectors.run(Product {
                    left: rows,
                    rows: first_row..first_row + count,
                    right: &self.weights.elements[column * depth..],
                    depth,
                    first_step: steps.start,
                    columns,
                    output: &mut output[column - first_column..],
                    stride,
                    addend: Addend::OfColumns(&self.bias[column..column + columns]),
                    activation: self.activation,
                    steps,
                });
            }
        }
    }
}

impl Op for FullyConnected {
    fn name(&self) -> StaticName {
        "OpenVinoFullyConnected".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        let Columns { depth, columns, .. } = *self.weights;
        Ok(vec![format!("weights: {depth},{columns}, {:?}", self.activation)])
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    op_as_typed_op!();
}

impl EvalOp for FullyConnected {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let Columns { depth, columns, .. } = *self.weights;
        let mut shape: TVec<usize> = input.shape().into();
        ensure!(
            shape.pop() == Some(depth),
            "FullyConnected: the data has shape {:?}, but its last axis must have size {depth}",
            input.shape()
        );
        let count: usize = shape.iter().product();
        shape.push(columns);
        let volume = check_volume("FullyConnected", &shape)?;
        let mut output = Tensor::zero::<f32>(&shape)?;
        if volume > 0 {
            let data = input.try_as_plain_ram()?;
            let vectors = Vectors::detect();
            let tile = Tile::of(vectors);
            let rows = Rows::pack(data.as_slice()?, count, depth, tile);
            let mut view = output.try_as_plain_ram_mut()?;
            let elements = view.as_slice_mut::<f32>()?;
            let work = volume.saturating_mul(depth) / 8;
            // Threads get whole panels.
            let (row, column) = match count {
                1 if columns.is_multiple_of(2 * tile.columns) => (1, columns / 2),
                _ if count.is_multiple_of(2 * tile.rows) => (count / 2, columns),
                _ => (count, columns),
            };
            multithread::par_chunks_mut(elements, row * column, work, |first, output| {
                let first = if column < columns { (0, first * column) } else { (first * row, 0) };
                self.part(vectors, tile, &rows, first, output);
                Ok(())
            })?;
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for FullyConnected {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(
            inputs.len() == 1 && inputs[0].rank() > 0,
            "FullyConnected: expected one input of rank 1 or more"
        );
        let mut fact = inputs[0].without_value();
        fact.shape.set(fact.rank() - 1, self.weights.columns.to_dim());
        Ok(tvec!(fact))
    }

    as_op!();
}
