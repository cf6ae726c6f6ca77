//! Errors and panics as exceptions of JavaScript.

use js_sys::WebAssembly::RuntimeError;
use tract_openvino_ir::prelude::*;
use wasm_bindgen::prelude::*;

/// Runs once in each instance of the module, before all else.
#[wasm_bindgen(start)]
fn start() {
    // Nothing unwinds here, and what the panic left behind is lost: `js/instance.js` makes another instance.
    std::panic::set_hook(Box::new(|info| {
        let message = info.payload_as_str().unwrap_or("no message");
        let place = info.location().map(|it| format!(" at {}:{}", short(it.file()), it.line()));
        let message = format!("panicked: {message}{}", place.unwrap_or_default());
        wasm_bindgen::throw_val(RuntimeError::new(&message).into())
    }));
}

/// The path of a source without the folder of the registry.
fn short(file: &str) -> &str {
    file.find("/tract-").map_or(file, |at| &file[at + 1..])
}

/// An error with all its causes.
pub(crate) fn exception(error: TractError) -> JsError {
    JsError::new(&format!("{error:#}"))
}
