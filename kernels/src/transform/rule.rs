//! What a rule is.

use std::cell::RefCell;
use std::fmt::Debug;

use tract_core::internal::*;

use super::found::Found;
use super::{InferencePrecision, KernelsTransform};
use crate::attention::CachePrecision;
use crate::compressed::{Format, Precision};
use crate::isa::{Bf16Isa, Instructions};

/// When a rule is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The model is as its reader gave it. Here is hidden what tract would compute at once, like weights that shall stay
    /// compressed.
    AsRead,
    /// The model is decluttered, but tract has moved no axes yet: a convolution of a model that is read in `NCHW` still is
    /// in this order, with the batch. So convolutions are replaced here.
    BeforeAxisMoves,
    /// The model is decluttered. Axes were moved into products, so these are replaced here.
    Decluttered,
    /// What no other rule took. Rules see the nodes from the outputs on, so that a node can take those before it; those are empty
    /// when their turn comes.
    Rest,
}

/// Replaces one kind of operator.
///
/// A rule looks at one node and at what is around it. It takes what tract's declutter leaves, in any order of axes, and
/// what it gives stays when the model is decluttered and optimised again.
#[derive(Debug)]
pub struct Rule {
    pub(super) name: &'static str,
    pub(super) phase: Phase,
    pub(super) rewrite: RewriteNode,
}

/// What a rule says of a node.
type RewriteNode = fn(&Session, &TypedModel, &TypedNode) -> TractResult<Option<Rewrite>>;

impl Rule {
    /// A rule of this name, in snake_case, which is tried in a phase, and says what becomes of a node: nothing of one that it is not for.
    /// A node that it cannot replace is no error, but [`Rewrite::Refused`].
    pub const fn new(name: &'static str, phase: Phase, rewrite: RewriteNode) -> Rule {
        Rule { name, phase, rewrite }
    }
}

/// What a rule says of a node that it is for.
#[derive(Debug)]
pub enum Rewrite {
    /// It stays, for this reason: what is, and what must be.
    Refused(String),
    /// It is replaced.
    Replaced(Box<TypedModelPatch>),
}

impl From<TypedModelPatch> for Rewrite {
    fn from(patch: TypedModelPatch) -> Rewrite {
        Rewrite::Replaced(Box::new(patch))
    }
}

/// What a rule decided, for [`KernelsTransform::transform_with_decisions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The name of the node. Of a node in a body, that of the node with the body is in front of it.
    pub node: String,
    /// The name of its operator.
    pub op: String,
    /// The name of the rule.
    pub rule: &'static str,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is this operator now.
    Replaced(String),
    /// It stays, for this reason.
    Refused(String),
}

/// A run of the transform, which rules for operators with bodies call for these.
#[derive(Debug)]
pub struct Session<'a> {
    transform: &'a KernelsTransform,
    /// The names of the nodes around this model.
    prefix: String,
    decisions: RefCell<Vec<Decision>>,
}

