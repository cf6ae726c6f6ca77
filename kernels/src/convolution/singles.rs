//! Convolutions in single precision: a step is one number.

use pulp::bytemuck::{cast_slice, cast_slice_mut};

use super::channels::{ChannelKernels, ChannelSums, Reduction};
use super::output::{OutputRows, Residual};
use super::product::{
    ConvolutionElement, DepthwiseRows, Dot, FilterFormat, GemmTask, SumLanes, TilePlace,
};
use crate::bf16::{Number, vector_at};
use crate::cost::{self, Cost};
use crate::isa::{Instructions, Lanes, On, with_isa};
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

/// Writes what becomes of the sums of some rows, which are in registers.
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
    let limits = epilogue.activation.limits();
    let are_singles = output.size == size_of::<f32>()
        && (!epilogue.adds || output.residual.size(output.size) == size_of::<f32>());
    let is_simple = epilogue.slopes.is_none() && are_singles && width == V * N;
    if is_simple && let Some([min, max]) = limits {
        let mut numbers = [[lanes.splat(0.); V]; R];
        for row in 0..R {
            for vector in 0..V {
                numbers[row][vector] = sums[row][vector];
            }
        }
        if epilogue.adds {
            // Loops, as functions of arrays need not be inlined.
            let mut residuals: [&[f32]; R] = [&[]; R];
            let bytes = output.residuals::<R>(first_row, channel, width);
            for (residual, bytes) in residuals.iter_mut().zip(bytes) {
                *residual = &cast_slice(bytes)[..V * N];
            }
            for row in 0..R {
                let residual = residuals[row].as_chunks().0;
                for vector in 0..V {
                    let residual = lanes.load(&residual[vector]);
                    numbers[row][vector] = lanes.add(numbers[row][vector], residual);
                }
            }
        }
        // Limits would replace NaN.
        if epilogue.activation != Activation::Identity {
            let (min, max) = (lanes.splat(min), lanes.splat(max));
            for row in 0..R {
                for vector in 0..V {
                    numbers[row][vector] = lanes.clamp(numbers[row][vector], min, max);
                }
            }
        }
        let mut places = [const { None }; R];
        for (place, row) in places.iter_mut().zip(output.rows::<R>(first_row, channel, width)) {
            *place = Some(cast_slice_mut::<_, f32>(row));
        }
        for row in 0..R {
            if let Some(places) = &mut places[row]
                && let Some(places) = places.as_chunks_mut().0.first_chunk_mut::<V>()
            {
                for vector in 0..V {
                    lanes.store(&mut places[vector], numbers[row][vector]);
                }
            }
        }
        return;
    }
    // The rest takes so many instructions that the sums would not stay in registers.
    let mut stored = [[[0.; N]; V]; R];
    for row in 0..R {
        for vector in 0..V {
            lanes.store(&mut stored[row][vector], sums[row][vector]);
        }
    }
    lanes.enter(FinishRows { epilogue, sums: &stored, at, output });
}

/// Writes what becomes of the sums of some rows, which are in memory, one row at a time.
pub(super) struct FinishRows<'t, 'a, const N: usize, const V: usize> {
    pub epilogue: &'t SinglesEpilogue,
    pub sums: &'t [[[f32; N]; V]],
    pub at: TilePlace,
    pub output: &'t mut OutputRows<'a>,
}

impl<L: ActivationLanes<N>, const N: usize, const V: usize> On<L> for FinishRows<'_, '_, N, V> {
    #[inline(always)]
    fn run(self, lanes: L) {
        match self.output.size {
            2 if const { L::ROUNDS_TO_BF16 } => self.numbers::<[u8; 2], L>(lanes),
            _ => self.numbers::<f32, L>(lanes),
        }
    }
}

/// What is the same in all rows, and known where their loop is compiled.
#[derive(Clone, Copy)]
struct Ending {
    adds: bool,
    activation: Activation,
    has_slopes: bool,
    /// Whether the rows have whole vectors.
    is_whole: bool,
}

