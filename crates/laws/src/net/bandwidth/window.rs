//! What may be on its way at a time: no more than the sender keeps and the receiver has room for,
//! once a round trip.

use super::Flow;
use crate::net::{Kind, Transport, Way, least, round_trip};
use crate::{Law, inverse, product, range, scaled};
use bench::experiment::Site;
use record::event::Range;

/// Default maximum of the buffers, in bytes: Linux has 6 MiB and 4 MiB on hosts with memory enough,
/// other systems from 64 KiB.
const USUAL_RECEIVE: Range = range(6.5e4, 6_291_456.0, 3.4e7);
const USUAL_SEND: Range = range(6.5e4, 4_194_304.0, 3.4e7);
/// Share of a receive buffer that is advertised as a window (tcp_adv_win_scale, since Linux 6.6
/// what segments really fill), and of a send buffer that is payload.
const WINDOW_SHARE: Range = range(0.25, 0.5, 1.0);
const PAYLOAD_SHARE: Range = range(0.35, 0.7, 1.0);

/// All streams' bytes a second, once their windows have grown; none of loopback and of datagrams.
pub(super) fn rate(site: &Site, way: &Way<'_>, flow: &Flow) -> Option<Law> {
    let peer = site.peer.as_ref()?;
    if flow.is_udp() || way.kind() == Kind::Loopback {
        return None;
    }
    let (near, far) = (&site.host.net, &peer.host.net);
    let (sender, receiver) = if flow.is_up() { (near, far) } else { (far, near) };
    let held = |bytes: Option<u64>, usual: Range, share| {
        let told = bytes.map_or(usual, |bytes| scaled(range(1.0, 1.0, 1.0), bytes as f64));
        product(told, share)
    };
    let window = least(
        held(receiver.tcp_receive_buffer_max_bytes, USUAL_RECEIVE, WINDOW_SHARE),
        held(sender.tcp_send_buffer_max_bytes, USUAL_SEND, PAYLOAD_SHARE),
    );
    let full = way.full_frames(Transport::Tcp).payload;
    let trip = round_trip(way, Transport::Tcp, full, 0).range;
    let because = format!(
        "{:.2} to {:.1} MB per stream fit the socket buffers (tcp_wmem, tcp_rmem), once per {:.2} \
         to {:.1} ms",
        window.low / 1e6,
        window.high / 1e6,
        trip.low / 1e6,
        trip.high / 1e6
    );
    let rate = product(scaled(window, flow.streams as f64), inverse(1e9, trip));
    Some(Law::software(rate, because))
}
