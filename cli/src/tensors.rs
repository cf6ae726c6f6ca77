//! Tensors in files: NumPy's .npy and .npz, and ONNX's .pb.

use std::fs::{self, File};
use std::io::{BufWriter, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use model_cases::{load_tensor_file, save_tensor_file};
use ndarray_npy::{
    NpzWriter, ReadDataError, ReadNpyError, ReadNpyExt, ReadableElement, WritableElement,
    WriteDataError, WriteNpyExt,
};
use tract_openvino::tract_onnx::prelude::tract_ndarray::{ArrayD, ArrayViewD};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{
    TractErrorContext, bail, ensure, format_err,
};

use zip::ZipArchive;

use crate::report::unknown_name;

/// A tensor in a file.
#[derive(Debug, Clone)]
pub enum TensorFile {
    Npy(PathBuf),
    /// With the key, if it is not the name of the input.
    Npz(PathBuf, Option<String>),
    Pb(PathBuf),
}

impl FromStr for TensorFile {
    type Err = String;

    fn from_str(text: &str) -> Result<TensorFile, String> {
        if let Some((path, key)) = text.rsplit_once(".npz:") {
            return Ok(TensorFile::Npz(format!("{path}.npz").into(), Some(key.into())));
        }
        let path = PathBuf::from(text);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("npy") => Ok(TensorFile::Npy(path)),
            Some("npz") => Ok(TensorFile::Npz(path, None)),
            Some("pb") => Ok(TensorFile::Pb(path)),
            _ => Err(format!(
                "{text:?} is not the name of a tensor file: it must end in .npy, .npz:KEY or .pb"
            )),
        }
    }
}

impl TensorFile {
    fn path(&self) -> &Path {
        match self {
            TensorFile::Npy(path) | TensorFile::Npz(path, _) | TensorFile::Pb(path) => path,
        }
    }

    /// Reads the tensor for an input.
    pub fn read(&self, input: &str) -> TractResult<Tensor> {
        let path = self.path();
        let read = || match self {
            TensorFile::Npy(path) => any_type(&fs::read(path)?),
            TensorFile::Npz(path, key) => {
                any_type(&npz_entry(path, key.as_deref().unwrap_or(input))?)
            }
            TensorFile::Pb(path) => load_tensor_file(path),
        };
        read().with_context(|| format!("reading {} for input {input:?}", path.display()))
    }
}

/// The bytes of an array in an .npz file.
fn npz_entry(path: &Path, key: &str) -> TractResult<Vec<u8>> {
    let mut archive = ZipArchive::new(File::open(path)?)?;
    let names: Vec<String> = archive.file_names().map(str::to_string).collect();
    let keys: Vec<&str> = names.iter().map(|name| name.trim_end_matches(".npy")).collect();
    let Some(number) = keys.iter().position(|it| *it == key) else {
        return Err(unknown_name(format!("{} has no key {key:?}", path.display()), key, &keys));
    };
    let mut bytes = vec![];
    archive.by_name(&names[number])?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Fails if the header of an .npy file states more elements than the file has bytes for: its reader allocates memory for
/// all of them first.
fn check_length(bytes: &[u8]) -> TractResult<()> {
    let header = match bytes.get(6) {
        Some(1) => bytes.get(8..10).map(|it| (10, usize::from(u16::from_le_bytes([it[0], it[1]])))),
        _ => bytes
            .get(8..12)
            .map(|it| (12, u32::from_le_bytes([it[0], it[1], it[2], it[3]]) as usize)),
    };
    // What is wrong in another way is for the reader to say.
    let Some((start, length)) = header else { return Ok(()) };
    let text = bytes.get(start..).and_then(|it| std::str::from_utf8(it.get(..length)?).ok());
    let Some(Ok(header)) = text.map(|text| text.trim().parse::<py_literal::Value>()) else {
        return Ok(());
    };
    let shape = header
        .as_dict()
        .and_then(|it| it.iter().find(|it| it.0.as_string().is_some_and(|key| key == "shape")));
    let Some(shape) = shape.and_then(|it| it.1.as_tuple()) else { return Ok(()) };
    let elements = shape.iter().try_fold(1usize, |elements, dim| {
        elements.checked_mul(usize::try_from(dim.as_integer()?).ok()?)
    });
    let rest = bytes.len() - start - length;
    ensure!(
        elements.is_some_and(|elements| elements <= rest),
        "its header states more elements than the {rest} bytes that follow it"
    );
    Ok(())
}

/// Reads an array of any element type that both NumPy and tract have.
fn any_type(bytes: &[u8]) -> TractResult<Tensor> {
    check_length(bytes)?;
    macro_rules! try_types {
        ($($type:ty),*) => {$(
            match ArrayD::<$type>::read_npy(bytes) {
                Ok(array) => return Ok(array.into_tensor()),
                Err(ReadNpyError::WrongDescriptor(_)) => (),
                Err(error) => return Err(error.into()),
            }
        )*};
    }
    try_types!(f32, i64, i32, f64, bool, u8, i8, u16, i16, u32, u64);
    match ArrayD::<Half>::read_npy(bytes) {
        Ok(array) => Ok(array.mapv(|half| half.0).into_tensor()),
        Err(ReadNpyError::WrongDescriptor(descriptor)) => {
            bail!("its elements are {descriptor}: only booleans, integers and floats can be read")
        }
        Err(error) => Err(error.into()),
    }
}

/// NumPy's half precision, `<f2`.
#[derive(Clone, Copy)]
struct Half(f16);

const HALF: [&str; 2] = ["<f2", ">f2"];

impl ReadableElement for Half {
    fn read_to_end_exact_vec<R: Read>(
        reader: R,
        descriptor: &py_literal::Value,
        length: usize,
    ) -> Result<Vec<Half>, ReadDataError> {
        let order =
            HALF.iter().position(|half| descriptor.as_string().is_some_and(|it| it == half));
        let from_bytes = match order {
            Some(0) => u16::from_le_bytes,
            Some(_) => u16::from_be_bytes,
            None => return Err(ReadDataError::WrongDescriptor(descriptor.clone())),
        };
        // As if they were bytes in twos, so that what is missing or too much is found out there.
        let bytes = u8::read_to_end_exact_vec(
            reader,
            &py_literal::Value::String("|u1".into()),
            length.checked_mul(2).ok_or(ReadDataError::MissingData)?,
        )?;
        let halves = bytes.chunks_exact(2).map(|pair| from_bytes([pair[0], pair[1]]));
        Ok(halves.map(|bits| Half(f16::from_bits(bits))).collect())
    }
}

impl WritableElement for Half {
    fn type_descriptor() -> py_literal::Value {
        py_literal::Value::String(HALF[0].into())
    }

    fn write<W: Write>(&self, mut writer: W) -> Result<(), WriteDataError> {
        Ok(writer.write_all(&self.0.to_bits().to_le_bytes())?)
    }

    fn write_slice<W: Write>(slice: &[Half], mut writer: W) -> Result<(), WriteDataError> {
        slice.iter().try_for_each(|half| half.write(&mut writer))
    }
}

/// A writer of arrays.
trait Sink {
    fn put<T: WritableElement>(&mut self, array: ArrayViewD<T>) -> TractResult<()>;
}

struct NpySink<W>(W);

impl<W: Write> Sink for NpySink<W> {
    fn put<T: WritableElement>(&mut self, array: ArrayViewD<T>) -> TractResult<()> {
        Ok(array.write_npy(&mut self.0)?)
    }
}

struct NpzSink<'a, W: Write + Seek> {
    file: &'a mut NpzWriter<W>,
    key: &'a str,
}

