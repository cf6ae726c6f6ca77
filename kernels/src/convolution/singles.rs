//! Convolutions in single precision: a step is one number.

use pulp::bytemuck::{cast_slice, cast_slice_mut};
use tract_core::internal::*;

use super::channels::{ChannelKernels, ChannelSums, Reduction};
use super::output::OutputRows;
use super::product::{
    ConvolutionElement, DepthwiseRows, Dot, FilterFormat, GemmTask, SumLanes, TilePlace,
};
use crate::bf16::{Number, vector_at};
use crate::cost::{self, Cost};
use crate::isa::{Instructions, Lanes, with_isa};
use crate::product::activation::{Activation, ActivationLanes};

/// Numbers of single precision.
#[derive(Debug, PartialEq)]
pub(crate) struct Singles;

/// What becomes of a sum, which begins with the bias.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SinglesEpilogue {
    /// Whether a residual is added, before all else.
    pub adds: bool,
    pub activation: Activation,
    /// For each channel, what numbers less than 0 are multiplied by at last.
    pub slopes: Option<Vec<f32>>,
}

impl ConvolutionElement for Singles {
    type Data = f32;
    type Epilogue = SinglesEpilogue;
    type Depthwise = ChannelKernels;

    const PRODUCT: Cost = cost::PRODUCT;
    const READ_WEIGHT: Cost = cost::READ_WEIGHT;

    fn multiply(task: &mut GemmTask<Singles>) {
        with_isa!(task.filters.instructions, isa => multiply_on(task, isa));
    }

    fn arranged(
        operator: &str,
        kernels: &ChannelKernels,
        data: &Tensor,
    ) -> TractResult<Option<Tensor>> {
        kernels.arranged(operator, data)
    }

    fn depthwise(kernels: &ChannelKernels, rows: DepthwiseRows<Singles>) {
        ChannelSums { rows, reduction: Reduction::Sum(kernels) }.compute();
    }
}

fn multiply_on<L: Dot<Singles, 4, N>, const N: usize>(task: &mut GemmTask<Singles>, lanes: L) {
    task.multiply_on(lanes);
}

impl Instructions {
    /// How weights of single precision are packed: tiles have as many sums as there are registers for.
    pub(super) fn format_of_singles(self) -> FilterFormat {
        let tile = match self {
            Instructions::Portable(_) => [4, 2],
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) | Instructions::AvxVnni(_) => [6, 2],
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(_)
            | Instructions::Avx512Vnni(_)
            | Instructions::Avx512Bf16(_)
            | Instructions::Amx(_) => [8, 3],
            // A vector is two registers.
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon(_) | Instructions::NeonDot(_) => [6, 2],
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Instructions::Simd128(_) => [4, 1],
        };
        FilterFormat { bytes_of_step: 4, tile, steps_of_amx: None }
    }
}

/// Whatever is multiplied: sums are in single precision.
impl<L, E, const N: usize> SumLanes<E, N> for L
where
    L: ActivationLanes<N>,
    E: ConvolutionElement<Epilogue = SinglesEpilogue>,
{
    type Sums = L::Floats;

    #[inline(always)]
    fn first(self, words: &[i32; N]) -> L::Floats {
        self.f32_of_words(self.load_i32(words))
    }

    #[inline(always)]
    fn finish<const R: usize, const V: usize>(
        self,
        epilogue: &SinglesEpilogue,
        sums: &[[L::Floats; V]; R],
        at: TilePlace,
        output: &mut OutputRows,
    ) {
        finish(self, epilogue, sums, at, output);
    }
}

impl<L: ActivationLanes<N>, const N: usize> Dot<Singles, 4, N> for L {
    type Left = L::Floats;
    type Right = L::Floats;

    #[inline(always)]
    fn left(self, step: [u8; 4]) -> L::Floats {
        self.splat(f32::from_ne_bytes(step))
    }

    #[inline(always)]
    fn right(self, step: &[[i8; 4]; N]) -> L::Floats {
        // An array of as many words, of which bytemuck knows no cast for any number.
        let words: &[[u8; 4]] = cast_slice(step);
        self.f32_of_words(self.load_words(&words.as_chunks().0[0]))
    }

    #[inline(always)]
    fn dot(self, sums: L::Floats, left: L::Floats, right: L::Floats) -> L::Floats {
        self.mul_add(left, right, sums)
    }
}

