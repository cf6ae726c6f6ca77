//! From tract's operators to those of this crate.

mod attention;
mod axes;
mod bodies;
mod chain;
mod channels_last;
mod constants;
mod contraction;
mod convolution;
mod elementwise;
mod found;
mod fully_connected;
mod gelu;
mod half;
mod layout;
mod lstm;
mod movements;
mod normalization;
mod parallel;
mod pool;
mod prelu;
mod quantized;
mod reduction;
mod resize;
mod rotary;
mod rounded;
mod rule;
mod softmax;
#[cfg(test)]
mod tests;
mod translation;
mod upsampling;

use std::fmt::Debug;

use tract_core::internal::*;
use tract_core::optim::Optimizer;
use tract_core::transform::ModelTransform;

use crate::attention::CachePrecision;
use crate::barrier::guard_downsamples;

use constants::MoveConstants;

pub use rule::{Decision, Movement, Outcome, Phase, RegisteredMovement, Rewrite, Rule, Session};

/// The rules of this crate, in the order in which they are tried.
static RULES: [Rule; 19] = [
    Rule::new("compressed", Phase::AsRead, fully_connected::rewrite_compressed),
    // Convolutions take it over.
    Rule::new("prelu", Phase::BeforeAxisMoves, prelu::rewrite),
    // Products do.
    Rule::new("gelu", Phase::BeforeAxisMoves, gelu::rewrite),
    Rule::new("convolution", Phase::BeforeAxisMoves, convolution::rewrite),
    Rule::new("pool", Phase::BeforeAxisMoves, pool::rewrite),
    Rule::new("resize", Phase::BeforeAxisMoves, resize::rewrite),
    // tract would move axes into the product, which are few in front of a matrix.
    Rule::new("fully_connected", Phase::BeforeAxisMoves, fully_connected::rewrite),
    Rule::new("rotary_embedding", Phase::Decluttered, rotary::rewrite),
    Rule::new("normalization", Phase::Decluttered, normalization::rewrite),
    // It takes two products and a softmax, which are single ones for the next rules.
    Rule::new("attention", Phase::Decluttered, attention::rewrite),
    Rule::new("softmax", Phase::Decluttered, softmax::rewrite),
    // Normalizations have sums, too.
    Rule::new("reduction", Phase::Decluttered, reduction::rewrite),
    Rule::new("contraction", Phase::Decluttered, contraction::rewrite),
    Rule::new("axis_moves", Phase::Decluttered, axes::rewrite),
    // Before the next one, which would rewrite the body of the loop.
    Rule::new("lstm", Phase::Decluttered, lstm::rewrite),
    // What is in a body may leave it when the model is decluttered, so they are the last of their phase.
    Rule::new("bodies", Phase::Decluttered, bodies::rewrite),
    Rule::new("elementwise", Phase::Rest, elementwise::rewrite),
    Rule::new("movements", Phase::Rest, movements::rewrite),
    Rule::new("loops", Phase::Rest, parallel::rewrite),
];

/// Replaces operators of tract by those of this crate, which run faster. tract has it by the name `kernels_transform`.
///
/// It takes a model as its reader gives it, or one that is decluttered, and declutters it. It enters the bodies of loops
/// and conditions. A model that is transformed can be run, decluttered and optimised, but not be saved.
///
/// Products and convolutions in half precision, and what is between them, become such in single precision, whose results are rounded.
/// What lies between FakeQuantize operators, or QuantizeLinear and DequantizeLinear, works on codes of 8 bits. Compressed weights
/// ([`DequantizedConst`](crate::DequantizedConst)) stay compressed.
/// Replaced are operators in single precision: convolutions whose weights are constants, products of two matrices or of
/// many, attention, normalization of rows, pools, softmax, reductions of axes, Resize, loops over the steps of an LSTM, and functions of
/// elements; and concatenations and moves of axes, of any type. [`transform_with_decisions`](KernelsTransform::transform_with_decisions) says which, and why others stay.
#[derive(Debug)]
pub struct KernelsTransform {
    rules: Vec<&'static Rule>,
    config: KernelsConfig,
}

