//! Whether a model needs the values of symbols that a [`DynGather`] gives them.
//!
//! tract derives the shapes in facts again when a node is replaced, but not the symbols in constants and operators.
//! It cannot list an operator's symbols, so they are searched in its debug text. A symbol found there by mistake
//! only keeps a node from being replaced.

use super::DynGather;
use tract_core::internal::*;
use tract_core::ops::konst::Const;
use tract_core::ops::logic::IfThenElse;
use tract_core::ops::scan::Scan;

/// Whether a constant or an operator holds one of these symbols. A [`DynGather`] does not count: its symbols get
/// their values from itself, or are not needed.
pub(super) fn are_held(symbols: &[Symbol], model: &TypedModel) -> bool {
    let names: Vec<String> = symbols.iter().map(Symbol::to_string).collect();
    !symbols.is_empty() && in_model(symbols, &names, model)
}

fn in_model(symbols: &[Symbol], names: &[String], model: &TypedModel) -> bool {
    let in_text = |text: String| names.iter().any(|name| has_word(&text, name));
    model.nodes().iter().any(|node| {
        let facts = node.outputs.iter().map(|output| &output.fact);
        let mut constants = facts.flat_map(|fact| [&fact.konst, &fact.uniform]).flatten();
        if constants.any(|tensor| in_tensor(symbols, tensor)) {
            return true;
        }
        if let Some(scan) = node.op_as::<Scan>() {
            // The text of a whole body has all symbols of its scope, used or not.
            return in_text(format!("{:?}", scan.output_mapping))
                || in_model(symbols, names, &scan.body);
        }
        if let Some(branches) = node.op_as::<IfThenElse>() {
            return in_model(symbols, names, &branches.then_body)
                || in_model(symbols, names, &branches.else_body);
        }
        if node.op_is::<Const>() || node.op_is::<DynGather>() {
            return false;
        }
        let text = format!("{:?}", node.op);
        // The text of a tensor is cut after twelve elements: the symbol may be in the rest.
        (text.contains("TDim") && text.contains("...")) || in_text(text)
    })
}

fn in_tensor(symbols: &[Symbol], tensor: &Tensor) -> bool {
    let plain = tensor.try_as_plain_ram().ok();
    let dims = plain.as_ref().and_then(|plain| plain.as_slice::<TDim>().ok()).unwrap_or_default();
    dims.iter().any(|dim| dim.symbols().iter().any(|symbol| symbols.contains(symbol)))
}

/// Whether `text` has `word` as a whole word.
fn has_word(text: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        !text[..start].ends_with(in_word) && !text[start + word.len()..].starts_with(in_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tract_core::ops::math::square;
    use tract_core::ops::scan::{InputMapping, OutputMapping, ScanInfo};
    use tract_openvino_kernels::impl_plain_op;

    /// An operator with a tensor of its own.
    #[derive(Debug, Clone, PartialEq)]
    struct Holder(Tensor);

    impl_plain_op!(Holder, "Holder");

    impl Holder {
        fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
            Ok(inputs)
        }

        fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
            Ok(inputs.iter().map(|&fact| fact.clone()).collect())
        }
    }

    /// A model of a source and one operator.
    fn one(scope: &SymbolScope, op: impl Into<Box<dyn TypedOp>>) -> TypedModel {
        let mut model = TypedModel { symbols: scope.clone(), ..TypedModel::default() };
        let source = model.add_source("source", f32::fact([3])).unwrap();
        let output = model.wire_node("op", op, &[source]).unwrap();
        model.select_output_outlets(&output).unwrap();
        model
    }

    fn scan(scope: &SymbolScope, held: &TDim, hint: Option<TDim>) -> TypedModel {
        let info = ScanInfo { axis: 0, chunk: 3 };
        let output = OutputMapping { scan: Some((0, info)), full_dim_hint: hint, ..<_>::default() };
        let body = one(scope, Holder(tensor0(held.clone())));
        let input = InputMapping::Scan(info);
        one(scope, Scan::new(body, vec![input], vec![output], 0).unwrap())
    }

    fn branches(scope: &SymbolScope, held: [&TDim; 2]) -> TypedModel {
        let [then_body, else_body] = held.map(|held| one(scope, Holder(tensor0(held.clone()))));
        let [then_input_mapping, else_input_mapping] = [vec![1], vec![1]];
        let op = IfThenElse { then_body, then_input_mapping, else_body, else_input_mapping };
        let mut model = one(scope, square());
        let condition = model.add_source("condition", bool::scalar_fact()).unwrap();
        let source = model.input_outlets().unwrap()[0];
        model.wire_node("branches", op, &[condition, source]).unwrap();
        model
    }

    #[test]
    fn constants_operators_and_bodies_hold_symbols() {
        let scope = SymbolScope::default();
        let [symbol, other] = ["gather", "gather_0"].map(|name| scope.sym(name));
        let [dim, other] = [symbol.to_dim(), other.to_dim()];
        let symbols = [symbol];
        let constant = |last: &TDim| {
            let mut dims = vec![other.clone(); 12];
            dims.push(last.clone());
            let mut model = one(&scope, square());
            model.add_const("dims", tensor1(&dims)).unwrap();
            model
        };
        let reshape = |dim: &TDim| one(&scope, Holder(tensor1(&[dim.clone() * 2 + 1])));
        for (what, model, expected) in [
            ("nothing", one(&scope, square()), false),
            ("the last of many in a constant", constant(&dim), true),
            ("a constant of another symbol", constant(&other), false),
            ("an operator", reshape(&dim), true),
            ("an operator of another symbol", reshape(&other), false),
            ("a tensor that is cut", one(&scope, Holder(tensor1(&vec![other.clone(); 13]))), true),
            ("no dimensions", one(&scope, Holder(tensor1(&[0f32; 13]))), false),
            ("the body of a loop", scan(&scope, &dim, None), true),
            ("the length of its output", scan(&scope, &other, Some(dim.clone())), true),
            ("the length of another symbol", scan(&scope, &other, Some(other.clone())), false),
            ("a branch", branches(&scope, [&dim, &other]), true),
            ("the other branch", branches(&scope, [&other, &dim]), true),
            ("neither", branches(&scope, [&other, &other]), false),
        ] {
            assert_eq!(are_held(&symbols, &model), expected, "{what}: {model:?}");
        }
        assert!(!are_held(&[], &reshape(&dim)));
    }

    #[test]
    fn a_symbol_in_a_text_is_a_whole_word() {
        for text in ["gather", "Reshape(0, [2*gather], [6])", "gather_1+gather", "a, gather"] {
            assert!(has_word(text, "gather"), "{text}");
        }
        for text in ["", "gather_1", "Gather", "_gather", "gathers", "gather2"] {
            assert!(!has_word(text, "gather"), "{text}");
        }
    }
}
