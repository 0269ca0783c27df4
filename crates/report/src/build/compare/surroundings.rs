//! What differs around two runs, in a reader's words and units.

use crate::document::{Cell, Row, Table, Tone};
use analysis::compare::conditions::{Class, Condition};
use record::quantity::render;
use record::unit::Unit;

/// Endings of a recorded name, the unit of what stands there, and how many of it one unit has.
const UNITS: [(&str, Unit, f64); 5] = [
    ("_bytes", Unit::B, 1.0),
    ("_hz", Unit::Hz, 1.0),
    ("_ns", Unit::Ns, 1.0),
    ("_us", Unit::Ns, 1e3),
    ("_percent", Unit::Percent, 0.01),
];

/// Recorded names without their unit, and words for them; `N` is a number of the name.
const WORDS: [(&str, &str); 16] = [
    ("load_1m", "load"),
    ("cpu_pressure_avg10", "CPU pressure of the last 10 s"),
    ("memory_available", "available memory"),
    ("swap_used", "swap in use"),
    ("swap_total", "swap"),
    ("thp", "transparent huge pages"),
    ("thp_defrag", "defragmentation for huge pages"),
    ("ksm", "same-page merging"),
    ("smt", "SMT"),
    ("euid", "user id"),
    ("cgroup", "control group"),
    ("cgroup_memory_limit", "memory limit of the control group"),
    ("cgroup_memory_high", "memory.high of the control group"),
    ("cgroup_cpu_quota", "CPU quota of the control group"),
    ("numa.nodes.N.total", "memory of node N"),
    ("nodeN_free", "free memory of node N"),
];

/// Differences that are shown where room is short.
const SHOWN: usize = 6;

/// What differs around the run A and the one of this letter, a row each.
pub(super) fn table(conditions: &[Condition], letter: char) -> Table {
    let differing = conditions.iter().filter_map(|one| Some((one.class, in_words(one)?)));
    let row = |(at, (class, [what, base, new])): (usize, (Class, [String; 3]))| Row {
        cells: vec![
            Cell::plain(what),
            Cell::toned(class.text(), Tone::Muted),
            Cell::plain(base),
            Cell::plain(new),
        ],
        is_spare: at >= SHOWN,
    };
    let mut rows: Vec<Row> = differing.enumerate().map(row).collect();
    if rows.is_empty() {
        let nothing = std::iter::once(Cell::plain("nothing that the records have"));
        rows.push(Row::always_shown(nothing.chain([(); 3].map(|()| Cell::absent())).collect()));
    }
    Table::new("", &["AROUND", "class", "A", &letter.to_string()], rows).hiding(&["class"])
}

/// `memory of node 0`, `5.59 GiB`, `5.84 GiB`; `None` where a reader would see no difference.
fn in_words(condition: &Condition) -> Option<[String; 3]> {
    let unit = UNITS.iter().find_map(|(ending, unit, factor)| {
        Some((condition.name.strip_suffix(ending)?, *unit, *factor))
    });
    let name = unit.map_or(condition.name.as_str(), |(name, ..)| name);
    let value = |text: &str| match (unit, text.parse::<f64>()) {
        (Some((_, unit, factor)), Ok(value)) => render(value * factor, unit),
        _ => text.to_owned(),
    };
    let (base, new) = (value(&condition.base), value(&condition.new));
    (base != new).then(|| [words(name), base, new])
}

fn words(name: &str) -> String {
    let number: String = name.chars().filter(char::is_ascii_digit).collect();
    let found = WORDS.iter().find(|(recorded, _)| match recorded.contains('N') {
        true => recorded.replace('N', &number) == name,
        false => *recorded == name,
    });
    match found {
        Some((_, words)) => words.replace('N', &number),
        None => name.replace(['_', '.'], " "),
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;
    use analysis::compare::conditions::{Class, Condition};

    #[test]
    fn names_are_words_and_numbers_have_units() {
        for (name, base, new, expected) in [
            (
                "numa.nodes.0.total_bytes",
                "5999722496",
                "6268157952",
                Some(["memory of node 0", "5.59 GiB", "5.84 GiB"]),
            ),
            ("numa.nodes.0.total_bytes", "25276063744", "25276064000", None),
            ("load_1m", "0.12", "9.50", Some(["load", "0.12", "9.50"])),
            (
                "cpu_pressure_avg10_percent",
                "0",
                "12.7",
                Some(["CPU pressure of the last 10 s", "0 %", "12.7 %"]),
            ),
            (
                "node1_free_bytes",
                "not recorded",
                "1 GiB",
                Some(["free memory of node 1", "not recorded", "1 GiB"]),
            ),
            (
                "scheduler.base_slice_ns",
                "3000000",
                "4000000",
                Some(["scheduler base slice", "3 ms", "4 ms"]),
            ),
            (
                "rounds disturbed",
                "8.51 %",
                "15.1 %",
                Some(["rounds disturbed", "8.51 %", "15.1 %"]),
            ),
        ] {
            let condition = Condition {
                class: Class::State,
                name: name.to_owned(),
                base: base.to_owned(),
                new: new.to_owned(),
            };
            assert_eq!(in_words(&condition), expected.map(|all| all.map(str::to_owned)), "{name}");
        }
    }
}
