//! A small model of tract's operators, as tract runs it and on the kernels.
//!
//! The model has one to eight operators that the rules of the transform look for, with constants and other inputs. It runs with
//! several batches in a row: the operators keep layouts and pages from one run to the next.

mod operators;
mod pages;

use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use tract_core::internal::*;
use tract_core::ops::math::{self, mul};
use tract_core::prelude::multithread::{
    Executor, multithread_tract_scope, set_threading_element_threshold,
};
use tract_openvino_kernels::{FakeQuantize, KernelsRunnable, WithKernels};

use crate::{number, panics, rarely};
use operators::OPERATORS;

/// A tensor has so many elements at most, with the largest batch.
const MOST_ELEMENTS: usize = 1 << 14;

/// So many steps between two levels are as much as rounding errors may be.
const ROUNDING: f32 = 4e-3;

/// So often is asked what rounding errors do, and what opposite ones.
const NUDGES: u64 = 4;

/// A batch of tensors without elements.
const LONG: usize = 1 << 40;

/// What the names of masks begin with.
const MASK: &str = "mask";

/// The largest batch of others.
const MOST_BATCHES: i64 = 5;

/// How many operators a model has at most.
const MOST_OPERATORS: usize = 8;

/// The operators that a model may begin with, and keys and values in pages.
pub fn count() -> usize {
    OPERATORS.len() + 1
}

pub fn run(bytes: &[u8]) -> Option<bool> {
    // From now on threads share all work, however little, in a scope that has some.
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| set_threading_element_threshold(0));
    let mut u = Unstructured::new(bytes);
    let first = number(&mut u, count()).ok()?;
    match OPERATORS.get(first) {
        Some(_) => Case::new(&mut u, first).ok().flatten().map(Case::check),
        None => pages::run(&mut u).ok(),
    }
}

/// A model that is made node by node. Its inputs are of type F32. The first axis of some has an open size.
struct Builder<'u, 'b> {
    u: &'u mut Unstructured<'b>,
    model: TypedModel,
    batch: TDim,
    /// What operators may need.
    outlets: Vec<OutletId>,
    numbers: Numbers,
    traits: Traits,
}

/// What is said of a model's operators.
#[derive(Debug, Clone, Copy, Default)]
struct Traits {
    /// What they make of NaN and infinities is not the same everywhere: it is a sum of several parts, or tract's function gives a
    /// number.
    is_tame: bool,
    /// Rounding errors may become as large as a step between two levels.
    is_rounded: bool,
}

/// Numbers that look random.
#[derive(Debug, Clone)]
struct Numbers {
    state: u64,
    /// Whether some are NaN, infinities, or zeros.
    are_wild: bool,
}

impl Numbers {
    fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 33) as u32
    }

    /// Multiples of a fourth, from -2 to 2.
    fn tame(&mut self, shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let numbers: Vec<f32> = (0..count).map(|_| (self.next() % 17) as f32 / 4. - 2.).collect();
        Tensor::from_shape(shape, &numbers).expect("there are as many")
    }

    fn tensor(&mut self, shape: &[usize]) -> Tensor {
        const WILD: [f32; 6] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0., -0., 1e-30];
        let mut tensor = self.tame(shape);
        if self.are_wild {
            let mut view = tensor.try_as_plain_ram_mut().expect("it is in memory");
            for number in view.as_slice_mut::<f32>().expect("it has floats") {
                let chance = self.next() as usize % 64;
                *number = WILD.get(chance).copied().unwrap_or(*number);
            }
        }
        tensor
    }
}

impl Builder<'_, '_> {
    /// Wires a node, if tract takes it.
    fn wire(&mut self, op: impl Into<Box<dyn TypedOp>>, inputs: &[OutletId]) -> Option<OutletId> {
        let op = op.into();
        let name = format!("{}.{}", op.name(), self.model.nodes.len());
        let outlets = panics::catch(|| self.model.wire_node(name, op, inputs).ok()).flatten()?;
        let fits = |outlet: &OutletId| {
            let shape = &self.model.outlet_fact(*outlet).ok()?.shape;
            let volume = shape
                .iter()
                .try_fold(1usize, |volume, dim| volume.checked_mul(self.most(dim)?.max(1)));
            (volume? <= MOST_ELEMENTS).then_some(())
        };
        outlets.iter().all(|outlet| fits(outlet).is_some()).then_some(outlets[0])
    }

    /// A size with the largest batch.
    fn most(&self, dim: &TDim) -> Option<usize> {
        let mut values = SymbolValues::default();
        for symbol in self.batch.symbols() {
            values.set(&symbol, MOST_BATCHES);
        }
        dim.eval(&values).to_usize().ok()
    }

