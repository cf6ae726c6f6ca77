//! Convolutions and pools against their definition.

use proptest::prelude::*;
use proptest::test_runner::Config;
use tract_core::internal::*;
use tract_core::ops::cnn::{PaddingSpec, PoolSpec};
use tract_core::ops::nn::DataFormat;

use super::{ChannelsLastPool, PackedConvolution, PoolKind, SinglesEpilogue, trimmed};
use crate::bf16::{BF16, converts_bf16};
use crate::isa::Instructions;
#[cfg(target_arch = "x86_64")]
use crate::isa::tests::with_all_instructions;
use crate::product::activation::Activation;
use crate::product::tests::{
    fractions, integers, rounded, rounded_to_bf16, widened, with_all_vectors,
};

#[derive(Debug, Clone)]
struct Axis {
    size: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    begin: usize,
    end: usize,
}

fn axis() -> impl Strategy<Value = Axis> {
    let more = prop_oneof![9 => 1..20usize, 1 => 30..45usize];
    (more, 1..4usize, 1..4usize, prop_oneof![4 => 1..3usize, 1 => 3..10usize])
        .prop_flat_map(|(more, kernel, stride, dilation)| {
            let reach = (kernel - 1) * dilation + 1;
            (Just((more, kernel, stride, dilation)), 0..reach, 0..reach)
        })
        .prop_map(|((more, kernel, stride, dilation), begin, end)| {
            let reach = (kernel - 1) * dilation + 1;
            let size = (more + reach).saturating_sub(begin + end).max(1);
            Axis { size, kernel, stride, dilation, begin, end }
        })
        .prop_filter("the kernel fits", |axis| {
            axis.size + axis.begin + axis.end > (axis.kernel - 1) * axis.dilation
        })
}

fn spec(axes: &[Axis], inputs: usize, outputs: usize) -> PoolSpec {
    let of = |number: fn(&Axis) -> usize| axes.iter().map(number).collect::<TVec<usize>>();
    PoolSpec::new(
        DataFormat::NHWC,
        of(|axis| axis.kernel),
        PaddingSpec::Explicit(of(|axis| axis.begin), of(|axis| axis.end)),
        Some(of(|axis| axis.dilation)),
        Some(of(|axis| axis.stride)),
        inputs,
        outputs,
    )
}

/// The numbers of an array of some sizes, counted from 0.
pub(crate) fn numbers(sizes: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let sizes = sizes.to_vec();
    (0..sizes.iter().product()).map(move |mut number| {
        let mut index = vec![0; sizes.len()];
        for (axis, size) in sizes.iter().enumerate().rev() {
            (index[axis], number) = (number % size, number / size);
        }
        index
    })
}

fn flat(index: &[usize], sizes: &[usize]) -> usize {
    index.iter().zip(sizes).fold(0, |flat, (index, size)| flat * size + index)
}

/// What each element of the output is made of: for each element of the kernel, where it is in the image, if it is
/// no padding.
fn windows(axes: &[Axis]) -> (Vec<usize>, Vec<Vec<Option<usize>>>) {
    let output: Vec<usize> = axes
        .iter()
        .map(|axis| {
            (axis.size + axis.begin + axis.end - (axis.kernel - 1) * axis.dilation - 1)
                / axis.stride
                + 1
        })
        .collect();
    let kernel: Vec<usize> = axes.iter().map(|axis| axis.kernel).collect();
    let sizes: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
    let at = |pixel: &[usize], element: &[usize]| {
        let index = axes.iter().zip(pixel.iter().zip(element)).map(|(axis, (pixel, element))| {
            let padded = pixel * axis.stride + element * axis.dilation;
            padded.checked_sub(axis.begin).filter(|index| *index < axis.size)
        });
        Some(flat(&index.collect::<Option<Vec<usize>>>()?, &sizes))
    };
    let windows = numbers(&output)
        .map(|pixel| numbers(&kernel).map(|element| at(&pixel, &element)).collect())
        .collect();
    (output, windows)
}

fn shape(leading: &[usize], spatial: &[usize]) -> TVec<usize> {
    leading.iter().chain(spatial).copied().collect()
}

/// A tensor `[batch, channels, spatial axes]` with the channels last.
fn channels_last(tensor: &Tensor) -> TractResult<Tensor> {
    tensor.clone().move_axis(1, tensor.rank() - 1)
}

