//! Running the built binary in a directory of its own, and reading the records that it writes: what
//! all crates of integration tests share.

pub mod group;
mod processes;

pub mod prelude {
    pub use super::processes::*;
    pub use super::*;
    pub use serde_json::{Value, json};
    pub use std::fs::{self, File};
    pub use std::os::unix::fs::PermissionsExt;
    pub use std::path::{Path, PathBuf};
    pub use std::process::{Child, Command, Output, Stdio};
    pub use std::time::{Duration, Instant};
}

use prelude::*;
use record::seal::resealed;
use std::borrow::BorrowMut;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use tempfile::TempDir;

/// No step of a test waits longer; none is expected to come near it.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Here {
    dir: TempDir,
    lock: TempDir,
}

#[derive(Debug)]
pub struct Answer {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");

/// Arguments: as many words, or a line of words without spaces in them.
pub trait Args {
    fn words(&self) -> Vec<&str>;
}

impl Args for str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Args for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Args for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl Args for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

impl<T: Args + ?Sized> Args for &T {
    fn words(&self) -> Vec<&str> {
        (**self).words()
    }
}

impl<const N: usize> Args for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Answer {
    /// The objects of standard output, one a line.
    pub fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
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
    pub fn command(&self, args: &(impl Args + ?Sized)) -> Command {
        let mut command = self.other(PLUMB);
        command.args(args.words());
        command
    }

    /// Another program under the same conditions.
    pub fn other(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("PLUMB", PLUMB)
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
        let procs = group.join("cgroup.procs");
        let mut shell = self.other("sh");
        shell.args(["-c", &format!("echo $$ > {}; exec $PLUMB {args}", procs.display())]);
        shell
    }

    /// Runs a line of a shell, in which the binary is `$PLUMB`, to its end.
    pub fn shell(&self, line: &str) -> Answer {
        answer(self.other("sh").args(["-c", line]).output().unwrap())
    }

    /// Runs it to its end; a panic's text is never an answer.
    pub fn plumb(&self, args: &(impl Args + ?Sized)) -> Answer {
        answer(self.command(args).output().unwrap())
    }

    /// Runs it to an end with this exit status.
    #[track_caller]
    pub fn ends(&self, code: i32, args: &(impl Args + ?Sized)) -> Answer {
        ends(code, self.command(args))
    }

    /// Runs a measurement that must end well, and returns its record.
    #[track_caller]
    pub fn measure(&self, args: &(impl Args + ?Sized)) -> Vec<Value> {
        self.ends(0, &[&["run"], &args.words()[..]].concat());
        events(&self.record())
    }

    /// Nothing of a run is left in a directory for files, and nothing in the journal.
    #[track_caller]
    pub fn is_clean(&self, files: &str) {
        assert_eq!(self.entries(files), [""; 0]);
        assert_eq!(self.entries("store/journal"), [""; 0]);
    }

    pub fn stored(&self, run: &str) -> PathBuf {
        self.path("store").join(format!("{run}.jsonl"))
    }

    /// Puts a record into the store, under the name that its header has.
    pub fn store(&self, text: &str) -> PathBuf {
        let header = event(text.lines().next().unwrap());
        let record = self.stored(header["run"].as_str().unwrap());
        fs::create_dir_all(self.path("store")).unwrap();
        fs::write(&record, text).unwrap();
        record
    }

    /// The records in the store, the last one last.
    pub fn records(&self) -> Vec<PathBuf> {
        records(&self.path("store"))
    }

    pub fn start(&self, command: &mut Command) -> Program {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let [out, err] = ["out", "err"].map(|kind| self.path(&format!("{number}.{kind}")));
        let create = |path| File::create(path).unwrap();
        let child = command.stdout(create(&out)).stderr(create(&err)).spawn();
        Program { child: child.expect("scripts/test installs it"), out, err }
    }

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

