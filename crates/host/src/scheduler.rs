//! The kernel's settings for sharing a CPU among ordinary threads.

use serde::{Deserialize, Serialize};

use super::{Outside, Root, text};

/// First kernel with EEVDF in place of CFS for ordinary threads.
const EEVDF_SINCE: (u64, u64) = (6, 6);
/// First kernel with CFS.
const CFS_SINCE: (u64, u64, u64) = (2, 6, 23);

/// The scheduler of ordinary threads, by the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Earliest eligible virtual deadline first, since 6.6.
    Eevdf,
    /// Completely fair scheduler, 2.6.23 to 6.5.
    Cfs,
    Older,
}

impl Kind {
    /// By a release as `6.1.0-18-amd64`.
    pub fn from_release(release: &str) -> Option<Kind> {
        let (major, minor, patch) = numbers(release)?;
        Some(if (major, minor) >= EEVDF_SINCE {
            Kind::Eevdf
        } else if (major, minor, patch) >= CFS_SINCE {
            Kind::Cfs
        } else {
            Kind::Older
        })
    }
}

/// The first three numbers of a release; the third may be missing and is then 0.
pub fn numbers(release: &str) -> Option<(u64, u64, u64)> {
    let parts = release.split(|letter: char| !letter.is_ascii_digit());
    let mut parts = parts.map(|part| part.parse().unwrap_or(0));
    let (major, minor) = (parts.next().filter(|major| *major > 0)?, parts.next()?);
    Some((major, minor, parts.next().unwrap_or(0)))
}

/// Tunables of the scheduler, as far as they can be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduler {
    /// EEVDF: `base_slice_ns` of debugfs (root only).
    pub base_slice_ns: Option<u64>,
    /// `se.slice` of this process, which its children take over.
    pub own_slice_ns: Option<u64>,
    /// Slice of this process from sched_rr_get_interval(2): whole ticks, rounded down, and less
    /// where others wanted its CPU.
    pub told_slice_ns: Option<u64>,
    /// CFS: the period in which each thread runs once (a sysctl until 5.12, debugfs until 6.5).
    pub latency_ns: Option<u64>,
    /// CFS: the shortest slice.
    pub min_granularity_ns: Option<u64>,
    /// `sched/features` of debugfs (root only); those that are off begin with `NO_`.
    pub features: Vec<String>,
    /// A scheduler loaded through sched_ext that has taken over: its name, or `enabled`.
    pub extension: Option<String>,
}

impl Scheduler {
    /// Whether a feature is on; `None` if the kernel does not report it.
    pub fn feature(&self, name: &str) -> Option<bool> {
        let off = format!("NO_{name}");
        let mut of = self.features.iter();
        of.find(|feature| *feature == name || **feature == off).map(|feature| feature == name)
    }
}

pub(super) fn read(root: &Root, outside: &Outside) -> Scheduler {
    let debug = |name: &str| root.number(&format!("sys/kernel/debug/sched/{name}"));
    let sysctl = |name: &str| root.number(&format!("proc/sys/kernel/sched_{name}"));
    Scheduler {
        base_slice_ns: debug("base_slice_ns"),
        own_slice_ns: own_slice_ns(root),
        told_slice_ns: outside.told_slice_ns.filter(|ns| *ns > 0),
        latency_ns: sysctl("latency_ns").or_else(|| debug("latency_ns")),
        min_granularity_ns: sysctl("min_granularity_ns").or_else(|| debug("min_granularity_ns")),
        features: root.words("sys/kernel/debug/sched/features"),
        extension: extension(root),
    }
}

/// `se.slice   :   1400000`, in ns.
fn own_slice_ns(root: &Root) -> Option<u64> {
    let text = root.read("proc/thread-self/sched").or_else(|| root.read("proc/self/sched"))?;
    let value = text::beside(&text, "se.slice")?.parse().ok();
    value.filter(|ns| *ns > 0)
}

