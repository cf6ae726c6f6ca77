//! A node of an ONNX model that is an operation of OpenVINO.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tract_core::model::order::eval_order_for_nodes;
use tract_core::ops::cast::cast;
use tract_core::ops::identity::Identity;
use tract_core::ops::konst::Const;
use tract_core::ops::source::TypedSource;
use tract_openvino::tract_onnx::tract_hir::internal::*;
use tract_openvino_kernels::checks::checked_volume;
use tract_openvino_kernels::guard_downsamples;

use crate::context::{NotKnown, SizesOfARun, tdims};
use crate::shortened::{shortened, shortened_name};
use crate::translate::Alone;
use crate::workarounds::bound::bind_symbols_of;
use crate::workarounds::equal_node::equal_node;

/// An operation that is translated as a layer of IR is: once for each set of facts of its inputs, to infer what is known of its
/// outputs, and to wire its nodes.
#[derive(Debug, Clone)]
pub(super) struct OpenVinoNode(Arc<Shared>);

/// An output that the node has: it gives it a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// Its position among those of the operation.
    pub number: usize,
    /// The type that sizes have. Otherwise they are expressions, as those of tract's own nodes are.
    pub integer: Option<DatumType>,
}

/// What copies of a node share.
struct Shared {
    alone: Alone,
    /// The symbols of the model.
    scope: SymbolScope,
    outputs: Vec<Output>,
    has_state: bool,
    translations: Mutex<Translations>,
}

/// What the node was translated to.
#[derive(Default)]
struct Translations {
    /// The last translation that did not fail, and what was known of the inputs.
    last: Option<(TVec<TypedFact>, Arc<TypedModel>)>,
    sizes: SizesOfARun,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.alone.layer)
    }
}

impl PartialEq for OpenVinoNode {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OpenVinoNode {}

/// The most bytes of what is computed while types and shapes are inferred.
const MOST_INFERRED: usize = 1 << 20;

impl OpenVinoNode {
    /// A node with these of the operation's outputs.
    pub fn new(alone: Alone, scope: SymbolScope, outputs: Vec<Output>) -> OpenVinoNode {
        let has_state = alone.registry.has_state(&alone.layer);
        let translations = Mutex::default();
        OpenVinoNode(Arc::new(Shared { alone, scope, outputs, has_state, translations }))
    }

    /// The model that computes the node from inputs of which so much is known.
    fn translated(&self, inputs: &[TypedFact]) -> TractResult<Arc<TypedModel>> {
        let Shared { alone, scope, outputs, translations, .. } = &*self.0;
        let mut translations = translations.lock().unwrap_or_else(PoisonError::into_inner);
        let Translations { last, sizes } = &mut *translations;
        if let Some((known, model)) = last
            && **known == *inputs
        {
            return Ok(model.clone());
        }
        let model = alone.translated(scope, inputs, sizes).and_then(|mut model| {
            let all = model.output_outlets()?.to_vec();
            let mut chosen = self.chosen(&all)?;
            for (outlet, Output { number, integer }) in chosen.iter_mut().zip(outputs) {
                if let Some(dt) = integer
                    && model.outlet_fact(*outlet)?.datum_type.is_tdim()
                {
                    let name = shortened_name(&*alone.layer.name);
                    let name = format!("{name}.integers.{number}");
                    *outlet = model.wire_node(name, cast(*dt), &[*outlet])?[0];
                }
            }
            model.select_output_outlets(&chosen)?;
            Ok(model)
        });
        let model = Arc::new(model.map_err(|error| self.in_context(error))?);
        debug_assert_eq!(model.outputs.len(), outputs.len());
        *last = Some((inputs.into(), model.clone()));
        Ok(model)
    }

    /// Those of the outputs of the operation that the node has.
    fn chosen<T: Clone>(&self, all: &[T]) -> TractResult<TVec<T>> {
        let Shared { alone, outputs, .. } = &*self.0;
        let output = |output: &Output| all.get(output.number).cloned();
        outputs.iter().map(output).collect::<Option<_>>().with_context(|| {
            let there = alone.layer.outputs.len();
            format!("the number of outputs is {there}, but its operation has {}", all.len())
        })
    }

    fn in_context(&self, error: TractError) -> TractError {
        let layer = &self.0.alone.layer;
        let name = shortened_name(&*layer.name);
        shortened(error.context(format!("in node {name:?} ({}, {})", layer.operation, layer.opset)))
    }

