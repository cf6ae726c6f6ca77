//! Model folders in the layout of the ONNX backend tests, for tract.
//!
//! ```text
//! <folder>/model.onnx
//! <folder>/test_data_set_0/input_0.pb  input_1.pb ...  output_0.pb ...
//! <folder>/test_data_set_1/...
//! ```
//!
//! Each `.pb` file is a serialised `TensorProto`, one for each input and output of the graph, in
//! the graph's order.

use std::fmt;
use std::path::{Path, PathBuf};

use tract_onnx::data_resolver::MmapDataResolver;
use tract_onnx::pb::{ModelProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx::tensor::{load_tensor, proto_from_reader};
use tract_onnx::tract_hir::internal::{Fact, Factoid, TDim, TractErrorContext, bail, ensure};

/// A model folder.
#[derive(Debug, Clone)]
pub struct Case {
    /// The name of the folder.
    pub name: String,
    /// The model, not yet read by tract.
    pub model: ModelProto,
    /// The data sets, by number.
    pub data_sets: Vec<DataSet>,
}

/// A `test_data_set_N` folder.
#[derive(Debug, Clone, Default)]
pub struct DataSet {
    /// The graph's inputs, as they stand in the files.
    pub input_protos: Vec<TensorProto>,
    /// The graph's inputs.
    pub inputs: Vec<Tensor>,
    /// The outputs that the model ought to compute.
    pub outputs: Vec<Tensor>,
}

impl Case {
    /// Reads a folder.
    pub fn load(folder: impl AsRef<Path>) -> TractResult<Case> {
        let folder = folder.as_ref();
        let name = folder.file_name().context("a model folder has a name")?;
        let model = Onnx::default().proto_model_for_path(folder.join("model.onnx"))?;
        let mut data_sets = vec![];
        loop {
            let data_set = folder.join(format!("test_data_set_{}", data_sets.len()));
            if !data_set.is_dir() {
                break;
            }
            data_sets.push(DataSet::load(&data_set)?);
        }
        ensure!(!data_sets.is_empty(), "{folder:?} has no test_data_set_0");
        let graph = model.graph.as_ref().context("the model has a graph")?;
        let is_fed = |name| graph.initializer.iter().all(|initializer| initializer.name != name);
        let fed = graph.input.iter().filter(|input| is_fed(&*input.name)).count();
        for (number, data_set) in data_sets.iter().enumerate() {
            let [inputs, outputs] = [data_set.inputs.len(), data_set.outputs.len()];
            ensure!(
                inputs == fed && outputs == graph.output.len(),
                "{folder:?} has {fed} inputs and {} outputs, but test_data_set_{number} has \
                 {inputs} and {outputs}",
                graph.output.len()
            );
        }
        Ok(Case { name: name.to_string_lossy().into_owned(), model, data_sets })
    }
}

/// The reader type of tract.
pub use tract_onnx::Onnx;

impl DataSet {
    fn load(folder: &Path) -> TractResult<DataSet> {
        let protos = |kind: &str| -> TractResult<Vec<TensorProto>> {
            (0..)
                .map(|k| folder.join(format!("{kind}_{k}.pb")))
                .take_while(|path| path.exists())
                .map(|path| read_proto(&path))
                .collect()
        };
        let tensors =
            |protos: &[TensorProto]| protos.iter().map(tensor).collect::<TractResult<Vec<_>>>();
        let input_protos = protos("input")?;
        let inputs = tensors(&input_protos).with_context(|| format!("in {folder:?}"))?;
        let outputs = tensors(&protos("output")?).with_context(|| format!("in {folder:?}"))?;
        Ok(DataSet { input_protos, inputs, outputs })
    }
}

fn read_proto(path: &Path) -> TractResult<TensorProto> {
    let file = std::fs::File::open(path).with_context(|| format!("opening {path:?}"))?;
    proto_from_reader(file).with_context(|| format!("reading {path:?}"))
}

fn tensor(proto: &TensorProto) -> TractResult<Tensor> {
    load_tensor(&MmapDataResolver, proto, None)
}

/// Reads one tensor from a `.pb` file.
pub fn load_tensor_file(path: impl AsRef<Path>) -> TractResult<Tensor> {
    tensor(&read_proto(path.as_ref())?)
}

/// The model folders directly below `root`, by name.
pub fn find(root: impl AsRef<Path>) -> TractResult<Vec<PathBuf>> {
    let root = root.as_ref();
    let entries = std::fs::read_dir(root).with_context(|| format!("listing {root:?}"))?;
    let mut folders = vec![];
    for entry in entries {
        let path = entry?.path();
        if path.join("model.onnx").is_file() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

/// How far tract takes a model before it runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// As it was read: types and shapes may be unknown.
    Loaded,
    /// With types and shapes.
    Typed,
    /// Simplified.
    Decluttered,
    /// With the operators replaced by those that run fastest.
    Optimized,
}

impl Stage {
    /// The stages, in the order in which a model goes through them.
    pub const ALL: [Stage; 4] = [Stage::Loaded, Stage::Typed, Stage::Decluttered, Stage::Optimized];
}

/// A model that tract can run, with what tract knows of its outputs.
pub struct StagedModel {
    /// The facts of the inputs, for the binding of their symbols.
    inputs: Vec<TVec<TDim>>,
    /// The facts of the outputs: type and dimensions, as far as they are known.
    outputs: Vec<(Option<DatumType>, Option<TVec<TDim>>)>,
    plan: Plan,
}

enum Plan {
    Inference(Box<InferenceModel>),
    Typed(Arc<TypedRunnableModel>),
}

impl StagedModel {
    /// Takes a model to a stage.
    pub fn new(model: InferenceModel, stage: Stage) -> TractResult<StagedModel> {
        if stage == Stage::Loaded {
            let mut analysed = model.clone();
            analysed.analyse(false)?;
            let inputs = facts(&analysed, analysed.input_outlets()?)?;
            let inputs = inputs.iter().map(|fact| fact.shape.concretize().unwrap_or_default());
            let outputs = facts(&analysed, analysed.output_outlets()?)?;
            let outputs = outputs.iter().map(|fact| (fact.datum_type(), fact.shape.concretize()));
            return Ok(StagedModel {
                inputs: inputs.collect(),
                outputs: outputs.collect(),
                plan: Plan::Inference(Box::new(model)),
            });
        }
        StagedModel::from_typed(model.into_typed()?, stage)
    }

    /// Takes a model that is typed already to a stage.
    pub fn from_typed(model: TypedModel, stage: Stage) -> TractResult<StagedModel> {
        let model = match stage {
            Stage::Loaded | Stage::Typed => model,
            Stage::Decluttered => model.into_decluttered()?,
            Stage::Optimized => model.into_optimized()?,
        };
        let inputs = facts(&model, model.input_outlets()?)?;
        let inputs = inputs.iter().map(|fact| fact.shape.to_tvec());
        let outputs = facts(&model, model.output_outlets()?)?;
        let outputs =
            outputs.iter().map(|fact| (Some(fact.datum_type), Some(fact.shape.to_tvec())));
        let (inputs, outputs) = (inputs.collect(), outputs.collect());
        Ok(StagedModel { inputs, outputs, plan: Plan::Typed(model.into_runnable()?) })
    }

    /// Runs the model.
    pub fn run(&self, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
        let values = inputs.iter().cloned().map(TValue::from).collect();
        let outputs = match &self.plan {
            Plan::Inference(model) => {
                // tract runs a model that is not typed on the very shapes of its inputs only.
                let mut model = (**model).clone();
                for (number, input) in inputs.iter().enumerate() {
                    model.set_input_fact(number, InferenceFact::dt_shape_from_tensor(input))?;
                }
                model.into_runnable()?.run(values)?
            }
            Plan::Typed(plan) => plan.run(values)?,
        };
        Ok(outputs.into_iter().map(|output| output.into_tensor()).collect())
    }

    /// Checks that what tract knew of the outputs before it ran is complete and holds for outputs
    /// that come from these inputs.
    pub fn check_facts(&self, inputs: &[Tensor], outputs: &[Tensor]) -> TractResult<()> {
        let mut symbols = SymbolValues::default();
        for (dims, tensor) in self.inputs.iter().zip(inputs) {
            for (dim, size) in dims.iter().zip(tensor.shape()) {
                if let TDim::Sym(symbol) = dim {
                    symbols.set(symbol, *size as i64);
                }
            }
        }
        ensure!(self.outputs.len() == outputs.len(), "{} output facts", self.outputs.len());
        for (number, (fact, output)) in self.outputs.iter().zip(outputs).enumerate() {
            let (dt, dims) = fact;
            ensure!(
                *dt == Some(output.datum_type()),
                "output {number} is of type {:?}, its fact says {dt:?}",
                output.datum_type()
            );
            let Some(dims) = dims else { bail!("the shape of output {number} is not known") };
            // A symbol that is not of the inputs is one that an operator gives a value when it runs.
            for (dim, size) in dims.iter().zip(output.shape()) {
                if let TDim::Sym(symbol) = dim
                    && symbols.get(symbol).is_none()
                {
                    symbols.set(symbol, *size as i64);
                }
            }
            // Of a dimension like N+1 whose N no input has on its own, nothing can be said.
            let agrees = |(dim, size): (&TDim, &usize)| match dim.eval(&symbols) {
                TDim::Val(known) => usize::try_from(known) == Ok(*size),
                _ => true,
            };
            ensure!(
                dims.len() == output.rank() && dims.iter().zip(output.shape()).all(agrees),
                "output {number} has shape {:?}, its fact says {dims:?}",
                output.shape()
            );
        }
        Ok(())
    }
}

fn facts<'a, F: Fact + Clone, O>(
    model: &'a Graph<F, O>,
    outlets: &'a [OutletId],
) -> TractResult<Vec<&'a F>>
where
    O: fmt::Debug + fmt::Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    outlets.iter().map(|outlet| model.outlet_fact(*outlet)).collect()
}

