//! A model that is ready to run, its streams, and the file that it is exported to.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_char;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use crc::{CRC_32_ISCSI, Crc};
use postcard::ser_flavors::ExtendFlavor;
use postcard::ser_flavors::crc::CrcModifier;
use serde::{Deserialize, Serialize};
use tract_openvino_ir::internal::tract_core::prelude::multithread::Executor;
use tract_openvino_ir::internal::*;
use tract_openvino_ir::tract_openvino::kernels::threads::{default_threads, executor};
use tract_openvino_ir::tract_openvino::kernels::{KernelsRunnable, WithKernels};

use crate::border::{Handle, List, Out, OutHandle, Property, Text, give_text};
use crate::error::{Error, Result};
use crate::handles::Object;
use crate::model::{Contents, Model, Origin, Source};
use crate::port::{self, HasPorts, Port, PortHandle, Side};
use crate::property::{self, AUTO_BATCH_TIMEOUT, Device, Properties};
use crate::recipe::{Shapes, Stage};

/// A model that is ready to run.
pub(crate) struct CompiledModel {
    /// The model as it was.
    contents: Contents,
    plans: Plans,
    /// Whether its runs depend on those before.
    pub has_variables: bool,
    /// Whether requests measure their nodes.
    pub is_profiled: bool,
    pub device: Device,
    properties: Mutex<Properties>,
    /// What one inference runs on.
    pub executor: Executor,
    streams: Arc<Streams>,
    threads: usize,
}

/// What runs a model.
enum Plans {
    One(KernelsRunnable),
    /// tract cannot type the model while sizes are open: one for each of the shapes of inputs that were met last, from the last.
    OfShapes(Mutex<Vec<(Vec<Vec<usize>>, KernelsRunnable)>>),
}

/// Each plan has weights of its own.
const MOST_PLANS: usize = 8;

impl Object for CompiledModel {
    const NAME: &'static str = "a compiled model";
}

/// Executors by their numbers of threads: all models that have as many share one.
static EXECUTORS: LazyLock<Mutex<HashMap<usize, Executor>>> = LazyLock::new(Mutex::default);

fn shared_executor(threads: usize) -> Executor {
    let mut all = EXECUTORS.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry(threads).or_insert_with(|| executor(threads)).clone()
}

impl CompiledModel {
    /// Makes a model ready to run.
    ///
    /// # Errors
    ///
    /// It is not supported.
    pub fn new(model: &Model, device: Device, properties: Properties) -> Result<CompiledModel> {
        let contents = model.contents();
        let has_variables = contents.source.has_variables();
        let plans = match &contents.read.typed {
            Ok(typed) => Plans::One(typed.clone().into_runnable_with_kernels()?),
            Err(_) if !has_variables && contents.has_model_of_some_sizes() => {
                Plans::OfShapes(Mutex::default())
            }
            Err(error) => return Err(error.clone()),
        };
        let all = match properties.number(device, "INFERENCE_NUM_THREADS") {
            None | Some(0) => default_threads()?,
            Some(threads) => threads,
        };
        let hint = properties.get(Some(device), "PERFORMANCE_HINT");
        let of_hint = if hint.as_deref() == Some("THROUGHPUT") { all } else { 1 };
        let streams = match properties.number(device, "NUM_STREAMS") {
            Some(streams) if properties.is_set("NUM_STREAMS") => streams.max(1),
            _ => match properties.number(device, "PERFORMANCE_HINT_NUM_REQUESTS") {
                None | Some(0) => of_hint,
                Some(requests) => of_hint.min(requests),
            },
        };
        Ok(CompiledModel {
            contents,
            plans,
            has_variables,
            is_profiled: properties.is_yes(device, "PERF_COUNT"),
            device,
            properties: Mutex::new(properties),
            executor: shared_executor((all / streams).max(1)),
            streams: Streams::new(streams),
            threads: all,
        })
    }

    /// What runs the model, whatever the shapes of its inputs are. None if these must be known.
    pub fn plan(&self) -> Option<&KernelsRunnable> {
        match &self.plans {
            Plans::One(plan) => Some(plan),
            Plans::OfShapes(_) => None,
        }
    }

