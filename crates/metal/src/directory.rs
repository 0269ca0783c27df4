//! Directories that may hang: on a disk, server or FUSE process that does not answer. All that is
//! done to them here is done by a child ([`within`]) that is left behind where it hangs; the
//! patience is for how long it may show no progress.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat, unlinkat,
};

use crate::fault::{evict, free_bytes};
use crate::process::{Patience, Signs, within};
use crate::storage::{file_system, residency};

/// Name of the file that is written where a file without a name cannot be. It is the same for all,
/// so that one that was killed in between leaves nothing that the next does not remove.
const PROBE: &str = ".plumb-probe";
const PROBE_TEXT: &[u8] = b"plumb";
/// Others that probe at the same moment remove each other's file.
const PROBE_TRIES: u32 = 5;
/// An overlay without syncs (`volatile`) writes a page later than it is asked to. A page counts as
/// one that stays after so many evictions …
const EVICTIONS: u32 = 500;
/// … at this distance.
const EVICTION_EVERY: Duration = Duration::from_millis(1);
/// A sign is given after so many entries that were listed.
const LISTED: usize = 1000;
/// Files without a name are not available: the kernel or the file system lacks them.
const NO_UNNAMED: [i32; 4] = [libc::EOPNOTSUPP, libc::EISDIR, libc::ENOENT, libc::EINVAL];

/// Which directory one is, whatever becomes of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

impl Identity {
    fn from_stat(facts: &Stat) -> Self {
        Identity { device: facts.st_dev, inode: facts.st_ino }
    }
}

/// A directory in which files can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writable {
    pub path: PathBuf,
    /// Bytes that its file system still has for this user.
    pub free_bytes: u64,
    /// The directory is an overlay whose files stay in memory: its upper layer is a tmpfs. The
    /// mount table of a container does not show that layer.
    pub is_over_memory: bool,
}

/// Why a directory cannot be used.
#[derive(Debug)]
pub enum Refused {
    /// It cannot be reached, most often because it does not exist.
    Unreachable(io::Error),
    /// It is something else: what.
    Other(String),
    /// Nothing can be written in it.
    Unwritable(io::Error),
    /// A signal ended the wait for its answer.
    Interrupted,
    /// It did not answer.
    Hangs {
        /// A file that may appear in it when it answers again.
        leaves: Option<PathBuf>,
    },
}

/// Writes in a directory, because only that shows the permission: permissions, read-only mounts and
/// quotas differ. Nothing is left there, unless it hangs. Errors: why it cannot be used.
pub fn probe<'flag>(dir: &Path, patience: impl Into<Patience<'flag>>) -> Result<Writable, Refused> {
    let patience = patience.into();
    let path = real(dir, patience).map_err(|error| refused(error, Refused::Unreachable, None))?;
    let kind = within(patience, |_| Ok(kind(&path)?.as_bytes().to_vec()))
        .map_err(|error| refused(error, Refused::Unreachable, None))?;
    if !kind.is_empty() {
        return Err(Refused::Other(String::from_utf8_lossy(&kind).into_owned()));
    }
    let named = path.join(PROBE);
    let answer = within(patience, |signs| {
        let dir = File::open(&path)?;
        refuse_shared(&dir)?;
        let is_over_memory = write_probe(&path, &named, signs)?;
        Ok([free_bytes(&dir)?, u64::from(is_over_memory)].map(u64::to_le_bytes).concat())
    });
    let answer = answer.map_err(|error| refused(error, Refused::Unwritable, Some(named)))?;
    let free_bytes = word(&answer, 0).unwrap_or(0);
    Ok(Writable { path, free_bytes, is_over_memory: word(&answer, 1) == Some(1) })
}

fn refused(
    error: io::Error,
    otherwise: fn(io::Error) -> Refused,
    leaves: Option<PathBuf>,
) -> Refused {
    match error.kind() {
        io::ErrorKind::TimedOut => Refused::Hangs { leaves },
        io::ErrorKind::Interrupted => Refused::Interrupted,
        _ => otherwise(error),
    }
}

/// What a path is if it is no directory.
fn kind(path: &Path) -> io::Result<&'static str> {
    let kind = fs::metadata(path)?.file_type();
    Ok(match () {
        () if kind.is_dir() => "",
        () if kind.is_block_device() => "a block device",
        () if kind.is_char_device() => "a device",
        () if kind.is_file() => "a file",
        () => "something else",
    })
}

