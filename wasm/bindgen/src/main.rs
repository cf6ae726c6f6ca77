//! `bindgen MODULE.wasm FOLDER`: writes the module, its JavaScript and its types into a folder. The module keeps the names of its
//! functions, by which ../build orders them.

use anyhow::{Context, Result, ensure};
use rustc_demangle::demangle;
use walrus::ir::Instr;
use walrus::{FunctionId, FunctionKind, Module};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("bindgen MODULE.wasm FOLDER")?;
    let folder = arguments.next().context("bindgen MODULE.wasm FOLDER")?;
    let mut module = Module::from_file(path)?;
    leave_out_named_transforms(&mut module)?;
    Bindgen::new()
        .input_module("module", module)
        .web(true)?
        .typescript(true)
        .omit_default_module_path(true)
        .remove_producers_section(true)
        // A new instance takes the place of one that has panicked.
        .reset_state_function(true)
        .generate(folder)
}

/// Where tract's crates register transforms by a name, for its command line. One of them has NNEF's reader and writer in it.
const OF_NAMED_TRANSFORMS: [&str; 5] = [
    "tract_core::batchify::",
    "tract_core::ops::cnn::conv::nhwc::",
    "tract_core::transform::",
    "tract_nnef::transform::",
    "tract_transformers::_::",
];

/// Takes transforms that only their name would find out of what runs when the module starts. Nothing here asks for one by its name. All
/// that is left without a caller goes with them.
fn leave_out_named_transforms(module: &mut Module) -> Result<()> {
    let at_start = module.funcs.by_name("__wasm_call_ctors").context("no __wasm_call_ctors")?;
    let registers = |function: FunctionId| {
        let name = module.funcs.get(function).name.as_deref().unwrap_or_default();
        let name = format!("{:#}", demangle(name));
        OF_NAMED_TRANSFORMS.iter().position(|place| name.starts_with(place))
    };
    let FunctionKind::Local(function) = &module.funcs.get(at_start).kind else {
        unreachable!("the linker writes it");
    };
    let calls = &function.block(function.entry_block()).instrs;
    let places: Vec<_> = calls
        .iter()
        .map(|(call, _)| if let Instr::Call(call) = call { registers(call.func) } else { None })
        .collect();
    for (place, path) in OF_NAMED_TRANSFORMS.iter().enumerate() {
        ensure!(places.contains(&Some(place)), "{path} registers nothing any more");
    }
    let function = module.funcs.get_mut(at_start).kind.unwrap_local_mut();
    let block = function.entry_block();
    let mut places = places.into_iter();
    function.block_mut(block).instrs.retain(|_| places.next().flatten().is_none());
    Ok(())
}
