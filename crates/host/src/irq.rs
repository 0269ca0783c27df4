//! The interrupts of a device: which CPU takes them.

use super::{Root, interrupts};
use serde::{Deserialize, Serialize};

/// An interrupt line by which a device says that it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Irq {
    /// Its number.
    pub line: u32,
    /// Its handlers: `virtio1-req.0`, `nvme0q1`.
    pub handler: String,
    /// CPUs that it goes to.
    pub cpus: Vec<usize>,
    /// How often it came since boot.
    pub count: u64,
}

/// The CPUs that take a device's interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// This CPU takes those that came most.
    By(usize),
    /// The device has a queue for each CPU, which takes its own.
    Each,
    /// The device chooses one of several queues, on several CPUs, by the connection.
    Chosen,
    /// The kernel does not tell.
    Untold,
}

/// The ones of `cpus` that take these interrupts.
pub fn taken(irqs: &[Irq], cpus: &[usize]) -> Taken {
    let takes = |cpu: &usize| irqs.iter().any(|irq| irq.cpus == [*cpu]);
    if cpus.len() > 1 && cpus.iter().all(takes) {
        return Taken::Each;
    }
    let busiest = irqs.iter().max_by_key(|irq| irq.count);
    match busiest.and_then(|irq| irq.cpus.first()) {
        Some(cpu) => Taken::By(*cpu),
        None => Taken::Untold,
    }
}

/// The CPUs that take the interrupts of an interface with these lines.
pub fn taken_of_interface(irqs: &[Irq]) -> Taken {
    let mut cpus = irqs.iter().map(|irq| irq.cpus.first());
    match cpus.next().flatten() {
        None => Taken::Untold,
        Some(first) if cpus.all(|cpu| cpu == Some(first)) => Taken::By(*first),
        Some(_) => Taken::Chosen,
    }
}

/// The lines of the device to which the link `sys/block/NAME` or `sys/class/net/NAME` leads,
/// without those by which it does not say that it has done or received something ([`is_beside`]).
pub(super) fn of(root: &Root, link: &str) -> Vec<Irq> {
    let path = root.link(link).unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| *part != "..").collect();
    let lines = lines_of(root, &parts);
    let (_, rows) = interrupts::rows(&root.read("proc/interrupts").unwrap_or_default());
    let told = rows.into_iter().filter_map(|row| {
        let line = row.name.parse::<u32>().ok()?;
        let is_own = match lines.is_empty() {
            true => parts.iter().any(|part| *part == row.what),
            false => lines.contains(&(line as usize)),
        };
        (is_own && !is_beside(&row.what)).then(|| Irq {
            line,
            cpus: cpus(root, line),
            count: row.counts.iter().fold(0, |all: u64, (_, count)| all.saturating_add(*count)),
            handler: row.what,
        })
    });
    let mut told: Vec<Irq> = told.collect();
    // Of a card with lines for its queues, the one of its bare name is for more (igb, e1000e).
    if told.len() > 1 {
        told.retain(|irq| parts.last() != Some(&&*irq.handler));
    }
    told
}

/// Numbers of the lines of the nearest PCI function on the way to a device.
fn lines_of(root: &Root, parts: &[&str]) -> Vec<usize> {
    let functions = (1..=parts.len()).rev();
    functions
        .map(|end| root.numbered(&format!("sys/{}/msi_irqs", parts[..end].join("/")), ""))
        .find(|lines| !lines.is_empty())
        .unwrap_or_default()
}

/// Whether a line is for settings (`virtio1-config`), a device's administration (`nvme0q0`,
/// `ena-mgmnt@…`, `mlx5_async0@…`, `eth0-event-2`, `ice-…:misc`) or what was sent
/// (`virtio2-output.0`, `eth0-tx-0`).
fn is_beside(handler: &str) -> bool {
    const BESIDE: [&str; 6] = ["-config", "mgmnt", "async", "-event-", ":misc", "-output."];
    let is_administration = handler.starts_with("nvme") && handler.ends_with("q0");
    let is_for_sending = handler.contains("-tx-");
    BESIDE.iter().any(|part| handler.contains(part)) || is_administration || is_for_sending
}

