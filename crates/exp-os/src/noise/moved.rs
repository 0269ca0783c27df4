//! Traces with named columns, and what the kernel counted around a window as such a trace.

use super::attribution::Evidence;
use bench::prelude::*;
use record::event::Trace;

/// The names of a column, whose rows have their numbers.
#[derive(Default)]
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn number(&mut self, name: &str) -> f64 {
        let at = self.0.iter().position(|known| known == name);
        let at = at.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        at as f64
    }
}

/// Writes a trace with some columns of names.
pub(super) fn named<'bench, const N: usize>(
    bench: &'bench mut Bench,
    case: &Case,
    kind: &str,
    columns: &[&str],
    rows: Vec<Vec<f64>>,
    names: [(&str, Names); N],
) -> Result<&'bench mut Trace> {
    let trace = bench.trace(case, kind, columns, rows)?;
    names.into_iter().for_each(|(column, names)| trace.names.put(column, names.0));
    Ok(trace)
}

/// Writes every line of interrupts and soft interrupts that moved, by CPU where there are several.
pub(super) fn write(
    bench: &mut Bench,
    case: &Case,
    evidence: &Evidence,
    by_cpu: bool,
) -> Result<()> {
    let (mut kinds, mut names) = (Names::default(), Names::default());
    let rows = evidence.moved().into_iter().map(|(cpu, kind, row)| {
        let cpu = by_cpu.then_some(cpu as f64);
        let row = [kinds.number(kind), names.number(&row.name), row.count as f64];
        cpu.into_iter().chain(row).collect()
    });
    let rows = rows.collect();
    let columns = &["cpu", "kind", "row", "count"][usize::from(!by_cpu)..];
    named(bench, case, "counters", columns, rows, [("kind", kinds), ("row", names)]).map(|_| ())
}
