//! A quiet CPU.

use super::counters::Snapshot;
use super::{CoreKind, Host, LogicalCpu};

/// The CPU on which to measure: of the online CPUs that this process may use, a performance core
/// before any other kind; an isolated or tickless one before others; then the one that has taken
/// the fewest interrupts (the timer's not counted: they follow the load, not the wiring). Without
/// counters the highest number wins, because device interrupts and housekeeping start at CPU 0.
/// `None` when no CPU is usable.
pub fn choose_cpu(host: &Host, interrupts: &Snapshot) -> Option<usize> {
    let usable = host.cpu.cpus.iter().filter(|cpu| cpu.online && cpu.allowed);
    let taken = |cpu: &LogicalCpu| {
        let counters = interrupts.cpus.get(&cpu.id);
        counters.and_then(|counters| counters.unsolicited()).unwrap_or(u64::MAX)
    };
    let best = usable.min_by_key(|cpu| {
        (kind_rank(cpu.kind), !is_quiet(host, cpu.id), taken(cpu), std::cmp::Reverse(cpu.id))
    });
    best.map(|cpu| cpu.id)
}

fn kind_rank(kind: CoreKind) -> u32 {
    match kind {
        CoreKind::Performance => 0,
        CoreKind::Uniform => 1,
        CoreKind::Middle => 2,
        CoreKind::Efficiency => 3,
    }
}

fn is_quiet(host: &Host, cpu: usize) -> bool {
    host.kernel.isolated.contains(&cpu) || host.kernel.nohz_full.contains(&cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    const TREE: &str = "== sys/devices/system/cpu/online\n0-3\n== facts.txt\nallowed=0-2\n\
        == proc/interrupts\n CPU0 CPU1 CPU2 CPU3\n 1: 9 2 5 0 x\nLOC: 1 99 1 1 x\nRES: 0 1 0 0 x\n";

    fn chosen(tree: &str) -> Option<usize> {
        let root = Root::tree(tree);
        choose_cpu(&Host::read(&root), &Snapshot::read(&root, &[0, 1, 2, 3]))
    }

    #[test]
    fn the_allowed_cpu_with_the_fewest_interrupts() {
        assert_eq!(chosen(TREE), Some(1));
    }

    #[test]
    fn isolation_and_kind_come_first() {
        let isolated = format!("{TREE}== sys/devices/system/cpu/isolated\n2-3\n");
        assert_eq!(chosen(&isolated), Some(2));
        let hybrid = format!(
            "{isolated}== sys/devices/cpu_core/cpus\n0\n== sys/devices/cpu_atom/cpus\n1-3\n"
        );
        assert_eq!(chosen(&hybrid), Some(0));
    }

    #[test]
    fn without_counters_not_cpu_zero() {
        assert_eq!(chosen("== sys/devices/system/cpu/online\n0-3\n"), Some(3));
        assert_eq!(chosen(""), None);
    }
}
