//! Attention over keys and values that a network keeps in variables.

use tract_core::internal::*;
use tract_core::ops::array::TypedConcat;
use tract_openvino::{Gather, IndexPolicy};
use tract_openvino_kernels::{
    AppendToPages, Attention, PageFormat, PagedFactor, Phase, Rewrite, Rule, Session, register_rule,
};

use super::variable::{Assign, ReadValue};
use crate::workarounds::bound::Bound;

register_rule!(Rule::new("paged_attention", Phase::Decluttered, rewrite));

/// Keys or values that a variable has.
struct Cached<'a> {
    format: PageFormat,
    read: &'a TypedNode,
    variable: &'a ReadValue,
    /// Which of the earlier sequences each one continues.
    beams: Option<OutletId>,
    new: OutletId,
    concat: &'a TypedNode,
}

impl<'a> Cached<'a> {
    /// What an input of attention is, if it is kept in a variable, and nobody else reads this.
    fn of(
        model: &'a TypedModel,
        attention: &TypedNode,
        slot: usize,
        format: PageFormat,
    ) -> TractResult<Option<Cached<'a>>> {
        let concat = model.node(attention.inputs[slot].node);
        rule_if_some!(op = concat.op_as::<TypedConcat>());
        rule_if!(op.axis + 2 == concat.outputs[0].fact.rank() && op.axis > 0);
        rule_if_let!([mut before, new] = concat.inputs[..]);
        let mut reader = InletId::new(concat.id, 0);
        let mut beams = None;
        let gather = model.node(before.node);
        if let Some(op) = gather.op_as::<Gather>() {
            rule_if!(op.axis() == 0 && op.batch_dims() == 0);
            rule_if!(op.index_policy() == IndexPolicy::WrapOrZeros);
            let indices = model.outlet_fact(gather.inputs[1])?;
            rule_if!(indices.rank() == 1 && indices.datum_type.is_integer());
            rule_if!(gather.outputs[0].successors.len() == 1);
            beams = Some(gather.inputs[1]);
            before = gather.inputs[0];
            reader = InletId::new(gather.id, 0);
        }
        let read = model.node(before.node);
        rule_if_some!(variable = read.op_as::<ReadValue>());
        let fact = &read.outputs[0].fact;
        rule_if!(fact.datum_type == DatumType::F32 && fact.is_plain());
        let elements = fact.shape[fact.rank() - 1].as_i64();
        rule_if!(elements.is_some_and(|elements| elements > 0));
        // Others need the node, but not what it gives.
        let is_free = |inlet: &InletId| {
            let node = model.node(inlet.node);
            *inlet == reader
                || (node.op_is::<Bound>() && inlet.slot > 0)
                || node.op_as::<Assign>().is_some_and(|op| inlet.slot >= op.variables.len())
        };
        rule_if!(read.outputs[0].successors.iter().all(is_free));
        let outputs = model.output_outlets()?;
        rule_if!(!outputs.contains(&before) && !outputs.contains(&concat.id.into()));
        let is_assigned = |inlet: &InletId| {
            let assign = model.node(inlet.node).op_as::<Assign>();
            let assigned = assign.and_then(|op| op.variables.get(inlet.slot));
            assigned.is_some_and(|it| Arc::ptr_eq(it, &variable.variable))
        };
        let is_known =
            |inlet: &InletId| *inlet == InletId::new(attention.id, slot) || is_assigned(inlet);
        rule_if!(concat.outputs[0].successors.len() == 2);
        rule_if!(concat.outputs[0].successors.iter().all(is_known));
        Ok(Some(Cached { format, read, variable, beams, new, concat }))
    }

    /// The same in pages, in place of these nodes.
    fn wire(&self, model: &TypedModel, patch: &mut TypedModelPatch) -> TractResult<OutletId> {
        let initial = patch.taps(model, &self.read.inputs)?;
        let read = ReadValue { pages: Some(self.format), ..self.variable.clone() };
        let read = patch.wire_node(&self.read.name, read, &initial)?[0];
        let mut inputs = tvec![read, patch.tap_model(model, self.new)?];
        if let Some(beams) = self.beams {
            inputs.push(patch.tap_model(model, beams)?);
        }
        let append = AppendToPages { format: self.format };
        let pages = patch.wire_node(&self.concat.name, append, &inputs)?[0];
        patch.shunt_outside(model, self.read.id.into(), read)?;
        patch.shunt_outside(model, self.concat.id.into(), pages)?;
        patch.obliterate(self.read.id)?;
        patch.obliterate(self.concat.id)?;
        Ok(pages)
    }
}