/// Where two tensors differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// In the element type.
    Type { expected: DatumType, got: DatumType },
    /// In the shape.
    Shape { expected: Vec<usize>, got: Vec<usize> },
    /// In an element, the first that differs.
    Element { position: Vec<usize>, expected: String, got: String },
}

impl std::error::Error for Difference {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Type { expected, got } => {
                write!(f, "element type {expected:?} expected, got {got:?}")
            }
            Difference::Shape { expected, got } => {
                write!(f, "shape {expected:?} expected, got {got:?}")
            }
            Difference::Element { position, expected, got } => {
                write!(f, "{expected} expected at {position:?}, got {got}")
            }
        }
    }
}

/// Compares two tensors exactly: equal numbers, and NaN where NaN is expected.
pub fn compare(expected: &Tensor, got: &Tensor) -> Result<(), Difference> {
    let (dt, shape) = (expected.datum_type(), expected.shape());
    if dt != got.datum_type() {
        return Err(Difference::Type { expected: dt, got: got.datum_type() });
    }
    if shape != got.shape() {
        return Err(Difference::Shape { expected: shape.to_vec(), got: got.shape().to_vec() });
    }
    let position = match dt {
        DatumType::F16 => {
            first_difference::<f16>(expected, got, |a, b| a == b || a.is_nan() && b.is_nan())
        }
        DatumType::F32 => {
            first_difference::<f32>(expected, got, |a, b| a == b || a.is_nan() && b.is_nan())
        }
        DatumType::F64 => {
            first_difference::<f64>(expected, got, |a, b| a == b || a.is_nan() && b.is_nan())
        }
        DatumType::String => first_difference::<String>(expected, got, |a, b| a == b),
        DatumType::TDim => first_difference::<TDim>(expected, got, |a, b| a == b),
        DatumType::Blob => first_difference::<Blob>(expected, got, |a, b| a == b),
        _ => {
            let bytes = |tensor| Tensor::as_bytes(tensor).chunks_exact(dt.size_of());
            // All at once first: element by element takes long for large tensors.
            if expected.as_bytes() == got.as_bytes() {
                None
            } else {
                bytes(expected).zip(bytes(got)).position(|(a, b)| a != b)
            }
        }
    };
    let Some(number) = position else { return Ok(()) };
    let element = |tensor: &Tensor| {
        let dump = tensor.nth(number).and_then(|element| element.dump(true));
        // tract writes the shape first, then a comma; a scalar's is empty.
        dump.map_or_else(|error| error.to_string(), |dump| dump.trim_start_matches(',').into())
    };
    Err(Difference::Element {
        position: coordinates(number, shape),
        expected: element(expected),
        got: element(got),
    })
}

