//! What reaches the user: results on standard output, diagnostics on standard error.

use crate::cmd::{Failure, usage};
use record::plain::{lines, steers};
use report::terminal::{self, Look};
use session::store::file::{check_writable, write_whole};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Prints a result, with nothing in it that steers a terminal but a report's colours. A reader that
/// has gone away is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let text = coloured(text);
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("cannot write the result: {error}"))
        }
        _ => Ok(()),
    }
}

/// Prints a result; through a pager, as git does, where it has more lines than the terminal.
/// `PLUMB_PAGER`, else `PAGER`, else `less` is the pager; an empty one or `cat` is none.
pub fn page(text: &str) -> anyhow::Result<()> {
    let rows = terminal_size::terminal_size().map_or(usize::MAX, |(_, rows)| usize::from(rows.0));
    if !io::stdout().is_terminal() || text.lines().count() < rows {
        return print(text);
    }
    let set = ["PLUMB_PAGER", "PAGER"].into_iter().find_map(|name| std::env::var(name).ok());
    let pager = set.unwrap_or_else(|| "less".to_owned());
    if ["", "cat"].contains(&pager.trim()) {
        return print(text);
    }
    let mut command = Command::new("sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    // less: end at once if all fits, keep colours, leave the text on the screen.
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else {
        return print(text);
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A reader who ends the pager early is no error.
        let _ = stdin.write_all(coloured(text).as_bytes());
    }
    match child.wait()?.code() {
        // The shell did not find it.
        Some(126 | 127) => print(text),
        _ => Ok(()),
    }
}

/// Writes a result to a file that the user named. Errors: usage where no such file can be made, else
/// that it cannot be written.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    check_writable(file).map_err(usage)?;
    Ok(write_whole(file, text.as_bytes())?)
}

/// Prints a diagnostic, which may contain texts of a record; one that cannot be printed has nowhere
/// else to go.
pub fn diagnose(text: &str) {
    let width = terminal_size::terminal_size_of(io::stderr());
    let text = match width.filter(|_| io::stderr().is_terminal()) {
        Some((width, _)) => at_words(&lines(text), usize::from(width.0)),
        None => lines(text),
    };
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Lines that are too long, broken at their words.
fn at_words(text: &str, width: usize) -> String {
    let fits = |line: &str| line.chars().count() <= width;
    let broken = text.lines().map(|line| match fits(line) {
        true => line.to_owned(),
        false => terminal::wrapped(line, width, "").join("\n"),
    });
    broken.collect::<Vec<String>>().join("\n")
}

/// Whether the user agrees; `None` where there is no terminal to ask at. Errors: the answer cannot be
/// read.
pub fn asked(question: &str) -> anyhow::Result<Option<bool>> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(None);
    }
    diagnose(&format!("{question} [y/N]"));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(Some(["y", "yes"].contains(&answer.trim().to_lowercase().as_str())))
}

/// The text with a space for all that steers a terminal, but for ends of lines, tabs and the
/// commands of a report's colours.
fn coloured(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|letter| letter != '\n' && letter != '\t' && steers(letter)) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let command = terminal::commands().find(|command| rest.starts_with(command));
        shown.push_str(command.unwrap_or(" "));
        let letter = rest.chars().next().map_or(0, char::len_utf8);
        rest = &rest[command.map_or(letter, str::len)..];
    }
    shown.push_str(rest);
    shown
}

/// How a report looks on standard output: 100 columns where it is no terminal, colours only where
/// it is one and `NO_COLOR` does not forbid them.
pub fn look() -> Look {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Look {
        width: terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0)),
        colours: io::stdout().is_terminal() && !plain,
    }
}

#[cfg(test)]
mod tests {
    use super::{at_words, coloured};

    #[test]
    fn a_long_line_is_broken_at_words_and_others_stay() {
        let found = at_words("  a  list\nplumb: a message that is long", 16);
        assert!(found.lines().eq(["  a  list", "plumb: a message", "that is long"]), "{found}");
    }

    #[test]
    fn only_colours_reach_the_terminal() {
        let painted = "\u{1b}[1mrun\u{1b}[0m\tµ\n";
        assert_eq!(coloured(painted), painted);
        assert_eq!(
            coloured("a\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred\u{9b}2J\u{202e}\rb\u{1b}"),
            "a ]0;owned  [2J\u{1b}[31mred 2J  b "
        );
    }
}
