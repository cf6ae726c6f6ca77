//! Operators of the standard ONNX domain that tract has, but not as ONNX says.
//!
//! [`indexing`] builds those whose indices tract does not check. [`mended`] takes a node as tract builds it, and puts
//! right what tract makes of it when the model is typed.

use crate::eval;
use crate::infer::{Axis, InferenceGather, InferenceGatherNd};
use crate::operation::Operation;
use crate::ops::{Apart, GatherElements, Opaque, Places, Scatter};
use crate::revision::{
    GatherNdRevision, GatherRevision, ONNX_GATHER_ELEMENTS, ONNX_SCATTER_ELEMENTS, ONNX_SCATTER_ND,
    Spec,
};
use crate::shape;
use tract_core::ops::array::{MultiBroadcastTo, ScatterReduction, Slice};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cast::{Cast, cast, wire_cast};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::gru_seq::GruSeq;
use tract_core::ops::logic::{Iff, comp_eq, comp_lt, or};
use tract_core::ops::math;
use tract_core::ops::scan::{InputMapping, Scan};
use tract_hir::internal::*;
use tract_onnx::pb::NodeProto;
use tract_openvino_kernels::checks::check_named_inputs;

/// The operators that [`indexing`] builds.
pub(crate) const INDEXING: [&str; 7] =
    ["Gather", "GatherND", "GatherElements", "Scatter", "ScatterElements", "ScatterND", "OneHot"];

/// An operator of [`INDEXING`]. A negative index counts from the end, and one out of range is an error, or nothing that
/// OneHot sets: "all index values are expected to be within bounds [-s, s-1]".
pub(crate) fn indexing(node: &NodeProto) -> TractResult<Box<dyn InferenceOp>> {
    let axis = |default| Ok::<i64, TractError>(node.get_attr_opt("axis")?.unwrap_or(default));
    let reduction = || {
        let word = node.get_attr_opt("reduction")?.unwrap_or("none");
        ScatterReduction::parse(word)
    };
    const DATA: [&str; 2] = ["data", "indices"];
    const UPDATES: [&str; 3] = ["data", "indices", "updates"];
    Ok(match &*node.op_type {
        "Gather" => {
            let operation = Operation::onnx(GatherRevision::V7);
            check_inputs(operation.spec(), node, &DATA)?;
            expand(InferenceGather { operation, axis: Axis::Attribute(axis(0)?) })
        }
        "GatherND" => {
            let operation = Operation::onnx(GatherNdRevision::V8);
            check_inputs(operation.spec(), node, &DATA)?;
            let batch_dims = node.get_attr_opt("batch_dims")?.unwrap_or(0);
            expand(InferenceGatherNd(operation.with_batch_dims(batch_dims)?))
        }
        "GatherElements" => {
            check_inputs(&ONNX_GATHER_ELEMENTS, node, &DATA)?;
            expand(InferenceGatherElements { axis: axis(0)? })
        }
        "ScatterND" => {
            check_inputs(&ONNX_SCATTER_ND, node, &UPDATES)?;
            expand(InferenceScatter { axis: None, reduction: reduction()? })
        }
        "OneHot" => {
            check_named_inputs("ONNX OneHot", &["indices", "depth", "values"], node.input.len())?;
            expand(OneHot { axis: axis(-1)? })
        }
        _ => {
            check_inputs(&ONNX_SCATTER_ELEMENTS, node, &UPDATES)?;
            expand(InferenceScatter { axis: Some(axis(0)?), reduction: reduction()? })
        }
    })
}

/// All inputs are required. Inference cannot check that: tract drops an input that is left out, so that the
/// others move up.
pub(crate) fn check_inputs(spec: &Spec, node: &NodeProto, expected: &[&str]) -> TractResult<()> {
    check_named_inputs(spec.name, expected, node.input.len())?;
    for (input, name) in node.input.iter().zip(expected) {
        ensure!(!input.is_empty(), "{}: input {name} is left out, but is required", spec.name);
    }
    eval::check_number_of_outputs(spec, node.output.len())
}

