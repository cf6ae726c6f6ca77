//! The operators in tract's NNEF archives.
//!
//! ```text
//! output = tract_openvino_gather(data, indices, axis = 1, batch_dims = 0, opset = 8);
//! output = tract_openvino_dyn_gather(data, indices, axis, shape = [N, gather], batch_dims = 0, opset = 8);
//! output = tract_openvino_gather_nd(data, indices, batch_dims = 0, opset = 8);
//! output = tract_openvino_gather_elements(data, indices, axis = 1);
//! output = tract_openvino_scatter_nd(data, indices, updates, reduction = "add");
//! output = tract_openvino_scatter_elements(data, indices, updates, axis = 1, reduction = "none");
//! output = tract_openvino_opaque(data);
//! output = tract_openvino_gather_tree(step_ids, parent_idx, max_seq_len, end_token);
//! ```
//!
//! `opset` is the first operator set of OpenVINO that has the revision. `wrap_negative_indices = true` stands for
//! [`NegativeIndices::Wrap`], `onnx = true` for an operator of the standard ONNX domain.

use tract_core::ops::array::ScatterReduction;
use tract_nnef::internal::*;
use tract_nnef::ser::tdims;

use crate::operation::Operation;
use crate::ops::{
    Apart, DynGather, Gather, GatherElements, GatherNd, GatherTree, Opaque, Places, Scatter,
};
use crate::revision::{GatherNdRevision, GatherRevision, NegativeIndices, Origin, Revision};
use crate::with_openvino::WithOpenVino;

