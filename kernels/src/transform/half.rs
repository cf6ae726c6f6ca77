//! Models in half precision.
//!
//! Processors compute in single precision. tract's operators for half precision are many times slower, and round each
//! step of a sum. This part translates a model that has products or convolutions in half precision: each operator
//! computes in single precision, and its result is rounded to half precision once, as ONNX Runtime does it on
//! processors. What is rounded stays in single precision until an operator needs it that this part does not know.

use tract_core::internal::*;
use tract_core::ops::array::{
    Gather, GatherElements, GatherNd, MultiBroadcastTo, Pad, PadMode, Slice, Tile, TypedConcat,
};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cast::{Cast, cast};
use tract_core::ops::cnn::{Conv, Deconv, MaxPool, SumPool};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::identity::Identity;
use tract_core::ops::konst::Const;
use tract_core::ops::logic::{IfThenElse, Iff};
use tract_core::ops::math;
use tract_core::ops::nn::{Reduce, Reducer, Resize, RmsNorm, Softmax};
use tract_core::ops::scan::Scan;

use super::found::{Found, is_single};
use super::rule::{Movement, Outcome, Session};
use super::translation::Translation;
use crate::product::half::round_to_half;

/// The name of this part, as if it were a rule.
pub(super) const NAME: &str = "half_precision";

const F16: DatumType = DatumType::F16;
const F32: DatumType = DatumType::F32;

/// Makes a model compute in single precision, if it has products or convolutions in half precision.
pub(super) fn translate(session: &Session, model: &mut TypedModel) -> TractResult<()> {
    if model.nodes.iter().any(multiplies_in_half) {
        *model = translated(Some(session), model)?;
    }
    Ok(())
}

fn is_half(fact: &TypedFact) -> bool {
    fact.datum_type == F16 && fact.is_plain()
}

fn multiplies_in_half(node: &TypedNode) -> bool {
    let any = |body: &TypedModel| body.nodes.iter().any(multiplies_in_half);
    if let Some(op) = node.op_as::<Scan>() {
        return any(&op.body);
    }
    if let Some(op) = node.op_as::<IfThenElse>() {
        return any(&op.then_body) || any(&op.else_body);
    }
    let multiplies = is_one_of!(node.op, EinSum, Conv, Deconv);
    multiplies && is_half(&node.outputs[0].fact)
}

/// A model with the same inputs and outputs, or a body with all of them in single precision, if there is no session.
fn translated(session: Option<&Session>, source: &TypedModel) -> TractResult<TypedModel> {
    let mut translation = HalfTranslation { session, model: Translation::new(source) };
    for input in source.input_outlets()? {
        let fact = match source.outlet_fact(*input)? {
            fact if session.is_none() && is_half(fact) => F32.fact(fact.shape.clone()),
            fact => fact.without_value(),
        };
        let outlet = translation.model.input(*input, fact)?;
        translation.set(*input, outlet)?;
    }
    for id in source.eval_order()? {
        let node = source.node(id);
        let is_done = |slot| translation.model.values.contains_key(&OutletId::new(id, slot));
        if !(0..node.outputs.len()).all(is_done) {
            translation.node(node).with_context(|| format!("{NAME}, {node}"))?;
        }
    }
    let mut outputs = vec![];
    for outlet in source.output_outlets()? {
        let output = translation.form(*outlet, if session.is_some() { F16 } else { F32 })?;
        // An outlet of the target may be several outputs, and has one label only.
        let target = &mut translation.model.target;
        if let Some(label) = source.outlet_label(*outlet)
            && target.outlet_label(output).is_none()
        {
            target.set_outlet_label(output, label.to_string())?;
        }
        outputs.push(output);
    }
    translation.model.into_target(&outputs)
}

/// The forms of a value. One that is not of half precision in the source is the same in both.
#[derive(Debug, Clone, Copy, Default)]
struct PrecisionForms {
    half: Option<OutletId>,
    single: Option<OutletId>,
}

impl PrecisionForms {
    fn of(&mut self, dt: DatumType) -> &mut Option<OutletId> {
        if dt == F16 { &mut self.half } else { &mut self.single }
    }
}

/// A model on its way to single precision.
struct HalfTranslation<'a> {
    /// There is none in a body.
    session: Option<&'a Session<'a>>,
    model: Translation<'a, PrecisionForms>,
}