    fn constant(&mut self, tensor: Tensor) -> OutletId {
        let name = format!("constant.{}", self.model.nodes.len());
        self.model.add_const(name, tensor).expect("a constant can be added")
    }

    /// A constant of small numbers, of which so many are added.
    fn weights(&mut self, shape: &[usize], depth: usize) -> Tensor {
        let mut numbers = self.numbers.tame(shape);
        let mut view = numbers.try_as_plain_ram_mut().expect("it is in memory");
        let scale = (depth.max(1) as f32).sqrt().recip();
        for number in view.as_slice_mut::<f32>().expect("it has floats") {
            *number *= scale;
        }
        numbers
    }

    fn number(&mut self, number: f32, rank: usize) -> OutletId {
        self.constant(Tensor::from_shape(&vec![1; rank], &[number]).expect("there is one"))
    }

    fn source(&mut self, shape: &[TDim]) -> Option<OutletId> {
        self.named_source("input", shape)
    }

    /// A mask of scores, which hides some keys, but never the first one.
    fn mask(&mut self, shape: &[TDim]) -> Option<OutletId> {
        self.named_source(MASK, shape)
    }

    fn named_source(&mut self, name: &str, shape: &[TDim]) -> Option<OutletId> {
        let volume = shape
            .iter()
            .try_fold(1usize, |volume, dim| volume.checked_mul(self.most(dim)?.max(1)))?;
        if volume > MOST_ELEMENTS {
            return None;
        }
        let name = format!("{name}.{}", self.model.nodes.len());
        self.model.add_source(name, f32::fact(shape)).ok()
    }

    fn shape(&self, outlet: OutletId) -> TVec<TDim> {
        self.model.outlet_fact(outlet).expect("it is there").shape.to_tvec()
    }

    /// The size of an axis, if it is known.
    fn size(&self, outlet: OutletId, axis: usize) -> Option<usize> {
        self.shape(outlet).get(axis)?.to_usize().ok()
    }

    /// A number of elements.
    fn any_size(&mut self) -> Result<usize> {
        Ok(*self.u.choose(&[3, 1, 2, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 33, 48, 64, 0])?)
    }

    fn choose<T: Clone>(&mut self, among: &[T]) -> Result<T> {
        self.u.choose(among).cloned()
    }

    fn axis(&mut self, outlet: OutletId) -> Result<usize> {
        let rank = self.shape(outlet).len();
        Ok(self.u.int_in_range(0..=rank.saturating_sub(1))?)
    }

    /// Another tensor for a node: a new input, or a constant where the shape is known.
    fn operand(&mut self, shape: &[TDim]) -> Result<Option<OutletId>> {
        let sizes: Option<TVec<usize>> = shape.iter().map(|dim| dim.to_usize().ok()).collect();
        let is_constant = self.u.ratio(1, 3)?;
        Ok(match sizes {
            Some(sizes) if is_constant => {
                let tensor = self.numbers.tame(&sizes);
                Some(self.constant(tensor))
            }
            _ => self.source(shape),
        })
    }
}

/// A model, and what it is run with.
struct Case {
    model: TypedModel,
    batch: TDim,
    batches: Vec<usize>,
    numbers: Numbers,
    traits: Traits,
    has_threads: bool,
}

impl Case {
    fn new(u: &mut Unstructured, first: usize) -> Result<Option<Case>> {
        let model = TypedModel::default();
        let batch = model.symbols.sym("N").to_dim();
        let batch = if u.ratio(1, 4)? { 2.to_dim() } else { batch };
        let numbers = Numbers { state: u.arbitrary()?, are_wild: rarely(u, 4)? };
        let traits = Traits::default();
        let mut builder = Builder { u, model, batch, outlets: vec![], numbers, traits };
        let rank = builder.choose(&[4, 3, 2, 1, 5])?;
        let mut shape = tvec![builder.batch.clone()];
        for _ in 1..rank {
            shape.push(builder.any_size()?.to_dim());
        }
        let Some(data) = builder.source(&shape) else { return Ok(None) };
        builder.outlets.push(data);
        let more = builder.u.int_in_range(0..=MOST_OPERATORS - 1)?;
        for number in 0..=more {
            let which = match number {
                0 => first,
                _ => builder.u.int_in_range(0..=OPERATORS.len() - 1)?,
            };
            // Mostly the last one, so that there are chains.
            let last = builder.outlets.len() - 1;
            let from = if rarely(builder.u, 4)? { builder.u.int_in_range(0..=last)? } else { last };
            let data = builder.outlets[from];
            if let Some(outlet) = (OPERATORS[which].1)(&mut builder, data)? {
                builder.outlets.push(outlet);
            } else if number == 0 {
                return Ok(None);
            }
        }
        let mut outputs = vec![*builder.outlets.last().expect("there is one")];
        if rarely(builder.u, 4)? {
            let other = builder.choose(&builder.outlets.clone())?;
            if other != outputs[0] {
                outputs.push(other);
            }
        }
        let count = builder.u.int_in_range(1..=4)?;
        let mut batches = vec![];
        for _ in 0..count {
            batches.push(builder.choose(&[2, 0, 1, 3, MOST_BATCHES as usize])?);
        }
        let has_threads = rarely(builder.u, 3)?;
        let Builder { mut model, batch, numbers, traits, .. } = builder;
        if model.select_output_outlets(&outputs).is_err() || model.compact().is_err() {
            return Ok(None);
        }
        Ok(Some(Case { model, batch, batches, numbers, traits, has_threads }))
    }

