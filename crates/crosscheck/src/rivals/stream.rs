//! STREAM (J. McCalpin): a binary of one's own, found in PATH, whatever its arrays and compiler.

use crate::bandwidth::{Moves, STREAM_OPS, huge_pages, team};
use crate::binary::ZEROED;
use crate::{Conditions, Output, Pairing, Rival, Theirs};
use bench::experiment::Skip;

pub static RIVAL: Rival =
    Rival::new("stream", &["stream_c.exe", "stream_c", "stream.exe", "stream"], pairings, parse)
        .about("copy, scale, add and triad of main memory, as its own binary was compiled")
        // It takes none and ignores them.
        .version(&[], |said| Facts::of_file(&said.answer).map(|facts| facts.version()));

/// Arrays of a thread below this are not compared: plumb takes no less in main memory.
const THREAD_LEAST: u64 = 1 << 20;

/// The arrays may be so many bytes less than all memory of the binary that begins as zeros.
const OTHER_MOST: u64 = 1 << 16;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    version: String,
    /// The bytes of the three arrays together.
    bytes: u64,
    has_openmp: bool,
}

impl Facts {
    /// From the file: its arrays are static, and begin as zeros.
    fn of_file(told: &str) -> Option<Facts> {
        let after =
            |mark: &str| told.lines().find_map(|line| line.split_once(mark)).map(|(_, rest)| rest);
        let version = after(VERSION)?.split_whitespace().next()?;
        Some(Facts {
            version: version.to_owned(),
            bytes: after(ZEROED)?.parse().ok()?,
            has_openmp: after(THREADS).is_some(),
        })
    }

    /// The facts as the rival's version, which [`Facts::from_version`] reads again.
    fn version(&self) -> String {
        let openmp = match self.has_openmp {
            true => "with OpenMP",
            false => "without OpenMP",
        };
        format!("{}, {} B of arrays, {openmp}", self.version, self.bytes)
    }

    fn from_version(version: &str) -> Option<Facts> {
        let (number, rest) = version.split_once(", ")?;
        let (bytes, openmp) = rest.split_once(" B of arrays, ")?;
        Some(Facts {
            version: number.to_owned(),
            bytes: bytes.parse().ok()?,
            has_openmp: openmp == "with OpenMP",
        })
    }
}

/// The beginnings of its texts with the version and the number of threads.
const VERSION: &str = "STREAM version $Revision:";
const THREADS: &str = "Number of Threads requested";

/// A run's description of itself.
struct Ran {
    /// The bytes of the three arrays together.
    bytes: u64,
    threads: u64,
}

impl Ran {
    fn read(stdout: &str) -> Result<Ran, String> {
        let after = |mark: &str| -> Option<&str> {
            let line = stdout.lines().find_map(|line| line.split_once(mark))?.1;
            line.trim_start_matches([' ', '=']).split_whitespace().next()
        };
        let number =
            |mark: &str| -> Option<u64> { after(mark)?.trim_end_matches(',').parse().ok() };
        let missed = |mark: &str| format!("no line with `{mark}`");
        after(VERSION).ok_or_else(|| missed("STREAM version"))?;
        let elements = number("Array size").ok_or_else(|| missed("Array size"))?;
        let element_bytes = number("This system uses").ok_or_else(|| missed("This system uses"))?;
        let threads = number("Number of Threads counted").or_else(|| number(THREADS));
        Ok(Ran {
            bytes: elements.saturating_mul(element_bytes).saturating_mul(3),
            // None where it was compiled without OpenMP.
            threads: threads.unwrap_or(1),
        })
    }
}

