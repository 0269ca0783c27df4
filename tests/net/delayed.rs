//! A long cable: round trips are those that the relay saw, by its own stamps of both directions.

use crate::agents::{Agent, Recorded, median, url};
use crate::cable::EACH_WAY;
use crate::frames::{Echo, Kind, echoes};
use crate::lab::Lab;
use crate::{attempts, near};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Bytes of a message that nothing else on the cable has.
const MESSAGE: usize = 1111;
/// How far a figure may be from the relay's.
const SHARE: f64 = 0.03;

/// What an experiment's metric says of cases, and which frames it is about.
struct Claim {
    metric: &'static str,
    case: Vec<(&'static str, Value)>,
    kind: Kind,
}

/// Runs an experiment over the relay, and holds what it says against the relay's stamps.
fn compare(experiment: &str, settings: &str, claims: &[Claim]) {
    let lab = Lab::delayed(EACH_WAY);
    let agent = Agent::start(&lab);
    attempts(experiment, || {
        lab.log().take();
        let run = lab.run(experiment, &url(), settings);
        assert_eq!(run.answer.code, Some(0), "{:?}", run.answer);
        let passed = lab.log().take();
        claims.iter().try_for_each(|claim| {
            let trips = echoes(&passed, claim.kind);
            write_stamps(experiment, claim.kind, &trips);
            is_as_seen(claim, &run, &trips)
        })
    });
    agent.leaves(&lab);
}

fn is_as_seen(claim: &Claim, run: &Recorded, trips: &[Echo]) -> Result<(), String> {
    let values = run.events_of(claim.metric, &claim.case);
    let held_ns = 2.0 * EACH_WAY.as_nanos() as f64;
    assert!(!values.is_empty(), "{}: {:?}", claim.metric, claim.case);
    for value in &values {
        // Buckets of a distribution are within a hundredth.
        assert!(*value > 0.99 * held_ns, "{value} ns, held for {held_ns}");
    }
    assert!(trips.len() >= values.len(), "{} of {}", trips.len(), values.len());
    let seen = median(trips.iter().map(Echo::round_trip_ns).collect());
    let what = format!("{} {:?}, {} values, ns", claim.metric, claim.case, values.len());
    near(&what, median(values), seen, SHARE)
}

/// Writes out what the relay saw, beside what was built.
fn write_stamps(experiment: &str, kind: Kind, trips: &[Echo]) {
    let mut table = "there_read_us,there_written_us,back_read_us,back_written_us\n".to_owned();
    for echo in trips {
        let stamps = [echo.up_read_ns, echo.up_written_ns, echo.down_read_ns, echo.down_written_ns];
        let stamps = stamps.map(|ns| format!("{:.1}", ns / 1e3));
        table += &(stamps.join(",") + "\n");
    }
    let name = format!("relay-{experiment}-{kind:?}.csv").replace(['(', ')'], "-");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, table).unwrap();
    println!("{} round trips by the relay's stamps: {}", trips.len(), file.display());
}

#[test]
fn of_messages() {
    let settings = format!(
        "protocol=tcp,udp message={MESSAGE} connections=1 receiver=blocking arrivals=saturated \
         exchange=echo"
    );
    let claim = |protocol: &'static str, kind| Claim {
        metric: "round_trip",
        case: vec![("protocol", json!(protocol))],
        kind,
    };
    let claims = [claim("tcp", Kind::Tcp(MESSAGE)), claim("udp", Kind::Udp(MESSAGE))];
    compare("net.rtt", &settings, &claims);
}

#[test]
fn of_icmp() {
    let claim = |metric| Claim { metric, case: vec![("message", json!(56))], kind: Kind::Icmp };
    let claims = [claim("round_trip"), claim("kernel_round_trip")];
    compare("net.ping", "message=56", &claims);
}

#[test]
fn of_new_connections() {
    let settings = "listener=ready closer=client connections=4 warm_up=1";
    let claims = [Claim { metric: "connect", case: Vec::new(), kind: Kind::Connect }];
    compare("net.connect", settings, &claims);
}
