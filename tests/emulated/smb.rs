//! A kernel that mounts a share of an SMB server.

use crate::namespace::Namespace;
use crate::plumb::prelude::*;
use crate::{Served, events, part};

pub const SCRIPT: &str = "
mkdir -p /mnt/far
mount -t cifs -o vers=3.0,sec=none,ip=10.0.2.2 //10.0.2.2/exp /mnt/far
plumb run fs.remote --preset rehearsal --set fs.remote.path=/mnt/far --set fs.remote.mode=direct,cold,cached \
  --set fs.remote.size=1MiB --out /tmp/smb > /tmp/report 2>&1
echo \"smb=$?\"; cat /tmp/report
echo '[smb'; cat /tmp/smb; echo 'smb]'
echo '[left of smb'; ls /mnt/far; echo 'left of smb]'
umount /mnt/far
";

pub fn server(namespace: &Namespace) -> Served {
    Served::start(namespace, "smb", 445, |dir| {
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

pub fn check(printed: &str, server: &Served) {
    assert!(printed.contains("smb=0\n"), "{printed}");
    let events = events(printed, "smb");
    let latencies = samples_of(&events, "latency");
    assert_eq!(latencies.len(), 6);
    for one in latencies {
        assert_eq!(one["at"]["file_system"], "cifs");
        assert_eq!(one["at"]["server"], "10.0.2.2");
    }
    // Each file was made there, and none is left.
    assert_eq!(part(printed, "left of smb"), "");
    assert!(names(&server.dir.path().join("export")).is_empty());
}
