//! The nodes of a layer.

use tract_core::internal::*;
use tract_core::ops::cast::cast;
use tract_core::ops::change_axes::AxisOp;
use tract_openvino_kernels::checks::{check_addressable, checked_volume};

use super::sources::check_rank;
use super::{LayerContext, concrete, tdims};
use crate::typed_op::has_zero;
use crate::workarounds::empty::Empty;
use crate::workarounds::equal_node::equal_node;
use crate::workarounds::opaque::Opaque;

impl LayerContext<'_, '_> {
    /// Adds a node with one output. It has the layer's name, with a suffix unless that is empty. If the model has an
    /// equal node, it is that one instead.
    ///
    /// # Errors
    ///
    /// As for [`wire_all`](Self::wire_all).
    pub fn wire(
        &mut self,
        suffix: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        Ok(self.wire_all(suffix, op, inputs)?[0])
    }

    /// Adds a node with any number of outputs.
    ///
    /// tract computes a node at once if its inputs are small constants, however large the result is. So there
    /// must be room for it first.
    ///
    /// # Errors
    ///
    /// The operator refuses its inputs, an output is too large, or constants take more than the reader's limit.
    pub fn wire_all(
        &mut self,
        suffix: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let op = op.into();
        self.take_computed(&*op, inputs)?;
        let node = self.node_name(suffix);
        let outlets = self.add_node(node, op, inputs)?;
        let mut empty = tvec!();
        for outlet in &outlets {
            let fact = self.model.outlet_fact(*outlet)?;
            check_rank(fact.rank())?;
            let Some(shape) = fact.shape.as_concrete() else { continue };
            let dt = fact.datum_type;
            if checked_volume(&self.layer.operation, shape)? == 0 && has_zero(dt) {
                empty.push(Tensor::zero_dt(dt, shape)?);
            }
        }
        if empty.len() < outlets.len() || self.has_state {
            return Ok(outlets);
        }
        // tract's operators, and its optimiser, fail for many a tensor without elements.
        empty.into_iter().map(|empty| self.add_const("empty", empty)).collect()
    }

    /// Adds a node whose name no other has, as tract does, but without a look at all others. Like there, it is
    /// computed if its inputs are small constants.
    fn add_node(
        &mut self,
        name: String,
        op: Box<dyn TypedOp>,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let facts = inputs.iter().map(|input| self.model.outlet_fact(*input).cloned());
        let facts = facts.collect::<TractResult<TVec<_>>>()?;
        let outputs = op
            .output_facts(&facts.iter().collect::<TVec<_>>())
            .with_context(|| format!("in node {name:?}"))?;
        for output in &outputs {
            check_addressable(&self.layer.operation, &output.shape)?;
        }
        if let Some(tensors) = computed(&*op, &facts, &outputs) {
            let added = tensors.into_iter().enumerate().map(|(slot, output)| {
                let name = if slot == 0 { name.clone() } else { format!("{name}.{slot}") };
                self.translation.add_const(self.model, name, output.into_arc_tensor())
            });
            return added.collect();
        }
        // Others need a node that gives a symbol its value.
        let empty = Empty::instead_of(&outputs).filter(|_| {
            outputs.iter().all(|fact| has_zero(fact.datum_type))
                && !self.has_state
                && !op.mints_runtime_symbols()
        });
        let op = empty.map_or(op, |empty| empty.into());
        let count = outputs.len();
        let outlets = |node| (0..count).map(|slot| OutletId::new(node, slot)).collect();
        let equal = equal_node(self.model, &*op, inputs).filter(|_| !self.has_state);
        if let Some(node) = equal {
            return Ok(outlets(node));
        }
        let node = self.model.add_node(name, op, outputs)?;
        for (slot, input) in inputs.iter().enumerate() {
            self.model.add_edge(*input, InletId::new(node, slot))?;
        }
        Ok(outlets(node))
    }

    /// Adds the node whose outputs are those of the layer, and which has its name, unless the model has an equal node.
    ///
    /// # Errors
    ///
    /// As for [`wire_all`](Self::wire_all).
    pub fn finish(
        &mut self,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        self.wire_all("", op, inputs)
    }

