//! Pools of codes. The channels are last.

use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::levels::Levels;
use crate::checks::{check_volume, expect_input_count};
use crate::convolution::{ChannelsLastWindow, PADDING, one_pixel, output_shape};
use crate::cost;
use crate::memory::filled_output;
use crate::product::Vectors;
use crate::threads::fill_rows;

/// The greatest code of each window. Padding does not count.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct QuantizedMaxPool {
    pub spec: PoolSpec,
}

/// The greatest codes of some pixels.
#[inline(always)]
fn greatest(codes: &[u8], starts: &[usize], taps: usize, channels: usize, output: &mut [u8]) {
    let pixels = output.chunks_exact_mut(channels);
    for (output, starts) in pixels.zip(starts.chunks_exact(taps)) {
        output.fill(0);
        for start in starts.iter().filter(|start| **start != PADDING) {
            let codes = &codes[*start..][..channels];
            for (greatest, code) in output.iter_mut().zip(codes) {
                *greatest = (*greatest).max(*code);
            }
        }
    }
}

impl_plain_op!(QuantizedMaxPool, "QuantizedMaxPool", info = |op| op.spec.info());

impl QuantizedMaxPool {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        const PIXELS: usize = 64;
        let input = args_1!(inputs);
        let codes = input.try_as_plain_ram()?.as_slice::<u8>()?;
        let (window, shape) = ChannelsLastWindow::new(
            "QuantizedMaxPool",
            &self.spec,
            input.shape(),
            Some(self.spec.input_channels),
        )?;
        let (channels, taps) = (self.spec.output_channels, window.taps());
        let vectors = Vectors::detect();
        filled_output("QuantizedMaxPool", &shape, |elements: &mut [u8]| {
            let work = cost::COMPARED_CODE.of(elements.len().saturating_mul(taps));
            fill_rows(elements, channels, work, |first, elements| {
                for (number, output) in elements.chunks_mut(PIXELS * channels).enumerate() {
                    let first = first + number * PIXELS;
                    let starts = window.starts(first..first + output.len() / channels);
                    vectors.run(
                        #[inline(always)]
                        move || greatest(codes, &starts, taps, channels, output),
                    );
                }
                Ok(())
            })
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count("QuantizedMaxPool", inputs.len(), 1..=1)?;
        Ok(u8::fact(output_shape("QuantizedMaxPool", &self.spec, DatumType::U8, inputs[0])?))
    }
}

/// The sum of the numbers of each channel of an image, times a factor, as codes or numbers. All axes but the first and the last
/// one become 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantizedSum {
    pub levels: Arc<Levels>,
    pub factor: f32,
    pub output: Option<Arc<Levels>>,
}

/// Adds the codes of some pixels to the sums of their channels.
#[inline(always)]
fn add_pixels(codes: &[u8], sums: &mut [u32]) {
    for codes in codes.chunks_exact(sums.len()) {
        for (sum, code) in sums.iter_mut().zip(codes) {
            *sum += u32::from(*code);
        }
    }
}

/// The most pixels whose codes have a sum of 32 bits.
const MOST_PIXELS: usize = 1 << 24;

impl_plain_op!(
    QuantizedSum,
    "QuantizedSum",
    info = |op| vec![format!("times {}", op.factor)],
    validation = |_| Validation::Rounding
);

