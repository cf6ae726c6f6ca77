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
use crate::document::{Dimension, Graph, PartialShape};
use crate::workarounds::size_bounds::Bounds;
pub(crate) use equations::solved;
pub(crate) use symbols::{given_shape, new_size};

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
    /// The dimensions that may not have any size.
    bounds: Vec<Bounds>,
}

/// A symbol and the dimension that it stands for.
#[derive(Debug)]
struct OpenDimension {
    symbol: Symbol,
    declared: Dimension,
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
        declared: &[Option<PartialShape>],
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
        let mut dimensions = Dimensions {
            scope,
            initial: vec![],
            open: vec![],
            learnt: HashMap::new(),
            bounds: vec![],
        };
        let mut symbols = HashSet::new();
        for (number, (declared, given)) in declared.iter().zip(shapes).enumerate() {
            let names = graph.input_names(number);
            let name = names.first().map_or("", |name| name);
            // Of a rank that is open, the user gives a shape.
            let any = || vec![Dimension { min: 0, max: None }; given.as_ref().map_or(0, Vec::len)];
            let declared = match (declared, &given) {
                (Some(declared), _) => declared.clone(),
                (None, Some(_)) => PartialShape::from(any()),
                (None, None) => bail!(
                    "input {name:?} leaves the number of dimensions open, but tract must know it: give it a shape"
                ),
            };
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
                        // Not of the range of the file: tract would reckon with it, and never check it.
                        new_size(&dimensions.scope, name, axis)?.to_dim()
                    }
                };
                let description = format!("dimension {axis} of input {name:?}");
                dimensions.bound(&dim, *declared, &description)?;
                if let TDim::Sym(symbol) = &dim
                    && symbols.insert(symbol.clone())
                {
                    dimensions.open.push(OpenDimension {
                        symbol: symbol.clone(),
                        declared: *declared,
                        description,
                        place: Some((number, axis)),
                    });
                }
                shape.push(dim);
            }
            dimensions.initial.push(shape);
        }
        Ok(dimensions)
    }

    /// Those of a layer that is translated alone: inputs of these shapes, none of which is open.
    pub fn of_shapes(scope: SymbolScope, shapes: Vec<TVec<TDim>>) -> Dimensions {
        let (open, learnt, bounds) = (vec![], HashMap::new(), vec![]);
        Dimensions { scope, initial: shapes, open, learnt, bounds }
    }

    /// Has the symbols of the shapes stand for open dimensions: some of them may turn out to be equal.
    #[cfg(feature = "onnx")]
    pub fn with_open_symbols(mut self) -> Dimensions {
        let mut known = HashSet::new();
        for (input, shape) in self.initial.iter().enumerate() {
            for (axis, dim) in shape.iter().enumerate() {
                if let TDim::Sym(symbol) = dim
                    && known.insert(symbol.clone())
                {
                    self.open.push(OpenDimension {
                        symbol: symbol.clone(),
                        declared: Dimension { min: 0, max: None },
                        description: format!("dimension {axis} of input {input}"),
                        place: Some((input, axis)),
                    });
                }
            }
        }
        self
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
        declared: Dimension,
    ) -> TractResult<Symbol> {
        let symbol = new_size(&self.scope, variable, axis)?;
        let description = format!("dimension {axis} of variable {variable:?}");
        self.bound(&symbol.to_dim(), declared, &description)?;
        self.open.push(OpenDimension {
            symbol: symbol.clone(),
            declared,
            description,
            place: None,
        });
        Ok(symbol)
    }

    /// The dimensions that may not have any size, as far as they are still open.
    pub fn bounds(&self) -> TractResult<TVec<Bounds>> {
        let mut open = tvec!();
        for bounds in &self.bounds {
            let size = self.known(&bounds.size)?;
            if size.as_i64().is_none() {
                open.push(Bounds { size, ..bounds.clone() });
            }
        }
        Ok(open)
    }

    /// Notes which sizes a dimension may have.
    fn bound(&mut self, size: &TDim, declared: Dimension, of: &str) -> TractResult<()> {
        let Dimension { min, max } = declared;
        if (min > 0 || max.is_some()) && size.as_i64().is_none() {
            let most = max.map(i64::try_from).transpose()?;
            let (size, of) = (size.clone(), of.to_string());
            self.bounds.push(Bounds { size, least: i64::try_from(min)?, most, of });
        }
        Ok(())
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
    /// Gives the one to go on with. They may still differ if they are equal for some sizes of the inputs only, or if one
    /// depends on values that are only known when the model runs: `EqualShape` compares them then.
    ///
    /// # Errors
    ///
    /// They are not equal. Or [`Restart::Learnt`]: the translation must start again.
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
            return Ok(self.simpler(a, b));
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
        log::info!("dimensions {a} and {b} must be equal when the model runs: {}", because());
        Ok(self.simpler(a, b))
    }

    /// Whether a dimension is known once those of the inputs and variables are.
    pub fn follows_from_inputs(&self, dim: &TDim) -> bool {
        let given = || self.initial.iter().flatten().flat_map(TDim::symbols);
        let is_open = |symbol: &Symbol| self.open.iter().any(|open| open.symbol == *symbol);
        dim.symbols().iter().all(|symbol| is_open(symbol) || given().any(|it| it == *symbol))
    }

    /// The one of two dimensions to go on with: the one that is known first, and the shorter one.
    fn simpler(&self, a: &TDim, b: &TDim) -> TDim {
        let cost = |dim: &TDim| {
            (dim.as_i64().is_none(), !self.follows_from_inputs(dim), dim.to_string().len())
        };
        if cost(b) < cost(a) { b.clone() } else { a.clone() }
    }
}
