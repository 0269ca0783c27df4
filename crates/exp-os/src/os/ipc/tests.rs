use super::*;
use bench::experiment::AnyExperiment as _;
use bench::experiment::fixtures::recorded;
use metal::process::Child;
use record::event::Raw;
use record::key::{CaseId, Key};
use session::fixtures::{params, smoke};

fn ids(offer: &Offer) -> Vec<String> {
    let cases = offer.series.iter().flat_map(|series| &series.cases);
    cases.map(|case| case.id.to_string()).collect()
}

fn offered(site: &Site, preset: Preset, set: &[(&str, &str)]) -> Offer {
    EXPERIMENT.series(site, &params(&CARD, preset, set)).expect("something is measurable")
}

#[test]
fn what_the_user_chooses_takes_the_place_of_the_preset_s_values() {
    let site = recorded("vm-granite-rapids");
    let chosen = offered(&site, Preset::Quick, &[("via", "mqueue,eventfd"), ("size", "4KiB")]);
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
    let offer = offered(&site, Preset::Quick, &set);
    let skipped: Vec<String> = offer
        .skipped
        .iter()
        .map(|(id, skip)| format!("{id}: {}", skip.needed.as_deref().unwrap_or_default()))
        .collect();
    let sysctl = |id: &str| skipped.iter().find(|text| text.starts_with(id)).cloned();
    let text = sysctl("via=mqueue,pair=same,size=16384").expect("is skipped");
    assert!(text.ends_with("sysctl fs.mqueue.msgsize_max=16384"));
    assert!(sysctl("via=mqueue,pair=same,size=8192").is_none());
    let text = sysctl("via=unix_datagram,pair=same,size=1048576").expect("is skipped");
    assert!(text.contains("net.core.wmem_default"), "{text}");
    assert!(sysctl("via=unix_datagram,pair=same,size=16384").is_none());
    site.cpus.truncate(1);
    let alone = offered(&site, Preset::Quick, &[]);
    assert_eq!(alone.skipped.len(), 1);
    assert!(alone.skipped[0].1.needed.is_some());
}

#[test]
fn the_derived_prediction_takes_calls_and_switches_as_measured() {
    let site = &recorded("vm-granite-rapids");
    let case = Case::new(CaseId::new().with("via", "pipe").with("pair", "same").with("size", 1u64));
    let of = |known: &Known| EXPERIMENT.predict(site, Some(known), &case, &CARD.metrics[0]);
    let mut known = Known::default();
    assert!(of(&known).is_none());
    let call = CaseId::new().with("call", "getpid");
    known.insert(Key::new("os.syscall", &call, "latency"), 100.0);
    let calls = of(&known).expect("told").range.expect("told");
    let switch =
        CaseId::new().with("via", "pipe").with("parties", "processes").with("pair", "same");
    for (metric, ns) in [("handover", 1500.0), ("one_party", 400.0), ("switch", 1100.0)] {
        known.insert(Key::new("os.switch", &switch, metric), ns);
    }
    let both = of(&known).expect("told").range.expect("told");
    // The calls once, and not again in the hand-over that holds them.
    assert!(both.likely > 4.0 * 100.0 + 2.0 * 1100.0, "{both:?}");
    assert!(both.likely < 4.0 * 100.0 + 2.0 * 1500.0, "{both:?}");
    assert!(both.high / both.low < calls.high / calls.low);
}

const COUNTER: usize = 8;

/// Sends messages both ways by a mechanism, and one way, to a child on this thread's CPU.
fn talk<P: Party>(ends: [P; 2], bytes: usize) {
    let cpu = place::current_cpu();
    let mut peer = Peer::start(ends, bytes, cpu).expect("starts");
    peer.round_trips(3).expect("come back");
    let clock = bench::measure::Clock::Monotonic;
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
    let error = peer.round_trips(3).expect_err("the third is another");
    assert!(error.to_string().contains("not the one sent"), "{error}");
}

#[test]
fn a_party_that_cannot_go_to_its_cpu_is_an_error_and_leaves_no_child() {
    let ends = Descriptors::pair(Via::Pipe).expect("is made");
    let error = Peer::start(ends, 1, 100_000).err().expect("no such CPU");
    assert!(error.to_string().contains("the other party"), "{error}");
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
