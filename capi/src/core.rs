//! The core: versions, devices, what reads and compiles models.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tract_openvino_ir::tract_openvino::kernels::threads::default_threads;

use crate::border::{
    self, Bytes, Handle, InOut, List, Out, OutHandle, Property, Text, give_structures, give_text,
    take_back,
};
use crate::compiled_model::CompiledModel;
use crate::error::{self, Error, Result};
use crate::handles::Object;
use crate::model::{Model, Source};
use crate::property::{self, Device, Properties};
use crate::tensor::Tensor;
use crate::types::*;

/// What a program reads and compiles models with.
#[derive(Debug, Default)]
pub(crate) struct Core(Mutex<Settings>);

/// The properties of the devices, and of the core itself.
#[derive(Debug, Default)]
struct Settings {
    devices: BTreeMap<Device, DeviceSettings>,
    own: Properties,
}

/// The properties of a device. They are checked when the device is first used, and afterwards when they are set: OpenVINO loads a device
/// only then, and knows nothing of its properties before.
#[derive(Debug, Default)]
struct DeviceSettings {
    is_used: bool,
    /// What was set before, by the keys.
    unchecked: BTreeMap<String, String>,
    properties: Properties,
}

impl Settings {
    /// Sets properties of a device, by their keys.
    ///
    /// # Errors
    ///
    /// The device was used, and has none of a key, or it does not take a value. Nothing is set then.
    fn set(&mut self, device: Device, properties: &[(&str, &str)]) -> Result<()> {
        let settings = self.devices.entry(device).or_default();
        if settings.is_used {
            return settings.properties.set_all(Some(device), properties);
        }
        let owned = properties.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        settings.unchecked.extend(owned);
        Ok(())
    }

    /// The properties of a device that is used now.
    ///
    /// # Errors
    ///
    /// There is none of a key that was set before, or it does not take the value. The device stays unused, so that another may be set.
    fn properties(&mut self, device: Device) -> Result<Properties> {
        let settings = self.devices.entry(device).or_default();
        let unchecked = settings.unchecked.iter().map(|(key, value)| (&**key, &**value));
        settings.properties.set_all(Some(device), &unchecked.collect::<Vec<_>>())?;
        settings.unchecked.clear();
        settings.is_used = true;
        Ok(settings.properties.clone())
    }
}

impl Object for Core {
    const NAME: &'static str = "a core";
}

/// The version of the interface, which programs look at, and of what is behind it.
const VERSION: &str = concat!("2026.4.1-tract-openvino-", env!("CARGO_PKG_VERSION"));
const DESCRIPTION: &str = "OpenVINO Runtime";

impl Core {
    fn lock(&self) -> MutexGuard<'_, Settings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn properties(&self, device: Device) -> Result<Properties> {
        self.lock().properties(device)
    }

    fn compile(
        &self,
        model: &Model,
        device: Device,
        properties: &[Property],
    ) -> Result<CompiledModel> {
        let mut all = self.properties(device)?;
        all.set_all(Some(device), &property::texts(properties)?)?;
        CompiledModel::new(model, device, all)
    }
}

/// The device that a program names. No name at all leaves the choice.
fn device(name: &Text) -> Result<Device> {
    name.optional("name of a device")?.map_or(Ok(Device::Auto), Device::of)
}

// What the functions of the interface do.

pub(crate) fn version(out: Out<ov_version_t>) -> Result<()> {
    out.check()?;
    out.write(ov_version_t {
        buildNumber: give_text(VERSION)?,
        description: give_text(DESCRIPTION)?,
    })
}

pub(crate) fn free_version(version: InOut<ov_version_t>) -> Result<()> {
    if let Some(value) = version.read() {
        take_back(value.buildNumber);
        take_back(value.description);
        let null = std::ptr::null();
        version.write(ov_version_t { buildNumber: null, description: null });
    }
    Ok(())
}

pub(crate) fn create(out: OutHandle<Core>) -> Result<()> {
    out.write(Core::default())
}

/// The file lists the libraries of devices, of which there are none here: it is only looked for.
pub(crate) fn create_with_config(path: Text, out: OutHandle<Core>) -> Result<()> {
    out.check()?;
    let path = path.path("path of a configuration")?;
    if !path.as_os_str().is_empty() && !path.exists() {
        return Err(Error::general(format_args!("there is no file {}", path.display())));
    }
    create(out)
}

/// Frees a core, and forgets the last error.
pub(crate) fn free(core: Handle<Core>) -> Result<()> {
    error::forget();
    border::free(core)
}

