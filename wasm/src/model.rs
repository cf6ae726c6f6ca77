//! Models: bytes in, tensors out.

use std::sync::Arc;

use js_sys::Array;
use tract_openvino_ir::internal::tract_core::internal::*;
use tract_openvino_ir::tract_openvino::kernels::{KernelsRunnable, KernelsState, WithKernels};
use tract_openvino_ir::tract_openvino::tract_onnx::onnx;
use tract_openvino_ir::tract_openvino::tract_onnx::prelude::*;
use tract_openvino_ir::tract_openvino::{
    OpenVinoOptions, WithOpenVinoOptions, name_dimensions, set_input_shape, typed_model,
};
use tract_openvino_ir::{WithOpenVinoIr, ir};
use wasm_bindgen::prelude::*;

use crate::panics::exception;
use crate::tensor::{from_js, to_js, type_name};

/// A model that is ready to run.
#[wasm_bindgen]
pub struct Model {
    runnable: KernelsRunnable,
    ports: Arc<Ports>,
}

/// Runs of a model in a row, which keep its variables.
#[wasm_bindgen]
pub struct State {
    state: KernelsState,
    ports: Arc<Ports>,
}

/// The inputs and outputs of a model.
struct Ports {
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

struct Port {
    name: String,
    fact: TypedFact,
}

#[wasm_bindgen]
impl Model {
    /// A model of OpenVINO IR. `shapes` are pairs of an input and its shape, as `Ir::with_input_shape` takes them.
    #[wasm_bindgen(js_name = fromIr)]
    pub fn from_ir(xml: Vec<u8>, bin: Vec<u8>, shapes: Vec<String>) -> Result<Model, JsError> {
        let shapes = shapes.chunks_exact(2);
        let reader = shapes.fold(ir(), |ir, it| ir.with_input_shape(&it[0], &it[1]));
        reader.model_for_bytes(&xml, bin).and_then(Model::of).map_err(exception)
    }

    /// A model of ONNX, with OpenVINO's operators.
    #[wasm_bindgen(js_name = fromOnnx)]
    pub fn from_onnx(bytes: Vec<u8>, shapes: Vec<String>) -> Result<Model, JsError> {
        from_onnx(&bytes, &shapes).and_then(Model::of).map_err(exception)
    }

    /// `[name, type, shape]` of each input.
    pub fn inputs(&self) -> Array {
        self.ports.inputs.iter().map(Port::to_js).collect()
    }

    /// `[name, type, shape]` of each output.
    pub fn outputs(&self) -> Array {
        self.ports.outputs.iter().map(Port::to_js).collect()
    }

    /// Runs the model on tensors for inputs of these names. The outputs are in the order of the model.
    pub fn run(&self, names: Vec<String>, tensors: Vec<Array>) -> Result<Array, JsError> {
        self.state()?.run(names, tensors)
    }