/// What an operator gives for data that has the channels last.
fn run(op: &dyn EvalOp, inputs: &[&Tensor]) -> TractResult<Tensor> {
    let inputs = inputs.iter().map(|input| (*input).clone().into()).collect();
    Ok(op.eval(&EvalContext::out_of_plan(), inputs)?.remove(0).into_tensor())
}

/// Calls a function where two threads share the work, and three, however little there is. Without threads it does nothing.
fn on_threads(_function: impl Fn()) {
    #[cfg(feature = "multithread-mm")]
    for threads in [2, 3] {
        use tract_core::prelude::multithread::*;
        set_threading_element_threshold(0);
        multithread_tract_scope(Executor::multithread(threads), &_function);
    }
}

/// Which tensors of a convolution are in bf16: its data, what is added, and its output.
#[derive(Debug, Clone, Copy)]
struct Types([bool; 3]);

impl Types {
    /// None of them, and these, as far as they may be.
    fn of(op: &PackedConvolution, types: [bool; 3]) -> [Types; 2] {
        [Types([false; 3]), Types(types.map(|is_in_bf16| is_in_bf16 && op.takes_bf16()))]
    }

    fn changed(self, op: &PackedConvolution) -> PackedConvolution {
        if self.0[2] { op.with_output_in_bf16() } else { op.clone() }
    }

