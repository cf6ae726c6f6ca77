//! The functions as a program in C calls them.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::exports::*;
use crate::types::ov_status_e::*;
use crate::types::*;
use crate::{border, handles};

const F32: u32 = 4;
const I64: u32 = 10;
const U8: u32 = 16;

/// One test at a time, as some count what there is.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls a function. A test passes pointers that are good, or null, or none that the library gave.
macro_rules! c {
    ($call:expr) => {
        // SAFETY: as above.
        unsafe { $call }
    };
}

/// Calls what must succeed.
macro_rules! ok {
    ($call:expr) => {{
        let status = c!($call);
        assert_eq!(status, OK, "{}: {}", stringify!($call), last());
    }};
}

/// Calls what must fail, with these words in the text of the error.
macro_rules! fails {
    ($status:expr, $words:expr, $call:expr) => {{
        assert_eq!(c!($call), $status, "{}: {}", stringify!($call), last());
        let text = last();
        assert!(text.contains($words), "{}: {text}", stringify!($call));
    }};
}

fn last() -> String {
    let text = ov_get_last_err_msg();
    if text.is_null() {
        return String::new();
    }
    // SAFETY: it is a text, which stays until the next call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn given(text: *mut c_char) -> String {
    // SAFETY: it is a text of the library.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    ov_free(text);
    copy
}

fn network(name: &str) -> CString {
    let path = Path::new("../ir/models/networks").join(name).join("model.xml");
    CString::new(path.to_str().unwrap()).unwrap()
}

fn core() -> *mut ov_core_t {
    let mut core = null_mut();
    ok!(ov_core_create(&mut core));
    core
}

fn read(core: *mut ov_core_t, name: &str) -> *mut ov_model_t {
    let mut model = null_mut();
    ok!(ov_core_read_model(core, network(name).as_ptr(), null(), &mut model));
    model
}

fn compile(
    core: *mut ov_core_t,
    name: &str,
    properties: &[(&CStr, &CStr)],
) -> *mut ov_compiled_model_t {
    let model = read(core, name);
    let property = |(key, value): &(&CStr, &CStr)| ov_property_t {
        key: key.as_ptr(),
        value: value.as_ptr().cast(),
    };
    let properties: Vec<ov_property_t> = properties.iter().map(property).collect();
    let mut compiled = null_mut();
    let (count, properties) = (properties.len(), properties.as_ptr());
    ok!(ov_core_compile_model_props(
        core,
        model,
        c"CPU".as_ptr(),
        count,
        properties,
        &mut compiled
    ));
    c!(ov_model_free(model));
    compiled
}

/// The bytes of an export.
fn exported(compiled: *mut ov_compiled_model_t) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("tract-openvino-{}.blob", std::process::id()));
    let text = CString::new(path.to_str().unwrap()).unwrap();
    ok!(ov_compiled_model_export_model(compiled, text.as_ptr()));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

fn import(
    core: *mut ov_core_t,
    bytes: &[u8],
    imported: &mut *mut ov_compiled_model_t,
) -> ov_status_e {
    // The library keeps nothing of these.
    let copy = bytes.to_vec();
    c!(ov_core_import_model(core, copy.as_ptr().cast(), copy.len(), c"CPU".as_ptr(), imported))
}

fn request(compiled: *mut ov_compiled_model_t) -> *mut ov_infer_request_t {
    let mut request = null_mut();
    ok!(ov_compiled_model_create_infer_request(compiled, &mut request));
    request
}

fn shape(sizes: &mut [i64]) -> ov_shape_t {
    ov_shape_t { rank: sizes.len() as i64, dims: sizes.as_mut_ptr() }
}

fn host_tensor<T>(number: u32, sizes: &mut [i64], data: &mut [T]) -> *mut ov_tensor_t {
    let mut tensor = null_mut();
    let data = data.as_mut_ptr().cast();
    ok!(ov_tensor_create_from_host_ptr(number, shape(sizes), data, &mut tensor));
    tensor
}

fn sizes_of(tensor: *mut ov_tensor_t) -> Vec<i64> {
    let mut shape = ov_shape_t { rank: 0, dims: null_mut() };
    ok!(ov_tensor_get_shape(tensor, &mut shape));
    let sizes = match shape.rank {
        0 => vec![],
        // SAFETY: the library gave so many.
        rank => unsafe { std::slice::from_raw_parts(shape.dims, rank as usize) }.to_vec(),
    };
    ok!(ov_shape_free(&mut shape));
    sizes
}

fn address(tensor: *mut ov_tensor_t) -> *mut f32 {
    let mut data = null_mut();
    ok!(ov_tensor_data(tensor, &mut data));
    data.cast()
}

fn floats(tensor: *mut ov_tensor_t) -> Vec<f32> {
    let mut count = 0;
    ok!(ov_tensor_get_size(tensor, &mut count));
    // SAFETY: there are so many.
    unsafe { std::slice::from_raw_parts(address(tensor), count) }.to_vec()
}

fn tensor_of(
    request: *mut ov_infer_request_t,
    get: unsafe extern "C" fn(
        *const ov_infer_request_t,
        usize,
        *mut *mut ov_tensor_t,
    ) -> ov_status_e,
    number: usize,
) -> *mut ov_tensor_t {
    let mut tensor = null_mut();
    ok!(get(request, number, &mut tensor));
    tensor
}

mod preprocess;

