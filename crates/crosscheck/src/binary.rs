//! The texts in a program's file, without running it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a file that are read.
const READ_MOST: u64 = 16 << 20;
const TEXT_LEAST: usize = 4;
/// What a text of the zeroed bytes begins with.
pub(super) const ZEROED: &str = "zeroed bytes: ";

/// A line with the size of its zero-initialised memory (which holds static arrays), then each text
/// in it, a line each; nothing of what is no ELF file of 64 bits.
pub(super) fn texts(program: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(program) {
        let _ = file.take(READ_MOST).read_to_end(&mut bytes);
    }
    let Some(zeroed) = zeroed(&bytes) else {
        return String::new();
    };
    let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let texts = bytes.split(|byte| !is_text(byte));
    let mut lines = vec![format!("{ZEROED}{zeroed}")];
    lines.extend(
        texts
            .filter(|text| text.len() >= TEXT_LEAST)
            .map(|text| String::from_utf8_lossy(text).into_owned()),
    );
    lines.join("\n")
}

/// Bytes by which the parts that are loaded are longer in memory than in the file (System V ABI,
/// "Program Header"), in a file of this machine's byte order.
fn zeroed(elf: &[u8]) -> Option<u64> {
    const LOADED: u32 = 1;
    let number = |at: u64, bytes: u64| -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let mut word = [0; 8];
        let read = elf.get(at..at.checked_add(bytes as usize)?)?;
        word[..read.len()].copy_from_slice(read);
        Some(u64::from_le_bytes(word))
    };
    (elf.get(..6)? == b"\x7fELF\x02\x01".as_slice()).then_some(())?;
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut sum = 0_u64;
    for part in 0..count {
        let at = table.checked_add(part * size)?;
        if number(at, 4)? == u64::from(LOADED) {
            let (in_file, in_memory) = (number(at + 32, 8)?, number(at + 40, 8)?);
            sum = sum.checked_add(in_memory.checked_sub(in_file)?)?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::{ZEROED, texts, zeroed};
    use std::path::Path;

    /// A file of two parts; one is loaded and has 48 bytes more in memory.
    fn elf() -> Vec<u8> {
        let mut file = vec![0; 64 + 2 * 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32] = 64;
        file[54] = 56;
        file[56] = 2;
        file[64] = 6;
        file[64 + 40] = 200;
        let loaded = 64 + 56;
        file[loaded] = 1;
        file[loaded + 32] = 16;
        file[loaded + 40] = 64;
        file
    }

    #[test]
    fn what_begins_as_zeros_is_counted() {
        assert_eq!(zeroed(&elf()), Some(48));
        for length in 0..elf().len() {
            let cut = zeroed(&elf()[..length]);
            assert!(cut.is_none() || length > 64 + 56 + 40, "{length}: {cut:?}");
        }
        let mut less = elf();
        less[64 + 56 + 32] = 65;
        assert_eq!(zeroed(&less), None, "less in memory than in the file");
        let mut far = elf();
        far[32..40].fill(0xff);
        assert_eq!(zeroed(&far), None);
        assert_eq!(zeroed(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn texts_of_a_program_are_told() {
        let own = texts(Path::new("/proc/self/exe"));
        let (first, rest) = own.split_once('\n').expect("lines");
        assert!(first.strip_prefix(ZEROED).is_some_and(|count| count.parse::<u64>().is_ok()));
        assert!(!rest.is_empty());
        assert_eq!(texts(Path::new("/proc/self/status")), "");
        assert_eq!(texts(Path::new("/nowhere")), "");
    }
}
