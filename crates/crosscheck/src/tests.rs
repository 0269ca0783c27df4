//! What every rival keeps: what it stands beside exists, and what it cannot read it refuses.

use super::read::ZERO;
use super::{Conditions, Output, Pairing, RIVALS, Rival, Statistic};
use bench::experiment::fixtures::{recorded, sites};
use bench::experiment::{DirFacts, Preset, Site};
use catalogue::FAMILIES;
use record::case::Case;
use session::params::Settings;
use session::plan::plan;
use session::select::Selection;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) fn said(stdout: &str) -> Output {
    Output { stdout: stdout.to_owned(), ..Output::default() }
}

/// A recorded output of a rival: the text of a file below `testdata`.
pub(super) fn text(rival: &Rival, file: &str) -> String {
    let of_rival = testdata(rival).into_iter().find(|(name, _)| name == file);
    of_rival.unwrap_or_else(|| panic!("no {file} of {}", rival.name)).1
}

/// A text on every stream, and as the answer.
pub(super) fn everywhere(text: &str) -> Output {
    let text = || text.to_owned();
    Output { stdout: text(), stderr: text(), answer: text() }
}

/// Demands what is read of recorded outputs: file, row, value.
#[track_caller]
pub(super) fn reads(rival: &Rival, told: &[(&str, &str, f64)]) {
    for (file, what, value) in told {
        let found = (rival.parse)(&everywhere(&text(rival, file)), what);
        let found = found.unwrap_or_else(|why| panic!("{file}: {what}: {why}"));
        assert!((found / value - 1.0).abs() < 1e-9, "{file}: {what}: {found} {value}");
    }
}

/// Demands that a row is in none of these texts, each for a reason of one line.
#[track_caller]
pub(super) fn refuses(rival: &Rival, what: &str, texts: &[&str]) {
    for text in texts {
        let why = (rival.parse)(&everywhere(text), what).expect_err(text);
        assert!(!why.is_empty() && !why.contains('\n'), "{what}: {why}");
    }
}

/// Demands the versions that recorded outputs and other texts tell.
#[track_caller]
pub(super) fn versions(rival: &Rival, files: &[(&str, &str)], others: &[(&str, Option<&str>)]) {
    let files = files.iter().map(|(file, version)| (text(rival, file), Some(*version)));
    let others = others.iter().map(|(text, version)| ((*text).to_owned(), *version));
    for (text, version) in files.chain(others) {
        assert_eq!((rival.version)(&said(&text)).as_deref(), version, "{text}");
    }
}

/// Conditions on a machine; as little as it allows with its first CPU alone.
pub(super) fn conditions(site: &Site, preset: Preset, cpus: usize) -> Conditions {
    Conditions {
        host: site.host.clone(),
        cpus: site.cpus.iter().copied().take(cpus).collect(),
        memory_bytes: 8 << 30,
        scratch: PathBuf::from("/tmp/scratch"),
        files: Some(PathBuf::from("/tmp/files")),
        in_memory: Some(PathBuf::from("/dev/shm/memory")),
        version: "99.99".to_owned(),
        preset,
        seconds: 1.0,
        ports: [5301, 5302, 5303, 5304],
        is_root: true,
    }
}

/// All pairings of all rivals on the recorded machines, by all presets, with one CPU and with all.
fn all(mut each: impl FnMut(&'static Rival, &Site, &Conditions, &[Pairing])) {
    for site in sites() {
        for preset in [Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough] {
            for cpus in [1, 2, usize::MAX] {
                let conditions = conditions(&site, preset, cpus);
                for rival in RIVALS {
                    let pairings = (rival.pairings)(&conditions);
                    each(rival, &site, &conditions, &pairings);
                }
            }
        }
    }
}

#[test]
fn names_are_unique_and_can_be_typed() {
    let is_plain = |name: &str| {
        let plain = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter)
        };
        !name.is_empty() && name.chars().all(plain)
    };
    let mut rivals = BTreeSet::new();
    for rival in RIVALS {
        assert!(is_plain(rival.name) && rivals.insert(rival.name), "{}", rival.name);
        let says_its_name = rival.about.to_lowercase().starts_with(&format!("{}:", rival.name));
        assert!(
            !rival.about.is_empty() && !says_its_name && !rival.programs.is_empty(),
            "{}",
            rival.name
        );
    }
    all(|rival, _, _, pairings| {
        let mut names = BTreeSet::new();
        for pairing in pairings {
            let label = format!("{}: {}", rival.name, pairing.name);
            assert!(is_plain(&pairing.name) && names.insert(&pairing.name), "{label}");
            assert!(pairing.skip.is_some() || !pairing.rows.is_empty(), "{label}");
            let rows: BTreeSet<&str> = pairing.rows.iter().map(|row| row.name.as_str()).collect();
            assert_eq!(rows.len(), pairing.rows.len(), "{label}: names of rows");
            assert!(pairing.rows.len() == 1 || !rows.contains(""), "{label}: nameless rows");
            for row in &pairing.rows {
                assert!(row.difference.len() > 20, "{label}: {}: what differs?", row.name);
                assert!(row.times.is_finite() && row.times > 0.0, "{label}");
            }
            if let Some(skip) = &pairing.skip {
                assert!(!skip.reason.is_empty() && !skip.reason.contains('\n'), "{label}");
            }
        }
    });
}

