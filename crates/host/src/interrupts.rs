//! `/proc/interrupts` and `/proc/softirqs`: counts by row and by CPU since boot.

/// What an interrupt row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A numbered line: a device's interrupt.
    Device,
    Timer,
    /// Rescheduling, function calls, TLB shootdowns and other lines that the kernel names itself.
    Other,
}

/// One line: what it counts, and how often on each CPU that is online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the line as the kernel prints it: `LOC`, `36`, `IPI0`, `NET_RX`.
    pub name: String,
    /// What it stands for: the device's handlers (`virtio1-req.0`) of a numbered line, else the
    /// kernel's description (`Local timer interrupts`); empty for soft interrupts.
    pub what: String,
    pub source: Source,
    pub counts: Vec<(usize, u64)>,
}

impl Row {
    /// A name for people: the handlers of a numbered line with its number, else its own name.
    pub fn title(&self) -> String {
        match self.is_numbered() && !self.what.is_empty() {
            true => format!("{} (interrupt {})", self.what, self.name),
            false => self.name.clone(),
        }
    }

    fn is_numbered(&self) -> bool {
        self.name.starts_with(|c: char| c.is_ascii_digit())
    }
}

/// Whether a handler of this name is a timer's: `arch_timer`, `kvm guest vtimer`, `timer0`.
pub fn is_timer(handler: &str) -> bool {
    let name = handler.trim_end_matches(|c: char| c.is_ascii_digit());
    name.ends_with("timer")
}

/// The lines of `/proc/interrupts` or `/proc/softirqs` that have a count for every online CPU
/// (`ERR:` and `MIS:` have one for the whole machine and are left out). The CPUs of the first line
/// are those that are online; both are empty for an empty text.
pub fn rows(text: &str) -> (Vec<usize>, Vec<Row>) {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default().split_whitespace();
    let columns: Vec<Option<usize>> =
        header.map(|name| name.strip_prefix("CPU").and_then(|id| id.parse().ok())).collect();
    let rows = lines.filter_map(|line| row(line, &columns)).collect();
    (columns.into_iter().flatten().collect(), rows)
}

fn row(line: &str, columns: &[Option<usize>]) -> Option<Row> {
    let (name, rest) = line.split_once(':')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let counts: Vec<u64> =
        words.iter().take(columns.len()).map_while(|word| word.parse().ok()).collect();
    if columns.is_empty() || counts.len() < columns.len() {
        return None;
    }
    let (name, description) = (name.trim(), &words[columns.len()..]);
    Some(Row {
        source: source(name, description),
        what: what(name, description),
        name: name.to_owned(),
        counts: columns
            .iter()
            .zip(counts)
            .filter_map(|(id, count)| Some(((*id)?, count)))
            .collect(),
    })
}

/// x86 names the local timer `LOC`, and the one that Hyper-V gives its guests `HVS`; Arm numbers it
/// and names it `arch_timer` (or `kvm guest vtimer`), Xen's guests number one of each CPU
/// (`timer0`).
fn source(name: &str, description: &[&str]) -> Source {
    match name {
        "LOC" | "HVS" => Source::Timer,
        _ if !name.starts_with(|c: char| c.is_ascii_digit()) => Source::Other,
        _ if description.iter().any(|word| is_timer(word)) => Source::Timer,
        _ => Source::Device,
    }
}

/// A numbered line says controller, line and trigger (`GICv3 27 Level`, `PCI-MSIX-… 1-edge`), then
/// the handlers. Where no trigger is found the last word is taken.
fn what(name: &str, description: &[&str]) -> String {
    if !name.starts_with(|c: char| c.is_ascii_digit()) {
        return description.join(" ");
    }
    let trigger = description.iter().position(|word| {
        let word = word.to_ascii_lowercase();
        ["edge", "level", "fasteoi"].iter().any(|end| word.ends_with(end))
    });
    match trigger {
        Some(at) => description[at + 1..].join(" "),
        None => description.last().copied().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Source, rows};

    #[test]
    fn rows_of_x86() {
        let text = "           CPU0       CPU3\n 36:  1  2041977 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
            \x20 0:  5 6  IR-IO-APIC-edge  timer, rtc0\nLOC: 7 8  Local timer interrupts\nERR:   3\nMIS: 0\n";
        let (cpus, rows) = rows(text);
        assert_eq!(cpus, [0, 3]);
        let told: Vec<(String, Source)> =
            rows.iter().map(|row| (row.title(), row.source)).collect();
        let expected = [
            ("virtio1-req.0 (interrupt 36)", Source::Device),
            ("timer, rtc0 (interrupt 0)", Source::Device),
            ("LOC", Source::Timer),
        ];
        assert_eq!(told, expected.map(|(name, source)| (name.to_owned(), source)));
        assert_eq!(rows[0].counts, [(0, 1), (3, 2_041_977)]);
        assert_eq!(rows[2].what, "Local timer interrupts");
    }

    #[test]
    fn rows_of_arm() {
        let text = "  CPU0\n 13:  77  GICv3  27 Level  kvm guest vtimer\n 40: 5 GICv3-mITS 1 Edge nvme0q0\nIPI0: 2 Rescheduling interrupts\n";
        let (_, rows) = rows(text);
        let told: Vec<(&str, Source)> = rows.iter().map(|row| (&*row.what, row.source)).collect();
        let expected = [
            ("kvm guest vtimer", Source::Timer),
            ("nvme0q0", Source::Device),
            ("Rescheduling interrupts", Source::Other),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn timers_of_hypervisors_are_timers() {
        let text = "  CPU0\nHVS: 4 Hyper-V stimer0 interrupts\nHYP: 2 Hypervisor callback interrupts\n\
            \x2048: 9 xen-percpu -virq timer0\n 49: 1 xen-percpu -ipi resched0\n";
        let (_, rows) = rows(text);
        let sources: Vec<Source> = rows.iter().map(|row| row.source).collect();
        use Source::{Device, Other, Timer};
        assert_eq!(sources, [Timer, Other, Timer, Device]);
    }

    #[test]
    fn soft_interrupts_have_the_same_form_and_no_text_has_none() {
        let (cpus, rows_) =
            rows("    CPU0  CPU1\n  NET_RX:  342865      21774\n     RCU:    1 2\n");
        assert_eq!((cpus.len(), rows_.len()), (2, 2));
        assert_eq!(rows_[0].title(), "NET_RX");
        assert_eq!(rows(""), (Vec::new(), Vec::new()));
        // A device whose handlers' names begin with a number has no more counts than CPUs.
        let (_, rows) = rows("  CPU0\n 7: 3 IO-APIC 7-edge 8250\n");
        assert_eq!(rows[0].counts, [(0, 3)]);
    }
}
