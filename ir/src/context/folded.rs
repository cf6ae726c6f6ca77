//! What layers with constant inputs computed: kept when the translation starts again, but no longer than it may
//! be needed.

use std::collections::HashMap;
use std::sync::Arc;

use tract_core::internal::*;

use super::Value;
use super::budget::Budget;
use super::compressed::Compressed;
use super::place::Place;
use super::restart::Restart;
use crate::document::Graph;
use crate::weights::Blob;

/// A constant that a layer computed when the model was loaded.
#[derive(Debug, Clone)]
pub(crate) struct Folded {
    identity: Identity,
    /// Whether it is declared in half precision. It was computed in single precision.
    pub half: bool,
    /// Nothing if it was dropped, because it had become another constant.
    tensor: Option<Arc<Tensor>>,
}

impl Folded {
    pub fn tensor(&self) -> TractResult<Arc<Tensor>> {
        self.tensor.clone().ok_or_else(|| Restart::Dropped.into())
    }
}

/// What tells constants apart without their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// What is in the weights there.
    Weights(Arc<Blob>),
    /// Compressed weights, by their address.
    Compressed(usize),
    /// An output of a computation.
    Output { computation: usize, output: usize },
}

impl Value {
    /// The identity, if the value is the same when the translation starts again.
    fn identity(&self) -> Option<Identity> {
        match self {
            Value::Weights(blob) => Some(Identity::Weights(blob.clone())),
            Value::Compressed(weights) => Some(Identity::Compressed(Arc::as_ptr(weights).addr())),
            Value::Folded(folded) => Some(folded.identity.clone()),
            Value::Outlet(_) | Value::Constant(_) => None,
        }
    }
}

/// The results of layers whose inputs are all constants.
#[derive(Debug, Default)]
pub(crate) struct Computations {
    /// By the layer: its inputs, and its results.
    layers: HashMap<Place, (Vec<Identity>, Vec<Folded>)>,
    /// By the layer that decompresses them.
    compressed: HashMap<Place, Arc<Compressed>>,
    count: usize,
    /// What constants take.
    pub budget: Budget,
}

impl Computations {
    pub fn new(budget: Budget) -> Computations {
        Computations { budget, ..Computations::default() }
    }

    /// Nothing is computed.
    pub fn restarted(&self) -> Computations {
        Computations::new(self.budget.restarted())
    }

    /// The translation starts again: constants are put into another model.
    pub fn start(&mut self) {
        self.budget = self.budget.restarted();
    }

    /// The results of a layer, if they were computed from the same inputs.
    pub fn find(&self, layer: &Place, inputs: &[Value]) -> Option<Vec<Folded>> {
        let (known, results) = self.layers.get(layer)?;
        let same = known.len() == inputs.len()
            && known
                .iter()
                .zip(inputs)
                .all(|(known, input)| input.identity().as_ref() == Some(known));
        same.then(|| results.clone())
    }

    /// Adds the results of a layer: each tensor with whether it is declared in half precision.
    pub fn add(
        &mut self,
        layer: &Place,
        inputs: &[Value],
        results: impl Iterator<Item = (Arc<Tensor>, bool)>,
    ) -> Vec<Folded> {
        self.count += 1;
        let computation = self.count;
        let folded = |(output, (tensor, half))| Folded {
            identity: Identity::Output { computation, output },
            half,
            tensor: Some(tensor),
        };
        let results: Vec<Folded> = results.enumerate().map(folded).collect();
        let inputs: Option<Vec<Identity>> = inputs.iter().map(Value::identity).collect();
        match inputs {
            Some(inputs) => self.layers.insert(layer.clone(), (inputs, results.clone())),
            None => self.layers.remove(layer),
        };
        results
    }

    /// The weights that a layer decompresses: always the same, so that they are decompressed once.
    pub fn compressed(&mut self, layer: &Place, weights: Compressed) -> Arc<Compressed> {
        self.compressed.entry(layer.clone()).or_insert_with(|| Arc::new(weights)).clone()
    }

