//! The operator of pools in single precision, with the channels last.

use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::channels::{ChannelSums, Reduction};
use super::output::{OutputRows, Residual};
use super::product::DepthwiseRows;
use super::singles::SinglesEpilogue;
use super::window::{ChannelsLastWindow, output_shape};
use crate::bf16::{BF16, converts_bf16};
use crate::checks::expect_input_count;
use crate::cost;
use crate::memory::{elements, filled_output_dt};
use crate::product::Output;
use crate::threads::fill_rows;
use pulp::bytemuck::cast_slice_mut;

/// A pool of single precision. The data is `[any axes, spatial axes, channels]`. Where [`converts_bf16`] says so, the data may be in bf16
/// ([`BF16`]), and so may be the output, if it has the greatest elements.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChannelsLastPool {
    spec: PoolSpec,
    kind: PoolKind,
    /// The type of the output.
    output: DatumType,
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
        ChannelsLastPool { spec, kind, output: DatumType::F32 }
    }

    /// The same with an output in bf16, if it may be: the greatest elements, where [`converts_bf16`] says so.
    pub fn with_output_in_bf16(&self) -> Option<ChannelsLastPool> {
        let may_be = self.kind == PoolKind::Max && converts_bf16();
        may_be.then(|| ChannelsLastPool { output: BF16, ..self.clone() })
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let input = args_1!(inputs);
        let dt = input.datum_type();
        let is_taken = dt == DatumType::F32 || dt == BF16 && converts_bf16();
        ensure!(is_taken, "{OPERATOR}: the data is of type {dt:?}, but must be of type F32");
        let (bytes, size) = (elements(&input)?, dt.size_of());
        // In bf16 the least number of single precision would be infinite.
        let least = match [dt, self.output].contains(&BF16) {
            true => f32::from_bits(f32::MIN.to_bits() & 0xffff_0000),
            false => f32::MIN,
        };
        let (window, shape) = ChannelsLastWindow::new(
            OPERATOR,
            &self.spec,
            input.shape(),
            self.spec.input_channels.checked_mul(size),
        )?;
        let channels = self.spec.output_channels;
        let of_output = self.output.size_of();
        let of_row = channels * of_output;
        filled_output_dt(OPERATOR, self.output, &shape, |output: &mut [u8]| {
            let taps = (output.len() / of_output).saturating_mul(window.taps());
            let work = cost::PRODUCT_OF_CHANNELS.of(taps);
            fill_rows(output, of_row, work, |first, output| {
                let pixels = output.len() / of_row;
                let rows = OutputRows {
                    rows: Output::matrix(output, of_row),
                    size: of_output,
                    first_channel: 0,
                    residual: Residual::NONE,
                };
                let rows = DepthwiseRows {
                    bytes,
                    size,
                    channels,
                    padding: &[],
                    window: &window,
                    first,
                    pixels,
                    epilogue: &SinglesEpilogue::default(),
                    output: rows,
                };
                let reduction = match self.kind {
                    PoolKind::Max => Reduction::Max(least),
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
        let dt = match inputs[0].datum_type {
            BF16 if converts_bf16() => BF16,
            _ => DatumType::F32,
        };
        Ok(self.output.fact(output_shape(OPERATOR, &self.spec, dt, inputs[0])?))
    }
}
