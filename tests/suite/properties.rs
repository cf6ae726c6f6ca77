//! Random nodes of all revisions, compared with the oracle: through the ONNX reader and wired by
//! hand, at every stage of tract, with constant and fed inputs, known and symbolic shapes.

use model_cases::{Stage, StagedModel, compare};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{Factoid, SpecialOps, TDim, ToDim, TypedOp};
use tract_openvino::{
    Gather, GatherNd, GatherNdRevision, GatherRevision, IndexOutOfRange, IndexPolicy,
    NegativeIndices, OpenVinoOptions, WithOpenVino, tract_onnx,
};

use crate::elements::{self, INDEX_TYPES};
use crate::onnx_model::{self, Single, make_constant};
use crate::oracle::{self, BadIndex, Integers, Output};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Gather(GatherRevision),
    GatherNd(GatherNdRevision),
}

/// A node and its inputs.
#[derive(Debug, Clone)]
struct Node {
    operator: Operator,
    negative_indices: NegativeIndices,
    data_type: DatumType,
    data: Vec<usize>,
    index_type: DatumType,
    indices: Integers,
    axis: usize,
    axis_is_negative: bool,
    batch_dims: usize,
    batch_dims_is_negative: bool,
    constant_data: bool,
    constant_indices: bool,
    symbolic: bool,
}

impl Node {
    fn opset(&self) -> i64 {
        match self.operator {
            Operator::Gather(GatherRevision::V1) => 1,
            Operator::GatherNd(GatherNdRevision::V5) => 5,
            Operator::Gather(GatherRevision::V7) => 7,
            Operator::Gather(_) | Operator::GatherNd(_) => 8,
        }
    }

    /// The attribute `batch_dims` and the input `axis`, as a model states them.
    fn stated(&self) -> (Option<i64>, i64) {
        let negative = |value: usize, rank: usize, is_negative: bool| {
            if is_negative { value as i64 - rank as i64 } else { value as i64 }
        };
        let axis = negative(self.axis, self.data.len(), self.axis_is_negative);
        let batch_dims =
            negative(self.batch_dims, self.indices.shape.len(), self.batch_dims_is_negative);
        let absent = self.operator == Operator::Gather(GatherRevision::V1);
        ((!absent).then_some(batch_dims), axis)
    }

    fn op(&self) -> Box<dyn TypedOp> {
        let negative = self.negative_indices;
        match self.operator {
            Operator::Gather(revision) => {
                let op = Gather::new(revision, self.axis, self.batch_dims).unwrap();
                Box::new(op.with_negative_indices(negative))
            }
            Operator::GatherNd(revision) => {
                let op = GatherNd::new(revision, self.batch_dims as i64).unwrap();
                Box::new(op.with_negative_indices(negative))
            }
        }
    }

    fn policy(&self) -> IndexPolicy {
        let op = self.op();
        match op.downcast_ref::<Gather>() {
            Some(gather) => gather.index_policy(),
            None => op.downcast_ref::<GatherNd>().unwrap().index_policy(),
        }
    }

    fn expected(&self) -> Result<Output, BadIndex> {
        let Node { data, indices, axis, batch_dims, .. } = self;
        match self.operator {
            Operator::Gather(_) => oracle::gather(data, indices, *axis, *batch_dims, self.policy()),
            Operator::GatherNd(revision) => {
                let fused = revision == GatherNdRevision::V5;
                oracle::gather_nd(data, indices, *batch_dims, self.policy(), fused)
            }
        }
    }

    fn data_tensor(&self) -> Tensor {
        elements::own_offsets(self.data_type, &self.data)
    }

    fn indices_tensor(&self) -> Tensor {
        elements::integers(self.index_type, &self.indices)
    }

    /// The inputs that are fed.
    fn fed(&self) -> Vec<Tensor> {
        let data = (!self.constant_data).then(|| self.data_tensor());
        let indices = (!self.constant_indices).then(|| self.indices_tensor());
        data.into_iter().chain(indices).collect()
    }

    /// How many of the last dimensions of `indices` are known whatever happens: the length of a
    /// tuple determines the rank of the output.
    fn known_dims(&self) -> usize {
        matches!(self.operator, Operator::GatherNd(_)) as usize
    }

