//! The properties: which there are, and which values they take.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

use serde::{Deserialize, Serialize};

use crate::border::{List, Property, PropertyValue};
use crate::error::{Error, Result};

/// A text that programs read by its name.
#[repr(transparent)]
pub struct Key(*const c_char);

// SAFETY: it leads to a text that nobody changes.
#[allow(unsafe_code)]
unsafe impl Sync for Key {}

impl Key {
    const fn of(text: &'static CStr) -> Key {
        Key(text.as_ptr())
    }
}

macro_rules! keys {
    ($($name:ident = $text:literal;)*) => {
        $(
            // SAFETY: no other symbol of the library has the name.
            #[allow(unsafe_code, non_upper_case_globals, missing_docs)]
            #[unsafe(no_mangle)]
            pub static $name: Key = Key::of($text);
        )*
    };
}

keys! {
    ov_property_key_supported_properties = c"SUPPORTED_PROPERTIES";
    ov_property_key_available_devices = c"AVAILABLE_DEVICES";
    ov_property_key_optimal_number_of_infer_requests = c"OPTIMAL_NUMBER_OF_INFER_REQUESTS";
    ov_property_key_range_for_async_infer_requests = c"RANGE_FOR_ASYNC_INFER_REQUESTS";
    ov_property_key_range_for_streams = c"RANGE_FOR_STREAMS";
    ov_property_key_device_full_name = c"FULL_DEVICE_NAME";
    ov_property_key_device_capabilities = c"OPTIMIZATION_CAPABILITIES";
    ov_property_key_model_name = c"NETWORK_NAME";
    ov_property_key_optimal_batch_size = c"OPTIMAL_BATCH_SIZE";
    ov_property_key_max_batch_size = c"MAX_BATCH_SIZE";
    ov_property_key_cache_dir = c"CACHE_DIR";
    ov_property_key_cache_mode = c"CACHE_MODE";
    ov_property_key_cache_encryption_callbacks = c"CACHE_ENCRYPTION_CALLBACKS";
    ov_property_key_num_streams = c"NUM_STREAMS";
    ov_property_key_inference_num_threads = c"INFERENCE_NUM_THREADS";
    ov_property_key_hint_enable_cpu_pinning = c"ENABLE_CPU_PINNING";
    ov_property_key_hint_enable_hyper_threading = c"ENABLE_HYPER_THREADING";
    ov_property_key_hint_performance_mode = c"PERFORMANCE_HINT";
    ov_property_key_hint_scheduling_core_type = c"SCHEDULING_CORE_TYPE";
    ov_property_key_hint_inference_precision = c"INFERENCE_PRECISION_HINT";
    ov_property_key_hint_num_requests = c"PERFORMANCE_HINT_NUM_REQUESTS";
    ov_property_key_log_level = c"LOG_LEVEL";
    ov_property_key_hint_model_priority = c"MODEL_PRIORITY";
    ov_property_key_enable_profiling = c"PERF_COUNT";
    ov_property_key_device_priorities = c"MULTI_DEVICE_PRIORITIES";
    ov_property_key_hint_execution_mode = c"EXECUTION_MODE_HINT";
    ov_property_key_force_tbb_terminate = c"FORCE_TBB_TERMINATE";
    ov_property_key_enable_mmap = c"ENABLE_MMAP";
    ov_property_key_auto_batch_timeout = c"AUTO_BATCH_TIMEOUT";
    ov_property_key_intel_gpu_config_file = c"CONFIG_FILE";
    ov_property_key_intel_gpu_context_type = c"CONTEXT_TYPE";
    ov_property_key_intel_gpu_ocl_context = c"OCL_CONTEXT";
    ov_property_key_intel_gpu_ocl_context_device_id = c"OCL_CONTEXT_DEVICE_ID";
    ov_property_key_intel_gpu_tile_id = c"TILE_ID";
    ov_property_key_intel_gpu_ocl_queue = c"OCL_QUEUE";
    ov_property_key_intel_gpu_va_device = c"VA_DEVICE";
    ov_property_key_intel_gpu_shared_mem_type = c"SHARED_MEM_TYPE";
    ov_property_key_intel_gpu_mem_handle = c"MEM_HANDLE";
    ov_property_key_intel_gpu_dev_object_handle = c"DEV_OBJECT_HANDLE";
    ov_property_key_intel_gpu_va_plane = c"VA_PLANE";
    ov_property_key_intel_auto_device_bind_buffer = c"DEVICE_BIND_BUFFER";
    ov_property_key_intel_auto_enable_startup_fallback = c"ENABLE_STARTUP_FALLBACK";
    ov_property_key_intel_auto_enable_runtime_fallback = c"ENABLE_RUNTIME_FALLBACK";
}

