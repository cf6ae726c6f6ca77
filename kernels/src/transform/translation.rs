//! A model on its way to other operators: a copy, in which each value may be in several forms.

use std::collections::{HashMap, HashSet};

use tract_core::internal::*;
use tract_core::ops::identity::Identity;

/// The model, its copy, and what the values of the one are in the other: in the forms `F`.
pub(super) struct Translation<'a, F> {
    pub source: &'a TypedModel,
    pub target: TypedModel,
    pub values: HashMap<OutletId, F>,
    /// The names of the target's nodes.
    names: HashSet<String>,
}

impl<'a, F: Clone> Translation<'a, F> {
    pub fn new(source: &'a TypedModel) -> Translation<'a, F> {
        let target = TypedModel { symbols: source.symbols.clone(), ..TypedModel::default() };
        Translation { source, target, values: HashMap::new(), names: HashSet::new() }
    }

    /// Adds an input of the model, with its label. Models may be cut at nodes that are no sources.
    pub fn input(&mut self, input: OutletId, fact: TypedFact) -> TractResult<OutletId> {
        let name = &self.source.node(input.node).name;
        self.names.insert(name.clone());
        let outlet = self.target.add_source(name, fact)?;
        if let Some(label) = self.source.outlet_label(input) {
            self.target.set_outlet_label(outlet, label.to_string())?;
        }
        Ok(outlet)
    }

    /// A name that begins with this one, and that no other node has. It is one of the names then.
    pub fn unique_name(&mut self, name: &str) -> String {
        let mut unique = name.to_string();
        for number in 1.. {
            if self.names.insert(unique.clone()) {
                break;
            }
            unique = format!("{name}.{number}");
        }
        unique
    }

    /// The forms of a value.
    pub fn value(&self, outlet: OutletId) -> TractResult<F> {
        self.values.get(&outlet).cloned().context("a value is used before it is computed")
    }

    /// Adds a node. (tract's own method computes what small constants become, and compares the name with those of all others.)
    pub fn wire(
        &mut self,
        name: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let (op, unique) = (op.into(), self.unique_name(name));
        let facts = inputs.iter().map(|input| self.target.outlet_fact(*input));
        let facts = op.output_facts(&facts.collect::<TractResult<TVec<_>>>()?);
        let facts = facts.with_context(|| format!("wiring {unique}"))?;
        let count = facts.len();
        let node = self.target.add_node(unique, op, facts)?;
        for (slot, input) in inputs.iter().enumerate() {
            self.target.add_edge(*input, InletId::new(node, slot))?;
        }
        Ok((0..count).map(|slot| OutletId::new(node, slot)).collect())
    }

    /// What an output of the model is in the copy, with its label. One value may be several outputs.
    pub fn labelled(&mut self, outlet: OutletId, mut output: OutletId) -> TractResult<OutletId> {
        if let Some(label) = self.source.outlet_label(outlet) {
            if self.target.outlet_label(output).is_some_and(|other| other != label) {
                output = self.wire(label, Identity, &[output])?[0];
            }
            self.target.set_outlet_label(output, label.to_string())?;
        }
        Ok(output)
    }

    /// The copy, with these outputs.
    pub fn into_target(mut self, outputs: &[OutletId]) -> TractResult<TypedModel> {
        self.target.select_output_outlets(outputs)?;
        self.target.properties = self.source.properties.clone();
        self.target.compact()?;
        Ok(self.target)
    }
}
