//! Convolutions of single channels whose data and output are in bf16. A word has the numbers of two neighbouring channels: shifted, it is
//! the first one in single precision, and with the lower half cleared the second one. So a vector of words becomes two of numbers by an
//! instruction each, those of even channels and those of odd ones, and weights are packed in this order.

use pulp::bytemuck::cast_slice;
use tract_core::ops::cnn::PoolSpec;

use super::channels::LineOfPixels;
use super::product::DepthwiseRows;
use super::singles::{Singles, SinglesEpilogue};
use crate::isa::{Lanes, On};
use crate::memory::Aligned;
use crate::product::activation::{Activation, ActivationLanes};

/// The halves of words: which channels they have.
const EVEN: usize = 0;
const ODD: usize = 1;

/// The pixels of a tile, for each of which there are two vectors of sums.
const PIXELS: usize = 7;

/// The kernel of each channel, packed in panels of two vectors. The last panel ends with the channels, so it may have some of the one
/// before it, too.
#[derive(Debug, PartialEq)]
pub(super) struct PairKernels {
    /// The lanes of a vector.
    lanes: usize,
    taps: usize,
    /// The first channel of each panel.
    panels: Vec<usize>,
    /// For each panel and tap, those of the even channels and of the odd ones.
    weights: Aligned<f32>,
    /// What sums begin with, in the same order.
    bias: Vec<f32>,
}

impl PairKernels {
    /// From `[channels, taps]`, if the channels are words, and enough for a panel of vectors of so many lanes.
    pub fn pack(weights: &[f32], bias: &[f32], lanes: usize) -> Option<PairKernels> {
        let (channels, of_panel) = (bias.len(), 2 * lanes);
        if channels < of_panel || !channels.is_multiple_of(2) {
            return None;
        }
        let taps = weights.len() / channels;
        let last = channels - of_panel;
        let panels: Vec<usize> = (0..channels).step_by(of_panel).map(|it| it.min(last)).collect();
        let in_order = |first: usize| {
            [EVEN, ODD]
                .into_iter()
                .flat_map(move |half| (0..lanes).map(move |it| first + 2 * it + half))
        };
        let mut packed = Aligned::unwritten(panels.len() * taps * of_panel);
        let mut places = packed.iter_mut();
        for first in &panels {
            for tap in 0..taps {
                for (channel, place) in in_order(*first).zip(&mut places) {
                    *place = weights[channel * taps + tap];
                }
            }
        }
        let bias = panels.iter().flat_map(|first| in_order(*first)).map(|it| bias[it]).collect();
        Some(PairKernels { lanes, taps, panels, weights: packed, bias })
    }

    /// Whether there are loops for such a kernel, and what becomes of its sums.
    pub fn takes(spec: &PoolSpec, epilogue: &SinglesEpilogue) -> bool {
        let last = spec.rank() - 1;
        let columns = (spec.kernel_shape[last], spec.stride(last), spec.dilation(last));
        !epilogue.adds
            && epilogue.slopes.is_none()
            && matches!(columns, (3, 1, 1) | (3, 2, 1) | (5, 1, 1) | (5, 2, 1) | (7, 1, 1))
    }

    /// Computes all channels of some lines of these rows, on vectors that the kernels are packed for.
    pub fn compute<L: ActivationLanes<N>, const N: usize>(
        &self,
        lanes: L,
        rows: &mut DepthwiseRows<Singles>,
        lines: &[LineOfPixels],
    ) {
        assert_eq!(self.lanes, N, "the kernels are packed for other vectors");
        let per_image = &rows.window.per_image;
        let (columns, stride) = (per_image.kernel[2], per_image.strides[2]);
        let weights = self.weights.as_chunks::<N>().0.as_chunks::<2>().0;
        let bias = self.bias.as_chunks::<N>().0.as_chunks::<2>().0;
        let words = cast_slice(rows.bytes);
        for (panel, channel) in self.panels.iter().enumerate() {
            let weights = &weights[panel * self.taps..][..self.taps];
            macro_rules! panel {
                ($columns:literal, $stride:literal, $met:literal) => {{
                    let (channel, bias) = (*channel, &bias[panel]);
                    let weights = weights.as_chunks::<$columns>().0;
                    let rows = &mut *rows;
                    lanes.enter(PairLines::<N, $columns, $stride, $met> {
                        rows,
                        lines,
                        words,
                        channel,
                        weights,
                        bias,
                    })
                }};
            }
            match (columns, stride) {
                (3, 1) => panel!(3, 1, 9),
                (3, 2) => panel!(3, 2, 15),
                (5, 1) => panel!(5, 1, 11),
                (5, 2) => panel!(5, 2, 17),
                (7, 1) => panel!(7, 1, 13),
                kernel => unreachable!("rows with kernels of {kernel:?} are not taken"),
            }
        }
    }
}

