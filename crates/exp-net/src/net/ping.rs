//! How long do ICMP echoes take, compared with round trips through sockets?
//!
//! ## Question
//!
//! How long does an echo of 56 bytes take, to this host's own loopback address and to the hosts of
//! `--peer`? How much of that time belongs to the network and the kernels, and how much to the
//! waiting thread? How much longer is a round trip between two processes over TCP and UDP?
//!
//! ## Method
//!
//! One pinned thread sends echoes over its own socket and blocks until each reply arrives, before
//! it sends the next. If a group of the process is in `net.ipv4.ping_group_range`, that is a
//! datagram socket, which needs no privileges; else a raw one, which needs CAP_NET_RAW; without
//! either the experiment is skipped. `at` records which (`access`). A reply counts only if type,
//! code, identifier, sequence number and every byte of the payload match; the payload begins with a
//! random tag of the round. On a raw socket the kernel drops other programs' replies by a filter on
//! the identifier, as for ping. No process runs at the far end: its kernel replies, in the
//! interrupt that delivered the echo.
//!
//! Four times are taken of each echo: `CLOCK_REALTIME` and the counter before the send call, the
//! kernel's timestamp of the reply (SO_TIMESTAMPNS, when its network stack received the packet),
//! and the counter and `CLOCK_REALTIME` after the receive call. `round_trip` is from counter to
//! counter, `kernel_round_trip` from the first time to the kernel's timestamp, as ping prints.
//! `wake_up` is from the timestamp to the last time. Because of the clock reads the last two add up
//! to slightly more than `round_trip`. If the wall clock is set around an echo, that echo is left
//! out, with a note. The first echoes of a case only warm up caches, neighbour tables, and the
//! kernel's timestamps, which the kernel turns on at the first request.
//!
//! An echo without a reply within 50 times the slowest of the warm-up (at least 20 ms, at most 1 s;
//! recorded with the figure) is lost: it counts in the distributions as longer than all that came
//! back (censored), and in `loss`. The wait for lost echoes is added to the window, up to eight
//! windows and two of these times, because a window that ended with its first loss would overstate
//! the loss. A late reply is not taken for the next one's.
//!
//! ## Prediction
//!
//! Loopback: a system call, a packet allocated, answered in the software interrupt of the same
//! call, and another system call that receives it: about 3,000 to 25,000 cycles, no link and no
//! wake-up. A peer: the link (rate, MTU, switches), the interrupt coalescing of both cards, the
//! peer's kernel, and the wake-up of this end's thread by an interrupt; a radio or a gateway widens
//! the interval. After a pause caches are cold and CPUs asleep. Derived: with os.syscall the calls
//! are known; with net.rtt an echo is its round trip less the cost of the socket at the far end.
//! `tcp_over_ping` and `udp_over_ping` are the network stacks of both ends. Loopback loses nothing.
//!
//! ## Reading the result
//!
//! `kernel_round_trip` equals ping's times at the same interval, less ping's own work between its
//! clock read and the kernel (a checksum) and the cache misses that its output line causes: a
//! twelfth of 1.2 µs on loopback. `wake_up` is the cost of waking the waiting thread, which ping
//! leaves out and every program pays. `tcp_over_ping` and `udp_over_ping` (if net.rtt measured 56
//! or 64 bytes with the same arrivals) are the cost of a process at the far end, compared with an
//! interrupt handler that replies. `sparse` over `saturated` shows cold caches and sleeping CPUs;
//! in ping's pause of a second, for which no round has time, they sleep more deeply. Notes report
//! the number of routers on the path, and whether echoes were sent in fragments.
//!
//! ## Pitfalls
//!
//! An echo is a lower bound for programs, and no measure of a loaded path: routers answer and
//! forward ICMP by separate rules, and policers drop it first. Echoes without pauses through
//! routers therefore measure policers (`loss`); pause at least a millisecond. Linux rate-limits its
//! ICMP errors, not its replies to echoes (`net.ipv4.icmp_ratemask`). If a peer's firewall or
//! `net.ipv4.icmp_echo_ignore_all` suppresses all replies, the case fails with that reason.
//! Payloads longer than the link's packets are sent in fragments; one lost fragment loses the echo,
//! and some firewalls drop fragments. IPv6 counts 20 bytes more. The timestamp is the kernel's, not
//! the card's: delayed interrupts (coalescing) are part of `kernel_round_trip`. plumb never
//! compares the clocks of two hosts. Half a round trip is not the one-way time.
//!
//! ## Sources
//!
//! [R0], [R1] and [R2]: "round trip time" with ping beside TCP; [iputils] (ping takes its time
//! before sendmsg and from SO_TIMESTAMP); [rfc] 792, 4443; [linux] net/ipv4/ping.c,
//! Documentation/networking/timestamping and ip-sysctl; the list of slips on R0's ping (213 µs
//! against 465 µs by TCP) and R1's summary.

