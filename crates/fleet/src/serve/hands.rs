//! What a node does itself: it starts its own binary, waits for it, and reads the record. Orders
//! choose among these commands; what they carry is checked against the catalogue first.

use super::extract;
use super::options::Options;
use crate::drawn::Drawn;
use crate::recipe::is_rate;
use crate::wire::{OneTime, Order, Report};
use anyhow::{Context, Error, Result, bail, ensure};
use metal::process::{dying_with_parent, in_new_session, kill, kill_group};
use metal::wait::Want;
use record::order::InOrder;
use session::agent::key::Key;
use session::agent::message::printable;
use session::machine::TOKEN;
use session::select::Selection;
use session::store::file::{self, There};
use session::store::journal::WorkDir;
use session::store::{Store, read};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Presets that a run may have.
const PRESETS: [&str; 4] = ["rehearsal", "quick", "standard", "thorough"];
/// A child that is to end may undo what it changed in this time.
const ENDING: Duration = Duration::from_secs(5);
/// Bytes kept of what a child says.
const SAID_MAX: usize = 4096;
/// What an agent says once it listens.
const LISTENS: &str = "listening at ";
const SIGTERM: i32 = 15;
/// A pair's figure is precise enough at this half width of its interval, in percent: a third of the
/// least difference for which a network figure is accused.
const PAIR_PRECISION: &str = "5";
/// The far end sends.
const PULLS: [&str; 2] = ["--set", "net.bandwidth.direction=down"];
/// Most near ends of one far end.
const NEARS_MAX: u32 = 64;

/// What executes the orders of a node.
pub struct Hands<'a> {
    options: &'a Options,
    /// Where the records of this sweep are.
    records: PathBuf,
    /// For keys and records that do not stay; absent where figures are drawn.
    work: Option<WorkDir>,
    running: Option<Running>,
}

/// An order that is executed.
struct Running {
    order: u64,
    task: Task,
    /// One, that of a far end for each near end; none where figures are drawn.
    processes: Vec<Process>,
    deadline: Instant,
}

enum Task {
    /// A report that is drawn.
    Drawn(Report),
    /// A run of this node, with its record and the number of the repetition.
    Alone(PathBuf, u32),
    /// Agents with these keys, and whether it is reported that they listen.
    Far(Vec<OneTime>, bool),
    /// A run toward an agent, with its record.
    Near(PathBuf),
}

/// A child. It is ended when this is dropped.
struct Process {
    child: Child,
    /// Open until it ends.
    stderr: Option<ChildStderr>,
    said: Vec<u8>,
}

impl<'a> Hands<'a> {
    /// For a sweep of this name. Errors: the name cannot be a directory's, or the directories cannot
    /// be made.
    pub fn new(options: &'a Options, sweep: &str, stop: &AtomicBool) -> Result<Hands<'a>> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        ensure!(
            !sweep.is_empty()
                && sweep.len() <= 100
                && !sweep.starts_with('.')
                && sweep.chars().all(is_plain),
            "rank 0 named the sweep {:?}, which cannot be a directory's name",
            printable(sweep)
        );
        // Where this node is killed, the next one removes it.
        let make = || WorkDir::make(&Store::here(), &std::env::temp_dir(), sweep, &[], stop);
        let work = options.drawn.is_none().then(make).transpose();
        let work = work.context("cannot make a work directory; set TMPDIR")?;
        let records = std::path::absolute(options.records.join(sweep))?;
        Ok(Hands { options, records, work, running: None })
    }

    /// Begins an order, in place of what runs; what is to be reported at once.
    pub fn start(&mut self, order: u64, what: Order) -> Option<Report> {
        self.end();
        match self.begun(order, what) {
            Ok(Ok(running)) => {
                self.running = Some(running);
                None
            }
            Ok(Err(report)) => report,
            Err(error) => Some(failed(order, &error)),
        }
    }