/// What a property may be set to.
#[derive(Debug, Clone, Copy)]
enum Values {
    Flag,
    /// A whole number from this one on.
    Number(i64),
    /// A number of streams, AUTO or NUMA.
    Streams,
    /// A number from 0 to 1.
    Share,
    /// One of these.
    Of(&'static [&'static str]),
    /// A list of none or some of these.
    Lists(&'static [&'static str]),
    Any,
    /// Only nothing.
    Empty,
    /// Something that is no text, which is not needed.
    Other,
}

/// Where a property is found, and whether it is listed there.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    /// A device and its models.
    Both,
    /// A device alone.
    Device,
    /// A device alone, not listed.
    Hidden,
    /// The core: without a device.
    Core,
}

/// The properties that can be set: their values, where they are, and what they are at first.
const SETTABLE: &[(&str, Values, At, &str)] = {
    use At::*;
    use Values::*;
    const PRECISIONS: &[&str] = &["u8", "u4", "u3", "i8", "bf16", "f16", "f32", "dynamic"];
    &[
        ("NUM_STREAMS", Streams, Both, "1"),
        ("INFERENCE_NUM_THREADS", Number(0), Both, "0"),
        ("PERF_COUNT", Flag, Both, "NO"),
        // Nothing is computed in less.
        (
            "INFERENCE_PRECISION_HINT",
            Of(&["f32", "f16", "bf16", "dynamic", "undefined", ""]),
            Both,
            "f32",
        ),
        (
            "PERFORMANCE_HINT",
            Of(&["LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT", "UNDEFINED", ""]),
            Both,
            "LATENCY",
        ),
        ("EXECUTION_MODE_HINT", Of(&["PERFORMANCE", "ACCURACY"]), Both, "PERFORMANCE"),
        ("PERFORMANCE_HINT_NUM_REQUESTS", Number(0), Both, "0"),
        ("ENABLE_CPU_PINNING", Flag, Both, "NO"),
        ("ENABLE_CPU_RESERVATION", Flag, Both, "NO"),
        ("SCHEDULING_CORE_TYPE", Of(&["ANY_CORE", "PCORE_ONLY", "ECORE_ONLY"]), Both, "ANY_CORE"),
        ("MODEL_DISTRIBUTION_POLICY", Lists(&["TENSOR_PARALLEL", "PIPELINE_PARALLEL"]), Both, ""),
        ("ENABLE_HYPER_THREADING", Flag, Both, "NO"),
        ("DEVICE_ID", Empty, Device, ""),
        ("CPU_DENORMALS_OPTIMIZATION", Flag, Both, "NO"),
        (
            "LOG_LEVEL",
            Of(&["LOG_NONE", "LOG_ERROR", "LOG_WARNING", "LOG_INFO", "LOG_DEBUG", "LOG_TRACE"]),
            Both,
            "LOG_NONE",
        ),
        ("CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE", Share, Both, "1"),
        ("ENABLE_TENSOR_PARALLEL", Flag, Both, "NO"),
        ("TBB_PARTITIONER", Of(&["NONE", "STATIC", "AUTO"]), Both, "NONE"),
        ("DYNAMIC_QUANTIZATION_GROUP_SIZE", Number(0), Both, "0"),
        ("KV_CACHE_PRECISION", Of(PRECISIONS), Both, "f32"),
        ("KEY_CACHE_PRECISION", Of(PRECISIONS), Both, "f32"),
        ("VALUE_CACHE_PRECISION", Of(PRECISIONS), Both, "f32"),
        ("KEY_CACHE_GROUP_SIZE", Number(0), Both, "0"),
        ("VALUE_CACHE_GROUP_SIZE", Number(0), Both, "0"),
        ("ENABLE_WEIGHTLESS", Flag, Device, "NO"),
        ("WEIGHTS_PATH", Any, Device, ""),
        // What is read is mapped or not, as the reader does it, and nothing is kept in a folder.
        ("CACHE_DIR", Any, Hidden, ""),
        ("CACHE_MODE", Of(&["OPTIMIZE_SIZE", "OPTIMIZE_SPEED"]), Hidden, "OPTIMIZE_SPEED"),
        ("CACHE_ENCRYPTION_CALLBACKS", Other, Hidden, ""),
        ("ENABLE_MMAP", Flag, Core, "YES"),
        ("FORCE_TBB_TERMINATE", Flag, Core, "NO"),
    ]
};

