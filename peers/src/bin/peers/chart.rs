//! A chart of lines with logarithmic axes, as SVG that can be read on light and on dark ground.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const SIZE: (u32, u32) = (760, 440);
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

pub struct Chart<'a> {
    pub title: &'a str,
    /// What the axes show.
    pub across: &'a str,
    pub up: &'a str,
    pub lines: Vec<Line<'a>>,
}

pub struct Line<'a> {
    pub name: &'a str,
    /// Which colour; lines of the same number have the same one in all charts.
    pub colour: usize,
    pub points: Vec<(f64, f64)>,
}

impl Chart<'_> {
    /// Whether there is something to connect.
    pub fn has_lines(&self) -> bool {
        self.lines.iter().any(|line| line.points.len() > 1)
    }

    pub fn draw(&self, file: &Path) -> Result<(), Box<dyn std::error::Error + '_>> {
        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        let all = || self.lines.iter().flat_map(|line| line.points.iter().copied());
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
            .x_desc(self.across)
            .y_desc(self.up)
            .x_label_formatter(&|value| plain(*value))
            .y_label_formatter(&|value| plain(*value))
            .draw()?;
        for (line, colour) in self.lines.iter().map(|line| (line, line.colour())) {
            let width = if line.colour == 0 { 3 } else { 2 };
            chart.draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(width)))?;
            chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        }
        let last = |line: &Line<'_>| line.points.last().map_or(0, |end| chart.backend_coord(end).1);
        let ends: Vec<i32> = self.lines.iter().map(last).collect();
        for (line, at) in self.lines.iter().zip(apart(&ends)) {
            let colour = line.colour();
            let style = text(13).color(&colour).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(line.name, (SIZE.0 as i32 - 142, at), style))?;
        }
        area.present()?;
        Ok(())
    }
}

impl Line<'_> {
    fn colour(&self) -> RGBColor {
        COLOURS[self.colour % COLOURS.len()]
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
