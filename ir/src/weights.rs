//! The bytes of constants: where they are, and what tensors they make.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tract_core::internal::*;

use crate::document::ElementType;
use crate::volume::volume;

/// The bytes of a model's constants: where they are.
#[derive(Clone)]
pub enum Weights {
    /// Nowhere: a model without constants, or one whose weights are missing, and why.
    Absent(String),
    /// In memory.
    Bytes(Arc<[u8]>),
    /// In a file, from which each constant is read on its own.
    File {
        /// The open file.
        file: Arc<File>,
        /// Its size in bytes.
        len: u64,
        /// Where it is, for errors.
        path: PathBuf,
    },
}

impl Weights {
    /// Opens a weights file.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> TractResult<Weights> {
        let path = path.as_ref();
        let open = || -> std::io::Result<Weights> {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            Ok(Weights::File { file: file.into(), len, path: path.into() })
        };
        open().with_context(|| format!("opening the weights {}", path.display()))
    }

    fn len(&self) -> TractResult<u64> {
        match self {
            Weights::Absent(reason) => bail!("there are no weights: {reason}"),
            Weights::Bytes(bytes) => Ok(bytes.len() as u64),
            Weights::File { len, .. } => Ok(*len),
        }
    }

    /// Fills a buffer with the bytes from an offset on.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> TractResult<()> {
        match self {
            Weights::Absent(reason) => bail!("there are no weights: {reason}"),
            Weights::Bytes(bytes) => {
                let from = usize::try_from(offset)?;
                let found = bytes.get(from..).and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(found.context("beyond the weights")?);
                Ok(())
            }
            Weights::File { file, path, .. } => {
                read_at(file, offset, buffer).with_context(|| format!("reading {}", path.display()))
            }
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weights::Absent(reason) => write!(f, "Absent({reason})"),
            Weights::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Weights::File { len, path, .. } => write!(f, "File({}, {len} bytes)", path.display()),
        }
    }
}

/// A constant's place in the weights, and what it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Blob {
    pub element_type: ElementType,
    pub shape: Vec<usize>,
    pub offset: u64,
    pub size: u64,
}

/// tract's type for the elements of a constant. What tract does not have is widened: small integers to 8
/// bits, small floats to 32.
pub(crate) fn widened(element_type: ElementType) -> Option<DatumType> {
    use ElementType::*;
    Some(match element_type {
        U1 | U4 => DatumType::U8,
        I4 => DatumType::I8,
        BF16 | NF4 | F4E2M1 | F8E4M3 | F8E5M2 | F8E8M0 => DatumType::F32,
        other => return datum_type(other),
    })
}

/// tract's type for elements, where it has one.
pub(crate) fn datum_type(element_type: ElementType) -> Option<DatumType> {
    use ElementType::*;
    Some(match element_type {
        Boolean => DatumType::Bool,
        U8 => DatumType::U8,
        U16 => DatumType::U16,
        U32 => DatumType::U32,
        U64 => DatumType::U64,
        I8 => DatumType::I8,
        I16 => DatumType::I16,
        I32 => DatumType::I32,
        I64 => DatumType::I64,
        F16 => DatumType::F16,
        F32 => DatumType::F32,
        F64 => DatumType::F64,
        String => DatumType::String,
        _ => return None,
    })
}

impl Blob {
    /// The number of elements.
    fn volume(&self) -> TractResult<usize> {
        volume(&self.shape).with_context(|| {
            format!("shape {:?} has more elements than can be counted", self.shape)
        })
    }

