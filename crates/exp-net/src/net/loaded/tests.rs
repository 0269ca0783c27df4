use super::EXPERIMENT;
use crate::net::wire::tests::{complete, rehearse_both};
use bench::experiment::fixtures::{predicted, recorded};
use bench::experiment::{AnyExperiment, Known, Preset, Site};
use record::key::{CaseId, Key};
use session::fixtures::{check, offered, params};

#[test]
fn the_traffic_has_cpus_of_its_own_where_there_are_any() {
    let placed = |site: &Site| {
        let offer = check(&EXPERIMENT, site, Preset::Standard);
        let series = offer.series.into_iter().next().unwrap();
        let series = EXPERIMENT.resolve(site, &Known::default(), series).unwrap();
        let case = &series.cases[0];
        ["near_cpu", "far_cpu", "near_traffic_cpu", "far_traffic_cpu"]
            .map(|name| case.int(name).unwrap())
    };
    let [near, far, near_traffic, far_traffic] = placed(&recorded("vm-granite-rapids"));
    assert_eq!((near, far), (near_traffic, far_traffic));
    let mut all = placed(&recorded("epyc-7763-2s")).to_vec();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 4);
}

#[test]
fn quick_refers_to_standard_and_what_cannot_be_is_skipped() {
    let site = recorded("vm-granite-rapids");
    let offered = |preset, set: &[(&str, &str)]| {
        EXPERIMENT.series(&site, &params(EXPERIMENT.card(), preset, set))
    };
    let skip = offered(Preset::Quick, &[]).unwrap_err();
    assert!(skip.needed.unwrap().contains("--preset standard"));
    assert!(offered(Preset::Quick, &[("direction", "up")]).is_ok());
    let offer = offered(Preset::Standard, &[("ends", "one_thread,same_cpu")]).unwrap();
    assert_eq!((offer.series[0].cases.len(), offer.skipped.len()), (3, 3));
    assert!(offered(Preset::Standard, &[("ends", "two_hosts")]).is_err());
}

#[test]
fn a_rehearsal_has_every_figure_in_every_direction() {
    let set = [("protocol", "tcp,udp"), ("streams", "2"), ("message", "1")];
    let rehearsed = rehearse_both(&EXPERIMENT, Preset::Rehearsal, &set);
    assert_eq!(complete(&EXPERIMENT, &rehearsed).len(), 6);
    for samples in &rehearsed.samples {
        let is_of_cpu = samples.metric.starts_with("cpu_");
        assert_eq!(samples.at.contains_key("softirq_cpu"), is_of_cpu);
        assert!(samples.raw.samples().iter().all(|value| *value > 0.0), "{samples:?}");
    }
}

#[test]
fn a_time_out_that_is_set_bounds_what_is_predicted() {
    let site = recorded("vm-granite-rapids");
    let high = |set: &[(&str, &str)]| {
        let offer = offered(&EXPERIMENT, &site, Preset::Standard, set);
        let found = predicted(&EXPERIMENT, &site, None, &offer.series[0].cases[0], "round_trip");
        found.unwrap().range.unwrap().high
    };
    assert!(high(&[]) > 1e6);
    assert!(high(&[("timeout", "1ms")]) <= 1e6);
}

#[test]
fn ratio_and_queue_come_of_rate_and_added_time() {
    let mut values = Known::default();
    let case = |direction: &str| {
        CaseId::new().with("far", "peer").with("protocol", "tcp").with("direction", direction)
    };
    for (direction, rate) in [("up", "bandwidth_up"), ("down", "bandwidth_down"), ("both", "")] {
        let mut put = |metric: &str, value| {
            values.insert(Key::new("net.loaded", &case(direction), metric), value);
        };
        put("idle_round_trip", 100e3);
        put("round_trip", 1.1e6);
        if !rate.is_empty() {
            put(rate, 125e6);
        }
    }
    let found = EXPERIMENT.derive(&recorded("epyc-7763-2s"), &Known::default(), &values);
    let of = |direction: &str, metric: &str| {
        let mut all = found.iter();
        all.find(|one| one.case == case(direction) && one.metric == metric).map(|one| one.value)
    };
    for direction in ["up", "down", "both"] {
        assert_eq!(of(direction, "ratio"), Some(11.0));
    }
    // A millisecond at 1 Gbit/s.
    assert_eq!(of("up", "queue"), Some(125e3));
    assert_eq!(of("down", "queue"), Some(125e3));
    assert_eq!(of("both", "queue"), None);
}
