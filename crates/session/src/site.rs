//! Where a run takes place: the machine, the CPUs and the memory it may use.

use crate::plan::case_ns;
use crate::setup::Usage;
use bench::experiment::{DirFacts, Preset, Site};
use bench::fitted::Fitted;
use host::block::Mount;
use host::counters::Snapshot;
use host::{Host, Root, choose_cpu, format_cpus, parse_cpus};
use metal::directory::{self, Refused};
use metal::process::Patience;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Share of the available memory that an experiment may touch: the rest keeps the machine from
/// reclaiming while it is measured.
const MEMORY_SHARE: f64 = 0.8;
/// Share of the free space that a run may fill of a directory that was named …
const NAMED_SHARE: f64 = 0.9;
/// … and of one that was not, with a limit in bytes.
const UNNAMED_SHARE: f64 = 0.05;
const UNNAMED_MOST: f64 = 2.0 * (1_u64 << 30) as f64;

/// File systems whose files are memory; they are taken only where they are named.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// Where devices have their names. File systems that are mounted below it (/dev/shm) are others.
const DEVICES: &str = "/dev";

/// A directory that shows no progress for so long hangs. A disk that must first spin up takes half
/// of it.
const SILENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub enum Files<'path> {
    /// Below this directory, which the user named.
    Named(&'path Path),
    /// Below the current directory, if that can be written and is not in memory: the user named
    /// none.
    Here,
    Nowhere,
}

/// The site on this machine. Where SIGINT or SIGTERM sets `stop`, no directory is waited for any
/// longer. Errors: a CPU of `--cpu` is offline, forbidden or absent, or none can be used; the
/// architecture is another; the directory of `--dir` cannot be written.
pub fn site(
    host: Host,
    root: &Root,
    cpus: Option<&str>,
    files: Files<'_>,
    preset: Preset,
    stop: &AtomicBool,
) -> Result<Site, Usage> {
    let cpus = match cpus {
        Some(list) => asked_cpus(&host, list)?,
        None => quiet_cpus(&host, root),
    };
    if let Some(arch) = &host.cpu.other_arch {
        let only = "plumb measures and predicts x86_64 and aarch64 only";
        return Err(Usage(format!("the machine's architecture is {arch}: {only}")));
    }
    if cpus.is_empty() {
        let why = "neither the affinity mask nor /sys/devices/system/cpu/online names one";
        return Err(Usage(format!("no CPU of this machine can be used: {why}")));
    }
    let memory_bytes =
        host.memory_ceiling_bytes().map_or(0, |ceiling| (ceiling as f64 * MEMORY_SHARE) as u64);
    let dir = match files {
        Files::Named(dir) => Some(dir_facts(&host, dir, stop, |free| NAMED_SHARE * free)?),
        Files::Here => {
            dir_facts(&host, Path::new("."), stop, |free| UNNAMED_MOST.min(UNNAMED_SHARE * free))
                .ok()
                .filter(|dir| !IN_MEMORY.contains(&dir.file_system.as_str()))
        }
        Files::Nowhere => None,
    };
    Ok(Site {
        peer: None,
        peers: Vec::new(),
        dir,
        cpus,
        memory_bytes,
        case_ns: case_ns(preset),
        fitted: Fitted::committed(),
        host,
    })
}

/// All allowed CPUs, the one that takes the fewest interrupts first.
fn quiet_cpus(host: &Host, root: &Root) -> Vec<usize> {
    let allowed = host.cpu.usable();
    let interrupts = Snapshot::read(root, &allowed);
    let quietest = choose_cpu(host, &interrupts);
    quietest.into_iter().chain(allowed.into_iter().filter(|cpu| Some(*cpu) != quietest)).collect()
}

fn asked_cpus(host: &Host, list: &str) -> Result<Vec<usize>, Usage> {
    let usable = format!("usable here: --cpu {}", format_cpus(&host.cpu.usable()));
    // The kernel's lists are read leniently, what is typed is not: no piece may be passed over.
    let well_formed = |piece: &str| {
        let digits = piece.chars().all(|c| c.is_ascii_digit() || c == '-');
        digits && !parse_cpus(piece).is_empty()
    };
    let asked = parse_cpus(list);
    if !list.split(',').all(well_formed) {
        return Err(Usage(format!(
            "`--cpu {list}` is not a list of CPUs such as 1 or 0,2-3; {usable}"
        )));
    }
    for id in &asked {
        let why = match host.cpu.cpu(*id) {
            None => "does not exist".to_owned(),
            Some(cpu) if !cpu.online => "is offline".to_owned(),
            Some(cpu) if !cpu.allowed && host.kernel.isolated.contains(id) => {
                // isolcpus takes it out of the first process's mask, which all others inherit.
                let mut all = host.cpu.usable();
                all.extend(&asked);
                all.sort_unstable();
                all.dedup();
                format!(
                    "is isolated, so programs run there only if they are pinned to it: `taskset -c \
                     {} plumb …`",
                    format_cpus(&all)
                )
            }
            Some(cpu) if !cpu.allowed => {
                "is forbidden to this process (affinity or cpuset)".to_owned()
            }
            Some(_) => continue,
        };
        return Err(Usage(format!("CPU {id} {why}; {usable}")));
    }
    Ok(asked)
}

fn dir_facts(
    host: &Host,
    dir: &Path,
    stop: &AtomicBool,
    allowance: impl Fn(f64) -> f64,
) -> Result<DirFacts, Usage> {
    let patience = Patience::unless(SILENCE, stop);
    let found =
        directory::probe(dir, patience).map_err(|refused| Usage(explanation(dir, &refused)))?;
    let path = found.path;
    let mount = host.block.mount_of(&path.to_string_lossy());
    if path.starts_with(DEVICES) && mount.is_none_or(|mount| !is_below_devices(mount)) {
        return Err(Usage(format!(
            "--dir {}: {DEVICES} contains devices, not files; name another directory",
            dir.display()
        )));
    }
    Ok(DirFacts {
        file_system: match found.is_over_memory {
            true => IN_MEMORY[0].to_owned(),
            false => mount.map(|mount| mount.fs.clone()).unwrap_or_default(),
        },
        allowance_bytes: allowance(found.free_bytes as f64) as u64,
        portions: Vec::new(),
        path,
    })
}

fn is_below_devices(mount: &Mount) -> bool {
    let target = Path::new(&mount.target);
    target.starts_with(DEVICES) && target != Path::new(DEVICES)
}

/// Why a directory cannot be used, with the way out.
fn explanation(dir: &Path, refused: &Refused) -> String {
    let shown = dir.display();
    match refused {
        Refused::Unreachable(error) => {
            format!("--dir {shown}: {error}; name an existing directory")
        }
        Refused::Other(what) => {
            format!(
                "--dir {shown} is {what}, where files cannot be created; name another \
                     directory"
            )
        }
        Refused::Unwritable(error) => {
            format!("cannot write to --dir {shown}: {error}; name another directory")
        }
        Refused::Interrupted => format!("--dir {shown} did not answer before the interruption"),
        Refused::Hangs { leaves } => {
            let leaves = leaves
                .as_ref()
                .map(|file| format!(" ({} may appear when it answers again)", file.display()));
            format!(
                "--dir {shown} hangs: its file system did not answer in {} s{}; name another \
                 directory, or unmount it (`umount -f` or `umount -l`)",
                SILENCE.as_secs(),
                leaves.unwrap_or_default()
            )
        }
    }
}
