//! What a watch says: progress to standard error, changes to standard output and the system's log.

use crate::cmd::output;
use anyhow::Result;
use record::quantity::digits;
use session::watch::{Ended, Kept, Part, Rotation, SAVING_MAX_S};
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

/// Where the system's log listens (syslog(3)).
const LOG: &str = "/dev/log";
/// Priority of a warning (syslog(3)), and of a warning of a daemon.
const WARNING: u32 = 4;
const DAEMON: u32 = 3 << 3;

/// Who listens.
pub(super) struct Voice {
    is_quiet: bool,
    /// Whether standard output goes to systemd's journal.
    in_journal: bool,
}

impl Voice {
    pub fn new(is_quiet: bool) -> Voice {
        let journal = std::env::var("JOURNAL_STREAM").ok();
        let output = std::fs::metadata("/proc/self/fd/1").ok();
        let output = output.map(|facts| format!("{}:{}", facts.dev(), facts.ino()));
        Voice { is_quiet, in_journal: journal.is_some() && journal == output }
    }

    /// What happens.
    pub fn says(&self, text: &str) {
        if !self.is_quiet {
            output::diagnose(&format!("plumb watch: {text}"));
        }
    }

    /// A change: a result, and a line of the log. Errors: standard output cannot be written.
    pub fn reports(&self, text: &str) -> Result<()> {
        if self.in_journal {
            // sd-daemon(3): the priority of a line.
            return output::print(&format!("<{WARNING}>{text}\n"));
        }
        if !io::stdout().is_terminal() {
            log(Path::new(LOG), text);
        }
        output::print(&format!("{text}\n"))
    }
}

/// Sends a line to the system's log; a machine without one loses nothing, the line is printed too.
fn log(socket: &Path, text: &str) {
    let line = format!("<{}>plumb[{}]: {text}", DAEMON | WARNING, std::process::id());
    let _ = UnixDatagram::unbound().and_then(|unbound| {
        unbound.set_nonblocking(true)?;
        unbound.send_to(line.as_bytes(), socket)
    });
}

/// A share of one CPU.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// A time in seconds, to two units.
pub(super) fn length(seconds: f64) -> String {
    let whole = if seconds >= 600.0 { (seconds / 60.0).round() * 60.0 } else { seconds.ceil() };
    humantime::format_duration(Duration::from_secs_f64(whole.clamp(0.0, 1e9))).to_string()
}

/// What is watched, and how often.
pub(super) fn plan(rotation: &Rotation, kept: &Kept, fitting: usize) -> String {
    let length_s = rotation.length_s(kept);
    format!(
        "{} in turn, about {} s of CPU time a rotation: with {} of one CPU each is measured every {}",
        report::counted(fitting, "experiment"),
        digits(length_s * rotation.share),
        percent(rotation.share),
        length(length_s.max(rotation.every_s))
    )
}

/// That the share does not suffice for a part.
pub(super) fn too_large(rotation: &Rotation, kept: &Kept, part: &Part) -> String {
    format!(
        "{} does not fit: it takes {} s of CPU time, and {} of one CPU saves {} s a day; set --share \
         to {} or more, or leave it out with '!{}'",
        part.id,
        digits(rotation.cost_s(kept, part)),
        percent(rotation.share),
        digits(rotation.share * SAVING_MAX_S),
        percent((rotation.share_for(kept, part) * 1e4).ceil() * 1e-4),
        part.id
    )
}

/// That CPU time is saved.
pub(super) fn saving(rotation: &Rotation, part: &Part, missing_s: f64) -> String {
    format!(
        "nothing measured: {} s of CPU time are missing for {}, which is measured in about {}",
        digits(missing_s),
        part.id,
        length(missing_s / rotation.share)
    )
}

/// How a measurement ended.
pub(super) fn measured(
    part: &Part,
    ended: Ended,
    (wall, cpu_s): (Duration, f64),
    said: &str,
) -> String {
    let id = &part.id;
    let took = format!("{} s, {} s of CPU time", digits(wall.as_secs_f64()), digits(cpu_s));
    match ended {
        Ended::Complete => format!("{id}: measured in {took}"),
        Ended::Stopped => {
            format!("{id}: stopped after {took}, which is what was saved; more is saved next time")
        }
        Ended::Interrupted => format!("{id}: interrupted; it is measured first at the next start"),
        Ended::Failed => format!("{id}: failed: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{length, log, too_large};
    use session::watch::{Kept, Part, Rotation};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_change_is_a_line_of_the_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("log");
        log(&socket, "nothing listens yet");
        let listener = UnixDatagram::bind(&socket).expect("a socket");
        let change = "os.syscall is 1.2× worse";
        log(&socket, change);
        let mut line = [0; 200];
        let length = listener.recv(&mut line).expect("a line");
        let line = String::from_utf8_lossy(&line[..length]).into_owned();
        assert!(line.starts_with("<28>plumb["), "{line}");
        assert!(line.ends_with(&format!("]: {change}")), "{line}");
    }

    #[test]
    fn what_does_not_fit_is_said_with_the_share_that_it_needs() {
        let part = Part { id: "a.b".to_owned(), selectors: Vec::new(), stated_s: 864.0 };
        let rotation = Rotation { parts: vec![part.clone()], share: 0.005, every_s: 600.0 };
        let text = too_large(&rotation, &Kept::new(0.0), &part);
        assert!(text.contains("saves 432 s a day") && text.contains("--share to 1 %"), "{text}");
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, text) in [(0.2, "1s"), (75.0, "1m 15s"), (12_345.0, "3h 26m")] {
            assert_eq!(length(seconds), text);
        }
    }
}
