use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::{Conv, MaxPool};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::{Add, Div, Mul};
use tract_core::ops::nn::{Softmax, SoftmaxKind};

use super::attention::Attention;
use super::contraction::Contraction;
use super::convolution::{MaxPoolOfPlanes, PackedConvolution, trimmed};
use super::fully_connected::FullyConnected;
use super::product::activation::Activation;

/// An operator of tract that is replaced by one of ours when the model is optimised: a convolution with constant
/// weights, a product, or a pool, in single precision.
///
/// Until then it is evaluated and saved as tract's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accelerated {
    pub inner: Box<dyn TypedOp>,
}

impl Accelerated {
    /// The operator, as one of these if there is one of ours for it and these inputs. Whether the weights are a
    /// constant is not known yet.
    pub fn or_inner(
        inner: impl Into<Box<dyn TypedOp>>,
        model: &TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Box<dyn TypedOp>> {
        let inner = inner.into();
        let facts = inputs
            .iter()
            .map(|input| model.outlet_fact(*input))
            .collect::<TractResult<TVec<_>>>()?;
        let takes = if let Some(op) = inner.downcast_ref::<Conv>() {
            PackedConvolution::takes(op)
        } else if let Some(op) = inner.downcast_ref::<EinSum>() {
            op.axes.input_count() == 2 && op.q_params.is_none()
        } else if let Some(op) = inner.downcast_ref::<MaxPool>() {
            op.with_index_outputs.is_none()
                && PackedConvolution::takes_window(&op.pool_spec)
                && op.pool_spec.rank() <= 2
        } else {
            false
        };
        let is_single = facts.iter().all(|fact| fact.datum_type == DatumType::F32);
        Ok(if takes && is_single { Box::new(Accelerated { inner }) } else { inner })
    }

    /// The product, unless it may become a fully connected layer.
    fn movable_product(&self) -> Option<&EinSum> {
        self.inner.downcast_ref::<EinSum>().filter(|op| FullyConnected::takes(op).is_none())
    }

    /// tract's operator, for data of a type: a model may have been translated to half precision.
    fn inner_for(&self, dt: DatumType) -> Box<dyn TypedOp> {
        match self.inner.downcast_ref::<EinSum>() {
            Some(op) => Box::new(EinSum { operating_dt: dt, ..op.clone() }),
            None => self.inner.clone(),
        }
    }
}

/// With so few pixels most lanes of a vector are empty.
const FEW_PIXELS: usize = 8;

/// A chain of nodes, and what follows it.
struct Chain<'a> {
    model: &'a TypedModel,
    last: &'a TypedNode,
}

/// A node that follows, and its other operand if it has one.
type Next<'a> = (&'a TypedNode, Option<OutletId>);

