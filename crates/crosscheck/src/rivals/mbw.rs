//! mbw: copies of main memory by the C library and by a plain loop, one thread.

use crate::bandwidth::{Moves, huge_pages};
use crate::{Conditions, Goal, MIB, Output, Pairing, Rival, Statistic, Theirs};
use bench::experiment::{Preset, Skip};

pub static RIVAL: Rival = Rival::new("mbw", &["mbw"], pairings, parse)
    .about("copies of main memory: memcpy, a loop, memcpy by blocks")
    .package("mbw")
    // Up to 1.2 it reports none.
    .version(&["-h"], |said| {
        let text = format!("{}\n{}", said.stdout, said.stderr);
        let told = text.lines().find_map(|line| line.strip_prefix("mbw memory benchmark v"))?;
        Some(told.split(',').next()?.trim().to_owned())
    });

/// plumb's arrays are cut to a multiple of less than this.
const GRAIN: u64 = 4096;
/// A copy of 128 MiB takes about so long, in seconds.
const COPY_S: f64 = 0.025;

/// One of its ways to copy.
struct Way {
    name: &'static str,
    /// Its number for `-t`.
    number: u8,
    /// What it is called in what it prints.
    method: &'static str,
    /// plumb's stores beside it.
    stores: &'static str,
    goal: Goal,
    difference: &'static str,
}

const WAYS: [Way; 3] = [
    Way {
        name: "memcpy",
        number: 0,
        method: "MEMCPY",
        stores: "nontemporal",
        goal: Goal::AtLeast,
        difference: "mbw copies with the C library's memcpy, which for arrays of this size chooses \
                     between stores that bypass the caches, regular stores and `rep movsb` by its \
                     own thresholds; plumb's stores bypass the caches. mbw's copied bytes count \
                     twice here, as STREAM counts them",
    },
    Way {
        name: "loop",
        number: 1,
        method: "DUMB",
        stores: "regular",
        goal: Goal::AtLeast,
        difference: "mbw copies with a compiled loop (8 bytes at a time if the compiler did not \
                     use vectors); plumb uses the fastest vector loads and stores. mbw's copied \
                     bytes count twice here, as STREAM counts them",
    },
    Way {
        name: "memcpy-regular",
        number: 0,
        method: "MEMCPY",
        stores: "regular",
        goal: Goal::Explained,
        difference: "mbw copies with the C library's memcpy, which may bypass the caches for \
                     arrays of this size, while plumb's regular stores read each line before they \
                     write it",
    },
];

/// Ways of a standard comparison, the first so many.
const USUAL: usize = 2;

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let most = match conditions.preset {
        Preset::Rehearsal => 1,
        Preset::Quick => 1,
        Preset::Standard => USUAL,
        Preset::Thorough => WAYS.len(),
    };
    WAYS.iter().take(most).map(|way| pairing(conditions, way)).collect()
}

fn pairing(conditions: &Conditions, way: &Way) -> Pairing {
    let cpus = &conditions.cpus[..1];
    let mut moves = Moves {
        ops: &["copy"],
        stores: way.stores,
        level: "DRAM",
        cpus,
        limit: conditions.rehearsed(4 * MIB, 256 * MIB),
    };
    // Its two arrays have whole MiB each; plumb's have as much.
    let (mib, skip) = match moves.footprint(conditions) {
        Ok(bytes) => (((bytes + GRAIN) / 2 / MIB).max(1), None),
        Err(skip) => (1, Some(skip)),
    };
    moves.limit = 2 * mib * MIB;
    let too_large = moves.limit > conditions.memory_bytes;
    let skip = skip.or_else(|| {
        too_large.then(|| Skip::because("too little memory").needs("more free memory"))
    });
    let copies = (conditions.seconds / COPY_S * 128.0 / mib as f64).clamp(3.0, 1000.0) as u64;
    let row = moves.row("copy", way.method, Statistic::MeanOfRounds, way.goal, way.difference);
    let [copies, number, mib] = [copies.to_string(), format!("-t{}", way.number), mib.to_string()];
    let theirs = conditions.theirs("mbw", &["-q", "-n", &copies, &number, &mib]);
    let theirs = Theirs { environment: vec![huge_pages()], ..theirs };
    Pairing::new(way.name, moves.ours(conditions), theirs, [row]).unless(skip)
}

/// The rate of its averages' line in B/s, bytes read and written together.
fn parse(said: &Output, method: &str) -> Result<f64, String> {
    let mut lines = said.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines
        .find(|words| words.starts_with(&["AVG", "Method:", method]))
        .ok_or_else(|| format!("no line of averages of {method}"))?;
    let rate = match line.iter().position(|word| *word == "Copy:") {
        Some(at) if line.get(at + 2) == Some(&"MiB/s") => line[at + 1].parse().ok(),
        _ => None,
    };
    rate.map(|mib: f64| 2.0 * mib * MIB as f64)
        .ok_or_else(|| "its line of averages has no `Copy: … MiB/s`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{MIB, RIVAL, parse};
    use crate::bandwidth::tests::{check, conditions, everywhere};
    use crate::tests::{reads, refuses, said, text, versions};
    use bench::experiment::Preset;

    #[test]
    fn averages_are_read_and_count_both_arrays() {
        let both = |mib: f64| 2.0 * mib * MIB as f64;
        let told = [
            ("1.2.2-all.txt", "MEMCPY", both(961.307)),
            ("1.2.2-all.txt", "DUMB", both(1017.725)),
            ("1.2.2-all.txt", "MCBLOCK", both(703.152)),
            ("1.5-all.txt", "MEMCPY", both(879.572)),
            ("1.5-all.txt", "MCBLOCK", both(1629.549)),
        ];
        reads(&RIVAL, &told);
        // Control characters become spaces before a parser has them.
        let spaced = text(&RIVAL, "1.2.2-all.txt").replace('\t', " ");
        assert_eq!(parse(&said(&spaced), "DUMB"), Ok(both(1017.725)));
    }

    #[test]
    fn what_is_broken_is_an_error() {
        refuses(&RIVAL, "DUMB", &[&text(&RIVAL, "1.5-all.txt")]);
        let old = text(&RIVAL, "1.2.2-all.txt");
        let broken = [
            "",
            "AVG\tMethod: MEMCPY",
            &old.replace("Copy:", "Kopie:"),
            &old.replace("MiB/s", "GiB/s"),
            // Single copies are not the average.
            old.split_once("AVG").expect("averages").0,
        ];
        refuses(&RIVAL, "MEMCPY", &broken);
    }

    #[test]
    fn versions_are_told_since_1_5() {
        let old = text(&RIVAL, "1.2.2-help.txt");
        versions(&RIVAL, &[("1.5-help.txt", "1.5")], &[(&old, None)]);
    }

    #[test]
    fn both_sides_have_the_same_bytes_everywhere() {
        for conditions in everywhere() {
            let pairings = (RIVAL.pairings)(&conditions);
            let of = check(&conditions, &pairings);
            for (pairing, footprint) in pairings.iter().zip(of) {
                let mib: u64 =
                    pairing.theirs.args.last().expect("a size").parse().expect("a number");
                let theirs = 2 * mib * MIB;
                let ours = footprint.expect("main memory is everywhere");
                assert!(theirs >= ours && theirs - ours < MIB, "{theirs} beside {ours}");
            }
        }
        let small = crate::Conditions {
            memory_bytes: MIB,
            ..conditions("vm-granite-rapids", 1, Preset::Standard)
        };
        let pairings = (RIVAL.pairings)(&small);
        assert!(pairings.iter().all(|pairing| pairing.skip.is_some()));
    }
}
