//! Which printed figures a case of ours stands beside: the same measurement, or the nearest.

use super::score::site;
use super::table::{Report, Row, Table};
use super::{REPORTS, SETTINGS, case_of, key_of, nearest_of, selectors};
use bench::experiment::{DirFacts, Preset, Site};
use catalogue::{FAMILIES, find};
use host::block::Mount;
use record::key::{CaseId, Key};
use session::fixtures::recorded_sites;
use session::params::Settings;
use session::plan::plan;
use session::select::Selection;
use std::collections::BTreeSet;
use std::time::Duration;

const PRESETS: [Preset; 3] = [Preset::Quick, Preset::Standard, Preset::Thorough];

/// Those of the preset `reports`, with a directory on a server that a user names.
fn settings() -> Settings {
    let texts = SETTINGS.into_iter().chain(["fs.remote.path=/mnt/share"]).map(str::to_owned);
    Settings::parse(&texts.collect::<Vec<String>>(), FAMILIES).expect("are settings")
}

/// Where that directory lies.
fn share() -> Mount {
    Mount {
        source: "server:/export".to_owned(),
        target: "/mnt/share".to_owned(),
        fs: "nfs4".to_owned(),
        options: "rw".to_owned(),
        number: "0:99".to_owned(),
        below: Default::default(),
    }
}

/// Every key that some preset offers on one of the reports' machines, without placements.
fn offered() -> BTreeSet<String> {
    let settings = settings();
    let mut keys = BTreeSet::new();
    let several_cpus = recorded_sites(Preset::Thorough).into_iter().map(|(_, site)| site);
    for mut near in REPORTS.iter().map(site).chain(several_cpus) {
        near.host.block.mounts.push(share());
        for far in ["loopback", "peer"] {
            let site = near.toward(far);
            for preset in PRESETS {
                keys.extend(keys_of(&site, &settings, preset));
            }
        }
    }
    keys
}

fn keys_of(site: &Site, settings: &Settings, preset: Preset) -> Vec<String> {
    let experiments = FAMILIES.iter().flat_map(|family| family.experiments);
    let mut keys = Vec::new();
    for experiment in experiments {
        let card = experiment.card();
        let Ok(offer) = experiment.series(site, &settings.params(card, preset)) else { continue };
        let derived = experiment.derivable(site, &offer.series);
        let measured = offer.series.into_iter().flat_map(|series| series.cases);
        let skipped = offer.skipped.into_iter().map(|(case, _)| case);
        let cases: Vec<CaseId> =
            measured.map(|case| case.id).chain(derived).chain(skipped).collect();
        for case in cases {
            let metrics = card.metrics.iter();
            keys.extend(metrics.map(|metric| key(card.id, &case, &metric.name)));
        }
    }
    keys
}

fn key(experiment: &str, case: &CaseId, metric: &str) -> String {
    Key::new(experiment, case, metric).to_string()
}

pub(super) fn rows() -> impl Iterator<Item = (&'static Report, &'static Table, &'static Row)> {
    REPORTS.iter().flat_map(|report| {
        let tables = report.tables.iter();
        tables.flat_map(move |table| table.rows.iter().map(move |row| (report, table, row)))
    })
}

/// Every nearest key is a case that some preset offers, of the figure's unit, and every other
/// figure's own key is one.
#[test]
fn every_figure_stands_beside_a_case_that_some_preset_offers() {
    let offered = offered();
    for (report, table, row) in rows() {
        let about = format!("{} {} {}", report.name, table.source, row.at);
        let key = match nearest_of(table, row) {
            Some((near, nearest)) => {
                let card = find(&near.experiment).expect("in the catalogue").card();
                let mut metrics = card.metrics.iter();
                let metric = metrics.find(|metric| metric.name == near.metric);
                assert_eq!(metric.map(|metric| metric.unit), Some(table.printed.unit()), "{near}");
                assert!(!nearest.differs.is_empty(), "{about}");
                near.to_string()
            }
            None => {
                assert!(row.reading.is_empty(), "{about}: {} has no nearest case", row.reading);
                key(&table.experiment, &case_of(table, row), &table.metric)
            }
        };
        assert!(offered.contains(&key), "{about}: no preset offers {key}");
    }
}

/// Figures of the reports that a run of the preset `reports` has beside it at least, on a machine
/// of one memory node with a far end and a share.
const BESIDE_MIN: usize = 400;
const ROOM_BYTES: u64 = 1 << 42;

#[test]
fn the_preset_of_the_reports_offers_their_cases() {
    let selection = Selection::parse(&selectors(), FAMILIES).expect("selectors of the catalogue");
    let peers = site(&REPORTS[0]).peers;
    for (name, machine) in recorded_sites(Preset::Thorough) {
        let mut site = Site { peers: peers.clone(), ..machine };
        site.host.block.mounts.push(share());
        // As with --dir on a disk with room for files of the memory's size.
        site.dir = site.dir.map(|dir| DirFacts { allowance_bytes: ROOM_BYTES, ..dir });
        let (preset, budget) = (Preset::Thorough, Duration::from_secs(1800));
        let planned = plan(FAMILIES, &selection, &settings(), preset, budget, &site);
        let planned = planned.expect("something is left").plan;
        let mut offered = BTreeSet::new();
        for experiment in &planned.experiments {
            let measured = experiment.series.iter().flat_map(|series| &series.cases);
            let cases = measured.chain(&experiment.derived);
            offered.extend(cases.flat_map(|case| {
                let metrics = experiment.metrics.iter();
                metrics.map(|metric| key(&experiment.id, case, &metric.name))
            }));
        }
        let has = |(_, table, row): &(&Report, &'static Table, &'static Row)| {
            let own = key_of(table, row);
            offered.contains(&key(&own.experiment, &own.case, &own.metric))
        };
        let beside = rows().filter(has).count();
        assert!(beside >= BESIDE_MIN, "{name}: {beside}");
        assert!(planned.eta_s <= 1900.0, "{name}: {} s", planned.eta_s);
    }
}
