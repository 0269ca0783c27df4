//! Whether a rival is here, and which version.

use super::process::Call;
use super::{Output, Rival, binary};
use anyhow::Result;
use bench::experiment::Skip;
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A program prints its version within this time.
const TELLING: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its output; empty if it reports none.
    pub version: String,
    pub program: &'static str,
}

/// Looks for a rival; the reason and the way out where it is not here, or too old. What it says
/// goes through `dir`.
pub(super) fn probe(rival: &Rival, dir: &Path, stop: &AtomicBool) -> Result<Result<Found, Skip>> {
    let mut programs = rival.programs.iter();
    let found = programs.find_map(|name| Some((*name, find(name)?)));
    let Some((name, program)) = found else {
        return Ok(Err(absent(rival)));
    };
    if rival.version_args.is_empty() {
        let of_file = Output { answer: binary::texts(&program), ..Output::default() };
        return Ok(judge(rival, name, &of_file));
    }
    let args: Vec<String> = rival.version_args.iter().map(|&arg| arg.to_owned()).collect();
    let call = Call { program: &program, args: &args, environment: &[], cpus: &[], dir };
    let said = match call.run(TELLING, stop) {
        Ok((_, output)) => output,
        Err(error) if session::is_interrupt(&error) => return Err(error),
        Err(error) => return Ok(Err(Skip::because(format!("its version: {error:#}")))),
    };
    Ok(judge(rival, name, &said))
}

/// What a rival's answer says of its version.
fn judge(rival: &Rival, program: &'static str, said: &Output) -> Result<Found, Skip> {
    let version = (rival.version)(said);
    match (rival.oldest, version) {
        (Some(oldest), Some(version)) if numbers(&version) < numbers(oldest) => Err(Skip::because(
            format!("version {version} is too old: plumb reads {oldest} and later"),
        )
        .needs(format!("install {} {oldest} or later", rival.name))),
        (Some(oldest), None) => Err(Skip::because(format!(
            "it reports no version, and plumb supports {oldest} and later: {}",
            first_line(said)
        ))),
        (_, version) => Ok(Found { version: version.unwrap_or_default(), program }),
    }
}

fn first_line(said: &Output) -> String {
    let mut lines = said.stdout.lines().chain(said.stderr.lines()).map(str::trim);
    let line = lines.find(|line| !line.is_empty());
    line.unwrap_or("it said nothing").to_owned()
}

fn absent(rival: &Rival) -> Skip {
    let skip = Skip::because(format!("no {} in PATH", rival.programs.join(" or ")));
    match rival.package {
        Some(package) => skip.needs(format!("Debian: apt-get install {package}")),
        None => skip.needs("no package: put it into PATH"),
    }
}

pub(super) fn find(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(is_program)
}

/// The numbers of a version, for comparing: `3.12-rc1` is 3, 12, 1.
pub(super) fn numbers(version: &str) -> Vec<u64> {
    version
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{judge, numbers, probe};
    use crate::{Output, RIVALS, Rival};
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_is_too_old_or_tells_no_version_is_not_run() {
        let fio = RIVALS.iter().find(|rival| rival.name == "fio").unwrap();
        let said = |text: &str| Output { stdout: text.to_owned(), ..Output::default() };
        let judged = |text: &str| judge(fio, "fio", &said(text));
        assert_eq!(judged("fio-3.33\n").unwrap().version, "3.33");
        assert_eq!(judged("fio-3.16\n").unwrap().version, "3.16");
        let old = judged("fio-2.99\n").unwrap_err();
        assert!(old.reason.contains("too old"), "{old:?}");
        assert!(old.needed.is_some());
        // A wrapper without a program behind it: its words are the reason.
        let words = "not found for this kernel";
        let none = judged(&format!("{words}\n")).unwrap_err();
        assert!(none.reason.contains(words), "{none:?}");
    }

    #[test]
    fn what_would_do_all_its_work_is_read_and_not_run() {
        static ENDLESS: Rival =
            Rival::new("endless", &["/proc/self/exe"], |_| Vec::new(), |_, _| Err(String::new()))
                .version(&[], |said| said.answer.lines().next().map(str::to_owned));
        let found = probe(&ENDLESS, Path::new("/nowhere"), &AtomicBool::new(false));
        let version = found.unwrap().unwrap().version;
        assert!(version.starts_with("zeroed bytes: "), "{version}");
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(numbers("3.9") < numbers("3.12"));
        assert!(numbers("fio-3.33") < numbers("3.33.1"));
        assert!(numbers("") < numbers("0.1"));
    }
}
