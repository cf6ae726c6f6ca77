//! Random nodes of all revisions, compared with the oracle: through the ONNX reader and wired by
//! hand, at every stage of tract, with constant and fed inputs, known and symbolic shapes.

use gather_cases::elements::{self, INDEX_TYPES};
use gather_cases::onnx_model::{self, Single, make_constant};
use gather_cases::oracle::{self, BadIndex, Integers, Operator, Output};
use model_cases::{Stage, StagedModel, compare};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_core::batchify::{Batchify, BatchifyConfig};
use tract_openvino::tract_onnx::tract_core::floats::FloatPrecisionTranslator;
use tract_openvino::tract_onnx::tract_core::ops::array::Slice;
use tract_openvino::tract_onnx::tract_core::transform::ModelTransform;
use tract_openvino::tract_onnx::tract_hir::internal::{
    AxisOp, EvalContext, Factoid, InOut, SpecialOps, TDim, ToDim, TypedOp,
};
use tract_openvino::{
    Gather, GatherElements, GatherNd, GatherNdRevision, GatherRevision, IndexError, IndexPolicy,
    NegativeIndices, OpenVinoOptions, Operation, WithOpenVinoOptions, tract_onnx,
};

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
    /// `axis` is fed too.
    axis_at_run_time: bool,
}

