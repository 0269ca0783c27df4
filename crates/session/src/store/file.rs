//! Files that plumb makes: whole or not at all, on disk when it says so, and never through a link
//! that another user laid.

use crate::setup::Usage;
use anyhow::{Context, Result, anyhow, bail, ensure};
use flate2::bufread::MultiGzDecoder;
pub use metal::path::There;
use metal::path::{Flags, Location, is_own};
use record::seal;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Mode of a file that everybody may read, …
pub const SHARED: u32 = 0o644;
/// … and of one that its owner alone may: who can read a file can also lock it.
pub const SECRET: u32 = 0o600;

/// What the name of a file that is not whole yet begins and ends with.
const PART: [&str; 2] = [".plumb-", ".part"];

/// Makes a file of exactly this path: written under a random name that did not exist (O_EXCL),
/// synced, renamed, and the directory synced. The file, open. Errors: what `write` reports, a link
/// of another user on the way, those of the system calls; nothing is left then.
pub fn make(
    path: &Path,
    mode: u32,
    there: There,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    make_at(&Location::exact(path)?, mode, there, write)
}

fn make_at(
    target: &Location,
    mode: u32,
    there: There,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    let mut part = Part::make(target, mode)?;
    write(&mut part.file)?;
    part.file.sync_all()?;
    let file = part.persist(target, there)?;
    synced(target.sync())?;
    Ok(file)
}

/// A file beside another one that is gone when it is dropped. Its lock is held until it is whole.
struct Part {
    location: Location,
    file: File,
    is_kept: bool,
}

impl Part {
    fn make(target: &Location, mode: u32) -> io::Result<Part> {
        remove_parts(target);
        loop {
            let [start, end] = PART;
            let location = target.beside(format!("{start}{:016x}{end}", fastrand::u64(..)));
            let file = match location.create(Flags::RDWR, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            };
            // A file system without locks has none of its parts removed by others.
            let _ = file.try_lock();
            if file.metadata()?.nlink() > 0 {
                return Ok(Part { location, file, is_kept: false });
            }
        }
    }

    fn persist(mut self, target: &Location, there: There) -> io::Result<File> {
        self.location.rename(target, there)?;
        self.is_kept = true;
        self.file.try_clone()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = self.location.remove();
        }
    }
}

/// Removes the parts in a directory whose plumb is dead: this user's whose lock is free.
fn remove_parts(target: &Location) {
    let [start, end] = PART.map(str::as_bytes);
    let is_part = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.starts_with(start) && name.ends_with(end)
    };
    for name in target.names().unwrap_or_default().iter().filter(|name| is_part(name)) {
        let part = target.beside(name);
        let opened = part.open(Flags::RDONLY | Flags::NONBLOCK);
        let is_left = opened.is_ok_and(|file| {
            let is_ours = |facts: Metadata| facts.is_file() && is_own(&facts);
            file.metadata().is_ok_and(is_ours) && file.try_lock().is_ok()
        });
        if is_left {
            // One that cannot be removed disturbs no one.
            let _ = part.remove();
        }
    }
}

/// Has what was made, renamed or removed in a directory reach its disk. Errors: those of fsync(2),
/// but for a directory that cannot be opened for it or file systems that sync none.
pub fn sync_directory(dir: &Path) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    synced(File::open(dir).and_then(|dir| dir.sync_all()))
}

fn synced(outcome: io::Result<()>) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match outcome {
        Err(error) if [InvalidInput, PermissionDenied, Unsupported].contains(&error.kind()) => {
            Ok(())
        }
        synced => synced,
    }
}

/// Writes a file that a user named as [`make`] does, in place of one that is there. A device or
/// pipe is written as it is, a link of the user's stays a link. Errors: it cannot be written.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    let written = target(path)?;
    let written = match special(&written)? {
        true => written.open(Flags::WRONLY).and_then(|mut file| file.write_all(contents)),
        false => {
            make_at(&written, SHARED, There::Replaced, |file| file.write_all(contents)).map(drop)
        }
    };
    written.map_err(|error| cannot_write(path, &error))
}

