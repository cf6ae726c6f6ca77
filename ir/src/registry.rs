//! The operations that the reader has, and the functions that translate them.

use std::collections::HashMap;
use std::sync::Arc;

use tract_core::internal::*;

use crate::context::{LayerContext, Translate};
use crate::document::Layer;
use crate::refused::is_internal;

/// The operations that the reader has, by type and revision.
///
/// The number of a revision is that of the first operation set that has it. A layer names an operation set, and means
/// the newest revision of its operation that is not newer.
#[derive(Clone, Default)]
pub struct Registry {
    // Each layer that is translated when the model runs has a copy.
    operations: Arc<HashMap<String, Vec<Revision>>>,
    /// What the specification allows for an operation, and the reader refuses.
    limits: Arc<HashMap<&'static str, &'static str>>,
    extensions: Arc<HashMap<(String, String), Arc<Translate>>>,
}

#[derive(Clone)]
struct Revision {
    operation: &'static str,
    since: u32,
    /// Whether what it computes does not depend on its inputs alone.
    has_state: bool,
    translate: Arc<Translate>,
}

/// The revision of an operation that a layer means.
#[derive(Clone)]
pub(crate) struct Found {
    /// The name of the operation. Files may spell it otherwise. Nothing for an operation of the user.
    pub operation: &'static str,
    /// The first operation set with this revision: 0 for an operation of the user.
    pub since: u32,
    pub has_state: bool,
    pub translate: Arc<Translate>,
}

/// Why there is no operation for a layer.
enum Missing {
    OperationSet,
    Type,
    /// The first operation set with any revision of it.
    Before(u32),
}

/// The newest operation set of OpenVINO that is known here.
pub(crate) const NEWEST: u32 = 17;

/// Prefixes of operations that a file may put into the operation sets `extension` and `experimental`, which then mean
/// opset6.
const FROM_OPSET_6: [&str; 4] = ["grucell", "rnncell", "proposal", "experimentaldetectron"];

/// Operations that older files have in opset1, although opset2 is the first with them.
const FROM_OPSET_2: [&str; 3] = ["mvn", "roipooling", "reorgyolo"];

/// A revision that was added.
pub(crate) struct Added<'a> {
    limits: &'a mut HashMap<&'static str, &'static str>,
    revisions: &'a mut Vec<Revision>,
    operation: &'static str,
    since: u32,
}

impl Added<'_> {
    /// States that what this revision computes does not depend on its inputs alone.
    pub fn with_state(self) -> Self {
        for revision in self.revisions.iter_mut().filter(|it| it.since == self.since) {
            revision.has_state = true;
        }
        self
    }

    /// States what the specification allows for the operation, in any revision, and the reader refuses.
    pub fn without(self, what: &'static str) {
        self.limits.insert(self.operation, what);
    }
}