    /// What is known of the outputs, if the types and the shapes of all inputs are known.
    fn infer_outputs(
        &self,
        inputs: &[&InferenceFact],
        known: &[&InferenceFact],
    ) -> TractResult<TVec<InferenceFact>> {
        let outputs: TVec<InferenceFact> = known.iter().map(|fact| (*fact).clone()).collect();
        let inputs: TractResult<Vec<_>> =
            inputs.iter().map(|fact| TypedFact::try_from(*fact)).collect();
        let Ok(inputs) = inputs else { return Ok(outputs) };
        let model = match self.translated(&inputs) {
            // A value may be known later.
            Err(error) if error.is::<NotKnown>() => return Ok(outputs),
            model => model?,
        };
        let mut inferred = tvec!();
        for (outlet, mut known) in model.output_outlets()?.iter().zip(outputs) {
            let mut fact = InferenceFact::from(model.outlet_fact(*outlet)?);
            let translations = self.0.translations.lock().unwrap_or_else(PoisonError::into_inner);
            // tract puts a constant in the place of a node whose values are known. Then nothing gives their symbols values.
            let dims = match fact.value.concretize() {
                Some(value) if value.datum_type().is_tdim() => tdims(&value)?,
                _ => tvec!(),
            };
            if self.0.has_state || dims.iter().any(|dim| translations.sizes.has(dim)) {
                fact = fact.without_value();
            }
            // What was a size that only a run knows may be known better by now. But facts may have it already.
            let dims: Option<Vec<(TDim, TDim)>> =
                match (fact.shape.concretize(), known.shape.concretize()) {
                    (Some(new), Some(old)) if new.len() == old.len() => {
                        Some(new.into_iter().zip(old).collect())
                    }
                    _ => None,
                };
            if let Some(dims) = dims
                && dims.iter().any(|(new, old)| new != old && translations.sizes.has(old))
            {
                fact = fact.without_value();
                let kept = dims
                    .into_iter()
                    .map(|(new, old)| if translations.sizes.has(&old) { old } else { new });
                fact.shape = kept.collect();
            }
            let number = inferred.len();
            known.unify_with(&fact).with_context(|| {
                format!(
                    "output {number} of {} is {}, but the model says {}",
                    self.0.alone.layer,
                    fact.format_dt_shape(),
                    known.format_dt_shape()
                )
            })?;
            inferred.push(known);
        }
        Ok(inferred)
    }
}

impl Op for OpenVinoNode {
    fn name(&self) -> StaticName {
        "OpenVinoNode".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![self.0.alone.layer.to_string()])
    }

    not_a_typed_op!();
}

impl EvalOp for OpenVinoNode {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let facts = inputs.iter().map(|input| TypedFact::try_from(input.clone().into_arc_tensor()));
        let facts = facts.collect::<TractResult<Vec<_>>>()?;
        // Sizes that have symbols have no value.
        if self.0.has_state || facts.iter().any(|fact| fact.datum_type.is_tdim()) {
            return Ok(None);
        }
        let model = match self.translated(&facts) {
            Err(error) if error.is::<NotKnown>() => return Ok(None),
            model => model?,
        };
        for outlet in model.output_outlets()? {
            let fact = model.outlet_fact(*outlet)?;
            let Some(shape) = fact.shape.as_concrete() else { return Ok(None) };
            let bytes = checked_volume(&self.0.alone.layer.operation, shape)?
                .saturating_mul(fact.datum_type.size_of());
            if bytes > MOST_INFERRED {
                return Ok(None);
            }
        }
        self.eval(&EvalContext::out_of_plan(), inputs).map(Some)
    }

    /// What runs a model that is not typed: with the very shapes and types of the inputs.
    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let number = |input: TValue| match input.datum_type() {
            DatumType::TDim => Ok(input.cast_to::<i64>()?.into_owned().into_tvalue()),
            _ => Ok(input),
        };
        let inputs = inputs.into_iter().map(number).collect::<TractResult<TVec<_>>>()?;
        let outputs = self.0.alone.eval(&inputs, &BTreeSet::new());
        let outputs = outputs.and_then(|outputs| self.chosen(&outputs));
        outputs.map_err(|error| self.in_context(error))
    }
}

