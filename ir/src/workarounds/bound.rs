//! Symbols that nodes give their values when the model runs.

use std::collections::{BTreeSet, HashSet};

use tract_core::internal::*;
use tract_core::ops::array::Slice;
#[cfg(feature = "onnx")]
use tract_core::ops::source::TypedSource;
use tract_openvino_kernels::checks::expect_input_count;

use crate::typed_op::impl_op;

/// Gives its first input, after the nodes that its other inputs come from have run.
///
/// What a size that is only known at run time is computed from may need no element of the tensor that has the size. Then
/// nothing orders the two nodes but this one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Bound;

impl_op!(Bound, "OpenVinoBound");

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
        expect_input_count("Bound", inputs.len(), 1..=usize::MAX)?;
        Ok(tvec!(inputs[0].without_value()))
    }

    as_op!();
}

/// Has each node of a model that needs the value of a symbol run after the node that gives it. A model's inputs give
/// their symbols values, and so does the model around a body, whose symbols are `outer`.
///
/// tract orders the two nodes only if the outputs need both, and takes the first node that may give symbols values for the
/// one that does. Nodes must be in the order in which they were wired: the first one with a symbol gives it its value.
///
/// To see whether they are in order already takes a walk back through the nodes. All walks together may take so many steps
/// for each node of the model; then nodes are put in order that may be so already.
pub(crate) fn bind_symbols(model: &mut TypedModel, outer: &HashSet<Symbol>) -> TractResult<()> {
    let mut givers: HashMap<Symbol, Option<usize>> =
        outer.iter().map(|symbol| (symbol.clone(), None)).collect();
    let inputs: HashSet<OutletId> = model.inputs.iter().copied().collect();
    for node in model.nodes.iter().filter(|node| node.op.mints_runtime_symbols()) {
        let giver = Some(node.id).filter(|_| !inputs.contains(&node.id.into()));
        for symbol in node.outputs.iter().flat_map(|output| shape_symbols(&output.fact)) {
            givers.entry(symbol).or_insert(giver);
        }
    }
    if givers.values().all(Option::is_none) {
        return Ok(());
    }
    let mut names: HashSet<String> = model.nodes.iter().map(|node| node.name.clone()).collect();
    let mut steps = model.nodes.len().saturating_mul(STEPS_FOR_A_NODE);
    // Of each node so far the symbols that it needs: it runs after the nodes that give them.
    let mut needed: Vec<HashSet<Symbol>> = vec![];
    for id in 0..model.nodes.len() {
        let node = model.node(id);
        // Constants are not run.
        let symbols = match node.inputs.is_empty() {
            true => HashSet::new(),
            false => mentioned_symbols(model, node)?,
        };
        let missing: BTreeSet<usize> = symbols
            .iter()
            .filter_map(|symbol| Some((symbol, givers.get(symbol).copied()??)))
            .filter(|(symbol, giver)| {
                *giver < id && !runs_after(model, id, symbol, *giver, &needed, &mut steps)
            })
            .map(|(_, giver)| giver)
            .collect();
        needed.push(symbols);
        if missing.is_empty() {
            continue;
        }
        let (name, inputs) = (node.name.clone(), node.inputs.clone());
        // A constant would not be one any more.
        let is_computed =
            |input: &OutletId| model.outlet_fact(*input).is_ok_and(|it| it.konst.is_none());
        let slot = inputs.iter().position(is_computed).unwrap_or(0);
        let givers = missing.into_iter().map(OutletId::from);
        let bound: TVec<OutletId> = std::iter::once(inputs[slot]).chain(givers).collect();
        // tract would compare the name with those of all nodes.
        let mut name = format!("{name}.bound");
        while !names.insert(name.clone()) {
            name.push('.');
        }
        let fact = model.outlet_fact(inputs[slot])?.without_value();
        let node = model.add_node(name, Bound, tvec!(fact))?;
        for (slot, outlet) in bound.into_iter().enumerate() {
            model.add_edge(outlet, InletId::new(node, slot))?;
        }
        model.add_edge(node.into(), InletId::new(id, slot))?;
    }
    Ok(())
}

/// Has some nodes, the last ones of a model, run after those that give their symbols values, as [`bind_symbols`] does. All others
/// do so already.
#[cfg(feature = "onnx")]
pub(crate) fn bind_symbols_of(model: &mut TypedModel, last: usize) -> TractResult<()> {
    let mut open = HashSet::new();
    for id in last..model.nodes.len() {
        let node = model.node(id);
        if node.inputs.is_empty() {
            continue;
        }
        let mut symbols = mentioned_symbols(model, node)?;
        // What comes after the node that gives a symbol its value has it in the shape of its output.
        for symbol in model.node_input_facts(id)?.into_iter().flat_map(shape_symbols) {
            symbols.remove(&symbol);
        }
        // And what gives it is the first one.
        if node.op.mints_runtime_symbols() && !symbols.is_empty() {
            let earlier = model.nodes[..id].iter().flat_map(|node| &node.outputs);
            let earlier: HashSet<Symbol> =
                earlier.flat_map(|output| shape_symbols(&output.fact)).collect();
            symbols.retain(|symbol| earlier.contains(symbol));
        }
        open.extend(symbols);
    }
    if open.is_empty() {
        return Ok(());
    }
    let sources = model.nodes.iter().filter(|node| node.op_is::<TypedSource>());
    let of_inputs: HashSet<Symbol> =
        sources.flat_map(|node| shape_symbols(&node.outputs[0].fact)).collect();
    match open.is_subset(&of_inputs) {
        true => Ok(()),
        false => bind_symbols(model, &of_inputs),
    }
}

/// How many steps the walks through a model take for each of its nodes. In networks it is one or two, because nodes that
/// come after each other need the same symbols.
const STEPS_FOR_A_NODE: usize = 64;

/// Whether a node runs after the one that gives a symbol its value, because it needs its output, or that of a node that
/// runs after it. `steps` are those that are left: without any, it is not known.
fn runs_after(
    model: &TypedModel,
    id: usize,
    symbol: &Symbol,
    giver: usize,
    needed: &[HashSet<Symbol>],
    steps: &mut usize,
) -> bool {
    let mut seen = HashSet::new();
    let mut left: Vec<usize> = vec![id];
    while let Some(node) = left.pop() {
        for input in model.node(node).inputs.iter().map(|input| input.node) {
            let Some(rest) = steps.checked_sub(1) else { return false };
            *steps = rest;
            if input == giver || needed.get(input).is_some_and(|it| it.contains(symbol)) {
                return true;
            }
            // Nodes before it do not need it.
            if input > giver && seen.insert(input) {
                left.push(input);
            }
        }
    }
    false
}

fn shape_symbols(fact: &TypedFact) -> impl Iterator<Item = Symbol> {
    fact.shape.iter().flat_map(|dim| dim.symbols())
}

/// The symbols whose values a node may need: those of the shapes of its outputs, of the sizes among its inputs, and of its
/// operator.
pub(crate) fn mentioned_symbols(
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
