//! ssh as the program that starts an agent elsewhere and carries its standard streams, and what the
//! end of such a program means.

use super::url::{Ssh, Transport};
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// ssh gives up reaching the host after so long.
const SSH_CONNECT_S: u32 = 10;
/// ssh sends a keep-alive to a silent host after this time, and ends after this many without an
/// answer.
const SSH_ALIVE_S: u32 = 15;
const SSH_ALIVE_COUNT: u32 = 2;
/// A shell's exit code for a program that cannot be run.
const NOT_RUNNABLE: i32 = 126;
/// A shell's exit code for a program that is missing.
const NOT_FOUND: i32 = 127;
/// What plumb answers to arguments that it does not know.
const USAGE: i32 = 2;

/// The ssh that starts an agent. It asks no questions (no user answers during a run), takes no
/// terminal, and forwards nothing.
pub fn command(ssh: &Ssh) -> Command {
    let mut command = Command::new("ssh");
    command.args(["-T", "-x", "-a"]);
    let options = [
        "BatchMode=yes".to_owned(),
        // A connection of its own: one shared with others has their address and their time limits.
        "ControlMaster=no".to_owned(),
        "ControlPath=none".to_owned(),
        format!("ConnectTimeout={SSH_CONNECT_S}"),
        // One that is cut is found by both ends, and one that rests is kept by what translates
        // addresses.
        format!("ServerAliveInterval={SSH_ALIVE_S}"),
        format!("ServerAliveCountMax={SSH_ALIVE_COUNT}"),
        "ClearAllForwardings=yes".to_owned(),
        // What a configuration for people at terminals may say, and no agent lives with.
        "RemoteCommand=none".to_owned(),
        "PermitLocalCommand=no".to_owned(),
        "LogLevel=INFO".to_owned(),
    ];
    command.args(options.map(|option| format!("-o{option}")));
    command.args(ssh.user.iter().map(|user| format!("-l{user}")));
    command.args(ssh.port.iter().map(|port| format!("-p{port}")));
    command.args(["--", &ssh.host, &format!("exec {} agent", quoted(&ssh.plumb))]);
    command
}

/// What the end of a program that carried an agent's streams and its last words come to, with the way
/// out.
pub fn explanation(status: Option<ExitStatus>, said: &str, transport: &Transport) -> String {
    let code = status.and_then(|status| status.code());
    let way_out = match transport {
        _ if code == Some(USAGE) && said.contains("unrecognized subcommand") => {
            "the plumb there has no `agent` command: install this version there".to_owned()
        }
        Transport::Ssh(ssh) => way_out_of_ssh(code, said, ssh),
        _ if code == Some(NOT_FOUND) => "a program of the command is not found".to_owned(),
        _ => String::new(),
    };
    let mut text = match status {
        Some(status) if status.signal().is_some() => format!("it was killed ({status})"),
        Some(status) => format!("it ended ({status})"),
        None => "it did not exit".to_owned(),
    };
    for part in [said, &way_out] {
        if !part.is_empty() {
            let _ = write!(text, "{} {part}", if text.ends_with(')') { ":" } else { ";" });
        }
    }
    text
}

fn way_out_of_ssh(code: Option<i32>, said: &str, ssh: &Ssh) -> String {
    let plumb = &ssh.plumb;
    let port = ssh.port.map(|port| format!("-p {port} ")).unwrap_or_default();
    let user = ssh.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    let by_hand = format!("ssh {port}{user}{}", ssh.host);
    match code {
        Some(NOT_FOUND) => format!(
            "`{plumb}` is not found there: put it on the PATH of non-interactive shells, or give its \
             path, ssh://HOST/PATH/OF/plumb"
        ),
        Some(NOT_RUNNABLE) => {
            format!("`{plumb}` cannot be run there: is it for that machine, and executable?")
        }
        _ if said.contains("Host key verification failed") => {
            format!("its host key is unknown or has changed: check it by hand, `{by_hand}`")
        }
        _ if said.contains("Permission denied") => format!(
            "ssh cannot log in without a password: make `{by_hand}` work without a prompt \
             (ssh-copy-id, ssh-agent)"
        ),
        _ => format!("try it by hand: `{by_hand}`"),
    }
}

/// A word as a POSIX shell takes it back; `~/` at its beginning stays the home directory.
pub fn quoted(text: &str) -> String {
    match text.strip_prefix("~/") {
        Some(below) => format!("~/{}", quoted(below)),
        None => word(text, ""),
    }
}

/// A word as a POSIX shell takes it back; letters of `plain` need no quotes either.
pub(crate) fn word(text: &str, plain: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c) || plain.contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::{command, explanation, quoted};
    use crate::agent::url::{PeerUrl, Transport};
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn transport(url: &str) -> Transport {
        PeerUrl::parse(url).expect(url).transport
    }

    #[test]
    fn arguments_keep_what_was_typed_apart() {
        let parsed = |url: &str| -> Vec<String> {
            let Transport::Ssh(ssh) = transport(url) else { panic!("{url}") };
            command(&ssh).get_args().map(|arg| arg.to_string_lossy().into_owned()).collect()
        };
        let all = parsed("ssh://me@far:2222/opt/my plumb");
        for option in [
            "BatchMode=yes",
            "ControlPath=none",
            "RemoteCommand=none",
            "PermitLocalCommand=no",
            "ServerAliveInterval=15",
            "ServerAliveCountMax=2",
        ] {
            assert!(all.contains(&format!("-o{option}")), "{option}: {all:?}");
        }
        let end: Vec<&str> = all.iter().rev().take(5).rev().map(String::as_str).collect();
        let expected = ["-lme", "-p2222", "--", "far", "exec '/opt/my plumb' agent"];
        assert_eq!(end, expected);
        assert_eq!(parsed("ssh://far").last().map(String::as_str), Some("exec plumb agent"));
        assert_eq!(
            parsed("ssh://far/~/plumb").last().map(String::as_str),
            Some("exec ~/plumb agent")
        );
    }

    #[test]
    fn a_shell_takes_words_back() {
        assert_eq!(quoted("/opt/plumb-0.1"), "/opt/plumb-0.1");
        assert_eq!(quoted("it's; rm"), r"'it'\''s; rm'");
        assert_eq!(quoted("~/my plumb"), "~/'my plumb'");
        assert_eq!(quoted("a~b"), "'a~b'");
    }

    #[test]
    fn ends_are_explained_with_the_way_out() {
        let by_ssh = |code: i32, said: &str| {
            let status = Some(ExitStatus::from_raw(code << 8));
            explanation(status, said, &transport("ssh://far"))
        };
        for (code, said, way_out) in [
            (127, "sh: plumb: not found", "ssh://HOST/PATH/OF/plumb"),
            (126, "sh: plumb: cannot execute", "for that machine"),
            (2, "error: unrecognized subcommand 'agent'", "install this version there"),
            (255, "Host key verification failed.", "check it by hand, `ssh far`"),
            (255, "me@far: Permission denied (publickey).", "ssh-copy-id"),
            (255, "ssh: connect to host far: No route", "try it by hand: `ssh far`"),
        ] {
            let text = by_ssh(code, said);
            assert!(text.contains(said) && text.contains(way_out), "{text}");
        }
        let killed = explanation(Some(ExitStatus::from_raw(9)), "", &transport("exec:x"));
        assert!(killed.contains("SIGKILL"), "{killed}");
        assert!(!explanation(None, "", &transport("exec:x")).contains("SIG"));
    }
}
