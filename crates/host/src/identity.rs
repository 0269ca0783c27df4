//! What does not change from boot to boot.

use record::machine::{MachineIdentity, fnv1a, key, parts};
use serde::{Deserialize, Serialize};

use super::{Cpu, Host, Kernel, Root};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// 16 hexadecimal digits: the key of `parts`.
    pub hash: String,
    /// What went into it, `name=value` each, sorted by name; the machine id only as a hash.
    pub parts: Vec<String>,
}

/// The identity of the machine under `root`: [`record::machine`] says what is in it, and what not.
pub(super) fn identity(root: &Root, cpu: &Cpu, kernel: &Kernel) -> Identity {
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    let named = [
        ("arch", Some(format!("{:?}", cpu.arch).to_lowercase())),
        ("cpu.vendor", cpu.vendor.clone()),
        ("cpu.name", cpu.model_name.clone()),
        ("cpu.family", number(cpu.family)),
        ("cpu.model", number(cpu.model)),
        ("cpu.stepping", number(cpu.stepping)),
        ("cpu.midr", cpu.midr.map(|midr| format!("{midr:#x}"))),
        ("product", kernel.virtualisation.product.clone()),
        ("vendor", kernel.virtualisation.system_vendor.clone()),
        ("machine-id", machine_id(root)),
    ];
    let named = named.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    let parts = parts(&named.collect::<Vec<_>>());
    Identity { hash: key(&parts).unwrap_or_default(), parts }
}

impl Host {
    /// What says whose its runs are.
    pub fn machine(&self) -> MachineIdentity {
        let Identity { hash, parts } = self.identity.clone();
        MachineIdentity { key: hash, parts, memory_bytes: self.memory.total_bytes }
    }
}

/// Never the id itself: systemd asks that it be kept confidential (machine-id(5)).
fn machine_id(root: &Root) -> Option<String> {
    let id = root.line("etc/machine-id").filter(|id| id != "uninitialized")?;
    Some(format!("{:016x}", fnv1a(format!("plumb {id}").as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_id_itself_is_not_shown() {
        let root = Root::tree("== etc/machine-id\n0123456789abcdef0123456789abcdef\n");
        let shown = machine_id(&root).expect("there is an id");
        assert!(!shown.contains("0123456789abcdef"));
    }
}
