//! Convolutions, sums and products of codes against their definitions, with all instructions that the machine has.

use proptest::prelude::*;
use proptest::test_runner::Config;
use tract_core::internal::*;
use tract_core::ops::cnn::{PaddingSpec, PoolSpec};
use tract_core::ops::nn::DataFormat;

use super::{
    LayerDescription, Levels, Operation, QuantizedArithmetic, QuantizedConvolution, ResidualOperand,
};
use crate::convolution::tests::numbers;
use crate::product::activation::Activation;

pub use crate::isa::tests::with_all_instructions;

#[derive(Debug, Clone)]
struct WindowAxis {
    size: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    pads: [usize; 2],
}

impl WindowAxis {
    fn output(&self) -> usize {
        let padded = self.size + self.pads[0] + self.pads[1];
        (padded - (self.kernel - 1) * self.dilation - 1) / self.stride + 1
    }
}

#[derive(Debug, Clone)]
struct LayerCase {
    images: usize,
    axes: Vec<WindowAxis>,
    group: usize,
    inputs: usize,
    outputs: usize,
    /// Of each channel, or one for all.
    zeros: Vec<i32>,
    /// Whether weights are any codes, or those that need not be widened.
    any_weights: bool,
    seed: u64,
}

fn axis() -> impl Strategy<Value = WindowAxis> {
    (1..9usize, 1..4usize, 1..3usize, 1..3usize, [0..3usize, 0..3usize])
        .prop_map(|(size, kernel, stride, dilation, pads)| WindowAxis {
            size,
            kernel,
            stride,
            dilation,
            pads,
        })
        .prop_filter("the kernel fits", |axis| {
            axis.size + axis.pads[0] + axis.pads[1] > (axis.kernel - 1) * axis.dilation
        })
}

fn case() -> impl Strategy<Value = LayerCase> {
    let channels = prop_oneof![
        3 => (Just(1usize), 1..40usize, 1..80usize),
        // Taps have whole steps.
        2 => (Just(1usize), (1..36usize).prop_map(|steps| 4 * steps), 1..80usize),
        // Sums of some tiles.
        1 => (Just(1usize), 60..150usize, 20..70usize),
        1 => (2..6usize, 1..9usize, 1..20usize),
        2 => (1..70usize).prop_map(|group| (group, 1, 1)),
        // Pixels that are computed together.
        1 => (1..6u32).prop_map(|power| (1 << power, 1, 1)),
    ];
    (
        1..3usize,
        prop::collection::vec(axis(), 0..4),
        channels,
        any::<bool>(),
        any::<u64>(),
        // After a Relu zero is code 0.
        prop_oneof![Just(0), 0..256i32],
        any::<bool>(),
    )
        .prop_map(
            |(images, axes, (group, inputs, outputs), any_weights, seed, zero, differ)| {
                let differ = differ && inputs == 1 && outputs == 1 && group > 1;
                let zeros = match differ {
                    true => (0..group as i32).map(|channel| (zero + 7 * channel) % 256).collect(),
                    false => vec![zero],
                };
                LayerCase { images, axes, group, inputs, outputs, zeros, any_weights, seed }
            },
        )
}

/// Numbers that look random.
pub fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 16
    }
}

impl LayerCase {
    fn spec(&self) -> PoolSpec {
        let of =
            |number: fn(&WindowAxis) -> usize| self.axes.iter().map(number).collect::<TVec<_>>();
        PoolSpec::new(
            DataFormat::NHWC,
            of(|axis| axis.kernel),
            PaddingSpec::Explicit(of(|axis| axis.pads[0]), of(|axis| axis.pads[1])),
            Some(of(|axis| axis.dilation)),
            Some(of(|axis| axis.stride)),
            self.group * self.inputs,
            self.group * self.outputs,
        )
    }

