//! A record without what names its machine, its network or its user, for sharing.
//!
//! Works on the text of a line, so that numbers, and the order of the parameters of a case, stay as
//! they were written.

use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};

/// Texts that are left out by the name that they stand under.
const NAMED: [&str; 15] = [
    "address",
    "command_line",
    "dir",
    "hash",
    "hostname",
    "identity",
    "key_file",
    "machine_id",
    "others",
    "parent",
    "parts",
    "programs",
    "serial",
    "url",
    "uuid",
];
/// What stands for a text that was left out.
pub const LEFT_OUT: &str = "redacted";
/// Length of the time that begins a run's name.
const TIME: usize = "2026-11-22T15-36-07".len();
/// Paths below a control group's root, which are no absolute paths (a case's parameter has this
/// name too, with a word).
const GROUP: &str = "home";
/// Absolute paths that say nothing of a user.
const COMMON: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What a record's other lines must not say either, from its header.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    /// Names of far ends, in their order.
    peers: Vec<String>,
    /// Paths that were typed, which may have spaces.
    paths: Vec<String>,
}

impl Redaction {
    /// From the first line of a record.
    pub fn from_header(header: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Header {
            peers: Vec<Peer>,
            options: Options,
        }
        #[derive(Deserialize)]
        struct Peer {
            name: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Options {
            dir: Option<String>,
            key_file: Option<String>,
        }
        let Header { peers, options } = serde_json::from_str(header).unwrap_or_default();
        let paths = [options.dir, options.key_file].into_iter().flatten();
        Redaction {
            peers: peers.into_iter().map(|peer| peer.name).collect(),
            paths: paths.filter(|path| path.len() > 1).collect(),
        }
    }

    /// A line without host name, addresses, identity, kernel command line and paths.
    pub fn line(&self, line: &str) -> String {
        let (mut all, mut rest, mut name) = (String::with_capacity(line.len()), line, "");
        while let Some(at) = rest.find('"') {
            all.push_str(&rest[..at]);
            rest = &rest[at..];
            let token = &rest[..string_end(rest)];
            rest = &rest[token.len()..];
            if rest.trim_start().starts_with(':') {
                name = token.trim_matches('"');
                all.push_str(token);
                continue;
            }
            let said = serde_json::from_str::<String>(token).ok();
            match said.and_then(|text| self.replacement(name, &text)) {
                Some(other) => all.push_str(&serde_json::Value::String(other).to_string()),
                None => all.push_str(token),
            }
        }
        all.push_str(rest);
        all
    }

    /// What stands instead of a text; none where it may stay.
    fn replacement(&self, name: &str, text: &str) -> Option<String> {
        if NAMED.contains(&name) || (name == GROUP && text.contains('/')) {
            return Some(LEFT_OUT.to_owned());
        }
        if name == "run" {
            // A name that a user gave says something of the machine.
            let time = text.get(..TIME).filter(|time| time.as_bytes().get(10) == Some(&b'T'));
            return Some(time.unwrap_or(LEFT_OUT).to_owned());
        }
        let peer = self.peers.iter().position(|peer| peer == text);
        if let Some(at) = peer {
            return Some(format!("peer-{}", at + 1));
        }
        let paths = self.paths.iter();
        let bare = paths.fold(text.to_owned(), |text, path| text.replace(path.as_str(), "PATH"));
        let is_end = |letter: char| letter.is_whitespace() || "\"'(),;=<>".contains(letter);
        let words = bare.split_inclusive(is_end).map(|word| {
            let bare = word.trim_end_matches(is_end);
            let end = &word[bare.len()..];
            match (is_path(bare), is_address(bare), self.peers.iter().any(|peer| peer == bare)) {
                (true, ..) => format!("PATH{end}"),
                (_, true, _) => format!("ADDRESS{end}"),
                (.., true) => format!("PEER{end}"),
                _ => word.to_owned(),
            }
        });
        let told: String = words.collect();
        (told != text).then_some(told)
    }
}

/// Length of the string that a text begins with, its quotes included.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

fn is_path(word: &str) -> bool {
    let is_common = COMMON.iter().any(|common| {
        word.strip_prefix(common).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    let is_absolute = word.starts_with('/') && word.len() > 1 && !is_common;
    is_absolute || word.starts_with("~/") || word.contains("fs/cgroup/") || word.contains(":/")
}

fn is_address(word: &str) -> bool {
    let bytes: Vec<&str> = word.split(':').collect();
    let is_hexadecimal = |byte: &&str| byte.len() == 2 && u8::from_str_radix(byte, 16).is_ok();
    let is_hardware = bytes.len() == 6 && bytes.iter().all(is_hexadecimal);
    // What udev calls an interface that has no place: by its address.
    let named = word.strip_prefix("enx").or_else(|| word.strip_prefix("wlx"));
    let is_named = named.is_some_and(|hex| hex.len() == 12 && u64::from_str_radix(hex, 16).is_ok());
    let without_length = word.split('/').next().unwrap_or(word);
    is_hardware
        || is_named
        || without_length.parse::<IpAddr>().is_ok()
        || word.parse::<SocketAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::Redaction;

    fn check(line: &str, expected: &str) {
        let redaction = Redaction::from_header(
            r#"{"event":"header","peers":[{"name":"alpha"}],"options":{"dir":"/mnt/my files"}}"#,
        );
        assert_eq!(redaction.line(line), expected);
    }

    #[test]
    fn a_server_s_export_is_a_path() {
        check(r#"{"why":"/mnt/my files/x is full"}"#, r#"{"why":"PATH/x is full"}"#);
        check(r#"{"source":"nas:/home/bob"}"#, r#"{"source":"PATH"}"#);
        check(r#"{"source":"/dev/vda","target":"/"}"#, r#"{"source":"/dev/vda","target":"/"}"#);
    }

    #[test]
    fn a_case_keeps_its_parameters() {
        check(
            r#"{"case":{"pair":"llc","home":"first"}}"#,
            r#"{"case":{"pair":"llc","home":"first"}}"#,
        );
        check(r#"{"place":{"home":"dev/cpuset/bob"}}"#, r#"{"place":{"home":"redacted"}}"#);
    }

    #[test]
    fn an_interface_may_be_called_by_its_address() {
        check(r#"{"name":"enx525400123456"}"#, r#"{"name":"ADDRESS"}"#);
        check(r#"{"name":"enp3s0"}"#, r#"{"name":"enp3s0"}"#);
    }

    #[test]
    fn what_names_a_machine_goes_and_the_rest_stays_as_written() {
        check(
            r#"{"run":"2026-11-22T15-36-07-alice-pc","identity":"57793b","n":1.50,"a":[1, 2]}"#,
            r#"{"run":"2026-11-22T15-36-07","identity":"redacted","n":1.50,"a":[1, 2]}"#,
        );
        check(
            r#"{"identity":{"parts":["a=b","c"]}}"#,
            r#"{"identity":{"parts":["redacted","redacted"]}}"#,
        );
        check(
            r#"{"case":{"to":"x","far":"alpha"},"why":"no room in /home/bob (ext4), see /proc/mounts"}"#,
            r#"{"case":{"to":"x","far":"peer-1"},"why":"no room in PATH (ext4), see /proc/mounts"}"#,
        );
        check(
            r#"{"to":"10.0.0.7:4242 or fe80::1","mac":"52:54:00:12:34:56","linux":"6.18.44","q":"a\"/b"}"#,
            r#"{"to":"ADDRESS or ADDRESS","mac":"ADDRESS","linux":"6.18.44","q":"a\"PATH"}"#,
        );
    }
}
