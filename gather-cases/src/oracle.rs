//! The formulas of the specifications, read out literally: nested loops over coordinates, nothing
//! clever, nothing shared with the crate.
//!
//! An oracle says, for each element of the output, which element of `data` it is: its offset, or
//! `None` where it is zero. So the element type does not matter.

use tract_openvino::{GatherNdRevision, GatherRevision, IndexPolicy, NegativeIndices};

/// An operator that picks elements of `data`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operator {
    /// Gather, in a revision.
    Gather(GatherRevision),
    /// GatherND, in a revision.
    GatherNd(GatherNdRevision),
    /// GatherElements-6.
    GatherElements,
}

impl Operator {
    /// Those of ONNX models.
    pub const OF_ONNX: [Operator; 5] = [
        Operator::Gather(GatherRevision::V1),
        Operator::Gather(GatherRevision::V7),
        Operator::Gather(GatherRevision::V8),
        Operator::GatherNd(GatherNdRevision::V5),
        Operator::GatherNd(GatherNdRevision::V8),
    ];

    /// All.
    pub const ALL: [Operator; 6] = {
        let [a, b, c, d, e] = Operator::OF_ONNX;
        [a, b, c, d, e, Operator::GatherElements]
    };

    /// The policy of the specification, or what `negative` makes of it.
    pub fn policy(self, negative: NegativeIndices) -> IndexPolicy {
        match self {
            Operator::Gather(GatherRevision::V8) => IndexPolicy::WrapOrZeros,
            _ if negative == NegativeIndices::Wrap => IndexPolicy::Wrap,
            _ => IndexPolicy::NonNegative,
        }
    }

    /// What the operator ought to give. GatherND has no `axis`, GatherElements no `batch_dims`.
    pub fn output(
        self,
        data: &[usize],
        indices: &Integers,
        axis: usize,
        batch_dims: usize,
        negative: NegativeIndices,
    ) -> Result<Output, BadIndex> {
        let policy = self.policy(negative);
        match self {
            Operator::Gather(_) => gather(data, indices, axis, batch_dims, policy),
            Operator::GatherNd(revision) => {
                gather_nd(data, indices, batch_dims, policy, revision == GatherNdRevision::V5)
            }
            Operator::GatherElements => gather_elements(data, indices, axis, policy),
        }
    }
}

/// A tensor of integers.
#[derive(Debug, Clone, PartialEq)]
pub struct Integers {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its entries, in row-major order.
    pub entries: Vec<i128>,
}

/// What an operator ought to give.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Its shape.
    pub shape: Vec<usize>,
    /// For each element of the output, in row-major order, its offset in `data`.
    pub offsets: Vec<Option<usize>>,
}

/// The first entry of `indices`, in row-major order, that is an error.
#[derive(Debug, Clone, PartialEq)]
pub struct BadIndex {
    /// Where it is in `indices`.
    pub position: Vec<usize>,
    /// The entry.
    pub value: i128,
}

/// All coordinates of a shape, in row-major order.
pub fn coordinates(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    (0..shape.iter().product()).map(move |offset: usize| {
        let mut rest = offset;
        let mut coordinates = vec![0; shape.len()];
        for (coordinate, dim) in coordinates.iter_mut().zip(shape).rev() {
            *coordinate = rest % dim;
            rest /= dim;
        }
        coordinates
    })
}

fn offset(shape: &[usize], coordinates: &[usize]) -> usize {
    assert_eq!(shape.len(), coordinates.len());
    let mut offset = 0;
    for (dim, coordinate) in shape.iter().zip(coordinates) {
        assert!(coordinate < dim);
        offset = offset * dim + coordinate;
    }
    offset
}

enum Picked {
    Position(usize),
    Zero,
    Error,
}

fn pick(index: i128, size: usize, policy: IndexPolicy) -> Picked {
    let size = size as i128;
    let counts_from_end = policy != IndexPolicy::NonNegative;
    let position = if counts_from_end && index < 0 { index + size } else { index };
    if 0 <= position && position < size {
        return Picked::Position(position as usize);
    }
    if policy == IndexPolicy::WrapOrZeros { Picked::Zero } else { Picked::Error }
}

