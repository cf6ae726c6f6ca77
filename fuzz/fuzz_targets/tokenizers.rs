#![no_main]

use tract_openvino_fuzz::{Target, tokenizers};

libfuzzer_sys::fuzz_target!(
    init: Target::of_name("tokenizers").unwrap().write_seeds(),
    |bytes: &[u8]| {
        tokenizers::run(bytes);
    }
);
