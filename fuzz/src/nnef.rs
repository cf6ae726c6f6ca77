//! An archive that tract wrote of a committed model, with changes of any kind, from the archive to the output.

use std::io::Read;
use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use model_cases::{Stage, StagedModel, Tolerance};
use tract_core::ops::einsum::EinSum;
use tract_openvino::tract_nnef::internal::{Nnef, ensure};
use tract_openvino::tract_onnx::pb::ModelProto;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::{OpenVinoOptions, WithOpenVino, WithOpenVinoOptions, tract_nnef, tract_onnx};

use crate::stages::{self, Expected};
use crate::{model, number, panics, rarely};

pub type Entries = Vec<(String, Vec<u8>)>;

fn framework() -> &'static Nnef {
    static FRAMEWORK: OnceLock<Nnef> = OnceLock::new();
    FRAMEWORK.get_or_init(|| tract_nnef::nnef().with_openvino())
}

/// The archives of the committed models that tract can write. Not that with a matrix product: at some changes
/// of it tract's optimiser does not come to an end. One that a change makes of another operator is left out, too.
pub fn archives() -> &'static [Entries] {
    static ARCHIVES: OnceLock<Vec<Entries>> = OnceLock::new();
    ARCHIVES.get_or_init(|| {
        let write = |model: &ModelProto| -> TractResult<Entries> {
            let model = tract_onnx::onnx()
                .with_openvino_options(OpenVinoOptions::default().with_standard_gather(true))
                .model_for_proto_model(model)?
                .into_typed()?;
            let mut archive = vec![];
            framework().write(&model, &mut archive)?;
            let mut entries = vec![];
            for entry in tar::Archive::new(&*archive).entries()? {
                let mut entry = entry?;
                let path = entry.path()?.to_string_lossy().into_owned();
                let mut bytes = vec![];
                entry.read_to_end(&mut bytes)?;
                let product =
                    path == "graph.nnef" && String::from_utf8_lossy(&bytes).contains("einsum");
                ensure!(!product, "a matrix product");
                entries.push((path, bytes));
            }
            Ok(entries)
        };
        let archives: Vec<Entries> =
            model::models().iter().filter_map(|model| write(model).ok()).collect();
        assert!(archives.len() > 30, "only {} models can be written", archives.len());
        archives
    })
}

/// Names and numbers are tokens, and so is every other character.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = vec![];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let length = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}

fn change_text(u: &mut Unstructured, text: &str) -> Result<String> {
    const OTHERS: [&str; 24] = [
        "0",
        "1",
        "-1",
        "2",
        "9",
        "4294967296",
        "9223372036854775807",
        "-9223372036854775808",
        "99999999999999999999",
        "1.5",
        "true",
        "\"\"",
        "\"1\"",
        "[]",
        "[0, 1]",
        "[[0]]",
        "N",
        "()",
        "data",
        "indices",
        "tract_openvino_gather",
        "tract_openvino_dyn_gather",
        "tract_openvino_gather_nd",
        "\"Gather-7\"",
    ];
    let mut tokens = tokens(text);
    for _ in 0..u.int_in_range(1..=5u8)? {
        // Not of the blanks between them.
        let words: Vec<usize> = (0..tokens.len()).filter(|k| tokens[*k].trim() != "").collect();
        if words.is_empty() {
            break;
        }
        let at = *u.choose(&words)?;
        match u.int_in_range(0..=7u8)? {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at]),
            2..=3 => tokens[at] = tokens[*u.choose(&words)?],
            _ => tokens[at] = u.choose(&OTHERS)?,
        }
    }
    Ok(tokens.concat())
}

fn case(u: &mut Unstructured) -> Result<bool> {
    let archives = archives();
    let mut entries = archives[number(u, archives.len())?].clone();
    for _ in 0..u.int_in_range(0..=3u8)? {
        if entries.is_empty() {
            break;
        }
        // Mostly the text.
        let text = entries.iter().position(|(path, _)| path == "graph.nnef");
        let at = match text {
            Some(text) if u.ratio(3, 4)? => text,
            _ => u.choose_index(entries.len())?,
        };
        if u.ratio(1, 16)? {
            entries.remove(at);
            continue;
        }
        let (path, bytes) = &mut entries[at];
        if path.ends_with(".nnef") && u.ratio(15, 16)? {
            *bytes = change_text(u, &String::from_utf8_lossy(bytes))?.into_bytes();
        } else if !bytes.is_empty() {
            // The header of a tensor file is in front.
            let end = if u.arbitrary()? { bytes.len() } else { bytes.len().min(48) };
            bytes[u.choose_index(end)?] = u.arbitrary()?;
        }
    }
    let mut archive = tar::Builder::new(vec![]);
    for (path, bytes) in &entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, path, &**bytes).unwrap();
    }
    let mut archive = archive.into_inner().unwrap();
    if rarely(u, 16)? {
        let at = u.choose_index(archive.len())?;
        archive[at] = u.arbitrary()?;
    }
    let load = || framework().model_for_read(&mut &*archive);
    let Some(Ok(loaded)) = panics::catch(load) else { return Ok(false) };
    if loaded.nodes().iter().any(|node| node.op_is::<EinSum>()) {
        // tract does not check the sizes of a product's axes, and reads beyond.
        return Ok(false);
    }
    let facts = loaded.input_outlets().map(|outlets| {
        let facts = outlets.iter().map(|outlet| loaded.outlet_fact(*outlet).unwrap());
        facts.map(|fact| (Some(fact.datum_type), fact.shape.to_tvec().to_vec())).collect::<Vec<_>>()
    });
    let Ok(facts) = facts else { return Ok(false) };
    let Some(Some(tensors)) = panics::catch(|| stages::feed(u, &facts)).transpose()? else {
        return Ok(false);
    };
    let at = |stage| StagedModel::from_typed(loaded.clone(), stage);
    let expected = Expected { tolerance: Some(Tolerance::ROUNDING), facts: false };
    Ok(stages::compare_stages(&tensors, expected, &Stage::OF_TYPED, at))
}

pub fn run(bytes: &[u8]) -> Option<bool> {
    case(&mut Unstructured::new(bytes)).ok()
}