/// Everything is null, or 0.
#[test]
fn nulls_are_refused() {
    let _alone = alone();
    let core = core();
    let no_shape = || ov_shape_t { rank: 0, dims: null_mut() };
    let no_partial_shape = || {
        let rank = ov_dimension_t { min: 0, max: 0 };
        ov_partial_shape_t { rank, dims: null_mut() }
    };
    macro_rules! refused {
        ($($call:expr;)*) => {
            $(assert_eq!(c!($call), INVALID_C_PARAM, "{}", stringify!($call));)*
        };
    }
    refused! {
        ov_get_openvino_version(null_mut());
        ov_core_create(null_mut());
        ov_core_create_with_config(null(), &mut null_mut());
        ov_core_create_with_config(c"".as_ptr(), null_mut());
        ov_core_create_with_config_unicode(null(), &mut null_mut());
        ov_core_read_model(null(), c"x".as_ptr(), null(), &mut null_mut());
        ov_core_read_model(core, null(), null(), &mut null_mut());
        ov_core_read_model(core, c"x".as_ptr(), null(), null_mut());
        ov_core_read_model_unicode(core, null(), null(), &mut null_mut());
        ov_core_read_model_from_memory_buffer(core, null(), 7, null(), &mut null_mut());
        ov_core_read_model_from_memory_buffer(core, c"x".as_ptr(), 0, null(), &mut null_mut());
        ov_core_read_model_from_memory_buffer(core, c"x".as_ptr(), 1, null(), null_mut());
        ov_core_add_extension(core, null());
        ov_core_add_extension(null(), c"x".as_ptr());
        ov_core_set_properties(core, c"CPU".as_ptr(), 1, null());
        ov_core_set_properties(core, c"CPU".as_ptr(), 0, null());
        ov_core_compile_model_props(core, null(), c"CPU".as_ptr(), 0, null(), &mut null_mut());
        ov_core_compile_model_from_file_props(core, null(), null(), 0, null(), &mut null_mut());
        ov_core_compile_model_from_file_unicode_props(core, null(), null(), 0, null(), &mut null_mut());
        ov_core_get_property(core, null(), c"NUM_STREAMS".as_ptr(), &mut null_mut());
        ov_core_get_property(core, c"CPU".as_ptr(), null(), &mut null_mut());
        ov_core_get_property(core, c"CPU".as_ptr(), c"NUM_STREAMS".as_ptr(), null_mut());
        ov_core_get_available_devices(core, null_mut());
        ov_core_import_model(core, null(), 7, c"CPU".as_ptr(), &mut null_mut());
        ov_core_get_versions_by_device_name(core, null(), null_mut());
        ov_model_const_input(null(), &mut null_mut());
        ov_model_const_input_by_name(null(), c"x".as_ptr(), &mut null_mut());
        ov_model_const_input_by_index(null(), 0, &mut null_mut());
        ov_model_input(null(), &mut null_mut());
        ov_model_input_by_name(null(), c"x".as_ptr(), &mut null_mut());
        ov_model_input_by_index(null(), 0, &mut null_mut());
        ov_model_const_output(null(), &mut null_mut());
        ov_model_const_output_by_name(null(), c"x".as_ptr(), &mut null_mut());
        ov_model_const_output_by_index(null(), 0, &mut null_mut());
        ov_model_output(null(), &mut null_mut());
        ov_model_output_by_name(null(), c"x".as_ptr(), &mut null_mut());
        ov_model_output_by_index(null(), 0, &mut null_mut());
        ov_model_inputs_size(null(), &mut 0);
        ov_model_outputs_size(null(), &mut 0);
        ov_model_reshape(null(), null(), null(), 1);
        ov_model_reshape_input_by_name(null(), c"x".as_ptr(), no_partial_shape());
        ov_model_reshape_single_input(null(), no_partial_shape());
        ov_model_reshape_by_port_indexes(null(), null(), null(), 1);
        ov_model_reshape_by_ports(null(), null(), null(), 1);
        ov_model_get_friendly_name(null(), &mut null_mut());
        ov_const_port_get_shape(null(), &mut no_shape());
        ov_port_get_shape(null(), &mut no_shape());
        ov_port_get_any_name(null(), &mut null_mut());
        ov_port_get_partial_shape(null(), &mut no_partial_shape());
        ov_port_get_element_type(null(), &mut 0);
        ov_compiled_model_inputs_size(null(), &mut 0);
        ov_compiled_model_outputs_size(null(), &mut 0);
        ov_compiled_model_input(null(), &mut null_mut());
        ov_compiled_model_input_by_index(null(), 0, &mut null_mut());
        ov_compiled_model_input_by_name(null(), c"x".as_ptr(), &mut null_mut());
        ov_compiled_model_output(null(), &mut null_mut());
        ov_compiled_model_output_by_index(null(), 0, &mut null_mut());
        ov_compiled_model_output_by_name(null(), c"x".as_ptr(), &mut null_mut());
        ov_compiled_model_get_runtime_model(null(), &mut null_mut());
        ov_compiled_model_create_infer_request(null(), &mut null_mut());
        ov_compiled_model_set_properties(null(), 0, null());
        ov_compiled_model_get_property(null(), c"x".as_ptr(), &mut null_mut());
        ov_compiled_model_export_model(null(), c"x".as_ptr());
        ov_infer_request_set_tensor(null_mut(), c"x".as_ptr(), null());
        ov_infer_request_set_tensor_by_port(null_mut(), null(), null());
        ov_infer_request_set_tensor_by_const_port(null_mut(), null(), null());
        ov_infer_request_set_input_tensor_by_index(null_mut(), 0, null());
        ov_infer_request_set_input_tensor(null_mut(), null());
        ov_infer_request_set_output_tensor_by_index(null_mut(), 0, null());
        ov_infer_request_set_output_tensor(null_mut(), null());
        ov_infer_request_get_tensor(null(), c"x".as_ptr(), &mut null_mut());
        ov_infer_request_get_tensor_by_const_port(null(), null(), &mut null_mut());
        ov_infer_request_get_tensor_by_port(null(), null(), &mut null_mut());
        ov_infer_request_get_input_tensor_by_index(null(), 0, &mut null_mut());
        ov_infer_request_get_input_tensor(null(), &mut null_mut());
        ov_infer_request_get_output_tensor_by_index(null(), 0, &mut null_mut());
        ov_infer_request_get_output_tensor(null(), &mut null_mut());
        ov_infer_request_infer(null_mut());
        ov_infer_request_cancel(null_mut());
        ov_infer_request_start_async(null_mut());
        ov_infer_request_wait(null_mut());
        ov_infer_request_wait_for(null_mut(), 0);
        ov_infer_request_set_callback(null_mut(), null());
        ov_infer_request_get_profiling_info(null(), null_mut());
        ov_tensor_create_from_host_ptr(F32, no_shape(), null_mut(), &mut null_mut());
        ov_tensor_create_from_host_ptr(F32, no_shape(), [0f32; 4].as_mut_ptr().cast(), null_mut());
        ov_tensor_create(F32, no_shape(), null_mut());
        ov_tensor_create(F32, ov_shape_t { rank: 2, dims: null_mut() }, &mut null_mut());
        ov_tensor_create(F32, ov_shape_t { rank: -2, dims: &mut 1 }, &mut null_mut());
        ov_tensor_create(26, no_shape(), &mut null_mut());
        ov_tensor_set_shape(null_mut(), no_shape());
        ov_tensor_create_from_string_array(null(), 1, no_shape(), &mut null_mut());
        ov_tensor_get_shape(null(), &mut no_shape());
        ov_tensor_get_element_type(null(), &mut 0);
        ov_tensor_set_string_data(null_mut(), null(), 0);
        ov_tensor_get_size(null(), &mut 0);
        ov_tensor_get_byte_size(null(), &mut 0);
        ov_tensor_data(null(), &mut null_mut());
        ov_shape_create(0, null(), &mut no_shape());
        ov_shape_create(2, [1, 2].as_ptr(), null_mut());
        ov_shape_free(null_mut());
        ov_partial_shape_create(1, null(), &mut no_partial_shape());
        ov_partial_shape_create_dynamic(ov_dimension_t { min: 2, max: 2 }, null(), &mut no_partial_shape());
        ov_partial_shape_create_static(2, null(), &mut no_partial_shape());
        ov_partial_shape_create_static(2, [1, 2].as_ptr(), null_mut());
        ov_partial_shape_to_shape(no_partial_shape(), null_mut());
        ov_shape_to_partial_shape(no_shape(), &mut no_partial_shape());
        ov_layout_create(null(), &mut null_mut());
        ov_layout_create(c"N".as_ptr(), null_mut());
    }
    // What frees takes null.
    let count = handles::count();
    c!(ov_version_free(null_mut()));
    c!(ov_core_free(null_mut()));
    c!(ov_available_devices_free(null_mut()));
    c!(ov_core_versions_free(null_mut()));
    c!(ov_model_free(null_mut()));
    c!(ov_output_port_free(null_mut()));
    c!(ov_output_const_port_free(null_mut()));
    c!(ov_compiled_model_free(null_mut()));
    c!(ov_infer_request_free(null_mut()));
    c!(ov_profiling_info_list_free(null_mut()));
    c!(ov_tensor_free(null_mut()));
    c!(ov_partial_shape_free(null_mut()));
    c!(ov_layout_free(null_mut()));
    ov_free(null());
    assert_eq!(handles::count(), count);
    assert!(!c!(ov_model_is_dynamic(null())));
    c!(ov_core_free(core));
}

