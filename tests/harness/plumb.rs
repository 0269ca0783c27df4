//! Running the built binary in a directory of its own, and reading the records that it writes: what
//! all crates of integration tests share.

use record::seal::resealed;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// No step of a test waits longer; none is expected to come near it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A directory with a store of its own.
pub struct Here {
    dir: TempDir,
    /// Where its plumbs see each other.
    lock: TempDir,
}

/// What the binary answered.
#[derive(Debug)]
pub struct Answer {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// How the names of what this process makes outside its directories begin: what kind of thing, the
/// process's PID namespace, and its number there.
pub fn own_name(kind: &str) -> String {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
    let namespace: String =
        namespace.to_str().unwrap().chars().filter(char::is_ascii_digit).collect();
    format!("plumb-{kind}-{namespace}-{}", std::process::id())
}

/// What processes left in a directory under such names: killed ones, for others clean up.
pub fn left(dir: &Path, kind: &str) -> Vec<PathBuf> {
    let own = own_name(kind);
    let (begin, _) = own.rsplit_once('-').unwrap();
    let is_left = |name: &String| {
        let number = name.strip_prefix(begin).and_then(|rest| rest.split('-').nth(1)?.parse().ok());
        number.is_some_and(|number: u32| !Path::new("/proc").join(number.to_string()).exists())
    };
    names(dir).into_iter().filter(is_left).map(|name| dir.join(name)).collect()
}

impl Here {
    pub fn new() -> Self {
        let temporary = std::env::temp_dir();
        static CLEAN_UP: Once = Once::new();
        CLEAN_UP.call_once(|| {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            for dir in left(&temporary, "test") {
                if !mounts.contains(dir.to_str().unwrap()) {
                    let _ = fs::remove_dir_all(dir);
                }
            }
        });
        let dir = || tempfile::Builder::new().prefix(&(own_name("test") + "-")).tempdir().unwrap();
        Here { dir: dir(), lock: dir() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new directory, as text for an argument.
    pub fn make_dir(&self, name: &str) -> String {
        fs::create_dir(self.path(name)).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The binary with this store, in this directory, with nothing to read.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.other(env!("CARGO_BIN_EXE_plumb"));
        command.args(args);
        command
    }

    /// Another program under the same conditions.
    pub fn other(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("PLUMB_STORE", self.path("store"))
            // Tests run beside each other, and beside whatever measures here.
            .env("PLUMB_LOCK", self.lock.path().join("lock"))
            .env_remove("NO_COLOR")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The binary once its process is in a control group, with its arguments as a shell takes them.
    pub fn in_group(&self, group: &Path, args: &str) -> Command {
        let (procs, plumb) = (group.join("cgroup.procs"), env!("CARGO_BIN_EXE_plumb"));
        let mut shell = self.other("sh");
        shell.args(["-c", &format!("echo $$ > {}; exec {plumb} {args}", procs.display())]);
        shell
    }

    /// Runs it to its end; a panic's text is never an answer.
    pub fn plumb(&self, args: &[&str]) -> Answer {
        answer(self.command(args).output().unwrap())
    }

    /// Runs it to an end with this exit status.
    #[track_caller]
    pub fn ends(&self, code: i32, args: &[&str]) -> Answer {
        let answer = self.plumb(args);
        assert_eq!(answer.code, Some(code), "{args:?}: {answer:?}");
        answer
    }

    /// Runs a measurement that must end well, and returns its record.
    #[track_caller]
    pub fn measure(&self, args: &[&str]) -> Vec<Value> {
        self.ends(0, &[&["run"], args].concat());
        events(&self.record())
    }

    /// Nothing of a run is left in a directory for files, and nothing in the journal.
    #[track_caller]
    pub fn is_clean(&self, files: &str) {
        assert_eq!(self.entries(files), [""; 0]);
        assert_eq!(self.entries("store/journal"), [""; 0]);
    }

    /// The records in the store, the last one last.
    pub fn records(&self) -> Vec<PathBuf> {
        records(&self.path("store"))
    }

    /// Starts a command with a log of what it says.
    pub fn start(&self, command: &mut Command) -> Program {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = self.path(&format!("{number}.log"));
        let out = File::create(&log).unwrap();
        let child = command.stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
        Program { child, log }
    }

    /// The last record of the store.
    pub fn record(&self) -> PathBuf {
        self.records().pop().expect("a run was stored")
    }

    /// The last record once it is there and has an event that fits.
    pub fn wait_for(&self, fits: impl Fn(&Value) -> bool) {
        wait_for("an event in the record", || {
            whole_events(&self.records().pop()?).iter().any(&fits).then_some(())
        });
    }

    /// The events of the last record, which has its end.
    #[track_caller]
    pub fn complete(&self) -> Vec<Value> {
        let events = events(&self.record());
        assert_eq!(end(&events), "complete");
        events
    }

    /// Entries of a directory.
    pub fn entries(&self, name: &str) -> Vec<String> {
        names(&self.path(name))
    }
}

/// The names in a directory, sorted; none where there is no directory.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The records of a store, the last one last: two of one second have names of which the later one's
/// comes first.
pub fn records(store: &Path) -> Vec<PathBuf> {
    let mut records: Vec<PathBuf> = names(store)
        .iter()
        .filter(|name| name.ends_with(".jsonl"))
        .map(|name| store.join(name))
        .collect();
    records.sort_by_key(|record| fs::metadata(record).unwrap().modified().unwrap());
    records
}

/// A program that was started, and what it says. It is killed with its value.
pub struct Program {
    child: Child,
    log: PathBuf,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub said: String,
    pub took: Duration,
}

impl Program {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn signal(&self, name: &str) {
        signal(name, self.pid());
    }

    /// Its end, which comes within a time.
    #[track_caller]
    pub fn ended_within(mut self, patience: Duration) -> Ended {
        let begin = Instant::now();
        let code = wait_within(patience, "a program to end", || {
            Some(self.child.try_wait().unwrap()?.code())
        });
        let said = self.said();
        assert!(!said.contains("panicked at"), "{said}");
        assert!(!said.contains("internal error"), "{said}");
        Ended { code, said, took: begin.elapsed() }
    }

    /// Ends it. It may have ended by itself.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn answer(output: Output) -> Answer {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what is printed is UTF-8");
    let answer =
        Answer { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
    for printed in [&answer.out, &answer.err] {
        assert!(!printed.contains("panicked at"), "{answer:?}");
        assert!(!printed.contains("RUST_BACKTRACE"), "{answer:?}");
    }
    answer
}

/// A user that nobody else is, whose processes alone count for its limit.
pub struct Stranger {
    user: u32,
}

impl Stranger {
    /// `None` where this process may not act as another user; only root may, and root alone is
    /// exempt from the limit on processes.
    pub fn new() -> Option<Stranger> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Each test has its own, and each of several runs of the tests too.
        let number = 16 * std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed);
        (metal::process::geteuid() == 0).then_some(Stranger { user: 60_000 + number % 5000 })
    }

    /// Runs the binary as this user, who may have so many processes and threads.
    pub fn plumb(&self, here: &Here, processes: u32, args: &[&str]) -> Answer {
        // The binary's own directory may be closed to others.
        let copy = here.path("plumb");
        // By another process: a child that another test makes meanwhile would hold this one's open
        // for writing, and what is written cannot be run.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_plumb")).arg(&copy).status();
        assert!(copied.unwrap().success());
        for path in [here.path(""), copy.clone()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o1777)).unwrap();
        }
        let line = format!("ulimit -u {processes}; exec \"$0\" \"$@\"");
        let mut command = here.other("bash");
        // The other groups go with root: the standard library drops them.
        command.args(["-c", &line]).arg(copy).args(args).uid(self.user).gid(self.user);
        answer(command.output().unwrap())
    }