/// A GatherElements node.
#[derive(Debug, Clone)]
struct InferenceGatherElements {
    axis: i64,
}

impl Expansion for InferenceGatherElements {
    fn name(&self) -> StaticName {
        ONNX_GATHER_ELEMENTS.name.into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        let spec = &ONNX_GATHER_ELEMENTS;
        check_named_inputs(spec.name, &["data", "indices"], inputs.len())?;
        eval::check_number_of_outputs(spec, outputs.len())?;
        s.equals(&outputs[0].datum_type, &inputs[0].datum_type)?;
        s.given(&inputs[1].datum_type, move |_, dt| eval::ensure_integer(spec, "indices", dt))?;
        s.equals(&inputs[0].rank, &inputs[1].rank)?;
        s.equals(&outputs[0].shape, &inputs[1].shape)
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let [data, indices] = [inputs[0], inputs[1]];
        let (shape, smaller) =
            (model.outlet_fact(data)?.shape.to_tvec(), model.outlet_fact(indices)?.shape.to_tvec());
        let axis = shape::normalize_axis(&ONNX_GATHER_ELEMENTS, self.axis.into(), shape.len())?;
        // Beside the axis there may be fewer indices than data.
        let mut data = data;
        for (other, (size, of_indices)) in shape.iter().zip(&smaller).enumerate() {
            if other == axis || size == of_indices {
                continue;
            }
            if let (Some(size), Some(of_indices)) = (size.as_i64(), of_indices.as_i64()) {
                ensure!(
                    of_indices <= size,
                    "{}: dimension {other} of indices is {of_indices}, but must be at most {size}, as that of \
                     data is",
                    ONNX_GATHER_ELEMENTS.name
                );
            }
            let slice = Slice::new(other, 0, of_indices.clone());
            data = model.wire_node(format!("{prefix}.data_{other}"), slice, &[data])?[0];
        }
        model.wire_node(prefix, GatherElements::onnx(axis), &[data, indices])
    }
}

/// A ScatterND node, or a ScatterElements node with its axis.
#[derive(Debug, Clone)]
struct InferenceScatter {
    axis: Option<i64>,
    reduction: ScatterReduction,
}

impl InferenceScatter {
    fn spec(&self) -> &'static Spec {
        if self.axis.is_some() { &ONNX_SCATTER_ELEMENTS } else { &ONNX_SCATTER_ND }
    }
}

/// tract computes with sizes as `TDim` where ONNX has I64.
fn common_type(spec: &Spec, [data, updates]: [DatumType; 2]) -> TractResult<DatumType> {
    DatumType::super_type_for([data, updates]).with_context(|| {
        format!(
            "{}: updates is of type {updates:?}, but must be of type {data:?}, as data",
            spec.name
        )
    })
}

