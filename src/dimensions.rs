//! The names of open dimensions in ONNX models, and the shapes of their inputs.

use std::collections::{BTreeMap, BTreeSet};

use crate::onnx::DOMAIN;
use tract_core::internal::*;
use tract_core::tract_data::prelude::SymbolScope;
use tract_data::internal::solve_for;
use tract_hir::infer::{Factoid, InferenceModel, ShapeFactoid};
use tract_onnx::dim_expr::parse_onnx_dim;
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::tensor_shape_proto::dimension::Value;
use tract_onnx::pb::{GraphProto, ModelProto, ValueInfoProto, type_proto};

/// Gives each open dimension of a model's inputs a name that tract knows the value of when the model runs.
///
/// ONNX allows any text as the name of a dimension, or none. tract reads the text as an expression, and cannot type a
/// model with an input dimension
///
/// * without a name, or with one that is no expression, such as `batch size`;
/// * that is an expression of names whose values no input tells, such as `batch-size`, a difference.
///
/// Such a text becomes one name, here `batch_size`, for all inputs that have it, and for the shapes that the model declares
/// with it. A dimension without a name gets that of its input, and the number of the axis: `x_0`. Others stay as they are:
/// `past + 1`, whose `past` follows from the size.
///
/// What the model declares of values between nodes keeps no other names where a node of OpenVINO makes the value: the size gets a
/// name when the model is typed.
///
/// ```
/// use tract_openvino::WithOpenVino;
/// use tract_openvino::tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// # let path = "models/token_picker/model.onnx";
/// let reader = tract_openvino::tract_onnx::onnx().with_openvino();
/// let mut proto = reader.proto_model_for_path(path)?;
/// tract_openvino::name_dimensions(&mut proto);
/// let model = reader.model_for_proto_model(&proto)?;
/// # Ok(())
/// # }
/// ```
pub fn name_dimensions(model: &mut ModelProto) {
    let Some(graph) = &mut model.graph else { return };
    let given: BTreeSet<String> = graph.initializer.iter().map(|it| it.name.clone()).collect();
    let mut names = Names::of(graph, &given);
    let mut renamed = BTreeMap::new();
    for input in graph.input.iter_mut().filter(|input| !given.contains(&input.name)) {
        let name = input.name.clone();
        for (axis, dim) in dims_mut(input).iter_mut().enumerate() {
            let text = text(dim).map(str::to_string);
            if is_size(dim) || text.as_ref().is_some_and(|text| names.is_known(text)) {
                continue;
            }
            let new = match &text {
                Some(text) => renamed
                    .entry(text.clone())
                    .or_insert_with(|| names.new_name(dimension_name(text)))
                    .clone(),
                None => names.new_name(dimension_name(&format!("{name}_{axis}"))),
            };
            dim.value = Some(Value::DimParam(new));
        }
    }
    let nodes = graph.node.iter().filter(|node| node.domain == DOMAIN);
    let of_nodes: BTreeSet<&String> = nodes.flat_map(|node| &node.output).collect();
    let values = graph.value_info.iter_mut().map(|value| (of_nodes.contains(&value.name), value));
    let outputs = graph.output.iter_mut().map(|value| (false, value));
    for (is_of_node, declared) in values.chain(outputs) {
        for dim in dims_mut(declared) {
            let Some(text) = text(dim) else { continue };
            if let Some(new) = renamed.get(text) {
                dim.value = Some(Value::DimParam(new.clone()));
            } else if is_of_node && !names.is_known(text) {
                dim.value = None;
            }
        }
    }
}

/// Gives an input of a model a shape: its number, its name, for errors, and a size, an expression of symbols, or `?` for each axis, which
/// leaves a dimension as it is.
///
/// # Errors
///
/// The rank is another one, a text is no dimension, or a dimension that shall stay is not known.
pub fn set_input_shape(
    model: &mut InferenceModel,
    input: usize,
    name: &str,
    shape: &str,
) -> TractResult<()> {
    let mut fact = model.input_fact(input)?.clone();
    let fields: Vec<&str> = match shape.trim() {
        "" => vec![],
        shape => shape.split(',').map(str::trim).collect(),
    };
    let known: Vec<Option<TDim>> = fact.shape.dims().map(|dim| dim.concretize()).collect();
    ensure!(
        fact.shape.is_open() || known.len() == fields.len(),
        "input {name:?} has rank {}, but the shape {shape:?} has rank {}",
        known.len(),
        fields.len()
    );
    let dims = fields.iter().enumerate().map(|(axis, field)| match *field {
        "?" => {
            let dim = known.get(axis).cloned().flatten();
            dim.with_context(|| format!("dimension {axis} of input {name:?} is not known"))
        }
        field => parse_tdim(&model.symbols, field).map_err(|_| {
            format_err!("{field:?} is none of ?, a size, a symbol like N, and a product like 32*h")
        }),
    });
    fact.shape = ShapeFactoid::from(dims.collect::<TractResult<TVec<TDim>>>()?);
    model.set_input_fact(input, fact)
}

