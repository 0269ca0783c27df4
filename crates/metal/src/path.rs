//! Paths on which no link of another user is followed.
//!
//! A path is walked by descriptors, one name after the other, so that what was checked is what is
//! used, whatever becomes of the path meanwhile. The kernel protects against links of others only in
//! directories with a sticky bit, and only where `fs.protected_symlinks` is set; openat2(2) with
//! `RESOLVE_NO_SYMLINKS` would refuse links of the administrator too, as of `/home`.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

pub use rustix::fs::OFlags as Flags;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, PROC_SUPER_MAGIC, RenameFlags, fstat, fstatfs,
    linkat, mkdirat, openat, readlinkat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Links that are followed one after the other, as by the kernel.
const LINKS_MAX: usize = 40;
/// The user who may lay a link anywhere.
const ROOT: u32 = 0;
/// How a directory is opened to go on from it.
const WAY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A directory that is made lets only its owner write.
const DIRECTORY: Mode = Mode::from_raw_mode(0o755);

/// A name in an open directory. What it names is no link, but for the kernel's own ones
/// (`/proc/self/fd/1`), and need not exist.
#[derive(Clone, Debug)]
pub struct Location {
    dir: Rc<OwnedFd>,
    name: OsString,
    is_descriptor: bool,
}

/// What a name is replaced by when a file is renamed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    /// The file that the line is from.
    Replaced,
    /// Nothing, if it is there: `AlreadyExists`.
    Kept,
}

impl Location {
    /// Where a path leads. Links of this user and of root are followed, unless they are in a
    /// directory where others could have put them. Errors: another link; those of open(2).
    pub fn find(path: &Path) -> io::Result<Location> {
        walk(path, false, true)
    }

    /// As [`Location::find`], whatever the last name is: a link there may be replaced, but is not
    /// followed.
    pub fn exact(path: &Path) -> io::Result<Location> {
        walk(path, false, false)
    }

    /// As [`Location::exact`]; directories that are missing on the way are made.
    pub fn make(path: &Path) -> io::Result<Location> {
        walk(path, true, false)
    }

    /// Another name in its directory.
    pub fn beside(&self, name: impl Into<OsString>) -> Location {
        Location { dir: Rc::clone(&self.dir), name: name.into(), is_descriptor: false }
    }

    /// Whether it is the kernel's link to an open file, which somebody else opened for this process.
    pub fn is_descriptor(&self) -> bool {
        self.is_descriptor
    }

    /// Its directory's facts. Errors: those of fstat(2).
    pub fn directory(&self) -> io::Result<Metadata> {
        File::from(self.dir.try_clone()?).metadata()
    }

    /// What it names; `None` where there is nothing. Errors: those of open(2).
    pub fn facts(&self) -> io::Result<Option<Metadata>> {
        match self.open(OFlags::PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened?.metadata().map(Some),
        }
    }

    /// Makes the file. Errors: those of open(2); `AlreadyExists`.
    pub fn create(&self, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(&*self.dir, &self.name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Opens what it names. Errors: those of open(2).
    pub fn open(&self, flags: OFlags) -> io::Result<File> {
        let no_link = if self.is_descriptor { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = flags | no_link | OFlags::CLOEXEC;
        Ok(openat(&*self.dir, &self.name, flags, Mode::empty())?.into())
    }

    /// Gives the file another name in the same directory. Errors: those of rename(2).
    pub fn rename(&self, to: &Location, there: There) -> io::Result<()> {
        let (dir, name, new) = (&*self.dir, &self.name, &to.name);
        if there == There::Replaced {
            return Ok(renameat(dir, name, dir, new)?);
        }
        match renameat_with(dir, name, dir, new, RenameFlags::NOREPLACE) {
            // File systems over a network know only the older way.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(dir, name, dir, new, AtFlags::empty())?;
                self.remove()
            }
            renamed => Ok(renamed?),
        }
    }

    /// Removes the file. Errors: those of unlink(2).
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&*self.dir, &self.name, AtFlags::empty())?)
    }

    /// Names in its directory. Errors: those of open(2) and getdents(2).
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = Dir::read_from(self.beside(".").open(OFlags::RDONLY)?)?;
        let name =
            |entry: rustix::fs::DirEntry| OsString::from_vec(entry.file_name().to_bytes().to_vec());
        Ok(entries.map(|entry| entry.map(name)).collect::<Result<_, _>>()?)
    }

    /// Has what was made, renamed or removed in its directory reach the disk. Errors: those of
    /// open(2) and fsync(2).
    pub fn sync(&self) -> io::Result<()> {
        self.beside(".").open(OFlags::RDONLY)?.sync_all()
    }
}

/// What is left of a path, the next name last.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    let parts = path.components().rev().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_owned())
}

/// `makes`: the directories on the way; `follows`: a link in the last place.
fn walk(path: &Path, makes: bool, follows: bool) -> io::Result<Location> {
    let mut left: Vec<OsString> = names(path).collect();
    // Whoever names an absolute path need not be able to use the current directory.
    let start = if path.is_absolute() { "/" } else { "." };
    let mut dir = openat(CWD, start, WAY, Mode::empty())?;
    let mut shown = PathBuf::new();
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == "/" || name == ".." {
            dir = openat(&dir, &name, WAY & !OFlags::NOFOLLOW, Mode::empty())?;
            shown.push(&name);
            continue;
        }
        let is_last = left.is_empty();
        if is_last && !follows {
            return Ok(Location::new(dir, name));
        }
        let found = openat(&dir, &name, WAY & !OFlags::DIRECTORY, Mode::empty());
        let found = match found.map_err(io::Error::from) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(error) if !is_last && !makes => return Err(error),
            Err(_) if is_last => return Ok(Location::new(dir, name)),
            Err(_) => {
                match mkdirat(&dir, &name, DIRECTORY) {
                    // Another plumb began at the same moment.
                    Err(Errno::EXIST) => {}
                    made => made?,
                }
                left.push(name);
                continue;
            }
            Ok(found) => found,
        };
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::Symlink => {
                if is_last && fstatfs(&dir)?.f_type == PROC_SUPER_MAGIC {
                    return Ok(Location { is_descriptor: true, ..Location::new(dir, name) });
                }
                check(&dir, &found, &shown.join(&name))?;
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let to = readlinkat(&found, "", Vec::new())?.into_bytes();
                left.extend(names(Path::new(&OsString::from_vec(to))));
            }
            _ if is_last => return Ok(Location::new(dir, name)),
            _ => {
                dir = openat(&dir, &name, WAY, Mode::empty())?;
                shown.push(&name);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file name; type one"))
}

