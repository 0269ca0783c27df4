//! Where a thread runs that waits for a disk, and where the disk's interrupts go, as a case: the one wakes the
//! other, and across CPUs that takes longer.

use super::{Domain, Known, Param, Role, Site, Skip};
use crate::host::irq::{Taken, taken};
use record::key::{CaseId, PLACEMENT, Value};

/// The scheduler places the thread on any CPU of the run.
pub const FREE: &str = record::key::FREE;
/// The thread is pinned to the CPU that takes the device's interrupts.
pub const INTERRUPT: &str = "interrupt";
/// The thread is pinned to another.
pub const OTHER: &str = record::key::OTHER;

/// The parameter [`PLACEMENT`]. The planner offers what has it ([`CaseId::has_place`]) once
/// for each of its values; laws and derivations see cases without it.
pub const PLACEMENT_PARAM: Param = Param {
    name: PLACEMENT,
    doc: "where the threads run that wait for the device: free (on any CPU of the run, as the scheduler \
          places them), interrupt (on the one that takes the device's interrupts), other (on another)",
    domain: Domain::Symbols(&[FREE, INTERRUPT, OTHER]),
    defaults: [FREE; 3],
    role: Role::Case,
};

/// The CPUs of a placement, the measuring thread's first.
///
/// # Errors
/// There is no such CPU here.
pub fn cpus(site: &Site, place: &str) -> Result<Vec<usize>, Skip> {
    let mut cpus = site.cpus.clone();
    if place == FREE {
        return Ok(cpus);
    }
    if cpus.len() < 2 {
        return Err(
            Skip::because("the run has one CPU, so all placements are the same")
                .needs("--cpu with at least two CPUs"),
        );
    }
    let taker = match (taken(irqs(site), &cpus), place) {
        (Taken::By(cpu), _) => cpu,
        (Taken::Each, INTERRUPT) => return Ok(cpus),
        (Taken::Each, _) => {
            return Err(Skip::because(
                "the device has a queue for each CPU, and each CPU takes its own interrupts",
            ));
        }
        (Taken::Untold, _) => {
            return Err(Skip::because(
                "the kernel does not report which CPU takes the interrupts of the device below the directory",
            )
            .needs("--dir DIR on a disk whose interrupts /proc/interrupts counts"));
        }
    };
    let at = cpus.iter().position(|cpu| *cpu == taker);
    match (place == INTERRUPT, at) {
        (true, None) => {
            return Err(Skip::because(format!(
                "the device interrupts CPU {taker}, which this run does not use"
            ))
            .needs(format!("--cpu with CPU {taker}")));
        }
        (true, Some(at)) => cpus[..=at].rotate_right(1),
        (false, Some(0)) => cpus.rotate_left(1),
        (false, _) => {}
    }
    Ok(cpus)
}

/// The interrupts of the disk below the directory for files.
fn irqs(site: &Site) -> &[crate::host::irq::Irq] {
    let path = site.dir.as_ref().map(|dir| dir.path.to_string_lossy());
    let block = &site.host.block;
    let mount = path.and_then(|path| block.mount_of(&path));
    let disk = mount.and_then(|mount| block.disk_of(mount));
    disk.map_or(&[], |disk| &disk.interrupts)
}

impl Site {
    /// The site that a case sees: its thread's CPU is the first.
    #[must_use]
    pub fn placed(&self, case: &CaseId) -> Option<Site> {
        let cpus = cpus(self, case.text(PLACEMENT)?).ok()?;
        Some(Site {
            cpus,
            ..self.clone()
        })
    }
}

impl Known {
    /// What a case of this placement may know: figures that have none, and those of the same, by the
    /// names that experiments know.
    #[must_use]
    pub fn seen_from(&self, place: Option<&Value>) -> Known {
        let mut seen = Known::default();
        for (key, value) in &self.values {
            let of = key.case.get(PLACEMENT);
            if of.is_none() || of == place {
                let mut key = key.clone();
                key.case = key.case.unplaced();
                seen.insert(key, *value);
            }
        }
        seen
    }

    /// The placements of an experiment's figures, none first.
    pub fn places(&self) -> std::collections::BTreeSet<Option<Value>> {
        let of = |key: &record::key::Key| key.case.get(PLACEMENT).cloned();
        self.values.keys().map(of).chain([None]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{FREE, INTERRUPT, OTHER, cpus};
    use crate::experiment::{DirFacts, Known, Site};
    use crate::host::{Host, Root};
    use crate::predict::tests::bare_site;
    use record::key::{CaseId, Key, Value};

    const TREE: &str = "== sys/block/vda/size\n100\n== sys/block/vda/dev\n254:0\n\
        == sys/devices/pci0/virtio1/msi_irqs/36\nmsix\n== proc/irq/36/effective_affinity_list\n1\n\
        == proc/interrupts\n  CPU0 CPU1\n 36: 0 9 PCI-MSIX-1 1-edge virtio1-req.0\n\
        == sys/block/vda -> ../devices/pci0/virtio1/block/vda\n";

    fn site(tree: &str, of: &[usize]) -> Site {
        let root = Root::tree(tree).with(
            "proc/self/mountinfo",
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n",
        );
        Site {
            host: Host::read(&root),
            cpus: of.to_vec(),
            dir: Some(DirFacts {
                path: "/tmp".into(),
                file_system: String::new(),
                allowance_bytes: 0,
            }),
            ..bare_site()
        }
    }

    #[test]
    fn a_placement_chooses_the_first_cpu() {
        let of = |list: &[usize], place| cpus(&site(TREE, list), place).ok();
        assert_eq!(of(&[0, 1], FREE), Some(vec![0, 1]));
        assert_eq!(of(&[0, 2, 1], INTERRUPT), Some(vec![1, 0, 2]));
        assert_eq!(of(&[0, 1], OTHER), Some(vec![0, 1]));
        assert_eq!(of(&[1, 0], OTHER), Some(vec![0, 1]));
        assert_eq!(of(&[0, 2], INTERRUPT), None, "not one of the run's");
        assert_eq!(of(&[1], OTHER), None);
        let untold = site("", &[0, 1]);
        assert!(cpus(&untold, INTERRUPT).is_err() && cpus(&untold, OTHER).is_err());
        assert!(cpus(&untold, FREE).is_ok());
    }

    #[test]
    fn a_case_knows_figures_of_its_own_placement() {
        let case = CaseId::new().with("op", "read");
        let mut known = Known::default();
        for (place, value) in [(FREE, 1.0), (OTHER, 2.0)] {
            let placed = case.clone().with("placement", place);
            known.insert(Key::new("fs.io", &placed, "latency"), value);
            assert_eq!(placed.unplaced(), case);
        }
        known.insert(Key::new("clock.read", &case, "latency"), 3.0);
        let seen = known.seen_from(Some(&Value::from(OTHER)));
        assert_eq!(seen.get("fs.io", &case, "latency"), Some(2.0));
        assert_eq!(seen.get("clock.read", &case, "latency"), Some(3.0));
        assert_eq!(known.seen_from(None).get("fs.io", &case, "latency"), None);
        assert_eq!(known.places().len(), 3);
    }
}
