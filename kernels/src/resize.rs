//! Axes of the data that get other sizes.

use pulp::bytemuck::Pod;
use tract_core::internal::*;

use crate::checks::{expect_data, expect_inputs, extent};
use crate::cost;
use crate::memory::{elements, filled_output, filled_output_dt, floats};
use crate::operator::map_unchanged_axes;
use crate::product::Vectors;
use crate::strided::copy_rows;
use crate::threads::fill_rows;

/// What the elements of an axis are made of: each is the sum of a few elements of an axis of the data, its taps, each with a weight.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Taps {
    /// Positions in the axis of the data with their weights, for one element after the other.
    taps: Vec<(usize, f32)>,
    /// For each element where its taps end.
    ends: Vec<usize>,
}

impl Taps {
    /// Adds an element: the positions of its taps, each within the axis of the data, and their weights. Without taps it is 0.
    pub fn push(&mut self, taps: impl IntoIterator<Item = (usize, f32)>) {
        self.taps.extend(taps);
        self.ends.push(self.taps.len());
    }

    /// The number of elements.
    #[expect(clippy::len_without_is_empty, reason = "it is a size")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The taps of an element.
    fn of(&self, number: usize) -> &[(usize, f32)] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.taps[start..self.ends[number]]
    }

    /// Sums the taps of each element along an axis of data of type F32, on the threads that share this work.
    ///
    /// # Errors
    ///
    /// The output is too large, or the data is of another type. The error of the first begins with the name of the operator.
    ///
    /// # Panics
    ///
    /// The data has no such axis, or a tap is not within it.
    pub fn sum(&self, operator: &str, data: &Tensor, axis: usize) -> TractResult<Tensor> {
        let (shape, size, inner) = self.parts_of_shape(data, axis);
        let block = size * inner;
        let data = floats(data)?;
        let vectors = Vectors::detect();
        let fill = |output: &mut [f32]| {
            let taps = output.len() / self.len() * self.taps.len().max(self.len());
            let work = cost::TAP.of(taps);
            if inner == 1 {
                return fill_rows(output, self.len(), work, |first, output| {
                    for (row, output) in output.chunks_exact_mut(self.len()).enumerate() {
                        self.sum_row(&data[(first + row) * size..][..size], output);
                    }
                    Ok(())
                });
            }
            fill_rows(output, inner, work, |first, output| {
                vectors.run(
                    #[inline(always)]
                    || {
                        for (row, output) in output.chunks_exact_mut(inner).enumerate() {
                            let (number, at) =
                                ((first + row) / self.len(), (first + row) % self.len());
                            sum_rows(&data[number * block..][..block], self.of(at), output);
                        }
                    },
                );
                Ok(())
            })
        };
        filled_output(operator, &shape, fill)
    }

    /// The elements of a row, each of which is made of others of a row.
    fn sum_row(&self, data: &[f32], elements: &mut [f32]) {
        for (number, element) in elements.iter_mut().enumerate() {
            *element = match *self.of(number) {
                [(at, weight)] => data[at] * weight,
                [(a, of_a), (b, of_b)] => data[a] * of_a + data[b] * of_b,
                ref taps => taps.iter().map(|(at, weight)| data[*at] * weight).sum(),
            };
        }
    }

    /// Takes the one tap of each element along an axis of the data, whatever its weight, on the threads that share this work.
    ///
    /// # Errors
    ///
    /// The output is too large. The error begins with the name of the operator.
    ///
    /// # Panics
    ///
    /// The data has no such axis, an element has not one tap, a tap is not within it, or the data is of a type whose elements
    /// cannot be copied.
    pub fn pick(&self, operator: &str, data: &Tensor, axis: usize) -> TractResult<Tensor> {
        dispatch_copy_by_size!(Self::pick_of(data.datum_type())(self, operator, data, axis))
    }

    fn pick_of<T: Pod + Send + Sync>(
        &self,
        operator: &str,
        tensor: &Tensor,
        axis: usize,
    ) -> TractResult<Tensor> {
        assert_eq!(self.taps.len(), self.len(), "{operator}: an element has not one tap");
        let (shape, size, inner) = self.parts_of_shape(tensor, axis);
        let times = (inner == 1).then(|| self.times(size)).flatten();
        let data = elements::<T>(tensor)?;
        let fill = |output: &mut [T]| {
            let (block, row) = (size * inner, self.len() * inner);
            let work = cost::ELEMENT.of(output.len());
            fill_rows(output, row, work, |first, output| {
                let rows = data[first * block..].chunks_exact(block);
                for (data, output) in rows.zip(output.chunks_exact_mut(row)) {
                    match times {
                        Some(2) => repeat::<_, 2>(data, output),
                        Some(4) => repeat::<_, 4>(data, output),
                        Some(8) => repeat::<_, 8>(data, output),
                        _ if inner == 1 => {
                            for (place, (at, _)) in output.iter_mut().zip(&self.taps) {
                                *place = data[*at];
                            }
                        }
                        _ => {
                            let begins = self.taps.iter().map(|(at, _)| at * inner);
                            copy_rows(data, begins, (inner, 1), 0, output);
                        }
                    }
                }
                Ok(())
            })
        };
        filled_output_dt(operator, tensor.datum_type(), &shape, fill)
    }

    /// The shape of the output, the size of the axis of the data, and how many elements are behind one of its positions.
    fn parts_of_shape(&self, data: &Tensor, axis: usize) -> (TVec<usize>, usize, usize) {
        let mut shape: TVec<usize> = data.shape().into();
        let size = std::mem::replace(&mut shape[axis], self.len());
        let inner = extent(&shape[axis + 1..]);
        (shape, size, inner)
    }

    /// How often each element of an axis of this size is taken, if all are, one after the other.
    fn times(&self, size: usize) -> Option<usize> {
        let times = self.len() / size.max(1);
        let is_it = self.len() == size * times
            && self.taps.iter().enumerate().all(|(number, (at, _))| *at == number / times);
        is_it.then_some(times)
    }
}