    /// What runs the model on inputs of these shapes.
    ///
    /// # Errors
    ///
    /// The model does not allow them.
    pub fn plan_for(&self, shapes: Vec<Vec<usize>>) -> Result<KernelsRunnable> {
        let plans = match &self.plans {
            Plans::One(plan) => return Ok(plan.clone()),
            Plans::OfShapes(plans) => plans,
        };
        let mut plans = plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = match plans.iter().position(|(known, _)| *known == shapes) {
            Some(known) => plans.remove(known).1,
            None => {
                let typed = self.contents.with_shapes(&shapes)?;
                plans.truncate(MOST_PLANS - 1);
                typed.into_runnable_with_kernels()?
            }
        };
        plans.insert(0, (shapes, plan.clone()));
        Ok(plan)
    }

    /// Its inputs or its outputs.
    pub fn sides(&self, side: Side) -> &[Port] {
        match side {
            Side::Input => &self.contents.read.inputs,
            Side::Output => &self.contents.read.outputs,
        }
    }

    /// Whether a port of a model is one of this one, which was compiled from it.
    pub fn is_port(&self, port: &PortHandle) -> bool {
        port.owner.origin() == self.origin() && port.index < self.sides(port.side).len()
    }

    fn properties(&self) -> MutexGuard<'_, Properties> {
        self.properties.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a job on the next stream that is free.
    ///
    /// # Errors
    ///
    /// There is no thread for it.
    pub fn start(&self, job: Job) -> Result<()> {
        self.streams.start(job)
    }
}

impl HasPorts for CompiledModel {
    fn ports(&self, side: Side) -> Vec<Port> {
        self.sides(side).to_vec()
    }

    fn origin(&self) -> usize {
        self.contents.source.origin_number()
    }
}

impl Drop for CompiledModel {
    fn drop(&mut self) {
        self.streams.close();
    }
}

