//! STREAM (J. McCalpin): a binary of one's own, found in PATH, whatever its arrays and compiler.

use crate::crosscheck::bandwidth::{Moves, STREAM_OPS, huge_pages, team};
use crate::crosscheck::{Conditions, Output, Pairing, Rival, Statistic, Theirs};
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
            line.trim_start_matches([' ', '='])
                .split_whitespace()
                .next()
        };
        let number =
            |mark: &str| -> Option<u64> { after(mark)?.trim_end_matches(',').parse().ok() };
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
        self.elements
            .saturating_mul(self.element_bytes)
            .saturating_mul(3)
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
                          windows of several passes over arrays in huge pages. Where four times the last \
                          caches are less than STREAM's arrays, plumb's are smaller; arrays that the last cache \
                          may hold stay there from pass to pass of STREAM, while plumb writes its own past the \
                          caches first (then there is no goal: compile STREAM with larger arrays)";

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
        ops: &STREAM_OPS,
        stores: "regular",
        level: "DRAM",
        cpus: &cpus,
        limit: bytes / cpus.len() as u64,
    };
    let skip = match &facts {
        None => Some(Skip::because(
            "what is called so is not STREAM: it told no version of it",
        )),
        Some(_) if bytes < THREAD_LEAST => Some(
            Skip::because("its arrays are smaller than 1 MiB")
                .needs("compile it with a larger STREAM_ARRAY_SIZE"),
        ),
        Some(_) => moves.footprint(conditions).err(),
    };
    let places: Vec<String> = cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect();
    let goal = moves.goal_beside_passes(conditions);
    let rows = STREAM_OPS.map(|op| {
        let mut row = moves.row(op, Statistic::Best, goal, DIFFERENCE);
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
    let (op, threads) = what
        .split_once(" by ")
        .ok_or_else(|| format!("`{what}` names no kernel and threads"))?;
    let facts = Facts::read(&said.stdout)?;
    let ran = facts.threads.unwrap_or(1);
    if ran.to_string() != threads {
        return Err(format!("{ran} threads ran instead of {threads}"));
    }
    if !said
        .stdout
        .lines()
        .any(|line| line.starts_with("Solution Validates"))
    {
        return Err("its solution was not validated".to_owned());
    }
    let mut lines = said.stdout.lines().map(str::to_lowercase);
    let rate = lines.find_map(|line| {
        line.strip_prefix(op)?
            .strip_prefix(':')?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    });
    let mb: f64 = rate.ok_or_else(|| format!("no rate of {op}"))?;
    Ok(mb * 1e6)
}

#[cfg(test)]
mod tests {
    use super::{Facts, RIVAL, STREAM_OPS, parse};
    use crate::crosscheck::bandwidth::tests::{check, conditions, everywhere};
    use crate::crosscheck::{Conditions, Goal, Output};
    use crate::experiment::Preset;

    /// Two threads by OpenMP; none, single precision.
    const TWO: &str = include_str!("../testdata/stream/5.10-two-threads.txt");
    const SINGLE: &str = include_str!("../testdata/stream/5.10-single-precision.txt");

    fn said(stdout: &str) -> Output {
        Output {
            stdout: stdout.to_owned(),
            ..Output::default()
        }
    }

    #[test]
    fn the_best_rates_of_two_builds_are_read() {
        let check = |text: &str, threads: u32, wanted: [f64; 4]| {
            for (op, mb) in STREAM_OPS.into_iter().zip(wanted) {
                let rate = parse(&said(text), &format!("{op} by {threads}")).expect("a rate");
                assert!((rate / (mb * 1e6) - 1.0).abs() < 1e-12, "{op}: {rate}");
            }
        };
        check(TWO, 2, [7000.7, 4000.8, 10461.0, 28202.9]);
        check(SINGLE, 1, [72160.1, 61567.8, 66664.4, 55924.1]);
    }

    #[test]
    fn what_a_binary_was_compiled_with_is_its_version() {
        let version = |text: &str| (RIVAL.version)(&said(text));
        let two = "5.10, 3 arrays of 4000000 elements of 8 B, with OpenMP";
        assert_eq!(version(TWO).as_deref(), Some(two));
        let single = "5.10, 3 arrays of 200000 elements of 4 B, without OpenMP";
        assert_eq!(version(SINGLE).as_deref(), Some(single));
        assert_eq!(version("Version: ImageMagick 6.9"), None);
        for text in [TWO, SINGLE] {
            let facts = Facts::read(text).expect("all facts");
            let heard = Facts::heard(&facts.told()).expect("as told");
            assert_eq!(
                (heard.bytes(), heard.threads.is_some()),
                (facts.bytes(), facts.threads.is_some())
            );
        }
        // As 5.9 and earlier write it.
        let old = TWO
            .replace("5.10", "5.9")
            .replace("bytes per array element", "bytes per DOUBLE PRECISION word")
            .replace(
                "4000000 (elements), Offset = 0 (elements)",
                "4000000, Offset = 0",
            );
        assert_eq!(version(&old), Some(two.replace("5.10", "5.9")));
    }

    #[test]
    fn what_is_broken_is_an_error() {
        let other_threads = parse(&said(TWO), "copy by 1").expect_err("two threads");
        assert!(other_threads.contains("2 threads"), "{other_threads}");
        let cut = TWO.split_once("Solution").expect("it validates").0;
        for (text, what) in [
            (cut, "copy by 2"),
            ("", "copy by 2"),
            (TWO, "copy"),
            (TWO, "sum by 2"),
            (TWO.replace("Copy:  ", "Copy:  x").as_str(), "copy by 2"),
            (TWO.replace("Array size", "Size").as_str(), "copy by 2"),
        ] {
            parse(&said(text), what).expect_err(what);
        }
    }

    #[test]
    fn plumb_s_arrays_are_no_larger_than_its() {
        for conditions in everywhere() {
            for (version, bytes) in [
                (Facts::read(TWO), 96_000_000),
                (Facts::read(SINGLE), 2_400_000),
            ] {
                let conditions = Conditions {
                    version: version.expect("facts").told(),
                    ..conditions.clone()
                };
                let pairings = (RIVAL.pairings)(&conditions);
                let footprint =
                    check(&conditions, &pairings)[0].expect("main memory is everywhere");
                assert!(footprint <= bytes, "{footprint} beside {bytes}");
                let threads = ("OMP_NUM_THREADS", pairings[0].theirs.cpus.len().to_string());
                assert!(pairings[0].theirs.environment.contains(&threads));
            }
        }
    }

    #[test]
    fn arrays_that_a_cache_may_hold_have_no_goal() {
        let goal = |elements: &str, host: &str| {
            let version = format!("5.10, 3 arrays of {elements} elements of 8 B, with OpenMP");
            let conditions = Conditions {
                version,
                ..conditions(host, 2, Preset::Standard)
            };
            (RIVAL.pairings)(&conditions)[0].rows[0].goal
        };
        // 92 MiB and 275 MiB beside a last cache of 32 MiB.
        assert_eq!(goal("4000000", "epyc-7763-2s"), Goal::Explained);
        assert_eq!(goal("12000000", "epyc-7763-2s"), Goal::AtLeast);
        assert_eq!(goal("100000", "alder-lake-hybrid"), Goal::Explained);
    }

    #[test]
    fn another_program_of_that_name_is_a_reason() {
        let conditions = conditions("vm-granite-rapids", 2, Preset::Standard);
        let pairings = (RIVAL.pairings)(&conditions);
        let skip = pairings[0]
            .skip
            .as_ref()
            .expect("no version of STREAM was told");
        assert!(skip.reason.contains("not STREAM"), "{}", skip.reason);
    }
}
