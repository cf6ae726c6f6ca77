//! GatherTree: the specification's formula, and its decisions.

use gather_cases::elements;
use gather_cases::oracle::{self, BadIndex, Integers};
use model_cases::{MANY, Stage, StagedModel, compare};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use tract_openvino::GatherTree;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{
    EvalContext, EvalOp, InOut, TDim, ToDim, TypedOp,
};

/// A node and its inputs.
#[derive(Debug, Clone)]
struct Node {
    /// Steps, batch, beams.
    shape: [usize; 3],
    steps: Vec<i64>,
    parents: Vec<i64>,
    lengths: Vec<i64>,
    end: i64,
    tokens: DatumType,
    integers: DatumType,
    constant: [bool; 4],
    symbolic: bool,
}

impl Node {
    fn expected(&self) -> Result<Vec<i64>, BadIndex> {
        let Node { steps, parents, lengths, end, .. } = self;
        let output = oracle::gather_tree(self.shape, steps, parents, lengths, *end)?;
        Ok(output.offsets.into_iter().map(|offset| offset.map_or(*end, |it| steps[it])).collect())
    }

    fn tensor(&self, numbers: &[i64], shape: &[usize], dt: DatumType) -> Tensor {
        let tensor = tensor1(numbers).into_shape(shape).unwrap();
        tensor.cast_to_dt(dt).unwrap().into_owned()
    }

    fn inputs(&self) -> [Tensor; 4] {
        [
            self.tensor(&self.steps, &self.shape, self.tokens),
            self.tensor(&self.parents, &self.shape, self.integers),
            self.tensor(&self.lengths, &self.shape[1..2], self.integers),
            self.tensor(&[self.end], if self.symbolic { &[1] } else { &[] }, self.tokens),
        ]
    }

    fn fed(&self) -> Vec<Tensor> {
        let inputs = self.inputs().into_iter().zip(self.constant);
        inputs.filter(|(_, constant)| !constant).map(|(tensor, _)| tensor).collect()
    }

    fn typed(&self) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut inputs = tvec!();
        for ((name, tensor), constant) in
            GatherTree::INPUTS.into_iter().zip(self.inputs()).zip(self.constant)
        {
            let dims = tensor.shape().iter().enumerate();
            let dims: TVec<TDim> = dims
                .map(|(number, size)| match self.symbolic {
                    true => model.symbols.sym(&format!("{name}_{number}")).to_dim(),
                    false => size.to_dim(),
                })
                .collect();
            inputs.push(match constant {
                true => model.add_const(name, tensor)?,
                false => model.add_source(name, tensor.datum_type().fact(dims))?,
            });
        }
        let output = model.wire_node("tree", GatherTree, &inputs)?;
        model.select_output_outlets(&output)?;
        Ok(model)
    }

    fn check(
        &self,
        stage: Stage,
        model: impl FnOnce() -> TractResult<StagedModel>,
    ) -> Result<(), TestCaseError> {
        let result = model().and_then(|mut model| model.run_checked(&self.fed()));
        match (self.expected(), result) {
            (Ok(expected), Ok(outputs)) => {
                let expected = self.tensor(&expected, &self.shape, self.tokens);
                compare(&expected, &outputs[0])
                    .map_err(|it| TestCaseError::fail(format!("{stage:?}: {it}")))
            }
            (Err(bad), Err(error)) => {
                let place = format!("parent_idx{:?} is {},", bad.position, bad.value);
                prop_assert!(format!("{error:?}").contains(&place), "{error:?} without {place}");
                Ok(())
            }
            (expected, result) => {
                let difference = format!("{stage:?}: {expected:?} expected, got {result:?}");
                Err(TestCaseError::fail(difference))
            }
        }
    }
}