/// Gather: `axis` and `batch_dims` count from the first axis.
///
/// ```text
/// output[p_0, ..., p_{axis-1}, i_b, ..., i_{M-1}, p_{axis+1}, ..., p_{N-1}] =
///   data[p_0, ..., p_{axis-1}, indices[p_0, ..., p_{b-1}, i_b, ..., i_{M-1}], p_{axis+1}, ..., p_{N-1}]
/// ```
pub fn gather(
    data: &[usize],
    indices: &Integers,
    axis: usize,
    b: usize,
    policy: IndexPolicy,
) -> Result<Output, BadIndex> {
    for position in coordinates(&indices.shape) {
        let value = indices.entries[offset(&indices.shape, &position)];
        if let Picked::Error = pick(value, data[axis], policy) {
            return Err(BadIndex { position, value });
        }
    }
    let m = indices.shape.len();
    let shape = [&data[..axis], &indices.shape[b..], &data[axis + 1..]].concat();
    let mut offsets = vec![];
    for output in coordinates(&shape) {
        let before = &output[..axis];
        let i = &output[axis..axis + m - b];
        let after = &output[axis + m - b..];
        let index = indices.entries[offset(&indices.shape, &[&before[..b], i].concat())];
        offsets.push(match pick(index, data[axis], policy) {
            Picked::Position(p) => Some(offset(data, &[before, &[p], after].concat())),
            _ => None,
        });
    }
    Ok(Output { shape, offsets })
}

/// GatherND; `fused` for GatherND-5.
///
/// ```text
/// output[i_0, ..., i_{K-2}, :, ..., :] = data[indices[i_0, ..., i_{K-2}], :, ..., :]
/// ```
///
/// with the batch coordinates in front of the tuple.
pub fn gather_nd(
    data: &[usize],
    indices: &Integers,
    b: usize,
    policy: IndexPolicy,
    fused: bool,
) -> Result<Output, BadIndex> {
    let k = indices.shape.len();
    let tuple = indices.shape[k - 1];
    for position in coordinates(&indices.shape) {
        let value = indices.entries[offset(&indices.shape, &position)];
        if let Picked::Error = pick(value, data[b + position[k - 1]], policy) {
            return Err(BadIndex { position, value });
        }
    }
    let mut shape = [&indices.shape[..k - 1], &data[b + tuple..]].concat();
    let mut offsets = vec![];
    for output in coordinates(&shape) {
        let (i, after) = output.split_at(k - 1);
        let mut from = i[..b].to_vec();
        for component in 0..tuple {
            let index = indices.entries[offset(&indices.shape, &[i, &[component]].concat())];
            match pick(index, data[b + component], policy) {
                Picked::Position(position) => from.push(position),
                _ => unreachable!("GatherND has no zeros"),
            }
        }
        from.extend(after);
        offsets.push(Some(offset(data, &from)));
    }
    if fused && b > 1 {
        let batch = shape[..b].iter().product();
        shape.splice(..b, [batch]);
    }
    Ok(Output { shape, offsets })
}

/// GatherElements.
///
/// ```text
/// output[p_0, ..., p_{N-1}] = data[p_0, ..., p_{axis-1}, indices[p_0, ..., p_{N-1}], p_{axis+1}, ..., p_{N-1}]
/// ```
pub fn gather_elements(
    data: &[usize],
    indices: &Integers,
    axis: usize,
    policy: IndexPolicy,
) -> Result<Output, BadIndex> {
    let mut offsets = vec![];
    for position in coordinates(&indices.shape) {
        let value = indices.entries[offset(&indices.shape, &position)];
        let Picked::Position(picked) = pick(value, data[axis], policy) else {
            return Err(BadIndex { position, value });
        };
        let mut from = position;
        from[axis] = picked;
        offsets.push(Some(offset(data, &from)));
    }
    Ok(Output { shape: indices.shape.clone(), offsets })
}

