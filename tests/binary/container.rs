//! As in a container without privileges: as user nobody, without /sys, with a root that cannot be written.

use crate::plumb::prelude::*;

/// Hides and locks what such a container hides and locks, shows plumb in the only place that can be
/// written, and becomes nobody without any capability.
const APART: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=1777,size=256m tmpfs /mnt
touch /mnt/plumb
mount --bind "$PLUMB" /mnt/plumb
mount -t tmpfs -o ro tmpfs /sys
mount -o remount,bind,ro /
if touch /mine 2>/dev/null; then exit 9; fi
cd /mnt
exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
  env -i PATH=/usr/bin:/bin HOME=/mnt TMPDIR=/mnt PLUMB_STORE=/mnt/store /bin/sh -c "$RUN"
"#;
const RUN: &str = "./plumb run clock cpu.call memory.latency os.syscall os.process noise.activity fs.io \
                   net.rtt --preset rehearsal --yes --quiet --out /mnt/it.jsonl >/dev/null && cat /mnt/it.jsonl";

#[test]
fn a_container_without_privileges_costs_only_what_it_hides() {
    let here = Here::new();
    let root = metal::process::geteuid() == 0;
    let may_mount =
        || here.other("unshare").args(["--mount", "true"]).status().is_ok_and(|of| of.success());
    if !root || !may_mount() {
        return skips::test("root");
    }
    let mut command = here.other("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", APART]);
    command.env("PLUMB", PLUMB).env("RUN", RUN);
    let ended = ends(0, command);
    fs::write(here.path("it.jsonl"), &ended.out).unwrap();
    let events = events(&here.path("it.jsonl"));
    let mut measured = std::collections::BTreeSet::new();
    for outcome in events.iter().filter(|event| event["event"] == "outcome") {
        let (id, reason) =
            (outcome["experiment"].as_str().unwrap(), outcome["reason"].as_str().unwrap());
        match outcome["outcome"].as_str().unwrap() {
            "measured" => drop(measured.insert(id.to_owned())),
            "skipped" => assert!(!reason.is_empty(), "{outcome}"),
            _ => panic!("{outcome}"),
        }
    }
    for id in ["clock.read", "cpu.call", "memory.latency", "os.syscall", "os.process", "net.rtt"] {
        assert!(measured.contains(id), "{id}: {measured:?}");
    }
    assert!(!Path::new("/mnt/it.jsonl").exists(), "it stayed apart");
}
