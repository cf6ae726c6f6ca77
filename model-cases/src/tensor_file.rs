//! Tensors as ONNX keeps them in files.

use std::path::Path;

use prost::Message;
use tract_onnx::data_resolver::MmapDataResolver;
use tract_onnx::pb::TensorProto;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::prelude::*;
use tract_onnx::tensor::{load_tensor, proto_from_reader};
use tract_onnx::tract_hir::internal::{TractErrorContext, bail};

fn read_proto(path: &Path) -> TractResult<TensorProto> {
    let file = std::fs::File::open(path).with_context(|| format!("opening {}", path.display()))?;
    proto_from_reader(file).with_context(|| format!("reading {}", path.display()))
}

fn tensor(proto: &TensorProto) -> TractResult<Tensor> {
    let dt = match DataType::try_from(proto.data_type) {
        Ok(DataType::Uint32) => DatumType::U32,
        Ok(DataType::Uint64) => DatumType::U64,
        _ => return load_tensor(&MmapDataResolver, proto, None),
    };
    if !proto.raw_data.is_empty() {
        return load_tensor(&MmapDataResolver, proto, None);
    }
    // Without raw bytes, tract looks for these numbers among the signed ones, and gives a signed tensor.
    let signed = TensorProto {
        data_type: DataType::Int64 as i32,
        int64_data: proto.uint64_data.iter().map(|number| *number as i64).collect(),
        ..proto.clone()
    };
    let tensor = load_tensor(&MmapDataResolver, &signed, None)?;
    Ok(tensor.cast_to_dt(dt)?.into_owned())
}

/// Reads one tensor from a `.pb` file.
pub fn load_tensor_file(path: impl AsRef<Path>) -> TractResult<Tensor> {
    let path = path.as_ref();
    tensor(&read_proto(path)?).with_context(|| format!("reading {}", path.display()))
}

/// Writes one tensor to a `.pb` file, under the name that it has in the graph.
pub fn save_tensor_file(path: impl AsRef<Path>, name: &str, tensor: &Tensor) -> TractResult<()> {
    let path = path.as_ref();
    let bytes = tensor_proto(name, tensor)?.encode_to_vec();
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// A tensor as ONNX has it. Fails where ONNX has no such element type.
pub fn tensor_proto(name: &str, tensor: &Tensor) -> TractResult<TensorProto> {
    let data_type = match tensor.datum_type() {
        DatumType::Bool => DataType::Bool,
        DatumType::U8 => DataType::Uint8,
        DatumType::U16 => DataType::Uint16,
        DatumType::U32 => DataType::Uint32,
        DatumType::U64 => DataType::Uint64,
        DatumType::I8 => DataType::Int8,
        DatumType::I16 => DataType::Int16,
        DatumType::I32 => DataType::Int32,
        DatumType::I64 => DataType::Int64,
        DatumType::F16 => DataType::Float16,
        DatumType::F32 => DataType::Float,
        DatumType::F64 => DataType::Double,
        DatumType::String => DataType::String,
        other => bail!("ONNX has no tensors of type {other:?}"),
    };
    let mut proto = TensorProto {
        name: name.into(),
        dims: tensor.shape().iter().map(|dim| *dim as i64).collect(),
        data_type: data_type as i32,
        ..TensorProto::default()
    };
    if data_type == DataType::String {
        let strings = tensor.to_plain_array_view::<String>()?;
        proto.string_data = strings.iter().map(|string| string.as_bytes().to_vec()).collect();
    } else {
        proto.raw_data = tensor.as_bytes().to_vec();
    }
    Ok(proto)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let tensors = [
            tensor1(&[true, false]),
            tensor1(&[1u32, u32::MAX]),
            tensor2(&[[1i64, i64::MIN], [3, i64::MAX]]),
            tensor1(&[f16::ONE]),
            tensor0(1.5f64),
            tensor1(&["a".to_string(), String::new()]),
            Tensor::zero::<f32>(&[2, 0]).unwrap(),
            Tensor::zero::<u32>(&[0]).unwrap(),
            Tensor::zero::<u64>(&[2, 0]).unwrap(),
        ];
        for expected in tensors {
            let proto = tensor_proto("name", &expected).unwrap();
            assert_eq!(proto.name, "name");
            assert_eq!(tensor(&proto).unwrap(), expected);
        }
    }

    #[test]
    fn unsigned_numbers_without_raw_bytes() {
        for (data_type, expected) in [
            (DataType::Uint32, tensor1(&[1u32, u32::MAX])),
            (DataType::Uint64, tensor1(&[1u64, u64::MAX])),
        ] {
            let numbers = expected.cast_to::<u64>().unwrap();
            let proto = TensorProto {
                dims: vec![2],
                data_type: data_type as i32,
                uint64_data: numbers.try_as_plain_ram().unwrap().as_slice().unwrap().to_vec(),
                ..TensorProto::default()
            };
            assert_eq!(tensor(&proto).unwrap(), expected);
        }
    }

    #[test]
    fn what_onnx_does_not_have_is_an_error() {
        let error = tensor_proto("name", &tensor0(TDim::Val(1))).unwrap_err();
        assert_eq!(error.to_string(), "ONNX has no tensors of type TDim");
    }
}