impl InferenceOp for OpenVinoNode {
    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<(TVec<InferenceFact>, TVec<InferenceFact>, TVec<InferenceFact>)> {
        let inferred = self.infer_outputs(&inputs, &outputs)?;
        let cloned = |facts: TVec<&InferenceFact>| facts.into_iter().cloned().collect();
        Ok((cloned(inputs), inferred, cloned(observed)))
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(self.0.outputs.len())
    }

    fn as_op(&self) -> &dyn Op {
        self
    }

    fn as_op_mut(&mut self) -> &mut dyn Op {
        self
    }

    fn to_typed(
        &self,
        _source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        let facts = inputs.iter().map(|input| {
            let fact = target.outlet_fact(*input)?;
            let plain = fact.datum_type.fact(fact.shape.clone());
            Ok(TypedFact { konst: fact.konst.clone(), ..plain })
        });
        let facts = facts.collect::<TractResult<Vec<_>>>()?;
        let model = self.translated(&facts)?;
        let before = target.nodes().len();
        let outlets = put_into(target, &model, &inputs, self.0.has_state)?;
        bind_symbols_of(target, before)?;
        guard_downsamples(target, before)?;
        // A node's outputs have names of their own: those of inputs and of other nodes stay.
        let mut named = tvec!();
        for outlet in outlets {
            named.push(match outlet.node < before || named.contains(&outlet) {
                true => {
                    let name = unused_name(target, &format!("{}.output", node.name));
                    target.wire_node(name, Identity, &[outlet])?[0]
                }
                false => outlet,
            });
        }
        Ok(named)
    }
}

/// Puts the nodes of a model that computes a node into another model, where its inputs are these outlets. Gives its outputs. A
/// node that is there already is not put there again, unless it has a state.
fn put_into(
    target: &mut TypedModel,
    model: &TypedModel,
    inputs: &[OutletId],
    has_state: bool,
) -> TractResult<TVec<OutletId>> {
    let (mut constants, mut fed) = (vec![], vec![]);
    for input in inputs {
        match &target.outlet_fact(*input)?.konst {
            Some(tensor) => constants.push((*input, tensor.clone())),
            None => fed.push(*input),
        }
    }
    // The sources are the inputs that are fed, in their order.
    let sources = model.input_outlets()?.iter().copied();
    let mut mapping: HashMap<OutletId, OutletId> = sources.zip(fed).collect();
    // And those that give symbols values, although nothing may need what they compute.
    let givers = model.nodes().iter().filter(|node| node.op.mints_runtime_symbols());
    let givers = givers.map(|node| node.id);
    let ends: Vec<usize> = model.outputs.iter().map(|output| output.node).chain(givers).collect();
    let sources: Vec<usize> = model.inputs.iter().map(|input| input.node).collect();
    for id in eval_order_for_nodes(model.nodes(), &sources, &ends, &[])? {
        let node = model.node(id);
        if node.op_is::<TypedSource>() {
            continue;
        }
        if let Some(constant) = node.op_as::<Const>()
            && let Some((outlet, _)) =
                constants.iter().find(|(_, tensor)| Arc::ptr_eq(tensor, constant.val()))
        {
            mapping.insert(id.into(), *outlet);
            continue;
        }
        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        let equal = equal_node(target, &*node.op, &inputs).filter(|_| !has_state);
        let outlets = match equal {
            Some(equal) => (0..node.outputs.len()).map(|slot| OutletId::new(equal, slot)).collect(),
            None => {
                let name = unused_name(target, &node.name);
                target.wire_node(name, node.op.clone(), &inputs)?
            }
        };
        for (slot, outlet) in outlets.into_iter().enumerate() {
            mapping.insert(OutletId::new(id, slot), outlet);
        }
    }
    Ok(model.output_outlets()?.iter().map(|output| mapping[output]).collect())
}

/// The name, or one with a number after it that no node has.
fn unused_name(model: &TypedModel, name: &str) -> String {
    let is_taken = |name: &str| model.nodes().iter().any(|node| node.name == name);
    // Many nodes may have one name.
    let is_numbered =
        |node: &&TypedNode| node.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let first = 1 + model.nodes().iter().filter(is_numbered).count();
    let numbered = (first..).map(|number| format!("{name}.{number}"));
    std::iter::once(name.to_string())
        .chain(numbered)
        .find(|name| !is_taken(name))
        .unwrap_or_default()
}
