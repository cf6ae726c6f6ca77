//! The functions of the interface, in the order of its headers.
//!
//! Each makes what the files below understand of its arguments, and calls one of them. The macros here are the only callers of
//! [`FromC::from_c`].

#![allow(unsafe_code, missing_docs, clippy::missing_safety_doc)]

use std::ffi::{c_char, c_void};
use std::ptr::null;

use crate::border::{self, FromC, Handle, Opaque, Text};
use crate::infer_request::Which;
use crate::port::{PortHandle, Side};
use crate::types::*;
use crate::{
    compiled_model, core, error, infer_request, layout, model, port, preprocess, shape, tensor,
};

/// The Rust object behind each opaque type of the headers.
macro_rules! opaque {
    ($($c:ident: $object:ty),* $(,)?) => {
        $(impl Opaque for $c {
            type Object = $object;
        })*
    };
}

opaque!(
    ov_core_t: core::Core,
    ov_model_t: model::Model,
    ov_compiled_model_t: compiled_model::CompiledModel,
    ov_infer_request_t: infer_request::InferRequest,
    ov_tensor_t: tensor::Tensor,
    ov_layout_t: layout::Layout,
    // Programs pass either kind for the other.
    ov_output_port_t: PortHandle,
    ov_output_const_port_t: PortHandle,
    ov_preprocess_prepostprocessor_t: preprocess::PrePostProcessor,
    ov_preprocess_input_info_t: preprocess::InputInfo,
    ov_preprocess_input_tensor_info_t: preprocess::InputTensorInfo,
    ov_preprocess_input_model_info_t: preprocess::InputModelInfo,
    ov_preprocess_preprocess_steps_t: preprocess::Steps,
    ov_preprocess_output_info_t: preprocess::OutputInfo,
    ov_preprocess_output_tensor_info_t: preprocess::OutputTensorInfo,
);

// Which tensor of a request: by its name, its port, its number on a side, or as the only one of a side.

impl FromC<*const c_char> for Which {
    unsafe fn from_c(name: *const c_char) -> Which {
        // SAFETY: as the contract of this function says.
        Which::Name(unsafe { Text::from_c(name) })
    }
}

impl<C: Opaque<Object = PortHandle>> FromC<*const C> for Which {
    unsafe fn from_c(port: *const C) -> Which {
        // SAFETY: as the contract of this function says.
        Which::Port(unsafe { Handle::from_c(port) })
    }
}

impl FromC<(Side, usize)> for Which {
    unsafe fn from_c((side, index): (Side, usize)) -> Which {
        Which::Index(side, index)
    }
}

impl FromC<Side> for Side {
    unsafe fn from_c(side: Side) -> Side {
        side
    }
}

impl FromC<Side> for Which {
    unsafe fn from_c(side: Side) -> Which {
        Which::Only(side)
    }
}

/// Calls a function with these arguments, and answers with its status.
macro_rules! status {
    ($($function:ident)::+($($argument:expr),* $(,)?)) => {
        // SAFETY: the caller of a function of the interface keeps its contract, which is that of `from_c` for each argument.
        border::status(|| $($function)::+($(unsafe { FromC::from_c($argument) }),*))
    };
}

/// Calls a function with these arguments, and answers with its result, or with something else after an error.
macro_rules! answer {
    ($otherwise:expr, $($function:ident)::+($($argument:expr),* $(,)?)) => {
        // SAFETY: as above.
        border::answer($otherwise, || $($function)::+($(unsafe { FromC::from_c($argument) }),*))
    };
}

/// A function with a variable number of arguments: it jumps to the one of this name in `variadic.c`, with all registers and the stack as
/// they are.
macro_rules! variadic {
    ($name:ident($($argument:ident: $type:ty),* $(,)?), $target:ident) => {
        #[unsafe(no_mangle)]
        // SAFETY: the function in C has the same fixed parameters, and returns to the caller of this one.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> ov_status_e {
            unsafe extern "C" {
                fn $target();
            }
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            std::arch::naked_asm!("jmp {}", sym $target);
            #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
            std::arch::naked_asm!("b {}", sym $target);
            #[cfg(any(target_arch = "riscv64", target_arch = "riscv32"))]
            std::arch::naked_asm!("tail {}", sym $target);
        }
    };
}

// Errors.

