//! Where a thread runs that waits for a device, a disk or an interface, and where the device's
//! interrupts go, as a case: the one wakes the other, and across CPUs that takes longer.

use super::{Domain, Known, Param, Peer, Role, Site, Skip};
use host::irq::{Irq, Taken, taken, taken_of_interface};
use host::net::Interface;
use host::{Host, format_cpus};
use record::case::Case;
use record::key::{PLACEMENT, Value};
use record::order::Gather;

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
    doc: "CPU of the threads that wait for the device: free (any CPU of the run, chosen by the \
          scheduler), interrupt (the CPU that takes the device's interrupts), other (a different \
          CPU)",
    domain: Domain::Symbols(&[FREE, INTERRUPT, OTHER]),
    defaults: [FREE; 3],
    role: Role::Case,
};

/// The device whose interrupts wake the threads of a case.
enum Device<'site> {
    /// The disk below the directory for files, with its interrupts; none where the mounts do not
    /// name it.
    Disk(&'site [Irq]),
    /// The interface that leads to the far end or the server.
    Interface(&'site Interface),
    /// No route leads there.
    Nowhere,
}

impl Device<'_> {
    /// The device of a case: its far end's, else its server's, else the directory's.
    fn from_case<'site>(site: &'site Site, case: &Case) -> Device<'site> {
        let net = &site.host.net;
        let afar = site.peer.as_ref().map(|peer| {
            let way = net.way_to(peer.address);
            way.map(|(interface, _)| interface)
        });
        let named = || {
            let server = case.at.get("interface").and_then(Value::text);
            let is_remote = case.at.contains_key("server");
            is_remote.then(|| server.and_then(|name| net.named(name)))
        };
        match afar.or_else(named) {
            Some(interface) => interface.map_or(Device::Nowhere, Device::Interface),
            None => {
                let path = site.dir.as_ref().map(|dir| dir.path.to_string_lossy());
                let block = &site.host.block;
                let mount = path.and_then(|path| block.mount_of(&path));
                let disk = mount.and_then(|mount| block.disk_of(mount));
                Device::Disk(disk.map_or(&[], |disk| &disk.interrupts))
            }
        }
    }

    fn taken(&self, cpus: &[usize]) -> Taken {
        match self {
            Device::Disk(irqs) => taken(irqs, cpus),
            Device::Interface(interface) => taken_of_interface(&interface.interrupts),
            Device::Nowhere => Taken::Untold,
        }
    }

    /// Why the CPU that takes them is unknown.
    fn unknown_cpu(&self) -> Skip {
        match self {
            Device::Disk(_) => {
                let why = "the kernel does not report which CPU takes the interrupts of the device \
                           below the directory";
                Skip::because(why)
                    .needs("--dir DIR on a disk whose interrupts /proc/interrupts counts")
            }
            Device::Interface(Interface { name, .. }) => {
                let why = format!("the kernel reports no interrupts for the interface {name}");
                Skip::because(why)
                    .needs("a route over a device whose interrupts /proc/interrupts counts")
            }
            Device::Nowhere => Skip::because("no route to that address names an interface"),
        }
    }
}

/// The CPUs of a placement of a case, the measuring thread's first. Errors: there is no such CPU
/// here.
fn cpus(site: &Site, place: &str, case: &Case) -> Result<Vec<usize>, Skip> {
    let mut cpus = site.cpus.clone();
    if place == FREE {
        return Ok(cpus);
    }
    if cpus.len() < 2 {
        return Err(Skip::because("the run has one CPU, so all placements are the same")
            .needs("--cpu with at least two CPUs"));
    }
    let device = Device::from_case(site, case);
    let taker = match (device.taken(&cpus), place) {
        (Taken::By(cpu), _) => cpu,
        (Taken::Each, INTERRUPT) => return Ok(cpus),
        (Taken::Each, _) => {
            return Err(Skip::because(
                "the device has one queue per CPU, and each CPU takes its own interrupts",
            ));
        }
        (Taken::Chosen, _) => {
            return Err(Skip::because(
                "the interface has queues on several CPUs and chooses one by the connection's addresses and ports",
            )
            .needs("all interrupts of the device on one CPU (/proc/irq/N/smp_affinity_list)"));
        }
        (Taken::Untold, _) => return Err(device.unknown_cpu()),
    };
    if place == INTERRUPT && !cpus.contains(&taker) {
        return Err(Skip::because(format!(
            "the device interrupts CPU {taker}, which this run does not use"
        ))
        .needs(format!("--cpu with CPU {taker}")));
    }
    arrange(&mut cpus, taker, place);
    Ok(cpus)
}

