//! The results as a table, a CSV file and a chart.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use plotters::prelude::*;

use crate::peers::Result;
use crate::{PEERS, Row};

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

/// A bar for each workload and number of threads: how many times as long as we the best of the
/// others takes, on a logarithmic scale.
pub fn write_svg(rows: &[Row], path: &Path) -> Result<()> {
    let height = 60 + 22 * rows.len() as u32;
    let root = SVGBackend::new(path, (900, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let most = rows.iter().map(Row::ratio).fold(2., f64::max) * 1.3;
    let mut chart = ChartBuilder::on(&root)
        .caption("time of the fastest other runtime / time of tract-openvino", ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(170)
        .build_cartesian_2d((0.5..most).log_scale(), 0..rows.len() as i32)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_label_formatter(&|ratio| format!("{ratio}×"))
        .draw()?;
    for (number, row) in rows.iter().rev().enumerate() {
        let number = number as i32;
        let color = if row.threads == 1 { RGBColor(46, 110, 180) } else { RGBColor(120, 170, 60) };
        let bar = [(1., number), (row.ratio(), number + 1)];
        let mut bar = Rectangle::new(bar, color.filled());
        bar.set_margin(3, 3, 0, 0);
        chart.draw_series([bar])?;
        let label = format!("{}, {} thread(s)", row.workload, row.threads);
        let (_, y) = chart.backend_coord(&(1., number + 1));
        root.draw(&Text::new(label, (12, y + 5), ("sans-serif", 13)))?;
        let (x, _) = chart.backend_coord(&(row.ratio().max(1.), number));
        let ratio = format!("{:.2}", row.ratio());
        root.draw(&Text::new(ratio, (x + 4, y + 5), ("sans-serif", 12)))?;
    }
    root.present()?;
    Ok(())
}