impl Expansion for InferenceScatter {
    fn name(&self) -> StaticName {
        self.spec().name.into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        let spec = self.spec();
        check_named_inputs(spec.name, &["data", "indices", "updates"], inputs.len())?;
        eval::check_number_of_outputs(spec, outputs.len())?;
        let [data, indices, updates] = [&inputs[0], &inputs[1], &inputs[2]];
        s.given_2(&data.datum_type, &updates.datum_type, move |s, data, updates| {
            s.equals(&outputs[0].datum_type, common_type(spec, [data, updates])?)
        })?;
        s.given(&indices.datum_type, move |_, dt| eval::ensure_integer(spec, "indices", dt))?;
        s.equals(&outputs[0].shape, &data.shape)?;
        if self.axis.is_some() {
            s.equals(&data.rank, &indices.rank)?;
            return s.equals(&indices.shape, &updates.shape);
        }
        s.given_2(&data.rank, &indices.rank, move |s, data, rank| {
            shape::check_nd_rank(spec, "indices", rank as usize, 0)?;
            s.given(&indices.shape[rank as usize - 1], move |s, tuple| {
                let Some(tuple) = tuple.as_i64() else { return Ok(()) };
                shape::check_tuple(spec, shape::tuple_length(spec, tuple)?, 0, data as usize)?;
                s.equals(&updates.rank, data + rank - 1 - tuple)
            })
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let data = model.outlet_fact(inputs[0])?;
        let types = [data.datum_type, model.outlet_fact(inputs[2])?.datum_type];
        let places = match self.axis {
            Some(axis) => {
                let axis = shape::normalize_axis(self.spec(), axis.into(), data.rank())?;
                Places::Elements { axis }
            }
            None => Places::Tuples,
        };
        let dt = common_type(self.spec(), types)?;
        let same = wire_cast(prefix, model, &[inputs[0], inputs[2]], dt)?;
        let op = Scatter { places, reduction: self.reduction };
        model.wire_node(prefix, op, &[same[0], inputs[1], same[1]])
    }
}

/// A OneHot node.
#[derive(Debug, Clone)]
struct OneHot {
    axis: i64,
}

impl OneHot {
    /// The axis that the output has and the indices have not.
    fn axis(&self, rank: usize) -> TractResult<usize> {
        let (axis, ranks) = (self.axis, rank as i64 + 1);
        let from_start = if axis < 0 { axis.checked_add(ranks) } else { Some(axis) };
        let axis = from_start.filter(|it| (0..ranks).contains(it)).with_context(|| {
            let last = ranks - 1;
            format!(
                "ONNX OneHot: axis is {axis}, but must be in [{}, {last}], as indices has rank {rank}",
                -ranks
            )
        })?;
        Ok(axis as usize)
    }
}

/// The largest depth of a OneHot, for which a few bytes of a file ask.
const MOST_CLASSES: i64 = 1 << 20;

/// The depth of a OneHot: a scalar, or a tensor of one element.
fn depth(tensor: &Tensor) -> TractResult<i64> {
    ensure!(
        tensor.len() == 1,
        "ONNX OneHot: depth has shape {:?}, but must be a scalar or a tensor of one element",
        tensor.shape()
    );
    let depth = tensor.cast_to::<i64>()?;
    let depth = depth.try_as_plain_ram()?.as_slice::<i64>()?[0];
    ensure!(
        (0..=MOST_CLASSES).contains(&depth),
        "ONNX OneHot: depth is {depth}, but must be in [0, {MOST_CLASSES}]"
    );
    Ok(depth)
}

impl Expansion for OneHot {
    fn name(&self) -> StaticName {
        "ONNX OneHot".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axis: {}", self.axis)])
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_named_inputs("ONNX OneHot", &["indices", "depth", "values"], inputs.len())?;
        check_output_arity(outputs, 1)?;
        s.equals(&outputs[0].datum_type, &inputs[2].datum_type)?;
        s.equals(&inputs[2].rank, 1)?;
        s.equals(&inputs[2].shape[0], 2.to_dim())?;
        s.equals(inputs[0].rank.bex() + 1, &outputs[0].rank)?;
        s.given(&inputs[0].rank, move |s, rank| {
            let rank = rank as usize;
            let axis = self.axis(rank)?;
            for other in 0..rank {
                let of_output = other + usize::from(other >= axis);
                s.equals(&inputs[0].shape[other], &outputs[0].shape[of_output])?;
            }
            s.given(&inputs[1].value, move |s, value| {
                s.equals(&outputs[0].shape[axis], depth(&value)?.to_dim())
            })
        })
    }

    /// Where a position along the new axis, counted from the start or from the end, is the index.
    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let rank = model.outlet_fact(inputs[0])?.rank();
        let axis = self.axis(rank)?;
        let known = model.outlet_fact(inputs[1])?.konst.clone();
        let known = known.context("ONNX OneHot: depth is computed, but must be a constant")?;
        let depth = depth(&known)?;
        let name = |part: &str| format!("{prefix}.{part}");
        let indices = model.wire_node(name("i64"), cast(DatumType::I64), &[inputs[0]])?;
        let indices = model.wire_node(name("axis"), AxisOp::Add(axis), &indices)?[0];
        let mut shape = vec![1; rank + 1];
        shape[axis] = usize::try_from(depth)?;
        let mut is_on = tvec![];
        for (part, first) in [("from_start", 0), ("from_end", -depth)] {
            let positions: Vec<i64> = (first..first + depth).collect();
            let positions = Tensor::from_shape(&shape, &positions)?;
            let positions = model.add_const(name(&format!("{part}.positions")), positions)?;
            let equal = TypedBinOp(comp_eq(), None);
            is_on.push(model.wire_node(name(part), equal, &[indices, positions])?[0]);
        }
        let is_on = model.wire_node(name("is_on"), or(), &is_on)?[0];
        let mut values = tvec![];
        for (number, part) in ["off", "on"].into_iter().enumerate() {
            let slice = Slice::new(0, number, number + 1);
            let mut value = model.wire_node(name(part), slice, &[inputs[2]])?[0];
            for more in 0..rank {
                let add = AxisOp::Add(0);
                value = model.wire_node(name(&format!("{part}.{more}")), add, &[value])?[0];
            }
            values.push(value);
        }
        model.wire_node(prefix, Iff, &[is_on, values[1], values[0]])
    }
}

/// A node as tract builds it, with what tract does wrong in it put right. `rebuild` builds another node as tract does.
pub(crate) fn mended(
    node: &NodeProto,
    built: Box<dyn InferenceOp>,
    rebuild: impl Fn(&NodeProto) -> TractResult<Box<dyn InferenceOp>>,
) -> TractResult<Box<dyn InferenceOp>> {
    refuse_ignored(node)?;
    let expansion = |op: &dyn InferenceOp| op.as_op().downcast_ref::<Box<dyn Expansion>>().cloned();
    if node.op_type == "Celu" {
        return Ok(expand(Celu(node.get_attr_opt("alpha")?.unwrap_or(1.))));
    }
    let Some(inner) = expansion(&*built) else { return Ok(built) };
    Ok(match &*node.op_type {
        "MatMul" | "Gemm" | "Einsum" => expand(Product(inner)),
        "LSTM" | "GRU" | "RNN" => {
            let mut stated = node.clone();
            let states = if node.op_type == "LSTM" {
                INITIAL_H..=INITIAL_H + 1
            } else {
                INITIAL_H..=INITIAL_H
            };
            let mut added = vec![];
            for input in states.clone() {
                if stated.input.len() <= input {
                    stated.input.resize(input + 1, String::new());
                }
                if stated.input[input].is_empty() {
                    stated.input[input] = format!("initial state {input}");
                    added.push(input);
                }
            }
            // tract drops inputs that are left out, so that the others move up.
            let place = |input: &usize| {
                stated.input[..*input].iter().filter(|name| !name.is_empty()).count()
            };
            let added = added.iter().map(place).collect();
            let states = states.map(|input| place(&input)).collect();
            let Some(with_states) = expansion(&*rebuild(&stated)?) else { return Ok(built) };
            expand(Recurrence {
                inner,
                with_states,
                states,
                added,
                is_reverse: node.get_attr_opt("direction")? == Some("reverse"),
                batch_first: node.get_attr_opt("layout")?.unwrap_or(0) == 1,
            })
        }
        _ => built,
    })
}

/// Refuses what tract ignores, so that the result would be another one.
fn refuse_ignored(node: &NodeProto) -> TractResult<()> {
    let int = |name: &str, default: i64| {
        Ok::<i64, TractError>(node.get_attr_opt(name)?.unwrap_or(default))
    };
    match &*node.op_type {
        "Attention" => {
            for name in ["left_window_size", "right_window_size"] {
                let size = int(name, -1)?;
                ensure!(
                    size < 0,
                    "Attention: attribute {name} is {size}, but only -1 is supported"
                );
            }
            let has_past = node.input.get(PAST_KEY).is_some_and(|input| !input.is_empty());
            ensure!(
                !(has_past && int("is_causal", 0)? == 1),
                "Attention: attribute is_causal is 1, which is not supported with past_key"
            );
        }
        "SpaceToDepth" => {
            let mode = node.get_attr_opt("mode")?.unwrap_or("DCR");
            ensure!(
                mode == "DCR",
                "SpaceToDepth: attribute mode is {mode:?}, but only \"DCR\" is supported"
            );
        }
        "Swish" => {
            let alpha = node.get_attr_opt("alpha")?.unwrap_or(1f32);
            ensure!(alpha == 1., "Swish: attribute alpha is {alpha}, but only 1 is supported");
        }
        _ => (),
    }
    Ok(())
}

/// The position of the input `past_key` of Attention.
const PAST_KEY: usize = 4;

/// The position of the input `initial_h` of recurrent nodes. That of `initial_c` follows.
const INITIAL_H: usize = 5;

/// What a node has in common with the one that tract builds.
macro_rules! as_tract_builds_it {
    ($inner:tt) => {
        fn name(&self) -> StaticName {
            Expansion::name(&*self.$inner)
        }

        fn validation(&self) -> Validation {
            Expansion::validation(&*self.$inner)
        }

        fn info(&self) -> TractResult<Vec<String>> {
            Expansion::info(&*self.$inner)
        }

        fn nboutputs(&self) -> TractResult<usize> {
            Expansion::nboutputs(&*self.$inner)
        }

        fn runs_out_of_plan(&self) -> bool {
            Expansion::runs_out_of_plan(&*self.$inner)
        }

        fn rules<'r, 'p: 'r, 's: 'r>(
            &'s self,
            s: &mut Solver<'r>,
            inputs: &'p [TensorProxy],
            outputs: &'p [TensorProxy],
        ) -> InferenceResult {
            Expansion::rules(&*self.$inner, s, inputs, outputs)
        }
    };
}

/// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`, of which one is 0. tract's has no factor before the
/// power.
#[derive(Debug, Clone)]
struct Celu(f32);

impl Expansion for Celu {
    fn name(&self) -> StaticName {
        "Celu".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 1)?;
        check_output_arity(outputs, 1)?;
        s.equals(&inputs[0].datum_type, &outputs[0].datum_type)?;
        s.equals(&inputs[0].shape, &outputs[0].shape)
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let fact = model.outlet_fact(inputs[0])?;
        let (dt, rank) = (fact.datum_type, fact.rank());
        let name = |part: &str| format!("{prefix}.{part}");
        // Half precision would be rounded after each step.
        let single = if dt == DatumType::F16 { DatumType::F32 } else { dt };
        let x = model.wire_node(name("single"), cast(single), inputs)?[0];
        let mut number = |part: &str, number: f32| {
            let number = tensor0(number).cast_to_dt(single)?.into_owned();
            model.add_const(name(part), number.broadcast_into_rank(rank)?)
        };
        let (zero, one, alpha) =
            (number("zero", 0.)?, number("one", 1.)?, number("alpha", self.0)?);
        let quotient = model.wire_node(name("quotient"), math::div(), &[x, alpha])?;
        let power = model.wire_node(name("power"), math::exp(), &quotient)?[0];
        let difference = model.wire_node(name("difference"), math::sub(), &[power, one])?[0];
        let scaled = model.wire_node(name("scaled"), math::mul(), &[difference, alpha])?[0];
        let less = TypedBinOp(comp_lt(), None);
        let is_below = model.wire_node(name("is_below"), less, &[x, zero])?[0];
        let output = model.wire_node(name("output"), Iff, &[is_below, scaled, x])?;
        model.wire_node(prefix, cast(dt), &output)
    }
}

