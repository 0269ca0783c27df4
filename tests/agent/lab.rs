//! An agent that listens on loopback, the built binary against it, and what is around them: a
//! directory with a store and a key. All of it goes with its value.

use crate::plumb::prelude::*;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::unix::fs::chown;

/// No step of a test waits longer; none is expected to come near it.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The experiment: one case, whose round takes a while.
pub const ECHO: [&str; 5] =
    ["selftest.echo", "--set", "selftest.echo.far=peer", "--set", "selftest.echo.messages=10000"];

/// What starts an agent; the key's file follows.
const AGENT: [&str; 4] = ["agent", "--listen", "127.0.0.1:0", "--key-file"];
/// Number of the signal that stops a process.
const STOP: i32 = 19;

/// A directory with a store and a key.
pub struct Lab {
    here: Here,
}

impl Lab {
    pub fn new() -> Lab {
        let lab = Lab { here: Here::new() };
        lab.new_key("key");
        lab
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn new_key(&self, name: &str) {
        self.ends(0, &["agent", "--new-key", &self.text(name)]);
    }

    /// Runs the binary to an end with this exit status.
    #[track_caller]
    pub fn ends(&self, code: i32, args: &[&str]) -> Ended {
        self.start(&mut self.command(args)).ends(code)
    }

    pub fn plumb(&self, args: &[&str]) -> Ended {
        self.start(&mut self.command(args)).wait()
    }

    /// Arguments of a run against an address, for all of which the key of this directory holds.
    fn against(&self, address: SocketAddr, args: &[&str]) -> Vec<String> {
        let peer = ["--peer".to_owned(), format!("tcp://{address}")];
        let key = ["--key-file".to_owned(), self.text("key")];
        let args = args.iter().map(|arg| (*arg).to_owned());
        args.chain(peer).chain(key).collect()
    }

    /// Starts a run of [`ECHO`] against an agent.
    pub fn start_echo(&self, address: SocketAddr, preset: &str) -> Program {
        let args = [&["run"], &ECHO[..], &["--preset", preset]].concat();
        self.start(self.other(PLUMB).args(self.against(address, &args)))
    }

    /// The same with so much time.
    pub fn start_echo_for(&self, address: SocketAddr, preset: &str, budget: &str) -> Program {
        let options = ["--preset", preset, "--budget", budget];
        let args = [&["run"], &ECHO[..], &options].concat();
        self.start(self.other(PLUMB).args(self.against(address, &args)))
    }

    /// A short run against an agent.
    pub fn rehearse(&self, address: SocketAddr) -> Ended {
        self.start_echo(address, "rehearsal").wait()
    }

    /// Continues the last run against an agent; the record names the key.
    pub fn resume(&self, address: SocketAddr) -> Ended {
        let peer = format!("tcp://{address}");
        self.start(self.other(PLUMB).args(["run", "--resume", "last", "--peer", &peer])).wait()
    }

    pub fn rehearse_family(&self, family: &str, address: SocketAddr) -> Ended {
        let args = self.against(address, &["run", family, "--preset", "rehearsal"]);
        self.start(self.other(PLUMB).args(args)).wait()
    }

    pub fn plan(&self, address: SocketAddr) -> Ended {
        let args = [&["plan"], &ECHO[..]].concat();
        let args = self.against(address, &args);
        self.start(self.other(PLUMB).args(args)).wait()
    }

    /// An agent with the key of this directory, on a free port of loopback; of another user where
    /// `PLUMB_TEST_AGENT_UID` names one: root runs all of these tests so as nobody's.
    pub fn agent(&self) -> (Program, SocketAddr) {
        match std::env::var("PLUMB_TEST_AGENT_UID") {
            Ok(uid) => self.agent_of(&uid),
            Err(_) => listening(self.start(self.other(PLUMB).args(AGENT).arg(self.path("key")))),
        }
    }

    /// The same of another user, with a copy of the key and of the program that are the user's.
    /// Only root can start it.
    pub fn agent_of(&self, uid: &str) -> (Program, SocketAddr) {
        let (key, program) = (self.path("others-key"), self.path("others-plumb"));
        let number = uid.parse().unwrap();
        if !key.exists() {
            fs::copy(self.path("key"), &key).unwrap();
            fs::copy(PLUMB, &program).unwrap();
        }
        chown(&key, Some(number), Some(number)).unwrap();
        mode(key.parent().unwrap(), 0o711);
        let user = ["--reuid", uid, "--regid", uid, "--clear-groups", "--no-new-privs"];
        let mut command = self.other("setpriv");
        listening(self.start(command.args(user).arg(program).args(AGENT).arg(key)))
    }

    /// The whole events of the last record.
    pub fn events(&self) -> Vec<Value> {
        whole_events(&self.record())
    }
}

impl Deref for Lab {
    type Target = Here;

