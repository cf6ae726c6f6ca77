//! Sharing the work among threads changes neither a result nor an error.

use std::path::Path;

use gather_cases::elements;
use gather_cases::onnx_model::{Dim, gather, gather_nd, input, read};
use gather_cases::oracle::{self, Integers};
use model_cases::DataSet;
use tract_openvino::WithKernels;
use tract_openvino::internal::fill_rows;
use tract_openvino::tract_onnx::prelude::multithread::{
    self, Executor, multithread_tract_scope, set_threading_element_threshold,
};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{
    Approximation, TractErrorContext, TypedOp, bail,
};
use tract_openvino::{
    Gather, GatherElements, GatherNd, GatherNdRevision, GatherRevision, IndexError, IndexPolicy,
};

const I32: DatumType = DatumType::I32;

#[derive(Clone)]
struct Case {
    op: Box<dyn TypedOp>,
    data: Tensor,
    indices: Integers,
}

/// Shapes that are split in different places: tuples, chunks, batches.
fn cases() -> Vec<Case> {
    let gather = |axis, batch_dims| -> Box<dyn TypedOp> {
        Box::new(Gather::new(GatherRevision::V8, axis).with_batch_dims(batch_dims).unwrap())
    };
    let case = |op, dt, data: &[usize], indices: &[usize], size: usize| {
        let length = indices.iter().product::<usize>();
        // One in 16 is out of range.
        let entry = |k: usize| if k % 16 == 5 { 1000 } else { (k * 7919 % size) as i128 };
        let entries = (0..length).map(entry).collect();
        let indices = Integers { shape: indices.to_vec(), entries };
        Case { op, data: elements::own_offsets(dt, data), indices }
    };
    let nd = Box::new(GatherNd::new(GatherNdRevision::V8).with_batch_dims(1).unwrap());
    let mut nd = case(nd, DatumType::U16, &[3, 40, 2], &[3, 1000, 1], 40);
    nd.indices.entries.iter_mut().for_each(|entry| *entry %= 40);
    let by_element = Box::new(GatherElements::new(1));
    let mut by_element = case(by_element, DatumType::F32, &[6, 12, 50], &[6, 40, 50], 12);
    by_element.indices.entries.iter_mut().for_each(|entry| *entry %= 12);
    vec![
        case(gather(0, 0), DatumType::F32, &[50], &[5000], 50),
        case(gather(0, 0), DatumType::U8, &[50, 100], &[300], 50),
        case(gather(1, 0), I32, &[5, 50, 3], &[1100], 50),
        case(gather(1, 0), I32, &[100, 20], &[30], 20),
        case(gather(2, 1), DatumType::F16, &[3, 30, 9, 2], &[3, 40], 9),
        case(gather(1, 1), DatumType::I64, &[100, 20], &[100, 30], 20),
        nd,
        by_element,
    ]
}

fn eval(case: &Case) -> TractResult<Tensor> {
    let indices = elements::integers(I32, &case.indices);
    crate::eval(&*case.op, case.data.clone(), indices)
}

#[test]
fn results_and_errors_are_those_of_one_thread() {
    set_threading_element_threshold(0);
    for threads in [2, 3, 7] {
        let executor = Executor::multithread(threads);
        for (number, mut case) in cases().into_iter().enumerate() {
            let expected = eval(&case).unwrap();
            let shared = multithread_tract_scope(executor.clone(), || eval(&case)).unwrap();
            assert_eq!(shared, expected, "case {number} on {threads} threads");

            // Two bad indices: the error is that for the first, whoever finds the other.
            if let Some(gather) = case.op.downcast_ref::<Gather>() {
                let (axis, batch_dims) = (gather.axis(), gather.batch_dims());
                let op = Gather::new(GatherRevision::V7, axis).with_batch_dims(batch_dims);
                case.op = Box::new(op.unwrap());
            }
            let length = case.indices.entries.len();
            case.indices.entries.iter_mut().for_each(|entry| *entry %= 9);
            for first in [0, length / 3, length - 1] {
                let mut case = case.clone();
                case.indices.entries[length - 1] = 2000;
                case.indices.entries[first] = 1001;
                let error = multithread_tract_scope(executor.clone(), || eval(&case)).unwrap_err();
                assert_eq!(error.downcast_ref::<IndexError>().unwrap().value, 1001);
            }
        }
    }
}

