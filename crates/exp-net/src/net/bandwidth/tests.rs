use super::EXPERIMENT;
use super::ends::{is_burst, run_ns};
use super::reports::Served;
use super::shape::{Begun, Enough};
use crate::net::place::Used;
use crate::net::wire::tests::{complete, only_order, rehearse_both, round};
use crate::net::wire::{Acceptor, Call, NO_PORTS};
use bench::experiment::fixtures::joined::{GIGABIT, joined};
use bench::experiment::fixtures::{recorded, set};
use bench::link::Done;
use bench::prelude::*;
use laws::net::bandwidth::{Bytes, Transfer};
use record::event::Samples;
use session::fixtures::{Rehearsed, offered};
use session::plan::case_ns;
use std::net::UdpSocket;
use std::time::Instant;

/// The metric of a stream, and how long it goes on, in cases of an offer.
fn windows(site: &Site, preset: Preset, set: &[(&str, &str)]) -> Vec<(String, bool, u64)> {
    let offer = offered(&EXPERIMENT, site, preset, set);
    let cases = offer.series.into_iter().flat_map(|series| series.cases);
    let of = |case: Case| {
        let of = Bytes::from_id(&case.id).filter(|of| of.transfer == Transfer::Steady)?;
        let run_ns = run_ns(&of, &case, case_ns(preset));
        Some((case.id.to_string(), is_burst(&of, &case), run_ns))
    };
    cases.filter_map(of).collect()
}

#[test]
fn what_is_called_a_rate_has_half_a_second_in_every_preset() {
    let (here, there) = (recorded("vm-granite-rapids"), joined(GIGABIT, GIGABIT));
    for preset in [Preset::Quick, Preset::Standard, Preset::Thorough] {
        for (id, is_burst, run_ns) in windows(&here, preset, &[]) {
            assert_eq!(is_burst, run_ns < 500_000_000, "{id}: {run_ns}");
            let is_key = id.contains("protocol=tcp") && id.contains("message=131072,");
            assert_eq!(is_burst, !is_key, "{id}");
        }
        let far = windows(&there, preset, &[]);
        assert!(far.iter().all(|(_, is_burst, ns)| !is_burst && *ns >= 500_000_000));
    }
    // As the user says, whatever the case.
    for (time, is_burst) in [("500ms", false), ("499ms", true)] {
        let all = windows(&here, Preset::Standard, &[("time", time)]);
        assert!(all.iter().all(|of| of.1 == is_burst), "{time}: {all:?}");
    }
}

/// Rehearses and holds that every figure that has a prediction was recorded.
fn rehearsed(set: &[(&str, &str)]) -> Rehearsed {
    let rehearsed = rehearse_both(&EXPERIMENT, Preset::Rehearsal, set);
    complete(&EXPERIMENT, &rehearsed);
    rehearsed
}

#[test]
fn streams_and_datagrams_are_counted_in_both_directions() {
    let all = rehearsed(&set("protocol=tcp,udp message=1000 direction=up,down transfer=steady"));
    let rates = all.samples.iter().filter(|of| of.metric == "bandwidth");
    assert_eq!(rates.clone().count(), 4);
    for samples in rates {
        let of = |name: &str| samples.quantities[name];
        if samples.case.text("protocol") == Some("tcp") {
            assert_eq!(of("sent_bytes"), of("received_bytes"));
            assert!(samples.at.contains_key("congestion"));
            for end in ["sender_softirq_cpu", "receiver_softirq_cpu"] {
                assert!(samples.at.contains_key(end), "{:?}", samples.at);
            }
        }
        assert!(of("receive_buffer_bytes") > 0.0 && of("send_buffer_bytes") > 0.0);
        assert!(!samples.notes.is_empty());
        assert!(samples.raw.samples()[0] > 0.0);
    }
}

/// The kernel's counts of all datagrams of this network namespace, others' among them.
fn kernel_counts() -> [f64; 3] {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Udp: "));
    let names: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let values: Vec<&str> = lines.next().unwrap().split(' ').collect();
    ["OutDatagrams", "InDatagrams", "RcvbufErrors"].map(|name| {
        let at = names.iter().position(|of| *of == name).unwrap();
        values[at].parse().unwrap()
    })
}

/// The ends' own counts against the kernel's, which no figure uses.
#[test]
fn no_more_is_sent_or_delivered_or_dropped_than_the_kernel_knows_of() {
    let before = kernel_counts();
    let all = rehearsed(&[("protocol", "udp"), ("message", "1,8000"), ("transfer", "steady")]);
    let after = kernel_counts();
    let losses = || all.samples.iter().filter(|of| of.metric == "loss");
    assert_eq!(losses().count(), 2);
    let sum = |name: &str| losses().map(|of| of.quantities[name]).sum::<f64>();
    let ours = [sum("tried") - sum("refused"), sum("unique"), sum("dropped")];
    for ((ours, before), after) in ours.into_iter().zip(before).zip(after) {
        assert!(ours <= after - before, "{ours} of {}", after - before);
    }
    assert!(ours[0] > 0.0 && ours[1] > 0.0);
    for loss in losses() {
        let value =
            |metric: &str| all.samples_of(&loss.case, metric).expect("recorded").raw.samples()[0];
        // Loopback itself loses nothing.
        assert!(value("loss_path").abs() < 0.02, "{}", loss.case);
    }
}

