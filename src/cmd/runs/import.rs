//! `plumb runs import`: machines of others, to compare with.

use crate::cmd::{Failure, output, usage};
use crate::imported;
use crate::sheet::Sheet;
use crate::sheet::cloud::Instance;
use anyhow::Context as _;
use report::counted;
use session::store::Store;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Args {
    /// A sheet (docs/SHEETS.md), or the directory of a clone of sc-inspector-data
    /// (github.com/SpareCores/sc-inspector-data)
    #[arg(value_name = "PATH")]
    from: PathBuf,
    /// Instance types as the clone's folders name them, for example aws/m7i.large
    #[arg(value_name = "TYPE")]
    types: Vec<String>,
}

pub(super) fn import(store: &Store, args: &Args) -> Result<(), Failure> {
    let Args { from, types } = args;
    if from.is_dir() && types.is_empty() {
        return Err(Failure::Usage(format!(
            "name the instance types of {} to import, for example aws/m7i.large",
            from.display()
        )));
    }
    if !from.is_dir() && !types.is_empty() {
        return Err(Failure::Usage(format!(
            "{} is no directory: instance types are read from a clone of sc-inspector-data",
            from.display()
        )));
    }
    let sheets: Vec<(String, Sheet)> = match from.is_dir() {
        true => types.iter().map(|name| of_type(from, name)).collect::<Result<_, _>>()?,
        false => of_file(from)?,
    };
    for (name, sheet) in sheets {
        imported::keep(store, &name, &sheet).map_err(usage)?;
        let figures = counted(sheet.figures.len(), "figure");
        output::print(&format!("{name}  {figures}; compare with it: plumb compare {name} last\n"))?;
    }
    Ok(())
}

fn of_type(clone: &Path, name: &str) -> Result<(String, Sheet), Failure> {
    let found = Instance::from_clone(clone, name).and_then(|instance| instance.sheet());
    Ok((name.to_owned(), found.map_err(Failure::Usage)?))
}

/// The machines of a file. The only one without a name has the file's.
fn of_file(path: &Path) -> Result<Vec<(String, Sheet)>, Failure> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display())).map_err(usage)?;
    let sheets = Sheet::read_all(&text);
    let sheets =
        sheets.with_context(|| format!("cannot read {}", path.display())).map_err(usage)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let named = |(name, sheet): (String, Sheet)| match name.is_empty() {
        true => (stem.clone().into_owned(), sheet),
        false => (name, sheet),
    };
    Ok(sheets.into_iter().map(named).collect())
}