/// More of AUTO, which runs everything on the one device that there is.
const OF_AUTO: &[(&str, Values, &str)] = {
    use Values::*;
    &[
        ("DEVICES_UTILIZATION_THRESHOLD", Any, ""),
        ("DEVICE_BIND_BUFFER", Flag, "NO"),
        ("ENABLE_RUNTIME_FALLBACK", Flag, "YES"),
        ("ENABLE_STARTUP_FALLBACK", Flag, "YES"),
        ("LOW_POWER_DEVICE", Any, ""),
        ("MODEL_PRIORITY", Of(&["LOW", "MEDIUM", "HIGH", "DEFAULT"]), "MEDIUM"),
        ("MULTI_DEVICE_PRIORITIES", Any, ""),
        ("PERF_CURVE_TABLE", Any, ""),
        ("SCHEDULE_POLICY", Any, "DEVICE_PRIORITY"),
        (AUTO_BATCH_TIMEOUT, Number(0), "1000"),
    ]
};

/// A device that programs name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Device {
    Cpu,
    Auto,
}

impl Device {
    /// The device of a name. AUTO and others that choose among devices have the CPU to choose.
    ///
    /// # Errors
    ///
    /// There is none of the name.
    pub fn of(name: &str) -> Result<Device> {
        let unknown = || {
            let text = format_args!("there is no device {name:?}: the devices are CPU and AUTO");
            Error::general(text)
        };
        let (first, rest) = name.split_once(':').unwrap_or((name, ""));
        match first {
            "CPU" if !name.contains(':') => Ok(Device::Cpu),
            "AUTO" | "MULTI" | "HETERO" | "BATCH" => {
                // Those that are taken out of the choice begin with a minus.
                let named = |it: &str| {
                    let it = it.trim();
                    ["", "-GPU", "-NPU"].contains(&it)
                        || it.strip_prefix("CPU").is_some_and(is_count)
                };
                if rest.split(',').all(named) { Ok(Device::Auto) } else { Err(unknown()) }
            }
            _ => Err(unknown()),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Device::Cpu => "CPU",
            Device::Auto => "AUTO",
        }
    }
}

/// Whether nothing follows the name of a device, or how many inferences it takes at a time: all run one after another here.
fn is_count(text: &str) -> bool {
    let count = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    text.is_empty() || count.is_some_and(|count| count.parse::<u32>().is_ok_and(|it| it > 0))
}

/// Properties that were set, by their keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Properties(BTreeMap<String, String>);

fn unsupported(key: &str) -> Error {
    Error::general(format_args!("there is no property {key:?}"))
}

fn settable(device: Option<Device>, key: &str) -> Option<(Values, &'static str)> {
    let of_auto = OF_AUTO.iter().filter(|_| device == Some(Device::Auto));
    let mut of_auto = of_auto.map(|(name, values, first)| (*name, *values, *first));
    let all = SETTABLE.iter().map(|(name, values, _, first)| (*name, *values, *first));
    let found =
        of_auto.find(|(name, ..)| *name == key).or_else(|| all.clone().find(|it| it.0 == key));
    found.map(|(_, values, first)| (values, first))
}

impl Properties {
    /// Sets a property.
    ///
    /// # Errors
    ///
    /// There is none of the key, or it does not take the value.
    pub fn set(&mut self, device: Option<Device>, key: &str, value: &str) -> Result<()> {
        let (values, _) = settable(device, key).ok_or_else(|| unsupported(key))?;
        let value = values.checked(key, value)?;
        self.0.insert(key.into(), value);
        Ok(())
    }

    /// Sets properties, by their keys.
    ///
    /// # Errors
    ///
    /// Those of [`set`](Self::set). Nothing is set then.
    pub fn set_all(&mut self, device: Option<Device>, properties: &[(&str, &str)]) -> Result<()> {
        let mut all = self.clone();
        for (key, value) in properties {
            all.set(device, key, value)?;
        }
        *self = all;
        Ok(())
    }

    /// What a property is: set, or at first.
    pub fn get(&self, device: Option<Device>, key: &str) -> Option<String> {
        let (_, first) = settable(device, key)?;
        let value = self.0.get(key).map_or(first, String::as_str);
        Some(
            match (key, value) {
                ("INFERENCE_PRECISION_HINT", _) => "f32",
                ("PERFORMANCE_HINT", "UNDEFINED" | "CUMULATIVE_THROUGHPUT" | "") => "LATENCY",
                (_, value) => value,
            }
            .into(),
        )
    }