impl Registry {
    /// Adds a revision of an operation: `since` is the first operation set that has it.
    pub(crate) fn add(
        &mut self,
        operation: &'static str,
        since: u32,
        translate: fn(&mut LayerContext) -> TractResult<TVec<OutletId>>,
    ) -> Added<'_> {
        let operations = Arc::make_mut(&mut self.operations);
        let revisions = operations.entry(operation.to_ascii_lowercase()).or_default();
        let translate = Arc::new(translate);
        revisions.push(Revision { operation, since, has_state: false, translate });
        revisions.sort_by_key(|revision| revision.since);
        Added { limits: Arc::make_mut(&mut self.limits), revisions, operation, since }
    }

    /// Adds an operation of your own, for layers of this type and operation set, in upper or lower case. `translate`
    /// wires its nodes, and returns its outputs.
    ///
    /// ```
    /// use tract_openvino_ir::internal::*;
    ///
    /// let mut reader = ir();
    /// reader.registry_mut().add_extension("Double", "my_operations", |layer| {
    ///     let input = layer.input(0)?;
    ///     layer.finish(ops::math::add(), &[input, input])
    /// });
    /// ```
    pub fn add_extension(
        &mut self,
        operation: impl Into<String>,
        opset: impl Into<String>,
        translate: impl Fn(&mut LayerContext) -> TractResult<TVec<OutletId>> + Send + Sync + 'static,
    ) {
        let key = (lower(&operation.into()), lower(&opset.into()));
        Arc::make_mut(&mut self.extensions).insert(key, Arc::new(translate));
    }

    /// The names of the operations, in order, each with its revisions: the number of the first operation set with each.
    pub fn operations(&self) -> Vec<(&'static str, Vec<u32>)> {
        let mut operations: Vec<(&'static str, Vec<u32>)> = self
            .operations
            .values()
            .filter_map(|revisions| {
                let name = revisions.first()?.operation;
                Some((name, revisions.iter().map(|revision| revision.since).collect()))
            })
            .collect();
        operations.sort();
        operations
    }

    /// What the specification allows for an operation, and the reader refuses. `None` if it refuses nothing, or does
    /// not have the operation.
    pub fn limits(&self, operation: &str) -> Option<&'static str> {
        self.limits.get(operation).copied()
    }

    /// The first operation set with the revision that a layer means: 0 for an operation of
    /// [your own](Self::add_extension), `None` for one that the reader does not have.
    pub fn since(&self, layer: &Layer) -> Option<u32> {
        self.lookup(layer).ok().map(|found| found.since)
    }

    /// Whether what a layer computes, or one in its bodies, does not depend on its inputs alone.
    pub(crate) fn has_state(&self, layer: &Layer) -> bool {
        let mut bodies = layer.bodies.iter().flat_map(|body| &body.graph.layers);
        self.lookup(layer).is_ok_and(|found| found.has_state)
            || bodies.any(|layer| self.has_state(layer))
    }

    /// The revision that a layer means, or why there is none.
    pub(crate) fn find(&self, layer: &Layer) -> Result<Found, String> {
        let Layer { operation, opset, .. } = layer;
        self.lookup(layer).map_err(|missing| match missing {
            Missing::OperationSet if is_internal(operation, opset) => format!(
                "{operation} of operation set {opset:?} is what OpenVINO makes of other operations, for a device or in a \
                 transformation of its own, and is in none of its operation sets: save the model before it is compiled \
                 or transformed"
            ),
            Missing::OperationSet => format!(
                "{operation} of operation set {opset:?} is not known: OpenVINO's sets are opset1 to opset{NEWEST}; add \
                 your own with Registry::add_extension"
            ),
            Missing::Type => format!("{operation} is not supported"),
            Missing::Before(oldest) => format!(
                "{operation} is not supported in {opset}: the oldest that is supported is opset{oldest}"
            ),
        })
    }

    fn lookup(&self, layer: &Layer) -> Result<Found, Missing> {
        let (key, opset) = (lower(&layer.operation), lower(&layer.opset));
        let key = match self.extensions.get(&(key.clone(), opset.clone())) {
            Some(translate) => {
                let translate = translate.clone();
                return Ok(Found { operation: "", since: 0, has_state: false, translate });
            }
            None => key,
        };
        let number = match opset.strip_prefix("opset") {
            Some(digits) => digits.parse().ok().filter(|number| (1..=NEWEST).contains(number)),
            None if ["extension", "experimental"].contains(&&*opset) => {
                FROM_OPSET_6.iter().any(|prefix| key.starts_with(prefix)).then_some(6)
            }
            None => None,
        };
        let mut number = number.ok_or(Missing::OperationSet)?;
        if number == 1 && FROM_OPSET_2.contains(&&*key) {
            number = 2;
        }
        let revisions = self.operations.get(&key).ok_or(Missing::Type)?;
        let revision = revisions.iter().rev().find(|revision| revision.since <= number);
        let oldest = || revisions.first().map_or(0, |revision| revision.since);
        let revision = revision.ok_or_else(|| Missing::Before(oldest()))?;
        let Revision { operation, since, has_state, ref translate } = *revision;
        Ok(Found { operation, since, has_state, translate: translate.clone() })
    }
}

