//! A longer preset misses nothing that a shorter one has.

use super::frozen::{figures, with_peer};
use super::planned;
use bench::experiment::{DirFacts, Preset, Site};
use record::key::CaseId;
use session::fixtures::recorded_sites;
use std::collections::BTreeSet;

/// What a run may write in a default directory, and in one with room.
const ALLOWANCES: [u64; 2] = [2 << 30, 70 << 30];

/// The cases that are measured or derived in a preset.
fn cases(site: &Site, preset: Preset) -> BTreeSet<(&'static str, CaseId)> {
    let figures = figures(&planned(site, preset));
    figures.into_iter().map(|(experiment, case, _)| (experiment.card().id, case.id)).collect()
}

#[test]
fn thorough_has_every_case_of_standard() {
    let sites = recorded_sites(Preset::Standard).into_iter().zip(recorded_sites(Preset::Thorough));
    let mut missing = Vec::new();
    for ((host, standard), (_, thorough)) in sites {
        for allowance_bytes in ALLOWANCES {
            let with_room = |site: &Site| {
                let dir = site.dir.clone().map(|dir| DirFacts { allowance_bytes, ..dir });
                with_peer(Site { dir, ..site.clone() })
            };
            let longer = cases(&with_room(&thorough), Preset::Thorough);
            let shorter = cases(&with_room(&standard), Preset::Standard);
            let lacks = shorter.difference(&longer);
            missing.extend(
                lacks.map(|(id, case)| {
                    format!("{host}, {} MiB: {id} {case}", allowance_bytes >> 20)
                }),
            );
        }
    }
    assert!(missing.is_empty(), "{} cases:\n{}", missing.len(), missing.join("\n"));
}
