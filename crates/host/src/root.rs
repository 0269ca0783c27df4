//! Where the machine is read from: this machine, a recorded directory, or a recorded archive.

use record::order::{Gather, InOrder};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Outside;
use super::cpulist::{CPUS_MAX, parse_cpus, parse_list};
use super::text::{after, words};
use metal::process::SystemInfo;

/// A place from which `proc/…`, `sys/…` and a few files of `etc/` and `run/` can be read. Paths are
/// relative, without a leading slash.
#[derive(Clone, Debug)]
pub struct Root {
    place: Place,
    outside: Option<Outside>,
}

#[derive(Clone, Debug)]
enum Place {
    Directory(PathBuf),
    Archive(BTreeMap<String, Entry>),
}

#[derive(Clone, Debug)]
enum Entry {
    File(Vec<u8>),
    Link(String),
}

impl Root {
    /// This machine. `outside` has the facts outside files; [`Outside::live`] without further
    /// knowledge.
    pub fn live(outside: Outside) -> Root {
        Root { place: Place::Directory(PathBuf::from("/")), outside: Some(outside) }
    }

    /// A recorded machine: a directory that holds `proc/`, `sys/`, `cpuid.txt` and `facts.txt`, or
    /// one that holds all of them as `tree.txt` (see [`Root::tree`]). Errors: when `dir` is no
    /// directory or its `tree.txt` cannot be read.
    pub fn recorded(dir: &Path) -> Result<Root> {
        let archive = dir.join("tree.txt");
        if archive.is_file() {
            let text = std::fs::read_to_string(&archive)
                .with_context(|| format!("cannot read the recorded host {}", archive.display()))?;
            return Ok(Root::tree(&text));
        }
        anyhow::ensure!(
            dir.is_dir(),
            "{} is not a recorded host: it is not a directory",
            dir.display()
        );
        Ok(Root { place: Place::Directory(dir.to_path_buf()), outside: None })
    }

    /// A recorded machine in one text. What comes before the first header is a comment. Headers:
    ///
    /// - `== PATH` starts a file; the lines up to the next header are its contents.
    /// - `== PATH -> TARGET` is a symbolic link.
    /// - `=x PATH` starts a file whose lines are hexadecimal bytes.
    /// - `=* PATH` starts one file per line that follows, for a PATH with braces.
    ///
    /// A PATH with one or more `{LIST}` (as `cpu{0-63,128-191}`) names one file per number, all
    /// with the same contents (`==`) or the n-th with the n-th line (`=*`).
    pub fn tree(text: &str) -> Root {
        let mut entries = BTreeMap::new();
        let mut header: Option<&str> = None;
        let mut body: Vec<&str> = Vec::new();
        for line in text.lines() {
            if line.starts_with("== ") || line.starts_with("=* ") || line.starts_with("=x ") {
                store(&mut entries, header, &body);
                header = Some(line);
                body.clear();
            } else {
                body.push(line);
            }
        }
        store(&mut entries, header, &body);
        Root { place: Place::Archive(entries), outside: None }
    }

