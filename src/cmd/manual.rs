//! `plumb man`: the manual pages, made from the definition of the command line and from what holds
//! for all commands: exit codes and environment variables.

use crate::cmd::{Cli, Failure, output};
use anyhow::Context;
use clap::CommandFactory;
use std::path::PathBuf;

pub const EXIT_CODES: [(u8, &str); 6] = [
    (0, "success"),
    (1, "finding (compare, crosscheck, doctor, self-check, trend --fail-on)"),
    (2, "usage error"),
    (3, "failure"),
    (4, "interrupted (continue with `plumb run --resume`)"),
    (5, "undecided (compare --fail-on, trend --fail-on)"),
];

/// Environment variables that a user may set.
pub const ENVIRONMENT: [(&str, &str); 6] = [
    ("NO_COLOR", "if it is set and not empty, no output has colours"),
    (
        "PLUMB_PAGER, PAGER",
        "the command that pages output with more lines than the terminal [default: less]; if empty \
         or cat, there is no pager. Output that does not go to a terminal has no pager",
    ),
    ("LESS", "options of less; plumb sets FRX without it"),
    ("PLUMB_STORE", "the directory of the stored runs"),
    ("XDG_DATA_HOME", "its subdirectory plumb is the store without PLUMB_STORE"),
    ("PLUMB_LOCK", "the file through which plumbs that measure on one machine see each other"),
];

/// Prints the manual page of plumb or of a command, for example `plumb man run | man -l -`.
#[derive(clap::Args)]
pub struct Args {
    /// Command, for example `run` or `runs export` [default: plumb itself]
    command: Vec<String>,
    /// Write the pages of plumb and of all commands to this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    to: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let mut all = vec![Cli::command().disable_help_subcommand(true)];
    all[0].build();
    if let Some(directory) = args.to {
        if !directory.is_dir() {
            return Err(Failure::Usage(format!(
                "--to: there is no directory {}; name an existing one",
                directory.display()
            )));
        }
        // As clap_mangen::generate_to, which would write through links.
        while let Some(command) = all.pop() {
            all.extend(command.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned());
            let man = clap_mangen::Man::new(command);
            output::write(&directory.join(man.get_filename()), &page(&man)?)?;
        }
        return Ok(());
    }
    let mut command = &all[0];
    for name in &args.command {
        let mut known = command.get_subcommands().filter(|command| !command.is_hide_set());
        command = known.find(|command| command.get_name() == name).ok_or_else(|| {
            let named = args.command.join(" ");
            Failure::Usage(format!("there is no command `{named}`; `plumb help` lists them"))
        })?;
    }
    Ok(output::print(&page(&clap_mangen::Man::new(command.clone()))?)?)
}

/// A page, with the sections that all pages have before the version.
fn page(man: &clap_mangen::Man) -> anyhow::Result<String> {
    let mut text = Vec::new();
    man.render(&mut text).context("the manual page cannot be made")?;
    let mut page = String::from_utf8(text).context("the manual page is not UTF-8")?;
    let at = page.find(".SH VERSION").unwrap_or(page.len());
    page.insert_str(at, &sections());
    Ok(page)
}

fn sections() -> String {
    let codes = EXIT_CODES.iter().map(|(code, about)| entry(&code.to_string(), about));
    let variables = ENVIRONMENT.iter().map(|(name, about)| entry(name, about));
    format!(
        ".SH \"EXIT STATUS\"\n{}.SH ENVIRONMENT\n{}",
        codes.collect::<String>(),
        variables.collect::<String>()
    )
}

/// An entry of a list; a hyphen is no minus in roff, and a backquote no quote.
fn entry(name: &str, about: &str) -> String {
    let about = about.replace('-', "\\-").replace('`', "");
    format!(".TP\n\\fB{name}\\fR\n{about}\n")
}

/// The exit codes and environment variables in the help of plumb itself.
pub fn help() -> String {
    let codes: Vec<String> =
        EXIT_CODES.iter().map(|(code, about)| format!("{code} {about}")).collect();
    let variables = ENVIRONMENT.iter().map(|(name, about)| format!("\n  {name}: {about}"));
    format!("Exit codes: {}.\n\nEnvironment:{}", codes.join("; "), variables.collect::<String>())
}
