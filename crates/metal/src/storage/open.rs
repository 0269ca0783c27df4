//! Opening a file past the page cache, or so that each write waits for the device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    pub write: bool,
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Each write waits until the device has its data (`O_DSYNC`) …
    pub dsync: bool,
    /// … and all that belongs to it (`O_SYNC`).
    pub sync: bool,
}

/// Opens a regular file that is there, and no link to one; nothing else is opened for writing. That
/// the kernel keeps the flags is verified. Errors: those of open(2); `EINVAL` where the file system
/// refuses `O_DIRECT`; what is there is no regular file, or the open file has not the flags that
/// were asked for (both of kind `Unsupported`).
pub fn open(path: &Path, way: Way) -> io::Result<File> {
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(refused("it is not a regular file"));
    }
    let flags =
        [(way.direct, libc::O_DIRECT), (way.dsync, libc::O_DSYNC), (way.sync, libc::O_SYNC)];
    let flags = flags.iter().filter(|(wanted, _)| *wanted);
    let flags = flags.fold(0, |all, (_, flag)| all | flag);
    // A pipe that took the file's place would else be waited for.
    let file = OpenOptions::new()
        .read(true)
        .write(way.write)
        .custom_flags(flags | libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    match fcntl_getfl(&file)?.contains(OFlags::from_bits_retain(flags as u32)) {
        true => Ok(file),
        false => Err(refused("the open file lacks the requested flags (F_GETFL)")),
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

#[cfg(test)]
mod tests {
    use super::{Way, open};
    use std::io::{ErrorKind, Read};
    use std::path::Path;

    #[test]
    fn only_regular_files_are_opened() {
        let write = Way { write: true, ..Way::default() };
        for path in ["/dev/null", "/tmp"] {
            let error = open(Path::new(path), write).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{path}");
        }
        let name = format!("plumb-storage-open-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, b"data").unwrap();
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let by_link = open(&link, write).unwrap_err();
        let mut text = String::new();
        for way in [write, Way { dsync: true, ..write }, Way { sync: true, ..Way::default() }] {
            text.clear();
            let mut file = open(&path, way).unwrap();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "data");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&link).unwrap();
        assert_eq!(by_link.kind(), ErrorKind::Unsupported);
    }
}
