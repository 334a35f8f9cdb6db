//! Throughput and latency against clients and against nodes, as SVG that can be read on light and on dark ground.

use crate::row::Row;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const SIZE: (u32, u32) = (760, 440);
/// Not in the plots: the limits of a lone client, which are not about many, and other runtimes of those that are there.
const ASIDE: [&str; 4] = ["floor-quorum", "floor-fenced", "quorlock-one-thread", "rslock-one-thread"];
/// Grey that stands out from white and from black.
const INK: RGBColor = RGBColor(128, 128, 128);
/// Colours of medium lightness that people who do not see red and green can distinguish, too.
const COLOURS: [RGBColor; 12] = [
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(110, 150, 60),
    RGBColor(150, 150, 150),
    RGBColor(100, 110, 130),
    RGBColor(60, 140, 140),
];

/// One picture: rows of a workload, what both axes show.
struct Plot {
    file: &'static str,
    title: &'static str,
    workload: &'static str,
    across: (&'static str, fn(&Row) -> f64),
    up: (&'static str, fn(&Row) -> Option<f64>),
}

const CLIENTS: (&str, fn(&Row) -> f64) = ("clients", |row| row.clients as f64);
const NODES: (&str, fn(&Row) -> f64) = ("nodes", |row| row.nodes as f64);
const SPEED: (&str, fn(&Row) -> Option<f64>) = ("cycles per second", |row| row.cycles_per_s);
const WAIT: (&str, fn(&Row) -> Option<f64>) = ("acquire p99, ms", |row| row.acquire_p99_ms);

const PLOTS: [Plot; 4] = [
    plot("throughput-clients", "Throughput, own names, 5 nodes", "W6-growth", CLIENTS, SPEED),
    plot("latency-clients", "Time to acquire (p99), own names, 5 nodes", "W6-growth", CLIENTS, WAIT),
    plot("throughput-nodes", "Throughput, own names, 100 clients", "W1", NODES, SPEED),
    plot("latency-nodes", "Time to acquire (p99), own names, 100 clients", "W1", NODES, WAIT),
];

const fn plot(
    file: &'static str,
    title: &'static str,
    workload: &'static str,
    across: (&'static str, fn(&Row) -> f64),
    up: (&'static str, fn(&Row) -> Option<f64>),
) -> Plot {
    Plot { file, title, workload, across, up }
}

/// Draws every plot for which there are rows.
pub fn draw(rows: &[Row], directory: &Path) -> Result<()> {
    for plot in &PLOTS {
        let lines = plot.lines(rows);
        if lines.iter().any(|line| line.points.len() > 1) {
            let file = directory.join(plot.file).with_extension("svg");
            plot.draw(&lines, &file).map_err(|error| anyhow!("{}: {error}", file.display()))?;
        }
    }
    Ok(())
}

/// One contestant.
struct Line<'a> {
    name: &'a str,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

impl Plot {
    fn lines<'a>(&self, rows: &'a [Row]) -> Vec<Line<'a>> {
        let mut lines: Vec<Line<'a>> = Vec::new();
        let is_shown =
            |row: &&Row| row.workload == self.workload && !ASIDE.contains(&row.contestant.as_str());
        for row in rows.iter().filter(is_shown) {
            let Some(value) = (self.up.1)(row).filter(|value| *value > 0.0) else { continue };
            let point = ((self.across.1)(row), value);
            match lines.iter_mut().find(|line| line.name == row.contestant) {
                Some(line) => line.points.push(point),
                None => lines.push(Line {
                    name: &row.contestant,
                    colour: COLOURS[crate::contestants::names()
                        .iter()
                        .position(|name| *name == row.contestant)
                        .unwrap_or(0)
                        % COLOURS.len()],
                    points: vec![point],
                }),
            }
        }
        lines
    }

    fn draw(&self, lines: &[Line<'_>], file: &Path) -> Result<(), Box<dyn std::error::Error + '_>> {
        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        let all = || lines.iter().flat_map(|line| line.points.iter().copied());
        let (left, right) = range(all().map(|point| point.0));
        let (low, high) = range(all().map(|point| point.1));
        let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, text(18))
            .margin(12)
            .margin_right(150)
            .x_label_area_size(42)
            .y_label_area_size(70)
            .build_cartesian_2d((left..right * 1.02).log_scale(), (low * 0.7..high * 1.4).log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.25))
            .axis_style(INK)
            .label_style(text(12))
            .axis_desc_style(text(14))
            .x_desc(self.across.0)
            .y_desc(self.up.0)
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| plain(*value))
            .draw()?;
        for line in lines {
            let (width, colour) = (if line.name == "quorlock" { 3 } else { 2 }, line.colour);
            chart.draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(width)))?;
            chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        }
        let ends: Vec<i32> = lines
            .iter()
            .filter_map(|line| line.points.last())
            .map(|end| chart.backend_coord(end).1)
            .collect();
        for (line, at) in lines.iter().zip(apart(&ends)) {
            let style = text(13).color(&line.colour).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(line.name, (SIZE.0 as i32 - 142, at), style))?;
        }
        area.present()?;
        Ok(())
    }
}

/// Heights for labels near `wanted`, so far apart that they can be read.
fn apart(wanted: &[i32]) -> Vec<i32> {
    const GAP: i32 = 15;
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&at| wanted[at]);
    let mut heights = vec![0; wanted.len()];
    let mut next = i32::MIN;
    for at in order {
        heights[at] = wanted[at].max(next);
        next = heights[at] + GAP;
    }
    heights
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}

fn plain(value: f64) -> String {
    if value >= 1000.0 { format!("{}k", value / 1000.0) } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_apart() {
        assert_eq!(apart(&[100, 300, 103]), [100, 300, 115]);
    }
}
