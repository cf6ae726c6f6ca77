//! The symbols of open dimensions, by the input or by the user.

use tract_core::internal::*;

use crate::shortened::shortened_name;
use crate::workarounds::expressions::assert_size;

/// A shape that the user gives: sizes, symbols, expressions of them, and `?` for what stays open.
pub(crate) fn given_shape(scope: &SymbolScope, text: &str) -> TractResult<Vec<Option<TDim>>> {
    let text = text.trim();
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(vec![]);
    }
    let dim = |text: &str| match text.trim() {
        "?" | "-1" => Ok(None),
        text => {
            let dim = parse_tdim(scope, text).map_err(|_| {
                format_err!("{text:?} must be ?, a size, a symbol like N, or a product like 32*h")
            })?;
            for symbol in dim.symbols() {
                assert_size(scope, &symbol)?;
            }
            Ok(Some(dim.simplify()))
        }
    };
    text.split(',').map(dim).collect()
}

/// A new symbol for a dimension of an input or a variable, which is a size.
pub(crate) fn new_size(scope: &SymbolScope, of: &str, axis: usize) -> TractResult<Symbol> {
    let symbol = scope.new_with_prefix(&symbol_name(of, axis));
    assert_size(scope, &symbol)?;
    Ok(symbol)
}

/// The name of the symbol for a dimension. tract can parse it.
fn symbol_name(input: &str, axis: usize) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = shortened_name(input).chars().map(letter).collect();
    let name = name.trim_matches('_');
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => format!("{name}_{axis}"),
        _ => format!("input_{name}_{axis}"),
    }
}