    /// The kernel's file systems that this machine should have and that are not mounted; none of a
    /// recorded one.
    pub fn unmounted(&self) -> Vec<&'static str> {
        let all = [("/proc", "proc/self/stat"), ("/sys", "sys/devices/system")];
        let missing = all.into_iter().filter(|(_, file)| !self.exists(file));
        missing.map(|(dir, _)| dir).filter(|_| self.outside.is_some()).collect()
    }

    /// A text file, lossily decoded; `None` when it is missing or not readable.
    pub fn read(&self, path: &str) -> Option<String> {
        self.read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file's bytes; `None` when it is missing or not readable.
    pub fn read_bytes(&self, path: &str) -> Option<Vec<u8>> {
        match &self.place {
            Place::Directory(dir) => std::fs::read(dir.join(path)).ok(),
            Place::Archive(entries) => match entries.get(path)? {
                Entry::File(bytes) => Some(bytes.clone()),
                Entry::Link(_) => None,
            },
        }
    }

    /// A file's contents without surrounding white space; `None` when missing or empty.
    pub fn line(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_string())
    }

    pub fn number<N: std::str::FromStr>(&self, path: &str) -> Option<N> {
        self.line(path)?.parse().ok()
    }

    /// A file that holds a number other than 0 for yes.
    pub fn flag(&self, path: &str) -> Option<bool> {
        self.number::<i64>(path).map(|number| number != 0)
    }

    /// The words of a file; none when it is missing.
    pub fn words(&self, path: &str) -> Vec<String> {
        words(&self.read(path).unwrap_or_default())
    }

    /// A file that holds a CPU list (`0-3,8`); an empty file is an empty list.
    pub fn cpus(&self, path: &str) -> Option<Vec<usize>> {
        self.read(path).map(|text| parse_list(&text, CPUS_MAX))
    }

    /// A file that holds words with the selected one in brackets (`always [madvise] never`), or the
    /// only word.
    pub fn selected(&self, path: &str) -> Option<String> {
        let text = self.line(path)?;
        let bracketed =
            text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        Some(bracketed.unwrap_or(&text).to_string())
    }

    /// Names in a directory, numbers in names in numeric order; empty when it is missing.
    pub fn list(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = match &self.place {
            Place::Directory(dir) => {
                let items = std::fs::read_dir(dir.join(path)).into_iter().flatten();
                items.filter_map(|item| item.ok()?.file_name().into_string().ok()).collect()
            }
            Place::Archive(entries) => {
                let prefix = format!("{path}/");
                let below = entries.range(prefix.clone()..);
                let inside = below.take_while(|(name, _)| name.starts_with(&prefix));
                let names: BTreeSet<&str> =
                    inside.filter_map(|(name, _)| name[prefix.len()..].split('/').next()).gather();
                names.into_iter().map(str::to_string).collect()
            }
        };
        names.order_by(|a, b| natural_key(a).cmp(&natural_key(b)));
        names
    }

    /// Numbered entries `PREFIX<number>` of a directory, ascending by number.
    pub fn numbered(&self, path: &str, prefix: &str) -> Vec<usize> {
        let names = self.list(path);
        let numbers = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok());
        let mut numbers: Vec<usize> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    /// Target text of a symbolic link.
    pub fn link(&self, path: &str) -> Option<String> {
        match &self.place {
            Place::Directory(dir) => {
                std::fs::read_link(dir.join(path)).ok()?.into_os_string().into_string().ok()
            }
            Place::Archive(entries) => match entries.get(path)? {
                Entry::Link(target) => Some(target.clone()),
                Entry::File(_) => None,
            },
        }
    }

    /// Last component of a link's target: how sysfs names drivers.
    pub fn link_name(&self, path: &str) -> Option<String> {
        self.link(path)?.rsplit('/').next().map(str::to_string)
    }

    /// Whether a file, link or directory is there.
    pub fn exists(&self, path: &str) -> bool {
        match &self.place {
            Place::Directory(dir) => dir.join(path).exists(),
            Place::Archive(entries) => {
                let prefix = format!("{path}/");
                entries.contains_key(path)
                    || entries
                        .range(prefix.clone()..)
                        .next()
                        .is_some_and(|(n, _)| n.starts_with(&prefix))
            }
        }
    }

    /// Whether this process may write a file, or make something in a directory. A recorded machine
    /// says so in `facts.txt`: root may (`euid=0`), others what `writable=PATH` lines name.
    pub fn may_write(&self, path: &str) -> bool {
        match &self.place {
            Place::Directory(dir) => metal::access::may_write(&dir.join(path)),
            Place::Archive(_) => {
                let facts = self.read("facts.txt").unwrap_or_default();
                let mut lines = facts.lines().map(str::trim);
                lines.any(|line| line == "euid=0" || line.strip_prefix("writable=") == Some(path))
            }
        }
    }

    /// What sysinfo(2) answers now; recorded, `sysinfo=BYTES SECONDS LOAD LOAD LOAD` of `facts.txt`.
    pub fn system_info(&self) -> Option<SystemInfo> {
        if self.outside.is_some() {
            return metal::process::system_info().ok();
        }
        let facts = self.read("facts.txt")?;
        let mut words = after(&facts, "sysinfo=")?.split_whitespace();
        let (memory_bytes, uptime_s) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let mut load = || words.next()?.parse().ok();
        Some(SystemInfo { memory_bytes, uptime_s, load: [load()?, load()?, load()?] })
    }

    /// Facts outside files: given to [`Root::live`], or recorded.
    pub fn outside(&self) -> Outside {
        self.outside.clone().unwrap_or_else(|| Outside::recorded(self))
    }

    /// Paths of all files and links of an archive; empty for a directory.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn paths(&self) -> Vec<String> {
        match &self.place {
            Place::Directory(_) => Vec::new(),
            Place::Archive(entries) => entries.keys().cloned().collect(),
        }
    }

    /// Replaces one file of an archive by `contents`, or drops it, while `look` looks.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn torn(&mut self, path: &str, contents: Option<&str>, look: impl FnOnce(&Root)) {
        let replace = |root: &mut Root, entry: Option<Entry>| match (&mut root.place, entry) {
            (Place::Archive(entries), Some(entry)) => entries.insert(path.to_string(), entry),
            (Place::Archive(entries), None) => entries.remove(path),
            (Place::Directory(_), _) => None,
        };
        let torn = contents.map(|text| Entry::File(text.as_bytes().to_vec()));
        let whole = replace(self, torn);
        look(self);
        replace(self, whole);
    }

    /// The archive with one file replaced or added.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn with(&self, path: &str, contents: &str) -> Root {
        let mut root = self.clone();
        if let Place::Archive(entries) = &mut root.place {
            entries.insert(path.to_string(), Entry::File(contents.as_bytes().to_vec()));
        }
        root
    }
}

