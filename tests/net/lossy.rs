//! A cable that loses: what plumb says was lost, and where, is what the kernels and nft counted.

use crate::agents::{Agent, Recorded, url};
use crate::attempts;
use crate::lab::{End, Lab};
use serde_json::Value;

/// Bytes of a message, and of the datagram by the head's count.
const MESSAGE: u32 = 1024;
const DATAGRAM: u32 = MESSAGE + 8;

/// Counts the packets that fit and come in; then those that `verdict` is about.
fn rules(fits: &str, verdict: &str) -> String {
    format!(
        "table inet lab {{\n counter came {{ }}\n counter lost {{ }}\n\
         chain in {{\n type filter hook prerouting priority 0;\n\
         {fits} counter name came\n{fits} {verdict}\n }}\n}}\n"
    )
}

/// One packet in five goes no further, by a count and not by chance.
const LOSING: &str = "numgen inc mod 5 == 3 counter name lost drop";
/// One in fifty: each echo that is lost is waited for.
const LOSING_FEW: &str = "numgen inc mod 50 == 3 counter name lost drop";

/// Datagrams of this size from the near end.
fn datagrams() -> String {
    format!("ip daddr {} udp length {DATAGRAM}", crate::lab::FAR)
}

fn bandwidth(lab: &Lab, interval: &str) -> Recorded {
    let settings = format!(
        "interval={interval} message={MESSAGE} protocol=udp streams=1 direction=up transfer=steady"
    );
    let run = lab.run("net.bandwidth", &url(), &settings);
    assert_eq!(run.answer.code, Some(0), "{:?}", run.answer);
    adds_up(&run);
    run
}

/// The parts are the whole, in each round.
fn adds_up(run: &Recorded) {
    let whole = run.values("loss", &[]);
    assert!(!whole.is_empty());
    let parts = ["loss_sender", "loss_path", "loss_receiver"].map(|part| run.values(part, &[]));
    for (round, loss) in whole.iter().enumerate() {
        let each = [parts[0][round], parts[1][round], parts[2][round]];
        // Values are written with seven digits.
        let sum: f64 = each.iter().sum();
        assert!((sum - loss).abs() < 1e-6, "{each:?} of {loss}");
        assert!(each.iter().all(|part| (0.0..=1.0).contains(part)), "{each:?}");
    }
}

fn sum(run: &Recorded, metric: &str, quantity: &str) -> u64 {
    let samples = run.samples(metric, &[]).into_iter();
    let of = samples.map(|samples| samples["quantities"][quantity].as_f64());
    of.map(|value| value.unwrap_or_else(|| panic!("{metric} has no {quantity}"))).sum::<f64>()
        as u64
}

/// Two counts of the same, which are printed; a round that did not count makes them differ.
fn same(what: &str, run: &Recorded, ours: u64, theirs: u64) -> Result<(), String> {
    println!("{what}: plumb {ours}, counted {theirs}");
    if ours == theirs {
        return Ok(());
    }
    let void = run.rounds().iter().filter(|round| round["status"] != "ok").count();
    Err(format!("{what}: {ours} is not {theirs}; {void} rounds are void"))
}

/// What is between sent and arrived.
fn on_the_way(run: &Recorded) -> u64 {
    let of = |quantity| sum(run, "loss", quantity);
    of("tried") - of("refused") - of("unique") - of("dropped")
}

#[test]
fn datagrams_that_the_way_loses() {
    let lab = Lab::new();
    lab.filter(End::Far, &rules(&datagrams(), LOSING));
    let agent = Agent::start(&lab);
    attempts("path", || {
        let before = ["came", "lost"].map(|counter| lab.counted(End::Far, counter));
        let run = bandwidth(&lab, "50us");
        let [came, lost] = [("came", before[0]), ("lost", before[1])]
            .map(|(counter, before)| lab.counted(End::Far, counter) - before);
        assert!(came > 100 && lost > 20, "{came}, {lost}");
        same("sent", &run, sum(&run, "bandwidth", "sent_messages"), came)?;
        same("lost on the way", &run, on_the_way(&run), lost)?;
        for share in run.values("loss_path", &[]) {
            assert!((share - 0.2).abs() < 0.05, "one in five: {share}");
        }
        Ok(())
    });
    agent.leaves(&lab);
}

