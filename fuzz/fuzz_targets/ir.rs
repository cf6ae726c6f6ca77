#![no_main]

use tract_openvino_fuzz::{Target, ir};

libfuzzer_sys::fuzz_target!(
    init: Target::of_name("ir").unwrap().write_seeds(),
    |bytes: &[u8]| {
        ir::run(bytes);
    }
);