    /// Integers of this size are the same in bf16.
    fn inputs<'a>(self, inputs: impl Iterator<Item = &'a Tensor>) -> TVec<TValue> {
        let of_type = |(input, is_in_bf16): (&Tensor, bool)| match is_in_bf16 {
            true => rounded(input).into(),
            false => input.clone().into(),
        };
        inputs.zip(self.0).map(of_type).collect()
    }

    fn check(self, found: &Tensor, expected: &Tensor, is_exact: bool) {
        if !self.0[2] {
            let how = if is_exact { Approximation::Exact } else { Approximation::Close };
            return found.close_enough(expected, how).unwrap();
        }
        assert_eq!((found.datum_type(), found.shape()), (BF16, expected.shape()));
        let found = widened(found);
        let tensors = [&found, expected].map(|it| it.try_as_plain_ram().unwrap());
        let [found, expected] = [0, 1].map(|it| tensors[it].as_slice::<f32>().unwrap());
        for (found, expected) in found.iter().zip(expected) {
            let error = if is_exact { 0. } else { 0.01 * expected.abs() + 1e-5 };
            let expected = rounded_to_bf16(*expected);
            assert!((found - expected).abs() <= error, "{found} for {expected}, {self:?}");
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 192, failure_persistence: None, ..Config::default() })]

    #[test]
    fn convolutions(
        axes in proptest::collection::vec(axis(), 1..=3),
        batch in 1..3usize,
        (group, inputs, outputs) in prop_oneof![
            4 => (
                1..4usize,
                prop_oneof![9 => 1..4usize, 2 => 5..40usize, 1 => 45..50usize],
                prop_oneof![8 => 1..4usize, 8 => 7..20usize, 2 => 49..56usize, 1 => 113..140usize],
            ),
            1 => (1..150usize, Just(1), Just(1)),
            // Several groups are a vector.
            1 => (2..12usize, prop_oneof![Just(2), Just(4), Just(8)]).prop_map(|(group, size)| (group, size, size)),
        ],
        // In registers, and one vector after the other.
        activation in prop_oneof![
            3 => Just(Activation::Clamp { min: -10., max: f32::INFINITY }),
            1 => Just(Activation::HARD_SWISH),
            1 => Just(Activation::Swish),
        ],
        has_slopes in any::<bool>(),
        adds in any::<bool>(),
        types in any::<[bool; 3]>(),
    ) {
        let (output, windows) = windows(&axes);
        let sizes: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
        let kernel: Vec<usize> = axes.iter().map(|axis| axis.kernel).collect();
        let image: usize = sizes.iter().product();
        let depth: usize = kernel.iter().product();
        let data = integers(batch * group * inputs * image);
        let weights = integers(group * outputs * inputs * depth);
        let bias = integers(group * outputs);
        let slopes: Vec<f32> = (0..group * outputs).map(|it| (it % 5) as f32 / 2. - 1.).collect();
        let residual = integers(batch * group * outputs * windows.len());
        let mut expected = vec![];
        for part in 0..batch * group {
            for channel in 0..outputs {
                let channel = part % group * outputs + channel;
                for window in &windows {
                    let mut sum = bias[channel];
                    for input in 0..inputs {
                        for (element, at) in window.iter().enumerate() {
                            let weight = weights[(channel * inputs + input) * depth + element];
                            sum += at.map_or(0., |at| data[(part * inputs + input) * image + at]) * weight;
                        }
                    }
                    let others = if adds { residual[expected.len()] } else { 0. };
                    let sum = activation.apply(pulp::Scalar::new(), sum + others);
                    expected.push(if has_slopes && sum < 0. { sum * slopes[channel] } else { sum });
                }
            }
        }
        let spec = spec(&axes, group * inputs, group * outputs);
        prop_assert!(PackedConvolution::takes(&spec));
        let data = Tensor::from_shape(&shape(&[batch, group * inputs], &sizes), &data).unwrap();
        let weights = Tensor::from_shape(&shape(&[group * outputs, inputs], &kernel), &weights).unwrap();
        let of_output = shape(&[batch, group * outputs], &output);
        let expected = channels_last(&Tensor::from_shape(&of_output, &expected).unwrap()).unwrap();
        let residual = channels_last(&Tensor::from_shape(&of_output, &residual).unwrap()).unwrap();
        let data = channels_last(&data).unwrap();
        let epilogue = SinglesEpilogue {
            adds,
            activation,
            slopes: has_slopes.then_some(slopes),
        };
        // Functions are rounded differently with other instructions.
        let is_exact = matches!(activation, Activation::Clamp { .. });
        let trimmed = trimmed(&spec, &weights, &sizes).unwrap();
        // A batch of one may be missing.
        let mut without_batch = [&data, &residual, &expected].map(Tensor::clone);
        if batch == 1 {
            without_batch.iter_mut().for_each(|tensor| tensor.remove_axis(0).unwrap());
        }
        let with_batch = [data, residual, expected];
        for (spec, weights) in trimmed.iter().chain([&(spec, weights)]) {
            let check = || {
                for has_batch in [true, false].into_iter().take(if batch == 1 { 2 } else { 1 }) {
                    let (spec, [data, residual, expected]) = match has_batch {
                        true => (spec.clone(), &with_batch),
                        false => (spec.clone().dispose_n_axis(), &without_batch),
                    };
                    // Integers of this size are the same in bf16.
                    for bf16 in [None, Instructions::detect().bf16()] {
                        let (spec, epilogue) = (spec.clone(), epilogue.clone());
                        let op = PackedConvolution::new(spec, group, weights, &bias, epilogue, bf16).unwrap();
                        for types in Types::of(&op, types) {
                            let op = types.changed(&op);
                            let inputs = [data, residual].into_iter().take(if adds { 2 } else { 1 });
                            let inputs: TVec<TValue> = types.inputs(inputs);
                            // A residual that somebody else has stays as it is, another one may become the output.
                            for inputs in [inputs.clone(), inputs] {
                                let found = op.eval(&EvalContext::out_of_plan(), inputs).unwrap().remove(0);
                                types.check(&found, expected, is_exact);
                            }
                        }
                    }
                }
            };
            with_all_vectors(check);
            on_threads(check);
        }
    }

    #[test]
    fn pools(
        axes in proptest::collection::vec(axis(), 1..=3),
        batch in 1..3usize,
        channels in prop_oneof![1..4usize, 15..70usize],
    ) {
        let (output, windows) = windows(&axes);
        let sizes: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
        let image: usize = sizes.iter().product();
        let data = integers(batch * channels * image);
        for kind in [PoolKind::Max, PoolKind::Sum, PoolKind::Mean, PoolKind::MeanWithPadding] {
            let expected: Vec<f32> = (0..batch * channels)
                .flat_map(|channel| {
                    let image = &data[channel * image..][..image];
                    windows.iter().map(move |window| {
                        let elements = window.iter().flatten().map(|at| image[*at]);
                        let count = elements.clone().count() as f32;
                        match kind {
                            PoolKind::Max => elements.fold(f32::MIN, f32::max),
                            PoolKind::Sum => elements.sum(),
                            PoolKind::Mean => elements.sum::<f32>() / count,
                            PoolKind::MeanWithPadding => elements.sum::<f32>() / window.len() as f32,
                        }
                    })
                })
                .collect();
            let data = Tensor::from_shape(&shape(&[batch, channels], &sizes), &data).unwrap();
            let expected = Tensor::from_shape(&shape(&[batch, channels], &output), &expected).unwrap();
            let [data, expected] = [data, expected].map(|tensor| channels_last(&tensor).unwrap());
            // In bf16, the least of all finite numbers is another one.
            let mut of_finite = expected.clone();
            for number in of_finite.try_as_plain_ram_mut().unwrap().as_slice_mut::<f32>().unwrap() {
                if *number == f32::MIN {
                    *number = -f32::from_bits(0x7f7f_0000);
                }
            }
            let check = || {
                let op = ChannelsLastPool::new(spec(&axes, channels, channels), kind);
                let exactly = matches!(kind, PoolKind::Max | PoolKind::Sum);
                let how = if exactly { Approximation::Exact } else { Approximation::Approximate };
                let of_types = [(&data, &expected), (&rounded(&data), &of_finite)];
                for (data, expected) in of_types.iter().take(if converts_bf16() { 2 } else { 1 }) {
                    run(&op, &[data]).unwrap().close_enough(expected, how).unwrap();
                    let Some(op) = op.with_output_in_bf16() else { continue };
                    let found = run(&op, &[data]).unwrap();
                    Types([false, false, true]).check(&found, &of_finite, true);
                }
            };
            with_all_vectors(check);
            on_threads(check);
        }
    }
}