#[test]
fn several_streams_share_what_their_sum_tells() {
    let all = rehearsed(&[("streams", "3"), ("message", "4KiB"), ("transfer", "steady")]);
    for samples in all.samples.iter().filter(|of| of.metric == "bandwidth") {
        let of = |name: &str| samples.quantities[name];
        let rate = samples.raw.samples()[0];
        assert!(of("stream_least_b_per_s") * 3.0 <= rate * 1.001);
        assert!(of("stream_most_b_per_s") * 3.0 >= rate * 0.999);
    }
}

#[test]
fn the_reports_transfers_are_there() {
    let all = rehearsed(&set(
        "transfer=fixed_16M,fixed_1M,there_and_back,already_there ends=same_cpu,other_cpu",
    ));
    let bytes = |name: &str| {
        let mut of = all.samples.iter().filter(|of| of.metric == "bandwidth");
        let found = of.find(|of| of.case.text("transfer") == Some(name));
        found.expect("recorded").quantities["transfer_bytes"]
    };
    assert_eq!(bytes("fixed_16M"), 16777216.0);
    assert_eq!(bytes("fixed_1M"), 1048576.0);
    assert!(all.samples.iter().any(|of| of.metric == "copy_rate"));
}

/// A rehearsal against a far end that does not keep to the experiment.
fn against(
    set: &[(&str, &str)],
    serve: impl Fn(&mut Acceptor, &mut Call) -> Result<()> + Sync,
) -> (Vec<Samples>, Done) {
    let order = only_order(&EXPERIMENT, Preset::Rehearsal, set);
    round(&EXPERIMENT, &order, |far| {
        Acceptor::open(far)?.serve(far, |acceptor, _, call| serve(acceptor, call))
    })
}

fn until_closed(call: &Call) {
    let until = Instant::now() + Duration::from_secs(20);
    while call.line.is_open() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Instant::now() < until, "the near end hangs");
}

/// A far end that sends back every other datagram.
fn drops(acceptor: &mut Acceptor, call: &mut Call) -> Result<()> {
    let wait = Duration::from_secs(5);
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    call.line.tell(&[socket.local_addr()?.port()])?;
    acceptor.meet(&socket, Instant::now() + wait)?;
    socket.set_read_timeout(Some(Duration::from_millis(5)))?;
    let (mut buffer, mut count) = ([0; 1001], 0);
    while !call.line.speaks(Duration::ZERO)? {
        if let Ok(1000) = socket.recv(&mut buffer) {
            if count % 2 == 1 {
                socket.send(&buffer[..1000])?;
            }
            count += 1;
        }
    }
    call.line.hear::<Enough>(wait)?;
    let used = Used { process_ns: 1, ..Used::default() };
    call.line.tell(&Served { count, used })
}

#[test]
fn what_did_not_come_back_is_in_the_distribution() {
    let set = [("transfer", "there_and_back"), ("protocol", "udp"), ("message", "1000")];
    let (samples, done) = against(&set, drops);
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    let of = |metric: &str, name: &str| {
        let mut all = samples.iter().filter(|of| of.metric == metric);
        all.next().expect("recorded").quantities.get(name).copied()
    };
    let lost = of("bandwidth", "lost_messages").expect("told");
    assert!(lost >= 1.0);
    assert_eq!(of("transfer_time", "censored"), Some(lost));
}

fn fails(direction: &str, serve: impl Fn(&mut Acceptor, &mut Call) -> Result<()> + Sync) -> String {
    let set = [
        ("transfer", "steady"),
        ("protocol", "tcp"),
        ("message", "128KiB"),
        ("direction", direction),
    ];
    let (samples, done) = against(&set, serve);
    assert!(samples.is_empty());
    let [failed] = done.failed.as_slice() else {
        panic!("{:?}", done.failed);
    };
    failed.reason.clone()
}

#[test]
fn a_far_end_that_does_not_go_on_fails_the_case_with_its_reason() {
    let soon = || Instant::now() + Duration::from_secs(5);
    fails("up", |acceptor, call| {
        call.line.tell(&NO_PORTS)?;
        let _held = acceptor.admit(soon())?;
        call.line.tell(&Begun)?;
        until_closed(call);
        Ok(())
    });
    let dies = fails("up", |acceptor, call| {
        call.line.tell(&NO_PORTS)?;
        let held = acceptor.admit(soon())?;
        call.line.tell(&Begun)?;
        std::thread::sleep(Duration::from_millis(20));
        drop(held);
        anyhow::bail!("it was killed")
    });
    assert!(dies.contains("it was killed"), "{dies}");
    fails("down", |acceptor, call| {
        call.line.tell(&NO_PORTS)?;
        let _held = acceptor.admit(soon())?;
        call.line.hear::<Begun>(Duration::from_secs(5))?;
        until_closed(call);
        Ok(())
    });
}
