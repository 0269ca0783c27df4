//! `plumb agent`: the far end of the network's experiments on another host.

use crate::cmd::run::stop_flag;
use crate::cmd::{Failure, output, usage};
use anyhow::Context;
use metal::wait::{Want, any_unless};
use session::agent::acceptor::Agent;
use session::agent::key::{Key, Keys};
use session::agent::options::{self, Addresses, Options, SILENCE_MAX};
use session::node::worker::Worker;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest line that an agent writes, in bytes: with its beginning it fits into what a pipe with
/// room takes at once.
const LINE_BYTES_MAX: usize = 4000;

/// Serves the far end of the network experiments for `plumb run --peer` on another host.
///
/// Without --listen it talks over standard input and output, as ssh, srun or kubectl exec start it.
#[derive(clap::Args)]
#[command(after_help = "\
`plumb run net --peer ssh://HOST` starts the agent itself. Without ssh, make a key once, copy it to both \
hosts, listen on one and run on the other:
  plumb agent --new-key plumb.key
  plumb agent --listen 10.1.2.3:7411 --key-file plumb.key
  plumb run net --peer tcp://10.1.2.3:7411 --key-file plumb.key
A key per host: --key-file of the agent may list several, a line each: the 64 digits, then a name. A host whose \
line is taken out is not let in to its next session; the agent need not start again.
The agent serves one session at a time. A session says between its rounds that it lives and how long the next \
takes: one that is frozen loses its place a minute after that time.
What is ordered and answered is encrypted and authenticated. In clear, readable on the way: both hellos with the \
version, the payload of data connections, and what their ends say to each other (authenticated, not encrypted).")]
pub struct Args {
    /// Listen at this address (a port alone: on loopback; port 0: a free one) for sessions that have
    /// the key; serves one at a time
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = listen_at)]
    listen: Option<SocketAddr>,
    /// File with the shared key, or a list of keys with a name each; only its owner may have access
    #[arg(long, value_name = "FILE", requires = "listen")]
    key_file: Option<PathBuf>,
    /// Address of this host for data connections [default: the one that the session connected to]
    #[arg(long, value_name = "ADDR")]
    data: Option<IpAddr>,
    /// CPUs for the far ends, for example 1 or 2-5 [default: the quietest first]
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// Write a new key to this file, which must not exist, and exit
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "key_file", "data", "cpu"])]
    new_key: Option<PathBuf>,
}

fn listen_at(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "type an address of this host and a port, for example 10.1.2.3:7411 or [fd00::1]:7411, or a port \
         alone for loopback"
            .to_owned()
    })
}

pub fn run(args: Args) -> Result<(), Failure> {
    if let Some(file) = &args.new_key {
        return new_key(file);
    }
    if args.data.is_some_and(|data| data.is_unspecified()) {
        return Err(Failure::usage(
            "--data takes the address at which peers reach this host, not the wildcard address",
        ));
    }
    let stop = stop_flag()?;
    let options = Options {
        catalogue: catalogue::FAMILIES,
        cpus: args.cpu.as_deref(),
        data: args.data,
        silence: SILENCE_MAX,
        start_worker: Worker::start,
        log: &|line| log(io::stderr().as_fd(), line),
        stop: &stop,
    };
    match (args.listen, &args.key_file) {
        (Some(at), Some(file)) => listen(&options, at, file),
        (Some(_), None) => Err(Failure::usage(
            "--listen needs a key: type --key-file FILE (`plumb agent --new-key FILE` makes one)",
        )),
        (None, _) => on_stdio(&options),
    }
}

/// Writes a line if it has room at once, and drops it otherwise: a reader that does not read must
/// not stop the agent.
fn log(to: BorrowedFd<'_>, line: &str) {
    let ready = any_unless(&[Want::Writable(to)], Some(Duration::ZERO), &[], || false);
    if !ready.is_ok_and(|ready| ready[0]) {
        return;
    }
    let mut end = line.len().min(LINE_BYTES_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    if let Ok(to) = to.try_clone_to_owned() {
        // One write, which a pipe with room takes whole.
        let _ = File::from(to).write(format!("plumb agent: {}\n", &line[..end]).as_bytes());
    }
}

fn new_key(file: &Path) -> Result<(), Failure> {
    Key::random()?.write(file).map_err(usage)?;
    output::diagnose(&format!(
        "plumb agent: a new key is in {}; copy it to the other host over a private channel (scp -p)",
        file.display()
    ));
    Ok(())
}

fn listen(options: &Options<'_>, at: SocketAddr, file: &Path) -> Result<(), Failure> {
    let keys = Keys::open(file).map_err(usage)?;
    // A usage error is reported now, not to the first session.
    options::site(options).map_err(usage)?;
    let mut agent = Agent::listening(options, keys, at)?;
    let at = agent.address()?;
    output::diagnose(&format!("plumb agent: listening at {at}"));
    Ok(agent.serve()?)
}

fn on_stdio(options: &Options<'_>) -> Result<(), Failure> {
    if io::stdin().is_terminal() {
        return Err(Failure::usage(
            "an agent does not talk to a terminal: `plumb run --peer ssh://HOST` starts one, or listen \
             for sessions with --listen and --key-file (`plumb agent --help`)",
        ));
    }
    // The streams of the process, without the library's buffers.
    let duplicate = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned();
    let reader = duplicate(&io::stdin()).context("no standard input")?;
    let writer = duplicate(&io::stdout()).context("no standard output")?;
    let addresses = match std::env::var("SSH_CONNECTION") {
        Ok(connection) => Addresses::of_ssh(&connection),
        Err(_) => Addresses::default(),
    };
    Ok(Agent::on_pipes(options, reader, writer, addresses).serve()?)
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, listen_at, log};
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn lines_that_nobody_reads_stop_nothing() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let long = "µ".repeat(LINE_BYTES_MAX);
        // More than a pipe holds.
        for _ in 0..100 {
            log(writer.as_fd(), &long);
        }
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).expect("whole characters");
        let lines: Vec<&str> = said.lines().collect();
        assert!((1..100).contains(&lines.len()), "{}", lines.len());
        assert!(lines.iter().all(|line| line.starts_with("plumb agent: µ") && line.len() > 4000));
    }

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        for (text, at) in [
            ("7411", "127.0.0.1:7411"),
            ("0", "127.0.0.1:0"),
            ("10.1.2.3:7411", "10.1.2.3:7411"),
            ("[::1]:7411", "[::1]:7411"),
        ] {
            assert_eq!(listen_at(text), Ok(at.parse().expect("an address")));
        }
        for bad in ["", "65536", "host", "10.1.2.3", ":7411", "fd00::1:7411x"] {
            assert!(listen_at(bad).is_err(), "{bad}");
        }
    }
}
