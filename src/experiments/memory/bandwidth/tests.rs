use super::cases::{Point, contradiction};
use super::{EXPERIMENT, ID, sizes};
use crate::experiment::{Experiment, Known, Preset, Site};
use crate::experiments::tests::{check, params, recorded, sites, smoke};
use crate::predict::memory::bandwidth::Transfer;
use record::case::Case;
use record::key::{CaseId, Key, Value};
use std::collections::BTreeSet;
use std::time::Duration;

fn cases(site: &Site, preset: Preset) -> Vec<Case> {
    let offer = check(&EXPERIMENT, site, preset);
    let series = offer.series.into_iter();
    series.flat_map(|series| series.cases).collect()
}

/// The largest virtual machine's site, with memory as it has.
fn guest() -> Site {
    Site {
        memory_bytes: 8 << 30,
        ..recorded("vm-granite-rapids")
    }
}

fn epyc() -> Site {
    Site {
        memory_bytes: 400 << 30,
        ..recorded("epyc-7763-2s")
    }
}

#[test]
fn it_keeps_the_laws_of_the_catalogue_and_its_allotment() {
    for site in sites().into_iter().chain([guest(), epyc()]) {
        for (preset, most, seconds) in [
            (Preset::Rehearsal, 10, 0.5),
            (Preset::Quick, 8, 0.2),
            (Preset::Standard, 45, 2.5),
            (Preset::Thorough, 1500, 60.0),
        ] {
            let site = Site {
                case_ns: crate::session::plan::case_ns(preset),
                cpus: site.cpus.clone(),
                host: site.host.clone(),
                memory_bytes: site.memory_bytes,
                peer: None,
                dir: None,
            };
            let offer = check(&EXPERIMENT, &site, preset);
            let count: usize = offer.series.iter().map(|series| series.cases.len()).sum();
            let large = site.cpus.len() > 2;
            let cost = offer.series.iter();
            let cost: Duration = cost.map(|series| EXPERIMENT.round_cost(&site, series)).sum();
            println!(
                "{:9} {:3} CPUs: {count} cases, {cost:?}, {} skipped",
                preset.name(),
                site.cpus.len(),
                offer.skipped.len()
            );
            assert!(count <= most + 5 * usize::from(large), "{count} cases");
            let seconds = seconds * if large { 2.0 } else { 1.0 };
            assert!(cost.as_secs_f64() <= seconds, "{cost:?}");
        }
    }
}

#[test]
fn it_measures() {
    let begin = std::time::Instant::now();
    let samples = smoke(&EXPERIMENT);
    println!("{:?}", begin.elapsed());
    for one in samples {
        println!("{} {} {:?}", one.case, one.metric, one.raw.samples());
    }
}
