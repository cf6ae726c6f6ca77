//! Tensors of every element type, from offsets.

use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{IntoTensor, SymbolScope, TDim, ToDim};

use crate::oracle::Integers;

/// Every element type that a plain tensor has without tract's feature `complex`.
pub fn data_types() -> Vec<DatumType> {
    let quantized = QParams::ZpScale { zero_point: 3, scale: 0.5 };
    use DatumType::*;
    vec![
        Bool,
        U8,
        U16,
        U32,
        U64,
        I8,
        I16,
        I32,
        I64,
        F16,
        F32,
        F64,
        String,
        TDim,
        Blob,
        QI8(quantized),
        QU8(quantized),
        QI32(quantized),
    ]
}

/// The types that ONNX has too.
pub fn onnx_data_types() -> Vec<DatumType> {
    use DatumType::*;
    let foreign = |dt: &DatumType| matches!(dt, TDim | Blob) || dt.is_quantized();
    data_types().into_iter().filter(|dt| !foreign(dt)).collect()
}

/// The types of `indices`.
pub const INDEX_TYPES: [DatumType; 9] = {
    use DatumType::*;
    [I8, I16, I32, I64, U8, U16, U32, U64, TDim]
};

/// A tensor whose element number k is a value made of `offsets[k]`, or the type's zero.
///
/// Values differ for neighbouring offsets; `k + 1` keeps them from the zero.
pub fn elements(
    dt: DatumType,
    shape: &[usize],
    offsets: impl IntoIterator<Item = Option<usize>>,
) -> Tensor {
    fn tensor<T: Datum>(
        shape: &[usize],
        offsets: impl IntoIterator<Item = Option<usize>>,
        zero: T,
        value: impl Fn(usize) -> T,
    ) -> Tensor {
        let elements = offsets.into_iter().map(|offset| match offset {
            Some(offset) => value(offset + 1),
            None => zero.clone(),
        });
        tract_ndarray::ArrayD::from_shape_vec(shape, elements.collect()).unwrap().into_tensor()
    }
    let scope = SymbolScope::default();
    let tensor = match dt.unquantized() {
        DatumType::Bool => tensor(shape, offsets, false, |k| k % 3 != 0),
        DatumType::U8 => tensor(shape, offsets, dt.zp_scale().0 as u8, |k| (k % 251) as u8),
        DatumType::U16 => tensor(shape, offsets, 0, |k| k as u16),
        DatumType::U32 => tensor(shape, offsets, 0, |k| (k as u32) << 16 | 1),
        DatumType::U64 => tensor(shape, offsets, 0, |k| (k as u64) << 40 | 1),
        DatumType::I8 => tensor(shape, offsets, dt.zp_scale().0 as i8, |k| (k % 251) as i8),
        DatumType::I16 => tensor(shape, offsets, 0, |k| -(k as i16)),
        DatumType::I32 => tensor(shape, offsets, dt.zp_scale().0, |k| -(k as i32) << 8),
        DatumType::I64 => tensor(shape, offsets, 0, |k| -(k as i64) << 40),
        DatumType::F16 => tensor(shape, offsets, f16::from_f32(0.), |k| f16::from_f32(k as f32)),
        DatumType::F32 => tensor(shape, offsets, 0., |k| k as f32 + 0.5),
        DatumType::F64 => tensor(shape, offsets, 0., |k| k as f64 + 1e-9),
        DatumType::String => tensor(shape, offsets, String::new(), |k| format!("element {k}")),
        DatumType::Blob => {
            tensor(shape, offsets, Blob::default(), |k| Blob::from_bytes(&k.to_le_bytes()).unwrap())
        }
        DatumType::TDim => {
            tensor(shape, offsets, 0.to_dim(), |k| TDim::from(scope.sym("N")) + k.to_dim())
        }
        _ => unreachable!("{dt:?} is not in data_types"),
    };
    if dt.is_quantized() { tensor.cast_to_dt_exactly(dt) } else { tensor }
}

/// A tensor of `data` type in which every element is made of its own offset.
pub fn own_offsets(dt: DatumType, shape: &[usize]) -> Tensor {
    elements(dt, shape, (0..shape.iter().product()).map(Some))
}

/// A tensor of integers, quantized ones included. The entries fit the type.
pub fn integers(dt: DatumType, integers: &Integers) -> Tensor {
    fn tensor<T: Datum>(integers: &Integers, value: impl Fn(i128) -> T) -> Tensor {
        let entries = integers.entries.iter().map(|entry| value(*entry)).collect();
        tract_ndarray::ArrayD::from_shape_vec(&*integers.shape, entries).unwrap().into_tensor()
    }
    fn fits<T: TryFrom<i128>>(value: i128) -> T {
        T::try_from(value).ok().unwrap_or_else(|| panic!("{value} does not fit"))
    }
    let tensor = match dt.unquantized() {
        DatumType::I8 => tensor::<i8>(integers, fits),
        DatumType::I16 => tensor::<i16>(integers, fits),
        DatumType::I32 => tensor::<i32>(integers, fits),
        DatumType::I64 => tensor::<i64>(integers, fits),
        DatumType::U8 => tensor::<u8>(integers, fits),
        DatumType::U16 => tensor::<u16>(integers, fits),
        DatumType::U32 => tensor::<u32>(integers, fits),
        DatumType::U64 => tensor::<u64>(integers, fits),
        DatumType::TDim => tensor::<TDim>(integers, |value| fits::<i64>(value).to_dim()),
        _ => unreachable!("{dt:?} is not a type of integers"),
    };
    if dt.is_quantized() { tensor.cast_to_dt_exactly(dt) } else { tensor }
}

/// The smallest and the largest entry that a type of integers has.
pub fn range(dt: DatumType) -> (i128, i128) {
    match dt.unquantized() {
        DatumType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DatumType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DatumType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DatumType::I64 | DatumType::TDim => (i64::MIN.into(), i64::MAX.into()),
        DatumType::U8 => (0, u8::MAX.into()),
        DatumType::U16 => (0, u16::MAX.into()),
        DatumType::U32 => (0, u32::MAX.into()),
        DatumType::U64 => (0, u64::MAX.into()),
        _ => unreachable!("{dt:?} is not a type of integers"),
    }
}

trait CastExactly {
    /// The same bytes as a quantized type.
    fn cast_to_dt_exactly(self, dt: DatumType) -> Tensor;
}

impl CastExactly for Tensor {
    fn cast_to_dt_exactly(self, dt: DatumType) -> Tensor {
        let mut tensor = Tensor::zero_dt(dt, self.shape()).unwrap();
        tensor.as_bytes_mut().copy_from_slice(self.as_bytes());
        tensor
    }
}