impl QuantizedSum {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let input = args_1!(inputs);
        let codes = input.try_as_plain_ram()?.as_slice::<u8>()?;
        let shape = one_pixel(input.shape(), 1);
        ensure!(shape.len() > 1, "QuantizedSum: the data has shape {shape:?}");
        // The sums are numbers first.
        let count = check_volume("QuantizedSum", DatumType::F32, &shape)?;
        let (images, channels) = (shape[0], shape[shape.len() - 1]);
        let image = codes.len() / images.max(1);
        let pixels = image / channels.max(1);
        ensure!(
            pixels <= MOST_PIXELS,
            "QuantizedSum: an image has {pixels} pixels, but must have {MOST_PIXELS} or fewer"
        );
        let (vectors, mut numbers) = (Vectors::detect(), vec![]);
        if count > 0 {
            let mut sums = vec![0; channels];
            for number in 0..images {
                sums.fill(0);
                let codes = &codes[number * image..][..image];
                let sums_of_channels = &mut sums[..];
                vectors.run(
                    #[inline(always)]
                    move || add_pixels(codes, sums_of_channels),
                );
                numbers.extend(sums.iter().enumerate().map(|(channel, sum)| {
                    let level = self.levels.of(channel);
                    (*sum as f32 * level.scale + pixels as f32 * level.low) * self.factor
                }));
            }
        }
        match &self.output {
            None => Tensor::from_shape(&shape, &numbers),
            Some(levels) => {
                let code = |(at, number): (usize, &f32)| levels.code(levels.of(at), *number);
                let codes: Vec<u8> = numbers.iter().enumerate().map(code).collect();
                Tensor::from_shape(&shape, &codes)
            }
        }
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count("QuantizedSum", inputs.len(), 1..=1)?;
        let fact = inputs[0];
        ensure!(
            fact.datum_type == DatumType::U8 && fact.rank() > 1,
            "QuantizedSum: the data is {fact:?}, but must be of type U8 and of rank 2 or more"
        );
        let dt = if self.output.is_some() { DatumType::U8 } else { DatumType::F32 };
        Ok(dt.fact(one_pixel(&fact.shape, 1.to_dim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model_cases::{MANY, TOO_MANY};

    fn sum(shape: &[usize], is_coded: bool) -> TractResult<Tensor> {
        let levels = Levels::of_scale(0.5, 3).context("there are levels")?;
        let levels = Arc::new(levels);
        let output = is_coded.then(|| levels.clone());
        let op = QuantizedSum { levels, factor: 2., output };
        let data = Tensor::zero::<u8>(shape)?.into_tvalue();
        op.eval(tvec!(data))
    }

    /// Sizes of what has no elements take neither memory nor time.
    #[test]
    fn sums_of_long_and_empty_images() -> TractResult<()> {
        let many = MANY;
        for is_coded in [false, true] {
            // Sums of nothing.
            let found = sum(&[2, 0, many, 3], is_coded)?;
            assert_eq!(found.shape(), [2, 1, 1, 3]);
            assert!(found.is_all_zero()? != is_coded);
            for shape in [[0, 1, 1, many], [many, 1, 1, 0], [1, 0, many, 0]] {
                assert_eq!(*sum(&shape, is_coded)?.shape(), [shape[0], 1, 1, shape[3]]);
            }
            for shape in [[TOO_MANY, 0, 0, 8], [8, 0, 1, TOO_MANY]] {
                let error = format!("{:#}", sum(&shape, is_coded).unwrap_err());
                assert!(error.contains("QuantizedSum: ") && error.contains(" shape ["), "{error}");
            }
        }
        Ok(())
    }

    #[test]
    fn pools_of_long_and_empty_images() -> TractResult<()> {
        use tract_core::ops::cnn::PaddingSpec;
        use tract_core::ops::nn::DataFormat;

        let spec = |channels| {
            let kernel = tvec![2, 2];
            PoolSpec::new(
                DataFormat::NHWC,
                kernel,
                PaddingSpec::Valid,
                None,
                None,
                channels,
                channels,
            )
        };
        for shape in [[MANY, 0, 5, 3], [MANY, 5, 5, 0], [0, MANY, 1 << 9, 3]] {
            let pool = QuantizedMaxPool { spec: spec(shape[3]) };
            let data = Tensor::zero::<u8>(&shape)?.into_tvalue();
            let found = pool.eval(tvec!(data))?;
            assert_eq!(found.len(), 0);
        }
        Ok(())
    }
}
