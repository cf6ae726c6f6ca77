//! Convolutions whose data and weights are rounded to bf16, on the processor's tiles (AMX): a step is two numbers. Sums, and what they
//! become, are in single precision.

use std::convert::Infallible;

use pulp::bytemuck::{cast_slice, cast_slice_mut};

use super::amx::{self, LANES, TileElement};
use super::driver::UnpackedConvolution;
use super::output::OutputRows;
use super::product::{ConvolutionElement, DepthwiseRows, FilterFormat, GemmTask, TilePlace};
use super::rows::StridedLines;
use super::singles::{FinishRows, SinglesEpilogue};
use super::window::Round;
use crate::cost::{self, Cost};
use crate::isa::{Amx, Avx512Bf16, Isa, TILE_STEPS, TileFactors};
use crate::product::round_to_bf16;

/// Numbers that are rounded to bf16.
#[derive(Debug, PartialEq)]
pub(crate) struct Bf16;

/// The bytes of a number.
const SIZE: usize = size_of::<u16>();

/// The bytes of a step.
const STEP: usize = 2 * SIZE;

impl ConvolutionElement for Bf16 {
    type Data = u16;
    const ROUND: Option<Round> =
        Some(|numbers, places| round_to_bf16(numbers, cast_slice_mut(places)));
    const PRODUCT: Cost = cost::PRODUCT_IN_TILES;
    const READ_WEIGHT: Cost = cost::READ_CODE;
    type Epilogue = SinglesEpilogue;
    type Depthwise = Infallible;

    fn multiply(task: &mut GemmTask<Bf16>) {
        let Some(isa) = task.filters.instructions.amx() else {
            unreachable!("weights are packed for tiles")
        };
        assert!(amx::multiply(isa, task) || task.rows == 0, "rows at other distances");
    }

    fn depthwise(kernels: &Infallible, _: DepthwiseRows<Bf16>) {
        match *kernels {}
    }
}

impl TileElement for Bf16 {
    const FACTORS: TileFactors = TileFactors::Bf16;

    type Lanes = Avx512Bf16;

    fn lanes(isa: Amx) -> Avx512Bf16 {
        isa.avx512_bf16()
    }

    #[inline(always)]
    fn finish_rows<const V: usize>(
        lanes: Avx512Bf16,
        epilogue: &SinglesEpilogue,
        sums: &[[[i32; LANES]; V]],
        at: TilePlace,
        output: &mut OutputRows,
    ) {
        // The words are the bits of numbers.
        let sums: &[f32] = cast_slice(sums.as_flattened().as_flattened());
        let sums = sums.as_chunks().0.as_chunks::<V>().0;
        lanes.enter(FinishRows { epilogue, sums, at, output });
    }

    fn multiply_row(_: Avx512Bf16, _: &mut GemmTask<Bf16>, _: &StridedLines, _: usize, _: usize) {
        unreachable!("tiles multiply each row")
    }
}

/// Weights of a convolution without groups, rounded; and the bytes of a pixel, of which each has whole steps, and a tap has whole tiles of
/// steps. So no number meets a weight that fills a tile up: a product with that would be 0, but for what is not finite.
pub(super) fn rounded<'a>(
    unpacked: UnpackedConvolution<'a>,
    weights: &[f32],
    room: &'a mut Vec<u32>,
) -> (UnpackedConvolution<'a>, FilterFormat) {
    let pixels = unpacked.pixels_of_tap();
    let channels = unpacked.spec.input_channels;
    let mut words = (channels * SIZE).div_ceil(STEP);
    while !(pixels * words).is_multiple_of(tiles(pixels * words)) {
        words += 1;
    }
    let steps = pixels * words;
    room.resize(weights.len().div_ceil(2), 0);
    round_to_bf16(weights, room);
    let weights = &cast_slice(room)[..weights.len() * SIZE];
    let bytes_of_pixel = words * STEP;
    let unpacked = UnpackedConvolution { weights, size: SIZE, bytes_of_pixel, ..unpacked };
    let format = FilterFormat {
        bytes_of_step: STEP,
        tile: [8, 3],
        steps_of_amx: Some(steps / tiles(steps)),
    };
    (unpacked, format)
}

/// In how many tiles so many steps are cut.
fn tiles(steps: usize) -> usize {
    steps.div_ceil(TILE_STEPS).max(1)
}
