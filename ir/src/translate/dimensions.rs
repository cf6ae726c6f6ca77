//! The open dimensions of the inputs, and what the graph says about them.
//!
//! IR files have no names for open dimensions: each `?` is a symbol of its own at first. tract compares
//! dimensions by their structure, so that two symbols that must be equal have to be one before anything is
//! wired. Operations know what must be equal, and say so when they are translated ([`Dimensions::equal`]). If
//! that is new, it is remembered, and the translation starts anew ([`Learnt`]). Inputs and variables have few
//! open dimensions, and each start removes one of them.

use std::fmt;

use tract_core::internal::*;

use crate::document::{Graph, PartialShape};
use crate::reader::ShapeOption;

/// What is known of the inputs' dimensions.
#[derive(Debug)]
pub(crate) struct Dimensions {
    scope: SymbolScope,
    /// The shape of each input. An open dimension is a symbol, or what the user gave.
    initial: Vec<TVec<TDim>>,
    /// The dimension that each symbol stands for.
    open: Vec<OpenDimension>,
    /// What symbols are equal to, in the order in which it was learnt.
    learnt: Vec<Equality>,
}

/// A symbol and the dimension that it stands for.
#[derive(Debug)]
struct OpenDimension {
    symbol: Symbol,
    declared: crate::document::Dimension,
    /// Like `dimension 1 of input "input_ids"`.
    description: String,
    /// The input and the axis, unless it is one of a variable.
    place: Option<(usize, usize)>,
}

/// What the symbol of an open dimension is equal to.
#[derive(Debug, Clone)]
struct Equality {
    symbol: Symbol,
    is: TDim,
}

/// The error that starts the translation anew: something was learnt.
#[derive(Debug)]
pub(crate) struct Learnt;

impl fmt::Display for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something was learnt about an open dimension")
    }
}

impl std::error::Error for Learnt {}

impl Dimensions {
    /// The inputs of a graph, with the shapes that the user gives to some of them.
    pub fn new(
        scope: SymbolScope,
        graph: &Graph,
        given: &[ShapeOption],
        declared: &[PartialShape],
    ) -> TractResult<Dimensions> {
        let mut shapes: Vec<Option<Vec<Option<TDim>>>> = vec![None; declared.len()];
        for ShapeOption { input, shape } in given {
            let number = graph.input_by_name(input).with_context(|| {
                let names = (0..declared.len()).flat_map(|input| graph.input_names(input));
                format!(
                    "a shape is given for input {input:?}, but the inputs are {}",
                    names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
                )
            })?;
            let dims = given_shape(&scope, shape)
                .with_context(|| format!("in the shape given for input {input:?}"))?;
            shapes[number] = Some(dims);
        }
        let mut dimensions = Dimensions { scope, initial: vec![], open: vec![], learnt: vec![] };
        for (number, (declared, given)) in declared.iter().zip(shapes).enumerate() {
            let names = graph.input_names(number);
            let name = names.first().map_or("", |name| name);
            let rank = declared.0.len();
            let given = given.unwrap_or_else(|| vec![None; rank]);
            ensure!(
                given.len() == rank,
                "a shape of {} dimensions is given for input {name:?}, but the file declares {declared}",
                given.len()
            );
            let mut shape = tvec!();
            for (axis, (declared, given)) in declared.0.iter().zip(given).enumerate() {
                let dim = match (declared.size(), given) {
                    (size, Some(given)) => {
                        let wrong = given.as_i64().is_some_and(|given| {
                            usize::try_from(given).map_or(true, |given| !declared.allows(given))
                        });
                        ensure!(
                            !wrong && (size.is_none() || given.as_i64().is_some()),
                            "dimension {axis} of input {name:?} is given as {given}, but the file \
                             declares {declared}"
                        );
                        given
                    }
                    (Some(size), None) => size.to_dim(),
                    (None, None) => {
                        let symbol = dimensions.scope.new_with_prefix(&symbol_name(name, axis));
                        // Not the range of the file: tract would reckon with it, and never check it.
                        dimensions.scope.add_assertion(format!("{symbol}>=0"))?;
                        symbol.to_dim()
                    }
                };
                if let TDim::Sym(symbol) = &dim
                    && dimensions.open.iter().all(|open| open.symbol != *symbol)
                {
                    dimensions.open.push(OpenDimension {
                        symbol: symbol.clone(),
                        declared: *declared,
                        description: format!("dimension {axis} of input {name:?}"),
                        place: Some((number, axis)),
                    });
                }
                shape.push(dim);
            }
            dimensions.initial.push(shape);
        }
        Ok(dimensions)
    }

