//! The machine's lock: how plumbs that measure on one machine see each other.
//!
//! One file holds a place for each plumb that measures: a lock on one byte, which ends with its
//! process, and a text that describes it. The file is shared by all users of the machine and is
//! seen from every network and process namespace; a container with a file system of its own sees it
//! where both mount it (`PLUMB_LOCK`). It is advice: any user can hold a place, or write a wrong
//! text, and then rounds count as disturbed that are not. No user can make plumb write elsewhere:
//! links are not followed ([`metal::lock::open_shared`]).

use crate::header::now;
use crate::node::Interrupted;
use anyhow::{Context, Result, bail};
use record::plain;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Names the file; it need not exist, its directory must.
const FILE: &str = "PLUMB_LOCK";
/// Where it is otherwise: in the first directory that belongs to root and in which every user may
/// make files, which is the same one for all.
const SHARED_DIRS: [&str; 3] = ["/run/lock", "/dev/shm", "/tmp"];
const NAME: &str = "plumb.lock";
/// The mode of such a directory: all may write, and remove only what is theirs.
const OPEN_TO_ALL: u32 = 0o1002;

/// Places, and the bytes of each one's text.
const PLACES: u64 = 32;
const TEXT_BYTES: usize = 1024;
/// The byte of the one whose turn it is among those that wait.
const TURN: u64 = PLACES;
/// Longest text of what a plumb does, in characters: escaped, it fits with the rest.
const WHAT_MAX: usize = 100;
/// How often one that waits looks.
const LOOK: Duration = Duration::from_millis(250);

/// What it means that the file cannot be used.
pub const UNSEEN: &str = "plumb does not see whether another plumb measures on this machine";

/// What a plumb says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Member {
    pid: u32,
    pid_namespace: String,
    since: String,
    what: String,
    /// What it shares with those that work for it: its agents, and the runs of a crosscheck.
    token: String,
}

/// One among the plumbs of the machine, until it is dropped.
#[derive(Debug)]
pub struct Machine {
    file: File,
    member: Member,
}

/// The file of this machine. Errors: no directory is open to all users.
fn file() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(FILE).filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let is_shared = |dir: &&Path| {
        let facts = dir.symlink_metadata();
        facts.is_ok_and(|facts| {
            let is_open = facts.permissions().mode() & OPEN_TO_ALL == OPEN_TO_ALL;
            facts.is_dir() && facts.uid() == 0 && is_open
        })
    };
    let found = SHARED_DIRS.map(Path::new).into_iter().find(is_shared);
    let dir = found.with_context(|| {
        format!("none of {} is open to all users; set {FILE}", SHARED_DIRS.join(", "))
    })?;
    Ok(dir.join(NAME))
}

