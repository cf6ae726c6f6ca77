//! Variables that a network keeps from run to run: what is known of them while it is translated.

use std::collections::BTreeMap;
use std::sync::Arc;

use tract_core::internal::*;

use crate::document::Dimension;
use crate::operators::variable::Variable;

/// The variables of a network or of a body, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    pub entries: BTreeMap<String, Entry>,
    pub is_body: bool,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub variable: Arc<Variable>,
    /// The symbols of the dimensions that change from run to run, by axis.
    pub changing: BTreeMap<usize, Symbol>,
    /// The nodes that read it, each with the open dimensions that were assumed to stay as they are at first,
    /// by axis.
    pub reads: Vec<(OutletId, BTreeMap<usize, Dimension>)>,
    /// The layer that gives it a value, and the value.
    pub assigned: Option<(String, OutletId)>,
}

impl Variables {
    /// Those of a body of control flow, which are kept in the state of its layer.
    pub fn of_body() -> Variables {
        Variables { is_body: true, ..Variables::default() }
    }

    pub fn ids(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// Forgets nodes, because the translation starts again.
    pub fn start(&mut self) {
        for entry in self.entries.values_mut() {
            entry.reads.clear();
            entry.assigned = None;
        }
    }

    /// What is known of a variable.
    pub fn entry(&mut self, id: &str) -> &mut Entry {
        self.entries.entry(id.into()).or_insert_with(|| Entry {
            variable: Variable::new(id),
            changing: BTreeMap::new(),
            reads: vec![],
            assigned: None,
        })
    }
}
