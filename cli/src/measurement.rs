//! What `bench` measures: as text, as JSON, and beside an earlier measurement.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Color};
use flate2::CrcReader;
use serde::{Deserialize, Serialize};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::TractErrorContext;

use crate::report::{GOOD, error_with_help, note, print_table, table};

/// A measurement, and what else its numbers depend on.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// Where the model was.
    pub model: String,
    /// The CRC-32 of its file, without weights in another one.
    pub crc32: u32,
    pub processor: String,
    /// The stage of the model: whose operators it ran on.
    pub stage: String,
    /// The types and shapes of what was fed.
    pub inputs: Vec<String>,
    /// The threads that tract might use.
    pub threads: u16,
    /// How many runs there were at once.
    pub parallel: u16,
    /// What came before the runs. Older measurements have none.
    #[serde(default)]
    pub start: Option<Start>,
    pub runs: usize,
    pub runs_per_second: f64,
    pub nanoseconds: Quantiles,
    /// None of runs at once.
    pub profile: Option<Profile>,
}

/// What it takes until a model runs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Start {
    /// From the file to a plan.
    pub load_nanoseconds: u64,
    /// The first run, which may read and pack weights.
    pub first_run_nanoseconds: u64,
    /// What the process has in memory after the first run, if the system says it.
    pub memory_bytes: Option<u64>,
}

impl Start {
    /// What each number is, the number itself, and how it is written with its unit.
    fn rows(&self) -> Vec<(&'static str, u64, String, &'static str)> {
        let time = |name, nanoseconds| (name, nanoseconds, microseconds(nanoseconds), "µs");
        let mut rows = vec![
            time("load", self.load_nanoseconds),
            time("first run", self.first_run_nanoseconds),
        ];
        if let Some(bytes) = self.memory_bytes {
            let mebibytes = format!("{:.1}", bytes as f64 / f64::from(1 << 20));
            rows.push(("memory", bytes, mebibytes, "MiB"));
        }
        rows
    }

    pub fn print(&self, out: &mut impl Write) -> TractResult<()> {
        for (name, _, number, unit) in self.rows() {
            writeln!(out, "  {name:16} {GOOD}{number:>12}{GOOD:#} {unit}")?;
        }
        Ok(())
    }
}

/// What this process has in memory. Linux says it.
pub fn memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// The times of runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Quantiles {
    minimum: u64,
    median: u64,
    percentile_95: u64,
    percentile_99: u64,
}

impl Quantiles {
    /// Those of at least one run, shortest first.
    pub fn of(times: &[Duration]) -> Quantiles {
        // The time that this share of the runs does not exceed.
        let quantile = |share: f64| {
            let rank = (times.len() as f64 * share).ceil() as usize;
            nanoseconds(times[rank.clamp(1, times.len()) - 1])
        };
        Quantiles {
            minimum: quantile(0.),
            median: quantile(0.5),
            percentile_95: quantile(0.95),
            percentile_99: quantile(0.99),
        }
    }

