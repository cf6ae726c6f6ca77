//! The operator that all operations are.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tract_openvino_ir::internal::*;

/// What an operation computes of its inputs.
pub(crate) type Compute = dyn Fn(&[TValue]) -> TractResult<TVec<Tensor>> + Send + Sync;

/// An operation on texts: a function of tensors, and what is known of its outputs.
#[derive(Clone)]
pub(crate) struct TextOp {
    /// The operation, as OpenVINO calls it.
    pub operation: &'static str,
    pub compute: Arc<Compute>,
    pub outputs: TVec<(DatumType, TVec<TDim>)>,
}

impl fmt::Debug for TextOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.operation, self.outputs)
    }
}

impl PartialEq for TextOp {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.compute, &other.compute) && self.outputs == other.outputs
    }
}

impl Eq for TextOp {}

impl Hash for TextOp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.operation, &self.outputs).hash(state)
    }
}

impl Op for TextOp {
    fn name(&self) -> StaticName {
        format!("OpenVinoTokenizers{}", self.operation).into()
    }

    /// Only a run knows how many pieces a text has.
    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    op_as_typed_op!();
}

impl EvalOp for TextOp {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let outputs = (self.compute)(&inputs).with_context(|| format!("in {}", self.operation))?;
        Ok(outputs.into_iter().map(|output| output.into_tvalue()).collect())
    }
}

impl TypedOp for TextOp {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(self.outputs.iter().map(|(dt, shape)| dt.fact(shape.clone())).collect())
    }

    fn set_symbols(
        &self,
        _source: &TypedModel,
        node: &TypedNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        values: &HashMap<Symbol, TDim>,
    ) -> TractResult<TVec<OutletId>> {
        let mut op = self.clone();
        for dim in op.outputs.iter_mut().flat_map(|(_, shape)| shape) {
            *dim = dim.substitute_all(values)?;
        }
        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        target.wire_node(&node.name, op, &inputs)
    }

    as_op!();
}