/// Puts the CPU that takes the interrupts first, or for [`OTHER`] another.
fn arrange(cpus: &mut [usize], taker: usize, place: &str) {
    match place == INTERRUPT {
        true => move_first(cpus, taker),
        false => keep_off(cpus, &[taker]),
    }
}

/// The far end's CPUs of a placement: as at the near end if its host reports which CPU takes the
/// interrupts of its interface, otherwise unchanged.
fn far_cpus(peer: &Peer, place: &str) -> Vec<usize> {
    let mut cpus = peer.cpus.clone();
    let interface = peer.interface.as_deref();
    let interface = interface.and_then(|name| peer.host.net.named(name));
    match interface.map(|interface| taken_of_interface(&interface.interrupts)) {
        Some(Taken::By(taker)) if place != FREE => arrange(&mut cpus, taker, place),
        _ => {}
    }
    cpus
}

impl Peer {
    /// It with other CPUs first than the near end uses, where it has the near end's identity: it is
    /// then that machine itself behind another address, or another guest of the same host, and
    /// CPUs of one number may be one CPU.
    #[must_use]
    pub fn apart(mut self, near: &Host, near_cpus: &[usize]) -> Peer {
        if self.host.identity.hash == near.identity.hash {
            keep_off(&mut self.cpus, &near_cpus[..near_cpus.len().min(OF_AN_END)]);
        }
        self
    }
}

/// CPUs that one end uses at most: that of its round trips, and that of its traffic.
const OF_AN_END: usize = 2;

/// Turns the CPUs until one is first that is not taken, or as far as there is none, not among the
/// first of those taken.
fn keep_off(cpus: &mut [usize], taken: &[usize]) {
    let off = |taken: &[usize]| cpus.iter().position(|cpu| !taken.contains(cpu));
    let first = (1..=taken.len()).rev().find_map(|count| off(&taken[..count]));
    cpus.rotate_left(first.unwrap_or(0));
}

/// Moves one of the CPUs to the front; the others keep their order.
pub fn move_first(cpus: &mut [usize], cpu: usize) {
    if let Some(at) = cpus.iter().position(|one| *one == cpu) {
        cpus[..=at].rotate_right(1);
    }
}

/// The CPUs that cases of a placement run on, by the names that a case's facts have. Errors: as
/// [`cpus`].
pub fn facts(
    site: &Site,
    place: &str,
    case: &Case,
    has_far: bool,
) -> Result<Vec<(String, Value)>, Skip> {
    let near = cpus(site, place, case)?;
    let of_end = |end: &str, cpus: &[usize]| match (place, cpus.first()) {
        (FREE, _) | (_, None) => {
            let mut all = cpus.to_vec();
            all.sort_unstable();
            (format!("{end}cpus"), Value::from(format_cpus(&all)))
        }
        (_, Some(cpu)) => (format!("{end}cpu"), Value::from(*cpu as u64)),
    };
    let Some(peer) = &site.peer else { return Ok(vec![of_end("", &near)]) };
    let mut all = vec![of_end("near_", &near)];
    if has_far {
        let far = Peer { cpus: far_cpus(peer, place), ..peer.clone() };
        all.push(of_end("far_", &far.apart(&site.host, &near).cpus));
    }
    Ok(all)
}

/// A CPU among a case's facts.
fn fact(case: &Case, name: &str) -> Option<usize> {
    usize::try_from(case.at.get(name)?.int()?).ok()
}

/// The far end's CPU that a case names.
pub fn far_cpu(case: &Case) -> Option<usize> {
    fact(case, "far_cpu")
}

