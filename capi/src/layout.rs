//! Layouts: what the axes of a tensor are called.

use std::ffi::c_char;

use tract_openvino_ir::preprocess;

use crate::border::{Handle, OutHandle, Text, give_text};
use crate::error::Result;
use crate::handles::Object;

/// The names of axes, from the first to the last.
pub(crate) struct Layout(pub preprocess::Layout);

impl Object for Layout {
    const NAME: &'static str = "a layout";
}

// What the functions of the interface do.

pub(crate) fn create(text: Text, out: OutHandle<Layout>) -> Result<()> {
    out.check()?;
    out.write(Layout(text.get("description of a layout")?.parse()?))
}

pub(crate) fn to_string(layout: Handle<Layout>) -> Result<*const c_char> {
    // A text in any case, as with OpenVINO.
    let text = match layout.get() {
        Ok(layout) => layout.0.to_string(),
        Err(error) => format!("Error: {error}"),
    };
    give_text(&text).map(<*mut c_char>::cast_const)
}
