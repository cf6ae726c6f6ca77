//! The tensors that a model is fed, from files or random, in the order of its inputs.

use clap::Args;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use tract_openvino::tract_onnx::prelude::tract_ndarray::ArrayD;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_core::ops::array as stock;
use tract_openvino::tract_onnx::tract_core::ops::cast::Cast;
use tract_openvino::tract_onnx::tract_hir::internal::{DimLike, TractErrorContext, bail};

use crate::model::{InputShape, Names, names_of_inputs, shapes_of};
use crate::report::{error_with_help, printable, unknown_name};
use crate::tensors::TensorFile;

/// Where the inputs come from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Inputs")]
pub struct InputOptions {
    /// Feed an input: FILE.npy, FILE.npz:KEY (KEY is NAME if it is left out) or FILE.pb
    #[arg(short, long = "input", value_name = "NAME=FILE", value_parser = input_file)]
    inputs: Vec<(String, TensorFile)>,
    /// Feed a text to the input of strings, such as that of openvino_tokenizer.xml; may be repeated, for several at once
    #[arg(long = "text", value_name = "TEXT", allow_hyphen_values = true)]
    texts: Vec<String>,
    /// Feed random values to all other inputs; random indices are in range
    #[arg(long)]
    random: bool,
    /// Draw the random values of an input, or of all inputs of numbers without a range of their own, from LOW up to but not
    /// including HIGH; LOW..=HIGH includes it
    #[arg(long = "random-range", value_name = "[NAME=]LOW..HIGH", value_parser = random_range)]
    #[arg(requires = "random", allow_hyphen_values = true)]
    ranges: Vec<RandomRange>,
    /// The seed of the random values
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

fn input_file(text: &str) -> Result<(String, TensorFile), String> {
    let (name, file) = text.split_once('=').ok_or("it must be an input's name, = and a file")?;
    Ok((name.into(), file.parse()?))
}

/// A range for random values.
#[derive(Debug, Clone)]
struct RandomRange {
    /// As it was given.
    text: String,
    /// None for all inputs.
    input: Option<String>,
    low: String,
    high: String,
    includes_high: bool,
}

fn random_range(text: &str) -> Result<RandomRange, String> {
    // A name may have .. and = in it, too.
    let (left, high) = text
        .rsplit_once("..")
        .ok_or("it must be LOW..HIGH or LOW..=HIGH, after a name and = or not")?;
    let (input, low) = match left.rsplit_once('=') {
        Some((input, low)) => (Some(input.into()), low.trim()),
        None => (None, left.trim()),
    };
    let (high, includes_high) = match high.strip_prefix('=') {
        Some(high) => (high.trim(), true),
        None => (high.trim(), false),
    };
    let number = |text: &str| {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| format!("{text:?} is not a number"))
    };
    let (low_number, high_number) = (number(low)?, number(high)?);
    if low_number > high_number || low_number == high_number && !includes_high {
        return Err("there is no number in this range".into());
    }
    let (low, high) = (low.into(), high.into());
    Ok(RandomRange { text: text.into(), input, low, high, includes_high })
}

impl RandomRange {
    /// The whole numbers in it, the last one included, if integers of this type hold them.
    fn integers(&self, dt: DatumType) -> TractResult<RangeInclusive<i128>> {
        let number = |text: &str| match (text.parse::<i128>(), text.parse::<f64>()) {
            (Ok(number), _) => Ok(number),
            // Like 1e6, or more digits than these have.
            (_, Ok(number)) if number.fract() == 0. => Ok(number as i128),
            _ => bail!("{text:?} is not a whole number, but the input is of type {dt:?}"),
        };
        let (low, high) = (number(&self.low)?, number(&self.high)?);
        let range = low..=high.saturating_sub(i128::from(!self.includes_high));
        let bits = 8 * dt.size_of() as u32;
        let held = match dt.is_signed() {
            true => -(1 << (bits - 1))..=(1 << (bits - 1)) - 1,
            false => 0..=(1 << bits) - 1,
        };
        if range.is_empty() || !held.contains(range.start()) || !held.contains(range.end()) {
            bail!("{dt:?} holds whole numbers from {} to {}", held.start(), held.end());
        }
        Ok(range)
    }

    /// Its ends, if floats of this type hold them.
    fn floats(&self, dt: DatumType) -> TractResult<[f64; 2]> {
        let greatest = match dt {
            DatumType::F16 => f16::MAX.to_f64(),
            DatumType::F32 => f32::MAX.into(),
            // No two may differ by more than a float holds.
            _ => f64::MAX / 2.,
        };
        let ends = [self.low.parse::<f64>()?, self.high.parse::<f64>()?];
        if ends.iter().any(|end| end.abs() > greatest) {
            bail!("its ends must be numbers from {:e} to {greatest:e} for {dt:?}", -greatest);
        }
        Ok(ends)
    }
}

