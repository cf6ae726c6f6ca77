//! Tensors as NumPy keeps them in files: `.npy` with one array, `.npz` with several.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Write};
use std::path::Path;

use ndarray_npy::{
    ReadDataError, ReadNpyError, ReadNpyExt, ReadableElement, WritableElement, WriteDataError,
    WriteNpyExt,
};
use py_literal::Value;
use tract_onnx::prelude::tract_ndarray::ArrayD;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::{TractErrorContext, bail, ensure};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

/// The most bytes that deflate makes of one.
const MOST_OF_A_BYTE: u64 = 1032;

/// The most arrays of a file: whether they overlap is found out by comparing each with all others.
const MOST_ARRAYS: usize = 1 << 12;

/// The longest header that NumPy reads, too, unless it is told to trust a file.
const LONGEST_HEADER: usize = 10_000;

/// Brackets in a header. That of an array has two pairs, and a structure some more. For each bracket within another, what
/// reads the header takes several times as long.
const MOST_BRACKETS: usize = 8;

/// An open `.npz` file. Its errors do not say which file it is.
pub struct Npz {
    archive: ZipArchive<BufReader<File>>,
    /// The names of the arrays, in the order of the archive.
    names: Vec<String>,
}

impl Npz {
    /// Opens a file, and reads the names of its arrays.
    pub fn open(path: impl AsRef<Path>) -> TractResult<Npz> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut archive = ZipArchive::new(BufReader::new(file))?;
        ensure!(archive.len() <= MOST_ARRAYS, "it has more than {MOST_ARRAYS} arrays");
        for number in 0..archive.len() {
            let packed = archive.by_index_raw(number)?.compressed_size();
            ensure!(packed <= len, "it states {packed} bytes of an array, but has {len}");
        }
        // Else each of many arrays could be large with the same few bytes.
        ensure!(!archive.has_overlapping_files()?, "two of its arrays have the same bytes");
        let name = |name: &str| name.strip_suffix(".npy").unwrap_or(name).into();
        let names = archive.file_names().map(name).collect();
        Ok(Npz { archive, names })
    }

    /// The names of the arrays.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads an array of any element type that both NumPy and tract have.
    pub fn read(&mut self, name: &str) -> TractResult<Tensor> {
        let mut read = || {
            let number = self.names.iter().position(|it| it == name);
            tensor_of_npy(&self.bytes(number.context("there is none of this name")?)?)
        };
        read().with_context(|| format!("array {name:?}"))
    }

    fn bytes(&mut self, number: usize) -> TractResult<Vec<u8>> {
        let mut entry = self.archive.by_index(number)?;
        let (packed, size) = (entry.compressed_size(), entry.size());
        ensure!(
            size / MOST_OF_A_BYTE <= packed,
            "the archive states {size} bytes, which cannot come of {packed}"
        );
        let mut bytes = vec![];
        bytes.try_reserve_exact(usize::try_from(size)?)?;
        let read = entry.by_ref().take(size).read_to_end(&mut bytes)? as u64;
        let is_all = read == size && entry.read(&mut [0])? == 0;
        ensure!(is_all, "the archive states {size} bytes, but there are more or fewer");
        Ok(bytes)
    }
}

/// The tensor in the bytes of an `.npy` file: of any element type that both NumPy and tract have.
pub fn tensor_of_npy(bytes: &[u8]) -> TractResult<Tensor> {
    check_header(bytes)?;
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
        Ok(array) => return Ok(array.mapv(|half| half.0).into_tensor()),
        Err(ReadNpyError::WrongDescriptor(_)) => (),
        Err(error) => return Err(error.into()),
    }
    match ArrayD::<Text>::read_npy(bytes) {
        Ok(array) => Ok(array.mapv(|text| text.0).into_tensor()),
        Err(ReadNpyError::WrongDescriptor(descriptor)) => bail!(
            "its elements are {descriptor}: only booleans, integers, floats and strings can be read"
        ),
        Err(error) => Err(error.into()),
    }
}

