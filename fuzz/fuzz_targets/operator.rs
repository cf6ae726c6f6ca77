#![no_main]

use tract_openvino_fuzz::{Target, operator};

libfuzzer_sys::fuzz_target!(
    init: Target::of_name("operator").unwrap().write_seeds(),
    |bytes: &[u8]| {
        operator::run(bytes);
    }
);
