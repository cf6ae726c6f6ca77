//! What becomes of each kind of node.

use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::array::{Pad, PadMode};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::{Conv, Deconv, KernelFormat, MaxPool, PaddingSpec, PoolSpec};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::math::Mul;
use tract_core::ops::nn::{DataFormat, Reduce, Reducer};
use tract_core::ops::quant::DequantizeLinearF32;

use super::weights::{QuantizedWeights, take_arithmetic};
use super::{
    QuantizedTranslation, Translated, channel_axis, makes_levels, moves_elements, operation_of,
    quantize_parameters,
};
use crate::quantized::{
    CodeLayout::{self, ChannelsLast, SameAxes},
    FakeQuantize, LayerDescription, Levels, Operation, Quantize, QuantizedArithmetic,
    QuantizedConvolution, QuantizedMaxPool, QuantizedSum, Requantize, ResidualOperand,
};
use crate::transform::chain::Chain;
use crate::transform::found::{Found, binary, labels, of_channels, only_use, replaces_axis, uses};
use crate::transform::layout::{shuffled_channels_last, with_channels_last};
use crate::transform::rule::{Movement, or_refuse, refuse, refuse_if, refuse_unless_f32};
use crate::transform::upsampling::{PhaseGroup, Upsampling};

/// Takes over an activation that is nothing but limits, and says which.
fn limits_of(chain: &mut Chain) -> TractResult<[f32; 2]> {
    let mut longer = chain.clone();
    let limits = longer.activation()?.limits();
    if limits.is_some() {
        *chain = longer;
    }
    Ok(limits.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]))
}

