use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_inputs, listed};

use super::{check_volume, dispatch_number, impl_plain_op};

/// Where each element would have to be put into a sorted sequence: OpenVINO's SearchSorted and Bucketize.
///
/// Inputs are `sorted` and `values`; the sequences are the lines of the last axis. There is one for all values,
/// or one for each line of values. The output has the shape of `values`.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct SearchSorted {
    /// Whether after equal elements, and not before them.
    pub right: bool,
}

impl_plain_op!(
    SearchSorted,
    "OpenVinoSearchSorted",
    info = |op| vec![format!("right: {}", op.right)]
);

/// The shapes must be equal except for the last axis, if there is more than one sequence.
fn check_shapes<D: DimLike>(sorted: &[D], values: &[D]) -> TractResult<()> {
    ensure!(
        sorted.len() == 1
            || (sorted.len() == values.len()
                && sorted.split_last().map(|it| it.1) == values.split_last().map(|it| it.1)),
        "SearchSorted: the sorted sequences have shape {sorted}, but must have rank 1, or the shape of the \
         values, {values}, except for the last dimension",
        sorted = listed(sorted),
        values = listed(values)
    );
    Ok(())
}

impl SearchSorted {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (sorted, values) = args_2!(inputs);
        check_shapes(sorted.shape(), values.shape())?;
        ensure!(
            sorted.datum_type() == values.datum_type(),
            "SearchSorted: the sequences are of type {:?}, but must be of type {:?}, as the values",
            sorted.datum_type(),
            values.datum_type()
        );
        let output = dispatch_number!(search(values.datum_type())(self, &sorted, &values))?;
        Ok(tvec!(output.into_tvalue()))
    }
}

fn search<T: Datum + PartialOrd>(
    op: &SearchSorted,
    sorted: &Tensor,
    values: &Tensor,
) -> TractResult<Tensor> {
    let len = sorted.shape().last().copied().unwrap_or(1);
    let row = match sorted.rank() {
        1 => values.len(),
        _ => values.shape().last().copied().unwrap_or(1),
    };
    check_volume("SearchSorted", DatumType::I64, values.shape())?;
    let mut output = Tensor::zero::<i64>(values.shape())?;
    if values.len() > 0 {
        let (sorted, values) = (sorted.try_as_plain_ram()?, values.try_as_plain_ram()?);
        let (sorted, values) = (sorted.as_slice::<T>()?, values.as_slice::<T>()?);
        let mut output = output.try_as_plain_ram_mut()?;
        let rows =
            values.chunks_exact(row).zip(output.as_slice_mut::<i64>()?.chunks_exact_mut(row));
        for (number, (values, positions)) in rows.enumerate() {
            let sorted = &sorted[number * len..][..len];
            for (value, position) in values.iter().zip(positions) {
                let before = |it: &T| if op.right { it <= value } else { it < value };
                *position = sorted.partition_point(before) as i64;
            }
        }
    }
    Ok(output)
}

impl SearchSorted {
    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [sorted, values] =
            expect_inputs("SearchSorted", ["sorted_sequence", "values"], inputs)?;
        check_shapes(&sorted.shape.to_tvec(), &values.shape.to_tvec())?;
        Ok(tvec!(DatumType::I64.fact(values.shape.to_tvec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;

    #[test]
    fn without_a_sequence_all_are_first() {
        let search = |sorted: &[usize], values: &[usize]| {
            let inputs = [sorted, values].map(|it| Tensor::zero::<f32>(it).unwrap().into_tvalue());
            let op = SearchSorted { right: true };
            Ok(op.eval(inputs.into_iter().collect())?[0].shape().to_vec())
        };
        let search = |sorted: &[usize], values: &[usize]| -> TractResult<Vec<usize>> {
            search(sorted, values)
        };
        assert_eq!(search(&[0], &[2, 3]).unwrap(), [2, 3]);
        assert_eq!(search(&[2, 0], &[2, 3]).unwrap(), [2, 3]);
        assert_eq!(search(&[2, 3], &[2, 0]).unwrap(), [2, 0]);
        assert_eq!(search(&[3], &[]).unwrap(), [0; 0]);
        let expected =
            |shape| format!("the sorted sequences have shape {shape}, but must have rank 1");
        fails(search(&[2, 3], &[3, 3]), &expected("[2, 3]"));
        fails(search(&[], &[3]), &expected("[]"));
    }
}
