//! Published cycles of core designs: `instruction/x86_64.txt` and `instruction/aarch64.txt`, a
//! column per design and a row per figure, each figure with the key of its source in
//! docs/REFERENCES.md. What no source was found for is unknown: then the range that the known
//! designs span.

use crate::{designs, range};
use host::{Arch, Core};
use record::event::Range;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What of an instruction is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// From its operands to its result.
    Latency,
    /// From one to the next that does not need its result.
    Throughput,
}

/// Cycles, and what they rest on.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// As the source measured them.
    pub cycles: Range,
    /// Words that name it.
    pub source: String,
    /// Whether it is the design's own figure.
    pub is_own: bool,
}

/// A figure of a table: its ends, and the letters of its sources.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure(f64, f64, &'static str);

/// A table: the keys of its sources by letter, the designs, and their figures by row in that order.
struct Table {
    keys: BTreeMap<char, &'static str>,
    designs: Vec<&'static str>,
    rows: BTreeMap<&'static str, Vec<[Option<Figure>; 2]>>,
}

static X86_64: LazyLock<Table> =
    LazyLock::new(|| Table::read(include_str!("instruction/x86_64.txt")));
static AARCH64: LazyLock<Table> =
    LazyLock::new(|| Table::read(include_str!("instruction/aarch64.txt")));

/// Below so many known designs their span says little of another.
const FEW: usize = 4;

impl Table {
    fn read(text: &'static str) -> Table {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut lines = lines.map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>());
        let mut next = || lines.next().unwrap_or_default();
        let (keys, designs, by) = (next(), next(), next());
        let key = |pair: &&'static str| {
            let (letter, key) = pair.split_once('=')?;
            Some((letter.chars().next()?, key))
        };
        let names = text.lines().filter(|line| !line.starts_with('#')).skip(3);
        let names = names.filter_map(|line| line.split_whitespace().next());
        let row = |cells: Vec<&'static str>| {
            let cells = cells.into_iter().zip(&by);
            cells.map(|(cell, by)| halves(cell).map(|half| figure(half, by))).collect()
        };
        let rows = names.zip(lines.map(row)).collect();
        Table { keys: keys.iter().filter_map(key).collect(), designs, rows }
    }

    fn for_arch(arch: Arch) -> &'static Table {
        match arch {
            Arch::X86_64 => &X86_64,
            Arch::Aarch64 => &AARCH64,
        }
    }

    fn figure(&self, name: &str, design: &str, measure: Measure) -> Option<Figure> {
        let column = self.designs.iter().position(|one| *one == design)?;
        self.rows.get(name)?.get(column)?[measure as usize]
    }

    fn all(&self, name: &str, measure: Measure) -> Vec<Figure> {
        let row = self.rows.get(name).map_or(&[][..], Vec::as_slice);
        row.iter().filter_map(|cell| cell[measure as usize]).collect()
    }

    fn cited(&self, letters: &str) -> String {
        letters.chars().filter_map(|one| Some(format!("[{}]", self.keys.get(&one)?))).collect()
    }
}

fn halves(cell: &'static str) -> [&'static str; 2] {
    cell.split_once('/').map_or([cell, "-"], |(latency, throughput)| [latency, throughput])
}

/// Reads `1.5`, `1-2` or `1-2ab`; what is no number is no figure.
fn figure(text: &'static str, by: &'static str) -> Option<Figure> {
    let digits = text.trim_end_matches(|one: char| one.is_ascii_lowercase());
    let letters = if digits.len() < text.len() { &text[digits.len()..] } else { by };
    let (low, high) = digits.split_once('-').unwrap_or((digits, digits));
    Some(Figure(low.parse().ok()?, high.parse().ok()?, letters))
}

/// The column of a design: its own, or that of one with the same execution units.
fn design(core: Core) -> String {
    match designs::row("instruction.columns", core, "any") {
        (row, true) => row.note.clone(),
        _ => format!("{core:?}"),
    }
}

/// What is published of a row for a design, else the range of the known designs: of its
/// architecture, or of both where those are few. `None`: no source was found for any design.
pub(super) fn published(arch: Arch, core: Core, name: &str, measure: Measure) -> Option<Published> {
    let table = Table::for_arch(arch);
    let design = design(core);
    let own = table.figure(name, &design, measure).map(|Figure(low, high, letters)| {
        let cited = table.cited(letters);
        let source = format!("published for {design} {cited}, applied to {}", core.name());
        Published { cycles: between(low, high), source, is_own: true }
    });
    own.or_else(|| {
        let other = if arch == Arch::X86_64 { Arch::Aarch64 } else { Arch::X86_64 };
        let mut known = table.all(name, measure);
        if known.len() < FEW {
            known.extend(Table::for_arch(other).all(name, measure));
        }
        if known.is_empty() {
            return None;
        }
        let low = known.iter().map(|figure| figure.0).fold(f64::INFINITY, f64::min);
        let high = known.iter().map(|figure| figure.1).fold(0.0, f64::max);
        let few = if known.len() < FEW { 2.0 } else { 1.0 };
        let more = if few > 1.0 { ", from half to twice" } else { "" };
        let source = format!(
            "unknown for {}, no source was found: the range of {} known designs{more}",
            core.name(),
            known.len(),
        );
        Some(Published { cycles: between(low / few, high * few), source, is_own: false })
    })
}

