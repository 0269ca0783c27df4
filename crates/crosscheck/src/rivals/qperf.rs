//! `qperf`: one-way times of messages by TCP and UDP, halves of round trips.

use super::loopback::{ADDRESS, Ends, MESSAGE_BYTES, echoes, words};
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Server, Statistic, Theirs};
use record::key::CaseId;
use record::unit::Unit;
use std::time::Duration;

/// The rival.
pub static RIVAL: Rival = Rival {
    name: "qperf",
    about: "times of messages by TCP and UDP, halved",
    package: Some("qperf"),
    programs: &["qperf"],
    version_args: &["--version"],
    version: |said| Some(said.stdout.trim().strip_prefix("qperf ")?.to_owned()),
    oldest: None,
    pairings,
    parse,
};

/// Its times are of one way.
const WAYS: f64 = 2.0;
const DIFFERENCE: &str = "qperf tells half of the mean round trip of one second, which is doubled here; \
    plumb's is the mean of all round trips of six rounds with processes of their own. plumb checks what \
    came back and reads the counter once a turn, qperf does neither.";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let tcp = pairing(conditions, "tcp", Ok(Ends::one_cpu(conditions)));
    if !conditions.is_whole() {
        return vec![tcp];
    }
    vec![tcp, pairing(conditions, "udp", Ends::two_cpus(conditions))]
}

fn pairing(
    conditions: &Conditions,
    protocol: &'static str,
    ends: Result<Ends, bench::experiment::Skip>,
) -> Pairing {
    let place = if protocol == "tcp" { "one-cpu" } else { "two-cpus" };
    let port = conditions.ports[usize::from(protocol == "udp")];
    let (ends, skip) = match ends {
        Ok(ends) => (ends, None),
        Err(skip) => (Ends::one_cpu(conditions), Some(skip)),
    };
    let what = format!("{protocol}_lat");
    let seconds = conditions.seconds.ceil().max(1.0) as u64;
    Pairing {
        name: format!("{protocol}-{place}"),
        ours: echoes(conditions, &ends, protocol),
        theirs: Theirs {
            program: "qperf",
            args: words(&format!(
                "{ADDRESS} -lp {port} -m {MESSAGE_BYTES} -t {seconds} -uu -e 6 {what}"
            )),
            cpus: vec![ends.near],
            server: Some(Server {
                command: words(&format!("qperf -lp {port}")),
                cpus: vec![ends.far],
                ports: vec![port],
            }),
            limit: Duration::from_secs(30),
            ..Theirs::default()
        },
        rows: vec![Row {
            name: String::new(),
            case: CaseId::new().with("protocol", protocol),
            metric: "round_trip",
            statistic: Statistic::MeanOfAll,
            times: 1.0,
            unit: Unit::Ns,
            what,
            goal: Goal::AtMost,
            difference: DIFFERENCE,
        }],
        skip,
        is_once: false,
    }
}

/// A mean round trip, in ns.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let mut lines = said.stdout.lines();
    let is_own = |line: &str| line.trim().strip_suffix(':') == Some(what);
    if !lines.any(is_own) {
        return Err(format!("it tells nothing of {what}"));
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
    use super::{RIVAL, parse};
    use crate::rivals::loopback::tests::check;
    use crate::tests::said;

    /// Debian 12's, 11's and 13's builds of 0.4.11.
    const RECORDED: [(&str, f64, f64); 3] = [
        (include_str!("../testdata/qperf/0.4.11-both.txt"), 14599.0, 11495.8),
        (include_str!("../testdata/qperf/0.4.11-both-bullseye.txt"), 11166.1, 13372.7),
        (include_str!("../testdata/qperf/0.4.11-both-trixie.txt"), 10740.0, 13698.8),
    ];

    #[test]
    fn versions_are_read() {
        let found = (RIVAL.version)(&said("qperf 0.4.11\n"));
        assert_eq!(found.as_deref(), Some("0.4.11"));
        assert_eq!((RIVAL.version)(&said("usage")), None);
    }

    #[test]
    fn both_ways_are_in_a_round_trip() {
        for (text, tcp_ns, udp_ns) in RECORDED {
            assert_eq!(parse(&said(text), "tcp_lat"), Ok(2.0 * tcp_ns));
            assert_eq!(parse(&said(text), "udp_lat"), Ok(2.0 * udp_ns));
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let whole = RECORDED[0].0;
        assert!(parse(&said(whole), "rc_lat").is_err(), "it was not asked");
        for broken in [
            "",
            "tcp_lat:\n",
            "tcp_lat:\n    latency  =  14.6 us\n",
            "tcp_lat:\n    bw  =  14.6 MB/sec\n",
            "tcp_lat:\n    latency  =  none ns\n",
        ] {
            let why = parse(&said(broken), "tcp_lat").expect_err("is broken");
            assert!(!why.is_empty() && !why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn both_sides_are_alike() {
        let [one, two] = check(&RIVAL, "0.4.11");
        assert_eq!((one.len(), two.len()), (1, 2));
        for pairing in &two {
            let set = &pairing.ours.set;
            let protocol = set.iter().find(|(name, _)| *name == "protocol");
            let (_, protocol) = protocol.expect("is set");
            assert_eq!(pairing.theirs.args.last(), Some(&format!("{protocol}_lat")));
        }
    }
}
