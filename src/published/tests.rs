use super::{Cases, PREFIX, SHEETS, find as found, named, names, plots, preset, run, selectors_of};
use crate::sheet::{Datum, Sheet};
use analysis::figures;
use analysis::findings::findings;
use bench::experiment::fixtures::bare_site;
use bench::experiment::{DirFacts, Peer, Preset, Site};
use catalogue::{FAMILIES, find};
use host::block::Mount;
use host::net::Route;
use host::{Core, Host};
use laws::{cpu, memory};
use record::case::Case;
use record::event::Ending;
use record::key::{CaseId, Key};
use session::fixtures::recorded_sites;
use session::params::Settings;
use session::plan::{Planned, plan};
use session::select::Selection;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// The machine at the far end of `far=peer`, if it has a description, and its interface if the
/// report states it; every far end is reached by the measured machine's own route.
const PEERS: &[(&str, &str, Option<&str>)] = &[
    // Its twin.
    ("r0-i7-3770k", "r0-i7-3770k", Some("eth0")),
    // A notebook with the same processor as R2's; its interface is not stated.
    ("r1-i5-2557m", "r2-i5-5257u", None),
    // A server with two Xeon E5-2640 v3, without a description.
    ("r2-i5-5257u", "", None),
];

/// The interface that leads to the far end, and whether through a gateway: a description has no
/// routes.
const ROUTES: &[(&str, &str, bool)] = &[
    ("r0-i7-3770k", "eth0", false),
    ("r1-i5-2557m", "eth0", false),
    ("r2-i5-5257u", "wlan0", true),
];

/// The description of a machine. The laws' coefficients were fitted without the modules of memory
/// that a report states.
fn host(name: &str) -> Host {
    let mut host = match SHEETS.get(name) {
        Some(sheet) => sheet.host.clone(),
        None => Host::read(&host::Root::tree("")),
    };
    host.memory.dimms.clear();
    let routes = ROUTES.iter().filter(|(machine, ..)| *machine == name);
    host.net.routes = routes
        .map(|(_, interface, has_gateway)| Route {
            interface: (*interface).to_owned(),
            network: Ipv4Addr::UNSPECIFIED.into(),
            prefix_bits: 0,
            has_gateway: *has_gateway,
            metric: 0,
        })
        .collect();
    host
}

pub(crate) fn site(name: &str) -> Site {
    let peer = PEERS.iter().find(|(near, ..)| *near == name).map(|(_, far, interface)| Peer {
        name: "peer".to_owned(),
        address: "10.0.0.2".parse().expect("an address"),
        host: host(far),
        cpus: vec![0],
        interface: interface.map(str::to_owned),
    });
    Site {
        host: host(name),
        peers: peer.into_iter().collect(),
        cpus: SHEETS[name].cpus.clone(),
        dir: Some(DirFacts {
            path: "/".into(),
            file_system: String::new(),
            allowance_bytes: 1 << 34,
            portions: Vec::new(),
        }),
        ..bare_site()
    }
}

fn rows() -> impl Iterator<Item = (&'static String, &'static Sheet, &'static Datum)> {
    SHEETS.iter().flat_map(|(name, sheet)| sheet.figures.iter().map(move |one| (name, sheet, one)))
}

#[test]
fn every_machine_is_a_sheet_with_a_report() {
    assert_eq!(SHEETS.len(), 6);
    for (name, sheet) in SHEETS.iter() {
        let report = sheet.report.as_ref().expect("a report");
        assert!(name.starts_with(&report.name.to_lowercase()));
        for figure in &sheet.figures {
            let about = format!("{name} {} {}", figure.table, figure.key());
            let is_stated = |fact: &str| figure.fact(fact).is_some_and(|text| !text.is_empty());
            assert!(!figure.table.is_empty() && is_stated("statistic"), "{about}");
            assert_eq!(figure.case.get("as_reported").is_some(), is_stated("nearest"), "{about}");
            assert_eq!(is_stated("nearest"), is_stated("nearest_differs"), "{about}");
            assert!(figure.value.is_finite() && figure.value > 0.0, "{about}");
        }
    }
}

