//! The workloads that the benchmarks measure, as data.

use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_core::ops::{array, cast::cast};
use tract_openvino::tract_onnx::tract_hir::internal::SpecialOps;
use tract_openvino::{GatherNdRevision, GatherRevision};

/// One node with inputs of these types and shapes.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name, as in the tables of results.
    pub name: &'static str,
    /// The node.
    pub operator: Operator,
    /// The element type of `data`.
    pub data_type: DatumType,
    /// The shape of `data`.
    pub data: &'static [usize],
    /// The element type of `indices`.
    pub index_type: DatumType,
    /// The shape of `indices`.
    pub indices: &'static [usize],
    /// Every second index, in no order, is out of range: Gather-8 fills with zeros.
    pub half_out_of_range: bool,
}

/// The node of a workload.
#[derive(Debug, Clone, Copy)]
pub enum Operator {
    /// Gather-8, and tract's Gather.
    Gather {
        /// The axis that is picked from.
        axis: usize,
        /// How many axes of `data` and `indices` are those of a batch.
        batch_dims: usize,
    },
    /// GatherND-8, and tract's GatherND.
    GatherNd {
        /// How many axes of `data` and `indices` are those of a batch.
        batch_dims: usize,
    },
}

use DatumType::{F16, F32, I32, I64, U8};
use Operator::*;

const fn gather(axis: usize, batch_dims: usize) -> Operator {
    Gather { axis, batch_dims }
}

/// The workloads, by name: what they are in models, or which limit they lean on.
pub const WORKLOADS: [Workload; 20] = [
    // Rows of an embedding table.
    w("embed_768", gather(0, 0), F32, &[50257, 768], I64, &[8, 512]),
    w("embed_768_f16", gather(0, 0), F16, &[50257, 768], I64, &[8, 512]),
    // A cache line each, from a table that no cache holds.
    w("recsys_row16", gather(0, 0), F32, &[1_000_000, 16], I32, &[100_000]),
    // An element each.
    w("scalar_1m", gather(0, 0), F32, &[1_000_000], I32, &[1_000_000]),
    w("scalar_1m_u8", gather(0, 0), U8, &[1_000_000], I32, &[1_000_000]),
    // Two of these, with zeros.
    with_zeros(w("embed_768_zeros", gather(0, 0), F32, &[50257, 768], I64, &[8, 512])),
    with_zeros(w("scalar_1m_zeros", gather(0, 0), F32, &[1_000_000], I32, &[1_000_000])),
    // The same columns of many rows.
    w("cols_1024", gather(1, 0), F32, &[1024, 1024], I32, &[512]),
    w("batched_rows", gather(1, 1), F32, &[64, 128, 256], I32, &[64, 64]),
    w("batched_scalar", gather(1, 1), F32, &[256, 4096], I32, &[256, 1024]),
    // The layers of the specifications.
    w("layer_gather7", gather(1, 1), F32, &[2, 64, 128], I32, &[2, 32, 21]),
    w("layer_gather1", gather(1, 0), F32, &[6, 12, 10, 24], I32, &[15, 4, 20, 28]),
    // Beams of a key-value cache.
    w("kv_reorder", gather(0, 0), F16, &[8, 16, 1024, 64], I64, &[8]),
    // A dimension of a shape.
    w("tiny_shape", gather(0, 0), I64, &[4], I64, &[]),
    w("nd_layer1", GatherNd { batch_dims: 0 }, F32, &[1000, 256, 10, 15], I32, &[25, 125, 3]),
    w("nd_layer2", GatherNd { batch_dims: 2 }, F32, &[30, 2, 100, 35], I32, &[30, 2, 3, 1]),
    w("nd_layer3", GatherNd { batch_dims: 3 }, F32, &[1, 64, 64, 320], I32, &[1, 64, 64, 1, 1]),
    // Points and pixels of images, rows of a batch.
    w("nd_points", GatherNd { batch_dims: 0 }, F32, &[4096, 4096], I32, &[1_000_000, 2]),
    w("nd_pixels", GatherNd { batch_dims: 0 }, F32, &[512, 512, 3], I32, &[100_000, 2]),
    w("nd_rows256", GatherNd { batch_dims: 0 }, F32, &[64, 128, 256], I32, &[4096, 2]),
];

const fn w(
    name: &'static str,
    operator: Operator,
    data_type: DatumType,
    data: &'static [usize],
    index_type: DatumType,
    indices: &'static [usize],
) -> Workload {
    Workload { name, operator, data_type, data, index_type, indices, half_out_of_range: false }
}