pub(crate) fn read_model(
    core: Handle<Core>,
    model: Text,
    weights: Text,
    out: OutHandle<Model>,
) -> Result<()> {
    core.get()?;
    out.check()?;
    let model = model.path("path of a model")?;
    let weights = if weights.is_null() { None } else { Some(weights.path("path of weights")?) };
    let weights = weights.filter(|path| !path.as_os_str().is_empty());
    out.write(Model::new(Source::of_file(&model, weights.as_deref())?)?)
}

pub(crate) fn read_model_from_memory(
    core: Handle<Core>,
    model: Bytes,
    weights: Handle<Tensor>,
    out: OutHandle<Model>,
) -> Result<()> {
    core.get()?;
    out.check()?;
    let model = model.get("text of a model")?;
    if model.is_empty() {
        return Err(Error::invalid("the text of a model is empty"));
    }
    // A copy, so that the program may free its memory.
    let weights = match weights.is_null() {
        true => None,
        false => Some(weights.get()?.to_bytes()?),
    };
    out.write(Model::new(Source::of_bytes(model.into(), weights)?)?)
}

pub(crate) fn compile(
    core: Handle<Core>,
    model: Handle<Model>,
    name: Text,
    count: usize,
    properties: List<Property>,
    out: OutHandle<CompiledModel>,
) -> Result<()> {
    let (core, model) = (core.get()?, model.get()?);
    out.check()?;
    let properties = property::listed(&properties, count)?;
    out.write(core.compile(&model, device(&name)?, properties)?)
}

pub(crate) fn compile_from_file(
    core: Handle<Core>,
    path: Text,
    name: Text,
    count: usize,
    properties: List<Property>,
    out: OutHandle<CompiledModel>,
) -> Result<()> {
    let core = core.get()?;
    out.check()?;
    let properties = property::listed(&properties, count)?;
    let (path, device) = (path.path("path of a model")?, device(&name)?);
    let model = Model::new(Source::of_file(&path, None)?)?;
    out.write(core.compile(&model, device, properties)?)
}

pub(crate) fn add_extension(core: Handle<Core>, path: Text) -> Result<()> {
    core.get()?;
    let path = path.path("path of an extension")?;
    Err(Error::general(format_args!(
        "{} cannot be loaded: an extension of OpenVINO is a library of C++ that needs OpenVINO",
        path.display()
    )))
}

pub(crate) fn set_properties(
    core: Handle<Core>,
    name: Text,
    count: usize,
    properties: List<Property>,
) -> Result<()> {
    let core = core.get()?;
    let properties = properties.get("properties")?;
    if count == 0 {
        return Err(Error::invalid("there are no properties"));
    }
    let properties = property::texts(properties)?;
    let mut settings = core.lock();
    match name.optional("name of a device")?.filter(|name| !name.is_empty()) {
        Some(name) => settings.set(Device::of(name)?, &properties),
        // All devices, and the core.
        None => {
            let own: Vec<_> = properties.iter().copied().filter(|(key, _)| is_own(key)).collect();
            settings.own.set_all(None, &own)?;
            for device in [Device::Cpu, Device::Auto] {
                settings.set(device, &properties)?;
            }
            Ok(())
        }
    }
}

/// Whether a property is one of the core.
fn is_own(key: &str) -> bool {
    ["ENABLE_MMAP", "FORCE_TBB_TERMINATE", "CACHE_DIR"].contains(&key)
}

/// What a device says beside what can be set.
const READ_ONLY: [&str; 9] = [
    "SUPPORTED_PROPERTIES",
    "AVAILABLE_DEVICES",
    "RANGE_FOR_ASYNC_INFER_REQUESTS",
    "RANGE_FOR_STREAMS",
    "EXECUTION_DEVICES",
    "FULL_DEVICE_NAME",
    "OPTIMIZATION_CAPABILITIES",
    "DEVICE_TYPE",
    "DEVICE_ARCHITECTURE",
];