/// A pointer that was freed, or is to something else, or to nothing.
#[test]
fn pointers_are_told_from_each_other() {
    let _alone = alone();
    let core = core();
    let mut tensor = null_mut();
    ok!(ov_tensor_create(F32, shape(&mut [2]), &mut tensor));
    let mut number = 0;
    fails!(INVALID_C_PARAM, "it is to a core", ov_tensor_get_size(core.cast(), &mut number));
    let path = network("unet");
    let as_core = tensor.cast::<ov_core_t>();
    fails!(
        INVALID_C_PARAM,
        "it is to a tensor",
        ov_core_read_model(as_core, path.as_ptr(), null(), &mut null_mut())
    );
    // It stays when it is freed as something else.
    c!(ov_core_free(as_core));
    assert!(last().contains("it is to a tensor"), "{}", last());
    ok!(ov_tensor_get_size(tensor, &mut number));
    c!(ov_tensor_free(tensor));
    fails!(INVALID_C_PARAM, "freed", ov_tensor_get_size(tensor, &mut number));
    c!(ov_tensor_free(tensor));
    assert!(last().contains("freed"), "{}", last());
    // Memory of the program is no object, and is not freed.
    let mut own = [0u64; 16];
    fails!(
        INVALID_C_PARAM,
        "never created",
        ov_tensor_get_size(own.as_mut_ptr().cast(), &mut number)
    );
    c!(ov_tensor_free(own.as_mut_ptr().cast()));
    ov_free(own.as_ptr().cast());
    let mut dims = [3i64, 4];
    let mut own_shape = shape(&mut dims);
    ok!(ov_shape_free(&mut own_shape));
    assert_eq!((own_shape.rank, dims), (0, [3, 4]));
    let text = c!(ov_partial_shape_to_string(ov_partial_shape_t {
        rank: ov_dimension_t { min: -1, max: -1 },
        dims: null_mut()
    }));
    ov_free(text);
    ov_free(text);
    c!(ov_core_free(core));
    c!(ov_core_free(core));
}

/// What is made and freed leaves nothing.
#[test]
fn nothing_is_left() {
    let _alone = alone();
    let (objects, results) = (handles::count(), border::count_given());
    let core = core();
    let model = read(core, "unet");
    let mut name = null_mut();
    ok!(ov_model_get_friendly_name(model, &mut name));
    let mut port = null_mut();
    ok!(ov_model_const_input(model, &mut port));
    let mut partial =
        ov_partial_shape_t { rank: ov_dimension_t { min: 0, max: 0 }, dims: null_mut() };
    ok!(ov_port_get_partial_shape(port, &mut partial));
    let mut versions = ov_core_version_list_t { versions: null_mut(), size: 0 };
    ok!(ov_core_get_versions_by_device_name(core, c"AUTO:CPU".as_ptr(), &mut versions));
    assert_eq!(versions.size, 2);
    let mut devices = ov_available_devices_t { devices: null_mut(), size: 0 };
    ok!(ov_core_get_available_devices(core, &mut devices));
    let mut version = ov_version_t { buildNumber: null(), description: null() };
    ok!(ov_get_openvino_version(&mut version));
    let compiled = compile(core, "unet", &[(c"PERF_COUNT", c"YES")]);
    let request = request(compiled);
    let mut list = ov_profiling_info_list_t { profiling_infos: null_mut(), size: 0 };
    ok!(ov_infer_request_get_profiling_info(request, &mut list));
    assert!(border::count_given() > results && handles::count() > objects);
    c!(ov_profiling_info_list_free(&mut list));
    c!(ov_infer_request_free(request));
    c!(ov_compiled_model_free(compiled));
    c!(ov_version_free(&mut version));
    c!(ov_available_devices_free(&mut devices));
    c!(ov_core_versions_free(&mut versions));
    c!(ov_partial_shape_free(&mut partial));
    c!(ov_output_const_port_free(port));
    assert!(!given(name).is_empty());
    c!(ov_model_free(model));
    c!(ov_core_free(core));
    assert_eq!((handles::count(), border::count_given()), (objects, results));
    // Twice is as good.
    c!(ov_profiling_info_list_free(&mut list));
    c!(ov_version_free(&mut version));
    c!(ov_partial_shape_free(&mut partial));
}

