//! Reading the operators from ONNX models.
//!
//! tract's register of ONNX operators has one builder for each op type, whatever the domain. So [`build`] takes
//! the place of tract's builders: it looks at a node's domain, builds OpenVINO's operators, and calls the previous
//! builder for all others. A builder is a plain function, which cannot hold another. So the previous one stays in
//! the register, under a key that is no op type. So do the builders that other crates add for more operators of the
//! domain ([`add_operator`]).

use crate::infer::{Axis, InferenceGather, InferenceGatherNd};
use crate::operation::Operation;
use crate::revision::{
    BatchDims, GatherNdRevision, GatherRevision, NegativeIndices, Revision, Spec,
};
use crate::standard::{self, check_inputs};
use crate::with_openvino::WithOpenVino;
use tract_hir::internal::*;
use tract_hir::ops::unimpl::UnimplementedOp;
use tract_onnx::Onnx;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;

/// The ONNX domain of OpenVINO's operators.
pub const DOMAIN: &str = "org.openvinotoolkit";

/// The operators of [`DOMAIN`] that this crate has.
const OP_TYPES: [&str; 2] = [GatherRevision::OP_TYPE, GatherNdRevision::OP_TYPE];

/// The other operators that OpenVINO's ONNX reader knows in that domain.
const UNSUPPORTED_OP_TYPES: [&str; 15] = [
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

/// Options for reading ONNX models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenVinoOptions {
    /// What negative indices mean in revisions that do not have them.
    pub negative_indices: NegativeIndices,
    /// Whether `Gather`, `GatherND`, `GatherElements`, `ScatterND`, `ScatterElements` and `OneHot` of the standard ONNX
    /// domain use this crate's operators too.
    ///
    /// They do what ONNX says: a negative index counts from the end, and an index out of range is an error, which
    /// names the operator, such as `ONNX Gather`; OneHot sets nothing for it. tract's own operators panic at an index out
    /// of range; its `GatherND` also at a negative one, of which it reads only 32 bits, and its `ScatterND` refuses
    /// those.
    pub standard_gather: bool,
}

impl OpenVinoOptions {
    /// Sets [`negative_indices`](Self::negative_indices).
    pub fn with_negative_indices(self, negative_indices: NegativeIndices) -> Self {
        Self { negative_indices, ..self }
    }

    /// The options that a reader has: the default ones if it does not have the operators.
    pub fn of(reader: &Onnx) -> Self {
        let has = |key| reader.op_register.0.contains_key(key);
        let negative_indices =
            if has(WRAP) { NegativeIndices::Wrap } else { NegativeIndices::AsSpecified };
        Self { negative_indices, standard_gather: has(STANDARD) }
    }

    /// Sets [`standard_gather`](Self::standard_gather).
    pub fn with_standard_gather(self, standard_gather: bool) -> Self {
        Self { standard_gather, ..self }
    }
}

/// Adds OpenVINO's operators to a reader of models that has options: the one of ONNX.
///
/// ```
/// use tract_openvino::tract_onnx::onnx;
/// use tract_openvino::{NegativeIndices, OpenVinoOptions, WithOpenVinoOptions};
///
/// let options = OpenVinoOptions::default().with_negative_indices(NegativeIndices::Wrap);
/// let reader = onnx().with_openvino_options(options);
/// ```
pub trait WithOpenVinoOptions: WithOpenVino {
    /// Adds the operators with these options. They replace those of an earlier call.
    fn enable_openvino_with(&mut self, options: OpenVinoOptions);

    /// The reader, with the operators and these options.
    fn with_openvino_options(mut self, options: OpenVinoOptions) -> Self {
        self.enable_openvino_with(options);
        self
    }
}

type Built = TractResult<(Box<dyn InferenceOp>, Vec<String>)>;
/// What tract has in its register for an op type.
pub type Builder = fn(&ParsingContext, &NodeProto) -> Built;

// A static has one address, so `is_ours` recognises it.
static BUILDER: Builder = build;

fn is_ours(builder: Builder) -> bool {
    std::ptr::fn_addr_eq(builder, BUILDER)
}

/// The key of the builder that was registered for this op type before ours.
fn previous_key(op_type: &str) -> String {
    format!("{DOMAIN}: previous: {op_type}")
}

