//! Symbols that nodes give their values when the model runs.

use std::collections::{BTreeSet, HashSet};

use tract_core::internal::*;
use tract_core::ops::array::Slice;

/// Gives its first input, after the nodes that its other inputs come from have run.
///
/// What a size that is only known at run time is computed from may need no element of the tensor that has the size. Then
/// nothing orders the two nodes but this one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Bound;

impl Op for Bound {
    fn name(&self) -> StaticName {
        "OpenVinoBound".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Bound {
    // Outside of a plan no symbol has a value.
    not_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, mut inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        inputs.truncate(1);
        Ok(inputs)
    }
}

impl TypedOp for Bound {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(!inputs.is_empty(), "Bound: the number of inputs is 0, but must be 1 or more");
        Ok(tvec!(inputs[0].without_value()))
    }

    as_op!();
}

/// Has each node of a model that needs the value of a symbol run after the node that gives it. A model's inputs give
/// their symbols values, and so does the model around a body, whose symbols are `outer`.
///
/// tract orders the two nodes only if the outputs need both, and takes the first node that may give symbols values for the
/// one that does. Nodes must be in the order in which they were wired: the first one with a symbol gives it its value.
pub(crate) fn bind_symbols(model: &mut TypedModel, outer: &HashSet<Symbol>) -> TractResult<()> {
    let mut givers: HashMap<Symbol, Option<usize>> =
        outer.iter().map(|symbol| (symbol.clone(), None)).collect();
    for node in model.nodes.iter().filter(|node| node.op.mints_runtime_symbols()) {
        let giver = Some(node.id).filter(|_| !model.inputs.contains(&node.id.into()));
        for symbol in node.outputs.iter().flat_map(|output| shape_symbols(&output.fact)) {
            givers.entry(symbol).or_insert(giver);
        }
    }
    let numbers: BTreeSet<usize> = givers.values().flatten().copied().collect();
    if numbers.is_empty() {
        return Ok(());
    }
    // Of each node the givers that run before it, because it needs their outputs.
    let mut before: Vec<BTreeSet<usize>> = vec![];
    for id in 0..model.nodes.len() {
        let inputs = model.node(id).inputs.clone();
        let mut done = BTreeSet::new();
        for input in &inputs {
            done.extend(before.get(input.node).into_iter().flatten());
            done.extend(numbers.get(&input.node));
        }
        let mentioned = mentioned_symbols(model, model.node(id))?;
        let needed: BTreeSet<usize> =
            mentioned.iter().filter_map(|symbol| givers.get(symbol).copied()?).collect();
        let missing: Vec<usize> =
            needed.into_iter().filter(|giver| *giver < id && !done.contains(giver)).collect();
        if !missing.is_empty() && !inputs.is_empty() {
            // A constant would not be one any more.
            let is_computed =
                |input: &OutletId| model.outlet_fact(*input).is_ok_and(|it| it.konst.is_none());
            let slot = inputs.iter().position(is_computed).unwrap_or(0);
            for giver in &missing {
                done.extend(before[*giver].iter().copied());
                done.insert(*giver);
            }
            let givers = missing.into_iter().map(OutletId::from);
            let bound: TVec<OutletId> = std::iter::once(inputs[slot]).chain(givers).collect();
            let name = model.unique_name(format!("{}.bound", model.node(id).name)).into_owned();
            let bound = model.wire_node(name, Bound, &bound)?[0];
            model.add_edge(bound, InletId::new(id, slot))?;
        }
        before.push(done);
    }
    Ok(())
}

fn shape_symbols(fact: &TypedFact) -> impl Iterator<Item = Symbol> {
    fact.shape.iter().flat_map(|dim| dim.symbols())
}

/// The symbols whose values a node may need: those of the shapes of its outputs, of the sizes among its inputs, and of its
/// operator.
pub(super) fn mentioned_symbols(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<HashSet<Symbol>> {
    let inputs = model.node_input_facts(node.id)?;
    let mut symbols: HashSet<Symbol> =
        node.outputs.iter().flat_map(|output| shape_symbols(&output.fact)).collect();
    symbols.extend(node.op.required_bound_symbols(&inputs));
    // tract's operator does not say what its bounds are made of.
    if let Some(slice) = node.op_as::<Slice>() {
        symbols.extend([&slice.start, &slice.end].into_iter().flat_map(|bound| bound.symbols()));
    }
    Ok(symbols)
}
