//! GatherTree: it compares tokens, so that its elements are numbers.

use arbitrary::{Result, Unstructured};
use gather_cases::elements::{self, INDEX_TYPES};
use gather_cases::oracle::{self, BadIndex, Integers, Output};
use tract_openvino::GatherTree;
use tract_openvino::tract_onnx::prelude::*;

use super::{MOST_ELEMENTS, dim, entries, shape, volume};

/// An input. Of a type that is no number it has no entries, only a shape.
#[derive(Debug)]
struct Input {
    data_type: DatumType,
    integers: Integers,
}

/// A node's inputs, in their order, sound or not.
#[derive(Debug)]
pub struct Case {
    inputs: [Input; 4],
    /// What is added to `parent_idx` and `max_seq_len`, where they are floats.
    fraction: f64,
    threads: bool,
}

fn is_number(dt: DatumType) -> bool {
    dt.is_float() || INDEX_TYPES.contains(&dt.unquantized())
}

fn is_token(dt: DatumType) -> bool {
    is_number(dt) && !dt.is_tdim()
}

fn is_index(dt: DatumType) -> bool {
    is_number(dt) && !dt.is_quantized()
}

/// Mostly a type that fits.
fn data_type(u: &mut Unstructured, fits: fn(DatumType) -> bool) -> Result<DatumType> {
    let all = u.ratio(1, 24)?;
    let types = elements::data_types().into_iter().filter(|dt| all || fits(*dt));
    Ok(*u.choose(&types.collect::<Vec<_>>())?)
}

/// Mostly of the shape that fits.
fn input(u: &mut Unstructured, data_type: DatumType, fitting: &[usize]) -> Result<Input> {
    let shape = if u.ratio(1, 24)? { shape(u, 4)? } else { fitting.to_vec() };
    let entries = match data_type {
        dt if !is_number(dt) => vec![],
        // The largest floats that are exact in 16 bits, with a fraction.
        dt if dt.is_float() => entries(u, shape.iter().product(), (-1023, 1023))?,
        dt => entries(u, shape.iter().product(), elements::range(dt))?,
    };
    Ok(Input { data_type, integers: Integers { shape, entries } })
}

pub fn case(u: &mut Unstructured) -> Result<Case> {
    let fitting = [dim(u)?, dim(u)?, dim(u)?];
    if volume(&fitting) > MOST_ELEMENTS {
        return Err(arbitrary::Error::IncorrectFormat);
    }
    let tokens = data_type(u, is_token)?;
    let end = if u.ratio(1, 24)? { data_type(u, is_token)? } else { tokens };
    let [parents, lengths] = [data_type(u, is_index)?, data_type(u, is_index)?];
    let fraction = *u.choose(&[0., 0.5, -0.5])?;
    let [threads, scalar] = u.arbitrary()?;
    let end = input(u, end, if scalar { &[] } else { &[1] })?;
    let lengths = input(u, lengths, &fitting[1..2])?;
    let parents = input(u, parents, &fitting)?;
    let steps = input(u, tokens, &fitting)?;
    Ok(Case { inputs: [steps, parents, lengths, end], fraction, threads })
}

impl Input {
    /// Floats are larger than the entries by a fraction.
    fn tensor(&self, fraction: f64) -> Tensor {
        let Integers { shape, entries } = &self.integers;
        if !is_number(self.data_type) {
            return elements::own_offsets(self.data_type, shape);
        }
        if !self.data_type.is_float() {
            return elements::integers(self.data_type, &self.integers);
        }
        let entries: Vec<f64> = entries.iter().map(|entry| *entry as f64 + fraction).collect();
        let tensor = tensor1(&entries).into_shape(shape).unwrap();
        tensor.cast_to_dt(self.data_type).unwrap().into_owned()
    }

    /// The integers that the elements of the tensor are without their fractions.
    fn cut_off(&self, fraction: f64) -> Vec<i128> {
        let fraction = if self.data_type.is_float() { fraction } else { 0. };
        let cut_off = |entry: &i128| match fraction {
            0. => *entry,
            _ => (*entry as f64 + fraction).trunc() as i128,
        };
        self.integers.entries.iter().map(cut_off).collect()
    }
}

impl Case {
    /// In the order of the operator.
    fn tensors(&self) -> [Tensor; 4] {
        let [steps, parents, lengths, end] = &self.inputs;
        let fraction = self.fraction;
        [steps.tensor(0.), parents.tensor(fraction), lengths.tensor(fraction), end.tensor(0.)]
    }

    /// What the contract says: `None` where the types or shapes are an error.
    fn expected(&self) -> Option<std::result::Result<Output, BadIndex>> {
        let [steps, parents, lengths, end] = &self.inputs;
        let types = is_token(steps.data_type)
            && end.data_type == steps.data_type
            && is_index(parents.data_type)
            && is_index(lengths.data_type);
        let shape: [usize; 3] = steps.integers.shape[..].try_into().ok()?;
        let shapes = parents.integers.shape == shape
            && lengths.integers.shape == shape[1..2]
            && (end.integers.shape.is_empty() || end.integers.shape == [1]);
        if !types || !shapes {
            return None;
        }
        let [parents, lengths] = [parents, lengths].map(|input| input.cut_off(self.fraction));
        let [end] = end.integers.entries[..].try_into().expect("one element");
        Some(oracle::gather_tree(shape, &steps.integers.entries, &parents, &lengths, end))
    }

    /// The tensor of an output of the oracle.
    fn output(&self, output: Output) -> Tensor {
        let [steps, .., end] = &self.inputs;
        let token = |offset: Option<usize>| match offset {
            Some(offset) => steps.integers.entries[offset],
            None => end.integers.entries[0],
        };
        let entries = output.offsets.into_iter().map(token).collect();
        let integers = Integers { shape: output.shape, entries };
        Input { data_type: steps.data_type, integers }.tensor(0.)
    }
}

/// The error says it in words: `GatherTree-1: parent_idx[1, 0, 1] is 2, but ...`.
fn bad_index(error: &TractError) -> Option<BadIndex> {
    let text = error.to_string();
    let (position, rest) = text.strip_prefix("GatherTree-1: parent_idx[")?.split_once("] is ")?;
    let (value, _) = rest.split_once(", but")?;
    let position = position.split(", ").map(|number| number.parse().unwrap()).collect();
    Some(BadIndex { position, value: value.parse().unwrap() })
}

/// Says whether there was an output.
pub fn run(case: Case) -> bool {
    let inputs = case.tensors();
    let output = super::eval(&GatherTree, &inputs, case.threads);
    let expected = case.expected();
    // Which parents are walked to, nobody knows beforehand.
    let facts = inputs.each_ref().map(|it| TypedFact::dt_shape(it.datum_type(), it.shape()));
    let fact = super::output_fact(&GatherTree, &facts);
    assert_eq!(fact.is_ok(), expected.is_some(), "{case:?}\n{fact:?}");
    if let (Ok(fact), Ok(output)) = (fact, &output) {
        super::assert_known(&fact, &SymbolValues::default(), output, &case);
    }
    super::check_symbolic_facts(&GatherTree, &inputs.each_ref().map(|it| (it, 0)), &output, &case);
    let expected = expected.map(|expected| expected.map(|output| case.output(output)));
    super::compare(expected, output, bad_index, &case)
}
