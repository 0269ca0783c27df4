//! `sockperf ping-pong`: round trips of messages by TCP and UDP.

use super::loopback::{ADDRESS, Ends, MESSAGE_BYTES, echoes, theirs};
use crate::sides::case;
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Statistic};
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("sockperf", &["sockperf"], pairings, parse)
    .about("round trips of messages by TCP and UDP")
    .package("sockperf")
    .version(&["--version"], version)
    // Whole round trips.
    .oldest("3.6");

/// The value that is read, as it is printed.
const MEDIAN: &str = "percentile 50.000";
const DIFFERENCE: &str = "Both are medians of whole round trips. For each message, each end of \
    sockperf reads the processor's counter, fills in and checks a header, and searches a table of \
    its sockets; plumb checks the answer and reads the counter once a turn. sockperf runs one \
    process for one second and omits 0.4 s; plumb runs six rounds in separate processes.";

/// What is exchanged, and whether the ends share a CPU.
const EXCHANGES: [(&str, &str, bool); 3] =
    [("tcp-one-cpu", "tcp", true), ("udp-one-cpu", "udp", true), ("tcp-two-cpus", "tcp", false)];

fn version(said: &Output) -> Option<String> {
    let first = said.stdout.lines().find(|line| !line.trim().is_empty())?;
    let version = first.strip_prefix("sockperf, version ")?.split('-').next()?;
    Some(version.trim().to_owned())
}

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let chosen = if conditions.is_whole() { EXCHANGES.len() } else { 1 };
    let numbered = EXCHANGES[..chosen].iter().zip(conditions.ports);
    numbered.map(|(exchange, port)| pairing(conditions, *exchange, port)).collect()
}

fn pairing(
    conditions: &Conditions,
    (name, protocol, on_one_cpu): (&str, &str, bool),
    port: u16,
) -> Pairing {
    let (ends, skip) = Ends::chosen(conditions, on_one_cpu);
    let tcp = if protocol == "tcp" { "--tcp" } else { "" };
    let seconds = conditions.whole_seconds();
    let at = format!("{tcp} -i {ADDRESS} -p {port}");
    let args = format!("ping-pong {at} -m {MESSAGE_BYTES} -t {seconds} --full-rtt");
    let row = Row {
        case: case(&format!("protocol={protocol}")),
        statistic: Statistic::MedianOfAll,
        goal: Goal::AtMost,
        ..Row::new("round_trip", Unit::Ns, MEDIAN, DIFFERENCE)
    };
    let theirs = theirs("sockperf", &ends, port, &args, &format!("server {at}"));
    Pairing::new(name, echoes(conditions, &ends, protocol), theirs, [row]).unless(skip)
}

/// A whole round trip, in ns.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let text = &said.stdout;
    if what != MEDIAN {
        return Err("no such value is read".to_owned());
    }
    if !text.contains("Summary: Round trip is ") {
        return Err("it does not report whole round trips".to_owned());
    }
    if !text
        .contains("# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0")
    {
        return Err("messages were lost, or it does not report losses".to_owned());
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
    use super::{MEDIAN, RIVAL};
    use crate::rivals::loopback::tests::check;
    use crate::tests::{reads, refuses, text, versions};

    #[test]
    fn versions_are_read() {
        let files = [("3.6-version.txt", "3.6"), ("3.7-version.txt", "3.7")];
        versions(&RIVAL, &files, &[("sockperf: unknown option", None)]);
    }

    #[test]
    fn the_median_of_whole_round_trips_is_read() {
        let told = [
            ("3.6-tcp.txt", MEDIAN, 5793.0),
            ("3.6-udp.txt", MEDIAN, 4916.0),
            ("3.7-tcp.txt", MEDIAN, 6012.0),
            ("3.7-udp.txt", MEDIAN, 5061.0),
        ];
        reads(&RIVAL, &told);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let whole = text(&RIVAL, "3.7-tcp.txt");
        refuses(&RIVAL, "percentile 99.000", &[&whole]);
        let broken = [
            "",
            // Half of a round trip.
            &whole.replace("Round trip is", "Latency is"),
            &whole.replace("dropped messages = 0", "dropped messages = 3"),
            &whole.replace("percentile 50.000 =    6.012", "percentile 50.000 =    none"),
            &whole.replace("percentile 50.000", "percentile 51.000"),
        ];
        refuses(&RIVAL, MEDIAN, &broken);
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