impl HalfTranslation<'_> {
    fn wire(
        &mut self,
        name: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let name = self.model.unique_name(name);
        self.model.target.wire_node(name, op, inputs)
    }

    /// The value as it is in the source, or in single precision where that has half precision.
    fn form(&mut self, outlet: OutletId, dt: DatumType) -> TractResult<OutletId> {
        let mut value = self.model.value(outlet)?;
        if let Some(wanted) = *value.of(dt) {
            return Ok(wanted);
        }
        let other = value.half.or(value.single).context("it has a form")?;
        let name = &self.model.source.node(outlet.node).name;
        let form = if dt == F16 { "half" } else { "single" };
        let name = format!("{name}.{form}_{}", outlet.slot);
        // tract folds constants into larger ones up to a limit only.
        let made = match self.model.target.outlet_fact(other)?.konst.clone() {
            Some(constant) => {
                let constant = constant.cast_to_dt(dt)?.into_owned();
                self.wire(&name, Const::new(constant.into_arc_tensor())?, &[])?[0]
            }
            None => self.wire(&name, cast(dt), &[other])?[0],
        };
        *value.of(dt) = Some(made);
        self.model.values.insert(outlet, value);
        Ok(made)
    }

    fn set(&mut self, outlet: OutletId, found: OutletId) -> TractResult<()> {
        let is_half = is_half(self.model.source.outlet_fact(outlet)?);
        let dt = self.model.target.outlet_fact(found)?.datum_type;
        let value = PrecisionForms {
            half: (!is_half || dt == F16).then_some(found),
            single: (!is_half || dt == F32).then_some(found),
        };
        self.model.values.insert(outlet, value);
        Ok(())
    }

    fn node(&mut self, node: &TypedNode) -> TractResult<()> {
        let facts = self.model.source.node_input_facts(node.id)?;
        let takes_half = facts.iter().any(|fact| is_half(fact));
        let gives_half = node.outputs.iter().any(|output| is_half(&output.fact));
        if let Some(Cast { to }) = node.op_as() {
            if *to == F32 && takes_half {
                let single = self.form(node.inputs[0], F32)?;
                return self.set(node.id.into(), single);
            }
            if *to == F16 && is_single(facts[0]) {
                let input = self.form(node.inputs[0], F16)?;
                let found = self.wire(&node.name, round_to_half(), &[input])?;
                return self.set(node.id.into(), found[0]);
            }
        }
        let lacks_half =
            |outlet: &OutletId| self.model.values.get(outlet).is_some_and(|it| it.half.is_none());
        let translation = match translation_of(node)? {
            // What exists in half precision only is moved so: a table of which few rows are needed.
            Some(Precise::Moved(_)) if !node.inputs.iter().any(lacks_half) => None,
            translation if takes_half || gives_half || multiplies_in_half(node) => translation,
            _ => None,
        };
        let (op, dt, is_rounded) = match translation {
            None => (node.op.clone(), F16, false),
            Some(Precise::Moved(op) | Precise::Body(op)) => (op, F32, false),
            Some(Precise::Computed(op)) => (op, F32, true),
        };
        let inputs = node.inputs.iter().map(|input| self.form(*input, dt));
        let inputs = inputs.collect::<TractResult<TVec<_>>>()?;
        let found = self.wire(&node.name, op, &inputs)?;
        if dt == F32
            && multiplies_in_half(node)
            && let Some(session) = self.session
        {
            let outcome = Outcome::Replaced(format!("{} in single precision", node.op.name()));
            session.decide(NAME, node, outcome);
        }
        for (slot, mut found) in found.into_iter().enumerate() {
            if is_rounded && is_half(&node.outputs[slot].fact) {
                let name = format!("{}.rounded_{slot}", node.name);
                found = self.wire(&name, round_to_half(), &[found])?[0];
            }
            self.set(OutletId::new(node.id, slot), found)?;
        }
        Ok(())
    }
}

/// An operator in single precision.
enum Precise {
    /// Numbers of half precision stay such.
    Moved(Box<dyn TypedOp>),
    /// The result is to be rounded.
    Computed(Box<dyn TypedOp>),
    /// What is in a body is rounded there.
    Body(Box<dyn TypedOp>),
}