/// Writes what becomes of the sums of some rows.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
pub(super) fn finish<L: ActivationLanes<N>, const N: usize, const R: usize, const V: usize>(
    lanes: L,
    epilogue: &SinglesEpilogue,
    sums: &[[L::Floats; V]; R],
    at: TilePlace,
    output: &mut OutputRows,
) {
    let TilePlace { channel, width, first_row } = at;
    let mut numbers = [[lanes.splat(0.); V]; R];
    for row in 0..R {
        for vector in 0..V {
            numbers[row][vector] = sums[row][vector];
        }
    }
    let is_whole = width == V * N;
    if epilogue.adds {
        let size = output.residual.size(output.size);
        let residuals = output.residuals::<R>(first_row, channel, width);
        match size {
            2 if const { L::ROUNDS_TO_BF16 } => {
                add::<[u8; 2], L, N, R, V>(lanes, is_whole, residuals, &mut numbers)
            }
            _ => add::<f32, L, N, R, V>(lanes, is_whole, residuals, &mut numbers),
        }
    }
    let in_registers = match epilogue.activation {
        _ if epilogue.slopes.is_some() => false,
        Activation::Identity => true,
        Activation::Clamp { min, max } => {
            let (min, max) = (lanes.splat(min), lanes.splat(max));
            for row in 0..R {
                for vector in 0..V {
                    numbers[row][vector] = lanes.clamp(numbers[row][vector], min, max);
                }
            }
            true
        }
        // Vectors of 16 lanes have registers for what it takes, too.
        Activation::HardSwish { factor, addend } if const { N > 8 } => {
            // Said again, so that the loops have this function alone.
            let activation = Activation::HardSwish { factor, addend };
            for row in 0..R {
                for vector in 0..V {
                    numbers[row][vector] = lanes.activated(numbers[row][vector], activation);
                }
            }
            true
        }
        _ => false,
    };
    let rest = if in_registers { None } else { Some((epilogue, channel)) };
    let (size, rows) = (output.size, output.rows::<R>(first_row, channel, width));
    match size {
        2 if const { L::ROUNDS_TO_BF16 } => {
            put::<[u8; 2], L, N, R, V>(lanes, &numbers, rest, is_whole, rows)
        }
        _ => put::<f32, L, N, R, V>(lanes, &numbers, rest, is_whole, rows),
    }
}

/// Adds what there is for each number of some rows, of whole vectors or not.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
fn add<T: Number, L: Lanes<N>, const N: usize, const R: usize, const V: usize>(
    lanes: L,
    is_whole: bool,
    residuals: [&[u8]; R],
    numbers: &mut [[L::Floats; V]; R],
) {
    for row in 0..R {
        let residual: &[T] = cast_slice(residuals[row]);
        if is_whole && let Some(whole) = residual.as_chunks().0.first_chunk::<V>() {
            for vector in 0..V {
                let residual = T::load(lanes, &whole[vector]);
                numbers[row][vector] = lanes.add(numbers[row][vector], residual);
            }
            continue;
        }
        for vector in 0..V {
            let residual = vector_at(lanes, residual, vector * N);
            numbers[row][vector] = lanes.add(numbers[row][vector], residual);
        }
    }
}

/// Writes some rows, of whole vectors or not, with what is left of an epilogue, from a channel on.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
fn put<T: Number, L: ActivationLanes<N>, const N: usize, const R: usize, const V: usize>(
    lanes: L,
    numbers: &[[L::Floats; V]; R],
    rest: Option<(&SinglesEpilogue, usize)>,
    is_whole: bool,
    rows: [&mut [u8]; R],
) {
    // Loops, as functions of arrays need not be inlined.
    let mut places = [const { None }; R];
    for (place, row) in places.iter_mut().zip(rows) {
        *place = Some(cast_slice_mut::<_, T>(row));
    }
    if let Some((epilogue, channel)) = rest {
        // It takes so many instructions that the numbers would not stay in registers.
        let mut kept = [[[0.; N]; V]; R];
        for row in 0..R {
            for vector in 0..V {
                lanes.store(&mut kept[row][vector], numbers[row][vector]);
            }
        }
        for (row, places) in places.iter_mut().flatten().enumerate() {
            for (vector, places) in places.chunks_mut(N).enumerate() {
                let kept = &mut kept[row][vector];
                let mut result = lanes.activated(lanes.load(kept), epilogue.activation);
                if let Some(slopes) = &epilogue.slopes {
                    lanes.store(kept, result);
                    for (number, slope) in kept.iter_mut().zip(&slopes[channel + vector * N..]) {
                        *number *= if *number < 0. { *slope } else { 1. };
                    }
                    result = lanes.load(kept);
                }
                T::store_first(lanes, places, result);
            }
        }
        return;
    }
    for row in 0..R {
        let Some(places) = &mut places[row] else { continue };
        if is_whole && let Some(whole) = places.as_chunks_mut().0.first_chunk_mut::<V>() {
            for vector in 0..V {
                T::store(lanes, &mut whole[vector], numbers[row][vector]);
            }
            continue;
        }
        for vector in 0..V {
            let places = places.get_mut(vector * N..).unwrap_or_default();
            T::store_first(lanes, places, numbers[row][vector]);
        }
    }
}
