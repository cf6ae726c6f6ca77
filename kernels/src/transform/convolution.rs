//! Convolutions whose weights are constants.

use tract_core::internal::*;
use tract_core::ops::Downsample;
use tract_core::ops::cnn::{Conv, Deconv, KernelFormat, PaddingSpec, PoolSpec};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::Mul;
use tract_core::ops::nn::DataFormat;

use super::chain::Chain;
use super::found::{Found, constant, labels, of_channels, replaces_axis, sizes};
use super::layout::{channels_last, wire_channels_last};
use super::rule::{Rewrite, Session, or_refuse, refuse_if, refuse_unless_f32};
use super::upsampling::{PhaseGroup, Upsampling};
use crate::convolution::{PackedConvolution, SinglesEpilogue, trimmed};
use crate::fully_connected::FullyConnected;
use crate::product::activation::Activation;

/// With fewer pixels, a product is computed as rows: for one row nothing is packed.
const FEW_PIXELS: usize = 8;

/// A transposed convolution may have so many times the products as a convolution, which is faster. It has more at the edges of its
/// data, and where its kernel has fewer elements than there are strides.
const MOST_TIMES: usize = 3;

/// A convolution as it is in a model.
#[derive(Debug)]
struct FoundConvolution {
    spec: PoolSpec,
    group: usize,
    data: OutletId,
    /// `[output channels, input channels of a group, kernel]`. The weights of a product have no axes of the kernel.
    weights: Arc<Tensor>,
    /// One number for each channel of the output.
    bias: Vec<f32>,
    /// Of a transposed convolution, whose weights and bias these are. The rest is that of the convolutions in its place, as if they
    /// were one.
    upsampling: Option<(Upsampling, Vec<PhaseGroup>)>,
}

/// The factors of a product, with the labels of their axes.
struct Factors {
    weights: Arc<Tensor>,
    labels_of_weights: Vec<char>,
    data: OutletId,
    labels_of_data: Vec<char>,
}

impl Factors {
    /// Takes back a split of the channels, after which the product sums over two axes, and has weights of three. tract leaves that where
    /// a model shuffles its channels, as ShuffleNet: it splits them, swaps the two axes and merges them.
    fn take_split(&mut self, model: &TypedModel, output: &[char]) -> TractResult<()> {
        let before = model.node(self.data.node);
        let Some(AxisOp::Reshape(at, from, to)) = before.op_as() else { return Ok(()) };
        let split = self.labels_of_data.get(*at..at + to.len());
        let Some(split @ [first, ..]) = split else { return Ok(()) };
        let of_weights = &self.labels_of_weights;
        let places = split.iter().map(|label| of_weights.iter().position(|it| it == label));
        let Some(places) = places.collect::<Option<Vec<usize>>>() else { return Ok(()) };
        let others = (0..of_weights.len()).filter(|place| !places.contains(place));
        let &[channel] = &*others.collect::<Vec<usize>>() else { return Ok(()) };
        // Sums over one element are broadcast by tract's operator.
        let shape = self.weights.shape();
        let are_sizes = to.iter().zip(&places).all(|(size, place)| *size == shape[*place].to_dim());
        let is_summed = !split.iter().any(|label| output.contains(label));
        if from.len() != 1 || places.len() + 1 != of_weights.len() || !are_sizes || !is_summed {
            return Ok(());
        }
        let (first, channel_label) = (*first, of_weights[channel]);
        let order: Vec<usize> = [channel].into_iter().chain(places).collect();
        let weights = self.weights.clone().into_tensor().permute_axes(&order)?;
        let channels = weights.shape()[0];
        let summed = weights.len() / channels;
        self.weights = weights.into_shape(&[channels, summed])?.into_arc_tensor();
        self.labels_of_weights = vec![channel_label, first];
        self.labels_of_data.drain(at + 1..at + to.len());
        self.data = before.inputs[0];
        Ok(())
    }
}

/// The numbers of a constant, if it is one of single precision that has elements.
fn floats(model: &TypedModel, outlet: OutletId) -> Found<&Arc<Tensor>> {
    let is_float = |konst: &&Arc<Tensor>| {
        konst.datum_type() == DatumType::F32 && konst.is_plain() && konst.len() > 0
    };
    Ok(constant(model, outlet)?.filter(is_float))
}