#[test]
fn tensors_are_views() {
    let _alone = alone();
    let core = core();
    let compiled = compile(core, "ocr_cls", &[]);
    let request = request(compiled);
    let mut pixels = vec![0.5f32; 3 * 48 * 192];
    let input = host_tensor(F32, &mut [1, 3, 48, 192], &mut pixels);
    assert_eq!(address(input), pixels.as_mut_ptr());
    ok!(ov_infer_request_set_input_tensor(request, input));
    let early = tensor_of(request, ov_infer_request_get_output_tensor_by_index, 0);
    assert_eq!(sizes_of(early), [0, 2]);
    ok!(ov_infer_request_infer(request));
    assert_eq!(sizes_of(early), [1, 2]);
    let first = floats(early);
    // The program knows where it is now: so it stays there.
    let place = address(early);
    pixels
        .iter_mut()
        .enumerate()
        .for_each(|(number, pixel)| *pixel = (number % 7) as f32 / 3. - 1.);
    ok!(ov_infer_request_infer(request));
    assert_eq!(address(early), place);
    assert_ne!(floats(early), first);
    // Memory of the program.
    let mut room = [0f32; 2];
    let own = host_tensor(F32, &mut [1, 2], &mut room);
    ok!(ov_infer_request_set_output_tensor(request, own));
    ok!(ov_infer_request_infer(request));
    assert_eq!(room.to_vec(), floats(early));
    // Two images: there is no room for their classes.
    let mut pixels = vec![0.5f32; 2 * 3 * 48 * 192];
    let two = host_tensor(F32, &mut [2, 3, 48, 192], &mut pixels);
    ok!(ov_infer_request_set_input_tensor(request, two));
    fails!(GENERAL_ERROR, "the memory of the program", ov_infer_request_infer(request));
    // There is in memory of the library.
    let mut more = null_mut();
    ok!(ov_tensor_create(F32, shape(&mut [1, 2]), &mut more));
    ok!(ov_infer_request_set_output_tensor(request, more));
    ok!(ov_infer_request_infer(request));
    assert_eq!(sizes_of(more), [2, 2]);
    for tensor in [early, own, two, more, input] {
        c!(ov_tensor_free(tensor));
    }
    c!(ov_infer_request_free(request));
    c!(ov_compiled_model_free(compiled));
    c!(ov_core_free(core));
}

#[test]
fn shapes_of_tensors() {
    let _alone = alone();
    let mut room = [1f32, 2., 3., 4., 5., 6.];
    let tensor = host_tensor(F32, &mut [2, 3], &mut room);
    ok!(ov_tensor_set_shape(tensor, shape(&mut [1, 2])));
    assert_eq!(floats(tensor), [1., 2.]);
    ok!(ov_tensor_set_shape(tensor, shape(&mut [3, 2])));
    assert_eq!(floats(tensor), room);
    fails!(GENERAL_ERROR, "28 bytes", ov_tensor_set_shape(tensor, shape(&mut [7])));
    assert_eq!(sizes_of(tensor), [3, 2]);
    fails!(GENERAL_ERROR, "negative", ov_tensor_set_shape(tensor, shape(&mut [-1])));
    c!(ov_tensor_free(tensor));
    let mut own = null_mut();
    ok!(ov_tensor_create(F32, shape(&mut [4]), &mut own));
    let place = address(own);
    ok!(ov_tensor_set_shape(own, shape(&mut [2])));
    ok!(ov_tensor_set_shape(own, shape(&mut [2, 2])));
    assert_eq!(address(own), place);
    ok!(ov_tensor_set_shape(own, shape(&mut [100])));
    assert_eq!(floats(own).len(), 100);
    fails!(GENERAL_ERROR, "too many", ov_tensor_set_shape(own, shape(&mut [1 << 40, 1 << 40])));
    c!(ov_tensor_free(own));
    // A scalar, and one of no elements.
    for (sizes, count) in [(&mut [][..], 1), (&mut [0, 3][..], 0)] {
        let mut tensor = null_mut();
        ok!(ov_tensor_create(F32, shape(sizes), &mut tensor));
        assert_eq!(floats(tensor).len(), count);
        assert!(!address(tensor).is_null());
        c!(ov_tensor_free(tensor));
    }
}

/// A request that takes long enough to be met while it runs.
struct Long {
    core: *mut ov_core_t,
    compiled: *mut ov_compiled_model_t,
    request: *mut ov_infer_request_t,
    _pixels: Vec<f32>,
}

impl Long {
    fn new() -> Long {
        let core = core();
        let compiled = compile(core, "unet", &[]);
        let request = request(compiled);
        let mut pixels = vec![0.5f32; 3 * 512 * 1024];
        let input = host_tensor(F32, &mut [1, 3, 512, 1024], &mut pixels);
        ok!(ov_infer_request_set_input_tensor(request, input));
        c!(ov_tensor_free(input));
        Long { core, compiled, request, _pixels: pixels }
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        c!(ov_infer_request_free(self.request));
        c!(ov_compiled_model_free(self.compiled));
        c!(ov_core_free(self.core));
    }
}

#[test]
fn a_request_that_runs_is_busy() {
    let _alone = alone();
    let long = Long::new();
    ok!(ov_infer_request_wait(long.request));
    ok!(ov_infer_request_start_async(long.request));
    let input = c"x".as_ptr();
    fails!(REQUEST_BUSY, "busy", ov_infer_request_start_async(long.request));
    fails!(REQUEST_BUSY, "busy", ov_infer_request_infer(long.request));
    fails!(REQUEST_BUSY, "busy", ov_infer_request_get_tensor(long.request, input, &mut null_mut()));
    fails!(RESULT_NOT_READY, "not ended", ov_infer_request_wait_for(long.request, 0));
    fails!(GENERAL_ERROR, "0 or more", ov_infer_request_wait_for(long.request, -1));
    ok!(ov_infer_request_wait(long.request));
    ok!(ov_infer_request_wait_for(long.request, 0));
    let output = tensor_of(long.request, ov_infer_request_get_output_tensor_by_index, 0);
    assert!(floats(output).iter().any(|it| *it != 0.));
    c!(ov_tensor_free(output));
}

