//! One operator on inputs of any kind, against the literal oracle: it gives what the oracle does, or an
//! error, and an error exactly where the contract says so.

use std::sync::OnceLock;

use arbitrary::{Arbitrary, Result, Unstructured};
use tract_openvino::tract_onnx::prelude::multithread::{
    Executor, multithread_tract_scope, set_threading_element_threshold,
};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{EvalContext, TypedOp};
use tract_openvino::{
    Gather, GatherNd, GatherNdRevision, GatherRevision, IndexOutOfRange, IndexPolicy,
    NegativeIndices, Operation,
};

use crate::elements::{self, INDEX_TYPES};
use crate::oracle::{self, BadIndex, Integers, Output};

#[derive(Debug, Clone, Copy, PartialEq, Arbitrary)]
enum Operator {
    Gather1,
    Gather7,
    Gather8,
    GatherNd5,
    GatherNd8,
}

impl Operator {
    fn gather(self) -> Option<GatherRevision> {
        match self {
            Operator::Gather1 => Some(GatherRevision::V1),
            Operator::Gather7 => Some(GatherRevision::V7),
            Operator::Gather8 => Some(GatherRevision::V8),
            Operator::GatherNd5 | Operator::GatherNd8 => None,
        }
    }

    fn gather_nd(self) -> GatherNdRevision {
        match self {
            Operator::GatherNd5 => GatherNdRevision::V5,
            _ => GatherNdRevision::V8,
        }
    }
}

/// A node as a model could state it, sound or not, and its inputs.
#[derive(Debug)]
struct Case {
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

/// No tensor is larger, so that thousands of cases run each second.
const MOST_ELEMENTS: usize = 2048;

fn volume(shape: &[usize]) -> usize {
    shape.iter().map(|dim| (*dim).max(1)).product()
}

fn shape(u: &mut Unstructured, most_axes: usize) -> Result<Vec<usize>> {
    let rank = u.int_in_range(0..=most_axes)?;
    let mut shape = vec![];
    for _ in 0..rank {
        // Mostly short axes, some around the size of a piece of the kernel.
        shape.push(match u.int_in_range(0..=40u8)? {
            0 => 0,
            40 => u.int_in_range(120..=1100)?,
            dim => dim as usize % 5 + 1,
        });
    }
    while volume(&shape) > MOST_ELEMENTS {
        shape.pop();
    }
    Ok(shape)
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Case> {
        let operator: Operator = u.arbitrary()?;
        let data_types = elements::data_types();
        let data_type = *u.choose(&data_types)?;
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
        // Mostly the batch dimensions of data.
        let shared = usize::try_from(batch_dims).unwrap_or(0).min(data.len());
        let mut indices = if u.ratio(9, 10)? { data[..shared].to_vec() } else { vec![] };
        indices.extend(shape(u, 3)?);
        if operator.gather().is_none() {
            indices.push(u.int_in_range(0..=4)?);
        }
        // How many elements an index picks at most, or a tuple.
        let gathered = match operator.gather() {
            Some(_) => data.get(usize::try_from(axis).unwrap_or(0)).copied().unwrap_or(1).max(1),
            None => {
                let tuple = indices.last().copied().unwrap_or(0).min(data.len());
                volume(&data[..tuple]) * tuple.max(1)
            }
        };
        let output = volume(&indices) * volume(&data) / gathered / volume(&data[..shared]);
        if volume(&indices).max(output) > MOST_ELEMENTS {
            return Err(arbitrary::Error::IncorrectFormat);
        }
        let index_type = *u.choose(&INDEX_TYPES)?;
        let (low, high) = elements::range(index_type);
        let volume: usize = indices.iter().product();
        let mut entries = Vec::with_capacity(volume);
        for _ in 0..volume {
            let entry = match u.arbitrary::<u8>()? {
                small @ 0..=239 => i128::from(small % 5),
                240..=247 => i128::from(u.arbitrary::<i8>()?),
                _ => i128::from(u.arbitrary::<i64>()?) + i128::from(u.arbitrary::<bool>()?) * high,
            };
            entries.push(entry.clamp(low, high));
        }
        let indices = Integers { shape: indices, entries };
        let [wrap, threads] = u.arbitrary()?;
        Ok(Case { operator, wrap, axis, batch_dims, data_type, data, index_type, indices, threads })
    }
}

impl Case {
    fn op(&self) -> TractResult<Box<dyn TypedOp>> {
        let negative = if self.wrap { NegativeIndices::Wrap } else { NegativeIndices::AsSpecified };
        let mut model = TypedModel::default();
        let data = model.add_source("data", self.data_type.fact(&self.data))?;
        let indices = model.add_source("indices", self.index_type.fact(&self.indices.shape))?;
        let output = match self.operator.gather() {
            Some(revision) => {
                let axis = model.add_const("axis", tensor0(self.axis))?;
                let operation = Operation::new(revision).with_batch_dims(self.batch_dims)?;
                let operation = operation.with_negative_indices(negative);
                operation.wire("operator", &mut model, &[data, indices, axis])?
            }
            None => {
                let operation = Operation::new(self.operator.gather_nd());
                let operation = operation.with_batch_dims(self.batch_dims)?;
                let operation = operation.with_negative_indices(negative);
                operation.wire("operator", &mut model, &[data, indices])?
            }
        };
        Ok(model.node(output[0].node).op.clone())
    }

