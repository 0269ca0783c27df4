//! In which form a report appears, and where: the options that comparisons, trends and sweeps share.

use crate::cmd::{Failure, output};
use report::terminal::Look;
use std::path::PathBuf;

/// Width of a text for a terminal in a file.
const FILE_WIDTH: usize = 100;

/// The forms of a comparison or trend.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for this terminal
    Terminal,
    /// One HTML page that opens offline
    Html,
    /// Markdown for a comment on a pull request; a line says what it leaves out
    Markdown,
    /// One row per figure, and per run or node
    Csv,
    /// One object with everything
    Json,
}

/// The form and the place.
#[derive(clap::Args)]
pub struct Shown {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    #[command(flatten)]
    pub place: Place,
}

/// Where a report goes.
#[derive(clap::Args)]
pub struct Place {
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE", visible_alias = "out")]
    output: Option<PathBuf>,
}

impl Place {
    pub fn look(&self) -> Look {
        match self.output {
            None => output::look(),
            Some(_) => Look { width: FILE_WIDTH, colours: false },
        }
    }

    /// Prints a text, or writes it to the file. Errors: the file cannot be written.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        match &self.output {
            None => Ok(output::page(text)?),
            Some(file) => output::write(file, text),
        }
    }
}