mod measured;

use bench::experiment::contract::one_series;
use bench::experiment::{CaseId, FAR, FAR_PARAM, LOOPBACK, lacks_loopback, windows_round_cost};
use bench::prelude::*;
use host::net::Echoes as Granted;
use host::net::LoopbackFault::NoPort;
use laws::net::ping::{self as law, Echoes, Ip};
use laws::net::rtt::Arrivals;
use laws::net::{Protocol, Transport, Way};
use std::net::IpAddr;

bench::experiment!(Ping);

/// Echoes of a sparse case are at least so far apart, in ns.
const INTERVAL_MIN_NS: u64 = 1_000_000;
const USUAL_BYTES: u64 = 56;
/// What the first echoes to another host may take beyond the windows.
const LINK: Duration = Duration::from_millis(20);
/// What sockets are compared with.
const OVER_PING: [(Protocol, &str); 2] =
    [(Protocol::Tcp, "tcp_over_ping"), (Protocol::Udp, "udp_over_ping")];

static CARD: Card = Card {
    id: "net.ping",
    title: "ICMP echoes",
    metrics: metrics! {
        "round_trip" => Ns Lower Os:
            "from just before the send call until the thread has the reply";
        "kernel_round_trip" => Ns Lower Os:
            "from just before the send call until the kernel received the reply, as ping prints";
        "wake_up" => Ns Lower Os: "from the kernel's timestamp until the thread has the reply";
        "loss" => Ratio Lower Os: "share of echoes without a reply in time";
        "tcp_over_ping" => derived Ns Lower Os:
            "net.rtt's TCP round trip of 56 or 64 bytes, less `round_trip`";
        "udp_over_ping" => derived Ns Lower Os:
            "net.rtt's UDP round trip of 56 or 64 bytes, less `round_trip`";
    },
    params: params![
        &[FAR_PARAM],
        Echoes::PARAMS,
        settings! {
            "interval": Domain::ns(INTERVAL_MIN_NS, 1_000_000_000), ["1ms"; 3] =>
                "time between the starts of two sparse echoes";
        },
    ],
    after: &["clock.rate", "os.syscall", "net.rtt"],
    views: &[ViewCard::bars("round_trip").each(&["far"])],
    keys: &[KeyFigure::new("ping", "", "round_trip", "ip=v4,message=56,arrivals=saturated")],
    ..Card::PLAIN
};