    /// Whether these values are what is kept of a layer.
    fn has(&self, layer: &Place, values: &[Value]) -> bool {
        let kept = self.layers.get(layer);
        kept.is_some_and(|(_, results)| {
            let kept = results.iter().map(|result| Some(result.identity.clone()));
            kept.eq(values.iter().map(Value::identity))
        })
    }

    fn drop_tensors(&mut self, layer: &Place) {
        for result in self.layers.get_mut(layer).into_iter().flat_map(|(_, results)| results) {
            result.tensor = None;
        }
    }
}

/// The values of the layers of a graph, each until its last use.
pub(crate) struct Values {
    pub of: Vec<Vec<Value>>,
    /// How often each layer is an input of a layer that is not translated yet.
    uses: Vec<usize>,
    /// The layers that something else uses than computations whose results are kept.
    used: Vec<bool>,
}

impl Values {
    pub fn new(graph: &Graph) -> Values {
        let mut uses = vec![0; graph.layers.len()];
        for source in graph.layers.iter().flat_map(|layer| &layer.inputs) {
            uses[source.layer] += 1;
        }
        Values { of: vec![vec![]; uses.len()], used: vec![false; uses.len()], uses }
    }

    /// Drops what was used by this layer for the last time.
    pub fn translated(
        &mut self,
        graph: &Graph,
        place: &Place,
        number: usize,
        computations: &mut Computations,
    ) {
        let place_of = |number: usize| place.layer(number, &graph.layers[number]);
        let kept = computations.has(&place_of(number), &self.of[number]);
        for source in graph.layers[number].inputs.iter().map(|source| source.layer) {
            self.uses[source] -= 1;
            self.used[source] |= !kept;
            if self.uses[source] == 0 {
                self.of[source].clear();
                if !self.used[source] {
                    computations.drop_tensors(&place_of(source));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{ElementType, Layer, Source};

    /// `weights -> a -> b`: what `a` computed is dropped, and `b` still known by what it was computed from.
    #[test]
    fn what_became_another_constant_is_dropped() {
        let layer = |inputs: &[usize]| Layer {
            operation: "Convert".into(),
            inputs: inputs.iter().map(|layer| Source { layer: *layer, output: 0 }).collect(),
            ..Layer::default()
        };
        let layers = vec![layer(&[]), layer(&[0]), layer(&[1]), layer(&[2])];
        let graph = Graph { layers, ..Graph::default() };
        let weights = || {
            let element_type = ElementType::U8;
            Value::Weights(Arc::new(Blob { element_type, shape: vec![1], offset: 0, size: 1 }))
        };
        let place = Place::default();
        let place_of = |number: usize| place.layer(number, &graph.layers[number]);
        let mut computations = Computations::default();
        let mut values = Values::new(&graph);
        values.of[0] = vec![weights()];
        for number in 1..3 {
            let inputs = values.of[number - 1].clone();
            let result = [(Arc::new(tensor0(number as f32)), false)].into_iter();
            let results = computations.add(&place_of(number), &inputs, result);
            values.of[number] = results.into_iter().map(Value::Folded).collect();
            values.translated(&graph, &place, number, &mut computations);
        }
        // The last layer is not computed.
        values.of[3] = vec![Value::Outlet(OutletId::new(0, 0))];
        let last = values.of[2].clone();
        values.translated(&graph, &place, 3, &mut computations);
        assert!(values.of[..3].iter().all(Vec::is_empty));

        let a = computations.find(&place_of(1), &[weights()]).unwrap();
        assert!(a[0].tensor().unwrap_err().is::<Restart>());
        let a: Vec<Value> = a.into_iter().map(Value::Folded).collect();
        let b = computations.find(&place_of(2), &a).unwrap();
        assert_eq!(*b[0].tensor().unwrap(), tensor0(2f32));
        assert!(computations.find(&place_of(2), &last).is_none());
    }
}
