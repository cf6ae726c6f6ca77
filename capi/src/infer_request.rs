//! Runs of a compiled model, at once or on another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use tract_openvino_ir::internal::tract_core::plan::eval;
use tract_openvino_ir::internal::tract_core::prelude::multithread::multithread_tract_scope;
use tract_openvino_ir::internal::*;
use tract_openvino_ir::tract_openvino::kernels::{KernelsRunnable, KernelsState};

use crate::border::{
    Callback, Handle, InOut, Out, OutHandle, Text, give_structures, guarded, take_back,
};
use crate::compiled_model::CompiledModel;
use crate::error::{Error, Result};
use crate::handles::Object;
use crate::port::{self, PortHandle, Side};
use crate::tensor::Tensor;
use crate::types::{ov_profiling_info_list_t, ov_profiling_info_t, ov_status_e};

/// What runs a model on tensors.
pub(crate) struct InferRequest(Arc<Request>);

impl Object for InferRequest {
    const NAME: &'static str = "an infer request";
}

struct Request {
    model: Arc<CompiledModel>,
    state: Mutex<State>,
    /// Something has ended.
    ended: Condvar,
    is_cancelled: AtomicBool,
}

struct State {
    inputs: Vec<Arc<Tensor>>,
    outputs: Vec<Arc<Tensor>>,
    /// Whether an inference runs, or waits for a stream.
    is_running: bool,
    /// How many inferences have begun, and how many have ended with their callbacks.
    begun: u64,
    ended: u64,
    /// What the last inference came to.
    outcome: Result<()>,
    callback: Option<Callback>,
    /// The thread that calls the callback now.
    calls: Option<ThreadId>,
    /// The values of variables. None while an inference has it, and if there are no variables.
    kernels: Option<KernelsState>,
    /// What ran last, or will run.
    plan: Option<KernelsRunnable>,
    /// How long each node of it took, by its number: none for those that did not run.
    times: Vec<Option<Duration>>,
}

fn cancelled() -> Error {
    Error::new(ov_status_e::INFER_CANCELLED, "the inference was cancelled")
}

impl InferRequest {
    /// A request whose tensors are zeros. Those of open shapes are empty.
    ///
    /// # Errors
    ///
    /// An input or output is of a type that no tensor has.
    pub fn new(model: Arc<CompiledModel>) -> Result<InferRequest> {
        let tensors = |side: Side| {
            let tensors = model.sides(side).iter().map(|port| {
                let element_type = port.element_type;
                let open = || Error::general("the type of an input or output is not known");
                let element_type = element_type.ok_or_else(open)?;
                let dims = port.shape.0.as_deref().unwrap_or_default();
                let shape: Vec<usize> = dims.iter().map(|dim| dim.size().unwrap_or(0)).collect();
                Tensor::zeros(element_type, &shape).map(Arc::new)
            });
            tensors.collect::<Result<Vec<_>>>()
        };
        let plan = model.plan().cloned();
        let kernels = variables(&model)?;
        let state = State {
            inputs: tensors(Side::Input)?,
            outputs: tensors(Side::Output)?,
            is_running: false,
            begun: 0,
            ended: 0,
            outcome: Ok(()),
            callback: None,
            calls: None,
            kernels,
            plan,
            times: vec![],
        };
        Ok(InferRequest(Arc::new(Request {
            model,
            state: Mutex::new(state),
            ended: Condvar::new(),
            is_cancelled: AtomicBool::new(false),
        })))
    }
}

/// The values of the variables of a model, if it has any.
fn variables(model: &CompiledModel) -> Result<Option<KernelsState>> {
    let plan = model.plan().filter(|_| model.has_variables);
    Ok(plan.map(KernelsRunnable::spawn).transpose()?)
}

impl State {
    fn tensors(&mut self, side: Side) -> &mut Vec<Arc<Tensor>> {
        match side {
            Side::Input => &mut self.inputs,
            Side::Output => &mut self.outputs,
        }
    }
}

