//! Tensors in files: NumPy's .npy and .npz, and ONNX's .pb.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use model_cases::{Npz, load_tensor_file, save_npz, save_tensor_file, tensor_of_npy, write_npy};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{TractErrorContext, bail};

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
            TensorFile::Npy(path) => tensor_of_npy(&fs::read(path)?),
            TensorFile::Npz(path, key) => npz_entry(path, key.as_deref().unwrap_or(input)),
            TensorFile::Pb(path) => load_tensor_file(path),
        };
        read().with_context(|| format!("reading {} for input {input:?}", path.display()))
    }
}

/// An array in an .npz file.
fn npz_entry(path: &Path, key: &str) -> TractResult<Tensor> {
    let mut file = Npz::open(path)?;
    if !file.names().iter().any(|name| name == key) {
        let names: Vec<&str> = file.names().iter().map(|name| &**name).collect();
        return Err(unknown_name(format!("{} has no key {key:?}", path.display()), key, &names));
    }
    file.read(key)
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
                let mut bytes = vec![];
                write_npy(&mut bytes, tensor)?;
                Ok(fs::write(path, bytes)?)
            }
            Format::Pb => save_tensor_file(path, name, tensor),
        };
        save().with_context(|| format!("saving output {name:?} to {}", path.display()))?;
    }
    Ok(paths)
}

/// Writes tensors to an .npz file, under their names.
pub fn save_to_npz(path: &Path, tensors: &[(String, Tensor)]) -> TractResult<()> {
    let tensors = tensors.iter().map(|(name, tensor)| (file_name(name), tensor));
    save_npz(path, tensors).with_context(|| format!("saving {}", path.display()))
}

/// The elements of a tensor, the first ones if there are many.
pub fn elements(tensor: &Tensor) -> TractResult<String> {
    let dump = tensor.dump(false)?;
    // In front are shape and type.
    Ok(dump.split_once(' ').map_or_else(String::new, |(_, elements)| elements.into()))
}
