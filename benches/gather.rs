//! `cargo bench`: every workload on this crate, on tract's own operator where it has one, and the
//! floor: a plain copy of the output. And models of many nodes, from ONNX to a plan; and one
//! with more than gathers.

#[allow(dead_code)]
#[path = "../tests/suite/onnx_model.rs"]
mod onnx_model;
mod transformer;
mod workloads;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tract_openvino::WithOpenVino;
use tract_openvino::tract_onnx::pb;
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

/// A chain of nodes that all have the same constant indices, and axis.
fn chain(domain: &str, nodes: usize) -> pb::ModelProto {
    let constant = |name: &str, dims: Vec<i64>, entries: Vec<i64>| pb::TensorProto {
        name: name.into(),
        data_type: pb::tensor_proto::DataType::Int64 as i32,
        dims,
        int64_data: entries,
        ..Default::default()
    };
    let node = |number: usize| {
        let mut input = vec![format!("data_{number}"), "indices".to_string()];
        if !domain.is_empty() {
            input.push("axis".to_string());
        }
        pb::NodeProto {
            domain: domain.into(),
            op_type: "Gather".into(),
            input,
            output: vec![format!("data_{}", number + 1)],
            ..Default::default()
        }
    };
    let dim_value = pb::tensor_shape_proto::dimension::Value::DimValue(4);
    let dim = pb::tensor_shape_proto::Dimension { value: Some(dim_value), ..Default::default() };
    let tensor = pb::type_proto::Tensor {
        elem_type: pb::tensor_proto::DataType::Float as i32,
        shape: Some(pb::TensorShapeProto { dim: vec![dim] }),
    };
    let r#type = pb::TypeProto {
        value: Some(pb::type_proto::Value::TensorType(tensor)),
        ..Default::default()
    };
    let data =
        pb::ValueInfoProto { name: "data_0".into(), r#type: Some(r#type), ..Default::default() };
    let output = pb::ValueInfoProto { name: format!("data_{nodes}"), ..Default::default() };
    let graph = pb::GraphProto {
        node: (0..nodes).map(node).collect(),
        initializer: vec![
            constant("indices", vec![4], vec![3, 1, 0, 2]),
            constant("axis", vec![], vec![0]),
        ],
        input: vec![data],
        output: vec![output],
        ..Default::default()
    };
    let import = |domain: &str, version| pb::OperatorSetIdProto { domain: domain.into(), version };
    pb::ModelProto {
        ir_version: 8,
        opset_import: vec![import("", 13), import(tract_openvino::DOMAIN, 8)],
        graph: Some(graph),
        ..Default::default()
    }
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