    fn inputs(&self, batch: usize, run: usize) -> Vec<Tensor> {
        let mut values = SymbolValues::default();
        for symbol in self.batch.symbols() {
            values.set(&symbol, batch as i64);
        }
        let mut numbers = self.numbers.clone();
        numbers.state ^= (run as u64) << 32;
        let outlets = self.model.input_outlets().expect("there are inputs");
        let shape = |outlet: &OutletId| -> TVec<usize> {
            let shape = &self.model.outlet_fact(*outlet).expect("it is there").shape;
            let sizes = shape.iter().map(|dim| dim.eval(&values).to_usize().ok());
            sizes.collect::<Option<_>>().expect("there is no other symbol")
        };
        let input = |outlet: &OutletId| {
            let mut tensor = numbers.tensor(&shape(outlet));
            if self.model.node(outlet.node).name.starts_with(MASK) {
                let keys = tensor.shape().last().copied().unwrap_or(1).max(1);
                let mut view = tensor.try_as_plain_ram_mut().expect("it is in memory");
                let elements = view.as_slice_mut::<f32>().expect("it has floats");
                for (place, number) in elements.iter_mut().enumerate() {
                    if place % keys > 0 && numbers.next() % 4 == 0 {
                        *number = f32::NEG_INFINITY;
                    }
                }
            }
            tensor
        };
        outlets.iter().map(input).collect()
    }

    /// Whether it had an output.
    fn check(mut self) -> bool {
        // As tract computes it, as it is and optimised: these may differ where tract is wrong.
        let plan = |optimizes: bool| {
            let model = self.model.clone();
            let model = panics::catch(|| match optimizes {
                true => model.into_optimized()?.into_runnable(),
                false => model.into_runnable(),
            });
            model.and_then(|plan| plan.ok())
        };
        let (Some(as_it_is), Some(optimized)) = (plan(false), plan(true)) else { return false };
        // Every panic is a finding here, wherever it is.
        let transformed = panics::ours(|| self.model.clone().into_runnable_with_kernels());
        let kernels = match transformed {
            Ok(kernels) => kernels,
            Err(_) if self.is_without_elements() => return false,
            Err(error) => panic!("{error:?}\n{}", self.text()),
        };
        // Some products are left to tract, which makes NaN of a maximum of NaN that it fuses with them.
        let nodes = kernels.plan().model().nodes();
        self.traits.is_tame |= nodes.iter().any(|node| node.op.name() == "OptMatMul");
        let mut has_output = false;
        for (run, batch) in self.batches.iter().enumerate() {
            let inputs = self.inputs(*batch, run);
            let tvalues = || inputs.iter().map(|it| it.clone().into_tvalue()).collect::<TVec<_>>();
            let expected = panics::catch(|| as_it_is.run(tvalues()).ok()).flatten();
            let other = panics::catch(|| optimized.run(tvalues()).ok()).flatten();
            let run_on_kernels = || self.on_kernels(&kernels, tvalues());
            let (Some(expected), Some(other)) = (expected, other) else {
                // What tract cannot do, its operators that are left there cannot do, either.
                if !self.has_threads {
                    panics::catch(run_on_kernels);
                }
                continue;
            };
            let found = match panics::ours(run_on_kernels) {
                Ok(found) => found,
                Err(_) if self.is_without_elements() => continue,
                Err(error) => panic!("run {run}: {error:?}\n{}", self.text()),
            };
            has_output = true;
            for (slot, ((expected, other), found)) in
                expected.iter().zip(&other).zip(&found).enumerate()
            {
                if self.difference(expected, other, 0.5).is_none()
                    && let Some(difference) = self.difference(expected, found, 1.)
                    && !self.nearly_overflows(tvalues())
                    && !self.is_rounded_otherwise(tvalues(), slot, expected, found)
                {
                    panic!(
                        "run {run}, of batch {batch}: {difference}\n{}\n{expected:?}\n{found:?}\n{inputs:?}",
                        self.text()
                    );
                }
            }
        }
        self.long(&kernels);
        has_output
    }

