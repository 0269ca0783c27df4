//! Files that plumb makes: whole or not at all, on disk when it says so, and never through a link
//! that another user laid.

use crate::setup::Usage;
use anyhow::{Context, Result, anyhow, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use record::order::Gather;
use record::seal::{self, Seal};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Mode of a file that everybody may read, …
pub const SHARED: u32 = 0o644;
/// … and of one that its owner alone may.
pub const SECRET: u32 = 0o600;

/// Links that are followed from one to the next, as by the kernel.
const LINKS_MAX: usize = 40;
/// The user who may lay a link anywhere.
const ROOT: u32 = 0;

/// What becomes of a file of this name that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    /// It is replaced.
    Replaced,
    /// It stays, and none is made: `AlreadyExists`.
    Kept,
}

/// Makes a file of exactly this path: written under a random name that did not exist (O_EXCL, so
/// through no link), synced, renamed, and the directory synced. The file, open. Errors: what
/// `write` reports, those of the system calls; nothing is left then.
pub fn make(
    path: &Path,
    mode: u32,
    there: There,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    let mut part = part(path, mode)?;
    write(part.as_file_mut())?;
    part.as_file().sync_all()?;
    let file = match there {
        There::Replaced => part.persist(path)?,
        There::Kept => part.persist_noclobber(path)?,
    };
    sync_directory(parent(path))?;
    Ok(file)
}

/// Makes several files in place of what is there: `write` gets them open, in this order, and all are
/// renamed once all are synced. Errors: what `write` reports, those of the system calls; nothing is
/// changed then, unless renaming fails between two files.
pub fn make_all(
    paths: &[PathBuf],
    mode: u32,
    write: impl FnOnce(&mut [File]) -> Result<()>,
) -> Result<()> {
    let parts: io::Result<Vec<_>> = paths.iter().map(|path| part(path, mode)).collect();
    let failed = |error: io::Error| match paths {
        [] => anyhow!("{error}"),
        [first, ..] => cannot_write(parent(first), &error),
    };
    let (mut files, names): (Vec<File>, Vec<_>) =
        parts.map_err(failed)?.into_iter().map(tempfile::NamedTempFile::into_parts).unzip();
    write(&mut files)?;
    for file in files {
        file.sync_all().map_err(failed)?;
    }
    for (name, path) in names.into_iter().zip(paths) {
        name.persist(path).map_err(|error| cannot_write(path, &error.error))?;
    }
    let directories: BTreeSet<&Path> = paths.iter().map(|path| parent(path)).gather();
    directories.into_iter().try_for_each(|dir| sync_directory(dir).map_err(failed))
}

/// A file beside another one that is gone when it is dropped.
fn part(path: &Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".plumb-")
        .suffix(".part")
        // Its own `tempfile_in` reports a failure with the random name.
        .make_in(parent(path), |part| {
            OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(part)
        })
}

/// Has what was made, renamed or removed in a directory reach its disk. Errors: those of fsync(2),
/// but for a directory that cannot be opened for it or file systems that sync none.
pub fn sync_directory(dir: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if [InvalidInput, PermissionDenied, Unsupported].contains(&error.kind()) => {
            Ok(())
        }
        synced => synced,
    }
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes a file that a user named as [`make`] does, in place of one that is there. A device or
/// pipe is written as it is, a link of the user's stays a link. Errors: it cannot be written.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    let target = target(path)?;
    let written = match is_special(&target) {
        true => special(&target).and_then(|mut file| file.write_all(contents)),
        false => make(&target, SHARED, There::Replaced, |file| file.write_all(contents)).map(drop),
    };
    written.map_err(|error| cannot_write(path, &error))
}

