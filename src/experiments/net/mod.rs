//! The network: round trips, bandwidth and connections, on loopback against a second worker and, same
//! cases, against the hosts of `--peer`.

pub(crate) mod ends;
pub(crate) mod place;
mod turns;
pub(crate) mod usage;

crate::family!(
    "net",
    "the network, on loopback and between hosts",
    hidden: false,
    [rtt, ping, bandwidth, connect, loaded, request]
);