fn extension(root: &Root) -> Option<String> {
    let state = root.line("sys/kernel/sched_ext/state")?;
    // A scheduler may leave ordinary threads to the kernel's own (SCX_OPS_SWITCH_PARTIAL).
    let has_all = root.number("sys/kernel/sched_ext/switch_all") != Some(0);
    (state == "enabled" && has_all).then(|| {
        root.line("sys/kernel/sched_ext/root/ops").filter(|name| !name.is_empty()).unwrap_or(state)
    })
}

#[cfg(test)]
mod tests {
    use super::{Kind, Scheduler};
    use crate::{Outside, Root};
    use std::path::Path;

    fn read(root: &Root) -> Scheduler {
        super::read(root, &Outside::default())
    }

    #[test]
    fn schedulers_have_their_releases() {
        for (release, kind) in [
            ("6.18.44-fc", Some(Kind::Eevdf)),
            ("6.6.0", Some(Kind::Eevdf)),
            ("6.5.13-1", Some(Kind::Cfs)),
            ("3.13.0-77-generic", Some(Kind::Cfs)),
            ("2.6.32-5-amd64", Some(Kind::Cfs)),
            ("2.6.22", Some(Kind::Older)),
            ("2.6.18-8.el5", Some(Kind::Older)),
            ("2.4.37", Some(Kind::Older)),
            ("linux", None),
            ("", None),
        ] {
            assert_eq!(Kind::from_release(release), kind, "{release}");
        }
    }

    #[test]
    fn tunables_are_read_from_wherever_a_kernel_has_them() {
        let old = Root::tree(
            "== proc/sys/kernel/sched_latency_ns\n18000000\n\
             == proc/sys/kernel/sched_min_granularity_ns\n2250000\n",
        );
        let found = read(&old);
        assert_eq!(found.latency_ns, Some(18_000_000));
        assert_eq!(found.min_granularity_ns, Some(2_250_000));
        assert_eq!((found.base_slice_ns, found.own_slice_ns), (None, None));
        let between = Root::tree("== sys/kernel/debug/sched/latency_ns\n24000000\n");
        assert_eq!(read(&between).latency_ns, Some(24_000_000));
        let new = Root::tree(
            "== sys/kernel/debug/sched/base_slice_ns\n2800000\n\
             == sys/kernel/debug/sched/features\nPLACE_LAG RUN_TO_PARITY NO_HRTICK\n\
             == sys/kernel/sched_ext/state\nenabled\n== sys/kernel/sched_ext/root/ops\nscx_lavd\n",
        );
        let found = read(&new);
        assert_eq!(found.base_slice_ns, Some(2_800_000));
        assert_eq!(found.feature("RUN_TO_PARITY"), Some(true));
        assert_eq!(found.feature("HRTICK"), Some(false));
        assert_eq!(found.feature("DELAY_DEQUEUE"), None);
        assert_eq!(found.extension.as_deref(), Some("scx_lavd"));
        let partial = Root::tree(
            "== sys/kernel/sched_ext/state\nenabled\n== sys/kernel/sched_ext/switch_all\n0\n",
        );
        assert_eq!(read(&partial).extension, None);
        let off = Root::tree("== sys/kernel/sched_ext/state\ndisabled\n");
        assert_eq!(read(&off), Scheduler::default());
    }

    #[test]
    fn a_process_tells_its_slice_where_the_kernel_does() {
        let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hosts");
        for (name, slice) in [
            ("vm-granite-rapids", Some(1_400_000)),
            ("alder-lake-hybrid", None),
            ("graviton3", None),
        ] {
            let root = Root::recorded(&hosts.join(name)).expect("recorded");
            assert_eq!(read(&root).own_slice_ns, slice, "{name}");
        }
        let told = |ns| {
            let outside = Outside { told_slice_ns: Some(ns), ..Outside::default() };
            super::read(&Root::tree(""), &outside).told_slice_ns
        };
        // Less than a tick means nothing.
        assert_eq!((told(12_000_000), told(0)), (Some(12_000_000), None));
        let zero = Root::tree("== proc/self/sched\nse.slice : 0\n");
        assert_eq!(read(&zero).own_slice_ns, None);
    }
}