/// The key of the builder that another crate has added for an op type of our domain.
fn added_key(op_type: &str) -> String {
    format!("{DOMAIN}: added: {op_type}")
}

/// Adds a builder for nodes of an op type of [`DOMAIN`] to a reader that has the operators of this crate, which stay.
pub fn add_operator(reader: &mut Onnx, op_type: &str, builder: Builder) {
    if OP_TYPES.contains(&op_type) {
        return;
    }
    let register = &mut reader.op_register.0;
    register.insert(added_key(op_type), builder);
    if !register.contains_key(op_type) {
        intercept(register, op_type);
    }
}

/// The register has these keys if the options are set.
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
        // Only once: another plug-in may have replaced our builder since, and call it as its previous one.
        for op_type in OP_TYPES {
            if !register.contains_key(&previous_key(op_type)) {
                intercept(register, op_type);
            }
        }
        // A node of our domain must not get an operator of ONNX with the same name. So all builders of tract
        // are replaced, but not those of other plug-ins: they may know our domain.
        for (op_type, stock) in &tract_onnx::onnx().op_register.0 {
            if register.get(op_type).is_some_and(|it| std::ptr::fn_addr_eq(*it, *stock)) {
                intercept(register, op_type);
            }
        }
        // tract has no builder for these. Ours refuses them with a better error.
        for op_type in UNSUPPORTED_OP_TYPES {
            if !register.contains_key(op_type) {
                intercept(register, op_type);
            }
        }
    }
}

/// Registers [`build`] for an op type, and keeps the previous builder for it to call.
fn intercept(register: &mut HashMap<String, Builder>, op_type: &str) {
    let previous = register.insert(op_type.into(), BUILDER).unwrap_or(unimplemented);
    register.insert(previous_key(op_type), previous);
}

/// What tract does with an op type that is not registered.
fn unimplemented(_: &ParsingContext, node: &NodeProto) -> Built {
    let op = UnimplementedOp::new(node.output.len(), &node.op_type, format!("{node:?}"));
    Ok((op.into(), vec![]))
}

fn build(ctx: &ParsingContext, node: &NodeProto) -> Built {
    refuse_unknown_operators(ctx, node)?;
    let register = &ctx.framework.op_register.0;
    let is_standard = ["", "ai.onnx"].contains(&&*node.domain);
    if is_standard
        && standard::INDEXING.contains(&&*node.op_type)
        && register.contains_key(STANDARD)
    {
        return Ok((standard::indexing(node)?, vec![]));
    }
    if node.domain != DOMAIN {
        let previous = register.get(&previous_key(&node.op_type));
        let previous = previous.copied().unwrap_or(unimplemented);
        let (op, closures) = previous(ctx, node)?;
        if !is_standard {
            return Ok((op, closures));
        }
        let op = standard::mended(node, op, |node| previous(ctx, node).map(|(op, _)| op))?;
        return Ok((op, closures));
    }
    let negative_indices = match register.contains_key(WRAP) {
        true => NegativeIndices::Wrap,
        false => NegativeIndices::AsSpecified,
    };
    if let Some(added) = register.get(&added_key(&node.op_type)) {
        return added(ctx, node);
    }
    let op = match &*node.op_type {
        GatherRevision::OP_TYPE => {
            let operation = operation(ctx, node, &["data", "indices", "axis"], negative_indices)?;
            expand(InferenceGather { operation, axis: Axis::Input })
        }
        GatherNdRevision::OP_TYPE => {
            let operation = operation(ctx, node, &["data", "indices"], negative_indices)?;
            expand(InferenceGatherNd(operation))
        }
        _ => bail!(unknown_operators(ctx, &[node])),
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
    check_inputs(revision.spec(), node, inputs)?;
    let batch_dims = batch_dims(revision.spec(), node)?;
    let operation = Operation::new(revision).with_batch_dims(batch_dims)?;
    Ok(operation.with_negative_indices(negative_indices))
}

/// The revision of a node: by its attribute `version`, else by the model's import of the domain, else the
/// newest.
fn revision<R: Revision>(ctx: &ParsingContext, node: &NodeProto) -> TractResult<R> {
    match operator_set(ctx, node)? {
        Some(OperatorSet::OfNode(opset)) => R::for_opset(opset),
        Some(OperatorSet::OfModel(opset)) => R::for_opset(opset)
            .with_context(|| format!("the model imports domain {DOMAIN} in version {opset}")),
        None => {
            let newest = R::newest();
            log::warn!(
                "node {:?} is of domain {DOMAIN}, which the model does not import: it is read as {}",
                node.name,
                newest.spec().name
            );
            Ok(newest)
        }
    }
}

/// The operator set that a node of [`DOMAIN`] is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorSet {
    /// That of its attribute `version`.
    OfNode(i64),
    /// The version in which the model imports the domain.
    OfModel(i64),
}

