//! Gather, GatherND and GatherElements: they pick elements of `data`, of any type.

use arbitrary::{Result, Unstructured};
use gather_cases::elements::{self, INDEX_TYPES};
use gather_cases::oracle::{BadIndex, Integers, Operator, Output};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::TypedOp;
use tract_openvino::{GatherElements, GatherRevision, IndexError, NegativeIndices, Operation};

use super::{MOST_ELEMENTS, entries, shape, volume};

/// A node as a model could state it, sound or not, and its inputs.
#[derive(Debug)]
pub struct Case {
    operator: Operator,
    wrap: bool,
    axis: i64,
    batch_dims: i64,
    data_type: DatumType,
    data: Vec<usize>,
    index_type: DatumType,
    indices: Integers,
    threads: bool,
}

/// The shape of indices that mostly fit `data`.
fn indices_shape(
    u: &mut Unstructured,
    operator: Operator,
    data: &[usize],
    axis: i64,
    batch_dims: i64,
) -> Result<Vec<usize>> {
    let unsigned = |number: i64| usize::try_from(number).unwrap_or(0);
    // How many dimensions are those of data.
    let shared = match operator {
        Operator::GatherElements => unsigned(axis),
        _ => unsigned(batch_dims),
    };
    let shared = shared.min(data.len());
    let fits = u.ratio(9, 10)?;
    let mut indices = if fits { data[..shared].to_vec() } else { vec![] };
    if fits && operator == Operator::GatherElements {
        indices.push(super::dim(u)?);
        indices.extend(data.iter().skip(shared + 1));
    } else {
        indices.extend(shape(u, 3)?);
    }
    if let Operator::GatherNd(_) = operator {
        indices.push(u.int_in_range(0..=4)?);
    }
    // How many elements an index picks at most, or a tuple.
    let output = match operator {
        Operator::GatherElements => 1,
        Operator::Gather(_) => {
            let gathered = data.get(unsigned(axis)).copied().unwrap_or(1).max(1);
            volume(&indices) * volume(data) / gathered / volume(&data[..shared])
        }
        Operator::GatherNd(_) => {
            let tuple = indices.last().copied().unwrap_or(0).min(data.len());
            let gathered = volume(&data[..tuple]) * tuple.max(1);
            volume(&indices) * volume(data) / gathered / volume(&data[..shared])
        }
    };
    if volume(&indices).max(output) > MOST_ELEMENTS {
        return Err(arbitrary::Error::IncorrectFormat);
    }
    Ok(indices)
}

pub fn case(operator: Operator, u: &mut Unstructured) -> Result<Case> {
    let data_type = *u.choose(&elements::data_types())?;
    let data = shape(u, 4)?;
    let batch_dims = match u.int_in_range(0..=7u8)? {
        small @ 0..=3 => i64::from(small),
        4 => -1,
        5 => -2,
        _ => u.arbitrary()?,
    };
    let axis = match u.int_in_range(0..=8u8)? {
        small @ 0..=4 => i64::from(small),
        5 => -1,
        6 => -2,
        7 => 0,
        _ => u.arbitrary()?,
    };
    let indices = indices_shape(u, operator, &data, axis, batch_dims)?;
    let index_type = *u.choose(&INDEX_TYPES)?;
    let entries = entries(u, indices.iter().product(), elements::range(index_type))?;
    let indices = Integers { shape: indices, entries };
    let [wrap, threads] = u.arbitrary()?;
    Ok(Case { operator, wrap, axis, batch_dims, data_type, data, index_type, indices, threads })
}

impl Case {
    fn op(&self) -> TractResult<Box<dyn TypedOp>> {
        let negative = self.negative_indices();
        let mut model = TypedModel::default();
        let data = model.add_source("data", self.data_type.fact(&self.data))?;
        let indices = model.add_source("indices", self.index_type.fact(&self.indices.shape))?;
        let output = match self.operator {
            Operator::Gather(revision) => {
                let axis = model.add_const("axis", tensor0(self.axis))?;
                let operation = Operation::new(revision).with_batch_dims(self.batch_dims)?;
                let operation = operation.with_negative_indices(negative);
                operation.wire("operator", &mut model, &[data, indices, axis])?
            }
            Operator::GatherNd(revision) => {
                let operation = Operation::new(revision).with_batch_dims(self.batch_dims)?;
                let operation = operation.with_negative_indices(negative);
                operation.wire("operator", &mut model, &[data, indices])?
            }
            Operator::GatherElements => {
                // Negative axes are above every rank here.
                let op = GatherElements::new(self.axis as usize).with_negative_indices(negative);
                model.wire_node("operator", op, &[data, indices])?
            }
        };
        Ok(model.node(output[0].node).op.clone())
    }

