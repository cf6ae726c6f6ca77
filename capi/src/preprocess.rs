//! Preprocessing: not there yet.

use crate::error::{Error, Result};
use crate::handles::Object;

macro_rules! objects {
    ($($type:ident: $name:literal),* $(,)?) => {
        $(
            pub(crate) enum $type {}

            impl Object for $type {
                const NAME: &'static str = $name;
            }
        )*
    };
}

objects!(
    PrePostProcessor: "a preprocessor",
    InputInfo: "the preprocessing of an input",
    InputTensorInfo: "the tensor of a preprocessed input",
    InputModelInfo: "the model of a preprocessed input",
    Steps: "steps of preprocessing",
    OutputInfo: "the postprocessing of an output",
    OutputTensorInfo: "the tensor of a postprocessed output",
);

pub(crate) fn not_there() -> Result<()> {
    Err(Error::not_implemented("preprocessing is not supported yet"))
}
