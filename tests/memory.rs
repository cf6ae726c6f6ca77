//! What evaluation allocates: the output, and next to nothing beside it.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{EvalContext, TypedOp};
use tract_openvino::{Gather, GatherNd, GatherNdRevision, GatherRevision};

#[global_allocator]
static COUNTER: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The largest that is not the output: shapes, the list of outputs, a reference count.
const BESIDE_THE_OUTPUT: usize = 1024;

/// One test, so that no other allocates at the same time.
#[test]
fn the_output_and_next_to_nothing_beside_it() {
    let gather = |axis, batch_dims| -> Box<dyn TypedOp> {
        Box::new(Gather::new(GatherRevision::V8, axis).with_batch_dims(batch_dims).unwrap())
    };
    let nd = |batch_dims| -> Box<dyn TypedOp> {
        Box::new(GatherNd::new(GatherNdRevision::V8).with_batch_dims(batch_dims).unwrap())
    };
    let zeros = |shape: &[usize]| Tensor::zero::<f32>(shape).unwrap();
    let i32 = |shape: &[usize]| Tensor::zero::<i32>(shape).unwrap();
    let i64 = |shape: &[usize]| Tensor::zero::<i64>(shape).unwrap();
    for (op, data, indices) in [
        (gather(0, 0), zeros(&[100]), i32(&[])),
        (gather(0, 0), zeros(&[100]), i64(&[100_000])),
        (gather(1, 0), zeros(&[30, 100, 7]), i32(&[3000])),
        (gather(2, 1), zeros(&[30, 5, 100, 7]), i64(&[30, 1000])),
        (nd(0), zeros(&[100, 30, 3]), i32(&[100_000, 2])),
        (nd(1), zeros(&[100, 30, 3]), i64(&[100, 1000, 1])),
    ] {
        let inputs: TVec<TValue> = tvec!(data.into(), indices.into());
        let evaluate = || {
            let inputs = inputs.clone();
            let region = Region::new(COUNTER);
            let outputs = op.eval(&EvalContext::out_of_plan(), inputs).unwrap();
            (region.change().bytes_allocated, outputs[0].as_bytes().len())
        };
        // The thread that waits for this test allocates now and then.
        let (allocated, output) = (0..5).map(|_| evaluate()).min().unwrap();
        assert!(allocated >= output);
        assert!(
            allocated - output <= BESIDE_THE_OUTPUT,
            "{op:?}: {allocated} bytes for an output of {output}"
        );
    }
}
