//! The names of the nodes of models. tract compares a new one with all others, which takes longer with each layer of
//! a large file.

use std::collections::{HashMap, HashSet};

use tract_core::internal::*;

use super::derived::Derived;

/// The names that are taken in a model.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub model: Taken,
    /// How often each name was taken already when a node of any model was to have it.
    counts: HashMap<String, usize>,
}

/// The names of the nodes of a model, and how many of its nodes these are.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    names: HashSet<String>,
    nodes: usize,
    /// What is known of outlets of the model that are computed from sizes alone.
    pub derived: HashMap<OutletId, Derived>,
}

impl Names {
    /// Goes on with another model, and gives the names of the one before.
    pub fn go_on_with(&mut self, model: Taken) -> Taken {
        std::mem::replace(&mut self.model, model)
    }

    /// A name for a node that a model does not have yet. All layers may have one name: tract would count from 1 for
    /// each.
    pub fn unique(&mut self, model: &TypedModel, name: String) -> String {
        let taken = &mut self.model;
        let added = model.nodes().iter().skip(taken.nodes);
        taken.names.extend(added.map(|node| node.name.clone()));
        taken.nodes = model.nodes().len();
        if !taken.names.contains(&name) {
            return name;
        }
        let count = self.counts.entry(name.clone()).or_default();
        loop {
            *count += 1;
            let name = format!("{name}.{count}");
            if !taken.names.contains(&name) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_own() -> TractResult<()> {
        let mut names = Names::default();
        let mut model = TypedModel::default();
        for expected in ["a", "a.1", "a.2"] {
            let name = names.unique(&model, "a".into());
            assert_eq!(name, expected);
            model.add_source(name, f32::fact([1]))?;
        }
        // Added without a look at the names.
        model.add_source("b", f32::fact([1]))?;
        assert_eq!(names.unique(&model, "b".into()), "b.1");
        let outer = names.go_on_with(Taken::default());
        let body = TypedModel::default();
        assert_eq!(names.unique(&body, "a".into()), "a");
        names.go_on_with(outer);
        assert_eq!(names.unique(&model, "a".into()), "a.3");
        names.go_on_with(Taken::default());
        model = TypedModel::default();
        assert_eq!(names.unique(&model, "a".into()), "a");
        Ok(())
    }
}
