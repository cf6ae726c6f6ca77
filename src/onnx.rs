//! Reading the operators from ONNX models.
//!
//! tract's register of ONNX operators is keyed by the op type alone and forgets a node's domain. So
//! the builders here stand in front of tract's own: they look at the domain, build what is ours and
//! hand over the rest to the builder that was registered before. That one stays in the same
//! register, under a key that no op type has, because builders are plain functions and can keep
//! nothing.

use crate::infer::{Axis, InferenceGather, InferenceGatherNd};
use crate::operation::Operation;
use crate::revision::{
    BatchDims, GatherNdRevision, GatherRevision, NegativeIndices, Revision, Row,
};
use tract_hir::internal::*;
use tract_hir::ops::unimpl::UnimplementedOp;
use tract_onnx::Onnx;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;

/// The ONNX domain of OpenVINO's operators.
pub const DOMAIN: &str = "org.openvinotoolkit";

/// The operators of [`DOMAIN`] that this crate implements.
const OP_TYPES: [&str; 2] = [GatherRevision::OP_TYPE, GatherNdRevision::OP_TYPE];

/// The others that OpenVINO's ONNX reader has in that domain.
const NOT_IMPLEMENTED: [&str; 15] = [
    "DeformableConv2D",
    "DetectionOutput",
    "ExperimentalDetectronDetectionOutput",
    "ExperimentalDetectronGenerateProposalsSingleImage",
    "ExperimentalDetectronGroupNorm",
    "ExperimentalDetectronPriorGridGenerator",
    "ExperimentalDetectronROIFeatureExtractor",
    "ExperimentalDetectronTopKROIs",
    "FakeQuantize",
    "GenerateProposals",
    "GroupNorm",
    "Normalize",
    "PriorBox",
    "PriorBoxClustered",
    "Swish",
];

/// How the operators are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenVinoOptions {
    /// What negative indices mean where the revision does not define them.
    pub negative_indices: NegativeIndices,
    /// Whether `Gather` and `GatherND` of the standard ONNX domain run on this crate's operators too.
    ///
    /// They mean what ONNX says: a negative index counts from the end, one out of range is an error.
    /// (That is Gather-7 and GatherND-8 with [`NegativeIndices::Wrap`], by which name errors call
    /// them.) tract's own panic at a bad index, and at a negative one of `GatherND`, of which they read 32
    /// bits only.
    pub standard_gather: bool,
}

impl OpenVinoOptions {
    /// Sets [`negative_indices`](Self::negative_indices).
    pub fn with_negative_indices(self, negative_indices: NegativeIndices) -> Self {
        Self { negative_indices, ..self }
    }

    /// Sets [`standard_gather`](Self::standard_gather).
    pub fn with_standard_gather(self, standard_gather: bool) -> Self {
        Self { standard_gather, ..self }
    }
}

/// Teaches a reader of models OpenVINO's operators.
///
/// A node of domain `org.openvinotoolkit` and op type `Gather` (inputs `data`, `indices`, `axis`;
/// attribute `batch_dims`) or `GatherND` (inputs `data`, `indices`; attribute `batch_dims`) becomes
/// OpenVINO's operator of that name. Its revision follows from the version of that domain that the
/// model imports, or from the node's string attribute `version`, like `"opset7"`, which wins.
/// Without both it is the newest one, and the log has a warning.
///
/// Operators of all other domains keep the implementation that they had, in subgraphs too, unless
/// [`standard_gather`](OpenVinoOptions::standard_gather) says otherwise. Another
/// operator of `org.openvinotoolkit` is an error when the model is loaded, even where ONNX has one
/// of the same name. (A model none of whose nodes is known to tract or to OpenVINO's reader gets
/// tract's own error for that.)
///
/// ```
/// use tract_openvino::WithOpenVino;
/// use tract_openvino::tract_onnx::{onnx, prelude::*};
///
/// # fn main() -> TractResult<()> {
/// let model = onnx().with_openvino().model_for_path("models/gather_7_example_2/model.onnx")?;
/// # let _ = model;
/// # Ok(())
/// # }
/// ```
pub trait WithOpenVino: Sized {
    /// Teaches the operators, with the default options if the reader has options. Doing it twice is harmless.
    fn enable_openvino(&mut self);

    /// The reader, with the operators.
    fn with_openvino(mut self) -> Self {
        self.enable_openvino();
        self
    }
}

/// Teaches a reader of models OpenVINO's operators where there is something to choose: in ONNX models.
///
/// ```
/// use tract_openvino::tract_onnx::onnx;
/// use tract_openvino::{NegativeIndices, OpenVinoOptions, WithOpenVinoOptions};
///
/// let options = OpenVinoOptions::default().with_negative_indices(NegativeIndices::Wrap);
/// let reader = onnx().with_openvino_options(options);
/// ```
pub trait WithOpenVinoOptions: WithOpenVino {
    /// Teaches the operators with the given options. The last call's options hold.
    fn enable_openvino_with(&mut self, options: OpenVinoOptions);

    /// The reader, with the operators and the given options.
    fn with_openvino_options(mut self, options: OpenVinoOptions) -> Self {
        self.enable_openvino_with(options);
        self
    }
}

