//! Data sets: the inputs of a model and the outputs that it ought to compute, and their files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::{TractErrorContext, ensure};

use crate::numpy::{Npz, save_npz};
use crate::tensor_file::{load_tensor_file, save_tensor_file};

/// A data set of a model folder.
#[derive(Debug, Clone, Default)]
pub struct DataSet {
    /// The graph's inputs.
    pub inputs: Vec<Tensor>,
    /// The outputs that the model ought to compute.
    pub outputs: Vec<Tensor>,
}

/// Where a data set is.
enum Place {
    /// A folder with a `.pb` file for each tensor.
    Folder(PathBuf),
    /// One `.npz` file.
    Npz(PathBuf),
}

impl Place {
    /// Where the data set of this number is, if there is one.
    fn find(folder: &Path, number: usize) -> TractResult<Option<Place>> {
        let name = format!("test_data_set_{number}");
        let (pb, npz) = (folder.join(&name), folder.join(format!("{name}.npz")));
        let there = [pb.is_dir(), npz.is_file()];
        ensure!(
            there != [true; 2],
            "{} has {name} twice: as a folder and as an .npz file",
            folder.display()
        );
        Ok(match there {
            [true, _] => Some(Place::Folder(pb)),
            [_, true] => Some(Place::Npz(npz)),
            _ => None,
        })
    }

    fn path(&self) -> &Path {
        match self {
            Place::Folder(path) | Place::Npz(path) => path,
        }
    }
}

impl DataSet {
    /// Reads the data set of this number from a model folder. There is none if the folder has none of this number.
    pub fn load(folder: impl AsRef<Path>, number: usize) -> TractResult<Option<DataSet>> {
        let Some(place) = Place::find(folder.as_ref(), number)? else { return Ok(None) };
        let load = || match &place {
            Place::Folder(path) => {
                let mut names = BTreeSet::new();
                for entry in path.read_dir()? {
                    let name = entry?.file_name().to_string_lossy().into_owned();
                    names.extend(name.strip_suffix(".pb").map(str::to_string));
                }
                DataSet::read(names, |name| load_tensor_file(path.join(format!("{name}.pb"))))
            }
            Place::Npz(path) => {
                let mut file = Npz::open(path)?;
                DataSet::read(file.names().iter().cloned().collect(), |name| file.read(name))
            }
        };
        load().map(Some).with_context(|| format!("reading {}", place.path().display()))
    }

    /// Reads the tensors of these names, which must be `input_0`, `input_1` ... and `output_0`, `output_1` ...
    fn read(
        mut names: BTreeSet<String>,
        mut tensor: impl FnMut(&str) -> TractResult<Tensor>,
    ) -> TractResult<DataSet> {
        let mut count = |kind: &str| {
            (0..).take_while(|number| names.remove(&format!("{kind}_{number}"))).count()
        };
        let (inputs, outputs) = (count("input"), count("output"));
        ensure!(
            names.is_empty(),
            "there is {:?}, but the tensors of a data set are called input_0, input_1 ... and output_0, output_1 ... \
             without a gap",
            names.first().expect("there is one"),
        );
        let mut tensors = |kind: &str, count: usize| -> TractResult<Vec<Tensor>> {
            (0..count).map(|number| tensor(&format!("{kind}_{number}"))).collect()
        };
        Ok(DataSet { inputs: tensors("input", inputs)?, outputs: tensors("output", outputs)? })
    }

    /// Writes an output to where the data set of this number is, and says where that is. A `.pb` file also has `name`,
    /// which is what the graph calls the output.
    pub(crate) fn save_output(
        &self,
        folder: &Path,
        number: usize,
        output: usize,
        name: &str,
    ) -> TractResult<String> {
        let place = Place::find(folder, number)?;
        match place.with_context(|| format!("{} has lost a data set", folder.display()))? {
            Place::Folder(path) => {
                let path = path.join(format!("output_{output}.pb"));
                save_tensor_file(&path, name, &self.outputs[output])?;
                Ok(path.display().to_string())
            }
            Place::Npz(path) => {
                self.save(folder, number)?;
                Ok(format!("{}:output_{output}", path.display()))
            }
        }
    }

    /// Writes the `.npz` file of the data set of this number.
    pub fn save(&self, folder: impl AsRef<Path>, number: usize) -> TractResult<()> {
        let folder = folder.as_ref();
        let name = format!("test_data_set_{number}.npz");
        // What is there has inputs that may be nowhere else, so it stays until all is written.
        let (unfinished, path) = (folder.join(format!(".{name}")), folder.join(name));
        let saved = save_npz(&unfinished, self.named())
            .and_then(|()| Ok(std::fs::rename(&unfinished, &path)?))
            .with_context(|| format!("writing {}", path.display()));
        if saved.is_err() {
            // It may not be there at all.
            let _ = std::fs::remove_file(&unfinished);
        }
        saved
    }