const DIFFERENCE: &str = "STREAM's best pass over static arrays (on base pages unless its loader \
                          or the kernel uses others), in loops as its compiler built them; plumb's \
                          best round, in windows of several passes over arrays in huge pages. If \
                          four times the last caches are less than STREAM's arrays, plumb's arrays \
                          are smaller. Arrays that fit the last cache stay there from pass to pass \
                          of STREAM, while plumb first writes its own past the caches (then there \
                          is no goal: compile STREAM with larger arrays)";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let facts = Facts::from_version(&conditions.version);
    // All threads: the most telling, and what a binary without OpenMP cannot.
    let with_openmp = facts.as_ref().is_some_and(|facts| facts.has_openmp);
    let mut cpus = match with_openmp {
        true => team(conditions),
        false => conditions.cpus[..1].to_vec(),
    };
    let bytes = facts.as_ref().map_or(0, |facts| facts.bytes);
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
            "the program with this name is not STREAM: its file contains no \
                                version string of STREAM",
        )),
        Some(_) if bytes < THREAD_LEAST => Some(
            Skip::because("its static arrays have less than 1 MiB")
                .needs("compile it with a larger STREAM_ARRAY_SIZE"),
        ),
        Some(_) => moves.footprint(conditions).err(),
    };
    let places: Vec<String> = cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect();
    let goal = moves.goal_beside_passes(conditions);
    let what = |op: &str| format!("{op} by {} of {bytes}", cpus.len());
    let theirs = Theirs {
        environment: vec![
            huge_pages(),
            ("OMP_NUM_THREADS", cpus.len().to_string()),
            ("OMP_PROC_BIND", "true".to_owned()),
            ("OMP_PLACES", places.join(",")),
        ],
        // The one that printed its version.
        ..conditions.theirs("", &[]).on(&cpus).within(120)
    };
    let rows = moves.rows(what, goal, DIFFERENCE);
    vec![Pairing::new("main-memory", moves.ours(conditions), theirs, rows).unless(skip)]
}

/// The best rate of a kernel in B/s, where so many threads ran over arrays of so many bytes
/// (`KERNEL by THREADS of BYTES`).
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let wanted = || {
        let (op, rest) = what.split_once(" by ")?;
        let (threads, bytes) = rest.split_once(" of ")?;
        Some((op, threads.parse::<u64>().ok()?, bytes.parse::<u64>().ok()?))
    };
    let (op, threads, bytes) =
        wanted().ok_or_else(|| format!("`{what}` names no kernel, threads and bytes"))?;
    let ran = Ran::read(&said.stdout)?;
    if ran.threads != threads {
        return Err(format!("{} threads ran instead of {threads}", ran.threads));
    }
    if !(ran.bytes..=ran.bytes.saturating_add(OTHER_MOST)).contains(&bytes) {
        return Err(format!("its arrays have {} B, and by its file {bytes} B", ran.bytes));
    }
    if !said.stdout.lines().any(|line| line.starts_with("Solution Validates")) {
        return Err("its solution was not validated".to_owned());
    }
    let mut lines = said.stdout.lines().map(str::to_lowercase);
    let rate = lines.find_map(|line| {
        line.strip_prefix(op)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
    });
    let mb: f64 = rate.ok_or_else(|| format!("no rate of {op}"))?;
    Ok(mb * 1e6)
}

#[cfg(test)]
mod tests {
    use super::{Facts, RIVAL, STREAM_OPS, ZEROED, parse};
    use crate::bandwidth::tests::{check, conditions, everywhere};
    use crate::tests::said;
    use crate::{Conditions, Goal, Output};
    use bench::experiment::Preset;

    /// Two threads by OpenMP; none, single precision.
    const TWO: &str = include_str!("../testdata/stream/5.10-two-threads.txt");
    const SINGLE: &str = include_str!("../testdata/stream/5.10-single-precision.txt");

    /// From the files of the two: a little more begins as zeros.
    fn files() -> [String; 2] {
        let file = |zeroed: u64, threads: &str| {
            format!(
                "{ZEROED}{zeroed}\n/lib64/ld.so\n{threads}\nSTREAM version $Revision: 5.10 $\n%s\n"
            )
        };
        [
            file(96_000_288, "Number of Threads requested = %i"),
            file(2_400_160, "Your clock granularity/precision"),
        ]
    }

