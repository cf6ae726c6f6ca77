//! From numbers to codes and back, and from codes to others.

use std::sync::Arc;

use pulp::{Simd, WithSimd};
use tract_core::internal::*;

use super::levels::{ChannelLevels, Levels};
use crate::checks::{expect_data, extent};
use crate::cost;
use crate::memory::filled_output;
use crate::product::{Vectors, load, store};
use crate::threads::fill_rows;

/// The axes of codes, compared with those of the numbers that they stand for. The last axis of codes has the channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeLayout {
    /// The same axes.
    SameAxes,
    /// The channels are last, which are the second axis of the numbers.
    ChannelsLast,
}

/// Numbers of type `f32` become codes of type `u8`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantize {
    pub levels: Arc<Levels>,
    pub layout: CodeLayout,
    /// What the numbers of each channel are multiplied by before; then codes have the same axes.
    pub factors: Option<Arc<Vec<f32>>>,
}

/// Codes of type `u8` become numbers of type `f32`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dequantize {
    pub levels: Arc<Levels>,
    pub layout: CodeLayout,
}

/// Codes of type `u8` become those of other levels that are nearest, perhaps to a function of the numbers that they stand for. In both,
/// all channels have the same levels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Requantize {
    from: Arc<Levels>,
    to: Arc<Levels>,
    /// For each code the other one.
    table: Arc<[u8; 256]>,
}

/// How many pixels are moved at a time.
const PIXELS: usize = 64;

/// How many channels are moved at a time: their codes are a word.
const CHANNELS: usize = size_of::<u32>();

impl CodeLayout {
    /// The shape of codes, of that of their numbers, or the other way round: `turn` rotates the axes but the first one.
    fn moved<D: Clone>(self, shape: &[D], turn: fn(&mut [D], usize)) -> TVec<D> {
        let mut shape: TVec<D> = shape.into();
        if self == CodeLayout::ChannelsLast && shape.len() > 2 {
            turn(&mut shape[1..], 1);
        }
        shape
    }
}

/// How many pixels an image of codes of this shape has, and how many channels.
fn pixels_and_channels(codes: &[usize]) -> (usize, usize) {
    match codes {
        [] => (1, 1),
        [channels] => (1, *channels),
        [_, pixels @ .., channels] => (extent(pixels), *channels),
    }
}

/// The numbers of some pixels, whose channels differ and are last, become codes.
struct RowsToCodes<'a> {
    numbers: &'a [f32],
    codes: &'a mut [u8],
    /// What the numbers of each channel are multiplied by.
    before: &'a [f32],
    of_channels: &'a [ChannelLevels],
    levels: &'a Levels,
}

impl WithSimd for RowsToCodes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let RowsToCodes { numbers, codes, before, of_channels, levels } = self;
        let channels = of_channels.len();
        for (codes, numbers) in codes.chunks_mut(channels).zip(numbers.chunks(channels)) {
            let channels = before.iter().zip(of_channels);
            for ((code, number), (before, level)) in codes.iter_mut().zip(numbers).zip(channels) {
                *code = levels.code(*level, number * before);
            }
        }
    }
}

/// As [`load`].
#[inline(always)]
fn load_words<S: Simd>(simd: S, words: &[u32]) -> S::u32s {
    match S::as_simd_u32s(words).0 {
        [whole] => *whole,
        _ => simd.partial_load_u32s(words),
    }
}

/// Pixels of some channels, which follow each other in the numbers, become codes, of which those of a pixel follow each other.
struct ToPixels<'a> {
    /// The first channel, from the first pixel on.
    numbers: &'a [f32],
    /// How far channels are apart there.
    distance: usize,
    /// The first channel, from the first pixel on.
    codes: &'a mut [u8],
    /// How far pixels are apart there.
    channels: usize,
    /// How many pixels there are.
    count: usize,
    /// Of each of the channels, as many as make a word at most.
    of_channels: &'a [ChannelLevels],
    levels: &'a Levels,
}