impl Site {
    /// The site that a case sees: the CPUs that its facts name are the first.
    #[must_use]
    pub fn placed(&self, case: &Case) -> Option<Site> {
        let place = case.id.text(PLACEMENT)?;
        let near = fact(case, "near_cpu").or_else(|| fact(case, "cpu"))?;
        if place == FREE {
            return None;
        }
        let mut site = self.clone();
        move_first(&mut site.cpus, near);
        if let (Some(peer), Some(far)) = (&mut site.peer, far_cpu(case)) {
            move_first(&mut peer.cpus, far);
        }
        Some(site)
    }
}

impl Known {
    /// What a case of this placement may know: figures that have none, and those of the same, by
    /// the names that experiments know.
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
        self.values.keys().map(of).chain([None]).gather()
    }
}

#[cfg(test)]
mod tests {
    use super::{FREE, INTERRUPT, OTHER, cpus, facts};
    use crate::experiment::fixtures::{bare_site, with_dir};
    use crate::experiment::{Known, Peer, Site};
    use host::{Host, Root};
    use record::case::Case;
    use record::key::{CaseId, Key, PLACEMENT, Value};

    const TREE: &str = "== sys/block/vda/size\n100\n== sys/block/vda/dev\n254:0\n\
        == sys/devices/pci0/virtio1/msi_irqs/36\nmsix\n== proc/irq/36/effective_affinity_list\n1\n\
        == proc/interrupts\n  CPU0 CPU1\n 36: 0 9 PCI-MSIX-1 1-edge virtio1-req.0\n\
        == sys/block/vda -> ../devices/pci0/virtio1/block/vda\n";

    fn site(tree: &str, of: &[usize]) -> Site {
        let root =
            Root::tree(tree).with("proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/vda rw\n");
        let site = Site { host: Host::read(&root), cpus: of.to_vec(), ..bare_site() };
        with_dir(site, "/tmp", 0)
    }

    #[test]
    fn a_placement_chooses_the_first_cpu() {
        let any = Case::new(CaseId::new());
        let of = |list: &[usize], place| cpus(&site(TREE, list), place, &any).ok();
        assert_eq!(of(&[0, 1], FREE), Some(vec![0, 1]));
        assert_eq!(of(&[0, 2, 1], INTERRUPT), Some(vec![1, 0, 2]));
        assert_eq!(of(&[0, 1], OTHER), Some(vec![0, 1]));
        assert_eq!(of(&[1, 0], OTHER), Some(vec![0, 1]));
        assert_eq!(of(&[0, 2], INTERRUPT), None, "not one of the run's");
        assert_eq!(of(&[1], OTHER), None);
        let untold = site("", &[0, 1]);
        assert!(cpus(&untold, INTERRUPT, &any).is_err() && cpus(&untold, OTHER, &any).is_err());
        assert!(cpus(&untold, FREE, &any).is_ok());
    }

    /// An interface whose one queue CPU 1 serves, another with two queues, and the way to each.
    const NET: &str = "== sys/class/net/eth0/mtu\n1500\n\
        == sys/class/net/eth0 -> ../../devices/pci0/0/virtio2/net/eth0\n\
        == sys/devices/pci0/0/msi_irqs/38\nmsix\n== proc/irq/38/effective_affinity_list\n1\n\
        == sys/class/net/eth1/mtu\n1500\n== sys/class/net/eth1 -> ../../devices/pci0/1/net/eth1\n\
        == sys/devices/pci0/1/msi_irqs/40\nmsix\n== proc/irq/40/effective_affinity_list\n0\n\
        == sys/devices/pci0/1/msi_irqs/41\nmsix\n== proc/irq/41/effective_affinity_list\n1\n\
        == proc/interrupts\n  CPU0 CPU1\n 38: 0 9 PCI-MSIX-1 1-edge virtio2-input.0\n\
        40: 7 0 PCI-MSIX-2 1-edge eth1-TxRx-0\n 41: 0 2 PCI-MSIX-2 2-edge eth1-TxRx-1\n\
        == proc/net/route\n\
        Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        eth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        eth1\t0003000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";

    fn toward(address: &str) -> Site {
        let here = site(NET, &[0, 1, 2]);
        Site {
            peer: Some(Peer {
                name: "peer".to_owned(),
                address: address.parse().expect("an address"),
                host: here.host.clone(),
                cpus: vec![1, 3],
                interface: Some("eth0".to_owned()),
            }),
            ..here
        }
    }

