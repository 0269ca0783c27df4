//! What this process may do with a path, asked without doing it.

use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::path::Path;

/// Whether the effective user may write a file, or make something in a directory: what permissions,
/// capabilities and read-only mounts say (faccessat(2)). No for what is not there.
pub fn may_write(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests {
    use super::may_write;
    use std::path::Path;

    #[test]
    fn the_own_directory_may_be_written_and_what_is_not_there_may_not() {
        let dir = std::env::temp_dir();
        assert!(may_write(&dir));
        assert!(!may_write(&dir.join("plumb-is-not-there/at-all")));
        // Even root cannot write a read-only file of the kernel: proc has no such permission bits,
        // but a mount that is read-only, where there is one.
        let Ok(mounts) = std::fs::read_to_string("/proc/self/mounts") else {
            return skips::part("kernel", "/proc/self/mounts");
        };
        let read_only = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ');
            let (_, target, _, options) =
                (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            options.split(',').any(|word| word == "ro").then_some(target)
        });
        if let Some(target) = read_only {
            assert!(!may_write(Path::new(target)), "{target}");
        }
    }
}