impl<'a> Chain<'a> {
    /// The next node, if nobody else needs the result so far, and its shape stays.
    fn next(&self) -> TractResult<Option<Next<'a>>> {
        let output = OutletId::from(self.last.id);
        rule_if_let!([successor] = &*self.last.outputs[0].successors);
        rule_if!(!self.model.output_outlets()?.contains(&output));
        let next = self.model.node(successor.node);
        let shape = |node: &'a TypedNode| &node.outputs[0].fact.shape;
        rule_if!(next.outputs.len() == 1 && shape(next) == shape(self.last));
        rule_if!(next.outputs[0].fact.datum_type == self.last.outputs[0].fact.datum_type);
        let operand = match &*next.inputs {
            [_] => None,
            [a, b] if a != b => Some(if successor.slot == 0 { *b } else { *a }),
            _ => return Ok(None),
        };
        Ok(Some((next, operand)))
    }

    fn constant(&self, operand: Option<OutletId>) -> TractResult<Option<&'a Arc<Tensor>>> {
        rule_if_some!(operand = operand);
        Ok(self.model.outlet_fact(operand)?.konst.as_ref())
    }

    /// The operator that combines two operands, if the next node does that.
    fn is_binary<O: tract_core::ops::binary::BinMiniOp>(node: &TypedNode) -> bool {
        node.op_as::<TypedBinOp>().is_some_and(|op| op.0.is::<O>() && op.1.is_none())
    }

    /// Takes over the addition of a number for each element of the last axis.
    fn bias(&mut self, columns: usize) -> TractResult<Option<Arc<Tensor>>> {
        rule_if_some!(next = self.next()?);
        let (next, operand) = next;
        rule_if_some!(operand = self.constant(operand)?);
        rule_if!(Self::is_binary::<Add>(next));
        rule_if!(operand.len() == columns && operand.shape().last() == Some(&columns));
        self.last = next;
        Ok(Some(operand.clone()))
    }

    /// Takes over functions of one number.
    fn activation(&mut self) -> TractResult<Activation> {
        let mut activation = Activation::default();
        while let Some((next, operand)) = self.next()? {
            let constant = self.constant(operand)?;
            if operand.is_some() && constant.is_none() {
                break;
            }
            let both = activation.followed_by(&*next.op, constant.map(|it| &**it))?;
            let Some(both) = both else { break };
            activation = both;
            self.last = next;
        }
        Ok(activation)
    }

    /// Takes over what makes scores an attention: a scale, masks, the softmax, and the product with the values. Gives
    /// the operator, and its inputs beyond those of the scores.
    fn attention(
        &mut self,
        scores: &Contraction,
    ) -> TractResult<Option<(Attention, TVec<OutletId>)>> {
        let mut scale = 1f32;
        let mut masks: TVec<OutletId> = tvec!();
        let shape = self.last.outputs[0].fact.shape.clone();
        loop {
            rule_if_some!(next = self.next()?);
            let (next, operand) = next;
            let number = match self.constant(operand)? {
                Some(operand) if operand.len() == 1 => Some(operand.cast_to_scalar::<f32>()?),
                _ => None,
            };
            if let (Some(operand), true) = (operand, Self::is_binary::<Add>(next)) {
                let mask = self.model.outlet_fact(operand)?;
                rule_if!(mask.datum_type == DatumType::F32 && mask.shape.last() == shape.last());
                masks.push(operand);
            } else if let (Some(number), true) = (number, masks.is_empty()) {
                let is_left = next.inputs[0].node == self.last.id;
                match () {
                    () if Self::is_binary::<Mul>(next) => scale *= number,
                    () if Self::is_binary::<Div>(next) && is_left => scale /= number,
                    () => return Ok(None),
                }
            } else if let Some(softmax) = next.op_as::<Softmax>() {
                rule_if!(softmax.axes[..] == [shape.len() - 1]);
                rule_if!(softmax.kind == SoftmaxKind::Softmax && softmax.quant_output_dt.is_none());
                self.last = next;
                break;
            } else {
                return Ok(None);
            }
            self.last = next;
        }
        // The product has another shape.
        let output = OutletId::from(self.last.id);
        rule_if_let!([successor] = &*self.last.outputs[0].successors);
        rule_if!(!self.model.output_outlets()?.contains(&output));
        let next = self.model.node(successor.node);
        rule_if_some!(accelerated = next.op_as::<Accelerated>());
        rule_if_some!(op = accelerated.inner.downcast_ref::<EinSum>());
        let facts = self.model.node_input_facts(next.id)?;
        rule_if_some!(product = Contraction::of(op, [&facts[0].shape, &facts[1].shape]));
        rule_if!(product.left == successor.slot);
        let (values, fact) = (next.inputs[product.right], facts[product.right]);
        let output = &next.outputs[0].fact.shape;
        rule_if!(fact.datum_type == DatumType::F32 && product.takes(&shape, &fact.shape, output));
        // Together they may leave the numbers that each of them keeps to.
        rule_if!(scale.is_normal());
        rule_if_some!(attention = Attention::new(scores.clone(), scale, product));
        self.last = next;
        Ok(Some((attention, std::iter::once(values).chain(masks).collect())))
    }
}

impl Op for Accelerated {
    fn name(&self) -> StaticName {
        self.inner.name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.inner.info()
    }

    fn validation(&self) -> Validation {
        self.inner.validation()
    }

    op_as_typed_op!();
}

impl EvalOp for Accelerated {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.inner_for(inputs[0].datum_type()).eval(ctx, inputs)
    }
}

