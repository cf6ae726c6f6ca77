//! Softmax along an axis.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use tract_core::internal::*;

use crate::checks::{expect_inputs, extent};
use crate::cost;
use crate::isa::max_or_second;
use crate::memory::{filled_output, floats};
use crate::product::activation::{LEAST_OF_EXP, exp_of_limited};
use crate::product::{Output, PARTS, Shares, Tile, Vectors, load, store};
use crate::threads::Division;

/// `exp(x - max(x)) / sum(exp(x - max(x)))`, of the elements along an axis. The data is of type F32 and has the axis; the output has
/// its shape. Where all elements are `-inf`, or one is NaN or `inf`, the result is NaN.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SoftmaxOfAxis {
    pub axis: usize,
}

/// `exp(x)` of numbers that are 0 or less. What is too small for a normal number is 0, and NaN is kept.
#[inline(always)]
fn power_below<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let least = simd.splat_f32s(LEAST_OF_EXP);
    let power = exp_of_limited(simd, max_or_second(simd, least, x));
    simd.select_f32s(simd.less_than_f32s(x, least), simd.splat_f32s(0.), power)
}

/// The softmax of a row, in its place.
#[inline(always)]
fn softmax_of_row<S: Simd>(simd: S, row: &mut [f32]) {
    let mut greatest = simd.splat_f32s(f32::NEG_INFINITY);
    let mut vectors = row.chunks_exact(S::F32_LANES);
    for part in &mut vectors {
        greatest = max_or_second(simd, load(simd, part), greatest);
    }
    let rest = vectors.remainder().iter().copied();
    let greatest = rest.fold(simd.reduce_max_f32s(greatest), f32::max);
    softmax_below(simd, row, greatest, None);
}

/// The softmax of a row whose greatest element is known, in its place: of its elements and one more, if there is a sink, but without the
/// weight of that.
#[inline(always)]
pub(crate) fn softmax_below<S: Simd>(simd: S, row: &mut [f32], greatest: f32, sink: Option<f32>) {
    let greatest = greatest.max(sink.unwrap_or(f32::NEG_INFINITY));
    let of_sink = sink.map_or(0., |sink| (sink - greatest).exp());
    // If that is `-inf`, the differences are NaN.
    let greatest = simd.splat_f32s(greatest);
    let mut sums = simd.splat_f32s(0.);
    for part in row.chunks_mut(S::F32_LANES) {
        let power = power_below(simd, simd.sub_f32s(load(simd, part), greatest));
        store(simd, part, power);
        sums = match part.len() == S::F32_LANES {
            true => simd.add_f32s(sums, power),
            // The other lanes are no elements.
            false => simd.add_f32s(sums, simd.partial_load_f32s(part)),
        };
    }
    let factor = simd.splat_f32s(1. / (simd.reduce_sum_f32s(sums) + of_sink));
    for part in row.chunks_mut(S::F32_LANES) {
        let power = load(simd, part);
        store(simd, part, simd.mul_f32s(power, factor));
    }
}

/// The softmax of rows, in their places.
struct SoftmaxRows<'a> {
    rows: &'a mut [f32],
    size: usize,
}

impl WithSimd for SoftmaxRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for row in self.rows.chunks_exact_mut(self.size) {
            softmax_of_row(simd, row);
        }
    }
}

/// The softmax of some columns of a matrix with so many rows, each of which follows the one before it in a distance.
struct SoftmaxColumns<'a> {
    data: &'a [f32],
    distance: usize,
    rows: usize,
    columns: Range<usize>,
    /// Begins with the first of the columns.
    output: Output<'a>,
}

impl WithSimd for SoftmaxColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SoftmaxColumns { data, distance, rows, columns, mut output } = self;
        for first in columns.clone().step_by(S::F32_LANES) {
            let end = columns.end.min(first + S::F32_LANES);
            let of_row = |row: usize| load(simd, &data[row * distance..][first..end]);
            let places = first - columns.start..end - columns.start;
            let mut greatest = simd.splat_f32s(f32::NEG_INFINITY);
            for row in 0..rows {
                greatest = max_or_second(simd, of_row(row), greatest);
            }
            let mut sums = simd.splat_f32s(0.);
            for row in 0..rows {
                let power = power_below(simd, simd.sub_f32s(of_row(row), greatest));
                store(simd, &mut output.row(row)[places.clone()], power);
                sums = simd.add_f32s(sums, power);
            }
            let factor = simd.div_f32s(simd.splat_f32s(1.), sums);
            for row in 0..rows {
                let place = &mut output.row(row)[places.clone()];
                let power = load(simd, place);
                store(simd, place, simd.mul_f32s(power, factor));
            }
        }
    }
}

impl_plain_op!(
    SoftmaxOfAxis,
    "SoftmaxOfAxis",
    info = |op| vec![format!("axis: {}", op.axis)],
    validation = |_| Validation::Rounding
);