    /// What runs now, or what is to be reported instead.
    fn begun(&self, order: u64, what: Order) -> Result<Result<Running, Option<Report>>> {
        if let Some(drawn) = &self.options.drawn {
            return Ok(self.drawn(drawn, order, &what));
        }
        let (task, processes, within_s) = match what {
            Order::Rest | Order::Leave { .. } => return Ok(Err(None)),
            Order::Gather => return Ok(Err(Some(Report::Gathered { order }))),
            Order::Alone { preset, selectors, again, within_s } => {
                let record = self.free_record(again)?;
                let mut command = self.run(&preset, &record)?;
                if let Some(dir) = &self.options.dir {
                    command.arg("--dir").arg(dir);
                }
                self.select(&mut command, &selectors)?;
                (Task::Alone(record, again), vec![spawned(command)?], within_s)
            }
            Order::Listen { within_s, nears, .. } => {
                ensure!((1..=NEARS_MAX).contains(&nears), "{nears} near ends are too many");
                let agents = (0..nears).map(|near| self.agent(&format!("{order}-{near}")));
                let agents: Vec<(Process, OneTime)> = agents.collect::<Result<_>>()?;
                let (processes, keys) = agents.into_iter().unzip();
                (Task::Far(keys, false), processes, within_s)
            }
            Order::Reach { at, key, token, preset, selectors, pulls, within_s, .. } => {
                let key = Key::parse(&key.0).context("the far end's key is damaged")?;
                let file = self.key_file(&order.to_string(), &key)?;
                let record = self.work()?.join(format!("pair-{order}.jsonl"));
                let mut command = self.run(&preset, &record)?;
                command.envs(token.map(|token| (TOKEN, token)));
                command.args(["--precision", PAIR_PRECISION, "--peer", &format!("tcp://{at}")]);
                command.arg("--key-file").arg(file);
                if pulls && selectors.iter().any(|selector| is_rate(selector)) {
                    command.args(PULLS);
                }
                self.select(&mut command, &selectors)?;
                (Task::Near(record), vec![spawned(command)?], within_s)
            }
        };
        let within = Duration::try_from_secs_f64(within_s).context("an order without a time")?;
        Ok(Ok(Running { order, task, processes, deadline: Instant::now() + within }))
    }

    fn drawn(&self, drawn: &Drawn, order: u64, what: &Order) -> Result<Running, Option<Report>> {
        let report = drawn.report(self.options.place.rank, order, what).ok_or(None)?;
        if drawn.takes().is_zero() || matches!(what, Order::Listen { .. } | Order::Gather) {
            return Err(Some(report));
        }
        let (task, deadline) = (Task::Drawn(report), Instant::now() + drawn.takes());
        Ok(Running { order, task, processes: Vec::new(), deadline })
    }

    /// This binary, on the CPUs of the node.
    fn plumb(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.options.plumb);
        command.arg(subcommand).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(cpus) = &self.options.cpus {
            command.args(["--cpu", cpus]);
        }
        command
    }

    /// A run that prints only errors.
    fn run(&self, preset: &str, record: &Path) -> Result<Command> {
        ensure!(PRESETS.contains(&preset), "this plumb has no preset {:?}", printable(preset));
        let mut command = self.plumb("run");
        command.args(["--preset", preset, "--quiet", "--yes", "--wait", "--out"]).arg(record);
        Ok(command)
    }

    /// Appends selectors that the catalogue has.
    fn select(&self, command: &mut Command, selectors: &[String]) -> Result<()> {
        Selection::parse(selectors, self.options.catalogue)?;
        command.arg("--").args(selectors);
        Ok(())
    }

    /// A file name for this node's own record.
    fn free_record(&self, again: u32) -> Result<PathBuf> {
        std::fs::create_dir_all(&self.records)
            .with_context(|| format!("cannot make {}", self.records.display()))?;
        let rank = self.options.place.rank;
        let names = (again..again + 1000).map(|number| match number {
            0 => format!("node-{rank}.jsonl"),
            number => format!("node-{rank}-{number}.jsonl"),
        });
        let free = names.map(|name| self.records.join(name)).find(|path| !path.exists());
        free.with_context(|| format!("too many records in {}", self.records.display()))
    }

    fn work(&self) -> Result<&Path> {
        self.work.as_ref().map(WorkDir::path).context("figures are drawn")
    }

    /// Starts the far end of a pair.
    fn agent(&self, name: &str) -> Result<(Process, OneTime)> {
        let key = Key::random()?;
        let file = self.key_file(name, &key)?;
        let at = SocketAddr::new(self.options.address()?, 0).to_string();
        let mut command = self.plumb("agent");
        command.args(["--listen", &at, "--key-file"]).arg(file);
        Ok((spawned(command)?, OneTime(key.digits())))
    }

    fn key_file(&self, name: &str, key: &Key) -> Result<PathBuf> {
        let path = self.work()?.join(format!("key-{name}"));
        let digits = key.digits() + "\n";
        file::make(&path, file::SECRET, There::Replaced, |file| file.write_all(digits.as_bytes()))
            .context("cannot write the key of a pair")?;
        Ok(path)
    }

    /// What to wait for.
    pub fn wants(&self) -> Vec<Want<'_>> {
        let running = self.running.iter();
        running.flat_map(|running| &running.processes).filter_map(Process::want).collect()
    }

    /// When to look without anything's having arrived.
    pub fn deadline(&self) -> Option<Instant> {
        self.running.as_ref().map(|running| running.deadline)
    }

    /// Looks at what runs, after a wait; what is to be reported.
    pub fn attend(&mut self) -> Option<Report> {
        let mut running = self.running.take()?;
        let is_late = Instant::now() >= running.deadline;
        let order = running.order;
        running.processes.iter_mut().for_each(Process::listen);
        if let Task::Far(keys, is_reported @ false) = &mut running.task {
            let doors = running.processes.iter().zip(&*keys);
            let door =
                |(process, key): (&Process, &OneTime)| Some((process.listening()?, key.clone()));
            if let Some(doors) = doors.map(door).collect() {
                *is_reported = true;
                self.running = Some(running);
                return Some(Report::Listening { order, doors });
            }
        }
        if !is_late && !running.processes.iter().any(Process::is_closed) {
            self.running = Some(running);
            return None;
        }
        let ended = running.ended(self.options.place.rank, is_late);
        Some(ended.unwrap_or_else(|error| failed(order, &error)))
    }

    /// Ends what runs.
    pub fn end(&mut self) {
        // A child is ended when it is dropped.
        self.running = None;
    }
}

