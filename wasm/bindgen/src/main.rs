//! `bindgen MODULE.wasm FOLDER`: writes the module, its JavaScript and its types into a folder.

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let module = arguments.next().context("bindgen MODULE.wasm FOLDER")?;
    let folder = arguments.next().context("bindgen MODULE.wasm FOLDER")?;
    Bindgen::new()
        .input_path(module)
        .out_name("module")
        .web(true)?
        .typescript(true)
        .omit_default_module_path(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        // A new instance takes the place of one that has panicked.
        .reset_state_function(true)
        .generate(folder)
}