    /// The shape of an input, with all that was learnt so far.
    pub fn of_input(&self, input: usize) -> TractResult<TVec<TDim>> {
        self.initial[input].iter().map(|dim| self.known(dim)).collect()
    }

    /// A dimension, with all that was learnt so far.
    pub fn known(&self, dim: &TDim) -> TractResult<TDim> {
        self.learnt.iter().try_fold(dim.clone(), |dim, known| {
            dim.substitute(&known.symbol, &known.is).map(|dim| dim.simplify())
        })
    }

    /// Adds a symbol for a dimension of a variable that changes from run to run. What is learnt about it is
    /// checked when the model runs.
    pub fn add_state(
        &mut self,
        variable: &str,
        axis: usize,
        declared: crate::document::Dimension,
    ) -> TractResult<Symbol> {
        let symbol = self.scope.new_with_prefix(&symbol_name(variable, axis));
        self.scope.add_assertion(format!("{symbol}>=0"))?;
        let description = format!("dimension {axis} of variable {variable:?}");
        self.open.push(OpenDimension {
            symbol: symbol.clone(),
            declared,
            description,
            place: None,
        });
        Ok(symbol)
    }

    /// Whether the file leaves dimensions of the inputs open that nobody has given.
    pub fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// How many more times the translation can start anew.
    pub fn most_starts(&self) -> usize {
        self.open.len() + 1
    }

    /// Whether two dimensions are open ones of the same axis of two inputs, like two batches.
    pub fn are_alike(&self, a: &TDim, b: &TDim) -> bool {
        let place = |dim: &TDim| match dim {
            TDim::Sym(symbol) => self.open.iter().find(|open| open.symbol == *symbol)?.place,
            _ => None,
        };
        match (place(a), place(b)) {
            (Some((input, axis)), Some((other, other_axis))) => {
                input != other && axis == other_axis
            }
            _ => false,
        }
    }

    /// Notes that two dimensions are equal. `because` gives the reason, like ``layer 7 "add" (Add, opset1)
    /// adds them``.
    ///
    /// Gives the one to go on with. They may still differ if one depends on values that are only known when
    /// the model runs: `EqualShape` compares them then.
    ///
    /// # Errors
    ///
    /// They are not equal, or only for some sizes of the inputs; then the error says what to give. Or
    /// [`Learnt`]: the translation must start anew.
    pub fn equal(&mut self, a: &TDim, b: &TDim, because: &dyn Fn() -> String) -> TractResult<TDim> {
        if a == b {
            return Ok(a.clone());
        }
        let difference = (a.clone() - b).simplify();
        if let Some(difference) = difference.as_i64() {
            ensure!(difference == 0, "dimensions {a} and {b} must be equal: {}", because());
            return Ok(a.clone());
        }
        // A dimension and the larger of it and another are equal if both are. (Exporters write the larger of
        // a size and 1.)
        for (larger, other) in [(a, b), (b, a)] {
            if let TDim::Max(terms) = larger
                && terms.contains(other)
            {
                for term in terms.iter().filter(|term| term.as_i64().is_none()) {
                    self.equal(other, term, because)?;
                }
                return Ok(other.clone());
            }
        }
        let symbols = difference.symbols();
        let position = |symbol: &Symbol| self.open.iter().position(|open| open.symbol == *symbol);
        // A symbol may get its value when the model runs.
        if symbols.iter().any(|symbol| position(symbol).is_none()) {
            let known = [a, b].into_iter().find(|dim| dim.as_i64().is_some());
            return Ok(known.unwrap_or(a).clone());
        }
        // Later dimensions are expressed by earlier ones.
        let mut candidates: Vec<(usize, &Symbol)> =
            symbols.iter().filter_map(|symbol| Some((position(symbol)?, symbol))).collect();
        candidates.sort_unstable_by_key(|(position, _)| std::cmp::Reverse(*position));
        for (position, symbol) in candidates {
            let is = match (a, b) {
                (TDim::Sym(it), is) | (is, TDim::Sym(it))
                    if it == symbol && !is.symbols().contains(symbol) =>
                {
                    is.clone()
                }
                _ => match solved(&difference, symbol) {
                    Some(is) => is,
                    None => continue,
                },
            };
            let open = &self.open[position];
            if let Some(size) = is.as_i64() {
                ensure!(
                    usize::try_from(size).is_ok_and(|size| open.declared.allows(size)),
                    "{} would have to be {size}, but the file declares {}: {}",
                    open.description,
                    open.declared,
                    because()
                );
            }
            let of_other = is
                .symbols()
                .iter()
                .filter_map(|symbol| self.open.iter().find(|open| open.symbol == *symbol))
                .map(|open| open.description.clone())
                .collect::<Vec<_>>();
            let because = because();
            log::info!(
                "{} is {is}{}: {because}",
                open.description,
                if of_other.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", of_other.join(", "))
                }
            );
            self.learnt.push(Equality { symbol: symbol.clone(), is });
            return Err(Learnt.into());
        }
        let inputs: Vec<&str> = self
            .open
            .iter()
            .filter(|open| symbols.contains(&open.symbol))
            .map(|open| &*open.description)
            .collect();
        let mut multiples: Vec<String> = match multiple(&difference) {
            Some(factor) => symbols.iter().map(|symbol| format!("{factor}*{symbol}")).collect(),
            None => vec![],
        };
        multiples.sort();
        bail!(
            "dimensions {a} and {b} must be equal, which holds for some sizes of the inputs only: {}. Give {} \
             a size{}",
            because(),
            inputs.join(" and "),
            match &*multiples {
                [] => String::new(),
                multiples =>
                    format!(", or a multiple that makes them equal: {}", multiples.join(" and ")),
            }
        )
    }
}

