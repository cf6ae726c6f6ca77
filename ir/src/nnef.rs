//! This crate's operators in tract's NNEF archives.
//!
//! ```text
//! output = tract_openvino_ir_range(start, stop, step, datum_type = "i64", len = N);
//! output = tract_openvino_ir_opaque(input);
//! output = tract_openvino_ir_separate(input);
//! output = tract_openvino_ir_barrier(input);
//! output = tract_openvino_ir_least_sizes(input, axes = [2, 3], sizes = [3, 3]);
//! output = tract_openvino_ir_size_bounds(input, sizes = [N], least = [2], most = [7], of = ["dimension 0 of input \"x\""]);
//! output = tract_openvino_ir_non_zero(input, count = "N");
//! output = tract_openvino_ir_gelu(input);  // and _gelu_tanh, _mish, _soft_plus, _erf_inv, _to_bf16 and so on
//! output = tract_openvino_ir_add(a, b);    // and _subtract, _multiply, _divide and so on
//! ```
//!
//! A model with another operator of this crate cannot be saved: tract's error says that it found no serializer for the
//! node.

use tract_core::internal::*;
use tract_core::ops::nn::GeluExact;
use tract_openvino::internal::dump_node;
use tract_openvino::tract_nnef::framework::Nnef;
use tract_openvino::tract_nnef::internal::*;
use tract_openvino::tract_nnef::ser::{array, datum_type, ints, numeric, string, tdim, tdims};
use tract_openvino_kernels::gelu::GeluTanh;
use tract_openvino_kernels::{Barrier, LazyConst};

use crate::operators::activation::{ErfInv, Mish, SoftPlus};
use crate::operators::arithmetic::Arithmetic;
use crate::operators::non_zero::NonZero;
use crate::operators::range::Range;
use crate::operators::rounding::{SaturateF8E4M3, SaturateF8E5M2, ToBf16, ToF8E4M3, ToF8E5M2};
use crate::with_openvino_ir::WithOpenVinoIr;
use crate::workarounds::least_sizes::LeastSizes;
use crate::workarounds::opaque::{Opaque, Separate};
use crate::workarounds::size_bounds::{Bounds, SizeBounds};

