//! All steps of an LSTM.

use tract_core::internal::*;
use tract_linalg::element_wise::ElementWise;
use tract_linalg::routines::Func;

use crate::checks::expect_input_count;
use crate::fully_connected::FullyConnected;
use crate::memory::{Scratch, floats, new_output};

/// An LSTM whose recurrent weights are constants, as one operator: tract's loop calls the operators of its body in each step. It
/// computes what tract's `LstmEpilogue` does. The gates are in its order: i, o, f, c.
///
/// The inputs, of type F32, are the products of the data and the input weights, with all biases, and the first states h and c. The
/// products have an axis of steps. Around it, and in the states, there may be axes of size 1: the elements of a step are
/// `[batch, 4 * hidden]`, and those of a state `[batch, hidden]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LstmSequence {
    pub hidden: usize,
    /// The product of h and the transposed recurrent weights: `[batch, hidden]` to `[batch, 4 * hidden]`.
    pub recurrent: FullyConnected,
    /// The axis of the steps of the products.
    pub axis: usize,
    /// Whether the last step is the first one that is computed.
    pub is_backward: bool,
    pub outputs: TVec<LstmOutput>,
}

/// An output. Its shape is that of the state, with the number of steps on the axis of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LstmOutput {
    /// h of all steps, along this axis, which has size 1 in the states.
    Steps(usize),
    LastHidden,
    LastCell,
}

impl_plain_op!(
    LstmSequence,
    "LstmSequence",
    info = |op| {
        let LstmSequence { hidden, axis, is_backward, outputs, .. } = op;
        let direction = if *is_backward { "backward" } else { "forward" };
        vec![format!("hidden: {hidden}, steps: axis {axis}, {direction}, outputs: {outputs:?}")]
    },
    validation = |_| Validation::Rounding
);

/// Where a step is in a tensor with an axis of steps: rows of neighbours, as many as the axes in front have elements.
#[derive(Debug, Clone, Copy)]
struct StepRows {
    steps: usize,
    row: usize,
}

impl StepRows {
    fn of(shape: &[usize], axis: usize) -> StepRows {
        StepRows { steps: shape[axis], row: shape[axis + 1..].iter().product() }
    }

    /// The first elements of the rows of a step.
    fn begins(self, step: usize) -> impl Iterator<Item = usize> {
        (step * self.row..).step_by(self.steps * self.row)
    }
}