/// Units as printed, each with the base units in one of it; the reports' cycles are ticks of the
/// counter. Sizes in GB are powers of two, rates powers of ten.
const UNITS: [(&str, f64); 16] = [
    ("ns", 1.0),
    ("µs", 1e3),
    ("ms", 1e6),
    ("ns/byte", 1.0),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("Gbit/s", 1e9 / 8.0),
    ("Mbit/s", 1e6 / 8.0),
    ("kbit/s", 1e3 / 8.0),
    ("bytes", 1.0),
    ("GB", (1u64 << 30) as f64),
    ("Hz", 1.0),
    ("GOPS", 1e9),
    ("GFLOPS", 1e9),
    ("%", 0.01),
    ("", 1.0),
];

/// A hand-over is half of the round trip that R0 prints.
#[test]
fn values_follow_from_what_is_printed() {
    for (name, sheet, figure) in rows() {
        let printed = figure.fact("printed").expect("it is printed");
        let (number, unit) = printed.split_once(' ').unwrap_or((printed, ""));
        let number: f64 = number.parse().expect("a number");
        let ticks_ns = sheet.report.as_ref().map(|report| 1e9 / report.counter_hz);
        let base = match unit {
            "cycles" => number * ticks_ns.expect("tested above"),
            unit => number * UNITS.iter().find(|(of, _)| *of == unit).expect("a unit").1,
        };
        let operations =
            if figure.metric == "handover" && name.starts_with("r0") { 2.0 } else { 1.0 };
        let ratio = figure.value * operations / base;
        assert!((ratio - 1.0).abs() < 1e-12, "{name} {}: {printed} is {base}", figure.key());
    }
}

