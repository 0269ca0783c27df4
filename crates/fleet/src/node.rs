//! One node of a sweep: it follows the schedule by the clock, and writes its file.
//!
//! Nothing here waits for another node longer than a part of a slot. What measures is a child with an
//! end, so that a partner, a disk or a network that hangs costs one slot.

use crate::describe;
use crate::extract;
use crate::file::{Absent, Clock, End, Figure, Header, Line, Pair, Purpose, Served, Writer};
use crate::hosts::address;
use crate::names::duration;
use crate::place::Place;
use crate::process::{Process, sleep_until};
use crate::schedule::{ENDING_S, MEETING, Part, Recipe, Slot};
use ::host::{Host, Outside, Root};
use anyhow::{Context, Result, bail, ensure};
use metal::process::{Patience, within};
use record::order::InOrder;
use session::agent::clock::{offset_s, wall_s};
use session::agent::key::Key;
use session::setup::Usage;
use session::store::file::{self as files, There};
use session::store::journal::WorkDir;
use session::store::{Store, read};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Peers whose clocks a node asks for before the sweep.
const PEERS: u32 = 3;
/// It asks for so long where their answers leave time, or where the start seems over.
const PEERS_TIME_S: f64 = 30.0;
/// One question takes no longer, and is repeated after a pause.
const QUESTION_TIME: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(200);
/// A pair's figure is precise enough at this half width of its interval, in percent: a third of the
/// least difference for which a network figure is accused.
const PAIR_PRECISION: &str = "5";
/// The far end sends.
const PULLS: [&str; 2] = ["--set", "net.bandwidth.direction=down"];
/// What an agent says of each session.
const SESSION: &str = "a session of ";
/// With fewer nodes none has five peers.
pub const LEAST_NODES: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// At this wall-clock time, in seconds since 1970.
    At(f64),
    /// So many seconds after this node began.
    In(f64),
}

pub struct Options {
    pub place: Place,
    pub recipe: Recipe,
    pub key: Key,
    pub start: Start,
    pub again: bool,
    pub labels: BTreeMap<String, String>,
    /// Directory for the files that experiments write; the current one, where absent.
    pub dir: Option<PathBuf>,
    pub cpus: Option<String>,
    pub plumb: PathBuf,
}

struct Node<'a> {
    options: &'a Options,
    slots: Vec<Slot>,
    writer: Writer,
    key_file: PathBuf,
    work: WorkDir,
    zero: Instant,
    stop: &'a AtomicBool,
}

/// Takes part in a sweep; whether it went to its end. Errors: the start is over; the file cannot be
/// written, after all was measured.
pub fn run(
    options: &Options,
    writer: Writer,
    say: &dyn Fn(&str),
    stop: &AtomicBool,
) -> Result<bool> {
    let start_s = match options.start {
        Start::At(at_s) => at_s,
        Start::In(in_s) => wall_s() + in_s,
    };
    let slots = options.recipe.slots(&options.place.list);
    let header = header(options, slots.len(), start_s);
    let work = WorkDir::make(
        &Store::here(),
        &std::env::temp_dir(),
        &format!("fleet-{}-{}", header.sweep, header.rank),
        &[],
        stop,
    );
    let work = work.context("cannot make a work directory; set TMPDIR")?;
    let key_file = work.path().join("key");
    let digits = options.key.digits() + "\n";
    files::make(&key_file, files::SECRET, There::Replaced, |file| {
        file.write_all(digits.as_bytes())
    })
    .context("cannot write the sweep's key")?;
    let zero = Instant::now();
    let mut node = Node { options, slots, writer, key_file, work, zero, stop };
    node.writer.append(&Line::Node(Box::new(header)));
    if options.place.list.size() < LEAST_NODES && !options.again {
        say("fewer than six nodes: no node can be accused; the report shows how they differ");
    }
    if let Err(error) = node.begin(start_s) {
        node.writer.append(&Line::absent(&error));
        return node.writer.finish().and(Err(error));
    }
    node.measure();
    let interrupted = stop.load(Ordering::Relaxed);
    let wall_s = node.since_s(Instant::now());
    node.writer.append(&Line::End(End { wall_s, interrupted }));
    node.writer.finish()?;
    Ok(!interrupted)
}

fn header(options: &Options, slots: usize, start_s: f64) -> Header {
    let Options { place, recipe, .. } = options;
    let since = Duration::try_from_secs_f64(start_s).unwrap_or_default();
    let started = humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string();
    let mut labels = place.list.labels.get(place.rank as usize).cloned().unwrap_or_default();
    labels.extend(options.labels.clone());
    let mut header = Header {
        slots: u32::try_from(slots).unwrap_or(u32::MAX),
        starter: place.starter.to_owned(),
        stratum: describe::stratum(&Host::read(&Root::live(Outside::live()))),
        labels,
        ..recipe.header(&place.list, place.rank, started, options.again)
    };
    // Each node has a start of its own.
    if matches!(options.start, Start::In(_)) {
        header.sweep = recipe.identity(&place.list, "", options.again);
    }
    header
}