impl LstmSequence {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (products, hidden, cell) = args_3!(inputs);
        let steps = products.shape().get(self.axis).copied();
        let of_steps = steps.zip(hidden.len().checked_mul(4));
        let of_steps = of_steps.and_then(|(steps, of_gates)| of_gates.checked_mul(steps));
        ensure!(
            hidden.len() == cell.len()
                && hidden.len().is_multiple_of(self.hidden)
                && of_steps == Some(products.len()),
            "LstmSequence: the products have shape {:?}, and the states {:?} and {:?}, but each step along axis {} must have \
             four elements for each of a state, which are rows of {}",
            products.shape(),
            hidden.shape(),
            cell.shape(),
            self.axis,
            self.hidden
        );
        let rows = StepRows::of(products.shape(), self.axis);
        let mut all = match self.axis_of_all() {
            None => None,
            Some(axis) => {
                let mut shape: TVec<usize> = hidden.shape().into();
                ensure!(
                    shape.get(axis) == Some(&1),
                    "LstmSequence: the states have no axis {axis} of size 1"
                );
                shape[axis] = rows.steps;
                let rows = StepRows::of(&shape, axis);
                Some((new_output("LstmSequence", DatumType::F32, &shape)?, rows))
            }
        };
        let (mut hidden, mut cell) = (hidden.into_tensor(), cell.into_tensor());
        if products.len() > 0 {
            let products = (floats(&products)?, rows);
            let (mut hidden, mut cell) =
                (hidden.try_as_plain_ram_mut()?, cell.try_as_plain_ram_mut()?);
            let states = [hidden.as_slice_mut::<f32>()?, cell.as_slice_mut()?];
            match &mut all {
                None => self.steps(products, states, None)?,
                Some((all, rows)) => {
                    let mut all = all.try_as_plain_ram_mut()?;
                    self.steps(products, states, Some((all.as_slice_mut()?, *rows)))?;
                }
            }
        }
        let all = all.map(|(all, _)| all.into_tvalue());
        let (hidden, cell) = (hidden.into_tvalue(), cell.into_tvalue());
        let output = |output: &LstmOutput| match output {
            LstmOutput::Steps(_) => all.clone().context("the steps are computed"),
            LstmOutput::LastHidden => Ok(hidden.clone()),
            LstmOutput::LastCell => Ok(cell.clone()),
        };
        self.outputs.iter().map(output).collect()
    }

    fn axis_of_all(&self) -> Option<usize> {
        self.outputs.iter().find_map(|output| match output {
            LstmOutput::Steps(axis) => Some(*axis),
            LstmOutput::LastHidden | LstmOutput::LastCell => None,
        })
    }

    /// Computes all steps, from the first states to the last ones, in their places.
    fn steps(
        &self,
        (products, rows): (&[f32], StepRows),
        [h, c]: [&mut [f32]; 2],
        mut all: Option<(&mut [f32], StepRows)>,
    ) -> TractResult<()> {
        let (sigmoid, tanh) = (Func::Sigmoid.ew_f32()?, Func::Tanh.ew_f32()?);
        let mut gates = Scratch::new(4 * h.len());
        for number in 0..rows.steps {
            let step = if self.is_backward { rows.steps - 1 - number } else { number };
            self.recurrent.multiply(h, &mut gates)?;
            for (gates, begin) in gates.chunks_exact_mut(rows.row).zip(rows.begins(step)) {
                add(gates, &products[begin..][..rows.row]);
            }
            let states = h.chunks_exact_mut(self.hidden).zip(c.chunks_exact_mut(self.hidden));
            for (gates, (h, c)) in gates.chunks_exact_mut(4 * self.hidden).zip(states) {
                new_states(gates, h, c, [&*sigmoid, &*tanh])?;
            }
            if let Some((all, rows)) = &mut all {
                for (h, begin) in h.chunks_exact(rows.row).zip(rows.begins(step)) {
                    all[begin..][..rows.row].copy_from_slice(h);
                }
            }
        }
        Ok(())
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("LstmSequence", inputs.len(), 3..=3)?;
        let products = &inputs[0].shape;
        ensure!(
            self.axis < products.rank(),
            "LstmSequence: the products have rank {}, but must have an axis {}",
            products.rank(),
            self.axis
        );
        ensure!(
            self.axis_of_all().is_none_or(|axis| axis < inputs[1].rank()),
            "LstmSequence: the states have rank {}, but must have the axis of steps of the output",
            inputs[1].rank()
        );
        let shape = |output: &LstmOutput| {
            let of_state = if *output == LstmOutput::LastCell { 2 } else { 1 };
            let mut shape = inputs[of_state].shape.clone();
            if let LstmOutput::Steps(axis) = output {
                shape.set(*axis, products[self.axis].clone());
            }
            f32::fact(shape)
        };
        Ok(self.outputs.iter().map(shape).collect())
    }
}

/// Adds numbers to as many others.
fn add(sums: &mut [f32], numbers: &[f32]) {
    for (sum, number) in sums.iter_mut().zip(numbers) {
        *sum += number;
    }
}

/// The next states of one row, in their places: `c = f * c + i * c'` and `h = o * tanh(c)`, of the sums i, o, f and c' of the gates.
fn new_states(
    gates: &mut [f32],
    h: &mut [f32],
    c: &mut [f32],
    [sigmoid, tanh]: [&dyn ElementWise<f32>; 2],
) -> TractResult<()> {
    let hidden = h.len();
    let (iof, candidates) = gates.split_at_mut(3 * hidden);
    sigmoid.run(iof)?;
    tanh.run(candidates)?;
    let (i, of) = iof.split_at(hidden);
    let (o, f) = of.split_at(hidden);
    for ((c, f), (i, candidate)) in c.iter_mut().zip(f).zip(i.iter().zip(candidates)) {
        *c = f * *c + i * *candidate;
    }
    h.copy_from_slice(c);
    tanh.run(h)?;
    for (h, o) in h.iter_mut().zip(o) {
        *h *= o;
    }
    Ok(())
}