#[test]
fn every_rival_offers_something_and_the_whole_has_all_of_less() {
    let site = recorded("vm-granite-rapids");
    for rival in RIVALS {
        let names = |preset| -> BTreeSet<String> {
            let pairings = (rival.pairings)(&conditions(&site, preset, usize::MAX));
            pairings.into_iter().map(|pairing| pairing.name).collect()
        };
        let [rehearsal, quick, standard] =
            [Preset::Rehearsal, Preset::Quick, Preset::Standard].map(names);
        assert!(!rehearsal.is_empty(), "{}", rival.name);
        assert!(quick.is_subset(&standard), "{}", rival.name);
    }
}

/// Each row finds exactly one of the cases that plumb's side would plan.
#[test]
fn what_stands_beside_a_rival_is_planned() {
    let site = recorded("vm-granite-rapids");
    let site = Site {
        cpus: vec![0, 1],
        dir: Some(DirFacts {
            path: PathBuf::from("/tmp/files"),
            file_system: "ext4".to_owned(),
            allowance_bytes: 8 << 30,
            portions: Vec::new(),
        }),
        ..site
    };
    for preset in [Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough] {
        for rival in RIVALS {
            for pairing in (rival.pairings)(&conditions(&site, preset, 2)) {
                if pairing.skip.is_none() {
                    planned(rival, &pairing, &site);
                }
            }
        }
    }
}

fn planned(rival: &Rival, pairing: &Pairing, site: &Site) {
    let label = format!("{}: {}", rival.name, pairing.name);
    let ours = &pairing.ours;
    let selection = Selection::parse(&[ours.experiment.to_owned()], FAMILIES).unwrap();
    let settings = Settings::parse(&ours.settings(), FAMILIES)
        .unwrap_or_else(|error| panic!("{label}: {error}"));
    let site = Site { cpus: ours.cpus.clone(), ..site.clone() };
    let planned = plan(FAMILIES, &selection, &settings, ours.preset, ours.budget, &site)
        .unwrap_or_else(|error| panic!("{label}: {error}"));
    let [work, ..] = planned.work.as_slice() else {
        panic!("{label}: nothing is planned, {:?}", planned.plan.experiments[0].skipped);
    };
    let card = work.experiment.card();
    let measured = planned.work.iter().flat_map(|work| work.series.cases.iter().cloned());
    let derived = planned.plan.experiments.iter().flat_map(|planned| planned.derived.iter());
    let derived: Vec<Case> = derived.map(|id| Case::new(id.clone())).collect();
    let measured: Vec<Case> = measured.collect();
    for row in &pairing.rows {
        let metric = card.metrics.iter().find(|metric| metric.name == row.metric);
        let metric = metric.unwrap_or_else(|| panic!("{label}: no metric {}", row.metric));
        let cases = if metric.derived { &derived } else { &measured };
        let fits =
            |case: &&Case| row.case.0.iter().all(|(name, value)| case.id.get(name) == Some(value));
        let found: Vec<String> =
            cases.iter().filter(fits).map(|case| case.id.to_string()).collect();
        // A statistic of its own may read something else of the run, in another unit.
        let is_own = matches!(row.statistic, Statistic::Own(..));
        assert!(
            found.len() == 1 || (is_own && found.is_empty()),
            "{label}: {} is {found:?} of {}",
            row.case,
            ours.experiment
        );
        assert!(
            is_own || metric.unit == row.unit,
            "{label}: {:?} beside {:?}",
            metric.unit,
            row.unit
        );
    }
}

#[test]
fn limits_and_budgets_are_there() {
    all(|rival, _, _, pairings| {
        for pairing in pairings.iter().filter(|pairing| pairing.skip.is_none()) {
            let label = format!("{}: {}", rival.name, pairing.name);
            assert!(pairing.theirs.limit >= Duration::from_secs(5), "{label}");
            assert!(pairing.theirs.limit <= Duration::from_secs(3600), "{label}");
            assert!(
                !pairing.ours.budget.is_zero() && pairing.ours.budget <= Duration::from_secs(300),
                "{label}"
            );
            assert!(!pairing.ours.cpus.is_empty(), "{label}");
            assert!(!pairing.theirs.program.is_empty(), "{label}");
        }
    });
}