/// A checksum over all printed numbers, their notes and slips. The texts are no part of the repository:
/// after a change, run `scripts/published REPORTS_DIR`, which asks for every number in them, and
/// only then set these anew.
#[test]
fn printed_numbers_are_those_that_were_looked_for_in_the_texts() {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for (name, _, figure) in rows() {
        if sums.last().is_none_or(|(last, _)| last != name) {
            sums.push((name, FNV_OFFSET));
        }
        let facts = ["printed", "printed_also", "deviation_printed", "estimate_printed", "slip"];
        let facts = facts.map(|fact| figure.fact(fact).unwrap_or_default()).join(" ");
        let range = figure.estimate.as_ref().and_then(|estimate| estimate.range);
        let notes = figure.notes.join(" ");
        let spelled = format!("{} {} {facts} {range:?} {notes}", figure.table, figure.key());
        let (_, sum) = sums.last_mut().expect("it is there");
        *sum = spelled
            .bytes()
            .fold(*sum, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    }
    let expected = [
        ("r0-i7-3770k", 16_702_892_196_437_978_097),
        ("r1-i5-2557m", 5_650_723_569_513_083_205),
        ("r2-i5-5257u", 9_853_394_490_353_404_532),
        ("r3-t2-micro", 5_620_982_513_222_519_107),
        ("r4-e6300", 10_011_320_041_492_229_072),
        ("r4-magny-cours", 10_249_217_836_858_527_139),
    ];
    assert_eq!(sums, expected);
}

/// Of FNV-1a, the same on every machine and by every compiler.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

#[test]
fn every_row_is_a_figure_of_its_run() {
    for (name, sheet) in SHEETS.iter() {
        let run = run(&format!("{PREFIX}{name}")).expect("one machine").expect("its own name");
        assert!(run.header.is_published());
        let figures = figures(&run);
        let measured = figures.iter().filter(|figure| figure.outcome == Ending::Measured);
        let labels: BTreeSet<String> = measured.map(|figure| figure.label()).collect();
        let keys = sheet.figures.iter().map(|figure| figure.key().to_string());
        assert_eq!(labels, keys.collect(), "{name}");
        let slips = findings(&run, &figures);
        assert!(!slips.is_empty() && slips.iter().all(|one| one.cause == "slip"), "{name}");
    }
}

/// A machine by its report, and a table by its name.
#[test]
fn names_are_short_where_they_mean_one_machine() {
    let figures = |name: &str| {
        run(name).map(|found| found.map(|run| (run.header.run.clone(), run.derived.len())))
    };
    let all = SHEETS["r1-i5-2557m"].figures.len();
    assert_eq!(figures("published/r1"), Ok(Some(("published/r1-i5-2557m".to_owned(), all))));
    for (typed, count) in [
        ("published/r1:Table II", 8),
        ("published/r1:II", 8),
        ("published/r2:7.1.3", 24),
        ("published/r0:Memory latency, text", 1),
    ] {
        let found = figures(typed).expect("a table").expect("a machine");
        assert_eq!(found.1, count, "{typed}");
    }
    assert_eq!(figures("r1-i5-2557m"), Ok(None));
    assert_eq!(figures("published/nobody"), Ok(None));
    assert!(figures("published/r4").is_err_and(|why| why.contains("r4-e6300")));
    assert!(figures("published/r1:XXX").is_err_and(|why| why.contains("Table XX;")));
    assert!(named("published/nobody").is_err_and(|why| why.contains(&names()[0])));
    let of_table = named("published/r1:XV").expect("a table").selectors;
    assert!(!of_table.is_empty());
    assert!(of_table.iter().all(|one| one.starts_with("fs.read:")), "{of_table:?}");
}

/// R4 draws thirty periods and two processes' slices from the lengths that its tables list.
#[test]
fn pictures_over_time_are_those_that_the_tables_list() {
    let run = run("published/r4-e6300").expect("one machine").expect("its own name");
    for (id, metrics) in
        [("noise.activity", ["active", "gap"]), ("os.schedule", ["slice", "switch"])]
    {
        let mut traces = run.traces.iter();
        let trace = traces.find(|trace| trace.series == id && trace.kind == "timeline");
        let rows = &trace.expect("a picture").rows;
        let is_listed = |case: &CaseId| case.get("sample").or(case.get("event")).is_some();
        let listed = run.derived.iter().filter(|one| one.experiment == id && is_listed(&one.case));
        let listed = listed.filter(|one| metrics.contains(&&*one.metric));
        let lengths: f64 = listed.map(|one| one.value).sum();
        let last = rows.last().expect("it has rows");
        assert!((last[0] + last[1] - lengths).abs() < 1.0, "{id}: {lengths}");
        for pair in rows.windows(2) {
            assert!((pair[0][0] + pair[0][1] - pair[1][0]).abs() < 1e-6, "{id}: {pair:?}");
        }
    }
}

/// A figure with the selector of its row in docs/REPORTS.md: every table, with the keys that stand
/// beside its figures, has one, and the row's command names the table, a far end and a share where it needs
/// them.
fn documented() -> Vec<(String, &'static Datum)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/REPORTS.md");
    let page = std::fs::read_to_string(page).expect("it is in the repository");
    let row = |(_, sheet, figure): (&String, &'static Sheet, &'static Datum)| {
        let report = &sheet.report.as_ref().expect("tested above").name;
        let begin = format!("| {report} | {} | `plumb run ", figure.table);
        let near = beside(figure);
        let id = near.split([':', ' ']).next().expect("has one");
        let (_, metric) = near.rsplit_once(' ').expect("has one");
        let key = format!("`{id} {metric} ");
        let mut lines = page.lines().filter_map(|line| line.strip_prefix(&begin));
        let line = lines.find(|line| line.contains(&key));
        let (command, _) = line.and_then(|line| line.split_once('`')).expect(&begin);
        for (needed, option) in [("far=peer", " --peer "), ("fs.remote:", " --set fs.remote.path=")]
        {
            assert!(!near.contains(needed) || command.contains(option), "{begin}{command}");
        }
        let (selector, _) = command.split_once(" --").unwrap_or((command, ""));
        (selector.replace('"', ""), figure)
    };
    rows().map(row).collect()
}

/// The documented command of every table plans the cases of its figures, or the nearest ones, on a
/// machine with a far end, a share and room for files. What another machine needs says so.
#[test]
fn the_command_of_a_table_plans_the_cases_of_its_figures() {
    let mut tables: BTreeMap<String, Vec<&Datum>> = BTreeMap::new();
    for (selector, figure) in documented() {
        tables.entry(selector).or_default().push(figure);
    }
    let (_, machine) = recorded_sites(Preset::Thorough).into_iter().next().expect("there are four");
    let site = equipped(machine);
    for (selector, figures) in tables {
        let table = found(&selector).expect("has the table").expect("has the machine").figures;
        let offered = planned(&named(&selector).expect("tested above"), &site).0;
        for figure in figures {
            let about = format!("{selector}: {}", figure.key());
            assert!(table.iter().any(|one| std::ptr::eq(*one, figure)), "{about}");
            let key = figure.nearest().map_or_else(|| figure.key().to_string(), str::to_owned);
            let is_there = [Some(&*key), figure.otherwise()]
                .into_iter()
                .flatten()
                .any(|key| offered.contains(key));
            assert!(is_there || figure.fact("needs").is_some(), "{about} finds no case");
        }
    }
}

/// Plots without printed figures have names, too: R3's rates are 600 points of a second.
#[test]
fn a_plot_is_measured_by_its_name() {
    let Cases { selectors, settings } = named("published/r3:Experiment 2").expect("a plot");
    assert_eq!(selectors, ["cpu.sustained:op=mix,threads=4"]);
    assert!(settings.contains(&"cpu.sustained.duration=600s".to_owned()), "{settings:?}");
    for cases in SHEETS.values().flat_map(plots).map(|plot| (&plot.selectors, &plot.settings)) {
        Selection::parse(cases.0, FAMILIES).expect("selectors of the catalogue");
        Settings::parse(cases.1, FAMILIES).expect("settings of the catalogue");
    }
}

const PRESETS: [Preset; 3] = [Preset::Quick, Preset::Standard, Preset::Thorough];

/// Those of some cases, with a directory on a server that a user names.
fn settings(cases: &Cases) -> Settings {
    let share = "fs.remote.path=/mnt/share".to_owned();
    let texts: Vec<String> = cases.settings.iter().cloned().chain([share]).collect();
    Settings::parse(&texts, FAMILIES).expect("are settings")
}

/// A machine with a far end, a directory on a server, and a disk with room for files of its memory's
/// size.
fn equipped(machine: Site) -> Site {
    let mut site = Site { peers: site("r0-i7-3770k").peers, ..machine };
    site.host.block.mounts.push(share());
    site.dir = site.dir.map(|dir| DirFacts { allowance_bytes: ROOM_BYTES, ..dir });
    site
}

fn plan_of(cases: &Cases, site: &Site) -> Planned {
    let selection = Selection::parse(&cases.selectors, FAMILIES);
    let selection = selection.expect("selectors of the catalogue");
    let (preset, budget) = (Preset::Thorough, Duration::from_secs(1800));
    let planned = plan(FAMILIES, &selection, &settings(cases), preset, budget, site);
    planned.expect("something is left")
}

/// The keys of a plan of some cases, without placements, and its time in seconds.
fn planned(cases: &Cases, site: &Site) -> (BTreeSet<String>, f64) {
    let planned = plan_of(cases, site).plan;
    let mut keys = BTreeSet::new();
    for experiment in &planned.experiments {
        let measured = experiment.series.iter().flat_map(|series| &series.cases);
        let cases = measured.chain(&experiment.derived);
        keys.extend(cases.flat_map(|case| {
            let metrics = experiment.metrics.iter();
            metrics.map(|metric| key(&experiment.id, case, &metric.name))
        }));
    }
    (keys, planned.eta_s)
}

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

/// Every key that a preset offers on a site, without placements.
fn offered(site: &Site, settings: &Settings, preset: Preset) -> Vec<String> {
    let experiments = FAMILIES.iter().flat_map(|family| family.experiments);
    let mut keys = Vec::new();
    for experiment in experiments {
        let card = experiment.card();
        let Ok(offer) = experiment.series(site, &settings.params(card, preset)) else { continue };
        let derived = experiment.derivable(site, &offer.series);
        let measured = offer.series.into_iter().flat_map(|series| series.cases);
        let skipped = offer.skipped.into_iter().map(|(case, _)| case);
        for case in measured.map(|case| case.id).chain(derived).chain(skipped) {
            let metrics = card.metrics.iter();
            keys.extend(metrics.map(|metric| key(card.id, &case, &metric.name)));
        }
    }
    keys
}

fn key(experiment: &str, case: &CaseId, metric: &str) -> String {
    Key::new(experiment, &case.unplaced(), metric).to_string()
}

/// The key of the case that stands beside a figure: its own, or the nearest.
fn beside(figure: &Datum) -> String {
    figure.nearest().map_or_else(|| figure.key().to_string(), str::to_owned)
}

#[test]
fn every_figure_stands_beside_a_case_that_some_preset_offers() {
    let (settings, mut keys) = (settings(&preset()), BTreeSet::new());
    let several_cpus = recorded_sites(Preset::Thorough).into_iter().map(|(_, site)| site);
    for mut near in SHEETS.keys().map(|name| site(name)).chain(several_cpus) {
        near.host.block.mounts.push(share());
        for far in ["loopback", "peer"] {
            let site = near.toward(far);
            keys.extend(PRESETS.into_iter().flat_map(|preset| offered(&site, &settings, preset)));
        }
    }
    for (name, _, figure) in rows() {
        let near = beside(figure);
        assert!(keys.contains(&near), "{name} {}: no preset offers {near}", figure.table);
        let unit = figure.metric().expect("tested above").1.unit;
        let (experiment, metric) = near.split_once([':', ' ']).expect("a key");
        let metrics = find(experiment).expect("a preset offers it").card().metrics;
        let metric = metrics.iter().find(|one| metric.ends_with(&*one.name));
        assert_eq!(metric.map(|one| one.unit), Some(unit), "{near}");
    }
}

/// Figures of the reports that a run of the preset `reports` has beside it at least, on a machine
/// of one memory node with a far end and a share.
const BESIDE_MIN: usize = 400;
const ROOM_BYTES: u64 = 1 << 42;

#[test]
fn the_preset_of_the_reports_offers_their_cases() {
    for (name, machine) in recorded_sites(Preset::Thorough) {
        let (offered, eta_s) = planned(&preset(), &equipped(machine));
        let beside = rows().filter(|(.., figure)| offered.contains(&beside(figure))).count();
        assert!(beside >= BESIDE_MIN, "{name}: {beside}");
        assert!(eta_s <= 1900.0, "{name}: {eta_s} s");
    }
}

/// Left out of the score, because their disks cannot have answered: R0's page fault of 15,228 ns (a
/// disk of 7200 rpm; one fault or two) and R1's 875,639 ns for a window of 16 MiB (18 GB/s from a
/// disk of 480 MB/s; touched or stepped over).
#[test]
fn page_faults_that_no_disk_can_have_answered_are_refused() {
    for (machine, fault, metric, ns) in [
        ("r0-i7-3770k", "random", "major_latency", 15_228.0),
        ("r0-i7-3770k", "random", "major_latency", 7_614.0),
        ("r1-i5-2557m", "window", "window", 875_639.19),
    ] {
        let case = Case::new(CaseId::new().with("fault", fault).with("readahead", "on"));
        let experiment = find("memory.fault").expect("in the catalogue");
        let metric = experiment.card().metrics.iter().find(|of| of.name == metric);
        let prediction =
            experiment.unscaled(&site(machine), None, &case, metric.expect("in the card"));
        let range = prediction.and_then(|found| found.range).expect("a prior");
        assert!(ns < 0.5 * range.low, "{ns} ns in {range:?}");
    }
}

#[test]
fn hosts_are_the_machines_that_the_reports_describe() {
    for (name, core, last_level) in [
        ("r0-i7-3770k", Core::IvyBridge, Some((memory::Level::L3, 8 << 20))),
        ("r1-i5-2557m", Core::SandyBridge, Some((memory::Level::L3, 3 << 20))),
        ("r2-i5-5257u", Core::Broadwell, Some((memory::Level::L3, 3 << 20))),
    ] {
        let site = site(name);
        assert_eq!(cpu::core(&site), core);
        assert!(!cpu::is_guest(&site));
        assert_eq!(memory::described_levels(&site).last().copied(), last_level);
        let counter = cpu::counter_clock(&site).expect("the model's name states it");
        let report = SHEETS[name].report.as_ref().expect("it has one");
        assert_eq!(counter.range.likely, report.counter_hz);
    }
}

#[test]
fn every_selector_is_one_of_the_catalogue() {
    let all: Vec<String> = rows().flat_map(|(.., figure)| selectors_of(figure)).collect();
    Selection::parse(&all, FAMILIES).expect("selectors of the catalogue");
}
