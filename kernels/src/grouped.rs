//! Products of rows in groups, each group with a matrix of its own: experts, to which tokens are sent.

use std::ops::Range;

use tract_core::internal::*;

use crate::checks::{check_volume, expect_inputs, listed};
use crate::cost;
use crate::memory::{Scratch, floats};
use crate::product::activation::Activation;
use crate::product::{
    OperandA, PackedB, PackedGemm, Shares, Tile, UnpackedB, Vectors, multiply_row_by_row,
};
use crate::threads::Division;

/// The product of the rows of a matrix, each with the matrix of its group.
///
/// Inputs are the data `[rows, depth]`, the matrices `[groups, columns, depth]`, a row for each column of the product, and
/// where each group ends `[groups]`, of type `i64`: a group has the rows from the end of the group before on. The data and the
/// matrices are of type `F32`, `F64` or `I32`, and so is the output `[rows, columns]`. Products of integers wrap around. Rows
/// after the last group are 0.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct GroupedProduct;

/// A group of fewer rows is multiplied row by row: the matrix is read once for each, and not packed before.
const FEW_ROWS: usize = 4;

impl GroupedProduct {
    fn shape<D: DimLike>(data: &[D], matrices: &[D], ends: &[D]) -> TractResult<TVec<D>> {
        let shapes = || {
            let [data, matrices, ends] = [data, matrices, ends].map(listed);
            format!("data, matrices and ends have shapes {data}, {matrices} and {ends}")
        };
        let ([rows, depth], [groups, columns, same_depth], [same_groups]) = (data, matrices, ends)
        else {
            bail!("GroupedProduct: {}, but must have rank 2, 3 and 1", shapes())
        };
        // Open sizes are compared when it runs.
        let differ = |a: &D, b: &D| a.to_i64().is_ok() && b.to_i64().is_ok() && a != b;
        ensure!(
            !differ(depth, same_depth) && !differ(groups, same_groups),
            "GroupedProduct: {}, but must have [rows, depth], [groups, columns, depth] and [groups]",
            shapes()
        );
        Ok(tvec![rows.clone(), columns.clone()])
    }

    /// The rows of each group.
    fn groups(ends: &[i64], rows: usize) -> TractResult<Vec<Range<usize>>> {
        let mut start = 0;
        let group = |(number, end): (usize, &i64)| {
            let end = usize::try_from(*end).ok().filter(|end| (start..=rows).contains(end));
            let end = end.with_context(|| {
                format!(
                    "GroupedProduct: group {number} ends at {}, but must end in [{start}, {rows}]",
                    ends[number]
                )
            })?;
            let group = start..end;
            start = end;
            Ok(group)
        };
        ends.iter().enumerate().map(group).collect()
    }
}

/// The product of many rows and the transpose of a matrix.
fn many_rows(data: &[f32], depth: usize, matrix: &[f32], output: &mut [f32]) -> TractResult<()> {
    let columns = matrix.len() / depth;
    let count = data.len() / depth;
    let vectors = Vectors::detect();
    let tile = Tile::of(vectors);
    let division = Division::of(cost::PRODUCT.of(output.len().saturating_mul(depth)));
    let rows = OperandA::<Scratch>::pack_on_threads(data, count, depth, tile);
    Shares::of_product(&division, [count, columns]).for_each(output, |share, output| {
        // Each share packs its columns.
        let range = share.columns;
        let matrix = &matrix[range.start * depth..][..range.len() * depth];
        let of = UnpackedB { depth, columns: range.len(), stride: depth, is_transposed: true };
        let right = PackedB::pack_scratch(matrix, of, tile);
        PackedGemm::of(rows.part(share.rows), right.view(), output).run(vectors);
        TractResult::Ok(())
    })
}

