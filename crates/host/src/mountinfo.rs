//! /proc/self/mountinfo, line by line.

/// A mount by its line: `36 35 98:0 /root /target rw,noatime shared:1 - ext3 /dev/x rw,errors=y`
/// (Documentation/filesystems/proc.rst, section 3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted<'text> {
    /// Its number (`mnt_id` of /proc/self/fdinfo).
    pub id: &'text str,
    /// `major:minor` of the file system.
    pub number: &'text str,
    /// The part of the file system that it shows.
    pub root: String,
    pub target: String,
    /// Options of the mount, comma separated.
    pub options: &'text str,
    /// Written like this: `ext4`, `nfs4`, …
    pub fs: &'text str,
    /// Device or remote name.
    pub source: String,
    /// Options of the file system, likewise.
    pub super_options: &'text str,
}

/// The mounts in their order; lines of another form are left out.
pub fn mounts(mountinfo: &str) -> impl Iterator<Item = Mounted<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let (mut before, mut after) = (before.split(' '), after.split(' '));
        Some(Mounted {
            id: before.next()?,
            number: before.nth(1)?,
            root: unescape(before.next()?),
            target: unescape(before.next()?),
            options: before.next()?,
            fs: after.next()?,
            source: unescape(after.next()?),
            super_options: after.next().unwrap_or_default(),
        })
    })
}

/// The kernel writes space, tab, newline and backslash as `\040` and so on.
pub(super) fn unescape(text: &str) -> String {
    let octal = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    octal.iter().fold(text.to_string(), |text, (code, sign)| text.replace(code, sign))
}