    /// The tensor that the bytes make, widened where tract has no such type.
    ///
    /// The range is checked against the size of the weights first, so that a false shape allocates nothing.
    pub fn load(&self, weights: &Weights) -> TractResult<Tensor> {
        let Blob { element_type, offset, size, .. } = *self;
        let volume = self.volume()?;
        let end = offset.checked_add(size);
        let len = weights.len()?;
        ensure!(
            end.is_some_and(|end| end <= len),
            "offset {offset} and size {size} reach beyond the weights, which have {len} bytes: is this \
             the .bin of another model, or cut short?"
        );
        if element_type == ElementType::String {
            let mut bytes = vec![0; usize::try_from(size)?];
            weights.read(offset, &mut bytes)?;
            return strings(&bytes, &self.shape, volume);
        }
        let bits = volume.checked_mul(element_type.bits());
        let needed =
            bits.with_context(|| format!("shape {:?} is too large", self.shape))?.div_ceil(8);
        ensure!(
            needed as u64 <= size,
            "size {size} is too small: shape {:?} of {element_type} takes {needed} bytes",
            self.shape
        );
        let dt = widened(element_type).with_context(|| {
            format!("constants of type {element_type} are not supported: their layout is not the same in all versions of OpenVINO")
        })?;
        let mut tensor = Tensor::zero_dt(dt, &self.shape)?;
        let narrow = datum_type(element_type).is_none();
        if !narrow {
            // Straight to where they stay.
            weights.read(offset, tensor.try_as_plain_ram_mut()?.as_bytes_mut())?;
            if cfg!(target_endian = "big") {
                tensor
                    .try_as_plain_ram_mut()?
                    .as_bytes_mut()
                    .chunks_exact_mut(dt.size_of())
                    .for_each(<[u8]>::reverse);
            }
            if element_type == ElementType::Boolean {
                for byte in tensor.try_as_plain_ram_mut()?.as_bytes_mut() {
                    *byte = u8::from(*byte != 0);
                }
            }
            return Ok(tensor);
        }
        let mut bytes = vec![0; needed];
        weights.read(offset, &mut bytes)?;
        let mut plain = tensor.try_as_plain_ram_mut()?;
        match dt {
            DatumType::U8 => {
                let to = plain.as_slice_mut::<u8>()?;
                match element_type {
                    // The first element is the highest bit.
                    ElementType::U1 => {
                        fill(to, |index| (bytes[index / 8] >> (7 - index % 8)) & 1);
                    }
                    _ => fill(to, |index| nibble(&bytes, index)),
                }
            }
            DatumType::I8 => {
                // Two's complement of 4 bits.
                fill(plain.as_slice_mut::<i8>()?, |index| {
                    ((nibble(&bytes, index) << 4) as i8) >> 4
                });
            }
            _ => {
                let to = plain.as_slice_mut::<f32>()?;
                match element_type {
                    ElementType::BF16 => fill(to, |index| {
                        let bits = u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]);
                        f32::from_bits(u32::from(bits) << 16)
                    }),
                    ElementType::NF4 => {
                        fill(to, |index| NF4[usize::from(nibble(&bytes, index))]);
                    }
                    ElementType::F4E2M1 => {
                        fill(to, |index| small_float(nibble(&bytes, index) << 4, 2, 1, 4));
                    }
                    ElementType::F8E4M3 => fill(to, |index| match bytes[index] & 0x7f {
                        0x7f => f32::NAN,
                        _ => small_float(bytes[index], 4, 3, 0),
                    }),
                    ElementType::F8E5M2 => {
                        fill(to, |index| f16::from_bits(u16::from(bytes[index]) << 8).to_f32())
                    }
                    _ => fill(to, |index| match bytes[index] {
                        0xff => f32::NAN,
                        0 => f32::from_bits(1 << 22),
                        exponent => f32::from_bits(u32::from(exponent) << 23),
                    }),
                }
            }
        }
        Ok(tensor)
    }
}

fn fill<T>(to: &mut [T], value: impl Fn(usize) -> T) {
    for (index, slot) in to.iter_mut().enumerate() {
        *slot = value(index);
    }
}

/// Elements of 4 bits: the first is in the low half of the first byte.
fn nibble(bytes: &[u8], index: usize) -> u8 {
    (bytes[index / 2] >> (4 * (index % 2))) & 0xf
}

/// A float without infinities: a sign, an exponent and a mantissa, in the high bits of a byte. The low
/// `unused` bits are not part of it.
fn small_float(byte: u8, exponent_bits: u32, mantissa_bits: u32, unused: u32) -> f32 {
    let magnitude = u32::from((byte & 0x7f) >> unused);
    let mantissa = (magnitude & ((1 << mantissa_bits) - 1)) as f32;
    let exponent = (magnitude >> mantissa_bits) as i32;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let one = (1 << mantissa_bits) as f32;
    let value = match exponent {
        0 => mantissa / one * 2f32.powi(1 - bias),
        _ => (1. + mantissa / one) * 2f32.powi(exponent - bias),
    };
    if byte & 0x80 == 0 { value } else { -value }
}

