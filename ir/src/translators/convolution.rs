//! Convolutions and transposed convolutions. The data is `[N, C, spatial axes]`.

use tract_core::internal::*;
use tract_core::ops::array::{MultiBroadcastTo, Pad, PadMode, Slice};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::{Conv, Deconv, KernelFormat, PaddingSpec, PoolSpec};
use tract_core::ops::logic::comp_lt;
use tract_core::ops::math::{mul, sub};
use tract_core::ops::nn::DataFormat;
use tract_openvino_kernels::checks::volume;

use crate::context::{LayerContext, NotKnown};
use crate::limits::{MAX_KERNEL_ELEMENTS, MAX_WINDOW_EXTENT};
use crate::operators::windows::extent;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Convolution", 1, convolution_1).without("weights of a shape that is not known");
    registry
        .add("GroupConvolution", 1, group_convolution_1)
        .without("weights of a shape that is not known");
    registry.add("ConvolutionBackpropData", 1, convolution_backprop_data_1).without(
        "weights of a shape that is not known, and an `output_shape` for open sizes of the data",
    );
    registry.add("GroupConvolutionBackpropData", 1, group_convolution_backprop_data_1).without(
        "weights of a shape that is not known, and an `output_shape` for open sizes of the data",
    );
    registry
        .add("BinaryConvolution", 1, binary_convolution)
        .without("a `pad_value` other than -1, 0 and 1");
}

/// `auto_pad`: where the pads come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AutoPad {
    Explicit,
    SameUpper,
    SameLower,
    Valid,
}

/// How a kernel moves over the spatial axes. Each list has a number for each of them.
#[derive(Debug)]
pub(super) struct Window {
    pub kernel: TVec<usize>,
    pub strides: TVec<usize>,
    pub dilations: TVec<usize>,
    /// Zeros unless `auto_pad` is explicit: the pads in the file do not count otherwise. A negative pad
    /// crops.
    pub pads_begin: TVec<i64>,
    pub pads_end: TVec<i64>,
    pub auto_pad: AutoPad,
}

impl Window {
    /// Reads the attributes of a layer. Without them, strides and dilations are 1, and pads 0.
    pub fn new(ctx: &LayerContext, kernel: &[usize]) -> TractResult<Window> {
        let auto_pad = ctx.attribute_among(
            "auto_pad",
            &[
                ("explicit", AutoPad::Explicit),
                ("same_upper", AutoPad::SameUpper),
                ("same_lower", AutoPad::SameLower),
                ("valid", AutoPad::Valid),
            ],
            Some(AutoPad::Explicit),
        )?;
        let rank = kernel.len();
        let steps = |name| -> TractResult<TVec<usize>> {
            Ok(spatial(ctx, name, rank, 1, 1..=MAX_WINDOW_EXTENT)?
                .iter()
                .map(|step| *step as usize)
                .collect())
        };
        let pads = |name| match auto_pad {
            AutoPad::Explicit => {
                spatial(ctx, name, rank, 0, -MAX_WINDOW_EXTENT..=MAX_WINDOW_EXTENT)
            }
            _ => Ok(tvec![0; rank]),
        };
        let window = Window {
            kernel: kernel.into(),
            strides: steps("strides")?,
            dilations: steps("dilations")?,
            pads_begin: pads("pads_begin")?,
            pads_end: pads("pads_end")?,
            auto_pad,
        };
        ensure!(
            volume(kernel).is_some_and(|volume| volume <= MAX_KERNEL_ELEMENTS),
            "the kernel has shape {kernel:?}, but must have {MAX_KERNEL_ELEMENTS} elements or fewer"
        );
        for axis in 0..rank {
            let extent = window.extent(axis).ok();
            ensure!(
                extent.is_some_and(|extent| (1..=MAX_WINDOW_EXTENT).contains(&extent)),
                "the kernel has shape {kernel:?}, but must have from 1 to {MAX_WINDOW_EXTENT} elements in each axis, \
                 dilations included"
            );
        }
        Ok(window)
    }

