//! Places in a document.

use crate::document::{Body, Layer};
use crate::shortened::shortened_name;

/// Where a graph or a layer is in a document, so that it is known again when the translation starts again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The position of a layer in the network, the role of a body of it, the position of a layer in that, and so on.
    positions: Vec<usize>,
    /// The names of these layers: those of nodes start with it. Layers may have one name, and long ones are
    /// shortened: what is within a layer has its name, too.
    pub name: String,
}

impl Place {
    /// The place of a layer in the graph that is here.
    pub fn layer(&self, position: usize, layer: &Layer) -> Place {
        self.with(position, &layer.name)
    }

    /// The place of a body of the layer that is here.
    pub fn body(&self, body: &Body) -> Place {
        self.with(body.role as usize, "/")
    }

    fn with(&self, position: usize, name: &str) -> Place {
        let positions = [&self.positions[..], &[position]].concat();
        let name = format!("{}{}", self.name, shortened_name(name));
        Place { positions, name: shortened_name(name).into_owned() }
    }
}