/// A line of /proc/net/snmp's table of UDP.
fn udp_count(lab: &Lab, end: End, name: &str) -> u64 {
    let table = lab.in_net(end, "cat", &["/proc/net/snmp"]);
    let mut lines = table.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|word| word == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn datagrams_that_the_receiver_has_no_room_for() {
    let lab = Lab::new();
    lab.filter(End::Far, &rules(&datagrams(), "accept"));
    let agent = Agent::start(&lab);
    attempts("receiver", || {
        let before = udp_count(&lab, End::Far, "RcvbufErrors");
        let came = lab.counted(End::Far, "came");
        // Faster than anybody can take them.
        let run = bandwidth(&lab, "0ns");
        let dropped = udp_count(&lab, End::Far, "RcvbufErrors") - before;
        let came = lab.counted(End::Far, "came") - came;
        let sent = sum(&run, "bandwidth", "sent_messages");
        println!("sent: plumb {sent}, came {came}; rounds: {}", run.rounds().len());
        same("no room", &run, sum(&run, "loss", "dropped"), dropped)?;
        // A veth pair has no room either where its own queue is full.
        same("lost on the way", &run, on_the_way(&run), sent.saturating_sub(came))
    });
    agent.leaves(&lab);
}

/// Packets that the near end's shaper had no room for.
fn shaper_drops(lab: &Lab) -> u64 {
    let told = lab.in_net(End::Near, "tc", &["-s", "-j", "qdisc", "show", "dev", "eth0"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    told[0]["drops"].as_u64().unwrap()
}

#[test]
fn datagrams_that_the_senders_host_refuses() {
    let lab = Lab::new();
    // Less room than a socket's send buffer has.
    let (rate, room) = ("20mbit", "30000");
    lab.in_net(
        End::Near,
        "tc",
        &[
            "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "16384",
            "limit", room,
        ],
    );
    let agent = Agent::start(&lab);
    attempts("sender", || {
        let before = shaper_drops(&lab);
        let run = bandwidth(&lab, "20us");
        let drops = shaper_drops(&lab) - before;
        let refused = sum(&run, "loss", "refused");
        assert!(refused > 0);
        same("lost on the way", &run, on_the_way(&run), 0)?;
        // A segment of the ends' own words may be among them.
        println!("refused: plumb {refused}, dropped by the shaper {drops}");
        match drops.checked_sub(refused) {
            Some(0..=20) => Ok(()),
            _ => Err(format!("{refused} is not {drops}")),
        }
    });
    agent.leaves(&lab);
}

#[test]
fn round_trips_of_datagrams_that_are_lost_count_as_long() {
    let lab = Lab::new();
    lab.filter(End::Far, &rules(&datagrams(), LOSING));
    let agent = Agent::start(&lab);
    let settings = format!(
        "message={MESSAGE} protocol=udp connections=1 receiver=blocking arrivals=saturated \
         exchange=echo"
    );
    attempts("round trips", || {
        let before = lab.counted(End::Far, "lost");
        let run = lab.run("net.rtt", &url(), &settings);
        assert_eq!(run.answer.code, Some(0), "{:?}", run.answer);
        let lost = lab.counted(End::Far, "lost") - before;
        are_censored(&run, "round_trip");
        // Those of warm-ups are not in the record.
        let there = sum_of_quantity(&run, "round_trip", "lost_there");
        println!("lost there: plumb {there}, nft {lost}");
        assert_eq!(sum_of_quantity(&run, "round_trip", "lost_back"), 0.0);
        if 0.0 < there && there <= lost as f64 { Ok(()) } else { Err(format!("{there} of {lost}")) }
    });
    agent.leaves(&lab);
}

#[test]
fn echoes_that_are_lost_count_as_long() {
    let lab = Lab::new();
    lab.filter(End::Far, &rules("icmp type echo-request", LOSING_FEW));
    let agent = Agent::start(&lab);
    let run = lab.run("net.ping", &url(), "arrivals=saturated");
    assert_eq!(run.answer.code, Some(0), "{:?}", run.answer);
    are_censored(&run, "round_trip");
    are_censored(&run, "kernel_round_trip");
    let record = lab.records().pop().unwrap();
    let plumb = env!("CARGO_BIN_EXE_plumb");
    let report = lab.in_net(End::Near, plumb, &["report", record.to_str().unwrap()]);
    assert!(report.contains("never ended"), "{report}");
    for share in run.values("loss", &[]) {
        assert!((0.0..=0.5).contains(&share), "one in fifty: {share}");
    }
    assert!(run.values("loss", &[]).iter().any(|share| *share > 0.0));
    agent.leaves(&lab);
}

/// What never came back is in the distribution, above all that did.
#[track_caller]
fn are_censored(run: &Recorded, metric: &str) {
    let above: u64 =
        run.histograms(metric).iter().map(|histogram| histogram["above"].as_u64().unwrap()).sum();
    assert!(above > 0, "{metric}");
    let told = run.answer.json();
    let mut figures = told["figures"].as_array().unwrap().iter();
    let figure = figures.find(|figure| figure["metric"] == metric).unwrap();
    let notes = figure["notes"].to_string();
    assert!(notes.contains("never ended (lost"), "{figure}");
}

fn sum_of_quantity(run: &Recorded, metric: &str, quantity: &str) -> f64 {
    let samples = run.samples(metric, &[]).into_iter();
    let of = samples.filter_map(|samples| samples["quantities"][quantity].as_f64());
    of.sum()
}