/// The options of `kernels_transform`.
///
/// ```
/// use tract_openvino_kernels::{KernelsConfig, KernelsTransform};
///
/// let mut config = KernelsConfig::default();
/// config.without = vec!["attention".to_string()];
/// KernelsTransform::new(config)?;
/// # tract_core::prelude::TractResult::Ok(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct KernelsConfig {
    /// The names of rules that are left out.
    pub without: Vec<String>,
    /// Whether products with compressed weights of 8 and 4 bits may round their data: to 8 bits, with a scale for each group of 32
    /// numbers of a row. They do where there are more than six rows of data, as in a prompt, and the processor has VNNI with
    /// vectors of 512 bits. If factors may be rounded to bf16, too, and the processor has AMX, that is done instead.
    ///
    /// OpenVINO does so by default (`DYNAMIC_QUANTIZATION_GROUP_SIZE`). It is faster, and the result is another one.
    pub dynamic_quantization: bool,
    /// What attention keeps keys and values of earlier runs as, if the model has them in variables: as they are, or rounded to `U8`.
    ///
    /// OpenVINO rounds them by default (`KV_CACHE_PRECISION`). They then take a quarter of the memory, and the result is another one.
    pub kv_cache_precision: CachePrecision,
    /// What the factors of products in single precision may be rounded to, and tensors between convolutions.
    ///
    /// OpenVINO rounds them by default, to [`Bf16`](InferencePrecision::Bf16) (`INFERENCE_PRECISION_HINT`).
    pub inference_precision: InferencePrecision,
}

/// What the factors of products in single precision are rounded to: of matmuls and fully connected layers, in attention, and with AMX of
/// convolutions without groups. With AMX, tensors that convolutions give each other are rounded, too. Sums, and all else between the
/// products, stay in single precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InferencePrecision {
    /// They are not rounded.
    #[default]
    F32,
    /// Numbers of 8 bits, with the exponents of single precision: to the nearest one, halves to even ones. Constant weights take half the
    /// memory, and products up to half the time with AVX512_BF16, or a tenth with AMX. A processor without these rounds nothing, nor does
    /// one of Intel's without AMX, which multiplies such pairs more slowly than numbers in single precision.
    ///
    /// In such a product, numbers below the normal ones of single precision (2⁻¹²⁶) are 0, and factors within 2⁻⁹ of its largest number
    /// become infinite, and so do
    /// such numbers of tensors. Up to six rows of data that meet compressed weights are not rounded, nor are up to eight queries.
    Bf16,
}

tract_core::register_model_transform!("kernels_transform", KernelsConfig, |config| Ok(Box::new(
    KernelsTransform::new(config)?
)));

impl Default for KernelsTransform {
    fn default() -> KernelsTransform {
        let rules = RULES.iter().chain(inventory::iter::<Rule>()).collect();
        KernelsTransform { rules, config: KernelsConfig::default() }
    }
}

impl KernelsTransform {
    /// The transform with these options.
    ///
    /// # Errors
    ///
    /// There is no rule of a name that is left out.
    pub fn new(config: KernelsConfig) -> TractResult<KernelsTransform> {
        let mut transform = KernelsTransform::default();
        for name in &config.without {
            let rules = transform.rules.iter().map(|rule| rule.name);
            let names: Vec<&str> =
                [half::NAME, quantized::NAME, rounded::NAME].into_iter().chain(rules).collect();
            ensure!(
                names.contains(&name.as_str()),
                "there is no rule {name:?}, but {}",
                names.join(", ")
            );
            transform.rules.retain(|rule| rule.name != name);
        }
        Ok(KernelsTransform { config, ..transform })
    }

    /// Transforms a model, and says what the rules decided. A node that no rule is for is not among them; one that several
    /// rules looked at is there for each.
    ///
    /// # Errors
    ///
    /// tract cannot declutter the model.
    pub fn transform_with_decisions(&self, model: &mut TypedModel) -> TractResult<Vec<Decision>> {
        self.run(model, String::new())
    }