/// Fails if the header of an .npy file is none of an array, or states more elements than the file has bytes for: its
/// reader allocates memory for all of them first.
fn check_header(bytes: &[u8]) -> TractResult<()> {
    let header = match bytes.get(6) {
        Some(1) => bytes.get(8..10).map(|it| (10, usize::from(u16::from_le_bytes([it[0], it[1]])))),
        _ => bytes
            .get(8..12)
            .map(|it| (12, u32::from_le_bytes([it[0], it[1], it[2], it[3]]) as usize)),
    };
    // What is wrong in another way is for the reader to say.
    let Some((start, length)) = header.filter(|_| bytes.starts_with(b"\x93NUMPY")) else {
        return Ok(());
    };
    ensure!(length <= LONGEST_HEADER, "its header is not that of an array");
    let Some(text) = bytes.get(start..).and_then(|it| it.get(..length)) else { return Ok(()) };
    let brackets = text.iter().filter(|byte| b"([{".contains(byte)).count();
    ensure!(brackets <= MOST_BRACKETS, "its header is not that of an array");
    let Ok(text) = std::str::from_utf8(text) else { return Ok(()) };
    let Ok(header) = text.trim().parse::<Value>() else { return Ok(()) };
    let value = |name: &str| {
        let mut pairs = header.as_dict()?.iter();
        pairs.find(|(key, _)| key.as_string().is_some_and(|key| key == name)).map(|(_, it)| it)
    };
    let Some(shape) = value("shape").and_then(Value::as_tuple) else { return Ok(()) };
    let elements = shape.iter().try_fold(1usize, |elements, dim| {
        elements.checked_mul(usize::try_from(dim.as_integer()?).ok()?)
    });
    let width = value("descr").and_then(text_width).map_or(1, |(width, _)| 4 * u64::from(width));
    let needed = elements.and_then(|elements| (elements as u64).checked_mul(width));
    let rest = bytes.len() - start - length;
    ensure!(
        needed.is_some_and(|needed| needed <= rest as u64),
        "its header states more elements than the {rest} bytes that follow it"
    );
    Ok(())
}

/// NumPy's half precision, `<f2`.
#[derive(Clone, Copy)]
struct Half(f16);

const HALF: [&str; 2] = ["<f2", ">f2"];

/// The bytes of so many elements, as if they were bytes themselves: what is missing or too much is found out there.
fn element_bytes(
    reader: impl Read,
    elements: usize,
    each: usize,
) -> Result<Vec<u8>, ReadDataError> {
    let bytes = elements.checked_mul(each).ok_or(ReadDataError::MissingData)?;
    u8::read_to_end_exact_vec(reader, &Value::String("|u1".into()), bytes)
}

impl ReadableElement for Half {
    fn read_to_end_exact_vec<R: Read>(
        reader: R,
        descriptor: &Value,
        length: usize,
    ) -> Result<Vec<Half>, ReadDataError> {
        let order =
            HALF.iter().position(|half| descriptor.as_string().is_some_and(|it| it == half));
        let from_bytes = match order {
            Some(0) => u16::from_le_bytes,
            Some(_) => u16::from_be_bytes,
            None => return Err(ReadDataError::WrongDescriptor(descriptor.clone())),
        };
        let bytes = element_bytes(reader, length, 2)?;
        let halves = bytes.chunks_exact(2).map(|pair| from_bytes([pair[0], pair[1]]));
        Ok(halves.map(|bits| Half(f16::from_bits(bits))).collect())
    }
}

impl WritableElement for Half {
    fn type_descriptor() -> Value {
        Value::String(HALF[0].into())
    }

    fn write<W: Write>(&self, mut writer: W) -> Result<(), WriteDataError> {
        Ok(writer.write_all(&self.0.to_bits().to_le_bytes())?)
    }

    fn write_slice<W: Write>(slice: &[Half], mut writer: W) -> Result<(), WriteDataError> {
        slice.iter().try_for_each(|half| half.write(&mut writer))
    }
}

/// NumPy's string, such as `<U5`: five code points in 32 bits each. After its end are zeros.
#[derive(Clone)]
struct Text(String);

/// How one code point is read.
type FromBytes = fn([u8; 4]) -> u32;

