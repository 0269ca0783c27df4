//! The keys that a listening agent and its sessions share: a file that only its owner can read, with
//! 64 hexadecimal digits. An agent's has a line for each host that it lets in, the digits and a
//! name: without its line a host is not let in to its next session.

use super::message::printable;
use crate::store::file::{self, There};
use anyhow::{Context, Result, ensure};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const KEY_BYTES: usize = 32;
const DIGITS: usize = 2 * KEY_BYTES;
/// The longest file that is looked at, and the most keys of a list.
const FILE_BYTES_MAX: u64 = 64 << 10;
const KEYS_MAX: usize = 256;
/// The user who reads every file anyway.
const ROOT: u32 = 0;
/// open(2)'s flag, of Linux on x86-64 and aarch64.
const O_NONBLOCK: i32 = 0o4000;
/// What of a mode lets others in.
const OTHERS: u32 = 0o077;

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
        let text = self.digits() + "\n";
        file::make(path, file::SECRET, There::Kept, |file| file.write_all(text.as_bytes()))
            .map(drop)
            .with_context(|| {
                format!("cannot create {shown}; name a new file in an existing directory")
            })
    }

    /// The key of its digits; `None` for another text.
    pub fn parse(text: &str) -> Option<Key> {
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

    /// Its digits, for a file or a message that is kept secret.
    pub fn digits(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads the key of a file that has one. Errors: as [`Keys::now`], or it has several.
    pub fn read(path: &Path) -> Result<Key> {
        let keys = read(path)?;
        ensure!(
            keys.len() == 1,
            "the key file {} lists {} keys, as an agent's does; a run needs its own one alone",
            path.display(),
            keys.len()
        );
        Ok(keys[0].key.clone())
    }

    /// Its bytes, for the handshake.
    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(…)")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub key: Key,
    /// Whose it is, as the list says; may be empty.
    pub name: String,
}

/// The list of keys that an agent lets in: a file that is read for each connection.
pub struct Keys {
    path: PathBuf,
}

impl Keys {
    /// Of a file. Errors: as [`Keys::now`].
    pub fn open(path: &Path) -> Result<Keys> {
        let keys = Keys { path: path.to_owned() };
        keys.now().map(|_| keys)
    }

    /// The list as it is now. Errors: it cannot be read, is another user's, others may read it, or a
    /// line of it is no key: then it lets nobody in.
    pub fn now(&self) -> Result<Vec<Named>> {
        read(&self.path)
    }
}

/// Reads the keys of a file.
fn read(path: &Path) -> Result<Vec<Named>> {
    let shown = path.display();
    let missing =
        || format!("cannot read the key file {shown}; `plumb agent --new-key {shown}` makes one");
    // One look, at what was opened; to open a FIFO does not wait for its writer.
    let mut file =
        OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).with_context(missing)?;
    let facts = file.metadata().with_context(missing)?;
    ensure!(facts.is_file(), "the key file {shown} is not a regular file");
    let user = metal::process::geteuid();
    ensure!(
        facts.uid() == user || facts.uid() == ROOT,
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
    let read = (&mut file).take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    let fits = read.is_ok_and(|read| read as u64 <= FILE_BYTES_MAX);
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines: Vec<(usize, &str)> =
        lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
    ensure!(
        fits && !lines.is_empty() && lines.len() <= KEYS_MAX,
        "the key file {shown} does not contain a key ({DIGITS} hexadecimal digits), or more than \
         {KEYS_MAX}; `plumb agent --new-key FILE` makes one"
    );
    let named = lines.into_iter().map(|(at, line)| {
        let (digits, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let key = Key::parse(digits).with_context(|| {
            format!(
                "line {at} of the key file {shown} does not contain a key ({DIGITS} hexadecimal \
                 digits, then a name if it has one); `plumb agent --new-key FILE` makes one"
            )
        })?;
        Ok(Named { key, name: printable(name.trim()) })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::{Key, Keys};
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
            let refusal = Key::read(&path).unwrap_err().to_string();
            assert!(refusal.contains("chmod 600"), "{refusal}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for text in
            ["", "00", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32), &"0".repeat(99_999)]
        {
            fs::write(&path, text).unwrap();
            let refusal = Key::read(&path).unwrap_err().to_string();
            assert!(
                refusal.contains("--new-key") && !refusal.contains("chmod"),
                "{text}: {refusal}"
            );
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
            let refusal = Key::read(&path).unwrap_err().to_string();
            assert!(refusal.contains("another user"), "{refusal}");
        }
        // Neither waits for somebody.
        let refusal = Key::read("/dev/null".as_ref()).unwrap_err().to_string();
        assert!(refusal.contains("not a regular file"), "{refusal}");
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let refusal = Key::read(&fifo).unwrap_err().to_string();
        assert!(refusal.contains("not a regular file"), "{refusal}");
    }

    #[test]
    fn a_list_is_read_again_once_it_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let digits = |byte: &str| byte.repeat(32);
        let write = |text: &str| {
            // As an editor does: another file in its place.
            let next = dir.path().join("next");
            fs::write(&next, text).unwrap();
            fs::set_permissions(&next, fs::Permissions::from_mode(0o600)).unwrap();
            fs::rename(&next, &path).unwrap();
        };
        write(&format!("# hosts\n{} node7\n\n{}\n", digits("a1"), digits("b2")));
        let keys = Keys::open(&path).unwrap();
        let names = |keys: &Keys| {
            let now = keys.now().map(|now| now.into_iter().map(|one| one.name).collect());
            now.unwrap_or_else(|error| vec![format!("{error:#}")])
        };
        assert_eq!(names(&keys), ["node7", ""]);
        assert!(Key::read(&path).unwrap_err().to_string().contains("lists 2 keys"));
        write(&format!("{} node8\n", digits("b2")));
        assert_eq!(names(&keys), ["node8"]);
        assert!(Key::read(&path).is_ok());
        // What is damaged or gone lets nobody in, until it is whole again.
        write(&format!("{} node8\nnode9\n", digits("b2")));
        assert!(names(&keys)[0].contains("line 2"), "{:?}", names(&keys));
        fs::remove_file(&path).unwrap();
        assert!(names(&keys)[0].contains("cannot read"));
        write(&format!("{} node8\n", digits("b2")));
        assert_eq!(names(&keys), ["node8"]);
    }

    #[test]
    fn digits_of_either_case_are_digits() {
        let text = "0123456789abcdefABCDEF0123456789".repeat(2);
        let key = Key::parse(&text).unwrap();
        assert_eq!(key.bytes()[..3], [0x01, 0x23, 0x45]);
        assert_eq!(key.bytes()[8..11], [0xab, 0xcd, 0xef]);
        assert!(Key::parse(&"+1".repeat(32)).is_none());
    }
}