    /// A name for a node of this layer that the model does not have yet.
    pub fn node_name(&mut self, suffix: &str) -> String {
        let name = match suffix {
            "" => self.place.name.clone(),
            suffix => format!("{}.{suffix}", self.place.name),
        };
        self.translation.unique_name(self.model, name)
    }

    /// Adds a constant.
    ///
    /// # Errors
    ///
    /// Constants take more than the reader's limit.
    pub fn add_const(&mut self, suffix: &str, tensor: impl IntoArcTensor) -> TractResult<OutletId> {
        let tensor = tensor.into_arc_tensor();
        let (dt, shape) = (tensor.datum_type(), TVec::from(tensor.shape()));
        self.add_computed(suffix, dt, &shape, || Ok(tensor))
    }

    /// Adds a constant that is computed now, whose type and shape are known before. It is not computed if it would take
    /// more than there may be.
    ///
    /// # Errors
    ///
    /// Constants take more than the reader's limit.
    pub(crate) fn add_computed<T: IntoArcTensor>(
        &mut self,
        suffix: &str,
        dt: DatumType,
        shape: &[usize],
        compute: impl FnOnce() -> TractResult<T>,
    ) -> TractResult<OutletId> {
        check_rank(shape.len())?;
        self.translation.budget().take(dt, shape)?;
        let tensor = compute()?.into_arc_tensor();
        let name = format!("{}.{suffix}", self.place.name);
        self.translation.add_const(self.model, name, tensor)
    }

    /// Adds a scalar constant of a type, with as many axes of size 1 as are needed.
    ///
    /// # Errors
    ///
    /// Constants take more than the reader's limit, or the type is not one of numbers.
    pub fn scalar(
        &mut self,
        suffix: &str,
        value: f64,
        dt: DatumType,
        rank: usize,
    ) -> TractResult<OutletId> {
        let tensor = tensor0(value).cast_to_dt(dt)?.into_owned().broadcast_into_rank(rank)?;
        self.add_const(suffix, tensor)
    }

    /// Casts an outlet to another element type.
    ///
    /// # Errors
    ///
    /// As for [`wire_all`](Self::wire_all), or if there is no such cast.
    pub fn cast(&mut self, suffix: &str, outlet: OutletId, dt: DatumType) -> TractResult<OutletId> {
        let fact = self.model.outlet_fact(outlet)?;
        if fact.datum_type == dt {
            return Ok(outlet);
        }
        if let Some(tensor) = &fact.konst {
            // Only sizes without symbols can be numbers now.
            if tensor.datum_type().is_tdim()
                && let Some(tensor) = concrete(tensor, dt)?
            {
                return self.add_const(suffix, tensor);
            }
            // tract's cast would go through 32 bits.
            if dt.is_tdim() {
                let tensor = tensor1(&tdims(tensor)?).into_shape(tensor.shape())?;
                return self.add_const(suffix, tensor);
            }
            // tract would go on to compute with the size, as an expression, where only the number is meant. For some
            // expressions it never comes to an end.
            if tensor.datum_type().is_tdim() {
                let numbers = self.wire(&joined(suffix, "numbers"), cast(dt), &[outlet])?;
                return self.wire(suffix, Opaque, &[numbers]);
            }
        }
        self.wire(suffix, cast(dt), &[outlet])
    }

    /// Adds, removes or moves axes of an outlet.
    ///
    /// # Errors
    ///
    /// The outlet has no such axis.
    pub fn change_axes(
        &mut self,
        suffix: &str,
        outlet: OutletId,
        changes: impl IntoIterator<Item = AxisOp>,
    ) -> TractResult<OutletId> {
        let mut changes: Vec<AxisOp> = changes.into_iter().collect();
        let Some(last) = changes.pop() else { return Ok(outlet) };
        let suffixes = joined(suffix, "axes");
        let outlet = changes
            .into_iter()
            .try_fold(outlet, |outlet, change| self.wire(&suffixes, change, &[outlet]))?;
        self.wire(suffix, last, &[outlet])
    }
}

