//! Which answer counts where a file of `/proc` or `/sys` and a system call answer one question. LXCFS
//! mounts its own files over the kernel's in LXC and Proxmox containers; gVisor makes up all of them.
//!
//! | fact | file | system call | counts | because |
//! |---|---|---|---|---|
//! | usable CPUs | cpu/online, status | sched_getaffinity | the call | LXCFS numbers the CPUs that a container has from 0 (`cpu::topology`) |
//! | memory | meminfo: MemTotal | sysinfo | the file, else the call | LXCFS shows the limit of the container, which may stand in no group that is visible |
//! | memory to take | meminfo: MemAvailable; memory.max and memory.current of every group | sysinfo | the least | each of them is a limit |
//! | swap, dirty pages | meminfo | none | the file | nothing else has them |
//! | time since boot | uptime | sysinfo | the call | LXCFS shows the container's |
//! | load | loadavg | sysinfo | the call, but nothing where the file counts no task at all | LXCFS may show the container's; gVisor has zeros in both |
//! | busy and stolen time | stat | none | the file, but nothing of LXCFS, and no line of zeros | LXCFS renumbers the CPUs; gVisor counts nothing |
//! | pressure, throttling | pressure, cpu.stat of every group | none | the file | they are the group's own |
//! | faults, switches, CPU time | self/stat | getrusage | the call | it is of the thread too |
//! | limits of the process | self/limits | none | the file | both are the kernel's |
//! | file systems | self/mountinfo | statfs | the file for names, the call for sizes | a mount may be over another |

use super::{Kernel, Memory, Root, around};

/// Applies the calls' answers to what the files said.
pub(super) fn settle(root: &Root, memory: &mut Memory, kernel: &mut Kernel) {
    let Some(system) = root.system_info() else { return };
    memory.total_bytes = memory.total_bytes.or(Some(system.memory_bytes));
    let available = memory.available_bytes.map(|bytes| bytes.min(system.memory_bytes));
    memory.available_bytes = available;
    kernel.uptime_s = Some(system.uptime_s as f64);
    kernel.load = Some(system.load).filter(|_| counts_tasks(root));
}

/// Whether /proc/loadavg counts tasks, as every kernel does: there is at least its reader.
pub(super) fn counts_tasks(root: &Root) -> bool {
    !root.words("proc/loadavg").iter().any(|word| word == "0/0")
}

/// /proc/stat, where its lines are of the kernel's CPUs.
pub(super) fn stat(root: &Root) -> String {
    let is_renumbered = around::lxcfs_over(root).iter().any(|path| path == "/proc/stat");
    let text = root.read("proc/stat").filter(|_| !is_renumbered);
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::counters::Snapshot;
    use crate::{Host, Root};

    #[test]
    fn a_call_beats_a_file_where_it_knows_more() {
        let files = "== proc/meminfo\nMemTotal: 8388608 kB\nMemAvailable: 6291456 kB\n== proc/uptime\n7.0 1.0\n\
            == proc/loadavg\n0.00 0.00 0.00 1/9 3\n== proc/stat\ncpu0 1 0 2 3 4 5 6 7 0 0\n\
            cpu1 0 0 0 0 0 0 0 0 0 0\n";
        let known = |more: &str| {
            let root = Root::tree(&format!("{files}{more}"));
            let host = Host::read(&root);
            let steal = [0, 1].map(|cpu| Snapshot::read(&root, &[cpu]).steal_ns());
            let (memory, kernel) = (host.memory, host.kernel);
            let memory = (memory.total_bytes, memory.available_bytes);
            (memory, kernel.uptime_s, kernel.load.map(|load| load[0]), steal)
        };
        let memory = |available: u64| (Some(8 << 30), Some(available << 30));
        let steal = [Some(70_000_000), None];
        assert_eq!(known(""), (memory(6), Some(7.0), Some(0.0), steal));
        let call = "== facts.txt\nsysinfo=4294967296 99 2.5 1 1\n";
        assert_eq!(known(call), (memory(4), Some(99.0), Some(2.5), steal));
        let gvisor = format!("{call}== proc/loadavg\n0.00 0.00 0.00 0/0 0\n");
        assert_eq!(known(&gvisor), (memory(4), Some(99.0), None, steal));
        let lxcfs =
            "== proc/self/mountinfo\n9 1 0:9 /proc/stat /proc/stat rw - fuse.lxcfs lxcfs rw\n";
        assert_eq!(known(lxcfs).3, [None, None]);
    }
}
