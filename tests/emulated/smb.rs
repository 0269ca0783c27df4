//! A machine whose kernel mounts a share of an SMB server beside its emulator.

use crate::guest::{self, CARD_UP, Machine};
use crate::plumb::prelude::*;
use crate::{Served, events, part};

const SCRIPT: &str = "
mkdir -p /mnt/far
mount -t cifs -o vers=3.0,sec=none,ip=10.0.2.2 //10.0.2.2/exp /mnt/far
plumb run fs.remote --preset rehearsal --set fs.remote.path=/mnt/far --set fs.remote.mode=direct,cold,cached \
  --set fs.remote.size=1MiB --out /tmp/record > /tmp/report 2>&1
echo \"run=$?\"
echo '[report'; cat /tmp/report; echo 'report]'
echo '[record'; cat /tmp/record; echo 'record]'
echo '[left'; ls /mnt/far; echo 'left]'
umount /mnt/far
";

/// A server on the loopback of a network namespace of its own.
fn server() -> Served {
    Served::start("cifs", None, 445, |dir| {
        let (export, at) = (dir.join("export"), dir.display());
        fs::create_dir(&export).unwrap();
        let configuration = format!(
            "[global]\nsmb ports = 445\ninterfaces = lo\nbind interfaces only = yes\n\
             disable netbios = yes\nmap to guest = Bad User\nguest account = root\nload printers = no\n\
             log file = {at}/samba.log\nstate directory = {at}\nprivate dir = {at}\nlock directory = {at}\n\
             cache directory = {at}\npid directory = {at}\nncalrpc dir = {at}/ncalrpc\n\
             [exp]\npath = {}\nguest only = yes\nguest ok = yes\nread only = no\n",
            export.display()
        );
        fs::write(dir.join("smb.conf"), configuration).unwrap();
        // A process namespace: what it forks goes with it.
        let line = format!(
            "unshare --pid --fork --kill-child smbd -F -s {at}/smb.conf --no-process-group"
        );
        line.split(' ').map(str::to_owned).collect()
    })
}

#[test]
#[cfg_attr(
    not(target_arch = "x86_64"),
    ignore = "the machine is an x86-64 one, which another architecture's binary does not run on"
)]
fn files_of_a_share_that_the_kernel_mounts_are_read_past_and_through_its_cache() {
    let server = server();
    let machine = Machine::with_card(&server.namespace.0);
    let printed = guest::run(&machine, &format!("{CARD_UP}{SCRIPT}"));
    println!("{}", part(&printed, "report"));
    assert!(printed.contains("run=0\n"), "{printed}");
    let events = events(&printed, "record");
    let latencies = samples_of(&events, "latency");
    assert_eq!(latencies.len(), 6);
    for one in latencies {
        assert_eq!(one["at"]["file_system"], "cifs");
        assert_eq!(one["at"]["server"], "10.0.2.2");
    }
    // Each file was made there, and none is left.
    assert_eq!(part(&printed, "left"), "");
    assert!(names(&server.dir.path().join("export")).is_empty());
}