    /// The tensors, with the names that they have in files.
    fn named(&self) -> impl Iterator<Item = (String, &Tensor)> {
        [("input", &self.inputs), ("output", &self.outputs)].into_iter().flat_map(
            |(kind, tensors)| {
                let name = move |number| format!("{kind}_{number}");
                tensors.iter().enumerate().map(move |(number, tensor)| (name(number), tensor))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> DataSet {
        DataSet { inputs: vec![tensor0(1f32), tensor1(&[2i64])], outputs: vec![tensor0(true)] }
    }

    /// A folder with this data set in each of the two layouts: 0 in `.pb` files, 1 in an `.npz` file.
    fn both() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let pb = folder.path().join("test_data_set_0");
        std::fs::create_dir(&pb).unwrap();
        for (name, tensor) in set().named() {
            save_tensor_file(pb.join(format!("{name}.pb")), "x", tensor).unwrap();
        }
        set().save(&folder, 1).unwrap();
        folder
    }

    #[track_caller]
    fn expect_error(folder: &Path, number: usize, expected: &[&str]) {
        let error = format!("{:#}", DataSet::load(folder, number).unwrap_err());
        assert!(expected.iter().all(|it| error.contains(it)), "{expected:?} in {error:?}");
    }

    #[test]
    fn both_layouts_have_the_same() {
        let folder = both();
        for number in [0, 1] {
            let DataSet { inputs, outputs } = DataSet::load(&folder, number).unwrap().unwrap();
            assert_eq!((inputs, outputs), (set().inputs, set().outputs));
        }
        assert!(DataSet::load(&folder, 2).unwrap().is_none());
    }

    #[test]
    fn an_output_is_saved_where_it_was() {
        let folder = both();
        let changed = DataSet { outputs: vec![tensor0(false)], ..set() };
        for (number, file) in
            [(0, "test_data_set_0/output_0.pb"), (1, "test_data_set_1.npz:output_0")]
        {
            let place = changed.save_output(folder.path(), number, 0, "y").unwrap();
            assert_eq!(place, folder.path().join(file).display().to_string());
            let DataSet { inputs, outputs } = DataSet::load(&folder, number).unwrap().unwrap();
            assert_eq!((inputs, outputs), (set().inputs, changed.outputs.clone()));
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn a_data_set_is_there_once() {
        let folder = both();
        std::fs::create_dir(folder.path().join("test_data_set_1")).unwrap();
        expect_error(folder.path(), 1, &["test_data_set_1 twice: as a folder and as an .npz file"]);
    }

    #[test]
    fn tensors_with_other_names() {
        let folder = both();
        let pb = |name: &str| folder.path().join(format!("test_data_set_0/{name}.pb"));
        for name in ["input_3", "output_2", "input_01", "x"] {
            std::fs::copy(pb("input_0"), pb(name)).unwrap();
            let (set, tensor) = (set(), tensor0(1f32));
            let named = set.named().chain([(name.to_string(), &tensor)]);
            save_npz(folder.path().join("test_data_set_1.npz"), named).unwrap();
            for (number, file) in [(0, "test_data_set_0"), (1, "test_data_set_1.npz")] {
                let expected = ["reading ", file, &format!("there is {name:?}"), "without a gap"];
                expect_error(folder.path(), number, &expected);
            }
            std::fs::remove_file(pb(name)).unwrap();
        }
    }

    #[test]
    fn files_that_cannot_be_read() {
        let folder = both();
        std::fs::write(folder.path().join("test_data_set_1.npz"), "nothing").unwrap();
        expect_error(folder.path(), 1, &["test_data_set_1.npz: ", "Zip"]);
        std::fs::write(folder.path().join("test_data_set_0/input_1.pb"), "nothing").unwrap();
        expect_error(folder.path(), 0, &["test_data_set_0: ", "input_1.pb"]);
    }

    #[test]
    fn the_array_that_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("test_data_set_0.npz")).unwrap();
        let mut archive = zip::ZipWriter::new(file);
        archive.start_file("input_0.npy", zip::write::SimpleFileOptions::default()).unwrap();
        archive.finish().unwrap();
        expect_error(folder.path(), 0, &["test_data_set_0.npz: ", "array \"input_0\": "]);
    }
}