/// What an inference has to itself.
struct Begun {
    inputs: Vec<Arc<Tensor>>,
    outputs: Vec<Arc<Tensor>>,
    kernels: Option<KernelsState>,
    plan: Option<KernelsRunnable>,
    times: Vec<Option<Duration>>,
}

impl Request {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, while no inference runs.
    fn idle(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.is_running {
            return Err(Error::new(ov_status_e::REQUEST_BUSY, "the infer request is busy"));
        }
        Ok(state)
    }

    fn begin(&self) -> Result<Begun> {
        let mut state = self.idle()?;
        state.is_running = true;
        state.begun += 1;
        self.is_cancelled.store(false, Ordering::Relaxed);
        Ok(Begun {
            inputs: state.inputs.clone(),
            outputs: state.outputs.clone(),
            kernels: state.kernels.take(),
            plan: state.plan.clone(),
            times: std::mem::take(&mut state.times),
        })
    }

    /// Runs the model.
    fn run(&self, begun: &mut Begun) -> Result<()> {
        let mut shapes = vec![];
        let ports = self.model.sides(Side::Input).iter();
        for (number, (tensor, port)) in begun.inputs.iter().zip(ports).enumerate() {
            let shape = tensor.shape();
            if !port.shape.allows(&shape) {
                let text = format_args!(
                    "the tensor of input {number} has shape {shape:?}, but the input has shape {}",
                    port.shape
                );
                return Err(Error::general(text));
            }
            shapes.push(shape);
        }
        let plan = &*begun.plan.insert(self.model.plan_for(shapes)?);
        let mut inputs = tvec!();
        for (number, tensor) in begun.inputs.iter().enumerate() {
            let expected = plan.model().input_fact(number)?.datum_type;
            // A variable may keep what it is given.
            inputs.push(tensor.to_tract(expected, self.model.has_variables)?);
        }
        let mut fresh = None;
        let kernels = match &mut begun.kernels {
            Some(kernels) => kernels,
            None => fresh.insert(plan.spawn()?),
        };
        let is_profiled = self.model.is_profiled;
        begun.times.clear();
        begun.times.resize(plan.model().nodes().len(), None);
        let times = &mut begun.times;
        let eval = |context: &EvalContext<'_>,
                    state: Option<&mut (dyn OpState + 'static)>,
                    node: &TypedNode,
                    inputs: TVec<TValue>| {
            if self.is_cancelled.load(Ordering::Relaxed) {
                return Err(cancelled().into());
            }
            if !is_profiled {
                return eval(context, state, node, inputs);
            }
            let started = Instant::now();
            let outputs = eval(context, state, node, inputs);
            times[node.id] = Some(started.elapsed());
            outputs
        };
        let executor = self.model.executor.clone();
        let outputs = multithread_tract_scope(executor, || kernels.run_with_eval(inputs, eval));
        let outputs = outputs.map_err(|error| match self.is_cancelled.load(Ordering::Relaxed) {
            true => cancelled(),
            false => error.into(),
        })?;
        for (tensor, output) in begun.outputs.iter().zip(outputs) {
            tensor.set_output(output)?;
        }
        Ok(())
    }

    /// Takes back what the inference had.
    fn end(&self, begun: Begun, outcome: Result<()>) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.kernels = begun.kernels;
        state.plan = begun.plan;
        state.times = begun.times;
        state.is_running = false;
        state.outcome = outcome;
        state
    }

    fn infer(&self) -> Result<()> {
        let mut begun = self.begin()?;
        let outcome = guarded(|| self.run(&mut begun));
        let mut state = self.end(begun, outcome.clone());
        state.ended += 1;
        drop(state);
        self.ended.notify_all();
        outcome
    }

    fn start(self: &Arc<Self>) -> Result<()> {
        let begun = self.begin()?;
        let request = self.clone();
        if let Err(error) = self.model.start(Box::new(move || request.run_started(begun))) {
            // What the inference had is lost: a new state takes its place.
            let kernels = variables(&self.model);
            let mut state = self.lock();
            (state.is_running, state.outcome) = (false, Err(error.clone()));
            state.kernels = kernels?;
            state.ended += 1;
            return Err(error);
        }
        Ok(())
    }

