use super::*;
use bench::experiment::fixtures::recorded;
use metal::process::Child;
use record::event::Raw;
use session::fixtures::{ids, offered, smoke};

#[test]
fn what_the_user_chooses_takes_the_place_of_the_preset_s_values() {
    let site = recorded("vm-granite-rapids");
    let chosen =
        offered(&EXPERIMENT, &site, Preset::Quick, &[("via", "mqueue,eventfd"), ("size", "4KiB")]);
    assert_eq!(
        ids(&chosen),
        [
            "via=mqueue,pair=same,size=4096",
            "via=mqueue,pair=llc,size=4096",
            "via=eventfd,pair=same,size=8",
            "via=eventfd,pair=llc,size=8",
        ]
    );
}

#[test]
fn what_a_site_does_not_take_is_skipped_with_the_setting_to_change() {
    let mut site = recorded("vm-granite-rapids");
    site.host.limits.message_bytes = Some(8192);
    let set = [("via", "mqueue,unix_datagram"), ("size", "8KiB,16KiB,1MiB")];
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &set);
    let needed: Vec<(String, bool)> = offer
        .skipped
        .iter()
        .map(|(id, skip)| (id.to_string(), skip.needed.is_some()))
        .filter(|(id, _)| id.contains("pair=same"))
        .collect();
    let expected = ["mqueue,pair=same,size=16384", "mqueue,pair=same,size=1048576"]
        .into_iter()
        .chain(["unix_datagram,pair=same,size=1048576"])
        .map(|id| (format!("via={id}"), true));
    assert_eq!(needed, expected.collect::<Vec<_>>());
    site.cpus.truncate(1);
    let alone = offered(&EXPERIMENT, &site, Preset::Quick, &[]);
    assert_eq!(alone.skipped.len(), 1);
    assert!(alone.skipped[0].1.needed.is_some());
}

const COUNTER: usize = 8;

/// Sends messages both ways by a mechanism, and one way, to a child on this thread's CPU.
fn talk<P: Party>(ends: [P; 2], bytes: usize) {
    let cpu = place::current_cpu();
    let mut peer = Peer::start(ends, bytes, cpu).expect("starts");
    peer.round_trips(3).expect("come back");
    let clock = Clock::Monotonic;
    // A counter adds up what it is given before it is read.
    let counts: &[u64] = if bytes == COUNTER { &[] } else { &[1, 300] };
    for &count in counts {
        assert!(peer.deliver(count, clock).expect("arrive") > 0.0);
    }
    peer.round_trips(2).expect("come back");
    peer.stop().expect("ends well");
}

#[test]
fn messages_of_every_mechanism_arrive_whole() {
    for bytes in [1, 2, 4096, 100_000] {
        for via in [Via::Pipe, Via::UnixStream, Via::UnixDatagram, Via::Socketpair] {
            talk(Descriptors::pair(via).expect("is made"), bytes);
        }
        talk(Rings::pair(RING_BYTES).expect("is made"), bytes);
    }
    talk(Descriptors::pair(Via::Eventfd).expect("is made"), COUNTER);
    // A sandbox may have no queues; the one of this host's limits has.
    if let Ok(queues) = Queues::pair(64) {
        talk(queues, 64);
    }
}

/// Delivers what it is given, but for the third message.
struct Forger(Descriptors, u32);

impl Party for Forger {
    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        self.1 += 1;
        match self.1 {
            3 => self.0.send(&vec![0; message.len()]),
            _ => self.0.send(message),
        }
    }

    fn receive(&mut self, message: &mut [u8]) -> std::io::Result<()> {
        self.0.receive(message)
    }
}

#[test]
fn a_changed_message_is_found() {
    let forgers = || Descriptors::pair(Via::Socketpair).expect("is made").map(|end| Forger(end, 0));
    let cpu = place::current_cpu();
    let mut peer = Peer::start(forgers(), 16, cpu).expect("starts");
    peer.round_trips(2).expect("the first two are whole");
    peer.round_trips(1).expect_err("the third is another");
}

#[test]
fn a_party_that_cannot_go_to_its_cpu_is_an_error_and_leaves_no_child() {
    let ends = Descriptors::pair(Via::Pipe).expect("is made");
    assert!(Peer::start(ends, 1, 100_000).is_err(), "there is no such CPU");
    // Reaped: a child that is made now is this thread's only one to wait for.
    Child::fork(|| 0).expect("forks").succeed().expect("ends");
}

#[test]
fn it_measures_and_bandwidth_is_recorded_in_batches() {
    for samples in smoke(&EXPERIMENT) {
        match (samples.metric.as_str(), &samples.raw) {
            ("round_trip", Raw::Quartets { k, n, .. }) => assert!(*k > 0 && !n.is_empty()),
            ("bandwidth", Raw::Batch { k, values }) => {
                // A quartet's difference covers two messages at least.
                assert!(*k >= 2 && values.len() == 1 && values[0].is_finite());
            }
            other => panic!("{}: {other:?}", samples.case),
        }
    }
}
