//! Convolutions whose data and weights are rounded to bf16, on the processor's tiles (AMX): a step is two numbers. Sums, and what they
//! become, are in single precision.

use std::convert::Infallible;

use pulp::bytemuck::{cast_slice, cast_slice_mut};

use super::amx::{self, LANES, TileElement, finish_rows};
use super::driver::UnpackedConvolution;
use super::output::OutputRows;
use super::product::{
    ConvolutionElement, DepthwiseRows, FilterFormat, GemmTask, SumLanes, TilePlace,
};
use super::rows::StridedLines;
use super::singles::SinglesEpilogue;
use super::window::Round;
use crate::bf16::{Number, vector_at};
use crate::cost::{self, Cost};
use crate::isa::{Amx, Avx512Bf16, Lanes, TILE_STEPS, TileFactors};
use crate::product::activation::{Activation, ActivationLanes};
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
        match output.size {
            SIZE => finish_as::<[u8; 2], V>(lanes, epilogue, sums, at, output),
            _ => finish_as::<f32, V>(lanes, epilogue, sums, at, output),
        }
    }

    fn multiply_row(_: Avx512Bf16, _: &mut GemmTask<Bf16>, _: &StridedLines, _: usize, _: usize) {
        unreachable!("tiles multiply each row")
    }
}

/// Writes what becomes of the sums of some rows, as numbers of a type.
#[inline(always)]
fn finish_as<T: Number, const V: usize>(
    lanes: Avx512Bf16,
    epilogue: &SinglesEpilogue,
    sums: &[[[i32; LANES]; V]],
    at: TilePlace,
    output: &mut OutputRows,
) {
    let SinglesEpilogue { adds, slopes, .. } = epilogue;
    let is_like_output = !adds || output.residual.size(output.size) == size_of::<T>();
    if slopes.is_some() || !is_like_output {
        return finish_rows::<_, Bf16, V>(lanes, epilogue, sums, at, output);
    }
    match (adds, at.width == V * LANES) {
        (true, true) => finish_adding::<T, true, true, V>(lanes, epilogue, sums, at, output),
        (true, false) => finish_adding::<T, true, false, V>(lanes, epilogue, sums, at, output),
        (false, true) => finish_adding::<T, false, true, V>(lanes, epilogue, sums, at, output),
        (false, false) => finish_adding::<T, false, false, V>(lanes, epilogue, sums, at, output),
    }
}

#[inline(always)]
fn finish_adding<T: Number, const ADDS: bool, const WHOLE: bool, const V: usize>(
    lanes: Avx512Bf16,
    epilogue: &SinglesEpilogue,
    sums: &[[[i32; LANES]; V]],
    at: TilePlace,
    output: &mut OutputRows,
) {
    // Said again, so that each loop has its own function alone.
    match epilogue.activation {
        Activation::Identity => {
            let activation = Activation::Identity;
            finish_each::<T, ADDS, WHOLE, V>(lanes, activation, sums, at, output);
        }
        Activation::Clamp { min, max } => {
            let activation = Activation::Clamp { min, max };
            finish_each::<T, ADDS, WHOLE, V>(lanes, activation, sums, at, output);
        }
        _ if ADDS => finish_rows::<_, Bf16, V>(lanes, epilogue, sums, at, output),
        activation => finish_each::<T, ADDS, WHOLE, V>(lanes, activation, sums, at, output),
    }
}

/// Ends sums that are in registers one row at a time: they come from memory anyway.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
fn finish_each<T: Number, const ADDS: bool, const WHOLE: bool, const V: usize>(
    lanes: Avx512Bf16,
    activation: Activation,
    sums: &[[[i32; LANES]; V]],
    at: TilePlace,
    output: &mut OutputRows,
) {
    let TilePlace { channel, width, first_row } = at;
    for (row, sums) in (first_row..).zip(sums) {
        let mut numbers = [lanes.splat(0.); V];
        for vector in 0..V {
            numbers[vector] = SumLanes::<Bf16, LANES>::first(lanes, &sums[vector]);
        }
        if ADDS {
            let [residual] = output.residuals::<1>(row, channel, width);
            let residual: &[T] = cast_slice(residual);
            for vector in 0..V {
                let residual = match WHOLE {
                    true => T::load(lanes, &residual.as_chunks().0[vector]),
                    false => vector_at(lanes, residual, vector * LANES),
                };
                numbers[vector] = lanes.add(numbers[vector], residual);
            }
        }
        for vector in 0..V {
            numbers[vector] = match activation {
                Activation::Clamp { min, max } => {
                    lanes.clamp(numbers[vector], lanes.splat(min), lanes.splat(max))
                }
                _ => lanes.activated(numbers[vector], activation),
            };
        }
        let places: &mut [T] = cast_slice_mut(output.row(row, channel, width));
        for vector in 0..V {
            match WHOLE {
                true => T::store(lanes, &mut places.as_chunks_mut().0[vector], numbers[vector]),
                false => {
                    let places = places.get_mut(vector * LANES..).unwrap_or_default();
                    T::store_first(lanes, places, numbers[vector]);
                }
            }
        }
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
