//! Operations on sizes that have symbols. They give nothing where the result depends on values of symbols.

use tract_core::broadcast::multi_broadcast;
use tract_core::internal::*;
use tract_ndarray::ArrayD;

use crate::layer::{LayerContext, is_size};

/// Computes a constant element by element from two constants with symbols, if that is possible.
pub(super) fn of_sizes<T: Datum>(
    ctx: &mut LayerContext,
    f: impl Fn(&TDim, &TDim) -> Option<T>,
) -> TractResult<Option<OutletId>> {
    let mut operands = tvec!();
    for input in 0..ctx.input_count() {
        let outlet = ctx.input(input)?;
        let fact = ctx.model.outlet_fact(outlet)?;
        let dt = fact.datum_type;
        if fact.konst.is_none() || !(dt.is_tdim() || dt.is_integer()) {
            return Ok(None);
        }
        operands.push((outlet, dt));
    }
    if operands.len() != 2 || operands.iter().all(|(_, dt)| !dt.is_tdim()) {
        return Ok(None);
    }
    let mut tensors = tvec!();
    for (outlet, _) in operands {
        let outlet = ctx.cast("symbols", outlet, DatumType::TDim)?;
        tensors.push(ctx.model.outlet_fact(outlet)?.konst.clone().context("it is a constant")?);
    }
    let shape = multi_broadcast(&[tensors[0].shape(), tensors[1].shape()])?;
    let (a, b) = (tensors[0].to_plain_array_view::<TDim>()?, tensors[1].to_plain_array_view()?);
    let not_broadcast = || format!("{:?} and {:?} cannot be broadcast", a.shape(), b.shape());
    let a = a.broadcast(&*shape).with_context(not_broadcast)?;
    let b = b.broadcast(&*shape).with_context(not_broadcast)?;
    let pairs = a.iter().zip(b.iter());
    let pair = |(a, b)| if are_sizes(a, b) { f(a, b) } else { None };
    let Some(elements) = pairs.map(pair).collect::<Option<Vec<T>>>() else { return Ok(None) };
    let tensor = ArrayD::from_shape_vec(&*shape, elements)?.into_tensor();
    ctx.add_const("of_sizes", tensor).map(Some)
}

/// An operation on two sizes.
pub(super) type OfSizes = fn(&TDim, &TDim) -> Option<TDim>;

#[derive(Clone, Copy)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Relation {
    /// Whether it holds between two sizes, if the answer is the same for all values of symbols.
    pub fn of_sizes(self, a: &TDim, b: &TDim) -> Option<bool> {
        let difference = (a.clone() - b).simplify();
        let positive = if difference.prove_strict_positive() {
            Some(true)
        } else {
            difference.prove_negative_or_zero().then_some(false)
        };
        let negative = if difference.prove_strict_negative() {
            Some(true)
        } else {
            difference.prove_positive_or_zero().then_some(false)
        };
        let equal = match (positive, negative) {
            (Some(false), Some(false)) => Some(true),
            (Some(true), _) | (_, Some(true)) => Some(false),
            _ => None,
        };
        match self {
            Relation::Equal => equal,
            Relation::NotEqual => equal.map(|equal| !equal),
            Relation::Less => negative,
            Relation::LessEqual => positive.map(|positive| !positive),
            Relation::Greater => positive,
            Relation::GreaterEqual => negative.map(|negative| !negative),
        }
    }
}

/// Numbers in sizes are below this, so that nothing overflows.
const MOST: u64 = 1 << 31;

/// The most terms of a size. Networks have few, but some operations double them.
const MOST_TERMS: usize = 100;

pub(super) fn are_sizes(a: &TDim, b: &TDim) -> bool {
    [a, b].into_iter().all(|dim| terms(dim).is_some_and(|terms| terms <= MOST_TERMS))
}