impl Node {
    fn opset(&self) -> i64 {
        match self.operator {
            Operator::Gather(GatherRevision::V1) => 1,
            Operator::GatherNd(GatherNdRevision::V5) => 5,
            Operator::GatherElements => 6,
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
                let op = Gather::new(revision, self.axis).with_batch_dims(self.batch_dims).unwrap();
                Box::new(op.with_negative_indices(negative))
            }
            Operator::GatherNd(revision) => {
                let op = GatherNd::new(revision).with_batch_dims(self.batch_dims).unwrap();
                Box::new(op.with_negative_indices(negative))
            }
            Operator::GatherElements => {
                Box::new(GatherElements::new(self.axis).with_negative_indices(negative))
            }
        }
    }

    fn expected(&self) -> Result<Output, BadIndex> {
        let Node { operator, data, indices, axis, batch_dims, negative_indices, .. } = self;
        operator.output(data, indices, *axis, *batch_dims, *negative_indices)
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
        let axis = self.axis_at_run_time.then(|| tensor0(self.stated().1));
        data.into_iter().chain(indices).chain(axis).collect()
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
        if self.axis_at_run_time {
            let graph = model.graph.as_mut().unwrap();
            graph.initializer.retain(|initializer| initializer.name != "axis");
            graph.input.push(onnx_model::input("axis", DatumType::I64, [0usize; 0]));
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
        let output = match self.operator {
            Operator::Gather(revision) if self.axis_at_run_time => {
                let axis = model.add_source("axis", i64::scalar_fact())?;
                let batch_dims = self.stated().0.unwrap_or(0);
                let operation = Operation::new(revision).with_batch_dims(batch_dims)?;
                let operation = operation.with_negative_indices(self.negative_indices);
                operation.wire("gather", &mut model, &[data, indices, axis])?
            }
            _ => model.wire_node("gather", self.op(), &[data, indices])?,
        };
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
        let result = model().and_then(|mut model| {
            // Of a model that is not typed nobody has to know more than the ranks then.
            let is_open = self.axis_at_run_time && stage == Stage::Loaded;
            if is_open { model.run(&self.fed()) } else { model.run_checked(&self.fed()) }
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
                let Some(got) = error.downcast_ref::<IndexError>() else {
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
        1i128 << 32,
        (1i128 << 32) + 1,
        1i128 << 63,
    ];
    let edges: Vec<i128> = edges.into_iter().filter(|edge| (min..=max).contains(edge)).collect();
    prop_oneof![3 => valid, 1 => select(edges)].boxed()
}

/// Entries of a type for axes of these sizes, by turns.
fn entries(
    sizes: Vec<usize>,
    wraps: bool,
    index_types: Vec<DatumType>,
) -> impl Strategy<Value = (DatumType, Vec<i128>)> {
    (select(index_types), proptest::bool::weighted(0.3)).prop_flat_map(move |(dt, wild)| {
        let entries: Vec<_> = sizes.iter().map(|size| entry(*size, wraps, dt, wild)).collect();
        (Just(dt), entries)
    })
}

/// What a node is before its indices have entries.
#[derive(Debug, Clone)]
struct Shapes {
    data: Vec<usize>,
    indices: Vec<usize>,
    axis: usize,
    batch_dims: usize,
}

impl Shapes {
    /// With dimensions that `indices` has beside those of `data`, and numbers to choose the rest by: in the
    /// ranges of the specification, for ranks that are given.
    fn new(operator: Operator, data: Vec<usize>, more: Vec<usize>, numbers: [u8; 3]) -> Shapes {
        let [a, b, tuple] = numbers.map(usize::from);
        let rank = data.len();
        let (axis, batch_dims) = match operator {
            Operator::Gather(GatherRevision::V1) | Operator::GatherElements => (a % rank, 0),
            Operator::Gather(_) => (a % rank, b % (a % rank + 1)),
            Operator::GatherNd(_) => (0, b % rank),
        };
        let batch = &data[..batch_dims];
        let indices = match operator {
            Operator::Gather(_) => [batch, &more].concat(),
            Operator::GatherNd(_) => [batch, &more, &[tuple % (rank - batch_dims + 1)]].concat(),
            Operator::GatherElements => {
                let size = more.first().copied().unwrap_or(1);
                [&data[..axis], &[size], &data[axis + 1..]].concat()
            }
        };
        Shapes { data, indices, axis, batch_dims }
    }

    /// Which size each entry of `indices` ought to fit.
    fn sizes(&self, operator: Operator) -> Vec<usize> {
        let axes = match (operator, self.indices.last()) {
            (Operator::GatherNd(_), Some(tuple)) => &self.data[self.batch_dims..][..*tuple],
            _ => &self.data[self.axis..=self.axis],
        };
        axes.iter().copied().cycle().take(self.indices.iter().product()).collect()
    }
}

fn node(data_types: Vec<DatumType>, index_types: Vec<DatumType>) -> impl Strategy<Value = Node> {
    node_of(Operator::ALL.to_vec(), data_types, index_types)
}

fn node_of(
    operators: Vec<Operator>,
    data_types: Vec<DatumType>,
    index_types: Vec<DatumType>,
) -> impl Strategy<Value = Node> {
    let negative_indices = select(vec![NegativeIndices::AsSpecified, NegativeIndices::Wrap]);
    let dimensions = (shape(1..5usize), shape(0..4usize), any::<[u8; 3]>());
    let with_entries =
        move |(operator, negative_indices, (data, more, numbers)): (Operator, _, _)| {
            let shapes = Shapes::new(operator, data, more, numbers);
            let wraps = operator.policy(negative_indices) != IndexPolicy::NonNegative;
            let entries = entries(shapes.sizes(operator), wraps, index_types.clone());
            (Just((operator, negative_indices, shapes)), entries)
        };
    let nodes = (select(operators), negative_indices, dimensions).prop_flat_map(with_entries);
    (nodes, select(data_types), any::<[bool; 6]>()).prop_map(|(node, data_type, flags)| {
        let ((operator, negative_indices, shapes), (index_type, entries)) = node;
        let Shapes { data, indices, axis, batch_dims } = shapes;
        let is_gather = matches!(operator, Operator::Gather(_));
        Node {
            operator,
            negative_indices,
            data_type,
            data,
            index_type,
            axis,
            axis_is_negative: flags[0],
            batch_dims,
            // A rank of zero, or all of it, can not be said from the end.
            batch_dims_is_negative: flags[1] && is_gather && batch_dims < indices.len(),
            indices: Integers { shape: indices, entries },
            constant_data: flags[2],
            constant_indices: flags[3],
            symbolic: flags[4],
            axis_at_run_time: flags[5] && is_gather,
        }
    })
}

fn onnx_node() -> impl Strategy<Value = Node> {
    let integers = INDEX_TYPES.into_iter().filter(|dt| *dt != DatumType::TDim).collect();
    // tract reads an initializer of no elements as I32 or I64 where it ought to be U32 or U64.
    let misread = |dt, len| len == 0 && matches!(dt, DatumType::U32 | DatumType::U64);
    node_of(Operator::OF_ONNX.to_vec(), elements::onnx_data_types(), integers).prop_map(
        move |node| Node {
            constant_data: node.constant_data
                && !misread(node.data_type, node.data.iter().product::<usize>()),
            constant_indices: node.constant_indices
                && !misread(node.index_type, node.indices.entries.len()),
            ..node
        },
    )
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
        let node = Node {
            constant_data: false,
            constant_indices: false,
            axis_at_run_time: false,
            ..node
        };
        let (inferred, typed) = node.facts().map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        prop_assert_eq!(inferred.datum_type.concretize(), Some(typed.datum_type));
        prop_assert_eq!(inferred.shape.concretize(), Some(typed.shape.to_tvec()));
    }

    /// A slice of the output is what is computed, from slices of the inputs.
    #[test]
    fn sliced_nodes(
        node in node(vec![DatumType::F32, DatumType::String], vec![DatumType::I32, DatumType::I64]),
        [axis, start, end] in any::<[u8; 3]>(),
    ) {
        let node = Node { axis_at_run_time: false, ..node };
        let Ok(expected) = node.expected() else { return Ok(()) };
        let rank = expected.shape.len();
        if rank == 0 {
            return Ok(());
        }
        let axis = axis as usize % rank;
        let size = expected.shape[axis];
        if size == 0 {
            return Ok(());
        }
        let start = start as usize % size;
        let end = start + 1 + end as usize % (size - start);
        let expected = elements::elements(node.data_type, &expected.shape, expected.offsets);
        let expected = expected.slice(axis, start, end).unwrap();

        let mut model = node.typed().unwrap();
        let output = model.output_outlets().unwrap()[0];
        let slice = model.wire_node("slice", Slice::new(axis, start, end), &[output]).unwrap();
        model.select_output_outlets(&slice).unwrap();
        at_each_of(&[Stage::Decluttered, Stage::Optimized], &model, &node.fed(), &expected)?;
        // All the axes can be sliced before but the one that fuses several, and batch axes that the inputs
        // call by two names.
        let fused = node.operator == Operator::GatherNd(GatherNdRevision::V5)
            && node.batch_dims > 1
            && axis == 0;
        let model = model.into_decluttered().unwrap();
        let after = model.nodes().iter().filter(|node| node.op_is::<Slice>()).any(|slice| {
            let before = model.node(slice.inputs[0].node);
            before.op_is::<Gather>() || before.op_is::<GatherNd>() || before.op_is::<GatherElements>()
        });
        let is_shared = match node.operator {
            Operator::GatherElements => axis != node.axis,
            _ => axis < node.batch_dims,
        };
        let two_names = node.symbolic && is_shared;
        prop_assert!(!after || fused || two_names, "{}", model);
    }

    /// The translation of a model to 16-bit floats leaves the operators as they are.
    #[test]
    fn nodes_in_f16(node in node(vec![DatumType::F32], vec![DatumType::I32, DatumType::I64])) {
        let node = Node { constant_data: false, ..node };
        let narrow = Node { data_type: DatumType::F16, ..node.clone() };
        for stage in [Stage::Typed, Stage::Decluttered, Stage::Optimized] {
            narrow.check(stage, || {
                let mut model = node.typed()?;
                FloatPrecisionTranslator::new(DatumType::F32, DatumType::F16)
                    .transform(&mut model)?;
                StagedModel::from_typed(model, stage)
            })?;
        }
    }

    /// A gather of what the first node gives, with constant indices or fed ones.
    #[test]
    fn two_nodes(
        first in node(vec![DatumType::F32], vec![DatumType::I64]),
        axis in any::<usize>(),
        entries in proptest::collection::vec(any::<i8>(), 0..5),
        [constant, scalar, zeros] in any::<[bool; 3]>(),
    ) {
        let first = Node { axis_at_run_time: false, ..first };
        let Ok(between) = first.expected() else { return Ok(()) };
        if between.shape.is_empty() {
            return Ok(());
        }
        let axis = axis % between.shape.len();
        let size = between.shape[axis] as i128;
        // With a zero fill for some, or all valid.
        let entry = |entry: i8| match size {
            0 => 0,
            _ if zeros => i128::from(entry) % (size + 2),
            _ => i128::from(entry).rem_euclid(size),
        };
        let entries: Vec<i128> = entries.into_iter().map(entry).collect();
        let shape = if scalar && entries.len() == 1 { vec![] } else { vec![entries.len()] };
        let indices = Integers { shape, entries };
        let op = Gather::new(GatherRevision::V8, axis);
        let picked = oracle::gather(&between.shape, &indices, axis, 0, IndexPolicy::WrapOrZeros).unwrap();
        let offsets = picked.offsets.iter().map(|offset| offset.and_then(|it| between.offsets[it]));
        let expected = elements::elements(DatumType::F32, &picked.shape, offsets);

        let mut model = first.typed().unwrap();
        let output = model.output_outlets().unwrap()[0];
        let tensor = elements::integers(DatumType::I64, &indices);
        let mut fed = first.fed();
        let indices = if constant {
            model.add_const("second_indices", tensor).unwrap()
        } else {
            let fact = tensor.datum_type().fact(tensor.shape());
            fed.push(tensor);
            model.add_source("second_indices", fact).unwrap()
        };
        let output = model.wire_node("second", op, &[output, indices]).unwrap();
        model.select_output_outlets(&output).unwrap();
        at_each_of(&[Stage::Typed, Stage::Decluttered, Stage::Optimized], &model, &fed, &expected)?;
    }

    /// Where an operator says how it follows a change of axes, it does.
    #[test]
    fn changed_axes(
        node in node(vec![DatumType::F32], vec![DatumType::I32]),
        change in any::<[u8; 4]>(),
    ) {
        let node =
            Node { symbolic: false, constant_data: false, axis_at_run_time: false, ..node };
        let expected = node.expected();
        // Constant ones that are bad make no model.
        if expected.is_err() && node.constant_indices {
            return Ok(());
        }
        let model = node.typed().unwrap();
        let gather = model.node_by_name("gather").unwrap();
        let facts = [gather.inputs[0], gather.inputs[1], gather.id.into()];
        let io = [InOut::In(0), InOut::In(1), InOut::Out(0)][change[0] as usize % 3];
        let fact = model.outlet_fact(facts[change[0] as usize % 3]).unwrap();
        let Some(change) = change_of(fact.shape.as_concrete().unwrap(), change) else { return Ok(()) };
        let Some(consequence) = gather.op.change_axes(&model, gather, io, &change).unwrap() else {
            return Ok(());
        };
        prop_assert!(consequence.wire_changes.contains(&(io, change.clone())));
        let changed = |at: InOut, mut tensor: Tensor| {
            for (io, change) in &consequence.wire_changes {
                if *io == at {
                    change.change_tensor(&mut tensor, false).unwrap();
                }
            }
            tensor
        };
        let op = consequence.substitute_op.clone().unwrap_or_else(|| gather.op.clone());
        let inputs = [node.data_tensor(), node.indices_tensor()];
        let inputs = inputs.into_iter().enumerate();
        let inputs = inputs.map(|(slot, tensor)| changed(InOut::In(slot), tensor).into());
        let result = op.eval(&EvalContext::out_of_plan(), inputs.collect());
        match expected {
            Ok(expected) => {
                let expected =
                    elements::elements(node.data_type, &expected.shape, expected.offsets);
                let got = result.map_err(|e| TestCaseError::fail(format!("{change:?}: {e:?}")))?;
                let expected = changed(InOut::Out(0), expected);
                prop_assert_eq!(&*got[0], &expected, "{:?} on {:?}", change, io);
            }
            Err(_) => prop_assert!(result.is_err()),
        }
    }

    /// Two seats of a batched model give what two runs give.
    #[test]
    fn batched_nodes(
        nodes in node(vec![DatumType::F32], vec![DatumType::I64])
            .prop_flat_map(|node| (Just(node.clone()), indices_like(node))),
    ) {
        let (first, second) = nodes;
        let first =
            Node { symbolic: false, constant_data: false, axis_at_run_time: false, ..first };
        let second = Node { indices: second, ..first.clone() };
        let fused = first.operator == Operator::GatherNd(GatherNdRevision::V5)
            && first.batch_dims > 0;
        // A new batch axis is one of the indices too, and there is no broadcasting; only Gather without
        // batch dimensions has another axis to make of it.
        let shared = first.constant_indices
            && (first.batch_dims > 0 || !matches!(first.operator, Operator::Gather(_)));
        let (Ok(one), Ok(two)) = (first.expected(), second.expected()) else { return Ok(()) };
        let second = if first.constant_indices { &first } else { &second };
        let two = if first.constant_indices { &one } else { &two };
        let volume = one.offsets.len();
        if volume == 0 || fused || shared {
            return Ok(());
        }
        let batched = first.typed().and_then(|mut model| {
            Batchify(BatchifyConfig::default()).transform(&mut model)?;
            Ok(model)
        });
        let batched = batched.map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
        let stack = |a: Tensor, b: Tensor| {
            let add = |mut tensor: Tensor| {
                tensor.insert_axis(0).unwrap();
                tensor
            };
            Tensor::stack_tensors(0, &[add(a), add(b)]).unwrap()
        };
        let fed: Vec<Tensor> =
            first.fed().into_iter().zip(second.fed()).map(|(a, b)| stack(a, b)).collect();
        let expected = [&one, two].map(|output| {
            let offsets = output.offsets.iter().copied();
            elements::elements(first.data_type, &output.shape, offsets)
        });
        let [one, two] = expected;
        let expected = stack(one, two);
        at_each_of(&[Stage::Typed, Stage::Decluttered, Stage::Optimized], &batched, &fed, &expected)?;
    }
}

#[cfg(feature = "nnef")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A model says the same after it was saved to NNEF and loaded again.
    #[test]
    fn saved_nodes(
        node in node(
            vec![DatumType::F32, DatumType::I64, DatumType::U8],
            vec![DatumType::I8, DatumType::U16, DatumType::I32, DatumType::I64, DatumType::U64],
        ),
    ) {
        // Data that is a constant is tract's to write, and it reads back few integers as others.
        let node = Node { constant_data: false, ..node };
        node.check(Stage::Optimized, || {
            StagedModel::from_typed(crate::through_nnef(&node.typed()?)?, Stage::Optimized)
        })?;
    }
}

/// Runs a model at each of the stages and compares its output.
fn at_each_of(
    stages: &[Stage],
    model: &TypedModel,
    fed: &[Tensor],
    expected: &Tensor,
) -> Result<(), TestCaseError> {
    for &stage in stages {
        let outputs = StagedModel::from_typed(model.clone(), stage)
            .and_then(|mut model| model.run(fed))
            .map_err(|error| TestCaseError::fail(format!("{stage:?}: {error:?}")))?;
        if let Err(difference) = compare(expected, &outputs[0]) {
            return Err(TestCaseError::fail(format!("{stage:?}: {difference}")));
        }
    }
    Ok(())
}

/// A change of axes that a tensor of this shape allows.
fn change_of(shape: &[usize], [_, kind, from, to]: [u8; 4]) -> Option<AxisOp> {
    let rank = shape.len();
    let (from, to) = (from as usize, to as usize);
    Some(match kind % 4 {
        0 => AxisOp::Add(from % (rank + 1)),
        1 => {
            let ones: Vec<usize> = (0..rank).filter(|axis| shape[*axis] == 1).collect();
            AxisOp::Rm(*ones.get(from % ones.len().max(1))?)
        }
        2 if rank > 1 && from % rank != to % rank => AxisOp::Move(from % rank, to % rank),
        3 if rank > 0 => {
            let at = from % rank;
            match shape.get(at + 1) {
                Some(next) if to % 2 == 0 => {
                    let product = (shape[at] * next).to_dim();
                    AxisOp::Reshape(at, tvec!(shape[at].to_dim(), next.to_dim()), tvec!(product))
                }
                _ if shape[at].is_multiple_of(2) => {
                    let halves = tvec!(2.to_dim(), (shape[at] / 2).to_dim());
                    AxisOp::Reshape(at, tvec!(shape[at].to_dim()), halves)
                }
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Other indices for the same node, in the order of its entries reversed: mostly as valid as those.
fn indices_like(node: Node) -> impl Strategy<Value = Integers> {
    let mut reversed = node.indices.clone();
    let tuple = match node.operator {
        Operator::Gather(_) | Operator::GatherElements => 1,
        Operator::GatherNd(_) => *reversed.shape.last().unwrap(),
    };
    if tuple > 0 {
        reversed.entries = reversed.entries.chunks(tuple).rev().flatten().copied().collect();
    }
    Just(reversed)
}