/// The products of all groups, number by number.
fn plain<T: Datum + Copy + Default>(
    [data, matrices]: [&Tensor; 2],
    groups: &[Range<usize>],
    add_product: impl Fn(T, T, T) -> T,
    output: &mut Tensor,
) -> TractResult<()> {
    let (columns, depth) = (matrices.shape()[1], matrices.shape()[2]);
    let data = data.try_as_plain_ram()?.as_slice::<T>()?;
    let matrices = matrices.try_as_plain_ram()?.as_slice::<T>()?;
    let mut view = output.try_as_plain_ram_mut()?;
    let output = view.as_slice_mut::<T>()?;
    for (number, group) in groups.iter().enumerate() {
        let places = group.clone().flat_map(|row| (0..columns).map(move |column| (row, column)));
        for (row, column) in places {
            let left = &data[row * depth..][..depth];
            let right = &matrices[(number * columns + column) * depth..][..depth];
            let pairs = left.iter().zip(right);
            output[row * columns + column] =
                pairs.fold(T::default(), |sum, (a, b)| add_product(sum, *a, *b));
        }
    }
    Ok(())
}

impl_plain_op!(GroupedProduct, "GroupedProduct", validation = |_| Validation::Rounding);

impl GroupedProduct {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let (data, matrices, ends) = args_3!(inputs);
        let shape = GroupedProduct::shape(data.shape(), matrices.shape(), ends.shape())?;
        let (rows, columns) = (shape[0], shape[1]);
        let depth = data.shape()[1];
        let groups = GroupedProduct::groups(ends.try_as_plain_ram()?.as_slice::<i64>()?, rows)?;
        let dt = data.datum_type();
        check_volume("GroupedProduct", dt, &shape)?;
        let mut output = Tensor::zero_dt(dt, &shape)?;
        if output.len() == 0 || depth == 0 {
            return Ok(output);
        }
        match dt {
            DatumType::F32 => {
                let (data, matrices) = (floats(&data)?, floats(&matrices)?);
                let mut view = output.try_as_plain_ram_mut()?;
                let output = view.as_slice_mut::<f32>()?;
                let matrices = matrices.chunks_exact(columns * depth);
                let bias = vec![0.; columns];
                for (group, matrix) in groups.into_iter().zip(matrices) {
                    let data = &data[group.start * depth..group.end * depth];
                    let output = &mut output[group.start * columns..group.end * columns];
                    match group.len() {
                        0 => (),
                        1..FEW_ROWS => {
                            let identity = Activation::Identity;
                            multiply_row_by_row(data, matrix, depth, &bias, identity, output)?;
                        }
                        _ => many_rows(data, depth, matrix, output)?,
                    }
                }
            }
            DatumType::F64 => {
                let add_product = |sum: f64, a, b| sum + a * b;
                plain([&data, &matrices], &groups, add_product, &mut output)?;
            }
            DatumType::I32 => {
                let add_product = |sum: i32, a: i32, b| sum.wrapping_add(a.wrapping_mul(b));
                plain([&data, &matrices], &groups, add_product, &mut output)?;
            }
            dt => bail!("GroupedProduct: the data is of type {dt:?}, but must be F32, F64 or I32"),
        }
        Ok(output)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let [data, matrices, ends] =
            expect_inputs("GroupedProduct", ["data", "matrices", "ends"], inputs)?;
        let dt = data.datum_type;
        ensure!(
            [DatumType::F32, DatumType::F64, DatumType::I32].contains(&dt)
                && matrices.datum_type == dt
                && ends.datum_type == DatumType::I64,
            "GroupedProduct: data, matrices and ends are of types {dt:?}, {:?} and {:?}, but must be of one type of F32, \
             F64 and I32, and ends of I64",
            matrices.datum_type,
            ends.datum_type
        );
        let shape = GroupedProduct::shape(
            &data.shape.to_tvec(),
            &matrices.shape.to_tvec(),
            &ends.shape.to_tvec(),
        )?;
        Ok(dt.fact(shape))
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::einsum::EinSum;

    use super::*;
    use crate::product::tests::{integers, with_all_vectors};

    fn tensor(shape: &[usize]) -> Tensor {
        Tensor::from_shape(shape, &integers(shape.iter().product())).unwrap()
    }

