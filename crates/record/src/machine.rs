//! Which runs are of one machine.

use crate::event::{Header, PeerHeader};
use crate::order::InOrder;
use crate::quantity::digits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Parts of a machine's key: facts that are exact and that no update of the kernel, the firmware or
/// the hypervisor changes. Left out are:
///
/// - flags and features: kernels, microcode and hypervisors add some and hide some;
/// - the number of CPUs: it follows hot-plugging, firmware settings and kernels;
/// - caches: kernels list them from different sources;
/// - memory: the kernel's share of it changes with its version and command line, so two totals are
///   compared ([`MEMORY_RATIO`]).
#[rustfmt::skip]
const X86_64: [&str; 9] = [
    "arch", "cpu.family", "cpu.model", "cpu.name", "cpu.stepping", "cpu.vendor", "machine-id", "product", "vendor",
];
/// On Arm the register MIDR_EL1 is the processor's own answer; names and numbers are made from it.
const AARCH64: [&str; 5] = ["arch", "cpu.midr", "machine-id", "product", "vendor"];

/// Two totals of memory with a ratio above this are of two machines.
const MEMORY_RATIO: f64 = 1.1;

/// Differing parts that a message lists.
const LISTED: usize = 3;

/// What says whose a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineIdentity {
    /// 16 hexadecimal digits: FNV-1a over the parts of the key; a published machine's name.
    pub key: String,
    /// `name=value` each, sorted by name.
    pub parts: Vec<String>,
    /// The kernel's field `MemTotal`.
    pub memory_bytes: Option<u64>,
}

/// The parts of the key among those of an identity, of this plumb or an earlier one.
pub fn parts(all: &[String]) -> Vec<String> {
    let is_arm = all.iter().any(|part| part.starts_with("cpu.midr="));
    let names: &[&str] = if is_arm { &AARCH64 } else { &X86_64 };
    let pairs = all.iter().filter_map(|part| part.split_once('='));
    let own = pairs.filter(|(name, _)| names.contains(name));
    // Kernels before 4.2 print the processor's name with its blanks.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut own: Vec<String> =
        own.map(|(name, value)| format!("{name}={}", words(value))).collect();
    own.order();
    own
}

/// The key of such parts; `None` where there are none.
pub fn key(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| format!("{:016x}", fnv1a(parts.join("\n").as_bytes())))
}

impl Header {
    pub fn machine(&self) -> MachineIdentity {
        MachineIdentity::new(&self.identity, &self.host)
    }

    /// The key that an earlier plumb made of other parts becomes today's, of the same description.
    pub(crate) fn complete(&mut self) {
        let peers = self.peers.iter_mut().map(|peer| (&mut peer.identity, &peer.host));
        for (identity, host) in [(&mut self.identity, &self.host)].into_iter().chain(peers) {
            // What does not fit its description was given by somebody.
            let is_made = host.pointer("/identity/hash").and_then(Value::as_str) == Some(identity);
            if let Some(key) = key(&described(host)).filter(|_| is_made) {
                *identity = key;
            }
        }
    }
}

impl PeerHeader {
    pub fn machine(&self) -> MachineIdentity {
        MachineIdentity::new(&self.identity, &self.host)
    }
}

/// The parts of the key that a description of a host has.
fn described(host: &Value) -> Vec<String> {
    let all = host.pointer("/identity/parts").and_then(Value::as_array);
    let all = all.into_iter().flatten().filter_map(Value::as_str);
    parts(&all.map(str::to_owned).collect::<Vec<_>>())
}

impl MachineIdentity {
    /// That of an identity and a description of a host, as headers have them.
    pub fn new(identity: &str, host: &Value) -> MachineIdentity {
        MachineIdentity {
            key: identity.to_owned(),
            parts: described(host),
            memory_bytes: host.pointer("/memory/total_bytes").and_then(Value::as_u64),
        }
    }

    pub fn is_same(&self, other: &MachineIdentity) -> bool {
        self.key == other.key && self.memories(other).is_none()
    }

    /// Both totals of memory, if they are of two machines.
    fn memories(&self, other: &MachineIdentity) -> Option<(u64, u64)> {
        let is_far = |(a, b): &(u64, u64)| *a.max(b) as f64 > MEMORY_RATIO * *a.min(b) as f64;
        self.memory_bytes.zip(other.memory_bytes).filter(is_far)
    }

