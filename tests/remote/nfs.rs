//! Files of an NFS server (Ganesha, over a directory of this machine) that libnfs reads.

use crate::lab::{Lab, SERVER};
use crate::plumb::prelude::*;
use crate::{check_reads, quantity, samples, take_events, text_of};
use std::os::unix::fs::MetadataExt;

const PORT: u16 = 2049;
/// Bytes of the file that is read.
const BYTES: usize = 1 << 20;

/// A server of these versions of the protocol; 3 needs a port mapper.
fn serve(lab: &Lab, versions: &str) -> Program {
    let (export, recovery) = (lab.export(), lab.path("recovery"));
    fs::create_dir_all(&recovery).unwrap();
    fs::write(export.join("data"), crate::content(BYTES)).unwrap();
    // In a container root lacks CAP_SYS_RESOURCE, which Ganesha 6 asks for unless it may do without.
    let configuration = format!(
        "NFS_KRB5 {{ Active_krb5 = false; }}\n\
         NFS_CORE_PARAM {{ Protocols = {versions}; NFS_Port = {PORT}; MNT_Port = 20048; \
         Bind_addr = {SERVER}; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; \
         mount_path_pseudo = true; allow_set_io_flusher_fail = true; }}\n\
         NFSv4 {{ Grace_Period = 1; Lease_Lifetime = 10; RecoveryRoot = {}; Only_Numeric_Owners = true; }}\n\
         EXPORT {{ Export_Id = 1; Path = {}; Pseudo = /exp; Access_Type = RW; Squash = No_Root_Squash; \
         SecType = sys; Protocols = {versions}; Transports = TCP; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = EVENT; }}\n",
        recovery.display(),
        export.display()
    );
    let file = lab.path("ganesha.conf");
    fs::write(&file, configuration).unwrap();
    let mapper = match versions.contains('3') {
        // The server registers itself once, when it starts.
        true => format!(
            "rpcbind -w -f -h {SERVER} & \
             until (exec 3<>/dev/tcp/{SERVER}/111) 2>/dev/null; do sleep 0.05; done; "
        ),
        false => String::new(),
    };
    let server = format!(
        "{mapper}exec ganesha.nfsd -F -f {} -L /dev/stderr -p /run/ganesha.pid",
        file.display()
    );
    lab.serve("ganesha", &server, PORT)
}

/// One run against the file: both patterns, and everything that stands beside them.
fn check_run(lab: &Lab, version: u32) {
    let Ended { code, said, .. } = lab.plumb(&format!(
        "run fs.remote --preset rehearsal --set 'fs.remote.path=nfs://{SERVER}/exp/data?version={version}'"
    ));
    assert_eq!(code, Some(0), "{said}");
    let events = take_events(lab);
    check_reads(&events, BYTES, "libnfs.so.");
    for one in samples(&events, "latency") {
        assert_eq!(quantity(one, "nfs_version"), f64::from(version));
    }
    let predictions = text_of(&events, "prediction");
    assert!(predictions.contains("a virtual link (eth0)"), "{predictions}");
}

#[test]
fn a_file_is_read_without_a_mount_and_never_written() {
    let lab = Lab::new();
    let _server = serve(&lab, "3,4");
    let file = lab.export().join("data");
    let before = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().mtime_nsec());
    check_run(&lab, 4);
    check_run(&lab, 3);
    assert_eq!(names(&lab.export()), ["data"]);
    let after = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().mtime_nsec());
    assert!(before == after);

    // What is no file of a size that can be read is refused with its reason.
    fs::create_dir(lab.export().join("directory")).unwrap();
    fs::write(lab.export().join("small"), [0; 100]).unwrap();
    let pipe = lab.export().join("pipe");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    for (name, word) in
        [("directory", "ISDIR"), ("pipe", "INVAL"), ("small", "100 B"), ("none", "NOENT")]
    {
        let Ended { code, said, .. } = lab.plumb(&format!(
            "run fs.remote --preset rehearsal --set 'fs.remote.path=nfs://{SERVER}/exp/{name}?version=4'"
        ));
        let events = take_events(&lab);
        assert_eq!(samples(&events, "latency").len(), 0, "{name}: {said}");
        assert_ne!(code, Some(0), "{name}: {said}");
        assert!(said.contains(word), "{name}: {said}");
    }
}

/// See [`crate::check_lost`].
fn check_lost(end: fn(&mut Program)) {
    let lab = Lab::new();
    let mut server = serve(&lab, "4");
    crate::check_lost(&lab, &mut server, end, &format!("nfs://{SERVER}/exp/data?version=4"));
}

#[test]
fn a_server_that_does_not_answer_any_more_costs_its_time_out_and_no_more() {
    check_lost(|server| server.hold());
}

#[test]
fn a_server_that_is_killed_fails_its_cases_and_the_run_goes_on() {
    check_lost(Program::kill);
}