/// A design's own figure, of whichever architecture it is.
pub(super) fn design_range(core: Core, name: &str, measure: Measure) -> Option<Range> {
    let design = design(core);
    let found =
        [&X86_64, &AARCH64].into_iter().find_map(|table| table.figure(name, &design, measure));
    found.map(|Figure(low, high, _)| between(low, high))
}

/// A design's own latency where it is one whole number of cycles.
pub(super) fn whole_latency(core: Core, name: &str) -> Option<u64> {
    let Range { low, high, .. } = design_range(core, name, Measure::Latency)?;
    (low == high && low >= 1.0 && low.fract() == 0.0).then_some(low as u64)
}

fn between(low: f64, high: f64) -> Range {
    range(low, (low * high).sqrt(), high)
}

#[cfg(test)]
mod tests {
    use super::Measure::{Latency, Throughput};
    use super::{AARCH64, Figure, X86_64, design, designs, published, whole_latency};
    use host::{Arch, Core};

    #[test]
    fn every_cell_of_the_tables_is_a_figure_with_a_source_or_none() {
        let references = include_str!("../../../../docs/REFERENCES.md");
        for (table, columns) in [(&X86_64, 17), (&AARCH64, 10)] {
            assert_eq!(table.designs.len(), columns);
            assert!(table.rows.len() > 40);
            for key in table.keys.values() {
                assert!(references.contains(&format!("\n- [{key}] ")), "{key}");
            }
            for (name, row) in &table.rows {
                assert_eq!(row.len(), columns, "{name}");
                assert!(row.iter().flatten().any(Option::is_some), "{name}");
                for cell in row {
                    for Figure(low, high, letters) in cell.iter().flatten() {
                        assert!(0.0 < *low && low <= high && *high < 1000.0, "{name}: {cell:?}");
                        let known = |one| table.keys.contains_key(&one);
                        assert!(!letters.is_empty() && letters.chars().all(known), "{name}");
                    }
                    // A chain is no faster than independent operations.
                    if let [Some(latency), Some(throughput)] = cell {
                        assert!(latency.1 >= 0.9 * throughput.0, "{name}: {cell:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_column_is_one_of_a_design() {
        let known: Vec<String> = Core::ALL.iter().map(|core| design(*core)).collect();
        for column in X86_64.designs.iter().chain(&AARCH64.designs) {
            assert!(known.iter().any(|one| one == column), "{column}");
        }
        for row in designs::table("instruction.columns").iter().filter(|row| !row.note.is_empty()) {
            let columns = X86_64.designs.iter().chain(&AARCH64.designs);
            assert_eq!(columns.filter(|one| **one == row.note).count(), 1, "{}", row.note);
        }
    }

    #[test]
    fn what_no_source_says_is_the_range_of_the_known_designs() {
        let own = published(Arch::X86_64, Core::Zen3, "mul_i64", Latency).expect("it is there");
        assert!(own.is_own && own.cycles.low == 3.0 && own.cycles.high == 3.0);
        let any = published(Arch::X86_64, Core::Unknown, "mul_i64", Latency).expect("a range");
        assert!(!any.is_own && any.cycles.low == 3.0 && any.cycles.high == 5.0, "{any:?}");
        // Five designs say what a turn of a loop takes on x86-64.
        let any = published(Arch::X86_64, Core::Haswell, "loop_turn", Throughput).expect("a range");
        assert_eq!((any.cycles.low, any.cycles.high), (0.5, 1.0));
        // One design says what an ordered read takes: half to twice of that.
        let one = published(Arch::X86_64, Core::Zen4, "counter_ordered", Throughput);
        assert!(one.is_some_and(|one| one.cycles.low < 35.0 && one.cycles.high > 139.0));
        // Only x86-64's say what a counter in memory takes.
        let other = published(Arch::Aarch64, Core::NeoverseV2, "loop_memory", Latency);
        assert!(other.is_some_and(|other| other.cycles.low == 1.0 && !other.is_own));
        assert_eq!(published(Arch::X86_64, Core::Zen3, "no_such_row", Latency), None);
    }

    #[test]
    fn latencies_in_whole_cycles_are_told_for_designs_that_the_table_has() {
        let told = |core, name| whole_latency(core, name);
        assert_eq!(told(Core::SkylakeServer, "fma_f64x8"), Some(4));
        assert_eq!(told(Core::Haswell, "fma_f64x4"), Some(5));
        assert_eq!(told(Core::SkylakeServer, "add_i32x16"), Some(1));
        // Not whole, two figures, no such instruction, no such design.
        assert_eq!(told(Core::Gracemont, "add_i32x8"), None);
        assert_eq!(told(Core::Zen5, "add_i32x8"), None);
        assert_eq!(told(Core::Haswell, "fma_f64x8"), None);
        assert_eq!(told(Core::Unknown, "fma_f64x4"), None);
    }
}
