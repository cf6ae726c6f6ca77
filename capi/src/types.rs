//! The types of the headers, as they are in memory.

#![allow(
    non_camel_case_types,
    non_snake_case,
    clippy::upper_case_acronyms,
    dead_code,
    missing_docs
)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// What a function answers.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ov_status_e {
    OK = 0,
    GENERAL_ERROR = -1,
    NOT_IMPLEMENTED = -2,
    NETWORK_NOT_LOADED = -3,
    PARAMETER_MISMATCH = -4,
    NOT_FOUND = -5,
    OUT_OF_BOUNDS = -6,
    UNEXPECTED = -7,
    REQUEST_BUSY = -8,
    RESULT_NOT_READY = -9,
    NOT_ALLOCATED = -10,
    INFER_NOT_STARTED = -11,
    NETWORK_NOT_READ = -12,
    INFER_CANCELLED = -13,
    INVALID_C_PARAM = -14,
    UNKNOWN_C_ERROR = -15,
    NOT_IMPLEMENT_C_METHOD = -16,
    UNKNOW_EXCEPTION = -17,
}

/// A status as a program may give it back: any number.
pub type ov_status_number = c_int;
/// An element type: one of the numbers of the headers, or any other.
pub type ov_element_type_e = c_uint;
/// A colour format, as above.
pub type ov_color_format_e = c_uint;
/// An algorithm of resizing, as above.
pub type ov_preprocess_resize_algorithm_e = c_uint;
/// What is around a padded image, as above.
pub type ov_padding_mode_e = c_uint;

/// A character of a wide text: 32 bits, on Windows 16.
#[cfg(not(windows))]
pub type wchar_t = i32;
/// A character of a wide text: 32 bits, on Windows 16.
#[cfg(windows)]
pub type wchar_t = u16;

// What only this library sees inside: pointers to these are numbers.

pub struct ov_core_t(());
pub struct ov_model_t(());
pub struct ov_compiled_model_t(());
pub struct ov_infer_request_t(());
pub struct ov_tensor_t(());
pub struct ov_layout_t(());
pub struct ov_output_port_t(());
pub struct ov_output_const_port_t(());
pub struct ov_remote_context_t(());
pub struct ov_preprocess_prepostprocessor_t(());
pub struct ov_preprocess_input_info_t(());
pub struct ov_preprocess_input_tensor_info_t(());
pub struct ov_preprocess_input_model_info_t(());
pub struct ov_preprocess_preprocess_steps_t(());
pub struct ov_preprocess_output_info_t(());
pub struct ov_preprocess_output_tensor_info_t(());

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_shape_t {
    pub rank: i64,
    pub dims: *mut i64,
}

/// A size, or a range of sizes: -1 is no end.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ov_dimension_t {
    pub min: i64,
    pub max: i64,
}

pub type ov_rank_t = ov_dimension_t;

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_partial_shape_t {
    pub rank: ov_rank_t,
    pub dims: *mut ov_dimension_t,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_version_t {
    pub buildNumber: *const c_char,
    pub description: *const c_char,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_core_version_t {
    pub device_name: *const c_char,
    pub version: ov_version_t,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_core_version_list_t {
    pub versions: *mut ov_core_version_t,
    pub size: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_available_devices_t {
    pub devices: *mut *mut c_char,
    pub size: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_property_t {
    pub key: *const c_char,
    pub value: *const c_void,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_callback_t {
    pub callback_func: Option<unsafe extern "C" fn(args: *mut c_void)>,
    pub args: *mut c_void,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_profiling_info_t {
    /// 0: not run, 1: optimised out, 2: executed.
    pub status: c_uint,
    pub real_time: i64,
    pub cpu_time: i64,
    pub node_name: *const c_char,
    pub exec_type: *const c_char,
    pub node_type: *const c_char,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ov_profiling_info_list_t {
    pub profiling_infos: *mut ov_profiling_info_t,
    pub size: usize,
}

pub type ov_util_log_callback_func = Option<unsafe extern "C" fn(message: *const c_char)>;

// What the headers say of sizes, with pointers of any size.
const _: () = {
    const POINTER: usize = size_of::<*const c_void>();
    assert!(size_of::<ov_status_e>() == 4);
    assert!(size_of::<ov_dimension_t>() == 16);
    assert!(size_of::<ov_shape_t>() == 16);
    assert!(size_of::<ov_partial_shape_t>() == 24);
    assert!(size_of::<ov_version_t>() == 2 * POINTER);
    assert!(size_of::<ov_core_version_t>() == 3 * POINTER);
    assert!(size_of::<ov_property_t>() == 2 * POINTER);
    assert!(size_of::<ov_callback_t>() == 2 * POINTER);
    assert!(size_of::<ov_profiling_info_list_t>() == 2 * POINTER);
    assert!(POINTER != 8 || size_of::<ov_profiling_info_t>() == 48);
};
