//! `sockperf ping-pong`: round trips of messages by TCP and UDP.

use super::loopback::{Ends, near_end};
use crate::read::line;
use crate::table::{Entry, Reading, TIME};
use crate::{Conditions, Goal, Output, Pairing, Rival, Statistic};
use bench::experiment::Preset::{Rehearsal, Standard};

pub static RIVAL: Rival = Rival::new("sockperf", &["sockperf"], pairings, line)
    .about("round trips of messages by TCP and UDP")
    .package("sockperf")
    .version(&["--version"], version)
    // Whole round trips.
    .oldest("3.6");

/// Half of the messages had a shorter whole round trip, and none was lost.
const MEDIAN: &str = "sockperf: Summary: Round trip is {n} usec
\
    sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
\
    sockperf: ---> percentile 50.000 = {x*1e3}";
const DIFFERENCE: &str = "Both are medians of whole round trips. For each message, each end of \
    sockperf reads the processor's counter, fills in and checks a header, and searches a table of \
    its sockets; plumb checks the answer and reads the counter once a turn. sockperf runs one \
    process for one second and omits 0.4 s; plumb runs six rounds in separate processes.";

const ROUND_TRIP: Reading = TIME
    .metric("round_trip")
    .keyed(1)
    .read(MEDIAN)
    .taken(Statistic::MedianOfAll)
    .goal(Goal::AtMost)
    .differs(DIFFERENCE);

const TCP: Entry = Entry {
    server: "sockperf server --tcp -i 127.0.0.1 -p {port}",
    readings: &[ROUND_TRIP],
    ..near_end("sockperf", "net.rtt").asked(
        "ping-pong --tcp -i 127.0.0.1 -p {port} -m 64 -t {seconds} --full-rtt",
        "protocol=tcp message=64 ends={ends} connections=1 receiver=blocking arrivals=saturated \
         exchange=echo",
    )
};

const UDP: Entry = Entry {
    server: "sockperf server -i 127.0.0.1 -p {port}",
    ..TCP.asked(
        "ping-pong -i 127.0.0.1 -p {port} -m 64 -t {seconds} --full-rtt",
        "protocol=udp message=64 ends={ends} connections=1 receiver=blocking arrivals=saturated \
         exchange=echo",
    )
};

/// What is exchanged, and whether the ends share a CPU.
const TABLE: [(Entry, bool); 3] = [
    (TCP.named("tcp-one-cpu", Rehearsal), true),
    (UDP.named("udp-one-cpu", Standard), true),
    (TCP.named("tcp-two-cpus", Standard), false),
];

fn version(said: &Output) -> Option<String> {
    let first = said.stdout.lines().find(|line| !line.trim().is_empty())?;
    let version = first.strip_prefix("sockperf, version ")?.split('-').next()?;
    Some(version.trim().to_owned())
}

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let pairing = |((entry, on_one_cpu), port): (&(Entry, bool), u16)| {
        let (ends, skip) = Ends::chosen(conditions, *on_one_cpu);
        let places = vec![
            ("port", port.to_string()),
            ("seconds", conditions.whole_seconds().to_string()),
            ("ends", ends.symbol.to_owned()),
        ];
        ends.place(entry.pairing(conditions, &places)).unless(skip)
    };
    let offered = TABLE.iter().zip(conditions.ports);
    offered.filter(|((entry, _), _)| entry.is_offered(conditions)).map(pairing).collect()
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
        refuses(&RIVAL, &MEDIAN.replace("50.000", "49.000"), &[&whole]);
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
