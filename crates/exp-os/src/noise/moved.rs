//! What the kernel counted around a window, as a trace.

use super::attribution::Evidence;
use bench::prelude::*;

#[derive(Default)]
pub(super) struct Names(pub(super) Vec<String>);

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
    let columns = ["cpu", "kind", "row", "count"];
    let trace = bench.trace(case, "counters", &columns[usize::from(!by_cpu)..], rows)?;
    trace.names.put("kind", kinds.0);
    trace.names.put("row", names.0);
    Ok(())
}
