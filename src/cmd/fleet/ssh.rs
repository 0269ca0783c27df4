//! A sweep over hosts that ssh reaches: each runs one `plumb fleet node`, which ends when its
//! connection does.

mod probe;
mod remote;

use crate::cmd::Failure;
use crate::cmd::fleet::follow::{Follower, say};
use crate::cmd::fleet::run;
use anyhow::{Context, Result};
use fleet::hosts::Host;
use probe::Found;
use session::agent::ssh::{Carrier, quoted};
use session::store::file::{self, There};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often nodes and the record are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// After the sweep, and after a signal, nodes end by themselves within this time.
const END: Duration = Duration::from_secs(20);

/// A sweep over hosts.
pub struct Sweep<'a> {
    /// The hosts; the first one that answers is rank 0.
    pub hosts: &'a [Host],
    /// What else was typed.
    pub args: &'a run::Args,
    /// The plumb there.
    pub plumb: &'a str,
    /// The record here, which rank 0 writes over its connection.
    pub out: &'a Path,
    /// Options for each node.
    pub options: &'a [String],
}

/// A host that takes part.
struct Node<'a> {
    host: &'a Host,
    found: Found,
    /// What runs there, once it was started.
    remote: Option<Carrier>,
    /// Its input, whose end ends it.
    input: Option<ChildStdin>,
    was_started: bool,
    has_ended: bool,
}