const fn with_zeros(workload: Workload) -> Workload {
    Workload { half_out_of_range: true, ..workload }
}

impl Workload {
    /// A tensor of numbers, none of them NaN.
    pub fn data(&self) -> Tensor {
        let mut tensor = Tensor::zero_dt(self.data_type, self.data).expect("it fits in memory");
        let numbers = Random(1).map(|random| (random >> 57) as u8);
        match self.data_type {
            F32 => fill(&mut tensor, numbers.map(f32::from)),
            F16 => fill(&mut tensor, numbers.map(f16::from)),
            I64 => fill(&mut tensor, numbers.map(i64::from)),
            U8 => fill(&mut tensor, numbers),
            other => unreachable!("no workload has {other:?}"),
        }
        tensor
    }

    /// The sizes of the axes that the entries of a tuple walk.
    fn dims(&self) -> &'static [usize] {
        match self.operator {
            Gather { axis, .. } => &self.data[axis..=axis],
            GatherNd { batch_dims } => {
                let tuple = *self.indices.last().expect("indices has an axis");
                &self.data[batch_dims..][..tuple]
            }
        }
    }

    /// Indices in no order.
    pub fn indices(&self) -> Tensor {
        let mut tensor = Tensor::zero_dt(self.index_type, self.indices).expect("it fits in memory");
        let sizes = self.dims().iter().cycle();
        let choices = if self.half_out_of_range { 2 } else { 1 };
        let entries =
            Random(2).zip(sizes).map(|(random, size)| (random >> 33) as usize % (choices * size));
        match self.index_type {
            I32 => fill(&mut tensor, entries.map(|entry| entry as i32)),
            I64 => fill(&mut tensor, entries.map(|entry| entry as i64)),
            other => unreachable!("no workload has {other:?}"),
        }
        tensor
    }

    fn model(
        &self,
        wire: impl FnOnce(&mut TypedModel, [OutletId; 2]) -> TractResult<TVec<OutletId>>,
    ) -> TractResult<Arc<TypedRunnableModel>> {
        let mut model = TypedModel::default();
        let data = model.add_source("data", self.data_type.fact(self.data))?;
        let indices = model.add_source("indices", self.index_type.fact(self.indices))?;
        let output = wire(&mut model, [data, indices])?;
        model.select_output_outlets(&output)?;
        model.into_optimized()?.into_runnable()
    }

    /// The node as a model of this crate's operators.
    pub fn ours(&self) -> TractResult<Arc<TypedRunnableModel>> {
        self.model(|model, inputs| match self.operator {
            Gather { axis, batch_dims } => {
                let op = tract_openvino::Gather::new(GatherRevision::V8, axis);
                let op = op.with_batch_dims(batch_dims)?;
                model.wire_node("gather", op, &inputs)
            }
            GatherNd { batch_dims } => {
                let op = tract_openvino::GatherNd::new(GatherNdRevision::V8);
                let op = op.with_batch_dims(batch_dims)?;
                model.wire_node("gather", op, &inputs)
            }
        })
    }

    /// The node as a model of tract's own operators, wired as its ONNX reader wires them; `None` where
    /// tract has none that does the same.
    pub fn tracts_own(&self) -> Option<TractResult<Arc<TypedRunnableModel>>> {
        if self.half_out_of_range {
            return None;
        }
        match self.operator {
            Gather { axis, batch_dims: 0 } => Some(self.model(|model, [data, indices]| {
                let indices = model.wire_node("cast_to_i64", cast(I64), &[indices])?[0];
                model.wire_node("gather", array::Gather::new(axis), &[data, indices])
            })),
            Gather { .. } => None,
            GatherNd { batch_dims } => Some(self.model(|model, inputs| {
                model.wire_node("gather", array::GatherNd::new(batch_dims), &inputs)
            })),
        }
    }
}

fn fill<T: Datum>(tensor: &mut Tensor, values: impl Iterator<Item = T>) {
    let mut view = tensor.to_plain_array_view_mut::<T>().expect("the tensor has this type");
    view.iter_mut().zip(values).for_each(|(element, value)| *element = value);
}

/// Numbers in no order, the same on every machine: a linear congruence.
struct Random(u64);

impl Iterator for Random {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005u64)
            .wrapping_add(1_442_695_040_888_963_407u64);
        Some(self.0)
    }
}
