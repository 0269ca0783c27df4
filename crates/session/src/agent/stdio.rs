//! An agent on its standard input and output, started by what authenticates and encrypts (ssh,
//! srun, kubectl exec): it serves one session and ends.

use super::channel::{Channel, FRAME_TIME, Lost};
use super::handshake::Role;
use super::message::ToAgent;
use super::options::{Addresses, Options};
use super::server::ServedSession;
use crate::child::wait;
use crate::is_interrupt;
use anyhow::{Context, Result, bail};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A session that was started with the agent says hello in this time: both may be on slow hosts.
const HELLO_TIME: Duration = Duration::from_secs(30);

/// Serves the session at the other end of a pair of pipes until it ends or a signal comes. Errors:
/// the session could not be served, or was lost before it said that it ends.
pub fn serve(
    options: &Options<'_>,
    reader: OwnedFd,
    writer: OwnedFd,
    addresses: Addresses,
) -> Result<()> {
    match session(options, reader, writer, addresses) {
        Err(error) if is_interrupt(&error) => Ok(()),
        served => served,
    }
}

fn session(
    options: &Options<'_>,
    reader: OwnedFd,
    writer: OwnedFd,
    addresses: Addresses,
) -> Result<()> {
    let mut channel = match Channel::over_pipes(
        reader,
        writer,
        Role::Agent,
        HELLO_TIME,
        options.stop,
    ) {
        Err(error) if matches!(error.downcast_ref(), Some(Lost::Closed)) => {
            bail!(
                "no session said hello on standard input: `plumb run --peer` starts `plumb agent`"
            )
        }
        channel => channel?,
    };
    let open = match channel.receive(Instant::now() + FRAME_TIME, options.stop)? {
        Some(ToAgent::Open(open)) => open,
        Some(_) => bail!("the session sent an order before it was opened"),
        None => bail!("the session sent no request"),
    };
    let mut served = match ServedSession::begin(options, channel, &open, addresses) {
        Ok(served) => served,
        Err(reason) => bail!("the session was refused: {reason}"),
    };
    loop {
        let wants: Vec<_> = served.wants().collect();
        let until = served.deadline().into_iter().chain([served.silent_at()]).min();
        wait("the session", &wants, until, options.stop)?;
        match served.advance() {
            // Nothing else reveals a cut cable below the program that started this end.
            Ok(true) if served.is_silent() => bail!(
                "the session of {} was silent for longer than its expected duration",
                served.client()
            ),
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // A session that was killed says nothing; its rounds are over all the same.
            Err(error) if matches!(error.downcast_ref(), Some(Lost::Closed)) => return Ok(()),
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("the session of {} was lost", served.client()));
            }
        }
    }
}

/// The addresses of an ssh connection, as its server reports them (`SSH_CONNECTION`: the client's
/// address and port, the server's address and port).
pub fn ssh_addresses(connection: &str) -> Addresses {
    let fields: Vec<&str> = connection.split_ascii_whitespace().collect();
    let address = |index: usize| {
        let text: &str = fields.get(index)?;
        let address: IpAddr = text.parse().ok()?;
        Some(address.to_canonical())
    };
    Addresses { local: address(2), remote: address(0) }
}

#[cfg(test)]
mod tests {
    use super::ssh_addresses;
    use crate::agent::options::Addresses;

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
            assert_eq!(ssh_addresses(connection), expected, "{connection}");
        }
    }
}
