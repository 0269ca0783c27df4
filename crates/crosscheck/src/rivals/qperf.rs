//! `qperf`: one-way times of messages by TCP and UDP, halves of round trips.

use super::loopback::{ADDRESS, Ends, MESSAGE_BYTES, echoes, theirs};
use crate::sides::case;
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Statistic};
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("qperf", &["qperf"], pairings, parse)
    .about("times of messages by TCP and UDP, halved")
    .package("qperf")
    .version(&["--version"], |said| Some(said.stdout.trim().strip_prefix("qperf ")?.to_owned()));

/// Its times are of one way.
const WAYS: f64 = 2.0;
const DIFFERENCE: &str = "qperf reports half of the mean round trip of one second; it is doubled \
    here. plumb's figure is the mean of all round trips of six rounds in separate processes. plumb \
    checks the answer and reads the counter once a turn; qperf does neither.";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let tcp = pairing(conditions, "tcp", true);
    match conditions.is_whole() {
        true => vec![tcp, pairing(conditions, "udp", false)],
        false => vec![tcp],
    }
}

fn pairing(conditions: &Conditions, protocol: &str, on_one_cpu: bool) -> Pairing {
    let place = if on_one_cpu { "one-cpu" } else { "two-cpus" };
    let port = conditions.ports[usize::from(!on_one_cpu)];
    let (ends, skip) = Ends::chosen(conditions, on_one_cpu);
    let what = format!("{protocol}_lat");
    let seconds = conditions.whole_seconds();
    let args = format!("{ADDRESS} -lp {port} -m {MESSAGE_BYTES} -t {seconds} -uu -e 6 {what}");
    let row = Row {
        case: case(&format!("protocol={protocol}")),
        statistic: Statistic::MeanOfAll,
        goal: Goal::AtMost,
        ..Row::new("round_trip", Unit::Ns, what, DIFFERENCE)
    };
    let theirs = theirs("qperf", &ends, port, &args, &format!("-lp {port}"));
    let ours = echoes(conditions, &ends, protocol);
    Pairing::new(format!("{protocol}-{place}"), ours, theirs, [row]).unless(skip)
}

/// A mean round trip, in ns.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let mut lines = said.stdout.lines();
    let is_own = |line: &str| line.trim().strip_suffix(':') == Some(what);
    if !lines.any(is_own) {
        return Err(format!("it does not report {what}"));
    }
    let value = lines.next().and_then(|line| {
        let value = line.trim().strip_prefix("latency")?.trim_start().strip_prefix('=')?;
        let ns = value.trim().strip_suffix("ns")?.trim_end().replace(',', "");
        ns.parse::<f64>().ok()
    });
    match value {
        Some(ns) => Ok(WAYS * ns),
        None => Err(format!("no latency in ns below {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::RIVAL;
    use crate::rivals::loopback::tests::check;
    use crate::tests::{reads, refuses, text, versions};

    #[test]
    fn versions_are_read() {
        versions(&RIVAL, &[], &[("qperf 0.4.11\n", Some("0.4.11")), ("usage", None)]);
    }

    /// Debian 12's, 11's and 13's builds of 0.4.11.
    #[test]
    fn both_ways_are_in_a_round_trip() {
        let told = [
            ("0.4.11-both.txt", "tcp_lat", 2.0 * 14599.0),
            ("0.4.11-both.txt", "udp_lat", 2.0 * 11495.8),
            ("0.4.11-both-bullseye.txt", "tcp_lat", 2.0 * 11166.1),
            ("0.4.11-both-bullseye.txt", "udp_lat", 2.0 * 13372.7),
            ("0.4.11-both-trixie.txt", "tcp_lat", 2.0 * 10740.0),
            ("0.4.11-both-trixie.txt", "udp_lat", 2.0 * 13698.8),
        ];
        reads(&RIVAL, &told);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        refuses(&RIVAL, "rc_lat", &[&text(&RIVAL, "0.4.11-both.txt")]);
        let broken = [
            "",
            "tcp_lat:\n",
            "tcp_lat:\n    latency  =  14.6 us\n",
            "tcp_lat:\n    bw  =  14.6 MB/sec\n",
            "tcp_lat:\n    latency  =  none ns\n",
        ];
        refuses(&RIVAL, "tcp_lat", &broken);
    }

    #[test]
    fn both_sides_are_alike() {
        let [one, two] = check(&RIVAL, "0.4.11");
        assert_eq!((one.len(), two.len()), (1, 2));
        for pairing in &two {
            let protocol = pairing.ours.setting("protocol").expect("is set");
            assert_eq!(pairing.theirs.args.last(), Some(&format!("{protocol}_lat")));
        }
    }
}
