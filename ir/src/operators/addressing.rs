//! The places in data that indices name.

use tract_core::internal::*;
use tract_openvino::{IndexError, IndexPolicy};
use tract_openvino_kernels::checks::listed;

/// How `indices` name places in `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Addressing {
    /// An index is the coordinate of one element on this axis. The other coordinates are those of the index
    /// itself.
    Elements(usize),
    /// An index is a coordinate on this axis, and means all elements that have it.
    Slices(usize),
    /// The last axis of `indices` has the first coordinates.
    Tuples,
}

/// Negative indices count from the end, as in OpenVINO's implementation.
const POLICY: IndexPolicy = IndexPolicy::Wrap;

/// The places in `data`, in the order of the elements of `indices`: where each begins, and how many elements
/// each has.
pub(super) struct Places {
    pub starts: Vec<usize>,
    pub block: usize,
}

impl Addressing {
    /// The shape of what is written.
    pub fn updates_shape<D: DimLike>(self, data: &[D], indices: &[D]) -> TractResult<TVec<D>> {
        Ok(match self {
            Addressing::Elements(axis) => {
                ensure!(
                    data.len() == indices.len() && axis < data.len(),
                    "indices have rank {}, but must have rank {}, as data has",
                    indices.len(),
                    data.len()
                );
                indices.into()
            }
            Addressing::Slices(axis) => {
                ensure!(
                    axis < data.len(),
                    "axis is {axis}, but must be less than {}, the rank of data",
                    data.len()
                );
                [&data[..axis], indices, &data[axis + 1..]].concat().into()
            }
            Addressing::Tuples => {
                let (tuple, leading) = indices.split_last().context("indices have rank 0")?;
                let tuple = tuple.to_usize().ok().filter(|tuple| *tuple <= data.len());
                let tuple = tuple.with_context(|| {
                    format!(
                        "indices have shape {indices}, but their last dimension must be known, and in \
                         [0, {}]",
                        data.len(),
                        indices = listed(indices)
                    )
                })?;
                [leading, &data[tuple..]].concat().into()
            }
        })
    }

    pub(super) fn places(
        self,
        operator: &'static str,
        data: &[usize],
        indices_shape: &[usize],
        indices: &[i64],
    ) -> TractResult<Places> {
        let resolve = |number: usize, axis: usize| {
            POLICY.resolve(indices[number], data[axis]).ok_or_else(|| {
                let position = coordinates(number, indices_shape);
                let value = indices[number].into();
                IndexError::new(operator, position, value, axis, data[axis], POLICY)
            })
        };
        let strides = Tensor::natural_strides(data);
        let stride = |axis: usize| strides[axis] as usize;
        let mut starts = vec![];
        let mut block = 1;
        match self {
            Addressing::Elements(axis) => {
                let others = || (0..data.len()).filter(|it| *it != axis);
                ensure!(
                    indices.is_empty() || others().all(|it| indices_shape[it] <= data[it]),
                    "{operator}: indices have shape {indices_shape:?}, but must be no larger than data on each axis \
                     but {axis}: data has shape {data:?}"
                );
                starts.reserve_exact(indices.len());
                let last = data.len() - 1;
                let row = indices_shape[last].max(1);
                for first in (0..indices.len()).step_by(row) {
                    let begin: usize = coordinates(first, indices_shape)
                        .iter()
                        .enumerate()
                        .filter(|(it, _)| *it != axis)
                        .map(|(it, coordinate)| coordinate * stride(it))
                        .sum();
                    for column in 0..row {
                        let along = resolve(first + column, axis)? * stride(axis);
                        starts.push(begin + along + if axis == last { 0 } else { column });
                    }
                }
            }
            Addressing::Slices(axis) => {
                block = stride(axis);
                let outer: usize = data[..axis].iter().product();
                let positions: Vec<usize> = (0..indices.len())
                    .map(|number| resolve(number, axis))
                    .collect::<Result<_, _>>()?;
                // Without elements there is nothing to write, however many places there are.
                for row in 0..if block == 0 { 0 } else { outer } {
                    let row = row * data[axis];
                    starts.extend(positions.iter().map(|position| (row + position) * block));
                }
            }
            Addressing::Tuples => {
                let (&tuple, leading) =
                    indices_shape.split_last().context("indices have rank 0")?;
                block = data[tuple..].iter().product();
                // Without coordinates and elements there is nothing to check or to write, however many tuples there are.
                let tuples = if tuple + block == 0 { 0 } else { leading.iter().product() };
                for number in 0..tuples {
                    let start = (0..tuple)
                        .map(|axis| Ok(resolve(number * tuple + axis, axis)? * stride(axis)))
                        .sum::<Result<usize, IndexError>>()?;
                    starts.push(start);
                }
            }
        }
        Ok(Places { starts, block })
    }
}

/// The coordinates of an element.
fn coordinates(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut coordinates: Vec<usize> = shape
        .iter()
        .rev()
        .map(|size| {
            let coordinate = number % size;
            number /= size;
            coordinate
        })
        .collect();
    coordinates.reverse();
    coordinates
}
