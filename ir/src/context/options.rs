//! The options of the reader.

use tract_openvino::NegativeIndices;

use crate::limits::Limits;

/// What the user of the reader decides, besides its operations.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub shapes: Vec<ShapeOption>,
    pub negative_indices: NegativeIndices,
    pub limits: Limits,
}

/// A shape that the user gives to an input.
#[derive(Debug, Clone)]
pub(crate) struct ShapeOption {
    pub input: String,
    pub shape: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            shapes: vec![],
            // OpenVINO's reference implementation lets them count from the end in all revisions, and so do the
            // newer texts.
            negative_indices: NegativeIndices::Wrap,
            limits: Limits::default(),
        }
    }
}
