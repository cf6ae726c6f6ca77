//! Which function translates which operation.

use std::collections::HashMap;
use std::sync::Arc;

use tract_core::internal::*;

use crate::document::Layer;
use crate::translate::LayerContext;

/// A function that translates a layer: it wires nodes into the model, and gives the layer's outputs.
pub(crate) type Translate = dyn Fn(&mut LayerContext) -> TractResult<TVec<OutletId>> + Send + Sync;

/// The operations that can be read, by type and revision.
///
/// A layer names an operation set. It means the newest revision of its operation that is not newer than that
/// set. A revision goes by the number of the first set that has it.
#[derive(Clone, Default)]
pub struct Registry {
    operations: HashMap<String, Vec<Revision>>,
    /// What of an operation is not supported.
    limits: HashMap<&'static str, &'static str>,
    extensions: HashMap<(String, String), Arc<Translate>>,
}

#[derive(Clone)]
struct Revision {
    operation: &'static str,
    since: u32,
    translate: Arc<Translate>,
}

/// The newest operation set of OpenVINO that is known here.
const NEWEST: u32 = 16;

/// How operations begin that a file may put into `extension` or `experimental`, which stand for opset6.
const FROM_OPSET_6: [&str; 4] = ["grucell", "rnncell", "proposal", "experimentaldetectron"];

/// Operations that older files look up in opset1, although opset2 is the first that has them.
const FROM_OPSET_2: [&str; 3] = ["mvn", "roipooling", "reorgyolo"];

/// A revision that was added.
pub(crate) struct Added<'a> {
    limits: &'a mut HashMap<&'static str, &'static str>,
    operation: &'static str,
}

impl Added<'_> {
    /// Says what of the operation, in any revision, is refused although the specification has it.
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
        let revisions = self.operations.entry(operation.to_ascii_lowercase()).or_default();
        revisions.push(Revision { operation, since, translate: Arc::new(translate) });
        revisions.sort_by_key(|revision| revision.since);
        Added { limits: &mut self.limits, operation }
    }

    /// Adds an operation of the user's own, for layers of exactly this type and operation set. `translate`
    /// wires its nodes, and gives its outputs.
    ///
    /// ```
    /// use tract_openvino_ir::tract_openvino::tract_onnx::tract_core::ops::math;
    ///
    /// let mut reader = tract_openvino_ir::ir();
    /// reader.registry_mut().add_extension("Double", "my_operations", |layer| {
    ///     let input = layer.input(0)?;
    ///     layer.finish(math::add(), &[input, input])
    /// });
    /// ```
    pub fn add_extension(
        &mut self,
        operation: impl Into<String>,
        opset: impl Into<String>,
        translate: impl Fn(&mut LayerContext) -> TractResult<TVec<OutletId>> + Send + Sync + 'static,
    ) {
        self.extensions.insert((operation.into(), opset.into()), Arc::new(translate));
    }

    /// The operations by name, each with its revisions: the first operation set of each.
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

    /// What of an operation is refused, although the specification has it.
    pub fn limits(&self, operation: &str) -> Option<&'static str> {
        self.limits.get(operation).copied()
    }

    /// The first operation set with the revision that a layer means: 0 for an operation of the user's own,
    /// `None` for one that cannot be read.
    pub fn since(&self, layer: &Layer) -> Option<u32> {
        self.find(layer).ok().map(|(_, since)| since)
    }

    /// The function for a layer and the number of its revision, or why there is none.
    pub(crate) fn find(&self, layer: &Layer) -> Result<(Arc<Translate>, u32), String> {
        let Layer { operation, opset, .. } = layer;
        let extension = self.extensions.get(&(operation.clone(), opset.clone()));
        if let Some(translate) = extension {
            return Ok((translate.clone(), 0));
        }
        let key = operation.to_ascii_lowercase();
        let number = match opset.trim().to_ascii_lowercase().strip_prefix("opset") {
            Some(digits) => digits.parse().ok().filter(|number| (1..=NEWEST).contains(number)),
            None if ["extension", "experimental"].contains(&opset.as_str()) => {
                FROM_OPSET_6.iter().any(|prefix| key.starts_with(prefix)).then_some(6)
            }
            None => None,
        };
        let Some(mut number) = number else {
            return Err(format!("operation set {opset:?} is none of opset1 to opset{NEWEST}"));
        };
        if number == 1 && FROM_OPSET_2.contains(&&*key) {
            number = 2;
        }
        let Some(revisions) = self.operations.get(&key) else {
            return Err(format!("{operation} is not supported"));
        };
        let revision = revisions.iter().rev().find(|revision| revision.since <= number);
        revision.map(|revision| (revision.translate.clone(), revision.since)).ok_or_else(|| {
            let oldest = revisions.first().map_or(0, |revision| revision.since);
            format!("{operation} is not supported in {opset}: the oldest that is supported is opset{oldest}")
        })
    }
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
            "# Operations that can be read\n\n\
             Besides `Parameter`, `Constant` and `Result`. A revision goes by the first operation set that has \
             it; a layer that\nnames an operation set means the newest revision that is not newer. \
             {} operations:\n\n\
             | operation | revisions, by their first operation set | what is refused |\n|---|---|---|\n{}\n{NOT_THERE}",
            operations.len(),
            rows.collect::<String>()
        )
    }

    /// What holds for all operations, and those of the specification that the registry does not have.
    const NOT_THERE: &str = "\
Of all operations: tensors of type bf16, f4, f6, f8, nf4, and of integers of less than 8 bits, except for constants,
which are widened. Values that decide what is computed, like axes and pads, must be known when the model is loaded. If
they are not, the layer is translated each time that it runs, as long as the file says the ranks of its outputs, no
dimension of the inputs is open, and the operation has no state.

Not there, of operation sets 1 to 16: BinaryConvolution, DeformablePSROIPooling, FakeConvert, ROIAlignRotated,
StringTensorPack, StringTensorUnpack.
";

    #[test]
    fn what_is_not_there_is_not_there() {
        let ir = crate::ir();
        let names = NOT_THERE.rsplit(": ").next().unwrap_or_default();
        let names: Vec<&str> = names.split([',', '.', '\n']).map(str::trim).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        assert_eq!(names.len(), 6);
        for name in names {
            assert_eq!(ir.registry().since(&layer(name, "opset16")), None, "{name}");
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
            "write it anew: BLESS=1 cargo test --package tract-openvino-ir"
        );
    }

    fn layer(operation: &str, opset: &str) -> Layer {
        Layer {
            id: 0,
            name: "layer".into(),
            operation: operation.into(),
            opset: opset.into(),
            attributes: Default::default(),
            inputs: vec![],
            outputs: vec![],
            output_names: vec![],
            bodies: vec![],
        }
    }

    #[test]
    fn the_newest_revision_that_is_not_newer_than_the_operation_set() {
        let ir = crate::ir();
        for (operation, opset, expected) in [
            ("Gather", "opset1", 1),
            ("Gather", "opset6", 1),
            ("Gather", "opset7", 7),
            ("Gather", "opset16", 8),
            ("gather", "OPSET8", 8),
            ("MVN", "opset1", 2),
            ("GRUCell", "extension", 3),
        ] {
            let since = ir.registry().since(&layer(operation, opset));
            assert_eq!(since, Some(expected), "{operation} {opset}");
        }
        for (operation, opset) in
            [("Gather", "opset0"), ("Gather", "opset17"), ("Gather", "extension")]
        {
            assert_eq!(ir.registry().since(&layer(operation, opset)), None, "{operation} {opset}");
        }
    }
}