    /// The sums of products of codes of data, less that of zero, and codes of weights.
    fn sums(&self, data: &[u8], weights: &[i8]) -> Vec<i64> {
        let sizes: Vec<usize> = self.axes.iter().map(|axis| axis.size).collect();
        let outputs: Vec<usize> = self.axes.iter().map(WindowAxis::output).collect();
        let kernel: Vec<usize> = self.axes.iter().map(|axis| axis.kernel).collect();
        let (pixels, taps) =
            (sizes.iter().product::<usize>(), numbers(&kernel).collect::<Vec<_>>());
        let channels = self.group * self.inputs;
        let mut sums = vec![];
        for image in 0..self.images {
            for pixel in numbers(&outputs) {
                for output in 0..self.group * self.outputs {
                    let mut sum = 0;
                    for (tap_number, tap) in taps.iter().enumerate() {
                        let mut at = Some(0);
                        for (number, axis) in self.axes.iter().enumerate() {
                            let place = (pixel[number] * axis.stride + tap[number] * axis.dilation)
                                .checked_sub(axis.pads[0])
                                .filter(|place| *place < axis.size);
                            at = at.zip(place).map(|(at, place)| at * axis.size + place);
                        }
                        let Some(at) = at else { continue };
                        for input in 0..self.inputs {
                            let channel = output / self.outputs * self.inputs + input;
                            let zero = self.zeros[channel % self.zeros.len()];
                            let code = data[(image * pixels + at) * channels + channel];
                            let weight =
                                weights[(output * self.inputs + input) * taps.len() + tap_number];
                            sum += (i64::from(code) - i64::from(zero)) * i64::from(weight);
                        }
                    }
                    sums.push(sum);
                }
            }
        }
        sums
    }

