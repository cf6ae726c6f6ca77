//! Compressed weights: codes of few bits with a scale, and perhaps a zero point, for each group of them. The
//! layers that decompress them are not computed one by one.

use std::sync::{Arc, OnceLock};

use tract_core::internal::*;
use tract_openvino_kernels::DequantizedConst;
use tract_openvino_kernels::checks::volume;

use super::table::Table;
use super::{LayerContext, Value};
use crate::document::ElementType;
use crate::weights::{Blob, Weights, datum_type};

/// Weights that are `(code - zero_point) * scale`, in single precision.
#[derive(Debug)]
pub(crate) struct Compressed {
    pub(super) codes: Arc<Blob>,
    pub(super) zero_point: Option<Arc<Blob>>,
    pub(super) scale: Option<Arc<Blob>>,
    pub shape: Vec<usize>,
    /// The type that the layers decompress to: `f32` or `f16`.
    pub datum_type: DatumType,
    /// What was put into the model: codes, or numbers.
    wired_codes: OnceLock<DequantizedConst>,
    tensor: OnceLock<Arc<Tensor>>,
    /// The table that was put into the model, if these weights make one.
    pub(super) table: OnceLock<Option<Table>>,
}

impl Compressed {
    /// Whether these are codes and nothing else.
    fn is_plain(&self) -> bool {
        self.zero_point.is_none() && self.scale.is_none() && self.shape == self.codes.shape
    }

    fn derived(&self) -> Compressed {
        Compressed {
            codes: self.codes.clone(),
            zero_point: self.zero_point.clone(),
            scale: self.scale.clone(),
            shape: self.shape.clone(),
            datum_type: self.datum_type,
            wired_codes: OnceLock::new(),
            tensor: OnceLock::new(),
            table: OnceLock::new(),
        }
    }

    /// The weights, with the shape of the codes.
    fn constant(&self, weights: &Weights) -> TractResult<DequantizedConst> {
        let load = |blob: &Option<Arc<Blob>>| blob.as_ref().map(|it| it.load(weights)).transpose();
        let codes = self.codes.load(weights)?;
        DequantizedConst::new(codes, load(&self.zero_point)?, load(&self.scale)?)
    }

    /// The weights in single precision.
    pub fn decompress(&self, weights: &Weights) -> TractResult<Tensor> {
        let constant = self.constant(weights)?;
        let value = constant.value()?;
        // Nobody else has it then.
        drop(constant);
        value.into_tensor().into_shape(&self.shape)
    }

    /// The weights in the model, where they are put once.
    pub fn wired(&self, weights: &Weights) -> TractResult<Arc<Tensor>> {
        if let Some(tensor) = self.tensor.get() {
            return Ok(tensor.clone());
        }
        let mut tensor = self.decompress(weights)?;
        if self.datum_type != DatumType::F32 {
            tensor = tensor.cast_to_dt(self.datum_type)?.into_owned();
        }
        Ok(self.tensor.get_or_init(|| tensor.into_arc_tensor()).clone())
    }

    /// The same as an operator that has the codes, if these may be multiplied as they are.
    pub fn wired_codes(&self, weights: &Weights) -> TractResult<Option<DequantizedConst>> {
        let are_bytes = [ElementType::I8, ElementType::U8].contains(&self.codes.element_type);
        let is_it = are_bytes
            && self.scale.is_some()
            && self.datum_type == DatumType::F32
            && self.shape == self.codes.shape;
        if !is_it {
            return Ok(None);
        }
        if let Some(constant) = self.wired_codes.get() {
            return Ok(Some(constant.clone()));
        }
        let constant = self.constant(weights)?;
        Ok(Some(self.wired_codes.get_or_init(|| constant).clone()))
    }
}

/// The types of codes.
const CODES: [ElementType; 9] = [
    ElementType::U2,
    ElementType::U4,
    ElementType::U8,
    ElementType::I4,
    ElementType::I8,
    ElementType::NF4,
    ElementType::F4E2M1,
    ElementType::F8E4M3,
    ElementType::F8E5M2,
];

impl LayerContext<'_, '_> {
    /// The output of a layer that decompresses weights.
    pub(super) fn decompressing(&mut self) -> TractResult<Option<Value>> {
        let found = match (&*self.layer.operation, &*self.inputs) {
            ("Convert", [input]) => self.codes(input),
            ("Subtract", [Value::Compressed(codes), Value::Compressed(zero_point)])
                if codes.is_plain() && zero_point.is_plain() && self.fits(codes, zero_point) =>
            {
                Some(Compressed { zero_point: Some(zero_point.codes.clone()), ..codes.derived() })
            }
            ("Multiply", [Value::Compressed(codes), scale]) => self.scaled(codes, scale),
            ("Reshape", [Value::Compressed(codes), Value::Weights(_)]) => self.reshaped(codes)?,
            _ => None,
        };
        let computations = &mut self.translation.computations;
        Ok(found.map(|found| Value::Compressed(computations.compressed(&self.place, found))))
    }

    fn codes(&self, input: &Value) -> Option<Compressed> {
        let text = self.layer.attributes.get("destination_type")?;
        let datum_type = datum_type(ElementType::from_text(text)?)?;
        match input {
            Value::Weights(blob) if CODES.contains(&blob.element_type) => {
                [DatumType::F16, DatumType::F32].contains(&datum_type).then(|| Compressed {
                    codes: blob.clone(),
                    zero_point: None,
                    scale: None,
                    shape: blob.shape.clone(),
                    datum_type,
                    wired_codes: OnceLock::new(),
                    tensor: OnceLock::new(),
                    table: OnceLock::new(),
                })
            }
            Value::Compressed(codes) if datum_type == DatumType::F32 => {
                Some(Compressed { datum_type, ..codes.derived() })
            }
            _ => None,
        }
    }

    fn scaled(&self, codes: &Compressed, scale: &Value) -> Option<Compressed> {
        let scale = match scale {
            Value::Weights(blob) if datum_type(blob.element_type) == Some(codes.datum_type) => blob,
            Value::Compressed(scale)
                if scale.is_plain() && scale.datum_type == codes.datum_type =>
            {
                &scale.codes
            }
            _ => return None,
        };
        let is_first = codes.scale.is_none() && codes.shape == codes.codes.shape;
        (is_first && self.is_broadcast(&codes.shape, &scale.shape))
            .then(|| Compressed { scale: Some(scale.clone()), ..codes.derived() })
    }

    fn fits(&self, codes: &Compressed, zero_point: &Compressed) -> bool {
        codes.datum_type == zero_point.datum_type
            && self.is_broadcast(&codes.shape, &zero_point.shape)
    }

    /// Whether an operand is broadcast to the codes, and these stay as they are.
    fn is_broadcast(&self, codes: &[usize], operand: &[usize]) -> bool {
        let rule = self.layer.attributes.get("auto_broadcast");
        let pairs = codes.iter().rev().zip(operand.iter().rev());
        rule.is_none_or(|rule| rule == "numpy")
            && operand.len() <= codes.len()
            && pairs.into_iter().all(|(size, operand)| operand == size || *operand == 1)
    }

    fn reshaped(&self, codes: &Compressed) -> TractResult<Option<Compressed>> {
        let sizes = self.integers(1, "shape")?;
        let shape: Option<Vec<usize>> =
            sizes.iter().map(|size| usize::try_from(*size).ok().filter(|size| *size > 0)).collect();
        let same =
            |shape: &Vec<usize>| volume(shape).is_some_and(|it| Some(it) == volume(&codes.shape));
        Ok(shape.filter(same).map(|shape| Compressed { shape, ..codes.derived() }))
    }
}