/// Copies a file as [`write_whole`] writes one. A file that is there already stays: the same one is
/// as good as the copy. Errors: [`Usage`]: another file is there; it cannot be read or written.
pub fn copy_whole(from: &Path, to: &Path) -> Result<()> {
    if to.symlink_metadata().is_ok() && !is_special(to) {
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
    let copied = match is_special(to) {
        true => special(to).and_then(|mut copy| io::copy(&mut file, &mut copy).map(drop)),
        false => {
            make(to, SHARED, There::Kept, |copy| io::copy(&mut file, copy).map(drop)).map(drop)
        }
    };
    copied.map_err(|error| cannot_write(to, &error))
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
    let target = target(path)?;
    if is_special(&target) {
        return Ok(());
    }
    check_directory(path)?;
    let made = part(&target, SHARED).map(drop);
    made.map_err(|error| anyhow!("cannot write {}: {error}; name another file", path.display()))
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

/// The file that a path names: links of this user and of root are followed. The kernel forbids
/// others only in directories with a sticky bit, and only where `fs.protected_symlinks` is set.
/// Errors: another user laid one, there are too many, or it is no file name.
pub(super) fn target(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    ensure!(path.file_name().is_some(), "{shown} is not a file name; type one");
    let mut target = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(facts) = target.symlink_metadata() else { return Ok(target) };
        if !facts.is_symlink() {
            return Ok(target);
        }
        ensure!(
            [ROOT, metal::process::geteuid()].contains(&facts.uid()),
            "{} is a link that another user laid (uid {}); name another file",
            target.display(),
            facts.uid()
        );
        if target.starts_with("/proc") {
            // The kernel's own links name open files.
            return Ok(target.canonicalize().unwrap_or(target));
        }
        let to = fs::read_link(&target).with_context(|| format!("cannot read {shown}"))?;
        target = parent(&target).join(to);
    }
    bail!("{shown} is a link to links without end; name another file")
}

/// A device, a pipe or a socket: renaming over one would destroy it.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| !facts.is_file() && !facts.is_dir())
}

fn special(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// How files begin that hold a record in another form, and the way out.
const FOREIGN: [(&[u8], &str); 8] = [
    (b"\xfd7zXZ", "packed by xz: unpack it with `unxz`"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd: unpack it with `unzstd`"),
    (b"BZh", "packed by bzip2: unpack it with `bunzip2`"),
    (b"PK\x03\x04", "a ZIP archive: unpack it with `unzip`"),
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
    (b"{\0", UTF_16),
    (b"\0{", UTF_16),
];
const UTF_16: &str = "text in UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`";
const GZIP: &[u8] = b"\x1f\x8b";

/// Opens a record to be read, unpacked where gzip packed it. Errors: it cannot be opened or read, or
/// has another form.
pub fn reader(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::new(File::open(path)?);
    let start = file.fill_buf()?;
    let other = FOREIGN.iter().find(|(bytes, _)| start.starts_with(bytes));
    if let Some((_, what)) = other {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is {what}")));
    }
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
    if seal::check(last.strip_suffix(b"\r").unwrap_or(last)) == Seal::Intact {
        file.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        SECRET, SHARED, There, check_directory, check_writable, copy_whole, make, make_all,
        write_whole,
    };
    use std::ffi::OsStr;
    use std::fs;
    use std::io::{ErrorKind, Write};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    #[test]
    fn several_files_are_made_together_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a directory");
        let paths = ["a", "b"].map(|name| dir.path().join(name));
        let all = |text: &'static [u8]| {
            make_all(&paths, SHARED, |files| {
                for file in &mut *files {
                    file.write_all(text)?;
                }
                anyhow::ensure!(text != b"bad", "refused");
                Ok(())
            })
        };
        all(b"first").expect("are made");
        assert_eq!(all(b"bad").expect_err("is refused").to_string(), "refused");
        for path in &paths {
            assert_eq!(fs::read(path).expect("is there"), b"first");
        }
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2);
        let nowhere = [dir.path().join("nowhere/a")];
        let message = make_all(&nowhere, SHARED, |_| Ok(())).expect_err("no directory").to_string();
        assert!(!message.contains(".part"), "{message}");
    }

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
            assert!(refused.contains("type a file name in it"), "{refused}");
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
        symlink("round", at("round")).expect("links");
        write_whole(&at("round"), b"").expect_err("has no end");
    }
}