/// For saving models to NNEF and loading them. There are no options: each node states its own.
///
/// ```
/// use tract_openvino::WithOpenVino;
/// use tract_openvino::tract_onnx::{onnx, prelude::*};
///
/// # fn main() -> TractResult<()> {
/// let path = "models/gather_8_example_6/model.onnx";
/// let model = onnx().with_openvino().model_for_path(path)?.into_typed()?.into_decluttered()?;
///
/// let nnef = tract_openvino::tract_nnef::nnef().with_openvino();
/// let mut archive = vec![];
/// nnef.write(&model, &mut archive)?;
/// let loaded = nnef.model_for_read(&mut &*archive)?;
/// assert_eq!(loaded.output_fact(0)?.shape, model.output_fact(0)?.shape);
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0599
/// use tract_openvino::{OpenVinoOptions, WithOpenVino, WithOpenVinoOptions};
///
/// let nnef = tract_openvino::tract_nnef::nnef().with_openvino();
/// nnef.with_openvino_options(OpenVinoOptions::default());
/// ```
impl WithOpenVino for tract_nnef::framework::Nnef {
    fn enable_openvino(&mut self) {
        let registry = registry();
        if !self.registries.iter().any(|known| known.id == registry.id) {
            self.registries.push(registry);
        }
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new("tract_openvino").with_doc(
        "OpenVINO's Gather-1, -7 and -8, GatherND-5 and -8, GatherElements-6 and GatherTree-1, and ONNX's Scatters.",
    );
    let data = || TypeName::Scalar.tensor().named("data");
    let indices = || TypeName::Scalar.tensor().named("indices");
    let axis = || TypeName::Integer.named("axis");
    let wrap = || TypeName::Logical.named("wrap_negative_indices").default(false);
    let common = || {
        let [batch_dims, opset] = ["batch_dims", "opset"].map(|name| TypeName::Integer.named(name));
        let onnx = TypeName::Logical.named("onnx").default(false);
        [batch_dims.default(0), opset, wrap(), onnx]
    };
    let parameters = |own: &[Parameter]| {
        [data(), indices()]
            .into_iter()
            .chain(own.iter().cloned())
            .chain(common())
            .collect::<Vec<_>>()
    };
    let results = [("output", TypeName::Scalar.tensor())];

    registry.register_dumper(dump_gather);
    registry.register_primitive(GATHER, &parameters(&[axis()]), &results, load_gather);

    registry.register_dumper(dump_dyn_gather);
    let axis_input = TypeName::Scalar.tensor().named("axis");
    let shape = TypeName::Integer.array().named("shape");
    let own = [axis_input, shape];
    registry.register_primitive(DYN_GATHER, &parameters(&own), &results, load_dyn_gather);

    registry.register_dumper(dump_gather_nd);
    registry.register_primitive(GATHER_ND, &parameters(&[]), &results, load_gather_nd);

    registry.register_dumper(dump_gather_elements);
    let onnx = TypeName::Logical.named("onnx").default(false);
    let inputs = [data(), indices(), axis(), wrap(), onnx];
    registry.register_primitive(GATHER_ELEMENTS, &inputs, &results, load_gather_elements);

    registry.register_dumper(dump_scatter);
    let updates = || TypeName::Scalar.tensor().named("updates");
    let reduction = || TypeName::String.named("reduction").default("none");
    let inputs = [data(), indices(), updates(), reduction()];
    registry.register_primitive(SCATTER_ND, &inputs, &results, |builder, invocation| {
        load_scatter(builder, invocation, Places::Tuples)
    });
    let inputs = [data(), indices(), updates(), axis(), reduction()];
    registry.register_primitive(SCATTER_ELEMENTS, &inputs, &results, |builder, invocation| {
        let axis = invocation.named_arg_as(builder, "axis")?;
        load_scatter(builder, invocation, Places::Elements { axis })
    });

    registry.register_dumper(|ast, node, _: &Opaque| dump_node(ast, node, OPAQUE, &[]));
    registry.register_primitive(OPAQUE, &[data()], &results, |builder, invocation| {
        let data: OutletId = invocation.named_arg_as(builder, "data")?;
        builder.wire(Opaque, &[data])
    });

    registry.register_dumper(|ast, node, op: &Apart| {
        dump_node(ast, node, APART, &[("number", numeric(op.0))])
    });
    let number = TypeName::Integer.named("number");
    registry.register_primitive(APART, &[data(), number], &results, |builder, invocation| {
        let data: OutletId = invocation.named_arg_as(builder, "data")?;
        let number = invocation.named_arg_as(builder, "number")?;
        builder.wire(Apart(number), &[data])
    });

    registry.register_dumper(|ast, node, _: &GatherTree| dump_node(ast, node, GATHER_TREE, &[]));
    let inputs = GatherTree::INPUTS.map(|name| TypeName::Scalar.tensor().named(name));
    registry.register_primitive(GATHER_TREE, &inputs, &results, load_gather_tree);
    registry
}

const GATHER: &str = "tract_openvino_gather";
const DYN_GATHER: &str = "tract_openvino_dyn_gather";
const GATHER_ND: &str = "tract_openvino_gather_nd";
const GATHER_ELEMENTS: &str = "tract_openvino_gather_elements";
const SCATTER_ND: &str = "tract_openvino_scatter_nd";
const SCATTER_ELEMENTS: &str = "tract_openvino_scatter_elements";
const OPAQUE: &str = "tract_openvino_opaque";
const APART: &str = "tract_openvino_apart";
const GATHER_TREE: &str = "tract_openvino_gather_tree";

type Dumped = TractResult<Option<Arc<RValue>>>;

/// The text of a node: a call of the function `id` with the node's inputs, and with arguments by name.
///
/// Constant integers among the inputs are in tensor files, which keep them whole: tract writes a few as text, and reads only
/// 32 bits of each.
///
/// # Errors
///
/// A constant cannot be written.
pub fn dump_node(
    ast: &mut IntoAst,
    node: &TypedNode,
    id: &str,
    named: &[(&str, RValue)],
) -> TractResult<Option<Arc<RValue>>> {
    let mut inputs: Vec<Arc<RValue>> =
        node.inputs.iter().map(|input| ast.mapping[input].clone()).collect();
    for (slot, input) in inputs.iter_mut().enumerate() {
        let fact = ast.model.outlet_fact(node.inputs[slot])?;
        if let Some(constant) = fact.konst.clone()
            && constant.datum_type().is_integer()
        {
            *input = ast.konst_variable(format!("{}.input_{slot}", node.name), &constant)?;
        }
    }
    Ok(Some(invocation(id, &inputs, named)))
}

/// The arguments that operators with several revisions have in common.
fn common<R: Revision>(operation: Operation<R>) -> Vec<(&'static str, RValue)> {
    let Operation { origin, revision, batch_dims, negative_indices } = operation;
    let mut named = vec![("batch_dims", numeric(batch_dims)), ("opset", numeric(revision.since()))];
    named.extend(wrap(negative_indices));
    if origin == Origin::Onnx {
        named.push(("onnx", logical(true)));
    }
    named
}

fn wrap(negative_indices: NegativeIndices) -> Option<(&'static str, RValue)> {
    let wraps = negative_indices == NegativeIndices::Wrap;
    wraps.then(|| ("wrap_negative_indices", logical(true)))
}

fn dump_gather(ast: &mut IntoAst, node: &TypedNode, op: &Gather) -> Dumped {
    let mut named = vec![("axis", numeric(op.axis()))];
    named.extend(common(op.operation()));
    dump_node(ast, node, GATHER, &named)
}

fn dump_dyn_gather(ast: &mut IntoAst, node: &TypedNode, op: &DynGather) -> Dumped {
    let mut named = vec![("shape", tdims(op.output_shape()))];
    named.extend(common(op.operation));
    dump_node(ast, node, DYN_GATHER, &named)
}

fn dump_gather_nd(ast: &mut IntoAst, node: &TypedNode, op: &GatherNd) -> Dumped {
    dump_node(ast, node, GATHER_ND, &common(op.operation()))
}

fn dump_gather_elements(ast: &mut IntoAst, node: &TypedNode, op: &GatherElements) -> Dumped {
    let mut named = vec![("axis", numeric(op.axis()))];
    named.extend(wrap(op.negative_indices()));
    if op.origin() == Origin::Onnx {
        named.push(("onnx", logical(true)));
    }
    dump_node(ast, node, GATHER_ELEMENTS, &named)
}

fn dump_scatter(ast: &mut IntoAst, node: &TypedNode, op: &Scatter) -> Dumped {
    let mut named = vec![("reduction", string(op.reduction.as_str()))];
    match op.places {
        Places::Tuples => dump_node(ast, node, SCATTER_ND, &named),
        Places::Elements { axis } => {
            named.push(("axis", numeric(axis)));
            dump_node(ast, node, SCATTER_ELEMENTS, &named)
        }
    }
}

/// `data`, `indices` and the [`common`] arguments.
struct Common<R> {
    data: OutletId,
    indices: OutletId,
    operation: Operation<R>,
}

impl<R: Revision> Common<R> {
    fn load(builder: &mut ModelBuilder, invocation: &ResolvedInvocation) -> TractResult<Common<R>> {
        let revision = R::for_opset(invocation.named_arg_as(builder, "opset")?)?;
        let batch_dims: usize = invocation.named_arg_as(builder, "batch_dims")?;
        let negative_indices = negative_indices(builder, invocation)?;
        let operation = match invocation.named_arg_as(builder, "onnx")? {
            true => Operation::onnx(revision),
            false => Operation::new(revision),
        };
        let operation = operation.with_batch_dims(i64::try_from(batch_dims)?)?;
        Ok(Common {
            data: invocation.named_arg_as(builder, "data")?,
            indices: integers(builder, invocation, "indices")?,
            operation: operation.with_negative_indices(negative_indices),
        })
    }
}

fn negative_indices(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
) -> TractResult<NegativeIndices> {
    Ok(match invocation.named_arg_as(builder, "wrap_negative_indices")? {
        true => NegativeIndices::Wrap,
        false => NegativeIndices::AsSpecified,
    })
}

/// An input of integers. An empty array is loaded as floats, because the text does not say its type.
fn integers(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
    name: &str,
) -> TractResult<OutletId> {
    let outlet = invocation.named_arg_as(builder, name)?;
    let fact = builder.model.outlet_fact(outlet)?;
    match &fact.konst {
        Some(konst) if konst.len() == 0 && fact.datum_type.is_float() => {
            let empty = konst.cast_to::<i64>()?.into_owned();
            builder.add_const(empty)
        }
        _ => Ok(outlet),
    }
}

fn load_gather(builder: &mut ModelBuilder, invocation: &ResolvedInvocation) -> TractResult<Value> {
    let Common { data, indices, operation } = Common::<GatherRevision>::load(builder, invocation)?;
    let axis: usize = invocation.named_arg_as(builder, "axis")?;
    let rank = |input| builder.model.outlet_fact(input).map(TypedFact::rank);
    let op = operation.to_gather(axis as i128, [rank(data)?, rank(indices)?])?;
    builder.wire(op, &[data, indices])
}

fn load_dyn_gather(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
) -> TractResult<Value> {
    let Common { data, indices, operation } = Common::<GatherRevision>::load(builder, invocation)?;
    let axis = integers(builder, invocation, "axis")?;
    let shape: ShapeFact =
        builder.allowing_new_symbols(|builder| invocation.named_arg_as(builder, "shape"))?;
    builder.wire(DynGather { operation, shape: shape.to_tvec() }, &[data, indices, axis])
}

fn load_gather_nd(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
) -> TractResult<Value> {
    let Common { data, indices, operation } =
        Common::<GatherNdRevision>::load(builder, invocation)?;
    builder.wire(operation.to_gather_nd()?, &[data, indices])
}

fn load_gather_elements(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
) -> TractResult<Value> {
    let data: OutletId = invocation.named_arg_as(builder, "data")?;
    let indices = integers(builder, invocation, "indices")?;
    let axis = invocation.named_arg_as(builder, "axis")?;
    let op = match invocation.named_arg_as(builder, "onnx")? {
        true => GatherElements::onnx(axis),
        false => GatherElements::new(axis),
    };
    let op = op.with_negative_indices(negative_indices(builder, invocation)?);
    builder.wire(op, &[data, indices])
}

fn load_scatter(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
    places: Places,
) -> TractResult<Value> {
    let data: OutletId = invocation.named_arg_as(builder, "data")?;
    let indices = integers(builder, invocation, "indices")?;
    let updates: OutletId = invocation.named_arg_as(builder, "updates")?;
    let reduction: String = invocation.named_arg_as(builder, "reduction")?;
    let reduction = ScatterReduction::parse(&reduction)?;
    builder.wire(Scatter { places, reduction }, &[data, indices, updates])
}

fn load_gather_tree(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
) -> TractResult<Value> {
    let mut inputs = tvec!();
    for name in GatherTree::INPUTS {
        inputs.push(invocation.named_arg_as(builder, name)?);
    }
    builder.wire(GatherTree, &inputs)
}
