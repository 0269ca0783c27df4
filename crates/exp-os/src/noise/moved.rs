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
    let mut row = |one: super::attribution::Moved<'_>| {
        let mut row = if by_cpu { vec![one.cpu as f64] } else { Vec::new() };
        row.extend([kinds.number(one.kind), names.number(one.row), one.count as f64]);
        row
    };
    let rows = evidence.moved().into_iter().map(&mut row).collect();
    let columns = ["cpu", "kind", "row", "count"];
    let trace = bench.trace(case, "counters", &columns[usize::from(!by_cpu)..], rows)?;
    trace.names.put("kind", kinds.0);
    trace.names.put("row", names.0);
    Ok(())
}
