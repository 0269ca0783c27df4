//! `iperf3`: bytes a second by TCP and UDP.

use super::loopback::{Ends, near_end};
use crate::read::{ZERO, json};
use crate::table::{Entry, RATE, Reading};
use crate::{Conditions, Output, Pairing, Rival, Row, Statistic};
use anyhow::{Context, Result, ensure};
use bench::experiment::Preset::{Rehearsal, Standard};
use record::plain::line;
use record::run::Run;
use serde_json::Value;

pub static RIVAL: Rival = Rival::new("iperf3", &["iperf3"], pairings, parse)
    .about("bytes a second by TCP and UDP")
    .package("iperf3")
    .version(&["--version"], version)
    .oldest("3.1");

/// From this version each stream has a thread of its own at each end, which blocks in its reads.
const THREADS_SINCE: &str = "3.16";

const WHOLE: &str = "Both count whole connections of one second, including their start. plumb \
    counts six rounds; its receiver requests a whole message per call and reads a clock after \
    each. plumb's own figure omits the part before the rate's change point.";
const AWAKE: &str = "Both count whole connections of one second, including their start. Up to \
    iperf3 3.15 the receiver calls select for three sockets before each read. That makes it so \
    slow that it seldom finds the socket empty and sleeps (with 4 KiB 400 to 1,000 times a \
    second). A receiver that blocks in its reads, as in plumb and iperf3 since 3.16, catches up \
    with the sender 15,000 to 20,000 times a second and must be woken each time. iperf3 3.18 \
    reaches plumb's rate.";
const ONE_THREAD: &str = "Up to iperf3 3.15 one thread at each end serves all streams; plumb has \
    one thread per stream, on the same two CPUs.";
const DATAGRAMS: &str = "Both receivers use the system's socket buffer, which a sender without a \
    rate limit overruns. iperf3 reads clocks for each datagram at both ends, and up to 3.15 calls \
    select first; plumb reads one clock at the receiver. Datagrams count once, at the receiver.";

/// Bytes of whole connections, from plumb's side.
const SENT: Reading = RATE
    .keyed(2)
    .read("tcp")
    .taken(Statistic::Own("bytes of whole connections over their time", whole));

const DATAGRAMS_SENT: Reading =
    RATE.keyed(2).read("udp").taken(Statistic::MeanOfRounds).differs(DATAGRAMS);

const IPERF3: Entry =
    Entry { server: "iperf3 -s -B 127.0.0.1 -p {port}", ..near_end("iperf3", "net.bandwidth") };

const LARGE: Entry = IPERF3.named("tcp-128k{one-cpu}", Rehearsal).asked(
    "-c 127.0.0.1 -p {port} -t {seconds} -l 131072 -P 1 -N -i 0 -J",
    "protocol=tcp message=131072 streams=1 ends={ends} direction=up transfer=steady {time}",
);

const SMALL: Entry = IPERF3.named("tcp-4k", Standard).asked(
    "-c 127.0.0.1 -p {port} -t {seconds} -l 4096 -P 1 -N -i 0 -J",
    "protocol=tcp message=4096 streams=1 ends={ends} direction=up transfer=steady {time}",
);

const TWO_STREAMS: Entry = IPERF3.named("tcp-128k-two-streams", Standard).asked(
    "-c 127.0.0.1 -p {port} -t {seconds} -l 131072 -P 2 -N -i 0 -J",
    "protocol=tcp message=131072 streams=2 ends={ends} direction=up transfer=steady {time}",
);

const TABLE: [Entry; 7] = [
    LARGE.versions("", THREADS_SINCE).beside(&[SENT.differs(AWAKE)]),
    LARGE.versions(THREADS_SINCE, "").beside(&[SENT.differs(WHOLE)]),
    SMALL.versions("", THREADS_SINCE).beside(&[SENT.differs(AWAKE)]),
    SMALL.versions(THREADS_SINCE, "").beside(&[SENT.differs(WHOLE)]),
    TWO_STREAMS.versions("", THREADS_SINCE).beside(&[SENT.differs(ONE_THREAD)]),
    TWO_STREAMS.versions(THREADS_SINCE, "").beside(&[SENT.differs(WHOLE)]),
    IPERF3
        .named("udp-1k{one-cpu}", Standard)
        .asked(
            "-c 127.0.0.1 -p {port} -u -b 0 -t {seconds} -l 1024 -i 0 -J",
            "protocol=udp message=1024 streams=1 ends={ends} direction=up transfer=steady \
             time={seconds}s",
        )
        .beside(&[DATAGRAMS_SENT]),
];

