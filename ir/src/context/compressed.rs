//! Compressed weights: codes of few bits with a scale, and perhaps a zero point, for each group of them. The
//! layers that decompress them are not computed one by one.

use std::sync::{Arc, OnceLock};

use tract_core::internal::*;
use tract_core::ops::math::{mul, sub};
use tract_openvino_kernels::checks::volume;
use tract_openvino_kernels::{DequantizedConst, Format, LazyConst, LazyTensor};

use super::{LayerContext, Value};
use crate::document::ElementType;
use crate::weights::{Blob, Weights, datum_type, widened};

/// Weights that are `(code - zero_point) * scale`, in single precision. Matrices in half precision are codes, too.
#[derive(Debug)]
pub(crate) struct Compressed {
    pub(super) codes: Arc<Blob>,
    pub(super) zero_point: Option<Arc<Blob>>,
    pub(super) scale: Option<Arc<Blob>>,
    pub shape: Vec<usize>,
    /// The type that the layers decompress to: `f32` or `f16`.
    pub datum_type: DatumType,
    /// What was put into the model: codes, their rows, or numbers.
    wired_codes: OnceLock<DequantizedConst>,
    wired_rows: OnceLock<LazyTensor>,
    tensor: OnceLock<Arc<Tensor>>,
}

impl Compressed {
    fn of_codes(codes: Arc<Blob>, datum_type: DatumType) -> Compressed {
        Compressed {
            zero_point: None,
            scale: None,
            shape: codes.shape.clone(),
            codes,
            datum_type,
            wired_codes: OnceLock::new(),
            wired_rows: OnceLock::new(),
            tensor: OnceLock::new(),
        }
    }

    /// Whether these are codes and nothing else.
    fn is_plain(&self) -> bool {
        self.zero_point.is_none() && self.scale.is_none() && self.shape == self.codes.shape
    }

    fn derived(&self) -> Compressed {
        Compressed {
            zero_point: self.zero_point.clone(),
            scale: self.scale.clone(),
            shape: self.shape.clone(),
            ..Compressed::of_codes(self.codes.clone(), self.datum_type)
        }
    }

    /// The weights, in the format of the file where the kernels have it.
    fn constant(&self, weights: &Weights) -> TractResult<DequantizedConst> {
        let load = |blob: &Option<Arc<Blob>>| blob.as_ref().map(|it| it.load(weights)).transpose();
        let (zero_point, scale) = (load(&self.zero_point)?, load(&self.scale)?);
        let format = match self.codes.element_type {
            ElementType::I4 => Some(Format::I4),
            ElementType::U4 => Some(Format::U4),
            ElementType::BF16 => Some(Format::BF16),
            _ => None,
        };
        let constant = match format {
            Some(format) => {
                let bytes = self.codes.load_bytes_lazily(weights)?;
                DequantizedConst::of_bytes(bytes, format, &self.codes.shape, zero_point, scale)?
            }
            None => DequantizedConst::new(self.codes.load_lazily(weights)?, zero_point, scale)?,
        };
        constant.into_shape(&self.shape)
    }