    fn check(&self) {
        let mut random = random(self.seed);
        let sizes: Vec<usize> = self.axes.iter().map(|axis| axis.size).collect();
        let kernel: Vec<usize> = self.axes.iter().map(|axis| axis.kernel).collect();
        let channels = self.group * self.inputs;
        let shape = [&[self.images], &*sizes, &[channels]].concat();
        let data: Vec<u8> = (0..shape.iter().product()).map(|_| random() as u8).collect();
        let outputs = self.group * self.outputs;
        let weights_shape = [&[outputs, self.inputs], &*kernel].concat();
        let weights: Vec<i8> =
            (0..weights_shape.iter().product())
                .map(|_| {
                    if self.any_weights { random() as i8 } else { (random() % 129) as i8 % 65 - 32 }
                })
                .collect();
        let sums = self.sums(&data, &weights);
        // Channels of the data that differ have one scale, for simplicity.
        let limits: Vec<[f32; 4]> = self
            .zeros
            .iter()
            .map(|zero| [-zero, 255 - zero].map(|code| code as f32 * 0.5))
            .map(|[low, high]| [low, high, low, high])
            .collect();
        let levels = Arc::new(Levels::of_fake_quantize(256, &limits).unwrap());
        let scales = (0..outputs).map(|it| [0.25 * (1 + it % 3) as f32, it as f32 - 5.]);
        let scales: Vec<[f32; 2]> = scales.collect();
        let number = |at: usize| {
            let [scale, bias] = scales[at % outputs].map(f64::from);
            sums[at] as f64 * 0.5 * scale + bias
        };
        let weights = Tensor::from_shape(&weights_shape, &weights).unwrap();
        let data = Tensor::from_shape(&shape, &data).unwrap();
        let second: Vec<[f32; 2]> = (0..outputs).map(|it| [0.5, it as f32 * 2.]).collect();
        let of_scale = |scale, zero| Arc::new(Levels::of_scale(scale, zero).unwrap());
        let (coded, of_residual) = (of_scale(64., 100), of_scale(32., 7));
        let added = |output| {
            Some(ResidualOperand { levels: of_residual.clone(), limits: [-900., 5000.], output })
        };
        let (to_numbers, to_codes) = (added(None), added(Some(of_scale(128., 50))));
        let (to_numbers, to_codes) = (to_numbers.as_ref(), to_codes.as_ref());
        let others: Vec<u8> = (0..sums.len()).map(|_| random() as u8).collect();
        for (activation, second, output, residual) in [
            (Activation::Identity, None, None, None),
            (Activation::Clamp { min: -50., max: 1000. }, None, None, None),
            (Activation::Clamp { min: -50., max: 1000. }, Some(&*second), None, None),
            (Activation::Identity, None, Some(&coded), None),
            (Activation::Clamp { min: 0., max: 2000. }, None, Some(&coded), None),
            (Activation::Clamp { min: 0., max: 2000. }, Some(&*second), Some(&coded), None),
            (Activation::HARD_SWISH, None, Some(&coded), None),
            (Activation::HARD_SWISH, Some(&*second), Some(&coded), None),
            (Activation::Identity, None, Some(&coded), to_codes),
            (Activation::Clamp { min: 0., max: 2000. }, None, Some(&coded), to_numbers),
            (Activation::HARD_SWISH, Some(&*second), Some(&coded), to_codes),
            (Activation::Swish, None, None, None),
            (Activation::Swish, None, Some(&coded), None),
        ] {
            let op = QuantizedConvolution::new(&LayerDescription {
                spec: self.spec(),
                group: self.group,
                data: levels.clone(),
                weights: weights.clone(),
                scales: scales.clone(),
                activation,
                second: second.map(<[_]>::to_vec),
                output: output.cloned(),
                residual: residual.cloned(),
            })
            .unwrap()
            .unwrap();
            let mut inputs = tvec!(data.clone().into_tvalue());
            if residual.is_some() {
                let sizes = self.axes.iter().map(WindowAxis::output);
                let shape: Vec<usize> =
                    [self.images].into_iter().chain(sizes).chain([outputs]).collect();
                inputs.push(Tensor::from_shape(&shape, &others).unwrap().into_tvalue());
            }
            let facts: Vec<TypedFact> =
                inputs.iter().map(|it| TypedFact::dt_shape(DatumType::U8, it.shape())).collect();
            let fact = op.output_facts(&facts.iter().collect::<Vec<_>>()).unwrap();
            let found = op.eval(&EvalContext::out_of_plan(), inputs).unwrap().remove(0);
            assert_eq!(fact[0].shape.as_concrete(), Some(found.shape()));
            assert_eq!(found.len(), sums.len());
            let found = found.cast_to::<f32>().unwrap();
            let found = found.try_as_plain_ram().unwrap();
            for (at, found) in found.as_slice::<f32>().unwrap().iter().enumerate() {
                let number = match activation {
                    Activation::Clamp { min, max } => number(at).clamp(min.into(), max.into()),
                    Activation::HARD_SWISH => number(at) * (number(at) + 3.).clamp(0., 6.) / 6.,
                    Activation::Swish => number(at) / (1. + (-number(at)).exp()),
                    _ => number(at),
                };
                let [scale, bias] =
                    second.map_or([1., 0.], |second: &[[f32; 2]]| second[at % outputs]);
                let number = number * f64::from(scale) + f64::from(bias);
                // At a tie both neighbours are right.
                let code = (number / 64. + 100.).clamp(0., 255.);
                let neighbours = [code - 1e-3, code + 1e-3].map(|code| {
                    let others = (f64::from(others[at]) - 7.) * 32.;
                    ((code.round() - 100.) * 64. + others).clamp(-900., 5000.)
                });
                if let Some(residual) = residual {
                    let apart = neighbours.map(|sum| match &residual.output {
                        None => (f64::from(*found) - sum).abs() - 1e-2,
                        Some(_) => {
                            let code = (sum / 128. + 50.).clamp(0., 255.);
                            (f64::from(*found) - code).abs() - 0.5001
                        }
                    });
                    assert!(
                        apart.iter().any(|apart| *apart <= 0.),
                        "{self:?} {activation:?} {at}: {found} {neighbours:?}"
                    );
                    continue;
                }
                match output {
                    None => {
                        let bound = number.abs() * 1e-6 + 1e-2;
                        let apart = (f64::from(*found) - number).abs();
                        assert!(apart <= bound, "{self:?} {activation:?} {at}: {found} {number}");
                    }
                    Some(_) => {
                        let apart = (f64::from(*found) - code).abs();
                        assert!(apart <= 0.5001, "{self:?} {activation:?} {at}: {found} {code}");
                    }
                }
            }
        }
    }
}

#[test]
fn convolutions_of_codes() {
    with_all_instructions(|_| {
        let config = Config { cases: 70, failure_persistence: None, ..Config::default() };
        proptest!(config, |(case in case())| case.check());
    });
}