/// The number of terms, or `None` if a number in them is too large.
fn terms(dim: &TDim) -> Option<usize> {
    let fits = |number: u64| (number < MOST).then_some(());
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

pub(super) fn add(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(a.clone() + b)
}

pub(super) fn subtract(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(a.clone() - b)
}

pub(super) fn multiply(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(a.clone() * b)
}

pub(super) fn power(a: &TDim, b: &TDim) -> Option<TDim> {
    let exponent = b.as_i64().filter(|exponent| (0..=4).contains(exponent))?;
    Some((0..exponent).fold(1.to_dim(), |power, _| power * a))
}

pub(super) fn squared_difference(a: &TDim, b: &TDim) -> Option<TDim> {
    let difference = a.clone() - b;
    Some(difference.clone() * &difference)
}

/// A size, or zero where it is negative.
fn positive(a: &TDim) -> TDim {
    if is_size(a) {
        a.clone()
    } else if is_size(&-a.clone()) {
        0.to_dim()
    } else {
        a.clone().maxi(0.to_dim())
    }
}

/// The quotient of a size that is not negative, if tract computes it right.
///
/// tract takes numbers out of sums: it turns `(N + 4) / 3` into `(N + 1) / 3 + 1`. Its division rounds towards
/// zero, so that what is left must not be negative either. That is so if nothing but numbers is subtracted.
fn quotient(a: TDim, divisor: u64) -> Option<TDim> {
    let is_added = |term: &TDim| matches!(term, TDim::Val(_)) || is_size(term);
    let divides = match &a {
        TDim::Add(terms) => terms.iter().all(is_added),
        a => is_size(a),
    };
    divides.then(|| a / divisor)
}

fn truncated_quotient(a: &TDim, divisor: u64) -> Option<TDim> {
    Some(quotient(positive(a), divisor)? - quotient(positive(&-a.clone()), divisor)?)
}

/// The quotient rounded towards zero.
pub(super) fn divide(a: &TDim, b: &TDim) -> Option<TDim> {
    match b.as_i64() {
        Some(0) => None,
        Some(number) => {
            let quotient = truncated_quotient(a, number.unsigned_abs())?;
            Some(if number > 0 { quotient } else { -quotient })
        }
        // Where one is a multiple of the other.
        None => {
            let (product, divisor) = a.maybe_div(b).ok()?;
            truncated_quotient(&product, divisor)
        }
    }
}

/// The quotient rounded down, whatever the sign of the dividend is.
pub(super) fn floor_divide(a: &TDim, b: &TDim) -> Option<TDim> {
    let number = match b.as_i64() {
        Some(number) if number > 0 => number,
        Some(_) => return None,
        None => return divide(a, b).filter(|_| a.prove_positive_or_zero()),
    };
    // Negative numbers are rounded up without their sign.
    let below = positive(&-a.clone()) + (number - 1);
    Some(quotient(positive(a), number as u64)? - quotient(below, number as u64)?)
}

pub(super) fn remainder(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(a.clone() - divide(a, b)? * b)
}

pub(super) fn floor_mod(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(a.clone() - floor_divide(a, b)? * b)
}

pub(super) fn maximum(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(match Relation::GreaterEqual.of_sizes(a, b) {
        Some(true) => a.clone(),
        Some(false) => b.clone(),
        None => a.clone().maxi(b.clone()),
    })
}

pub(super) fn minimum(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(match Relation::LessEqual.of_sizes(a, b) {
        Some(true) => a.clone(),
        Some(false) => b.clone(),
        None => a.clone().mini(b.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares operations on sizes with those on their values.
    #[test]
    fn quotients_of_sizes() {
        let symbols = SymbolScope::default();
        symbols.add_assertion("M>=4").unwrap();
        let (n, m) = (symbols.sym("N"), symbols.sym("M"));
        let (dim, other) = (n.to_dim(), m.to_dim());
        let pad = 8.to_dim() - remainder(&dim, &8.to_dim()).unwrap();
        let dividends = [
            dim.clone(),
            dim.clone() - 4,
            4.to_dim() - &dim,
            -dim.clone(),
            other.clone() - 4,
            dim.clone() * 3 - &other,
            dim + 7,
            pad,
        ];
        let mut symbolic = 0;
        for a in &dividends {
            for divisor in [1i64, 3, 8, -3] {
                let b = divisor.to_dim();
                let results =
                    [divide(a, &b), remainder(a, &b), floor_divide(a, &b), floor_mod(a, &b)];
                symbolic += results.iter().flatten().count();
                for (n_value, m_value) in
                    [(0, 4), (2, 4), (3, 5), (4, 6), (8, 13), (9, 30), (17, 4)]
                {
                    let values = SymbolValues::default().with(&n, n_value).with(&m, m_value);
                    let value = a.eval_to_i64(&values).unwrap();
                    let floor = value.div_euclid(divisor.abs());
                    let expected =
                        [value / divisor, value % divisor, floor, value - floor * divisor];
                    for (found, expected) in results.iter().zip(expected) {
                        let Some(found) = found else { continue };
                        let number = found.eval_to_i64(&values).unwrap();
                        assert_eq!(number, expected, "{a} by {divisor}: {found} at {values:?}");
                    }
                }
            }
        }
        // A divisor below zero is not rounded down.
        assert_eq!(symbolic, dividends.len() * (3 * 4 + 2));
    }
}