/// Copies a file as [`write_whole`] writes one. A file that is there already stays: the same one is
/// as good as the copy. Errors: [`Usage`]: another file is there; it cannot be read or written.
pub fn copy_whole(from: &Path, to: &Path) -> Result<()> {
    let target = target(to)?;
    let is_special = special(&target)?;
    if to.symlink_metadata().is_ok() && !is_special {
        return match are_equal(from, to) {
            Ok(true) => Ok(()),
            Ok(false) => {
                bail!(Usage(format!(
                    "{} exists and is a different file; remove it or name another one",
                    to.display()
                )))
            }
            Err(error) => {
                bail!(Usage(format!(
                    "{} exists and cannot be read for comparison ({error}); name another file",
                    to.display()
                )))
            }
        };
    }
    let mut file = File::open(from).with_context(|| format!("cannot open {}", from.display()))?;
    let copied = match is_special {
        true => target.open(Flags::WRONLY).and_then(|mut copy| io::copy(&mut file, &mut copy)),
        false => {
            let mut copied = 0;
            let copy = |copy: &mut File| io::copy(&mut file, copy).map(|bytes| copied = bytes);
            make_at(&target, SHARED, There::Kept, copy).map(|_| copied)
        }
    };
    copied.map(drop).map_err(|error| cannot_write(to, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("cannot write {}: {error}", path.display())
}

fn are_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let length = |path: &Path| Ok::<u64, io::Error>(fs::metadata(path)?.len());
    Ok(length(one)? == length(other)? && fs::read(one)? == fs::read(other)?)
}

/// Checks, before anything is measured, that a file can be written later. Errors: it cannot.
pub fn check_writable(path: &Path) -> Result<()> {
    check_directory(path)?;
    let target = target(path)?;
    match special(&target)? {
        true => Ok(()),
        false => Part::make(&target, SHARED).map(drop).map_err(|error| unusable(path, &error)),
    }
}

/// Checks that the directory of a file that a user named is there: a misspelt one is not made.
/// Errors: it is not, or the path is a directory itself.
pub fn check_directory(path: &Path) -> Result<()> {
    match path.parent() {
        _ if path.is_dir() => {
            bail!("{} is a directory; type a file name in it", path.display())
        }
        Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => {
            bail!("there is no directory {}; name another file", parent.display())
        }
        _ => Ok(()),
    }
}

/// The file that a path names. Errors: see [`Location::find`].
fn target(path: &Path) -> Result<Location> {
    Location::find(path).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("cannot write {}: {error}; name another file", path.display())
}

/// Whether it is a device, a pipe or a socket: renaming over one would destroy it. Errors: a pipe of
/// another user, whose reader may never come.
fn special(target: &Location) -> Result<bool> {
    let Some(facts) = target.facts()? else { return Ok(false) };
    let is_strange = facts.file_type().is_fifo() && !is_own(&facts) && !target.is_descriptor();
    ensure!(!is_strange, "it is a pipe of another user (uid {}); name another file", facts.uid());
    Ok(!facts.is_file() && !facts.is_dir())
}

/// How a file begins that gzip packed.
const GZIP: &[u8] = b"\x1f\x8b";

/// Opens a record to be read, unpacked where gzip packed it. Errors: it cannot be opened or read.
pub fn reader(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::new(File::open(path)?);
    let start = file.fill_buf()?;
    Ok(match start.starts_with(GZIP) {
        true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
        false => Box::new(file),
    })
}

/// Makes a record ready for more lines: the last one may lack its newline. Errors: it is packed, or
/// cannot be read or written.
pub fn continuable(path: &Path, mut file: &File) -> Result<()> {
    let bytes = fs::read(path)?;
    ensure!(!bytes.starts_with(GZIP), "{} is packed by gzip: `gunzip` it first", path.display());
    let last = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    if seal::is_ended(last.strip_suffix(b"\r").unwrap_or(last)) {
        file.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        SECRET, SHARED, There, check_directory, check_writable, copy_whole, make, write_whole,
    };
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::io::{ErrorKind, Write};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};

    #[test]
    fn a_file_is_made_whole_with_its_mode_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(OsStr::from_bytes(b"not \xff text"));
        for (mode, there) in [(SECRET, There::Kept), (SHARED, There::Replaced)] {
            make(&path, mode, there, |file| file.write_all(b"whole")).expect("is made");
            assert_eq!(fs::metadata(&path).expect("is there").mode() & 0o777, mode);
        }
        let kept = make(&path, SHARED, There::Kept, |file| file.write_all(b"new"));
        assert_eq!(kept.expect_err("is there").kind(), ErrorKind::AlreadyExists);
        let full = || Err(ErrorKind::StorageFull.into());
        make(&path, SHARED, There::Replaced, |file| file.write_all(b"ha").and_then(|()| full()))
            .expect_err("fails");
        check_writable(&path).expect("can be written");
        for check in [check_writable, check_directory] {
            let refused = check(dir.path()).expect_err("is a directory").to_string();
            assert!(refused.contains("a file name"), "{refused}");
        }
        assert_eq!(fs::read(&path).expect("reads"), b"whole");
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 1);
    }

    #[test]
    fn a_link_of_another_user_is_not_followed_and_one_of_ones_own_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("precious"), "precious").expect("writes");
        symlink("precious", at("own")).expect("links");
        symlink("own", at("page")).expect("links");
        write_whole(&at("page"), b"new").expect("is written");
        assert!(at("page").is_symlink() && at("own").is_symlink());
        assert_eq!(fs::read(at("precious")).expect("reads"), b"new");
        // Only root can give a link away.
        if lchown(at("own"), Some(65_534), None).is_ok() {
            let refused = [
                write_whole(&at("page"), b"other"),
                check_writable(&at("own")),
                copy_whole(&at("precious"), &at("gone"))
                    .and_then(|()| write_whole(&at("own"), b"")),
            ];
            for refused in refused {
                let message = refused.expect_err("another user laid it").to_string();
                assert!(message.contains("uid 65534"), "{message}");
            }
            assert_eq!(fs::read(at("precious")).expect("reads"), b"new");
        }
    }

    #[test]
    fn parts_of_dead_processes_are_removed_and_others_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        for name in [".plumb-0.part", ".plumb-1.part", ".plumb-x", "plumb-1.part"] {
            fs::write(at(name), "left").expect("writes");
        }
        let held = File::open(at(".plumb-1.part")).expect("opens");
        held.lock().expect("is alive");
        write_whole(&at("page"), b"page").expect("is written");
        let listed = fs::read_dir(dir.path()).expect("lists").flatten();
        let mut names: Vec<_> = listed.filter_map(|it| it.file_name().into_string().ok()).collect();
        names.sort();
        assert_eq!(names, [".plumb-1.part", ".plumb-x", "page", "plumb-1.part"]);
    }

    #[test]
    fn a_pipe_of_another_user_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo is there").success());
        if chown(&pipe, Some(65_534), None).is_ok() {
            for refused in [check_writable(&pipe), write_whole(&pipe, b"page")] {
                let message = refused.expect_err("its reader may never come").to_string();
                assert!(message.contains("(uid 65534)"), "{message}");
            }
        }
    }
}