impl FoundConvolution {
    /// The convolution of an operator with a window, if its weights and its bias are constants.
    fn of_constants(
        model: &TypedModel,
        node: &TypedNode,
        spec: PoolSpec,
        group: usize,
        channels: usize,
    ) -> Found<FoundConvolution> {
        rule_if_some!(weights = floats(model, node.inputs[1])?);
        rule_if_some!(bias = floats(model, node.inputs[2])?);
        let (weights, bias) = (weights.clone(), of_channels(bias, channels)?);
        let data = node.inputs[0];
        Ok(Some(FoundConvolution { spec, group, data, weights, bias, upsampling: None }))
    }

    fn of_conv(model: &TypedModel, node: &TypedNode, op: &Conv) -> Found<FoundConvolution> {
        rule_if!(op.q_params.is_none());
        let (spec, channels) = (op.pool_spec.clone(), op.pool_spec.output_channels);
        let found = FoundConvolution::of_constants(model, node, spec, op.group, channels)?;
        rule_if_some!(mut found = found);
        if op.kernel_fmt != KernelFormat::OIHW {
            let mut weights = found.weights.into_tensor();
            for change in op.kernel_fmt.kernel_as_group_o_i_h_w_ops(weights.shape(), op.group) {
                change.change_tensor(&mut weights, false)?;
            }
            let mut shape: TVec<usize> = weights.shape()[1..].into();
            shape[0] = channels;
            found.weights = weights.into_shape(&shape)?.into_arc_tensor();
        }
        Ok(Some(found))
    }

    fn of_transposed(
        model: &TypedModel,
        node: &TypedNode,
        op: &Deconv,
        (upsampling, parts): (Upsampling, Vec<PhaseGroup>),
    ) -> Found<FoundConvolution> {
        let spec = upsampling.convolution(&upsampling.whole(), op.pool_spec.data_format);
        let channels = op.pool_spec.output_channels;
        let found = FoundConvolution::of_constants(model, node, spec, 1, channels)?;
        let upsampling = Some((upsampling, parts));
        Ok(found.map(|found| FoundConvolution { upsampling, ..found }))
    }

    /// A product of the channels of each pixel and a matrix. Channels that are the last axis are rows of a matrix, for
    /// which there is another operator.
    fn of_product(model: &TypedModel, node: &TypedNode, op: &EinSum) -> Found<FoundConvolution> {
        rule_if!(op.axes.input_count() == 2 && op.q_params.is_none());
        let output = labels(op, InOut::Out(0));
        for slot in [1, 0] {
            let Some(weights) = floats(model, node.inputs[slot])? else { continue };
            let mut factors = Factors {
                weights: weights.clone(),
                labels_of_weights: labels(op, InOut::In(slot)),
                data: node.inputs[1 - slot],
                labels_of_data: labels(op, InOut::In(1 - slot)),
            };
            factors.take_split(model, &output)?;
            let Factors { weights: matrix, data: outlet, labels_of_data: data, .. } = factors;
            let &[a, b] = &*factors.labels_of_weights else { continue };
            for (summed, channel, is_transposed) in [(b, a, false), (a, b, true)] {
                let Some(axis) = data.iter().position(|label| *label == summed) else { continue };
                let format = match axis {
                    0 => DataFormat::CHW,
                    1 => DataFormat::NCHW,
                    _ => continue,
                };
                if axis + 1 == data.len() || !replaces_axis(&data, &output, axis, channel) {
                    continue;
                }
                let rank = data.len() - axis - 1;
                let weights = match is_transposed {
                    true => matrix.clone().into_tensor().permute_axes(&[1, 0])?.into_arc_tensor(),
                    false => matrix.clone(),
                };
                let &[outputs, inputs] = weights.shape() else { continue };
                // A sum over one element is broadcast by tract's operator.
                rule_if!(model.outlet_fact(outlet)?.shape[axis] == inputs.to_dim());
                let (kernel, pads) = (tvec![1; rank], tvec![0; rank]);
                let padding = PaddingSpec::Explicit(pads.clone(), pads);
                return Ok(Some(FoundConvolution {
                    spec: PoolSpec::new(format, kernel, padding, None, None, inputs, outputs),
                    group: 1,
                    data: outlet,
                    weights,
                    bias: vec![0.; outputs],
                    upsampling: None,
                }));
            }
        }
        Ok(None)
    }

    /// Takes back strides that became operators in front: the window moves over all of the data again.
    fn take_strides(&mut self, model: &TypedModel) {
        while let Some(before) = self.before_stride(model) {
            (self.spec, self.data) = before;
        }
    }