/// Writes each element so many times.
fn repeat<T: Copy, const TIMES: usize>(data: &[T], elements: &mut [T]) {
    for (places, element) in elements.as_chunks_mut::<TIMES>().0.iter_mut().zip(data) {
        *places = [*element; TIMES];
    }
}

/// The sum of some rows of a block.
#[inline(always)]
fn sum_rows(block: &[f32], taps: &[(usize, f32)], elements: &mut [f32]) {
    let row = |at: usize| &block[at * elements.len()..][..elements.len()];
    match *taps {
        [] => elements.fill(0.),
        [(at, 1.)] => elements.copy_from_slice(row(at)),
        [(at, weight)] => {
            let row = row(at);
            elements.iter_mut().zip(row).for_each(|(sum, x)| *sum = x * weight);
        }
        [(a, of_a), (b, of_b), ref others @ ..] => {
            let rows = row(a).iter().zip(row(b));
            let size = elements.len();
            for (sum, (a, b)) in elements.iter_mut().zip(rows) {
                *sum = a * of_a + b * of_b;
            }
            for (at, weight) in others {
                let row = &block[at * size..][..size];
                elements.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * weight);
            }
        }
    }
}

/// Some axes of the data get other sizes, which are known. The data is of type F32, and so is the output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResizeAxes {
    pub axes: TVec<ResizedAxis>,
}

/// An axis that gets another size, and what its elements are made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResizedAxis {
    pub axis: usize,
    /// Its size in the data.
    pub size: usize,
    pub taps: Arc<Taps>,
}

impl_plain_op!(
    ResizeAxes with {
        fn axes_mapping(
            &self,
            inputs: &[&TypedFact],
            outputs: &[&TypedFact],
        ) -> TractResult<AxesMapping> {
            map_unchanged_axes(inputs, outputs, |axis| self.axes.iter().any(|it| it.axis == axis))
        }

        fn change_axes(
            &self,
            model: &TypedModel,
            node: &TypedNode,
            _io: InOut,
            change: &AxisOp,
        ) -> TractResult<Option<AxisChangeConsequence>> {
            let mut axes = self.axes.clone();
            for resized in &mut axes {
                rule_if_some!(axis = change.transform_axis(resized.axis));
                resized.axis = axis;
            }
            let op = ResizeAxes { axes };
            Ok(Some(AxisChangeConsequence::new(model, node, Some(Box::new(op)), change)))
        }
    },
    "ResizeAxes",
    info = |op| {
        let axis = |it: &ResizedAxis| format!("axis {}: {} to {}", it.axis, it.size, it.taps.len());
        vec![op.axes.iter().map(axis).collect::<Vec<_>>().join(", ")]
    },
    validation = |_| Validation::Rounding
);

