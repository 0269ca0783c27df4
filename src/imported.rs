//! Machines that a user imported: sheets below `machines/` in the store, by the names that compare and
//! report take.

use crate::published;
use crate::sheet::{Report, Sheet};
use anyhow::{Context as _, Result, bail};
use record::order::InOrder as _;
use record::run::Run;
use session::store::{Store, file};
use std::path::{Path, PathBuf};

const FOLDER: &str = "machines";

const ENDING: &str = ".sheet";

/// Names that mean runs of this machine.
const TAKEN: [&str; 2] = ["last", "last-crosscheck"];

/// The file of a machine's sheet. Errors: a name that is none, or means something else.
fn path(store: &Store, name: &str) -> Result<PathBuf> {
    let is_plain = |part: &str| {
        let mut all = part.chars();
        let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        all.clone().all(is_known) && all.next().is_some_and(|first| first != '.')
    };
    let is_taken = name.starts_with(published::PREFIX) || TAKEN.contains(&name);
    if is_taken || !name.split('/').all(is_plain) {
        bail!(
            "`{name}` is no name of a machine: letters, digits, `-`, `_`, `.`, `+`, and `/` between"
        );
    }
    Ok(store.dir()?.join(FOLDER).join(format!("{name}{ENDING}")))
}

/// Keeps a machine. Errors: the name means something else, or the store cannot be written.
pub fn keep(store: &Store, name: &str, sheet: &Sheet) -> Result<()> {
    let path = path(store, name)?;
    store.make()?;
    let folder = path.parent().expect("it is below the store");
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    file::write_whole(&path, sheet.text()?.as_bytes())
}

/// Removes a machine. Errors: it cannot be removed.
pub fn remove(store: &Store, name: &str) -> Result<()> {
    let path = path(store, name)?;
    store.check_own()?;
    std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
}

pub fn names(store: &Store) -> Vec<String> {
    fn below(folder: &Path, before: &str, found: &mut Vec<String>) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let Ok(name) = entry.file_name().into_string() else { continue };
            match name.strip_suffix(ENDING) {
                Some(name) if entry.path().is_file() => found.push(format!("{before}{name}")),
                _ if entry.path().is_dir() => {
                    below(&entry.path(), &format!("{before}{name}/"), found);
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    if let Ok(dir) = store.dir() {
        below(&dir.join(FOLDER), "", &mut found);
    }
    found.order();
    found
}

/// The run of a machine; `None` for a name that is no imported machine's. Errors: its sheet is refused.
pub fn run(store: &Store, name: &str) -> Result<Option<Run>> {
    let Some(path) = path(store, name).ok().filter(|path| path.is_file()) else { return Ok(None) };
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut sheet = Sheet::read(&text).with_context(|| {
        format!("{}: import the machine again with `plumb runs import`", path.display())
    })?;
    sheet.report = Some(Report::imported(name, &sheet));
    Ok(Some(published::run_of(name, &sheet)))
}

#[cfg(test)]
mod tests {
    use super::{Store, path};
    use crate::published;
    use crate::sheet::cloud::{instances, tests::MADE_UP};
    use crate::sheet::{Report, Sheet};
    use analysis::figures;

    #[test]
    fn a_name_leads_nowhere_else() {
        let store = Store::here();
        let file = path(&store, "aws/m7i.large").expect("a name");
        assert!(file.ends_with("machines/aws/m7i.large.sheet"));
        for name in ["", "/etc/passwd", "../x", "aws/..", "aws//x", "published/r1", "a b", "last"] {
            assert!(path(&store, name).is_err(), "{name}");
        }
    }

    #[test]
    fn an_instance_is_a_run_with_its_figures() {
        let instance = &instances(MADE_UP).expect("they can be read")[0];
        let text = instance.sheet().expect("it can be made").text().expect("it has a text");
        let mut sheet = Sheet::read(&text).expect("what is kept can be read");
        sheet.report = Some(Report::imported("made-up/x.large", &sheet));
        let run = published::run_of("made-up/x.large", &sheet);
        assert_eq!(run.header.run, "made-up/x.large");
        let all = figures(&run);
        assert_eq!(all.len(), sheet.figures.len());
        for figure in &sheet.figures {
            let of = all.iter().find(|of| of.key().as_ref() == Some(&figure.key()));
            let of = of.expect("the run has it");
            assert_eq!((of.value, of.ci), (Some(figure.value), figure.estimate_printed().1));
        }
    }
}
