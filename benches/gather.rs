//! `cargo bench`: every workload on this crate, on tract's own operator where it has one, and the
//! floor: a plain copy of the output.

mod workloads;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tract_openvino::tract_onnx::prelude::*;
use workloads::WORKLOADS;

fn gather(c: &mut Criterion) {
    for workload in WORKLOADS {
        let inputs: TVec<TValue> = tvec!(workload.data().into(), workload.indices().into());
        let ours = workload.ours().expect("the workload is valid");
        let tracts_own = workload.tracts_own().map(|model| model.expect("it is for tract too"));
        let output = ours.run(inputs.clone()).expect("the indices are in range").remove(0);

        let mut group = c.benchmark_group(workload.name);
        group.throughput(Throughput::Bytes(output.as_bytes().len() as u64));
        let mut run = |name: &str, model: &Arc<TypedRunnableModel>| {
            let mut state = model.spawn().expect("a plan can be run");
            group.bench_function(name, |b| {
                b.iter_batched(
                    || inputs.clone(),
                    |inputs| state.run(inputs).expect("the indices are in range"),
                    BatchSize::SmallInput,
                )
            });
        };
        run("tract-openvino", &ours);
        if let Some(tracts_own) = &tracts_own {
            run("tract", tracts_own);
        }
        group.bench_function("copy", |b| b.iter(|| output.as_bytes().to_vec()));
        group.finish();
    }
}

criterion_group!(benches, gather);
criterion_main!(benches);