fn node() -> impl Strategy<Value = Node> {
    use DatumType::*;
    let tokens = select(vec![I32, I64, U8, F16, F32]);
    let integers = select(vec![I32, I64, I8, F32]);
    (([0..5usize, 0..3, 0..4], tokens, integers), any::<([bool; 4], bool)>()).prop_flat_map(
        |((shape, tokens, integers), (constant, symbolic))| {
            let entries = shape.iter().product::<usize>();
            let beams = (shape[2] as i64).max(1);
            let parent = prop_oneof![30 => 0..beams, 1 => -1..beams + 1];
            let steps = proptest::collection::vec(0..7i64, entries);
            let parents = proptest::collection::vec(parent, entries);
            let lengths = proptest::collection::vec(-1..7i64, shape[1]);
            (steps, parents, lengths, 0..7i64).prop_map(move |(steps, parents, lengths, end)| {
                Node { shape, steps, parents, lengths, end, tokens, integers, constant, symbolic }
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nodes_wired_by_hand(node in node()) {
        for stage in [Stage::Typed, Stage::Decluttered, Stage::Optimized] {
            node.check(stage, || StagedModel::from_typed(node.typed()?, stage))?;
        }
    }
}

#[cfg(feature = "nnef")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn saved_nodes(node in node()) {
        // A constant step is tract's to write.
        let constant = [false, node.constant[1], node.constant[2], node.constant[3]];
        let node = Node { tokens: DatumType::I64, integers: DatumType::I64, constant, ..node };
        node.check(Stage::Optimized, || {
            StagedModel::from_typed(crate::through_nnef(&node.typed()?)?, Stage::Optimized)
        })?;
    }
}

fn eval(inputs: [Tensor; 4]) -> TractResult<Tensor> {
    let inputs = inputs.into_iter().map(Tensor::into_tvalue).collect();
    Ok(GatherTree.eval(&EvalContext::out_of_plan(), inputs)?.remove(0).into_tensor())
}

#[test]
fn a_parent_that_is_not_there() {
    let run = |parents: [[[i32; 2]; 1]; 2], length: i32| {
        let steps = tensor3(&[[[1, 2]], [[3, 4]]]);
        eval([steps, tensor3(&parents), tensor1(&[length]), tensor0(9)])
    };
    assert_eq!(run([[[0, 0]], [[1, 0]]], 7).unwrap(), tensor3(&[[[2, 1]], [[3, 4]]]));
    assert_eq!(
        run([[[0, 0]], [[0, 2]]], 2).unwrap_err().to_string(),
        "GatherTree-1: parent_idx[1, 0, 1] is 2, but must be in [0, 1], as the number of beams is 2"
    );
    // Those that are not walked to are not looked at.
    run([[[0, 0]], [[0, 2]]], 1).unwrap();
    run([[[0, -1]], [[0, 0]]], 2).unwrap();
    run([[[0, 0]], [[0, 2]]], -1).unwrap();
}

fn quantized() -> DatumType {
    DatumType::QU8(QParams::ZpScale { zero_point: 3, scale: 0.5 })
}

#[test]
fn the_output_has_the_quantization_of_the_steps() {
    let integers = |shape: &[usize], entries: &[i128]| {
        let integers = Integers { shape: shape.to_vec(), entries: entries.to_vec() };
        elements::integers(quantized(), &integers)
    };
    let steps = integers(&[2, 1, 2], &[1, 2, 3, 4]);
    let parents = tensor3(&[[[0, 0]], [[1, 0]]]);
    let output = eval([steps, parents, tensor1(&[2]), integers(&[], &[1])]).unwrap();
    assert_eq!(output, integers(&[2, 1, 2], &[2, 1, 3, 1]));
}

#[test]
fn no_steps_of_many_beams() {
    let empty = || Tensor::zero::<i32>(&[0, 1, MANY]).unwrap();
    assert_eq!(eval([empty(), empty(), tensor1(&[3i32]), tensor0(1i32)]).unwrap(), empty());
}

#[test]
fn inputs_that_do_not_fit() {
    let fits = [i32::fact([2, 1, 2]), i32::fact([2, 1, 2]), i32::fact([1]), i32::fact([1])];
    let typed = |inputs: &[TypedFact; 4]| GatherTree.output_facts(&inputs.each_ref());
    assert_eq!(*typed(&fits).unwrap()[0].shape, [2.to_dim(), 1.to_dim(), 2.to_dim()]);
    for (input, fact, expected) in [
        (0, i32::fact([2, 1]), "step_ids has rank 2, but must have rank 3"),
        (
            1,
            i32::fact([2, 1, 3]),
            "dimension 2 is 2 in step_ids and 3 in parent_idx, but must be the same",
        ),
        (
            2,
            i32::fact([2]),
            "the batch size is 1 in step_ids and 2 in max_seq_len, but must be the",
        ),
        (
            3,
            i32::fact([2]),
            "end_token has shape [2], but must be a scalar or a 1-D tensor of one element",
        ),
        (
            3,
            i64::fact([1]),
            "step_ids and end_token have element types I32 and I64, but must have the",
        ),
        (1, bool::fact([2, 1, 2]), "parent_idx has element type Bool, but must have integers or"),
        (2, quantized().fact([1]), "max_seq_len has element type QU8(Z:3 S:0.5), but must have"),
    ] {
        let mut inputs = fits.clone();
        inputs[input] = fact;
        let error = typed(&inputs).unwrap_err().to_string();
        assert!(error.starts_with(&format!("GatherTree-1: {expected}")), "{error}");
    }
}

#[test]
fn the_batch_is_an_axis_of_three_inputs() {
    let inputs = [i32::fact([4, 3, 2]), i32::fact([4, 3, 2]), i32::fact([3]), i32::fact([0; 0])];
    let output = i32::fact([4, 3, 2]);
    let mapping = GatherTree.axes_mapping(&inputs.each_ref(), &[&output]).unwrap();
    for (axis, expected) in [(0, [None; 3]), (1, [Some(1), Some(1), Some(0)]), (2, [None; 3])] {
        let track = |input| mapping.track_axis((InOut::Out(0), axis), InOut::In(input)).unwrap();
        assert_eq!([0, 1, 2].map(track), expected, "axis {axis}");
    }
}