/// The most elements of the inputs of a node that is computed when it is wired.
const SMALL_INPUT: usize = 16;

/// What an operator gives for inputs that are small constants. Its outputs were taken from the budget of constants, unless
/// their sizes are not known: small inputs can make large ones, which are not computed here.
fn computed(op: &dyn TypedOp, facts: &[TypedFact], outputs: &[TypedFact]) -> Option<TVec<TValue>> {
    if !outputs.iter().all(|output| output.shape.is_concrete()) {
        return None;
    }
    let small = facts.iter().map(|fact| {
        let konst = fact.konst.as_ref()?;
        let is_small = konst.len() < SMALL_INPUT && konst.is_plain_ram();
        is_small.then(|| konst.clone().into_tvalue())
    });
    let small = small.collect::<Option<TVec<_>>>().filter(|small| !small.is_empty())?;
    op.eval_out_of_plan(small).ok()?
}

/// A suffix after another one, which may be empty.
fn joined(suffix: &str, last: &str) -> String {
    if suffix.is_empty() { last.into() } else { format!("{suffix}.{last}") }
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;

    fn layer(id: usize, name: &str, operation: &str, data: &str, inputs: usize) -> String {
        let inputs: String = (0..inputs).map(|port| format!(r#"<port id="{port}"/>"#)).collect();
        format!(
            r#"<layer id="{id}" name="{name}" type="{operation}" version="opset8"><data {data}/><input>{inputs}</input><output><port id="9"/></output></layer>"#
        )
    }

    /// tract's optimiser makes equal nodes one, too, but not those with random numbers.
    #[test]
    fn equal_layers_are_one_node_but_for_random_numbers() {
        let constant = |id, dt, shape, offset, size| {
            let data =
                format!(r#"element_type="{dt}" shape="{shape}" offset="{offset}" size="{size}""#);
            layer(id, &format!("constant_{id}"), "Const", &data, 0)
        };
        let random = r#"output_type="f32" global_seed="0" op_seed="0""#;
        let layers = [
            layer(0, "x", "Parameter", r#"shape="4" element_type="f32""#, 0),
            layer(1, "softmax_0", "Softmax", r#"axis="0""#, 1),
            layer(2, "softmax_1", "Softmax", r#"axis="0""#, 1),
            constant(3, "i64", "1", 0, 8),
            constant(4, "f32", "", 8, 4),
            constant(5, "f32", "", 12, 4),
            layer(6, "random_0", "RandomUniform", random, 3),
            layer(7, "random_1", "RandomUniform", random, 3),
        ];
        let results = [1, 2, 6, 7].map(|of| (of, 10 + of, 0));
        let results_of = results.map(|(_, id, _)| layer(id, &format!("r{id}"), "Result", "", 1));
        let inputs = [(0, 1, 0), (0, 2, 0)]
            .into_iter()
            .chain([6, 7].into_iter().flat_map(|to| [(3, to, 0), (4, to, 1), (5, to, 2)]));
        let edges: String = inputs
            .chain(results)
            .map(|(from, to, port)| {
                format!(
                    r#"<edge from-layer="{from}" from-port="9" to-layer="{to}" to-port="{port}"/>"#
                )
            })
            .collect();
        let layers = [layers.concat(), results_of.concat()].concat();
        let xml = format!(
            r#"<net name="net" version="11"><layers>{layers}</layers><edges>{edges}</edges></net>"#
        );
        let weights = [&4i64.to_le_bytes()[..], &0f32.to_le_bytes(), &1f32.to_le_bytes()].concat();
        let model = crate::ir().model_for_bytes(xml.as_bytes(), weights).unwrap();
        let count = |op| model.nodes().iter().filter(|node| node.op().name() == op).count();
        assert_eq!(["Softmax", "OpenVinoRandomUniform"].map(count), [1, 2]);
        let model = model.into_optimized().unwrap().into_runnable().unwrap();
        let outputs = model.run(tvec!(tensor1(&[1f32, -1., 2., -2.]).into())).unwrap();
        assert_eq!(outputs[0], outputs[1]);
        assert_ne!(outputs[2], outputs[3]);
    }
}