#[test]
fn a_request_is_cancelled() {
    let _alone = alone();
    let long = Long::new();
    // What does not run is not.
    ok!(ov_infer_request_cancel(long.request));
    ok!(ov_infer_request_wait(long.request));
    ok!(ov_infer_request_start_async(long.request));
    ok!(ov_infer_request_cancel(long.request));
    fails!(INFER_CANCELLED, "cancelled", ov_infer_request_wait(long.request));
    fails!(INFER_CANCELLED, "cancelled", ov_infer_request_wait(long.request));
    ok!(ov_infer_request_infer(long.request));
    ok!(ov_infer_request_wait(long.request));
    // Another one is freed while it runs.
    ok!(ov_infer_request_start_async(long.request));
    let started = Instant::now();
    ok!(ov_infer_request_cancel(long.request));
    drop(long);
    assert!(started.elapsed() < Duration::from_secs(60));
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Starts the request again, three times.
unsafe extern "C" fn again(request: *mut c_void) {
    if CALLS.fetch_add(1, Ordering::SeqCst) < 3 {
        ok!(ov_infer_request_start_async(request.cast()));
    }
}

#[test]
fn a_callback_starts_the_next_run() {
    let _alone = alone();
    let core = core();
    let compiled = compile(core, "ocr_cls", &[(c"PERFORMANCE_HINT", c"THROUGHPUT")]);
    let request = request(compiled);
    let mut pixels = vec![0.5f32; 3 * 48 * 192];
    let input = host_tensor(F32, &mut [1, 3, 48, 192], &mut pixels);
    ok!(ov_infer_request_set_input_tensor(request, input));
    CALLS.store(0, Ordering::SeqCst);
    let callback = ov_callback_t { callback_func: Some(again), args: request.cast() };
    ok!(ov_infer_request_set_callback(request, &callback));
    // Not when the caller waits.
    ok!(ov_infer_request_infer(request));
    assert_eq!(CALLS.load(Ordering::SeqCst), 0);
    ok!(ov_infer_request_start_async(request));
    while CALLS.load(Ordering::SeqCst) < 4 {
        thread::sleep(Duration::from_millis(1));
    }
    ok!(ov_infer_request_wait(request));
    let none = ov_callback_t { callback_func: None, args: null_mut() };
    ok!(ov_infer_request_set_callback(request, &none));
    ok!(ov_infer_request_start_async(request));
    ok!(ov_infer_request_wait(request));
    assert_eq!(CALLS.load(Ordering::SeqCst), 4);
    c!(ov_tensor_free(input));
    c!(ov_infer_request_free(request));
    c!(ov_compiled_model_free(compiled));
    c!(ov_core_free(core));
}

/// Whether the callback was called, and what the request said to it.
static CALLED: AtomicUsize = AtomicUsize::new(0);
static ANSWER: Mutex<Option<ov_status_e>> = Mutex::new(None);

/// Asks the request for a tensor after a while.
unsafe extern "C" fn ask(request: *mut c_void) {
    CALLED.store(1, Ordering::SeqCst);
    thread::sleep(Duration::from_millis(100));
    let mut tensor = null_mut();
    let status = c!(ov_infer_request_get_output_tensor_by_index(request.cast(), 0, &mut tensor));
    c!(ov_tensor_free(tensor));
    *ANSWER.lock().unwrap() = Some(status);
}

#[test]
fn a_request_is_there_until_its_callback_ends() {
    let _alone = alone();
    let core = core();
    let compiled = compile(core, "ocr_cls", &[]);
    let request = request(compiled);
    let mut pixels = vec![0.5f32; 3 * 48 * 192];
    let input = host_tensor(F32, &mut [1, 3, 48, 192], &mut pixels);
    ok!(ov_infer_request_set_input_tensor(request, input));
    c!(ov_tensor_free(input));
    let callback = ov_callback_t { callback_func: Some(ask), args: request.cast() };
    ok!(ov_infer_request_set_callback(request, &callback));
    ok!(ov_infer_request_start_async(request));
    while CALLED.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    c!(ov_infer_request_free(request));
    assert_eq!(*ANSWER.lock().unwrap(), Some(OK));
    c!(ov_compiled_model_free(compiled));
    c!(ov_core_free(core));
}

#[test]
fn requests_run_at_the_same_time() {
    let _alone = alone();
    let core = core();
    let compiled = compile(core, "modernbert", &[]) as usize;
    let encode = |length: usize| {
        let request = request(compiled as *mut ov_compiled_model_t);
        let mut ids: Vec<i64> = (0..length as i64).collect();
        let mut mask = vec![1i64; length];
        let sizes = [1, length as i64];
        let ids = host_tensor(I64, &mut sizes.clone(), &mut ids);
        let mask = host_tensor(I64, &mut sizes.clone(), &mut mask);
        ok!(ov_infer_request_set_tensor(request, c"input_ids".as_ptr(), ids));
        ok!(ov_infer_request_set_tensor(request, c"attention_mask".as_ptr(), mask));
        for _ in 0..5 {
            ok!(ov_infer_request_infer(request));
        }
        let output = tensor_of(request, ov_infer_request_get_output_tensor_by_index, 0);
        let found = floats(output);
        for tensor in [ids, mask, output] {
            c!(ov_tensor_free(tensor));
        }
        c!(ov_infer_request_free(request));
        found
    };
    let expected: Vec<Vec<f32>> = [3, 7, 20].into_iter().map(encode).collect();
    thread::scope(|scope| {
        let threads: Vec<_> =
            [3, 7, 20, 3].into_iter().map(|length| scope.spawn(move || encode(length))).collect();
        let found: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        assert_eq!(found[..3], expected[..]);
        assert_eq!(found[3], expected[0]);
    });
    c!(ov_compiled_model_free(compiled as *mut ov_compiled_model_t));
    c!(ov_core_free(core));
}

#[test]
fn variables_go_on_in_a_request() {
    let _alone = alone();
    let core = core();
    let compiled = compile(core, "silero_stateful", &[]);
    let run = |request| {
        let samples = tensor_of(request, ov_infer_request_get_input_tensor_by_index, 0);
        let count = floats(samples).len();
        for number in 0..count {
            // SAFETY: there are so many.
            unsafe { *address(samples).add(number) = (number % 13) as f32 / 7. - 1. };
        }
        ok!(ov_infer_request_infer(request));
        let output = tensor_of(request, ov_infer_request_get_output_tensor_by_index, 0);
        let found = floats(output)[0];
        c!(ov_tensor_free(samples));
        c!(ov_tensor_free(output));
        found
    };
    let (first, second) = (request(compiled), request(compiled));
    let found = [run(first), run(first), run(first)];
    assert_ne!(found[0], found[1]);
    assert_eq!([run(second), run(second), run(second)], found);
    c!(ov_infer_request_free(first));
    c!(ov_infer_request_free(second));
    c!(ov_compiled_model_free(compiled));
    c!(ov_core_free(core));
}

#[test]
fn a_model_is_reshaped() {
    let _alone = alone();
    let core = core();
    let model = read(core, "unet");
    let mut output = null_mut();
    ok!(ov_model_output(model, &mut output));
    let sizes = |port: *mut ov_output_port_t| {
        let mut shape =
            ov_partial_shape_t { rank: ov_dimension_t { min: 0, max: 0 }, dims: null_mut() };
        ok!(ov_port_get_partial_shape(port.cast(), &mut shape));
        given(c!(ov_partial_shape_to_string(shape)).cast_mut())
    };
    assert!(c!(ov_model_is_dynamic(model)));
    let mut dims = [1i64, 3, 16, 32].map(|size| ov_dimension_t { min: size, max: size });
    let rank = ov_dimension_t { min: 4, max: 4 };
    let shape =
        |dims: &mut [ov_dimension_t; 4]| ov_partial_shape_t { rank, dims: dims.as_mut_ptr() };
    ok!(ov_model_reshape_single_input(model, shape(&mut dims)));
    // A port that was there shows it.
    assert_eq!(sizes(output), "{1,2,16,32}");
    assert!(!c!(ov_model_is_dynamic(model)));
    // Another number of channels is none that the weights have: it stays as it was.
    dims[1] = ov_dimension_t { min: 5, max: 5 };
    assert_ne!(c!(ov_model_reshape_single_input(model, shape(&mut dims))), OK);
    assert_eq!(sizes(output), "{1,2,16,32}");
    // As a port says it is open, and as a program does.
    dims = [(1, 1), (3, 3), (0, -1), (-1, -1)].map(|(min, max)| ov_dimension_t { min, max });
    ok!(ov_model_reshape_single_input(model, shape(&mut dims)));
    assert!(c!(ov_model_is_dynamic(model)));
    let ports = [output.cast_const()];
    fails!(
        GENERAL_ERROR,
        "no input",
        ov_model_reshape_by_ports(model, ports.as_ptr(), &shape(&mut dims), 1)
    );
    fails!(
        UNKNOW_EXCEPTION,
        "there is no input 4",
        ov_model_reshape_by_port_indexes(model, &4, &shape(&mut dims), 1)
    );
    fails!(
        GENERAL_ERROR,
        "\"x\"",
        ov_model_reshape_input_by_name(model, c"y".as_ptr(), shape(&mut dims))
    );
    // Its ports need the model no longer than they are.
    c!(ov_model_free(model));
    assert!(!sizes(output).is_empty());
    c!(ov_output_port_free(output));
    c!(ov_core_free(core));
}

#[test]
fn an_export_is_read_again() {
    let _alone = alone();
    let core = core();
    let compiled = compile(core, "silero", &[(c"NUM_STREAMS", c"2")]);
    let bytes = exported(compiled);
    assert!(bytes.starts_with(b"tract-openvino compiled model"));
    let mut imported = null_mut();
    assert_eq!(import(core, &bytes, &mut imported), OK, "{}", last());
    let mut value = null_mut();
    ok!(ov_compiled_model_get_property(imported, c"NUM_STREAMS".as_ptr(), &mut value));
    assert_eq!(given(value), "2");
    let run = |compiled| {
        let request = request(compiled);
        ok!(ov_infer_request_infer(request));
        let output = tensor_of(request, ov_infer_request_get_output_tensor_by_index, 1);
        let found = floats(output);
        c!(ov_tensor_free(output));
        c!(ov_infer_request_free(request));
        found
    };
    assert_eq!(run(imported), run(compiled));
    // Damage is found wherever it is.
    for at in (0..bytes.len()).step_by(bytes.len() / 37) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(import(core, &damaged, &mut null_mut()), GENERAL_ERROR, "byte {at}");
        assert_eq!(import(core, &bytes[..at], &mut null_mut()), GENERAL_ERROR, "{at} bytes");
    }
    c!(ov_compiled_model_free(imported));
    c!(ov_compiled_model_free(compiled));
    c!(ov_core_free(core));
}

