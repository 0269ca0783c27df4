//! `ping` (iputils): ICMP echoes.

use super::loopback::{Ends, near_end};
use crate::table::{Entry, TIME};
use crate::{Conditions, Goal, Output, Pairing, Rival, Statistic};
use bench::experiment::{Preset, Skip};
use host::net::Echoes;

pub static RIVAL: Rival = Rival::new("ping", &["ping"], pairings, parse)
    .about("ICMP echoes (iputils)")
    .package("iputils-ping")
    .version(&["-V"], version);

/// Echoes a second of `-A` on loopback; a count, because ping says a line of each.
const ECHOES_PER_S: f64 = 20_000.0;
/// Echoes that only warm up, as plumb's.
const WARM_UP: usize = 20;
const MEAN: &str = "mean of time=";
const DIFFERENCE: &str = "Both read the clock before the send call and use the kernel's timestamp \
    of the answer. ping reads the clock before it computes the checksum, sends to an address \
    instead of on a connected socket, polls, and prints a line after each echo, so the next one \
    finds colder caches. On loopback these are 0.08 of its 1.2 us: 0.03 for the address, 0.05 for \
    the line and poll. Its times are whole us; their mean is not.";

fn version(said: &Output) -> Option<String> {
    let first = said.stdout.lines().next()?;
    let (_, version) = first.split_once("iputils")?;
    let version = version.trim_start_matches([' ', '-', 's']).trim();
    (!version.is_empty()).then(|| version.to_owned())
}

const TABLE: [Entry; 1] = [near_end("ping", "net.ping")
    .named("adaptive", Preset::Rehearsal)
    .asked("-A -n -c {count} -w 20 -s 56 127.0.0.1", "ip=v4 message=56 arrivals=saturated")
    .beside(&[TIME
        .metric("kernel_round_trip")
        .in_case("arrivals=saturated", MEAN)
        .taken(Statistic::MeanOfAll)
        .goal(Goal::AtMost)
        .differs(DIFFERENCE)])];

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let count = (conditions.seconds * ECHOES_PER_S) as u64;
    let places = vec![("count", count.to_string())];
    let ends = Ends::one_cpu(conditions);
    let pairing =
        |entry: &Entry| ends.place(entry.pairing(conditions, &places)).unless(refused(conditions));
    TABLE.iter().map(pairing).collect()
}

/// Why echoes cannot be sent, or are not answered.
fn refused(conditions: &Conditions) -> Option<Skip> {
    let net = &conditions.host.net;
    match (net.echoes, net.ignores_echoes[0]) {
        // For others it leaves 2 ms between echoes, older ones 200 ms.
        _ if !conditions.is_root => {
            Some(Skip::because("ping sends echoes without pause for root alone").needs("root"))
        }
        (Some(Echoes::Refused), _) => Some(
            Skip::because("the kernel grants plumb no ICMP socket")
                .needs("`sysctl net.ipv4.ping_group_range=\"0 2147483647\"`, or root"),
        ),
        (_, true) => Some(
            Skip::because("this host leaves echoes unanswered")
                .needs("`sysctl net.ipv4.icmp_echo_ignore_all=0`"),
        ),
        _ => None,
    }
}

/// The mean of the times of its lines, in ns: its own is cut to whole µs.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    if what != MEAN {
        return Err("no such value is read".to_owned());
    }
    let answers = said.stdout.lines().filter(|line| line.contains(" bytes from "));
    let times: Vec<f64> = answers.map(time).collect::<Result<_, _>>()?;
    let told = said.stdout.lines().find_map(|line| {
        let (_, rest) = line.split_once(" packets transmitted, ")?;
        rest.split_whitespace().next()?.parse::<usize>().ok()
    });
    let told = told.ok_or("no line with the number of received packets")?;
    if told != times.len() {
        return Err(format!("{told} packets received, but {} lines for them", times.len()));
    }
    match times.get(WARM_UP..) {
        Some(times) if !times.is_empty() => {
            Ok(1e6 * times.iter().sum::<f64>() / times.len() as f64)
        }
        _ => Err(format!("{told} answers are not enough")),
    }
}

/// The time of an answer, in ms.
fn time(answer: &str) -> Result<f64, String> {
    let (_, rest) = answer.split_once("time=").ok_or("an answer without its time")?;
    let ms = rest.trim_end().strip_suffix(" ms").unwrap_or_default();
    ms.parse().map_err(|_| "an answer's time is not a number of ms".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{MEAN, RIVAL};
    use crate::rivals::loopback::tests::{check, conditions};
    use crate::tests::{reads, refuses, text, versions};
    use bench::experiment::Preset;
    use host::net::Echoes;

    #[test]
    fn versions_are_read() {
        let files = [
            ("20210202-version.txt", "20210202"),
            ("20221126-version.txt", "20221126"),
            ("20240905-version.txt", "20240905"),
        ];
        let old = ("ping utility, iputils-s20190709\n", Some("20190709"));
        versions(&RIVAL, &files, &[old, ("ping (GNU inetutils) 2.4", None)]);
    }

    #[test]
    fn the_mean_of_its_lines_is_read_without_the_first() {
        let told = [
            ("20210202-adaptive.txt", MEAN, 2300.0),
            ("20221126-adaptive.txt", MEAN, 1300.0),
            ("20240905-adaptive.txt", MEAN, 1200.0),
        ];
        reads(&RIVAL, &told);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let whole = text(&RIVAL, "20221126-adaptive.txt");
        refuses(&RIVAL, "mdev", &[&whole]);
        let broken = [
            "",
            &text(&RIVAL, "20221126-unanswered.txt"),
            &whole.lines().take(20).collect::<Vec<_>>().join("\n"),
            &whole.replace("icmp_seq=7 ttl=64 time=0.001", "icmp_seq=7 ttl=64 time=fast"),
            &whole.replace("30 received", "31 received"),
            &whole.replacen(" ms\n", " ms (DUP!)\n", 9),
            &whole.replacen("64 bytes from", "an answer from", 1),
        ];
        refuses(&RIVAL, MEAN, &broken);
    }

    #[test]
    fn it_runs_where_plumb_may_send_echoes() {
        let [one, two] = check(&RIVAL, "20221126");
        assert_eq!((one.len(), two.len()), (1, 1));
        let mut conditions = conditions("epyc-7763-2s", 2, Preset::Quick, "20221126");
        conditions.host.net.echoes = Some(Echoes::Refused);
        let skip = (RIVAL.pairings)(&conditions).remove(0).skip;
        assert!(skip.expect("no socket").reason.contains("ICMP"));
        conditions.host.net.echoes = Some(Echoes::Raw);
        conditions.host.net.ignores_echoes[0] = true;
        assert!((RIVAL.pairings)(&conditions).remove(0).skip.is_some());
    }
}