/// A panel of channels of some lines, for kernels of `K` columns and a stride of `S`. A tile meets `M` pixels of a line.
struct PairLines<'t, 'a, const N: usize, const K: usize, const S: usize, const M: usize> {
    rows: &'t mut DepthwiseRows<'a, Singles>,
    lines: &'t [LineOfPixels],
    /// The data, and the first channel of the panel.
    words: &'a [[u8; 4]],
    channel: usize,
    /// Those of each row of the kernel.
    weights: &'t [[[[f32; N]; 2]; K]],
    bias: &'t [[f32; N]; 2],
}

impl<L, const N: usize, const K: usize, const S: usize, const M: usize> On<L>
    for PairLines<'_, '_, N, K, S, M>
where
    L: ActivationLanes<N>,
{
    #[inline(always)]
    fn run(mut self, lanes: L) {
        let per_image = &self.rows.window.per_image;
        let (pad, size) = (per_image.pads[2][0], per_image.input[2]);
        for line in self.lines {
            if line.pixels < PIXELS {
                for pixel in 0..line.pixels {
                    self.tile::<L, 1, K, true>(lanes, line, pixel);
                }
                continue;
            }
            for pixel in (0..line.pixels).step_by(PIXELS) {
                // The last tile ends with the line: some pixels may be computed twice.
                let pixel = pixel.min(line.pixels - PIXELS);
                let begin = (line.x + pixel) * S;
                match begin >= pad && begin - pad + M <= size {
                    true => self.tile::<L, PIXELS, M, false>(lanes, line, pixel),
                    false => self.tile::<L, PIXELS, M, true>(lanes, line, pixel),
                }
            }
        }
    }
}

impl<const N: usize, const K: usize, const S: usize, const M: usize> PairLines<'_, '_, N, K, S, M> {
    /// Some pixels, which meet `MET` pixels of a line of the image. `EDGE` says that some of these may be padding.
    #[inline(always)]
    fn tile<L: ActivationLanes<N>, const R: usize, const MET: usize, const EDGE: bool>(
        &mut self,
        lanes: L,
        line: &LineOfPixels,
        pixel: usize,
    ) {
        const { assert!(MET == (R - 1) * S + K) };
        let per_image = &self.rows.window.per_image;
        let (pad, size) = (per_image.pads[2][0], per_image.input[2]);
        let of_pixel = self.rows.channels / 2;
        let begin = ((line.x + pixel) * S).wrapping_sub(pad);
        let mut even = [lanes.load(&self.bias[EVEN]); R];
        let mut odd = [lanes.load(&self.bias[ODD]); R];
        for (row_of_kernel, start) in &line.met {
            let words = &self.words[start * of_pixel..][..size * of_pixel];
            let met = MetPixels { words, of_pixel, first: self.channel / 2, begin, size };
            let weights = &self.weights[*row_of_kernel];
            // One half after the other: both would need more registers than there are.
            met.add::<L, N, K, S, R, MET, EDGE, EVEN>(lanes, weights, &mut even);
            met.add::<L, N, K, S, R, MET, EDGE, ODD>(lanes, weights, &mut odd);
        }
        let places = self.rows.output.rows::<R>(line.first_row + pixel, self.channel, 2 * N);
        match self.rows.epilogue.activation {
            // The constants are repeated, so that each of these has a loop of its own.
            Activation::Identity => store(lanes, Activation::Identity, even, odd, places),
            Activation::Clamp { min, max } => {
                store(lanes, Activation::Clamp { min, max }, even, odd, places);
            }
            Activation::HardSwish { factor, addend } => {
                store(lanes, Activation::HardSwish { factor, addend }, even, odd, places);
            }
            // The rest takes so many instructions that the sums would not stay in registers.
            activation => {
                let mut stored = [[[0.; N]; 2]; R];
                for row in 0..R {
                    lanes.store(&mut stored[row][EVEN], even[row]);
                    lanes.store(&mut stored[row][ODD], odd[row]);
                }
                lanes.enter(StorePairs { activation, sums: &stored, places });
            }
        }
    }
}

/// The pixels of a line of the image that a tile meets.
#[derive(Clone, Copy)]
struct MetPixels<'a> {
    /// The line, the words of a pixel, and the first one that is met of each.
    words: &'a [[u8; 4]],
    of_pixel: usize,
    first: usize,
    /// The first pixel that is met, and how many the line has. Pixels before the line have numbers that wrapped, which are greater.
    begin: usize,
    size: usize,
}

