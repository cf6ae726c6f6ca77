//! tract panics on some malformed models. This turns such panics into errors.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::sync::Mutex;

use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{TractErrorContext, format_err};

use crate::report::error_with_help;

/// The last panic, in any thread: its message and position, and whose code it is in.
static LAST: Mutex<Option<(&str, String)>> = Mutex::new(None);

/// Keeps panics from being printed.
pub fn be_quiet() {
    set_hook(Box::new(|info| {
        let described = describe(info);
        *LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(described);
    }));
}

fn describe(info: &PanicHookInfo) -> (&'static str, String) {
    let message = info.payload_as_str().unwrap_or("no message");
    let Some(location) = info.location() else { return ("tract", message.into()) };
    // Without the folder where the machine that compiled this keeps its sources.
    let file = location.file();
    let package =
        file.find("/tract-").or(file.find("/src/").and_then(|src| file[..src].rfind('/')));
    let (whose, place) = match package {
        Some(package) if file.starts_with('/') => ("tract", &file[package + 1..]),
        _ => ("tract-openvino", file),
    };
    (whose, format!("{message} at {place}:{}", location.line()))
}

/// The bytes that could not be allocated, if the message of a panic says so: tract panics where memory runs out.
fn refused_bytes(panic: &str) -> Option<&str> {
    panic.strip_prefix("failed to allocate Layout { size: ")?.split(',').next()
}

fn no_memory(doing: &str, bytes: &str) -> TractError {
    error_with_help(
        format!("there is no memory for {bytes} bytes, which were asked for while {doing}"),
        [
            "the sizes in the model ask for that much, or the tensors that it is fed: feed smaller ones"
                .into(),
        ],
    )
}

/// Calls a function, and adds to its errors and panics what it was doing.
pub fn during<T>(doing: &str, function: impl FnOnce() -> TractResult<T>) -> TractResult<T> {
    catch(doing, || function().with_context(|| doing.to_string()))
}

/// Calls a function. A panic becomes an error that says what the function was doing.
pub fn catch<T>(doing: &str, function: impl FnOnce() -> TractResult<T>) -> TractResult<T> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|_| {
        let last = LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let (whose, what) = last.unwrap_or(("tract", "no message".into()));
        if let Some(bytes) = refused_bytes(&what) {
            return Err(no_memory(doing, bytes));
        }
        Err(format_err!("{whose} panicked while {doing}: {what}"))
    })
}
