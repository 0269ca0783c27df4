//! An agent that listens on loopback, the built binary against it, and what is around them: a directory with a
//! store and a key. All of it goes with its value.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// No step of a test waits longer; none is expected to come near it.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The experiment: one case, whose round takes a while.
pub const ECHO: [&str; 5] =
    ["selftest.echo", "--set", "selftest.echo.far=peer", "--set", "selftest.echo.messages=10000"];

/// Number of the signal that stops a process.
const STOP: i32 = 19;

/// A directory with a store and a key.
pub struct Lab {
    dir: TempDir,
}

/// A program that was started, and what it says. It is killed with its value.
pub struct Program {
    child: Child,
    log: PathBuf,
}

/// What a program answered.
#[derive(Debug)]
pub struct Answer {
    pub code: Option<i32>,
    pub said: String,
    pub took: Duration,
}

impl Lab {
    pub fn new() -> Lab {
        let lab = Lab { dir: tempfile::tempdir().unwrap() };
        lab.new_key("key");
        lab
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Makes a key file.
    pub fn new_key(&self, name: &str) {
        let answer = self.plumb(&["agent", "--new-key", &self.text(name)]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }

    /// Starts a command in this directory, with this store.
    pub fn start(&self, command: &mut Command) -> Program {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = self.path(&format!("{number}.log"));
        let out = File::create(&log).unwrap();
        let child = command
            .env("PLUMB_STORE", self.path("store"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        Program { child, log }
    }

    /// Runs the binary to its end.
    pub fn plumb(&self, args: &[&str]) -> Answer {
        self.start(Command::new(plumb()).args(args)).wait()
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
        self.start(Command::new(plumb()).args(self.against(address, &args)))
    }

    /// The same with so much time.
    pub fn start_echo_for(&self, address: SocketAddr, preset: &str, budget: &str) -> Program {
        let options = ["--preset", preset, "--budget", budget];
        let args = [&["run"], &ECHO[..], &options].concat();
        self.start(Command::new(plumb()).args(self.against(address, &args)))
    }

    /// A short run against an agent.
    pub fn rehearse(&self, address: SocketAddr) -> Answer {
        self.start_echo(address, "rehearsal").wait()
    }

    /// A plan against an agent.
    pub fn plan(&self, address: SocketAddr) -> Answer {
        let args = [&["plan"], &ECHO[..]].concat();
        let args = self.against(address, &args);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.plumb(&args)
    }

    /// An agent with the key of this directory, on a free port of loopback.
    pub fn agent(&self) -> (Program, SocketAddr) {
        let key = self.text("key");
        let args = ["agent", "--listen", "127.0.0.1:0", "--key-file", &key];
        let agent = self.start(Command::new(plumb()).args(args));
        let address = wait_for("the agent to listen", || {
            let said = agent.said();
            let (_, after) = said.split_once("127.0.0.1:")?;
            let (digits, _) = after.split_once(|c: char| !c.is_ascii_digit())?;
            format!("127.0.0.1:{digits}").parse().ok()
        });
        (agent, address)
    }

    /// The events of the last record.
    pub fn events(&self) -> Vec<Value> {
        let record = self.records().pop().expect("a run was stored");
        let text = fs::read_to_string(record).unwrap();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The records, the last one last.
    pub fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("store"));
        let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
        let mut records: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).collect();
        // Two of one second have names of which the later one's comes first.
        records.sort_by_key(|record| fs::metadata(record).unwrap().modified().unwrap());
        records
    }
}

impl Program {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal, by the shell's own `kill`.
    pub fn signal(&self, name: &str) {
        signal(name, self.pid());
    }

    /// Its end.
    pub fn wait(mut self) -> Answer {
        let begin = Instant::now();
        let code = wait_for("a program to end", || Some(self.child.try_wait().unwrap()?.code()));
        let said = self.said();
        assert!(!said.contains("panicked at"), "{said}");
        assert!(!said.contains("internal error"), "{said}");
        Answer { code, said, took: begin.elapsed() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary.
pub fn plumb() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_plumb"))
}

pub fn signal(name: &str, pid: u32) {
    let kill = format!("kill -{name} {pid}");
    let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(sent.success(), "{kill}");
}

/// Waits for something to be there.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        sleep(Duration::from_millis(5));
    }
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
        let text = fs::read_to_string(lab.records().pop()?).ok()?;
        text.contains("\"event\":\"round\"").then_some(())
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

/// Events of a kind.
pub fn of<'run>(events: &'run [Value], kind: &str) -> Vec<&'run Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

/// Rounds that count, and the reasons of those that do not.
pub fn rounds(events: &[Value]) -> (usize, Vec<String>) {
    let rounds = of(events, "round");
    let void = rounds
        .iter()
        .filter(|round| round["status"] == "void")
        .map(|round| round["reason"].as_str().unwrap().to_owned());
    let void: Vec<String> = void.collect();
    (rounds.len() - void.len(), void)
}

/// How it ended.
pub fn end(events: &[Value]) -> &str {
    let footer = of(events, "footer").pop().expect("the run has ended");
    footer["end"].as_str().unwrap()
}