/// An input of a model.
struct Input {
    name: String,
    /// All its names.
    names: Vec<String>,
    outlet: OutletId,
    fact: TypedFact,
    /// Its tensor, if one is given.
    given: Option<Tensor>,
}

impl InputOptions {
    /// Whether there are any; otherwise a model folder is fed its data sets.
    pub fn are_given(&self) -> bool {
        self.random || !self.inputs.is_empty() || self.are_texts()
    }

    /// Whether texts are given.
    pub fn are_texts(&self) -> bool {
        !self.texts.is_empty()
    }

    /// The shapes of the inputs that are given.
    pub fn shapes(&self) -> TractResult<Vec<InputShape>> {
        let tensors = self.inputs.iter().map(|(name, file)| file.read(name));
        let tensors = tensors.collect::<TractResult<Vec<Tensor>>>()?;
        Ok(shapes_of(self.inputs.iter().map(|(name, _)| name.clone()), &tensors))
    }

    /// Tensors for all inputs of the model in this file.
    pub fn tensors(
        &self,
        model: &TypedModel,
        names: &Names,
        model_file: &Path,
    ) -> TractResult<Vec<Tensor>> {
        let mut inputs = inputs_of(model, names, model_file)?;
        for (name, file) in &self.inputs {
            let number = position_of(&inputs, name)?;
            let input = &mut inputs[number];
            if input.given.is_some() {
                bail!("input {name:?} is given twice");
            }
            input.given = Some(file.read(name)?);
        }
        if self.are_texts() {
            let mut of_strings = inputs.iter_mut().filter(|input| {
                input.fact.datum_type == DatumType::String && input.given.is_none()
            });
            match (of_strings.next(), of_strings.next()) {
                (Some(input), None) => input.given = Some(tensor1(&self.texts)),
                (first, _) => {
                    bail!(
                        "--text is for a model with one input of strings that has no file, but there {} here",
                        if first.is_none() { "is none" } else { "are several" }
                    )
                }
            }
        }
        let missing: Vec<&Input> = inputs.iter().filter(|input| input.given.is_none()).collect();
        if !missing.is_empty() && !self.random {
            return Err(no_tensor_for(&missing));
        }
        let symbols = check_facts(&inputs)?;
        let ranges = self.ranges_for(&inputs)?;
        let mut random = StdRng::seed_from_u64(self.seed);
        let tensors = inputs.iter().zip(ranges).map(|(input, range)| match &input.given {
            Some(tensor) => Ok(tensor.clone()),
            None => random_tensor(&mut random, model, input, &symbols, range),
        });
        tensors.collect()
    }

    /// The range that is given for each input.
    fn ranges_for(&self, inputs: &[Input]) -> TractResult<Vec<Option<&RandomRange>>> {
        let (mut of_all, mut ranges) = (None, vec![None; inputs.len()]);
        for range in &self.ranges {
            let (whose, place) = match &range.input {
                None => ("all inputs have".into(), &mut of_all),
                Some(name) => {
                    let number = position_of(inputs, name)?;
                    if inputs[number].given.is_some() {
                        bail!("input {name:?} has a file and a random range");
                    }
                    if inputs[number].fact.datum_type == DatumType::Bool {
                        bail!("input {name:?} is of booleans, which have no range");
                    }
                    (format!("input {name:?} has"), &mut ranges[number])
                }
            };
            if place.replace(range).is_some() {
                bail!("{whose} two random ranges");
            }
        }
        Ok(ranges.into_iter().map(|range| range.or(of_all)).collect())
    }
}

/// The position of the input that has this name among its names.
fn position_of(inputs: &[Input], name: &str) -> TractResult<usize> {
    let position = inputs.iter().position(|input| input.names.iter().any(|it| it == name));
    position.ok_or_else(|| {
        let mut names: Vec<&str> =
            inputs.iter().flat_map(|input| &input.names).map(|name| &**name).collect();
        names.dedup();
        unknown_name(format!("the model has no input {name:?}"), name, &names)
    })
}

/// The inputs of the model in this file, without tensors.
fn inputs_of(model: &TypedModel, names: &Names, model_file: &Path) -> TractResult<Vec<Input>> {
    let mut inputs = vec![];
    let names = names_of_inputs(model_file, names)?;
    for (&outlet, names) in model.input_outlets()?.iter().zip(names) {
        let fact = model.outlet_fact(outlet)?.without_value();
        inputs.push(Input { name: printable(&names[0]), names, outlet, fact, given: None });
    }
    Ok(inputs)
}

