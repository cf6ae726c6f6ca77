//! Equations between dimensions.

use tract_core::internal::*;

/// Solves `sum = 0` for a symbol, if the result is a whole number for all values of the other symbols.
pub(crate) fn solved(sum: &TDim, symbol: &Symbol) -> Option<TDim> {
    let terms = match sum {
        // A common factor does not matter.
        TDim::MulInt(_, sum) if !matches!(**sum, TDim::Sym(_)) => return solved(sum, symbol),
        TDim::Add(terms) => terms.clone(),
        term => vec![term.clone()],
    };
    let (with, without): (Vec<TDim>, Vec<TDim>) =
        terms.into_iter().partition(|term| term.symbols().contains(symbol));
    let factor = match &*with {
        [TDim::Sym(_)] => 1,
        [TDim::MulInt(factor, dim)] if matches!(**dim, TDim::Sym(_)) => *factor,
        _ => return None,
    };
    let rest = without.iter().sum::<TDim>().simplify();
    let rest = if factor > 0 { (rest * -1).simplify() } else { rest };
    let factor = factor.unsigned_abs();
    let divides = factor == 1 || rest.gcd().is_multiple_of(factor);
    divides.then(|| (rest / factor).simplify())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_that_follow_from_others() {
        let scope = SymbolScope::default();
        let (a, b) = (scope.sym("a"), scope.sym("b"));
        for (sum, symbol, expected) in [
            ("a-b", &a, Some("b")),
            ("a-b", &b, Some("a")),
            ("b-a", &a, Some("b")),
            ("a-3", &a, Some("3")),
            ("3-a", &a, Some("3")),
            ("2*a-6", &a, Some("3")),
            ("2*a-5", &a, None),
            ("2*a-4*b", &a, Some("2*b")),
            ("2*a-4*b", &b, None),
            ("a+b-7", &b, Some("7-a")),
            ("a*b-b", &a, None),
            ("(a+1)/2-b", &a, None),
        ] {
            let sum = scope.parse_tdim(sum).unwrap().simplify();
            let expected = expected.map(|text| scope.parse_tdim(text).unwrap().simplify());
            assert_eq!(solved(&sum, symbol), expected, "{sum} for {symbol}");
        }
    }
}
