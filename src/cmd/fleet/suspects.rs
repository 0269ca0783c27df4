//! `plumb fleet suspects`: what the next step of a sweep measures again.

use super::directory::Directory;
use crate::cmd::Failure;
use crate::cmd::rendered::Place;
use fleet::model::{judge, suspects};
use fleet::nodelist::compact;

/// Prints the hosts and pairs that stand out, with three healthy peers each
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
    /// A list for --hosts: a line a host, then a line a pair
    Hosts,
    /// One object: suspects, peers and pairs
    Json,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let fleet = args.directory.read()?;
    let again = suspects(&fleet, &judge(&fleet));
    let text = match args.format {
        Format::Hosts => again.list(),
        Format::Json => {
            format!("{}\n", serde_json::to_string(&again).map_err(anyhow::Error::from)?)
        }
        Format::Slurm if again.hosts().is_empty() => String::new(),
        Format::Slurm => compact(&again.hosts()) + "\n",
    };
    args.place.write(&text)
}