type Built = TractResult<(Box<dyn InferenceOp>, Vec<String>)>;
type Builder = fn(&ParsingContext, &NodeProto) -> Built;

// A static, so that it has one address to be recognised by.
static BUILDER: Builder = build;

fn is_ours(builder: Builder) -> bool {
    std::ptr::fn_addr_eq(builder, BUILDER)
}

/// The key under which the builder stays that was registered before.
fn key_of_previous(op_type: &str) -> String {
    format!("{DOMAIN}: before: {op_type}")
}

/// Keys that are there when an option is set.
const WRAP: &str = "org.openvinotoolkit: NegativeIndices::Wrap";
const STANDARD: &str = "org.openvinotoolkit: standard_gather";

impl WithOpenVino for Onnx {
    fn enable_openvino(&mut self) {
        self.enable_openvino_with(OpenVinoOptions::default());
    }
}

impl WithOpenVinoOptions for Onnx {
    fn enable_openvino_with(&mut self, options: OpenVinoOptions) {
        let register = &mut self.op_register.0;
        let wrap = options.negative_indices == NegativeIndices::Wrap;
        for (key, set) in [(WRAP, wrap), (STANDARD, options.standard_gather)] {
            match set {
                true => register.insert(key.into(), BUILDER),
                false => register.remove(key),
            };
        }
        // Once for each op type: somebody may have come in front of us since, and hand over to us.
        for op_type in OP_TYPES {
            if !register.contains_key(&key_of_previous(op_type)) {
                come_in_front(register, op_type);
            }
        }
        // In front of tract's own operators, to keep ours from being taken for them; and of nothing,
        // where OpenVINO's reader knows an operator of its domain. Not in front of what another
        // plug-in has put there, which may know our domain.
        for (op_type, stock) in &tract_onnx::onnx().op_register.0 {
            if register.get(op_type).is_some_and(|it| std::ptr::fn_addr_eq(*it, *stock)) {
                come_in_front(register, op_type);
            }
        }
        for op_type in NOT_IMPLEMENTED {
            if !register.contains_key(op_type) {
                come_in_front(register, op_type);
            }
        }
    }
}

fn come_in_front(register: &mut HashMap<String, Builder>, op_type: &str) {
    let previous = register.insert(op_type.into(), BUILDER).unwrap_or(unimplemented);
    register.insert(key_of_previous(op_type), previous);
}

/// As tract does with an op type that nobody registered.
fn unimplemented(_: &ParsingContext, node: &NodeProto) -> Built {
    let op = UnimplementedOp::new(node.output.len(), &node.op_type, format!("{node:?}"));
    Ok((op.into(), vec![]))
}

fn build(ctx: &ParsingContext, node: &NodeProto) -> Built {
    refuse_unknown_operators(ctx, node)?;
    let register = &ctx.framework.op_register.0;
    let is_standard = ["", "ai.onnx"].contains(&&*node.domain);
    if is_standard && OP_TYPES.contains(&&*node.op_type) && register.contains_key(STANDARD) {
        return Ok((standard_gather(node)?, vec![]));
    }
    if node.domain != DOMAIN {
        let previous = register.get(&key_of_previous(&node.op_type));
        return previous.copied().unwrap_or(unimplemented)(ctx, node);
    }
    let negative_indices = match register.contains_key(WRAP) {
        true => NegativeIndices::Wrap,
        false => NegativeIndices::AsSpecified,
    };
    let op = match &*node.op_type {
        GatherRevision::OP_TYPE => {
            let operation = operation(ctx, node, &["data", "indices", "axis"], negative_indices)?;
            expand(InferenceGather { operation, axis: Axis::Input })
        }
        GatherNdRevision::OP_TYPE => {
            let operation = operation(ctx, node, &["data", "indices"], negative_indices)?;
            expand(InferenceGatherNd(operation))
        }
        _ => bail!(unknown_operators(&[node])),
    };
    Ok((op, vec![]))
}

fn operation<R: Revision>(
    ctx: &ParsingContext,
    node: &NodeProto,
    inputs: &[&str],
    negative_indices: NegativeIndices,
) -> TractResult<Operation<R>> {
    let revision: R = revision(ctx, node)?;
    check_inputs(revision.row(), node, inputs)?;
    let batch_dims = batch_dims(revision.row(), node)?;
    let operation = Operation::new(revision).with_batch_dims(batch_dims)?;
    Ok(operation.with_negative_indices(negative_indices))
}

/// ONNX, "Gather": axis defaults to 0, "accepted range is [-r, r-1]", and "all index values are expected
/// to be within bounds [-s, s-1]". "GatherND": batch_dims defaults to 0, the same bounds.
fn standard_gather(node: &NodeProto) -> TractResult<Box<dyn InferenceOp>> {
    let wrap = NegativeIndices::Wrap;
    Ok(match &*node.op_type {
        GatherRevision::OP_TYPE => {
            let operation = Operation::new(GatherRevision::V7).with_negative_indices(wrap);
            check_inputs(operation.revision.row(), node, &["data", "indices"])?;
            let axis = Axis::Attribute(node.get_attr_opt("axis")?.unwrap_or(0));
            expand(InferenceGather { operation, axis })
        }
        _ => {
            let operation = Operation::new(GatherNdRevision::V8).with_negative_indices(wrap);
            check_inputs(operation.revision.row(), node, &["data", "indices"])?;
            let batch_dims = node.get_attr_opt("batch_dims")?.unwrap_or(0);
            expand(InferenceGatherNd(operation.with_batch_dims(batch_dims)?))
        }
    })
}