impl WithSimd for ToPixels<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ToPixels { numbers, distance, codes, channels, count, of_channels, levels } = self;
        let mut words = [0; PIXELS];
        let words = &mut words[..count];
        for (number, level) in of_channels.iter().enumerate() {
            let numbers = &numbers[number * distance..][..count];
            let of_word = simd.splat_u32s(8 * number as u32);
            for (numbers, words) in numbers.chunks(S::F32_LANES).zip(words.chunks_mut(S::F32_LANES))
            {
                let codes = levels.codes(simd, *level, load(simd, numbers));
                let codes = simd.wrapping_dyn_shl_u32s(codes, of_word);
                let codes = simd.or_u32s(load_words(simd, words), codes);
                match S::as_mut_simd_u32s(words).0 {
                    [whole] => *whole = codes,
                    _ => simd.partial_store_u32s(words, codes),
                }
            }
        }
        let places = codes.chunks_mut(channels).zip(words);
        match of_channels.len() {
            CHANNELS => places.for_each(|(place, word)| {
                place[..CHANNELS].copy_from_slice(&word.to_le_bytes());
            }),
            // The pixels of a picture.
            3 => places.for_each(|(place, word)| {
                place[..3].copy_from_slice(&word.to_le_bytes()[..3]);
            }),
            few => places.for_each(|(place, word)| {
                place[..few].copy_from_slice(&word.to_le_bytes()[..few]);
            }),
        }
    }
}

/// Moves the channels back: each goes to a row of its own.
struct FromPixels<'a> {
    codes: &'a [u8],
    channels: usize,
    numbers: &'a mut [f32],
    distance: usize,
    count: usize,
    of_channels: &'a [ChannelLevels],
}

impl WithSimd for FromPixels<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let FromPixels { codes, channels, numbers, distance, count, of_channels } = self;
        let mut words = [0; PIXELS];
        let words = &mut words[..count];
        let places = codes.chunks(channels).zip(words.iter_mut());
        match of_channels.len() {
            CHANNELS => places.for_each(|(codes, word)| {
                let bytes = std::array::from_fn(|number| codes[number]);
                *word = u32::from_le_bytes(bytes);
            }),
            few => places.for_each(|(codes, word)| {
                let bytes = std::array::from_fn(|at| if at < few { codes[at] } else { 0 });
                *word = u32::from_le_bytes(bytes);
            }),
        }
        // A number of this size has a byte as its last bits.
        const SIZE: f32 = 8_388_608.;
        let (byte, size) = (simd.splat_u32s(0xff), simd.splat_u32s(SIZE.to_bits()));
        for (number, level) in of_channels.iter().enumerate() {
            let numbers = &mut numbers[number * distance..][..count];
            let of_word = simd.splat_u32s(8 * number as u32);
            let (scale, low) = (simd.splat_f32s(level.scale), simd.splat_f32s(level.low));
            for (numbers, words) in numbers.chunks_mut(S::F32_LANES).zip(words.chunks(S::F32_LANES))
            {
                let codes = load_words(simd, words);
                let codes = simd.and_u32s(simd.wrapping_dyn_shr_u32s(codes, of_word), byte);
                let codes = simd.transmute_f32s_u32s(simd.or_u32s(codes, size));
                let codes = simd.sub_f32s(codes, simd.splat_f32s(SIZE));
                store(simd, numbers, simd.add_f32s(simd.mul_f32s(codes, scale), low));
            }
        }
    }
}

impl_plain_op!(
    Quantize,
    "Quantize",
    info = |op| {
        let mut info = vec![op.levels.text()];
        info.extend(
            op.factors.as_ref().map(|_| "of numbers times a factor of each channel".into()),
        );
        info
    }
);