    fn onnx(&self) -> TractResult<InferenceModel> {
        const NAMES: [[&str; 6]; 2] =
            [["d0", "d1", "d2", "d3", "d4", "d5"], ["i0", "i1", "i2", "i3", "i4", "i5"]];
        let dims = |input: usize, shape: &[usize], known: usize| -> Vec<onnx_model::Dim> {
            let first_known = if self.symbolic { shape.len() - known } else { 0 };
            let dim = |(number, size): (usize, &usize)| {
                if number < first_known { NAMES[input][number].into() } else { (*size).into() }
            };
            shape.iter().enumerate().map(dim).collect()
        };
        let (batch_dims, axis) = self.stated();
        let is_gather = matches!(self.operator, Operator::Gather(_));
        let indices_dims = dims(1, &self.indices.shape, self.known_dims());
        let mut model = Single {
            op_type: if is_gather { "Gather" } else { "GatherND" },
            opset: self.opset(),
            batch_dims,
            data: onnx_model::input("data", self.data_type, dims(0, &self.data, 0)),
            indices: onnx_model::input("indices", self.index_type, indices_dims),
            axis: is_gather.then(|| tensor0(axis)),
        }
        .proto();
        if self.constant_data {
            make_constant(&mut model, "data", &self.data_tensor());
        }
        if self.constant_indices {
            make_constant(&mut model, "indices", &self.indices_tensor());
        }
        let options = OpenVinoOptions::default().with_negative_indices(self.negative_indices);
        tract_onnx::onnx().with_openvino_options(options).model_for_proto_model(&model)
    }

    fn typed(&self) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut wire = |name: &str, constant: bool, known: usize, tensor: Tensor| {
            if constant {
                return model.add_const(name, tensor);
            }
            let scope = model.symbols.clone();
            let first_known = if self.symbolic { tensor.rank() - known } else { 0 };
            let dim = |(number, size): (usize, &usize)| -> TDim {
                if number < first_known {
                    scope.sym(&format!("{name}_{number}")).into()
                } else {
                    size.to_dim()
                }
            };
            let shape: TVec<TDim> = tensor.shape().iter().enumerate().map(dim).collect();
            model.add_source(name, tensor.datum_type().fact(shape))
        };
        let data = wire("data", self.constant_data, 0, self.data_tensor())?;
        let indices =
            wire("indices", self.constant_indices, self.known_dims(), self.indices_tensor())?;
        let output = model.wire_node("gather", self.op(), &[data, indices])?;
        model.select_output_outlets(&output)?;
        Ok(model)
    }

    /// What inference knows of the output, and what the typed model does.
    fn facts(&self) -> TractResult<(InferenceFact, TypedFact)> {
        let mut inferred = self.onnx()?;
        inferred.analyse(false)?;
        let typed = self.onnx()?.into_typed()?;
        Ok((inferred.output_fact(0)?.clone(), typed.output_fact(0)?.clone()))
    }

    /// Compares the node with the oracle, at a stage.
    fn check(
        &self,
        stage: Stage,
        model: impl FnOnce() -> TractResult<StagedModel>,
    ) -> Result<(), TestCaseError> {
        let fed = self.fed();
        let result = model().and_then(|model| {
            let outputs = model.run(&fed)?;
            model.check_facts(&fed, &outputs)?;
            Ok(outputs)
        });
        match (self.expected(), result) {
            (Ok(expected), Ok(outputs)) => {
                let expected =
                    elements::elements(self.data_type, &expected.shape, expected.offsets);
                if let Err(difference) = compare(&expected, &outputs[0]) {
                    return Err(TestCaseError::fail(format!("{stage:?}: {difference}")));
                }
            }
            (Err(bad), Err(error)) => {
                let Some(got) = error.downcast_ref::<IndexOutOfRange>() else {
                    return Err(TestCaseError::fail(format!("{stage:?}: {error:?}")));
                };
                prop_assert_eq!(&got.position, &bad.position);
                prop_assert_eq!(got.value, bad.value);
            }
            (Err(_), Ok(outputs)) if self.tract_folds_it_away(stage) => {
                prop_assert_eq!(outputs[0].len(), 0)
            }
            (expected, Ok(outputs)) => {
                let got = format!("{expected:?} expected, got {outputs:?}");
                return Err(TestCaseError::fail(format!("{stage:?}: {got}")));
            }
            (Ok(_), Err(error)) => {
                return Err(TestCaseError::fail(format!("{stage:?}: {error:?}")));
            }
        }
        Ok(())
    }

    /// tract replaces whatever has a statically empty output with a constant, without asking the
    /// operator. Then nobody looks at the indices any more.
    fn tract_folds_it_away(&self, stage: Stage) -> bool {
        matches!(stage, Stage::Decluttered | Stage::Optimized) && !self.constant_indices
    }
}

/// Shapes with the occasional empty dimension.
fn shape(rank: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![20 => 1usize..5, 1 => Just(0usize)], rank)
}

/// Entries for one axis: mostly valid ones, so that not every case is an error.
fn entry(size: usize, wraps: bool, dt: DatumType, wild: bool) -> BoxedStrategy<i128> {
    let size = size as i128;
    let (min, max) = elements::range(dt);
    let low = if wraps { (-size).max(min) } else { 0 };
    let valid = if size > 0 { (low..size).boxed() } else { (min..=max).boxed() };
    if !wild {
        return valid;
    }
    let edges = [
        -size - 1,
        -size,
        -1,
        0,
        size - 1,
        size,
        min,
        max,
        1 << 31,
        1 << 32,
        (1 << 32) + 1,
        1 << 63,
    ];
    let edges: Vec<i128> = edges.into_iter().filter(|edge| (min..=max).contains(edge)).collect();
    prop_oneof![3 => valid, 1 => select(edges)].boxed()
}

