//! The results as a table, a CSV file and a chart.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use plotters::prelude::*;

use crate::peers::Result;
use crate::{PEERS, Row};

/// A Markdown table: medians in microseconds, and the ratio to the best of the other runtimes.
pub fn table(rows: &[Row]) -> Table {
    let header = ["workload", "threads"].into_iter().chain(PEERS).chain(["best peer / ours"]);
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in rows {
        let medians = row.medians.iter().map(|median| match median {
            Some(median) if *median < 10. => format!("{median:.2}"),
            Some(median) => format!("{median:.0}"),
            None => String::new(),
        });
        let mut cells = vec![row.workload.clone(), row.threads.to_string()];
        cells.extend(medians);
        cells.push(format!("{:.2}", row.ratio()));
        table.add_row(cells);
    }
    let mean = rows.iter().map(|row| row.ratio().ln()).sum::<f64>() / rows.len() as f64;
    let mut cells = vec!["geometric mean".to_string()];
    cells.resize(PEERS.len() + 2, String::new());
    cells.push(format!("{:.2}", mean.exp()));
    table.add_row(cells);
    table
}

pub fn write_csv(rows: &[Row], path: &Path) -> Result<()> {
    let mut writer = csv::Writer::from_path(path)?;
    writer.write_record(["workload", "threads"].into_iter().chain(PEERS))?;
    for row in rows {
        let medians = row.medians.map(|median| median.map_or(String::new(), |it| it.to_string()));
        let start = [row.workload.clone(), row.threads.to_string()];
        writer.write_record(start.into_iter().chain(medians))?;
    }
    Ok(writer.flush()?)
}

/// What has been measured on a processor.
pub struct Results {
    pub processor: String,
    pub rows: Vec<Row>,
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
    let mut rows = vec![];
    for record in csv::Reader::from_path(file)?.records() {
        let record = record?;
        let (Some(workload), Some(threads)) = (record.get(0), record.get(1)) else { continue };
        let medians = record.iter().skip(2).map(|median| median.parse().ok()).collect::<Vec<_>>();
        let medians = medians.try_into().map_err(|_| format!("{file:?}: not a table of these"))?;
        rows.push(Row { workload: workload.to_string(), threads: threads.parse()?, medians });
    }
    let processor = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Results { processor, rows })
}

/// A workload on a number of threads.
struct Comparison {
    label: String,
    /// The processor with the least ratio, and that.
    worst: (usize, f64),
}

/// Those that all processors have.
fn comparisons(results: &[Results]) -> Vec<Comparison> {
    let compare = |row: &Row| {
        let is_same = |it: &&Row| it.workload == row.workload && it.threads == row.threads;
        let of = |it: &Results| it.rows.iter().find(is_same).map(Row::ratio);
        let ratios = results.iter().map(of).collect::<Option<Vec<f64>>>()?;
        let worst = ratios.into_iter().enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let label = format!("{}, {} thread(s)", row.workload, row.threads);
        Some(Comparison { label, worst })
    };
    results.first().iter().flat_map(|it| &it.rows).filter_map(compare).collect()
}

/// A bar for each workload and number of threads: how many times as long as we the best of the
/// others takes, on the processor where that is the least, on a logarithmic scale.
pub fn write_svg(results: &[Results], path: &Path) -> Result<()> {
    let rows = comparisons(results);
    let height = 60 + 22 * rows.len() as u32;
    let root = SVGBackend::new(path, (900, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let all = rows.iter().map(|row| row.worst.1);
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
    for (number, row) in rows.into_iter().rev().enumerate() {
        let number = number as i32;
        let Comparison { label, worst: (processor, ratio) } = row;
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