/// Fails if the tensors of a data set do not fit the inputs of the model in this file.
pub fn expect_fit(
    model: &TypedModel,
    names: &Names,
    model_file: &Path,
    tensors: &[Tensor],
) -> TractResult<()> {
    let mut inputs = inputs_of(model, names, model_file)?;
    for (input, tensor) in inputs.iter_mut().zip(tensors) {
        input.given = Some(tensor.clone());
    }
    check_facts(&inputs).map(drop)
}

fn no_tensor_for(missing: &[&Input]) -> TractError {
    let facts = missing.iter().map(|input| format!("{} ({:?})", input.name, input.fact));
    let plural = if missing.len() == 1 { "input" } else { "inputs" };
    let files = missing.iter().map(|input| format!("-i {}=FILE.npy", input.name));
    error_with_help(
        format!("nothing to feed to {plural} {}", facts.collect::<Vec<_>>().join(", ")),
        [
            format!("give files: {}", files.collect::<Vec<_>>().join(" ")),
            "or let --random make tensors up".into(),
        ],
    )
}

/// Fails if a tensor does not fit its input. Returns the values of the shapes' symbols that follow from the tensors.
fn check_facts(inputs: &[Input]) -> TractResult<SymbolValues> {
    let mut symbols = SymbolValues::default();
    let mut origins = vec![];
    let given = || inputs.iter().filter_map(|input| Some((input, input.given.as_ref()?)));
    for (input, tensor) in given() {
        for (dim, size) in input.fact.shape.iter().zip(tensor.shape()) {
            if let TDim::Sym(symbol) = dim
                && symbols.get(symbol).is_none()
            {
                symbols.set(symbol, *size as i64);
                origins.push((
                    symbol.clone(),
                    format!("{symbol} is {size} by input {:?}", input.name),
                ));
            }
        }
    }
    for (input, tensor) in given() {
        let fact = &input.fact;
        let fits = |(dim, size): (&TDim, &usize)| match dim.eval(&symbols) {
            TDim::Val(known) => usize::try_from(known) == Ok(*size),
            _ => true,
        };
        let same_type = fact.datum_type == tensor.datum_type();
        let same_shape = fact.rank() == tensor.rank();
        if same_type && same_shape && fact.shape.iter().zip(tensor.shape()).all(fits) {
            continue;
        }
        let got = TypedFact::dt_shape(tensor.datum_type(), tensor.shape());
        let used: Vec<Symbol> = fact.shape.iter().flat_map(|dim| dim.symbols()).collect();
        let origins = origins.iter().filter(|(symbol, _)| same_shape && used.contains(symbol));
        let mut help: Vec<String> = origins.map(|(_, origin)| origin.clone()).collect();
        if !same_type {
            help.push("types are not converted; in NumPy there is astype for that".into());
        }
        let message = format!("input {:?}: expected {fact:?}, got {got:?}", input.name);
        return Err(error_with_help(message, help));
    }
    Ok(symbols)
}