    pub fn entries(&self, name: &str) -> Vec<String> {
        names(&self.path(name))
    }
}

/// The record of a run with these arguments that ended well, for tests that change records: each is
/// measured once by a test process.
pub fn recorded(args: &str) -> String {
    static RECORDED: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let mut recorded = RECORDED.lock().unwrap_or_else(PoisonError::into_inner);
    let measure = || {
        let here = Here::new();
        here.measure(args);
        fs::read_to_string(here.record()).unwrap()
    };
    recorded.entry(args.to_owned()).or_insert_with(measure).clone()
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
    out: PathBuf,
    err: PathBuf,
}

#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub said: String,
    pub took: Duration,
}

impl Program {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said so far, its complaints last.
    pub fn said(&self) -> String {
        [&self.out, &self.err].map(|path| fs::read_to_string(path).unwrap_or_default()).concat()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
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
        let out = fs::read_to_string(&self.out).unwrap();
        Ended { code, out, said, took: begin.elapsed() }
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

/// The events of a record that is being written: all whole lines.
pub fn whole_events(record: &Path) -> Vec<Value> {
    let text = fs::read_to_string(record).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(event).collect()
}

/// The event of a line, each sample in its `values`: a record lists many as multiples of a step.
pub fn event(line: &str) -> Value {
    let event = serde_json::from_str(line);
    let mut event: Value = event.unwrap_or_else(|error| panic!("{error}: {line}"));
    for member in ["line", "crc"] {
        event.as_object_mut().map(|members| members.remove(member));
    }
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
    own.insert("values".to_owned(), json!(values.collect::<Vec<f64>>()));
    event
}

/// The lines of a record of these events, which a test changed, each with its number and checksum.
pub fn lines<'run>(events: impl IntoIterator<Item = &'run Value>) -> String {
    let bare = events.into_iter().map(|event| {
        let mut event = event.clone();
        for member in ["line", "crc"] {
            event.as_object_mut().map(|members| members.remove(member));
        }
        format!("{event}\n")
    });
    resealed(&bare.collect::<String>())
}

/// The events of a record, each line of which must parse.
pub fn events(record: &Path) -> Vec<Value> {
    let text = fs::read_to_string(record).unwrap();
    assert!(text.ends_with('\n'), "{} ends with a line", record.display());
    text.lines().map(event).collect()
}

pub fn events_of_kind<'run>(events: &'run [Value], kind: &str) -> Vec<&'run Value> {
    events.iter().filter(|event| is(event, kind)).collect()
}

pub fn samples_of<'run>(events: &'run [Value], metric: &str) -> Vec<&'run Value> {
    events_of_kind(events, "samples").into_iter().filter(|one| one["metric"] == metric).collect()
}

pub fn is(event: &Value, kind: &str) -> bool {
    event["event"] == kind
}

/// Numbers of rounds of a series that count, and that do not.
pub fn rounds(events: &[Value], series: &str) -> (usize, usize) {
    let of_series: Vec<&Value> = events_of_kind(events, "round")
        .into_iter()
        .filter(|round| round["series"] == series)
        .collect();
    let ok = of_series.iter().filter(|round| round["status"] == "ok").count();
    (ok, of_series.len() - ok)
}

pub fn end(events: &[Value]) -> &str {
    let footer = events.last().expect("a record has events");
    assert!(is(footer, "footer"), "the last event is {footer}");
    footer["end"].as_str().unwrap()
}

/// Waits for the end of a child and takes what it printed.
pub fn ended(child: Child) -> Answer {
    answer(child.wait_with_output().unwrap())
}

/// Runs a command to an end with this exit status.
#[track_caller]
pub fn ends(code: i32, mut command: impl BorrowMut<Command>) -> Answer {
    let answer = answer(command.borrow_mut().output().unwrap());
    assert_eq!(answer.code, Some(code), "{:?}: {answer:?}", command.borrow());
    answer
}

pub fn write_script(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).unwrap();
    mode(path, 0o755);
}

/// Sets the permissions of a file.
pub fn mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
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
