//! Figures as OpenMetrics text: `plumb_<experiment>_<metric>_<unit>{case labels} value`, in the
//! base units that its convention asks for (seconds, bytes, hertz, ratio).

use crate::analysis::figure::Figure;
use crate::analysis::figures;
use record::event::Ending;
use record::run::Run;
use record::unit::Unit;
use std::collections::BTreeMap;

/// The text, ending in `# EOF`. Only measured figures; intervals are families of their own
/// (`…_low`, `…_high`), as the format knows none.
pub(crate) fn render(run: &Run) -> String {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for figure in figures(run)
        .iter()
        .filter(|figure| figure.outcome == Ending::Measured)
    {
        add(&mut families, figure, &run.header.identity);
    }
    let mut text = String::new();
    for (name, family) in &families {
        text.push_str(&format!("# TYPE {name} gauge\n"));
        if !family.unit.is_empty() {
            text.push_str(&format!("# UNIT {name} {}\n", family.unit));
        }
        text.push_str(&format!("# HELP {name} {}\n", escaped(&family.help)));
        text.push_str(&family.lines);
    }
    text.push_str("# EOF\n");
    text
}

struct Family {
    unit: &'static str,
    help: String,
    lines: String,
}

fn add(families: &mut BTreeMap<String, Family>, figure: &Figure, identity: &str) {
    let Some((metric, value)) = figure.metric.as_ref().zip(figure.value) else {
        return;
    };
    let (unit, factor) = unit(metric.unit);
    let mut labels = vec![format!("machine=\"{}\"", escaped(identity))];
    for (name, value) in &figure.case.0 {
        labels.push(format!(
            "{}=\"{}\"",
            identifier(name),
            escaped(&value.to_string())
        ));
    }
    let labels = labels.join(",");
    let (low, high) = figure.ci.unzip();
    for (suffix, value) in [("", Some(value)), ("_low", low), ("_high", high)] {
        let Some(value) = value else {
            continue;
        };
        let stem = identifier(&format!(
            "plumb_{}_{}{suffix}",
            figure.experiment, metric.name
        ));
        let name = if unit.is_empty() {
            stem
        } else {
            format!("{stem}_{unit}")
        };
        let family = families.entry(name.clone()).or_insert_with(|| Family {
            unit,
            help: match suffix {
                "_low" => format!("Lower end of the interval: {}", metric.doc),
                "_high" => format!("Upper end of the interval: {}", metric.doc),
                _ => metric.doc.to_string(),
            },
            lines: String::new(),
        });
        family
            .lines
            .push_str(&format!("{name}{{{labels}}} {}\n", value * factor));
    }
}

/// The unit's name by convention, and what turns a value into it.
fn unit(unit: Unit) -> (&'static str, f64) {
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
        Unit::Ratio => ("ratio", 1.0),
        Unit::Count => ("", 1.0),
    }
}

/// Letters, digits and underscores only.
fn identifier(name: &str) -> String {
    name.chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '_'
            }
        })
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
