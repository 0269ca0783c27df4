//! What is at each host before a sweep: the version of plumb there, and the address at which ssh
//! reaches it.

use super::remote::{said, start};
use anyhow::{Context, Result, bail, ensure};
use fleet::hosts::Host;
use session::agent::ssh::{NOT_FOUND, NOT_RUNNABLE, quoted};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A host that does not say its version in this time is left out.
const ANSWER: Duration = Duration::from_secs(20);
/// A copy of the binary that takes longer is given up.
const COPY: Duration = Duration::from_mins(3);
/// Hosts that are asked at once.
const AT_ONCE: usize = 32;
/// What the address that ssh reached is printed after.
const REACHED: &str = "reached ";

/// A host that can take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The plumb there.
    pub plumb: String,
    /// Directory that is removed after the sweep.
    pub copy: Option<String>,
    /// Address at which the other nodes reach it.
    pub address: String,
}

/// Asks all hosts, some at once; each answer is what can take part, or why it cannot.
pub fn look(
    hosts: &[Host],
    plumb: &str,
    copied: Option<&Path>,
    stop: &AtomicBool,
) -> Vec<Result<Found>> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<Result<Found>>>> = Mutex::new(hosts.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(hosts.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(host) = hosts.get(at) else { return };
                    let of = at_host(host, plumb, copied, stop);
                    found.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(of);
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.into_iter().map(|of| of.unwrap_or_else(|| bail!("it was not asked"))).collect()
}

fn at_host(host: &Host, plumb: &str, copied: Option<&Path>, stop: &AtomicBool) -> Result<Found> {
    match (version(host, plumb, stop), copied) {
        (Ok(there), _) if there.is_ours() => there.found(host, plumb, None),
        (Ok(there), None) => bail!(
            "it has plumb {}, here is {}: install this version there, or send it with --copy",
            there.version,
            env!("CARGO_PKG_VERSION")
        ),
        (Err(error), None) => Err(error),
        (Ok(_), Some(own)) => send(host, own, stop),
        (Err(error), Some(own)) if error.is::<NoPlumb>() => send(host, own, stop),
        (Err(error), Some(_)) => Err(error),
    }
}

/// There is no plumb that runs.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoPlumb(String);

/// What a host says of itself.
struct There {
    version: String,
    reached: Option<String>,
}

impl There {
    fn is_ours(&self) -> bool {
        self.version == env!("CARGO_PKG_VERSION")
    }

    fn found(self, host: &Host, plumb: &str, copy: Option<String>) -> Result<Found> {
        let address = host.address.clone().or(self.reached);
        let address = address.context(
            "the address at which ssh reaches it is unknown: give it as address=ADDR in the list",
        )?;
        Ok(Found { plumb: plumb.to_owned(), copy, address })
    }
}

/// Asks for the version. Errors: no answer in time, or not plumb's.
fn version(host: &Host, plumb: &str, stop: &AtomicBool) -> Result<There> {
    let command = format!("{} --version && echo \"{REACHED}$SSH_CONNECTION\"", quoted(plumb));
    let mut remote = start(host, &command, plumb)?;
    drop(remote.input()?);
    let text = said(&mut remote, ANSWER, stop)?.with_context(|| {
        format!(
            "it did not answer within {} s; try it by hand: `ssh {}`",
            ANSWER.as_secs(),
            host.name
        )
    })?;
    let Some(version) = text.lines().find_map(|line| line.strip_prefix("plumb ")) else {
        let is_missing = matches!(remote.code(), Some(NOT_RUNNABLE | NOT_FOUND));
        let why = remote.last_words();
        if is_missing {
            bail!(NoPlumb(why));
        }
        bail!("{plumb} there prints no version of plumb: {why}");
    };
    // Client's address and port, then the server's.
    let connection = text.lines().find_map(|line| line.strip_prefix(REACHED));
    let reached = connection.and_then(|text| text.split_whitespace().nth(2));
    Ok(There { version: version.trim().to_owned(), reached: reached.map(str::to_owned) })
}

/// Sends this binary to a directory of its own. Errors: it cannot be written or does not run there.
fn send(host: &Host, own: &Path, stop: &AtomicBool) -> Result<Found> {
    let bytes = std::fs::read(own).with_context(|| format!("cannot read {}", own.display()))?;
    let command = "umask 077 && dir=$(mktemp -d \"${TMPDIR:-/tmp}/plumb-fleet-XXXXXXXX\") && \
                   { cat >\"$dir/plumb\" && chmod 700 \"$dir/plumb\" && echo \"copy $dir\" || \
                   rm -rf \"$dir\"; }";
    let command = format!("sh -c {}", quoted(command));
    let mut remote = start(host, &command, "plumb")?;
    let mut input = remote.input()?;
    let (said, sent) = std::thread::scope(|scope| {
        // It ends with the program at the other end of its pipe.
        let sent = scope.spawn(move || input.write_all(&bytes));
        let said = said(&mut remote, COPY, stop);
        if !matches!(said, Ok(Some(_))) {
            remote.kill();
        }
        (said, sent.join())
    });
    let Some(text) = said? else {
        bail!("copying plumb there took longer than {} s", COPY.as_secs())
    };
    let dir = text.lines().find_map(|line| line.strip_prefix("copy "));
    let is_whole = matches!(sent, Ok(Ok(())));
    let dir = dir
        .filter(|_| is_whole)
        .with_context(|| format!("plumb could not be copied there: {}", remote.last_words()))?;
    let plumb = format!("{dir}/plumb");
    let there = version(host, &plumb, stop).and_then(|there| {
        ensure!(there.is_ours(), "the copy there says that it is plumb {}", there.version);
        there.found(host, &plumb, Some(dir.to_owned()))
    });
    if there.is_err() {
        remove(host, dir, stop);
    }
    there
}

/// Removes a copy.
pub fn remove(host: &Host, dir: &str, stop: &AtomicBool) {
    if let Ok(mut remote) = start(host, &format!("rm -rf {}", quoted(dir)), "plumb") {
        drop(remote.input());
        // A host that does not answer keeps it.
        let _ = said(&mut remote, ANSWER, stop);
    }
}
