//! Expressions of symbols that stand for sizes: what tract can be told of them, can tell, and computes right.

use tract_core::internal::*;

/// Says that a symbol is not negative. Otherwise tract does not simplify `(32*h+31)/32`, because its division rounds
/// towards zero.
pub(crate) fn assert_size(scope: &SymbolScope, symbol: &Symbol) -> TractResult<()> {
    scope.add_assertion(format!("{symbol}>=0"))
}

/// Whether a dimension cannot be negative, given that symbols stand for sizes.
pub(crate) fn is_size(dim: &TDim) -> bool {
    match dim {
        TDim::Sym(_) => true,
        TDim::Val(size) => *size >= 0,
        TDim::MulInt(factor, dim) => *factor >= 0 && is_size(dim),
        TDim::Add(terms) if is_negation(terms) => true,
        TDim::Add(terms) | TDim::Mul(terms) | TDim::Min(terms) | TDim::Broadcast(terms) => {
            terms.iter().all(is_size)
        }
        TDim::Max(terms) => terms.iter().any(is_size),
        TDim::Div(dim, _) => is_size(dim),
        TDim::Ge(..) | TDim::Eq(..) => true,
    }
}

/// Whether a sum is 1 without a condition, which is 0 or 1.
fn is_negation(terms: &[TDim]) -> bool {
    let is_condition = |term: &TDim| match term {
        TDim::MulInt(-1, term) => matches!(**term, TDim::Ge(..) | TDim::Eq(..)),
        _ => false,
    };
    matches!(terms, [one, other] if (one.is_one() && is_condition(other)) || (other.is_one() && is_condition(one)))
}

/// Numbers in sizes are below this, so that nothing overflows.
pub(crate) const MOST_NUMBER: u64 = 1 << 31;

/// The most terms of a size. Networks have few, but some operations double them.
const MOST_TERMS: usize = 100;

/// Whether tract simplifies an expression without overflow, and in time.
pub(crate) fn is_small(dim: &TDim) -> bool {
    terms(dim).is_some_and(|terms| terms <= MOST_TERMS)
}

/// The number of terms, or `None` if a number in them is too large.
fn terms(dim: &TDim) -> Option<usize> {
    let fits = |number: u64| (number < MOST_NUMBER).then_some(());
    let sum = |dims: &[TDim]| dims.iter().try_fold(1usize, |sum, dim| sum.checked_add(terms(dim)?));
    Some(match dim {
        TDim::Sym(_) => 1,
        TDim::Val(number) => fits(number.unsigned_abs()).map(|_| 1)?,
        TDim::MulInt(number, dim) => fits(number.unsigned_abs()).and(terms(dim))? + 1,
        TDim::Div(dim, number) => fits(*number).and(terms(dim))? + 1,
        TDim::Ge(a, b) | TDim::Eq(a, b) => terms(a)?.checked_add(terms(b)?)?,
        TDim::Add(dims)
        | TDim::Mul(dims)
        | TDim::Min(dims)
        | TDim::Max(dims)
        | TDim::Broadcast(dims) => sum(dims)?,
    })
}

/// The quotient of a size that is not negative, if tract computes it right.
///
/// tract takes numbers out of sums: it turns `(N + 4) / 3` into `(N + 1) / 3 + 1`. Its division rounds towards
/// zero, so that what is left must not be negative either. That is so if nothing but numbers is subtracted.
pub(crate) fn quotient(a: TDim, divisor: u64) -> Option<TDim> {
    let is_added = |term: &TDim| matches!(term, TDim::Val(_)) || is_size(term);
    let divides = match &a {
        TDim::Add(terms) => terms.iter().all(is_added),
        a => is_size(a),
    };
    divides.then(|| a / divisor)
}
