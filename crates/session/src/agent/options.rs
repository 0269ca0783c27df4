//! The options of an agent, which all its sessions share, and the site where it serves them.

use crate::node::worker::Worker;
use crate::site::{self, Files};
use anyhow::{Context, Result, bail};
use bench::experiment::{Catalogue, Preset, Site};
use host::{Host, Outside, Root};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A session that said nothing for this time, and for as long as it said that it would say nothing
/// (before its first round: as long as it expects to take), makes room for another one that asks.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

pub struct Options<'agent> {
    /// What it serves the far ends of.
    pub catalogue: Catalogue,
    /// CPUs to use as `--cpu` lists them; by default the quietest first.
    pub cpus: Option<&'agent str>,
    /// The address of data connections; that of the session's connection by default.
    pub data: Option<IpAddr>,
    /// A silent session is kept for at least this time when another one asks.
    pub silence: Duration,
    pub start_worker: fn() -> Result<Worker>,
    /// Receives the events, a line each.
    pub log: &'agent dyn Fn(&str),
    /// Set by a signal.
    pub stop: &'agent AtomicBool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    pub local: Option<IpAddr>,
    pub remote: Option<IpAddr>,
}

impl Addresses {
    /// Those of an ssh connection, as its server reports them (`SSH_CONNECTION`: the client's address
    /// and port, the server's address and port).
    pub fn of_ssh(connection: &str) -> Addresses {
        let fields: Vec<&str> = connection.split_ascii_whitespace().collect();
        let address = |index: usize| {
            let address: IpAddr = fields.get(index)?.parse().ok()?;
            Some(address.to_canonical())
        };
        Addresses { local: address(2), remote: address(0) }
    }
}

/// This host as it is now, with the CPUs that the far ends use. Errors: the CPUs of the options
/// cannot be used, or their address of data connections is not this host's.
pub fn site(options: &Options<'_>) -> Result<Site> {
    options.data.map(require_address).transpose()?;
    let root = Root::live(Outside::live());
    let host = Host::read(&root);
    Ok(site::site(host, &root, options.cpus, Files::Nowhere, Preset::Standard, options.stop)?)
}

/// Checks that data connections can be listened for at this address. Errors: they cannot, with the
/// way out.
pub(super) fn require_address(address: IpAddr) -> Result<()> {
    if matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()) {
        bail!(
            "{address} is a link-local address, which is unusable without its interface: connect \
             to another address of the agent's host, or set --data ADDR"
        );
    }
    TcpListener::bind((address, 0)).map(drop).with_context(|| {
        format!(
            "the agent's host has no address {address}: set --data ADDR to the address at which \
             peers reach it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::Addresses;

    #[test]
    fn addresses_of_an_ssh_connection() {
        let addresses = |local: &str, remote: &str| Addresses {
            local: local.parse().ok(),
            remote: remote.parse().ok(),
        };
        for (connection, expected) in [
            ("10.1.2.3 50000 10.1.2.4 22", addresses("10.1.2.4", "10.1.2.3")),
            ("::ffff:10.1.2.3 1 ::ffff:10.1.2.4 22", addresses("10.1.2.4", "10.1.2.3")),
            ("fd00::1 1 fd00::2 22", addresses("fd00::2", "fd00::1")),
            // An address that needs an interface is unusable without it.
            ("fe80::1%eth0 1 fe80::2%eth0 22", Addresses::default()),
            ("", Addresses::default()),
            ("UNKNOWN 65535 UNKNOWN 65535", Addresses::default()),
        ] {
            assert_eq!(Addresses::of_ssh(connection), expected, "{connection}");
        }
    }
}
