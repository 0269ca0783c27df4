//! Samples by family, as both formats want them.

use record::plain::{line, lines};
use record::unit::Unit;
use std::collections::{BTreeMap, BTreeSet};

/// Families by name, so that the samples of each stand together.
pub struct Families {
    of_all: Vec<String>,
    by_name: BTreeMap<String, Family>,
}

struct Family {
    unit: &'static str,
    help: String,
    lines: String,
    /// Labels of the samples so far: the formats know each series once.
    series: BTreeSet<String>,
}

impl Families {
    /// Without samples yet; each is to have these labels.
    pub fn with_labels(labels: Vec<String>) -> Families {
        Families { of_all: labels, by_name: BTreeMap::new() }
    }

    /// One more sample. `stem` is the name without its unit. A value that is absent or no number is left
    /// out, and so is a second one with the same labels.
    pub fn add(
        &mut self,
        stem: &str,
        unit: &'static str,
        help: &str,
        labels: &[String],
        value: impl Into<Option<f64>>,
    ) {
        let Some(value) = value.into().filter(|value| value.is_finite()) else {
            return;
        };
        // The convention reserves the words for types of metrics (`promtool check metrics`).
        let stem = identifier(stem).replace("_counter", "_ticks");
        let name = match unit {
            "" => stem,
            unit => format!("{stem}_{unit}"),
        };
        let labels: Vec<&str> = self.of_all.iter().chain(labels).map(String::as_str).collect();
        let labels = labels.join(",");
        let line = format!("{name}{{{labels}}} {}\n", number(value));
        let family = self.by_name.entry(name).or_insert_with(|| Family {
            unit,
            help: help_text(help),
            lines: String::new(),
            series: BTreeSet::new(),
        });
        // Cases of a record may differ in what no label shows.
        if family.series.insert(labels) {
            family.lines.push_str(&line);
        }
    }

    pub fn add_with_ends(
        &mut self,
        stem: &str,
        (unit, factor): (&'static str, f64),
        help: &str,
        labels: &[String],
        (value, interval): (Option<f64>, Option<(f64, f64)>),
    ) {
        let (low, high) = interval.unzip();
        for (suffix, of, value) in [
            ("", "", value),
            ("_low", "Lower end of the interval: ", low),
            ("_high", "Upper end of the interval: ", high),
        ] {
            let (stem, help) = (format!("{stem}{suffix}"), format!("{of}{help}"));
            self.add(&stem, unit, &help, labels, value.map(|value| value * factor));
        }
    }

    /// The text, ending in `# EOF`.
    pub fn text(self) -> String {
        let mut text = String::new();
        for (name, family) in self.by_name {
            text.push_str(&format!("# TYPE {name} gauge\n"));
            if !family.unit.is_empty() {
                text.push_str(&format!("# UNIT {name} {}\n", family.unit));
            }
            text.push_str(&format!("# HELP {name} {}\n", family.help));
            text.push_str(&family.lines);
        }
        text.push_str("# EOF\n");
        text
    }
}

/// The unit's name by convention, and what turns a value into it.
pub fn unit(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Ns => ("seconds", 1e-9),
        Unit::NsPerOp => ("seconds_per_operation", 1e-9),
        Unit::NsPerB => ("seconds_per_byte", 1e-9),
        Unit::Cycle => ("cycles", 1.0),
        Unit::B => ("bytes", 1.0),
        Unit::BPerS => ("bytes_per_second", 1.0),
        Unit::OpPerS => ("operations_per_second", 1.0),
        Unit::FlopPerS => ("flops", 1.0),
        Unit::Hz => ("hertz", 1.0),
        Unit::Ratio | Unit::Percent => ("ratio", 1.0),
        Unit::Count => ("", 1.0),
    }
}

/// Digits as they are, with an exponent where many zeros would stand.
fn number(value: f64) -> String {
    let size = value.abs();
    match size == 0.0 || (1e-4..1e15).contains(&size) {
        true => format!("{value}"),
        false => format!("{value:e}"),
    }
}

/// Letters, digits and underscores only.
pub fn identifier(name: &str) -> String {
    name.chars()
        .map(|letter| match letter.is_ascii_alphanumeric() {
            true => letter,
            false => '_',
        })
        .collect()
}

/// `name="text"`, with nothing that steers a terminal.
pub fn label(name: &str, text: &str) -> String {
    let text = lines(text).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{text}\"")
}

/// A line of help that both formats read alike.
fn help_text(text: &str) -> String {
    line(text).replace('\\', "\\\\").replace('"', "'")
}
