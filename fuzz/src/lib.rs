//! What the fuzz targets do with the bytes that they are given. A target panics where something is wrong.

#[allow(dead_code)]
#[path = "../../tests/suite/elements.rs"]
mod elements;
#[allow(dead_code)]
#[path = "../../tests/suite/oracle.rs"]
mod oracle;

pub mod operator;
