//! Texts of the kernel, line by line.

use std::str::FromStr;

/// What follows `name` on the first line that begins with it, without white space around.
pub fn after<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

pub fn number<N: FromStr>(text: &str, name: &str) -> Option<N> {
    after(text, name)?.parse().ok()
}

/// The numbers there, up to the first word that is not a number.
pub fn numbers<N: FromStr>(text: &str) -> impl Iterator<Item = N> {
    text.split_whitespace().map_while(|word| word.parse().ok())
}

/// What follows `name` on the first line that has it, a number of KiB (`MemFree:   12 kB`), in
/// bytes.
pub fn bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| Some(line.split_once(name)?.1))?;
    numbers::<u64>(value).next()?.checked_mul(1024)
}

/// What follows the colon on the line of that name (`se.slice   :   1400000`).
pub fn beside<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// Written like this: `0x1f`
pub fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{bytes, number};

    #[test]
    fn counters_are_found_by_their_names() {
        let io = "rchar: 1\nread_bytes: 4096\nwrite_bytes: 7\n";
        assert_eq!(number(io, "read_bytes:"), Some(4096));
        assert_eq!(number(io, "write_bytes:"), Some(7));
        assert_eq!(number::<u64>("rchar: 1\n", "read_bytes:"), None);
        let meminfo = "Dirty:   12 kB\nWritebackTmp:  50 kB\n";
        assert_eq!((bytes(meminfo, "Dirty:"), bytes(meminfo, "Writeback:")), (Some(12288), None));
    }
}
