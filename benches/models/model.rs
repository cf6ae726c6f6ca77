//! One model on tract, for `compare.py`: reads it, says how long that took, and runs it when it is told to.
//!
//! ```text
//! model ir|ir-bf16|onnx|onnx-kernels FOLDER THREADS
//! ```
//!
//! The folder has a `model.xml`, a `model.onnx` or both, and data sets; the inputs of the first one are fed. IR runs on the
//! kernels of this project, `ir-bf16` too, with products in bf16; `onnx` on tract's own operators, and `onnx-kernels` is the same model,
//! read as the tool does, on the kernels.
//!
//! Each line of standard input is a command, and each answer is a line of JSON:
//!
//! * `run SECONDS` runs for so long, once at least: the time of each run in microseconds.
//! * `errors`: for an int8 model, how far its outputs are from those of the same model in single precision, and how far the
//!   outputs of the data set are from these: `[[mean, percentile], [mean, percentile]]`, of the output where ours is
//!   furthest. Distances are relative to the largest value; the percentile is the 99th.
//! * `memory`: `[all, own]`, the most memory that the process had, in MiB (Linux): with files that are mapped, among them
//!   the program, and without them.
//!
//! The first line is `[read, ready, own]`: the milliseconds until the file was read and until the model could run, and the
//! memory before.

use std::io::BufRead;
use std::path::Path;
use std::time::{Duration, Instant};

use model_cases::DataSet;
use tract_openvino::kernels::threads::executor;
use tract_openvino::kernels::{InferencePrecision, KernelsConfig, KernelsTransform, WithKernels};
use tract_openvino::tract_onnx::prelude::multithread::set_default_executor;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{TractErrorContext, bail};
use tract_openvino::{OpenVinoOptions, WithOpenVinoOptions};

fn main() -> TractResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [format, folder, threads] = &arguments[..] else {
        bail!("usage: model ir|ir-bf16|onnx|onnx-kernels FOLDER THREADS")
    };
    set_default_executor(executor(threads.parse()?));
    let folder = Path::new(folder);
    let data_set = DataSet::load(folder, 0)?.context("the folder has no test_data_set_0")?;
    let inputs: TVec<TValue> = data_set.inputs.into_iter().map(TValue::from).collect();

    let [_, own] = peak_memory()?;
    let started = Instant::now();
    let milliseconds = || started.elapsed().as_secs_f64() * 1e3;
    let model = match &**format {
        "ir" | "ir-bf16" => tract_openvino_ir::ir().model_for_path(folder.join("model.xml"))?,
        "onnx" => tract_openvino::tract_onnx::onnx()
            .model_for_path(folder.join("model.onnx"))?
            .into_typed()?,
        // Loops begin anew in each run, as those of IR do.
        "onnx-kernels" => {
            let options = OpenVinoOptions::default().with_standard_gather(true);
            let reader = tract_openvino::tract_onnx::onnx().with_openvino_options(options);
            let proto = reader.proto_model_for_path(folder.join("model.onnx"))?;
            tract_openvino::typed_model(&reader, &proto, folder.to_str(), |_| Ok(()))?
        }
        other => {
            bail!("the format must be ir, ir-bf16, onnx or onnx-kernels, but is {other}")
        }
    };
    let read = milliseconds();
    let plan: Box<dyn Runnable> = match &**format {
        "onnx" => Box::new(model.into_optimized()?.into_runnable()?),
        "ir-bf16" => {
            let mut config = KernelsConfig::default();
            config.inference_precision = InferencePrecision::Bf16;
            Box::new(KernelsTransform::new(config)?.runnable(model)?)
        }
        _ => Box::new(model.into_runnable_with_kernels()?),
    };
    println!("[{read:.1}, {:.1}, {own:.1}]", milliseconds());

    let mut state = plan.spawn()?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("run", seconds) => {
                let time = Duration::try_from_secs_f64(seconds.parse()?)?;
                let (begin, mut times) = (Instant::now(), vec![]);
                while times.is_empty() || begin.elapsed() < time {
                    let inputs = inputs.clone();
                    let started = Instant::now();
                    drop(state.run(inputs)?);
                    times.push(started.elapsed().as_secs_f64() * 1e6);
                }
                println!("{times:.1?}");
            }
            ("errors", "") => println!("{:?}", errors(folder, &inputs)?),
            ("memory", "") => println!("{:.1?}", peak_memory()?),
            _ => bail!("no such command: {line}"),
        }
    }
    Ok(())
}

/// How far outputs of an int8 model are from those in single precision: ours, and those of the data set.
fn errors(folder: &Path, inputs: &TVec<TValue>) -> TractResult<[[f32; 2]; 2]> {
    let run = |without: &[&str]| {
        let mut config = KernelsConfig::default();
        config.without = without.iter().map(|name| name.to_string()).collect();
        let mut model = tract_openvino_ir::ir().model_for_path(folder.join("model.xml"))?;
        model.transform(&KernelsTransform::new(config)?)?;
        model.into_optimized()?.into_runnable()?.run(inputs.clone())
    };
    let (ours, single) = (run(&[])?, run(&["quantized"])?);
    let expected = DataSet::load(folder, 0)?.context("the folder has no test_data_set_0")?.outputs;
    let mut worst = [[0.; 2]; 2];
    for ((ours, single), expected) in ours.iter().zip(&single).zip(expected) {
        let both = [apart(ours, single)?, apart(&expected, single)?];
        if both[0][0] >= worst[0][0] {
            worst = both;
        }
    }
    Ok(worst)
}

/// The mean and the 99th percentile of how far numbers are from others, relative to the largest of these.
fn apart(found: &Tensor, expected: &Tensor) -> TractResult<[f32; 2]> {
    let (found, expected) = (found.cast_to::<f32>()?, expected.cast_to::<f32>()?);
    let (found, expected) = (found.try_as_plain_ram()?, expected.try_as_plain_ram()?);
    let (found, expected) = (found.as_slice::<f32>()?, expected.as_slice::<f32>()?);
    let most = expected.iter().fold(f32::MIN_POSITIVE, |most, number| most.max(number.abs()));
    let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs() / most);
    let mut apart: Vec<f32> = apart.collect();
    apart.sort_by(f32::total_cmp);
    let mean = apart.iter().sum::<f32>() / apart.len().max(1) as f32;
    Ok([mean, apart.get(apart.len() * 99 / 100).copied().unwrap_or(0.)])
}

/// The most memory that the process had, in MiB, and how much of it is not mapped from files.
fn peak_memory() -> TractResult<[f64; 2]> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mebibytes = |name: &str| -> TractResult<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let line = line.with_context(|| format!("the system does not say {name}"))?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.)
    };
    let peak = mebibytes("VmHWM:")?;
    Ok([peak, peak - mebibytes("RssFile:")?])
}