// Streams.

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Threads that run what requests start.
struct Streams {
    most: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Streams {
    fn new(most: usize) -> Arc<Streams> {
        Arc::new(Streams { most, queue: Mutex::default(), changed: Condvar::new() })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, job: Job) -> Result<()> {
        let mut queue = self.queue();
        if queue.idle <= queue.jobs.len() && queue.threads < self.most {
            let streams = self.clone();
            let thread = std::thread::Builder::new().name("openvino_c stream".into());
            let started = thread.spawn(move || streams.work());
            if let Err(error) = started
                && queue.threads == 0
            {
                let text = format_args!("there is no thread for an inference: {error}");
                return Err(Error::general(text));
            }
            queue.threads += 1;
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.changed.notify_one();
        Ok(())
    }

    /// What a thread does until the model is no more.
    fn work(&self) {
        loop {
            let mut queue = self.queue();
            queue.idle += 1;
            let job = loop {
                if let Some(job) = queue.jobs.pop_front() {
                    break job;
                }
                if queue.is_closed {
                    return;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            queue.idle -= 1;
            drop(queue);
            job();
        }
    }

    /// Threads end when nothing is left to do. Nobody waits for them: the last request may be freed on one.
    fn close(&self) {
        self.queue().is_closed = true;
        self.changed.notify_all();
    }
}

// The file of an export.

/// How the file begins. An [`Export`] follows as the crate postcard writes it, and the sum of its bytes.
const MAGIC: &[u8] = b"tract-openvino compiled model 2\n";

const SUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// A model as it was read, and what a program has made of it.
#[derive(Serialize, Deserialize)]
struct Export<'a> {
    shapes: Shapes,
    stages: Vec<Arc<Stage>>,
    properties: Properties,
    #[serde(borrow, with = "serde_bytes")]
    model: Cow<'a, [u8]>,
    #[serde(borrow, with = "serde_bytes")]
    weights: Option<Cow<'a, [u8]>>,
}

impl CompiledModel {
    /// The bytes of an export.
    fn export(&self) -> Result<Vec<u8>> {
        let Contents { source, shapes, stages, .. } = &self.contents;
        let (model, weights) = match &source.origin {
            Origin::Memory { model, weights } => {
                (Cow::Borrowed(&**model), weights.as_deref().map(Cow::Borrowed))
            }
            Origin::Files { model, weights } => {
                let read = |path: &PathBuf| -> TractResult<Cow<[u8]>> {
                    let doing = || format!("reading {}", path.display());
                    Ok(fs::read(path).with_context(doing)?.into())
                };
                (read(model)?, weights.as_ref().map(read).transpose()?)
            }
        };
        let (shapes, stages) = (shapes.clone(), stages.clone());
        let properties = self.properties().clone();
        let export = Export { shapes, stages, properties, model, weights };
        let out = ExtendFlavor::new(MAGIC.to_vec());
        let out = CrcModifier::new(out, SUM.digest());
        postcard::serialize_with_flavor(&export, out).map_err(Error::general)
    }

    /// The model of an export.
    ///
    /// # Errors
    ///
    /// The bytes are no export of this library, or are damaged.
    pub fn import(bytes: &[u8], device: Device, properties: &Properties) -> Result<CompiledModel> {
        let bytes = bytes.strip_prefix(MAGIC).ok_or_else(|| {
            Error::general(
                "this is no model that ov_compiled_model_export_model of this version has written. What OpenVINO exports is of its own \
                 operators: read the model again, and compile it",
            )
        })?;
        let damaged =
            |error| Error::general(format_args!("the exported model is damaged: {error}"));
        let export: Export = postcard::from_bytes_crc32(bytes, SUM.digest()).map_err(damaged)?;
        let mut all = Properties::default();
        for (key, value) in export.properties.iter() {
            all.set(Some(device), key, value)?;
        }
        let source =
            Source::of_bytes((*export.model).into(), export.weights.as_deref().map(Into::into))?;
        let contents = Contents::of(Arc::new(source), export.shapes, export.stages)?;
        CompiledModel::new(&Model::of(contents), device, properties.clone().with(&all))
    }
}

// What the functions of the interface do.

pub(crate) fn port_by_index(
    model: Handle<CompiledModel>,
    side: Side,
    index: usize,
    out: OutHandle<PortHandle>,
) -> Result<()> {
    port::by_index(model.get()?, side, index, Error::general, out)
}

/// The model as it was compiled: it says the same of inputs and outputs as that which runs.
pub(crate) fn get_runtime_model(model: Handle<CompiledModel>, out: OutHandle<Model>) -> Result<()> {
    out.check()?;
    out.write(Model::of(model.get()?.contents.clone()))
}

pub(crate) fn set_properties(
    model: Handle<CompiledModel>,
    count: usize,
    properties: List<Property>,
) -> Result<()> {
    let model = model.get()?;
    let properties = properties.get("properties")?;
    if count == 0 {
        return Err(Error::invalid("there are no properties"));
    }
    let properties = property::texts(properties)?;
    let can_be_set = |key: &str| model.device == Device::Auto && key == AUTO_BATCH_TIMEOUT;
    if let Some((key, _)) = properties.iter().find(|(key, _)| !can_be_set(key)) {
        return Err(Error::general(format_args!(
            "property {key:?} of a compiled model cannot be set: give it when the model is compiled"
        )));
    }
    model.properties().set_all(Some(model.device), &properties)
}

/// What a compiled model says beside the properties that it was compiled with.
const READ_ONLY: [&str; 4] = [
    "SUPPORTED_PROPERTIES",
    "NETWORK_NAME",
    "OPTIMAL_NUMBER_OF_INFER_REQUESTS",
    "EXECUTION_DEVICES",
];

pub(crate) fn get_property(
    model: Handle<CompiledModel>,
    key: Text,
    out: Out<*mut c_char>,
) -> Result<()> {
    let model = model.get()?;
    let key = key.get("key of a property")?;
    out.check()?;
    let streams = model.streams.most.to_string();
    let value = match key {
        "SUPPORTED_PROPERTIES" => [&READ_ONLY[..], &Properties::of_model()].concat().join(" "),
        "NETWORK_NAME" => model.contents.read.name.clone(),
        "OPTIMAL_NUMBER_OF_INFER_REQUESTS" | "NUM_STREAMS" => streams,
        "EXECUTION_DEVICES" => Device::Cpu.name().into(),
        "INFERENCE_NUM_THREADS" => model.threads.to_string(),
        "LOADED_FROM_CACHE" => "NO".into(),
        "MULTI_DEVICE_PRIORITIES" if model.device == Device::Auto => Device::Cpu.name().into(),
        key if Properties::of_model().contains(&key) || model.device == Device::Auto => {
            let value = model.properties().get(Some(model.device), key);
            value.ok_or_else(|| no_property(key))?
        }
        key => return Err(no_property(key)),
    };
    out.write(give_text(&value)?)
}

fn no_property(key: &str) -> Error {
    Error::general(format_args!("a compiled model has no property {key:?}"))
}

pub(crate) fn export(model: Handle<CompiledModel>, path: Text) -> Result<()> {
    let model = model.get()?;
    let path = path.path("path of an export")?;
    let doing = || format!("writing {}", path.display());
    fs::write(&path, model.export()?).with_context(doing)?;
    Ok(())
}
