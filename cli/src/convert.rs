//! `convert`: saves a model as an NNEF archive.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_core::ops::cast::cast;
use tract_openvino::tract_onnx::tract_core::ops::identity::Identity;
use tract_openvino::tract_onnx::tract_hir::internal::{InletId, TractErrorContext};

use crate::model::{Names, ReadingOptions, is_nnef, nnef};
use crate::panics::during;
use crate::report::{NAME, error_with_help, list, note, output};

/// Arguments of `convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// A .onnx file, a .xml file of OpenVINO IR, a model folder, or an NNEF archive
    model: PathBuf,
    /// The archive: .nnef.tgz (or .tgz) or .nnef.tar
    output: PathBuf,
    #[command(flatten)]
    reading: ReadingOptions,
}

impl Convert {
    pub fn run(&self) -> TractResult<bool> {
        let path = self.output.display();
        if !is_nnef(&self.output) {
            let help = "its name must end in .nnef.tgz, .tgz or .nnef.tar".to_string();
            return Err(error_with_help(
                format!("{path} is not the name of an NNEF archive"),
                [help],
            ));
        }
        let model = self.reading.read(&self.model)?;
        let names = model.names()?;
        names.refuse_equal()?;
        let typed = model.into_typed()?;
        let mut model = during("decluttering the model", || typed.into_decluttered())?;
        names.give_to(&mut model)?;
        let mut archive = vec![];
        during("writing the model as NNEF", || nnef().write(&model, &mut archive))
            .map_err(|error| explain(error, &model))?;
        names.check(&archive)?;
        if self.output.extension().is_some_and(|extension| extension == "tgz") {
            let mut encoder = GzEncoder::new(vec![], Compression::default());
            encoder.write_all(&archive)?;
            archive = encoder.finish()?;
        }
        fs::write(&self.output, &archive).with_context(|| format!("writing {path}"))?;
        let size = archive.len();
        writeln!(output(), "saved {NAME}{path}{NAME:#}, {size} bytes")?;
        Ok(true)
    }
}

impl Names {
    /// Fails if two outputs have one name, which an archive cannot have.
    fn refuse_equal(&self) -> TractResult<()> {
        for (number, name) in self.outputs.iter().enumerate() {
            if self.outputs[..number].contains(name) {
                let message = format!("two outputs have the name {name:?}, which NNEF cannot have");
                return Err(error_with_help(message, ["rename one of them in the model".into()]));
            }
        }
        Ok(())
    }

    /// Gives the inputs and outputs of the decluttered model the names that they had before.
    ///
    /// In tract an outlet has one name, but declutter may make it an input and an output, or two outputs. Then this
    /// adds a cast to the type that it already has.
    fn give_to(&self, model: &mut TypedModel) -> TractResult<()> {
        let inputs = model.input_outlets()?.to_vec();
        let mut named: HashMap<OutletId, &String> = inputs.into_iter().zip(&self.inputs).collect();
        let mut outputs = model.output_outlets()?.to_vec();
        for (outlet, name) in outputs.iter_mut().zip(&self.outputs) {
            // The writer leaves these out.
            while model.node(outlet.node).op_is::<Identity>() {
                *outlet = model.node(outlet.node).inputs[0];
            }
            if named.get(outlet).is_some_and(|other| *other != name) {
                let fact = model.outlet_fact(*outlet)?.without_value();
                let node = model.unique_name(format!("{name}.cast")).into_owned();
                let node = model.add_node(node, cast(fact.datum_type), tvec!(fact))?;
                model.add_edge(*outlet, InletId::new(node, 0))?;
                *outlet = node.into();
            }
            named.insert(*outlet, name);
        }
        model.select_output_outlets(&outputs)?;
        for (outlet, name) in &named {
            model.set_outlet_label(*outlet, name.to_string())?;
        }
        // The writer names inputs after their nodes, and further outputs of a node after the first one.
        let mut owners: HashMap<String, Option<OutletId>> =
            model.symbols.all_symbols().iter().map(|it| (it.to_string(), None)).collect();
        owners.extend(named.iter().map(|(outlet, name)| (name.to_string(), Some(*outlet))));
        for id in 0..model.nodes().len() {
            let node = model.node(id);
            if let Some(name) = named.get(&id.into()).filter(|_| node.inputs.is_empty()) {
                model.node_mut(id).name = name.to_string();
                continue;
            }
            let outlets = (0..node.outputs.len()).map(|slot| OutletId::new(id, slot));
            let names = |stem: &str| {
                let name = |outlet: OutletId| match outlet.slot {
                    0 => (stem.to_string(), outlet),
                    slot => (format!("{stem}_{slot}"), outlet),
                };
                outlets.clone().map(name).collect::<Vec<_>>()
            };
            let is_free = |(name, outlet): &(String, OutletId)| {
                owners.get(name).is_none_or(|owner| *owner == Some(*outlet))
            };
            let stems = (1..).map(|number| format!("{}.{number}", node.name));
            let stem = std::iter::once(node.name.clone())
                .chain(stems)
                .find(|stem| names(stem).iter().all(is_free))
                .expect("numbers do not end");
            owners.extend(names(&stem).into_iter().map(|(name, outlet)| (name, Some(outlet))));
            model.node_mut(id).name = stem;
        }
        Ok(())
    }

