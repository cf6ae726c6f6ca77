//! Constants that are kept as codes.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use tract_core::internal::*;
use tract_core::ops::konst::Const;

use super::format::Format;
use crate::checks;
use crate::lazy::LazyTensor;
use crate::strided::{StridedAxis, broadcast_strides, row_begins};

/// A constant of type `f32` that is computed from codes: `(codes - zero_point) * scale`.
///
/// A reader puts it into a model in place of the numbers, for weights that are compressed or of a quantised network.
/// [`KernelsTransform`] multiplies the codes where it can. Elsewhere it becomes tract's `Const` when tract declutters the model.
///
/// [`KernelsTransform`]: crate::KernelsTransform
///
/// ```
/// use tract_core::internal::*;
/// use tract_openvino_kernels::DequantizedConst;
///
/// let codes = tensor2(&[[1i8, -2], [3, 4]]);
/// let constant = DequantizedConst::new(codes, None, Some(tensor2(&[[0.5f32], [2.]])))?;
/// assert_eq!(*constant.value()?, tensor2(&[[0.5f32, -1.], [6., 8.]]));
/// # TractResult::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct DequantizedConst(Arc<ConstantParts>);

#[derive(Debug, Clone)]
struct ConstantParts {
    /// Of a type of numbers; or bytes, which have codes in a format.
    codes: LazyTensor,
    format: Option<Format>,
    /// The shape of the codes.
    code_shape: TVec<usize>,
    zero_point: Option<Arc<Tensor>>,
    scale: Option<Arc<Tensor>>,
    /// The shape of the numbers.
    shape: TVec<usize>,
    value: OnceLock<Arc<Tensor>>,
}

impl PartialEq for DequantizedConst {
    fn eq(&self, other: &DequantizedConst) -> bool {
        let parts = |it: &DequantizedConst| {
            let ConstantParts { codes, format, code_shape, zero_point, scale, shape, .. } = &*it.0;
            let operands = (zero_point.clone(), scale.clone());
            (*format, code_shape.clone(), shape.clone(), codes.clone(), operands)
        };
        Arc::ptr_eq(&self.0, &other.0) || parts(self) == parts(other)
    }
}

impl Eq for DequantizedConst {}

impl DequantizedConst {
    /// The constant of codes of any type of numbers. `zero_point` and `scale`, of numbers, are broadcast to their shape.
    ///
    /// # Errors
    ///
    /// An operand has no numbers, or cannot be broadcast to the shape of the codes.
    pub fn new(
        codes: impl Into<LazyTensor>,
        zero_point: Option<Tensor>,
        scale: Option<Tensor>,
    ) -> TractResult<DequantizedConst> {
        let codes = codes.into();
        ensure!(
            codes.datum_type().is_number(),
            "DequantizedConst: the codes are {codes:?}, but must be numbers"
        );
        let shape = codes.shape().into();
        DequantizedConst::of_parts(codes, None, shape, zero_point, scale)
    }

    /// The constant of codes in a format that tract has no type for. `bytes` has their bytes, and `shape` is that of the codes.
    ///
    /// # Errors
    ///
    /// As those of [`DequantizedConst::new`]. Or there are too few bytes.
    pub fn of_bytes(
        bytes: impl Into<LazyTensor>,
        format: Format,
        shape: &[usize],
        zero_point: Option<Tensor>,
        scale: Option<Tensor>,
    ) -> TractResult<DequantizedConst> {
        let bytes = bytes.into();
        // Of 64 bits: there may be more bits than addresses.
        let [codes, found] =
            [shape, bytes.shape()].map(|shape| Some(checks::volume(shape)? as u64));
        let bits = codes.and_then(|count| count.checked_mul(format.bits() as u64));
        ensure!(
            bytes.datum_type() == DatumType::U8
                && bits.is_some_and(|bits| found >= Some(bits.div_ceil(8))),
            "DequantizedConst: the codes are {bytes:?}, but must be the bytes of a tensor of {format:?} of shape {shape:?}"
        );
        DequantizedConst::of_parts(bytes, Some(format), shape.into(), zero_point, scale)
    }

    fn of_parts(
        codes: LazyTensor,
        format: Option<Format>,
        shape: TVec<usize>,
        zero_point: Option<Tensor>,
        scale: Option<Tensor>,
    ) -> TractResult<DequantizedConst> {
        for (name, operand) in [("zero_point", &zero_point), ("scale", &scale)] {
            let Some(operand) = operand else { continue };
            let pairs = operand.shape().iter().rev().zip(shape.iter().rev());
            ensure!(
                operand.datum_type().is_number()
                    && operand.rank() <= shape.len()
                    && pairs.into_iter().all(|(size, code)| size == code || *size == 1),
                "DequantizedConst: {name} is {operand:?}, but must be numbers that are broadcast to shape {shape:?}"
            );
        }
        Ok(DequantizedConst(Arc::new(ConstantParts {
            codes,
            format,
            code_shape: shape.clone(),
            zero_point: zero_point.map(Tensor::into_arc_tensor),
            scale: scale.map(Tensor::into_arc_tensor),
            shape,
            value: OnceLock::new(),
        })))
    }

