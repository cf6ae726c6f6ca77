//! Convolutions and pools against their definition.

use proptest::prelude::*;
use proptest::test_runner::Config;
use tract_core::internal::*;
use tract_core::ops::cnn::{PaddingSpec, PoolSpec};
use tract_core::ops::nn::DataFormat;

use super::products::prefers_rows;
use super::{PackedConvolution, PoolOf, PoolOfPlanes, trimmed};
use crate::product::STEPS;
use crate::product::activation::Activation;
use crate::product::tests::{integers, with_all_vectors};
use crate::window::Window;

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
    (1..20usize, 1..4usize, 1..4usize, prop_oneof![4 => 1..3usize, 1 => 3..10usize])
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
        DataFormat::NCHW,
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

/// Calls a function where two threads share the work, and three, however little there is. Without threads it does nothing.
fn on_threads(_function: impl Fn()) {
    #[cfg(feature = "multithread-mm")]
    for threads in [2, 3] {
        use tract_core::prelude::multithread::*;
        set_threading_element_threshold(0);
        multithread_tract_scope(Executor::multithread(threads), &_function);
    }
}

proptest! {
    #![proptest_config(Config { cases: 192, failure_persistence: None, ..Config::default() })]

    #[test]
    fn convolutions(
        axes in proptest::collection::vec(axis(), 1..=3),
        batch in 1..3usize,
        group in 1..4usize,
        inputs in prop_oneof![9 => 1..4usize, 1 => 45..50usize],
        // Many read packed patches, few read them in place.
        outputs in prop_oneof![4 => 1..4usize, 4 => 7..20usize, 1 => 49..56usize],
        has_slopes in any::<bool>(),
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
                    let sum = sum.max(-10.);
                    expected.push(if has_slopes && sum < 0. { sum * slopes[channel] } else { sum });
                }
            }
        }
        let spec = spec(&axes, group * inputs, group * outputs);
        prop_assert!(PackedConvolution::takes(&spec));
        let data = Tensor::from_shape(&shape(&[batch, group * inputs], &sizes), &data).unwrap();
        let weights = Tensor::from_shape(&shape(&[group * outputs, inputs], &kernel), &weights).unwrap();
        let expected = Tensor::from_shape(&shape(&[batch, group * outputs], &output), &expected).unwrap();
        let activation = Activation::Clamp { min: -10., max: f32::INFINITY };
        let with_slopes = |op: PackedConvolution| match has_slopes {
            true => op.with_slopes(slopes.clone()).unwrap(),
            false => op,
        };
        let trimmed = trimmed(&spec, &weights, &sizes).unwrap();
        // A batch of one may be missing.
        let mut without_batch = (data.clone(), expected.clone());
        if batch == 1 {
            without_batch.0.remove_axis(0).unwrap();
            without_batch.1.remove_axis(0).unwrap();
        }
        for (spec, weights) in trimmed.iter().chain([&(spec, weights)]) {
            with_all_vectors(|| {
                for sizes in [Some(&sizes[..]), None] {
                    for has_batch in [true, false].into_iter().take(if batch == 1 { 2 } else { 1 }) {
                        let mut spec = spec.clone();
                        let (mut data, mut expected) = (&data, &expected);
                        if !has_batch {
                            spec = spec.dispose_n_axis();
                            (data, expected) = (&without_batch.0, &without_batch.1);
                        }
                        let op = PackedConvolution::new(spec, group, activation, weights, bias.clone(), sizes);
                        let found = with_slopes(op.unwrap()).eval(&EvalContext::out_of_plan(), tvec!(data.clone().into()));
                        assert_eq!(*found.unwrap()[0], *expected);
                    }
                }
            });
            on_threads(|| {
                let op = PackedConvolution::new(spec.clone(), group, activation, weights, bias.clone(), Some(&sizes));
                let found = with_slopes(op.unwrap()).eval(&EvalContext::out_of_plan(), tvec!(data.clone().into()));
                assert_eq!(*found.unwrap()[0], expected);
            });
        }
    }

    #[test]
    fn pools(axes in proptest::collection::vec(axis(), 1..=2), batch in 1..3usize, channels in 1..4usize) {
        let (output, windows) = windows(&axes);
        let sizes: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
        let image: usize = sizes.iter().product();
        let data = integers(batch * channels * image);
        for of in [PoolOf::Max, PoolOf::Sum, PoolOf::Mean, PoolOf::MeanWithPadding] {
            let expected: Vec<f32> = (0..batch * channels)
                .flat_map(|channel| {
                    let image = &data[channel * image..][..image];
                    windows.iter().map(move |window| {
                        let elements = window.iter().flatten().map(|at| image[*at]);
                        let count = elements.clone().count() as f32;
                        match of {
                            PoolOf::Max => elements.fold(f32::MIN, f32::max),
                            PoolOf::Sum => elements.sum(),
                            PoolOf::Mean => elements.sum::<f32>() / count,
                            PoolOf::MeanWithPadding => elements.sum::<f32>() / window.len() as f32,
                        }
                    })
                })
                .collect();
            let data = Tensor::from_shape(&shape(&[batch, channels], &sizes), &data).unwrap();
            let expected = Tensor::from_shape(&shape(&[batch, channels], &output), &expected).unwrap();
            let check = || {
                let op = PoolOfPlanes::new(spec(&axes, channels, channels), of);
                let found = op.eval(&EvalContext::out_of_plan(), tvec!(data.clone().into())).unwrap();
                let exactly = matches!(of, PoolOf::Max | PoolOf::Sum);
                let how = if exactly { Approximation::Exact } else { Approximation::Approximate };
                found[0].close_enough(&expected, how).unwrap();
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
    let data = Tensor::from_shape(&[1, 1, 40, 40], &data)?;
    for of in [PoolOf::Mean, PoolOf::MeanWithPadding] {
        let op = PoolOfPlanes::new(spec(&[axis.clone(), axis.clone()], 1, 1), of);
        let check = || {
            let found = op.eval(&EvalContext::out_of_plan(), tvec!(data.clone().into())).unwrap();
            let found = found[0].try_as_plain_ram().unwrap();
            assert!(found.as_slice::<f32>().unwrap().iter().all(|mean| mean.fract() == 0.));
        };
        with_all_vectors(check);
        on_threads(check);
    }
    Ok(())
}

/// A convolution of few pixels gives the same with either factor packed.
#[test]
fn few_pixels_are_rows() -> TractResult<()> {
    let (inputs, outputs, depth) = (48, 512, 48 * 9);
    assert!(depth > STEPS, "the sums have several parts");
    let axis = Axis { size: 7, kernel: 3, stride: 1, dilation: 1, begin: 1, end: 1 };
    for (batch, group) in [(1, 1), (2, 2)] {
        let spec = spec(&[axis.clone(), axis.clone()], group * inputs, group * outputs);
        let data = integers(batch * group * inputs * 49);
        let data = Tensor::from_shape(&[batch, group * inputs, 7, 7], &data)?;
        let weights = integers(group * outputs * depth);
        let weights = Tensor::from_shape(&[group * outputs, inputs, 3, 3], &weights)?;
        let bias = integers(group * outputs);
        with_all_vectors(|| {
            let window = Window::new(&spec, &[7, 7]).unwrap();
            assert!(prefers_rows(window, outputs, depth));
            let [known, unknown] = [Some(&[7, 7][..]), None].map(|sizes| {
                let activation = Activation::Clamp { min: -10., max: 100. };
                let (spec, bias) = (spec.clone(), bias.clone());
                let op = PackedConvolution::new(spec, group, activation, &weights, bias, sizes);
                op.unwrap().eval(&EvalContext::out_of_plan(), tvec!(data.clone().into())).unwrap()
            });
            assert_eq!(known, unknown);
        });
    }
    Ok(())
}

/// Bands of one plane, wherever they end in a row, give what the same plane twice does, which has none.
#[test]
fn bands_end_anywhere() -> TractResult<()> {
    let (inputs, outputs) = (2, 8);
    // In the last one the first of two threads ends where a row of the padded data does, and its lines of the cache, too.
    for [height, width] in [[11, 20], [12, 47], [9, 131], [128, 128]] {
        let of_plane = |size| Axis { size, kernel: 5, stride: 1, dilation: 1, begin: 2, end: 2 };
        let planes = Axis { size: 2, kernel: 1, stride: 1, dilation: 1, begin: 0, end: 0 };
        let axes = [planes, of_plane(height), of_plane(width)];
        let plane = integers(inputs * height * width);
        let twice: Vec<f32> = plane
            .chunks_exact(height * width)
            .flat_map(|channel| [channel, channel].concat())
            .collect();
        let weights = integers(outputs * inputs * 25);
        let run = |axes: &[Axis], data: &[f32]| {
            let sizes: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
            let spec = spec(axes, inputs, outputs);
            let weights =
                Tensor::from_shape(&shape(&[outputs, inputs], &spec.kernel_shape), &weights)?;
            let bias = integers(outputs);
            let op = PackedConvolution::new(
                spec,
                1,
                Activation::Identity,
                &weights,
                bias,
                Some(&sizes),
            )?;
            let data = Tensor::from_shape(&shape(&[1, inputs], &sizes), data)?;
            Ok(op.eval(&EvalContext::out_of_plan(), tvec!(data.into()))?.remove(0).into_tensor())
        };
        let expected: Tensor = run(&axes, &twice)?;
        let expected = expected.slice(2, 0, 1)?.into_shape(&[1, outputs, height, width])?;
        let check = || {
            let found: TractResult<Tensor> = run(&axes[1..], &plane);
            assert_eq!(found.unwrap(), expected, "{height} {width}");
        };
        check();
        on_threads(check);
    }
    Ok(())
}

/// Padding makes pixels of data without elements: they are the bias.
#[test]
fn data_without_elements() -> TractResult<()> {
    let padded = |size| Axis { size, kernel: 2, stride: 1, dilation: 1, begin: 1, end: 1 };
    for kernel_of_one in [false, true] {
        let axes = [0, 3].map(|size| match kernel_of_one {
            true => Axis { kernel: 1, ..padded(size) },
            false => padded(size),
        });
        let spec = spec(&axes, 2, 3);
        let kernel = spec.kernel_shape.clone();
        let weights = Tensor::zero::<f32>(&shape(&[3, 2], &kernel))?;
        let bias = vec![1f32, 2., 3.];
        let op = PackedConvolution::new(spec, 1, Activation::Identity, &weights, bias, None)?;
        let data = Tensor::zero::<f32>(&[1, 2, 0, 3])?;
        let found = op.eval(&EvalContext::out_of_plan(), tvec!(data.into()))?;
        let pixels = found[0].len() / 3;
        assert_eq!(pixels, if kernel_of_one { 2 * 5 } else { 4 });
        let found = found[0].try_as_plain_ram()?;
        for (number, element) in found.as_slice::<f32>()?.iter().enumerate() {
            assert_eq!(*element, (number / pixels + 1) as f32);
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