    /// Whether a property was set.
    pub fn is_set(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// These, with others in their place where both have a key.
    pub fn with(mut self, others: &Properties) -> Properties {
        self.0.extend(others.0.clone());
        self
    }

    /// The keys and values that were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The keys of a device that can be set and are listed.
    pub fn listed(device: Device) -> Vec<&'static str> {
        let at = |at: &At| matches!(at, At::Both | At::Device);
        let all = SETTABLE.iter().filter(|(_, _, it, _)| at(it)).map(|(name, ..)| *name);
        let of_auto = OF_AUTO.iter().filter(|_| device == Device::Auto).map(|(name, ..)| *name);
        all.chain(of_auto).collect()
    }

    /// The keys of a compiled model.
    pub fn of_model() -> Vec<&'static str> {
        let all = SETTABLE.iter().filter(|(_, _, at, _)| *at == At::Both);
        all.map(|(name, ..)| *name).collect()
    }

    /// A number that was set.
    pub fn number(&self, device: Device, key: &str) -> Option<usize> {
        self.get(Some(device), key)?.parse().ok()
    }

    pub fn is_yes(&self, device: Device, key: &str) -> bool {
        self.get(Some(device), key).as_deref() == Some("YES")
    }
}

impl Values {
    /// The value as it is kept.
    fn checked(self, key: &str, value: &str) -> Result<String> {
        let wrong = |allowed: &str| {
            Err(Error::general(format_args!(
                "property {key:?} is set to {value:?}, but must be {allowed}"
            )))
        };
        let number = || value.trim().parse::<i64>().ok();
        match self {
            Values::Flag => match value.to_ascii_lowercase().as_str() {
                "yes" | "true" | "1" => return Ok("YES".into()),
                "no" | "false" | "0" => return Ok("NO".into()),
                _ => return wrong("YES or NO"),
            },
            Values::Number(least)
                if number().is_none_or(|it| it < least || it > i32::MAX.into()) =>
            {
                return wrong(&format!("a whole number from {least} on"));
            }
            Values::Streams => {
                let is_name = ["AUTO", "NUMA", "-1", "-2"].contains(&value);
                if is_name {
                    return Ok("1".into());
                }
                if number().is_none_or(|it| !(0..=i32::MAX.into()).contains(&it)) {
                    return wrong("AUTO, NUMA or a number of streams");
                }
            }
            Values::Share
                if value.parse::<f32>().ok().is_none_or(|it| !(0. ..=1.).contains(&it)) =>
            {
                return wrong("a number from 0 to 1");
            }
            Values::Of(all) => match all.iter().find(|it| it.eq_ignore_ascii_case(value)) {
                Some(found) => return Ok((*found).into()),
                None => return wrong(&format!("one of {}", all.join(", "))),
            },
            Values::Lists(all) => {
                let mut parts = value.split([',', ' ']).filter(|it| !it.is_empty());
                if !parts.all(|it| all.contains(&it)) {
                    return wrong(&format!("a list of {}", all.join(", ")));
                }
            }
            Values::Empty if !value.is_empty() => return wrong("empty"),
            Values::Number(_) | Values::Share | Values::Any | Values::Empty | Values::Other => (),
        }
        Ok(value.into())
    }
}

/// The keys and the values of what a program gives.
///
/// # Errors
///
/// One is null, or not in UTF-8.
pub(crate) fn texts(properties: &[Property]) -> Result<Vec<(&str, &str)>> {
    let texts = properties.iter().map(|property| {
        let key = property.key.get("key of a property")?;
        let value = match &property.value {
            PropertyValue::Text(value) if value.is_null() => {
                let text = format_args!("the value of property {key:?} is null");
                return Err(Error::general(text));
            }
            PropertyValue::Text(value) => value.get("value of a property")?,
            PropertyValue::Other => "",
        };
        Ok((key, value))
    });
    texts.collect()
}

/// The properties of a list.
///
/// # Errors
///
/// The pointer is null although there are some.
pub(crate) fn listed(properties: &List<Property>, count: usize) -> Result<&[Property]> {
    if count == 0 { Ok(&[]) } else { properties.get("properties") }
}

/// The one property of a compiled model that can be set: for how long BATCH collects inferences. Nothing waits for others here.
pub(crate) const AUTO_BATCH_TIMEOUT: &str = "AUTO_BATCH_TIMEOUT";