/// How many code points each string has, and how they are read.
fn text_width(descriptor: &Value) -> Option<(u32, FromBytes)> {
    let orders = [("<U", u32::from_le_bytes as FromBytes), (">U", u32::from_be_bytes)];
    let descriptor = descriptor.as_string()?;
    let width = |start| descriptor.strip_prefix(start)?.parse().ok().filter(|it| *it > 0);
    orders.into_iter().find_map(|(start, from_bytes)| Some((width(start)?, from_bytes)))
}

impl ReadableElement for Text {
    fn read_to_end_exact_vec<R: Read>(
        reader: R,
        descriptor: &Value,
        length: usize,
    ) -> Result<Vec<Text>, ReadDataError> {
        let Some((width, from_bytes)) = text_width(descriptor) else {
            return Err(ReadDataError::WrongDescriptor(descriptor.clone()));
        };
        let each = (width as usize).checked_mul(4).ok_or(ReadDataError::MissingData)?;
        let bytes = element_bytes(reader, length, each)?;
        let text = |bytes: &[u8]| {
            let points = bytes.chunks_exact(4).map(|it| from_bytes([it[0], it[1], it[2], it[3]]));
            let character = |point| {
                char::from_u32(point).ok_or_else(|| {
                    ReadDataError::ParseData(format!("{point:#x} is not a character").into())
                })
            };
            let text = points.map(character).collect::<Result<String, _>>()?;
            Ok(Text(text.trim_end_matches('\0').into()))
        };
        bytes.chunks_exact(each).map(text).collect()
    }
}

/// Writes a tensor as an `.npy` file.
pub fn write_npy(mut writer: impl Write, tensor: &Tensor) -> TractResult<()> {
    macro_rules! write_types {
        ($($dt:ident $type:ty),*) => {
            match tensor.datum_type() {
                $(DatumType::$dt => tensor.to_plain_array_view::<$type>()?.write_npy(writer)?,)*
                DatumType::F16 => {
                    tensor.to_plain_array_view::<f16>()?.mapv(Half).write_npy(writer)?
                }
                DatumType::String => write_strings(&mut writer, tensor)?,
                other => bail!("NumPy's files cannot hold elements of type {other:?}"),
            }
        };
    }
    write_types!(
        Bool bool, U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, F32 f32,
        F64 f64
    );
    Ok(())
}

/// The same for strings, whose element type depends on the longest: `ndarray-npy` has one for each Rust type.
fn write_strings(writer: &mut impl Write, tensor: &Tensor) -> TractResult<()> {
    let strings = tensor.to_plain_array_view::<String>()?;
    let ends_in_zero = strings.iter().any(|it| it.ends_with('\0'));
    ensure!(!ends_in_zero, "NumPy's files cannot hold a string that ends in a zero");
    let width = strings.iter().map(|it| it.chars().count()).max().unwrap_or(0).max(1);
    let shape: String = tensor.shape().iter().map(|dim| format!("{dim},")).collect();
    let header = format!("{{'descr': '<U{width}', 'fortran_order': False, 'shape': ({shape}), }}");
    // What is in front of the elements is a multiple of 64 bytes: 10 there, and the end of the line.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    writer.write_all(b"\x93NUMPY\x01\x00")?;
    writer.write_all(&u16::try_from(length)?.to_le_bytes())?;
    writeln!(writer, "{header:0$}", length - 1)?;
    for string in strings {
        let points = string.chars().map(u32::from).chain(std::iter::repeat(0));
        points.take(width).try_for_each(|point| writer.write_all(&point.to_le_bytes()))?;
    }
    Ok(())
}