    /// The size of the kernel along an axis, with the gaps of its dilation.
    pub fn extent(&self, axis: usize) -> TractResult<i64> {
        let extent = extent(self.kernel[axis], self.dilations[axis]);
        Ok(i64::try_from(extent.context("a kernel has no elements, or is too large")?)?)
    }

    /// Checks that the kernel fits into the padded data, as far as sizes are known. Others are checked when the
    /// model runs.
    pub fn check_fits(&self, sizes: &[TDim], begin: &[i64], end: &[i64]) -> TractResult<()> {
        for (axis, size) in sizes.iter().enumerate() {
            let Ok(size) = size.to_i64() else { continue };
            let padded = size.saturating_add(begin[axis]).saturating_add(end[axis]);
            let extent = self.extent(axis)?;
            ensure!(
                extent <= padded,
                "the kernel has size {extent} in spatial axis {axis}, dilations included, but the data has \
                 size {padded}, pads included"
            );
        }
        Ok(())
    }

    /// The least size of an axis into which the kernel fits. With the pads of `same_upper` and `same_lower` it
    /// always does.
    fn least_size(&self, axis: usize) -> TractResult<usize> {
        let (begin, end) = (self.pads_begin[axis], self.pads_end[axis]);
        let least = match self.auto_pad {
            AutoPad::SameUpper | AutoPad::SameLower => 1,
            AutoPad::Explicit | AutoPad::Valid => self.extent(axis)? - begin - end,
        };
        // Negative pads must leave something.
        let cropped = -(begin.min(0) + end.min(0));
        Ok(usize::try_from(least.max(cropped + 1))?)
    }

    /// The data, whose open sizes are checked when the model runs: the kernel must fit.
    pub fn checked(&self, ctx: &mut LayerContext, data: OutletId) -> TractResult<OutletId> {
        let least = (0..self.kernel.len()).map(|axis| Ok((2 + axis, self.least_size(axis)?)));
        ctx.with_least_sizes(data, least.collect::<TractResult<Vec<_>>>()?)
    }

    /// tract's description.
    pub fn spec(&self, padding: PaddingSpec, input: usize, output: usize) -> PoolSpec {
        PoolSpec::new(
            DataFormat::NCHW,
            self.kernel.clone(),
            padding,
            Some(self.dilations.clone()),
            Some(self.strides.clone()),
            input,
            output,
        )
    }
}

/// Checks that no spatial axis is known to be without elements, for which tract's operators fail.
pub(super) fn check_elements(sizes: &[TDim]) -> TractResult<()> {
    match sizes.iter().position(|size| size.as_i64() == Some(0)) {
        Some(axis) => bail!("the data has no elements in spatial axis {axis}"),
        None => Ok(()),
    }
}

/// An attribute with a number for each spatial axis. If it is absent or empty, each number is the default.
fn spatial(
    ctx: &LayerContext,
    name: &str,
    rank: usize,
    default: i64,
    range: std::ops::RangeInclusive<i64>,
) -> TractResult<TVec<i64>> {
    let numbers: Vec<i64> = ctx.attribute_or(name, vec![])?;
    if numbers.is_empty() {
        return Ok(tvec![default; rank]);
    }
    ensure!(
        numbers.len() == rank,
        "attribute {name} has length {}, but must have length {rank}, a number for each spatial axis",
        numbers.len()
    );
    let wrong = numbers.iter().find(|number| !range.contains(number));
    ensure!(
        wrong.is_none(),
        "attribute {name} is {numbers:?}, but each must be in [{}, {}]",
        range.start(),
        range.end()
    );
    Ok(numbers.into())
}

/// The pads, with 0 for those that crop.
pub(super) fn positive(pads: &[i64]) -> TVec<usize> {
    pads.iter().map(|pad| usize::try_from(*pad).unwrap_or(0)).collect()
}

