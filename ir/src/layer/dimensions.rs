//! The open dimensions of the inputs, and what the graph says about them.
//!
//! IR files have no names for open dimensions: each `?` is a symbol of its own at first. tract compares
//! dimensions by their structure, so that two symbols that must be equal have to be one before anything is
//! wired. Operations know what must be equal, and say so when they are translated ([`Dimensions::require_equal`]). If
//! that is new, it is remembered, and the translation starts again ([`Restart::Learnt`]). Inputs and variables have few
//! open dimensions, and each start removes one of them.

mod equations;
mod symbols;

use std::collections::{HashMap, HashSet};

use tract_core::internal::*;

use super::options::ShapeOption;
use super::restart::Restart;
use crate::document::{Graph, PartialShape};
pub(crate) use equations::is_size;
use equations::{multiple, solved};
use symbols::{given_shape, symbol_name};

/// What is known of the inputs' dimensions.
#[derive(Debug)]
pub(crate) struct Dimensions {
    scope: SymbolScope,
    /// The shape of each input. An open dimension is a symbol, or what the user gave.
    initial: Vec<TVec<TDim>>,
    /// The dimension that each symbol stands for.
    open: Vec<OpenDimension>,
    /// What symbols are equal to. No dimension there has one of these symbols.
    learnt: HashMap<Symbol, TDim>,
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
        let mut dimensions =
            Dimensions { scope, initial: vec![], open: vec![], learnt: HashMap::new() };
        let mut symbols = HashSet::new();
        for (number, (declared, given)) in declared.iter().zip(shapes).enumerate() {
            let names = graph.input_names(number);
            let name = names.first().map_or("", |name| name);
            let rank = declared.dims().len();
            let given = given.unwrap_or_else(|| vec![None; rank]);
            ensure!(
                given.len() == rank,
                "the shape given for input {name:?} has rank {}, but the file declares {declared}",
                given.len()
            );
            let mut shape = tvec!();
            for (axis, (declared, given)) in declared.dims().iter().zip(given).enumerate() {
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
                    && symbols.insert(symbol.clone())
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
        let symbols = dim.symbols();
        let mut known =
            symbols.iter().filter_map(|symbol| Some((symbol, self.learnt.get(symbol)?)));
        known.try_fold(dim.clone(), |dim, (symbol, is)| Ok(dim.substitute(symbol, is)?.simplify()))
    }

    /// How much was learnt so far.
    pub fn count_learnt(&self) -> usize {
        self.learnt.len()
    }

    fn learn(&mut self, symbol: &Symbol, is: TDim) -> TractResult<()> {
        for known in self.learnt.values_mut() {
            if known.symbols().contains(symbol) {
                *known = known.substitute(symbol, &is)?.simplify();
            }
        }
        self.learnt.insert(symbol.clone(), is);
        Ok(())
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

    /// How many more times the translation can start again.
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
    /// [`Restart::Learnt`]: the translation must start again.
    pub fn require_equal(
        &mut self,
        a: &TDim,
        b: &TDim,
        because: &dyn Fn() -> String,
    ) -> TractResult<TDim> {
        let (a, b) = (&self.known(a)?, &self.known(b)?);
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
                    self.require_equal(other, term, because)?;
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
            let symbol = symbol.clone();
            self.learn(&symbol, is)?;
            return Err(Restart::Learnt.into());
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