/// The median of the offsets of peers and of this node's own clock, which is 0: one peer alone that differs
/// is not believed.
fn middle(answers: &[(u32, f64)]) -> f64 {
    let mut offsets: Vec<f64> = answers.iter().map(|(_, offset_s)| *offset_s).collect();
    offsets.push(0.0);
    offsets.order_by(|a, b| a.abs().total_cmp(&b.abs()));
    offsets[(offsets.len() - 1) / 2]
}

impl Node<'_> {
    fn since_s(&self, now: Instant) -> f64 {
        let after = now.saturating_duration_since(self.zero).as_secs_f64();
        let before = self.zero.saturating_duration_since(now).as_secs_f64();
        ((after - before) * 1000.0).round() / 1000.0
    }

    fn instant(&self, since_s: f64) -> Instant {
        self.zero + Duration::try_from_secs_f64(since_s).unwrap_or_default()
    }

    /// Agrees with its peers on the clock, and waits for the start. Errors: the start is over.
    fn begin(&mut self, start_s: f64) -> Result<()> {
        let quarter_s = MEETING * self.options.recipe.slot_s;
        let agents = [self.agent(0)?];
        let offset_s = self.clock(start_s, quarter_s);
        // A time from now is by this node's own clock, however wrong that is.
        let offset_s = match self.options.start {
            Start::At(_) => offset_s,
            Start::In(_) => 0.0,
        };
        let left_s = start_s - (wall_s() + offset_s);
        ensure!(
            left_s > -quarter_s,
            Usage(format!(
                "the start is {} in the past: give a later --start-at, or start the nodes sooner",
                duration(-left_s)
            ))
        );
        // A start that is just over is now.
        self.zero = Instant::now() + Duration::try_from_secs_f64(left_s).unwrap_or_default();
        sleep_until(self.zero, self.stop);
        drop(agents);
        Ok(())
    }

    /// What is added to this node's clock so that it is that of its peers: 0, or the median over their
    /// answers and this clock where that is more than a quarter of a slot.
    fn clock(&mut self, start_s: f64, quarter_s: f64) -> f64 {
        let (rank, size) = (self.options.place.rank, self.options.place.list.size());
        let mut left: Vec<u32> =
            (1..size.min(PEERS + 1)).map(|step| (rank + step) % size).collect();
        let began = Instant::now();
        let seems_over = start_s - 1.0 <= wall_s();
        let mut answers: Vec<(u32, f64)> = Vec::new();
        while !left.is_empty() && !self.stop.load(Ordering::Relaxed) {
            let left_s = start_s - 1.0 - wall_s();
            // Before two peers have answered, either clock may be the wrong one.
            let left_s = match answers[..] {
                [] if seems_over => PEERS_TIME_S,
                [] => left_s,
                [(_, offset_s)] => left_s.max(left_s - offset_s),
                _ => left_s - middle(&answers),
            };
            let left_s = left_s.min(PEERS_TIME_S - began.elapsed().as_secs_f64());
            if left_s <= 0.0 {
                break;
            }
            let deadline = Instant::now() + Duration::from_secs_f64(left_s);
            left.retain(|rank| {
                let answer = self.ask(*rank, 0, deadline);
                answers.extend(answer.iter().map(|offset_s| (*rank, *offset_s)));
                answer.is_err()
            });
            sleep_until(deadline.min(Instant::now() + PAUSE), self.stop);
        }
        if answers.is_empty() {
            return 0.0;
        }
        let offset_s = middle(&answers);
        let is_corrected = offset_s.abs() > quarter_s;
        let peers = answers.iter().map(|(rank, _)| self.host(*rank)).collect();
        self.writer.append(&Line::Clock(Clock { offset_s, peers, is_corrected }));
        if is_corrected { offset_s } else { 0.0 }
    }

    fn host(&self, rank: u32) -> String {
        self.options.place.list.hosts[rank as usize].clone()
    }

    /// The clock of another node minus this one's. Errors: it does not answer in time.
    fn ask(&self, rank: u32, place: u16, deadline: Instant) -> Result<f64> {
        let (host, port) = self.end(rank, place)?;
        let left = deadline.saturating_duration_since(Instant::now()).min(QUESTION_TIME);
        // In a child, because a host that is frozen hears no question and answers none.
        let answer = within(Patience::unless(left, self.stop), |_| {
            let offset_s = offset_s(host, port, &self.options.key, &AtomicBool::new(false));
            let offset_s = offset_s.map_err(|error| io::Error::other(format!("{error:#}")))?;
            Ok(offset_s.to_string().into_bytes())
        })?;
        String::from_utf8(answer)?.parse().context("the answer is no time")
    }

    /// Where a node serves its near end of this number.
    fn end(&self, rank: u32, place: u16) -> Result<(&str, u16)> {
        let (host, port) = address(&self.options.place.list.hosts[rank as usize])?;
        Ok((host, port.saturating_add(place)))
    }

    /// This binary, on the CPUs of the node.
    fn plumb(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.options.plumb);
        command.arg(subcommand);
        if let Some(cpus) = &self.options.cpus {
            command.args(["--cpu", cpus]);
        }
        command
    }

    /// A far end, for the near end of this number.
    fn agent(&self, place: u16) -> Result<Process> {
        let (host, port) = self.end(self.options.place.rank, place)?;
        let address = host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let mut command = self.plumb("agent");
        command.args(["--listen", &SocketAddr::new(address, port).to_string(), "--key-file"]);
        command.arg(&self.key_file);
        Process::start(command)
    }

    /// A run that prints only errors, and its record.
    fn run(&self, preset: &str, name: &str) -> (Command, PathBuf) {
        let record = self.work.path().join(format!("{name}.jsonl"));
        let mut command = self.plumb("run");
        command.args(["--preset", preset, "--quiet", "--yes", "--wait", "--out"]).arg(&record);
        (command, record)
    }

    fn measure(&mut self) {
        let end = self.instant(self.options.recipe.duration_s(self.slots.len()));
        if let Err(error) = self.alone() {
            self.writer.append(&Line::absent(&error));
        }
        for (slot, what) in (0..).zip(std::mem::take(&mut self.slots)) {
            if !sleep_until(self.instant(self.options.recipe.slot_begin_s(slot)), self.stop) {
                return;
            }
            match what.part(self.options.place.rank) {
                Part::Rests => {}
                Part::Near(far, place) => self.near(slot, &what, far, place),
                Part::Far(nears) => self.far(slot, &nears),
            }
        }
        sleep_until(end, self.stop);
    }

    /// Measures this node by itself: in a step of suspects again and again, where that measures little.
    /// Errors: no figure, and why.
    fn alone(&mut self) -> Result<()> {
        let few = &self.options.place.list.selectors;
        let end = self.instant(self.options.recipe.alone_s - ENDING_S);
        let (mut passes, mut longest) = (Vec::new(), Duration::ZERO);
        while passes.is_empty()
            || !few.is_empty() && end.saturating_duration_since(Instant::now()) > longest
        {
            let began = Instant::now();
            let (figures, absents) = self.pass(end)?;
            longest = longest.max(began.elapsed());
            if passes.is_empty() {
                absents.into_iter().for_each(|absent| self.writer.append(&Line::Absent(absent)));
            }
            passes.push(figures);
        }
        for figure in extract::merged(passes) {
            self.writer.append(&Line::Figure(figure));
        }
        Ok(())
    }

    /// The figures of one run, and what it lacks. Errors: it has no figure, and why.
    fn pass(&self, end: Instant) -> Result<(Vec<Figure>, Vec<Absent>)> {
        let Recipe { preset, selectors, .. } = &self.options.recipe;
        let few = &self.options.place.list.selectors;
        let selectors = if few.is_empty() { selectors } else { few };
        let (mut command, record) = self.run(preset, "alone");
        if let Some(dir) = &self.options.dir {
            command.arg("--dir").arg(dir);
        }
        command.arg("--").args(selectors);
        let said = Process::start(command)?.ended_by(end, self.stop);
        let run = read(&record).with_context(|| said.clone());
        let _ = std::fs::remove_file(&record);
        let run = run?.run;
        let figures = extract::alone(&run);
        ensure!(!figures.is_empty(), "no figure to compare was measured: {said}");
        Ok((figures, extract::absent(&run)))
    }

    /// Measures a pair, and writes the result.
    fn near(&mut self, slot: u32, what: &Slot, far: u32, place: u16) {
        let line = match self.pair(slot, what, far, place) {
            Ok(pair) => Line::Pair(pair),
            Err(error) => Line::absent_pair(slot, &self.host(far), &format!("{error:#}")),
        };
        self.writer.append(&line);
    }

    /// Errors: the partner was not met in time, or no figure was measured.
    fn pair(&self, slot: u32, what: &Slot, far: u32, place: u16) -> Result<Pair> {
        let recipe = &self.options.recipe;
        let begin_s = recipe.slot_begin_s(slot);
        let offset_s = self.meet(far, place, self.instant(begin_s + MEETING * recipe.slot_s))?;
        let selectors = what.selectors(recipe);
        let (mut figures, mut reasons) = (Vec::new(), Vec::new());
        for (window, selector) in selectors.iter().enumerate() {
            let (from_s, to_s) = recipe.window_s(slot, window, selectors.len());
            if !sleep_until(self.instant(from_s), self.stop) {
                bail!("the sweep was interrupted");
            }
            match self.window(what.purpose, far, place, selector, self.instant(to_s)) {
                Ok(measured) => figures.extend(measured),
                Err(error) => reasons.push(format!("{error:#}")),
            }
        }
        ensure!(!figures.is_empty(), "no figure was measured: {}", reasons.join("; "));
        let (end_s, to) = (self.since_s(Instant::now()), self.host(far));
        Ok(Pair { slot, purpose: what.purpose, to, begin_s, end_s, offset_s, figures })
    }

    /// Asks a partner for its clock until it answers. Errors: it did not by this time.
    fn meet(&self, far: u32, place: u16, deadline: Instant) -> Result<f64> {
        loop {
            let asked = self.ask(far, place, deadline);
            let next = Instant::now() + PAUSE;
            match asked {
                Ok(offset_s) => return Ok(offset_s),
                Err(_) if next < deadline && sleep_until(next, self.stop) => {}
                Err(error) => {
                    return Err(error.context("no partner in the first quarter of the slot"));
                }
            }
        }
    }

    /// The figures of one selector between this node and a far end.
    fn window(
        &self,
        purpose: Purpose,
        far: u32,
        place: u16,
        selector: &str,
        deadline: Instant,
    ) -> Result<Vec<Figure>> {
        let preset = if self.options.recipe.preset == "rehearsal" { "rehearsal" } else { "quick" };
        let (mut command, record) = self.run(preset, "pair");
        let (host, port) = self.end(far, place)?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        command.args(["--precision", PAIR_PRECISION, "--peer", &format!("tcp://{host}:{port}")]);
        command.arg("--key-file").arg(&self.key_file);
        if purpose == Purpose::Outcast {
            command.args(PULLS);
        }
        command.args(["--", selector]);
        let said = Process::start(command)?.ended_by(deadline, self.stop);
        let run = read(&record).with_context(|| said.clone());
        let _ = std::fs::remove_file(&record);
        let figures = extract::pair(&run?.run);
        ensure!(!figures.is_empty(), "{selector}: {said}");
        Ok(figures)
    }

    /// Serves the near ends of a slot until its end.
    fn far(&mut self, slot: u32, nears: &[u32]) {
        let recipe = &self.options.recipe;
        let end = self.instant(recipe.slot_begin_s(slot) + recipe.slot_s - ENDING_S / 2.0);
        let near: Vec<String> = nears.iter().map(|rank| self.host(*rank)).collect();
        let mut agents = Vec::new();
        for (place, partner) in (0..).zip(&near) {
            match self.agent(place) {
                Ok(agent) => agents.push(agent),
                Err(error) => {
                    self.writer.append(&Line::absent_pair(slot, partner, &format!("{error:#}")));
                }
            }
        }
        sleep_until(end, self.stop);
        let said: Vec<String> = agents.iter_mut().map(Process::said).collect();
        let sessions: usize = said.iter().map(|said| said.matches(SESSION).count()).sum();
        if sessions == 0 {
            let last = said.iter().find_map(|said| said.lines().last()).unwrap_or_default();
            let why = format!("no near end came; the agent said: {last}");
            self.writer.append(&Line::absent_pair(slot, &near.join(", "), &why));
        }
        drop(agents);
        let sessions = u32::try_from(sessions).unwrap_or(u32::MAX);
        self.writer.append(&Line::Served(Served { slot, near, sessions }));
    }
}

#[cfg(test)]
mod tests {
    use super::middle;

    #[test]
    fn one_clock_alone_moves_no_node() {
        let table: [(&[f64], f64); 6] = [
            (&[3600.0], 0.0),
            (&[0.2, 3600.0], 0.2),
            (&[-3600.0, -3600.2], -3600.0),
            (&[0.1, 3600.0, 0.2], 0.1),
            (&[3600.0, 3600.1, 0.1], 0.1),
            (&[3600.0, 3600.1, 3600.2], 3600.0),
        ];
        for (offsets, expected) in table {
            let answers: Vec<(u32, f64)> = (1..).zip(offsets.iter().copied()).collect();
            assert!((middle(&answers) - expected).abs() < 1e-9, "{offsets:?}");
        }
    }
}