/// Pads the spatial axes of data with zeros.
pub(super) fn padded(
    ctx: &mut LayerContext,
    suffix: &str,
    data: OutletId,
    begin: &[usize],
    end: &[usize],
) -> TractResult<OutletId> {
    if begin.iter().chain(end).all(|pad| *pad == 0) {
        return Ok(data);
    }
    let zero = Tensor::zero_scalar_dt(ctx.type_of(data)?)?.into_arc_tensor();
    let mut pads = vec![(0, 0); 2];
    pads.extend(begin.iter().copied().zip(end.iter().copied()));
    ctx.wire(suffix, Pad { pads, mode: PadMode::Constant(zero) }, &[data])
}

/// The number of spatial axes of the data.
pub(super) fn spatial_axes(ctx: &LayerContext) -> TractResult<usize> {
    let rank = ctx.rank(0)?;
    ensure!((3..=5).contains(&rank), "the data has rank {rank}, but must have rank 3, 4 or 5");
    Ok(rank - 2)
}

/// The size of an axis of weights.
fn known(dim: &TDim) -> TractResult<usize> {
    dim.to_usize().with_context(|| {
        format!("a dimension of the weights is {dim}, but must be known when the model is loaded")
    })
}

/// The weights of a convolution: `[group, first, second, kernel]`, or `[first, second, kernel]` if it has no groups.
struct Filters {
    outlet: OutletId,
    grouped: bool,
    group: usize,
    first: usize,
    second: usize,
    kernel: TVec<usize>,
}

impl Filters {
    fn new(ctx: &mut LayerContext, grouped: bool) -> TractResult<Filters> {
        let weights = ctx.shape(1)?;
        let spatial = spatial_axes(ctx)?;
        let leading = 2 + usize::from(grouped);
        ensure!(
            weights.len() == spatial + leading,
            "the weights have rank {}, but must have rank {} for data with {spatial} spatial axes",
            weights.len(),
            spatial + leading
        );
        let (dt, weights_dt) = (ctx.expect_numbers(0, "data")?, ctx.datum_type(1)?);
        ensure!(
            weights_dt == dt,
            "the weights are of type {weights_dt:?}, but must be of the type of the data, {dt:?}"
        );
        let sizes: TVec<usize> = weights.iter().map(known).collect::<TractResult<_>>()?;
        ensure!(!sizes.contains(&0), "the weights have shape {sizes:?}, but must have elements");
        let outlet = ctx.input(1)?;
        let outlet = ctx.single_float("filters_single", outlet)?;
        let kernel = sizes[leading..].into();
        let [first, second] = [sizes[leading - 2], sizes[leading - 1]];
        let group = if grouped { sizes[0] } else { 1 };
        Ok(Filters { outlet, grouped, group, first, second, kernel })
    }

    /// The weights as tract's operators want them: `[group * output channels, input channels, kernel]`.
    fn merged(&self, ctx: &mut LayerContext) -> TractResult<OutletId> {
        if !self.grouped {
            return Ok(self.outlet);
        }
        let shape = ctx.shape_of(self.outlet)?;
        let merged = shape[0].clone() * &shape[1];
        let merge = AxisOp::Reshape(0, shape[..2].into(), tvec![merged]);
        ctx.wire("filters", merge, &[self.outlet])
    }
}

/// A number of channels for all groups.
fn channels(group: usize, each: usize) -> TractResult<usize> {
    group.checked_mul(each).context("the weights have too many channels")
}

/// **Convolution-1**: the weights are `[output channels, input channels, kernel]`. There is no bias.
fn convolution_1(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    convolution(ctx, false)
}

/// **GroupConvolution-1**: the weights are `[groups, output channels of a group, input channels of a group,
/// kernel]`.
fn group_convolution_1(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    convolution(ctx, true)
}

