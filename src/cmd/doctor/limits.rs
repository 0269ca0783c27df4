//! Limits of plumb's control groups.

use super::Said::{self, Disturbs, Fine, Inherent};
use super::Watched;
use host::Host;
use record::quantity::render_bytes;
use std::path::PathBuf;

/// Memory that runs take: the footprint of main memory in a thorough run, and as much for files and
/// pages.
const RUNS_TAKE: u64 = 2 << 30;

/// The control group's quota of CPU time, and how often it was used up while watched.
pub(super) fn quota(host: &Host, throttled: Option<u64>) -> Said {
    let Some(quota) = host.limits.cpu_quota else { return Fine("none".to_owned()) };
    let throttled = throttled.filter(|periods| *periods > 0);
    let throttled = throttled.map(|periods| format!(", throttled {periods} times while watched"));
    let throttled = throttled.unwrap_or_default();
    Disturbs(format!("{} µs per {} µs{throttled}", quota.quota_us, quota.period_us))
}

/// Limits of the own groups, with the disk's name where it is known.
pub(super) fn io(host: &Host) -> Said {
    let disk = |device: &str| {
        let mut disks = host.block.disks.iter();
        let named = disks.find(|disk| disk.number.as_deref() == Some(device));
        named.map_or(device.to_owned(), |disk| disk.name.clone())
    };
    let texts: Vec<String> = host
        .limits
        .io
        .iter()
        .map(|limit| {
            let bytes = |rate: u64| format!("{}/s", render_bytes(rate as f64));
            let requests = |rate: u64| format!("{rate} requests/s");
            let rates = [
                limit.read_bytes.map(|rate| format!("reads {}", bytes(rate))),
                limit.write_bytes.map(|rate| format!("writes {}", bytes(rate))),
                limit.reads.map(|rate| format!("reads {}", requests(rate))),
                limit.writes.map(|rate| format!("writes {}", requests(rate))),
            ];
            let rates: Vec<String> = rates.into_iter().flatten().collect();
            format!("{}: {} (/{})", disk(&limit.device), rates.join(", "), limit.group)
        })
        .collect();
    match texts.is_empty() {
        true => Fine("none".to_owned()),
        false => Disturbs(texts.join("; ")),
    }
}

/// What is below the current directory; of a recorded machine, below its root.
pub(super) fn files(host: &Host, watched: &Watched) -> Said {
    let here = std::env::current_dir().ok().filter(|_| !watched.time.is_zero());
    let dir = here.unwrap_or_else(|| PathBuf::from("/"));
    let Some(mount) = host.block.mount_of(&dir.to_string_lossy()) else { return Said::Unknown };
    let path = host.block.path_of(mount);
    path.map_or_else(Inherent, |path| Fine(format!("{} on {path}", mount.fs)))
}

/// The tightest limits over the hierarchy.
pub(super) fn memory(host: &Host) -> Said {
    let limits = &host.limits;
    let named = [
        ("", limits.memory_bytes),
        ("slowed down above ", limits.memory_high_bytes),
        ("swap ", limits.swap_bytes),
    ];
    let texts: Vec<String> = named
        .into_iter()
        .filter_map(|(name, bytes)| Some(format!("{name}{}", render_bytes(bytes? as f64))))
        .collect();
    // Runs do not count on swap.
    let memory = [limits.memory_bytes, limits.memory_high_bytes];
    match memory.into_iter().flatten().min() {
        Some(least) if least < RUNS_TAKE => Disturbs(texts.join(", ")),
        _ if texts.is_empty() => Fine("none known".to_owned()),
        _ => Fine(texts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{io, memory};
    use crate::cmd::doctor::Said;
    use host::{Host, Root};

    const GROUP: &str =
        "== proc/self/cgroup\n0::/a/b\n== proc/self/mountinfo\n1 2 0:1 / /cg rw - cgroup2 c rw\n";

    fn host(files: &str) -> Host {
        Host::read(&Root::tree(&format!("{GROUP}{files}")))
    }

    #[test]
    fn rates_of_disks_are_seen() {
        let limit = "== cg/a/io.max\n8:0 rbps=4096 wbps=max riops=max wiops=7\n\
                     == sys/block/sda/dev\n8:0\n== sys/block/sda/size\n8\n";
        let told = "sda: reads 4 KiB/s, writes 7 requests/s (/cg/a)";
        assert_eq!(io(&host(limit)), Said::Disturbs(told.into()));
        let none = "== cg/a/io.max\n8:0 rbps=max wbps=max riops=max wiops=max\n";
        assert_eq!(io(&host(none)), Said::Fine("none".into()));
    }

    #[test]
    fn all_groups_limits_of_memory_are_seen() {
        let told = |files: &str| memory(&host(files));
        assert_eq!(told("== cg/a/memory.max\n4096\n"), Said::Disturbs("4 KiB".into()));
        assert_eq!(
            told(
                "== cg/a/memory.max\n4294967296\n== cg/a/b/memory.high\n8192\n== cg/a/memory.swap.max\n0\n"
            ),
            Said::Disturbs("4 GiB, slowed down above 8 KiB, swap 0 B".into())
        );
        assert_eq!(told("== cg/a/b/memory.swap.max\n0\n"), Said::Fine("swap 0 B".into()));
        assert_eq!(told("== cg/a/b/memory.max\nmax\n"), Said::Fine("none known".into()));
    }
}