/// Means of integers are rounded once: layers of integers cut off what is behind the point.
#[test]
fn means_of_integers_that_are_integers() -> TractResult<()> {
    let axis = Axis { size: 40, kernel: 3, stride: 1, dilation: 1, begin: 0, end: 0 };
    let data = integers(40 * 40).iter().map(|it| 9. * it).collect::<Vec<f32>>();
    let data = Tensor::from_shape(&[1, 40, 40, 1], &data)?;
    for kind in [PoolKind::Mean, PoolKind::MeanWithPadding] {
        let op = ChannelsLastPool::new(spec(&[axis.clone(), axis.clone()], 1, 1), kind);
        let check = || {
            let found = run(&op, &[&data]).unwrap();
            let found = found.try_as_plain_ram().unwrap();
            assert!(found.as_slice::<f32>().unwrap().iter().all(|mean| mean.fract() == 0.));
        };
        with_all_vectors(check);
        on_threads(check);
    }
    Ok(())
}

/// What is not finite stays so, and meets no pixel but its own.
#[test]
fn infinities_and_nan() -> TractResult<()> {
    let axis = Axis { size: 9, kernel: 3, stride: 1, dilation: 1, begin: 1, end: 1 };
    for (group, channels) in [(1, 5), (5, 5), (40, 40), (5, 40), (7, 28), (3, 6)] {
        let spec = spec(&[axis.clone(), axis.clone()], channels, channels);
        let weights = Tensor::from_shape(
            &[channels, channels / group, 3, 3],
            &vec![1f32; channels * channels / group * 9],
        )?;
        for number in [f32::NAN, f32::INFINITY] {
            let mut data = vec![1f32; 81 * channels];
            data[(4 * 9 + 4) * channels] = number;
            let data = Tensor::from_shape(&[1, 9, 9, channels], &data)?;
            with_all_vectors(|| {
                for bf16 in [None, Instructions::detect().bf16()] {
                    let (spec, bias) = (spec.clone(), vec![0.; channels]);
                    let epilogue = SinglesEpilogue::default();
                    let op = PackedConvolution::new(spec, group, &weights, &bias, epilogue, bf16);
                    let op = op.unwrap();
                    let in_bf16 = op.takes_bf16().then(|| rounded(&data));
                    let with_output = in_bf16.as_ref().map(|data| (data, op.with_output_in_bf16()));
                    let in_singles = [&data].into_iter().chain(&in_bf16).map(|it| (it, op.clone()));
                    for (data, op) in in_singles.chain(with_output) {
                        let found = run(&op, &[data]).unwrap();
                        let found =
                            if found.datum_type() == BF16 { widened(&found) } else { found };
                        let found = found.try_as_plain_ram().unwrap();
                        for (at, found) in found.as_slice::<f32>().unwrap().iter().enumerate() {
                            let (pixel, channel) = (at / channels, at % channels);
                            let meets =
                                (pixel / 9).abs_diff(4) <= 1 && (pixel % 9).abs_diff(4) <= 1;
                            let is_of_it = meets && channel < channels / group;
                            assert_eq!(found.is_finite(), !is_of_it, "{number} {pixel} {channel}");
                        }
                    }
                }
            });
        }
    }
    Ok(())
}

