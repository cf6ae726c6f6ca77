#![no_main]

use tract_openvino_fuzz::{Target, nnef};

libfuzzer_sys::fuzz_target!(
    init: Target::of_name("nnef").unwrap().write_seeds(),
    |bytes: &[u8]| {
        nnef::run(bytes);
    }
);