/// Rows that take two CPUs.
const ON_TWO_CPUS: [&str; 2] = [SMALL.name, TWO_STREAMS.name];

fn version(said: &Output) -> Option<String> {
    let first = said.stdout.lines().next()?.strip_prefix("iperf ")?;
    let version = first.split_whitespace().next()?;
    // iperf 2 says `iperf version 2.…`.
    let is_own = version.starts_with(|letter: char| letter.is_ascii_digit());
    is_own.then(|| version.to_owned())
}

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let ends = Ends::two_cpus(conditions).unwrap_or_else(|_| Ends::one_cpu(conditions));
    let is_one_cpu = ends.near == ends.far;
    let seconds = conditions.whole_seconds();
    let places = vec![
        ("port", conditions.ports[0].to_string()),
        ("seconds", seconds.to_string()),
        // What a stream brings depends on its age.
        ("time", conditions.rehearsed(String::new(), format!("time={seconds}s"))),
        ("ends", ends.symbol.to_owned()),
        ("one-cpu", if is_one_cpu { "-one-cpu" } else { "" }.to_owned()),
    ];
    TABLE
        .iter()
        .filter(|entry| entry.is_offered(conditions))
        .filter(|entry| !is_one_cpu || !ON_TWO_CPUS.contains(&entry.name))
        .map(|entry| ends.place(entry.pairing(conditions, &places)))
        .collect()
}

/// Bytes of all rounds' connections over the time of each from its first call of the sender's to
/// the last.
fn whole(run: &Run, row: &Row) -> Result<f64> {
    let of_row = run.samples.iter().filter(|samples| samples.metric == row.metric);
    let (mut bytes, mut ns) = (0.0, 0.0);
    for samples in of_row {
        let quantity = |name: &str| {
            let found = samples.quantities.get(name).copied();
            found.with_context(|| format!("a round reports no {name}"))
        };
        bytes += quantity("sent_bytes")?;
        ns += quantity("send_ns")?;
    }
    ensure!(ns > 0.0, "no round was measured");
    Ok(bytes * 1e9 / ns)
}

/// Bytes a second that the receiver got.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let all: Value = json(&said.stdout)?;
    if let Some(error) = all["error"].as_str() {
        return Err(line(error));
    }
    let protocol = all["start"]["test_start"]["protocol"].as_str().unwrap_or_default();
    if !["tcp", "udp"].contains(&what) || !protocol.eq_ignore_ascii_case(what) {
        return Err(format!("it reports {:?}, not {what}", line(protocol)));
    }
    let end = &all["end"];
    let number = |part: &str, name: &str| {
        let number = end[part][name].as_f64();
        number.ok_or_else(|| format!("no number end.{part}.{name}"))
    };
    if what == "udp" && end.get("sum_received").is_none() {
        // Before 3.10: the sender's bytes, and which of its datagrams were lost.
        let [bytes, seconds, lost, packets] =
            ["bytes", "seconds", "lost_packets", "packets"].map(|name| number("sum", name));
        let (lost, packets) = (lost?, packets?);
        if packets == 0.0 {
            return Err(ZERO.to_owned());
        }
        return Ok(bytes? * (packets - lost) / packets / seconds?);
    }
    Ok(number("sum_received", "bits_per_second")? / 8.0)
}

#[cfg(test)]
mod tests {
    use super::{AWAKE, RIVAL, WHOLE, parse};
    use crate::Statistic;
    use crate::rivals::loopback::tests::{check, conditions};
    use crate::tests::{reads, refuses, said, text, versions};
    use analysis::crosscheck::sample;
    use bench::experiment::Preset;
    use record::run::Run;

    #[test]
    fn versions_are_read() {
        let files = [
            ("3.9-version.txt", "3.9"),
            ("3.12-version.txt", "3.12"),
            ("3.18-version.txt", "3.18"),
            ("3.21-version.txt", "3.21"),
        ];
        versions(&RIVAL, &files, &[("iperf version 2.1.8", None), ("", None)]);
    }

