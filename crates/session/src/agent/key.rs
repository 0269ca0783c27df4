//! The key that a listening agent and its sessions share: a file of 64 hexadecimal digits that only
//! its owner can read.

use crate::store::file::{self, There};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Digits of it in its file.
const DIGITS: usize = 2 * KEY_BYTES;
/// The longest file that is looked at: the digits and white space around them.
const FILE_BYTES_MAX: u64 = 4 * DIGITS as u64;
/// The user who reads every file anyway.
const ROOT: u32 = 0;
/// open(2)'s flag, of Linux on x86-64 and aarch64.
const O_NONBLOCK: i32 = 0o4000;
/// What of a mode lets others in.
const OTHERS: u32 = 0o077;

/// A shared key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// A new one, of the kernel's random bytes. Errors: the kernel gives none.
    pub fn random() -> Result<Key> {
        let mut bytes = [0; KEY_BYTES];
        File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut bytes))
            .context("cannot read /dev/urandom for a key")?;
        Ok(Key(bytes))
    }

    /// Writes it to a file that did not exist, which its owner alone can read. Errors: the file
    /// exists or cannot be made.
    pub fn write(&self, path: &Path) -> Result<()> {
        let shown = path.display();
        let mut text = String::with_capacity(DIGITS + 1);
        for byte in self.0 {
            write!(text, "{byte:02x}").context("writing a text")?;
        }
        text.push('\n');
        file::make(path, file::SECRET, There::Kept, |file| file.write_all(text.as_bytes()))
            .map(drop)
            .with_context(|| {
                format!("cannot create {shown}; name a new file in an existing directory")
            })
    }

    /// Reads one. Errors: the file cannot be read, is another user's, others may read it, or it
    /// holds no key.
    pub fn read(path: &Path) -> Result<Key> {
        let shown = path.display();
        let missing = || {
            format!("cannot read the key file {shown}; `plumb agent --new-key {shown}` makes one")
        };
        // One look, at what was opened; to open a FIFO does not wait for its writer.
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(path)
            .with_context(missing)?;
        let facts = file.metadata().with_context(missing)?;
        ensure!(facts.is_file(), "the key file {shown} is not a regular file");
        let own = metal::process::geteuid();
        ensure!(
            facts.uid() == own || facts.uid() == ROOT,
            "the key file {shown} belongs to another user (uid {}), so the key is not secret: make \
             a new one with `plumb agent --new-key FILE`",
            facts.uid()
        );
        let mode = facts.permissions().mode();
        ensure!(
            mode & OTHERS == 0,
            "other users can read the key file {shown} (mode {:03o}): run `chmod 600 {shown}`, or \
             make a new key if someone may have read it",
            mode & 0o777
        );
        let mut text = String::new();
        let read = (&mut file).take(FILE_BYTES_MAX).read_to_string(&mut text);
        match read.ok().and_then(|_| parse(text.trim())) {
            Some(key) => Ok(key),
            None => bail!(
                "the key file {shown} does not contain a key ({DIGITS} hexadecimal digits); `plumb \
                 agent --new-key FILE` makes one"
            ),
        }
    }

    /// Its bytes, for the handshake.
    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// It is never shown.
impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(…)")
    }
}

fn parse(text: &str) -> Option<Key> {
    if text.len() != DIGITS {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(Key(key))
}

#[cfg(test)]
mod tests {
    use super::{Key, parse};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_comes_back_from_its_file_and_no_other_file_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let key = Key::random().unwrap();
        assert_ne!(key, Key::random().unwrap());
        key.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Key::read(&path).unwrap(), key);
        assert!(!format!("{key:?}").contains(fs::read_to_string(&path).unwrap().trim()));
        // Nothing that exists is overwritten.
        assert!(Key::random().unwrap().write(&path).is_err());
        assert_eq!(Key::read(&path).unwrap(), key);
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let told = Key::read(&path).unwrap_err().to_string();
            assert!(told.contains("chmod 600"), "{told}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", "00", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32), &"0".repeat(9999)]
        {
            fs::write(&path, text).unwrap();
            let told = Key::read(&path).unwrap_err().to_string();
            assert!(told.contains("does not contain a key"), "{text}: {told}");
        }
        fs::write(&path, [0xff; 64]).unwrap();
        assert!(Key::read(&path).is_err());
        let missing = Key::read(&dir.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("--new-key"), "{missing}");
        assert!(Key::read(dir.path()).is_err());
    }

    #[test]
    fn a_key_of_another_user_or_of_no_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        Key::random().unwrap().write(&path).unwrap();
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            let told = Key::read(&path).unwrap_err().to_string();
            assert!(told.contains("another user"), "{told}");
        }
        // Neither waits for somebody.
        let told = Key::read("/dev/null".as_ref()).unwrap_err().to_string();
        assert!(told.contains("not a regular file"), "{told}");
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let told = Key::read(&fifo).unwrap_err().to_string();
        assert!(told.contains("not a regular file"), "{told}");
    }

    #[test]
    fn digits_of_either_case_are_digits() {
        let text = "0123456789abcdefABCDEF0123456789".repeat(2);
        let key = parse(&text).unwrap();
        assert_eq!(key.bytes()[..3], [0x01, 0x23, 0x45]);
        assert_eq!(key.bytes()[8..11], [0xab, 0xcd, 0xef]);
        assert!(parse(&"+1".repeat(32)).is_none());
    }
}