/// One of the 64-bit words that a child sends.
fn word(sent: &[u8], index: usize) -> Option<u64> {
    let bytes = sent.chunks_exact(8).nth(index)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Writes a file that has no name, else one that is removed at once. True if it is over memory
/// ([`Writable::is_over_memory`]).
fn write_probe(dir: &Path, named: &Path, signs: &Signs) -> io::Result<bool> {
    let mut way = OpenOptions::new();
    let unnamed = way.read(true).write(true).custom_flags(libc::O_TMPFILE).open(dir);
    let lacks = |error: &io::Error| error.raw_os_error().is_some_and(|it| NO_UNNAMED.contains(&it));
    signs.give();
    match unnamed {
        Ok(mut file) => write_text(&mut file, signs),
        Err(error) if lacks(&error) => write_named(named, signs),
        Err(error) => Err(error),
    }
}

/// Writes the text. An overlay does not say where it keeps files: true if the page of one stays in
/// memory after it was synced and evicted.
fn write_text(file: &mut File, signs: &Signs) -> io::Result<bool> {
    file.write_all(PROBE_TEXT)?;
    if file_system(file)?.name() != Some("overlay") {
        return Ok(false);
    }
    file.sync_data()?;
    for _ in 0..EVICTIONS {
        signs.give();
        evict(file, 0, 0)?;
        if residency(file, 0, PROBE_TEXT.len() as u64)?.cached == 0 {
            return Ok(false);
        }
        thread::sleep(EVICTION_EVERY);
    }
    Ok(true)
}

/// Writes a file and removes it, and before that one of this name that an earlier probe left. True
/// if it is over memory.
fn write_named(path: &Path, signs: &Signs) -> io::Result<bool> {
    let mut tries = 0;
    let mut file = loop {
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        signs.give();
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < PROBE_TRIES => {
                tries += 1;
                remove_left(path, error)?;
            }
            made => break made?,
        }
    };
    let written = write_text(&mut file, signs);
    drop(file);
    signs.give();
    gone(fs::remove_file(path))?;
    written
}

/// Removes what an earlier probe left, and nothing that it cannot have left: then `otherwise`.
fn remove_left(path: &Path, otherwise: io::Error) -> io::Result<()> {
    let facts = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        facts => facts?,
    };
    if !facts.is_file() || facts.size() > PROBE_TEXT.len() as u64 {
        return Err(otherwise);
    }
    gone(fs::remove_file(path))
}

/// What is gone already needs no removal.
pub fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A path without links. Errors: those of realpath(3) and [`within`].
pub fn real<'flag>(path: &Path, patience: impl Into<Patience<'flag>>) -> io::Result<PathBuf> {
    let real = within(patience, |_| Ok(fs::canonicalize(path)?.into_os_string().into_vec()))?;
    Ok(PathBuf::from(OsString::from_vec(real)))
}

/// Refuses a directory in which every user may replace what others made.
fn refuse_shared(dir: &impl AsFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(fstat(dir)?.st_mode);
    match mode.contains(Mode::WOTH) && !mode.contains(Mode::SVTX) {
        true => Err(io::Error::other(
            "every user may write there, and replace the files of others: set its sticky bit \
             (`chmod +t`)",
        )),
        false => Ok(()),
    }
}

/// Makes a directory that only its owner may write in, below one whose path has no link. Errors of
/// mkdir(2) and [`within`]; every user may replace it.
pub fn make<'flag>(path: &Path, patience: impl Into<Patience<'flag>>) -> io::Result<Identity> {
    let made = within(patience, |_| {
        let (parent, name) = parent(path)?;
        refuse_shared(&parent)?;
        mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
        let Identity { device, inode } = Identity::from_stat(&fstat(open(&parent, name)?)?);
        Ok([device.to_le_bytes(), inode.to_le_bytes()].concat())
    })?;
    match (word(&made, 0), word(&made, 1)) {
        (Some(device), Some(inode)) => Ok(Identity { device, inode }),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Removes a directory with all that is in it, if it `is` the one meant; where that is not known it
/// must be empty. No link is followed, on the way or in it. Errors: another directory is there; the
/// first thing that cannot be removed; `NotFound` where it is not there; those of [`within`].
pub fn remove<'flag>(
    path: &Path,
    is: Option<impl Fn(Identity) -> bool>,
    patience: impl Into<Patience<'flag>>,
) -> io::Result<()> {
    done(patience, |signs| {
        let (parent, name) = parent(path)?;
        if let Some(is) = &is {
            let dir = open(&parent, name)?;
            if !is(Identity::from_stat(&fstat(&dir)?)) {
                return Err(io::Error::other("it is not the directory that plumb made"));
            }
            empty(&dir, &[], signs)?;
        }
        Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    })
}

/// The directory that holds a path, opened without following a link, and the name in it.
fn parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let name = path.file_name().ok_or_else(invalid)?;
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = openat(CWD, "/", way, Mode::empty())?;
    for part in path.parent().ok_or_else(invalid)?.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => dir = openat(&dir, name, way, Mode::empty())?,
            _ => return Err(invalid()),
        }
    }
    Ok((dir, name))
}

