//! Compiles what only C can define: functions with a variable number of arguments.

fn main() {
    println!("cargo::rerun-if-changed=src/variadic.c");
    cc::Build::new().file("src/variadic.c").warnings(true).compile("openvino_c_variadic");
}
