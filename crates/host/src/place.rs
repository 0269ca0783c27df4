//! Where a process is: on which machine, since which boot, among which processes.

use crate::{Outside, Root, fnv1a};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The place of a process. What was written down or marked in another one is not judged from here:
/// its paths, numbers of processes and locks may be others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// A hash of the machine's id and name.
    pub machine: String,
    /// The kernel's random id of this boot.
    pub boot: String,
    /// Number of the namespace of processes.
    pub processes: String,
}

impl Place {
    /// That of this process; what the kernel does not report is empty.
    pub fn here() -> Place {
        Place::read(&Root::live(Outside::default()))
    }

    fn read(root: &Root) -> Place {
        let line = |path| root.line(path).unwrap_or_default();
        let machine =
            format!("plumb {} {}", line("etc/machine-id"), line("proc/sys/kernel/hostname"));
        let processes = root.link("proc/self/ns/pid").unwrap_or_default();
        Place {
            machine: format!("{:016x}", fnv1a(machine.as_bytes())),
            boot: line("proc/sys/kernel/random/boot_id"),
            processes: processes.chars().filter(char::is_ascii_digit).collect(),
        }
    }

    /// Whether what was left in this place can be judged from `here`: on the same machine, after a
    /// boot or among the same processes.
    pub fn is_judged_from(&self, here: &Place) -> bool {
        self.machine == here.machine && (self.boot != here.boot || self.processes == here.processes)
    }

    /// What another place is, seen from `here`.
    pub fn seen_from(&self, here: &Place) -> &'static str {
        match self.machine == here.machine {
            true => "in a container of this machine",
            false => "on another machine",
        }
    }
}

/// One word without `:` and `/`.
impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.machine, self.boot, self.processes)
    }
}

#[cfg(test)]
mod tests {
    use super::Place;
    use crate::Root;

    #[test]
    fn a_place_is_a_machine_a_boot_and_a_namespace() {
        let place = |id: &str, boot: &str, processes: &str| {
            Place::read(&Root::tree(&format!(
                "== etc/machine-id\n{id}\n== proc/sys/kernel/random/boot_id\n{boot}\n\
                 == proc/self/ns/pid -> pid:[{processes}]\n"
            )))
        };
        let here = place("a", "b-1", "4026531836");
        assert!(here.to_string().ends_with(".b-1.4026531836"), "{here}");
        for (other, is_judged, seen) in [
            (place("a", "b-1", "4026531836"), true, ""),
            (place("a", "b-1", "7"), false, "in a container of this machine"),
            (place("a", "b-2", "4026531836"), true, ""),
            (place("b", "b-1", "4026531836"), false, "on another machine"),
        ] {
            assert_eq!(other.is_judged_from(&here), is_judged, "{other}");
            assert!(is_judged || other.seen_from(&here) == seen, "{other}");
        }
    }
}