    /// What a stream does.
    fn run_started(&self, mut begun: Begun) {
        let outcome = match self.is_cancelled.load(Ordering::Relaxed) {
            true => Err(cancelled()),
            false => guarded(|| self.run(&mut begun)),
        };
        let mut state = self.end(begun, outcome);
        let (callback, number) = (state.callback, state.begun);
        state.calls = Some(std::thread::current().id());
        drop(state);
        // It may start the next inference.
        if let Some(callback) = callback {
            callback.call();
        }
        let mut state = self.lock();
        state.calls = None;
        state.ended = state.ended.max(number);
        drop(state);
        self.ended.notify_all();
    }

    /// Waits until what has begun has ended, or for so long, and says what it came to. Whether it has ended is the other result.
    fn wait(&self, timeout: Option<Duration>) -> (bool, Result<()>) {
        let state = self.lock();
        // A callback would wait for itself.
        let is_callback = state.calls == Some(std::thread::current().id());
        let number = state.begun;
        let runs = |state: &mut State| state.ended < number && !is_callback;
        let state = match timeout {
            None => self.ended.wait_while(state, runs).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = self.ended.wait_timeout_while(state, timeout, runs);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        (state.ended >= number || is_callback, state.outcome.clone())
    }

    /// The port of a name, on either side.
    fn by_name(&self, name: &str) -> Result<(Side, usize)> {
        let find = |side: Side| {
            let ports = self.model.sides(side);
            let known_as = |port: &port::Port| port.aliases.iter().any(|it| it == name);
            let at = ports.iter().position(|port| port.has_name(name));
            at.or_else(|| ports.iter().position(known_as)).map(|index| (side, index))
        };
        find(Side::Input).or_else(|| find(Side::Output)).ok_or_else(|| {
            let sides = [Side::Input, Side::Output];
            let ports = sides.iter().flat_map(|side| self.model.sides(*side));
            port::no_port(ports, "input or output", name)
        })
    }

    fn by_index(&self, side: Side, index: usize) -> Result<(Side, usize)> {
        let index = port::checked(self.model.sides(side).len(), side, index, Error::general)?;
        Ok((side, index))
    }
}

/// Which tensor of a request is meant.
pub(crate) enum Which {
    Name(Text),
    Port(Handle<PortHandle>),
    Index(Side, usize),
    Only(Side),
}

impl Which {
    fn find(&self, request: &Request) -> Result<(Side, usize)> {
        match self {
            Which::Name(name) => request.by_name(name.get("name of a tensor")?),
            Which::Index(side, index) => request.by_index(*side, *index),
            Which::Only(side) => {
                port::only(request.model.sides(*side).len(), *side)?;
                Ok((*side, 0))
            }
            Which::Port(port) => {
                let port = port.get()?;
                if !request.model.is_port(&port) {
                    return Err(Error::general("the port is of another model"));
                }
                Ok((port.side, port.index))
            }
        }
    }
}

// What the functions of the interface do.

pub(crate) fn create(model: Handle<CompiledModel>, out: OutHandle<InferRequest>) -> Result<()> {
    out.check()?;
    out.write(InferRequest::new(model.get()?)?)
}

pub(crate) fn set_tensor(
    request: Handle<InferRequest>,
    which: Which,
    tensor: Handle<Tensor>,
) -> Result<()> {
    let request = &request.get()?.0;
    let tensor = tensor.get()?;
    let (side, index) = which.find(request)?;
    let mut state = request.idle()?;
    let port = &request.model.sides(side)[index];
    let (name, element_type, shape) = (side.name(), tensor.element_type(), tensor.shape());
    if port.element_type != Some(element_type) {
        let expected = port.element_type.map_or("unknown".into(), |it| it.to_string());
        return Err(Error::general(format_args!(
            "{name} {index} is of type {expected}, but the tensor is of type {element_type}"
        )));
    }
    if !port.shape.allows(&shape) {
        let expected = &port.shape;
        return Err(Error::general(format_args!(
            "{name} {index} has shape {expected}, but the tensor has shape {shape:?}"
        )));
    }
    state.tensors(side)[index] = tensor;
    Ok(())
}

pub(crate) fn get_tensor(
    request: Handle<InferRequest>,
    which: Which,
    out: OutHandle<Tensor>,
) -> Result<()> {
    let request = &request.get()?.0;
    out.check()?;
    let (side, index) = which.find(request)?;
    let tensor = request.idle()?.tensors(side)[index].clone();
    out.write(tensor)
}

pub(crate) fn infer(request: Handle<InferRequest>) -> Result<()> {
    request.get()?.0.infer()
}

pub(crate) fn start(request: Handle<InferRequest>) -> Result<()> {
    request.get()?.0.start()
}

pub(crate) fn cancel(request: Handle<InferRequest>) -> Result<()> {
    let request = &request.get()?.0;
    let state = request.lock();
    if state.is_running {
        request.is_cancelled.store(true, Ordering::Relaxed);
    }
    Ok(())
}

pub(crate) fn wait(request: Handle<InferRequest>) -> Result<()> {
    request.get()?.0.wait(None).1
}

pub(crate) fn wait_for(request: Handle<InferRequest>, milliseconds: i64) -> Result<()> {
    let request = &request.get()?.0;
    let negative =
        |_| Error::general(format_args!("the time is {milliseconds} ms, but must be 0 or more"));
    let time = Duration::from_millis(u64::try_from(milliseconds).map_err(negative)?);
    if request.lock().begun == 0 {
        return Err(Error::new(ov_status_e::RESULT_NOT_READY, "no inference was started"));
    }
    match request.wait(Some(time)) {
        (true, outcome) => outcome,
        (false, _) => {
            Err(Error::new(ov_status_e::RESULT_NOT_READY, "the inference has not ended yet"))
        }
    }
}

pub(crate) fn set_callback(
    request: Handle<InferRequest>,
    callback: Option<Callback>,
) -> Result<()> {
    let request = &request.get()?.0;
    let callback = callback.ok_or_else(|| Error::invalid("the pointer to a callback is null"))?;
    request.idle()?.callback = Some(callback);
    Ok(())
}

/// Waits for what runs, as it uses memory of the program. Its callback may use the request until then.
pub(crate) fn free(request: Handle<InferRequest>) -> Result<()> {
    if !request.is_null() {
        let _ = request.get()?.0.wait(None);
    }
    // A callback may have started another one.
    if let Some(request) = request.free()? {
        let _ = request.0.wait(None);
    }
    Ok(())
}

/// An entry for each node: what has run says how long it took.
pub(crate) fn get_profiling_info(
    request: Handle<InferRequest>,
    out: Out<ov_profiling_info_list_t>,
) -> Result<()> {
    let request = &request.get()?.0;
    out.check()?;
    let state = request.idle()?;
    let (plan, times) = (state.plan.clone(), state.times.clone());
    drop(state);
    let nodes = plan.as_ref().map_or(&[][..], |plan| plan.model().nodes());
    let names = nodes.iter().map(|node| (&*node.name, node.op.name()));
    let names: Vec<_> = names.collect();
    let texts: Vec<[&str; 3]> = names.iter().map(|(name, op)| [*name, &**op, &**op]).collect();
    let infos = give_structures(&texts, |number, [node_name, exec_type, node_type]| {
        let time = times.get(number).copied().flatten();
        let microseconds =
            time.map_or(0, |time| i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
        ov_profiling_info_t {
            status: if time.is_some() { EXECUTED } else { NOT_RUN },
            real_time: microseconds,
            cpu_time: microseconds,
            node_name,
            exec_type,
            node_type,
        }
    })?;
    out.write(ov_profiling_info_list_t { profiling_infos: infos, size: texts.len() })
}

const NOT_RUN: u32 = 0;
const EXECUTED: u32 = 2;

pub(crate) fn free_profiling_info(list: InOut<ov_profiling_info_list_t>) -> Result<()> {
    if let Some(value) = list.read() {
        take_back(value.profiling_infos);
        let profiling_infos = std::ptr::null_mut();
        list.write(ov_profiling_info_list_t { profiling_infos, size: 0 });
    }
    Ok(())
}