    /// Whether some node computes a finite number so large that sums of its products may be infinite in one order and finite in another:
    /// the maximum of no elements is one.
    fn nearly_overflows(&self, inputs: TVec<TValue>) -> bool {
        const LARGE: f32 = 1e30;
        let mut model = self.model.clone();
        let all = model.nodes().iter().map(|node| OutletId::from(node.id)).collect::<Vec<_>>();
        let run =
            || model.select_output_outlets(&all).and_then(|()| model.into_runnable()?.run(inputs));
        let Some(Ok(values)) = panics::catch(run) else { return false };
        let mut floats = values.iter().filter_map(|value| value.try_as_plain_ram().ok());
        floats.any(|value| {
            let numbers = value.as_slice::<f32>().unwrap_or_default();
            numbers.iter().any(|number| number.is_finite() && number.abs() > LARGE)
        })
    }

    /// Whether an output differs no more than those of the same model together, in which each number of the data of one FakeQuantize is a
    /// little greater or less: so little that only what is between two levels is rounded to the other one. Elements are not compared one
    /// by one: levels of one FakeQuantize that are rounded otherwise change which numbers of the next one are between two levels.
    fn is_rounded_otherwise(
        &self,
        inputs: TVec<TValue>,
        slot: usize,
        expected: &Tensor,
        found: &Tensor,
    ) -> bool {
        if !self.traits.is_rounded {
            return false;
        }
        let Some((expected, found)) = floats(expected).zip(floats(found)) else { return false };
        let most = expected.iter().fold(0f32, |most, it| most.max(it.abs()));
        let largest = |one: &[f32], other: &[f32]| {
            let pairs = one.iter().zip(other);
            pairs.fold(0f32, |most, (one, other)| most.max((one - other).abs()))
        };
        let mut within = tolerance(most);
        for node in self.model.nodes() {
            let Some(FakeQuantize { levels }) = node.op_as() else { continue };
            let by = ROUNDING / (levels - 1) as f32;
            for (seed, by) in (0..NUDGES).flat_map(|seed| [(seed, by), (seed, -by)]) {
                let run = || self.nudged(node, by, seed)?.into_runnable()?.run(inputs.clone());
                let Some(Ok(nudged)) = panics::catch(run) else { return false };
                let Some(nudged) = floats(&nudged[slot]) else { return false };
                within += largest(&nudged, &expected);
            }
        }
        largest(&found, &expected) <= within
    }

    /// The model, with so much of the range between the limits of a FakeQuantize added to its data, or taken from it, as the seed is.
    fn nudged(&self, node: &TypedNode, by: f32, seed: u64) -> TractResult<TypedModel> {
        let mut model = self.model.clone();
        let shape = &node.outputs[0].fact.shape;
        let shape: TVec<usize> = shape.iter().map(|dim| dim.to_usize().unwrap_or(1)).collect();
        let mut signs = Numbers { state: seed << 40, are_wild: false };
        let count = shape.iter().product();
        // What is between two levels may all be rounded the same way.
        let signs = (0..count).map(|_| if seed == 0 || signs.next() >> 30 == 0 { by } else { -by });
        let by = Tensor::from_shape(&shape, &signs.collect::<Vec<f32>>())?;
        let by = model.add_const("nudge.by", by)?;
        let range =
            model.wire_node("nudge.range", math::sub(), &[node.inputs[2], node.inputs[1]])?;
        let nudge = model.wire_node("nudge", mul(), &[range[0], by])?;
        let data = model.wire_node("nudged", math::add(), &[node.inputs[0], nudge[0]])?;
        model.add_edge(data[0], InletId::new(node.id, 0))?;
        Ok(model)
    }

    /// Whether some tensor has no elements, whatever the batch is: at many such a model tract's optimiser fails, or loses the batch, or
    /// not, as the order of its passes is.
    fn is_without_elements(&self) -> bool {
        let outputs = self.model.nodes().iter().flat_map(|node| &node.outputs);
        outputs.flat_map(|output| output.fact.shape.iter()).any(|dim| *dim == 0.to_dim())
    }