    /// Waits until none of this user's processes is left, zombies included.
    pub fn has_gone(&self) {
        wait_for("the end of the user's processes", || {
            let left = processes(|pid| {
                let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
                let line = status.lines().find(|line| line.starts_with("Uid:"))?;
                Some(line.split_whitespace().nth(1)?.parse() == Ok(self.user))
            });
            left.is_empty().then_some(())
        });
    }
}

/// Waits until nothing is left in the session that a worker began, zombies included: all that it
/// made has ended and is reaped.
pub fn session_is_empty(worker: u32) {
    wait_for("the end of what a worker made", || {
        let left = processes(|pid| {
            // Fields after the name, which may hold anything: state, parent, group, session.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (_, fields) = stat.rsplit_once(") ")?;
            Some(fields.split(' ').nth(3)?.parse() == Ok(worker))
        });
        left.is_empty().then_some(())
    });
}

fn processes(fits: impl Fn(u32) -> Option<bool>) -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| fits(*pid) == Some(true))
        .collect()
}

/// The events of a record that is being written: all whole lines.
pub fn whole_events(record: &Path) -> Vec<Value> {
    let text = fs::read_to_string(record).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(event).collect()
}

/// The event of a line, each sample in its `values`: a record lists many as multiples of a step.
pub fn event(line: &str) -> Value {
    let mut event: Value = serde_json::from_str(line).expect("a line of JSON");
    event.as_object_mut().map(|members| members.remove("crc"));
    let Some(step) = event["step"].as_f64() else { return event };
    let own = event.as_object_mut().unwrap();
    own.remove("step");
    let (steps, ascending) = (own.remove("steps"), own.remove("ascending"));
    let is_ascending = ascending.is_some();
    let counts = steps.or(ascending).unwrap();
    let mut sum = 0.0;
    let values = counts.as_array().unwrap().iter().map(|count| {
        let count = count.as_f64().unwrap();
        sum = if is_ascending { sum + count } else { count };
        sum * step
    });
    own.insert("values".to_owned(), values.collect());
    event
}

