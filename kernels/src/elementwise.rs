//! Functions of elements, several of them at once.

use pulp::bytemuck::{cast_slice, cast_slice_mut};
use pulp::{Simd, WithSimd};
use tract_core::broadcast::multi_broadcast;
use tract_core::internal::*;
use tract_core::ops::binary::BinMiniOp;
use tract_core::ops::element_wise::{ElementWiseMiniOp, ElementWiseOp};
use tract_core::ops::math;

use crate::bf16::{BF16, convert};
use crate::checks::expect_input_count;
use crate::cost::{self, Cost};
use crate::isa::{max_or_second, min_or_second};
use crate::memory::{FLOATS_OF_LINE, Scratch, elements, floats, new_output};
use crate::product::Vectors;
use crate::product::activation::{Activate, Activation};
use crate::strided::{StridedAxis, broadcast_strides, copy_rows, merge_axes, row_begins};
use crate::threads::fill_rows;

/// How many elements are computed at once, so that what is between two functions stays in the first-level cache.
const BLOCK: usize = 1024;

/// Rows of fewer elements are put together in a block.
const SHORT: usize = 256;

/// Functions of elements of type F32. Each needs inputs, or results of those before it; the last one gives the output.
///
/// The inputs have the same rank, and are broadcast to the shape of the output, as tract's operators do it. Inputs that are not broadcast
/// may be in bf16 ([`BF16`]), and so may be the output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Elementwise {
    /// How many inputs there are: the first values.
    pub inputs: usize,
    /// Each gives one more value.
    pub steps: Vec<ElementwiseStep>,
    /// The type of the output.
    pub output: DatumType,
}

/// A function, and the numbers of the values that it needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ElementwiseStep {
    Binary(Binary, [usize; 2]),
    Unary(Unary, usize),
}

impl ElementwiseStep {
    /// The numbers of the values that it needs.
    fn values(&self) -> TVec<usize> {
        match self {
            ElementwiseStep::Binary(_, values) => values.as_slice().into(),
            ElementwiseStep::Unary(_, value) => tvec![*value],
        }
    }

    /// What it costs for an element.
    fn cost(&self) -> Cost {
        match self {
            ElementwiseStep::Binary(..) => cost::ELEMENT,
            ElementwiseStep::Unary(..) => cost::FUNCTION,
        }
    }
}

/// Functions of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The smaller number; the other one, if one is NaN.
    Min,
    /// The larger number; the other one, if one is NaN.
    Max,
    /// The first number if it is not less than 0, and its product with the second one otherwise.
    Prelu,
}

impl Binary {
    /// The function of an operator of tract, if it is one of these.
    pub fn of(op: &dyn BinMiniOp) -> Option<Binary> {
        let all = [
            (op.is::<math::Add>(), Binary::Add),
            (op.is::<math::Sub>(), Binary::Sub),
            (op.is::<math::Mul>(), Binary::Mul),
            (op.is::<math::Div>(), Binary::Div),
            (op.is::<math::Min>(), Binary::Min),
            (op.is::<math::Max>(), Binary::Max),
        ];
        all.into_iter().find_map(|(is_it, binary)| is_it.then_some(binary))
    }
}

/// A function of one number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unary {
    /// One that products have, too.
    Activation(Activation),
    /// Any that tract has.
    Other(Box<dyn ElementWiseMiniOp>),
}

impl Unary {
    /// The function of an operator of tract.
    pub fn of(op: &ElementWiseOp) -> TractResult<Unary> {
        let activation = Activation::Identity.followed_by(op, None)?;
        Ok(activation.map_or_else(|| Unary::Other(op.0.clone()), Unary::Activation))
    }

    /// Applies the function to numbers in their places.
    fn apply(&self, vectors: Vectors, numbers: &mut [f32]) -> TractResult<()> {
        match self {
            Unary::Activation(activation) => {
                vectors.run(Activate { numbers, activation: *activation });
            }
            Unary::Other(op) => {
                let mut tensor = Tensor::from_shape(&[numbers.len()], numbers)?;
                op.eval_in_place(&mut tensor, None)?;
                numbers.copy_from_slice(floats(&tensor)?);
            }
        }
        Ok(())
    }
}

/// Elements of a block: one for each, or one for all.
#[derive(Debug, Clone, Copy)]
enum Operand<'a> {
    Elements(&'a [f32]),
    Number(f32),
}

