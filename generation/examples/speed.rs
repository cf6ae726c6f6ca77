//! How fast a language model runs here, for `speed.py`, which compares it with OpenVINO: one line of JSON.
//!
//! ```text
//! speed FOLDER THREADS CONTEXT TOKENS [--exact]
//! ```
//!
//! The prompt has `CONTEXT` tokens. It is read twice, and the faster prefill counts; of the steps of decode after it, the median.
//! Activations and the KV cache are rounded to 8 bits, unless the option is there.

use std::time::Instant;

use tract_core::internal::*;
use tract_core::tract_linalg::multithread::set_default_executor;
use tract_openvino_generation::{LanguageModel, rounding_kernels};
use tract_openvino_kernels::KernelsTransform;
use tract_openvino_kernels::threads::executor;

/// The one of the tool.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> TractResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: speed FOLDER THREADS CONTEXT TOKENS [--exact]";
    let [folder, threads, context, tokens, options @ ..] = &arguments[..] else { bail!(usage) };
    let kernels = match options {
        [] => rounding_kernels(),
        [exact] if exact == "--exact" => KernelsTransform::default(),
        _ => bail!(usage),
    };
    let (context, tokens): (u32, u32) = (context.parse()?, tokens.parse()?);
    set_default_executor(executor(threads.parse()?));
    let seconds = |started: Instant| started.elapsed().as_secs_f64();
    let started = Instant::now();
    let model = LanguageModel::from_folder_with(folder, &kernels)?;
    let ready = seconds(started);
    let prompt: Vec<u32> = (0..context).map(|place| (place * 7919 + 13) % 30000).collect();
    let prefill = || -> TractResult<_> {
        let mut state = model.start()?;
        let started = Instant::now();
        state.extend(&prompt)?;
        Ok((state, seconds(started)))
    };
    // The KV cache of the first one is dropped: it would take memory beside that of the second one.
    let (_, cold) = prefill()?;
    let (mut state, warm) = prefill()?;
    let mut steps = vec![];
    for token in 0..tokens {
        let started = Instant::now();
        state.extend(&[token + 100])?;
        steps.push(seconds(started));
    }
    steps.sort_by(f64::total_cmp);
    let step = steps.get(steps.len() / 2).copied().unwrap_or(f64::NAN);
    println!(
        r#"{{"ready": {ready:.3}, "first": {:.3}, "prompt": {:.4}, "token": {step:.5}, "memory": {}}}"#,
        ready + cold,
        cold.min(warm),
        peak_memory()?
    );
    Ok(())
}

/// The most memory that the process has had, in MiB.
fn peak_memory() -> TractResult<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()).context("VmHWM")?;
    Ok(kibibytes.parse::<u64>()? / 1024)
}
