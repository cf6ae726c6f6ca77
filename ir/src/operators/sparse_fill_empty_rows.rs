use std::collections::HashSet;

use tract_core::internal::*;

use tract_openvino_kernels::checks::known_size;

use super::{check_volume, dispatch_number, impl_op, set_symbols};
use crate::limits::MAX_FILLED_ROWS;

/// OpenVINO's SparseFillEmptyRows: gives each row of a sparse matrix that has no value a default in its first
/// column.
///
/// Inputs are the values, their coordinates (`[values, 2]`, of type `i64`) and the default. Outputs are the
/// coordinates in ascending order, the values, and which rows were empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SparseFillEmptyRows {
    /// The number of rows.
    pub rows: TDim,
    /// The number of values of the output: a symbol that only this node has.
    pub count: TDim,
}

impl_op!(SparseFillEmptyRows, "OpenVinoSparseFillEmptyRows", mints_runtime_symbols = |_| true);

impl EvalOp for SparseFillEmptyRows {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (values, coordinates, default) = args_3!(inputs);
        ensure!(
            coordinates.shape() == [values.len(), 2],
            "SparseFillEmptyRows: indices have shape {:?}, but must have [{}, 2]",
            coordinates.shape(),
            values.len()
        );
        let rows = known_size(&self.rows.eval(ctx.symbols))?;
        ensure!(
            rows <= MAX_FILLED_ROWS,
            "SparseFillEmptyRows: the number of rows is {rows}, but must be {MAX_FILLED_ROWS} or less"
        );
        check_volume(
            "SparseFillEmptyRows",
            DatumType::I64,
            &[rows.saturating_add(values.len()), 2],
        )?;
        let cells = cells(&coordinates, rows)?;
        let flat: Vec<i64> = cells.iter().flat_map(|cell| [cell.row, cell.column]).collect();
        let filled = tensor1(&flat).into_shape(&[cells.len(), 2])?;
        let values = dispatch_number!(fill(values.datum_type())(&values, &default, &cells))?;
        let mut empty = vec![false; rows];
        for cell in cells.iter().filter(|cell| cell.value.is_none()) {
            empty[cell.row as usize] = true;
        }
        Ok(tvec!(filled.into_tvalue(), values.into_tvalue(), tensor1(&empty).into_tvalue()))
    }
}

/// An element of the output.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    row: i64,
    column: i64,
    /// The number of the value, or the default.
    value: Option<usize>,
}

/// The elements of the output, in ascending order.
fn cells(coordinates: &Tensor, rows: usize) -> TractResult<Vec<Cell>> {
    let coordinates = coordinates.try_as_plain_ram()?;
    let pairs = coordinates.as_slice::<i64>()?.as_chunks::<2>().0;
    let mut cells: Vec<Cell> = vec![];
    for (number, &[row, column]) in pairs.iter().enumerate() {
        ensure!(
            (0..rows as i64).contains(&row),
            "SparseFillEmptyRows: indices[{number}, 0] is {row}, but must be in [0, {rows})"
        );
        cells.push(Cell { row, column, value: Some(number) });
    }
    let full: HashSet<i64> = cells.iter().map(|cell| cell.row).collect();
    let empty = (0..rows as i64).filter(|row| !full.contains(row));
    cells.extend(empty.map(|row| Cell { row, column: 0, value: None }));
    cells.sort_unstable();
    Ok(cells)
}

fn fill<T: Datum + Copy>(values: &Tensor, default: &Tensor, cells: &[Cell]) -> TractResult<Tensor> {
    let (values, default) = (values.try_as_plain_ram()?, default.try_as_plain_ram()?);
    let values = values.as_slice::<T>()?;
    let default = *default.as_slice::<T>()?.first().context("default_value is empty")?;
    let value = |cell: &Cell| cell.value.map_or(default, |number| values[number]);
    Ok(tensor1(&cells.iter().map(value).collect::<Vec<T>>()))
}

impl TypedOp for SparseFillEmptyRows {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![
            DatumType::I64.fact([self.count.clone(), 2.to_dim()]),
            inputs[0].datum_type.fact([self.count.clone()]),
            DatumType::Bool.fact([self.rows.clone()]),
        ])
    }

    set_symbols!(rows, count);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_limit() {
        let op = SparseFillEmptyRows { rows: (MAX_FILLED_ROWS + 1).to_dim(), count: 1.to_dim() };
        let inputs = [tensor1(&[5]), tensor2(&[[0, 0i64]]), tensor0(7)];
        let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
        op.eval(&EvalContext::out_of_plan(), inputs).unwrap_err();
    }

    #[test]
    fn a_row_that_is_not_there() {
        let op = SparseFillEmptyRows { rows: 2.to_dim(), count: 1.to_dim() };
        for row in [-1, 2] {
            let inputs = [tensor1(&[5]), tensor2(&[[row, 0i64]]), tensor0(7)];
            let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
            let error = op.eval(&EvalContext::out_of_plan(), inputs).unwrap_err();
            assert!(error.to_string().contains(&format!("indices[0, 0] is {row}")), "{error}");
        }
    }
}
