//! The runtimes, each by its normal way to run a model with inputs and get at the outputs.

use std::error::Error;

use openvino::{Core, DeviceType, ElementType, InferRequest, RwPropertyKey, Shape};
use ort::session::{Session, SessionInputValue, builder::GraphOptimizationLevel};
use ort::value::{DynTensor, Tensor as OrtTensor};
use tract_openvino::tract_onnx::prelude::multithread::{Executor, multithread_tract_scope};
use tract_openvino::tract_onnx::prelude::*;

use crate::models;
use gather_cases::workloads::{Operator, Workload};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A model that is loaded and has its inputs.
pub trait Peer {
    /// Runs the model once. Hands the bytes of the output to `look`.
    fn run(&mut self, look: &mut dyn FnMut(&[u8])) -> Result<()>;
}

pub struct Tract {
    model: Arc<TypedRunnableModel>,
    inputs: TVec<TValue>,
    executor: Executor,
}

impl Tract {
    pub fn new(model: Arc<TypedRunnableModel>, inputs: TVec<TValue>, threads: usize) -> Tract {
        let executor =
            if threads > 1 { Executor::multithread(threads) } else { Executor::SingleThread };
        Tract { model, inputs, executor }
    }
}

impl Peer for Tract {
    fn run(&mut self, look: &mut dyn FnMut(&[u8])) -> Result<()> {
        let (model, inputs) = (&self.model, &self.inputs);
        let outputs = multithread_tract_scope(self.executor.clone(), || model.run(inputs.clone()))?;
        look(outputs[0].as_bytes());
        Ok(())
    }
}

pub struct OpenVino {
    request: InferRequest,
    inputs: [openvino::Tensor; 2],
}

impl OpenVino {
    pub fn new(
        workload: &Workload,
        inputs: [&Tensor; 2],
        output: &[usize],
        threads: usize,
    ) -> Result<OpenVino> {
        let mut core = Core::new()?;
        let properties = [
            (RwPropertyKey::InferenceNumThreads, threads.to_string()),
            (RwPropertyKey::HintPerformanceMode, "LATENCY".into()),
            // Or it would pin the thread that calls it to a core, and with it what that thread starts.
            (RwPropertyKey::HintEnableCpuPinning, "NO".into()),
            // Or 32-bit floats would be computed with as 16-bit ones where the machine prefers that.
            (RwPropertyKey::HintInferencePrecision, "f32".into()),
        ];
        for (key, value) in properties {
            core.set_property(&DeviceType::CPU, &key, &value)?;
        }
        let axis = match workload.operator {
            Operator::Gather { axis, .. } => axis,
            Operator::GatherNd { .. } => 0,
        };
        let mut weights = openvino::Tensor::new(ElementType::U8, &Shape::new(&[8])?)?;
        weights.get_raw_data_mut()?.copy_from_slice(&(axis as i64).to_le_bytes());
        let ir = models::openvino_ir(workload, output);
        let model = core.read_model_from_buffer(ir.as_bytes(), Some(&weights))?;
        let request = core.compile_model(&model, DeviceType::CPU)?.create_infer_request()?;
        let [data, indices] = inputs.map(|tensor| -> Result<openvino::Tensor> {
            let element_type = match tensor.datum_type() {
                DatumType::F32 => ElementType::F32,
                DatumType::F16 => ElementType::F16,
                DatumType::I32 => ElementType::I32,
                DatumType::I64 => ElementType::I64,
                DatumType::U8 => ElementType::U8,
                other => unreachable!("no workload has {other:?}"),
            };
            let shape = models::with_an_axis(tensor.shape()).iter();
            let shape: Vec<i64> = shape.map(|dim| *dim as i64).collect();
            let mut copy = openvino::Tensor::new(element_type, &Shape::new(&shape)?)?;
            copy.get_raw_data_mut()?.copy_from_slice(tensor.as_bytes());
            Ok(copy)
        });
        Ok(OpenVino { request, inputs: [data?, indices?] })
    }
}

impl Peer for OpenVino {
    fn run(&mut self, look: &mut dyn FnMut(&[u8])) -> Result<()> {
        for (number, input) in self.inputs.iter().enumerate() {
            self.request.set_input_tensor_by_index(number, input)?;
        }
        self.request.infer()?;
        look(self.request.get_output_tensor()?.get_raw_data()?);
        Ok(())
    }
}

pub struct OnnxRuntime {
    session: Session,
    inputs: [DynTensor; 2],
}

impl OnnxRuntime {
    /// `None` where ONNX has no such operator.
    pub fn new(
        workload: &Workload,
        inputs: [&Tensor; 2],
        threads: usize,
    ) -> Result<Option<OnnxRuntime>> {
        let Some(model) = models::onnx(workload) else { return Ok(None) };
        let session = Session::builder()?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(threads)?
            .commit_from_memory(&model)?;
        let [data, indices] = inputs;
        let indices = indices.cast_to_dt(models::onnx_index_type(workload))?;
        let [data, indices] = [data, &*indices].map(|tensor| -> Result<DynTensor> {
            fn copy<T: Datum + ort::value::PrimitiveTensorElementType>(
                tensor: &Tensor,
            ) -> Result<DynTensor> {
                let elements =
                    tensor.to_plain_array_view::<T>()?.iter().cloned().collect::<Vec<T>>();
                Ok(OrtTensor::from_array((tensor.shape(), elements))?.upcast())
            }
            match tensor.datum_type() {
                DatumType::F32 => copy::<f32>(tensor),
                DatumType::F16 => copy::<half::f16>(tensor),
                DatumType::I32 => copy::<i32>(tensor),
                DatumType::I64 => copy::<i64>(tensor),
                DatumType::U8 => copy::<u8>(tensor),
                other => unreachable!("no workload has {other:?}"),
            }
        });
        Ok(Some(OnnxRuntime { session, inputs: [data?, indices?] }))
    }
}

impl Peer for OnnxRuntime {
    fn run(&mut self, look: &mut dyn FnMut(&[u8])) -> Result<()> {
        let inputs: Vec<(&str, SessionInputValue)> =
            ["data", "indices"].into_iter().zip(self.inputs.iter().map(|it| it.into())).collect();
        let outputs = self.session.run(inputs)?;
        let output = outputs[0].downcast_ref::<ort::value::DynTensorValueType>()?;
        let bytes = output.shape().iter().product::<i64>() as usize
            * match output.data_type() {
                ort::value::TensorElementType::Uint8 => 1,
                ort::value::TensorElementType::Float16 => 2,
                ort::value::TensorElementType::Int64 => 8,
                _ => 4,
            };
        // SAFETY: a tensor of plain elements in the memory of this process has so many bytes.
        look(unsafe { std::slice::from_raw_parts(output.data_ptr().cast(), bytes) });
        Ok(())
    }
}

/// The floor: a plain copy of the output into new memory.
pub struct Copy(pub Vec<u8>);

impl Peer for Copy {
    fn run(&mut self, look: &mut dyn FnMut(&[u8])) -> Result<()> {
        look(&std::hint::black_box(self.0.clone()));
        Ok(())
    }
}