    /// The weights in single precision.
    pub fn decompress(&self, weights: &Weights) -> TractResult<Tensor> {
        let constant = self.constant(weights)?;
        let value = constant.value()?;
        // Nobody else has it then.
        drop(constant);
        Ok(value.into_tensor())
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

    /// The same as an operator that has the codes, if kernels have such operators: for the factors of any product with codes of
    /// 8 bits, and for matrices with those of more formats.
    pub fn wired_codes(
        &self,
        weights: &Weights,
        is_matrix: bool,
    ) -> TractResult<Option<DequantizedConst>> {
        use ElementType::*;
        let is_it = match self.codes.element_type {
            I8 | U8 => is_matrix || (self.scale.is_some() && self.shape == self.codes.shape),
            I4 | U4 | F16 | BF16 => is_matrix,
            _ => false,
        };
        if !is_it || self.datum_type != DatumType::F32 {
            return Ok(None);
        }
        if let Some(constant) = self.wired_codes.get() {
            return Ok(Some(constant.clone()));
        }
        let constant = self.constant(weights)?;
        Ok(Some(self.wired_codes.get_or_init(|| constant).clone()))
    }
}

/// The types of codes. Those of half precision are codes of matrices alone.
const CODES: [ElementType; 11] = [
    ElementType::F16,
    ElementType::BF16,
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
    /// The output of a layer of this operation if it decompresses weights.
    pub(super) fn decompressing(&mut self, operation: &str) -> TractResult<Option<Value>> {
        let found = match (operation, &*self.inputs) {
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
                let is_half = [ElementType::F16, ElementType::BF16].contains(&blob.element_type);
                let is_it = match is_half {
                    true => datum_type == DatumType::F32 && blob.shape.len() == 2,
                    false => [DatumType::F16, DatumType::F32].contains(&datum_type),
                };
                is_it.then(|| Compressed::of_codes(blob.clone(), datum_type))
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

    /// An input that is multiplied as a matrix, in the model. Compressed weights stay so, for kernels that multiply codes. So
    /// does a matrix of half precision, which is in single precision in the model then.
    pub fn matrix_input(&mut self, input: usize) -> TractResult<OutletId> {
        let compressed = match self.value(input)? {
            Value::Compressed(compressed) => Some(compressed.clone()),
            Value::Weights(blob)
                if blob.element_type == ElementType::F16 && blob.shape.len() == 2 =>
            {
                let compressed = Compressed::of_codes(blob.clone(), DatumType::F32);
                Some(self.translation.computations.compressed(&self.place, compressed))
            }
            _ => None,
        };
        if let Some(compressed) = compressed {
            let codes = &compressed.codes;
            self.translation.budget().take(widened(codes.element_type), &codes.shape)?;
            if let Some(constant) = compressed.wired_codes(self.translation.weights, true)? {
                return self.translation.add_node(self.model, self.names[input], constant, &[]);
            }
        }
        self.input(input)
    }

    /// The rows of an input that an operator gathers, if that is compressed: `gather` is given a name and a table at a time, of
    /// codes, zero points and scales.
    pub fn gathered_rows(
        &mut self,
        input: usize,
        mut gather: impl FnMut(&mut Self, &str, OutletId) -> TractResult<OutletId>,
    ) -> TractResult<Option<OutletId>> {
        let Value::Compressed(compressed) = self.value(input)?.clone() else { return Ok(None) };
        let is_it = compressed.datum_type == DatumType::F32
            && !compressed.shape.is_empty()
            && compressed.shape.first() == compressed.codes.shape.first();
        if !is_it {
            return Ok(None);
        }
        let weights = self.translation.weights;
        let codes = match compressed.wired_rows.get() {
            Some(codes) => codes.clone(),
            None => {
                // The same codes may be a matrix elsewhere.
                let constant = compressed.wired_codes(weights, true)?;
                let codes = constant.as_ref().and_then(|constant| constant.codes().cloned());
                let codes = match codes {
                    Some(codes) => codes,
                    None => compressed.codes.load_lazily(weights)?,
                };
                compressed.wired_rows.get_or_init(|| codes).clone()
            }
        };
        let rank = codes.shape().len();
        let codes = self.wire("codes", LazyConst(codes), &[])?;
        let mut rows = gather(self, "codes.rows", codes)?;
        rows = self.cast("codes.numbers", rows, DatumType::F32)?;
        // The operands are broadcast to the codes. Those of each row are gathered, too.
        let is_of_rows = |operand: &Option<Arc<Blob>>| {
            operand.as_ref().is_some_and(|operand| {
                operand.shape.len() == rank && (operand.shape[0] != 1 || compressed.shape[0] == 1)
            })
        };
        for (name, operand, op) in
            [("zero_point", &compressed.zero_point, sub()), ("scale", &compressed.scale, mul())]
        {
            let (is_of_rows, Some(blob)) = (is_of_rows(operand), operand) else { continue };
            let mut shape = vec![1; rank.saturating_sub(blob.shape.len())];
            shape.extend(&blob.shape);
            let mut operand = self.add_computed(name, DatumType::F32, &shape, || {
                blob.load(weights)?.cast_to::<f32>()?.into_owned().into_shape(&shape)
            })?;
            if is_of_rows {
                operand = gather(self, &format!("{name}.rows"), operand)?;
            }
            let operands = self.broadcast(&[rows, operand])?;
            rows = self.wire(&format!("{name}.applied"), op, &operands)?;
        }
        // Where an index gives zeros because there is no such row, all factors and the zero point of a row are 0. One zero
        // point for all rows is subtracted from the zeros.
        let operands = [&compressed.zero_point, &compressed.scale];
        if compressed.zero_point.is_some() && !operands.into_iter().any(is_of_rows) {
            let mut shape = vec![1; rank];
            shape[0] = compressed.shape[0];
            let is_there = self.add_computed("is_there", DatumType::F32, &shape, || {
                Tensor::from_shape(&shape, &vec![1f32; shape[0]])
            })?;
            let is_there = gather(self, "is_there.rows", is_there)?;
            let operands = self.broadcast(&[rows, is_there])?;
            rows = self.wire("is_there.applied", mul(), &operands)?;
        }
        if compressed.shape != compressed.codes.shape {
            let dims = |sizes: &[usize]| sizes[1..].iter().map(|size| size.to_dim()).collect();
            let at = self.shape_of(rows)?.len() + 1 - rank;
            let reshape =
                AxisOp::Reshape(at, dims(&compressed.codes.shape), dims(&compressed.shape));
            rows = self.wire("rows", reshape, &[rows])?;
        }
        Ok(Some(rows))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io;
    use std::path::Path;
    use std::time::SystemTime;

    use tract_openvino_kernels::{KernelsTransform, Outcome};

    use crate::prelude::*;

    /// How many products have weights that stay compressed, and why others have not.
    fn compressed(name: &str) -> TractResult<(usize, Vec<String>)> {
        let folder = format!("{}/models/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut model = crate::ir().model_for_path(format!("{folder}/model.xml"))?;
        let decisions = KernelsTransform::default().transform_with_decisions(&mut model)?;
        let (mut replaced, mut refused) = (0, vec![]);
        for decision in decisions.into_iter().filter(|it| it.rule == "compressed") {
            match decision.outcome {
                Outcome::Replaced(_) => replaced += 1,
                Outcome::Refused(reason) => refused.push(reason),
            }
        }
        Ok((replaced, refused))
    }

    #[test]
    fn products_with_compressed_weights() -> TractResult<()> {
        for (name, expected, reason) in [
            ("compressed_weights/groups_of_32", 5, ""),
            ("compressed_weights/embedding_and_product", 1, ""),
            ("compressed_weights/u8", 2, ""),
            ("compressed_weights/i8", 3, ""),
            ("compressed_weights/groups", 0, "groups of"),
            ("compressed_weights/nf4", 0, ""),
            ("networks/llama_int4", 15, ""),
        ] {
            let (replaced, refused) = compressed(name)?;
            let is_there = refused.iter().any(|it| it.contains(reason));
            assert!(
                replaced == expected && (is_there || reason.is_empty()),
                "{name}: {replaced} {refused:?}"
            );
        }
        Ok(())
    }

    type Change = fn(&Path) -> io::Result<()>;

    /// Runs a model of tokens whose weights changed after it was loaded.
    fn after(name: &str, change: Change) -> TractResult<Tensor> {
        let from = format!("{}/models/compressed_weights/{name}", env!("CARGO_MANIFEST_DIR"));
        let folder = format!("tract-openvino-ir-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder)?;
        for file in ["model.xml", "model.bin"] {
            fs::copy(format!("{from}/{file}"), folder.join(file))?;
        }
        let model = crate::ir().model_for_path(folder.join("model.xml"))?;
        let runnable = model.into_runnable_with_kernels()?;
        change(&folder.join("model.bin"))?;
        let outputs = runnable.run(tvec!(tensor2(&[[0i64, 3, 1]]).into()));
        fs::remove_dir_all(folder)?;
        Ok(outputs?.remove(0).into_tensor())
    }

    #[test]
    fn codes_are_read_when_the_model_runs() -> TractResult<()> {
        let longer: Change = |weights| File::options().write(true).open(weights)?.set_len(1 << 20);
        let cut_short: Change = |weights| File::options().write(true).open(weights)?.set_len(8);
        let at_another_time: Change = |weights| {
            File::options().write(true).open(weights)?.set_modified(SystemTime::UNIX_EPOCH)
        };
        for name in ["u8_embedding", "embedding_and_product"] {
            let whole = after(name, |_| Ok(()))?;
            for (change, expected) in [
                (longer, "model.bin has 1048576 bytes, but had"),
                (cut_short, "model.bin has 8 bytes, but had"),
                (
                    at_another_time,
                    "model.bin has another time of change than it had when it was opened",
                ),
            ] {
                let error = format!("{:#}", after(name, change).map(drop).unwrap_err());
                assert!(error.contains(expected), "{error}");
            }
            // The open file stays as it was.
            if cfg!(unix) {
                assert_eq!(after(name, |weights| fs::remove_file(weights))?, whole);
            }
        }
        Ok(())
    }
}