    fn rows(&self) -> [(&'static str, u64); 4] {
        [
            ("minimum", self.minimum),
            ("median", self.median),
            ("95th percentile", self.percentile_95),
            ("99th percentile", self.percentile_99),
        ]
    }
}

/// Where the time of a run goes: means of `runs` other runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Profile {
    pub runs: u32,
    /// The slowest first.
    pub nodes: Vec<NodeTime>,
    pub total_nanoseconds: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct NodeTime {
    pub name: String,
    pub operator: String,
    pub nanoseconds: u64,
}

/// The name of this machine's processor, as far as it says it.
pub fn processor() -> String {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    if let Some(brand) = raw_cpuid::CpuId::new().get_processor_brand_string() {
        return brand.as_str().trim().into();
    }
    std::env::consts::ARCH.into()
}

/// The CRC-32 of a file.
pub fn crc32(file: &Path) -> TractResult<u32> {
    let sum = || -> io::Result<u32> {
        let mut reader = CrcReader::new(File::open(file)?);
        io::copy(&mut reader, &mut io::sink())?;
        Ok(reader.crc().sum())
    };
    sum().with_context(|| format!("reading {}", file.display()))
}

pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// To the nanosecond, so that the numbers add up.
fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// A number beside an earlier one.
fn ratio(now: f64, before: f64) -> String {
    if before > 0. { format!("{:.3}", now / before) } else { "-".into() }
}

impl Measurement {
    /// Reads what `bench --json` printed.
    pub fn read(path: &Path) -> TractResult<Measurement> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| {
            error_with_help(
                format!("{} is not a measurement: {error}", path.display()),
                [format!("bench --json prints one: bench MODEL --json > {}", path.display())],
            )
        })
    }

    /// Fails unless this baseline is of the model in this file.
    pub fn expect_model(&self, crc32: u32, file: &Path) -> TractResult<()> {
        if self.crc32 == crc32 {
            return Ok(());
        }
        Err(error_with_help(
            format!(
                "the baseline is of another model: the CRC-32 of {} is {crc32:08x}, and that of {}, which it is of, was \
                 {:08x}",
                file.display(),
                self.model,
                self.crc32
            ),
            ["give what bench --json printed for this model".into()],
        ))
    }

    pub fn print(&self, out: &mut impl Write) -> TractResult<()> {
        self.print_first_line(out)?;
        if let Some(start) = self.start {
            start.print(out)?;
        }
        for (name, time) in self.nanoseconds.rows() {
            writeln!(out, "  {name:16} {GOOD}{:>12}{GOOD:#} µs", microseconds(time))?;
        }
        let rate = self.runs_per_second;
        writeln!(out, "  {:16} {GOOD}{rate:>12.1}{GOOD:#}", "runs per second")?;
        self.profile.as_ref().map_or(Ok(()), |profile| profile.print(out))
    }

    fn print_first_line(&self, out: &mut impl Write) -> TractResult<()> {
        let Measurement { model, runs, threads, parallel, .. } = self;
        let how = match (parallel, threads) {
            (1, 1) => " on 1 thread".into(),
            (1, _) => format!(" on {threads} threads"),
            (_, 1) => format!(", {parallel} at once, each on a thread of its own"),
            _ => format!(", {parallel} at once, which share {threads} threads"),
        };
        Ok(writeln!(out, "{model}: {runs} runs{how}")?)
    }

    /// Prints this beside an earlier measurement of the same model. If they differ in something else, a note says so.
    pub fn print_beside(&self, before: &Measurement, out: &mut impl Write) -> TractResult<()> {
        let conditions = |it: &Measurement| {
            [
                ("processor", it.processor.clone()),
                ("stage", it.stage.clone()),
                ("inputs", it.inputs.join(", ")),
                ("threads", it.threads.to_string()),
                ("runs at once", it.parallel.to_string()),
            ]
        };
        let changed = conditions(self).into_iter().zip(conditions(before));
        let changed: Vec<String> = changed
            .filter(|(now, before)| now != before)
            .map(|((name, now), (_, before))| {
                format!("{name}: {now}, but {before} in the baseline")
            })
            .collect();
        if !changed.is_empty() {
            note(&format!("the ratios are not of the model alone: {}", changed.join("; ")));
        }

        self.print_first_line(out)?;
        let mut table = table(&["", "now", "baseline", "ratio"]);
        align_right(&mut table, 1);
        if let (Some(now), Some(before)) = (self.start, before.start) {
            for (now, before) in now.rows().into_iter().zip(before.rows()) {
                let ((name, now, number, unit), (_, before, earlier, _)) = (now, before);
                table.add_row([
                    name.to_string(),
                    format!("{number} {unit}"),
                    format!("{earlier} {unit}"),
                    ratio(now as f64, before as f64),
                ]);
            }
        }
        let rows = self.nanoseconds.rows().into_iter().zip(before.nanoseconds.rows());
        for ((name, now), (_, before)) in rows {
            table.add_row([
                format!("{name}, µs"),
                microseconds(now),
                microseconds(before),
                ratio(now as f64, before as f64),
            ]);
        }
        let (now, then) = (self.runs_per_second, before.runs_per_second);
        table.add_row([
            "runs per second".into(),
            format!("{now:.1}"),
            format!("{then:.1}"),
            ratio(now, then),
        ]);
        print_table(out, &table)?;
        match (&self.profile, &before.profile) {
            (Some(now), Some(before)) => now.print_changes(before, out),
            _ => Ok(()),
        }
    }
}