impl ResizeAxes {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TValue> {
        let [mut data] = expect_inputs("ResizeAxes", ["data"], &inputs)?;
        for ResizedAxis { axis, size, .. } in &self.axes {
            let shape = data.shape();
            ensure!(
                shape.get(*axis) == Some(size),
                "ResizeAxes: the data has shape {shape:?}, but must have size {size} on axis {axis}"
            );
        }
        // Elements of the innermost axis are taken one by one, those of others in rows. There are fewer of the former before the
        // outer axes have grown.
        let mut axes: TVec<_> = self.axes.iter().collect();
        axes.sort_by_key(|it| std::cmp::Reverse(it.axis));
        for ResizedAxis { axis, taps, .. } in axes {
            data = taps.sum("ResizeAxes", &data, *axis)?.into_tvalue();
        }
        Ok(data)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let data = expect_data("ResizeAxes", DatumType::F32, inputs)?;
        let mut fact = data.without_value();
        for ResizedAxis { axis, taps, .. } in &self.axes {
            ensure!(*axis < fact.rank(), "ResizeAxes: the data has no axis {axis}");
            fact.shape.set(*axis, taps.len().to_dim());
        }
        Ok(fact)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "multithread-mm")]
    use tract_core::prelude::multithread::{Executor, multithread_tract_scope};

    use super::*;
    #[cfg(feature = "multithread-mm")]
    use crate::product::tests::{integers, with_all_vectors};

    /// Elements with each number of taps up to three, and weights that keep sums of integers exact.
    fn taps(size: usize) -> Taps {
        let mut taps = Taps::default();
        for number in 0..2 * size {
            let count = number % 4;
            taps.push((0..count).map(|tap| ((number + tap) % size, [1., -0.5, 2.][tap])));
        }
        taps
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn elements_are_sums_of_their_taps() -> TractResult<()> {
        // The last one is large enough for threads.
        for shape in [vec![3, 4, 5], vec![3, 1, 1], vec![0, 4, 2], vec![7], vec![40, 50, 60]] {
            let data = Tensor::from_shape(&shape, &integers(shape.iter().product()))?;
            let view = data.to_plain_array_view::<f32>()?;
            for axis in (0..shape.len()).filter(|axis| shape[*axis] > 0) {
                let taps = taps(shape[axis]);
                let mut resized = shape.clone();
                resized[axis] = taps.len();
                let sums = tract_ndarray::ArrayD::from_shape_fn(&*resized, |place| {
                    let element = |at: usize| {
                        let mut place = place.clone();
                        place[axis] = at;
                        view[place]
                    };
                    taps.of(place[axis])
                        .iter()
                        .map(|(at, weight)| element(*at) * weight)
                        .sum::<f32>()
                });
                let expected: Tensor = sums.into_tensor();
                with_all_vectors(|| {
                    for threads in [1, 2] {
                        let found = multithread_tract_scope(Executor::multithread(threads), || {
                            taps.sum("Test", &data, axis).unwrap()
                        });
                        assert_eq!(found, expected, "{shape:?} {axis}");
                    }
                });
            }
        }
        Ok(())
    }

    #[test]
    fn elements_of_any_type_are_picked() -> TractResult<()> {
        let mut taps = Taps::default();
        [2, 0, 0, 1].iter().for_each(|at| taps.push([(*at, 1.)]));
        let data = Tensor::from_shape(&[2, 3, 2], &(0..12u8).collect::<Vec<_>>())?;
        let inner = taps.pick("Test", &data, 1)?;
        let expected = [4u8, 5, 0, 1, 0, 1, 2, 3, 10, 11, 6, 7, 6, 7, 8, 9];
        assert_eq!(inner, Tensor::from_shape(&[2, 4, 2], &expected)?);
        let nothing = taps.pick("Test", &Tensor::zero::<u8>(&[2, 3, 0])?, 1)?;
        assert_eq!(nothing.shape(), [2, 4, 0]);
        let last = taps.pick("Test", &Tensor::from_shape(&[1, 3], &[7u8, 8, 9])?, 1)?;
        assert_eq!(last, Tensor::from_shape(&[1, 4], &[9u8, 7, 7, 8])?);
        for times in [1, 2, 3, 4, 8] {
            let mut taps = Taps::default();
            (0..5 * times).for_each(|at| taps.push([(at / times, 1.)]));
            let data: Vec<u16> = (0..20).collect();
            for (shape, axis) in [([4, 5, 1], 1), ([2, 5, 2], 1), ([1, 4, 5], 2)] {
                let found = taps.pick("Test", &Tensor::from_shape(&shape, &data)?, axis)?;
                let inner = shape[axis + 1..].iter().product();
                let expected = data.chunks(inner).flat_map(|part| part.repeat(times));
                let found = found.try_as_plain_ram()?.as_slice::<u16>()?.to_vec();
                assert_eq!(found, expected.collect::<Vec<_>>(), "{times} {shape:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn data_of_another_size_is_an_error() {
        let op = ResizeAxes { axes: tvec![ResizedAxis { axis: 1, size: 3, taps: taps(3).into() }] };
        let data = Tensor::zero::<f32>(&[2, 4]).unwrap().into_tvalue();
        let error = op.eval(tvec!(data)).unwrap_err().to_string();
        assert_eq!(error, "ResizeAxes: the data has shape [2, 4], but must have size 3 on axis 1");
    }
}