/// Each channel on its own in bf16 is what it is in single precision, rounded: products are added in the same order.
#[test]
fn channels_in_bf16() -> TractResult<()> {
    let activations = [
        Activation::Identity,
        Activation::Clamp { min: -0.5, max: 0.75 },
        Activation::HARD_SWISH,
        Activation::Swish,
    ];
    for (columns, stride) in [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (4, 1), (3, 3)] {
        for (channels, size, [begin, end]) in [
            (32, 23, [columns / 2, columns / 2]),
            (80, 19, [0, 0]),
            (36, columns, [columns - 1, 1]),
            (150, 9, [1, columns - 1]),
            (31, 16, [1, 1]),
        ] {
            let axis = |size| Axis { size, kernel: columns, stride, dilation: 1, begin, end };
            // Rows have another kernel, and the first axis has none.
            let row = Axis { size: 8, kernel: 3, stride: 2, dilation: 2, begin: 1, end: 2 };
            let first = Axis { size: 2, kernel: 1, stride: 1, dilation: 1, begin: 0, end: 0 };
            let axes = [first, row, axis(size)];
            let data = fractions(2 * 2 * 8 * size * channels);
            let data = rounded(&Tensor::from_shape(&[2, 2, 8, size, channels], &data)?);
            let weights = fractions(channels * 3 * columns);
            let weights = Tensor::from_shape(&[channels, 1, 1, 3, columns], &weights)?;
            let bias = fractions(channels);
            for activation in activations {
                let check = || {
                    let Some(bf16) = Instructions::detect().bf16() else { return };
                    let spec = spec(&axes, channels, channels);
                    let epilogue = SinglesEpilogue { activation, ..SinglesEpilogue::default() };
                    let op = PackedConvolution::new(
                        spec,
                        channels,
                        &weights,
                        &bias,
                        epilogue,
                        Some(bf16),
                    );
                    let op = op.unwrap();
                    let expected = rounded(&run(&op, &[&widened(&data)]).unwrap());
                    let found = run(&op.with_output_in_bf16(), &[&data]).unwrap();
                    assert_eq!(found, expected, "{channels} {size} {columns} {activation:?}");
                };
                with_all_vectors(check);
                on_threads(check);
            }
        }
    }
    Ok(())
}

/// Rounded factors, against sums in double precision: with tiles, and there alone.
#[test]
#[cfg(target_arch = "x86_64")]
fn rounded_factors() -> TractResult<()> {
    let size = 9;
    let axis = |kernel: usize, stride| {
        let pad = kernel / 2;
        Axis { size, kernel, stride, dilation: 1, begin: pad, end: pad }
    };
    for (kernel, stride, inputs, outputs) in
        [(3, 1, 5, 20), (3, 2, 3, 70), (1, 1, 40, 50), (1, 2, 33, 7), (3, 1, 34, 3)]
    {
        let axes = [axis(kernel, stride), axis(kernel, stride)];
        let (data, weights) =
            (fractions(size * size * inputs), fractions(outputs * inputs * kernel * kernel));
        let (sizes, windows) = windows(&axes);
        let bias = vec![0.; outputs];
        let spec = spec(&axes, inputs, outputs);
        let shape = [outputs, inputs, kernel, kernel];
        let of_weights = Tensor::from_shape(&shape, &weights)?;
        let of_data = Tensor::from_shape(&[1, size, size, inputs], &data)?;
        with_all_instructions(|instructions| {
            let (spec, epilogue) = (spec.clone(), SinglesEpilogue::default());
            let bf16 = instructions.bf16();
            let op = PackedConvolution::new(spec, 1, &of_weights, &bias, epilogue, bf16).unwrap();
            let is_rounded = op.rounds();
            assert_eq!(is_rounded, instructions.has_amx(), "{instructions:?}");
            let factor =
                |number: f32| f64::from(if is_rounded { rounded_to_bf16(number) } else { number });
            let found = run(&op, &[&of_data]).unwrap();
            assert_eq!(found.shape(), [1, sizes[0], sizes[1], outputs]);
            let found = found.try_as_plain_ram().unwrap();
            let found = found.as_slice::<f32>().unwrap().chunks_exact(outputs);
            for (found, window) in found.zip(&windows) {
                for (channel, found) in found.iter().enumerate() {
                    let met = window.iter().enumerate().filter_map(|(tap, at)| Some((tap, (*at)?)));
                    let terms = met.flat_map(|(tap, at)| {
                        let (data, weights) = (&data, &weights);
                        (0..inputs).map(move |input| {
                            let weight = (channel * inputs + input) * kernel * kernel + tap;
                            factor(data[at * inputs + input]) * factor(weights[weight])
                        })
                    });
                    let terms: Vec<f64> = terms.collect();
                    let sum: f64 = terms.iter().sum();
                    let sizes: f64 = terms.iter().map(|term| term.abs()).sum();
                    let error = (f64::from(*found) - sum).abs();
                    assert!(error <= 4e-6 * sizes, "{found} for {sum}, {instructions:?}");
                }
            }
        });
    }
    Ok(())
}

