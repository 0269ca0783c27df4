//! What reaches the user: results on standard output, diagnostics on standard error.

use crate::report::terminal::Look;
use std::io::{self, IsTerminal, Write};

/// Prints a result. A reader that has gone away is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("cannot write the result: {error}"))
        }
        _ => Ok(()),
    }
}

/// Prints a diagnostic; one that cannot be printed has nowhere else to go.
pub fn diagnose(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// How a report looks on standard output: 100 columns where it is no terminal, colours only where it
/// is one and `NO_COLOR` does not forbid them.
pub fn look() -> Look {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Look {
        width: terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0)),
        colours: io::stdout().is_terminal() && !plain,
    }
}
