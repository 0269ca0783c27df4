//! The network: round trips, bandwidth and connections, on loopback against a second worker and, same
//! cases, against the hosts of `--peer`.

pub mod ends;
pub mod place;
mod turns;
pub mod usage;

bench::family!(
    "net",
    "the network, on loopback and between hosts",
    hidden: false,
    [rtt, ping, bandwidth, connect, loaded, request]
);
