//! Which printed figures a case of ours stands beside: the same measurement, or the nearest.

use super::score::site;
use super::table::{Report, Row, Table};
use super::{REPORTS, case_of, nearest_of};
use bench::experiment::{Preset, Site};
use catalogue::{FAMILIES, find};
use host::block::Mount;
use record::key::{CaseId, Key};
use session::fixtures::recorded_sites;
use session::params::Settings;
use std::collections::BTreeSet;

const PRESETS: [Preset; 3] = [Preset::Quick, Preset::Standard, Preset::Thorough];

/// Every key that some preset offers on one of the reports' machines, without placements.
fn offered() -> BTreeSet<String> {
    // A directory that a user names, and where it lies.
    let remote = find("fs.remote").expect("in the catalogue").card();
    let settings = Settings::default().with(remote, "path", "/mnt/share").expect("is a path");
    let share = Mount {
        source: "server:/export".to_owned(),
        target: "/mnt/share".to_owned(),
        fs: "nfs4".to_owned(),
        options: "rw".to_owned(),
        number: "0:99".to_owned(),
    };
    let mut keys = BTreeSet::new();
    let several_cpus = recorded_sites(Preset::Thorough).into_iter().map(|(_, site)| site);
    for mut near in REPORTS.iter().map(site).chain(several_cpus) {
        near.host.block.mounts.push(share.clone());
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
    Key::new(experiment, &case.unplaced(), metric).to_string()
}

fn rows() -> impl Iterator<Item = (&'static Report, &'static Table, &'static Row)> {
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