/// An input.
#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    /// It is in the output, which takes its memory.
    Output,
    Singles(&'a [f32]),
    Bf16(&'a [[u8; 2]]),
}

/// A function of two numbers, of the elements of a block.
struct Combine<'a> {
    binary: Binary,
    operands: [Operand<'a>; 2],
    output: &'a mut [f32],
}

impl WithSimd for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Combine { binary, operands, output } = self;
        // Where a comparison is false, one is NaN or both are equal.
        let other_of_nan = |a: S::f32s, b: S::f32s, result: S::f32s| {
            let result = simd.select_f32s(simd.equal_f32s(b, b), result, a);
            simd.select_f32s(simd.equal_f32s(a, a), result, b)
        };
        match binary {
            Binary::Add => each(simd, operands, output, |a, b| simd.add_f32s(a, b)),
            Binary::Sub => each(simd, operands, output, |a, b| simd.sub_f32s(a, b)),
            Binary::Mul => each(simd, operands, output, |a, b| simd.mul_f32s(a, b)),
            Binary::Div => each(simd, operands, output, |a, b| simd.div_f32s(a, b)),
            Binary::Min => {
                each(simd, operands, output, |a, b| other_of_nan(a, b, min_or_second(simd, a, b)))
            }
            Binary::Max => {
                each(simd, operands, output, |a, b| other_of_nan(a, b, max_or_second(simd, a, b)))
            }
            Binary::Prelu => each(simd, operands, output, |x, slope| {
                let is_below = simd.less_than_f32s(x, simd.splat_f32s(0.));
                simd.select_f32s(is_below, simd.mul_f32s(x, slope), x)
            }),
        }
    }
}

#[inline(always)]
fn each<S: Simd>(
    simd: S,
    operands: [Operand; 2],
    output: &mut [f32],
    function: impl Fn(S::f32s, S::f32s) -> S::f32s,
) {
    let (places, rest) = S::as_mut_simd_f32s(output);
    #[inline(always)]
    fn full<S: Simd>(simd: S, elements: &[f32]) -> (&[S::f32s], S::f32s) {
        let (full, rest) = S::as_simd_f32s(elements);
        (full, simd.partial_load_f32s(rest))
    }
    let number = |number| simd.splat_f32s(number);
    let last = match operands {
        [Operand::Elements(a), Operand::Elements(b)] => {
            let ((a, last_a), (b, last_b)) = (full(simd, a), full(simd, b));
            for (place, (a, b)) in places.iter_mut().zip(a.iter().zip(b)) {
                *place = function(*a, *b);
            }
            function(last_a, last_b)
        }
        [Operand::Elements(a), Operand::Number(b)] => {
            let ((a, last_a), b) = (full(simd, a), number(b));
            for (place, a) in places.iter_mut().zip(a) {
                *place = function(*a, b);
            }
            function(last_a, b)
        }
        [Operand::Number(a), Operand::Elements(b)] => {
            let (a, (b, last_b)) = (number(a), full(simd, b));
            for (place, b) in places.iter_mut().zip(b) {
                *place = function(a, *b);
            }
            function(a, last_b)
        }
        [Operand::Number(a), Operand::Number(b)] => {
            let result = function(number(a), number(b));
            places.fill(result);
            result
        }
    };
    simd.partial_store_f32s(rest, last);
}

/// Where the elements of inputs are for those of the output: along its last axis, they follow each other or stay.
type BroadcastLayout = TVec<StridedAxis<TVec<usize>>>;

fn broadcast_layout(shape: &[usize], inputs: &[&[usize]]) -> BroadcastLayout {
    let strides: TVec<_> = inputs.iter().map(|shape| broadcast_strides(shape)).collect();
    let of_axis = |axis: usize| strides.iter().map(|strides| strides[axis]).collect();
    merge_axes(shape.iter().enumerate().map(|(axis, size)| (*size, of_axis(axis))))
}

/// Whether an input has the elements of the output, one for one.
fn is_whole(layout: &BroadcastLayout, input: usize) -> bool {
    layout.iter().all(|(_, strides)| strides[input] != 0)
}

impl Elementwise {
    /// One function of two inputs.
    pub fn of_binary(binary: Binary) -> Elementwise {
        let steps = vec![ElementwiseStep::Binary(binary, [0, 1])];
        Elementwise { inputs: 2, steps, output: DatumType::F32 }
    }

