#![no_main]

use tract_openvino_fuzz::{Target, model};

libfuzzer_sys::fuzz_target!(
    init: Target::of_name("model").unwrap().write_seeds(),
    |bytes: &[u8]| {
        model::run(bytes);
    }
);
