//! Tensors as JavaScript has them: arrays of a type, a typed array and a shape.

use js_sys::{
    Array, BigInt64Array, BigUint64Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, JsString, Uint8Array, Uint16Array, Uint32Array,
};
use tract_openvino_ir::internal::tract_core::tract_data::half::{
    f16, slice::HalfFloatSliceExt, vec::HalfBitsVecExt,
};
use tract_openvino_ir::internal::*;
use wasm_bindgen::prelude::*;

/// The name of an element type. Sizes that are computed (`TDim`) are integers outside.
pub(crate) fn type_name(datum_type: DatumType) -> String {
    match datum_type {
        DatumType::TDim => "i64".into(),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// The tensor of `[type, data, shape]`, where `js/tensor.js` has looked at each of them alone.
///
/// # Errors
///
/// The data is not of the type, or has another number of elements than the shape.
pub(crate) fn from_js(tensor: &Array) -> TractResult<Tensor> {
    let name = tensor.get(0).as_string().unwrap_or_default();
    let data = tensor.get(1);
    let sizes = Array::from(&tensor.get(2));
    let size = |size: JsValue| size.as_f64().map(|size| size as usize);
    let shape: Option<Vec<usize>> = sizes.iter().map(size).collect();
    let shape = shape.with_context(|| format!("a size of {sizes:?} is not a number"))?;
    macro_rules! typed {
        ($array:ty) => {
            data.dyn_ref::<$array>().with_context(|| not_in(&name, stringify!($array)))?.to_vec()
        };
    }
    match &*name {
        "f64" => with_shape(typed!(Float64Array), &shape),
        "f32" => with_shape(typed!(Float32Array), &shape),
        "f16" => with_shape(typed!(Uint16Array).reinterpret_into::<f16>(), &shape),
        "i64" => with_shape(typed!(BigInt64Array), &shape),
        "i32" => with_shape(typed!(Int32Array), &shape),
        "i16" => with_shape(typed!(Int16Array), &shape),
        "i8" => with_shape(typed!(Int8Array), &shape),
        "u64" => with_shape(typed!(BigUint64Array), &shape),
        "u32" => with_shape(typed!(Uint32Array), &shape),
        "u16" => with_shape(typed!(Uint16Array), &shape),
        "u8" => with_shape(typed!(Uint8Array), &shape),
        "bool" => {
            let bytes = typed!(Uint8Array);
            with_shape(bytes.into_iter().map(|byte| byte != 0).collect(), &shape)
        }
        "string" => {
            let texts = data.dyn_ref::<Array>().with_context(|| not_in(&name, "Array"))?;
            let texts: Option<Vec<String>> = texts.iter().map(|text| text.as_string()).collect();
            with_shape(texts.context("an element of a tensor of type string is no string")?, &shape)
        }
        _ => bail!("there is no element type {name:?}"),
    }
}

fn not_in(name: &str, array: &str) -> String {
    format!("the data of a tensor of type {name} is not in an object of {array}")
}

fn with_shape<T: Datum>(data: Vec<T>, shape: &[usize]) -> TractResult<Tensor> {
    let count = data.len();
    let data = tract_ndarray::ArrayD::from_shape_vec(shape, data);
    Ok(data
        .with_context(|| format!("shape {shape:?} does not have {count} elements"))?
        .into_tensor())
}

/// `[type, data, shape]` of a tensor.
///
/// # Errors
///
/// JavaScript has no array of its type.
pub(crate) fn to_js(tensor: &Tensor) -> TractResult<Array> {
    let sizes = match tensor.datum_type() {
        DatumType::TDim => Some(tensor.cast_to::<i64>()?.into_owned()),
        _ => None,
    };
    let tensor = sizes.as_ref().unwrap_or(tensor);
    let plain = tensor.try_as_plain_ram()?;
    let data: JsValue = match tensor.datum_type() {
        DatumType::F64 => Float64Array::from(plain.as_slice::<f64>()?).into(),
        DatumType::F32 => Float32Array::from(plain.as_slice::<f32>()?).into(),
        DatumType::F16 => Uint16Array::from(plain.as_slice::<f16>()?.reinterpret_cast()).into(),
        DatumType::I64 => BigInt64Array::from(plain.as_slice::<i64>()?).into(),
        DatumType::I32 => Int32Array::from(plain.as_slice::<i32>()?).into(),
        DatumType::I16 => Int16Array::from(plain.as_slice::<i16>()?).into(),
        DatumType::I8 => Int8Array::from(plain.as_slice::<i8>()?).into(),
        DatumType::U64 => BigUint64Array::from(plain.as_slice::<u64>()?).into(),
        DatumType::U32 => Uint32Array::from(plain.as_slice::<u32>()?).into(),
        DatumType::U16 => Uint16Array::from(plain.as_slice::<u16>()?).into(),
        DatumType::U8 => Uint8Array::from(plain.as_slice::<u8>()?).into(),
        DatumType::Bool => {
            let bytes: Vec<u8> = plain.as_slice::<bool>()?.iter().map(|it| u8::from(*it)).collect();
            Uint8Array::from(&*bytes).into()
        }
        DatumType::String => {
            let texts = plain.as_slice::<String>()?.iter().map(|text| JsString::from(&**text));
            texts.collect::<Array>().into()
        }
        other => bail!("there is no array for elements of type {other:?}"),
    };
    let shape: Array = tensor.shape().iter().map(|size| JsValue::from(*size as f64)).collect();
    Ok(Array::of3(&type_name(tensor.datum_type()).into(), &data, &shape))
}
