//! `sockperf ping-pong`: round trips of messages by TCP and UDP.

use super::loopback::{ADDRESS, Ends, MESSAGE_BYTES, echoes, words};
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Server, Statistic, Theirs};
use record::key::CaseId;
use record::unit::Unit;
use std::time::Duration;

/// The rival.
pub static RIVAL: Rival = Rival {
    name: "sockperf",
    about: "round trips of messages by TCP and UDP",
    package: Some("sockperf"),
    programs: &["sockperf"],
    version_args: &["--version"],
    version,
    // Whole round trips.
    oldest: Some("3.6"),
    pairings,
    parse,
};

/// The value that is read, as it is printed.
const MEDIAN: &str = "percentile 50.000";
const DIFFERENCE: &str = "Both are medians of whole round trips. Each end of sockperf reads the processor's \
    counter, fills in and checks a head and looks through a table of its sockets for each message; plumb \
    checks what came back, and reads the counter once a turn. sockperf's is one second of one process, of \
    which it leaves out 0.4 s, plumb's six rounds with processes of their own.";

/// What is exchanged and where the ends are.
struct Exchange {
    name: &'static str,
    protocol: &'static str,
    two_cpus: bool,
}

const EXCHANGES: [Exchange; 3] = [
    Exchange { name: "tcp-one-cpu", protocol: "tcp", two_cpus: false },
    Exchange { name: "udp-one-cpu", protocol: "udp", two_cpus: false },
    Exchange { name: "tcp-two-cpus", protocol: "tcp", two_cpus: true },
];

fn version(said: &Output) -> Option<String> {
    let first = said.stdout.lines().find(|line| !line.trim().is_empty())?;
    let version = first.strip_prefix("sockperf, version ")?.split('-').next()?;
    Some(version.trim().to_owned())
}

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let chosen = if conditions.is_whole() { EXCHANGES.len() } else { 1 };
    let numbered = EXCHANGES[..chosen].iter().enumerate();
    numbered
        .map(|(number, exchange)| pairing(conditions, exchange, conditions.ports[number]))
        .collect()
}

fn pairing(conditions: &Conditions, exchange: &Exchange, port: u16) -> Pairing {
    let ends = match exchange.two_cpus {
        true => Ends::two_cpus(conditions),
        false => Ok(Ends::one_cpu(conditions)),
    };
    let (ends, skip) = match ends {
        Ok(ends) => (ends, None),
        Err(skip) => (Ends::one_cpu(conditions), Some(skip)),
    };
    let tcp = if exchange.protocol == "tcp" { "--tcp" } else { "" };
    let seconds = conditions.seconds.ceil().max(1.0) as u64;
    Pairing {
        name: exchange.name.to_owned(),
        ours: echoes(conditions, &ends, exchange.protocol),
        theirs: Theirs {
            program: "sockperf",
            args: words(&format!(
                "ping-pong {tcp} -i {ADDRESS} -p {port} -m {MESSAGE_BYTES} -t {seconds} --full-rtt"
            )),
            cpus: vec![ends.near],
            server: Some(Server {
                command: words(&format!("sockperf server {tcp} -i {ADDRESS} -p {port}")),
                cpus: vec![ends.far],
                ports: vec![port],
            }),
            limit: Duration::from_secs(30),
            ..Theirs::default()
        },
        rows: vec![Row {
            name: String::new(),
            case: CaseId::new().with("protocol", exchange.protocol),
            metric: "round_trip",
            statistic: Statistic::MedianOfAll,
            times: 1.0,
            unit: Unit::Ns,
            what: MEDIAN.to_owned(),
            goal: Goal::AtMost,
            difference: DIFFERENCE,
        }],
        skip,
        is_once: false,
    }
}

/// A whole round trip, in ns.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let text = &said.stdout;
    if what != MEDIAN {
        return Err("no such value is read".to_owned());
    }
    if !text.contains("Summary: Round trip is ") {
        return Err("it does not tell whole round trips".to_owned());
    }
    if !text
        .contains("# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0")
    {
        return Err("messages were lost, or it does not tell of them".to_owned());
    }
    let value = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(what)?;
        rest.trim_start().strip_prefix('=')?.trim().parse::<f64>().ok()
    });
    match value {
        Some(us) => Ok(1e3 * us),
        None => Err(format!("no {what} in what it said")),
    }
}

#[cfg(test)]
mod tests {
    use super::{MEDIAN, RIVAL, parse};
    use crate::rivals::loopback::tests::check;
    use crate::tests::said;

    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../testdata/sockperf/", $name))
        };
    }

    #[test]
    fn versions_are_read() {
        for (text, version) in
            [(recorded!("3.6-version.txt"), "3.6"), (recorded!("3.7-version.txt"), "3.7")]
        {
            assert_eq!((RIVAL.version)(&said(text)).as_deref(), Some(version));
        }
        assert_eq!((RIVAL.version)(&said("sockperf: unknown option")), None);
    }

    #[test]
    fn the_median_of_whole_round_trips_is_read() {
        for (text, ns) in [
            (recorded!("3.6-tcp.txt"), 5793.0),
            (recorded!("3.6-udp.txt"), 4916.0),
            (recorded!("3.7-tcp.txt"), 6012.0),
            (recorded!("3.7-udp.txt"), 5061.0),
        ] {
            assert_eq!(parse(&said(text), MEDIAN), Ok(ns));
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let whole = recorded!("3.7-tcp.txt");
        assert!(parse(&said(whole), "percentile 99.000").is_err(), "nobody asks for it");
        for broken in [
            "",
            // Half of a round trip.
            &whole.replace("Round trip is", "Latency is"),
            &whole.replace("dropped messages = 0", "dropped messages = 3"),
            &whole.replace("percentile 50.000 =    6.012", "percentile 50.000 =    none"),
            &whole.replace("percentile 50.000", "percentile 51.000"),
        ] {
            let why = parse(&said(broken), MEDIAN).expect_err("is broken");
            assert!(!why.is_empty() && !why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn both_sides_are_alike() {
        let [one, two] = check(&RIVAL, "3.7");
        assert_eq!((one.len(), two.len()), (2, 3));
        for pairing in &two {
            let is_tcp = pairing.theirs.args.iter().any(|arg| arg == "--tcp");
            assert_eq!(pairing.name.starts_with("tcp"), is_tcp);
            let server = pairing.theirs.server.as_ref().expect("a far end");
            assert_eq!(server.command.iter().any(|arg| arg == "--tcp"), is_tcp);
        }
    }
}
