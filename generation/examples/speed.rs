//! How fast a language model runs here, for `speed.py`: one line of JSON.
//!
//! ```text
//! speed FOLDER THREADS CONTEXT TOKENS [--dynamic-quantization] [--kv-cache-u8]
//! ```
//!
//! The prompt has `CONTEXT` tokens. Of three readings of it, the fastest one counts; of the steps after it, the median. A prompt of
//! [`LONG`] tokens or more is read once, after a short one, and there is no time of the first token.

use std::time::Instant;

use tract_core::internal::*;
use tract_core::tract_linalg::multithread::{Executor, set_default_executor};
use tract_openvino_generation::LanguageModel;
use tract_openvino_kernels::{CachePrecision, KernelsConfig, KernelsTransform};

/// The one of the tool.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The tokens of a long prompt; `speed.py` has the same numbers.
const LONG: u32 = 2048;

/// Those of the short one before it.
const SHORT: usize = 128;

fn main() -> TractResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage =
        "usage: speed FOLDER THREADS CONTEXT TOKENS [--dynamic-quantization] [--kv-cache-u8]";
    let [folder, threads, context, tokens, options @ ..] = &arguments[..] else { bail!(usage) };
    let mut config = KernelsConfig::default();
    for option in options {
        match &**option {
            "--dynamic-quantization" => config.dynamic_quantization = true,
            "--kv-cache-u8" => config.kv_cache_precision = CachePrecision::U8,
            _ => bail!(usage),
        }
    }
    let (threads, context): (usize, u32) = (threads.parse()?, context.parse()?);
    let tokens: u32 = tokens.parse()?;
    if threads > 1 {
        set_default_executor(Executor::multithread(threads));
    }
    let seconds = |started: Instant| started.elapsed().as_secs_f64();
    let started = Instant::now();
    let model = LanguageModel::from_folder_with(folder, &KernelsTransform::new(config)?)?;
    let ready = seconds(started);
    let prompt: Vec<u32> = (0..context).map(|place| (place * 7919 + 13) % 30000).collect();
    let read = |prompt: &[u32]| -> TractResult<_> {
        let mut state = model.start()?;
        let started = Instant::now();
        state.extend(prompt)?;
        Ok((state, seconds(started)))
    };
    let is_long = context >= LONG;
    let (_, first) = read(if is_long { &prompt[..SHORT] } else { &prompt })?;
    let (mut state, mut best) = read(&prompt)?;
    if !is_long {
        // Its keys and values would take memory beside the next ones.
        drop(state);
        let (again, third) = read(&prompt)?;
        (state, best) = (again, first.min(best).min(third));
    }
    let mut steps = vec![];
    for token in 0..tokens {
        let started = Instant::now();
        state.extend(&[token + 100])?;
        steps.push(seconds(started));
    }
    steps.sort_by(f64::total_cmp);
    let median = steps.get(steps.len() / 2).copied().unwrap_or(f64::NAN);
    let first = if is_long { String::new() } else { format!(" \"first\": {:.3},", ready + first) };
    println!(
        "{{\"ready\": {ready:.3},{first} \"prompt\": {best:.4}, \"token\": {median:.5}, \"memory\": {}}}",
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