impl SoftmaxOfAxis {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let [data] = expect_inputs("SoftmaxOfAxis", ["data"], &inputs)?;
        let (shape, axis) = (data.shape(), self.axis);
        let size = *shape.get(axis).with_context(|| {
            format!("SoftmaxOfAxis: the data has shape {shape:?}, but must have axis {axis}")
        })?;
        let inner = extent(&shape[axis + 1..]);
        let block = size * inner;
        let data = floats(&data)?;
        let vectors = Vectors::detect();
        let columns = |data: &[f32], columns: Range<usize>, output: Output| {
            vectors.run(SoftmaxColumns { data, distance: inner, rows: size, columns, output });
        };
        let fill = |output: &mut [f32]| {
            let division = Division::of(cost::SOFTMAX.of(data.len()));
            if inner == 1 {
                return division.fill_rows(output, size, |first, output| {
                    output.copy_from_slice(&data[first * size..][..output.len()]);
                    vectors.run(SoftmaxRows { rows: output, size });
                    Ok(())
                });
            }
            let of_block = division.of_part(data.len() / block);
            if of_block.threads() == 1 {
                return division.fill_rows(output, block, |first, output| {
                    let blocks = data[first * block..].chunks_exact(block);
                    for (data, output) in blocks.zip(output.chunks_exact_mut(block)) {
                        columns(data, 0..inner, Output::matrix(output, inner));
                    }
                    Ok(())
                });
            }
            let panel = Tile::of(vectors).columns;
            let shares = Shares::of_columns(&of_block, [size, inner], panel, PARTS);
            let mut blocks = data.chunks_exact(block).zip(output.chunks_exact_mut(block));
            blocks.try_for_each(|(data, output)| {
                shares.for_each(output, |share, output| {
                    columns(data, share.columns, output);
                    Ok(())
                })
            })
        };
        filled_output("SoftmaxOfAxis", shape, fill)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let [data] = expect_inputs("SoftmaxOfAxis", ["data"], inputs)?;
        ensure!(
            data.datum_type == DatumType::F32 && self.axis < data.rank(),
            "SoftmaxOfAxis: the data is {data:?}, but must be of type F32 and have axis {}",
            self.axis
        );
        Ok(data.without_value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::tests::with_all_vectors;

    #[test]
    fn it_is_its_definition() -> TractResult<()> {
        for shape in [vec![1, 16, 4, 21], vec![5, 33], vec![3, 1, 7], vec![2, 0, 3], vec![2, 3, 40]]
        {
            let count: usize = shape.iter().product();
            let numbers: Vec<f32> = (0..count).map(|it| (it * 37 % 101) as f32 / 7. - 9.).collect();
            let data = Tensor::from_shape(&shape, &numbers)?;
            for axis in 0..shape.len() {
                let view = data.to_plain_array_view::<f32>()?;
                let mut expected = view.mapv(f64::from);
                for mut lane in expected.lanes_mut(tract_ndarray::Axis(axis)) {
                    let most = lane.fold(f64::NEG_INFINITY, |most, x| most.max(*x));
                    lane.mapv_inplace(|x| (x - most).exp());
                    let sum = lane.sum();
                    lane.mapv_inplace(|x| x / sum);
                }
                let expected = expected.mapv(|x| x as f32).into_tensor();
                with_all_vectors(|| {
                    let op = SoftmaxOfAxis { axis };
                    let inputs = tvec!(data.clone().into_tvalue());
                    let found = op.eval(inputs).unwrap();
                    found.close_enough(&expected, Approximation::Custom(1e-7, 2e-6, 0.)).unwrap();
                });
            }
        }
        Ok(())
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn of_threads() -> TractResult<()> {
        use tract_core::prelude::multithread::{Executor, multithread_tract_scope};
        let numbers: Vec<f32> = (0..120_000).map(|it| (it * 37 % 101) as f32 / 7.).collect();
        for shape in [[2, 20, 3000], [200, 20, 30], [600, 200, 1]] {
            let data = Tensor::from_shape(&shape, &numbers)?.into_tvalue();
            let run = |threads| {
                multithread_tract_scope(Executor::multithread(threads), || {
                    let op = SoftmaxOfAxis { axis: 1 };
                    op.eval(tvec!(data.clone()))
                })
            };
            assert_eq!(run(1)?, run(3)?);
        }
        Ok(())
    }

    #[test]
    fn what_is_no_number() {
        let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
        for (row, expected) in [
            ([low, 0., low], [0., 1., 0.]),
            ([low; 3], [f32::NAN; 3]),
            ([1., high, 2.], [f32::NAN; 3]),
            ([-200., 0., -88.], [0., 1., 0.]),
        ] {
            with_all_vectors(|| {
                for shape in [[1, 3], [3, 1]] {
                    // A second column, of zeros.
                    let numbers: Vec<f32> = row.into_iter().flat_map(|x| [x, 0.]).collect();
                    let two = Tensor::from_shape(&[3, 2], &numbers).unwrap();
                    let (axis, data) = match shape {
                        [1, _] => (1, Tensor::from_shape(&shape, &row).unwrap()),
                        _ => (0, two),
                    };
                    let op = SoftmaxOfAxis { axis };
                    let inputs = tvec!(data.into_tvalue());
                    let found = op.eval(inputs).unwrap();
                    let found = found.try_as_plain_ram().unwrap();
                    let found = found.as_slice::<f32>().unwrap();
                    let found: Vec<f32> = found.iter().copied().step_by(1 + (1 - axis)).collect();
                    let is_same = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
                    assert!(found.iter().zip(&expected).all(is_same), "{row:?}: {found:?}");
                }
            });
        }
    }
}
