//! How much memory the constants of a model may take while it is loaded.

use std::cell::Cell;
use std::collections::HashSet;

use tract_core::internal::*;
use tract_core::ops::konst::Const;
use tract_openvino_kernels::checks::{ensure_allocatable, volume};

use crate::limits::BYTES_OF_CONSTANTS;

/// What the constants of a model have taken, in bytes, and what they may take: those that are read, and those
/// that are computed from them. A constant that was dropped still counts, so that time has a limit, too.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    taken: Cell<u64>,
}

impl Default for Budget {
    /// The budget of a layer that is translated when the model runs.
    fn default() -> Budget {
        Budget::new(BYTES_OF_CONSTANTS)
    }
}

impl Budget {
    pub fn new(limit: u64) -> Budget {
        Budget { limit, taken: Cell::new(0) }
    }

    /// The same budget, with nothing taken.
    pub fn restarted(&self) -> Budget {
        Budget::new(self.limit)
    }

    /// Takes what a tensor takes. To be called before there is memory for it.
    pub fn take(&self, dt: DatumType, shape: &[usize]) -> TractResult<()> {
        // A size of 0 counts as 1 here: the other sizes may not be too large to multiply, although there are no
        // elements.
        let at_least_one: TVec<usize> = shape.iter().map(|size| *size.max(&1)).collect();
        let bytes = volume(&at_least_one).and_then(|volume| volume.checked_mul(dt.size_of()));
        let bytes = if shape.contains(&0) { bytes.and(Some(0)) } else { bytes };
        let taken = bytes.and_then(|bytes| self.taken.get().checked_add(bytes as u64));
        let limit = self.limit;
        let taken = taken.filter(|taken| *taken <= limit).with_context(|| {
            format!(
                "with a constant of type {dt:?} and shape {shape:?}, all constants would take more than \
                 {limit} bytes while the model is loaded. If you trust the file, raise this limit: \
                 Limits::constant_bytes, or --constants-limit of the command-line tool"
            )
        })?;
        self.taken.set(taken);
        ensure_allocatable("a constant", bytes.unwrap_or(0))
    }

    /// Takes what a tensor takes that is there already.
    pub fn take_tensor(&self, tensor: &Tensor) -> TractResult<()> {
        self.take(tensor.datum_type(), tensor.shape())
    }

    /// Takes what nodes of a model make of constants: tract computes them, in a row, when it optimises the model.
    pub fn take_computed(&self, model: &TypedModel) -> TractResult<()> {
        let mut computed = HashSet::new();
        for node in model.nodes() {
            let mut is_computed = false;
            let mut is_constant = !node.inputs.is_empty();
            for input in &node.inputs {
                is_computed |= computed.contains(&input.node);
                is_constant &=
                    computed.contains(&input.node) || model.outlet_fact(*input)?.konst.is_some();
            }
            if !is_constant || node.op_is::<Const>() {
                continue;
            }
            computed.insert(node.id);
            // What is made of constants alone was taken when the node was wired.
            let outputs = if is_computed { &*node.outputs } else { &[] };
            for output in outputs {
                if let Some(shape) = output.fact.shape.as_concrete() {
                    let taken = self.take(output.fact.datum_type, shape);
                    taken.with_context(|| format!("in node {:?}", node.name))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model_cases::MANY;
    use tract_core::ops::array::MultiBroadcastTo;
    use tract_core::ops::change_axes::AxisOp;

    use super::*;

    #[test]
    fn what_cannot_be_counted_is_too_much() {
        let budget = Budget::new(100);
        budget.take(DatumType::F32, &[5, 5]).unwrap();
        budget.take(DatumType::F32, &[0, MANY]).unwrap();
        for shape in [&[1][..], &[usize::MAX, 2], &[0, usize::MAX, 2]] {
            let error = budget.take(DatumType::F32, shape).unwrap_err().to_string();
            assert!(error.contains("more than 100 bytes") && error.contains("raise"), "{error}");
        }
        budget.restarted().take(DatumType::F32, &[25]).unwrap();
    }

    /// The file of the weights may be as large, without taking as much of the disk.
    #[test]
    fn constants_that_there_is_no_memory_for() {
        let half = 1 << (usize::BITS - 4);
        let error = Budget::new(u64::MAX).take(DatumType::F64, &[half]).unwrap_err().to_string();
        assert_eq!(error, format!("a constant: no memory for {} bytes", 8 * half));
    }

    /// tract knows no value of the first node, but computes both of them when it optimises the model.
    #[test]
    fn what_is_computed_of_what_is_computed() {
        let mut model = TypedModel::default();
        let constant = model.add_const("constant", tensor1(&[1f32; 20])).unwrap();
        let row = model.wire_node("row", AxisOp::Add(0), &[constant]).unwrap();
        let shape = ShapeFact::from_dims([1000.to_dim(), 20.to_dim()]);
        model.wire_node("rows", MultiBroadcastTo::new(shape), &row).unwrap();
        Budget::new(80_000).take_computed(&model).unwrap();
        let error = Budget::new(79_999).take_computed(&model).unwrap_err();
        assert!(format!("{error:#}").starts_with("in node \"rows\": "), "{error:#}");
    }
}