    /// Whether it is this function of its two inputs.
    pub fn is_binary(&self, binary: Binary) -> bool {
        *self == Elementwise::of_binary(binary)
    }

    /// For each step the block that has its result until nobody needs it any more, and how many blocks there are. The last step
    /// writes to the output.
    fn blocks(&self) -> (Vec<usize>, usize) {
        let mut until = vec![0; self.steps.len()];
        for (number, step) in self.steps.iter().enumerate() {
            for value in step.values() {
                if let Some(of_step) = value.checked_sub(self.inputs) {
                    until[of_step] = number;
                }
            }
        }
        // For each block, the step until which it is taken.
        let mut taken: Vec<usize> = vec![];
        let mut blocks = vec![];
        for (number, until) in until.into_iter().enumerate() {
            let free = taken.iter().position(|taken| *taken < number);
            let block = free.unwrap_or(taken.len());
            if block == taken.len() {
                taken.push(0);
            }
            taken[block] = until.max(number);
            blocks.push(block);
        }
        (blocks, taken.len())
    }

    /// Computes some elements of the output, from a number of them on, with these [blocks](Self::blocks).
    fn fill(
        &self,
        layout: &BroadcastLayout,
        inputs: &[Source],
        (block_of_step, count): (&[usize], usize),
        first: usize,
        output: &mut [u8],
    ) -> TractResult<()> {
        let (vectors, size) = (Vectors::detect(), self.output.size_of());
        let mut scratch = Scratch::new((self.inputs + count + 1) * BLOCK);
        let mut blocks: Vec<&mut [f32]> = scratch.chunks_exact_mut(BLOCK).collect();
        let (of_inputs, of_steps) = blocks.split_at_mut(self.inputs);
        let (of_steps, of_output) = of_steps.split_at_mut(count);
        let (row, strides, outer) = match layout.split_last() {
            Some(((row, strides), outer)) => (*row, &strides[..], outer),
            None => (1, &[][..], &[][..]),
        };
        let mut done = 0;
        while done < output.len() / size {
            let begin = first + done;
            let left = output.len() / size - done;
            let count = match row < SHORT {
                // All blocks begin at the same place of a row.
                true => left.min(BLOCK - BLOCK % row),
                false => left.min(BLOCK).min(row - begin % row),
            };
            let output = &mut output[done * size..][..count * size];
            let mut operands: TVec<Operand> = tvec![];
            for (input, block) in of_inputs.iter_mut().enumerate() {
                let block = &mut block[..count];
                let elements = match inputs[input] {
                    Source::Singles(elements) => elements,
                    Source::Bf16(elements) => {
                        convert(&elements[begin..][..count], block);
                        operands.push(Operand::Elements(block));
                        continue;
                    }
                    Source::Output => {
                        match self.output {
                            BF16 => convert::<[u8; 2], f32>(cast_slice(output), block),
                            _ => block.copy_from_slice(cast_slice(output)),
                        }
                        operands.push(Operand::Elements(block));
                        continue;
                    }
                };
                let stays = layout.iter().all(|(_, strides)| strides[input] == 0);
                operands.push(if stays {
                    Operand::Number(elements[0])
                } else if is_whole(layout, input) {
                    Operand::Elements(&elements[begin..][..count])
                } else if row < SHORT {
                    let has_one_row = outer.iter().all(|(_, strides)| strides[input] == 0);
                    // All blocks begin at the same place of the one row, so the block before has it already.
                    if done == 0 || !has_one_row {
                        let begins = row_begins(outer, input, begin / row);
                        copy_rows(elements, begins, (row, strides[input]), begin % row, block);
                    }
                    Operand::Elements(block)
                } else {
                    let of_row = row_begins(outer, input, begin / row).next().unwrap_or(0);
                    match strides[input] {
                        0 => Operand::Number(elements[of_row]),
                        _ => Operand::Elements(&elements[of_row + begin % row..][..count]),
                    }
                });
            }
            let result = match self.output {
                BF16 => &mut of_output[0][..count],
                _ => cast_slice_mut(&mut *output),
            };
            for (number, step) in self.steps.iter().enumerate() {
                let is_last = number + 1 == self.steps.len();
                let place = block_of_step[number];
                let own = if is_last { &mut [] } else { std::mem::take(&mut of_steps[place]) };
                let operand = |value: usize| match value.checked_sub(self.inputs) {
                    None => operands[value],
                    Some(step) => Operand::Elements(&of_steps[block_of_step[step]][..count]),
                };
                let output = if is_last { &mut *result } else { &mut own[..count] };
                match step {
                    ElementwiseStep::Binary(binary, values) => {
                        let operands = values.map(operand);
                        vectors.run(Combine { binary: *binary, operands, output });
                    }
                    ElementwiseStep::Unary(unary, value) => {
                        match operand(*value) {
                            Operand::Elements(elements) => output.copy_from_slice(elements),
                            Operand::Number(number) => output.fill(number),
                        }
                        unary.apply(vectors, output)?;
                    }
                }
                if !is_last {
                    of_steps[place] = own;
                }
            }
            if self.output == BF16 {
                convert::<f32, [u8; 2]>(&of_output[0][..count], cast_slice_mut(output));
            }
            done += count;
        }
        Ok(())
    }
}

