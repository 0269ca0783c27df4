//! Reads of an existing file of a server through a library, without a mount: NFS through libnfs, SMB
//! through libsmbclient.

use super::Look;
use super::mounted::{cache_note, share_from_cache};
use super::passes::{Reader, drive};
use super::target::{Protocol, Url};
use crate::fs::prelude::*;
use metal::nfs::{self, Address, NfsFile};
use metal::smb::{self, SmbFile};
use metal::tcp;
use record::note::Note;
use std::io;
use std::slice;

/// So long an answer of the server is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a file that are read, at most: `size=whole` of a larger one reads so many from its
/// begin.
pub(super) const WHOLE_MOST: u64 = 256 << 20;
/// Of what was asked for, the heads of answers are at most this share.
const HEADS_MOST: f64 = 0.25;
/// A file must have so many.
const LEAST_BYTES: u64 = 64 << 10;

struct Remote {
    file: Open,
    soname: &'static str,
    /// Of NFS.
    version: Option<i32>,
}

enum Open {
    Nfs(NfsFile),
    Smb(SmbFile),
}

impl Open {
    fn bytes(&self) -> u64 {
        match self {
            Open::Nfs(file) => file.bytes(),
            Open::Smb(file) => file.bytes(),
        }
    }

    fn tcp(&self) -> io::Result<tcp::Info> {
        match self {
            Open::Nfs(file) => file.tcp(),
            Open::Smb(file) => file.tcp(),
        }
    }

    #[inline]
    fn read_at(&mut self, block: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Open::Nfs(file) => file.read_at(block, offset),
            Open::Smb(file) => file.read_at(block, offset),
        }
    }
}

/// What is in the file, which is the user's, is not known.
impl Reader for Remote {
    #[inline]
    fn read(&mut self, block: &mut [u8], offset: u64) -> Result<()> {
        let read = self.file.read_at(block, offset);
        let read = read.with_context(|| format!("reading at {offset}"))?;
        ensure!(
            read == block.len(),
            "a read at {offset} returned {read} bytes instead of {}",
            block.len()
        );
        Ok(())
    }
}

/// Measures the cases of a round. A server that does not answer any more is asked once: the cases
/// that are left fail for the same reason.
pub(super) fn measure(series: &Series, bench: &mut Bench, url: &Url) -> Result<()> {
    let (mut remote, mut lost): (Option<Remote>, Option<String>) = (None, None);
    bench.each_of::<Look>(series, |bench, case, look| {
        // The connection stays lost: nothing further is waited for.
        if let Some(reason) = &lost {
            bail!("{reason}");
        }
        let remote = match &mut remote {
            Some(remote) => remote,
            none => match open(url) {
                Ok(opened) => none.insert(opened),
                Err(error) => {
                    lost = Some(format!("{error:#}"));
                    return Err(error);
                }
            },
        };
        time(remote, case, &look, bench).inspect_err(|error| {
            if error.root_cause().is::<io::Error>() {
                lost = Some(format!("{} does not answer: {error:#}", url.server));
            }
        })
    });
    Ok(())
}

fn open(url: &Url) -> Result<Remote> {
    let Url { text, server, protocol } = url;
    match protocol {
        Protocol::Nfs { export, file, version } => {
            // The newer one first: it needs one port only.
            let versions = version.as_ref().map_or(&[4, 3][..], slice::from_ref);
            let address = |&version| Address { server, export, file, url: text, version };
            open_nfs(server, versions.iter().map(address))
        }
        Protocol::Smb { port } => {
            let library = smb::Library::load().context("loading libsmbclient")?;
            let file = library.open(text, server, *port, PATIENCE).map(Open::Smb);
            let file = file.with_context(|| format!("{server}: SMB"))?;
            Ok(Remote { file, soname: library.soname(), version: None })
        }
    }
}