pub(crate) fn get_property(
    core: Handle<Core>,
    name: Text,
    key: Text,
    out: Out<*mut c_char>,
) -> Result<()> {
    let core = core.get()?;
    out.check()?;
    let (name, key) = (name.get("name of a device")?, key.get("key of a property")?);
    let missing =
        || Error::general(format_args!("there is no property {key:?} of device {name:?}"));
    if name.is_empty() {
        let value = if is_own(key) { core.lock().own.get(None, key) } else { None };
        return out.write(give_text(&value.ok_or_else(missing)?)?);
    }
    let device = Device::of(name)?;
    let properties = core.properties(device)?;
    let threads = default_threads()?;
    let is_auto = device == Device::Auto;
    let value = match key {
        "SUPPORTED_PROPERTIES" => {
            let of_auto = ["SUPPORTED_PROPERTIES", "FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES"];
            let read_only = if is_auto { &of_auto[..] } else { &READ_ONLY };
            [read_only, &Properties::listed(device)].concat().join(" ")
        }
        "AVAILABLE_DEVICES" => String::new(),
        "OPTIMAL_NUMBER_OF_INFER_REQUESTS" if !is_auto => "1".into(),
        "RANGE_FOR_ASYNC_INFER_REQUESTS" if !is_auto => "1 1 1".into(),
        "RANGE_FOR_STREAMS" if !is_auto => format!("1 {threads}"),
        "EXECUTION_DEVICES" => "CPU".into(),
        "FULL_DEVICE_NAME" if is_auto => "AUTO".into(),
        "FULL_DEVICE_NAME" => format!("{} (tract)", std::env::consts::ARCH),
        "OPTIMIZATION_CAPABILITIES" => "FP32 INT8 EXPORT_IMPORT".into(),
        "DEVICE_TYPE" => "integrated".into(),
        "DEVICE_ARCHITECTURE" => std::env::consts::ARCH.into(),
        "ENABLE_MMAP" | "FORCE_TBB_TERMINATE" | "CACHE_MODE" | "CACHE_ENCRYPTION_CALLBACKS" => {
            return Err(missing());
        }
        key => properties.get(Some(device), key).ok_or_else(missing)?,
    };
    out.write(give_text(&value)?)
}

pub(crate) fn get_available_devices(
    core: Handle<Core>,
    out: Out<ov_available_devices_t>,
) -> Result<()> {
    let core = core.get()?;
    out.check()?;
    // OpenVINO loads a device to list it. What it was set to is an error of the first function that uses it.
    let _ = core.properties(Device::Cpu);
    let names = [[Device::Cpu.name()]];
    let devices = give_structures(&names, |_, [name]| name)?;
    out.write(ov_available_devices_t { devices, size: names.len() })
}

pub(crate) fn free_available_devices(devices: InOut<ov_available_devices_t>) -> Result<()> {
    if let Some(value) = devices.read() {
        take_back(value.devices);
        devices.write(ov_available_devices_t { devices: std::ptr::null_mut(), size: 0 });
    }
    Ok(())
}

pub(crate) fn import(
    core: Handle<Core>,
    bytes: Bytes,
    name: Text,
    out: OutHandle<CompiledModel>,
) -> Result<()> {
    let core = core.get()?;
    out.check()?;
    let (bytes, device) =
        (bytes.get("exported model")?, Device::of(name.get("name of a device")?)?);
    out.write(CompiledModel::import(bytes, device, &core.properties(device)?)?)
}

pub(crate) fn get_versions(
    core: Handle<Core>,
    name: Text,
    out: Out<ov_core_version_list_t>,
) -> Result<()> {
    let core = core.get()?;
    let name = name.get("name of a device")?;
    out.check()?;
    // The device itself, and those that it chooses among.
    let first = name.split([':', '.']).next().unwrap_or_default();
    let rest = name.split_once(':').map_or("", |(_, rest)| rest);
    let names = std::iter::once(first).chain(rest.split(',').filter(|it| !it.is_empty()));
    let mut texts = vec![];
    for name in names {
        let not_found =
            || Error::new(ov_status_e::NOT_FOUND, format_args!("there is no device {name:?}"));
        core.properties(Device::of(name).map_err(|_| not_found())?)?;
        texts.push([name, VERSION, "tract-openvino"]);
    }
    let versions = give_structures(&texts, |_, [device_name, number, description]| {
        let version = ov_version_t { buildNumber: number, description };
        ov_core_version_t { device_name, version }
    })?;
    out.write(ov_core_version_list_t { versions, size: texts.len() })
}

pub(crate) fn free_versions(versions: InOut<ov_core_version_list_t>) -> Result<()> {
    if let Some(value) = versions.read() {
        take_back(value.versions);
        versions.write(ov_core_version_list_t { versions: std::ptr::null_mut(), size: 0 });
    }
    Ok(())
}

/// Contexts of other devices.
pub(crate) fn no_context() -> Result<()> {
    Err(Error::not_implemented("there are no remote contexts: models run on the CPU alone"))
}

/// The texts of the statuses, which are those of OpenVINO: programs compare them.
pub(crate) fn error_info(status: i32) -> &'static std::ffi::CStr {
    match status {
        0 => c"success",
        -1 => c"general error",
        -2 => c"it's not implement",
        -3 => c"failed to network",
        -4 => c"input parameter mismatch",
        -5 => c"cannot find the value",
        -6 => c"out of bounds",
        -7 => c"run with unexpected error",
        -8 => c"request is busy",
        -9 => c"result is not ready",
        -10 => c"it is not allocated",
        -11 => c"inference start with error",
        -12 => c"network is not ready",
        -13 => c"inference is canceled",
        -14 => c"invalid c input parameters",
        -15 => c"unknown c error",
        -16 => c"not implement in c method",
        _ => c"unknown exception",
    }
}