    /// The window with a stride that is an operator in front, and the data of that.
    fn before_stride(&self, model: &TypedModel) -> Option<(PoolSpec, OutletId)> {
        let node = model.node(self.data.node);
        let op = node.op_as::<Downsample>()?;
        let axis = op.axis.checked_sub(self.spec.data_format.h_axis())?;
        let stride = usize::try_from(op.stride).ok()?;
        let is_unpadded = match &self.spec.padding {
            PaddingSpec::Valid => true,
            PaddingSpec::Explicit(begin, end) => {
                (begin.get(axis), end.get(axis)) == (Some(&0), Some(&0))
            }
            _ => false,
        };
        if !is_unpadded || op.modulo != 0 || axis >= self.spec.rank() {
            return None;
        }
        let mut strides = self.spec.strides().into_owned();
        let mut dilations = self.spec.dilations().into_owned();
        strides[axis] = strides[axis].checked_mul(stride)?;
        let wider = dilations[axis].checked_mul(stride)?;
        if self.spec.kernel_shape[axis] > 1 {
            dilations[axis] = wider;
        }
        let (strides, dilations) = (Some(strides.into()), Some(dilations.into()));
        let spec = PoolSpec { strides, dilations, ..self.spec.clone() };
        PackedConvolution::takes(&spec).then_some((spec, node.inputs[0]))
    }

    /// The axis of the channels of the output.
    fn channel_axis(&self, chain: &Chain) -> usize {
        match self.spec.data_format.c_is_last() {
            true => chain.last().outputs[0].fact.rank() - 1,
            false => usize::from(self.spec.data_format.has_n()),
        }
    }

    /// Takes over what is added to channels or multiplied with them, as far as weights stay finite.
    fn take_arithmetic(&mut self, chain: &mut Chain) -> TractResult<()> {
        let axis = self.channel_axis(chain);
        let channels = self.bias.len();
        loop {
            chain.take_added(axis..axis + 1, &mut self.bias)?;
            let mut longer = chain.clone();
            let Some(factors) = longer.arithmetic::<Mul>(axis..axis + 1)? else { return Ok(()) };
            let mut scaled = self.weights.clone().into_tensor();
            let mut view = scaled.try_as_plain_ram_mut()?;
            let weights = view.as_slice_mut::<f32>()?;
            let each = weights.len() / channels;
            for (weights, factor) in weights.chunks_exact_mut(each).zip(&factors) {
                weights.iter_mut().for_each(|weight| *weight *= factor);
            }
            let bias: Vec<f32> =
                self.bias.iter().zip(&factors).map(|(bias, factor)| bias * factor).collect();
            if !weights.iter().chain(&bias).all(|number| number.is_finite()) {
                return Ok(());
            }
            (self.weights, self.bias, *chain) = (scaled.into_arc_tensor(), bias, longer);
        }
    }

    /// The sizes of the spatial axes.
    fn spatial<'a>(&self, fact: &'a TypedFact) -> &'a [TDim] {
        &fact.shape[self.spec.data_format.h_axis()..][..self.spec.rank()]
    }

    /// Few pixels, as rows that are multiplied with the weights.
    fn into_rows(
        mut self,
        session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<TypedModelPatch> {
        let mut chain = Chain::new(model, node);
        self.take_arithmetic(&mut chain)?;
        let activation = chain.activation()?;
        let fact = model.outlet_fact(self.data)?;
        let axis = usize::from(self.spec.data_format.has_n());
        let last = fact.rank() - 1;
        let rows = fact.shape.iter().product::<TDim>().to_usize().ok();
        let rows = rows.map(|elements| elements / self.spec.input_channels);
        let (bf16, others) = (session.bf16(), std::iter::empty());
        let op =
            FullyConnected::new(&self.weights, true, self.bias, activation, rows, bf16, others)?;
        let (before, after) = (AxisOp::Move(axis, last), AxisOp::Move(last, axis));
        let ops: Vec<Box<dyn TypedOp>> = vec![Box::new(op), Box::new(after)];
        chain.replaced_by_parts(&[self.data], Some(before), vec![], ops)
    }
}