    #[test]
    fn the_best_rates_of_two_builds_are_read() {
        let check = |text: &str, of: &str, wanted: [f64; 4]| {
            for (op, mb) in STREAM_OPS.into_iter().zip(wanted) {
                let rate = parse(&said(text), &format!("{op} by {of}")).expect("a rate");
                assert!((rate / (mb * 1e6) - 1.0).abs() < 1e-12, "{op}: {rate}");
            }
        };
        check(TWO, "2 of 96000288", [7000.7, 4000.8, 10461.0, 28202.9]);
        check(SINGLE, "1 of 2400160", [72160.1, 61567.8, 66664.4, 55924.1]);
        // As 5.9 and earlier write it.
        let old = TWO
            .replace("5.10", "5.9")
            .replace("bytes per array element", "bytes per DOUBLE PRECISION word")
            .replace("4000000 (elements), Offset = 0 (elements)", "4000000, Offset = 0");
        check(&old, "2 of 96000288", [7000.7, 4000.8, 10461.0, 28202.9]);
    }

    #[test]
    fn what_a_binary_was_compiled_with_is_its_version_and_read_of_its_file() {
        let version =
            |text: &str| (RIVAL.version)(&Output { answer: text.to_owned(), ..Output::default() });
        let [two, single] = files();
        for (text, bytes, has_openmp) in [(two, 96_000_288, true), (single, 2_400_160, false)] {
            let told = Facts::from_version(&version(&text).expect("a version"));
            assert_eq!(told, Some(Facts { version: "5.10".to_owned(), bytes, has_openmp }));
        }
        let other = format!("{ZEROED}4096\nVersion: ImageMagick 6.9");
        assert_eq!(version(&other), None);
        assert_eq!(version("STREAM version $Revision: 5.10 $"), None);
        assert_eq!(version(""), None);
    }

    #[test]
    fn what_is_broken_is_an_error() {
        let other_threads = parse(&said(TWO), "copy by 1 of 96000288").expect_err("two threads");
        assert!(other_threads.contains("2 threads"), "{other_threads}");
        let other_arrays = parse(&said(TWO), "copy by 2 of 192000288").expect_err("its arrays");
        assert!(other_arrays.contains("96000000 B"), "{other_arrays}");
        let cut = TWO.split_once("Solution").expect("it validates").0;
        let copy = "copy by 2 of 96000288";
        for (text, what) in [
            (cut, copy),
            ("", copy),
            (TWO, "copy"),
            (TWO, "copy by 2"),
            (TWO, "sum by 2 of 96000288"),
            (TWO.replace("Copy:  ", "Copy:  x").as_str(), copy),
            (TWO.replace("Array size", "Size").as_str(), copy),
        ] {
            parse(&said(text), what).expect_err(what);
        }
    }

    #[test]
    fn plumb_s_arrays_are_no_larger_than_its() {
        for conditions in everywhere() {
            for (file, bytes) in files().iter().zip([96_000_288, 2_400_160]) {
                let conditions = Conditions {
                    version: Facts::of_file(file).expect("facts").version(),
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
        let goal = |elements: u64, host: &str| {
            let version = format!("5.10, {} B of arrays, with OpenMP", elements * 24);
            let conditions = Conditions { version, ..conditions(host, 2, Preset::Standard) };
            (RIVAL.pairings)(&conditions)[0].rows[0].goal
        };
        // 92 MiB and 275 MiB beside a last cache of 32 MiB.
        assert_eq!(goal(4_000_000, "epyc-7763-2s"), Goal::Explained);
        assert_eq!(goal(12_000_000, "epyc-7763-2s"), Goal::AtLeast);
        assert_eq!(goal(100_000, "alder-lake-hybrid"), Goal::Explained);
    }

    #[test]
    fn another_program_of_that_name_is_a_reason() {
        let conditions = conditions("vm-granite-rapids", 2, Preset::Standard);
        let pairings = (RIVAL.pairings)(&conditions);
        let skip = pairings[0].skip.as_ref().expect("no version of STREAM was told");
        assert!(skip.reason.contains("not STREAM"), "{}", skip.reason);
    }
}