/// The operator set of a node: by its attribute `version`, else by the model's import of the domain.
///
/// # Errors
///
/// The attribute is no operator set, or the model imports the domain in two versions.
pub fn operator_set(ctx: &ParsingContext, node: &NodeProto) -> TractResult<Option<OperatorSet>> {
    if let Some(version) = node.get_attr_opt::<&str>("version")? {
        let opset = version.strip_prefix("opset").and_then(|digits| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            if plain { digits.parse().ok() } else { None }
        });
        let Some(opset) = opset else {
            bail!(
                "{}: attribute version is {version:?}, but must be \"opset\" and a number, like \"opset8\"",
                node.op_type
            )
        };
        return Ok(Some(OperatorSet::OfNode(opset)));
    }
    let mut imports = ctx.model.opset_import.iter().filter(|import| import.domain == DOMAIN);
    let Some(import) = imports.next() else { return Ok(None) };
    if let Some(other) = imports.find(|other| other.version != import.version) {
        bail!(
            "the model imports domain {DOMAIN} in versions {} and {}, but must import it in one",
            import.version,
            other.version
        )
    }
    Ok(Some(OperatorSet::OfModel(import.version)))
}

fn batch_dims(spec: &Spec, node: &NodeProto) -> TractResult<i64> {
    let allowed: &[&str] = match spec.batch_dims {
        BatchDims::Absent => &["version"],
        _ => &["batch_dims", "version"],
    };
    for attribute in &node.attribute {
        ensure!(
            allowed.contains(&&*attribute.name),
            "{}: has attribute {:?}, but must have no attributes but {}{}",
            spec.name,
            attribute.name,
            allowed.join(" and "),
            if attribute.name == "axis" { ": axis is the third input" } else { "" }
        );
    }
    Ok(node.get_attr_opt("batch_dims")?.unwrap_or(0))
}

/// Refuses a model with operators of our domain that neither this crate nor another plug-in has. The error names
/// them all.
///
/// tract calls builders node by node, and none for an op type that is not registered. So the first node that gets
/// to [`build`] looks at the whole model.
fn refuse_unknown_operators(ctx: &ParsingContext, node: &NodeProto) -> TractResult<()> {
    let [graph] = &*ctx.parent_graphs else { return Ok(()) };
    let register = &ctx.framework.op_register.0;
    let builder = |node: &NodeProto| register.get(&node.op_type).copied();
    // Is this the first node? From it backwards, the search ends at the previous one that got here, so all
    // searches together take linear time. (Another plug-in may pass a copy, which is not in the graph.)
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
                && !register.contains_key(&added_key(&node.op_type))
                && builder(node).is_none_or(is_ours)
            {
                unknown.push(node);
            }
            for attribute in &node.attribute {
                graphs.extend(attribute.g.iter().chain(&attribute.graphs));
            }
        }
    }
    ensure!(unknown.is_empty(), unknown_operators(ctx, &unknown));
    Ok(())
}

fn unknown_operators(ctx: &ParsingContext, nodes: &[&NodeProto]) -> String {
    let added = added_key("");
    let register = &ctx.framework.op_register.0;
    let added = match register.keys().filter(|key| key.starts_with(&added)).count() {
        0 => String::new(),
        added => format!(", and {added} more that are registered"),
    };
    let mut op_types: Vec<&str> = nodes.iter().map(|node| &*node.op_type).collect();
    op_types.sort_unstable();
    op_types.dedup();
    format!(
        "the model has operators of domain {DOMAIN} that tract-openvino does not have: {}. It has {}{added}",
        op_types.join(", "),
        OP_TYPES.join(" and ")
    )
}