/// CPUs of a line: the effective mask (Linux 4.13 and later), else the one that was asked for.
fn cpus(root: &Root, line: u32) -> Vec<usize> {
    ["effective_affinity_list", "smp_affinity_list"]
        .iter()
        .find_map(|file| root.cpus(&format!("proc/irq/{line}/{file}")))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Irq, Taken, of, taken, taken_of_interface};
    use crate::Root;

    /// What the kernel says of lines of a PCI function: numbers, handlers and how often they came
    /// on each of two CPUs; CPUs by line and file.
    fn machine(
        pci: &str,
        rows: &[(u32, &str, [u64; 2])],
        cpus: &[(u32, &str, &str)],
        more: &str,
    ) -> Root {
        let mut text = format!("{more}== proc/interrupts\n           CPU0       CPU1\n");
        for (line, handler, [zero, one]) in rows {
            text += &format!(" {line}: {zero} {one} PCI-MSIX-{pci} {line}-edge {handler}\n");
        }
        for (line, file, cpus) in cpus {
            text += &format!("== proc/irq/{line}/{file}\n{cpus}\n");
        }
        for (line, ..) in rows.iter().filter(|row| !row.1.starts_with("other")) {
            text += &format!("== sys/devices/pci0000:00/{pci}/msi_irqs/{line}\nmsix\n");
        }
        Root::tree(&text)
    }

    fn virtio() -> Root {
        let rows = [
            (35, "virtio1-config", [0, 1]),
            (36, "virtio1-req.0", [0, 1_440_544]),
            (38, "other-input.0", [0, 8920]),
        ];
        let cpus = [
            (35, "effective_affinity_list", "0"),
            (36, "effective_affinity_list", "1"),
            (36, "smp_affinity_list", "0-1"),
        ];
        let link = "== sys/block/vda -> ../devices/pci0000:00/0000:00:02.0/virtio1/block/vda\n";
        machine("0000:00:02.0", &rows, &cpus, link)
    }

    #[test]
    fn a_disk_of_one_queue_interrupts_one_cpu() {
        let irqs = of(&virtio(), "sys/block/vda");
        let expected =
            Irq { line: 36, handler: "virtio1-req.0".to_owned(), cpus: vec![1], count: 1_440_544 };
        assert_eq!(irqs, [expected]);
        assert_eq!(taken(&irqs, &[0, 1]), Taken::By(1));
    }

    #[test]
    fn a_disk_with_a_queue_for_each_cpu_interrupts_each() {
        let rows = [(20, "nvme0q0", [12, 0]), (21, "nvme0q1", [500, 0]), (22, "nvme0q2", [0, 700])];
        let cpus = [(21, "effective_affinity_list", "0"), (22, "smp_affinity_list", "1")];
        let link =
            "== sys/block/nvme0n1 -> ../devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1\n";
        let irqs = of(&machine("0000:01:00.0", &rows, &cpus, link), "sys/block/nvme0n1");
        let handlers: Vec<&str> = irqs.iter().map(|irq| &*irq.handler).collect();
        assert_eq!(handlers, ["nvme0q1", "nvme0q2"]);
        assert_eq!(taken(&irqs, &[0, 1]), Taken::Each);
        assert_eq!(taken(&irqs, &[0]), Taken::By(1), "the busiest");
    }

    #[test]
    fn what_has_no_line_is_untold() {
        let irqs = of(&virtio(), "sys/block/vdb");
        assert_eq!(irqs, []);
        assert_eq!(taken(&irqs, &[0, 1]), Taken::Untold);
    }

    #[test]
    fn an_interface_of_one_queue_interrupts_one_cpu_and_one_of_several_chooses() {
        const PLACE: &str =
            "== sys/class/net/eth0 -> ../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0\n";
        let tree = |lines: &[(u32, &'static str, &'static str)]| {
            let rows: Vec<_> = lines.iter().map(|(line, name, _)| (*line, *name, [5, 9])).collect();
            let effective = |line: &(u32, &'static str, &'static str)| {
                (line.0, "effective_affinity_list", line.2)
            };
            let cpus: Vec<_> = lines.iter().map(effective).collect();
            of(&machine("0000:00:03.0", &rows, &cpus, PLACE), "sys/class/net/eth0")
        };
        let handlers =
            |irqs: &[Irq]| -> Vec<String> { irqs.iter().map(|irq| irq.handler.clone()).collect() };
        let virtio = tree(&[
            (37, "virtio2-config", "0"),
            (38, "virtio2-input.0", "1"),
            (39, "virtio2-output.0", "0"),
        ]);
        assert_eq!(handlers(&virtio), ["virtio2-input.0"]);
        assert_eq!(taken_of_interface(&virtio), Taken::By(1));
        let queues = tree(&[
            (40, "ena-mgmnt@pci:0000:00:03.0", "0"),
            (41, "eth0-Tx-Rx-0", "0"),
            (42, "eth0-Tx-Rx-1", "1"),
        ]);
        assert_eq!(handlers(&queues), ["eth0-Tx-Rx-0", "eth0-Tx-Rx-1"]);
        assert_eq!(taken_of_interface(&queues), Taken::Chosen);
        let old = tree(&[(43, "eth0", "0"), (44, "eth0-rx-0", "1"), (45, "eth0-tx-0", "0")]);
        assert_eq!(handlers(&old), ["eth0-rx-0"]);
        let bare = tree(&[(46, "eth0", "1")]);
        assert_eq!(taken_of_interface(&bare), Taken::By(1));
        assert_eq!(taken_of_interface(&[]), Taken::Untold);
    }
}