/// Products of matrices. If an input is broadcast, and no other one has the size of that axis, tract's declutter
/// fails.
#[derive(Debug, Clone)]
struct Product(Box<dyn Expansion>);

impl Expansion for Product {
    as_tract_builds_it!(0);

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let before = model.nodes().len();
        let outputs = self.0.wire(prefix, model, inputs)?;
        hide_broadcasts(prefix, model, before)?;
        Ok(outputs)
    }

    fn wire_with_inference_model_and_node(
        &self,
        prefix: &str,
        model: &InferenceModel,
        node: &InferenceNode,
        typed_model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let before = typed_model.nodes().len();
        let outputs =
            self.0.wire_with_inference_model_and_node(prefix, model, node, typed_model, inputs)?;
        hide_broadcasts(prefix, typed_model, before)?;
        Ok(outputs)
    }
}

/// Puts [`Opaque`] between the products among the nodes from a number on and what broadcasts their inputs, where the
/// product has the size of an axis from there alone.
fn hide_broadcasts(prefix: &str, model: &mut TypedModel, first: usize) -> TractResult<()> {
    for id in first..model.nodes().len() {
        let Some(op) = model.node(id).op_as::<EinSum>() else { continue };
        let axes = op.axes.clone();
        let inputs = model.node(id).inputs.clone();
        let broadcast: TVec<Option<TVec<usize>>> =
            inputs.iter().map(|input| broadcast_axes(model, *input)).collect::<TractResult<_>>()?;
        for (slot, input) in inputs.iter().enumerate() {
            let Some(of_input) = &broadcast[slot] else { continue };
            let is_elsewhere = |axis: &usize| -> TractResult<bool> {
                let here = &model.outlet_fact(*input)?.shape[*axis];
                let label = axes.axis((InOut::In(slot), *axis))?;
                for (other, place) in label.inputs.iter().enumerate() {
                    let (false, Some(place)) = (other == slot, place.first()) else { continue };
                    let is_own = broadcast[other].as_ref().is_none_or(|it| !it.contains(place));
                    if is_own && model.outlet_fact(inputs[other])?.shape[*place] == *here {
                        return Ok(true);
                    }
                }
                Ok(false)
            };
            let mut is_needed = of_input.is_empty();
            for axis in of_input {
                is_needed |= !is_elsewhere(axis)?;
            }
            if is_needed {
                let hidden =
                    model.wire_node(format!("{prefix}.hidden_{slot}"), Opaque, &[*input])?;
                model.add_edge(hidden[0], InletId::new(id, slot))?;
            }
        }
    }
    Ok(())
}