/// Lines of many pixels, of which neighbours share columns of the kernel, and the first and last ones meet padding.
#[test]
fn long_lines_of_depthwise_convolutions() {
    with_all_instructions(|_| {
        for group in [4, 8, 16, 32, 64, 70, 130] {
            for ([rows, columns], stride, dilation, size) in [
                ([3, 3], 1, 1, 23),
                ([3, 3], 2, 1, 23),
                ([3, 3], 3, 1, 23),
                ([3, 3], 1, 2, 23),
                ([3, 3], 4, 2, 23),
                ([3, 3], 1, 1, 120),
                ([1, 3], 1, 1, 23),
                ([1, 3], 2, 1, 23),
                ([3, 1], 2, 1, 23),
                ([3, 2], 1, 1, 23),
                ([5, 5], 1, 1, 23),
                ([5, 5], 2, 1, 24),
                ([2, 7], 1, 1, 9),
            ] {
                let padding = [usize::from(rows > 1); 2];
                let rows =
                    WindowAxis { size: 3, kernel: rows, stride: 1, dilation: 1, pads: padding };
                let line = WindowAxis { size, kernel: columns, stride, dilation, pads: [2, 1] };
                let case = LayerCase {
                    images: 2,
                    axes: vec![rows, line],
                    group,
                    inputs: 1,
                    outputs: 1,
                    zeros: vec![7],
                    any_weights: true,
                    seed: 5,
                };
                case.check();
                #[cfg(feature = "multithread-mm")]
                for threads in [2, 3] {
                    use tract_core::prelude::multithread::*;
                    set_threading_element_threshold(0);
                    multithread_tract_scope(Executor::multithread(threads), || case.check());
                }
            }
        }
    });
}

/// Of layers whose limits and scales are arbitrary, beside exact arithmetic with them: fewer than one code in 10,000 is another
/// one, and that is a neighbour.
#[test]
fn few_codes_differ_from_exact_arithmetic() {
    let axis = || WindowAxis { size: 32, kernel: 3, stride: 1, dilation: 1, pads: [0; 2] };
    let (inputs, outputs) = (16, 32);
    let case = LayerCase {
        images: 1,
        axes: vec![axis(), axis()],
        group: 1,
        inputs,
        outputs,
        zeros: vec![0],
        any_weights: true,
        seed: 9,
    };
    let mut random = random(case.seed);
    let depth = 9 * inputs;
    let codes: Vec<u8> = (0..32 * 32 * inputs).map(|_| random() as u8).collect();
    let weights: Vec<i8> = (0..outputs * depth).map(|_| random() as i8).collect();
    let sums = case.sums(&codes, &weights);
    let of_weights: Vec<i64> =
        weights.chunks(depth).map(|it| it.iter().map(|code| i64::from(*code)).sum()).collect();
    let data = Tensor::from_shape(&[1, 32, 32, inputs], &codes).unwrap();
    let weights = Tensor::from_shape(&[outputs, inputs, 3, 3], &weights).unwrap();
    let mut draw =
        move |from: f32, to: f32| from + (random() % 65536) as f32 / 65536. * (to - from);
    let layers: Vec<_> = (0..8)
        .map(|_| {
            let scales: Vec<f32> = (0..outputs).map(|_| draw(0.001, 0.003)).collect();
            let bias: Vec<f32> = (0..outputs).map(|_| draw(-1., 1.)).collect();
            let limits = [draw(-3., -0.5), draw(0.5, 3.)];
            (limits, scales, bias, [draw(-40., -5.), draw(5., 40.)])
        })
        .collect();
    with_all_instructions(|instructions| {
        let (mut count, mut differ) = (0, 0);
        for ([low, high], scales, bias, [least, most]) in &layers {
            let limited = |low, high| {
                Levels::of_fake_quantize(256, &[[low, high, low, high]]).unwrap().into()
            };
            let (levels, output): (Arc<_>, Arc<_>) = (limited(*low, *high), limited(*least, *most));
            let [low, high, least, most] = [low, high, least, most].map(|it| f64::from(*it));
            let clamp = Activation::Clamp { min: 0., max: 6. };
            for activation in [Activation::Identity, clamp, Activation::Swish] {
                let op = QuantizedConvolution::new(&LayerDescription {
                    spec: case.spec(),
                    group: 1,
                    data: levels.clone(),
                    weights: weights.clone(),
                    scales: scales.iter().zip(bias).map(|(scale, bias)| [*scale, *bias]).collect(),
                    activation,
                    second: None,
                    residual: None,
                    output: Some(output.clone()),
                })
                .unwrap()
                .unwrap();
                let inputs = tvec!(data.clone().into_tvalue());
                let found = op.eval(&EvalContext::out_of_plan(), inputs).unwrap().remove(0);
                let found = found.try_as_plain_ram().unwrap();
                for (at, found) in found.as_slice::<u8>().unwrap().iter().enumerate() {
                    let channel = at % outputs;
                    let product =
                        (high - low) / 255. * sums[at] as f64 + low * of_weights[channel] as f64;
                    let number = product * f64::from(scales[channel]) + f64::from(bias[channel]);
                    let number = match activation {
                        Activation::Clamp { min, max } => number.clamp(min.into(), max.into()),
                        Activation::Swish => number / (1. + (-number).exp()),
                        _ => number,
                    };
                    let code = ((number.clamp(least, most) - least) / (most - least) * 255.)
                        .round_ties_even();
                    let apart = (f64::from(*found) - code).abs();
                    assert!(apart <= 1., "{instructions:?} {activation:?} {at}: {found} {code}");
                    (count, differ) = (count + 1, differ + usize::from(apart > 0.));
                }
            }
        }
        assert!(differ * 10_000 < count, "{instructions:?}: {differ} of {count} codes");
    });
}