    #[test]
    fn a_case_towards_a_peer_is_placed_by_the_interface_at_each_end() {
        let case = Case::new(CaseId::new().with("far", "peer"));
        let of = |place, has_far| facts(&toward("10.0.2.7"), place, &case, has_far).ok();
        let fact = |name: &str, cpu: u64| (name.to_owned(), Value::from(cpu));
        let told = |name: &str, cpus: &str| (name.to_owned(), Value::from(cpus));
        let expected = [told("near_cpus", "0-2"), told("far_cpus", "1,3")];
        assert_eq!(of(FREE, true).as_deref(), Some(&expected[..]));
        let expected = [fact("near_cpu", 1), fact("far_cpu", 1)];
        let mut another = toward("10.0.2.7");
        another.host.identity.hash = "another".to_owned();
        let there = facts(&another, INTERRUPT, &case, true).ok();
        assert_eq!(there.as_deref(), Some(&expected[..]));
        let expected = [fact("near_cpu", 1), fact("far_cpu", 3)];
        assert_eq!(of(INTERRUPT, true).as_deref(), Some(&expected[..]), "the same machine");
        let expected = [fact("near_cpu", 0), fact("far_cpu", 3)];
        assert_eq!(of(OTHER, true).as_deref(), Some(&expected[..]));
        let expected = [fact("near_cpu", 0)];
        assert_eq!(of(OTHER, false).as_deref(), Some(&expected[..]));

        let mut placed = Case::new(case.id.clone().with(PLACEMENT, OTHER));
        placed.at.extend([fact("near_cpu", 2), fact("far_cpu", 3)]);
        let site = toward("10.0.2.7").placed(&placed).expect("is placed");
        assert_eq!(site.cpus, [2, 0, 1]);
        assert_eq!(site.peer.expect("a peer").cpus, [3, 1]);
        placed.id = case.id.with(PLACEMENT, FREE);
        assert!(toward("10.0.2.7").placed(&placed).is_none());
    }

    #[test]
    fn ends_on_one_machine_use_cpus_of_their_own_as_far_as_there_are_any() {
        let near = toward("10.0.2.7");
        for (of_near, of_far, apart) in [
            (&[0, 1, 2, 3][..], &[0, 1, 2, 3][..], &[2, 3, 0, 1][..]),
            (&[2, 3, 0, 1], &[0, 1, 2, 3], &[0, 1, 2, 3]),
            (&[0, 1, 2], &[0, 1, 2], &[2, 0, 1]),
            (&[1, 0], &[1, 0], &[0, 1]),
            (&[0], &[0, 1], &[1, 0]),
            (&[0], &[0], &[0]),
            (&[], &[0, 1], &[0, 1]),
        ] {
            let peer = near.peer.clone().expect("a peer");
            let peer = Peer { cpus: of_far.to_vec(), ..peer };
            assert_eq!(peer.apart(&near.host, of_near).cpus, apart, "{of_near:?} {of_far:?}");
        }
    }

    #[test]
    fn an_interface_that_chooses_among_queues_has_no_placement_but_free() {
        let case = Case::new(CaseId::new().with("far", "peer"));
        for address in ["10.0.3.7", "10.0.4.7"] {
            let site = toward(address);
            for place in [INTERRUPT, OTHER] {
                assert!(cpus(&site, place, &case).is_err(), "{address} {place}");
            }
            assert_eq!(cpus(&site, FREE, &case).ok(), Some(vec![0, 1, 2]));
        }
    }

    #[test]
    fn a_server_s_case_is_placed_by_the_interface_that_leads_there() {
        let mut case = Case::new(CaseId::new().with("mode", "direct"));
        case.at.insert("server".to_owned(), "10.0.2.9".into());
        let here = site(NET, &[1, 0]);
        assert!(cpus(&here, OTHER, &case).is_err(), "no route is known");
        case.at.insert("interface".to_owned(), "eth0".into());
        assert_eq!(cpus(&here, OTHER, &case).ok(), Some(vec![0, 1]));
        assert_eq!(cpus(&here, INTERRUPT, &case).ok(), Some(vec![1, 0]));
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