/// The values of nf4: quantiles of the normal distribution ("QLoRA", appendix E).
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// A tensor of strings. The bytes have their number, then where each begins and where the last ends, all in
/// 32 bits, and then the strings.
fn strings(bytes: &[u8], shape: &[usize], volume: usize) -> TractResult<Tensor> {
    let number = |index: usize| -> TractResult<usize> {
        let from = index.checked_mul(4).context("too many strings")?;
        let four = bytes.get(from..).and_then(|rest| rest.first_chunk::<4>());
        let four = four.context("the offsets of its strings are cut short")?;
        Ok(u32::from_le_bytes(*four) as usize)
    };
    let count = number(0)?;
    ensure!(
        count == volume,
        "there are {count} strings, but shape {shape:?} has {volume} elements"
    );
    let content = count
        .checked_add(2)
        .and_then(|numbers| numbers.checked_mul(4))
        .and_then(|header| bytes.get(header..))
        .context("the offsets of its strings are cut short")?;
    let mut values = Vec::with_capacity(count.min(content.len() + 1));
    for index in 0..count {
        let (from, to) = (number(1 + index)?, number(2 + index)?);
        let text = content.get(from..to).with_context(|| {
            format!(
                "string {index} is at bytes {from}..{to}, but there are {} bytes",
                content.len()
            )
        })?;
        let text =
            std::str::from_utf8(text).with_context(|| format!("string {index} is not UTF-8"))?;
        values.push(text.to_string());
    }
    tensor1(&values).into_shape(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(element_type: ElementType, shape: &[usize], bytes: &[u8]) -> TractResult<Tensor> {
        let blob = Blob { element_type, shape: shape.into(), offset: 1, size: bytes.len() as u64 };
        // One byte in front: what is not aligned is common.
        let bytes: Vec<u8> = [0xee].iter().chain(bytes).copied().collect();
        blob.load(&Weights::Bytes(bytes.into()))
    }

    #[test]
    fn each_type_that_tract_has() {
        use ElementType::*;
        for (element_type, bytes, expected) in [
            (Boolean, vec![0, 1, 7], tensor1(&[false, true, true])),
            (U8, vec![0, 255], tensor1(&[0u8, 255])),
            (I8, vec![0, 255], tensor1(&[0i8, -1])),
            (I16, vec![0, 0x80], tensor1(&[i16::MIN])),
            (U32, vec![1, 0, 0, 0x80], tensor1(&[0x8000_0001u32])),
            (I64, i64::MIN.to_le_bytes().to_vec(), tensor1(&[i64::MIN])),
            (F16, vec![0, 0x3c], tensor1(&[f16::ONE])),
            (F32, 1.5f32.to_le_bytes().to_vec(), tensor1(&[1.5f32])),
            (F64, 1.5f64.to_le_bytes().to_vec(), tensor1(&[1.5f64])),
        ] {
            let tensor = load(element_type, expected.shape(), &bytes).unwrap();
            assert_eq!(tensor, expected, "{element_type}");
        }
    }

    #[test]
    fn what_tract_does_not_have_is_widened() {
        use ElementType::*;
        for (element_type, bytes, expected) in [
            (U1, vec![0b1010_0000, 0b1000_0000], tensor1(&[1u8, 0, 1, 0, 0, 0, 0, 0, 1])),
            (U4, vec![0x21, 0x0f], tensor1(&[1u8, 2, 15])),
            (I4, vec![0x8f, 0x07], tensor1(&[-1i8, -8, 7])),
            (BF16, vec![0x80, 0x3f, 0x00, 0xc0], tensor1(&[1f32, -2.])),
            (NF4, vec![0x70, 0x0f], tensor1(&[-1f32, 0., 1.])),
            (F4E2M1, vec![0x21, 0x7e], tensor1(&[0.5f32, 1., -4., 6.])),
            (F8E4M3, vec![0x38, 0x01, 0x7e, 0xb8], tensor1(&[1f32, 0.001953125, 448., -1.])),
            (F8E5M2, vec![0x3c, 0x7c, 0xc0], tensor1(&[1f32, f32::INFINITY, -2.])),
            (F8E8M0, vec![127, 128, 0], tensor1(&[1f32, 2., 2f32.powi(-127)])),
        ] {
            let tensor = load(element_type, expected.shape(), &bytes).unwrap();
            assert_eq!(tensor, expected, "{element_type}");
        }
        let nan = load(F8E4M3, &[1], &[0x7f]).unwrap();
        assert!(nan.cast_to_scalar::<f32>().unwrap().is_nan());
    }

    #[test]
    fn strings_are_checked() {
        let bytes = |numbers: &[u32], text: &str| {
            let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
            numbers.chain(text.bytes()).collect::<Vec<u8>>()
        };
        let good = load(ElementType::String, &[2], &bytes(&[2, 0, 1, 3], "abc")).unwrap();
        assert_eq!(good, tensor1(&["a".to_string(), "bc".to_string()]));
        for (numbers, text, expected) in [
            (vec![3, 0, 1, 3], "abc", "3 strings"),
            (vec![2, 0, 1, 9], "abc", "bytes 1..9"),
            (vec![2, 0, 3, 1], "abc", "bytes 3..1"),
            (vec![2, 0], "", "cut short"),
        ] {
            let error = load(ElementType::String, &[2], &bytes(&numbers, text)).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }

    #[test]
    fn ranges_are_checked_before_memory_is_taken() {
        let weights = Weights::Bytes(vec![0; 8].into());
        let blob = |shape: &[usize], offset, size| {
            let blob = Blob { element_type: ElementType::F32, shape: shape.into(), offset, size };
            blob.load(&weights).map_err(|error| format!("{error:#}"))
        };
        assert!(blob(&[2], 0, 8).is_ok());
        assert!(blob(&[0, 7], 8, 0).is_ok());
        for (shape, offset, size, expected) in [
            (&[2][..], 4, 8, "reach beyond"),
            (&[2], u64::MAX, 8, "reach beyond"),
            (&[3], 0, 8, "too small: shape [3] of f32 takes 12 bytes"),
            (&[usize::MAX, 2], 0, 8, "more elements than can be counted"),
            (&[usize::MAX / 8], 0, 8, "too large"),
        ] {
            let error = blob(shape, offset, size).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = Blob { element_type: ElementType::U3, shape: vec![1], offset: 0, size: 8 }
            .load(&weights)
            .unwrap_err();
        assert!(error.to_string().contains("u3"), "{error}");
    }
}
