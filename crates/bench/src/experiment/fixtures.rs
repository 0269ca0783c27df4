//! Sites for tests.

pub mod joined;

use super::{AnyExperiment, DirFacts, Known, Site};
use crate::fitted::Fitted;
use crate::link::{CalibrateOrder, RoundOrder};
use crate::measure::calibrate;
use host::{Core, Host, Root};
use record::case::{Case, Series};
use record::event::{Calibration, Prediction};
use record::key::{CaseId, Key, Value};
use std::path::Path;

/// A site about which nothing is known: every law must answer all the same.
pub fn bare_site() -> Site {
    Site {
        host: Host::read(&Root::tree("")),
        peer: None,
        peers: Vec::new(),
        dir: None,
        cpus: vec![0],
        memory_bytes: 1 << 30,
        case_ns: 20_000_000,
        fitted: Fitted::committed(),
    }
}

/// The hosts of tests/hosts that are complete, and whose plans are frozen.
pub const RECORDED: [&str; 4] =
    ["vm-granite-rapids", "epyc-7763-2s", "alder-lake-hybrid", "graviton3"];

/// A machine without any facts, one of the reports, and the recorded ones (a virtual machine, two
/// sockets, hybrid cores, Arm).
pub fn sites() -> Vec<Site> {
    let mut old = bare_site();
    old.host.kernel.virtualisation.is_guest = Some(false);
    old.host.cpu.model_name = Some("Intel(R) Core(TM) i7-3770K CPU @ 3.50GHz".to_owned());
    old.host.cpu.microarchitecture.core = Core::IvyBridge;
    old.host.kernel.release = Some("3.2.0-54-generic".to_owned());
    let mut sites = vec![bare_site(), old];
    sites.extend(RECORDED.map(recorded));
    sites
}

pub fn recorded(name: &str) -> Site {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hosts");
    let root = Root::recorded(&hosts.join(name)).expect("the recorded host is in the repository");
    let host = Host::read(&root);
    Site { cpus: host.cpu.usable(), host, ..bare_site() }
}

/// A case as it is written (`op=read,block=4096`).
pub fn case(text: &str) -> CaseId {
    let parts = text.split(',').filter_map(|part| part.split_once('='));
    parts.fold(CaseId::new(), |id, (name, value)| match value.parse::<u64>() {
        Ok(number) => id.with(name, number),
        Err(_) => id.with(name, Value::from(value)),
    })
}

/// The values of `--set`, separated by spaces (`op=read mode=cold,cached`).
pub fn set(text: &str) -> Vec<(&str, &str)> {
    text.split_whitespace().filter_map(|one| one.split_once('=')).collect()
}

/// Figures of earlier experiments: experiment, case (as for [`case`]), metric, value.
pub fn known(figures: &[(&str, &str, &str, f64)]) -> Known {
    let mut known = Known::default();
    for (experiment, of, metric, value) in figures {
        known.insert(Key::new(experiment, &case(of), metric), *value);
    }
    known
}

/// An experiment's prediction for a metric of a case, before its widths are scaled.
pub fn predicted(
    experiment: &dyn AnyExperiment,
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    metric: &str,
) -> Option<Prediction> {
    let of = experiment.card().metrics.iter().find(|of| of.name == metric);
    experiment.unscaled(site, known, case, of.expect("a metric of the card"))
}

/// Clocks of a CPU that are looked at for 2 ms. The calling thread is pinned to it.
pub fn calibrated(cpu: usize) -> Calibration {
    let order = CalibrateOrder { cpu, windows: 10, window_ns: 200_000 };
    calibrate(&order).expect("the clocks run")
}

/// The first round of a rehearsal of a series, with windows of 0.2 ms.
pub fn rehearsal(series: Series, cpus: Vec<usize>, calibration: Calibration) -> RoundOrder {
    RoundOrder {
        series,
        round: 1,
        seed: 7,
        cpus,
        calibration,
        dir: None,
        far: None,
        far_address: None,
        case_ns: 200_000,
        rehearsal: true,
    }
}

pub fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("does not panic"))
}

/// A site with a directory on ext4 in which a run may write so much.
pub fn with_dir(site: Site, path: &str, allowance_bytes: u64) -> Site {
    let (path, file_system) = (path.into(), "ext4".to_owned());
    Site {
        dir: Some(DirFacts { path, file_system, allowance_bytes, portions: Vec::new() }),
        ..site
    }
}

/// A machine with a disk below `/x`: its name, whether it spins, its cache (`write back`), options
/// of the mount. What a hypervisor makes (`vda`) has no model.
pub fn on_disk(name: &str, spins: bool, cache: &str, options: &str) -> Site {
    let model = match name {
        "vda" => String::new(),
        _ => format!("== sys/block/{name}/device/model\nX\n"),
    };
    let tree = format!(
        "== sys/block/{name}/size\n2000000000\n== sys/block/{name}/dev\n8:0\n{model}\
         == sys/block/{name}/queue/rotational\n{}\n== sys/block/{name}/queue/read_ahead_kb\n128\n\
         == sys/block/{name}/queue/write_cache\n{cache}\n== sys/block/{name}/queue/fua\n0\n\
         == proc/self/mountinfo\n22 1 8:0 / / rw - ext4 /dev/{name} {options}\n\
         23 22 0:9 / /tmp rw - tmpfs tmpfs rw\n",
        u8::from(spins)
    );
    let mut site = Site { host: Host::read(&Root::tree(&tree)), ..bare_site() };
    if name != "vda" {
        site.host.kernel.virtualisation.is_guest = Some(false);
    }
    with_dir(site, "/x", 1 << 34)
}

/// Machines with files on every kind of file system and of disk.
pub fn file_systems() -> Vec<Site> {
    let kinds = "ext4 xfs btrfs vfat tmpfs overlay fuse.sshfs nfs4 zfs new".split(' ').chain([""]);
    let of_kind = |kind: &str| {
        let mut site = on_disk("nvme0n1", false, "write back", "rw");
        site.dir = site.dir.map(|dir| DirFacts { file_system: kind.to_owned(), ..dir });
        site
    };
    let disks = [
        on_disk("sda", true, "write back", "rw"),
        on_disk("sda", true, "write through", "rw"),
        on_disk("sda", false, "write back", "rw,nobarrier"),
        on_disk("vda", true, "write back", "rw"),
    ];
    kinds.map(of_kind).chain(disks).collect()
}