impl Location {
    fn new(dir: OwnedFd, name: OsString) -> Location {
        Location { dir: Rc::new(dir), name, is_descriptor: false }
    }
}

/// Checks that a link in a directory was laid by this user or by root, there. Errors: another user may
/// have laid it.
fn check(dir: &OwnedFd, link: &OwnedFd, shown: &Path) -> io::Result<()> {
    let (dir, link) = (fstat(dir)?, fstat(link)?);
    let is_trusted = |user: u32| [ROOT, geteuid().as_raw()].contains(&user);
    let mode = Mode::from_raw_mode(dir.st_mode);
    // Where all may write, others can move a link, or give it a second name.
    let is_open = mode.contains(Mode::WOTH) && (!mode.contains(Mode::SVTX) || link.st_nlink > 1);
    if is_trusted(link.st_uid) && is_trusted(dir.st_uid) && !is_open {
        return Ok(());
    }
    let shown = shown.display();
    Err(io::Error::other(match is_trusted(link.st_uid) {
        false => format!("{shown} is a link that another user laid (uid {})", link.st_uid),
        true => format!("{shown} is a link in a directory that another user can change"),
    }))
}

/// Whether a pipe, a device or whatever else it is belongs to this user or to root.
pub fn is_own(facts: &Metadata) -> bool {
    [ROOT, geteuid().as_raw()].contains(&facts.uid())
}

#[cfg(test)]
mod tests {
    use super::{Location, There};
    use rustix::fs::OFlags;
    use std::fs;
    use std::io::{ErrorKind, Write};
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};
    use std::path::Path;

    const NOBODY: u32 = 65_534;

    fn found(path: &Path) -> Result<String, String> {
        let location = Location::find(path).map_err(|error| error.to_string())?;
        location.create(OFlags::WRONLY, 0o600).map_err(|error| format!("{:?}", error.kind()))?;
        location.remove().map_err(|error| error.to_string())?;
        Ok(location.name.to_string_lossy().into_owned())
    }

    #[test]
    fn links_of_this_user_lead_on_and_those_of_others_do_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("real/inner")).expect("is made");
        symlink("real", at("link")).expect("links");
        symlink(at("link/inner"), at("absolute")).expect("links");
        symlink("absolute/new", at("last")).expect("links");
        symlink("round", at("round")).expect("links");
        for path in ["real/new", "link/inner/../new", "absolute/new", "last", "./real/./new"] {
            assert_eq!(found(&at(path)), Ok("new".to_owned()), "{path}");
        }
        assert!(found(&at("round")).expect_err("no end").contains("os error 40"));
        assert_eq!(found(&at("real")), Err("AlreadyExists".to_owned()));
        assert!(found(&at("real/..")).expect_err("no name").contains("file name"));
        for (path, kind) in
            [("none/new", ErrorKind::NotFound), ("real/inner/x/y", ErrorKind::NotFound)]
        {
            assert_eq!(Location::find(&at(path)).expect_err("is missing").kind(), kind, "{path}");
        }
        // Only root can give a link away.
        if lchown(at("link"), Some(NOBODY), None).is_ok() {
            for path in ["link/new", "absolute/new", "last"] {
                assert!(
                    found(&at(path)).expect_err("is another's").contains("uid 65534"),
                    "{path}"
                );
            }
            lchown(at("link"), Some(0), None).expect("is root's again");
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("is set");
        let refused = found(&at("link/new")).expect_err("others may have moved it");
        assert!(refused.contains("another user"), "{refused}");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).expect("is set");
        assert_eq!(found(&at("link/new")), Ok("new".to_owned()));
    }

    #[test]
    fn missing_directories_are_made_and_files_renamed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b/file");
        let to = Location::make(&path).expect("is made");
        assert!(to.facts().expect("can be asked").is_none());
        for (text, there) in
            [("one", There::Kept), ("two", There::Replaced), ("three", There::Kept)]
        {
            let part = to.beside("part");
            part.create(OFlags::WRONLY, 0o600)
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .expect("is written");
            let renamed = part.rename(&to, there);
            assert_eq!(renamed.is_ok(), text != "three", "{renamed:?}");
        }
        assert_eq!(fs::read_to_string(&path).expect("is there"), "two");
        let mut names = to.names().expect("can be listed");
        names.sort();
        assert_eq!(names, [".", "..", "file", "part"]);
        to.sync().expect("reaches the disk");
    }

    #[test]
    fn an_open_descriptor_is_reached_by_its_link() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(file.as_file());
        let path = format!("/proc/self/fd/{descriptor}");
        let location = Location::find(Path::new(&path)).expect("is found");
        location
            .open(OFlags::WRONLY)
            .and_then(|mut file| file.write_all(b"x"))
            .expect("is written");
        assert_eq!(fs::read(file.path()).expect("is there"), b"x");
    }
}
