//! The operators while types and shapes are inferred, before the model is typed.
//!
//! There is a rule for each dimension, which applies as soon as the ranks say which dimensions correspond. So
//! partly known shapes propagate too, from the inputs to the output and back.

mod gather;
mod gather_nd;

pub(crate) use gather::{Axis, InferenceGather};
pub(crate) use gather_nd::InferenceGatherNd;

use crate::eval;
use crate::revision::Spec;
use crate::shape;
use tract_hir::infer::rules::DimProxy;
use tract_hir::internal::*;
use tract_openvino_kernels::checks::check_named_inputs;

/// Makes a batch dimension equal in the inputs and the output: [`shape::batch_dim`] decides between two that are
/// known, and a known one fills in the others.
fn batch_dim_rules<'r, 'p: 'r>(
    s: &mut Solver<'r>,
    spec: &'static Spec,
    axis: usize,
    data: &'p TensorProxy,
    indices: &'p TensorProxy,
    output: Option<&'p TensorProxy>,
) -> InferenceResult {
    let (data, indices) = (&data.shape[axis], &indices.shape[axis]);
    let output = output.map(|output| &output.shape[axis]);
    s.given_2(data, indices, move |s, data, indices| {
        let dim = shape::batch_dim(spec, axis, &data, &indices)?;
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

/// Sets a dimension if it is unknown.
fn fill<'r, 'p: 'r>(s: &mut Solver<'r>, proxy: &'p DimProxy, dim: &TDim) -> InferenceResult {
    let dim = dim.clone();
    s.with(
        proxy,
        move |s, known: DimFact| {
            if known.is_concrete() { Ok(()) } else { s.equals(proxy, dim.clone()) }
        },
    )
}

/// `output.rank == data.rank + more - less`, in both directions.
fn rank_rules<'r, 'p: 'r>(
    s: &mut Solver<'r>,
    spec: &'static Spec,
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
            "{}: the output has rank {rank}, but must have rank {more} or more with these indices",
            spec.name
        );
        s.equals(&data.rank, rank - difference)
    })
}

fn check_arity(
    spec: &Spec,
    expected: &[&str],
    inputs: &[TensorProxy],
    outputs: &[TensorProxy],
) -> TractResult<()> {
    check_named_inputs(spec.name, expected, inputs.len())?;
    eval::check_number_of_outputs(spec, outputs.len())
}