    fn on_kernels(
        &self,
        kernels: &KernelsRunnable,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        static THREADS: OnceLock<Executor> = OnceLock::new();
        if !self.has_threads {
            return kernels.run(inputs);
        }
        let executor = THREADS.get_or_init(|| Executor::multithread(2)).clone();
        multithread_tract_scope(executor, || kernels.run(inputs))
    }

    /// A batch of very many images without elements, if all operators are the kernels': an error, or an output, but soon.
    fn long(&self, kernels: &KernelsRunnable) {
        const OURS: [&str; 14] = [
            "Attention",
            "Concatenation",
            "Contraction",
            "Elementwise",
            "FakeQuantize",
            "FullyConnected",
            "LayerNormalization",
            "PackedConvolution",
            "ChannelsLastPool",
            "ResizeAxes",
            "RmsNormalization",
            "SliceOfAxis",
            "SoftmaxOfAxis",
            "SumOfAxes",
        ];
        let is_ours = |node: &TypedNode| {
            let name = node.op.name();
            let is_codes = name.starts_with("Quantized") || name.ends_with("quantize");
            OURS.contains(&&*name)
                || is_codes
                || ["Source", "Const", "Quantize", "Transposition", "RotaryEmbedding"]
                    .contains(&&*name)
                // tract moves the axes of each image, also of those without elements.
                || node.op_as().is_some_and(|op| !matches!(op, AxisOp::Move(..)))
        };
        let plan = kernels.plan();
        let is_empty = |outlet: &OutletId| {
            let shape = &self.model.outlet_fact(*outlet).expect("it is there").shape;
            shape.iter().skip(1).any(|dim| *dim == 0.to_dim())
        };
        let inputs = self.model.input_outlets().expect("there are inputs");
        if self.batch.to_usize().is_err()
            && plan.model().nodes().iter().all(is_ours)
            && inputs.iter().all(is_empty)
        {
            let inputs = self.inputs(LONG, 0).into_iter().map(Tensor::into_tvalue);
            let _ = panics::ours(|| self.on_kernels(kernels, inputs.collect()));
        }
    }

    /// How an output differs from what it shall be.
    fn difference(&self, expected: &Tensor, found: &Tensor, part: f32) -> Option<String> {
        // tract's declutter may change the shape of what has no elements.
        if expected.len() == 0 && found.len() == 0 {
            return None;
        }
        if expected.shape() != found.shape() && self.is_without_elements() {
            return None;
        }
        if expected.shape() != found.shape() || expected.datum_type() != found.datum_type() {
            return Some(format!("{expected:?} and {found:?}"));
        }
        let (expected, found) = (floats(expected), floats(found));
        let (expected, found) = expected.zip(found).expect("they are numbers in memory");
        let is_finite = |floats: &[f32]| floats.iter().all(|it| it.is_finite());
        let are_finite = is_finite(&expected) && is_finite(&found);
        if self.traits.is_tame && (self.numbers.are_wild || !are_finite) {
            return None;
        }
        let finite = expected.iter().copied().filter(|it| it.is_finite());
        let most = finite.fold(0f32, |most, it| most.max(it.abs()));
        let within = tolerance(most) * part;
        let is_close = |(expected, found): (&f32, &f32)| {
            expected == found
                || expected.is_nan() && found.is_nan()
                || (expected - found).abs() <= within
        };
        let pairs = || expected.iter().zip(&found);
        let apart = pairs().filter(|pair| !is_close(*pair)).count();
        let (place, (expected, found)) = pairs().enumerate().find(|(_, pair)| !is_close(*pair))?;
        Some(format!("{found} at {place}, expected {expected}; {apart} differ"))
    }

    /// The model as a text.
    fn text(&self) -> String {
        let nodes = self.model.nodes().iter().map(|node| {
            let facts: Vec<_> = node.outputs.iter().map(|output| &output.fact).collect();
            format!("{} {:?} of {:?}: {facts:?}\n", node.id, node.op, node.inputs)
        });
        let outputs = self.model.output_outlets().expect("there are outputs");
        format!("{}outputs {outputs:?}, batches {:?}", nodes.collect::<String>(), self.batches)
    }
}

/// The elements of a tensor, as floats.
fn floats(tensor: &Tensor) -> Option<Vec<f32>> {
    let floats = tensor.cast_to::<f32>().ok()?.into_owned();
    floats.try_as_plain_ram().ok()?.as_slice::<f32>().map(<[f32]>::to_vec).ok()
}

/// How much results may differ of which this is the largest.
fn tolerance(most: f32) -> f32 {
    1e-4 + 1e-3 * most
}