/// Has a child do something whose only result is success.
fn done<'flag>(
    patience: impl Into<Patience<'flag>>,
    act: impl FnOnce(&Signs) -> io::Result<()>,
) -> io::Result<()> {
    within(patience, |signs| act(signs).map(|()| Vec::new())).map(drop)
}

/// Names of the entries of a directory, in no order. Errors: those of open(2) and getdents(2), and
/// those of [`within`].
pub fn names<'flag>(
    path: &Path,
    patience: impl Into<Patience<'flag>>,
) -> io::Result<Vec<OsString>> {
    let listed = |signs: &Signs| {
        let mut all = Vec::new();
        for (name, _) in list(&open(CWD, path)?, signs)? {
            // No name has a zero byte in it.
            all.extend(name.into_vec());
            all.push(0);
        }
        Ok(all)
    };
    let all = within(patience, listed)?;
    let names = all.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
}

/// Removes what is in a directory but for some names. Errors: as [`remove`].
pub fn remove_but<'flag>(
    path: &Path,
    keep: &[OsString],
    patience: impl Into<Patience<'flag>>,
) -> io::Result<()> {
    done(patience, |signs| empty(&open(CWD, path)?, keep, signs))
}

/// Opens a directory, and no link to one.
fn open(below: impl AsFd, name: impl AsRef<OsStr>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(below, name.as_ref(), flags, Mode::empty())?)
}

/// Everything in a directory. Of many entries it takes long: a sign is given for a number of them.
fn list(dir: &OwnedFd, signs: &Signs) -> io::Result<Vec<(OsString, FileType)>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            entries.push((OsStr::from_bytes(name).to_owned(), entry.file_type()));
        }
        if entries.len().is_multiple_of(LISTED) {
            signs.give();
        }
    }
    Ok(entries)
}