    fn deref(&self) -> &Here {
        &self.here
    }
}

fn listening(agent: Program) -> (Program, SocketAddr) {
    let address = wait_for("the agent to listen", || {
        let said = agent.said();
        let (_, after) = said.split_once("127.0.0.1:")?;
        let (digits, _) = after.split_once(|c: char| !c.is_ascii_digit())?;
        format!("127.0.0.1:{digits}").parse().ok()
    });
    (agent, address)
}

impl Program {
    #[track_caller]
    pub fn wait(self) -> Ended {
        self.ended_within(PATIENCE)
    }

    /// Its end, with this exit status.
    #[track_caller]
    pub fn ends(self, code: i32) -> Ended {
        let ended = self.wait();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        ended
    }
}

#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, look)
}

/// Processes that a process made, with those that these made, that have not ended.
pub fn offspring(pid: u32) -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            // Fields after the name, which may hold anything: state, parent.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (_, fields) = stat.rsplit_once(") ")?;
            let mut fields = fields.split(' ');
            let is_over = fields.next() == Some("Z");
            (!is_over).then_some((pid, fields.next()?.parse().ok()?))
        })
        .collect();
    let mut found = BTreeSet::from([pid]);
    loop {
        let more: Vec<u32> = parents
            .iter()
            .filter(|(child, parent)| found.contains(parent) && !found.contains(child))
            .map(|(child, _)| *child)
            .collect();
        if more.is_empty() {
            found.remove(&pid);
            return found;
        }
        found.extend(more);
    }
}

/// Waits until a round of the run has ended and another one is under way.
pub fn is_measuring(lab: &Lab) {
    wait_for("a round", || {
        let events = whole_events(&lab.records().pop()?);
        events.iter().any(|event| is(event, "round")).then_some(())
    });
}

/// Stops the far end's worker in the middle of a round.
pub fn halted(agent: &Program, lab: &Lab) -> u32 {
    is_measuring(lab);
    // It is tied to its agent before it offers itself to the OOM killer.
    let is_up = |pid: &u32| {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        read("cmdline").starts_with(b"plumb\0worker\0") && read("oom_score_adj") == b"1000\n"
    };
    wait_for("a worker at the far end", || {
        let worker = offspring(agent.pid()).into_iter().find(is_up)?;
        // Its round may be over by now.
        let _ = metal::process::kill(worker, STOP);
        let stat = fs::read_to_string(format!("/proc/{worker}/stat")).ok()?;
        stat.contains(") T ").then_some(worker)
    })
}

/// Whether a process is there, and not over.
pub fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Rounds that count, and the reasons of those that do not.
pub fn rounds(events: &[Value]) -> (usize, Vec<String>) {
    let rounds = events_of_kind(events, "round");
    let void = rounds
        .iter()
        .filter(|round| round["status"] == "void")
        .map(|round| round["reason"].as_str().unwrap().to_owned());
    let void: Vec<String> = void.collect();
    (rounds.len() - void.len(), void)
}
