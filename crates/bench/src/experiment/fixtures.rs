//! Sites for tests.

pub mod joined;

use super::Site;
use host::{Core, Host, Root};
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
    }
}

/// A machine that tells nothing, one of the reports, and the recorded ones (a virtual machine, two
/// sockets, hybrid cores, Arm).
pub fn sites() -> Vec<Site> {
    let mut old = bare_site();
    old.host.kernel.virtualisation.is_guest = Some(false);
    old.host.cpu.model_name = Some("Intel(R) Core(TM) i7-3770K CPU @ 3.50GHz".to_owned());
    old.host.cpu.microarchitecture.core = Core::IvyBridge;
    old.host.kernel.release = Some("3.2.0-54-generic".to_owned());
    let names = ["vm-granite-rapids", "epyc-7763-2s", "alder-lake-hybrid", "graviton3"];
    let mut sites = vec![bare_site(), old];
    sites.extend(names.map(recorded));
    sites
}

/// A recorded machine.
pub fn recorded(name: &str) -> Site {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hosts");
    let root = Root::at(&hosts.join(name)).expect("the recorded host is in the repository");
    let host = Host::read(&root);
    Site { cpus: host.cpu.usable(), host, ..bare_site() }
}
