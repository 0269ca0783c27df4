//! Programs that start an agent elsewhere and carry its standard streams: the system's ssh, or any
//! other that the user names.

use super::message::printable;
use super::url::Ssh;
use crate::child::ended_within;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

/// ssh gives up reaching the host after so long.
const SSH_CONNECT_S: u32 = 10;
/// ssh sends a keep-alive to a silent host after this time, and ends after this many without an
/// answer.
const SSH_ALIVE_S: u32 = 15;
const SSH_ALIVE_COUNT: u32 = 2;
/// A program that is over or was killed is waited for so long.
const REAP_TIME: Duration = Duration::from_secs(2);
/// Bytes kept of what a program said on its standard error.
const SAID_MAX: usize = 4096;
/// A shell's exit code for a program that cannot be run.
pub const NOT_RUNNABLE: i32 = 126;
/// A shell's exit code for a program that is missing.
pub const NOT_FOUND: i32 = 127;
/// What plumb answers to arguments that it does not know.
const USAGE: i32 = 2;

/// A program that carries the standard streams of an agent. It dies with this process and with this
/// value, and the agent then by the end of its input.
#[derive(Debug)]
pub struct Carrier {
    child: Child,
    said: Vec<u8>,
    /// The route of ssh; `None` for another program.
    route: Option<SshRoute>,
}

/// What a user needs to repeat a login by ssh.
#[derive(Debug)]
struct SshRoute {
    /// The plumb that was to be run there.
    plumb: String,
    /// What a user would type to log in by hand.
    by_hand: String,
    /// What to do where there is no plumb.
    missing: &'static str,
}

/// What to do where an agent's plumb is not found.
const MISSING: &str =
    "put it on the PATH of non-interactive shells, or give its path, ssh://HOST/PATH/OF/plumb";

/// Arguments of ssh for a command at its far end. It asks no questions (no user answers during a
/// run), takes no terminal, and forwards nothing.
fn arguments(ssh: &Ssh, command: &str) -> Vec<String> {
    let mut arguments: Vec<String> = ["-T", "-x", "-a"].map(str::to_owned).into();
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
    arguments.extend(options.map(|option| format!("-o{option}")));
    if let Some(user) = &ssh.user {
        arguments.push(format!("-l{user}"));
    }
    if let Some(port) = ssh.port {
        arguments.push(format!("-p{port}"));
    }
    arguments.extend(["--".to_owned(), ssh.host.clone(), command.to_owned()]);
    arguments
}

impl Carrier {
    /// Starts ssh for an agent. Errors: there is no ssh here.
    pub fn ssh(ssh: &Ssh) -> Result<Carrier> {
        let command = format!("exec {} agent", quoted(&ssh.plumb));
        Carrier::over_ssh(ssh, &command, MISSING)
            .context("ssh:// needs ssh, tcp:// and exec: do not")
    }

    /// The same for any command of the shell at the far end, and what to do where there is no plumb.
    /// Errors: there is no ssh here.
    pub fn over_ssh(ssh: &Ssh, command: &str, missing: &'static str) -> Result<Carrier> {
        let mut program = Command::new("ssh");
        program.args(arguments(ssh, command));
        let mut carrier =
            Carrier::start(program).context("cannot start ssh: install OpenSSH's client")?;
        let port = ssh.port.map(|port| format!("-p {port} ")).unwrap_or_default();
        let user = ssh.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let by_hand = format!("ssh {port}{user}{}", ssh.host);
        carrier.route = Some(SshRoute { plumb: ssh.plumb.clone(), by_hand, missing });
        Ok(carrier)
    }