/// The name that [`name_dimensions`] makes of a text: without what no name may have.
///
/// ```
/// assert_eq!(tract_openvino::dimension_name("batch size"), "batch_size");
/// assert_eq!(tract_openvino::dimension_name("2N"), "_2N");
/// ```
pub fn dimension_name(text: &str) -> String {
    let mut name = String::new();
    for character in text.chars() {
        match character.is_ascii_alphanumeric() {
            true => name.push(character),
            false if name.ends_with('_') => (),
            false => name.push('_'),
        }
    }
    let name = name.trim_matches('_');
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_name { name.to_string() } else { format!("_{name}") }
}

fn dims_mut(value: &mut ValueInfoProto) -> &mut [Dimension] {
    let kind = value.r#type.as_mut().and_then(|it| it.value.as_mut());
    match kind.and_then(|type_proto::Value::TensorType(tensor)| tensor.shape.as_mut()) {
        Some(shape) => &mut shape.dim,
        None => &mut [],
    }
}

fn is_size(dim: &Dimension) -> bool {
    matches!(dim.value, Some(Value::DimValue(size)) if size >= 0)
}

/// The text that a dimension has in place of a size. tract takes a question mark for none.
fn text(dim: &Dimension) -> Option<&str> {
    match &dim.value {
        Some(Value::DimParam(text)) => Some(text.trim()).filter(|text| !["", "?"].contains(text)),
        _ => None,
    }
}

/// The most bytes of an expression. tract needs stack for each parenthesis, and time for each pair of terms.
const LONGEST: usize = 128;

/// The most digits of a number in an expression. tract computes with numbers without a check.
const MOST_DIGITS: usize = 9;

/// What a text says, if tract can compute with it.
fn expression(scope: &SymbolScope, text: &str) -> Option<TDim> {
    let mut numbers = text.split(|it: char| !it.is_ascii_digit());
    let is_small = text.len() <= LONGEST && numbers.all(|digits| digits.len() <= MOST_DIGITS);
    is_small.then(|| parse_onnx_dim(scope, text).ok()).flatten()
}

/// The names in the dimensions of the inputs of a graph.
struct Names {
    scope: SymbolScope,
    /// Those whose values the inputs tell.
    known: BTreeSet<String>,
    /// All.
    taken: BTreeSet<String>,
}

impl Names {
    fn of(graph: &GraphProto, given: &BTreeSet<String>) -> Names {
        let scope = SymbolScope::default();
        let mut names = Names { scope, known: BTreeSet::new(), taken: BTreeSet::new() };
        let mut inputs = graph.input.clone();
        let inputs = inputs.iter_mut().filter(|input| !given.contains(&input.name));
        let dims = inputs.flat_map(|input| dims_mut(input).to_vec());
        let texts = dims.filter_map(|dim| text(&dim).map(str::to_string));
        let mut expressions = vec![];
        for dim in texts.filter_map(|text| expression(&names.scope, &text)) {
            names.taken.extend(dim.symbols().iter().map(Symbol::to_string));
            match dim {
                TDim::Sym(symbol) => _ = names.known.insert(symbol.to_string()),
                dim => expressions.push(dim),
            }
        }
        // tract solves an expression of one name.
        for dim in expressions {
            if let [symbol] = &*dim.symbols().into_iter().collect::<Vec<_>>() {
                let values = SymbolValues::default().with(symbol, 60);
                if solve_for(symbol, &dim, &dim.eval(&values)) == Some(60.to_dim()) {
                    names.known.insert(symbol.to_string());
                }
            }
        }
        names
    }

    /// Whether the inputs tell the values of all names in a text.
    fn is_known(&self, text: &str) -> bool {
        let Some(dim) = expression(&self.scope, text) else { return false };
        let symbols = dim.symbols();
        let is_size = || dim.as_i64().is_some_and(|size| size >= 0);
        symbols.iter().all(|symbol| self.known.contains(&symbol.to_string()))
            && (!symbols.is_empty() || is_size())
    }

    fn new_name(&mut self, name: String) -> String {
        let more = (2..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.clone()).chain(more);
        let name = names.find(|name| !self.taken.contains(name)).unwrap_or(name);
        self.taken.insert(name.clone());
        name
    }
}
