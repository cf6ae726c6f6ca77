//! The names of the nodes of models. tract compares a new one with all others, which takes longer with each layer of
//! a large file.

use std::collections::{HashMap, HashSet};

use tract_core::internal::*;

/// The names that are taken, by the address of the model. There are some models at a time: bodies, and layers that
/// are computed.
#[derive(Debug, Default)]
pub(super) struct Names {
    models: HashMap<usize, Taken>,
    /// How often each name was taken already when a node was to have it.
    counts: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Taken {
    names: HashSet<String>,
    /// The number of nodes whose names these are, and the last one. Another model may have got the address.
    nodes: usize,
    last: String,
}

impl Taken {
    fn update(&mut self, model: &TypedModel) {
        let nodes = model.nodes();
        let is_same =
            self.nodes == 0 || nodes.get(self.nodes - 1).is_some_and(|last| last.name == self.last);
        if !is_same {
            *self = Taken::default();
        }
        self.names.extend(nodes[self.nodes..].iter().map(|node| node.name.clone()));
        self.nodes = nodes.len();
        self.last = nodes.last().map_or_else(String::new, |node| node.name.clone());
    }
}

impl Names {
    /// A name for a node that a model does not have yet. All layers may have one name: tract would count from 1 for
    /// each.
    pub fn unique(&mut self, model: &TypedModel, name: String) -> String {
        let taken = self.models.entry(std::ptr::from_ref(model).addr()).or_default();
        taken.update(model);
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
        assert_eq!(names.unique(&TypedModel::default(), "a".into()), "a");
        model = TypedModel::default();
        assert_eq!(names.unique(&model, "a".into()), "a");
        Ok(())
    }
}
