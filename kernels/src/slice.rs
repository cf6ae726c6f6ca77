//! Some indices of an axis.

use tract_core::internal::*;
use tract_core::ops::array::Slice;

use crate::checks::{expect_inputs, known_size};
use crate::strided::{Run, concatenated};

/// What tract's Slice gives, on the threads that share this work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SliceOfAxis(pub Slice);

impl_op!(
    SliceOfAxis,
    "SliceOfAxis",
    info = |op| op.0.info()?,
    required_bound_symbols = |op, inputs| {
        let Slice { start, end, .. } = &op.0;
        let mut symbols = op.0.required_bound_symbols(inputs);
        symbols.extend([start, end].into_iter().flat_map(|bound| bound.symbols()));
        symbols
    }
);

impl EvalOp for SliceOfAxis {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let [data] = expect_inputs("SliceOfAxis", ["data"], &inputs)?;
        let Slice { axis, start, end } = &self.0;
        let [begin, end] = [start, end].map(|it| known_size(&it.eval(ctx.symbols)));
        let (begin, end) = (begin?, end?);
        let mut shape: TVec<usize> = data.shape().into();
        ensure!(
            shape.get(*axis).is_some_and(|size| begin <= end && end <= *size),
            "SliceOfAxis: the data has shape {shape:?}, but must have indices {begin} to {end} on axis {axis}"
        );
        shape[*axis] = end - begin;
        let part = (&*data, Run { first: begin, stride: 1, count: end - begin });
        let parts = [part].into_iter();
        let output = concatenated("SliceOfAxis", data.datum_type(), &shape, *axis, parts)?;
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for SliceOfAxis {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.0.output_facts(inputs)
    }

    fn set_symbols(
        &self,
        _source: &TypedModel,
        node: &TypedNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        subs: &HashMap<Symbol, TDim>,
    ) -> TractResult<TVec<OutletId>> {
        let Slice { axis, start, end } = &self.0;
        let slice = Slice::new(*axis, start.substitute_all(subs)?, end.substitute_all(subs)?);
        target.wire_node(&node.name, SliceOfAxis(slice), &[mapping[&node.inputs[0]]])
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_tract_gives() -> TractResult<()> {
        let context = EvalContext::out_of_plan();
        for shape in [[2, 7, 3], [1, 7, 1], [0, 7, 2], [2, 7, 0], [50, 7, 90]] {
            let numbers: Vec<i64> = (0..shape.iter().product::<usize>() as i64).collect();
            let data = Tensor::from_shape(&shape, &numbers)?;
            for dt in [i64::datum_type(), f32::datum_type(), u8::datum_type(), bool::datum_type()] {
                let inputs = tvec!(data.cast_to_dt(dt)?.into_owned().into_tvalue());
                for (axis, begin, end) in
                    [(1, 0, 7), (1, 2, 5), (1, 6, 7), (1, 3, 3), (0, 0, shape[0])]
                {
                    let slice = Slice::new(axis, begin, end);
                    let expected = slice.eval(&context, inputs.clone())?;
                    assert_eq!(SliceOfAxis(slice).eval(&context, inputs.clone())?, expected);
                }
            }
            let error = SliceOfAxis(Slice::new(1, 3, 8)).eval(&context, tvec!(data.into_tvalue()));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("must have indices 3 to 8 on axis 1"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn bounds_may_be_open() -> TractResult<()> {
        let symbols = SymbolScope::default();
        let begin = symbols.sym("K");
        let mut model = TypedModel { symbols, ..TypedModel::default() };
        let data = model.add_source("data", f32::fact([2, 7]))?;
        let op = SliceOfAxis(Slice::new(1, begin.to_dim(), begin.to_dim() + 3));
        assert!(op.required_bound_symbols(&[model.outlet_fact(data)?]).contains(&begin));
        let output = model.wire_node("slice", op, &[data])?;
        model.select_output_outlets(&output)?;
        assert_eq!(model.output_fact(0)?.shape.as_concrete(), Some(&[2, 3][..]));
        let numbers: Vec<f32> = (0..14u8).map(f32::from).collect();
        let data = Tensor::from_shape(&[2, 7], &numbers)?.into_tvalue();
        let model = model.set_symbols(&HashMap::from([(begin, 2.to_dim())]))?;
        let found = model.into_runnable()?.run(tvec!(data))?;
        assert_eq!(*found[0], tensor2(&[[2f32, 3., 4.], [9., 10., 11.]]));
        Ok(())
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn of_threads() -> TractResult<()> {
        use tract_core::prelude::multithread::{Executor, multithread_tract_scope};
        let numbers: Vec<f32> = (0..3 * 200 * 700).map(|it| it as f32).collect();
        let data = Tensor::from_shape(&[3, 200, 700], &numbers)?.into_tvalue();
        for slice in [Slice::new(0, 1, 3), Slice::new(1, 20, 199), Slice::new(2, 5, 698)] {
            let run = |threads| {
                multithread_tract_scope(Executor::multithread(threads), || {
                    let op = SliceOfAxis(slice.clone());
                    op.eval(&EvalContext::out_of_plan(), tvec!(data.clone()))
                })
            };
            assert_eq!(run(1)?, run(3)?);
        }
        Ok(())
    }
}