/// One plan in eight threads, each with inputs of its own, some of them bad: every thread gets its own
/// results and its own errors, and those do not spoil what comes after.
#[test]
fn one_plan_is_shared() {
    let data = || input("data", DatumType::F32, ["B", "N", "K"]);
    let indices = || input("indices", I32, ["B", "I"]);
    for model in [
        gather(7, 1, tensor0(1i64), data(), indices()),
        gather_nd(8, 1, data(), input("indices", I32, [Dim::from("B"), "I".into(), 1.into()])),
    ] {
        let nd = model.graph.as_ref().unwrap().node[0].op_type == "GatherND";
        let plan = read(&model).unwrap().into_optimized().unwrap().into_runnable().unwrap();
        let run = |thread: usize, turn: usize, bad: bool| {
            // Sizes that differ from thread to thread and from turn to turn.
            let [batch, size, count] = [thread % 3 + 1, turn % 7 + 1, thread + turn];
            let entries: Vec<i128> = (0..batch * count).map(|k| (k * 5 % size) as i128).collect();
            let mut indices = Integers { shape: vec![batch, count], entries };
            let data = elements::own_offsets(DatumType::F32, &[batch, size, 3]);
            let expected =
                oracle::gather(data.shape(), &indices, 1, 1, IndexPolicy::NonNegative).unwrap();
            if bad {
                *indices.entries.last_mut().unwrap() = (1000 + thread) as i128;
            }
            if nd {
                indices.shape.push(1);
            }
            let indices = elements::integers(I32, &indices);
            let output = plan.run(tvec!(data.into(), indices.into()));
            (elements::elements(DatumType::F32, &expected.shape, expected.offsets), output)
        };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let run = &run;
                scope.spawn(move || {
                    for turn in 1..50 {
                        let bad = (thread + turn) % 3 == 0;
                        match run(thread, turn, bad) {
                            (expected, Ok(output)) if !bad => assert_eq!(*output[0], expected),
                            (_, Err(error)) if bad => {
                                let error = error.downcast_ref::<IndexError>().unwrap();
                                assert_eq!(error.value, (1000 + thread) as i128);
                            }
                            (_, other) => panic!("thread {thread}, turn {turn}: {other:?}"),
                        }
                    }
                });
            }
        });
    }
}

/// A gather does not wait for a pool that has something else to do.
#[test]
fn a_busy_pool_is_not_waited_for() {
    set_threading_element_threshold(0);
    let executor = Executor::multithread(2);
    let Executor::MultiThread(pool) = &executor else { unreachable!("it has threads") };
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Arc::new(std::sync::Mutex::new(released));
    for _ in 0..2 {
        let released = released.clone();
        pool.spawn(move || _ = released.lock().unwrap().recv());
    }
    let (done, is_done) = std::sync::mpsc::channel();
    let case = &cases()[0];
    std::thread::scope(|scope| {
        let executor = executor.clone();
        scope.spawn(move || {
            _ = done.send(multithread_tract_scope(executor, || eval(case).unwrap()));
        });
        let output = is_done.recv_timeout(std::time::Duration::from_secs(20));
        drop(release);
        assert_eq!(output.expect("it ends beside a busy pool"), eval(case).unwrap());
    });
}

/// Products, convolutions, pools and attention, whose work is parted in different places.
#[test]
fn networks_of_ir_give_what_they_give_on_one_thread() -> TractResult<()> {
    set_threading_element_threshold(0);
    let folder = |name: &str| Path::new("ir/models/networks").join(name);
    for name in ["modernbert", "ocr_cls", "t5_encoder", "text_recognition"] {
        let folder = folder(name);
        let data_set = DataSet::load(&folder, 0)?.expect("there is one");
        let inputs: TVec<TValue> = data_set.inputs.into_iter().map(TValue::from).collect();
        let model = tract_openvino_ir::ir().model_for_path(folder.join("model.xml"))?;
        let plan = model.into_runnable_with_kernels()?;
        let expected = plan.run(inputs.clone())?;
        let check = |threads: usize| {
            let found = plan.run(inputs.clone())?;
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                let close = found.close_enough(expected, Approximation::Close);
                close.with_context(|| format!("{name} on {threads} threads"))?;
            }
            TractResult::Ok(())
        };
        for threads in [2, 3, 7] {
            let executor = Executor::multithread(threads);
            multithread_tract_scope(executor, || {
                // The first run finds out that work is shared. Of later ones, one at a time is on a thread of the pool.
                check(threads)?;
                let Executor::MultiThread(pool) = multithread::current_tract_executor() else {
                    bail!("it has threads")
                };
                check(threads)?;
                pool.install(|| check(threads))?;
                std::thread::scope(|scope| {
                    let both = [(); 2].map(|()| {
                        let executor = multithread::current_tract_executor();
                        scope.spawn(|| multithread_tract_scope(executor, || check(threads)))
                    });
                    both.into_iter().try_for_each(|run| run.join().expect("it does not panic"))
                })
            })?;
        }
    }
    Ok(())
}

/// All rows are filled, each once, and the last one may be shorter.
#[test]
fn rows_are_filled_once() -> TractResult<()> {
    set_threading_element_threshold(0);
    for (count, row) in [(1000, 10), (1003, 10), (7, 10), (0, 3)] {
        for threads in [1, 2, 3, 7] {
            let mut output = vec![0; count];
            let executor = Executor::multithread(threads);
            multithread_tract_scope(executor, || {
                fill_rows(&mut output, row, 1 << 20, |first_row, rows| {
                    for (number, element) in rows.iter_mut().enumerate() {
                        *element += first_row * row + number + 1;
                    }
                    TractResult::Ok(())
                })
            })?;
            let expected: Vec<usize> = (1..=count).collect();
            assert_eq!(output, expected, "{count} elements in rows of {row} on {threads} threads");
        }
    }
    Ok(())
}