    /// Starts a command by the shell: as [`Carrier::ssh`]. Errors: there is no shell here.
    pub fn exec(command: &str) -> Result<Carrier> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command);
        Carrier::start(shell).context("cannot start sh")
    }

    fn start(mut command: Command) -> Result<Carrier> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A session of its own: what a terminal sends to plumb (^C) is plumb's to act on.
        metal::process::in_new_session(&mut command);
        let child = metal::process::dying_with_parent(&mut command).spawn()?;
        Ok(Carrier { child, said: Vec::new(), route: None })
    }

    /// What it says on its standard output, once. Errors: it was given before.
    pub fn output(&mut self) -> Result<OwnedFd> {
        Ok(self.child.stdout.take().context("its output is not available")?.into())
    }

    /// What is said to it, once: its end ends an agent. Errors: it was given before.
    pub fn input(&mut self) -> Result<ChildStdin> {
        self.child.stdin.take().context("its input is not available")
    }

    /// Takes what it said on its standard error so far, so that it never waits to say more.
    pub fn listen(&mut self) {
        let mut piece = [0; SAID_MAX];
        while let Some(stderr) = &mut self.child.stderr {
            match metal::wait::readable(stderr.as_fd(), Duration::ZERO) {
                Ok(true) => {}
                _ => return,
            }
            match stderr.read(&mut piece) {
                Ok(read @ 1..) => self.said.extend(&piece[..read]),
                _ => self.child.stderr = None,
            }
            // The last words count.
            let over = self.said.len().saturating_sub(SAID_MAX);
            self.said.drain(..over);
        }
    }

    /// Whether it has ended; what it says on its standard error is taken meanwhile.
    pub fn is_over(&mut self) -> bool {
        self.listen();
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Its exit code, once it has ended; it is given a moment.
    pub fn code(&mut self) -> Option<i32> {
        ended_within(&mut self.child, REAP_TIME / 4).and_then(|status| status.code())
    }

    /// Its end, for a user: why, and the way out. It is ended if it has not ended by itself, after
    /// a moment for its last words.
    pub fn last_words(&mut self) -> String {
        // The exit status of one that was killed here says nothing about the cause.
        let status = ended_within(&mut self.child, REAP_TIME / 4);
        if status.is_none() {
            self.kill();
            ended_within(&mut self.child, REAP_TIME);
        }
        self.listen();
        let said = String::from_utf8_lossy(&self.said);
        // It is another host's text.
        let said: Vec<String> = said
            .lines()
            .map(|line| printable(line.trim()))
            .filter(|line| !line.is_empty())
            .collect();
        explanation(status, &said.join(" "), self.route.as_ref())
    }

    pub fn kill(&self) {
        // The group may already be gone.
        let _ = metal::process::kill_group(self.child.id());
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.kill();
        ended_within(&mut self.child, REAP_TIME);
    }
}

/// What a program's end and its words come to, with the way out.
fn explanation(status: Option<ExitStatus>, said: &str, route: Option<&SshRoute>) -> String {
    let code = status.and_then(|status| status.code());
    let way_out = match (code, route) {
        (Some(USAGE), _) if said.contains("unrecognized subcommand") => {
            "the plumb there has no `agent` command: install this version there".to_owned()
        }
        (Some(NOT_FOUND), None) => "a program of the command is not found".to_owned(),
        (_, None) => String::new(),
        (_, Some(SshRoute { plumb, by_hand, missing })) => match code {
            Some(NOT_FOUND) => format!("`{plumb}` is not found there: {missing}"),
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
        },
    };
    let ended = match status {
        Some(status) if status.signal().is_some() => format!("it was killed ({status})"),
        Some(status) => format!("it ended ({status})"),
        None => "it did not exit".to_owned(),
    };
    let mut text = ended;
    for part in [said, &way_out] {
        if !part.is_empty() {
            let _ = write!(text, "{} {part}", if text.ends_with(')') { ":" } else { ";" });
        }
    }
    text
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
    use super::{Carrier, MISSING, SshRoute, arguments, ended_within, explanation, quoted};
    use crate::agent::url::{PeerUrl, Transport};
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    #[test]
    fn arguments_keep_what_was_typed_apart() {
        let parsed = |url: &str| match PeerUrl::parse(url).expect(url).transport {
            Transport::Ssh(ssh) => arguments(&ssh, &format!("exec {} agent", quoted(&ssh.plumb))),
            other => panic!("{url} is {other:?}"),
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
    fn last_words_steer_no_terminal() {
        let mut carrier =
            Carrier::exec(r"printf 'no\033[2J way\007\nhome\r' >&2; exit 7").expect("a shell");
        let words = carrier.last_words();
        assert!(
            words.contains("no [2J way  home") || words.contains("no [2J way home"),
            "{words:?}"
        );
        assert!(!words.chars().any(char::is_control), "{words:?}");
    }

    #[test]
    fn ends_are_explained_with_the_way_out() {
        let by_ssh = |code: i32, said: &str| {
            let status = Some(ExitStatus::from_raw(code << 8));
            let (plumb, by_hand) = ("plumb".to_owned(), "ssh far".to_owned());
            explanation(status, said, Some(&SshRoute { plumb, by_hand, missing: MISSING }))
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
        let killed = explanation(Some(ExitStatus::from_raw(9)), "", None);
        assert!(killed.contains("SIGKILL"), "{killed}");
        assert!(!explanation(None, "", None).contains("SIG"));
    }

    #[test]
    fn a_kill_of_this_end_is_not_told_as_its_end() {
        const PATIENCE: Duration = Duration::from_secs(20);
        let mut stays = Carrier::exec("echo moved >&2; exec sleep 100").expect("a shell");
        let stderr = stays.child.stderr.as_ref().expect("it is kept");
        metal::wait::readable(stderr.as_fd(), PATIENCE).expect("waits");
        let words = stays.last_words();
        assert!(words.ends_with("; moved") && !words.contains("SIG"), "{words}");
        let mut ends = Carrier::exec("kill -TERM $$").expect("a shell");
        ended_within(&mut ends.child, PATIENCE).expect("it ends");
        assert!(ends.last_words().contains("SIGTERM"));
    }
}