impl<W: Write + Seek> Sink for NpzSink<'_, W> {
    fn put<T: WritableElement>(&mut self, array: ArrayViewD<T>) -> TractResult<()> {
        Ok(self.file.add_array(self.key, &array)?)
    }
}

fn put_tensor(sink: &mut impl Sink, tensor: &Tensor) -> TractResult<()> {
    macro_rules! put_types {
        ($($dt:ident $type:ty),*) => {
            match tensor.datum_type() {
                $(DatumType::$dt => sink.put(tensor.to_plain_array_view::<$type>()?),)*
                DatumType::F16 => {
                    sink.put(tensor.to_plain_array_view::<f16>()?.mapv(Half).view())
                }
                other => Err(format_err!("NumPy's files cannot hold elements of type {other:?}")),
            }
        };
    }
    put_types!(
        Bool bool, U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, F32 f32,
        F64 f64
    )
}

/// The format of files with one tensor each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// NumPy: NAME.npy
    Npy,
    /// ONNX: output_0.pb, output_1.pb ..., as in a test_data_set_N folder
    Pb,
}

/// The name of the file for an output. Exporters use slashes in names, which must not become folders.
fn file_name(name: &str) -> String {
    name.replace(|c: char| c.is_control() || ['/', '\\'].contains(&c), "_")
}

/// Writes tensors to a folder, one file for each, and returns the paths.
pub fn save_to_folder(
    folder: &Path,
    tensors: &[(String, Tensor)],
    format: Format,
) -> TractResult<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut paths = vec![];
    for (number, (name, _)) in tensors.iter().enumerate() {
        let path = folder.join(match format {
            Format::Npy => format!("{}.npy", file_name(name)),
            Format::Pb => format!("output_{number}.pb"),
        });
        if paths.contains(&path) {
            bail!("two outputs would both be saved to {}", path.display());
        }
        paths.push(path);
    }
    for ((name, tensor), path) in tensors.iter().zip(&paths) {
        let save = || match format {
            Format::Npy => {
                let mut sink = NpySink(vec![]);
                put_tensor(&mut sink, tensor)?;
                Ok(fs::write(path, sink.0)?)
            }
            Format::Pb => save_tensor_file(path, name, tensor),
        };
        save().with_context(|| format!("saving output {name:?} to {}", path.display()))?;
    }
    Ok(paths)
}

/// Writes tensors to an .npz file, under their names.
pub fn save_to_npz(path: &Path, tensors: &[(String, Tensor)]) -> TractResult<()> {
    let save = || -> TractResult<()> {
        let mut file = NpzWriter::new(Cursor::new(vec![]));
        for (name, tensor) in tensors {
            put_tensor(&mut NpzSink { file: &mut file, key: &file_name(name) }, tensor)
                .with_context(|| format!("output {name:?}"))?;
        }
        let bytes = file.finish()?.into_inner();
        Ok(BufWriter::new(File::create(path)?).write_all(&bytes)?)
    };
    save().with_context(|| format!("saving {}", path.display()))
}

/// The elements of a tensor, the first ones if there are many.
pub fn elements(tensor: &Tensor) -> TractResult<String> {
    let dump = tensor.dump(false)?;
    // In front are shape and type.
    Ok(dump.split_once(' ').map_or_else(String::new, |(_, elements)| elements.into()))
}