    fn run(data: &Tensor, matrices: &Tensor, ends: &[i64]) -> TractResult<Tensor> {
        let inputs = [data.clone(), matrices.clone(), tensor1(ends)];
        let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
        GroupedProduct.eval(inputs)
    }

    #[test]
    fn each_row_meets_the_matrix_of_its_group() -> TractResult<()> {
        let einsum = EinSum::new("mk,nk->mn".parse()?, DatumType::F32);
        for (rows, columns, depth) in [(1, 1, 1), (9, 50, 13), (200, 37, 405), (12, 700, 3)] {
            let (data, matrices) = (tensor(&[rows, depth]), tensor(&[3, columns, depth]));
            // Few rows, none, and all others but one.
            let ends = [rows / 4, rows / 4, rows - 1];
            let mut parts = vec![];
            let groups = [0..ends[0], ends[1]..ends[1], ends[1]..ends[2]];
            for (number, group) in groups.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
                let part = data.slice(0, group.start, group.end)?;
                let matrix = matrices.slice(0, number, number + 1)?;
                let matrix = matrix.into_shape(&[columns, depth])?;
                let inputs = tvec!(part.into_tvalue(), matrix.into_tvalue());
                let output = einsum.eval(&EvalContext::out_of_plan(), inputs)?;
                parts.push(output[0].clone().into_tensor());
            }
            parts.push(Tensor::zero::<f32>(&[1, columns])?);
            let expected = Tensor::stack_tensors(0, &parts)?;
            let ends = ends.map(|end| end as i64);
            with_all_vectors(|| assert_eq!(run(&data, &matrices, &ends).unwrap(), expected));
            for dt in [DatumType::F64, DatumType::I32] {
                let cast = |tensor: &Tensor| tensor.cast_to_dt(dt).unwrap().into_owned();
                let found = run(&cast(&data), &cast(&matrices), &ends)?;
                assert_eq!(found, cast(&expected), "{dt:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn nothing_gives_zeros() -> TractResult<()> {
        for (rows, columns, depth) in [(0, 2, 3), (2, 0, 3), (2, 3, 0)] {
            let found = run(&tensor(&[rows, depth]), &tensor(&[1, columns, depth]), &[0])?;
            assert_eq!(found, Tensor::zero::<f32>(&[rows, columns])?);
        }
        let found = run(&tensor(&[2, 3]), &tensor(&[0, 4, 3]), &[])?;
        assert_eq!(found, Tensor::zero::<f32>(&[2, 4])?);
        Ok(())
    }

    #[test]
    fn groups_end_in_order_and_within_the_rows() {
        for (ends, expected) in [
            ([2, 6], "group 1 ends at 6, but must end in [2, 5]"),
            ([3, 2], "group 1 ends at 2, but must end in [3, 5]"),
            ([-1, 5], "group 0 ends at -1, but must end in [0, 5]"),
            ([i64::MAX, 5], "but must end in [0, 5]"),
        ] {
            let error = run(&tensor(&[5, 3]), &tensor(&[2, 4, 3]), &ends).unwrap_err();
            assert!(error.to_string().contains(expected), "{expected:?} is not in {error}");
        }
    }

    #[test]
    fn shapes_and_types_must_fit() {
        let output = |data: &[usize], matrices: &[usize], ends: usize, dt: DatumType| {
            let facts = [dt.fact(data), DatumType::F32.fact(matrices), DatumType::I64.fact([ends])];
            GroupedProduct.output_facts(&facts.iter().collect::<TVec<_>>())
        };
        let f32 = DatumType::F32;
        assert_eq!(*output(&[5, 3], &[2, 4, 3], 2, f32).unwrap(), [f32.fact([5, 4])]);
        output(&[5, 3], &[2, 4, 3], 3, f32).unwrap_err();
        output(&[5, 3], &[2, 4, 2], 2, f32).unwrap_err();
        output(&[5], &[2, 4, 2], 2, f32).unwrap_err();
        output(&[5, 3], &[2, 4, 3], 2, DatumType::F64).unwrap_err();
        output(&[5, 3], &[2, 4, 3], 2, DatumType::F16).unwrap_err();
    }
}
