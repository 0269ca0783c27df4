//! Texts of the kernel, line by line.

use std::str::FromStr;

/// What follows `name` on the first line that begins with it, without white space around.
pub(crate) fn after<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The number there.
pub(crate) fn number<N: FromStr>(text: &str, name: &str) -> Option<N> {
    after(text, name)?.parse().ok()
}

/// The numbers there, up to the first word that is not a number.
pub(crate) fn numbers<N: FromStr>(text: &str) -> impl Iterator<Item = N> {
    text.split_whitespace().map_while(|word| word.parse().ok())
}

/// What follows `name` on the first line that has it, a number of KiB (`MemFree:   12 kB`), in
/// bytes.
pub(crate) fn bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| Some(line.split_once(name)?.1))?;
    numbers::<u64>(value).next()?.checked_mul(1024)
}

/// What follows the colon on the line of that name (`se.slice   :   1400000`).
pub(crate) fn beside<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// `0x1f`
pub(crate) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// The words, each of its own.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
