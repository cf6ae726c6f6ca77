use tract_core::internal::*;
use tract_openvino_kernels::checks::{
    check_volume, checked_volume, expect_input_count, known_size,
};
use tract_openvino_kernels::register_movement;

use crate::typed_op::{change_axes, impl_op, set_symbols};

/// Gives its input, whose shape is checked when the model runs: its dimensions must be those of another tensor,
/// which are only known then.
///
/// tract compares dimensions by their structure when a model is loaded, and does not compare sizes in all of its
/// operators when it runs. The output has the other tensor's dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EqualShape {
    shape: TVec<TDim>,
    /// Whether the input may have size 1 instead, and is repeated then.
    broadcasts: bool,
    /// Whether symbols of the shape get their values here.
    names: bool,
}

register_movement!(Checks, |op| op.downcast_ref::<EqualShape>().is_some_and(|op| !op.broadcasts));
register_movement!(Moves, |op| op.is::<EqualShape>());

/// What an open size may be in networks: longer sequences and larger images have fewer other axes.
const LARGE_SIZE: i64 = 1 << 9;

impl EqualShape {
    /// Whether open sizes that are not extraordinary make more of a shape than an output may have. tract's own broadcast
    /// multiplies them without a check.
    pub fn is_needed_for(shape: &[TDim]) -> bool {
        let mut sizes = SymbolValues::default();
        for symbol in shape.iter().flat_map(TDim::symbols) {
            sizes.set(&symbol, LARGE_SIZE);
        }
        let shape: Option<Vec<usize>> =
            shape.iter().map(|dim| known_size(&dim.eval(&sizes)).ok()).collect();
        shape.is_none_or(|shape| checked_volume("", &shape).is_err())
    }

    /// `shape` is what the input must have.
    pub fn new(shape: TVec<TDim>) -> EqualShape {
        EqualShape { shape, broadcasts: false, names: false }
    }

    /// `shape` is what the input must have, or be broadcast to.
    pub fn or_broadcast(shape: TVec<TDim>) -> EqualShape {
        EqualShape { shape, broadcasts: true, names: false }
    }

    /// `shape` is what the input is said to have. It may have new symbols, which stand for what a size is.
    pub fn naming(shape: TVec<TDim>) -> EqualShape {
        EqualShape { shape, broadcasts: false, names: true }
    }
}

impl_op!(
    EqualShape,
    "OpenVinoEqualShape",
    info = |op| {
        let dims: Vec<String> = op.shape.iter().map(|dim| dim.to_string()).collect();
        vec![format!("shape: {}", dims.join(","))]
    },
    mints_runtime_symbols = |op| op.names,
    required_bound_symbols = |op, _| op.shape.iter().flat_map(|dim| dim.symbols()).collect()
);

impl EvalOp for EqualShape {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let mut shape: TVec<usize> = tvec!();
        for (axis, (dim, size)) in self.shape.iter().zip(input.shape()).enumerate() {
            let expected = match dim.eval(ctx.symbols) {
                dim @ TDim::Val(_) => known_size(&dim)?,
                _ if self.names => *size,
                dim => known_size(&dim)?,
            };
            shape.push(expected);
            ensure!(
                expected == *size || self.broadcasts && *size == 1,
                "dimension {axis} of a tensor is {size}, but must be {expected} ({dim}), as in another tensor"
            );
        }
        if *shape == *input.shape() {
            return Ok(tvec!(input));
        }
        check_volume("EqualShape", input.datum_type(), &shape)?;
        Ok(tvec!(input.broadcast_to_shape(&shape)?.into_tvalue()))
    }
}

impl TypedOp for EqualShape {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("EqualShape", inputs.len(), 1..=1)?;
        ensure!(
            inputs[0].rank() == self.shape.len(),
            "EqualShape: the input has rank {}, but must have rank {}",
            inputs[0].rank(),
            self.shape.len()
        );
        Ok(tvec!(inputs[0].datum_type.fact(&self.shape)))
    }

    change_axes!(|op, change| {
        rule_if!(matches!(change, AxisOp::Move(..)));
        let mut op = op.clone();
        change.change_shape_array(&mut op.shape, false)?;
        Ok(Some(op))
    });

    set_symbols!(shape);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::between_codes;

    #[test]
    fn sizes_are_compared_when_the_model_runs() -> TractResult<()> {
        let mut model = TypedModel::default();
        let (n, m) = (model.symbols.sym("N"), model.symbols.sym("M"));
        let first = model.add_source("first", f32::fact([n.to_dim()]))?;
        let second = model.add_source("second", f32::fact([m.to_dim()]))?;
        let op = EqualShape::new(tvec!(n.to_dim()));
        let equal = model.wire_node("equal", op, &[second])?;
        assert_eq!(model.outlet_fact(equal[0])?.shape[0], n.to_dim());
        model.select_output_outlets(&[first, equal[0]])?;
        let model = model.into_optimized()?.into_runnable()?;
        let run = |sizes: [usize; 2]| {
            let inputs = sizes.map(|size| Tensor::zero::<f32>(&[size]).unwrap().into_tvalue());
            model.run(inputs.into_iter().collect())
        };
        run([3, 3])?;
        let error = format!("{:#}", run([3, 2]).unwrap_err());
        assert!(error.contains("dimension 0 of a tensor is 2, but must be 3 (N)"), "{error}");
        Ok(())
    }

    #[test]
    fn it_stays_between_codes() -> TractResult<()> {
        for of in [EqualShape::new, EqualShape::or_broadcast] {
            let found = between_codes(|h| {
                let shape = [1.to_dim(), 4.to_dim(), h.to_dim(), 6.to_dim()];
                Box::new(of(shape.into_iter().collect()))
            })?;
            assert_eq!(
                found,
                ["Source", "Quantize", "OpenVinoEqualShape", "QuantizedMaxPool", "Dequantize"]
            );
        }
        Ok(())
    }

    #[test]
    fn one_is_broadcast_when_the_model_runs() -> TractResult<()> {
        let broadcast = |size: usize| {
            let inputs = tvec!(tensor1(&vec![7; size]).into_tvalue());
            EqualShape::or_broadcast(tvec!(3.to_dim())).eval(&EvalContext::out_of_plan(), inputs)
        };
        assert_eq!(*broadcast(1)?[0], tensor1(&[7, 7, 7]));
        assert_eq!(*broadcast(3)?[0], tensor1(&[7, 7, 7]));
        assert!(broadcast(2).is_err());
        Ok(())
    }
}
