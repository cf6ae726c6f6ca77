//! The bytes of constants: where they are, and what tensors they make.

mod elements;
mod strings;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tract_core::internal::*;
use tract_core::tract_data::half::f16;
use tract_core::tract_data::half::slice::HalfFloatSliceExt;
use tract_openvino_kernels::checks::{ensure_allocatable, volume};
use tract_openvino_kernels::{LazyTensor, tensor_of_parts};

use crate::document::ElementType;
use strings::strings;

/// The bytes of a model's constants: where they are. Clones share them.
#[derive(Clone)]
pub struct Weights(Place);

#[derive(Clone)]
enum Place {
    /// Nowhere, and why.
    Absent(String),
    Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>),
    File(Arc<OpenFile>),
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    len: u64,
    /// When it was written last, if the system knows that.
    modified: Option<SystemTime>,
    /// For errors.
    path: PathBuf,
}

impl OpenFile {
    fn open(path: PathBuf) -> std::io::Result<OpenFile> {
        let file = File::open(&path)?;
        let metadata = file.metadata()?;
        Ok(OpenFile { len: metadata.len(), modified: metadata.modified().ok(), file, path })
    }

    /// Fills a buffer. It is an error if the file may have been written to since it was opened.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> TractResult<()> {
        let doing = || format!("reading {}", self.path.display());
        let read = read_at(&self.file, offset, buffer);
        let metadata = self.file.metadata().with_context(doing)?;
        let changed = match metadata.len() == self.len {
            false => Some(format!("has {} bytes, but had {}", metadata.len(), self.len)),
            // Whether the bytes are others, too, is not known.
            true => (metadata.modified().ok() != self.modified)
                .then(|| "has another time of change than it had".to_string()),
        };
        if let Some(changed) = changed {
            bail!(
                "{} {changed} when it was opened, and not all of its weights were read before: load the model again",
                self.path.display()
            )
        }
        read.with_context(doing)
    }
}

impl Weights {
    /// No bytes: the model has no constants, or its weights are missing. A constant is an error, which says the reason.
    pub fn absent(reason: impl Into<String>) -> Weights {
        Weights(Place::Absent(reason.into()))
    }

    /// Bytes in memory, which are not copied: a `Vec<u8>`, an array, a `&'static [u8]`, an `Arc<[u8]>`, or a file that
    /// is mapped into memory.
    ///
    /// Weights that stay compressed are read from them until the model is dropped. If a file is mapped, whoever can write to
    /// it can change the model; and if it is cut short meanwhile, the system ends the process with a signal (`SIGBUS`) when
    /// the model next reads what is gone. Map only files that nobody writes to. [`open`](Self::open) gives an error
    /// instead.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Weights {
        Weights(Place::Bytes(Arc::new(bytes)))
    }

    /// Opens a weights file, from which each constant is read on its own.
    ///
    /// Matrices and tables that stay compressed are read when the model first needs them, and the file stays open until the model is
    /// dropped. A run is an error if it has to read a file whose length or time of change is another one by then. To read everything
    /// when the model is loaded, read the file and call [`from_bytes`](Self::from_bytes).
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> TractResult<Weights> {
        let path = path.as_ref();
        let file = OpenFile::open(path.into());
        let file = file.with_context(|| format!("opening the weights {}", path.display()))?;
        Ok(Weights(Place::File(file.into())))
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> TractResult<u64> {
        match &self.0 {
            Place::Absent(reason) => Err(no_weights(reason)),
            Place::Bytes(bytes) => Ok((**bytes).as_ref().len() as u64),
            Place::File(file) => Ok(file.len),
        }
    }

    /// Fills a buffer with the bytes from an offset on.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> TractResult<()> {
        match &self.0 {
            Place::Absent(reason) => Err(no_weights(reason)),
            Place::Bytes(bytes) => {
                let from = usize::try_from(offset)?;
                let found =
                    (**bytes).as_ref().get(from..).and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(found.context("beyond the weights")?);
                Ok(())
            }
            Place::File(file) => file.read(offset, buffer),
        }
    }
}