/// Each of these is a bias: sums are 0.
#[test]
fn swish_of_any_number() {
    let bias =
        [0., 1e-30, -1e-30, 3., -3., -87., -104., -1e6, -3e38, f32::NEG_INFINITY, 1e6, f32::NAN];
    let expected = bias.map(|x| match f64::from(x) {
        f64::NEG_INFINITY => 0.,
        x => x / (1. + (-x).exp()),
    });
    let weights = Tensor::zero::<i8>(&[bias.len(), 1]).unwrap();
    let data = Tensor::zero::<u8>(&[1, 1]).unwrap();
    let levels = Arc::new(Levels::of_scale(1., 0).unwrap());
    with_all_instructions(|instructions| {
        let op = QuantizedConvolution::new(&LayerDescription {
            spec: PoolSpec::new(
                DataFormat::NHWC,
                tvec![],
                PaddingSpec::Valid,
                None,
                None,
                1,
                bias.len(),
            ),
            group: 1,
            data: levels.clone(),
            weights: weights.clone(),
            scales: bias.map(|bias| [1., bias]).to_vec(),
            activation: Activation::Swish,
            second: None,
            residual: None,
            output: None,
        })
        .unwrap()
        .unwrap();
        let found =
            op.eval(&EvalContext::out_of_plan(), tvec!(data.clone().into_tvalue())).unwrap();
        let found = found[0].try_as_plain_ram().unwrap();
        for (found, expected) in found.as_slice::<f32>().unwrap().iter().zip(expected) {
            let apart = (f64::from(*found) - expected).abs();
            let is_near =
                apart <= 1e-6 * expected.abs().max(1e-3) || found.is_nan() && expected.is_nan();
            assert!(is_near, "{instructions:?}: {found} {expected}");
        }
    });
}

/// The first block of pixels is in the padding, and so are all pixels of an image without elements.
#[test]
fn nothing_but_padding() {
    with_all_instructions(|_| {
        let axis =
            |size, pad| WindowAxis { size, kernel: 1, stride: 1, dilation: 1, pads: [pad; 2] };
        let case = LayerCase {
            images: 1,
            axes: vec![axis(3, 1), axis(200, 1)],
            group: 2,
            inputs: 5,
            outputs: 3,
            zeros: vec![7],
            any_weights: true,
            seed: 3,
        };
        case.check();
        LayerCase { axes: vec![axis(0, 1)], ..case.clone() }.check();
        // Of single channels, without lines and without columns.
        for axes in [vec![axis(0, 1), axis(200, 1)], vec![axis(2, 1), axis(0, 1)]] {
            for group in [16, 70] {
                LayerCase { axes: axes.clone(), group, inputs: 1, outputs: 1, ..case.clone() }
                    .check();
            }
        }
    });
}