    /// A new state.
    pub fn state(&self) -> Result<State, JsError> {
        let state = self.runnable.spawn().map_err(exception)?;
        Ok(State { state, ports: self.ports.clone() })
    }
}

impl Model {
    fn of(model: TypedModel) -> TractResult<Model> {
        let port = |outlet: &OutletId| -> TractResult<Port> {
            let node = model.node(outlet.node);
            let name = match model.outlet_label(*outlet) {
                Some(label) => label.to_string(),
                None if outlet.slot == 0 => node.name.clone(),
                None => format!("{}:{}", node.name, outlet.slot),
            };
            Ok(Port { name, fact: model.outlet_fact(*outlet)?.clone() })
        };
        let ports =
            |outlets: &[OutletId]| outlets.iter().map(port).collect::<TractResult<Vec<_>>>();
        let ports = Ports { inputs: ports(&model.inputs)?, outputs: ports(&model.outputs)? };
        let runnable = model.into_runnable_with_kernels()?;
        Ok(Model { runnable, ports: Arc::new(ports) })
    }
}

#[wasm_bindgen]
impl State {
    /// Runs the model, and keeps its variables for the next run.
    pub fn run(&mut self, names: Vec<String>, tensors: Vec<Array>) -> Result<Array, JsError> {
        let mut run = || -> TractResult<Array> {
            let inputs = self.ports.ordered(&names, &tensors)?;
            self.state.run(inputs)?.iter().map(|output| to_js(output)).collect()
        };
        run().map_err(exception)
    }
}

impl Ports {
    /// The tensors for inputs of these names, in the order of the model.
    fn ordered(&self, names: &[String], tensors: &[Array]) -> TractResult<TVec<TValue>> {
        let known =
            || self.inputs.iter().map(|it| format!("{:?}", it.name)).collect::<Vec<_>>().join(", ");
        if let Some(other) =
            names.iter().find(|name| self.inputs.iter().all(|it| it.name != **name))
        {
            bail!("the model has no input {other:?}: its inputs are {}", known());
        }
        let tensor = |input: &Port| -> TractResult<TValue> {
            let Port { name, fact } = input;
            let given = names.iter().zip(tensors).find(|(given, _)| *given == name);
            let (_, tensor) =
                given.with_context(|| format!("there is no tensor for input {name:?}"))?;
            let tensor = from_js(tensor).with_context(|| format!("input {name:?}"))?;
            let (found, expected) = (tensor.datum_type(), fact.datum_type);
            ensure!(
                found == expected || expected == DatumType::TDim && found == DatumType::I64,
                "input {name:?} is of type {}, but the tensor is of type {}",
                type_name(expected),
                type_name(found)
            );
            let fits =
                |(size, dim): (&usize, &TDim)| dim.to_i64().map_or(true, |dim| dim == *size as i64);
            ensure!(
                tensor.rank() == fact.rank()
                    && tensor.shape().iter().zip(fact.shape.iter()).all(fits),
                "input {name:?} is of shape {:?}, but the tensor is of shape {:?}",
                fact.shape,
                tensor.shape()
            );
            let tensor = match found == expected {
                true => tensor,
                false => tensor.cast_to_dt(expected)?.into_owned(),
            };
            Ok(tensor.into_tvalue())
        };
        self.inputs.iter().map(tensor).collect()
    }
}

impl Port {
    fn to_js(&self) -> Array {
        let dim = |dim: &TDim| match dim.to_i64() {
            Ok(size) => JsValue::from(size as f64),
            Err(_) => JsValue::from(dim.to_string()),
        };
        let shape: Array = self.fact.shape.iter().map(dim).collect();
        Array::of3(&(&*self.name).into(), &type_name(self.fact.datum_type).into(), &shape)
    }
}

/// Reads a model of ONNX.
fn from_onnx(bytes: &[u8], shapes: &[String]) -> TractResult<TypedModel> {
    let options = OpenVinoOptions::default().with_standard_gather(true);
    let reader = onnx().with_openvino_options(options).with_openvino_ir();
    let proto = reader.proto_model_for_read(&mut &*bytes);
    let mut proto = proto.context("this is not a model of ONNX")?;
    name_dimensions(&mut proto);
    typed_model(&reader, &proto, None, |model| {
        shapes.chunks_exact(2).try_for_each(|shape| set_shape(model, &shape[0], &shape[1]))
    })
}

/// Gives an input a shape, as `Ir::with_input_shape` does.
fn set_shape(model: &mut InferenceModel, input: &str, shape: &str) -> TractResult<()> {
    let mut outlets = model.input_outlets()?.iter();
    let has_name = |outlet: &OutletId| {
        model.outlet_label(*outlet).unwrap_or(&model.node(outlet.node).name) == input
    };
    let number = outlets.position(has_name);
    let number = number.with_context(|| format!("the model has no input {input:?}"))?;
    set_input_shape(model, number, input, shape)
}
