//! A committed model of OpenVINO IR with changes of any kind, from its two files to the outputs.

mod change;
mod weights;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use model_cases::{Stage, StagedModel, Tolerance, find};
use tract_openvino::NegativeIndices;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino_ir::{Ir, Limits, ir};
use xmltree::{Element, EmitterConfig, ParserConfig};

use crate::stages::{self, Expected};
use crate::{number, panics, rarely};

/// Larger files are not changed: few would be taken in a second.
const MOST_BYTES: u64 = 1 << 15;

/// A tensor of a model has so many elements at most, or the model is not run.
const MOST_ELEMENTS: usize = 1 << 18;

/// What the constants of a model may take, in bytes, and how often its loops may go round. Files may ask for as
/// much by default that a run takes seconds.
const MOST_CONSTANTS: u64 = 1 << 24;
const MOST_ITERATIONS: usize = 1 << 8;

/// The greatest float in a model whose outputs are compared.
const MOST_TAME: f64 = 1000.;

/// Operations whose results are not the same in every run.
const RANDOM: [&str; 2] = ["RandomUniform", "Multinomial"];

/// The two files of a model.
pub struct Seed {
    net: Element,
    weights: Vec<u8>,
}

/// The committed models, by name.
pub fn seeds() -> &'static [Seed] {
    static SEEDS: OnceLock<Vec<Seed>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../ir/models");
        let models = find(root).unwrap().into_iter();
        models.filter_map(|folder| Seed::read(&folder.join("model.xml"))).collect()
    })
}

impl Seed {
    /// A model, unless it is large.
    pub fn read(xml: &Path) -> Option<Seed> {
        let weights = xml.with_extension("bin");
        let size = |path| std::fs::metadata(path).map_or(0, |file| file.len());
        if size(xml) > MOST_BYTES || size(&weights) > MOST_BYTES {
            return None;
        }
        let text = std::fs::read(xml).unwrap();
        // As they stand: the text of an element may be one blank.
        let config = ParserConfig::new().trim_whitespace(true);
        let net = Element::parse_with_config(&*text, config).unwrap();
        Some(Seed { net, weights: std::fs::read(weights).unwrap_or_default() })
    }

    /// The two files, with changes. With `MODEL_FOLDER`, they are written there, so that one sees what the bytes stand for.
    pub fn changed(&self, u: &mut Unstructured, seeds: &[Seed]) -> Result<(Element, Files)> {
        let (mut net, mut weights) = (self.net.clone(), self.weights.clone());
        for _ in 0..u.int_in_range(0..=4u8)? {
            match u.int_in_range(0..=9u8)? {
                0 => change_bytes(u, &mut weights)?,
                1..=3 => weights::change(u, &net, &mut weights)?,
                _ => change::change(u, &mut net, seeds)?,
            }
        }
        let mut xml = text(&net);
        if rarely(u, 16)? {
            change_bytes(u, &mut xml)?;
        }
        if let Some(folder) = std::env::var_os("MODEL_FOLDER").map(PathBuf::from) {
            std::fs::write(folder.join("model.xml"), &xml).expect("the folder can be written to");
            let weights = std::fs::write(folder.join("model.bin"), &weights);
            weights.expect("the folder can be written to");
        }
        Ok((net, Files { xml, weights }))
    }
}

/// The bytes of a model's files.
pub struct Files {
    pub xml: Vec<u8>,
    pub weights: Vec<u8>,
}

/// Limits within which a model that can be read takes no seconds.
pub fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.constant_bytes = Some(MOST_CONSTANTS);
    limits.iterations = MOST_ITERATIONS;
    limits
}

fn text(net: &Element) -> Vec<u8> {
    let mut text = vec![];
    net.write_with_config(&mut text, EmitterConfig::new()).expect("what was read can be written");
    text
}

fn change_bytes(u: &mut Unstructured, bytes: &mut Vec<u8>) -> Result<()> {
    for _ in 0..u.int_in_range(1..=4u8)? {
        if bytes.is_empty() {
            break;
        }
        let at = u.choose_index(bytes.len())?;
        match u.int_in_range(0..=7u8)? {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, u.arbitrary()?),
            _ => bytes[at] = u.arbitrary()?,
        }
    }
    Ok(())
}

fn reader(u: &mut Unstructured) -> Result<Ir> {
    let [as_specified, shape] = u.arbitrary()?;
    let mut reader = ir().with_limits(limits());
    if as_specified {
        reader = reader.with_negative_indices(NegativeIndices::AsSpecified);
    }
    if shape {
        let shapes = ["?", "2", "N,3", "1,2,3", "?,?", "0", "2,2,2,2", "1,N,3*N,M"];
        reader = reader.with_input_shape(*u.choose(&["x", "data", "input"])?, *u.choose(&shapes)?);
    }
    Ok(reader)
}