    fn run(&self, model: &mut TypedModel, prefix: String) -> TractResult<Vec<Decision>> {
        let session = Session::new(self, prefix);
        let is_part = |name: &str| self.config.without.iter().all(|without| without != name);
        if is_part(half::NAME) {
            half::translate(&session, model)?;
        }
        if is_part(quantized::NAME) {
            quantized::translate(&session, model)?;
        }
        self.apply(&session, Phase::AsRead, model)?;
        guard_downsamples(model, 0)?;
        declutter_without(&[LATER_PASS, LEFT_OUT]).optimize(model)?;
        self.apply(&session, Phase::BeforeAxisMoves, model)?;
        channels_last::translate(model)?;
        // Rules change axes, too.
        guard_downsamples(model, 0)?;
        declutter_without(&[LEFT_OUT]).optimize(model)?;
        self.apply(&session, Phase::Decluttered, model)?;
        self.apply(&session, Phase::Rest, model)?;
        if is_part(rounded::NAME) {
            rounded::translate(&session, model)?;
        }
        Ok(session.into_decisions())
    }

    /// Tries the rules of a phase, one after the other, on each node.
    fn apply(&self, session: &Session, phase: Phase, model: &mut TypedModel) -> TractResult<()> {
        for rule in self.rules.iter().filter(|rule| rule.phase == phase) {
            let doing = |node: &TypedNode| format!("rule {}, {node}", rule.name);
            let mut replaced = false;
            let mut order = model.eval_order()?;
            if phase == Phase::Rest {
                order.reverse();
            }
            for id in order {
                let node = model.node(id);
                match (rule.rewrite)(session, model, node).with_context(|| doing(node))? {
                    None => (),
                    Some(Rewrite::Refused(reason)) => {
                        session.decide(rule.name, node, Outcome::Refused(reason))
                    }
                    Some(Rewrite::Replaced(patch)) => {
                        let is_new = |node: &&TypedNode| {
                            !TypedModel::is_source(&node.op) && !node.op.is::<AxisOp>()
                        };
                        let by = patch.nodes().iter().rfind(is_new);
                        let by = by.map_or_else(String::new, |node| node.op.name().to_string());
                        // Of an operator with bodies, what is in them is of interest.
                        if by != node.op.name() {
                            session.decide(rule.name, node, Outcome::Replaced(by));
                        }
                        let doing = doing(node);
                        patch.apply(model).context(doing)?;
                        replaced = true;
                    }
                }
            }
            if replaced {
                model.compact()?;
            }
        }
        Ok(())
    }
}

/// The pass of tract's declutter that waits until convolutions and products with constants are replaced: it moves axes through
/// the model. On some processors it would put the channels of convolutions last. And it fails for a convolution whose bias is
/// not one constant yet, if the batch is 1: `Conv::change_axes` takes a change of the bias's axes for one of the data's.
const LATER_PASS: &str = "ChangeAxes";

/// The pass that makes a product of a concatenation a sum of products, of parts that are copied again. In attention these are the
/// values of all earlier tokens.
const LEFT_OUT: &str = "ConcatThenEinsum";

/// tract's declutter without some of its passes, and with one that moves constants. tract has no other mark of a pass than its text; a test sees to it that the names
/// are still those of passes.
fn declutter_without(names: &[&str]) -> Optimizer {
    let mut optimizer = Optimizer::declutter();
    optimizer.passes.retain(|pass| {
        let text = format!("{pass:?}");
        !names.iter().any(|name| text.starts_with(name))
    });
    // Before the one that would copy them.
    optimizer.add_pass(0, Box::new(MoveConstants));
    optimizer
}

impl ModelTransform for KernelsTransform {
    fn name(&self) -> StaticName {
        "kernels_transform".into()
    }

    fn transform(&self, model: &mut TypedModel) -> TractResult<()> {
        self.transform_with_decisions(model).map(drop)
    }
}
