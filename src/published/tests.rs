use super::offered::rows;
use super::{REPORTS, case_of, names, run};
use analysis::discussion::sentences;
use analysis::figure::Figure;
use analysis::figures;
use analysis::findings::findings;
use bench::experiment::Domain;
use catalogue::find;
use host::{Host, Root};
use record::event::{Ending, PUBLISHED, PlannedExperiment};
use record::key::{Key, Value};
use record::view::View;
use std::collections::BTreeSet;

/// Printed numbers that stand here (figures, their other printings, deviations, estimates) and a
/// sum over their spellings. The texts are no part of the repository: after a change, run
/// `scripts/published REPORTS_DIR`, which asks for every number in them, and only then set these
/// anew.
#[test]
fn printed_numbers_are_those_that_were_looked_for_in_the_texts() {
    let counted: Vec<(&str, usize, u64)> = REPORTS
        .iter()
        .map(|report| {
            let rows = || rows().filter(|(of, ..)| of.name == report.name);
            let numbers = rows().map(|(.., row)| row.printed_numbers()).sum();
            let sum = rows().fold(FNV_OFFSET, |sum, (_, table, row)| {
                let spelled = format!(
                    "{} {} {} {} {:?} {} {}",
                    table.source,
                    row.at,
                    row.figure,
                    row.deviation,
                    row.estimate,
                    row.estimate_printed,
                    row.also
                );
                fnv(sum, &spelled)
            });
            (&*report.name, numbers, sum)
        })
        .collect();
    let expected = [
        ("r0-i7-3770k", 147, 10_716_917_535_451_857_284),
        ("r1-i5-2557m", 465, 8_876_739_115_322_918_706),
        ("r2-i5-5257u", 249, 11_925_879_397_095_263_864),
        ("r3-t2-micro", 208, 15_979_716_683_686_911_708),
        ("r4-e6300", 106, 13_946_908_584_552_061_071),
        ("r4-magny-cours", 44, 4_193_015_726_916_310_437),
    ];
    assert_eq!(counted, expected);
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, the same on every machine and by every compiler.
fn fnv(sum: u64, text: &str) -> u64 {
    text.bytes().fold(sum, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn every_figure_names_an_experiment_and_a_metric_of_its_unit() {
    for (report, table, row) in rows() {
        let about = format!("{} {} {}", report.name, table.source, row.at);
        let experiment = find(&table.experiment).unwrap_or_else(|| panic!("{about}"));
        let mut metrics = experiment.card().metrics.iter();
        let metric = metrics.find(|metric| metric.name == table.metric);
        let metric = metric.unwrap_or_else(|| panic!("{about}: {}", table.metric));
        assert_eq!(metric.unit, table.printed.unit(), "{about}");
        assert!(row.estimate.is_none() || !table.because.is_empty(), "{about}");
    }
}

/// Parameters that a card has take values that it allows; others are only of cases with
/// `as_reported`.
#[test]
fn parameters_are_those_of_the_cards() {
    for (report, table, row) in rows() {
        let experiment = find(&table.experiment).expect("tested above");
        let case = case_of(table, row);
        assert_eq!(case.get("as_reported").is_some(), !row.reading.is_empty());
        for (name, value) in &case.0 {
            let mut params = experiment.card().params.iter();
            let about = format!("{} {}: {case}", report.name, table.source);
            match params.find(|param| param.name == name) {
                Some(param) => assert!(allows(&param.domain, value), "{about}: {name}"),
                None => assert!(!row.reading.is_empty(), "{about}: {name}"),
            }
        }
    }
}

fn allows(domain: &Domain, value: &Value) -> bool {
    let within = |low: u64, high: u64| value.int().is_some_and(|int| (low..=high).contains(&int));
    let among = |symbols: &[&str]| value.text().is_some_and(|text| symbols.contains(&text));
    match domain {
        Domain::Symbols(symbols) => among(symbols),
        Domain::Integer { low, high, .. } => within(*low, *high),
        Domain::Either(symbols, low, high, _) => among(symbols) || within(*low, *high),
        Domain::Name(symbols) => among(symbols),
        Domain::Text => false,
    }
}

#[test]
fn keys_are_unique_and_every_row_is_a_figure_of_its_run() {
    for (report, name) in REPORTS.iter().zip(names()) {
        let run = run(&name).expect("its own name");
        let keys: BTreeSet<String> = rows()
            .filter(|(of, ..)| of.name == report.name)
            .map(|(_, table, row)| {
                let case = case_of(table, row);
                Key::new(&table.experiment, &case, &table.metric).to_string()
            })
            .collect();
        let figures = figures(&run);
        let labels: Vec<String> = figures
            .iter()
            .filter(|figure| figure.outcome == Ending::Measured)
            .map(|figure| figure.label())
            .collect();
        let count = report.tables.iter().map(|table| table.rows.len()).sum::<usize>();
        assert_eq!(keys.len(), count, "{name}: a key stands twice");
        assert_eq!(labels.len(), count, "{name}");
        assert!(labels.iter().all(|label| keys.contains(label)), "{name}");
        let slips = findings(&run, &figures);
        assert!(!slips.is_empty() && slips.iter().all(|one| one.cause == "slip"), "{name}");
        for figure in &figures {
            if figure.outcome == Ending::Measured {
                assert!(figure.value.is_some_and(|value| value.is_finite() && value > 0.0));
                assert!(figure.ci.is_none(), "nobody told an interval");
                for detail in ["source", "statistic", "printed"] {
                    assert!(figure.at.contains_key(detail), "{name}: {}", figure.label());
                }
            } else {
                assert!(figure.reason.is_some(), "{name}: {}", figure.label());
            }
            if let Some(range) = figure.prior.as_ref().and_then(|prior| prior.prediction.range) {
                assert!(range.low <= range.likely && range.likely <= range.high);
            }
        }
    }
}

#[test]
fn a_run_is_a_record_as_any_other() {
    for name in names() {
        let run = run(&name).expect("its own name");
        assert!(run.header.is_published());
        let text = serde_json::to_string(&run.header).expect("a header is JSON");
        let back: record::event::Header = serde_json::from_str(&text).expect("and comes back");
        assert_eq!(back, run.header);
        assert_eq!(run.header.run, name);
        assert!(!run.header.host.is_null());
    }
    assert!(run("published/nobody").is_none());
    assert!(run("r1-i5-2557m").is_none());
}

/// R4 draws thirty periods and two processes' slices from the lengths that its tables list, and has
/// the order in which five processes first ran.
#[test]
fn pictures_over_time_are_those_that_the_tables_list() {
    let run = run("published/r4-e6300").expect("its own name");
    let trace = |id: &str, kind: &str| {
        run.traces.iter().find(|trace| trace.series == id && trace.kind == kind)
    };
    for (id, metrics, lanes) in [
        ("noise.activity", ["active", "gap"], vec!["active", "inactive"]),
        ("os.schedule", ["slice", "switch"], vec!["process 1", "process 2", "switch"]),
    ] {
        let trace = trace(id, "timeline").expect("a picture");
        assert_eq!(trace.names["state"], lanes);
        let lengths: f64 = run
            .derived
            .iter()
            .filter(|figure| figure.experiment == id && metrics.contains(&&*figure.metric))
            .filter(|figure| {
                figure.case.get("sample").is_some() || figure.case.get("event").is_some()
            })
            .map(|figure| figure.value)
            .sum();
        let last = trace.rows.last().expect("has rows");
        assert!((last[0] + last[1] - lengths).abs() < 1.0, "all of them: {lengths}");
        let ends = trace.rows.windows(2).map(|pair| (pair[0][0] + pair[0][1], pair[1][0]));
        assert!(ends.into_iter().all(|(end, start)| end == start), "one after another");
    }
    assert_eq!(trace("os.schedule", "timeline").map(|trace| trace.rows.len()), Some(19));
    let order = trace("os.schedule", "first_runs").expect("an order");
    assert_eq!(order.names["process"], ["4", "5", "3", "2", "1"]);
    assert_eq!(order.case.to_string(), "processes=5");
}

/// What a report varies that no case of ours has is an axis of a plot.
#[test]
fn curves_over_a_reports_own_parameter_are_drawn() {
    let run = run("published/r2-i5-5257u").expect("its own name");
    let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
    let views: Vec<&View> = planned.flat_map(PlannedExperiment::all_views).collect();
    let is_drawn = |of: &str, what: &str| {
        let is_it = |view: &&&View| match view {
            View::Line { over, metric, beside, .. } => {
                over == of && (metric == what || beside.iter().any(|other| other == what))
            }
            _ => false,
        };
        views.iter().filter(is_it).count() == 1
    };
    assert!(is_drawn("file_bytes", "latency_per_byte"));
    assert!(is_drawn("competitors", "latency_all"));
}

/// R1's own times are of another clock than ours; R0's follow from its ticks.
#[test]
fn a_reports_own_conversion_is_told() {
    let ticks = |machine: &str| {
        let run = run(&format!("published/{machine}")).expect("it is there");
        let figures = figures(&run).into_iter();
        let of_ticks = figures.filter(|figure| {
            let text = |name| figure.at.get(name).and_then(Value::text);
            let is_ticks = text("printed").is_some_and(|text| text.ends_with("cycles"));
            is_ticks && text("printed_also").is_some()
        });
        let told = of_ticks.map(|figure| {
            let mut notes = figure.notes.iter();
            notes.any(|note| note.contains("0.625 ns a tick and are 6 % longer"))
        });
        told.collect::<Vec<bool>>()
    };
    let [r0, r1] = [ticks("r0-i7-3770k"), ticks("r1-i5-2557m")];
    assert!(r0.len() > 20 && r0.iter().all(|told| !told));
    assert!(r1.len() > 60 && r1.iter().all(|told| *told));
}

/// An estimate stands in the unit in which it was printed, not in its figure's, and none that was
/// computed here is called printed.
#[test]
fn estimates_stand_as_they_are_printed() {
    let printed = |machine: &str, key: &str| {
        let run = run(&format!("published/{machine}")).expect("it is there");
        let mut figures = figures(&run).into_iter();
        let figure = figures.find(|figure| figure.label() == key);
        let at = figure.unwrap_or_else(|| panic!("{key}")).at;
        at.get("estimate_printed").and_then(Value::text).map(str::to_owned)
    };
    for (machine, key, text) in [
        ("r0-i7-3770k", "clock.read:clock=rdtsc cost", Some("100 to 200 cycles")),
        ("r0-i7-3770k", "cpu.call:call=direct,type=f32,frame=spilled,arguments=7 call", None),
        ("r1-i5-2557m", "clock.read:clock=cpuid_pair resolution", Some("64 cycles; 40 ns")),
        ("r1-i5-2557m", "clock.loop:loop=volatile iteration", None),
        ("r2-i5-5257u", "memory.fault:fault=page,readahead=off major_latency", Some("102.9 µs")),
    ] {
        assert_eq!(printed(machine, key).as_deref(), text, "{machine} {key}");
    }
}

/// What a report states of its machine's parts stands in the description, which a host is read from.
#[test]
fn parts_are_those_that_the_reports_state() {
    for (machine, pointer, value) in [
        ("r0-i7-3770k", "/memory/channels/count", serde_json::json!(2)),
        ("r0-i7-3770k", "/block/disks/0/rotation_rpm", serde_json::json!(7200)),
        ("r0-i7-3770k", "/memory/dimms/3/rated_mts", serde_json::json!(1333)),
        ("r1-i5-2557m", "/memory/channels/count", serde_json::json!(2)),
        ("r2-i5-5257u", "/memory/dimms/1/size_bytes", serde_json::json!(4_294_967_296_u64)),
    ] {
        let host = run(&format!("published/{machine}")).expect("it is there").header.host;
        assert_eq!(host.pointer(pointer), Some(&value), "{machine} {pointer}");
        serde_json::from_value::<Host>(host).expect("a host as any other");
    }
}

/// Every table, with the keys of its figures, has a row in docs/REPORTS.md, whose commands
/// tests/binary runs.
#[test]
fn the_page_of_the_reports_has_every_table() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/REPORTS.md");
    let page = std::fs::read_to_string(page).expect("it is in the repository");
    for (report, table, _) in rows() {
        let begin = format!("| {} | {} |", report.report, table.source);
        let unit = table.printed.unit().text();
        let key = format!("`{} {} {unit}`", table.experiment, table.metric);
        let mut lines = page.lines().filter(|line| line.starts_with(&begin));
        assert!(lines.any(|line| line.contains(&key)), "{begin} {key}");
    }
}

/// Disks are as large as their reports say.
#[test]
fn disks_are_those_of_the_reports() {
    for (machine, model, gb) in [
        ("r0-i7-3770k", "WDC WD10EZEX", 1000),
        ("r1-i5-2557m", "SanDisk SSD U100", 128),
        ("r2-i5-5257u", "APPLE SSD SM0256G", 251),
    ] {
        let report = REPORTS.iter().find(|report| report.name == machine);
        let host = Host::read(&Root::tree(&report.expect("it is there").tree));
        let [disk] = host.block.disks.as_slice() else {
            panic!("{machine}: {:?}", host.block.disks)
        };
        let size_gb = disk.size_bytes / 1_000_000_000;
        assert_eq!((disk.model.as_deref(), size_gb), (Some(model), gb), "{machine}");
    }
}

/// What is wrong with a figure stands on it.
#[test]
fn slips_are_told_on_their_figures() {
    for (machine, figure, slip) in [
        ("r0-i7-3770k", 53_300_967.0, "a thousand times"),
        ("r0-i7-3770k", 15_228.0, "7200 rpm"),
        ("r0-i7-3770k", 11.146, "vDSO"),
        ("r0-i7-3770k", 12.055, "kept the process id"),
        ("r0-i7-3770k", 30.0, "prefetcher"),
        ("r0-i7-3770k", 275.0, "the text has 250"),
        ("r0-i7-3770k", 250.0, "the table has 275"),
        ("r0-i7-3770k", 4.0, "cause is not shown"),
        ("r0-i7-3770k", 1_627_965.0, "divided twice"),
        ("r1-i5-2557m", 32.03, "unit is wrong"),
        ("r1-i5-2557m", 7.0, "deviation of Table XI"),
        ("r1-i5-2557m", 1_401_022.71, "18 GB/s"),
        ("r1-i5-2557m", 9.82, "46 and 30 %"),
        ("r1-i5-2557m", 8.75, "8.16"),
        ("r1-i5-2557m", 2_618_483.93, "0.61 ms"),
        ("r1-i5-2557m", 1_642_507.0, "0.095"),
        ("r1-i5-2557m", 9632.82, "9636.82"),
        ("r2-i5-5257u", 131_072.0, "both cores"),
        ("r2-i5-5257u", 739_335.0, "32 times"),
        ("r2-i5-5257u", 459_446_055.0, "0.0022"),
        ("r2-i5-5257u", 13.411_044, "27.8 GiB/s"),
        ("r3-t2-micro", 2.325_894, "226.8 ms"),
        ("r3-t2-micro", 921.6627, "page cache"),
        ("r3-t2-micro", 16.0, "more than 100 %"),
        ("r3-t2-micro", 18.4, "socket's buffer"),
        ("r3-t2-micro", 70.0, "73 and 43 %"),
        ("r3-t2-micro", 1.05, "iperf's own rate"),
        ("r3-t2-micro", 7.0, "page cache"),
        ("r4-e6300", 1_396_598_060.0, "not shown"),
        ("r4-e6300", 1_198_375_400.0, "another rate"),
        ("r4-e6300", 3.957_911, "by hand"),
        ("r4-magny-cours", 5400.69166, "ignore the CPU's"),
    ] {
        let mut own = rows().filter(|(report, _, row)| {
            report.name == machine && row.figure.to_bits() == f64::to_bits(figure)
        });
        assert!(
            own.any(|(_, table, row)| {
                let texts = [&row.slip, &table.slip, &row.note, &table.note];
                texts.iter().any(|text| text.contains(slip))
            }),
            "{machine} {figure}: {slip}"
        );
    }
    // Slips of a whole report stand with its conditions.
    let told = |machine: &str, text: &str| {
        let run = run(&format!("published/{machine}")).expect("it is there");
        let mut texts = run.header.environment.values();
        assert!(texts.any(|have| have.contains(text)), "{machine}: {text}");
    };
    told("r0-i7-3770k", "write-back and 8-way");
    told("r1-i5-2557m", "6 % too long");
    told("r2-i5-5257u", "boost to 3.1 GHz");
    told("r4-e6300", "1.198 GHz");
}

#[test]
fn figures_are_discussed_once_and_as_a_ratio_to_their_estimate() {
    let mut estimates = 0;
    for name in names() {
        let run = run(&name).expect("is one");
        let plan = run.plan.as_ref().expect("has a plan");
        let all = figures(&run);
        assert_eq!(run.header.options.preset, PUBLISHED);
        for planned in &plan.experiments {
            let own = all.iter().filter(|figure| figure.experiment == planned.id);
            let own: Vec<&Figure> = own.collect();
            let sentences = sentences(&run, planned, &own);
            let text = sentences.join(" ");
            for false_word in [
                "From these follow",
                "skipped",
                "candidate",
                "no recorded condition",
                " holds",
                " hold",
                "predicted nothing",
            ] {
                assert!(!text.contains(false_word), "{name} {}: {text}", planned.id);
            }
            estimates += usize::from(text.contains("times the estimate"));
            // No metric begins two sentences.
            let first = sentences.first().and_then(|text| text.split([':', ' ']).next());
            if let Some(first) = first.filter(|first| *first != "Nothing") {
                let again = format!("Beside it {} ", first.to_lowercase());
                assert!(!text.contains(&again), "{name} {}: {text}", planned.id);
            }
        }
    }
    assert!(estimates > 10, "{estimates}");
}
