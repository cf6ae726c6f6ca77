//! Axes in another order.

use tract_core::internal::*;

use crate::checks::expect_inputs;
use crate::strided::transposed;

/// Its input with the axes in another order, as ONNX's Transpose: axis `n` of the output is axis `perm[n]` of the input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transposition {
    pub perm: TVec<usize>,
}

impl_plain_op!(Transposition, "Transposition", info = |op| vec![format!("perm: {:?}", op.perm)]);

impl Transposition {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let [data] = expect_inputs("Transposition", ["data"], &inputs)?;
        self.check(data.rank(), &data.shape())?;
        dispatch_copy_by_size!(transposed(data.datum_type())("Transposition", &data, &self.perm))
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

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let [data] = expect_inputs("Transposition", ["data"], inputs)?;
        self.check(data.rank(), &data.shape)?;
        let shape: TVec<TDim> = self.perm.iter().map(|axis| data.shape[*axis].clone()).collect();
        Ok(data.datum_type.fact(shape))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::isa::tests::with_all_vectors;

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
        let data = data.into_tvalue();
        with_all_vectors(|| {
            let found = op.eval(tvec!(data.clone())).unwrap();
            assert_eq!(found, expected);
        });
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
            assert_eq!(run(3)?, expected);
        }
        Ok(())
    }
}