    #[test]
    fn what_the_receiver_got_is_read() {
        let told = [
            ("3.9-tcp.json", "tcp", 2_547_022_642.784_724 / 8.0),
            ("3.12-tcp.json", "tcp", 4_344_710_691.555_727 / 8.0),
            ("3.12-tcp-two.json", "tcp", 4_684_478_620.622_107_5 / 8.0),
            ("3.18-tcp.json", "tcp", 5_290_291_715.105_168 / 8.0),
            ("3.21-tcp.json", "tcp", 7_262_365_412.655_592 / 8.0),
        ];
        reads(&RIVAL, &told);
        for (file, bytes) in [
            ("3.9-udp.json", 92_702_720.0 / 90_530.0 * (90_530.0 - 66_373.0) / 1.07158),
            ("3.12-udp.json", (145_620.0 - 22_626.0) * 1024.0 / 1.004763),
            ("3.21-udp.json", (167_870.0 - 151_275.0) * 1024.0 / 1.009764),
        ] {
            let found = parse(&said(&text(&RIVAL, file)), "udp").expect("is read");
            assert!((found / bytes - 1.0).abs() < 1e-6, "{file}: {found}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let refused = parse(&said(&text(&RIVAL, "3.12-refused.json")), "tcp");
        assert!(refused.is_err_and(|why| why.ends_with("refused")), "its own reason");
        let tcp = text(&RIVAL, "3.12-tcp.json");
        refuses(&RIVAL, "udp", &[&tcp]);
        refuses(&RIVAL, "rate", &[&tcp]);
        let broken = [
            "",
            "iperf3: interrupt",
            &tcp[..tcp.len() / 2],
            &tcp.replace("sum_received", "sum_taken"),
            &tcp.replace("\"bits_per_second\": ", "\"bits_per_second\": \"many\", \"x\": "),
        ];
        refuses(&RIVAL, "tcp", &broken);
    }

    #[test]
    fn both_sides_are_alike() {
        let [one, two] = check(&RIVAL, "3.12");
        assert_eq!(two.len(), 4);
        assert!(one.iter().all(|pairing| pairing.name.ends_with("-one-cpu")));
        for pairing in one.iter().chain(&two) {
            let ours = |name: &str| pairing.ours.setting(name).unwrap_or_default();
            let theirs = |option: &str| {
                let mut args = pairing.theirs.args.iter().skip_while(|arg| *arg != option);
                args.nth(1).cloned().unwrap_or_default()
            };
            assert_eq!(ours("message"), theirs("-l"));
            if ours("protocol") == "tcp" {
                assert_eq!(ours("streams"), theirs("-P"));
                assert_eq!(ours("time"), format!("{}s", theirs("-t")));
            }
        }
    }

    #[test]
    fn a_rate_is_that_of_whole_connections() {
        let conditions = conditions("epyc-7763-2s", 2, Preset::Standard, "3.12");
        let pairings = (RIVAL.pairings)(&conditions);
        let row = &pairings[0].rows[0];
        let Statistic::Own(_, of) = row.statistic else { panic!("{:?}", row.statistic) };
        let known = analysis::sample::run();
        let mut run = Run::new(sample::run_of_plumb().header);
        assert!(of(&run, row).is_err(), "nothing was measured");
        for (round, bytes, ns) in [(0, 3e9, 1e9), (1, 3e9, 2e9)] {
            let mut samples = known.samples[0].clone();
            samples.metric = "bandwidth".to_owned();
            samples.round = round;
            let told = [("sent_bytes", bytes), ("send_ns", ns)];
            samples.quantities.extend(told.map(|(name, value)| (name.to_owned(), value)));
            run.samples.push(samples);
        }
        assert_eq!(of(&run, row).expect("is told"), 2e9);
        run.samples[1].quantities.remove("send_ns");
        assert!(of(&run, row).is_err(), "a round does not tell its time");
    }

    #[test]
    fn what_differs_depends_on_the_version() {
        let told = |version: &str| {
            let pairings =
                (RIVAL.pairings)(&conditions("epyc-7763-2s", 2, Preset::Standard, version));
            let small = pairings.iter().find(|pairing| pairing.name == "tcp-4k");
            small.expect("is standard's").rows[0].difference
        };
        assert_eq!([told("3.12"), told("3.16")], [AWAKE, WHOLE]);
    }
}
