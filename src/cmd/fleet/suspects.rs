//! `plumb fleet suspects`: what the next step of a sweep measures again.

use super::directory::Directory;
use crate::cmd::Failure;
use crate::cmd::rendered::Place;
use catalogue::FAMILIES;
use fleet::model::{judge, suspects};
use fleet::nodelist::compact;
use record::key::Key;
use session::select::Selection;

/// Prints the hosts and pairs that stand out, with three healthy peers each; all hosts where a figure
/// scatters so much that it hides a node that is 10 % slower
///
/// The job measures them again: `plumb fleet run --hosts LIST --into DIR` on these hosts, where LIST is
/// the list of the format hosts. Nothing is printed where no suspect is left.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    directory: Directory,
    /// In which form
    #[arg(short, long, value_enum, default_value_t = Format::Hosts)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// A node list as srun --nodelist takes it
    Slurm,
    /// A list for --hosts: a line a host, then a line a pair, then what each host measures by itself
    Hosts,
    /// One object: suspects, peers and pairs
    Json,
}

/// What measures a figure: its case, or where no selector has that the experiment.
fn selector(key: &Key) -> String {
    let case = format!("{}:{}", key.experiment, key.case);
    let is_one = Selection::parse(std::slice::from_ref(&case), FAMILIES).is_ok();
    if is_one { case } else { key.experiment.clone() }
}

pub fn run(args: Args) -> Result<(), Failure> {
    let fleet = args.directory.read()?;
    let again = suspects(&fleet, &judge(&fleet));
    let text = match args.format {
        Format::Hosts => again.list(selector),
        Format::Json => {
            format!("{}\n", serde_json::to_string(&again).map_err(anyhow::Error::from)?)
        }
        Format::Slurm if again.hosts().is_empty() => String::new(),
        Format::Slurm => compact(&again.hosts()).join(",") + "\n",
    };
    args.place.write(&text)
}