/// Whether the floats of a model and its inputs are such that its outputs do not depend on how it is rounded on
/// the way.
fn is_tame(model: &TypedModel, inputs: &[Tensor]) -> bool {
    let facts = model.nodes().iter().flat_map(|node| &node.outputs).map(|output| &output.fact);
    let constants = facts.filter_map(|fact| fact.konst.as_deref());
    // Packed weights are of half precision.
    let is_plain = |tensor: &&Tensor| tensor.try_as_plain_ram().is_ok();
    let mut tensors = constants.chain(inputs).filter(is_plain);
    tensors.all(|tensor| stages::all_floats(tensor, |it| it.abs() <= MOST_TAME))
}

/// An integer from here on may be too large a size.
const LARGE_SIZE: i64 = 65;

/// Whether a model may be run with these inputs, and its work is bounded, where integers from `large` on may be sizes that are not.
pub fn is_small(model: &TypedModel, inputs: &[Tensor], large: i64) -> bool {
    let Ok(outlets) = model.input_outlets() else { return false };
    let mut symbols = SymbolValues::default();
    for (outlet, tensor) in outlets.iter().zip(inputs) {
        let Ok(fact) = model.outlet_fact(*outlet) else { return false };
        for (dim, size) in fact.shape.iter().zip(tensor.shape()) {
            if let TDim::Sym(symbol) = dim {
                symbols.set(symbol, *size as i64);
            }
        }
    }
    let facts = model.nodes().iter().flat_map(|node| &node.outputs).map(|output| &output.fact);
    let mut is_known = true;
    let mut is_small = |fact: &TypedFact| {
        let volume = fact.shape.iter().try_fold(1usize, |volume, dim| match dim.eval(&symbols) {
            TDim::Val(size) => volume.checked_mul(usize::try_from(size).unwrap_or(0)),
            _ => {
                is_known = false;
                Some(volume)
            }
        });
        volume.is_some_and(|volume| volume <= MOST_ELEMENTS)
    };
    facts.clone().all(&mut is_small)
        && (is_known
            || !facts
                .filter_map(|fact| fact.konst.as_deref())
                .chain(inputs)
                .any(|it| has_sizes(it, large)))
}

/// Whether a tensor has an integer from this one on that would be a size, if it became one when the model runs. Those that are larger
/// still are errors.
fn has_sizes(tensor: &Tensor, least: i64) -> bool {
    let dt = tensor.datum_type();
    (dt.is_integer() || dt.is_tdim())
        && tensor.cast_to::<i64>().is_ok_and(|sizes| {
            let sizes = sizes.to_plain_array_view::<i64>();
            sizes.is_ok_and(|sizes| sizes.iter().any(|size| (least..1 << 33).contains(size)))
        })
}

fn case(u: &mut Unstructured) -> Result<bool> {
    let seeds = seeds();
    let seed = &seeds[number(u, seeds.len())?];
    let (net, Files { xml, weights }) = seed.changed(u, seeds)?;
    let reader = reader(u)?;
    panics::all_are_ours();
    let load = || reader.model_for_bytes(&xml, weights);
    let Some(Ok(loaded)) = panics::catch(load) else { return Ok(false) };
    let facts = loaded.input_outlets().map(|outlets| {
        let facts = outlets.iter().map(|outlet| loaded.outlet_fact(*outlet).unwrap());
        facts.map(|fact| (Some(fact.datum_type), fact.shape.to_tvec().to_vec())).collect::<Vec<_>>()
    });
    let Ok(facts) = facts else { return Ok(false) };
    let Some(tensors) = stages::feed(u, &facts)? else { return Ok(false) };
    if !is_small(&loaded, &tensors, LARGE_SIZE) {
        return Ok(false);
    }
    let at = |stage| StagedModel::from_typed(loaded.clone(), stage);
    let is_random = change::elements(&net, &change::is_layer)
        .iter()
        .any(|layer| layer.attributes.get("type").is_some_and(|it| RANDOM.contains(&&**it)));
    let is_comparable = !is_random && is_tame(&loaded, &tensors);
    let tolerance = is_comparable.then_some(Tolerance::ROUNDING);
    let expected = Expected { tolerance, facts: true };
    Ok(stages::compare_stages(&tensors, expected, &Stage::OF_TYPED, at))
}

pub fn run(bytes: &[u8]) -> Option<bool> {
    case(&mut Unstructured::new(bytes)).ok()
}