fn random_tensor(
    random: &mut StdRng,
    model: &TypedModel,
    input: &Input,
    symbols: &SymbolValues,
    range: Option<&RandomRange>,
) -> TractResult<Tensor> {
    let shape = input.fact.shape.iter().map(|dim| dim.eval(symbols));
    let shape: Vec<TDim> = shape.collect();
    let Ok(sizes) = shape.iter().map(|dim| dim.to_usize()).collect::<Result<Vec<_>, _>>() else {
        let mut unknown: Vec<String> =
            shape.iter().flat_map(|dim| dim.symbols()).map(|it| it.to_string()).collect();
        unknown.sort();
        unknown.dedup();
        let set = unknown.iter().map(|symbol| format!("--set {symbol}=8"));
        return Err(error_with_help(
            format!(
                "input {:?} has shape {:?}: a random tensor needs a value for {}",
                input.name,
                input.fact.shape,
                unknown.join(", ")
            ),
            [format!("give it one: {}", set.collect::<Vec<_>>().join(" "))],
        ));
    };
    let volume = sizes.iter().try_fold(1usize, |volume, size| volume.checked_mul(*size));
    let fits = |volume: &usize| {
        // Or the compiler may leave the attempt out.
        let mut tried = std::hint::black_box(Vec::<f64>::new());
        let fits = tried.try_reserve_exact(*volume).is_ok();
        std::hint::black_box(tried);
        fits
    };
    if volume.filter(fits).is_none() {
        let message = format!("input {:?} of shape {sizes:?} does not fit into memory", input.name);
        return Err(error_with_help(
            message,
            ["give its symbols smaller values with --set".into()],
        ));
    }
    let dt = input.fact.datum_type;
    let in_range =
        |range: &RandomRange| format!("input {:?}: random range {}", input.name, range.text);
    let tensor = if dt.is_integer() {
        let range = match range {
            Some(range) => range.integers(dt).with_context(|| in_range(range))?,
            None => {
                let range = positions(model, input.outlet, symbols).unwrap_or(0..10);
                // No position is a good one where there is none.
                range.start.into()..=(range.end - 1).max(range.start).into()
            }
        };
        let mut draw = || random.random_range(range.clone());
        // Numbers of 64 bits go into one of these two types.
        match dt.is_signed() {
            true => ArrayD::from_shape_simple_fn(&*sizes, || draw() as i64).into_tensor(),
            false => ArrayD::from_shape_simple_fn(&*sizes, || draw() as u64).into_tensor(),
        }
    } else if dt.is_float() {
        let [low, high] = match range {
            Some(range) => range.floats(dt).with_context(|| in_range(range))?,
            None => [-1., 1.],
        };
        let draw = || if low < high { random.random_range(low..high) } else { low };
        ArrayD::from_shape_simple_fn(&*sizes, draw).into_tensor()
    } else if dt == DatumType::Bool {
        ArrayD::from_shape_simple_fn(&*sizes, || random.random_bool(0.5)).into_tensor()
    } else {
        bail!("input {:?}: random tensors of type {dt:?} are not supported", input.name)
    };
    Ok(tensor.cast_to_dt(dt)?.into_owned())
}

/// The values that are valid for all gathers that use an outlet as indices or axis.
fn positions(model: &TypedModel, outlet: OutletId, symbols: &SymbolValues) -> Option<Range<i64>> {
    let mut positions: Option<Range<i64>> = None;
    for successor in model.outlet_successors(outlet) {
        let node = model.node(successor.node);
        let op = &node.op;
        let Some(data) = node.inputs.first().and_then(|data| model.outlet_fact(*data).ok()) else {
            continue;
        };
        let rank = data.rank();
        let tuple = model.outlet_fact(outlet).ok()?.shape.last().and_then(|n| n.to_usize().ok());
        let axes = |first: usize| first..(first + tuple.unwrap_or(rank)).min(rank);
        let picked = match successor.slot {
            0 if op.is::<Cast>() => {
                let range = self::positions(model, OutletId::new(node.id, 0), symbols);
                positions = intersection(positions, range);
                continue;
            }
            1 => {
                if let Some(gather) = op.downcast_ref::<tract_openvino::Gather>() {
                    gather.axis()..gather.axis() + 1
                } else if let Some(gather) = op.downcast_ref::<tract_openvino::DynGather>() {
                    gather.batch_dims()..rank
                } else if let Some(gather) = op.downcast_ref::<tract_openvino::GatherElements>() {
                    gather.axis()..gather.axis() + 1
                } else if let Some(gather) = op.downcast_ref::<tract_openvino::GatherNd>() {
                    axes(gather.batch_dims())
                } else if op.name() == "ONNX ScatterND" {
                    axes(0)
                } else if op.name() == "ONNX ScatterElements" {
                    // Along whichever axis.
                    0..rank
                } else if let Some(gather) = op.downcast_ref::<stock::Gather>() {
                    gather.axis..gather.axis + 1
                } else if let Some(gather) = op.downcast_ref::<stock::GatherElements>() {
                    gather.axis..gather.axis + 1
                } else if let Some(gather) = op.downcast_ref::<stock::GatherNd>() {
                    axes(gather.batch_dims)
                } else {
                    continue;
                }
            }
            2 => {
                if let Some(gather) = op.downcast_ref::<tract_openvino::DynGather>() {
                    let range = gather.batch_dims() as i64..rank as i64;
                    positions = intersection(positions, Some(range));
                }
                continue;
            }
            _ => continue,
        };
        let sizes = data.shape[picked].iter().map(|dim| dim.eval(symbols).to_i64());
        let smallest = sizes.collect::<Result<Vec<i64>, _>>().ok()?.into_iter().min()?;
        positions = intersection(positions, Some(0..smallest));
    }
    positions
}

fn intersection(a: Option<Range<i64>>, b: Option<Range<i64>>) -> Option<Range<i64>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.start.max(b.start)..a.end.min(b.end)),
        (a, b) => a.or(b),
    }
}