fn convolution(ctx: &mut LayerContext, grouped: bool) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let filters = Filters::new(ctx, grouped)?;
    let window = Window::new(ctx, &filters.kernel)?;
    let input = channels(filters.group, filters.second)?;
    let output = channels(filters.group, filters.first)?;
    let shape = ctx.shape(0)?;
    ctx.require_equal(&shape[1], &input.to_dim(), "has weights for these channels of its data")?;
    check_elements(&shape[2..])?;
    let data = ctx.input(0)?;
    let data = window.checked(ctx, data)?;
    let data = ctx.single_float("single", data)?;
    let weights = filters.merged(ctx)?;
    let bias = Tensor::zero_scalar_dt(ctx.type_of(data)?)?;
    let bias = ctx.add_const("bias", bias)?;
    let result = convolved(ctx, &window, [data, weights, bias], [input, output], filters.group)?;
    Ok(tvec!(ctx.cast("type", result, ctx.datum_type(0)?)?))
}

/// The convolution of data, weights and a bias, with so many channels of its input and output.
fn convolved(
    ctx: &mut LayerContext,
    window: &Window,
    [mut data, weights, bias]: [OutletId; 3],
    [input, output]: [usize; 2],
    group: usize,
) -> TractResult<OutletId> {
    let shape = ctx.shape_of(data)?;
    for (axis, size) in shape.iter().enumerate().skip(2) {
        let (begin, end) = (window.pads_begin[axis - 2].min(0), window.pads_end[axis - 2].min(0));
        if (begin, end) == (0, 0) {
            continue;
        }
        let end = size.clone() + end;
        ensure!(
            end.to_i64().map_or(true, |end| -begin < end),
            "negative pads leave nothing of spatial axis {}, whose size is {size}",
            axis - 2
        );
        data = ctx.wire("crop", Slice::new(axis, -begin, end), &[data])?;
    }
    let padding = match window.auto_pad {
        AutoPad::SameUpper => PaddingSpec::SameUpper,
        AutoPad::SameLower => PaddingSpec::SameLower,
        AutoPad::Explicit | AutoPad::Valid => {
            window.check_fits(&shape[2..], &window.pads_begin, &window.pads_end)?;
            PaddingSpec::Explicit(positive(&window.pads_begin), positive(&window.pads_end))
        }
    };
    let mut spec = window.spec(padding, input, output);
    // Where sizes are known, so are the pads: NNEF has no text for same_lower.
    let sizes = shape[2..].iter().map(|size| size.to_usize().ok()).collect::<Option<TVec<_>>>();
    if let Some(sizes) = sizes.filter(|_| !matches!(spec.padding, PaddingSpec::Explicit(..))) {
        let pads = spec.computed_padding(&sizes);
        let (begin, end) = pads.iter().map(|axis| (axis.pad_before, axis.pad_after)).unzip();
        spec.padding = PaddingSpec::Explicit(begin, end);
    }
    let convolution = Conv::new(spec, KernelFormat::OIHW, group, None);
    ctx.wire("", convolution, &[data, weights, bias])
}