fn no_weights(reason: &str) -> TractError {
    format_err!("there are no weights: {reason}")
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

// A model may be read on several threads, and the position of the file belongs to all of them: each read says where.
#[cfg(windows)]
fn read_at(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> std::io::Result<()> {
    use std::io::ErrorKind;
    use std::os::windows::fs::FileExt;
    while !buffer.is_empty() {
        match file.seek_read(buffer, offset) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(not(any(unix, windows)))]
fn read_at(mut file: &File, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Absent(reason) => write!(f, "Absent({reason})"),
            Place::Bytes(bytes) => write!(f, "Bytes({} bytes)", (**bytes).as_ref().len()),
            Place::File(file) => write!(f, "File({}, {} bytes)", file.path.display(), file.len),
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
pub(crate) fn widened(element_type: ElementType) -> DatumType {
    use ElementType::*;
    match element_type {
        U1 | U2 | U3 | U4 | U6 => DatumType::U8,
        I4 => DatumType::I8,
        other => datum_type(other).unwrap_or(DatumType::F32),
    }
}

/// tract's type for elements, where it has one.
pub fn datum_type(element_type: ElementType) -> Option<DatumType> {
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

/// tract's type for the elements of a tensor that is computed. Floats of 8 bits and `bf16` are single-precision ones there, which
/// are rounded where they are computed.
pub(crate) fn held_type(element_type: ElementType) -> Option<DatumType> {
    use ElementType::*;
    match element_type {
        BF16 | F8E4M3 | F8E5M2 => Some(DatumType::F32),
        other => datum_type(other),
    }
}

impl Blob {
    /// The number of elements.
    fn volume(&self) -> TractResult<usize> {
        volume(&self.shape).with_context(|| {
            format!("shape {:?} has more elements than can be counted", self.shape)
        })
    }

    /// The number of bytes that the elements take. They may be more than there are addresses.
    fn bytes_of_elements(&self) -> Option<u64> {
        let (bits, group) = (self.element_type.bits() as u64, self.element_type.group() as u64);
        let mut sizes = self.shape.iter().map(|size| u64::try_from(*size).ok());
        let volume = sizes.try_fold(1u64, |volume, size| volume.checked_mul(size?));
        Some(volume?.checked_next_multiple_of(group)?.checked_mul(bits)?.div_ceil(8))
    }

    /// The number of bytes that the elements take, of which there are so many.
    ///
    /// The range is checked against the size of the weights, so that a false shape allocates nothing.
    fn needed(&self, weights: &Weights) -> TractResult<usize> {
        let Blob { element_type, offset, size, .. } = *self;
        let end = offset.checked_add(size);
        let len = weights.len()?;
        ensure!(
            end.is_some_and(|end| end <= len),
            "offset {offset} and size {size} reach beyond the weights, which have {len} bytes: is this \
             the .bin of another model, or cut short?"
        );
        if element_type == ElementType::String {
            return Ok(usize::try_from(size)?);
        }
        self.volume()?;
        let too_large = || format!("shape {:?} is too large", self.shape);
        let needed = self.bytes_of_elements().with_context(too_large)?;
        ensure!(
            needed <= size,
            "size {size} is too small: shape {:?} of {element_type} takes {needed} bytes",
            self.shape
        );
        usize::try_from(needed).with_context(too_large)
    }

    /// The bytes as they are.
    pub fn bytes(&self, weights: &Weights) -> TractResult<Vec<u8>> {
        let needed = self.needed(weights)?;
        ensure_allocatable("a constant", needed)?;
        let mut bytes = vec![0; needed];
        weights.read(self.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The tensor that the bytes make, widened where tract has no such type.
    pub fn load(&self, weights: &Weights) -> TractResult<Tensor> {
        if self.element_type == ElementType::String {
            return strings(&self.bytes(weights)?, &self.shape, self.volume()?);
        }
        let Some(dt) = datum_type(self.element_type) else {
            return elements::widen(self.element_type, &self.bytes(weights)?, &self.shape);
        };
        self.needed(weights)?;
        self.read(weights, dt, &self.shape)
    }

    /// The tensor that the bytes make, of numbers of a type that tract has. It is read from a file when it is needed.
    pub fn load_lazily(&self, weights: &Weights) -> TractResult<LazyTensor> {
        match datum_type(self.element_type) {
            Some(dt) if dt.is_number() => {
                self.needed(weights)?;
                self.read_lazily(weights, dt, &self.shape)
            }
            _ => Ok(self.load(weights)?.into()),
        }
    }

    /// The bytes as they are, as a tensor. It is read from a file when it is needed.
    pub fn load_bytes_lazily(&self, weights: &Weights) -> TractResult<LazyTensor> {
        let len = self.needed(weights)?;
        self.read_lazily(weights, DatumType::U8, &[len])
    }

    fn read_lazily(
        &self,
        weights: &Weights,
        dt: DatumType,
        shape: &[usize],
    ) -> TractResult<LazyTensor> {
        match weights.0 {
            Place::File(_) => LazyTensor::of_parts(dt, shape, self.parts(weights, dt)),
            _ => Ok(self.read(weights, dt, shape)?.into()),
        }
    }

    /// The tensor of a type and a shape that the bytes are, straight to where they stay.
    fn read(&self, weights: &Weights, dt: DatumType, shape: &[usize]) -> TractResult<Tensor> {
        tensor_of_parts(dt, shape, self.parts(weights, dt))
    }

    /// What reads parts of the bytes, as elements of this machine.
    fn parts(
        &self,
        weights: &Weights,
        dt: DatumType,
    ) -> impl Fn(usize, &mut [u8]) -> TractResult<()> + Send + Sync + use<> {
        let (weights, offset) = (weights.clone(), self.offset);
        move |begin, part| {
            weights.read(offset + begin as u64, part)?;
            if cfg!(target_endian = "big") {
                part.chunks_exact_mut(dt.size_of()).for_each(<[u8]>::reverse);
            }
            Ok(())
        }
    }

    /// The tensor that bytes of half precision make, in single precision. They are read and widened a part at a time,
    /// in the caches: large weights take new memory once, which costs more than the rest.
    pub fn load_in_single(&self, weights: &Weights) -> TractResult<Tensor> {
        const PART: usize = 1 << 15;
        ensure!(
            self.element_type == ElementType::F16,
            "the type is {}, but must be f16",
            self.element_type
        );
        self.needed(weights)?;
        let mut tensor = Tensor::zero::<f32>(&self.shape)?;
        let mut plain = tensor.try_as_plain_ram_mut()?;
        let singles = plain.as_slice_mut::<f32>()?;
        let part = singles.len().min(PART);
        let (mut bytes, mut halves) = (vec![0; 2 * part], vec![f16::ZERO; part]);
        let mut offset = self.offset;
        for singles in singles.chunks_mut(PART) {
            let bytes = &mut bytes[..2 * singles.len()];
            weights.read(offset, bytes)?;
            offset += bytes.len() as u64;
            let halves = &mut halves[..singles.len()];
            for (half, bytes) in halves.iter_mut().zip(bytes.as_chunks().0) {
                *half = f16::from_le_bytes(*bytes);
            }
            halves.convert_to_f32_slice(singles);
        }
        Ok(tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn load(
        element_type: ElementType,
        shape: &[usize],
        bytes: &[u8],
    ) -> TractResult<Tensor> {
        let blob = Blob { element_type, shape: shape.into(), offset: 1, size: bytes.len() as u64 };
        // One byte in front: what is not aligned is common.
        let bytes: Vec<u8> = [0xee].iter().chain(bytes).copied().collect();
        blob.load(&Weights::from_bytes(bytes))
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
    fn threads_share_a_file() -> TractResult<()> {
        let path = std::env::temp_dir().join(format!("tract-openvino-ir-{}", std::process::id()));
        let bytes: Vec<u8> = (0..1u32 << 16).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, bytes)?;
        let weights = Weights::open(&path)?;
        let found = std::thread::scope(|scope| {
            let reads = [1u32, 3].map(|step| {
                let weights = &weights;
                scope.spawn(move || {
                    (0..1 << 16).step_by(step as usize).all(|number: u32| {
                        let mut bytes = [0; 4];
                        weights.read(4 * u64::from(number), &mut bytes).is_ok()
                            && u32::from_le_bytes(bytes) == number
                    })
                })
            });
            reads.map(|read| read.join().unwrap())
        });
        let beyond = weights.read((4 << 16) - 1, &mut [0; 2]);
        std::fs::remove_file(path)?;
        assert_eq!(found, [true; 2]);
        assert!(beyond.is_err());
        Ok(())
    }

    #[test]
    fn bytes_of_any_owner_are_not_copied() -> TractResult<()> {
        /// An owner of a type that only its user knows, like a map of a file.
        struct Owner(Arc<Vec<u8>>);
        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        static BYTES: [u8; 4] = [1, 2, 3, 4];
        let owned = Arc::new(BYTES.to_vec());
        for weights in [
            Weights::from_bytes(Owner(owned.clone())),
            Weights::from_bytes(BYTES.to_vec()),
            Weights::from_bytes(BYTES),
            Weights::from_bytes(&BYTES[..]),
            Weights::from_bytes(Arc::<[u8]>::from(BYTES)),
        ] {
            let mut read = [0; 2];
            weights.read(1, &mut read)?;
            assert_eq!((weights.len()?, read), (4, [2, 3]));
            assert!(weights.read(3, &mut read).is_err());
            assert_eq!(format!("{:?}", weights.clone()), "Bytes(4 bytes)");
        }
        // The owner was dropped with the weights, and had no copy of the bytes.
        assert_eq!(Arc::strong_count(&owned), 1);
        Ok(())
    }

    #[test]
    fn half_precision_is_widened_in_parts() -> TractResult<()> {
        let halves: Vec<f16> = (0..100_000).map(|it| f16::from_f32(it as f32)).collect();
        let bytes: Vec<u8> =
            [0xee].into_iter().chain(halves.iter().flat_map(|it| it.to_le_bytes())).collect();
        let blob = |shape: &[usize]| {
            let size = 2 * halves.len() as u64;
            let blob =
                Blob { element_type: ElementType::F16, shape: shape.into(), offset: 1, size };
            blob.load_in_single(&Weights::from_bytes(bytes.clone()))
        };
        let expected: Vec<f32> = halves.iter().map(|it| it.to_f32()).collect();
        assert_eq!(blob(&[1000, 100])?, Tensor::from_shape(&[1000, 100], &expected)?);
        assert_eq!(blob(&[0, 3])?, Tensor::zero::<f32>(&[0, 3])?);
        assert!(blob(&[1000, 101]).is_err());
        Ok(())
    }

    /// In bits, all of these are more than 32 bits count, and not all in bytes.
    #[test]
    fn bytes_are_counted_in_64_bits() {
        let bytes = |element_type, shape: &[usize]| {
            let blob = Blob { element_type, shape: shape.into(), offset: 0, size: 0 };
            blob.bytes_of_elements()
        };
        assert_eq!(bytes(ElementType::F32, &[1 << 14, 1 << 14]), Some(1 << 30));
        assert_eq!(bytes(ElementType::F64, &[1 << 16, 1 << 16]), Some(1u64 << 35));
        assert_eq!(bytes(ElementType::U4, &[1 << 31, 3]), Some(3u64 << 30));
        assert_eq!(bytes(ElementType::U3, &[1 << 31, 1]), Some(3u64 << 28));
        assert_eq!(bytes(ElementType::U1, &[1 << 31, 1 << 31, 1 << 2]), None);
    }

    #[test]
    fn ranges_are_checked_before_memory_is_taken() {
        let weights = Weights::from_bytes([0; 8]);
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
            (&[usize::MAX / 8], 0, 8, if usize::BITS == 64 { "too large" } else { "too small" }),
        ] {
            let error = blob(shape, offset, size).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
