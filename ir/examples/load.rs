//! How long a model takes to load, and how much memory.
//!
//! ```text
//! cargo run --release -p tract-openvino-ir --example load -- model.xml
//! ```
//!
//! Prints the milliseconds until it is read and until it can be run, and the most memory that the process had,
//! in MiB (on Linux), each on its line. `benches/load.py` puts it beside OpenVINO.

use std::time::Instant;

use tract_openvino_ir::prelude::*;

fn main() -> TractResult<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or("model.xml".into());
    let started = Instant::now();
    // What follows gives inputs a shape: x=1,3,320,320
    let shapes = arguments.filter_map(|shape| {
        let (input, shape) = shape.rsplit_once('=')?;
        Some((input.to_string(), shape.to_string()))
    });
    let reader = shapes.fold(tract_openvino_ir::ir(), |reader, (input, shape)| {
        reader.with_input_shape(input, shape)
    });
    let model = reader.model_for_path(path)?;
    let milliseconds = || started.elapsed().as_secs_f64() * 1e3;
    println!("{:.1}", milliseconds());
    let runnable = model.into_optimized()?.into_runnable()?;
    println!("{:.1}\n{:.1}", milliseconds(), peak_memory());
    drop(runnable);
    Ok(())
}

/// The most memory that the process had, in MiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kilobytes.unwrap_or(0.) / 1024.
}
