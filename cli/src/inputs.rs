//! The tensors that a model is fed, from files or random, in the order of its inputs.

use clap::Args;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::ops::Range;
use std::path::Path;
use tract_openvino::tract_onnx::prelude::tract_ndarray::ArrayD;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_core::ops::array as stock;
use tract_openvino::tract_onnx::tract_core::ops::cast::Cast;
use tract_openvino::tract_onnx::tract_hir::internal::{DimLike, bail, format_err};

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
    /// Feed random values to all other inputs; random indices are in range
    #[arg(long)]
    random: bool,
    /// The seed of the random values
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

fn input_file(text: &str) -> Result<(String, TensorFile), String> {
    let (name, file) = text.split_once('=').ok_or("it must be an input's name, = and a file")?;
    Ok((name.into(), file.parse()?))
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
        self.random || !self.inputs.is_empty()
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
            let Some(input) = inputs.iter_mut().find(|input| input.names.contains(name)) else {
                let mut names: Vec<&str> =
                    inputs.iter().flat_map(|input| &input.names).map(|name| &**name).collect();
                names.dedup();
                return Err(unknown_name(format!("the model has no input {name:?}"), name, &names));
            };
            if input.given.is_some() {
                bail!("input {name:?} is given twice");
            }
            input.given = Some(file.read(name)?);
        }
        let missing: Vec<&Input> = inputs.iter().filter(|input| input.given.is_none()).collect();
        if !missing.is_empty() && !self.random {
            return Err(no_tensor_for(&missing));
        }
        let symbols = check_facts(&inputs)?;
        let mut random = StdRng::seed_from_u64(self.seed);
        let tensors = inputs.iter().map(|input| match &input.given {
            Some(tensor) => Ok(tensor.clone()),
            None => random_tensor(&mut random, model, input, &symbols),
        });
        tensors.collect()
    }
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
    let indices = positions(model, input.outlet, symbols);
    let mut tensor = |draw: &mut dyn FnMut(&mut StdRng) -> f64| {
        let values = ArrayD::from_shape_simple_fn(&*sizes, || draw(random));
        values.into_tensor().cast_to_dt(dt).map(|tensor| tensor.into_owned())
    };
    if dt.is_integer() {
        let range = indices.unwrap_or(0..10);
        // No position is a good one where there is none.
        let range = range.start..range.end.max(range.start + 1);
        tensor(&mut |random| random.random_range(range.clone()) as f64)
    } else if dt.is_float() {
        tensor(&mut |random| random.random_range(-1f64..1.))
    } else if dt == DatumType::Bool {
        tensor(&mut |random| f64::from(u8::from(random.random_bool(0.5))))
    } else {
        Err(format_err!("input {:?}: random tensors of type {dt:?} are not supported", input.name))
    }
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