/// The power of 2 that makes a sum zero if all symbols are multiples of it, if there is one.
fn multiple(sum: &TDim) -> Option<i64> {
    (1..=8).map(|power| 1 << power).find(|factor| {
        let multiplied = sum.symbols().into_iter().try_fold(sum.clone(), |sum, symbol| {
            let dim = symbol.to_dim() * *factor;
            sum.substitute(&symbol, &dim)
        });
        multiplied.is_ok_and(|sum| sum.simplify().as_i64() == Some(0))
    })
}

/// Whether a dimension cannot be negative, given that symbols stand for sizes.
pub(crate) fn is_size(dim: &TDim) -> bool {
    match dim {
        TDim::Sym(_) => true,
        TDim::Val(size) => *size >= 0,
        TDim::MulInt(factor, dim) => *factor >= 0 && is_size(dim),
        TDim::Add(terms) | TDim::Mul(terms) | TDim::Min(terms) | TDim::Broadcast(terms) => {
            terms.iter().all(is_size)
        }
        TDim::Max(terms) => terms.iter().any(is_size),
        TDim::Div(dim, _) => is_size(dim),
        _ => false,
    }
}

/// Solves `sum = 0` for a symbol, if the result is a whole number for all values of the other symbols.
fn solved(sum: &TDim, symbol: &Symbol) -> Option<TDim> {
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

/// A shape that the user gives: sizes, symbols, expressions of them, and `?` for what stays open.
fn given_shape(scope: &SymbolScope, text: &str) -> TractResult<Vec<Option<TDim>>> {
    let text = text.trim();
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(vec![]);
    }
    let dim = |text: &str| match text.trim() {
        "?" | "-1" => Ok(None),
        text => {
            let dim = parse_tdim(scope, text).map_err(|_| {
                format_err!(
                    "{text:?} is none of ?, a size, a symbol like N, and a product like 32*h"
                )
            })?;
            // Otherwise tract does not simplify (32*h+31)/32, because its division rounds towards zero.
            for symbol in dim.symbols() {
                scope.add_assertion(format!("{symbol}>=0"))?;
            }
            Ok(Some(dim.simplify()))
        }
    };
    text.split(',').map(dim).collect()
}

/// The name of the symbol for a dimension. tract can parse it.
fn symbol_name(input: &str, axis: usize) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = input.chars().map(letter).collect();
    let name = name.trim_matches('_');
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => format!("{name}_{axis}"),
        _ => format!("input_{name}_{axis}"),
    }
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
