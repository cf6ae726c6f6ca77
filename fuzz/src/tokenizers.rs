//! A committed tokenizer or detokenizer with changes of any kind, on any text or ids.

use std::path::Path;
use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use model_cases::{Stage, StagedModel, Tolerance};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino_ir::ir;
use tract_openvino_tokenizers::register;

use crate::ir::{Files, Seed, is_small, limits};
use crate::stages::{self, Expected};
use crate::{number, panics};

/// Tokenizers have ids, and the greatest number of 32 bits for texts that are not cut off.
const LARGE_SIZE: i64 = 1 << 31;

/// The committed tokenizers, by path.
pub fn seeds() -> &'static [Seed] {
    static SEEDS: OnceLock<Vec<Seed>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tokenizers/tests/cases");
        let list = |folder: &Path| {
            let mut paths: Vec<_> =
                std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
            paths.sort();
            paths
        };
        let files = list(&root).into_iter().flat_map(|folder| list(&folder));
        let models = files.filter(|file| file.extension().is_some_and(|it| it == "xml"));
        models.map(|file| Seed::read(&file).expect("it is small")).collect()
    })
}

/// Texts, some of which are pieces of what tokenizers look for.
fn texts(u: &mut Unstructured) -> Result<Tensor> {
    let pieces = [
        "the river",
        " ",
        "\u{2581}",
        "<s>",
        "</s>",
        "[MASK]",
        "'s",
        "\n\n",
        "e\u{301}",
        "\u{1f600}",
        "\0",
        "12",
    ];
    let mut texts = vec![];
    for _ in 0..u.int_in_range(1..=3u8)? {
        let mut text = String::new();
        for _ in 0..u.int_in_range(0..=6u8)? {
            match u.arbitrary()? {
                true => text += *u.choose(&pieces)?,
                false => text.push(u.arbitrary()?),
            }
        }
        texts.push(text);
    }
    Ok(tensor1(&texts))
}

fn case(u: &mut Unstructured) -> Result<bool> {
    let seeds = seeds();
    let seed = &seeds[number(u, seeds.len())?];
    let (_, Files { xml, weights }) = seed.changed(u, seeds)?;
    let mut reader = ir().with_limits(limits());
    register(reader.registry_mut());
    panics::all_are_ours();
    let load = || reader.model_for_bytes(&xml, weights);
    let Some(Ok(loaded)) = panics::catch(load) else { return Ok(false) };
    let mut tensors = vec![];
    for outlet in loaded.input_outlets().unwrap_or_default() {
        let fact = loaded.outlet_fact(*outlet).unwrap();
        if fact.datum_type == DatumType::String && fact.rank() == 1 {
            tensors.push(texts(u)?);
            continue;
        }
        let fact = (Some(fact.datum_type), fact.shape.to_tvec().to_vec());
        let Some(tensor) = stages::feed(u, &[fact])? else { return Ok(false) };
        tensors.extend(tensor);
    }
    if !is_small(&loaded, &tensors, LARGE_SIZE) {
        return Ok(false);
    }
    let at = |stage| StagedModel::from_typed(loaded.clone(), stage);
    let expected = Expected { tolerance: Some(Tolerance::EXACT), facts: true };
    Ok(stages::compare_stages(&tensors, expected, &Stage::OF_TYPED, at))
}

pub fn run(bytes: &[u8]) -> Option<bool> {
    case(&mut Unstructured::new(bytes)).ok()
}