/// A convolution, transposed or not, and what follows it: numbers that are added to or multiplied with its channels, and an
/// activation, or slopes for what is less than 0.
///
/// tract's declutter makes a product of a convolution of one pixel, and a `Downsample` in front of it of its stride. Both
/// become a convolution again.
pub(super) fn rewrite(session: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if_let!([output] = &*node.outputs);
    let dt = output.fact.datum_type;
    let is_convolution = node.op_is::<Conv>() || node.op_is::<Deconv>();
    if is_convolution {
        refuse_unless_f32!("its type is", dt);
    }
    let found = if let Some(op) = node.op_as::<Conv>() {
        FoundConvolution::of_conv(model, node, op)?
    } else if let Some(op) = node.op_as::<Deconv>() {
        let upsampling = or_refuse!(Upsampling::new(op));
        let parts = or_refuse!(upsampling.parts());
        FoundConvolution::of_transposed(model, node, op, (upsampling, parts))?
    } else if let Some(op) = node.op_as::<EinSum>()
        && dt == DatumType::F32
    {
        FoundConvolution::of_product(model, node, op)?
    } else {
        None
    };
    refuse_if!(
        is_convolution && found.is_none(),
        "its weights and its bias must be constants of type F32"
    );
    rule_if_some!(mut found = found);
    let format = found.spec.data_format;
    if let Some((upsampling, _)) = &found.upsampling {
        let data = &model.outlet_fact(found.data)?.shape;
        if let Some([inner, own]) = upsampling.products(&found.spec, data)? {
            refuse_if!(
                inner / MOST_TIMES > own,
                "as a convolution it would have {inner} products for each two channels, but must have {MOST_TIMES} times its \
                 own {own} or fewer"
            );
        }
    }
    let pixels = found.spatial(&output.fact).iter().product::<TDim>();
    if node.op_is::<EinSum>() && pixels.to_usize().is_ok_and(|pixels| pixels < FEW_PIXELS) {
        return Ok(Some(found.into_rows(session, model, node)?.into()));
    }
    let parts = found.upsampling.iter().flat_map(|(upsampling, parts)| {
        parts.iter().map(|part| upsampling.convolution(part, format))
    });
    refuse_if!(
        !parts.chain([found.spec.clone()]).all(|spec| PackedConvolution::takes(&spec)),
        "it has {} spatial axes and padding {:?}, but must have 1 to 3 axes, and padding of at most what the kernel \
         reaches",
        found.spec.rank(),
        found.spec.padding
    );
    if found.upsampling.as_ref().is_none_or(|(_, parts)| parts.len() == 1) {
        found.take_strides(model);
    }
    let mut chain = Chain::new(model, node);
    found.take_arithmetic(&mut chain)?;
    let residual = match &found.upsampling {
        None => chain.residual()?,
        Some(_) => None,
    };
    let activation = chain.activation()?;
    let axis = found.channel_axis(&chain);
    let slopes = match activation {
        Activation::Identity => chain.slopes(axis..axis + 1)?,
        _ => None,
    };
    let fact = model.outlet_fact(found.data)?;
    let sizes = sizes(found.spatial(fact));
    let packed = |mut spec: PoolSpec, weights: &Arc<Tensor>, bias: &[f32], slopes| {
        let mut weights = weights.clone();
        if let Some(sizes) = &sizes
            && let Some(less) = trimmed(&spec, &weights, sizes)?
        {
            (spec, weights) = (less.0, less.1.into_arc_tensor());
        }
        spec.data_format = channels_last(format);
        let epilogue = SinglesEpilogue { adds: residual.is_some(), activation, slopes };
        let op =
            PackedConvolution::new(spec, found.group, &weights, bias, epilogue, session.bf16())?;
        TractResult::Ok(Box::new(op) as Box<dyn TypedOp>)
    };
    let (ops, pixels) = if let Some((upsampling, parts)) = &found.upsampling {
        let ops = parts.iter().map(|part| {
            let spec = PoolSpec {
                strides: found.spec.strides.clone(),
                dilations: found.spec.dilations.clone(),
                ..upsampling.convolution(part, format)
            };
            let weights = upsampling.weights::<f32>(part, &found.weights)?.into_arc_tensor();
            let slopes = slopes.as_ref().map(|slopes| part.repeated(slopes));
            packed(spec, &weights, &part.repeated(&found.bias), slopes)
        });
        let ops: TractResult<Vec<_>> = ops.collect();
        let inner = found.spec.output_shape(&fact.shape)?;
        let outer = found.spatial(&output.fact);
        (ops?, upsampling.ops(channels_last(format), inner.hw_dims(), outer))
    } else {
        let op = packed(found.spec.clone(), &found.weights, &found.bias, slopes)?;
        (vec![op], vec![])
    };
    Ok(Some(wire_channels_last(&chain, found.data, residual, format, ops, pixels)?.into()))
}