/// The axes along which an outlet is broadcast, if tract sees that; none if it gets axes.
fn broadcast_axes(model: &TypedModel, outlet: OutletId) -> TractResult<Option<TVec<usize>>> {
    let mut moves = vec![];
    let mut outlet = outlet;
    loop {
        let node = model.node(outlet.node);
        if let Some(op) = node.op_as::<MultiBroadcastTo>() {
            let input = model.outlet_fact(node.inputs[0])?;
            if input.rank() != op.shape.rank() {
                return Ok(Some(tvec![]));
            }
            let axes = (0..input.rank()).filter(|axis| input.shape[*axis] != op.shape[*axis]);
            let moved = |axis| {
                moves.iter().rev().try_fold(axis, |axis, it: &AxisOp| it.transform_axis(axis))
            };
            return Ok(Some(axes.filter_map(moved).collect()));
        }
        match node.op_as::<AxisOp>() {
            Some(AxisOp::Reshape(..)) => return Ok(None),
            Some(op) => moves.push(op.clone()),
            // tract moves these through it.
            None if node.op_is::<Cast>() || node.op_is::<ElementWiseOp>() => (),
            None => return Ok(None),
        }
        outlet = node.inputs[0];
    }
}

/// LSTM, GRU and RNN. tract makes the initial states itself where they are left out, of known sizes and in single
/// precision only, and takes the direction "reverse" for "forward". The two states of an LSTM may not be one outlet: tract moves the
/// axes of one of them. Half precision is computed in single precision.
#[derive(Debug, Clone)]
struct Recurrence {
    inner: Box<dyn Expansion>,
    /// The same node with all initial states.
    with_states: Box<dyn Expansion>,
    /// The positions of the states there.
    states: Vec<usize>,
    /// Those of states that the node does not have.
    added: Vec<usize>,
    is_reverse: bool,
    /// Whether the batch is the first axis (attribute `layout`).
    batch_first: bool,
}