impl<'a> QuantizedTranslation<'a> {
    /// What may become of a node, in the order in which it is tried.
    pub const KINDS: [fn(&mut Self, &'a TypedNode) -> Found<Translated>; 9] = [
        Self::rounding,
        Self::convolution,
        Self::product,
        Self::max_pool,
        Self::sum,
        Self::arithmetic,
        Self::padding,
        Self::movement,
        Self::function,
    ];

    /// The levels of a node that makes them, and the axis along which they differ.
    fn levels(&self, node: &TypedNode) -> TractResult<Result<(Levels, Option<usize>), String>> {
        if let Some((reciprocal, zero_point)) = quantize_parameters(node) {
            let levels = self.levels_of_scale(node, reciprocal, zero_point)?;
            let reason = "its codes are needed, or become numbers by other scales";
            return Ok(levels.map(|levels| (levels, None)).ok_or(reason.to_string()));
        }
        let op = node.op_as::<FakeQuantize>().context("it makes no levels")?;
        let shape = &node.outputs[0].fact.shape;
        refuse_if!(
            self.source.outlet_fact(node.inputs[0])?.shape != *shape,
            "its limits are broadcast to more than its data"
        );
        let (mut axis, mut limits) = (None, vec![]);
        for input in &node.inputs[1..] {
            let limit = or_refuse!(self.constant(*input)?.ok_or("its limits are no constants"));
            for (place, size) in limit.shape().iter().enumerate() {
                refuse_if!(
                    *size != 1 && *axis.get_or_insert(place) != place,
                    "its limits differ along two axes"
                );
            }
            limits.push(limit.cast_to::<f32>()?.try_as_plain_ram()?.as_slice::<f32>()?.to_vec());
        }
        let channels = limits.iter().map(Vec::len).max().unwrap_or(0);
        let limits = (0..channels).map(|channel| {
            let of_channel = |limit: &Vec<f32>| match &**limit {
                [one] => Some(*one),
                many => many.get(channel).copied(),
            };
            let limits: Vec<f32> = limits.iter().filter_map(of_channel).collect();
            limits.try_into().ok()
        });
        let limits: Option<Vec<[f32; 4]>> = limits.collect();
        let limits = or_refuse!(limits.ok_or("its limits have different sizes"));
        Ok(match Levels::of_fake_quantize(op.levels, &limits) {
            Some(levels) if levels.are_the_same() => Ok((levels, None)),
            Some(levels) => Ok((levels, axis)),
            None => Err(format!(
                "it has {} levels between {:?}, but must have 256 or fewer, and finite limits in ascending order",
                op.levels,
                limits.first()
            )),
        })
    }

    /// The levels of a QuantizeLinear, if all that follows are DequantizeLinear of the same scale.
    fn levels_of_scale(&self, node: &TypedNode, reciprocal: f32, zero_point: i32) -> Found<Levels> {
        rule_if_some!(successors = uses(self.source, node)?);
        let is_signed = node.outputs[0].fact.datum_type == DatumType::I8;
        let mut scale = None;
        for successor in successors {
            let next = self.source.node(successor.node);
            rule_if_some!(op = next.op_as::<DequantizeLinearF32>());
            let zero = op.zero_point + if is_signed { 128 } else { 0 };
            rule_if!(zero == zero_point && (op.scale * reciprocal - 1.).abs() < 1e-6);
            scale = Some(op.scale);
        }
        rule_if_some!(scale = scale);
        Ok(Levels::of_scale(scale, zero_point))
    }

    /// The levels of a node, if channels that differ are the last axis of codes of a layout.
    fn levels_in(&self, node: &TypedNode, layout: CodeLayout) -> Found<Arc<Levels>> {
        rule_if!(makes_levels(node));
        rule_if_let!(Ok((levels, axis)) = self.levels(node)?);
        let expected = channel_axis(layout, node.outputs[0].fact.rank());
        Ok(axis.is_none_or(|axis| axis == expected).then(|| levels.into()))
    }

    /// Takes over that codes are made of the result.
    fn take_levels(&self, chain: &mut Chain<'a>, layout: CodeLayout) -> Found<Arc<Levels>> {
        rule_if_some!((node, slot) = chain.user()?);
        rule_if!(slot == 0);
        rule_if_some!(levels = self.levels_in(node, layout)?);
        chain.push(node);
        Ok(Some(levels))
    }

    fn rounding(&mut self, node: &'a TypedNode) -> Found<Translated> {
        rule_if!(makes_levels(node));
        let (levels, axis) = or_refuse!(self.levels(node)?);
        let rank = node.outputs[0].fact.rank();
        let dt = self.source.outlet_fact(node.inputs[0])?.datum_type;
        refuse_unless_f32!("its data is of type", dt);
        rule_if!(self.constant(node.inputs[0])?.is_none() && rank > 0);
        let value = self.model.value(node.inputs[0])?;
        let is_last = axis.is_none_or(|axis| axis == rank - 1);
        let is_second = axis.is_none_or(|axis| axis == 1);
        let prefers_second =
            value.numbers[ChannelsLast as usize].is_some() || self.feeds_windows(node);
        let layout = match () {
            () if is_second && (prefers_second || !is_last) && rank > 2 => ChannelsLast,
            () if is_last => SameAxes,
            () => {
                refuse!("its limits differ along axis {axis:?}, but must do so along the channels");
            }
        };
        let levels = Arc::new(levels);
        let chain = Chain::new(self.source, node);
        // Codes that stay what they are.
        if value.levels.as_ref().is_some_and(|before| before.are_kept_by(&levels)) {
            for end in self.ends(node) {
                self.set(end, value.clone());
            }
            self.done.insert(node.id);
            return Ok(Some(Translated::Forwarded));
        }
        let before =
            value.levels.clone().filter(|before| before.are_the_same() && levels.are_the_same());
        if let Some(from) = before {
            let (codes, layout) = value.any_codes()?;
            let op = Requantize::new(from, levels.clone());
            return self.replace(&chain, op, &[codes], Some(levels), layout);
        }
        // Compared with the numbers that the operator reads.
        let (mut compared, mut factors) = (layout, None);
        let numbers = if let (ChannelsLast, Some(numbers)) =
            (layout, value.numbers[layout as usize])
        {
            compared = SameAxes;
            numbers
        } else if let (SameAxes, Some((before, constants))) = (layout, self.factors_before(node)?) {
            factors = Some(constants.into());
            self.numbers(before)?
        } else {
            self.numbers(node.inputs[0])?
        };
        let op = Quantize { levels: levels.clone(), layout: compared, factors };
        self.replace(&chain, op, &[numbers], Some(levels), layout)
    }

    /// If what a node needs is multiplied by a constant for each index of the last axis, and nobody else needs it: what is multiplied, and
    /// the constants.
    fn factors_before(&self, node: &TypedNode) -> Found<(OutletId, Vec<f32>)> {
        let product = self.source.node(node.inputs[0].node);
        rule_if!(operation_of(product) == Some(Operation::Multiply));
        rule_if!(only_use(self.source, product)?.is_some());
        let shape = &product.outputs[0].fact.shape;
        rule_if_let!(&[a, b] = &*product.inputs);
        for (data, factors) in [(a, b), (b, a)] {
            let fact = self.source.outlet_fact(data)?;
            let Some(factors) = self.constant(factors)? else { continue };
            let is_of_channels = factors.datum_type() == DatumType::F32
                && fact.datum_type == DatumType::F32
                && fact.shape == *shape
                && factors.shape().last().is_some_and(|last| *last == factors.len())
                && shape.last() == Some(&factors.len().to_dim());
            if is_of_channels {
                let factors = factors.try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
                return Ok(Some((data, factors)));
            }
        }
        Ok(None)
    }

    /// Whether something with a window needs a node, or what is made of it with the channels in the same place.
    fn feeds_windows(&self, node: &TypedNode) -> bool {
        /// How many nodes are looked at.
        const MOST: usize = 16;
        let mut next = vec![node.id];
        let mut seen = 0;
        while let Some(id) = next.pop().filter(|_| seen < MOST) {
            seen += 1;
            for successor in &self.source.node(id).outputs[0].successors {
                let node = self.source.node(successor.node);
                if is_one_of!(node.op, Conv, Deconv, MaxPool) {
                    return true;
                }
                let keeps_places = makes_levels(node)
                    || is_one_of!(node.op, TypedBinOp, ElementWiseOp, DequantizeLinearF32, Pad)
                    || (moves_elements(node.op.as_ref()) && !node.op_is::<AxisOp>());
                if keeps_places {
                    next.push(node.id);
                }
            }
        }
        false
    }

    /// A convolution, transposed or not.
    fn convolution(&mut self, node: &'a TypedNode) -> Found<Translated> {
        let transposed = node.op_as::<Deconv>();
        let (spec, group, format) = match (node.op_as::<Conv>(), transposed) {
            (Some(op), _) => (&op.pool_spec, op.group, op.kernel_fmt),
            (None, Some(op)) => (&op.pool_spec, 1, op.kernel_format),
            (None, None) => return Ok(None),
        };
        if self.model.value(node.inputs[0])?.levels.is_none() {
            return self.without_codes(node.inputs[1]);
        }
        let mut weights = or_refuse!(
            self.weights(node.inputs[1], 0)?.ok_or("its weights are no codes of 8 bits")
        );
        refuse_if!(
            spec.data_format != DataFormat::NCHW || format != KernelFormat::OIHW,
            "its data is {:?} and its weights are {format:?}, but must be NCHW and OIHW",
            spec.data_format
        );
        let bias =
            or_refuse!(self.bias(node, spec.output_channels)?.ok_or("its bias is no constant"));
        let mut spec = PoolSpec { data_format: DataFormat::NHWC, ..spec.clone() };
        let mut upsampled = None;
        if let Some(op) = transposed {
            let upsampling = or_refuse!(Upsampling::new(op));
            let part = upsampling.whole();
            spec = upsampling.convolution(&part, DataFormat::NHWC);
            weights.codes = upsampling.weights::<i8>(&part, &weights.codes)?;
            upsampled = Some((upsampling, part));
        }
        self.layer(node, spec, group, weights, bias, upsampled)
    }

    /// The third input of a node, for each of so many channels.
    fn bias(&self, node: &TypedNode, channels: usize) -> Found<Vec<f32>> {
        rule_if_some!(bias = self.constant(node.inputs[2])?);
        Ok(Some(of_channels(&*bias.cast_to::<f32>()?, channels)?))
    }

    /// A layer of weights, with what follows it: its channels become those of the result, or pixels, if they are upsampled.
    fn layer(
        &mut self,
        node: &'a TypedNode,
        spec: PoolSpec,
        group: usize,
        weights: QuantizedWeights,
        bias: Vec<f32>,
        upsampled: Option<(Upsampling, PhaseGroup)>,
    ) -> Found<Translated> {
        let layout = if spec.rank() > 0 { ChannelsLast } else { SameAxes };
        let scales = weights.scales(bias);
        let mut scales =
            or_refuse!(scales.ok_or("the scales of its weights are not those of output channels"));
        let Some((codes, data)) = self.codes(node.inputs[0], layout)? else {
            refuse!("its data has other levels for each index of an axis that is not the channels");
        };
        let axis = channel_axis(layout, node.outputs[0].fact.rank());
        let mut chain = Chain::new(self.source, node);
        take_arithmetic(&mut scales, &mut chain, axis)?;
        let activation = chain.activation()?;
        let mut second = vec![[1., 0.]; scales.len()];
        let is_second = take_arithmetic(&mut second, &mut chain, axis)?;
        let mut second = is_second.then_some(second);
        let output = self.take_levels(&mut chain, layout)?;
        if let Some((_, part)) = &upsampled {
            refuse_if!(
                output.as_ref().is_some_and(|levels| !levels.are_the_same()),
                "channels of its output have different levels"
            );
            scales = part.repeated(&scales);
            second = second.map(|second| part.repeated(&second));
        }
        let residual = match (&output, &upsampled) {
            (Some(_), None) => self.residual(&mut chain, layout)?,
            _ => None,
        };
        let (codes_of_residual, residual) = residual.unzip();
        let last = residual.as_ref().map_or(&output, |residual| &residual.output).clone();
        let weights = weights.codes;
        let description = LayerDescription {
            spec,
            group,
            data,
            weights,
            scales,
            activation,
            second,
            output,
            residual,
        };
        let op = or_refuse!(QuantizedConvolution::new(&description)?);
        let Some((upsampling, _)) = upsampled else {
            let inputs: TVec<OutletId> = [codes].into_iter().chain(codes_of_residual).collect();
            return self.replace(&chain, op, &inputs, last, layout);
        };
        let by = op.name();
        let name = &node.name;
        let mut outlet = self.wire(&format!("{name}.phases"), op, &[codes])?;
        let after = &node.outputs[0].fact.shape[2..];
        let before = self.model.target.outlet_fact(outlet)?.shape[1..1 + after.len()].to_vec();
        let mut ops = upsampling.ops(DataFormat::NHWC, &before, after);
        let Some(last_op) = ops.pop() else { bail!("channels become no pixels") };
        for op in ops {
            outlet = self.wire(&format!("{name}.pixels"), op, &[outlet])?;
        }
        self.replace(&chain, last_op, &[outlet], last, layout)?;
        Ok(Some(Translated::Done(by)))
    }

    /// Takes over a sum of the chain, which ends with codes, and of other codes that are there already; with its limits and the
    /// codes that are made of it.
    fn residual(
        &mut self,
        chain: &mut Chain<'a>,
        layout: CodeLayout,
    ) -> Found<(OutletId, ResidualOperand)> {
        let mut longer = chain.clone();
        if quantize_parameters(longer.last()).is_some() {
            rule_if_some!((node, _) = longer.user()?);
            rule_if!(node.op_is::<DequantizeLinearF32>());
            longer.push(node);
        }
        rule_if_some!(next = longer.next_of_same_fact()?);
        rule_if!(operation_of(next.node) == Some(Operation::Add));
        rule_if_some!(operand = next.operand);
        rule_if!(self.source.outlet_fact(operand)?.shape == next.node.outputs[0].fact.shape);
        rule_if!(self.model.values.contains_key(&operand));
        rule_if_some!((codes, levels) = self.codes(operand, layout)?);
        longer.push(next.node);
        let limits = limits_of(&mut longer)?;
        let output = self.take_levels(&mut longer, layout)?;
        *chain = longer;
        Ok(Some((codes, ResidualOperand { levels, limits, output })))
    }

    /// A layer whose data has no codes. If its weights have some, it is worth a word.
    fn without_codes(&self, weights: OutletId) -> Found<Translated> {
        refuse_if!(self.weights_of_codes(weights)?.is_some(), "its data has no codes");
        Ok(None)
    }

    /// Rows that are multiplied with a matrix.
    fn product(&mut self, node: &'a TypedNode) -> Found<Translated> {
        rule_if_some!(op = node.op_as::<EinSum>());
        rule_if!(op.axes.input_count() == 2 && op.q_params.is_none());
        let [data, matrix, output] =
            [InOut::In(0), InOut::In(1), InOut::Out(0)].map(|slot| labels(op, slot));
        rule_if_some!(&summed = data.last());
        // Axes of size 1, which are broadcast to those of the data.
        let shape = &self.source.outlet_fact(node.inputs[1])?.shape;
        let is_broadcast = |at: &usize| {
            shape[*at].is_one() && matrix[*at] != summed && data.contains(&matrix[*at])
        };
        let (ones, axes): (Vec<usize>, Vec<usize>) = (0..matrix.len()).partition(is_broadcast);
        rule_if_let!(&[first, second] = &*axes);
        let axis = if matrix[first] == summed { second } else { first };
        let [first, second] = [matrix[first], matrix[second]];
        if self.model.value(node.inputs[0])?.levels.is_none() {
            return self.without_codes(node.inputs[1]);
        }
        rule_if_some!(mut weights = self.weights(node.inputs[1], axis)?);
        for axis in ones.into_iter().rev() {
            weights.change_axes(&AxisOp::Rm(axis))?;
        }
        let channel = if first == summed { second } else { first };
        let is_one = [first, second].contains(&summed)
            && replaces_axis(&data, &output, data.len() - 1, channel);
        refuse_if!(!is_one, "it is no product of rows and a matrix");
        if first == summed {
            weights.change_axes(&AxisOp::Move(1, 0))?;
        }
        let &[outputs, inputs] = weights.codes.shape() else {
            refuse!("its weights are no matrix");
        };
        // A sum over one element is broadcast by tract's operator.
        let width = &self.source.outlet_fact(node.inputs[0])?.shape[data.len() - 1];
        refuse_if!(
            *width != inputs.to_dim(),
            "its data has size {width} on the axis that is summed, and its weights {inputs}"
        );
        let (format, padding) = (DataFormat::NHWC, PaddingSpec::Valid);
        let spec = PoolSpec::new(format, tvec![], padding, None, None, inputs, outputs);
        self.layer(node, spec, 1, weights, vec![0.; outputs], None)
    }

    fn max_pool(&mut self, node: &'a TypedNode) -> Found<Translated> {
        rule_if_some!(op = node.op_as::<MaxPool>());
        let spec = &op.pool_spec;
        let is_within = |axis: usize, pads: &[usize]| {
            // Some of each window is in the image, even if that has one pixel.
            pads[axis] == 0 || (pads[axis] < spec.kernel_shape[axis] && spec.dilation(axis) == 1)
        };
        let is_padded_little = match &spec.padding {
            PaddingSpec::Valid => true,
            PaddingSpec::Explicit(begin, end)
            | PaddingSpec::ExplicitOnnxPool(begin, end, false) => {
                (0..spec.rank()).all(|axis| is_within(axis, begin) && is_within(axis, end))
            }
            _ => false,
        };
        rule_if!(op.with_index_outputs.is_none() && spec.data_format == DataFormat::NCHW);
        rule_if!(spec.rank() <= 3 && is_padded_little);
        rule_if_some!((codes, levels) = self.codes(node.inputs[0], ChannelsLast)?);
        let spec = PoolSpec { data_format: DataFormat::NHWC, ..spec.clone() };
        let chain = Chain::new(self.source, node);
        let op = QuantizedMaxPool { spec };
        self.replace(&chain, op, &[codes], Some(levels), ChannelsLast)
    }

    /// The sum over all pixels, which may be divided by their number.
    fn sum(&mut self, node: &'a TypedNode) -> Found<Translated> {
        rule_if_some!(op = node.op_as::<Reduce>());
        let rank = self.rank(node.inputs[0])?;
        let are_pixels = rank > 2 && op.axes.iter().copied().eq(2..rank);
        rule_if!(op.reducer == Reducer::Sum && are_pixels);
        rule_if_some!((codes, levels) = self.codes(node.inputs[0], ChannelsLast)?);
        let mut chain = Chain::new(self.source, node);
        let factor = chain.arithmetic::<Mul>(0..0)?.map_or(1., |factors| factors[0]);
        let output = self.take_levels(&mut chain, ChannelsLast)?;
        let op = QuantizedSum { levels, factor, output: output.clone() };
        self.replace(&chain, op, &[codes], output, ChannelsLast)
    }

    fn arithmetic(&mut self, node: &'a TypedNode) -> Found<Translated> {
        rule_if_some!(operation = operation_of(node));
        let facts = self.source.node_input_facts(node.id)?;
        rule_if_let!((&[one, other], &[fact, other_fact]) = (&*node.inputs, &*facts));
        let (shape, rank) = (&node.outputs[0].fact.shape, node.outputs[0].fact.rank());
        rule_if!(rank > 0);
        // The first one has the shape of the result.
        let (a, b, shape_of_b) = match () {
            () if fact.shape == *shape => (one, other, &other_fact.shape),
            () if other_fact.shape == *shape => (other, one, &fact.shape),
            () => return Ok(None),
        };
        let (value_a, value_b) = (self.model.value(a)?, self.model.value(b)?);
        rule_if!(value_a.levels.is_some() && value_b.levels.is_some());
        let layout = value_a.layout_of_codes(rank);
        let axis = channel_axis(layout, rank);
        let is_one_pixel = (0..rank).all(|at| match at == 0 || at == axis {
            true => shape[at] == shape_of_b[at],
            false => shape_of_b[at].is_one(),
        });
        rule_if_some!(channels = shape[axis].to_usize().ok().filter(|channels| *channels > 0));
        rule_if!(shape_of_b == shape || is_one_pixel);
        rule_if_some!((codes_a, levels_a) = self.codes(a, layout)?);
        rule_if_some!((codes_b, levels_b) = self.codes(b, layout)?);
        let mut chain = Chain::new(self.source, node);
        let limits = limits_of(&mut chain)?;
        let output = self.take_levels(&mut chain, layout)?;
        let levels = [levels_a, levels_b];
        let op = QuantizedArithmetic::new(operation, limits, levels, output.clone(), channels);
        self.replace(&chain, op, &[codes_a, codes_b], output, layout)
    }

    /// Functions of one number between codes: each code becomes another one.
    fn function(&mut self, node: &'a TypedNode) -> Found<Translated> {
        rule_if_some!(data = self.operand(node)?);
        let value = self.model.value(node.inputs[data])?;
        rule_if_some!(from = value.levels.clone().filter(|levels| levels.are_the_same()));
        let mut chain = Chain::new(self.source, node);
        let mut shape = vec![1; self.rank(node.inputs[data])?];
        rule_if_some!(last = shape.last_mut());
        *last = 256;
        let numbers = Tensor::from_shape(&shape, &Requantize::numbers(&from))?;
        let mut numbers = self.applied(node, data, numbers)?;
        let to = loop {
            rule_if_some!((next, slot) = chain.user()?);
            if makes_levels(next) && slot == 0 {
                rule_if_let!(Ok((levels, None)) = self.levels(next)?);
                break Arc::new(levels);
            }
            rule_if!(self.operand(next)? == Some(slot));
            numbers = self.applied(next, slot, numbers)?;
            chain.push(next);
        };
        rule_if_some!((next, _) = chain.user()?);
        chain.push(next);
        let results = numbers.try_as_plain_ram()?;
        let results: &[f32; 256] = results.as_slice::<f32>()?.try_into()?;
        let (codes, layout) = value.any_codes()?;
        let op = Requantize::of_function(from, to.clone(), results);
        self.replace(&chain, op, &[codes], Some(to), layout)
    }

    /// Which input a node makes something of, number by number, if all others are one constant each.
    fn operand(&self, node: &TypedNode) -> Found<usize> {
        let is_single = |fact: &TypedFact| fact.datum_type == DatumType::F32;
        rule_if!(node.outputs.len() == 1 && is_single(&node.outputs[0].fact));
        rule_if!(self.source.node_input_facts(node.id)?.into_iter().all(is_single));
        if let Some(op) = node.op_as::<ElementWiseOp>() {
            return Ok(op.1.is_none().then_some(0));
        }
        rule_if!(binary(node).is_some());
        rule_if_let!(&[a, b] = &*node.inputs);
        for (slot, data, other) in [(0, a, b), (1, b, a)] {
            let is_whole = self.source.outlet_fact(data)?.shape == node.outputs[0].fact.shape;
            let constant = self.constant(other)?;
            if is_whole && constant.is_some_and(|constant| constant.len() == 1) {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// What a node makes of these numbers, if they are this input.
    fn applied(&self, node: &TypedNode, slot: usize, numbers: Tensor) -> TractResult<Tensor> {
        let mut inputs = tvec![];
        for (number, input) in node.inputs.iter().enumerate() {
            inputs.push(if number == slot {
                numbers.clone().into_tvalue()
            } else {
                self.constant(*input)?.context("it is a constant")?.into_tvalue()
            });
        }
        let outputs = node.op.eval_out_of_plan(inputs)?;
        let output = outputs.and_then(|outputs| outputs.into_iter().next());
        Ok(output.context("it needs no plan")?.into_tensor())
    }

    /// A constant around the data, if a code stands for it, or elements of the data.
    fn padding(&mut self, node: &'a TypedNode) -> Found<Translated> {
        rule_if_some!(op = node.op_as::<Pad>());
        let value = self.model.value(node.inputs[0])?;
        let layout = value.layout_of_codes(self.rank(node.inputs[0])?);
        rule_if_some!(levels = value.levels.filter(|levels| levels.are_the_same()));
        let mode = match &op.mode {
            PadMode::Constant(number) => {
                let number = number.cast_to_scalar::<f32>()?;
                let code = levels.exact_code(number);
                let code = or_refuse!(code.ok_or(format!("there is no code for {number}")));
                PadMode::Constant(tensor0(code).into_arc_tensor())
            }
            mode => mode.clone(),
        };
        rule_if_some!((codes, _) = self.codes(node.inputs[0], layout)?);
        let mut pads = op.pads.clone();
        if layout == ChannelsLast {
            pads[1..].rotate_left(1);
        }
        let chain = Chain::new(self.source, node);
        self.replace(&chain, Pad { pads, mode }, &[codes], Some(levels), layout)
    }

    /// What moves elements and does nothing else.
    fn movement(&mut self, node: &'a TypedNode) -> Found<Translated> {
        rule_if!(moves_elements(node.op.as_ref()));
        let values = node.inputs.iter().map(|input| self.model.value(*input));
        let values = values.collect::<TractResult<Vec<_>>>()?;
        // Channels stay where they are, too.
        let is_check = Movement::Checks.has(node.op.as_ref());
        let Some(levels) = values.first().and_then(|value| value.levels.clone()) else {
            return if is_check { self.check_of_numbers(node) } else { Ok(None) };
        };
        let are_the_same = values.iter().all(|value| value.levels.as_ref() == Some(&levels));
        let stay = levels.are_the_same() || is_check;
        rule_if!(are_the_same && stay && node.outputs.len() == 1);
        let all_last = values.iter().all(|value| value.codes[ChannelsLast as usize].is_some());
        if all_last && let Some(moved) = self.shuffle(node, &levels)? {
            return Ok(Some(moved));
        }
        let of_last = if all_last { with_channels_last(self.source, node)? } else { None };
        let (layout, op) = match of_last {
            Some(op) => (ChannelsLast, op),
            None => (SameAxes, node.op.clone()),
        };
        let mut inputs = tvec!();
        for input in &node.inputs {
            rule_if_some!((codes, _) = self.codes(*input, layout)?);
            inputs.push(codes);
        }
        let chain = Chain::new(self.source, node);
        self.replace(&chain, op, &inputs, Some(levels), layout)?;
        Ok(Some(Translated::Forwarded))
    }

    /// Axis operators that split the channels, move the parts and merge them again, as ShuffleNet does: the channels are another order
    /// of themselves, where they are last, too.
    fn shuffle(&mut self, node: &'a TypedNode, levels: &Arc<Levels>) -> Found<Translated> {
        rule_if_some!((chain, mut ops) = shuffled_channels_last(self.source, node)?);
        rule_if_some!((mut codes, _) = self.codes(node.inputs[0], ChannelsLast)?);
        rule_if_some!(last = ops.pop());
        for op in ops {
            codes = self.wire(&format!("{}.shuffle", chain.last().name), op, &[codes])?;
        }
        self.replace(&chain, last, &[codes], Some(levels.clone()), ChannelsLast)?;
        Ok(Some(Translated::Forwarded))
    }

    /// A check of numbers that have the channels last: so have those that it gives.
    fn check_of_numbers(&mut self, node: &'a TypedNode) -> Found<Translated> {
        let value = self.model.value(node.inputs[0])?;
        rule_if!(value.numbers[SameAxes as usize].is_none());
        rule_if_some!(numbers = value.numbers[ChannelsLast as usize]);
        rule_if_some!(op = with_channels_last(self.source, node)?);
        self.replace(&Chain::new(self.source, node), op, &[numbers], None, ChannelsLast)?;
        Ok(Some(Translated::Forwarded))
    }
}