/// The operator of a node in single precision, if it is known here.
fn translation_of(node: &TypedNode) -> Found<Precise> {
    let single = |dt: DatumType| if dt == F16 { F32 } else { dt };
    let op = &node.op;
    let (op, is_exact): (Box<dyn TypedOp>, bool) = if let Some(op) = node.op_as::<TypedBinOp>() {
        let is_exact = is_one_of!(op.0, math::Min, math::Max);
        (Box::new(TypedBinOp(op.0.clone(), op.1.map(single))), is_exact)
    } else if let Some(op) = node.op_as::<ElementWiseOp>() {
        let is_exact = is_one_of!(op.0, math::Abs, math::Neg, math::Ceil, math::Floor, math::Sign);
        (Box::new(ElementWiseOp(op.0.clone(), op.1.map(single))), is_exact)
    } else if let Some(op) = node.op_as::<EinSum>() {
        rule_if!(op.q_params.is_none());
        let operating_dt = single(op.operating_dt);
        (Box::new(EinSum { operating_dt, ..op.clone() }), false)
    } else if let Some(Reduce { reducer, .. }) = node.op_as() {
        let is_sum = matches!(reducer, Reducer::Sum | Reducer::Prod | Reducer::MeanOfSquares);
        (op.clone(), !is_sum)
    } else if let Some(op) = node.op_as::<Pad>() {
        let mode = match &op.mode {
            PadMode::Constant(value) if value.datum_type() == F16 => {
                PadMode::Constant(value.cast_to::<f32>()?.into_owned().into_arc_tensor())
            }
            mode => mode.clone(),
        };
        (Box::new(Pad { mode, ..op.clone() }), true)
    } else if let Some(op) = node.op_as::<Scan>() {
        let body = translated(None, &op.body)?;
        return Ok(Some(Precise::Body(Box::new(Scan { body, ..op.clone() }))));
    } else if let Some(op) = node.op_as::<IfThenElse>() {
        let then_body = translated(None, &op.then_body)?;
        let else_body = translated(None, &op.else_body)?;
        let op = IfThenElse { then_body, else_body, ..op.clone() };
        return Ok(Some(Precise::Body(Box::new(op))));
    } else {
        let is_computed = is_one_of!(op, Conv, Deconv, SumPool, Softmax, RmsNorm, Resize);
        let is_moved = is_one_of!(op, AxisOp, Slice, TypedConcat, MultiBroadcastTo, Tile, Identity)
            || is_one_of!(op, Iff, MaxPool, GatherElements, GatherNd)
            || op.downcast_ref::<Gather>().is_some_and(|op| op.output_type.is_none())
            || Movement::Moves.has(&**op);
        rule_if!(is_computed || is_moved);
        (op.clone(), !is_computed)
    };
    Ok(Some(if is_exact { Precise::Moved(op) } else { Precise::Computed(op) }))
}

#[cfg(test)]
mod tests {
    use tract_core::ops::cnn::{KernelFormat, PaddingSpec, PoolSpec};
    use tract_core::ops::nn::{DataFormat, SoftmaxKind};
    use tract_core::tract_data::half::f16;

    use super::*;
    use crate::{KernelsConfig, KernelsTransform, WithKernels};

    fn halves(shape: &[usize], seed: usize) -> Tensor {
        let count: usize = shape.iter().product();
        let numbers =
            (0..count).map(|it| f16::from_f32(((it + seed) * 37 % 101) as f32 / 50. - 1.));
        Tensor::from_shape(shape, &numbers.collect::<Vec<_>>()).unwrap()
    }

    /// An operator that gets tensors in half precision, in single precision, and rounded.
    fn rounded(op: &dyn TypedOp, inputs: &[&Tensor]) -> TractResult<Tensor> {
        let inputs = inputs.iter().map(|it| Ok(it.cast_to::<f32>()?.into_owned().into_tvalue()));
        let inputs = inputs.collect::<TractResult<TVec<_>>>()?;
        let output = op.eval(&EvalContext::out_of_plan(), inputs)?.remove(0);
        Ok(output.cast_to::<f16>()?.into_owned())
    }

    fn convolution() -> Conv {
        let pool = PoolSpec::new(
            DataFormat::NCHW,
            tvec![3, 3],
            PaddingSpec::SameUpper,
            None,
            Some(tvec![2, 2]),
            3,
            8,
        );
        Conv::new(pool, KernelFormat::OIHW, 1, None)
    }

    /// The same in single precision.
    fn product(dt: DatumType) -> EinSum {
        EinSum::new("nchw,cd->nhwd".parse().unwrap(), dt)
    }

    fn softmax() -> Softmax {
        Softmax { axes: tvec![3], quant_output_dt: None, kind: SoftmaxKind::Softmax }
    }