/// **BinaryConvolution-1**: a convolution of -1 and 1: bits of weights, a constant of type `u1`, and numbers of the data, which are
/// 1 if they are greater than 0. The data has two spatial axes. `pad_value` is -1, 1, or 0 for pads that do not count.
///
/// As for OpenVINO's CPU plug-in, and as Model Optimizer writes them, the first weight is the lowest bit of a byte. In other
/// constants of type `u1` it is the highest, and OpenVINO's reference implementation reads it so here, too.
fn binary_convolution(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let dt = ctx.expect_numbers(0, "data")?;
    let shape = ctx.shape_of_rank(0, "data", 4)?;
    ctx.attribute_among("mode", &[("xnor-popcount", ())], None)?;
    let pad_value: f32 = ctx.attribute("pad_value")?;
    ensure!(
        [-1., 0., 1.].contains(&pad_value),
        "attribute pad_value is {pad_value}, but must be -1, 0 or 1"
    );
    let (bits, sizes) = ctx.constant_bits(1, "weights")?;
    let &[output, input, height, width] = &*sizes else {
        bail!("input 1 (weights) has shape {sizes:?}, but must have rank 4")
    };
    ensure!(!sizes.contains(&0), "the weights have shape {sizes:?}, but must have elements");
    let window = Window::new(ctx, &[height, width])?;
    ctx.require_equal(&shape[1], &input.to_dim(), "has weights for these channels of its data")?;
    check_elements(&shape[2..])?;
    let weights: Vec<f32> = bits.iter().map(|bit| if *bit { 1. } else { -1. }).collect();
    // The pads are 0, so all other numbers are moved, and what that takes from the sums is added to them.
    let sums = weights.chunks_exact(input * height * width);
    let bias: Vec<f32> = sums.map(|filter| filter.iter().sum::<f32>() * pad_value).collect();
    let weights = ctx.add_const("weights", tensor1(&weights).into_shape(&sizes)?)?;
    let bias = ctx.add_const("bias", tensor1(&bias))?;
    let data = ctx.input(0)?;
    let data = window.checked(ctx, data)?;
    let data = ctx.numbers(data)?;
    let zero = ctx.scalar("zero", 0., ctx.type_of(data)?, 4)?;
    let data = ctx.wire("are_positive", TypedBinOp(comp_lt(), None), &[zero, data])?;
    let data = ctx.cast("bits", data, DatumType::F32)?;
    let two = ctx.scalar("two", 2., DatumType::F32, 4)?;
    let data = ctx.wire("doubled", mul(), &[data, two])?;
    let moved = ctx.scalar("moved", f64::from(1. + pad_value), DatumType::F32, 4)?;
    let data = ctx.wire("signs", sub(), &[data, moved])?;
    let result = convolved(ctx, &window, [data, weights, bias], [input, output], 1)?;
    Ok(tvec!(ctx.cast("type", result, dt)?))
}

/// **ConvolutionBackpropData-1**: a transposed convolution. The weights are `[input channels, output
/// channels, kernel]`. The optional third input has the sizes of the output's spatial axes.
fn convolution_backprop_data_1(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    deconvolution(ctx, false)
}

/// **GroupConvolutionBackpropData-1**: a transposed convolution in groups. The weights are `[groups, input
/// channels of a group, output channels of a group, kernel]`.
fn group_convolution_backprop_data_1(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    deconvolution(ctx, true)
}

fn deconvolution(ctx: &mut LayerContext, grouped: bool) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=3)?;
    let mut filters = Filters::new(ctx, grouped)?;
    let window = Window::new(ctx, &filters.kernel)?;
    let input = channels(filters.group, filters.first)?;
    let output = channels(filters.group, filters.second)?;
    let shape = ctx.shape(0)?;
    ctx.require_equal(&shape[1], &input.to_dim(), "has weights for these channels of its data")?;
    check_elements(&shape[2..])?;
    let Crops { begin, end } = Crops::new(ctx, &window, &shape[2..])?;
    let mut least = vec![];
    let mut result_shape = tvec![shape[0].clone(), output.to_dim()];
    for axis in 0..begin.len() {
        let full = full_size(&window, axis, &shape[2 + axis])?;
        let cropped = begin[axis] + end[axis];
        let size = full - cropped;
        ensure!(
            size.as_i64().is_none_or(|size| size >= 0),
            "the pads take away more elements than spatial axis {axis} of the output has"
        );
        result_shape.push(size);
        // The first element gives as many as the kernel has, each further one as many as a stride.
        let missing = usize::try_from(cropped + 1 - window.extent(axis)?).unwrap_or(0);
        least.push((2 + axis, 1 + missing.div_ceil(window.strides[axis])));
    }
    if result_shape.contains(&0.to_dim()) {
        let zero = ctx.scalar("zero", 0., ctx.datum_type(0)?, shape.len())?;
        return ctx.finish(MultiBroadcastTo::new(result_shape.into()), &[zero]);
    }
    let first = usize::from(grouped);
    filters.outlet = ctx.wire("output_first", AxisOp::Move(first, first + 1), &[filters.outlet])?;
    let weights = filters.merged(ctx)?;
    let data = ctx.input(0)?;
    let data = ctx.with_least_sizes(data, least)?;
    let data = ctx.single_float("single", data)?;
    // A negative crop adds elements. At the end the kernel reaches into them; at the beginning they are
    // zeros.
    let crop = PaddingSpec::Explicit(positive(&begin), positive(&end));
    let spec = window.spec(crop, input, output);
    let negative = |pads: &[i64]| positive(&pads.iter().map(|pad| -pad).collect::<TVec<i64>>());
    let bias = ctx.add_const("bias", Tensor::zero_scalar_dt(ctx.type_of(data)?)?)?;
    let deconvolution = Deconv::new(spec, KernelFormat::OIHW, negative(&end), filters.group);
    let none_before = begin.iter().all(|pad| *pad >= 0);
    let suffix = if none_before { "" } else { "unpadded" };
    let result = ctx.wire(suffix, deconvolution, &[data, weights, bias])?;
    let nothing = tvec![0; begin.len()];
    let result = padded(ctx, "", result, &negative(&begin), &nothing)?;
    Ok(tvec!(ctx.cast("type", result, ctx.datum_type(0)?)?))
}

