//! Files of an SMB server (Samba, over a directory of this machine) that libsmbclient reads.

use crate::lab::{Lab, SERVER, plumb};
use crate::plumb::prelude::*;
use crate::{check_reads, samples, take_events, text_of};

/// Where SMB servers are, and elsewhere.
const PORT: u16 = 445;
const OTHER_PORT: u16 = 4450;
/// Bytes of the file that is read.
const BYTES: usize = 1 << 20;
/// What root's password is on the server, and nowhere else.
const PASSWORD: &str = "only-in-the-laboratory";

/// A server of a share for guests, and of one for root.
fn serve(lab: &Lab) -> Program {
    let export = lab.export();
    fs::write(export.join("data"), crate::content(BYTES)).unwrap();
    let state = lab.path("samba");
    fs::create_dir(&state).unwrap();
    let (export, at) = (export.display(), state.display());
    let configuration = format!(
        "[global]\nsmb ports = {PORT} {OTHER_PORT}\ninterfaces = {SERVER}\nbind interfaces only = yes\n\
         disable netbios = yes\nmap to guest = Bad User\nguest account = root\nload printers = no\n\
         log file = {at}/log\nstate directory = {at}\nprivate dir = {at}\nlock directory = {at}\n\
         cache directory = {at}\npid directory = {at}\nncalrpc dir = {at}/ncalrpc\n\
         [exp]\npath = {export}\nguest only = yes\nguest ok = yes\nread only = no\n\
         [own]\npath = {export}\nvalid users = root\nread only = no\n"
    );
    let file = state.join("smb.conf");
    fs::write(&file, configuration).unwrap();
    let file = file.display();
    let server = format!(
        "printf '%s\\n%s\\n' {PASSWORD} {PASSWORD} | smbpasswd -c {file} -s -a root; \
         exec smbd -F -s {file} --no-process-group"
    );
    lab.serve("samba", &server, PORT)
}

fn read(lab: &Lab, before: &str, place: &str) -> Ended {
    let run = format!("run fs.remote --preset rehearsal --set 'fs.remote.path=smb://{place}'");
    lab.client(&format!("{before} {}", plumb(&run))).wait()
}

#[test]
fn a_file_is_read_without_a_mount_by_guests_and_by_those_who_have_its_password() {
    let lab = Lab::new();
    let _server = serve(&lab);
    for (before, place) in [
        ("", format!("{SERVER}/exp/data")),
        ("", format!("{SERVER}:{OTHER_PORT}/exp/data")),
        (&*format!("PASSWD={PASSWORD}"), format!("root@{SERVER}/own/data")),
    ] {
        let Ended { code, said, .. } = read(&lab, before, &place);
        assert_eq!(code, Some(0), "{said}");
        let events = take_events(&lab);
        check_reads(&events, BYTES, "libsmbclient.so.");
        let predictions = text_of(&events, "prediction");
        assert!(predictions.contains("a virtual link (eth0)"), "{predictions}");
        assert!(events.iter().all(|event| !event.to_string().contains(PASSWORD)), "{said}");
    }
    assert_eq!(names(&lab.export()), ["data"]);
    assert!(fs::read(lab.export().join("data")).unwrap() == crate::content(BYTES));

    // What cannot be read is refused with its reason.
    fs::create_dir(lab.export().join("directory")).unwrap();
    fs::write(lab.export().join("small"), [0; 100]).unwrap();
    for (place, word) in [
        ("exp/directory", "directory"),
        ("exp/small", "100 B"),
        ("exp/none", "No such file"),
        ("none/data", "os error"),
        ("own/data", "os error"),
    ] {
        let Ended { code, said, .. } = read(&lab, "", &format!("{SERVER}/{place}"));
        let events = take_events(&lab);
        assert_eq!(samples(&events, "latency").len(), 0, "{place}: {said}");
        assert_ne!(code, Some(0), "{place}: {said}");
        assert!(said.contains(word), "{place}: {said}");
    }
}

/// See [`crate::check_lost`].
fn check_lost(end: fn(&mut Program)) {
    let lab = Lab::new();
    let mut server = serve(&lab);
    crate::check_lost(&lab, &mut server, end, &format!("smb://{SERVER}/exp/data"));
}

#[test]
fn a_server_that_does_not_answer_any_more_costs_its_time_out_and_no_more() {
    check_lost(|server| server.hold());
}

#[test]
fn a_server_that_is_killed_fails_its_cases_and_the_run_goes_on() {
    check_lost(Program::kill);
}