impl Experiment for Ping {
    type Case = Echoes;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("ping.rs");
    const SHARES: &'static [&'static str] = &["loss"];
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        windows_round_cost(site, series.cases.len()) + LINK * u32::from(site.peer.is_some())
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Echoes> {
        let is_short = preset <= Preset::Quick;
        let versions: &[Ip] = match site.peer.as_ref().map(|peer| peer.address) {
            Some(IpAddr::V4(_)) => &[Ip::V4],
            Some(IpAddr::V6(_)) => &[Ip::V6],
            None if is_short => &[Ip::V4],
            None => Ip::ALL,
        };
        let sizes =
            if preset == Preset::Thorough { &[USUAL_BYTES, 8192][..] } else { &[USUAL_BYTES] };
        let all_arrivals = match (is_short, site.peer.is_some()) {
            (true, false) => &[Arrivals::Saturated],
            (true, true) => &[Arrivals::Sparse],
            (false, _) => Arrivals::ALL,
        };
        let mut cases = Vec::new();
        for &ip in versions {
            for &message in sizes {
                let each = all_arrivals.iter();
                cases.extend(each.map(|&arrivals| Echoes { ip, message, arrivals }));
            }
        }
        cases
    }

    fn absent(site: &Site, case: &Echoes, _: &Params) -> Option<Skip> {
        if site.peer.as_ref().is_some_and(|peer| peer.address.is_ipv6() != (case.ip == Ip::V6)) {
            return Some(Skip::because("the peer is reached over the other IP version"));
        }
        let far = site.peer.as_ref().map_or(&site.host.net, |peer| &peer.host.net);
        let (at, sysctl) = match case.ip {
            Ip::V4 => (0, "net.ipv4.icmp_echo_ignore_all"),
            Ip::V6 => (1, "net.ipv6.icmp.echo_ignore_all"),
        };
        if far.ignores_echoes[at] {
            let skip = Skip::because(format!("{} ignores ICMP echoes", site.far()));
            return Some(skip.needs(format!("`sysctl {sysctl}=0` there")));
        }
        // Echoes need no port.
        let fault = site.host.net.loopback_fault.filter(|fault| *fault != NoPort);
        if site.peer.is_none() && case.ip == Ip::V4 && fault.is_some() {
            return lacks_loopback(&site.host);
        }
        let lacks_v6 = case.ip == Ip::V6 && site.peer.is_none() && !site.host.net.has_loopback_v6;
        lacks_v6.then(|| {
            Skip::because("the loopback device has no IPv6 address")
                .needs("`sysctl net.ipv6.conf.lo.disable_ipv6=0` and a kernel with IPv6")
        })
    }

    fn series(site: &Site, cases: Vec<Echoes>, params: &Params) -> Result<Offer, Skip> {
        if site.host.net.echoes == Some(Granted::Refused) {
            let skip = Skip::because("the kernel grants this process no ICMP socket");
            return Err(skip.needs(
                "`sysctl net.ipv4.ping_group_range=\"0 2147483647\"`, or CAP_NET_RAW in the user \
                 namespace that the network belongs to (root has it there)",
            ));
        }
        Ok(one_series::<Ping>(site, cases, params))
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        let way = Way::for_site(site);
        for case in &mut series.cases {
            let frames = way.frames(Transport::Icmp, case.int("message").unwrap_or(USUAL_BYTES));
            if frames.count > 1 {
                case.at.put("fragments", frames.count);
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Echoes, _: &Case, metric: &Metric) -> Option<Prediction> {
        let (site, way) = (facts.site, case.way(facts.site));
        if metric.name == "loss" {
            return facts.known.is_none().then(|| law::loss(&way).prediction());
        }
        if metric.name == "round_trip" && is_comparable(site.peer.is_some(), case) {
            let rtt = |protocol| {
                let told = law::measured_rtt(facts, site.far(), protocol, case.arrivals);
                told.map(|told| (told, protocol))
            };
            // UDP is nearest to an echo.
            let measured = rtt(Protocol::Udp).or_else(|| rtt(Protocol::Tcp));
            let left = measured.and_then(|(told, by)| law::less_socket(site, told, by, &way));
            if let Some(left) = left {
                return Some(left.prediction());
            }
        }
        if !law::adds(facts) {
            return None;
        }
        let parts = law::parts(facts, case);
        let law = match &*metric.name {
            "kernel_round_trip" => parts.kernel,
            "wake_up" => parts.wake_up,
            _ => parts.whole(),
        };
        Some(law.prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let interval_ns = series.setting("interval").unwrap_or(INTERVAL_MIN_NS);
        bench.each_of::<Echoes>(series, |bench, case, of| {
            measured::case(case, &of, interval_ns, bench)
        });
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let cases = series.iter().flat_map(|series| &series.cases);
        cases.map(|case| case.id.clone()).filter(|id| comparable(id).is_some()).collect()
    }

    fn derived_law(facts: Facts, id: &CaseId, metric: &Metric) -> Option<Prediction> {
        let case = comparable(id)?;
        let (protocol, _) = *OVER_PING.iter().find(|(_, name)| *name == metric.name)?;
        if facts.known.is_none() {
            let way = case.way(facts.site);
            return Some(law::socket_cost(facts.site, protocol, &way).prediction());
        }
        let far = facts.site.far();
        let (ns, _) = law::measured_rtt(facts, far, protocol, case.arrivals)?;
        let ping = law::parts(facts, &case).whole();
        Some(law::left_of(ns, protocol, ping).prediction())
    }

    fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
        let facts = Facts { site, known: Some(known) };
        let mut derived = Vec::new();
        for (id, ping_ns) in values.figures(CARD.id, "round_trip") {
            let (Some(case), Some(far)) = (comparable(id), id.text(FAR)) else {
                continue;
            };
            for (protocol, metric) in OVER_PING {
                let told = law::measured_rtt(facts, far, protocol, case.arrivals);
                derived.extend(told.map(|(ns, ends)| {
                    let mut value = DerivedValue::new(id.clone(), metric, ns - ping_ns);
                    value.at.put("ends", ends.text());
                    value
                }));
            }
        }
        derived
    }
}

/// Whether net.rtt has a figure like it: of as many bytes, and on loopback by IPv4.
fn is_comparable(is_remote: bool, case: &Echoes) -> bool {
    case.message == USUAL_BYTES && (is_remote || case.ip == Ip::V4)
}

/// The case of an identity that net.rtt has a figure like.
fn comparable(id: &CaseId) -> Option<Echoes> {
    let is_remote = id.text(FAR) != Some(LOOPBACK);
    Echoes::from_id(id).filter(|case| is_comparable(is_remote, case))
}

#[cfg(test)]
mod tests;
