//! Printing: a value as JSON or YAML, its table as text or CSV. Called by every client command.

use std::io::Write;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table as Drawn, presets};
use elastune_core::model::event::MetricValue;
use elastune_core::model::space::{ParamValue, Params};
use elastune_core::time::Time;
use serde::Serialize;

use crate::args::Format;

/// Columns and rows of text.
#[derive(Debug, Default)]
pub struct Table {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(header: [&str; N]) -> Table {
        Table { header: header.map(String::from).to_vec(), rows: Vec::new() }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) -> &mut Table {
        self.rows.push(cells.to_vec());
        self
    }
}

/// Prints `value`, or the table of it.
pub fn show(format: Format, value: &impl Serialize, table: impl FnOnce() -> Table) -> Result<()> {
    match format {
        Format::Json => line(serde_json::to_string_pretty(value)?),
        Format::Yaml => text(&serde_norway::to_string(value)?),
        Format::Table => line(draw(&table())),
        Format::Csv => {
            let table = table();
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(&table.header)?;
            for row in &table.rows {
                writer.write_record(row)?;
            }
            text(&String::from_utf8(writer.into_inner()?)?)
        }
    }
}

pub fn draw(table: &Table) -> String {
    let mut drawn = Drawn::new();
    drawn.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    drawn.set_header(table.header.iter().map(|h| h.to_uppercase()));
    drawn.add_rows(&table.rows);
    for column in drawn.column_iter_mut() {
        column.set_padding((0, 2));
    }
    drawn.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

/// A line on standard output; an error, not a panic, if nobody reads it.
pub fn line(line: impl AsRef<str>) -> Result<()> {
    text(&format!("{}\n", line.as_ref()))
}

pub fn text(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// As people write states and reasons: `not_promoted`, in its own spelling.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value == value.trunc() && magnitude < 1e15 {
        format!("{value}")
    } else if (1e-3..1e4).contains(&magnitude) {
        format!("{value:.4}").trim_end_matches('0').to_string()
    } else {
        format!("{value:.3e}")
    }
}

pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), number)
}

pub fn metric(value: &MetricValue) -> String {
    match value {
        MetricValue::Number(value) => number(*value),
        MetricValue::NotFinite(word) => word.clone(),
    }
}

pub fn parameter(value: &ParamValue) -> String {
    match value {
        ParamValue::Bool(value) => value.to_string(),
        ParamValue::Int(value) => value.to_string(),
        ParamValue::Float(value) => number(*value),
        ParamValue::Text(value) => value.clone(),
    }
}

pub fn parameters(parameters: &Params) -> String {
    parameters.iter().map(|(name, value)| format!("{name}={}", parameter(value))).collect::<Vec<_>>().join(" ")
}

/// How long ago, as in `3m`.
pub fn age(at: Time) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
    span((now - at.0) as f64 / 1000.0)
}

pub fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Hours, minutes and seconds of the day (UTC).
pub fn clock(at: Time) -> String {
    let seconds = at.0.div_euclid(1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(number(4.0), "4");
        assert_eq!(number(0.91254), "0.9125");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(0.00001234), "1.234e-5");
        assert_eq!(number(-12345.6), "-1.235e4");
    }

    #[test]
    fn spans_read_well() {
        assert_eq!([span(5.0), span(65.0), span(3700.0), span(90_000.0), span(-1.0)], ["5s", "1m05s", "1h01m", "1d01h", "0s"]);
        assert_eq!(clock(Time(86_400_000 + 3_661_000)), "01:01:01");
    }

    #[test]
    fn tables_line_up() {
        let mut table = Table::new(["name", "state"]);
        table.row(["a".into(), "active".into()]).row(["longer".into(), "x".into()]);
        assert_eq!(draw(&table), "NAME    STATE\na       active\nlonger  x");
    }
}
