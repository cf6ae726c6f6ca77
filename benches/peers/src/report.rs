//! The results as a table, a CSV file and a chart.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use plotters::prelude::*;

use crate::peers::Result;
use crate::{PEERS, Row, ratio};

/// A Markdown table: medians in microseconds, and the ratio to the best of the other runtimes.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    let header = ["workload", "threads"].into_iter().chain(PEERS).chain(["best peer / ours"]);
    table.set_header(header);
    for row in rows {
        let medians = row.medians.iter().map(|median| match median {
            Some(median) if *median < 10. => format!("{median:.2}"),
            Some(median) => format!("{median:.0}"),
            None => String::new(),
        });
        let mut cells = vec![row.workload.to_string(), row.threads.to_string()];
        cells.extend(medians);
        cells.push(format!("{:.2}", row.ratio()));
        table.add_row(cells);
    }
    let mean = rows.iter().map(|row| row.ratio().ln()).sum::<f64>() / rows.len() as f64;
    let mut cells = vec!["geometric mean".to_string()];
    cells.resize(PEERS.len() + 2, String::new());
    cells.push(format!("{:.2}", mean.exp()));
    table.add_row(cells);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

pub fn write_csv(rows: &[Row], path: &Path) -> Result<()> {
    let mut writer = csv::Writer::from_path(path)?;
    writer.write_record(["workload", "threads"].into_iter().chain(PEERS))?;
    for row in rows {
        let medians = row.medians.map(|median| median.map_or(String::new(), |it| it.to_string()));
        let start = [row.workload.to_string(), row.threads.to_string()];
        writer.write_record(start.into_iter().chain(medians))?;
    }
    Ok(writer.flush()?)
}

/// What has been measured on a processor: the ratios by workload and number of threads, in their order.
pub struct Results {
    pub processor: String,
    pub ratios: Vec<(String, f64)>,
}

/// The tables that [`write_csv`] has written to a folder.
pub fn read_all(folder: &Path) -> Result<Vec<Results>> {
    let files = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut files = files.collect::<Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "csv"));
    files.sort();
    files.into_iter().map(|file| read_csv(&file)).collect()
}

fn read_csv(file: &Path) -> Result<Results> {
    let mut ratios = vec![];
    for row in csv::Reader::from_path(file)?.records() {
        let row = row?;
        let (Some(workload), Some(threads)) = (row.get(0), row.get(1)) else { continue };
        let medians = row.iter().skip(2).map(|median| median.parse().ok()).collect::<Vec<_>>();
        let medians = medians.try_into().map_err(|_| format!("{file:?}: not a table of these"))?;
        ratios.push((format!("{workload}, {threads} thread(s)"), ratio(&medians)));
    }
    let processor = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Results { processor, ratios })
}

/// A Markdown table of the ratios on all processors.
pub fn ratios(results: &[Results]) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    let processors = results.iter().map(|it| it.processor.clone());
    table.set_header(["workload".into()].into_iter().chain(processors).chain(["the worst".into()]));
    for (label, ratios) in by_workload(results) {
        let worst = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let ratios = ratios.into_iter().chain([worst]).map(|ratio| format!("{ratio:.2}"));
        table.add_row([label].into_iter().chain(ratios));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// For each workload and number of threads that all processors have, the ratio on each.
fn by_workload(results: &[Results]) -> Vec<(String, Vec<f64>)> {
    let of = |label: &str| {
        let ratio = |it: &Results| it.ratios.iter().find(|(it, _)| it == label).map(|it| it.1);
        Some((label.to_string(), results.iter().map(ratio).collect::<Option<Vec<f64>>>()?))
    };
    results.first().iter().flat_map(|it| &it.ratios).filter_map(|(label, _)| of(label)).collect()
}

/// A bar for each workload and number of threads: how many times as long as we the best of the
/// others takes, on the processor where that is the least, on a logarithmic scale.
pub fn write_svg(results: &[Results], path: &Path) -> Result<()> {
    let rows = by_workload(results);
    let worst = |ratios: &[f64]| {
        let number = (0..ratios.len()).min_by(|&a, &b| ratios[a].total_cmp(&ratios[b]));
        number.map_or((0, 1.), |number| (number, ratios[number]))
    };
    let height = 60 + 22 * rows.len() as u32;
    let root = SVGBackend::new(path, (900, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let all = rows.iter().map(|(_, ratios)| worst(ratios).1);
    let (least, most) = (all.clone().fold(0.5, f64::min), all.fold(2., f64::max) * 1.3);
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "time of the fastest other runtime / time of tract-openvino, where that is the least",
            ("sans-serif", 18),
        )
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(170)
        .build_cartesian_2d((least..most).log_scale(), 0..rows.len() as i32)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_label_formatter(&|ratio| format!("{ratio}×"))
        .draw()?;
    for (number, (label, ratios)) in rows.into_iter().rev().enumerate() {
        let number = number as i32;
        let (processor, ratio) = worst(&ratios);
        let bar = [(1., number), (ratio, number + 1)];
        let mut bar = Rectangle::new(bar, Palette99::pick(processor + 1).filled());
        bar.set_margin(3, 3, 0, 0);
        chart.draw_series([bar])?;
        let (_, y) = chart.backend_coord(&(1., number + 1));
        root.draw(&Text::new(label, (12, y + 5), ("sans-serif", 13)))?;
        let (x, _) = chart.backend_coord(&(ratio.max(1.), number));
        let text = format!("{ratio:.2} {}", results[processor].processor);
        root.draw(&Text::new(text, (x + 4, y + 5), ("sans-serif", 12)))?;
    }
    root.present()?;
    Ok(())
}
