//! Machines for tests: a directory on a disk of some kind.

use bench::experiment::fixtures::bare_site;
use bench::experiment::{DirFacts, Site};
use host::{Host, Root};

/// A site with a directory on ext4 in which a run may write so much.
pub(super) fn with_dir(site: Site, path: &str, allowance_bytes: u64) -> Site {
    let (path, file_system) = (path.into(), "ext4".to_owned());
    Site { dir: Some(DirFacts { path, file_system, allowance_bytes }), ..site }
}

/// The same on a disk: its name, whether it spins. What a hypervisor makes has no model.
pub(super) fn on_disk(name: &str, spins: bool, allowance_bytes: u64) -> Site {
    let model = match name {
        "vda" => String::new(),
        _ => format!("== sys/block/{name}/device/model\nX\n"),
    };
    let tree = format!(
        "== sys/block/{name}/size\n2000000000\n== sys/block/{name}/dev\n8:0\n{model}\
         == sys/block/{name}/queue/rotational\n{}\n== sys/block/{name}/queue/read_ahead_kb\n128\n\
         == sys/block/{name}/queue/write_cache\nwrite back\n== sys/block/{name}/queue/fua\n0\n\
         == proc/self/mountinfo\n22 1 8:0 / / rw - ext4 /dev/{name} rw\n\
         23 22 0:9 / /tmp rw - tmpfs tmpfs rw\n",
        u8::from(spins)
    );
    let site = Site { host: Host::read(&Root::tree(&tree)), ..bare_site() };
    with_dir(site, "/x", allowance_bytes)
}