impl_plain_op!(
    Elementwise with {
        pass_axes!(mapping);

        fn change_axes(
            &self,
            model: &TypedModel,
            node: &TypedNode,
            _io: InOut,
            change: &AxisOp,
        ) -> TractResult<Option<AxisChangeConsequence>> {
            match change {
                AxisOp::Add(_) | AxisOp::Move(..) => (),
                AxisOp::Rm(axis) => {
                    let inputs = model.node_input_facts(node.id)?;
                    rule_if!(inputs.iter().all(|fact| fact.shape[*axis].is_one()));
                }
                AxisOp::Reshape(..) => return Ok(None),
            }
            Ok(Some(AxisChangeConsequence::new(model, node, None, change)))
        }
    },
    "Elementwise",
    info = |op| {
        let listed = |step: &ElementwiseStep| match step {
            ElementwiseStep::Binary(binary, [a, b]) => format!("{binary:?}({a}, {b})"),
            ElementwiseStep::Unary(Unary::Activation(activation), value) => {
                format!("{activation:?}({value})")
            }
            ElementwiseStep::Unary(Unary::Other(op), value) => format!("{}({value})", op.name()),
        };
        let numbered = |(number, step)| format!("{}: {}", op.inputs + number, listed(step));
        let mut info: Vec<String> = op.steps.iter().enumerate().map(numbered).collect();
        info.extend((op.output == BF16).then(|| "the output is in bf16".to_string()));
        info
    },
    validation = |_| Validation::Rounding
);

