//! Which programs use the machine's CPUs, by the kernel's count of each process's CPU time.

use super::root::Root;
use record::order::{Gather, InOrder};
use std::collections::BTreeMap;
use std::time::Duration;

/// Ticks of a process's CPU time a second: USER_HZ.
const TICKS: f64 = 100.0;
const NAMED: usize = 3;
/// Share of one CPU below which a program is not named.
const LEAST: f64 = 0.05;

/// CPU time of each process with that of its children that ended, in ticks, and its program.
#[derive(Clone, Debug, Default)]
pub struct CpuTimes(BTreeMap<usize, (String, u64)>);

impl CpuTimes {
    /// Those of now. Reads a file for each process.
    pub fn read(root: &Root) -> CpuTimes {
        let processes = root.numbered("proc", "").into_iter();
        let of_process = |id| Some((id, fields(&root.read(&format!("proc/{id}/stat"))?)?));
        CpuTimes(processes.filter_map(of_process).gather())
    }

    /// The programs that used most CPU time since, the busiest first; those of this name are left
    /// out.
    pub fn busiest_since(
        &self,
        earlier: &CpuTimes,
        elapsed: Duration,
        left_out: &str,
    ) -> Vec<String> {
        let mut ticks: BTreeMap<&str, u64> = BTreeMap::new();
        for (id, (name, now)) in self.0.iter().filter(|(_, (name, _))| name != left_out) {
            let then = earlier.0.get(id).filter(|(before, _)| before == name);
            *ticks.entry(name).or_default() += now.saturating_sub(then.map_or(0, |then| then.1));
        }
        let least = LEAST * TICKS * elapsed.as_secs_f64();
        let mut busy: Vec<(&str, u64)> =
            ticks.into_iter().filter(|(_, ticks)| *ticks as f64 > least).collect();
        busy.order_by_key(|(_, ticks)| std::cmp::Reverse(*ticks));
        busy.into_iter().take(NAMED).map(|(name, _)| name.to_owned()).collect()
    }
}

/// Program and ticks of `/proc/PID/stat`, whose second field is the name in parentheses
/// (Documentation/filesystems/proc.rst).
fn fields(stat: &str) -> Option<(String, u64)> {
    let (begin, rest) = stat.rsplit_once(')')?;
    let name = begin.split_once('(')?.1;
    // utime, stime, cutime and cstime are fields 14 to 17; the rest begins with the third.
    let times = rest.split_whitespace().skip(11).take(4);
    let ticks = times.map(|ticks| ticks.parse::<u64>().unwrap_or(0)).sum();
    Some((name.to_owned(), ticks))
}

#[cfg(test)]
mod tests {
    use super::{CpuTimes, Root};
    use std::time::Duration;

    #[test]
    fn the_busiest_programs_are_named_and_plumb_is_not() {
        let stat = |id: usize, name: &str, ticks: [u64; 4]| {
            let [user, system, children, of_system] = ticks;
            format!(
                "== proc/{id}/stat\n{id} ({name}) R 1 1 1 0 -1 4 0 0 0 0 {user} {system} {children} \
                 {of_system} 20 0 1 0 5 0\n"
            )
        };
        let of = |parts: &[String]| CpuTimes::read(&Root::tree(&parts.concat()));
        let then = of(&[
            stat(1, "init", [900, 0, 0, 0]),
            stat(7, "cargo", [10, 0, 100, 0]),
            stat(8, "plumb", [0, 0, 0, 0]),
        ]);
        let now = of(&[
            stat(1, "init", [910, 0, 0, 0]),
            stat(7, "cargo", [20, 0, 400, 50]),
            stat(8, "plumb", [5000, 0, 0, 0]),
            stat(9, "web (one) server", [200, 100, 0, 0]),
            stat(10, "web (one) server", [200, 0, 0, 0]),
        ]);
        let found = now.busiest_since(&then, Duration::from_secs(10), "plumb");
        assert_eq!(found, ["web (one) server", "cargo"]);
    }
}