    /// Fails if tract cannot read an archive, and prints a note if it reads other names.
    fn check(&self, archive: &[u8]) -> TractResult<()> {
        let read = || nnef().model_for_read(&mut &*archive);
        let got = Names::of(&during("reading the archive that was written", read)?)?;
        for (kind, names, got) in
            [("input", &self.inputs, &got.inputs), ("output", &self.outputs, &got.outputs)]
        {
            for (number, name) in names.iter().enumerate() {
                match got.get(number) {
                    Some(got) if got == name => (),
                    Some(got) => note(&format!("{kind} {name:?} is named {got:?} in the archive")),
                    None => note(&format!("{kind} {name:?} is not in the archive")),
                }
            }
        }
        Ok(())
    }
}

/// Adds to the error which part of the model tract's writer has no text for, if that is the cause.
fn explain(error: TractError, model: &TypedModel) -> TractError {
    // Like `No serializer found for node #4 "name" Operator`.
    let cause = error.root_cause().to_string();
    let node = cause.strip_prefix("No serializer found for node ");
    if let Some((node, operator)) = node.and_then(|node| node.rsplit_once("\" ")) {
        return error_with_help(
            format!("NNEF has no operator {operator}, which is that of node {node}\""),
            ["a model with it runs from its own file only".into()],
        );
    }
    let outputs = |node: &TypedNode| {
        let facts = node.outputs.iter().map(|output| &output.fact);
        let constants = facts.clone().filter_map(|fact| fact.konst.as_ref()?.as_plain_ram());
        let sizes = constants.filter_map(|constant| constant.as_slice::<TDim>().ok()).flatten();
        let dims = facts.flat_map(|fact| fact.shape.iter()).chain(sizes);
        dims.filter(|dim| has_no_text(dim)).cloned().collect::<Vec<_>>()
    };
    let nodes: Vec<(&str, Vec<TDim>)> =
        model.nodes().iter().map(|node| (&*node.name, outputs(node))).collect();
    let nodes: Vec<_> = nodes.into_iter().filter(|(_, dims)| !dims.is_empty()).collect();
    let Some((_, dims)) = nodes.first() else { return error };
    let names: Vec<&str> = nodes.iter().map(|(name, _)| *name).collect();
    let mut symbols: Vec<String> = nodes
        .iter()
        .flat_map(|(_, dims)| dims)
        .flat_map(|dim| dim.symbols())
        .map(|it| it.to_string())
        .collect();
    symbols.sort();
    symbols.dedup();
    let set =
        symbols.iter().map(|symbol| format!("--set {symbol}=8")).collect::<Vec<_>>().join(" ");
    error_with_help(
        format!("{error:#}"),
        [
            format!(
                "tract has no text for dimensions like {}, which these nodes have: {}",
                dims[0],
                list(&names)
            ),
            format!("give the symbols in them a value: {set}"),
        ],
    )
}

/// Whether tract's NNEF writer panics at a dimension.
fn has_no_text(dim: &TDim) -> bool {
    match dim {
        TDim::Val(_) | TDim::Sym(_) => false,
        TDim::Add(terms) | TDim::Mul(terms) => terms.iter().any(has_no_text),
        TDim::MulInt(_, dim) | TDim::Div(dim, _) => has_no_text(dim),
        _ => true,
    }
}