/// Padding makes pixels of data without elements: they are the bias.
#[test]
fn data_without_elements() -> TractResult<()> {
    let padded = |size| Axis { size, kernel: 2, stride: 1, dilation: 1, begin: 1, end: 1 };
    for (group, inputs, outputs) in [(1, 2, 3), (3, 3, 3), (2, 8, 8), (2, 16, 16)] {
        for (kernel_of_one, sizes) in [(false, [0, 3]), (true, [0, 3]), (false, [3, 0])] {
            let axes = sizes.map(|size| match kernel_of_one {
                true => Axis { kernel: 1, ..padded(size) },
                false => padded(size),
            });
            let spec = spec(&axes, inputs, outputs);
            let kernel = spec.kernel_shape.clone();
            let weights = Tensor::zero::<f32>(&shape(&[outputs, inputs / group], &kernel))?;
            let bias: Vec<f32> = (1..=outputs).map(|number| number as f32).collect();
            with_all_vectors(|| {
                for bf16 in [None, Instructions::detect().bf16()] {
                    let (spec, epilogue) = (spec.clone(), SinglesEpilogue::default());
                    let op = PackedConvolution::new(spec, group, &weights, &bias, epilogue, bf16);
                    let data = Tensor::zero::<f32>(&[1, sizes[0], sizes[1], inputs]).unwrap();
                    let found = run(&op.unwrap(), &[&data]).unwrap();
                    assert_eq!(found.len(), outputs * if kernel_of_one { 2 * 5 } else { 4 });
                    let found = found.try_as_plain_ram().unwrap();
                    for pixel in found.as_slice::<f32>().unwrap().chunks_exact(outputs) {
                        assert_eq!(*pixel, bias[..]);
                    }
                }
            });
        }
    }
    Ok(())
}

#[test]
fn wide_dilations_are_trimmed() -> TractResult<()> {
    let axis =
        |size, dilation, begin, end| Axis { size, kernel: 3, stride: 1, dilation, begin, end };
    let kernel = |axis: Axis| -> TractResult<Option<(usize, PaddingSpec)>> {
        let size = axis.size;
        let weights = tensor3(&[[[1f32, 2., 3.]]]);
        let trimmed = trimmed(&spec(&[axis], 1, 1), &weights, &[size])?;
        Ok(trimmed.map(|(spec, weights)| {
            assert_eq!(weights.shape()[2..], *spec.kernel_shape);
            (weights.len(), spec.padding)
        }))
    };
    let explicit = |begin, end| PaddingSpec::Explicit(tvec![begin], tvec![end]);
    assert_eq!(kernel(axis(20, 24, 24, 24))?, Some((1, explicit(0, 0))));
    // The last element alone is met by none.
    assert_eq!(kernel(axis(20, 10, 0, 20))?, Some((2, explicit(0, 10))));
    assert_eq!(kernel(axis(20, 19, 19, 19))?, None);
    Ok(())
}
