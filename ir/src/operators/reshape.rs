use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_input_count, listed};

use super::{impl_op, set_symbols};

/// Gives the elements of its input another shape, which may only fit some sizes: it is checked when the model runs.
///
/// tract's own operator must know that both shapes have the same number of elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Reshape {
    pub shape: TVec<TDim>,
    /// An axis that has what the others leave. Its dimension is a symbol, which gets its value here.
    pub open: Option<usize>,
}

impl_op!(
    Reshape,
    "OpenVinoReshape",
    info = |op| vec![format!("shape: {}", listed(&op.shape))],
    mints_runtime_symbols = |op| op.open.is_some(),
    required_bound_symbols = |op, _| {
        let stated = op.shape.iter().enumerate().filter(|(axis, _)| Some(*axis) != op.open);
        stated.flat_map(|(_, dim)| dim.symbols()).collect()
    }
);

impl EvalOp for Reshape {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let mut shape: TVec<usize> = tvec!();
        for (axis, dim) in self.shape.iter().enumerate() {
            shape.push(match Some(axis) == self.open {
                true => 1,
                false => {
                    let size = dim.eval_to_i64(ctx.symbols)?;
                    usize::try_from(size).map_err(|_| {
                        format_err!(
                            "dimension {axis} would be {size} ({dim}), but must be 0 or more"
                        )
                    })?
                }
            });
        }
        let stated = shape.iter().try_fold(1usize, |stated, size| stated.checked_mul(*size));
        let fits = match (self.open, stated) {
            // Of nothing, any number of times nothing: 1, as if there were no such axis.
            (Some(_), Some(0)) => input.len() == 0,
            (Some(open), Some(stated)) => {
                shape[open] = input.len() / stated;
                input.len().is_multiple_of(stated)
            }
            (None, stated) => stated == Some(input.len()),
            (Some(_), None) => false,
        };
        ensure!(
            fits,
            "a tensor of shape {} cannot be reshaped to {}: that is {shape:?} here",
            listed(input.shape()),
            listed(&self.shape)
        );
        Ok(tvec!(input.into_tensor().into_shape(&shape)?.into_tvalue()))
    }
}

impl TypedOp for Reshape {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Reshape", inputs.len(), 1..=1)?;
        Ok(tvec!(inputs[0].datum_type.fact(&self.shape)))
    }

    set_symbols!(shape);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reshaped(shape: &[TDim], open: Option<usize>, from: &[usize]) -> TractResult<Vec<usize>> {
        let op = Reshape { shape: shape.into(), open };
        let input = Tensor::zero::<f32>(from)?.into_tvalue();
        Ok(op.eval(&EvalContext::out_of_plan(), tvec!(input))?[0].shape().into())
    }

    #[test]
    fn shapes_are_compared_when_the_model_runs() -> TractResult<()> {
        let dims = [2.to_dim(), 3.to_dim()];
        assert_eq!(reshaped(&dims, None, &[6])?, [2, 3]);
        assert_eq!(reshaped(&dims, Some(0), &[12])?, [4, 3]);
        assert_eq!(reshaped(&[2.to_dim(), 0.to_dim()], Some(0), &[0])?, [1, 0]);
        for (open, from) in [(None, 5), (Some(0), 7), (Some(1), 1)] {
            let error = format!("{:#}", reshaped(&dims, open, &[from]).unwrap_err());
            assert!(error.contains("cannot be reshaped to"), "{error}");
        }
        let error = reshaped(&[(-2).to_dim()], None, &[2]).unwrap_err();
        assert!(format!("{error:#}").contains("dimension 0 would be -2"), "{error:#}");
        reshaped(&[(1i64 << 40).to_dim(), (1i64 << 40).to_dim()], None, &[0]).unwrap_err();
        Ok(())
    }
}
