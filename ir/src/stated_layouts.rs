//! The layouts that a model states of its inputs and outputs: properties of tract's model, by the name of the input or output.

use tract_core::internal::*;

/// Which end of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Input,
    Output,
}

fn key(end: End, name: &str) -> String {
    let end = match end {
        End::Input => "input",
        End::Output => "output",
    };
    format!("openvino.layout.{end}.{name}")
}

/// The text of the layout that is stated.
pub(crate) fn stated_layout(model: &TypedModel, end: End, name: &str) -> Option<String> {
    let text = model.properties.get(&key(end, name))?;
    text.try_as_plain_ram().ok()?.as_slice::<String>().ok()?.first().cloned()
}

/// States a layout, or that there is none.
pub(crate) fn state_layout(model: &mut TypedModel, end: End, name: &str, text: Option<String>) {
    match text {
        Some(text) => model.properties.insert(key(end, name), rctensor0(text)),
        None => model.properties.remove(&key(end, name)),
    };
}
