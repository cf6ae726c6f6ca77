//! The order in which layers are computed.

use anyhow::{Result, bail};

use super::{Graph, Layer, Source};

/// Sorts layers so that each comes after those that it takes from, and leaves out those that nothing needs.
/// Parameters and results stay in the file's order.
///
/// The input is in the file's order, with sources as positions in it.
pub(super) fn graph(layers: Vec<Layer>) -> Result<Graph> {
    let is = |operation: &str| {
        let of_that_type = |(_, layer): &(usize, &Layer)| layer.operation == operation;
        layers.iter().enumerate().filter(of_that_type).map(|it| it.0).collect::<Vec<usize>>()
    };
    let (parameters, results, sinks) = (is("Parameter"), is("Result"), is("Assign"));
    let roots = parameters.iter().chain(&results).chain(&sinks).copied();
    let order = depth_first(&layers, roots)?;
    let mut position = vec![usize::MAX; layers.len()];
    for (new, old) in order.iter().enumerate() {
        position[*old] = new;
    }
    let moved = |positions: Vec<usize>| positions.into_iter().map(|old| position[old]).collect();
    let mut graph = Graph {
        layers: Vec::with_capacity(order.len()),
        parameters: moved(parameters),
        results: moved(results),
        sinks: moved(sinks),
    };
    let mut layers: Vec<Option<Layer>> = layers.into_iter().map(Some).collect();
    for old in order {
        if let Some(mut layer) = layers[old].take() {
            for source in &mut layer.inputs {
                *source = Source { layer: position[source.layer], ..*source };
            }
            graph.layers.push(layer);
        }
    }
    Ok(graph)
}

/// The layers that the roots need, each after those that it needs. This does not recurse, because a file may
/// have ten thousand layers in a row.
fn depth_first(layers: &[Layer], roots: impl Iterator<Item = usize>) -> Result<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; layers.len()];
    let mut order = vec![];
    for root in roots {
        // A layer, and how many of its inputs are done.
        let mut path = vec![(root, 0)];
        while let Some((layer, done)) = path.pop() {
            if done == 0 && states[layer] == State::Done {
                continue;
            }
            states[layer] = State::Open;
            let Some(source) = layers[layer].inputs.get(done) else {
                states[layer] = State::Done;
                order.push(layer);
                continue;
            };
            path.push((layer, done + 1));
            match states[source.layer] {
                State::New => path.push((source.layer, 0)),
                State::Open => bail!(
                    "{} depends on itself: it takes from {}, which takes from it",
                    layers[source.layer],
                    layers[layer]
                ),
                State::Done => (),
            }
        }
    }
    Ok(order)
}