fn node(data_types: Vec<DatumType>, index_types: Vec<DatumType>) -> impl Strategy<Value = Node> {
    use {GatherNdRevision as Nd, GatherRevision as G, Operator::*};
    let operator = select(vec![
        Gather(G::V1),
        Gather(G::V7),
        Gather(G::V8),
        GatherNd(Nd::V5),
        GatherNd(Nd::V8),
    ]);
    let negative_indices = select(vec![NegativeIndices::AsSpecified, NegativeIndices::Wrap]);
    (operator, negative_indices, shape(1..5usize), shape(0..4usize), any::<[u8; 3]>())
        .prop_flat_map(move |(operator, negative_indices, data, mut more, [a, b, tuple])| {
            let rank = data.len();
            // The ranges of the specification, for ranks that are given.
            let (axis, batch_dims) = match operator {
                Gather(G::V1) => (a as usize % rank, 0),
                Gather(_) => {
                    let axis = a as usize % rank;
                    (axis, b as usize % (axis + 1))
                }
                GatherNd(_) => (0, b as usize % rank),
            };
            if let GatherNd(_) = operator {
                more.push(tuple as usize % (rank - batch_dims + 1));
            }
            let shape = [&data[..batch_dims], &more].concat();
            // Which size each entry of indices ought to fit.
            let sizes: Vec<usize> = match operator {
                Gather(_) => vec![data[axis]; shape.iter().product()],
                GatherNd(_) => {
                    let tuple = *more.last().unwrap();
                    let tuples = shape[..shape.len() - 1].iter().product::<usize>();
                    data[batch_dims..][..tuple].repeat(tuples)
                }
            };
            let wraps = negative_indices == NegativeIndices::Wrap || operator == Gather(G::V8);
            let entries = (select(index_types.clone()), proptest::bool::weighted(0.3))
                .prop_flat_map(move |(dt, wild)| {
                    let entries: Vec<_> =
                        sizes.iter().map(|size| entry(*size, wraps, dt, wild)).collect();
                    (Just(dt), entries)
                });
            let is_gather = matches!(operator, Gather(_));
            (select(data_types.clone()), entries, any::<[bool; 5]>()).prop_map(
                move |(data_type, (index_type, entries), flags)| Node {
                    operator,
                    negative_indices,
                    data_type,
                    data: data.clone(),
                    index_type,
                    indices: Integers { shape: shape.clone(), entries },
                    axis,
                    axis_is_negative: flags[0],
                    batch_dims,
                    // A rank of zero, or all of it, can not be said from the end.
                    batch_dims_is_negative: flags[1] && is_gather && batch_dims < shape.len(),
                    constant_data: flags[2],
                    constant_indices: flags[3],
                    symbolic: flags[4],
                },
            )
        })
}

fn onnx_node() -> impl Strategy<Value = Node> {
    let integers = INDEX_TYPES.into_iter().filter(|dt| *dt != DatumType::TDim).collect();
    // tract reads an initializer of no elements as I32 or I64 where it ought to be U32 or U64.
    let misread = |dt, len| len == 0 && matches!(dt, DatumType::U32 | DatumType::U64);
    node(elements::onnx_data_types(), integers).prop_map(move |node| Node {
        constant_data: node.constant_data
            && !misread(node.data_type, node.data.iter().product::<usize>()),
        constant_indices: node.constant_indices
            && !misread(node.index_type, node.indices.entries.len()),
        ..node
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nodes_of_an_onnx_model(node in onnx_node()) {
        for stage in Stage::ALL {
            node.check(stage, || StagedModel::new(node.onnx()?, stage))?;
        }
    }

    #[test]
    fn nodes_wired_by_hand(node in node(elements::data_types(), INDEX_TYPES.to_vec())) {
        for stage in [Stage::Typed, Stage::Decluttered, Stage::Optimized] {
            node.check(stage, || StagedModel::from_typed(node.typed()?, stage))?;
        }
    }

    /// Inference says what typing will say.
    #[test]
    fn inferred_facts_are_those_of_the_typed_model(node in onnx_node()) {
        let node = Node { constant_data: false, constant_indices: false, ..node };
        let (inferred, typed) = node.facts().map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        prop_assert_eq!(inferred.datum_type.concretize(), Some(typed.datum_type));
        prop_assert_eq!(inferred.shape.concretize(), Some(typed.shape.to_tvec()));
    }
}
