//! Axes in another order.

use tract_core::internal::*;

use crate::checks::expect_inputs;
use crate::cost;
use crate::memory::unwritten_output;
use crate::rows::{interleave, row_begins};
use crate::threads::fill_rows;

/// Its input with the axes in another order, as ONNX's Transpose: axis `n` of the output is axis `perm[n]` of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transposition {
    pub perm: TVec<usize>,
}

/// Sizes of the output's axes, and how far elements along them are apart in the input. Neighbours that are neighbours in the input,
/// too, are one axis, and those of size 1 are none.
fn axes(shape: &[usize], perm: &[usize]) -> Vec<(usize, usize)> {
    let stride_of = |axis: usize| shape[axis + 1..].iter().product::<usize>();
    let mut axes: Vec<(usize, usize)> = vec![];
    for axis in perm.iter().copied().filter(|axis| shape[*axis] != 1) {
        let (size, stride) = (shape[axis], stride_of(axis));
        match axes.last_mut() {
            Some(last) if last.1 == size * stride => *last = (last.0 * size, stride),
            _ => axes.push((size, stride)),
        }
    }
    axes
}

impl Transposition {
    fn of_type<T: Datum + Copy>(&self, data: &Tensor, shape: &[usize]) -> TractResult<Tensor> {
        // SAFETY: each element is written.
        #[allow(unsafe_code)]
        let mut output = unsafe { unwritten_output::<T>("Transposition", shape)? };
        if output.len() == 0 {
            return Ok(output);
        }
        let axes = axes(data.shape(), &self.perm);
        let data = data.try_as_plain_ram()?;
        let data = data.as_slice::<T>()?;
        let mut view = output.try_as_plain_ram_mut()?;
        let elements = view.as_slice_mut::<T>()?;
        let Some((&(size, stride), outer)) = axes.split_last() else {
            elements.copy_from_slice(data);
            return Ok(output);
        };
        // How many rows have elements that are neighbours in the input.
        let (width, outer) = match outer.split_last() {
            Some((&(width, 1), outer)) => (width, outer),
            _ => (1, outer),
        };
        let work = cost::TRANSPOSED_BYTE.of(size_of_val(elements));
        fill_rows(elements, size, work, |first, mut output| {
            let begins = row_begins(outer.iter().copied(), first / width);
            if stride == 1 {
                for (row, begin) in output.chunks_exact_mut(size).zip(begins) {
                    row.copy_from_slice(&data[begin..][..size]);
                }
                return TractResult::Ok(());
            }
            let mut at = first % width;
            for begin in begins {
                let count = (width - at).min(output.len() / size);
                if count == 0 {
                    break;
                }
                let (these, rest) = output.split_at_mut(count * size);
                let data = &data[begin + at..];
                match size {
                    2 => interleave::<2, _>(data, stride, these),
                    3 => interleave::<3, _>(data, stride, these),
                    4 => interleave::<4, _>(data, stride, these),
                    _ => transpose(data, stride, these, count, size),
                }
                (at, output) = (0, rest);
            }
            Ok(())
        })?;
        Ok(output)
    }
}

/// Writes so many rows of a size. An element of the next row is the next one of the data, and an element of the next column is
/// `stride` further.
fn transpose<T: Copy>(data: &[T], stride: usize, output: &mut [T], rows: usize, size: usize) {
    const TILE: usize = 8;
    for column in (0..size).step_by(TILE) {
        let columns = (size - column).min(TILE);
        for row in (0..rows).step_by(TILE) {
            let count = (rows - row).min(TILE);
            let data = &data[column * stride + row..];
            let output = &mut output[row * size + column..];
            if columns == TILE && count == TILE {
                let tile: [[T; TILE]; TILE] = std::array::from_fn(|column| {
                    data[column * stride..][..TILE].try_into().expect("it has this length")
                });
                for row in 0..TILE {
                    let place = &mut output[row * size..][..TILE];
                    place.copy_from_slice(&tile.map(|column| column[row]));
                }
            } else {
                for row in 0..count {
                    for column in 0..columns {
                        output[row * size + column] = data[column * stride + row];
                    }
                }
            }
        }
    }
}

