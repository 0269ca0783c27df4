//! What file system holds a path, by a text that stays the same when it is mounted again.

use std::path::{Path, PathBuf};

/// The words by which an overlay differs from others of the same name.
const OVERLAY: &str = "upperdir=";

/// The file system that holds `path` (absolute, no links), in a text as /proc/self/mountinfo is:
/// its kind, its source, the part of it that is mounted, and where. Its number is not in it:
/// servers and FUSE get another one each time. Asking the path itself could wait for a server that
/// is gone.
pub fn holder(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(parse);
    let holds = mounts.filter(|(target, _)| path.starts_with(target));
    // Of several on one point the last.
    let (_, text) = holds.max_by_key(|(target, _)| target.components().count())?;
    Some(text)
}

/// One line: `36 35 98:0 /root /target rw,noatime shared:1 - ext3 /dev/x rw,errors=y`
/// (Documentation/filesystems/proc.rst, section 3.5).
fn parse(line: &str) -> Option<(PathBuf, String)> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, target) = (before.next()?, unescape(before.next()?));
    let mut after = after.split(' ');
    let (kind, source) = (after.next()?, unescape(after.next()?));
    let part = match root {
        "/" => String::new(),
        root => format!(" ({})", unescape(root)),
    };
    let options = after.next().unwrap_or_default().split(',');
    let upper: Vec<String> = options
        .filter(|option| option.starts_with(OVERLAY))
        .map(|option| format!(" {option}"))
        .collect();
    let text = format!("{kind} {source}{part}{} on {target}", upper.concat());
    Some((PathBuf::from(target), text))
}

/// The kernel writes space, tab, newline and backslash as `\040` and so on.
fn unescape(text: &str) -> String {
    const CODES: [(&str, &str); 4] =
        [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let plain = |text: String, (code, sign): &(&str, &str)| text.replace(code, sign);
    CODES.iter().fold(text.to_owned(), plain)
}

#[cfg(test)]
mod tests {
    use super::holder;
    use std::path::Path;

    const MOUNTS: &str = "21 1 254:0 / / rw - ext4 /dev/vda1 rw\n\
        40 21 0:50 / /mnt/my\\040share rw shared:7 - nfs4 srv:/export rw,vers=4.2\n\
        41 21 254:0 /srv/data /data rw - ext4 /dev/vda1 rw\n\
        42 21 0:60 / /box rw - overlay overlay rw,lowerdir=/l,upperdir=/u/1,workdir=/w\n";

    #[test]
    fn the_longest_mount_point_holds_a_path_and_its_number_is_not_told() {
        let again = MOUNTS.replace("0:50", "0:77");
        for (path, is) in [
            ("/mnt/plumb-x", "ext4 /dev/vda1 on /"),
            ("/mnt/my share/plumb-x", "nfs4 srv:/export on /mnt/my share"),
            ("/data/x", "ext4 /dev/vda1 (/srv/data) on /data"),
            ("/database", "ext4 /dev/vda1 on /"),
            ("/box/x", "overlay overlay upperdir=/u/1 on /box"),
        ] {
            for mounts in [MOUNTS, &again] {
                assert_eq!(holder(mounts, Path::new(path)).as_deref(), Some(is));
            }
        }
        assert_eq!(holder("", Path::new("/x")), None);
    }
}