/// Writes tensors to an `.npz` file, compressed, under their names. The same tensors make the same bytes.
pub fn save_npz<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (String, &'a Tensor)>,
) -> TractResult<()> {
    let mut archive = ZipWriter::new(Cursor::new(vec![]));
    // As NumPy has it: without the time of now, and for arrays of any size.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default())
        .large_file(true);
    for (name, tensor) in tensors {
        archive.start_file(format!("{name}.npy"), options)?;
        write_npy(&mut archive, tensor).with_context(|| format!("array {name:?}"))?;
    }
    Ok(std::fs::write(path, archive.finish()?.into_inner())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this header.
    fn npy(header: &str, elements: &[u8]) -> Vec<u8> {
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), elements].concat()
    }

    fn array(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
        npy(&header, elements)
    }

    #[track_caller]
    fn expect_error(result: TractResult<impl std::fmt::Debug>, expected: &str) {
        let error = format!("{:#}", result.unwrap_err());
        assert!(error.contains(expected), "{expected:?} in {error:?}");
    }

    #[test]
    fn what_is_written_is_read() {
        let numbers = tensor2(&[[1i64, 0, 1], [0, 1, 1]]);
        let mut tensors: Vec<Tensor> = [
            DatumType::Bool,
            DatumType::U8,
            DatumType::U16,
            DatumType::U32,
            DatumType::U64,
            DatumType::I8,
            DatumType::I16,
            DatumType::I32,
            DatumType::I64,
            DatumType::F16,
            DatumType::F32,
            DatumType::F64,
        ]
        .map(|dt| numbers.cast_to_dt(dt).unwrap().into_owned())
        .into();
        tensors.extend([
            tensor1(&[u64::MAX, 0]),
            tensor1(&[i64::MIN, i64::MAX]),
            tensor1(&[f32::NEG_INFINITY, -0., f32::MIN_POSITIVE / 2.]),
            tensor0(1.5f64),
            tensor2(&[["a".to_string(), "ä\0€😀".into()], [String::new(), "\n".into()]]),
            tensor0("text".to_string()),
            Tensor::zero::<f32>(&[2, 0]).unwrap(),
            tensor1::<String>(&[]),
        ]);
        for expected in tensors {
            let mut bytes = vec![];
            write_npy(&mut bytes, &expected).unwrap();
            assert_eq!(tensor_of_npy(&bytes).unwrap(), expected);
            // As NumPy's own, elements begin where they can be mapped.
            let elements = expected.len() * expected.datum_type().size_of();
            let is_text = expected.datum_type() == DatumType::String;
            assert!(is_text || (bytes.len() - elements).is_multiple_of(64), "{expected:?}");
        }
    }

    #[test]
    fn other_orders() {
        let numbers = [1u8, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0];
        let header = "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 3), }\n";
        let expected = tensor2(&[[1u16, 3, 5], [2, 4, 6]]);
        assert_eq!(tensor_of_npy(&npy(header, &numbers)).unwrap(), expected);
        let text = array("'>U2'", "(1,)", &[0, 0, 0, 97, 0, 0, 0, 0]);
        assert_eq!(tensor_of_npy(&text).unwrap(), tensor1(&["a".to_string()]));
        let half = array("'>f2'", "()", &[0x3c, 0]);
        assert_eq!(tensor_of_npy(&half).unwrap(), tensor0(f16::ONE));
    }

    #[test]
    fn arrays_that_are_none() {
        let ask_for_more = "its header states more elements than the 4 bytes that follow it";
        for (bytes, expected) in [
            (vec![], "failed to fill whole buffer"),
            (b"no array, but a text".into(), "magic"),
            (array("'<f4'", "(1099511627776, 3)", &[0; 4]), ask_for_more),
            (array("'<f4'", "(4294967296, 4294967296, 4294967296)", &[0; 4]), ask_for_more),
            (array("'<U4000000000'", "(1,)", &[0; 4]), ask_for_more),
            (array("'<U2'", "(1,)", &[0; 4]), ask_for_more),
            (array("'<f4'", "(2,)", &[0; 4]), "reached EOF before reading all data"),
            (array("'<f4'", "(1,)", &[0; 5]), "extra"),
            (array("'|b1'", "(1,)", &[2]), "bool"),
            (array("'<U1'", "(1,)", &[0, 0, 0x11, 0]), "0x110000 is not a character"),
            (array("'<U0'", "(1,)", &[0; 4]), "its elements are '<U0': only booleans"),
            // What NumPy makes of bf16.
            (array("'<V2'", "(1,)", &[0; 2]), "its elements are '<V2': only booleans"),
            (array("'|O'", "(1,)", &[0; 9]), "its elements are '|O': only booleans"),
            (array("[('x', '<f4')]", "(1,)", &[0; 4]), "its elements are [('x', '<f4')]: only"),
            (npy(&"(".repeat(9000), &[]), "its header is not that of an array"),
            (npy(&" ".repeat(20_000), &[]), "its header is not that of an array"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".into(), "its header is not that of an array"),
            (npy(&("(".repeat(MOST_BRACKETS) + "\n"), &[]), "error parsing metadata dict"),
            (npy(&("[".repeat(MOST_BRACKETS) + "\n"), &[]), "error parsing metadata dict"),
            (npy(&("{".repeat(MOST_BRACKETS) + "\n"), &[]), "error parsing metadata dict"),
            (npy(&("{1:".repeat(MOST_BRACKETS) + "\n"), &[]), "error parsing metadata dict"),
        ] {
            expect_error(tensor_of_npy(&bytes), expected);
        }
    }

    #[test]
    fn tensors_that_numpy_has_not() {
        let error = write_npy(vec![], &tensor0(TDim::Val(1)));
        expect_error(error, "NumPy's files cannot hold elements of type TDim");
        let error = write_npy(vec![], &tensor0("text\0".to_string()));
        expect_error(error, "cannot hold a string that ends in a zero");
    }

    /// A file of two arrays, `a` of 1000 zeros and `b` of others, with its bytes changed.
    fn npz(change: impl Fn(&mut Vec<u8>)) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (a, b) = (Tensor::zero::<f32>(&[1000]).unwrap(), tensor1(&[1u8, 2]));
        save_npz(file.path(), [("a".to_string(), &a), ("b".to_string(), &b)]).unwrap();
        let mut bytes = std::fs::read(file.path()).unwrap();
        change(&mut bytes);
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    /// Where the entries of the archive's directory are.
    fn entries(bytes: &[u8]) -> Vec<usize> {
        let is_entry = |at: &usize| bytes[*at..].starts_with(b"PK\x01\x02");
        (0..bytes.len()).filter(is_entry).collect()
    }

    #[test]
    fn arrays_of_an_archive() {
        let file = npz(|_| ());
        let mut open = Npz::open(file.path()).unwrap();
        assert_eq!(open.names(), ["a", "b"]);
        assert_eq!(open.read("b").unwrap(), tensor1(&[1u8, 2]));
        assert_eq!(open.read("a").unwrap(), Tensor::zero::<f32>(&[1000]).unwrap());
        expect_error(open.read("c"), "array \"c\": there is none of this name");
        assert_eq!(
            std::fs::read(file.path()).unwrap(),
            std::fs::read(npz(|_| ()).path()).unwrap(),
            "the same tensors make the same bytes"
        );
    }

    #[test]
    fn archives_that_are_none() {
        let open = |file: tempfile::NamedTempFile| Npz::open(file.path()).map(drop);
        expect_error(open(npz(|bytes| bytes.truncate(100))), "Zip");
        expect_error(open(npz(Vec::clear)), "Zip");
        let same = npz(|bytes| {
            // Both are where the first one is.
            let [first, second] = entries(bytes)[..] else { panic!("there are two") };
            let rest = 16..46 + "a.npy".len() + 20;
            let found = bytes[first..][rest.clone()].to_vec();
            bytes[second..][rest].copy_from_slice(&found);
            bytes[second + 46] = b'b';
        });
        expect_error(open(same), "two of its arrays have the same bytes");
        expect_error(Npz::open("nowhere.npz").map(drop), "No such file");
    }

    #[test]
    fn archives_that_state_other_sizes() {
        let read = |size: u64| {
            let file = npz(|bytes| {
                // Behind the entry, its name and the head of what it has for sizes of 64 bits.
                let at = entries(bytes)[0] + 46 + "a.npy".len() + 4;
                bytes[at..at + 8].copy_from_slice(&size.to_le_bytes());
            });
            Npz::open(file.path()).unwrap().read("a")
        };
        read(4128).unwrap();
        expect_error(read(4_000_000_000), "states 4000000000 bytes, which cannot come of");
        expect_error(read(5000), "states 5000 bytes, but there are more or fewer");
        expect_error(read(4000), "states 4000 bytes, but there are more or fewer");
    }
}
