//! Every workload on this crate, on OpenVINO, on ONNX Runtime and on tract's own operators, in one
//! process, in turns, on the same data.
//!
//! `./run` sets it up. Prints a table of medians and ratios, and keeps it by the name of the processor where
//! it is told to, with a chart of the worst ratios of all processors that have been measured.

mod models;
mod peers;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use gather_cases::workloads::{WORKLOADS, Workload};
use peers::{Copy, OnnxRuntime, OpenVino, Peer, Result, Tract};
use tract_openvino::tract_onnx::prelude::*;

/// Runs the workloads of tract-openvino on other runtimes too, side by side.
#[derive(Parser)]
struct Arguments {
    /// The library of OpenVINO's C interface
    #[arg(long)]
    openvino: PathBuf,
    /// The library of ONNX Runtime
    #[arg(long)]
    onnxruntime: PathBuf,
    /// Only the workloads whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// How many seconds a workload is measured on each number of threads
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The folder of the tables of all processors, and of the chart
    #[arg(long, requires = "processor")]
    output: Option<PathBuf>,
    /// What the table of this machine is called, for example amd-epyc-zen-5
    #[arg(long)]
    processor: Option<String>,
}

/// The runtimes, in the order of the table.
pub const PEERS: [&str; 5] = ["tract-openvino", "OpenVINO", "ONNX Runtime", "tract", "copy"];

/// The medians of a workload, in microseconds.
pub struct Row {
    pub workload: String,
    pub threads: usize,
    pub medians: [Option<f64>; PEERS.len()],
}

impl Row {
    /// How many times as long as we the best other runtime takes. The copy is none.
    pub fn ratio(&self) -> f64 {
        let [ours, others @ .., _copy] = &self.medians;
        let best = others.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        best / ours.expect("every workload is one of ours")
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    openvino_sys::library::load_from(&arguments.openvino)?;
    ort::init_from(&arguments.onnxruntime)?.commit();
    let cores = std::thread::available_parallelism()?.get();
    let mut rows = vec![];
    let mut counts = vec![1, cores];
    counts.dedup();
    for threads in counts {
        for workload in WORKLOADS.iter().filter(|it| it.name.contains(&arguments.only)) {
            rows.push(measure(workload, threads, Duration::from_secs_f64(arguments.seconds))?);
            eprintln!(
                "{} on {threads} threads: {:.2}",
                workload.name,
                rows[rows.len() - 1].ratio()
            );
        }
    }
    println!("{}", report::table(&rows));
    if let (Some(folder), Some(processor)) = (&arguments.output, &arguments.processor) {
        report::write_csv(&rows, &folder.join(format!("{processor}.csv")))?;
        let results = report::read_all(folder)?;
        report::write_svg(&results, &folder.join("results.svg"))?;
    }
    Ok(())
}

/// A runtime's turn. It begins with runs that do not count, until the caches, the clock of the
/// processor and the runtime's sleeping threads are awake, and the threads of the one before no longer
/// spin. Nobody sleeps between turns: after 10 ms of sleep, a virtual machine can take several
/// milliseconds to be as fast as before.
const WARM_UP: Duration = Duration::from_millis(20);
const TURN: Duration = Duration::from_millis(30);

fn measure(workload: &Workload, threads: usize, time: Duration) -> Result<Row> {
    let (data, indices) = (workload.data(), workload.indices());
    let inputs: TVec<TValue> = tvec!(data.clone().into(), indices.clone().into());
    let ours = workload.ours()?;
    let output = ours.run(inputs.clone())?.remove(0);
    let tracts_own = workload.tracts_own().transpose()?;
    let mut peers: [Option<Box<dyn Peer>>; PEERS.len()] = [
        Some(Box::new(Tract::new(ours, inputs.clone(), threads))),
        Some(Box::new(OpenVino::new(workload, [&data, &indices], output.shape(), threads)?)),
        OnnxRuntime::new(workload, [&data, &indices], threads)?.map(|it| Box::new(it) as _),
        tracts_own.map(|model| Box::new(Tract::new(model, inputs, threads)) as _),
        Some(Box::new(Copy(output.as_bytes().to_vec()))),
    ];

    // Warm up, and compare.
    for (peer, name) in peers.iter_mut().zip(PEERS) {
        let Some(peer) = peer else { continue };
        let mut equal = false;
        for _ in 0..3 {
            peer.run(&mut |bytes| equal = bytes == output.as_bytes())?;
        }
        assert!(equal, "{}: {name} has another result", workload.name);
    }

    // Small workloads in batches, so that the clock does not count.
    let batch = if output.as_bytes().len() < 100_000 { 50 } else { 1 };
    let mut times: [Vec<f64>; PEERS.len()] = Default::default();
    let start = Instant::now();
    let mut state = 1u64;
    while start.elapsed() < time || times[0].is_empty() {
        // In an order of its own each time.
        let mut order: Vec<usize> = (0..peers.len()).collect();
        for last in (1..order.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            order.swap(last, (state >> 33) as usize % (last + 1));
        }
        for number in order {
            let Some(peer) = &mut peers[number] else { continue };
            let turn = Instant::now();
            let mut counted = 0;
            while turn.elapsed() < WARM_UP + TURN || counted == 0 {
                let warm = turn.elapsed() >= WARM_UP;
                let start = Instant::now();
                for _ in 0..batch {
                    peer.run(&mut |bytes| _ = std::hint::black_box(bytes))?;
                }
                if warm {
                    counted += 1;
                    times[number].push(start.elapsed().as_secs_f64() * 1e6 / f64::from(batch));
                }
            }
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    });
    Ok(Row { workload: workload.name.to_string(), threads, medians })
}