impl Sweep<'_> {
    /// Starts the nodes and follows them to the end. Returns the record. Errors: fewer than two
    /// hosts can take part, the record cannot be written, or a signal came.
    pub fn run(&self, stop: &AtomicBool) -> Result<PathBuf, Failure> {
        let mut nodes = self.nodes(stop)?;
        if nodes.len() < 2 {
            remove_copies(&nodes);
            return Err(anyhow::anyhow!(
                "{} of {} hosts can take part; a sweep needs two",
                nodes.len(),
                self.hosts.len()
            )
            .into());
        }
        let swept = self.sweep(&mut nodes, stop);
        remove_copies(&nodes);
        swept?;
        Ok(self.out.to_owned())
    }

    /// The hosts that can take part; a line for each of the others.
    fn nodes(&self, stop: &AtomicBool) -> Result<Vec<Node<'_>>> {
        let own = std::env::current_exe().context("cannot find this binary")?;
        let copied = self.args.copy.then_some(own.as_path());
        say(&format!("asking {} hosts", self.hosts.len()));
        let mut nodes = Vec::new();
        for (host, found) in
            self.hosts.iter().zip(probe::look(self.hosts, self.plumb, copied, stop))
        {
            match found {
                Ok(found) => nodes.push(Node {
                    host,
                    found,
                    remote: None,
                    input: None,
                    was_started: false,
                    has_ended: false,
                }),
                Err(error) if session::is_interrupt(&error) => {}
                Err(error) => say(&format!("{} takes no part: {error:#}", host.name)),
            }
        }
        Ok(nodes)
    }

    fn sweep(&self, nodes: &mut [Node<'_>], stop: &AtomicBool) -> Result<(), Failure> {
        let shown = self.out.display();
        let record = file::make(self.out, file::SHARED, There::Kept, |_| Ok(()));
        let record =
            record.with_context(|| format!("cannot create {shown}; name a new file with --out"))?;
        let secret = session::agent::key::Key::random()?.digits();
        let meet = match nodes[0].found.address.parse::<Ipv6Addr>() {
            Ok(v6) => format!("[{v6}]:{}", self.args.port),
            Err(_) => format!("{}:{}", nodes[0].found.address, self.args.port),
        };
        let size = nodes.len();
        for (rank, node) in nodes.iter_mut().enumerate() {
            let command = self.command(node, rank, size, &meet);
            let mut remote = remote::start(node.host, &command, &node.found.plumb)?;
            let mut input = remote.input()?;
            // One that has ended is found below.
            let _ = input.write_all(format!("{secret}\n").as_bytes());
            (node.remote, node.input, node.was_started) = (Some(remote), Some(input), true);
        }
        let output = nodes[0].remote.as_mut().map(Carrier::output).transpose()?;
        let writer = std::thread::spawn(move || copy(output.map(File::from), record));
        let followed = self.follow(nodes, &writer, stop);
        nodes.iter_mut().for_each(|node| node.input = None);
        let end = Instant::now() + END;
        let is_over = |node: &mut Node<'_>| node.remote.as_mut().is_none_or(Carrier::is_over);
        while !nodes.iter_mut().all(is_over) && Instant::now() < end {
            sleep(LOOK);
        }
        nodes.iter_mut().for_each(|node| node.remote = None);
        let written = writer.join().map_err(|_| anyhow::anyhow!("the record's writer panicked"))?;
        written.with_context(|| format!("cannot write {}", self.out.display()))?;
        followed
    }

    /// What the shell of a host runs: the node, and the end of its copy.
    fn command(&self, node: &Node<'_>, rank: usize, size: usize, meet: &str) -> String {
        let mut words: Vec<String> = ["fleet", "node", "--carried"].map(str::to_owned).into();
        let place = [
            ("--starter", "ssh".to_owned()),
            ("--rank", rank.to_string()),
            ("--size", size.to_string()),
            ("--meet", meet.to_owned()),
            ("--name", node.host.name.clone()),
        ];
        let labels = node.host.labels.iter();
        let labels = labels.map(|(name, value)| ("--label", format!("{name}={value}")));
        for (name, value) in place.into_iter().chain(labels) {
            words.extend([name.to_owned(), value]);
        }
        if rank == 0 {
            words.extend(["--out".to_owned(), "-".to_owned()]);
        }
        words.extend(self.options.iter().cloned());
        let mut command = quoted(&node.found.plumb);
        for word in &words {
            let _ = write!(command, " {}", quoted(word));
        }
        let records = self.args.records.as_deref().map_or("\"$dir\"".to_owned(), quoted);
        let copy = node.found.copy.as_deref().map(quoted).unwrap_or_default();
        // The node ends with its connection, and then the shell that waits for it.
        let script = format!(
            "dir=$(mktemp -d \"${{TMPDIR:-/tmp}}/plumb-fleet-XXXXXXXX\") || exit; \
             trap 'rm -rf \"$dir\" {copy}' EXIT; trap : HUP INT TERM; {command} --records {records}"
        );
        format!("exec sh -c {}", quoted(&script))
    }

    /// Prints what happens until the record has its end, rank 0 has ended, or a signal comes.
    fn follow(
        &self,
        nodes: &mut [Node<'_>],
        writer: &std::thread::JoinHandle<io::Result<()>>,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut follower = Follower::new(self.out);
        loop {
            // Before the record is read: what is there then is all.
            let is_written = writer.is_finished();
            follower.take_news()?;
            if follower.progress.has_ended {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted(format!(
                    "interrupted; all nodes end. {}",
                    self.go_on()
                )));
            }
            for node in nodes.iter_mut().filter(|node| !node.has_ended) {
                let Some(remote) = node.remote.as_mut() else { continue };
                node.has_ended = remote.is_over();
                if node.has_ended {
                    say(&format!(
                        "{}: its node has ended: {}",
                        node.host.name,
                        remote.last_words()
                    ));
                }
            }
            if is_written {
                return Err(anyhow::anyhow!(
                    "{}, which is rank 0, ended before the sweep did. {}",
                    nodes[0].host.name,
                    self.go_on()
                )
                .into());
            }
            follower.is_at(follower.progress.line());
            sleep(LOOK);
        }
    }

    fn go_on(&self) -> String {
        format!("{} has what was measured", self.out.display())
    }
}

/// Writes the record as it comes.
fn copy(output: Option<impl io::Read>, mut record: File) -> io::Result<()> {
    if let Some(mut output) = output {
        io::copy(&mut output, &mut record)?;
    }
    record.flush()?;
    record.sync_all()
}

/// Removes the copies of nodes that were not started; a node removes its own.
fn remove_copies(nodes: &[Node<'_>]) {
    let never = AtomicBool::new(false);
    for node in nodes.iter().filter(|node| !node.was_started) {
        if let Some(dir) = &node.found.copy {
            probe::remove(node.host, dir, &never);
        }
    }
}