/// The case of types and of operation sets does not matter.
fn lower(name: &str) -> String {
    name.trim().to_ascii_lowercase()
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.operations()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document of the operations: `ir/docs/operations.md`.
    fn document() -> String {
        let ir = crate::ir();
        let operations = ir.registry().operations();
        let rows = operations.iter().map(|(operation, revisions)| {
            let revisions: Vec<String> = revisions.iter().map(u32::to_string).collect();
            let limits = ir.registry().limits(operation).unwrap_or_default();
            let row = format!("| {operation} | {} | {limits}", revisions.join(", "));
            format!("{} |\n", row.trim_end())
        });
        format!(
            "# Supported operations\n\n\
             The reader has all of operation sets 1 to {NEWEST}: `Parameter`, `Constant`, `Result` and these {} operations. \
             The number of\na revision is that of the first operation set that has it. A layer names an operation set, \
             and means the newest\nrevision that is not newer.\n\n\
             | operation | revisions | what is refused |\n|---|---|---|\n{}\n{OF_EVERY_OPERATION}",
            operations.len(),
            rows.collect::<String>()
        )
    }

    /// What is refused of every operation.
    const OF_EVERY_OPERATION: &str = "\
## What is refused of every operation

* Inputs and outputs of the model of types bf16, f4, f6, f8 and nf4, and of integers of less than 8 bits. Constants of these
  types are read, and converted to wider ones. What a model computes in bf16, f8e4m3 or f8e5m2 is computed in f32, and rounded to
  these types.
* Parameters of an operation, such as axes and pads, and sizes that it must know, such as a number of channels, if only a
  run knows them and the operation has a state, or the file does not state the ranks of its outputs. Otherwise the layer
  is translated when it runs, and again for other values and sizes.
";

    /// OpenVINO's operation sets. `ir/conformance/opset_table.py` writes them.
    const OPSETS: &str = include_str!("opsets.txt");

    /// Revisions that are in none of the operation sets, or not so early, but in older files.
    const OLDER: [(&str, u32); 2] = [("LSTMSequence", 1), ("ScatterNDUpdate", 3)];

    /// Each operation of the operation sets, with the first of them that has each of its revisions.
    fn opsets() -> Vec<(&'static str, Vec<u32>)> {
        let rows = OPSETS.lines().filter(|line| !line.starts_with('#'));
        let row = |line: &'static str| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap();
            (name, words.map(|word| word.parse().unwrap()).collect())
        };
        rows.map(row).collect()
    }

    #[test]
    fn operations_are_those_of_openvino() {
        let ir = crate::ir();
        let registered: HashMap<&str, Vec<u32>> = ir.registry().operations().into_iter().collect();
        let opsets = opsets();
        assert!(opsets.len() > 200);
        for (name, revisions) in &opsets {
            if ["Parameter", "Constant", "Result"].contains(name) {
                continue;
            }
            let found = registered.get(name).unwrap_or_else(|| panic!("{name} is not registered"));
            let older = OLDER.iter().filter(|(older, _)| older == name).map(|(_, since)| *since);
            let mut expected: Vec<u32> = revisions.iter().copied().chain(older).collect();
            expected.sort_unstable();
            assert_eq!(*found, expected, "the revisions of {name}");
        }
        for name in registered.keys() {
            assert!(opsets.iter().any(|(known, _)| known == name), "{name} is in no operation set");
        }
        let newest = opsets.iter().flat_map(|(_, revisions)| revisions).max();
        assert_eq!(newest, Some(&NEWEST));
    }

    #[test]
    fn what_is_made_for_a_device_is_not_in_a_file() {
        let ir = crate::ir();
        let internal = |operation: &str, opset: &str| {
            let error = ir.registry().find(&layer(operation, opset)).err().unwrap();
            error.contains("save the model before it is compiled")
        };
        for (operation, opset) in [
            ("PagedAttentionExtension", "extension"),
            ("RMS", "ie_internal_opset"),
            ("FullyConnectedCompressed", "ie_internal_opset"),
            ("Subgraph", "SnippetsOpset"),
            ("PowerStatic", "cpu_plugin_opset"),
            ("Whatever", "gpu_opset"),
            ("Whatever", "util"),
        ] {
            assert!(internal(operation, opset), "{operation} {opset}");
        }
        for (operation, opset) in [("Whatever", "extension"), ("Whatever", "opset99")] {
            assert!(!internal(operation, opset), "{operation} {opset}");
        }
    }

    #[test]
    fn what_is_refused_is_said_of_operations_that_there_are() {
        let ir = crate::ir();
        let operations = ir.registry().operations();
        for operation in ir.registry().limits.keys() {
            assert!(operations.iter().any(|(known, _)| known == operation), "{operation}");
        }
    }

    /// With the variable `BLESS` it is written.
    #[test]
    fn the_document_of_operations_is_what_the_registry_has() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let text = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            text,
            document(),
            "write it again: BLESS=1 cargo test --package tract-openvino-ir"
        );
    }

    fn layer(operation: &str, opset: &str) -> Layer {
        Layer {
            name: "layer".into(),
            operation: operation.into(),
            opset: opset.into(),
            ..Layer::default()
        }
    }

    #[test]
    fn the_newest_revision_that_is_not_newer_than_the_operation_set() {
        let ir = crate::ir();
        for (operation, opset, expected) in [
            ("Gather", "opset1", 1),
            ("Gather", "opset6", 1),
            ("Gather", "opset7", 7),
            ("Gather", "opset17", 8),
            ("gather", "OPSET8", 8),
            ("MVN", "opset1", 2),
            ("GRUCell", "extension", 3),
        ] {
            let since = ir.registry().since(&layer(operation, opset));
            assert_eq!(since, Some(expected), "{operation} {opset}");
        }
        for (operation, opset) in
            [("Gather", "opset0"), ("Gather", "opset18"), ("Gather", "extension")]
        {
            assert_eq!(ir.registry().since(&layer(operation, opset)), None, "{operation} {opset}");
        }
    }

    #[test]
    fn the_case_of_types_and_operation_sets_does_not_matter() {
        let mut ir = crate::ir();
        ir.registry_mut().add_extension("Double", "my_Operations", |layer| layer.all_inputs());
        let registry = ir.registry();
        assert_eq!(registry.since(&layer("DOUBLE", "MY_operations")), Some(0));
        let mut with_state = vec![];
        for (operation, revisions) in registry.operations() {
            for since in revisions {
                let spelled = |operation: &str, opset: &str| {
                    let layer = layer(operation, &format!("{opset}{since}"));
                    (registry.since(&layer), registry.has_state(&layer))
                };
                let found = spelled(operation, "opset");
                assert_eq!(spelled(&operation.to_uppercase(), "OPSET"), found, "{operation}");
                assert_eq!(spelled(&operation.to_lowercase(), "OpSet"), found, "{operation}");
                if found.1 {
                    with_state.push(format!("{operation}-{since}"));
                }
            }
        }
        let expected = [
            "Assign-3",
            "Assign-6",
            "Multinomial-13",
            "RandomUniform-8",
            "ReadValue-3",
            "ReadValue-6",
        ];
        assert_eq!(with_state, expected);
    }
}