impl TypedOp for Accelerated {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.inner_for(inputs[0].datum_type).output_facts(inputs)
    }

    /// Axes move into a product of two computed factors, which are read in any order of their axes.
    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        match self.movable_product() {
            Some(product) => product.axes_mapping(inputs, outputs),
            None => AxesMapping::disconnected(inputs, outputs),
        }
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        rule_if_some!(product = self.movable_product());
        rule_if_some!(changed = product.change_axes(model, node, io, change)?);
        let substitute_op = changed
            .substitute_op
            .map(|inner| -> Box<dyn TypedOp> { Box::new(Accelerated { inner }) });
        Ok(Some(AxisChangeConsequence { substitute_op, ..changed }))
    }

    fn codegen(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let data = model.outlet_fact(node.inputs[0])?;
        let stays = || {
            let inner = self.inner_for(data.datum_type);
            TypedModelPatch::replace_single_op(model, node, &node.inputs, inner).map(Some)
        };
        if data.datum_type != DatumType::F32 {
            return stays();
        }
        if self.inner.is::<Conv>() {
            let pixels: TDim = node.outputs[0].fact.shape[2..].iter().product();
            if pixels.to_usize().is_ok_and(|pixels| pixels < FEW_PIXELS) {
                return stays();
            }
        }
        let mut chain = Chain { model, last: node };
        let mut constants = tvec!();
        for input in &node.inputs[1..] {
            let konst = model.outlet_fact(*input)?.konst.as_ref();
            constants.extend(konst.filter(|konst| konst.is_plain() && konst.len() > 0));
        }
        let mut inputs = tvec!(node.inputs[0]);
        let has_constants = constants.len() + 1 == node.inputs.len();
        let op: Box<dyn TypedOp> = if let Some(op) = self.inner.downcast_ref::<EinSum>()
            && !(has_constants && FullyConnected::takes(op).is_some())
        {
            let facts = model.node_input_facts(node.id)?;
            let shapes = [&*facts[0].shape, &*facts[1].shape];
            let Some(product) = Contraction::of(op, shapes) else { return stays() };
            let (left, right) = (&facts[product.left].shape, &facts[product.right].shape);
            if !product.takes(left, right, &node.outputs[0].fact.shape) {
                return stays();
            }
            inputs = node.inputs.iter().copied().collect();
            let mut longer = Chain { model, last: node };
            match longer.attention(&product)? {
                Some((attention, more)) => {
                    chain = longer;
                    inputs.extend(more);
                    Box::new(attention)
                }
                None => Box::new(product),
            }
        } else if !has_constants {
            return stays();
        } else if let Some(op) = self.inner.downcast_ref::<Conv>() {
            let activation = chain.activation()?;
            let sizes = data.shape[2..].iter().map(|size| size.to_usize().ok());
            let sizes: Option<TVec<usize>> = sizes.collect();
            let trimmed = match &sizes {
                Some(sizes) => trimmed(op, constants[0], sizes)?,
                None => None,
            };
            let (op, weights) = match &trimmed {
                Some((op, weights)) => (op, weights),
                None => (op, &**constants[0]),
            };
            PackedConvolution::new(op, activation, weights, constants[1], sizes.as_deref())?.into()
        } else if let Some(op) = self.inner.downcast_ref::<EinSum>() {
            let transposed = FullyConnected::takes(op).context("it is a product with a matrix")?;
            let weights = constants[0];
            let steps = weights.shape()[usize::from(transposed)].to_dim();
            // Sums over one element are broadcast by tract's operator.
            if data.shape.last() != Some(&steps) {
                return stays();
            }
            let bias = chain.bias(weights.shape()[usize::from(!transposed)])?;
            let activation = chain.activation()?;
            let rows = data.shape[..data.rank() - 1].iter().product::<TDim>().to_usize().ok();
            let others = model.nodes().iter().filter_map(|node| node.op_as());
            FullyConnected::new(weights, transposed, bias.as_deref(), activation, rows, others)?
                .into()
        } else if let Some(op) = self.inner.downcast_ref::<MaxPool>() {
            MaxPoolOfPlanes::new(op.pool_spec.clone()).into()
        } else {
            bail!("{node}: there is no operator in its place")
        };
        let mut patch = TypedModelPatch::new("ours");
        let inputs = patch.taps(model, &inputs)?;
        let output = patch.wire_node(&chain.last.name, op, &inputs)?;
        patch.shunt_outside(model, chain.last.id.into(), output[0])?;
        Ok(Some(patch))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use tract_core::floats::FloatPrecisionTranslator;
    use tract_core::model::translator::Translate;
    use tract_core::ops::cnn::{KernelFormat, PaddingSpec, PoolSpec};
    use tract_core::ops::math::{add, max};
    use tract_core::ops::nn::DataFormat;
    use tract_core::tract_data::half::f16;

    use super::*;

    /// A model of one operator that has constant weights, something added, and a Relu.
    fn model(
        inner: impl Into<Box<dyn TypedOp>>,
        data: &[usize],
        constants: TVec<Tensor>,
        added: Option<Tensor>,
    ) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let mut inputs = tvec!(model.add_source("data", f32::fact(data))?);
        for (number, constant) in constants.into_iter().enumerate() {
            inputs.push(model.add_const(format!("constant_{number}"), constant)?);
        }
        let op = Accelerated::or_inner(inner, &model, &inputs)?;
        assert!(op.is::<Accelerated>());
        let mut output = model.wire_node("op", op, &inputs)?[0];
        if let Some(added) = added {
            let added = model.add_const("added", added)?;
            output = model.wire_node("sum", add(), &[output, added])?[0];
        }
        let zero = Tensor::zero::<f32>(&vec![1; model.outlet_fact(output)?.rank()])?;
        let zero = model.add_const("zero", zero)?;
        let relu = model.wire_node("relu", max(), &[output, zero])?;
        model.select_output_outlets(&relu)?;
        Ok(model)
    }

    /// The operators of the optimised model, whose outputs are those of the model as it is.
    fn optimized(model: TypedModel) -> TractResult<Vec<String>> {
        let shape = model.input_fact(0)?.shape.as_concrete().expect("sizes are known").to_vec();
        let numbers: Vec<f32> =
            (0..shape.iter().product()).map(|it: usize| (it % 7) as f32 - 3.).collect();
        let data = tvec!(Tensor::from_shape(&shape, &numbers)?.into_tvalue());
        let expected = model.clone().into_runnable()?.run(data.clone())?;
        let model = model.into_optimized()?;
        let names = model.nodes().iter().skip(1).map(|node| node.op.name().to_string()).collect();
        let found = model.into_runnable()?.run(data)?;
        expected[0].close_enough(&found[0], Approximation::Close)?;
        Ok(names)
    }

    fn convolution(size: usize) -> TractResult<Vec<String>> {
        let padding = PaddingSpec::Explicit(tvec![1, 1], tvec![1, 1]);
        let spec = PoolSpec::new(DataFormat::NCHW, tvec![3, 3], padding, None, None, 2, 5);
        let conv = Conv::new(spec, KernelFormat::OIHW, 1, None);
        let weights: Vec<f32> = (0..5 * 2 * 9).map(|it| (it % 5) as f32 - 2.).collect();
        let weights = Tensor::from_shape(&[5, 2, 3, 3], &weights)?;
        let constants = tvec!(weights, tensor1(&[1f32, 2., 3., 4., 5.]));
        optimized(model(conv, &[1, 2, size, size], constants, None)?)
    }

    #[test]
    fn half_precision_stays() -> TractResult<()> {
        let einsum = EinSum::new("mk,kn->mn".parse()?, DatumType::F32);
        let weights = Tensor::from_shape(&[2, 3], &[1f32, 2., 3., 4., 5., 6.])?;
        let model = model(einsum, &[1, 2], tvec!(weights), None)?;
        let translator = FloatPrecisionTranslator::new(DatumType::F32, DatumType::F16);
        let model = translator.translate_model(&model)?.into_optimized()?.into_runnable()?;
        let data = tensor2(&[[1f32, -1.]]).cast_to::<f16>()?.into_owned();
        let output = model.run(tvec!(data.into_tvalue()))?;
        assert_eq!(*output[0].cast_to::<f32>()?, Tensor::zero::<f32>(&[1, 3])?);
        let data = tensor2(&[[-1f32, 1.]]).cast_to::<f16>()?.into_owned();
        let output = model.run(tvec!(data.into_tvalue()))?;
        assert_eq!(output[0].datum_type(), DatumType::F16);
        assert_eq!(*output[0].cast_to::<f32>()?, tensor2(&[[3f32, 3., 3.]]));
        Ok(())
    }

    #[test]
    fn a_convolution_takes_its_activation() -> TractResult<()> {
        assert_eq!(convolution(6)?, ["OpenVinoPackedConvolution"]);
        Ok(())
    }

    #[test]
    fn a_convolution_of_few_pixels_stays() -> TractResult<()> {
        assert!(!convolution(2)?.contains(&"OpenVinoPackedConvolution".to_string()));
        Ok(())
    }

    #[test]
    fn a_product_takes_its_bias_and_its_activation() -> TractResult<()> {
        for (axes, shape) in [("bmk,kn->bmn", [4, 3]), ("bmk,nk->bmn", [3, 4])] {
            let einsum = EinSum::new(axes.parse()?, DatumType::F32);
            let weights: Vec<f32> = (0..12).map(|it| (it % 5) as f32 - 2.).collect();
            let weights = tvec!(Tensor::from_shape(&shape, &weights)?);
            let bias = tensor3(&[[[1f32, -2., 3.]]]);
            let model = model(einsum, &[2, 5, 4], weights, Some(bias))?;
            assert_eq!(optimized(model)?, ["OpenVinoFullyConnected"], "{axes}");
        }
        Ok(())
    }
}