    /// The numbers in another shape.
    ///
    /// # Errors
    ///
    /// The shape has another number of elements.
    pub fn into_shape(self, shape: &[usize]) -> TractResult<DequantizedConst> {
        let code_shape = &self.0.code_shape;
        ensure!(
            checks::volume(shape) == checks::volume(code_shape),
            "DequantizedConst: codes of shape {code_shape:?} have no shape {shape:?}"
        );
        let parts = ConstantParts::clone(&self.0);
        let (shape, value) = (shape.into(), OnceLock::new());
        Ok(DequantizedConst(Arc::new(ConstantParts { shape, value, ..parts })))
    }

    /// The codes, if they have a type of tract and the shape of the numbers.
    pub fn codes(&self) -> Option<&LazyTensor> {
        let ConstantParts { codes, format, code_shape, shape, .. } = &*self.0;
        (format.is_none() && code_shape == shape).then_some(codes)
    }

    /// The tensor that has the codes, or their bytes; their format; and their shape, to which zero points and scales are
    /// broadcast.
    pub(crate) fn stored(&self) -> (&LazyTensor, Option<Format>, &[usize]) {
        (&self.0.codes, self.0.format, &self.0.code_shape)
    }

    /// The same for it and its clones alone, while there are any.
    pub(crate) fn identity(&self) -> Weak<dyn Any + Send + Sync> {
        Arc::downgrade(&self.0) as _
    }

    /// The shape of the numbers.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// What is subtracted from the codes.
    pub fn zero_point(&self) -> Option<&Arc<Tensor>> {
        self.0.zero_point.as_ref()
    }

    /// What the differences are multiplied by.
    pub fn scale(&self) -> Option<&Arc<Tensor>> {
        self.0.scale.as_ref()
    }

    /// The numbers, which are computed once.
    ///
    /// # Errors
    ///
    /// The codes cannot be read. Or these or an operand are not in plain memory.
    pub fn value(&self) -> TractResult<Arc<Tensor>> {
        let ConstantParts { codes, format, code_shape, zero_point, scale, shape, value } = &*self.0;
        if let Some(value) = value.get() {
            return Ok(value.clone());
        }
        let codes = codes.get()?;
        let mut tensor = match format {
            None => codes.cast_to::<f32>()?.into_owned(),
            Some(format) => {
                let bytes = codes.try_as_plain_ram()?;
                let count = code_shape.iter().product();
                let numbers = format.numbers(bytes.as_slice::<u8>()?, count);
                Tensor::from_shape(code_shape, &numbers)?
            }
        };
        let mut view = tensor.try_as_plain_ram_mut()?;
        let numbers = view.as_slice_mut::<f32>()?;
        if let Some(zero_point) = zero_point {
            combine(numbers, code_shape, zero_point, |number, zero| number - zero)?;
        }
        if let Some(scale) = scale {
            combine(numbers, code_shape, scale, |number, scale| number * scale)?;
        }
        let tensor = tensor.into_shape(shape)?.into_arc_tensor();
        Ok(value.get_or_init(|| tensor).clone())
    }
}

/// Changes each number of a tensor by that of an operand that is broadcast to its shape.
///
/// # Errors
///
/// The operand has no numbers, or is not broadcast to the shape, or there are not as many numbers.
pub fn combine(
    numbers: &mut [f32],
    shape: &[usize],
    operand: &Tensor,
    change: impl Fn(f32, f32) -> f32,
) -> TractResult<()> {
    let of_operand = operand.shape();
    let missing = shape.len().checked_sub(of_operand.len()).filter(|missing| {
        let sizes = of_operand.iter().zip(&shape[*missing..]);
        sizes.into_iter().all(|(size, of)| size == of || *size == 1)
    });
    let missing = missing.with_context(|| {
        format!("an operand has shape {of_operand:?}, but must be broadcast to {shape:?}")
    })?;
    ensure!(
        checks::volume(shape) == Some(numbers.len()),
        "there are {} numbers, but must be those of shape {shape:?}",
        numbers.len()
    );
    if numbers.is_empty() {
        return Ok(());
    }
    let operand = operand.cast_to::<f32>()?;
    let operand = operand.try_as_plain_ram()?.as_slice::<f32>()?;
    let strides = [&*vec![0; missing], &*broadcast_strides(of_operand)].concat();
    let axes = shape.iter().zip(&strides).map(|(size, stride)| (*size, [*stride]));
    let axes: TVec<StridedAxis<[usize; 1]>> = axes.collect();
    let (&(row, [stride]), outer) = axes.split_last().unwrap_or((&(1, [0]), &[]));
    for (numbers, begin) in numbers.chunks_mut(row).zip(row_begins(outer, 0, 0)) {
        if stride == 0 {
            let operand = operand[begin];
            numbers.iter_mut().for_each(|number| *number = change(*number, operand));
        } else {
            let both = numbers.iter_mut().zip(&operand[begin..]);
            both.for_each(|(number, operand)| *number = change(*number, *operand));
        }
    }
    Ok(())
}

impl_op!(DequantizedConst, "DequantizedConst", info = |op| vec![format!("codes {:?}", op.0.codes)]);

impl EvalOp for DequantizedConst {
    // tract makes a constant of it when it declutters the model, not before.
    not_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, _inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(tvec!(self.value()?.into_tvalue()))
    }
}

impl TypedOp for DequantizedConst {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(f32::fact(&*self.0.shape)))
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let mut patch = TypedModelPatch::default();
        let outlet = patch.wire_node(&node.name, Const::new(self.value()?)?, &[])?[0];
        patch.shunt_outside(model, node.id.into(), outlet)?;
        Ok(Some(patch))
    }

    as_op!();
}