/// Keeps keys and values of earlier runs in pages. As tensors they would be copied in each run: by the Gather of each beam, and by
/// the Concat with the new ones.
///
/// `ReadValue -> [Gather ->] Concat -> Attention, Assign`, for keys and for values, becomes
/// `ReadValue -> AppendToPages -> Attention, Assign`.
fn rewrite(
    session: &Session,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<Rewrite>> {
    rule_if_some!(attention = node.op_as::<Attention>());
    let slots = attention.keys_and_values();
    let precision = session.kv_cache_precision();
    let cached =
        |at: usize, factor| Cached::of(model, node, slots[at], PageFormat { factor, precision });
    let (keys, values) = (cached(0, PagedFactor::Keys)?, cached(1, PagedFactor::Values)?);
    let (keys, values) = match (keys, values) {
        (Some(keys), Some(values)) => (keys, values),
        (None, None) => return Ok(None),
        _ => {
            let reason = "its keys and its values must both be kept in variables, of their own";
            return Ok(Some(Rewrite::Refused(reason.into())));
        }
    };
    let rank = keys.concat.outputs[0].fact.rank();
    let Some(attention) = attention.on_pages(rank) else {
        let reason = "keys and values must be of shape [.., positions, elements]";
        return Ok(Some(Rewrite::Refused(reason.into())));
    };
    let mut patch = TypedModelPatch::default();
    let mut inputs = patch.taps(model, &node.inputs)?;
    for (cached, slot) in [&keys, &values].into_iter().zip(slots) {
        inputs[slot] = cached.wire(model, &mut patch)?;
    }
    let output = patch.wire_node(&node.name, attention, &inputs)?[0];
    patch.shunt_outside(model, node.id.into(), output)?;
    patch.obliterate(node.id)?;
    Ok(Some(patch.into()))
}

#[cfg(test)]
mod tests {
    use tract_core::ops::array::{MultiBroadcastTo, Slice};
    use tract_core::ops::einsum::EinSum;
    use tract_core::ops::nn::{Softmax, SoftmaxKind};
    use tract_core::transform::ModelTransform;
    use tract_openvino::GatherRevision;
    use tract_openvino_kernels::{CachePrecision, KernelsConfig, KernelsTransform, Outcome};

    use super::super::variable::Variable;
    use super::*;

    /// Attention over all `x` so far, which are queries, keys and values. `beams` say what each row continues.
    fn decoder(other_use: bool, has_sink: bool) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let symbols = ["B", "N", "P", "E"].map(|name| model.symbols.sym(name).to_dim());
        let [batch, count, past, before] = symbols;
        let shape = |batch: &TDim, count: TDim| tvec![batch.clone(), 2.to_dim(), count, 4.to_dim()];
        let sinks = MultiBroadcastTo::new(
            tvec![batch.clone(), 2.to_dim(), count.clone(), 1.to_dim()].into(),
        );
        let x = model.add_source("x", f32::fact(shape(&batch, count)))?;
        let beams = model.add_source("beams", i32::fact([batch]))?;
        let (mut variables, mut reads, mut all) = (vec![], vec![], vec![]);
        for name in ["keys", "values"] {
            let read = ReadValue {
                variable: Variable::new(name),
                datum_type: f32::datum_type(),
                shape: shape(&before, past.clone()).into(),
                pages: None,
            };
            variables.push(read.variable.clone());
            let read = model.wire_node(format!("read_{name}"), read, &[])?[0];
            let gather = Gather::new(GatherRevision::V8, 0);
            let gather = model.wire_node(format!("gather_{name}"), gather, &[read, beams])?[0];
            let concat = TypedConcat::new(2);
            all.push(model.wire_node(format!("all_{name}"), concat, &[gather, x])?[0]);
            reads.push(read);
        }
        let product = |axes: &str| TractResult::Ok(EinSum::new(axes.parse()?, DatumType::F32));
        let scores = product("bhqd,bhkd->bhqk")?;
        let scores = model.wire_node("scores", scores, &[x, all[0]])?;
        let softmax = Softmax::new(tvec![3], None, SoftmaxKind::Softmax);
        let weights = match has_sink {
            true => {
                let keys = model.outlet_fact(scores[0])?.shape[3].clone();
                let sink = Tensor::from_shape(&[1, 2, 1, 1], &[0.5f32, 3.])?;
                let sink = model.add_const("sink", sink)?;
                let sink = model.wire_node("sinks", sinks, &[sink])?[0];
                let concat = TypedConcat::new(3);
                let all = model.wire_node("scores_and_sink", concat, &[scores[0], sink])?;
                let weights = model.wire_node("weights_and_sink", softmax, &all)?;
                model.wire_node("weights", Slice::new(3, 0, keys), &weights)?[0]
            }
            false => model.wire_node("weights", softmax, &scores)?[0],
        };
        let output = product("bhqk,bhkd->bhqd")?;
        let output = model.wire_node("output", output, &[weights, all[1]])?[0];
        let mut outputs = vec![output];
        if other_use {
            outputs.push(all[1]);
        }
        let assign = Assign { variables, outputs: outputs.len() };
        let inputs: Vec<OutletId> = [all, reads, outputs].concat();
        let outputs = model.wire_node("assign", assign, &inputs)?;
        model.select_output_outlets(&outputs)?;
        Ok(model)
    }

    fn inputs(count: usize, beams: &[i32], seed: usize) -> TVec<TValue> {
        let numbers: Vec<f32> = (0..beams.len() * 2 * count * 4)
            .map(|it| ((it + seed) * 37 % 23) as f32 / 9.)
            .collect();
        let x = Tensor::from_shape(&[beams.len(), 2, count, 4], &numbers).unwrap();
        tvec!(x.into(), tensor1(beams).into())
    }

    #[test]
    fn states_go_on_in_pages() -> TractResult<()> {
        for has_sink in [false, true] {
            states_go_on(decoder(false, has_sink)?)?;
        }
        Ok(())
    }

    fn states_go_on(model: TypedModel) -> TractResult<()> {
        let mut transformed = model.clone();
        let decisions = KernelsTransform::default().transform_with_decisions(&mut transformed)?;
        let replaced = decisions.iter().filter(|it| it.rule == "paged_attention");
        let outcomes: Vec<&Outcome> = replaced.map(|it| &it.outcome).collect();
        assert_eq!(outcomes, [&Outcome::Replaced("PagedAttention".into())]);
        let appends = |node: &&TypedNode| node.op_is::<AppendToPages>();
        assert_eq!(transformed.nodes().iter().filter(appends).count(), 2);
        let plans = [model.into_decluttered()?, transformed.into_optimized()?];
        let [plain, paged] = plans.map(SimplePlan::new);
        let mut states = [(plain?.spawn()?, paged?.spawn()?)].to_vec();
        let steps: [(usize, usize, &[i32]); 8] = [
            (0, 40, &[0, 1]),
            (0, 1, &[1, 0]),
            (0, 3, &[0, 0, 1]),
            // A clone, and both go on.
            (0, 1, &[2, -1, 7]),
            (1, 30, &[1, 0, 2]),
            (0, 1, &[0]),
            (1, 1, &[2, 2]),
            (0, 2, &[0]),
        ];
        for (seed, (state, count, beams)) in steps.into_iter().enumerate() {
            if state == states.len() {
                states.push(states[0].clone());
            }
            let (plain, paged) = &mut states[state];
            // What fails changes nothing.
            let mut wrong = inputs(count, beams, seed);
            wrong[1] = tensor1(&vec![0i32; beams.len() + 1]).into();
            assert!(paged.run(wrong).is_err());
            paged.turn_state = Default::default();
            let expected = plain.run(inputs(count, beams, seed))?;
            let found = paged.run(inputs(count, beams, seed))?;
            found[0].close_enough(&expected[0], Approximation::Approximate)?;
        }
        Ok(())
    }

    /// Bytes are another result, if the program asks for them.
    #[test]
    fn pages_of_bytes_are_an_option() -> TractResult<()> {
        let last = |precision: CachePrecision| -> TractResult<Tensor> {
            let mut config = KernelsConfig::default();
            config.kv_cache_precision = precision;
            let mut model = decoder(false, false)?;
            KernelsTransform::new(config)?.transform(&mut model)?;
            let mut state = SimplePlan::new(model.into_optimized()?)?.spawn()?;
            for (seed, count) in [60, 1, 9].into_iter().enumerate() {
                state.run(inputs(count, &[0, 1], seed))?;
            }
            Ok(state.run(inputs(1, &[1, 0], 3))?.remove(0).into_tensor())
        };
        let [exact, rounded] = [last(CachePrecision::F32)?, last(CachePrecision::U8)?];
        assert_ne!(exact, rounded);
        rounded.close_enough(&exact, Approximation::Custom(0.02, 0.02, 0.))?;
        Ok(())
    }

    /// Nobody else can read pages.
    #[test]
    fn other_uses_keep_tensors() -> TractResult<()> {
        let mut model = decoder(true, false)?;
        let decisions = KernelsTransform::default().transform_with_decisions(&mut model)?;
        assert!(decisions.iter().all(|it| {
            it.rule != "paged_attention" || matches!(it.outcome, Outcome::Refused(_))
        }));
        let mut state = SimplePlan::new(model.into_optimized()?)?.spawn()?;
        state.run(inputs(3, &[0], 1))?;
        assert_eq!(state.run(inputs(2, &[0], 2))?[1].shape(), [1, 2, 5, 4]);
        Ok(())
    }
}