/// GatherTree, for `step_ids` of the shape `[steps, batch, beams]`. `None` is where the output is
/// `end_token`; the bad index is the first parent out of range on the walks from `[0, 0]` on.
///
/// ```text
/// final_ids[level, batch, beam] = step_ids[level, batch, parent];
/// parent = parent_ids[level, batch, parent];
/// ```
///
/// from `min(max_seq_len[batch], steps) - 1` down to 0, and then `end_token` after the first one.
pub fn gather_tree<T: Copy + Into<i128>>(
    shape: [usize; 3],
    steps: &[T],
    parents: &[T],
    lengths: &[T],
    end: T,
) -> Result<Output, BadIndex> {
    let mut offsets = vec![None; steps.len()];
    for sequence in coordinates(&shape[1..]) {
        let (row, beam) = (sequence[0], sequence[1]);
        let length = lengths[row].into().clamp(0, shape[0] as i128) as usize;
        let mut from = beam;
        for step in (0..length).rev() {
            let position = [step, row, from];
            let picked = offset(&shape, &position);
            offsets[offset(&shape, &[step, row, beam])] = Some(picked);
            let value = parents[picked].into();
            match usize::try_from(value) {
                Ok(parent) if parent < shape[2] => from = parent,
                // The first step has none before it.
                _ if step > 0 => return Err(BadIndex { position: position.to_vec(), value }),
                _ => (),
            }
        }
        let mut finished = false;
        for step in 0..length {
            let token = &mut offsets[offset(&shape, &[step, row, beam])];
            finished |= token.is_some_and(|token| steps[token].into() == end.into());
            if finished {
                *token = None;
            }
        }
    }
    Ok(Output { shape: shape.to_vec(), offsets })
}

/// The oracles themselves give what the specifications print.
#[cfg(test)]
mod examples {
    use super::*;

    fn integers(shape: &[usize], entries: &[i128]) -> Integers {
        Integers { shape: shape.to_vec(), entries: entries.to_vec() }
    }

    /// The elements of `data` in the examples are 1, 2, 3, ...
    fn values(output: Output) -> Vec<usize> {
        output.offsets.iter().map(|offset| offset.map_or(0, |offset| offset + 1)).collect()
    }

    #[test]
    fn gather_7_example_4() {
        let indices = integers(&[2, 3], &[1, 2, 4, 4, 3, 2]);
        let output = gather(&[2, 1, 5, 4], &indices, 2, 1, IndexPolicy::NonNegative).unwrap();
        assert_eq!(output.shape, [2, 1, 3, 4]);
        assert_eq!(
            values(output),
            [
                5, 6, 7, 8, 9, 10, 11, 12, 17, 18, 19, 20, 37, 38, 39, 40, 33, 34, 35, 36, 29, 30,
                31, 32
            ]
        );
    }

    #[test]
    fn gather_8_example_7() {
        let output =
            gather(&[5], &integers(&[3], &[3, 10, -20]), 0, 0, IndexPolicy::WrapOrZeros).unwrap();
        assert_eq!(values(output), [4, 0, 0]);
    }

    #[test]
    fn gather_elements_6_example_3() {
        let indices = integers(&[2, 3], &[1, 0, 1, 1, 2, 0]);
        let output = gather_elements(&[3, 3], &indices, 0, IndexPolicy::NonNegative).unwrap();
        assert_eq!(values(output), [4, 2, 6, 4, 8, 3]);
    }

    #[test]
    fn gather_nd_8_example_6() {
        let indices = integers(&[2, 3, 1, 1], &[1, 0, 2, 0, 2, 2]);
        let output = gather_nd(&[2, 3, 4], &indices, 2, IndexPolicy::NonNegative, false).unwrap();
        assert_eq!(output.shape, [2, 3, 1]);
        assert_eq!(values(output), [2, 5, 11, 13, 19, 23]);
    }
}