impl MetPixels<'_> {
    /// Adds the products of half of the channels with a row of the kernel.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn add<
        L: Lanes<N>,
        const N: usize,
        const K: usize,
        const S: usize,
        const R: usize,
        const MET: usize,
        const EDGE: bool,
        const HALF: usize,
    >(
        self,
        lanes: L,
        weights: &[[[f32; N]; 2]; K],
        sums: &mut [L::Floats; R],
    ) {
        let MetPixels { words, of_pixel, first, begin, size } = self;
        let mut numbers = [lanes.splat(0.); MET];
        for met in 0..MET {
            let pixel = begin.wrapping_add(met);
            if !EDGE || pixel < size {
                let words = &words[pixel * of_pixel + first..].as_chunks().0[0];
                numbers[met] = lanes.bf16_of_words(lanes.load_words(words))[HALF];
            }
        }
        for column in 0..K {
            let weights = lanes.load(&weights[column][HALF]);
            for row in 0..R {
                sums[row] = lanes.mul_add(numbers[row * S + column], weights, sums[row]);
            }
        }
    }
}

/// Rounds what becomes of some sums, and writes each pixel.
#[inline(always)]
fn store<L: ActivationLanes<N>, const N: usize, const R: usize>(
    lanes: L,
    activation: Activation,
    even: [L::Floats; R],
    odd: [L::Floats; R],
    places: [&mut [u8]; R],
) {
    for row in 0..R {
        let even = lanes.activated(even[row], activation);
        let odd = lanes.activated(odd[row], activation);
        places[row].as_chunks_mut().0.as_chunks_mut().0[0] = lanes.bf16_pairs(even, odd);
    }
}

/// The same of sums in memory, one pixel after the other.
struct StorePairs<'t, const N: usize, const R: usize> {
    activation: Activation,
    sums: &'t [[[f32; N]; 2]; R],
    places: [&'t mut [u8]; R],
}

impl<L: ActivationLanes<N>, const N: usize, const R: usize> On<L> for StorePairs<'_, N, R> {
    #[inline(always)]
    fn run(self, lanes: L) {
        for ([even, odd], place) in self.sums.iter().zip(self.places) {
            let (even, odd) = (lanes.load(even), lanes.load(odd));
            store(lanes, self.activation, [even], [odd], [place]);
        }
    }
}

#[cfg(test)]
mod tests {
    use tract_core::internal::*;
    use tract_core::ops::cnn::PaddingSpec;
    use tract_core::ops::nn::DataFormat;

    use super::*;

    #[test]
    fn channels_that_are_enough() {
        let panels = |channels| {
            let kernels = PairKernels::pack(&vec![0.; 9 * channels], &vec![0.; channels], 16)?;
            Some(kernels.panels)
        };
        assert_eq!([30, 33, 31].map(panels), [None, None, None]);
        assert_eq!(panels(32), Some(vec![0]));
        assert_eq!(panels(36), Some(vec![0, 4]));
        assert_eq!(panels(64), Some(vec![0, 32]));
        assert_eq!(panels(150), Some(vec![0, 32, 64, 96, 118]));
    }

    #[test]
    fn weights_are_in_the_order_of_words() {
        let numbers: Vec<f32> = (0..4 * 3).map(|it| it as f32).collect();
        let kernels = PairKernels::pack(&numbers, &[0., 10., 20., 30.], 2).unwrap();
        assert_eq!(*kernels.weights, [0., 6., 3., 9., 1., 7., 4., 10., 2., 8., 5., 11.]);
        assert_eq!(kernels.bias, [0., 20., 10., 30.]);
    }

    #[test]
    fn kernels_that_have_loops() {
        let takes = |[columns, stride, dilation]: [usize; 3], epilogue: &SinglesEpilogue| {
            // Rows of the kernel may be any.
            let spec = PoolSpec::new(
                DataFormat::NHWC,
                tvec![4, columns],
                PaddingSpec::Valid,
                Some(tvec![3, dilation]),
                Some(tvec![3, stride]),
                32,
                32,
            );
            PairKernels::takes(&spec, epilogue)
        };
        let plain = SinglesEpilogue::default();
        for taken in [[3, 1, 1], [3, 2, 1], [5, 1, 1], [5, 2, 1], [7, 1, 1]] {
            assert!(takes(taken, &plain), "{taken:?}");
        }
        for other in [[3, 1, 2], [3, 3, 1], [4, 1, 1], [7, 2, 1], [1, 1, 1]] {
            assert!(!takes(other, &plain), "{other:?}");
        }
        assert!(!takes([3, 1, 1], &SinglesEpilogue { adds: true, ..plain.clone() }));
        assert!(!takes([3, 1, 1], &SinglesEpilogue { slopes: Some(vec![0.; 32]), ..plain }));
    }
}
