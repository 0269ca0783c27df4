//! A mounted file system of another machine: SSHFS, with a server of its own.

use crate::lab::{Lab, SERVER, plumb};
use crate::plumb::prelude::*;
use crate::{lost_rounds, measured, quantity, samples, take_events, text_of};
use std::os::unix::fs::symlink;

const PORT: u16 = 2222;
/// What statfs(2) calls FUSE (linux/magic.h).
const FUSE_MAGIC: f64 = 1_702_057_286.0;

/// A server with throw-away keys that serves files and nothing else.
fn serve(lab: &Lab) -> Program {
    for name in ["host", "id"] {
        let key = lab.path(name);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key)
            .status();
        assert!(made.expect("scripts/test installs openssh").success());
    }
    let dir = lab.path("").display().to_string();
    let configuration = format!(
        "Port {PORT}\nListenAddress {SERVER}\nHostKey {dir}host\nAuthorizedKeysFile {dir}id.pub\n\
         PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         UsePAM no\nStrictModes no\nPidFile none\nSubsystem sftp internal-sftp\n"
    );
    fs::write(lab.path("sshd_config"), configuration).unwrap();
    let client = format!(
        "Host {SERVER}\nPort {PORT}\nUser root\nIdentityFile {dir}id\nIdentitiesOnly yes\n\
         StrictHostKeyChecking no\nUserKnownHostsFile {dir}known\nLogLevel ERROR\n"
    );
    fs::write(lab.path("ssh_config"), client).unwrap();
    fs::create_dir(lab.path("mnt")).unwrap();
    let server = format!("mkdir -p /run/sshd; exec /usr/sbin/sshd -D -e -f {dir}sshd_config");
    lab.serve("sshd", &server, PORT)
}

/// Mounts, runs plumb with these arguments on a place below the mount, and takes the mount away.
/// Newer clients let links lead out of it only where they are told to, which older ones do without
/// an option.
fn mounted(lab: &Lab, place: &str, arguments: &str) -> Program {
    let dir = lab.path("").display().to_string();
    let export = lab.export().display().to_string();
    let script = format!(
        "sshfs -F {dir}ssh_config -o no_contain_symlinks {SERVER}:{export} {dir}mnt \
         || sshfs -F {dir}ssh_config {SERVER}:{export} {dir}mnt || exit 99\n\
         {} --set fs.remote.path={dir}mnt{place}\n\
         code=$?\n\
         umount -l {dir}mnt\n\
         exit $code",
        plumb(arguments)
    );
    lab.client(&script)
}

#[test]
fn files_below_a_mount_are_made_read_and_removed() {
    let lab = Lab::new();
    let _server = serve(&lab);
    let Ended { code, said, .. } = mounted(
        &lab,
        "",
        "run fs.remote --preset rehearsal --set fs.remote.mode=direct,cold,cached",
    )
    .wait();
    assert_eq!(code, Some(0), "{said}");
    let events = take_events(&lab);
    let latencies = samples(&events, "latency");
    assert_eq!(latencies.len(), 6, "{said}");
    for one in latencies {
        assert_eq!(quantity(one, "statfs_magic"), FUSE_MAGIC);
        let notes = one["notes"].to_string();
        match one["case"]["mode"] == "cached" {
            true => assert!(notes.contains("page cache"), "{notes}"),
            false => assert!(notes.contains("128 KiB"), "{notes}"),
        }
    }
    assert_eq!(samples(&events, "rpc_rtt").len(), 0);
    // The mount's type, options and link stand beside the figures.
    let all: String = events.iter().map(|event| format!("{event}\n")).collect();
    for fact in [
        "\"file_system\":\"fuse.sshfs\"",
        "\"mount_options\":\"rw,",
        "\"interface\":\"eth0\"",
        "\"link\":\"virtual\"",
        "\"server\":\"10.78.1.1\"",
    ] {
        assert!(all.contains(fact), "{fact}\n{all}");
    }
    let predictions = text_of(&events, "prediction");
    assert!(predictions.contains("fuse.sshfs"), "{predictions}");
    assert!(names(&lab.export()).is_empty(), "{:?}", names(&lab.export()));
}

#[test]
fn a_server_that_is_killed_costs_its_cases_and_the_run_goes_on() {
    let lab = Lab::new();
    let mut server = serve(&lab);
    let run = mounted(&lab, "", "run fs.remote clock.read --preset quick");
    lab.wait_for_round("fs.remote");
    server.kill();
    let Ended { code, said, .. } = run.wait();
    println!("{code:?}: {said}");
    let events = take_events(&lab);
    assert_eq!(lost_rounds(&events, "fs.remote"), 3, "{said}");
    assert!(measured(&events, "clock.read"), "{said}");
}

/// A link on the server that leads to a place of the client's: its path lies below the mount, its
/// files do not.
#[test]
fn a_link_that_leads_back_to_this_machine_is_no_remote_place() {
    let lab = Lab::new();
    let _server = serve(&lab);
    let elsewhere = lab.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, lab.export().join("link")).unwrap();
    let Ended { code, said, .. } =
        mounted(&lab, "/link", "run fs.remote --preset rehearsal").wait();
    let events = take_events(&lab);
    assert_eq!(samples(&events, "latency").len(), 0, "{said}");
    assert_ne!(code, Some(0), "{said}");
    assert!(names(&elsewhere).is_empty(), "{:?}", names(&elsewhere));
}

#[test]
fn what_is_not_remote_is_refused_with_the_way_out() {
    let lab = Lab::new();
    for (path, word) in [
        ("/usr", "is on this machine"),
        ("/dev/null", "a device or a special file"),
        ("somewhere", "must be an absolute path"),
        ("smb://server/share/file", "does not open smb:// itself: mount it (`mount -t cifs"),
        ("nfs://server/exp/file", "does not open nfs:// itself: mount it (`mount -t nfs"),
        ("none", "no remote path was given"),
    ] {
        let Ended { said, .. } = lab.plumb(&format!("plan fs.remote --set fs.remote.path={path}"));
        assert!(said.contains(word), "{path}: {said}");
        assert!(said.contains("--set fs.remote.path="), "{path}: {said}");
    }
}
