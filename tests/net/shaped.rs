//! A slow cable: what comes out at its end is known from its rate.

use crate::agents::{Agent, Recorded, median, url};
use crate::lab::{Lab, MTU};
use crate::{attempts, near};
use serde_json::json;

/// Slow enough that no CPU is the limit, however busy.
const BITS_PER_S: u64 = 200_000_000;
/// What may go at once: less than a hundredth of what goes in a window.
const BURST_BYTES: u64 = 32_768;

/// Bytes of payload a second that a rate of whole frames leaves TCP with its time stamps.
fn payload(bits_per_s: u64, mtu: u32) -> f64 {
    bits_per_s as f64 / 8.0 * f64::from(mtu - 52) / f64::from(mtu + 14)
}

/// Both ends' CPU time and environment are in the record.
fn tells_of_both_ends(run: &Recorded) {
    for metric in ["cpu_near", "cpu_far", "message_cpu_near", "message_cpu_far"] {
        let costs = run.values(metric, &[]);
        assert!(!costs.is_empty(), "{metric}");
        assert!(costs.iter().all(|ns| *ns > 0.0), "{metric}: {costs:?}");
    }
    let rounds = run.rounds();
    assert!(!rounds.is_empty());
    for round in rounds {
        let environment = round["environment"].as_object().unwrap();
        for name in ["involuntary_switches", "interrupts"] {
            for name in [name.to_owned(), format!("far_{name}")] {
                assert!(environment.contains_key(&name), "{name}: {environment:?}");
            }
        }
    }
}

/// Nothing more was predicted to come through than the rate that the user gave.
fn predictions_follow_the_given_rate(run: &Recorded, most: f64) {
    let told = run.predictions("net.bandwidth", "bandwidth");
    assert!(!told.is_empty());
    for prediction in told {
        let high = prediction["range"]["high"].as_f64().unwrap();
        assert!(high < 1.02 * most, "{high} {most} {prediction}");
    }
}

/// TCP's goodput over a shaped cable with packets of this size, by as many streams, both ways.
fn goodput(mtu: u32, streams: &[u64]) {
    let lab = Lab::new();
    lab.packets(mtu);
    lab.shape(BITS_PER_S, BURST_BYTES);
    let agent = Agent::start(&lab);
    let expected = payload(BITS_PER_S, mtu);
    let counts: Vec<String> = streams.iter().map(u64::to_string).collect();
    let settings = format!(
        "streams={} protocol=tcp message=65536 direction=up,down transfer=steady \
         host.net.shaped_rate={BITS_PER_S}",
        counts.join(",")
    );
    attempts("goodput", || {
        let run = lab.run("net.bandwidth", &url(), &settings);
        assert_eq!(run.answer.code, Some(0), "{:?}", run.answer);
        tells_of_both_ends(&run);
        predictions_follow_the_given_rate(&run, expected);
        for direction in ["up", "down"] {
            for streams in streams {
                let case = [("direction", json!(direction)), ("streams", json!(streams))];
                let goodput = median(run.values("bandwidth", &case));
                let what = format!("MTU {mtu}, {direction}, streams {streams}, B/s");
                near(&what, goodput, expected, 0.03)?;
            }
        }
        Ok(())
    });
    agent.serves_and_leaves(&lab);
}

#[test]
fn goodput_is_what_the_rate_leaves() {
    goodput(MTU, &[1, 2]);
}

#[test]
fn goodput_of_long_packets_is_what_the_rate_leaves() {
    goodput(4000, &[1]);
}

/// A bucket whose tokens last for longer than the windows that were once called a rate.
#[test]
fn goodput_is_the_rate_of_a_token_bucket_and_not_its_burst() {
    const BITS_PER_S: u64 = 100_000_000;
    const PEAK_BITS_PER_S: u64 = 400_000_000;
    /// 0.2 s at what the peak has more than the rate.
    const BUCKET_BYTES: u64 = (PEAK_BITS_PER_S - BITS_PER_S) / 8 / 5;
    let lab = Lab::new();
    lab.packets(MTU);
    lab.shape_with_peak(BITS_PER_S, BUCKET_BYTES, PEAK_BITS_PER_S);
    let agent = Agent::start(&lab);
    let (rate, peak) = (payload(BITS_PER_S, MTU), payload(PEAK_BITS_PER_S, MTU));
    attempts("token bucket", || {
        let settings = "protocol=tcp message=65536 transfer=steady";
        let run = lab.run("net.bandwidth", &url(), settings);
        assert_eq!(run.answer.code, Some(0), "{:?}", run.answer);
        near("B/s", median(run.values("bandwidth", &[])), rate, 0.03)?;
        // The bucket is full at the first round, and its burst stands beside the rate.
        let rounds = run.samples("bandwidth", &[]);
        let cut = |of: &str| rounds[0]["quantities"][of].as_f64().unwrap();
        near("ms cut off", cut("discarded_ns") / 1e6, 200.0, 0.2)?;
        near("B/s cut off", cut("discarded_b_per_s"), peak, 0.1)
    });
    agent.serves_and_leaves(&lab);
}
