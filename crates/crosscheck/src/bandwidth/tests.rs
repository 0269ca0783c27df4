use super::{Moves, cases, team};
use crate::{Conditions, Pairing};
use bench::experiment::Preset;
use bench::experiment::fixtures::recorded;
use std::collections::BTreeSet;

/// What both sides would have on a recorded machine.
pub(crate) fn conditions(host: &str, cpus: usize, preset: Preset) -> Conditions {
    Conditions {
        memory_bytes: 16 << 30,
        version: String::new(),
        ..crate::tests::conditions(&recorded(host), preset, cpus)
    }
}

/// The recorded machines with all presets, on one CPU, on two and on all.
pub(crate) fn everywhere() -> Vec<Conditions> {
    let hosts = ["vm-granite-rapids", "epyc-7763-2s", "alder-lake-hybrid", "graviton3"];
    let presets = [Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough];
    let mut all = Vec::new();
    for host in hosts {
        let whole = conditions(host, usize::MAX, Preset::Standard);
        for cpus in [1, 2, whole.cpus.len()] {
            all.extend(presets.map(|preset| Conditions {
                cpus: whole.cpus.iter().copied().take(cpus).collect(),
                preset,
                ..whole.clone()
            }));
        }
    }
    all
}

/// Asserts what holds for all pairings of a rival of this room; the bytes of plumb's arrays of
/// each, where it has such and can be run.
pub(crate) fn check(conditions: &Conditions, pairings: &[Pairing]) -> Vec<Option<u64>> {
    let mut names = BTreeSet::new();
    let mut footprints = Vec::new();
    for pairing in pairings {
        let name = &pairing.name;
        assert!(names.insert(name.clone()), "{name} twice");
        assert!(!pairing.ours.cpus.is_empty() && !pairing.theirs.cpus.is_empty(), "{name}");
        assert_eq!(pairing.ours.cpus, pairing.theirs.cpus, "{name}");
        assert!(pairing.ours.cpus.iter().all(|cpu| conditions.cpus.contains(cpu)), "{name}");
        if let Some(skip) = &pairing.skip {
            assert!(!skip.reason.is_empty(), "{name}");
            footprints.push(None);
            continue;
        }
        let cases = cases(conditions, &pairing.ours)
            .unwrap_or_else(|skip| panic!("{name}: {}", skip.reason));
        assert_eq!(cases.len(), pairing.rows.len(), "{name}: a row for each case");
        for row in &pairing.rows {
            assert!(!row.difference.is_empty() && !row.what.is_empty(), "{name}");
            let of_row = |case: &&record::case::Case| {
                row.case.0.iter().all(|(param, value)| case.id.get(param) == Some(value))
            };
            assert_eq!(cases.iter().filter(of_row).count(), 1, "{name}: {}", row.case);
        }
        footprints.push(cases[0].int("footprint_total"));
    }
    footprints
}

#[test]
fn footprints_are_those_that_the_experiment_resolves() {
    let conditions = conditions("epyc-7763-2s", usize::MAX, Preset::Standard);
    let moves = Moves {
        ops: &["copy", "triad"],
        stores: "regular",
        level: "L1",
        cpus: &conditions.cpus[..1],
        limit: 1 << 20,
    };
    // Three eighths of the 0.95 of 32 KiB that a ladder is expected to find, cut to whole lines of
    // three arrays in strides of eight.
    assert_eq!(moves.footprint(&conditions).ok(), Some(7 * 1536));
    let in_memory = Moves { level: "DRAM", cpus: &conditions.cpus[..4], limit: 8 << 20, ..moves };
    // Cut to the limit, for each of four threads.
    assert_eq!(in_memory.footprint(&conditions).ok(), Some((8 << 20) / 1536 * 1536 * 4));
    let none = Moves { level: "L4", ..moves };
    let skip = none.footprint(&conditions).expect_err("it has no fourth level");
    assert!(skip.reason.contains("L4"), "{}", skip.reason);
}

#[test]
fn what_the_experiment_leaves_out_is_the_reason() {
    let conditions = conditions("epyc-7763-2s", 1, Preset::Standard);
    let moves = Moves {
        ops: &["write"],
        stores: "nontemporal",
        level: "L1",
        cpus: &conditions.cpus,
        limit: 1 << 20,
    };
    moves.footprint(&conditions).expect_err("stores past a cache do not stay in it");
    let mut ours = moves.ours(&conditions);
    ours.experiment = "memory.unheard";
    let skip = cases(&conditions, &ours).expect_err("no such experiment");
    assert!(skip.reason.contains("memory.unheard"));
    ours.experiment = "cpu.linpack";
    cases(&conditions, &ours).expect_err("it has no such parameters");
}

#[test]
fn a_team_has_one_cpu_of_each_core_in_the_order_given() {
    let mut conditions = conditions("epyc-7763-2s", usize::MAX, Preset::Standard);
    assert!(conditions.cpus.len() > 128);
    let cores: Vec<usize> = team(&conditions);
    assert_eq!(cores.len(), 16);
    let siblings = conditions.host.cpu.cpu(3).expect("there").smt_siblings.clone();
    assert_eq!(siblings.len(), 2);
    conditions.cpus = vec![siblings[1], siblings[0], 5];
    assert_eq!(team(&conditions), [siblings[1], 5]);
}