/// The lines of a record of these events, which a test changed, each with its checksum.
pub fn lines<'run>(events: impl IntoIterator<Item = &'run Value>) -> String {
    let sealed = events.into_iter().map(|event| {
        let mut event = event.clone();
        event.as_object_mut().map(|members| members.remove("crc"));
        resealed(&format!("{event}\n"))
    });
    sealed.collect()
}

/// The events of a record, each line of which must parse.
pub fn events(record: &Path) -> Vec<Value> {
    let text = fs::read_to_string(record).unwrap();
    assert!(text.ends_with('\n'), "{} ends with a line", record.display());
    text.lines().map(event).collect()
}

/// Events of a kind.
pub fn of<'run>(events: &'run [Value], kind: &str) -> Vec<&'run Value> {
    events.iter().filter(|event| is(event, kind)).collect()
}

pub fn is(event: &Value, kind: &str) -> bool {
    event["event"] == kind
}

/// Numbers of rounds of a series that count, and that do not.
pub fn rounds(events: &[Value], series: &str) -> (usize, usize) {
    let of_series: Vec<&Value> =
        of(events, "round").into_iter().filter(|round| round["series"] == series).collect();
    let ok = of_series.iter().filter(|round| round["status"] == "ok").count();
    (ok, of_series.len() - ok)
}

/// How the run ended.
pub fn end(events: &[Value]) -> &str {
    let footer = events.last().expect("a record has events");
    assert!(is(footer, "footer"), "the last event is {footer}");
    footer["end"].as_str().unwrap()
}

/// Sends a signal, by the shell's own `kill`.
pub fn signal(name: &str, pid: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// The live workers of a session: they carry its process id as their argument. A zombie has none.
pub fn workers(session: u32) -> Vec<u32> {
    let line = format!("plumb\0worker\0{session}\0");
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|have| have == line.as_bytes())
        })
        .collect()
}

/// A worker of a session, once there is one.
pub fn wait_for_worker(session: u32) -> u32 {
    wait_for("a worker", || workers(session).first().copied())
}

/// Workers die with their session, but not in the same instant.
pub fn no_worker_stays(session: u32) {
    wait_for("the last worker's end", || workers(session).is_empty().then_some(()));
}

/// Waits for the end of a child and takes what it printed.
pub fn ended(child: Child) -> Answer {
    answer(child.wait_with_output().unwrap())
}

/// As [`ended`], with this exit status.
#[track_caller]
pub fn ended_with(code: i32, child: Child) -> Answer {
    let answer = ended(child);
    assert_eq!(answer.code, Some(code), "{answer:?}");
    answer
}

/// Asks until there is an answer.
pub fn wait_for<T>(what: &str, ready: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, ready)
}

/// As [`wait_for`], where an answer may take longer.
pub fn wait_within<T>(patience: Duration, what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A control group with a share of one CPU; removed on drop.
pub struct Quota(pub PathBuf);

impl Quota {
    /// So many percent in periods of so many µs. `None` where this process may make none.
    pub fn percent(percent: u32, period_us: u32) -> Option<Quota> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        // Version 1, else version 2.
        let mounted = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(PathBuf::from);
        let mount = mounted.into_iter().find(|mount| mount.join("cgroup.procs").exists())?;
        for of_a_killed_one in left(&mount, "quota") {
            let _ = fs::remove_dir(of_a_killed_one);
        }
        let group = Quota(mount.join(format!("{}-{number}", own_name("quota"))));
        fs::create_dir(&group.0).ok()?;
        // Only the kernel makes these files, where the controller is there.
        let write = |file: &str, text: String| {
            let path = group.0.join(file);
            path.exists().then(|| fs::write(path, text).ok())?
        };
        let quota_us = period_us / 100 * percent;
        write("cpu.max", format!("{quota_us} {period_us}")).or_else(|| {
            write("cpu.cfs_period_us", period_us.to_string())?;
            write("cpu.cfs_quota_us", quota_us.to_string())
        })?;
        Some(group)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // What was killed leaves the group a moment later; one that never does has failed its test.
        for _ in 0..200 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