fn store(entries: &mut BTreeMap<String, Entry>, header: Option<&str>, body: &[&str]) {
    let Some(header) = header else { return };
    let (mark, rest) = header.split_at(3);
    let (path, target) = match rest.split_once(" -> ") {
        Some((path, target)) => (path, Some(target)),
        None => (rest, None),
    };
    for (n, name) in expand(path.trim()).into_iter().enumerate() {
        let entry = match (target, mark) {
            (Some(target), _) => Entry::Link(target.trim().to_string()),
            (None, "=x ") => Entry::File(hex_bytes(body)),
            (None, "=* ") => match body.get(n) {
                Some(line) => Entry::File(format!("{line}\n").into_bytes()),
                None => continue,
            },
            (None, _) => {
                let lines = body.iter().flat_map(|line| [line.as_bytes(), b"\n"]);
                Entry::File(lines.collect::<Vec<_>>().concat())
            }
        };
        entries.insert(name, entry);
    }
}

/// `a{0-1}b{2,4}` -> `a0b2`, `a0b4`, `a1b2`, `a1b4`.
fn expand(path: &str) -> Vec<String> {
    let cut = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (list, after))) = cut else { return vec![path.to_string()] };
    let tails = expand(after);
    let heads = parse_cpus(list);
    heads.iter().flat_map(|n| tails.iter().map(move |tail| format!("{before}{n}{tail}"))).collect()
}

fn hex_bytes(body: &[&str]) -> Vec<u8> {
    let digits: Vec<u8> =
        body.iter().flat_map(|line| line.bytes()).filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks_exact(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Splits a name so that numbers compare as numbers: `cpu10` after `cpu9`.
fn natural_key(name: &str) -> (&str, u64, &str) {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let digits = name[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len() - start);
    let number = name[start..start + digits].parse().unwrap_or(0);
    (&name[..start], number, &name[start + digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_reads_like_a_directory() {
        let root = Root::tree(
            "a comment\n== sys/cpu{0-1,10}/id\nsame\n=* sys/cpu{0-1}/n\nzero\none\n\
             == sys/cpu0/driver -> ../../drivers/nvme\n=x sys/raw\n00 ff\n1a\n== sys/empty\n",
        );
        assert_eq!(root.list("sys"), ["cpu0", "cpu1", "cpu10", "empty", "raw"]);
        assert_eq!(root.numbered("sys", "cpu"), [0, 1, 10]);
        assert_eq!(root.read("sys/cpu10/id").as_deref(), Some("same\n"));
        assert_eq!(root.line("sys/cpu1/n").as_deref(), Some("one"));
        assert_eq!(root.link_name("sys/cpu0/driver").as_deref(), Some("nvme"));
        assert_eq!(root.read_bytes("sys/raw"), Some(vec![0, 0xff, 0x1a]));
        assert_eq!(root.line("sys/empty"), None);
        assert!(root.exists("sys/cpu1") && root.exists("sys/cpu1/n") && !root.exists("sys/cpu2"));
        let mut torn = root.clone();
        torn.torn("sys/raw", None, |root| assert!(!root.exists("sys/raw")));
        assert_eq!(torn.read_bytes("sys/raw"), root.read_bytes("sys/raw"));
    }

    #[test]
    fn a_directory_and_its_archive_agree() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        std::fs::create_dir_all(dir.path().join("proc/sys")).expect("it is writable");
        std::fs::write(dir.path().join("proc/sys/x"), "[a] b\n").expect("it is writable");
        let directory = Root::recorded(dir.path()).expect("it is a directory");
        assert_eq!(directory.selected("proc/sys/x").as_deref(), Some("a"));
        std::fs::write(dir.path().join("tree.txt"), "== proc/sys/x\nb\n").expect("it is writable");
        let archive = Root::recorded(dir.path()).expect("it is a directory");
        assert_eq!(archive.selected("proc/sys/x").as_deref(), Some("b"));
        assert!(Root::recorded(&dir.path().join("none")).is_err());
    }
}
