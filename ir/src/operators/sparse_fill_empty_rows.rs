use tract_core::internal::*;

use super::{check_volume, dispatch_number, set_symbols};

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

impl Op for SparseFillEmptyRows {
    fn name(&self) -> StaticName {
        "SparseFillEmptyRows".into()
    }

    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    op_as_typed_op!();
}

/// Of each row the columns that have a value, and the number of the value.
type Rows = Vec<Vec<(i64, usize)>>;

impl SparseFillEmptyRows {
    fn rows_of(&self, coordinates: &Tensor, symbols: &SymbolValues) -> TractResult<Rows> {
        let count = self.rows.eval(symbols).to_usize()?;
        check_volume("SparseFillEmptyRows", &[count])?;
        let mut rows: Rows = vec![vec![]; count];
        let coordinates = coordinates.try_as_plain_ram()?;
        let pairs = coordinates.as_slice::<i64>()?.as_chunks::<2>().0;
        for (number, &[row, column]) in pairs.iter().enumerate() {
            let known = usize::try_from(row).ok().and_then(|row| rows.get_mut(row));
            let known = known.with_context(|| {
                format!(
                    "SparseFillEmptyRows: indices[{number}, 0] is {row}, but must be in [0, {count})"
                )
            })?;
            known.push((column, number));
        }
        rows.iter_mut().for_each(|row| row.sort_unstable());
        Ok(rows)
    }
}

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
        let rows = self.rows_of(&coordinates, ctx.symbols)?;
        let mut filled = vec![];
        for (number, row) in rows.iter().enumerate() {
            let columns = row.iter().map(|(column, _)| *column).chain(row.is_empty().then_some(0));
            filled.extend(columns.flat_map(|column| [number as i64, column]));
        }
        let filled = tensor1(&filled).into_shape(&[filled.len() / 2, 2])?;
        let values = dispatch_number!(fill(values.datum_type())(&values, &default, &rows))?;
        let empty: Vec<bool> = rows.iter().map(|row| row.is_empty()).collect();
        Ok(tvec!(filled.into_tvalue(), values.into_tvalue(), tensor1(&empty).into_tvalue()))
    }
}

fn fill<T: Datum + Copy>(values: &Tensor, default: &Tensor, rows: &Rows) -> TractResult<Tensor> {
    let (values, default) = (values.try_as_plain_ram()?, default.try_as_plain_ram()?);
    let values = values.as_slice::<T>()?;
    let default = *default.as_slice::<T>()?.first().context("default_value is empty")?;
    let row = |row: &Vec<(i64, usize)>| -> Vec<T> {
        match &**row {
            [] => vec![default],
            row => row.iter().map(|(_, number)| values[*number]).collect(),
        }
    };
    Ok(tensor1(&rows.iter().flat_map(row).collect::<Vec<T>>()))
}

impl TypedOp for SparseFillEmptyRows {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![
            DatumType::I64.fact([self.count.clone(), 2.to_dim()]),
            inputs[0].datum_type.fact([self.count.clone()]),
            DatumType::Bool.fact([self.rows.clone()]),
        ])
    }

    set_symbols!(|op, values| SparseFillEmptyRows {
        rows: op.rows.substitute_all(values)?,
        count: op.count.substitute_all(values)?,
    });

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

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
