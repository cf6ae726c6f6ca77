//! What the fuzz targets do with the bytes that they are given. A target panics where something is wrong.
//!
//! The first two bytes pick the model, or the operator, that the others change. So the bytes of a number alone are
//! that model as it is: a seed.

pub mod ir;
pub mod kernels;
pub mod model;
pub mod nnef;
pub mod operator;
pub mod panics;
mod stages;
pub mod tokenizers;

use std::path::Path;

use arbitrary::{Result, Unstructured};

/// A fuzz target.
pub struct Target {
    pub name: &'static str,
    /// Says what came of the bytes, for those who count: whether they were a case, and it had an output.
    pub run: fn(&[u8]) -> Option<bool>,
    /// How many models or operators there are to pick from.
    count: fn() -> usize,
}

pub const TARGETS: [Target; 6] = [
    Target { name: "operator", run: operator::run, count: operator::count },
    Target { name: "model", run: model::run, count: || model::models().len() },
    Target { name: "nnef", run: nnef::run, count: || nnef::archives().len() },
    Target { name: "ir", run: ir::run, count: || ir::seeds().len() },
    Target { name: "kernels", run: kernels::run, count: kernels::count },
    Target { name: "tokenizers", run: tokenizers::run, count: || tokenizers::seeds().len() },
];

impl Target {
    pub fn of_name(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The bytes of each model as it is.
    pub fn seeds(&self) -> impl Iterator<Item = [u8; 2]> {
        (0..(self.count)()).map(|number| u16::try_from(number).expect("two bytes").to_le_bytes())
    }

    /// Writes the seeds to where `fuzz/run` lets libFuzzer begin.
    pub fn write_seeds(&self) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/seeds").join(self.name);
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        for (number, seed) in self.seeds().enumerate() {
            std::fs::write(folder.join(number.to_string()), seed).expect("a seed can be written");
        }
    }
}

/// Which of so many the bytes begin with.
fn number(u: &mut Unstructured, count: usize) -> Result<usize> {
    Ok(usize::from(u.arbitrary::<u16>()?) % count)
}

/// Once in so many times, and not when the bytes have come to their end: a seed changes nothing.
fn rarely(u: &mut Unstructured, times: u8) -> Result<bool> {
    Ok(u.int_in_range(1..=times)? == times)
}