/// The revision that a node means: by its attribute `version`, else by the model's import of the
/// domain, else the newest.
fn revision<R: Revision>(ctx: &ParsingContext, node: &NodeProto) -> TractResult<R> {
    if let Some(version) = node.get_attr_opt::<&str>("version")? {
        let opset = version.strip_prefix("opset").and_then(|digits| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            if plain { digits.parse().ok() } else { None }
        });
        let Some(opset) = opset else {
            bail!(
                "{}: attribute version is {version:?}, but must be \"opset\" and a number, like \
                 \"opset8\"",
                R::OP_TYPE
            )
        };
        return R::for_opset(opset);
    }
    let mut imports = ctx.model.opset_import.iter().filter(|import| import.domain == DOMAIN);
    let Some(import) = imports.next() else {
        let newest = R::newest();
        log::warn!(
            "node {:?} is of domain {DOMAIN}, which the model does not import: taken for {}",
            node.name,
            newest.row().name
        );
        return Ok(newest);
    };
    if let Some(other) = imports.find(|other| other.version != import.version) {
        bail!(
            "the model imports domain {DOMAIN} twice, in versions {} and {}",
            import.version,
            other.version
        )
    }
    R::for_opset(import.version).with_context(|| {
        format!("by the model's import of domain {DOMAIN} in version {}", import.version)
    })
}

fn batch_dims(row: &Row, node: &NodeProto) -> TractResult<i64> {
    let batch_dims = node.get_attr_opt::<i64>("batch_dims")?;
    ensure!(
        batch_dims.is_none() || row.batch_dims != BatchDims::Absent,
        "{}: has an attribute batch_dims, but this revision has no attributes",
        row.name
    );
    for attribute in &node.attribute {
        ensure!(
            ["batch_dims", "version"].contains(&&*attribute.name),
            "{}: has an attribute {:?}, which the operator does not have{}",
            row.name,
            attribute.name,
            if attribute.name == "axis" { ": axis is the third input" } else { "" }
        );
    }
    Ok(batch_dims.unwrap_or(0))
}

/// All inputs are required, and tract closes the gap that one leaves which is not given.
fn check_inputs(row: &Row, node: &NodeProto, expected: &[&str]) -> TractResult<()> {
    ensure!(
        node.input.len() == expected.len(),
        "{}: got {} inputs, expected {}: {}",
        row.name,
        node.input.len(),
        expected.len(),
        expected.join(", ")
    );
    for (input, name) in node.input.iter().zip(expected) {
        ensure!(!input.is_empty(), "{}: input {name} is required", row.name);
    }
    ensure!(node.output.len() == 1, "{}: got {} outputs, expected 1", row.name, node.output.len());
    Ok(())
}

/// Refuses a model with operators of our domain that nobody implements, all of them at once.
///
/// A builder sees one node, and none is called for the types that nobody registered. So the first
/// node that gets to [`build`] looks at the whole model.
fn refuse_unknown_operators(ctx: &ParsingContext, node: &NodeProto) -> TractResult<()> {
    let [graph] = &*ctx.parent_graphs else { return Ok(()) };
    let register = &ctx.framework.op_register.0;
    let builder = |node: &NodeProto| register.get(&node.op_type).copied();
    // Backwards from the node, so that no stretch is walked twice. (A plug-in in front of us may hand
    // over a copy, which is not in the graph.)
    let offset = std::ptr::from_ref(node).addr().wrapping_sub(graph.node.as_ptr().addr());
    let before = graph.node.get(..offset / size_of::<NodeProto>()).unwrap_or_default();
    if before.iter().rev().any(|node| builder(node).is_some_and(is_ours)) {
        return Ok(());
    }
    let mut unknown = vec![];
    let mut graphs = vec![*graph];
    while let Some(graph) = graphs.pop() {
        for node in &graph.node {
            if node.domain == DOMAIN
                && !OP_TYPES.contains(&&*node.op_type)
                && builder(node).is_none_or(is_ours)
            {
                unknown.push(node);
            }
            for attribute in &node.attribute {
                graphs.extend(attribute.g.iter().chain(&attribute.graphs));
            }
        }
    }
    ensure!(unknown.is_empty(), unknown_operators(&unknown));
    Ok(())
}

fn unknown_operators(nodes: &[&NodeProto]) -> String {
    let mut op_types: Vec<&str> = nodes.iter().map(|node| &*node.op_type).collect();
    op_types.sort_unstable();
    op_types.dedup();
    format!(
        "the model has operators of domain {DOMAIN} that are not implemented: {}. Implemented are \
         {}",
        op_types.join(", "),
        OP_TYPES.join(" and ")
    )
}