/// Else one that lacks would be found by the tool's own words, after plumb's side has run.
#[test]
fn programs_behind_a_shell_are_named() {
    all(|rival, _, _, pairings| {
        for pairing in pairings.iter().filter(|pairing| pairing.skip.is_none()) {
            let theirs = &pairing.theirs;
            let label = format!("{}: {}", rival.name, pairing.name);
            let mut programs = theirs.programs();
            let starts_others = programs.any(|name| ["sh", "env", "mpirun"].contains(&name));
            assert!(!starts_others || !theirs.behind.is_empty(), "{label}");
        }
    });
}

/// What a rival is asked for is in none of these, whatever the row.
#[test]
fn what_is_no_answer_is_refused() {
    let site = recorded("vm-granite-rapids");
    let strange = [
        "",
        "\n",
        "0",
        "nan",
        "{}",
        "[]",
        "{\"jobs\": []}",
        "no such file",
        "1 2 3\n4 5 6\n",
        "\u{fffd}\u{0}",
    ];
    for rival in RIVALS {
        for pairing in (rival.pairings)(&conditions(&site, Preset::Thorough, usize::MAX)) {
            for row in &pairing.rows {
                for said in strange {
                    let value = (rival.parse)(&everywhere(said), &row.what);
                    let label =
                        format!("{}: {}: {} of {said:?}", rival.name, pairing.name, row.what);
                    let why = value.expect_err(&label);
                    assert!(!why.is_empty() && !why.contains('\n'), "{label}: {why:?}");
                }
                let unknown = (rival.parse)(&everywhere("12.5 ns"), "no such thing");
                assert!(unknown.is_err(), "{}", rival.name);
            }
        }
    }
}

/// Recorded outputs, cut and with letters changed: read or refused, but read to its end.
#[test]
fn damaged_answers_do_no_harm() {
    let mut random = fastrand::Rng::with_seed(9);
    let site = recorded("vm-granite-rapids");
    for rival in RIVALS {
        let whats: BTreeSet<String> =
            (rival.pairings)(&conditions(&site, Preset::Thorough, usize::MAX))
                .into_iter()
                .flat_map(|pairing| pairing.rows.into_iter().map(|row| row.what))
                .collect();
        let recorded = testdata(rival);
        assert!(!recorded.is_empty(), "{} has no recorded output", rival.name);
        for (_, text) in recorded {
            for _ in 0..40 {
                let mut letters: Vec<char> = text.chars().collect();
                if letters.is_empty() {
                    continue;
                }
                letters.truncate(random.usize(1..=letters.len()));
                for _ in 0..random.usize(0..4) {
                    let at = random.usize(0..letters.len());
                    letters[at] =
                        *random.choice(&['9', '-', '.', ' ', '\n', 'e', '{', '"']).unwrap();
                }
                let said = everywhere(&letters.into_iter().collect::<String>());
                let _ = (rival.version)(&said);
                for what in &whats {
                    let _ = (rival.parse)(&said, what);
                }
            }
        }
    }
}

/// Recorded outputs whose words that begin with a number begin with 0: no rival's row has a value
/// above zero then, and a refusal has its reason.
#[test]
fn a_rival_that_reports_zeros_has_no_value() {
    let site = recorded("vm-granite-rapids");
    let is_end = |letter: char| " \n\t(:=\"".contains(letter);
    let zeroed = |part: &str| match part.starts_with(|letter: char| letter.is_ascii_digit()) {
        true => part.replace(|letter: char| letter.is_ascii_digit(), "0"),
        false => part.to_owned(),
    };
    for rival in RIVALS {
        let pairings = (rival.pairings)(&conditions(&site, Preset::Thorough, usize::MAX));
        let rows = pairings.into_iter().flat_map(|one| one.rows).map(|row| row.what);
        let rows: BTreeSet<String> = rows.collect();
        for (name, text) in testdata(rival) {
            let said = everywhere(&text.split_inclusive(is_end).map(zeroed).collect::<String>());
            for what in &rows {
                match rival.read(&said, what) {
                    Ok(value) => assert_eq!(value, 0.0, "{} {name}: {what}", rival.name),
                    Err(why) => assert!(!why.is_empty() && why != ZERO, "{why}"),
                }
            }
        }
    }
}

/// The recorded outputs of a rival: names and texts.
pub(super) fn testdata(rival: &Rival) -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/testdata").join(rival.name);
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let of = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        (entry.file_name().into_string().unwrap(), text)
    };
    entries.map(|entry| of(entry.unwrap())).collect()
}