/// Aligns columns from this one on as numbers are.
fn align_right(table: &mut comfy_table::Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The most nodes that are shown.
const SHOWN: usize = 20;

impl Profile {
    fn print(&self, out: &mut impl Write) -> TractResult<()> {
        let total = self.total_nanoseconds;
        let (shown, others) = self.nodes.split_at(self.nodes.len().min(SHOWN));
        let sum = |nodes: &[NodeTime]| nodes.iter().map(|node| node.nanoseconds).sum::<u64>();
        writeln!(out, "profile of {} other runs, the mean of them:", self.runs)?;
        let mut table = table(&["node", "operator", "µs", "share"]);
        align_right(&mut table, 2);
        let share = |time: u64| format!("{:.1} %", 100. * time as f64 / total.max(1) as f64);
        for node in shown {
            table.add_row([
                Cell::new(&node.name).fg(Color::Cyan),
                Cell::new(&node.operator),
                Cell::new(microseconds(node.nanoseconds)),
                Cell::new(share(node.nanoseconds)),
            ]);
        }
        let mut add = |name: String, time: u64| {
            table.add_row([name, String::new(), microseconds(time), share(time)]);
        };
        if !others.is_empty() {
            add(format!("{} other nodes", others.len()), sum(others));
        }
        let rest = total.saturating_sub(sum(&self.nodes));
        add("rest: inputs, and tract between the nodes".into(), rest);
        add("total".into(), total);
        print_table(out, &table)
    }

    /// Prints the nodes whose time is not what it was, the greatest changes first.
    fn print_changes(&self, before: &Profile, out: &mut impl Write) -> TractResult<()> {
        // Smaller ones are mostly noise.
        const OF_NODE: f64 = 0.1;
        const OF_TOTAL: f64 = 0.01;
        let mut nodes: BTreeMap<&str, [Option<&NodeTime>; 2]> = BTreeMap::new();
        for (column, profile) in [self, before].into_iter().enumerate() {
            for node in &profile.nodes {
                nodes.entry(&node.name).or_default()[column] = Some(node);
            }
        }
        let time = |node: Option<&NodeTime>| node.map_or(0, |node| node.nanoseconds);
        let change = |[now, before]: &[Option<&NodeTime>; 2]| time(*now).abs_diff(time(*before));
        let total = self.total_nanoseconds.max(before.total_nanoseconds) as f64;
        let mut changed: Vec<_> = nodes
            .into_iter()
            .filter(|(_, times)| {
                let change = change(times) as f64;
                change > OF_NODE * time(times[1]) as f64 && change > OF_TOTAL * total
            })
            .collect();
        changed.sort_by_key(|(_, times)| std::cmp::Reverse(change(times)));
        let limits = format!("{} % and {} % of the whole", 100. * OF_NODE, 100. * OF_TOTAL);
        if changed.is_empty() {
            writeln!(out, "no node's time changed by more than {limits}")?;
            return Ok(());
        }
        writeln!(out, "nodes whose time changed by more than {limits}:")?;
        let mut table = table(&["node", "operator", "µs", "baseline", "ratio"]);
        align_right(&mut table, 2);
        for (name, times) in changed.iter().take(SHOWN) {
            let [now, before] = times;
            let operator = match [now, before].map(|node| node.map(|node| &*node.operator)) {
                [Some(now), Some(before)] if now != before => format!("{now}, was {before}"),
                [operator, earlier] => operator.or(earlier).unwrap_or_default().into(),
            };
            let text = |node: Option<&NodeTime>| {
                node.map_or_else(|| "-".into(), |node| microseconds(node.nanoseconds))
            };
            let both = now.zip(*before);
            let ratio = both.map_or_else(
                || "-".into(),
                |(now, before)| ratio(now.nanoseconds as f64, before.nanoseconds as f64),
            );
            table.add_row([
                Cell::new(name).fg(Color::Cyan),
                Cell::new(operator),
                Cell::new(text(*now)),
                Cell::new(text(*before)),
                Cell::new(ratio),
            ]);
        }
        print_table(out, &table)?;
        if changed.len() > SHOWN {
            writeln!(out, "and {} more", changed.len() - SHOWN)?;
        }
        Ok(())
    }
}