impl<const N: usize, const V: usize> FinishRows<'_, '_, N, V> {
    #[inline(always)]
    fn numbers<T: Number, L: ActivationLanes<N>>(self, lanes: L) {
        let SinglesEpilogue { adds, activation, ref slopes } = *self.epilogue;
        let is_whole = self.at.width == V * N;
        let ending = Ending { adds, activation, has_slopes: slopes.is_some(), is_whole };
        // The constants are repeated, so that each of these has a loop of its own.
        macro_rules! rows {
            ($($activation:pat => $same:expr, adds: $adds:literal;)*) => {
                match ending {
                    $(
                        Ending { adds: $adds, activation: $activation, has_slopes: false, is_whole: true } => {
                            let activation = $same;
                            let ending = Ending { adds: $adds, activation, has_slopes: false, is_whole: true };
                            self.rows::<T, L>(lanes, ending);
                        }
                    )*
                    ending => self.rows::<T, L>(lanes, ending),
                }
            };
        }
        rows! {
            Activation::Identity => Activation::Identity, adds: false;
            Activation::Identity => Activation::Identity, adds: true;
            Activation::Clamp { min, max } => Activation::Clamp { min, max }, adds: false;
            Activation::Clamp { min, max } => Activation::Clamp { min, max }, adds: true;
            Activation::HardSwish { factor, addend } => Activation::HardSwish { factor, addend }, adds: false;
            Activation::Swish => Activation::Swish, adds: false;
        }
    }

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn rows<T: Number, L: ActivationLanes<N>>(self, lanes: L, ending: Ending) {
        let FinishRows { epilogue, sums, at: TilePlace { channel, width, first_row }, output } =
            self;
        let size_of_residual = output.residual.size(output.size);
        let is_in_output = matches!(output.residual, Residual::Output);
        let places = output.each_row(first_row, sums.len(), channel, width);
        for (sums, (places, residual)) in sums.iter().zip(places) {
            let mut numbers = [lanes.splat(0.); V];
            for vector in 0..V {
                numbers[vector] = lanes.load(&sums[vector]);
            }
            if ending.adds {
                let residual = if is_in_output { &*places } else { residual };
                match size_of_residual {
                    2 if const { L::ROUNDS_TO_BF16 } => {
                        let residual: &[[u8; 2]] = cast_slice(residual);
                        add(lanes, residual, ending.is_whole, &mut numbers);
                    }
                    _ => add::<f32, L, N, V>(
                        lanes,
                        cast_slice(residual),
                        ending.is_whole,
                        &mut numbers,
                    ),
                }
            }
            for vector in 0..V {
                numbers[vector] = lanes.activated(numbers[vector], ending.activation);
            }
            if ending.has_slopes
                && let Some(slopes) = &epilogue.slopes
            {
                let slopes = &slopes[channel..][..width];
                for (numbers, slopes) in numbers.iter_mut().zip(slopes.chunks(N)) {
                    let mut stored = [0.; N];
                    lanes.store(&mut stored, *numbers);
                    for (number, slope) in stored.iter_mut().zip(slopes) {
                        *number *= if *number < 0. { *slope } else { 1. };
                    }
                    *numbers = lanes.load(&stored);
                }
            }
            let places: &mut [T] = cast_slice_mut(places);
            if ending.is_whole {
                T::store_all(lanes, &mut places.as_chunks_mut().0.as_chunks_mut().0[0], numbers);
            } else {
                for vector in 0..V {
                    let places = places.get_mut(vector * N..).unwrap_or_default();
                    T::store_first(lanes, places, numbers[vector]);
                }
            }
        }
    }
}

/// Adds what there is for each number of some vectors.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
fn add<T: Number, L: Lanes<N>, const N: usize, const V: usize>(
    lanes: L,
    residual: &[T],
    is_whole: bool,
    numbers: &mut [L::Floats; V],
) {
    for vector in 0..V {
        let residual = match is_whole {
            true => T::load(lanes, &residual.as_chunks().0[vector]),
            false => vector_at(lanes, residual, vector * N),
        };
        numbers[vector] = lanes.add(numbers[vector], residual);
    }
}