    /// A convolution, Relu, a product, a sum and a softmax.
    fn model() -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let x = model.add_source("x", F16.fact([1, 3, 9, 9]))?;
        let weights = model.add_const("weights", halves(&[8, 3, 3, 3], 1))?;
        let bias = model.add_const("bias", halves(&[8], 2))?;
        let matrix = model.add_const("matrix", halves(&[8, 5], 3))?;
        let zero = model.add_const("zero", tensor0(f16::ZERO).broadcast_into_rank(4)?)?;
        let third = model.add_const("third", halves(&[1, 1, 1, 5], 4))?;
        let y = model.wire_node("conv", convolution(), &[x, weights, bias])?;
        let y = model.wire_node("relu", math::max(), &[y[0], zero])?;
        let y = model.wire_node("product", product(F16), &[y[0], matrix])?;
        let sum = model.wire_node("sum", math::add(), &[y[0], third])?;
        let y = model.wire_node("softmax", softmax(), &sum)?;
        model.select_output_outlets(&[y[0], sum[0]])?;
        Ok(model)
    }

    #[test]
    fn each_operator_is_rounded_once() -> TractResult<()> {
        let x = halves(&[1, 3, 9, 9], 7);
        let y = rounded(&convolution(), &[&x, &halves(&[8, 3, 3, 3], 1), &halves(&[8], 2)])?;
        let zero = tensor0(f16::ZERO).broadcast_into_rank(4)?;
        let y = rounded(&math::max(), &[&y, &zero])?;
        let y = rounded(&product(F32), &[&y, &halves(&[8, 5], 3)])?;
        let sum = rounded(&math::add(), &[&y, &halves(&[1, 1, 1, 5], 4)])?;
        let y = rounded(&softmax(), &[&sum])?;
        let model = model()?.with_kernels()?;
        assert!(!model.nodes.iter().any(multiplies_in_half), "{model}");
        for model in [model.clone(), model.into_optimized()?] {
            let found = model.into_runnable()?.run(tvec![x.clone().into()])?;
            assert_eq!([found[0].datum_type(), found[1].datum_type()], [F16; 2]);
            // A sum in another order may be rounded to the next number.
            for (found, expected) in found.iter().zip([&y, &sum]) {
                let [found, expected] = [found, expected].map(|it| it.cast_to::<f32>().unwrap());
                found.close_enough(&expected, Approximation::Custom(1e-3, 1e-3, 0.))?;
            }
        }
        Ok(())
    }

    #[test]
    fn it_may_be_left_out() -> TractResult<()> {
        let mut model = model()?;
        let config = KernelsConfig { without: vec![NAME.into()], ..KernelsConfig::default() };
        KernelsTransform::new(config)?.transform_with_decisions(&mut model)?;
        assert!(model.nodes.iter().any(multiplies_in_half));
        Ok(())
    }

    /// Without a product or a convolution there is nothing to gain.
    #[test]
    fn sums_alone_stay() -> TractResult<()> {
        let mut model = TypedModel::default();
        let x = model.add_source("x", F16.fact([7]))?;
        let y = model.wire_node("y", math::add(), &[x, x])?;
        model.select_output_outlets(&y)?;
        let model = model.with_kernels()?;
        assert_eq!(model.output_fact(0)?.datum_type, F16);
        assert!(model.nodes.iter().all(|node| !node.op_is::<Cast>()), "{model}");
        Ok(())
    }

    /// What is too large for half precision is infinite before the next operator.
    #[test]
    fn results_between_operators_are_of_half_precision() -> TractResult<()> {
        let mut model = TypedModel::default();
        let x = model.add_source("x", F16.fact([1, 2]))?;
        let matrix = model.add_const("matrix", tensor2(&[[f16::from_f32(300.)], [f16::ONE]]))?;
        let op = EinSum::new("ab,bc->ac".parse()?, F16);
        let y = model.wire_node("product", op, &[x, matrix])?[0];
        let small = model.add_const("small", tensor2(&[[f16::from_f32(0.001)]]))?;
        let y = model.wire_node("y", math::mul(), &[y, small])?;
        model.select_output_outlets(&y)?;
        let model = model.with_kernels()?.into_optimized()?.into_runnable()?;
        for (x, expected) in [(1000., f32::INFINITY), (2., 0.6)] {
            let x = tensor2(&[[f16::from_f32(x), f16::ONE]]);
            let y = model.run(tvec![x.into()])?.remove(0).cast_to_scalar::<f32>()?;
            assert!(y == expected || (y - expected).abs() < 2e-3, "{y}");
        }
        Ok(())
    }

    /// A table in half precision stays such.
    #[test]
    fn rows_of_a_table_become_single_alone() -> TractResult<()> {
        let mut model = TypedModel::default();
        let rows = model.add_source("rows", i64::fact([2]))?;
        let table = model.add_const("table", halves(&[1000, 4], 5))?;
        let matrix = model.add_const("matrix", halves(&[4, 3], 6))?;
        let y = model.wire_node("gather", Gather::new(0), &[table, rows])?[0];
        let y = model.wire_node("y", EinSum::new("ab,bc->ac".parse()?, F16), &[y, matrix])?;
        model.select_output_outlets(&y)?;
        let model = model.with_kernels()?;
        let table = model.nodes.iter().find(|node| node.outputs[0].fact.shape[0] == 1000.to_dim());
        assert_eq!(table.context("the table is there")?.outputs[0].fact.datum_type, F16);
        Ok(())
    }
}