    /// In what two machines differ: `cpu.model: 1 and 17; memory: 15.5 and 31.2 GiB`. `None` of one
    /// machine.
    pub fn difference(&self, other: &MachineIdentity) -> Option<String> {
        if self.is_same(other) {
            return None;
        }
        let value = |machine: &MachineIdentity, name: &str| {
            let mut pairs = machine.parts.iter().filter_map(|part| part.split_once('='));
            let found = pairs.find(|(part, _)| *part == name);
            found.map_or_else(|| "not known".to_owned(), |(_, value)| value.to_owned())
        };
        let gib = |bytes: u64| digits(bytes as f64 / f64::from(1 << 30));
        let memory = |(a, b)| format!("memory: {} and {} GiB", gib(a), gib(b));
        let mut texts: Vec<String> = self.memories(other).map(memory).into_iter().collect();
        let names = X86_64.iter().chain(&AARCH64[1..2]);
        let pairs = names.map(|name| (name, value(self, name), value(other, name)));
        let parts = pairs.filter(|(_, a, b)| a != b);
        texts.extend(parts.map(|(name, a, b)| format!("{name}: {a} and {b}")));
        if texts.is_empty() {
            texts.push(format!("identity: {} and {}", self.key, other.key));
        }
        let more = texts.len().saturating_sub(LISTED);
        texts.truncate(LISTED);
        texts.extend((more > 0).then(|| format!("{more} more")));
        Some(texts.join("; "))
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv).
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn published_values_of_fnv1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    fn machine(memory_kib: u64, parts_of_it: &[&str]) -> MachineIdentity {
        let all: Vec<String> = parts_of_it.iter().map(|part| (*part).to_owned()).collect();
        let parts = parts(&all);
        let key = key(&parts).expect("it has parts");
        MachineIdentity { key, parts, memory_bytes: Some(memory_kib << 10) }
    }

    #[test]
    fn what_an_update_changes_makes_no_other_machine() {
        let check = |memory: u64, before: &str, after: &str| {
            let of =
                |memory: u64, parts: &str| machine(memory, &parts.split(',').collect::<Vec<_>>());
            assert_eq!(of(16_252_900, before).difference(&of(memory, after)), None, "{after}");
        };
        let x86 = "arch=x86_64,cpu.model=85,cpu.name=Xeon Gold,machine-id=1f";
        for (memory, part) in [
            (16_253_000, "memory.gib=16"),
            (15_900_000, "cpu.features=1234"),
            (17_800_000, "cpu.count=8"),
            (14_800_000, "cache.l3.unified=33554432"),
        ] {
            check(memory, x86, &format!("{x86},{part}"));
        }
        check(16_252_900, x86, &x86.replace(' ', "     "));
        // Names on Arm are plumb's.
        let arm = "arch=aarch64,cpu.midr=0x410fd493";
        check(
            16_252_900,
            &format!("{arm},cpu.name=unknown"),
            &format!("{arm},cpu.name=Neoverse-V2"),
        );
    }

    #[test]
    fn the_part_that_differs_is_named() {
        let a = machine(16 << 20, &["arch=x86_64", "cpu.model=1"]);
        let told = |memory: u64, parts: &[&str]| a.difference(&machine(memory << 20, parts));
        let memory = told(32, &["arch=x86_64", "cpu.model=1"]);
        assert_eq!(memory.as_deref(), Some("memory: 16 and 32 GiB"));
        let model = told(16, &["arch=x86_64", "cpu.model=17"]);
        assert_eq!(model.as_deref(), Some("cpu.model: 1 and 17"));
        let both = told(8, &["arch=x86_64", "machine-id=1f"]);
        let both = both.expect("it is another one");
        let facts = both.split("; ").filter_map(|fact| fact.split(": ").next());
        assert!(facts.eq(["memory", "cpu.model", "machine-id"]), "{both}");
    }

    #[test]
    fn an_earlier_plumb_s_key_becomes_today_s() {
        let host = |hash: &str| json!({"identity": {"hash": hash, "parts": ["arch=x86_64", "cpu.count=4", "memory.gib=15"]}});
        let completed = |identity: &str, host: Value| {
            let mut header = Header { identity: identity.to_owned(), host, ..Header::default() };
            header.complete();
            header.identity
        };
        let today = key(&["arch=x86_64".to_owned()]);
        assert_eq!(Some(completed("old", host("old"))), today);
        assert_eq!(completed("given", host("old")), "given");
        let redacted = json!({"identity": {"hash": "redacted", "parts": ["redacted", "redacted"]}});
        assert_eq!(completed("redacted", redacted), "redacted");
    }
}