impl Expansion for Recurrence {
    as_tract_builds_it!(inner);

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let dt = model.outlet_fact(inputs[0])?.datum_type;
        if dt == DatumType::F16 {
            return self.wire_in_single(prefix, model, inputs);
        }
        let x = model.outlet_fact(inputs[0])?;
        let batch = x.shape[usize::from(!self.batch_first)].clone();
        let recurrence = model.outlet_fact(inputs[2])?;
        let (directions, hidden) = (recurrence.shape[0].clone(), recurrence.shape[2].clone());
        let before = model.nodes().len();
        let tract_makes_them = batch.to_usize().is_ok() && dt == DatumType::F32;
        let mut inputs = inputs.to_vec();
        let mut inner = &self.inner;
        if !self.added.is_empty() && (self.states.len() == 2 || !tract_makes_them) {
            let mut shape = tvec![directions, batch, hidden];
            if self.batch_first {
                shape.swap(0, 1);
            }
            let zero = Tensor::zero_scalar_dt(dt)?.broadcast_into_rank(3)?;
            let zero = model.add_const(format!("{prefix}.zero"), zero)?;
            let states = MultiBroadcastTo::new(shape.into());
            let states = model.wire_node(format!("{prefix}.states"), states, &[zero])?[0];
            for place in &self.added {
                inputs.insert(*place, states);
            }
            inner = &self.with_states;
        }
        if let [hidden, cell] = self.states[..]
            && are_one(model, inputs[hidden], inputs[cell])?
        {
            for (number, place) in self.states.iter().enumerate() {
                let name = format!("{prefix}.state_{number}");
                inputs[*place] = model.wire_node(name, Apart(number), &[inputs[*place]])?[0];
            }
        }
        let outputs = inner.wire(prefix, model, &inputs)?;
        if self.is_reverse {
            reverse(model, before);
        }
        Ok(outputs)
    }
}

/// Whether two outlets are one, or become one, as equal constants do.
fn are_one(model: &TypedModel, one: OutletId, other: OutletId) -> TractResult<bool> {
    let constant = |outlet: OutletId| Ok::<_, TractError>(model.outlet_fact(outlet)?.konst.clone());
    let (constants, is_known) = ([constant(one)?, constant(other)?], |it: &Option<_>| it.is_some());
    Ok(one == other || constants.iter().all(is_known) && constants[0] == constants[1])
}

impl Recurrence {
    /// In half precision tract sums in half precision, and some of its operators for that are missing.
    fn wire_in_single(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let mut single = tvec![];
        for (number, input) in inputs.iter().enumerate() {
            let fact = model.outlet_fact(*input)?;
            let name = format!("{prefix}.single_{number}");
            // tract folds constants into larger ones up to a limit only.
            single.push(match fact.konst.clone() {
                _ if fact.datum_type != DatumType::F16 => *input,
                Some(constant) => model.add_const(name, constant.cast_to::<f32>()?.into_owned())?,
                None => model.wire_node(name, cast(DatumType::F32), &[*input])?[0],
            });
        }
        let mut outputs = self.wire(&format!("{prefix}.single"), model, &single)?;
        for (number, output) in outputs.iter_mut().enumerate() {
            let name = match number {
                0 => prefix.to_string(),
                number => format!("{prefix}.{number}"),
            };
            *output = model.wire_node(name, cast(DatumType::F16), &[*output])?[0];
        }
        Ok(outputs)
    }
}

/// Lets the loops among the nodes from a number on begin at the last element.
fn reverse(model: &mut TypedModel, first: usize) {
    for node in &mut model.nodes[first..] {
        if let Some(scan) = node.op_as_mut::<Scan>() {
            for input in &mut scan.input_mapping {
                if let InputMapping::Scan(info) = input {
                    info.chunk = -info.chunk;
                }
            }
            let scans = scan.output_mapping.iter_mut().filter_map(|output| output.scan.as_mut());
            scans.for_each(|(_, info)| info.chunk = -info.chunk);
        }
        if let Some(gru) = node.op_as_mut::<GruSeq>() {
            gru.chunk = -gru.chunk;
        }
    }
}