/// An image beside itself in blocks and back, which have its size if this is even. tract does not know that of sizes that are open.
fn even_sizes() -> Vec<u8> {
    use attribute_proto::AttributeType;
    use tensor_shape_proto::{Dimension, dimension::Value as Size};
    use tract_openvino_ir::tract_openvino::tract_onnx::pb::*;

    let number = |name: &str, i| AttributeProto {
        name: name.into(),
        i,
        r#type: AttributeType::Int.into(),
        ..AttributeProto::default()
    };
    let node = |op_type: &str, input: &[&str], output: &str, attribute: (&str, i64)| NodeProto {
        op_type: op_type.into(),
        input: input.iter().map(|it| String::from(*it)).collect(),
        output: vec![output.into()],
        attribute: vec![number(attribute.0, attribute.1)],
        ..NodeProto::default()
    };
    let image = |name: &str, channels| {
        let fixed = |size| Some(Size::DimValue(size));
        let open = |name: &str| Some(Size::DimParam(name.into()));
        let dims = [fixed(1), fixed(channels), open("h"), open("w")];
        let dim = dims.map(|value| Dimension { value, ..Dimension::default() }).into();
        let shape = Some(TensorShapeProto { dim });
        let tensor = type_proto::Tensor { elem_type: 1, shape };
        let value = Some(type_proto::Value::TensorType(tensor));
        ValueInfoProto {
            name: name.into(),
            r#type: Some(TypeProto { value, ..TypeProto::default() }),
            ..ValueInfoProto::default()
        }
    };
    let graph = GraphProto {
        name: "even sizes".into(),
        node: vec![
            node("SpaceToDepth", &["x"], "blocks", ("blocksize", 2)),
            node("DepthToSpace", &["blocks"], "back", ("blocksize", 2)),
            node("Concat", &["x", "back"], "y", ("axis", 1)),
        ],
        input: vec![image("x", 1)],
        output: vec![image("y", 2)],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 13 }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    prost::Message::encode_to_vec(&model)
}

/// A model that tract types for known sizes only has a plan for each of them.
#[test]
fn each_shape_has_a_plan() {
    let _alone = alone();
    let core = core();
    let bytes = even_sizes();
    let (mut model, mut compiled) = (null_mut(), null_mut());
    let text = bytes.as_ptr().cast();
    ok!(ov_core_read_model_from_memory_buffer(core, text, bytes.len(), null(), &mut model));
    assert!(c!(ov_model_is_dynamic(model)));
    let cpu = c"CPU".as_ptr();
    ok!(ov_core_compile_model_props(core, model, cpu, 0, null(), &mut compiled));
    let request = request(compiled);
    // More shapes than there are plans, and some again.
    for (height, width) in (1..7).flat_map(|it| [(2, 2 * it), (2 * it, 4)]).chain([(2, 2)]) {
        let mut data: Vec<f32> = (0..height * width).map(|it| it as f32).collect();
        let tensor = host_tensor(F32, &mut [1, 1, height, width], &mut data);
        ok!(ov_infer_request_set_input_tensor(request, tensor));
        ok!(ov_infer_request_infer(request));
        let output = tensor_of(request, ov_infer_request_get_output_tensor_by_index, 0);
        assert_eq!(sizes_of(output), [1, 2, height, width]);
        assert_eq!(floats(output), [&data[..], &data].concat());
        c!(ov_tensor_free(output));
        c!(ov_tensor_free(tensor));
    }
    let mut data = [0f32; 6];
    let odd = host_tensor(F32, &mut [1, 1, 2, 3], &mut data);
    ok!(ov_infer_request_set_input_tensor(request, odd));
    assert_eq!(c!(ov_infer_request_infer(request)), GENERAL_ERROR);
    c!(ov_tensor_free(odd));
    c!(ov_infer_request_free(request));
    c!(ov_compiled_model_free(compiled));
    c!(ov_model_free(model));
    c!(ov_core_free(core));
}