/// Removes the entries of an open directory but for some names, a sign for each. It goes through
/// its descriptor: what somebody puts in the place of its path is not touched.
fn empty(dir: &OwnedFd, keep: &[OsString], signs: &Signs) -> io::Result<()> {
    // Read to the end first: what is removed meanwhile may move what is still to come.
    for (name, mut kind) in list(dir, signs)? {
        if keep.contains(&name) {
            continue;
        }
        if kind == FileType::Unknown {
            let facts = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            kind = FileType::from_raw_mode(facts.st_mode);
        }
        if kind == FileType::Directory {
            empty(&open(dir, &name)?, &[], signs)?;
            unlinkat(dir, &name, AtFlags::REMOVEDIR)?;
        } else {
            unlinkat(dir, &name, AtFlags::empty())?;
        }
        signs.give();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        Identity, PROBE, Refused, done, make, names, probe, real, remove, remove_but, write_named,
    };
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_directory_is_probed_and_nothing_is_left_in_it() {
        let here = tempfile::tempdir().expect("temporary files can be made");
        let found = probe(&here.path().join("."), LONG).expect("can be written");
        assert_eq!(found.path, here.path().canonicalize().expect("is there"));
        assert!(found.free_bytes > 0);
        let opened = fs::File::open(here.path()).expect("opens");
        let on = crate::storage::file_system(&opened).expect("its file system");
        assert!(on.name() == Some("overlay") || !found.is_over_memory);
        assert_eq!(names(here.path(), LONG).expect("lists"), [] as [&str; 0]);
    }

    #[test]
    fn what_a_probe_left_that_was_killed_is_removed_and_nothing_else() {
        let here = tempfile::tempdir().expect("temporary files can be made");
        let path = here.path().join(PROBE);
        let probed = || done(LONG, |signs| write_named(&path, signs).map(drop));
        for left in ["", "plumb"] {
            fs::write(&path, left).expect("writes");
            probed().expect("writes its own");
            assert!(!path.exists());
        }
        fs::write(&path, "something else").expect("writes");
        let error = probed().expect_err("is somebody's");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        fs::remove_file(&path).expect("is there");
        symlink(here.path().join("absent"), &path).expect("links");
        probed().expect_err("is a link");
        assert_eq!(names(here.path(), LONG).expect("lists"), [PROBE]);
    }

    #[test]
    fn many_entries_are_listed_and_removed() {
        let here = tempfile::tempdir().expect("temporary files can be made");
        let dir = here.path().join("work");
        let made = make(&dir, LONG).expect("is made");
        for number in 0..2500 {
            fs::write(dir.join(number.to_string()), "").expect("writes");
        }
        assert_eq!(names(&dir, LONG).expect("lists").len(), 2500);
        remove(&dir, Some(|is: Identity| is == made), LONG).expect("is removed");
    }

    #[test]
    fn what_is_no_directory_to_write_in_is_refused() {
        let here = tempfile::tempdir().expect("temporary files can be made");
        let file = here.path().join("file");
        fs::write(&file, "").expect("writes");
        let refused = |path: &Path| probe(path, LONG).expect_err("is refused");
        assert!(matches!(refused(&file), Refused::Other(what) if what == "a file"));
        let null = refused(Path::new("/dev/null"));
        assert!(matches!(null, Refused::Other(what) if what == "a device"));
        assert!(matches!(refused(&here.path().join("absent")), Refused::Unreachable(_)));
        assert!(matches!(refused(Path::new("/proc")), Refused::Unwritable(_)));
    }

    #[test]
    fn all_of_a_directory_goes_and_what_its_links_name_stays() {
        let here = tempfile::tempdir().expect("temporary files can be made");
        let dir = here.path().join("work");
        let made = make(&dir, LONG).expect("is made");
        let ours = Some(|is: Identity| is == made);
        assert_eq!(make(&dir, LONG).expect_err("is there").kind(), ErrorKind::AlreadyExists);
        fs::create_dir_all(dir.join("a/b")).expect("is made");
        fs::write(dir.join("a/b/c"), "").expect("writes");
        let precious = here.path().join("precious");
        fs::create_dir(&precious).expect("is made");
        fs::write(precious.join("file"), "").expect("writes");
        symlink(&precious, dir.join("link")).expect("links");
        remove_but(&dir, &["a".into()], LONG).expect("is removed");
        assert_eq!(names(&dir, LONG).expect("lists"), ["a"]);
        symlink(&precious, dir.join("a/link")).expect("links");
        let other = |is: Identity| is.inode != made.inode;
        remove(&dir, Some(other), LONG).expect_err("is another");
        remove(&dir, None::<fn(Identity) -> bool>, LONG).expect_err("is not empty");
        remove(&dir, ours, LONG).expect("is removed");
        assert!(!dir.exists() && precious.join("file").exists());
        assert_eq!(remove(&dir, ours, LONG).expect_err("is gone").kind(), ErrorKind::NotFound);
        // A link in the place of the directory is not followed.
        symlink(&precious, &dir).expect("links");
        remove(&dir, ours, LONG).expect_err("is no directory");
        // Nor is one on the way to it.
        remove(&dir.join("file"), None::<fn(Identity) -> bool>, LONG).expect_err("is a link");
        make(&dir.join("below"), LONG).expect_err("is a link");
        assert_eq!(names(&precious, LONG).expect("lists"), ["file"]);
        assert_eq!(real(&dir, LONG).expect("is there"), real(&precious, LONG).expect("too"));
    }

    #[test]
    fn where_every_user_may_replace_files_none_are_made() {
        let here = tempfile::tempdir().expect("temporary files can be made");
        let mode = |mode| {
            fs::set_permissions(here.path(), fs::Permissions::from_mode(mode)).expect("is set");
        };
        mode(0o777);
        assert!(matches!(probe(here.path(), LONG), Err(Refused::Unwritable(_))));
        make(&here.path().join("work"), LONG).expect_err("is refused");
        mode(0o1777);
        probe(here.path(), LONG).expect("has a sticky bit");
        make(&here.path().join("work"), LONG).expect("has a sticky bit");
    }
}