impl Elementwise {
    fn eval(&self, mut inputs: TVec<TValue>) -> TractResult<Tensor> {
        expect_input_count("Elementwise", inputs.len(), self.inputs..=self.inputs)?;
        let shapes: Vec<&[usize]> = inputs.iter().map(|input| input.shape()).collect();
        let shape = multi_broadcast(&shapes).context("Elementwise")?;
        let layout = broadcast_layout(&shape, &shapes);
        let own = |number: &usize| {
            let input = &inputs[*number];
            is_whole(&layout, *number) && input.is_exclusive() && input.datum_type() == self.output
        };
        let own = (0..inputs.len()).find(own);
        let mut output = match own {
            // tract moves it out, as nobody else has it.
            Some(number) => inputs.remove(number).into_tensor(),
            None => new_output("Elementwise", self.output, &shape)?,
        };
        if output.len() == 0 {
            return Ok(output);
        }
        let sources = inputs.iter().map(|input| {
            Ok(match input.datum_type() {
                BF16 => Source::Bf16(elements(input)?),
                _ => Source::Singles(floats(input)?),
            })
        });
        let mut sources: TVec<Source> = sources.collect::<TractResult<_>>()?;
        if let Some(number) = own {
            sources.insert(number, Source::Output);
        }
        let (blocks, count) = self.blocks();
        let costs = self.steps.iter().map(|step| step.cost().of(output.len()));
        let work = costs.fold(0, usize::saturating_add);
        let mut view = output.try_as_plain_ram_mut()?;
        let of_line = FLOATS_OF_LINE * self.output.size_of();
        fill_rows(view.as_bytes_mut(), of_line, work, |line, output| {
            let first = line * FLOATS_OF_LINE;
            self.fill(&layout, &sources, (&blocks, count), first, output)
        })?;
        Ok(output)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count("Elementwise", inputs.len(), self.inputs..=self.inputs)?;
        for (number, input) in inputs.iter().enumerate() {
            ensure!(
                [DatumType::F32, BF16].contains(&input.datum_type)
                    && input.rank() == inputs[0].rank(),
                "Elementwise: input {number} is {input:?}, but must be of type F32 and rank {}",
                inputs[0].rank()
            );
        }
        let shapes: TVec<_> = inputs.iter().map(|input| input.shape.to_tvec()).collect();
        let shape = multi_broadcast(&shapes).context("Elementwise")?;
        for (number, input) in inputs.iter().enumerate() {
            ensure!(
                input.datum_type == DatumType::F32 || *input.shape.to_tvec() == *shape,
                "Elementwise: input {number} is {input:?}, but must be of type F32 where it is broadcast"
            );
        }
        Ok(self.output.fact(&*shape))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tract_core::ops::binary::TypedBinOp;

    use super::*;
    use crate::product::tests::{rounded, widened, with_all_vectors};

    const BINARY: [Binary; 6] =
        [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Min, Binary::Max];

    fn of_tract(binary: Binary) -> TypedBinOp {
        match binary {
            Binary::Add => math::add(),
            Binary::Sub => math::sub(),
            Binary::Mul => math::mul(),
            Binary::Div => math::div(),
            Binary::Min => math::min(),
            Binary::Max => math::max(),
            Binary::Prelu => panic!("tract has no operator for it"),
        }
    }

    fn tensor(shape: &[usize], seed: usize) -> Tensor {
        let count = shape.iter().product::<usize>();
        let numbers = (0..count).map(|it| ((it + seed) * 37 % 101) as f32 / 7. - 5.);
        Tensor::from_shape(shape, &numbers.collect::<Vec<_>>()).unwrap()
    }

    fn run(op: &dyn EvalOp, inputs: TVec<TValue>) -> TractResult<TValue> {
        Ok(op.eval(&EvalContext::out_of_plan(), inputs)?.remove(0))
    }

    /// `square(a o b) o c`, by tract's operators one after the other.
    fn expected(binary: Binary, [a, b, c]: [&Tensor; 3]) -> TractResult<TValue> {
        let owned = |tensor: &Tensor| TValue::from(tensor.clone());
        let first = run(&of_tract(binary), tvec!(owned(a), owned(b)))?;
        let squared = run(&math::square(), tvec!(first))?;
        run(&of_tract(binary), tvec!(squared, owned(c)))
    }

    fn chain(binary: Binary) -> Elementwise {
        let steps = vec![
            ElementwiseStep::Binary(binary, [0, 1]),
            ElementwiseStep::Unary(Unary::Other(math::square().0), 3),
            ElementwiseStep::Binary(binary, [4, 2]),
        ];
        Elementwise { inputs: 3, steps, output: DatumType::F32 }
    }

    /// An input may be whole, or stay along some axes.
    fn shapes() -> impl Strategy<Value = (Vec<usize>, [Vec<bool>; 3])> {
        let size = prop_oneof![0..4usize, Just(37), 250..260usize];
        let sizes = prop::collection::vec(size, 0..4);
        sizes
            .prop_filter("they are not many", |it| it.iter().product::<usize>() < 40_000)
            .prop_flat_map(|sizes| {
                let stays = || prop::collection::vec(prop::bool::weighted(0.3), sizes.len());
                let stays = [stays(), stays(), stays()];
                (Just(sizes.clone()), stays)
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

        #[test]
        fn it_is_what_tract_computes((sizes, stays) in shapes(), number in 0..6usize, keeps in any::<[bool; 3]>()) {
            let tensors = [0, 1, 2].map(|input: usize| {
                let shape = sizes.iter().zip(&stays[input]);
                let shape: Vec<usize> = shape.map(|(size, stays)| if *stays { 1 } else { *size }).collect();
                tensor(&shape, input)
            });
            let [a, b, c] = &tensors;
            let expected = expected(BINARY[number], [a, b, c]).unwrap();
            with_all_vectors(|| {
                let inputs: TVec<TValue> = tensors.iter().map(|it| it.clone().into()).collect();
                // Who keeps an input still has its elements.
                let kept: Vec<Option<TValue>> =
                    keeps.iter().zip(&inputs).map(|(keeps, input)| keeps.then(|| input.clone())).collect();
                let found = run(&chain(BINARY[number]), inputs).unwrap();
                assert_eq!(*found, *expected);
                for (kept, tensor) in kept.iter().zip(&tensors) {
                    assert!(kept.as_ref().is_none_or(|kept| **kept == *tensor));
                }
            });
        }

        #[test]
        fn of_tensors_in_bf16((sizes, stays) in shapes(), number in 0..6usize, are_rounded in any::<[bool; 3]>(), keeps in any::<bool>()) {
            let is_whole = |input: usize| sizes.iter().zip(&stays[input]).all(|(size, stays)| !stays || *size == 1);
            let shapes = stays.each_ref().map(|stays| {
                let shape = sizes.iter().zip(stays);
                shape.map(|(size, stays)| if *stays { 1 } else { *size }).collect::<Vec<usize>>()
            });
            let tensors = [0, 1, 2].map(|input| {
                let tensor = tensor(&shapes[input], input);
                if are_rounded[input] && is_whole(input) { rounded(&tensor) } else { tensor }
            });
            let [a, b, c] = &tensors.each_ref().map(widened);
            let of_singles = expected(BINARY[number], [a, b, c]).unwrap();
            let expected = rounded(&of_singles);
            prop_assume!(tensors.iter().any(|it| it.shape() == of_singles.shape()));
            with_all_vectors(|| {
                let inputs: TVec<TValue> = tensors.iter().map(|it| it.clone().into()).collect();
                let kept = keeps.then(|| inputs.clone());
                let op = Elementwise { output: BF16, ..chain(BINARY[number]) };
                let found = run(&op, inputs).unwrap();
                assert_eq!(widened(&found), widened(&expected));
                for (kept, tensor) in kept.iter().flatten().zip(&tensors) {
                    assert!(**kept == *tensor);
                }
            });
        }
    }

    #[test]
    fn an_input_that_nobody_else_has_becomes_the_output() -> TractResult<()> {
        let place = |value: &TValue| value.try_as_plain_ram().unwrap().as_bytes().as_ptr();
        let inputs: TVec<TValue> =
            [[1, 5], [4, 5], [4, 5]].iter().map(|it| tensor(it, 0).into()).collect();
        let (second, third) = (inputs[1].clone(), place(&inputs[2]));
        let output = run(&chain(Binary::Add), inputs)?;
        assert_eq!(place(&output), third);
        assert_eq!(*second, tensor(&[4, 5], 0));
        Ok(())
    }

    #[test]
    fn the_other_one_of_nan() {
        let numbers = [f32::NAN, 1., f32::NEG_INFINITY];
        for (binary, expected) in
            [(Binary::Min, f32::min as fn(f32, f32) -> f32), (Binary::Max, f32::max)]
        {
            with_all_vectors(|| {
                for a in numbers {
                    for b in numbers {
                        for operands in [
                            [Operand::Elements(&[a; 19]), Operand::Elements(&[b; 19])],
                            [Operand::Elements(&[a; 19]), Operand::Number(b)],
                            [Operand::Number(a), Operand::Elements(&[b; 19])],
                            [Operand::Number(a), Operand::Number(b)],
                        ] {
                            let mut output = [0.; 19];
                            let output = &mut output;
                            Vectors::detect().run(Combine { binary, operands, output });
                            let expected = expected(a, b);
                            let is_it = |x: &f32| *x == expected || x.is_nan() && expected.is_nan();
                            assert!(
                                output.iter().all(is_it),
                                "{binary:?} of {a} and {b}: {output:?}"
                            );
                        }
                    }
                }
            });
        }
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn of_threads() -> TractResult<()> {
        use tract_core::prelude::multithread::{Executor, multithread_tract_scope};
        for sizes in [[7, 300, 50], [2, 40, 1001], [1, 1, 90_001]] {
            let inputs: TVec<TValue> = [sizes, [sizes[0], sizes[1], 1], [1, 1, sizes[2]]]
                .iter()
                .map(|shape| tensor(shape, 3).into())
                .collect();
            let run = |threads| {
                multithread_tract_scope(Executor::multithread(threads), || {
                    run(&chain(Binary::Mul), inputs.clone())
                })
            };
            assert_eq!(*run(1)?, *run(3)?);
        }
        Ok(())
    }
}