#[test]
fn properties() {
    let _alone = alone();
    let core = core();
    let get = |device: &CStr, key: &CStr| {
        let mut value = null_mut();
        match c!(ov_core_get_property(core, device.as_ptr(), key.as_ptr(), &mut value)) {
            OK => Ok(given(value)),
            status => Err(status),
        }
    };
    let set = |device: &CStr, key: &CStr, value: &CStr| {
        let property = ov_property_t { key: key.as_ptr(), value: value.as_ptr().cast() };
        c!(ov_core_set_properties(core, device.as_ptr(), 1, &property))
    };
    for device in [c"CPU", c"AUTO"] {
        let all = get(device, c"SUPPORTED_PROPERTIES").unwrap();
        for key in all.split(' ') {
            let key = CString::new(key).unwrap();
            assert!(get(device, &key).is_ok(), "{key:?}: {}", last());
        }
    }
    for (key, value, expected) in [
        (c"NUM_STREAMS", c"3", Some("3")),
        (c"NUM_STREAMS", c"AUTO", Some("1")),
        (c"NUM_STREAMS", c"many", None),
        (c"PERF_COUNT", c"true", Some("YES")),
        (c"PERF_COUNT", c"perhaps", None),
        (c"PERFORMANCE_HINT", c"THROUGHPUT", Some("THROUGHPUT")),
        (c"PERFORMANCE_HINT", c"FAST", None),
        (c"INFERENCE_PRECISION_HINT", c"f64", None),
        (c"AVAILABLE_DEVICES", c"1", None),
        (c"DEVICE_ID", c"1", None),
    ] {
        let before = get(c"CPU", key);
        set(c"CPU", key, value);
        let expected = expected.map_or(before, |it| Ok(it.to_string()));
        assert_eq!(get(c"CPU", key), expected, "{key:?} {value:?}");
    }
    assert_eq!(get(c"GPU", c"NUM_STREAMS"), Err(GENERAL_ERROR));
    // A model is compiled with what its core has.
    assert_eq!(set(c"CPU", c"NUM_STREAMS", c"4"), OK);
    let compiled = compile(core, "ocr_cls", &[]);
    let mut value = null_mut();
    let key = c"OPTIMAL_NUMBER_OF_INFER_REQUESTS".as_ptr();
    ok!(ov_compiled_model_get_property(compiled, key, &mut value));
    assert_eq!(given(value), "4");
    fails!(
        GENERAL_ERROR,
        "no property",
        ov_compiled_model_get_property(compiled, c"X".as_ptr(), &mut value)
    );
    c!(ov_compiled_model_free(compiled));
    c!(ov_core_free(core));
}

/// Before a device is used, nothing is checked. The first function that uses it says what is wrong, until that is set again.
#[test]
fn a_device_checks_its_properties_when_it_is_used() {
    let _alone = alone();
    let set = |core, device: &CStr, key: &CStr, value: &CStr| {
        let property = ov_property_t { key: key.as_ptr(), value: value.as_ptr().cast() };
        c!(ov_core_set_properties(core, device.as_ptr(), 1, &property))
    };
    let path = network("ocr_cls");
    for device in [c"CPU", c"AUTO"] {
        let core = core();
        let name = device.as_ptr();
        let (mut value, mut compiled) = (null_mut(), null_mut());
        assert_eq!(set(core, device, c"PERF_COUNT", c"perhaps"), OK);
        let other = c"FULL_DEVICE_NAME".as_ptr();
        fails!(GENERAL_ERROR, "perhaps", ov_core_get_property(core, name, other, &mut value));
        fails!(
            GENERAL_ERROR,
            "perhaps",
            ov_core_compile_model_from_file_props(
                core,
                path.as_ptr(),
                name,
                0,
                null(),
                &mut compiled
            )
        );
        let mut versions = ov_core_version_list_t { versions: null_mut(), size: 0 };
        fails!(
            GENERAL_ERROR,
            "perhaps",
            ov_core_get_versions_by_device_name(core, name, &mut versions)
        );
        assert_eq!(set(core, device, c"PERF_COUNT", c"YES"), OK);
        ok!(ov_core_get_property(core, name, c"PERF_COUNT".as_ptr(), &mut value));
        assert_eq!(given(value), "YES");
        // Now it is used.
        assert_eq!(set(core, device, c"PERF_COUNT", c"perhaps"), GENERAL_ERROR);
        assert_eq!(set(core, device, c"NOTHING", c"1"), GENERAL_ERROR);
        c!(ov_core_free(core));
    }
    // A list of the devices uses them.
    let core = core();
    let mut devices = ov_available_devices_t { devices: null_mut(), size: 0 };
    ok!(ov_core_get_available_devices(core, &mut devices));
    c!(ov_available_devices_free(&mut devices));
    assert_eq!(set(core, c"CPU", c"PERF_COUNT", c"perhaps"), GENERAL_ERROR);
    // What is of the core alone is checked at once.
    assert_eq!(set(core, c"", c"ENABLE_MMAP", c"perhaps"), GENERAL_ERROR);
    c!(ov_core_free(core));
}

/// BATCH may say how many inferences it collects, and for how long, which can be set later, too.
#[test]
fn a_batch_of_inferences() {
    let _alone = alone();
    let core = core();
    let path = network("ocr_cls");
    let mut compiled = null_mut();
    for device in [c"BATCH:CPU(0)", c"BATCH:CPU(x)", c"BATCH:CPU(4", c"BATCH:GPU(4)", c"CPU(4)"] {
        fails!(
            GENERAL_ERROR,
            "no device",
            ov_core_compile_model_from_file_props(
                core,
                path.as_ptr(),
                device.as_ptr(),
                0,
                null(),
                &mut compiled
            )
        );
    }
    let device = c"BATCH:CPU(4)".as_ptr();
    ok!(ov_core_compile_model_from_file_props(
        core,
        path.as_ptr(),
        device,
        0,
        null(),
        &mut compiled
    ));
    let set = |key: &CStr, value: &CStr| {
        let property = ov_property_t { key: key.as_ptr(), value: value.as_ptr().cast() };
        c!(ov_compiled_model_set_properties(compiled, 1, &property))
    };
    let timeout = c"AUTO_BATCH_TIMEOUT";
    let now = || {
        let mut value = null_mut();
        ok!(ov_compiled_model_get_property(compiled, timeout.as_ptr(), &mut value));
        given(value)
    };
    assert_eq!(now(), "1000");
    assert_eq!(set(timeout, c"70"), OK);
    assert_eq!(set(timeout, c"-1"), GENERAL_ERROR);
    assert_eq!(set(c"NUM_STREAMS", c"2"), GENERAL_ERROR);
    assert_eq!(now(), "70");
    c!(ov_compiled_model_free(compiled));
    let compiled = compile(core, "ocr_cls", &[]);
    let property = ov_property_t { key: timeout.as_ptr(), value: c"70".as_ptr().cast() };
    fails!(
        GENERAL_ERROR,
        "cannot be set",
        ov_compiled_model_set_properties(compiled, 1, &property)
    );
    c!(ov_compiled_model_free(compiled));
    c!(ov_core_free(core));
}

