//! `plumb completions`: made from the same definition as the parser.

use crate::cmd::{Cli, Failure, output};
use anyhow::Context;
use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use session::store::file::write_whole;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Prints a completion script for a shell, for example `source <(plumb completions bash)`, or
/// installs it.
#[derive(clap::Args)]
#[command(
    after_help = "--install writes to the directory where the shell looks for completions: of the whole \
machine for root, otherwise of the user. New shells use it. Zsh looks in a user's directory only if ~/.zshrc \
adds it to fpath before compinit; plumb prints the line."
)]
pub struct Args {
    /// Shell [default with --install: the one that $SHELL names]
    #[arg(required_unless_present = "install")]
    shell: Option<Shell>,
    /// Install the script instead of printing it
    #[arg(long)]
    install: bool,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let named = || env::var_os("SHELL").and_then(|shell| Shell::from_shell_path(&shell));
    let shell = args.shell.or_else(named).ok_or_else(|| {
        let known: Vec<String> = Shell::value_variants().iter().map(Shell::to_string).collect();
        Failure::Usage(format!("$SHELL names no known shell; type one of {}", known.join(", ")))
    })?;
    let script = script(shell);
    if !args.install {
        return Ok(output::print(&String::from_utf8_lossy(&script))?);
    }
    let is_root = metal::process::geteuid() == 0;
    let file = place(shell, is_root, |name| env::var_os(name))?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    write_whole(&file, &script)?;
    let mut text =
        format!("Completions for {shell} are in {}; new shells use them.\n", file.display());
    if shell == Shell::Zsh && !is_root {
        text += &format!(
            "Zsh must know the directory. Add to ~/.zshrc, before compinit:\n  fpath=({} $fpath)\n",
            directory.display()
        );
    }
    Ok(output::print(&text)?)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut command =
        shown(&Cli::command()).version(env!("CARGO_PKG_VERSION")).propagate_version(true);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "plumb", &mut script);
    script
}

/// A command without what is hidden, which the generator would also offer.
fn shown(command: &Command) -> Command {
    // clap takes only names that live for ever; the process ends after this.
    Command::new(&*command.get_name().to_owned().leak())
        .about(command.get_about().cloned().unwrap_or_default())
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|one| !one.is_hide_set()).map(shown))
}

/// Where a shell looks for the script: of the machine for root, else of the user.
fn place(
    shell: Shell,
    is_root: bool,
    var: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, Failure> {
    let of_user = |variable: &str, below: &str| {
        let set = var(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        set.or_else(|| Some(PathBuf::from(var("HOME")?).join(below)))
            .ok_or_else(|| Failure::Usage(format!("neither {variable} nor HOME is set")))
    };
    let share = || match is_root {
        true => Ok(PathBuf::from("/usr/local/share")),
        false => of_user("XDG_DATA_HOME", ".local/share"),
    };
    Ok(match shell {
        Shell::Bash => share()?.join("bash-completion/completions/plumb"),
        Shell::Zsh => share()?.join("zsh/site-functions/_plumb"),
        Shell::Fish if is_root => share()?.join("fish/vendor_completions.d/plumb.fish"),
        Shell::Fish => of_user("XDG_CONFIG_HOME", ".config")?.join("fish/completions/plumb.fish"),
        other => {
            return Err(Failure::Usage(format!(
                "plumb knows no directory for completions of {other}; `plumb completions {other}` \
                 prints the script"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{place, script};
    use clap::ValueEnum as _;
    use clap_complete::Shell;
    use std::path::Path;

    #[test]
    fn scripts_offer_nothing_hidden() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).expect("is UTF-8");
            assert!(script.contains("crosscheck") && script.contains("preset"), "{shell}");
            assert!(!script.contains("worker") && !script.contains("host-tree"), "{shell}");
        }
    }

    #[test]
    fn scripts_go_where_shells_look() {
        let at = |shell, is_root, set: &[(&str, &str)]| {
            let var = |name: &str| Some(set.iter().find(|(known, _)| *known == name)?.1.into());
            place(shell, is_root, var).ok()
        };
        let home = [("HOME", "/home/a")];
        let moved = [("HOME", "/home/a"), ("XDG_DATA_HOME", "/d"), ("XDG_CONFIG_HOME", "relative")];
        for (shell, is_root, set, expected) in [
            (Shell::Bash, true, &home[..], "/usr/local/share/bash-completion/completions/plumb"),
            (Shell::Bash, false, &home, "/home/a/.local/share/bash-completion/completions/plumb"),
            (Shell::Zsh, false, &moved, "/d/zsh/site-functions/_plumb"),
            (Shell::Fish, false, &moved, "/home/a/.config/fish/completions/plumb.fish"),
            (Shell::Fish, true, &[], "/usr/local/share/fish/vendor_completions.d/plumb.fish"),
        ] {
            assert_eq!(at(shell, is_root, set).as_deref(), Some(Path::new(expected)), "{shell}");
        }
        assert_eq!(at(Shell::Bash, false, &[]), None);
        assert_eq!(at(Shell::PowerShell, true, &home), None);
    }
}