fn spawned(mut command: Command) -> Result<Process> {
    let mut child = dying_with_parent(in_new_session(&mut command))
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let stderr = child.stderr.take();
    Ok(Process { child, stderr, said: Vec::new() })
}

fn failed(order: u64, error: &Error) -> Report {
    Report::Failed { order, why: printable(&format!("{error:#}")) }
}

impl Running {
    /// What a child that ended (or whose time is over) has measured. Errors: nothing, and why.
    fn ended(mut self, rank: u32, is_late: bool) -> Result<Report> {
        let order = self.order;
        // One that has ended comes first; else one whose time is over.
        self.processes.order_by_key(|process| !process.is_closed());
        let why = self.processes.first_mut().map(|process| process.last_words(is_late));
        let why = why.unwrap_or_default();
        match self.task {
            Task::Drawn(report) => Ok(report),
            Task::Far(..) => bail!("the far end ended: {why}"),
            Task::Alone(path, again) => {
                let run = read(&path).with_context(|| why.clone())?.run;
                let figures = extract::alone(&run, rank, again);
                ensure!(!figures.is_empty(), "no figure to compare was measured; {why}");
                let absent = extract::absent(&run);
                Ok(Report::Alone { order, figures, absent, record: path.display().to_string() })
            }
            Task::Near(path) => {
                let run = read(&path).with_context(|| why.clone());
                let _ = std::fs::remove_file(&path);
                let figures = extract::pair(&run?.run, rank);
                ensure!(!figures.is_empty(), "no figure was measured; {why}");
                Ok(Report::Pair { order, figures })
            }
        }
    }
}

impl Process {
    fn want(&self) -> Option<Want<'_>> {
        self.stderr.as_ref().map(|stderr| Want::Readable(stderr.as_fd()))
    }

    /// Takes what it said, without waiting.
    fn listen(&mut self) {
        let mut piece = [0; SAID_MAX];
        while let Some(stderr) = &mut self.stderr
            && metal::wait::readable(stderr.as_fd(), Duration::ZERO).unwrap_or(false)
        {
            match stderr.read(&mut piece) {
                Ok(read @ 1..) => self.said.extend(&piece[..read]),
                _ => self.stderr = None,
            }
        }
        self.said.drain(..self.said.len().saturating_sub(SAID_MAX));
    }

    /// Whether it has closed its stream: it has ended.
    fn is_closed(&self) -> bool {
        self.stderr.is_none()
    }

    /// Where an agent listens, once it has said so.
    fn listening(&self) -> Option<SocketAddr> {
        let said = String::from_utf8_lossy(&self.said);
        let line =
            said.lines().find_map(|line| Some(line.split_once(LISTENS)?.1.trim().to_owned()));
        line?.parse().ok()
    }

    /// Ends it where it runs, and waits for its end; why it ended, and what it said last.
    fn last_words(&mut self, is_late: bool) -> String {
        let status = self.finish();
        self.listen();
        let said = String::from_utf8_lossy(&self.said);
        let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = printable(said.last().copied().unwrap_or("it gave no reason"));
        match (is_late, status) {
            (true, _) => format!("its time was over: {last}"),
            (false, Some(status)) => format!("it ended with {status}: {last}"),
            (false, None) => format!("it cannot be ended: {last}"),
        }
    }

    fn finish(&mut self) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status);
        }
        if !self.is_closed() {
            let _ = kill(self.child.id(), SIGTERM);
        }
        let status = self.wait(ENDING);
        if status.is_none() {
            let _ = kill_group(self.child.id());
            return self.wait(ENDING);
        }
        status
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => {
                    // Its last words must have room.
                    self.listen();
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.finish();
    }
}