#[test]
fn texts_of_errors() {
    let _alone = alone();
    // SAFETY: it is a text that stays.
    let info = |status| unsafe { CStr::from_ptr(ov_get_error_info(status)) };
    assert_eq!(info(0), c"success");
    assert_eq!(info(-14), c"invalid c input parameters");
    assert_eq!(info(1), info(-17));
    let core = core();
    assert_eq!(
        c!(ov_core_read_model(core, c"nothing.xml".as_ptr(), null(), &mut null_mut())),
        GENERAL_ERROR
    );
    // It stays when it is read, and when something succeeds.
    assert!(last().contains("nothing.xml"));
    c!(ov_core_free(self::core()));
    assert_eq!(last(), "");
    // Another thread keeps its own.
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert_eq!(c!(ov_core_create(null_mut())), INVALID_C_PARAM);
            c!(ov_core_free(self::core()));
            last()
        });
        assert_eq!(other.join().unwrap(), "");
    });
    fails!(INVALID_C_PARAM, "null", ov_core_create(null_mut()));
    thread::scope(|scope| scope.spawn(|| c!(ov_core_free(self::core()))).join().unwrap());
    assert!(last().contains("null"));
    c!(ov_core_free(core));
}

/// A text of XML may begin with white space, and its size may count the 0 at its end.
#[test]
fn a_text_in_memory() {
    let _alone = alone();
    let core = core();
    let path = Path::new("../ir/models/networks/ocr_cls");
    let xml = std::fs::read(path.join("model.xml")).unwrap();
    let mut weights = std::fs::read(path.join("model.bin")).unwrap();
    let size = weights.len() as i64;
    let tensor = host_tensor(U8, &mut [size], &mut weights);
    let mut model = null_mut();
    let read = |text: &[u8], model: &mut *mut ov_model_t| {
        let start = text.as_ptr().cast();
        c!(ov_core_read_model_from_memory_buffer(core, start, text.len(), tensor, model))
    };
    for text in [&xml[..], &[&xml[..], b"\0"].concat(), &[b"\n  ", &xml[..], b"\0\0<"].concat()] {
        assert_eq!(read(text, &mut model), OK, "{}", last());
        c!(ov_model_free(model));
    }
    for text in [&b"\0"[..], b"<\0", b" ", &[b"\0", &xml[..]].concat(), &xml[..xml.len() / 2]] {
        assert_eq!(read(text, &mut model), GENERAL_ERROR);
    }
    c!(ov_tensor_free(tensor));
    c!(ov_core_free(core));
}

#[test]
fn nothing_is_ready_before_the_first_inference() {
    let _alone = alone();
    let core = core();
    let compiled = compile(core, "ocr_cls", &[]);
    let request = request(compiled);
    let mut pixels = vec![0.5f32; 3 * 48 * 192];
    let input = host_tensor(F32, &mut [1, 3, 48, 192], &mut pixels);
    ok!(ov_infer_request_set_input_tensor(request, input));
    c!(ov_tensor_free(input));
    fails!(RESULT_NOT_READY, "no inference", ov_infer_request_wait_for(request, 10));
    ok!(ov_infer_request_wait(request));
    ok!(ov_infer_request_infer(request));
    ok!(ov_infer_request_wait_for(request, 10));
    c!(ov_infer_request_free(request));
    c!(ov_compiled_model_free(compiled));
    c!(ov_core_free(core));
}

/// Measures an inference beside that of the reader, with one thread: by default of a small model, or of the file in `SPEED_MODEL` with an
/// input of the sizes in `SPEED_SHAPE`.
#[test]
#[ignore = "it measures"]
fn as_fast_as_the_reader() {
    use tract_openvino_ir::prelude::*;
    let _alone = alone();
    let path =
        std::env::var("SPEED_MODEL").unwrap_or_else(|_| network("ocr_cls").into_string().unwrap());
    let text = std::env::var("SPEED_SHAPE").unwrap_or_else(|_| "1,3,48,192".into());
    let sizes: Vec<usize> = text.split(',').map(|size| size.parse().unwrap()).collect();
    let model = ir().model_for_path(&path).unwrap();
    let name = model.outlet_label(model.inputs[0]).unwrap().to_string();
    let reader = ir().with_input_shape(name, &*sizes).model_for_path(&path).unwrap();
    let reader = reader.into_runnable_with_kernels().unwrap();

    let core = core();
    let file = CString::new(path).unwrap();
    let mut model = null_mut();
    ok!(ov_core_read_model(core, file.as_ptr(), null(), &mut model));
    let mut dims: Vec<i64> = sizes.iter().map(|size| *size as i64).collect();
    let mut partial =
        ov_partial_shape_t { rank: ov_dimension_t { min: 0, max: 0 }, dims: null_mut() };
    ok!(ov_partial_shape_create_static(dims.len() as i64, dims.as_ptr(), &mut partial));
    ok!(ov_model_reshape_single_input(model, partial));
    c!(ov_partial_shape_free(&mut partial));
    let property =
        ov_property_t { key: c"INFERENCE_NUM_THREADS".as_ptr(), value: c"1".as_ptr().cast() };
    let mut compiled = null_mut();
    ok!(ov_core_compile_model_props(core, model, c"CPU".as_ptr(), 1, &property, &mut compiled));
    let request = request(compiled);
    let mut data: Vec<f32> =
        (0..sizes.iter().product()).map(|it| (it % 255) as f32 / 255.).collect();
    let input = host_tensor(F32, &mut dims, &mut data);
    ok!(ov_infer_request_set_input_tensor(request, input));
    let tensor = Tensor::from_shape(&sizes, &data).unwrap().into_tvalue();
    let mut times = [vec![], vec![]];
    for _ in 0..300 {
        let started = Instant::now();
        ok!(ov_infer_request_infer(request));
        times[0].push(started.elapsed());
        let started = Instant::now();
        drop(reader.run(tvec!(tensor.clone())).unwrap());
        times[1].push(started.elapsed());
    }
    let [ours, readers] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    let ratio = ours.as_secs_f64() / readers.as_secs_f64();
    println!("{ours:?} through the interface, {readers:?} by the reader: {ratio:.3}");
    assert!(ratio <= 1.02);
    c!(ov_tensor_free(input));
    c!(ov_infer_request_free(request));
    c!(ov_compiled_model_free(compiled));
    c!(ov_model_free(model));
    c!(ov_core_free(core));
}