impl Machine {
    /// Looks at the machine for something that will measure. `token` is that of the session for
    /// which it works; without one a new one. Errors: the file cannot be shared.
    pub fn look(what: &str, token: Option<&str>) -> Result<Machine> {
        let token = token.map(str::to_owned);
        let member = Member {
            pid: std::process::id(),
            pid_namespace: pid_namespace(),
            since: now(),
            what: what.chars().take(WHAT_MAX).collect(),
            token: token.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..))),
        };
        Machine::open(&file()?, member)
    }

    fn open(path: &Path, member: Member) -> Result<Machine> {
        let file = metal::lock::open_shared(path).with_context(|| path.display().to_string())?;
        if !is_plumbs(&file).with_context(|| path.display().to_string())? {
            bail!("{} is another program's file; name another one with {FILE}", path.display());
        }
        Ok(Machine { file, member })
    }

    /// Takes a place: from now on others see it. Errors: the file cannot be locked or written; all
    /// places are taken.
    pub fn enter(&self) -> Result<()> {
        for place in 0..PLACES {
            if metal::lock::try_byte(&self.file, place)? {
                let mut text = serde_json::to_vec(&self.member)?;
                text.resize(TEXT_BYTES, b' ');
                return Ok(self.file.write_all_at(&text, place * TEXT_BYTES as u64)?);
            }
        }
        bail!("{PLACES} plumbs measure already")
    }

    pub fn token(&self) -> &str {
        &self.member.token
    }

    /// The other plumbs that measure here now, as they describe themselves, without those that
    /// belong to the same session. (One system call where there are none at all.)
    pub fn others(&self) -> Vec<String> {
        let taken = |at, length| metal::lock::is_taken(&self.file, at, length).unwrap_or(false);
        let places = if taken(0, PLACES) { 0..PLACES } else { 0..0 };
        let others = places.filter(|place| taken(*place, 1)).filter_map(|place| {
            let other = self.member(place);
            (other.token != self.member.token).then(|| self.described(&other))
        });
        others.collect()
    }

    fn member(&self, place: u64) -> Member {
        let mut text = [0; TEXT_BYTES];
        // Without a text that can be read it is a plumb all the same.
        let _ = self.file.read_exact_at(&mut text, place * TEXT_BYTES as u64);
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn described(&self, other: &Member) -> String {
        if other.pid == 0 {
            return "one without a description".to_owned();
        }
        let place = match other.pid_namespace == self.member.pid_namespace {
            true => "",
            false => " in another PID namespace",
        };
        let (pid, since) = (other.pid, &other.since);
        plain::line(&format!("{} (process {pid}{place}, since {since})", other.what))
    }

    /// Waits until no other plumb measures here; `say` gets what it waits for, whenever that
    /// changes. Those that wait go one after the other: each keeps the turn until it ends. Errors:
    /// [`Interrupted`]; the file cannot be locked.
    pub fn wait(&self, stop: &AtomicBool, mut say: impl FnMut(&str)) -> Result<()> {
        let mut said = Vec::new();
        loop {
            let is_its_turn = metal::lock::try_byte(&self.file, TURN)?;
            let others = self.others();
            if others.is_empty() && is_its_turn {
                return Ok(());
            }
            if others != said {
                say(&others.join("; "));
                said = others;
            }
            if stop.load(Ordering::Relaxed) {
                bail!(Interrupted);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Whether a file is empty or holds a plumb's text; what others write at other places is their advice.
fn is_plumbs(file: &File) -> io::Result<bool> {
    let bytes = file.metadata()?.len();
    if bytes > PLACES * TEXT_BYTES as u64 {
        return Ok(false);
    }
    let mut texts = vec![0; bytes as usize];
    file.read_exact_at(&mut texts, 0)?;
    let is_text =
        |text: &[u8]| serde_json::from_slice(text).is_ok_and(|member: Member| member.pid != 0);
    Ok(texts.is_empty() || texts.chunks_exact(TEXT_BYTES).any(is_text))
}

/// The namespace in which this process has its number; empty if the kernel does not report it.
fn pid_namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Machine, Member, NAME, TEXT_BYTES, WHAT_MAX, pid_namespace};
    use crate::node::Interrupted;
    use std::fs;
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn machine(dir: &Path, what: &str, token: &str) -> Machine {
        let member = Member {
            pid: 7,
            pid_namespace: pid_namespace(),
            since: "then".to_owned(),
            what: what.to_owned(),
            token: token.to_owned(),
        };
        Machine::open(&dir.join(NAME), member).expect("shared")
    }

    fn entered(dir: &Path, what: &str, token: &str) -> Machine {
        let machine = machine(dir, what, token);
        machine.enter().expect("a place");
        machine
    }

    #[test]
    fn each_sees_the_others_but_not_its_own_session() {
        let dir = tempfile::tempdir().expect("a directory");
        let here = dir.path();
        let one = entered(here, "plumb run", "a");
        assert!(one.others().is_empty());
        let own_agent = entered(here, "plumb agent", "a");
        assert!(one.others().is_empty() && own_agent.others().is_empty());
        let other = entered(here, "plumb run net", "b");
        let others = one.others();
        assert_eq!(others, [one.described(&other.member)]);
        for part in ["plumb run net", "7", "then"] {
            assert!(others[0].contains(part), "{part}: {others:?}");
        }
        assert_eq!(other.others().len(), 2);
        let elsewhere =
            Member { pid_namespace: "pid:[1]".to_owned(), ..machine(here, "", "c").member };
        assert_ne!(one.described(&elsewhere), one.described(&machine(here, "", "c").member));
        drop(other);
        assert!(one.others().is_empty());
        // Its text stays, and its place is free: the next one has it.
        drop(entered(here, "plumb run fs", "c"));
        assert!(own_agent.others().is_empty());
    }

    #[test]
    fn a_file_of_another_program_stays_as_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(NAME);
        let refused = |text: &[u8]| {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
            let member = machine(&dir.path().join("other"), "", "").member;
            Machine::open(&path, member).map_err(|error| error.to_string()).map(drop)
        };
        fs::create_dir(dir.path().join("other")).expect("made");
        let mut object = br#"{"what":"a file of somebody's"}"#.to_vec();
        let texts = [object.clone(), b"text\n".to_vec(), vec![b'x'; 1 << 16], {
            object.resize(TEXT_BYTES, b' ');
            object
        }];
        for text in texts {
            let why = refused(&text).expect_err("another program's");
            assert!(why.contains("another program's file"), "{why}");
            assert_eq!(fs::read(&path).expect("is there"), text);
        }
        assert_eq!(refused(b""), Ok(()));
        drop(entered(dir.path(), "plumb run", "a"));
        assert_eq!(fs::metadata(&path).expect("is there").mode() & 0o777, 0o600);
        drop(entered(dir.path(), "plumb run", "b"));
    }

    #[test]
    fn a_place_without_a_text_is_taken_all_the_same() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, other) = (entered(dir.path(), "a", "a"), entered(dir.path(), "b", "b"));
        other.file.write_all_at(b"\x1b]0;x{", TEXT_BYTES as u64).expect("written");
        assert_eq!(one.others(), ["one without a description"]);
        // The longest text that it can have still fits.
        let what = "\u{1b}".repeat(WHAT_MAX);
        let longest = entered(dir.path(), &what, &"f".repeat(32));
        assert_eq!(one.others().len(), 2);
        assert!(one.others()[1].contains("since then"), "{:?}", one.others());
        drop(longest);
    }

    #[test]
    fn those_that_wait_go_one_after_the_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let running = entered(dir.path(), "plumb run", "a");
        let [first, second] = ["b", "c"].map(|token| machine(dir.path(), "plumb run", token));
        let stop = AtomicBool::new(true);
        let waits = |one: &Machine| {
            let mut said = Vec::new();
            let waited = one.wait(&stop, |others| said.push(others.to_owned()));
            (waited.map_err(|error| error.is::<Interrupted>()), said.len())
        };
        assert_eq!(waits(&first), (Err(true), 1));
        assert_eq!(waits(&second), (Err(true), 1));
        drop(running);
        // The first one has the turn, also before it has its place.
        assert_eq!(waits(&second), (Err(true), 0));
        stop.store(false, Ordering::Relaxed);
        assert_eq!(waits(&first), (Ok(()), 0));
        first.enter().expect("a place");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(waits(&second), (Err(true), 1));
        drop(first);
        assert_eq!(waits(&second), (Ok(()), 0));
    }
}
