//! STREAM (J. McCalpin): a binary of one's own, found in PATH, whatever its arrays and compiler.

use crate::crosscheck::bandwidth::{Moves, huge_pages, team};
use crate::crosscheck::{Conditions, Goal, Output, Pairing, Rival, Statistic, Theirs};
use crate::experiment::Skip;
use std::time::Duration;

/// The rival.
pub(crate) static RIVAL: Rival = Rival {
    name: "stream",
    about: "STREAM: copy, scale, add and triad of main memory, as its own binary was compiled",
    package: None,
    programs: &["stream_c.exe", "stream_c", "stream.exe", "stream"],
    // It takes none and ignores them: its whole work is done for its version.
    version_args: &["--version"],
    version: |said| Facts::read(&said.stdout).ok().map(|facts| facts.told()),
    oldest: None,
    pairings,
    parse,
};

const OPS: [&str; 4] = ["copy", "scale", "add", "triad"];
/// Arrays of a thread below this are not compared: plumb takes no less in main memory.
const THREAD_LEAST: u64 = 1 << 20;

/// What a binary was compiled with, as its output tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    version: String,
    /// Elements of each of the three arrays, and bytes of one.
    elements: u64,
    element_bytes: u64,
    /// Threads that it ran; none where it was compiled without OpenMP.
    threads: Option<u64>,
}

impl Facts {
    /// # Errors
    /// The first line that is missed.
    fn read(stdout: &str) -> Result<Facts, String> {
        let after = |mark: &str| -> Option<&str> {
            let line = stdout.lines().find_map(|line| line.split_once(mark))?.1;
            line.trim_start_matches([' ', '=']).split_whitespace().next()
        };
        let number = |mark: &str| -> Option<u64> { after(mark)?.trim_end_matches(',').parse().ok() };
        let missed = |mark: &str| format!("no line with `{mark}`");
        let version = after("STREAM version $Revision:").ok_or_else(|| missed("STREAM version"))?;
        let elements = number("Array size").ok_or_else(|| missed("Array size"))?;
        let element_bytes = number("This system uses").ok_or_else(|| missed("This system uses"))?;
        let threads = number("Number of Threads counted");
        Ok(Facts {
            version: version.to_owned(),
            elements,
            element_bytes,
            threads: threads.or_else(|| number("Number of Threads requested")),
        })
    }

    /// The three arrays together.
    fn bytes(&self) -> u64 {
        self.elements.saturating_mul(self.element_bytes).saturating_mul(3)
    }

    /// As the rival's version, from which [`Facts::heard`] has them again.
    fn told(&self) -> String {
        let openmp = match self.threads {
            Some(_) => "with OpenMP",
            None => "without OpenMP",
        };
        format!(
            "{}, 3 arrays of {} elements of {} B, {openmp}",
            self.version, self.elements, self.element_bytes
        )
    }

    fn heard(version: &str) -> Option<Facts> {
        let (number, rest) = version.split_once(", 3 arrays of ")?;
        let (elements, rest) = rest.split_once(" elements of ")?;
        let (element_bytes, openmp) = rest.split_once(" B, ")?;
        Some(Facts {
            version: number.to_owned(),
            elements: elements.parse().ok()?,
            element_bytes: element_bytes.parse().ok()?,
            threads: (openmp == "with OpenMP").then_some(1),
        })
    }
}

const DIFFERENCE: &str = "STREAM's best of its passes over static arrays (on base pages unless its loader or \
                          the kernel gives others) in loops as its compiler made them; plumb's best round, \
                          windows of many passes over arrays in huge pages. Where four times the last caches \
                          are less than STREAM's arrays, plumb's are smaller";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let facts = Facts::heard(&conditions.version);
    // All threads: the most telling, and what a binary without OpenMP cannot.
    let with_openmp = facts.as_ref().is_some_and(|facts| facts.threads.is_some());
    let mut cpus = match with_openmp {
        true => team(conditions),
        false => conditions.cpus[..1].to_vec(),
    };
    let bytes = facts.as_ref().map_or(0, Facts::bytes);
    cpus.truncate((bytes / THREAD_LEAST).max(1) as usize);
    let moves = Moves {
        ops: &OPS,
        stores: "regular",
        level: "DRAM",
        cpus: &cpus,
        limit: bytes / cpus.len() as u64,
    };
    let skip = match &facts {
        None => Some(Skip::because("what is called so is not STREAM: it told no version of it")),
        Some(_) if bytes < THREAD_LEAST => {
            Some(Skip::because("its arrays are smaller than 1 MiB").needs("compile it with a larger STREAM_ARRAY_SIZE"))
        }
        Some(_) => moves.footprint(conditions).err(),
    };
    let places: Vec<String> = cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect();
    let rows = OPS.map(|op| {
        let mut row = moves.row(op, Statistic::Best, Goal::AtLeast, DIFFERENCE);
        row.name = op.to_owned();
        row.what = format!("{op} by {}", cpus.len());
        row
    });
    vec![Pairing {
        name: "main-memory".to_owned(),
        ours: moves.ours(conditions),
        theirs: Theirs {
            // The one that told its version.
            program: "",
            environment: vec![
                huge_pages(),
                ("OMP_NUM_THREADS", cpus.len().to_string()),
                ("OMP_PROC_BIND", "true".to_owned()),
                ("OMP_PLACES", places.join(",")),
            ],
            cpus: cpus.clone(),
            limit: Duration::from_secs(120),
            ..Theirs::default()
        },
        rows: rows.into(),
        skip,
        is_once: false,
    }]
}

/// The best rate of a kernel in B/s, where so many threads ran (`KERNEL by THREADS`).
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let (op, threads) = what.split_once(" by ").ok_or_else(|| format!("`{what}` names no kernel and threads"))?;
    let facts = Facts::read(&said.stdout)?;
    let ran = facts.threads.unwrap_or(1);
    if ran.to_string() != threads {
        return Err(format!("{ran} threads ran instead of {threads}"));
    }
    if !said.stdout.lines().any(|line| line.starts_with("Solution Validates")) {
        return Err("its solution was not validated".to_owned());
    }
    let mut lines = said.stdout.lines().map(str::to_lowercase);
    let rate = lines.find_map(|line| line.strip_prefix(op)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok());
    let mb: f64 = rate.ok_or_else(|| format!("no rate of {op}"))?;
    Ok(mb * 1e6)
}
