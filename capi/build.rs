//! Compiles what only C can define: functions with a variable number of arguments.

fn main() {
    println!("cargo::rerun-if-changed=src/variadic.c");
    cc::Build::new().file("src/variadic.c").warnings(true).compile("openvino_c_variadic");
    // The name that programs ask for that were linked with OpenVINO 2026.4.1.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libopenvino_c.so.2641");
        // Functions here call each other, also in a process that has OpenVINO's library.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    }
}
