use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_input_count;
use tract_openvino_kernels::{map_unchanged_axes, register_movement};

use crate::typed_op::{change_axes, impl_op};

/// Gives its input, some of whose axes must have a number of elements at least, which is checked when the model
/// runs.
///
/// tract's convolutions and pools do not check that their kernel fits into the data: they panic, or read and
/// write what is not theirs. Its Fourier transform panics if an axis has no elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LeastSizes {
    /// Axes, and the number of elements of each.
    pub least: TVec<(usize, usize)>,
}

register_movement!(Checks, |op| op.is::<LeastSizes>());

impl LeastSizes {
    /// For data of a shape: known sizes are checked already. `None` if none is open.
    pub fn of_open(
        shape: &[TDim],
        least: impl IntoIterator<Item = (usize, usize)>,
    ) -> Option<LeastSizes> {
        let is_open = |(axis, _): &(usize, usize)| shape[*axis].as_i64().is_none();
        let least: TVec<(usize, usize)> = least.into_iter().filter(is_open).collect();
        (!least.is_empty()).then_some(LeastSizes { least })
    }

    fn check(&self, rank: usize) -> TractResult<()> {
        let wrong = self.least.iter().find(|(axis, _)| *axis >= rank);
        match wrong {
            Some((axis, _)) => {
                bail!("LeastSizes: an axis is {axis}, but must be in [0, {rank})")
            }
            None => Ok(()),
        }
    }
}

impl_op!(
    LeastSizes,
    "OpenVinoLeastSizes",
    info = |op| vec![format!("axes and sizes: {:?}", op.least)]
);

impl EvalOp for LeastSizes {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        expect_input_count("LeastSizes", inputs.len(), 1..=1)?;
        self.check(inputs[0].rank())?;
        for (axis, least) in &self.least {
            let size = inputs[0].shape()[*axis];
            ensure!(
                size >= *least,
                "axis {axis} of the data has size {size}, but must have size {least} or more"
            );
        }
        Ok(inputs)
    }
}

impl TypedOp for LeastSizes {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("LeastSizes", inputs.len(), 1..=1)?;
        self.check(inputs[0].rank())?;
        Ok(tvec!(inputs[0].without_value()))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        // The axes that are checked stay as they are: tract may not take elements out before the check.
        map_unchanged_axes(inputs, outputs, |axis| {
            self.least.iter().any(|(checked, _)| *checked == axis)
        })
    }

    change_axes!(|op, change| {
        let moved = |(axis, least): &(usize, usize)| Some((change.transform_axis(*axis)?, *least));
        let least: Option<TVec<_>> = op.least.iter().map(moved).collect();
        Ok(least.map(|least| LeastSizes { least }))
    });

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let shape = &model.outlet_fact(node.inputs[0])?.shape;
        let fits = |(axis, least): &(usize, usize)| {
            shape[*axis].as_i64().is_some_and(|size| size >= *least as i64)
        };
        rule_if!(self.least.iter().all(fits));
        TypedModelPatch::shunt_one_op(model, node)
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::between_codes;

    #[test]
    fn sizes_are_checked_when_the_model_runs() {
        let op = LeastSizes { least: tvec![(1, 3)] };
        let run = |shape: &[usize]| {
            let input = Tensor::zero::<f32>(shape).unwrap().into_tvalue();
            op.eval(&EvalContext::out_of_plan(), tvec!(input))
        };
        run(&[0, 3]).unwrap();
        let error = format!("{:#}", run(&[4, 2]).unwrap_err());
        assert!(error.contains("has size 2, but must have size 3 or more"), "{error}");
        run(&[3]).unwrap_err();
    }

    #[test]
    fn it_stays_between_codes() -> TractResult<()> {
        let found = between_codes(|_| Box::new(LeastSizes { least: tvec![(2, 2), (3, 2)] }))?;
        assert_eq!(
            found,
            ["Source", "Quantize", "OpenVinoLeastSizes", "QuantizedMaxPool", "Dequantize"]
        );
        Ok(())
    }

    #[test]
    fn it_goes_once_sizes_are_known() -> TractResult<()> {
        let mut model = TypedModel::default();
        let n = model.symbols.sym("N");
        let input = model.add_source("input", f32::fact([n.to_dim()]))?;
        let op = LeastSizes { least: tvec![(0, 3)] };
        let output = model.wire_node("least", op, &[input])?;
        model.select_output_outlets(&output)?;
        for (size, nodes) in [(2, 2), (3, 1)] {
            let known = model.set_symbols(&HashMap::from([(n.clone(), size.to_dim())]))?;
            assert_eq!(known.into_decluttered()?.nodes().len(), nodes);
        }
        Ok(())
    }
}