fn first_difference<T: Datum>(
    expected: &Tensor,
    got: &Tensor,
    same: impl Fn(&T, &T) -> bool,
) -> Option<usize> {
    let expected = expected.to_plain_array_view::<T>().expect("the type was compared");
    let got = got.to_plain_array_view::<T>().expect("the type was compared");
    expected.iter().zip(got.iter()).position(|(expected, got)| !same(expected, got))
}

/// The coordinates of element `number` in row-major order.
fn coordinates(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut position = vec![0; shape.len()];
    for (coordinate, dim) in position.iter_mut().zip(shape).rev() {
        *coordinate = number % dim;
        number /= dim;
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compare_finds_the_first_difference() {
        let expected = tensor2(&[[1f32, f32::NAN, 3.], [4., 5., 6.]]);
        assert_eq!(compare(&expected, &expected), Ok(()));
        let got = tensor2(&[[1f32, f32::NAN, 3.], [4., 7., 8.]]);
        assert_eq!(
            compare(&expected, &got).unwrap_err().to_string(),
            "F32 5 expected at [1, 1], got F32 7"
        );
        assert_eq!(
            compare(&expected, &tensor1(&[1f32])).unwrap_err().to_string(),
            "shape [2, 3] expected, got [1]"
        );
        assert_eq!(
            compare(&expected, &tensor1(&[1i32])).unwrap_err().to_string(),
            "element type F32 expected, got I32"
        );
        assert!(compare(&tensor1(&[1u8, 2]), &tensor1(&[1u8, 3])).is_err());
        assert!(compare(&tensor1(&["a".to_string()]), &tensor1(&["b".to_string()])).is_err());
    }
}