/// The size of a spatial axis of a transposed convolution's output, before anything is cropped.
fn full_size(window: &Window, axis: usize, size: &TDim) -> TractResult<TDim> {
    let steps = size.clone() - 1;
    ensure!(
        steps.as_i64().is_none_or(|steps| steps <= MAX_WINDOW_EXTENT),
        "spatial axis {axis} has size {size}, but must have {MAX_WINDOW_EXTENT} elements at most"
    );
    Ok(steps * window.strides[axis] as i64 + window.extent(axis)?)
}

/// What is cropped from the full output of a transposed convolution, at both ends of each spatial axis. A
/// negative number adds elements.
struct Crops {
    begin: TVec<i64>,
    end: TVec<i64>,
}

impl Crops {
    /// If there is an output shape, the crops at the end follow from it. With `auto_pad` same_upper or
    /// same_lower, those at the beginning do too; same_upper has the larger half at the beginning.
    ///
    /// The specification ignores `pads_begin` then, and has a half at the beginning in all modes. As in OpenVINO, the pads
    /// are those of the file in mode explicit, and 0 in mode valid.
    fn new(ctx: &LayerContext, window: &Window, sizes: &[TDim]) -> TractResult<Crops> {
        let rank = sizes.len();
        let output_padding = spatial(ctx, "output_padding", rank, 0, 0..=MAX_WINDOW_EXTENT)?;
        let mut begin = window.pads_begin.clone();
        let mut end: TVec<i64> =
            window.pads_end.iter().zip(&output_padding).map(|(pad, more)| pad - more).collect();
        if ctx.input_count() < 3 {
            return Ok(Crops { begin, end });
        }
        let wanted = ctx.sizes(2, "output_shape")?;
        ensure!(
            wanted.len() == rank,
            "output_shape has length {}, but must have length {rank}, a size for each spatial axis",
            wanted.len()
        );
        for axis in 0..rank {
            let full = full_size(window, axis, &sizes[axis])?;
            let surplus = (full - &wanted[axis]).simplify();
            let surplus = surplus.as_i64().ok_or_else(|| {
                NotKnown::sizes(format!(
                    "output_shape has {} for spatial axis {axis} of size {}, so that the pads depend on the \
                     sizes of the inputs: give these",
                    wanted[axis], sizes[axis]
                ))
            })?;
            ensure!(
                surplus.abs() <= MAX_WINDOW_EXTENT,
                "output_shape has {} for spatial axis {axis} of size {}, which would need pads that \
                 are too large",
                wanted[axis],
                sizes[axis]
            );
            let total = surplus + output_padding[axis];
            begin[axis] = match window.auto_pad {
                AutoPad::SameUpper => total.max(0) - total.max(0) / 2,
                AutoPad::SameLower => total.max(0) / 2,
                AutoPad::Explicit | AutoPad::Valid => begin[axis],
            };
            end[axis] = surplus - begin[axis];
        }
        Ok(Crops { begin, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_without_elements() {
        let open = SymbolScope::default().sym("N").to_dim();
        check_elements(&[1.to_dim(), open]).unwrap();
        check_elements(&[1.to_dim(), 0.to_dim()]).unwrap_err();
    }
}
