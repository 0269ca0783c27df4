use super::render;
use super::strict::read;
use analysis::figures;
use analysis::sample;
use record::event::{Ending, Event};
use record::key::CaseId;
use record::plain::lines;
use record::run::Run;
use std::collections::BTreeMap;

#[test]
fn the_reader_refuses_what_is_wrong() {
    let good = "# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# HELP a_seconds x\n\
                a_seconds{b=\"1\"} 1e-9\na_seconds{b=\"\\\"\\\\\\n\"} 2\na_seconds{} 3\n# EOF\n";
    let families = read(good).unwrap();
    assert_eq!(families["a_seconds"].samples[1].0["b"], "\"\\\n");
    for (from, to) in [
        ("# EOF\n", ""),
        (" 1e-9", " NaN"),
        (" 1e-9", " inf"),
        (" 1e-9", " 1e400"),
        (" 1e-9", " +1"),
        (" 1e-9", " 1."),
        ("b=\"1\"", "b=\"\u{1b}[2J\""),
        ("b=\"1\"", "b=\"\u{202e}\""),
        (" 1e-9", " 1e-9 1234"),
        ("gauge", "info"),
        (" seconds\n", " bytes\n"),
        ("b=\"1\"", "b=\"1\",b=\"2\""),
        ("b=\"1\"", "b=\"\\t\""),
        ("b=\"1\"", "2b=\"\""),
        ("b=\"1\"", "b=\"\\\"\\\\\\n\""),
        ("HELP a_seconds x", "HELP a_seconds \"x\""),
        ("# TYPE a_seconds gauge\n", ""),
    ] {
        let bad = good.replacen(from, to, 1);
        assert!(bad != good && read(&bad).is_err(), "{bad}");
    }
}

#[test]
fn every_measured_figure_is_a_series_in_base_units() {
    let run = sample::run();
    let families = read(&render(&run)).unwrap();
    let latency = &families["plumb_memory_latency_latency_seconds"];
    assert_eq!((latency.kind.as_str(), latency.unit.as_str()), ("gauge", "seconds"));
    let figures = figures(&run);
    let mut count = 0;
    for figure in figures.iter().filter(|figure| figure.outcome == Ending::Measured) {
        let stem = format!(
            "plumb_{}_{}",
            figure.experiment.replace('.', "_"),
            figure.metric.as_ref().unwrap().name.replace("counter", "ticks")
        );
        let labels: BTreeMap<String, String> = figure
            .case
            .0
            .iter()
            .map(|(name, value)| (name.clone(), value.to_string()))
            .chain([("machine".to_owned(), run.header.identity.clone())])
            .collect();
        let named = families.iter().find(|(name, family)| {
            name.strip_suffix(&family.unit).map(|name| name.trim_end_matches('_')) == Some(&stem)
        });
        let (_, family) = named.unwrap_or_else(|| panic!("{stem}"));
        let found = family.samples.iter().find(|(have, _)| *have == labels);
        let value = figure.value.unwrap();
        let factor = if family.unit == "seconds" { 1e-9 } else { 1.0 };
        assert_eq!(found.unwrap().1, value * factor, "{stem}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn the_run_tells_of_itself() {
    let families = read(&render(&sample::run())).unwrap();
    let only = |name: &str| families[name].samples[0].1;
    let info = &families["plumb_info"].samples[0];
    assert_eq!((info.1, info.0["kernel"].as_str()), (1.0, "6.1.0-18-amd64"));
    assert_eq!(info.0["run"], "2026-11-21T10-00-00-lab");
    assert_eq!(only("plumb_run_start_timestamp_seconds"), 1_795_255_200.0);
    assert_eq!(only("plumb_run_end_timestamp_seconds"), 1_795_255_562.0);
    assert_eq!(only("plumb_run_duration_seconds"), 362.0);
    assert_eq!(only("plumb_run_complete"), 1.0);
    assert_eq!(families["plumb_figures"].samples.len(), 3);
}

#[test]
fn odd_runs_are_read_too() {
    let killed = read(&render(&Run::new(sample::header()))).unwrap();
    assert_eq!(killed["plumb_run_complete"].samples[0].1, 0.0);
    assert!(!killed.contains_key("plumb_run_end_timestamp_seconds"));
    // Texts from outside, parameters that are no labels, a value that is no number.
    let hostile = "a\"b\\c\nd{e}\u{1b}]0;x\u{7}\u{202e}";
    let mut run = sample::changed(|event| {
        if let Event::Plan(plan) = event {
            for planned in &mut plan.experiments {
                let metrics = planned.metrics.iter_mut();
                metrics.for_each(|metric| metric.doc = hostile.into());
                if !planned.derived.is_empty() {
                    planned.derived = vec![CaseId::new().with("le-vel.of", hostile)];
                }
            }
        }
        if let Event::Derived(derived) = event {
            derived.case = CaseId::new().with("le-vel.of", hostile);
            derived.ci = Some((1.0, f64::NAN));
            if derived.metric == "level_size" {
                derived.value = f64::INFINITY;
            }
        }
    });
    run.header.run = hostile.to_owned();
    run.header.environment.insert("kernel".into(), hostile.into());
    run.header.host["cpu"]["model_name"] = hostile.into();
    let families = read(&render(&run)).unwrap();
    let hostile = lines(hostile);
    assert_eq!(families["plumb_info"].samples[0].0["kernel"], hostile);
    assert_eq!(families["plumb_info"].samples[0].0["processor"], hostile);
    assert!(!families.contains_key("plumb_memory_latency_level_size_bytes"));
    assert!(!families.contains_key("plumb_memory_latency_level_latency_high_seconds"));
    let low = &families["plumb_memory_latency_level_latency_low_seconds"];
    assert_eq!(low.samples[0].0["le_vel_of"], hostile);
}

#[test]
fn parameters_of_any_record_are_labels_of_their_own() {
    let mut run = Run::new(sample::header());
    for mut event in sample::events() {
        if let Event::Plan(plan) = &mut event {
            let derived = plan.experiments.iter_mut();
            for planned in derived.filter(|planned| !planned.derived.is_empty()) {
                let case = |text: &str| CaseId::new().with("machine", text).with("2nd", 1_u64);
                planned.derived = vec![case("a\u{1b}"), case("a\u{7}")];
            }
        }
        if let Event::Derived(derived) = &mut event {
            let of = |text: &str| CaseId::new().with("machine", text).with("2nd", 1_u64);
            derived.case = of("a\u{1b}");
            run.push(Event::Derived(derived.clone()));
            derived.case = of("a\u{7}");
        }
        run.push(event);
    }
    let families = read(&render(&run)).unwrap();
    let samples = &families["plumb_memory_latency_level_latency_seconds"].samples;
    assert_eq!(samples.len(), 1, "{samples:?}");
    assert_eq!(samples[0].0["case_machine"], "a ");
    assert_eq!(samples[0].0["case_2nd"], "1");
}