/// Sums and products: levels that channels share or not, codes and numbers, and a second tensor of one pixel.
#[test]
fn sums_and_products_of_codes() {
    let limits = [-1.5f32, 2.];
    let levels = |channels: usize, low: f32, step: f32| {
        let limits: Vec<[f32; 4]> = (0..channels)
            .map(|channel| {
                let step = step * (1. + (channel % 7) as f32 / 5.);
                [low, low + 255. * step, low, low + 255. * step]
            })
            .collect();
        Arc::new(Levels::of_fake_quantize(256, &limits).unwrap())
    };
    with_all_instructions(|_| {
        for (channels, is_each) in [(1, false), (5, true), (12, false), (40, true), (300, true)] {
            let of = if is_each { channels } else { 1 };
            let operands = [levels(of, -1., 0.011), levels(of, -0.5, 0.007)];
            let mut random = random(11);
            let mut codes = |images, pixels| {
                let count: usize = images * pixels * channels;
                let codes: Vec<u8> = (0..count).map(|_| random() as u8).collect();
                Tensor::from_shape(&[images, pixels, channels], &codes).unwrap()
            };
            let data = [codes(2, 71), codes(2, 71), codes(2, 1)];
            let of_code = |operand: usize, number: usize, channel: usize| {
                let tensor = data[operand].try_as_plain_ram().unwrap();
                let level = operands[operand.min(1)].of(channel);
                let code = tensor.as_slice::<u8>().unwrap()[number];
                f64::from(level.low) + f64::from(level.scale) * f64::from(code)
            };
            for operation in [Operation::Add, Operation::Multiply] {
                let coded = Some(levels(of, -2., 0.013));
                for (second, output) in [(1, &None), (2, &None), (1, &coded), (2, &coded)] {
                    let op = QuantizedArithmetic::new(
                        operation,
                        limits,
                        operands.clone(),
                        output.clone(),
                        channels,
                    );
                    let eval = || {
                        let (first, second) = (data[0].clone(), data[second].clone());
                        let inputs = tvec!(first.into_tvalue(), second.into_tvalue());
                        op.eval(&EvalContext::out_of_plan(), inputs).unwrap().remove(0)
                    };
                    let found = eval();
                    #[cfg(feature = "multithread-mm")]
                    {
                        use tract_core::prelude::multithread::*;
                        set_threading_element_threshold(0);
                        let shared = multithread_tract_scope(Executor::multithread(3), eval);
                        assert_eq!(shared, found, "{op:?} {second} on threads");
                    }
                    let found = found.cast_to::<f32>().unwrap();
                    let found = found.try_as_plain_ram().unwrap();
                    for (at, found) in found.as_slice::<f32>().unwrap().iter().enumerate() {
                        let channel = at % channels;
                        let of_second = if second == 1 {
                            at
                        } else {
                            at / (71 * channels) * channels + channel
                        };
                        let [x, y] = [of_code(0, at, channel), of_code(second, of_second, channel)];
                        let number = if operation == Operation::Add { x + y } else { x * y };
                        let number = number.clamp(limits[0].into(), limits[1].into());
                        // At a tie both neighbours are right.
                        let (number, bound) = match output {
                            None => (number, 1e-5),
                            Some(levels) => {
                                let level = levels.of(channel);
                                let code =
                                    number * f64::from(level.factor) + f64::from(level.shift);
                                (code.clamp(0., 255.), 0.501)
                            }
                        };
                        let apart = (f64::from(*found) - number).abs();
                        assert!(apart <= bound, "{op:?} {second} {at}: {found} {number}");
                    }
                }
            }
        }
    });
}

/// Threads share the pixels, or the channels where there is one pixel, or more weights than data.
#[test]
#[cfg(feature = "multithread-mm")]
fn threads_share_a_convolution() {
    use tract_core::prelude::multithread::{
        Executor, multithread_tract_scope, set_threading_element_threshold,
    };
    set_threading_element_threshold(0);
    with_all_instructions(|_| {
        for (sizes, kernel, inputs, outputs) in [
            ([9, 31], 1, 70, 40),
            ([14, 14], 3, 20, 70),
            ([1, 1], 1, 70, 300),
            ([2, 5], 3, 70, 430),
            ([1, 35], 1, 600, 450),
        ] {
            let axis =
                |size| WindowAxis { size, kernel, stride: 1, dilation: 1, pads: [kernel / 2; 2] };
            let case = LayerCase {
                images: 1,
                axes: sizes.map(axis).into(),
                group: 1,
                inputs,
                outputs,
                zeros: vec![7],
                any_weights: true,
                seed: 5,
            };
            for threads in [2, 3] {
                multithread_tract_scope(Executor::multithread(threads), || case.check());
            }
        }
    });
}
