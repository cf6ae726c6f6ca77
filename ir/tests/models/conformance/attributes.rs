//! Whether random models vary the attributes that the reader asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;

use log::{LevelFilter, Log, Metadata, Record};
use tract_openvino_ir::document::{Graph, Layer};
use tract_openvino_ir::ir;
use tract_openvino_ir::prelude::*;

/// An operation, and the name of an attribute.
type Attribute = (String, String);

/// What the reader has asked for.
static ASKED: Mutex<BTreeSet<Attribute>> = Mutex::new(BTreeSet::new());

/// The reader says in its log what it asks for.
struct Asked;

impl Log for Asked {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.target() == "tract_openvino_ir::attribute"
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata())
            && let Some((operation, name)) = record.args().to_string().split_once(' ')
        {
            let attribute = (operation.into(), name.into());
            ASKED.lock().expect("nothing panics with it").insert(attribute);
        }
    }

    fn flush(&self) {}
}

/// Records from now on what the reader asks for.
pub fn record() {
    log::set_logger(&Asked).expect("there is no other");
    log::set_max_level(LevelFilter::Trace);
}

/// Attributes with one value that OpenVINO takes, or the reader.
const ONE_VALUE: [(&str, &str); 5] = [
    // The plug-in refuses i64.
    ("AdaptiveMaxPool", "index_element_type"),
    // There is no other.
    ("BinaryConvolution", "mode"),
    ("DeformablePSROIPooling", "mode"),
    // The reader refuses true.
    ("LSTMCell", "input_forget"),
    ("LSTMSequence", "input_forget"),
];

/// The attributes that were asked for and have less than two values in these files.
pub fn unvaried(files: &[PathBuf]) -> Vec<Attribute> {
    let mut values: BTreeMap<Attribute, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let proto = ir().proto_model_for_path(file).expect("it was read before");
        each_layer(proto.document.graph(), &mut |layer| {
            for (name, value) in &layer.attributes {
                let attribute = (layer.operation.clone(), name.clone());
                values.entry(attribute).or_default().insert(value.clone());
            }
        });
    }
    let asked = ASKED.lock().expect("nothing panics with it");
    let varied = |attribute: &&Attribute| values.get(*attribute).is_some_and(|it| it.len() > 1);
    let has_one = |(operation, name): &&Attribute| ONE_VALUE.contains(&(&**operation, &**name));
    asked.iter().filter(|attribute| !varied(attribute) && !has_one(attribute)).cloned().collect()
}

fn each_layer(graph: &Graph, then: &mut dyn FnMut(&Layer)) {
    for layer in &graph.layers {
        then(layer);
        layer.bodies.iter().for_each(|body| each_layer(&body.graph, then));
    }
}