    /// What the contract says: `None` where the node or its shapes are an error.
    fn expected(&self) -> Option<std::result::Result<Output, BadIndex>> {
        let (data, indices) = (&self.data, &self.indices);
        let (n, m) = (data.len() as i64, indices.shape.len() as i64);
        let row = |policy: IndexPolicy| {
            if self.wrap {
                IndexPolicy { negative: tract_openvino::NegativeIndex::FromEnd, ..policy }
            } else {
                policy
            }
        };
        if let Some(revision) = self.operator.gather() {
            let policy = Gather::new(revision, 0).index_policy();
            if !(-n..n).contains(&self.axis) || !(-m..=m).contains(&self.batch_dims) {
                return None;
            }
            let axis = self.axis.rem_euclid(n) as usize;
            let batch = if self.batch_dims < 0 { self.batch_dims + m } else { self.batch_dims };
            let batch = batch as usize;
            let absent = revision == GatherRevision::V1 && self.batch_dims != 0;
            if absent || batch > axis || data[..batch] != indices.shape[..batch] {
                return None;
            }
            return Some(oracle::gather(data, indices, axis, batch, row(policy)));
        }
        let policy = GatherNd::new(self.operator.gather_nd()).index_policy();
        if !(0..n.min(m)).contains(&self.batch_dims) {
            return None;
        }
        let batch = self.batch_dims as usize;
        let tuple = *indices.shape.last()?;
        if tuple > data.len() - batch || data[..batch] != indices.shape[..batch] {
            return None;
        }
        let fused = self.operator == Operator::GatherNd5;
        Some(oracle::gather_nd(data, indices, batch, row(policy), fused))
    }
}

fn executor() -> Executor {
    static THREADS: OnceLock<Executor> = OnceLock::new();
    let executor = THREADS.get_or_init(|| {
        set_threading_element_threshold(0);
        Executor::multithread(3)
    });
    executor.clone()
}

/// Says what came of the bytes, for those who count: whether they were a case, and it had an output.
pub fn run(bytes: &[u8]) -> Option<bool> {
    let case = Case::arbitrary(&mut Unstructured::new(bytes)).ok()?;
    let expected = case.expected();
    let data = elements::own_offsets(case.data_type, &case.data);
    let indices = elements::integers(case.index_type, &case.indices);
    let result = case.op().and_then(|op| {
        let inputs = tvec!(data.clone().into(), indices.clone().into());
        let eval = || op.eval(&EvalContext::out_of_plan(), inputs);
        let outputs = if case.threads { multithread_tract_scope(executor(), eval) } else { eval() };
        // What is known beforehand, with the indices a constant.
        let facts = [
            TypedFact::dt_shape(case.data_type, &case.data),
            TypedFact::try_from(indices.clone().into_arc_tensor())?,
        ];
        let facts = op.output_facts(&[&facts[0], &facts[1]]);
        match (&outputs, &facts) {
            (Ok(outputs), Ok(facts)) => {
                assert_eq!(facts[0].shape.as_concrete(), Some(outputs[0].shape()), "{case:?}");
                assert_eq!(facts[0].datum_type, outputs[0].datum_type(), "{case:?}");
            }
            (Err(_), Err(_)) => (),
            _ => panic!("{case:?}\n{outputs:?}\n{facts:?}"),
        }
        Ok(outputs?.remove(0).into_tensor())
    });
    match (expected, result) {
        (Some(Ok(expected)), Ok(output)) => {
            let expected = elements::elements(case.data_type, &expected.shape, expected.offsets);
            assert!(expected == output, "{case:?}\nexpected {expected:?}\ngot {output:?}");
            Some(true)
        }
        (Some(Err(bad)), Err(error)) => {
            let Some(error) = error.downcast_ref::<IndexOutOfRange>() else {
                panic!("{case:?}\nexpected {bad:?}\ngot {error:?}")
            };
            assert_eq!((&error.position, error.value), (&bad.position, bad.value), "{case:?}");
            Some(false)
        }
        (None, Err(error)) => {
            assert!(error.downcast_ref::<IndexOutOfRange>().is_none(), "{case:?}\n{error:?}");
            Some(false)
        }
        (expected, got) => panic!("{case:?}\nexpected {expected:?}\ngot {got:?}"),
    }
}