impl WithOpenVinoIr for Nnef {
    fn enable_openvino_ir(&mut self) {
        let registry = registry();
        if !self.registries.iter().any(|known| known.id == registry.id) {
            self.registries.push(registry);
        }
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new("tract_openvino_ir")
        .with_doc("Operators of models that were read from OpenVINO IR.");
    let tensor = |name: &str| TypeName::Scalar.tensor().named(name);
    let results = [("output", TypeName::Scalar.tensor())];

    registry.register_dumper(dump_range);
    let parameters = [
        tensor("start"),
        tensor("stop"),
        tensor("step"),
        TypeName::String.named("datum_type"),
        TypeName::Integer.named("len"),
    ];
    registry.register_primitive(RANGE, &parameters, &results, load_range);

    // tract has this one, and no text for it.
    registry.register_unit_element_wise("tract_openvino_ir_gelu", &GeluExact {});
    registry.register_unit_element_wise("tract_openvino_ir_gelu_tanh", &GeluTanh {});
    registry.register_unit_element_wise("tract_openvino_ir_mish", &Mish {});
    registry.register_unit_element_wise("tract_openvino_ir_soft_plus", &SoftPlus {});
    registry.register_unit_element_wise("tract_openvino_ir_erf_inv", &ErfInv {});
    registry.register_unit_element_wise("tract_openvino_ir_to_bf16", &ToBf16 {});
    registry.register_unit_element_wise("tract_openvino_ir_to_f8e4m3", &ToF8E4M3 {});
    registry.register_unit_element_wise("tract_openvino_ir_to_f8e5m2", &ToF8E5M2 {});
    registry.register_unit_element_wise("tract_openvino_ir_saturate_f8e4m3", &SaturateF8E4M3 {});
    registry.register_unit_element_wise("tract_openvino_ir_saturate_f8e5m2", &SaturateF8E5M2 {});

    for (operation, name) in [
        (Arithmetic::Add, "add"),
        (Arithmetic::Subtract, "subtract"),
        (Arithmetic::Multiply, "multiply"),
        (Arithmetic::Divide, "divide"),
        (Arithmetic::FloorDivide, "floor_divide"),
        (Arithmetic::Mod, "mod"),
        (Arithmetic::FloorMod, "floor_mod"),
        (Arithmetic::Power, "power"),
        (Arithmetic::ShiftLeft, "shift_left"),
        (Arithmetic::ShiftRight, "shift_right"),
    ] {
        registry.register_binary(format!("tract_openvino_ir_{name}"), &*operation.op().0);
    }

    registry.register_dumper(dump_non_zero);
    let parameters = [TypeName::Any.tensor().named("input"), TypeName::String.named("count")];
    registry.register_primitive(NON_ZERO, &parameters, &results, load_non_zero);

    let input = [tensor("input")];
    registry.register_dumper(|ast, node, _: &Opaque| dump_node(ast, node, OPAQUE, &[]));
    registry.register_primitive(OPAQUE, &input, &results, |builder, invocation| {
        load_with_input(builder, invocation, Opaque)
    });
    registry.register_dumper(|ast, node, _: &Barrier| dump_node(ast, node, BARRIER, &[]));
    registry.register_primitive(BARRIER, &input, &results, |builder, invocation| {
        load_with_input(builder, invocation, Barrier)
    });
    registry.register_dumper(dump_least_sizes);
    let integers = || TypeName::Integer.array();
    let parameters = [tensor("input"), integers().named("axes"), integers().named("sizes")];
    registry.register_primitive(LEAST_SIZES, &parameters, &results, load_least_sizes);
    registry.register_dumper(dump_size_bounds);
    let parameters = [
        tensor("input"),
        integers().named("sizes"),
        integers().named("least"),
        integers().named("most"),
        TypeName::String.array().named("of"),
    ];
    registry.register_primitive(SIZE_BOUNDS, &parameters, &results, load_size_bounds);
    // It is an ordinary variable of the archive, which has this registry as an extension all the same.
    registry.register_dumper(|ast, node, constant: &LazyConst| {
        ast.konst_variable(&node.name, constant.0.get()?).map(Some)
    });
    registry.register_dumper(|ast, node, _: &Separate| dump_node(ast, node, SEPARATE, &[]));
    registry.register_primitive(SEPARATE, &input, &results, |builder, invocation| {
        load_with_input(builder, invocation, Separate)
    });
    registry
}

const RANGE: &str = "tract_openvino_ir_range";
const NON_ZERO: &str = "tract_openvino_ir_non_zero";
const OPAQUE: &str = "tract_openvino_ir_opaque";
const BARRIER: &str = "tract_openvino_ir_barrier";
const LEAST_SIZES: &str = "tract_openvino_ir_least_sizes";
const SIZE_BOUNDS: &str = "tract_openvino_ir_size_bounds";
const SEPARATE: &str = "tract_openvino_ir_separate";

type Dumped = TractResult<Option<Arc<RValue>>>;

fn dump_range(ast: &mut IntoAst, node: &TypedNode, op: &Range) -> Dumped {
    let named = [("datum_type", datum_type(op.dt())), ("len", tdim(op.len()))];
    dump_node(ast, node, RANGE, &named)
}

fn load_range(builder: &mut ModelBuilder, invocation: &ResolvedInvocation) -> TractResult<Value> {
    let mut inputs = tvec!();
    for name in ["start", "stop", "step"] {
        inputs.push(invocation.named_arg_as(builder, name)?);
    }
    let dt: DatumType = invocation.named_arg_as::<String>(builder, "datum_type")?.parse()?;
    let len: TDim =
        builder.allowing_new_symbols(|builder| invocation.named_arg_as(builder, "len"))?;
    builder.wire(Range::new(dt, len), &inputs)
}

fn dump_non_zero(ast: &mut IntoAst, node: &TypedNode, op: &NonZero) -> Dumped {
    dump_node(ast, node, NON_ZERO, &[("count", string(op.count.to_string()))])
}

fn load_non_zero(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
) -> TractResult<Value> {
    let count: String = invocation.named_arg_as(builder, "count")?;
    let count = builder.model.symbols.sym(&count);
    load_with_input(builder, invocation, NonZero { count })
}

fn dump_least_sizes(ast: &mut IntoAst, node: &TypedNode, op: &LeastSizes) -> Dumped {
    let (axes, sizes): (Vec<usize>, Vec<usize>) = op.least.iter().copied().unzip();
    dump_node(ast, node, LEAST_SIZES, &[("axes", ints(&axes)), ("sizes", ints(&sizes))])
}

fn load_least_sizes(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
) -> TractResult<Value> {
    let axes: TVec<usize> = invocation.named_arg_as(builder, "axes")?;
    let sizes: TVec<usize> = invocation.named_arg_as(builder, "sizes")?;
    ensure!(
        axes.len() == sizes.len(),
        "axes are {axes:?} and sizes are {sizes:?}, but must have the same number of elements"
    );
    let least = axes.into_iter().zip(sizes).collect();
    load_with_input(builder, invocation, LeastSizes { least })
}

/// What a size may be at most, where it may be any.
const ANY: i64 = -1;

fn dump_size_bounds(ast: &mut IntoAst, node: &TypedNode, op: &SizeBounds) -> Dumped {
    let sizes: Vec<TDim> = op.bounds.iter().map(|it| it.size.clone()).collect();
    let integers = |of: fn(&Bounds) -> i64| {
        array(op.bounds.iter().map(|it| numeric(of(it))).collect::<Vec<_>>())
    };
    let named = [
        ("sizes", tdims(&sizes)),
        ("least", integers(|it| it.least)),
        ("most", integers(|it| it.most.unwrap_or(ANY))),
        ("of", array(op.bounds.iter().map(|it| string(&it.of)).collect::<Vec<_>>())),
    ];
    dump_node(ast, node, SIZE_BOUNDS, &named)
}

fn load_size_bounds(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
) -> TractResult<Value> {
    let sizes: TVec<TDim> = invocation.named_arg_as(builder, "sizes")?;
    let least: TVec<i64> = invocation.named_arg_as(builder, "least")?;
    let most: TVec<i64> = invocation.named_arg_as(builder, "most")?;
    let of: TVec<String> = invocation.named_arg_as(builder, "of")?;
    let count = sizes.len();
    ensure!(
        [least.len(), most.len(), of.len()] == [count; 3],
        "there are {count} sizes, {} least and {} most ones, and {} names, but must be as many of each",
        least.len(),
        most.len(),
        of.len()
    );
    let bounds = (0..count).map(|number| Bounds {
        size: sizes[number].clone(),
        least: least[number],
        most: Some(most[number]).filter(|most| *most != ANY),
        of: of[number].clone(),
    });
    load_with_input(builder, invocation, SizeBounds { bounds: bounds.collect() })
}

/// Wires an operator that has one input, and nothing that is still to be read.
fn load_with_input(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
    op: impl Into<Box<dyn TypedOp>>,
) -> TractResult<Value> {
    let input: OutletId = invocation.named_arg_as(builder, "input")?;
    builder.wire(op, &[input])
}
