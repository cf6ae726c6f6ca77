#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tract_openvino_fuzz::ir::run(bytes);
});