    fn negative_indices(&self) -> NegativeIndices {
        if self.wrap { NegativeIndices::Wrap } else { NegativeIndices::AsSpecified }
    }

    /// What the contract says: `None` where the node or its shapes are an error.
    fn expected(&self) -> Option<std::result::Result<Output, BadIndex>> {
        let (axis, batch) = self.axis_and_batch_dims()?;
        let negative = self.negative_indices();
        Some(self.operator.output(&self.data, &self.indices, axis, batch, negative))
    }

    /// The axis and the number of batch dimensions, counted from the first.
    fn axis_and_batch_dims(&self) -> Option<(usize, usize)> {
        let (data, indices) = (&self.data, &self.indices);
        let (n, m) = (data.len() as i64, indices.shape.len() as i64);
        let share = |batch: usize| data[..batch] == indices.shape[..batch];
        match self.operator {
            Operator::Gather(revision) => {
                if !(-n..n).contains(&self.axis) || !(-m..=m).contains(&self.batch_dims) {
                    return None;
                }
                let axis = self.axis.rem_euclid(n) as usize;
                let batch = if self.batch_dims < 0 { self.batch_dims + m } else { self.batch_dims };
                let batch = batch as usize;
                let absent = revision == GatherRevision::V1 && self.batch_dims != 0;
                (!absent && batch <= axis && share(batch)).then_some((axis, batch))
            }
            Operator::GatherNd(_) => {
                if !(0..n.min(m)).contains(&self.batch_dims) {
                    return None;
                }
                let batch = self.batch_dims as usize;
                let tuple = *indices.shape.last()?;
                (tuple <= data.len() - batch && share(batch)).then_some((0, batch))
            }
            Operator::GatherElements => {
                if n != m || !(0..n).contains(&self.axis) {
                    return None;
                }
                let axis = self.axis as usize;
                let after = axis + 1..;
                let fits = share(axis) && data[after.clone()] == indices.shape[after];
                fits.then_some((axis, 0))
            }
        }
    }

    /// What is known beforehand, with the indices a constant, and with symbols for the dimensions.
    fn check_facts(&self, op: &dyn TypedOp, inputs: &[Tensor; 2], output: &TractResult<Tensor>) {
        let [data, indices] = inputs;
        let constant = TypedFact::try_from(indices.clone().into_arc_tensor()).unwrap();
        let facts = [TypedFact::dt_shape(self.data_type, &self.data), constant];
        match (output, super::output_fact(op, &facts)) {
            (Ok(output), Ok(fact)) => {
                super::assert_known(&fact, &SymbolValues::default(), output, self)
            }
            (Err(_), Err(_)) => (),
            (output, fact) => panic!("{self:?}\n{output:?}\n{fact:?}"),
        }
        // The length of a tuple is part of the rank.
        let known = matches!(self.operator, Operator::GatherNd(_)) as usize;
        super::check_symbolic_facts(op, &[(data, 0), (indices, known)], output, self);
    }
}

fn bad_index(error: &TractError) -> Option<BadIndex> {
    let error = error.downcast_ref::<IndexError>()?;
    Some(BadIndex { position: error.position.to_vec(), value: error.value })
}

/// Says whether there was an output.
pub fn run(case: Case) -> bool {
    let inputs = [
        elements::own_offsets(case.data_type, &case.data),
        elements::integers(case.index_type, &case.indices),
    ];
    let result = case.op().and_then(|op| {
        let output = super::eval(&*op, &inputs, case.threads);
        case.check_facts(&*op, &inputs, &output);
        output
    });
    let elements =
        |output: Output| elements::elements(case.data_type, &output.shape, output.offsets);
    let expected = case.expected().map(|expected| expected.map(elements));
    super::compare(expected, result, bad_index, &case)
}
