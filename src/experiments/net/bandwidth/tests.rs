use super::EXPERIMENT;
use crate::experiment::{Experiment, Preset};
use crate::experiments::net::ends::tests::rehearse_both;
use crate::experiments::tests::{check, params, recorded, sites};
use crate::predict::net::tests::{GIGABIT, joined};

#[test]
fn every_site_has_cases_and_predictions_in_every_preset() {
    for site in sites() {
        for preset in [Preset::Quick, Preset::Standard, Preset::Thorough] {
            let offer = check(&EXPERIMENT, &site, preset);
            assert_eq!(offer.series.len(), 1);
        }
    }
    let offer = check(&EXPERIMENT, &joined(GIGABIT, GIGABIT), Preset::Thorough);
    let cases = &offer.series[0].cases;
    assert!(
        cases
            .iter()
            .all(|case| case.text("ends") == Some("two_hosts"))
    );
    assert!(cases.iter().all(|case| case.text("far") == Some("peer")));
}

/// Rehearses and holds that every figure that has a prediction was recorded, once.
fn rehearsed(set: &[(&str, &str)]) -> crate::experiments::tests::Rehearsed {
    let rehearsed = rehearse_both(&EXPERIMENT, Preset::Rehearsal, set);
    assert!(rehearsed.failed.is_empty(), "{:?}", rehearsed.failed);
    let site = recorded("vm-granite-rapids");
    let mut cases: Vec<_> = rehearsed.samples.iter().map(|of| of.case.clone()).collect();
    cases.sort();
    cases.dedup();
    for id in cases {
        let case = record::case::Case::new(id.clone());
        let metrics = EXPERIMENT.card().metrics.iter();
        for metric in metrics.filter(|metric| !metric.derived && !EXPERIMENT.may_lack(metric)) {
            let prediction = EXPERIMENT.predict(&site, None, &case, metric);
            let is_told = prediction.is_some_and(|prediction| prediction.range.is_some());
            let has = rehearsed.of(&id, &metric.name).is_some();
            assert_eq!(has, is_told, "{id} {}", metric.name);
        }
    }
    rehearsed
}

#[test]
fn streams_and_datagrams_are_counted_in_both_directions() {
    let all = rehearsed(&[
        ("protocol", "tcp,udp"),
        ("message", "1000"),
        ("direction", "up,down"),
        ("transfer", "steady"),
    ]);
    let rates = all.samples.iter().filter(|of| of.metric == "bandwidth");
    assert_eq!(rates.clone().count(), 4);
    for samples in rates {
        let of = |name: &str| samples.quantities[name];
        if samples.case.text("protocol") == Some("tcp") {
            assert_eq!(of("sent_bytes"), of("received_bytes"));
            assert!(samples.at.contains_key("congestion"));
        }
        assert!(of("receive_buffer_bytes") > 0.0 && of("send_buffer_bytes") > 0.0);
        assert!(samples.notes.iter().any(|note| note.contains("no link")));
        assert!(samples.raw.samples()[0] > 0.0);
    }
}

#[test]
fn what_is_lost_adds_up() {
    let all = rehearsed(&[
        ("protocol", "udp"),
        ("message", "1,8000"),
        ("transfer", "steady"),
    ]);
    for loss in all.samples.iter().filter(|of| of.metric == "loss") {
        let value = |metric: &str| all.of(&loss.case, metric).expect("recorded").raw.samples()[0];
        let parts = ["loss_sender", "loss_path", "loss_receiver"].map(value);
        let sum: f64 = parts.iter().sum();
        assert!((sum - value("loss")).abs() < 1e-6, "{parts:?}");
        let of = |name: &str| loss.quantities[name];
        let delivered = of("unique") / of("tried");
        assert!((delivered + value("loss") - 1.0).abs() < 1e-6);
        // Loopback itself loses nothing.
        assert!(value("loss_path").abs() < 0.02, "{parts:?}");
    }
}

#[test]
fn several_streams_share_what_their_sum_tells() {
    let all = rehearsed(&[
        ("streams", "3"),
        ("message", "4KiB"),
        ("transfer", "steady"),
    ]);
    for samples in all.samples.iter().filter(|of| of.metric == "bandwidth") {
        let of = |name: &str| samples.quantities[name];
        let rate = samples.raw.samples()[0];
        assert!(of("stream_least_b_per_s") * 3.0 <= rate * 1.001);
        assert!(of("stream_most_b_per_s") * 3.0 >= rate * 0.999);
    }
}

#[test]
fn the_reports_transfers_are_there() {
    let all = rehearsed(&[
        (
            "transfer",
            "fixed_16M,fixed_1M,there_and_back,already_there",
        ),
        ("ends", "same_cpu,other_cpu"),
    ]);
    let bytes = |name: &str| {
        let mut of = all.samples.iter().filter(|of| of.metric == "bandwidth");
        let found = of.find(|of| of.case.text("transfer") == Some(name));
        found.expect("recorded").quantities["transfer_bytes"]
    };
    assert_eq!(bytes("fixed_16M"), 16777216.0);
    assert_eq!(bytes("fixed_1M"), 1048576.0);
    assert!(all.samples.iter().any(|of| of.metric == "copy_rate"));
}

#[test]
fn a_message_that_cannot_lie_there_whole_fails_with_the_reason() {
    let all = rehearse_both(
        &EXPERIMENT,
        Preset::Rehearsal,
        &[
            ("transfer", "already_there"),
            ("message", "4MiB"),
            ("ends", "same_cpu"),
        ],
    );
    let (_, reason) = &all.failed[0];
    assert!(reason.contains("came into the receive buffer"), "{reason}");
    assert!(all.samples.is_empty());
}
