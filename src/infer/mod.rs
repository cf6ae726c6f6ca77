//! The operators while types and shapes are still being inferred: what a reader of models makes of
//! a node, before the model is typed.
//!
//! Rules go dimension by dimension, each as soon as the ranks say which dimensions correspond, so
//! that partly known shapes propagate too, from the inputs to the output and back.

mod gather;
mod gather_nd;

pub(crate) use gather::{Axis, InferenceGather};
pub(crate) use gather_nd::InferenceGatherNd;

use crate::revision::Row;
use crate::shape;
use tract_hir::infer::rules::DimProxy;
use tract_hir::internal::*;

/// Names the batch dimensions and makes them equal: the output's is what [`shape::batch_dim`] makes
/// of the inputs', and a dimension that only one of the three knows becomes that of the others.
fn batch_dim_rules<'r, 'p: 'r>(
    s: &mut Solver<'r>,
    row: &'static Row,
    axis: usize,
    data: &'p TensorProxy,
    indices: &'p TensorProxy,
    output: Option<&'p TensorProxy>,
) -> InferenceResult {
    let (data, indices) = (&data.shape[axis], &indices.shape[axis]);
    let output = output.map(|output| &output.shape[axis]);
    s.given_2(data, indices, move |s, data, indices| {
        let dim = shape::batch_dim(row, axis, &data, &indices)?;
        output.map_or(Ok(()), |output| s.equals(output, dim))
    })?;
    for known in [Some(data), Some(indices), output].into_iter().flatten() {
        s.given(known, move |s, dim| {
            fill(s, data, &dim)?;
            fill(s, indices, &dim)
        })?;
    }
    Ok(())
}

/// Sets a dimension that is not known, and leaves one that is.
fn fill<'r, 'p: 'r>(s: &mut Solver<'r>, proxy: &'p DimProxy, dim: &TDim) -> InferenceResult {
    let dim = dim.clone();
    s.with(
        proxy,
        move |s, known: DimFact| {
            if known.is_concrete() { Ok(()) } else { s.equals(proxy, dim.clone()) }
        },
    )
}

/// `output.rank == data.rank + more - less`, either way round.
fn rank_rules<'r, 'p: 'r>(
    s: &mut Solver<'r>,
    row: &'static Row,
    data: &'p TensorProxy,
    output: &'p TensorProxy,
    more: usize,
    less: usize,
) -> InferenceResult {
    let difference = more as i64 - less as i64;
    s.given(&data.rank, move |s, rank| s.equals(&output.rank, rank + difference))?;
    s.given(&output.rank, move |s, rank| {
        ensure!(
            rank >= more as i64,
            "{}: the output has rank {rank}, but with these indices it has rank {more} at least",
            row.name
        );
        s.equals(&data.rank, rank - difference)
    })
}

/// The number of inputs and outputs.
fn check_arity(
    row: &Row,
    expected: &[&str],
    inputs: &[TensorProxy],
    outputs: &[TensorProxy],
) -> TractResult<()> {
    ensure!(
        inputs.len() == expected.len(),
        "{}: got {} inputs, expected {}: {}",
        row.name,
        inputs.len(),
        expected.len(),
        expected.join(", ")
    );
    ensure!(outputs.len() == 1, "{}: got {} outputs, expected 1", row.name, outputs.len());
    Ok(())
}