impl Quantize {
    /// The codes of some pixels of images of so many pixels and channels, from one on.
    fn pixels(
        &self,
        numbers: &[f32],
        (pixels, channels): (usize, usize),
        mut first: usize,
        mut codes: &mut [u8],
    ) {
        let (vectors, levels) = (Vectors::detect(), &*self.levels);
        let is_moved = self.layout == CodeLayout::ChannelsLast && pixels > 1 && channels > 1;
        if !is_moved {
            let numbers = &numbers[first * channels..][..codes.len()];
            if self.factors.is_none() && levels.are_the_same() {
                let level = levels.of(0);
                return vectors.run(
                    #[inline(always)]
                    move || {
                        for (code, number) in codes.iter_mut().zip(numbers) {
                            *code = levels.code(level, *number);
                        }
                    },
                );
            }
            let of_channels = levels.of_channels(channels);
            let ones = vec![1.; if self.factors.is_none() { channels } else { 0 }];
            let before = self.factors.as_ref().map_or(&ones[..], |factors| &factors[..]);
            vectors.run(RowsToCodes { numbers, codes, before, of_channels: &of_channels, levels });
            return;
        }
        let of_channels = levels.of_channels(channels);
        while !codes.is_empty() {
            let (image, pixel) = (first / pixels, first % pixels);
            let count = (codes.len() / channels).min(PIXELS).min(pixels - pixel);
            let (now, later) = std::mem::take(&mut codes).split_at_mut(count * channels);
            for (number, of_channels) in of_channels.chunks(CHANNELS).enumerate() {
                let channel = number * CHANNELS;
                vectors.run(ToPixels {
                    numbers: &numbers[(image * channels + channel) * pixels + pixel..],
                    distance: pixels,
                    codes: &mut now[channel..],
                    channels,
                    count,
                    of_channels,
                    levels,
                });
            }
            (codes, first) = (later, first + count);
        }
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let input = args_1!(inputs);
        let numbers = input.try_as_plain_ram()?.as_slice::<f32>()?;
        let shape = self.layout.moved(input.shape(), <[_]>::rotate_left);
        let sizes = pixels_and_channels(&shape);
        if let Some(factors) = &self.factors {
            ensure!(
                self.layout == CodeLayout::SameAxes && factors.len() == sizes.1,
                "Quantize: the data has shape {:?}, but must have size {} on the last axis",
                input.shape(),
                factors.len()
            );
        }
        filled_output("Quantize", &shape, |codes| {
            fill_rows(codes, sizes.1, cost::ELEMENT.of(numbers.len()), |first, codes| {
                self.pixels(numbers, sizes, first, codes);
                Ok(())
            })
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let data = expect_data("Quantize", DatumType::F32, inputs)?;
        Ok(u8::fact(self.layout.moved(&data.shape, <[_]>::rotate_left)))
    }
}

impl_plain_op!(Dequantize, "Dequantize", info = |op| vec![op.levels.text()]);

impl Dequantize {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let input = args_1!(inputs);
        let codes = input.try_as_plain_ram()?.as_slice::<u8>()?;
        let shape = self.layout.moved(input.shape(), <[_]>::rotate_right);
        let vectors = Vectors::detect();
        let (pixels, channels) = pixels_and_channels(input.shape());
        let work = cost::ELEMENT.of(codes.len());
        filled_output("Dequantize", &shape, |numbers| {
            if self.layout == CodeLayout::ChannelsLast && pixels > 1 && channels > 1 {
                let of_channels = self.levels.of_channels(channels);
                // Rows are the pixels of a channel.
                return fill_rows(numbers, pixels, work, |first, numbers| {
                    let rows = first..first + numbers.len() / pixels;
                    for begin in (0..pixels).step_by(PIXELS) {
                        let count = (pixels - begin).min(PIXELS);
                        let mut row = rows.start;
                        while row < rows.end {
                            let (image, channel) = (row / channels, row % channels);
                            let together = (channels - channel).min(rows.end - row).min(CHANNELS);
                            vectors.run(FromPixels {
                                codes: &codes[(image * pixels + begin) * channels + channel..],
                                channels,
                                numbers: &mut numbers[(row - rows.start) * pixels + begin..],
                                distance: pixels,
                                count,
                                of_channels: &of_channels[channel..][..together],
                            });
                            row += together;
                        }
                    }
                    Ok(())
                });
            }
            fill_rows(numbers, channels, work, |first, numbers| {
                let codes = &codes[first * channels..];
                let width = if self.levels.are_the_same() { numbers.len() } else { 1 };
                let parts = numbers.chunks_mut(width).zip(codes.chunks(width));
                for (number, (numbers, codes)) in parts.enumerate() {
                    let ChannelLevels { low, scale, .. } = self.levels.of(number);
                    vectors.run(
                        #[inline(always)]
                        move || {
                            for (number, code) in numbers.iter_mut().zip(codes) {
                                *number = f32::from(*code) * scale + low;
                            }
                        },
                    );
                }
                Ok(())
            })
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let data = expect_data("Dequantize", DatumType::U8, inputs)?;
        Ok(f32::fact(self.layout.moved(&data.shape, <[_]>::rotate_right)))
    }
}

impl_plain_op!(
    Requantize,
    "Requantize",
    info = |op| vec![format!("{}, to {}", op.from.text(), op.to.text())]
);

impl Requantize {
    /// To the codes that are nearest to the same numbers.
    pub fn new(from: Arc<Levels>, to: Arc<Levels>) -> Requantize {
        let numbers = Requantize::numbers(&from);
        Requantize::of_function(from, to, &numbers)
    }

    /// The numbers that codes stand for.
    pub fn numbers(from: &Levels) -> [f32; 256] {
        let level = from.of(0);
        std::array::from_fn(|code| code as f32 * level.scale + level.low)
    }

    /// To the codes that are nearest to what becomes of these numbers.
    pub fn of_function(from: Arc<Levels>, to: Arc<Levels>, results: &[f32; 256]) -> Requantize {
        let table = results.map(|result| to.code(to.of(0), result)).into();
        Requantize { from, to, table }
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let mut data = args_1!(inputs).into_tensor();
        let table = &*self.table;
        let mut view = data.try_as_plain_ram_mut()?;
        let codes = view.as_slice_mut::<u8>()?;
        let work = cost::ELEMENT.of(codes.len());
        fill_rows(codes, 1, work, |_, codes| {
            codes.iter_mut().for_each(|code| *code = table[usize::from(*code)]);
            TractResult::Ok(())
        })?;
        Ok(data)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        Ok(expect_data("Requantize", DatumType::U8, inputs)?.without_value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::tests::with_all_vectors;

    /// Levels of a scale, of limits, and of limits of each channel.
    fn levels(channels: usize) -> Vec<Arc<Levels>> {
        let limits: Vec<[f32; 4]> = (0..channels)
            .map(|channel| {
                let size = 1. + channel as f32 / 7.;
                [-size, size, -size, 1.25 * size]
            })
            .collect();
        let of_limits = |limits| Levels::of_fake_quantize(255, limits);
        [Levels::of_scale(0.017, 127), of_limits(&limits[..1]), of_limits(&limits)]
            .map(|levels| Arc::new(levels.unwrap()))
            .into()
    }

    fn run(op: &dyn EvalOp, input: Tensor) -> Tensor {
        op.eval(&EvalContext::out_of_plan(), tvec!(input.into())).unwrap().remove(0).into_tensor()
    }

    /// Each number alone.
    #[test]
    fn there_and_back() {
        for channels in [1, 2, 3, 4, 5, 8, 11, 35] {
            for pixels in [0, 1, 3, 16, 63, 64, 65, 200] {
                let shape = [2, channels, pixels];
                let count = shape.iter().product();
                let mut numbers: Vec<f32> =
                    (0..count).map(|it| (it * 37 % 101) as f32 / 30. - 1.6).collect();
                let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0., 1e30];
                numbers.iter_mut().zip(special).for_each(|(number, it)| *number = it);
                for levels in levels(channels) {
                    let channel = |place: usize| place / pixels % channels;
                    let code = |(place, number): (usize, &f32)| {
                        levels.code(levels.of(channel(place)), *number)
                    };
                    let codes: Vec<u8> = numbers.iter().enumerate().map(code).collect();
                    let number = |(place, code): (usize, &u8)| {
                        let level = levels.of(channel(place));
                        f32::from(*code) * level.scale + level.low
                    };
                    let back: Vec<f32> = codes.iter().enumerate().map(number).collect();
                    let data = Tensor::from_shape(&shape, &numbers).unwrap();
                    let codes = Tensor::from_shape(&shape, &codes).unwrap();
                    let codes = codes.permute_axes(&[0, 2, 1]).unwrap();
                    let back = Tensor::from_shape(&shape, &back).unwrap();
                    with_all_vectors(|| {
                        let quantize = Quantize {
                            levels: levels.clone(),
                            layout: CodeLayout::ChannelsLast,
                            factors: None,
                        };
                        assert_eq!(run(&quantize, data.clone()), codes, "{shape:?} {levels:?}");
                        let dequantize =
                            Dequantize { levels: levels.clone(), layout: CodeLayout::ChannelsLast };
                        assert_eq!(run(&dequantize, codes.clone()), back, "{shape:?} {levels:?}");
                        // The channels are last before and after.
                        let last = data.clone().permute_axes(&[0, 2, 1]).unwrap();
                        let quantize = Quantize {
                            levels: levels.clone(),
                            layout: CodeLayout::SameAxes,
                            factors: None,
                        };
                        assert_eq!(run(&quantize, last.clone()), codes);
                        let ones = Some(Arc::new(vec![1.; channels]));
                        let factors = Quantize { factors: ones, ..quantize };
                        assert_eq!(run(&factors, last), codes);
                        let dequantize =
                            Dequantize { levels: levels.clone(), layout: CodeLayout::SameAxes };
                        let last = back.clone().permute_axes(&[0, 2, 1]).unwrap();
                        assert_eq!(run(&dequantize, codes.clone()), last);
                    });
                }
            }
        }
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn of_threads() {
        use tract_core::prelude::multithread::{Executor, multithread_tract_scope};
        let numbers: Vec<f32> = (0..2 * 35 * 5000).map(|it| (it % 101) as f32 / 30.).collect();
        let data = Tensor::from_shape(&[2, 35, 5000], &numbers).unwrap();
        for levels in levels(35) {
            let both = |threads| {
                multithread_tract_scope(Executor::multithread(threads), || {
                    let layout = CodeLayout::ChannelsLast;
                    let codes = run(
                        &Quantize { levels: levels.clone(), layout, factors: None },
                        data.clone(),
                    );
                    let back = Dequantize { levels: levels.clone(), layout };
                    (codes.clone(), run(&back, codes))
                })
            };
            assert_eq!(both(1), both(3));
        }
    }
}
