#![no_main]

use tract_openvino_fuzz::{Target, kernels};

libfuzzer_sys::fuzz_target!(
    init: Target::of_name("kernels").unwrap().write_seeds(),
    |bytes: &[u8]| {
        kernels::run(bytes);
    }
);
