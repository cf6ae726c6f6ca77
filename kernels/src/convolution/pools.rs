//! The operator of pools in single precision, with the channels last.

use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::channels::{ChannelSums, Reduction};
use super::output::{OutputRows, Residual};
use super::product::DepthwiseRows;
use super::singles::SinglesEpilogue;
use super::window::{ChannelsLastWindow, output_shape};
use crate::checks::expect_input_count;
use crate::cost;
use crate::memory::{filled_output_dt, floats};
use crate::product::Output;
use crate::threads::fill_rows;
use pulp::bytemuck::{cast_slice, cast_slice_mut};

/// A pool of single precision. The data is `[any axes, spatial axes, channels]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChannelsLastPool {
    spec: PoolSpec,
    kind: PoolKind,
}

/// What a pool makes of the elements of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolKind {
    Max,
    Sum,
    /// The sum, divided by the number of elements in the kernel.
    MeanWithPadding,
    /// The sum, divided by the number of elements that are not padding.
    Mean,
}

const OPERATOR: &str = "ChannelsLastPool";

impl_plain_op!(
    ChannelsLastPool,
    OPERATOR,
    info = |op| vec![format!("{:?}, {:?}", op.kind, op.spec)],
    validation = |op| match op.kind {
        PoolKind::Max => Validation::Accurate,
        _ => Validation::Rounding,
    }
);

impl ChannelsLastPool {
    pub fn new(spec: PoolSpec, kind: PoolKind) -> ChannelsLastPool {
        ChannelsLastPool { spec, kind }
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let input = args_1!(inputs);
        let data = floats(&input)?;
        let (window, shape) = ChannelsLastWindow::new(
            OPERATOR,
            &self.spec,
            input.shape(),
            self.spec.input_channels.checked_mul(size_of::<f32>()),
        )?;
        let channels = self.spec.output_channels;
        let of_row = channels * size_of::<f32>();
        filled_output_dt(OPERATOR, DatumType::F32, &shape, |output: &mut [u8]| {
            let elements = (output.len() / size_of::<f32>()).saturating_mul(window.taps());
            let work = cost::PRODUCT_OF_CHANNELS.of(elements);
            fill_rows(output, of_row, work, |first, output| {
                let pixels = output.len() / of_row;
                let rows = OutputRows {
                    rows: Output::matrix(output, of_row),
                    size: size_of::<f32>(),
                    first_channel: 0,
                    residual: Residual::Elements(&[]),
                    stride: 0,
                };
                let rows = DepthwiseRows {
                    bytes: cast_slice(data),
                    padding: &[],
                    window: &window,
                    first,
                    pixels,
                    epilogue: &SinglesEpilogue::default(),
                    output: rows,
                };
                let reduction = match self.kind {
                    PoolKind::Max => Reduction::Max,
                    _ => Reduction::SameSum,
                };
                ChannelSums { rows, reduction }.compute();
                // A sum of quotients would be rounded: integers may have a mean that is one.
                let count = |pixel: usize| match self.kind {
                    PoolKind::Mean => window.elements_met(pixel),
                    _ => window.taps(),
                };
                if let PoolKind::Mean | PoolKind::MeanWithPadding = self.kind {
                    for (number, sums) in output.chunks_exact_mut(of_row).enumerate() {
                        let count = count(first + number) as f32;
                        let sums: &mut [f32] = cast_slice_mut(sums);
                        sums.iter_mut().for_each(|sum| *sum /= count);
                    }
                }
                Ok(())
            })
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count(OPERATOR, inputs.len(), 1..=1)?;
        Ok(f32::fact(output_shape(OPERATOR, &self.spec, DatumType::F32, inputs[0])?))
    }
}