impl_plain_op!(Transposition, "Transposition", info = |op| vec![format!("perm: {:?}", op.perm)]);

impl Transposition {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let [data] = expect_inputs("Transposition", ["data"], &inputs)?;
        self.check(data.rank(), &data.shape())?;
        let shape: TVec<usize> = self.perm.iter().map(|axis| data.shape()[*axis]).collect();
        let output = dispatch_copy!(Self::of_type(data.datum_type())(self, &data, &shape))?;
        Ok(tvec!(output.into_tvalue()))
    }

    fn check(&self, rank: usize, shape: &dyn std::fmt::Debug) -> TractResult<()> {
        let is_perm = self.perm.len() == rank && (0..rank).all(|axis| self.perm.contains(&axis));
        ensure!(
            is_perm,
            "Transposition: the data has shape {shape:?}, but perm {:?} must have each of its axes once",
            self.perm
        );
        Ok(())
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data] = expect_inputs("Transposition", ["data"], inputs)?;
        self.check(data.rank(), &data.shape)?;
        let shape: TVec<TDim> = self.perm.iter().map(|axis| data.shape[*axis].clone()).collect();
        Ok(tvec!(data.datum_type.fact(shape)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cases() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
        let size = prop_oneof![1..4usize, 7..20usize];
        prop::collection::vec(size, 0..5).prop_flat_map(|sizes| {
            let perm: Vec<usize> = (0..sizes.len()).collect();
            (Just(sizes), Just(perm).prop_shuffle())
        })
    }

    fn both<T: Datum + Copy>(shape: &[usize], perm: &[usize], of: impl Fn(usize) -> T) {
        let count = shape.iter().product();
        let data: Vec<T> = (0..count).map(of).collect();
        let data = Tensor::from_shape(shape, &data).unwrap();
        let expected = data.clone().permute_axes(perm).unwrap();
        let op = Transposition { perm: perm.into() };
        let found = op.eval(tvec!(data.into())).unwrap();
        assert_eq!(*found[0], expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn it_is_what_tract_computes((shape, perm) in cases()) {
            both(&shape, &perm, |it| it as f32);
            both(&shape, &perm, |it| it as u8);
            both(&shape, &perm, |it| it as i64);
        }
    }

    #[test]
    fn axes_that_are_not_there_are_an_error() {
        let op = Transposition { perm: tvec![0, 2] };
        let data = Tensor::zero::<f32>(&[2, 3]).unwrap();
        let error = op.eval(tvec!(data.into())).unwrap_err().to_string();
        assert!(error.contains("shape [2, 3], but perm [0, 2]"), "{error}");
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn of_threads() -> TractResult<()> {
        use tract_core::prelude::multithread::{Executor, multithread_tract_scope};
        let numbers: Vec<f32> = (0..3 * 100 * 700).map(|it| it as f32).collect();
        let data = Tensor::from_shape(&[3, 100, 7, 100], &numbers)?.into_tvalue();
        for perm in [[0, 2, 3, 1], [2, 0, 1, 3], [3, 1, 2, 0]] {
            let run = |threads| {
                multithread_tract_scope(Executor::multithread(threads), || {
                    let op = Transposition { perm: perm.into() };
                    op.eval(tvec!(data.clone()))
                })
            };
            assert_eq!(run(1)?, run(3)?);
        }
        // Rows of few elements.
        for size in [2, 3, 4] {
            let data = data.clone().into_tensor().into_shape(&[700, 300])?;
            let data = data.slice(1, 0, size * 75)?.into_shape(&[175, size, 300])?.into_tvalue();
            let run = |threads| {
                multithread_tract_scope(Executor::multithread(threads), || {
                    let op = Transposition { perm: tvec![0, 2, 1] };
                    op.eval(tvec!(data.clone()))
                })
            };
            let expected = data.clone().into_tensor().permute_axes(&[0, 2, 1])?;
            assert_eq!(*run(3)?[0], expected);
        }
        Ok(())
    }
}