impl<'a> Session<'a> {
    pub(super) fn new(transform: &'a KernelsTransform, prefix: String) -> Session<'a> {
        Session { transform, prefix, decisions: RefCell::default() }
    }

    /// The body of a node, transformed. Its inputs and outputs stay what they are.
    ///
    /// # Errors
    ///
    /// As those of the transform.
    pub fn body(&self, node: &TypedNode, body: &TypedModel) -> TractResult<TypedModel> {
        let prefix = format!("{}{}/", self.prefix, node.name);
        let mut body = body.clone();
        let decisions = self.transform.run(&mut body, prefix)?;
        self.decisions.borrow_mut().extend(decisions);
        Ok(body)
    }

    /// What keys and values of earlier runs are kept as.
    pub fn kv_cache_precision(&self) -> CachePrecision {
        self.transform.config.kv_cache_precision
    }

    /// What data may be rounded to that meets compressed weights of a format.
    pub(super) fn precision(&self, format: Format) -> Precision {
        let may_be_bytes = self.transform.config.dynamic_quantization && format.bits() <= 8;
        match self.bf16() {
            // Tiles make more of bf16, as bytes have a scale for each few of them.
            Some(isa) if !may_be_bytes || Instructions::detect().has_amx() => Precision::Bf16(isa),
            _ if may_be_bytes => Precision::Dynamic,
            _ => Precision::Exact,
        }
    }

    /// Whether factors of products are rounded to bf16: the options say so, and the processor multiplies such numbers fast.
    pub(super) fn bf16(&self) -> Option<Bf16Isa> {
        match self.transform.config.inference_precision {
            InferencePrecision::Bf16 => Instructions::detect().fast_bf16(),
            InferencePrecision::F32 => None,
        }
    }

    /// Notes what became of a node by the rule of this name.
    pub(super) fn decide(&self, rule: &'static str, node: &TypedNode, outcome: Outcome) {
        let node_name = format!("{}{}", self.prefix, node.name);
        match &outcome {
            Outcome::Replaced(by) => log::debug!("{rule}: {node_name} is replaced by {by}"),
            Outcome::Refused(reason) => log::debug!("{rule}: {node_name} stays: {reason}"),
        }
        self.decisions.borrow_mut().push(Decision {
            node: node_name,
            op: node.op.name().to_string(),
            rule,
            outcome,
        });
    }

    pub(super) fn into_decisions(self) -> Vec<Decision> {
        self.decisions.into_inner()
    }
}

inventory::collect!(Rule);

/// Registers a rule of a crate above this one, for every [`KernelsTransform`] of a program that links the crate. Registered rules are tried
/// after those of this crate.
///
/// ```
/// # use tract_core::internal::*;
/// use tract_openvino_kernels::{Phase, Rewrite, Rule, Session, register_rule};
///
/// fn rewrite(_: &Session, _: &TypedModel, node: &TypedNode) -> TractResult<Option<Rewrite>> {
///     Ok(match &*node.op.name() {
///         "EinSum" => Some(Rewrite::Refused("it is only an example".into())),
///         _ => None,
///     })
/// }
///
/// register_rule!(Rule::new("mine", Phase::Decluttered, rewrite));
/// ```
#[macro_export]
macro_rules! register_rule {
    ($rule:expr) => {
        $crate::inventory::submit! { $rule }
    };
}

/// What operators of a crate above this one do, if that is nothing with the values of their elements. Quantised networks then run
/// them on codes. If [`change_axes`](tract_core::ops::TypedOp::change_axes) can put the channels last, no axis is moved before or after
/// such an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movement {
    /// They put elements of their inputs in other places: each element of the one output is one of an input, of whatever type they are,
    /// and all inputs have elements that are moved.
    Moves,
    /// They check their one input and give it as it is, or fail.
    Checks,
}

/// Says which operators do that.
#[derive(Debug)]
pub struct RegisteredMovement(pub Movement, pub fn(&dyn TypedOp) -> bool);

inventory::collect!(RegisteredMovement);

impl Movement {
    /// Whether an operator is registered for it.
    pub(super) fn has(self, op: &dyn TypedOp) -> bool {
        inventory::iter::<RegisteredMovement>().any(|it| it.0 == self && it.1(op))
    }
}

/// Registers which operators [move or check](Movement) elements, for every [`KernelsTransform`] of a program that links the crate.
///
/// ```
/// use tract_core::ops::array::Tile;
/// use tract_core::ops::identity::Identity;
/// use tract_openvino_kernels::register_movement;
///
/// register_movement!(Moves, |op| op.is::<Tile>());
/// register_movement!(Checks, |op| op.is::<Identity>());
/// ```
#[macro_export]
macro_rules! register_movement {
    ($movement:ident, $is_one:expr) => {
        $crate::inventory::submit! {
            $crate::RegisteredMovement($crate::Movement::$movement, $is_one)
        }
    };
}

/// What a function gives that may refuse a node.
pub(super) trait Refusable {
    fn refused(reason: String) -> Self;
}

impl Refusable for Found<Rewrite> {
    fn refused(reason: String) -> Self {
        Ok(Some(Rewrite::Refused(reason)))
    }
}

impl<T> Refusable for Result<T, String> {
    fn refused(reason: String) -> Self {
        Err(reason)
    }
}

impl<T> Refusable for TractResult<Result<T, String>> {
    fn refused(reason: String) -> Self {
        Ok(Err(reason))
    }
}

/// Ends a function: the node stays, for a reason.
macro_rules! refuse {
    ($($reason:tt)*) => {
        return $crate::transform::rule::Refusable::refused(format!($($reason)*))
    };
}
pub(super) use refuse;

/// Ends a function, if something holds.
macro_rules! refuse_if {
    ($condition:expr, $($reason:tt)*) => {
        if $condition {
            $crate::transform::rule::refuse!($($reason)*);
        }
    };
}
pub(super) use refuse_if;

/// Ends a function, unless a type is F32. The reason begins with what has the type.
macro_rules! refuse_unless_f32 {
    ($what:literal, $dt:expr) => {
        if $dt != DatumType::F32 {
            $crate::transform::rule::refuse!("{} {:?}, but must be F32", $what, $dt);
        }
    };
}
pub(super) use refuse_unless_f32;

/// What there is, if there is no reason why the node stays.
macro_rules! or_refuse {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(reason) => $crate::transform::rule::refuse!("{reason}"),
        }
    };
}
pub(super) use or_refuse;
