//! The two layers of the specifications' examples whose tensors are too large to be kept in files, as model
//! folders would have them. `models/generate.py` compares the same models with OpenVINO.

use std::path::PathBuf;

use model_cases::{Case, DataSet, Model};
use tract_openvino::IndexPolicy;
use tract_openvino::tract_onnx::pb::ModelProto;
use tract_openvino::tract_onnx::prelude::*;

use crate::elements;
use crate::onnx_model::{gather, gather_nd, input};
use crate::oracle::{self, Integers, Output};

/// A layer: one node, with inputs of bytes and of `i32`.
#[derive(Debug, Clone, Copy)]
pub struct Layer {
    /// What its folder would be called.
    pub name: &'static str,
    data: &'static [usize],
    indices: &'static [usize],
    /// Of how many axes one index is, or the entries of a tuple are.
    picked: Picked,
}

#[derive(Debug, Clone, Copy)]
enum Picked {
    /// One axis, in Gather-1.
    Axis(usize),
    /// The first ones, in GatherND-8.
    Tuple,
}

/// Both, by name.
pub const LAYERS: [Layer; 2] = [
    Layer {
        name: "gather_1_layer",
        data: &[6, 12, 10, 24],
        indices: &[15, 4, 20, 28],
        picked: Picked::Axis(1),
    },
    Layer {
        name: "gather_nd_8_layer_1",
        data: &[1000, 256, 10, 15],
        indices: &[25, 125, 3],
        picked: Picked::Tuple,
    },
];

impl Layer {
    /// The model, with the shapes of the specification.
    pub fn model(&self) -> ModelProto {
        let data = input("data", DatumType::U8, self.data.iter().copied());
        let indices = input("indices", DatumType::I32, self.indices.iter().copied());
        match self.picked {
            Picked::Axis(axis) => gather(1, None, tensor0(axis as i64), data, indices),
            Picked::Tuple => gather_nd(8, 0, data, indices),
        }
    }

    /// The indices, in no simple order.
    fn indices(&self) -> Integers {
        let sizes = match self.picked {
            Picked::Axis(axis) => &self.data[axis..=axis],
            Picked::Tuple => &self.data[..*self.indices.last().expect("it has tuples")],
        };
        let length = self.indices.iter().product::<usize>();
        let entry = |k: usize| (k * 7919 % 104729 % sizes[k % sizes.len()]) as i128;
        Integers { shape: self.indices.to_vec(), entries: (0..length).map(entry).collect() }
    }

    /// What the layer ought to give. The axes after those that are picked from are walked as one.
    fn output(&self, indices: &Integers) -> Tensor {
        let picked = match self.picked {
            Picked::Axis(axis) => axis + 1,
            Picked::Tuple => indices.shape[indices.shape.len() - 1],
        };
        let (before, after) = self.data.split_at(picked);
        let blocks = match self.picked {
            Picked::Axis(axis) => {
                oracle::gather(before, indices, axis, 0, IndexPolicy::NonNegative)
            }
            Picked::Tuple => oracle::gather_nd(before, indices, 0, IndexPolicy::NonNegative, false),
        };
        let Output { shape, offsets } = blocks.expect("all indices are in range");
        let block = after.iter().product::<usize>();
        let elements = |number: Option<usize>| {
            let first = number.expect("there are no zeros") * block;
            (first..first + block).map(Some)
        };
        let offsets = offsets.into_iter().flat_map(elements);
        elements::elements(DatumType::U8, &[&shape, after].concat(), offsets)
    }

    /// The model with a data set: the elements of `data` are their own offsets, as far as a byte says them.
    pub fn case(&self) -> Case {
        let indices = self.indices();
        let outputs = vec![self.output(&indices)];
        let inputs = vec![
            elements::own_offsets(DatumType::U8, self.data),
            elements::integers(DatumType::I32, &indices),
        ];
        Case {
            folder: PathBuf::from(self.name),
            name: self.name.into(),
            model: Model::Onnx(Box::new(self.model())),
            data_sets: vec![DataSet { inputs, outputs }],
        }
    }
}
