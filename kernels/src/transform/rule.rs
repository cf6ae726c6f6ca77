//! What a rule is.

use std::cell::RefCell;
use std::fmt::Debug;

use tract_core::internal::*;

use super::KernelsTransform;
use super::found::Found;
use crate::attention::CachePrecision;
use crate::compressed::Precision;

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
pub trait Rule: Debug + Send + Sync {
    /// Its name, in snake_case.
    fn name(&self) -> &'static str;

    /// When it is tried.
    fn phase(&self) -> Phase;

    /// What becomes of a node.
    ///
    /// # Errors
    ///
    /// The model contradicts itself. A node that the rule cannot replace is no error, but [`Rewrite::Refused`].
    fn rewrite(
        &self,
        session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite>;
}

/// What a rule says of a node.
#[derive(Debug)]
pub enum Rewrite {
    /// It is none of the nodes that the rule is for.
    NotMine,
    /// It is one of them, but it stays, for this reason: what is, and what must be.
    Refused(String),
    /// It is replaced.
    Replaced(Box<TypedModelPatch>),
}

impl From<TypedModelPatch> for Rewrite {
    fn from(patch: TypedModelPatch) -> Rewrite {
        Rewrite::Replaced(Box::new(patch))
    }
}

/// A rule of this crate: its name, when it is tried, and what becomes of a node. Nothing is [`Rewrite::NotMine`].
#[derive(Debug)]
pub(super) struct NodeRule(
    pub &'static str,
    pub Phase,
    pub fn(&Session, &TypedModel, &TypedNode) -> Found<Rewrite>,
);

impl Rule for NodeRule {
    fn name(&self) -> &'static str {
        self.0
    }

    fn phase(&self) -> Phase {
        self.1
    }

    fn rewrite(
        &self,
        session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite> {
        Ok((self.2)(session, model, node)?.unwrap_or(Rewrite::NotMine))
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

    /// What data may be rounded to that meets compressed weights.
    pub(super) fn precision(&self) -> Precision {
        match self.transform.config.dynamic_quantization {
            true => Precision::Dynamic,
            false => Precision::Exact,
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

/// A rule of a crate above this one, which every [`KernelsTransform`] then has.
#[derive(Debug)]
pub struct RegisteredRule(pub &'static dyn Rule);

inventory::collect!(RegisteredRule);

/// Registers a rule, for every [`KernelsTransform`] of a program that links the crate. Registered rules are tried after
/// those of this crate.
///
/// ```
/// # use tract_core::internal::*;
/// use tract_openvino_kernels::{Phase, Rewrite, Rule, Session, register_rule};
///
/// #[derive(Debug)]
/// struct Mine;
///
/// impl Rule for Mine {
///     fn name(&self) -> &'static str {
///         "mine"
///     }
///
///     fn phase(&self) -> Phase {
///         Phase::Decluttered
///     }
///
///     fn rewrite(&self, _: &Session, _: &TypedModel, node: &TypedNode) -> TractResult<Rewrite> {
///         Ok(match &*node.op.name() {
///             "EinSum" => Rewrite::Refused("it is only an example".into()),
///             _ => Rewrite::NotMine,
///         })
///     }
/// }
///
/// register_rule!(Mine);
/// ```
#[macro_export]
macro_rules! register_rule {
    ($rule:expr) => {
        $crate::inventory::submit! { $crate::RegisteredRule(&$rule) }
    };
}

/// Names operators of a crate above this one that put elements of their inputs in other places, and do nothing else: each element of
/// the one output is one of an input, of whatever type they are, and all inputs have elements that are moved. Quantised networks
/// then run them on codes. If [`change_axes`](tract_core::ops::TypedOp::change_axes) can put the channels last, no axis is moved before or
/// after such an operator.
#[derive(Debug)]
pub struct RegisteredMovement(pub fn(&dyn TypedOp) -> bool);

inventory::collect!(RegisteredMovement);

/// Registers which operators [move elements](RegisteredMovement), for every [`KernelsTransform`] of a program that links the
/// crate.
///
/// ```
/// use tract_core::ops::array::Tile;
/// use tract_openvino_kernels::register_movement;
///
/// register_movement!(|op| op.is::<Tile>());
/// ```
#[macro_export]
macro_rules! register_movement {
    ($is_one:expr) => {
        $crate::inventory::submit! { $crate::RegisteredMovement($is_one) }
    };
}

/// Names operators of a crate above this one that check their one input and give it as it is, or fail. Quantised networks then run
/// them on codes. If [`change_axes`](tract_core::ops::TypedOp::change_axes) can put the channels last, no axis is moved before or after
/// such an operator.
#[derive(Debug)]
pub struct RegisteredCheck(pub fn(&dyn TypedOp) -> bool);

inventory::collect!(RegisteredCheck);

/// Registers which operators [check their input](RegisteredCheck), for every [`KernelsTransform`] of a program that links the crate.
///
/// ```
/// use tract_core::ops::identity::Identity;
/// use tract_openvino_kernels::register_check;
///
/// register_check!(|op| op.is::<Identity>());
/// ```
#[macro_export]
macro_rules! register_check {
    ($is_one:expr) => {
        $crate::inventory::submit! { $crate::RegisteredCheck($is_one) }
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
