//! What file system holds a path, by a text that stays the same when it is mounted again.

use host::mountinfo::{Mounted, mounts};
use std::path::Path;

/// The words by which an overlay differs from others of the same name.
const OVERLAY: &str = "upperdir=";

/// The file system that holds `path` (absolute, no links), in a text as /proc/self/mountinfo is:
/// its kind, its source, the part of it that is mounted, and where. Its number is not in it:
/// servers and FUSE get another one each time. Asking the path itself could wait for a server that
/// is gone.
pub fn holder(mountinfo: &str, path: &Path) -> Option<String> {
    let holds = mounts(mountinfo).filter(|mount| path.starts_with(&mount.target));
    // Of several on one point the last.
    let mount = holds.max_by_key(|mount| Path::new(&mount.target).components().count())?;
    let Mounted { root, target, fs, source, .. } = &mount;
    let part = if root == "/" { String::new() } else { format!(" ({root})") };
    let options = mount.super_options.split(',').filter(|option| option.starts_with(OVERLAY));
    let upper: String = options.map(|option| format!(" {option}")).collect();
    Some(format!("{fs} {source}{part}{upper} on {target}"))
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