#[unsafe(no_mangle)]
pub extern "C" fn ov_get_error_info(status: ov_status_number) -> *const c_char {
    core::error_info(status).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_free(content: *const c_char) {
    border::take_back(content);
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_get_last_err_msg() -> *const c_char {
    error::last()
}

// Log.

#[unsafe(no_mangle)]
pub extern "C" fn ov_util_set_log_callback(_func: ov_util_log_callback_func) {}

#[unsafe(no_mangle)]
pub extern "C" fn ov_util_reset_log_callback() {}

// The core.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_get_openvino_version(version: *mut ov_version_t) -> ov_status_e {
    status!(core::version(version))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_version_free(version: *mut ov_version_t) {
    answer!((), core::free_version(version))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_create(core: *mut *mut ov_core_t) -> ov_status_e {
    status!(core::create(core))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_create_with_config(
    xml_config_file: *const c_char,
    core: *mut *mut ov_core_t,
) -> ov_status_e {
    status!(core::create_with_config(xml_config_file, core))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_create_with_config_unicode(
    xml_config_file_ws: *const wchar_t,
    core: *mut *mut ov_core_t,
) -> ov_status_e {
    status!(core::create_with_config(xml_config_file_ws, core))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_free(core: *mut ov_core_t) {
    answer!((), core::free(core))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_read_model(
    core: *const ov_core_t,
    model_path: *const c_char,
    bin_path: *const c_char,
    model: *mut *mut ov_model_t,
) -> ov_status_e {
    status!(core::read_model(core, model_path, bin_path, model))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_read_model_unicode(
    core: *const ov_core_t,
    model_path: *const wchar_t,
    bin_path: *const wchar_t,
    model: *mut *mut ov_model_t,
) -> ov_status_e {
    status!(core::read_model(core, model_path, bin_path, model))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_read_model_from_memory_buffer(
    core: *const ov_core_t,
    model_str: *const c_char,
    str_len: usize,
    weights: *const ov_tensor_t,
    model: *mut *mut ov_model_t,
) -> ov_status_e {
    status!(core::read_model_from_memory(core, (model_str, str_len), weights, model))
}

variadic!(
    ov_core_compile_model(
        _core: *const ov_core_t,
        _model: *const ov_model_t,
        _device_name: *const c_char,
        _property_args_size: usize,
        _compiled_model: *mut *mut ov_compiled_model_t,
    ),
    tract_variadic_core_compile_model
);

variadic!(
    ov_core_compile_model_from_file(
        _core: *const ov_core_t,
        _model_path: *const c_char,
        _device_name: *const c_char,
        _property_args_size: usize,
        _compiled_model: *mut *mut ov_compiled_model_t,
    ),
    tract_variadic_core_compile_model_from_file
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_add_extension(
    core: *const ov_core_t,
    path: *const c_char,
) -> ov_status_e {
    status!(core::add_extension(core, path))
}

variadic!(
    ov_core_compile_model_from_file_unicode(
        _core: *const ov_core_t,
        _model_path: *const wchar_t,
        _device_name: *const c_char,
        _property_args_size: usize,
        _compiled_model: *mut *mut ov_compiled_model_t,
    ),
    tract_variadic_core_compile_model_from_file_unicode
);

variadic!(
    ov_core_set_property(
        _core: *const ov_core_t,
        _device_name: *const c_char,
    ),
    tract_variadic_core_set_property
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_set_properties(
    core: *const ov_core_t,
    device_name: *const c_char,
    num_properties: usize,
    properties: *const ov_property_t,
) -> ov_status_e {
    status!(core::set_properties(core, device_name, num_properties, (properties, num_properties)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_compile_model_props(
    core: *const ov_core_t,
    model: *const ov_model_t,
    device_name: *const c_char,
    num_properties: usize,
    properties: *const ov_property_t,
    compiled_model: *mut *mut ov_compiled_model_t,
) -> ov_status_e {
    status!(core::compile(
        core,
        model,
        device_name,
        num_properties,
        (properties, num_properties),
        compiled_model
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_compile_model_from_file_props(
    core: *const ov_core_t,
    model_path: *const c_char,
    device_name: *const c_char,
    num_properties: usize,
    properties: *const ov_property_t,
    compiled_model: *mut *mut ov_compiled_model_t,
) -> ov_status_e {
    status!(core::compile_from_file(
        core,
        model_path,
        device_name,
        num_properties,
        (properties, num_properties),
        compiled_model
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_compile_model_from_file_unicode_props(
    core: *const ov_core_t,
    model_path: *const wchar_t,
    device_name: *const c_char,
    num_properties: usize,
    properties: *const ov_property_t,
    compiled_model: *mut *mut ov_compiled_model_t,
) -> ov_status_e {
    status!(core::compile_from_file(
        core,
        model_path,
        device_name,
        num_properties,
        (properties, num_properties),
        compiled_model
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_get_property(
    core: *const ov_core_t,
    device_name: *const c_char,
    property_key: *const c_char,
    property_value: *mut *mut c_char,
) -> ov_status_e {
    status!(core::get_property(core, device_name, property_key, property_value))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_get_available_devices(
    core: *const ov_core_t,
    devices: *mut ov_available_devices_t,
) -> ov_status_e {
    status!(core::get_available_devices(core, devices))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_available_devices_free(devices: *mut ov_available_devices_t) {
    answer!((), core::free_available_devices(devices))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_import_model(
    core: *const ov_core_t,
    content: *const c_char,
    content_size: usize,
    device_name: *const c_char,
    compiled_model: *mut *mut ov_compiled_model_t,
) -> ov_status_e {
    status!(core::import(core, (content, content_size), device_name, compiled_model))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_get_versions_by_device_name(
    core: *const ov_core_t,
    device_name: *const c_char,
    versions: *mut ov_core_version_list_t,
) -> ov_status_e {
    status!(core::get_versions(core, device_name, versions))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_core_versions_free(versions: *mut ov_core_version_list_t) {
    answer!((), core::free_versions(versions))
}

variadic!(
    ov_core_create_context(
        _core: *const ov_core_t,
        _device_name: *const c_char,
        _context_args_size: usize,
        _context: *mut *mut ov_remote_context_t,
    ),
    tract_variadic_core_create_context
);

#[unsafe(no_mangle)]
pub extern "C" fn ov_core_create_context_props(
    _core: *const ov_core_t,
    _device_name: *const c_char,
    _num_properties: usize,
    _properties: *const ov_property_t,
    _context: *mut *mut ov_remote_context_t,
) -> ov_status_e {
    border::status(core::no_context)
}

variadic!(
    ov_core_compile_model_with_context(
        _core: *const ov_core_t,
        _model: *const ov_model_t,
        _context: *const ov_remote_context_t,
        _property_args_size: usize,
        _compiled_model: *mut *mut ov_compiled_model_t,
    ),
    tract_variadic_core_compile_model_with_context
);

#[unsafe(no_mangle)]
pub extern "C" fn ov_core_compile_model_with_context_props(
    _core: *const ov_core_t,
    _model: *const ov_model_t,
    _context: *const ov_remote_context_t,
    _num_properties: usize,
    _properties: *const ov_property_t,
    _compiled_model: *mut *mut ov_compiled_model_t,
) -> ov_status_e {
    border::status(core::no_context)
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_core_get_default_context(
    _core: *const ov_core_t,
    _device_name: *const c_char,
    _context: *mut *mut ov_remote_context_t,
) -> ov_status_e {
    border::status(core::no_context)
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_shutdown() {}

// Models.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_free(model: *mut ov_model_t) {
    answer!((), border::free(model))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_const_input(
    model: *const ov_model_t,
    input_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(port::only_port(model, Side::Input, input_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_const_input_by_name(
    model: *const ov_model_t,
    tensor_name: *const c_char,
    input_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(port::port_by_name(model, Side::Input, tensor_name, input_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_const_input_by_index(
    model: *const ov_model_t,
    index: usize,
    input_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(model::port_by_index(model, Side::Input, index, input_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_input(
    model: *const ov_model_t,
    input_port: *mut *mut ov_output_port_t,
) -> ov_status_e {
    status!(port::only_port(model, Side::Input, input_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_input_by_name(
    model: *const ov_model_t,
    tensor_name: *const c_char,
    input_port: *mut *mut ov_output_port_t,
) -> ov_status_e {
    status!(port::port_by_name(model, Side::Input, tensor_name, input_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_input_by_index(
    model: *const ov_model_t,
    index: usize,
    input_port: *mut *mut ov_output_port_t,
) -> ov_status_e {
    status!(model::port_by_index(model, Side::Input, index, input_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_const_output(
    model: *const ov_model_t,
    output_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(port::only_port(model, Side::Output, output_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_const_output_by_index(
    model: *const ov_model_t,
    index: usize,
    output_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(model::port_by_index(model, Side::Output, index, output_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_const_output_by_name(
    model: *const ov_model_t,
    tensor_name: *const c_char,
    output_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(port::port_by_name(model, Side::Output, tensor_name, output_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_output(
    model: *const ov_model_t,
    output_port: *mut *mut ov_output_port_t,
) -> ov_status_e {
    status!(port::only_port(model, Side::Output, output_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_output_by_index(
    model: *const ov_model_t,
    index: usize,
    output_port: *mut *mut ov_output_port_t,
) -> ov_status_e {
    status!(model::port_by_index(model, Side::Output, index, output_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_output_by_name(
    model: *const ov_model_t,
    tensor_name: *const c_char,
    output_port: *mut *mut ov_output_port_t,
) -> ov_status_e {
    status!(port::port_by_name(model, Side::Output, tensor_name, output_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_inputs_size(
    model: *const ov_model_t,
    input_size: *mut usize,
) -> ov_status_e {
    status!(port::size(model, Side::Input, input_size))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_outputs_size(
    model: *const ov_model_t,
    output_size: *mut usize,
) -> ov_status_e {
    status!(port::size(model, Side::Output, output_size))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_is_dynamic(model: *const ov_model_t) -> bool {
    answer!(false, model::is_dynamic(model))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_reshape(
    model: *const ov_model_t,
    tensor_names: *const *const c_char,
    partial_shapes: *const ov_partial_shape_t,
    size: usize,
) -> ov_status_e {
    status!(model::reshape_by_names(model, (tensor_names, size), (partial_shapes, size)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_reshape_input_by_name(
    model: *const ov_model_t,
    tensor_name: *const c_char,
    partial_shape: ov_partial_shape_t,
) -> ov_status_e {
    status!(model::reshape_input(model, tensor_name, partial_shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_reshape_single_input(
    model: *const ov_model_t,
    partial_shape: ov_partial_shape_t,
) -> ov_status_e {
    status!(model::reshape_first(model, partial_shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_reshape_by_port_indexes(
    model: *const ov_model_t,
    port_indexes: *const usize,
    partial_shape: *const ov_partial_shape_t,
    size: usize,
) -> ov_status_e {
    status!(model::reshape_by_numbers(model, (port_indexes, size), (partial_shape, size)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_reshape_by_ports(
    model: *const ov_model_t,
    output_ports: *const *const ov_output_port_t,
    partial_shapes: *const ov_partial_shape_t,
    size: usize,
) -> ov_status_e {
    status!(model::reshape_by_ports(model, (output_ports, size), (partial_shapes, size)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_model_get_friendly_name(
    model: *const ov_model_t,
    friendly_name: *mut *mut c_char,
) -> ov_status_e {
    status!(model::get_friendly_name(model, friendly_name))
}

// Ports.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_const_port_get_shape(
    port: *const ov_output_const_port_t,
    tensor_shape: *mut ov_shape_t,
) -> ov_status_e {
    status!(port::get_shape(port, tensor_shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_port_get_shape(
    port: *const ov_output_port_t,
    tensor_shape: *mut ov_shape_t,
) -> ov_status_e {
    status!(port::get_shape(port, tensor_shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_port_get_any_name(
    port: *const ov_output_const_port_t,
    tensor_name: *mut *mut c_char,
) -> ov_status_e {
    status!(port::get_any_name(port, tensor_name))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_port_get_partial_shape(
    port: *const ov_output_const_port_t,
    partial_shape: *mut ov_partial_shape_t,
) -> ov_status_e {
    status!(port::get_partial_shape(port, partial_shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_port_get_element_type(
    port: *const ov_output_const_port_t,
    tensor_type: *mut ov_element_type_e,
) -> ov_status_e {
    status!(port::get_element_type(port, tensor_type))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_output_port_free(port: *mut ov_output_port_t) {
    answer!((), border::free(port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_output_const_port_free(port: *mut ov_output_const_port_t) {
    answer!((), border::free(port))
}

// Compiled models.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_inputs_size(
    compiled_model: *const ov_compiled_model_t,
    size: *mut usize,
) -> ov_status_e {
    status!(port::size(compiled_model, Side::Input, size))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_input(
    compiled_model: *const ov_compiled_model_t,
    input_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(port::only_port(compiled_model, Side::Input, input_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_input_by_index(
    compiled_model: *const ov_compiled_model_t,
    index: usize,
    input_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(compiled_model::port_by_index(compiled_model, Side::Input, index, input_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_input_by_name(
    compiled_model: *const ov_compiled_model_t,
    name: *const c_char,
    input_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(port::port_by_name(compiled_model, Side::Input, name, input_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_outputs_size(
    compiled_model: *const ov_compiled_model_t,
    size: *mut usize,
) -> ov_status_e {
    status!(port::size(compiled_model, Side::Output, size))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_output(
    compiled_model: *const ov_compiled_model_t,
    output_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(port::only_port(compiled_model, Side::Output, output_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_output_by_index(
    compiled_model: *const ov_compiled_model_t,
    index: usize,
    output_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(compiled_model::port_by_index(compiled_model, Side::Output, index, output_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_output_by_name(
    compiled_model: *const ov_compiled_model_t,
    name: *const c_char,
    output_port: *mut *mut ov_output_const_port_t,
) -> ov_status_e {
    status!(port::port_by_name(compiled_model, Side::Output, name, output_port))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_get_runtime_model(
    compiled_model: *const ov_compiled_model_t,
    model: *mut *mut ov_model_t,
) -> ov_status_e {
    status!(compiled_model::get_runtime_model(compiled_model, model))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_create_infer_request(
    compiled_model: *const ov_compiled_model_t,
    infer_request: *mut *mut ov_infer_request_t,
) -> ov_status_e {
    status!(infer_request::create(compiled_model, infer_request))
}

variadic!(
    ov_compiled_model_set_property(
        _compiled_model: *const ov_compiled_model_t,
    ),
    tract_variadic_compiled_model_set_property
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_set_properties(
    compiled_model: *const ov_compiled_model_t,
    num_properties: usize,
    properties: *const ov_property_t,
) -> ov_status_e {
    status!(compiled_model::set_properties(
        compiled_model,
        num_properties,
        (properties, num_properties)
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_get_property(
    compiled_model: *const ov_compiled_model_t,
    property_key: *const c_char,
    property_value: *mut *mut c_char,
) -> ov_status_e {
    status!(compiled_model::get_property(compiled_model, property_key, property_value))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_export_model(
    compiled_model: *const ov_compiled_model_t,
    export_model_path: *const c_char,
) -> ov_status_e {
    status!(compiled_model::export(compiled_model, export_model_path))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_compiled_model_free(compiled_model: *mut ov_compiled_model_t) {
    answer!((), border::free(compiled_model))
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_compiled_model_get_context(
    _compiled_model: *const ov_compiled_model_t,
    _context: *mut *mut ov_remote_context_t,
) -> ov_status_e {
    border::status(core::no_context)
}

// Infer requests.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_set_tensor(
    infer_request: *mut ov_infer_request_t,
    tensor_name: *const c_char,
    tensor: *const ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::set_tensor(infer_request, tensor_name, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_set_tensor_by_port(
    infer_request: *mut ov_infer_request_t,
    port: *const ov_output_port_t,
    tensor: *const ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::set_tensor(infer_request, port, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_set_tensor_by_const_port(
    infer_request: *mut ov_infer_request_t,
    port: *const ov_output_const_port_t,
    tensor: *const ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::set_tensor(infer_request, port, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_set_input_tensor_by_index(
    infer_request: *mut ov_infer_request_t,
    idx: usize,
    tensor: *const ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::set_tensor(infer_request, (Side::Input, idx), tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_set_input_tensor(
    infer_request: *mut ov_infer_request_t,
    tensor: *const ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::set_tensor(infer_request, Side::Input, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_set_output_tensor_by_index(
    infer_request: *mut ov_infer_request_t,
    idx: usize,
    tensor: *const ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::set_tensor(infer_request, (Side::Output, idx), tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_set_output_tensor(
    infer_request: *mut ov_infer_request_t,
    tensor: *const ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::set_tensor(infer_request, Side::Output, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_get_tensor(
    infer_request: *const ov_infer_request_t,
    tensor_name: *const c_char,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::get_tensor(infer_request, tensor_name, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_get_tensor_by_const_port(
    infer_request: *const ov_infer_request_t,
    port: *const ov_output_const_port_t,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::get_tensor(infer_request, port, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_get_tensor_by_port(
    infer_request: *const ov_infer_request_t,
    port: *const ov_output_port_t,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::get_tensor(infer_request, port, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_get_input_tensor_by_index(
    infer_request: *const ov_infer_request_t,
    idx: usize,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::get_tensor(infer_request, (Side::Input, idx), tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_get_input_tensor(
    infer_request: *const ov_infer_request_t,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::get_tensor(infer_request, Side::Input, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_get_output_tensor_by_index(
    infer_request: *const ov_infer_request_t,
    idx: usize,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::get_tensor(infer_request, (Side::Output, idx), tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_get_output_tensor(
    infer_request: *const ov_infer_request_t,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(infer_request::get_tensor(infer_request, Side::Output, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_infer(
    infer_request: *mut ov_infer_request_t,
) -> ov_status_e {
    status!(infer_request::infer(infer_request))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_cancel(
    infer_request: *mut ov_infer_request_t,
) -> ov_status_e {
    status!(infer_request::cancel(infer_request))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_start_async(
    infer_request: *mut ov_infer_request_t,
) -> ov_status_e {
    status!(infer_request::start(infer_request))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_wait(
    infer_request: *mut ov_infer_request_t,
) -> ov_status_e {
    status!(infer_request::wait(infer_request))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_wait_for(
    infer_request: *mut ov_infer_request_t,
    timeout: i64,
) -> ov_status_e {
    status!(infer_request::wait_for(infer_request, timeout))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_set_callback(
    infer_request: *mut ov_infer_request_t,
    callback: *const ov_callback_t,
) -> ov_status_e {
    status!(infer_request::set_callback(infer_request, callback))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_free(infer_request: *mut ov_infer_request_t) {
    answer!((), infer_request::free(infer_request))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_infer_request_get_profiling_info(
    infer_request: *const ov_infer_request_t,
    profiling_infos: *mut ov_profiling_info_list_t,
) -> ov_status_e {
    status!(infer_request::get_profiling_info(infer_request, profiling_infos))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_profiling_info_list_free(
    profiling_infos: *mut ov_profiling_info_list_t,
) {
    answer!((), infer_request::free_profiling_info(profiling_infos))
}

// Tensors.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_create_from_host_ptr(
    type_: ov_element_type_e,
    shape: ov_shape_t,
    host_ptr: *mut c_void,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(tensor::create_from_host(type_, shape, host_ptr, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_create(
    type_: ov_element_type_e,
    shape: ov_shape_t,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(tensor::create(type_, shape, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_set_shape(
    tensor: *mut ov_tensor_t,
    shape: ov_shape_t,
) -> ov_status_e {
    status!(tensor::set_shape(tensor, shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_create_from_string_array(
    string_array: *const *const c_char,
    array_size: usize,
    shape: ov_shape_t,
    tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    status!(tensor::create_from_strings((string_array, array_size), shape, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_get_shape(
    tensor: *const ov_tensor_t,
    shape: *mut ov_shape_t,
) -> ov_status_e {
    status!(tensor::get_shape(tensor, shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_get_element_type(
    tensor: *const ov_tensor_t,
    type_: *mut ov_element_type_e,
) -> ov_status_e {
    status!(tensor::get_element_type(tensor, type_))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_set_string_data(
    tensor: *mut ov_tensor_t,
    string_array: *const *const c_char,
    array_size: usize,
) -> ov_status_e {
    status!(tensor::set_strings(tensor, (string_array, array_size)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_get_size(
    tensor: *const ov_tensor_t,
    elements_size: *mut usize,
) -> ov_status_e {
    status!(tensor::get_size(tensor, elements_size))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_get_byte_size(
    tensor: *const ov_tensor_t,
    byte_size: *mut usize,
) -> ov_status_e {
    status!(tensor::get_byte_size(tensor, byte_size))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_data(
    tensor: *const ov_tensor_t,
    data: *mut *mut c_void,
) -> ov_status_e {
    status!(tensor::get_data(tensor, data))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_tensor_free(tensor: *mut ov_tensor_t) {
    answer!((), border::free(tensor))
}

// Shapes.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_shape_create(
    rank: i64,
    dims: *const i64,
    shape: *mut ov_shape_t,
) -> ov_status_e {
    status!(shape::create((rank, dims), shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_shape_free(shape: *mut ov_shape_t) -> ov_status_e {
    status!(shape::free(shape))
}

// Partial shapes.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_partial_shape_create(
    rank: i64,
    dims: *const ov_dimension_t,
    partial_shape_obj: *mut ov_partial_shape_t,
) -> ov_status_e {
    status!(shape::create_partial((rank, dims), partial_shape_obj))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_partial_shape_create_dynamic(
    rank: ov_rank_t,
    dims: *const ov_dimension_t,
    partial_shape_obj: *mut ov_partial_shape_t,
) -> ov_status_e {
    status!(shape::create_partial_with_rank((rank, dims), partial_shape_obj))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_partial_shape_create_static(
    rank: i64,
    dims: *const i64,
    partial_shape_obj: *mut ov_partial_shape_t,
) -> ov_status_e {
    status!(shape::create_partial_of_sizes((rank, dims), partial_shape_obj))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_partial_shape_free(partial_shape: *mut ov_partial_shape_t) {
    answer!((), shape::free_partial(partial_shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_partial_shape_to_shape(
    partial_shape: ov_partial_shape_t,
    shape: *mut ov_shape_t,
) -> ov_status_e {
    status!(shape::partial_to_shape(partial_shape, shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_shape_to_partial_shape(
    shape: ov_shape_t,
    partial_shape: *mut ov_partial_shape_t,
) -> ov_status_e {
    status!(shape::shape_to_partial(shape, partial_shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_partial_shape_is_dynamic(partial_shape: ov_partial_shape_t) -> bool {
    answer!(true, shape::partial_is_dynamic(partial_shape))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_partial_shape_to_string(
    partial_shape: ov_partial_shape_t,
) -> *const c_char {
    answer!(null(), shape::partial_to_string(partial_shape))
}

// Dimensions.

#[unsafe(no_mangle)]
pub extern "C" fn ov_dimension_is_dynamic(dim: ov_dimension_t) -> bool {
    shape::is_open(dim)
}

// Ranks.

#[unsafe(no_mangle)]
pub extern "C" fn ov_rank_is_dynamic(rank: ov_rank_t) -> bool {
    shape::is_open(rank)
}

// Layouts.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_layout_create(
    layout_desc: *const c_char,
    layout: *mut *mut ov_layout_t,
) -> ov_status_e {
    status!(layout::create(layout_desc, layout))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_layout_free(layout: *mut ov_layout_t) {
    answer!((), border::free(layout))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_layout_to_string(layout: *const ov_layout_t) -> *const c_char {
    answer!(null(), layout::to_string(layout))
}

// Preprocessing.

/// The number of entries of a list. One that is negative is more than any list has.
fn count_of(number: i32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_prepostprocessor_create(
    model: *const ov_model_t,
    preprocess: *mut *mut ov_preprocess_prepostprocessor_t,
) -> ov_status_e {
    status!(preprocess::create(model, preprocess))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_prepostprocessor_free(
    preprocess: *mut ov_preprocess_prepostprocessor_t,
) {
    answer!((), border::free(preprocess))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_prepostprocessor_get_input_info(
    preprocess: *const ov_preprocess_prepostprocessor_t,
    preprocess_input_info: *mut *mut ov_preprocess_input_info_t,
) -> ov_status_e {
    status!(preprocess::only_port(preprocess, Side::Input, preprocess_input_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_prepostprocessor_get_input_info_by_name(
    preprocess: *const ov_preprocess_prepostprocessor_t,
    tensor_name: *const c_char,
    preprocess_input_info: *mut *mut ov_preprocess_input_info_t,
) -> ov_status_e {
    status!(preprocess::port_by_name(preprocess, Side::Input, tensor_name, preprocess_input_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_prepostprocessor_get_input_info_by_index(
    preprocess: *const ov_preprocess_prepostprocessor_t,
    tensor_index: usize,
    preprocess_input_info: *mut *mut ov_preprocess_input_info_t,
) -> ov_status_e {
    status!(preprocess::port_by_index(preprocess, Side::Input, tensor_index, preprocess_input_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_info_free(
    preprocess_input_info: *mut ov_preprocess_input_info_t,
) {
    answer!((), border::free(preprocess_input_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_info_get_tensor_info(
    preprocess_input_info: *const ov_preprocess_input_info_t,
    preprocess_input_tensor_info: *mut *mut ov_preprocess_input_tensor_info_t,
) -> ov_status_e {
    status!(preprocess::part(preprocess_input_info, preprocess_input_tensor_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_tensor_info_free(
    preprocess_input_tensor_info: *mut ov_preprocess_input_tensor_info_t,
) {
    answer!((), border::free(preprocess_input_tensor_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_info_get_preprocess_steps(
    preprocess_input_info: *const ov_preprocess_input_info_t,
    preprocess_input_steps: *mut *mut ov_preprocess_preprocess_steps_t,
) -> ov_status_e {
    status!(preprocess::part(preprocess_input_info, preprocess_input_steps))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_free(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
) {
    answer!((), border::free(preprocess_input_process_steps))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_resize(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
    resize_algorithm: ov_preprocess_resize_algorithm_e,
) -> ov_status_e {
    status!(preprocess::resize(preprocess_input_process_steps, resize_algorithm))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_scale(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
    value: f32,
) -> ov_status_e {
    status!(preprocess::scale(preprocess_input_process_steps, value))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_scale_multi_channels(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
    values: *const f32,
    value_size: i32,
) -> ov_status_e {
    status!(preprocess::scale_channels(
        preprocess_input_process_steps,
        (values, count_of(value_size))
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_mean(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
    value: f32,
) -> ov_status_e {
    status!(preprocess::mean(preprocess_input_process_steps, value))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_mean_multi_channels(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
    values: *const f32,
    value_size: i32,
) -> ov_status_e {
    status!(preprocess::mean_channels(
        preprocess_input_process_steps,
        (values, count_of(value_size))
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_crop(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
    begin: *mut i32,
    begin_size: i32,
    end: *mut i32,
    end_size: i32,
) -> ov_status_e {
    status!(preprocess::crop(
        preprocess_input_process_steps,
        (begin.cast_const(), count_of(begin_size)),
        (end.cast_const(), count_of(end_size))
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_convert_layout(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
    layout: *mut ov_layout_t,
) -> ov_status_e {
    status!(preprocess::convert_layout(preprocess_input_process_steps, layout))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_reverse_channels(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
) -> ov_status_e {
    status!(preprocess::reverse_channels(preprocess_input_process_steps))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_tensor_info_set_element_type(
    preprocess_input_tensor_info: *mut ov_preprocess_input_tensor_info_t,
    element_type: ov_element_type_e,
) -> ov_status_e {
    status!(preprocess::set_element_type(preprocess_input_tensor_info, element_type))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_tensor_info_set_color_format(
    preprocess_input_tensor_info: *mut ov_preprocess_input_tensor_info_t,
    color_format: ov_color_format_e,
) -> ov_status_e {
    status!(preprocess::set_color_format(preprocess_input_tensor_info, color_format))
}

variadic!(
    ov_preprocess_input_tensor_info_set_color_format_with_subname(
        _preprocess_input_tensor_info: *mut ov_preprocess_input_tensor_info_t,
        _color_format: ov_color_format_e,
        _sub_names_size: usize,
    ),
    tract_variadic_preprocess_set_color_format_with_subname
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_tensor_info_set_color_format_with_subnames(
    preprocess_input_tensor_info: *mut ov_preprocess_input_tensor_info_t,
    color_format: ov_color_format_e,
    sub_names_size: usize,
    sub_names: *const *const c_char,
) -> ov_status_e {
    status!(preprocess::set_color_format_of_planes(
        preprocess_input_tensor_info,
        color_format,
        sub_names_size,
        (sub_names, sub_names_size)
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_tensor_info_set_spatial_static_shape(
    preprocess_input_tensor_info: *mut ov_preprocess_input_tensor_info_t,
    input_height: usize,
    input_width: usize,
) -> ov_status_e {
    status!(preprocess::set_spatial_shape(preprocess_input_tensor_info, input_height, input_width))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_tensor_info_set_memory_type(
    preprocess_input_tensor_info: *mut ov_preprocess_input_tensor_info_t,
    mem_type: *const c_char,
) -> ov_status_e {
    status!(preprocess::set_memory_type(preprocess_input_tensor_info, mem_type))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_convert_element_type(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
    element_type: ov_element_type_e,
) -> ov_status_e {
    status!(preprocess::convert_element_type(preprocess_input_process_steps, element_type))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_convert_color(
    preprocess_input_process_steps: *mut ov_preprocess_preprocess_steps_t,
    color_format: ov_color_format_e,
) -> ov_status_e {
    status!(preprocess::convert_color(preprocess_input_process_steps, color_format))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_tensor_info_set_from(
    preprocess_input_tensor_info: *mut ov_preprocess_input_tensor_info_t,
    tensor: *const ov_tensor_t,
) -> ov_status_e {
    status!(preprocess::set_from(preprocess_input_tensor_info, tensor))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_tensor_info_set_layout(
    preprocess_input_tensor_info: *mut ov_preprocess_input_tensor_info_t,
    layout: *mut ov_layout_t,
) -> ov_status_e {
    status!(preprocess::set_layout(preprocess_input_tensor_info, layout))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_prepostprocessor_get_output_info(
    preprocess: *const ov_preprocess_prepostprocessor_t,
    preprocess_output_info: *mut *mut ov_preprocess_output_info_t,
) -> ov_status_e {
    status!(preprocess::only_port(preprocess, Side::Output, preprocess_output_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_prepostprocessor_get_output_info_by_index(
    preprocess: *const ov_preprocess_prepostprocessor_t,
    tensor_index: usize,
    preprocess_output_info: *mut *mut ov_preprocess_output_info_t,
) -> ov_status_e {
    status!(preprocess::port_by_index(
        preprocess,
        Side::Output,
        tensor_index,
        preprocess_output_info
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_prepostprocessor_get_output_info_by_name(
    preprocess: *const ov_preprocess_prepostprocessor_t,
    tensor_name: *const c_char,
    preprocess_output_info: *mut *mut ov_preprocess_output_info_t,
) -> ov_status_e {
    status!(preprocess::port_by_name(preprocess, Side::Output, tensor_name, preprocess_output_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_output_info_free(
    preprocess_output_info: *mut ov_preprocess_output_info_t,
) {
    answer!((), border::free(preprocess_output_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_output_info_get_tensor_info(
    preprocess_output_info: *const ov_preprocess_output_info_t,
    preprocess_output_tensor_info: *mut *mut ov_preprocess_output_tensor_info_t,
) -> ov_status_e {
    status!(preprocess::part(preprocess_output_info, preprocess_output_tensor_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_output_tensor_info_free(
    preprocess_output_tensor_info: *mut ov_preprocess_output_tensor_info_t,
) {
    answer!((), border::free(preprocess_output_tensor_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_output_set_element_type(
    preprocess_output_tensor_info: *mut ov_preprocess_output_tensor_info_t,
    element_type: ov_element_type_e,
) -> ov_status_e {
    status!(preprocess::set_output_element_type(preprocess_output_tensor_info, element_type))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_info_get_model_info(
    preprocess_input_info: *const ov_preprocess_input_info_t,
    preprocess_input_model_info: *mut *mut ov_preprocess_input_model_info_t,
) -> ov_status_e {
    status!(preprocess::part(preprocess_input_info, preprocess_input_model_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_model_info_free(
    preprocess_input_model_info: *mut ov_preprocess_input_model_info_t,
) {
    answer!((), border::free(preprocess_input_model_info))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_input_model_info_set_layout(
    preprocess_input_model_info: *mut ov_preprocess_input_model_info_t,
    layout: *mut ov_layout_t,
) -> ov_status_e {
    status!(preprocess::set_model_layout(preprocess_input_model_info, layout))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_prepostprocessor_build(
    preprocess: *const ov_preprocess_prepostprocessor_t,
    model: *mut *mut ov_model_t,
) -> ov_status_e {
    status!(preprocess::build(preprocess, model))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ov_preprocess_preprocess_steps_pad(
    preprocess_input_process_steps: *const ov_preprocess_preprocess_steps_t,
    pads_begin: *const i32,
    pads_begin_size: usize,
    pads_end: *const i32,
    pads_end_size: usize,
    value: f32,
    mode: ov_padding_mode_e,
) -> ov_status_e {
    status!(preprocess::pad(
        preprocess_input_process_steps,
        (pads_begin, pads_begin_size),
        (pads_end, pads_end_size),
        value,
        mode
    ))
}

// Remote contexts, of which there are none.

variadic!(
    ov_remote_context_create_tensor(
        _context: *const ov_remote_context_t,
        _type_: ov_element_type_e,
        _shape: ov_shape_t,
        _object_args_size: usize,
        _remote_tensor: *mut *mut ov_tensor_t,
    ),
    tract_variadic_remote_context_create_tensor
);

#[unsafe(no_mangle)]
pub extern "C" fn ov_remote_context_create_tensor_props(
    _context: *const ov_remote_context_t,
    _type: ov_element_type_e,
    _shape: ov_shape_t,
    _num_properties: usize,
    _properties: *const ov_property_t,
    _remote_tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    border::status(core::no_context)
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_remote_context_get_device_name(
    _context: *const ov_remote_context_t,
    _device_name: *mut *mut c_char,
) -> ov_status_e {
    border::status(core::no_context)
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_remote_context_get_params(
    _context: *const ov_remote_context_t,
    _size: *mut usize,
    _params: *mut *mut c_char,
) -> ov_status_e {
    border::status(core::no_context)
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_remote_context_create_host_tensor(
    _context: *const ov_remote_context_t,
    _type: ov_element_type_e,
    _shape: ov_shape_t,
    _tensor: *mut *mut ov_tensor_t,
) -> ov_status_e {
    border::status(core::no_context)
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_remote_context_free(_context: *mut ov_remote_context_t) {}

#[unsafe(no_mangle)]
pub extern "C" fn ov_remote_tensor_get_params(
    _tensor: *mut ov_tensor_t,
    _size: *mut usize,
    _params: *mut *mut c_char,
) -> ov_status_e {
    border::status(core::no_context)
}

#[unsafe(no_mangle)]
pub extern "C" fn ov_remote_tensor_get_device_name(
    _remote_tensor: *mut ov_tensor_t,
    _device_name: *mut *mut c_char,
) -> ov_status_e {
    border::status(core::no_context)
}