/// Opens the file by the first version of the protocol that the server speaks. One that does not
/// answer at all is not asked a second time.
fn open_nfs<'url>(server: &str, addresses: impl Iterator<Item = Address<'url>>) -> Result<Remote> {
    let library = nfs::Library::load().context("loading libnfs")?;
    let (mut reasons, begin) = (Vec::new(), Instant::now());
    for address in addresses {
        let version = Some(address.version);
        match library.open(&address, PATIENCE).map(Open::Nfs) {
            Ok(file) => return Ok(Remote { file, soname: library.soname(), version }),
            Err(error) => reasons.push(format!("NFS {}: {error}", address.version)),
        }
        if begin.elapsed() >= PATIENCE {
            break;
        }
    }
    bail!("{server}: {}", reasons.join("; "))
}

fn time(remote: &mut Remote, case: &Case, look: &Look, bench: &mut Bench) -> Result<()> {
    let has = remote.file.bytes();
    let bytes = case.int("size").unwrap_or(has.min(WHOLE_MOST));
    let told = |bytes: u64| render(bytes as f64, Unit::B);
    ensure!(
        bytes <= has && has >= LEAST_BYTES,
        "the file has only {}, but {} were requested",
        told(has),
        told(bytes.max(LEAST_BYTES))
    );
    let before = remote.file.tcp().ok();
    let passes = drive(bench, look.pattern, bytes, remote)?;
    let after = remote.file.tcp().ok();
    let asked = passes.bytes();
    let samples = passes.record(bench, case)?;
    let both = after.zip(before);
    let received = both.and_then(|(after, before)| after.received_bytes.zip(before.received_bytes));
    let came = received.map(|(after, before)| after.saturating_sub(before));
    let (share, note) = came.and_then(|came| account(asked, came)).unzip();
    let again = both.map(|(after, before)| after.retransmits.saturating_sub(before.retransmits));
    let quantities = [
        ("file_bytes", Some(has as f64)),
        ("read_bytes", Some(bytes as f64)),
        ("asked_bytes", Some(asked as f64)),
        ("nfs_version", remote.version.map(f64::from)),
        ("tcp_rtt_ns", both.map(|(after, _)| f64::from(after.rtt_us) * 1e3)),
        (
            "tcp_min_rtt_ns",
            both.and_then(|(after, _)| after.min_rtt_us).map(|us| f64::from(us) * 1e3),
        ),
        ("tcp_retransmits", again.map(f64::from)),
        ("server_bytes", came.map(|came| came as f64)),
        ("cache_share", share),
    ];
    samples.set_quantities(quantities);
    samples.notes.extend(note.flatten());
    let soname = remote.soname;
    samples.notes.push(format!("read by {soname} in the process, without a local cache"));
    if has > WHOLE_MOST && bytes == WHOLE_MOST {
        samples.notes.push(format!("plumb read the first {} of {}", told(bytes), told(has)));
    }
    Ok(())
}

/// Share of the requested bytes that did not come over the connection, and its note: nothing where
/// each read brought its block and the heads of its answer.
fn account(asked: u64, came: u64) -> Option<(f64, Option<Note>)> {
    let share = share_from_cache(asked, came)?;
    let times = came as f64 / asked as f64;
    let ahead = (times > 1.0 + HEADS_MOST).then(|| {
        Note::cache(format!(
            "cache: the server sent {times:.1} times the requested bytes, so something reads ahead \
             (TCP_INFO)"
        ))
    });
    Some((share, cache_note(share, "TCP_INFO").or(ahead)))
}

#[cfg(test)]
mod tests {
    use super::account;

    #[test]
    fn what_the_connection_brought_is_held_against_what_was_read() {
        let note = |came| account(1_000_000, came).expect("a share").1;
        // Heads of some 150 bytes a block; signed and sealed ones are larger.
        assert_eq!(account(1_000_000, 1_040_000), Some((0.0, None)));
        assert_eq!(note(1_100_000), None);
        for (came, amount) in [(250_000, "75 %"), (16_000_000, "16.0 times")] {
            let note = note(came).expect("is told");
            assert!(note.starts_with("cache:") && note.contains(amount), "{note}");
        }
        assert_eq!(account(0, 5), None);
    }
}
