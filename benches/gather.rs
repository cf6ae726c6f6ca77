//! `cargo bench`: every workload on this crate, on tract's own operator where it has one, and the
//! floor: a plain copy of the output. And models of many nodes, from ONNX to a plan; and one
//! with more than gathers.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use gather_cases::onnx_model::{initializer, input, model, node, output};
use gather_cases::transformer;
use gather_cases::workloads::WORKLOADS;
use tract_openvino::WithOpenVino;
use tract_openvino::tract_onnx::pb::{GraphProto, ModelProto};
use tract_openvino::tract_onnx::prelude::*;

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

/// A chain of nodes that all have the same constant indices, and axis.
fn chain(domain: &str, nodes: usize) -> ModelProto {
    let data = |number: usize| format!("data_{number}");
    let ours = !domain.is_empty();
    let gather = |number: usize| {
        let from = data(number);
        let inputs = [&*from, "indices", "axis"];
        let inputs = if ours { &inputs[..] } else { &inputs[..2] };
        node(domain, "Gather", inputs, &data(number + 1))
    };
    let graph = GraphProto {
        node: (0..nodes).map(gather).collect(),
        initializer: vec![
            initializer("indices", &tensor1(&[3i64, 1, 0, 2])),
            initializer("axis", &tensor0(0i64)),
        ],
        input: vec![input("data_0", f32::datum_type(), [4usize])],
        output: vec![output(&data(nodes))],
        ..GraphProto::default()
    };
    model(ours.then_some(8), graph)
}

fn load(c: &mut Criterion) {
    for nodes in [250, 1000] {
        let mut group = c.benchmark_group(format!("load_{nodes}"));
        group.sample_size(10);
        for (name, domain) in [("tract-openvino", tract_openvino::DOMAIN), ("tract", "")] {
            let chain = chain(domain, nodes);
            let reader = tract_openvino::tract_onnx::onnx().with_openvino();
            group.bench_function(name, |b| {
                b.iter(|| {
                    let model = reader.model_for_proto_model(&chain)?;
                    model.into_typed()?.into_decluttered()?.into_optimized()?.into_runnable()
                })
            });
        }
        group.finish();
    }
}

/// A model with more than gathers, in OpenVINO's operators and in the standard ones on tract's own.
fn transform(c: &mut Criterion) {
    let mut group = c.benchmark_group("transformer");
    for (name, ours) in [("tract-openvino", true), ("tract", false)] {
        let reader = tract_openvino::tract_onnx::onnx().with_openvino();
        let model = reader.model_for_proto_model(&transformer::model(ours)).expect("it loads");
        let plan = model.into_optimized().and_then(TypedModel::into_runnable).expect("it types");
        let inputs = transformer::inputs(8, 128, 256);
        group.bench_function(name, |b| {
            b.iter_batched(
                || inputs.clone(),
                |inputs| plan.run(inputs).expect("the indices are in range"),
                BatchSize::SmallInput,
            )
        });
    }
    group.finish();
}

criterion_group!(benches, gather, load, transform);
criterion_main!(benches);
