//! Limits of plumb's control groups, and of interfaces.

use super::Said::{self, Disturbs, Fine, Inherent};
use super::Watched;
use host::Host;
use host::net::Interface;
use host::net::shaping::Place;
use record::quantity::render_bytes;
use std::net::IpAddr;
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

/// Shapers of the ways to these addresses, or of all interfaces that are up.
pub(super) fn shaping(host: &Host, peers: &[IpAddr]) -> Said {
    let is_asked = |interface: &&Interface| match peers.is_empty() {
        true => interface.operstate.as_deref() != Some("down"),
        false => peers.iter().any(|peer| {
            let way = host.net.way_to(*peer);
            way.is_some_and(|(on_way, _)| on_way.name == interface.name)
        }),
    };
    let (mut shaped, mut filtered) = (Vec::new(), Vec::new());
    for interface in host.net.interfaces.iter().filter(is_asked) {
        for shaper in &interface.shaping {
            let name = &interface.name;
            match shaper.place {
                Place::Root => shaped.push(format!("{name}: {}", shaper.name())),
                Place::Below => shaped.push(format!("{name}: {}, some traffic", shaper.name())),
                Place::Filter => filtered
                    .push(format!("{name}: filters ({}), which may limit or drop", shaper.kind)),
            }
        }
    }
    let is_shaped = !shaped.is_empty();
    shaped.append(&mut filtered);
    match (is_shaped, shaped.is_empty()) {
        (true, _) => Disturbs(shaped.join("; ")),
        (false, false) => Inherent(shaped.join("; ")),
        (false, true) => Fine("none".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{io, memory, shaping};
    use crate::cmd::doctor::Said;
    use host::net::shaping::{Place, Shaper};
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

    #[test]
    fn interfaces_that_are_shaped_are_seen_where_they_are_asked_for() {
        let shaper = |kind: &str, place| Shaper {
            kind: kind.into(),
            place,
            bits_per_second: (kind == "tbf").then_some(1_000_000_000),
            peak_bits_per_second: None,
            burst_bytes: None,
            classes: Vec::new(),
        };
        let mut host = host(
            "== ethtool.txt\neth0 driver=veth\neth1 driver=veth\n== proc/net/route\n\
             eth0\t000000C0\t00000000\t0001\t0\t0\t100\t000000FF\t0\t0\t0\n\
             eth1\t0005A8C1\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n",
        );
        assert_eq!(shaping(&host, &[]), Said::Fine("none".into()));
        host.net.interfaces[0].shaping = vec![shaper("tbf", Place::Root)];
        host.net.interfaces[1].shaping = vec![shaper("clsact", Place::Filter)];
        let (first, second) =
            ("eth0: tbf 1000 Mbit/s", "eth1: filters (clsact), which may limit or drop");
        assert_eq!(shaping(&host, &[]), Said::Disturbs(format!("{first}; {second}")));
        let to = |address: &str| shaping(&host, &[address.parse().expect("an address")]);
        assert_eq!(to("192.1.2.3"), Said::Disturbs(first.into()));
        assert_eq!(to("193.168.5.7"), Said::Inherent(second.into()));
        assert_eq!(to("127.0.0.1"), Said::Fine("none".into()));
        host.net.interfaces[0].operstate = Some("down".into());
        assert_eq!(shaping(&host, &[]), Said::Inherent(second.into()));
    }
}
