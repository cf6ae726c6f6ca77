//! What every operator tells tract: the impls of `Op`, `EvalOp` and `TypedOp`, as far as operators do not differ in them.
//!
//! The macros are for the crates above, too. Where they are called, tract's names are in scope, by
//! `use tract_core::internal::*`.

use tract_core::internal::*;

/// `Op` of a typed operator: its name, and what other methods of it give, as in
/// `impl_op!(Softmax, "Softmax", info = |op| vec![format!("axis: {}", op.axis)])`.
///
/// A name that is not always the same is given like these: `name = |op| …`.
#[macro_export]
#[doc(hidden)]
macro_rules! impl_op {
    (@name($op:pat_param) $value:expr) => {
        fn name(&self) -> StaticName {
            let $op = self;
            $value.into()
        }
    };
    (@info($op:pat_param) $value:expr) => {
        fn info(&self) -> TractResult<Vec<String>> {
            let $op = self;
            Ok($value)
        }
    };
    (@validation($op:pat_param) $value:expr) => {
        fn validation(&self) -> Validation {
            let $op = self;
            $value
        }
    };
    (@mints_runtime_symbols($op:pat_param) $value:expr) => {
        fn mints_runtime_symbols(&self) -> bool {
            let $op = self;
            $value
        }
    };
    (@required_bound_symbols($op:pat_param, $inputs:pat_param) $value:expr) => {
        fn required_bound_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
            let ($op, $inputs) = (self, inputs);
            $value
        }
    };
    ($type:ident $(, $method:ident = |$($argument:pat_param),+| $value:expr)+ $(,)?) => {
        impl Op for $type {
            $($crate::impl_op!(@$method($($argument),+) $value);)+

            op_as_typed_op!();
        }
    };
    ($type:ident, $name:expr $(, $($methods:tt)*)?) => {
        $crate::impl_op!($type, name = |_| $name $(, $($methods)*)?);
    };
}

/// All of an operator that knows its outputs from its inputs alone: `Op`, as [`impl_op`] has it, `Eq`, and the rest from two methods of
/// the type, `eval(&self, inputs: TVec<TValue>)` and `facts(&self, inputs: &[&TypedFact])`, which give one output, or all; `with` some
/// more methods of `TypedOp`.
#[macro_export]
#[doc(hidden)]
macro_rules! impl_plain_op {
    ($type:ident $(with { $($method:item)* })?, $($op:tt)+) => {
        $crate::impl_op!($type, $($op)+);

        // Nothing that reads a model compares numbers that are NaN.
        impl Eq for $type {}

        impl EvalOp for $type {
            op_out_of_plan!();

            fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
                Ok($crate::OneOrAll::into_all(self.eval(inputs)?))
            }
        }

        impl TypedOp for $type {
            // Not of the same name: a type that has none would call this one again, without end.
            fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
                Ok($crate::OneOrAll::into_all(self.facts(inputs)?))
            }

            $($($method)*)?

            as_op!();
        }
    };
}

/// What operators give: most have one output, and some have several.
#[doc(hidden)]
pub trait OneOrAll<T> {
    fn into_all(self) -> TVec<T>;
}

impl<T> OneOrAll<T> for T {
    fn into_all(self) -> TVec<T> {
        tvec!(self)
    }
}

impl OneOrAll<TValue> for Tensor {
    fn into_all(self) -> TVec<TValue> {
        tvec!(self.into_tvalue())
    }
}

impl<T> OneOrAll<T> for TVec<T> {
    fn into_all(self) -> TVec<T> {
        self
    }
}

/// `EvalOp` and `TypedOp` of an operator that gives its only input as it is, without what tract knows of its value.
///
/// It says whether tract may compute it early, `op_out_of_plan` or `not_out_of_plan`, and `pass_axes` if changes of axes pass it.
#[macro_export]
#[doc(hidden)]
macro_rules! impl_pass_through {
    ($type:ident, $out_of_plan:ident $(, $pass_axes:ident)?) => {
        impl EvalOp for $type {
            $out_of_plan!();

            fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
                Ok(inputs)
            }
        }

        impl TypedOp for $type {
            fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
                $crate::checks::expect_input_count(&self.name(), inputs.len(), 1..=1)?;
                Ok(tvec!(inputs[0].without_value()))
            }

            $($crate::$pass_axes!();)?

            as_op!();
        }
    };
}

/// The methods of `TypedOp` by which changes of axes pass an operator, or `mapping`, the one that says that its axes are those of its
/// inputs.
#[macro_export]
#[doc(hidden)]
macro_rules! pass_axes {
    (mapping) => {
        fn axes_mapping(
            &self,
            inputs: &[&TypedFact],
            outputs: &[&TypedFact],
        ) -> TractResult<AxesMapping> {
            AxesMapping::natural(inputs, outputs)
        }
    };
    () => {
        $crate::pass_axes!(mapping);

        fn change_axes(
            &self,
            model: &TypedModel,
            node: &TypedNode,
            _io: InOut,
            change: &AxisOp,
        ) -> TractResult<Option<AxisChangeConsequence>> {
            Ok(Some(AxisChangeConsequence::new(model, node, None, change)))
        }
    };
}

/// The axes of an operator that changes some axes of its first input, and whose output has all others as they are.
#[doc(hidden)]
pub fn map_unchanged_axes(
    inputs: &[&TypedFact],
    outputs: &[&TypedFact],
    is_changed: impl Fn(usize) -> bool,
) -> TractResult<AxesMapping> {
    let mut mapping = AxesMapping::disconnected(inputs, outputs)?;
    for axis in (0..inputs[0].rank()).filter(|axis| !is_changed(*axis)) {
        mapping = mapping.linking((InOut::In(0), axis), (InOut::Out(0), axis))?;
    }
    Ok(mapping)
}

/// Whether an operator is of one of some types.
macro_rules! is_one_of {
    ($op:expr, $($kind:ty),+) => {
        $($op.is::<$kind>())||+
    };
}
